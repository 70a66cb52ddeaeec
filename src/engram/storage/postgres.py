"""The PostgreSQL engine, for a team or several machines: PostgreSQL 14 or newer, through `psycopg` 3.

A store has a separate schema (`engram`, or `?schema=…` in the URL), so it can share a database with other data.

Unlike SQLite, PostgreSQL runs several writers at once. So `lock` takes an advisory lock. The time is the server's,
because machines that share a store do not share a clock. To avoid deadlocks, every operation takes locks in the order
that `mutexes` gives.

**The change feed.** Changes get their numbers while their transactions are still open, and those commit in any order. A
reader must not go past a number that may still appear. So a writer, before it takes numbers, takes a shared advisory
lock whose key is the last number given so far. Nobody ever waits for this lock. A reader sees in the server's table of
locks from which number on writers of this store are at work, and goes no further. It looks before it takes its
snapshot: a writer whose lock is gone by then has ended, and the snapshot shows what it wrote. The functions
`number_changes`, `number_items` and `ends` of the schema do this. Items are numbered in the same way.

**Round trips.** A statement whose result is not needed yet waits in a queue, and is sent together with the next one
whose result is needed. The statements that begin a transaction, and the commit, are sent with others, too.

Connections keep no settings. A pooler such as PgBouncer in transaction mode may give each transaction a different
server connection, so the settings of one client would apply to the next client, which may use another store. So each
transaction sets what it needs when it begins. It then also learns whether a newer Engram has migrated the store, and
whether statements may be prepared on the server.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, LiteralString, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from .._version import UPGRADE, install_command
from ..clock import Clock
from ..errors import MissingExtra, SchemaTooNew, StoreReadOnly, StoreUnavailable
from ..store_url import masked, split_schema
from . import backup, migrate
from .engine import Engine, Row, TableSize, TableSizes, Transaction

try:
    import psycopg
    from psycopg import sql as driver
except ImportError as missing:
    raise MissingExtra(
        f"PostgreSQL needs a package that is not installed ({missing.name}). Install it: {install_command('postgres')}."
    ) from missing
from . import pgvector, postgres_pool
from .postgres_errors import OnStandby, TookTooLong, is_lost, is_passing, lost, lost_in_commit, translate
from .postgres_transaction import Begin, Begun, PostgresTransaction
from .postgres_wire import Request, Wire

if TYPE_CHECKING:
    from ..health_records import Check

    Connection = psycopg.Connection[Row]

Result = TypeVar("Result")

#: Behind a pooler, other programs use the same server connections. They may have changed the default isolation level or
#: left temporary tables. PostgreSQL finds those first unless the path names their schema last.
_BEGIN = "BEGIN ISOLATION LEVEL {level}"
_PATIENCE = "SET LOCAL lock_timeout = {patience}"
#: A migration locks the same table, so migrations and other transactions exclude each other. SELECT is not enough: in
#: a repeatable read it fixes the snapshot before it waits for the lock, and would miss the new migration.
_LOCK_MIGRATIONS = "LOCK TABLE {migrations} IN ACCESS SHARE MODE"
_SETTINGS = """
SELECT set_config('search_path', {path}, true), set_config('idle_in_transaction_session_timeout', {idle}, true)
"""
#: If a newer Engram has migrated the store, the cast fails, and the server skips the statements that follow.
_CHECKED_SETTINGS = (
    _SETTINGS
    + """,
       pg_backend_pid(), pg_is_in_recovery(),
       CAST((SELECT 'schema ' || MAX(number) FROM {migrations} WHERE works_with > {newest}) AS INTEGER)
"""
)
_ENDS = "SELECT changes, items FROM {schema}.ends()"
_NEWER = "SELECT MAX(number) FROM {migrations} WHERE works_with > {newest}"
_IS_THERE = b"SELECT to_regclass(format('%I.migrations', $1::text)) IS NOT NULL"
_APPLIED = "SELECT number, hash, works_with FROM {migrations} ORDER BY number"

_REMARK = "SELECT obj_description(CAST('migrations' AS regclass), 'pg_class')"
_BACKUPS = "SELECT nspname FROM pg_namespace WHERE starts_with(nspname, :start)"
_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = :schema ORDER BY tablename"
_SIZE = """
SELECT COALESCE(SUM(pg_total_relation_size(c.oid)), 0)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = :schema AND c.relkind = 'r'
"""
# The planner's estimates. A table that was never analysed has none; then the server's own count of live rows serves.
_TABLE_SIZES = """
SELECT c.relname, CAST(CASE WHEN c.reltuples < 0 THEN pg_stat_get_live_tuples(c.oid) ELSE c.reltuples END AS BIGINT),
  pg_total_relation_size(c.oid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = :schema AND c.relkind = 'r'
ORDER BY c.relname
"""

_MOST_CONNECTIONS = 16
_CONNECT_TIMEOUT = postgres_pool.CONNECT_WITHIN
#: The driver itself prepares nothing on the server; see `postgres_wire`.
_CONNECTING: dict[str, Any] = {"autocommit": True, "prepare_threshold": None}
#: Seconds before the next attempt to reach a server; twice as long each time.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 0.5
#: Ends the transaction of a client that stopped responding, so that it does not keep its row locks.
_IDLE_IN_TRANSACTION = "60s"
#: Lock timeout in seconds for a writer that does not wait.
_HURRIED = 0.01
#: How many rows the counters of a shelf are spread over. More writers of a workspace than this rarely commit at once.
_SLOTS = 32


class Begins(NamedTuple):
    write: Begin
    hurried: Begin
    read: Begin
    read_feed: Begin


class PostgresEngine(Engine):
    name = "postgres"

    def __init__(
        self,
        url: str,
        clock: Clock,
        *,
        busy_timeout: float = 30.0,
        upgrade: bool = True,
        create: bool = True,
        data_dir: str | None = None,
    ) -> None:
        super().__init__(clock)
        #: Where this machine notes the dumps that it made; None: nowhere.
        self._data_dir = data_dir
        self._url, self._schema = split_schema(url)
        self._store = masked(url)
        self._busy_timeout = busy_timeout
        self._closed = False
        with self._translating():
            #: Whether a server that does not answer is one that is away for a while; otherwise the URL may be wrong.
            self._known = postgres_pool.has_several_hosts(self._url)
            self._connecting = {**_CONNECTING, **postgres_pool.parameters(self._url, busy_timeout)}
        #: The schema of the pgvector extension; None without it.
        self._vectors: str | None = None
        #: The newest migration that this version knows.
        self._newest = 0
        self._wires: WeakKeyDictionary[Connection, Wire] = WeakKeyDictionary()
        self._slots = itertools.count(random.randrange(_SLOTS))
        self._pool = self._new_pool()
        with self._translating():
            connection, _ = self._patiently(lambda: self._pool.take(self.longest_wait), busy_timeout)
            try:
                if not self._open_quickly(self._wire_of(connection), upgrade):
                    self._open(self._wire_of(connection), upgrade, create)
                #: Whether the URL leads to a standby. Then the store is meant to be read there, and a write does not
                #: wait.
                self._reads_standby = connection.info.parameter_status("in_hot_standby") == "on"
            finally:
                self._return_connection(connection)
        self._known = True
        self._begins = self._make_begins()

    def _open_quickly(self, wire: Wire, upgrade: bool) -> bool:
        """Open a store that needs no change, in two round trips. False if it may need one."""
        there = Request(_IS_THERE, [self._schema])
        vectors = pgvector.ask_state(self._schema)
        self._begin_opening(wire, there, vectors)
        home = pgvector.judged(vectors.all()[0])
        end = Request(b"COMMIT")
        if not there.value():
            wire.send([end])
            return False
        applied = Request(self._filled(_APPLIED))
        wire.send([applied, end])
        outcome = migrate.without_change([migrate.Applied(*row) for row in applied.all()], self._store, upgrade=upgrade)
        if outcome is None or home is pgvector.UNPREPARED:
            return False
        self.outcome, self._newest = outcome, outcome.known
        self._vectors = home
        return True

    def _open(self, wire: Wire, upgrade: bool, create: bool) -> None:
        """Open a store, create or migrate it, and make the table for vectors."""
        connection = wire.connection
        self._begin_opening(wire)
        self.outcome = migrate.postgres(
            connection, self._schema, self._store, self.clock, upgrade=upgrade, create=create
        )
        self._newest = self.outcome.known
        self._vectors = pgvector.prepare(connection, self._schema)
        try:
            wire.send([Request(b"COMMIT")], limit=self.longest_wait)
        except psycopg.Error as error:
            if is_lost(error, connection):
                raise lost_in_commit(error, self._store) from error
            raise

    def _begin_opening(self, wire: Wire, *more: Request) -> None:
        """Begin a transaction on a store that may not exist yet, and send more with it."""
        begin = (
            self._filled(_BEGIN, level="READ COMMITTED"),
            self._filled(_PATIENCE, patience=self._busy_timeout),
            self._filled(_SETTINGS),
        )
        wire.send([*map(Request, begin), *more], early=len(begin), limit=self.longest_wait)

    @property
    def schema(self) -> str:
        return self._schema

    @property
    def compares(self) -> bool:
        """Whether the server can compare vectors."""
        return self._vectors is not None

    def close(self) -> None:
        self._current()
        self._closed = True
        self._pool.close()

    def scrub(self) -> None:
        """Remove drafts of killed backups. The server's vacuum and log recycling remove the bytes; its administrator
        decides when."""
        if self._data_dir is not None:
            from . import dumps

            dumps.remove_drafts(self._url, self._schema, self._data_dir)

    def backups(self, before: str) -> tuple[str, ...]:
        with self.read() as transaction:
            names = transaction.column(_BACKUPS, start=backup.prefix(self._schema))
        copies = backup.older(names, before)
        if self._data_dir is None:
            return copies
        from . import dumps

        return (*copies, *dumps.older(self._url, self._schema, self._data_dir, before))

    def vacuum(self) -> None:
        """Vacuum the schema's tables. Others go on reading and writing; the space is used again for new rows."""
        with self.read() as transaction:
            tables = transaction.column(_TABLES, schema=self._schema)
        with self._translating(), self._own_connection() as connection:
            for table in tables:
                name = driver.Identifier(self._schema, table)
                connection.execute(driver.SQL("VACUUM (ANALYZE) {}").format(name))

    def health(self, *, full: bool = False) -> list[Check]:
        from . import dumps, postgres_health

        known = [] if self._data_dir is None else dumps.known(self._url, self._schema, self._data_dir)
        return postgres_health.checks(self, known)

    def size(self) -> int:
        with self.read() as transaction:
            return int(transaction.value(_SIZE, schema=self._schema))

    def table_sizes(self) -> TableSizes:
        with self.read() as transaction:
            rows = transaction.all(_TABLE_SIZES, schema=self._schema)
        return TableSizes(tuple(TableSize(*row) for row in rows), None)

    def remark(self) -> str | None:
        with self.read() as transaction:
            text: str | None = transaction.value(_REMARK)
        return text

    def set_remark(self, text: str | None) -> None:
        said = driver.SQL("COMMENT ON TABLE {} IS {}").format(
            driver.Identifier(self._schema, "migrations"), driver.Literal(text)
        )
        with self.write() as transaction:
            assert isinstance(transaction, PostgresTransaction)
            transaction.put(said.as_bytes(None))

    def index_vectors(self, workspace: str, models: Sequence[str]) -> None:
        if self._vectors is not None:
            with self._translating(), self._own_connection() as connection:
                pgvector.index(connection, self._schema, self._vectors, workspace, models)

    @contextmanager
    def _writing(self, patient: bool) -> Iterator[Transaction]:
        with self._in_transaction(self._begins.write if patient else self._begins.hurried) as transaction:
            yield transaction

    @contextmanager
    def _reading(self, feed: bool) -> Iterator[Transaction]:
        with self._in_transaction(self._begins.read_feed if feed else self._begins.read) as transaction:
            yield transaction

    def _write_changes(self, transaction: Transaction) -> None:
        assert isinstance(transaction, PostgresTransaction)
        transaction.number_changes()

    def _after_fork(self) -> None:
        # The connections belong to the parent, so the child does not close them. They end with the child process.
        self._parent = self._pool, self._wires
        self._pool = self._new_pool()
        self._wires = WeakKeyDictionary()

    def _new_pool(self) -> postgres_pool.Pool:
        return postgres_pool.Pool(self._connect, _MOST_CONNECTIONS, self._forget)

    def _forget(self) -> None:
        # Without synchronous replication, another server may lack rows that this process remembers. Transactions that
        # are about to begin have the same object.
        self.memo.clear()

    def _connect(self) -> Connection:
        return psycopg.connect(self._url, **self._connecting)

    @contextmanager
    def _own_connection(self) -> Iterator[Connection]:
        """A connection outside the pool, for long work."""
        with self._patiently(self._connect, self._busy_timeout) as connection:
            yield connection

    def _patiently(self, attempt: Callable[[], Result], patience: float) -> Result:
        """The result of an attempt to reach the server, which is repeated for a while if nobody answers.

        Nothing has been written yet, so trying again is safe. A server that dies is replaced by another one, or starts
        again.
        """
        until, pause = time.monotonic() + patience, _FIRST_PAUSE
        while True:
            try:
                return attempt()
            except psycopg.Error as error:
                if time.monotonic() + pause > until or not is_passing(error, known=self._known):
                    raise
            # Not all processes at the same moment.
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _make_begins(self) -> Begins:
        look = (
            self._filled(_BEGIN, level="READ COMMITTED, READ ONLY"),
            self._filled(_ENDS),
            b"COMMIT",
        )
        write = self._filled(_BEGIN, level="READ COMMITTED")
        # In a READ COMMITTED transaction each statement has a snapshot of its own, taken after it waited for its locks.
        settings = self._filled(_CHECKED_SETTINGS)
        patience = self._busy_timeout
        read = (
            self._filled(_BEGIN, level="REPEATABLE READ, READ ONLY"),
            self._filled(_PATIENCE, patience=patience),
            self._filled(_LOCK_MIGRATIONS),
            settings,
        )
        return Begins(
            write=Begin((write, self._filled(_PATIENCE, patience=patience), settings), patience, writes=True),
            hurried=Begin((write, self._filled(_PATIENCE, patience=_HURRIED), settings), 0.0, writes=True),
            read=Begin(read, patience),
            read_feed=Begin((*look, *read), patience, looks=True),
        )

    def _filled(self, text: LiteralString, level: LiteralString = "", patience: float = 0.0) -> bytes:
        # No other schema: PostgreSQL prefers a function there to its own if its argument types fit better.
        homes = dict.fromkeys([self._schema, self._vectors or self._schema])
        path = driver.SQL(", ").join(map(driver.Identifier, homes)).as_string(None)
        statements = driver.SQL(text).format(
            level=driver.SQL(level),
            path=f"{path}, pg_temp",
            patience=max(1, int(patience * 1000)),
            idle=_IDLE_IN_TRANSACTION,
            migrations=driver.Identifier(self._schema, "migrations"),
            newest=self._newest,
            schema=driver.Identifier(self._schema),
        )
        return statements.as_bytes(None)

    @contextmanager
    def _in_transaction(self, begin: Begin) -> Iterator[PostgresTransaction]:
        """A transaction that commits at the end of the block, and rolls back if the block raises."""
        with self._translating():
            if self._closed:
                raise StoreUnavailable(f"The store {self._store} was closed; open it again.")
            pid = os.getpid()
            transaction = PostgresTransaction(self, begin)
            committing = False
            try:
                yield transaction
                committing = begin.writes
                transaction.commit()
            except psycopg.Error as error:
                if transaction.is_broken:
                    raise (lost_in_commit if committing else lost)(error, self._store) from error
                raise
            finally:
                # After a fork inside the block, the connection belongs to the parent.
                if os.getpid() == pid and transaction._wire is not None:
                    self._return_connection(transaction._wire.connection)

    def _return_connection(self, connection: Connection) -> None:
        try:
            if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE and not connection.closed:
                connection.rollback()
        except psycopg.Error:
            connection.close()
        finally:
            if connection.closed:
                # What ends one connection, such as a restart of the server, often ends all.
                self._pool.drop_kept()
            self._pool.give_back(connection)

    def _wire_of(self, connection: Connection) -> Wire:
        wire = self._wires.get(connection)
        if wire is None:
            wire = self._wires[connection] = Wire(connection)
            wire.slot = next(self._slots) % _SLOTS
        return wire

    def begin_with(self, begin: Begin, queue: Sequence[Request]) -> Begun:
        """Take a connection, begin a transaction on it, and send the queue.

        All of it is repeated on another connection if this one turns out to be dead.
        """
        until = time.monotonic() + begin.patience + _CONNECT_TIMEOUT
        return self._patiently(lambda: self._try_to_begin(begin, queue, until), begin.patience)

    def _try_to_begin(self, begin: Begin, queue: Sequence[Request], until: float) -> Begun:
        while True:
            connection, is_new = self._pool.take(until - time.monotonic())
            wire = self._wire_of(connection)
            try:
                return self._begin_on(wire, begin, queue, until)
            except BaseException as error:
                was_lost = is_lost(error, connection)
                self._return_connection(connection)
                if is_new or not was_lost or isinstance(error, TookTooLong):
                    raise
                if queue and queue[-1].sql == b"COMMIT" and begin.writes:
                    raise

    def _begin_on(self, wire: Wire, begin: Begin, queue: Sequence[Request], until: float) -> Begun:
        requests = [Request(sql) for sql in begin.statements]
        failed: psycopg.Error | None = None
        # A pooler makes a client wait for a free server connection. No setting of the server limits that wait.
        limit = None if wire.prepares else max(0.0, until - time.monotonic())
        try:
            wire.send([*requests, *queue], early=len(requests), limit=limit)
        except psycopg.Error as error:
            if wire.connection.closed or requests[-1].rows is None:
                self._check_schema(wire, error)
                raise
            # The transaction has begun; a statement of the queue failed.
            failed = error
        ((_, _, pid, is_standby, _),) = requests[-1].all()
        if is_standby and begin.writes:
            self._refuse_standby(wire.connection)
        # A pooler reports a different process id than the server's. Behind a pooler, a prepared statement may be
        # missing in the next transaction, or belong to another client.
        wire.prepares = pid == wire.connection.info.backend_pid
        if not begin.looks:
            return Begun(wire, None, failed)
        ((changes, items),) = requests[1].all()
        return Begun(wire, (changes, items), failed)

    def _check_schema(self, wire: Wire, error: psycopg.Error) -> None:
        """Raise SchemaTooNew if that is why a transaction could not begin."""
        if wire.connection.closed or not isinstance(
            error, psycopg.errors.DataError | psycopg.errors.ProgrammingError | psycopg.errors.InFailedSqlTransaction
        ):
            return
        wire.send([Request(b"ROLLBACK")])
        newer = Request(self._filled(_NEWER))
        wire.send([newer])
        if (number := newer.value()) is not None:
            raise SchemaTooNew(
                f"A newer Engram has migrated {self._store} to schema {number} since this process opened it, but "
                f"this Engram knows only schemas up to {self._newest}. Upgrade it ({UPGRADE}) and "
                "restart; nothing was changed."
            ) from error

    def _refuse_standby(self, connection: Connection) -> None:
        if self._reads_standby:
            raise StoreReadOnly(
                f"{self._store} cannot be written: this server is a standby. Connect to the primary server."
            )
        # The next connection may be to another server.
        connection.close()
        raise OnStandby("the server is a standby")

    @property
    def longest_wait(self) -> float:
        """Seconds that a call waits at most for a free connection, or for the confirmation of a commit."""
        return self._busy_timeout + _CONNECT_TIMEOUT

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            open_one = getattr(self._local, "transaction", None)
            if isinstance(open_one, PostgresTransaction) and open_one.is_broken:
                raise lost(error, self._store) from error
            raise translate(error, self._store) from error
