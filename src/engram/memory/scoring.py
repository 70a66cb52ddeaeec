"""Scoring: combines matches by words, meaning and tokens into one score. It knows no store; `recall` brings data.

An item's *strength* adds what it matches by words, by meaning and by tokens. Each part is measured against the question
or the model, never against the other items of the store. So the same text has about the same strength beside nothing
and beside a million others. `chance` turns strength into the chance that the item is about the question.
"""

from __future__ import annotations

from math import exp, fsum, log
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from .query_dates import Span, day

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .recall_request import Filters
    from .text_forms import Form

K1, B = 0.9, 0.4
#: How fast the strength of a matching share grows with the number of words in the question.
_LENGTH = 0.8
#: The weight of a word in an adjacent turn, by how many turns it is before (+) or after (-) the scored one.
_NEAR = ((1, 0.6), (2, 0.5), (3, 0.4), (-1, 0.5), (-2, 0.4), (-3, 0.3))
REACH = 3
#: What neighbours may add: a turn's strength counts in full up to `_LIFTED` and so many times what the turn matches
#: itself, and above that a fifth. So neighbours alone make no turn likely, and the order of such turns stays.
_LIFTED, _TIMES_OWN, _ABOVE = 1.0, 3.0, 0.2
#: The highest chance: nothing is certain.
_SUREST = 0.99
#: Small: they decide between similar scores and never outweigh a better match.
_SAME_PROJECT, _RECENT, _DATED = 0.05, 0.05, 0.25
#: Half-life in days of recency, and of the distance from a time that the question names.
_RECENT_DAYS, _DATED_DAYS = 30, 7


class Weights(NamedTuple):
    """Constants that differ between models. `bench/recall_quality.py` shows how little the exact choice matters."""

    #: The share of an adjacent turn's strength that a turn gains.
    smooth: float = 0.3
    #: The share of items containing a word at which its weight in the query's vector is half.
    common: float = 0.1
    #: Squared standard deviations of meaning that weigh as much as a perfect match of a single word.
    meaning: float = 25.0
    #: How much of what all turns have in common is subtracted from a query's vector. Otherwise small talk matches all.
    background: float = 0.5
    #: The weight of the mean cosine of tokens, as far as it is above `tokens`.
    rerank: float = 2.0
    tokens: float = 0.3
    #: Whether reranking is on by default.
    reranks: bool = True
    #: The logarithm of the odds that an item of strength 1 is about the question, and its growth with the logarithm of
    #: the strength. `bench/calibration.py` fits both.
    odds: tuple[float, float] = (-1.4, 1.9)


#: By words alone.
_WORDS = Weights(odds=(-0.61, 1.38))
#: By provider. With `static`, comparing tokens helps questions that use the answer's words, and hurts paraphrases.
_WEIGHTS = {
    "static": Weights(common=0.15, meaning=45.0, background=0.0, rerank=0.8, reranks=False, odds=(-1.09, 1.89)),
    "minilm": Weights(odds=(-1.65, 1.97)),
}


def weights_of(model: str | None) -> Weights:
    """The weights for a model, or for words alone. A model that was not measured gets those of MiniLM."""
    if model is None:
        return _WORDS
    provider, _, _ = model.partition(":")
    return _WEIGHTS.get(provider, Weights())


def chance(strength: float, weights: Weights) -> float:
    """The chance that an item of this strength is about the question."""
    if strength <= 0:
        return 0.0
    at_one, growth = weights.odds
    return min(1 / (1 + exp(-at_one - growth * log(strength))), _SUREST)


#: How much less than a statement a text counts that only asks, only announces, or was only pasted. The name of a
#: command counts like pasted text: the person did not write it to say something.
_ASKED, _ANNOUNCED, _PASTED = 0.65, 0.65, 0.4


#: How fast a text counts less the longer it is. It has many pieces, and the best of many is good by chance.
_LONG, _LONG_TEXT = 800, 0.1


def form_factor(form: Form, length: int) -> float:
    """What the strength of a text is multiplied by for its form and for its length in characters."""
    stated = (1 - _ASKED * form.asked) * (1 - _ANNOUNCED * form.announced)
    stated *= (1 - _PASTED * form.pasted) * (1 - _PASTED * form.commanded)
    long: float = max(length / _LONG, 1) ** -_LONG_TEXT
    return stated * long


class Item(NamedTuple):
    id: int
    shelf: str
    kind: str
    ref: int
    piece: int
    label: str
    session_id: str | None
    project: str | None
    turn: int | None
    at: str
    author: str | None = None


#: A session and the number of a turn in it.
Turn: TypeAlias = tuple[str | None, int]


class Query(NamedTuple):
    """The words of a question, and their weights in this workspace."""

    terms: list[str]
    #: How many items there are, and their mean length.
    items: int
    average: float
    #: For each word: in how many items it occurs, and its weight.
    found: dict[str, int]
    weights: dict[str, float]
    #: For each shelf, which word a term's number on it stands for.
    shelves: dict[str, dict[int, str]]

    def rarity(self, term: str) -> float:
        """About 1 for a word that a single item contains, less the more items contain it.

        Computed as if there were a hundred more items, because a small store says little about how rare a word is.
        """
        items, found = self.items + 100, self.found.get(term, 0)
        return log(1 + (items - found + 0.5) / (found + 0.5)) / log(1 + (items - 0.5) / 1.5)

    def rarities(self) -> dict[str, float]:
        """The rarity of each word, which `met` takes, so that it is computed once for many items."""
        return {term: self.rarity(term) for term in self.weights}

    def met(self, found: dict[str, float], rarities: dict[str, float]) -> tuple[float, float]:
        """How much of the question the found words cover, weighted by rarity, and how many rare words they are worth.

        The second number adds squares, so that several common words do not add up to a rare one.
        """
        values = [value / self.weights[term] * rarities[term] for term, value in found.items()]
        whole = fsum(rarities.values())
        # Exact sums, so that the order in which an engine returns the words does not matter.
        return fsum(values) / whole if whole else 0.0, fsum(value * value for value in values)


class Preferences(NamedTuple):
    """What decides between items that match about equally well."""

    now: str
    #: The project that is being worked on.
    project: str | None
    #: The times that the question names.
    spans: tuple[Span, ...]

    def of_project(self, item: Item) -> float:
        return _SAME_PROJECT if self.project is not None and item.project == self.project else 0.0

    def of_day(self, at: str) -> float:
        """The preference for a time, by whole days, so that every process and engine gives the same answer."""
        said = day(at)
        preference: float = _RECENT * 0.5 ** (max((day(self.now) - said).days, 0) / _RECENT_DAYS)
        if self.spans:
            preference += _DATED * 0.5 ** (min(span.days_from(said) for span in self.spans) / _DATED_DAYS)
        return preference


class Scored(NamedTuple):
    item: Item
    strength: float
    #: The share of the question that its words cover, and how many rare words these are worth; see `Query.met`.
    share: float
    telling: float
    meaning: float
    tokens: float
    preference: float
    #: The weight of each query word in this item.
    found: dict[str, float]


def matches(items: dict[int, Item], occurrences: dict[int, dict[str, float]]) -> dict[int, dict[str, float]]:
    """For each item, the best weight of each query word: in the item itself or, for less, in an adjacent turn.

    A long turn says many things. So of its pieces only the last one borders on the turn that follows, and only the
    first one on the turn before.
    """
    last = _last_pieces(items)
    # The words of each turn in the piece that borders on the turn before, and in the one that borders on the next.
    begin: dict[Turn, dict[str, float]] = {}
    end: dict[Turn, dict[str, float]] = {}
    for id, words in occurrences.items():
        item = items[id]
        if item.turn is not None:
            turn = item.session_id, item.turn
            if item.piece == 0:
                begin[turn] = words
            if item.piece == last[turn]:
                end[turn] = words
    found: dict[int, dict[str, float]] = {}
    for id, item in items.items():
        best = found[id] = dict(occurrences.get(id, ()))
        if item.turn is None:
            continue
        is_first, is_last = item.piece == 0, item.piece == last[item.session_id, item.turn]
        for distance, share in _NEAR:
            if not (is_first if distance > 0 else is_last):
                continue
            there = (end if distance > 0 else begin).get((item.session_id, item.turn - distance))
            for term, value in there.items() if there else ():
                if value * share > best.get(term, 0.0):
                    best[term] = value * share
    return found


def _last_pieces(items: dict[int, Item]) -> dict[Turn, int]:
    """The number of the last known piece of each turn."""
    last: dict[Turn, int] = {}
    for item in items.values():
        if item.turn is not None:
            turn = item.session_id, item.turn
            last[turn] = max(last.get(turn, 0), item.piece)
    return last


def combine(
    asked: Query,
    filters: Filters,
    items: dict[int, Item],
    own: dict[int, dict[str, float]],
    matches: dict[int, dict[str, float]],
    meaning: dict[int, float],
    preferences: Preferences,
    weights: Weights,
    closer: Mapping[int, float],
    *,
    by_meaning: bool,
) -> list[Scored]:
    """The items that the filters allow, strongest first. `by_meaning` also keeps those that match nothing.

    `own` are the words in the items themselves, `matches` also those in adjacent turns.
    """
    rarities = asked.rarities()
    met = {id: asked.met(found, rarities) for id, found in matches.items()}
    # The more words a question has, the smaller is the share of them that its answer contains.
    length = max(len(asked.weights), 1) ** _LENGTH
    without_words = {
        id: max(meaning.get(id, 0.0), 0.0) ** 2 / weights.meaning
        + weights.rerank * max(closer.get(id, 0.0) - weights.tokens, 0.0)
        for id in met
    }
    strengths = {id: share * share * length + without_words[id] for id, (share, _) in met.items()}
    ranked = []
    days: dict[str, float] = {}
    for id, strength in _smoothed(items, strengths, weights.smooth).items():
        item = items[id]
        if (strength > 0 or (by_meaning and id in meaning)) and filters.fits(item):
            date = item.at[:10]
            if date not in days:
                days[date] = preferences.of_day(item.at)
            preference = 1 + days[date] + preferences.of_project(item)
            if item.turn is not None and strength > _LIFTED:
                share = asked.met(own[id], rarities)[0] if id in own else 0.0
                strength = _lifted(strength, share * share * length + without_words[id])
            close, tokens = meaning.get(id, 0.0), closer.get(id, 0.0)
            ranked.append(Scored(item, strength * preference, *met[id], close, tokens, preference, matches[id]))
    # Rounded, so that the last bits of a sum cannot decide. Ties go to the closer and then to the earlier item.
    ranked.sort(key=lambda scored: (-round(scored.strength, 9), -round(scored.meaning, 6), scored.item.id))
    return ranked


def _lifted(strength: float, own: float) -> float:
    """The strength of a turn with what its neighbours add, which is limited by what the turn matches itself."""
    most = _LIFTED + _TIMES_OWN * own
    return strength if strength <= most else most + _ABOVE * (strength - most)


def _smoothed(items: dict[int, Item], strengths: dict[int, float], share: float) -> dict[int, float]:
    """Strengths in which a turn gains a little from a good adjacent turn."""
    sessions: dict[str | None, dict[int, float]] = {}
    for id, item in items.items():
        if item.turn is not None:
            turns = sessions.setdefault(item.session_id, {})
            turns[item.turn] = max(turns.get(item.turn, 0.0), strengths[id])
    smooth = {}
    for id, item in items.items():
        strength = strengths[id]
        if item.turn is not None:
            turns = sessions[item.session_id]
            beside = max(turns.get(item.turn - 1, 0.0), turns.get(item.turn + 1, 0.0))
            strength = (strength + share * beside) / (1 + share)
        smooth[id] = strength
    return smooth
