"""An export names every workspace whose rows it has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engram import Engram
from engram.import_records import FILE, Seen
from engram.transfer.tables import EXPORTED
from tests._tables import run
from tests.transfer._comparing import opened, records


@pytest.mark.requirement("MOVE-2")
def test_a_workspace_that_has_only_a_record_of_an_import_comes_back(eng: Engram, empty: str, tmp_path: Path) -> None:
    eng.remember("The lift is broken.")
    eng.workspace("other").imports.note("codex", FILE, "/home/me/a.jsonl", Seen(FILE, 7))
    assert eng.export(tmp_path / "a.jsonl", all_workspaces=True).workspaces == ("default", "other")
    with opened(empty) as other:
        other.load_export(tmp_path / "a.jsonl")
        other.export(tmp_path / "b.jsonl", all_workspaces=True)
        assert other.workspace("other").imports.seen("codex", FILE, "/home/me/a.jsonl") == Seen(FILE, 7)
    assert records(tmp_path / "b.jsonl", "import") == records(tmp_path / "a.jsonl", "import") != []


@pytest.mark.requirement("MOVE-2")
def test_a_row_of_any_table_is_enough_to_be_named(rich: Engram, store_url: str, tmp_path: Path) -> None:
    """As in a store of an early release, which wrote some rows without a change."""
    unchecked = "SET session_replication_role = replica; " if store_url.startswith("postgresql:") else ""
    tables = [moved.table.name for moved in EXPORTED if moved.table.has_workspace]
    for table in tables:
        name = f"only-{table}".replace("_", "-")
        run(store_url, f"{unchecked}UPDATE {table} SET workspace = '{name}' WHERE workspace = 'default'")
    run(store_url, "DELETE FROM changes")
    rich.export(tmp_path / "a.jsonl", all_workspaces=True)
    header = json.loads((tmp_path / "a.jsonl").read_text(encoding="utf-8").partition("\n")[0])
    assert set(header["workspaces"]) == {"team", *(f"only-{table}".replace("_", "-") for table in tables)}
