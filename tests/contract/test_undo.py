"""Undoing a pass: everything is as it was, or it is said what stands in the way."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from engram import Engram, InvalidInput, LeaseHeld, LeaseLost, UndoBlocked
from engram.coordination.leases import Leases
from engram.dreaming.pass_context import PassContext
from engram.dreaming.undo import journal
from engram.dreaming.undo.reversal import undo_actions
from engram.errors import DreamNotFound
from engram.records import DreamReport
from tests._logical import logical
from tests._passes import SAID, dream, dream_of, talk
from tests.conftest import ShiftedClock


@pytest.mark.requirement("UNDO-1")
def test_everything_a_first_pass_made_is_gone_again(eng: Engram) -> None:
    talk(eng)
    eng.remember("The office is in Bern", tags=["office"])
    before = logical(eng)
    report = dream(eng)
    assert report.gists and report.eras and report.blocks
    undone = eng.dreams.undo()
    assert undone.run == report.id and undone.left == []
    assert {"block profile", "block narrative"} <= set(undone.removed)
    assert logical(eng) == before


@pytest.mark.requirement("UNDO-1")
def test_what_a_later_pass_changed_is_as_the_earlier_one_left_it(eng: Engram, clock: ShiftedClock) -> None:
    session = talk(eng)
    dream(eng)
    clock.advance(3600)
    eng.exchanges.add(session, "user", "I prefer tea to coffee in every meeting about the billing service.")
    talk(eng, "We decided to rewrite the importer in Rust.", summary="importer")
    before = logical(eng)
    dream(eng)
    assert logical(eng) != before
    eng.dreams.undo()
    assert logical(eng) == before


@pytest.mark.requirement("UNDO-1")
def test_passes_are_undone_newest_first_down_to_the_very_beginning(eng: Engram) -> None:
    states, runs = [], []
    for number in range(3):
        talk(eng, f"We decided to move service {number} to Zurich.", summary=f"move {number}")
        states.append(logical(eng))
        runs.append(dream(eng).id)
    for number in (2, 1, 0):
        assert eng.dreams.undo().run == runs[number]
        found = logical(eng)
        # What was said later stays, of course; what dreaming made of it does not.
        for table in ("memories", "memory_versions", "blocks", "block_versions", "gists", "folds", "rebuilds"):
            assert found[table] == states[number][table]
    with pytest.raises(DreamNotFound, match="no pass to undo"):
        eng.dreams.undo()


@pytest.mark.requirement("UNDO-1")
def test_every_kind_of_change_to_memories_and_blocks_comes_back(eng: Engram, clock: ShiftedClock) -> None:
    kept = eng.remember("The office is in Bern", tags=["office"], importance=0.4)
    keyed = eng.remember(
        "The editor is vim", kind="preference", key="editor", data={"since": 2020}, tags=["tools"], pinned=True
    )
    archived = eng.remember("The printer is on floor two")
    eng.memories.archive(archived.id)
    linked = eng.remember("The canteen is in Bern")
    expiring = eng.remember("The lift is broken", expires_at="2999-01-01T00:00:00Z")
    eng.memories.link(kept.id, linked.id, "near")
    eng.blocks.create("plan", "One. Two.")
    eng.blocks.create("old", "Gone soon.")
    eng.backlog.work()
    before = logical(eng)
    clock.advance(60)

    def change(context: PassContext) -> None:
        merged = context.memories.remember(
            "Office and canteen are in Bern", sources=[("memory", kept.id), ("memory", linked.id)]
        )
        context.memories.link(merged.id, kept.id, "merges")
        context.memories.update(kept.id, "The office is in Basel", tags=["moved"], importance=0.9, pinned=True)
        emacs = context.memories.remember("The editor is emacs", kind="preference", key="editor")
        assert (emacs.tags, emacs.pinned) == (("tools",), True)
        context.memories.unarchive(archived.id)
        context.memories.archive(linked.id)
        context.memories.remember("The lift is broken")
        context.blocks.append("plan", " Three.")
        context.blocks.derive("new", "Made.", "why", "dream", 100, {("memory", kept.id)})
        context.blocks.delete("old")

    report = dream_of(eng, change)
    assert eng.memories.get(keyed.id).status == "superseded"
    assert eng.memories.get(expiring.id).reinforced == 1
    undone = eng.dreams.undo(report.id)
    assert logical(eng) == before
    assert "block plan" in undone.restored and "block old" in undone.restored and "block new" in undone.removed


@pytest.mark.requirement("UNDO-1")
@pytest.mark.parametrize("archived", ["loser", "winner"])
def test_a_link_made_by_a_pass_goes_when_the_pass_then_archived_one_of_its_ends(eng: Engram, archived: str) -> None:
    loser, winner = eng.remember("The office is in Basel.").id, eng.remember("The office is in Zurich.").id
    before = logical(eng)
    dream_of(
        eng,
        lambda context: context.memories.supersede(loser, winner),
        lambda context: context.memories.archive(loser if archived == "loser" else winner),
    )
    after = logical(eng)
    undone = eng.dreams.undo()
    assert logical(eng) == before
    eng.dreams.undo(undone.id)
    assert logical(eng) == after


@pytest.mark.requirement("UNDO-6")
def test_taking_back_the_action_that_linked_two_takes_back_what_was_done_to_either_since(eng: Engram) -> None:
    loser, winner = eng.remember("The office is in Basel.").id, eng.remember("The office is in Zurich.").id
    before = logical(eng)
    taken: list[set[int]] = []

    def take_back(context: PassContext) -> None:
        first = context.number - 2
        taken.append({number - first for number in context.undo_actions({first})})

    dream_of(
        eng,
        lambda context: context.memories.supersede(loser, winner),
        lambda context: context.memories.archive(winner),
        take_back,
    )
    assert taken == [{0, 1}]
    assert logical(eng) == before


@pytest.mark.requirement("UNDO-1")
def test_what_came_back_is_found_by_words_and_by_meaning(eng: Engram) -> None:
    memory = eng.remember("The office is in Bern")
    dream_of(
        eng,
        lambda context: context.memories.update(memory.id, "Nothing of the sort"),
        lambda context: context.memories.archive(memory.id),
    )
    assert [hit.memory_id for hit in eng.recall("where is the office?")] == []
    eng.dreams.undo()
    assert [hit.memory_id for hit in eng.recall("where is the office?")] == [memory.id]


@pytest.mark.requirement("UNDO-1")
def test_the_model_may_have_changed_since(open_store: Callable[..., Engram]) -> None:
    eng = open_store(embedder="static")
    memory = eng.remember("The office is in Bern")
    dream_of(eng, lambda context: context.memories.archive(memory.id))
    eng.backlog.work()
    with eng._view.engine.write() as tx:
        tx.run("UPDATE models SET model = 'another' WHERE workspace = :workspace", workspace="default")
    eng.dreams.undo()
    found = logical(eng)
    assert found["vectors"] == [] and found["backlog"] == [("memory", memory.id)]


@pytest.mark.requirement("UNDO-1")
def test_expired_memories_that_a_pass_put_away_come_back_too(eng: Engram, clock: ShiftedClock) -> None:
    memory = eng.remember("The lift is broken", expires_at="2999-01-01T00:00:00Z")
    eng.memories.update(memory.id, expires_at="2020-01-01T00:00:00Z")
    before = logical(eng)
    dream(eng)
    assert eng.memories.get(memory.id).status == "archived"
    eng.dreams.undo()
    assert logical(eng) == before


@pytest.mark.requirement("UNDO-2")
def test_an_undo_can_be_undone_again_and_again(eng: Engram) -> None:
    talk(eng)
    dream(eng)
    talk(eng, "We decided to rewrite the importer in Rust.", summary="importer")
    before = logical(eng)
    report = dream(eng)
    after = logical(eng)
    undone = eng.dreams.undo()
    assert logical(eng) == before
    redone = eng.dreams.undo(undone.id)
    assert logical(eng) == after
    assert eng.dreams.list(1)[0].undone_by is None
    eng.dreams.undo(redone.id)
    assert logical(eng) == before
    assert eng.dreams.list(1)[0].undone_by == undone.id
    eng.dreams.undo(undone.id)
    assert logical(eng) == after
    # And by itself it is the pass again, never an undo.
    assert eng.dreams.undo().run == report.id
    assert logical(eng) == before


@pytest.mark.requirement("UNDO-2")
def test_an_undo_is_a_run_with_a_report_and_reports_stay(eng: Engram) -> None:
    talk(eng)
    report = dream(eng)
    drives, usage = eng.dreams.drives(), eng.usage()
    undone = eng.dreams.undo()
    assert eng.dreams.show(undone.id) == undone
    kept = eng.dreams.show(report.id or 0)
    assert isinstance(kept, DreamReport)
    assert kept == report._replace(undone_by=undone.id)
    assert eng.dreams.list() == [kept]
    assert (eng.dreams.drives(), eng.usage()) == (drives, usage)


@pytest.mark.requirement("UNDO-2")
def test_a_run_is_undone_only_once(eng: Engram) -> None:
    talk(eng)
    report = dream(eng)
    undone = eng.dreams.undo()
    with pytest.raises(UndoBlocked, match=rf"already undone by undo {undone.id}"):
        eng.dreams.undo(report.id)


@pytest.mark.requirement("UNDO-2")
def test_a_run_that_is_not_there_or_changed_nothing_is_refused(eng: Engram) -> None:
    report = dream(eng)
    with pytest.raises(UndoBlocked, match="changed nothing"):
        eng.dreams.undo(report.id)
    with pytest.raises(DreamNotFound):
        eng.dreams.undo(999)
    with pytest.raises(InvalidInput):
        eng.dreams.undo(0)
    with pytest.raises(DreamNotFound, match="no pass to undo"):
        eng.dreams.undo()


@pytest.mark.requirement("UNDO-2")
def test_after_an_undo_the_next_pass_does_the_same_again(eng: Engram) -> None:
    talk(eng)
    dream(eng)
    texts = [memory.content for memory in eng.memories.list(kind="gist")]
    eng.dreams.undo()
    assert eng.dreams.backlog().dirty == 1
    dream(eng)
    assert [memory.content for memory in eng.memories.list(kind="gist")] == texts


Change = Callable[[Engram, int, int], object]

LATER: dict[str, tuple[Change, str]] = {
    "edited": (lambda eng, id, _: eng.memories.update(id, "The office is in Chur"), "text was edited"),
    "unarchived": (lambda eng, id, _: eng.memories.unarchive(id), "status was changed"),
    "tagged": (lambda eng, id, _: eng.memories.update(id, tags=["x"]), "tags were changed"),
    "weighed": (lambda eng, id, _: eng.memories.update(id, importance=0.9), "importance"),
    "described": (lambda eng, id, _: eng.memories.update(id, data={"a": 1}), "data was changed"),
    "linked": (lambda eng, id, other: eng.memories.link(other, id), "it was linked"),
    "sourced": (lambda eng, id, other: eng.memories.update(id, sources=[("memory", other)]), "source"),
    "said again": (lambda eng, _, other: eng.remember("The office is in Bern"), "says the same"),
}


@pytest.mark.requirement("UNDO-3")
@pytest.mark.parametrize("how", LATER)
def test_a_later_change_of_a_memory_stands_in_the_way(eng: Engram, how: str) -> None:
    memory = eng.remember("The office is in Bern")
    other = eng.remember("The canteen is in Thun")
    report = dream_of(eng, lambda context: context.memories.archive(memory.id))
    change, why = LATER[how]
    change(eng, memory.id, other.id)
    before = logical(eng)
    with pytest.raises(UndoBlocked, match=why) as blocked:
        eng.dreams.undo()
    assert logical(eng) == before
    assert blocked.value.run == report.id
    assert {(each.kind, each.ref) for each in blocked.value.obstacles} == {("memory", str(memory.id))}
    assert blocked.value.exit_code == 4
    assert eng.dreams.list(1)[0].undone_by is None


BUILT: dict[str, tuple[Callable[[Engram, int], object], str]] = {
    "reinforced": (lambda eng, _: eng.remember("The editor is vim", kind="preference", key="editor"), "stored again"),
    "superseded": (lambda eng, _: eng.remember("The editor is emacs", kind="preference", key="editor"), "superseded"),
    "built on": (lambda eng, id: eng.remember("Vim it is", sources=[("memory", id)]), r"memory \d+ was made from it"),
}


@pytest.mark.requirement("UNDO-3")
@pytest.mark.parametrize("how", BUILT)
def test_what_was_built_on_a_new_memory_stands_in_the_way(eng: Engram, how: str) -> None:
    dream_of(eng, lambda context: context.memories.remember("The editor is vim", kind="preference", key="editor"))
    (memory,) = eng.memories.list(kind="preference")
    build, why = BUILT[how]
    build(eng, memory.id)
    before = logical(eng)
    with pytest.raises(UndoBlocked, match=why):
        eng.dreams.undo()
    assert logical(eng) == before


@pytest.mark.requirement("UNDO-3")
@pytest.mark.parametrize("how", ["edited", "deleted", "made anew"])
def test_a_later_change_of_a_block_stands_in_the_way(eng: Engram, how: str) -> None:
    eng.blocks.create("plan", "One.")
    dream_of(eng, lambda context: context.blocks.append("plan", " Two."))
    if how == "edited":
        eng.blocks.append("plan", " Three.")
    else:
        eng.blocks.delete("plan")
    if how == "made anew":
        eng.blocks.create("plan", "Other.")
    with pytest.raises(UndoBlocked, match="edited" if how == "edited" else "it was deleted"):
        eng.dreams.undo()


@pytest.mark.requirement("UNDO-3")
def test_a_later_pass_stands_in_the_way_and_is_named(eng: Engram) -> None:
    session = talk(eng)
    first = dream(eng)
    before = logical(eng)
    eng.exchanges.add(session, "user", "I prefer tea to coffee in every meeting about the billing service.")
    second = dream(eng)
    with pytest.raises(UndoBlocked, match=f"pass {second.id} changed it too: undo that first"):
        eng.dreams.undo(first.id)
    eng.dreams.undo(second.id)
    assert logical(eng)["memories"] == before["memories"]
    eng.dreams.undo(first.id)
    assert eng.memories.list() == []


@pytest.mark.requirement("UNDO-3")
def test_an_older_pass_can_be_undone_alone_when_nothing_built_on_it(eng: Engram) -> None:
    one, two = eng.remember("The office is in Bern"), eng.remember("The canteen is in Thun")
    first = dream_of(eng, lambda context: context.memories.archive(one.id))
    dream_of(eng, lambda context: context.memories.archive(two.id))
    eng.dreams.undo(first.id)
    assert [eng.memories.get(each.id).status for each in (one, two)] == ["active", "archived"]


@pytest.mark.requirement("UNDO-3")
def test_recalling_a_memory_does_not_stand_in_the_way(eng: Engram) -> None:
    memory = eng.remember("The office is in Bern")
    dream_of(eng, lambda context: context.memories.update(memory.id, "The office is in Bern now"))
    eng.recall("where is the office?")
    assert eng.memories.get(memory.id).recalled == 1
    eng.dreams.undo()
    found = eng.memories.get(memory.id)
    assert (found.content, found.recalled) == ("The office is in Bern", 1)


@pytest.mark.requirement("UNDO-3")
def test_what_is_said_later_does_not_stand_in_the_way(eng: Engram) -> None:
    session = talk(eng)
    dream(eng)
    eng.exchanges.add(session, "user", "And one thing more.")
    eng.remember("The office is in Bern")
    eng.dreams.undo()
    assert [memory.content for memory in eng.memories.list()] == ["The office is in Bern"]
    assert len(eng.memories.unsummarised(session)) == len(SAID) + 1


@pytest.mark.requirement("UNDO-4")
def test_nobody_undoes_while_somebody_dreams(eng: Engram) -> None:
    talk(eng)
    dream(eng)
    session = eng.sessions.register("dream", "dreaming")
    eng.leases.claim(session, "dream", exclusive=True, ttl=60)
    before = logical(eng)
    with pytest.raises(LeaseHeld):
        eng.dreams.undo()
    assert logical(eng) == before


@pytest.mark.requirement("UNDO-4")
def test_other_workspaces_are_untouched(eng: Engram) -> None:
    other = eng.workspace("other")
    for each in (eng, other):
        talk(each)
        dream(each)
    before = logical(other)
    eng.dreams.undo()
    assert logical(other) == before
    assert eng.memories.list() == []
    run = other.dreams.list()[0].id
    with pytest.raises(DreamNotFound):
        eng.dreams.undo(run)


class Killed(BaseException):
    """As if the process had died there."""


@pytest.mark.requirement("UNDO-4")
def test_an_undo_that_is_killed_at_any_statement_leaves_everything_as_it_was(
    eng: Engram, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk(eng)
    dream(eng)
    after = logical(eng)
    with eng._view.engine.write() as tx:
        kind = type(tx)
    run, left = kind.run, [0]

    def dying(self: object, sql: str, **values: object) -> int:
        left[0] -= 1
        if left[0] == 0 and not sql.lstrip().startswith(("UPDATE leases", "UPDATE sessions SET status")):
            raise Killed
        return run(self, sql, **values)  # type: ignore[arg-type]

    kills = 0
    for step in range(1, 2_000, 11):
        left[0] = step
        with monkeypatch.context() as patched:
            patched.setattr(kind, "run", dying)
            try:
                undone = eng.dreams.undo()
            except Killed:
                kills += 1
                assert logical(eng) == after
                continue
        break
    assert kills > 5
    assert undone.removed and eng.memories.list() == []


@pytest.mark.requirement("UNDO-4")
def test_a_pass_that_died_half_way_can_be_undone(eng: Engram) -> None:
    memory = eng.remember("The office is in Bern")
    before = logical(eng)

    def die(context: PassContext) -> None:
        context.memories.archive(memory.id)
        raise Killed

    with pytest.raises(Killed):
        dream_of(eng, lambda context: context.memories.update(memory.id, "Edited"), die)
    assert eng.memories.get(memory.id).content == "Edited"
    assert eng.memories.get(memory.id).status == "active"
    eng.dreams.undo()
    assert logical(eng) == before


@pytest.mark.requirement("UNDO-6")
def test_single_actions_of_a_pass_are_undone_with_those_that_built_on_them(eng: Engram) -> None:
    one, two = eng.remember("The office is in Bern"), eng.remember("The canteen is in Thun")
    undone: list[set[int]] = []
    numbers: list[int] = []

    def numbered(change: Callable[[PassContext], object]) -> Callable[[PassContext], object]:
        def step(context: PassContext) -> None:
            numbers.append(context.journal.action)
            change(context)

        return step

    def take_back(context: PassContext) -> None:
        undone.append(undo_actions(context.view, context.journal.dream, {numbers[0]}))

    before = logical(eng)
    dream_of(
        eng,
        numbered(lambda context: context.memories.update(one.id, "The office is in Basel")),
        numbered(lambda context: context.memories.archive(two.id)),
        numbered(lambda context: context.memories.remember("In Basel", sources=[("memory", one.id)], tags=["x"])),
        numbered(lambda context: context.memories.update(one.id, tags=["moved"])),
        take_back,
    )
    assert undone == [{numbers[0], numbers[3]}]
    assert eng.memories.get(one.id).content == "The office is in Bern"
    assert eng.memories.get(two.id).status == "archived"
    eng.dreams.undo()
    assert logical(eng) == before


@pytest.mark.requirement("UNDO-6")
def test_undoing_what_made_a_memory_undoes_what_was_made_of_it(eng: Engram) -> None:
    made: list[int] = []
    undone: list[set[int]] = []
    before = logical(eng)

    def make(context: PassContext) -> None:
        made.append(context.memories.remember("The office is in Bern").id)

    def build(context: PassContext) -> None:
        context.memories.remember("Bern it is", sources=[("memory", made[0])])

    def other(context: PassContext) -> None:
        context.memories.remember("The canteen is in Thun")

    def take_back(context: PassContext) -> None:
        first = context.journal.action - 3
        undone.append({action - first for action in undo_actions(context.view, context.journal.dream, {first})})

    dream_of(eng, make, build, other, take_back)
    assert undone == [{0, 1}]
    assert [memory.content for memory in eng.memories.list()] == ["The canteen is in Thun"]
    eng.dreams.undo()
    assert logical(eng) == before


@pytest.mark.requirement("UNDO-6")
def test_single_actions_are_not_undone_over_somebody_elses_change(eng: Engram) -> None:
    memory = eng.remember("The office is in Bern")
    report = dream_of(eng, lambda context: context.memories.archive(memory.id))
    eng.memories.update(memory.id, importance=0.9)
    with eng._view.engine.read() as tx:
        actions = {entry.action for entry in journal.entries(tx, "default", report.id or 0)}
    with pytest.raises(UndoBlocked, match="importance"):
        undo_actions(eng._view, report.id or 0, actions)
    assert eng.memories.get(memory.id).status == "archived"


def _write(id: int, text: str, context: PassContext) -> None:
    context.memories.update(id, text)


@pytest.mark.requirement("UNDO-7")
def test_images_are_kept_of_the_last_passes_that_changed_something(
    eng: Engram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "KEPT_DREAMS", 3)
    memory = eng.remember("Version 0")
    runs = []
    for number in range(5):
        text = f"Version {number + 1}"
        runs.append(dream_of(eng, partial(_write, memory.id, text)).id)
        dream_of(eng)  # changes nothing, and does not count
    with eng._view.engine.read() as tx:
        kept = [run for run in runs if journal.entries(tx, "default", run or 0)]
    assert kept == runs[-3:]
    for _ in kept[:-1]:
        eng.dreams.undo()
    with pytest.raises(UndoBlocked, match="too long ago"):
        eng.dreams.undo(runs[0])


@pytest.mark.requirement("UNDO-7")
def test_the_journal_holds_only_what_was_changed(eng: Engram) -> None:
    for number in range(30):
        eng.remember(f"Memory number {number}")
    memory = eng.remember("The office is in Bern")
    report = dream_of(eng, lambda context: context.memories.archive(memory.id))
    with eng._view.engine.read() as tx:
        noted = journal.entries(tx, "default", report.id or 0)
    assert [entry.thing for entry in noted] == [("memory", str(memory.id))]


@pytest.mark.requirement("UNDO-4")
def test_an_undo_writes_nothing_once_its_lease_is_lost(eng: Engram, monkeypatch: pytest.MonkeyPatch) -> None:
    talk(eng)
    dream(eng)
    before = logical(eng)
    fence = Leases.fence

    def lost(self: Leases, tx: object, token: int) -> None:
        fence(self, tx, token)  # type: ignore[arg-type]
        raise LeaseLost("broken meanwhile", token, "broken")

    monkeypatch.setattr(Leases, "fence", lost)
    with pytest.raises(LeaseLost):
        eng.dreams.undo()
    assert logical(eng) == before


@pytest.mark.requirement("UNDO-7")
def test_images_keep_no_history_that_is_there_anyway(eng: Engram) -> None:
    def grow(context: PassContext) -> None:
        context.blocks.append("plan", "More. ")

    eng.blocks.create("plan", "One. ")
    for _ in range(5):
        dream_of(eng, grow)
    before = logical(eng)

    def change(context: PassContext) -> None:
        context.blocks.append("plan", "Last. ")
        context.blocks.delete("plan")

    report = dream_of(eng, grow, change)
    with eng._view.engine.read() as tx:
        sizes = [len((entry.before or {})["versions"]) for entry in journal.entries(tx, "default", report.id or 0)]
    # It is deleted, so the images now have all of it; those of the passes before have none.
    assert sizes == [6, 7]
    with eng._view.engine.read() as tx:
        (entry,) = journal.entries(tx, "default", (report.id or 0) - 1)
    assert (entry.before or {})["versions"] == []
    eng.dreams.undo()
    assert logical(eng) == before
