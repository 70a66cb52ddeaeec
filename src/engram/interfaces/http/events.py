"""`GET /api/v1/events`: changes of the store as server-sent events.

A client that names the last event it has seen (`Last-Event-ID`, which browsers send by themselves, or `after`) first
gets what it has missed, page by page, then what happens. The stream is added to the feed before the last page is read.
That page ends where the feed begins, so nothing is missed or sent twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ... import checks
from ...errors import InvalidInput
from ...operations import Operation
from ...operations.inputs import text, texts, whole
from ...setup_records import StoreChange
from . import answers, arguments, calls, guard, openapi
from .answers import Receive, Scope, Send, send_answer
from .calls import Call
from .feed import WHATS, Stream, Wanted, event

if TYPE_CHECKING:
    from fastapi import FastAPI

    from ...client import Engram
    from .service import Service

PATH = "/api/v1/events"
#: Streams in one process. Each costs a connection and some kilobytes.
MOST_STREAMS = 5_000
#: Missed changes in one read.
PAGE = 500
#: All workspaces that the token may see.
ALL = "*"

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    # nginx would collect events before it passes them on.
    (b"x-accel-buffering", b"no"),
]
#: Milliseconds after which a client that lost its stream tries again.
_FIRST = b"retry: 2000\n\n"

_INPUTS = Operation(
    "events",
    "read",
    "Changes as server-sent events.",
    lambda eng: None,
    (
        text("workspace", "only this workspace; *: all that the token may see"),
        texts("what", f"only changes of these kinds: {', '.join(WHATS)}"),
        whole("after", "the number of the last change that was seen, as in Last-Event-ID"),
    ),
)


class _Opening(NamedTuple):
    """A stream that may begin."""

    eng: Engram
    wanted: Wanted
    #: The last change that the client has seen; None if it wants to hear only of what happens now.
    after: int | None


class Events:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[calls.ROUTE] = PATH
        service = self._service
        if scope["method"] != "GET":
            # The head of a stream is followed by a stream that nobody reads.
            await send_answer(send, answers.not_allowed(("GET",)))
            return
        found: list[_Opening] = []
        job = calls.Job(service, scope, "read", partial(self._open, found), b"", PATH, permit=False)
        refused = await service.readers.run(job)
        if not found:
            await send_answer(send, refused)
            return
        if service.feed.open >= MOST_STREAMS:
            await send_answer(send, answers.problem(503, "too_many_streams", "Too many event streams are open."))
            return
        stream = Stream(found[0].wanted, guard.caller_of(scope))
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        try:
            complete = await self._send_until_the_end(found[0], stream, receive, send)
        finally:
            service.feed.unsubscribe(stream)
        if complete:
            await send({"type": "http.response.body", "body": b""})

    def _open(self, found: list[_Opening], call: Call) -> None:
        """Check what is asked for, in a thread."""
        given = arguments.in_query(_INPUTS, call.query)
        values: dict[str, Any] = arguments.checked(_INPUTS, call, given)
        after = _after(call, values)
        whats = values.get("what")
        for what in whats or ():
            if what not in WHATS:
                raise InvalidInput(f"what is {what[:80]!r}; it must be one of {', '.join(WHATS)}.")
        grant = call.caller.grant()
        workspace = values.get("workspace") or call.caller.workspace()
        if workspace == ALL:
            workspace = grant.workspace
        eng = self._service.facade(grant, "read", workspace or grant.workspace or self._service.eng.workspace_name)
        call.caller.used = workspace or ALL
        wanted = Wanted(workspace, frozenset(whats) if whats else None)
        if after is not None:
            # A number that this store has not reached is of another store, or of a copy that was replaced.
            after = min(after, eng.changes.latest_everywhere)
        found.append(_Opening(eng, wanted, after))

    async def _send_until_the_end(self, opening: _Opening, stream: Stream, receive: Receive, send: Send) -> bool:
        """Send events; whether the answer can be completed, because the client is there and takes what is sent."""
        sending = asyncio.ensure_future(self._send(opening, stream, send))
        gone = asyncio.ensure_future(_disconnected(receive))
        dropped = asyncio.ensure_future(stream.dropped.wait())
        try:
            await asyncio.wait({sending, gone, dropped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, gone, dropped):
                task.cancel()
            await asyncio.wait({sending, gone, dropped})
        if not sending.cancelled() and (error := sending.exception()) is not None:
            raise error
        return not sending.cancelled()

    async def _send(self, opening: _Opening, stream: Stream, send: Send) -> None:
        async def pass_on(data: bytes) -> None:
            await send({"type": "http.response.body", "body": data, "more_body": True})

        await pass_on(_FIRST)
        after = opening.after
        if after is not None:
            async for page in self._missed(opening, after, None):
                after = page[-1].number
                await pass_on(_events(opening.wanted, page))
        begun = await self._service.feed.subscribe(stream, after)
        if after is not None:
            async for page in self._missed(opening, after, begun):
                await pass_on(_events(opening.wanted, page))
        while (data := await stream.next()) is not None:
            await pass_on(data)

    async def _missed(self, opening: _Opening, after: int, until: int | None) -> AsyncIterator[list[StoreChange]]:
        """Pages of changes after a number, up to another one, or until the end is near."""
        while until is None or after < until:
            page = await self._service.readers.run(partial(_read, opening, after))
            full = len(page) == PAGE
            kept = page if until is None else [each for each in page if each.number <= until]
            if kept:
                yield kept
            if not full or len(kept) < len(page):
                return
            after = page[-1].number


def _read(opening: _Opening, after: int) -> list[StoreChange]:
    workspace = opening.wanted.workspace
    if workspace is None:
        return opening.eng.changes.everywhere(after, PAGE)
    return [StoreChange(*change, workspace=workspace) for change in opening.eng.changes(after, PAGE)]


def _events(wanted: Wanted, page: list[StoreChange]) -> bytes:
    return b"".join(event(change) for change in page if wanted.includes(change))


def _after(call: Call, values: dict[str, Any]) -> int | None:
    """The last change that the client has seen."""
    seen = call.caller.headers.get(b"last-event-id")
    if seen is None:
        after = values.get("after")
        return None if after is None else checks.whole(after, "after", least=0)
    if not seen.isdigit() or len(seen) > 18:
        raise InvalidInput("Last-Event-ID must be the number of a change.")
    return int(seen)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def add(app: FastAPI, service: Service) -> None:
    calls.add(app, PATH, ["GET"], Events(service))


def describe() -> openapi.Path:
    described = "Server-sent events; `data` is JSON with `number`, `what`, `id` and `workspace`."
    example = 'id: 4711\nevent: session\ndata: {"number":4711,"what":"session","id":"…","workspace":"default"}\n\n'
    content = {"text/event-stream": {"schema": {"type": "string"}, "examples": {"event": {"value": example}}}}
    header = {
        "name": "Last-Event-ID",
        "in": "header",
        "description": "The number of the last event that was seen; what came after it is sent first.",
        "schema": {"type": "integer", "minimum": 0},
    }
    parameters = (*(openapi.parameter(each, {}) for each in _INPUTS.inputs), header)
    answer = {"description": described, "content": content}
    return openapi.Path(PATH, "GET", _INPUTS.help, "workspace", parameters=parameters, responses={"200": answer})
