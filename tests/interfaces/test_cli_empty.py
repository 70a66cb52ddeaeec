"""What a command says about an empty workspace."""

from __future__ import annotations

import json

import pytest

from engram.interfaces.cli import cli, run
from engram.interfaces.cli.empty import FILLED_BY
from tests.interfaces.conftest import Engram

from .test_cli_reading import ARGUMENTS as READING_ARGUMENTS

ARGUMENTS = {
    **READING_ARGUMENTS,
    "import": ["claude-code"],
    "message inbox": ["person"],
    "message list": [],
}
empty = pytest.mark.requirement("CLI-40")


@empty
@pytest.mark.parametrize("name", sorted(FILLED_BY))
def test_in_an_empty_store_a_reading_command_says_what_would_fill_it_but_not_in_json(
    name: str, engram: Engram, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    line = [*name.split(), *ARGUMENTS.get(name, [])]
    told = engram(*line)
    (hint,) = (each.strip() for each in told.err.splitlines() if "is empty" in each)
    assert hint.startswith("Workspace default is empty. ") and "engram init" in hint
    assert FILLED_BY[name] in hint and len(hint) < 220
    assert "is empty" not in told.out
    silent = engram(*line, "--json")
    assert "is empty" not in silent.out + silent.err
    json.loads(silent.out)


@empty
def test_once_something_is_stored_nothing_more_is_said(engram: Engram) -> None:
    engram("remember", "Deploys never happen on Fridays")
    for line in (["sitrep"], ["lock", "list"], ["recall", "a banana smoothie"], ["session", "list"]):
        assert engram(*line).err == ""


@empty
def test_a_pass_that_found_nothing_fills_nothing(engram: Engram) -> None:
    engram("dream", "--force")
    assert "Workspace default is empty." in engram("session", "list").err
    engram("message", "send", "person", "Hello")
    assert engram("session", "list").err == ""


@empty
def test_every_hint_belongs_to_a_command() -> None:
    for name in FILLED_BY:
        command = cli
        for word in name.split():
            command = command.get_command(cli.make_context("engram", ["sitrep"]), word)  # type: ignore[assignment]
            assert command is not None, name


@empty
def test_without_a_store_the_hint_is_said_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["session", "list"]) == 0
    assert "Workspace default is empty." in capsys.readouterr().err


@empty
def test_a_workspace_that_does_not_exist_is_said_once(engram: Engram) -> None:
    refused = engram("--workspace", "nosuch", "brief")
    assert refused.code == 3 and "There is no workspace 'nosuch'." in refused.err
    assert "is empty. The sessions" not in refused.err
