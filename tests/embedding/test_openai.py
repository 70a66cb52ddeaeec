"""The OpenAI embedder, tested on a local server that can fail in all the usual ways."""

from __future__ import annotations

import json
import logging
import math
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import numpy as np
import pytest

from engram.embedding import Embedder
from engram.embedding.openai import OpenAIEmbedder
from engram.errors import EmbedderFailed

from ._processes import may_fork, works_in_a_child

pytestmark = pytest.mark.usefixtures("sdk")

KEY = "sk-very-secret-0123456789"
DIMS = 5


class Answer(NamedTuple):
    body: str
    status: int = 200
    kind: str = "application/json"


def vector(text: str) -> list[float]:
    return [float(len(text)), float(ord(text[0])), 1.0, 2.0, 3.0]


def listed(vectors: list[Any]) -> Answer:
    data = [{"object": "embedding", "index": place, "embedding": each} for place, each in enumerate(vectors)]
    # A server may answer in any order; the index says which is which.
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return Answer(json.dumps({"object": "list", "model": "m", "data": data[::-1], "usage": usage}))


def well(texts: list[str]) -> Answer:
    return listed([vector(text) for text in texts])


class Endpoint:
    """A server on loopback. `then` lists its next responses; after them it answers correctly."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.then: list[Callable[[list[str]], Answer]] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["content-length"])))
                endpoint.requests.append(request)
                endpoint.keys.append(self.headers["authorization"])
                answer = (endpoint.then.pop(0) if endpoint.then else well)(request["input"])
                # The client has timed out and closed the connection.
                with suppress(ConnectionError):
                    self.reply(answer)

            def reply(self, answer: Answer) -> None:
                self.send_response(answer.status)
                self.send_header("content-type", answer.kind)
                self.send_header("content-length", str(len(answer.body.encode())))
                self.send_header("retry-after-ms", "1")
                self.end_headers()
                self.wfile.write(answer.body.encode())

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    @property
    def sizes(self) -> list[int]:
        return [len(request["input"]) for request in self.requests]

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    served = Endpoint()
    monkeypatch.setenv("OPENAI_BASE_URL", served.url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    yield served
    served.close()


@pytest.fixture
def embedder(endpoint: Endpoint) -> Embedder:
    return OpenAIEmbedder("some-model")


def unit(values: list[float]) -> list[float]:
    length = math.hypot(*values)
    return [value / length for value in values]


@pytest.mark.requirement("EMBED-12")
def test_each_text_gets_its_own_vector_at_unit_length(endpoint: Endpoint, embedder: Embedder) -> None:
    texts = ["first", "second text", "third"]
    rows = embedder.embed(texts)
    assert rows.dtype == np.float32
    assert np.allclose(rows, [unit(vector(text)) for text in texts])
    assert embedder.name == "openai:some-model"
    assert embedder.dims == DIMS
    assert endpoint.requests == [{"input": texts, "model": "some-model", "encoding_format": "float"}]
    assert endpoint.keys == [f"Bearer {KEY}"]


@pytest.mark.requirement("EMBED-12")
def test_the_dimensions_are_requested_if_no_answer_has_shown_them(endpoint: Endpoint, embedder: Embedder) -> None:
    assert (embedder.dims, embedder.dims) == (DIMS, DIMS)
    assert len(endpoint.requests) == 1


@pytest.mark.requirement("EMBED-2", "EMBED-12")
def test_texts_without_content_are_not_sent(endpoint: Endpoint, embedder: Embedder) -> None:
    rows = embedder.embed(["", "said", "  \n"])
    assert endpoint.requests[0]["input"] == ["said"]
    assert rows.any(axis=1).tolist() == [False, True, False]
    assert embedder.embed(["", " "]).tolist() == [[0] * DIMS] * 2
    assert embedder.embed([]).shape == (0, DIMS)
    assert len(endpoint.requests) == 1


@pytest.mark.requirement("EMBED-12")
def test_many_texts_go_in_batches_of_at_most_128(endpoint: Endpoint, embedder: Embedder) -> None:
    texts = [f"{number} " * (number % 7 + 1) for number in range(300)]
    rows = embedder.embed(texts)
    assert endpoint.sizes == [128, 128, 44]
    assert np.allclose(rows, [unit(vector(text)) for text in texts])


@pytest.mark.requirement("EMBED-12")
@pytest.mark.parametrize("letter", ["a", "é", "漢", "\N{GRINNING FACE}"])
def test_long_texts_are_truncated_and_batches_stay_within_the_limits_of_a_request(
    letter: str, endpoint: Endpoint, embedder: Embedder
) -> None:
    embedder.embed([letter * 20_000] * 100)
    for request in endpoint.requests:
        lengths = [len(text.encode()) for text in request["input"]]
        assert max(lengths) <= 8_000
        assert min(lengths) > 7_990
        assert sum(lengths) <= 300_000
        assert set("".join(request["input"])) == {letter}
    assert sum(endpoint.sizes) == 100


def failing(status: int, message: str = "try later") -> Callable[[list[str]], Answer]:
    return lambda texts: Answer(json.dumps({"error": {"message": message}}), status)


@pytest.mark.requirement("EMBED-13")
@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_is_retried(status: int, endpoint: Endpoint, embedder: Embedder) -> None:
    endpoint.then = [failing(status), failing(status)]
    assert embedder.embed(["text"]).any()
    assert len(endpoint.requests) == 3


@pytest.mark.requirement("EMBED-13")
def test_a_server_that_stays_busy_is_an_error(endpoint: Endpoint, embedder: Embedder) -> None:
    endpoint.then = [failing(429)] * 10
    with pytest.raises(EmbedderFailed, match=r"'some-model' at http://127.0.0.1:\d+ failed: .*429.*try later"):
        embedder.embed(["text"])
    assert len(endpoint.requests) == 4


@pytest.mark.requirement("EMBED-13")
def test_a_refusal_is_final_and_says_why(endpoint: Endpoint, embedder: Embedder) -> None:
    endpoint.then = [failing(404, "there is no model some-model")]
    with pytest.raises(EmbedderFailed, match="there is no model some-model"):
        embedder.embed(["text"])
    assert len(endpoint.requests) == 1


@pytest.mark.requirement("EMBED-13")
def test_a_server_that_never_answers_is_an_error(endpoint: Endpoint) -> None:
    tested = threading.Event()

    def silent(texts: list[str]) -> Answer:
        tested.wait(timeout=60)
        return well(texts)

    endpoint.then = [silent]
    try:
        with pytest.raises(EmbedderFailed, match="did not answer in time"):
            OpenAIEmbedder("some-model", timeout=0.2, retries=0).embed(["text"])
    finally:
        tested.set()


@pytest.mark.requirement("EMBED-13")
def test_an_unreachable_server_is_named_without_the_password_of_its_url(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://me:hunter2@127.0.0.1:{port}/v1")
        with pytest.raises(EmbedderFailed, match=f"at http://127.0.0.1:{port} cannot be reached") as caught:
            OpenAIEmbedder("some-model", retries=0).embed(["text"])
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.requirement("EMBED-13")
@pytest.mark.parametrize("address", ["nonsense", "ftp://example.org", "http://[broken"])
def test_an_invalid_url_is_embedder_failed(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    with pytest.raises(EmbedderFailed):
        OpenAIEmbedder("some-model", retries=0).embed(["text"])


@pytest.mark.requirement("EMBED-13")
def test_without_a_key_nothing_is_sent(endpoint: Endpoint, embedder: Embedder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(EmbedderFailed, match="OPENAI_API_KEY"):
        embedder.embed(["text"])
    assert endpoint.requests == []


WRONG = {
    "too few": listed([vector("a")]),
    "too many": listed([vector("a")] * 3),
    "none": listed([]),
    "nan": listed([vector("a"), [1, 2, float("nan"), 4, 5]]),
    "infinite": listed([vector("a"), [1, 2, float("inf"), 4, 5]]),
    "too large": listed([vector("a"), [1, 2, 1e60, 4, 5]]),
    "null": listed([vector("a"), [1, 2, None, 4, 5]]),
    "words": listed([vector("a"), ["one", "two", "three", "four", "five"]]),
    "different lengths": listed([vector("a"), [1, 2, 3]]),
    "empty vectors": listed([[], []]),
    "numbers": listed([1, 2]),
    "nested": listed([[[1, 2]], [[1, 2]]]),
    "same index": Answer(json.dumps({"data": [{"index": 0, "embedding": vector("a")}] * 2})),
    "no index": Answer(json.dumps({"data": [{"embedding": vector("a")}] * 2})),
    "no data": Answer(json.dumps({"result": "ok"})),
    "data is null": Answer(json.dumps({"data": None})),
    "a list": Answer(json.dumps([1, 2, 3])),
    "not json": Answer("{half of a", 200),
    "a web page": Answer("<html>Welcome!</html>", 200, "text/html"),
    "nothing": Answer("", 200),
}


@pytest.mark.requirement("EMBED-14")
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_is_never_used(name: str, endpoint: Endpoint) -> None:
    embedder = OpenAIEmbedder("some-model", retries=0)
    endpoint.then = [lambda texts: WRONG[name]]
    with pytest.raises(EmbedderFailed, match=r"'some-model' at http://127.0.0.1:\d+ "):
        embedder.embed(["one", "two"])
    assert np.allclose(embedder.embed(["one", "two"]), [unit(vector("one")), unit(vector("two"))])


@pytest.mark.requirement("EMBED-14")
def test_vectors_whose_length_changes_are_refused(endpoint: Endpoint, embedder: Embedder) -> None:
    embedder.embed(["text"])
    endpoint.then = [lambda texts: listed([[1.0, 2.0]] * len(texts))]
    with pytest.raises(EmbedderFailed, match="vectors of 2 numbers, after 5 before"):
        embedder.embed(["text"])
    assert embedder.dims == DIMS


@pytest.mark.requirement("EMBED-15")
@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 500])
def test_the_key_is_in_no_message_even_if_the_server_quotes_it(
    status: int, endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    endpoint.then = [failing(status, f"Incorrect API key provided: {KEY}. Or rather {KEY[:6]}***{KEY[-4:]}")]
    with pytest.raises(EmbedderFailed) as caught:
        OpenAIEmbedder("some-model", retries=0).embed(["text"])
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    assert KEY not in shown
    assert KEY not in caplog.text
    if status in (401, 403):
        assert f"refused the key (status {status})" in str(caught.value)
        assert KEY[-4:] not in shown


@may_fork
@pytest.mark.requirement("EMBED-6")
def test_a_forked_child_has_its_own_connection(endpoint: Endpoint, embedder: Embedder) -> None:
    before = embedder.embed(["text"])
    assert works_in_a_child(lambda: np.array_equal(embedder.embed(["text"]), before))
    assert np.array_equal(embedder.embed(["text"]), before)
    assert len(endpoint.requests) == 3


@pytest.mark.requirement("EMBED-19")
@pytest.mark.usefixtures("sdk")
def test_a_damaged_sdk_is_named_with_the_command_that_repairs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = OpenAIEmbedder("some")
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(EmbedderFailed, match=r"cannot be loaded.*openai"):
        embedder.embed(["text"])
