"""The brief: what a session starts with."""
