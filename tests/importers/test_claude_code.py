"""Claude Code's transcripts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from engram import Engram, NothingToImport, NotOfFormat
from engram.importers import files
from engram.importers.claude_code import FORMAT
from engram.importers.importing import run
from engram.importers.items import EndItem, GistItem, Options, SessionItem, Skipped, Turn
from engram.llm.clients.running import place
from tests._repositories import make_repository
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

AT = "2026-03-01T10:00:%02d.000Z"


class Script:
    """Writes entries as Claude Code does."""

    def __init__(self, session: str = "s1", cwd: str = "/nowhere/shop", **fields: Any) -> None:
        self.entries: list[dict[str, Any]] = []
        self._fields = {"sessionId": session, "cwd": cwd, "isSidechain": False, **fields}

    def add(self, type: str, content: Any = None, **fields: Any) -> str:
        number = len(self.entries) + 1
        id = str(fields.pop("uuid", f"{type}-{number}"))
        entry = {"type": type, "uuid": id, "timestamp": AT % number, **self._fields, **fields}
        if content is not None:
            entry["message"] = {"role": type, "content": content}
        self.entries.append(entry)
        return id

    def call(self, id: str, name: str, **given: Any) -> None:
        self.add("assistant", [{"type": "tool_use", "id": id, "name": name, "input": given}])

    def result(self, id: str, text: str = "ok", *, failed: bool = False) -> None:
        part = {"type": "tool_result", "tool_use_id": id, "content": text, "is_error": failed}
        self.add("user", [part], toolUseResult=text)

    def write(self, path: Path) -> Path:
        return write_lines(path, self.entries)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "s1.jsonl"


def test_a_session_is_read_with_its_times_its_project_and_its_title(file: Path) -> None:
    script = Script()
    script.add("user", "Port the router")
    script.add("assistant", [{"type": "thinking", "thinking": "Hm."}])
    script.add("assistant", [{"type": "text", "text": FINDING}])
    script.call("t1", "Edit", file_path="src/router.py", old_string="a", new_string="b")
    script.result("t1")
    script.call("t2", "Bash", command="make test\nmake lint", description="Run the tests")
    script.result("t2", "Exit code 1", failed=True)
    script.add("assistant", [{"type": "text", "text": CLOSING}])
    script.entries += [
        {"type": "ai-title", "aiTitle": "A router", "sessionId": "s1"},
        {"type": "custom-title", "customTitle": "Old", "sessionId": "s1"},
        {"type": "custom-title", "customTitle": "Router", "sessionId": "s1"},
        {"type": "ai-title", "aiTitle": "Another router", "sessionId": "s1"},
    ]
    begun, ended = "2026-03-01T10:00:01+00:00", "2026-03-01T10:00:08+00:00"
    assert read("claude-code", script.write(file)) == [
        SessionItem("s1", "claude-code", begun, ended, "shop", "Router"),
        Turn("s1", "user", "Port the router", begun, "user-1"),
        Turn("s1", "assistant", FINDING, "2026-03-01T10:00:03+00:00", "assistant-3"),
        Turn("s1", "log", "Edit src/router.py: done", "2026-03-01T10:00:05+00:00"),
        Turn("s1", "log", "Bash make test make lint: failed", "2026-03-01T10:00:07+00:00"),
        Turn("s1", "assistant", CLOSING, ended, "assistant-8"),
        EndItem("s1"),
    ]


def test_only_what_the_person_said_and_what_the_agent_found_is_kept(file: Path) -> None:
    script = Script()
    script.add("user", "<local-command-caveat>Caveat</local-command-caveat>", isMeta=True)
    script.add("user", "<command-name>/model</command-name>\n<command-args>opus</command-args>")
    script.add("user", "<local-command-stdout>Set model to opus</local-command-stdout>")
    script.add("user", "<command-name>/review</command-name>\n<command-args>src</command-args>")
    script.add("user", [{"type": "text", "text": "Review these files: …"}], isMeta=True)
    script.add("assistant", [{"type": "text", "text": NARRATION}])
    script.call("t1", "Bash", command="make lint")
    script.result("t1", "The user doesn't want to proceed with this tool use. …", failed=True)
    script.add("user", "[Request interrupted by user for tool use]")
    script.add("user", "<bash-input>git status</bash-input>")
    script.add("user", "Use tabs <private>my pin is 1234</private>")
    script.add("assistant", [{"type": "text", "text": "API Error: 500"}], isApiErrorMessage=True)
    script.add("assistant", "No response requested.")
    script.entries[-1]["message"]["model"] = "<synthetic>"
    script.add("user", "<task-notification>\n<r>x</r>\n</task-notification>")
    script.add("user", "Do the thing", origin={"kind": "peer", "from": "another"})
    script.add("attachment", attachment={"type": "queued_command", "prompt": "and bump the version"})
    script.add("attachment", attachment={"type": "queued_command", "prompt": "x", "origin": {"kind": "peer"}})
    assert texts(read("claude-code", script.write(file))) == [
        "/review src",
        "! git status",
        "Use tabs",
        "and bump the version",
    ]


def test_the_closing_message_of_a_run_is_kept_in_full_and_what_it_repeats_is_kept_once(file: Path) -> None:
    script = Script()
    script.add("user", "Why?")
    script.add("assistant", [{"type": "text", "text": FINDING}])
    script.add("assistant", [{"type": "text", "text": f"{NARRATION} {DECISION}"}])
    script.call("t1", "Read", file_path="a.py")
    script.result("t1")
    script.add("assistant", [{"type": "text", "text": f"{FINDING}\n\n{NARRATION}"}])
    script.add("user", "<task-notification>\nAn agent has finished.\n</task-notification>")
    script.add("assistant", [{"type": "text", "text": "I will wait."}])
    script.add("user", "Go on")
    script.add("assistant", [{"type": "text", "text": FINDING}])
    script.add("user", "[Request interrupted by user]")
    script.add("user", "No")
    assert turns(read("claude-code", script.write(file))) == [
        ("user", "Why?", "user-1"),
        ("assistant", DECISION, "assistant-3"),
        ("assistant", f"{FINDING}\n\n{NARRATION}", "assistant-6"),
        ("assistant", "I will wait.", "assistant-8"),
        ("user", "Go on", "user-9"),
        ("assistant", FINDING, "assistant-10"),
        ("user", "No", "user-12"),
    ]


def test_the_summary_of_a_compaction_is_a_gist_and_an_older_summary_is_a_title(file: Path) -> None:
    script = Script()
    script.entries.append({"type": "summary", "summary": "Another session", "leafUuid": "elsewhere"})
    script.entries.append({"type": "summary", "summary": "Porting", "leafUuid": "user-3"})
    script.add("user", "Port the router")
    script.add("system", subtype="compact_boundary")
    continued = "This session is being continued from a previous conversation that ran out of context.\n"
    script.add("user", f"{continued}Analysis:\nLong.\n\nSummary:\n1. The router was ported.", isCompactSummary=True)
    script.add("user", "Go on")
    found = read("claude-code", script.write(file))
    assert sessions(found)[0].name == "Porting"
    assert [item for item in found if isinstance(item, GistItem)] == [
        GistItem("s1", "1. The router was ported.", "2026-03-01T10:00:05+00:00", "user-5")
    ]
    assert texts(found) == ["Port the router", "Go on"]


def test_a_subagent_is_a_session_of_its_own_below_the_one_that_started_it(tmp_path: Path) -> None:
    main = Script()
    main.add("user", "Find the cause")
    side = Script(isSidechain=True, agentId="a7f3c21")
    side.add("user", "Search the log for\nthe cause")
    side.add("assistant", [{"type": "text", "text": FINDING}])
    folder = tmp_path / "s1" / "subagents"
    main.write(tmp_path / "s1.jsonl")
    side.write(folder / "agent-a7f3c21.jsonl")
    (folder / "agent-a7f3c21.meta.json").write_text(json.dumps({"agentType": "Explore"}))
    side.write(folder / "agent-acompact-1.jsonl")
    first, second = sessions(read("claude-code", tmp_path))
    assert (first.id, first.parent) == ("s1", None)
    assert (second.id, second.parent, second.name) == ("s1/a7f3c21", "s1", "Explore")
    assert second.summary == "Search the log for the cause"
    assert turns(read("claude-code", folder)) == [("assistant", FINDING, "assistant-2")]


def test_subagents_of_older_versions_are_told_apart_by_the_entries_before_them(file: Path) -> None:
    script = Script()
    script.add("user", "Find the cause")
    for name in ("a", "b"):
        script.add("user", f"Search {name}", isSidechain=True, parentUuid=None, uuid=f"{name}1")
    for name in ("b", "a"):
        said = [{"type": "text", "text": f"The file {name} was changed by the second deployment of the week."}]
        script.add("assistant", said, isSidechain=True, parentUuid=f"{name}1", uuid=f"{name}2")
    found = read("claude-code", script.write(file))
    assert [each.id for each in sessions(found)] == ["s1", "s1/sidechain-a1", "s1/sidechain-b1"]
    ids = {item.session: item.id for item in found if isinstance(item, Turn)}
    assert ids == {"s1": "user-1", "s1/sidechain-a1": "a2", "s1/sidechain-b1": "b2"}


def test_copies_of_an_earlier_session_are_left_out(tmp_path: Path) -> None:
    first = Script("s1")
    first.add("user", "Port the router")
    first.add("assistant", [{"type": "text", "text": FINDING}])
    resumed = Script("s2")  # older versions write the copies with the new id of the session
    resumed.entries = [{**entry, "sessionId": "s2"} for entry in first.entries]
    resumed.add("user", "Go on", uuid="r1")
    forked = Script("s3")
    forked.entries = [{**each, "sessionId": "s3", "forkedFrom": {"sessionId": "s1"}} for each in first.entries]
    forked.add("user", "Another way", uuid="f1")
    mixed = Script("s4")
    mixed.entries = list(first.entries)
    mixed.add("user", "And now this", uuid="m1")
    for number, script in enumerate((first, resumed, forked, mixed), 1):
        path = script.write(tmp_path / f"s{number}.jsonl")
        os.utime(path, (1_000 * number, 1_000 * number))
    found = [(item.session, item.text) for item in read("claude-code", tmp_path) if isinstance(item, Turn)]
    assert found == [
        *(("s1", text) for text in ("Port the router", FINDING)),
        *(("s2", "Go on"), ("s3", "Another way"), ("s4", "And now this")),
    ]
    (tmp_path / "s1.jsonl").unlink()
    alone = [item.session for item in read("claude-code", tmp_path / "s4.jsonl") if isinstance(item, Turn)]
    assert sorted(alone) == ["s1", "s1", "s4"], "the entries of a session whose file is gone are kept"


def test_the_project_is_the_one_that_hooks_would_say(file: Path, tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "work" / "shop")
    (named := tmp_path / "named").mkdir()
    (named / ".engram.toml").write_text('project = "chosen"\n')
    projects = {}
    folders = [repository, repository / ".claude" / "worktrees" / "fix", named, "/nowhere/old", r"C:\work\web", ""]
    for folder in folders:
        script = Script(cwd=str(folder))
        script.add("user", "Hello")
        projects[str(folder)] = sessions(read("claude-code", script.write(file)))[0].project
    assert list(projects.values()) == [Engram.project_of(str(repository))] * 2 + ["chosen", "old", "web", None]


def test_what_a_client_thought_for_engram_is_left_out(file: Path) -> None:
    with place() as where:
        script = Script(cwd=where.empty)
    script.add("user", "The data is a session between a person and an AI agent.")
    script.add("assistant", [{"type": "text", "text": FINDING}])
    assert read("claude-code", script.write(file)) == [Skipped("session s1", "one of Engram's own")]


def test_bad_entries_are_named_and_the_others_are_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LONGEST", 20_000)
    script = Script()
    script.add("user", "Port the router")
    good = json.dumps(script.entries[0])
    deep = '{"type": "user", "message": ' + "[" * 5_000 + "]" * 5_000 + "}"
    long = json.dumps({"type": "user", "message": "x" * 30_000})
    bare = '{"type": "user", "message": "x"}'
    write_lines(file, ["null", '{"silly": 1}', deep, long, bare, good, good[: len(good) // 2]])
    found = read("claude-code", file)
    assert texts(found) == ["Port the router"]
    assert [item for item in found if isinstance(item, Skipped)] == [
        Skipped("line 1", "not a JSON object"),
        Skipped("line 2", "not an entry of a transcript"),
        Skipped("line 3", "nested too deeply"),
        Skipped("line 4", "longer than 0 MiB"),
        Skipped("line 5", "no message"),
        Skipped("line 7", "not valid JSON"),
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "it is empty"),
        ('{"type": "session_meta", "payload": {"id": "x"}}', "engram import codex"),
        ('{"sessionId": "x", "projectHash": "y"}', "engram import gemini"),
        ('{"role": "user", "message": {"content": "x"}}', "engram import cursor"),
        ("<!-- Generated by SpecStory -->\n", "engram import specstory"),
        ('[{"mapping": {}}]', "engram import chatgpt"),
        ("Dear diary", "is not a transcript of Claude Code"),
        ('{"a": 1}', "is not a transcript of Claude Code"),
    ],
)
def test_a_file_of_another_kind_is_refused_with_the_command_to_use(file: Path, content: str, said: str) -> None:
    file.write_text(content)
    with pytest.raises(NotOfFormat, match=said):
        read("claude-code", file)
    assert read("claude-code", file.parent) == [], "in a folder it is passed over"


def test_a_file_that_is_not_there_is_an_error_and_one_that_goes_away_is_named(tmp_path: Path) -> None:
    with pytest.raises(NothingToImport):
        read("claude-code", tmp_path / "no.jsonl")
    script = Script()
    script.add("user", "Hello")
    script.write(tmp_path / "s1.jsonl")
    (source,) = FORMAT.find(tmp_path)
    source.path.unlink()
    assert list(FORMAT.read(source, Options())) == [Skipped("s1.jsonl", "cannot be read")]


def test_hooks_record_the_same_turns(file: Path, eng: Engram, store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGRAM_URL", store_url)
    event = report("claude-code", "s1", cwd=str(file.parent), transcript_path=str(file))
    long = f"{FINDING} " + " ".join(f"Shard {number} waits for a lock." for number in range(400))
    script = Script(cwd=str(file.parent))
    event("SessionStart", source="startup")
    first = [NARRATION, f"{NARRATION} {FINDING}", long, f"{DECISION}\n\nDone."]
    for prompt, messages in (
        ("Why? <system-reminder>x</system-reminder>", first),
        ("<command-name>/review</command-name>\n<command-args>src</command-args>", [DECISION, CLOSING]),
        ("Use the key ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8", ["I have used it."]),
    ):
        event("UserPromptSubmit", prompt=prompt)
        script.add("user", prompt)
        for number, message in enumerate(messages):
            script.add("assistant", [{"type": "text", "text": message}])
            if number < len(messages) - 1:
                given = {"file_path": f"src/{number}.py"}
                script.call(f"{prompt}-{number}", "Edit", **given)
                script.result(f"{prompt}-{number}")
                event("PostToolUse", tool_name="Edit", tool_input=given, tool_response={})
        script.write(file)
        event("Stop", last_assistant_message=messages[-1])
    found = read("claude-code", file)
    assert len(turns(found)) == 9
    assert turns(found) == recorded(eng, "s1")
    assert [turn for turn in turns(found, logs=True) if turn[0] == "log"] == recorded(eng, "s1", logs=True)
    session = eng.sessions.find("s1")
    assert session is not None and session.project == sessions(found)[0].project
    event("SessionEnd", reason="exit")
    done = run("claude-code", [file], eng)
    assert (done.sessions, done.continued, done.turns, done.logs) == (0, 0, 0, 0)


def test_hooks_name_a_subagent_the_same(
    tmp_path: Path, eng: Engram, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGRAM_URL", store_url)
    side = Script(isSidechain=True, agentId="a7f3c21")
    side.add("user", "Search the log")
    side.add("assistant", [{"type": "text", "text": FINDING}])
    path = side.write(tmp_path / "s1" / "subagents" / "agent-a7f3c21.jsonl")
    event = report("claude-code", "s1", cwd=str(tmp_path), agent_id="a7f3c21", agent_type="Explore")
    event("SubagentStart")
    event("SubagentStop", agent_transcript_path=str(path), last_assistant_message=FINDING)
    found = read("claude-code", path)
    assert turns(found) == recorded(eng, sessions(found)[0].id) == [("assistant", FINDING, "assistant-2")]
