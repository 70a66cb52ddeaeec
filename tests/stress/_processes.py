"""Worker processes for the stress tests.

Each worker opens the store itself, like a user's agents. It sends its messages and its result over a pipe of its own,
so a worker that is killed or suspended cannot block another one. Every wait has a limit, so a test fails instead of
hanging, with the worker's traceback if there is one.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Concatenate, Generic, ParamSpec, TypeVar, cast

import pytest

P = ParamSpec("P")
T = TypeVar("T")

#: `make stress` sets this; without it the same tests run for a few seconds.
LONG = bool(os.environ.get("ENGRAM_TEST_STRESS"))


def scaled(short: T, long: T) -> T:
    """The first value in an ordinary run, the second in `make stress`."""
    return long if LONG else short


#: How long anything may take before it counts as hanging; longer than every wait inside Engram.
PATIENCE = scaled(120.0, 600.0)


class Parent:
    """The test, seen from a worker."""

    def __init__(self, line: Connection) -> None:
        self._line = line

    def tell(self, news: object) -> None:
        self._line.send(("news", news))

    def wait(self) -> None:
        """Go on when the test says so."""
        if not self._line.poll(PATIENCE):
            raise TimeoutError("the test never said to go on")
        self._line.recv()

    def has_called(self) -> bool:
        """Whether the test has said to go on; does not wait."""
        return self._line.poll()


class Worker(Generic[T]):
    """A worker process, seen from the test."""

    def __init__(self, process: multiprocessing.process.BaseProcess, line: Connection) -> None:
        assert process.pid is not None
        self.pid = process.pid
        self._process = process
        self._line = line

    def call(self) -> None:
        """Tell it to go on."""
        self._line.send("go on")

    def hear(self, patience: float = PATIENCE) -> object:
        """The next thing it tells."""
        if not self._line.poll(patience):
            pytest.fail(f"worker {self.pid} said nothing for {patience:g} seconds")
        kind, content = self._line.recv()
        if kind == "failed":
            pytest.fail(f"worker {self.pid} failed:\n{content}")
        return content

    def result(self) -> T:
        """The return value of its function. Unread messages are skipped."""
        while True:
            if not self._line.poll(PATIENCE):
                pytest.fail(f"worker {self.pid} did not end within {PATIENCE:g} seconds")
            kind, content = self._line.recv()
            if kind == "failed":
                pytest.fail(f"worker {self.pid} failed:\n{content}")
            if kind == "done":
                return cast(T, content)

    def has_news(self, within: float = 0.0) -> bool:
        return self._line.poll(within)

    def last_words(self) -> list[object]:
        """Everything it told before it died."""
        heard = []
        try:
            while True:
                heard.append(self.hear())
        except (EOFError, ConnectionResetError):
            return heard

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def stop(self) -> None:
        """Send SIGSTOP and wait until the process is suspended."""
        os.kill(self.pid, signal.SIGSTOP)
        self.wait_until_stopped()

    def wait_until_stopped(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT | os.WNOHANG) is None:
            if self._process.exitcode is not None or time.monotonic() > deadline:
                self.hear(0.0)
                pytest.fail(f"worker {self.pid} never stopped")
            time.sleep(0.002)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def end(self) -> None:
        """Kill it in any state; SIGKILL reaches suspended processes too."""
        if self._process.is_alive():
            self.kill()
        self._process.join(PATIENCE)
        self._line.close()


class Crew:
    """Starts workers, and ends those that are left."""

    def __init__(self) -> None:
        # Spawned, not forked: nothing is shared with the test or with each other.
        self._context = multiprocessing.get_context("spawn")
        self._workers: list[Worker[object]] = []

    def start(self, work: Callable[Concatenate[Parent, P], T], *args: P.args, **kwargs: P.kwargs) -> Worker[T]:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_run, args=(theirs, work, args, kwargs), daemon=True)
        process.start()
        theirs.close()  # so that the line ends when the process does
        worker: Worker[T] = Worker(process, ours)
        self._workers.append(cast(Worker[object], worker))
        return worker

    def end(self) -> None:
        for worker in self._workers:
            worker.end()


def _run(line: Connection, work: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    # These tests make overlapping claims on purpose, so their warnings are ignored.
    logging.getLogger("engram").setLevel(logging.ERROR)
    try:
        line.send(("done", work(Parent(line), *args, **kwargs)))
    except BaseException:
        line.send(("failed", traceback.format_exc()))
        sys.exit(1)
