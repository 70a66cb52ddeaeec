"""Whether the server runs and can work: /health and /ready. Both need no token and tell nothing about the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._version import VERSION
from ...errors import EngramError
from . import answers, calls
from .answers import Receive, Scope, Send, send_answer

if TYPE_CHECKING:
    from fastapi import FastAPI

    from .service import Service


def add(app: FastAPI, service: Service) -> None:
    health = answers.Answer(200, answers.encoded({"status": "ok", "version": VERSION}))

    class Health:
        """The process answers. The store is not asked."""

        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            scope[calls.ROUTE] = "/health"
            await send_answer(send, health, body=scope["method"] != "HEAD")

    class Ready:
        """The store can be read, and its schema is this version's."""

        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            scope[calls.ROUTE] = "/ready"
            answer = await service.readers.run(self._look)
            await send_answer(send, answer, body=scope["method"] != "HEAD")

        def _look(self) -> answers.Answer:
            try:
                service.eng.now()
            except EngramError as error:
                # The message may name the store, which is nothing for a caller without a token.
                return answers.Answer(503, answers.encoded({"status": "not ready", "code": error.code}))
            return answers.Answer(200, answers.encoded({"status": "ready"}))

    calls.add(app, "/health", ["GET"], Health())
    calls.add(app, "/ready", ["GET"], Ready())
