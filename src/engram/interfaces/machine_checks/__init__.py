"""Checks of this machine for `engram doctor`: settings, hooks, harnesses and sockets. The store has its own."""
