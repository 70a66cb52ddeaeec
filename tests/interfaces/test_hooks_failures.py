"""A hook never stands in an agent's way: it fails open, in time, and says so where it helps."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engram import Engram
from engram.config import load
from engram.interfaces.hooks import HARNESSES, MAX_INPUT, respond
from engram.interfaces.hooks.failures import MAX_LOG, note
from tests.security._secrets import secrets

PROGRAM = os.path.join(sysconfig.get_path("scripts"), "engram-hook")


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the store and the log; the current folder is another one."""
    folder = tmp_path / "data"
    monkeypatch.setenv("ENGRAM_DATA_DIR", str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


def payload(event: str, **fields: Any) -> bytes:
    return json.dumps({"session_id": "s1", "hook_event_name": event, **fields}).encode()


def run(given: bytes, harness: str = "claude-code", **popen: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([PROGRAM, harness], input=given, capture_output=True, timeout=30, check=False, **popen)


def context(answer: str) -> str:
    return str(json.loads(answer)["hookSpecificOutput"]["additionalContext"]) if answer else ""


@pytest.mark.requirement("HOOK-8")
@pytest.mark.parametrize(
    "given", [b"", b"{", b"null", b"[1]", b"\xff\xfe", b'{"hook_event_name": "Stop"}', b"[" * 100_000]
)
def test_what_is_no_event_ends_with_0_and_one_line_in_the_log(given: bytes, data: Path) -> None:
    ended = run(given)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
    log = data / "hook.log"
    assert len(log.read_text().splitlines()) == 1
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert not (data / "engram.db").exists()


@pytest.mark.requirement("HOOK-8")
@pytest.mark.parametrize("arguments", [[], ["emacs"], ["claude-code\x1b[2J"]])
def test_an_unknown_harness_ends_with_0(arguments: list[str], data: Path) -> None:
    ended = subprocess.run([PROGRAM, *arguments], input=b"{}", capture_output=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
    assert "unknown harness" in (data / "hook.log").read_text()
    assert "\x1b" not in (data / "hook.log").read_text()


@pytest.mark.requirement("HOOK-8")
def test_a_person_who_asks_is_told_what_the_program_is() -> None:
    shown = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, check=True).stdout
    assert all(harness in shown for harness in HARNESSES)


@pytest.mark.requirement("HOOK-8")
def test_a_broken_store_is_told_once_after_three_failures_and_to_every_new_session(data: Path) -> None:
    data.mkdir()
    (data / "engram.db").write_bytes(b"this is no database, and it is long enough to be sure of it" * 20)
    answers = [respond("claude-code", payload("UserPromptSubmit", prompt=f"number {number}")) for number in range(5)]
    assert [bool(answer) for answer in answers] == [False, False, True, False, False]
    assert "keeps failing (NotAStore)" in context(answers[2])
    assert str(data / "hook.log") in context(answers[2])
    assert "keeps failing" in context(respond("claude-code", payload("SessionStart")))
    assert respond("claude-code", payload("Stop", last_assistant_message="x")) == ""
    assert len((data / "hook.log").read_text().splitlines()) == 7


@pytest.mark.requirement("HOOK-8")
def test_once_all_is_well_failures_are_counted_anew(data: Path) -> None:
    for _ in range(2):
        for _ in range(2):
            respond("claude-code", b"{")
            (data / "engram.db").write_bytes(b"broken" * 100)
            assert respond("claude-code", payload("UserPromptSubmit", prompt="x")) == ""
        (data / "engram.db").unlink()
        respond("claude-code", payload("SessionStart"))
        assert not (data / "hook.failures").exists()


@pytest.mark.requirement("HOOK-8")
def test_a_store_that_is_newer_than_the_hook_is_told_at_once(data: Path) -> None:
    Engram().close()
    connection = apsw.Connection(str(data / "engram.db"))
    connection.execute("INSERT INTO migrations VALUES (9999, 'later', 'x', 9999, '2030-01-01T00:00:00.000000Z')")
    connection.close()
    assert "pip install --upgrade engram-agents" in context(
        respond("claude-code", payload("UserPromptSubmit", prompt="x"))
    )
    assert respond("claude-code", payload("UserPromptSubmit", prompt="x")) == ""


@pytest.mark.requirement("HOOK-8")
def test_a_users_settings_file_that_does_not_parse_fails_open(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGRAM_CONFIG_DIR", str(data))
    data.mkdir(parents=True, exist_ok=True)
    (data / "config.toml").write_text("this is = = not TOML")
    ended = run(payload("SessionStart"))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
    assert "cannot be read as TOML" in (data / "hook.log").read_text()


@pytest.mark.requirement("CONFIG-5")
@pytest.mark.parametrize("kind", ["not TOML", "forbidden", "nested", "pipe"])
def test_a_cloned_repositorys_settings_file_does_not_stop_a_hook_from_recording(data: Path, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(".engram.toml")
    else:
        texts = {"not TOML": "= =", "forbidden": 'url = "/dev/full"\nabandon_after = 0', "nested": "a = " + "[" * 400}
        Path(".engram.toml").write_text(texts[kind])
    assert "# Brief" in respond("claude-code", payload("SessionStart"))
    respond("claude-code", payload("UserPromptSubmit", prompt="We ship on Friday"))
    with Engram() as eng:
        (session,) = eng.sessions.active()
        assert [turn.content for turn in eng.exchanges.history(session.id)] == ["We ship on Friday"]
    if kind != "pipe":
        assert "ignored" in (data / "hook.log").read_text()


@pytest.mark.requirement("HOOK-8")
def test_the_log_is_bounded_of_one_line_each_and_without_secrets(data: Path) -> None:
    key = next(secret for _, secret in secrets() if secret.startswith("ghp_"))
    for _ in range(MAX_LOG // 100):
        note(str(data), f"something\nfailed with {key} " + "x" * 300)
    sizes = [file.stat().st_size for file in data.glob("hook.log*")]
    assert len(sizes) == 2
    assert max(sizes) < MAX_LOG + 1_000
    assert key not in (data / "hook.log").read_text()
    assert all("[redacted: github token]" in line for line in (data / "hook.log").read_text().splitlines())


@pytest.mark.requirement("HOOK-8")
def test_where_not_even_a_log_can_be_written_the_agent_goes_on(data: Path) -> None:
    data.write_text("a file where the folder should be")
    ended = run(payload("UserPromptSubmit", prompt="x"))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
    assert b"Engram does not see" in run(payload("SessionStart")).stdout


@pytest.mark.requirement("HOOK-9")
def test_a_store_locked_by_another_process_is_given_up_within_the_limit(data: Path) -> None:
    with Engram() as eng:
        eng.sessions.register("test", "")
    holder = apsw.Connection(str(data / "engram.db"))
    holder.execute("BEGIN IMMEDIATE")
    begun = time.monotonic()
    ended = run(payload("UserPromptSubmit", prompt="x"))
    took = time.monotonic() - begun
    holder.execute("ROLLBACK")
    holder.close()
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
    assert took < 15, "half a second of waiting, and what a busy machine takes to start a process"
    # On a busy machine the hook's own limit may come first.
    written = (data / "hook.log").read_text()
    assert "StoreBusy" in written or "took longer than" in written
    with Engram() as eng:
        assert [session.type for session in eng.sessions.list()] == ["test"]


@pytest.mark.requirement("HOOK-9")
def test_a_harness_that_never_ends_its_input_does_not_hold_the_hook_up(data: Path) -> None:
    process = subprocess.Popen(
        [PROGRAM, "codex"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write(b'{"session_id": "s1", ')
    process.stdin.flush()
    begun = time.monotonic()
    assert process.wait(timeout=30) == 0
    assert time.monotonic() - begun < 15
    process.communicate()
    assert "took longer than" in (data / "hook.log").read_text()


@pytest.mark.requirement("HOOK-10")
@pytest.mark.parametrize(
    "event",
    [
        payload("SessionStart"),
        payload("UserPromptSubmit", prompt="Where is the router?"),
        payload("PreToolUse", tool_name="Write", tool_input={"file_path": "a.py"}),
        payload("PostToolUse", tool_name="Write", tool_input={"file_path": "a.py"}),
        payload("Stop", last_assistant_message="There."),
        payload("SessionEnd"),
    ],
    ids=lambda event: json.loads(event)["hook_event_name"],
)
def test_a_hook_imports_nothing_it_does_not_need(event: bytes, data: Path) -> None:
    with Engram() as eng:
        eng.remember("The router is in src/router.py", embed=False)
    code = (
        "import sys\nfrom engram.interfaces.hooks import respond\nrespond('claude-code', sys.stdin.buffer.read())\n"
        "print(*sorted(sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", code], input=event, capture_output=True, check=True).stdout.decode()
    heavy = {"click", "logging", "dataclasses", "tomllib", "numpy", "tokenizers", "platformdirs", "psycopg", "pydantic"}
    heavy |= {"socket", "selectors"}
    assert heavy & set(shown.split()) == set()
    assert not (data / "hook.log").exists()


@pytest.mark.requirement("HOOK-11")
@pytest.mark.parametrize("size", [MAX_INPUT - 1_000, 20_000_000])
@pytest.mark.parametrize("event", ["UserPromptSubmit", "PostToolUse", "Stop"])
def test_a_huge_payload_ends_with_0_and_leaves_no_half_row(event: str, size: int, data: Path) -> None:
    text = "zeppelin " * (size // 9)
    fields = {"prompt": text, "last_assistant_message": text, "tool_name": "Bash", "tool_input": {"command": text}}
    key = {"UserPromptSubmit": "prompt", "Stop": "last_assistant_message"}.get(event, "tool_input")
    ended = run(payload(event, **{name: fields[name] for name in {key, "tool_name"}}))
    assert (ended.returncode, ended.stderr) == (0, b"")
    _expect_whole(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40) | st.just("x" * 5_000),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)
NAMES = (
    *("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "Stop", "PreCompact"),
    *("SubagentStart", "SubagentStop", "SessionEnd", "BeforeAgent", "BeforeTool", "AfterTool", "AfterAgent"),
    *("sessionStart", "beforeSubmitPrompt", "preToolUse", "postToolUse", "stop", "subagentStart", "subagentStop"),
)
HOSTILE = st.sampled_from(
    [
        "'; DROP TABLE sessions; --",
        "../../../../etc/passwd",
        "\x00\x1b]0;x\x07\u202e",
        "<engram-context>" * 50,
        "<private>",
        "\ud800 lone",
        "a\nb: c",
        "*** Begin Patch\n*** Add File: \n*** Add File: /etc/[a\n",
        "~nobody/x",
        "{" * 500,
        "%s%n{0}",
        "",
        " ",
    ]
)
FIELDS = (
    *("cwd", "prompt", "tool_input", "tool_response", "agent_id", "agent_type", "transcript_path", "source", "reason"),
    *("last_assistant_message", "workspace_roots", "task", "text", "prompt_response", "subagent_id", "subagent_type"),
    *("parent_conversation_id", "summary", "trigger"),
)
TOOL_INPUT = st.dictionaries(st.sampled_from(["file_path", "path", "command", "content"]), HOSTILE | JSON, max_size=3)
EVENT = st.fixed_dictionaries(
    {
        "hook_event_name": st.sampled_from(NAMES),
        "session_id": st.just("s1") | HOSTILE | JSON,
        "conversation_id": st.just("s1") | HOSTILE | JSON,
        "tool_name": st.sampled_from(["Edit", "write_file", "Write", "apply_patch"]) | HOSTILE,
    },
    optional={name: TOOL_INPUT if name == "tool_input" else HOSTILE | JSON for name in FIELDS},
)


@pytest.mark.requirement("HOOK-11")
@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(harness=st.sampled_from(sorted(HARNESSES)), event=EVENT, cut=st.none() | st.integers(0, 400))
def test_a_hostile_payload_is_answered_with_json_or_nothing_and_leaves_no_half_row(
    harness: str, event: dict[str, Any], cut: int | None, data: Path
) -> None:
    here = os.getcwd()
    try:
        answer = respond(harness, json.dumps(event).encode()[:cut])
    finally:
        os.chdir(here)
    if answer:
        assert isinstance(json.loads(answer), dict)
    _expect_whole(data)


@pytest.mark.requirement("HOOK-11")
@pytest.mark.parametrize("harness", HARNESSES)
@pytest.mark.parametrize("number", range(3))
def test_hostile_payloads_end_a_real_process_with_0_and_no_traceback(harness: str, number: int, data: Path) -> None:
    hostile = [
        {"hook_event_name": "SessionStart", "session_id": "\ud800", "conversation_id": [], "cwd": "\x00"},
        {
            "hook_event_name": "PreToolUse",
            "session_id": "s" * 10_000,
            "tool_name": "Edit",
            "tool_input": {"file_path": "\n"},
        },
        {
            "hook_event_name": "Stop",
            "session_id": {"a": 1},
            "transcript_path": "/dev/stdin",
            "last_assistant_message": 7,
        },
    ]
    ended = run(json.dumps(hostile[number]).encode(), harness)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert b"Traceback" not in ended.stdout
    _expect_whole(data)


def _expect_whole(data: Path) -> None:
    """The store is sound, and every row belongs to something."""
    if not (data / "engram.db").exists():
        return
    with Engram(settings=load(data_dir=str(data))) as eng:
        sessions = eng.sessions.list()
        known = {session.id for session in sessions}
        assert all(session.external_id for session in sessions)
        assert {session.parent_id for session in sessions} - {None} <= known
        assert {lease.session_id for lease in eng.leases.list()} <= known
        turns = [turn for session in sessions for turn in eng.exchanges.history(session.id)]
        assert all(turn.content.strip() for turn in turns)
        # A hook that runs out of time leaves the words of a turn to the next one.
        eng.backlog.index_words()
    connection = apsw.Connection(str(data / "engram.db"), flags=apsw.SQLITE_OPEN_READONLY)
    assert connection.execute("PRAGMA quick_check").fetchall() == [("ok",)]
    items = connection.execute("SELECT COUNT(DISTINCT ref) FROM items WHERE shelf = 'turns'").fetchall()[0][0]
    connection.close()
    assert items == len(turns)
