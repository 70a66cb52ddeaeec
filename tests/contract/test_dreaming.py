"""One pass: what it writes, when it acts, and what it says about itself."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator

import pytest

from engram import DreamNotFound, DreamReport, Engram, InvalidInput
from engram.config import load
from tests._files import connect
from tests._models import Model, plainly, serve
from tests._talks import add, talk
from tests.conftest import ShiftedClock

Open = Callable[..., Engram]


@pytest.fixture
def model() -> Iterator[Model]:
    pytest.importorskip("openai")
    with serve() as model:
        yield model


@pytest.fixture
def lyra(open_store: Open) -> Engram:
    """A store whose workspace is a companion's."""
    return open_store(companion=True)


def written(eng: Engram) -> list[tuple[str, object]]:
    """Everything dreaming makes, as it is now."""
    found: list[tuple[str, object]] = []
    for kind in ("gist", "era"):
        found += [(kind, (each.id, each.version, each.content)) for each in eng.memories.list(kind=kind, limit=0)]
    blocks = (eng.blocks.get(name) for name in ("profile", "narrative", "self"))
    return found + [("block", (each.name, each.version, each.content)) for each in blocks if each]


@pytest.mark.requirement("DREAM-1")
def test_a_forced_pass_makes_a_gist_for_each_session_an_era_for_each_month_and_the_portrait(lyra: Engram) -> None:
    eng = lyra
    eng.remember("The user prefers tea to coffee.", kind="preference")
    march = [talk(eng, f"task {number}") for number in range(2)]
    april = talk(eng, "the parser", at="2026-04-05T10:00:00Z")
    (report,) = eng.dream(force=True)
    assert report.errors == []
    assert sorted(report.gists) == sorted([*march, april])
    assert report.eras == ["2026-03", "2026-04"]
    assert set(report.blocks) == {"profile", "narrative", "self"}
    assert report.before.dirty == 3
    assert report.after == report.before._replace(dirty=0, ripe=0, turns=0)
    stages = {"sessions", "consolidate", "eras", "profile", "narrative", "reflect"}
    assert set(report.seconds) == {"index", *stages, "probe"}
    assert (report.calls, report.input_tokens, report.output_tokens) == (0, 0, 0)
    eras = {era.key: era for era in eng.memories.list(kind="era")}
    counts = {key: era.data["sessions"] for key, era in eras.items() if isinstance(era.data, dict)}
    assert counts == {"2026-03": 2, "2026-04": 1}
    assert eng.dreams.show(report.id or 0) == report
    assert eng.dreams.list() == [report]


@pytest.mark.requirement("DREAM-2")
@pytest.mark.parametrize("force", [False, True])
def test_a_second_pass_writes_nothing_but_its_report_and_the_drives(eng: Engram, force: bool) -> None:
    for number in range(12):
        talk(eng, f"task {number}")
    eng.dream(force=True)
    before, last = written(eng), eng.changes(limit=100_000)[-1].number
    (report,) = eng.dream(force=force)
    assert written(eng) == before
    assert (report.gists, report.eras, report.blocks, report.errors) == ([], [], {}, [])
    assert not {"memory", "block"} & {change.what for change in eng.changes(after=last)}


@pytest.mark.requirement("DREAM-3")
def test_a_dry_run_says_what_would_be_done_and_writes_nothing_at_all(eng: Engram) -> None:
    sessions = sorted(talk(eng, f"task {number}") for number in range(4))
    last = eng.changes(limit=100_000)[-1].number
    (report,) = eng.dream(force=True, dry_run=True)
    assert report.dry_run
    assert report.id is None
    assert sorted(report.gists) == sessions
    assert eng.changes(after=last) == []
    assert (eng.dreams.list(), eng.dreams.drives(), written(eng)) == ([], None, [])


@pytest.mark.requirement("DREAM-4")
def test_a_pass_that_finds_another_one_says_who_has_it_since_when(eng: Engram, open_store: Open) -> None:
    talk(eng)
    other = eng.sessions.register("dream", "dreaming")
    held = eng.leases.claim(other, "dream", exclusive=True, ttl=300)
    (report,) = open_store().dream(force=True)
    assert report.id is None
    assert report.errors == [f"Another pass is running: session {other}, since {held.claimed_at}."]
    assert written(eng) == []


@pytest.mark.requirement("DREAM-4")
def test_a_dead_pass_is_in_the_way_for_five_minutes_only(eng: Engram, clock: ShiftedClock) -> None:
    talk(eng)
    dead = eng.sessions.register("dream", "dreaming")
    eng.leases.claim(dead, "dream", exclusive=True, ttl=300)
    clock.advance(301)
    assert eng.dream(force=True)[0].errors == []


@pytest.mark.requirement("DREAM-5")
def test_a_pass_that_lost_its_lease_writes_nothing_more_and_says_so(eng: Engram, open_store: Open) -> None:
    for number in range(4):
        talk(eng, f"task {number}")
    other = open_store()

    def take(stage: str, done: int, total: int) -> None:
        if (stage, done) == ("sessions", 2):
            thief = other.sessions.register("dream", "another")
            other.leases.break_lease("dream", by=thief, reason="for the test")

    (report,) = eng.dream(force=True, progress=take)
    assert len(report.errors) == 1
    assert len(eng.memories.list(kind="gist")) == 2
    assert eng.memories.list(kind="era") == []
    assert eng.dreams.list()[0].errors == ["This pass did not end."]


@pytest.mark.requirement("DREAM-6")
def test_a_pass_that_is_stopped_ends_after_its_step_keeps_what_it_has_and_frees_the_lease(eng: Engram) -> None:
    sessions = [talk(eng, f"task {number}") for number in range(4)]
    stop = threading.Event()

    def after_two(stage: str, done: int, total: int) -> None:
        if done == 2:
            stop.set()

    (report,) = eng.dream(force=True, stop=stop, progress=after_two)
    assert report.errors == ["sessions: stopped early on request"]
    assert len(report.gists) == 2
    assert [each for each in eng.leases.list() if each.resource == "dream"] == []
    assert eng.dreams.show(report.id or 0) == report
    (rest,) = eng.dream(force=True)
    assert sorted(report.gists + rest.gists) == sorted(sessions)


@pytest.mark.requirement("DREAM-7")
def test_a_stage_that_fails_is_reported_and_the_others_go_on(open_store: Open, model: Model) -> None:
    eng = open_store(llm="openai:m", llm_base_url=model.url)
    talk(eng)
    model.answer = lambda prompt: 400 if "one calendar month" in prompt else plainly(prompt)
    (report,) = eng.dream(force=True)
    assert [error.partition(":")[0] for error in report.errors] == ["eras"]
    assert report.eras == []
    assert set(report.blocks) == {"narrative"}


@pytest.mark.requirement("DREAM-7")
def test_a_workspace_that_fails_is_reported_and_the_others_go_on(sqlite_url: str, clock: ShiftedClock) -> None:
    with Engram(settings=load(url=sqlite_url), clock=clock) as eng:
        for name in ("anna", "broken", "carl"):
            talk(eng.workspace(name))
        connection = connect(sqlite_url)
        connection.execute(
            "CREATE TRIGGER no BEFORE INSERT ON dreams WHEN NEW.workspace = 'broken' "
            "BEGIN SELECT RAISE(ABORT, 'no room'); END"
        )
        connection.close()
        reports = {report.workspace: report for report in eng.dream(force=True, all_workspaces=True)}
    assert set(reports) == {"anna", "broken", "carl"}
    assert len(reports["broken"].errors) == 1
    assert [len(reports[name].gists) for name in ("anna", "carl")] == [1, 1]


@pytest.mark.requirement("DREAM-8")
def test_chosen_stages_alone_are_run_and_unknown_ones_refused(eng: Engram) -> None:
    talk(eng)
    (report,) = eng.dream(force=True, stages=["sessions"])
    assert (len(report.gists), report.eras, report.blocks) == (1, [], {})
    with pytest.raises(InvalidInput, match=r"no stage nap; there are sessions, consolidate, eras, profile"):
        eng.dream(stages=["nap"])
    with pytest.raises(InvalidInput, match="no stage nap"):
        eng.dream(stages=["nap"], all_workspaces=True)


@pytest.mark.requirement("DREAM-9")
def test_the_backlog_counts_sessions_new_turns_and_what_is_ripe(eng: Engram) -> None:
    first = talk(eng, turns=6)
    talk(eng, "the parser", turns=3)
    eng.sessions.log(first, "a log is not a turn")
    waiting = eng.dreams.backlog()
    assert (waiting.sessions, waiting.dirty, waiting.ripe, waiting.turns, waiting.unfolded) == (2, 2, 2, 9, 0)
    eng.dream(force=True)
    add(eng, first, "more", at="2026-03-03T10:00:00Z", turns=19)
    waiting = eng.dreams.backlog()
    assert (waiting.sessions, waiting.dirty, waiting.ripe, waiting.turns) == (2, 1, 0, 19)
    assert eng.dreams.backlog(ripe=19).ripe == 1
    add(eng, first, "one more", at="2026-03-03T11:00:00Z", turns=1)
    assert eng.dreams.backlog().ripe == 1
    assert eng.dreams.backlog().mark == eng.exchanges.recent(first, 1)[0].id


@pytest.mark.requirement("DREAM-10")
def test_continuity_is_full_at_four_ripe_sessions_and_acts_from_point_six(eng: Engram) -> None:
    for number in range(2):
        talk(eng, f"task {number}")
    (report,) = eng.dream()
    assert (report.drives.continuity, report.gists) == (0.5, [])
    talk(eng, "task 3")
    (report,) = eng.dream()
    assert (report.drives_before.continuity, len(report.gists)) == (0.75, 3)
    assert report.drives.continuity == 0
    for number in range(5):
        talk(eng, f"more {number}")
    assert eng.dream(dry_run=True)[0].drives.continuity == 1


@pytest.mark.requirement("DREAM-10")
def test_coherence_is_full_at_ten_gists_that_are_not_folded_in(eng: Engram) -> None:
    for number in range(5):
        talk(eng, f"task {number}")
    (report,) = eng.dream()
    assert (len(report.gists), report.eras, report.drives.coherence) == (5, [], 0.5)
    assert report.drives.stability == 0.75
    for number in range(5):
        talk(eng, f"more {number}")
    (report,) = eng.dream(stages=["sessions"])
    assert (report.drives.coherence, report.drives.stability) == (1, 0.5)
    (report,) = eng.dream()
    assert (report.eras, set(report.blocks)) == (["2026-03"], {"narrative"})
    assert (report.drives.coherence, report.drives.stability) == (0, 1)


@pytest.mark.requirement("DREAM-10")
def test_curiosity_rises_with_each_pass_more_with_news_and_falls_after_reflecting(lyra: Engram) -> None:
    eng = lyra
    session = talk(eng)
    eng.dream(force=True)
    assert eng.dreams.drives() is not None
    seen = []
    for number in range(6):
        if number == 1:
            add(eng, session, "news", at="2026-03-04T10:00:00Z", turns=1)
        eng.dream()
        felt = eng.dreams.drives()
        assert felt is not None
        seen.append(felt.curiosity)
    # .10 after reflecting; a pass, a pass with news, a pass that reflects, and again from there.
    assert seen == pytest.approx([0.25, 0.55, 0.10, 0.25, 0.40, 0.55])


@pytest.mark.requirement("DREAM-11")
def test_what_is_said_during_a_pass_is_news_to_the_next(lyra: Engram, open_store: Open) -> None:
    eng = lyra
    session = talk(eng)
    other = open_store()

    def speak(stage: str, done: int, total: int) -> None:
        if stage == "reflect" and done == 0:
            other.exchanges.add(session, "user", "One more thing.", created_at="2026-05-01T00:00:00Z")

    eng.dream(force=True, progress=speak)
    (report,) = eng.dream()
    assert report.drives.curiosity == pytest.approx(0.40)


@pytest.mark.requirement("DREAM-12")
def test_only_months_that_changed_are_made_anew(eng: Engram) -> None:
    march, april = talk(eng), talk(eng, "the parser", at="2026-04-05T10:00:00Z")
    eng.dream(force=True)
    add(eng, april, "more", at="2026-05-09T10:00:00Z", turns=20)
    (report,) = eng.dream(force=True)
    # The month of a session is that of its earliest turn.
    assert (report.gists, report.eras) == ([april], ["2026-04"])
    eras = {era.key: era.version for era in eng.memories.list(kind="era")}
    assert (set(eras), eras["2026-03"]) == ({"2026-03", "2026-04"}, 1)
    assert eng.memories.gist(march) is not None


@pytest.mark.requirement("DREAM-13")
def test_a_line_of_the_profile_has_its_date_and_the_memory_it_rests_on(eng: Engram) -> None:
    session = eng.sessions.register("claude-code", "talk")
    eng.exchanges.add(session, "user", "I prefer tabs over spaces in every project.", created_at="2026-03-02")
    eng.exchanges.add(session, "assistant", "Noted.", created_at="2026-03-02")
    eng.dream(force=True)
    block = eng.blocks.get("profile")
    assert block is not None
    (line,) = [line for line in block.content.split("\n") if "tabs" in line]
    assert "(2026-03-02)" in line
    (memory,) = eng.memories.list(kind="preference")
    assert line.endswith(f"[m{memory.id}]")


@pytest.mark.requirement("DREAM-14")
def test_self_is_json_with_mood_energy_narrative_and_the_last_six_reflections(
    lyra: Engram, clock: ShiftedClock
) -> None:
    eng = lyra
    for number in range(8):
        talk(eng, f"task {number}")
        clock.advance(60)
        eng.dream(force=True, stages=["sessions", "reflect"])
    block = eng.blocks.get("self")
    assert block is not None
    data = json.loads(block.content)
    assert set(data) == {"mood", "energy", "narrative", "reflections"}
    assert len(data["reflections"]) == 6
    assert block.version == 8
    assert data["narrative"].startswith("I ")


@pytest.mark.requirement("DREAM-15")
def test_no_transaction_is_open_while_a_model_thinks(open_store: Open, model: Model) -> None:
    eng, other = open_store(llm="openai:m", llm_base_url=model.url), open_store(busy_timeout=1)
    session = talk(eng)
    problems: list[BaseException] = []

    def write_meanwhile(prompt: str) -> str:
        try:
            with other.write():
                other.sessions.log(session, "written while a model thinks")
                other.world.set("still here")
                other.remember(f"call {len(model.asked)}")
        except BaseException as problem:
            problems.append(problem)
        return plainly(prompt)

    model.answer = write_meanwhile
    (report,) = eng.dream(force=True)
    assert (report.errors, problems) == ([], [])
    assert report.calls == len(model.asked) >= 3


@pytest.mark.requirement("DREAM-16")
def test_dreams_are_not_in_the_situation_report(eng: Engram) -> None:
    talk(eng)
    shown: list[str] = []
    eng.dream(force=True, progress=lambda *_: shown.append(eng.sitrep(None)))
    assert shown
    assert not any("dreaming" in text for text in [*shown, eng.sitrep(None)])


@pytest.mark.requirement("DREAM-17")
def test_each_workspace_has_a_pass_of_its_own(eng: Engram) -> None:
    for name in ("anna", "ben"):
        talk(eng.workspace(name))
    reports = eng.dream(force=True, all_workspaces=True)
    assert {report.workspace for report in reports} >= {"anna", "ben"}
    for name in ("anna", "ben"):
        assert len(eng.workspace(name).memories.list(kind="gist")) == 1
        assert len(eng.workspace(name).dreams.list()) == 1


@pytest.mark.requirement("DREAM-18")
def test_a_dream_that_was_never_dreamt_is_not_found(eng: Engram) -> None:
    with pytest.raises(DreamNotFound, match="no pass, undo or applied proposal 7 in workspace"):
        eng.dreams.show(7)


#: The seconds between the passes of a loop.
INTERVAL = 3_600.0


class Waits(ShiftedClock):
    """Lets no interval take any time, and ends the loop after some; whoever renews a lease waits as ever."""

    def __init__(self, rounds: int) -> None:
        self.waits: list[float] = []
        self.rounds = rounds

    def wait(self, event: threading.Event, seconds: float) -> bool:
        if seconds != INTERVAL:
            return event.wait(seconds)
        self.waits.append(seconds)
        self.advance(seconds)
        return event.is_set() or len(self.waits) > self.rounds


@pytest.mark.requirement("DREAM-19")
@pytest.mark.parametrize(("now", "passes"), [(False, 2), (True, 3)])
def test_the_first_pass_comes_after_one_interval_or_at_once(store_url: str, now: bool, passes: int) -> None:
    clock = Waits(2)
    with Engram(settings=load(url=store_url), clock=clock) as eng:

        def speak() -> None:
            eng.sessions.complete(talk(eng, f"round {len(clock.waits)}"))

        speak()
        eng.scheduler(INTERVAL, now=now, told=lambda reports: speak()).run()
        assert clock.waits == [INTERVAL] * 3
        assert [report.reason for report in eng.dreams.list()] == ["loop"] * passes


@pytest.mark.requirement("DREAM-19")
def test_the_loop_goes_on_while_another_dreams_and_ends_when_told(eng: Engram) -> None:
    eng.sessions.complete(talk(eng))
    other = eng.sessions.register("dream", "dreaming")
    eng.leases.claim(other, "dream", exclusive=True, ttl=300)
    heard: list[list[str]] = []
    twice = threading.Event()

    def told(reports: list[DreamReport]) -> None:
        heard.append(reports[0].errors)
        if len(heard) == 2:
            twice.set()

    scheduler = eng.scheduler(0.01, now=True, told=told)
    scheduler.start()
    assert twice.wait(30)
    scheduler.stop()
    assert all("Another pass is running" in errors[0] for errors in heard)
