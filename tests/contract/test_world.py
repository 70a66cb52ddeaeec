"""The world state: one block everybody shares."""

from __future__ import annotations

import pytest

from engram import Engram, InvalidInput, VersionConflict
from engram.memory.blocks import DEFAULT_TOKENS


@pytest.mark.requirement("BLOCK-12")
def test_an_unset_world_state_is_empty_and_reading_it_makes_no_block(eng: Engram) -> None:
    assert eng.world.get() == ""
    assert eng.blocks.list() == []


@pytest.mark.requirement("BLOCK-12")
def test_the_first_write_makes_the_block_world_with_a_generous_budget(eng: Engram) -> None:
    sid = eng.sessions.register("claude-code", "at work")
    made = eng.world.set("all is well", updated_by=sid)
    assert made == eng.blocks.get("world")
    assert (made.content, made.version, made.updated_by) == ("all is well", 1, sid)
    assert made.max_tokens >= 4 * DEFAULT_TOKENS
    assert eng.blocks.history("world") == []


@pytest.mark.requirement("BLOCK-12")
def test_later_writes_are_versions_of_the_same_block(eng: Engram) -> None:
    eng.world.set("one")
    eng.world.set("two", updated_by="codex", reason="news")
    assert eng.world.get() == "two"
    (edit,) = eng.blocks.history("world")
    assert (edit.version, edit.old, edit.new, edit.reason, edit.actor) == (2, "one", "two", "news", "codex")
    eng.blocks.append("world", "!")
    assert eng.world.get() == "two!"
    assert eng.blocks.verify("world") == 3


@pytest.mark.requirement("BLOCK-12")
def test_the_world_state_can_be_emptied_again(eng: Engram) -> None:
    eng.world.set("one")
    eng.world.set("")
    assert eng.world.get() == ""


@pytest.mark.requirement("BLOCK-12", "BLOCK-4")
@pytest.mark.parametrize(("writes", "expected"), [(0, 1), (0, 7), (1, 0), (2, 1), (2, 3)])
def test_a_write_that_expects_another_version_is_refused(eng: Engram, writes: int, expected: int) -> None:
    for number in range(writes):
        eng.world.set(f"state {number}")
    before = eng.world.get()
    with pytest.raises(VersionConflict) as refused:
        eng.world.set("mine", expected_version=expected)
    assert refused.value.current == writes
    assert eng.world.get() == before
    assert eng.world.set("mine", expected_version=refused.value.current).version == writes + 1


@pytest.mark.requirement("BLOCK-12", "BLOCK-10")
@pytest.mark.parametrize("text", ["a\x00b", "a\ud800b", "x" * 1_000_001])
def test_a_text_that_cannot_be_stored_is_refused_before_the_block_is_made(eng: Engram, text: str) -> None:
    with pytest.raises(InvalidInput):
        eng.world.set(text)
    assert eng.blocks.list() == []


@pytest.mark.requirement("BLOCK-12", "STORE-16")
def test_each_workspace_has_a_world_state_of_its_own(eng: Engram) -> None:
    eng.world.set("ours")
    assert eng.workspace("theirs").world.get() == ""
    eng.workspace("theirs").world.set("theirs")
    assert (eng.world.get(), eng.workspace("theirs").world.get()) == ("ours", "theirs")


@pytest.mark.requirement("BLOCK-12", "BLOCK-4")
def test_expecting_a_version_of_an_unset_world_says_that_it_is_unset(eng: Engram) -> None:
    with pytest.raises(VersionConflict, match="is unset"):
        eng.world.set("text", expected_version=1)
    assert eng.world.set("text", expected_version=0).version == 1
