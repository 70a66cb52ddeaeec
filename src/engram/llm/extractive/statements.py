"""Statements found without a model: facts, preferences, decisions, lessons, things to do.

A statement is a whole sentence in its speaker's own words, with the passage it is from. A sentence about the speaker
("I live in …") is taken only from the user: an assistant that says "I" means itself. Nothing is taken from tools,
systems and logs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ..protocol import Passage, check
from . import markers
from .gists import Line, read
from .terms import Analyser

_MOST: Final = 40
#: Two statements that share this much of their words say the same.
_SAME: Final = 0.8
_BY_AN_AGENT: Final = 0.7
_FEWEST_WORDS: Final = 2


class Statement(NamedTuple):
    text: str
    kind: str
    source: str
    confidence: float


def statements(
    passages: Sequence[Passage], known: Sequence[Passage], schema: Mapping[str, object] | None
) -> list[Statement]:
    """The statements of the passages that are not in `known`, in order. Of two that say the same, the later one."""
    analyser = Analyser()
    old = [terms for passage in known for line in passage.text.splitlines() if (terms := _terms(line, analyser))]
    kept: list[tuple[Statement, frozenset[str]]] = []
    for line in read(passages, analyser).lines:
        statement = _statement_of(line)
        terms = frozenset(word.term for word in line.words)
        if statement is None or len(terms) < _FEWEST_WORDS or any(_contains(each, terms) for each in old):
            continue
        if schema is not None and check(statement._asdict(), schema):
            continue
        kept = [(other, theirs) for other, theirs in kept if not _alike(terms, theirs)]
        kept.append((statement, terms))
    surest = sorted(range(len(kept)), key=lambda position: -kept[position][0].confidence)[:_MOST]
    return [kept[position][0] for position in sorted(surest)]


def _statement_of(line: Line) -> Statement | None:
    if line.role not in ("user", "assistant", ""):
        return None
    marker = markers.marker(line.text)
    if marker is None or (marker.own and line.role != "user"):
        return None
    belief = marker.confidence * (1 if line.role == "user" else _BY_AN_AGENT)
    return Statement(line.text, marker.kind, line.source, round(belief, 2))


def _terms(text: str, analyser: Analyser) -> frozenset[str]:
    return frozenset(word.term for word in analyser.words(text))


def _contains(line: frozenset[str], terms: frozenset[str]) -> bool:
    return len(line & terms) >= _SAME * len(terms)


def _alike(mine: frozenset[str], theirs: frozenset[str]) -> bool:
    return len(mine & theirs) >= _SAME * len(mine | theirs)
