"""Thinking without a model: it picks sentences, and never writes one."""
