"""`POST /api/v1/hook`: an event that a hook on another machine reports, handled as a local one.

The answer is made in one job in a thread. What can wait is done in a second job, after the answer was sent: the
messages in it count as read, and the words of a turn are indexed. If the client has closed the connection before,
because it waited no longer, its messages go back into the mailbox. Whether a harness has shown what was sent is not
known here.

A client that got no answer sends the event once more with the same idempotency key. The key is stored in the
transaction that records the event. So a second attempt records nothing, on any server of the store, and only makes the
answer again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from starlette.routing import Route

from ...errors import EngramError, InvalidInput
from ..hooks import SOFT_LIMIT, serving
from ..hooks.sending import PATH
from ..recall_socket.answering import Answering
from . import answers, calls
from .answers import Receive, Scope, Send, send_answer

if TYPE_CHECKING:
    from fastapi import FastAPI

    from ...client import Engram
    from ...records import Hit
    from .calls import Call
    from .service import Service

_KEY = b"idempotency-key"
#: The grant of a caller without a token: the user of this machine.
_OWNER = "owner"


def add(app: FastAPI, service: Service) -> None:
    app.router.routes.append(Route(PATH, Hook(service), methods=["POST"]))


class Hook:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._answering = Answering(service.eng)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[calls.ROUTE] = PATH
        service = self._service
        body = await calls.read_body(scope, receive, service.options.max_body)
        if body is None:
            await send_answer(send, calls.too_large(service))
            return
        event = _Event(self._answering)
        made = await service.writers.run(partial(calls.answer, service, scope, "write", event.perform, body, PATH))
        is_gone = await _is_disconnected(receive)
        try:
            await send_answer(send, made)
        except Exception:
            is_gone = True
            raise
        finally:
            await service.writers.run(partial(event.end, is_gone))


class _Event:
    """One request: the work before its answer, and that after it. Both are done in threads."""

    def __init__(self, answering: Answering) -> None:
        self._answering = answering
        self._begun = monotonic()
        self._served: serving.Served | None = None
        #: What is done at the end in any case.
        self._later: list[Callable[[], object]] = []

    def perform(self, call: Call) -> dict[str, str]:
        self._served = serving.answer(
            call.eng,
            call.arguments(),
            is_first=_is_first(call),
            recall=self._recall,
            enough=lambda: monotonic() - self._begun > SOFT_LIMIT,
        )
        self._later.append(call.eng.access.answers.tidy)
        return self._served.result

    def end(self, is_gone: bool) -> None:
        served = self._served
        if served is None:
            return
        for step in (served.lost if is_gone else served.delivered, *self._later):
            try:
                step()
            except EngramError:
                # The store is busy, for example: the messages are due again later, and others index the words.
                continue
            except Exception as error:
                answers.mistake(error, PATH)

    def _recall(self, eng: Engram, asked: str, k: int, options: dict[str, Any]) -> list[Hit] | None:
        hits, then = self._answering.recall(eng, asked, k, options)
        if then is not None:
            self._later.append(then)
        return hits


def _is_first(call: Call) -> Callable[[], bool]:
    """What notes the key of a request; without a key, every request is a first one."""
    given = call.caller.headers.get(_KEY)
    if given is None:
        return lambda: True
    if not 1 <= len(given) <= 100 or not given.isascii():
        raise InvalidInput("An idempotency key has 1 to 100 printable ASCII characters.")
    # The same key may have been used for another request.
    key = f"hook/{given.decode('ascii')}"
    owner = call.caller.grant().token_id or _OWNER
    return lambda: call.eng.access.answers.is_first(owner, key, call.eng.workspace_name)


async def _is_disconnected(receive: Receive) -> bool:
    """Whether the client has closed the connection. Does not wait."""
    message = asyncio.ensure_future(receive())
    # One turn of the loop: a message that is there is taken in it.
    await asyncio.sleep(0)
    if not message.done():
        message.cancel()
        return False
    return bool(message.result()["type"] == "http.disconnect")
