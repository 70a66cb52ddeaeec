"""What a pass changed, and how it is undone."""
