"""`engram mcp`: the protocol over standard input and output.

A thread of its own reads the input from the first moment. While the SDK is being imported, it answers what it can by
itself (see `early`) and lets the rest wait in line; a handshake waits there too, and its second answer is dropped.

Output belongs to the protocol alone: whatever else is written to standard output ends up on standard error.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from .early import Receptionist

if TYPE_CHECKING:
    from ...config import Config

_END = ""


def serve(settings: Config) -> None:
    """Serve until the input ends, or a signal says so; does not return."""
    wire = Wire(sys.stdin.fileno(), sys.stdout.fileno())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: wire.end())
    wire.start()
    # Only now: importing what follows takes a while, and the wire answers meanwhile.
    import anyio

    from ...client import Engram
    from .host import Host
    from .lines import converse
    from .server import build

    host = Host(lambda: Engram(settings=settings))
    host.work_in_background()
    anyio.run(converse, build(host, session=os.environ.get("ENGRAM_SESSION") or None), wire)
    host.close()
    sys.stderr.flush()
    # A thread that still waits, for input or for somebody's lock, must not keep the process.
    os._exit(0)


class Wire:
    """The process's input and output, line by line."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self._incoming, self._outgoing = _private(incoming, outgoing)
        self._waiting: list[str] = []
        self._take: Callable[[str], object] = self._waiting.append
        # Reentrant, because a signal may interrupt the thread that has it.
        self._reading = threading.RLock()
        self._writing = threading.Lock()
        self._early: Receptionist | None = Receptionist()
        #: Handshakes that were answered here; the SDK will answer them too.
        self._answered: set[object] = set()

    def start(self) -> None:
        threading.Thread(target=self._read, name="engram-input", daemon=True).start()

    def hand_over(self, take: Callable[[str], object]) -> None:
        """Give every line to `take` from now on, beginning with those that wait; an empty one is the end."""
        with self._reading:
            self._early = None
            for line in self._waiting:
                take(line)
            self._take = take

    def end(self) -> None:
        """As if the input had ended."""
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
        """Cut the input into lines. Not with a buffered file, whose lock would be held when the process ends."""
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
            self.end()  # nobody listens any more


def _read_some(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:
        return b""


def _private(incoming: int, outgoing: int) -> tuple[int, int]:
    """Duplicates of the two for the protocol alone; what else reads gets nothing, what else prints goes to stderr."""
    kept = os.dup(incoming), os.dup(outgoing)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, incoming)
    os.close(nothing)
    os.dup2(sys.stderr.fileno(), outgoing)
    return kept
