"""Opens the SQLite file of a store directly, without Engram, also if it is encrypted."""

from __future__ import annotations

import os

import apsw

from engram.config import load
from engram.storage import database
from engram.storage.keys import Keys


def connect(path: str, flags: int = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE) -> apsw.Connection:
    """A connection as another program has it that knows the key of the settings."""
    settings = load(url=path)
    keys = Keys(settings.key_file)
    is_new = settings.encrypt_new == "on" and not (os.path.exists(path) and os.path.getsize(path))
    return database.connect(path, keys.newest() if is_new else database.key_of(path, keys), flags=flags)
