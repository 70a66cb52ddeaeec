"""Around every request: an id, a line in the log, a count, and an end for what fails unexpectedly."""

from __future__ import annotations

import itertools
import os
from time import perf_counter
from typing import TYPE_CHECKING

from . import answers, calls, guard
from .answers import Message, Receive, Scope, Send, send_answer
from .logs import RequestLine

if TYPE_CHECKING:
    from .service import Service

#: Where a request's id is in its scope. The answer carries it in the header X-Request-Id.
REQUEST_ID = "engram.request_id"
#: The route of a request to a path that does not exist.
NO_ROUTE = "(none)"
#: The status of a request whose client had gone before the answer, as nginx writes it.
_GONE = 499

_numbers = itertools.count(1)
#: Tells the requests of one process from those of another.
_START = os.urandom(4).hex()


class Recording:
    def __init__(self, app: calls.Application, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = perf_counter()
        id = scope[REQUEST_ID] = f"{_START}-{next(_numbers):x}"
        header = (b"x-request-id", id.encode())
        status = 0

        async def send_recorded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), header]
            await send(message)

        try:
            await self._app(scope, receive, send_recorded)
        except calls.ClientGone:
            pass
        except calls.TooSlow:
            slow = f"The body did not arrive within {calls.BODY_WITHIN:g} seconds."
            await send_answer(send_recorded, answers.problem(408, "too_slow", slow, [(b"connection", b"close")]))
        except Exception as error:
            answer = answers.mistake(error, route_of(scope))
            if not status:
                await send_answer(send_recorded, answer)
        finally:
            self._note(scope, id, status or _GONE, perf_counter() - began)

    def _note(self, scope: Scope, id: str, status: int, seconds: float) -> None:
        caller = guard.caller_if_any(scope)
        token, workspace = ("", "") if caller is None else (caller.name, caller.used)
        line = RequestLine(scope["method"], route_of(scope), status, seconds, token, workspace, id)
        self._service.metrics.count(line)
        if self._service.log is not None:
            self._service.log.request(line)


def route_of(scope: Scope) -> str:
    """The template of the path. The path itself may hold anything."""
    found = scope.get(calls.ROUTE)
    if found is None:
        route = scope.get("route")
        found = getattr(route, "path", None) or NO_ROUTE
    return str(found)
