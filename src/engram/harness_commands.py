"""Commands that a person gives to a harness itself. They ask nothing of the agent."""

from __future__ import annotations

from typing import Final

_NAMES: Final = """
add-dir agents bashes bug chat clear color compact compress config context copy cost directory doctor effort exit export
extra-usage fast feedback fork help hooks ide init insights keybindings login logout mcp memory model mouse new
output-style passes permissions plan plugin plugins privacy-settings quit rate-limit-options release-notes reload
remote-env rename resume rewind sandbox settings skills stats status statusline stickers tasks terminal-setup theme
todos tools upgrade usage vim
"""
CONTROLS: Final = frozenset(_NAMES.split())
