"""Makes SQLite files as other systems leave them, and reads them."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO

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


@contextmanager
def other_program(path: Path, *statements: str) -> Iterator[tuple[IO[str], IO[str]]]:
    """Another process that has run statements on a file and keeps it open. It runs each line that it is sent."""
    code = (
        "import itertools, sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=0)\n"
        "for line in itertools.chain(sys.argv[2:], sys.stdin):\n"
        "    try:\n"
        "        connection.execute(line)\n"
        "        answer = 'done'\n"
        "    except sqlite3.Error as error:\n"
        "        answer = str(error)\n"
        "    print(answer, flush=True)\n"
    )
    command = [sys.executable, "-c", code, str(path), *statements]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        for statement in statements:
            assert process.stdout.readline() == "done\n", statement
        yield process.stdin, process.stdout
        process.stdin.close()
