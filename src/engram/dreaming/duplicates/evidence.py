"""What speaks for and against two statements saying the same, or contradicting each other, as numbers.

Two ways of saying the same thing share few words, so words are compared by their vectors: `lift` and `elevator` are
close in the table of the static embedder, `Oslo` and `Bergen` are not. A contradiction shares its subject with the
older statement, and differs in one value, or says that something has changed or ended. Statements about two parts of a
system, two persons or two days differ in the subject as well as in the value.

`measure` gives the numbers; `weights.py` says how much each of them counts. Both treat the two statements alike.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from . import wordlists as lists
from .statements import Statement, Word, read

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from ...embedding import Embedder

    Vectors = npt.NDArray[np.float32]

#: Longer texts are not single statements.
MOST_WORDS: Final = 40
#: Cosines of two words' vectors: below the first they have nothing in common, above the second they mean the same.
_FAR, _NEAR = 0.28, 0.55
#: Words count as the same from here on.
_MATCH: Final = 0.5
#: Words with the same beginning, such as `linter` and `linting`.
_BEGINNING: Final = 5
#: The weight of a word with little meaning, and of a word that only says that something has changed.
_LIGHT, _CUE = 0.25, 0.1
#: If one shares less of its words than this with the other, it says something else besides.
_LITTLE: Final = 0.45
_VALUES: Final = ("number", "date", "version")
#: "A month" is also said as "monthly".
_ONE_UNIT: Final = frozenset(["1 month", "12 month", "86400 second", "604800 second", "3600 second", "60 second"])

_CHANGED: Final = re.compile(
    r"""(?ix)\b(?:now|nowadays|these\ days|from\ now\ on|instead|new|again|meanwhile|after\ all
    |moved|relocated|transferred|switched|migrated|converted|replaced|renamed|changed|upgraded|downgraded
    |raised|lowered|increased|reduced|(?:went|gone)\ (?:up|down|back)|postponed|rescheduled|delayed
    |became|become|turned\ (?:\d+|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|eighteen)
    |got\ (?:married|divorced|engaged)|(?:is|are|am|was|were|comes|came)\ back|started|decided\ (?:on|not|against)
    |since\ (?:the|then|last|january|february|march|april|may|june|july|august|september|october|november|december)
    |ha(?:s|ve)\ been|fixed|repaired|solved|picked\ up|habit\ of)\b"""
)
_ENDED: Final = re.compile(
    r"""(?ix)\b(?:no\ longer|any\ ?more|any\ longer|stopped|quit|g[ai]ven?\ up|cancell?ed|called\ off|dropped|abandoned
    |terminated|sold|retired|resigned|ha(?:s|ve)\ left|left\ the|on\ leave|ran\ out|is\ over|no\ more|not\ the
    |against|instead\ of|rather\ than|replaced)\b"""
)
#: Relatives, by the word that stands for all their names. A statement about one is not about another.
_RELATIVES: Final = {
    name: names.split()[0]
    for names in (
        *("mother mum mom mama", "father dad papa", "grandmother grandma granny", "grandfather grandpa grandad"),
        *("wife", "husband", "sister", "brother", "son", "daughter", "aunt", "uncle", "cousin", "nephew", "niece"),
        *("friend", "boyfriend", "girlfriend", "flatmate roommate", "colleague coworker", "parents", "kids children"),
        *("godmother", "godfather", "partner"),
    )
    for name in names.split()
}
_WRITER: Final = frozenset({"i", "we", "user"})
_INSTEAD: Final = frozenset({"instead"})
#: Verbs of being somewhere and of going there: after moving, one lives there.
_PLACE: Final = frozenset({"live", "move", "reloc", "sit", "base", "studi", "student", "transfer", "stay"})
_OWNERS: Final = frozenset({"my", "our", "his", "her", "their", "the", "user", "s", "a"})
#: Verbs that can be true of several things at once: who likes tea may also like coffee.
_SEVERAL: Final = frozenset(
    [
        "like",
        "love",
        "enjoy",
        "speak",
        "have",
        "own",
        "buy",
        "bought",
        "remove",
        "delete",
        "read",
        "use",
        "create",
        "add",
        "want",
        "play",
        "contain",
        "show",
        "cancel",
        "eat",
        "drink",
        "store",
        "report",
        "send",
        "meet",
        "learn",
        "visit",
        "know",
        "support",
        "include",
    ]
)
_VERB_ENDINGS: Final = ("s", "ed", "ing", "ly", "tion", "ment", "ness")
#: Common words of English and of other languages; the rest of this module does not read those.
_IN_ENGLISH: Final = """
the and my with are his our they this that it you your from their been have has had not which should would
"""
_ELSEWHERE: Final = """
der das und ist nicht ich wir ein eine auf zu den dem wohnt le les des est une et un ma mon je el los las es en por que
mi su il che het een voor och att inte jag nie jest uma
"""
_ENGLISH, _FOREIGN = frozenset(_IN_ENGLISH.split()), frozenset(_ELSEWHERE.split())

#: What `measure` returns, in this order.
NAMES: Final = (
    *("cosine", "shared least", "shared most", "rest shared least", "rest shared most"),
    *("values differ", "value in one", "values shared", "names differ", "name in one", "names shared"),
    *("negated", "opposite", "qualified", "changed", "ended", "both ended", "both negated"),
    *("replaced", "first replaced", "last replaced", "missing least", "missing most", "missing alike"),
    *(
        "subject",
        "both subjects",
        "same person",
        "other person",
        "several",
        "other kind of it",
        "subject of other kind",
    ),
    *("names first", "one difference", "more differences"),
    *("conflict, rest least", "conflict, rest most", "changed, rest", "ended, rest", "negated, most", "negated, least"),
    *("changed, subject", "negated, missing"),
)


class Side(NamedTuple):
    """One of the two statements, prepared for comparing."""

    statement: Statement
    #: The words that carry meaning, their positions in the statement, weights, and vectors; which of them are names.
    words: tuple[Word, ...]
    places: tuple[int, ...]
    weights: tuple[float, ...]
    vectors: Vectors
    named: tuple[bool, ...]
    values: Counter[str]
    #: The relative or writer that it is about, and all relatives in it.
    person: str
    relatives: frozenset[str]
    changed: bool
    ended: bool
    english: bool
    #: The text's own vector.
    meaning: Vectors
    #: Every word in lower case and in the form that is compared; the stems and forms of words that are not names.
    plain: frozenset[str]
    stems: frozenset[str]
    heads: frozenset[str]
    qualifiers: frozenset[str]
    #: The words after a negation, and after "instead of".
    denied: tuple[str, ...]
    instead: tuple[str, ...]


class _Match(NamedTuple):
    """How well each word of one statement is matched by the best word of the other, from 0 to 1."""

    left: list[float]
    right: list[float]
    #: Positions of words that match, in the order of both statements.
    order: list[tuple[int, int]]


@lru_cache(maxsize=4_096)
def side(text: str) -> Side | None:
    """Read a statement. None for a text that is too long for one, or has no words."""
    statement = read(text)
    places = tuple(place for place, word in enumerate(statement.words) if word.kind != "stop")
    if not 0 < len(places) <= MOST_WORDS:
        return None
    words = tuple(statement.words[place] for place in places)
    plain = [word.plain for word in statement.words]
    cues = {part for pattern in (_CHANGED, _ENDED) for found in pattern.findall(text) for part in found.lower().split()}
    return Side(
        statement,
        words,
        places,
        tuple(_weight(word, cues) for word in words),
        _vectors([word.plain if word.kind in ("word", "name") else "" for word in words]),
        tuple(_is_name(statement, place) for place in places),
        Counter(word.head for word in words if word.kind in _VALUES),
        _person(plain),
        frozenset(_RELATIVES[word] for word in plain if word in _RELATIVES),
        _CHANGED.search(text) is not None,
        _ENDED.search(text) is not None,
        _FOREIGN.isdisjoint(plain) and (text.isascii() or not _ENGLISH.isdisjoint(plain)),
        _vector(text),
        statement.plain,
        frozenset(lists.stem(word.plain) for word in words if word.kind == "word"),
        frozenset(word.head for word in words if word.kind == "word"),
        statement.qualifiers,
        _after(statement, lists.NEGATIONS),
        _after(statement, _INSTEAD),
    )


def _weight(word: Word, cues: set[str]) -> float:
    if word.plain in cues:
        return _CUE
    return _LIGHT if word.kind == "word" and word.head in lists.light() else 1.0


def _is_name(statement: Statement, place: int) -> bool:
    """Whether a word is a name. At the beginning of a sentence a capital says nothing, but what follows may."""
    word = statement.words[place]
    if word.kind == "name":
        return True
    if word.kind != "word" or not word.capital or statement.loud:
        return False
    if not word.first:
        return True
    if word.plain in lists.common() or word.head in lists.common() or word.plain.endswith(_VERB_ENDINGS):
        return False
    after = statement.words[place + 1].plain if place + 1 < len(statement.words) else ""
    return after in ("is", "was", "has", "s", "and", "will", "can", "does") or after.endswith(("s", "ed"))


def _person(plain: Sequence[str]) -> str:
    """The relative or writer that a statement begins with."""
    own = plain[:1] == ["my"] or plain[:1] == ["our"]
    for word in plain[:4]:
        if word in _RELATIVES:
            return _RELATIVES[word]
        if word in _WRITER and "s" not in plain[1:3]:
            return "writer"
        if word not in _OWNERS:
            break
    return "writer" if own else ""


def _vectors(words: Sequence[str]) -> Vectors:
    import numpy as np

    return np.stack([_vector(word) for word in words])


@lru_cache(maxsize=16_384)
def _vector(word: str) -> Vectors:
    import numpy as np

    table = _table()
    found: Vectors = np.zeros(1, np.float32) if table is None else table.embed([word])[0]
    return found


@cache
def _table() -> Embedder | None:
    from ...embedding import load

    return load("static")


def _match(one: Side, other: Side) -> _Match:
    rows = ((one.vectors @ other.vectors.T - _FAR) / (_NEAR - _FAR)).clip(0, 1).tolist()
    opposites = lists.opposites()
    for place, word in enumerate(one.words):
        apart = opposites.get(word.head, frozenset())
        row = rows[place]
        for position, there in enumerate(other.words):
            row[position] = _near(word, there, one.named[place] and other.named[position], apart, row[position])
    left = [max(row) for row in rows]
    right = [max(column) for column in zip(*rows, strict=True)]
    return _Match(left, right, _in_order(rows))


def _near(word: Word, there: Word, named: bool, apart: frozenset[str], near: float) -> float:
    if word.head == there.head or word.plain == there.plain:
        return 1.0
    if there.head in apart:
        return 0.0
    if word.head in _PLACE and there.head in _PLACE:
        return 1.0
    if word.kind != "word" or there.kind != "word":
        return 0.0
    if word.plain in _RELATIVES and there.plain in _RELATIVES:
        return float(_RELATIVES[word.plain] == _RELATIVES[there.plain])
    if named:
        return near if near >= 0.9 else 0.0
    if len(word.plain) > _BEGINNING < len(there.plain) and word.plain[:_BEGINNING] == there.plain[:_BEGINNING]:
        return max(near, 0.9)
    return near


def _in_order(rows: list[list[float]]) -> list[tuple[int, int]]:
    """The longest sequence of matching words that both have in the same order."""
    width = len(rows[0])
    best = [[0.0] * (width + 1)]
    for row in rows:
        above, line = best[-1], [0.0]
        for position, near in enumerate(row):
            longest = max(above[position + 1], line[position])
            line.append(max(longest, above[position] + near) if near >= _MATCH else longest)
        best.append(line)
    found: list[tuple[int, int]] = []
    first, second = len(rows), width
    while first and second:
        if best[first][second] == best[first - 1][second]:
            first -= 1
        elif best[first][second] == best[first][second - 1]:
            second -= 1
        else:
            first, second = first - 1, second - 1
            found.append((first, second))
    return found[::-1]


def measure(one: Side, other: Side, cosine: float) -> list[float]:
    """The numbers that `NAMES` names."""
    match = _match(one, other)
    missing = _missing(one, match.left), _missing(other, match.right)
    shared = sorted((_share(one.weights, match.left), _share(other.weights, match.right)))
    rest = sorted((_rest_shared(one, match.left), _rest_shared(other, match.right)))
    values = _only(one.values, other.values), _only(other.values, one.values)
    names = [[place for place in each if whose.named[place]] for each, whose in zip(missing, (one, other), strict=True)]
    plain = [
        [place for place in each if whose.words[place].kind == "word" and not whose.named[place]]
        for each, whose in zip(missing, (one, other), strict=True)
    ]
    opposed = _opposed(one, other)
    negated = _negated(one, other, opposed)
    replaced, first, last = _replaced(match, one, other)
    differ_values, differ_names = all(values), all(map(len, names))
    conflict = differ_values or differ_names
    subjects = [_subject(one, match.left), _subject(other, match.right)]
    counted = (
        (min(map(len, values)) if differ_values else 0)
        + differ_names
        + bool(opposed)
        + (all(map(len, plain)) and not opposed)
        + (negated and conflict)
    )
    changed, ended = one.changed != other.changed, one.ended != other.ended
    least, most = sorted(map(len, missing))
    kinds = _other_kinds(match, one, other)
    return [
        *(cosine, *shared, *rest),
        *(differ_values, any(values) and not differ_values, min(2, (one.values & other.values).total())),
        *(differ_names, any(map(len, names)) and not differ_names),
        min(2, sum(named and near >= 0.9 for named, near in zip(one.named, match.left, strict=True))),
        *(negated, opposed, one.qualifiers != other.qualifiers),
        *(changed, ended, one.ended and other.ended, _deny(one) and _deny(other)),
        *(min(replaced, 3), first, last, min(least, 4), min(most, 6), _alike(one, plain[0], other, plain[1])),
        *(
            any(subjects),
            all(subjects),
            one.person == other.person != "",
            _other_person(one, other),
            _several(one, other),
            bool(kinds),
            kinds > 1,
        ),
        *(differ_names and max(names[0][0], names[1][0]) <= 1, counted == 1, counted > 1),
        *(conflict * rest[0], conflict * rest[1], changed * rest[1], ended * rest[1]),
        *(negated * shared[1], negated * shared[0], changed * any(subjects), negated * min(most, 3)),
    ]


def cosine(one: Side, other: Side) -> float:
    """How close the two are by the vectors of the static embedder."""
    return float(one.meaning @ other.meaning)


def veto(measured: Sequence[float]) -> str | None:
    """What forbids merging, by the measures.

    Values, names or persons differ, only one is negated or over, or one says much more than the other.
    """
    found = dict(zip(NAMES, measured, strict=True))
    if found["values differ"]:
        return "number"
    if found["names differ"] or found["other person"]:
        return "name"
    if found["negated"] and found["opposite"]:
        return "preference"
    if found["negated"] or (found["ended"] and not found["both negated"]):
        return "negation"
    return "more" if found["shared least"] < _LITTLE else None


def unrelated(measured: Sequence[float]) -> bool:
    """Whether the two are about different things: other persons, or more than one difference and no word of change."""
    found = dict(zip(NAMES, measured, strict=True))
    changed = found["changed"] or found["ended"]
    return bool(found["other person"]) or (bool(found["more differences"]) and not changed)


def has_one_value(measured: Sequence[float]) -> bool:
    """Whether at most one thing differs, and it is no verb that can be true of several things."""
    found = dict(zip(NAMES, measured, strict=True))
    several = found["several"] and not found["opposite"]
    return not (several or found["more differences"] or found["other person"])


def _share(weights: Sequence[float], near: Sequence[float]) -> float:
    total = sum(weights)
    return sum(weight * each for weight, each in zip(weights, near, strict=True)) / total if total else 0.0


def _rest_shared(whose: Side, near: Sequence[float]) -> float:
    """The shared part of the words without values, and without the names that the other statement lacks."""
    weights = [
        0.0 if word.kind in _VALUES or (named and each < _MATCH) else weight
        for word, named, each, weight in zip(whose.words, whose.named, near, whose.weights, strict=True)
    ]
    return _share(weights, near)


def _missing(whose: Side, near: Sequence[float]) -> list[int]:
    """The places of the words that the other statement lacks."""
    return [place for place, each in enumerate(near) if each < _MATCH and whose.weights[place] == 1.0]


def _only(here: Counter[str], there: Counter[str]) -> list[str]:
    found = list((here - there).elements())
    return found if there - here else [value for value in found if value not in _ONE_UNIT]


def _opposed(one: Side, other: Side) -> bool:
    known = lists.opposites()
    there = other.heads - one.heads
    return any(not known[word].isdisjoint(there) for word in one.heads - other.heads if word in known)


def _negated(one: Side, other: Side, opposed: bool) -> bool:
    """Whether one says that something is not so and the other that it is.

    Two negations of the same word cancel each other, and so do two statements that something has ended. "Not X" at the
    end of one is "instead of X" in the other.
    """
    if one.ended and other.ended:
        return False
    left = [word for word in one.denied if word not in other.denied and word not in other.instead]
    right = [word for word in other.denied if word not in one.denied and word not in one.instead]
    prefixed = _prefixed(one, other) + _prefixed(other, one)
    return (len(left) + len(right) + prefixed + opposed) % 2 == 1


def _deny(whose: Side) -> bool:
    return whose.ended or bool(whose.denied)


def _after(statement: Statement, which: frozenset[str]) -> tuple[str, ...]:
    """The word with a meaning after each of these words."""
    found = []
    for place, word in enumerate(statement.words):
        if word.head in which:
            rest = statement.words[place + 1 :]
            found.append(next((each.head for each in rest if each.kind != "stop"), ""))
    return tuple(found)


def _prefixed(one: Side, other: Side) -> int:
    there = other.plain
    return sum(lists.positive(word.plain, there) is not None for word in one.words if word.head not in there)


def _replaced(match: _Match, one: Side, other: Side) -> tuple[int, bool, bool]:
    """The number of places where both have something else between shared words; whether it is the first, the last."""
    steps = [(-1, -1), *match.order, (len(one.words), len(other.words))]
    found = [
        any(match.left[place] < _MATCH and one.weights[place] == 1.0 for place in range(before[0] + 1, after[0]))
        and any(match.right[place] < _MATCH and other.weights[place] == 1.0 for place in range(before[1] + 1, after[1]))
        for before, after in pairwise(steps)
    ]
    return sum(found), found[0], len(found) > 1 and found[-1]


def _subject(whose: Side, near: Sequence[float]) -> bool:
    """Whether the other statement has the first word that means something."""
    for word, weight, each in zip(whose.words, whose.weights, near, strict=True):
        if weight == 1.0 and word.kind in ("word", "name"):
            return each >= _MATCH
    return True


def _other_person(one: Side, other: Side) -> bool:
    if one.relatives and other.relatives and not one.relatives & other.relatives:
        return True
    return bool(one.person and other.person) and one.person != other.person


def _several(one: Side, other: Side) -> bool:
    """Whether both have the same verb, and it can be true of several things."""
    return not _several_stems().isdisjoint(one.stems & other.stems)


@cache
def _several_stems() -> frozenset[str]:
    return frozenset(map(lists.stem, _SEVERAL))


def _alike(one: Side, left: Sequence[int], other: Side, right: Sequence[int]) -> float:
    """How close the words are that each has alone."""
    if not left or not right:
        return 0.0
    here, there = one.vectors[list(left)].sum(axis=0), other.vectors[list(right)].sum(axis=0)
    length = float((here @ here) * (there @ there)) ** 0.5
    return float(here @ there) / length if length else 0.0


def _other_kinds(match: _Match, one: Side, other: Side) -> int:
    """1 if a shared word follows two different words ("access token", "refresh token"), 2 if it is near the start."""
    found = 0
    for first, second in match.order:
        if (
            first
            and second
            and one.places[first] - one.places[first - 1] == 1 == other.places[second] - other.places[second - 1]
            and max(match.left[first - 1], match.right[second - 1]) < _MATCH
            and one.words[first - 1].kind != "number"
        ):
            found = max(found, 2 if max(first, second) <= 2 else 1)
    return found
