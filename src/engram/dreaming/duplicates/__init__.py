"""Finds statements that say the same, and statements that contradict each other."""
