"""Checks that recall finds after a pass what it found before it."""
