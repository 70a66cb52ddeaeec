"""Patterns, compiled when they are needed, and the places that they find."""

from __future__ import annotations

import re
from functools import cache

from .values import is_placeholder

#: Where a secret begins and ends in a text, and its kind.
Place = tuple[int, int, str]


# Compiled on first use: compiling them all takes longer than a whole hook may.
@cache
def compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def shaped(text: str, kind: str, pattern: str) -> list[Place]:
    """The matches of a pattern, or of the group that is the secret in it."""
    return [
        (*match.span(match.lastindex or 0), kind)
        for match in compiled(pattern).finditer(text)
        if not is_placeholder(match[match.lastindex or 0])
    ]
