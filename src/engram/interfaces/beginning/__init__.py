"""The first minutes: which agents are here, and what came of a session of theirs.

`engram init` is made of this. Nothing here asks or prints; `interfaces.cli.init` does.
"""
