"""Gemini CLI's sessions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engram import Engram, NotOfFormat
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

SESSION = "5d3a9c1e-7b2f-4e8a-9c6d-1f0e2d3c4b5a"
HEAD = {"sessionId": SESSION, "projectHash": "x", "startTime": "2026-03-01T10:00:00.000Z", "kind": "main"}


def message(id: str, type: str, content: Any, **fields: Any) -> dict[str, Any]:
    return {"id": id, "timestamp": "2026-03-01T10:00:01.000Z", "type": type, "content": content, **fields}


def call(name: str, status: str = "success", **args: Any) -> dict[str, Any]:
    return {"id": name, "name": name, "args": args, "status": status, "timestamp": "2026-03-01T10:00:02.000Z"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The folder of a project in `~/.gemini/tmp`."""
    folder = tmp_path / "tmp" / "shop"
    folder.mkdir(parents=True)
    (folder / ".project_root").write_text("/nowhere/my-shop\n")
    return folder


@pytest.fixture
def file(project: Path) -> Path:
    return project / "chats" / f"session-2026-03-01T10-00-{SESSION[:8]}.jsonl"


def test_a_session_is_read_and_a_message_that_is_written_again_once(file: Path) -> None:
    said = message("g1", "gemini", FINDING, toolCalls=[])
    calls = [call("replace", file_path="src/router.py"), call("run_shell_command", "error", command="make test")]
    script = [
        HEAD,
        message("c", "user", [{"text": "<session_context>\nThis is the Gemini CLI.\n</session_context>"}]),
        message("u1", "user", [{"text": "Port the router"}]),
        {"$set": {"lastUpdated": "2026-03-01T10:00:01.000Z"}},
        said,
        {**said, "toolCalls": [*calls, call("glob", "cancelled", pattern="*")]},
        message("r1", "user", [{"functionResponse": {"id": "x", "response": {"output": "ok"}}}]),
        message("i1", "info", "A new version is there."),
        message("g2", "gemini", CLOSING),
        {"$set": {"summary": "Router"}},
    ]
    at, later = "2026-03-01T10:00:01+00:00", "2026-03-01T10:00:02+00:00"
    assert read("gemini", write_lines(file, script)) == [
        SessionItem(SESSION, "gemini", "2026-03-01T10:00:00+00:00", at, "my-shop", "Router"),
        Turn(SESSION, "user", "Port the router", at, "u1"),
        Turn(SESSION, "assistant", FINDING, at, "g1"),
        Turn(SESSION, "log", "replace src/router.py: done", later),
        Turn(SESSION, "log", "run_shell_command make test: failed", later),
        Turn(SESSION, "assistant", CLOSING, at, "g2"),
        EndItem(SESSION),
    ]


def test_what_was_taken_back_stays_and_a_compression_is_a_gist(file: Path) -> None:
    files = [{"text": "Look at @a.py"}, {"text": "\n--- Content from referenced files ---"}, {"text": "x = 1"}]
    ran = "I ran the following shell command:\n```sh\ngit diff\n```\n\nThis produced the following result:\n```\n…\n```"
    snapshot = "<state_snapshot>\nThe router was ported.\n</state_snapshot>"
    script = [
        HEAD,
        message("u1", "user", files),
        message("u2", "user", [{"text": "…"}], displayContent=[{"text": "What does @b.py do?"}]),
        {"$rewindTo": "u2"},
        message("u3", "user", ran),
        {"$set": {"messages": [message("u1", "user", files), message("s", "user", [{"text": snapshot}])]}},
        message("u4", "user", "Go on"),
    ]
    found = read("gemini", write_lines(file, script))
    assert texts(found) == ["Look at @a.py", "What does @b.py do?", "! git diff", "Go on"]
    assert [item.id for item in found if isinstance(item, GistItem)] == ["s"]


def test_an_older_session_is_one_document(file: Path) -> None:
    messages = [message("u1", "user", "Port the router"), message("g1", "gemini", CLOSING)]
    document = {**HEAD, "lastUpdated": "2026-03-01T10:00:09Z", "messages": messages, "summary": "Router"}
    path = file.with_suffix(".json")
    path.parent.mkdir()
    for indent in (2, None):
        path.write_text(json.dumps(document, indent=indent))
        found = read("gemini", path)
        assert turns(found) == [("user", "Port the router", "u1"), ("assistant", CLOSING, "g1")]
        assert (sessions(found)[0].id, sessions(found)[0].name) == (SESSION, "Router")
        assert sessions(found)[0].last_at == "2026-03-01T10:00:09+00:00"
    path.write_text(json.dumps(document)[:-60])
    found = read("gemini", path)
    assert texts(found) == ["Port the router"]
    assert [item for item in found if isinstance(item, Skipped)] == [Skipped("item 2", "not valid JSON")]


def test_a_subagent_is_in_the_folder_of_its_parent(file: Path) -> None:
    script = [
        {**HEAD, "sessionId": "sub", "kind": "subagent"},
        message("u1", "user", "Find the port"),
        message("g1", "gemini", FINDING),
    ]
    write_lines(file.parent / SESSION / "sub.jsonl", script)
    (session,) = sessions(found := read("gemini", file.parent))
    assert (session.id, session.parent, session.summary) == (f"{SESSION}/sub", SESSION, "Find the port")
    assert texts(found) == [FINDING]


def test_a_checkpoint_is_read_where_no_sessions_are(project: Path, file: Path) -> None:
    history = [
        {"role": "user", "parts": [{"text": "This is the Gemini CLI. We are setting up the context for our chat. …"}]},
        {"role": "model", "parts": [{"text": "Got it. Thanks for the context!"}]},
        {"role": "user", "parts": [{"text": "Port the router"}]},
        {"role": "model", "parts": [{"text": "Hm.", "thought": True}, {"functionCall": {"name": "glob", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "glob"}}]},
        {"role": "model", "parts": [{"text": CLOSING}]},
    ]
    checkpoint = project / "checkpoint-before%20lunch.json"
    for content in (history, {"history": history, "authType": "x"}):
        checkpoint.write_text(json.dumps(content))
        found = read("gemini", project)
        assert texts(found) == ["Port the router", "glob: done", CLOSING]
        assert (sessions(found)[0].name, sessions(found)[0].project) == ("before lunch", "my-shop")
        assert sessions(found)[0].started_at is not None
    write_lines(file, [HEAD, message("u1", "user", "Hello")])
    assert texts(read("gemini", project)) == ["Hello"]


def test_what_a_client_thought_for_engram_is_left_out(file: Path, project: Path) -> None:
    with place() as where:
        (project / ".project_root").write_text(where.empty)
    write_lines(file, [HEAD, message("u1", "user", "The data is a session."), message("g1", "gemini", FINDING)])
    assert read("gemini", file) == [Skipped(f"session {SESSION}", "one of Engram's own")]


def test_bad_records_are_named_and_other_files_refused(file: Path, tmp_path: Path) -> None:
    found = read(
        "gemini", write_lines(file, [HEAD, "{", {"odd": 1}, message("u1", "user", "Hello"), '{"id": "x", "ty'])
    )
    assert texts(found) == ["Hello"]
    assert [item for item in found if isinstance(item, Skipped)] == [
        Skipped("line 2", "not valid JSON"),
        Skipped("line 3", "not a record of a session"),
        Skipped("line 5", "not valid JSON"),
    ]
    with pytest.raises(NotOfFormat, match="engram import codex"):
        read("gemini", write_lines(tmp_path / "x.jsonl", [{"type": "event_msg", "payload": {}}]))


def test_hooks_record_the_same_turns(file: Path, eng: Engram, store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGRAM_URL", store_url)
    hook = report("gemini", SESSION, cwd="/", transcript_path=str(file))
    script: list[dict[str, Any]] = [HEAD]
    hook("SessionStart", source="startup")
    for prompt, messages in (("Why?", [NARRATION, f"{NARRATION} {FINDING}", DECISION]), ("Go on", [DECISION, CLOSING])):
        hook("BeforeAgent", prompt=prompt)
        script.append(message(prompt, "user", [{"text": prompt}]))
        for number, said in enumerate(messages):
            given = message(f"{prompt}{number}", "gemini", said)
            script.append(given)
            if number < len(messages) - 1:
                script.append({**given, "toolCalls": [call("run_shell_command", command="make test")]})
                hook("AfterTool", tool_name="run_shell_command", tool_input={"command": "make test"}, tool_response={})
        write_lines(file, script)
        hook("AfterAgent", prompt_response=messages[-1])
    found = read("gemini", file)
    assert len(turns(found)) == 6
    assert turns(found) == recorded(eng, SESSION)
    assert [turn for turn in turns(found, logs=True) if turn[0] == "log"] == recorded(eng, SESSION, logs=True)
