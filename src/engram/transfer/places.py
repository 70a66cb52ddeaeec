"""The file or the folder that an export writes, and how it gets its name.

An export is written under a draft name beside its place, which has the number of the process: `….123.partial`. A killed
process leaves its draft, which is plain text. The next export to the same place removes it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

from .. import private_files
from ..errors import FileExists, InvalidInput, StoreFull
from ..storage import backup, database, helper_names
from . import jsonl

STANDARD_OUTPUT = "-"
_BUFFER = 1024 * 1024


def draft_of(place: str) -> str:
    return f"{place}.{os.getpid()}{backup.PARTIAL}"


@contextmanager
def new_file(place: str, force: bool) -> Iterator[IO[bytes]]:
    """A file that only its owner can read. It gets its name when the block has ended without an error."""
    helper_names.refuse(place)
    refuse_existing(place, force)
    if os.path.isdir(place):
        raise InvalidInput(f"{place} is a folder; give the name of a file.")
    if os.path.lexists(place) and not _is_export(place):
        raise FileExists(f"{place} is not an earlier export, so it is not replaced. Name another file.")
    # A symbolic link stays; its target is replaced.
    place = os.path.realpath(place)
    draft = draft_of(place)
    try:
        for old in abandoned(place, backup.PARTIAL):
            # That of a folder of pages is not ours, and another user's cannot be removed.
            with suppress(OSError):
                os.unlink(old)
        with suppress(FileNotFoundError):
            os.unlink(draft)
        private_files.make_file(draft)
        with open(draft, "wb", buffering=_BUFFER) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if force:
            os.replace(draft, place)
        else:
            private_files.give_name(draft, place)
        private_files.sync(os.path.dirname(place))
    except FileExistsError as error:
        raise _exists(place) from error
    except OSError as error:
        raise unwritable(error, place) from error
    finally:
        # What went wrong before is said; it may be a name that is too long for this call, too.
        with suppress(OSError):
            os.unlink(draft)


def refuse_existing(place: str, force: bool) -> None:
    if not force and os.path.lexists(place):
        raise _exists(place)


def abandoned(place: str, end: str) -> list[str]:
    """What dead processes left beside the place under a name that has their number and this end."""
    folder, name = os.path.split(place)
    start = f"{name}."
    found = []
    with suppress(FileNotFoundError, NotADirectoryError):
        for entry in os.listdir(folder):
            if not (entry.startswith(start) and entry.endswith(end)):
                continue
            process = entry[len(start) : len(entry) - len(end)]
            if process.isascii() and process.isdigit() and not backup.is_alive(process):
                found.append(os.path.join(folder, entry))
    return sorted(found)


def unwritable(error: OSError, place: str) -> Exception:
    """What to say if a file cannot be written."""
    import errno

    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreFull(f"The disk that should hold {place} is full; nothing was left there. Free some space.")
    return InvalidInput(f"{place} cannot be written: {error.strerror}. Choose another place.")


def _is_export(place: str) -> bool:
    """Whether a file begins like an export. It may also be a store that this process has open."""
    return os.path.isfile(place) and database.first_bytes(place, len(jsonl.START)) == jsonl.START


def _exists(place: str) -> FileExists:
    return FileExists(f"{place} exists already; nothing was written.", typed="Add --force to replace it.")
