"""Thinking without a model: it selects sentences and never writes any."""
