"""`engram import`: what a person sees who moves in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engram import Engram as Library
from engram.importers.formats import MODULES
from tests.interfaces.conftest import Engram, in_terminal

SAID = (
    ("user", "Which airport did we choose for the trip to Porto?"),
    ("assistant", "We chose OPO, because the tram stops there."),
)


def conversation(id: str, *said: tuple[str, str], at: float = 1_767_400_000) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    last: str | None = None
    for number, (role, text) in enumerate(said):
        message = {
            "id": f"{id}-{number}",
            "author": {"role": role},
            "create_time": at + 60 * number,
            "content": {"content_type": "text", "parts": [text]},
        }
        mapping[message["id"]] = {"id": message["id"], "message": message, "parent": last, "children": []}  # type: ignore[index]
        last = f"{id}-{number}"
    return {"conversation_id": id, "title": "The trip", "current_node": last, "update_time": at, "mapping": mapping}


@pytest.fixture
def export(tmp_path: Path) -> Path:
    file = tmp_path / "conversations.json"
    file.write_text(json.dumps([conversation("a", *SAID), {"title": "empty"}]))
    return file


@pytest.mark.requirement("IMPORT-1", "CLI-1")
def test_an_import_says_what_it_did_and_recall_answers_from_it(engram: Engram, export: Path) -> None:
    done = engram("import", "chatgpt", str(export), "--utc")
    assert done.code == 0
    assert done.out.splitlines()[:3] == [
        "Imported 1 session, 2 turns from 1 file, 2026-01-03.",
        "Left out:",
        "  1 no conversation: it has no messages (conversations.json, conversation 2)",
    ]
    assert "OPO" in engram("recall", "which airport for Porto?").out
    again = engram("import", "chatgpt", str(export)).out
    assert again.startswith("Nothing new in 1 file.\nAlready here: 1 session.\n")
    assert "--again" not in again
    assert engram("forget", "--source", "chatgpt", "--yes").code == 0
    assert "\n--again also imports what was forgotten here.\n" in engram("import", "chatgpt", str(export)).out


@pytest.mark.requirement("CLI-1")
def test_the_suggested_question_is_about_what_was_just_imported(engram: Engram, store_url: str, export: Path) -> None:
    with Library(store_url) as eng:
        sid = eng.sessions.register("codex", "Port the mail templates")
        eng.exchanges.add(sid, "user", "Port the mail templates", embed=False)
    told = engram("import", "chatgpt", str(export)).out
    assert "recall 'Which airport did we choose for the trip to Porto?'" in told


@pytest.mark.requirement("IMPORT-5")
def test_a_dry_run_says_what_would_be_imported(engram: Engram, export: Path) -> None:
    assert engram("import", "chatgpt", str(export), "--dry-run").out.startswith("Would import 1 session, 2 turns")
    assert engram("session", "list", "--all", "--json").json == []
    assert engram("import", "chatgpt", str(export), "--dry-run", "--json").json["turns"] == 2


@pytest.mark.requirement("IMPORT-5", "CLI-40")
def test_after_a_dry_run_that_found_something_nobody_is_told_how_to_import(engram: Engram, export: Path) -> None:
    assert engram("import", "chatgpt", str(export), "--dry-run").err == ""
    export.write_text(json.dumps([conversation("empty")]))
    assert "is empty. `engram import --help`" in engram("import", "chatgpt", str(export), "--dry-run").err


@pytest.mark.requirement("IMPORT-4", "CLI-2")
def test_a_file_of_another_format_or_none_is_refused_before_anything_is_written(engram: Engram, export: Path) -> None:
    refused = engram("import", "claude", str(export))
    assert refused.code == 2
    assert "engram import chatgpt" in refused.err
    assert engram("import", "chatgpt", str(export.parent / "missing")).code == 3
    assert engram("import", "chatgpt").code == 3
    assert engram("import", "polaroids", str(export)).code == 2
    assert engram("import", "chatgpt", str(export), "--timezone", "Mars/Olympus").code == 2
    assert engram("import", "chatgpt", str(export), "--vectors-of", "minilm").code == 2
    assert engram("session", "list", "--all", "--json").json == []


@pytest.mark.requirement("IMPORT-1")
def test_a_person_sees_the_progress_and_what_to_try_next(tmp_path: Path, export: Path) -> None:
    store = str(tmp_path / "engram.db")
    code, shown = in_terminal("--store", store, "import", "chatgpt", str(export), "--project", "travel")
    assert code == 0
    assert "Importing" in shown
    assert "100%" in shown
    assert "engram recall" in shown


@pytest.mark.requirement("IMPORT-1")
def test_the_help_names_every_format_and_an_empty_place_says_what_is_missing(engram: Engram, tmp_path: Path) -> None:
    shown = engram("import", "--help").out.split()
    assert set(MODULES) <= set(shown)
    for name in MODULES:
        refused = engram("import", name, str(tmp_path))
        assert refused.code == 3, (name, refused)
        assert str(tmp_path) in refused.err
