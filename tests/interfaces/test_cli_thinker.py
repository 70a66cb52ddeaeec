"""`engram dream thinker`."""

from __future__ import annotations

import json
import os
import stat
import tomllib
from pathlib import Path

import pytest

from tests.interfaces.conftest import Engram
from tests.llm._client import FakeClient

FILE = """\
# my settings
stale_after = "1h"  # an hour

# who thinks
llm   =   "agent"
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ENGRAM_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("ENGRAM_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "config" / "config.toml"


@pytest.fixture
def claude(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    """Claude Code on PATH, ready to think."""
    fake = FakeClient(tmp_path / "bin")
    fake.answers('{"ready": true}')
    monkeypatch.setenv("PATH", f"{fake.folder}:/usr/bin:/bin")
    return fake


@pytest.mark.requirement("THINK-7", "CLI-1")
def test_without_a_name_it_says_who_thinks_and_who_could(engram: Engram, claude: FakeClient, file: Path) -> None:
    shown = engram("dream", "thinker").out
    assert shown.startswith("Dreaming works without a model (extractive, from default). It costs nothing.")
    found = engram("dream", "thinker", "--json").json
    listed = {each["name"]: each for each in found["thinkers"]}
    assert (found["thinker"], found["from"], listed["extractive"]["used"]) == ("extractive", "default", True)
    assert listed.keys() == {"extractive", "agent", "claude-code", "codex", "gemini", "openai", "anthropic"}
    assert (listed["claude-code"]["program"], listed["claude-code"]["problem"]) == (str(claude.program), "")
    assert "Codex is not installed" in listed["codex"]["problem"]
    assert not file.exists()
    assert claude.runs == []


@pytest.mark.requirement("THINK-7", "CLI-1")
def test_a_client_is_described_tried_and_stored_with_its_program(
    engram: Engram, claude: FakeClient, file: Path
) -> None:
    done = engram("dream", "thinker", "claude-code")
    assert done.code == 0
    for words in ("without tools", "allowance of your Claude plan", f"Program: {claude.program}", "tokens a day"):
        assert words in done.out
    assert "It answered the trial: 1 call, 11 tokens in, 7 out." in done.out
    assert tomllib.loads(file.read_text()) == {"llm": "claude-code", "claude_code_program": str(claude.program)}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "trial" in engram("usage").out
    assert engram("dream", "thinker").out.startswith(f"Dreaming uses a model (claude-code, from {file}).")


@pytest.mark.requirement("THINK-7")
def test_the_rest_of_the_file_stays_as_it_is_also_behind_a_link(
    engram: Engram, claude: FakeClient, file: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "dotfiles.toml"
    kept.write_text(FILE)
    kept.chmod(0o644)
    file.parent.mkdir()
    file.symlink_to(kept)
    assert engram("dream", "thinker", "claude-code:sonnet", "--no-trial").code == 0
    expected = FILE.replace('"agent"', '"claude-code:sonnet"')
    assert kept.read_text() == f'claude_code_program = "{claude.program}"\n{expected}'
    assert (file.is_symlink(), stat.S_IMODE(kept.stat().st_mode)) == (True, 0o644)
    assert claude.runs == []
    assert engram("dream", "thinker", "extractive").code == 0
    assert tomllib.loads(kept.read_text())["llm"] == "extractive"
    assert "# an hour" in kept.read_text()


@pytest.mark.requirement("THINK-7")
def test_a_thinker_that_fails_its_trial_changes_nothing(engram: Engram, claude: FakeClient, file: Path) -> None:
    claude.does(code=1, out=json.dumps({"is_error": True, "result": "Not logged in · Please run /login"}))
    done = engram("dream", "thinker", "claude-code")
    assert (done.code, "is not logged in" in done.err) == (1, True)
    assert not file.exists()
    claude.program.unlink()
    done = engram("dream", "thinker", "claude-code", "--json")
    assert (done.code, done.json["error"]["code"]) == (1, "llm_unavailable")
    assert "is not installed" in done.json["error"]["message"]
    assert not file.exists()


@pytest.mark.requirement("THINK-3", "THINK-7")
def test_a_program_can_be_named_and_one_that_others_can_write_is_refused(
    engram: Engram, claude: FakeClient, file: Path, tmp_path: Path
) -> None:
    other = FakeClient(tmp_path / "other", "my-claude")
    other.answers('{"ready": true}')
    done = engram("dream", "thinker", "claude-code", "--program", str(other.program), "--json").json
    assert (done["program"], done["calls"], len(other.runs), claude.runs) == (str(other.program), 1, 1, [])
    other.program.chmod(0o777)
    done_again = engram("dream", "thinker", "claude-code", "--program", str(other.program))
    assert (done_again.code, "writable by others" in done_again.err) == (1, True)
    assert engram("dream", "thinker", "extractive", "--program", str(other.program)).code == 2
    assert engram("dream", "thinker", "--program", str(other.program)).code == 2


@pytest.mark.requirement("THINK-7")
@pytest.mark.parametrize("name", ["bogus", "extractive:x", "claude-code:", "agent:me"])
def test_an_unknown_thinker_is_refused_and_the_known_ones_are_named(engram: Engram, file: Path, name: str) -> None:
    done = engram("dream", "thinker", name)
    assert (done.code, "claude-code:<model>" in done.err) == (2, True)
    assert not file.exists()


@pytest.mark.requirement("THINK-7")
def test_a_variable_that_goes_before_the_file_is_named(
    engram: Engram, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGRAM_LLM", "agent")
    assert "Warning: ENGRAM_LLM is agent here" in engram("dream", "thinker", "extractive").out
    assert tomllib.loads(file.read_text()) == {"llm": "extractive"}


@pytest.mark.requirement("THINK-7")
def test_a_file_that_cannot_be_read_is_not_replaced(
    engram: Engram, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engram import SettingsUnusable, user_file

    file.parent.mkdir()
    file.write_text("llm = [\n")
    with pytest.raises(SettingsUnusable, match="cannot be read as TOML"):
        user_file.store({"llm": "agent"})
    assert file.read_text() == "llm = [\n"
    assert os.listdir(file.parent) == ["config.toml"]


@pytest.mark.requirement("THINK-7")
def test_a_value_is_not_put_into_the_last_table_of_the_file(file: Path) -> None:
    from engram import user_file

    file.parent.mkdir()
    file.write_text("[workspaces.lyra]\ncompanion = true\n")
    user_file.store({"llm": "agent"})
    assert tomllib.loads(file.read_text()) == {"llm": "agent", "workspaces": {"lyra": {"companion": True}}}
