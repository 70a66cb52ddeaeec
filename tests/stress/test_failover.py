"""The primary PostgreSQL server dies under load, and its standby takes over, again and again.

Replication is synchronous. Processes write all the time through a URL that names both servers. Half of them have little
patience, so that their calls fail in an outage; the calls of the others wait.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import pytest

from engram import Engram, LeaseHeld, StoreBusy, StoreUnavailable
from engram.config import load
from tests._replication import Pair
from tests.stress._processes import Crew, Parent, Worker, scaled

T = TypeVar("T")

FAILOVERS = scaled(2, 20)
#: Processes with little and with much patience.
PROCESSES = scaled(2, 4)
IMPATIENT, PATIENT = 0.5, 30.0
#: The longest outage in seconds: from the death of the primary until its standby takes over.
OUTAGE = 2.0
#: Seconds to connect, at most; see `postgres_pool`. There are two hosts.
CONNECTING = 2 * 10
JOURNAL, FENCED, RESOURCE = "journal", "fenced", "the-release"
#: A lease ends only when its holder says so.
TTL = 3_600.0


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.end()


@pytest.fixture
def crew(pair: Pair) -> Iterator[Crew]:
    """Its workers end before the servers do."""
    crew = Crew()
    yield crew
    crew.end()


class Account:
    """What one process wrote, and what it was told about that."""

    def __init__(self) -> None:
        #: In order. A mark begins with the kind of the write.
        self.acknowledged: list[str] = []
        #: The error said that nothing was written.
        self.refused: list[str] = []
        #: The error said that it may be written.
        self.unknown: list[str] = []
        #: Fencing tokens, in the order in which they were given.
        self.tokens: list[int] = []
        self.errors: Counter[str] = Counter()
        #: Seconds.
        self.longest = 0.0


class Writer:
    def __init__(self, eng: Engram, number: int, session: str) -> None:
        self.account = Account()
        self._eng = eng
        self._name = f"w{number}"
        self._session = session
        self._count = 0

    def write(self) -> bool:
        """Write once; whether that was acknowledged."""
        kinds: list[Callable[[str], None]] = [self.log, self.add, self.remember, self.journal, self.fenced]
        kind = kinds[self._count % len(kinds)]
        self._count += 1
        mark = f"{kind.__name__}.{self._name}.{self._count}"
        begun = time.monotonic()
        try:
            kind(mark)
        except LeaseHeld:
            return False
        except (StoreUnavailable, StoreBusy) as error:
            self.account.errors[type(error).__name__] += 1
            if getattr(error, "may_be_written", False):
                self.account.unknown.append(mark)
            else:
                self.account.refused.append(mark)
            return False
        finally:
            self.account.longest = max(self.account.longest, time.monotonic() - begun)
        self.account.acknowledged.append(mark)
        return True

    def log(self, mark: str) -> None:
        self._eng.sessions.log(self._session, mark)

    def add(self, mark: str) -> None:
        self._eng.exchanges.add(self._session, "user", mark)

    def remember(self, mark: str) -> None:
        self._eng.remember(mark)

    def journal(self, mark: str) -> None:
        self._eng.blocks.append(JOURNAL, f"{mark}\n")

    def fenced(self, mark: str) -> None:
        """A write under an exclusive lease. If the last release failed, the lease is still this session's."""
        lease = self._eng.leases.claim(self._session, RESOURCE, exclusive=True, ttl=TTL)
        self.account.tokens.append(lease.token)
        with self._eng.write(fence=lease.token):
            self._eng.blocks.append(FENCED, f"{lease.token} {mark}\n")
        try:
            self._eng.leases.release(self._session, RESOURCE)
        except (StoreUnavailable, StoreBusy) as error:
            self.account.errors[type(error).__name__] += 1


def write(parent: Parent, url: str, number: int, session: str, patience: float) -> Account:
    """Write until the test says to end. Each acknowledgement is told, so the test sees that the process goes on."""
    with Engram(settings=load(url=url, busy_timeout=patience)) as eng:
        writer = Writer(eng, number, session)
        while not parent.has_called():
            if writer.write():
                parent.tell(time.monotonic())
    return writer.account


class Followed(NamedTuple):
    numbers: list[int]
    errors: int


def follow(parent: Parent, url: str) -> Followed:
    """Read the change feed bit by bit, until the test has ended and there is no more."""
    numbers: list[int] = []
    errors = 0
    with Engram(settings=load(url=url, busy_timeout=IMPATIENT)) as eng:
        parent.tell("ready")
        ended = False
        while True:
            try:
                found = [change.number for change in eng.changes.wait(numbers[-1] if numbers else 0, 0.2)]
            except StoreUnavailable:
                errors += 1
                continue
            numbers += found
            if ended and not found:
                return Followed(numbers, errors)
            ended = ended or parent.has_called()


@pytest.mark.requirement("FAILOVER-1", "FAILOVER-2", "LEASE-8", "FEED-2")
def test_no_acknowledged_write_is_lost_and_processes_go_on_when_the_primary_dies(pair: Pair, crew: Crew) -> None:
    chance = random.Random(17)
    url = f"{pair.url}?target_session_attrs=read-write"
    with Engram(url) as eng:
        eng.blocks.create(JOURNAL)
        eng.blocks.create(FENCED)
        sessions = [eng.sessions.register("writer", f"number {number}") for number in range(PROCESSES)]
        follower = crew.start(follow, url)
        follower.hear()
        writers = [
            crew.start(write, url, number, session, IMPATIENT if number % 2 else PATIENT)
            for number, session in enumerate(sessions)
        ]
        outages = []
        for _ in range(FAILOVERS):
            wait_for_progress(writers, chance.randint(2, scaled(10, 50)))
            begun = time.monotonic()
            pair.kill_primary()
            time.sleep(chance.uniform(0.0, OUTAGE))
            pair.promote()
            pair.rebuild()
            wait_for_progress(writers)
            outages.append(time.monotonic() - begun)
        accounts = [end(writer) for writer in writers]
        check_written(eng, accounts, sessions)
        check_fenced(eng, accounts)
        followed = end(follower)
        check_feed(eng, followed.numbers)
    for account, patience in zip(accounts, (PATIENT, IMPATIENT) * PROCESSES, strict=False):
        # A call is one transaction or a few, and only one of them fails.
        assert account.longest < patience + CONNECTING
        if patience == PATIENT:
            assert account.errors["StoreBusy"] == 0
    assert sum(account.errors.total() for account in accounts) > 0, "no call ever noticed"
    acknowledged = sum(len(account.acknowledged) for account in accounts)
    print(
        f"\n{FAILOVERS} failovers of {min(outages):.1f} to {max(outages):.1f} s, {acknowledged} acknowledged writes, "
        f"all there once; {sum(len(account.refused) for account in accounts)} refused, none there; "
        f"{sum(len(account.unknown) for account in accounts)} unconfirmed; "
        f"longest call {max(account.longest for account in accounts):.1f} s"
    )


def wait_for_progress(writers: list[Worker[Account]], writes: int = 2) -> None:
    """Until each process has had so many writes acknowledged since now."""
    now = time.monotonic()
    for writer in writers:
        seen = 0
        while seen < writes:
            told = writer.hear()
            assert isinstance(told, float)
            seen += told > now


def end(worker: Worker[T]) -> T:
    worker.call()
    return worker.result()


def check_written(eng: Engram, accounts: list[Account], sessions: list[str]) -> None:
    """What was acknowledged is there once, what was refused is not, and there is nothing else."""
    eng.blocks.verify(JOURNAL)
    found: Counter[str] = Counter()
    for session in sessions:
        found.update(entry.content for entry in eng.sessions.logs(session, limit=0))
        found.update(turn.content for turn in eng.exchanges.history(session, limit=0))
    found.update(memory.content for memory in eng.memories.list(limit=0))
    found.update(_content(eng, JOURNAL).split())
    found.update(line.split()[1] for line in _content(eng, FENCED).splitlines())
    for account in accounts:
        for mark in account.acknowledged:
            assert found.pop(mark, 0) == 1, f"{mark} was acknowledged"
        for mark in account.refused:
            assert mark not in found, f"{mark} was refused"
        for mark in account.unknown:
            assert found.pop(mark, 0) <= 1
    assert not found


def check_fenced(eng: Engram, accounts: list[Account]) -> None:
    """No token was given twice, and none came after a later one."""
    eng.blocks.verify(FENCED)
    written = [(int(token), mark) for token, mark in map(str.split, _content(eng, FENCED).splitlines())]
    tokens = [token for token, _ in written]
    assert tokens == sorted(tokens)
    owners: dict[int, int] = {}
    for number, account in enumerate(accounts):
        assert account.tokens == sorted(account.tokens)
        for token in account.tokens:
            assert owners.setdefault(token, number) == number, f"token {token} was given to two sessions"
    for token, mark in written:
        assert mark.split(".")[1] == f"w{owners[token]}"


def check_feed(eng: Engram, followed: list[int]) -> None:
    assert followed == [change.number for change in eng.changes(0, limit=10_000_000)]


def _content(eng: Engram, name: str) -> str:
    block = eng.blocks.get(name)
    assert block is not None
    return block.content
