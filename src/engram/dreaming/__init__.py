"""Dreaming: turns what was said and done into memories, summaries and the portrait, in the background."""
