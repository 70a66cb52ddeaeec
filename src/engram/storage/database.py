"""Opens the SQLite files of stores. Every module that opens a store, a backup or a draft does it here.

A store may be encrypted, with SQLite3 Multiple Ciphers: ChaCha20 for every page, and Poly1305, which finds a changed
page. The package `apsw-sqlite3mc` carries it. The key is 32 random bytes and is given as it is. A passphrase would be
stretched at every opening, which takes as long as a hook may.

An encrypted file begins with 16 bytes of salt, which only a passphrase needs. Engram writes a fixed text there, so that
an encrypted store is never taken for a file of another program, nor for a damaged store. The next eight bytes are
SQLite's own and plain: the size of a page. Everything else is encrypted, also in the write-ahead log, in journals, and
in the temporary file of VACUUM.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import apsw

from ..errors import InvalidInput, MissingExtra, StoreEncrypted
from ..private_files import make_file, sync
from . import helper_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .keys import Keys

#: Written into the file's header ("Engr"), so that a database of another program is never taken for a store.
APPLICATION_ID = 0x456E6772
#: How every SQLite file begins that is not encrypted, and where the `application_id` is in it.
_SQLITE_FILE, _ID_AT = b"SQLite format 3\0", 68
#: Milliseconds to wait for a lock, unless the caller sets another time. The last process that closes a store locks it
#: for a moment, also against reading.
_PATIENCE = 5_000
#: Bytes that are read at once.
_PORTION = 1024 * 1024

#: Two packages install the module `apsw`. Removing one of them removes files of the other.
_REINSTALL = "pip uninstall --yes apsw; pip install --force-reinstall --no-deps apsw-sqlite3mc"
if not hasattr(apsw, "Connection"):
    raise MissingExtra(f"The module apsw is incomplete, because the package apsw was removed. Run: {_REINSTALL}")

READ_WRITE = apsw.SQLITE_OPEN_READWRITE
READ_ONLY = apsw.SQLITE_OPEN_READONLY

#: The first bytes of every encrypted file.
MARK = b"Engram encrypted"
#: What comes before the key in the URI of a file. A path in a URI has no question mark: see `quoted`.
_KEY = "?key="


def connect(path: str, key: bytes | None, *, flags: int = READ_WRITE, cache: int = 100) -> apsw.Connection:
    """Open a file, with its key if it is encrypted. Nothing is read yet, so a wrong key shows at the first statement.

    With the flag SQLITE_OPEN_URI, `path` is a URI.
    """
    require_name(path)
    _refuse_helper(path)
    connection = apsw.Connection(path, flags=flags, statementcachesize=cache)
    connection.set_busy_timeout(_PATIENCE)
    if key is not None:
        try:
            _require_cipher(path)
            connection.execute(f"PRAGMA key='{_raw(key)}'")
        except BaseException:
            connection.close()
            raise
    return connection


def require_name(path: str) -> None:
    """Raise InvalidInput for a name that SQLite cannot open, as an old disk may have it."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"The name {path!a} is not UTF-8, so SQLite cannot open it. Rename it.") from None


def _refuse_helper(path: str) -> None:
    file = path.removeprefix("file://").partition("?")[0] if path.startswith("file://") else path
    if helper_names.is_of_sqlite(file):
        raise InvalidInput(f"{file} belongs to a database that may be in use, so it is not opened. Name the database.")


def immutable(path: str) -> str:
    """The URI that reads a file as it is: without its log, its journal and any lock."""
    return f"file://{quoted(path)}?immutable=1"


def open_copy(file: str, key: bytes | None) -> apsw.Connection:
    """Open a backup for reading. Without a log beside it no process has it open; then SQLite must not make a log."""
    alone = "" if os.path.exists(f"{file}-wal") else "&immutable=1"
    address = f"file://{quoted(os.path.abspath(file))}?mode=ro{alone}"
    return connect(address, key, flags=READ_ONLY | apsw.SQLITE_OPEN_URI)


def is_encrypted(path: str) -> bool:
    """Whether the file is an encrypted store or backup."""
    return first_bytes(path, len(MARK)) == MARK


def first_bytes(path: str, number: int) -> bytes:
    """The beginning of a file; less if it is shorter. It is read through SQLite, which keeps this process's locks.

    Nothing of a log, its index or a journal: see `helper_names`. Nothing of a pipe or a device, because opening one may
    take for ever.
    """
    if helper_names.is_of_sqlite(path):
        return b""
    try:
        require_name(path)
        if os.path.exists(path) and not os.path.isfile(path):
            return b""
        file = apsw.VFSFile("", os.path.realpath(path), [apsw.SQLITE_OPEN_MAIN_DB | READ_ONLY, 0])
    except (apsw.Error, InvalidInput):
        return b""
    try:
        return bytes(file.xRead(number, 0))
    except apsw.Error:
        return b""
    finally:
        file.xClose()


def portions(path: str) -> Iterator[bytes]:
    """All of a file, read like `first_bytes`. For copies of what SQLite cannot read any more, also of a log."""
    file = apsw.VFSFile("", os.path.realpath(path), [apsw.SQLITE_OPEN_MAIN_DB | READ_ONLY, 0])
    try:
        at = 0
        while portion := bytes(file.xRead(min(_PORTION, file.xFileSize() - at), at)):
            yield portion
            at += len(portion)
    finally:
        file.xClose()


def is_store(path: str) -> bool:
    """Whether a file begins like an Engram store, plain or encrypted."""
    found = first_bytes(path, _ID_AT + 4)
    is_plain = found.startswith(_SQLITE_FILE) and found[_ID_AT:] == APPLICATION_ID.to_bytes(4, "big")
    return is_plain or found.startswith(MARK)


def is_of_store(path: str) -> bool:
    """Whether a file is a store, or a file that SQLite has beside one. Python must not open such a file."""
    return helper_names.is_of_sqlite(path) or is_store(path)


def key_of(path: str, keys: Keys) -> bytes | None:
    """The key that opens a file; None if the file is not encrypted. Raises StoreEncrypted if no key does."""
    if not is_encrypted(path):
        return None
    known = keys.read()
    # First without locks, which takes a fraction of the time. A page that is being written may not be readable so.
    for address, flags in ((immutable(path), READ_ONLY | apsw.SQLITE_OPEN_URI), (path, READ_WRITE)):
        for key in known:
            if _fits(address, key, flags):
                return key
    raise refusal(path, keys.place, is_known=bool(known))


def refusal(path: str, place: str, *, is_known: bool) -> StoreEncrypted:
    if is_known:
        return StoreEncrypted(
            f"{path} is encrypted, and no key in {place} opens it; it was not changed. Restore the key that "
            "encrypted it (setting key_file). If the key is right, the file is damaged: move it away, and run "
            "`engram restore FILE` with a backup."
        )
    if os.path.islink(place) and not os.path.exists(place):
        return StoreEncrypted(
            f"{path} is encrypted, and its key file {place} is a link to {os.path.realpath(place)}, which is not "
            "there; it was not changed. Mount the disk with the key file."
        )
    return StoreEncrypted(
        f"{path} is encrypted, and there is no key at {place}; it was not changed. Put your copy of the key file "
        "there, or name its place with the setting key_file (ENGRAM_KEY_FILE)."
    )


def rewrite(source: apsw.Connection, file: str, key: bytes | None) -> None:
    """Copy what a connection sees into a new file with another key, or with none, and wait until it is on the disk.

    SQLite's backup interface copies pages, and an encrypted page has less room than a plain one. So every row is
    copied. The connection is one that `connect` opened with SQLITE_OPEN_URI.
    """
    make_file(file)
    if key is not None:
        _require_cipher(file)
    failure = _vacuum_into(source, file, key)
    if failure is not None:
        raise failure
    sync(file)


def _vacuum_into(source: apsw.Connection, file: str, key: bytes | None) -> apsw.Error | None:
    """SQLite's error quotes the whole URI, with the key in it. The error that is returned, and later raised outside of
    the handler, has neither the key nor the original error as its context."""
    try:
        source.execute("VACUUM INTO ?", (f"file://{quoted(file)}{_KEY}{'' if key is None else _raw(key)}",))
    except apsw.Error as error:
        return type(error)(str(error).partition(_KEY)[0])
    return None


def _fits(address: str, key: bytes, flags: int) -> bool:
    try:
        connection = connect(address, key, flags=flags)
    except apsw.Error:
        return False
    try:
        # Closing it must not write its log into the file.
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.set_busy_timeout(0)
        connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
        return True
    except (apsw.NotADBError, apsw.IOError):
        return False
    except apsw.CorruptError:
        return True  # The first page is readable, and another is damaged.
    except apsw.Error:
        return flags == READ_WRITE  # busy or locked: not a question of the key
    finally:
        connection.close()


def _require_cipher(path: str) -> None:
    if not hasattr(apsw, "mc_version"):
        raise MissingExtra(
            f"{path} is encrypted, but the package apsw of this Python cannot encrypt: it took the place of "
            f"apsw-sqlite3mc. Run: {_REINSTALL}"
        )


def _raw(key: bytes) -> str:
    return f"raw:{key.hex()}{MARK.hex()}"


def quoted(path: str) -> str:
    """A path in a URI. These three characters mean something there."""
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
