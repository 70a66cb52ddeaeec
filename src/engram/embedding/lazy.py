"""A value that is computed on first use, by one thread, once per process.

A forked child computes its own value. The locks inside a tokenizer may be held by threads that the child does not have,
and two processes must not share a connection.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Lazy(Generic[T]):
    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: tuple[T] | None = None
        _all.add(self)

    def __call__(self) -> T:
        made = self._made
        if made is None:
            with self._lock:
                made = self._made
                if made is None:
                    made = self._made = (self._make(),)
        return made[0]

    def forget(self) -> None:
        """Drop the value in a forked child. The lock is replaced, because a thread of the parent may hold it."""
        self._lock = threading.Lock()
        self._made = None


_all: weakref.WeakSet[Lazy[Any]] = weakref.WeakSet()


def _forget_all() -> None:
    for lazy in _all:
        lazy.forget()


os.register_at_fork(after_in_child=_forget_all)
