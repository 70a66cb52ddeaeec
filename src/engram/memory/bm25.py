"""Looks up words: weighs query terms, finds matching items, fetches adjacent turns.

The engines add floating-point numbers in different orders. Therefore `scoring` scores what SQL selects here again, from
the same postings.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

from . import term_counts
from .pruning import ask_postings, best, weights_of
from .scoring import REACH, Item, Query
from .sql_values import PAIRS_SIZE, RANGES, ranges
from .word_index import ask_size, ask_terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..storage.engine import Answer, Transaction
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
_POSTINGS_AROUND = (
    "WITH q (session, first, last) AS (VALUES "
    + RANGES
    + """) SELECT p.item, p.term, p.tf, p.length
FROM q CROSS JOIN items i CROSS JOIN postings p
WHERE i.workspace = :workspace AND i.session_id = CAST(q.session AS TEXT)
  AND i.turn BETWEEN CAST(q.first AS INTEGER) AND CAST(q.last AS INTEGER)
  AND p.item = i.id AND p.term IN (SELECT value FROM json_each(:terms))"""
)


class Weighing:
    """What is asked about the terms of a query in one round trip."""

    def __init__(self, tx: Transaction, workspace: str, shelves: Sequence[str], terms: list[str]) -> None:
        self.terms = terms
        self.sizes = {shelf: ask_size(tx, workspace, shelf) for shelf in shelves}
        self.known = {shelf: ask_terms(tx, workspace, shelf, terms) for shelf in shelves}
        self.changes = term_counts.ask_changes(tx, workspace)


def weigh(
    tx: Transaction,
    workspace: str,
    shelves: Sequence[str],
    terms: list[str],
    asked: Weighing | None = None,
    *,
    is_last: bool = False,
) -> Query:
    """The weight of each query term, by how many items contain it. `asked` is what was asked about these terms.

    With `is_last` the caller asks for nothing else in this transaction.
    """
    items, length = 0, 0
    by_shelf: dict[str, dict[int, str]] = {}
    if asked is None or asked.terms != terms:
        asked = Weighing(tx, workspace, shelves, terms)
    for shelf in shelves:
        ((more_items, more_length),) = asked.sizes[shelf].all()
        if more_items is not None:
            items, length = items + more_items, length + more_length
            by_shelf[shelf] = {number: term for term, number in asked.known[shelf].all()}
    found = dict.fromkeys(terms, 0)
    numbers = {number: term for shelf in by_shelf.values() for number, term in shelf.items()}
    for number, count in term_counts.count(tx, workspace, by_shelf, asked.changes, is_last=is_last).items():
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
    return best(tx, asked, filters, limit)


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


def ask_items(tx: Transaction, workspace: str, ids: Iterable[int]) -> Answer:
    """Ask for items, for `keep_items`."""
    return tx.ask(_ITEMS, workspace=workspace, ids=tx.array(ids))


def keep_items(asked: Answer, known: dict[int, Item]) -> None:
    """Put items that were asked for into a cache for `fetch`."""
    known.update({item.id: item for item in (Item(*row) for row in asked.all())})


def with_neighbours(
    tx: Transaction, workspace: str, asked: Query, items: list[Item], by_words: set[int]
) -> tuple[dict[int, Item], dict[int, dict[str, float]]]:
    """The items, and the turns around those that were found by words; and the weight of each query term in each item.

    Without items that were found by words there are no weights.
    """
    spans: dict[str, list[tuple[int, int]]] = {}
    # Items whose terms come with those of the turns around them.
    within: set[int] = set()
    for item in items:
        if item.id in by_words and item.turn is not None and item.session_id is not None:
            spans.setdefault(item.session_id, []).append((item.turn - REACH, item.turn + REACH))
            within.add(item.id)
    around = {item.id: item for item in items}
    wanted = [(session, *span) for session, some in spans.items() for span in _merge_touching(sorted(some))]
    known = {number: term for shelf in asked.shelves.values() for number, term in shelf.items()}
    neighbours, postings = [], []
    if by_words and known and (others := [id for id in around if id not in within]):
        postings.append(ask_postings(tx, known, others))
    for some in ranges(wanted):
        neighbours.append(tx.ask(_AROUND, workspace=workspace, **some))
        if known:
            postings.append(tx.ask(_POSTINGS_AROUND, workspace=workspace, terms=tx.array(known), **some))
    around.update({item.id: item for answer in neighbours for item in (Item(*row) for row in answer.all())})
    return around, weights_of(asked, known, (row for answer in postings for row in answer.all()))


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
