"""What tells an operator how the server is: /health, /ready, /metrics, the log. None of it tells what is stored."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from engram import Engram, StoreUnavailable, __version__
from engram.interfaces.http import logs
from engram.interfaces.http.logs import Log, RequestLine
from tests._running import Running, serving


@pytest.mark.requirement("SERVER-16")
def test_health_says_that_the_process_answers_without_asking_the_store(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Any:
        raise StoreUnavailable("the disk with /secret/path is gone")

    with server.client("") as nobody:
        assert nobody.get("/ready").json() == {"status": "ready"}
        monkeypatch.setattr(server.eng._view.engine, "_reading", fail)
        answer = nobody.get("/health")
        assert (answer.status_code, answer.json()) == (200, {"status": "ok", "version": __version__})
        answer = nobody.get("/ready")
        assert (answer.status_code, answer.json()) == (503, {"status": "not ready", "code": "store_unavailable"})
        assert nobody.head("/health").status_code == 200


def numbers(client: httpx.Client) -> dict[str, float]:
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


@pytest.mark.requirement("SERVER-17")
def test_metrics_count_requests_and_what_is_in_the_store(server: Running, admin: httpx.Client) -> None:
    eng = server.eng.workspace("counted")
    session = eng.sessions.register("codex", "canary-summary")
    eng.leases.claim(session, "port:8080")
    eng.exchanges.add(session, "user", "canary-turn", embed=False)
    eng.remember("canary-memory")
    before = numbers(admin)
    for _ in range(3):
        admin.get("/api/v1/stats", headers={"X-Engram-Workspace": "counted"})
    admin.get("/api/v1/recall?query=canary-query&k=wrong")
    admin.get("/api/v1/canary-path/of-nothing")
    after = numbers(admin)

    def grown(name: str) -> float:
        return after.get(name, 0) - before.get(name, 0)

    assert grown('engram_requests_total{method="GET",route="/api/v1/stats",status="200"}') == 3
    assert grown('engram_requests_total{method="GET",route="/api/v1/recall",status="400"}') == 1
    assert grown('engram_requests_total{method="GET",route="(none)",status="404"}') == 1
    assert grown('engram_request_seconds_count{route="/api/v1/stats"}') == 3
    assert after['engram_sessions{status="active",workspace="counted"}'] == 1
    assert after['engram_leases{workspace="counted"}'] == 1
    assert after['engram_embedding_queue{workspace="counted"}'] == 1
    assert after['engram_memories{workspace="counted"}'] == 1
    assert after['engram_dream_tokens_total{direction="input",workspace="counted"}'] == 0
    assert after["engram_event_streams"] == 0
    assert after[f'engram_info{{version="{__version__}"}}'] == 1
    assert after["engram_store_bytes"] > 0
    assert not [name for name in after if "canary" in name]


@pytest.mark.requirement("SERVER-17")
def test_metrics_need_a_token_for_all_workspaces(server: Running) -> None:
    with server.client("") as nobody, server.client(server.token("admin", "one")) as some:
        assert nobody.get("/metrics").status_code == 401
        assert some.get("/metrics").status_code == 403
    with server.client(server.token("read")) as reader:
        assert reader.get("/metrics").status_code == 200


@pytest.mark.requirement("OVERVIEW-3")
def test_sizes_need_a_token_for_all_workspaces(server: Running) -> None:
    with server.client("") as nobody, server.client(server.token("admin", "one")) as some:
        assert nobody.get("/api/v1/sizes").status_code == 401
        assert some.get("/api/v1/sizes").status_code == 403
        assert some.get("/api/v1/activity").status_code == 200
    with server.client(server.token("read")) as reader:
        assert reader.get("/api/v1/sizes").json()["result"]["store_bytes"] > 0


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Where the messages of all parts of a server go."""
    written = io.StringIO()
    own = Log(written, for_people=False)
    own.start()
    yield written
    own.close()


def lines(written: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written.getvalue().splitlines()]


@pytest.mark.requirement("SERVER-18")
def test_each_request_is_one_line_with_its_route_and_the_name_of_its_token(eng: Engram) -> None:
    written = io.StringIO()
    with serving(eng) as server, server.client(server.token("write", "ours", "the laptop")) as client:
        server.service.log = Log(written, for_people=False)
        server.service.log.start()
        first = client.get("/api/v1/recall", params={"query": "canary-query"})
        client.post("/api/v1/remember", json={"text": "canary-body"})
        client.get("/api/v1/session/show", params={"id": "canary-id"})
        client.get("/canary-path?canary=query", headers={"X-Engram-Workspace": "canary-workspace"})
        client.get("/api/v1/stats", headers={"X-Engram-Workspace": "canary-workspace"})
        with server.client("") as nobody:
            nobody.get("/api/v1/stats")
    found = [line for line in lines(written) if "route" in line]
    assert [(line["method"], line["route"], line["status"]) for line in found] == [
        ("GET", "/api/v1/recall", 200),
        ("POST", "/api/v1/remember", 200),
        ("GET", "/api/v1/session/show", 404),
        ("GET", "(none)", 404),
        ("GET", "/api/v1/stats", 403),
        # Refused before any path is looked at.
        ("GET", "(none)", 401),
    ]
    assert found[0].keys() == {"time", "level", "method", "route", "status", "ms", "token", "workspace", "id"}
    assert (found[0]["token"], found[0]["workspace"]) == ("the laptop", "ours")
    assert found[0]["id"] == first.headers["x-request-id"]
    assert "token" not in found[-1]
    assert "canary" not in written.getvalue()


@pytest.mark.requirement("SERVER-18")
def test_on_a_terminal_a_line_is_for_people() -> None:
    written = io.StringIO()
    log = Log(written, for_people=True)
    log.start()
    log.request(RequestLine("GET", "/api/v1/sitrep", 200, 0.0123, "laptop", "default", "a-1"))
    logging.getLogger("engram.http").warning("the change feed cannot be read: %s", "store_busy")
    log.close()
    first, second = written.getvalue().splitlines()
    assert first.endswith("INFO    GET /api/v1/sitrep 200 12.3 ms  laptop default  a-1")
    assert second.endswith("WARNING the change feed cannot be read: store_busy")


@pytest.mark.requirement("SERVER-18", "SERVER-19")
def test_no_message_in_the_log_quotes_a_value(log: io.StringIO) -> None:
    secret = "engram_4f1c0d2e9a7b_q7Xv2Lr9TzY0mKc4WbN8sHdP1fGjA6uE3oRiVtBwQyU"
    try:
        try:
            raise KeyError("canary-cause")
        except KeyError as cause:
            raise ValueError("canary-text in a message") from cause
    except ValueError as error:
        logging.getLogger("engram.http").error("a request failed", exc_info=error)
        logging.getLogger("asyncio").error("Task exception was never retrieved\nfuture: canary-future", exc_info=error)
    logging.getLogger("engram.storage").warning("the value %r is wrong", "canary-value")
    logging.getLogger("uvicorn.error").info("the token is %s", secret)
    logging.getLogger("engram.sessions").info("session canary-session registered")
    until_written(log, 4)
    found = lines(log)
    assert found[0]["message"].startswith("a request failed: ValueError from KeyError at ")
    assert "test_http_watching.py" in found[0]["message"]
    assert "canary" not in log.getvalue()
    assert secret not in log.getvalue()


@pytest.mark.requirement("SERVER-18")
def test_a_log_that_nobody_reads_does_not_stop_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    monkeypatch.setattr(logs, "MOST_WAITING", 10)
    stuck, asked = threading.Event(), threading.Event()

    class Stuck(io.StringIO):
        def write(self, text: str) -> int:
            asked.set()
            stuck.wait(30)
            return super().write(text)

    written = Stuck()
    log = Log(written, for_people=False)
    log.start()
    line = RequestLine("GET", "/api/v1/sitrep", 200, 0.01, "", "", "a-1")
    log.request(line)
    assert asked.wait(30)
    for _ in range(100):
        log.request(line)
    stuck.set()
    log.close()
    found = lines(written)
    assert len(found) == 1 + 10 + 1
    assert "90 lines were dropped" in found[-1]["message"]


def until_written(written: io.StringIO, number: int) -> None:
    import time

    deadline = time.monotonic() + 30
    while len(written.getvalue().splitlines()) < number:
        assert time.monotonic() < deadline
        time.sleep(0.005)
