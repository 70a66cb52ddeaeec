"""Importing sessions: nothing twice, nothing of what was forgotten, and the rest as it was."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from engram import Engram
from engram.import_records import LeftOut
from engram.importers import session_writing
from engram.importers.items import EndItem, GistItem, Item, LockItem, SessionItem, Skipped, Turn
from tests.conftest import ShiftedClock
from tests.importers._feeding import feed, talk

FIRST = ("Where do we keep the backups?", "They are in the bucket eu-backups.", "Thanks, and the logs?")
MORE = ("The logs are in the bucket eu-logs.",)


@pytest.fixture
def eng(open_store: Callable[..., Engram]) -> Engram:
    return open_store(embedder="none")


def texts(eng: Engram, external_id: str = "a", type: str = "test") -> list[str]:
    session = eng.sessions.find(external_id, type)
    assert session is not None
    return [turn.content for turn in eng.exchanges.history(session.id)]


@pytest.mark.requirement("IMPORT-6")
def test_a_session_is_imported_with_its_dates_roles_ask_and_result(eng: Engram) -> None:
    report = feed(eng, talk("a", *FIRST, *MORE, project="shop", name="Backups"))
    assert (report.sessions, report.turns, report.left_out) == (1, 4, ())
    assert (report.first_at, report.last_at) == ("2026-01-02T10:01:00.000000Z", "2026-01-02T10:04:00.000000Z")
    session = eng.sessions.find("a", "test")
    assert session is not None
    assert (session.status, session.project, session.name) == ("completed", "shop", "Backups")
    assert (session.created_at, session.ended_at) == ("2026-01-02T10:01:00.000000Z", "2026-01-02T10:04:00.000000Z")
    assert session.summary == FIRST[0]
    assert "eu-logs" in session.outcome
    turns = eng.exchanges.history(session.id)
    assert [(turn.role, turn.trust) for turn in turns] == [("user", "user"), ("assistant", "agent")] * 2
    assert turns[1].created_at == "2026-01-02T10:02:00.000000Z"
    assert eng.recall("which bucket has the backups?")[0].text.startswith("They are in the bucket")


@pytest.mark.requirement("IMPORT-2")
def test_the_same_file_adds_nothing_and_a_longer_one_adds_what_is_new(eng: Engram) -> None:
    feed(eng, talk("a", *FIRST))
    changes = eng.changes(0, 1000)
    report = feed(eng, talk("a", *FIRST))
    assert (report.sessions, report.unchanged, report.turns) == (0, 1, 0)
    assert eng.changes(0, 1000) == changes
    report = feed(eng, talk("a", *FIRST, *MORE))
    assert (report.continued, report.turns) == (1, 1)
    assert texts(eng) == [*FIRST, *MORE]
    session = eng.sessions.find("a", "test")
    assert session is not None
    assert session.ended_at == "2026-01-02T10:04:00.000000Z"
    assert "eu-logs" in session.outcome


@pytest.mark.parametrize("ids", [True, False])
def test_turns_without_times_are_counted(eng: Engram, ids: bool) -> None:
    feed(eng, talk("a", "yes", "no", "yes", timed=False, ids=ids))
    assert feed(eng, talk("a", "yes", "no", "yes", timed=False, ids=ids)).unchanged == 1
    feed(eng, talk("a", "yes", "no", "yes", "no", "yes", timed=False, ids=ids))
    assert texts(eng) == ["yes", "no", "yes", "no", "yes"]


def test_a_shorter_file_adds_nothing(eng: Engram) -> None:
    feed(eng, talk("a", *FIRST, *MORE))
    assert feed(eng, talk("a", *FIRST)).unchanged == 1
    assert texts(eng) == [*FIRST, *MORE]


def test_a_session_that_goes_on_in_another_file_is_one_session(eng: Engram) -> None:
    feed(eng, talk("a", *FIRST))
    feed(eng, talk("a", *MORE, begin=4))
    assert texts(eng) == [*FIRST, *MORE]
    report = feed(eng, talk("a", *FIRST), talk("a", *MORE, begin=4))
    assert (report.turns, report.unchanged) == (0, 2)


@pytest.mark.requirement("IMPORT-3")
def test_what_was_forgotten_stays_forgotten_unless_it_is_asked_for(eng: Engram) -> None:
    feed(eng, talk("a", *FIRST), talk("b", "Who is on call?", "Team blue is on call."))
    session = eng.sessions.find("b", "test")
    assert session is not None
    last = eng.exchanges.history(session.id)[-1]
    eng.forget(exchange=last.id)
    found = eng.sessions.find("a", "test")
    assert found is not None
    eng.forget(session=found.id)
    again = [talk("a", *FIRST), talk("b", "Who is on call?", "Team blue is on call.")]
    report = feed(eng, *again)
    assert (report.turns, report.left_out) == (0, (LeftOut("forgotten here", 1, ("file 1, session a",)),))
    assert texts(eng, "b") == ["Who is on call?"]
    assert feed(eng, *again, again=True).turns == 3
    assert texts(eng) == list(FIRST)


@pytest.mark.requirement("IMPORT-3")
def test_what_a_hook_recorded_is_not_added_again(eng: Engram) -> None:
    id = eng.sessions.register("test", None, external_id="a")
    eng.exchanges.add(id, "user", FIRST[0])
    # The hook has the id of this one, but recorded other words.
    eng.exchanges.add(id, "assistant", "In the bucket.", external_id="a-2")
    eng.sessions.complete(id)
    report = feed(eng, talk("a", *FIRST[:2]))
    assert (report.unchanged, report.turns) == (1, 0)
    assert eng.exchanges.history(id)[0].external_id == "a-1"
    # What came later is new, whatever its time says: all that is stored was found before it.
    report = feed(eng, talk("a", *FIRST, *MORE))
    assert (report.continued, report.turns) == (1, 2)
    assert texts(eng) == [FIRST[0], "In the bucket.", FIRST[2], *MORE]


def test_a_turn_between_those_of_the_hooks_is_left_out_and_named(eng: Engram) -> None:
    id = eng.sessions.register("test", None, external_id="a")
    for number in (0, 2):
        eng.exchanges.add(id, "user", FIRST[number], external_id=f"a-{number + 1}")
    eng.sessions.complete(id)
    report = feed(eng, talk("a", *FIRST))
    assert report.left_out == (LeftOut("between turns that were recorded before", 1, ("file 1, session a",)),)
    assert texts(eng) == [FIRST[0], FIRST[2]]


@pytest.mark.requirement("IMPORT-3")
def test_a_session_at_work_is_left_alone_until_it_is_silent(eng: Engram, clock: ShiftedClock) -> None:
    id = eng.sessions.register("test", "working", external_id="a")
    report = feed(eng, talk("a", *FIRST))
    assert report.left_out == (LeftOut("still at work", 1, ("file 1, session a",)),)
    clock.advance(3_600)
    feed(eng, talk("a", *FIRST))
    assert texts(eng) == list(FIRST)
    assert eng.sessions.get(id).status == "completed"


@pytest.mark.requirement("IMPORT-5")
def test_a_dry_run_counts_the_same_and_writes_nothing(eng: Engram) -> None:
    items = [*talk("a", *FIRST), *talk("b", *["text"] * 600), Skipped("line 9", "not valid JSON")]
    dry = feed(eng, items, dry_run=True)
    assert eng.changes(0, 10) == []
    assert feed(eng, items) == dry
    assert feed(eng, items, dry_run=True).unchanged == 2


@pytest.mark.requirement("IMPORT-2")
def test_an_import_that_is_killed_goes_on_where_it_was(eng: Engram) -> None:
    said = [f"Please look at line {number} of the file." for number in range(59)]
    items = talk("a", *said)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session_writing, "BATCH", 10)

        def interrupted() -> Iterator[Item]:
            yield from items[:38]
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            feed(eng, interrupted())
    assert 0 < len(texts(eng)) < 38
    session = eng.sessions.find("a", "test")
    assert session is not None
    assert session.status == "completed"
    assert "line 0" in session.summary
    feed(eng, items)
    assert texts(eng) == said


@pytest.mark.requirement("IMPORT-2")
def test_two_imports_of_the_same_file_at_once_add_each_turn_once(
    open_store: Callable[..., Engram], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_writing, "BATCH", 7)
    sources = [talk(name, *[f"{name} says {number}" for number in range(25)]) for name in "abcd"]
    stores = [open_store(embedder="none") for _ in range(3)]
    gate = threading.Barrier(3)
    failures: list[BaseException] = []

    def work(eng: Engram) -> None:
        gate.wait()
        try:
            feed(eng, *sources)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(eng,)) for eng in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    for name in "abcd":
        assert texts(stores[0], name) == [f"{name} says {number}" for number in range(25)]
    assert len(stores[0].sessions.list()) == 4


def test_the_summary_of_a_compaction_becomes_the_gist_of_the_turns_before_it(eng: Engram) -> None:
    items = talk("a", *FIRST, *MORE)
    with_gist = [*items[:3], GistItem("a", "The backups are in a bucket."), *items[3:]]
    report = feed(eng, with_gist)
    assert (report.gists, report.turns) == (1, 4)
    session = eng.sessions.find("a", "test")
    assert session is not None
    gist = eng.memories.gist(session.id)
    assert gist is not None
    assert (gist.content, gist.trust) == ("The backups are in a bucket.", "agent")
    assert [turn.content for turn in eng.memories.unsummarised(session.id)] == [FIRST[2], *MORE]
    assert feed(eng, with_gist).gists == 0


def test_subagents_belong_to_their_parents(eng: Engram) -> None:
    feed(eng, talk("a", *FIRST)[:-1] + talk("a/sub", "Look.", "Found it.", parent="a") + [EndItem("a")])
    parent, child = eng.sessions.find("a", "test"), eng.sessions.find("a/sub", "test")
    assert parent is not None
    assert child is not None
    assert child.parent_id == parent.id


def test_a_lock_of_a_session_at_work_is_claimed_and_that_of_another_one_is_noted(
    eng: Engram, clock: ShiftedClock
) -> None:
    now = eng.sessions.ensure("clock").created_at
    feed(
        eng,
        [
            SessionItem("s1", "cli", now, summary="Deploying", status="active", heartbeat_at=now, keep_id=True),
            LockItem("s1", "staging", "deploying", now),
            SessionItem("s2", "cli", now, summary="Done", keep_id=True),
            LockItem("s2", "production", None, now),
        ],
    )
    assert [(lease.session_id, lease.resource, lease.note) for lease in eng.leases.list()] == [
        ("s1", "symbiont://staging", "deploying")
    ]
    assert eng.sessions.logs("s1") == []
    assert [entry.content for entry in eng.sessions.logs("s2")] == ["Locked production"]
    assert eng.sessions.get("s1").status == "active"


def test_sessions_before_a_date_are_left_out_whole(eng: Engram) -> None:
    old = talk("a", *FIRST, started_at="2026-01-02T10:01:00Z", last_at="2026-01-02T10:03:00Z")
    report = feed(eng, old, talk("b", *FIRST, started_at="2025-01-01T00:00:00Z", last_at="2026-03-01T00:00:00Z"),
                  since="2026-02-01T00:00:00.000000Z")  # fmt: skip
    assert (report.sessions, report.left_out[0].why) == (1, "before --since")


@pytest.mark.requirement("IMPORT-4")
def test_what_cannot_be_stored_is_mended_or_named(eng: Engram) -> None:
    items: list[Item] = [
        SessionItem("x" * 500, "test", "2026-01-02T10:00:00Z", name="a\nb " * 100, project="p\x00q"),
        Turn("x" * 500, "user", "a\x00b \ud800", "9999-01-01T00:00:00Z", "i" * 400),
        Turn("x" * 500, "user", "  ", "2026-01-02T10:02:00Z"),
        Turn("x" * 500, "narrator", "text", "yesterday"),
        Turn("x" * 500, "assistant", "z" * 1_100_000, "2026-01-02T10:03:00Z"),
        Turn("other", "user", "whose?", None),
    ]
    report = feed(eng, items)
    assert (report.sessions, report.turns) == (1, 2)
    assert {each.why for each in report.left_out} == {"no text", "unknown role 'narrator'", "no session of that id"}
    (session,) = eng.sessions.list()
    first, second = eng.exchanges.history(session.id)
    assert (first.content, first.created_at) == ("ab ?", "2026-01-02T10:00:00.000000Z")
    assert second.content.endswith("… (cut)")
    assert feed(eng, items).unchanged == 1


def test_secrets_are_taken_out(eng: Engram) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    feed(eng, talk("a", f"My token is {secret}", "Noted.", name=f"Token {secret}"))
    assert secret not in "".join(texts(eng))
    session = eng.sessions.find("a", "test")
    assert session is not None
    assert secret not in f"{session.name}{session.summary}"


@pytest.mark.requirement("IMPORT-3")
def test_what_the_hooks_recorded_and_a_person_forgot_is_not_brought_back_by_any_format(eng: Engram) -> None:
    whole = eng.sessions.register("test", None, external_id="a")
    part = eng.sessions.register("test", None, external_id="b")
    for id in (whole, part):
        for number, text in enumerate(FIRST):
            eng.exchanges.add(id, "assistant" if number % 2 else "user", text)
        eng.sessions.complete(id)
    eng.forget(session=whole)
    eng.forget(exchange=eng.exchanges.history(part)[-1].id)
    report = feed(eng, talk("a", *FIRST), talk("b", *FIRST))
    assert {each.why: each.number for each in report.left_out} == {"forgotten here": 2}
    assert eng.sessions.find("a", "test") is None
    assert texts(eng, "b") == list(FIRST[:2])
    assert feed(eng, talk("a", *FIRST), again=True).turns == 3


def test_a_gist_that_comes_later_is_kept_and_a_forgotten_one_is_not_brought_back(eng: Engram) -> None:
    items = talk("a", *FIRST)
    feed(eng, items)
    later = [*items[:-1], GistItem("a", "Told later.", is_final=True), *talk("a", *MORE, begin=4)[1:]]
    assert feed(eng, later).gists == 1
    session = eng.sessions.find("a", "test")
    assert session is not None
    gist = eng.memories.gist(session.id)
    assert gist is not None
    assert gist.content == "Told later."
    assert [turn.content for turn in eng.memories.unsummarised(session.id)] == list(MORE)
    eng.forget(memory=gist.id)
    assert feed(eng, later).gists == 0


@pytest.mark.requirement("IMPORT-4")
def test_a_session_or_lock_that_is_refused_is_named_and_the_others_are_imported(eng: Engram) -> None:
    now = eng.sessions.ensure("clock").created_at
    at_work: dict[str, Any] = {"summary": "x", "status": "active", "heartbeat_at": now, "keep_id": True}
    report = feed(
        eng,
        [
            *talk("a", *FIRST, metadata={"text": "x" * 1_100_000}),
            *talk("b", *FIRST),
            SessionItem("s1", "cli", now, **at_work),
            LockItem("s1", "r", "n" * 3_000, now),
            LockItem("s1", "fine", None, now),
        ],
    )
    assert texts(eng, "b") == list(FIRST)
    assert sorted(each.why.partition(":")[0] for each in report.left_out) == ["refused", "refused"]
    assert len(eng.leases.list()) == 1


def test_another_session_with_the_same_id_is_named(eng: Engram) -> None:
    feed(eng, talk("main", *FIRST, keep_id=True))
    report = feed(eng, talk("main", "Something else.", "Yes.", keep_id=True))
    assert report.left_out[0].why == "another session with this id was imported before"


def test_a_dry_run_of_two_files_with_one_session_counts_it_once(eng: Engram) -> None:
    dry = feed(eng, talk("a", *FIRST), talk("a", *FIRST), dry_run=True)
    assert dry == feed(eng, talk("a", *FIRST), talk("a", *FIRST))
