"""Runs a client's program once: the prompt on its standard input, in a folder of its own, within a time limit.

`supervisor.py` stands between Engram and the client, and ends the client when Engram ends in whatever way. The folder
is in the user's cache and not in the system's temporary folder: clients read settings from the folders above the one
that they run in, and anybody can write to `/tmp`. Whoever uses a run's folder holds a lock on it. A folder without a
lock was left when the machine went down, and the next run removes it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO, NamedTuple

from ...embedding.cache import folder as cache_folder
from ...errors import LLMUnavailable
from ...private_files import make_folder

#: The most bytes that are read of a client's output and of its error messages.
MOST_OUTPUT = 4 * 1024 * 1024
MOST_ERRORS = 64 * 1024
_PREFIX = "run-"
#: Seconds that the supervisor may take beyond the time limit, to end the client and remove the folder.
_MARGIN = 15.0
_SUPERVISOR = os.path.join(os.path.dirname(__file__), "supervisor.py")


class Ended(NamedTuple):
    """How a run ended."""

    #: exit, signal, timeout, stopped or failed.
    how: str
    #: The exit code, the number of the signal, or the reason of the failure.
    detail: str
    output: str
    errors: str
    #: Whether the client wrote more than is read, and was ended for that.
    too_much: bool


class Place(NamedTuple):
    """The folder of one run. Its owner alone can use it, and it is removed with everything in it."""

    #: For files that the client needs, and for what it keeps.
    folder: str
    #: An empty folder to run in.
    empty: str
    lock: int

    def file(self, name: str, text: str) -> str:
        """Write a file for the client; its path."""
        path = os.path.join(self.folder, name)
        make_folder(os.path.dirname(path))
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        return path


@contextmanager
def place() -> Iterator[Place]:
    """A folder for one run."""
    import fcntl

    base = os.path.join(os.path.abspath(cache_folder()), "thinkers")
    try:
        make_folder(base)
        _remove_left_folders(base)
        folder = tempfile.mkdtemp(prefix=_PREFIX, dir=base)
        empty = os.path.join(folder, "empty")
        os.mkdir(empty, 0o700)
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise LLMUnavailable(
            f"A client needs a folder to run in, and {base} cannot be used: {error.strerror}."
        ) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield Place(folder, empty, lock)
    finally:
        os.close(lock)
        shutil.rmtree(folder, ignore_errors=True)


def run(where: Place, command: Sequence[str], environment: Mapping[str, str], given: str, *, limit: float) -> Ended:
    """Run the command with this text on its standard input. When this returns, no process of it is left."""
    life, alive = os.pipe()
    report, status = os.pipe()
    try:
        supervisor = subprocess.Popen(
            # Without the user's and the project's Python settings. The command's own words hold no stored text.
            [
                *(sys.executable, "-I", "-S", _SUPERVISOR, str(life), str(status), str(where.lock), str(limit)),
                *(where.folder, where.empty, *command),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environment),
            cwd=where.empty,
            pass_fds=(life, status, where.lock),
            # Ctrl-C in Engram's terminal, and a signal to its process group, must not reach the supervisor.
            start_new_session=True,
        )
    except OSError as error:
        for descriptor in (alive, report):
            os.close(descriptor)
        raise LLMUnavailable(f"The client cannot be started: {error.strerror}.") from None
    finally:
        os.close(life)
        os.close(status)
    exchange = _Exchange(supervisor, alive, given)
    try:
        exchange.finish(limit + _MARGIN)
    finally:
        # Whatever happened, KeyboardInterrupt included: the supervisor sees the end of this pipe and ends the client.
        exchange.let_go()
        with suppress(subprocess.TimeoutExpired):
            supervisor.wait(_MARGIN)
        if supervisor.poll() is None:
            supervisor.kill()
            supervisor.wait()
        with open(report, "rb") as pipe:
            how, detail = _reported(pipe.read().decode(errors="replace"))
        exchange.close()
    return Ended(how, detail, *exchange.texts(), exchange.too_much)


def _reported(text: str) -> tuple[str, str]:
    """How the client ended, and the detail. If the supervisor did not end it, it is ended here."""
    number, line, ended = text.partition("\n")
    if not line:
        ended = text  # the client was not started
    elif not ended:
        # The supervisor was killed. On Linux the client was killed with it, but not what the client had started.
        with suppress(OSError, ValueError):
            os.killpg(int(number), signal.SIGKILL)
    how, _, detail = ended.partition(" ")
    return how or "stopped", detail


class _Exchange:
    """What goes to and comes from the client. Threads, because each of the three pipes can be full."""

    def __init__(self, supervisor: subprocess.Popen[bytes], alive: int, given: str) -> None:
        self._supervisor = supervisor
        self._alive: int | None = alive
        self._mutex = threading.Lock()
        self.too_much = False
        self._output, self._errors = bytearray(), bytearray()
        assert supervisor.stdin and supervisor.stdout and supervisor.stderr
        self._threads = [
            threading.Thread(target=self._write, args=(supervisor.stdin, given.encode()), daemon=True),
            threading.Thread(target=self._read, args=(supervisor.stdout, self._output, MOST_OUTPUT), daemon=True),
            threading.Thread(target=self._read, args=(supervisor.stderr, self._errors, MOST_ERRORS), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def finish(self, within: float) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._supervisor.wait(within)

    def let_go(self) -> None:
        """Let the supervisor end the client."""
        with self._mutex:
            if self._alive is not None:
                os.close(self._alive)
            self._alive = None

    def close(self) -> None:
        for thread in self._threads:
            thread.join(1.0)
        for pipe in (self._supervisor.stdin, self._supervisor.stdout, self._supervisor.stderr):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()

    def texts(self) -> tuple[str, str]:
        return self._output.decode(errors="replace"), self._errors.decode(errors="replace")

    @staticmethod
    def _write(pipe: IO[bytes], data: bytes) -> None:
        # A client that has ended does not read.
        with suppress(OSError), pipe:
            pipe.write(data)

    def _read(self, pipe: IO[bytes], kept: bytearray, most: int) -> None:
        with suppress(OSError, ValueError):
            while piece := os.read(pipe.fileno(), 65_536):
                kept += piece[: most - len(kept)]
                if len(kept) >= most and kept is self._output:
                    self.too_much = True
                    self.let_go()


def _remove_left_folders(base: str) -> None:
    """Remove the folders of runs whose processes are gone."""
    import fcntl

    for name in os.listdir(base):
        path = os.path.join(base, name)
        if not name.startswith(_PREFIX):
            continue
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                # Between its creation and its lock a new folder is free for a moment.
                if os.fstat(descriptor).st_mtime > _a_minute_ago():
                    continue
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(descriptor)


def _a_minute_ago() -> float:
    import time

    return time.time() - 60.0
