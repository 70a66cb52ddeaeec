"""A block can get another name. Its history goes with it."""

from __future__ import annotations

from typing import Any

import pytest

from engram import BlockExists, BlockNotFound, Engram, InvalidInput, UndoBlocked
from tests._passes import dream_of


def test_a_renamed_block_keeps_its_history_and_its_data(eng: Engram) -> None:
    eng.blocks.create("draft", "One.", data={"mood": "calm"})
    eng.blocks.update("draft", "Two.")
    before = eng.changes()[-1].number
    (block,) = eng.blocks.rename({"draft": "final"}, actor="lyra")
    assert (block.name, block.content, block.version, block.data) == ("final", "Two.", 3, {"mood": "calm"})
    assert eng.blocks.get("final") == block
    assert eng.blocks.get("draft") is None
    edits = eng.blocks.versions("final")
    assert [(edit.new, edit.reason, edit.actor) for edit in edits] == [
        ("Two.", "renamed from draft", "lyra"),
        ("Two.", "", None),
        ("One.", "", None),
    ]
    assert eng.blocks.verify("final") == 3
    assert eng.blocks.restore("final", 1).content == "One."
    assert {(change.what, change.id) for change in eng.changes(before)} == {("block", "draft"), ("block", "final")}


def test_several_blocks_are_renamed_or_none(eng: Engram) -> None:
    for name in ("a/1", "a/2", "b/2"):
        eng.blocks.create(name, name)
    with pytest.raises(BlockExists, match="b/2"):
        eng.blocks.rename({"a/1": "b/1", "a/2": "b/2"})
    assert [block.name for block in eng.blocks.list()] == ["a/1", "a/2", "b/2"]
    eng.blocks.rename({"a/1": "c/1", "a/2": "c/2"})
    assert [block.name for block in eng.blocks.list()] == ["b/2", "c/1", "c/2"]


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("none", "new", BlockNotFound),
        ("old", "taken", BlockExists),
        ("old", "old", BlockExists),
        ("old", "x" * 201, InvalidInput),
        ("old", "a\nb", InvalidInput),
        ("old", "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a", InvalidInput),
    ],
)
def test_a_wrong_rename_changes_nothing(eng: Engram, old: str, new: str, error: type[Exception]) -> None:
    eng.blocks.create("old", "One.")
    eng.blocks.create("taken", "Two.")
    with pytest.raises(error):
        eng.blocks.rename({old: new})
    assert [(block.name, block.version) for block in eng.blocks.list()] == [("old", 1), ("taken", 1)]


def test_a_rename_within_a_pass_is_undone_with_it_and_a_later_one_blocks_the_undo(eng: Engram) -> None:
    eng.blocks.create("draft", "One.")

    def renamed(context: Any) -> None:
        context.blocks.rename({"draft": "final"})

    dream_of(eng, renamed)
    assert eng.blocks.get("draft") is None
    eng.dreams.undo()
    assert eng.blocks.get("final") is None
    block = eng.blocks.get("draft")
    assert block is not None and block.version == 1

    dream_of(eng, lambda context: context.blocks.update("draft", "Two."))
    eng.blocks.rename({"draft": "final"})
    with pytest.raises(UndoBlocked):
        eng.dreams.undo()
