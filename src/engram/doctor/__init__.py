"""Checks of what a store has in its tables, and mending of what can safely be mended."""
