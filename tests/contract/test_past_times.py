"""What an import writes: sessions, memories and blocks of the past, with the times when they happened."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from engram import Engram, InvalidInput
from tests.conftest import ShiftedClock

OpenStore = Callable[..., Engram]

BEGAN, LATER, ENDED = "2024-03-01T09:00:00.000000Z", "2024-03-01T09:30:00.000000Z", "2024-03-01T10:00:00.000000Z"
FUTURE = "2999-01-01"


@pytest.fixture
def eng(open_store: OpenStore) -> Engram:
    return open_store(embedder="none")


def test_a_session_of_the_past_has_its_own_times(eng: Engram) -> None:
    with eng.write():
        sid = eng.sessions.register("claude-code", "Port the router", at="2024-03-01T10:00:00+01:00")
        begun = eng.sessions.get(sid)
        assert (begun.created_at, begun.heartbeat_at, begun.status) == (BEGAN, BEGAN, "active")
        eng.exchanges.add_many(
            [
                {"session_id": sid, "role": "user", "content": "Port the router", "created_at": BEGAN},
                {"session_id": sid, "role": "assistant", "content": "It is ported", "created_at": ENDED},
            ]
        )
        eng.sessions.log(sid, "tests pass", at=LATER)
        assert eng.sessions.sweep() == 0
        done = eng.sessions.complete(sid, "Ported", at=ENDED)
    assert sid.startswith("20240301-090000-")
    assert done == eng.sessions.get(sid)
    assert (done.status, done.created_at, done.heartbeat_at, done.ended_at) == ("completed", BEGAN, ENDED, ENDED)
    assert [entry.created_at for entry in eng.sessions.logs(sid)] == [LATER]
    assert eng.sessions.recent() == [] and eng.sessions.active() == []


def test_a_session_of_the_past_can_be_written_call_by_call(eng: Engram) -> None:
    sid = eng.sessions.register("codex", "Port the router", at=BEGAN)
    assert eng.sessions.get(sid).status == "active"
    eng.exchanges.add(sid, "user", "Port the router", created_at=LATER)
    assert eng.sessions.get(sid).heartbeat_at == LATER
    eng.sessions.sweep()
    eng.exchanges.add(sid, "assistant", "It is ported", created_at=ENDED)
    done = eng.sessions.complete(sid, "Ported", at=ENDED)
    assert (done.status, done.heartbeat_at, done.ended_at) == ("completed", ENDED, ENDED)


def test_past_turns_leave_a_completed_session_completed(eng: Engram) -> None:
    sid = eng.sessions.register("codex", "Port the router", at=BEGAN)
    eng.sessions.complete(sid, "Ported", at=LATER)
    before = eng.sessions.get(sid)
    eng.exchanges.add(sid, "user", "one", created_at=BEGAN)
    eng.exchanges.add_many([{"session_id": sid, "role": "user", "content": "two", "created_at": LATER}])
    eng.sessions.log(sid, "three", at=ENDED)
    assert eng.sessions.get(sid) == before._replace(turns=2)


def test_a_session_made_by_its_id_can_begin_and_end_in_the_past(eng: Engram) -> None:
    made = eng.sessions.ensure("20240301-old", "Router", at=BEGAN)
    assert (made.status, made.created_at, made.heartbeat_at) == ("idle", BEGAN, BEGAN)
    assert eng.sessions.ensure("20240301-old", at=LATER).created_at == BEGAN
    done = eng.sessions.complete("20240301-old", at=ENDED)
    assert (done.status, done.ended_at) == ("completed", ENDED)


def test_a_session_never_ends_before_it_began(eng: Engram) -> None:
    sid = eng.sessions.register("codex", None, at=LATER)
    done = eng.sessions.complete(sid, at=BEGAN)
    assert (done.heartbeat_at, done.ended_at) == (LATER, LATER)


def test_a_past_time_moves_no_heartbeat_back(eng: Engram) -> None:
    sid = eng.sessions.register("claude-code", "At work", external_id="abc")
    heard = eng.sessions.get(sid).heartbeat_at
    eng.sessions.heartbeat(sid, at=BEGAN)
    eng.sessions.log(sid, "long ago", at=BEGAN)
    eng.exchanges.add(sid, "user", "long ago", created_at=BEGAN)
    eng.exchanges.add_many([{"session_id": sid, "role": "user", "content": "then", "created_at": BEGAN}])
    assert eng.sessions.register("claude-code", None, external_id="abc", at=BEGAN) == sid
    now = eng.sessions.get(sid)
    assert (now.heartbeat_at, now.status, now.summary) == (heard, "active", "At work")
    eng.exchanges.add_many(
        [
            {"session_id": sid, "role": "user", "content": "then", "created_at": BEGAN},
            {"session_id": sid, "role": "user", "content": "now"},
        ]
    )
    assert eng.sessions.get(sid).heartbeat_at > heard


def test_what_happened_before_a_sessions_end_does_not_resume_it(eng: Engram) -> None:
    sid = eng.sessions.register("claude-code", "Port it", {"a": 1}, external_id="abc", at=BEGAN)
    ended = eng.sessions.complete(sid, "Ported", at=LATER)
    eng.sessions.register("claude-code", None, {"b": 2}, external_id="abc", at=BEGAN)
    assert eng.sessions.get(sid) == ended._replace(metadata={"a": 1, "b": 2})
    eng.sessions.heartbeat(sid, at=BEGAN)
    assert eng.sessions.get(sid).status == "completed"
    resumed = eng.sessions.heartbeat(sid, at=ENDED)
    assert (resumed.status, resumed.heartbeat_at, resumed.ended_at, resumed.stale) == ("active", ENDED, None, True)


def test_a_past_time_renews_no_lease_and_completing_ends_them_now(eng: Engram, clock: ShiftedClock) -> None:
    sid = eng.sessions.register("claude-code", "At work")
    lease = eng.leases.claim(sid, "staging", exclusive=True, ttl=100)
    clock.advance(50)
    eng.sessions.heartbeat(sid, at=BEGAN)
    eng.sessions.log(sid, "long ago", at=BEGAN)
    assert [each.expires_at for each in eng.leases.list()] == [lease.expires_at]
    eng.sessions.complete(sid, at=BEGAN)
    assert eng.leases.list() == []


def test_a_caller_chooses_the_id_of_a_session(eng: Engram) -> None:
    sid = "20240301090000-0123abcd"
    assert eng.sessions.register("code", "Port it", id=sid, at=BEGAN) == sid
    assert eng.sessions.register("code", None, {"a": 1}, id=sid) == sid
    again = eng.sessions.get(sid)
    assert (again.summary, again.metadata, again.created_at) == ("Port it", {"a": 1}, BEGAN)
    assert eng.sessions.register("codex", "Else", id="mine", external_id="x") == "mine"
    assert eng.sessions.register("codex", None, id="mine", external_id="x") == "mine"
    assert eng.sessions.register("codex", None, external_id="x") == "mine"


def test_two_that_choose_the_same_id_at_once_get_one_session(eng: Engram) -> None:
    begin = Barrier(4)

    def register(number: int) -> str:
        begin.wait()
        return eng.sessions.register("code", None, {str(number): number}, id="mine", at=BEGAN)

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(register, range(4))) == {"mine"}
    (made,) = eng.sessions.list()
    assert made.created_at == BEGAN and made.metadata


def test_an_id_that_belongs_to_another_session_is_refused(eng: Engram) -> None:
    eng.sessions.register("codex", "One", id="one", external_id="x")
    eng.sessions.register("codex", "Two", id="two")
    for id, external_id in (("one", "y"), ("two", "x"), ("two", "y"), ("three", "x")):
        with pytest.raises(InvalidInput, match=f"'{external_id}'"):
            eng.sessions.register("codex", "Else", id=id, external_id=external_id)
    wrong: list[Any] = ["person", "", "two\nlines", "AKIAQ3EGRZT5XOWNL2BV", 5]
    for id in wrong:
        with pytest.raises(InvalidInput):
            eng.sessions.register("codex", "Else", id=id)
    assert [(each.id, each.summary) for each in reversed(eng.sessions.list())] == [("one", "One"), ("two", "Two")]


def test_memories_are_there_from_their_given_time_on(eng: Engram) -> None:
    made = eng.remember("Deploys are on Monday", kind="fact", importance=0.9, at=BEGAN)
    assert (made.created_at, made.updated_at) == (BEGAN, BEGAN)
    assert eng.memories.list(at="2024-02-29") == []
    assert [each.id for each in eng.memories.list(at=BEGAN)] == [made.id]
    assert "Deploys are on Monday" in eng.brief(at=LATER)
    assert "Deploys are on Monday" not in eng.brief(at="2024-02-29")
    assert [each.id for each in eng.memories.list()] == [made.id]


def test_the_history_of_a_memory_has_the_given_times(eng: Engram) -> None:
    id = eng.remember("Deploys are on Monday", at=BEGAN).id
    eng.memories.update(id, "Deploys are on Tuesday", importance=0.8, reason="moved", at=LATER)
    archived = eng.memories.archive(id, at=ENDED)
    assert (archived.created_at, archived.updated_at, archived.status) == (BEGAN, ENDED, "archived")
    assert [(each.version, each.created_at) for each in eng.memories.history(id)] == [(2, LATER), (1, BEGAN)]
    assert [(each.status, each.at) for each in eng.memories.states(id)] == [
        ("archived", ENDED),
        ("active", LATER),
        ("active", BEGAN),
    ]
    assert eng.memories.get(id, at="2024-03-01T09:15Z").content == "Deploys are on Monday"
    assert eng.memories.get(id, at="2024-03-01T09:45Z").content == "Deploys are on Tuesday"
    assert eng.memories.list(at=ENDED) == []
    eng.memories.unarchive(id, at="2024-03-02")
    assert [each.id for each in eng.memories.list(at="2024-03-03")] == [id]


def test_a_memory_of_the_past_replaces_an_earlier_one(eng: Engram) -> None:
    old = eng.remember("Deploys are on Monday", kind="fact", key="deploys", tags=["deploy"], at=BEGAN)
    new = eng.remember("Deploys are on Tuesday", kind="fact", key="deploys", at=LATER)
    assert new.tags == ("deploy",)
    assert [each.id for each in eng.memories.list(at="2024-03-01T09:15Z")] == [old.id]
    assert [each.id for each in eng.memories.list(at=LATER)] == [new.id]
    with pytest.raises(InvalidInput, match="last changed"):
        eng.remember("Deploys are on Sunday", kind="fact", key="deploys", at=BEGAN)
    third = eng.remember("Deploys are weekly", kind="note", at=BEGAN)
    with pytest.raises(InvalidInput, match="was stored at"):
        eng.memories.supersede(third.id, new.id, at=BEGAN)
    replaced = eng.memories.supersede(third.id, new.id, at=ENDED)
    assert (replaced.status, replaced.superseded_by, replaced.updated_at) == ("superseded", new.id, ENDED)


def test_the_same_text_at_an_earlier_time_strengthens_the_memory(eng: Engram) -> None:
    known = eng.remember("Deploys are on Monday", importance=0.3, at=ENDED)
    again = eng.remember("Deploys are on Monday", importance=0.6, tags=["deploy"], at=BEGAN)
    assert (again.id, again.reinforced, again.importance) == (known.id, 1, 0.6)
    assert (again.created_at, again.updated_at) == (ENDED, ENDED)
    # Storing it again later is no change that an earlier end would contradict.
    other = eng.remember("Deploys are weekly", at=BEGAN)
    eng.remember("Deploys are weekly", at=ENDED)
    assert eng.memories.archive(other.id, at=LATER).updated_at == ENDED
    assert [each.id for each in eng.memories.list(at="2024-03-01T09:15Z")] == [other.id]
    assert other.id not in [each.id for each in eng.memories.list(at="2024-03-01T09:45Z")]


def test_a_change_before_a_memorys_last_change_is_refused(eng: Engram) -> None:
    id = eng.remember("Deploys are on Monday", at=LATER).id
    changes: list[Callable[[], object]] = [
        lambda: eng.memories.update(id, "Deploys are on Tuesday", at=BEGAN),
        lambda: eng.memories.archive(id, at=BEGAN),
        lambda: eng.memories.supersede(id, eng.remember("Else", at=BEGAN).id, at=BEGAN),
    ]
    before = eng.memories.get(id)
    for change in changes:
        with pytest.raises(InvalidInput, match=f"Memory {id} last changed at {LATER}"):
            change()
    assert eng.memories.get(id) == before and len(eng.memories.states(id)) == 1


def test_a_gist_has_the_time_when_it_was_written(eng: Engram) -> None:
    sid = eng.sessions.register("codex", "Port it", at=BEGAN)
    turn = eng.exchanges.add(sid, "user", "Port the router", created_at=BEGAN)
    gist = eng.memories.store_gist(sid, "The router was ported.", 1, sources=[turn], at=ENDED)
    assert (gist.created_at, gist.updated_at) == (ENDED, ENDED)
    assert list(eng.memories.gists_by_month()) == ["2024-03"]
    assert eng.memories.unsummarised(sid) == []


def test_blocks_have_the_times_of_their_edits(eng: Engram) -> None:
    made = eng.blocks.create("plan", "one", at=BEGAN)
    assert (made.created_at, made.updated_at) == (BEGAN, BEGAN)
    eng.blocks.append("plan", " two", at=BEGAN)
    eng.blocks.update("plan", "three", "why", at=LATER)
    eng.blocks.put("plan", "four", "why", None, None, 100, at=ENDED)
    assert [(each.version, each.created_at) for each in eng.blocks.versions("plan")] == [
        (4, ENDED),
        (3, LATER),
        (2, BEGAN),
        (1, BEGAN),
    ]
    assert eng.world.set("all is well", at=BEGAN).created_at == BEGAN
    assert eng.world.set("all is better", at=LATER).updated_at == LATER
    assert "all is well" in eng.brief(at="2024-03-01T09:15Z")
    assert eng.blocks.update("plan", "now").updated_at > ENDED
    assert eng.blocks.verify("plan") == 5


def test_an_edit_before_a_blocks_last_edit_is_refused(eng: Engram) -> None:
    eng.blocks.create("plan", "one", at=LATER)
    eng.world.set("all is well", at=LATER)
    edits: list[Callable[[], object]] = [
        lambda: eng.blocks.update("plan", "two", at=BEGAN),
        lambda: eng.blocks.append("plan", "two", at=BEGAN),
        lambda: eng.world.set("all is lost", at=BEGAN),
    ]
    for edit in edits:
        with pytest.raises(InvalidInput, match=f"last edited at {LATER}"):
            edit()
    assert (eng.blocks.verify("plan"), eng.blocks.verify("world"), eng.world.get()) == (1, 1, "all is well")


def calls(eng: Engram) -> dict[str, Callable[[Any], object]]:
    """Every call that takes a time, on a store that has what it needs."""
    sid = eng.sessions.register("codex", "Port it", at=BEGAN)
    turn = eng.exchanges.add(sid, "user", "Port the router", created_at=BEGAN)
    one, other = (eng.remember(text, at=BEGAN).id for text in ("One thing", "Another thing"))
    eng.blocks.create("plan", "one", at=BEGAN)
    exchange = {"session_id": sid, "role": "user", "content": "Hello"}
    return {
        "register": lambda at: eng.sessions.register("codex", "More", at=at),
        "ensure": lambda at: eng.sessions.ensure("mine", at=at),
        "heartbeat": lambda at: eng.sessions.heartbeat(sid, at=at),
        "log": lambda at: eng.sessions.log(sid, "done", at=at),
        "complete": lambda at: eng.sessions.complete(sid, at=at),
        "add": lambda at: eng.exchanges.add(sid, "user", "Hello", created_at=at),
        "add_many": lambda at: eng.exchanges.add_many([{**exchange, "created_at": at}]),
        "insert_before": lambda at: eng.exchanges.insert_before(turn, [{**exchange, "created_at": at}]),
        "remember": lambda at: eng.remember("Third thing", at=at),
        "update": lambda at: eng.memories.update(one, "First thing", at=at),
        "archive": lambda at: eng.memories.archive(one, at=at),
        "supersede": lambda at: eng.memories.supersede(one, other, at=at),
        "store_gist": lambda at: eng.memories.store_gist(sid, "It was ported.", 1, at=at),
        "create": lambda at: eng.blocks.create("new", at=at),
        "edit": lambda at: eng.blocks.update("plan", "two", at=at),
        "append": lambda at: eng.blocks.append("plan", "two", at=at),
        "world": lambda at: eng.world.set("all is well", at=at),
    }


def test_a_time_in_the_future_is_refused_and_nothing_is_written(eng: Engram) -> None:
    made = calls(eng)
    last = eng.changes(limit=1_000)[-1].number
    for name, call in made.items():
        for wrong, told in ((FUTURE, "in the future"), ("yesterday", "write a time"), (5, "must be text")):
            with pytest.raises(InvalidInput, match=told):
                call(wrong)
            assert eng.changes(after=last) == [], name


def test_a_clock_that_is_a_little_ahead_is_no_future(eng: Engram, clock: ShiftedClock) -> None:
    clock.advance(30)
    ahead = eng.sessions.get(eng.sessions.register("codex", "Else")).created_at
    clock.advance(-30)
    made = eng.remember("One thing", at=ahead)
    assert made.created_at < ahead
    assert [each.id for each in eng.memories.list(at=ahead)] == [made.id]
