"""Adapters: the calls of other systems and frameworks, on Engram. Each module needs only its own framework."""
