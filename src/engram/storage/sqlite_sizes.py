"""What the tables of a SQLite store take: SQLite's `dbstat` reads every page and says whose it is.

That takes about a millisecond for each megabyte, so a result is kept for a minute, and for longer if it took long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .engine import TableSize, TableSizes

if TYPE_CHECKING:
    from .sqlite import SqliteEngine

#: A result is kept so many seconds, and so many times as long as it took.
_KEPT, _KEPT_TIMES = 60.0, 100.0
_MEMO = "table sizes"

_TREES = """
SELECT s.tbl_name, s.name = s.tbl_name, SUM(d.pgsize), SUM(d.ncell),
  SUM(CASE WHEN d.pagetype = 'leaf' THEN d.ncell ELSE 0 END)
FROM dbstat d JOIN sqlite_schema s ON s.name = d.name GROUP BY d.name
"""
#: In the inner pages of these tables, too, the cells are rows. In those of others they are only numbers of rows.
_WITHOUT_ROWID = "SELECT name FROM pragma_table_list() WHERE schema = 'main' AND wr = 1"
_FREE = "SELECT f.freelist_count * p.page_size FROM pragma_freelist_count() f, pragma_page_size() p"


def measured(engine: SqliteEngine) -> TableSizes:
    kept: tuple[float, TableSizes] | None = engine.memo.get(_MEMO)
    begun = engine.clock.monotonic()
    if kept is not None and begun < kept[0]:
        return kept[1]
    found = _read(engine)
    ended = engine.clock.monotonic()
    engine.memo[_MEMO] = ended + max(_KEPT, _KEPT_TIMES * (ended - begun)), found
    return found


def _read(engine: SqliteEngine) -> TableSizes:
    totals: dict[str, Any] = {}
    with engine.read() as transaction:
        trees = transaction.all(_TREES)
        without_rowid = set(transaction.column(_WITHOUT_ROWID))
        free = transaction.value(_FREE)
    for table, is_table, bytes, cells, in_leaves in trees:
        rows, taken = totals.get(table, (0, 0))
        here = (cells if table in without_rowid else in_leaves) if is_table else 0
        totals[table] = rows + here, taken + bytes
    return TableSizes(tuple(TableSize(name, *found) for name, found in sorted(totals.items())), free)
