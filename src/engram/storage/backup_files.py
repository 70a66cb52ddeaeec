"""The backups that `engram backup` makes: how one is written and checked, and rotation.

A backup is written under a draft name in its folder, opened again and checked, and only then renamed. Older backups are
removed last, so a backup that fails costs none. The name says which store it is of (see `backup_names`), so two stores
can share a folder. Rotation removes only files with the name of this store that are Engram stores. The backup of an
encrypted store has the key of the store.

Beside a store lies the list of the places that have backups of it (`engram.db.backups`): see `backup_places`.
"""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import apsw

from ..errors import Conflict, EngramError, InvalidInput, NotAStore, StoreBusy, StoreDamaged, StoreEncrypted
from ..private_files import make_folder, sync
from ..setup_records import BackupFile, BackupMade
from . import backup, backup_names, backup_places, database, foreign, migrate
from .backup_places import LIST
from .helper_names import OF_SQLITE
from .sqlite_errors import is_full, missing, translate, translate_os
from .swap import NEXT, REPLACED, finish, require_same, same_file

if TYPE_CHECKING:
    from ..clock import Clock
    from .keys import Keys

#: Files beside a database that belong to it.
_HELPERS = (*OF_SQLITE, backup.PARTIAL)

_ORIGIN = "SELECT applied_at FROM migrations ORDER BY number LIMIT 1"
_LAST_NUMBER = "SELECT COALESCE(MAX(number), 0) FROM changes"
#: The times of the newest rows. The change feed itself has no times.
_LAST_TIMES = (
    "SELECT MAX(heartbeat_at) FROM sessions",
    "SELECT created_at FROM exchanges WHERE id = (SELECT MAX(id) FROM exchanges)",
    "SELECT updated_at FROM memories WHERE id = (SELECT MAX(id) FROM memories)",
    "SELECT MAX(updated_at) FROM blocks",
    "SELECT created_at FROM messages WHERE id = (SELECT MAX(id) FROM messages)",
    "SELECT created_at FROM receipts WHERE id = (SELECT MAX(id) FROM receipts)",
    # A restore would bring a revoked token back.
    "SELECT MAX(created_at) FROM access_tokens UNION ALL SELECT MAX(revoked_at) FROM access_tokens",
    "SELECT MAX(created_at) FROM access_consents UNION ALL SELECT MAX(ended_at) FROM access_consents",
)


class State(NamedTuple):
    """How far a store has come."""

    #: The number of its newest change.
    change: int
    #: When something was written last; None in an empty store.
    changed_at: str | None

    def is_newer_than(self, other: State) -> bool:
        return self.change > other.change or (self.changed_at or "") > (other.changed_at or "")

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written to the store yet."""
        return not self.change and self.changed_at is None


def state_of(connection: apsw.Connection) -> State:
    number: int = connection.execute(_LAST_NUMBER).get
    times: list[str] = []
    for sql in _LAST_TIMES:
        # A store of an early release lacks some of the tables.
        with suppress(apsw.SQLError):
            times += [str(value) for (value,) in connection.execute(sql).fetchall() if value is not None]
    return State(number, max(times, default=None))


def origin_of(connection: apsw.Connection) -> str | None:
    """What identifies a store: when it was made, to the microsecond. Its backups have the same, wherever they are."""
    if connection.pragma("application_id") != database.APPLICATION_ID:
        return None
    found: str | None = connection.execute(_ORIGIN).get
    return found


def make(
    path: str,
    target: str | None,
    keep: int,
    clock: Clock,
    keys: Keys,
    *,
    busy_timeout: float = 30.0,
    progress: backup.Progress | None = None,
) -> BackupMade:
    """Copy a store that others may be writing to. `target` is a folder or a new file; None: the folder beside it."""
    path = os.path.realpath(path)
    try:
        if not backup.size(path):
            raise missing(path)
    except OSError as error:  # such as a link to itself
        raise translate_os(error, path) from error
    now = clock.now()
    file, rotates = backup_places.target(target, backup_names.default_folder(path), backup_names.name(path, now))
    folder = os.path.dirname(file)
    is_new = not os.path.isdir(folder)
    try:
        make_folder(folder)
        # A name that is too long for its draft is no place of a backup.
        with suppress(FileNotFoundError):
            os.lstat(_draft(file))
        backup.require_space(file, backup.size(path) + backup.size(f"{path}-wal"), f"A backup of {path}")
        # Before anything is written, so that `engram encrypt` finds the file whatever happens.
        place = folder if rotates else file
        # The folder beside the store needs no entry.
        listed = backup_places.remember(f"{path}{LIST}", place, now) or place == backup_names.default_folder(path)
        made = _write(path, file, keys, busy_timeout, progress)
        rotated = _rotate(path, file, keep, keys) if rotates else backup_places.Rotated()
    except apsw.Error as error:
        raise translate(error, path) from error
    except OSError as error:
        raise translate_os(error, file) from error
    finally:
        if is_new:
            # A folder with a backup stays.
            with suppress(OSError):
                os.rmdir(folder)
    return BackupMade(
        path, file, backup.size(file), made.schema, made.state.change, now, rotated.removed, listed, rotated.stuck
    )


def _draft(file: str) -> str:
    return f"{file}.{os.getpid()}{backup.PARTIAL}"


class _Written(NamedTuple):
    schema: int
    state: State


def _write(path: str, file: str, keys: Keys, busy_timeout: float, progress: backup.Progress | None) -> _Written:
    draft = _draft(file)
    finish(path)
    with same_file(path) as opened:
        key = foreign.refuse(path, keys)
        source = database.connect(path, key)
        try:
            source.set_busy_timeout(int(busy_timeout * 1000))
            foreign.check_ours(source, path)
            # One read transaction: it has everything that was committed before it began, and nothing half.
            source.execute("BEGIN")
            expected = state_of(source)
            applied = migrate.sqlite_applied(source)
            _copy(source, draft, progress, key)
            source.execute("ROLLBACK")
            found = _verified(draft, path, key)
            if (found.schema, found.state) != (applied[-1].number, expected):
                raise StoreDamaged(f"The copy of {path} differs from it; the copy was removed. Try again.")
            _put(draft, file)
            sync(os.path.dirname(file))
            _require_same_key(path, opened, file)
            return found
        finally:
            source.close()
            backup.remove(draft)


def _copy(source: apsw.Connection, draft: str, progress: backup.Progress | None, key: bytes | None) -> None:
    try:
        backup.write(source, draft, progress, key=key)
    except apsw.Error as error:
        # The store was read already, so these are about the draft, which may be on another disk.
        if isinstance(error, apsw.FullError | apsw.CantOpenError) or is_full(error, draft):
            raise translate(error, draft) from error
        raise


def _require_same_key(path: str, opened: os.stat_result, file: str) -> None:
    """Remove the backup again if the store was encrypted or decrypted meanwhile.

    That command changes the backups after the store. So either it has found this one, or this one finds it out here.
    """
    try:
        require_same(path, opened)
    except StoreBusy:
        backup.remove(file)
        raise


def _put(draft: str, file: str) -> None:
    """Give the draft its name. Linking replaces nothing, but some file systems have no links."""
    try:
        os.link(draft, file)
    except FileExistsError:
        raise backup_places.exists(file) from None
    except OSError:
        if os.path.lexists(file):
            raise backup_places.exists(file) from None
        os.rename(draft, file)


def _verified(draft: str, path: str, key: bytes | None) -> _Written:
    """Open the copy again, with the key of the store, and check all of it."""
    copy = database.open_copy(draft, key)
    try:
        if copy.pragma("application_id") != database.APPLICATION_ID:
            raise NotAStore(f"{path} is not an Engram store; no backup was made.")
        problems = [" ".join(str(found).split()) for (found,) in copy.execute("PRAGMA integrity_check(1)").fetchall()]
        if problems != ["ok"]:
            raise StoreDamaged(
                f"{path} is damaged ({problems[0]}), so its copy is, too; the copy was removed, and older backups were "
                "left. Restore one of them: `engram restore --list` shows them."
            )
        return _Written(migrate.sqlite_applied(copy)[-1].number, state_of(copy))
    finally:
        copy.close()


def _rotate(path: str, made: str, keep: int, keys: Keys) -> backup_places.Rotated:
    """Remove all but the newest backups of this store in the folder of one just made.

    Backups with the same name may be of an earlier store that was lost. They stay, and so does what cannot be read.
    """
    mine = origin(made, keys)
    own = [file for file in backup_names.own(path, os.path.dirname(made)) if origin(file, keys) == mine]
    return backup_places.remove(backup.surplus(own, keep, made))


def remove_left(path: str) -> None:
    """Remove what killed processes left of a store with content, because it may have text that was forgotten since.

    The caller holds the store's write lock. So nobody writes a file that is to take the store's place, and a copy of
    another store into this one cannot end.
    """
    path = os.path.realpath(path)
    left = [*backup.drafts(path), *backup.abandoned(path), *backup_names.drafts(path)]
    if not os.path.lexists(f"{path}{REPLACED}"):
        left.append(f"{path}{NEXT}")
    copying = f"{path}{backup.COPYING}"
    # Just after the end of a copy both names lead to the store.
    if os.path.exists(copying) and not os.path.samefile(path, copying):
        left.append(copying)
    for file in left:
        with suppress(OSError):
            backup.remove(file)


def is_plain_store(file: str) -> bool:
    """Whether a file begins like an Engram store that is not encrypted."""
    return database.is_store(file) and not database.is_encrypted(file)


def problem_of(file: str, keys: Keys) -> str:
    """Why a backup cannot be read, after a look at it; empty if it can."""
    return _described(file, keys).problem


def listed(path: str, folder: str | None, keys: Keys) -> list[BackupFile]:
    """The backups of a store, or all stores in a folder, newest first. Looks at each, but does not check all of it."""
    path = os.path.realpath(path)
    if folder is None:
        complete = [each for each in backup_names.beside(path) if not each.endswith(backup.PARTIAL)]
        files = [file for _, file in backup_names.known(path)]
        files += [os.path.join(os.path.dirname(path), each) for each in complete]
    elif not os.path.isdir(folder):
        raise InvalidInput(f"{folder} is not a folder.")
    else:
        files = [file for file in backup_places.files(os.path.abspath(folder)) if not file.endswith(_HELPERS)]
        files = [file for file in files if file != path and database.is_store(file)]
    described = [_described(file, keys) for file in dict.fromkeys(files)]
    return sorted(described, key=lambda each: (each.made_at, each.file), reverse=True)


def candidates(path: str, folder: str | None, keys: Keys) -> list[BackupFile]:
    """The backups in a folder that a restore may take, newest first: those of this store.

    Without a folder those of `engram backup`, wherever they are, but not the copies that are made beside the store.

    The contents tell which they are, because the store may have been moved since. If the store is missing or empty, or
    cannot be read, the names tell it. Conflict if neither does.
    """
    found = listed(path, folder, keys)
    if folder is None:
        mine = {file for _, file in backup_names.known(path)}
        found = [each for each in found if each.file in mine]
    else:
        mine = set(backup_names.own(path, os.path.abspath(folder)))
    where = folder or "the list of backups"
    shows = f"`engram restore --list{'' if folder is None else f' {folder}'}` shows them"
    origins = {each.file: origin(each.file, keys) for each in found}
    present = origin(path, keys, only_filled=True)
    if present is None:
        named = [each for each in found if each.file in mine]
        if not named and len(set(origins.values()) - {None}) > 1:
            raise Conflict(
                f"{where} has backups of several stores, and no name says that one is of {path}. Nothing was changed. "
                f"{shows}; name the file that you want."
            )
        return named or found
    # A backup that cannot be read may be of this store. It is not passed over without a word.
    own = [
        each
        for each in found
        if origins[each.file] == present or (origins[each.file] is None and (each.file in mine or not mine))
    ]
    # A store that was copied goes on in two places, and both copies have the same origin. Then the names decide.
    if any(each.file in mine for each in own):
        own = [each for each in own if each.file in mine or not backup_names.is_of_engram(each.file)]
    if not own and (lost := next((each.file for each in found if each.file in mine and not each.problem), None)):
        raise Conflict(
            f"The backups of {path} in {where} are of an earlier store, which was lost or replaced. Nothing was "
            f"changed. To bring back the newest of them: `engram restore {shlex.quote(lost)} --force`. The present "
            "store is kept as a copy."
        )
    if found and not own:
        raise Conflict(
            f"No backup in {where} is of the store {path}; they are of other stores. Nothing was changed. "
            f"{shows}. To replace this store with one of them, name the file: "
            "`engram restore FILE --force`."
        )
    return own


def origin(file: str, keys: Keys, *, only_filled: bool = False) -> str | None:
    """What identifies the store that a file is, or is a backup of; None if that cannot be read.

    With `only_filled` also None if nothing was written to it yet.
    """
    try:
        foreign.require_regular(file)
        connection = database.open_copy(file, database.key_of(file, keys))
        try:
            return None if only_filled and state_of(connection).is_empty else origin_of(connection)
        finally:
            connection.close()
    except (apsw.Error, EngramError, UnicodeDecodeError):
        return None


def _described(file: str, keys: Keys) -> BackupFile:
    made_at, size = backup_places.made_at(file), backup.size(file)
    try:
        connection = database.open_copy(file, database.key_of(file, keys))
        try:
            applied = migrate.sqlite_applied(connection)
            state = state_of(connection)
            return BackupFile(file, made_at, size, applied[-1].number, state.change, state.changed_at, "")
        finally:
            connection.close()
    except StoreEncrypted:
        return BackupFile(file, made_at, size, 0, 0, None, f"encrypted, and {keys.place} has no key that opens it")
    except (apsw.Error, UnicodeDecodeError, IndexError) as error:
        problem = " ".join(str(error).split()) or "it has no schema"
        return BackupFile(file, made_at, size, 0, 0, None, problem)
