"""Puts a new file in the place of a store while other processes use the store: to encrypt it, to decrypt it, or to
change its key.

SQLite cannot do this inside a file that others have open: their connections have no key, or another one. A new file is
dangerous in another way. The write-ahead log and its index are found by name, so a process with the old file would
share them with processes that have the new one. So this happens:

1. A connection takes the store's write lock while the log is empty. Nobody can write until the end.
2. The new file is written as `….next` and checked.
3. The old file gets a second name, `….replaced`. That changes the number of its names, which every transaction checks
   together with the file's identity (see `sqlite`). From now on no process begins anything on the old file.
4. The log and its index are deleted, the new file takes the store's name, and the old file loses its second name.

Steps 3 and 4 happen under a lock on the folder. If the process is killed in them, the next process that opens the store
finds the second name and does the rest; it needs no key for that. If it is killed before, the store is unchanged.

SQLite itself never deletes the log of a file that has lost its name, so connections to the old file may stay open.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import apsw

from ..errors import EngramError, StoreBusy, StoreDamaged
from ..private_files import sync
from . import backup, database, sqlite_errors
from .foreign import check_ours
from .keys import locked_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .keys import Keys

NEXT, REPLACED = ".next", ".replaced"
#: Seconds between two attempts to find the log empty.
_PAUSE = 0.002


def replace(path: str, key: bytes | None, new: bytes | None, busy_timeout: float) -> None:
    """Replace a store, or a backup, by a copy of itself that has another key, or none. The path is no symbolic link."""
    finish(path)
    with held(path) as opened:
        store = database.connect(path, key)
        try:
            store.set_busy_timeout(int(busy_timeout * 1000))
            check_ours(store, path)
            # For the new file, and for its journal.
            needed = 2 * backup.size(path) + backup.size(f"{path}-wal")
            backup.require_space(path, needed, f"Changing the encryption of {path}")
            # The connection has read, so it has opened its log. Before it empties a log, that must be its file's own.
            require_same(path, opened)
            _lock_with_empty_log(store, path, busy_timeout)
            require_same(path, opened)
            # Under the lock, so it is one that a killed process left.
            backup.remove(f"{path}{NEXT}")
            try:
                write_copy(path, key, f"{path}{NEXT}", new)
                if store.pragma("journal_mode") == "wal":
                    _turn_on_log(f"{path}{NEXT}", new)
                _put_in_place(path)
            except BaseException:
                if not os.path.exists(f"{path}{REPLACED}"):
                    backup.remove(f"{path}{NEXT}")
                raise
        finally:
            # This drops the lock. The file has lost its name, so its log stays.
            store.close()


def empty_log(path: str, keys: Keys) -> bool:
    """Put the log of a store into its file. Returns False if a process uses the store. StoreFull without room."""
    try:
        store = database.connect(path, database.key_of(path, keys))
        try:
            store.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            store.close()
    except apsw.BusyError:
        return False
    except apsw.Error as error:
        raise sqlite_errors.translate(error, path) from error
    return not os.path.exists(f"{path}-wal")


def require_same(path: str, opened: os.stat_result) -> None:
    """Raise StoreBusy if the path leads to another file than when it was opened, or if that is about to happen.

    A connection has then perhaps opened the log of the new file. If the caller holds the write lock, or a connection
    that has read, the answer stays true.
    """
    # The second name first: it comes before the new file takes the place, and goes after that.
    if os.path.lexists(f"{path}{REPLACED}") or not os.path.samestat(opened, os.stat(path)):
        raise StoreBusy(f"Another process replaced {path} at the same moment; nothing was changed. Try again.")


@contextmanager
def held(path: str) -> Iterator[os.stat_result]:
    """What identifies a file. Within the block no other file gets its number, even if it is replaced twice.

    A descriptor with O_PATH holds the number. Unlike every other, it can be closed without dropping this process's
    locks on the file. Systems without O_PATH may give the number to another file.
    """
    if sys.platform != "linux":
        yield os.stat(path)
        return
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        yield os.fstat(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def same_file(path: str) -> Iterator[os.stat_result]:
    """Turn an error within the block into StoreBusy if another process has replaced the file since it began.

    The key that was found at the beginning does not fit the new file, which therefore looks like no store at all.
    """
    with held(path) as opened:
        try:
            yield opened
        except (apsw.Error, EngramError):
            require_same(path, opened)
            raise


def write_copy(path: str, key: bytes | None, file: str, new: bytes | None) -> None:
    """Copy a database into a new file with another key, and check the copy."""
    source = database.connect(f"file://{database.quoted(path)}", key, flags=database.READ_WRITE | apsw.SQLITE_OPEN_URI)
    try:
        source.execute("PRAGMA temp_store=MEMORY")
        database.rewrite(source, file, new)
        copy = database.connect(file, new)
        try:
            for (problem,) in copy.execute("PRAGMA integrity_check(1)").fetchall():
                if problem != "ok":
                    raise _wrong_copy(path, " ".join(str(problem).split()))
            if list(_counts(source)) != list(_counts(copy)):
                raise _wrong_copy(path, "it has other rows")
        finally:
            copy.close()
    finally:
        source.close()


def finish(path: str) -> None:
    """Do the rest of a swap that was killed. Waits for one that is running."""
    if not os.path.lexists(f"{path}{REPLACED}"):
        return
    with locked_folder(os.path.dirname(path)):
        try:
            begun = os.path.samefile(path, f"{path}{REPLACED}")
        except FileNotFoundError:
            return  # Another process has done it.
        if begun and os.path.exists(f"{path}{NEXT}"):
            _take_place(path)
        else:
            os.unlink(f"{path}{REPLACED}")


def _put_in_place(path: str) -> None:
    folder = os.path.dirname(path)
    with locked_folder(folder):
        os.link(path, f"{path}{REPLACED}")
        sync(folder)
        _take_place(path)


def _take_place(path: str) -> None:
    folder = os.path.dirname(path)
    backup.remove_helpers(path)
    sync(folder)
    os.replace(f"{path}{NEXT}", path)
    sync(folder)
    os.unlink(f"{path}{REPLACED}")
    sync(folder)


def _turn_on_log(file: str, key: bytes | None) -> None:
    """Processes that come to the new file at once need not do it, one after the other."""
    copy = database.connect(file, key)
    try:
        copy.execute("PRAGMA journal_mode=WAL")
    finally:
        copy.close()
    sync(file)


def _lock_with_empty_log(store: apsw.Connection, path: str, patience: float) -> None:
    deadline = time.monotonic() + patience
    while True:
        with suppress(apsw.BusyError):
            store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        store.execute("BEGIN IMMEDIATE")
        if backup.size(f"{path}-wal") == 0:
            return
        store.execute("ROLLBACK")
        if time.monotonic() > deadline:
            raise StoreBusy(f"Other processes kept {path} busy; nothing was changed. Try again.")
        time.sleep(_PAUSE)


def _counts(connection: apsw.Connection) -> Iterator[tuple[str, int]]:
    names = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").fetchall()
    for (name,) in names:
        quoted = str(name).replace('"', '""')
        yield str(name), connection.execute(f'SELECT count(*) FROM "{quoted}"').get


def _wrong_copy(path: str, why: str) -> StoreDamaged:
    return StoreDamaged(f"The copy of {path} is not complete ({why}); nothing was changed. Check the disk.")
