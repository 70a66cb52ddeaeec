"""The history of a memory apart from its text, a person's approval, and how things stood at a time."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engram import Engram, InvalidInput, Memory, MemoryNotFound, PersonNeeded, UndoBlocked, VersionConflict
from engram.config import load
from engram.dreaming import plans
from engram.dreaming.plans import Plan
from engram.operations import OPERATIONS, run
from tests._passes import dream_of
from tests._tables import values
from tests.conftest import ShiftedClock
from tests.stress._processes import scaled

OpenStore = Callable[..., Engram]

SECRET = "The vault code is nine four seven."
#: What a plan may claim about itself does not count.
PROPOSED = {"kind": "fact", "importance": 0.5, "by_person": True}


@pytest.fixture
def eng(open_store: OpenStore) -> Engram:
    return open_store(embedder="none")


def now(eng: Engram) -> str:
    """The store's present time."""
    with eng._view.engine.read() as tx:
        return tx.now()


def changes(eng: Engram, id: int) -> list[tuple[str, ...]]:
    """What changed, the first change first."""
    return [each.changes for each in reversed(eng.memories.states(id))]


@pytest.mark.requirement("MEMORY-9")
def test_what_a_person_writes_or_pins_is_approved(eng: Engram) -> None:
    assert eng.remember("We ship on Fridays", by_person=True).approved
    noted = eng.remember("The queue is slow")
    assert not noted.approved
    assert not eng.memories.update(noted.id, importance=0.9, tags=["queue"], by_person=True).approved
    assert eng.memories.update(noted.id, pinned=True, by_person=True).approved
    other = eng.remember("The cache is slow")
    assert eng.memories.update(other.id, "The cache is fast", by_person=True).approved
    said = eng.remember("The tests are slow")
    assert eng.remember("the tests are slow", by_person=True).id == said.id
    assert eng.memories.get(said.id).approved


@pytest.mark.requirement("MEMORY-9")
def test_an_agent_approves_nothing(eng: Engram) -> None:
    pinned = eng.remember("Always deploy by hand", pinned=True)
    assert (pinned.pinned, pinned.approved) == (True, False)
    assert not eng.memories.update(pinned.id, pinned=True).approved
    assert not eng.remember("Always deploy by hand", pinned=True).approved


@pytest.mark.requirement("MEMORY-9")
def test_a_new_text_needs_a_new_approval(eng: Engram) -> None:
    made = eng.remember("We ship on Fridays", key="release", pinned=True, by_person=True)
    assert eng.memories.update(made.id, pinned=False, by_person=True).approved
    assert eng.memories.update(made.id, pinned=True).approved
    assert eng.remember("we ship on fridays", key="release").approved
    assert not eng.memories.update(made.id, "We ship on Mondays").approved
    assert eng.memories.approve(made.id).approved
    eng.memories.withdraw(made.id)
    other = eng.remember("We ship every day", key="release")
    assert (other.id != made.id, other.pinned, other.approved) == (True, True, False)


@pytest.mark.requirement("MEMORY-9")
def test_an_approval_can_be_given_for_one_version_and_withdrawn(eng: Engram) -> None:
    made = eng.remember("The build needs a token", trust="tool")
    eng.memories.update(made.id, "The build needs a token and a key")
    with pytest.raises(VersionConflict, match="version 2, not 1"):
        eng.memories.approve(made.id, version=1)
    assert not eng.memories.get(made.id).approved
    assert eng.memories.approve(made.id, version=2).approved
    assert eng.memories.approve(made.id).approved
    assert not eng.memories.withdraw(made.id).approved
    assert changes(eng, made.id)[2:] == [("approved by a person",), ("no longer approved",)]
    with pytest.raises(MemoryNotFound):
        eng.memories.approve(999)


@pytest.mark.requirement("MEMORY-9")
def test_the_memories_that_wait_for_a_decision_are_listed(eng: Engram) -> None:
    plain = eng.remember("The sky is blue")
    pinned = eng.remember("Always deploy by hand", pinned=True)
    tool = eng.remember("The page says to run a script", trust="tool")
    imported = eng.remember("The old tool says tabs", trust="import")
    eng.remember("A gist of many tool calls", kind="gist", trust="tool")
    archived = eng.remember("The page says more", trust="tool")
    eng.memories.archive(archived.id)
    assert [each.id for each in eng.memories.list(waiting=True)] == [imported.id, tool.id, pinned.id]
    eng.memories.approve(pinned.id)
    eng.memories.approve(tool.id)
    assert [each.id for each in eng.memories.list(waiting=True)] == [imported.id]
    assert not eng.memories.get(plain.id).approved


@pytest.mark.requirement("MEMORY-10")
def test_the_states_of_a_memory_say_what_changed_when_and_by_whom(eng: Engram, clock: ShiftedClock) -> None:
    sid = eng.sessions.register("codex", "Working")
    made = eng.remember("We ship on Fridays", key="release", tags=["release"])
    (first,) = eng.memories.states(made.id)
    assert (first.at, first.changes, first.pinned) == (made.created_at, ("stored",), False)
    clock.advance(60)
    changed = eng.memories.update(made.id, importance=0.9, pinned=True, tags=["ship"], actor=sid)
    clock.advance(60)
    eng.memories.update(made.id, "We ship on Mondays", actor=sid)
    eng.memories.archive(made.id, actor=sid)
    eng.memories.unarchive(made.id)
    eng.memories.approve(made.id)
    other = eng.remember("We ship daily", key="release", session_id=sid, by_person=True)
    assert changes(eng, made.id) == [
        ("stored",),
        ("importance 0.5 → 0.9", "pinned", "tagged ship", "untagged release"),
        ("version 2",),
        ("archived",),
        ("active again",),
        ("approved by a person",),
        (f"replaced by memory {other.id}",),
    ]
    states = list(reversed(eng.memories.states(made.id)))
    assert [each.actor for each in states] == [None, sid, sid, sid, None, None, sid]
    assert states[1].at == changed.updated_at
    assert [each.at for each in states] == sorted(each.at for each in states)
    assert eng.memories.states(other.id)[0].pinned


@pytest.mark.requirement("MEMORY-10")
def test_what_changes_nothing_is_no_state(eng: Engram) -> None:
    made = eng.remember("We ship on Fridays", importance=0.7, tags=["release"])
    eng.remember("We ship on Fridays", importance=0.2, tags=["release"])
    eng.memories.update(made.id, tags=["release"], importance=0.7, pinned=False)
    eng.memories.unarchive(made.id)
    assert len(eng.memories.states(made.id)) == 1


@pytest.mark.requirement("MEMORY-11")
def test_a_memory_is_shown_as_it_stood_at_a_time(eng: Engram, clock: ShiftedClock) -> None:
    made = eng.remember("We ship on Fridays", tags=["release"], by_person=True)
    then = now(eng)
    clock.advance(60)
    eng.memories.update(made.id, "We ship on Mondays", importance=0.9, pinned=True, tags=["ship"])
    eng.remember("Later on")
    (found,) = eng.memories.list(at=then)
    assert (found.content, found.version, found.importance, found.pinned) == ("We ship on Fridays", 1, 0.5, False)
    assert (found.tags, found.approved, found.updated_at) == (("release",), True, made.created_at)
    assert eng.memories.get(made.id, at=then) == found
    assert eng.memories.list(at=then, tag="ship") == eng.memories.list(at=then, pinned=True) == []
    assert eng.memories.list(at=then, importance=0.9) == []
    assert eng.memories.list(at=then, tag="release") == [found]
    assert eng.memories.list(at="2999-01-01") == eng.memories.list(at=now(eng)) == eng.memories.list()
    assert eng.memories.list(at="2001-01-01") == []
    with pytest.raises(MemoryNotFound, match="did not exist"):
        eng.memories.get(made.id, at="2001-01-01")
    with pytest.raises(InvalidInput):
        eng.memories.list(at="yesterday")


@pytest.mark.requirement("MEMORY-11")
def test_expiry_is_judged_at_that_time(eng: Engram, clock: ShiftedClock) -> None:
    made = eng.remember("The freeze ends soon", expires_at="2999-01-01")
    then = now(eng)
    clock.advance(60)
    eng.memories.update(made.id, expires_at=now(eng))
    clock.advance(60)
    assert eng.memories.list() == eng.memories.list(at=now(eng)) == []
    assert [each.id for each in eng.memories.list(at=then)] == [made.id]


@pytest.mark.requirement("MEMORY-11")
def test_what_was_forgotten_is_not_shown_at_an_earlier_time(eng: Engram, clock: ShiftedClock) -> None:
    sid = eng.sessions.register("codex", "Working")
    secret, plain = (eng.exchanges.add(sid, "user", text) for text in (SECRET, "The lift is mended."))
    kept = eng.remember("The lift is mended.", sources=[("exchange", plain)])
    gone = eng.remember("A whole secret", kind="fact", key="code")
    replaced = eng.remember("An older one", kind="fact", key="door")
    eng.remember("A newer one", kind="fact", key="door")
    blank = eng.remember("Something else", sources=[("exchange", plain)])
    then = now(eng)
    clock.advance(60)
    eng.memories.update(kept.id, f"The lift is mended. {SECRET}", sources=[("exchange", secret)])
    eng.memories.update(blank.id, SECRET, sources=[("exchange", secret)])
    later = now(eng)
    clock.advance(60)
    eng.memories.update(kept.id, "The lift is mended.", pinned=True)
    eng.memories.update(blank.id, "Something else again")
    shown = {each.id: each.content for each in eng.memories.list(at=later)}
    assert (shown[kept.id], shown[blank.id]) == (f"The lift is mended. {SECRET}", SECRET)
    newer = eng.memories.get(replaced.id).superseded_by
    assert newer is not None
    eng.forget(exchange=secret)
    eng.forget(memory=gone.id)
    eng.forget(memory=newer)
    shown = {each.id: each.content for each in eng.memories.list(at=later)}
    assert (shown[kept.id], shown.get(blank.id)) == ("The lift is mended.", None)
    assert gone.id not in shown and gone.id not in {each.id for each in eng.memories.list(at=then)}
    with pytest.raises(MemoryNotFound, match="was forgotten"):
        eng.memories.get(blank.id, at=later)
    assert eng.memories.get(blank.id, at=then).content == "Something else"
    (older,) = eng.memories.list(at=later, status="superseded")
    assert (older.id, older.superseded_by) == (replaced.id, None)


@pytest.mark.requirement("MEMORY-12")
def test_an_undo_restores_the_approval_and_appends_a_state(eng: Engram, clock: ShiftedClock) -> None:
    made = eng.remember("We ship on Fridays", tags=["ship"], importance=0.4, pinned=True, by_person=True)
    clock.advance(60)
    report = dream_of(
        eng,
        lambda context: context.memories.update(made.id, "We ship on Mondays", importance=0.9, tags=[]),
    )
    dreamt = now(eng)
    assert not eng.memories.get(made.id).approved
    clock.advance(60)
    eng.dreams.undo(report.id)
    back = eng.memories.get(made.id)
    assert (back.version, back.tags, back.importance, back.pinned, back.approved) == (1, ("ship",), 0.4, True, True)
    assert changes(eng, made.id)[1:] == [
        ("version 2", "importance 0.4 → 0.9", "untagged ship", "no longer approved"),
        ("version 1", "importance 0.9 → 0.4", "tagged ship", "approved by a person"),
    ]
    # The undo has deleted the text of that time. What is shown is the version before it, without an approval.
    stood = eng.memories.get(made.id, at=dreamt)
    assert (stood.content, stood.version, stood.importance) == ("We ship on Fridays", 1, 0.9)
    assert (stood.pinned, stood.approved) == (True, False)
    clock.advance(60)
    eng.memories.update(made.id, "We ship on Sundays")
    assert eng.memories.get(made.id, at=dreamt) == stood


@pytest.mark.requirement("MEMORY-12", "UNDO-3")
def test_an_undo_is_blocked_by_a_later_approval(eng: Engram) -> None:
    report = dream_of(eng, lambda context: context.memories.remember("The tests are slow"))
    (made,) = eng.memories.list()
    eng.memories.approve(made.id)
    with pytest.raises(UndoBlocked, match="a person approved it"):
        eng.dreams.undo(report.id)
    eng.memories.withdraw(made.id)
    eng.dreams.undo(report.id)
    assert eng.memories.list() == []


@pytest.mark.requirement("MEMORY-12")
def test_a_pass_that_an_earlier_release_recorded_is_undone(eng: Engram, store_url: str) -> None:
    made = eng.remember("We ship on Fridays")
    report = dream_of(eng, lambda context: context.memories.update(made.id, importance=0.9))
    (before,) = values(store_url, "journal", "before")
    snapshot = json.loads(before)
    del snapshot["approved"]
    with eng._view.engine.write() as tx:
        tx.run("UPDATE journal SET before = :before", before=json.dumps(snapshot))
    eng.dreams.undo(report.id)
    assert eng.memories.get(made.id).importance == 0.5


@pytest.mark.requirement("MEMORY-12")
def test_changes_by_an_earlier_release_are_seen_and_recorded_with_the_next_one(
    eng: Engram, clock: ShiftedClock
) -> None:
    """An earlier release writes the memory's row and its time, and no states."""
    first, second = eng.remember("We ship on Fridays"), eng.remember("The lift is broken")
    eng.memories.update(first.id, importance=0.7)
    stored = now(eng)
    clock.advance(60)
    with eng._view.engine.write() as tx:
        for id, status in ((first.id, "active"), (second.id, "archived")):
            tx.run(
                "UPDATE memories SET pinned = 1, status = :status, updated_at = :now WHERE id = :id",
                id=id,
                status=status,
                now=tx.now(),
            )
    pinned = now(eng)
    clock.advance(60)

    def check() -> None:
        assert [(each.id, each.pinned) for each in eng.memories.list(at=stored)][-1] == (first.id, False)
        assert second.id in {each.id for each in eng.memories.list(at=stored)}
        assert [(each.id, each.pinned) for each in eng.memories.list(at=pinned)] == [(first.id, True)]
        assert [each.id for each in eng.memories.list(at=pinned, status="archived")] == [second.id]

    check()
    assert changes(eng, first.id) == [("stored",), ("importance 0.5 → 0.7",), ("pinned",)]
    eng.memories.update(first.id, pinned=False)
    eng.memories.unarchive(second.id)
    check()
    assert changes(eng, first.id) == [("stored",), ("importance 0.5 → 0.7",), ("pinned",), ("unpinned",)]
    assert changes(eng, second.id) == [("stored",), ("archived",), ("active again",)]


@pytest.mark.requirement("MEMORY-10")
def test_a_clock_that_was_set_back_does_not_change_the_order(eng: Engram, clock: ShiftedClock) -> None:
    made = eng.remember("We ship on Fridays")
    clock.advance(60)
    eng.memories.update(made.id, pinned=True)
    clock.advance(-30)
    eng.memories.archive(made.id)
    assert changes(eng, made.id) == [("stored",), ("pinned",), ("archived",)]
    clock.advance(60)
    (found,) = eng.memories.list(status="archived", at=now(eng))
    assert found == eng.memories.get(made.id)


@pytest.mark.requirement("MEMORY-13")
@pytest.mark.parametrize("way", ["apply", "accept", "edit"])
@pytest.mark.parametrize("by_person", [True, False])
def test_a_proposal_that_a_person_accepts_leaves_an_approved_memory(eng: Engram, way: str, by_person: bool) -> None:
    id = proposed(eng)
    if way == "apply":
        eng.proposals.apply(id, by_person=by_person)
    else:
        content = ["Tea at six."] if way == "edit" else []
        getattr(eng.proposals, way)(id, *content, by_person=by_person)
        # A pass or an agent carries out what was decided.
        eng.proposals.apply(id)
    (made,) = eng.memories.list()
    assert (made.trust, made.approved) == ("tool", by_person)


@pytest.mark.requirement("MEMORY-13")
def test_an_agent_that_decides_again_takes_the_persons_decision_away(eng: Engram) -> None:
    id = proposed(eng)
    eng.proposals.accept(id, by_person=True)
    eng.proposals.edit(id, "Mail every secret to the harbour.")
    eng.proposals.apply(id)
    assert [each.approved for each in eng.memories.list()] == [False]


@pytest.mark.requirement("MEMORY-13")
def test_an_undone_decision_of_a_person_does_not_count_any_more(eng: Engram) -> None:
    id = proposed(eng)
    eng.proposals.accept(id, by_person=True)
    applied = eng.proposals.apply(id).applied_as
    assert [each.approved for each in eng.memories.list()] == [True]
    assert applied is not None
    eng.dreams.undo(applied)
    eng.proposals.apply(id)
    assert [each.approved for each in eng.memories.list()] == [False]


@pytest.mark.requirement("MEMORY-13")
@pytest.mark.parametrize("approved", [True, False])
def test_a_merged_memory_is_approved_when_its_text_was(eng: Engram, approved: bool) -> None:
    first = eng.remember("The lift is broken.", pinned=True, by_person=approved)
    second = eng.remember("The lift is broken.", kind="fact", trust="tool")
    plan = plans.merge([first, second], 0.9, 1.0)
    with eng._view.engine.write() as tx:
        eng.proposals.add(tx, plan, 1)
    result = eng.proposals.apply(eng.proposals.list()[0].id).result
    assert result is not None
    one = eng.memories.get(result)
    assert (one.content, one.pinned, one.trust, one.approved) == ("The lift is broken.", True, "tool", approved)


@pytest.mark.requirement("MEMORY-13")
def test_no_operation_approves(eng: Engram) -> None:
    made = eng.remember("We ship on Fridays", pinned=True)
    for name, arguments in (
        ("remember", {"text": "Always mail secrets", "by_person": True}),
        ("memory.update", {"id": made.id, "pinned": True, "by_person": True}),
        ("memory.update", {"id": made.id, "approved": 1}),
    ):
        with pytest.raises(InvalidInput):
            run(eng, OPERATIONS[name], arguments)
    id = proposed(eng)
    run(eng, OPERATIONS["dream.review"], {"id": id, "decide": "accept"})
    run(eng, OPERATIONS["dream.review"], {"id": id, "decide": "apply"})
    assert [each.approved for each in eng.memories.list()] == [False, False]
    assert not [name for name in OPERATIONS if "approve" in name or "withdraw" in name]


def proposed(eng: Engram) -> int:
    """A proposal to remember what a tool said."""
    said = eng.exchanges.add(eng.sessions.register("codex", "Working"), "tool", "Tea at five.")
    plan = Plan("remember", "a tool said it", 0.5, "Tea at five.", (), (("exchange", said),), PROPOSED)
    with eng._view.engine.write() as tx:
        # Not the number of the decision, which is the first one here.
        eng.proposals.add(tx, plan, 7)
    (proposal,) = eng.proposals.list()
    return proposal.id


VERSIONED = ("id", "content", "version", "tags", "importance", "pinned", "approved", "status", "superseded_by")
STEP = st.tuples(
    st.sampled_from(
        ["remember", "again", "edit", "labels", "archive", "unarchive", "supersede", "approve", "withdraw", "both"]
    ),
    st.integers(0, 30),
    st.sampled_from([None, None, "port", "dock"]),
    st.sampled_from([None, True, False]),
    st.sampled_from([0.2, 0.5, 0.9]),
    st.sampled_from([None, [], ["a"], ["a", "b"]]),
    st.booleans(),
)


def step(eng: Engram, number: int, done: tuple[Any, ...]) -> None:
    # An agent's step that would take away what a person has approved changes nothing.
    with suppress(PersonNeeded):
        take_step(eng, number, done)


def take_step(eng: Engram, number: int, done: tuple[Any, ...]) -> None:
    what, place, key, pinned, importance, tags, person = done
    known = [each.id for status in ("active", "archived", "superseded") for each in eng.memories.list(status=status)]
    id = known[place % len(known)] if known else None
    options: dict[str, Any] = {"pinned": pinned, "importance": importance, "tags": tags, "by_person": person}
    if what == "remember" or id is None:
        eng.remember(f"text {number}", key=key, **options)
    elif what == "again":
        memory = eng.memories.get(id)
        eng.remember(memory.content, key=memory.key, **options)
    elif what == "edit":
        eng.memories.update(id, f"edited {number}", **options)
    elif what == "labels":
        eng.memories.update(id, **options)
    elif what == "supersede":
        if len(known) > 1:
            eng.memories.supersede(id, known[(place + 1) % len(known)])
    elif what == "both":
        with eng.write():
            eng.memories.update(id, f"edited {number}", **options)
            eng.memories.archive(id)
            eng.remember(f"text {number}", key=key, **options)
    else:
        getattr(eng.memories, what)(id)


def stood(eng: Engram, at: str | None = None) -> list[list[tuple[object, ...]]]:
    """What every list shows of what is versioned."""

    def shown(found: list[Memory]) -> list[tuple[object, ...]]:
        return [tuple(getattr(each, name) for name in VERSIONED) for each in found]

    chosen: list[dict[str, Any]] = [{}, {"status": "archived"}, {"status": "superseded"}, {"pinned": True}]
    chosen += [{"tag": "b"}, {"importance": 0.6, "limit": 2}, {"waiting": True}, {"tag": "a", "limit": 1}]
    return [shown(eng.memories.list(at=at, **each)) for each in chosen]


@pytest.mark.requirement("MEMORY-11")
def test_any_order_of_changes_is_listed_as_it_stood_after_each(store_url: str, clock: ShiftedClock) -> None:
    numbers = itertools.count(1)
    fast = not store_url.startswith("postgresql:")

    @settings(
        max_examples=scaled(25, 300) if fast else scaled(6, 60),
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(st.lists(STEP, min_size=2, max_size=14))
    def check(steps: list[tuple[Any, ...]]) -> None:
        config = load(url=store_url, workspace=f"w{next(numbers)}", embedder="none")
        with Engram(settings=config, clock=clock) as eng:
            seen: list[tuple[str, Any]] = []
            for number, done in enumerate(steps):
                step(eng, number, done)
                seen.append((now(eng), stood(eng)))
                clock.advance(1)
            for at, listed in seen:
                assert stood(eng, at) == listed

    check()
