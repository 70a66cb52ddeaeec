"""Replaces an SQLite store with a backup while other processes may be using the store.

A plain copy of a file over a store is not safe. An old write-ahead log beside it would damage the new file, and
processes that have the old file open would write to a file that no other process reads. So the backup is written into
the store with SQLite's backup interface, in one transaction: writers wait for it, and readers see all of it or nothing.
If the process dies before the end, the store is unchanged. Other processes notice the changed `schema_version` (see
`sqlite`) and drop their memo.

If the present store is missing, or too damaged for SQLite to read, a new file takes its place. The old file and its log
are copied first. A disk error does not count as damage: it ends the restore, and nothing is changed.

The backup is prepared in a draft beside the store: copied, checked, and migrated. The draft's counters are raised to
those of the present store, so that no number is used twice. Otherwise an old fencing token could become valid again for
another session.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import quote

import apsw

from ..errors import InvalidInput, NotAStore, NotFound, StoreDamaged, StoreReadOnly
from ..private_files import make_file, make_folder, sync
from ..setup_records import Restored
from . import backup, foreign, migrate
from .foreign import APPLICATION_ID, check_ours
from .sqlite import refuse_network, to_wal, translate, translate_os

if TYPE_CHECKING:
    from ..clock import Clock

LABEL = "before-restore"
#: Pages in the first step of the copy, which takes the write lock.
_FIRST = 1
#: Length of the text at the beginning of every SQLite file.
_HEADER = 16

_SEQUENCES = "SELECT name, seq FROM sqlite_sequence"
_RAISE = "UPDATE sqlite_sequence SET seq = ? WHERE name = ? AND seq < ?"
_ADD = """
INSERT INTO sqlite_sequence (name, seq) SELECT ?, ? WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = ?)
"""


def sqlite(
    path: str, file: str, clock: Clock, *, busy_timeout: float = 30.0, progress: backup.Progress | None = None
) -> Restored:
    """Replace the store at `path` with a copy of `file`."""
    # A symbolic link at `path` stays; its target is replaced.
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
        # For the draft, the copy of the present store, and the log that receives the draft's pages.
        backup.require_space(path, 2 * backup.size(file) + backup.size(path) + backup.size(f"{path}-wal"))
        try:
            schema = _prepare(file, draft, clock, progress)
            kept = _replace_store(path, draft, os.path.realpath(file), clock, busy_timeout)
        finally:
            backup.remove(draft)
    except apsw.Error as error:
        raise translate(error, path) from error
    except OSError as error:
        raise translate_os(error, path) from error
    return Restored(path, os.path.abspath(file), kept, schema)


def _prepare(file: str, draft: str, clock: Clock, progress: backup.Progress | None) -> int:
    """Copy the backup into the draft, check that it is a complete store, and migrate it. Returns its schema."""
    try:
        _copy_to(draft, file, progress)
        copy = apsw.Connection(draft, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            _require_ours(copy, file)
            for (problem,) in copy.execute("PRAGMA integrity_check(1)").fetchall():
                if problem != "ok":
                    raise _damaged_backup(file, " ".join(str(problem).split()))
            migrate.sqlite(copy, file, clock, save=False)
            missing = _expected_tables(clock) - _tables(copy)
            if missing:
                raise _damaged_backup(file, f"it has no table {min(missing)}")
            return migrate.sqlite_applied(copy)[-1].number
        finally:
            copy.close()
    except apsw.NotADBError as error:
        raise NotAStore(f"{file} is not a database, so it cannot be restored; nothing was changed.") from error
    except apsw.CantOpenError as error:
        raise StoreReadOnly(f"{file} cannot be read ({error}); nothing was changed.") from error
    except (apsw.CorruptError, apsw.SQLError, UnicodeDecodeError) as error:
        raise _damaged_backup(file, str(error)) from error


def _damaged_backup(file: str, why: str) -> StoreDamaged:
    return StoreDamaged(f"{file} is damaged ({why}); nothing was changed. Give another backup.")


def _copy_to(draft: str, file: str, progress: backup.Progress | None) -> None:
    journal = f"{file}-journal"
    if backup.size(journal):
        # A write to the backup was interrupted. SQLite rolls it back in the draft; the backup itself is only read.
        _copy_file(file, draft)
        _copy_file(journal, f"{draft}-journal")
        return
    source = _open_backup(file)
    try:
        backup.write(source, draft, progress)
    finally:
        source.close()


def _copy_file(source: str, target: str) -> None:
    make_file(target)
    shutil.copyfile(source, target)
    sync(target)


def _open_backup(file: str) -> apsw.Connection:
    """Open the backup for reading. Without a log beside it no process has it open; then SQLite must not make a log."""
    alone = "" if os.path.exists(f"{file}-wal") else "&immutable=1"
    address = f"file:{quote(os.path.abspath(file))}?mode=ro{alone}"
    return apsw.Connection(address, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)


def _expected_tables(clock: Clock) -> set[str]:
    """The tables of an empty store of this version."""
    new = apsw.Connection(":memory:")
    try:
        migrate.sqlite(new, ":memory:", clock, save=False)
        return _tables(new)
    finally:
        new.close()


def _tables(connection: apsw.Connection) -> set[str]:
    return {str(name) for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}


def _require_ours(connection: apsw.Connection, file: str) -> None:
    if connection.pragma("application_id") != APPLICATION_ID or not migrate.sqlite_applied(connection):
        raise NotAStore(f"{file} is an SQLite database, but not an Engram store; nothing was changed.")


def _replace_store(path: str, draft: str, spared: str, clock: Clock, busy_timeout: float) -> str | None:
    """Replace the store with the draft. Returns the path of the copy of the present store."""
    if os.path.exists(path):
        foreign.refuse(path)
        new = apsw.Connection(draft, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            return _write_into(path, new, spared, clock, busy_timeout)
        except (apsw.CorruptError, apsw.NotADBError):
            pass  # The store is too damaged to be written to.
        except (apsw.IOError, apsw.CantOpenError):
            if _is_readable(path):
                raise
        finally:
            new.close()
    return _replace_file(path, draft, clock)


def _is_readable(path: str) -> bool:
    try:
        store = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            return bool(store.execute("SELECT count(*) FROM sqlite_schema").fetchall())
        finally:
            store.close()
    except apsw.Error:
        return False


def _write_into(path: str, draft: apsw.Connection, spared: str, clock: Clock, busy_timeout: float) -> str | None:
    store = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        store.set_busy_timeout(int(busy_timeout * 1000))
        # The header identifies an Engram store even if the rest is damaged.
        if store.pragma("application_id") != APPLICATION_ID:
            check_ours(store, path)
        with suppress(apsw.CorruptError):
            to_wal(store, busy_timeout)
        _match_pages(draft, store.pragma("page_size"))
        with store.backup("main", draft, "main") as running:
            # The first step takes the write lock, so the kept copy is the store's last state.
            running.step(_FIRST)
            kept = _keep_present(path, draft, spared, clock)
            running.step(-1)
        # The restore is complete. Emptying the log is optional, so it does not wait for readers.
        store.set_busy_timeout(0)
        with suppress(apsw.BusyError):
            store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        store.close()
    return kept


def _match_pages(draft: apsw.Connection, size: int) -> None:
    """Give the draft the store's page size, because SQLite cannot change that of a store in use."""
    if draft.pragma("page_size") != size:
        draft.execute(f"PRAGMA page_size={int(size)}")
        draft.execute("VACUUM")


def _keep_present(path: str, draft: apsw.Connection, spared: str, clock: Clock) -> str | None:
    """Copy the present store, and raise the draft's counters to the store's."""
    present = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        backup.remove_drafts(path)
        if _is_empty(present):
            return None
        kept = backup.keep(present, path, LABEL, clock, spared=spared)
        # The counters of the store may be damaged. Then those of the draft stay unchanged.
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


def _replace_file(path: str, draft: str, clock: Clock) -> str | None:
    """Move the draft to the place of a store that is missing or unreadable.

    The old file's header is erased before its log is deleted. SQLite makes a new log only for a file with a readable
    header, so no process can make a log that would end up beside the new file.
    """
    folder = os.path.dirname(path)
    kept = f"{path}.{LABEL}-{backup.compact(clock.now())}"
    present = [end for end in ("", "-wal") if backup.size(f"{path}{end}")]
    for end in present:
        _copy_file(f"{path}{end}", f"{kept}{end}")
    if "" in present:
        _blank_header(path)
    for end in ("-wal", "-shm", "-journal"):
        with suppress(FileNotFoundError):
            os.unlink(f"{path}{end}")
    sync(folder)
    os.replace(draft, path)
    sync(folder)
    return kept if "" in present else None


def _blank_header(path: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(descriptor, bytes(_HEADER), 0)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
        pass  # The process belongs to another user.
    return True
