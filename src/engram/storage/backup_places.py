"""Where the user's backups are: a list of folders and files, and the times in the names of backups.

A receipt of forgetting names the backups that still contain the text, wherever they are. So each place that got a
backup is noted in a list. The list is a file and not a table, because a restore must not undo it.
"""

from __future__ import annotations

import json
import os
import re
import stat
from contextlib import suppress
from typing import NamedTuple

from ..clock import stamp
from ..errors import Conflict
from ..private_files import FILE_MODE, make_folder, open_regular
from . import backup, database, helper_names
from .backup import PARTIAL, STAMP, is_alive

#: The end of the name of a list.
LIST = ".backups"
#: The folder that has the backups unless another one is named.
FOLDER = "backups"


def target(given: str | None, default: str, name: str) -> tuple[str, bool]:
    """The file that a backup is written to, and whether it is one of those that rotate: in a folder, with this name.

    `given` is a folder or a new file; None: the default folder. A new name without an ending is a folder. Otherwise the
    first backup of a nightly job would make a file, and the second one would fail.
    """
    if given is None:
        return os.path.join(default, name), True
    database.require_name(given)
    helper_names.refuse(given)
    place = os.path.abspath(given)
    if os.path.isdir(place) or given.endswith(os.sep):
        return os.path.join(place, name), True
    if os.path.lexists(place):
        raise exists(place)
    if not os.path.splitext(place)[1]:
        return os.path.join(place, name), True
    return place, False


def exists(file: str) -> Conflict:
    return Conflict(f"{file} exists. Name a new file or a folder; a backup replaces nothing.")


def remember(list_file: str, place: str, now: str) -> bool:
    """Add a folder or a file with a backup to a list, unless it is there. Returns whether it is there now.

    A list that cannot be written stops no backup: the disk of the store may be full or broken.
    """
    if any(each == place for _, each in places(list_file)):
        return True
    with suppress(OSError):
        make_folder(os.path.dirname(list_file))
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(list_file, flags, FILE_MODE)
        try:
            os.fchmod(descriptor, FILE_MODE)
            # A line of its own, also if the last process was killed while it wrote. As JSON, because a path may
            # contain a line break.
            line = f"\n{now} {json.dumps(place)}\n".encode()
            return os.write(descriptor, line) == len(line)
        finally:
            os.close(descriptor)
    return False


def places(list_file: str) -> list[tuple[str, str]]:
    """When each place was listed, and its path."""
    found = []
    with suppress(OSError), open_regular(list_file) as lines:
        for line in lines:
            when, _, place = line.decode("utf-8", "replace").partition(" ")
            # Of a process that was killed while it wrote, half a line is left.
            with suppress(ValueError):
                found.append((when, str(json.loads(place))))
    return found


def known(list_file: str, default: str, pattern: re.Pattern[str]) -> list[tuple[str, str]]:
    """Every backup that is still there, oldest first: when it was made, and its path.

    In a folder, a backup has a name that fits the pattern. The default folder need not be listed.
    """
    listed = places(list_file)
    folders = dict.fromkeys([default, *(place for _, place in listed if os.path.isdir(place))])
    found = [(made_at(file), file) for folder in folders for file in named(folder, pattern)]
    return sorted(found + [(when, place) for when, place in listed if os.path.isfile(place)])


def drafts(list_file: str, default: str, pattern: re.Pattern[str]) -> list[str]:
    """What killed backups left of their drafts, in all places; in a folder, those with names that fit the pattern."""
    found = []
    for place in dict.fromkeys([default, *(place for _, place in places(list_file))]):
        folder = place if os.path.isdir(place) else os.path.dirname(place)
        start = pattern.pattern if os.path.isdir(place) else re.escape(os.path.basename(place))
        names = named(folder, re.compile(rf"{start}\.\d+{re.escape(PARTIAL)}"))
        found += [file for file in names if not is_alive(file.split(".")[-2])]
    return found


class Rotated(NamedTuple):
    """What became of the older backups."""

    removed: tuple[str, ...] = ()
    #: Those that should have been removed, and could not be.
    stuck: tuple[str, ...] = ()


def remove(files: list[str]) -> Rotated:
    """Remove older backups. The new one is complete, so one that cannot be removed is named, and is no error."""
    removed, stuck = [], []
    for file in files:
        try:
            backup.remove(file)
            removed.append(file)
        except OSError:
            stuck.append(file)
    return Rotated(tuple(removed), tuple(stuck))


def named(folder: str, pattern: re.Pattern[str]) -> list[str]:
    """The regular files of a folder whose names fit a pattern, by name. Links are left out."""
    return [file for file in files(folder) if pattern.fullmatch(os.path.basename(file))]


def files(folder: str) -> list[str]:
    """The regular files of a folder by name; names of backups of one store sort by their time."""
    try:
        return _regular(folder)
    except OSError:
        return []


def unseen(list_file: str, default: str, pattern: re.Pattern[str]) -> list[str]:
    """What cannot be looked at: the list, folders on it that are missing or not readable, and backups in the others.

    A folder may be missing because its disk is not mounted. A file that is missing in its folder was deleted.
    """
    found = [] if _can_be_read(list_file) else [list_file]
    for place in dict.fromkeys([default, *(place for _, place in places(list_file))]):
        try:
            inside = _regular(place) if stat.S_ISDIR(os.stat(place).st_mode) else None
        except (FileNotFoundError, NotADirectoryError):
            was_deleted = os.path.splitext(place)[1] and os.path.isdir(os.path.dirname(place))
            if place != default and not was_deleted:
                found.append(place)
        except OSError:
            found.append(place)
        else:
            named = (
                [place] if inside is None else [each for each in inside if pattern.fullmatch(os.path.basename(each))]
            )
            found += [each for each in named if not is_readable(each)]
    return found


def is_readable(file: str) -> bool:
    """Whether there is nothing in a file, or its beginning can be read."""
    try:
        return not backup.size(file) or bool(database.first_bytes(file, 1))
    except OSError:
        return False


def _can_be_read(list_file: str) -> bool:
    try:
        with open_regular(list_file):
            return True
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _regular(folder: str) -> list[str]:
    with os.scandir(folder) as entries:
        return sorted(each.path for each in entries if _is_regular(each))


def _is_regular(entry: os.DirEntry[str]) -> bool:
    # One that is deleted at this moment does not hide the others.
    with suppress(FileNotFoundError):
        return stat.S_ISREG(entry.stat(follow_symlinks=False).st_mode)
    return False


def made_at(file: str) -> str:
    """When a backup was made: by its name, or by the file's own time."""
    found = re.search(rf"-({STAMP})(?:\.\w+)?$", os.path.basename(file))
    if found is None:
        with suppress(OSError):
            return stamp(os.stat(file).st_mtime)
        return ""
    text = found[1]
    day, clock = f"{text[:4]}-{text[4:6]}-{text[6:8]}", f"{text[9:11]}:{text[11:13]}:{text[13:15]}"
    return f"{day}T{clock}.{text[15:]}Z"
