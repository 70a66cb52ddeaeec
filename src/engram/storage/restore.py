"""Putting a backup in the place of an SQLite store, while other processes may be using it.

Copying a file over a store destroys it when an old write-ahead log lies beside it, and processes that have the old file
open go on writing to nobody. So the backup is written into the store with SQLite's own backup interface: one
transaction, for which writers wait and which readers see wholly or not at all. A process that dies before the end
leaves the store as it was. Other processes notice by the changed schema number (see `sqlite`) and drop what they
remember.

Only when the present store is missing, or too damaged for SQLite to write to, a file is put in its place. What is there
is linked to another name first, with its log.

The backup is prepared in a draft beside the store: copied, checked, and brought to this version's schema. Numbers that
the present store has given out since the backup are not given out again, or a stale fencing token could become another
session's valid one.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import quote

import apsw

from ..errors import InvalidInput, NotAStore, NotFound, StoreDamaged, StoreReadOnly
from ..files import make_folder, sync
from ..records import Restored
from . import backup, migrate
from .sqlite import APPLICATION_ID, check_ours, refuse_network, to_wal, translate, translate_os

if TYPE_CHECKING:
    from ..clock import Clock

LABEL = "before-restore"
#: Pages copied under the write lock before anything else is done there: enough to take the lock.
_FIRST = 1

_SEQUENCES = "SELECT name, seq FROM sqlite_sequence"
_RAISE = "UPDATE sqlite_sequence SET seq = ? WHERE name = ? AND seq < ?"
_ADD = """
INSERT INTO sqlite_sequence (name, seq) SELECT ?, ? WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = ?)
"""


def sqlite(
    path: str, file: str, clock: Clock, *, busy_timeout: float = 30.0, progress: backup.Progress | None = None
) -> Restored:
    """Put a copy of `file` in the place of the store at `path`; where the present store was kept."""
    # A link goes on pointing to the same place.
    path = os.path.realpath(path)
    if not os.path.isfile(file):
        raise NotFound(f"There is no file {file}.")
    if os.path.exists(path) and os.path.samefile(file, path):
        raise InvalidInput(f"{file} is the store itself; give a backup of it.")
    draft = f"{path}.incoming-{os.getpid()}-{backup.compact(clock.now())}{backup.PARTIAL}"
    try:
        make_folder(os.path.dirname(path))
        refuse_network(os.path.dirname(path))
        _remove_drafts(path)
        # The draft, the copy of the present store, and the log through which the draft is written into it.
        backup.require_space(path, 2 * backup.size(file) + backup.size(path) + backup.size(f"{path}-wal"))
        try:
            schema = _prepare(file, draft, clock, progress)
            kept = _put(path, draft, clock, busy_timeout)
        finally:
            backup.remove(draft)
    except apsw.Error as error:
        raise translate(error, path) from error
    except OSError as error:
        raise translate_os(error, path) from error
    return Restored(path, os.path.abspath(file), kept, schema)


def _prepare(file: str, draft: str, clock: Clock, progress: backup.Progress | None) -> int:
    """Copy the backup into the draft, and see that it is a whole store which this version can use; its schema."""
    try:
        source = _opened(file)
        try:
            _require_ours(source, file)
            backup.write(source, draft, progress)
        finally:
            source.close()
        copy = apsw.Connection(draft, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            wrong = [row[0] for row in copy.execute("PRAGMA integrity_check(1)") if row[0] != "ok"]
            if wrong:
                raise StoreDamaged(f"{file} is damaged ({wrong[0]}); nothing was changed. Give another backup.")
            migrate.sqlite(copy, file, clock, save=False)
            return migrate.sqlite_applied(copy)[-1].number
        finally:
            copy.close()
    except apsw.CorruptError as error:
        raise StoreDamaged(f"{file} is damaged ({error}); nothing was changed. Give another backup.") from error
    except apsw.NotADBError as error:
        raise NotAStore(f"{file} is not a database, so it cannot be restored; nothing was changed.") from error
    except apsw.CantOpenError as error:
        raise StoreReadOnly(f"{file} cannot be read ({error}); nothing was changed.") from error


def _opened(file: str) -> apsw.Connection:
    """The backup, opened for reading only."""
    address = f"file:{quote(os.path.abspath(file))}?mode=ro"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(address, flags=flags)
    try:
        connection.execute("SELECT 1 FROM sqlite_schema").fetchall()
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        # A copy of a store's file alone, in a folder where SQLite may not make the files that its mode asks for.
        connection.close()
        if os.path.exists(f"{file}-wal"):
            raise
        return apsw.Connection(f"{address}&immutable=1", flags=flags)
    except BaseException:
        connection.close()
        raise
    return connection


def _require_ours(connection: apsw.Connection, file: str) -> None:
    if connection.pragma("application_id") != APPLICATION_ID or not migrate.sqlite_applied(connection):
        raise NotAStore(f"{file} is an SQLite database, but not an Engram store; nothing was changed.")


def _put(path: str, draft: str, clock: Clock, busy_timeout: float) -> str | None:
    """Bring the draft to the store's place; where the present store was kept."""
    if os.path.exists(path):
        new = apsw.Connection(draft, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            return _write_into(path, new, clock, busy_timeout)
        except (apsw.CorruptError, apsw.NotADBError, apsw.IOError, apsw.CantOpenError):
            pass  # too damaged to be written to
        finally:
            new.close()
    return _replace(path, draft, clock)


def _write_into(path: str, draft: apsw.Connection, clock: Clock, busy_timeout: float) -> str | None:
    store = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        store.set_busy_timeout(int(busy_timeout * 1000))
        # What is ours is known by its header, however damaged the rest may be.
        if store.pragma("application_id") != APPLICATION_ID:
            check_ours(store, path)
        with suppress(apsw.CorruptError):
            to_wal(store, busy_timeout)
        _match_pages(draft, store.pragma("page_size"))
        with store.backup("main", draft, "main") as running:
            # The first step takes the write lock, so what is kept now is the last state there ever was.
            running.step(_FIRST)
            kept = _keep(path, draft, clock)
            running.step(-1)
        # The restore is complete. Emptying the log is for tidiness, so it does not wait for readers.
        store.set_busy_timeout(0)
        with suppress(apsw.BusyError):
            store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        store.close()
    return kept


def _match_pages(draft: apsw.Connection, size: int) -> None:
    """SQLite cannot change the size of a store's pages while others use it, so the draft gets the store's."""
    if draft.pragma("page_size") != size:
        draft.execute(f"PRAGMA page_size={int(size)}")
        draft.execute("VACUUM")


def _keep(path: str, draft: apsw.Connection, clock: Clock) -> str | None:
    """Copy the present store, and raise the draft's counters to where the store's are."""
    present = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        backup.remove_drafts(path)
        if _is_empty(present):
            return None
        kept = backup.keep(present, path, LABEL, clock)
        # What is damaged may be just these; then there is nothing to go by.
        with suppress(apsw.Error):
            for name, last in present.execute(_SEQUENCES).fetchall():
                draft.execute(_RAISE, (last, name, last))
                draft.execute(_ADD, (name, last, name))
        return kept
    finally:
        present.close()


def _is_empty(connection: apsw.Connection) -> bool:
    try:
        return not connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
    except apsw.CorruptError:
        return False


def _replace(path: str, draft: str, clock: Clock) -> str | None:
    """Put the draft where the store was, when that is missing or cannot be used.

    SQLite makes a new log only for a file whose header it can read, so nobody makes one between the steps.
    """
    folder = os.path.dirname(path)
    kept = f"{path}.{LABEL}-{backup.compact(clock.now())}"
    found = []
    for end in ("", "-wal"):
        with suppress(FileNotFoundError):
            os.link(f"{path}{end}", f"{kept}{end}")
            found.append(f"{kept}{end}")
    for end in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.unlink(f"{path}{end}")
    sync(folder)
    os.replace(draft, path)
    sync(folder)
    return found[0] if found else None


def _remove_drafts(path: str) -> None:
    """Remove the drafts of restores that were killed."""
    folder, name = os.path.split(path)
    for file in os.listdir(folder):
        if file.startswith(f"{name}.incoming-") and not _is_alive(file[len(name) :].split("-")[1]):
            backup.remove(os.path.join(folder, file))


def _is_alive(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, ValueError):
        return False
    except OSError:
        return True  # somebody else's
    return True
