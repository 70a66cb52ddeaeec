"""`engram dream review` as a person with a keyboard, a script and an agent use it."""

from __future__ import annotations

import os
import pty
import shlex
import stat
import subprocess
import termios
from pathlib import Path
from typing import Any

import pytest

from engram import Engram as Store
from engram.config import load

from .._logical import logical
from .conftest import Engram, program

WORDINGS = ("Invoices go out with the first train.", "Invoices go out with the first train")
PROMPT = "[q]uit"


def fill(url: str) -> Store:
    """A store with three proposals: two to remember, one to merge."""
    eng = Store(settings=load(url=url, dream_min_age=0))
    session = eng.sessions.register("import", "talk")
    for text in ("We decided to paint the house.", "We decided to sell the boat."):
        eng.exchanges.add(session, "user", text, trust="import")
    for text, kind in zip(WORDINGS, ("note", "fact"), strict=True):
        eng.remember(text, kind=kind)
    eng.dream(force=True)
    return eng


def states(eng: Store) -> list[str]:
    return [proposal.state for proposal in eng.proposals.list(None)]


def review_with_keys(url: str, keys: str, **environment: str) -> str:
    """Press the keys on a terminal, each when it is asked for; everything the screen showed."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [program(), "--store", url, "dream", "review"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**os.environ, "TERM": "xterm", "NO_COLOR": "1", **environment},
        close_fds=True,
    )
    os.close(slave)
    shown, asked = "", 0
    while True:
        try:
            shown += os.read(master, 65_536).decode()
        except OSError:  # Linux says so when the other side has closed
            break
        if keys and shown.count(PROMPT) > asked:
            asked = shown.count(PROMPT)
            # A key that comes before it is waited for is thrown away by the terminal.
            while process.poll() is None and termios.tcgetattr(master)[3] & termios.ICANON:
                os.sched_yield()
            os.write(master, keys[0].encode())
            keys = keys[1:]
    os.close(master)
    assert process.wait(timeout=30) == 0
    return shown.replace("\r\n", "\n")


@pytest.mark.requirement("PROPOSAL-7")
def test_keys_accept_reject_and_skip(store_url: str) -> None:
    with fill(store_url) as eng:
        shown = review_with_keys(store_url, "ars")
        assert states(eng) == ["applied", "rejected", "pending"]
        assert "+We decided to paint the house." in shown
        assert "1 of 3" in shown
        assert eng.recall("paint the house", what=("memories",))


@pytest.mark.requirement("PROPOSAL-7")
def test_q_ends_the_review_and_other_keys_are_asked_again(store_url: str) -> None:
    with fill(store_url) as eng:
        shown = review_with_keys(store_url, "xrq")
        assert states(eng) == ["rejected", "pending", "pending"]
        assert "3 of 3" not in shown


@pytest.mark.requirement("PROPOSAL-7")
def test_e_opens_the_editor_and_applies_what_was_written(store_url: str, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\necho "The house is painted blue." > "$1"\n')
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    with fill(store_url) as eng:
        review_with_keys(store_url, "eq", EDITOR=str(editor), VISUAL=str(editor))
        (first, *_) = eng.proposals.list(None)
        assert (first.state, first.content) == ("applied", "The house is painted blue.")


@pytest.mark.requirement("PROPOSAL-7")
def test_a_proposal_that_changed_while_it_was_edited_is_not_decided_and_the_text_is_shown_again(
    store_url: str, tmp_path: Path
) -> None:
    other = shlex.join([program(), "--store", store_url, "dream", "review", "--edit", "1", "The house is painted red."])
    editor = tmp_path / "editor"
    editor.write_text(f'#!/bin/sh\n{other} >/dev/null\necho "The house is painted blue." > "$1"\n')
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    with fill(store_url) as eng:
        shown = review_with_keys(store_url, "eq", EDITOR=str(editor), VISUAL=str(editor))
        (first, *_) = eng.proposals.list(None)
        assert (first.state, first.content) == ("edited", "The house is painted red.")
        assert "Your text was not stored:\n\nThe house is painted blue." in shown


@pytest.mark.requirement("PROPOSAL-7")
def test_json_lists_them_for_agents(engram: Engram, store_url: str) -> None:
    with fill(store_url):
        found: list[dict[str, Any]] = engram("dream", "review", "--json").json
        assert [(each["id"], each["what"], each["state"]) for each in found] == [
            *((1, "remember", "pending"), (2, "remember", "pending"), (3, "merge", "pending")),
        ]
        assert {"why", "confidence", "sources", "targets", "diff", "content", "stale"} <= found[0].keys()


@pytest.mark.requirement("PROPOSAL-7")
def test_they_are_decided_by_number(engram: Engram, store_url: str) -> None:
    with fill(store_url) as eng:
        assert engram("dream", "review", "--accept", "1").out == "Proposal 1 is accepted.\n"
        assert engram("dream", "review", "--edit", "1", "The house is blue.").out == "Proposal 1 is edited.\n"
        assert engram("dream", "review", "--reject", "2").code == 0
        assert engram("dream", "review", "--apply", "1", "--json").json[0]["state"] == "applied"
        assert states(eng) == ["applied", "rejected", "pending"]
        assert engram("dream", "review", "--apply", "2").code == 4
        assert engram("dream", "review", "--apply", "9").code == 3
        assert "proposal  3, pending" in engram("dream", "review").out
        assert "proposal  1, applied" in engram("dream", "review", "--state", "all").out


@pytest.mark.requirement("PROPOSAL-8")
def test_the_command_that_is_printed_undoes_what_was_applied(engram: Engram, store_url: str) -> None:
    with fill(store_url) as eng:
        before = logical(eng)
        for id in ("1", "3"):
            shown = engram("dream", "review", "--apply", id).out
            assert logical(eng) != before
            sentence, _, advice = shown.strip().partition(" To undo that: ")
            assert sentence == f"Proposal {id} is applied."
            program, *arguments = shlex.split(advice)
            assert program == "engram"
            assert f"proposal {id} was applied" in engram("dream", "show", arguments[2]).out
            assert engram(*arguments).code == 0
            assert logical(eng) == before
        assert states(eng) == ["pending", "pending", "pending"]


@pytest.mark.requirement("PROPOSAL-7")
def test_without_proposals_it_says_so(engram: Engram) -> None:
    assert engram("dream", "review").out == "No proposal is waiting for a decision.\n"
    assert engram("dream", "review", "--json").json == []


@pytest.mark.requirement("ALARM-3")
def test_status_says_what_waits_and_what_the_alarm_was(
    engram: Engram, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engram.dreaming.recall_check import rollback

    with fill(store_url) as eng:
        assert "3 proposals" in engram("dream", "status").out
        assert "ALARM" not in engram("dream", "status").out
        monkeypatch.setattr(rollback, "check_recall", lambda context: context.alarms.append("memory 7 was lost"))
        eng.dream(force=True)
        assert "memory 7 was lost" in engram("dream", "status").out
        assert engram("dream", "status", "--json").json["last"]["alarms"] == ["memory 7 was lost"]
        assert "1 alarm; see `engram dream show 2`" in engram("sitrep").out
