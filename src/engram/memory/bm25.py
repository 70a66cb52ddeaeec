"""Looks up words: weighs query terms, finds matching items, fetches adjacent turns.

The engines add floating-point numbers in different orders. Therefore `scoring` scores what SQL selects here again, from
the same postings.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

from .scoring import K1, REACH, B, Item, Query
from .sql_values import PAIRS, PAIRS_SIZE, RANGES, ranges, weighted
from .word_index import find

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..storage.engine import Row, Transaction
    from .recall_request import Filters


_SHELF = "SELECT items, length FROM shelves WHERE workspace = :workspace AND shelf = :shelf"
_COUNTS = "SELECT term, COUNT(*) FROM postings WHERE term IN (SELECT value FROM json_each(:terms)) GROUP BY term"
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
_ITEMS = (
    "SELECT " + _ITEM_COLUMNS + " FROM items WHERE workspace = :workspace AND id IN (SELECT value FROM json_each(:ids))"
)
_AROUND = (
    "WITH q (session, first, last) AS (VALUES "
    + RANGES
    + ") SELECT "
    + _ITEM_COLUMNS
    + """ FROM q CROSS JOIN items i
WHERE i.workspace = :workspace AND i.session_id = CAST(q.session AS TEXT)
  AND i.turn BETWEEN CAST(q.first AS INTEGER) AND CAST(q.last AS INTEGER)"""
)
_POSTINGS = """
SELECT item, term, tf, length FROM postings
WHERE term IN (SELECT value FROM json_each(:terms)) AND item IN (SELECT value FROM json_each(:ids))
"""


def weigh(tx: Transaction, workspace: str, shelves: Sequence[str], terms: list[str]) -> Query:
    """The weight of each query term, by how many items contain it."""
    items, length = 0, 0
    by_shelf: dict[str, dict[int, str]] = {}
    for shelf in shelves:
        for more_items, more_length in tx.all(_SHELF, workspace=workspace, shelf=shelf):
            items, length = items + more_items, length + more_length
            by_shelf[shelf] = {number: term for term, number in find(tx, workspace, shelf, terms).items()}
    found = dict.fromkeys(terms, 0)
    numbers = {number: term for shelf in by_shelf.values() for number, term in shelf.items()}
    for number, count in tx.all(_COUNTS, terms=tx.array(numbers)) if numbers else ():
        found[numbers[number]] += count
    weights = {term: log(1 + (items - count + 0.5) / (count + 0.5)) for term, count in found.items()}
    if len(terms) > PAIRS_SIZE:
        kept = set(sorted((term for term in terms if found[term]), key=lambda term: found[term])[:PAIRS_SIZE])
        by_shelf = {
            shelf: {number: term for number, term in known.items() if term in kept} for shelf, known in by_shelf.items()
        }
        weights = {term: weights[term] for term in terms if term in kept}
    return Query(terms, items, length / items if items else 1.0, found, weights, by_shelf)


def best_by_words(tx: Transaction, asked: Query, filters: Filters, limit: int) -> list[int]:
    """The best items by words. Each shelf is searched separately, because its terms have numbers of their own."""
    best: list[tuple[float, int]] = []
    for known in asked.shelves.values():
        if known:
            best += [(-score, item) for item, score in _best_of_shelf(tx, asked, filters, known, limit)]
    best.sort()
    return [item for _, item in best[:limit]]


def _best_of_shelf(tx: Transaction, asked: Query, filters: Filters, known: dict[int, str], limit: int) -> list[Row]:
    places = weighted([(number, asked.weights[term]) for number, term in known.items()])
    if not filters.filtered:
        return tx.all(_BEST, average=asked.average, limit=limit, **places)
    return tx.all(
        _BEST_FILTERED,
        average=asked.average,
        limit=limit,
        session=filters.session_id,
        exclude=filters.exclude_session,
        project=filters.project,
        since=filters.since,
        until=filters.until,
        **places,
    )


def fetch(tx: Transaction, workspace: str, ids: list[int], known: dict[int, Item]) -> list[Item]:
    """The items that exist. `known` caches the items of this snapshot and gains the new ones."""
    unknown = [id for id in ids if id not in known]
    if unknown:
        rows = tx.all(_ITEMS, workspace=workspace, ids=tx.array(unknown))
        known.update({item.id: item for item in (Item(*row) for row in rows)})
    return [known[id] for id in ids if id in known]


def with_neighbours(tx: Transaction, workspace: str, items: list[Item], by_words: set[int]) -> dict[int, Item]:
    """The items, and the turns around those that were found by words."""
    spans: dict[str, list[tuple[int, int]]] = {}
    for item in items:
        if item.id in by_words and item.turn is not None and item.session_id is not None:
            spans.setdefault(item.session_id, []).append((item.turn - REACH, item.turn + REACH))
    around = {item.id: item for item in items}
    wanted = [(session, *span) for session, some in spans.items() for span in _merge_touching(sorted(some))]
    for some in ranges(wanted):
        found = (Item(*row) for row in tx.all(_AROUND, workspace=workspace, **some))
        around.update({item.id: item for item in found})
    return around


def _merge_touching(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sorted ranges, with those that overlap or touch merged."""
    merged: list[tuple[int, int]] = []
    for first, last in ranges:
        begin, end = merged[-1] if merged else (first, first - 2)
        if first <= end + 1:
            merged[-1] = (begin, max(end, last))
        else:
            merged.append((first, last))
    return merged


def occurrences(tx: Transaction, asked: Query, items: dict[int, Item]) -> dict[int, dict[str, float]]:
    """For each item that contains query terms, the weight of each term in it."""
    found: dict[int, dict[str, float]] = {}
    for shelf, numbers in asked.shelves.items():
        ids = [item.id for item in items.values() if item.shelf == shelf]
        if not numbers or not ids:
            continue
        for item, number, tf, length in tx.all(_POSTINGS, terms=tx.array(numbers), ids=tx.array(ids)):
            term = numbers[number]
            norm = K1 * (1 - B + B * length / asked.average)
            found.setdefault(item, {})[term] = asked.weights[term] * tf * (K1 + 1) / (tf + norm)
    return found
