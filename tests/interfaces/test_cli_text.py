"""Where a command takes text from, and what its errors and counts say."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from .conftest import Engram


@pytest.mark.requirement("CLI-31")
@pytest.mark.parametrize(
    ("arguments", "instead"),
    [
        (("world", "edit"), "`engram world set -` reads the text from standard input"),
        (("block", "edit", "notes"), "`engram block set notes -` reads the text from standard input"),
        (("world", "set"), "Give TEXT, or - to read it from standard input"),
        (("memory", "edit", "1"), "Give TEXT, or - to read it from standard input"),
        (("remember",), "Give TEXT, or - to read it from standard input"),
    ],
)
def test_without_a_terminal_no_editor_is_opened(
    engram: Engram, arguments: tuple[str, ...], instead: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EDITOR", "touch opened")
    engram("remember", "The house is red.", "--no-embed")
    engram("block", "create", "notes")
    refused = engram(*arguments)
    assert refused.code == 2
    assert f"The editor needs a terminal. {instead}" in refused.err
    assert list(tmp_path.glob("opened")) == []


@pytest.mark.requirement("CLI-31")
@pytest.mark.parametrize(
    ("given", "kept"), [("one\n", "one"), ("one\ntwo\n\n", "one\ntwo\n"), ("one\r\n", "one"), ("one", "one")]
)
def test_text_from_standard_input_loses_its_final_newline(
    engram: Engram, given: str, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(given))
    assert engram("world", "set", "-", "--json").json["content"] == kept


@pytest.mark.requirement("CLI-33")
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("say", "s1", "user", "x", "--at", "soon"), "--at is 'soon'; write a time"),
        (("block", "set", "notes", "x", "--expect", "7"), "Block 'notes' is at version 1, but version 7 was expected"),
        (("world", "set", "x", "--expect", "1"), "Block 'world' is unset (version 0), but version 1 was expected"),
        (("forget",), "Give exactly one of --exchange, --memory, --session, --block, --before, --source."),
        (("dream", "loop", "--every", "59s"), "Invalid value for '--every': '59s' is less than 1 minute."),
        (("lock", "claim", "a.py", "--wait", "5s"), "--wait needs --exclusive"),
        (("memory", "link", "1", "1"), "Memory 1 cannot be linked to itself"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_errors_name_options_and_things_not_parameters(engram: Engram, arguments: tuple[str, ...], told: str) -> None:
    engram("session", "start", "codex", "working", "--name", "s1")
    engram("remember", "The house is red.", "--no-embed")
    engram("block", "create", "notes")
    refused = engram(*arguments, session="s1")
    assert refused.code in (2, 4)
    assert told in " ".join(refused.err.split())
    for name in ("expected_version", "created_at", "dry_run", "max_tokens"):
        assert name not in refused.err


@pytest.mark.requirement("CLI-33")
def test_history_and_timeline_show_ids_that_forget_takes(engram: Engram) -> None:
    session = engram("session", "start", "codex", "working", "--json").json["id"]
    id = engram("say", session, "user", "I never deploy on Fridays.", "--no-embed", "--json").json["id"]
    assert f"exchange {id}  user: I never deploy on Fridays." in engram("history", session).out
    assert f"exchange {id}  {session}  user: I never deploy on Fridays." in engram("timeline").out
    assert engram("forget", "--exchange", str(id), "--yes").code == 0
    assert "exchange" not in engram("history", session).out


@pytest.mark.requirement("CLI-33")
def test_a_memory_is_shown_with_its_links_its_versions_and_what_superseded_it(engram: Engram) -> None:
    for text in ("We deploy on Fridays.", "Deploys need two people.", "The pager is loud."):
        engram("remember", text, "--key", text[:5], "--no-embed")
    engram("memory", "link", "1", "2", "--relation", "explains")
    engram("memory", "link", "3", "1")
    engram("memory", "edit", "1", "We deploy on Mondays.", "--reason", "new rule")
    engram("remember", "We deploy daily.", "--key", "We de", "--no-embed")
    shown = " ".join(engram("memory", "show", "1").out.split())
    assert "links → memory 2 (explains) ← memory 3 (related)" in shown
    assert shown.count("superseded by") == 1 and "superseded by memory 4" in shown
    assert "new rule We deploy on Mondays." in shown and "We deploy on Fridays." in shown


@pytest.mark.requirement("CLI-33", "BLOCK-6")
def test_the_history_of_a_block_begins_with_its_first_version(engram: Engram) -> None:
    engram("block", "create", "notes", "one")
    engram("block", "set", "notes", "two", "--reason", "counting")
    head, newest, oldest = engram("block", "history", "notes").out.splitlines()
    assert head.split() == ["version", "when", "reason", "text"]
    assert newest.startswith("2 ") and newest.endswith("counting  two")
    assert oldest.startswith("1 ") and oldest.endswith("one")
    versions = engram("block", "history", "notes", "--json").json
    assert [(each["version"], each["old"], each["new"]) for each in versions] == [(2, "one", "two"), (1, "", "one")]
    assert [each["version"] for each in engram("block", "history", "notes", "-n", "1", "--json").json] == [2]


@pytest.mark.requirement("CLI-33")
def test_settings_are_shown_with_a_unit_only_where_they_are_a_time(engram: Engram) -> None:
    values = {
        line.split()[0]: line.split()[1] for line in engram("config", "show").out.splitlines()[1:] if line[:1] > " "
    }
    assert values["dream_similarity"] == "0.92" and values["dream_archive_importance"] == "0.5"
    assert values["dream_pass_calls"] == "200"
    assert (values["stale_after"], values["busy_timeout"], values["dream_archive_after"]) == ("30m", "30s", "90d")
