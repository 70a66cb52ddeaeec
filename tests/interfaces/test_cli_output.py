"""Output that cannot be written ends a command with one line and an exit code, never with a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from engram import Engram

from .conftest import program

COMMANDS = (
    ("memory", "list"),
    ("memory", "list", "--json"),
    ("memory", "show", "99", "--json"),
    ("--help",),
    ("embed",),
)


@pytest.fixture
def store(sqlite_url: str) -> dict[str, str]:
    """The environment of a store whose memories fill more than a pipe holds."""
    with Engram(sqlite_url) as eng:
        for number in range(3):
            eng.remember(f"{number} {'word ' * 20_000}", embed=False)
    return {**os.environ, "ENGRAM_URL": sqlite_url, "ENGRAM_EMBEDDER": "none"}


@pytest.mark.requirement("CLI-32")
@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_full_or_closed_output_is_one_line_and_an_exit_code(
    arguments: tuple[str, ...], store: dict[str, str]
) -> None:
    for redirection, why in ((">/dev/full", "No space left on device"), (">&-", "it is closed")):
        line = f'"$0" "$@" {redirection}'
        ended = subprocess.run(
            ["sh", "-c", line, program(), *arguments], env=store, stderr=subprocess.PIPE, text=True, timeout=60
        )
        assert ended.returncode == 1
        last = [each for each in ended.stderr.splitlines() if each != "Embedding"]
        assert last == [f"Error: Standard output cannot be written: {why}."]


@pytest.mark.requirement("CLI-32")
@pytest.mark.parametrize("arguments", [("memory", "list", "--json"), ("--help",)], ids=" ".join)
def test_a_reader_that_has_seen_enough_ends_it_silently(arguments: tuple[str, ...], store: dict[str, str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run([program(), *arguments], env=store, stdout=writing, stderr=subprocess.PIPE, timeout=60)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (141, b"")


@pytest.mark.requirement("CLI-32")
def test_a_full_standard_error_is_an_exit_code(store: dict[str, str], tmp_path: Path) -> None:
    with open("/dev/full", "w") as full, open(tmp_path / "out", "w") as out:
        ended = subprocess.run([program(), "recall"], env=store, stdout=out, stderr=full, timeout=60)
    assert ended.returncode == 1


@pytest.mark.requirement("CLI-31", "CLI-32")
@pytest.mark.parametrize("arguments", [("remember", "-"), ("remember",), ("forget", "--memory", "1")], ids=" ".join)
def test_a_closed_standard_input_is_an_error_without_a_traceback(
    arguments: tuple[str, ...], store: dict[str, str]
) -> None:
    line = ["sh", "-c", '"$0" "$@" <&-', program(), *arguments]
    ended = subprocess.run(line, env=store, capture_output=True, text=True, timeout=60)
    assert ended.returncode in (1, 2) and "Traceback" not in ended.stderr
    with Engram(store["ENGRAM_URL"]) as eng:
        assert len(eng.memories.list()) == 3


@pytest.mark.requirement("CLI-32")
def test_a_closed_standard_error_leaves_one_json_document(store: dict[str, str]) -> None:
    line = ["sh", "-c", '"$0" "$@" 2>&-', program(), "embed", "--json"]
    ended = subprocess.run(line, env=store, capture_output=True, text=True, timeout=60)
    assert json.loads(ended.stdout)


@pytest.mark.requirement("CLI-1")
def test_the_package_is_also_the_program(store: dict[str, str]) -> None:
    line = [sys.executable, "-m", "engram", "--version"]
    assert subprocess.run(line, env=store, capture_output=True, text=True, timeout=60).stdout.startswith("engram")
