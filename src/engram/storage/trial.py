"""Stores for trials and tests of other programs: a temporary file that goes when the store is closed, or at exit.

It is a file and not SQLite's own `:memory:`, because each connection to that has a database of its own, and the threads
of a process have several connections.
"""

from __future__ import annotations

import atexit
import os

#: Folders of trial stores, and the process that made each. A forked child must not remove its parent's.
_made: dict[str, int] = {}


def make() -> str:
    """The path of a store that does not exist yet, in a new folder that only its owner can use."""
    import tempfile

    folder = tempfile.mkdtemp(prefix="engram-trial-")
    if not _made:
        atexit.register(_remove_all)
    _made[folder] = os.getpid()
    return os.path.join(folder, "engram.db")


def remove(path: str) -> None:
    """Remove a trial store. Does nothing in another process than the one that made it, and the second time."""
    folder = os.path.dirname(path)
    if _made.get(folder) == os.getpid():
        import shutil

        del _made[folder]
        shutil.rmtree(folder, ignore_errors=True)


def _remove_all() -> None:
    for folder in list(_made):
        remove(os.path.join(folder, "engram.db"))
