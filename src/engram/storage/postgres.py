"""PostgreSQL 14 or newer through `psycopg` 3 and its pool, for a team or several machines.

The tiers' SQL is written once, with `:name` parameters; `driver_sql` turns each constant into the driver's form, once.
Everything lives in a schema of its own (`engram`, or `?schema=…` in the URL), so a store can share a database.

What SQLite gives for free has to be asked for here: `lock` is an advisory lock, the feed is numbered under one, and
the time is the server's, because the machines that share a store do not share a clock. To stay free of deadlocks,
every operation takes locks and rows in the same order: leases, sessions by id, memories, the backlog, blocks, items,
shelves, then the feed.

A connection has no state of its own. A pooler such as PgBouncer in transaction mode gives each transaction any of its
connections to the server, so a setting of one client would apply to the next client, which may use another store. Each
transaction therefore sets what it needs for itself, in the round trip that begins it. The same round trip tells whether
a newer Engram has changed the schema under this process, and whether statements may be prepared on the server.
"""

from __future__ import annotations

import functools
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, LiteralString, NamedTuple, TypeVar

from .._version import UPGRADE, install_command
from ..clock import Clock, later
from ..errors import (
    EngramError,
    InvalidURL,
    MissingExtra,
    SchemaTooNew,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from ..store_url import masked, split_schema
from . import backup, migrate
from .engine import Closest, Engine, Row, Transaction

try:
    import psycopg
    import psycopg_pool
    from psycopg import generators
    from psycopg import sql as driver
except ImportError as missing:
    raise MissingExtra(
        f"PostgreSQL needs a package that is not installed ({missing.name}). Install it: {install_command('postgres')}."
    ) from missing
from . import pgvector

if TYPE_CHECKING:
    from psycopg.abc import PQGen

    Connection = psycopg.Connection[Row]

Result = TypeVar("Result")

#: Behind a pooler other programs use the same server connections. They may have changed the default isolation level
#: there, or left temporary tables, which PostgreSQL finds first unless the path names their schema last.
_BEGIN = """
BEGIN ISOLATION LEVEL {level};
SET LOCAL search_path TO {path}, pg_temp;
SET LOCAL lock_timeout = {patience};
SET LOCAL idle_in_transaction_session_timeout = {idle}
"""
#: A migration locks the same table, so no migration runs while a transaction does. LOCK TABLE is needed because SELECT
#: alone fixes the snapshot of a repeatable read before it waits for the lock; it would miss the new migration.
_BEGIN_CHECKED = (
    _BEGIN
    + """;
LOCK TABLE {migrations} IN ACCESS SHARE MODE;
SELECT pg_backend_pid(), (SELECT number FROM {migrations} WHERE works_with > {newest} ORDER BY number DESC LIMIT 1)
"""
)

_NOW = """SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"""
_BACKUPS = "SELECT nspname FROM pg_namespace WHERE starts_with(nspname, :start)"
_SIZE = """
SELECT COALESCE(SUM(pg_total_relation_size(c.oid)), 0)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = :schema AND c.relkind = 'r'
"""
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
_INSERT_CHANGES = """
INSERT INTO changes (workspace, what, id)
SELECT workspace, what, id
FROM unnest(%s::text[], %s::text[], %s::text[]) WITH ORDINALITY AS noted (workspace, what, id, place)
ORDER BY place
"""

#: As the tiers write it, with the driver's parameter.
_EACH = re.compile(r"IN \(SELECT value FROM json_each\((%\(\w+\)s)\)\)")

_MOST_CONNECTIONS = 16
_CONNECT_TIMEOUT = 10
#: Nothing is prepared on the server before a transaction has found out whether that is safe.
_CONNECTING: dict[str, Any] = {"autocommit": True, "prepare_threshold": None, "connect_timeout": _CONNECT_TIMEOUT}
#: A client that was stopped in the middle of a transaction must not keep its row locks for ever.
_IDLE_IN_TRANSACTION = "60s"
#: For a writer that does not wait for others, in seconds.
_HURRIED = 0.01
#: How often a statement runs on a connection before it is prepared on the server.
_PREPARE_AFTER = 5


class Begins(NamedTuple):
    """What begins each kind of transaction."""

    write: bytes
    hurried: bytes
    read: bytes


class PostgresTransaction(Transaction):
    def __init__(
        self, connection: Connection, clock: Clock, schema: str, *, writable: bool, compares: bool = False
    ) -> None:
        super().__init__(writable=writable)
        self.connection = connection
        self._clock = clock
        self._schema = schema
        #: Whether the server can compare vectors.
        self._compares = compares

    def all(self, sql: LiteralString, **values: object) -> list[Row]:
        return self.connection.execute(driver_sql(sql), values).fetchall()

    def run(self, sql: LiteralString, **values: object) -> int:
        return self.connection.execute(driver_sql(sql), values).rowcount

    def many(self, sql: LiteralString, values: Sequence[Mapping[str, object]]) -> None:
        with self.connection.cursor() as cursor:
            cursor.executemany(driver_sql(sql), values)

    def array(self, values: Iterable[int] | Iterable[str]) -> object:
        return list(values)

    def now(self) -> str:
        ((time,),) = self.connection.execute(_NOW).fetchall()
        return later(time, self._clock.shift) if self._clock.shift else time

    def lock(self, name: str) -> None:
        self.connection.execute(_LOCK, (f"{self._schema}/{name}",))

    def closest(
        self, workspace: str, model: str, query: Sequence[float], shelves: Sequence[str], most: int, size: int | None
    ) -> Closest | None:
        if not self._compares:
            return None
        return pgvector.closest(self.connection, workspace, model, query, shelves, most, size)

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        with self.connection.transaction():
            yield


class PostgresEngine(Engine):
    name = "postgres"

    def __init__(
        self, url: str, clock: Clock, *, busy_timeout: float = 30.0, upgrade: bool = True, create: bool = True
    ) -> None:
        super().__init__(clock)
        self._url, self._schema = split_schema(url)
        self._store = masked(url)
        self._busy_timeout = busy_timeout
        self._closed = False
        #: Where the server's pgvector lives; None without one.
        self._vectors: str | None = None
        #: The newest migration that this version knows.
        self._newest = 0
        self._pool = self._new_pool()
        with self._translated(), self._connected() as connection:
            self._begin(connection, self._composed(_BEGIN, "READ COMMITTED", busy_timeout))
            self.outcome = migrate.postgres(
                connection, self._schema, self._store, clock, upgrade=upgrade, create=create
            )
            self._newest = self.outcome.known
            self._vectors = pgvector.prepare(connection, self._schema)
            connection.execute("COMMIT")
        self._begins = Begins(
            write=self._composed(_BEGIN_CHECKED, "READ COMMITTED", busy_timeout),
            hurried=self._composed(_BEGIN_CHECKED, "READ COMMITTED", _HURRIED),
            read=self._composed(_BEGIN_CHECKED, "REPEATABLE READ, READ ONLY", busy_timeout),
        )

    def close(self) -> None:
        self._joined()
        self._closed = True
        self._pool.close()

    def scrub(self) -> None:
        """The server's own vacuum and log recycling do that; how soon is its administrator's decision."""

    def backups(self, before: str) -> tuple[str, ...]:
        with self.read() as transaction:
            names = transaction.all(_BACKUPS, start=backup.prefix(self._schema))
        return backup.older((name for (name,) in names), before)

    def size(self) -> int:
        with self.read() as transaction:
            return int(transaction.all(_SIZE, schema=self._schema)[0][0])

    def index_vectors(self, workspace: str, models: Sequence[str]) -> None:
        if self._vectors is not None:
            with self._translated(), self._connected() as connection:
                pgvector.index(connection, self._schema, self._vectors, workspace, models)

    @contextmanager
    def _writing(self, patient: bool) -> Iterator[Transaction]:
        with self._lent(self._begins.write if patient else self._begins.hurried) as connection:
            yield self._transaction(connection, writable=True)
            connection.execute("COMMIT")

    @contextmanager
    def _reading(self) -> Iterator[Transaction]:
        with self._lent(self._begins.read) as connection:
            yield self._transaction(connection, writable=False)
            connection.execute("COMMIT")

    def _transaction(self, connection: Connection, *, writable: bool) -> PostgresTransaction:
        compares = self._vectors is not None
        return PostgresTransaction(connection, self.clock, self._schema, writable=writable, compares=compares)

    def _flush(self, transaction: Transaction) -> None:
        assert isinstance(transaction, PostgresTransaction)
        if transaction.notes:
            transaction.lock("changes")
            columns = [list(column) for column in zip(*transaction.notes, strict=True)]
            transaction.connection.execute(_INSERT_CHANGES, columns)

    def _after_fork(self) -> None:
        # The parent's sockets are left to the parent; the child's copies close with the process.
        self._parent_pool = self._pool
        self._pool = self._new_pool()

    def _new_pool(self) -> psycopg_pool.ConnectionPool[Connection]:
        return psycopg_pool.ConnectionPool(
            self._url,
            kwargs=_CONNECTING,
            min_size=0,
            max_size=_MOST_CONNECTIONS,
            open=False,
            timeout=max(self._busy_timeout, _CONNECT_TIMEOUT),
            name="engram",
        )

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        """A connection beside the pool, for what takes long or comes before everything else."""
        with psycopg.connect(self._url, **_CONNECTING) as connection:
            yield connection

    def _composed(self, begin: LiteralString, level: LiteralString, patience: float) -> bytes:
        homes = dict.fromkeys([self._schema, "public", self._vectors or "public"])
        statements = driver.SQL(begin).format(
            level=driver.SQL(level),
            path=driver.SQL(", ").join(map(driver.Identifier, homes)),
            patience=max(1, int(patience * 1000)),
            idle=_IDLE_IN_TRANSACTION,
            migrations=driver.Identifier(self._schema, "migrations"),
            newest=self._newest,
        )
        return statements.as_bytes(None)

    @contextmanager
    def _lent(self, begin: bytes) -> Iterator[Connection]:
        """A connection of one's own with a transaction begun; rolled back unless the block ended it."""
        with self._translated():
            if self._closed:
                raise StoreUnavailable(f"The store {self._store} was closed; open it again.")
            self._pool.open()
            pid = os.getpid()
            connection = self._begun(begin)
            try:
                yield connection
            finally:
                # In the child of a fork inside the block, the connection is the parent's to end.
                if os.getpid() == pid:
                    self._give_back(connection)

    def _give_back(self, connection: Connection) -> None:
        try:
            if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE and not connection.closed:
                connection.rollback()
        finally:
            self._pool.putconn(connection)

    def _begun(self, begin: bytes) -> Connection:
        # Pooled connections may all have died with a server that was restarted since. Nothing has been written yet,
        # so trying again is safe; the pool throws broken ones away, and after them comes a new one.
        for left in range(_MOST_CONNECTIONS, -1, -1):
            connection = self._pool.getconn()
            try:
                self._begin_checked(connection, begin)
                return connection
            except BaseException as error:
                died = isinstance(error, psycopg.OperationalError) and connection.closed
                self._give_back(connection)
                if isinstance(error, psycopg_pool.PoolTimeout) or not died or left == 0:
                    raise
        raise AssertionError("unreachable")

    def _begin_checked(self, connection: Connection, begin: bytes) -> None:
        pid, too_new = self._begin(connection, begin)
        if too_new is not None:
            raise SchemaTooNew(
                f"A newer Engram has brought {self._store} to schema {int(too_new)} since this process opened it, and "
                f"this Engram knows schemas up to {self._newest}. Upgrade it ({UPGRADE}) and "
                "restart; nothing was changed."
            )
        # A pooler opens a connection with a process number of its own, not the server's. Behind a pooler a statement
        # prepared on the server is missing in the next transaction, or is another client's statement of that name.
        direct = pid is not None and int(pid) == connection.info.backend_pid
        connection.prepare_threshold = _PREPARE_AFTER if direct else None

    def _begin(self, connection: Connection, begin: bytes) -> Sequence[bytes | None]:
        """Begin a transaction in one round trip; the columns of the last result's only row, if it has one."""
        # A pooler makes a client wait until a server connection is free; no setting of the server limits that wait.
        limit = self._busy_timeout + _CONNECT_TIMEOUT
        connection.pgconn.send_query(begin)
        try:
            results = connection.wait(_limited(generators.execute(connection.pgconn), limit))
        except psycopg_pool.PoolTimeout:
            connection.close()
            raise
        last = results[-1]
        if last.status == psycopg.pq.ExecStatus.FATAL_ERROR:
            raise psycopg.errors.error_from_result(last, encoding=connection.info.encoding)
        return [last.get_value(0, column) for column in range(last.nfields)]

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (psycopg.Error, psycopg_pool.PoolTimeout) as error:
            raise translate(error, self._store) from error


def _limited(work: PQGen[Result], limit: float) -> PQGen[Result]:
    """The driver's work on a connection, with an end: it is woken several times a second, answer or not."""
    deadline = time.monotonic() + limit
    try:
        wanted = next(work)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > deadline:
                raise psycopg_pool.PoolTimeout(f"no answer for {limit:g} seconds")
            wanted = work.send(ready)
    except StopIteration as ended:
        result: Result = ended.value
        return result


@functools.cache
def driver_sql(sql: LiteralString) -> LiteralString:
    """The same statement for this engine: `:name` becomes `%(name)s`, `%` becomes `%%`, and a list becomes an array.

    Reads the text token by token, so that what looks like a parameter inside a string, a quoted name, a comment or a
    cast (`::text`) is left alone.
    """
    out: list[str] = []
    position = 0
    while position < len(sql):
        end = _skip(sql, position)
        if end > position:
            out.append(sql[position:end].replace("%", "%%"))
        elif sql[position] == ":" and sql[position + 1 : position + 2].isidentifier():
            end = position + 1
            while end < len(sql) and (sql[end].isalnum() or sql[end] == "_"):
                end += 1
            out.append(f"%({sql[position + 1 : end]})s")
        else:
            end = position + 1
            out.append("%%" if sql[position] == "%" else sql[position])
        position = end
    return _EACH.sub(r"= ANY(\1)", "".join(out))


def _skip(sql: str, position: int) -> int:
    """Where the string, quoted name, comment or cast that begins here ends; `place` itself when none does."""
    if sql[position] in "'\"":
        quote = sql[position]
        end = sql.index(quote, position + 1) + 1
        # A doubled quote is a quote inside the text.
        while sql[end : end + 1] == quote:
            end = sql.index(quote, end + 1) + 1
        return end
    pair = sql[position : position + 2]
    if pair == "::":
        return position + 2
    if pair == "--":
        end = sql.find("\n", position)
        return len(sql) if end < 0 else end
    if pair == "/*":
        return sql.index("*/", position + 2) + 2
    return position


def translate(error: Exception, store: str) -> EngramError:
    """What a driver's error means to a user, and what to do about it."""
    problem = str(error).strip().partition("\n")[0]
    match error:
        case psycopg.errors.LockNotAvailable() | psycopg.errors.DeadlockDetected():
            return StoreBusy(f"Other writers on {store} did not finish in time; try again.")
        case psycopg.errors.ReadOnlySqlTransaction() | psycopg.errors.InsufficientPrivilege():
            return StoreReadOnly(
                f"{store} cannot be written ({problem}). Connect to the primary server, as a user who may write and "
                "create a schema."
            )
        case psycopg.errors.DiskFull():
            return StoreFull(f"The disk that holds {store} is full; nothing was written. Free some space there.")
        case psycopg_pool.PoolTimeout():
            return StoreUnavailable(f"No connection to {store} could be had in time ({problem}).")
        case psycopg.OperationalError() if "unsupported startup parameter" in problem:
            return InvalidURL(
                f"The connection pooler of {store} refuses a parameter of this URL ({problem}). Remove it from the "
                "URL; a setting of the server can be made the role's own instead (ALTER ROLE ... SET ...)."
            )
        case psycopg.OperationalError() if "statement pooling mode" in problem:
            return StoreUnavailable(
                f"The connection pooler of {store} allows no transactions. Set its pool_mode to transaction or session."
            )
        case psycopg.OperationalError() | psycopg.errors.InterfaceError():
            return StoreUnavailable(
                f"{store} cannot be reached ({problem}). Check that the server runs and that the address, user, "
                "password and database name in the URL are right."
            )
        case psycopg.InternalError() if error.sqlstate is None:
            # Not the server's: the driver was told twice that the connection ended, by a pooler and by the system.
            return StoreUnavailable(f"The connection to {store} was lost ({problem}); nothing was written. Try again.")
        case psycopg.ProgrammingError() if error.sqlstate is None:
            return InvalidURL(f"{store} is not an address PostgreSQL understands ({problem}).")
    return StoreError(f"{store}: {type(error).__name__}: {problem}")
