"""`engram mcp`: the protocol over standard input and output.

A thread reads the input from the first moment. While the SDK is being imported, the thread answers what it can (see
`early`) and queues the rest. A handshake that was answered is queued too; the SDK's answer to it is dropped.

Only the protocol writes to standard output. Anything else that is printed there goes to standard error.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from . import identity
from .early import Receptionist

if TYPE_CHECKING:
    from ...config import Config

_END = ""


def serve(settings: Config) -> None:
    """Serve until the input ends or a signal arrives. Does not return."""
    wire = Wire(sys.stdin.fileno(), sys.stdout.fileno())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: wire.end())
    wire.start()
    # At once, while the process that started this one is certainly there.
    origin = identity.origin(os.environ)
    # These imports take most of a second. The wire answers meanwhile.
    import anyio

    from ...client import Engram
    from .connections import Connection
    from .host import Host
    from .lines import converse
    from .server import build

    host = Host(lambda: Engram(settings=settings))
    host.work_in_background()
    client = Connection(session=os.environ.get("ENGRAM_SESSION") or None, origin=origin)
    anyio.run(converse, build(host, client), wire)
    host.leave(client)
    host.close()
    sys.stderr.flush()
    # A thread that still waits for input or for a lock must not keep the process alive.
    os._exit(0)


class Wire:
    """The process's input and output, line by line."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self._incoming, self._outgoing = _private(incoming, outgoing)
        self._waiting: list[str] = []
        self._take: Callable[[str], object] = self._waiting.append
        # Reentrant, because a signal may interrupt the thread that holds it.
        self._reading = threading.RLock()
        self._writing = threading.Lock()
        self._early: Receptionist | None = Receptionist()
        #: Ids of handshakes that were answered here. The SDK answers them again.
        self._answered: set[object] = set()

    def start(self) -> None:
        threading.Thread(target=self._read, name="engram-input", daemon=True).start()

    def hand_over(self, take: Callable[[str], object]) -> None:
        """Pass every line to `take` from now on, first those that wait. An empty line is the end."""
        with self._reading:
            self._early = None
            for line in self._waiting:
                take(line)
            self._take = take

    def end(self) -> None:
        """Behave as if the input had ended."""
        with self._reading:
            self._take(_END)

    def write(self, line: str) -> None:
        if not self._answered or not self._is_answered(line):
            self._send(line.encode() + b"\n")

    def _is_answered(self, line: str) -> bool:
        message = json.loads(line)
        if "result" in message and message.get("id") in self._answered:
            self._answered.discard(message["id"])
            return True
        return False

    def _read(self) -> None:
        """Split the input into lines. A buffered file is not used: its lock would be held when the process ends."""
        begun: list[bytes] = []
        while piece := _read_some(self._incoming):
            *ends, rest = piece.split(b"\n")
            for end in ends:
                self._receive(b"".join([*begun, end]).decode("utf-8", "replace"))
                begun = []
            begun.append(rest)
        self.end()

    def _receive(self, line: str) -> None:
        if not line.strip():
            return
        with self._reading:
            answer = self._early.answer(line) if self._early else None
            if answer is None or answer.shared:
                self._take(line)
            if answer is not None and answer.shared:
                self._answered.add(answer.id)
        if answer is not None:
            self._send(answer.line())

    def _send(self, data: bytes) -> None:
        try:
            with self._writing:
                while data:
                    data = data[os.write(self._outgoing, data) :]
        except BrokenPipeError:
            self.end()  # the client is gone


def _read_some(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:
        return b""


def _private(incoming: int, outgoing: int) -> tuple[int, int]:
    """Duplicates for the protocol. Other reads of the input get nothing, and other prints go to standard error."""
    kept = os.dup(incoming), os.dup(outgoing)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, incoming)
    os.close(nothing)
    os.dup2(sys.stderr.fileno(), outgoing)
    return kept
