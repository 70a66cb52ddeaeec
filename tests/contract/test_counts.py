"""How much there is, on both engines: in a workspace, and in each workspace of a store."""

from __future__ import annotations

import pytest

from engram import Engram, WorkspaceNotFound
from tests.conftest import ShiftedClock


@pytest.mark.requirement("COUNT-1")
def test_passes_of_dreaming_are_no_sessions_unless_they_are_asked_for(eng: Engram) -> None:
    sid = eng.sessions.register("codex", "Porting")
    running = eng.sessions.register("dream", "dreaming")
    eng.sessions.complete(sid, "Ported")
    done = eng.sessions.register("dream", "dreaming")
    eng.sessions.complete(done, "dreamt")

    assert [each.id for each in eng.sessions.list()] == [sid]
    assert [each.id for each in eng.sessions.recent()] == [sid]
    assert eng.sessions.active() == []
    assert {each.id for each in eng.sessions.list(dreams=True)} == {sid, running, done}
    assert {each.id for each in eng.sessions.recent(dreams=True)} == {sid, done}
    assert [each.id for each in eng.sessions.active(dreams=True)] == [running]
    stats, all_stats = eng.sessions.stats(), eng.sessions.stats(dreams=True)
    assert (stats.sessions, stats.active, stats.completed) == (1, 0, 1)
    assert (all_stats.sessions, all_stats.active, all_stats.completed) == (3, 1, 2)
    assert eng.workspaces()[0].sessions == 1


@pytest.mark.requirement("COUNT-1")
def test_a_real_pass_is_in_no_list(eng: Engram) -> None:
    sid = eng.sessions.register("codex", "Porting")
    eng.exchanges.add(sid, "user", "The router lives in src/router.py", embed=False)
    eng.sessions.complete(sid, "Ported")
    (report,) = eng.dream(force=True)
    assert report.session_id in {each.id for each in eng.sessions.list(dreams=True)}
    assert [each.id for each in eng.sessions.list()] == [sid]
    assert "dream" not in {each.type for each in eng.sessions.recent()}


@pytest.mark.requirement("COUNT-2")
def test_stats_say_what_is_there(eng: Engram) -> None:
    sid = eng.sessions.register("codex", "Porting")
    eng.sessions.ensure("chat-1")
    for text in ("one", "two", "three"):
        last = eng.exchanges.add(sid, "user", text, embed=False)
    eng.forget(exchange=last)
    eng.sessions.log(sid, "a step")
    eng.remember("Deploys never happen on Fridays", kind="preference", embed=False)
    eng.remember("The router is new", kind="fact", embed=False)
    gone = eng.remember("The router is old", kind="fact", embed=False)
    eng.memories.archive(gone.id)
    eng.remember("A session about the router", kind="gist", embed=False)
    stats = eng.sessions.stats()
    assert (stats.turns, stats.logs, stats.idle, stats.gists) == (2, 1, 1, 1)
    assert stats.memories == {"fact": 1, "preference": 1}
    assert stats.embedding_queue == eng.embedding_queue.size() > 0
    assert (stats.embedder, stats.model) == (eng.settings.embedder, None)
    assert stats.store_bytes > 10_000


@pytest.mark.requirement("COUNT-2")
def test_the_bytes_of_a_store_grow_with_what_is_in_it(eng: Engram) -> None:
    before = eng.sessions.stats().store_bytes
    eng.blocks.create("long", "".join(chr(33 + number * 7919 % 9000) for number in range(200_000)), 1_000_000)
    assert eng.sessions.stats().store_bytes > before + 100_000


@pytest.mark.requirement("COUNT-3")
def test_workspaces_are_listed_with_what_is_in_them(eng: Engram, clock: ShiftedClock) -> None:
    assert eng.workspaces() == []
    sid = eng.sessions.register("codex", "Porting")
    eng.exchanges.add(sid, "user", "hello", embed=False)
    clock.advance(60)
    eng.workspace("work").remember("Deploys never happen on Fridays", embed=False)
    here, work = eng.workspace("work").workspaces()
    assert (here.name, here.sessions, here.turns, here.memories) == ("default", 1, 1, 0)
    assert (work.name, work.sessions, work.turns, work.memories) == ("work", 0, 0, 1)
    assert here.active_at is not None and work.active_at is not None
    assert here.active_at < work.active_at


@pytest.mark.requirement("COUNT-3")
def test_a_workspace_exists_once_something_was_written_to_it_and_the_default_one_always(eng: Engram) -> None:
    eng.require_workspace()
    work = eng.workspace("work")
    with pytest.raises(WorkspaceNotFound) as caught:
        work.require_workspace()
    assert (caught.value.name, caught.value.workspaces) == ("work", ())
    eng.world.set("hello")
    with pytest.raises(WorkspaceNotFound, match="default"):
        work.require_workspace()
    work.world.set("hello")
    work.require_workspace()


@pytest.mark.requirement("COUNT-3")
def test_no_workspace_is_counted_by_reading_the_rows_of_exchanges_or_memories(sqlite_url: str) -> None:
    from engram.coordination import counts

    statements = (counts._WORKSPACE, counts._COUNT_MEMORIES, counts._LATEST)
    with Engram(sqlite_url) as eng, eng._view.engine.read() as tx:
        plans = [row[-1] for sql in statements for row in tx.all("EXPLAIN QUERY PLAN " + sql, workspace="default")]
    assert not [plan for plan in plans if "exchanges" in plan]
    assert all("COVERING INDEX" in plan for plan in plans if "memories" in plan)
