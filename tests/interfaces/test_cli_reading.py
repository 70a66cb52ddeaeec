"""A command that only reads never makes a store: not where somebody mistyped a path, nor on a new machine."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from engram import Engram, StoreNotFound
from engram.interfaces.cli import cli, run
from engram.interfaces.cli.reading import READING, READING_WITH, READING_WITHOUT

from ..security.test_ways_out import COMMANDS as EVERY_COMMAND

reading = pytest.mark.requirement("CLI-30")

#: What the reading commands need besides their name.
ARGUMENTS = {
    "block diff": ["world", "1", "2"],
    "block history": ["world"],
    "block show": ["world"],
    "block verify": ["world"],
    "world diff": ["1", "2"],
    "dream run": ["--dry-run"],
    "dream show": ["1"],
    "forget": ["--memory", "1", "--dry-run"],
    "history": ["s1"],
    "import": ["markdown", ".", "--dry-run"],
    "graph": ["file", "a.py"],
    "lock check": ["a.py"],
    "memory history": ["1"],
    "memory show": ["1"],
    "message inbox": ["--session", "s1", "--peek"],
    "recall": ["anything", "--mode", "words"],
    "session logs": ["s1"],
    "session show": ["s1"],
}
COMMANDS = sorted(READING | READING_WITH.keys() | READING_WITHOUT.keys())
#: Commands that write, or that open no store of the user's.
OTHERS = {
    *("encrypt", "decrypt", "rekey"),
    *("block append", "block archive", "block create", "block delete", "block edit", "block replace"),
    *("block restore", "block set", "world edit", "world restore", "world set"),
    *("completion", "config path", "config show", "demo", "help", "install", "mcp", "open", "serve"),
    *("uninstall", "version"),
    *("dream loop", "dream undo", "dream work next", "dream work submit"),
    *("embed", "embedder use", "init", "lock break", "lock claim", "lock release"),
    *("memory approve", "memory archive", "memory edit", "memory link", "memory pin", "message send"),
    *("reindex", "remember", "restore", "say", "session beat", "session done", "session log", "session start"),
    *("backup", "doctor", "token create", "token revoke", "upgrade", "vacuum"),
    # They read a store, and write a file or another store.
    *("copy", "export"),
}


@reading
def test_for_every_command_it_is_decided_whether_it_only_reads() -> None:
    assert {*COMMANDS, *OTHERS} == EVERY_COMMAND.keys()
    assert OTHERS.isdisjoint(COMMANDS)


@reading
@pytest.mark.parametrize("name", COMMANDS)
def test_a_reading_command_makes_no_store_where_it_was_told_to_look(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = tmp_path / "folder" / "engram.db"
    assert run([*name.split(), *ARGUMENTS.get(name, []), "--store", str(missing)]) == 3
    told = capsys.readouterr().err
    assert f"There is no store at {missing}." in told and "`engram init`" in told
    monkeypatch.setenv("ENGRAM_URL", str(missing))
    assert run([*name.split(), *ARGUMENTS.get(name, []), "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "store_not_found"
    assert list(tmp_path.iterdir()) == []


@reading
@pytest.mark.parametrize("name", COMMANDS)
def test_without_a_default_store_a_reading_command_answers_as_on_an_empty_one(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = [*name.split(), *ARGUMENTS.get(name, []), "--json"]
    monkeypatch.chdir(tmp_path)
    code, answer = run(line), capsys.readouterr().out
    assert not os.path.exists(os.environ["ENGRAM_DATA_DIR"])
    empty = tmp_path / "empty.db"
    Engram(str(empty)).close()
    assert run([*line, "--store", str(empty)]) == code
    if name not in (
        "brief",
        "dream run",
        "dream status",
        "sitrep",
        "stats",
    ):  # these tell the time, or the size of the file
        assert capsys.readouterr().out == answer


@reading
def test_without_a_default_store_stats_says_where_it_will_be(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stats"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.endswith(f"{os.path.join(os.environ['ENGRAM_DATA_DIR'], 'engram.db')}, not created yet")


@reading
def test_opening_without_creating_makes_nothing(new_store_url: str, tmp_path: Path) -> None:
    with pytest.raises(StoreNotFound, match="There is no store at"):
        Engram(new_store_url, create=False)
    # On PostgreSQL a schema would be there now.
    with pytest.raises(StoreNotFound):
        Engram(new_store_url, create=False)
    assert list(tmp_path.iterdir()) == []
    Engram(new_store_url).close()
    with Engram(new_store_url, create=False) as eng:
        assert eng.remember("It is there now.", embed=False).id == 1


@reading
def test_an_upgrade_makes_no_store(new_store_url: str, tmp_path: Path) -> None:
    assert run(["--store", new_store_url, "upgrade"]) == 3
    assert list(tmp_path.iterdir()) == []


@reading
def test_an_empty_file_is_no_store_and_stays_empty(tmp_path: Path) -> None:
    empty = tmp_path / "engram.db"
    empty.touch()
    assert run(["sitrep", "--store", str(empty)]) == 3
    assert empty.stat().st_size == 0 and list(tmp_path.iterdir()) == [empty]


@reading
def test_completing_a_word_makes_no_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_ENGRAM_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "engram block show ")
    monkeypatch.setenv("COMP_CWORD", "3")
    monkeypatch.setenv("ENGRAM_URL", str(tmp_path / "engram.db"))
    with pytest.raises(SystemExit):
        cli.main([], prog_name="engram")
    assert list(tmp_path.iterdir()) == []


@reading
@pytest.mark.parametrize(
    "line",
    [
        *("embed", "forget --memory 1 --yes", "message inbox --session s1", "reindex"),
        *("import jsonl nofile", "import jsonl /dev/null", "import jsonl ."),
    ],
)
def test_a_command_that_has_nothing_to_work_on_makes_no_store(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run([*line.split(), "--store", str(tmp_path / "engram.db")]) in (2, 3)
    run(line.split())
    assert list(tmp_path.iterdir()) == [] and not os.path.exists(os.environ["ENGRAM_DATA_DIR"])


@reading
def test_a_writing_command_makes_the_store(tmp_path: Path) -> None:
    assert run(["session", "start", "codex", "working", "--store", str(tmp_path / "folder" / "engram.db")]) == 0
    assert run(["session", "list", "--store", str(tmp_path / "folder" / "engram.db")]) == 0
