"""Transcripts that are damaged, or made to do harm: every reader gives items, and never waits or fails."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engram import Engram
from engram.importers import claude_code, codex, conversations, cursor, gemini, kinds
from engram.importers.files import Source
from engram.importers.importing import run
from engram.importers.items import Options, Skipped, Turn
from tests.importers._reading import CLOSING, read, sessions, texts, write_lines

#: What these formats call things, and the words on which their readers decide.
NAMES = st.sampled_from(
    [
        *("type", "uuid", "sessionId", "parentUuid", "leafUuid", "message", "content", "role", "timestamp", "cwd"),
        *("isSidechain", "agentId", "attachment", "origin", "forkedFrom", "toolUseResult", "summary", "aiTitle"),
        *("id", "tool_use_id", "name", "input", "text", "payload", "call_id", "arguments", "output", "source"),
        *("session_id", "thread_name", "ordinal", "item", "instructions", "subagent", "action", "command", "turn_id"),
        *("$set", "$rewindTo", "messages", "projectHash", "startTime", "toolCalls", "args", "status", "parts"),
        *("displayContent", "directories", "functionCall", "record_type", "customTitle", "lastUpdated", "model"),
        *("conversation", "bubbleId", "fullConversationHeadersOnly", "toolFormerData", "rawArgs", "params"),
        *("createdAt", "timingInfo", "clientStartTime", "workspaceIdentifier", "uri", "fsPath", "composerId"),
    ]
)
WORDS = st.sampled_from(
    [
        *("user", "assistant", "attachment", "summary", "tool_use", "tool_result", "text", "queued_command", "gemini"),
        *("session_meta", "response_item", "event_msg", "compacted", "user_message", "item_completed", "UserMessage"),
        *("message", "function_call", "function_call_output", "custom_tool_call", "local_shell_call", "turn_ended"),
        *("2026-03-01T10:00:00Z", "9999-12-31T23:59:59Z", "\ud800", "a\x00b", "x" * 300, "{", "../..", "", "model"),
    ]
)
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**18), 10**18), st.just(10**400), st.floats(), WORDS, st.text(max_size=8)
)
JSON = st.recursive(
    VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=6), max_leaves=20
)
#: Entries whose first fields are right, so that readers get far into the others.
ENTRIES = st.lists(
    st.builds(
        lambda right, others: {**others, **right},
        st.sampled_from(
            [
                {},
                *({"type": type} for type in ("user", "assistant", "attachment", "gemini", "turn_ended", "compacted")),
                *({"type": type} for type in ("session_meta", "response_item", "event_msg", "message")),
                *({"role": role} for role in ("user", "assistant", "model")),
            ]
        ),
        st.dictionaries(NAMES, JSON, max_size=8),
    ),
    max_size=4,
)


@settings(max_examples=25)
@given(ENTRIES)
@pytest.mark.parametrize("format", [claude_code.FORMAT, codex.FORMAT, gemini.FORMAT, cursor.FORMAT])
def test_any_json_gives_items_and_no_exception(
    tmp_path_factory: pytest.TempPathFactory, format: Any, entries: list[dict[str, Any]]
) -> None:
    folder = tmp_path_factory.getbasetemp() / "any"
    folder.mkdir(exist_ok=True)
    lines = "\n".join(map(json.dumps, entries))
    documents = {
        "rollout-a.jsonl": lines,
        "agent-b.jsonl": '{"type":"user","sessionId":"b","message":{"content":"Hello"}}\n' + lines,
        "rollout-c.json": json.dumps({"session": {"id": "c"}, "items": entries}),
        "session-d.json": json.dumps({"sessionId": "d", "projectHash": "x", "messages": entries}),
        "checkpoint-e.json": json.dumps(entries),
    }
    for name, text in documents.items():
        path = folder / name
        path.write_text(text)
        kinds.kind(text.encode())
        assert all(isinstance(item, tuple) for item in format.read(Source(path), Options()))


@settings(max_examples=25)
@given(JSON, JSON)
def test_any_json_in_the_editors_database_gives_items(
    tmp_path_factory: pytest.TempPathFactory, value: object, other: object
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.vscdb"
    path.unlink(missing_ok=True)
    composer = {
        "fullConversationHeadersOnly": [value, {"bubbleId": "b"}],
        "createdAt": other,
        "workspaceIdentifier": other,
    }
    rows = {
        "composerData:a": value,
        "composerData:b": composer,
        "composerData:c": {"conversation": [value, {"type": 2, "toolFormerData": other, "timingInfo": value}]},
        "composerData:d": {"fullConversationHeadersOnly": [{"bubbleId": value}, {"bubbleId": "\ud800"}]},
        "bubbleId:b:b": {"type": 1, "text": value},
    }
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE cursorDiskKV (key TEXT PRIMARY KEY, value BLOB)")
    connection.executemany(
        "INSERT INTO cursorDiskKV VALUES (?, ?)", [(key, json.dumps(row)) for key, row in rows.items()]
    )
    connection.close()
    assert all(isinstance(item, tuple) for item in cursor.FORMAT.read(Source(path), Options()))


@pytest.mark.parametrize("format", ["claude-code", "codex", "gemini", "cursor"])
def test_a_bad_record_does_not_end_the_import_of_a_folder(tmp_path: Path, format: str) -> None:
    good: dict[str, list[object]] = {
        "claude-code": [{"type": "user", "uuid": "u", "sessionId": "s", "message": {"content": "Hello"}}],
        "codex": [
            {"type": "session_meta", "payload": {"id": "s"}},
            {"type": "response_item", "payload": {"type": []}},
            {"type": "response_item", "payload": {"type": {}}},
            {"type": "event_msg", "payload": {"type": "user_message", "message": "Hello"}},
        ],
        "gemini": [{"sessionId": "s", "projectHash": "x"}, {"id": "u", "type": "user", "content": "Hello"}],
        "cursor": [{"role": "user", "message": {"content": "Hello"}}],
    }
    bad = [{"type": [], "uuid": "x"}, {"type": "user", "uuid": [], "sessionId": "b", "message": {"content": []}}]
    write_lines(tmp_path / "chats" / "rollout-session-1.jsonl", bad)
    write_lines(tmp_path / "chats" / "session-bad.jsonl", bad)
    name = "session-2.jsonl" if format == "gemini" else "rollout-session-2.jsonl"
    write_lines(tmp_path / "chats" / name, [*good[format], *bad])
    assert "Hello" in texts(read(format, tmp_path))


def test_an_id_that_no_file_can_have_is_only_an_id(tmp_path: Path) -> None:
    def entry(session: str) -> dict[str, Any]:
        return {"type": "user", "uuid": session[:9], "sessionId": session, "message": {"content": "Hello"}}

    path = write_lines(
        tmp_path / "s1.jsonl", [entry("\U0001f600" * 100), entry("a\x00b"), entry("\ud800"), entry("s1")]
    )
    found = read("claude-code", path)
    assert len(sessions(found)) == 4
    assert not any(isinstance(item, Skipped) for item in found)


@contextmanager
def in_time(seconds: int = 5) -> Iterator[None]:
    """Fails what waits for ever."""

    def late(*_: object) -> None:
        pytest.fail("It waits.")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("kind", ["pipe", "endless", "long"])
def test_what_stands_beside_a_transcript_is_read_only_if_it_is_a_small_file(tmp_path: Path, kind: str) -> None:
    def make(path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "endless":
            path.symlink_to("/dev/zero")
        else:
            with path.open("wb") as file:
                file.truncate(200 * 1024 * 1024)

    agent = {"type": "user", "uuid": "u", "sessionId": "s", "agentId": "abc", "isSidechain": True, "message": {}}
    answer = {**agent, "type": "assistant", "message": {"role": "assistant", "content": CLOSING}}
    file = write_lines(tmp_path / "claude" / "agent-abc.jsonl", [agent, answer])
    make(file.with_suffix(".meta.json"))
    project = tmp_path / "gemini" / "tmp" / kind
    head = {"sessionId": "s", "projectHash": "x"}
    said = {"id": "u", "type": "user", "content": "Hello"}
    session = write_lines(project / "chats" / "session-1.jsonl", [head, said])
    make(project / ".project_root")
    make(tmp_path / "gemini" / "projects.json")
    with in_time():
        assert texts(read("claude-code", file)) == [CLOSING]
        assert texts(read("gemini", session)) == ["Hello"]


def long_sessions(folder: Path, size: int) -> dict[str, Path]:
    """A session of each harness that began long ago and went on this year, with a long line at its end."""
    long, old, new = "x" * size, "2020-01-01T10:00:00Z", "2026-03-01T10:00:00Z"
    claude = [
        {"type": "user", "uuid": "1", "sessionId": "s", "timestamp": old, "message": {"content": "Hello"}},
        {"type": "user", "uuid": "2", "sessionId": "s", "timestamp": new, "message": {"content": "Again"}, "x": long},
    ]
    rollout = [
        {"type": "session_meta", "timestamp": old, "payload": {"id": "s", "timestamp": old}},
        {"type": "event_msg", "timestamp": new, "payload": {"type": "user_message", "message": "Again", "x": long}},
    ]
    log = [
        {"sessionId": "s", "projectHash": "x", "startTime": old, "lastUpdated": old},
        {"id": "u", "type": "user", "timestamp": new, "content": "Again", "x": long},
    ]
    return {
        "claude-code": write_lines(folder / "s.jsonl", claude),
        "codex": write_lines(folder / "rollout-s.jsonl", rollout),
        "gemini": write_lines(folder / "chats" / "session-s.jsonl", log),
    }


def test_the_time_of_the_last_entry_is_found_however_long_it_is(tmp_path: Path, eng: Engram) -> None:
    for format, path in long_sessions(tmp_path, 300_000).items():
        assert sessions(read(format, path))[0].last_at == "2026-03-01T10:00:00+00:00"
        assert run(format, [path], eng, since="2026-01-01").sessions == 1


def test_without_a_time_near_the_end_the_file_says_how_old_a_session_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversations, "LONGEST_TAIL", conversations.TAIL)
    for format, path in long_sessions(tmp_path, 300_000).items():
        os.utime(path, (1_772_366_400, 1_772_366_400))
        assert sessions(read(format, path))[0].last_at == "2026-03-01T12:00:00+00:00"


def test_calls_and_prompts_that_wait_are_held_only_in_part() -> None:
    calls = conversations.Calls(frozenset())
    calls.add("x" * 10_000, "Bash", {})
    calls.add("id", "y" * 10_000, {})
    assert calls.line("x" * 10_000, failed=False) is None
    assert calls.line("id", failed=False) == "y" * 60 + "…: done"
    assert calls.line([], failed=False) is None
    assert sum(map(len, codex._short(["x " * 90_000] * 20))) < 400_000


#: Lines on which the readers of texts decide.
LINES = st.lists(
    st.sampled_from(
        [
            *("_**User (2026-03-01 10:00:09Z)**_", "_**User (2030-03-01 10:00:09Z)**_", "_**User**_", "_****_", "---"),
            *(
                "_**Agent (x 2026-03-01 10:00:09Z)**_",
                "_**Agent - sidechain (x 2026-03-01 10:00:09Z)**_",
                "```",
                "````",
            ),
            *(
                '<tool-use data-tool-type="a" data-tool-name="b">',
                "</tool-use>",
                "<think>",
                "</think>",
                "",
                "",
                "",
                "x",
            ),
            *("user:", "assistant:", "A:", "[Tool call] Shell", "[Tool result] Shell", "[Thinking] x", "  command: x"),
            *("Tool use: **x**", "<!-- message-id: 1 -->", "<!-- Claude Code Session other -->", "<user_query>", "#"),
        ]
    ),
    max_size=25,
)
BEGINNINGS = {
    "specstory": (
        "<!-- Generated by SpecStory -->\n\n_**User (2026-03-01 10:00:00Z)**_\n\nHello\n\n"
        "_**Agent (x 2026-03-01 10:00:05Z)**_\n\n"
        '<tool-use data-tool-type="shell" data-tool-name="Bash"><details>\n\n```text\n'
    ),
    "cursor": "user:\nHello\nassistant:\n[Tool call] Shell\n  command: make\n[Tool result] Shell\n",
}


@settings(max_examples=60)
@given(LINES)
@pytest.mark.parametrize("format", BEGINNINGS)
def test_no_output_of_a_tool_makes_a_turn_that_is_trusted(
    tmp_path_factory: pytest.TempPathFactory, format: str, lines: list[str]
) -> None:
    path = tmp_path_factory.getbasetemp() / f"any-{format}.md"
    path.write_text(BEGINNINGS[format] + "\n".join(lines) + "\n")
    os.utime(path, (1_772_366_400, 1_772_366_400))
    said = [item for item in read(format, path) if isinstance(item, Turn) and item.role != "log"]
    assert [turn.text for turn in said if turn.trust is None] == ["Hello"]
