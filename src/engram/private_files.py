"""Folders and files that only their owner can use, whatever the umask is.

A umask may take rights from the mode that a call asks for, and `os.makedirs` applies its mode to the last folder only.
So every mode is set explicitly. What was there before keeps its own mode.
"""

from __future__ import annotations

import os

FOLDER_MODE, FILE_MODE = 0o700, 0o600


def make_folder(path: str) -> None:
    """Make a folder and the missing ones above it, each for its owner alone."""
    if not path or os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    if parent != path:
        make_folder(parent)
    try:
        os.mkdir(path, FOLDER_MODE)
    except FileExistsError:
        # Another process was faster, or there is a file, which the caller will find out.
        return
    os.chmod(path, FOLDER_MODE)


def make_file(path: str) -> None:
    """Make an empty file; an error if there is one."""
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, FILE_MODE)
    try:
        os.fchmod(descriptor, FILE_MODE)
    finally:
        os.close(descriptor)


def sync(path: str) -> None:
    """Wait until a file, or a folder's entries, are on the disk. Not for a database that somebody has open: closing a
    descriptor of it drops the process's locks."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
