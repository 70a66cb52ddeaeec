"""The PostgreSQL engine, for a team or several machines: PostgreSQL 14 or newer, through `psycopg` 3 and its pool.

The tiers write their SQL with `:name` parameters. `driver_sql` converts each constant to the driver's form once. A
store has a separate schema (`engram`, or `?schema=…` in the URL), so it can share a database with other data.

Unlike SQLite, PostgreSQL runs several writers at once. So `lock` takes an advisory lock, and another one protects the
numbering of the change feed. The time is the server's, because machines that share a store do not share a clock. To
avoid deadlocks, every operation takes locks in the order that `mutexes` gives.

Connections keep no settings. A pooler such as PgBouncer in transaction mode may give each transaction a different
server connection, so the settings of one client would apply to the next client, which may use another store. So each
transaction sets what it needs in the round trip that begins it. The same round trip shows whether a newer Engram has
migrated the store, and whether statements may be prepared on the server.
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

#: Behind a pooler, other programs use the same server connections. They may have changed the default isolation level or
#: left temporary tables. PostgreSQL finds those first unless the path names their schema last.
_BEGIN = """
BEGIN ISOLATION LEVEL {level};
SET LOCAL search_path TO {path}, pg_temp;
SET LOCAL lock_timeout = {patience};
SET LOCAL idle_in_transaction_session_timeout = {idle}
"""
#: A migration locks the same table, so migrations and other transactions exclude each other. SELECT is not enough: in
#: a repeatable read it fixes the snapshot before it waits for the lock, and would miss the new migration.
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

#: A list parameter as the tiers write it, with the parameter already in the driver's form.
_LIST_PARAMETER = re.compile(r"IN \(SELECT value FROM json_each\((%\(\w+\)s)\)\)")

_MOST_CONNECTIONS = 16
_CONNECT_TIMEOUT = 10
#: Nothing is prepared on the server before the first transaction has checked whether that is safe.
_CONNECTING: dict[str, Any] = {"autocommit": True, "prepare_threshold": None, "connect_timeout": _CONNECT_TIMEOUT}
#: Ends the transaction of a client that stopped responding, so that it does not keep its row locks.
_IDLE_IN_TRANSACTION = "60s"
#: Lock timeout in seconds for a writer that does not wait.
_HURRIED = 0.01
#: Number of executions on a connection before a statement is prepared on the server.
_PREPARE_AFTER = 5


class Begins(NamedTuple):
    """The statements that begin each kind of transaction."""

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
        #: The schema of the pgvector extension; None without it.
        self._vectors: str | None = None
        #: The newest migration that this version knows.
        self._newest = 0
        self._pool = self._new_pool()
        with self._translating(), self._own_connection() as connection:
            self._begin(connection, self._begin_statements(_BEGIN, "READ COMMITTED", busy_timeout))
            self.outcome = migrate.postgres(
                connection, self._schema, self._store, clock, upgrade=upgrade, create=create
            )
            self._newest = self.outcome.known
            self._vectors = pgvector.prepare(connection, self._schema)
            connection.execute("COMMIT")
        self._begins = Begins(
            write=self._begin_statements(_BEGIN_CHECKED, "READ COMMITTED", busy_timeout),
            hurried=self._begin_statements(_BEGIN_CHECKED, "READ COMMITTED", _HURRIED),
            read=self._begin_statements(_BEGIN_CHECKED, "REPEATABLE READ, READ ONLY", busy_timeout),
        )

    def close(self) -> None:
        self._current()
        self._closed = True
        self._pool.close()

    def scrub(self) -> None:
        """Does nothing. The server's vacuum and log recycling remove the bytes; its administrator decides when."""

    def backups(self, before: str) -> tuple[str, ...]:
        with self.read() as transaction:
            names = transaction.column(_BACKUPS, start=backup.prefix(self._schema))
        return backup.older(names, before)

    def size(self) -> int:
        with self.read() as transaction:
            return int(transaction.value(_SIZE, schema=self._schema))

    def index_vectors(self, workspace: str, models: Sequence[str]) -> None:
        if self._vectors is not None:
            with self._translating(), self._own_connection() as connection:
                pgvector.index(connection, self._schema, self._vectors, workspace, models)

    @contextmanager
    def _writing(self, patient: bool) -> Iterator[Transaction]:
        with self._in_transaction(self._begins.write if patient else self._begins.hurried) as connection:
            yield self._transaction(connection, writable=True)
            connection.execute("COMMIT")

    @contextmanager
    def _reading(self) -> Iterator[Transaction]:
        with self._in_transaction(self._begins.read) as connection:
            yield self._transaction(connection, writable=False)
            connection.execute("COMMIT")

    def _transaction(self, connection: Connection, *, writable: bool) -> PostgresTransaction:
        compares = self._vectors is not None
        return PostgresTransaction(connection, self.clock, self._schema, writable=writable, compares=compares)

    def _write_changes(self, transaction: Transaction) -> None:
        assert isinstance(transaction, PostgresTransaction)
        if transaction.notes:
            transaction.lock("changes")
            columns = [list(column) for column in zip(*transaction.notes, strict=True)]
            transaction.connection.execute(_INSERT_CHANGES, columns)

    def _after_fork(self) -> None:
        # The connections belong to the parent, so the child does not close them. They end with the child process.
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
    def _own_connection(self) -> Iterator[Connection]:
        """A connection outside the pool, for opening the store and for long work."""
        with psycopg.connect(self._url, **_CONNECTING) as connection:
            yield connection

    def _begin_statements(self, begin: LiteralString, level: LiteralString, patience: float) -> bytes:
        # No other schema: PostgreSQL prefers a function there to its own if its argument types fit better.
        homes = dict.fromkeys([self._schema, self._vectors or self._schema])
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
    def _in_transaction(self, begin: bytes) -> Iterator[Connection]:
        """A connection in a new transaction, which is rolled back unless the block commits it."""
        with self._translating():
            if self._closed:
                raise StoreUnavailable(f"The store {self._store} was closed; open it again.")
            self._pool.open()
            pid = os.getpid()
            connection = self._take_connection(begin)
            try:
                yield connection
            finally:
                # After a fork inside the block, the connection belongs to the parent.
                if os.getpid() == pid:
                    self._return_connection(connection)

    def _return_connection(self, connection: Connection) -> None:
        try:
            if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE and not connection.closed:
                connection.rollback()
        finally:
            self._pool.putconn(connection)

    def _take_connection(self, begin: bytes) -> Connection:
        # A restart of the server breaks all pooled connections. Nothing has been written yet, so trying again is safe.
        # The pool discards broken connections and then opens a new one.
        for left in range(_MOST_CONNECTIONS, -1, -1):
            connection = self._pool.getconn()
            try:
                self._begin_checked(connection, begin)
                return connection
            except BaseException as error:
                died = isinstance(error, psycopg.OperationalError) and connection.closed
                self._return_connection(connection)
                if isinstance(error, psycopg_pool.PoolTimeout) or not died or left == 0:
                    raise
        raise AssertionError("unreachable")

    def _begin_checked(self, connection: Connection, begin: bytes) -> None:
        pid, too_new = self._begin(connection, begin)
        if too_new is not None:
            raise SchemaTooNew(
                f"A newer Engram has migrated {self._store} to schema {int(too_new)} since this process opened it, but "
                f"this Engram knows only schemas up to {self._newest}. Upgrade it ({UPGRADE}) and "
                "restart; nothing was changed."
            )
        # A pooler reports a different process id than the server's. Behind a pooler, a prepared statement may be
        # missing in the next transaction, or belong to another client.
        direct = pid is not None and int(pid) == connection.info.backend_pid
        connection.prepare_threshold = _PREPARE_AFTER if direct else None

    def _begin(self, connection: Connection, begin: bytes) -> Sequence[bytes | None]:
        """Begin a transaction in one round trip. Returns the columns of the last statement's row, if it has one."""
        # A pooler makes a client wait for a free server connection. No setting of the server limits that wait.
        limit = self._busy_timeout + _CONNECT_TIMEOUT
        connection.pgconn.send_query(begin)
        try:
            results = connection.wait(_with_limit(generators.execute(connection.pgconn), limit))
        except psycopg_pool.PoolTimeout:
            connection.close()
            raise
        last = results[-1]
        if last.status == psycopg.pq.ExecStatus.FATAL_ERROR:
            raise psycopg.errors.error_from_result(last, encoding=connection.info.encoding)
        return [last.get_value(0, column) for column in range(last.nfields)]

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except (psycopg.Error, psycopg_pool.PoolTimeout) as error:
            raise translate(error, self._store) from error


def _with_limit(work: PQGen[Result], limit: float) -> PQGen[Result]:
    """The driver's work on a connection, with a time limit. The driver resumes it several times a second."""
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
    """The statement in the driver's form: `:name` becomes `%(name)s`, `%` becomes `%%`, and a list becomes an array.

    Reads the text token by token, so that a colon inside a string, a quoted name, a comment or a cast (`::text`) does
    not count as a parameter.
    """
    out: list[str] = []
    position = 0
    while position < len(sql):
        end = _token_end(sql, position)
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
    return _LIST_PARAMETER.sub(r"= ANY(\1)", "".join(out))


def _token_end(sql: str, position: int) -> int:
    """The end of the string, quoted name, comment or cast at this position; the position itself if there is none."""
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
    """Turn a driver's error into one that tells the user what to do."""
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
            return StoreUnavailable(f"{store} gave no connection in time ({problem}).")
        case psycopg.OperationalError() if "unsupported startup parameter" in problem:
            return InvalidURL(
                f"The connection pooler of {store} refuses a parameter of this URL ({problem}). Remove it from the "
                "URL. To keep a server setting, set it for the role instead (ALTER ROLE ... SET ...)."
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
            # Not from the server: the driver got two reports of a lost connection, from a pooler and from the system.
            return StoreUnavailable(f"The connection to {store} was lost ({problem}); nothing was written. Try again.")
        case psycopg.ProgrammingError() if error.sqlstate is None:
            return InvalidURL(f"{store} is not a valid PostgreSQL URL ({problem}).")
    return StoreError(f"{store}: {type(error).__name__}: {problem}")
