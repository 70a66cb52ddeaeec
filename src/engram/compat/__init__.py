"""Adapters: the call signatures of other systems and frameworks, on the facade. They hold no logic of their own."""
