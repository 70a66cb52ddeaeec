"""Which lines of a prompt the person wrote: prose, not code and not a program's output."""

from __future__ import annotations

import re
from typing import Final

_AROUND_WORDS: Final = ".,:;!?()[]\"'`*_“”‘’…"
_PROSE_WORDS: Final = 3
#: Beginnings of lines that are no prose: an indent, a section of a plan, a shell's prompt, a place in a file, a symbol.
_NO_PROSE: Final = re.compile(r"\A(?:\t|  +(?![-*+\d])|#{2,6} |\[|\d{4}[/-]\d\d|\S{1,200}?:\d|[^\w\s#>`\"'“(@*+/~.-])")


def own_words(prompt: str) -> str:
    """The lines of a prompt that the person wrote: prose, not code and not a program's output."""
    return "\n".join(line for line in prompt.split("\n") if not line.strip() or is_prose(line))


def is_prose(line: str) -> bool:
    """Whether a line reads like a sentence: it begins like one, and most of it is plain words."""
    words = line.split()
    plain = sum(1 for word in words if word.strip(_AROUND_WORDS).replace("'", "").replace("-", "").isalpha())
    return plain >= _PROSE_WORDS and plain >= 0.6 * len(words) and not _NO_PROSE.match(line)
