"""A real server in a thread of the test process. One serves all tests of the process, each with its own store."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import uvicorn

from engram import Engram
from engram.access.permission import require
from engram.access_records import Grant
from engram.interfaces.http import app
from engram.interfaces.http.options import Options


class Served:
    """`use` makes it serve a store, `url` is where."""

    def __init__(self, eng: Engram, options: Options | None = None) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        # asyncio sets it only for sockets that it has made itself. Without it, every answer takes 40 ms.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        application = app.build(eng, options or Options(public_url=self.url))
        self.service: Any = application.state.service
        config = uvicorn.Config(application, log_level="critical", access_log=False, timeout_graceful_shutdown=2)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        while not self._server.started:
            self._thread.join(0.005)
            assert self._thread.is_alive(), "the server did not start"

    def use(self, eng: Engram) -> None:
        """Serve another store from now on."""
        self.service.eng = eng
        self.service.tokens = eng.access.tokens
        self.service._facades.clear()

    def use_without_authors(self, eng: Engram) -> None:
        """The same for tests that know no authors: what they write has none, as in a local store."""
        self.use(eng)

        def facade(grant: Grant, needed: str, workspace: str, project: str | None = None) -> Engram:
            require(grant, needed, workspace)
            return eng.workspace(workspace).from_elsewhere(project)

        self.service.facade = facade

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(10)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        # Signals belong to the test process.
        self._server.capture_signals = _no_signals  # type: ignore[method-assign, assignment]
        asyncio.run(self._server.serve(sockets=[self._socket]))


class _no_signals:
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...
