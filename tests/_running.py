"""The real server over loopback, in a thread of the test's process."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx
import uvicorn

from engram import Engram
from engram.interfaces.http import app
from engram.interfaces.http.connections import Connection
from engram.interfaces.http.options import Options
from engram.interfaces.http.service import Service
from engram.interfaces.http.serving import listen

_numbers = itertools.count(1)


class Running(NamedTuple):
    """A server that answers."""

    eng: Engram
    service: Service
    url: str
    port: int

    def token(self, scope: str = "admin", workspace: str | None = None, name: str | None = None) -> str:
        """The secret of a new token."""
        return self.eng.access.tokens.create(name or f"token {next(_numbers)}", scope, workspace=workspace).secret

    def client(self, token: str | None = None, **headers: str) -> httpx.Client:
        """A client with a token, by default of an administrator. With an empty token it sends none."""
        token = self.token() if token is None else token
        sent = {"Authorization": f"Bearer {token}"} if token else {}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        # Reading the certificates of the system takes 17 ms, and loopback needs none.
        return httpx.Client(base_url=self.url, headers=sent, timeout=60, trust_env=False, verify=False)


@contextmanager
def serving(eng: Engram, **options: Any) -> Iterator[Running]:
    """Serve a store within the block."""
    at = listen("127.0.0.1", 0)
    url = f"http://127.0.0.1:{at.port}"
    chosen = Options(port=at.port)._replace(**options)
    built = app.build(eng, chosen)
    quiet: dict[str, Any] = {"log_config": None, "access_log": False}
    config = uvicorn.Config(built, http=Connection, ws="none", lifespan="on", timeout_graceful_shutdown=10, **quiet)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [at.socket]}, name="server", daemon=True)
    thread.start()
    service: Service = built.state.service
    try:
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            thread.join(0.005)
        yield Running(eng, service, url, at.port)
    finally:
        server.should_exit = True
        service.loop.call_soon_threadsafe(service.feed.end_streams)
        thread.join(30)
        assert not thread.is_alive()
