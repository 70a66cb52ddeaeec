"""Processes that do a random mix of operations at once: none hangs, nothing is lost, and all counts are right."""

from __future__ import annotations

import time
from collections import Counter
from itertools import pairwise
from typing import LiteralString

import psycopg
import pytest

from engram import Engram, Receipt
from engram.config import load
from engram.safe_text import one_line
from engram.store_url import split_schema
from tests.stress._mix import COUNTER, JOURNAL, WORKSPACES, Account, mix
from tests.stress._processes import Crew, scaled
from tests.stress.test_kill import check_sound

PROCESSES = scaled(4, 16)
SECONDS = scaled(2.0, 120.0)
ALL = 10_000_000


@pytest.mark.requirement("STRESS-3")
def test_processes_with_mixed_operations_lose_nothing_and_leave_correct_counts(store_url: str, crew: Crew) -> None:
    with opened(store_url) as eng:
        for name in WORKSPACES:
            # Larger than they will ever be: no pass cuts them.
            eng.workspace(name).blocks.create(JOURNAL, max_tokens=10_000_000)
            eng.workspace(name).blocks.create(COUNTER, "0")
    deadlocks_before = deadlocks(store_url)
    workers = [crew.start(mix, store_url, number, SECONDS) for number in range(PROCESSES)]
    for worker in workers:
        worker.hear()
    begin = time.monotonic()
    for worker in workers:
        worker.call()
    # A worker that hangs or has an unexpected error fails the test here.
    accounts = [worker.result() for worker in workers]
    print_rate(accounts, time.monotonic() - begin)
    assert [problem for account in accounts for problem in account.problems] == []
    assert deadlocks(store_url) == deadlocks_before
    with opened(store_url) as eng:
        for name in WORKSPACES:
            view = eng.workspace(name)
            receipts = view.receipts(0)
            check_kept(view, accounts, receipts)
            check_blocks(view, accounts)
            check_messages(view, accounts, receipts)
            check_leases(view, accounts)
            check_feed(view, accounts)
            check_sessions(view)
            while view.backlog.work():
                pass
        check_index(eng)
    check_sound(store_url)


def deadlocks(url: str) -> int:
    """How many deadlocks the server has resolved in this database by failing a call; 0 on SQLite."""
    if not url.startswith("postgresql:"):
        return 0
    with psycopg.connect(split_schema(url)[0], autocommit=True) as connection:
        rows = connection.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        ((count,),) = rows.fetchall()
    return int(count)


def opened(url: str) -> Engram:
    return Engram(settings=load(url=url, embedder="static"))


def gone(receipts: list[Receipt], kind: str) -> set[int | str]:
    return {id for receipt in receipts for id in receipt.ids.get(kind, [])}


def check_kept(eng: Engram, accounts: list[Account], receipts: list[Receipt]) -> None:
    """Check that each acknowledged thing is stored, except those that a receipt names."""
    rows = ask(eng, "SELECT id, content FROM exchanges WHERE workspace = :workspace")
    said = {(eng.workspace_name, id): text for account in accounts for (_, id), text in own(eng, account.exchanges)}
    forgotten = gone(receipts, "exchanges")
    assert {id: text for id, text in rows if (eng.workspace_name, id) in said} == {
        id: text for (_, id), text in said.items() if id not in forgotten
    }
    assert forgotten & {id for id, _ in rows} == set()
    known = dict(ask(eng, "SELECT id, content FROM memories WHERE workspace = :workspace"))
    forgotten, cleaned = gone(receipts, "memories"), gone(receipts, "memories to rebuild")
    for account in accounts:
        for (_, id), text in own(eng, account.memories):
            if id in forgotten:
                assert id not in known
            elif id not in cleaned:
                assert known[id] == text
    sessions = {session.id for session in eng.sessions.list(dreams=True)}
    registered = {id for account in accounts for name, id in account.sessions if name == eng.workspace_name}
    assert registered - sessions == registered & gone(receipts, "sessions")


def own(eng: Engram, things: dict[tuple[str, int], str]) -> list[tuple[tuple[str, int], str]]:
    return [each for each in things.items() if each[0][0] == eng.workspace_name]


def check_blocks(eng: Engram, accounts: list[Account]) -> None:
    for block in eng.blocks.list():
        assert eng.blocks.verify(block.name) == block.version
    journal, counter = eng.blocks.get(JOURNAL), eng.blocks.get(COUNTER)
    assert journal is not None and counter is not None
    lines = journal.content.splitlines()
    for number, account in enumerate(accounts):
        assert [line for line in lines if line.startswith(f"{number}.")] == account.marks[eng.workspace_name]
    assert len(lines) == sum(len(account.marks[eng.workspace_name]) for account in accounts)
    assert int(counter.content) == sum(account.counted[eng.workspace_name] for account in accounts)


def check_messages(eng: Engram, accounts: list[Account], receipts: list[Receipt]) -> None:
    """Each delivery came once or still waits; but not to a session that is gone."""
    sessions = {session.id for session in eng.sessions.list(dreams=True)}
    read = [each for account in accounts for each in account.read if each[0] == eng.workspace_name]
    assert len(read) == len(set(read))
    unread = {
        (eng.workspace_name, session, message.id)
        for session in sessions
        for message in eng.messages.inbox(session, peek=True)
    }
    assert unread & set(read) == set()
    sent = {each for account in accounts for each in account.sent if each[0] == eng.workspace_name}
    assert set(read) <= sent and unread <= sent
    forgotten = gone(receipts, "messages")
    assert {each for each in sent if each[1] in sessions and each[2] not in forgotten} <= set(read) | unread


def check_leases(eng: Engram, accounts: list[Account]) -> None:
    """Check that no two sessions held a resource exclusively at once, by their records and by the store."""
    held: dict[str, list[tuple[float, float]]] = {}
    for account in accounts:
        for workspace, resource, began, ended in account.held:
            if workspace == eng.workspace_name:
                held.setdefault(resource, []).append((began, ended))
    for times in held.values():
        assert all(earlier[1] <= later[0] for earlier, later in pairwise(sorted(times)))
    rows = ask(
        eng,
        "SELECT resource, claimed_at, ended_at FROM leases WHERE workspace = :workspace AND exclusive = 1 "
        "ORDER BY resource, token",
    )
    for (resource, _, ended), (other, claimed, _) in pairwise(rows):
        assert resource != other or (ended is not None and ended <= claimed)
    assert [lease for lease in eng.leases.list() if lease.exclusive] == []


def check_feed(eng: Engram, accounts: list[Account]) -> None:
    changes = eng.changes(limit=ALL)
    numbers = [change.number for change in changes]
    assert numbers == sorted(set(numbers))
    for account in accounts:
        followed = account.followed[eng.workspace_name]
        assert followed == [number for number in numbers if followed and number <= followed[-1]]
    for what, of in (("exchange", "exchanges"), ("memory", "memories")):
        noted = {int(change.id) for change in changes if change.what == what}
        assert {id for account in accounts for (_, id), _ in own(eng, getattr(account, of))} <= noted


def check_sessions(eng: Engram) -> None:
    """The counters in a session's row are those of its exchanges, and its summary quotes one of them."""
    counted = ask(
        eng,
        "SELECT s.id, s.turns - s.turns_gone, s.last_seq, COUNT(e.turn), COALESCE(MAX(e.seq), 0) "
        "FROM sessions s LEFT JOIN exchanges e ON e.workspace = s.workspace AND e.session_id = s.id "
        "WHERE s.workspace = :workspace GROUP BY s.id, s.turns, s.turns_gone, s.last_seq",
    )
    for _, turns, last_seq, there, highest in counted:
        assert (turns, last_seq >= highest) == (there, True)
    quoted = ask(
        eng,
        "SELECT s.id, s.summary, e.session_id, e.content FROM sessions s "
        "LEFT JOIN exchanges e ON e.workspace = s.workspace AND e.id = s.summary_from "
        "WHERE s.workspace = :workspace AND s.summary_from IS NOT NULL",
    ) + ask(
        eng,
        "SELECT s.id, s.outcome, e.session_id, e.content FROM sessions s "
        "LEFT JOIN exchanges e ON e.workspace = s.workspace AND e.id = s.outcome_from "
        "WHERE s.workspace = :workspace AND s.outcome_from IS NOT NULL",
    )
    for id, copy, session, content in quoted:
        assert (session, copy) == (id, one_line(content, 200))


def check_index(eng: Engram) -> None:
    """Everything is on a shelf with all its words, and nothing is there that has gone."""
    assert count(eng, "SELECT COUNT(*) FROM backlog") == 0
    assert count(eng, "SELECT COUNT(*) FROM vectors") == count(eng, "SELECT COUNT(*) FROM items") > 0
    wrong = (
        "SELECT COUNT(*) FROM items WHERE kind = 'exchange' AND ref NOT IN (SELECT id FROM exchanges)",
        "SELECT COUNT(*) FROM items WHERE kind = 'memory' AND ref NOT IN (SELECT id FROM memories)",
        "SELECT COUNT(*) FROM exchanges WHERE id NOT IN (SELECT ref FROM items WHERE kind = 'exchange')",
        "SELECT COUNT(*) FROM memories WHERE content <> '' AND id NOT IN (SELECT ref FROM items WHERE kind = 'memory')",
        "SELECT COUNT(*) FROM terms WHERE id NOT IN (SELECT term FROM postings)",
        "SELECT COUNT(*) FROM postings WHERE term NOT IN (SELECT id FROM terms)",
        "SELECT COUNT(*) FROM postings WHERE item NOT IN (SELECT id FROM items)",
        "SELECT COUNT(*) FROM items WHERE id NOT IN (SELECT item FROM postings)",
        "SELECT COUNT(*) FROM sources WHERE source_kind = 'exchange' AND source_id NOT IN (SELECT id FROM exchanges)",
        "SELECT COUNT(*) FROM sources WHERE source_kind = 'memory' AND source_id NOT IN (SELECT id FROM memories)",
    )
    assert [(sql, found) for sql in wrong if (found := count(eng, sql))] == []
    with eng._view.engine.read() as tx:
        shelves = tx.all(
            "SELECT workspace, RTRIM(shelf, '/0123456789'), SUM(items), SUM(length) FROM shelves "
            "GROUP BY 1, 2 ORDER BY 1, 2"
        )
        items = tx.all(
            "SELECT workspace, shelf, COUNT(*), SUM(length) FROM items GROUP BY workspace, shelf ORDER BY 1, 2"
        )
    assert [tuple(map(_whole, row)) for row in shelves if row[2]] == [tuple(map(_whole, row)) for row in items]


def _whole(value: object) -> object:
    """Sums come as decimals from one of the engines."""
    return value if isinstance(value, str) else int(str(value))


def ask(eng: Engram, sql: LiteralString) -> list[tuple]:  # type: ignore[type-arg]
    with eng._view.engine.read() as tx:
        return tx.all(sql, workspace=eng.workspace_name)


def count(eng: Engram, sql: LiteralString) -> int:
    with eng._view.engine.read() as tx:
        return int(tx.all(sql)[0][0])


def print_rate(accounts: list[Account], seconds: float) -> None:
    done = sum((account.done for account in accounts), Counter[str]())
    total = sum(done.values())
    print(f"\n{total} actions by {PROCESSES} processes in {seconds:.1f} s ({total / seconds:.0f}/s): {dict(done)}")
