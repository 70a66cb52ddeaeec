"""Gists without a model: the most informative sentences, and the topics that did not fit.

The weight of a sentence is the sum of its words' weights. The weight of a word is the square root of the number of
sentences that contain it, because a session is about what recurs in it. Names and numbers weigh more, common words very
little. A sentence with a decision, a preference, a lesson or an open question weighs more, and the speaker matters too.
Sentences are chosen one by one. A word that is already covered counts a third, so that the next sentence adds something
new. The chosen sentences keep their order.

A last line, `Also: …`, names what else came up. Measured on LoCoMo (the right session among the first five gists, found
by words): sentences alone 71 of 100, with these words 81, against 88 for the whole text at three times the length.

Lines of earlier gists are sentences like others: old and new compete for the same eight places.
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
from .terms import Analyser, Word

LEAST: Final = 4
MOST: Final = 8
#: One line of a gist for this many sentences of the session.
_PER_LINE: Final = 5
ALSO: Final = "Also: "
_ALSO_WORDS: Final = 25
_INDEX_WORDS: Final = 60

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

#: The beginning of a line of a gist: the day, and the speaker or the session.
_PREFIX: Final = re.compile(
    r"^(?:\d{4}-\d\d-\d\d )?(?:user|assistant|system|tool|log|session \d{4}-\d\d-\d\d)(?: \d{4}-\d\d-\d\d)?: "
)


class Line(NamedTuple):
    """A sentence that may become a line of a gist."""

    #: The number of its passage.
    source: str
    #: `2023-05-07 user: `, or empty.
    prefix: str
    text: str
    role: str
    words: tuple[Word, ...]
    #: Whether it is from a gist.
    derived: bool

    @property
    def whole(self) -> str:
        return self.prefix + self.text

    @property
    def day(self) -> str:
        found = re.search(r"\d{4}-\d\d-\d\d", self.prefix)
        return found[0] if found else ""


class Read(NamedTuple):
    """The sentences of the passages in order, and the topics that did not fit into earlier gists."""

    lines: list[Line]
    also: list[Word]


def read(passages: Iterable[Passage], analyser: Analyser) -> Read:
    found = Read([], [])
    for passage in passages:
        for prefix, text in _passage_sentences(passage):
            if not passage.role and text.startswith(ALSO):
                found.also.extend(analyser.words(text.removeprefix(ALSO)))
            else:
                role = passage.role or _role(prefix)
                words = tuple(analyser.words(text))
                found.lines.append(Line(passage.id, prefix, text, role, words, not passage.role))
    return found


def gist(passages: Sequence[Passage], known: Sequence[Passage], max_tokens: int) -> str:
    """The lines of a gist; empty only if there is no text at all."""
    analyser = Analyser()
    old, new = read(known, analyser), read(passages, analyser)
    found = Read(old.lines + new.lines, old.also + new.also)
    worth = weights(found)
    chosen = choose(found.lines, worth, _room(found.lines), max_tokens)
    lines = [found.lines[position].whole for position in sorted(chosen)]
    covered = {word.term for position in chosen for word in found.lines[position].words}
    also = left_over(found, worth, covered)
    if also and tokens.estimate("\n".join([*lines, also])) <= max_tokens:
        lines.append(also)
    return "\n".join(lines)


def weights(found: Read) -> dict[str, float]:
    """The weight of each word in these lines."""
    said = Counter(term for line in found.lines for term in {word.term for word in line.words})
    said.update({word.term for word in found.also})
    words = [word for line in found.lines for word in line.words] + found.also
    particular = {word.term for word in words if word.particular}
    telling = {word.term for word in words if word.telling}
    return {
        term: math.sqrt(count) * (1 if term in telling else _FILLER) * (_PARTICULAR if term in particular else 1)
        for term, count in said.items()
    }


def choose(
    lines: Sequence[Line],
    worth: dict[str, float],
    room: int,
    max_tokens: int,
    preferred: Callable[[Line], float] = lambda line: 1.0,
) -> list[int]:
    """The positions of the best sentences, best first. Of two equal ones, the earlier comes first."""
    by_line = [_line_factor(line, position, len(lines)) * preferred(line) for position, line in enumerate(lines)]
    terms = [{word.term for word in line.words} for line in lines]
    costs = [tokens.estimate(line.whole) + 1 for line in lines]
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
    return chosen


def left_over(found: Read, worth: dict[str, float], covered: set[str]) -> str:
    """The line that names the other topics, as they were written, most important first."""
    best = _words_left(found, worth, covered, _ALSO_WORDS)
    return ALSO + ", ".join(best) if best else ""


def _words_left(found: Read, worth: dict[str, float], covered: set[str], most: int) -> list[str]:
    written: dict[str, Counter[str]] = {}
    for word in [word for line in found.lines for word in line.words] + found.also:
        if word.telling and word.term not in covered and len(word.term) > 2:
            written.setdefault(word.term, Counter())[word.written] += 1
    best = sorted(written, key=lambda term: -worth[term])[:most]
    return [written[term].most_common(1)[0][0] for term in best]


def index_words(passages: Sequence[Passage], covered_text: str) -> str:
    """Words of the passages that a text does not have, the most telling first. They help to find the text."""
    analyser = Analyser()
    found = read([passage for passage in passages if passage.role in ("user", "assistant", "")], analyser)
    covered = {word.term for line in covered_text.splitlines() for word in analyser.words(line)}
    return " ".join(_words_left(found, weights(found), covered, _INDEX_WORDS))


def _room(lines: Sequence[Line]) -> int:
    # A line of a gist represents all sentences that it was chosen from.
    said = sum(_PER_LINE if line.derived else 1 for line in lines)
    return max(LEAST, min(MOST, math.ceil(said / _PER_LINE)))


def _line_factor(line: Line, position: int, of: int) -> float:
    found = markers.marker(line.text)
    factor = _BY_ROLE.get(line.role, 1.0) * (_BY_KIND[found.kind] if found else 1.0)
    if position < _BEGINNING and not line.derived:
        factor *= _AT_THE_START
    if position >= of - max(2, of // 10) and markers.is_open(line.text):
        # A question near the end is probably not answered.
        factor *= _OPEN_AT_THE_END
    return factor / math.sqrt(max(1.0, len(line.words) / _LONG))


def _passage_sentences(passage: Passage) -> Iterator[tuple[str, str]]:
    """Each sentence with the prefix of its line. Only text that Engram derived itself may bring its own prefix."""
    if passage.role:
        prefix = f"{passage.at[:10]} {passage.role}: ".lstrip()
        for sentence in sentences.split(passage.text) or _first_line(passage.text):
            yield prefix, sentence
        return
    for line in passage.text.splitlines():
        prefixed = _PREFIX.match(line)
        if prefixed:
            yield prefixed[0], line[prefixed.end() :]
        elif line.startswith(ALSO):
            yield "", line
        else:
            for sentence in sentences.split(line):
                yield f"{passage.label}: " if passage.label else "", sentence


def _first_line(text: str) -> list[str]:
    """The first line of a text that is only code."""
    return [" ".join(line.split())[: sentences.LONGEST] for line in text.splitlines() if line.strip(" `~\t")][:1]


def _role(prefix: str) -> str:
    words = prefix.removesuffix(": ").split()
    return words[-1] if words and not words[-1][0].isdigit() else ""
