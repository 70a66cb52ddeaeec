"""Hits on one matter: which comes first, and which is replaced.

The order by strength knows nothing about how hits relate to each other. Four rules mend it:

- A memory stands before the turn that it was made from, and a turn that says nothing else is left out.
- A statement stands before a question that is its echo.
- Of several statements on one matter, the latest stands first.
- An older one that a later one contradicts says what replaced it.

A matter is recognised by its words: the same subject, and mostly the same terms. That is strict on purpose. Two
statements that are wrongly taken for one would hide a fact, and two that are wrongly kept apart only stand in the
order they had.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from . import analyser

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .provenance import Thing
    from .text_forms import Form

#: A longer text says more than one thing, so no other text replaces it.
_LONGEST: Final = 300
#: The share of the shorter statement's terms that both contain.
_SAME: Final = 0.5
#: Fewer terms than this do not tell what a statement is about.
_FEWEST: Final = 2
#: The share of a question's terms that a statement must contain to be its answer rather than its neighbour.
_ECHO: Final = 0.5
#: The share of a turn that a memory must contain for the turn to say nothing else.
_ALL: Final = 0.8
#: The share of a turn's chance that a memory of it must have to stand before it.
_LIKELY: Final = 0.5
#: The share of a text from which on it is not a statement: it asks, announces or was pasted.
QUESTION: Final = 0.5
#: A statement with one of these says that something changed.
_CHANGED: Final = re.compile(
    r"\b(?:no longer|any ?more|instead|from now on|now|not|never|switched|moved|changed|replaced|since then|stopped"
    r"|new)\b",
    re.IGNORECASE,
)
#: Terms of such words, which are not what a statement is about.
_CHANGES: Final = frozenset(
    (
        "ok",
        "now",
        "new",
        "decid",
        "agre",
        "switch",
        "move",
        "chang",
        "replac",
        "stop",
        "start",
        "use",
        "updat",
        "set",
        "go",
    )
)
#: Terms that name a value: a number, a date, a version, a day.
_VALUE: Final = re.compile(r"\d|^(?:mon|tues|wednes|thurs|fri|satur|sun)day$|^(?:true|false|on|off|yes|no)$")
_CAPITAL: Final = re.compile(r"\b[A-Z][\w-]*")
_TRUST: Final = {"import": 0, "tool": 1, "agent": 2, "user": 3}


class Found(NamedTuple):
    """A hit, as far as its relation to other hits depends on it."""

    thing: Thing
    text: str
    #: The length of the whole text, of which `text` may be a piece.
    length: int
    #: When it was said or stored, and by whom.
    at: str
    trust: str
    form: Form
    chance: float
    #: The turns that a memory was made from.
    turns: frozenset[int]
    terms: tuple[str, ...]
    replaced_by: Thing | None


def found(
    thing: Thing,
    text: str,
    length: int,
    at: str,
    trust: str,
    form: Form,
    chance: float,
    turns: frozenset[int],
    replaced_by: Thing | None,
) -> Found:
    terms = tuple(dict.fromkeys(analyser.terms(text))) if length <= _LONGEST else ()
    return Found(thing, text, length, at, trust, form, chance, turns, terms, replaced_by)


def arrange(hits: Sequence[Found], *, latest_first: bool) -> list[Found]:
    """The hits, best first, with the rules of this module applied. A hit that moves up gets the chance of the place.

    A question that names a time does not want the latest first.
    """
    kept = [hit for hit in hits if not any(_says_all_of(memory, hit) for memory in hits)]
    kept = _moved_up(kept, _says_it_of)
    kept = _moved_up(kept, _answers)
    kept = _moved_up(kept, _is_later) if latest_first else kept
    return [hit._replace(replaced_by=hit.replaced_by or _replacement(hit, kept)) for hit in kept]


def _moved_up(hits: list[Found], precedes: Callable[[Found, Found], bool]) -> list[Found]:
    """The hits, each moved directly before the first one that it precedes."""
    ordered: list[Found] = []
    for hit in hits:
        place = next((place for place, other in enumerate(ordered) if precedes(hit, other)), len(ordered))
        if place < len(ordered):
            hit = hit._replace(chance=max(hit.chance, ordered[place].chance))
        ordered.insert(place, hit)
    return ordered


def _was_made_from(memory: Found, turn: Found) -> bool:
    kind, id = turn.thing
    return kind == "exchange" and id in memory.turns


def _says_it_of(memory: Found, turn: Found) -> bool:
    """Whether a memory says what a turn was found for. Many memories are made from a long turn."""
    return _was_made_from(memory, turn) and memory.chance >= _LIKELY * turn.chance


def _says_all_of(memory: Found, turn: Found) -> bool:
    """Whether a turn, apart from a few words, is the memory that was made from it."""
    if not _was_made_from(memory, turn):
        return False
    said = memory.text.strip(" .!\n").casefold()
    return said in turn.text.casefold() and len(said) >= _ALL * turn.length


def _answers(statement: Found, question: Found) -> bool:
    """Whether a question is only the echo of a statement: the statement contains most of its terms."""
    if question.form.asked < QUESTION or not _is_statement(statement) or len(question.terms) < _FEWEST:
        return False
    return len(set(question.terms) & set(statement.terms)) >= _ECHO * len(question.terms)


def _is_later(newer: Found, older: Found) -> bool:
    """Whether a statement is the later one on a matter. What was not said by person or agent never passes what was."""
    foreign = _rank(newer) < min(_rank(older), _TRUST["agent"])
    return not foreign and newer.at > older.at and _is_same_matter(newer, older)


def _is_same_matter(one: Found, other: Found) -> bool:
    """Whether two statements have the same subject, which is their first telling term, and mostly the same terms."""
    fewer = min(len(one.terms), len(other.terms))
    if fewer < _FEWEST or not (_is_statement(one) and _is_statement(other)):
        return False
    shared = len(set(one.terms) & set(other.terms))
    more = max(len(one.terms), len(other.terms))
    return _subject(one) == _subject(other) and shared >= _SAME * fewer and shared * 3 >= more


def _subject(hit: Found) -> str:
    return next((term for term in hit.terms if term not in _CHANGES), hit.terms[0])


def _is_statement(hit: Found) -> bool:
    return bool(hit.terms) and max(hit.form) < QUESTION


def _rank(hit: Found) -> int:
    return _TRUST.get(hit.trust, 0)


def _replacement(older: Found, hits: Sequence[Found]) -> Thing | None:
    """The latest hit that contradicts this one, if any does: on the same matter, with another value."""
    newer = [hit for hit in hits if hit.thing != older.thing and _is_later(hit, older) and _contradicts(hit, older)]
    return max(newer, key=lambda hit: (hit.at, hit.thing)).thing if newer else None


def _contradicts(newer: Found, older: Found) -> bool:
    """Whether a later statement gives another value, or says that something changed.

    Less trusted text never replaces what a person said. A statement that repeats all of the older one adds to it.
    """
    if _rank(newer) < _rank(older):
        return False
    lost = [term for term in older.terms if term not in newer.terms]
    gained = [term for term in newer.terms if term not in older.terms]
    if any(map(_VALUE.search, lost)) and any(map(_VALUE.search, gained)):
        # "30 seconds" and "60 retries" are different things, "PostgreSQL 16" and "MySQL 8" are not.
        names = _names(newer.text) | _names(older.text) | _CHANGES
        if all(_VALUE.search(term) or term in names for term in (*lost, *gained)):
            return True
    return bool(lost or gained) and bool(_CHANGED.search(newer.text)) and not _CHANGED.search(older.text)


def _names(text: str) -> set[str]:
    """The terms of words that begin with a capital letter."""
    return {term for word in _CAPITAL.findall(text) for term in analyser.terms(word)}
