"""A workspace and a store in the installed commands, and where backups of settings go."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from engram import Engram as Store
from engram.interfaces import hooks
from engram.interfaces.install.plan import HARNESSES

from .test_install import PROJECT, USER, Engram, backups, engram, files, home, hook_lines, read

__all__ = ["engram", "home"]

options = pytest.mark.requirement("INSTALL-12")
kept = pytest.mark.requirement("INSTALL-13")


def server(settings: Path) -> list[str]:
    found = read(settings)
    entry = found.get("mcp_servers", found.get("mcpServers"))["engram"]
    return [entry["command"], *entry["args"]]


def states(engram: Engram, name: str, *arguments: str) -> tuple[str, list[str]]:
    rows = {row["harness"]: row["user"] for row in engram("install", "--list", "--json", *arguments).json}
    return rows[name]["state"], rows[name]["options"]


@options
@pytest.mark.parametrize("name", USER)
def test_workspace_and_store_go_into_the_commands_and_stay_until_engram_is_removed(
    engram: Engram, home: Path, name: str
) -> None:
    store = home / "my stores" / "work's.db"
    wanted = ["--workspace", "work", "--store", str(store)]
    hooks, servers = (home / path for path in USER[name])
    assert engram("install", name, *wanted).code == 0
    lines = {line for each in hook_lines(read(hooks)).values() for line in each}
    assert [shlex.split(line)[1:] for line in lines] == [[name, *wanted]]
    assert server(servers)[1:] == ["mcp", *wanted]
    assert states(engram, name) == states(engram, name, *wanted) == ("ready", wanted)
    assert states(engram, name, "--workspace", "other")[0] == "outdated"
    assert "Nothing was changed" in engram("install", name, *wanted).out

    # Without options, both stay, and the command says so. To go back to the settings, Engram is removed first.
    kept = engram("install", name).out
    assert f"Kept --workspace work --store {shlex.quote(str(store))}. To go back to what the settings say" in kept
    assert states(engram, name) == ("ready", wanted)
    assert engram("uninstall", name).code == engram("install", name).code == 0
    assert {shlex.split(line)[-1] for each in hook_lines(read(hooks)).values() for line in each} == {name}
    assert server(servers)[1:] == ["mcp"]
    assert states(engram, name) == ("ready", [])

    engram("install", name, *wanted)
    assert engram("uninstall", name).code == 0
    assert files(home) == {}


@options
@pytest.mark.parametrize("name", HARNESSES)
def test_the_installed_hook_writes_to_that_workspace_and_store(
    engram: Engram, home: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = home / "with blank" / "work.db"
    engram("install", name, "--workspace", "work", "--store", "../../home/with blank/work.db")
    line = next(line for each in hook_lines(read(home / USER[name][0])).values() for line in each)
    start = "sessionStart" if name == "cursor" else "SessionStart"
    event = {"session_id": "s1", "conversation_id": "s1", "hook_event_name": start, "cwd": str(home)}
    # In this process, without the time limit: a busy machine may need longer to start a program.
    monkeypatch.setattr("sys.argv", shlex.split(line))
    monkeypatch.setattr(hooks, "_start_timers", lambda: None)
    monkeypatch.setattr(hooks, "_read_input", lambda: json.dumps({**event, "source": "startup"}).encode())
    monkeypatch.setattr(hooks, "_write_answer", lambda answer: None)
    monkeypatch.setattr("sys.stderr", sys.stderr)
    monkeypatch.setattr("os._exit", sys.exit)
    with pytest.raises(SystemExit):
        hooks.main()
    with Store(str(store), workspace="work", create=False) as eng:
        assert [session.type for session in eng.sessions.list()] == [name]
        assert eng.workspace("default").sessions.list() == []


@options
def test_a_store_that_only_this_shell_names_is_said(
    engram: Engram, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = str(home / "work.db")
    monkeypatch.setenv("ENGRAM_WORKSPACE", "work")
    said = "is set in this shell. A program that was started elsewhere does not have it; "
    for wanted, named in (([], ["ENGRAM_WORKSPACE"]), (["--workspace", "work", "--store", store], [])):
        shown = engram("install", "codex", *wanted).out
        assert [name for name in ("ENGRAM_URL", "ENGRAM_WORKSPACE") if f"{name} {said}" in shown] == named
    monkeypatch.setenv("ENGRAM_URL", store)
    assert f"ENGRAM_URL {said}`url` in " in engram("install", "codex").out
    (home / ".claude").mkdir()
    shown = engram("init", "--yes").out
    assert f"ENGRAM_URL {said}" in shown and f"ENGRAM_WORKSPACE {said}" in shown


@options
def test_an_address_with_a_password_is_refused(engram: Engram, home: Path) -> None:
    refused = engram("install", "codex", "--store", "postgresql://me:secret@db/engram")
    assert refused.code == 2 and "password" in refused.err and "secret" not in refused.err
    assert files(home) == {}
    assert engram("install", "codex", "--store", "postgresql://me@db/engram").code == 0
    assert server(home / USER["codex"][1])[-1] == "postgresql://me@db/engram"


@kept
@pytest.mark.parametrize("name", PROJECT)
def test_a_project_keeps_no_backups_and_loses_nothing(
    engram: Engram, home: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = home / "data"
    monkeypatch.setenv("ENGRAM_DATA_DIR", str(data))
    project = home.parent / "project"
    mine = project / PROJECT[name][1]
    mine.parent.mkdir(exist_ok=True)
    mine.write_text('model = "x"\n' if mine.suffix == ".toml" else '{"model": "x"}\n')
    before = files(project)
    # A copy that an earlier version left there.
    mine.with_name(f"{mine.name}.20250101T000000Z.engram-backup").write_text("old")

    engram("install", name, "--project")
    shown = engram("uninstall", name, "--project").out
    assert files(project) == before
    assert backups(project) == []
    copies = backups(data)
    assert next(iter(before.values())) in [copy.read_text() for copy in copies]
    assert {stat.S_IMODE(copy.stat().st_mode) for copy in copies} == {0o600}
    old = next(copy for copy in copies if copy.read_text() == "old")
    assert old.name == f"project-{'-'.join(Path(PROJECT[name][1]).parts)}.20250101T000000Z.engram-backup"
    assert str(old) in shown


@kept
def test_uninstalling_says_where_the_backups_of_the_user_s_settings_are(engram: Engram, home: Path) -> None:
    settings = home / ".codex" / "config.toml"
    settings.parent.mkdir()
    settings.write_text('model = "x"\n')
    engram("install", "codex")
    shown = engram("uninstall", "codex").out
    assert settings.read_text() == 'model = "x"\n'
    # A copy of a file that has nothing in it but Engram's entries is of no use.
    assert [copy.name.partition(".2")[0] for copy in backups(home)] == ["config.toml", "config.toml"]
    assert all(str(copy) in shown for copy in backups(home))
    assert "Removed Engram from Codex." in shown


@options
def test_a_file_that_git_tracks_is_not_deleted(engram: Engram, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.defpath)
    project = home.parent / "project"
    settings = project / PROJECT["claude-code"][1]
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text('{\n  "mcpServers": {}\n}\n')
    for command in (["init", "-q"], ["add", settings.name]):
        subprocess.run(["git", "-C", str(settings.parent), *command], check=True)
    engram("install", "claude-code", "--project")
    engram("uninstall", "claude-code", "--project")
    assert json.loads(settings.read_text()).get("mcpServers", {}) == {}
