"""Which backups of an SQLite store there are. Their names tell it, so nothing is opened.

The name of a backup says which store it is of and when it was made: `engram-1a2b3c4d-20261115t183608123456.db`.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress

from . import backup, backup_places
from .backup import STAMP
from .backup_places import FOLDER, LIST


def default_folder(path: str) -> str:
    return os.path.join(os.path.dirname(os.path.realpath(path)), FOLDER)


def name(path: str, now: str) -> str:
    return f"{_prefix(path)}{backup.compact(now)}.db"


def _prefix(path: str) -> str:
    from zlib import crc32

    path = os.path.realpath(path)
    stem = os.path.splitext(os.path.basename(path))[0]
    return f"{stem}-{crc32(os.fsencode(path)):08x}-"


def pattern(path: str) -> re.Pattern[str]:
    """The names of backups of a store."""
    return re.compile(re.escape(_prefix(path)) + STAMP + r"\.db")


def is_of_engram(file: str) -> bool:
    """Whether `engram backup` chose the name of a file, so that it says which store the file is of."""
    return re.fullmatch(rf".+-[0-9a-f]{{8}}-{STAMP}\.db", os.path.basename(file)) is not None


def own(path: str, folder: str) -> list[str]:
    """The backups of this store in a folder, oldest first. Links and other files are left out."""
    return backup_places.named(folder, pattern(path))


def drafts(path: str) -> list[str]:
    """Drafts that a killed `engram backup` of this store left, or a killed change of a backup's key."""
    path = os.path.realpath(path)
    return backup_places.drafts(f"{path}{LIST}", default_folder(path), pattern(path))


def known(path: str) -> list[tuple[str, str]]:
    """Every backup of this store that is still there, oldest first: when it was made, and its path."""
    path = os.path.realpath(path)
    return backup_places.known(f"{path}{LIST}", default_folder(path), pattern(path))


def unseen(path: str) -> list[str]:
    """The places and files that may be backups of this store, or may have some, and cannot be looked at."""
    path = os.path.realpath(path)
    copies = [os.path.join(os.path.dirname(path), each) for each in beside(path)]
    found = [file for file in copies if not backup_places.is_readable(file)]
    return found + backup_places.unseen(f"{path}{LIST}", default_folder(path), pattern(path))


def any_of(path: str) -> bool:
    """Whether there is a copy of this store, whatever became of the store itself."""
    path = os.path.realpath(path)
    return bool([each for each in beside(path) if not each.endswith(backup.PARTIAL)] or known(path))


def older(path: str, before: str) -> tuple[str, ...]:
    """The backups from before a time, which contain what was forgotten since; oldest first."""
    return tuple(file for when, file in known(path) if when < before)


def beside(path: str) -> list[str]:
    """The names of the copies beside a store; none if there is no such folder."""
    with suppress(OSError):
        return backup.names(path)
    return []
