"""What hooks do about a file that another session holds: the holder is told, and the person is asked."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from engram import Engram
from engram.interfaces.hooks import locks, respond
from tests.conftest import ShiftedClock
from tests.interfaces._hook_server import hook_url, store_url

__all__ = ["hook_url", "store_url"]

#: For each harness: its names of the events before and after a tool, and a tool that writes files.
NAMES = {
    "claude-code": ("PreToolUse", "PostToolUse", "Write"),
    "codex": ("PreToolUse", "PostToolUse", "apply_patch"),
    "gemini": ("BeforeTool", "AfterTool", "write_file"),
    "cursor": ("preToolUse", "postToolUse", "Write"),
}


class Editor:
    """A harness that edits files in the project."""

    def __init__(self, harness: str, project: Path, session: str = "s1") -> None:
        self.harness, self._project, self.session = harness, project, session

    def before(self, *paths: str) -> Any:
        return self._report(NAMES[self.harness][0], paths)

    def after(self, *paths: str) -> Any:
        return self._report(NAMES[self.harness][1], paths)

    def _report(self, event: str, paths: tuple[str, ...]) -> Any:
        patch = "".join(f"*** Update File: {path}\n" for path in paths)
        given = {"file_path": paths[0]} if self.harness != "codex" else {"command": f"*** Begin Patch\n{patch}"}
        payload = {
            "hook_event_name": event,
            "session_id": self.session,
            "conversation_id": self.session,
            "cwd": str(self._project),
            "tool_name": NAMES[self.harness][2],
            "tool_input": given,
        }
        answer = respond(self.harness, json.dumps(payload).encode())
        return json.loads(answer) if answer else {}


def refused(answer: Any) -> str:
    """Why an edit was refused, in any harness's format; empty if it was not."""
    specific = answer.get("hookSpecificOutput", {})
    if specific.get("permissionDecision") == "deny":
        return str(specific["permissionDecisionReason"])
    denied = "deny" in (answer.get("decision"), answer.get("permission"))
    return str(answer.get("reason") or answer.get("agent_message")) if denied else ""


@pytest.fixture
def project(tmp_path: Path, hook_url: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "shop"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def holder(eng: Engram, project: Path) -> str:
    return eng.sessions.register("gemini", "Rewriting the router")


def ask_policy(monkeypatch: pytest.MonkeyPatch, policy: str) -> None:
    monkeypatch.setenv("ENGRAM_LOCK_POLICY", policy)


@pytest.mark.requirement("LOCKS-3")
@pytest.mark.parametrize("exclusive", [False, True])
def test_the_holder_is_told_once_that_another_session_edits_its_file(
    exclusive: bool, eng: Engram, project: Path, holder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_policy(monkeypatch, "warn")
    eng.leases.claim(holder, "src/*.py", exclusive=exclusive)
    editor = Editor("claude-code", project)
    for _ in range(2):
        editor.before("src/a.py")
    session = eng.sessions.find("s1")
    assert session is not None
    (message,) = eng.messages.inbox(holder)
    assert message.from_session == session.id
    assert message.text == (
        f'Session {session.id} (claude-code) is editing "src/a.py", and you hold "shop:src/*.py". '
        f'Reply with `engram message send {session.id} "…"`, or over MCP with the tool session, action message.'
    )
    Editor("codex", project, "s2").before("src/a.py", "src/b.py")
    (message,) = eng.messages.inbox(holder)
    assert '"src/a.py", "src/b.py"' in message.text
    assert "(codex)" in message.text
    (message,) = eng.messages.inbox(session.id)
    assert 'is editing "src/a.py", which you hold. Reply with' in message.text, "its own edit made it a holder"


@pytest.mark.requirement("LOCKS-3")
def test_neither_a_refused_edit_nor_one_of_the_family_is_reported(eng: Engram, project: Path, holder: str) -> None:
    eng.leases.claim(holder, "src/a.py", exclusive=True)
    assert refused(Editor("claude-code", project).before("src/a.py"))
    Editor("claude-code", project).before("src/b.py")
    payload = {"hook_event_name": "PreToolUse", "session_id": "s1", "agent_id": "a1", "tool_name": "Write"}
    respond("claude-code", json.dumps({**payload, "tool_input": {"file_path": "src/b.py"}}).encode())
    assert len(eng.leases.list()) == 3
    assert [eng.messages.inbox(session.id) for session in eng.sessions.active()] == [[], [], []]


@pytest.mark.requirement("LOCKS-4")
def test_claude_code_asks_the_person(eng: Engram, project: Path, holder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ask_policy(monkeypatch, "ask")
    eng.leases.claim(holder, "src/a.py", "half-way through", exclusive=True)
    editor = Editor("claude-code", project)
    specific = editor.before("src/a.py")["hookSpecificOutput"]
    assert specific["permissionDecision"] == "ask"
    question = specific["permissionDecisionReason"]
    assert question.startswith(f'Engram: "shop:src/a.py" is held exclusively by session {holder} (gemini: "Rewriting')
    assert '"half-way through"' in question
    assert question.endswith("Edit it anyway?")
    assert [lease.session_id for lease in eng.leases.list()] == [holder], "the person has not decided yet"
    assert eng.messages.inbox(holder) == []
    editor.after("src/a.py")
    assert len(eng.leases.list()) == 2
    assert "claude-code" in eng.messages.inbox(holder)[0].text


@pytest.mark.requirement("LOCKS-4")
@pytest.mark.parametrize("harness", ["codex", "gemini", "cursor"])
def test_where_nobody_can_be_asked_a_second_attempt_within_ten_minutes_goes_through(
    harness: str, eng: Engram, project: Path, holder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_policy(monkeypatch, "ask")
    eng.leases.claim(holder, "src/a.py", exclusive=True)
    editor, another = Editor(harness, project), Editor(harness, project, "s2")
    assert "try again after 5 seconds and within 10 minutes" in refused(editor.before("src/a.py"))
    assert refused(editor.before("src/a.py")), "sent before the refusal could be read"
    assert eng.messages.inbox(holder) == []
    monkeypatch.setattr(locks, "INSIST_AFTER", 0.0)
    assert refused(another.before("src/a.py")), "each session on its own"
    assert refused(editor.before("src/a.py")) == ""
    assert len(eng.messages.inbox(holder)) == 1


@pytest.mark.requirement("LOCKS-4")
def test_an_attempt_after_ten_minutes_is_a_first_one_again(
    eng: Engram, project: Path, holder: str, clock: ShiftedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_policy(monkeypatch, "ask")
    monkeypatch.setattr(locks, "INSIST_AFTER", 0.0)
    clock.shift = -601
    eng.leases.claim(holder, "src/a.py", exclusive=True, ttl=7_200)
    session = eng.sessions.register("codex", "", external_id="s1")
    (held,) = eng.leases.check("src/a.py")
    eng.lease_notices.insist(held, session, after=0, within=600)
    clock.shift = 0
    editor = Editor("codex", project)
    assert refused(editor.before("src/a.py"))
    assert refused(editor.before("src/a.py")) == ""


@pytest.mark.requirement("LOCKS-4")
def test_one_more_attempt_is_enough_for_a_patch_of_several_held_files(
    eng: Engram, project: Path, holder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_policy(monkeypatch, "ask")
    monkeypatch.setattr(locks, "INSIST_AFTER", 0.0)
    for path in ("src/a.py", "src/b.py"):
        eng.leases.claim(holder, path, exclusive=True)
    editor = Editor("codex", project)
    assert refused(editor.before("src/a.py", "src/b.py"))
    assert refused(editor.before("src/a.py", "src/b.py")) == ""


@pytest.mark.requirement("LOCKS-6")
def test_with_a_wrong_lock_policy_an_edit_is_denied_and_the_log_says_why(
    eng: Engram, project: Path, holder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_policy(monkeypatch, "denied")
    eng.leases.claim(holder, "src/a.py", exclusive=True)
    respond("claude-code", json.dumps({"hook_event_name": "SessionStart", "session_id": "s1"}).encode())
    assert refused(Editor("claude-code", project).before("src/a.py"))
    assert "ENGRAM_LOCK_POLICY is" in (Path(os.environ["ENGRAM_DATA_DIR"]) / "hook.log").read_text()


@pytest.mark.requirement("LOCKS-6")
def test_an_id_that_looks_like_a_token_does_not_make_the_hook_fail(eng: Engram, project: Path, holder: str) -> None:
    eng.leases.claim(holder, "src/a.py", exclusive=True)
    token = "ghp_" + "".join(chr(97 + 7 * number % 26) + str(number % 10) for number in range(18))
    editor = Editor("claude-code", project, token)
    assert refused(editor.before("src/a.py"))
    editor.before("src/b.py")
    payload = {"hook_event_name": "PreToolUse", "session_id": token, "agent_id": token, "agent_type": token}
    answer = respond(
        "claude-code", json.dumps({**payload, "tool_name": "Write", "tool_input": {"file_path": "src/a.py"}}).encode()
    )
    assert refused(json.loads(answer))
    assert len(eng.sessions.active()) == 3
    assert not any(token in str(session) for session in eng.sessions.active())
