"""Data beside a block's text: any JSON, kept with every version, and gone where the text would be."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from engram import Engram, InvalidInput
from tests._passes import dream_of
from tests._tables import holds, run

STATE = {"mood": "calm", "energy": 0.7, "known": ["tea", {"since": "noon"}], "nothing": None}


@pytest.mark.requirement("BLOCK-13")
@pytest.mark.parametrize("data", [STATE, [1, 2], "calm", 3, 0.5, False, {}, [], ""])
def test_any_json_is_kept_beside_the_text(eng: Engram, data: object) -> None:
    eng.blocks.create("self", "I keep notes.", data=data)
    block = eng.blocks.get("self")
    assert block is not None
    assert (block.content, block.data) == ("I keep notes.", data)
    assert eng.blocks.list()[0] == block
    assert eng.blocks.verify("self") == 1


@pytest.mark.requirement("BLOCK-13")
def test_an_edit_without_data_keeps_it_and_data_can_change_alone(eng: Engram) -> None:
    eng.blocks.create("self", "One.", data={"mood": "calm"})
    assert eng.blocks.update("self", "Two.").data == {"mood": "calm"}
    changed = eng.blocks.update("self", data={"mood": "glad"}, actor="lyra")
    assert (changed.content, changed.data, changed.version) == ("Two.", {"mood": "glad"}, 3)
    for kept in (eng.blocks.append("self", " Three."), eng.blocks.replace("self", "Two", "Zwei")):
        assert kept.data == {"mood": "glad"}
    assert eng.blocks.restore("self", 1).data == {"mood": "calm"}
    moods = [edit.data for edit in eng.blocks.versions("self")]
    assert moods == [{"mood": mood} for mood in ("calm", "glad", "glad", "glad", "calm", "calm")]
    with pytest.raises(InvalidInput, match="its new data, or both"):
        eng.blocks.update("self")


@pytest.mark.requirement("BLOCK-13")
def test_what_json_cannot_express_is_refused(eng: Engram) -> None:
    eng.blocks.create("self", "One.", data=STATE)
    for wrong in (float("nan"), {1, 2}, {"a": object()}):
        with pytest.raises(InvalidInput):
            eng.blocks.update("self", "Two.", data=wrong)
    block = eng.blocks.get("self")
    assert block is not None
    assert (block.content, block.data, block.version) == ("One.", STATE, 1)


@pytest.mark.requirement("BLOCK-13")
def test_data_holds_no_secret(eng: Engram, store_url: str) -> None:
    token = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
    eng.blocks.create("self", data={"note": f"the token is {token}", "password": "hunter2-and-more"})
    eng.blocks.update("self", data={"again": [token]})
    assert holds(store_url, token) == {}
    assert holds(store_url, "hunter2-and-more") == {}


@pytest.mark.requirement("BLOCK-13", "UNDO-1")
def test_an_undo_brings_back_the_data_of_every_version(eng: Engram) -> None:
    eng.blocks.create("self", "One.", data={"mood": "calm"})
    eng.blocks.update("self", "Two.", data={"mood": "glad"})
    before = (eng.blocks.get("self"), eng.blocks.versions("self"))
    dream_of(eng, lambda context: context.blocks.update("self", "Three.", data={"mood": "tired"}))
    dream_of(eng, lambda context: context.blocks.delete("self"))
    eng.dreams.undo()
    block = eng.blocks.get("self")
    assert block is not None and block.data == {"mood": "tired"}
    eng.dreams.undo()
    assert (eng.blocks.get("self"), eng.blocks.versions("self")) == before
    assert eng.blocks.verify("self") == 2


@pytest.mark.requirement("BLOCK-13", "UNDO-2")
def test_data_that_changed_since_blocks_an_undo(eng: Engram, store_url: str) -> None:
    from engram import UndoBlocked

    eng.blocks.create("self", "One.", data={"mood": "calm"})
    dream_of(eng, lambda context: context.blocks.update("self", "Two."))
    run(store_url, "UPDATE blocks SET data = '{}'")
    with pytest.raises(UndoBlocked, match="its data was changed"):
        eng.dreams.undo()


@pytest.mark.requirement("BLOCK-13", "FORGET-2")
def test_forgetting_takes_what_was_said_out_of_the_data_and_leaves_the_rest(eng: Engram, store_url: str) -> None:
    session = eng.sessions.register("lyra", "talk")
    said = eng.exchanges.add(session, "user", "My brother lives in quixadrol.")
    eng.blocks.create("self", "I keep notes.")
    dream_of(
        eng,
        lambda context: context.blocks.derive("self", "He told me. [e1]", "said", "dream", 100, [("exchange", said)]),
    )
    state = {"mood": "calm", "told": ["My brother lives in quixadrol.", "He likes tea in the morning."]}
    eng.blocks.update("self", data=state, actor="lyra")
    eng.forget(exchange=said)
    block = eng.blocks.get("self")
    assert block is not None
    assert block.data == {"mood": "calm", "told": ["", "He likes tea in the morning."]}
    assert holds(store_url, "quixadrol") == {}


@pytest.mark.requirement("BLOCK-13", "FORGET-2")
def test_old_data_goes_with_the_old_versions(eng: Engram, store_url: str, clock: object) -> None:
    eng.blocks.create("self", data={"old": "quixadrol"})
    eng.blocks.update("self", data={"new": "kept"})
    eng.forget(before="2999-01-01T00:00:00Z")
    assert holds(store_url, "quixadrol") == {}
    block = eng.blocks.get("self")
    assert block is not None and block.data == {"new": "kept"}


@pytest.mark.requirement("BLOCK-13")
def test_a_version_of_an_earlier_release_leaves_the_data_in_place(
    eng: Engram, store_url: str, open_store: Callable[..., Engram]
) -> None:
    """Such a program writes the text and its version, and does not know the data."""
    eng.blocks.create("self", "One.", data=STATE)
    run(store_url, "UPDATE blocks SET content = 'Two.', version = 2")
    run(
        store_url,
        "INSERT INTO block_versions (block_id, version, content, reason, actor, created_at) "
        "SELECT id, 2, 'Two.', '', NULL, created_at FROM blocks",
    )
    assert eng.blocks.verify("self") == 2
    assert eng.blocks.update("self", "Three.").data == STATE
    assert [json.dumps(edit.data) != "null" for edit in eng.blocks.versions("self")] == [True, False, True]


@pytest.mark.requirement("BLOCK-13")
def test_data_nested_too_deeply_are_refused_and_store_nothing(eng: Engram) -> None:
    def deep(levels: int) -> Any:
        data: Any = "end"
        for level in range(levels):
            data = {"in": data} if level % 2 else [data]
        return data

    eng.blocks.create("kept", data=deep(100))
    block = eng.blocks.get("kept")
    assert block is not None and block.data == deep(100)
    itself: list[Any] = []
    itself.append(itself)
    for data in (deep(101), deep(600), itself):
        with pytest.raises(InvalidInput, match="data is nested more than 100 levels deep"):
            eng.blocks.create("refused", data=data)
    assert eng.blocks.get("refused") is None
