"""Scoring: combines matches by words, meaning and tokens into one order. It knows no store; `recall` brings data."""

from __future__ import annotations

from math import fsum, log
from typing import TYPE_CHECKING, NamedTuple

from .query_dates import Span, day

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .recall_request import Filters

K1, B = 0.9, 0.4
#: The weight of a word in an adjacent turn, by how many turns it is before (+) or after (-) the scored one.
_NEAR = ((1, 0.6), (2, 0.5), (3, 0.4), (-1, 0.5), (-2, 0.4), (-3, 0.3))
REACH = 3
#: Small: they decide between similar scores and never outweigh a better match.
_SAME_PROJECT, _RECENT, _DATED = 0.05, 0.05, 0.25
#: Half-life in days of recency, and of the distance from a time that the question names.
_RECENT_DAYS, _DATED_DAYS = 30, 7


class Weights(NamedTuple):
    """Constants that differ between models. `bench/recall_quality.py` shows how little the exact choice matters."""

    #: The share of an adjacent turn's score that a turn gains.
    smooth: float = 0.3
    #: The share of items containing a word at which its weight in the query's vector is half.
    common: float = 0.1
    #: Squared standard deviations of meaning that weigh as much as a perfect match by words.
    meaning: float = 30.0
    #: How much of what all turns have in common is subtracted from a query's vector. Otherwise small talk matches all.
    background: float = 0.5
    #: The weight of the best match by tokens, compared with a perfect match by words.
    rerank: float = 0.5
    #: Whether reranking is on by default.
    reranks: bool = True


#: By provider. With `static`, comparing tokens helps questions that use the answer's words, and hurts paraphrases.
_WEIGHTS = {
    "static": Weights(common=0.15, meaning=60.0, background=0.0, rerank=0.2, reranks=False),
    "minilm": Weights(),
}


def weights_of(model: str | None) -> Weights:
    """The weights for a model. One that was not measured gets those of MiniLM."""
    provider, _, _ = (model or "").partition(":")
    return _WEIGHTS.get(provider, Weights())


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

    @property
    def ideal(self) -> float:
        return sum(self.weights.values())

    def rarity(self, term: str) -> float:
        """About 1 for a word that a single item contains, less the more items contain it.

        Computed as if there were a hundred more items, because a small store says little about how rare a word is.
        """
        items, found = self.items + 100, self.found.get(term, 0)
        return log(1 + (items - found + 0.5) / (found + 0.5)) / log(1 + (items - 0.5) / 1.5)

    def met(self, found: dict[str, float]) -> tuple[float, float]:
        """How much of the question the found words cover, weighted by rarity, and how many rare words they are worth.

        The second number adds squares, so that several common words do not add up to a rare one.
        """
        values = [value / self.weights[term] * self.rarity(term) for term, value in found.items()]
        whole = sum(map(self.rarity, self.weights))
        return sum(values) / whole if whole else 0.0, sum(value * value for value in values)


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
    score: float
    words: float
    meaning: float
    tokens: float
    preference: float
    #: The weight of each query word in this item.
    found: dict[str, float]


def matches(items: dict[int, Item], occurrences: dict[int, dict[str, float]]) -> dict[int, dict[str, float]]:
    """For each item, the best weight of each query word: in the item itself or, for less, in an adjacent turn."""
    sessions: dict[str | None, dict[int, dict[str, float]]] = {}
    for id, words in occurrences.items():
        item = items[id]
        if item.turn is not None:
            turns = sessions.setdefault(item.session_id, {})
            there = turns.setdefault(item.turn, words)
            if there is not words:  # another piece of the same turn
                turns[item.turn] = {
                    term: max(words.get(term, 0.0), there.get(term, 0.0)) for term in {**there, **words}
                }
    found: dict[int, dict[str, float]] = {}
    for id, item in items.items():
        best = found[id] = dict(occurrences.get(id, ()))
        if item.turn is None or item.session_id not in sessions:
            continue
        turns, turn = sessions[item.session_id], item.turn
        for distance, share in _NEAR:
            if turn - distance in turns:
                for term, value in turns[turn - distance].items():
                    if value * share > best.get(term, 0.0):
                        best[term] = value * share
    return found


def combine(
    asked: Query,
    filters: Filters,
    items: dict[int, Item],
    matches: dict[int, dict[str, float]],
    meaning: dict[int, float],
    preferences: Preferences,
    weights: Weights,
    closer: Mapping[int, float],
    *,
    hybrid: bool,
) -> list[Scored]:
    """Scores from words, meaning and tokens, best first; only items that the filters allow."""
    # An exact sum, so that the order in which an engine returns the words does not matter.
    by_words = {id: fsum(found.values()) for id, found in matches.items()}
    best = max(by_words.values(), default=0.0)
    ideal = asked.ideal
    if hybrid:
        top = best * ideal
        scores = {
            id: (by_words[id] ** 2 / top if top else 0.0)
            + meaning.get(id, 0.0) ** 2 / weights.meaning
            + weights.rerank * closer.get(id, 0.0)
            for id in items
        }
    else:
        scores = {id: by_words[id] / ideal if ideal else 0.0 for id in items}
    ranked = []
    days: dict[str, float] = {}
    for id, score in _smoothed(items, scores, weights.smooth).items():
        item = items[id]
        if score > 0 and filters.fits(item):
            date = item.at[:10]
            if date not in days:
                days[date] = preferences.of_day(item.at)
            preference = 1 + days[date] + preferences.of_project(item)
            words, close, tokens = by_words[id], meaning.get(id, 0.0), closer.get(id, 0.0)
            ranked.append(Scored(item, score * preference, words, close, tokens, preference, matches[id]))
    # Rounded, so that the last bits of a sum cannot decide. Ties go to the earlier item.
    ranked.sort(key=lambda scored: (-round(scored.score, 9), scored.item.id))
    return ranked


def _smoothed(items: dict[int, Item], scores: dict[int, float], share: float) -> dict[int, float]:
    """Scores in which a turn gains a little from a good adjacent turn."""
    sessions: dict[str | None, dict[int, float]] = {}
    for id, item in items.items():
        if item.turn is not None:
            turns = sessions.setdefault(item.session_id, {})
            turns[item.turn] = max(turns.get(item.turn, 0.0), scores[id])
    smooth = {}
    for id, item in items.items():
        score = scores[id]
        if item.turn is not None:
            turns = sessions[item.session_id]
            beside = max(turns.get(item.turn - 1, 0.0), turns.get(item.turn + 1, 0.0))
            score = (score + share * beside) / (1 + share)
        smooth[id] = score
    return smooth
