"""One call: the body is read in the event loop, everything else happens in one job in a thread."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from ...errors import EngramError, InvalidInput, Unauthorized
from . import answers, guard
from .answers import Answer, Receive, Scope, Send, send_answer

if TYPE_CHECKING:
    from ...client import Engram
    from .guard import Caller
    from .service import Service

#: Where `recording` finds the template of the path.
ROUTE = "engram.route"


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


#: Does the work of a call, in a thread. Its result becomes `{"result": …}` unless it is an answer already.
Perform = Callable[[Call], object]


def endpoint(service: Service, route: str, needed: str, perform: Perform) -> Callable[..., Awaitable[None]]:
    """An ASGI application for one path: `Route(route, endpoint(…), methods=["POST"])` serves it.

    `needed` is the scope that the token must have: read, write or admin. Errors of Engram that `perform` raises are
    answered in the one shape.
    """
    threads = "readers" if needed == "read" else "writers"

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        scope[ROUTE] = route
        body = await read_body(scope, receive, service.options.max_body)
        if body is None:
            await send_answer(send, too_large(service))
            return
        job = partial(answer, service, scope, needed, perform, body, route)
        made = await getattr(service, threads).run(job)
        await send_answer(send, made, body=scope["method"] != "HEAD")

    return application


def answer(service: Service, scope: Scope, needed: str, perform: Perform, body: bytes, route: str) -> Answer:
    """Verify, permit, perform. Every failure becomes an answer."""
    try:
        caller = guard.caller_of(scope)
        made = perform(Call(caller.engram(needed), caller, body, scope["query_string"]))
        return made if isinstance(made, Answer) else answers.result(made)
    except Unauthorized as error:
        return guard.refusal(service, scope, error)
    except EngramError as error:
        return answers.refusal(error)
    except Exception as error:
        return answers.mistake(error, route)


async def read_body(scope: Scope, receive: Receive, most: int) -> bytes | None:
    """The body of a request; None if it is larger than `most` bytes. It is counted while it arrives."""
    declared = guard.caller_of(scope).headers.get(b"content-length")
    if declared is not None and declared.isdigit() and int(declared) > most:
        return None
    message = await receive()
    body: bytes = message.get("body", b"")
    if not message.get("more_body", False):
        return body if len(body) <= most else None
    pieces, size = [body], len(body)
    while message.get("more_body", False):
        message = await receive()
        piece = message.get("body", b"")
        size += len(piece)
        if size > most:
            return None
        pieces.append(piece)
    return b"".join(pieces)


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
