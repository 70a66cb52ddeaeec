"""A server for hooks, in this process: real HTTP on loopback. `store_url` and `hook_url` run a test through it, too."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
import uvicorn

from engram import Engram
from engram.config import load
from engram.interfaces.hooks import sending
from engram.interfaces.http import app
from engram.interfaces.http.options import Options

_Scope = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Listener:
    """uvicorn on a port of loopback, in a thread. It serves one application after the other: starting it takes time."""

    def __init__(self) -> None:
        self.application: Any = None
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        options: dict[str, Any] = {"interface": "asgi3", "log_config": None, "access_log": False, "lifespan": "off"}
        self._server = uvicorn.Server(uvicorn.Config(self._serve, **options))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def call(self, coroutine: Any) -> None:
        """Wait for a coroutine in the event loop of the server."""
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        self._loop.run_until_complete(self._server.serve([self._socket]))
        self._loop.close()

    async def _serve(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        await self.application(scope, receive, send)


class Request(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class HookServer:
    """A server of a store that keeps what it is sent."""

    def __init__(self, listener: Listener, store: str) -> None:
        self.requests: list[Request] = []
        #: The store as the server sees it.
        self.eng = Engram(settings=load(url=store))
        self.token = self.eng.access.tokens.create("hooks", "write").secret
        self.port = listener.port
        self.url = f"http://127.0.0.1:{listener.port}"
        self._listener = listener
        self.begun = 0
        self._read = 0
        self._changed = threading.Condition()
        self._inner = app.build(self.eng, Options(public_url=self.url))
        listener.call(self._inner.state.service.start())
        listener.application = self._application

    def wait(self) -> None:
        """Wait until the work of every request is done, also that which comes after its answer."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.requests) == self.begun, timeout=30)

    def wait_until_read(self, number: int) -> None:
        """Wait until so many requests have been read."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._read >= number, timeout=30)

    def notice_what_happened(self) -> None:
        """Let the event loop see every connection that was closed until now."""
        for _ in range(3):
            self._listener.call(asyncio.sleep(0))

    def close(self) -> None:
        self.wait()
        self._listener.call(self._inner.state.service.stop())
        self.eng.close()

    async def _application(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        pieces: list[bytes] = []

        async def kept() -> MutableMapping[str, Any]:
            message = await receive()
            pieces.append(message.get("body", b""))
            with self._changed:
                self._read += not message.get("more_body")
                self._changed.notify_all()
            return message

        self.begun += 1
        try:
            await self._inner(scope, kept, send)
        finally:
            headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            with self._changed:
                self.requests.append(Request(scope["method"], scope["path"], headers, b"".join(pieces)))
                self._changed.notify_all()


@contextmanager
def serving(listener: Listener, store: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[HookServer]:
    """A server on the store. The hooks of this test use it, and a test goes on when the server's work is done."""
    server = HookServer(listener, store)
    monkeypatch.setenv("ENGRAM_URL", server.url)
    monkeypatch.setenv("ENGRAM_TOKEN", server.token)
    really = sending.send

    def send(*given: Any) -> Any:
        answer = really(*given)
        server.wait()
        return answer

    monkeypatch.setattr(sending, "send", send)
    try:
        yield server
    finally:
        server.close()


@pytest.fixture(params=["sqlite", "postgres", "server"])
def store_url(request: pytest.FixtureRequest) -> str:
    """An empty store. With `server`, the hooks use it through a server."""
    url: str = request.getfixturevalue("postgres_url" if request.param == "postgres" else "sqlite_url")
    return url


@pytest.fixture
def hook_url(request: pytest.FixtureRequest, store_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """What the hooks have as ENGRAM_URL: the store itself, or a server in front of it."""
    if request.node.callspec.params["store_url"] != "server":
        monkeypatch.setenv("ENGRAM_URL", store_url)
        yield store_url
        return
    with serving(request.getfixturevalue("listener"), store_url, monkeypatch) as server:
        yield server.url
