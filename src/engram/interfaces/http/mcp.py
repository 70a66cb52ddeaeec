"""`/mcp`: the MCP server over streamable HTTP, for the same tools, resources and prompts as over standard input.

Any worker, and any server on the same store, may get the next request of a client. So the SDK's transport runs without
sessions of its own: nothing that a client needs is in this process. A client of the protocol with a handshake gets a
session id all the same, because it sends the id with every request. The id is random and carries the client's name,
which such a client gives only once. Together with the name of the token it is the key under which the store remembers
which Engram session the client acts as. So the id of another token's client leads to nothing, and an id needs no
place to be remembered.

A client of the protocol without a handshake (2026-07-28) has no id. It names its session in each call, because nothing
else would keep two conversations of one client apart.

An answer goes out as a stream of events: it may take minutes to claim a resource, and the pings in between keep proxies
from closing the connection. If the client closes it, the call is cancelled. There is nothing that the server would say
unasked, so GET is refused.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.routing import Route

from ...errors import EngramError
from ...safe_text import one_line
from ..mcp.connections import UNKNOWN_CLIENT, Connection, Kept, Remote
from ..mcp.host import Host
from ..mcp.lines import without_surrogates
from ..mcp.server import Context, build
from . import answers, calls, guard
from .answers import Message, Receive, Scope, Send, send_answer

if TYPE_CHECKING:
    from fastapi import FastAPI

    from ...access_records import Grant
    from .service import Service

PATH = "/mcp"
#: The most clients about which this process remembers what it told them, and that they have ended.
MOST_KEPT = 1_000
_SESSION = b"mcp-session-id"
#: The project that the client works in. A client that runs elsewhere has no folder here from which to tell it.
_PROJECT = b"x-engram-project"
_ID = re.compile(r"[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{0,600}", re.ASCII)
_MOST_NAME = 100
#: Where a request carries the connection that was made for it.
_CONNECTION = "engram.mcp"
_EVERY_METHOD = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_INITIALIZE = b'"initialize"'
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class Endpoint:
    """Answers requests to `/mcp`."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.host = Host(lambda: service.eng)
        self._manager = StreamableHTTPSessionManager(
            build(self.host, connect=_connection_of), stateless=True, max_request_body_size=service.options.max_body
        )
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._ended: OrderedDict[str, None] = OrderedDict()

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        async with self._manager.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[calls.ROUTE] = PATH
        caller = guard.caller_of(scope)
        try:
            grant = await caller.verify()
            eng = caller.engram("read")
            project = caller.headers.get(_PROJECT)
            if project is not None:
                eng = eng.from_elsewhere(project.decode("utf-8", "replace"))
        except EngramError as error:
            await send_answer(send, guard.refusal(self._service, error))
            return
        if scope["method"] not in ("POST", "DELETE"):
            await send_answer(send, answers.not_allowed(("POST", "DELETE")))
            return
        given = caller.headers.get(_SESSION, b"").decode("latin-1")
        key = _key(grant, given) if given else None
        if given and (not _ID.fullmatch(given) or key in self._ended):
            # The client begins again with a handshake.
            await send_answer(send, _no_session())
            return
        connection = self._connection(Remote(grant, eng, key, caller.verify_again), _name_in(given))
        if scope["method"] == "DELETE":
            await self._end(send, connection)
        else:
            await self._post(scope, receive, send, connection)

    async def _post(self, scope: Scope, receive: Receive, send: Send, connection: Connection) -> None:
        body = await calls.read_body(scope, receive, self._service.options.max_body)
        if body is None:
            await send_answer(send, calls.too_large(self._service))
            return
        if _SURROGATE.search(body):
            body = _readable(body)
        scope[_CONNECTION] = connection
        # The space around a value is not part of it. The SDK compares some values with the body.
        scope["headers"] = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        new_id = _new_id(body) if _INITIALIZE in body else None
        complete = False

        async def answer(message: Message) -> None:
            nonlocal complete
            if message["type"] == "http.response.start" and new_id is not None and message["status"] == 200:
                message = {**message, "headers": [*message["headers"], (_SESSION, new_id.encode())]}
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                complete = True

        try:
            await self._manager.handle_request(scope, _replayed(body, receive), answer)
        finally:
            await self._settle(connection, complete)

    async def _settle(self, connection: Connection, complete: bool) -> None:
        """Messages that were sent to the end count as read. The others come with the next answer."""
        if connection.unsent:
            note = self.host.received if complete else self.host.lost
            with anyio.CancelScope(shield=True):
                for answer in connection.unsent:
                    await anyio.to_thread.run_sync(partial(note, connection, answer))

    async def _end(self, send: Send, connection: Connection) -> None:
        """The client has finished: its session is completed, unless it only took it over."""
        if connection.key is None:
            await send_answer(send, answers.problem(400, "no_mcp_session", "DELETE needs the header Mcp-Session-Id."))
            return
        _remember(self._ended, connection.key, None)
        try:
            await self._service.writers.run(partial(self.host.end, connection))
        except EngramError as error:
            await send_answer(send, answers.refusal(error))
            return
        await send_answer(send, answers.result(None))

    def _connection(self, remote: Remote, client: str) -> Connection:
        kept = Kept() if remote.key is None else _remember(self._kept, remote.key, Kept())
        connection = Connection(client or UNKNOWN_CLIENT, remote=remote, kept=kept)
        connection.unsent = []
        return connection


def add(app: FastAPI, service: Service) -> Endpoint:
    endpoint = Endpoint(service)
    app.router.routes.append(Route(PATH, endpoint, methods=_EVERY_METHOD))
    return endpoint


def _connection_of(context: Context) -> Connection:
    assert context.request is not None
    connection: Connection = context.request.scope[_CONNECTION]
    return connection


def _key(grant: Grant, id: str) -> str:
    """The name of a client's connection in the store. A refreshed OAuth token has another id but the same name."""
    return "mcp-" + hashlib.sha256(f"{grant.name}\n{id}".encode()).hexdigest()[:24]


def _new_id(body: bytes) -> str | None:
    """The id for a client that begins with this handshake; None if it is none."""
    try:
        message: Any = json.loads(body)
        if message["method"] != "initialize":
            return None
        name = one_line(str(message["params"]["clientInfo"]["name"]), _MOST_NAME)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return f"{secrets.token_urlsafe(16)}.{base64.urlsafe_b64encode(name.encode()).decode().rstrip('=')}"


def _name_in(id: str) -> str:
    """The client's name in its id. The client could have changed it, which is as good as another handshake."""
    encoded = id.partition(".")[2]
    try:
        name = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
    except (ValueError, binascii.Error):
        return ""
    return one_line(name, _MOST_NAME)


def _no_session() -> answers.Answer:
    error = {"code": -32600, "message": "Session not found"}
    return answers.Answer(404, answers.encoded({"jsonrpc": "2.0", "id": None, "error": error}))


def _readable(body: bytes) -> bytes:
    """The body without lone surrogates, which the SDK cannot read: see `lines`."""
    try:
        return without_surrogates(body.decode()).encode()
    except (ValueError, RecursionError):
        return body


def _replayed(body: bytes, receive: Receive) -> Receive:
    """What the transport reads: the body that was read already, then whatever comes."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again


def _remember(kept: OrderedDict[str, Any], key: str, value: Any) -> Any:
    found = kept.setdefault(key, value)
    kept.move_to_end(key)
    while len(kept) > MOST_KEPT:
        kept.popitem(last=False)
    return found
