"""Removes the last bytes of deleted rows from an SQLite file.

`secure_delete` overwrites deleted cells and freed pages, but not everything. When SQLite moves cells between pages to
balance a tree, the old page keeps their bytes in its unused space, between the cell pointers and the cells. VACUUM
removes them, but it rewrites the whole file. This module reads the file and overwrites only unused space that is not
empty. SQLite never reads those bytes, so readers can continue.

Writers must wait, and the write-ahead log must be empty: SQLite would copy a page from the log over the cleaned page. A
commit at the end makes the other connections drop their cached pages; otherwise they would write the bytes back.

The pages of an encrypted file are not readable from outside SQLite. There VACUUM removes the bytes. Its temporary file
is encrypted, too, so it need not be in memory.

The file is read and written through SQLite's file layer, because closing a Python descriptor would drop this process's
locks on the file.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import apsw

from . import backup

if TYPE_CHECKING:
    from collections.abc import Callable

#: Pages read at once.
_PORTION = 1_024
#: The first byte of a tree page, each for an index and for a table.
_INTERIOR, _LEAF = (2, 5), (10, 13)
_FILE_HEADER = 100
#: Seconds between two checks whether other connections have finished.
_PAUSE = 0.002
#: SQLite never uses the page with this byte.
_LOCK_BYTE = 0x4000_0000

#: Two updates that cancel each other. SQLite would not write an update without a change, and other connections would
#: not notice it.
_ANNOUNCE = (
    "UPDATE migrations SET works_with = works_with + 1 WHERE number = 1",
    "UPDATE migrations SET works_with = works_with - 1 WHERE number = 1",
)


def scrub(
    connection: apsw.Connection,
    path: str,
    patience: float,
    *,
    encrypted: bool = False,
    is_current: Callable[[], bool] = lambda: True,
) -> bool:
    """Clean the file. Returns False if other connections did not finish within `patience` seconds.

    `is_current` says whether the path still leads to the file that the connection has opened. If it does not, the store
    was encrypted or decrypted meanwhile, and its new file never had the bytes.
    """
    if encrypted:
        connection.execute("PRAGMA temp_store=FILE")
        connection.execute("VACUUM")
    deadline = time.monotonic() + patience

    def wait(_: int) -> bool:
        time.sleep(_PAUSE)
        return time.monotonic() < deadline

    # Writers wait while the checkpoint waits for readers, so it checks more often than SQLite does by default.
    connection.set_busy_handler(wait)
    while True:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Nobody replaces the file while this connection has its write lock.
            if not is_current():
                return True
            if backup.size(f"{path}-wal") == 0:
                if not encrypted:
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


def _clean(path: str, page_size: int) -> None:
    flags = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE, 0]
    file = apsw.VFSFile("", path, flags)
    try:
        size = file.xFileSize()
        for start in range(0, size, _PORTION * page_size):
            portion = file.xRead(min(_PORTION * page_size, size - start), start)
            for position in range(0, len(portion), page_size):
                first, end = _unused_space(portion, position, page_size, start + position)
                if portion.count(0, first, end) != end - first:
                    file.xWrite(bytes(end - first), start + first)
        file.xSync(apsw.SQLITE_SYNC_NORMAL)
    finally:
        file.xClose()


def _unused_space(portion: bytes, position: int, page_size: int, offset: int) -> tuple[int, int]:
    """The start and end of a page's unused space within the portion. Empty if it is not a tree page."""
    head = position + (_FILE_HEADER if offset == 0 else 0)
    kind = portion[head]
    if kind not in _INTERIOR + _LEAF or offset <= _LOCK_BYTE < offset + page_size:
        return position, position
    cells = int.from_bytes(portion[head + 3 : head + 5], "big")
    content = int.from_bytes(portion[head + 5 : head + 7], "big") or 65_536
    first = head + (12 if kind in _INTERIOR else 8) + 2 * cells
    end = position + content
    # An inconsistent page is left unchanged. The integrity check reports it.
    return (first, end) if first <= end <= position + page_size else (position, position)
