"""Opens the store of an adapter. A program may still give the path of the database of its old system.

That database is imported once, into a store beside it, and stays as it is. The program goes on with the store. The
import is written into a draft first, which becomes the store when it is complete. An import that was interrupted begins
again, and if two processes import at once, the first one to finish wins.

The store keeps a record that it has the database of this system. So the database may be deleted later, and a store
without the record, such as an empty one, gets the import.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from .. import config
from ..client import Engram, address, first_bytes
from ..errors import NotAStore, NotOfFormat, StoreDamaged
from ..import_records import Seen

#: What the name of a draft has after that of its store, before the id of its process.
_DRAFT = ".importing-"
#: What the record of an imported database is about, in the table of imports.
_DATABASE = "database"
#: How the header of an SQLite file begins, and where in it a program writes its own number.
_SQLITE, _PROGRAM = b"SQLite format 3\x00", slice(68, 72)
#: The number of an Engram store.
_ENGRAM = b"Engr"


def open_store(place: Path | str | None, format_name: str, **settings: Any) -> Engram:
    """The store at a place, by default the user's own one; `:memory:` is one for a trial.

    `settings` take the place of the user's settings.

    If the file there is a database of the old system that `format_name` names, it is imported, and the result is the
    store beside it. Any other file that is not a store is NotAStore.
    """
    url = address(place)
    if url == ":memory:":
        return Engram(":memory:").with_settings(**settings)
    chosen = config.load(url=url, **settings)
    if chosen.url.startswith("postgresql://"):
        return Engram(settings=chosen)
    beside = chosen._replace(url=store_beside(chosen.url))
    header = _header(chosen.url)
    if not header and os.path.exists(beside.url):
        # The database was deleted after it was imported. What came of it must not seem to be gone.
        return Engram(settings=beside)
    try:
        return Engram(settings=chosen)
    except (NotAStore, StoreDamaged) as error:
        if header[: len(_SQLITE)] != _SQLITE or header[_PROGRAM] == _ENGRAM:
            raise
        # With its record, the store is enough. A database is looked at once only: some have to be copied for that.
        if not _has_record(beside, format_name):
            if isinstance(error, StoreDamaged):
                raise _damaged(chosen.url) from error
            if not _has_format(Path(chosen.url), format_name):
                raise
            _import_into(beside, Path(chosen.url), format_name)
    return Engram(settings=beside)


def store_beside(old: Path | str) -> str:
    """The path of the store into which an old database is imported."""
    # The real path, so that a database has one store whichever link names it. The whole name: `chat.db` and
    # `chat.sqlite` may be two databases in one folder.
    return f"{os.path.realpath(old)}.engram.db"


def _header(file: str) -> bytes:
    """The beginning of a file; nothing if there is no file."""
    return first_bytes(file, 100)


def _has_record(beside: config.Config, format_name: str) -> bool:
    """Whether the store exists and has the database that lies beside it."""
    if not os.path.exists(beside.url):
        return False
    with Engram(settings=beside) as eng:
        # The workspace may be another one next time. The record is always in the same.
        records = eng.workspace(config.DEFAULT_WORKSPACE).imports
        return records.seen(format_name, _DATABASE, _DATABASE) is not None


def _import(old: Path, eng: Engram, format_name: str) -> None:
    from .. import importers

    importers.run(format_name, [old], eng)
    records = eng.workspace(config.DEFAULT_WORKSPACE).imports
    records.note(format_name, _DATABASE, _DATABASE, Seen(_DATABASE))


def _damaged(file: str) -> StoreDamaged:
    return StoreDamaged(
        f"{file} is a damaged database, and not an Engram store; it was not changed. Give an undamaged copy of it, or "
        "another path."
    )


def _import_into(beside: config.Config, old: Path, format_name: str) -> None:
    """Import an old database into the store beside it."""
    if os.path.exists(beside.url):
        # An empty store, or one of another origin. The next start goes on with an import that was interrupted.
        with Engram(settings=beside) as eng:
            _import(old, eng, format_name)
        _tell(old, beside.url, format_name)
        return
    _remove_drafts(beside.url)
    draft = beside._replace(url=f"{beside.url}{_DRAFT}{os.getpid()}-{threading.get_ident()}")
    try:
        with Engram(settings=draft) as eng:
            _import(old, eng, format_name)
        with suppress(FileExistsError):  # another process was faster
            os.link(draft.url, beside.url)
            _tell(old, beside.url, format_name)
    finally:
        for end in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.unlink(draft.url + end)


def _remove_drafts(store: str) -> None:
    """Remove the drafts of imports that were killed."""
    folder, name = os.path.split(store)
    for file in os.listdir(folder):
        if file.startswith(f"{name}{_DRAFT}") and not _is_alive(file[len(name) + len(_DRAFT) :].partition("-")[0]):
            with suppress(OSError):
                os.unlink(os.path.join(folder, file))


def _is_alive(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, ValueError):
        return False
    except OSError:
        pass  # the process belongs to another user
    return True


def _has_format(file: Path, format_name: str) -> bool:
    from ..importers import formats

    try:
        return any(True for _ in formats.get(format_name).find(file))
    except NotOfFormat:
        return False


def _tell(old: Path, store: str, format_name: str) -> None:
    """Name the store once. It is a warning, because programs that do not configure logging show nothing less."""
    import logging

    logging.getLogger("engram.compat").warning(
        "imported the %s database %s into %s, which is used from now on; the database itself is unchanged",
        format_name,
        old,
        store,
    )
