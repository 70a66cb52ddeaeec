"""Checks of the files beside an SQLite store: what killed processes left, and plain copies of an encrypted store."""

from __future__ import annotations

import os
import shlex
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from ..errors import EngramError
from ..health_records import NOTE, WRONG, Finding, fine
from . import backup, backup_files, backup_names, backup_places, database, helper_names
from .backup_places import LIST
from .swap import NEXT, REPLACED

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    #: Has the store's write lock within a block.
    Locked = Callable[[], AbstractContextManager[object]]

#: Seconds that a draft is untouched before it counts as left behind.
DRAFT_AGE = 3_600.0


def is_old(file: str) -> bool:
    with suppress(OSError):
        return time.time() - os.stat(file).st_mtime > DRAFT_AGE
    return False


class LeftFiles:
    """What killed processes left beside a store. It remembers why a file could not be deleted, to say so."""

    def __init__(self, path: str, locked: Locked) -> None:
        self._path = path
        self._next = f"{path}{NEXT}"
        self._locked = locked
        self._failed: dict[str, str] = {}

    def look(self) -> Finding:
        found = self._files()
        if not found:
            return fine("store.leftovers", "No process left a draft behind.")
        stuck = {file: why for file in found if (why := self._why_stuck(file))}
        loose = [file for file in found if file not in stuck]
        said, todo = [], []
        if loose:
            said.append(f"A killed process left {os.path.basename(loose[0])}{_more(loose)}.")
            todo.append(f"rm {shlex.quote(loose[0])}")
        if stuck:
            said += [f"{_shown(file)} cannot be deleted: {why}." for file, why in list(stuck.items())[:3]]
            todo.append(f"Move {_shown(next(iter(stuck)))}{_more(list(stuck))} away.")
        return Finding(
            "store.leftovers",
            NOTE,
            " ".join(said),
            "It takes space, and it may contain what was forgotten since.",
            todo[0],
            mends=bool(loose),
            number=len(found),
        )

    def remove(self) -> int:
        """Delete what can be deleted. One that cannot does not keep the others."""
        removed = 0
        for file in self._files():
            if file == self._next and not os.path.isdir(file):
                removed += self._remove_next()
            elif not self._why_stuck(file):
                removed += self._remove(file)
        return removed

    def _files(self) -> list[str]:
        path = self._path
        try:
            own = [file for file in backup.drafts(path) if is_old(file)] + backup.abandoned(path)
        except OSError:
            return []
        found = [*sorted(own), *backup_names.drafts(path)]
        copying = f"{path}{backup.COPYING}"
        with suppress(OSError):
            # A killed `engram copy` leaves an unfinished copy, or a second name of the finished one.
            if os.path.samefile(path, copying) or is_old(copying):
                found.append(copying)
        if self._is_next_left():
            found.append(self._next)
        # Engram makes a second name of the store. A folder of that name keeps every change of the key from its end.
        if os.path.isdir(f"{path}{REPLACED}"):
            found.append(f"{path}{REPLACED}")
        return found

    def _is_next_left(self) -> bool:
        """Whether a killed change of the key left its copy. One that runs has the store's write lock."""
        if not self._may_remove_next():
            return False
        if os.path.isdir(self._next):
            return True
        try:
            with self._locked():
                return self._may_remove_next()
        except (EngramError, OSError):
            return is_old(self._next)

    def _may_remove_next(self) -> bool:
        """With the second name, the next process that opens the store needs the copy: see `swap`."""
        return os.path.lexists(self._next) and not os.path.lexists(f"{self._path}{REPLACED}")

    def _remove_next(self) -> int:
        try:
            with self._locked():
                return self._remove(self._next) if self._may_remove_next() else 0
        except (EngramError, OSError) as error:
            self._failed[self._next] = str(error).rstrip(".")
            return 0

    def _remove(self, file: str) -> int:
        try:
            backup.remove(file)
        except OSError as error:
            self._failed[file] = error.strerror or str(error)
            return 0
        return 1

    def _why_stuck(self, file: str) -> str:
        """Why a file cannot be deleted; empty if nothing is known against it."""
        if os.path.isdir(file) and not os.path.islink(file):
            return "it is a folder"
        return self._failed.get(file, "")


def plain(path: str) -> Finding:
    """Whether an encrypted store has copies that are not."""
    name = "store.plain"
    if not database.is_encrypted(path):
        return fine(name, "The store is not encrypted, so its copies need not be.")
    own = [file for file in copies(path) if _is_plain(file)]
    unseen = backup_names.unseen(path)
    not_seen = f" Could not be looked at: {_shown(unseen[0])}{_more(unseen)}." if unseen else ""
    if own:
        return Finding(
            name,
            WRONG,
            f"The store is encrypted, but not its copy {_shown(own[0])}{_more(own)}.{not_seen}",
            "Everybody who gets this file can read what was remembered.",
            "engram encrypt; if the file stays plain, it is damaged: engram encrypt --delete-damaged",
            number=len(own),
        )
    # The names first: closing one of the files that SQLite has open would drop this process's locks.
    beside = [file for file in backup_places.files(os.path.dirname(path)) if not helper_names.is_of_sqlite(file)]
    beside = [file for file in beside if file != path and _is_plain_store(file)]
    if unseen and not beside:
        return Finding(
            name,
            NOTE,
            not_seen.strip(),
            "A backup there may not be encrypted.",
            f"Mount its disk, or make it readable, then engram encrypt. If it is gone, remove it from {path}{LIST}",
            number=len(unseen),
        )
    if not beside:
        return fine(name, "Every copy of the encrypted store that Engram knows is encrypted.")
    return Finding(
        name,
        NOTE,
        f"Beside the encrypted store is one that is not: {_shown(beside[0])}{_more(beside)}.{not_seen}",
        "If it is a copy of this store, everybody who gets this file can read what was remembered.",
        f"engram --store {shlex.quote(_shown(beside[0]))} encrypt, or delete it",
        number=len(beside),
    )


def copies(path: str) -> list[str]:
    """The copies of the store that Engram knows, and what killed processes left of some."""
    beside = [os.path.join(os.path.dirname(path), each) for each in backup_names.beside(path)]
    left = [f"{path}{end}" for end in (NEXT, REPLACED, backup.COPYING)]
    known = [file for _, file in backup_names.known(path) if database.is_store(file)]
    return list(dict.fromkeys([*beside, *left, *known, *backup_names.drafts(path)]))


def _is_plain(file: str) -> bool:
    """Whether a file has content that is not encrypted. A folder or a pipe of that name has none."""
    return os.path.isfile(file) and backup.size(file) > 0 and not database.is_encrypted(file)


def _is_plain_store(file: str) -> bool:
    # SQLite cannot open a name that is not UTF-8, so no store has one.
    with suppress(UnicodeError):
        os.fsencode(file).decode()
        return backup_files.is_plain_store(file)
    return False


def _shown(file: str) -> str:
    """A path that can be printed: its name may not be UTF-8."""
    return os.fsencode(file).decode("utf-8", "replace")


def _more(files: list[str]) -> str:
    return f" and {len(files) - 1:,} more" if len(files) > 1 else ""
