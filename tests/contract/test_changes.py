"""Transactions of a caller's own, fenced or not, and the change feed that tells what they wrote."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from engram import BlockExists, Engram, EngramError, InvalidInput, LeaseLost, LeaseNotFound
from engram.config import load
from engram.memory.exchanges import append_many
from engram.storage.engine import Transaction
from engram.storage.postgres import PostgresEngine
from engram.storage.postgres_transaction import PostgresTransaction
from tests.conftest import ShiftedClock
from tests.contract.test_store import OpenStore, contents, everything


@pytest.mark.requirement("STORE-13")
def test_a_callers_transaction_is_seen_by_others_as_a_whole_or_not_at_all(eng: Engram, open_store: OpenStore) -> None:
    other = open_store()
    with eng.write() as same:
        assert same is eng
        sid = eng.sessions.register("codex", "Working")
        eng.leases.claim(sid, "port:8080")
        eng.blocks.create("plan", "mine")
        assert eng.sessions.get(sid).summary == "Working"
        assert [block.name for block in eng.blocks.list()] == ["plan"]
        assert everything(other) == ([], [], [], [], [])
    assert everything(other) == everything(eng)
    assert [change.what for change in other.changes()] == ["session", "lease", "block"]


@pytest.mark.requirement("STORE-13")
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, BlockExists])
def test_a_failure_inside_a_callers_transaction_undoes_all_of_it(eng: Engram, error: type[BaseException]) -> None:
    sid = eng.sessions.register("codex", "Working")
    eng.blocks.create("plan")
    before = everything(eng)
    with pytest.raises(error), eng.write():
        eng.sessions.complete(sid)
        eng.world.set("never")
        if error is BlockExists:
            eng.blocks.create("plan")
        raise error
    assert everything(eng) == before
    eng.sessions.log(sid, "after")
    assert contents(eng, sid) == ["after"]


def test_waiting_returns_what_has_changed_already(eng: Engram, clock: ShiftedClock) -> None:
    assert eng.changes.latest == 0
    eng.blocks.create("plan")
    eng.world.set("all is well")
    last = eng.changes.latest
    assert [change.id for change in eng.changes.wait(0, 10)] == ["plan", "world"] == [x.id for x in eng.changes()]
    assert [change.number for change in eng.changes.wait(0, 10, limit=1)] == [last - 1]
    assert clock.shift == 0


def test_waiting_ends_when_the_time_is_over(eng: Engram, clock: ShiftedClock) -> None:
    eng.blocks.create("plan")
    eng.workspace("other").blocks.create("plan")
    assert eng.changes.wait(eng.changes.latest, 30) == []
    assert clock.shift == pytest.approx(30, abs=0.5)
    assert eng.changes.wait(eng.changes.latest, 0) == []
    for after, timeout in ((-1, 1.0), (0, -1.0), (0, "soon")):
        with pytest.raises(InvalidInput):
            eng.changes.wait(after, timeout)  # type: ignore[arg-type]
    with eng.write(), pytest.raises(InvalidInput, match="outside of write"):
        eng.changes.wait(0, 1)


def test_waiting_ends_with_a_change_of_another_process(store_url: str) -> None:
    """On the real clock: the other process writes while this one waits."""
    code = "import sys; from engram import Engram; Engram(sys.argv[1], embedder='none').blocks.create('theirs')"
    with Engram(store_url, embedder="none") as eng:
        eng.blocks.create("mine")
        after = eng.changes.latest
        other = subprocess.Popen([sys.executable, "-c", code, store_url])
        found = eng.changes.wait(after, 60)
        assert other.wait() == 0
    assert [(change.what, change.id) for change in found] == [("block", "theirs")]


@pytest.mark.requirement("STORE-14")
def test_a_failed_call_inside_a_callers_transaction_undoes_only_itself(eng: Engram) -> None:
    eng.blocks.create("plan", "one")
    with eng.write():
        eng.blocks.append("plan", " two")
        with pytest.raises(BlockExists):
            eng.blocks.create("plan")
        with pytest.raises(RuntimeError), eng.write():
            eng.blocks.create("undone")
            eng.blocks.append("plan", " undone")
            raise RuntimeError
        with eng.write():
            eng.blocks.append("plan", " three")
    assert eng.blocks.history("plan", 1)[0].new == "one two three"
    assert [block.name for block in eng.blocks.list()] == ["plan"]
    assert [change.id for change in eng.changes()] == ["plan", "plan"]
    assert eng.blocks.verify("plan") == 3


@pytest.mark.requirement("STORE-13", "STORE-14")
def test_a_transaction_the_engine_gave_up_takes_nothing_more(sqlite_url: str) -> None:
    with Engram(sqlite_url) as eng:
        sid = eng.sessions.register("codex", "Working")
        with eng._view.engine.write() as tx:
            # SQLite undoes a whole transaction by itself on some errors, such as a disk that is full.
            tx.run(
                "CREATE TRIGGER give_up BEFORE INSERT ON exchanges WHEN NEW.content = 'too much'"
                " BEGIN SELECT RAISE(ROLLBACK, 'gave up'); END"
            )
        before = everything(eng)
        with pytest.raises(EngramError), eng.write():
            eng.sessions.log(sid, "one")
            with suppress(Exception):
                eng.sessions.log(sid, "too much")
            eng.sessions.log(sid, "two")
        assert everything(eng) == before
        eng.sessions.log(sid, "after")
        assert contents(eng, sid) == ["after"]


@pytest.mark.requirement("STORE-15")
def test_a_fenced_transaction_passes_while_its_lease_is_held(eng: Engram) -> None:
    lease = eng.leases.claim(eng.sessions.register("codex", "Working"), "world", exclusive=True)
    with eng.write(fence=lease.token):
        eng.world.set("fenced")
    with eng.write():
        eng.world.set("half")
        with eng.write(fence=lease.token):
            eng.world.set("whole")
    assert eng.world.get() == "whole"


def lose(eng: Engram, clock: ShiftedClock, how: str, sid: str) -> None:
    match how:
        case "expired":
            clock.advance(901)
        case "released":
            eng.leases.release(sid, "port:8080")
        case "completed":
            eng.sessions.complete(sid)
        case "broken":
            eng.leases.break_lease("port:8080", eng.sessions.register("claude-code", "Impatient"), "urgent")
        case "superseded":
            eng.leases.release(sid, "port:8080")
            eng.leases.claim(sid, "port:8080", exclusive=True)


LOSSES = ["expired", "released", "completed", "broken", "superseded"]


@pytest.mark.requirement("STORE-15", "LEASE-9")
@pytest.mark.parametrize("how", LOSSES)
def test_a_token_that_is_stale_already_lets_no_transaction_begin(eng: Engram, clock: ShiftedClock, how: str) -> None:
    sid = eng.sessions.register("codex", "Working")
    token = eng.leases.claim(sid, "port:8080", exclusive=True).token
    lose(eng, clock, how, sid)
    before = everything(eng)
    with pytest.raises(LeaseLost) as lost, eng.write(fence=token):
        pytest.fail("the block ran")
    assert (lost.value.token, lost.value.reason) == (token, "released" if how == "superseded" else how)
    assert everything(eng) == before


@pytest.mark.requirement("STORE-15", "LEASE-15")
@pytest.mark.parametrize("how", LOSSES)
@pytest.mark.parametrize("nested", [False, True])
def test_a_token_that_becomes_stale_inside_the_transaction_lets_nothing_be_committed(
    eng: Engram, clock: ShiftedClock, how: str, nested: bool
) -> None:
    sid = eng.sessions.register("codex", "Working")
    token = eng.leases.claim(sid, "port:8080", exclusive=True).token
    before = (eng.sessions.list(), eng.changes(), eng.blocks.list())
    with pytest.raises(LeaseLost):
        if nested:
            with eng.write():
                with eng.write(fence=token):
                    eng.world.set("late")
                lose(eng, clock, how, sid)
        else:
            with eng.write(fence=token):
                eng.world.set("late")
                lose(eng, clock, how, sid)
    clock.shift = 0
    assert (eng.sessions.list(), eng.changes(), eng.blocks.list()) == before
    assert eng.leases.verify(token).token == token


@pytest.mark.requirement("STORE-15", "STORE-16")
def test_a_token_of_another_workspace_or_of_nobody_fences_nothing_in(eng: Engram) -> None:
    other = eng.workspace("other")
    token = other.leases.claim(other.sessions.register("codex", "Working"), "port:8080", exclusive=True).token
    for stranger in (token, 999_999):
        with pytest.raises(LeaseNotFound), eng.write(fence=stranger):
            pytest.fail("the block ran")
    assert eng.changes() == []


@pytest.mark.requirement("STORE-15")
@pytest.mark.parametrize("token", [0, -1, True, "1", 1.5, 1 << 70])
def test_what_is_no_token_is_refused(eng: Engram, token: Any) -> None:
    with pytest.raises(InvalidInput), eng.write(fence=token):
        pytest.fail("the block ran")


def new(eng: Engram, work: Callable[[], object]) -> list[tuple[str, str]]:
    """What the feed gains by some work."""
    seen = eng.changes(limit=100_000)
    work()
    return [(change.what, change.id) for change in eng.changes(after=seen[-1].number if seen else 0)]


@pytest.mark.requirement("FEED-1")
def test_every_write_to_a_session_enters_the_feed(eng: Engram, clock: ShiftedClock) -> None:
    ids: list[str] = []
    assert new(eng, lambda: ids.append(eng.sessions.register("codex", "Working", external_id="x"))) == [
        ("session", ids[0])
    ]
    (sid,) = ids
    (entry,) = new(eng, lambda: eng.sessions.log(sid, "entry"))
    assert entry == ("exchange", str(eng.sessions.logs(sid)[0].id))
    for write in (
        lambda: eng.sessions.heartbeat(sid),
        lambda: eng.sessions.complete(sid, "Done"),
        lambda: eng.sessions.register("codex", "Again", external_id="x"),
        lambda: eng.sessions.ensure(sid, "a name"),
    ):
        assert new(eng, write) == [("session", sid)]
    assert new(eng, lambda: eng.sessions.ensure("mine")) == [("session", "mine")]
    token = eng.leases.claim(sid, "port:1").token
    clock.advance(2 * 86_400)
    assert new(eng, eng.sitrep) == [("session", sid), ("lease", str(token))]


@pytest.mark.requirement("FEED-1")
def test_every_write_to_a_lease_or_message_enters_the_feed(eng: Engram, clock: ShiftedClock) -> None:
    sid, other = (eng.sessions.register("codex", name) for name in ("one", "two"))
    tokens: list[int] = []

    def claim(session: str, resource: str, exclusive: bool = True) -> None:
        tokens.append(eng.leases.claim(session, resource, exclusive=exclusive).token)

    assert new(eng, lambda: claim(sid, "port:1")) == [("lease", str(tokens[0]))]
    lease = ("lease", str(tokens[0]))
    assert new(eng, lambda: claim(sid, "port:1")) == [lease]
    assert new(eng, lambda: eng.leases.renew(tokens[0])) == [lease]
    assert sorted(new(eng, lambda: eng.sessions.heartbeat(sid))) == [lease, ("session", sid)]
    assert lease in new(eng, lambda: eng.sessions.log(sid, "entry"))
    assert new(eng, lambda: eng.leases.release(sid, "port:1")) == [lease]
    claim(sid, "port:2")
    broken = new(eng, lambda: eng.leases.break_lease("port:2", other, "urgent"))
    assert [what for what, _ in broken] == ["lease", "exchange", "exchange", "message"]
    claim(sid, "port:3")
    assert new(eng, lambda: eng.leases.release_all(sid)) == [("lease", str(tokens[-1]))]
    claim(sid, "port:4")
    clock.advance(901)
    expired = tokens[-1]
    assert new(eng, lambda: claim(other, "port:4")) == [("lease", str(expired)), ("lease", str(tokens[-1]))]
    sent = new(eng, lambda: eng.messages.send(sid, other, "hello"))
    assert [what for what, _ in sent] == ["message"]
    assert new(eng, lambda: eng.messages.inbox(other)) == sent


@pytest.mark.requirement("FEED-1")
def test_every_write_to_a_block_enters_the_feed(eng: Engram) -> None:
    writes: list[Callable[[], object]] = [
        lambda: eng.blocks.create("plan", "one", max_tokens=1),
        lambda: eng.blocks.update("plan", "two"),
        lambda: eng.blocks.append("plan", " three"),
        lambda: eng.blocks.replace("plan", "two", "four"),
        lambda: eng.blocks.archive_overflow("plan"),
        lambda: eng.blocks.restore("plan", 1),
        lambda: eng.blocks.delete("plan"),
    ]
    for write in writes:
        assert new(eng, write) == [("block", "plan")]
    assert new(eng, lambda: eng.world.set("calm")) == [("block", "world")]


@pytest.mark.requirement("FEED-1")
def test_what_writes_nothing_enters_nothing(eng: Engram) -> None:
    sid = eng.sessions.register("codex", "Working", external_id="x")
    token = eng.leases.claim(sid, "port:1").token
    eng.blocks.create("plan", "one")
    for call in (
        lambda: eng.sitrep(session_id=sid),
        lambda: (eng.sessions.get(sid), eng.sessions.active(), eng.sessions.recent(), eng.sessions.logs(sid)),
        lambda: (eng.sessions.find("x"), eng.sessions.stats(), eng.sessions.list(), eng.sessions.ensure(sid)),
        lambda: (eng.leases.list(), eng.leases.check("port:1"), eng.leases.verify(token)),
        lambda: (eng.messages.inbox(sid), eng.messages.inbox(sid, peek=True)),
        lambda: (eng.blocks.get("plan"), eng.blocks.list(), eng.blocks.history("plan"), eng.blocks.diff("plan", 1, 1)),
        lambda: (eng.blocks.verify("plan"), eng.blocks.archive_overflow("plan"), eng.world.get(), eng.changes()),
    ):
        assert new(eng, call) == []
    with eng.write():
        pass
    with pytest.raises(BlockExists):
        eng.blocks.create("plan")
    assert len(eng.changes()) == 3


@pytest.mark.requirement("FEED-1")
def test_a_transaction_names_each_thing_once_in_the_order_it_was_first_changed(eng: Engram) -> None:
    def work() -> None:
        with eng.write():
            for name in ("b", "a", "c"):
                eng.blocks.create(name)
            for name in ("a", "b"):
                eng.blocks.update(name, "again")

    assert new(eng, work) == [("block", "b"), ("block", "a"), ("block", "c")]


@pytest.mark.requirement("FEED-1", "STORE-16")
def test_the_feed_is_read_from_where_one_left_off(eng: Engram, open_store: OpenStore) -> None:
    other = eng.workspace("other")
    for number in range(10):
        eng.blocks.create(f"b{number}")
        other.blocks.create(f"o{number}")
    everything_seen = eng.changes()
    assert [change.id for change in everything_seen] == [f"b{number}" for number in range(10)]
    numbers = [change.number for change in everything_seen]
    assert numbers == sorted(set(numbers))
    seen, last = [], 0
    while batch := open_store().changes(after=last, limit=3):
        assert len(batch) <= 3
        seen += batch
        last = batch[-1].number
    assert seen == everything_seen
    assert eng.changes(after=last) == []


@pytest.mark.requirement("FEED-1")
@pytest.mark.parametrize("arguments", [{"after": -1}, {"limit": 0}, {"after": "1"}, {"limit": 1.5}, {"after": 1 << 70}])
def test_a_place_in_the_feed_that_cannot_be_is_refused(eng: Engram, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        eng.changes(**arguments)


@pytest.mark.requirement("FEED-2")
def test_a_transaction_that_began_first_and_ends_last_comes_last_in_the_feed(postgres_url: str) -> None:
    with Engram(postgres_url) as slow, Engram(postgres_url) as quick, Engram(postgres_url) as reader:
        with slow.write():
            slow.blocks.create("slow")
            quick.blocks.create("quick")
            (seen,) = reader.changes()
            assert seen.id == "quick"
        assert [change.id for change in reader.changes(after=seen.number)] == ["slow"]


def number_now(tx: Transaction) -> None:
    """Give the changes of a transaction their numbers, which usually happens together with the commit."""
    assert isinstance(tx, PostgresTransaction)
    tx.number_changes()
    tx.flush()
    tx.notes.clear()


@pytest.mark.requirement("FEED-2")
@pytest.mark.parametrize("fails", [False, True])
def test_a_reader_does_not_pass_a_transaction_that_has_its_numbers_and_is_about_to_end(
    postgres_url: str, fails: bool
) -> None:
    numbered, go_on = threading.Event(), threading.Event()

    def first(eng: Engram) -> None:
        with eng._view.engine.write() as tx:
            eng.blocks.create("first")
            number_now(tx)
            numbered.set()
            assert go_on.wait(30)
            if fails:
                raise ZeroDivisionError

    with Engram(postgres_url) as one, Engram(postgres_url) as two, ThreadPoolExecutor(2) as pool:
        try:
            pending = pool.submit(first, one)
            assert numbered.wait(30)
            # It does not wait for the first one, but a reader does not see it yet.
            two.workspace("other").blocks.create("second")
            two.blocks.create("third")
            assert two.changes() == []
            assert two.workspace("other").changes() == []
            assert two.changes.latest == two.changes.latest_everywhere == 0
            assert two.changes.wait(0, timeout=0.05) == []
        finally:
            go_on.set()
        if fails:
            with pytest.raises(ZeroDivisionError):
                pending.result()
        else:
            pending.result()
        assert [change.id for change in two.changes()] == (["third"] if fails else ["first", "third"])
        assert [change.id for change in two.changes.everywhere(0)][-2:] == ["second", "third"]


@pytest.mark.requirement("FEED-6")
def test_a_stranger_s_open_transaction_does_not_hold_up_the_feed(postgres_url: str, direct_server: str) -> None:
    with Engram(postgres_url) as eng, psycopg.connect(direct_server) as stranger:
        stranger.execute("CREATE TEMP TABLE busy (id INT)")
        stranger.execute("INSERT INTO busy VALUES (1)")
        stranger.execute("SELECT pg_advisory_xact_lock(1, 0), pg_advisory_xact_lock_shared(0)")
        eng.blocks.create("mine")
        assert [change.id for change in eng.changes()] == ["mine"]
        stranger.rollback()


@pytest.mark.requirement("FEED-6")
def test_writers_of_a_workspace_do_not_wait_for_each_other(postgres_url: str) -> None:
    open_now, go_on = threading.Event(), threading.Event()

    def slow(eng: Engram, sid: str) -> None:
        said = {"session_id": sid, "role": "user", "content": "the okapi sleeps in the shed"}
        with eng._view.engine.write() as tx:
            append_many(tx, "default", [eng.exchanges.prepare(said)], tx.now())
            number_now(tx)
            open_now.set()
            assert go_on.wait(30)

    settings = load(url=postgres_url, busy_timeout=5.0)
    with Engram(settings=settings) as one, Engram(settings=settings) as two:
        # Two of 32 connections have the same slot by chance, and would wait for the commit of the other.
        for slot, eng in enumerate((one, two), 1):
            assert isinstance(eng._view.engine, PostgresEngine)
            eng._view.engine._slots = itertools.count(slot)
            for wire in eng._view.engine._wires.values():
                wire.slot = slot
        first, second = one.sessions.register("codex", "One"), two.sessions.register("codex", "Two")
        two.exchanges.add(second, "user", "the okapi sleeps in the shed")
        with ThreadPoolExecutor(1) as pool:
            pending = pool.submit(slow, one, first)
            try:
                assert open_now.wait(30)
                two.sessions.log(second, "log")
                two.exchanges.add(second, "user", "the okapi sleeps")
                two.remember("Okapis sleep in sheds")
            finally:
                go_on.set()
            pending.result()
        assert len(one.recall("okapi", k=10, mode="words")) == 4


@pytest.mark.requirement("FEED-6")
def test_the_feed_goes_on_in_a_schema_that_was_renamed(new_postgres_url: str, direct_server: str) -> None:
    schema = new_postgres_url.rpartition("schema=")[2]
    with Engram(new_postgres_url) as eng:
        eng.blocks.create("before")
    with psycopg.connect(direct_server, autocommit=True) as connection:
        rename = "ALTER SCHEMA {} RENAME TO {}"
        connection.execute(SQL(rename).format(Identifier(schema), Identifier(f"{schema}_x")))
        # A new store under the old name has numbers of its own.
        with Engram(new_postgres_url), Engram(f"{new_postgres_url}_x") as moved:
            moved.blocks.create("after")
            assert [change.id for change in moved.changes()] == ["before", "after"]
        connection.execute(SQL("DROP SCHEMA {} CASCADE").format(Identifier(schema)))
        connection.execute(SQL(rename).format(Identifier(f"{schema}_x"), Identifier(schema)))
