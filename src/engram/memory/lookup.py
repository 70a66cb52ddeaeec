"""Looking words up: what a query's words are worth here, who has them, and who stands beside those.

The engines add floating-point numbers in different orders, so what SQL chooses here is scored again by `scoring`, from
the same postings.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

from .index import find
from .places import CHUNK, PAIRS, PAIRS_SIZE, padded, weighted
from .scoring import K1, REACH, B, Item, Query, Wanted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..storage.engine import Row, Transaction

#: More words than this are a pasted text; its rarest ones say what it is about.
_MOST_TERMS = 24

_SHELF = "SELECT items, length FROM shelves WHERE workspace = :workspace AND shelf = :shelf"
_COUNTS = "SELECT term, COUNT(*) FROM postings WHERE term IN (" + CHUNK + ") GROUP BY term"
_BEST = (
    "WITH q (term, weight) AS (VALUES "
    + PAIRS
    + """)
SELECT p.item,
       SUM(CAST(q.weight AS DOUBLE PRECISION) * p.tf * 1.9 / (p.tf + 0.9 * (0.6 + 0.4 * p.length / :average))) AS score
FROM q JOIN postings p ON p.term = CAST(q.term AS BIGINT)
GROUP BY p.item ORDER BY score DESC, p.item LIMIT :limit"""
)
_BEST_FILTERED = (
    "WITH q (term, weight) AS (VALUES "
    + PAIRS
    + """)
SELECT p.item,
       SUM(CAST(q.weight AS DOUBLE PRECISION) * p.tf * 1.9 / (p.tf + 0.9 * (0.6 + 0.4 * p.length / :average))) AS score
FROM q JOIN postings p ON p.term = CAST(q.term AS BIGINT) JOIN items i ON i.id = p.item
WHERE (CAST(:session AS TEXT) IS NULL OR i.session_id = :session)
  AND (CAST(:exclude AS TEXT) IS NULL OR i.session_id IS NULL OR i.session_id <> :exclude)
  AND (CAST(:project AS TEXT) IS NULL OR i.project = :project)
  AND (CAST(:since AS TEXT) IS NULL OR i.at >= :since) AND (CAST(:until AS TEXT) IS NULL OR i.at < :until)
GROUP BY p.item ORDER BY score DESC, p.item LIMIT :limit"""
)
_ITEM_COLUMNS = "id, shelf, kind, ref, piece, label, session_id, project, turn, at"
_ITEMS = "SELECT " + _ITEM_COLUMNS + " FROM items WHERE workspace = :workspace AND id IN (" + CHUNK + ")"
_AROUND = (
    "SELECT "
    + _ITEM_COLUMNS
    + """ FROM items
WHERE workspace = :workspace AND session_id = :session AND turn BETWEEN :first AND :last"""
)
_POSTINGS = "SELECT item, term, tf, length FROM postings WHERE term = :term AND item IN (" + CHUNK + ")"


def weigh(tx: Transaction, workspace: str, shelves: Sequence[str], terms: list[str]) -> Query:
    """What each word of the query is worth, by how many items have it."""
    items, length = 0, 0
    numbers: dict[int, str] = {}
    by_shelf: list[dict[int, str]] = []
    for shelf in shelves:
        row = tx.one(_SHELF, workspace=workspace, shelf=shelf)
        items, length = (items + row[0], length + row[1]) if row else (items, length)
        by_shelf.append({number: term for term, number in find(tx, workspace, shelf, terms).items()})
        numbers.update(by_shelf[-1])
    found = dict.fromkeys(terms, 0)
    for some in padded(list(numbers)):
        for number, count in tx.all(_COUNTS, **some):
            found[numbers[number]] += count
    weights = {term: log(1 + (items - count + 0.5) / (count + 0.5)) for term, count in found.items()}
    if len(terms) > _MOST_TERMS:
        kept = set(sorted((term for term in terms if found[term]), key=lambda term: found[term])[:_MOST_TERMS])
        numbers = {number: term for number, term in numbers.items() if term in kept}
        by_shelf = [{number: term for number, term in shelf.items() if term in kept} for shelf in by_shelf]
        weights = {term: weights[term] for term in terms if term in kept}
    return Query(terms, items, length / items if items else 1.0, found, weights, numbers, by_shelf)


def best_by_words(tx: Transaction, asked: Query, wanted: Wanted, limit: int) -> list[int]:
    """Two shelves at a time, whose words fit the statement's places; an item's words are all on its own shelf."""
    best: list[Row] = []
    for first in range(0, len(asked.shelves), 2):
        known = [word for shelf in asked.shelves[first : first + 2] for word in shelf.items()]
        if known:
            best += _best_of(tx, asked, wanted, known, limit)
    best.sort(key=lambda row: (-row[1], row[0]))
    return [row[0] for row in best[:limit]]


def _best_of(tx: Transaction, asked: Query, wanted: Wanted, known: list[tuple[int, str]], limit: int) -> list[Row]:
    places = weighted([(number, asked.weights.get(term, 0.0)) for number, term in known][:PAIRS_SIZE])
    if not wanted.filtered:
        return tx.all(_BEST, average=asked.average, limit=limit, **places)
    return tx.all(
        _BEST_FILTERED,
        average=asked.average,
        limit=limit,
        session=wanted.session_id,
        exclude=wanted.exclude_session,
        project=wanted.project,
        since=wanted.since,
        until=wanted.until,
        **places,
    )


def fetch(tx: Transaction, workspace: str, ids: list[int]) -> dict[int, Item]:
    items: dict[int, Item] = {}
    for some in padded(list(dict.fromkeys(ids))):
        items.update({row[0]: Item(*row) for row in tx.all(_ITEMS, workspace=workspace, **some)})
    return items


def with_neighbours(tx: Transaction, workspace: str, items: dict[int, Item], by_words: set[int]) -> dict[int, Item]:
    """The items, and the turns around those that were found by words."""
    spans: dict[str, list[tuple[int, int]]] = {}
    for item in items.values():
        if item.id in by_words and item.turn is not None and item.session_id is not None:
            spans.setdefault(item.session_id, []).append((item.turn - REACH, item.turn + REACH))
    around = dict(items)
    for session, ranges in spans.items():
        for first, last in _joined(sorted(ranges)):
            rows: list[Row] = tx.all(_AROUND, workspace=workspace, session=session, first=first, last=last)
            around.update({row[0]: Item(*row) for row in rows})
    return around


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges that touch, as one."""
    joined: list[tuple[int, int]] = []
    for first, last in ranges:
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return joined


def occurrences(tx: Transaction, asked: Query, items: list[int]) -> dict[int, dict[str, float]]:
    """For each item, what each query word is worth in it."""
    found: dict[int, dict[str, float]] = {}
    for number, term in asked.numbers.items():
        for some in padded(items):
            for item, _, tf, length in tx.all(_POSTINGS, term=number, **some):
                norm = K1 * (1 - B + B * length / asked.average)
                found.setdefault(item, {})[term] = asked.weights[term] * tf * (K1 + 1) / (tf + norm)
    return found
