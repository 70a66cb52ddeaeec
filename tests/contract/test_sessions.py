"""Sessions, on both engines: who is at work, who went silent, who came back."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import psycopg
import pytest

from engram import Engram, Holder, LeaseLost, Session, SessionNotFound, StoreReadOnly
from engram.clock import between
from engram.config import load
from engram.coordination.sessions import _SILENT
from engram.storage.postgres_sql import driver_sql
from tests._files import connect
from tests.conftest import KEY_FILE, ShiftedClock, directly

MINUTE = 60.0
HOUR = 3_600.0
DAY = 86_400.0

OpenStore = Callable[..., Engram]
#: Ends a session in one of the two ways there are.
Ending = Callable[[Engram, ShiftedClock, str], None]


def complete(eng: Engram, clock: ShiftedClock, sid: str) -> None:
    eng.sessions.complete(sid, "Done")


def abandon(eng: Engram, clock: ShiftedClock, sid: str) -> None:
    """Let a day pass in silence and have somebody look; whoever else was active is abandoned too."""
    clock.advance(DAY + MINUTE)
    eng.sitrep()


WAITING = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'deadlock' AND wait_event_type = 'Lock'"

either_ending = pytest.mark.parametrize(
    ("end", "status"), [(complete, "completed"), (abandon, "abandoned")], ids=["completed", "abandoned"]
)


def ids(sessions: list[Session]) -> list[str]:
    return [session.id for session in sessions]


def statuses(eng: Engram) -> dict[str, str]:
    return {session.id: session.status for session in eng.sessions.list()}


@contextmanager
def postgres_connection(url: str) -> Iterator[psycopg.Connection]:
    """A connection beside the store's own, as another program would have it."""
    server, _, schema = url.rpartition("schema=")
    with psycopg.connect(server[:-1]) as connection:
        connection.execute(f"SET LOCAL search_path TO {schema}".encode())
        yield connection


@contextmanager
def somebody_writes(url: str) -> Iterator[None]:
    """Another program is in the middle of a write that touches every session."""
    if url.startswith("postgresql:"):
        with postgres_connection(url) as connection:
            connection.execute("SELECT id FROM sessions FOR UPDATE")
            yield
            connection.rollback()
    else:
        other = connect(url)
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")
        other.close()


@pytest.mark.requirement("SESSION-1")
def test_a_registered_session_keeps_everything_it_was_registered_with(eng: Engram) -> None:
    parent = eng.sessions.register("claude-code", "Porting")
    metadata = {"model": "large", "pid": 41, "tags": ["a", {"b": None}], "ratio": 0.5, "grüße": "你好"}
    sid = eng.sessions.register(
        "subagent",
        "Porting the router\nand its tests",
        metadata,
        name="router",
        project="acme/shop",
        external_id="harness-1",
        parent_id=parent,
    )
    session = eng.sessions.get(sid)
    assert session == Session(
        id=sid,
        type="subagent",
        name="router",
        summary="Porting the router\nand its tests",
        status="active",
        stale=False,
        project="acme/shop",
        external_id="harness-1",
        parent_id=parent,
        metadata=metadata,
        created_at=session.created_at,
        heartbeat_at=session.created_at,
        ended_at=None,
    )


@pytest.mark.requirement("SESSION-1")
def test_an_id_is_the_time_in_utc_and_eight_random_hex_digits(eng: Engram) -> None:
    made = [eng.sessions.register("codex", "One of many") for _ in range(20)]
    assert len(set(made)) == 20
    for sid in made:
        assert re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{8}", sid)
        created = eng.sessions.get(sid).created_at
        assert sid[:15] == created[:19].replace("-", "").replace(":", "").replace("T", "-")
        assert abs(between(created, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))) < 60


@pytest.mark.requirement("SESSION-1")
def test_what_was_not_given_is_absent_and_the_project_is_the_folders(
    eng: Engram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop").mkdir()
    monkeypatch.chdir(tmp_path / "shop")
    session = eng.sessions.get(eng.sessions.register("codex", ""))
    assert (session.summary, session.project, session.metadata) == ("", "shop", {})
    assert (session.name, session.external_id, session.parent_id) == (None, None, None)


@pytest.mark.requirement("SESSION-2")
def test_a_heartbeat_refreshes_the_time_and_the_summary_only_if_one_is_given(eng: Engram, clock: ShiftedClock) -> None:
    sid = eng.sessions.register("codex", "Reading")
    clock.advance(10 * MINUTE)
    beaten = eng.sessions.heartbeat(sid)
    assert beaten == eng.sessions.get(sid)
    assert beaten.summary == "Reading"
    assert 600 <= between(beaten.created_at, beaten.heartbeat_at) < 660
    assert eng.sessions.heartbeat(sid, "Writing").summary == eng.sessions.get(sid).summary == "Writing"


@pytest.mark.requirement("SESSION-2", "LEASE-7")
@either_ending
def test_a_heartbeat_brings_an_ended_session_back_but_not_its_leases(
    eng: Engram, clock: ShiftedClock, end: Ending, status: str
) -> None:
    sid = eng.sessions.register("codex", "Reading")
    lease = eng.leases.claim(sid, "deploy:staging")
    end(eng, clock, sid)
    assert eng.sessions.get(sid).status == status
    back = eng.sessions.heartbeat(sid)
    assert (back.status, back.ended_at, back.stale) == ("active", None, False)
    assert ids(eng.sessions.active()) == [sid]
    assert eng.leases.list(sid) == []
    with pytest.raises(LeaseLost):
        eng.leases.verify(lease.token)


@pytest.mark.requirement("SESSION-3", "LEASE-2", "LEASE-9")
def test_completing_sets_the_outcome_and_frees_every_lease(eng: Engram, clock: ShiftedClock) -> None:
    sid, other = eng.sessions.register("codex", "Porting"), eng.sessions.register("codex", "Watching")
    tokens = [
        eng.leases.claim(sid, "notes:a").token,
        eng.leases.claim(sid, "deploy:staging", exclusive=True).token,
        eng.leases.claim(sid, "notes:b", ttl=60).token,
    ]
    kept = eng.leases.claim(other, "notes:c")
    clock.advance(1)
    done = eng.sessions.complete(sid, "Ported; tests pass")
    assert (done.status, done.summary, done.outcome) == ("completed", "Porting", "Ported; tests pass")
    assert done.ended_at == done.heartbeat_at > done.created_at
    assert eng.sessions.get(sid) == done
    assert eng.leases.list() == [kept]
    for token in tokens:
        with pytest.raises(LeaseLost) as lost:
            eng.leases.verify(token)
        assert lost.value.reason == "completed"


@pytest.mark.requirement("SESSION-3")
def test_a_completion_that_is_undone_gives_the_leases_back_with_the_session(eng: Engram) -> None:
    sid = eng.sessions.register("codex", "Porting")
    lease = eng.leases.claim(sid, "deploy:staging", exclusive=True)
    with pytest.raises(ZeroDivisionError), eng.write():
        assert eng.sessions.complete(sid).summary == "Porting"
        raise ZeroDivisionError
    assert eng.sessions.get(sid).status == "active"
    assert eng.leases.verify(lease.token) == lease


@pytest.mark.requirement("SESSION-3", "LEASE-16")
def test_a_claim_that_races_with_completion_never_outlives_the_session(eng: Engram) -> None:
    sid = eng.sessions.register("codex", "Porting")
    claimed, completed = threading.Event(), threading.Event()

    def claim() -> None:
        with eng.write():
            eng.leases.claim(sid, "notes:a")
            claimed.set()
            # An engine that lets the two overlap completes within this time; one that does not waits for us.
            completed.wait(0.3)

    def finish() -> None:
        assert claimed.wait(10)
        eng.sessions.complete(sid, "Done")
        completed.set()

    with ThreadPoolExecutor(2) as pool:
        for work in [pool.submit(claim), pool.submit(finish)]:
            work.result(10)
    assert eng.sessions.get(sid).status == "completed"
    assert eng.leases.list() == []


@pytest.mark.requirement("SESSION-2", "SESSION-3")
def test_a_heartbeat_and_a_completion_at_once_do_not_deadlock(postgres_url: str) -> None:
    """Only where writers can overlap: both change the session's leases, and must do so in the same order."""
    named = f"{postgres_url}&application_name=deadlock"
    with Engram(settings=load(url=named)) as eng, postgres_connection(postgres_url) as other:
        sid = eng.sessions.register("codex", "Porting")
        first, second = (eng.leases.claim(sid, f"notes:{name}", exclusive=True) for name in "zy")
        eng.leases.renew(first.token)  # its row now lies behind the second one

        def until_waiting(count: int) -> None:
            deadline = time.monotonic() + 10
            while other.execute(WAITING).fetchone() != (count,):
                assert time.monotonic() < deadline
                other.execute("SELECT pg_stat_clear_snapshot()")

        other.execute("SELECT 1 FROM leases WHERE token = %s FOR UPDATE", (second.token,))
        with ThreadPoolExecutor(2) as pool:
            completion = pool.submit(eng.sessions.complete, sid, "Done")
            until_waiting(1)
            heartbeat = pool.submit(eng.sessions.heartbeat, sid)
            until_waiting(2)
            other.rollback()
            assert completion.result(10).status == "completed"
            assert heartbeat.result(10).status == "active"
        assert eng.leases.list() == []


@pytest.mark.requirement("SESSION-4")
def test_a_log_entry_is_an_exchange_numbered_in_order_and_a_sign_of_life(eng: Engram, clock: ShiftedClock) -> None:
    sid, other = eng.sessions.register("codex", "Porting"), eng.sessions.register("codex", "Watching")
    clock.advance(10 * MINUTE)
    before = eng.changes()[-1].number
    first = eng.sessions.log(sid, "router done")
    assert [(change.what, change.id) for change in eng.changes(before)] == [("exchange", str(first.id))]
    second = eng.sessions.log(sid, "tests done\nall of them")
    foreign = eng.sessions.log(other, "still here")
    assert [first.seq, second.seq, foreign.seq] == [1, 2, 1]
    assert eng.sessions.logs(sid) == [second, first]
    assert eng.sessions.get(sid).heartbeat_at == second.created_at
    assert eng.sessions.get(sid).summary == "Porting"


@pytest.mark.requirement("SESSION-4")
def test_entries_logged_at_once_are_numbered_without_a_gap_or_a_double(eng: Engram) -> None:
    sid = eng.sessions.register("codex", "Porting")
    barrier = threading.Barrier(4)

    def work(worker: int) -> None:
        barrier.wait(10)
        for number in range(5):
            eng.sessions.log(sid, f"{worker}/{number}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    entries = eng.sessions.logs(sid)
    assert [entry.seq for entry in entries] == list(range(20, 0, -1))
    assert {entry.content for entry in entries} == {f"{worker}/{number}" for worker in range(4) for number in range(5)}


@pytest.mark.requirement("SESSION-5")
@either_ending
def test_a_late_log_is_kept_but_revives_nothing(eng: Engram, clock: ShiftedClock, end: Ending, status: str) -> None:
    sid = eng.sessions.register("codex", "Porting")
    eng.leases.claim(sid, "deploy:staging", exclusive=True)
    end(eng, clock, sid)
    ended = eng.sessions.get(sid)
    assert ended.status == status
    clock.advance(MINUTE)
    entry = eng.sessions.log(sid, "a hook that came late")
    assert eng.sessions.get(sid) == ended
    assert eng.sessions.logs(sid) == [entry]
    assert eng.sessions.active() == []
    assert eng.leases.list() == []


@pytest.mark.requirement("SESSION-6")
def test_active_sessions_come_by_latest_heartbeat_and_completed_ones_by_latest_end(
    eng: Engram, clock: ShiftedClock
) -> None:
    a, b, c, d, e = (eng.sessions.register("codex", name) for name in "abcde")
    acts: list[tuple[Callable[[str], Session], str]] = [
        (eng.sessions.heartbeat, b),
        (eng.sessions.complete, d),
        (eng.sessions.heartbeat, a),
        (eng.sessions.complete, c),
        (eng.sessions.heartbeat, e),
    ]
    for act, sid in acts:
        clock.advance(HOUR)
        act(sid)
    eng.sessions.log(b, "still here")
    assert ids(eng.sessions.active()) == [b, e, a]
    assert ids(eng.sessions.recent()) == [c, d]
    assert ids(eng.sessions.recent(hours=2)) == [c]
    assert eng.sessions.recent(hours=0.5) == []
    abandon(eng, clock, a)
    assert eng.sessions.active() == []
    assert eng.sessions.recent() == []
    assert ids(eng.sessions.recent(hours=48)) == [c, d]


@pytest.mark.requirement("SESSION-7")
def test_logs_come_latest_first_twenty_unless_told_otherwise(eng: Engram) -> None:
    sid = eng.sessions.register("codex", "Porting")
    for number in range(1, 26):
        eng.sessions.log(sid, f"step {number}")
    newest_first = [f"step {number}" for number in range(25, 0, -1)]
    assert [entry.content for entry in eng.sessions.logs(sid)] == newest_first[:20]
    assert [entry.content for entry in eng.sessions.logs(sid, 3)] == newest_first[:3]
    assert [entry.content for entry in eng.sessions.logs(sid, limit=0)] == newest_first


@pytest.mark.requirement("SESSION-8")
def test_registering_a_known_external_id_resumes_that_session(eng: Engram, clock: ShiftedClock) -> None:
    sid = eng.sessions.register("codex", "Porting", {"pid": 1}, name="router", project="shop", external_id="h-1")
    eng.sessions.log(sid, "half done")
    eng.sessions.complete(sid, "Stopped half-way")
    clock.advance(HOUR)
    assert eng.sessions.register("codex", "Going on", {"pid": 2}, project="shop", external_id="h-1") == sid
    session = eng.sessions.get(sid)
    assert (session.status, session.summary, session.ended_at) == ("active", "Going on", None)
    assert (session.name, session.metadata, session.outcome) == ("router", {"pid": 2}, "Stopped half-way")
    assert between(session.created_at, session.heartbeat_at) >= HOUR
    assert [entry.content for entry in eng.sessions.logs(sid)] == ["half done"]
    assert eng.sessions.stats().sessions == 1


@pytest.mark.requirement("SESSION-8")
def test_find_knows_a_session_by_its_harness_id_and_tells_types_apart(eng: Engram, clock: ShiftedClock) -> None:
    claude = eng.sessions.register("claude-code", "Porting", external_id="h-1")
    clock.advance(1)
    codex = eng.sessions.register("codex", "Watching", external_id="h-1")
    assert claude != codex
    assert eng.sessions.find("h-1", "claude-code") == eng.sessions.get(claude)
    assert eng.sessions.find("h-1", "codex") == eng.sessions.get(codex)
    assert eng.sessions.find("h-1") == eng.sessions.get(codex)
    clock.advance(1)
    eng.sessions.heartbeat(claude)
    assert eng.sessions.find("h-1") == eng.sessions.get(claude)
    assert eng.sessions.find("h-1", "cursor") is None
    assert eng.sessions.find("h-2") is None
    assert eng.workspace("other").sessions.find("h-1") is None


@pytest.mark.requirement("SESSION-8")
def test_hooks_that_register_one_harness_id_at_once_make_one_session(eng: Engram) -> None:
    barrier = threading.Barrier(4)

    def register(_: int) -> str:
        barrier.wait(10)
        return eng.sessions.register("codex", "Porting", external_id="h-1")

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(register, range(4)))) == 1
    assert eng.sessions.stats().sessions == 1


@pytest.mark.requirement("SESSION-9")
def test_ensure_makes_an_idle_session_that_the_report_does_not_show(eng: Engram, clock: ShiftedClock) -> None:
    made = eng.sessions.ensure("chat-7", name="Evening chat")
    assert (made.id, made.name, made.status, made.summary) == ("chat-7", "Evening chat", "idle", "")
    assert eng.sessions.get("chat-7") == made
    assert eng.sessions.active() == []
    assert "chat-7" not in eng.sitrep(budget=None)
    clock.advance(HOUR)
    eng.sessions.log("chat-7", "said something")
    assert eng.sessions.get("chat-7") == made
    assert eng.sessions.heartbeat("chat-7", "Talking").status == "active"
    assert "chat-7" in eng.sitrep(budget=None)


@pytest.mark.requirement("SESSION-9")
def test_ensure_keeps_a_session_that_exists_and_renames_it_when_asked(eng: Engram) -> None:
    sid = eng.sessions.register("codex", "Porting", {"pid": 1}, name="router")
    before = eng.sessions.get(sid)
    changes = eng.changes()
    assert eng.sessions.ensure(sid) == before
    assert eng.changes() == changes
    assert eng.sessions.ensure(sid, "switch") == before._replace(name="switch")
    assert eng.sessions.get(sid) == before._replace(name="switch")


@pytest.mark.requirement("SESSION-10", "SESSION-11")
def test_stats_count_sessions_by_status_logs_live_leases_and_blocks(eng: Engram, clock: ShiftedClock) -> None:
    empty = eng.sessions.stats()
    assert set(empty[:8]) == {0}
    lost = eng.sessions.register("codex", "Lost")
    eng.leases.claim(lost, "notes:lost")
    abandon(eng, clock, lost)
    quiet, done, busy = (eng.sessions.register("codex", name) for name in ("Quiet", "Done", "Busy"))
    eng.sessions.ensure("chat-7")
    eng.leases.claim(quiet, "notes:a", ttl=MINUTE)
    eng.leases.claim(done, "notes:b")
    eng.leases.claim(busy, "notes:c")
    eng.leases.claim(busy, "notes:d", exclusive=True, ttl=DAY)
    eng.sessions.complete(done, "Done")
    clock.advance(HOUR)
    eng.sessions.log(busy, "one")
    eng.sessions.log(done, "two, late")
    eng.blocks.create("plan")
    eng.world.set("All is well")
    stats = eng.sessions.stats()
    assert (stats.sessions, stats.active, stats.stale, stats.completed, stats.abandoned) == (5, 2, 1, 1, 1)
    assert (stats.logs, stats.leases, stats.blocks) == (2, 2, 2)
    assert {session.id for session in eng.sessions.list() if session.stale} == {quiet}
    assert eng.workspace("other").sessions.stats()._replace(store_bytes=empty.store_bytes) == empty


@pytest.mark.requirement("SESSION-11")
@pytest.mark.parametrize(("setting", "limit"), [(None, 30 * MINUTE), ("5m", 5 * MINUTE), (7_200, 2 * HOUR)])
def test_a_silent_session_turns_stale_and_fresh_again_without_a_write(
    open_store: OpenStore, clock: ShiftedClock, setting: object, limit: float
) -> None:
    eng = open_store(stale_after=setting)
    sid = eng.sessions.register("codex", "Porting")
    eng.leases.claim(sid, "notes:a")
    changes = eng.changes()

    def staleness() -> set[bool]:
        """What every place that tells says; one answer when they agree."""
        told: list[Session | Holder] = [
            eng.sessions.get(sid),
            *eng.sessions.active(),
            *eng.sessions.list(),
            *eng.leases.check("notes:a"),
        ]
        return {*(each.stale for each in told), eng.sessions.stats().stale == 1, "stale" in eng.sitrep()}

    clock.advance(limit - 20)
    assert staleness() == {False}
    clock.advance(40)
    assert staleness() == {True}
    assert eng.sessions.get(sid).status == "active"
    assert eng.changes() == changes
    eng.sessions.heartbeat(sid)
    assert staleness() == {False}


@pytest.mark.requirement("SESSION-12", "SESSION-13", "LEASE-2", "LEASE-9")
@pytest.mark.parametrize(("setting", "limit"), [(None, DAY), ("2h", 2 * HOUR)])
@pytest.mark.parametrize(
    "look", [lambda eng: eng.sitrep(), lambda eng: eng.sessions.register("codex", "New")], ids=["report", "register"]
)
def test_a_session_silent_for_too_long_is_abandoned_and_its_leases_freed(
    open_store: OpenStore, clock: ShiftedClock, setting: object, limit: float, look: Callable[[Engram], object]
) -> None:
    eng = open_store(abandon_after=setting)
    lost, kept = eng.sessions.register("codex", "Lost"), eng.sessions.register("codex", "Kept")
    eng.sessions.ensure("chat-7")
    tokens = [
        eng.leases.claim(lost, "notes:a").token,
        eng.leases.claim(lost, "notes:b", exclusive=True, ttl=10 * DAY).token,
    ]
    mine = eng.leases.claim(kept, "notes:c")
    clock.advance(limit - 20)
    eng.sessions.heartbeat(kept)
    look(eng)
    assert eng.sessions.get(lost).status == "active"
    clock.advance(40)
    eng.workspace("other").sitrep()
    assert eng.sessions.get(lost).status == "active"
    look(eng)
    swept = eng.sessions.get(lost)
    assert (swept.status, swept.stale, swept.summary) == ("abandoned", False, "Lost")
    assert swept.ended_at is not None and between(swept.heartbeat_at, swept.ended_at) >= limit
    assert eng.sessions.get(kept).status == "active"
    assert eng.sessions.get("chat-7").status == "idle"
    assert eng.leases.list() == [mine]
    for token in tokens:
        with pytest.raises(LeaseLost) as lease:
            eng.leases.verify(token)
        assert lease.value.reason == "abandoned"


@pytest.mark.requirement("SESSION-13")
def test_a_sweep_with_nothing_to_sweep_writes_nothing(eng: Engram, clock: ShiftedClock) -> None:
    eng.sessions.complete(eng.sessions.register("codex", "Done"))
    eng.sessions.register("codex", "Busy")
    clock.advance(DAY - HOUR)
    changes = eng.changes()
    eng.sitrep()
    assert eng.changes() == changes


@pytest.mark.requirement("SESSION-13")
def test_the_sweep_gives_way_to_another_writer_and_is_made_up_for_later(
    eng: Engram, clock: ShiftedClock, store_url: str
) -> None:
    lost = eng.sessions.register("codex", "Lost")
    clock.advance(2 * DAY)
    with somebody_writes(store_url):
        began = time.monotonic()
        assert lost in eng.sitrep()
        assert time.monotonic() - began < 15, "the report waited for the other writer"
        assert eng.sessions.get(lost).status == "active"
    eng.sitrep()
    assert eng.sessions.get(lost).status == "abandoned"


@pytest.mark.requirement("SESSION-13")
def test_a_sweep_that_finds_a_row_taken_does_not_undo_the_registration(postgres_url: str, clock: ShiftedClock) -> None:
    """Only where writers can overlap: on SQLite the registration itself would wait."""
    with Engram(settings=load(url=postgres_url), clock=clock) as eng:
        lost = eng.sessions.register("codex", "Lost")
        clock.advance(2 * DAY)
        with somebody_writes(postgres_url):
            new = eng.sessions.register("codex", "New")
        assert statuses(eng) == {lost: "active", new: "active"}


@pytest.mark.requirement("SESSION-13")
def test_the_sweep_does_not_join_a_callers_transaction(eng: Engram, clock: ShiftedClock) -> None:
    lost = eng.sessions.register("codex", "Lost")
    clock.advance(2 * DAY)
    with eng.write():
        new = eng.sessions.register("codex", "New")
        eng.sitrep()
    assert statuses(eng) == {lost: "active", new: "active"}
    eng.sitrep()
    assert statuses(eng) == {lost: "abandoned", new: "active"}


@contextmanager
def read_only_postgres(url: str, clock: ShiftedClock) -> Iterator[Engram]:
    with Engram(settings=load(url=f"{directly(url)}&options=-cdefault_transaction_read_only=on"), clock=clock) as eng:
        yield eng


@contextmanager
def read_only_sqlite(url: str, clock: ShiftedClock) -> Iterator[Engram]:
    """A copy of the store as somebody sees it who may read but not write it, also when the tests run as root."""
    folder = Path(tempfile.mkdtemp(prefix="engram-read-only-"))
    user, nobody = os.geteuid(), 65_534
    try:
        for file in Path(url).parent.iterdir():
            shutil.copy(file, folder)
            (folder / file.name).chmod(0o444)
        folder.chmod(0o555)
        if user == 0:
            os.seteuid(nobody)
        with Engram(settings=load(url=str(folder / Path(url).name)), clock=clock) as eng:
            yield eng
    finally:
        os.seteuid(user)
        folder.chmod(0o755)
        shutil.rmtree(folder)


@pytest.mark.skipif(bool(KEY_FILE), reason="another user may read the store, but not the key")
@pytest.mark.requirement("SESSION-13")
def test_the_report_of_a_read_only_store_leaves_the_sweep_to_others(
    eng: Engram, clock: ShiftedClock, store_url: str
) -> None:
    lost = eng.sessions.register("codex", "Lost")
    clock.advance(2 * DAY)
    read_only: Callable[[str, ShiftedClock], AbstractContextManager[Engram]] = (
        read_only_postgres if store_url.startswith("postgresql:") else read_only_sqlite
    )
    with read_only(store_url, clock) as reader:
        with pytest.raises(StoreReadOnly):
            reader.sessions.heartbeat(lost)
        assert lost in reader.sitrep()
        assert reader.sessions.get(lost).status == "active"


_MANY_SESSIONS = """
INSERT INTO sessions (workspace, id, type, summary, status, metadata, last_seq, created_at, heartbeat_at)
SELECT
  'default', 'many-' || n, 'codex', '', CASE WHEN n % 100 = 0 THEN 'active' ELSE 'completed' END, '{}', 0, stamp, stamp
FROM (SELECT n, '2026-02-' || (10 + n % 18) || 'T00:00:00.000000Z' AS stamp FROM generate_series(1, 5000) AS n) AS made
"""


@pytest.mark.requirement("SESSION-15")
def test_the_sweeps_question_is_answered_from_an_index(eng: Engram, store_url: str) -> None:
    values = {"workspace": "default", "since": "2026-01-01T00:00:00.000000Z"}
    if store_url.startswith("postgresql:"):
        with postgres_connection(store_url) as connection:
            # An empty table does not say which of its indexes is better.
            connection.execute(_MANY_SESSIONS)
            connection.execute("ANALYZE sessions")
            rows = connection.execute(b"EXPLAIN " + driver_sql(_SILENT).encode(), values).fetchall()
            connection.rollback()
        plan = " ".join(row[0] for row in rows)
        assert re.search(r"Index Cond: .*workspace = .*status = 'active'.*heartbeat_at <", plan), plan
    else:
        other = connect(store_url)
        plan = " ".join(row[3] for row in other.execute("EXPLAIN QUERY PLAN " + _SILENT, values))
        other.close()
        assert re.search(r"INDEX \w+ \(workspace=\? AND status=\? AND heartbeat_at<\?\)", plan), plan
    assert "sessions_by_status" in plan


def test_the_subagents_of_a_session_are_its_children_the_newest_first(eng: Engram, clock: ShiftedClock) -> None:
    parent = eng.sessions.register("claude-code", "Planning")
    children = []
    for number in range(3):
        clock.advance(1)
        children.append(eng.sessions.register("codex", f"Part {number}", parent_id=parent))
    eng.sessions.register("codex", "Nobody's child")
    eng.sessions.complete(children[0])
    assert [each.id for each in eng.sessions.children(parent)] == children[::-1]
    assert [each.id for each in eng.sessions.children(parent, 1)] == children[-1:]
    assert [each.status for each in eng.sessions.children(parent, 0)] == ["active", "active", "completed"]
    assert eng.sessions.children(children[0]) == []
    assert eng.workspace("other").sessions.list() == []
    with pytest.raises(SessionNotFound):
        eng.workspace("other").sessions.children(parent)
