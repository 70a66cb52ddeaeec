"""Holders of an exclusive lease are suspended past its time to live and resumed: none of their late writes succeeds.

Every fenced write puts its token into a block and into a log. Versions and log numbers follow the order of commits, so
a token that is lower than an earlier one shows a stale write that succeeded.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import time
from collections import Counter
from typing import NamedTuple

import pytest

from engram import Engram, Lease, LeaseHeld, LeaseLost, LeaseNotFound
from tests.stress._processes import PATIENCE, Crew, Parent, Worker, scaled

CONTENDERS = 6
SECONDS = scaled(2.0, 60.0)
#: Short enough that a stop outlives it, long enough for several writes.
TTL = 0.4
#: The test runs until at least this many leases have expired while their holders were suspended.
ENOUGH = 3
RESOURCE = "the-journal"
JOURNAL = "journal"


class Score(NamedTuple):
    """What became of one contender's work."""

    #: (token, number) of each fenced write whose commit was acknowledged.
    passed: list[tuple[int, int]]
    #: How often its token turned out to be stale, by the reason that was given.
    lost: Counter[str]
    #: How often it waited for its turn in vain.
    refused: int


def contend(parent: Parent, url: str, session: str, ledger: str, seed: int) -> Score:
    """Claim, write a few times under the lease's token, release; again and again until the test calls."""
    chance = random.Random(seed)
    score = Score([], Counter(), 0)
    numbers = itertools.count(1)
    with Engram(url) as eng:
        parent.tell("ready")
        parent.wait()
        while not parent.has_called():
            try:
                lease = eng.leases.claim(session, RESOURCE, exclusive=True, ttl=TTL, wait=1.0)
            except LeaseHeld:
                score = score._replace(refused=score.refused + 1)
                continue
            try:
                for number in itertools.islice(numbers, chance.randint(1, 7)):
                    fenced_write(eng, lease, ledger, number, pause=chance.uniform(0, 0.03))
                    score.passed.append((lease.token, number))
                    time.sleep(chance.uniform(0, 0.03))
                eng.leases.release(session, RESOURCE)
            except LeaseLost as lost:
                score.lost[lost.reason] += 1
            except LeaseNotFound:  # release says so of a lease that is over
                score.lost["before its release"] += 1
    return score


def fenced_write(eng: Engram, lease: Lease, ledger: str, number: int, pause: float = 0.0) -> None:
    with eng.write(fence=lease.token):
        time.sleep(pause)  # the token was checked, and nothing that others would have to wait for was touched yet
        eng.blocks.update(JOURNAL, f"{lease.token} {number}")
        eng.sessions.log(ledger, f"{lease.token} {number}")


@pytest.mark.requirement("LEASE-15", "STORE-15", "LEASE-8")
def test_no_fenced_write_succeeds_with_a_stale_token_while_holders_are_suspended(store_url: str, crew: Crew) -> None:
    with Engram(store_url) as eng:
        ledger = open_journal(eng)
        sessions = [eng.sessions.register("contender", f"number {each}") for each in range(CONTENDERS)]
        workers = {
            session: crew.start(contend, store_url, session, ledger, seed) for seed, session in enumerate(sessions)
        }
        for worker in workers.values():
            worker.hear()
        for worker in workers.values():
            worker.call()
        stops = stop_at_random(eng, workers)
        for worker in workers.values():
            worker.call()
        scores = [worker.result() for worker in workers.values()]
        writes = journal(eng, ledger)
    assert writes == sorted(writes, key=lambda write: write[0]), "a write passed with a stale token"
    # No acknowledged write is missing, and no refused one was written after all.
    assert sorted(writes) == sorted(write for score in scores for write in score.passed)
    lost = sum((score.lost for score in scores), Counter[str]())
    assert set(lost) <= {"expired", "before its release"}
    # Otherwise the test would have tested nothing.
    assert lost.total() > 0
    assert len([score for score in scores if score.passed]) > 1
    refused = sum(score.refused for score in scores)
    print(f"\n{stops} stops, {len(writes)} fenced writes under {len({token for token, _ in writes})} tokens,", end=" ")
    print(f"stale tokens refused: {dict(lost)}, waited in vain: {refused}")


def stop_at_random(eng: Engram, workers: dict[str, Worker[Score]]) -> int:
    """Stop holders, and now and then somebody else, mostly for longer than a lease lives; how often."""
    chance = random.Random(15)
    stops = outlived = 0
    end = time.monotonic() + SECONDS
    while time.monotonic() < end or outlived < ENOUGH:
        assert time.monotonic() < end + PATIENCE, "no holder was ever stopped for longer than its lease lived"
        time.sleep(chance.uniform(0.02, 0.2))
        holders = [lease.session_id for lease in eng.leases.list()]
        chosen = {chance.choice(holders or list(workers)), *chance.sample(list(workers), chance.randint(0, 1))}
        for session in chosen:
            workers[session].stop()
        held = {lease.token for lease in eng.leases.list() if lease.session_id in chosen}
        time.sleep(TTL * chance.uniform(0.5, 2.5))
        outlived += len(held - {lease.token for lease in eng.leases.list()})
        for session in chosen:
            workers[session].resume()
        stops += len(chosen)
    return stops


class Stop(NamedTuple):
    """A place to stop a writer at, and what must come of its write."""

    place: str
    #: Whether the next one gets the lease while the writer stands still. Inside the transaction it must not: the
    #: write may be committed already.
    freed: bool
    passes: bool


#: Enough for a few statements on a busy machine, so that the lease ends at the stop and not before.
STOPPED_TTL = 1.0
STOPS = [
    Stop("before the transaction", freed=True, passes=False),
    Stop("between the first check and the write", freed=False, passes=False),
    Stop("between the write and the last check", freed=False, passes=False),
    Stop("between the last check and the commit", freed=False, passes=True),
]


def write_with_a_stop(parent: Parent, url: str, session: str, ledger: str, place: str) -> str:
    """One fenced write, standing still on the way; what came of it."""
    with Engram(url) as eng:
        lease = eng.leases.claim(session, RESOURCE, exclusive=True, ttl=STOPPED_TTL)

        def reach(here: str) -> None:
            if here == place:
                parent.tell(lease.token)
                os.kill(os.getpid(), signal.SIGSTOP)

        try:
            reach("before the transaction")
            with eng.write(fence=lease.token), eng._view.engine.write() as transaction:
                reach("between the first check and the write")
                eng.blocks.update(JOURNAL, f"{lease.token} 1")
                eng.sessions.log(ledger, f"{lease.token} 1")
                reach("between the write and the last check")
                transaction.checks.append(lambda: reach("between the last check and the commit"))
        except LeaseLost as lost:
            return lost.reason
        return "passed"


def claim_and_write(parent: Parent, url: str, session: str, ledger: str) -> int:
    with Engram(url) as eng:
        parent.tell("ready")
        parent.wait()
        lease = eng.leases.claim(session, RESOURCE, exclusive=True, wait=PATIENCE)
        parent.tell(lease.token)
        fenced_write(eng, lease, ledger, 1)
        return lease.token


@pytest.mark.requirement("LEASE-15", "STORE-15")
@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: stop.place)
def test_a_write_suspended_past_its_lease_never_commits_after_the_next_holders_write(
    store_url: str, crew: Crew, stop: Stop
) -> None:
    with Engram(store_url) as eng:
        ledger = open_journal(eng)
        first, second = (eng.sessions.register("contender", name) for name in ("first", "second"))
        heir = crew.start(claim_and_write, store_url, second, ledger)
        heir.hear()
        late = crew.start(write_with_a_stop, store_url, first, ledger, stop.place)
        stale = late.hear()
        late.wait_until_stopped()
        wait_until_expired(eng)
        heir.call()
        assert heir.has_news(within=PATIENCE if stop.freed else STOPPED_TTL) == stop.freed
        late.resume()
        outcome = late.result()
        token = heir.result()
        writes = [token for token, _ in journal(eng, ledger)]
    assert isinstance(stale, int) and token > stale
    assert outcome == ("passed" if stop.passes else "expired")
    assert writes == ([stale, token] if stop.passes else [token])


def wait_until_expired(eng: Engram) -> None:
    deadline = time.monotonic() + PATIENCE
    while eng.leases.check(RESOURCE):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def open_journal(eng: Engram) -> str:
    """A block and a session that only fenced writes go to."""
    eng.blocks.create(JOURNAL)
    return eng.sessions.register("ledger", "what fenced writes did")


def journal(eng: Engram, ledger: str) -> list[tuple[int, int]]:
    """The fenced writes in the order of their commits, as the block and the log both have it."""
    eng.blocks.verify(JOURNAL)
    edits = [edit.new.split() for edit in reversed(eng.blocks.history(JOURNAL))]
    logs = [entry.content.split() for entry in reversed(eng.sessions.logs(ledger, limit=0))]
    assert edits == logs
    return [(int(token), int(number)) for token, number in edits]
