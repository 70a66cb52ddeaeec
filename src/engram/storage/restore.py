"""Replaces an SQLite store with a backup while other processes may be using the store.

A plain copy of a file over a store is not safe. An old write-ahead log beside it would damage the new file, and
processes that have the old file open would write to a file that no other process reads. So the backup is written into
the store with SQLite's backup interface, in one transaction: writers wait for it, and readers see all of it or nothing.
If the process dies before the end, the store is unchanged. Other processes notice the changed `schema_version` (see
`sqlite`) and drop their memo.

If the present store is missing, or too damaged for SQLite to read, a new file takes its place. The old file and its log
are copied first. A disk error does not count as damage: it ends the restore, and nothing is changed.

A store that has gone on since the backup is replaced only with `force`. It is newer if its newest change has a higher
number, or if something was written to it later. A backup of another store needs `force`, too. When a store was made
identifies it (see `backup_files`); a store without content may be replaced by any backup.

The backup is prepared in a draft beside the store: copied, checked, and migrated. The draft's counters are raised to
those of the present store, so that no number is used twice. Otherwise an old fencing token could become valid again for
another session.

A store keeps its key: a backup that has another one, or none, is written with the store's key into the draft. A missing
store gets the backup's.
"""

from __future__ import annotations

import os
from contextlib import nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING

import apsw

from ..errors import (
    Conflict,
    EngramError,
    InvalidInput,
    NotAStore,
    NotFound,
    StoreDamaged,
    StoreEncrypted,
    StoreReadOnly,
)
from ..private_files import make_file, make_folder, sync
from ..setup_records import Restored, UsableBackup
from . import backup, backup_files, backup_names, backup_places, database, foreign, migrate
from .backup_places import LIST
from .database import APPLICATION_ID
from .foreign import check_ours
from .keys import NO_KEYS
from .sqlite import refuse_network, to_wal
from .sqlite_errors import translate, translate_os
from .swap import finish, held, require_same, write_copy

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..clock import Clock
    from .keys import Keys

LABEL = "before-restore"
#: Pages in the first step of the copy, which takes the write lock.
_FIRST = 1
#: Length of the text at the beginning of every SQLite file.
_HEADER = 16

_RECEIPTS = "SELECT id FROM receipts"
_SEQUENCES = "SELECT name, seq FROM sqlite_sequence"
_RAISE = "UPDATE sqlite_sequence SET seq = ? WHERE name = ? AND seq < ?"
_ADD = """
INSERT INTO sqlite_sequence (name, seq) SELECT ?, ? WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = ?)
"""


def sqlite(
    path: str,
    file: str,
    clock: Clock,
    *,
    busy_timeout: float = 30.0,
    progress: backup.Progress | None = None,
    keys: Keys = NO_KEYS,
    force: bool = False,
) -> Restored:
    """Replace the store at `path` with a copy of `file`.

    Conflict if the store is newer, or if `file` is a backup of another store, unless `force` is on.
    """
    # A symbolic link at `path` stays; its target is replaced.
    path = os.path.realpath(path)
    if not os.path.isfile(file):
        if os.path.exists(file):
            raise InvalidInput(f"{file} is no regular file, so it cannot be a backup.")
        raise NotFound(f"There is no file {file}.")
    foreign.require_regular(path)
    if os.path.exists(path) and os.path.samefile(file, path):
        raise InvalidInput(f"{file} is the store itself; give a backup of it.")
    draft = f"{path}.incoming-{os.getpid()}-{backup.compact(clock.now())}{backup.PARTIAL}"
    try:
        make_folder(os.path.dirname(path))
        refuse_network(os.path.dirname(path))
        finish(path)
        for left in backup.abandoned(path):
            backup.remove(left)
        with held(path) if os.path.exists(path) else nullcontext() as present:
            key = foreign.refuse(path, keys) if present else database.key_of(file, keys)
            # For the draft, the copy of the present store, and the log that receives the draft's pages.
            needed = 2 * backup.size(file) + backup.size(path) + backup.size(f"{path}-wal")
            backup.require_space(path, needed, f"Restoring {path}")
            try:
                schema = _prepare(file, draft, clock, progress, database.key_of(file, keys), key)
                # Asked here before anything is written, and again under the store's write lock.
                refuse = None if force else partial(_refuse_newer, path, draft, file, key)
                if refuse:
                    refuse()
                kept = _replace_store(path, present, draft, os.path.realpath(file), clock, busy_timeout, key, refuse)
            finally:
                backup.remove(draft)
    except apsw.Error as error:
        raise translate(error, path) from error
    except OSError as error:
        raise translate_os(error, path) from error
    _note_folder(path, os.path.abspath(file), clock)
    lost = _forgettings_lost(path, kept, key) if kept else 0
    return Restored(path, os.path.abspath(file), kept, schema, lost)


def _forgettings_lost(path: str, kept: str, key: bytes | None) -> int:
    """How many receipts the replaced store had that the restored one has not."""
    try:
        before, now = (set(_ids(database.open_copy(file, key))) for file in (kept, path))
    except (apsw.Error, UnicodeDecodeError):
        return 0  # The replaced store is damaged.
    return len(before - now)


def _ids(store: apsw.Connection) -> list[int]:
    try:
        return [int(id) for (id,) in store.execute(_RECEIPTS)]
    finally:
        store.close()


def _note_folder(path: str, file: str, clock: Clock) -> None:
    """List the folder of the backup, because the list of backups may be lost with the store.

    Only if the name of the file says that `engram backup` made it of this store. Another file is the user's.
    """
    folder = os.path.dirname(file)
    if folder != backup_names.default_folder(path) and file in backup_names.own(path, folder):
        backup_places.remember(f"{path}{LIST}", folder, clock.now())


def _prepare(
    file: str, draft: str, clock: Clock, progress: backup.Progress | None, key: bytes | None, wanted: bytes | None
) -> int:
    """Copy the backup into the draft, check that it is a complete store, and migrate it. Returns its schema.

    `key` is the backup's, `wanted` the draft's in the end.
    """
    try:
        _copy_to(draft, file, progress, key)
        if key != wanted:
            _change_key(draft, key, wanted)
        copy = database.connect(draft, wanted)
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


def _change_key(draft: str, key: bytes | None, wanted: bytes | None) -> None:
    other = f"{draft.removesuffix(backup.PARTIAL)}0{backup.PARTIAL}"
    try:
        write_copy(draft, key, other, wanted)
        os.replace(other, draft)
    finally:
        backup.remove(other)


def _copy_to(draft: str, file: str, progress: backup.Progress | None, key: bytes | None) -> None:
    journal = f"{file}-journal"
    if backup.size(journal):
        # A write to the backup was interrupted. SQLite rolls it back in the draft; the backup itself is only read.
        _copy_file(file, draft)
        _copy_file(journal, f"{draft}-journal")
        return
    source = database.open_copy(file, key)
    try:
        backup.write(source, draft, progress, key=key)
    finally:
        source.close()


def _copy_file(source: str, target: str) -> None:
    """Copy a file that this process may have open, so it is read through SQLite: see `database`."""
    make_file(target)
    with open(target, "wb") as file:
        for portion in database.portions(source):
            file.write(portion)
    sync(target)


def _expected_tables(clock: Clock) -> set[str]:
    """The tables of an empty store of this version."""
    new = database.connect(":memory:", None)
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


def newest(path: str, folder: str | None, keys: Keys) -> UsableBackup:
    """The newest backup in a folder that passes all checks, or without a folder of all. NotFound if there is none.

    StoreEncrypted if a newer one is encrypted and has no key here. An older one would silently take its place. But a
    damaged file looks the same as one with another key. So an older one is taken if the newest key opens it.
    """
    tried: list[str] = []
    refused: StoreEncrypted | None = None
    for each in backup_files.candidates(path, folder, keys):
        try:
            key = database.key_of(each.file, keys)
        except StoreEncrypted as error:
            refused = refused or error
            continue
        problem = each.problem or _problem(each.file, key)
        if not problem:
            if refused is not None and (key is None or key != keys.newest()):
                break
            return UsableBackup(each.file, tuple(tried))
        tried.append(f"{os.path.basename(each.file)}: {problem}")
    if refused is not None:
        raise refused
    detail = f" These cannot be used: {'; '.join(tried)}." if tried else ""
    if folder is None:
        raise NotFound(
            f"No backup of {path} is known that can be restored.{detail} Name a file or a folder; "
            "`engram restore --list` also shows copies beside the store."
        )
    raise NotFound(f"{folder} has no backup that can be restored.{detail}")


def _problem(file: str, key: bytes | None) -> str:
    try:
        copy = database.open_copy(file, key)
        try:
            migrate.pending(migrate.sqlite_applied(copy), migrate.shipped("sqlite"), file)
            found = copy.execute("PRAGMA integrity_check(1)").get
            return "" if found == "ok" else " ".join(str(found).split())
        finally:
            copy.close()
    except (apsw.Error, UnicodeDecodeError, EngramError) as error:
        return str(error)


def refuse_newer(path: str, file: str, keys: Keys) -> None:
    """Raise the Conflict that `sqlite` would raise, before a person is asked. Files that it refuses are left to it."""
    path = os.path.realpath(path)
    try:
        key = foreign.refuse(path, keys)
        there = _looked_at(path, partial(database.connect, path, key))
        ours = _looked_at(file, partial(database.open_copy, file, database.key_of(file, keys)))
    except EngramError:
        return
    _compare(path, file, there, ours)


def _refuse_newer(path: str, draft: str, file: str, key: bytes | None) -> None:
    there, ours = (_looked_at(each, partial(database.connect, each, key)) for each in (path, draft))
    _compare(path, file, there, ours)


#: How far a store has come, and what identifies it; None if that cannot be read.
_Looked = tuple[backup_files.State, str | None] | None


def _compare(path: str, file: str, there: _Looked, ours: _Looked) -> None:
    """Raise Conflict if the present store is another one than the backup's, or newer.

    A store that cannot be read is neither. One that is empty may be any.
    """
    if there is None or ours is None:
        return
    (present, store), (saved, other) = there, ours
    if store != other and not present.is_empty:
        raise Conflict(
            f"{file} is a backup of another store than {path}. Nothing was changed. With --force it replaces the "
            "present store, which is kept as a copy."
        )
    if not present.is_newer_than(saved):
        return
    raise Conflict(
        f"{path} is newer than {file}. Its newest change is {present.change:,}, written last at "
        f"{_time(present.changed_at)}; the backup ends with change {saved.change:,}, written last at "
        f"{_time(saved.changed_at)}. Nothing was changed. With --force the backup replaces it, and the present store "
        "is kept as a copy."
    )


def _time(at: str | None) -> str:
    return f"{at[:10]} {at[11:19]} UTC" if at else "an unknown time"


def _looked_at(file: str, connect: Callable[[], apsw.Connection]) -> _Looked:
    if not backup.size(file):
        return None
    try:
        store = connect()
        try:
            # Another program's database is refused later.
            is_ours = store.pragma("application_id") == APPLICATION_ID
            return (backup_files.state_of(store), backup_files.origin_of(store)) if is_ours else None
        finally:
            store.close()
    except (apsw.Error, UnicodeDecodeError):
        return None


def _replace_store(
    path: str,
    present: os.stat_result | None,
    draft: str,
    spared: str,
    clock: Clock,
    busy_timeout: float,
    key: bytes | None,
    refuse: Callable[[], None] | None,
) -> str | None:
    """Replace the store with the draft. Returns the path of the copy of the present store.

    `present` says which file the key is of.
    """
    if os.path.exists(path):
        present = present or os.stat(path)
        new = database.connect(draft, key)
        try:
            return _write_into(path, present, new, spared, clock, busy_timeout, key, refuse)
        except (apsw.CorruptError, apsw.NotADBError):
            pass  # The store is too damaged to be written to.
        except (apsw.IOError, apsw.CantOpenError):
            if _is_readable(path, key):
                raise
        finally:
            new.close()
        # A store that was encrypted or decrypted meanwhile looks damaged, too.
        require_same(path, present)
    return _replace_file(path, draft, clock)


def _is_readable(path: str, key: bytes | None) -> bool:
    try:
        store = database.connect(path, key)
        try:
            return bool(store.execute("SELECT count(*) FROM sqlite_schema").fetchall())
        finally:
            store.close()
    except apsw.Error:
        return False


def _write_into(
    path: str,
    present: os.stat_result,
    draft: apsw.Connection,
    spared: str,
    clock: Clock,
    busy_timeout: float,
    key: bytes | None,
    refuse: Callable[[], None] | None,
) -> str | None:
    store = database.connect(path, key)
    try:
        store.set_busy_timeout(int(busy_timeout * 1000))
        # The header identifies an Engram store even if the rest is damaged.
        if store.pragma("application_id") != APPLICATION_ID:
            check_ours(store, path)
        try:
            to_wal(store, busy_timeout)
        except apsw.CorruptError:
            if store.pragma("journal_mode") != "wal":
                # Without a log, the transaction of the restore would lock out the copy of the present store.
                _raise_counters(store, draft)
                raise
        _match_pages(draft, store.pragma("page_size"), key)
        with store.backup("main", draft, "main") as running:
            # The first step takes the write lock, so the kept copy is the store's last state.
            running.step(_FIRST)
            require_same(path, present)
            # Another process may have written while this one waited for the lock.
            if refuse:
                refuse()
            kept = _keep_present(path, draft, spared, clock, key)
            running.step(-1)
        # The restore is complete. Emptying the log is optional, so it does not wait for readers.
        store.set_busy_timeout(0)
        with suppress(apsw.BusyError):
            store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        store.close()
    return kept


def _match_pages(draft: apsw.Connection, size: int, key: bytes | None) -> None:
    """Give the draft the store's page size, because SQLite cannot change that of a store in use."""
    present = draft.pragma("page_size")
    if present != size:
        if key is not None:
            raise InvalidInput(
                f"The backup has pages of {present:,} bytes, and the encrypted store pages of {size:,} bytes; nothing "
                "was changed. Run `engram decrypt`, restore, and run `engram encrypt` again."
            )
        draft.execute(f"PRAGMA page_size={int(size)}")
        draft.execute("VACUUM")


def _keep_present(path: str, draft: apsw.Connection, spared: str, clock: Clock, key: bytes | None) -> str | None:
    """Copy the present store, and raise the draft's counters to the store's."""
    present = database.connect(path, key)
    try:
        backup.remove_drafts(path)
        if _is_empty(present):
            return None
        kept = backup.keep(present, path, LABEL, clock, spared=spared, key=key)
        _raise_counters(present, draft)
        return kept
    finally:
        present.close()


def _raise_counters(present: apsw.Connection, draft: apsw.Connection) -> None:
    # The counters of the store may be damaged. Then those of the draft stay unchanged.
    with suppress(apsw.Error):
        for name, last in present.execute(_SEQUENCES).fetchall():
            draft.execute(_RAISE, (last, name, last))
            draft.execute(_ADD, (name, last, name))


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
    # Copying needs a readable store, so every draft is abandoned.
    backup.remove_drafts(path)
    kept = f"{path}.{LABEL}-{backup.compact(clock.now())}"
    present = [end for end in ("", "-wal") if backup.size(f"{path}{end}")]
    for end in present:
        _copy_file(f"{path}{end}", f"{kept}{end}")
    if "" in present:
        _blank_header(path)
    backup.remove_helpers(path)
    sync(folder)
    os.replace(draft, path)
    sync(folder)
    return kept if "" in present else None


def _blank_header(path: str) -> None:
    # Through SQLite's file layer, because closing a Python descriptor would drop this process's locks on the file.
    file = apsw.VFSFile("", path, [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE, 0])
    try:
        file.xWrite(bytes(_HEADER), 0)
        file.xSync(apsw.SQLITE_SYNC_NORMAL)
    finally:
        file.xClose()
