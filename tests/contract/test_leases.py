"""Leases, on both engines: who may have what, for how long, and what a fencing token is worth."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from engram import Engram, Holder, Lease, LeaseHeld, LeaseLost, LeaseNotFound, SessionEnded, SessionNotFound
from engram.clock import between
from engram.config import load
from tests.conftest import ShiftedClock

MINUTE = 60.0
HOUR = 3_600.0
DAY = 86_400.0

OpenStore = Callable[..., Engram]


def sessions(eng: Engram, count: int) -> list[str]:
    return [eng.sessions.register("codex", f"Agent {number}") for number in range(count)]


def lifetime(lease: Lease) -> float:
    """From the claim to the end, in seconds."""
    assert lease.expires_at is not None
    return between(lease.claimed_at, lease.expires_at)


def lost_because(eng: Engram, token: int) -> str:
    with pytest.raises(LeaseLost) as lost:
        eng.leases.verify(token)
    assert lost.value.token == token
    return lost.value.reason


def live(eng: Engram, token: int) -> bool:
    return token in {lease.token for lease in eng.leases.list()}


def holders(found: list[Holder] | tuple[Holder, ...]) -> list[str]:
    return [holder.session_id for holder in found]


@pytest.mark.requirement("LEASE-1")
def test_an_advisory_claim_is_recorded_and_names_every_other_live_holder(
    eng: Engram, clock: ShiftedClock, caplog: pytest.LogCaptureFixture
) -> None:
    a, b, c, gone = sessions(eng, 4)
    first = eng.leases.claim(a, "shop:src/router.py", "rewriting it")
    assert (first.note, first.exclusive, first.ttl, first.expires_at, first.conflicts) == (
        "rewriting it",
        False,
        None,
        None,
        (),
    )
    assert caplog.records == []
    eng.leases.claim(gone, "shop:src/router.py")
    eng.leases.release(gone, "shop:src/router.py")
    eng.leases.claim(gone, "shop:src/router.py", ttl=5)
    eng.leases.claim(b, "shop:src/*.py", ttl=HOUR)
    eng.leases.claim(b, "shop:docs/guide.md")
    caplog.clear()
    clock.advance(MINUTE)
    third = eng.leases.claim(c, "shop:src")
    assert holders(third.conflicts) == [a, b]
    told = third.conflicts[0]
    assert (told.session_type, told.summary, told.note, told.stale) == ("codex", "Agent 0", "rewriting it", False)
    assert (told.resource, told.exclusive, told.expires_at) == ("shop:src/router.py", False, None)
    assert 60 <= told.age < 90
    (warning,) = caplog.records
    assert (warning.name, warning.levelno) == ("engram.leases", logging.WARNING)
    assert all(text in warning.getMessage() for text in ("shop:src", a, b))
    assert [lease.session_id for lease in eng.leases.list()] == [a, b, b, c]


@pytest.mark.requirement("LEASE-1")
def test_ones_own_claims_are_no_conflict_and_no_warning(eng: Engram, caplog: pytest.LogCaptureFixture) -> None:
    (a,) = sessions(eng, 1)
    eng.leases.claim(a, "shop:src/router.py", exclusive=True)
    assert eng.leases.claim(a, "shop:src/**", exclusive=True).conflicts == ()
    assert eng.leases.claim(a, "shop:src").conflicts == ()
    assert caplog.records == []


@pytest.mark.requirement("LEASE-2", "LEASE-9")
def test_an_advisory_claim_without_a_time_to_live_outlasts_any_silence_short_of_abandonment(
    eng: Engram, clock: ShiftedClock
) -> None:
    (a,) = sessions(eng, 1)
    lease = eng.leases.claim(a, "notes:a")
    clock.advance(DAY - MINUTE)
    eng.sitrep()
    assert eng.leases.verify(lease.token) == lease
    eng.leases.release(a, "notes:a")
    assert eng.leases.list() == []


@pytest.mark.requirement("LEASE-2", "LEASE-6")
def test_an_advisory_claim_with_a_time_to_live_ends_with_it_whatever_its_session_does(
    eng: Engram, clock: ShiftedClock
) -> None:
    (a,) = sessions(eng, 1)
    lease = eng.leases.claim(a, "notes:a", ttl=10 * MINUTE)
    assert lifetime(lease) == 600
    clock.advance(9 * MINUTE)
    eng.sessions.heartbeat(a)
    eng.sessions.log(a, "still here")
    assert eng.leases.verify(lease.token).expires_at == lease.expires_at
    clock.advance(2 * MINUTE)
    assert lost_because(eng, lease.token) == "expired"
    assert eng.leases.list() == []
    assert eng.leases.check("notes:a") == []


@pytest.mark.requirement("LEASE-3")
@pytest.mark.parametrize(
    "mine", ["shop:src/router.py", "shop:src", "shop:src/**", "shop:**/*.py", "shop:s?c/router.py"]
)
@pytest.mark.parametrize("exclusively", [True, False], ids=["an exclusive", "an advisory"])
def test_an_exclusive_claim_fails_while_another_sessions_claim_overlaps(
    eng: Engram, clock: ShiftedClock, mine: str, exclusively: bool
) -> None:
    a, b, c = sessions(eng, 3)
    held = eng.leases.claim(a, "shop:src/router.py", "rewriting it", exclusive=exclusively, ttl=2 * HOUR)
    eng.leases.claim(b, "shop:docs/guide.md", exclusive=True)
    clock.advance(45 * MINUTE)
    changes = eng.changes()
    with pytest.raises(LeaseHeld) as refused:
        eng.leases.claim(c, mine, exclusive=True)
    (holder,) = refused.value.holders
    assert holder == Holder(
        session_id=a,
        session_type="codex",
        summary="Agent 0",
        stale=True,
        resource="shop:src/router.py",
        exclusive=exclusively,
        note="rewriting it",
        claimed_at=held.claimed_at,
        expires_at=held.expires_at,
        age=holder.age,
    )
    assert 45 * MINUTE <= holder.age < 46 * MINUTE
    assert (refused.value.resource, refused.value.waiting) == (mine, ())
    assert all(text in str(refused.value) for text in (a, "rewriting it", "for 45 minutes", "stale"))
    # What has expired meanwhile may be marked as such, and nothing else.
    assert {change.what for change in eng.changes(changes[-1].number)} <= {"lease"}
    assert eng.leases.list(c) == []


@pytest.mark.requirement("LEASE-3")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("shop:src/router.py", "shop:src/router.pyi"),
        ("shop:src", "shop:src2/a.py"),
        ("shop:src/router.py", "depot:src/router.py"),
        ("shop:**/*.md", "shop:**/*.py"),
        ("notes:a", "notes:A"),
    ],
)
def test_exclusive_claims_that_share_no_path_live_side_by_side(eng: Engram, first: str, second: str) -> None:
    a, b = sessions(eng, 2)
    eng.leases.claim(a, first, exclusive=True)
    assert eng.leases.claim(b, second, exclusive=True).conflicts == ()


@pytest.mark.requirement("LEASE-3")
def test_a_refused_claim_can_be_made_once_nothing_overlaps_any_more(eng: Engram, clock: ShiftedClock) -> None:
    a, b, c, d = sessions(eng, 4)
    eng.leases.claim(a, "notes:x")
    eng.leases.claim(b, "notes:x", ttl=MINUTE)
    eng.leases.claim(c, "notes:x")
    with pytest.raises(LeaseHeld) as refused:
        eng.leases.claim(d, "notes:x", exclusive=True)
    assert holders(refused.value.holders) == [a, b, c]
    eng.leases.release(a, "notes:x")
    eng.sessions.complete(c)
    clock.advance(2 * MINUTE)
    assert eng.leases.claim(d, "notes:x", exclusive=True).exclusive


@pytest.mark.requirement("LEASE-3")
def test_of_many_who_claim_exclusively_at_once_exactly_one_gets_it(eng: Engram, open_store: OpenStore) -> None:
    contenders = sessions(eng, 6)
    stores, barrier = [eng, open_store()], threading.Barrier(6)

    def claim(number: int) -> str | None:
        barrier.wait(10)
        try:
            return stores[number % 2].leases.claim(contenders[number], "notes:x", exclusive=True).session_id
        except LeaseHeld:
            return None

    with ThreadPoolExecutor(6) as pool:
        winners = [winner for winner in pool.map(claim, range(6)) if winner]
    assert len(winners) == 1
    assert [lease.session_id for lease in eng.leases.list()] == winners


@pytest.mark.requirement("LEASE-4")
def test_an_advisory_claim_on_what_is_held_exclusively_is_recorded_with_the_conflict(
    eng: Engram, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = sessions(eng, 2)
    held = eng.leases.claim(a, "shop:src/router.py", "mine", exclusive=True)
    lease = eng.leases.claim(b, "shop:src/**")
    assert [(each.session_id, each.exclusive, each.note) for each in lease.conflicts] == [(a, True, "mine")]
    assert len(caplog.records) == 1
    assert eng.leases.verify(lease.token) == lease._replace(conflicts=())
    assert eng.leases.verify(held.token) == held


@pytest.mark.requirement("LEASE-6")
def test_a_lease_that_becomes_exclusive_gets_the_time_of_an_exclusive_one(eng: Engram) -> None:
    (a,) = sessions(eng, 1)
    eng.leases.claim(a, "notes:a", ttl=2 * HOUR)
    assert eng.leases.claim(a, "notes:a", exclusive=True).ttl == 900
    assert eng.leases.claim(a, "notes:a", exclusive=True, ttl=60).ttl == 60
    assert eng.leases.claim(a, "notes:a").ttl == 60, "claimed again, it is only renewed"


@pytest.mark.requirement("LEASE-17")
def test_a_session_and_its_subagent_share_what_either_holds_as_advisory(eng: Engram) -> None:
    parent, stranger = sessions(eng, 2)
    child, sibling = (eng.sessions.register("codex", "", parent_id=parent) for _ in range(2))
    eng.leases.claim(child, "notes:a", ttl=2 * HOUR)
    for other in (stranger, sibling):
        with pytest.raises(LeaseHeld):
            eng.leases.claim(other, "notes:a", exclusive=True)
    assert holders(eng.leases.claim(parent, "notes:a", exclusive=True, wait=1).conflicts) == [child]
    with pytest.raises(LeaseHeld, match=rf"{parent} \(codex, your parent\) has held it exclusively"):
        eng.leases.claim(child, "notes:a", exclusive=True)
    eng.leases.release(parent, "notes:a")
    eng.leases.claim(child, "notes:a", exclusive=True)
    with pytest.raises(LeaseHeld, match=rf"{child} \(codex, your subagent\) has held it exclusively"):
        eng.leases.claim(parent, "notes:a", exclusive=True)


@pytest.mark.requirement("LEASE-6")
@pytest.mark.parametrize(
    ("setting", "given", "expected"), [(None, None, 900), (None, 60, 60), (None, 7_200.5, 7_200.5), ("5m", None, 300)]
)
def test_an_exclusive_lease_lives_a_quarter_of_an_hour_unless_told_otherwise(
    open_store: OpenStore, clock: ShiftedClock, setting: object, given: float | None, expected: float
) -> None:
    eng = open_store(lease_ttl=setting)
    (a,) = sessions(eng, 1)
    lease = eng.leases.claim(a, "notes:a", exclusive=True, ttl=given)
    assert (lease.ttl, lifetime(lease)) == (expected, expected)
    clock.advance(expected - 20)
    assert eng.leases.verify(lease.token) == lease
    clock.advance(30)
    assert lost_because(eng, lease.token) == "expired"


def heartbeat(eng: Engram, lease: Lease) -> None:
    eng.sessions.heartbeat(lease.session_id)


def log(eng: Engram, lease: Lease) -> None:
    eng.sessions.log(lease.session_id, "still here")


def renew(eng: Engram, lease: Lease) -> None:
    assert eng.leases.renew(lease.token) == eng.leases.verify(lease.token)


def claim_again(eng: Engram, lease: Lease) -> None:
    assert eng.leases.claim(lease.session_id, lease.resource, exclusive=True).token == lease.token


@pytest.mark.requirement("LEASE-6", "LEASE-10")
@pytest.mark.parametrize("sign", [heartbeat, log, renew, claim_again])
def test_a_sign_of_life_gives_an_exclusive_lease_its_whole_time_again(
    eng: Engram, clock: ShiftedClock, sign: Callable[[Engram, Lease], None]
) -> None:
    a, b = sessions(eng, 2)
    lease = eng.leases.claim(a, "notes:a", "mine", exclusive=True, ttl=5 * MINUTE)
    untouched = eng.leases.claim(b, "notes:b", exclusive=True, ttl=14 * MINUTE)
    for _ in range(4):
        clock.advance(4 * MINUTE)
        sign(eng, lease)
        renewed = eng.leases.verify(lease.token)
        assert renewed == lease._replace(expires_at=renewed.expires_at)
    assert 21 * MINUTE <= lifetime(renewed) < 22 * MINUTE
    assert not live(eng, untouched.token), "a sign of life renews only the leases of its own session"
    clock.advance(6 * MINUTE)
    assert lost_because(eng, lease.token) == "expired"


@pytest.mark.requirement("LEASE-6")
def test_renewing_with_a_time_to_live_changes_it_from_now_on(eng: Engram, clock: ShiftedClock) -> None:
    (a,) = sessions(eng, 1)
    lease = eng.leases.claim(a, "notes:a", exclusive=True)
    assert lifetime(eng.leases.renew(lease.token, ttl=HOUR)) >= HOUR
    clock.advance(50 * MINUTE)
    eng.sessions.heartbeat(a)
    clock.advance(50 * MINUTE)
    assert eng.leases.verify(lease.token).ttl == HOUR


@pytest.mark.requirement("LEASE-6")
def test_renewing_an_advisory_claim_keeps_it_without_an_end_unless_it_has_one(eng: Engram, clock: ShiftedClock) -> None:
    (a,) = sessions(eng, 1)
    endless, short = eng.leases.claim(a, "notes:a"), eng.leases.claim(a, "notes:b", ttl=MINUTE)
    clock.advance(30)
    assert eng.leases.renew(endless.token).expires_at is None
    assert 90 <= lifetime(eng.leases.renew(short.token)) < 120


@pytest.mark.requirement("LEASE-7")
@pytest.mark.parametrize("sign", [heartbeat, log])
def test_no_sign_of_life_revives_an_expired_lease(
    eng: Engram, clock: ShiftedClock, sign: Callable[[Engram, Lease], None]
) -> None:
    (a,) = sessions(eng, 1)
    lease = eng.leases.claim(a, "notes:a", exclusive=True, ttl=MINUTE)
    clock.advance(2 * MINUTE)
    sign(eng, lease)
    with pytest.raises(LeaseLost):
        eng.leases.renew(lease.token)
    assert lost_because(eng, lease.token) == "expired"
    assert eng.leases.list() == []
    with pytest.raises(LeaseNotFound):
        eng.leases.release(a, "notes:a")


class WatchedClock(ShiftedClock):
    """Tells when the store has asked for the time."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self._shift = 0.0

    @property
    def shift(self) -> float:
        self.asked.set()
        return self._shift

    @shift.setter
    def shift(self, seconds: float) -> None:
        self._shift = seconds


@pytest.mark.requirement("LEASE-7")
@pytest.mark.parametrize("sign", [heartbeat, log, renew, claim_again])
def test_a_sign_of_life_that_had_to_wait_too_long_revives_nothing(
    postgres_url: str, sign: Callable[[Engram, Lease], None]
) -> None:
    """Only where a call can wait after it has begun: on SQLite it begins when nobody else writes."""
    clock = WatchedClock()
    settings = load(url=postgres_url)
    with Engram(settings=settings, clock=clock) as eng, Engram(settings=settings, clock=clock) as other:
        (a,) = sessions(eng, 1)
        lease = eng.leases.claim(a, "notes:a", exclusive=True, ttl=MINUTE)
        clock.advance(50)
        with ThreadPoolExecutor(1) as pool:
            # A write under that very lease has it for itself until it ends, here because it took too long.
            with pytest.raises(LeaseLost), other.write(fence=lease.token):
                clock.asked.clear()
                late = pool.submit(sign, eng, lease)
                clock.asked.wait(0.3)  # in vain if it asks only after its wait, which is just as well
                clock.advance(20)
            late.exception(10)
        assert lost_because(eng, lease.token) == "expired"


@pytest.mark.requirement("LEASE-7", "LEASE-8", "LEASE-9")
@pytest.mark.parametrize("by_another", [True, False], ids=["by another", "by its holder"])
def test_what_has_expired_is_claimed_anew_with_a_higher_token(
    eng: Engram, clock: ShiftedClock, by_another: bool
) -> None:
    a, b = sessions(eng, 2)
    old = eng.leases.claim(a, "notes:a", "first", exclusive=True, ttl=MINUTE)
    clock.advance(2 * MINUTE)
    new = eng.leases.claim(b if by_another else a, "notes:a", exclusive=True)
    assert new.token > old.token
    assert (new.note, new.conflicts) == (None, ())
    assert lost_because(eng, old.token) == "expired"
    assert eng.leases.list() == [new]


@pytest.mark.requirement("LEASE-8")
def test_tokens_rise_with_every_claim_and_are_never_used_again(eng: Engram, open_store: OpenStore) -> None:
    a, b = sessions(eng, 2)
    other = open_store()
    tokens = []
    for _ in range(3):
        tokens += [eng.leases.claim(a, "notes:a", exclusive=True).token, other.leases.claim(b, "notes:b").token]
        eng.leases.release(a, "notes:a")
        other.leases.release_all(b)
        tokens.append(eng.leases.claim(b, "notes:a", exclusive=True).token)
        eng.leases.break_lease("notes:a", a, "needed")
    eng.sessions.complete(b)
    tokens.append(eng.leases.claim(a, "notes:a").token)
    assert tokens == sorted(set(tokens))
    foreign = eng.workspace("other")
    with pytest.raises(LeaseNotFound):
        foreign.leases.verify(tokens[-1])


@pytest.mark.requirement("LEASE-9")
@pytest.mark.parametrize("exclusive", [True, False], ids=["exclusive", "advisory"])
def test_a_token_is_stale_however_its_lease_ended(eng: Engram, clock: ShiftedClock, exclusive: bool) -> None:
    breaker, released, all_released, broken, completed, expired, abandoned = sessions(eng, 7)
    tokens = {
        sid: eng.leases.claim(sid, f"notes:{sid}", exclusive=exclusive, ttl=10 * DAY).token
        for sid in (released, all_released, broken, completed, expired, abandoned)
    }
    eng.leases.renew(tokens[expired], ttl=MINUTE)
    assert all(eng.leases.verify(token).session_id == sid for sid, token in tokens.items())
    eng.leases.release(released, f"notes:{released}")
    eng.leases.release_all(all_released)
    eng.leases.break_lease(f"notes:{broken}", breaker, "needed")
    eng.sessions.complete(completed)
    clock.advance(DAY + HOUR)
    eng.sitrep()
    assert {sid: lost_because(eng, token) for sid, token in tokens.items()} == {
        released: "released",
        all_released: "released",
        broken: "broken",
        completed: "completed",
        expired: "expired",
        abandoned: "abandoned",
    }
    with pytest.raises(LeaseNotFound):
        eng.leases.verify(max(tokens.values()) + 1)


@pytest.mark.requirement("LEASE-10")
def test_claiming_what_one_still_holds_renews_it_and_keeps_the_token(eng: Engram, clock: ShiftedClock) -> None:
    (a,) = sessions(eng, 1)
    first = eng.leases.claim(a, "notes:a", "first", exclusive=True, ttl=5 * MINUTE)
    clock.advance(4 * MINUTE)
    again = eng.leases.claim(a, "notes:a", exclusive=True)
    assert again == first._replace(expires_at=again.expires_at)
    assert lifetime(again) >= 9 * MINUTE
    changed = eng.leases.claim(a, "notes:a", "second", ttl=HOUR)
    assert (changed.token, changed.note, changed.ttl) == (first.token, "second", HOUR)
    assert changed.exclusive, "an exclusive lease stays so until it is released"
    assert eng.leases.list() == [changed]


@pytest.mark.requirement("LEASE-10", "LEASE-4")
def test_a_holder_renews_by_claiming_again_although_others_noted_their_interest(
    eng: Engram, clock: ShiftedClock
) -> None:
    a, b = sessions(eng, 2)
    held = eng.leases.claim(a, "notes:a", exclusive=True)
    eng.leases.claim(b, "notes:a")
    clock.advance(MINUTE)
    again = eng.leases.claim(a, "notes:a", exclusive=True)
    assert (again.token, holders(again.conflicts)) == (held.token, [b])
    assert lifetime(again) > lifetime(held)


@pytest.mark.requirement("LEASE-10", "LEASE-3")
def test_an_advisory_claim_becomes_exclusive_only_when_nobody_else_is_there(eng: Engram) -> None:
    a, b = sessions(eng, 2)
    mine = eng.leases.claim(a, "notes:a", "reading")
    eng.leases.claim(b, "notes:a")
    with pytest.raises(LeaseHeld):
        eng.leases.claim(a, "notes:a", exclusive=True)
    assert eng.leases.verify(mine.token) == mine
    eng.leases.release(b, "notes:a")
    upgraded = eng.leases.claim(a, "notes:a", exclusive=True)
    assert (upgraded.token, upgraded.exclusive, upgraded.ttl, upgraded.note) == (mine.token, True, 900, "reading")
    with pytest.raises(LeaseHeld):
        eng.leases.claim(b, "notes:a", exclusive=True)


@pytest.mark.requirement("LEASE-11")
def test_releasing_frees_one_claim_and_releasing_all_the_rest(eng: Engram) -> None:
    a, b = sessions(eng, 2)
    mine = [eng.leases.claim(a, f"notes:{name}", exclusive=name == "y") for name in "xyz"]
    theirs = eng.leases.claim(b, "notes:w")
    assert eng.leases.release(a, "notes:x") == mine[0]
    assert eng.leases.list() == [*mine[1:], theirs]
    assert eng.leases.release_all(a) == mine[1:]
    assert eng.leases.list() == [theirs]
    assert eng.leases.release_all(a) == []
    assert eng.leases.claim(b, "notes:y", exclusive=True).exclusive


@pytest.mark.requirement("LEASE-11")
def test_releasing_what_is_not_held_is_an_error(eng: Engram) -> None:
    a, b = sessions(eng, 2)
    eng.leases.claim(a, "shop:src/**")
    eng.leases.claim(b, "notes:a")
    changes = eng.changes()
    for resource in ("notes:a", "shop:src/router.py", "notes:never"):
        with pytest.raises(LeaseNotFound, match=resource):
            eng.leases.release(a, resource)
    assert eng.changes() == changes
    eng.leases.release(a, "shop:src/**")
    with pytest.raises(LeaseNotFound):
        eng.leases.release(a, "shop:src/**")


@pytest.mark.requirement("LEASE-12")
def test_check_names_the_holders_of_whatever_overlaps(eng: Engram, clock: ShiftedClock) -> None:
    quiet = eng.sessions.register("claude-code", "Porting the router")
    eng.leases.claim(quiet, "shop:src/router.py", "rewriting it")
    clock.advance(HOUR)
    busy = eng.sessions.register("codex", "Reviewing")
    eng.leases.claim(busy, "shop:src/**", exclusive=False, ttl=HOUR)
    first, second = eng.leases.check("shop:src/router.py")
    assert (first.session_id, first.session_type, first.summary) == (quiet, "claude-code", "Porting the router")
    assert (first.stale, first.note, first.expires_at) == (True, "rewriting it", None)
    assert HOUR <= first.age < HOUR + 30
    assert (second.session_id, second.stale, second.resource) == (busy, False, "shop:src/**")
    assert holders(eng.leases.check("shop:src/lexer.py")) == [busy]
    assert holders(eng.leases.check("shop:**/*.py")) == [quiet, busy]
    assert eng.leases.check("shop:docs/guide.md") == []
    eng.sessions.heartbeat(quiet, "Back again")
    back = eng.leases.check("shop:src/router.py")[0]
    assert (back.session_id, back.stale, back.summary) == (quiet, False, "Back again")


@pytest.mark.requirement("LEASE-12")
def test_list_shows_live_claims_oldest_first_of_all_or_of_one_session(eng: Engram, clock: ShiftedClock) -> None:
    a, b = sessions(eng, 2)
    eng.leases.claim(a, "notes:gone", ttl=MINUTE)
    clock.advance(2 * MINUTE)
    first = eng.leases.claim(a, "notes:a", "a note", exclusive=True)
    second = eng.leases.claim(b, "notes:b")
    third = eng.leases.claim(a, "notes:c", ttl=HOUR)
    assert eng.leases.list() == [first, second, third]
    assert eng.leases.list(a) == [first, third]
    assert eng.leases.list(b) == [second]
    assert eng.workspace("other").leases.list() == []


def last_logs(eng: Engram, sid: str) -> list[str]:
    return [entry.content for entry in eng.sessions.logs(sid)]


@pytest.mark.requirement("LEASE-13", "LEASE-9")
def test_breaking_a_lease_takes_it_away_and_tells_both_sides(eng: Engram) -> None:
    holder, breaker, bystander = sessions(eng, 3)
    taken = eng.leases.claim(holder, "shop:src/router.py", exclusive=True)
    own = eng.leases.claim(breaker, "shop:src/**")
    kept = eng.leases.claim(bystander, "shop:docs/guide.md")
    assert eng.leases.break_lease("shop:src/*.py", breaker, "its holder has gone home") == [taken]
    assert eng.leases.list() == [own._replace(conflicts=()), kept]
    assert lost_because(eng, taken.token) == "broken"
    (loss,) = last_logs(eng, holder)
    assert all(text in loss for text in ("shop:src/router.py", breaker, "its holder has gone home"))
    (deed,) = last_logs(eng, breaker)
    assert all(text in deed for text in ("shop:src/router.py", holder, "its holder has gone home"))
    assert last_logs(eng, bystander) == []
    assert eng.leases.claim(breaker, "shop:src/router.py", exclusive=True).token > taken.token


@pytest.mark.requirement("LEASE-13")
def test_a_session_that_loses_several_claims_at_once_is_told_of_each(eng: Engram) -> None:
    holder, other, breaker = sessions(eng, 3)
    for sid, resource in [(holder, "shop:src/a.py"), (other, "shop:src/c.py"), (holder, "shop:src/b.py")]:
        eng.leases.claim(sid, resource)
    assert len(eng.leases.break_lease("shop:src/**", breaker, "moving the folder")) == 3
    assert eng.leases.list() == []
    told = {sid: "\n".join(last_logs(eng, sid)) for sid in (holder, other, breaker)}
    files = ("shop:src/a.py", "shop:src/b.py", "shop:src/c.py")
    assert [file for file in files if file in told[breaker]] == list(files)
    assert [file for file in files if file in told[other]] == ["shop:src/c.py"]
    assert [file for file in files if file in told[holder]] == ["shop:src/a.py", "shop:src/b.py"]


@pytest.mark.requirement("LEASE-13", "SESSION-11")
def test_breaking_the_lease_of_a_silent_session_is_no_sign_of_its_life(eng: Engram, clock: ShiftedClock) -> None:
    (holder,) = sessions(eng, 1)
    eng.leases.claim(holder, "notes:a")
    clock.advance(HOUR)
    before = eng.sessions.get(holder)
    assert before.stale
    eng.leases.break_lease("notes:a", eng.sessions.register("codex", "Breaking"), "its holder is silent")
    assert eng.sessions.get(holder) == before


@pytest.mark.requirement("LEASE-13")
def test_there_must_be_something_of_somebody_elses_to_break(eng: Engram, clock: ShiftedClock) -> None:
    a, b = sessions(eng, 2)
    eng.leases.claim(b, "notes:mine")
    eng.leases.claim(a, "notes:gone", ttl=MINUTE)
    clock.advance(2 * MINUTE)
    changes = eng.changes()
    for resource in ("notes:mine", "notes:gone", "notes:free"):
        with pytest.raises(LeaseNotFound):
            eng.leases.break_lease(resource, b, "needed")
    with pytest.raises(SessionNotFound):
        eng.leases.break_lease("notes:mine", "nobody", "needed")
    assert eng.changes() == changes


@pytest.mark.requirement("LEASE-16")
@pytest.mark.parametrize("status", ["completed", "abandoned"])
@pytest.mark.parametrize("exclusive", [True, False], ids=["exclusively", "as advisory"])
def test_a_session_that_has_ended_cannot_claim_until_it_is_back(
    eng: Engram, clock: ShiftedClock, status: str, exclusive: bool
) -> None:
    (a,) = sessions(eng, 1)
    if status == "completed":
        eng.sessions.complete(a)
    else:
        clock.advance(2 * DAY)
        eng.sitrep()
    changes = eng.changes()
    with pytest.raises(SessionEnded, match=status):
        eng.leases.claim(a, "notes:a", exclusive=exclusive)
    assert eng.changes() == changes
    eng.sessions.heartbeat(a)
    assert eng.leases.claim(a, "notes:a", exclusive=exclusive).session_id == a


@pytest.mark.requirement("LEASE-16")
def test_an_idle_session_can_claim(eng: Engram) -> None:
    eng.sessions.ensure("chat-7")
    assert eng.leases.claim("chat-7", "notes:a", exclusive=True).session_id == "chat-7"
