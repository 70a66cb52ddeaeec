"""Hits on one matter: which comes first, and which is replaced.

The order by strength knows nothing about how hits relate to each other. Five rules mend it:

- A memory stands before the turn that it was made from, and a turn that says nothing else is left out.
- A statement stands before a question that is its echo.
- Of several statements on one matter, the latest stands first, unless the question names the number of an older one.
- An older one says what replaced it: the same statement with another value at its end, or that it no longer holds.
- A text that stands there already comes after all others.

A matter is recognised by its words, which have to be the same apart from the value. That is strict on purpose. Two
statements that are wrongly taken for one would hide a fact, and two that are wrongly kept apart only stand in the
order they had.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from . import analyser

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .provenance import Thing
    from .text_forms import Form

#: A longer text says more than one thing, so no other text replaces it.
_LONGEST: Final = 300
#: Fewer terms than this do not tell what a statement is about.
_FEWEST: Final = 2
#: The same for a turn that ends with a value. One word and a number is rather an instruction: "Address 7", "option 2".
_FEWEST_SAID: Final = 3
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
    r"\b(?:no longer|not any ?more|instead|from now on|switched to|moved to|changed to|replaced (?:by|with)|stopped)\b",
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
#: Terms of units, which may follow a value.
_UNITS: Final = frozenset(
    (
        "minut",
        "second",
        "hour",
        "day",
        "week",
        "month",
        "year",
        "percent",
        "kb",
        "mb",
        "gb",
        "tb",
        "ms",
        "euro",
        "dollar",
    )
)
_NUMBER: Final = re.compile(r"\d")
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
    #: None for a text that is known to state something.
    form: Form | None
    chance: float
    #: The turns that a memory was made from.
    turns: frozenset[int]
    terms: frozenset[str]
    #: Its terms in order, without those that only tell of a change.
    telling: tuple[str, ...]
    #: Those before the value that it ends with; empty when it does not end with one.
    before_value: tuple[str, ...]
    #: Whether it says that something changed.
    changed: bool
    replaced_by: Thing | None


def found(
    thing: Thing,
    text: str,
    length: int,
    at: str,
    trust: str,
    form: Form | None,
    chance: float,
    turns: frozenset[int],
    replaced_by: Thing | None,
) -> Found:
    terms = tuple(dict.fromkeys(analyser.terms(text))) if length <= _LONGEST else ()
    telling = tuple(term for term in terms if term not in _CHANGES)
    return Found(
        thing,
        text,
        length,
        at,
        trust,
        form,
        chance,
        turns,
        frozenset(terms),
        telling,
        _before_value(telling, _FEWEST if thing[0] == "memory" else _FEWEST_SAID),
        bool(terms) and _CHANGED.search(text) is not None,
        replaced_by,
    )


def arrange(hits: Sequence[Found], *, latest_first: bool, asked: Iterable[str] = ()) -> list[Found]:
    """The hits, best first, with the rules of this module applied. A hit that moves up gets the chance of the place.

    `asked` are the terms of the question. A question that names a time does not want the latest first.
    """
    numbers = frozenset(filter(_NUMBER.search, asked))
    kept = [hit for hit in hits if not any(_says_all_of(memory, hit) for memory in hits)]
    kept = _moved_up(kept, _says_it_of)
    kept = _moved_up(kept, _answers)
    if latest_first:
        kept = _moved_up(kept, lambda newer, older: _is_later(newer, older) and not _lacks(newer, older, numbers))
    return [hit._replace(replaced_by=hit.replaced_by or _replacement(hit, kept)) for hit in kept]


def repeats_last(hits: Sequence[Found]) -> list[Found]:
    """The hits, those behind the others whose text stands there already. They get the chance of their place."""
    once: list[Found] = []
    repeats: list[Found] = []
    seen: set[tuple[str, str, int, str]] = set()
    for hit in hits:
        said = hit.thing[0], hit.trust, hit.length, hit.text
        (repeats if said in seen else once).append(hit)
        seen.add(said)
    return [*once, *(hit._replace(chance=min(hit.chance, once[-1].chance)) for hit in repeats)]


def replaced(statements: Sequence[Found]) -> dict[Thing, Thing]:
    """What replaces each of these that is replaced, decided as for hits."""
    by_value: dict[tuple[str, ...], list[Found]] = {}
    for each in statements:
        by_value.setdefault(each.before_value, []).append(each)
    changed = [each for each in statements if each.changed]
    # Any other statement replaces nothing: see `_replaces`.
    found: dict[Thing, Thing] = {}
    for older in statements:
        others = [*changed, *(by_value[older.before_value] if older.before_value else ())]
        newer = _replacement(older, others)
        if newer is not None:
            found[older.thing] = newer
    return found


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
    if (
        question.form is None
        or question.form.asked < QUESTION
        or not _is_statement(statement)
        or len(question.terms) < _FEWEST
    ):
        return False
    return len(question.terms & statement.terms) >= _ECHO * len(question.terms)


def _is_later(newer: Found, older: Found) -> bool:
    """Whether a later statement says the same as an older one, or replaces it. Less trusted text never does."""
    if newer.at <= older.at or not (newer.terms == older.terms or _replaces(newer, older)):
        return False
    return _rank(newer) >= _rank(older) and _is_statement(newer) and _is_statement(older)


def _lacks(newer: Found, older: Found, numbers: frozenset[str]) -> bool:
    """Whether the question names a number that only the older statement has."""
    return not numbers.isdisjoint(older.terms - newer.terms)


def _is_statement(hit: Found) -> bool:
    return bool(hit.terms) and (hit.form is None or (max(hit.form) < QUESTION and not hit.form.commanded))


def _rank(hit: Found) -> int:
    return _TRUST.get(hit.trust, 0)


def _replacement(older: Found, hits: Sequence[Found]) -> Thing | None:
    """The latest hit that replaces this one, if any does."""
    newer = [hit for hit in hits if hit.terms != older.terms and _is_later(hit, older)]
    return max(newer, key=lambda hit: (hit.at, hit.thing)).thing if newer else None


def _replaces(newer: Found, older: Found) -> bool:
    """Whether a statement gives another value for the same thing, or says that it no longer holds.

    Everything but the value has to be the same, and the value has to stand at the end: "Room 101 has a projector" and
    "Room 102 has a projector" are about two rooms.
    """
    if newer.before_value and newer.before_value == older.before_value:
        return True
    if not newer.changed or older.changed or len(newer.telling) < _FEWEST:
        return False
    lost, gained = set(older.telling) - newer.terms, set(newer.telling) - older.terms
    # A detail may be left out, and the word of the change comes in.
    return len(older.telling) > len(lost) + 1 and len(lost) <= 1 and len(gained) <= 1


def _before_value(terms: tuple[str, ...], fewest: int) -> tuple[str, ...]:
    """The terms before the value that a statement ends with, and its unit; empty when it does not end with one."""
    unit = terms[-1:] if terms and terms[-1] in _UNITS else ()
    rest = terms[: len(terms) - len(unit)]
    if len(rest) < fewest or not _VALUE.search(rest[-1]) or any(map(_VALUE.search, rest[:-1])):
        return ()
    return (*rest[:-1], *unit)
