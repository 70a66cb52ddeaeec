"""Each harness's own events, as its documentation and its schemas give them, and answers in the form it reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engram import Engram
from engram.interfaces.hooks import HARNESSES, respond
from tests.interfaces._hook_server import hook_url, store_url

__all__ = ["hook_url", "store_url"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hook_url: str) -> Path:
    folder = tmp_path / "shop"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def ask(harness: str, payload: dict[str, Any]) -> Any:
    answer = respond(harness, json.dumps(payload).encode())
    return json.loads(answer) if answer else None


def codex(event: str, project: Path, **fields: Any) -> dict[str, Any]:
    base = {"session_id": "c1", "turn_id": "t1", "cwd": str(project), "transcript_path": None, "model": "gpt"}
    return {**base, "permission_mode": "default", "hook_event_name": event, **fields}


PATCH = """*** Begin Patch
*** Update File: src/router.py
*** Move to: src/routes.py
@@
-old
+new
*** Add File: src/new file.py
+*** Delete File: not/a/header.py
*** Delete File: src/gone.py
*** End Patch
"""


@pytest.mark.requirement("HOOK-12")
def test_codex_from_start_to_end(eng: Engram, project: Path) -> None:
    started = ask("codex", codex("SessionStart", project, source="startup"))
    assert started["hookSpecificOutput"]["hookEventName"] == "SessionStart"
    assert "# Brief" in started["hookSpecificOutput"]["additionalContext"]
    assert ask("codex", codex("UserPromptSubmit", project, prompt="Port the router")) is None
    tool = {"tool_name": "apply_patch", "tool_use_id": "x", "tool_input": {"command": PATCH}}
    assert ask("codex", codex("PreToolUse", project, **tool)) is None
    assert [lease.resource for lease in eng.leases.list()] == [
        "shop:src/router.py",
        "shop:src/routes.py",
        "shop:src/new file.py",
        "shop:src/gone.py",
    ]
    assert ask("codex", codex("PostToolUse", project, **tool, tool_response="Done")) is None
    assert ask("codex", codex("Stop", project, last_assistant_message="Ported.", stop_hook_active=False)) is None
    ask("codex", codex("SessionEnd", project, reason="other"))
    session = eng.sessions.find("c1", "codex")
    assert session is not None
    assert (session.status, session.outcome, session.project) == (
        "completed",
        "Ported. Files: src/router.py, src/routes.py, src/new file.py, src/gone.py",
        "shop",
    )
    assert len(eng.exchanges.history(session.id)) == 2
    assert eng.sessions.logs(session.id)[0].content == (
        "apply_patch src/router.py, src/routes.py, src/new file.py and 1 more: done"
    )


@pytest.mark.requirement("HOOK-12")
def test_codex_is_denied_with_a_reason_and_nothing_it_does_not_know(eng: Engram, project: Path) -> None:
    eng.leases.claim(eng.sessions.register("cursor", ""), str(project / "src/gone.py"), exclusive=True)
    tool = {"tool_name": "Bash", "tool_use_id": "x", "tool_input": {"command": f"apply_patch <<'EOF'\n{PATCH}EOF"}}
    denied = ask("codex", codex("PreToolUse", project, **tool))
    assert set(denied) == {"hookSpecificOutput"}
    assert denied["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert "held exclusively" in denied["hookSpecificOutput"]["permissionDecisionReason"]


@pytest.mark.requirement("HOOK-6", "HOOK-12")
def test_codex_s_subagents_are_children(eng: Engram, project: Path) -> None:
    ask("codex", codex("SubagentStart", project, agent_id="a1", agent_type="worker"))
    ask("codex", codex("SubagentStop", project, agent_id="a1", agent_type="worker", last_assistant_message="Found."))
    child, parent = eng.sessions.find("c1/a1"), eng.sessions.find("c1")
    assert child is not None
    assert parent is not None
    assert (child.parent_id, child.status, child.outcome) == (parent.id, "completed", "Found.")


def gemini(event: str, project: Path, **fields: Any) -> dict[str, Any]:
    base = {"session_id": "g1", "transcript_path": "/nowhere.json", "cwd": str(project)}
    return {**base, "hook_event_name": event, "timestamp": "2026-11-15T18:36:08Z", **fields}


@pytest.mark.requirement("HOOK-12")
def test_gemini_from_start_to_end(eng: Engram, project: Path) -> None:
    started = ask("gemini", gemini("SessionStart", project, source="startup"))
    assert "# Brief" in started["hookSpecificOutput"]["additionalContext"]
    # What was injected at the start comes back around the first prompt, with its brackets escaped.
    report = started["hookSpecificOutput"]["additionalContext"].replace("<", "&lt;").replace(">", "&gt;")
    wrapped = f"<hook_context>{report}</hook_context>\n\nPort the router"
    assert ask("gemini", gemini("BeforeAgent", project, prompt=wrapped)) == {}
    tool = {"tool_name": "write_file", "tool_input": {"file_path": "src/router.py", "content": "x"}}
    assert ask("gemini", gemini("BeforeTool", project, **tool)) == {}
    assert [lease.resource for lease in eng.leases.list()] == ["shop:src/router.py"]
    assert ask("gemini", gemini("AfterTool", project, **tool, tool_response={"llmContent": "ok"})) == {}
    assert ask("gemini", gemini("AfterAgent", project, prompt="Port the router", prompt_response="Ported.")) == {}
    ask("gemini", gemini("PreCompress", project, trigger="auto"))
    again = ask("gemini", gemini("BeforeAgent", project, prompt="And now the tests"))
    assert "# Brief" in again["hookSpecificOutput"]["additionalContext"]
    ask("gemini", gemini("SessionEnd", project, reason="exit"))
    session = eng.sessions.find("g1", "gemini")
    assert session is not None
    assert (session.status, session.outcome) == ("completed", "Ported. Files: src/router.py")
    turns = eng.exchanges.history(session.id)
    assert [turn.role for turn in turns] == ["user", "assistant", "user"]
    assert turns[0].content == "Port the router"


@pytest.mark.requirement("HOOK-3", "HOOK-12")
def test_gemini_is_denied_before_the_tool_and_warned_after_it(eng: Engram, project: Path) -> None:
    other = eng.sessions.register("codex", "Porting")
    tool = {"tool_name": "replace", "tool_input": {"file_path": str(project / "a.py")}}
    eng.leases.claim(other, str(project / "a.py"))
    assert ask("gemini", gemini("BeforeTool", project, **tool)) == {}
    warned = ask("gemini", gemini("AfterTool", project, **tool, tool_response={"error": {"message": "no"}}))
    assert "Another session" in warned["hookSpecificOutput"]["additionalContext"]
    eng.leases.claim(eng.sessions.register("codex", ""), str(project / "b.py"), exclusive=True)
    denied = ask("gemini", gemini("BeforeTool", project, tool_name="write_file", tool_input={"file_path": "b.py"}))
    assert denied["decision"] == "deny"
    assert "held exclusively" in denied["reason"]
    session = eng.sessions.find("g1")
    assert session is not None
    assert eng.sessions.logs(session.id)[0].content.endswith("a.py: failed")


def cursor(event: str, project: Path, **fields: Any) -> dict[str, Any]:
    base = {"conversation_id": "u1", "generation_id": "n1", "model": "m", "cursor_version": "3.24", "cwd": ""}
    return {**base, "workspace_roots": [str(project)], "hook_event_name": event, "transcript_path": None, **fields}


@pytest.mark.requirement("HOOK-12")
def test_cursor_from_start_to_end(eng: Engram, project: Path) -> None:
    started = ask("cursor", cursor("sessionStart", project, session_id="u1", is_background_agent=False))
    assert "# Brief" in started["additional_context"]
    assert ask("cursor", cursor("beforeSubmitPrompt", project, prompt="Port the router")) == {"continue": True}
    tool = {"tool_name": "Write", "tool_input": {"file_path": str(project / "src/router.py"), "content": "x"}}
    assert ask("cursor", cursor("preToolUse", project, **tool)) == {"permission": "allow"}
    session = eng.sessions.find("u1", "cursor")
    assert session is not None
    assert [lease.resource for lease in eng.leases.list()] == ["shop:src/router.py"]
    eng.messages.send(None, session.id, "Hello")
    shell = {"tool_name": "Shell", "tool_input": {"command": "make"}, "error_message": "no", "failure_type": "error"}
    assert ask("cursor", cursor("postToolUseFailure", project, **shell)) == {}
    after = ask("cursor", cursor("postToolUse", project, **tool, tool_output='{"success":true}', duration=7))
    assert "from a person: Hello" in after["additional_context"]
    for event, fields in (("afterAgentResponse", {"text": "Ported."}), ("stop", {"status": "completed"})):
        assert ask("cursor", cursor(event, project, **fields)) == {}
    ask("cursor", cursor("sessionEnd", project, session_id="u1", reason="completed", duration_ms=1))
    session = eng.sessions.get(session.id)
    assert (session.status, session.outcome) == ("completed", "Ported. Files: src/router.py")
    assert [turn.role for turn in eng.exchanges.history(session.id)] == ["user", "assistant"]


@pytest.mark.requirement("HOOK-3", "HOOK-12")
def test_cursor_is_denied_before_the_tool_and_warned_after_it(eng: Engram, project: Path) -> None:
    eng.leases.claim(eng.sessions.register("codex", ""), str(project / "b.py"), exclusive=True)
    tool = {"tool_name": "StrReplace", "tool_input": {"path": str(project / "b.py")}}
    denied = ask("cursor", cursor("preToolUse", project, **tool))
    assert denied["permission"] == "deny"
    assert "held exclusively" in denied["agent_message"]
    assert "Another session" in ask("cursor", cursor("postToolUse", project, **tool))["additional_context"]


@pytest.mark.requirement("HOOK-6", "HOOK-12")
def test_cursor_s_subagent_is_known_again_by_its_task(eng: Engram, project: Path) -> None:
    begun = {
        "subagent_id": "a1",
        "subagent_type": "explore",
        "task": "Explore the login",
        "parent_conversation_id": "u1",
    }
    assert ask("cursor", cursor("subagentStart", project, **begun)) == {"permission": "allow"}
    ended = {"subagent_type": "explore", "task": "Explore the login", "status": "completed", "summary": "Three places."}
    assert ask("cursor", cursor("subagentStop", project, **ended)) == {}
    (child,) = [session for session in eng.sessions.list() if session.parent_id]
    assert (child.status, child.outcome, child.name) == ("completed", "Three places.", "explore")
    assert child.summary == "Explore the login"


@pytest.mark.requirement("HOOK-12")
@pytest.mark.parametrize("harness", HARNESSES)
def test_an_event_engram_does_not_know_is_passed_over_with_a_line_in_the_log(
    harness: str, eng: Engram, project: Path
) -> None:
    event = {"hook_event_name": "Notification", "session_id": "s", "conversation_id": "s", "message": "hello"}
    assert respond(harness, json.dumps(event).encode()) == ""
    assert eng.sessions.list() == []
    log = Path(eng.settings.data_dir, "hook.log")
    assert "unknown event 'Notification'" in log.read_text()
