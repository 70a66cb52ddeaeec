"""A server on loopback with OpenAI's chat completions API. It returns scripted answers and records the prompts."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from engram.llm import quoted

#: Words that only a prompt about a session contains.
SESSION = "The data is a session between a person"
#: An answer for every stage, by words that only its prompt contains.
PORTRAIT: dict[str, dict[str, Any]] = {
    SESSION: {
        "title": "The router",
        "outcome": "The router is ported.",
        "open": [],
        "gist": "The user ported the router.",
        "statements": [],
        "closed": [],
    },
    "Continue the narrative": {"arc": ["It went on."], "open_threads": []},
    "first person": {"mood": "calm", "energy": 0.5, "narrative": "I keep notes.", "reflection": "Little happened."},
}


class Model:
    """The scripted answers, and the prompts received."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[str] = []
        #: Called with each prompt; returns the answer's text, or an HTTP status for a failure.
        self.answer: Callable[[str], str | int] = plainly

    def respond(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        prompt = "\n".join(str(message["content"]) for message in body["messages"])
        self.asked.append(prompt)
        text = self.answer(prompt)
        if isinstance(text, int):
            return text, {"error": {"message": "not now"}}
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
        spent = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        whole = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
        return 200, {**whole, "usage": spent}


def plainly(prompt: str) -> str:
    """Answer any prompt with something that matches the requested schema."""
    for words, data in PORTRAIT.items():
        if words in prompt:
            return json.dumps(data)
    return "The user ported the router."


def session_answer(*statements: dict[str, Any], **fields: Any) -> str:
    """An answer about a session, with these statements; what a statement leaves out is usual."""
    usual = {"kind": "fact", "confidence": 0.9, "about_user": False, "same_as": "", "replaces": ""}
    return json.dumps({**PORTRAIT[SESSION], "statements": [{**usual, **each} for each in statements], **fields})


def echoing(prompt: str) -> str:
    """Answer with everything that the prompt quotes, in the requested schema: the worst case of a leak."""
    rows = quoted(prompt)
    texts = [text for _, text in rows]
    if SESSION in prompt:
        said = [(id, text) for id, text in rows if id.startswith("e")]
        whole = "\n".join(text for _, text in rows)
        return session_answer(
            *({"text": text[:400], "source": id} for id, text in said[:20]), title=whole[:120], gist=whole[:3_000]
        )
    if "Continue the narrative" in prompt:
        lines = [f"{line[:400]} [{id}]" for id, text in rows if id.startswith("m") for line in text.split("\n") if line]
        known = [line[2:] for id, text in rows if id.startswith("b") for line in text.split("\n") if line[:2] == "- "]
        return json.dumps({"arc": [*known, *lines][-30:], "open_threads": []})
    if "first person" in prompt:
        spoken = {"narrative": " ".join(texts)[-2_000:], "reflection": " ".join(texts)[-1_000:]}
        return json.dumps({"mood": "calm", "energy": 0.5, **spoken})
    return "\n".join(texts)


@contextmanager
def serve() -> Iterator[Model]:
    model = Model()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, answer = model.respond(body)
            sent = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    model.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
