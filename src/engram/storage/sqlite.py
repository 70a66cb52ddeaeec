"""The SQLite engine, through `apsw`, which includes a current SQLite.

Several processes share one database in WAL mode. Within a process, idle connections are kept in a list, and each
transaction takes one. Writers of the same process wait on a lock, because SQLite itself waits by polling and is unfair.
Every write begins with `BEGIN IMMEDIATE`, so no transaction has to wait for the write lock in its middle.

Never `open()` a database file that is in use: closing that descriptor would drop this process's locks on it. So a new
file is made under another name and linked into place.

A connection keeps using the file that it opened, even after that file was deleted, moved or replaced. Its writes would
be lost. So each transaction checks after it begins, and again before it commits, that the path still leads to the same
file. It also reads SQLite's `schema_version`, which changes when another process migrates or restores the store. After
either change the store is opened again as at the start. But a running process never turns a missing or empty file into
a new store.
"""

from __future__ import annotations

import json
import os
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, LiteralString, NamedTuple

import apsw

from ..clock import Clock
from ..errors import (
    EngramError,
    NotAStore,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from ..private_files import make_file, make_folder
from . import backup, foreign, migrate
from .engine import Engine, Row, Transaction

_SCHEMA_VERSION = "PRAGMA schema_version"
_INSERT_CHANGE = "INSERT INTO changes (workspace, what, id) VALUES (?, ?, ?)"

#: File systems whose locks do not reliably reach other machines. SQLite databases get corrupted on them.
NETWORK_FILE_SYSTEMS = frozenset(
    {
        *("9p", "afs", "afpfs", "beegfs", "ceph", "cifs", "coda", "gfs2", "gpfs", "lustre", "ncpfs", "nfs", "nfs4"),
        *("ocfs2", "orangefs", "smb2", "smb3", "smbfs"),
        *("fuse.ceph", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs"),
    }
)

#: Engines whose idle connections are closed before a fork. SQLite counts locks per file and process. In a child that
#: inherits an open connection, later connections would rely on a lock that only the parent holds, and the parent's last
#: close would delete the write-ahead log while the child uses it.
_ENGINES: weakref.WeakSet[SqliteEngine] = weakref.WeakSet()
#: Connections that were in use during a fork, and their files. The child must not use, close or reopen them.
_INHERITED: list[object] = []
_INHERITED_FILES: set[str] = set()

#: How often a transaction tries to begin if the store was replaced or changed at that moment.
_ATTEMPTS = 5

#: Identifies a file: its inode and its device.
_File = tuple[int, int]


class _Link(NamedTuple):
    """A connection and the file that it opened."""

    connection: apsw.Connection
    file: _File


class SqliteTransaction(Transaction):
    def __init__(self, link: _Link, engine: SqliteEngine, memo: dict[str, Any], *, writable: bool) -> None:
        super().__init__(writable=writable)
        self.connection = link.connection
        self.remembered = memo
        self._engine = engine
        self._clock = engine.clock

    def all(self, sql: LiteralString, **values: object) -> list[Row]:
        self.require_alive()
        try:
            return self.connection.execute(sql, values).fetchall()
        except UnicodeDecodeError as error:
            raise damaged(self._engine.path, f"a text in it is not UTF-8: {error.reason}") from error

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
        # On some errors, such as a full disk, SQLite rolls back the whole transaction. Each later statement would then
        # be committed separately.
        if not self.connection.in_transaction:
            raise StoreError("SQLite rolled this transaction back after an earlier error; nothing was written.")

    def lock(self, name: str, *, shared: bool = False) -> None:
        """Does nothing, because SQLite has only one write transaction at a time."""

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        self.require_alive()
        self.connection.execute("SAVEPOINT nested")
        try:
            yield
        except BaseException:
            # After some errors, such as a full disk, SQLite has rolled back everything, and the savepoint is gone.
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK TO nested")
                self.connection.execute("RELEASE nested")
            raise
        self.connection.execute("RELEASE nested")


class SqliteEngine(Engine):
    name = "sqlite"

    def __init__(
        self,
        path: str,
        clock: Clock,
        *,
        busy_timeout: float = 30.0,
        synchronous: str = "normal",
        upgrade: bool = True,
        create: bool = True,
        progress: backup.Progress | None = None,
    ) -> None:
        super().__init__(clock)
        self.path = path
        self._busy_timeout = busy_timeout
        self._synchronous = synchronous
        self._upgrade = upgrade
        self._may_create = create
        self._closed = False
        self._idle: list[_Link] = []
        self._in_use: list[_Link] = []
        self._writer = threading.Lock()
        self._opening = threading.Lock()
        #: The store's file (None before it is opened and checked) and its `schema_version`.
        self._file: _File | None = None
        self._schema = 0
        foreign.refuse(path)
        _create(path) if create else _require_file(path)
        _ENGINES.add(self)
        with _translating(path):
            try:
                self.outcome = self._open(first=True, progress=progress)
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        self._current()
        self._closed = True
        self._drop_idle()

    def scrub(self) -> None:
        from .scrub import scrub

        try:
            with self._writer, _translating(self.path):
                # A new connection, because a used one may have cached old pages.
                connection = self._connect().connection
                try:
                    clean = scrub(connection, self.path, self._busy_timeout)
                finally:
                    connection.close()
        except EngramError:
            clean = False
        if not clean:
            import logging

            logging.getLogger("engram.storage").warning(
                "%s may still contain bytes of forgotten text, because other connections kept it busy; the next forget "
                "removes them",
                self.path,
            )

    def backups(self, before: str) -> tuple[str, ...]:
        return backup.older(backup.names(self.path), before)

    def size(self) -> int:
        # `stat` opens no descriptor, so it drops no lock.
        total = 0
        for file in (self.path, f"{self.path}-wal"):
            with suppress(OSError):
                total += os.stat(file).st_size
        return total

    @contextmanager
    def _writing(self, patient: bool) -> Iterator[Transaction]:
        writer, pid = self._writer, os.getpid()
        if not writer.acquire(timeout=self._busy_timeout if patient else 0):
            raise StoreBusy(f"Another thread of this process is writing to {self.path}; try again.")
        # A single generator: here one more layer would take as long as a statement.
        link = None
        try:
            link, memo = self._begin("BEGIN IMMEDIATE", patient)
            transaction = SqliteTransaction(link, self, memo, writable=True)
            yield transaction
            transaction.require_alive()
            if not _is_same_file(self.path, link.file):
                raise StoreUnavailable(
                    f"{self.path} was deleted or replaced during this write; nothing was written. Try again."
                )
            link.connection.execute("COMMIT")
        except apsw.Error as error:
            raise translate(error, self.path) from error
        finally:
            # After a fork inside the block, connection and lock belong to the parent.
            if os.getpid() == pid:
                self._return_connection(link)
                writer.release()

    @contextmanager
    def _reading(self, feed: bool) -> Iterator[Transaction]:
        pid = os.getpid()
        link = None
        try:
            link, memo = self._begin("BEGIN", True)
            yield SqliteTransaction(link, self, memo, writable=False)
        except apsw.Error as error:
            raise translate(error, self.path) from error
        finally:
            if os.getpid() == pid:
                self._return_connection(link)

    def _memo_for(self, transaction: Transaction) -> dict[str, Any]:
        assert isinstance(transaction, SqliteTransaction)
        return transaction.remembered

    def _begin(self, begin: str, patient: bool) -> tuple[_Link, dict[str, Any]]:
        """Begin a transaction on the file that is at the path now. Returns its connection and memo."""
        for _ in range(_ATTEMPTS):
            link = self._take_connection()
            try:
                connection = link.connection
                if patient:
                    connection.execute(begin)
                else:
                    connection.set_busy_timeout(0)
                    try:
                        connection.execute(begin)
                    finally:
                        connection.set_busy_timeout(int(self._busy_timeout * 1000))
                # Read before the check of the schema, so that the memo is not newer than this transaction.
                memo = self.memo
                if (
                    link.file == self._file
                    and _is_same_file(self.path, link.file)
                    and connection.execute(_SCHEMA_VERSION).get == self._schema
                ):
                    return link, memo
            except BaseException:
                self._return_connection(link)
                raise
            self._return_connection(link)
            self._open()
        raise StoreUnavailable(f"{self.path} was replaced several times while this call began; try again.")

    def _open(self, *, first: bool = False, progress: backup.Progress | None = None) -> migrate.Outcome:
        """Connect to the file that is at the path now, and check that this version can use it."""
        with self._opening:
            self.memo = {}
            try:
                link = self._connect(check=True, first=first)
                try:
                    outcome = migrate.sqlite(
                        link.connection, self.path, self.clock, upgrade=self._upgrade, progress=progress
                    )
                except BaseException:
                    link.connection.close()
                    raise
            except BaseException:
                # Without an open connection, another file may get the inode of a deleted one, so the next call must
                # check everything again.
                self._file = None
                self._drop_idle()
                raise
            if link.file != self._file:
                self._drop_idle()
            self._file, self._schema = link.file, outcome.schema
            self._idle.append(link)
            return outcome

    def _write_changes(self, transaction: Transaction) -> None:
        assert isinstance(transaction, SqliteTransaction)
        if transaction.notes:
            transaction.connection.executemany(_INSERT_CHANGE, transaction.notes)

    def _after_fork(self) -> None:
        if self._in_use:
            _INHERITED.append(self._in_use)
            _INHERITED_FILES.add(os.path.realpath(self.path))
        self._in_use = []
        self._idle = []
        self._file = None
        self._writer = threading.Lock()
        self._opening = threading.Lock()

    def _before_fork(self) -> None:
        self._drop_idle()
        if not self._in_use:
            self._file = None

    def _drop_idle(self) -> None:
        while self._idle:
            self._idle.pop().connection.close()

    def _take_connection(self) -> _Link:
        if self._closed:
            raise StoreUnavailable(f"The store {self.path} was closed; open it again.")
        if self._file is None:
            self._open()
        try:
            link = self._idle.pop()
        except IndexError:
            link = self._connect()
        self._in_use.append(link)
        return link

    def _return_connection(self, link: _Link | None) -> None:
        """Roll back an open transaction, then keep the connection for the next one."""
        if link is None:
            return
        self._in_use.remove(link)
        connection = link.connection
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if self._closed or link.file != self._file:
            connection.close()
        else:
            self._idle.append(link)

    def _translating(self) -> AbstractContextManager[None]:
        return _translating(self.path)

    def _connect(self, *, check: bool = False, first: bool = False) -> _Link:
        if _INHERITED_FILES and os.path.realpath(self.path) in _INHERITED_FILES:
            raise StoreUnavailable(
                f"This process was forked while {self.path} was in use, so SQLite cannot lock it here. Fork outside "
                "transactions, or start a new process instead."
            )
        file = _file_at(self.path)
        if check and not first:
            foreign.refuse(self.path)
        connection = apsw.Connection(
            self.path, flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOMUTEX, statementcachesize=256
        )
        try:
            # Query plans must not depend on bound values. Otherwise SQLite prepares every statement with an ORDER BY or
            # a join again at each execution, which takes longer than running it.
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
            connection.set_busy_timeout(int(self._busy_timeout * 1000))
            if check:
                # Until it is known to be ours, closing it must not write its log into the file.
                connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                foreign.check_ours(connection, self.path)
                connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
                if not first:
                    _require_contents(connection, self.path)
                elif not self._may_create and not migrate.sqlite_applied(connection):
                    raise migrate.not_found(self.path)
                to_wal(connection, self._busy_timeout)
            connection.execute(f"PRAGMA synchronous={'FULL' if self._synchronous == 'full' else 'NORMAL'}")
            connection.execute("PRAGMA foreign_keys=ON")
            connection.execute("PRAGMA secure_delete=ON")
            connection.execute("PRAGMA temp_store=MEMORY")
            if not _is_same_file(self.path, file):
                raise StoreUnavailable(f"{self.path} was replaced while it was being opened; try again.")
        except BaseException:
            connection.close()
            raise
        return _Link(connection, file)


def _file_at(path: str) -> _File:
    try:
        found = os.stat(path)
    except OSError as error:
        raise StoreUnavailable(
            f"{path} does not exist any more ({error.strerror}). It was deleted or moved while this process used it; "
            "nothing was written. Put it back, or restore a backup with `engram restore FILE`."
        ) from error
    return found.st_ino, found.st_dev


def _is_same_file(path: str, file: _File) -> bool:
    try:
        return os.stat(path)[1:3] == file
    except OSError:
        return False


def _require_contents(connection: apsw.Connection, path: str) -> None:
    """Refuse an empty file after the start: it is not a new store but has replaced one."""
    if not migrate.sqlite_applied(connection):
        raise StoreUnavailable(
            f"{path} was replaced by an empty file while this process used it. Restore a backup with "
            "`engram restore FILE`, or create a new store with `engram init`."
        )


def _require_file(path: str) -> None:
    """Check the file as `_create` does, but create nothing."""
    try:
        if os.path.getsize(path) == 0:
            raise migrate.not_found(path)
        refuse_network(os.path.dirname(path))
        _make_helpers_writable(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise migrate.not_found(path) from error
    except OSError as error:
        raise translate_os(error, path) from error


def _create(path: str) -> None:
    """Create an empty file that only its owner can read, unless the file exists."""
    folder = os.path.dirname(path)
    try:
        make_folder(folder)
        refuse_network(folder)
        if os.path.exists(path):
            _make_helpers_writable(path)
            return
        draft = f"{path}.new-{os.getpid()}-{threading.get_ident()}"
        make_file(draft)
        try:
            os.link(draft, path)
        except FileExistsError:
            pass  # Another process created the file first.
        finally:
            os.unlink(draft)
    except OSError as error:
        raise translate_os(error, path) from error


def refuse_network(folder: str) -> None:
    network = network_file_system(folder)
    if network:
        raise StoreUnavailable(
            f"{folder} is on a network file system ({network}), where SQLite cannot lock safely. Put the store on a "
            "local disk, or use PostgreSQL to share it between machines."
        )


def _make_helpers_writable(path: str) -> None:
    """Give the store's mode to helper files that were made while the store was read-only."""
    for helper in (f"{path}-wal", f"{path}-shm"):
        if os.access(path, os.W_OK) and os.path.exists(helper) and not os.access(helper, os.W_OK):
            os.chmod(helper, os.stat(path).st_mode & 0o777)


def to_wal(connection: apsw.Connection, patience: float) -> None:
    """Turn on write-ahead logging. SQLite does not wait if two processes do so at once, so this loop does."""
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
    """The type of the folder's network file system; None if the file system is local or unknown."""
    try:
        device = os.stat(folder).st_dev
        # A local disk has a major number. Only file systems without one are checked.
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
def _translating(path: str) -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        raise translate(error, path) from error
    except UnicodeDecodeError as error:
        raise damaged(path, f"a text in it is not UTF-8: {error.reason}") from error


def translate(error: apsw.Error, path: str) -> EngramError:
    """Turn a driver's error into one that tells the user what to do."""
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return StoreBusy(f"Another process is writing to {path} and did not finish in time; try again.")
    if isinstance(error, apsw.ReadOnlyError | apsw.PermissionsError):
        return StoreReadOnly(
            f"{path} cannot be written ({error}). Give its owner write permission on the file and its folder, or "
            "use another store with --store or ENGRAM_URL."
        )
    if isinstance(error, apsw.FullError) or (isinstance(error, apsw.IOError) and _is_full(path)):
        return StoreFull(f"The disk that holds {path} is full; nothing was written. Free some space and try again.")
    if isinstance(error, apsw.NotADBError):
        return NotAStore(f"{path} is not a database; it was not changed. Give another path with --store or ENGRAM_URL.")
    if isinstance(error, apsw.CorruptError):
        return damaged(path, str(error))
    if isinstance(error, apsw.CantOpenError):
        return StoreUnavailable(
            f"{path} cannot be opened ({error}). Check that its folder exists and that you may write there."
        )
    return StoreError(f"{path}: {type(error).__name__}: {error}")


def _is_full(path: str) -> bool:
    """Whether the disk is full. SQLite reports an I/O error, not a full disk, if its helper files do not fit."""
    try:
        return os.statvfs(os.path.dirname(path)).f_bavail == 0
    except OSError:
        return False


def damaged(path: str, why: str) -> StoreDamaged:
    return StoreDamaged(
        f"{path} is damaged ({why}). Restore a backup with `engram restore FILE`: your own, or the newest one "
        "beside the store. The damaged file is kept."
    )


def translate_os(error: OSError, path: str) -> EngramError:
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
