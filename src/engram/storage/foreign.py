"""Refuses databases of other programs, and leaves them exactly as they are.

Opening a database for writing can change it, even if nothing is written: SQLite rolls back a journal that was left, and
copies a write-ahead log into the file when the last connection closes. So the file itself is looked at first,
read-only, without its journal, its log and any lock (`immutable`). That look may see an old state. It therefore refuses
only what has tables and another `application_id` than ours; a store has both on its first page.

Of systems whose data Engram can import, the refusal names the command for that.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

import apsw

from ..errors import NotAStore
from ..other_systems import TABLES, System, recognised
from . import database
from .database import APPLICATION_ID

if TYPE_CHECKING:
    from .keys import Keys

_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
_COLUMNS = "SELECT name FROM pragma_table_info(?)"


def require_regular(path: str) -> None:
    """Raise NotAStore if a pipe or a device is at the path. To open one may take for ever."""
    with suppress(OSError):
        mode = os.stat(path).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise NotAStore(
                f"{path} is no regular file, so it cannot be a store; it was not changed. Give another path with "
                "--store or ENGRAM_URL."
            )


def refuse(path: str, keys: Keys) -> bytes | None:
    """The key of the store; None if it is not encrypted.

    Raises NotAStore if the file is a database of another program, and StoreEncrypted if no key opens it. A file that
    cannot be read now is left to the usual opening, which says what is wrong with it.
    """
    require_regular(path)
    try:
        connection = database.connect(database.immutable(path), None, flags=database.READ_ONLY | apsw.SQLITE_OPEN_URI)
    except apsw.Error:
        return None
    try:
        # The header is enough for a store. Every hook opens one, and reading all tables takes longer.
        if connection.pragma("application_id") != APPLICATION_ID:
            check_ours(connection, path)
    except (apsw.NotADBError, apsw.CorruptError):
        return database.key_of(path, keys)
    except (apsw.Error, UnicodeDecodeError):
        return None
    finally:
        connection.close()
    return None


def check_ours(connection: apsw.Connection, path: str) -> None:
    """Raise an error if an open database is of another program, before anything in it is changed.

    The error is NotAStore, or SQLite's if the file is no database.
    """
    # In this order, because another process may be creating the store now. It writes both in one transaction.
    empty = connection.execute("SELECT count(*) FROM sqlite_schema").fetchall() == [(0,)]
    if empty and os.path.getsize(path) == 1:
        # SQLite takes such a file for an empty one, and would replace it.
        raise apsw.NotADBError("file is not a database")
    found = connection.pragma("application_id")
    if found != APPLICATION_ID and not (empty and found == 0):
        raise _refusal(connection, path)


def _refusal(connection: apsw.Connection, path: str) -> NotAStore:
    system = _recognised(connection)
    if system is None or system.format is None:
        return NotAStore(
            f"{path} is an SQLite database, but not an Engram store; it was not changed. "
            "Give another path with --store or ENGRAM_URL."
        )
    import shlex

    return NotAStore(
        f"{path} is a database of {system.title}, not an Engram store; it was not changed. Give the store another path "
        f"with --store or ENGRAM_URL, and import what is in this file: engram import {system.format} "
        f"{shlex.quote(path)}"
    )


def _recognised(connection: apsw.Connection) -> System | None:
    tables = {}
    for (table,) in connection.execute(_TABLES).fetchall():
        if str(table).lower() in TABLES:
            columns = connection.execute(_COLUMNS, (table,)).fetchall()
            tables[str(table).lower()] = {str(name).lower() for (name,) in columns}
    return recognised(tables)
