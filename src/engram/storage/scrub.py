"""Nothing of a deleted row stays in an SQLite file.

`secure_delete` overwrites deleted cells and freed pages, but not everything: when SQLite moves cells between pages to
balance a tree, the old page keeps their bytes in its unused middle, between the cell pointers and the cells. Only a
VACUUM would remove them, which writes the whole file anew. This reads the file instead and overwrites the middles that
are not empty. Nobody ever reads those bytes, so readers need not be kept out.

Writers must be, and the write-ahead log must be empty: a page in it would come back over the cleaned one. At the end a
commit tells the other connections that their cached pages are old, or they would write the bytes back with them.

The file is read and written through SQLite's own file layer, because closing a descriptor of Python's would drop this
process's locks on it.
"""

from __future__ import annotations

import os
import time

import apsw

#: Pages read at once.
_PORTION = 1_024
#: The first byte of a page of a tree: interior and leaf, of an index and of a table.
_INTERIOR, _LEAF = (2, 5), (10, 13)
_FILE_HEADER = 100
#: Seconds between two looks whether others have finished.
_PAUSE = 0.002
#: SQLite never uses the page with this byte.
_LOCK_BYTE = 0x4000_0000

#: There and back: an update that changes nothing is not written, and nobody would hear of it.
_ANNOUNCE = (
    "UPDATE migrations SET works_with = works_with + 1 WHERE number = 1",
    "UPDATE migrations SET works_with = works_with - 1 WHERE number = 1",
)


def scrub(connection: apsw.Connection, path: str, patience: float) -> bool:
    """Clean the file; False when others read or wrote for so long that it could not be done."""
    deadline = time.monotonic() + patience

    def wait(_: int) -> bool:
        time.sleep(_PAUSE)
        return time.monotonic() < deadline

    # Writers wait while the checkpoint waits for readers, so it looks more often than SQLite does by itself.
    connection.set_busy_handler(wait)
    while True:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("BEGIN IMMEDIATE")
        try:
            if _size(f"{path}-wal") == 0:
                _clean(path, connection.pragma("page_size"))
                for statement in _ANNOUNCE:
                    connection.execute(statement)
                connection.execute("COMMIT")
                return True
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _clean(path: str, page_size: int) -> None:
    flags = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE, 0]
    file = apsw.VFSFile("", path, flags)
    try:
        size = file.xFileSize()
        for start in range(0, size, _PORTION * page_size):
            portion = file.xRead(min(_PORTION * page_size, size - start), start)
            for position in range(0, len(portion), page_size):
                first, end = _middle(portion, position, page_size, start + position)
                if portion.count(0, first, end) != end - first:
                    file.xWrite(bytes(end - first), start + first)
        file.xSync(apsw.SQLITE_SYNC_NORMAL)
    finally:
        file.xClose()


def _middle(portion: bytes, position: int, page_size: int, offset: int) -> tuple[int, int]:
    """Where the unused middle of a page begins and ends within the portion; nothing for what is not a tree's page."""
    head = position + (_FILE_HEADER if offset == 0 else 0)
    kind = portion[head]
    if kind not in _INTERIOR + _LEAF or offset <= _LOCK_BYTE < offset + page_size:
        return position, position
    cells = int.from_bytes(portion[head + 3 : head + 5], "big")
    content = int.from_bytes(portion[head + 5 : head + 7], "big") or 65_536
    first = head + (12 if kind in _INTERIOR else 8) + 2 * cells
    end = position + content
    # A page that contradicts itself is left alone; the integrity check is for that.
    return (first, end) if first <= end <= position + page_size else (position, position)
