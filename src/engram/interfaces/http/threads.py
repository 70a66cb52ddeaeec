"""Threads that do the work of requests.

Written by hand for one reason: speed. A hop through the usual executors wakes the event loop for every result. Here a
thread that finds a wake-up pending only leaves its result, and the loop takes all results that are there. With 32
clients that doubles the number of requests in a second; `bench/server.py` measures it.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

_T = TypeVar("_T")
_Job = tuple[Callable[[], Any], "asyncio.Future[Any]"]


class Threads:
    """A fixed number of threads with one queue. Belongs to the event loop that runs when it is made."""

    def __init__(self, number: int, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._done: deque[tuple[asyncio.Future[Any], object, BaseException | None]] = deque()
        self._woken = False
        self._threads = [
            threading.Thread(target=self._work, name=f"engram-{name}-{each}", daemon=True) for each in range(number)
        ]
        for thread in self._threads:
            thread.start()

    def run(self, function: Callable[[], _T]) -> asyncio.Future[_T]:
        """Call a function in a thread. A job whose future is cancelled before it begins is left out."""
        future: asyncio.Future[_T] = self._loop.create_future()
        self._jobs.put((function, future))
        return future

    @property
    def waiting(self) -> int:
        """Jobs that no thread has taken yet."""
        return self._jobs.qsize()

    def close(self, within: float) -> None:
        """End the threads after the jobs that were given. One that takes longer ends with the process."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join(within)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            function, future = job
            if future.cancelled():
                continue
            try:
                self._done.append((future, function(), None))
            except BaseException as error:
                self._done.append((future, None, error))
            # Set before the results are taken, so a result is never left behind: see `_deliver`.
            if not self._woken:
                self._woken = True
                try:
                    self._loop.call_soon_threadsafe(self._deliver)
                except RuntimeError:
                    return  # the loop is closed, and nobody waits for the result

    def _deliver(self) -> None:
        # Before the results are taken: a thread that adds one afterwards wakes the loop again.
        self._woken = False
        while self._done:
            future, result, error = self._done.popleft()
            if future.done():
                continue
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)
