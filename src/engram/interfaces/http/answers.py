"""Answers: one shape for results, `{"result": …}`, and one for everything that fails, `{"error": {…}}`."""

from __future__ import annotations

import json
import logging
import re
import zlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ... import operations
from ...errors import EngramError

if TYPE_CHECKING:
    from fastapi import FastAPI

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Header = tuple[bytes, bytes]

_JSON = (b"content-type", b"application/json")
# Answers hold what is stored, and depend on the token.
_PRIVATE = (b"cache-control", b"no-store")


#: The smallest body that is compressed, and how hard. A higher level takes twice as long for a few percent.
_WORTH_IT, _LEVEL = 1_024, 4
_GZIP = re.compile(rb"\bgzip\b(?!\s*;\s*q=0(?:\.0*)?(?:,|\s|$))")


class Answer(NamedTuple):
    status: int
    body: bytes
    headers: Sequence[Header] = ()


def text_of(value: object) -> str:
    """JSON, as compact as it can be."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def encoded(value: object) -> bytes:
    return text_of(value).encode("utf-8", "replace")


def compressed(answer: Answer, accepted: bytes) -> Answer:
    """The answer in gzip, if it is large enough and the caller accepts that."""
    if len(answer.body) < _WORTH_IT or not _GZIP.search(accepted):
        return answer
    packer = zlib.compressobj(_LEVEL, wbits=31)
    body = packer.compress(answer.body) + packer.flush()
    return Answer(answer.status, body, (*answer.headers, (b"content-encoding", b"gzip"), (b"vary", b"accept-encoding")))


def result(value: object, **more: object) -> Answer:
    """The answer to a call that succeeded, from plain data."""
    return Answer(200, encoded({"result": value, **more}))


def refusal(error: EngramError, headers: Sequence[Header] = ()) -> Answer:
    """The answer to a call that failed with an error of Engram."""
    return Answer(error.status, encoded(operations.error_shape(error)), headers)


def problem(
    status: int, code: str, message: str, headers: Sequence[Header] = (), details: Mapping[str, object] | None = None
) -> Answer:
    """The answer to a request that no operation has seen."""
    shape = {"error": {"code": code, "message": message, "hint": "", "details": dict(details or {})}}
    return Answer(status, encoded(shape), headers)


def mistake(error: BaseException, where: str) -> Answer:
    """The answer to a request that a mistake in Engram has ended. The log says where, without any text of a value."""
    logging.getLogger("engram.http").error("%s failed: %s", where, described(error))
    return problem(500, "error", "This failed because of a mistake in Engram. The server's log has the details.")


def described(error: BaseException) -> str:
    """An exception by its type and the places in the code. Its message may quote stored text or a secret."""
    places = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f"{code.co_filename.rpartition('site-packages/')[2]}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    cause = error.__cause__ or error.__context__
    more = f" from {type(cause).__name__}" if cause is not None else ""
    return f"{type(error).__name__}{more} at {' < '.join(reversed(places[-12:]))}"


async def send_answer(send: Send, answer: Answer, *, body: bool = True) -> None:
    """Send it. Without `body`, only its head: the answer to HEAD, or 304."""
    status, content, more = answer
    length = (b"content-length", b"%d" % len(content))
    kind = () if any(name == _JSON[0] for name, _ in more) else (_JSON,)
    start: Message = {"type": "http.response.start", "status": status, "headers": [*kind, length, _PRIVATE, *more]}
    await send(start)
    await send({"type": "http.response.body", "body": content if body else b""})


def not_allowed(methods: Iterable[str]) -> Answer:
    """The answer to a method that a path does not have."""
    allowed = ", ".join(sorted(methods))
    return problem(405, *_REFUSED[405], [(b"allow", allowed.encode())])


def handle_errors(app: FastAPI, nothing_here: Answer) -> None:
    """The one shape for what the routes of the application refuse: unknown paths and methods, wrong input.

    A browser that asks for an unknown path gets the page `nothing_here`.
    """
    from fastapi.exceptions import RequestValidationError
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import Response

    def response(answer: Answer) -> Response:
        made = Response(answer.body, answer.status, media_type="application/json")
        for name, value in answer.headers:
            made.headers[name.decode()] = value.decode()
        return made

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 404 and request.method == "GET" and "text/html" in request.headers.get("accept", ""):
            return response(nothing_here)
        headers = [(name.lower().encode(), value.encode()) for name, value in (error.headers or {}).items()]
        code, message = _REFUSED.get(error.status_code, ("refused", str(error.detail)))
        return response(problem(error.status_code, code, message, headers))

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        # What was sent is not repeated: it may be a secret.
        wrong = [".".join(map(str, each["loc"])) + ": " + str(each["msg"]) for each in error.errors()]
        return response(problem(422, "invalid_input", "; ".join(wrong)))

    async def engram_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, EngramError)
        return response(refusal(error))

    app.add_exception_handler(HTTPException, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(EngramError, engram_error)


_REFUSED = {
    404: ("no_such_path", "There is nothing at this path. /api/v1/openapi.json lists the operations."),
    405: ("method_not_allowed", "This path does not answer this method; the header Allow names those it does."),
}
