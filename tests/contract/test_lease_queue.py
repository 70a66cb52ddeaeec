"""Waiting for a lease and holding one, on both engines: what goes on in other threads while time passes.

Nothing here depends on how fast the machine is. Whoever sleeps by `SteppedClock` sleeps until the test lets time
pass, and the test knows when everybody is asleep.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from engram import Clock, Engram, InvalidInput, Lease, LeaseHeld, LeaseLost, SessionEnded, SessionNotFound
from engram.config import load
from tests.conftest import ShiftedClock

MINUTE = 60.0
DAY = 86_400.0
#: How long a test waits for what should happen at once; only a failure takes this long.
PATIENCE = 10.0

OpenStore = Callable[..., Engram]


class SteppedClock(ShiftedClock):
    """Time that passes when the test says so, for those who sleep as well."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._steps = 0
        self._asleep = 0
        self._ended = False
        #: How long the last sleeper meant to sleep.
        self.asked = 0.0

    def step(self, seconds: float = 0) -> None:
        """Let time pass and wake everybody."""
        with self._changed:
            self.shift += seconds
            self._steps += 1
            self._asleep = 0
            self._changed.notify_all()

    def end(self) -> None:
        """Let every deadline pass; nobody sleeps any more."""
        self._ended = True
        self.step(DAY)

    def until_asleep(self, count: int) -> None:
        """Wait until so many sleep that have not been woken since."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._asleep == count, PATIENCE), f"{self._asleep} are asleep"

    def sleep(self, seconds: float) -> None:
        self._sleep(seconds, threading.Event())

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self._sleep(seconds, event)
        return event.is_set()

    def _sleep(self, seconds: float, event: threading.Event) -> None:
        with self._changed:
            before = self._steps
            self.asked = seconds
            self._asleep += 1
            self._changed.notify_all()
            while self._steps == before and not event.is_set() and not self._ended:
                self._changed.wait(0.01)  # the event has no way to wake us


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def pool(clock: SteppedClock) -> Iterator[ThreadPoolExecutor]:
    """Threads for those who wait; a failed test lets their time run out instead of waiting for them."""
    with ThreadPoolExecutor(6) as threads:
        yield threads
        clock.end()


def sessions(eng: Engram, count: int) -> list[str]:
    return [eng.sessions.register("codex", f"Agent {number}") for number in range(count)]


class Waiting:
    """Claims that wait in threads of their own, each asleep before the next one asks."""

    def __init__(self, pool: ThreadPoolExecutor, clock: SteppedClock) -> None:
        self._pool = pool
        self._clock = clock
        self._count = 0

    def claim(self, eng: Engram, sid: str, resource: str = "notes:a", wait: float = MINUTE) -> Future[Lease]:
        claim = self._pool.submit(eng.leases.claim, sid, resource, exclusive=True, wait=wait)
        self._count += 1
        self._clock.until_asleep(self._count)
        return claim

    def look(self, seconds: float = 0, *, leaving: int = 0) -> None:
        """Let time pass; that many are done with waiting, and the others look and sleep again."""
        self._count -= leaving
        self._clock.step(seconds)
        self._clock.until_asleep(self._count)


@pytest.fixture
def waiting(pool: ThreadPoolExecutor, clock: SteppedClock) -> Waiting:
    return Waiting(pool, clock)


def refusal(eng: Engram, sid: str, resource: str = "notes:a") -> LeaseHeld:
    with pytest.raises(LeaseHeld) as refused:
        eng.leases.claim(sid, resource, exclusive=True)
    return refused.value


def release(eng: Engram, sid: str) -> None:
    eng.leases.release(sid, "notes:a")


def complete(eng: Engram, sid: str) -> None:
    eng.sessions.complete(sid)


def take_away(eng: Engram, sid: str) -> None:
    eng.leases.break_lease("notes:a", eng.sessions.register("codex", "Breaking"), "needed")


@pytest.mark.requirement("LEASE-5")
@pytest.mark.parametrize("free", [release, complete, take_away])
def test_a_waiting_claim_is_granted_once_the_lease_is_free(
    eng: Engram, waiting: Waiting, free: Callable[[Engram, str], None]
) -> None:
    a, b = sessions(eng, 2)
    held = eng.leases.claim(a, "notes:a", exclusive=True)
    claim = waiting.claim(eng, b)
    waiting.look(5)
    assert not claim.done()
    free(eng, a)
    waiting.look(leaving=1)
    assert claim.result(PATIENCE).session_id == b
    assert claim.result().token > held.token


@pytest.mark.requirement("LEASE-5", "LEASE-7")
def test_a_waiting_claim_is_granted_once_the_holders_time_is_up(eng: Engram, waiting: Waiting) -> None:
    a, b = sessions(eng, 2)
    eng.leases.claim(a, "notes:a", exclusive=True, ttl=30)
    claim = waiting.claim(eng, b, wait=MINUTE)
    waiting.look(40, leaving=1)
    assert claim.result(PATIENCE).session_id == b


@pytest.mark.requirement("LEASE-5")
def test_those_who_wait_are_served_in_order_of_arrival(eng: Engram, open_store: OpenStore, waiting: Waiting) -> None:
    a, b, c, d = sessions(eng, 4)
    other = open_store()
    eng.leases.claim(a, "notes:a", exclusive=True)
    claims = [waiting.claim(eng, d), waiting.claim(other, b), waiting.claim(eng, c)]
    served = []
    for holder, claim in zip([a, d, b], claims, strict=True):
        eng.leases.release(holder, "notes:a")
        waiting.look(leaving=1)
        served.append(claim.result(PATIENCE).session_id)
        assert sum(each.done() for each in claims) == len(served)
    assert served == [d, b, c]


@pytest.mark.requirement("LEASE-5")
def test_nobody_overtakes_those_who_wait(eng: Engram, waiting: Waiting) -> None:
    a, b, c, newcomer = sessions(eng, 4)
    eng.leases.claim(a, "shop:src/router.py", exclusive=True)
    claims = [waiting.claim(eng, b, "shop:src/router.py"), waiting.claim(eng, c, "shop:src/**")]
    eng.leases.release(a, "shop:src/router.py")
    refused = refusal(eng, newcomer, "shop:src/router.py")
    assert (refused.holders, refused.waiting) == ((), (b, c))
    assert b in str(refused)
    assert refusal(eng, newcomer, "shop:src/lexer.py").waiting == (c,)
    assert eng.leases.claim(newcomer, "shop:docs/guide.md", exclusive=True).session_id == newcomer
    waiting.look(leaving=1)
    assert claims[0].result(PATIENCE).session_id == b


@pytest.mark.requirement("LEASE-5", "LEASE-3")
def test_a_waiting_claim_whose_time_is_up_is_refused_and_leaves_the_queue(eng: Engram, waiting: Waiting) -> None:
    a, b, c = sessions(eng, 3)
    eng.leases.claim(a, "notes:a", "busy", exclusive=True)
    claim = waiting.claim(eng, b, wait=30)
    assert refusal(eng, c).waiting == (b,)
    waiting.look(20)
    assert not claim.done()
    waiting.look(11, leaving=1)
    with pytest.raises(LeaseHeld) as refused:
        claim.result(PATIENCE)
    assert [(holder.session_id, holder.note) for holder in refused.value.holders] == [(a, "busy")]
    assert refusal(eng, c).waiting == ()
    eng.leases.release(a, "notes:a")
    assert eng.leases.claim(c, "notes:a", exclusive=True).session_id == c


@pytest.mark.requirement("LEASE-5")
def test_a_long_wait_keeps_its_place(eng: Engram, waiting: Waiting) -> None:
    a, b, c = sessions(eng, 3)
    eng.leases.claim(a, "notes:a", exclusive=True)
    claim = waiting.claim(eng, b, wait=10 * MINUTE)
    for _ in range(20):
        waiting.look(5)
        assert refusal(eng, c).waiting == (b,)
    eng.leases.release(a, "notes:a")
    waiting.look(leaving=1)
    assert claim.result(PATIENCE).session_id == b


@pytest.mark.requirement("LEASE-5", "LEASE-10")
def test_a_holder_renews_by_claiming_again_although_others_wait(eng: Engram, waiting: Waiting) -> None:
    a, b = sessions(eng, 2)
    held = eng.leases.claim(a, "notes:a", exclusive=True)
    claim = waiting.claim(eng, b, wait=10 * MINUTE)
    assert eng.leases.claim(a, "notes:a", exclusive=True).token == held.token
    eng.leases.release(a, "notes:a")
    waiting.look(leaving=1)
    assert claim.result(PATIENCE).session_id == b


@pytest.mark.requirement("LEASE-5", "LEASE-16")
def test_a_session_that_ends_while_it_waits_gets_nothing_and_leaves_the_queue(eng: Engram, waiting: Waiting) -> None:
    a, b, c = sessions(eng, 3)
    eng.leases.claim(a, "notes:a", exclusive=True)
    claim = waiting.claim(eng, b)
    eng.sessions.complete(b)
    waiting.look(leaving=1)
    with pytest.raises(SessionEnded):
        claim.result(PATIENCE)
    eng.leases.release(a, "notes:a")
    assert eng.leases.claim(c, "notes:a", exclusive=True).session_id == c


@pytest.mark.requirement("LEASE-5")
def test_a_wait_that_is_interrupted_leaves_the_queue(
    eng: Engram, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, c = sessions(eng, 3)
    eng.leases.claim(a, "notes:a", exclusive=True)

    def interrupt(_: float) -> None:
        assert refusal(eng, c).waiting == (b,)
        raise KeyboardInterrupt

    monkeypatch.setattr(clock, "sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        eng.leases.claim(b, "notes:a", exclusive=True, wait=MINUTE)
    assert refusal(eng, c).waiting == ()


@pytest.mark.requirement("LEASE-5")
def test_a_waiter_that_was_killed_does_not_block_the_queue_for_long(
    eng: Engram, clock: SteppedClock, store_url: str
) -> None:
    a, b, c = sessions(eng, 3)
    eng.leases.claim(a, "notes:a", exclusive=True)
    wait = (
        "import sys, engram; engram.Engram(sys.argv[1]).leases.claim(sys.argv[2], 'notes:a', exclusive=True, wait=60)"
    )
    waiter = subprocess.Popen([sys.executable, "-c", wait, store_url, b])
    deadline = time.monotonic() + 3 * PATIENCE
    while not refusal(eng, c).waiting:
        assert time.monotonic() < deadline and waiter.poll() is None
    waiter.kill()
    waiter.wait(PATIENCE)
    eng.leases.release(a, "notes:a")
    assert refusal(eng, c).waiting == (b,)
    clock.advance(MINUTE)
    assert eng.leases.claim(c, "notes:a", exclusive=True).session_id == c


@pytest.mark.requirement("LEASE-5")
def test_a_wait_lasts_as_long_as_it_was_told_to(store_url: str) -> None:
    with Engram(settings=load(url=store_url), clock=Clock()) as eng:
        a, b = sessions(eng, 2)
        eng.leases.claim(a, "notes:a", exclusive=True)
        began = time.monotonic()
        with pytest.raises(LeaseHeld):
            eng.leases.claim(b, "notes:a", exclusive=True, wait=0.2)
        assert 0.2 <= time.monotonic() - began < PATIENCE


@pytest.mark.requirement("LEASE-5", "LEASE-1")
def test_an_advisory_claim_never_waits(eng: Engram) -> None:
    a, b = sessions(eng, 2)
    eng.leases.claim(a, "notes:a", exclusive=True)
    assert [each.session_id for each in eng.leases.claim(b, "notes:a", wait=MINUTE).conflicts] == [a]


@pytest.mark.requirement("LEASE-5", "LEASE-14")
def test_neither_waiting_nor_holding_is_possible_inside_a_transaction(eng: Engram) -> None:
    (a,) = sessions(eng, 1)
    changes = eng.changes()
    with eng.write():
        with pytest.raises(InvalidInput):
            eng.leases.claim(a, "notes:a", exclusive=True, wait=1)
        with pytest.raises(InvalidInput), eng.leases.hold(a, "notes:a"):
            pass
    assert eng.changes() == changes


def renewers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "engram-lease"]


@pytest.mark.requirement("LEASE-14")
def test_hold_has_the_lease_exactly_as_long_as_its_block(eng: Engram) -> None:
    a, b = sessions(eng, 2)
    with eng.leases.hold(a, "notes:a", "for a moment") as lease:
        assert (lease.exclusive, lease.note, lease.ttl) == (True, "for a moment", 900)
        assert eng.leases.verify(lease.token) == lease
        assert [holder.session_id for holder in refusal(eng, b).holders] == [a]
    assert eng.leases.list() == []
    assert renewers() == []
    with pytest.raises(LeaseLost) as lost:
        eng.leases.verify(lease.token)
    assert lost.value.reason == "released"


@pytest.mark.requirement("LEASE-14")
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_hold_releases_when_its_block_raises(eng: Engram, error: type[BaseException]) -> None:
    (a,) = sessions(eng, 1)
    with pytest.raises(error), eng.leases.hold(a, "notes:a"):
        raise error
    assert eng.leases.list() == []
    assert renewers() == []


@pytest.mark.requirement("LEASE-14")
@pytest.mark.parametrize("exclusive", [True, False], ids=["exclusive", "advisory"])
def test_hold_renews_in_the_background(eng: Engram, clock: SteppedClock, exclusive: bool) -> None:
    (a,) = sessions(eng, 1)
    with eng.leases.hold(a, "notes:a", exclusive=exclusive, ttl=5 * MINUTE) as lease:
        for _ in range(5):
            clock.until_asleep(1)
            assert clock.asked < 5 * MINUTE
            before = eng.leases.verify(lease.token).expires_at
            clock.step(4 * MINUTE)
            clock.until_asleep(1)
            after = eng.leases.verify(lease.token).expires_at
            assert before and after and after > before
    assert renewers() == []


@pytest.mark.requirement("LEASE-14")
def test_an_advisory_hold_needs_no_renewal_and_is_released_too(eng: Engram) -> None:
    a, b = sessions(eng, 2)
    other = eng.leases.claim(b, "notes:a")
    with eng.leases.hold(a, "notes:a", exclusive=False) as lease:
        assert (lease.ttl, [each.session_id for each in lease.conflicts]) == (None, [b])
        assert renewers() == []
    assert eng.leases.list() == [other]


@pytest.mark.requirement("LEASE-14")
def test_the_renewal_outlasts_a_busy_store(open_store: OpenStore, clock: SteppedClock) -> None:
    eng, other = open_store(busy_timeout=0.02), open_store()
    (a,) = sessions(eng, 1)
    with eng.leases.hold(a, "notes:a", ttl=10 * MINUTE) as lease:
        clock.until_asleep(1)
        with other.write():
            other.leases.renew(lease.token)
            clock.step(MINUTE)
            clock.until_asleep(1)
        clock.step(8 * MINUTE)
        clock.until_asleep(1)
        clock.advance(8 * MINUTE)
        assert eng.leases.verify(lease.token).token == lease.token


def let_expire(eng: Engram, clock: SteppedClock) -> None:
    clock.advance(11 * DAY)  # nobody is woken, as if the process had been stopped


def let_abandon(eng: Engram, clock: SteppedClock) -> None:
    clock.advance(2 * DAY)
    eng.sitrep()


def let_break(eng: Engram, clock: SteppedClock) -> None:
    eng.leases.break_lease("notes:a", eng.sessions.register("codex", "Breaking"), "needed")


losing = pytest.mark.parametrize(
    ("lose", "reason"),
    [(let_expire, "expired"), (let_abandon, "abandoned"), (let_break, "broken")],
    ids=["expired", "abandoned", "broken"],
)


@pytest.mark.requirement("LEASE-14", "LEASE-9")
@losing
def test_hold_tells_at_its_end_that_the_lease_was_lost(
    eng: Engram, clock: SteppedClock, lose: Callable[[Engram, SteppedClock], None], reason: str
) -> None:
    (a,) = sessions(eng, 1)
    done = False
    with pytest.raises(LeaseLost) as lost, eng.leases.hold(a, "notes:a", ttl=10 * DAY) as lease:
        lose(eng, clock)
        done = True
    assert done
    assert (lost.value.token, lost.value.reason) == (lease.token, reason)
    assert renewers() == []


@pytest.mark.requirement("LEASE-14")
@losing
def test_a_lost_lease_does_not_hide_what_went_wrong_in_the_block(
    eng: Engram, clock: SteppedClock, lose: Callable[[Engram, SteppedClock], None], reason: str
) -> None:
    (a,) = sessions(eng, 1)
    with pytest.raises(ZeroDivisionError), eng.leases.hold(a, "notes:a", ttl=10 * DAY):
        lose(eng, clock)
        raise ZeroDivisionError


@pytest.mark.requirement("LEASE-14")
def test_the_renewal_stops_when_the_lease_is_lost(eng: Engram, clock: SteppedClock) -> None:
    (a,) = sessions(eng, 1)
    with pytest.raises(LeaseLost), eng.leases.hold(a, "notes:a"):
        clock.until_asleep(1)
        (renewer,) = renewers()
        let_break(eng, clock)
        clock.step()
        renewer.join(PATIENCE)
        assert not renewer.is_alive()


def release_all(eng: Engram, sid: str) -> None:
    eng.leases.release_all(sid)


@pytest.mark.requirement("LEASE-14")
@pytest.mark.parametrize("give_up", [release, release_all, complete])
def test_giving_the_lease_up_oneself_is_no_loss(eng: Engram, give_up: Callable[[Engram, str], None]) -> None:
    a, b = sessions(eng, 2)
    with eng.leases.hold(a, "notes:a"):
        give_up(eng, a)
        theirs = eng.leases.claim(b, "notes:a", exclusive=True)
    assert eng.leases.list() == [theirs]


@pytest.mark.requirement("LEASE-14", "LEASE-3")
def test_a_hold_that_is_refused_never_enters_its_block(eng: Engram) -> None:
    a, b = sessions(eng, 2)
    eng.leases.claim(a, "notes:a")
    entered = False
    with pytest.raises(LeaseHeld), eng.leases.hold(b, "notes:a"):
        entered = True
    with pytest.raises(SessionNotFound), eng.leases.hold("nobody", "notes:b"):
        entered = True
    assert not entered
    assert renewers() == []


@pytest.mark.requirement("LEASE-14", "LEASE-5")
def test_hold_can_wait_for_its_turn(eng: Engram, clock: SteppedClock, pool: ThreadPoolExecutor) -> None:
    a, b = sessions(eng, 2)
    eng.leases.claim(a, "notes:a", exclusive=True)

    def hold() -> list[Lease]:
        with eng.leases.hold(b, "notes:a", wait=MINUTE):
            return eng.leases.list()

    held = pool.submit(hold)
    clock.until_asleep(1)
    eng.leases.release(a, "notes:a")
    clock.step()
    assert [lease.session_id for lease in held.result(PATIENCE)] == [b]
    assert eng.leases.list() == []
