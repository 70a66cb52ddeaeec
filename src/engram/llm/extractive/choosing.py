"""Chooses the most informative sentences of passages.

The weight of a sentence is the sum of its words' weights. The weight of a word is the square root of the number of
sentences that contain it, because a session is about what recurs in it. Names and numbers weigh more, common words very
little. A sentence with a decision, a preference, a lesson or an open question weighs more, and the speaker matters too.
Sentences are chosen one by one. A word that is already covered counts a third, so that the next sentence adds something
new.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from ... import sentences, tokens
from ..protocol import Passage
from . import markers
from .quotes import OLD_TOPICS
from .terms import Analyser, Word

_AGAIN: Final = 0.3
_FILLER: Final = 0.1
_PARTICULAR: Final = 1.5
_BY_ROLE: Final = {"assistant": 0.9, "tool": 0.25, "system": 0.25, "log": 0.25}
_BY_KIND: Final = {"decision": 1.3, "preference": 1.2, "lesson": 1.2, "todo": 1.2, "fact": 1.1}
#: The beginning of a session often says what it is for.
_AT_THE_START: Final = 1.3
_OPEN_AT_THE_END: Final = 1.3
_BEGINNING: Final = 3
#: More words than this do not increase the weight of a sentence.
_LONG: Final = 25
#: Tokens of the speaker's name before a sentence, roughly.
_SPEAKER: Final = 6

#: The beginning of a line of a gist of an earlier release: the day, and the speaker or the session.
_OLD_PREFIX: Final = re.compile(
    r"^(?:\d{4}-\d\d-\d\d )?(?:user|assistant|system|tool|log|session \d{4}-\d\d-\d\d)(?: \d{4}-\d\d-\d\d)?: "
)


class Line(NamedTuple):
    """A sentence that may be chosen."""

    #: The id of its passage.
    source: str
    text: str
    role: str
    words: tuple[Word, ...]


def read(passages: Iterable[Passage], analyser: Analyser) -> list[Line]:
    """The sentences of the passages in order."""
    return [
        Line(passage.id, text, passage.role, tuple(analyser.words(text)))
        for passage in passages
        for text in _passage_sentences(passage)
    ]


def weights(lines: Sequence[Line]) -> dict[str, float]:
    """The weight of each word in these lines."""
    said = Counter(term for line in lines for term in {word.term for word in line.words})
    words = [word for line in lines for word in line.words]
    particular = {word.term for word in words if word.particular}
    telling = {word.term for word in words if word.telling}
    return {
        term: math.sqrt(count) * (1 if term in telling else _FILLER) * (_PARTICULAR if term in particular else 1)
        for term, count in said.items()
    }


def choose(
    lines: Sequence[Line],
    room: int,
    max_tokens: int,
    preferred: Callable[[Line], float] = lambda line: 1.0,
) -> list[Line]:
    """The best sentences, in the order of the passages. Of two equal ones, the earlier is better."""
    worth = weights(lines)
    by_line = [_line_factor(line, position, len(lines)) * preferred(line) for position, line in enumerate(lines)]
    terms = [{word.term for word in line.words} for line in lines]
    costs = [tokens.estimate(line.text) + _SPEAKER for line in lines]
    seen: Counter[str] = Counter()

    def gain(position: int) -> float:
        # An exact sum: the order of a set differs from process to process, and so would the last bits.
        return by_line[position] * math.fsum(worth[term] * _AGAIN ** seen[term] for term in terms[position])

    chosen: list[int] = []
    left = max_tokens
    # If none fits, choose one anyway.
    candidates = [position for position, cost in enumerate(costs) if cost <= left] or list(range(len(lines)))
    while candidates and len(chosen) < room:
        gains = {position: gain(position) for position in candidates}
        best = max(candidates, key=lambda position: (gains[position], -position))
        if chosen and not gains[best]:
            break
        chosen.append(best)
        seen.update(terms[best])
        left -= costs[best]
        candidates = [position for position in candidates if position != best and costs[position] <= left]
    return [lines[position] for position in sorted(chosen)]


def _line_factor(line: Line, position: int, of: int) -> float:
    found = markers.kind(line.text)
    factor = _BY_ROLE.get(line.role, 1.0) * (_BY_KIND[found] if found else 1.0)
    if position < _BEGINNING:
        factor *= _AT_THE_START
    if position >= of - max(2, of // 10) and markers.is_open(line.text):
        # A question near the end is probably not answered.
        factor *= _OPEN_AT_THE_END
    return factor / math.sqrt(max(1.0, len(line.words) / _LONG))


def _passage_sentences(passage: Passage) -> Iterator[str]:
    if passage.role:
        yield from sentences.split(passage.text) or _first_line(passage.text)
        return
    # A text that Engram made, such as a gist.
    for line in passage.text.splitlines():
        old = _OLD_PREFIX.match(line)
        if old:
            yield line[old.end() :]
        elif not line.startswith(OLD_TOPICS):
            yield from sentences.split(line)


def _first_line(text: str) -> list[str]:
    """The first line of a text that is only code."""
    return [" ".join(line.split())[: sentences.LONGEST] for line in text.splitlines() if line.strip(" `~\t")][:1]
