"""Whether two statements say the same, and whether they cannot both be true.

The vectors of texts about the same thing are close: port 5432 and port 5433, tabs and spaces, always and never. So
close vectors alone are no reason to merge. Two texts with nearly the same words are compared word by word: what differs
is meant to differ, and a difference in a number, a date, a version, a name, a negation or an opposite forbids merging.
Texts with other words may be rewordings. `evidence` measures what speaks for and against it, and `weights` has how much
each measure counts. Values, names, persons and negations that differ forbid merging here, too.

Unclear pairs are kept apart: a duplicate takes a little space, but a memory that was merged by mistake is lost.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from math import exp, sqrt
from operator import mul
from typing import TYPE_CHECKING, Final

from . import weights
from . import wordlists as lists
from .statements import Statement, Word, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: The weight of a word with little meaning; it weighs more where it replaces another word.
_LIGHT, _LIGHT_INSTEAD = 0.15, 0.5
#: A word that only one text has counts against a pair as much as this many shared words count for it.
_MISSING: Final = 3.0
#: How much of the cosine's distance from 1 counts against a pair whose words agree.
_DOUBT: Final = 0.16
#: Nearly equal texts have at most so many words alone that mean something, and so many words alone.
_MEANT, _WORDS = 1, 2
#: Scores from here on are meant to be acted on: the default of `dream_similarity`, and `CONTRADICTS` of the stages.
_SAME, _AGAINST = 0.92, 0.75
_BE: Final = frozenset(
    ["is", "are", "am", "was", "were", "be", "been", "being", "get", "gets", "got", "has", "have", "had"]
)
_PAST, _PRESENT = frozenset({"was", "were"}), frozenset({"is", "are", "am"})
_WHO: Final = frozenset(["i", "me", "we", "us", "you", "he", "him", "she", "they", "them", "it"])
_JOINS: Final = frozenset({"and", "or", ",", "the", "a", "an"})


def differ(a: str, b: str) -> str | None:
    """Why the two must not be merged: number, date, version, name, negation or preference; None if they may be."""
    measured = None if _nearly_equal(a, b) else _measure(a, b, None)
    return _difference(read(a), read(b)) if measured is None else _barred(a, b, measured)


def alike(a: str, b: str, cosine: float | None, model: str = "") -> float:
    """The confidence that the two say the same, from 0 to 1; 0 if they must not merge.

    `model` is the embedder that the cosine comes from. Without a cosine the words alone decide, more strictly. Case and
    punctuation do not count, although a model's vectors may depend on them.
    """
    literal = same_words(a, b, cosine)
    if cosine is None or literal >= _SAME or _nearly_equal(a, b):
        return literal
    return max(literal, _reworded(a, b, cosine, model))


def repeats(a: str, b: str) -> float:
    """The confidence that the two say the same, if no cosine is known: as `alike`, with vectors of its own."""
    literal = same_words(a, b, 1.0)
    if literal >= _SAME or _nearly_equal(a, b):
        return literal
    return max(literal, _reworded(a, b, None, ""))


def _reworded(a: str, b: str, cosine: float | None, model: str) -> float:
    """The confidence that two texts with different words say the same."""
    cosine, table = _table(cosine, model)
    measured = _measure(a, b, cosine)
    if measured is None or _barred(a, b, measured) is not None:
        return 0.0
    return _scaled(_chances(measured, table)[0], weights.SAME_FROM, _SAME)


def contradicts(a: str, b: str, cosine: float | None, model: str = "") -> float:
    """The confidence that the two are about the same thing and cannot both be true.

    This is a guess, good enough for a proposal. Texts that are not single English statements contradict each other if
    they have the same words except for a value, an opposite or a negation.
    """
    if read(a).said == read(b).said:
        return 0.0
    from . import evidence  # it needs numpy

    known, table = _table(cosine, model)
    measured = _measure(a, b, known)
    if measured is None:
        return _literally_against(a, b, cosine)
    if evidence.unrelated(measured):
        return 0.0
    guess = _scaled(_chances(measured, table)[1], weights.AGAINST_FROM, _AGAINST)
    # Texts with the same words but one contradict each other if there can be only one value.
    literal = _nearly_equal(a, b) and evidence.has_one_value(measured)
    return max(guess, _literally_against(a, b, cosine)) if literal else guess


def _scaled(chance: float, least: float, score: float) -> float:
    """The chance as a score: `least` becomes `score`, 0 and 1 stay."""
    if chance < least:
        return score * chance / least
    return score + (1 - score) * (chance - least) / (1 - least)


def _nearly_equal(a: str, b: str) -> bool:
    """Whether the texts differ only in one word that means something and two that do not, whatever the order."""
    one, other = _counted(a), _counted(b)
    for only in (one - other, other - one):
        meant = sum(count for (_, means), count in only.items() if means)
        joined = sum(count for (plain, means), count in only.items() if not means and plain.isalpha())
        if meant > _MEANT or meant + joined > _WORDS:
            return False
    return True


@lru_cache(maxsize=4_096)
def _counted(text: str) -> Counter[tuple[str, bool]]:
    """How often each word occurs, and whether it means something."""
    return Counter((word.plain, word.kind != "stop") for word in read(text).words)


def _table(cosine: float | None, model: str) -> tuple[float | None, weights.Table]:
    """The weights for cosines of this model. A cosine of an unknown model is not used."""
    family = model.partition(":")[0] or "static"
    if cosine is None or family not in weights.TABLES:
        return None, weights.TABLES["static"]
    return cosine, weights.TABLES[family]


@lru_cache(maxsize=1_024)
def _measure(a: str, b: str, cosine: float | None) -> tuple[float, ...] | None:
    """The evidence. None for texts that are not single English statements."""
    from . import evidence  # it needs numpy

    # In a fixed order, so that ties between words make no difference.
    one, other = evidence.side(min(a, b)), evidence.side(max(a, b))
    if one is None or other is None or not (one.english and other.english):
        return None
    return tuple(evidence.measure(one, other, evidence.cosine(one, other) if cosine is None else cosine))


def _barred(a: str, b: str, measured: Sequence[float]) -> str | None:
    """Why two texts with different words must not be merged."""
    from . import evidence

    why = evidence.veto(measured)
    if why is not None:
        return why
    one, other = read(a), read(b)
    return "name" if _names_turned(one, other) or _is_turned_round(one, other) else None


def _chances(measured: Sequence[float], table: weights.Table) -> list[float]:
    """The chances that the two say the same, contradict each other, or neither."""
    sums = [constant + sum(map(mul, column, measured)) for constant, *column in table]
    most = max(sums)
    parts = [exp(each - most) for each in sums]
    return [part / sum(parts) for part in parts]


def same_words(a: str, b: str, cosine: float | None) -> float:
    """The lower of words and vectors."""
    one, other = read(a), read(b)
    if _difference(one, other) is not None:
        return 0.0
    if one.said == other.said:
        return 1.0
    words = _agreement(one, other)
    if cosine is None:
        return words
    return max(0.0, min(sqrt(words), 1 - (1 - cosine) * _DOUBT))


def _literally_against(a: str, b: str, cosine: float | None) -> float:
    """They begin with the same subject, and have the same words except for a value, an opposite or a negation."""
    one, other = read(a), read(b)
    why = _difference(one, other)
    shared, (left, right) = _overlap(one, other)
    # The values must differ. If they are plain words, both sides must have the same number of them.
    words = [sum(_weight(word) for word in only if word.kind in ("word", "name")) for only in (left, right)]
    replaced = min(*words, 2.0) if why in ("preference", "name", None) else 0.0
    if _other_subject(one, other) or not shared or (why is None and not 1 <= max(words) < 2 <= 2 * replaced):
        return 0.0
    if replaced > max(shared, 1.0):  # more is replaced than they have in common
        return 0.0
    topic = shared / (shared + sum(words) - 2 * replaced)
    doubt = 0.0 if cosine is None else (1 - max(cosine, 0.0)) * _DOUBT
    return topic * (1 - doubt) * (1.0 if why else 0.8)


def _difference(one: Statement, other: Statement) -> str | None:
    for kind in ("version", "date", "number"):
        if Counter(one.values(kind)) != Counter(other.values(kind)):
            return kind
    if one.limits != other.limits:
        return "number"
    if {word.rstrip(".!?'") for word in one.literals} != {word.rstrip(".!?'") for word in other.literals}:
        return "name"
    if (
        _has_another_name(one, other)
        or _has_another_name(other, one)
        or _have_nothing_in_common(one.persons, other.persons)
        or _names_turned(one, other)
    ):
        return "name"
    if _denials(one, other) != _denials(other, one) or one.qualifiers != other.qualifiers:
        return "negation"
    if _opposed(one, other) or _is_turned_round(one, other):
        return "preference"
    return "date" if one.bounds != other.bounds or _another_time(one, other) else None


def _has_another_name(one: Statement, other: Statement) -> bool:
    """Whether the first has a name that the second lacks."""
    there = other.plain
    for word in one.words:
        if word.head in there or word.plain in there or not _is_name(word, one):
            continue
        parts = word.plain.replace("_", " ").replace("-", " ").split()
        if word.kind == "word" or len(parts) < 2 or not all(part in there for part in parts):
            return True
    return False


def _is_name(word: Word, statement: Statement) -> bool:
    if word.kind == "name":
        return True
    if not word.capital or statement.loud:
        return False
    if word.first or word.plain.isupper():
        return word.plain not in lists.common() and word.head not in lists.common()
    return True


def _have_nothing_in_common(one: frozenset[str], other: frozenset[str]) -> bool:
    return bool(one) and bool(other) and not one & other


def _denials(one: Statement, other: Statement) -> int:
    """The number of negations in the first, including prefixes of words that the second has without the prefix."""
    there = other.plain
    prefixed = sum(lists.positive(word.plain, there) is not None for word in one.words if word.head not in there)
    return one.negations + prefixed


def _another_time(one: Statement, other: Statement) -> bool:
    """Whether one is about the past and the other about the present or future."""
    tenses = {_tense(one), _tense(other)}
    return tenses >= {"past", "present"} or _past_verbs(one, other) or _past_verbs(other, one)


def _tense(statement: Statement) -> str:
    plain = {word.plain for word in statement.words if word.kind == "stop"}
    if plain & _PAST:
        return "" if plain & _PRESENT else "past"
    return "present" if plain & _PRESENT else ""


def _past_verbs(one: Statement, other: Statement) -> bool:
    """Whether a verb is past in one and not in the other. A participle ("is used", "used by") has no tense."""
    there = {word.head: position for position, word in enumerate(other.words) if word.kind == "word"}
    for position, word in enumerate(one.words):
        if word.kind != "word" or word.first or word.head not in there or not _is_past(word.plain):
            continue
        participle = _is_participle(one, position) or _is_participle(other, there[word.head])
        if not participle and not _is_past(other.words[there[word.head]].plain):
            return True
    return False


def _is_participle(statement: Statement, position: int) -> bool:
    around = (*statement.words[max(position - 3, 0) : position], *statement.words[position + 1 : position + 2])
    return any(word.plain in _BE or word.plain == "by" for word in around)


def _is_past(plain: str) -> bool:
    """Whether a verb is past: by its ending, or by the table of irregular verbs."""
    return plain.endswith("ed") or not plain.startswith(lists.stem(plain)[:3])


def _opposed(one: Statement, other: Statement) -> bool:
    """Whether one has the opposite of a word that the other has."""
    here, there = ({word.head for word in each.words} for each in (one, other))
    known = lists.opposites()
    return any(known.get(word, frozenset()) & (there - here) for word in here - there)


def _is_turned_round(one: Statement, other: Statement) -> bool:
    """Whether both have the same words, but on different sides: "tabs over spaces", "after the tests", "to Bob"."""
    here, there = _objects(one), _objects(other)
    for turn in here.keys() & there.keys():
        if here[turn] != there[turn] and here[turn] in other.plain and there[turn] in one.plain:
            return True
    if ("by" in one.plain) != ("by" in other.plain):
        return _agent_turned(one, other) if "by" in one.plain else _agent_turned(other, one)
    return _reversed(one, other)


def _agent_turned(passive: Statement, active: Statement) -> bool:
    """Whether the agent of the passive sentence ("was reviewed by Bob") is the object of the active one."""
    agent = _objects(passive).get("by")
    position = next(position for position, word in enumerate(passive.words) if word.plain == "by")
    verb = next((word.head for word in reversed(passive.words[:position]) if word.kind != "stop"), "")
    order = [word.head for word in active.content if word.head in (agent, verb)]
    return order[:2] == [verb, agent]


def _objects(statement: Statement) -> dict[str, str]:
    """The word after each word that has two sides, such as "over". One that occurs twice is left out."""
    found: dict[str, list[str]] = {}
    for position, word in enumerate(statement.words):
        if word.head in lists.TURNS:
            rest = statement.words[position + 1 :]
            after = next((each.head for each in rest if each.kind != "stop" or each.plain in _WHO), "")
            found.setdefault(word.head, []).append(after)
    return {turn: after[0] for turn, after in found.items() if len(after) == 1 and after[0]}


def _reversed(one: Statement, other: Statement) -> bool:
    """Whether three words are in reverse order: "the client calls the server", "the server calls the client".

    A passive does not count: "endpoints require a login", "a login is required for endpoints".
    """
    there = dict(_triples(other))
    return any(there.get(triple[::-1]) == passive for triple, passive in _triples(one))


def _triples(statement: Statement) -> Iterator[tuple[tuple[str, str, str], bool]]:
    """Each three consecutive words, and whether the middle one is in the passive."""
    places = [position for position, word in enumerate(statement.words) if word.kind != "stop"]
    for first, second, third in zip(places, places[1:], places[2:], strict=False):
        passive = any(word.plain in _BE for word in statement.words[max(second - 2, 0) : second])
        heads = (statement.words[position].head for position in (first, second, third))
        yield tuple(heads), passive  # type: ignore[misc]


def _names_turned(one: Statement, other: Statement) -> bool:
    """Whether names or numbers have changed places: their order and the words around them differ."""
    if ("by" in one.plain) != ("by" in other.plain):  # the passive; see `_agent_turned`
        return False
    for kind in ("name", "number"):
        here, there = _settings(one, kind), _settings(other, kind)
        shared = [value for value in here if value in there]
        if shared != [value for value in there if value in here] and any(here[each] != there[each] for each in shared):
            return True
    return False


def _settings(statement: Statement, kind: str) -> dict[str, tuple[tuple[str, ...], bool]]:
    """The two words before each value of a kind, and whether it owns what follows ("Bob's").

    An enumeration counts as one value. The two sides of "is" count as equal.
    """
    found: dict[str, tuple[tuple[str, ...], bool]] = {}
    before: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()
    for word, after in statement.followed:
        is_name = word.kind == "name" or (word.kind == "word" and word.capital and not statement.loud)
        if ("name" if is_name else word.kind) == kind:
            found.setdefault(word.head, (before, after.plain == "s"))
            before, listed = (), before
        elif word.head in _JOINS:
            before = before or listed
        else:
            before, listed = (() if word.plain in _BE else (*before, word.head)[-2:]), ()
    return found


def _overlap(one: Statement, other: Statement) -> tuple[float, tuple[list[Word], list[Word]]]:
    """The weight of the words that both have, and the words that only one of them has."""
    here, there = (_by_head(each, rest) for each, rest in ((one, other), (other, one)))
    shared = sum(_weight(word) for head, word in here.items() if head in there)
    left = [word for head, word in here.items() if head not in there]
    right = [word for head, word in there.items() if head not in here]
    return shared, (left, right)


def _by_head(statement: Statement, other: Statement) -> dict[str, Word]:
    there = other.plain
    return {
        (word.head if word.head in there else lists.positive(word.plain, there) or word.head): word
        for word in statement.content
    }


def _weight(word: Word) -> float:
    return _LIGHT if word.kind == "word" and word.head in lists.light() else 1.0


def _agreement(one: Statement, other: Statement) -> float:
    """The part of the words that both have."""
    shared, (left, right) = _overlap(one, other)
    heavy = [_heavy(words) for words in (left, right)]
    light = [sum(map(_weight, words)) - weight for words, weight in zip((left, right), heavy, strict=True)]
    missing = _MISSING * (max(heavy) + min(light) * _LIGHT_INSTEAD / _LIGHT) + max(light) - min(light)
    return shared / (shared + missing) if shared else 0.0


def _heavy(words: Iterable[Word]) -> float:
    return sum(weight for weight in map(_weight, words) if weight == 1.0)


def _other_subject(one: Statement, other: Statement) -> bool:
    """Whether each begins with a subject that the other does not mention."""
    if _have_nothing_in_common(one.persons, other.persons):
        return True
    here, there = (
        next((word for word in each.content if word.kind in ("word", "name")), None) for each in (one, other)
    )
    return here is not None and there is not None and here.head not in other.plain and there.head not in one.plain
