"""Codex's sessions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engram import Engram, NotOfFormat
from engram.importers import codex
from engram.importers.items import EndItem, GistItem, SessionItem, Skipped, Turn
from engram.llm.clients.running import place
from tests.importers._reading import (
    CLOSING,
    DECISION,
    FINDING,
    NARRATION,
    read,
    recorded,
    report,
    sessions,
    texts,
    turns,
    write_lines,
)

#: Ids of version 7: the first is the older one.
PARENT, CHILD = "019f0000-0000-7000-8000-000000000001", "019f0001-0000-7000-8000-000000000002"
CONTEXT = "<environment_context>\n  <cwd>/nowhere/shop</cwd>\n</environment_context>"
_at = iter(range(10_000))


def line(kind: str, **payload: Any) -> dict[str, Any]:
    second = next(_at) % 3_600
    at = f"2026-03-01T10:{second // 60:02}:{second % 60:02}.000Z"
    return {"timestamp": at, "type": kind, "payload": payload}


def meta(id: str = CHILD, **fields: Any) -> dict[str, Any]:
    return line("session_meta", id=id, cwd="/nowhere/shop", timestamp="2026-03-01T09:00:00Z", **fields)


def message(role: str, text: str, **fields: Any) -> dict[str, Any]:
    type = "output_text" if role == "assistant" else "input_text"
    return line("response_item", type="message", role=role, content=[{"type": type, "text": text}], **fields)


def event(type: str, **fields: Any) -> dict[str, Any]:
    return line("event_msg", type=type, **fields)


def asked(text: str, **fields: Any) -> list[dict[str, Any]]:
    return [message("user", text, **fields), event("user_message", message=text)]


def call(id: str, name: str, given: dict[str, Any], output: object = "ok") -> list[dict[str, Any]]:
    return [
        line("response_item", type="function_call", name=name, arguments=json.dumps(given), call_id=id),
        line("response_item", type="function_call_output", call_id=id, output=output),
    ]


PATCH = "*** Begin Patch\n*** Update File: src/router.py\n@@\n-a\n+b\n*** Add File: src/port.py\n+x\n*** End Patch"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "sessions" / "2026" / "03" / "01" / f"rollout-2026-03-01T10-00-00-{CHILD}.jsonl"


def test_a_session_is_read_with_its_tools_under_the_names_that_hooks_get(file: Path, tmp_path: Path) -> None:
    write_lines(tmp_path / "session_index.jsonl", [{"id": CHILD, "thread_name": "Router"}])
    script = [
        meta(git={"branch": "main"}),
        message("developer", "<permissions instructions>…"),
        message("user", CONTEXT),
        *asked("Port the router", id="u1"),
        message("assistant", FINDING, id="m1"),
        *call("c1", "exec_command", {"cmd": "make test"}),
        *call("c2", "shell", {"command": ["bash", "-lc", "ls src"]}, {"content": "", "success": False}),
        line("response_item", type="custom_tool_call", name="apply_patch", input=PATCH, call_id="c3"),
        line("response_item", type="custom_tool_call_output", call_id="c3", output="ok"),
        *call("c4", "search", {"query": "ports"}),
        line("response_item", type="function_call", name="write_stdin", arguments="{}", call_id="c5"),
        line("response_item", type="function_call_output", call_id="c5", output="ok"),
        message("assistant", CLOSING, id="m2"),
        event("task_complete"),
    ]
    script[-6]["payload"]["namespace"] = "mcp__docs__"
    found = read("codex", write_lines(file, script))
    item = found[0]
    assert isinstance(item, SessionItem)
    assert item == SessionItem(CHILD, "codex", "2026-03-01T09:00:00+00:00", item.last_at, "shop", "Router")
    assert turns(found, logs=True) == [
        ("user", "Port the router", "u1"),
        ("assistant", FINDING, "m1"),
        ("log", "Bash make test: done", None),
        ("log", "Bash ls src: failed", None),
        ("log", "apply_patch src/router.py, src/port.py: done", None),
        ("log", "mcp__docs__search ports: done", None),
        ("assistant", CLOSING, "m2"),
    ]
    assert found[-1] == EndItem(CHILD)


def test_newer_and_older_versions_tell_otherwise_what_the_person_typed(file: Path) -> None:
    typed = {"type": "UserMessage", "content": [{"type": "text", "text": "Port the router"}]}
    newer = [
        meta(history_mode="paginated"),
        message("user", "<recommended_plugins>\nx\n</recommended_plugins>"),
        message("user", "Port the router", id="u1"),
        event("item_completed", item=typed),
        message("assistant", CLOSING, id="m1"),
    ]
    kept = [("user", "Port the router", "u1"), ("assistant", CLOSING, "m1")]
    assert turns(read("codex", write_lines(file, newer))) == kept
    older = [each["payload"] for each in newer if each["type"] == "response_item"]
    head = {"id": "old", "timestamp": "2025-08-01T10:00:00Z", "instructions": None}
    bare = [head, {"record_type": "state"}, {"type": "message", "role": "user", "content": CONTEXT}, *older]
    found = read("codex", write_lines(file, bare))
    assert turns(found) == kept
    assert (sessions(found)[0].id, sessions(found)[0].project) == ("old", "shop")
    document = file.with_suffix(".json")
    document.write_text(json.dumps({"session": head, "items": bare[2:]}, indent=1))
    assert turns(read("codex", document)) == kept


def test_an_interrupted_turn_has_no_closing_message_and_a_compaction_is_a_gist(file: Path) -> None:
    script = [
        meta(),
        *asked("Why?"),
        message("assistant", NARRATION),
        event("turn_aborted", reason="interrupted"),
        *asked("# Context from my IDE setup:\n\n## Open tabs:\n- a.py\n\n## My request for Codex:\nGo on"),
        message("assistant", CLOSING),
        line("compacted", message="The router was ported.", replacement_history=[]),
        event("thread_rolled_back", num_turns=1),
    ]
    found = read("codex", write_lines(file, script))
    assert texts(found) == ["Why?", "Go on", CLOSING]
    assert [item.text for item in found if isinstance(item, GistItem)] == ["The router was ported."]


@pytest.mark.parametrize("ids", [True, False])
def test_a_subagent_leaves_out_what_it_was_given_of_its_parent(file: Path, ids: bool) -> None:
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": PARENT, "depth": 1}}}
    turn = {"turn_id": "019f0002-0000-7000-8000-000000000003"} if ids else {}
    script = [
        meta(CHILD, source=spawned, agent_role="worker"),
        meta(PARENT),
        event("task_started", turn_id="019f0000-5000-7000-8000-000000000003"),
        *asked("Port the router"),
        message("assistant", DECISION),
        event("task_started", **turn),
        *asked("Look for ports"),
        message("assistant", FINDING),
    ]
    for number, each in enumerate(script):
        each["timestamp"] = f"2026-03-01T10:00:{0 if ids or number < 6 else number + 10:02}Z"
    found = read("codex", write_lines(file, script))
    (session,) = sessions(found)
    assert (session.id, session.parent, session.name) == (f"{PARENT}/{CHILD}", PARENT, "worker")
    assert session.summary == "Look for ports"
    assert texts(found) == [FINDING]


def test_sessions_that_no_person_had_are_left_out(file: Path) -> None:
    with place() as where:
        own = meta(PARENT) | {"payload": {"id": PARENT, "cwd": where.empty}}
    guardian = meta(CHILD, source={"subagent": {"other": "guardian"}}, parent_thread_id=PARENT)
    write_lines(file, [own, *asked("The data is a session.")])
    write_lines(file.with_name("rollout-b.jsonl"), [guardian, *asked("May it?"), message("assistant", FINDING)])
    assert read("codex", file.parent) == [
        Skipped(f"session {PARENT}", "one of Engram's own"),
        Skipped(f"session {CHILD}", "an internal session of Codex"),
    ]


def test_a_compressed_session_is_read_if_the_library_is_there(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zstandard = pytest.importorskip("zstandard")
    write_lines(file, [meta(), *asked("Port the router")])
    packed = file.with_name(f"{file.name}.zst")
    packed.write_bytes(zstandard.ZstdCompressor().compress(file.read_bytes()))
    assert len(read("codex", file.parent)) == 3, "the plain one is read, not both"
    file.unlink()
    assert texts(read("codex", file.parent)) == ["Port the router"]
    monkeypatch.setattr(codex, "_zstandard", lambda: None)
    assert read("codex", file.parent) == [Skipped(packed.name, "compressed, and zstandard is not installed")]
    with pytest.raises(NotOfFormat, match="zstd -d"):
        read("codex", packed)


def test_a_damaged_file_gives_what_can_be_read(file: Path) -> None:
    whole = [meta(), *asked("Port the router")]
    broken = json.dumps(message("assistant", FINDING))[:40]
    found = read("codex", write_lines(file, [*whole, {"nothing": 1}, {"type": "event_msg", "payload": 3}, broken]))
    assert texts(found) == ["Port the router"]
    assert [item for item in found if isinstance(item, Skipped)] == [
        Skipped("line 4", "not an entry of a session"),
        Skipped("line 6", "not valid JSON"),
    ]
    found = read("codex", write_lines(file, whole[1:]))
    assert (sessions(found)[0].id, texts(found)) == (CHILD, ["Port the router"]), "without its first line"


def test_a_first_line_of_any_length_is_read(file: Path) -> None:
    instructions = {"text": "Be brief. " * 20_000}
    found = read("codex", write_lines(file, [meta(base_instructions=instructions), *asked("Port the router")]))
    assert (sessions(found)[0].id, texts(found)) == (CHILD, ["Port the router"])


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "rollout-x.jsonl", [{"type": "user", "uuid": "1", "message": {}}])
    with pytest.raises(NotOfFormat, match="engram import claude-code"):
        read("codex", file)
    assert read("codex", tmp_path) == []


def test_hooks_record_the_same_turns(file: Path, eng: Engram, store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGRAM_URL", store_url)
    hook = report("codex", CHILD, cwd="/", transcript_path=str(file))
    script: list[dict[str, Any]] = [meta(), message("user", CONTEXT)]
    hook("SessionStart", source="startup")
    for prompt, messages in (("Why?", [NARRATION, f"{NARRATION} {FINDING}", DECISION]), ("Go on", [DECISION, CLOSING])):
        hook("UserPromptSubmit", prompt=prompt)
        script += asked(prompt)
        for number, said in enumerate(messages):
            script.append(message("assistant", said))
            if number < len(messages) - 1:
                script += call(f"{prompt}{number}", "exec_command", {"cmd": "make test"})
                hook("PostToolUse", tool_name="Bash", tool_input={"command": "make test"}, tool_response="ok")
        write_lines(file, script)
        hook("Stop", last_assistant_message=messages[-1])
    found = read("codex", file)
    assert len(turns(found)) == 6
    assert turns(found) == recorded(eng, CHILD)
    assert [turn for turn in turns(found, logs=True) if turn[0] == "log"] == recorded(eng, CHILD, logs=True)
    assert all(isinstance(item, SessionItem | Turn | EndItem) for item in found)
