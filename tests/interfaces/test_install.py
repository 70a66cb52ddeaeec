"""Setting up harnesses: what is written into their settings files, and what is not."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engram.errors import SettingsConflict
from engram.interfaces.cli import run
from engram.interfaces.install.commands import Commands, is_hook
from engram.interfaces.install.files import LARGEST, Change, apply
from engram.interfaces.install.plan import HARNESSES

from .conftest import Outcome

BIN = Path(sys.executable).parent

#: Those of the usual shells that are on this machine.
SHELLS = [found for found in map(shutil.which, ("sh", "bash", "dash", "zsh", "fish")) if found]

#: Where each harness keeps hooks and MCP servers, below the home folder and below a project.
USER = {
    "claude-code": (".claude/settings.json", ".claude.json"),
    "codex": (".codex/hooks.json", ".codex/config.toml"),
    "gemini": (".gemini/settings.json", ".gemini/settings.json"),
    "cursor": (".cursor/hooks.json", ".cursor/mcp.json"),
}
PROJECT = {**USER, "claude-code": (".claude/settings.json", ".mcp.json")}

Engram = Callable[..., Outcome]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder, with no harness on the search path, and a project to stand in."""
    home = tmp_path / "home"
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / ".git").mkdir()
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", str(tmp_path / "programs"))
    for variable in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(project / "src")
    return home


@pytest.fixture
def engram(home: Path, capsys: pytest.CaptureFixture[str]) -> Engram:
    def call(*arguments: str) -> Outcome:
        capsys.readouterr()
        code = run(list(arguments))
        return Outcome(code, *capsys.readouterr())

    return call


def read(path: Path) -> Any:
    """A settings file as its harness reads it."""
    text = path.read_text()
    if path.suffix == ".toml":
        return tomllib.loads(text)
    return json.loads("\n".join(line.partition("// ")[0] for line in text.splitlines()))


def files(folder: Path) -> dict[str, str]:
    """Every file below a folder but the backups, with its text."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".engram-backup")
    return {str(path.relative_to(folder)): path.read_text() for path in found}


def backups(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.engram-backup"))


def hook_lines(settings: Any) -> dict[str, list[str]]:
    """The command lines of each event, in both forms that harnesses use."""
    return {
        event: [handler["command"] for entry in entries for handler in entry.get("hooks", [entry])]
        for event, entries in settings["hooks"].items()
    }


@pytest.mark.requirement("INSTALL-1", "INSTALL-8")
@pytest.mark.parametrize("name", USER)
def test_hooks_and_server_are_written_for_the_user(engram: Engram, home: Path, name: str) -> None:
    assert engram("install", name).code == 0
    hooks, servers = (read(home / path) for path in USER[name])
    lines = hook_lines(hooks)
    assert lines.keys() == HARNESSES[name].hooks.keys()
    assert all(each == [f"{BIN / 'engram-hook'} {name}"] for each in lines.values())
    server = servers["mcp_servers" if name == "codex" else "mcpServers"]["engram"]
    assert (server["command"], server["args"]) == (str(BIN / "engram"), ["mcp"])
    assert set(files(home)) == set(USER[name])


@pytest.mark.requirement("INSTALL-1")
def test_codex_is_told_to_hand_on_where_the_store_is(engram: Engram, home: Path) -> None:
    engram("install", "codex")
    server = read(home / ".codex/config.toml")["mcp_servers"]["engram"]
    assert {"ENGRAM_URL", "ENGRAM_WORKSPACE", "ENGRAM_DATA_DIR", "ENGRAM_CONFIG_DIR"} <= set(server["env_vars"])


@pytest.mark.requirement("INSTALL-1")
@pytest.mark.parametrize("name", PROJECT)
def test_hooks_and_server_are_written_for_the_project_from_anywhere_in_it(
    engram: Engram, home: Path, name: str
) -> None:
    assert engram("install", name, "--project").code == 0
    project = home.parent / "project"
    assert set(files(project)) == set(PROJECT[name])
    assert files(home) == {}
    assert hook_lines(read(project / PROJECT[name][0]))
    assert engram("uninstall", name, "--project").code == 0
    assert files(project) == {}


MINE = {
    ".claude/settings.json": """\
{
    "permissions": {"allow": ["Bash(ls)"]},
    "hooks": {
        "Stop": [{"matcher": "", "hooks": [{"type": "command", "command": "say done"}]}],
        "Notification": []
    },
    "model": "opus"
}
""",
    ".claude.json": '{"numStartups": 7, "mcpServers": {"other": {"command": "x"}}, "projects": {}}',
    ".codex/hooks.json": '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "engram-hookless"}]}]}}\n',
    ".codex/config.toml": '# mine\nmodel = "big" # the best\n\n[mcp_servers.other]\ncommand = "x"\n\n[tui]\nx = 1\n',
    ".gemini/settings.json": '{\n\t// mine\n\t"ui": {"theme": "dark"}, // at night\n\t"mcpServers": {}\n}\n',
    ".cursor/hooks.json": '{\n  "version": 1,\n  "hooks": {\n    "stop": [\n      {"command": "x"}\n    ]\n  }\n}',
    ".cursor/mcp.json": '{\r\n  "mcpServers": {\r\n    "other": {"url": "https://example.test"}\r\n  }\r\n}\r\n',
}


@pytest.fixture
def mine(home: Path) -> Path:
    """A home folder with settings of a person's own for every harness."""
    for path, text in MINE.items():
        (home / path).parent.mkdir(exist_ok=True)
        (home / path).write_bytes(text.encode())
    return home


def _is_within(part: Any, whole: Any) -> bool:
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(key in whole and _is_within(part[key], whole[key]) for key in part)
    if isinstance(part, list):
        return isinstance(whole, list) and whole[: len(part)] == part
    return bool(part == whole)


@pytest.mark.requirement("INSTALL-2", "INSTALL-4")
def test_everything_else_stays_and_uninstalling_leaves_what_was_there(engram: Engram, mine: Path) -> None:
    before = {path: read(mine / path) for path in MINE}
    assert engram("install", "all").code == 0
    for path, value in before.items():
        after = read(mine / path)
        assert after != value
        assert _is_within(value, after), path
    assert "// mine\n" in (mine / ".gemini/settings.json").read_text()
    assert "// at night\n" in (mine / ".gemini/settings.json").read_text()
    assert (mine / ".codex/config.toml").read_text().startswith(MINE[".codex/config.toml"])

    assert engram("uninstall", "all").code == 0
    left = {path: (mine / path).read_bytes().decode() for path in MINE}
    assert [path for path in MINE if left[path] != MINE[path]] == [".gemini/settings.json"]
    # The one thing that is not put back: an empty list of servers, which says nothing, goes with Engram's.
    assert read(mine / ".gemini/settings.json") == {"ui": {"theme": "dark"}}


@pytest.mark.requirement("INSTALL-3")
def test_the_second_time_nothing_is_touched(engram: Engram, mine: Path) -> None:
    engram("install", "all")
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in mine.rglob("*") if path.is_file()}
    again = engram("install", "all")
    assert again.code == 0
    assert again.out.count("already set up. Nothing was changed.") == 4
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in mine.rglob("*") if path.is_file()} == before


@pytest.mark.requirement("INSTALL-3")
@pytest.mark.parametrize("name", USER)
def test_an_older_installation_s_entries_are_brought_up_to_date(engram: Engram, home: Path, name: str) -> None:
    engram("install", name)
    new = files(home)
    for path, text in new.items():
        text = text.replace(f"{BIN}/engram-hook ", "'/old place/engram-hook' ").replace(f"{BIN}/", "/old place/")
        (home / path).write_text(text)
    assert engram("install", name).code == 0
    assert files(home) == new
    assert len(backups(home)) == len(set(USER[name]))


@pytest.mark.requirement("INSTALL-3")
def test_what_a_person_tuned_in_an_entry_is_kept(engram: Engram, home: Path) -> None:
    engram("install", "claude-code")
    settings, servers = (home / path for path in USER["claude-code"])
    tuned = settings.read_text().replace('"timeout": 10', '"timeout": 30').replace(f"{BIN}/", "/old/")
    settings.write_text(tuned)
    servers.write_text(servers.read_text().replace('"args"', '"env": {"ENGRAM_WORKSPACE": "work"},\n      "args"'))
    assert engram("install", "claude-code").code == 0
    assert settings.read_text() == tuned.replace("/old/", f"{BIN}/")
    assert read(servers)["mcpServers"]["engram"]["env"] == {"ENGRAM_WORKSPACE": "work"}


@pytest.mark.requirement("INSTALL-3")
def test_doubled_entries_and_those_of_events_no_longer_used_are_cleared_away(engram: Engram, home: Path) -> None:
    path = home / ".claude/settings.json"
    path.parent.mkdir()
    old = {"hooks": [{"type": "command", "command": "/old/engram-hook claude-code"}]}
    own = {"type": "command", "command": "mine"}
    path.write_text(json.dumps({"hooks": {"Stop": [old, {"hooks": [own, *old["hooks"]]}], "Gone": [old]}}))
    assert engram("install", "claude-code").code == 0
    lines = hook_lines(read(path))
    assert lines["Stop"] == [f"{BIN}/engram-hook claude-code", "mine"]
    assert "Gone" not in lines


@pytest.mark.requirement("INSTALL-4")
@pytest.mark.parametrize("name", USER)
def test_uninstalling_on_a_new_home_leaves_no_settings_behind(engram: Engram, home: Path, name: str) -> None:
    engram("install", name)
    for path, text in files(home).items():
        (home / path).write_text(text.replace(f"{BIN}/", "/old/"))
    assert engram("uninstall", name).code == 0
    assert files(home) == {}
    again = engram("uninstall", name)
    assert (again.code, "Engram is not set up. Nothing was changed." in again.out) == (0, True)


#: Settings whose form is wrong where Engram's own entries are looked for.
BROKEN = [
    ("claude-code", ".claude/settings.json", '{"hooks": {"Stop": [{"hooks": 5}]}}'),
    ("claude-code", ".claude/settings.json", '{"hooks": {"Stop": [{"hooks": {"command": "x"}}]}}'),
    ("claude-code", ".claude/settings.json", "[" * 5_000),
    ("claude-code", ".claude.json", '{"mcpServers": {"engram": {"command": "engram", "args": 5}}}'),
    ("codex", ".codex/config.toml", '[mcp_servers.engram]\ncommand = "/x/engram"\nargs = 5\n'),
    ("codex", ".codex/config.toml", "a = " + "[" * 5_000),
    ("codex", ".codex/config.toml", "a = {b = 1, b = 2}\n"),
    ("gemini", ".gemini/settings.json", '{"a": ' + "[" * 5_000),
]


@pytest.mark.requirement("INSTALL-5")
@pytest.mark.parametrize(
    ("name", "path", "text"),
    [
        ("claude-code", ".claude/settings.json", '{"hooks": '),
        ("claude-code", ".claude/settings.json", '{"a": 1 /* Claude Code reads no comments */}'),
        ("claude-code", ".claude.json", "[]"),
        ("claude-code", ".claude/settings.json", '{"hooks": []}'),
        ("claude-code", ".claude/settings.json", '{"hooks": {"Stop": {}}}'),
        ("codex", ".codex/config.toml", "model = \n"),
        ("codex", ".codex/config.toml", "mcp_servers = 3\n"),
        ("gemini", ".gemini/settings.json", '{"a": 1} trailing'),
        ("cursor", ".cursor/mcp.json", '{"mcpServers": null}'),
        *BROKEN,
    ],
)
def test_a_file_that_cannot_be_understood_is_left_alone_and_so_is_its_neighbour(
    engram: Engram, home: Path, name: str, path: str, text: str
) -> None:
    (home / path).parent.mkdir(exist_ok=True)
    (home / path).write_text(text)
    outcome = engram("install", name, "--json")
    assert outcome.code == 1
    assert outcome.json["error"]["code"] == "settings_unusable"
    assert "\n" not in outcome.json["error"]["message"]
    assert str(home / path) in outcome.json["error"]["message"]
    assert files(home) == {path: text}
    assert backups(home) == []


@pytest.mark.requirement("INSTALL-5", "INSTALL-9")
@pytest.mark.parametrize(("name", "path", "text"), BROKEN)
def test_the_list_names_a_file_that_cannot_be_understood_and_goes_on(
    engram: Engram, home: Path, name: str, path: str, text: str
) -> None:
    (home / path).parent.mkdir(exist_ok=True)
    (home / path).write_text(text)
    listed = engram("install", "--list", "--json")
    assert listed.code == 0
    states = {row["harness"]: row["user"]["state"] for row in listed.json}
    assert states == {**dict.fromkeys(USER, "absent"), name: f"unusable: {home / path}"}
    assert f"unusable: {home / path}" in engram("install", "--list").out
    removed = engram("uninstall", name)
    assert (removed.code, removed.err.count("\n")) in ((0, 0), (1, 1))
    assert files(home) == {path: text}


@pytest.mark.requirement("INSTALL-5")
def test_a_file_that_is_not_text_is_left_alone(engram: Engram, home: Path) -> None:
    (home / ".claude.json").write_bytes(b"\xff\xfe{}")
    outcome = engram("install", "claude-code")
    assert outcome.code == 1
    assert "not UTF-8" in outcome.err
    assert [path for path in home.rglob("*") if path.is_file()] == [home / ".claude.json"]


@pytest.mark.requirement("INSTALL-5")
@pytest.mark.parametrize("kind", ["a pipe", "an endless device", "a huge file"])
def test_what_is_no_settings_file_is_refused_at_once(engram: Engram, home: Path, kind: str) -> None:
    file = home / ".claude" / "settings.json"
    file.parent.mkdir(exist_ok=True)
    if kind == "a pipe":
        os.mkfifo(file)
    elif kind == "an endless device":
        file.symlink_to("/dev/zero")
    else:
        file.touch()
        os.truncate(file, LARGEST + 1)
    why = "it is larger than 16 MB" if kind == "a huge file" else "it is no regular file"
    for command in ("install", "uninstall"):
        outcome = engram(command, "claude-code")
        assert outcome.code == 1
        assert f"{file} cannot be read: {why}." in outcome.err
    listed = engram("install", "--list", "--json").json
    assert {row["harness"]: row["user"]["state"] for row in listed}["claude-code"] == f"unusable: {file}"
    assert engram("doctor").code in (0, 1)


@pytest.mark.requirement("INSTALL-5")
def test_another_server_of_that_name_is_neither_replaced_nor_removed(engram: Engram, home: Path) -> None:
    (home / ".claude.json").write_text('{"mcpServers": {"engram": {"url": "https://example.test"}}}')
    before = files(home)
    outcome = engram("install", "claude-code")
    assert outcome.code == 4
    assert "not Engram's" in outcome.err
    assert engram("uninstall", "claude-code").code == 0
    assert files(home) == before


@pytest.mark.requirement("INSTALL-5")
def test_one_file_that_cannot_be_understood_stops_all_of_it_before_anything_is_written(
    engram: Engram, mine: Path
) -> None:
    (mine / ".cursor/mcp.json").write_text("{")
    before = files(mine)
    assert engram("install", "all").code == 1
    assert files(mine) == before


@pytest.mark.requirement("INSTALL-6")
@pytest.mark.parametrize("room", [4_000, 20_100], ids=["for nothing", "for the backup alone"])
def test_a_full_disk_leaves_the_settings_as_they_were_and_nothing_beside_them(home: Path, room: int) -> None:
    """No file of the process may grow beyond the limit, as on a disk without more room."""
    before = json.dumps({"env": {"X": "x" * 20_000}})
    (home / ".claude").mkdir()
    for path in (home / ".claude/settings.json", home / ".claude.json"):
        path.write_text(before)
    program = (
        "import resource, sys; from engram.interfaces.cli import run; "
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, {room})); sys.exit(run(['install', 'claude-code']))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "cannot be written: File too large" in ended.stderr
    assert "Traceback" not in ended.stderr
    there = {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()}
    assert there == {".claude/settings.json", ".claude.json"}
    assert {(home / path).read_text() for path in there} == {before}


@pytest.mark.requirement("INSTALL-6")
def test_a_changed_file_has_its_backup_beside_it_for_its_owner_alone(engram: Engram, mine: Path) -> None:
    outcome = engram("install", "all", "--json")
    named = {file["file"]: file["backup"] for harness in outcome.json["harnesses"] for file in harness["files"]}
    assert named.keys() == {str(mine / path) for path in MINE}
    for path, backup in named.items():
        assert Path(backup).parent == Path(path).parent
        assert Path(backup).read_bytes().decode() == MINE[str(Path(path).relative_to(mine))]
        assert stat.S_IMODE(os.stat(backup).st_mode) == 0o600


@pytest.mark.requirement("INSTALL-6")
def test_mode_and_links_of_a_file_stay(engram: Engram, home: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "claude.json"
    real.parent.mkdir()
    real.write_text("{}")
    real.chmod(0o640)
    link = home / ".claude" / "settings.json"
    link.parent.mkdir()
    link.symlink_to(real)
    assert engram("install", "claude-code").code == 0
    assert link.is_symlink()
    assert hook_lines(read(real))
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert engram("uninstall", "claude-code").code == 0
    assert (link.is_symlink(), real.read_text()) == (True, "{}")
    assert {path.name for path in real.parent.iterdir()} == {"claude.json"}


@pytest.mark.requirement("INSTALL-6")
def test_what_somebody_else_wrote_in_the_meantime_is_not_overwritten(home: Path) -> None:
    path = home / "settings.json"
    path.write_text('{"new": 1}')
    with pytest.raises(SettingsConflict, match="in the meantime"):
        apply(Change(path, '{"old": 1}', "{}"))
    assert files(home) == {"settings.json": '{"new": 1}'}


@pytest.mark.requirement("INSTALL-6")
def test_a_folder_that_cannot_be_written_is_an_error_and_leaves_no_litter(engram: Engram, home: Path) -> None:
    (home / ".codex").write_text("a file where the folder should be")
    outcome = engram("install", "codex")
    assert outcome.code == 1
    assert str(home / ".codex") in outcome.err
    assert files(home) == {".codex": "a file where the folder should be"}


@pytest.mark.requirement("INSTALL-7")
def test_a_dry_run_shows_the_diff_and_changes_nothing(engram: Engram, mine: Path) -> None:
    before = files(mine)
    outcome = engram("install", "gemini", "--dry-run")
    assert outcome.code == 0
    assert f"--- {mine / '.gemini/settings.json'}\n" in outcome.out
    assert f'+\t\t\t\t\t\t"command": "{BIN}/engram-hook gemini",\n' in outcome.out
    assert " \t// mine\n" in outcome.out
    assert files(mine) == before
    assert backups(mine) == []
    assert (
        "+[mcp_servers.engram]"
        in engram("install", "codex", "--dry-run", "--json").json["harnesses"][0]["files"][1]["diff"]
    )
    engram("install", "gemini")
    assert engram("install", "gemini", "--dry-run").out == "Nothing would change.\n"
    assert '-\t\t"SessionEnd": [' in engram("uninstall", "gemini", "--dry-run").out


@pytest.mark.requirement("INSTALL-8")
def test_all_means_those_that_are_found_by_program_or_settings(engram: Engram, home: Path, tmp_path: Path) -> None:
    nobody = engram("install", "all")
    assert nobody.code == 3
    assert "No harness was found" in nobody.err
    (home / ".gemini").mkdir()
    program = tmp_path / "programs" / "codex"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert engram("install", "all").code == 0
    assert set(files(home)) == {*USER["codex"], *USER["gemini"]}


@pytest.mark.requirement("INSTALL-8")
def test_without_a_name_nothing_is_guessed(engram: Engram, home: Path) -> None:
    outcome = engram("install")
    assert outcome.code == 2
    assert "claude-code" in outcome.err
    assert files(home) == {}


@pytest.mark.requirement("INSTALL-9")
def test_the_list_shows_what_is_found_and_what_is_set_up(engram: Engram, mine: Path) -> None:
    shutil.rmtree(mine / ".cursor")
    (mine / ".codex/hooks.json").write_text("{")
    engram("install", "claude-code", "gemini")
    engram("install", "claude-code", "--project")
    settings = mine / ".gemini/settings.json"
    settings.write_text(settings.read_text().replace(f"{BIN}/", "/old/"))
    before = files(mine)
    rows = {row["harness"]: row for row in engram("install", "--list", "--json").json}
    assert {name: row["found"] for name, row in rows.items()} == {
        "claude-code": True,
        "codex": True,
        "gemini": True,
        "cursor": False,
    }
    assert {name: (row["user"]["state"], row["project"]["state"]) for name, row in rows.items()} == {
        "claude-code": ("ready", "ready"),
        "codex": (f"unusable: {mine / '.codex/hooks.json'}", "absent"),
        "gemini": ("outdated", "absent"),
        "cursor": ("absent", "absent"),
    }
    assert rows["cursor"]["user"]["files"] == [str(mine / path) for path in USER["cursor"]]
    assert "outdated" in engram("install", "--list").out
    assert files(mine) == before


@pytest.mark.requirement("INSTALL-9")
def test_the_list_shows_no_project_in_the_home_folder(
    engram: Engram, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engram("install", "claude-code")
    assert "in this project" in engram("install", "--list").out
    monkeypatch.chdir(home)
    listed = engram("install", "--list").out
    assert "ready" in listed and "outdated" not in listed and "in this project" not in listed
    rows = engram("install", "--list", "--json").json
    assert {row["project"]["state"] for row in rows} == {""} and rows[0]["user"]["state"] == "ready"


@pytest.mark.requirement("INSTALL-10")
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("folder", ["plain", "with blank", "it's", 'a "quote"', "$HOME;`ls`", "ümlaut & co"])
def test_the_hook_s_line_starts_the_program_in_any_shell(tmp_path: Path, shell: str, folder: str) -> None:
    program = tmp_path / folder / "engram-hook"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$1"\n')
    program.chmod(0o755)
    line = Commands(str(program), "").hook_line("claude-code")
    done = subprocess.run([shell, "-c", line], cwd="/", env={}, capture_output=True, text=True, check=True)
    assert done.stdout == "claude-code\n"
    assert is_hook(line)


@pytest.mark.requirement("INSTALL-4")
@pytest.mark.parametrize(
    "line", ["engram-hookless codex", "echo engram-hook", "mine --like /x/engram-hook", "'unfinished", "", None, 7]
)
def test_a_line_that_does_not_start_engram_s_hook_is_not_its(line: object) -> None:
    assert not is_hook(line)


@pytest.mark.requirement("INSTALL-11")
@pytest.mark.parametrize(
    ("name", "variable", "expected"),
    [
        ("claude-code", "CLAUDE_CONFIG_DIR", {"settings.json", ".claude.json"}),
        ("codex", "CODEX_HOME", {"hooks.json", "config.toml"}),
        ("gemini", "GEMINI_CLI_HOME", {".gemini/settings.json"}),
    ],
)
def test_a_harness_s_own_variable_moves_its_settings(
    engram: Engram,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    variable: str,
    expected: set[str],
) -> None:
    monkeypatch.setenv(variable, str(tmp_path / "elsewhere"))
    assert engram("install", name).code == 0
    assert set(files(tmp_path / "elsewhere")) == expected
    assert files(home) == {}


def _entries(settings: dict[str, Any], event: str) -> Any:
    (entry,) = settings["hooks"][event]
    return entry


@pytest.mark.requirement("INSTALL-14")
@pytest.mark.parametrize(
    ("name", "event", "tools"),
    [
        ("claude-code", "PreToolUse", "Edit|MultiEdit|NotebookEdit|Write"),
        ("codex", "PreToolUse", "apply_patch"),
        ("gemini", "BeforeTool", "edit|replace|write_file"),
        ("cursor", "preToolUse", "Delete|Edit|EditNotebook|MultiEdit|StrReplace|Write"),
    ],
)
def test_the_hook_before_a_tool_is_only_for_tools_that_write(
    engram: Engram, home: Path, name: str, event: str, tools: str
) -> None:
    engram("install", name)
    settings = read(home / USER[name][0])
    assert _entries(settings, event)["matcher"] == tools
    assert all(
        "matcher" not in entry for each in settings["hooks"] if each != event for entry in settings["hooks"][each]
    )


@pytest.mark.requirement("INSTALL-14")
def test_claude_code_runs_the_hooks_after_a_tool_in_the_background(engram: Engram, home: Path) -> None:
    engram("install", "claude-code")
    settings = read(home / USER["claude-code"][0])
    background = {event for event, (entry,) in settings["hooks"].items() if entry["hooks"][0].get("async")}
    assert background == {"PostToolUse", "PostToolUseFailure"}
    assert "PostCompact" in settings["hooks"]


@pytest.mark.requirement("INSTALL-15")
@pytest.mark.parametrize("name", USER)
def test_entries_as_an_older_release_wrote_them_are_renewed(engram: Engram, home: Path, name: str) -> None:
    engram("install", name)
    path = home / USER[name][0]
    new = path.read_text()
    settings = read(path)
    for entries in settings["hooks"].values():
        for entry in entries:
            entry.pop("matcher", None)
            for handler in entry.get("hooks", []):
                handler.pop("async", None)
    settings["hooks"].pop("PostCompact", None)
    path.write_text(json.dumps(settings).replace(f"{BIN}/", "/old/"))
    assert "outdated" in engram("install", "--list").out
    result = engram("install", name)
    assert "Kept your edits" not in result.out
    assert read(path) == json.loads(new)


@pytest.mark.requirement("INSTALL-15")
def test_edited_entries_are_left_and_named(engram: Engram, home: Path) -> None:
    engram("install", "claude-code")
    path = home / USER["claude-code"][0]
    settings = read(path)
    settings["hooks"]["PreToolUse"][0]["matcher"] = "Write"
    settings["hooks"]["Stop"][0]["hooks"][0]["timeout"] = 30
    del settings["hooks"]["PostToolUse"][0]["hooks"][0]["async"]
    path.write_text(json.dumps(settings))
    result = engram("install", "claude-code")
    assert (
        "Kept your edits to: Stop, PreToolUse. To get this release's entries, remove these from the settings and run "
        "`engram install` again." in result.out
    )
    after = read(path)
    assert after["hooks"]["PreToolUse"] == settings["hooks"]["PreToolUse"]
    assert after["hooks"]["Stop"] == settings["hooks"]["Stop"]
    assert after["hooks"]["PostToolUse"][0]["hooks"][0]["async"] is True
    assert "(edited: Stop, PreToolUse)" in engram("install", "--list").out
    again = engram("install", "claude-code").out
    assert "Kept your edits to: Stop, PreToolUse." in again
    assert "Nothing was changed" not in again


@pytest.mark.requirement("INSTALL-15")
def test_a_command_around_the_hook_is_an_edit_and_gets_no_second_entry(engram: Engram, home: Path) -> None:
    engram("install", "claude-code")
    path = home / USER["claude-code"][0]
    settings = read(path)
    line = settings["hooks"]["Stop"][0]["hooks"][0]["command"]
    around = {
        "Stop": f"nice {line}",
        "PreToolUse": f"ENGRAM_LOCK_POLICY=warn {line}",
        "SessionEnd": f"{line} 2>/dev/null",
        "PreCompact": f"sh -c '{line} || true'",
    }
    for event, command in around.items():
        settings["hooks"][event] = [{"hooks": [{"type": "command", "command": command}]}]
    path.write_text(json.dumps(settings))
    result = engram("install", "claude-code")
    assert read(path) == settings
    assert "Kept your edits to: PreCompact, Stop, SessionEnd, PreToolUse." in result.out
    removed = engram("uninstall", "claude-code").out
    assert "Left your own commands that run engram-hook: PreCompact, Stop, SessionEnd, PreToolUse." in removed
    assert hook_lines(read(path)) == {event: [around[event]] for event in settings["hooks"] if event in around}


@pytest.mark.requirement("INSTALL-15")
def test_two_edited_entries_of_one_event_both_stay(engram: Engram, home: Path) -> None:
    engram("install", "claude-code")
    path = home / USER["claude-code"][0]
    settings = read(path)
    (entry,) = settings["hooks"]["PreToolUse"]
    settings["hooks"]["PreToolUse"] = [{**entry, "matcher": tool} for tool in ("Edit", "Write")]
    path.write_text(json.dumps(settings))
    assert "Kept your edits to: PreToolUse." in engram("install", "claude-code").out
    assert read(path) == settings


@pytest.mark.requirement("INSTALL-15", "INSTALL-12")
@pytest.mark.parametrize("is_old", [False, True])
def test_options_that_one_entry_has_are_an_edit(engram: Engram, home: Path, is_old: bool) -> None:
    engram("install", "claude-code")
    path = home / USER["claude-code"][0]
    settings = read(path)
    if is_old:
        del settings["hooks"]["PreToolUse"][0]["matcher"]
    handler = settings["hooks"]["PreToolUse"][0]["hooks"][0]
    handler["command"] = "/old/engram-hook claude-code --workspace work"
    path.write_text(json.dumps(settings))
    assert "Kept your edits to: PreToolUse." in engram("install", "claude-code").out
    # The path of the program is updated; the options stay.
    assert hook_lines(read(path))["PreToolUse"] == [f"{BIN}/engram-hook claude-code --workspace work"]
    assert hook_lines(read(path))["Stop"] == [f"{BIN}/engram-hook claude-code"]
    engram("install", "claude-code", "--workspace", "other")
    assert hook_lines(read(path))["Stop"] == [f"{BIN}/engram-hook claude-code --workspace other"]
    assert "(edited: PreToolUse)" in engram("install", "--list").out
