"""Scoring: what a match by words and by meaning is worth together. Knows no store; `recall` brings what it needs."""

from __future__ import annotations

from math import fsum, log
from typing import TYPE_CHECKING, NamedTuple

from .query_dates import Span, day

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .recall_request import Wanted

K1, B = 0.9, 0.4
#: What a word in a turn close by is worth, by how many turns it is before (+) or after (-) the one scored.
_NEAR = ((1, 0.6), (2, 0.5), (3, 0.4), (-1, 0.5), (-2, 0.4), (-3, 0.3))
REACH = 3
#: Gentle: they settle what is otherwise much alike, and never bury a better match.
_SAME_PROJECT, _RECENT, _DATED = 0.05, 0.05, 0.25
#: After so many days recency counts half, and so does being beside the time that a question names.
_RECENT_DAYS, _DATED_DAYS = 30, 7


class Weights(NamedTuple):
    """What may differ from one model to the next. `bench/recall_quality.py` shows how flat the choice is."""

    #: What a turn gains from a good one beside it.
    smooth: float = 0.3
    #: How soon a word counts as common when a query's meaning is made of its words: the share of items that have it.
    common: float = 0.1
    #: How many squared standard deviations of meaning weigh as much as a perfect match by words.
    meaning: float = 30.0
    #: How much of what all turns have in common is taken off a query's meaning; otherwise small talk is close to all.
    background: float = 0.5
    #: What the best match token by token is worth beside a perfect match by words.
    rerank: float = 0.5
    #: Whether that pays without being asked for.
    reranks: bool = True


#: By provider. With `static`, comparing tokens helps questions in the answer's own words and costs paraphrases.
_WEIGHTS = {
    "static": Weights(common=0.15, meaning=60.0, background=0.0, rerank=0.2, reranks=False),
    "minilm": Weights(),
}


def weights_of(model: str | None) -> Weights:
    """The weights for a model; one that was not measured is taken to be like MiniLM."""
    return _WEIGHTS.get((model or "").partition(":")[0], Weights())


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
    """The words of a question, and what each is worth in this workspace."""

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
        """About 1 for a word that a single item has, less the more have it.

        Counted as if there were a hundred more items: of the words in a small store nobody can say how rare they are.
        """
        items, found = self.items + 100, self.found.get(term, 0)
        return log(1 + (items - found + 0.5) / (found + 0.5)) / log(1 + (items - 0.5) / 1.5)

    def met(self, found: dict[str, float]) -> tuple[float, float]:
        """How much of the question an item's words are, each by its rarity, and how many rare words they are worth.

        The latter by squares, so that several common words do not add up to a rare one.
        """
        told = [value / self.weights[term] * self.rarity(term) for term, value in found.items()]
        whole = sum(map(self.rarity, self.weights))
        return sum(told) / whole if whole else 0.0, sum(value * value for value in told)


class Preferences(NamedTuple):
    """What tips the balance between items that fit about equally well."""

    now: str
    #: The project that is being worked on.
    project: str | None
    #: The times that the question names.
    spans: tuple[Span, ...]

    def of_project(self, item: Item) -> float:
        return _SAME_PROJECT if self.project is not None and item.project == self.project else 0.0

    def of_day(self, at: str) -> float:
        """By whole days, so that the same question has the same answer in every process and on every engine."""
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
    #: What each word of the question is worth in it.
    found: dict[str, float]


def matches(items: dict[int, Item], occurrences: dict[int, dict[str, float]]) -> dict[int, dict[str, float]]:
    """Each query word at its best: in the item itself, or for less in a turn close by."""
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
    wanted: Wanted,
    items: dict[int, Item],
    matches: dict[int, dict[str, float]],
    meaning: dict[int, float],
    preferences: Preferences,
    weights: Weights,
    closer: Mapping[int, float],
    *,
    hybrid: bool,
) -> list[Scored]:
    """Words, meaning and, where they were compared, tokens as one order, best first; only what was wanted."""
    # Exactly, so that it does not matter in which order an engine gave the words.
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
        if score > 0 and wanted.fits(item):
            date = item.at[:10]
            if date not in days:
                days[date] = preferences.of_day(item.at)
            preference = 1 + days[date] + preferences.of_project(item)
            words, close, tokens = by_words[id], meaning.get(id, 0.0), closer.get(id, 0.0)
            ranked.append(Scored(item, score * preference, words, close, tokens, preference, matches[id]))
    # Rounded, so that the last bits of a sum cannot decide; ties go to the earlier one.
    ranked.sort(key=lambda scored: (-round(scored.score, 9), scored.item.id))
    return ranked


def _smoothed(items: dict[int, Item], scores: dict[int, float], share: float) -> dict[int, float]:
    """A turn beside a good one gains a little of it."""
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
