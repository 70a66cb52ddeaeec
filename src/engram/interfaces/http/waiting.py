"""Claims that wait for their turn: `lock.claim` with `wait`, and the same call of the library.

A waiting claim takes a thread only for each look. Meanwhile it listens for its client: one that has gone gives up its
place in the queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ... import operations
from ...errors import EngramError
from ...operations import Operation
from ...records import plain
from . import answers, arguments, calls, keys
from .answers import Answer, Receive, Scope, Send, send_answer
from .calls import Call

if TYPE_CHECKING:
    from ...records import Lease
    from .service import Service


_T = TypeVar("_T")


class Waiter(Protocol):
    """A claim in the queue for a lease, as the facade returns it."""

    @property
    def pause(self) -> float: ...
    def look(self) -> Lease | None: ...
    def leave(self) -> None: ...


class Waiting:
    """A claim in the queue, and the key that its request has claimed, if it has one."""

    def __init__(
        self,
        waiter: Waiter,
        request: keys.Request | None,
        claim: object,
        text_of: Callable[[Lease], str],
        verify: Callable[[], object],
        refused: Callable[[EngramError], Answer] = answers.refusal,
    ) -> None:
        self.waiter = waiter
        self._request = request
        self._claim = claim
        #: The answer's text.
        self._text_of = text_of
        self._verify = verify
        self._refused = refused

    def look(self) -> Answer | None:
        """The answer; None while the claim waits."""
        try:
            # A token may be revoked while its claim waits.
            self._verify()
            lease = self.waiter.look()
        except EngramError as error:
            return self._refused(error)
        if lease is None:
            return None
        text = self._text_of(lease)
        request, self._request = self._request, None
        if request is not None:
            request.finish(self._claim, text)
        return _answer(text)

    def leave(self) -> None:
        """Leave the queue. The key of a claim that was not granted is free again."""
        self.waiter.leave()
        if self._request is not None:
            self._request.abandon(self._claim)


class WaitingClaims:
    """The operation `lock.claim`."""

    def __init__(self, service: Service, route: str, operation: Operation) -> None:
        self._service = service
        self._route = route
        self._operation = operation

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[calls.ROUTE] = self._route
        service = self._service
        body = await calls.read_body(scope, receive, service.options.max_body)
        if body is None:
            await send_answer(send, calls.too_large(service))
            return
        waiting: list[Waiting] = []
        job = calls.Job(service, scope, "write", partial(self._begin, waiting), body, self._route)
        made: Answer | None = await service.run("writes", job)
        if waiting:
            made = await awaited(service, self._route, waiting[0], receive)
        if made is not None:
            await send_answer(send, made)

    def _begin(self, waiting: list[Waiting], call: Call) -> object:
        """The answer, in the thread of the call. A claim that has to wait is put into `waiting`."""
        values: dict[str, Any] = arguments.checked(self._operation, call, call.arguments())
        request = keys.of(call, self._operation.name, values)
        if values.get("exclusive") and values.get("wait"):
            chosen = {name: value for name, value in values.items() if name not in (operations.SESSION, "exclusive")}
            waiter = call.eng.leases.line_up(values[operations.SESSION], **chosen)
            claim = None if request is None else request.claim()
            if isinstance(claim, str):
                return _answer(claim, replayed=True)
            waiting.append(Waiting(waiter, request, claim, _text_of, call.caller.verify_again))
            return None

        def perform() -> object:
            return operations.perform(call.eng, self._operation, values)

        if request is None:
            return perform()
        text, replayed = request.once(lambda: answers.text_of({"result": perform()}))
        return _answer(text, replayed=replayed)


async def awaited(service: Service, route: str, waiting: Waiting, receive: Receive) -> Answer | None:
    """The answer of a waiting claim; None if its client has gone."""
    made: Answer | None
    gone = asyncio.ensure_future(_disconnected(receive))
    stopping = asyncio.ensure_future(service.stopping.wait())
    try:
        while (made := await _step(service, route, waiting.look)) is None:
            pause = waiting.waiter.pause
            done, _ = await asyncio.wait({gone, stopping}, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            if gone in done:
                return None
            if done:
                return answers.problem(503, "server_stopping", "The server is being stopped. Try again.")
        return made
    finally:
        gone.cancel()
        stopping.cancel()
        await _step(service, route, waiting.leave)


async def _step(service: Service, route: str, step: Callable[[], _T]) -> _T | Answer:
    """One step in a thread. It is never abandoned: an abandoned look could join the queue after the claim left."""
    running = service.waiters.run(partial(calls.answered, service, route, step))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait({running})
        raise


def _text_of(lease: Lease) -> str:
    return answers.text_of({"result": plain(lease)})


def _answer(text: str, *, replayed: bool = False) -> Answer:
    return Answer(200, text.encode(), (keys.REPLAYED,) if replayed else ())


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
