"""Forgetting: deletes what is named, and everything that was made of it alone."""
