"""Which sentence of a derived text came from which source.

A line of a derived block names its sources at its end, `[e12, m7]`: exchange 12, memory 7. A sentence without such a
list is traced by its words: it came from a text that contains them, in any case and spacing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..sentences import parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .provenance import Thing

_HANDLES = re.compile(r"(?<![ \t])[ \t]*+\[([a-z]\d++(?:, ?[a-z]\d++)*+)\][ \t]*+$")
#: A sentence at least this long can be recognised by its words; "ok" is in everything.
TELLING = 12
_LETTERS = {"exchange": "e", "memory": "m", "block": "b"}


def handle(thing: Thing) -> str:
    """How a line names its source: `e12`."""
    kind, id = thing
    return f"{_LETTERS[kind]}{id}"


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


class SourceMatcher:
    """Recognises sentences that are in the lost texts and in none of the kept ones."""

    def __init__(self, lost: Sequence[str], kept: Iterable[str]) -> None:
        self._lost = [f" {plain(text)} " for text in lost]
        self._kept = [f" {plain(text)} " for text in kept]
        #: The recognisable sentences of the lost texts, and their lengths in words by their first word.
        self._telling: set[str] = set()
        self._lengths: dict[str, set[int]] = {}
        for words in (plain(sentence) for text in lost for sentence in parts(text)):
            if len(words) >= TELLING:
                self._telling.add(words)
                self._lengths.setdefault(words.partition(" ")[0], set()).add(words.count(" ") + 1)

    def came_from_lost(self, sentence: str) -> bool:
        """Whether the sentence may come from a lost text, and from no kept one."""
        words = plain(sentence)
        within = f" {words} "
        if not words or any(within in text for text in self._kept):
            return False
        # Both directions: a derived sentence may also be a source's sentence with something around it.
        return any(within in text for text in self._lost) or self._contains_telling(words.split(" "))

    def _contains_telling(self, words: list[str]) -> bool:
        return any(
            " ".join(words[start : start + length]) in self._telling
            for start, first in enumerate(words)
            for length in self._lengths.get(first, ())
        )

    def remove_lost(self, text: str) -> str:
        """The text without sentences that came from a lost text; unchanged when there are none."""
        found = parts(text)
        left = [part for part in found if not self.came_from_lost(part)]
        return text if len(left) == len(found) else "\n".join(left)


def plain(text: str) -> str:
    """The words of a text alone."""
    # Punctuation and the speaker's name may differ between a text and a sentence made of it. The words do not.
    return " ".join(re.findall(r"\w+", text.casefold()))
