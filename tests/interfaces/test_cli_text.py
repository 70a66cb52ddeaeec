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
