"""Dreaming: while nobody talks, what happened becomes what is known."""
