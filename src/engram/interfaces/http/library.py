"""`POST /api/v1/library/NAME`: one call of the library, for `Engram("https://…")`.

It is not meant for other programs: values are sent in the form of `remote.wire`, and the calls change with the library.
"""

from __future__ import annotations

from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

from ...errors import EngramError, Unauthorized
from ...operations import error_shape
from ...remote import performing, wire
from . import answers, calls, guard, keys
from .answers import Answer, Receive, Scope, Send, send_answer

if TYPE_CHECKING:
    from fastapi import FastAPI

    from .service import Service

PATH = "/api/v1/library/{name}"
#: The largest body of a call, in bytes. An import sends many turns at once.
MAX_BODY = 64 * 1024 * 1024


def add(app: FastAPI, service: Service) -> None:
    from starlette.routing import Route

    app.router.routes.append(Route(PATH, Library(service), methods=["POST"]))


class Library:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[calls.ROUTE] = PATH
        name: str = scope["path_params"]["name"]
        service = self._service
        body = await calls.read_body(scope, receive, MAX_BODY)
        if body is None:
            await send_answer(send, calls.too_large(service))
            return
        reads = performing.scope_of(name) == "read"
        job = partial(self._answer, scope, name, body)
        await send_answer(send, await (service.readers if reads else service.writers).run(job))

    def _answer(self, scope: Scope, name: str, body: bytes) -> Answer:
        try:
            return self._performed(scope, name, body)
        except Unauthorized as error:
            return guard.refusal(self._service, error)
        except EngramError as error:
            shape = error_shape(error)["error"]
            assert isinstance(shape, dict)
            return Answer(error.status, wire.to_json({"error": {**shape, **performing.failure(error)}}).encode())
        except Exception as error:
            return answers.mistake(error, PATH)

    def _performed(self, scope: Scope, name: str, body: bytes) -> Answer:
        caller = guard.caller_of(scope)
        # Verified before anything that was sent is looked at.
        caller.grant()
        call = performing.read(name, calls.object_in(body, b"application/json"))
        eng = caller.engram(call.scope).from_elsewhere(call.project)

        def perform() -> str:
            return wire.to_json({"result": performing.perform(eng, call)})

        if call.scope == "read":
            return Answer(200, perform().encode())
        asked = {"body": sha256(body).hexdigest()}
        request = keys.of(calls.Call(eng, caller, body, b""), name, asked)
        if request is None:
            return Answer(200, perform().encode())
        text, replayed = (request.once if call.in_one_step else request.claimed)(perform)
        return Answer(200, text.encode(), (keys.REPLAYED,) if replayed else ())
