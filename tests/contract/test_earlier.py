"""Memories and blocks as they were at a time, and when a memory was last confirmed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engram import BlockNotFound, Engram, InvalidInput, Memory, MemoryNotFound
from engram.operations import OPERATIONS, run
from tests.conftest import ShiftedClock

#: Times are compared as text, so each step is long enough to be seen.
STEP = 60


@pytest.fixture
def eng(open_store: Callable[..., Engram]) -> Engram:
    return open_store(embedder="none")


def after(eng: Engram, clock: ShiftedClock) -> str:
    """The present time, with nothing at it and nothing just after it."""
    clock.advance(STEP)
    at = eng.now()
    clock.advance(STEP)
    return at


def then(eng: Engram, operation: str, **given: object) -> Any:
    return run(eng, OPERATIONS[operation], given)["result"]


@pytest.mark.requirement("MEMORY-11")
def test_a_memory_is_listed_and_shown_as_it_was(eng: Engram, clock: ShiftedClock) -> None:
    never = eng.now()
    clock.advance(STEP)
    old = eng.remember("Deploys happen on Fridays", key="day", tags=["deploy"], importance=0.3)
    other = eng.remember("The router is written in Rust", kind="decision")
    first = after(eng, clock)
    eng.memories.update(old.id, "Deploys happen on Thursdays", tags=["release"], importance=0.9, pinned=True)
    eng.memories.link(old.id, other.id)
    second = after(eng, clock)
    new = eng.remember("Deploys never happen", key="day")
    eng.memories.archive(other.id)
    shown = {at: {each.id: each for each in eng.memories.list(at=at)} for at in (never, first, second, eng.now())}
    assert [list(each) for each in shown.values()] == [[], [other.id, old.id], [other.id, old.id], [new.id]]
    was, became = shown[first][old.id], shown[second][old.id]
    assert (was.content, was.version, was.tags, was.importance, was.pinned) == (old.content, 1, ("deploy",), 0.3, False)
    assert (became.content, became.version, became.tags, became.pinned) == (
        "Deploys happen on Thursdays", 2, ("release",), True,
    )  # fmt: skip
    assert became.superseded_by is None and eng.memories.get(old.id).superseded_by == new.id
    assert [each.id for each in eng.memories.list(at=second, tag="release")] == [old.id]
    assert eng.memories.list(at=first, tag="release") == [] == eng.memories.list(at=first, pinned=True)
    assert eng.memories.get(old.id, at=first) == was
    assert then(eng, "memory.list", at=first, kind="decision")[0]["id"] == other.id
    assert [then(eng, "memory.show", id=old.id, at=at)["content"] for at in (first, second)] == [
        was.content,
        became.content,
    ]
    with pytest.raises(MemoryNotFound, match="did not exist at"):
        eng.memories.get(old.id, at=never)
    with pytest.raises(InvalidInput, match="latest and at cannot be combined"):
        eng.memories.list(at=first, latest=True)


@pytest.mark.requirement("MEMORY-11")
def test_versions_sources_and_links_are_those_of_the_time(eng: Engram, clock: ShiftedClock) -> None:
    sid = eng.sessions.register("codex", "Porting")
    turns = [eng.exchanges.add(sid, "user", text, embed=False) for text in ("I like tea", "I like green tea")]
    memory = eng.remember("Likes tea", sources=[("exchange", turns[0])])
    other = eng.remember("Likes coffee")
    first = after(eng, clock)
    eng.memories.update(memory.id, "Likes green tea", sources=[("exchange", turns[1])])
    eng.memories.link(memory.id, other.id, "contradicts")
    shown = then(eng, "memory.show", id=memory.id, at=first)
    assert (shown["sources"], shown["links"]) == ([["exchange", turns[0]]], [])
    assert [each["content"] for each in shown["history"]] == ["Likes tea"]
    shown = then(eng, "memory.show", id=memory.id)
    assert (len(shown["sources"]), len(shown["links"]), len(shown["history"])) == (2, 1, 2)
    assert eng.memories.sources(memory.id, at=first) == [("exchange", turns[0])]
    for asked in (eng.memories.history, eng.memories.links, eng.memories.sources):
        with pytest.raises(MemoryNotFound):
            asked(memory.id, at="2001-01-01")
        with pytest.raises(InvalidInput):
            asked(memory.id, at="some day")


@pytest.mark.requirement("MEMORY-11")
def test_pages_of_the_past_have_everything_once(eng: Engram, clock: ShiftedClock) -> None:
    ids = [
        eng.remember(f"Fact {number}", kind="fact" if number % 3 else "note", tags=["odd"] if number % 2 else []).id
        for number in range(25)
    ]
    first = after(eng, clock)
    for id in ids[::4]:
        eng.memories.archive(id)
    eng.remember("A later fact", kind="fact")
    for filters, wanted in (
        ({}, ids),
        ({"kind": "fact"}, [id for place, id in enumerate(ids) if place % 3]),
        ({"tag": "odd"}, ids[1::2]),
    ):
        found: list[int] = []
        cursor: dict[str, object] = {}
        while True:
            page = run(eng, OPERATIONS["memory.list"], {"at": first, "limit": 4, **filters, **cursor})
            found += [each["id"] for each in page["result"]]  # type: ignore[attr-defined]
            if page["next"] is None:
                break
            cursor = {"cursor": page["next"]}
        assert found == wanted[::-1]
        assert [each.id for each in eng.memories.list(at=first, **filters)] == found  # type: ignore[arg-type]


@pytest.mark.requirement("MEMORY-11")
def test_few_that_match_are_found_among_many_that_do_not(eng: Engram, clock: ShiftedClock) -> None:
    wanted = eng.remember("The one", tags=["rare"], project="acme/shop")
    for number in range(450):
        eng.remember(f"Another {number}", project="acme/blog", embed=False)
    first = after(eng, clock)
    for filters in ({"tag": "rare"}, {"project": "acme/shop"}):
        assert [each.id for each in eng.memories.list(at=first, limit=1, **filters)] == [wanted.id]  # type: ignore[arg-type]
    assert len(eng.memories.list(at=first)) == 451
    assert [each.id for each in eng.memories.list(at=first, limit=2)] == [wanted.id + 450, wanted.id + 449]


@pytest.mark.requirement("MEMORY-11")
def test_what_was_forgotten_is_not_in_the_past_either(eng: Engram, clock: ShiftedClock) -> None:
    memory = eng.remember("The vault code is nine four seven")
    eng.blocks.create("notes", "The vault code is nine four seven")
    first = after(eng, clock)
    eng.forget(memory=memory.id)
    eng.forget(block="notes")
    assert eng.memories.list(at=first) == [] == eng.blocks.list(at=first)
    assert eng.blocks.get("notes", at=first) is None
    with pytest.raises(MemoryNotFound):
        eng.memories.get(memory.id, at=first)


@pytest.mark.requirement("BLOCK-14")
def test_a_block_is_read_as_it_was(eng: Engram, clock: ShiftedClock) -> None:
    never = eng.now()
    clock.advance(STEP)
    me = eng.sessions.register("codex", "Writing")
    made = eng.blocks.create("plan", "one", data={"step": 1})
    first = after(eng, clock)
    changed = eng.blocks.update("plan", "two", actor=me, data={"step": 2})
    eng.world.set("As planned")
    second = after(eng, clock)
    eng.blocks.rename({"plan": "roadmap"})
    assert eng.blocks.get("roadmap", at=never) is None and eng.blocks.list(at=never) == []
    assert eng.blocks.get("roadmap", at=first) == made._replace(name="roadmap")
    assert eng.blocks.get("roadmap", at=second) == changed._replace(name="roadmap")
    assert (changed.updated_by, changed.data) == (me, {"step": 2})
    assert eng.blocks.get("roadmap", at=eng.now()) == eng.blocks.get("roadmap")
    assert eng.blocks.get("roadmap", at="2999-01-01") == eng.blocks.get("roadmap")
    assert [each.name for each in eng.blocks.list(at=first)] == ["roadmap"]
    assert eng.blocks.list(at=eng.now()) == eng.blocks.list()
    assert then(eng, "block.view", name="roadmap", at=first)["content"] == "one"
    assert [each["version"] for each in then(eng, "block.list", at=second)] == [2, 1]
    with pytest.raises(BlockNotFound, match="was no block 'roadmap'"):
        then(eng, "block.view", name="roadmap", at=never)
    with pytest.raises(InvalidInput, match="version and at cannot be combined"):
        then(eng, "block.view", name="roadmap", at=first, version=1)
    with pytest.raises(InvalidInput, match="at is 'some day'"):
        eng.blocks.get("roadmap", at="some day")
    assert eng.workspace("other").blocks.list(at=second) == []


@pytest.mark.requirement("BLOCK-14")
def test_a_forgotten_version_of_a_block_is_blank(eng: Engram, clock: ShiftedClock) -> None:
    eng.blocks.create("notes", "The vault code is nine four seven", data={"code": "nine four seven"})
    first = after(eng, clock)
    eng.blocks.update("notes", "Nothing", data={})
    receipt = eng.forget(before=first)
    assert eng.blocks.versions("notes")[-1].receipt == receipt.id
    was = eng.blocks.get("notes", at=first)
    assert was is not None and (was.version, was.content, was.data) == (1, "", None)
    now = eng.blocks.get("notes", at=eng.now())
    assert now is not None and (now.version, now.content) == (2, "Nothing")


def confirmed(eng: Engram, memory: Memory) -> str:
    now = eng.memories.get(memory.id)
    assert {each.confirmed_at for each in eng.memories.list(status=now.status) if each.id == now.id} == {
        now.confirmed_at
    }
    assert eng.memories.get(memory.id, at=eng.now()).confirmed_at == now.confirmed_at
    return now.confirmed_at


@pytest.mark.requirement("MEMORY-16")
def test_storing_editing_and_approving_confirm_a_memory_and_archiving_does_not(
    eng: Engram, clock: ShiftedClock
) -> None:
    memory = eng.remember("Deploys happen on Fridays", tags=["deploy"])
    stored = confirmed(eng, memory)
    assert stored == memory.created_at
    clock.advance(STEP)
    again = eng.remember("deploys happen on fridays").updated_at
    assert confirmed(eng, memory) == again > stored
    clock.advance(STEP)
    edited = eng.memories.update(memory.id, "Deploys happen on Thursdays").updated_at
    assert confirmed(eng, memory) == edited > again
    clock.advance(STEP)
    eng.memories.approve(memory.id)
    approved = eng.memories.states(memory.id)[0].at
    assert confirmed(eng, memory) == approved > edited
    assert eng.memories.list(tag="deploy")[0].confirmed_at == eng.memories.list(latest=True)[0].confirmed_at == approved
    clock.advance(STEP)
    eng.memories.archive(memory.id)
    assert confirmed(eng, memory) == approved
    clock.advance(STEP)
    eng.memories.used([memory.id])
    eng.memories.expire(memory.id, "2999-01-01", by_person=True)
    assert confirmed(eng, memory) == approved
    back = eng.memories.unarchive(memory.id)
    assert confirmed(eng, memory) == back.updated_at > approved


@pytest.mark.requirement("MEMORY-16")
def test_a_withdrawn_approval_confirms_nothing_and_a_new_one_does(eng: Engram, clock: ShiftedClock) -> None:
    memory = eng.remember("Deploys happen on Fridays")
    clock.advance(STEP)
    eng.memories.approve(memory.id)
    once = confirmed(eng, memory)
    between = after(eng, clock)
    eng.memories.withdraw(memory.id)
    assert confirmed(eng, memory) == memory.created_at
    clock.advance(STEP)
    eng.memories.approve(memory.id)
    assert confirmed(eng, memory) == eng.memories.states(memory.id)[0].at > once > memory.created_at
    assert eng.memories.get(memory.id, at=between).confirmed_at == once
    assert eng.memories.get(memory.id, at=memory.created_at).confirmed_at == memory.created_at


@pytest.mark.requirement("MEMORY-16")
def test_a_replaced_memory_was_confirmed_when_its_text_was_written(eng: Engram, clock: ShiftedClock) -> None:
    old = eng.remember("The door is open", key="door")
    clock.advance(STEP)
    eng.remember("The door is shut", key="door")
    assert confirmed(eng, old) == old.created_at
