"""What an agent reads when a call is refused: its own tools and actions, never commands or flags."""

from __future__ import annotations

import re

import pytest

from engram import Engram
from engram.interfaces.mcp import tools
from engram.interfaces.mcp.connections import Connection
from engram.interfaces.mcp.host import Host
from engram.operations import HINTS

#: Commands and flags of the command line, and names of operations, which no agent can call.
NOT_FOR_AGENTS = re.compile(r"`engram |\bengram [a-z]+\b|--[a-z]|\b(?:session|lock|message|block|dream|memory)\.[a-z]+")


#: A tool, its arguments, and what the refusal says.
REFUSED: list[tuple[str, dict[str, object], str]] = [
    ("lock", {"action": "claim", "resource": "router", "exclusive": True}, "with `session` message"),
    ("lock", {"action": "claim"}, "lock claim needs 'resource'"),
    ("lock", {"action": "claim", "resource": "x", "ttl": "soon"}, "ttl is 'soon'; it must be a time such as"),
    ("lock", {"action": "claim", "resource": "x", "wait": "6m"}, "from 0 to 300 seconds"),
    ("lock", {"action": "release", "resource": "nothing"}, "`lock` list shows all claims"),
    ("lock", {"action": "break", "resource": "router"}, "lock has claim, release, check, list"),
    ("session", {"action": "show", "id": "nobody"}, "`session` list shows the existing ones"),
    ("session", {"action": "message", "to": "nobody", "text": "x"}, "`session` list and `lock` list show"),
    ("session", {"action": "log", "words": "x"}, "session log has no argument 'words'"),
    ("block", {"action": "view", "name": "nothing"}, "`block` list shows the blocks"),
    ("block", {"action": "create", "name": "notes"}, "Write to it with `block` update"),
    ("block", {"action": "restore", "name": "notes", "version": 9}, "`block` history shows the versions"),
    (
        "block",
        {"action": "update", "name": "notes", "content": "x", "expected_version": 7},
        "Read it with `block` view",
    ),
    ("recall", {}, "recall needs 'query'"),
    ("forget", {"memory": 99}, "`recall` finds memories"),
    ("forget", {}, "Error (invalid_input)"),
    ("dream", {"action": "undo", "run": 99}, "`dream` status shows the passes"),
    ("dream", {"action": "submit", "id": 99, "answer": {}}, "Error"),
    ("dream", {"action": "review", "accept": 99}, "Error"),
    ("sitrep", {"session": "nobody"}, "`sitrep` with a summary starts one"),
]


@pytest.mark.requirement("LOCKS-2")
def test_a_refusal_names_tools_and_actions(eng: Engram) -> None:
    eng.leases.claim(eng.sessions.register("codex", "Porting"), "router", exclusive=True)
    eng.blocks.create("notes", "text")
    host, connection = Host(lambda: eng), Connection("test")
    host.call(connection, "sitrep", {"summary": "Porting"})
    for tool, arguments, said in REFUSED:
        answer = host.call(connection, tool, arguments)
        assert answer is not None
        assert answer.failed, answer.text
        assert said in answer.text
        assert NOT_FOR_AGENTS.findall(answer.text) == []
        assert NOT_FOR_AGENTS.findall(str(answer.structured)) == []


@pytest.mark.requirement("LOCKS-2")
def test_every_hint_can_be_said_with_tools() -> None:
    assert [hint for hint in map(tools.advice, HINTS.values()) if NOT_FOR_AGENTS.search(hint)] == []


@pytest.mark.requirement("LOCKS-2")
def test_a_time_is_written_as_on_the_command_line(eng: Engram) -> None:
    host, connection = Host(lambda: eng), Connection("test")
    host.call(connection, "sitrep", {"summary": "Porting"})
    for given, seconds in (("10m", 600.0), ("1h30m", 5_400.0), (90, 90.0), ("90", 90.0)):
        claim = {"action": "claim", "resource": "x", "exclusive": True, "ttl": given, "wait": "5s"}
        answer = host.call(connection, "lock", claim)
        assert answer is not None
        assert not answer.failed, answer.text
        assert [lease.ttl for lease in eng.leases.list()] == [seconds]


@pytest.mark.requirement("LOCKS-2")
@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("remember", {"text": " "}, "text is empty."),
        ("lock", {"action": "claim", "resource": "x", "ttl": 99999999999}, "or 1h30m, at most ten years."),
        ("lock", {"action": "claim", "resource": "x", "wait": "5s"}, "wait needs exclusive: an advisory claim"),
        ("lock", {"resource": "x"}, "lock needs an action: claim, release, check or list."),
        (
            "lock",
            {"action": "claim", "resource": "staging", "exclusive": True},
            "'staging' is taken. h (test) has held it",
        ),
    ],
)
def test_a_refusal_names_what_the_agent_gave_once(
    tool: str, arguments: dict[str, object], said: str, eng: Engram
) -> None:
    holder = eng.sessions.register("test", "Deploying")
    eng.leases.claim(holder, "staging", exclusive=True)
    host, connection = Host(lambda: eng), Connection("test")
    host.call(connection, "sitrep", {"summary": "Porting"})
    answer = host.call(connection, tool, arguments)
    assert answer is not None
    assert answer.failed
    assert said in answer.text.replace(holder, "h")
