"""The operations of the table as paths: `session.log` is `POST /api/v1/session/log`.

Reads are GET with query parameters, everything else is POST with a JSON object. `recall` and `context` take both,
because a question does not belong into a URL that proxies log.

A path is found by one lookup, in front of the routes of the application. Going through a list of sixty patterns, as
routers do, takes longer than some operations.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from ... import operations
from ...operations import OPERATIONS, Operation
from . import answers, calls, query
from .answers import Receive, Scope, Send, send_answer
from .calls import Call

if TYPE_CHECKING:
    from .service import Service

PREFIX = "/api/v1"
#: Reads that are offered as POST too.
_ALSO_POST = frozenset({"recall", "context"})

_Application = Callable[[Scope, Receive, Send], Awaitable[None]]


def path_of(operation: Operation) -> str:
    return f"{PREFIX}/{operation.name.replace('.', '/')}"


def methods_of(operation: Operation) -> tuple[str, ...]:
    if operation.scope != "read":
        return ("POST",)
    return ("GET", "POST") if operation.name in _ALSO_POST else ("GET",)


class Operations:
    """Answers the operations; hands every other request on."""

    def __init__(self, app: _Application, service: Service) -> None:
        self._app = app
        self._routes: dict[str, dict[str, _Application]] = {}
        for operation in OPERATIONS.values():
            by_method: dict[str, _Application] = {}
            for method in methods_of(operation):
                perform = partial(_perform, operation, from_query=method == "GET")
                by_method[method] = calls.endpoint(service, path_of(operation), operation.scope, perform)
            if "GET" in by_method:
                by_method["HEAD"] = by_method["GET"]
            self._routes[path_of(operation)] = by_method

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        by_method = self._routes.get(scope["path"]) if scope["type"] == "http" else None
        if by_method is None:
            await self._app(scope, receive, send)
            return
        application = by_method.get(scope["method"])
        if application is None:
            scope[calls.ROUTE] = scope["path"]
            await send_answer(send, answers.not_allowed(by_method))
            return
        await application(scope, receive, send)


def _perform(operation: Operation, call: Call, *, from_query: bool) -> object:
    given = query.arguments(operation, call.query) if from_query else call.arguments()
    values = operations.check_arguments(operation, given)
    operations.require_arguments(operation, values)
    return operations.perform(call.eng, operation, values)
