"""Opens the store of an adapter. A program may still give the path of the database of its old system.

That database is imported once, into a store beside it, and stays as it is. The program goes on with the store. The
import is written into a draft first, which becomes the store when it is complete. So a store that exists is complete,
an import that was interrupted begins again, and if two processes import at once, the first one to finish wins.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from .. import config
from ..client import Engram
from ..errors import NotAStore, NotOfFormat

#: What the name of a draft has after that of its store, before the id of its process.
_DRAFT = ".importing-"


def open_store(place: Path | str | None, format_name: str, **settings: Any) -> Engram:
    """The store at a place, by default the user's own one; `:memory:` is one for a trial.

    `settings` take the place of the user's settings.

    If the file there is a database of the old system that `format_name` names, it is imported, and the result is the
    store beside it. Any other file that is not a store is NotAStore.
    """
    if str(place) == ":memory:":
        return Engram(":memory:").with_settings(**settings)
    chosen = config.load(url=None if place is None else str(place), **settings)
    try:
        return Engram(settings=chosen)
    except NotAStore:
        beside = chosen._replace(url=store_beside(chosen.url))
        # A database is looked at once only: some have to be copied for that.
        if not os.path.exists(beside.url):
            if not _has_format(Path(chosen.url), format_name):
                raise
            _import_into(beside, Path(chosen.url), format_name)
    return Engram(settings=beside)


def store_beside(old: Path | str) -> str:
    """The path of the store into which an old database is imported."""
    # The whole name: `chat.db` and `chat.sqlite` may be two databases in one folder.
    return f"{old}.engram.db"


def _import_into(beside: config.Config, old: Path, format_name: str) -> None:
    """Import an old database into a store that does not exist yet."""
    from .. import importers

    _remove_drafts(beside.url)
    draft = beside._replace(url=f"{beside.url}{_DRAFT}{os.getpid()}-{threading.get_ident()}")
    try:
        with Engram(settings=draft) as eng:
            importers.run(format_name, [old], eng)
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
