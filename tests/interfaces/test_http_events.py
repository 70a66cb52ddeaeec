"""Live events: what changes in the store, by whichever process, in order, nothing missed and nothing twice."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from engram import Engram
from engram.interfaces.http import events, feed
from tests._running import Running, serving
from tests._waiting import until


class Reader:
    """A client that reads an event stream."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.lines = response.iter_lines()

    def next(self) -> dict[str, Any]:
        """The next event."""
        event: dict[str, Any] = {}
        for line in self.lines:
            if not line and "data" in event:
                return {**json.loads(event["data"]), "event": event["event"], "last": int(event["id"])}
            name, _, value = line.partition(": ")
            if line:
                event[name] = value
        raise EOFError

    def numbers(self, count: int) -> list[int]:
        return [self.next()["number"] for _ in range(count)]


@contextmanager
def stream(client: httpx.Client, **given: Any) -> Iterator[Reader]:
    headers = given.pop("headers", {})
    with client.stream("GET", events.PATH, params=given, headers=headers, timeout=60) as response:
        assert response.status_code == 200, response.read()
        yield Reader(response)


def opened(server: Running, number: int) -> None:
    """Wait until so many streams are open."""
    until(lambda: server.service.feed.open == number)


@pytest.fixture(autouse=True)
def _no_stream_is_left(server: Running) -> Iterator[None]:
    yield
    opened(server, 0)


@pytest.mark.requirement("SERVER-25")
def test_a_change_is_told_with_what_it_is_about_and_none_of_its_text(server: Running, admin: httpx.Client) -> None:
    with stream(admin, workspace="told") as reader:
        assert reader.response.headers["content-type"] == "text/event-stream; charset=utf-8"
        opened(server, 1)
        eng = server.eng.workspace("told")
        session = eng.sessions.register("codex", "canary-summary")
        event = reader.next()
        assert event == {
            "event": "session",
            "last": event["number"],
            "number": event["number"],
            "what": "session",
            "id": session,
            "workspace": "told",
        }
        eng.leases.claim(session, "port:8080")
        eng.exchanges.add(session, "user", "canary-turn")
        memory = eng.remember("canary-memory").id
        eng.messages.send(session, "person", "canary-message")
        eng.world.set("canary-world")
        eng.forget(memory=memory)
        seen = [reader.next() for _ in range(6)]
        assert {each["what"] for each in seen} <= set(feed.WHATS)
        assert {"lease", "exchange", "memory", "block"} <= {each["what"] for each in seen}
        assert "canary" not in json.dumps(seen)


@pytest.mark.requirement("SERVER-25")
def test_a_change_of_another_process_appears_within_a_second(server: Running, admin: httpx.Client) -> None:
    program = "import sys; from engram import Engram; Engram(sys.argv[1], workspace='others').world.set(sys.argv[2])"
    with stream(admin, workspace="others") as reader:
        opened(server, 1)
        subprocess.run([sys.executable, "-c", program, server.eng.settings.url, "changed"], check=True, timeout=60)
        begun = time.monotonic()
        assert reader.next()["what"] == "block"
        assert time.monotonic() - begun < 1.0


@pytest.mark.requirement("SERVER-26")
def test_a_stream_goes_on_after_the_last_event_that_was_seen(server: Running, admin: httpx.Client) -> None:
    eng = server.eng.workspace("resumed")
    for number in range(3):
        eng.world.set(f"before {number}")
    with stream(admin, workspace="resumed", after=0) as reader:
        first = reader.numbers(3)
        assert first == [change.number for change in eng.changes()]
    for number in range(5):
        eng.world.set(f"missed {number}")
    missed = [change.number for change in eng.changes(first[-1])]
    headers = {"Last-Event-ID": str(first[1])}
    with stream(admin, workspace="resumed", headers=headers) as reader:
        opened(server, 1)
        eng.world.set("now")
        assert reader.numbers(7) == [first[2], *missed, eng.changes.latest]
    # Without it a stream begins with what happens now.
    with stream(admin, workspace="resumed") as reader:
        opened(server, 1)
        eng.world.set("later")
        assert reader.numbers(1) == [eng.changes.latest]


@pytest.mark.requirement("SERVER-26")
def test_nothing_is_missed_or_told_twice_where_the_past_meets_the_present(
    server: Running, admin: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "PAGE", 7)
    eng = server.eng.workspace("seam")
    ended = threading.Event()
    begun = threading.Barrier(4)

    def write(number: int) -> None:
        begun.wait()
        count = 0
        while not ended.is_set():
            count += 1
            eng.blocks.update(f"block {number}", f"text {count}")

    for number in range(3):
        eng.blocks.create(f"block {number}")
    writers = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for writer in writers:
        writer.start()
    seen: list[int] = []
    begun.wait()
    try:
        for _ in range(6):
            after = seen[-1] if seen else 0
            with stream(admin, workspace="seam", after=after) as reader:
                seen += reader.numbers(60)
            opened(server, 0)
    finally:
        ended.set()
        for writer in writers:
            writer.join()
    assert seen == [change.number for change in eng.changes(0, len(seen))]


@pytest.mark.requirement("SERVER-26")
def test_a_number_of_another_store_begins_with_what_happens_now(server: Running, admin: httpx.Client) -> None:
    with stream(admin, workspace="restored", headers={"Last-Event-ID": str(10**12)}) as reader:
        opened(server, 1)
        server.eng.workspace("restored").world.set("x")
        assert reader.next()["id"] == "world"
    for wrong in ("x", "-1", "1" * 30):
        answer = admin.get(events.PATH, headers={"Last-Event-ID": wrong})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_input")


@pytest.mark.requirement("SERVER-29")
def test_a_stream_is_about_the_workspace_and_the_kinds_that_were_asked_for(server: Running) -> None:
    ours, theirs = server.eng.workspace("ours-1"), server.eng.workspace("theirs-1")
    everything, only_ours = server.client(server.token("read")), server.client(server.token("read", "ours-1"))
    with everything, only_ours:
        with (
            stream(only_ours) as mine,
            stream(only_ours, workspace="*") as all_of_mine,
            stream(everything, workspace="*") as whole,
            stream(everything, workspace="ours-1", what=["block", "memory"]) as some,
        ):
            opened(server, 4)
            theirs.world.set("not yours")
            ours.sessions.register("codex", "a session")
            ours.world.set("yours")
            assert [mine.next()["what"] for _ in range(2)] == ["session", "block"]
            assert [all_of_mine.next()["workspace"] for _ in range(2)] == ["ours-1", "ours-1"]
            assert [whole.next()["workspace"] for _ in range(3)] == ["theirs-1", "ours-1", "ours-1"]
            assert some.next()["what"] == "block"
        assert only_ours.get(events.PATH, params={"workspace": "theirs-1"}).status_code == 403
        wrong = everything.get(events.PATH, params={"what": "nothing"})
        assert "must be one of session," in wrong.json()["error"]["message"]
        assert everything.get(events.PATH, params={"since": "now"}).status_code == 400


@pytest.mark.requirement("SERVER-28")
def test_a_stream_ends_when_its_token_is_revoked(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "CHECK_EVERY", 0.05)
    revoked, kept = server.token("read", name="watcher"), server.token("read")
    with (
        server.client(revoked) as first,
        server.client(kept) as second,
        stream(first, workspace="revoked") as reader,
        stream(second, workspace="revoked") as other,
    ):
        opened(server, 2)
        server.eng.access.tokens.revoke("watcher")
        with pytest.raises(EOFError):
            reader.next()
        server.eng.workspace("revoked").world.set("still told")
        assert other.next()["what"] == "block"


@pytest.mark.requirement("SERVER-25")
def test_an_idle_stream_gets_a_comment_now_and_then(
    server: Running, admin: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "CHECK_EVERY", 0.02)
    with stream(admin, workspace="idle") as reader:
        opened(server, 1)
        assert any(line.startswith(":") for line in reader.lines)


@pytest.mark.requirement("SERVER-27")
def test_a_reader_that_is_too_slow_is_disconnected_and_resumes(
    server: Running, admin: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "PAGE", 50)
    monkeypatch.setattr(feed, "MOST_WAITING", 200)
    eng = server.eng.workspace("slow")
    first = eng.changes.latest_everywhere
    # A buffer that does not grow.
    small = [(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)]
    narrow = httpx.HTTPTransport(socket_options=small)
    with (
        httpx.Client(base_url=server.url, headers=admin.headers, transport=narrow) as slow,
        stream(slow, workspace="slow", after=first) as reader,
    ):
        opened(server, 1)
        written = 0
        while server.service.feed.open:
            assert written < 100_000, "it was never disconnected"
            # Only the feed is written, which is fast: the kernel holds some megabytes for a connection.
            with eng._view.engine.write() as tx:
                for _ in range(500):
                    written += 1
                    tx.note("slow", "block", f"block {written} {'x' * 1_500}")
        seen = []
        with pytest.raises((EOFError, httpx.RemoteProtocolError)):
            while True:
                seen.append(reader.next()["number"])
    assert 0 < len(seen) < written
    with stream(admin, workspace="slow", headers={"Last-Event-ID": str(seen[-1])}) as again:
        following = again.numbers(20)
    assert seen + following == [change.number for change in eng.changes(first, len(seen) + 20)]


@pytest.mark.requirement("SERVER-25")
@pytest.mark.parametrize("server", ["sqlite"], indirect=True)
def test_streams_that_wait_take_no_thread_and_one_read_for_all(server: Running, admin: httpx.Client) -> None:
    reads: list[int] = []
    real = type(server.eng.changes).everywhere
    before = threading.active_count()
    with server.client() as client:
        opening = [client.stream("GET", events.PATH, timeout=60) for _ in range(30)]
        try:
            for each in opening:
                each.__enter__()
            opened(server, 30)
            assert threading.active_count() == before

            def counted(self: Any, after: int, limit: int = 1_000) -> Any:
                reads.append(after)
                return real(self, after, limit)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(type(server.eng.changes), "everywhere", counted)
                until(lambda: len(reads) >= 2)
                begun, so_far = time.monotonic(), len(reads)
                until(lambda: len(reads) >= so_far + 3)
            # About four in a second, however many streams there are.
            assert time.monotonic() - begun > 2 * feed.EVERY * 0.8
        finally:
            for each in opening:
                each.__exit__(None, None, None)


@pytest.mark.requirement("SERVER-25")
def test_streams_end_when_the_server_stops(eng: Engram) -> None:
    with serving(eng) as own:
        client = own.client()
        context = stream(client)
        reader = context.__enter__()
        opened(own, 1)
    with pytest.raises(EOFError):
        reader.next()
    context.__exit__(None, None, None)
    client.close()
