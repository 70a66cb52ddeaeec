"""What a person tells a harness itself, which asks nothing of the agent, and what a harness adds to a prompt."""

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

#: What a harness writes above a plan that the person has accepted.
_PLAN: Final = "Implement the following plan:"


def without_plan_lead(prompt: str) -> str:
    """A prompt without the words above an accepted plan, which has a title of its own."""
    return prompt.lstrip().removeprefix(_PLAN).lstrip() or prompt
