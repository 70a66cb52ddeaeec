"""What is due, and passes that run only if something is: by amount and by time, on both engines."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from engram import DreamReport, DreamTotals, Due, Engram, InvalidInput, NotDue
from engram.config import load
from engram.dreaming import due, passes
from engram.dreaming.pass_context import PassContext
from engram.dreaming.passes import Stage
from tests._models import Model, plainly, serve, session_answer
from tests._talks import add, talk
from tests.conftest import ShiftedClock

Open = Callable[..., Engram]
HOUR, DAY = 3_600.0, 86_400.0
STAGES = ["sessions", "consolidate", "eras", "profile", "narrative"]


@pytest.fixture
def model() -> Iterator[Model]:
    pytest.importorskip("openai")
    with serve() as model:
        yield model


def now_due(eng: Engram) -> dict[str, Due]:
    (report,) = eng.dream(dry_run=True)
    return {each.stage: each for each in report.due}


def ended(eng: Engram, about: str = "the router", turns: int = 6) -> str:
    """A session that has ended."""
    session = talk(eng, about, turns=turns)
    eng.sessions.complete(session, "done")
    return session


def passed(eng: Engram, **options: Any) -> DreamReport:
    (report,) = eng.dream_if_due(**options)
    assert isinstance(report, DreamReport), report
    return report


def refused(eng: Engram, **options: Any) -> NotDue:
    (answer,) = eng.dream_if_due(**options)
    assert isinstance(answer, NotDue), answer
    return answer


@pytest.mark.requirement("DUE-1")
def test_one_ended_session_is_due_at_once_and_one_at_work_is_not(eng: Engram) -> None:
    at_work = talk(eng, "the parser")
    assert not now_due(eng)["sessions"].due
    assert eng.dream()[0].gists == []
    done = ended(eng)
    found = now_due(eng)["sessions"]
    assert (found.due, found.waiting, found.would) == (True, 1, "read 1 session")
    assert found.reason == "1 session with something new: 1 ended."
    assert eng.dream()[0].gists == [done]
    assert not now_due(eng)["sessions"].due
    eng.sessions.complete(at_work)
    assert eng.dream()[0].gists == [at_work]


@pytest.mark.requirement("DUE-1")
def test_a_silent_session_is_due_and_the_dry_run_says_when(eng: Engram, clock: ShiftedClock) -> None:
    session = talk(eng)
    found = now_due(eng)["sessions"]
    assert (found.due, found.waiting) == (False, 1)
    assert found.at is not None
    assert eng.dreams.status().next_at == found.at
    clock.advance(eng.settings.stale_after + 1)
    assert "1 silent for 30 minutes" in now_due(eng)["sessions"].reason
    assert eng.dream()[0].gists == [session]


@pytest.mark.requirement("DUE-1")
def test_a_long_session_is_due_while_it_is_at_work(eng: Engram) -> None:
    session = talk(eng, turns=19)
    assert refused(eng).why == "Nothing is due."
    add(eng, session, "more", turns=1)
    assert passed(eng).gists == [session]
    add(eng, session, "a little more", turns=19)
    assert not now_due(eng)["sessions"].due


@pytest.mark.requirement("DUE-2")
def test_memories_without_sessions_are_consolidated_when_they_come_of_age(eng: Engram, clock: ShiftedClock) -> None:
    eng.remember("The billing service runs on port 8041.", kind="fact")
    eng.remember("the billing service runs on port 8041.", kind="note")
    waiting = now_due(eng)["consolidate"]
    assert (waiting.due, waiting.reason) == (False, "New memories are compared after 1 day.")
    clock.advance(DAY + 1)
    found = now_due(eng)["consolidate"]
    assert (found.due, found.waiting, found.would) == (True, 2, "compare 2 memories")
    report = passed(eng)
    assert (report.errors, report.merged) == ([], 2)
    assert not now_due(eng)["consolidate"].due
    assert refused(eng, every=0).why == "Nothing is due."


@pytest.mark.requirement("DUE-2")
def test_nothing_is_due_for_consolidation_when_it_is_off(open_store: Open, clock: ShiftedClock) -> None:
    eng = open_store(dream_consolidate="off")
    eng.remember("The billing service runs on port 8041.")
    clock.advance(2 * DAY)
    assert now_due(eng)["consolidate"].reason == "It is turned off (dream_consolidate)."
    assert refused(eng).next_at is None


@pytest.mark.requirement("DUE-2")
def test_an_accepted_proposal_is_due(eng: Engram, clock: ShiftedClock) -> None:
    eng.remember("Deploys happen on Monday mornings in Zurich.", kind="fact")
    eng.remember("Deploys never happen on Monday mornings in Zurich.", kind="fact")
    clock.advance(DAY + 1)
    passed(eng)
    (proposal,) = eng.proposals.list()
    assert not now_due(eng)["consolidate"].due
    eng.proposals.accept(proposal.id)
    assert now_due(eng)["consolidate"].would == "apply 1 proposal"
    clock.advance(HOUR)
    passed(eng)
    assert eng.proposals.show(proposal.id).state == "applied"


@pytest.mark.requirement("DUE-3")
def test_two_gists_are_enough_for_a_portrait_on_the_next_day(eng: Engram, clock: ShiftedClock) -> None:
    ended(eng, "the first")
    eng.dream(force=True)  # there is a portrait
    for number in range(2):
        ended(eng, f"task {number}")
    report = passed(eng)
    assert (len(report.gists), report.eras, report.blocks) == (2, [], {})
    waiting = now_due(eng)["narrative"]
    assert (waiting.due, waiting.waiting) == (False, 2)
    assert waiting.at is not None
    clock.advance(DAY)
    assert now_due(eng)["narrative"].waiting == 2
    report = passed(eng)
    assert report.eras == ["2026-03"]
    assert "narrative" in report.blocks
    assert not [each for each in now_due(eng).values() if each.due and each.stage not in ("reflect", "consolidate")]


@pytest.mark.requirement("DUE-3")
def test_one_gist_is_due_after_a_week_or_on_the_next_day_for_the_first_portrait(
    eng: Engram, clock: ShiftedClock
) -> None:
    ended(eng)
    assert passed(eng).eras == []
    clock.advance(DAY)
    assert "narrative" in passed(eng).blocks
    ended(eng, "the second")
    clock.advance(HOUR)
    assert "narrative" not in passed(eng).blocks
    clock.advance(2 * DAY)
    assert not now_due(eng)["narrative"].due
    clock.advance(5 * DAY)
    assert "narrative" in passed(eng).blocks


@pytest.mark.requirement("DUE-3")
def test_many_gists_are_due_in_the_pass_that_makes_them(eng: Engram) -> None:
    for number in range(6):
        ended(eng, f"task {number}")
    found = now_due(eng)
    assert [found[stage].due for stage in ("sessions", "eras", "narrative")] == [True] * 3
    assert found["eras"].would == "write 6 gists into eras"
    report = passed(eng)
    assert (len(report.gists), report.eras) == (6, ["2026-03"])


@pytest.mark.requirement("DUE-4")
def test_a_dry_run_says_of_every_stage_what_it_would_do_and_why(eng: Engram) -> None:
    assert list(now_due(eng)) == STAGES
    assert all(each.reason.endswith(".") and not each.due and not each.would for each in now_due(eng).values())
    ended(eng)
    (forced,) = eng.dream(force=True, dry_run=True)
    assert [each.stage for each in forced.due] == STAGES
    assert all(each.due and each.would for each in forced.due)
    assert (eng.dreams.list(), eng.dreams.drives()) == ([], None)
    assert [each.stage for each in eng.dreams.status().due] == STAGES


@pytest.mark.requirement("DUE-4")
def test_a_drive_is_high_as_soon_as_one_of_its_stages_is_due(eng: Engram) -> None:
    talk(eng)
    assert eng.dream(dry_run=True)[0].drives.continuity == 0.25
    ended(eng)
    assert eng.dream(dry_run=True)[0].drives.continuity == 0.6
    assert eng.dream()[0].drives.continuity == 0.25


@pytest.mark.requirement("AUTO-1")
def test_an_automatic_pass_needs_work_and_an_hour_since_the_last_one(eng: Engram, clock: ShiftedClock) -> None:
    assert refused(eng) == NotDue("default", "Nothing is due.")
    first = ended(eng)
    report = passed(eng, reason="session end")
    assert (report.gists, report.reason) == ([first], "session end")
    assert [each.stage for each in report.due if each.due] == ["sessions"]
    assert eng.dreams.show(report.id or 0) == report
    second = ended(eng, "the parser")
    answer = refused(eng)
    assert answer.why == "The last automatic pass began too recently."
    assert answer.next_at is not None
    assert answer.next_at > report.started_at
    status = eng.dreams.status()
    assert (status.last_automatic, status.next_at, status.starts_now) == (report.started_at, answer.next_at, False)
    clock.advance(HOUR)
    assert eng.dreams.status().starts_now
    assert passed(eng, reason="idle server").gists == [second]
    assert [each.reason for each in eng.dreams.list()] == ["idle server", "session end"]


@pytest.mark.requirement("AUTO-1")
def test_a_pass_by_hand_does_not_delay_the_next_automatic_one(eng: Engram) -> None:
    ended(eng)
    (report,) = eng.dream()
    assert report.reason == "by hand"
    second = ended(eng, "the parser")
    assert passed(eng).gists == [second]


@pytest.mark.requirement("AUTO-1")
def test_an_unknown_reason_is_refused(eng: Engram) -> None:
    for reason in ("by hand", "boredom"):
        with pytest.raises(InvalidInput, match="it must be one of session end, idle server, loop, if due"):
            eng.dream_if_due(reason)


@pytest.mark.requirement("AUTO-1")
def test_two_that_find_the_same_work_at_once_run_one_pass(store_url: str) -> None:
    with Engram(store_url) as eng:
        for number in range(4):
            ended(eng, f"task {number}")
    together = threading.Barrier(4)
    found: list[DreamReport | NotDue] = []

    def dream() -> None:
        with Engram(store_url) as eng:
            together.wait()
            found.extend(eng.dream_if_due("session end"))

    threads = [threading.Thread(target=dream) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([each for each in found if isinstance(each, DreamReport) and each.id]) == 1
    with Engram(store_url) as eng:
        assert len(eng.dreams.list()) == 1


@pytest.mark.requirement("AUTO-2")
def test_an_automatic_pass_calls_no_model_unless_the_user_has_allowed_it(open_store: Open, model: Model) -> None:
    paid = {"llm": "openai:m", "llm_base_url": model.url}
    eng = open_store(**paid)
    ended(eng)
    assert eng.dreams.status().thinker == "extractive"
    report = passed(eng)
    assert (report.provider, report.calls, len(report.gists), model.asked) == ("extractive", 0, 1, [])
    ended(eng, "the parser")
    allowed = open_store(**paid, auto_dream_llm="same")
    assert allowed.dreams.status().thinker == "openai:m"
    report = passed(allowed, every=0)
    assert report.calls == len(model.asked) > 0
    assert {each.stage for each in eng.usage()} == {"auto/sessions"}
    assert all(each.stage.startswith("auto/") for each in eng.usage())


@pytest.mark.requirement("AUTO-2")
def test_automatic_passes_have_a_daily_cap_of_their_own(open_store: Open, model: Model, clock: ShiftedClock) -> None:
    paid = {"llm": "openai:m", "llm_base_url": model.url, "auto_dream_llm": "same", "auto_dream_day_calls": 2}
    eng = open_store(**paid)
    for number in range(5):
        ended(eng, f"task {number}")
    report = passed(eng)
    assert (report.calls, len(report.gists)) == (2, 2)
    assert "The cap of 2 calls a day" in report.errors[0]
    assert "auto_dream_day_calls" in report.errors[0]
    assert "ENGRAM_AUTO_DREAM_DAY_CALLS" in eng.dreams.status().stuck[0].problem
    clock.advance(2 * HOUR)
    # A pass by hand has the ordinary caps.
    assert len(eng.dream()[0].gists) == 3


@pytest.mark.requirement("AUTO-2")
def test_with_agents_an_automatic_pass_leaves_work_items_once(open_store: Open, clock: ShiftedClock) -> None:
    eng = open_store(llm="agent")
    session = ended(eng)
    report = passed(eng)
    assert (report.provider, report.waiting) == ("agent", 1)
    assert now_due(eng)["sessions"].reason == "1 session waiting for an answer from an agent."
    clock.advance(3 * HOUR)
    assert refused(eng).why == "Nothing is due."
    assert not eng.sessions.need_pass()
    item = eng.work.next()
    assert item is not None
    eng.work.submit(item.id, session_answer())
    assert passed(eng).gists == [session]


@pytest.mark.requirement("AUTO-3")
def test_a_stage_that_keeps_failing_is_tried_at_growing_pauses_and_named(
    eng: Engram, clock: ShiftedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(context: PassContext) -> None:
        raise InvalidInput("The moon is 'too secret to quote'.")

    stages = [stage._replace(act=broken) if stage.name == "sessions" else stage for stage in passes.STAGES]
    monkeypatch.setattr(passes, "STAGES", tuple(stages))
    ended(eng)
    begun: list[int] = []
    for hour in range(72):
        (answer,) = eng.dream_if_due()
        if isinstance(answer, DreamReport):
            begun.append(hour)
        clock.advance(HOUR)
    assert begun == [0, 1, 3, 7, 15, 31, 55]
    (stuck,) = eng.dreams.status().stuck
    assert (stuck.stage, stuck.left, stuck.attempts, stuck.problem) == ("sessions", 1, 7, "The moon is ….")
    assert eng.dreams.status().next_at == stuck.retry_at
    # More work is not held up by that.
    assert not eng.sessions.need_pass()
    ended(eng, "the parser")
    assert eng.sessions.need_pass()
    monkeypatch.undo()
    assert len(passed(eng).gists) == 2
    assert eng.dreams.status().stuck == ()


@pytest.mark.requirement("AUTO-3")
def test_gists_that_no_stage_can_fold_in_do_not_start_a_pass_every_hour(
    eng: Engram, clock: ShiftedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(context: PassContext) -> None:
        raise RuntimeError

    folding = ("eras", "narrative")
    stages = [stage._replace(act=broken) if stage.name in folding else stage for stage in passes.STAGES]
    monkeypatch.setattr(passes, "STAGES", tuple(stages))
    for number in range(6):
        ended(eng, f"task {number}")
    begun = []
    for hour in range(20):
        begun += [hour] * isinstance(eng.dream_if_due()[0], DreamReport)
        clock.advance(HOUR)
    assert begun == [0, 1, 3, 7, 15]
    assert [each.stage for each in eng.dreams.status().stuck] == sorted(folding)


@pytest.mark.requirement("AUTO-3")
def test_passes_that_never_end_are_tried_at_growing_pauses(
    eng: Engram, clock: ShiftedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended(eng)
    monkeypatch.setattr(passes, "STAGES", (Stage("sessions", "continuity", _die),))
    begun = []
    for hour in range(16):
        try:
            eng.dream_if_due()
        except SystemExit:
            begun.append(hour)
        clock.advance(HOUR)
    assert begun == [0, 1, 3, 7, 15]
    assert eng.dreams.list()[0].errors == ["This pass did not end."]


def _die(context: PassContext) -> None:
    raise SystemExit


@pytest.mark.requirement("DREAM-25")
def test_an_item_that_fails_is_left_out_and_counted_and_the_stage_goes_on(
    eng: Engram, clock: ShiftedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = [ended(eng, f"task {number}") for number in range(6)]
    real = PassContext.attempt

    def odd(self: PassContext, stage: str, act: Any, thing: Any) -> bool:
        def fail(context: PassContext, thing: Any) -> None:
            if stage == "sessions" and thing in sessions[:5]:
                raise KeyError("an odd one")
            act(context, thing)

        return real(self, stage, fail, thing)

    monkeypatch.setattr(PassContext, "attempt", odd)
    report = passed(eng)
    assert report.gists == [sessions[5]]
    assert report.left_out == {"sessions": 5}
    # The first problems are told, the others only counted.
    assert report.errors == ["sessions: an item was left out: KeyError"] * 3
    assert eng.dreams.show(report.id or 0).left_out == {"sessions": 5}  # type: ignore[union-attr]
    (stuck,) = eng.dreams.status().stuck
    assert (stuck.left, stuck.attempts, stuck.problem) == (5, 1, "KeyError")
    clock.advance(HOUR)
    monkeypatch.undo()
    assert sorted(passed(eng).gists) == sorted(sessions[:5])


@pytest.mark.requirement("DREAM-9")
def test_the_mark_is_the_highest_id_so_that_imported_old_turns_are_seen(eng: Engram) -> None:
    session = talk(eng, at="2026-03-02T10:00:00Z")
    eng.dream(force=True)
    id = eng.exchanges.add(session, "user", "Said long ago.", created_at="2020-01-01T00:00:00Z")
    eng.sessions.log(session, "a log is not a turn")
    assert eng.dreams.backlog().mark == id


@pytest.mark.requirement("DREAM-17")
def test_totals_are_the_sums_over_the_workspaces(eng: Engram) -> None:
    for name in ("anna", "ben"):
        ended(eng.workspace(name))
    eng.workspace("carl").remember("Carl likes tea.")
    reports = eng.dream(all_workspaces=True)
    totals = DreamTotals.of(reports)
    assert (totals.workspaces, totals.passes, totals.gists, totals.errors) == (3, 3, 2, 0)
    assert totals.extracted == sum(report.extracted or 0 for report in reports)
    assert totals.seconds == pytest.approx(sum(sum(report.seconds.values()) for report in reports))
    assert DreamTotals.of(eng.dream(all_workspaces=True, dry_run=True)).passes == 0


class Rounds(ShiftedClock):
    """Ends a loop after some rounds. No interval takes any time."""

    def __init__(self, rounds: int) -> None:
        self.left = rounds

    def wait(self, event: threading.Event, seconds: float) -> bool:
        if seconds != HOUR:
            return event.wait(seconds)
        self.advance(seconds)
        self.left -= 1
        return self.left < 0


@pytest.mark.requirement("AUTO-4")
def test_the_scheduler_takes_every_workspace_with_one_line_a_pass(
    store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Engram(settings=load(url=store_url), clock=Rounds(1)) as eng:
        for name in ("anna", "ben"):
            ended(eng.workspace(name))
        with caplog.at_level(logging.INFO, "engram.dreaming"):
            eng.scheduler(HOUR, now=True).run()
        assert [eng.workspace(name).dreams.list()[0].reason for name in ("anna", "ben")] == ["loop", "loop"]
        lines = [record.getMessage() for record in caplog.records if record.name == "engram.dreaming"]
    assert sorted(line.partition(":")[0] for line in lines) == ["workspace anna", "workspace ben"]
    assert all("(loop)" in line and "gists: 1" in line for line in lines)


@pytest.mark.requirement("AUTO-4")
def test_the_scheduler_survives_every_exception(
    store_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = passes.Dreams.dream_if_due
    failures: list[BaseException] = [RuntimeError("odd"), MemoryError(), ValueError("no")]

    def failing(self: passes.Dreams, *given: Any, **options: Any) -> DreamReport | NotDue:
        if failures:
            raise failures.pop()
        return real(self, *given, **options)

    monkeypatch.setattr(passes.Dreams, "dream_if_due", failing)
    told: list[list[DreamReport]] = []
    with Engram(settings=load(url=store_url), clock=Rounds(4)) as eng:
        session = ended(eng)

        def tell(reports: list[DreamReport]) -> None:
            told.append(reports)
            raise BrokenPipeError

        with caplog.at_level(logging.ERROR, "engram.dreaming"):
            eng.scheduler(HOUR, now=True, told=tell).run()
    assert [reports[0].errors for reports in told[:3]] == [["ValueError"], ["MemoryError"], ["RuntimeError"]]
    assert told[3][0].gists == [session]


@pytest.mark.requirement("AUTO-5")
@pytest.mark.parametrize("status", ["completed", "abandoned"])
def test_a_hook_s_read_agrees_with_the_decision(eng: Engram, clock: ShiftedClock, status: str) -> None:
    def agree() -> bool:
        assert eng.sessions.need_pass() == eng.is_dream_due()
        return eng.is_dream_due()

    assert not agree()
    session = talk(eng)
    assert not agree()
    if status == "completed":
        eng.sessions.complete(session)
    else:
        clock.advance(2 * DAY)
        eng.sessions.sweep()
        assert eng.sessions.get(session).status == "abandoned"
    assert agree()
    passed(eng)
    assert not agree()
    ended(eng, "the parser")
    assert not agree()
    clock.advance(HOUR)
    assert agree()


@pytest.mark.requirement("DUE-4")
def test_every_stage_has_a_function_that_counts_its_work() -> None:
    assert list(due.STAGES) == [stage.name for stage in passes.STAGES]


@pytest.mark.requirement("AUTO-3")
def test_what_a_stopped_pass_left_is_due_again_after_the_pause(eng: Engram, clock: ShiftedClock) -> None:
    for number in range(4):
        ended(eng, f"task {number}")
    stop = threading.Event()
    report = passed(eng, stop=stop, progress=lambda stage, done, total: stop.set() if done == 2 else None)
    assert len(report.gists) == 2
    clock.advance(HOUR)
    assert len(passed(eng).gists) == 2


@pytest.mark.requirement("DREAM-7")
def test_a_model_that_is_down_fails_its_stage_at_once(open_store: Open, model: Model) -> None:
    eng = open_store(llm="openai:m", llm_base_url=model.url)
    for number in range(4):
        ended(eng, f"task {number}")
    model.answer = lambda prompt: 401
    (report,) = eng.dream()
    assert (len(model.asked), len(report.errors), report.left_out) == (1, 1, None)
    model.answer = plainly
    assert len(eng.dream()[0].gists) == 4
