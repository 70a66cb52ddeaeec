"""What a server does with the event that a hook on another machine sends."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from engram import Engram, processes
from engram.errors import InvalidInput
from engram.interfaces.hooks import serving as hook_serving
from tests.interfaces._hook_server import HookServer
from tests.interfaces.test_hooks_remote import EDIT, GITHUB, hook, project, server, store_url, turns

__all__ = ["project", "server", "store_url"]


def good(**event: Any) -> dict[str, Any]:
    """A request as a hook sends it."""
    return {
        "version": 1,
        "event": {"kind": "prompt", "harness": "claude-code", "session": "s1", "text": "Port it", **event},
        "place": {"project": "acme/shop", "process": None, "lock_policy": "deny", "brief_budget": 1_500},
    }


def changed(part: str, **fields: Any) -> dict[str, Any]:
    request = good()
    request[part] = {**request[part], **fields}
    return request


PROCESS = "0f0f0f0f-0000-4000-8000-0f0f0f0f0f0f/pid:[4026531836]/123/456"
BAD = {
    "nothing": {},
    "no version": {key: value for key, value in good().items() if key != "version"},
    "another version": {**good(), "version": 2},
    "True as version": {**good(), "version": True},
    "more fields": {**good(), "more": 1},
    "no event": {key: value for key, value in good().items() if key != "event"},
    "event is a list": {**good(), "event": []},
    "place is null": {**good(), "place": None},
    "unknown kind": changed("event", kind="nonsense"),
    "kind is a list": changed("event", kind=[]),
    "no session": changed("event", session=None),
    "a long session": changed("event", session="x" * 201),
    "a session of two lines": changed("event", session="a\nb"),
    "a secret as session": changed("event", session=GITHUB),
    "NUL": changed("event", text="a\0b"),
    "a surrogate": changed("event", text="\ud800"),
    "a long text": changed("event", text="x" * 200_001),
    "text is a number": changed("event", text=7),
    "a long reason": changed("event", reason="x" * 41),
    "failed is a text": changed("event", failed="yes"),
    "an unknown field": changed("event", folder="/etc"),
    "a tool without a line": changed("event", kind="after tool", text=""),
    "a folder": changed("place", folder="/etc"),
    "no policy": changed("place", lock_policy=None),
    "another policy": changed("place", lock_policy="allow"),
    "a negative budget": changed("place", brief_budget=-1),
    "a huge budget": changed("place", brief_budget=10**9),
    "budget is a flag": changed("place", brief_budget=True),
    "a process by number": changed("place", process="123"),
    "a process that is a path": changed("place", process="/proc/1/cmdline"),
    "a process with more": changed("place", process=f"{PROCESS}\x0a"),
    "a relative file": changed("place", files=[["a.py", "a.py"]]),
    "a folder above": changed("place", files=[["a.py", "acme/shop:src/../../a.py"]]),
    "a doubled slash": changed("place", files=[["a.py", "/etc//hosts"]]),
    "a secret file": changed("place", files=[["a.py", f"acme/shop:{GITHUB}"]]),
    "a file of two lines": changed("place", files=[["a.py", "acme/shop:a\nb"]]),
    "half of a file": changed("place", files=[["a.py"]]),
    "too many files": changed("place", files=[["a.py", "acme/shop:a.py"]] * 51),
    "files is an object": changed("place", files={}),
    "three turns": changed("place", spoken=[[None, []]] * 3),
    "too many messages": changed("place", spoken=[[None, [["x", None, None]] * 13]]),
    "an empty message": changed("place", spoken=[[None, [["", None, None]]]]),
    "a message without a time": changed("place", spoken=[[None, [["x", None]]]]),
    "no time": changed("place", spoken=[[None, [["x", None, "yesterday"]]]]),
    "a long id": changed("place", spoken=[[None, [["x", "i" * 201, None]]]]),
    "a long summary": changed("place", summary="x" * 16_001),
}


@pytest.mark.requirement("REMOTE-27")
@pytest.mark.parametrize("request_", BAD.values(), ids=BAD)
def test_a_malformed_request_is_refused_as_a_whole(request_: dict[str, Any], eng: Engram) -> None:
    before = eng.changes.latest
    with pytest.raises(InvalidInput):
        hook_serving.answer(eng, request_)
    assert eng.changes.latest == before
    assert eng.sessions.list() == []


@pytest.mark.requirement("REMOTE-27")
def test_a_good_request_with_everything_is_taken(eng: Engram) -> None:
    request = good(text="Port it", takes_context=True, reason="x" * 40)
    request["place"] |= {
        "process": PROCESS,
        "files": [["a.py", "acme/shop:a.py"], ["/x", "/x"], ["[a]", r"acme/shop:\[a]"]],
        "spoken": [[["Port it", "u1", "2026-11-18T05:00:00Z"], [["Found it.", None, None]]], [None, []]],
        "summary": "",
    }
    served = hook_serving.answer(eng, request)
    served.delivered()
    assert served.result == {"context": "", "denied": "", "asked": ""}
    assert turns(eng) == ["Port it"]


def connected(server: HookServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port))


def as_http(server: HookServer, request: dict[str, Any]) -> bytes:
    body = json.dumps(request).encode()
    head = f"POST /api/v1/hook HTTP/1.0\r\nHost: 127.0.0.1:{server.port}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\nAuthorization: Bearer {server.token}\r\n\r\n".encode() + body


@pytest.mark.requirement("REMOTE-27")
def test_what_is_wrong_is_answered_in_the_one_shape(server: HookServer) -> None:
    with connected(server) as connection:
        connection.sendall(as_http(server, changed("event", kind="nonsense")))
        shown = b""
        while piece := connection.recv(1 << 16):
            shown += piece
    assert shown.startswith(b"HTTP/1.")
    status, error = shown.split(None, 2)[1], json.loads(shown.partition(b"\r\n\r\n")[2])["error"]
    assert (status, error["code"]) == (b"400", "invalid_input")


@pytest.mark.requirement("REMOTE-28")
def test_a_message_counts_as_read_after_the_answer_was_sent(server: HookServer, eng: Engram, project: Path) -> None:
    hook("SessionStart")
    (session,) = eng.sessions.list()
    eng.messages.send(None, session.id, "May I rename check()?")
    after = {**EDIT, "tool_response": {}}
    assert "May I rename check()?" in hook("PostToolUse", **after)
    assert hook("PostToolUse", **after) == ""
    assert eng.messages.inbox(session.id, peek=True) == []


@pytest.mark.requirement("REMOTE-28")
def test_a_message_for_a_hook_that_waited_no_longer_comes_with_the_next_event(
    server: HookServer, eng: Engram, project: Path
) -> None:
    hook("SessionStart")
    (session,) = eng.sessions.list()
    eng.messages.send(None, session.id, "May I rename check()?")
    request = json.loads(server.requests[0].body)
    request["event"] |= {"kind": "after tool", "line": "Edit a.py: done"}
    with eng.write(), connected(server) as connection:
        # The server waits for this transaction, and the client does not.
        connection.sendall(as_http(server, request))
        server.wait_until_read(2)
        connection.close()
        server.notice_what_happened()
    server.wait()
    assert [message.again for message in eng.messages.inbox(session.id, peek=True)] == [True]
    assert "May I rename check()?" in hook("PostToolUse", **EDIT, tool_response={})


@pytest.mark.requirement("REMOTE-29")
def test_a_process_of_another_machine_is_never_taken_for_one_of_the_server(eng: Engram) -> None:
    own = processes.own()
    assert own is not None
    boot, *rest = own.split("/")
    elsewhere = "/".join([boot[::-1], *rest[:-2], "999999999", "1"])
    assert processes.runs("/".join([boot[::-1], *rest])) is None
    for number, process in enumerate((elsewhere, None)):
        request = changed("place", process=process)
        request["event"] |= {"kind": "start", "session": f"s{number}", "text": "", "reason": "startup"}
        hook_serving.answer(eng, request).delivered()
        holder = eng.sessions.find(f"s{number}")
        assert holder is not None
        eng.leases.claim(holder.id, f"acme/shop:a{number}.py", exclusive=True)
        edit = changed("place", process=elsewhere, files=[["a.py", f"acme/shop:a{number}.py"]])
        edit["event"] |= {"kind": "before tool", "session": "editor", "text": ""}
        assert "held exclusively" in hook_serving.answer(eng, edit).result["denied"]
    assert {session.status for session in eng.sessions.list()} == {"active"}


@pytest.mark.requirement("REMOTE-29")
def test_a_holder_on_the_servers_own_machine_that_is_gone_does_not_stand_in_the_way(
    server: HookServer, eng: Engram, project: Path
) -> None:
    own = processes.own()
    assert own is not None
    gone = "/".join([*own.split("/")[:-2], "999999999", "1"])
    holder = eng.sessions.register("codex", "", external_id="h")
    eng.harness_processes.note(holder, gone, starts=True)
    eng.leases.claim(holder, "src/router.py", exclusive=True)
    assert hook("PreToolUse", **EDIT) == ""
    assert eng.sessions.get(holder).status == "abandoned"


@pytest.mark.requirement("REMOTE-26")
def test_a_second_attempt_at_another_server_records_nothing_and_makes_the_answer_again(eng: Engram) -> None:
    eng.remember("The router never listens on port 80", kind="lesson", embed=False)
    request = good(text="Port the router", takes_context=True)

    def attempt() -> str:
        return hook_serving.answer(
            eng, request, is_first=lambda: eng.access.answers.is_first("token", "key", "default")
        ).result["context"]

    assert "never listens on port 80" in attempt()
    assert "never listens on port 80" in attempt()
    assert turns(eng) == ["Port the router"]


@pytest.mark.requirement("REMOTE-31")
def test_a_prompt_is_recalled_by_the_servers_model_once_that_is_loaded(
    server: HookServer, eng: Engram, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    recall = Engram.recall

    def watched(self: Engram, query: str, k: int = 5, **options: Any) -> Any:
        asked.append("mode" not in options)
        return recall(self, query, k, **options)

    eng.remember("Deploys never happen on Fridays", kind="lesson")
    monkeypatch.setattr(Engram, "recall", watched)
    assert "never happen on Fridays" in hook("UserPromptSubmit", prompt="Do deploys happen on Fridays?")
    assert asked[0] is False, "by words, because no model was loaded"
    asked.clear()
    shown = hook("UserPromptSubmit", prompt="Do deploys happen on Fridays?", session_id="s2")
    assert "never happen on Fridays" in shown
    assert asked == [True]


@pytest.mark.requirement("REMOTE-32")
def test_the_end_of_a_session_starts_no_process_here_or_there(
    server: HookServer, eng: Engram, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGRAM_AUTO_DREAM", "on")
    hook("UserPromptSubmit", prompt="Port the router")
    hook("Stop", last_assistant_message="The router is ported.")
    hook("SessionEnd", reason="other")
    assert eng.sessions.need_pass()
    assert json.loads(server.requests[-1].body)["place"]["may_dream"] is True
    assert list(Path(os.environ["ENGRAM_DATA_DIR"]).glob("*")) == []


@pytest.mark.requirement("REMOTE-32")
@pytest.mark.parametrize("setting", ["on", "off"])
def test_the_server_is_told_that_a_session_has_ended_if_its_agent_lets_it_dream(setting: str, eng: Engram) -> None:
    ended: list[str] = []

    def start(given: Engram) -> None:
        ended.append(given.workspace_name)

    hook_serving.answer(eng, good(), start_pass=start).delivered()
    assert ended == []
    end = changed("place", may_dream=setting == "on")
    end["event"] |= {"kind": "end", "text": ""}
    hook_serving.answer(eng, end, start_pass=start).delivered()
    assert ended == (["default"] if setting == "on" else [])
