"""Runs the application under uvicorn, in one process or in several.

One process listens and opens the store itself. With several, the parent only listens; each worker gets the listening
socket, the settings and the options over a pipe, so no secret is in the arguments of a process. The parent starts a
worker again that has died.

A signal stops everything in order: no new connections, event streams end, running requests finish (for some seconds at
most), the store is closed.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors.multiprocess import Multiprocess

from ...client import Engram
from ...errors import Conflict, EngramError, InvalidInput
from ...safe_text import without_quotes
from . import app, metrics
from .connections import Connection
from .logs import Log

if TYPE_CHECKING:
    from fastapi import FastAPI

    from ...config import Config
    from .options import Options

#: Seconds that running requests get to finish.
FINISH_WITHIN = 10
#: Connections that wait until they are accepted.
BACKLOG = 2048
#: Seconds that an idle connection is kept. Clients that poll once in a minute need no new one.
KEEP_ALIVE = 75
#: Seconds in which a worker must answer the parent. One that loads a model may be slow.
ALIVE_WITHIN = 20
#: Seconds between two checks of a worker whether its parent still runs.
_LOOK_FOR_PARENT = 1.0


class Listening(NamedTuple):
    """An address that is taken. Clients can connect and wait; nobody answers yet."""

    socket: socket.socket
    host: str
    port: int


class Tls(NamedTuple):
    certificate: str
    key: str


def listen(host: str, port: int) -> Listening:
    """Bind an address. Conflict if another process has it, InvalidInput if there is no such address."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise InvalidInput(f"--host {host!r} is not an address of this machine ({error.strerror}).") from None
    family, kind, protocol, _, address = found[0]
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        # Now and not when the store is open: until somebody listens, another process can take the same address.
        opened.listen(BACKLOG)
        opened.set_inheritable(True)
    except OSError as error:
        opened.close()
        raise Conflict(
            f"{host}:{port} cannot be used ({error.strerror}). Another server may be running there; choose another "
            "port with --port."
        ) from None
    return Listening(opened, host, opened.getsockname()[1])


def serve(settings: Config, options: Options, at: Listening, *, workers: int = 1, tls: Tls | None = None) -> None:
    """Serve a store until a signal arrives."""
    config = uvicorn.Config(
        Worker(settings, options, alone=workers == 1),
        factory=True,
        host=at.host,
        port=at.port,
        backlog=BACKLOG,
        workers=workers,
        loop="uvloop",
        http=Connection,
        ws="none",
        lifespan="on",
        # Engram has its own log: uvicorn's has the paths with their queries.
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=options.behind_proxy,
        forwarded_allow_ips="*" if options.behind_proxy else None,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=FINISH_WITHIN,
        timeout_worker_healthcheck=ALIVE_WITHIN,
        ssl_certfile=tls.certificate if tls else None,
        ssl_keyfile=tls.key if tls else None,
    )
    if workers == 1:
        _run_here(config, at)
    else:
        _run_workers(config, at)


class Worker:
    """Makes the application in the process that serves it. It is sent to workers, so it holds only plain data."""

    def __init__(self, settings: Config, options: Options, *, alone: bool = True) -> None:
        self._settings = settings
        self._options = options
        self._alone = alone
        #: This process, which starts the workers.
        self._parent = os.getpid()

    def __call__(self) -> FastAPI:
        if not self._alone:
            threading.Thread(target=_end_with_parent, args=(self._parent,), name="engram-parent", daemon=True).start()
        try:
            return app.build(Engram(settings=self._settings), self._options, owns_store=True)
        except EngramError as error:
            if self._alone:
                raise
            # The parent starts a worker again that has died, unless it ends like this.
            logging.getLogger("engram.http").error("a worker cannot start: %s", without_quotes(str(error)))
            raise SystemExit(STARTUP_FAILURE) from None

    def __repr__(self) -> str:
        return "Worker()"  # the settings hold the store's password


def _end_with_parent(parent: int) -> None:
    """End this worker when its parent has died. Otherwise it would keep the address and the store for ever."""
    while os.getppid() == parent:
        time.sleep(_LOOK_FOR_PARENT)
    os.kill(os.getpid(), signal.SIGTERM)


def _run_here(config: uvicorn.Config, at: Listening) -> None:
    server = uvicorn.Server(config)
    with _stopping(server):
        server.run(sockets=[at.socket])
    if not server.started:
        raise EngramError("The server could not start. The lines above say why.")


def _run_workers(config: uvicorn.Config, at: Listening) -> None:
    # prometheus-client looks for the variable when it is imported, in the worker.
    with tempfile.TemporaryDirectory(prefix="engram-metrics-") as shared:
        os.environ[metrics.SHARED] = shared
        log = Log()
        log.start()
        try:
            parent = Multiprocess(config, sockets=[at.socket])
            parent.run()
        finally:
            log.close()
            del os.environ[metrics.SHARED]
    if any(process.exitcode == STARTUP_FAILURE for process in parent.processes):
        raise EngramError("The workers could not start. The lines above say why.")


@contextmanager
def _stopping(server: uvicorn.Server) -> Iterator[None]:
    """A signal stops the server in order, also one that comes before uvicorn listens for it.

    After uvicorn has stopped because of a signal, it raises the signal again. That must not end the process.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:
        server.should_exit = True

    earlier = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
