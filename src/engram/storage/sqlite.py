"""SQLite through `apsw`, which carries a current SQLite of its own.

Several processes share one WAL file. Within a process, connections are kept in a small stack and lent out for one
transaction each; writers of the same process queue on a lock, because SQLite's own waiting is polling and unfair. Every
write is `BEGIN IMMEDIATE`, so a transaction never fails half-way for want of the write lock.

Never `open()` a live database file here: closing that descriptor would drop this process's locks on it. A new file is
therefore made under another name and linked into place.
"""

from __future__ import annotations

import json
import os
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import LiteralString

import apsw

from ..clock import Clock
from ..errors import EngramError, NotAStore, StoreBusy, StoreError, StoreFull, StoreReadOnly, StoreUnavailable
from . import backup, migrate
from .engine import Engine, Row, Transaction

#: Written into the file's header ("Engr"), so that a foreign database is never mistaken for a store.
APPLICATION_ID = 0x456E6772

_INSERT_CHANGE = "INSERT INTO changes (workspace, what, id) VALUES (?, ?, ?)"

#: File systems whose locks do not reach other machines, or not reliably; SQLite corrupts on them.
NETWORK_FILE_SYSTEMS = frozenset(
    {
        *("9p", "afs", "afpfs", "beegfs", "ceph", "cifs", "coda", "gfs2", "gpfs", "lustre", "ncpfs", "nfs", "nfs4"),
        *("ocfs2", "orangefs", "smb2", "smb3", "smbfs"),
        *("fuse.ceph", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs"),
    }
)

#: Engines whose idle connections are closed before a fork: SQLite counts locks per file and process, so in a child that
#: inherits an open connection every later one would believe it holds a lock that only the parent has, and the parent's
#: last close would delete the write-ahead log under it.
_ENGINES: weakref.WeakSet[SqliteEngine] = weakref.WeakSet()
#: Connections that were in use during a fork, and their files: the child may neither use, close nor reopen them.
_INHERITED: list[object] = []
_LOST: set[str] = set()


class SqliteTransaction(Transaction):
    def __init__(self, connection: apsw.Connection, clock: Clock, *, writable: bool) -> None:
        super().__init__(writable=writable)
        self.connection = connection
        self._clock = clock

    def all(self, sql: LiteralString, **values: object) -> list[Row]:
        self.require_alive()
        return self.connection.execute(sql, values).fetchall()

    def run(self, sql: LiteralString, **values: object) -> int:
        self.require_alive()
        self.connection.execute(sql, values)
        return self.connection.changes()

    def many(self, sql: LiteralString, values: Sequence[Mapping[str, object]]) -> None:
        self.require_alive()
        self.connection.executemany(sql, values)

    def array(self, values: Iterable[int] | Iterable[str]) -> object:
        return json.dumps(list(values))

    def now(self) -> str:
        return self._clock.now()

    def require_alive(self) -> None:
        # On some errors (a full disk) SQLite undoes the whole transaction by itself; what follows would then be
        # committed statement by statement.
        if not self.connection.in_transaction:
            raise StoreError("SQLite gave this transaction up after an earlier error; nothing of it was written.")

    def lock(self, name: str) -> None:
        """Nothing to do: a write transaction keeps every other writer out already."""

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        self.require_alive()
        self.connection.execute("SAVEPOINT nested")
        try:
            yield
        except BaseException:
            # SQLite rolls back wholly by itself on some errors (a full disk); then there is no savepoint left.
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK TO nested")
                self.connection.execute("RELEASE nested")
            raise
        self.connection.execute("RELEASE nested")


class SqliteEngine(Engine):
    name = "sqlite"

    def __init__(self, path: str, clock: Clock, *, busy_timeout: float = 30.0, synchronous: str = "normal") -> None:
        super().__init__(clock)
        self.path = path
        self._busy_timeout = busy_timeout
        self._synchronous = synchronous
        self._closed = False
        self._idle: list[apsw.Connection] = []
        self._in_use: list[apsw.Connection] = []
        self._writer = threading.Lock()
        _create(path)
        _ENGINES.add(self)
        with _translated(path):
            connection = self._connect(check=True)
            self._idle.append(connection)
            try:
                migrate.sqlite(connection, path, clock)
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        self._joined()
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def scrub(self) -> None:
        from .scrub import scrub

        try:
            with self._writer, _translated(self.path):
                # One of its own: a used connection may hold pages as they were before.
                connection = self._connect()
                try:
                    clean = scrub(connection, self.path, self._busy_timeout)
                finally:
                    connection.close()
        except EngramError:
            clean = False
        if not clean:
            import logging

            logging.getLogger("engram.storage").warning(
                "%s may still have bytes of what was forgotten, because others kept it busy; the next forgetting "
                "removes them",
                self.path,
            )

    def backups(self, before: str) -> tuple[str, ...]:
        folder, name = os.path.split(self.path)
        return backup.older((file for file in os.listdir(folder) if file.startswith(f"{name}.before-")), before)

    @contextmanager
    def _writing(self, patient: bool) -> Iterator[Transaction]:
        writer, pid = self._writer, os.getpid()
        if not writer.acquire(timeout=self._busy_timeout if patient else 0):
            raise StoreBusy(f"Another thread of this process is writing to {self.path}; try again.")
        # One generator does it all: on this path another layer would cost as much as a statement.
        connection = None
        try:
            connection = self._lend()
            self._begin(connection, patient)
            transaction = SqliteTransaction(connection, self.clock, writable=True)
            yield transaction
            transaction.require_alive()
            connection.execute("COMMIT")
        except apsw.Error as error:
            raise translate(error, self.path) from error
        finally:
            # In the child of a fork inside the block, all of this is the parent's.
            if os.getpid() == pid:
                self._give_back(connection)
                writer.release()

    @contextmanager
    def _reading(self) -> Iterator[Transaction]:
        pid = os.getpid()
        connection = None
        try:
            connection = self._lend()
            connection.execute("BEGIN")
            yield SqliteTransaction(connection, self.clock, writable=False)
        except apsw.Error as error:
            raise translate(error, self.path) from error
        finally:
            if os.getpid() == pid:
                self._give_back(connection)

    def _begin(self, connection: apsw.Connection, patient: bool) -> None:
        if patient:
            connection.execute("BEGIN IMMEDIATE")
            return
        connection.set_busy_timeout(0)
        try:
            connection.execute("BEGIN IMMEDIATE")
        finally:
            connection.set_busy_timeout(int(self._busy_timeout * 1000))

    def _flush(self, transaction: Transaction) -> None:
        assert isinstance(transaction, SqliteTransaction)
        if transaction.notes:
            transaction.connection.executemany(_INSERT_CHANGE, transaction.notes)

    def _after_fork(self) -> None:
        if self._in_use:
            _INHERITED.append(self._in_use)
            _LOST.add(os.path.realpath(self.path))
        self._in_use = []
        self._idle = []
        self._writer = threading.Lock()

    def _before_fork(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _lend(self) -> apsw.Connection:
        """A connection of one's own."""
        if self._closed:
            raise StoreUnavailable(f"The store {self.path} was closed; open it again.")
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect()
        self._in_use.append(connection)
        return connection

    def _give_back(self, connection: apsw.Connection | None) -> None:
        """End whatever is still open on a lent connection, and keep it for the next one."""
        if connection is None:
            return
        self._in_use.remove(connection)
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if self._closed:
            connection.close()
        else:
            self._idle.append(connection)

    def _translated(self) -> AbstractContextManager[None]:
        return _translated(self.path)

    def _connect(self, *, check: bool = False) -> apsw.Connection:
        if _LOST and os.path.realpath(self.path) in _LOST:
            raise StoreUnavailable(
                f"This process was forked while {self.path} was in use, so SQLite cannot lock it here. Fork between "
                "transactions, or start a new process instead."
            )
        connection = apsw.Connection(
            self.path, flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOMUTEX, statementcachesize=256
        )
        try:
            # Plans do not depend on the values bound; otherwise SQLite prepares every statement that has an ORDER BY
            # or a join anew at each execution, which takes longer than running it.
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
            connection.set_busy_timeout(int(self._busy_timeout * 1000))
            if check:
                _check_ours(connection, self.path)
                _to_wal(connection, self._busy_timeout)
            connection.execute(f"PRAGMA synchronous={'FULL' if self._synchronous == 'full' else 'NORMAL'}")
            connection.execute("PRAGMA foreign_keys=ON")
            connection.execute("PRAGMA secure_delete=ON")
            connection.execute("PRAGMA temp_store=MEMORY")
        except BaseException:
            connection.close()
            raise
        return connection


def _create(path: str) -> None:
    """Make an empty file only its owner can read, unless there is one."""
    folder = os.path.dirname(path)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        network = network_file_system(folder)
        if network:
            raise StoreUnavailable(
                f"{folder} is on a network file system ({network}), where SQLite cannot lock safely. Put the store "
                "on a local disk, or use PostgreSQL to share it between machines."
            )
        if os.path.exists(path):
            _unlock(path)
            return
        draft = f"{path}.new-{os.getpid()}-{threading.get_ident()}"
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        try:
            os.link(draft, path)
        except FileExistsError:
            pass  # another process was faster, which is just as well
        finally:
            os.unlink(draft)
    except OSError as error:
        raise _translate_os(error, path) from error


def _unlock(path: str) -> None:
    """Who read the store while it was read-only left helper files that are; they follow the store's own mode."""
    for helper in (f"{path}-wal", f"{path}-shm"):
        if os.access(path, os.W_OK) and os.path.exists(helper) and not os.access(helper, os.W_OK):
            os.chmod(helper, os.stat(path).st_mode & 0o777)


def _check_ours(connection: apsw.Connection, path: str) -> None:
    """Refuse a database that another program made, before a single byte of it is changed."""
    # In this order: whoever makes the store writes both at once, perhaps just now.
    empty = connection.execute("SELECT count(*) FROM sqlite_schema").fetchall() == [(0,)]
    found = connection.pragma("application_id")
    if found != APPLICATION_ID and not (empty and found == 0):
        raise NotAStore(
            f"{path} is an SQLite database, but not an Engram store; it was left as it is. "
            "Give another path with --store or ENGRAM_URL."
        )


def _to_wal(connection: apsw.Connection, patience: float) -> None:
    """Write-ahead logging, once per file; SQLite does not wait by itself when two processes switch at once."""
    deadline = time.monotonic() + patience
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def network_file_system(folder: str, mounts: str = "/proc/self/mountinfo") -> str | None:
    """The type of the network file system that holds the folder; None when it is local or cannot be told."""
    try:
        device = os.stat(folder).st_dev
        # A disk has a major number; only file systems without one need a closer look.
        if os.major(device) != 0:
            return None
        with open(mounts, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                before, _, after = line.partition(" - ")
                if before.split()[2] == f"0:{os.minor(device)}":
                    kind = after.split()[0]
                    return kind if kind in NETWORK_FILE_SYSTEMS else None
    except (OSError, IndexError):
        return None
    return None


@contextmanager
def _translated(path: str) -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        raise translate(error, path) from error


def translate(error: apsw.Error, path: str) -> EngramError:
    """What a driver's error means to a user, and what to do about it."""
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return StoreBusy(f"Another process is writing to {path} and did not finish in time; try again.")
    if isinstance(error, apsw.ReadOnlyError | apsw.PermissionsError):
        return StoreReadOnly(
            f"{path} cannot be written ({error}). Give its owner write permission on the file and its folder, or "
            "use another store with --store or ENGRAM_URL."
        )
    if isinstance(error, apsw.FullError):
        return StoreFull(f"The disk that holds {path} is full; nothing was written. Free some space and try again.")
    if isinstance(error, apsw.NotADBError):
        return NotAStore(
            f"{path} is not a database; it was left as it is. Give another path with --store or ENGRAM_URL."
        )
    if isinstance(error, apsw.CorruptError):
        return StoreError(
            f"{path} is damaged ({error}). Keep the file, and restore the newest backup beside it or your own."
        )
    if isinstance(error, apsw.CantOpenError):
        return StoreUnavailable(
            f"{path} cannot be opened ({error}). Check that its folder exists and that you may write there."
        )
    return StoreError(f"{path}: {type(error).__name__}: {error}")


def _translate_os(error: OSError, path: str) -> EngramError:
    import errno

    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StoreReadOnly(
            f"{path} cannot be created: {error.strerror} ({error.filename}). Choose a folder you may write to "
            "with --store or ENGRAM_DATA_DIR."
        )
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreFull(f"The disk that should hold {path} is full. Free some space and try again.")
    return StoreUnavailable(f"{path} cannot be created: {error.strerror} ({error.filename}).")


def _before_fork() -> None:
    for engine in list(_ENGINES):
        engine._before_fork()


os.register_at_fork(before=_before_fork)
