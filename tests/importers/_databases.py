"""Makes SQLite files as other systems leave them, and reads them."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from engram.importers.formats import Format
from engram.importers.items import Item, Options, Skipped

Rows = Mapping[str, Sequence[Mapping[str, object]]]


class Text(bytes):
    """Bytes that are stored as a text, whatever they are."""


def database(path: Path, schema: str, rows: Rows | None = None) -> Path:
    """An SQLite file with these tables and rows."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(schema)
        for table, entries in (rows or {}).items():
            for row in entries:
                values = ", ".join(
                    f"CAST(:{name} AS TEXT)" if isinstance(value, Text) else f":{name}" for name, value in row.items()
                )
                connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({values})", dict(row))
        connection.commit()
    return path


def read(format: Format, path: Path, options: Options | None = None) -> list[Item]:
    """Everything that a format finds at a path."""
    return [item for source in format.find(path) for item in format.read(source, options or Options())]


def skipped(items: Sequence[Item]) -> list[tuple[str, str]]:
    return [(item.where, item.why) for item in items if isinstance(item, Skipped)]
