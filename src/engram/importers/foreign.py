"""Reads the SQLite files of other systems.

A file is opened for reading only, so it stays as it is, and other programs can go on using it. What it holds is data:
columns are read by name, and a column or table that is missing counts as empty, because versions differ.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote

from ..errors import NotOfFormat

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import apsw

_HEADER = b"SQLite format 3\x00"


class ForeignDatabase:
    """An open SQLite file of another system."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        #: The columns of each table, in lower case.
        self.tables: dict[str, set[str]] = {}
        for (name,) in self._all("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"):
            columns = self._all("SELECT name FROM pragma_table_info(?)", str(name))
            self.tables[str(name).lower()] = {str(column).lower() for (column,) in columns}

    def has(self, table: str, *columns: str) -> bool:
        """Whether there is a table with these columns."""
        return table in self.tables and self.tables[table].issuperset(columns)

    def rows(self, table: str, *columns: str, order: str | None = None) -> Iterator[dict[str, object]]:
        """The rows of a table, each with these columns; a missing one is None. A missing table has no rows.

        Rows are read one at a time. The names come from the readers, never from a file.
        """
        if table not in self.tables:
            return
        known = self.tables[table]
        chosen = ", ".join(f'"{column}"' if column in known else f'NULL AS "{column}"' for column in columns)
        sorting = f' ORDER BY "{order}"' if order is not None and order in known else ""
        for row in self._connection.cursor().execute(f'SELECT {chosen} FROM "{table}"{sorting}'):
            yield dict(zip(columns, row, strict=True))

    def select(self, sql: str, *values: object) -> Iterator[tuple[object, ...]]:
        """The rows of a query that a reader wrote."""
        yield from self._connection.cursor().execute(sql, values)

    def count(self, table: str) -> int:
        """How many rows a table has, for the progress bar."""
        if table not in self.tables:
            return 0
        ((number,),) = self._all(f'SELECT COUNT(*) FROM "{table}"')
        return int(str(number))

    def _all(self, sql: str, *values: str) -> list[tuple[object, ...]]:
        return list(self._connection.cursor().execute(sql, values))


@contextmanager
def opened(path: Path) -> Iterator[ForeignDatabase]:
    """The SQLite file at a path. NotOfFormat if it is none, or is damaged."""
    import apsw

    with path.open("rb") as file:
        if file.read(len(_HEADER)) != _HEADER:
            raise NotOfFormat(f"{path} is not an SQLite database.")
    # Without its -wal file, which holds the latest writes, the file would be read in an earlier state. SQLite needs to
    # write beside it for that; where it may not, the file is read as it is.
    address = f"file:{quote(str(path.resolve()))}?mode=ro"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    try:
        connection = apsw.Connection(address, flags=flags)
        try:
            connection.set_busy_timeout(5_000)
            connection.cursor().execute("PRAGMA trusted_schema = OFF")
            connection.cursor().execute("SELECT COUNT(*) FROM sqlite_master").fetchall()
        except (apsw.CantOpenError, apsw.ReadOnlyError):
            connection.close()
            connection = apsw.Connection(f"{address}&immutable=1", flags=flags)
        try:
            yield ForeignDatabase(connection)
        finally:
            connection.close()
    except apsw.Error as error:
        raise NotOfFormat(f"{path} cannot be read as an SQLite database: {error}.") from error
