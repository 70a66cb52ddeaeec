"""The ways in: the command line so far."""
