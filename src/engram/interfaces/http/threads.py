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
from contextlib import AbstractContextManager, suppress
from typing import Any, Protocol, TypeVar

_T = TypeVar("_T")
#: Calls that share a transaction, at most.
MOST_TOGETHER = 32

Failed = Callable[[Exception], object]
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
            self._wake()

    def _wake(self) -> None:
        """Tell the loop that there are results."""
        # Set before the loop takes the results, so that none is left behind: see `_deliver`.
        if not self._woken:
            self._woken = True
            with suppress(RuntimeError):  # the loop is closed, and nobody waits for the result
                self._loop.call_soon_threadsafe(self._deliver)

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


class Shared(Protocol):
    """The work of a call that may share a transaction with others."""

    def __call__(self) -> object: ...
    def refusal(self) -> object | None:
        """The result of a call that is not allowed; None if it is."""


class SharedWrites(Threads):
    """One thread in which calls that wait at the same time share a transaction.

    Most of the time of a short write is the commit. SQLite has one writer at a time, so 32 clients that write at once
    would wait for 32 commits; here they wait for one. Each call is a savepoint: one that fails leaves nothing behind
    and does not disturb the others. Nobody gets an answer before the commit.
    """

    def __init__(self, name: str, transaction: Callable[[], AbstractContextManager[object]], failed: Failed) -> None:
        """`failed` makes the result of a call whose transaction failed."""
        self._transaction = transaction
        self._failed = failed
        super().__init__(1, name)

    def _work(self) -> None:
        ended = False
        while not ended:
            batch: list[_Job] = []
            job = self._jobs.get()
            while job is not None:
                if not job[1].cancelled():
                    batch.append(job)
                if len(batch) >= MOST_TOGETHER or self._jobs.empty():
                    break
                job = self._jobs.get()
            ended = job is None
            self._done.extend((future, result, None) for future, result in self._results(batch))
            self._wake()

    def _results(self, batch: list[_Job]) -> list[tuple[asyncio.Future[Any], object]]:
        results: list[tuple[asyncio.Future[Any], object]] = []
        allowed: list[_Job] = []
        for call, future in batch:
            # Before the transaction: a call that is refused holds nobody up.
            refused = call.refusal()  # type: ignore[attr-defined]
            if refused is None:
                allowed.append((call, future))
            else:
                results.append((future, refused))
        if len(allowed) == 1:
            ((call, future),) = allowed
            return [*results, (future, call())]
        if allowed:
            try:
                with self._transaction():
                    made = [(future, call()) for call, future in allowed]
            except Exception as error:
                # Nothing of it is in the store.
                made = [(future, self._failed(error)) for _, future in allowed]
            results += made
        return results
