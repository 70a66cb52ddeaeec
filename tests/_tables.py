"""Reads a store directly, without Engram, to check that nothing was changed or left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from engram.store_url import split_schema

#: The type of each column in lower case, by table and column.
Columns = dict[str, dict[str, str]]
Ask = Callable[[str], list[Any]]


_POSTGRES_COLUMNS = """
SELECT table_name, column_name, CASE data_type WHEN 'USER-DEFINED' THEN udt_name ELSE data_type END
FROM information_schema.columns WHERE table_schema = current_schema()
"""
_SQLITE_COLUMNS = """
SELECT t.name, c.name, c.type FROM sqlite_schema t JOIN pragma_table_info(t.name) c
WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite%'
"""


def columns(url: str) -> Columns:
    with _asking(url) as ask:
        return _columns(url, ask)


def dump(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table, sorted."""
    with _asking(url) as ask:
        tables = {table: ask(f'SELECT * FROM "{table}"') for table in _columns(url, ask)}
    return {table: sorted((tuple(map(_plain, row)) for row in rows), key=repr) for table, rows in tables.items()}


def holds(url: str, word: str) -> dict[str, int]:
    """The tables that contain the word, and in how many rows."""
    found = {table: sum(word in repr(row) for row in rows) for table, rows in dump(url).items()}
    return {table: count for table, count in found.items() if count}


def values(url: str, table: str, column: str) -> list[str]:
    """All values of a text column that are not null."""
    with _asking(url) as ask:
        return [value for (value,) in ask(f'SELECT "{column}" FROM "{table}" ORDER BY 1') if value is not None]


def run(url: str, statement: str) -> None:
    """Run a statement on the store as another program would."""
    with _asking(url) as ask:
        ask(statement)


def _columns(url: str, ask: Ask) -> Columns:
    found: Columns = {}
    for table, column, kind in ask(_POSTGRES_COLUMNS if url.startswith("postgresql:") else _SQLITE_COLUMNS):
        found.setdefault(table, {})[column] = kind.lower()
    return found


def _plain(value: object) -> object:
    return bytes(value) if isinstance(value, memoryview) else value


@contextmanager
def _asking(url: str) -> Iterator[Ask]:
    if url.startswith("postgresql:"):
        import psycopg

        address, schema = split_schema(url)
        with psycopg.connect(address) as server:
            server.execute(f"SET search_path TO {schema}".encode())
            yield lambda sql: asked.fetchall() if (asked := server.execute(sql.encode())).description else []
        return
    import apsw

    from tests._files import connect

    file = connect(url, apsw.SQLITE_OPEN_READWRITE)
    try:
        yield lambda sql: file.execute(sql).fetchall()
    finally:
        file.close()
