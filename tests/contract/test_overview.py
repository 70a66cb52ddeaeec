"""What a page about a workspace shows: activity by day, overlapping claims, sizes, harnesses, sessions and history."""

from __future__ import annotations

from pathlib import Path

import pytest

from engram import Activity, Engram, InvalidInput
from engram.coordination.sizes import OTHER, TABLES
from engram.interfaces.hooks import failures
from tests.conftest import ShiftedClock


def begin(eng: Engram, type: str, at: str, turns: int = 0, project: str | None = "shop") -> str:
    id = eng.sessions.register(type, f"{type} at {at}", project=project, at=at)
    eng.exchanges.add_many([{"session_id": id, "role": "user", "content": f"turn {n}"} for n in range(turns)])
    return id


@pytest.mark.requirement("OVERVIEW-1")
def test_activity_counts_sessions_their_turns_and_memories_by_day_project_and_type(eng: Engram) -> None:
    codex = begin(eng, "codex", "2026-03-01T10:00:00Z", turns=3)
    begin(eng, "codex", "2026-03-01T23:59:59Z", turns=2)
    begin(eng, "claude-code", "2026-03-01T12:00:00Z", turns=1)
    begin(eng, "codex", "2026-03-02T00:00:00Z", project="other")
    eng.forget(exchange=eng.exchanges.history(codex)[0].id)
    eng.remember("In a session", session_id=codex, at="2026-03-01T11:00:00Z", embed=False)
    eng.remember("Outside", project="shop", at="2026-03-02T11:00:00Z", embed=False)
    eng.remember("A gist", kind="gist", project="shop", at="2026-03-02T11:00:00Z", embed=False)
    archived = eng.remember("Archived", project="shop", at="2026-03-02T11:00:00Z", embed=False)
    eng.memories.archive(archived.id)

    assert eng.activity(2, until="2026-03-02") == [
        Activity("2026-03-02", "other", "codex", 1, 0, 0),
        Activity("2026-03-02", "shop", None, 0, 0, 1),
        Activity("2026-03-01", "shop", "claude-code", 1, 1, 0),
        Activity("2026-03-01", "shop", "codex", 2, 4, 1),
    ]
    assert {each.day for each in eng.activity(1, until="2026-03-01T23:00Z")} == {"2026-03-01"}
    assert eng.activity(10, until="2026-02-28") == []


@pytest.mark.requirement("OVERVIEW-1")
def test_activity_is_of_the_last_days_and_without_passes(eng: Engram, clock: ShiftedClock) -> None:
    eng.sessions.register("codex", "Today")
    eng.sessions.register("dream", "dreaming")
    today = eng.now()[:10]
    assert [(each.day, each.type, each.sessions) for each in eng.activity()] == [(today, "codex", 1)]
    clock.advance(30 * 86_400)
    assert eng.activity() == []
    assert len(eng.activity(31)) == 1
    assert eng.workspace("other").activity(31) == []
    for days in (0, 367):
        with pytest.raises(InvalidInput, match="days"):
            eng.activity(days)
    with pytest.raises(InvalidInput, match="until"):
        eng.activity(until="yesterday")


@pytest.mark.requirement("OVERVIEW-2")
def test_overlaps_are_pairs_of_different_sessions_exclusive_ones_first(eng: Engram, clock: ShiftedClock) -> None:
    one, two, three = (eng.sessions.register("codex", f"Session {n}") for n in range(3))
    held = [
        (three, "shop:**/*.md", True),
        (one, "shop:src/router.py", False),
        (two, "shop:src", False),
        (one, "shop:src/readme.md", False),
        (one, "shop:src", False),
        (two, "other:src/router.py", False),
        (three, "port:8080", False),
        (two, "https://a.example/x", False),
        (three, "https://a.example/x/y", False),
    ]
    for session, resource, exclusive in held:
        eng.leases.claim(session, resource, exclusive=exclusive)
        clock.advance(1)
    found = [((a.session_id, a.resource), (b.session_id, b.resource)) for a, b in eng.leases.overlaps()]
    assert found == [
        ((three, "shop:**/*.md"), (one, "shop:src")),
        ((three, "shop:**/*.md"), (one, "shop:src/readme.md")),
        ((three, "shop:**/*.md"), (two, "shop:src")),
        ((two, "shop:src"), (one, "shop:src")),
        ((two, "shop:src"), (one, "shop:src/readme.md")),
        ((one, "shop:src/router.py"), (two, "shop:src")),
    ]
    assert len(eng.leases.overlaps(2)) == 2
    assert eng.leases.overlaps()[0].first.exclusive
    for pair in eng.leases.overlaps():
        holders = {(each.session_id, each.resource) for each in eng.leases.check(pair.first.resource)}
        assert (pair.second.session_id, pair.second.resource) in holders
    eng.sessions.complete(one)
    eng.leases.release_all(three)
    assert eng.leases.overlaps() == []


@pytest.mark.requirement("OVERVIEW-2")
def test_overlaps_find_every_pair_that_a_comparison_of_all_finds(eng: Engram) -> None:
    from itertools import combinations

    from engram.coordination import resources

    names = ["p:.", "p:a", "p:a/b", "p:a/b/c.py", "p:ab", "q:a", "/", "/etc", "/etc/hosts", "/etcetera", "p:a/*", "x"]
    for number, name in enumerate(names):
        eng.leases.claim(eng.sessions.register("codex", f"Session {number}"), name)
    stored = [each.resource for each in eng.leases.list()]
    expected = {frozenset(pair) for pair in combinations(stored, 2) if resources.overlap(*pair)}
    assert {frozenset((a.resource, b.resource)) for a, b in eng.leases.overlaps()} == expected
    assert len(expected) > 10


@pytest.mark.requirement("OVERVIEW-2")
def test_a_session_and_its_subagents_do_not_overlap_but_two_subagents_do(eng: Engram) -> None:
    parent = eng.sessions.register("codex", "Parent")
    children = [eng.sessions.register("codex", "Child", parent_id=parent) for _ in range(2)]
    for session in (parent, *children):
        eng.leases.claim(session, "shop:src")
    assert [(pair.first.session_id, pair.second.session_id) for pair in eng.leases.overlaps()] == [tuple(children)]


@pytest.mark.requirement("OVERVIEW-3")
def test_every_table_belongs_to_a_part_and_parts_grow_with_what_is_written(eng: Engram, clock: ShiftedClock) -> None:
    engine = eng._view.engine
    tables = {each.name for each in engine.table_sizes().tables}
    known = {table for names in TABLES.values() for table in names}
    assert known - {"closeness"} <= tables
    own = {"sqlite_sequence", "sqlite_stat1", "sqlite_stat4"}
    assert tables - known - own == set(), "a table that no part of the store has"
    before = {each.tier: each for each in eng.sizes().tiers}
    session = eng.sessions.register("codex", "Many turns")
    eng.exchanges.add_many(
        [{"session_id": session, "role": "user", "content": f"turn {n} {'word ' * 200}"} for n in range(300)]
    )
    if engine.name != "sqlite":
        _analyse(eng.settings.url)
    else:
        # The result is kept for a while.
        assert {each.tier: each for each in eng.sizes().tiers} == before
        clock.advance(3_600)
    sizes = eng.sizes()
    after = {each.tier: each for each in sizes.tiers}
    assert after.keys() == before.keys() == TABLES.keys()
    assert after["exchanges"].rows == 300
    assert after["exchanges"].bytes > before["exchanges"].bytes + 200_000
    assert after["vectors"].rows >= 300
    assert sizes.tiers[0].bytes == max(each.bytes for each in sizes.tiers)
    assert sizes.store_bytes >= 0.8 * sum(each.bytes for each in sizes.tiers) > 300_000
    assert (sizes.free_bytes is None) == (engine.name != "sqlite")
    assert OTHER in after


def _analyse(url: str) -> None:
    import psycopg

    server, _, schema = url.rpartition("schema=")
    with psycopg.connect(server[:-1], autocommit=True) as connection:
        connection.execute(f"SET search_path = {schema}".encode())
        connection.execute("ANALYZE")


@pytest.mark.requirement("OVERVIEW-4")
def test_the_last_event_of_each_harness_comes_from_its_sessions(eng: Engram, clock: ShiftedClock) -> None:
    def last(harness: str) -> tuple[str | None, str, str]:
        (event,) = [each for each in eng.harness_events().harnesses if each.harness == harness]
        return event.session_id, event.what, event.text

    assert [each.harness for each in eng.harness_events().harnesses] == [
        *("claude-code", "codex", "gemini", "cursor", "mcp")
    ]
    assert last("codex") == (None, "", "")
    earlier = eng.sessions.register("codex", "Earlier")
    assert last("codex") == (earlier, "started", "")
    clock.advance(1)
    later = eng.sessions.register("codex", "Later", project="shop")
    eng.sessions.log(later, "Edit src/a.py: done")
    assert last("codex") == (later, "log", "Edit src/a.py: done")
    clock.advance(1)
    eng.exchanges.add(earlier, "user", "Go\non", embed=False)
    assert last("codex") == (earlier, "turn", "Go on")
    clock.advance(1)
    eng.sessions.heartbeat(later)
    assert last("codex") == (later, "heartbeat", "")
    clock.advance(1)
    eng.sessions.complete(later, "All done")
    assert last("codex") == (later, "completed", "All done")
    eng.sessions.register("dream", "a pass")
    eng.sessions.register("my-agent", "another")
    names = [each.harness for each in eng.harness_events().harnesses]
    assert names[:2] == ["my-agent", "codex"] and set(names[2:]) == {"claude-code", "gemini", "cursor", "mcp"}


@pytest.mark.requirement("OVERVIEW-4")
def test_failures_of_hooks_are_counted_from_their_log(open_store: object, tmp_path: Path) -> None:
    from collections.abc import Callable
    from typing import cast

    eng = cast("Callable[..., Engram]", open_store)(data_dir=str(tmp_path / "data"))
    assert eng.harness_events().failures is None
    failures.note(str(tmp_path / "data"), "codex prompt: the store is busy")
    log = tmp_path / "data" / failures.LOG
    log.write_text("2020-01-01T00:00:00Z long ago\nno time\n" + log.read_text())
    found = eng.harness_events().failures
    assert found is not None and found.last_at is not None
    # What the line says is for the machine that it is about.
    is_local = eng._view.engine.name != "remote"
    assert (found.last_day, found.last) == (1, "codex prompt: the store is busy" if is_local else None)


@pytest.mark.requirement("OVERVIEW-5")
def test_sessions_are_listed_by_time_project_type_and_status(eng: Engram) -> None:
    old = begin(eng, "codex", "2026-03-01T10:00:00Z")
    new = begin(eng, "claude-code", "2026-03-03T10:00:00Z", project="other")
    done = begin(eng, "codex", "2026-03-02T10:00:00Z")
    eng.sessions.complete(done, "Done", at="2026-03-02T11:00:00Z")
    idle = eng.sessions.ensure("chat", at="2026-03-04T10:00:00Z").id

    def ids(**filters: str) -> list[str]:
        return [each.id for each in eng.sessions.list(**filters)]  # type: ignore[arg-type]

    assert ids() == [idle, new, done, old]
    assert ids(since="2026-03-02T10:00:00Z") == [idle, new, done]
    assert ids(until="2026-03-02T10:00:00Z") == [old]
    assert ids(since="2026-03-02", until="2026-03-04") == [new, done]
    assert ids(project="shop") == [done, old]
    assert ids(type="codex") == [done, old]
    assert ids(status="completed") == [done]
    assert ids(status="idle") == [idle]
    assert ids(type="codex", status="active", project="shop") == [old]
    first = eng.sessions.list(1, type="codex")[0]
    page = eng.sessions.list(5, type="codex", before=(first.created_at, first.id))
    assert [each.id for each in page] == [old]
    for wrong in ({"status": "stale"}, {"since": "soon"}, {"project": "a\nb"}):
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            eng.sessions.list(**wrong)  # type: ignore[arg-type]


@pytest.mark.requirement("OVERVIEW-6")
def test_history_is_read_in_pages_in_both_directions_with_the_log_on_request(eng: Engram) -> None:
    session = eng.sessions.register("codex", "Talk")
    for number in range(10):
        if number % 3 == 2:
            eng.sessions.log(session, f"step {number}")
        else:
            eng.exchanges.add(session, "user", f"turn {number}", embed=False)
    turns, everything = eng.exchanges.history(session), eng.exchanges.history(session, logs=True)
    assert [each.seq for each in everything] == list(range(1, 11))
    assert [each.content for each in everything if each.role == "log"] == ["step 2", "step 5", "step 8"]
    assert turns == [each for each in everything if each.role != "log"]
    for logs, whole in ((False, turns), (True, everything)):
        backwards = page = eng.exchanges.recent(session, 3, logs=logs)
        assert page == whole[-3:]
        while page := eng.exchanges.history(session, 3, before=page[0].seq, logs=logs):
            backwards = [*page, *backwards]
        assert backwards == whole
        forwards = page = eng.exchanges.history(session, 3, logs=logs)
        while page := eng.exchanges.history(session, 3, after=page[-1].seq, logs=logs):
            forwards = [*forwards, *page]
        assert forwards == whole
    assert [each.seq for each in eng.exchanges.history(session, after=3, before=8, logs=True)] == [4, 5, 6, 7]
    assert eng.exchanges.history(session, before=1) == []
    for wrong in ({"before": 0}, {"logs": 1}):
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            eng.exchanges.history(session, **wrong)  # type: ignore[arg-type]


@pytest.mark.requirement("OVERVIEW-7")
def test_several_things_are_read_by_their_ids_without_those_that_are_gone(eng: Engram) -> None:
    sessions = [eng.sessions.register("codex", f"Task {number}") for number in range(3)]
    turns = [eng.exchanges.add(sessions[0], "user", f"Turn {number}") for number in range(3)]
    memories = [eng.remember(f"Fact {number}", tags=["some"]).id for number in range(3)]
    other = eng.workspace("other")
    assert eng.sessions.some([*sessions[:2], "unknown"]) == {id: eng.sessions.get(id) for id in sessions[:2]}
    assert eng.exchanges.some([*turns[:2], 10**6]) == {id: eng.exchanges.get(id) for id in turns[:2]}
    assert eng.memories.some([*memories[:2], 10**6]) == {id: eng.memories.get(id) for id in memories[:2]}
    assert (eng.sessions.some([]), eng.exchanges.some([]), eng.memories.some([])) == ({}, {}, {})
    assert (other.sessions.some(sessions), other.exchanges.some(turns), other.memories.some(memories)) == ({}, {}, {})
    with pytest.raises(InvalidInput):
        eng.sessions.some(["\x00"])
    with pytest.raises(InvalidInput):
        eng.exchanges.some([0])
    with pytest.raises(InvalidInput):
        eng.memories.some([-1])
