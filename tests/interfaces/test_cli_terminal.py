"""The command line as a process: on a terminal, in a pipe, and how little it imports."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from engram import Engram

from .conftest import in_terminal, program


@pytest.fixture
def store(sqlite_url: str) -> dict[str, str]:
    """An environment that points at a store of the test's own, which is empty."""
    Engram(sqlite_url).close()
    return {"ENGRAM_URL": sqlite_url}


def piped(*arguments: str, store: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program(), *arguments], env={**os.environ, **store}, capture_output=True, text=True, timeout=60, check=False
    )


def editor(folder: Path, script: str) -> str:
    """An editor that does what the script says to the file it is given."""
    path = folder / "editor"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.mark.requirement("CLI-5")
def test_colours_are_shown_on_a_terminal_only(store: dict[str, str]) -> None:
    for text in ("one\ntwo", "one\nthree"):
        piped("world", "set", text, store=store)
    code, shown = in_terminal("world", "diff", "1", "2", environment=store)
    assert code == 0
    assert "\x1b[31m" in shown
    assert "\x1b[32m" in shown
    assert "\x1b" not in piped("world", "diff", "1", "2", store=store).stdout
    assert "\x1b" not in in_terminal("world", "diff", "1", "2", environment={**store, "NO_COLOR": "1"})[1]


@pytest.mark.requirement("CLI-5", "SITREP-10")
def test_stored_escape_sequences_do_not_reach_the_terminal_but_a_pipe_gets_the_text_exactly(
    store: dict[str, str],
) -> None:
    piped("world", "set", "red \x1b[31m and a bell \x07", store=store)
    assert "\x1b" not in in_terminal("world", "show", environment=store)[1]
    assert "\x1b" not in in_terminal("sitrep", environment=store)[1]
    assert piped("world", "show", store=store).stdout == "red \x1b[31m and a bell \x07\n"


@pytest.mark.requirement("CLI-4")
def test_text_is_written_in_the_editor(store: dict[str, str], tmp_path: Path) -> None:
    writes = {**store, "EDITOR": editor(tmp_path, "sleep 0.01; printf 'from the editor' >> \"$1\"")}
    assert in_terminal("world", "set", environment=writes)[0] == 0
    assert in_terminal("world", "edit", "--reason", "more", environment=writes)[0] == 0
    assert piped("world", "show", store=store).stdout == "from the editor\nfrom the editor\n"


@pytest.mark.requirement("CLI-4")
def test_an_editor_closed_without_saving_changes_nothing(store: dict[str, str], tmp_path: Path) -> None:
    piped("world", "set", "as it was", store=store)
    code, shown = in_terminal("world", "edit", environment={**store, "EDITOR": editor(tmp_path, "true")})
    assert code == 1
    assert "nothing was changed" in shown
    assert piped("world", "history", "--json", store=store).stdout.count('"version"') == 1


@pytest.mark.requirement("CLI-4", "BLOCK-4")
def test_an_edit_that_comes_too_late_is_a_conflict_and_the_text_is_kept(store: dict[str, str], tmp_path: Path) -> None:
    piped("world", "set", "first", store=store)
    meanwhile = f'{program()} world set "somebody else\'s"; sleep 0.01; echo "mine" > "$1"'
    code, shown = in_terminal("world", "edit", environment={**store, "EDITOR": editor(tmp_path, meanwhile)})
    assert code == 4
    kept = Path(shown.rpartition("Your text is in ")[2].strip().removesuffix("."))
    assert kept.read_text() == "mine"
    kept.unlink()
    assert piped("world", "show", store=store).stdout == "somebody else's\n"


@pytest.mark.requirement("CLI-5")
def test_a_reader_who_has_seen_enough_is_no_error(store: dict[str, str]) -> None:
    process = subprocess.run(
        f"yes 'a long line of text' | head -n 40000 | {program()} world set - && {program()} world show | head -n 1",
        shell=True,
        env={**os.environ, **store},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (process.stdout, process.stderr) == ("world is now at version 1.\na long line of text\n", "")


@pytest.mark.requirement("CLI-6")
@pytest.mark.parametrize(
    ("arguments", "unneeded"),
    [
        (["--help"], ["apsw", "psycopg", "json", "platformdirs", "tomllib", "engram.client", "difflib"]),
        (["sitrep"], ["psycopg", "tomllib", "dataclasses", "difflib", "engram.interfaces.cli.blocks"]),
        (["session", "list"], ["psycopg", "tomllib", "difflib", "engram.interfaces.cli.blocks"]),
    ],
)
def test_commands_import_nothing_they_do_not_need(
    arguments: list[str], unneeded: list[str], store: dict[str, str]
) -> None:
    code = (
        "import sys; from engram.interfaces.cli import run; code = run(sys.argv[1:]); "
        f"print('IMPORTED', [name for name in {unneeded!r} if name in sys.modules]); sys.exit(code)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, **store},
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout.splitlines()[-1] == "IMPORTED []"


@pytest.mark.requirement("CLI-8")
def test_the_shell_completes_commands_sessions_and_blocks(store: dict[str, str]) -> None:
    piped("block", "create", "release-plan", store=store)
    session = piped("session", "start", "codex", "Adding limits", store=store).stdout.strip()

    def completed(line: str) -> str:
        words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1), "_ENGRAM_COMPLETE": "bash_complete"}
        return piped(store={**store, **words}).stdout

    assert "sitrep" in completed("engram sit")
    assert "release-plan" in completed("engram block show rel")
    assert session in completed("engram session beat --session 2")


@pytest.mark.requirement("CONFIG-4", "CONFIG-3")
def test_what_a_projects_file_may_not_set_is_told_in_one_line_and_the_command_goes_on(
    store: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".engram.toml").write_text('workspace = "team"\nabandon_after = 0\n')
    piped("remember", "The workspace is not empty.", store=store)
    for command in (("sitrep",), ("session", "list", "--json"), ("config", "show", "--json")):
        ended = piped(*command, store=store)
        assert ended.returncode == 0
        (line,) = ended.stderr.splitlines()
        assert "line 2: abandon_after is ignored" in line
        assert "config.toml" in line
    shown = piped("config", "show", store=store)
    assert shown.stderr == ""
    assert "line 2: abandon_after is ignored" in shown.stdout.splitlines()[-1]
    (tmp_path / ".engram.toml").write_text("= =")
    piped("remember", "Nor is the default one.", store=store)
    (line,) = piped("sitrep", store=store).stderr.splitlines()
    assert ".engram.toml is ignored: it cannot be read as TOML" in line


@pytest.mark.requirement("CONFIG-3", "CLI-1")
def test_config_show_prints_values_and_origins_with_secrets_masked(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text('lease_ttl = "5m"\n')
    environment = {
        "ENGRAM_URL": "postgresql://user:hunter2@localhost/db?sslpassword=hunter2",
        "ENGRAM_LLM_BASE_URL": "https://me:hunter2@models.example.org/v1",
        "ENGRAM_CONFIG_DIR": str(tmp_path / "config"),
    }
    shown = piped("config", "show", "--workspace", "mine", store=environment).stdout
    assert "hunter2" not in shown
    rows = {line.split()[0]: line.split()[1:] for line in shown.splitlines()}
    assert rows["workspace"] == ["mine", "argument", "yes"]
    assert rows["lease_ttl"] == ["5m", str(tmp_path / "config" / "config.toml"), "no"]
    assert rows["stale_after"] == ["30m", "default", "no"]
    assert rows["dream_similarity"] == ["0.92", "default", "no"]
    assert rows["url"][1] == "environment"
    assert rows["llm_base_url"] == ["https://me:***@models.example.org/v1", "environment", "no"]
    assert str(tmp_path / "config" / "config.toml") in piped("config", "path", store=environment).stdout


@pytest.mark.requirement("CLI-9")
def test_the_demo_plays_on_a_terminal(store: dict[str, str]) -> None:
    code, shown = in_terminal("demo", "--pace", "0", environment=store)
    assert code == 0
    assert "Claude Code is done" in shown
