"""Servers that are no servers: each connection gets what a test wants."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

#: Does something with a connection and the request that came over it.
Behave = Callable[[socket.socket, bytes], None]


class RawServer:
    """Listens on loopback, reads each request to its end, and keeps it."""

    def __init__(self, behave: Behave, host: str = "127.0.0.1") -> None:
        self.received: list[bytes] = []
        self._behave = behave
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{self.port}"
        self._connections: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        # Wakes the thread, which waits for the next connection.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                request = read_request(connection)
                self.received.append(request)
                self._behave(connection, request)


@contextmanager
def raw_server(behave: Behave, host: str = "127.0.0.1") -> Iterator[RawServer]:
    server = RawServer(behave, host)
    try:
        yield server
    finally:
        server.close()


def read_request(connection: socket.socket) -> bytes:
    """A whole HTTP request."""
    received = b""
    while b"\r\n\r\n" not in received:
        piece = connection.recv(1 << 16)
        if not piece:
            return received
        received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    lengths = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    length = int(lengths[0].partition(b":")[2])
    while len(body) < length:
        body += connection.recv(1 << 16)
    return head + b"\r\n\r\n" + body


def wait_for_end(connection: socket.socket, request: bytes) -> None:
    """Say nothing until the client closes the connection."""
    while connection.recv(1 << 16):
        pass


def saying(text: bytes, *, then_wait: bool = False) -> Behave:
    def behave(connection: socket.socket, request: bytes) -> None:
        connection.sendall(text)
        if then_wait:
            wait_for_end(connection, request)

    return behave


def saying_forever(text: bytes, again: bytes) -> Behave:
    """Send something, and then something else until the client closes the connection."""

    def behave(connection: socket.socket, request: bytes) -> None:
        connection.sendall(text)
        while True:
            connection.sendall(again)

    return behave


def answer(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body
