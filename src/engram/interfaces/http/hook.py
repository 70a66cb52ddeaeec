"""`POST /api/v1/hook`: an event that a hook on another machine reports, handled as a local one.

The answer is made in one job in a thread. What can wait is done in a second job, after the answer was sent: the
messages in it count as read, and the words of a turn are indexed. If the client has closed the connection before,
because it waited no longer, its messages go back into the mailbox. Whether a harness has shown what was sent is not
known here.

A client that got no answer sends the event once more with the same idempotency key. The key is stored in the
transaction that records the event. So a second attempt records nothing, on any server of the store. This process keeps
its last answers for some seconds and sends the same one again; another one makes a new answer, without the messages
that were in the lost one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

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

_HEADER = b"idempotency-key"
#: The grant of a caller without a token: the user of this machine.
_OWNER = "owner"
#: Seconds that an answer is kept, longer than a hook waits, and the most of them.
_KEPT, _MOST_KEPT = 10.0, 256

_Key = tuple[str, str, str]


def add(app: FastAPI, service: Service) -> None:
    calls.add(app, PATH, ["POST"], Hook(service))


class Hook:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._answering = Answering(service.eng)
        self._recent = _Recent()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[calls.ROUTE] = PATH
        service = self._service
        body = await calls.read_body(scope, receive, service.options.max_body)
        if body is None:
            await send_answer(send, calls.too_large(service))
            return
        event = _Event(self._answering, self._recent)
        made = await service.run("writes", calls.Job(service, scope, "write", event.perform, body, PATH))
        is_gone = await _is_disconnected(receive)
        try:
            await send_answer(send, made)
        except Exception:
            is_gone = True
            raise
        finally:
            # It may load a model.
            await service.run("long work", partial(event.end, is_gone))


class _Event:
    """One request: the work before its answer, and that after it. Both are done in threads."""

    def __init__(self, answering: Answering, recent: _Recent) -> None:
        self._answering = answering
        self._recent = recent
        self._begun = monotonic()
        self._served: serving.Served | None = None
        #: What is done at the end in any case.
        self._later: list[Callable[[], object]] = []

    def perform(self, call: Call) -> dict[str, str]:
        request, key = call.arguments(), _key(call)
        if key is not None and (known := self._recent.find(key)) is not None:
            return known
        self._served = serving.answer(
            call.eng,
            request,
            is_first=None if key is None else lambda: call.eng.access.answers.is_first(*key),
            recall=self._recall,
            enough=lambda: monotonic() - self._begun > SOFT_LIMIT,
        )
        if key is not None:
            self._recent.keep(key, self._served.result)
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


class _Recent:
    """The answers of the last seconds, by key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: dict[_Key, tuple[float, dict[str, str]]] = {}

    def find(self, key: _Key) -> dict[str, str] | None:
        with self._lock:
            _, found = self._answers.get(key, (0.0, None))
        return found

    def keep(self, key: _Key, answer: dict[str, str]) -> None:
        now = monotonic()
        with self._lock:
            self._answers[key] = now, answer
            # In the order of their times.
            for each, (at, _) in list(self._answers.items()):
                if now - at <= _KEPT and len(self._answers) <= _MOST_KEPT:
                    break
                del self._answers[each]


def _key(call: Call) -> _Key | None:
    """Whose key it is, the key of the request, and its workspace; None without a key."""
    given = call.caller.headers.get(_HEADER)
    if given is None:
        return None
    if not 1 <= len(given) <= 100 or not given.isascii():
        raise InvalidInput("An idempotency key has 1 to 100 printable ASCII characters.")
    # The same key may have been used for another request than an event.
    return call.caller.grant().token_id or _OWNER, f"hook/{given.decode('ascii')}", call.eng.workspace_name


async def _is_disconnected(receive: Receive) -> bool:
    """Whether the client has closed the connection. Does not wait."""
    message = asyncio.ensure_future(receive())
    # One turn of the loop: a message that is there is taken in it.
    await asyncio.sleep(0)
    if not message.done():
        message.cancel()
        return False
    return bool(message.result()["type"] == "http.disconnect")
