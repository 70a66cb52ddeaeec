"""How many items contain a term, without counting the postings of a common word again for every question.

The process remembers the counts of common terms, up to an item below which no other can appear any more. A later
question counts only the postings after it.

What is remembered is valid only while nothing that was counted has been removed. The change feed names every thing that
was changed, whichever process or release did it. A named thing is harmless if it is newer than everything that was
counted, or if it still has an item that was counted: an edit replaces all items of a thing. Otherwise the counts of
all shelves that hold such things are dropped and counted again.

A transaction that writes sees changes that are not in the feed yet, and an old snapshot sees fewer items than were
counted. Both count everything.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

from ..storage.changes import latest
from .sql_values import PAIRS, pairs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..storage.engine import Answer, Row, Transaction

#: A term with fewer items than this is counted every time.
_COMMON = 100
#: With more changes than this, everything is counted again.
_MOST_CHANGES = 5_000
#: More terms than this are not remembered.
_MOST_TERMS = 50_000
#: The shelves that hold exchanges; all others hold memories.
_OF_EXCHANGES = ("turns", "logs")
_KINDS = ("exchange", "memory")

_CHANGES = """
SELECT number, what, id FROM changes WHERE workspace = :workspace AND number >= :first ORDER BY number LIMIT :limit
"""
# The casts keep SQLite from reading the whole workspace through an index: the last row mostly is the one.
_NEWEST_EXCHANGE = "SELECT id FROM exchanges WHERE CAST(workspace AS TEXT) = :workspace ORDER BY id DESC LIMIT 1"
_NEWEST_MEMORY = "SELECT id FROM memories WHERE CAST(workspace AS TEXT) = :workspace ORDER BY id DESC LIMIT 1"
_ITEMS_OF = """
SELECT ref, shelf, id FROM items
WHERE workspace = :workspace AND kind = :kind AND ref IN (SELECT value FROM json_each(:refs))
"""
_COUNTS = """
SELECT term, COUNT(*), COUNT(CASE WHEN item <= :end THEN 1 END), MAX(CASE WHEN item <= :end THEN item ELSE 0 END)
FROM postings WHERE term IN (SELECT value FROM json_each(:terms)) GROUP BY term
"""
_COUNTS_AFTER = (
    "WITH q (term, item) AS (VALUES "
    + PAIRS
    + """)
SELECT p.term, COUNT(*), COUNT(CASE WHEN p.item <= :end THEN 1 END),
  MAX(CASE WHEN p.item <= :end THEN p.item ELSE 0 END)
FROM q JOIN postings p
  ON p.term = CAST(q.term AS BIGINT) AND p.item > CAST(q.item AS BIGINT)
GROUP BY p.term"""
)


class _Counted(NamedTuple):
    """How many items contain a term, and the last of them."""

    items: int
    last: int


class _Kind:
    """What is remembered about the shelves of one kind of thing."""

    def __init__(self, newest: int) -> None:
        #: No thing with a larger number existed when terms were counted.
        self.newest = newest
        #: For each shelf, an item that was there. All items before it that are there now were there too.
        self.last: dict[str, int] = {}
        #: By the term's number.
        self.terms: dict[int, _Counted] = {}


class _Memo:
    """What is remembered about one workspace."""

    def __init__(self) -> None:
        #: Threads of a server share this object.
        self.lock = threading.Lock()
        #: The last change that is taken into account, and before which no other can appear; 0 if nothing is remembered.
        self.change = 0
        #: Changes after it that are taken into account as well.
        self.ahead: set[int] = set()
        self.kinds: dict[str, _Kind] = {}


class AskedChanges(NamedTuple):
    """The changes since what is remembered."""

    first: int
    answer: Answer


def ask_changes(tx: Transaction, workspace: str) -> AskedChanges | None:
    """Ask for the changes that `count` needs, if it needs some."""
    if tx.writable:
        return None
    memo: _Memo = tx.memo.setdefault("term counts", {}).setdefault(workspace, _Memo())
    return _ask_changes(tx, workspace, memo.change) if memo.change else None


def _ask_changes(tx: Transaction, workspace: str, first: int) -> AskedChanges:
    return AskedChanges(first, tx.ask(_CHANGES, workspace=workspace, first=first, limit=_MOST_CHANGES + 1))


def count(
    tx: Transaction,
    workspace: str,
    shelves: Mapping[str, Iterable[int]],
    asked: AskedChanges | None = None,
    *,
    is_last: bool = False,
) -> dict[int, int]:
    """How many items contain each of these terms, which are numbers by shelf. A term in no item is left out.

    `asked` is the answer to `ask_changes`. With `is_last` the caller asks for nothing else in this transaction.
    """
    wanted = {number: shelf for shelf, numbers in shelves.items() for number in numbers}
    if not wanted:
        return {}
    if tx.writable or tx.feed_end is None:
        return {number: found for number, found, *_ in _count_all(tx, wanted)}
    memo: _Memo = tx.memo.setdefault("term counts", {}).setdefault(workspace, _Memo())
    with memo.lock:
        caught_up = _catch_up(tx, workspace, memo, tx.feed_end, asked)
        if caught_up is None:
            return {number: found for number, found, *_ in _count_all(tx, wanted)}
        items, change, ahead = caught_up
        end = tx.items_end or 0
        # Asked together. If something that was counted is gone, the counts are asked for again.
        counts = _ask_counts(tx, memo, wanted, end)
        if is_last and not items:
            tx.close_after()
        valid = {kind: _still_valid(rows.all(), memo.kinds[kind], refs, end) for kind, (refs, rows) in items.items()}
        gone = [kind for kind in valid if not valid[kind]]
        for kind in gone:
            memo.kinds[kind] = _Kind(_newest(tx, workspace, kind))
        # Not before: if reading them failed, the next call must look at the same changes again.
        memo.change, memo.ahead = change, ahead
        return _with_new(memo, wanted, _ask_counts(tx, memo, wanted, end) if gone else counts)


def _count_all(tx: Transaction, numbers: Iterable[int]) -> list[Row]:
    return tx.all(_COUNTS, terms=tx.array(numbers), end=0)


def _ask_counts(tx: Transaction, memo: _Memo, wanted: dict[int, str], end: int) -> list[Answer]:
    """Ask how many items contain each term, in addition to what is remembered, and how many of them up to `end`."""
    known = _remembered(memo, wanted)
    unknown = [number for number in wanted if number not in known]
    asked = [tx.ask(_COUNTS, terms=tx.array(unknown), end=end)] if unknown else []
    places = [(number, counted.last) for number, counted in known.items()]
    return asked + [tx.ask(_COUNTS_AFTER, end=end, **some) for some in pairs(places)]


def _remembered(memo: _Memo, wanted: dict[int, str]) -> dict[int, _Counted]:
    kinds = {number: memo.kinds[_kind_of(shelf)] for number, shelf in wanted.items()}
    return {number: kind.terms[number] for number, kind in kinds.items() if number in kind.terms}


def _with_new(memo: _Memo, wanted: dict[int, str], asked: list[Answer]) -> dict[int, int]:
    """The counts. Those of common terms are remembered."""
    kinds = {number: memo.kinds[_kind_of(shelf)] for number, shelf in wanted.items()}
    found = {number: counted.items for number, counted in _remembered(memo, wanted).items()}
    for number, more, certain, last in [row for answer in asked for row in answer.all()]:
        before = found.get(number, 0)
        found[number] = before + more
        kind, shelf = kinds[number], wanted[number]
        kind.last[shelf] = max(last, kind.last.get(shelf, 0))
        if last and before + certain >= _COMMON and (number in kind.terms or len(kind.terms) < _MOST_TERMS):
            kind.terms[number] = _Counted(before + certain, last)
    return found


def _catch_up(
    tx: Transaction, workspace: str, memo: _Memo, end: int, asked: AskedChanges | None
) -> tuple[dict[str, tuple[set[int], Answer]], int, set[int]] | None:
    """The changes since what is remembered. None when this snapshot is older.

    Returns what has changed, by kind, with the items that it has now. The caller must check them, and then set
    `memo.change` and `memo.ahead` to the other two values.
    """
    if end < memo.change:
        return None
    first = memo.change or latest(tx, workspace)
    if asked is None or asked.first != first:
        asked = _ask_changes(tx, workspace, first)
    changes = asked.answer.all()
    numbers = {number for number, _, _ in changes}
    if not changes or changes[0][0] != first or (memo.change and not memo.ahead <= numbers):
        return None
    items: dict[str, tuple[set[int], Answer]] = {}
    if not memo.change or len(changes) > _MOST_CHANGES:
        memo.kinds = {kind: _Kind(_newest(tx, workspace, kind)) for kind in _KINDS}
        if len(changes) > _MOST_CHANGES:
            changes = tx.all(_CHANGES, workspace=workspace, first=latest(tx, workspace), limit=_MOST_CHANGES)
    else:
        new = [change for change in changes[1:] if change[0] not in memo.ahead]
        refs = {kind: {int(id) for _, what, id in new if what == kind} for kind in _KINDS}
        items = {kind: (refs[kind], _items_of(tx, workspace, kind, refs[kind])) for kind in _KINDS if refs[kind]}
    change = max([number for number, _, _ in changes if number <= end], default=first)
    return items, change, {number for number, _, _ in changes if number > change}


def _items_of(tx: Transaction, workspace: str, kind: str, refs: set[int]) -> Answer:
    return tx.ask(_ITEMS_OF, workspace=workspace, kind=kind, refs=tx.array(sorted(refs)))


def _newest(tx: Transaction, workspace: str, kind: str) -> int:
    """The largest number of a thing of this kind."""
    if kind == "exchange":
        return tx.value(_NEWEST_EXCHANGE, workspace=workspace) or 0
    return tx.value(_NEWEST_MEMORY, workspace=workspace) or 0


def _still_valid(items: list[Row], kind: _Kind, refs: set[int], end: int) -> bool:
    """Whether none of these changed things has lost an item that was counted. `items` are those that they have now."""
    kept = {ref for ref, shelf, item in items if item <= kind.last.get(shelf, 0)}
    if any(ref <= kind.newest and ref not in kept for ref in refs):
        return False
    kind.newest = max(kind.newest, *refs)
    for _, shelf, item in items:
        kind.last[shelf] = max(min(item, end), kind.last.get(shelf, 0))
    return True


def _kind_of(shelf: str) -> str:
    return "exchange" if shelf in _OF_EXCHANGES else "memory"
