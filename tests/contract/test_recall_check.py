"""The loss alarm: what recall found before a pass, it finds after it, or the pass takes back what it did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from engram import DreamReport, Engram
from engram.dreaming import plans
from engram.dreaming.recall_check import rollback
from engram.memory.memories import Memories

Open = Callable[..., Engram]


@pytest.fixture
def eng(open_store: Open) -> Engram:
    return open_store(dream_min_age=0, dream_consolidate="apply")


def dream(eng: Engram) -> Any:
    (report,) = eng.dream(force=True, stages=["consolidate"])
    return report


def pairs(eng: Engram) -> list[int]:
    """Two pairs that say the same: about invoices, whose texts are long, and about a train."""
    long = "Invoices are written by the accounting office. They leave on Thursday with the courier."
    ids = [eng.remember(long, kind="note").id, eng.remember(long.removesuffix("."), kind="fact").id]
    train = "The train leaves at noon."
    return [*ids, eng.remember(train, kind="note").id, eng.remember(train.removesuffix("."), kind="fact").id]


def drop_half(texts: Sequence[str], least: float) -> str:
    """A broken merge: half of a long text is gone."""
    return texts[0][: len(texts[0]) // 2] if len(texts[0]) > 50 else texts[0]


@pytest.mark.requirement("ALARM-2", "ALARM-3")
def test_a_merge_that_loses_text_is_caught_taken_back_and_not_tried_again(
    eng: Engram, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = pairs(eng)
    before = [eng.memories.get(id) for id in ids]
    monkeypatch.setattr(plans, "merged_text", drop_half)
    report = dream(eng)
    assert [eng.memories.get(id) for id in ids[:2]] == before[:2]
    assert [eng.memories.get(id).status for id in ids[2:]] == ["superseded", "superseded"]
    assert len(report.alarms) == 2
    assert all("undone, and it is found again" in alarm for alarm in report.alarms)
    assert (report.merged, report.duplicates_merged) == (2, 1)
    assert "Invoices" not in " ".join(report.alarms)
    kept = eng.dreams.show(report.id)
    assert isinstance(kept, DreamReport)
    assert kept.alarms == report.alarms
    assert "2 alarms" in eng.sitrep()
    (digest,) = eng.memories.list(kind="digest")
    assert "Invoices" not in digest.content
    again = dream(eng)
    assert (again.alarms, again.merged) == ([], 0)
    assert "alarm" not in eng.sitrep()


@pytest.mark.requirement("ALARM-1")
def test_a_pass_that_loses_nothing_raises_no_alarm_and_leaves_no_trace_of_asking(eng: Engram) -> None:
    ids = pairs(eng)
    pinned = eng.remember("The violet door is at the end.", pinned=True)
    report = dream(eng)
    assert (report.alarms, report.merged) == ([], 4)
    assert [eng.memories.get(id).recalled for id in (*ids, pinned.id)] == [0] * 5


@pytest.mark.requirement("ALARM-1")
def test_what_the_pass_did_not_touch_is_asked_for_too(eng: Engram, monkeypatch: pytest.MonkeyPatch) -> None:
    session = eng.sessions.register("claude-code", "talk")
    turn = eng.exchanges.add(session, "user", "The violet door is at the end.")
    pairs(eng)
    remember = Memories.remember

    def losing(self: Memories, *given: Any, **values: Any) -> Any:
        """A fault that takes a turn out of the index while a memory is written."""
        from engram.memory import word_index

        with self._engine.write() as tx:
            word_index.remove(tx, self._workspace, "exchange", [turn])
        return remember(self, *given, **values)

    monkeypatch.setattr(Memories, "remember", losing)
    report = dream(eng)
    assert report.alarms == [
        f"exchange {turn} was found by its own words before this pass and not after it; "
        "no change of this pass touched it, so none was undone"
    ]
    assert report.merged == 4


@pytest.mark.requirement("ALARM-1")
def test_what_others_forget_or_edit_meanwhile_is_no_loss(eng: Engram, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs(eng)
    gone = eng.remember("The violet door is at the end.", pinned=True)
    edited = eng.remember("The green door is at the front.", pinned=True)
    carry_out = plans.carry_out

    def meanwhile(*arguments: Any) -> Any:
        if eng.memories.get(edited.id).version == 1:
            eng.memories.update(edited.id, "It was painted over.")
            eng.memories.archive(gone.id)
        return carry_out(*arguments)

    monkeypatch.setattr(plans, "carry_out", meanwhile)
    assert dream(eng).alarms == []


@pytest.mark.requirement("ALARM-4")
def test_a_change_that_touches_other_rows_than_planned_is_taken_back(
    eng: Engram, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = pairs(eng)
    other = eng.remember("The violet door is at the end.")
    supersede = Memories.supersede

    def greedy(self: Memories, id: int, by: int, relation: str = "superseded by") -> Any:
        self.archive(other.id)
        return supersede(self, id, by, relation)

    monkeypatch.setattr(Memories, "supersede", greedy)
    report = dream(eng)
    assert [eng.memories.get(id).status for id in (*ids, other.id)] == ["active"] * 5
    assert len(report.alarms) == 2
    assert all("rolled back" in alarm for alarm in report.alarms)
    assert (report.merged, len(eng.memories.list())) == (0, 5)


@pytest.mark.requirement("ALARM-5")
def test_what_a_pass_lost_before_it_died_is_brought_back_by_the_next_one(
    eng: Engram, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = pairs(eng)
    before = [eng.memories.get(id) for id in ids]
    with monkeypatch.context() as broken:
        broken.setattr(plans, "merged_text", drop_half)
        broken.setattr(rollback, "check_recall", die)
        with pytest.raises(KeyboardInterrupt):
            dream(eng)
    assert [eng.memories.get(id).status for id in ids] == ["superseded"] * 4
    (report,) = eng.dream(force=True, stages=["gists"])
    assert [eng.memories.get(id) for id in ids[:2]] == before[:2]
    assert [eng.memories.get(id).status for id in ids[2:]] == ["superseded", "superseded"]
    assert [each.partition(";")[0] for each in report.alarms] == [
        f"memory {id} was not found by its own words after pass 1, which did not end" for id in ids[:2]
    ]
    assert "2 alarms" in eng.sitrep()
    assert "This pass did not end." in eng.dreams.show(1).errors  # type: ignore[union-attr]
    assert dream(eng).alarms == []


@pytest.mark.requirement("ALARM-5")
def test_what_somebody_changed_after_a_pass_died_is_theirs(eng: Engram, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = pairs(eng)
    with monkeypatch.context() as broken:
        broken.setattr(rollback, "check_recall", die)
        with pytest.raises(KeyboardInterrupt):
            dream(eng)
    merged = eng.memories.get(ids[0]).superseded_by
    assert merged is not None
    eng.memories.update(merged, "Nothing of that was so.")
    (report,) = eng.dream(force=True, stages=["gists"])
    assert report.alarms == []
    assert eng.memories.get(merged).content == "Nothing of that was so."


def die(context: Any) -> None:
    raise KeyboardInterrupt
