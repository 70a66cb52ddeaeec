"""The hooks and the MCP server of one client are one session."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engram import Engram, processes
from engram.interfaces import harness_process
from engram.interfaces.hooks import respond
from engram.interfaces.mcp.connections import Connection
from engram.interfaces.mcp.host import Host
from engram.interfaces.mcp.identity import Origin

from .conftest import program

PROCESS = "boot/ns/7/100"


class Client:
    """A harness with hooks and an MCP server, both in this process."""

    def __init__(self, eng: Engram, name: str, origin: Origin, monkeypatch: pytest.MonkeyPatch) -> None:
        self.host = Host(lambda: eng)
        self.connection = Connection(name, origin=origin)
        self._origin = origin
        self._patch = monkeypatch

    def __call__(self, tool: str, **arguments: object) -> Any:
        answer = self.host.call(self.connection, tool, arguments)
        assert answer is not None
        assert not answer.failed, answer.text
        return answer.structured["result"]

    def hook(self, event: str, session: str, **fields: object) -> Any:
        # Which process started this one cannot be chosen in a test of many clients.
        self._patch.setattr(harness_process, "find", lambda: self._origin.process)
        payload = {"session_id": session, "hook_event_name": event, **fields}
        answer = respond(self.connection.client, json.dumps(payload).encode())
        return json.loads(answer) if answer else {}


Make = Callable[..., Client]


@pytest.fixture
def client(eng: Engram, store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Client]:
    monkeypatch.setenv("ENGRAM_URL", store_url)
    monkeypatch.chdir(tmp_path)

    def make(name: str = "codex", process: str | None = PROCESS, external_id: str | None = None) -> Client:
        return Client(eng, name, Origin(process, external_id, processes.own()), monkeypatch)

    return make


def the_session(eng: Engram, external_id: str) -> str:
    found = eng.sessions.find(external_id)
    assert found is not None
    return found.id


@pytest.mark.requirement("IDENTITY-1")
def test_calls_act_as_the_session_that_the_hooks_of_the_same_process_report(client: Make, eng: Engram) -> None:
    codex = client()
    codex.hook("SessionStart", "s1")
    codex("session", action="log", text="Reading the router")
    assert [entry.content for entry in eng.sessions.logs(the_session(eng, "s1"))] == ["Reading the router"]
    other = client(process="boot/ns/8/100")
    answer = other.host.call(other.connection, "session", {"action": "log", "text": "x"})
    assert answer is not None
    assert "needs a session" in answer.text


@pytest.mark.requirement("IDENTITY-2")
def test_the_newest_start_of_the_process_wins_under_a_running_server(client: Make, eng: Engram) -> None:
    claude = client("claude-code", external_id="s1")
    claude.hook("SessionStart", "s1", source="startup")
    claude("session", action="log", text="one")
    claude.hook("SessionEnd", "s1", reason="clear")
    claude.hook("SessionStart", "s2", source="clear")
    claude("session", action="log", text="two")
    claude.hook("SessionEnd", "s2", reason="resume")
    claude.hook("SessionStart", "s1", source="resume")
    claude("session", action="log", text="three")
    said = [[entry.content for entry in eng.sessions.logs(the_session(eng, id))] for id in ("s1", "s2")]
    assert said == [["three", "one"], ["two"]]


@pytest.mark.requirement("IDENTITY-2")
@pytest.mark.parametrize("harness", ["claude-code", "codex", "gemini"])
@pytest.mark.parametrize(("source", "status"), [("clear", "completed"), ("resume", "completed"), ("startup", "active")])
def test_a_start_replaces_the_earlier_session_of_the_process_without_its_end(
    client: Make, eng: Engram, harness: str, source: str, status: str
) -> None:
    one = client(harness, external_id="s1")
    one.hook("SessionStart", "s1", source="startup")
    one("lock", action="claim", resource="router", exclusive=True)
    one.hook("SessionStart", "s2", source=source)
    assert eng.sessions.get(the_session(eng, "s1")).status == status
    one("session", action="log", text="two")
    assert one.connection.session == the_session(eng, "s2")
    if status == "completed":
        one("lock", action="claim", resource="router", exclusive=True)
        one.hook("SessionEnd", "s1", reason=source)
        assert [lease.session_id for lease in eng.leases.list()] == [the_session(eng, "s2")]


@pytest.mark.requirement("IDENTITY-3")
def test_a_start_in_an_app_server_replaces_nothing(client: Make, eng: Engram) -> None:
    server = subprocess.Popen([sys.executable, "-c", "input()", "app-server"], stdin=subprocess.PIPE)
    codex = client(process=processes.read(server.pid).name)
    for session in ("s1", "s2"):
        codex.hook("SessionStart", session, source="clear")
    server.communicate()
    assert len(eng.sessions.active()) == 2
    answer = codex.host.call(codex.connection, "session", {"action": "log", "text": "x"})
    assert answer is not None
    assert "several sessions of your client are at work" in answer.text


@pytest.mark.requirement("IDENTITY-1")
def test_the_harness_s_id_in_the_environment_is_enough_where_processes_are_unknown(client: Make, eng: Engram) -> None:
    claude = client("claude-code", process=None, external_id="s1")
    claude.hook("SessionStart", "s1", source="startup")
    assert claude("session", action="heartbeat")["id"] == the_session(eng, "s1")


@pytest.mark.requirement("IDENTITY-3")
def test_an_id_that_another_harness_inherited_is_not_used(client: Make, eng: Engram) -> None:
    claude = client("claude-code", external_id="s1")
    claude.hook("SessionStart", "s1", source="startup")
    for inner in (
        client("gemini-cli", process="boot/ns/9/300", external_id="s1"),
        client("claude-code", process="boot/ns/9/300", external_id="s1"),
    ):
        inner("sitrep", summary="Something else")
        assert inner.connection.session != the_session(eng, "s1")


@pytest.mark.requirement("IDENTITY-3")
def test_with_several_sessions_in_one_process_the_server_keeps_one_of_its_own(client: Make, eng: Engram) -> None:
    codex = client()
    codex.hook("SessionStart", "s1")
    codex("session", action="heartbeat")
    codex.hook("SessionStart", "s2")
    answer = codex.host.call(codex.connection, "session", {"action": "log", "text": "x"})
    assert answer is not None
    assert "needs a session" in answer.text
    codex("sitrep", summary="Porting")
    own = codex.connection.session
    assert own not in (None, the_session(eng, "s1"), the_session(eng, "s2"))
    codex("session", action="log", text="x")
    assert codex.connection.session == own


@pytest.mark.requirement("IDENTITY-2")
def test_sitrep_keeps_the_summary_that_the_user_s_first_prompt_gave(client: Make, eng: Engram) -> None:
    codex = client()
    codex.hook("SessionStart", "s1")
    codex("sitrep", summary="Looking around")
    assert eng.sessions.get(the_session(eng, "s1")).summary == "Looking around"
    codex.hook("SessionStart", "s2")
    codex.hook("SessionEnd", "s1")
    codex.hook("UserPromptSubmit", "s2", prompt="Port the router")
    codex("sitrep", summary="Agent's own words")
    assert eng.sessions.get(the_session(eng, "s2")).summary == "Port the router"
    codex("session", action="complete", outcome="Ported")
    codex("sitrep", summary="Once more")
    assert [(each.id, each.summary) for each in eng.sessions.active()] == [(the_session(eng, "s2"), "Port the router")]


@pytest.mark.requirement("IDENTITY-4")
def test_a_server_that_was_first_hands_its_session_over_to_the_hooks(client: Make, eng: Engram) -> None:
    codex = client()
    codex("sitrep", summary="Porting")
    own = codex.connection.session
    assert own is not None
    token = codex("lock", action="claim", resource="router", exclusive=True)["token"]
    eng.messages.send(None, own, "Mind the tests")
    codex.hook("SessionStart", "s1")
    shared = the_session(eng, "s1")
    assert eng.leases.verify(token).session_id == shared, "at once, without a call"
    patch = "*** Begin Patch\n*** Update File: ./router\n"
    assert codex.hook("PreToolUse", "s1", tool_name="apply_patch", tool_input={"command": patch}) == {}
    answer = codex.host.call(codex.connection, "lock", {"action": "list"})
    assert answer is not None
    assert "Mind the tests" in answer.text
    assert (codex.connection.session, eng.sessions.get(own).status) == (shared, "completed")
    assert eng.leases.verify(token).session_id == shared


@pytest.mark.requirement("IDENTITY-4")
def test_a_session_registered_under_the_harness_s_id_is_the_one_that_hooks_resume(client: Make, eng: Engram) -> None:
    claude = client("claude-code", external_id="s1")
    claude("sitrep", summary="Porting")
    claude.hook("SessionStart", "s1", source="startup")
    assert [each.id for each in eng.sessions.list()] == [claude.connection.session]


@pytest.mark.requirement("IDENTITY-5")
def test_a_client_that_goes_away_ends_its_own_session_and_frees_its_leases(client: Make, eng: Engram) -> None:
    codex = client()
    codex("sitrep", summary="Porting")
    codex("session", action="log", text="The parser is ported")
    codex("lock", action="claim", resource="router", exclusive=True)
    codex.host.leave(codex.connection)
    (session,) = eng.sessions.list()
    assert (session.status, session.outcome, eng.leases.list()) == ("completed", "The parser is ported", [])


@pytest.mark.requirement("IDENTITY-5")
def test_a_session_of_hooks_survives_a_reconnect_and_two_servers_share_it(client: Make, eng: Engram) -> None:
    here = harness_process.find() or PROCESS
    first, second = client(process=here), client(process=here)
    first.hook("SessionStart", "s1")
    first("lock", action="claim", resource="router", exclusive=True)
    first.host.leave(first.connection)
    assert [lease.resource for lease in eng.leases.list()] == ["router"]
    second("lock", action="release", resource="router")
    assert [each.status for each in eng.sessions.list()] == ["active"]


@pytest.mark.requirement("IDENTITY-5")
def test_a_session_of_hooks_ends_with_the_process_of_its_harness(client: Make, eng: Engram) -> None:
    gone = subprocess.Popen(["sleep", "60"])
    place = (harness_process.find() or "").rsplit("/", 2)[0]
    codex = client(process=f"{place}/{gone.pid}/1")
    codex.hook("SessionStart", "s1")
    codex("lock", action="claim", resource="router", exclusive=True)
    gone.kill()
    gone.wait()
    codex.host.leave(codex.connection)
    assert ([each.status for each in eng.sessions.list()], eng.leases.list()) == (["completed"], [])


@pytest.mark.requirement("IDENTITY-6")
@pytest.mark.parametrize("how", ["an end event", "a vanished process", "a clear"])
def test_a_session_that_two_processes_run_goes_on_when_one_of_them_is_left(how: str, client: Make, eng: Engram) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    first = client(process=f"{processes.place()}/{gone.pid}/1")
    second = client(process=processes.read(os.getppid()).name)
    first.hook("SessionStart", "s1", source="startup")
    first("session", action="heartbeat")
    second.hook("SessionStart", "s1", source="resume")
    second("lock", action="claim", resource="router", exclusive=True)
    if how == "an end event":
        first.hook("SessionEnd", "s1", reason="exit")
    elif how == "a clear":
        first.hook("SessionStart", "s2", source="clear")
    first.host.leave(first.connection)
    assert [lease.resource for lease in eng.leases.list()] == ["router"]
    assert second("session", action="heartbeat")["id"] == the_session(eng, "s1")
    second.hook("SessionEnd", "s1", reason="exit")
    assert eng.leases.list() == []


@pytest.mark.requirement("IDENTITY-5")
def test_a_session_that_the_client_chose_is_not_ended_with_it(client: Make, eng: Engram) -> None:
    chosen = eng.sessions.register("claude-code", "Porting")
    codex = client()
    codex("sitrep", session=chosen)
    codex.host.leave(codex.connection)
    assert eng.sessions.get(chosen).status == "active"


#: A harness without a model: it starts its hooks through a shell and its server as a child, and does what it is told.
HARNESS = """
import functools, json, subprocess, sys

@functools.cache
def server():
    command = ["sh", "-c", '"$0" mcp; true', sys.argv[1]]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    info = {"name": "harness", "version": "1"}
    ask(process, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=info)
    process.stdin.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\\n')
    return process

def ask(process, method, **params):
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    process.stdin.write(json.dumps(request).encode() + b"\\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())

for line in sys.stdin:
    told = json.loads(line)
    if "tool" in told:
        answer = ask(server(), "tools/call", name=told["tool"], arguments=told["arguments"])["result"]
    else:
        hook = ["sh", "-c", '"$0-hook" codex; true', sys.argv[1]]
        answer = subprocess.run(hook, input=json.dumps(told).encode(), stdout=subprocess.PIPE).stdout.decode()
    print(json.dumps(answer), flush=True)
"""


class Harness:
    """A harness in a process of its own."""

    def __init__(self, session: str) -> None:
        self._session = session
        self.process = subprocess.Popen(
            [sys.executable, "-c", HARNESS, program()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def _tell(self, told: dict[str, object]) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(told) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def call(self, tool: str, **arguments: object) -> Any:
        return self._tell({"tool": tool, "arguments": arguments})

    def hook(self, event: str, **fields: object) -> str:
        return str(self._tell({"hook_event_name": event, "session_id": self._session, **fields}))

    def edit(self, path: str) -> str:
        patch = f"*** Begin Patch\n*** Update File: {path}\n*** End Patch\n"
        return self.hook("PreToolUse", tool_name="apply_patch", tool_input={"command": patch})


@pytest.fixture
def harness(sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Harness]]:
    monkeypatch.setenv("ENGRAM_URL", sqlite_url)
    monkeypatch.setenv("ENGRAM_EMBEDDER", "none")
    monkeypatch.chdir(tmp_path)
    Engram(sqlite_url).close()
    begun: list[Harness] = []

    def begin(session: str) -> Harness:
        begun.append(Harness(session))
        return begun[-1]

    yield begin
    for each in begun:
        each.process.kill()
        each.process.communicate()


@pytest.mark.requirement("IDENTITY-1", "IDENTITY-3")
def test_a_harness_is_found_behind_shells_and_launchers_but_a_person_at_a_shell_is_none() -> None:
    code = "from engram.interfaces.harness_process import find; print(find())"
    find = f"{sys.executable} -c '{code}'; true"

    def found(*command: str) -> str:
        return subprocess.run(command, input=find, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()

    direct = found(sys.executable, "-c", code)
    assert direct.split("/")[-2] == str(os.getpid())
    assert harness_process.is_running(direct)
    assert found("env", "nice", "sh", "-c", 'sh -c "$0"; true', find) == direct
    assert found("sh") == "None", "a shell that reads what to do next"


@pytest.mark.requirement("IDENTITY-1", "LOCKS-1")
def test_what_a_client_claims_over_mcp_its_own_hooks_allow_and_those_of_another_deny(
    harness: Callable[[str], Harness], sqlite_url: str
) -> None:
    first, second = harness("s1"), harness("s2")
    for each in (first, second):
        each.hook("SessionStart", source="startup")
    claimed = first.call("lock", action="claim", resource="router.py", exclusive=True, ttl="10m")
    assert not claimed["isError"]
    assert claimed["structuredContent"]["result"]["ttl"] == 600.0
    assert first.edit("router.py") == ""
    assert "held exclusively" in second.edit("router.py")
    # Killed: no hook reports the end. The server or, if it was killed too, the next session sees that they are gone.
    first.process.send_signal(signal.SIGKILL)
    first.process.wait()
    assert second.edit("router.py") == ""
    with Engram(sqlite_url) as eng:
        assert [each.external_id for each in eng.sessions.active()] == ["s2"]


@pytest.mark.requirement("LOCKS-5")
def test_a_client_without_hooks_whose_server_was_killed_gets_its_claim_again(
    client: Make, eng: Engram, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    killed, again = client(), client()
    assert killed.connection.origin is not None
    killed.connection.origin = killed.connection.origin._replace(server=f"{processes.place()}/{gone.pid}/1")
    for each in (killed, again):
        each("sitrep", summary="Porting")
        each("lock", action="claim", resource="router", exclusive=True)
    assert [each.status for each in eng.sessions.list()] == ["active", "abandoned"]
