"""Checks of an SQLite store's files, also of a store that cannot be opened. `engram doctor` runs them.

Nothing here opens a database file with Python: closing that descriptor would drop this process's locks on it.
"""

from __future__ import annotations

import os
import shlex
import stat
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import apsw

from ..errors import EngramError, StoreEncrypted
from ..health_records import NOTE, WRONG, Check, Finding, counted, fine
from ..private_files import mode, take_rights
from . import backup, backup_files, backup_names, database, foreign, migrate
from . import sqlite_content_health as content
from .backup_places import LIST
from .file_systems import network_file_system
from .health import backup_finding, clock_finding, if_readable, skipped, unrecorded_text
from .keys import draft
from .sqlite_errors import damaged, translate
from .sqlite_left_files import LeftFiles, is_old, plain
from .swap import finish, held, require_same

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..clock import Clock
    from .keys import Keys

#: Earlier ones can lose committed data when several processes write one file in WAL mode.
OLDEST_SQLITE = 3_051_003
#: Bytes of a write-ahead log from which on it is worth a note.
LARGE_LOG = 64 * 1024 * 1024
#: Bytes that a disk should have free.
LEAST_SPACE = 64 * 1024 * 1024
#: A share of unused pages, and bytes in them, from which on they are worth a note.
UNUSED_SHARE, UNUSED_BYTES = 0.25, 16 * 1024 * 1024
#: How many problems the integrity check lists at most.
_PROBLEMS = 5
#: How often a connection is tried if the file does not fit its key.
_ATTEMPTS = 5
#: Bytes that SQLite's helper files need.
_HELPERS_NEED = 1_000_000
#: Beginnings of what SQLite's checks say of rows. The rest is about pages, and tells a user nothing.
_OF_ROWS = ("CHECK", "NULL", "NUMERIC", "TEXT", "REAL", "INT", "BLOB", "non-", "row ", "wrong #")
_HELPERS = ("-wal", "-shm")


class _Files(NamedTuple):
    """A store's path, and where its key is."""

    path: str
    keys: Keys

    def connect(self) -> apsw.Connection:
        """A connection. The key is looked up again if another process has encrypted or decrypted the store since."""
        for attempt in range(1, _ATTEMPTS + 1):
            connection = database.connect(self.path, database.key_of(self.path, self.keys))
            try:
                connection.set_busy_timeout(1_000)
                connection.pragma("schema_version")
                return connection
            except apsw.NotADBError:
                connection.close()
                if attempt == _ATTEMPTS:
                    raise
            except BaseException:
                connection.close()
                raise
        raise AssertionError("the last attempt returns or raises")


def checks(path: str, clock: Clock, keys: Keys, *, full: bool = False) -> list[Check]:
    """The checks of a store's files. Without the key of an encrypted store, what is in the file cannot be checked."""
    path = os.path.realpath(path)
    files = _Files(path, keys)
    left = LeftFiles(path, partial(_locked, files))
    outside = [
        Check("store.sqlite", _version),
        Check("store.file", partial(_file, files)),
        Check("store.key", partial(_key, files)),
        Check("store.plain", partial(plain, path)),
        Check("store.permissions", partial(_permissions, path), partial(_set_permissions, path)),
        Check("store.folder", partial(_folder, path), partial(_close_folder, path)),
        Check("store.file_system", partial(_file_system, path)),
        Check("store.space", partial(_space, path)),
        Check("store.leftovers", left.look, left.remove),
    ]
    if not _is_store(files):
        return outside
    inside = [
        Check("store.schema", partial(_read, files, partial(content.schema, path))),
        Check("store.integrity", partial(_integrity, files, full), guards=True),
        *([Check("store.texts", partial(_read, files, content.texts))] if full else []),
        Check("store.references", partial(_read, files, content.references)),
        Check("store.numbers", partial(_read, files, content.numbers), partial(_raise_numbers, files)),
        Check("store.log", partial(_log, path), partial(_checkpoint, files)),
        Check("store.unused", partial(_unused, files)),
        Check("store.clock", partial(_clock, files, clock)),
        Check("store.backups", partial(_backups, files, clock)),
    ]
    return [*outside, *map(if_readable, inside)]


def _is_store(files: _Files) -> bool:
    """Whether what is in the file can be checked: it is a store, and its key is here."""
    try:
        return os.path.exists(files.path) and _problem(files) is None
    except EngramError:
        return False


class _Problem(NamedTuple):
    """Why a file is no store that can be used."""

    why: str
    #: Whether a full disk, or one that can only be read, may be the cause.
    may_be_disk: bool = False
    #: Whether the file can be read, so that a restore wants to be sure.
    is_readable: bool = False


def _problem(files: _Files) -> _Problem | None:
    """Why the file is no store; None if it is one. Raises StoreEncrypted without its key."""
    if not os.path.isfile(files.path):
        return _Problem("it is no regular file")
    if not backup.size(files.path):
        return _Problem("it is empty")
    try:
        foreign.refuse(files.path, files.keys)
        with closing(files.connect()) as connection:
            if connection.pragma("application_id") != database.APPLICATION_ID:
                return _Problem("its application_id is not that of Engram")
            return _unusable_record(migrate.sqlite_applied(connection))
    except StoreEncrypted:
        raise
    except apsw.NotADBError:
        return _Problem("it is not a database")
    except apsw.CorruptError:
        return _Problem("it is damaged")
    except (apsw.IOError, apsw.FullError, apsw.CantOpenError, apsw.ReadOnlyError) as error:
        return _Problem(str(error), may_be_disk=True)
    except (EngramError, apsw.Error, UnicodeDecodeError) as error:
        return _Problem(str(error).rstrip("."))


def _unusable_record(applied: list[migrate.Applied]) -> _Problem | None:
    """What is wrong if an upgrade would make changes a second time, and no command works without it.

    `store.schema` finds what else the record may lack.
    """
    known = {each.number for each in applied}
    missing = skipped(applied, [each for each in migrate.shipped("sqlite") if each.number not in known])
    if all(each.hooks_without for each in missing):
        return None
    return _Problem(unrecorded_text(missing, applied), is_readable=True)


def _version() -> Finding:
    version = apsw.sqlite_lib_version()
    if apsw.SQLITE_VERSION_NUMBER >= OLDEST_SQLITE:
        return fine("store.sqlite", f"SQLite {version}.")
    return Finding(
        "store.sqlite",
        WRONG,
        f"SQLite {version} is older than 3.51.3.",
        "It can lose committed data when several processes write at once.",
        "Install a current apsw.",
    )


def _file(files: _Files) -> Finding:
    name, path = "store.file", files.path
    if not os.path.exists(path):
        return Finding(
            name, NOTE, f"There is no store at {path}.", "Nothing was remembered there yet.", "engram init", number=1
        )
    if not os.path.isfile(path) and not os.path.isdir(path):
        return Finding(
            name,
            WRONG,
            f"{path} is no regular file, so it cannot be a store.",
            "Nothing is recorded, and nothing is found again.",
            "Move it away, or name another store with --store or ENGRAM_URL",
            number=1,
        )
    try:
        problem = _problem(files)
    except StoreEncrypted:
        return fine(name, f"{path} is an encrypted Engram store; without its key, what is in it is not checked.")
    if problem is None:
        kind = "encrypted " if database.is_encrypted(path) else ""
        return fine(name, f"{path} is an {kind}Engram store.")
    if problem.may_be_disk and (of_disk := _unwritable_disk(path)) is not None:
        return of_disk
    saved = _saved(files)
    return Finding(
        name,
        WRONG,
        f"{path} cannot be used: {problem.why}. {_told(saved)}",
        "Nothing is recorded, and nothing is found again.",
        _restore(path, saved, force=problem.is_readable),
        number=1,
    )


def _unwritable_disk(path: str) -> Finding | None:
    """What to do if SQLite cannot make its helper files because of the disk. A restore would not work there, either."""
    try:
        disk = os.statvfs(os.path.dirname(path))
    except OSError:
        return None
    means = "Nothing is recorded, and nothing is found again. The store itself need not be damaged."
    if disk.f_flag & os.ST_RDONLY:
        found, fix = "its file system is mounted read-only", "Mount the file system for writing."
    elif disk.f_bavail * disk.f_frsize < _HELPERS_NEED:
        found, fix = "its disk is full", "Free some space."
    else:
        return None
    return Finding("store.file", WRONG, f"{path} cannot be used: {found}.", means, fix, number=1)


def _saved(files: _Files) -> list[str]:
    """The backups of the store that can be restored, the newest first."""
    return [each.file for each in backup_files.listed(files.path, None, files.keys) if not each.problem]


def _restore(path: str, saved: list[str], *, force: bool) -> str:
    file = shlex.quote(saved[0]) if saved else "FILE"
    return f"engram --store {shlex.quote(path)} restore {file}{' --force' if force else ''}"


def _told(saved: list[str]) -> str:
    """The backups, the newest first. A line has room for a few."""
    if not saved:
        return "Engram knows no backup of it."
    return f"It has {counted(len(saved), 'backup', 'backups')}: {', '.join(saved[:3])}{_and_more(saved[2:])}."


def _key(files: _Files) -> Finding:
    """Whether the store's key is there, and only its owner can read it. Its mode is not mended: see `keys`."""
    name, keys = "store.key", files.keys
    # The file may be a link. The mode of what it leads to counts.
    place = os.path.realpath(keys.file)
    rights = mode(place) if keys.file and os.path.isfile(place) else 0
    if keys.file and os.path.exists(place) and not os.path.isfile(place):
        return Finding(
            name,
            WRONG,
            f"{keys.file} is no file, so it cannot be the key file (setting key_file).",
            "Engram cannot keep keys there, and an encrypted store cannot be opened.",
            f"Move {place} away, and put your copy of the key there if the store is encrypted.",
            number=1,
        )
    if rights & 0o077:
        return Finding(
            name,
            WRONG,
            f"Others can read or write the key file {keys.file} (mode {rights:04o}).",
            "Engram does not use such a key, because others may know it. An encrypted store cannot be opened.",
            f"chmod 600 {keys.file}; if others may have read it, then engram rekey",
            number=1,
        )
    try:
        database.key_of(files.path, keys)
    except EngramError as error:
        means = "Nothing is recorded, and nothing is found again. Without the key nobody can read the store."
        fix = "Put your copy of the key back, or name its place with the setting key_file."
        return Finding(name, WRONG, str(error), means, fix, number=1)
    left = draft(keys.file) if keys.file else ""
    if left and is_old(left):
        return Finding(
            name,
            NOTE,
            f"A killed process left {left}, with the keys in it.",
            "Everybody who gets this file can read the store.",
            f"rm {shlex.quote(left)}, if the key file {keys.file} is there and opens the store",
            number=1,
        )
    if not database.is_encrypted(files.path):
        return fine(name, "The store is not encrypted.")
    return fine(name, f"The store is encrypted, and its key is in {keys.place}.")


def _and_more(files: list[str]) -> str:
    return f" and {len(files) - 1:,} more" if len(files) > 1 else ""


def _modes(path: str) -> list[str]:
    """The files of the store that others can use."""
    files = [f"{path}{end}" for end in ("", *_HELPERS, LIST)]
    files += [os.path.join(os.path.dirname(path), each) for each in _names(path)]
    # The user may have put another file in the place of a backup.
    files += [file for _, file in backup_names.known(path) if database.is_store(file)]
    return [file for file in files if mode(file) & 0o077]


def _names(path: str) -> list[str]:
    with suppress(OSError):
        return backup.names(path)
    return []


def _permissions(path: str) -> Finding:
    found = _modes(path)
    if not found:
        return fine("store.permissions", "Only you can read the store and its copies.")
    return Finding(
        "store.permissions",
        WRONG,
        f"Others can read or write {', '.join(found[:3])}{' and more' if len(found) > 3 else ''}.",
        "Other users of this machine can see what was remembered.",
        f"chmod 600 {found[0]}",
        mends=True,
        number=len(found),
    )


def _set_permissions(path: str) -> int:
    return take_rights(_modes(path), 0o077)


def _folder(path: str) -> Finding:
    folder = os.path.dirname(path)
    rights = mode(folder)
    # In a folder with the sticky bit nobody can replace the files of others.
    if not rights & 0o022 or rights & stat.S_ISVTX:
        return fine("store.folder", f"Only you can put files into {folder}.")
    return Finding(
        "store.folder",
        WRONG,
        f"Others can put files into {folder}.",
        "Other users of this machine can replace the store.",
        f"chmod go-w {folder}",
        mends=True,
        number=1,
    )


def _close_folder(path: str) -> int:
    return take_rights([os.path.dirname(path)], 0o022)


def _file_system(path: str) -> Finding:
    kind = network_file_system(os.path.dirname(path))
    if kind is None:
        return fine("store.file_system", "The store is on a local disk.")
    return Finding(
        "store.file_system",
        WRONG,
        f"The store is on a network file system ({kind}).",
        "SQLite cannot lock safely there; the store can be damaged.",
        "Move the store to a local disk, or use PostgreSQL.",
        number=1,
    )


def _space(path: str) -> Finding:
    try:
        disk = os.statvfs(os.path.dirname(path))
    except OSError:
        return fine("store.space", "The free space is not known.")
    if disk.f_flag & os.ST_RDONLY:
        found = "The store's file system is mounted read-only."
        means = "The store can be read at most, and nothing is recorded."
        return Finding("store.space", WRONG, found, means, "Mount the file system for writing.", number=1)
    free, needed = disk.f_bavail * disk.f_frsize, backup.size(path)
    shown = f"{free / 1_000_000:,.0f} MB are free on the disk."
    if free < LEAST_SPACE:
        return Finding("store.space", WRONG, shown, "Writes will soon fail.", "Free some space.", number=1)
    if free < needed + LEAST_SPACE:
        return Finding(
            "store.space", NOTE, shown, "A backup or an upgrade would not fit.", "Free some space.", number=1
        )
    return fine("store.space", shown)


def _read(files: _Files, look: Callable[[apsw.Connection], Finding]) -> Finding:
    with _reading(files) as connection:
        return look(connection)


@contextmanager
def _reading(files: _Files) -> Iterator[apsw.Connection]:
    """A connection within a block. Errors of the driver become those of Engram."""
    try:
        with closing(files.connect()) as connection:
            yield connection
    except apsw.Error as error:
        raise translate(error, files.path) from error
    except UnicodeDecodeError as error:
        raise damaged(files.path, f"a text in it is not UTF-8: {error.reason}") from error


def _integrity(files: _Files, full: bool) -> Finding:
    name = "store.integrity"
    what = "integrity_check" if full else "quick_check"
    try:
        with closing(files.connect()) as connection:
            rows = connection.execute(f"PRAGMA {what}({_PROBLEMS})").fetchall()
        problems = [" ".join(str(found).split()) for (found,) in rows if found != "ok"]
    except (apsw.Error, UnicodeDecodeError) as error:
        problems = [str(error)]
    if not problems:
        return fine(name, f"SQLite's {what} found nothing{'' if full else '; --full checks more'}.")
    detail = f" ({problems[0][:200]})" if problems[0].startswith(_OF_ROWS) else ""
    saved = _saved(files)
    return Finding(
        name,
        WRONG,
        f"The file is damaged{detail}. {_told(saved)}",
        "Some of what was remembered cannot be read.",
        f"{_restore(files.path, saved, force=True)}; `engram restore --list` shows the backups",
        number=len(problems),
    )


def _log(path: str) -> Finding:
    size = backup.size(f"{path}-wal")
    shown = f"The write-ahead log has {size / 1_000_000:,.1f} MB."
    if size < LARGE_LOG:
        return fine("store.log", shown)
    return Finding(
        "store.log",
        NOTE,
        shown,
        "Reads get slower. A process that never ends a read may keep it from shrinking.",
        "End processes that use the store, then `engram doctor --fix`.",
        mends=True,
        number=1,
    )


def _checkpoint(files: _Files) -> int:
    finish(files.path)
    with held(files.path) as opened, _reading(files) as connection:
        # Reading opens the log. Emptying the log of a file that took the store's place would lose what is in it.
        connection.pragma("schema_version")
        require_same(files.path, opened)
        ((busy, _, _),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return 0 if busy else 1


def _raise_numbers(files: _Files) -> int:
    finish(files.path)
    with _locked(files) as connection:
        return content.raise_numbers(connection)


@contextmanager
def _locked(files: _Files) -> Iterator[apsw.Connection]:
    """A connection that has the store's write lock within a block, and commits at its end."""
    foreign.refuse(files.path, files.keys)
    with held(files.path) as opened, _reading(files) as connection:
        connection.execute("BEGIN IMMEDIATE")
        try:
            require_same(files.path, opened)
            yield connection
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")


def _unused(files: _Files) -> Finding:
    with _reading(files) as connection:
        free, pages = connection.pragma("freelist_count"), connection.pragma("page_count")
        unused = free * connection.pragma("page_size")
    shown = f"{unused / 1_000_000:,.1f} MB of the file are unused."
    if unused < UNUSED_BYTES or free < UNUSED_SHARE * pages:
        return fine("store.unused", shown)
    return Finding("store.unused", NOTE, shown, "They are used again for new rows.", "engram vacuum", number=free)


def _clock(files: _Files, clock: Clock) -> Finding:
    with _reading(files) as connection:
        newest = backup_files.state_of(connection).changed_at
    return clock_finding(newest, clock.now())


def _backups(files: _Files, clock: Clock) -> Finding:
    known = backup_names.known(files.path)
    if known:
        problem = backup_files.problem_of(known[-1][1], files.keys)
        if problem:
            return Finding(
                "store.backups",
                WRONG,
                f"The newest backup, {known[-1][1]}, cannot be read: {problem}.",
                "If the store is damaged, only an older backup can be restored.",
                "engram backup",
                number=1,
            )
    with _reading(files) as connection:
        is_empty = not backup_files.state_of(connection).change
        mine = backup_files.origin_of(connection)
    if known and (newest := backup_files.origin(known[-1][1], files.keys)) is not None and newest != mine:
        return Finding(
            "store.backups",
            WRONG,
            f"The newest backup, {known[-1][1]}, is of an earlier store that was at the same place.",
            "That store was lost or replaced, and what it held is not in this one.",
            f"engram restore {shlex.quote(known[-1][1])} --force brings it back; engram backup if it is not needed",
            number=1,
        )
    return backup_finding(known[-1][0] if known else None, clock.now(), is_empty=is_empty)
