"""Finds the best items by words without adding up every posting of every query word.

Agents write from templates. Some words are then in nearly every item, and adding up their postings takes longer than
everything else, although such a word decides nothing. So only the rarest words are added up for all items that contain
them. The other words together can give an item at most a known sum. Once that sum is below the score of the last item
that is wanted, no item without a rare word can be among the wanted ones. Those with a rare word that may still be are
looked up one by one. While the sum is too large, more words are added up; at worst, all of them.

This is exact (the algorithm is known as MaxScore): the result is the same as that of the full sum. Scores are rounded
before they are compared, so that the last bits of a sum cannot decide. Ties go to the earlier item.
"""

from __future__ import annotations

from itertools import accumulate
from math import fsum, inf
from typing import TYPE_CHECKING, NamedTuple

from .scoring import K1, B
from .sql_values import PAIRS, weighted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..storage.engine import Answer, Row, Transaction
    from .recall_request import Filters
    from .scoring import Query

#: Scores are equal if they are equal in this many decimal places.
_DECIMALS = 9
#: More than the error of a rounded sum.
_MARGIN = 4 * 10.0**-_DECIMALS
#: A sum includes the next word too if it then has at most this many postings, or this many times as many as before.
#: While the other words still seem to weigh too much, it may become much larger.
_FEW, _GROWTH, _MUCH = 2_000, 3, 12
#: How many items of a sum are fetched at least.
_FETCHED = 1_000

_SCORE = "SUM(CAST(q.weight AS DOUBLE PRECISION) * p.tf * 1.9 / (p.tf + 0.9 * (0.6 + 0.4 * p.length / :average)))"
_BEST_SUMS = """ GROUP BY p.item) sums
WHERE score >= :least ORDER BY CAST(score * 1000000000 AS BIGINT) DESC, item LIMIT :limit"""
# The list of terms repeats the join, for PostgreSQL: without it the server cannot know how few postings these terms
# have, and reads them all.
_SUMS = (
    "WITH q (term, weight) AS (VALUES "
    + PAIRS
    + ") SELECT item, score FROM (SELECT p.item, "
    + _SCORE
    + """ AS score
FROM q JOIN postings p ON p.term = CAST(q.term AS BIGINT)
WHERE p.term IN (SELECT value FROM json_each(:terms))"""
    + _BEST_SUMS
)
_SUMS_FILTERED = (
    "WITH q (term, weight) AS (VALUES "
    + PAIRS
    + ") SELECT item, score FROM (SELECT p.item, "
    + _SCORE
    + """ AS score
FROM q JOIN postings p ON p.term = CAST(q.term AS BIGINT) JOIN items i ON i.id = p.item
WHERE p.term IN (SELECT value FROM json_each(:terms))
  AND (CAST(:session AS TEXT) IS NULL OR i.session_id = :session)
  AND (CAST(:exclude AS TEXT) IS NULL OR i.session_id IS NULL OR i.session_id <> :exclude)
  AND (CAST(:project AS TEXT) IS NULL OR i.project = :project)
  AND (CAST(:author AS TEXT) IS NULL OR i.author = :author)
  AND (CAST(:since AS TEXT) IS NULL OR i.at >= :since) AND (CAST(:until AS TEXT) IS NULL OR i.at < :until)"""
    + _BEST_SUMS
)
_POSTINGS = """
SELECT item, term, tf, length FROM postings
WHERE term IN (SELECT value FROM json_each(:terms)) AND item IN (SELECT value FROM json_each(:ids))
"""


class Search:
    """The search for the best items. Each shelf is searched separately, because its terms have numbers of their own.

    Making it asks for the first sums of all shelves, and `ask_more` for what follows from them. So a caller can ask for
    other things in the same round trips.
    """

    def __init__(self, tx: Transaction, asked: Query, filters: Filters, limit: int) -> None:
        self._best = _Best(limit)
        self._shelves = [_Shelf(tx, asked, filters, known, self._best) for known in asked.shelves.values() if known]

    def ask_more(self) -> list[int]:
        """Ask for the words of the items with the largest sums; these items."""
        return [item for shelf in self._shelves for item in shelf.ask_first_weights()]

    def items(self) -> list[int]:
        """The best items, best first."""
        for shelf in self._shelves:
            shelf.search()
        return self._best.items()


def best(tx: Transaction, asked: Query, filters: Filters, limit: int) -> list[int]:
    """The best items, best first."""
    search = Search(tx, asked, filters, limit)
    search.ask_more()
    return search.items()


def ask_postings(tx: Transaction, terms: Iterable[int], ids: Sequence[int]) -> Answer:
    """Ask for the terms of some items, for `weights_of`."""
    return tx.ask(_POSTINGS, terms=tx.array(terms), ids=tx.array(ids))


def weights_in(tx: Transaction, asked: Query, known: dict[int, str], ids: Sequence[int]) -> dict[int, dict[str, float]]:
    """For each of these items of a shelf that contains query terms, the weight of each term in it."""
    return weights_of(asked, known, ask_postings(tx, known, ids).all()) if known and ids else {}


def weights_of(asked: Query, known: dict[int, str], postings: Iterable[Row]) -> dict[int, dict[str, float]]:
    """The weight of each term in each item."""
    found: dict[int, dict[str, float]] = {}
    for item, number, tf, length in postings:
        term = known[number]
        norm = K1 * (1 - B + B * length / asked.average)
        found.setdefault(item, {})[term] = asked.weights[term] * tf * (K1 + 1) / (tf + norm)
    return found


class _Best:
    """The best items so far, with their scores."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._best: list[tuple[float, int]] = []

    def add(self, scores: Iterable[tuple[int, float]]) -> None:
        self._best = sorted({*self._best, *((-round(score, _DECIMALS), item) for item, score in scores)})[: self.limit]

    @property
    def least(self) -> float:
        """An item with a lower score is certainly not one of the best."""
        return -self._best[-1][0] - _MARGIN if len(self._best) == self.limit else -inf

    def items(self) -> list[int]:
        return [item for _, item in self._best]


class _Term(NamedTuple):
    number: int
    weight: float
    #: How many items contain it, on all shelves.
    found: int


class _Shelf:
    """The search of one shelf."""

    def __init__(self, tx: Transaction, asked: Query, filters: Filters, known: dict[int, str], found: _Best) -> None:
        self._tx, self._asked, self._filters, self._known, self._best = tx, asked, filters, known, found
        terms = [_Term(number, asked.weights[term], asked.found[term]) for number, term in known.items()]
        self._terms = sorted(terms, key=lambda term: (-term.weight, term.number))
        #: How many postings the first terms have together.
        self._postings = list(accumulate((term.found for term in self._terms), initial=0))
        #: The most that all but the first terms can give an item together.
        most = accumulate((term.weight * (K1 + 1) for term in reversed(self._terms)), initial=0.0)
        self._others = list(most)[::-1]
        #: About the least score of the best: two words as rare as the one with which there are enough items.
        enough = (
            term.weight
            for term, postings in zip(self._terms, self._postings[1:], strict=True)
            if postings >= found.limit
        )
        self._guess = 2 * next(enough, 0.0)
        # The first sums are asked for at once.
        self._first = self._grown(0)
        self._first_sums: Answer | None = self._ask_sums(self._first, 0.0, self._fetched(self._first))
        self._first_weights: Answer | None = None

    def ask_first_weights(self) -> list[int]:
        """Ask for the words of the items that have the largest of the first sums; these items."""
        assert self._first_sums is not None
        items = [item for item, _ in self._first_sums.all()[: self._best.limit]]
        self._first_weights = ask_postings(self._tx, self._known, items)
        return items

    def search(self) -> None:
        """Add the items of this shelf that are among the best."""
        count = self._first
        fetched = self._fetched(count)
        while not self._settle(count, fetched):
            grown = self._grown(count)
            postings = self._postings[count]
            if self._excludes_others(count) and fetched <= postings < self._postings[grown] / _GROWTH:
                # Looking up every item of this sum costs less than adding up another term.
                fetched = postings + 1
            else:
                count, fetched = grown, self._fetched(grown)

    def _fetched(self, count: int) -> int:
        """How many items of a sum to fetch. The full sum needs no more than the best."""
        return self._best.limit if count == len(self._terms) else max(_FETCHED, 4 * self._best.limit)

    def _grown(self, count: int) -> int:
        """How many terms to add up next: at least one more, and those that cost little compared with them."""
        count += 1
        postings = self._postings
        while count < len(self._terms):
            growth = _GROWTH if self._others[count] < self._guess else _MUCH
            if postings[count + 1] > max(_FEW, growth * postings[count]):
                break
            count += 1
        return count

    def _settle(self, count: int, limit: int) -> bool:
        """Add up the first terms, and complete the items that may be among the best. False if others may be, too."""
        others = self._others[count]
        if self._first_sums is not None and self._first_weights is not None:
            rows = self._first_sums.all()
            self._add(weights_of(self._asked, self._known, self._first_weights.all()))
            self._first_sums = self._first_weights = None
        else:
            rows = self._ask_sums(count, self._best.least - others, limit).all()
            self._complete([item for item, _ in rows[: self._best.limit]])
        if count == len(self._terms):
            return True
        if not self._excludes_others(count):
            return False
        possible = {item: score for item, score in rows[self._best.limit :] if score + others >= self._best.least}
        if len(rows) == limit and rows[-1][0] in possible:
            return False
        rest = {term.number: self._known[term.number] for term in self._terms[count:]}
        for item, found in weights_in(self._tx, self._asked, rest, list(possible)).items():
            possible[item] += fsum(found.values())
        self._complete([item for item, score in possible.items() if score >= self._best.least])
        return True

    def _excludes_others(self, count: int) -> bool:
        """Whether an item without any of the first terms cannot be among the best."""
        return self._others[count] < self._best.least

    def _complete(self, ids: list[int]) -> None:
        """Compute the full scores of some items."""
        self._add(weights_in(self._tx, self._asked, self._known, ids))

    def _add(self, weights: dict[int, dict[str, float]]) -> None:
        # An exact sum, so that the order of the words does not matter.
        self._best.add((item, fsum(found.values())) for item, found in weights.items())

    def _ask_sums(self, count: int, least: float, limit: int) -> Answer:
        """Ask for the sums over the first terms, largest first."""
        terms = self._terms[:count]
        values: dict[str, object] = {
            "average": self._asked.average,
            "least": max(least, 0.0),
            "limit": limit,
            "terms": self._tx.array([term.number for term in terms]),
            **weighted([(term.number, term.weight) for term in terms]),
        }
        tx = self._tx
        if not self._filters.filtered:
            return tx.ask(_SUMS, **values)
        return tx.ask(
            _SUMS_FILTERED,
            session=self._filters.session_id,
            exclude=self._filters.exclude_session,
            project=self._filters.project,
            since=self._filters.since,
            until=self._filters.until,
            author=self._filters.author,
            **values,
        )
