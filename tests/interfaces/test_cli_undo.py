"""`engram dream undo`, for people and for agents, on both engines."""

from __future__ import annotations

import pytest

from engram import Engram as Library
from tests._passes import dream, talk

from .conftest import Engram


@pytest.fixture
def run(store_url: str) -> int:
    """A pass that changed something."""
    with Library(store_url) as eng:
        talk(eng)
        return dream(eng).id or 0


@pytest.mark.requirement("UNDO-9")
def test_the_newest_pass_is_undone_and_the_undo_as_well(engram: Engram, run: int) -> None:
    undone = engram("dream", "undo")
    assert undone.code == 0
    assert f"pass {run} was undone" in undone.out and "changed nothing" not in undone.out
    assert "removed" in undone.out and "block profile" in undone.out
    # The column is as wide as the longest label that is shown.
    assert undone.out.startswith("undo       ") and "\nworkspace  " in undone.out
    assert engram("block", "show", "profile").code == 3
    assert f"undone by undo {run + 1}" in engram("dream", "list").out
    assert f"pass {run} was undone" in engram("dream", "show", str(run + 1)).out

    redone = engram("dream", "undo", str(run + 1), "--json")
    assert (redone.code, redone.json["run"]) == (0, run + 1)
    assert "block profile" in redone.json["restored"]
    assert engram("block", "show", "profile").code == 0
    assert engram("dream", "show", str(run + 1), "--json").json["undone_by"] == run + 2


@pytest.mark.requirement("UNDO-9")
def test_an_undo_counts_what_it_changed_and_names_the_command_that_takes_it_back(engram: Engram, run: int) -> None:
    undone = engram("dream", "undo").out
    removed = next(line for line in undone.splitlines() if line.startswith("removed"))
    assert "block profile" in removed and " memories" in removed and "memory " not in removed
    assert f"engram dream undo {run + 1}" in undone.splitlines()[-1]
    shown = engram("dream", "show", str(run + 1)).out
    assert "memory " in shown and f"engram dream undo {run + 1}" in shown
    engram("dream", "undo", str(run + 1))
    assert f"engram dream undo {run + 1}" not in engram("dream", "show", str(run + 1)).out


@pytest.mark.requirement("UNDO-9")
def test_an_undo_says_which_newer_pass_changed_nothing(engram: Engram, run: int) -> None:
    assert "nothing to write" in engram("dream", "--stage", "eras").out
    assert engram("dream", "undo").out.startswith(f"Pass {run + 1} changed nothing, so pass {run} was undone.\nundo ")


@pytest.mark.requirement("UNDO-9", "UNDO-3")
def test_what_stands_in_the_way_is_listed_with_exit_code_4(engram: Engram, run: int) -> None:
    engram("block", "append", "profile", "Something of my own.")
    refused = engram("dream", "undo")
    assert refused.code == 4
    assert "block profile: its text was edited" in refused.err and "Nothing was undone" in refused.err
    told = engram("dream", "undo", str(run), "--json")
    assert told.code == 4
    error = told.json["error"]
    assert error["code"] == "undo_blocked"
    assert error["details"]["run"] == run
    assert [each["why"] for each in error["details"]["obstacles"]] == ["its text was edited"]


@pytest.mark.requirement("UNDO-9")
def test_a_run_that_is_not_there_is_not_found(engram: Engram, run: int) -> None:
    assert engram("dream", "undo", "99").code == 3
    assert engram("dream", "undo").code == 0
    assert engram("dream", "undo").code == 3
    assert engram("dream", "undo", "0").code == 2
