"""The names of the files that a store may have beside it.

SQLite deletes or reads a log and a journal by their names alone, and Engram removes drafts by theirs. So nothing else
may be written under such a name, whether the store exists or not.
"""

from __future__ import annotations

import os
import re

from ..errors import InvalidInput

_HELPER = re.compile(
    r"(?s)(.+?)"
    # Those of SQLite.
    r"(-journal|-wal|-shm"
    # The list of backups, a copy into this store with its lock, a file that is about to take the store's place, and the
    # lock of the process that changes the key.
    r"|\.backups|\.copying|\.copying-lock|\.next|\.replaced|\.changing-lock"
    # Backups from before a migration or a restore, and drafts.
    r"|\.(before-\w+|incoming-\d+)-\d{8}t\d{12}|\.partial)"
)


#: The ends of the names of files that SQLite has open while it uses a database. The log is the first to be removed.
OF_SQLITE = ("-wal", "-shm", "-journal")


def is_of_sqlite(path: str) -> bool:
    """Whether a file is the log, its index or the journal of a database, by its name or by the name it links to.

    Nobody else may open one. Closing any descriptor of the index drops this process's locks on it. Then another process
    takes itself for the first one and cuts the index short, and this process dies of it.
    """
    return any(each.endswith(OF_SQLITE) for each in (path, os.path.realpath(path)))


def store_of(path: str) -> str | None:
    """The store that a file of this name belongs to; None if it is no name of a helper file."""
    folder, name = os.path.split(path)
    found = _HELPER.fullmatch(name)
    return os.path.join(folder, found[1]) if found else None


def refuse(path: str) -> None:
    """Raise InvalidInput if a file at this path, or where it links to, would be taken for a helper of a store."""
    for each in (path, os.path.realpath(path)):
        store = store_of(each.rstrip("/"))
        if store is not None:
            raise InvalidInput(
                f"{each} is a name that Engram or SQLite uses for files of the store {store}; nothing was written. "
                "Choose another name."
            )
