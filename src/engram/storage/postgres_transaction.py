"""A transaction on PostgreSQL: it collects statements, and sends them together when a result is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, LiteralString, NamedTuple

import psycopg

from ..clock import later
from . import pgvector
from .engine import Answer, Closest, Row, Transaction
from .postgres_sql import Statement, insert_of_many, statement
from .postgres_wire import Request, Wire

if TYPE_CHECKING:
    from .postgres import PostgresEngine
    from .rows import Table

    Connection = psycopg.Connection[Row]

_NOW = b"""SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"""
_LOCK = b"SELECT pg_advisory_xact_lock(hashtextextended($1, 0))"
_LOCK_SHARED = b"SELECT pg_advisory_xact_lock_shared(hashtextextended($1, 0))"
_NUMBER_CHANGES, _NUMBER_ITEMS = b"SELECT number_changes()", b"SELECT number_items()"
_ENDS_HERE = b"SELECT changes, items FROM ends()"
_INSERT_CHANGES = b"""
INSERT INTO changes (workspace, what, id)
SELECT workspace, what, id
FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS noted (workspace, what, id, place)
ORDER BY place
"""
_TABLES = b"SELECT tablename FROM pg_tables WHERE schemaname = $1::text ORDER BY 1"
_LAST_NUMBER = b"""
SELECT last_value FROM pg_sequences
WHERE (quote_ident(schemaname) || '.' || quote_ident(sequencename))
  = pg_get_serial_sequence(quote_ident($1::text) || '.' || quote_ident($2::text), $3::text)
"""
_RAISE_NUMBER = b"""
SELECT setval(found.name, $4::bigint)
FROM (SELECT CAST(pg_get_serial_sequence(quote_ident($1::text) || '.' || quote_ident($2::text), $3::text) AS regclass)
      AS name) AS found
WHERE COALESCE(pg_sequence_last_value(found.name), 0) < $4::bigint
"""
#: The types of a column of values, for inserting many rows with one statement.
_ARRAYS = {int: "bigint", str: "text"}


class Begin(NamedTuple):
    """The statements that begin a kind of transaction."""

    #: The last one tells about the connection. With `looks`, the second one tells where the feed ends.
    statements: tuple[bytes, ...]
    patience: float
    writes: bool = False
    looks: bool = False


class Begun(NamedTuple):
    """A transaction that has begun."""

    wire: Wire
    #: The ends of the change feed and of the items, if they were asked for.
    ends: tuple[int, int] | None
    #: Why a statement after the beginning failed.
    error: psycopg.Error | None


class PostgresTransaction(Transaction):
    """A transaction that takes a connection and begins with its first round trip."""

    def __init__(self, engine: PostgresEngine, begin: Begin) -> None:
        super().__init__(writable=begin.writes)
        self._engine = engine
        self._begin = begin
        self._wire: Wire | None = None
        #: What is sent with the next round trip.
        self._queue: list[Request] = []
        self._savepoints = 0
        self._ends: tuple[int, int] | None = None
        self._is_last = False
        self._has_ended = False
        self._has_failed = False

    @property
    def connection(self) -> Connection:
        """The connection, on which the transaction has begun."""
        if self._wire is None:
            self.flush()
        assert self._wire is not None
        return self._wire.connection

    @property
    def is_broken(self) -> bool:
        """Whether the connection is lost, on which the transaction had begun."""
        return self._wire is not None and bool(self._wire.connection.closed)

    @property
    def slot(self) -> int:  # type: ignore[override]
        return 0 if self._wire is None else self._wire.slot

    def all(self, sql: LiteralString, **values: object) -> list[Row]:
        return self.ask(sql, **values).all()

    def ask(self, sql: LiteralString, **values: object) -> Answer:
        form = statement(sql)
        return self.put(form.sql, [values[name] for name in form.names])

    def run(self, sql: LiteralString, **values: object) -> int:
        form = statement(sql)
        request = self.put(form.sql, [values[name] for name in form.names])
        self.flush()
        return request.count

    def later(self, sql: LiteralString, **values: object) -> None:
        self.ask(sql, **values)

    def many(self, sql: LiteralString, values: Sequence[Mapping[str, object]]) -> None:
        if len(values) > 1 and (form := _as_arrays(sql, values)) is not None:
            self.put(form.sql, [[row[name] for row in values] for name in form.names])
            return
        form = statement(sql)
        for row in values:
            self.put(form.sql, [row[name] for name in form.names])

    def close_after(self) -> None:
        self._is_last = True

    def put(self, sql: bytes, values: Sequence[object] = ()) -> Request:
        """Put a statement in the server's form into the queue."""
        if self._has_ended:
            raise RuntimeError("the transaction has ended; this is a mistake in Engram")
        if self._has_failed:
            raise psycopg.OperationalError("the transaction could not begin")
        request = _Asked(self, sql, values)
        self._queue.append(request)
        return request

    def flush(self) -> None:
        """Send the queue and wait for the results."""
        queue, self._queue = self._queue, []
        if self._is_last:
            queue.append(Request(b"COMMIT"))
        if self._wire is None:
            # If it cannot begin, what was in the queue is lost, so nothing else may be written either.
            self._has_failed = True
            begun = self._engine.begin_with(self._begin, queue)
            self._has_failed = False
            self._wire, self._ends = begun.wire, begun.ends
            if begun.error is not None:
                raise begun.error
        elif queue:
            # With synchronous replication, the server confirms a commit when a standby has it, however long that takes.
            self._wire.send(queue, limit=self._engine.longest_wait if self._is_last else None)
        if self._is_last:
            self._has_ended = True
            _require_commit(queue[-1])

    def commit(self) -> None:
        """Commit. A transaction that has sent nothing, and has nothing to send, does nothing."""
        if self._has_ended or (self._wire is None and not self._queue and not self._has_failed):
            return
        if not self.writable:
            self._queue.clear()
        else:
            self._prepare_to_commit()
        self._is_last = True
        self.flush()

    def insert_rows(self, table: Table, rows: Sequence[Row]) -> None:
        if rows:
            # One array for each column. The values keep their own numbers, which PostgreSQL would otherwise refuse.
            self.put(_insert_rows(table), [list(column) for column in zip(*rows, strict=True)])
            self.flush()

    def lock_table(self, table: Table) -> None:
        self.put(f"LOCK TABLE {table.name} IN SHARE ROW EXCLUSIVE MODE".encode())

    def analyse(self) -> None:
        # A role that does not own a table gets a notice, and the table is passed over.
        tables = self.put(_TABLES, [self._engine.schema]).column()
        for name in tables:
            self.put(f"ANALYZE {name}".encode())
        self.flush()

    def last_number(self, table: Table) -> int:
        from .rows import highest

        # A role that may write the table may not be allowed to read its sequence. Then the server gives NULL.
        given = self.put(_LAST_NUMBER, [self._engine.schema, table.name, table.number]).value()
        return max(given or 0, highest(self, table))

    def raise_number(self, table: Table, last: int) -> None:
        if last > 0:
            self.put(_RAISE_NUMBER, [self._engine.schema, table.name, table.number, last])
            self.flush()

    def array(self, values: Iterable[int] | Iterable[str]) -> object:
        return list(values)

    def now(self) -> str:
        time: str = self.put(_NOW).value()
        shift = self._engine.clock.shift
        return later(time, shift) if shift else time

    def lock(self, name: str, *, shared: bool = False) -> None:
        self.put(_LOCK_SHARED if shared else _LOCK, [f"{self._engine.schema}/{name}"])

    def number_items(self) -> None:
        self.put(_NUMBER_ITEMS)

    def number_changes(self) -> None:
        """Write the notes. It is part of the last round trip, so that readers of the feed wait only for the commit."""
        if self.notes:
            self._prepare_to_commit()
            self.put(_NUMBER_CHANGES)
            self.put(_INSERT_CHANGES, [list(column) for column in zip(*self.notes, strict=True)])

    def _prepare_to_commit(self) -> None:
        """Send what must not be sent together with the commit."""
        if not self._is_last and (self._wire is None or _is_much(self._queue)):
            # The first round trip is repeated when the connection turns out to be dead, so it must not commit. And the
            # time limit of a commit is not for long work.
            self.flush()

    @property
    def feed_end(self) -> int | None:
        ends = self._known_ends()
        return None if ends is None else ends[0]

    @property
    def items_end(self) -> int | None:
        ends = self._known_ends()
        return None if ends is None else ends[1]

    def _known_ends(self) -> tuple[int, int] | None:
        if self.writable:
            # Each statement has a snapshot of its own, so a later one sees what this one has waited for.
            changes, items = self.put(_ENDS_HERE).all()[0]
            return changes, items
        if self._wire is None and self._begin.looks:
            self.flush()
        return self._ends

    def closest(
        self, workspace: str, model: str, query: Sequence[float], shelves: Sequence[str], most: int, size: int | None
    ) -> Callable[[], Closest] | None:
        if not self._engine.compares:
            return None
        return pgvector.closest(self, workspace, model, query, shelves, most, size)

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        self._savepoints += 1
        name = b"engram_%d" % self._savepoints
        begin = self.put(b"SAVEPOINT " + name)
        try:
            yield
        except BaseException:
            self._undo(begin, name)
            raise
        self.put(b"RELEASE SAVEPOINT " + name)

    def _undo(self, begin: Request, name: bytes) -> None:
        if begin in self._queue:
            del self._queue[self._queue.index(begin) :]
            return
        self._queue.clear()
        if self._wire is not None and not self._wire.connection.closed:
            # If what came before the savepoint failed, there is no savepoint. The whole transaction then fails.
            with suppress(psycopg.Error):
                self._wire.send([Request(b"ROLLBACK TO SAVEPOINT " + name), Request(b"RELEASE SAVEPOINT " + name)])


class _Asked(Request):
    """A statement in the queue of a transaction. Reading its rows sends it."""

    __slots__ = ("_transaction",)

    def __init__(self, transaction: PostgresTransaction, sql: bytes, values: Sequence[object]) -> None:
        super().__init__(sql, values)
        self._transaction = transaction

    def all(self) -> list[Row]:
        if self.rows is None:
            self._transaction.flush()
        return super().all()


def _is_much(queue: Sequence[Request]) -> bool:
    """Whether the server may need long for these statements."""
    return len(queue) > 50 or any(
        isinstance(value, list) and len(value) > 1_000 for each in queue for value in each.values
    )


def _as_arrays(sql: LiteralString, rows: Sequence[Mapping[str, object]]) -> Statement | None:
    """An insertion of one row as one of many rows, if each column has values of one plain type."""
    types = []
    for name in statement(sql).names:
        found = {type(row[name]) for row in rows}
        kind = _ARRAYS.get(found.pop()) if len(found) == 1 else None
        if kind is None:
            return None
        types.append(kind)
    return insert_of_many(sql, tuple(types))


def _insert_rows(table: Table) -> bytes:
    from .rows import ARRAYS

    arrays = ", ".join(f"${place}::{ARRAYS[column.type]}[]" for place, column in enumerate(table.columns, 1))
    overriding = " OVERRIDING SYSTEM VALUE" if table.number else ""
    return f"INSERT INTO {table.name} ({', '.join(table.names)}){overriding} SELECT * FROM unnest({arrays})".encode()


def _require_commit(request: Request) -> None:
    # The server answers a COMMIT with ROLLBACK if a statement of the transaction has failed.
    if request.status != b"COMMIT":
        raise psycopg.errors.InFailedSqlTransaction("a statement of the transaction failed; nothing was written")
