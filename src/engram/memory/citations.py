"""Which sentence of a derived text came from where.

A line of a derived block names its sources at its end, `[e12, m7]`: exchange 12, memory 7. Where lines name none, a
sentence is traced by its words: it came from a text that has it, whatever its case and spacing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..sentences import parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .provenance import Thing

_HANDLES = re.compile(r"(?<![ \t])[ \t]*+\[([a-z]\d++(?:, ?[a-z]\d++)*+)\][ \t]*+$")
#: A sentence at least this long says something that is recognised again; "ok" is in everything.
TELLING = 12
_LETTERS = {"exchange": "e", "memory": "m", "block": "b"}


def handle(thing: Thing) -> str:
    """How a line names its source: `e12`."""
    return f"{_LETTERS[thing[0]]}{thing[1]}"


def cited(line: str, handles: Iterable[str]) -> str:
    """The line with its sources at its end."""
    named = ", ".join(handles)
    return f"{line} [{named}]" if named else line


def handles(line: str) -> list[str]:
    """The sources a line names."""
    found = _HANDLES.search(line)
    return [each.strip() for each in found[1].split(",")] if found else []


def bare(line: str) -> str:
    """The line without its sources."""
    return _HANDLES.sub("", line)


class Sieve:
    """Lets through what the lost texts do not have, or what the kept ones have as well."""

    def __init__(self, lost: Sequence[str], kept: Iterable[str]) -> None:
        self._lost = [f" {plain(text)} " for text in lost]
        self._kept = [f" {plain(text)} " for text in kept]
        #: The sentences of the lost texts that are recognised again, and by their first words how long they are.
        self._telling: set[str] = set()
        self._lengths: dict[str, set[int]] = {}
        for words in (plain(sentence) for text in lost for sentence in parts(text)):
            if len(words) >= TELLING:
                self._telling.add(words)
                self._lengths.setdefault(words.partition(" ")[0], set()).add(words.count(" ") + 1)

    def holds(self, sentence: str) -> bool:
        """Whether the sentence may have come from a lost text, and from nowhere else."""
        words = plain(sentence)
        within = f" {words} "
        if not words or any(within in text for text in self._kept):
            return False
        # Either way round: a derived sentence may also be one of a source's with something around it.
        return any(within in text for text in self._lost) or self._has_telling(words.split(" "))

    def _has_telling(self, words: list[str]) -> bool:
        return any(
            " ".join(words[start : start + length]) in self._telling
            for start, first in enumerate(words)
            for length in self._lengths.get(first, ())
        )

    def rest(self, text: str) -> str:
        """The text without the sentences that are held back; unchanged when none is."""
        found = parts(text)
        left = [part for part in found if not self.holds(part)]
        return text if len(left) == len(found) else "\n".join(left)


def plain(text: str) -> str:
    """The words of a text alone."""
    # Punctuation and who said it may differ between a text and a sentence made of it; the words do not.
    return " ".join(re.findall(r"\w+", text.casefold()))
