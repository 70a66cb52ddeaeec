"""Sizes, waiting, shared transactions: what one client may not do to the others."""

from __future__ import annotations

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from engram.interfaces.http import connections
from engram.interfaces.http.threads import Threads
from tests._running import Running
from tests._waiting import until


def raw(server: Running, *pieces: bytes) -> bytes:
    """Send bytes as they are; what comes back until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        for piece in pieces:
            try:
                connection.sendall(piece)
            except OSError:
                break
        answer = b""
        while True:
            try:
                got = connection.recv(65_536)
            except ConnectionResetError:
                break
            if not got:
                break
            answer += got
        return answer


@pytest.mark.requirement("SERVER-13")
def test_a_body_that_is_too_large_is_refused(server: Running, admin: httpx.Client) -> None:
    most = server.service.options.max_body
    for body in (b"x" * (most + 1), (piece for piece in [b"x" * 65_536] * (most // 65_536 + 1))):
        answer = admin.post("/api/v1/remember", content=body, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "request_too_large")
        assert "4,194,304 bytes" in answer.json()["error"]["message"]
    text = "a" * (checks_most := 1_000_000)
    answer = admin.post("/api/v1/remember", json={"text": text}, headers={"X-Engram-Workspace": "sizes"})
    assert answer.status_code == 200
    assert len(answer.json()["result"]["content"]) == checks_most


@pytest.mark.requirement("SERVER-13")
def test_a_body_without_an_end_is_cut_off_while_it_arrives(server: Running) -> None:
    secret = server.token("write")
    head = (
        f"POST /api/v1/remember HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nAuthorization: Bearer {secret}\r\n"
        "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    chunk = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
    answer = raw(server, head.encode(), *[chunk] * 400)
    # The server may close the connection before the client has read the answer.
    assert answer == b"" or answer.startswith(b"HTTP/1.1 413 ")


@pytest.mark.requirement("SERVER-13")
def test_a_head_that_is_too_large_is_refused(server: Running) -> None:
    long = b"x" * (connections.MOST_HEAD + 300_000)
    for request in (
        b"GET /health HTTP/1.1\r\nHost: x\r\nX-Long: " + long,
        b"GET /health?" + long,
        b"GET /health HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X-%d: y\r\n" % each for each in range(50_000)),
    ):
        answer = raw(server, *(request[at : at + 10_000] for at in range(0, len(request), 10_000)))
        assert answer == b"" or answer.startswith(b"HTTP/1.1 431 "), answer[:100]
    assert raw(server, b"not http at all\r\n\r\n").startswith(b"HTTP/1.1 400 ")


@pytest.mark.requirement("SERVER-13")
def test_a_connection_answers_many_requests_with_large_bodies(server: Running, admin: httpx.Client) -> None:
    for size in (10, 100_000, 300_000, 10):
        body = {"query": "x" * size}
        answer = admin.post("/api/v1/recall", json=body)
        assert answer.status_code == 200


@pytest.mark.requirement("SERVER-13")
def test_half_a_request_is_not_performed(server: Running) -> None:
    eng = server.eng.workspace("half")
    secret = server.token("write", "half")
    head = (
        f"POST /api/v1/session/register HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nAuthorization: Bearer {secret}\r\n"
        "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(head.encode() + json.dumps({"type": "codex", "summary": "x"}).encode())
    with server.client(secret) as client:
        for _ in range(20):
            client.get("/api/v1/stats")
    assert eng.sessions.list() == []


@pytest.mark.requirement("SERVER-15")
def test_claims_that_wait_take_no_thread_and_are_granted_in_turn(server: Running, admin: httpx.Client) -> None:
    eng = server.eng.workspace("waiting")
    holder = eng.sessions.register("codex", "holds it")
    waiting = [eng.sessions.register("codex", f"waits {number}") for number in range(12)]
    eng.leases.claim(holder, "port:8080", exclusive=True, ttl=600)

    def claim(session: str) -> httpx.Response:
        body = {"session": session, "resource": "port:8080", "exclusive": True, "wait": "2m"}
        with server.client(server.token("write", "waiting")) as client:
            answer = client.post("/api/v1/lock/claim", json=body)
            client.post("/api/v1/lock/release", json={"session": session, "resource": "port:8080"})
            return answer

    with ThreadPoolExecutor(len(waiting)) as pool:
        claims = [pool.submit(claim, session) for session in waiting]
        until(lambda: queued(server, "waiting") == len(waiting))
        # More claims wait than there are threads, and other requests are answered all the same.
        begun = time.monotonic()
        for _ in range(20):
            assert admin.get("/api/v1/stats").status_code == 200
            assert admin.post("/api/v1/session/log", json={"session": "x", "text": "y"}).status_code == 404
        assert time.monotonic() - begun < 20
        eng.leases.release(holder, "port:8080")
        answers = [claim.result(timeout=120) for claim in claims]
    assert {answer.status_code for answer in answers} == {200}
    assert {answer.json()["result"]["session_id"] for answer in answers} == set(waiting)
    assert queued(server, "waiting") == 0


@pytest.mark.requirement("SERVER-15")
def test_a_client_that_goes_away_leaves_the_queue(server: Running) -> None:
    eng = server.eng.workspace("leaving")
    holder, waiting = (eng.sessions.register("codex", "x") for _ in range(2))
    eng.leases.claim(holder, "port:8080", exclusive=True, ttl=600)
    body = {"session": waiting, "resource": "port:8080", "exclusive": True, "wait": 200}
    headers = {"Idempotency-Key": "one"}
    with server.client(server.token("write", "leaving")) as client:
        with pytest.raises(httpx.ReadTimeout):
            client.post("/api/v1/lock/claim", json=body, headers=headers, timeout=0.5)
        until(lambda: queued(server, "leaving") == 0)
        # Its key is free again.
        body["wait"] = 0.1
        answer = client.post("/api/v1/lock/claim", json=body, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "lease_held")
        eng.leases.release(holder, "port:8080")
        first, second = (client.post("/api/v1/lock/claim", json=body, headers=headers) for _ in range(2))
        assert first.status_code == 200
        assert second.text == first.text
        assert second.headers["idempotency-replayed"] == "true"


def queued(server: Running, workspace: str) -> int:
    """How many claims wait for a lease."""
    with server.eng._view.engine.read() as tx:
        count: int = tx.value("SELECT COUNT(*) FROM lease_waiters WHERE workspace = :workspace", workspace=workspace)
    return count


@pytest.mark.requirement("SERVER-30")
def test_short_writes_that_wait_together_are_each_done_or_not(server: Running) -> None:
    eng = server.eng.workspace("together")
    session = eng.sessions.register("codex", "busy")
    ended = eng.sessions.register("codex", "ended")
    eng.sessions.complete(ended)
    barrier = threading.Barrier(16)

    def log(number: int) -> list[int]:
        done = []
        with server.client(server.token("write", "together", f"writer {number}")) as client:
            barrier.wait()
            for each in range(20):
                wrong = each % 4 == 3
                body = {"session": "no-such-session" if wrong else session, "text": f"{number}/{each}"}
                answer = client.post("/api/v1/session/log", json=body)
                assert answer.status_code == (404 if wrong else 200)
                if not wrong:
                    # It is in the store as soon as it is answered.
                    done.append(answer.json()["result"]["id"])
                    assert eng.exchanges.get(done[-1]).content == f"{number}/{each}"
        return done

    with ThreadPoolExecutor(16) as pool:
        ids = [id for done in pool.map(log, range(16)) for id in done]
    logged = eng.sessions.logs(session, 0)
    assert sorted(entry.id for entry in logged) == sorted(ids)
    right = [f"{writer}/{each}" for writer in range(16) for each in range(20) if each % 4 != 3]
    assert sorted(entry.content for entry in logged) == sorted(right)
    assert sorted(entry.seq for entry in logged) == list(range(1, len(logged) + 1))


@pytest.mark.requirement("SERVER-30")
def test_a_thread_that_fails_answers_and_goes_on(server: Running) -> None:
    import asyncio

    async def main() -> None:
        threads = Threads(2, "test")

        def fail() -> None:
            raise KeyError("x")

        for _ in range(5):
            with pytest.raises(KeyError):
                await threads.run(fail)
        assert await asyncio.gather(*(threads.run(lambda each=each: each) for each in range(100))) == list(range(100))  # type: ignore[misc]
        cancelled = threads.run(lambda: None)
        cancelled.cancel()
        assert await threads.run(lambda: 5) == 5
        threads.close(5)

    asyncio.run(main())
