"""Adapters: the call signatures of other systems, over Engram. They hold no logic and use the facade only."""
