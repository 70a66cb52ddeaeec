"""The server process: its pipes, its first answers, and its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import pytest

from engram import Engram
from engram.config import load
from engram.embedding import catalogue
from engram.interfaces.mcp import early

from .conftest import program

DEADLINE = 60

ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": early.ENVELOPES[0],
    "io.modelcontextprotocol/clientCapabilities": {},
}


def request(id: object, method: str, params: dict[str, object] | None = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, **({"params": params} if params is not None else {})}


def opening(version: str, id: object = 0) -> dict[str, Any]:
    info = {"name": "test", "version": "1"}
    return request(id, "initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": info})


class Process:
    """`engram mcp` on the other side of a pipe."""

    def __init__(self, store: str, command: list[str] | None = None, **environment: str) -> None:
        self.process = subprocess.Popen(
            [*(command or [program()]), "mcp", "--store", store],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **environment},
        )
        self._ids = count(1)
        # Whoever waits for an answer that never comes sees the end of the output instead.
        self.watchdog = threading.Timer(DEADLINE, self.process.kill)
        self.watchdog.start()

    def send(self, *messages: dict[str, Any] | bytes) -> None:
        assert self.process.stdin is not None
        for message in messages:
            self.process.stdin.write(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"no answer: {self.errors()}"
        return json.loads(line)

    def open(self) -> Any:
        self.send(opening("2025-11-25"), {"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self.receive()["result"]

    def call(self, tool: str, **arguments: object) -> Any:
        self.send(request(next(self._ids), "tools/call", {"name": tool, "arguments": arguments}))
        return self.receive()["result"]

    def errors(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    def leave(self) -> tuple[int, str]:
        """Close the input; the exit code and what was said on standard error."""
        assert self.process.stdin is not None
        assert self.process.stderr is not None
        self.process.stdin.close()
        code = self.process.wait(timeout=DEADLINE)
        return code, self.process.stderr.read().decode()


@pytest.fixture
def start(new_sqlite_url: str) -> Iterator[Callable[..., Process]]:
    """Start servers on one store; whatever is left of them is ended with the test."""
    started: list[Process] = []

    def begin(command: list[str] | None = None, **environment: str) -> Process:
        started.append(Process(new_sqlite_url, command, **environment))
        return started[-1]

    yield begin
    for server in started:
        server.watchdog.cancel()
        server.process.kill()
        server.process.wait()
        for pipe in (server.process.stdin, server.process.stdout, server.process.stderr):
            assert pipe is not None
            pipe.close()


def as_the_sdk_says(*messages: dict[str, Any]) -> list[Any]:
    """The SDK's own answers, without the early ones."""
    import anyio

    from engram.interfaces.mcp.host import Host
    from engram.interfaces.mcp.lines import converse
    from engram.interfaces.mcp.server import build

    class Lines:
        def __init__(self) -> None:
            self.answers: list[Any] = []
            self._wanted = sum("id" in each for each in messages)

        def hand_over(self, take: Callable[[str], object]) -> None:
            self._take = take
            for each in messages:
                take(json.dumps(each))

        def write(self, line: str) -> None:
            self.answers.append(json.loads(line))
            if len(self.answers) == self._wanted:
                self._take("")

    def never() -> Engram:
        raise AssertionError("no list needs a store")

    lines = Lines()
    anyio.run(converse, build(Host(never)), lines)
    return sorted(lines.answers, key=lambda each: int(each["id"]))


@pytest.mark.requirement("MCP-9")
def test_the_versions_answered_early_are_those_the_sdk_speaks() -> None:
    from mcp_types import version

    assert early.HANDSHAKES == version.HANDSHAKE_PROTOCOL_VERSIONS
    assert early.ENVELOPES == version.MODERN_PROTOCOL_VERSIONS


@pytest.mark.requirement("MCP-9")
@pytest.mark.parametrize("version", early.HANDSHAKES)
def test_an_early_handshake_and_lists_are_the_sdk_s_own(version: str) -> None:
    questions = [opening(version), *(request(place, method) for place, method in enumerate(early.LISTS, 1))]
    receptionist = early.Receptionist()
    given = [receptionist.answer(json.dumps(each)) for each in questions]
    assert [json.loads(each.line()) for each in given if each] == as_the_sdk_says(*questions)
    assert [each.shared for each in given if each] == [True, False, False, False, False]


@pytest.mark.requirement("MCP-9")
def test_early_answers_in_envelopes_are_the_sdk_s_own() -> None:
    methods = ["server/discover", *early.LISTS]
    questions = [request(place, method, {"_meta": ENVELOPE}) for place, method in enumerate(methods)]
    receptionist = early.Receptionist()
    given = [receptionist.answer(json.dumps(each)) for each in questions]
    assert [json.loads(each.line()) for each in given if each] == as_the_sdk_says(*questions)


@pytest.mark.requirement("MCP-9")
@pytest.mark.parametrize(
    "first",
    [
        b"not json",
        json.dumps([opening("2025-11-25")]).encode(),
        json.dumps(opening("1999-01-01")).encode(),
        json.dumps(request(1, "initialize", {"protocolVersion": "2025-11-25"})).encode(),
        json.dumps(request(1, "tools/list")).encode(),
        json.dumps(request(1, "server/discover", {"_meta": {}})).encode(),
        json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode(),
    ],
)
def test_any_other_opening_is_left_to_the_sdk(first: bytes) -> None:
    assert early.Receptionist().answer(first.decode()) is None


@pytest.mark.requirement("MCP-9")
def test_an_answer_that_depends_on_something_is_left_to_the_sdk() -> None:
    receptionist = early.Receptionist()
    assert receptionist.answer(json.dumps(opening("2025-11-25")))
    assert receptionist.answer(json.dumps(request(1, "tools/call", {"name": "sitrep"}))) is None
    assert receptionist.answer(json.dumps(request(2, "tools/list", {"cursor": "x"}))) is None
    # A token for progress, as Codex sends it, changes nothing in the answer.
    assert receptionist.answer(json.dumps(request(3, "tools/list", {"_meta": {"progressToken": 0}})))


@pytest.mark.requirement("MCP-9")
def test_handshake_and_lists_are_answered_while_the_sdk_cannot_be_imported(
    start: Callable[..., Process], tmp_path: Path
) -> None:
    # An SDK whose import never ends: what is answered is answered without it.
    (tmp_path / "mcp_types").mkdir()
    (tmp_path / "mcp_types" / "__init__.py").write_text("import threading; threading.Event().wait()")
    server = start(PYTHONPATH=str(tmp_path))
    assert server.open()["instructions"]
    server.send(*(request(place, method) for place, method in enumerate(early.LISTS, 1)))
    assert [server.receive()["id"] for _ in early.LISTS] == [1, 2, 3, 4]


@pytest.mark.requirement("MCP-9")
def test_the_handshake_is_answered_once_and_calls_that_came_early_are_not_lost(start: Callable[..., Process]) -> None:
    server = start()
    server.send(
        opening("2025-11-25", "first"),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        request(1, "tools/call", {"name": "sitrep", "arguments": {"summary": "Porting"}}),
        request(2, "tools/list"),
    )
    answers = [server.receive() for _ in range(3)]
    assert sorted(str(each["id"]) for each in answers) == ["1", "2", "first"]
    assert server.call("session", action="list")["structuredContent"]["result"][0]["summary"] == "Porting"
    code, errors = server.leave()
    assert (code, errors) == (0, "")
    assert server.process.stdout is not None
    assert server.process.stdout.read() == b""


@pytest.mark.requirement("MCP-10", "IDENTITY-5")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_cleanly_and_its_session(
    start: Callable[..., Process], number: signal.Signals, new_sqlite_url: str
) -> None:
    server = start()
    server.open()
    server.call("sitrep", summary="Porting")
    server.call("lock", action="claim", resource="router", exclusive=True)
    server.process.send_signal(number)
    assert server.process.wait(timeout=DEADLINE) == 0
    assert server.errors() == ""
    with Engram(new_sqlite_url) as eng:
        assert ([each.status for each in eng.sessions.list()], eng.leases.list()) == (["completed"], [])


@pytest.mark.requirement("MCP-10")
def test_a_client_that_leaves_before_it_said_anything_is_no_error(start: Callable[..., Process]) -> None:
    assert start().leave() == (0, "")


@pytest.mark.requirement("MCP-10")
def test_a_call_that_waits_for_a_lock_holds_up_neither_others_nor_the_end(
    start: Callable[..., Process], new_sqlite_url: str
) -> None:
    server = start()
    server.open()
    server.call("sitrep", summary="Porting")
    with Engram(new_sqlite_url) as eng:
        holder = eng.sessions.register("codex", "Migrating")
        eng.leases.claim(holder, "db", exclusive=True)
        claim = {"action": "claim", "resource": "db", "exclusive": True, "wait": 300}
        server.send(request("waits", "tools/call", {"name": "lock", "arguments": claim}))
        assert server.call("lock", action="check", resource="db")["structuredContent"]["result"]
    code, errors = server.leave()
    assert (code, errors) == (0, "")


@pytest.mark.requirement("MCP-10")
def test_a_person_who_types_the_command_is_told_what_it_waits_for(new_sqlite_url: str) -> None:
    master, slave = os.openpty()
    process = subprocess.Popen(
        [program(), "mcp", "--store", new_sqlite_url], stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    os.close(slave)
    os.write(master, b"\x04")
    out, errors = process.communicate(timeout=DEADLINE)
    os.close(master)
    assert (process.returncode, out) == (0, b"")
    assert b"Harnesses start this command" in errors


NOISY = """
import os, sys
from engram.interfaces.mcp import host
store = host.Host.store
def noisy(self):
    print("noise")
    os.system("echo noise of a child; cat")
    return store(self)
host.Host.store = noisy
from engram.interfaces.cli import run
sys.exit(run(sys.argv[1:]))
"""


@pytest.mark.requirement("MCP-10")
def test_only_the_protocol_is_on_standard_output(start: Callable[..., Process]) -> None:
    server = start([sys.executable, "-c", NOISY])
    server.open()
    assert server.call("sitrep")["isError"] is False
    code, errors = server.leave()
    assert code == 0
    assert "noise\n" in errors
    assert "noise of a child\n" in errors


@pytest.mark.requirement("MCP-7", "MCP-10")
def test_broken_and_huge_lines_do_not_end_the_conversation(start: Callable[..., Process]) -> None:
    server = start()
    server.open()
    server.send(b"{not json\n", b"\xff\xfe\n", b"\n", b'{"jsonrpc": "2.0"}\n')
    server.send(request("huge", "tools/call", {"name": "remember", "arguments": {"text": "x" * 20_000_000}}))
    answers = {}
    while "huge" not in answers:
        answer = server.receive()
        answers[answer.get("id")] = answer
    refused = answers["huge"]["result"]
    assert refused["isError"]
    assert "20,000,000 characters; at most 1,000,000 fit" in refused["content"][0]["text"]
    assert server.call("sitrep")["isError"] is False


@pytest.mark.requirement("MCP-7")
def test_a_file_that_is_no_store_is_an_answer_and_the_server_goes_on(
    start: Callable[..., Process], new_sqlite_url: str
) -> None:
    Path(new_sqlite_url).parent.mkdir()
    Path(new_sqlite_url).write_text("no database, but a text that somebody may still need")
    server = start()
    server.open()
    answer = server.call("sitrep", summary="Porting")
    assert answer["isError"]
    assert answer["structuredContent"]["error"]["code"] == "not_a_store"


@pytest.mark.requirement("MCP-3")
def test_a_session_given_by_the_environment_is_whom_the_client_acts_as(
    start: Callable[..., Process], new_sqlite_url: str
) -> None:
    with Engram(new_sqlite_url) as eng:
        me = eng.sessions.register("claude-code", "Porting")
    server = start(ENGRAM_SESSION=me)
    server.open()
    assert server.call("session", action="log", text="x")["structuredContent"]["session"] == me


@pytest.mark.requirement("MCP-11")
def test_two_servers_write_to_one_store_at_once_and_nothing_is_lost(
    start: Callable[..., Process], new_sqlite_url: str
) -> None:
    servers = [start(), start()]
    for server in servers:
        server.open()
        server.call("sitrep", summary="Writing")
    together = threading.Barrier(len(servers))
    failed: list[Any] = []

    def write(name: int, server: Process) -> None:
        together.wait()
        for number in range(50):
            answer = server.call("remember", text=f"{name} says {number}", kind="said")
            if answer["isError"]:
                failed.append(answer)

    threads = [threading.Thread(target=write, args=each) for each in enumerate(servers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    assert failed == []
    with Engram(new_sqlite_url) as eng:
        assert len(eng.memories.list(kind="said")) == 100


@pytest.mark.requirement("MCP-14")
def test_a_message_in_an_answer_that_was_cancelled_comes_with_the_next_one(
    start: Callable[..., Process], new_sqlite_url: str
) -> None:
    with Engram(new_sqlite_url) as eng:
        holder = eng.sessions.register("codex", "Holding")
        eng.leases.claim(holder, "db:schema", exclusive=True)
        server = start()
        server.open()
        session = server.call("sitrep", summary="Porting")["structuredContent"]["session"]
        eng.messages.send(holder, session, "May I keep it?")
        claim = {"action": "claim", "resource": "db:schema", "exclusive": True, "wait": 300}
        server.send(request("slow", "tools/call", {"name": "lock", "arguments": claim}))
        # Its claim waits in line, so the call has begun.
        wait_until(lambda: waits(new_sqlite_url))
        server.send(
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "slow", "reason": "late"}}
        )
        answer = server.call("lock", action="list")
        assert "> May I keep it?" in answer["content"][0]["text"]
        assert "May I keep it?" not in server.call("lock", action="list")["content"][0]["text"]


@pytest.mark.requirement("MCP-14")
def test_a_message_taken_by_a_call_that_was_cancelled_meanwhile_is_given_back(eng: Engram) -> None:
    """The call is done and has taken the message, and its client no longer waits for it."""
    import anyio

    from engram.interfaces.mcp.connections import Connection
    from engram.interfaces.mcp.host import Host
    from engram.interfaces.mcp.lines import converse
    from engram.interfaces.mcp.server import build

    session = eng.sessions.register("codex", "Porting")
    eng.messages.send(None, session, "hello")
    taken, given_back = threading.Event(), threading.Event()

    class SlowHost(Host):
        def begin(self, connection: Connection, name: str, arguments: Any) -> Any:
            answer = super().begin(connection, name, arguments)
            if not taken.is_set():
                taken.set()
                assert cancelled.wait(DEADLINE)
            return answer

        def lost(self, connection: Connection, answer: Any) -> None:
            super().lost(connection, answer)
            given_back.set()

    cancelled = threading.Event()
    answers: list[Any] = []

    class Lines:
        def hand_over(self, take: Callable[[str], object]) -> None:
            self._take = take
            threading.Thread(target=self._talk).start()

        def _talk(self) -> None:
            listing: dict[str, object] = {"name": "lock", "arguments": {"action": "list"}}
            for each in (opening("2025-11-25"), {"jsonrpc": "2.0", "method": "notifications/initialized"}):
                self._take(json.dumps(each))
            self._take(json.dumps(request(1, "tools/call", listing)))
            assert taken.wait(DEADLINE)
            self._take(json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}))
            # Answered after the cancellation was taken in.
            self._take(json.dumps(request(2, "ping")))

        def write(self, line: str) -> None:
            answers.append(json.loads(line))
            if answers[-1]["id"] == 2:
                cancelled.set()
                threading.Thread(target=self._next).start()
            if answers[-1]["id"] == 3:
                self._take("")

        def _next(self) -> None:
            assert given_back.wait(DEADLINE)
            self._take(json.dumps(request(3, "tools/call", {"name": "lock", "arguments": {"action": "list"}})))

    anyio.run(converse, build(SlowHost(lambda: eng), Connection(session=session)), Lines())
    assert "shown again:\n> hello" in answers[-1]["result"]["content"][0]["text"]


def waits(store: str) -> bool:
    """Whether a claim waits in line."""
    connection = apsw.Connection(store, flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return bool(connection.execute("SELECT 1 FROM lease_waiters").fetchall())
    finally:
        connection.close()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.requirement("MCP-16")
def test_what_was_stored_before_the_model_was_there_survives_the_server_and_gets_its_vector_later(
    start: Callable[..., Process], new_sqlite_url: str, tmp_path: Path
) -> None:
    # Reading the model's graph from a pipe that nothing writes to takes for ever.
    cache = tmp_path / "cache"
    cache.mkdir()
    os.mkfifo(cache / f"{catalogue.MINILM_GRAPH}-graph")
    server = start(ENGRAM_EMBEDDER="minilm", ENGRAM_CACHE_DIR=str(cache))
    server.open()
    stored = server.call("remember", text="The puppy sleeps beside the fireplace")["structuredContent"]["result"]
    server.process.kill()
    server.process.wait()
    with Engram(settings=load(url=new_sqlite_url, embedder="static")) as eng:
        assert eng.backlog.size() == 1
        assert eng.recall("fireplace", mode="words")[0].memory_id == stored["id"]
        assert eng.backlog.work() == 1
        assert eng.backlog.size() == 0
        with eng._view.engine.read() as tx:
            assert tx.value("SELECT COUNT(*) FROM vectors") == 1


@pytest.mark.requirement("MCP-7")
def test_a_text_with_half_an_emoji_is_answered(start: Callable[..., Process]) -> None:
    server = start()
    server.open()
    # As JSON escapes: the first half of an emoji, and a whole one.
    server.call("remember", text="the puppy \ud83d sleeps \N{DOG FACE}")
    found = server.call("recall", query="puppy \udc36")["structuredContent"]["result"]["hits"]
    assert [hit["text"] for hit in found] == ["the puppy \N{REPLACEMENT CHARACTER} sleeps \N{DOG FACE}"]
