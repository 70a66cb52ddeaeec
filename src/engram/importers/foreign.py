"""Reads the SQLite files of other systems.

A file stays as it is, and nothing is made beside it. Where SQLite itself would have to write (to read a write-ahead log
that no program has open, or to roll back a transaction that was cut off), a private copy is opened. Rows are read some
at a time, and the file is not locked in between, so other programs can go on using it.

What a file holds is data, and may be hostile or damaged. Only tables are read: a view would run what its author wrote.
Columns are read by name, and a column or table that is missing counts as empty, because versions differ. A row that
cannot be read is named, and the reading goes on behind it.
"""

from __future__ import annotations

import shutil
import stat
import tempfile
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from ..errors import NothingToImport, NotOfFormat, StoreBusy
from .files import LONGEST
from .items import Skipped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import apsw

    from .files import Source

_HEADER = b"SQLite format 3\x00"
#: The application id of Engram's own stores.
_OURS = int.from_bytes(b"Engr")
#: The places in the header that say whether there may be a write-ahead log.
_WAL = (18, 19)
#: How many rows and bytes are read at once.
_ROWS, _BYTES = 200, 4 * 1024 * 1024
#: Milliseconds to wait for a program that has locked the file.
_PATIENCE = 5_000
#: How often a file is copied again because a program wrote to it meanwhile.
_TRIES = 3
#: Numbers of rows are smaller than this, unless a file is damaged.
_LAST = 2**62
#: The tables. Virtual ones have no root page; neither they nor views are read.
_SCHEMA = "SELECT CAST(name AS BLOB) FROM sqlite_master WHERE type = 'table' AND rootpage > 0"
_ROW_NAMES = ("rowid", "_rowid_", "oid")

DAMAGED = "the file is damaged there"
TOO_LONG = f"longer than {LONGEST // 1024 // 1024} MiB"


class Garbled:
    """Stands for a text that is not valid in the encoding of its database."""

    def __repr__(self) -> str:
        return "GARBLED"


GARBLED = Garbled()


class Record(NamedTuple):
    """One row of a table."""

    #: Where it is: `exchanges row 12`.
    where: str
    #: The number that SQLite gave the row. Rows that were added later have higher ones.
    number: int
    #: A number, a text, bytes, GARBLED, or None for each column that was asked for.
    values: dict[str, object]


class ForeignDatabase:
    """An open SQLite file of another system."""

    def __init__(self, connection: apsw.Connection, scratch: apsw.Connection, source: Source | None = None) -> None:
        self._connection = connection
        #: A temporary file. It is separate, because an unfinished query keeps all files of its connection locked.
        self._scratch = scratch
        self._source = source
        self._read = self._expected = 0
        self._tables: tuple[str, ...] = ()
        self._row_names: dict[str, str | None] = {}
        self._encoding = str(connection.pragma("encoding"))
        #: The tables whose description is damaged.
        self._broken: set[str] = set()
        #: The columns of each other table, in lower case.
        self.tables: dict[str, set[str]] = {}
        for (name,) in self._all(_SCHEMA):
            columns = self._all("SELECT CAST(name AS BLOB) FROM pragma_table_info(CAST(? AS TEXT))", name)  # type: ignore[arg-type]
            if columns:
                self.tables[self._name(name)] = {self._name(column) for (column,) in columns}
            else:
                self._broken.add(self._name(name))

    def has(self, table: str, *columns: str) -> bool:
        """Whether there is a table with these columns."""
        return table in self.tables and self.tables[table].issuperset(columns)

    def expect(self, *tables: str) -> None:
        """These tables will be read: the progress of the source goes by their rows."""
        self._tables = tables
        self._expected = sum(map(self.count, tables))

    def records(self, table: str, *columns: str) -> Iterator[Record | Skipped]:
        """The rows of a table in the order they were added, each with these columns; a missing one is None.

        A missing table has no rows. The names come from the readers, never from a file.
        """
        for record in self.scan(table, *columns):
            self.advance(table)
            yield record

    def scan(self, table: str, *columns: str) -> Iterator[Record | Skipped]:
        """The same, without progress: for a look at a table whose rows are read later."""
        if table in self._broken:
            yield Skipped(f"table {table}", DAMAGED)
        if table not in self.tables:
            return
        number = self._row_name(table)
        if number is None:
            yield from self._unnumbered(table, columns)
            return
        start = f'SELECT {number}, {self._chosen(table, columns)} FROM "{table}" WHERE {number} > ?'
        following = f'SELECT {number} FROM "{table}" WHERE {number} > ? ORDER BY {number} LIMIT 1'
        yield from self._numbered(table, columns, f"{start} ORDER BY {number} LIMIT {_ROWS}", following)

    def record(self, table: str, number: int, *columns: str) -> Record | Skipped | None:
        """The row with a number; None if there is none."""
        if table not in self.tables:
            return None
        name = self._row_name(table)
        if name is None:
            sql = f'SELECT {number}, {self._chosen(table, columns)} FROM "{table}" LIMIT 1 OFFSET ? - 1'
        else:
            sql = f'SELECT {name}, {self._chosen(table, columns)} FROM "{table}" WHERE {name} = ?'
        found, problem = self._batch(table, columns, sql, number)
        if found:
            return found[0]
        return Skipped(f"{table} row {number}", problem) if problem else None

    def rows(self, table: str, *columns: str) -> Iterator[dict[str, object]]:
        """The values of all rows of a table that can be read."""
        for record in self.records(table, *columns):
            if isinstance(record, Record):
                yield record.values

    def select(self, sql: str, *values: str | int) -> Iterator[tuple[object, ...]]:
        """The rows of a query that a reader wrote. A text that is not valid Unicode raises an error."""
        yield from self._connection.execute(sql, values)

    def count(self, table: str) -> int:
        """How many rows a table has; 0 if they cannot be counted."""
        import apsw

        if table not in self.tables:
            return 0
        with suppress(apsw.Error):
            ((number,),) = self._all(f'SELECT COUNT(*) FROM "{table}"')
            return int(str(number))
        return 0

    def grouped(self, table: str, column: str) -> Grouping:
        """The rows of a table by the text in a column."""
        return Grouping(self, self._scratch, table, column)

    def advance(self, table: str) -> None:
        """One more row of a table was read."""
        self._read += table in self._tables
        if self._source is not None and self._expected:
            self._source.position = self._source.size * min(self._read, self._expected) // self._expected

    def _numbered(self, table: str, columns: Sequence[str], sql: str, following: str) -> Iterator[Record | Skipped]:
        after, step = self._before(table), 1
        while after < _LAST:
            batch, problem = self._batch(table, columns, sql, after)
            if batch and batch[0].number <= after:
                batch, problem = [], DAMAGED
            yield from batch
            if batch:
                after, step = batch[-1].number, 1
            elif problem is None:
                return
            if problem is None:
                continue
            bad = self._following(following, after)
            if bad is not None and bad > after:  # only this row cannot be read
                yield Skipped(f"{table} row {bad}", problem)
                after = bad
                continue
            # A whole page is unreadable. The next readable one is found by ever longer steps.
            if step == 1:
                yield Skipped(f"{table} after row {after}", DAMAGED)
            after, step = after + step, step * 2

    def _before(self, table: str) -> int:
        """A number before that of the first row."""
        import apsw

        with suppress(apsw.Error):
            ((first,),) = self._all(f'SELECT MIN({self._row_name(table)}) FROM "{table}"')
            return 0 if first is None else int(str(first)) - 1
        return 0

    def _following(self, sql: str, after: int) -> int | None:
        import apsw

        with suppress(apsw.Error):
            for (number,) in self._all(sql, after):
                return int(str(number))
        return None

    def _unnumbered(self, table: str, columns: Sequence[str]) -> Iterator[Record | Skipped]:
        """The rows of a table in which rows have no numbers, in one go: no system keeps much in such a table."""
        import apsw

        sql = f'SELECT 0, {self._chosen(table, columns)} FROM "{table}"'
        number = 0
        try:
            for row in self._connection.execute(sql):
                number += 1
                yield self._record(table, columns, (number, *row[1:]))
        except (apsw.CorruptError, apsw.TooBigError, apsw.IOError) as error:
            yield Skipped(f"{table} after row {number}", TOO_LONG if isinstance(error, apsw.TooBigError) else DAMAGED)

    def _batch(self, table: str, columns: Sequence[str], sql: str, number: int) -> tuple[list[Record], str | None]:
        """The rows that could be read, and what is wrong with the next one."""
        import apsw

        found: list[Record] = []
        size = 0
        cursor = self._connection.cursor()
        try:
            for row in cursor.execute(sql, (number,)):
                record = self._record(table, columns, row)
                if found and record.number <= found[-1].number:
                    return found, DAMAGED  # pages that refer to each other in a circle
                found.append(record)
                size += sum(len(value) for value in row if isinstance(value, bytes))
                if size > _BYTES:
                    break
        except (apsw.CorruptError, apsw.TooBigError, apsw.IOError) as error:
            return found, TOO_LONG if isinstance(error, apsw.TooBigError) else DAMAGED
        finally:
            cursor.close(True)
        return found, None

    def _chosen(self, table: str, columns: Sequence[str]) -> str:
        """Two results for each column: whether it is a text, and the value, a text as its bytes.

        SQLite does not check that a text is valid, so texts are decoded here.
        """
        chosen = []
        for column in columns:
            if column in self.tables[table]:
                type = f'typeof("{column}")'
                chosen += [
                    f"{type} = 'text'",
                    f'CASE {type} WHEN \'text\' THEN CAST("{column}" AS BLOB) ELSE "{column}" END',
                ]
            else:
                chosen += ["0", "NULL"]
        return ", ".join(chosen)

    def _record(self, table: str, columns: Sequence[str], row: Sequence[object]) -> Record:
        number = int(str(row[0]))
        values = {
            column: self._decoded(row[place + 1]) if row[place] else row[place + 1]
            for column, place in zip(columns, range(1, len(row), 2), strict=True)
        }
        return Record(f"{table} row {number}", number, values)

    def _name(self, value: object) -> str:
        return str(self._decoded(value)).lower()

    def _decoded(self, value: object) -> object:
        try:
            return value.decode(self._encoding) if isinstance(value, bytes) else value
        except UnicodeDecodeError:
            return GARBLED

    def _row_name(self, table: str) -> str | None:
        """The name of the number that SQLite gives each row; None if the rows of the table have none."""
        import apsw

        if table not in self._row_names:
            name = next((name for name in _ROW_NAMES if name not in self.tables[table]), None)
            try:
                self._all(f'SELECT {name or "1"} FROM "{table}" LIMIT 0')
            except apsw.SQLError:
                name = None
            self._row_names[table] = name
        return self._row_names[table]

    def _all(self, sql: str, *values: str | int | bytes) -> list[tuple[object, ...]]:
        return list(self._connection.execute(sql, values))


class Grouping:
    """The rows of a table by the text in one column. They are found fast, also if the file has no index for that.

    Texts and row numbers are kept in a temporary file, not in memory.
    """

    def __init__(self, db: ForeignDatabase, connection: apsw.Connection, table: str, column: str) -> None:
        self._db = db
        self._connection = connection
        self._table = table
        self._column = column
        self._name = f'"{table} by {column}"'
        connection.execute(f"CREATE TABLE {self._name} (key TEXT, number INTEGER PRIMARY KEY)")

    def build(self, *, is_needed: bool = True) -> Iterator[Skipped]:
        """Read the column. Gives the rows that belong nowhere, because it holds no text, if it should."""
        waiting: list[tuple[str, int]] = []
        for record in self._db.scan(self._table, self._column):
            if isinstance(record, Skipped):
                yield record
                continue
            key = record.values[self._column]
            if isinstance(key, int):
                key = str(key)
            if isinstance(key, str) and key.strip():
                waiting.append((key, record.number))
            elif is_needed:
                yield Skipped(record.where, f"no {self._column}")
            if len(waiting) >= _ROWS:
                self._keep(waiting)
        self._keep(waiting)
        self._connection.execute(f'CREATE INDEX "{self._table} {self._column}" ON {self._name} (key, number)')

    def __iter__(self) -> Iterator[str]:
        """The texts, in the order in which the first row with each was added."""
        sql = f"SELECT key FROM {self._name} GROUP BY key ORDER BY MIN(number)"
        for (key,) in self._connection.execute(sql):
            yield str(key)

    def __contains__(self, key: str) -> bool:
        sql = f"SELECT 1 FROM {self._name} WHERE key = ? LIMIT 1"
        return bool(self._connection.execute(sql, (key,)).fetchall())

    def of(self, key: str, *columns: str) -> Iterator[Record | Skipped]:
        """The rows with this text, in the order they were added."""
        sql = f"SELECT number FROM {self._name} WHERE key = ? ORDER BY number"
        for (number,) in self._connection.execute(sql, (key,)):
            record = self._db.record(self._table, int(str(number)), *columns)
            if record is not None:
                self._db.advance(self._table)
                yield record

    def first(self, key: str, *columns: str) -> Record | None:
        """The row with this text that was added first, if it can be read."""
        return self._at(f"SELECT MIN(number) FROM {self._name} WHERE key = ?", key, columns)

    def last(self, key: str, *columns: str) -> Record | None:
        """The row with this text that was added last, if it can be read."""
        return self._at(f"SELECT MAX(number) FROM {self._name} WHERE key = ?", key, columns)

    def _at(self, sql: str, key: str, columns: Sequence[str]) -> Record | None:
        ((number,),) = self._connection.execute(sql, (key,))
        found = None if number is None else self._db.record(self._table, int(str(number)), *columns)
        return found if isinstance(found, Record) else None

    def _keep(self, waiting: list[tuple[str, int]]) -> None:
        with self._connection:
            self._connection.executemany(f"INSERT INTO {self._name} VALUES (?, ?)", waiting)
        waiting.clear()


def is_database(path: Path) -> bool:
    """Whether a file is an SQLite database."""
    return _head(path).startswith(_HEADER)


@contextmanager
def opened(path: Path, source: Source | None = None, *, to_look: bool = False) -> Iterator[ForeignDatabase]:
    """The SQLite file at a path. NotOfFormat if it is none, or is damaged. The source gets the progress.

    With `to_look`, only the tables are looked at. A large file is then not copied if that can be avoided.
    """
    import apsw

    head = _head(path)
    if not head.startswith(_HEADER):
        raise NotOfFormat(f"{path} is not an SQLite database.")
    with ExitStack() as stack:
        try:
            connection = _connected(path.resolve(), head, stack, to_look=to_look)
            stack.enter_context(closing(connection))
            if connection.pragma("application_id") == _OURS:
                raise NotOfFormat(f"{path} is an Engram store already.", typed=f"Use it with: engram --store {path}")
            scratch = stack.enter_context(closing(apsw.Connection("")))
            yield ForeignDatabase(connection, scratch, source)
        except apsw.BusyError as error:
            raise StoreBusy(f"Another program has locked {path}. Close it, or try again later.") from error
        except apsw.Error as error:
            raise NotOfFormat(f"{path} cannot be read as an SQLite database: {error}.") from error


def _head(path: Path) -> bytes:
    """How a file begins.

    SQLite reads it, not Python: closing a file that was opened here would drop the locks of this process's own
    connections to it, and a person may name a store that is in use.
    """
    import apsw

    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise NotOfFormat(f"{path} is not a regular file.")
        file = apsw.VFSFile("", str(path.resolve()), [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0])
    except FileNotFoundError:
        raise NothingToImport(f"There is no file {path}.") from None
    except (OSError, apsw.Error) as error:
        raise NothingToImport(f"{path} cannot be read: {error}.") from error
    try:
        return file.xRead(100, 0)
    finally:
        file.xClose()


def _connected(path: Path, head: bytes, stack: ExitStack, *, to_look: bool) -> apsw.Connection:
    """A connection to the file, or to a copy of it if SQLite would have to write beside the file."""
    import apsw

    is_logged = any(head[place : place + 1] == b"\x02" for place in _WAL)
    log, index = _state(Path(f"{path}-wal")), _state(Path(f"{path}-shm"))
    if not is_logged or (log is not None and index is not None):
        with suppress(apsw.CantOpenError, apsw.ReadOnlyError):
            return _connection(path, apsw.SQLITE_OPEN_READONLY)
    elif to_look and (log is None or log[0] == 0):
        # Nobody uses the file, and it is complete without a log. While all of it is read, that could change.
        return _connection(path, apsw.SQLITE_OPEN_READONLY, "?immutable=1")
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="engram-import-")))
    return _connection(_copied(path, folder), apsw.SQLITE_OPEN_READWRITE)


def _connection(path: Path, flags: int, parameters: str = "") -> apsw.Connection:
    import apsw

    connection = apsw.Connection(f"file:{quote(str(path))}{parameters}", flags=flags | apsw.SQLITE_OPEN_URI)
    try:
        connection.set_busy_timeout(_PATIENCE)
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, LONGEST)
        for switch in (
            apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA,
            apsw.SQLITE_DBCONFIG_ENABLE_VIEW,
            apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER,
            apsw.SQLITE_DBCONFIG_DQS_DML,
        ):
            connection.config(switch, 0)
        connection.execute("PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0")
        try:
            connection.execute(_SCHEMA).fetchall()
        except apsw.CorruptError:
            # So SQLite also reads a file that was cut off, up to its end. It changes nothing in a file it only reads.
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute(_SCHEMA).fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


def _copied(path: Path, folder: Path) -> Path:
    """A copy of the file, with its log, as they were at one moment."""
    endings = ("", "-wal", "-journal")
    try:
        for _ in range(_TRIES):
            before = [_state(Path(f"{path}{ending}")) for ending in endings]
            for ending, state in zip(endings, before, strict=True):
                copy = folder / f"copy{ending}"
                copy.unlink(missing_ok=True)
                if state is not None:
                    shutil.copyfile(f"{path}{ending}", copy)
            if before == [_state(Path(f"{path}{ending}")) for ending in endings]:
                return folder / "copy"
    except OSError as error:
        raise NothingToImport(f"{path} cannot be copied to be read: {error.strerror}.") from error
    raise StoreBusy(f"Another program keeps writing to {path}. Close it, or try again later.")


def _state(path: Path) -> tuple[int, int] | None:
    """Changes whenever the file does; None if there is no file."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_size, found.st_mtime_ns
