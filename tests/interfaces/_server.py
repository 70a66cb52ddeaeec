"""The real server on a port of the loopback interface, in a thread of the test's process."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import httpx
import uvicorn

from engram import Engram
from engram.interfaces.http import app
from engram.interfaces.http.options import Options
from engram.interfaces.http.service import Service


class Server(NamedTuple):
    url: str
    port: int
    eng: Engram
    service: Service

    @property
    def mcp(self) -> str:
        return f"{self.url}/mcp"

    def token(self, name: str, scope: str = "write", workspace: str | None = None) -> str:
        return self.eng.access.tokens.create(name, scope, workspace=workspace).secret

    def http(self, token: str | None = None, headers: dict[str, str] | None = None) -> httpx.Client:
        given = {"authorization": f"Bearer {token}"} if token else {}
        # Reading the certificates of the system takes 17 ms, and loopback needs none.
        options: dict[str, Any] = {"trust_env": False, "verify": False, "timeout": 30}
        return httpx.Client(base_url=self.url, headers={**given, **(headers or {})}, **options)


def free_port() -> int:
    """A port for a server that starts later.

    The system gives no port below 32768 to anybody by itself, so none of the other tests can get this one meanwhile.
    """
    while True:
        port = random.SystemRandom().randrange(15_000, 32_000)
        with socket.socket() as free, suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port


@contextmanager
def serving(eng: Engram, options: Options | None = None, wrap: Any = None) -> Iterator[Server]:
    """The server on this store. `wrap` puts something around the application."""
    port = free_port()
    built: Any = app.build(eng, (options or Options())._replace(port=port))
    config = uvicorn.Config(wrap(built) if wrap else built, port=port, log_level="error", ws="none", lifespan="on")
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run)
    thread.start()
    try:
        while not running.started and thread.is_alive():
            thread.join(0.01)
        assert running.started
        yield Server(f"http://127.0.0.1:{port}", port, eng, built.state.service)
    finally:
        running.should_exit = True
        thread.join()
