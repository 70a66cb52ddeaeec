"""`POST /api/v1/library/NAME`: one call of the library, for `Engram("https://…")`.

It is not meant for other programs: values are sent in the form of `remote.wire`, and the calls change with the library.
"""

from __future__ import annotations

from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

from ...access.permission import require
from ...errors import EngramError, Unauthorized
from ...operations import error_shape
from ...remote import performing, wire
from ...remote.calls import SLOW, SWEEPS, scope_of
from . import answers, calls, guard, keys
from .answers import Answer, Receive, Scope, Send, send_answer
from .calls import Kind
from .waiting import Waiting, awaited

if TYPE_CHECKING:
    from fastapi import FastAPI

    from .service import Service

PATH = "/api/v1/library/{name}"
#: The largest body of a call, in bytes. An import sends many turns at once.
MAX_BODY = 64 * 1024 * 1024
#: Calls that embed a question.
_WITH_MODEL = frozenset({"recall", "context", "memories.recall_gists", "memories.recall_eras"})


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
        waiting: list[Waiting] = []
        job = partial(self._answer, scope, name, body, waiting)
        made: Answer | None = await service.run(_kind(name), job)
        if waiting:
            made = await awaited(service, PATH, waiting[0], receive)
        if made is not None:
            await send_answer(send, made)

    def _answer(self, scope: Scope, name: str, body: bytes, waiting: list[Waiting]) -> Answer | None:
        try:
            return self._performed(scope, name, body, waiting)
        except Unauthorized as error:
            return guard.refusal(self._service, error)
        except EngramError as error:
            return _refusal(error)
        except Exception as error:
            return answers.mistake(error, PATH)

    def _performed(self, scope: Scope, name: str, body: bytes, waiting: list[Waiting]) -> Answer | None:
        """The answer, in the thread of the call. A claim that has to wait is put into `waiting`."""
        caller = guard.caller_of(scope)
        # Verified before anything that was sent is looked at.
        caller.grant()
        call = performing.read(name, calls.object_in(body, b"application/json"))
        eng = caller.engram(call.scope).from_elsewhere(call.project)
        grant = caller.grant()
        if call.is_store_wide:
            require(grant, call.scope, None)

        def perform() -> str:
            return _text_of(performing.perform(eng, call, grant.workspace), eng.workspace_name)

        if call.waits:

            def told(result: object) -> str:
                return _text_of(wire.pack(result), eng.workspace_name)

            waiting.append(Waiting(performing.line_up(eng, call), None, None, told, caller.verify_again, _refusal))
            return None
        asked = {"body": sha256(body).hexdigest()}
        request = None if call.needs_no_key else keys.of(calls.Call(eng, caller, body, b""), name, asked)
        if request is None:
            return Answer(200, perform().encode())
        text, replayed = (request.once if call.in_one_step else request.claimed)(perform)
        if call.name in SWEEPS and call.options.get("at") is None:
            eng.sessions.sweep()
        return Answer(200, text.encode(), (keys.REPLAYED,) if replayed else ())


def _kind(name: str) -> Kind:
    """In which threads a call runs. What asks a model or works through much keeps nothing short waiting."""
    if name in SLOW or name in _WITH_MODEL:
        return "long work"
    return "reads" if scope_of(name) == "read" else "writes"


def _text_of(packed: object, workspace: str) -> str:
    """An answer. It names the workspace, for a client that let its token choose."""
    return wire.to_json({"result": packed, "workspace": workspace})


def _refusal(error: EngramError) -> Answer:
    """An error in the usual shape, with what it takes to raise it again on the other side."""
    shape = error_shape(error)["error"]
    assert isinstance(shape, dict)
    return Answer(error.status, wire.to_json({"error": {**shape, **performing.failure(error)}}).encode())
