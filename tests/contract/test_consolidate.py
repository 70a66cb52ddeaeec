"""Consolidation: duplicates become one, contradictions are decided, dead wood is put away, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engram import Engram, Memory, StoreError
from engram.dreaming import plans
from engram.dreaming.duplicates import candidates
from engram.storage.engine import Transaction

from .._tables import dump
from ..conftest import ShiftedClock

DAY = 86_400.0
Open = Callable[..., Engram]
#: Nothing is too young.
AT_ONCE = {"dream_min_age": 0}
#: What a project decided. No two are alike.
DECISIONS = (
    "Invoices are printed on yellow paper.",
    "The archive closes before lunch.",
    "Visitors sign a book at the gate.",
    "Bicycles stand behind the bakery.",
    "Lamps burn until the last tram.",
    "Parcels wait in the red cupboard.",
    "Coffee is paid by the month.",
    "Windows stay shut in winter.",
)


def consolidate(eng: Engram) -> Any:
    (report,) = eng.dream(force=True, stages=["consolidate"])
    return report


def active(eng: Engram) -> list[Memory]:
    return [memory for memory in eng.memories.list() if memory.kind != "digest"][::-1]


@pytest.mark.requirement("MERGE-1")
def test_by_default_the_same_text_becomes_one_and_the_rest_is_proposed(open_store: Open) -> None:
    eng = open_store(**AT_ONCE)
    eng.remember("The deploy runs on Friday.", kind="note")
    eng.remember("the  deploy runs on FRIDAY.", kind="fact")
    one = eng.remember("Invoices go out with the first train.", kind="note")
    other = eng.remember("Invoices go out with the first train", kind="fact")
    report = consolidate(eng)
    assert (report.groups, report.merged, report.duplicates_merged) == (2, 2, 1)
    assert (report.proposals, report.alarms) == (1, [])
    assert [memory.content for memory in active(eng)] == [one.content, other.content, "The deploy runs on Friday."]
    (proposal,) = eng.proposals.list()
    assert (proposal.what, proposal.targets) == ("merge", (("memory", one.id), ("memory", other.id)))


@pytest.mark.requirement("MERGE-1")
def test_apply_merges_what_says_the_same_and_off_does_nothing(open_store: Open) -> None:
    eng = open_store(**AT_ONCE, dream_consolidate="off")
    eng.remember("Invoices go out with the first train.", kind="note")
    eng.remember("Invoices go out with the first train", kind="fact")
    off = consolidate(eng)
    assert len(active(eng)) == 2
    assert (off.groups, off.merged, off.skipped, off.tokens_saved) == (None, None, None, None)
    report = consolidate(open_store(**AT_ONCE, dream_consolidate="apply"))
    assert [memory.content for memory in active(eng)] == ["Invoices go out with the first train."]
    assert (report.merged, report.proposals) == (2, 0)
    assert (report.tokens_before - report.tokens_after) == report.tokens_saved > 0


@pytest.mark.requirement("MERGE-1")
@pytest.mark.parametrize("policy", ["propose", "apply"])
def test_a_pass_that_only_proposes_changes_no_memory_and_leaves_them_to_the_next_pass(
    open_store: Open, policy: str
) -> None:
    eng = open_store(**AT_ONCE, dream_consolidate=policy)
    for kind in ("note", "fact"):
        eng.remember("The deploy runs on Friday.", kind=kind)
    before = eng.memories.list()
    for proposed in (1, 0):
        (report,) = eng.dream(force=True, stages=["consolidate"], propose_only=True)
        assert (report.groups, report.merged, report.proposals) == (1, 0, proposed)
    (proposal,) = eng.proposals.list()
    eng.proposals.accept(proposal.id)
    eng.dream(force=True, stages=["consolidate"], propose_only=True)
    assert eng.memories.list() == before
    assert consolidate(eng).merged == 2
    assert len(active(eng)) == 1
    assert eng.proposals.list() == []


@pytest.mark.requirement("MERGE-2", "MERGE-3")
def test_a_merge_keeps_all_statements_tags_weights_and_sources(open_store: Open) -> None:
    eng = open_store(**AT_ONCE, dream_consolidate="apply")
    session = eng.sessions.register("claude-code", "talk")
    turn = eng.exchanges.add(session, "user", "The export starts at noon.")
    one = eng.remember("The export starts at noon.", tags=["a"], importance=0.4, key="export", data={"x": 1})
    other = eng.remember(
        "The export starts at noon", kind="fact", tags=["b"], importance=0.9, pinned=True, sources=[("exchange", turn)]
    )
    consolidate(eng)
    (merged,) = active(eng)
    assert (merged.tags, merged.importance, merged.pinned, merged.key) == (("a", "b"), 0.9, True, "export")
    assert eng.memories.sources(merged.id) == [("exchange", turn), ("memory", one.id), ("memory", other.id)]
    assert merged.data == {"x": 1}
    for original in (one, other):
        after = eng.memories.get(original.id)
        assert (after.status, after.superseded_by, after.content) == ("superseded", merged.id, original.content)
        assert (original.id, merged.id, "merged into") in eng.memories.links(original.id)
    hits = eng.recall("when does the export start", 10, what=("memories",), include_archived=True)
    found = {hit.memory_id for hit in hits}
    assert {one.id, other.id, merged.id} <= found


@pytest.mark.requirement("MERGE-2")
def test_what_only_one_of_them_says_is_kept() -> None:
    texts = [
        "The export starts at noon. It takes 40 minutes.",
        "the export starts at noon! The lock is held meanwhile.",
        "It takes 50 minutes.",
    ]
    assert plans.merged_text(texts, 0.92) == (
        "The export starts at noon. It takes 40 minutes.\nThe lock is held meanwhile.\nIt takes 50 minutes."
    )


@pytest.mark.requirement("MERGE-4")
def test_a_group_of_many_becomes_one_at_once(open_store: Open) -> None:
    eng = open_store(**AT_ONCE)
    ids = [eng.remember("The deploy runs on Friday.", kind=f"kind-{number}").id for number in range(12)]
    report = consolidate(eng)
    assert (report.groups, report.merged, report.duplicates_merged) == (1, 12, 1)
    (merged,) = active(eng)
    assert {eng.memories.get(id).superseded_by for id in ids} == {merged.id}


def idle(eng: Engram, clock: ShiftedClock) -> dict[str, int]:
    """Memories of which one is dead wood, half a year later."""
    ids = {
        "dead": eng.remember("The printer stands in room 12.", importance=0.3).id,
        "pinned": eng.remember("The scanner stands in room 13.", importance=0.3, pinned=True).id,
        "important": eng.remember("The router stands in room 14.", importance=0.5).id,
        "recalled": eng.remember("The server hums in the cellar.", importance=0.3).id,
    }
    for _ in range(4):
        eng.recall("who hums in the cellar", 1)
    clock.advance(180 * DAY)
    ids["young"] = eng.remember("The kettle stands in the hall.", importance=0.3).id
    return ids


@pytest.mark.requirement("MERGE-5")
def test_only_what_nobody_used_or_valued_is_archived(open_store: Open, clock: ShiftedClock) -> None:
    eng = open_store(dream_consolidate="apply")
    ids = idle(eng, clock)
    report = consolidate(eng)
    assert [memory.id for memory in eng.memories.list(status="archived")] == [ids["dead"]]
    assert (report.archived, report.alarms, report.tokens_after) == (1, [], 0)
    assert eng.recall("printer room 12", include_archived=True)[0].memory_id == ids["dead"]


@pytest.mark.requirement("MERGE-5")
def test_by_default_archiving_is_proposed(open_store: Open, clock: ShiftedClock) -> None:
    eng = open_store()
    ids = idle(eng, clock)
    report = consolidate(eng)
    assert (report.archived, report.proposals) == (0, 1)
    (proposal,) = eng.proposals.list()
    assert (proposal.what, proposal.targets) == ("archive", (("memory", ids["dead"]),))
    assert "180 days" in proposal.why
    assert consolidate(eng).proposals == 0


def work_weekly(eng: Engram, clock: ShiftedClock, project: str, weeks: int) -> str:
    """A session of the project each week; the last one."""
    session = ""
    for _ in range(weeks):
        clock.advance(7 * DAY)
        session = str(eng.sessions.register("claude-code", "work", project=project))
        eng.sessions.complete(session, "Done.")
    return session


def archivable(eng: Engram) -> list[int]:
    consolidate(eng)
    return [id for proposal in eng.proposals.list(what="archive") for _, id in proposal.targets]


@pytest.mark.requirement("MERGE-5")
def test_what_a_brief_shows_is_in_use(open_store: Open, clock: ShiftedClock) -> None:
    eng = open_store(brief_budget=130)
    for text in DECISIONS:
        eng.remember(text, kind="decision", project="acme/shop", importance=0.3)
    note = eng.remember("The kettle stands in the kitchen.", kind="note", project="acme/shop", importance=0.3)
    work_weekly(eng, clock, "acme/shop", 26)
    shown = {
        int(each.ref or 0) for each in eng.briefing(project="acme/shop", budget=130).lines if each.kind == "memory"
    }
    proposed = archivable(eng)
    assert note.id in proposed
    # What the budget cuts off reaches no agent.
    assert 0 < len(shown) < len(DECISIONS)
    assert set(proposed) == {memory.id for memory in active(eng)} - shown


@pytest.mark.requirement("MERGE-5")
def test_a_general_memory_that_the_brief_of_some_project_shows_is_in_use(open_store: Open, clock: ShiftedClock) -> None:
    eng = open_store()
    eng.remember("Answers are short.", kind="preference", importance=0.3)
    kettle = eng.remember("The kettle stands in the kitchen.", kind="note", importance=0.3)
    work_weekly(eng, clock, "acme/shop", 26)
    assert archivable(eng) == [kettle.id]


@pytest.mark.requirement("MERGE-5")
def test_what_a_session_was_given_was_used_then(open_store: Open, clock: ShiftedClock) -> None:
    eng = open_store()
    note = eng.remember("The kettle stands in the kitchen.", kind="note", project="acme/shop", importance=0.3)
    eng.injections.record(work_weekly(eng, clock, "acme/shop", 14), [("memory", note.id)])
    work_weekly(eng, clock, "acme/shop", 12)
    assert archivable(eng) == []
    work_weekly(eng, clock, "acme/shop", 1)
    assert archivable(eng) == [note.id]
    assert "91 days," in eng.proposals.list()[0].why


@pytest.mark.requirement("MERGE-5")
def test_time_in_which_nobody_works_on_its_project_does_not_count(open_store: Open, clock: ShiftedClock) -> None:
    eng = open_store()
    note = eng.remember("The kettle stands in the kitchen.", kind="note", project="acme/shop", importance=0.3)
    work_weekly(eng, clock, "acme/shop", 4)
    clock.advance(365 * DAY)
    assert archivable(eng) == []
    # A year's pause counts as a week.
    work_weekly(eng, clock, "acme/shop", 7)
    assert archivable(eng) == []
    work_weekly(eng, clock, "acme/shop", 2)
    assert archivable(eng) == [note.id]
    assert "91 days (longer pauses of its project not counted)" in eng.proposals.list()[0].why


@pytest.mark.requirement("MERGE-5")
def test_what_is_in_use_keeps_no_other_memory_from_being_proposed(open_store: Open, clock: ShiftedClock) -> None:
    eng = open_store(dream_max_actions=2)
    for text in DECISIONS[:4]:
        eng.remember(text, kind="decision", importance=0.3)
    kettle = eng.remember("The kettle stands in the kitchen.", kind="note", importance=0.3)
    clock.advance(180 * DAY)
    assert archivable(eng) == [kettle.id]


@pytest.mark.requirement("MERGE-6")
def test_a_pass_stops_at_its_most_changes_and_the_next_goes_on(open_store: Open) -> None:
    eng = open_store(**AT_ONCE, dream_max_actions=2)
    for number in range(5):
        for kind in ("note", "fact"):
            eng.remember(f"The house number {number} has {number + 20} windows.", kind=kind)
    first = consolidate(eng)
    assert first.duplicates_merged == 2
    (stopped,) = first.errors
    assert "2 changes" in stopped
    assert [consolidate(eng).duplicates_merged for _ in range(3)] == [2, 1, 0]
    assert len(active(eng)) == 5


@pytest.mark.requirement("MERGE-7")
def test_the_overflow_of_a_block_becomes_a_memory_of_it(open_store: Open) -> None:
    eng = open_store(dream_consolidate="apply")
    eng.blocks.create("notes", "The long corridor. " * 4 + "The violet door is at the end.", max_tokens=19)
    report = consolidate(eng)
    block = eng.blocks.get("notes")
    assert block is not None
    (memory,) = active(eng)
    assert block.content + memory.content == "The long corridor. " * 4 + "The violet door is at the end."
    assert len(block.content) == 19 * 4
    assert memory.data == {"block": "notes", "version": 1}
    assert [kind for kind, _ in eng.memories.sources(memory.id)] == ["block"]
    assert report.summarized == 1
    assert eng.recall("violet door")[0].memory_id == memory.id
    eng.forget(block="notes")
    assert active(eng) == []


@pytest.mark.requirement("MERGE-7")
def test_by_default_an_overflow_is_proposed_and_world_and_portrait_are_never_cut(open_store: Open) -> None:
    eng = open_store()
    for name in ("notes", "world", "profile", "narrative", "self"):
        eng.blocks.create(name, "The long corridor. " * 9, max_tokens=19)
    assert consolidate(eng).proposals == 1
    (proposal,) = eng.proposals.list()
    assert proposal.what == "overflow"
    assert eng.proposals.apply(proposal.id).state == "applied"
    cut = [block.name for block in eng.blocks.list() if len(block.content) <= 19 * 4]
    assert cut == ["notes"]


CONTRADICTION = ("The staging database listens on port 5432.", "The staging database listens on port 5433.")


@pytest.mark.requirement("MERGE-8")
@pytest.mark.parametrize("resolve", ["off", "on"])
def test_a_contradiction_is_for_review_unless_told_otherwise(
    open_store: Open, clock: ShiftedClock, resolve: str
) -> None:
    eng = open_store(**AT_ONCE, dream_consolidate="apply", dream_resolve_conflicts=resolve)
    old = eng.remember(CONTRADICTION[0])
    clock.advance(60)
    new = eng.remember(CONTRADICTION[1])
    report = consolidate(eng)
    if resolve == "off":
        assert (report.conflicts_resolved, report.proposals) == (0, 1)
        assert {memory.id for memory in active(eng)} == {old.id, new.id}
    else:
        assert (report.conflicts_resolved, report.proposals, report.alarms) == (1, 0, [])
        assert [memory.id for memory in active(eng)] == [new.id]
        assert eng.memories.get(old.id).superseded_by == new.id
        assert eng.recall("port 5432", include_archived=True, what=("memories",))


@pytest.mark.requirement("MERGE-8")
def test_what_is_less_trusted_never_wins_by_itself(open_store: Open, clock: ShiftedClock) -> None:
    eng = open_store(**AT_ONCE, dream_consolidate="apply", dream_resolve_conflicts="on")
    eng.remember(CONTRADICTION[0], trust="user")
    clock.advance(60)
    eng.remember(CONTRADICTION[1], trust="tool")
    report = consolidate(eng)
    assert (report.conflicts_resolved, report.proposals) == (0, 1)


@pytest.mark.requirement("MERGE-9")
def test_a_digest_says_what_was_learnt_and_changed(open_store: Open) -> None:
    eng = open_store(**AT_ONCE)
    session = eng.sessions.register("claude-code", "talk")
    eng.exchanges.add(session, "user", "I prefer tea over coffee in the morning.")
    for kind in ("note", "fact"):
        eng.remember("The deploy runs on Friday.", kind=kind)
    eng.dream(force=True)
    (digest,) = eng.memories.list(kind="digest")
    assert (digest.tags, digest.importance) == (("distillate", "dream-digest"), 0.8)
    assert "I prefer tea over coffee in the morning." in digest.content
    assert "became one" in digest.content
    eng.dream(force=True)
    assert eng.memories.list(kind="digest") == [digest]


@pytest.mark.requirement("MERGE-9")
def test_digests_are_never_merged(open_store: Open) -> None:
    eng = open_store(**AT_ONCE, dream_consolidate="apply")
    digests = [eng.remember("Dreamt, and learnt something.", kind="digest", key=str(number)) for number in range(3)]
    consolidate(eng)
    assert [memory.id for memory in eng.memories.list(kind="digest")] == [each.id for each in digests[::-1]]


@pytest.mark.requirement("MERGE-10")
def test_what_is_too_young_is_compared_when_it_is_old_enough(open_store: Open, clock: ShiftedClock) -> None:
    eng = open_store()
    for kind in ("note", "fact"):
        eng.remember("The deploy runs on Friday.", kind=kind)
    assert consolidate(eng).merged == 0
    clock.advance(DAY + 60)
    assert consolidate(eng).merged == 2


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[set[int]]:
    """What was compared with the rest, each time."""
    noted: list[set[int]] = []
    find = candidates.candidates

    def note(scope: Any, fresh: set[int]) -> Any:
        noted.append(fresh)
        return find(scope, fresh)

    monkeypatch.setattr(candidates, "candidates", note)
    return noted


@pytest.mark.requirement("MERGE-10")
def test_only_what_is_new_is_compared(open_store: Open, asked: list[set[int]]) -> None:
    eng = open_store(**AT_ONCE)
    known = [eng.remember(f"The house number {number} is painted.").id for number in range(5)]
    consolidate(eng)
    new = eng.remember("The garden is open.").id
    consolidate(eng)
    consolidate(eng)
    assert asked == [set(known), {new}, set()]


@pytest.mark.requirement("MERGE-10")
def test_each_is_compared_once_when_it_has_come_of_age_and_again_when_it_was_changed(
    open_store: Open, clock: ShiftedClock, asked: list[set[int]]
) -> None:
    eng = open_store()
    old = [eng.remember(f"The house number {number} is painted.").id for number in range(3)]
    consolidate(eng)
    clock.advance(DAY / 2)
    young = eng.remember("The garden is open.").id
    consolidate(eng)
    clock.advance(DAY / 2 + 60)
    consolidate(eng)
    eng.memories.update(old[1], "The house is green.")
    eng.memories.update(young, "The garden is closed.")
    consolidate(eng)
    clock.advance(DAY / 2)
    consolidate(eng)
    consolidate(eng)
    assert asked == [set(), set(), set(old), {old[1]}, {young}, set()]


@pytest.mark.requirement("MERGE-11")
def test_a_stage_that_fails_has_no_figures(open_store: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> object:
        raise StoreError("out of order")

    eng = open_store(**AT_ONCE)
    monkeypatch.setattr(candidates, "candidates", broken)
    report = consolidate(eng)
    assert report.errors == ["consolidate: out of order"]
    figures = ("groups", "merged", "archived", "tokens_before", "tokens_after", "tokens_saved")
    counts = ("duplicates_merged", "conflicts_resolved", "summarized", "skipped")
    assert [getattr(report, name) for name in (*figures, *counts)] == [None] * 10
    assert eng.dreams.show(report.id) == report


@pytest.mark.requirement("MERGE-12")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"key": "db.host"}, {"key": "cache.host"}),
        ({"project": "alpha"}, {"project": "beta"}),
        ({"expires_at": "2099-01-01T00:00:00Z"}, {}),
        ({"trust": "user"}, {"trust": "import"}),
    ],
)
def test_the_same_text_that_is_not_the_same_thing_is_not_merged(
    open_store: Open, one: dict[str, Any], other: dict[str, Any]
) -> None:
    eng = open_store(**AT_ONCE, dream_consolidate="apply")
    eng.remember("It is at localhost.", kind="note", **one)
    eng.remember("It is at localhost.", kind="fact", **other)
    report = consolidate(eng)
    assert (len(active(eng)), report.merged, report.skipped) == (2, 0, 1)


#: What consolidation changes.
KNOWLEDGE = (
    *("memories", "memory_versions", "memory_tags", "memory_links", "sources", "proposals", "proposal_parts"),
    *("items", "postings", "terms", "vectors", "backlog", "blocks", "block_versions"),
)


class Killed(BaseException):
    """The process dies here, as far as the store can tell."""


class Deadly:
    """Carries plans out, and dies at the statement it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = 0
        self._patch = monkeypatch
        self._carry_out = plans.carry_out

    def carry_out(self, tx: Transaction, *arguments: Any) -> Any:
        kind = type(tx)
        with self._patch.context() as patch:
            for name in ("all", "run", "many"):
                patch.setattr(kind, name, self._counted(getattr(kind, name)))
            return self._carry_out(tx, *arguments)

    def _counted(self, method: Any) -> Any:
        def counted(*given: Any, **values: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                raise Killed
            return method(*given, **values)

        return counted


@pytest.mark.requirement("MERGE-13")
def test_wherever_a_change_is_interrupted_all_or_nothing_of_it_is_there(
    open_store: Open, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    eng = open_store(embedder="none")
    pair = [eng.remember("The deploy runs on Friday.", kind=kind, tags=[kind]) for kind in ("note", "fact")]
    tiers, plan = eng.proposals.tiers, plans.merge(pair, 0.92, 1.0)
    prepared = plans.prepare(tiers, plan)
    deadly = Deadly(monkeypatch)
    before = dump(store_url)
    for statement in range(0, 1_000, 3):
        deadly.left = statement
        try:
            with eng._view.engine.write() as tx:
                deadly.carry_out(tx, tiers, plan, prepared)
            break
        except Killed:
            after = dump(store_url)
            assert [table for table in KNOWLEDGE if after[table] != before[table]] == [], f"killed at {statement}"
    assert statement > 20
    assert [memory.tags for memory in active(eng)] == [("fact", "note")]


@pytest.mark.requirement("MERGE-13")
@pytest.mark.parametrize("statement", [0, 1, 10, 30])
def test_the_pass_after_one_that_died_goes_on(
    open_store: Open, clock: ShiftedClock, monkeypatch: pytest.MonkeyPatch, statement: int
) -> None:
    eng = open_store(**AT_ONCE)
    for text in ("The deploy runs on Friday.", "The house has 20 windows."):
        for kind in ("note", "fact"):
            eng.remember(text, kind=kind)
    deadly = Deadly(monkeypatch)
    deadly.left = statement
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(plans, "carry_out", deadly.carry_out)
        consolidate(eng)
    clock.advance(1_000)  # the lease of the dead expires
    report = consolidate(eng)
    assert (report.merged, report.alarms, len(active(eng))) == (4, [], 2)


@pytest.mark.requirement("MERGE-14")
def test_a_memory_that_contradicts_several_is_proposed_about_once_a_pass_the_surest_first(open_store: Open) -> None:
    eng = open_store(**AT_ONCE)
    for minute in range(6):
        eng.remember(f"The standup is at 9:{minute}0.")
    consolidate(eng)
    pending = eng.proposals.list()
    about = [ref for proposal in pending for kind, ref in proposal.sources]
    assert len(about) == len(set(about)) == 6


@pytest.mark.requirement("MERGE-14")
def test_a_pass_proposes_no_more_than_it_may_and_the_next_one_goes_on(open_store: Open) -> None:
    eng = open_store(**AT_ONCE, dream_max_actions=2)
    for thing in ("standup", "retro", "review", "lunch"):
        for hour in (9, 11):
            eng.remember(f"The {thing} is at {hour}:00.")
    report = consolidate(eng)
    assert (report.proposals, len(eng.proposals.list())) == (2, 2)
    assert report.errors == [
        "consolidate: stopped at 0 changes and 2 proposals, the limit of one pass (dream_max_actions)"
    ]
    consolidate(eng)
    assert len(eng.proposals.list()) == 4
    assert consolidate(eng).errors == []
