"""Stores of earlier releases, with every kind of row: each opens, is migrated, and can be read and written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest

from engram import Engram, LeaseHeld, LeaseLost
from engram.config import load as settings
from engram.storage import migrate
from engram.storage.engine import Row
from tests.conftest import ShiftedClock
from tests.migration.old_stores import asking, load, releases, tables
from tests.migration.test_migrate import NEWEST, Store

Rows = Callable[[str], list[Row]]


@pytest.fixture(params=releases())
def release(request: pytest.FixtureRequest) -> int:
    number: int = request.param
    return number


@pytest.fixture
def old(store_url: str, release: int) -> Iterator[str]:
    """The address of a store as that release left it; copies that are made of it go with it."""
    load(store_url, release)
    yield store_url
    store = Store(store_url)
    if store.is_postgres:
        for name in store.backups():
            store.all(f"DROP SCHEMA {name} CASCADE")


@pytest.fixture
def rows(old: str) -> Rows:
    """Ask the store behind the library's back."""

    def ask(sql: str) -> list[Row]:
        with asking(old) as asked:
            return asked(sql)

    return ask


@pytest.fixture
def then(old: str, release: int, rows: Rows) -> ShiftedClock:
    """A clock that shows the time at which the store was made: its sessions are at work, and its leases live."""
    ((made,),) = rows("SELECT MAX(heartbeat_at) FROM sessions")
    clock = ShiftedClock()
    clock.shift = (_moment(made) - _moment(clock.now())).total_seconds() + 1
    return clock


def _moment(stamp: str) -> datetime:
    return datetime.fromisoformat(stamp)


@pytest.fixture
def eng(old: str, then: ShiftedClock) -> Iterator[Engram]:
    with Engram(settings=settings(url=old, dream_min_age=0), clock=then) as eng:
        yield eng


@pytest.mark.requirement("MIGRATE-7")
def test_there_is_a_store_of_every_release_on_both_engines() -> None:
    assert releases()
    assert max(releases()) <= NEWEST


@pytest.mark.requirement("MIGRATE-7")
def test_no_table_of_an_old_store_is_empty(old: str, rows: Rows) -> None:
    with asking(old) as ask:
        found = {table: ask(f"SELECT COUNT(*) FROM {table}")[0][0] for table in tables(ask, old)}
    assert len(found) > 30
    assert [table for table, count in found.items() if count == 0] == []


@pytest.mark.requirement("MIGRATE-7")
def test_an_old_store_has_every_status_and_kind(rows: Rows) -> None:
    def distinct(sql: str) -> set[object]:
        return {value for (value,) in rows(sql)}

    assert distinct("SELECT status FROM sessions") == {"active", "idle", "completed", "abandoned"}
    assert distinct("SELECT role FROM exchanges") == {"user", "assistant", "system", "tool", "log"}
    assert distinct("SELECT trust FROM exchanges") == {"user", "agent", "tool", "import"}
    assert distinct("SELECT status FROM memories") == {"active", "superseded", "archived"}
    assert distinct("SELECT kind FROM memories") >= {
        *("fact", "preference", "decision", "lesson", "note", "todo", "gist", "era", "digest", "recipe")
    }
    assert distinct("SELECT state FROM proposals") == {"pending", "accepted", "edited", "rejected", "applied"}
    assert distinct("SELECT ended_because FROM leases") >= {None, "expired", "released", "broken", "completed"}
    assert distinct("SELECT kind FROM journal") == {"memory", "block", "session"}
    assert distinct("SELECT kind FROM rebuilds") == {"memory", "block"}
    assert distinct("SELECT target FROM folds") == {"era", "profile", "narrative", "extract"}
    assert distinct("SELECT read_at IS NULL FROM deliveries") == {True, False}
    assert len(distinct("SELECT workspace FROM sessions")) > 2


@pytest.mark.requirement("MIGRATE-7", "MIGRATE-1")
def test_an_old_store_opens_with_the_newest_schema_and_nothing_of_it_is_lost(
    old: str, release: int, rows: Rows, then: ShiftedClock
) -> None:
    assert rows("SELECT MAX(number) FROM migrations") == [(release,)]
    kept = ("sessions", "exchanges", "memories", "memory_versions", "blocks", "block_versions", "leases", "messages")
    before = {table: rows(f"SELECT COUNT(*) FROM {table}") for table in kept}
    said = rows("SELECT id, content FROM exchanges ORDER BY id"), rows("SELECT id, content FROM memories ORDER BY id")
    with Engram(settings=settings(url=old), clock=then) as eng:
        assert eng.settings.url == old
    assert rows("SELECT MAX(number) FROM migrations") == [(NEWEST,)]
    assert {table: rows(f"SELECT COUNT(*) FROM {table}") for table in kept} == before
    assert said == (
        rows("SELECT id, content FROM exchanges ORDER BY id"),
        rows("SELECT id, content FROM memories ORDER BY id"),
    )
    assert len(Store(old).backups()) == (release < NEWEST)
    if not Store(old).is_postgres:
        assert rows("PRAGMA foreign_key_check") == []
        assert rows("PRAGMA integrity_check") == [("ok",)]


@pytest.mark.requirement("MIGRATE-7", "UPGRADE-1")
def test_a_hook_on_an_old_store_works_or_says_that_it_needs_an_upgrade(
    old: str, release: int, then: ShiftedClock, rows: Rows
) -> None:
    from engram import UpgradeNeeded

    ahead = [each for each in migrate.shipped("sqlite") if each.number > release]
    if all(each.hooks_without for each in ahead):
        with Engram(settings=settings(url=old), clock=then, migrate=False) as eng:
            session = eng.sessions.find("a-1", "claude-code")
            assert session is not None
            eng.exchanges.add(session.id, "user", "still here", embed=False)
            assert eng.sitrep(1_000, session.id)
            eng.sessions.complete(session.id, "done")
    else:
        with pytest.raises(UpgradeNeeded):
            Engram(settings=settings(url=old), clock=then, migrate=False)
    assert rows("SELECT MAX(number) FROM migrations") == [(release,)]


@pytest.mark.requirement("MIGRATE-7", "AUTHOR-9")
def test_what_an_old_store_has_or_an_earlier_release_still_writes_has_no_author(eng: Engram, old: str) -> None:
    lead = eng.sessions.find("a-1", "claude-code")
    assert lead is not None and lead.author is None
    (turn, *_) = eng.exchanges.recent(lead.id)
    with asking(old) as ask:
        ask(f"""
            INSERT INTO exchanges (workspace, session_id, seq, turn, role, content, trust, created_at)
            SELECT workspace, session_id, 1000, 1000, role, 'as an earlier release writes it', trust, created_at
            FROM exchanges WHERE id = {turn.id}""")
    eng.as_author("laptop").exchanges.add(lead.id, "user", "as this release writes it")
    said = {turn.content: turn.author for turn in eng.exchanges.history(lead.id)}
    assert said.pop("as this release writes it") == "laptop"
    assert "as an earlier release writes it" in said and set(said.values()) == {None}
    assert {memory.author for memory in eng.memories.list()} == {None}
    assert {hit.author for hit in eng.recall("which pump opens at 42 degrees?")} == {None}


@pytest.mark.requirement("MIGRATE-7")
def test_everything_in_an_old_store_can_be_read(eng: Engram) -> None:
    sessions = eng.sessions.list()
    lead = eng.sessions.find("a-1", "claude-code")
    assert lead is not None
    assert (lead.name, lead.summary, lead.status, lead.metadata) == (
        "lead",
        "Porting the router",
        "active",
        {"model": "m"},
    )
    assert {session.status for session in sessions} == {"active", "idle", "completed", "abandoned"}
    assert eng.sessions.active()
    assert eng.sessions.recent()
    assert [entry.content for entry in eng.sessions.logs(lead.id, limit=0)][-1] == "began"
    assert eng.sessions.stats().abandoned == 1
    assert [turn.role for turn in eng.exchanges.history(lead.id)] == ["system", "user", "assistant", "tool"]
    assert eng.exchanges.around(eng.exchanges.recent(lead.id, 2)[0].id)
    assert eng.exchanges.timeline()
    assert {lease.resource for lease in eng.leases.list(lead.id)} == {"acme/router:db/schema"}
    assert eng.leases.check("acme/router:db/schema")[0].session_id == lead.id
    assert [message.text for message in eng.messages.inbox(lead.id, peek=True)] == ["Lunch is at noon."]
    assert eng.world.get() == "The router is ported."
    for block in eng.blocks.list():
        assert eng.blocks.verify(block.name) == block.version
        assert eng.blocks.history(block.name) is not None
    assert "Then the code." in eng.blocks.diff("plan", 1, 2)
    for memory in [
        each for status in ("active", "superseded", "archived") for each in eng.memories.list(status=status)
    ]:
        assert eng.memories.get(memory.id) == memory
        eng.memories.history(memory.id)
        eng.memories.links(memory.id)
        eng.memories.sources(memory.id)
    assert "no deploys on Fridays" in " ".join(
        hit.text for hit in eng.recall("when do we never deploy?", what=["exchanges"])
    )
    assert eng.recall("which pump opens at 42 degrees?")[0].memory_id is not None
    assert eng.recall("zeppelin hangar", mode="words")
    assert eng.memories.recall_gists("billing")
    assert eng.memories.recall_eras("billing")
    assert "2026-02" in eng.memories.gists_by_month()
    assert eng.backlog.size() == 2
    assert "Porting the router" in eng.sitrep(session_id=lead.id)
    assert "Lunch is at noon." in eng.sitrep(session_id=lead.id)
    assert eng.context("billing")
    assert [report.id for report in eng.dreams.list()]
    assert eng.dreams.status()
    assert eng.dreams.show(1)
    assert eng.dreams.drives() is not None
    for proposal in eng.proposals.list(None):
        assert eng.proposals.show(proposal.id) == proposal
    assert len(eng.receipts()) == 2
    assert eng.changes(limit=10_000)
    assert [each.stage for each in eng.workspace("paid").usage(days=1)]
    assert eng.workspace("agents").work.counts() == (1, 1)


@pytest.mark.requirement("MIGRATE-7")
def test_everything_in_an_old_store_can_be_written(eng: Engram, then: ShiftedClock) -> None:
    lead, child = eng.sessions.find("a-1", "claude-code"), eng.sessions.find("a-1/sub", "claude-code")
    assert lead is not None
    assert child is not None
    number = eng.changes(limit=10_000)[-1].number
    # Leases: the old claims bind, the old tokens only rise.
    with pytest.raises(LeaseHeld):
        eng.leases.claim(child.id, "acme/router:db/schema", exclusive=True)
    (held,) = eng.leases.list(lead.id)
    assert eng.leases.renew(held.token).token == held.token
    eng.leases.release(lead.id, held.resource)
    then.advance(60)  # until the session that died waiting is no longer in the way
    taken = eng.leases.claim(child.id, held.resource, exclusive=True)
    assert taken.token > held.token
    with pytest.raises(LeaseLost), eng.write(fence=held.token):
        pass
    # Sessions, exchanges, messages, blocks.
    eng.sessions.log(lead.id, "going on")
    eng.sessions.heartbeat(lead.id, "Going on")
    assert [message.text for message in eng.messages.inbox(lead.id)] == ["Lunch is at noon."]
    eng.messages.send(lead.id, child.id, "Your turn.")
    turn = eng.exchanges.add(lead.id, "user", "The gondola goes up at seven.")
    assert eng.recall("gondola")[0].exchange_id == turn
    eng.blocks.update("plan", "All done.", expected_version=2)
    eng.blocks.restore("plan", 1)
    eng.world.set("The router is in use.")
    # Memories.
    memory = eng.remember(
        "The gondola is closed in November", kind="fact", tags=["mountain"], sources=[("exchange", turn)]
    )
    eng.memories.update(memory.id, "The gondola is closed in November and December.")
    eng.remember("The capital of the project is Chur", kind="fact", key="capital")
    eng.memories.archive(memory.id)
    eng.memories.unarchive(memory.id)
    assert eng.backlog.work() >= 2
    assert eng.backlog.size() == 0
    # Dreaming: what was agreed to is done, a pass runs and is undone.
    (report,) = eng.dream(force=True)
    assert report.errors == []
    assert {each.state for each in eng.proposals.list(None)} >= {"applied", "rejected"}
    undone = eng.dreams.undo()
    assert undone.run == report.id
    (waiting, *_) = eng.proposals.list("pending")
    eng.proposals.reject(waiting.id)
    # Forgetting, and everything else that was in the store stays sound.
    assert eng.forget(exchange=turn).counts["exchanges"] == 1
    assert eng.forget(session=child.id).counts
    assert eng.recall("gondola", mode="words") == []
    agents = eng.workspace("agents")
    then.advance(1_000)
    item = agents.work.next("a later agent")
    assert item is not None
    agents.work.submit(item.id, "They worked on it as well.", "a later agent")
    for block in eng.blocks.list():
        eng.blocks.verify(block.name)
    eng.sessions.complete(lead.id, "The router is ported.")
    assert all(change.number > number for change in eng.changes(after=number))


@pytest.mark.requirement("MIGRATE-7", "REINDEX-1")
def test_an_old_store_can_be_embedded_anew(eng: Engram) -> None:
    made: Any = eng.reindex()
    assert made >= 0
    assert eng.recall("when do we never deploy?")


@pytest.mark.requirement("MEMORY-12")
def test_the_memories_of_an_old_store_are_as_they_are_since_they_were_stored(eng: Engram, then: ShiftedClock) -> None:
    every = [each for status in ("active", "superseded", "archived") for each in eng.memories.list(status=status)]
    assert {each.status for each in every} == {"active", "superseded", "archived"}
    assert not any(each.approved for each in every)
    for memory in every:
        *later, stored = eng.memories.states(memory.id)
        assert (stored.at, stored.status, stored.changes) == (memory.created_at, "active", ("stored",))
        assert [each.at for each in later] == ([] if memory.status == "active" else [memory.updated_at])
        *_, first = eng.memories.history(memory.id)
        if first.content and first.created_at == memory.created_at:
            shown = eng.memories.get(memory.id, at=memory.created_at)
            assert (shown.status, shown.version, shown.content) == ("active", 1, first.content)
    present = eng.memories.list()
    assert eng.memories.list(at="2999-01-01") == [each for each in present if each.content]
    then.advance(60)
    changed = present[0]
    eng.memories.update(changed.id, "A new text", pinned=True)
    eng.memories.approve(changed.id)
    assert [each.changes for each in eng.memories.states(changed.id)][:2] == [
        ("approved by a person",),
        (f"version {changed.version + 1}", *(() if changed.pinned else ("pinned",))),
    ]
    assert eng.memories.get(changed.id, at=changed.updated_at).content == changed.content
