"""Around every request: an id, a line in the log, a count, and an end for what fails unexpectedly."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import TYPE_CHECKING

from . import answers, calls
from .answers import Message, Receive, Scope, Send, send_answer

if TYPE_CHECKING:
    from .service import Service

#: Where a request's id is in its scope. The answer carries it in the header X-Request-Id.
REQUEST_ID = "engram.request_id"
_NO_ROUTE = "(none)"

_numbers = itertools.count(1)
_START = os.urandom(4).hex()


class Recording:
    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]], service: Service) -> None:
        self._app = app
        self._service = service
        self._log = logging.getLogger("engram.http")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = perf_counter()
        id = scope[REQUEST_ID] = f"{_START}-{next(_numbers):x}"
        status = 0

        async def send_recorded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", id.encode())]
            await send(message)

        try:
            await self._app(scope, receive, send_recorded)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            answer = answers.mistake(error, scope.get(calls.ROUTE, _NO_ROUTE))
            if not status:
                await send_answer(send_recorded, answer)
        finally:
            self._note(scope, id, status, perf_counter() - began)

    def _note(self, scope: Scope, id: str, status: int, seconds: float) -> None:
        route = scope.get(calls.ROUTE, _NO_ROUTE)
        self._log.info("%s %s %s %.1f ms %s", scope["method"], route, status, seconds * 1000, id)
