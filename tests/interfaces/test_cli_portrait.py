"""A block's data, a text that is proposed for a block, and a companion's workspace, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engram import Engram as Store
from engram.config import load

from .conftest import Engram


@pytest.mark.requirement("BLOCK-13")
def test_data_is_written_beside_the_text_and_shown(engram: Engram) -> None:
    assert engram("block", "create", "self", "I keep notes.", "--data", '{"mood": "calm"}').code == 0
    assert engram("block", "show", "self").out == "I keep notes.\n"
    assert engram("block", "show", "self", "--data").json == {"mood": "calm"}
    assert engram("block", "set", "self", "--data", "[1, 2]").code == 0
    shown = engram("block", "show", "self", "--json").json
    assert (shown["content"], shown["data"], shown["version"]) == ("I keep notes.", [1, 2], 2)
    assert engram("block", "set", "self", "More notes.", "--data", '"glad"').code == 0
    assert engram("block", "show", "self", "--version", "1", "--data").json == {"mood": "calm"}
    assert engram("block", "show", "self", "--data").json == "glad"


@pytest.mark.requirement("BLOCK-13")
@pytest.mark.parametrize("wrong", ["{calm", "", "null", "[" * 100_000])
def test_data_that_is_no_json_is_wrong_use(engram: Engram, wrong: str) -> None:
    engram("block", "create", "self", "I keep notes.")
    assert engram("block", "set", "self", "--data", wrong).code == 2
    assert engram("block", "show", "self", "--json").json["version"] == 1


@pytest.mark.requirement("PORTRAIT-5")
def test_the_review_shows_what_a_pass_would_make_of_a_persons_profile(engram: Engram, store_url: str) -> None:
    with Store(settings=load(url=store_url)) as eng:
        eng.blocks.create("profile", "I wrote this myself.")
        eng.remember("The user prefers tea.", kind="preference")
        eng.dream(force=True)
        shown = engram("dream", "review").out
        assert "rewrite" in shown
        assert "a person wrote the text of block profile" in " ".join(shown.split())
        assert "-I wrote this myself." in shown
        assert "+- The user prefers tea." in shown
        assert engram("dream", "review", "--apply", "1").code == 0
        block = eng.blocks.get("profile")
        assert block is not None and "The user prefers tea." in block.content
        assert engram("dream", "undo", "2").code == 0
        block = eng.blocks.get("profile")
        assert block is not None and block.content == "I wrote this myself."


@pytest.mark.requirement("CONFIG-7", "PORTRAIT-6")
def test_config_show_and_the_passes_know_a_companions_workspace(
    engram: Engram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGRAM_CONFIG_DIR", str(tmp_path))
    assert engram("dream", "run", "--stage", "reflect").code == 2
    (tmp_path / "config.toml").write_text("[workspaces.default]\ncompanion = true\n")
    (row,) = [row for row in engram("config", "show", "--json").json if row["name"] == "companion"]
    assert (row["value"], row["origin"]) == (True, str(tmp_path / "config.toml"))
    assert "companion" in engram("config", "show").out
    assert engram("dream", "run", "--stage", "reflect").code == 0
    (tmp_path / "config.toml").write_text('[workspaces.default]\ncompanion = "yes"\n')
    refused = engram("dream", "status")
    assert refused.code == 2 and "must be true or false" in refused.err
    assert json.dumps(refused.out) == '""'


@pytest.mark.requirement("PORTRAIT-6")
def test_the_status_of_a_coding_agents_workspace_has_no_curiosity(engram: Engram, store_url: str) -> None:
    with Store(settings=load(url=store_url)) as eng:
        eng.dream(force=True)
    assert "to reflect: " not in engram("dream", "status").out
    with Store(settings=load(url=store_url, companion=True)) as eng:
        eng.dream(force=True)
    assert "to reflect: " in engram("dream", "status").out
