"""`engram reindex`: another model for what is there already."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interfaces.conftest import Engram, in_terminal


@pytest.mark.requirement("REINDEX-1", "CLI-1")
def test_reindex_embeds_everything_with_another_model_and_says_how_much(engram: Engram) -> None:
    engram("remember", "The puppy sleeps beside the fireplace")
    engram("remember", "Invoices are due in March")
    assert engram("reindex", "--model", "minilm", "--json").json == {"embedded": 2}
    done = engram("reindex")
    assert (done.code, done.out) == (0, "Embedded 2 items.\n")
    assert engram("recall", "where do dogs rest?", "-k", "1", "--json").json[0]["memory_id"] == 1


@pytest.mark.requirement("REINDEX-1", "CLI-2")
def test_reindex_with_an_unknown_model_is_wrong_use(engram: Engram) -> None:
    refused = engram("reindex", "--model", "nonsense")
    assert refused.code == 2
    assert "static, minilm, openai" in refused.err


@pytest.mark.requirement("REINDEX-1")
def test_a_person_sees_the_progress(tmp_path: Path) -> None:
    store = str(tmp_path / "engram.db")
    in_terminal("--store", store, "remember", "Invoices are due in March")
    code, shown = in_terminal("--store", store, "reindex", "--model", "minilm")
    assert code == 0
    assert "Reindexing" in shown
    assert "100%" in shown
    assert shown.endswith("Embedded 1 item.\n")
