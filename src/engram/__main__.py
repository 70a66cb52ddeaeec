"""`python -m engram` is the command `engram`."""

from .interfaces.cli import main

main()
