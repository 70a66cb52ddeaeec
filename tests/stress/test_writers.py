"""Many processes do mixed writes at once; afterwards all acknowledged writes are there."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

import pytest

from engram import Engram
from tests.stress import _agent
from tests.stress._agent import Account
from tests.stress._processes import Crew

PROCESSES = 8
WRITES = 250
ALL = 1_000_000

Item = TypeVar("Item")


@pytest.mark.requirement("STRESS-1", "SESSION-4", "LEASE-8", "MESSAGE-2", "FEED-1")
def test_eight_processes_with_mixed_writes_lose_nothing(store_url: str, crew: Crew) -> None:
    with Engram(store_url) as eng:
        everybody = [eng.sessions.register("agent", "the first task") for _ in range(PROCESSES)]
        ledger = eng.sessions.register("ledger", "what all log to")
        eng.blocks.create(_agent.JOURNAL)
        eng.blocks.create(_agent.COUNTER, "0")
        eng.blocks.create(_agent.BOARD)
    workers = [crew.start(_agent.work, store_url, number, everybody, ledger, WRITES) for number in range(PROCESSES)]
    for worker in workers:
        worker.hear()
    begin = time.monotonic()
    for worker in workers:
        worker.call()
    accounts = [worker.result() for worker in workers]
    _print_rate(accounts, time.monotonic() - begin)
    with Engram(store_url) as eng:
        check_everything(eng, accounts, everybody, ledger)


def check_everything(eng: Engram, accounts: list[Account], everybody: list[str], ledger: str) -> None:
    """Check that the store has exactly the acknowledged writes."""
    _check_sessions(eng, accounts, everybody, ledger)
    _check_blocks(eng, accounts)
    _check_leases(eng, accounts)
    _check_messages(eng, accounts)
    _check_feed(eng)


def _check_sessions(eng: Engram, accounts: list[Account], everybody: list[str], ledger: str) -> None:
    completed = set[str]().union(*(account.completed for account in accounts))
    sessions = {*everybody, ledger, *(session for account in accounts for session in account.own_sessions)}
    assert {session.id for session in eng.sessions.list()} == sessions
    assert {session.id for session in eng.sessions.recent()} == completed
    for session in sessions:
        logs = eng.sessions.logs(session, limit=0)[::-1]
        assert [entry.seq for entry in logs] == list(range(1, len(logs) + 1))
        acknowledged = [account.logs.get(session, []) for account in accounts]
        assert sorted(entry.content for entry in logs) == sorted(entry for own in acknowledged for entry in own)
        for number, own in enumerate(acknowledged):
            assert [entry.content for entry in logs if entry.content.startswith(f"{number}.")] == own
    assert eng.sessions.stats().logs == sum(len(own) for account in accounts for own in account.logs.values())


def _check_blocks(eng: Engram, accounts: list[Account]) -> None:
    edits = sum((account.edits for account in accounts), Counter[str]())
    # The first writer of the world state makes it, at version 1; the others were made beforehand.
    versions = {name: count + (name != "world") for name, count in edits.items()}
    assert {block.name: block.version for block in eng.blocks.list()} == versions
    for name, version in versions.items():
        assert eng.blocks.verify(name) == version
    lines = _content(eng, _agent.JOURNAL).splitlines()
    assert sorted(lines) == sorted(mark for account in accounts for mark in account.marks)
    for number, account in enumerate(accounts):
        assert [line for line in lines if line.startswith(f"{number}.")] == account.marks
    assert int(_content(eng, _agent.COUNTER)) == edits[_agent.COUNTER]


def _check_leases(eng: Engram, accounts: list[Account]) -> None:
    live = {(lease.session_id, lease.resource): lease.token for lease in eng.leases.list()}
    assert live == {key: token for account in accounts for key, token in account.held.items()}
    tokens = [token for account in accounts for token in account.tokens]
    assert len(tokens) == len(set(tokens))
    for account in accounts:
        assert account.tokens == sorted(account.tokens)
    for resource in (_agent.EXCLUSIVE, _agent.BOTH):
        holders = eng.leases.check(resource)
        assert len([holder for holder in holders if holder.exclusive]) <= 1


def _check_messages(eng: Engram, accounts: list[Account]) -> None:
    read = [delivery for account in accounts for delivery in account.read]
    unread = [
        (session.id, message.id)
        for session in eng.sessions.list()
        for message in eng.messages.inbox(session.id, peek=True)
    ]
    assert _each_once(read + unread) == _each_once(delivery for account in accounts for delivery in account.sent)


def _check_feed(eng: Engram) -> None:
    changes = eng.changes(limit=ALL)
    numbers = [change.number for change in changes]
    assert numbers == sorted(set(numbers))
    exchanges = [int(change.id) for change in changes if change.what == "exchange"]
    logged = [entry.id for session in eng.sessions.list() for entry in eng.sessions.logs(session.id, limit=0)]
    assert _each_once(exchanges) == set(logged)
    edits = Counter(change.id for change in changes if change.what == "block")
    assert edits == {block.name: block.version for block in eng.blocks.list()}


def _each_once(items: Iterable[Item]) -> set[Item]:
    counted = Counter(items)
    assert [item for item, count in counted.items() if count > 1] == []
    return set(counted)


def _content(eng: Engram, block: str) -> str:
    found = eng.blocks.get(block)
    assert found is not None
    return found.content


def _print_rate(accounts: list[Account], seconds: float) -> None:
    done = sum((account.done for account in accounts), Counter[str]())
    writes = PROCESSES * WRITES
    print(f"\n{writes} writes by {PROCESSES} processes in {seconds:.1f} s ({writes / seconds:.0f}/s): {dict(done)}")
