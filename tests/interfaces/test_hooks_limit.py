"""The limit of a hook holds whatever it is doing, and what it was told before that is stored."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engram import Engram
from engram.coordination.messages import PATIENCE
from engram.harness_payloads import LONGEST
from engram.interfaces.hooks import MAX_INPUT
from tests.conftest import ShiftedClock

PROGRAM = os.path.join(sysconfig.get_path("scripts"), "engram-hook")
#: Seconds; far more than the limit, for a machine that is busy, and far less than what a hook waits for here.
AGES = 30

#: A prelude with longer limits, so that on a busy machine, too, each mechanism has its turn before the next.
PATIENT = "import engram.interfaces.hooks as hooks; hooks.LIMIT, hooks.THREAD_LIMIT, hooks.HARD_LIMIT = 2, 4, 8\n"

#: Never end by themselves. All are calls into C from the main thread.
ENDLESS = {
    # The first checks for signals and keeps Python's lock, the second gives the lock up, the third does neither.
    "a regular expression": "import re; re.match('(a+)+$', 'a' * 60 + 'b')",
    "a query": "import apsw; apsw.Connection('').execute("
    "'WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n) SELECT MAX(i) FROM n').fetchall()",
    "a call that keeps Python's lock": "import collections, itertools; "
    "collections.deque(itertools.repeat(None), maxlen=0)",
}


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the store and the log; the current folder is another one."""
    folder = tmp_path / "data"
    monkeypatch.setenv("ENGRAM_DATA_DIR", str(folder))
    monkeypatch.chdir(tmp_path)
    Engram().close()
    return folder


@pytest.fixture
def full_pipe() -> Iterator[int]:
    """The end to write to of a pipe that is full and that nobody reads."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, bytes(1 << 16))
    except BlockingIOError:
        os.set_blocking(writing, True)
    yield writing
    os.close(reading)
    os.close(writing)


def payload(event: str, **fields: Any) -> bytes:
    return json.dumps({"session_id": "s1", "hook_event_name": event, **fields}).encode()


def prompt(text: str) -> bytes:
    return payload("UserPromptSubmit", prompt=text)


def begin(given: bytes, prelude: str | None = None, **popen: Any) -> subprocess.Popen[bytes]:
    """A hook with its payload; `prelude` is run in it first, and replaces parts of it."""
    hook = f"{prelude}\nimport sys; sys.argv[1:] = ['claude-code']\nfrom engram.interfaces.hooks import main; main()"
    command = [PROGRAM, "claude-code"] if prelude is None else [sys.executable, "-c", hook]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, **{**pipes, **popen})
    assert process.stdin is not None
    process.stdin.write(given)
    process.stdin.close()
    process.stdin = None
    return process


def run(given: bytes, prelude: str | None = None, **popen: Any) -> tuple[int, bytes, bytes]:
    process = begin(given, prelude, **popen)
    try:
        out, err = process.communicate(timeout=AGES)
    finally:
        process.kill()
        process.wait()
    return process.returncode, out, err


def in_place_of(function: str, code: str) -> str:
    """A prelude that puts some code in place of a function of Engram's, or of a method of a class."""
    module, _, name = function.rpartition(".")
    *_, owner = module.split(".")
    imported = module.removesuffix(f".{owner}") if owner[0].isupper() else module
    return f"import {imported}\ndef instead(*given, **_):\n    {code}\n{module}.{name} = instead"


def said() -> list[str]:
    with Engram() as eng:
        return [turn.content for each in eng.sessions.list() for turn in eng.exchanges.history(each.id)]


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + AGES
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.requirement("HOOK-9")
@pytest.mark.parametrize("code", ENDLESS.values(), ids=ENDLESS)
def test_a_call_into_c_that_never_returns_is_ended(code: str, data: Path) -> None:
    # Only for the prompt: the log's lines go through the same function.
    hanging = f"return given[0] if 'hello' not in given[0] else exec({code!r})"
    status, out, err = run(prompt("hello"), PATIENT + in_place_of("engram.redact.redact", hanging))
    assert out == b""
    if "deque" in code:
        # Nothing of Python's own can run. The harness is told; every one goes on after this status.
        assert status == 1
        assert b"Timeout" in err
        assert b"hello" not in err
    else:
        assert (status, err) == (0, b"")
        assert (data / "hook.log").read_text().count(" claude-code UserPromptSubmit: took longer than") == 1


@pytest.mark.requirement("HOOK-9")
def test_output_that_nobody_reads_does_not_hold_the_hook_up(data: Path, full_pipe: int) -> None:
    status, _, err = run(payload("SessionStart"), PATIENT, stdout=full_pipe)
    assert (status, err) == (0, b"")
    assert "took longer than" in (data / "hook.log").read_text()


@pytest.mark.requirement("HOOK-13")
@pytest.mark.parametrize("code", ENDLESS.values(), ids=ENDLESS)
@pytest.mark.parametrize(
    "later",
    [
        "engram.memory.recall.Recall.recall",
        "engram.memory.analyser.terms",
        "engram.coordination.sessions.Sessions.heartbeat",
    ],
)
def test_whatever_comes_after_the_text_may_hang_and_the_text_is_there(later: str, code: str, data: Path) -> None:
    run(prompt("Remember the zeppelin"), in_place_of(later, code))
    assert said() == ["Remember the zeppelin"]


@pytest.mark.requirement("HOOK-13")
@pytest.mark.parametrize("event", ["UserPromptSubmit", "Stop", "SubagentStop"])
def test_a_hook_that_is_killed_while_it_indexes_leaves_the_text_and_a_later_one_finds_its_words(
    event: str, data: Path
) -> None:
    text = "The zeppelin is in the hangar"
    fields = {"prompt": text} if event == "UserPromptSubmit" else {"last_assistant_message": text}
    agent = {"agent_id": "a1", "agent_type": "Explore"} if event == "SubagentStop" else {}
    if agent:
        run(payload("SubagentStart", **agent))
    killing = in_place_of("engram.memory.word_index.add", "import os; os.kill(os.getpid(), 9)")
    status, _, _ = run(payload(event, **fields, **agent), killing)
    assert status == -signal.SIGKILL
    assert said() == [text]
    with Engram() as eng:
        assert eng.recall("zeppelin hangar", mode="words") == []
    run(payload("PostToolUse", session_id="s2", tool_name="Bash", tool_input={"command": "ls"}))
    with Engram() as eng:
        assert [hit.text for hit in eng.recall("zeppelin hangar", mode="words")] == [text]


@pytest.mark.requirement("HOOK-13")
def test_a_hook_that_is_killed_any_time_after_its_first_commit_has_stored_the_text(data: Path) -> None:
    flush = "engram.storage.sqlite.SqliteEngine._write_changes"
    killed = True
    for commit in range(1, 20):
        # Before the commit of that number.
        killing = f"import os, {flush.rsplit('.', 2)[0]}\nflush, left = {flush}, list(range({commit}))\n" + in_place_of(
            flush, "left.pop(); left or os.kill(os.getpid(), 9); return flush(*given)"
        )
        external = f"killed-{commit}"
        status, _, _ = run(payload("UserPromptSubmit", session_id=external, prompt="Where is it?"), killing)
        killed = status == -signal.SIGKILL
        with Engram() as eng:
            session = eng.sessions.find(external)
            stored = [] if session is None else [turn.content for turn in eng.exchanges.history(session.id)]
        assert stored == ([] if commit == 1 else ["Where is it?"])
        if not killed:
            break
    assert not killed
    assert commit > 3


@pytest.mark.requirement("HOOK-13")
def test_sixty_thousand_chinese_characters_are_stored_and_found(data: Path) -> None:
    text = "".join(chr(0x4E00 + place * 7_919 % 20_000) for place in range(60_000))
    status, _, err = run(prompt(text))
    assert (status, err) == (0, b"")
    assert said() == [text]
    with Engram() as eng:
        eng.backlog.index_words()
        hits = [eng.recall(text[place : place + 12], 1, mode="words") for place in (0, 30_000, 59_900)]
    assert all(hits)


@pytest.mark.requirement("HOOK-13")
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a" * LONGEST, id="one word"),
        pytest.param("a_B" * (LONGEST // 3), id="one identifier"),
        pytest.param("/x" * (LONGEST // 2), id="one path"),
        pytest.param("漢" * LONGEST, id="one character over and over"),
        pytest.param("".join(chr(0x4E00 + place * 7_919 % 20_000) for place in range(LONGEST)), id="no word twice"),
    ],
)
def test_the_longest_texts_are_stored_whole(text: str, data: Path) -> None:
    # With as much around them as a payload may have.
    filler = "x" * (MAX_INPUT - len(prompt(text)) - 1_000)
    status, _, err = run(payload("UserPromptSubmit", prompt=text, filler=filler))
    assert (status, err) == (0, b"")
    assert said() == [text]


@pytest.mark.requirement("HOOK-13")
def test_the_last_message_of_a_huge_transcript_is_stored(data: Path) -> None:
    transcript = data / "transcript.jsonl"
    other = json.dumps({"type": "assistant", "message": {"content": [{"type": "tool_use", "input": "x" * 900}]}})
    last = json.dumps({"type": "assistant", "message": {"content": [{"type": "text", "text": "The zeppelin landed"}]}})
    with transcript.open("w") as file:
        for _ in range(40_000):
            file.write(other + "\n")
        file.write(last + "\n" + (other + "\n") * 200)
    assert run(payload("Stop", transcript_path=str(transcript)))[0] == 0
    assert said() == ["The zeppelin landed"]


@pytest.mark.requirement("HOOK-13")
def test_the_answer_comes_before_the_words_are_indexed(data: Path) -> None:
    with Engram() as eng:
        eng.remember("Deploys never happen on Fridays", embed=False)
    killing = in_place_of("engram.memory.word_index.add", "import os; os.kill(os.getpid(), 9)")
    _, out, _ = run(prompt("When do deploys happen?"), killing)
    assert b"Deploys never happen on Fridays" in out
    assert json.loads(out)


@pytest.mark.requirement("HOOK-13")
def test_a_store_that_is_locked_while_words_are_indexed_loses_nothing(data: Path) -> None:
    locking = in_place_of(
        "engram.memory.word_index.add",
        "from engram.errors import StoreBusy; raise StoreBusy('Another process is writing.')",
    )
    status, _, err = run(prompt("The zeppelin landed"), locking)
    assert (status, err) == (0, b"")
    assert said() == ["The zeppelin landed"]
    assert not (data / "hook.failures").exists(), "what can wait is no failure"


def letter(text: str = "May I rename check()?") -> str:
    """A message to the session of the hooks, which is made for it; its id."""
    run(payload("SessionStart"))
    with Engram() as eng:
        session = eng.sessions.find("s1")
        assert session is not None
        eng.messages.send(None, session.id, text)
    return session.id


def after_tool(**popen: Any) -> str:
    return run(payload("PostToolUse", tool_name="Bash", tool_input={"command": "ls"}), **popen)[1].decode()


@pytest.mark.requirement("MESSAGE-6", "HOOK-4")
def test_a_message_for_a_hook_whose_pipe_was_closed_comes_with_the_next_event_once(data: Path) -> None:
    letter()
    reading, writing = os.pipe()
    os.close(reading)
    run(payload("PostToolUse", tool_name="Bash", tool_input={"command": "ls"}), stdout=writing)
    os.close(writing)
    assert "May I rename check()?" in after_tool()
    assert after_tool() == ""


@pytest.mark.requirement("MESSAGE-6", "HOOK-4")
def test_a_message_for_a_hook_without_standard_output_comes_with_the_next_event(data: Path) -> None:
    letter()
    closing = "import os, sys; os.close(1); os.execv(sys.argv[1], sys.argv[1:])"
    process = subprocess.Popen([sys.executable, "-c", closing, PROGRAM, "claude-code"], stdin=subprocess.PIPE)
    process.communicate(payload("PostToolUse", tool_name="Bash", tool_input={"command": "ls"}), timeout=AGES)
    assert process.returncode == 0
    assert "May I rename check()?" in after_tool()


@pytest.mark.requirement("MESSAGE-6", "HOOK-4")
def test_a_message_for_a_hook_that_was_killed_before_it_was_shown_is_due_again(data: Path, full_pipe: int) -> None:
    session = letter()
    with Engram() as eng:
        hook = begin(payload("PostToolUse", tool_name="Bash", tool_input={"command": "ls"}), stdout=full_pipe)
        wait_until(lambda: eng.messages.inbox(session, peek=True) == [])
        hook.kill()
        hook.communicate()
    clock = ShiftedClock()
    clock.advance(PATIENCE + 1)
    with Engram(clock=clock) as later:
        assert [(each.text, each.again) for each in later.messages.inbox(session)] == [("May I rename check()?", True)]
        assert later.messages.inbox(session) == []


@pytest.mark.requirement("MESSAGE-6", "HOOK-4")
def test_a_message_that_was_shown_is_read(data: Path) -> None:
    said = payload("PostToolUse", tool_name="run_shell_command", tool_input={"command": "ls"})
    with Engram() as eng:
        other = eng.sessions.register("codex", "", external_id="s1")
        eng.messages.send(None, other, "May I rename check()?")
        process = subprocess.run([PROGRAM, "codex"], input=said, capture_output=True, timeout=AGES)
        assert b"- from a person: May I rename check()?" in process.stdout
    clock = ShiftedClock()
    clock.advance(PATIENCE + 1)
    with Engram(clock=clock) as later:
        assert later.messages.inbox(other, peek=True) == []
