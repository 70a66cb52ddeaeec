"""`engram embedder list` and `engram embedder use`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engram import Engram as Store
from engram import embedding as embedding_package
from tests.interfaces.conftest import Engram, in_terminal, program

TEXTS = ("The puppy sleeps beside the fireplace", "Invoices are due in March")


@pytest.fixture
def filled(engram: Engram, monkeypatch: pytest.MonkeyPatch) -> Engram:
    """A workspace of static, and the setting auto."""
    for text in TEXTS:
        engram("remember", text)
    monkeypatch.setenv("ENGRAM_EMBEDDER", "auto")
    return engram


@pytest.mark.requirement("EMBED-25", "CLI-1")
def test_the_list_shows_the_workspaces_embedder_and_offers_a_better_one(filled: Engram) -> None:
    shown = filled("embedder", "list").out
    rows = {line.split()[0]: line for line in shown.partition("\n\n")[0].splitlines()}
    assert rows["static"].split() == ["static", "32%", "yes", "yes"]
    assert rows["minilm"].split() == ["minilm", "91%", "174", "MB", "yes"]
    assert {"openai", "onnx:FOLDER"} <= rows.keys()
    assert shown.endswith("minilm finds more. To change to it: engram embedder use minilm\n")
    found = filled("embedder", "list", "--json").json
    assert {key: found[key] for key in found if key != "embedders"} == {
        "workspace": "default",
        "model": "static:l2_supercat_256",
        "setting": "auto",
        "better": "minilm",
        "problem": None,
    }
    assert [each["name"] for each in found["embedders"] if each["used"]] == ["static"]


@pytest.mark.requirement("EMBED-25")
def test_the_list_says_what_a_new_workspace_will_use(engram: Engram, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "has no vectors yet. The first ones will be of static." in engram("embedder", "list").out
    monkeypatch.setenv("ENGRAM_EMBEDDER", "auto")
    assert "has no vectors yet. The first ones will be of minilm." in engram("embedder", "list").out
    monkeypatch.setenv("ENGRAM_EMBEDDER", "none")
    assert "recall goes by words" in engram("embedders", "list").out


@pytest.mark.requirement("EMBED-26", "CLI-1")
def test_use_says_what_it_costs_and_gives_the_workspace_the_model(filled: Engram) -> None:
    done = filled("embedder", "use", "minilm", "--yes")
    assert done.code == 0
    assert "finds 91 of 100 paraphrases" in done.out and "2 texts of workspace default" in done.out
    assert done.out.endswith("uses minilm:all-MiniLM-L6-v2 instead of static:l2_supercat_256. Embedded 2 texts.\n")
    assert filled("embedder", "list", "--json").json["better"] is None
    assert filled("stats", "--json").json["model"] == "minilm:all-MiniLM-L6-v2"
    assert filled("embedder", "use", "static", "--yes", "--json").json == {
        "name": "static",
        "model": "static:l2_supercat_256",
        "before": "minilm:all-MiniLM-L6-v2",
        "installed": [],
        "embedded": 2,
        "warning": None,
    }


@pytest.mark.requirement("EMBED-26", "EMBED-19")
def test_a_setting_that_would_overrule_the_change_is_pointed_out(
    filled: Engram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGRAM_EMBEDDER", "static")
    assert "Warning: ENGRAM_EMBEDDER is static." in filled("embedder", "use", "minilm", "--yes").out
    shown = filled("embedder", "list")
    assert "Warning:" in shown.out and "ENGRAM_EMBEDDER=auto" in shown.out


@pytest.mark.requirement("EMBED-26")
def test_openai_says_that_texts_leave_the_machine_and_what_that_costs(
    filled: Engram, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Port 9 discards: nobody answers there.
    monkeypatch.setenv("OPENAI_BASE_URL", "http://me:secret@127.0.0.1:9/v1")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    refused = filled("embedder", "use", "openai", "--yes")
    assert (refused.code, filled("stats", "--json").json["model"]) == (1, "static:l2_supercat_256")
    assert "127.0.0.1:9" in refused.out and "secret" not in refused.out + refused.err
    monkeypatch.delenv("OPENAI_BASE_URL")
    told = filled("embedder", "use", "openai", "--yes").out
    assert "less than 0.01 US dollars" in told and "OPENAI_API_KEY" in told


@pytest.mark.requirement("EMBED-26", "CLI-2")
def test_use_asks_on_a_terminal_and_wants_yes_elsewhere(filled: Engram, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = filled("embedder", "use", "minilm")
    assert refused.code == 2 and "--yes" in refused.err
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda *_: "n")
    assert filled("embedder", "use", "minilm").code == 1
    assert filled("stats", "--json").json["model"] == "static:l2_supercat_256"
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda *_: "y")
    assert filled("embedder", "use", "minilm").code == 0


@pytest.mark.requirement("EMBED-26", "CLI-2")
@pytest.mark.parametrize("name", ["nonsense", "auto", "none", "onnx:"])
def test_a_name_that_is_no_model_is_wrong_use(filled: Engram, name: str) -> None:
    assert filled("embedder", "use", name, "--yes").code == 2


@pytest.mark.requirement("EMBED-26")
def test_a_person_sees_the_progress(tmp_path: Path) -> None:
    store = str(tmp_path / "engram.db")
    in_terminal("--store", store, "remember", TEXTS[0])
    code, shown = in_terminal("--store", store, "embedder", "use", "static", "--yes")
    assert code == 0
    assert "Embedding" in shown and "100%" in shown


@pytest.mark.requirement("EMBED-19")
def test_a_command_that_cannot_use_the_workspaces_model_says_so_in_one_line(sqlite_url: str) -> None:
    with Store(sqlite_url) as eng:
        eng.remember(TEXTS[0])
    environment = {**os.environ, "ENGRAM_URL": sqlite_url, "ENGRAM_EMBEDDER": "minilm"}
    told = subprocess.run([program(), "recall", "puppy"], env=environment, capture_output=True, text=True, timeout=60)
    assert TEXTS[0] in told.stdout
    assert told.stderr.count("\n") == 1
    assert told.stderr.startswith("Recall goes by words alone.") and told.stderr.endswith("embedder use minilm\n")


@pytest.mark.requirement("EMBED-19", "EMBED-25")
def test_the_list_says_when_the_workspaces_model_is_missing(filled: Engram, monkeypatch: pytest.MonkeyPatch) -> None:
    filled("embedder", "use", "minilm", "--yes")
    monkeypatch.setattr(embedding_package, "_loaded", {})
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert "Warning: The minilm embedder needs packages" in filled("embedder", "list").out
    assert "engram embedder use minilm" in filled("embedder", "list", "--json").json["problem"]
