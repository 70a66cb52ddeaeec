"""A proxy in front of a PostgreSQL server, or of a pooler, that counts round trips and can delay them.

**What counts as a round trip.** The client sends bytes, and the server's answer is delivered to the client. What the
client sends before it has got an answer belongs to the same round trip, because it did not wait for that answer. So a
pipeline of ten statements is one round trip, however the system cuts it into packets, and a message that is only half
sent is not counted. In short: the count is how often the client had to wait for the distance to the server.

**The delay decides what the client waited for**, so counting needs one: without it, an answer can be back before a
client that does not wait has sent its next statement. A client that the machine stops for longer than the delay looks
like one that waits. So a count can be too high on a busy machine, but never too low; take the lowest of a few calls.

**What a connection does before it can be used** (a request for TLS, the startup message, the password) is counted
separately, in `startups`. It ends with the server's first ReadyForQuery. The proxy reads the protocol, so the
connection is not encrypted.
"""

from __future__ import annotations

import asyncio
import selectors
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from psycopg.conninfo import conninfo_to_dict

#: The codes of the requests for TLS and for GSSAPI encryption, which the server answers with a single byte.
_ENCRYPTION = (80877103, 80877104)
_PATIENCE = 30.0


class Wire:
    """The proxy, in a thread of its own. It listens on a port of the loopback network."""

    def __init__(self, server: str, delay: float = 0.0, *, reads: bool = False) -> None:
        """`server` is the URL of the server, without a schema. `delay` is added to each round trip, in seconds.

        With `reads`, the statements of each round trip are kept for `counting`.
        """
        self.delay = delay
        self.reads = reads
        #: Round trips of all connections since the proxy was started.
        self.trips = 0
        #: Those before a connection could be used.
        self.startups = 0
        self.connections = 0
        #: The statements of each round trip.
        self.statements: list[list[str]] = []
        parts = conninfo_to_dict(server)
        self._host, self._port = str(parts["host"]), int(parts.get("port") or 5432)
        # With `select` a delay is exact to microseconds. With `epoll` it is rounded up to the next millisecond.
        self._loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
        self._open: set[asyncio.Transport] = set()
        self._connecting: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="wire", daemon=True)
        self._thread.start()
        listening = asyncio.run_coroutine_threadsafe(self._listen(), self._loop)
        self._server = listening.result(_PATIENCE)
        port: int = self._server.sockets[0].getsockname()[1]
        user, password = quote(str(parts["user"]), safe=""), parts.get("password")
        account = user if password is None else f"{user}:{quote(str(password), safe='')}"
        #: The server's URL through this proxy.
        self.url = f"postgresql://{account}@127.0.0.1:{port}/{parts['dbname']}?sslmode=disable&gssencmode=disable"

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(_PATIENCE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE)
        self._loop.close()

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def counting(self) -> Iterator[Count]:
        """Count the round trips of a block. The connections that it uses must not be used by others."""
        count = Count()
        before = self.trips, self.startups, self.connections
        self.statements = []
        try:
            yield count
        finally:
            count.trips, count.startups, count.connections = (
                now - then for now, then in zip((self.trips, self.startups, self.connections), before, strict=True)
            )
            count.statements = self.statements

    async def _listen(self) -> asyncio.Server:
        return await self._loop.create_server(lambda: _Line(self).client, "127.0.0.1", 0)

    async def _connect(self, line: _Line) -> None:
        """Connect a client's line to the server. If that fails, the client's connection is closed."""
        try:
            if self._host.startswith("/"):
                path = f"{self._host}/.s.PGSQL.{self._port}"
                await self._loop.create_unix_connection(lambda: line.server, path)
            else:
                await self._loop.create_connection(lambda: line.server, self._host, self._port)
        except OSError:
            line.client.close()

    def at(self, time: float, work: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_at(time, work)

    def now(self) -> float:
        return self._loop.time()

    def opened(self, transport: asyncio.Transport, line: _Line | None) -> None:
        """Take note of a transport; with `line`, that of a client that is to be connected."""
        self._open.add(transport)
        if line is not None:
            self._connecting.add(task := self._loop.create_task(self._connect(line)))
            task.add_done_callback(self._connecting.discard)

    def closed(self, transport: asyncio.Transport) -> None:
        self._open.discard(transport)

    async def _end(self) -> None:
        self._server.close()
        while self._connecting or self._open:
            for transport in list(self._open):
                transport.abort()
            # A transport closes in the next turn of the loop.
            await asyncio.sleep(0)


class Count:
    """The round trips of a block; complete after it."""

    def __init__(self) -> None:
        self.trips = self.startups = self.connections = 0
        self.statements: list[list[str]] = []

    def __str__(self) -> str:
        """The statements of each round trip, one line each, to see which of them can be joined."""
        lines = [f"{number:>3}: {' | '.join(sent)}" for number, sent in enumerate(self.statements, 1)]
        return "\n".join([f"{self.trips} round trips", *lines])


class _Line:
    """One client's connection, in two parts: to the proxy, and from there to the server."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.client = _End(self, is_client=True)
        self.server = _End(self, is_client=False)
        #: Whether the client has sent something since an answer was last delivered to it.
        self._waits = False
        self._sent: list[bytes] = []
        #: The statements that the client has prepared, by name.
        self._prepared: dict[bytes, str] = {}
        #: Of the server's answers before the connection can be used: what is not read yet. None afterwards.
        self._startup: bytes | None = b""
        self._one_byte = False

    def other(self, end: _End) -> _End:
        return self.server if end is self.client else self.client

    def came_from_client(self, data: bytes) -> None:
        self._waits = True
        if self._startup is not None:
            self._one_byte = len(data) == 8 and struct.unpack("!i", data[4:])[0] in _ENCRYPTION
        elif self.wire.reads:
            self._sent.append(data)

    def goes_to_client(self, data: bytes) -> None:
        if self._waits:
            self._waits = False
            if self._startup is not None:
                self.wire.startups += 1
            else:
                self.wire.trips += 1
                if self.wire.reads:
                    self.wire.statements.append(self._read_statements(b"".join(self._sent)))
            self._sent = []
        if self._startup is not None:
            self._read_startup(data)

    def _read_startup(self, data: bytes) -> None:
        if self._one_byte:
            self._one_byte = False
            if data != b"N":
                raise RuntimeError(f"the server answered {data!r} to a request for encryption; it cannot be counted")
            return
        rest = (self._startup or b"") + data
        while len(rest) >= 5:
            length = 1 + struct.unpack("!i", rest[1:5])[0]
            if len(rest) < length:
                break
            if rest[:1] == b"Z":
                self._startup = None
                self.wire.connections += 1
                return
            rest = rest[length:]
        self._startup = rest

    def _read_statements(self, sent: bytes) -> list[str]:
        found: list[str] = []
        while len(sent) >= 5:
            kind, length = sent[:1], 1 + struct.unpack("!i", sent[1:5])[0]
            body, sent = sent[5:length], sent[length:]
            if kind == b"Q":
                found.append(_one_line(body.rstrip(b"\0")))
            elif kind == b"P":
                name, text, _ = body.split(b"\0", 2)
                self._prepared[name] = _one_line(text)
                found.append(f"prepare {self._prepared[name]}" if name else self._prepared[name])
            elif kind == b"B" and (name := body.split(b"\0", 2)[1]):
                found.append(self._prepared.get(name, name.decode()))
        return found


class _End(asyncio.Protocol):
    """One end of a line. What it receives is delivered to the other end, half the delay later."""

    def __init__(self, line: _Line, *, is_client: bool) -> None:
        self._line = line
        self._is_client = is_client
        self._transport: asyncio.Transport | None = None
        #: What this end has to send, and when.
        self._due: deque[tuple[float, bytes]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._ends = False

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._line.wire.opened(transport, self._line if self._is_client else None)
        self._deliver()

    def data_received(self, data: bytes) -> None:
        if self._is_client:
            self._line.came_from_client(data)
        self._line.other(self).send(data)

    def connection_lost(self, _: Exception | None) -> None:
        if self._transport is not None:
            self._line.wire.closed(self._transport)
        self._transport = None
        self._line.other(self).close()

    def send(self, data: bytes) -> None:
        wire = self._line.wire
        self._due.append((wire.now() + wire.delay / 2, data))
        if self._timer is None:
            self._deliver()

    def close(self) -> None:
        """Close this end when it has sent everything."""
        self._ends = True
        if self._timer is None:
            self._deliver()

    def _deliver(self) -> None:
        self._timer = None
        wire = self._line.wire
        if self._transport is None:
            return
        while self._due:
            at, data = self._due[0]
            if at > wire.now():
                self._timer = wire.at(at, self._deliver)
                return
            self._due.popleft()
            if self._is_client:
                self._line.goes_to_client(data)
            self._transport.write(data)
        if self._ends:
            self._transport.close()


def _one_line(text: bytes) -> str:
    return " ".join(text.decode().split())
