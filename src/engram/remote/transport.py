"""Sends requests to a server over HTTP: connections that are kept, retries, and the next server if one is away.

A request that may have been carried out is sent again only with the same idempotency key, so nothing is written twice.
Whatever was not answered in time is StoreUnavailable. Redirects are not followed: the token is for this server.
"""

from __future__ import annotations

import os
import random
import threading
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import TYPE_CHECKING, NamedTuple

from .._version import VERSION
from ..errors import StoreUnavailable
from ..server_url import Server, servers
from .once import certificate_problem

if TYPE_CHECKING:
    from ssl import SSLContext

    from ..clock import Clock

#: Seconds to connect, and to wait for the answer of an ordinary call.
CONNECT_WITHIN, ANSWER_WITHIN = 5.0, 60.0
#: Seconds for which a call that gets no answer is tried again.
RETRY_FOR = 15.0
#: Seconds before each further attempt, after the servers were tried once.
_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
#: Answers of a proxy, or of a server that is ending: the request was not carried out, or its key protects it.
_TRY_AGAIN = frozenset({502, 503, 504})
#: The code of an error of Engram with such a status, which the caller decides about.
_BUSY = b'"store_busy"'
#: The most connections that are kept for later calls.
MOST_KEPT = 8
#: The largest answer in bytes.
MAX_ANSWER = 256 * 1024 * 1024


class Answered(NamedTuple):
    status: int
    body: bytes


class _Failed(Exception):
    """A request that got no answer."""


class Transport:
    """Requests to one store, which several servers may serve. Thread-safe; usable in the child after a fork."""

    def __init__(self, url: str, token: str, clock: Clock) -> None:
        self._url = url
        self._servers = servers(url)
        self._headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "Accept": "application/json",
            "User-Agent": f"engram/{VERSION}",
        }
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: list[tuple[int, HTTPConnection]] = []
        self._pid = os.getpid()
        #: The server that answered last; new connections go there.
        self._current = 0
        self._closed = False
        self._tls: SSLContext | None = None

    def __repr__(self) -> str:
        return f"<Transport to {self._url}>"

    def post(self, path: str, body: bytes, headers: dict[str, str], *, within: float = ANSWER_WITHIN) -> Answered:
        """Send a request until it is answered. `headers` must have an idempotency key if it writes."""
        until = self._clock.monotonic() + RETRY_FOR
        attempt = 0
        while True:
            try:
                answer = self._try(path, body, headers, within)
                if answer.status not in _TRY_AGAIN or _BUSY in answer.body[:200]:
                    return answer
                problem: object = f"it answers with status {answer.status}"
            except _Failed as failed:
                problem = failed
            # Each server is tried once without a pause.
            round, place = divmod(attempt + 1, len(self._servers))
            pause = 0.0 if place or attempt == 0 else _PAUSES[min(round, len(_PAUSES)) - 1] * random.uniform(0.5, 1.5)
            if self._clock.monotonic() + pause >= until:
                raise StoreUnavailable(f"The server {self._url} cannot be reached: {problem}.") from None
            self._clock.sleep(pause)
            attempt += 1

    def close(self) -> None:
        with self._lock:
            self._closed = True
            kept, self._kept = self._kept, []
        for _, connection in kept:
            connection.close()

    def _try(self, path: str, body: bytes, headers: dict[str, str], within: float) -> Answered:
        number, connection, fresh = self._take()
        try:
            return self._exchange(number, connection, path, body, headers, within)
        except (OSError, HTTPException) as error:
            connection.close()
            if not fresh and not isinstance(error, TimeoutError):
                # The server had closed a kept connection. That says nothing about the server.
                number, connection = self._connect()
                try:
                    return self._exchange(number, connection, path, body, headers, within)
                except (OSError, HTTPException) as again:
                    connection.close()
                    error = again
            with self._lock:
                self._current = (number + 1) % len(self._servers)
            raise _Failed(_described(error)) from None

    def _exchange(
        self, number: int, connection: HTTPConnection, path: str, body: bytes, headers: dict[str, str], within: float
    ) -> Answered:
        if connection.sock is None:
            connection.timeout = CONNECT_WITHIN
            connection.connect()
        connection.sock.settimeout(within)
        connection.request("POST", path, body, {**self._headers, **headers})
        response: HTTPResponse = connection.getresponse()
        content = response.read(MAX_ANSWER + 1)
        if len(content) > MAX_ANSWER:
            connection.close()
            raise HTTPException("the answer is too large")
        if response.will_close:
            connection.close()
        else:
            self._keep(number, connection)
        return Answered(response.status, content)

    def _take(self) -> tuple[int, HTTPConnection, bool]:
        """A connection, and whether it is new."""
        with self._lock:
            if self._closed:
                raise StoreUnavailable("This store was closed.")
            if self._pid != os.getpid():
                # The parent's connections stay the parent's.
                self._pid, self._kept = os.getpid(), []
            while self._kept:
                number, connection = self._kept.pop()
                if number == self._current:
                    return number, connection, False
                connection.close()
        return (*self._connect(), True)

    def _keep(self, number: int, connection: HTTPConnection) -> None:
        with self._lock:
            if not self._closed and self._pid == os.getpid() and len(self._kept) < MOST_KEPT:
                self._kept.append((number, connection))
                return
        connection.close()

    def _connect(self) -> tuple[int, HTTPConnection]:
        number = self._current
        server: Server = self._servers[number]
        if not server.tls:
            return number, HTTPConnection(server.host, server.port)
        if self._tls is None:
            import ssl

            self._tls = ssl.create_default_context()
        return number, HTTPSConnection(server.host, server.port, context=self._tls)


def _described(error: Exception) -> str:
    """What went wrong, without anything that was sent."""
    if isinstance(error, TimeoutError):
        return "it does not answer in time"
    if type(error).__name__ == "SSLCertVerificationError":
        return f"its certificate is not valid: {certificate_problem(error)}"
    if isinstance(error, OSError):
        return (error.strerror or "it closed the connection without an answer").lower()
    return f"it does not answer as a server does ({type(error).__name__})"
