"""Whole rows of any table: read in pages, and written with the numbers that they already have.

This is for moving rows between stores, so it names tables and columns at run time. The names are constants of Engram;
`Table` accepts nothing else than plain identifiers. Everything else uses the tiers' own statements.

A page continues after the key of the last row, so a large table is never in memory as a whole, and no cursor is left
open on the server. Both engines order text by its bytes, so both give the rows of a table in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from typing import LiteralString

    from .engine import Row, Transaction

#: Rows in one page. A text has at most a million characters, and most have a few hundred.
PAGE = 256
#: How a column's type is written in a declaration, and its types in Python and on PostgreSQL.
_MARKS = {"#": int, ".": float, "@": bytes, "": str}
ARRAYS = {int: "bigint", float: "double precision", bytes: "bytea", str: "text"}


class Column(NamedTuple):
    name: str
    type: type
    nullable: bool


class Parent(NamedTuple):
    """Where the workspace of a row is found if the row itself does not name it."""

    column: str
    table: str
    key: str


class Table(NamedTuple):
    name: str
    columns: tuple[Column, ...]
    #: The names of the columns of its primary key.
    key: tuple[str, ...]
    #: The column whose numbers the store gives, each once.
    number: str | None = None
    parent: Parent | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def has_workspace(self) -> bool:
        return "workspace" in self.names


@cache
def columns(text: str) -> tuple[Column, ...]:
    """Columns as a table declares them: `id# name? ratio.` is a number, a text that may be NULL, and a real number."""
    found = []
    for word in text.split():
        plain = word.removesuffix("?")
        mark = plain[-1] if plain[-1] in _MARKS else ""
        name = plain.removesuffix(mark) if mark else plain
        assert name.isidentifier() and name.isascii(), name
        found.append(Column(name, _MARKS[mark], word.endswith("?")))
    return tuple(found)


def pages(tx: Transaction, table: Table, workspace: str | None = None, *, size: int = 0) -> Iterator[list[Row]]:
    """All rows in the order of the key, those of one workspace or of all, in pages."""
    size = size or PAGE
    sql, more, key = _statements(table, workspace is not None)
    filter = {} if workspace is None else {"workspace": workspace}
    places = [table.names.index(name) for name in key]
    rows = tx.all(sql, size=size, **filter)
    while rows:
        yield [plain(row) for row in rows]
        if len(rows) < size:
            return
        last = {f"after_{name}": rows[-1][place] for name, place in zip(key, places, strict=True)}
        # Without a key there is one row: the key is the workspace alone.
        rows = tx.all(more, size=size, **filter, **last) if key else []


def count(tx: Transaction, table: Table, workspace: str | None = None) -> int:
    """How many rows a table has, or how many of one workspace."""
    source, conditions, _ = _places(table, workspace is not None)
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    filter = {} if workspace is None else {"workspace": workspace}
    number: int = tx.value(f"SELECT COUNT(*) FROM {source}{where}", **filter)
    return number


def is_empty(tx: Transaction, table: Table, workspace: str | None = None) -> bool:
    """Whether a table has no row, or none of a workspace."""
    sql, _, _ = _statements(table, workspace is not None)
    filter = {} if workspace is None else {"workspace": workspace}
    return not tx.all(sql, size=1, **filter)


def clear(tx: Transaction, table: Table) -> None:
    """Delete every row of a table."""
    tx.run(f"DELETE FROM {table.name}")


def set_column(tx: Transaction, table: Table, column: str, values: Sequence[tuple[Row, object]]) -> None:
    """Set one column of the rows with these keys."""
    if values:
        rows = [
            {"value": value, **{f"key_{name}": part for name, part in zip(table.key, key, strict=True)}}
            for key, value in values
        ]
        tx.many(_update(table, column), rows)


def blank_column(tx: Transaction, table: Table, column: str) -> None:
    """Set a column to NULL in every row."""
    tx.run(f"UPDATE {table.name} SET {column} = NULL WHERE {column} IS NOT NULL")


def highest(tx: Transaction, table: Table) -> int:
    """The highest number that a row of the table has; 0 without rows."""
    number: int = tx.value(f"SELECT COALESCE(MAX({table.number}), 0) FROM {table.name}")
    return number


def insert_sql(table: Table) -> str:
    """Inserts one row, with one parameter for each column."""
    names = ", ".join(table.names)
    values = ", ".join(f":{name}" for name in table.names)
    return f"INSERT INTO {table.name} ({names}) VALUES ({values})"


class Digest:
    """The number and the hash of rows in order. The same rows have the same digest on both engines."""

    def __init__(self) -> None:
        import hashlib

        self.count = 0
        self._hash = hashlib.sha256()

    def add(self, rows: Sequence[Row]) -> None:
        self.count += len(rows)
        self._hash.update("".join(map(repr, rows)).encode())

    def value(self) -> tuple[int, str]:
        return self.count, self._hash.hexdigest()


def plain(row: Row) -> Row:
    """The row with the same types on both engines."""
    return tuple(bytes(value) if isinstance(value, memoryview | bytearray) else value for value in row)


def as_values(table: Table, row: Row) -> dict[str, Any]:
    return dict(zip(table.names, row, strict=True))


@cache
def _places(table: Table, filtered: bool) -> tuple[str, list[str], tuple[str, ...]]:
    """The tables and conditions of a statement, and the columns that order its rows."""
    source, key = f"{table.name} t", table.key
    if not filtered:
        return source, [], key
    if key[0] == "workspace":
        return source, ["t.workspace = :workspace"], key[1:]
    if table.has_workspace:
        # The cast keeps the engine from an index by workspace, which would sort all rows again for every page.
        return source, ["CAST(t.workspace AS TEXT) = :workspace"], key
    if table.parent is None:
        raise ValueError(f"the rows of {table.name} belong to no workspace")
    # In SQLite, CROSS JOIN also fixes the order of the tables.
    of_parent = f"p.{table.parent.key} = t.{table.parent.column} AND CAST(p.workspace AS TEXT) = :workspace"
    return f"{source} CROSS JOIN {table.parent.table} p", [of_parent], key


@cache
def _statements(table: Table, filtered: bool) -> tuple[LiteralString, LiteralString, tuple[str, ...]]:
    """How the first page is read, how the next ones, and the columns after whose values the next one begins."""
    source, conditions, key = _places(table, filtered)
    names = ", ".join(f"t.{name}" for name in table.names)
    order = ", ".join(f"t.{name}" for name in key or table.key)
    after = ", ".join(f":after_{name}" for name in key)

    def select(conditions: list[str]) -> LiteralString:
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"SELECT {names} FROM {source}{where} ORDER BY {order} LIMIT :size"

    return select(conditions), select([*conditions, f"({order}) > ({after})"]) if key else "", key


@cache
def _update(table: Table, column: str) -> LiteralString:
    where = " AND ".join(f"{name} = :key_{name}" for name in table.key)
    return f"UPDATE {table.name} SET {column} = :value WHERE {where}"
