"""`engram export`, `engram import jsonl` and `engram copy`, as they are typed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engram import Engram
from engram.interfaces.cli import run
from tests._talks import talk


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    url = str(tmp_path / "engram.db")
    monkeypatch.setenv("ENGRAM_URL", url)
    with Engram(url) as eng:
        talk(eng)
        eng.remember("The lift is broken.")
        eng.workspace("team").remember("Another workspace.")
    return url


def call(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    capsys.readouterr()
    assert run([str(each) for each in arguments]) == code
    found = capsys.readouterr()
    return found.err if code else found.out


def call_json(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    return json.loads(call(capsys, *arguments, "--json"))


@pytest.mark.requirement("MOVE-13")
def test_a_store_is_exported_and_imported(store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, other = tmp_path / "all.jsonl", tmp_path / "other.db"
    said = call(capsys, "export", file)
    assert "plain text" not in said, "nor is the store encrypted"
    assert re.search(r"^Exported 2 workspaces .*\(\d+\.\d KB\)", said, re.MULTILINE)
    assert "Not exported: access tokens" in said and f"engram --store NEW.db import jsonl {file}\n" in said
    assert "exists already" in call(capsys, "export", file, code=4)
    assert "Exported" in call(capsys, "export", file, "--force")
    said = call(capsys, "--store", other, "import", "jsonl", file)
    assert "Imported 2 workspaces: default, team." in said and "\n1 session, 6 turns, 2 memories.\n" in said
    assert "plain text" not in said
    assert "has content already" in call(capsys, "--store", other, "import", "jsonl", file, code=4)
    with Engram(str(other)) as eng:
        assert eng.embedding_queue.size() == 0
        assert eng.recall("lift")[0].text == "The lift is broken."


@pytest.mark.requirement("MOVE-13", "MOVE-3")
def test_one_workspace_is_exported_and_renamed(store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "team.jsonl"
    done = call_json(capsys, "--workspace", "team", "export", file, "--vectors")
    assert (done["workspaces"], done["counts"]["memory"], done["counts"]["vector"]) == (["team"], 1, 1)
    assert "no workspace 'tema'" in call(capsys, "--workspace", "tema", "export", tmp_path / "b.jsonl", code=3)
    done = call_json(capsys, "import", "jsonl", file, "--workspace", "team2", "--no-embed")
    assert (done["workspaces"], done["renumbered"], done["to_embed"]) == (["team2"], True, 0)


@pytest.mark.requirement("MOVE-13")
def test_wrong_use_of_an_import_is_explained(store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--since is not for jsonl" in call(capsys, "import", "jsonl", "x", "--since", "2d", code=2)
    assert "Give one FILE" in call(capsys, "import", "jsonl", code=2)
    assert "There is no file" in call(capsys, "import", "jsonl", tmp_path / "missing", code=3)
    (tmp_path / "x").write_text("hello\n")
    assert "not an export of Engram" in call(capsys, "import", "jsonl", tmp_path / "x", code=2)


@pytest.mark.requirement("MOVE-13")
def test_an_export_to_standard_output_is_nothing_but_the_export(store: str) -> None:
    command = [sys.executable, "-m", "engram", "export", "-"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[0]["record"] == "header" and lines[-1]["record"] == "footer"
    assert "Exported 2 workspaces to standard output" in done.stderr
    assert subprocess.run([*command, "--json"], capture_output=True).returncode == 2


@pytest.mark.requirement("MOVE-13", "MOVE-12")
def test_pages_are_exported(store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = call(capsys, "export", tmp_path / "pages", "--format", "markdown")
    assert "Begin with index.md" in said
    assert (tmp_path / "pages" / "default" / "index.md").is_file()


@pytest.mark.requirement("MOVE-13", "MOVE-12")
@pytest.mark.parametrize("name", ["mem.md", "mem.MARKDOWN", "mem.html", "mem.txt", "mem.jsonl"])
def test_pages_need_a_folder_and_not_the_name_of_a_file(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    said = call(capsys, "export", tmp_path / name, "--format", "markdown", code=2)
    assert "writes a folder" in said and "`engram export pages --format markdown`" in said
    assert not (tmp_path / name).exists()
    # A folder that has such a name is refused only because it is no earlier export.
    (tmp_path / name).mkdir()
    assert "not a folder of an earlier export" in call(
        capsys, "export", tmp_path / name, "--format", "markdown", "--force", code=4
    )


@pytest.mark.requirement("MOVE-13")
def test_an_export_and_its_import_count_as_stats_does(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Engram(store) as eng:
        eng.sessions.log(eng.sessions.list()[0].id, "looked at the lift")
        eng.memories.archive(eng.remember("The cellar is wet.").id)
        eng.dream(force=True)
        counts = eng.sessions.stats()
    memories = sum(counts.memories.values())
    assert counts.sessions == 1 and counts.gists == 1
    said = call(capsys, "--workspace", "default", "export", tmp_path / "a.jsonl")
    wanted = f"1 session, {counts.turns} turns, {counts.logs} log entry, {memories} memories, 1 gist, 1 archived or"
    assert wanted in said and said.count("1 pass of dreaming.") == 1
    capsys.readouterr()
    into = ["--store", str(tmp_path / "b.db"), "--workspace", "new"]
    assert run([*into, "import", "jsonl", str(tmp_path / "a.jsonl")]) == 0
    imported = capsys.readouterr()
    assert wanted in imported.out and "is empty" not in imported.err


@pytest.mark.requirement("MOVE-13", "MOVE-10")
def test_a_store_is_copied(store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "copy.db"
    said = call(capsys, "copy", store, target)
    assert "Number and hash of the rows are the same in every table." in said
    again = call(capsys, "copy", store, target)
    assert again.startswith(f"{target} is already a complete copy of {store}; nothing was copied.\n")
    with Engram(store) as eng:
        eng.remember("The door is open.")
    assert "is a store with content" in call(capsys, "copy", store, target, code=4)
    assert "server's machine" in call(capsys, "copy", "https://example.org", tmp_path / "b.db", code=2)
    assert "no store" in call(capsys, "copy", tmp_path / "missing.db", tmp_path / "b.db", code=3).lower()
    done = call_json(capsys, "copy", store, tmp_path / "second.db")
    assert done["tables"]["memories"] == 3 and done["resumed"] == 0


@pytest.mark.requirement("MOVE-13")
def test_exporting_a_store_that_is_not_there_makes_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "missing.db"
    call(capsys, "--store", missing, "export", tmp_path / "a.jsonl", code=3)
    assert not missing.exists() and not (tmp_path / "a.jsonl").exists()
