"""Model servers on loopback, real enough to fail in all the ways that they do, and to count."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

KEY = "sk-very-secret-0123456789"


class Response(NamedTuple):
    body: str
    status: int = 200
    kind: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    #: Says that it will send more than it does, and hangs up.
    cut: bool = False


Script = Callable[[dict[str, Any]], Response]


class Server:
    """`then` holds what it does next; when that is used up, it does `always`."""

    def __init__(self, always: Script) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.then: list[Script] = []
        self.always = always
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["content-length"])))
                server.requests.append(request)
                server.paths.append(self.path)
                server.headers.append({name.lower(): value for name, value in self.headers.items()})
                response = (server.then.pop(0) if server.then else server.always)(request)
                # A client that lost patience is no longer there.
                with suppress(ConnectionError):
                    self.reply(response)

            def reply(self, response: Response) -> None:
                self.send_response(response.status)
                self.send_header("content-type", response.kind)
                self.send_header("content-length", str(len(response.body.encode()) + 100 * response.cut))
                for name, value in response.headers:
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(response.body.encode())
                self.close_connection = True

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def raw(body: str, status: int = 200, kind: str = "application/json") -> Script:
    return lambda request: Response(body, status, kind)


def failing(status: int, message: str = "try later", *, code: str | None = None, **headers: str) -> Script:
    """An error in a form that both SDKs understand."""
    error = {"type": "some_error", "message": message, "code": code}
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return lambda request: Response(json.dumps({"type": "error", "error": error}), status, headers=named)


def hanging_up(request: dict[str, Any]) -> Response:
    return Response('{"half of', cut=True)


def openai_says(
    text: str | None, *, finish: str = "stop", refusal: str | None = None, usage: tuple[int, int] | None = (10, 5)
) -> Script:
    message = {"role": "assistant", "content": text, "refusal": refusal}
    answer: dict[str, Any] = {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
    }
    if usage:
        answer["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    return raw(json.dumps(answer))


def anthropic_says(
    text: str | None, *, finish: str = "end_turn", refusal: str | None = None, usage: tuple[int, int] | None = (10, 5)
) -> Script:
    content: list[dict[str, Any]] = [{"type": "thinking", "thinking": "Hm.", "signature": "s"}]
    if text is not None:
        content.append({"type": "text", "text": text})
    answer: dict[str, Any] = {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": content,
        "stop_reason": {"length": "max_tokens", "stop": "end_turn"}.get(finish, finish) if not refusal else "refusal",
        "stop_sequence": None,
    }
    if usage:
        answer["usage"] = {"input_tokens": usage[0] - 3, "cache_read_input_tokens": 3, "output_tokens": usage[1]}
    return raw(json.dumps(answer))
