"""Folders and files that only their owner can use, with any umask.

A umask may remove rights from the requested mode, and `os.makedirs` applies its mode only to the last folder. So every
mode is set explicitly. Existing files and folders keep their mode.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from io import BufferedReader

FOLDER_MODE, FILE_MODE = 0o700, 0o600


def make_folder(path: str) -> None:
    """Make a folder and its missing parents. Only the owner can use them."""
    if not path or os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    if parent != path:
        make_folder(parent)
    try:
        os.mkdir(path, FOLDER_MODE)
    except FileExistsError:
        # Another process made the folder first, or a file has this name. The caller's next step fails on a file.
        return
    os.chmod(path, FOLDER_MODE)


def make_file(path: str) -> None:
    """Make an empty file. Raises FileExistsError if the file exists."""
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, FILE_MODE)
    try:
        os.fchmod(descriptor, FILE_MODE)
    finally:
        os.close(descriptor)


def give_name(draft: str, path: str) -> None:
    """Give a complete file its name. Raises FileExistsError if the name is taken."""
    try:
        os.link(draft, path)
    except FileExistsError:
        raise
    except OSError:
        # A file system without links. The moment between the two steps is short.
        if os.path.lexists(path):
            raise FileExistsError(path) from None
        os.rename(draft, path)


def mode(path: str) -> int:
    """The mode of a file or folder; 0 for a symbolic link, and if there is none."""
    try:
        found = os.lstat(path)
    except OSError:
        return 0
    return 0 if stat.S_ISLNK(found.st_mode) else stat.S_IMODE(found.st_mode)


def take_rights(paths: Iterable[str], rights: int) -> int:
    """Take rights away. Returns for how many of these files and folders that was possible."""
    done = 0
    for path in paths:
        with suppress(OSError):
            os.chmod(path, mode(path) & ~rights)
            done += 1
    return done


def open_regular(path: str) -> BufferedReader:
    """Open a file for reading. OSError if it is a pipe, a device or a folder: reading one may take for ever."""
    # Without O_NONBLOCK, opening a pipe would wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file", path)
    return open(descriptor, "rb")


def sync(path: str) -> None:
    """Wait until a file, or a folder's entries, are on the disk.

    Do not use it on an open database: closing the descriptor drops this process's locks on the file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
