"""The operations of the table as paths: `session.log` is `POST /api/v1/session/log`.

Reads are GET with query parameters, everything else is POST with a JSON object. `recall` and `context` take both,
because a question does not belong into a URL that proxies log.

A path is found by one lookup, in front of the routes of the application. Going through a list of sixty patterns, as
routers do, takes longer than some operations.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ... import operations
from ...access.permission import require
from ...operations import OPERATIONS, Operation
from ...operations.pages import perform_page
from . import answers, arguments, calls, keys, versions
from .answers import Answer, Receive, Scope, Send, send_answer
from .calls import Application, Call
from .waiting import WaitingClaims

if TYPE_CHECKING:
    from .service import Service

PREFIX = "/api/v1"
#: Reads that are offered as POST too.
_ALSO_POST = frozenset({"recall", "context"})

#: Operations that use a model, or may take long for another reason.
_LONG = (
    *("brief", "brief.lines", "recall", "context", "remember", "forget", "memory.update", "exchange.add"),
    *("dream.run", "dream.status", "dream.review", "dream.undo", "backlog.work", "graph", "sizes", "doctor"),
)
#: What agents do all the time. None of it computes anything before it writes.
_SHARED = ("session.log", "session.heartbeat", "message.send", "message.inbox", "lock.release")
_KINDS: dict[str, calls.Kind] = {
    **dict.fromkeys(_LONG, "long work"),
    **dict.fromkeys(_SHARED, "shared writes"),
}


def path_of(operation: Operation) -> str:
    return f"{PREFIX}/{operation.name.replace('.', '/')}"


def methods_of(operation: Operation) -> tuple[str, ...]:
    if operation.scope != "read":
        return ("POST",)
    return ("GET", "POST") if operation.name in _ALSO_POST else ("GET",)


class Operations:
    """Answers the operations; hands every other request on."""

    def __init__(self, app: Application, service: Service) -> None:
        self._app = app
        self._routes: dict[str, dict[str, Application]] = {}
        for operation in OPERATIONS.values():
            by_method: dict[str, Application] = {}
            for method in methods_of(operation):
                perform = partial(_perform, operation, from_query=method == "GET")
                route = path_of(operation)
                by_method[method] = calls.Endpoint(service, route, operation.scope, perform, _KINDS.get(operation.name))
            if "GET" in by_method:
                by_method["HEAD"] = by_method["GET"]
            self._routes[path_of(operation)] = by_method
        claim = OPERATIONS["lock.claim"]
        # A claim may wait for minutes, which must not take a thread.
        self._routes[path_of(claim)] = {"POST": WaitingClaims(service, path_of(claim), claim)}

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


def _perform(operation: Operation, call: Call, *, from_query: bool) -> Answer:
    """The answer to a call, in its thread."""
    given = arguments.in_query(operation, call.query) if from_query else call.arguments()
    if operation.store_wide:
        require(call.caller.grant(), operation.scope, None)
    values = arguments.checked(operation, call, given)
    request = keys.of(call, operation.name, values) if operation.scope != "read" else None
    if request is None:
        return _answer(operation, call, values)
    run = request.claimed if operation.name in keys.NOT_ONE_TRANSACTION else request.once
    text, replayed = run(lambda: answers.text_of(_result(operation, call, values)))
    return Answer(200, text.encode(), (keys.REPLAYED,) if replayed else ())


def _answer(operation: Operation, call: Call, values: dict[str, object]) -> Answer:
    result = _result(operation, call, values)
    tag = versions.tags(operation, values, result["result"])
    return versions.unchanged(operation, call.caller.headers, tag) or Answer(200, answers.encoded(result), tag)


def _result(operation: Operation, call: Call, values: dict[str, object]) -> dict[str, Any]:
    if operation.page is not None:
        page = perform_page(call.eng, operation, values)
        return {"result": page.rows, "next": page.next}
    return {"result": operations.perform(call.eng, operation, values)}
