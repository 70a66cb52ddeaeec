"""The application: what stands in front of every request, and which parts there are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fastapi import FastAPI

from ..._version import VERSION
from ..web import routes as web
from . import answers, browser, events, hook, library, mcp, metrics, oauth, overview, pages, state, stopping
from .guard import Guard
from .options import Options
from .origins import CheckOrigins, SecurityHeaders
from .recording import Recording
from .routes import Operations
from .service import Service

if TYPE_CHECKING:
    from ...client import Engram


def build(eng: Engram, options: Options | None = None, *, owns_store: bool = False) -> FastAPI:
    """The application on an open store. With `owns_store` the store is closed when the application stops."""
    service = Service(eng, options or Options())

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await service.start()
        stopping.on_signal(service.begin_stop)
        try:
            async with endpoint.run():
                yield
        finally:
            await service.stop()
            if owns_store:
                eng.close()

    app = FastAPI(
        title="Engram",
        version=VERSION,
        lifespan=lifespan,
        # The description is made from the table of operations: see `openapi`.
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        # A redirect to another path would be an answer that nobody declared.
        redirect_slashes=False,
    )
    app.state.service = service
    service.app = app
    answers.handle_errors(app, pages.nothing_here())
    _add_parts(app, service)
    endpoint = mcp.add(app, service)
    # The last one that is added is the first to see a request.
    app.add_middleware(Operations, service=service)
    app.add_middleware(Guard, service=service)
    app.add_middleware(CheckOrigins, places=service.places)
    app.add_middleware(Recording, service=service)
    app.add_middleware(SecurityHeaders, places=service.places)
    return app


def _add_parts(app: FastAPI, service: Service) -> None:
    """Every part with routes of its own has a function `add(app, service)`."""
    state.add(app, service)
    overview.add(app, service)
    events.add(app, service)
    metrics.add(app, service)
    library.add(app, service)
    hook.add(app, service)
    oauth.add(app, service)
    browser.add(app, service)
    web.add(app, service)
