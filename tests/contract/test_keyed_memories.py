"""Memories under keys, as stores of other programs use them: looked up, locked, listed by change, given an end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from engram import Engram, InvalidInput, MemoryNotFound, PersonNeeded
from engram.clock import later
from engram.records import Hit
from tests.conftest import ShiftedClock

Open = Callable[..., Engram]


@pytest.fixture
def eng(open_store: Open) -> Engram:
    return open_store(embedder="none")


def test_a_key_finds_the_active_memory_of_its_kind(eng: Engram) -> None:
    first = eng.remember("The port is 80", kind="setting", key="port", tags=["net", "a"])
    eng.remember("The port is open", kind="note", key="port")
    eng.workspace("other").remember("The port is 1", kind="setting", key="port")
    assert eng.memories.by_key("setting", "port") == first
    second = eng.remember("The port is 81", kind="setting", key="port")
    assert eng.memories.by_key("setting", "port") == second
    eng.memories.archive(second.id)
    assert eng.memories.by_key("setting", "port") is None
    assert eng.memories.by_key("setting", "por") is None
    with pytest.raises(InvalidInput, match="key"):
        eng.memories.by_key("setting", "x" * 201)


def test_what_was_read_under_the_lock_still_holds_at_the_commit(open_store: Open) -> None:
    engines = [open_store(embedder="none") for _ in range(3)]
    together = threading.Barrier(len(engines))

    def count(eng: Engram) -> None:
        together.wait()
        for _ in range(5):
            with eng.write():
                found = eng.memories.by_key("counter", "visits", lock=True)
                if found is None:
                    eng.remember("visits", kind="counter", key="visits", data=1)
                else:
                    assert isinstance(found.data, int)
                    eng.memories.update(found.id, data=found.data + 1)

    with ThreadPoolExecutor() as pool:
        list(pool.map(count, engines))
    (counter,) = engines[0].memories.list(kind="counter")
    assert counter.data == 15


def test_the_time_is_the_stores(eng: Engram, clock: ShiftedClock) -> None:
    before = eng.now()
    clock.advance(3_600)
    assert later(before, 3_600) <= eng.now() < later(before, 3_700)


def test_giving_a_memory_an_end_is_no_edit(eng: Engram, clock: ShiftedClock) -> None:
    made = eng.remember("Guests until Sunday")
    clock.advance(5)
    end = later(eng.now(), 60)
    last = eng.changes()[-1].number
    eng.memories.expire(made.id, end)
    assert eng.memories.get(made.id) == made._replace(expires_at=end)
    assert [(change.what, change.id) for change in eng.changes(after=last)] == [("memory", str(made.id))]
    clock.advance(61)
    assert eng.memories.list() == []
    eng.memories.expire(made.id, None)
    assert eng.memories.list() == [made]
    with pytest.raises(MemoryNotFound):
        eng.memories.expire(made.id + 1, None)
    with pytest.raises(InvalidInput, match="expiry time"):
        eng.memories.expire(made.id, "soon")


def test_only_a_person_lets_end_what_a_person_approved(eng: Engram) -> None:
    made = eng.remember("Never deploy on Fridays", by_person=True, expires_at="2999-01-01")
    with pytest.raises(PersonNeeded):
        eng.memories.expire(made.id, "2998-01-01")
    eng.memories.expire(made.id, "2998-01-01", by_person=True)
    eng.memories.expire(made.id, None)
    assert eng.memories.get(made.id).expires_at is None


def test_what_has_expired_can_be_listed_and_is_still_found_under_its_key(eng: Engram, clock: ShiftedClock) -> None:
    over = eng.remember("old", key="k", expires_at=later(eng.now(), 60))
    other = eng.remember("older", tags=["x"], expires_at=later(eng.now(), 61))
    kept = eng.remember("kept", tags=["x"])
    assert eng.memories.list(expired=True) == []
    clock.advance(120)
    assert eng.memories.list(expired=True) == [other, over]
    assert eng.memories.list(expired=True, tag="x") == [other]
    assert eng.memories.list() == eng.memories.list(tag="x") == [kept]
    assert eng.memories.by_key("note", "k") == over
    assert eng.memories.sweep() == 2
    assert {memory.id for memory in eng.memories.list(expired=True, status="archived")} == {over.id, other.id}


def test_a_list_can_begin_with_what_changed_last(eng: Engram, clock: ShiftedClock) -> None:
    ids = []
    for number in range(4):
        ids.append(eng.remember(f"thing {number}", tags=["even"] if number % 2 == 0 else ["odd", "more"]).id)
        clock.advance(1)
    one, two, three, four = ids
    eng.memories.update(one, importance=0.9)
    clock.advance(1)
    eng.memories.update(two, importance=0.9)
    assert [memory.id for memory in eng.memories.list(latest=True)] == [two, one, four, three]
    assert [memory.id for memory in eng.memories.list(latest=True, limit=3)] == [two, one, four]
    assert [memory.id for memory in eng.memories.list(latest=True, tag="even")] == [one, three]
    assert [memory.id for memory in eng.memories.list(tag="even")] == [three, one]
    assert [memory.tags for memory in eng.memories.list(tag="odd")] == [("more", "odd"), ("more", "odd")]
    with pytest.raises(InvalidInput, match="latest and at"):
        eng.memories.list(latest=True, at=eng.now())


@pytest.mark.parametrize("mode", ["hybrid", "words", "vectors"])
def test_a_tag_that_few_have_gives_the_same_hits_as_one_that_many_have(
    open_store: Open, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    eng = open_store()
    sid = eng.sessions.register("codex", "Music")
    eng.exchanges.add(sid, "user", "The user plays jazz on the piano")
    # Long enough for several pieces, of which each hit shows one.
    long = " ".join(f"The user walks to station {number}." for number in range(40)) + " The user plays jazz."
    with eng.write():
        for number in range(12):
            tags = ["rare", "both"] if number % 4 == 0 else ["common", "both"]
            eng.remember(f"The user plays jazz number {number}", tags=tags)
        eng.remember("Bread is baked on Sundays", tags=["rare"])
        eng.remember(long, tags=["rare", "both"])

    def hits(*tags: str) -> list[Hit]:
        found = eng.recall("which music does the user play", 10, tags=tags, mode=mode, note=False)
        return [hit._replace(age=0) for hit in found]

    few = [hits("rare"), hits("rare", "both"), hits("both", "rare"), hits("nobody has it")]
    monkeypatch.setattr("engram.memory.recall._FEW_TAGGED", 0)
    many = [hits("rare"), hits("rare", "both"), hits("both", "rare"), hits("nobody has it")]
    assert few == many
    # Bread has no common word, so only meaning can find it.
    assert [len(found) for found in few] == [4 if mode == "words" else 5, 4, 4, 0]
    assert few[1] == few[2]


def test_a_pass_leaves_the_items_of_stores_alone(open_store: Open, clock: ShiftedClock) -> None:
    eng = open_store(dream_consolidate="apply", dream_resolve_conflicts="on")
    kept = [
        eng.remember("The staging port is 8080", kind="store-item", key="a", importance=0.1),
        eng.remember("The staging port is 9090", kind="store-item", key="b", importance=0.1),
        eng.remember("the staging port is 8080", kind="store-item", importance=0.1),
    ]
    clock.advance(400 * 86_400)
    assert not eng.is_dream_due()
    (report,) = eng.dream(force=True)
    assert report.errors == []
    assert eng.memories.list(kind="store-item") == kept[::-1]
    assert eng.proposals.list() == []
