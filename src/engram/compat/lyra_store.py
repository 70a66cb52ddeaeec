"""The store of Lyra's functions: the one that `LYRA_DB_PATH` names at the time of the call, else the user's own.

A database of Lyra is imported into a store beside it. One store is open at a time. When the variable changes, the next
call opens the other store, and the one before is closed as soon as no thread uses it any more.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from . import old_databases

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..client import Engram

VARIABLE = "LYRA_DB_PATH"
#: What decides which store and which workspace it is.
_DECIDING = (VARIABLE, "ENGRAM_URL", "ENGRAM_DATA_DIR", "ENGRAM_CONFIG_DIR", "ENGRAM_WORKSPACE")


class _Open:
    """An open store, and how many calls use it."""

    def __init__(self, place: tuple[str | None, ...], eng: Engram) -> None:
        self.place = place
        self.eng = eng
        self.users = 0
        self.is_replaced = False


_lock = threading.Lock()
_current: _Open | None = None


@contextmanager
def opened() -> Iterator[Engram]:
    """The store, which stays open until the block ends."""
    store = _enter()
    try:
        yield store.eng
    finally:
        _leave(store)


def close() -> None:
    """Close the store. The next call opens it again."""
    with _lock:
        _replace(None)


def _enter() -> _Open:
    with _lock:
        place = _place()
        if _current is None or _current.place != place:
            _replace(_Open(place, old_databases.open_store(place[0], "lyra", companion=True)))
        assert _current is not None
        _current.users += 1
        return _current


def _leave(store: _Open) -> None:
    with _lock:
        store.users -= 1
        _close_if_unused(store)


def _replace(new: _Open | None) -> None:
    global _current
    old, _current = _current, new
    if old is not None:
        old.is_replaced = True
        _close_if_unused(old)


def _close_if_unused(store: _Open) -> None:
    if store.is_replaced and not store.users:
        store.eng.close()


def _place() -> tuple[str | None, ...]:
    named, *others = (os.environ.get(name) or None for name in _DECIDING)
    if named is not None and named != ":memory:" and "://" not in named:
        # A relative path is another file in another folder.
        named = os.path.abspath(os.path.expanduser(named))
    return (named, *others)


def _after_fork() -> None:
    """A thread that held the lock does not exist in the child."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
