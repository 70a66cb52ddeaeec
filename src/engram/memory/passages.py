"""Cuts a text to the passage that fits a question: whole sentences or lines, as many as are read at a glance."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from . import analyser

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Characters of a passage. A text of a few more is not cut.
LONGEST: Final = 480
_NOT_WORTH_A_CUT: Final = 80
#: Characters at the beginning of a piece that may be the rest of a sentence.
_FRAGMENT: Final = 120
#: The ends of lines, and of sentences that are followed by another one.
_BREAK: Final = re.compile(r"\n+\s*|(?<=[.!?])\s+|(?<=[。！？])(?![。！？」』”）])\s*|(?<=[。！？][」』”）])\s*")
_SPACE: Final = re.compile(r"\s")
_CUT: Final = "…"


def of_piece(text: str, start: int, piece: str, weights: Mapping[str, float]) -> str:
    """The passage of a text within one of its pieces, which begins at `start`.

    A piece begins and ends in the middle of a sentence, or even of a word. A short one is left out.
    """
    first, last = 0, len(piece)
    if start:
        end = _BREAK.search(piece, 0, _FRAGMENT) or _SPACE.search(piece, 0, _FRAGMENT)
        first = end.end() if end else 0
    more = start + len(piece) < len(text.rstrip())
    if more:
        ends = [mark.start() for mark in _BREAK.finditer(piece, max(first, last - _FRAGMENT))]
        last = ends[-1] if ends else last
    cut = passage(piece[first:last], weights)
    before = _CUT if start and not cut.startswith(_CUT) else ""
    after = _CUT if more and not cut.endswith(_CUT) else ""
    return f"{before}{cut}{after}"


def passage(text: str, weights: Mapping[str, float], longest: int = LONGEST) -> str:
    """The part of a text that covers most of a question's terms; its beginning if it contains none of them.

    What is left out is marked with "…".
    """
    if len(text) <= longest + _NOT_WORTH_A_CUT:
        return text
    spans = _spans(text, longest)
    found = [{term for term in analyser.terms(text[start:end]) if term in weights} for start, end in spans]
    first, last = _without_idle_start(found, *_best(spans, found, weights, longest))
    while last + 1 < len(spans) and spans[last + 1][1] - spans[first][0] <= longest:
        last += 1
    begin, end = spans[first][0], spans[last][1]
    cut = text[begin:end].strip()
    return f"{_CUT if begin else ''}{cut}{_CUT if end < len(text.rstrip()) else ''}"


def _best(
    spans: list[tuple[int, int]], found: list[set[str]], weights: Mapping[str, float], longest: int
) -> tuple[int, int]:
    """The first and last sentence of the passage that covers most. Linear: a text may be a million short sentences."""
    covered: Counter[str] = Counter()
    worth, best, chosen = 0.0, -1.0, (0, 0)
    end = 0
    for first, (start, _) in enumerate(spans):
        while end < len(spans) and (end <= first or spans[end][1] - start <= longest):
            worth += sum(weights[term] for term in sorted(found[end]) if not covered[term])
            covered.update(found[end])
            end += 1
        if worth > best + 1e-9:
            best, chosen = worth, (first, end - 1)
        covered.subtract(found[first])
        worth -= sum(weights[term] for term in sorted(found[first]) if not covered[term])
    return chosen


def _without_idle_start(found: list[set[str]], first: int, last: int) -> tuple[int, int]:
    """The passage from one sentence before the first that contains a term, so that what follows it has room."""
    telling = next((place for place in range(first, last + 1) if found[place]), first)
    return max(first, telling - 1), last


def _spans(text: str, longest: int) -> list[tuple[int, int]]:
    """The sentences and lines of a text. A longer one is cut between words."""
    spans: list[tuple[int, int]] = []
    start = 0
    for mark in [*_BREAK.finditer(text), None]:
        end = len(text) if mark is None else mark.start()
        while end - start > longest:
            space = text.rfind(" ", start + longest // 2, start + longest)
            middle = space if space > 0 else start + longest
            spans.append((start, middle))
            start = middle
        if text[start:end].strip():
            spans.append((start, end))
        start = end if mark is None else mark.end()
    return spans or [(0, min(len(text), longest))]
