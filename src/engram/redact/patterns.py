"""What the modules of this package share: spans, stems of names, and patterns compiled on first use."""

from __future__ import annotations

import re
from functools import cache

#: A secret in a text: start, end and kind.
Span = tuple[int, int, str]
#: Every name that means a secret contains one of these stems. People choose the values of the first three; machines
#: make the values of the others.
STEMS = ("pass", "pwd", "secret", "token", "key", "auth", "cred")
PASSWORD_STEMS = STEMS[:3]


# Compiled on first use: compiling all of them takes longer than a hook may run.
@cache
def compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
