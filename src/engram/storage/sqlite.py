"""The SQLite engine, through `apsw`, which includes a current SQLite.

Several processes share one database in WAL mode. Within a process, idle connections are kept in a list, and each
transaction takes one. Writers of the same process wait on a lock, because SQLite itself waits by polling and is unfair.
Every write begins with `BEGIN IMMEDIATE`, so no transaction has to wait for the write lock in its middle.

Never `open()` a database file that is in use: closing that descriptor would drop this process's locks on it. So a new
file is made under another name and linked into place.

A connection keeps using the file that it opened, even after that file was deleted, moved or replaced. Its writes would
be lost. So each transaction checks after it begins, and again before it commits, that the path still leads to the same
file. A second name of the file counts as a change, too: `swap` gives it one before it takes the file away. It also
reads SQLite's `schema_version`, which changes when another process migrates or restores the store. After
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
from typing import TYPE_CHECKING, Any, LiteralString, NamedTuple

import apsw

from ..clock import Clock
from ..errors import (
    EngramError,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from ..private_files import make_file, make_folder
from . import backup, database, foreign, migrate
from .engine import Engine, Row, TableSizes, Transaction
from .file_systems import network_file_system
from .keys import NO_KEYS, Keys
from .sqlite_errors import damaged, is_full, missing, translate, translate_os

if TYPE_CHECKING:
    from ..health_records import Check
    from .rows import Table

_SCHEMA_VERSION = "PRAGMA schema_version"
_INSERT_CHANGE = "INSERT INTO changes (workspace, what, id) VALUES (?, ?, ?)"
_LAST_NUMBER = "SELECT seq FROM sqlite_sequence WHERE name = :name"
_RAISE_NUMBER = "UPDATE sqlite_sequence SET seq = CASE WHEN seq < :last THEN :last ELSE seq END WHERE name = :name"
_FIRST_NUMBER = """
INSERT INTO sqlite_sequence (name, seq)
SELECT name, :last FROM sqlite_schema WHERE type = 'table' AND name = :name AND INSTR(sql, 'AUTOINCREMENT') > 0
"""

#: Engines whose idle connections are closed before a fork. SQLite counts locks per file and process. In a child that
#: inherits an open connection, later connections would rely on a lock that only the parent holds, and the parent's last
#: close would delete the write-ahead log while the child uses it.
_ENGINES: weakref.WeakSet[SqliteEngine] = weakref.WeakSet()
#: Connections that were in use during a fork, and their files. The child must not use, close or reopen them.
_INHERITED: list[object] = []
_INHERITED_FILES: set[str] = set()

#: How often a transaction tries to begin if the store was replaced or changed at that moment.
_ATTEMPTS = 5
#: Bytes of a file to which only the mode of its journal was written yet.
_HEADER_PAGE = 4_096

#: Identifies a file: its inode, its device, and how many names it has.
_File = tuple[int, int, int]


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

    def insert_rows(self, table: Table, rows: Sequence[Row]) -> None:
        from .rows import as_values, insert_sql

        self.require_alive()
        self.connection.executemany(insert_sql(table), [as_values(table, row) for row in rows])

    def last_number(self, table: Table) -> int:
        from .rows import highest

        # The list has only tables whose numbers are never used again.
        return max(self.value(_LAST_NUMBER, name=table.name) or 0, highest(self, table))

    def raise_number(self, table: Table, last: int) -> None:
        if not self.run(_RAISE_NUMBER, name=table.name, last=last):
            self.run(_FIRST_NUMBER, name=table.name, last=last)

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
        keys: Keys = NO_KEYS,
    ) -> None:
        super().__init__(clock)
        self.path = path
        self._keys = keys
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
        # Before anything is made beside it.
        self._key = foreign.refuse(path, keys)
        is_new = _create(path) if create else _require_file(path)
        _ENGINES.add(self)
        with _translating(path):
            try:
                self.outcome = self._open(first=True, progress=progress)
            except BaseException as error:
                self.close()
                if is_new and isinstance(error, apsw.Error) and is_full(error, path):
                    _remove_unused(path)
                raise
        if is_new:
            self.outcome = self.outcome._replace(in_place_of_lost=_has_copies(path))

    def close(self) -> None:
        self._current()
        self._closed = True
        self._drop_idle()

    def scrub(self) -> None:
        from .backup_files import remove_left
        from .scrub import scrub

        try:
            with self._writer, _translating(self.path):
                # A new connection, because a used one may have cached old pages.
                link = self._connect()
                connection = link.connection
                try:
                    connection.execute("BEGIN IMMEDIATE")
                    remove_left(self.path)
                    connection.execute("ROLLBACK")
                    clean = scrub(
                        connection,
                        self.path,
                        self._busy_timeout,
                        encrypted=self._key is not None,
                        is_current=lambda: _now_at(self.path)[:2] == link.file[:2],
                    )
                finally:
                    connection.close()
            why = "" if clean else "other connections kept it busy; the next forget removes them"
        except StoreBusy:
            why = "other connections kept it busy; the next forget removes them"
        except StoreFull:
            why = "a disk is full; free some space, and run `engram vacuum`, which removes them"
        except (EngramError, OSError) as error:
            why = f"they could not be removed. {error} Then run `engram vacuum`, which removes them"
        if why:
            import logging

            logging.getLogger("engram.storage").warning(
                "%s may still contain bytes of forgotten text, because %s", self.path, why
            )

    def backups(self, before: str) -> tuple[str, ...]:
        from . import backup_names

        try:
            beside = backup.names(self.path)
        except OSError as error:
            raise StoreUnavailable(
                f"The backups beside {self.path} cannot be listed: {error.strerror} ({error.filename}). The receipt "
                "would not name them, so nothing was forgotten. Make the folder readable (`chmod u+r`), and try again."
            ) from error
        return (*backup.older(beside, before), *backup_names.older(self.path, before))

    def vacuum(self) -> None:
        """Rewrite the file without its unused pages, in one transaction: writers wait for it, readers do not."""
        backup.require_space(self.path, 2 * self.size(), f"Rewriting {self.path}")
        with self._writer, _translating(self.path):
            connection = self._connect().connection
            try:
                # In memory, the copy of a large store would not fit.
                connection.execute("PRAGMA temp_store=FILE")
                connection.execute("VACUUM")
                # The file shrinks when its log is copied back. Readers may delay that until the last one ends.
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            finally:
                connection.close()

    def health(self, *, full: bool = False) -> list[Check]:
        from .sqlite_health import checks

        return checks(self.path, self.clock, self._keys, full=full)

    @property
    def is_encrypted(self) -> bool:
        return self._key is not None

    def size(self) -> int:
        # `stat` opens no descriptor, so it drops no lock.
        total = 0
        for file in (self.path, f"{self.path}-wal"):
            with suppress(OSError):
                total += os.stat(file).st_size
        return total

    def table_sizes(self) -> TableSizes:
        from .sqlite_sizes import measured

        return measured(self)

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
            # The number of names does not matter here: nobody replaces a store without its write lock.
            if _now_at(self.path)[:2] != link.file[:2]:
                raise StoreUnavailable(
                    f"{self.path} was deleted or replaced during this write; nothing was written. Try again."
                )
            link.connection.execute("COMMIT")
        except apsw.Error as error:
            raise translate(error, self.path, self._key) from error
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
            raise translate(error, self.path, self._key) from error
        finally:
            if os.getpid() == pid:
                self._return_connection(link)

    def _memo_for(self, transaction: Transaction) -> dict[str, Any]:
        assert isinstance(transaction, SqliteTransaction)
        return transaction.remembered

    def _begin(self, begin: str, patient: bool) -> tuple[_Link, dict[str, Any]]:
        """Begin a transaction on the file that is at the path now. Returns its connection and memo."""
        for attempt in range(1, _ATTEMPTS + 1):
            link = None
            try:
                link = self._take_connection()
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
            except BaseException as error:
                self._return_connection(link)
                # A new connection may be to another file than the one whose key it has.
                is_same = _is_same_file(self.path, self._file) and not isinstance(error, apsw.NotADBError)
                if is_same or not isinstance(error, apsw.Error) or attempt == _ATTEMPTS:
                    raise
                self._drop_idle()
                link = None
            self._return_connection(link)
            self._open()
        raise StoreUnavailable(f"{self.path} was replaced several times while this call began; try again.")

    def _open(self, *, first: bool = False, progress: backup.Progress | None = None) -> migrate.Outcome:
        """Connect to the file that is at the path now, and check that this version can use it."""
        with self._opening:
            self.memo = {}
            try:
                link = self._connect_checked(first)
                try:
                    outcome = migrate.sqlite(
                        link.connection, self.path, self.clock, upgrade=self._upgrade, progress=progress, key=self._key
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

    def _connect_checked(self, first: bool) -> _Link:
        """Connect and check what is there, again if it is replaced at that moment."""
        for attempt in range(1, _ATTEMPTS + 1):
            file = _file_at(self.path)
            if file[2] > 1:
                _after_swap(self.path)
            # The first time, the key is known already, unless the file has been replaced since.
            if attempt > 1 or not first:
                self._key = foreign.refuse(self.path, self._keys)
            if first and self._may_create and self._keys.new and backup.size(self.path) == 0:
                self._key = self._keys.newest()
            try:
                return self._connect(check=True, first=first)
            except (apsw.Error, EngramError) as error:
                is_same = _is_same_file(self.path, file) and not (attempt == 1 and isinstance(error, apsw.NotADBError))
                if is_same or attempt == _ATTEMPTS:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _connect(self, *, check: bool = False, first: bool = False) -> _Link:
        if _INHERITED_FILES and os.path.realpath(self.path) in _INHERITED_FILES:
            raise StoreUnavailable(
                f"This process was forked while {self.path} was in use, so SQLite cannot lock it here. Fork outside "
                "transactions, or start a new process instead."
            )
        file = _file_at(self.path)
        connection = database.connect(
            self.path, self._key, flags=database.READ_WRITE | apsw.SQLITE_OPEN_NOMUTEX, cache=256
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
                    raise missing(self.path)
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
    return found.st_ino, found.st_dev, found.st_nlink


def _now_at(path: str) -> tuple[int, ...]:
    """What identifies the file at a path; empty if there is none."""
    try:
        return os.stat(path)[1:4]
    except OSError:
        return ()


def _is_same_file(path: str, file: _File | None) -> bool:
    return _now_at(path) == file


def _after_swap(path: str) -> None:
    """Wait for another process that is replacing the file, or finish it for one that was killed."""
    from .swap import finish

    finish(os.path.realpath(path))


def _require_contents(connection: apsw.Connection, path: str) -> None:
    """Refuse an empty file after the start: it is not a new store but has replaced one."""
    if not migrate.sqlite_applied(connection):
        raise StoreUnavailable(
            f"{path} was replaced by an empty file while this process used it. Restore a backup with "
            "`engram restore FILE`, or create a new store with `engram init`."
        )


def _require_file(path: str) -> bool:
    """Check the file as `_create` does, but create nothing: False."""
    try:
        if os.path.getsize(path) == 0:
            raise missing(path)
        refuse_network(os.path.dirname(path))
        _make_helpers_writable(path)
        return False
    except (FileNotFoundError, NotADirectoryError) as error:
        raise missing(path) from error
    except OSError as error:
        raise translate_os(error, path) from error


def _create(path: str) -> bool:
    """Create an empty file that only its owner can read, unless the file exists. Returns whether it was created."""
    folder = os.path.dirname(path)
    try:
        make_folder(folder)
        refuse_network(folder)
        if os.path.islink(path) and not os.path.exists(path):
            raise StoreUnavailable(
                f"{path} is a symbolic link to {os.path.realpath(path)}, which is not there; nothing was written. "
                "Mount the disk of the store, or remove the link."
            )
        if os.path.exists(path):
            _make_helpers_writable(path)
            return False
        draft = f"{path}.new-{os.getpid()}-{threading.get_ident()}"
        make_file(draft)
        try:
            os.link(draft, path)
            return True
        except FileExistsError:
            return False  # Another process created the file first.
        finally:
            os.unlink(draft)
    except OSError as error:
        raise translate_os(error, path) from error


def _has_copies(path: str) -> bool:
    from .backup_names import any_of

    return any_of(path)


def _remove_unused(path: str) -> None:
    """Remove a file that was just created and has only SQLite's header, and nothing of another process in its log."""
    with suppress(OSError):
        if backup.size(path) <= _HEADER_PAGE and not backup.size(f"{path}-wal"):
            backup.remove(path)


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


@contextmanager
def _translating(path: str) -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        raise translate(error, path) from error
    except UnicodeDecodeError as error:
        raise damaged(path, f"a text in it is not UTF-8: {error.reason}") from error


def _before_fork() -> None:
    for engine in list(_ENGINES):
        engine._before_fork()


os.register_at_fork(before=_before_fork)
