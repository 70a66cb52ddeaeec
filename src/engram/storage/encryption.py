"""Encrypts a store, decrypts it, and changes its key; its backups go with it, also those of `engram backup` elsewhere.

The key is written before anything else, and keys are never removed, so every state that a killed process leaves can be
read. Running the command again does the rest. `swap` describes how the store itself is replaced.
"""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

import apsw

from ..errors import EngramError, StoreBusy, StoreEncrypted, StoreUnavailable
from ..lock_file import Lock
from ..setup_records import Encryption
from . import backup, backup_files, backup_names, database, foreign
from .sqlite import refuse_network
from .sqlite_errors import missing, translate, translate_os
from .swap import NEXT, REPLACED, finish, replace, same_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .keys import Keys

#: How the name of the file ends that one process holds while it changes the key.
LOCK = ".changing-lock"
#: Seconds to wait for processes that use a backup as their store.
_PATIENCE = 1.0


def encrypt(path: str, keys: Keys, busy_timeout: float, *, delete_damaged: bool = False) -> Encryption:
    """Encrypt the store, and every backup of it that Engram knows.

    A plain backup that SQLite cannot read stays, because something may be saved from it, unless `delete_damaged` is on.
    """
    return _changed(path, keys, busy_timeout, lambda present: present or keys.newest(), delete_damaged=delete_damaged)


def decrypt(path: str, keys: Keys, busy_timeout: float) -> Encryption:
    """Write the store and every known backup of it without encryption. The keys stay, for backups elsewhere."""
    return _changed(path, keys, busy_timeout, lambda present: None)


def rekey(path: str, keys: Keys, busy_timeout: float) -> Encryption:
    """Encrypt the store and every known backup of it with a new key. The earlier keys stay, for backups elsewhere."""

    def new(present: bytes | None) -> bytes:
        if present is None:
            raise StoreEncrypted(f"{path} is not encrypted, so it has no key to change. Run `engram encrypt`.")
        return keys.add()

    return _changed(path, keys, busy_timeout, new)


def _changed(
    path: str,
    keys: Keys,
    busy_timeout: float,
    choose: Callable[[bytes | None], bytes | None],
    *,
    delete_damaged: bool = False,
) -> Encryption:
    # A symbolic link at `path` stays; its target is replaced.
    path = os.path.realpath(path)
    try:
        if not backup.size(path):
            raise missing(path)
        refuse_network(os.path.dirname(path))
        with _alone(path):
            finish(path)
            with same_file(path):
                present = foreign.refuse(path, keys)
                _require_store(path, present, busy_timeout)
                wanted = choose(present)
                if wanted != present:
                    replace(path, present, wanted, busy_timeout)
            copies = _change_copies(path, keys, wanted, delete_damaged)
            copies.unseen.extend(file for file in backup_names.unseen(path) if file not in copies.left)
    except apsw.Error as error:
        raise translate(error, path) from error
    except OSError as error:
        raise translate_os(error, path) from error
    return Encryption(path, wanted is not None, wanted != present, keys.place, *map(tuple, copies))


@contextmanager
def _alone(path: str) -> Iterator[None]:
    """Exclude other changes of this store's key. What one of them leaves behind the other would take for its own."""
    try:
        lock = Lock.take(f"{path}{LOCK}")
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise
        raise StoreUnavailable(f"{path}{LOCK} is no file, so it cannot be a lock. Remove it, and try again.") from None
    if lock is None:
        raise StoreBusy(f"Another process changes the encryption of {path}; nothing was changed. Try again later.")
    try:
        yield
    finally:
        lock.release()


def _require_store(path: str, key: bytes | None, busy_timeout: float) -> None:
    """Check the file before a key is made for it."""
    store = database.connect(path, key)
    try:
        store.set_busy_timeout(int(busy_timeout * 1000))
        # Until it is known to be ours, closing it must not write its log into the file.
        store.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        foreign.check_ours(store, path)
    finally:
        store.close()


class _Copies(NamedTuple):
    """What became of the backups."""

    changed: list[str]
    removed: list[str]
    left: list[str]
    damaged: list[str]
    unseen: list[str]


def _change_copies(path: str, keys: Keys, wanted: bytes | None, delete_damaged: bool) -> _Copies:
    """Give all backups the same key: those beside the store, and those that `engram backup` made anywhere.

    The store has its key already. So a backup whose disk is full or read-only is named, and stops nothing else.
    """
    folder = os.path.dirname(path)
    # A restore that runs has asked which key the store has, and asks again before it writes.
    running = backup.in_use(path)
    beside = sorted(os.path.join(folder, name) for name in backup.names(path))
    beside = [copy for copy in beside if copy not in running]
    drafts = [*(copy for copy in beside if copy.endswith(backup.PARTIAL)), *backup_names.drafts(path)]
    changes = [copy for copy in beside if copy not in drafts]
    changes += [copy for copy in _elsewhere(path, keys) if copy not in changes]
    copies = _Copies([], [], [], [], [])
    for draft in [*drafts, *_left_by_changes([path, *changes]), *_unfinished_copy(path)]:
        with _leaving(draft, copies):
            _remove(draft, copies)
    for copy in changes:
        with _leaving(copy, copies):
            if not _has_key(copy, keys, wanted):
                _change_copy(copy, keys, wanted, copies, delete_damaged)
    return copies


def _elsewhere(path: str, keys: Keys) -> list[str]:
    """The backups that `engram backup` made. The user may have put another store in the place of one."""
    mine = backup_files.origin(path, keys)
    named = backup_names.pattern(path)
    return [
        file
        for _, file in backup_names.known(path)
        if database.is_store(file)
        and (named.fullmatch(os.path.basename(file)) or backup_files.origin(file, keys) in (None, mine))
    ]


def _left_by_changes(files: list[str]) -> list[str]:
    """What killed changes of the key left. Only one process changes it, so none of them is in use."""
    left = []
    for file in files:
        with suppress(OSError):
            finish(file)
        left += [f"{file}{end}" for end in (NEXT, REPLACED) if os.path.isfile(f"{file}{end}")]
    return left


def _unfinished_copy(path: str) -> list[str]:
    """What a killed copy into this store left; nothing if the copy runs."""
    draft = f"{path}{backup.COPYING}"
    if not os.path.exists(draft):
        return []
    lock = Lock.take(f"{draft}-lock")
    if lock is None:
        return []
    lock.release()
    return [draft]


@contextmanager
def _leaving(file: str, copies: _Copies) -> Iterator[None]:
    """Name a file that cannot be changed, instead of an error."""
    try:
        yield
    except (OSError, apsw.Error, EngramError):
        copies.left.append(file)


def _has_key(copy: str, keys: Keys, wanted: bytes | None) -> bool:
    """Whether a backup is as it should be. A log beside it may not be."""
    try:
        return database.key_of(copy, keys) == wanted and not backup.size(f"{copy}-wal")
    except EngramError:
        return False


def _change_copy(copy: str, keys: Keys, wanted: bytes | None, copies: _Copies, delete_damaged: bool) -> None:
    """Give a backup another key, in the way of a store: a process may use the backup as its store."""
    made = os.stat(copy)
    try:
        replace(copy, database.key_of(copy, keys), wanted, _PATIENCE)
    except (apsw.NotADBError, apsw.CorruptError, apsw.SQLError, StoreEncrypted):
        # An encrypted copy without a key harms nobody, and its key may turn up. A damaged plain one can be read.
        if database.is_encrypted(copy):
            copies.left.append(copy)
        elif delete_damaged:
            _remove(copy, copies)
        else:
            copies.damaged.append(copy)
        return
    # A backup that has no time in its name is as old as its file.
    os.utime(copy, ns=(made.st_atime_ns, made.st_mtime_ns))
    copies.changed.append(copy)


def _remove(file: str, copies: _Copies) -> None:
    backup.remove(file)
    copies.removed.append(file)
