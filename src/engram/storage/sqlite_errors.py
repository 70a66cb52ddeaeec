"""Errors of SQLite and of the file system as errors that tell the user what to do."""

from __future__ import annotations

import os
from contextlib import closing

import apsw

from ..errors import (
    EngramError,
    NotAStore,
    StoreBusy,
    StoreDamaged,
    StoreEncrypted,
    StoreError,
    StoreFull,
    StoreNotFound,
    StoreReadOnly,
    StoreUnavailable,
)
from . import database

#: The last number that SQLite can give.
_LAST = 2**63 - 1


def translate(error: apsw.Error, path: str, key: bytes | None = None) -> EngramError:
    """Turn a driver's error into one that tells the user what to do. `key` is that of an encrypted store."""
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return StoreBusy(f"Another process is writing to {path} and did not finish in time; try again.")
    if isinstance(error, apsw.ReadOnlyError | apsw.PermissionsError):
        return StoreReadOnly(
            f"{path} cannot be written ({_said(error)}). Give its owner write permission on the file and its "
            "folder, or use another store with --store or ENGRAM_URL."
        )
    if isinstance(error, apsw.FullError) and (table := _exhausted(path, key)):
        return StoreError(
            f"{path} cannot be written: its table {table} has given the last number that there is, because another "
            "program changed it. `engram doctor` says what to do."
        )
    if is_full(error, path):
        return StoreFull(f"The disk that holds {path} is full; nothing was written. Free some space and try again.")
    if isinstance(error, apsw.NotADBError) and database.is_encrypted(path):
        return StoreEncrypted(
            f"{path} is encrypted, and its key is missing or wrong; it was not changed. Restore the key at the place "
            "that `engram config show` names as key_file."
        )
    if isinstance(error, apsw.NotADBError):
        return NotAStore(
            f"{path} is not a database; it was not changed. Give another path with --store or ENGRAM_URL."
            f"{_of_backups(path)}"
        )
    if isinstance(error, apsw.CorruptError):
        return damaged(path, _said(error))
    if isinstance(error, apsw.CantOpenError):
        return StoreUnavailable(
            f"{path} cannot be opened ({_said(error)}). Check that its folder exists and that you may write there."
        )
    if isinstance(error, apsw.IOError):
        return StoreError(
            f"The system could not read or write {path}, or a copy of it ({_said(error)}). Check the disk, and whether "
            "a limit on the size of files applies (`ulimit -f`)."
        )
    if isinstance(error, apsw.SQLError):
        return StoreError(
            f"The tables of {path} are not those that this version of Engram needs ({error}); nothing was changed. "
            "`engram doctor` says more."
        )
    return StoreError(f"{path}: {type(error).__name__}: {error}")


def _of_backups(path: str) -> str:
    from .backup_names import any_of

    return " `engram restore --list` shows the backups of the store that was there." if any_of(path) else ""


def is_full(error: apsw.Error, path: str) -> bool:
    """Whether the disk is full. SQLite reports an I/O error, not a full disk, if its helper files do not fit."""
    if not isinstance(error, apsw.IOError):
        return isinstance(error, apsw.FullError)
    try:
        return os.statvfs(os.path.dirname(path)).f_bavail == 0
    except OSError:
        return False


def _exhausted(path: str, key: bytes | None) -> str:
    """The table that has given its last number; empty if there is none. SQLite says that of a full disk, too."""
    try:
        with closing(database.connect(path, key)) as connection:
            found = connection.execute("SELECT name FROM sqlite_sequence WHERE seq >= ?", (_LAST,)).fetchall()
    except (apsw.Error, UnicodeDecodeError):
        return ""
    return str(found[0][0]) if found else ""


def missing(path: str) -> StoreNotFound:
    from .migrate import not_found

    return not_found(path, _of_backups(path))


def damaged(path: str, why: str) -> StoreDamaged:
    return StoreDamaged(
        f"{path} is damaged ({why}). Restore a backup with `engram restore FILE`: your own, or the newest one "
        "beside the store. The damaged file is kept."
    )


def translate_os(error: OSError, path: str) -> EngramError:
    import errno

    why = error.strerror or type(error).__name__
    at = f" ({os.fsdecode(error.filename)})" if isinstance(error.filename, str | bytes) else ""
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StoreReadOnly(
            f"{path} cannot be used: {why}{at}. Choose a folder you may write to with --store or "
            "ENGRAM_DATA_DIR, or give yourself the rights to read and write this one."
        )
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreFull(f"The disk that should hold {path} is full. Free some space and try again.")
    if error.errno == errno.ELOOP:
        return StoreUnavailable(f"{path} is a symbolic link that leads to itself. Remove it, or name another path.")
    check = " Check the disk, and run the command again." if error.errno == errno.EIO else ""
    return StoreUnavailable(f"{path} cannot be used: {why}{at}.{check}")


def _said(error: apsw.Error) -> str:
    """What SQLite says. If an error of the system came from below it, its message may be that of the last success."""
    text = " ".join(str(error).split())
    if text and "not an error" not in text:
        return text
    return "unable to open the file" if isinstance(error, apsw.CantOpenError) else "input/output error"
