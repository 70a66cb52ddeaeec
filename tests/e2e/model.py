"""A model that follows a script, over the three protocols that the harness clients speak.

It answers from the request alone: the number of tool results in a conversation says how far it has come. So it needs
no state of its own, and any number of clients may ask it at once.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

Json = dict[str, Any]


class Script(NamedTuple):
    """What the model does when it is asked: write one file, then say one thing."""

    path: str
    content: str
    closing: str
    #: Whether it first claims the file exclusively, with Engram's MCP tool.
    claims: bool = False

    @property
    def claim(self) -> Json:
        return {"action": "claim", "resource": self.path, "exclusive": True, "ttl": "10m"}


class Request(NamedTuple):
    """One request that a client sent to the model."""

    path: str
    body: Json

    @property
    def text(self) -> str:
        """Everything in it, as a model would read it."""
        return "\n".join(_strings(self.body))


#: Called before an agent's request is answered, with the number of tool results it carries.
Watcher = Callable[[Request, int], None]


def _nothing(request: Request, results: int) -> None:
    pass


class Model:
    """The scripted model of an agent, and what it was asked."""

    def __init__(self, script: Script) -> None:
        self.script = script
        #: The requests of the agent itself; those for a title or a summary carry no tools and do not count.
        self.requests: list[Request] = []
        self.watch: Watcher = _nothing
        #: What went wrong while watching; raised when the model is no longer needed.
        self.failures: list[Exception] = []
        self.url = ""

    def end(self) -> None:
        """Called when the model is no longer needed."""

    def answer(self, request: Request) -> tuple[bool, list[tuple[str | None, Json]]]:
        """Whether to stream, and the events of the answer."""
        protocol = _protocol(request.path)
        if protocol is None:
            return False, [(None, {"error": {"message": f"nothing is scripted for {request.path}"}})]
        if not protocol.offers_tools(request.body):
            return protocol.speak(request, None, "A title.")
        self.requests.append(request)
        results, script = protocol.results(request.body), self.script
        self.watch(request, results)
        if results > script.claims:
            return protocol.speak(request, None, script.closing)
        return protocol.speak(request, script._replace(claims=script.claims and not results), "")


#: Stands for the session that Engram named in an earlier answer.
SESSION = "the session that sitrep named"


class Calling(Model):
    """A model for Claude Code that calls tools, one after the other, and then says one thing."""

    def __init__(self, closing: str) -> None:
        super().__init__(Script("", "", closing))
        self.calls: list[tuple[str, Json]] = []

    def answer(self, request: Request) -> tuple[bool, list[tuple[str | None, Json]]]:
        if not _Anthropic.offers_tools(request.body):
            return super().answer(request)
        self.requests.append(request)
        done = _Anthropic.results(request.body)
        if done >= len(self.calls):
            return _Anthropic.speak(request, None, self.script.closing)
        name, arguments = self.calls[done]
        if SESSION in arguments.values():
            (id,) = set(re.findall(r"Pass session: (\S+) with every call", request.text))
            arguments = {key: id if value == SESSION else value for key, value in arguments.items()}
        return _Anthropic.call(request, name, arguments)


@contextmanager
def serving(model: Model) -> Iterator[Model]:
    """The model on a port of the loopback interface."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            self._send(200, "application/json", b'{"data": [], "models": []}')

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            try:
                request = Request(self.path.partition("?")[0], json.loads(body))
            except ValueError:
                self._send(400, "application/json", b"{}")
                return
            try:
                streamed, events = model.answer(request)
            except Exception as error:
                model.failures.append(error)
                self._send(400, "application/json", b"{}")
                return
            if streamed:
                lines = [
                    (f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n" for name, data in events
                ]
                self._send(200, "text/event-stream", "".join(lines).encode())
            else:
                ((_, data),) = events
                self._send(404 if "error" in data else 200, "application/json", json.dumps(data).encode())

        def _send(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            # A client that was ended meanwhile does not read.
            with suppress(ConnectionError):
                self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    model.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield model
    finally:
        model.end()
        server.shutdown()
        thread.join()
        server.server_close()
    if model.failures:
        raise model.failures[0]


class _Anthropic:
    """Messages, as Claude Code asks for them."""

    @staticmethod
    def offers_tools(body: Json) -> bool:
        return any(tool.get("name") == "Write" for tool in body.get("tools", ()))

    @staticmethod
    def results(body: Json) -> int:
        contents = [message["content"] for message in body["messages"] if isinstance(message["content"], list)]
        return sum(part.get("type") == "tool_result" for content in contents for part in content)

    @staticmethod
    def speak(request: Request, script: Script | None, text: str) -> tuple[bool, list[tuple[str | None, Json]]]:
        if script:
            arguments = script.claim if script.claims else {"file_path": script.path, "content": script.content}
            return _Anthropic.call(request, "mcp__engram__lock" if script.claims else "Write", arguments)
        given: Json = {"type": "text", "text": text}
        return _Anthropic._turn(request, given, {"type": "text", "text": ""}, {"type": "text_delta", "text": text})

    @staticmethod
    def call(request: Request, name: str, arguments: Json) -> tuple[bool, list[tuple[str | None, Json]]]:
        """Ask for a tool."""
        given: Json = {"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": arguments}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        return _Anthropic._turn(request, given, {**given, "input": {}}, delta)

    @staticmethod
    def _turn(request: Request, given: Json, empty: Json, delta: Json) -> tuple[bool, list[tuple[str | None, Json]]]:
        reason = {"stop_reason": "tool_use" if given["type"] == "tool_use" else "end_turn", "stop_sequence": None}
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": request.body["model"],
            "usage": usage,
        }
        if not request.body.get("stream"):
            return False, [(None, {**message, **reason, "content": [given]})]
        started = {**message, "content": [], "stop_reason": None, "stop_sequence": None}
        events: list[Json] = [
            {"type": "message_start", "message": started},
            {"type": "content_block_start", "index": 0, "content_block": empty},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": reason, "usage": usage},
            {"type": "message_stop"},
        ]
        return True, [(event["type"], event) for event in events]


class _OpenAI:
    """Responses, as Codex asks for them."""

    @staticmethod
    def offers_tools(body: Json) -> bool:
        return any(tool.get("name") == "apply_patch" for tool in body.get("tools", ()))

    @staticmethod
    def results(body: Json) -> int:
        return sum(str(item.get("type")).endswith("_call_output") for item in body["input"])

    @staticmethod
    def speak(request: Request, script: Script | None, text: str) -> tuple[bool, list[tuple[str | None, Json]]]:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        item: Json = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
        if script:
            lines = "".join(f"+{line}\n" for line in script.content.splitlines())
            patch = f"*** Begin Patch\n*** Add File: {script.path}\n{lines}*** End Patch\n"
            item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "apply_patch"}
            item |= {"input": patch, "status": "completed"}
        if script and script.claims:
            item = {"type": "function_call", "id": "fc_1", "call_id": "call_0", "status": "completed"}
            item |= {"name": "lock", "namespace": "mcp__engram", "arguments": json.dumps(script.claim)}
        response = {"id": "resp_1", "object": "response", "model": request.body["model"]}
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        events: list[Json] = [
            {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {
                "type": "response.completed",
                "response": {**response, "status": "completed", "output": [item], "usage": usage},
            },
        ]
        return True, [(event["type"], event) for event in events]


class _Gemini:
    """generateContent, as Gemini CLI asks for it."""

    @staticmethod
    def offers_tools(body: Json) -> bool:
        declared = [each for tool in body.get("tools", ()) for each in tool.get("functionDeclarations", ())]
        return any(each.get("name") == "write_file" for each in declared)

    @staticmethod
    def results(body: Json) -> int:
        parts = [part for content in body["contents"] for part in content.get("parts", ())]
        return sum("functionResponse" in part for part in parts)

    @staticmethod
    def speak(request: Request, script: Script | None, text: str) -> tuple[bool, list[tuple[str | None, Json]]]:
        part: Json = {"text": text}
        if script:
            arguments = script.claim if script.claims else {"file_path": script.path, "content": script.content}
            name = "mcp_engram_lock" if script.claims else "write_file"
            part = {"functionCall": {"name": name, "args": arguments}}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        return "stream" in request.path, [(None, {"candidates": [candidate], "usageMetadata": usage})]


class Thinking(Model):
    """The scripted model behind a thinker: it answers each question with the least that its schema allows."""

    def __init__(self, script: Script) -> None:
        super().__init__(script)
        #: Whether it first asks for the tool of its script, and whether it does not answer at all.
        self.asks_for_tool = False
        self.hangs = False
        self._ended = threading.Event()

    def end(self) -> None:
        self._ended.set()

    def answer(self, request: Request) -> tuple[bool, list[tuple[str | None, Json]]]:
        protocol = _protocol(request.path)
        if protocol is None:
            return False, [(None, {"error": {"message": f"nothing is scripted for {request.path}"}})]
        self.requests.append(request)
        if self.hangs:
            self._ended.wait()
        if self.asks_for_tool and not protocol.results(request.body):
            return protocol.speak(request, self.script, "")
        _, _, asked = request.text.partition("this JSON Schema, and nothing else:\n")
        if not asked:
            return protocol.speak(request, None, self.script.closing)
        data = self._least(json.loads(asked.partition("\n")[0]))
        if protocol is _Anthropic and any(tool.get("name") == "StructuredOutput" for tool in request.body["tools"]):
            return _Anthropic.call(request, "StructuredOutput", data)
        return protocol.speak(request, None, json.dumps(data))

    def _least(self, schema: Json) -> Any:
        kind = schema.get("type")
        if "enum" in schema:
            return schema["enum"][0]
        if kind == "object":
            return {name: self._least(form) for name, form in schema["properties"].items()}
        if kind == "array":
            return [self._least(schema["items"])] * schema.get("minItems", 0)
        return {"string": self.script.closing, "boolean": True}.get(str(kind), schema.get("minimum", 0))


def _protocol(path: str) -> type[_Anthropic] | type[_OpenAI] | type[_Gemini] | None:
    if path.endswith("/messages"):
        return _Anthropic
    if path.endswith("/responses"):
        return _OpenAI
    return _Gemini if path.lower().endswith("generatecontent") else None


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each)
