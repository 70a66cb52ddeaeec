"""The folder of pages that an export writes, and how it gets its name.

The folder has a list of its files, `.engram-export`. Each file is listed before it is written. So a later export knows,
also after a kill, which files are its own. It removes those and nothing else. A folder with any other file is not
replaced: the file may be the user's, and even a store.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from .. import private_files
from ..errors import FileExists
from ..storage import backup, helper_names
from .places import abandoned, draft_of, refuse_existing, unwritable

#: The list of the files. A folder without it is not of an export.
MARKER = ".engram-export"
_TITLE = "This folder was written by `engram export --format markdown`. Its files:"
#: How the name of the folder ends that is being replaced.
_REPLACED = ".replaced"


@contextmanager
def new_folder(place: str, force: bool) -> Iterator[Folder]:
    """A folder that only its owner can read. It gets its name when the block has ended without an error."""
    helper_names.refuse(place)
    # A symbolic link stays; its target is replaced.
    shown, place = place, os.path.realpath(place)
    draft = draft_of(place)
    try:
        _refuse(shown, force)
        # A process that had the same number may have left the draft.
        for old in (*abandoned(place, backup.PARTIAL), draft):
            _remove(old)
        if os.path.lexists(draft):
            raise FileExists(f"{draft} is in the way. Move it away, or name another folder.")
        private_files.make_folder(draft)
        folder = Folder(draft)
        try:
            yield folder
        finally:
            folder.close()
        folder.sync()
        _put_in_place(draft, place)
        # An earlier export that a killed process was replacing may be the only one, so it stays until now.
        for old in abandoned(place, _REPLACED):
            _remove(old)
    except OSError as error:
        raise unwritable(error, shown) from error
    finally:
        _remove(draft)


class Folder:
    """The pages of one export."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.pages = 0
        self.bytes = 0
        self._made: set[str] = set()
        marker = os.path.join(path, MARKER)
        private_files.make_file(marker)
        # A line at a time, so that a killed process leaves a list of all its files.
        self._list = open(marker, "a", encoding="utf-8", newline="\n", buffering=1)  # noqa: SIM115
        self._list.write(f"{_TITLE}\n")

    def write(self, name: str, parts: Iterator[str] | list[str]) -> None:
        """Write parts of a page, separated by blank lines. A page that exists goes on."""
        path = os.path.join(self._path, name)
        first = name not in self._made
        if first:
            self._list.write(f"{name}\n")
            private_files.make_folder(os.path.dirname(path))
            private_files.make_file(path)
            self._made.add(name)
            self.pages += 1
        with open(path, "a", encoding="utf-8", newline="\n") as file:
            for part in parts:
                text = f"{part}\n" if first else f"\n{part}\n"
                first = False
                self.bytes += len(text.encode())
                file.write(text)

    def close(self) -> None:
        self._list.close()

    def sync(self) -> None:
        """Wait until all pages are on the disk."""
        for folder, _, files in os.walk(self._path):
            for path in (*(os.path.join(folder, name) for name in files), folder):
                private_files.sync(path)


def _refuse(place: str, force: bool) -> None:
    """Refuse to replace anything but an earlier export."""
    refuse_existing(place, force)
    if not os.path.lexists(place):
        return
    if not os.path.isfile(os.path.join(place, MARKER)):
        raise FileExists(f"{place} is not a folder of an earlier export, so it is not replaced. Name another folder.")
    _, others = _files(place)
    if others:
        raise FileExists(
            f"{place} has files that the earlier export did not write, so it is not replaced: {_shown(others)}. Move "
            "them away, or name another folder."
        )


def _shown(names: list[str]) -> str:
    # A name of a file is any bytes.
    known = [os.fsencode(name).decode(errors="replace") for name in names[:3]]
    return ", ".join([*known, f"and {len(names) - 3:,} more"] if len(names) > 3 else known)


def _files(folder: str) -> tuple[list[str], list[str]]:
    """The files in a folder that an export wrote, and all others. A link to a folder counts as a file."""
    listed = {MARKER, *_listed(folder)}
    own: list[str] = []
    others: list[str] = []
    for path, folders, files in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(path, name))]
        for name in (*files, *links):
            found = os.path.relpath(os.path.join(path, name), folder)
            (own if found in listed else others).append(found)
    return own, sorted(others)


def _listed(folder: str) -> list[str]:
    with open(os.path.join(folder, MARKER), encoding="utf-8", errors="replace", newline="\n") as file:
        return file.read().split("\n")[1:]


def _put_in_place(draft: str, place: str) -> None:
    old = f"{place}.{os.getpid()}{_REPLACED}"
    if os.path.lexists(place):
        os.rename(place, old)
    os.rename(draft, place)
    private_files.sync(os.path.dirname(place))
    _remove(old)


def _remove(folder: str) -> None:
    """Remove what an export wrote, and the folders that are empty then. Without the list, nothing is removed."""
    if not os.path.isfile(os.path.join(folder, MARKER)):
        return
    with suppress(OSError):
        own, _ = _files(folder)
        # The list is last: if the process is killed here, the next one goes on.
        for name in sorted(own, key=MARKER.__eq__):
            os.unlink(os.path.join(folder, name))
        for path, _, _ in os.walk(folder, topdown=False):
            with suppress(OSError):
                os.rmdir(path)
