"""An import of what was not read before: the newest files first, and no file twice."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engram import Engram
from engram.importers.importing import look, run
from tests.importers.test_claude_code import Script

unread = pytest.mark.requirement("IMPORT-9")


def transcript(folder: Path, session: str, *, at: int, name: str | None = None, text: str = "Port the router") -> Path:
    script = Script(session, agentId=name, isSidechain=True) if name else Script(session)
    # Two sessions with the same ids would be copies of each other.
    script.add("user", text, uuid=f"{session}-{name}-1")
    said = f"Done with {session}: the router has its port."
    script.add("assistant", [{"type": "text", "text": said}], uuid=f"{session}-{name}-2")
    path = folder / session / "subagents" / f"agent-{name}.jsonl" if name else folder / f"{session}.jsonl"
    script.write(path)
    os.utime(path, (at, at))
    return path


@unread
def test_the_newest_files_come_first_and_an_import_can_be_stopped_between_files(eng: Engram, tmp_path: Path) -> None:
    for number in range(4):
        transcript(tmp_path, f"s{number}", at=1_772_000_000 + number)
    answers = iter((False, False, True))
    done = run("claude-code", [tmp_path], eng, unread=True, stop=lambda: next(answers))
    assert (done.files, done.files_left, done.sessions) == (2, 2, 2)
    assert {each.external_id for each in eng.sessions.list()} == {"s3", "s2"}
    rest = run("claude-code", [tmp_path], eng, unread=True)
    assert (rest.files, rest.files_known, rest.files_left, rest.sessions) == (2, 2, 0, 2)


@unread
def test_a_file_that_has_changed_is_read_again(eng: Engram, tmp_path: Path) -> None:
    transcript(tmp_path, "s1", at=1_772_000_000)
    assert look("claude-code", [tmp_path], eng).new == 1
    run("claude-code", [tmp_path], eng, unread=True)
    waiting = look("claude-code", [tmp_path], eng)
    assert (waiting.files, waiting.new, waiting.new_bytes) == (1, 0, 0)
    assert waiting.latest_at == "2026-02-25T06:13:20.000000Z"
    script = Script("s1")
    for number, text in enumerate(("Port the router", "And the proxy", "Then the docs")):
        script.add("user", text, uuid=f"s1-{number}")
    script.write(tmp_path / "s1.jsonl")
    assert look("claude-code", [tmp_path], eng).new == 1
    assert run("claude-code", [tmp_path], eng, unread=True).files == 1


@unread
def test_a_dry_run_or_an_import_with_a_limit_does_not_count_as_reading(eng: Engram, tmp_path: Path) -> None:
    transcript(tmp_path, "s1", at=1_772_000_000)
    run("claude-code", [tmp_path], eng, unread=True, dry_run=True)
    run("claude-code", [tmp_path], eng, unread=True, since="2027-01-01T00:00:00Z")
    assert look("claude-code", [tmp_path], eng).new == 1


@unread
def test_a_file_whose_session_is_still_at_work_is_read_again_later(eng: Engram, tmp_path: Path) -> None:
    transcript(tmp_path, "s1", at=1_772_000_000)
    id = eng.sessions.register("claude-code", "Porting", external_id="s1")
    assert run("claude-code", [tmp_path], eng, unread=True).turns == 0
    eng.sessions.complete(id, "done")
    assert look("claude-code", [tmp_path], eng).new == 1


@unread
def test_a_subagent_comes_after_its_session_although_its_file_is_newer(eng: Engram, tmp_path: Path) -> None:
    transcript(tmp_path, "s1", at=1_772_000_000)
    transcript(tmp_path, "s1", at=1_772_000_900, name="a1", text="Look for the port")
    run("claude-code", [tmp_path], eng, unread=True)
    parent = eng.sessions.find("s1", "claude-code")
    assert parent is not None
    assert [each.parent_id for each in eng.sessions.list() if each.id != parent.id] == [parent.id]


@unread
def test_what_was_forgotten_stays_forgotten_and_its_file_is_not_read_again(eng: Engram, tmp_path: Path) -> None:
    transcript(tmp_path, "s1", at=1_772_000_000)
    run("claude-code", [tmp_path], eng, unread=True)
    (session,) = eng.sessions.list()
    eng.forget(session=session.id)
    assert run("claude-code", [tmp_path], eng, unread=True).files_known == 1
    assert eng.sessions.list() == []
