"""Patterns, compiled when they are needed."""

from __future__ import annotations

import re
from functools import cache

#: Where a secret begins and ends in a text, and its kind.
Span = tuple[int, int, str]
#: One of these is in every name that announces a secret. The first are of what people choose, the others of what
#: machines make.
STEMS = ("pass", "pwd", "secret", "token", "key", "auth", "cred")
CHOSEN_STEMS = STEMS[:3]


# Compiled on first use: compiling them all takes longer than a whole hook may.
@cache
def compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
