"""Runs the application under uvicorn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import uvicorn

from . import app
from .options import DEFAULT_HOST, DEFAULT_PORT, Options

if TYPE_CHECKING:
    from ...config import Config


def serve(settings: Config, options: Options, *, host: str = DEFAULT_HOST, port: int = DEFAULT_PORT) -> None:
    """Serve a store until a signal ends the process."""
    from ...client import Engram

    with Engram(settings=settings) as eng:
        config = uvicorn.Config(
            app.build(eng, options),
            host=host,
            port=port,
            loop="uvloop",
            http="httptools",
            access_log=False,
            timeout_graceful_shutdown=10,
            server_header=False,
        )
        uvicorn.Server(config).run()
