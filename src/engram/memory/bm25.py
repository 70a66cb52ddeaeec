"""Looks up words: weighs query terms, finds matching items, fetches adjacent turns.

The engines add floating-point numbers in different orders. Therefore `scoring` scores what SQL selects here again, from
the same postings.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

from . import pruning, term_counts
from .scoring import REACH, Item, Query
from .sql_values import PAIRS_SIZE, RANGES, ranges
from .word_index import ask_size, ask_terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..storage.engine import Transaction
    from .recall_request import Filters


_ITEM_COLUMNS = "id, shelf, kind, ref, piece, label, session_id, project, turn, at, author"
_ITEMS = (
    "SELECT " + _ITEM_COLUMNS + " FROM items WHERE workspace = :workspace AND id IN (SELECT value FROM json_each(:ids))"
)
_OF_MEMORIES = """
SELECT id FROM items WHERE kind = 'memory' AND ref IN (SELECT value FROM json_each(:refs)) AND workspace = :workspace
"""
_AROUND = (
    "WITH q (session, first, last) AS (VALUES "
    + RANGES
    + ") SELECT "
    + _ITEM_COLUMNS
    + """ FROM q CROSS JOIN items i
WHERE i.workspace = :workspace AND i.session_id = CAST(q.session AS TEXT)
  AND i.turn BETWEEN CAST(q.first AS INTEGER) AND CAST(q.last AS INTEGER)"""
)


def weigh(tx: Transaction, workspace: str, shelves: Sequence[str], terms: list[str]) -> Query:
    """The weight of each query term, by how many items contain it."""
    items, length = 0, 0
    by_shelf: dict[str, dict[int, str]] = {}
    sizes = {shelf: ask_size(tx, workspace, shelf) for shelf in shelves}
    known = {shelf: ask_terms(tx, workspace, shelf, terms) for shelf in shelves}
    for shelf in shelves:
        ((more_items, more_length),) = sizes[shelf].all()
        if more_items is not None:
            items, length = items + more_items, length + more_length
            by_shelf[shelf] = {number: term for term, number in known[shelf].all()}
    found = dict.fromkeys(terms, 0)
    numbers = {number: term for shelf in by_shelf.values() for number, term in shelf.items()}
    for number, count in term_counts.count(tx, workspace, by_shelf).items():
        found[numbers[number]] += count
    weights = {term: log(1 + (items - count + 0.5) / (count + 0.5)) for term, count in found.items()}
    if len(terms) > PAIRS_SIZE:
        kept = set(sorted((term for term in terms if found[term]), key=lambda term: found[term])[:PAIRS_SIZE])
        by_shelf = {
            shelf: {number: term for number, term in numbered.items() if term in kept}
            for shelf, numbered in by_shelf.items()
        }
        weights = {term: weights[term] for term in terms if term in kept}
    return Query(terms, items, length / items if items else 1.0, found, weights, by_shelf)


def best_by_words(tx: Transaction, asked: Query, filters: Filters, limit: int) -> list[int]:
    """The best items by words, best first; of equally good ones the earlier first."""
    return pruning.best(tx, asked, filters, limit)


def fetch(tx: Transaction, workspace: str, ids: list[int], known: dict[int, Item]) -> list[Item]:
    """The items that exist. `known` caches the items of this snapshot and gains the new ones."""
    unknown = [id for id in ids if id not in known]
    if unknown:
        rows = tx.all(_ITEMS, workspace=workspace, ids=tx.array(unknown))
        known.update({item.id: item for item in (Item(*row) for row in rows)})
    return [known[id] for id in ids if id in known]


def of_memories(tx: Transaction, workspace: str, refs: Iterable[int]) -> list[int]:
    """The items that belong to some memories."""
    return sorted(tx.column(_OF_MEMORIES, workspace=workspace, refs=tx.array(refs)))


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
        found |= pruning.weights_in(tx, asked, numbers, ids)
    return found
