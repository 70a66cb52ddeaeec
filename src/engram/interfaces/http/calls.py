"""One call: the body is read in the event loop, everything else happens in one job in a thread."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, NoReturn, TypeAlias, TypeVar

from ...errors import EngramError, InvalidInput, Unauthorized
from . import answers, guard
from .answers import Answer, Message, Receive, Scope, Send, send_answer

if TYPE_CHECKING:
    from fastapi import FastAPI

    from ...client import Engram
    from .guard import Caller
    from .service import Service

_T = TypeVar("_T")

#: Which threads do the work: those for short reads, for short writes, for short writes that may share a transaction
#: with others, or for work that may take long.
Kind: TypeAlias = Literal["reads", "writes", "shared writes", "long work"]
#: Where `recording` finds the template of the path.
ROUTE = "engram.route"
#: Seconds in which a body must arrive.
BODY_WITHIN = 60.0
#: A body that is too large is read to its end if it is at most so many times as large as allowed.
_READ_OUT = 4


class Call(NamedTuple):
    """A call whose token was verified and allows it."""

    #: The workspace of the call, with the token as author.
    eng: Engram
    caller: Caller
    body: bytes
    query: bytes

    def arguments(self) -> dict[str, object]:
        """The body, which has to be a JSON object; an empty body counts as one."""
        return object_in(self.body, self.caller.headers.get(b"content-type", b""))


class TooSlow(Exception):
    """The body of a request takes too long to arrive."""


class ClientGone(Exception):
    """The client has closed its connection before the request was complete."""


#: What answers a request. An instance of a class, because Starlette takes a function for something else.
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
#: Does the work of a call, in a thread. Its result becomes `{"result": …}` unless it is an answer already.
Perform = Callable[[Call], object]


class Job:
    """The work of one call: verify, permit, perform. It is called in a thread; every failure becomes an answer."""

    __slots__ = ("_body", "_needed", "_perform", "_permit", "_route", "_scope", "_service")

    def __init__(
        self,
        service: Service,
        scope: Scope,
        needed: str,
        perform: Perform,
        body: bytes,
        route: str,
        *,
        permit: bool = True,
    ) -> None:
        """Without `permit`, `perform` decides by itself what the token allows."""
        self._service = service
        self._scope = scope
        self._needed = needed
        self._perform = perform
        self._body = body
        self._route = route
        self._permit = permit

    def __call__(self) -> Answer:
        return answered(self._service, self._route, self._answer)

    def refusal(self) -> Answer | None:
        """The answer to a caller that is not let in; None if it is."""
        return answered(self._service, self._route, self._let_in)

    def _let_in(self) -> None:
        guard.caller_of(self._scope).engram(self._needed)

    def _answer(self) -> Answer:
        caller = guard.caller_of(self._scope)
        if self._permit:
            eng = caller.engram(self._needed)
        else:
            eng = self._service.eng
            caller.grant()
        made = self._perform(Call(eng, caller, self._body, self._scope["query_string"]))
        answer = made if isinstance(made, Answer) else answers.result(made)
        accepted = caller.headers.get(b"accept-encoding")
        return answer if accepted is None else answers.compressed(answer, accepted)


class Endpoint:
    """An ASGI application for one path; `add` gives it to the application.

    `needed` is the scope that the token must have: read, write or admin. Errors of Engram that `perform` raises are
    answered in the one shape. `threads` are those of the service that do the work; by default those that read or those
    that write.
    """

    def __init__(
        self, service: Service, route: str, needed: str, perform: Perform, threads: Kind | None = None
    ) -> None:
        self._service = service
        self._route = route
        self._needed = needed
        self._perform = perform
        self._kind: Kind = threads or ("reads" if needed == "read" else "writes")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        service = self._service
        scope[ROUTE] = self._route
        body = await read_body(scope, receive, service.options.max_body)
        if body is None:
            await send_answer(send, too_large(service))
            return
        job = Job(service, scope, self._needed, self._perform, body, self._route)
        made = await service.run(self._kind, job)
        if self._needed != "read":
            service.feed.poke()
        await send_answer(send, made, body=scope["method"] != "HEAD")


def add(app: FastAPI, path: str, methods: Sequence[str], application: Application) -> None:
    """Serve a path with an ASGI application, such as an `Endpoint`."""
    from starlette.routing import Route

    app.router.routes.append(Route(path, application, methods=methods))


def answered(service: Service, route: str, perform: Callable[[], _T]) -> _T | Answer:
    """The result of a step of a call. Every failure becomes an answer."""
    try:
        return perform()
    except Unauthorized as error:
        return guard.refusal(service, error)
    except EngramError as error:
        return answers.refusal(error)
    except Exception as error:
        return answers.mistake(error, route)


async def read_body(scope: Scope, receive: Receive, most: int) -> bytes | None:
    """The body of a request; None if it is larger than `most` bytes. It is counted while it arrives.

    A body that is not much too large is read to its end: a client that is still sending would not see the refusal.
    """
    declared = guard.caller_of(scope).headers.get(b"content-length", b"")
    if len(declared) > 18 or (declared.isdigit() and int(declared) > _READ_OUT * most):
        return None
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientGone
    body: bytes = message.get("body", b"")
    if not message.get("more_body", False):
        return body if len(body) <= most else None
    # Only a caller that is let in may keep the server reading.
    await guard.caller_of(scope).verify()
    try:
        async with asyncio.timeout(BODY_WITHIN):
            return await _rest_of_body(receive, message, most)
    except TimeoutError:
        raise TooSlow from None


async def _rest_of_body(receive: Receive, message: Message, most: int) -> bytes | None:
    body: bytes = message.get("body", b"")
    pieces, size = [body], len(body)
    while message.get("more_body", False) and size <= _READ_OUT * most:
        message = await receive()
        if message["type"] == "http.disconnect":
            # Half a body may be a whole request that nobody meant.
            raise ClientGone
        piece = message.get("body", b"")
        size += len(piece)
        if size <= most:
            pieces.append(piece)
    return b"".join(pieces) if size <= most else None


def too_large(service: Service) -> Answer:
    most = service.options.max_body
    # The rest of the body is not read, so the connection cannot be used again.
    return answers.problem(
        413, "request_too_large", f"The body is larger than {most:,} bytes.", [(b"connection", b"close")]
    )


def object_in(body: bytes, content_type: bytes) -> dict[str, object]:
    """The JSON object in a body. InvalidInput for anything that is not exactly one."""
    if not body:
        return {}
    kind = content_type.partition(b";")[0].strip().lower()
    if kind != b"application/json":
        raise InvalidInput("The body must be JSON, with the header Content-Type: application/json.")
    value = parsed(body, "The body")
    if not isinstance(value, dict):
        raise InvalidInput("The body must be a JSON object with the arguments by name.")
    return value


def parsed(text: bytes | str, what: str) -> object:
    """A JSON value. InvalidInput for what is no JSON, for NaN and Infinity, and for a name that occurs twice."""
    try:
        if isinstance(text, bytes):
            text = text.decode()
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_once_each)
    except InvalidInput:
        raise
    except RecursionError:
        raise InvalidInput(f"{what} is nested too deeply.") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{what} is not UTF-8.") from None
    except ValueError:
        raise InvalidInput(f"{what} is not valid JSON.") from None


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidInput(f"{name} is not a JSON number.")


def _once_each(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise InvalidInput("A JSON object names a member twice.")
    return found
