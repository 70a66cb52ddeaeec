"""Lyra's functions over Engram: a program of the old style runs with one import line changed."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sqlite3
import threading
from array import array
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from engram import Engram, InvalidInput
from engram.compat import lyra, lyra_store
from engram.coordination.sessions import Sessions
from engram.embedding import load
from tests._tables import holds

pytestmark = pytest.mark.requirement("COMPAT-5")


@pytest.fixture
def place(store_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The store of the functions, on each engine."""
    monkeypatch.setenv("LYRA_DB_PATH", store_url)
    yield store_url
    lyra.close()


#: What `add_exchanges_bulk` takes.
Bulk = tuple[str, str, bytes | list[float] | None, str | float | datetime | None]

TALK = (
    ("user", "My sister Ana moved to Lisbon in spring."),
    ("assistant", "How lovely! Does she like the sea?"),
    ("user", "She does. I am learning the cello, by the way."),
    ("assistant", "The cello suits you: patient and low."),
)


def chat(session: str, turns: tuple[tuple[str, str], ...] = TALK) -> list[int]:
    return [lyra.remember(session, role, content) for role, content in turns]


def test_a_companion_of_the_old_style_runs_from_the_first_turn_to_the_self_state(place: str) -> None:
    # A chat loop: what is known goes into the prompt, and both turns are stored.
    lyra.ensure_session("s-1", "First evening")
    for said, answered in (TALK[:2], TALK[2:]):
        prompt = [lyra.get_profile() or "", lyra.get_narrative() or ""]
        prompt += [turn.content for turn in lyra.recall(said[1], k=3)]
        prompt += [f"{turn.role}: {turn.content}" for turn in lyra.recent("s-1", n=4)]
        assert all(isinstance(part, str) for part in prompt)
        lyra.remember("s-1", *said)
        last = lyra.remember("s-1", *answered)
    assert [(turn.role, turn.content) for turn in lyra.history("s-1")] == list(TALK)
    # Its own dream cycle: what is ripe is summarised, months and the whole are told.
    assert lyra.backlog_stats() == {
        **{"sessions": 1, "dirty": 1, "ripe": 1, "unsummarized_total": 4},
        "max_exchange_id": last,
    }
    if lyra.unsummarized_count("s-1") >= 4:
        lyra.store_summary("s-1", "They spoke about Ana in Lisbon and about the cello.", last)
    for month, summaries in lyra.summaries_by_month().items():
        lyra.store_era(month, f"A first month: {' '.join(summaries)}", len(summaries))
    covered = len(lyra.list_summaries())
    if covered > lyra.profile_sessions_covered():
        lyra.set_profile("Plays the cello. Has a sister, Ana.", covered)
    lyra.set_narrative("It began with a sister and a cello.")
    state = lyra.get_self_state() or {"mood": "new", "drives": {"curiosity": 0.5}}
    lyra.set_self_state({**state, "mood": "glad"})
    # The next session finds all of it again.
    assert lyra.unsummarized_count("s-1") == 0
    assert (lyra.backlog_stats()["dirty"], lyra.backlog_stats()["max_exchange_id"]) == (0, last)
    (summary,) = lyra.recall_summaries("Who plays the cello?", exclude_session="s-2")
    assert (summary.session_id, summary.last_exchange_id) == ("s-1", last)
    (era,) = lyra.recall_eras("the first month")
    assert (era.session_count, era.content[:14]) == (1, "A first month:")
    assert (lyra.get_profile(), lyra.profile_sessions_covered()) == ("Plays the cello. Has a sister, Ana.", 1)
    assert lyra.get_narrative() == "It began with a sister and a cello."
    assert lyra.get_self_state() == {"mood": "glad", "drives": {"curiosity": 0.5}}
    assert lyra.recall("Where does my sister live?", k=1)[0].content == TALK[0][1]


def test_what_is_returned_are_lyra_s_mutable_dataclasses(place: str) -> None:
    (id, *_) = chat("s")
    turn = lyra.recent("s", 4)[0]
    assert dataclasses.asdict(turn) == {
        **{"id": id, "session_id": "s", "role": "user", "content": TALK[0][1]},
        **{"created_at": turn.created_at, "score": None},
    }
    turn.score = 0.5
    assert lyra.Exchange(1, "s", "user", "x", "t") == lyra.Exchange(1, "s", "user", "x", "t", None)
    assert [field.name for field in dataclasses.fields(lyra.Summary)] == [
        *("session_id", "content", "last_exchange_id", "created_at", "score")
    ]
    assert [field.name for field in dataclasses.fields(lyra.Era)] == [
        *("month", "content", "session_count", "created_at", "score")
    ]
    assert abs((datetime.now(UTC) - datetime.fromisoformat(turn.created_at)).total_seconds()) < 600


def test_any_role_and_an_empty_text_come_back_as_they_were_given(place: str) -> None:
    given = [
        ("narrator", "Rain."),
        ("Log", "a log"),
        ("", "no role"),
        ("a;b=100%", "odd"),
        ("user", ""),
        ("thought", " "),
        ("user", "  \n\n\u2003" + " " * 500),
        ("r" * 140, "\t"),
    ]
    for role, content in given:
        lyra.remember("s", role, content)
    assert [(turn.role, turn.content) for turn in lyra.history("s")] == given
    assert lyra.recall("Rain", k=1)[0].role == "narrator"
    with lyra_store.opened() as eng:
        assert {turn.trust for turn in eng.exchanges.history("s")[:4]} == {"agent"}
    with pytest.raises(InvalidInput, match="must be text"):
        lyra.remember("s", None, "x")  # type: ignore[arg-type]


def test_unknown_sessions_are_empty_and_not_an_error(place: str) -> None:
    assert (lyra.recent("nobody"), lyra.history("nobody"), lyra.recall("x", session_id="nobody")) == ([], [], [])
    assert (lyra.get_summary("nobody"), lyra.unsummarized_count("nobody")) == (None, 0)
    lyra.delete_session("nobody")
    assert (lyra.get_profile(), lyra.get_narrative(), lyra.get_self_state()) == (None, None, None)
    assert (lyra.profile_sessions_covered(), lyra.list_sessions(), lyra.list_eras()) == (0, [], [])
    assert lyra.backlog_stats()["max_exchange_id"] == 0


def test_recent_and_history_are_oldest_first(place: str) -> None:
    ids = chat("s")
    assert [turn.id for turn in lyra.recent("s", n=3)] == ids[1:]
    assert [turn.id for turn in lyra.history("s")] == ids
    assert lyra.recent("s", 0) == []


def test_sessions_are_listed_newest_first_with_their_names(place: str) -> None:
    lyra.ensure_session("a")
    lyra.ensure_session("b", "Second")
    lyra.remember("c", "user", "hello")
    lyra.ensure_session("a", "First")
    assert lyra.list_sessions() == [
        {"id": "c", "name": None},
        {"id": "b", "name": "Second"},
        {"id": "a", "name": "First"},
    ]


def test_recall_returns_as_many_as_are_asked_for_or_all_there_are(place: str) -> None:
    ids = chat("s")
    other = lyra.remember("t", "user", "Buy milk and bread.")
    assert len(lyra.recall("cello", k=3)) == 3
    assert {turn.id for turn in lyra.recall("qwertz", k=50)} == {*ids, other}
    assert {turn.id for turn in lyra.recall("milk", k=50, session_id="s")} == set(ids)
    assert len(lyra.recall("   ", k=2)) == 2
    assert len(lyra.recall("cello", k=5_000)) == 5
    assert lyra.recall("cello", k=0) == []
    found = lyra.recall("Who plays the cello?", k=5)
    scores = [turn.score for turn in found if turn.score is not None]
    assert len(scores) == 5 and scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


def test_recall_returns_whole_texts(place: str) -> None:
    long = "The cello stands in the corner. " + "Nothing else happened that day at all. " * 200
    lyra.remember("s", "user", long)
    assert lyra.recall("cello", k=1)[0].content == long
    lyra.store_summary("s", long, lyra.history("s")[-1].id)
    assert lyra.recall_summaries("cello", k=1)[0].content == long


def test_recall_is_complete_without_a_model(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGRAM_EMBEDDER", "none")
    ids = [lyra.remember("t", "user", "Buy milk and bread."), *chat("s"), *chat("s")]
    found = lyra.recall("cello", k=20)
    assert len(found) == 9 and {turn.id for turn in found} == set(ids)
    assert "cello" in found[0].content
    assert (found[-1].content, found[-1].score) == ("Buy milk and bread.", 0.0)


def test_summaries_and_eras_are_recalled_in_full_number(place: str) -> None:
    for number, about in enumerate(("sailing near Naxos", "a broken oven", "the cello teacher")):
        id = lyra.remember(f"s-{number}", "user", f"Let us talk about {about}.")
        lyra.store_summary(f"s-{number}", f"They spoke about {about}.", id)
        lyra.store_era(f"2025-0{number + 1}", f"The month of {about}.", number)
    assert lyra.recall_summaries("Who teaches the cello?", k=1)[0].session_id == "s-2"
    assert len(lyra.recall_summaries("cello")) == 3
    assert {each.session_id for each in lyra.recall_summaries("cello", k=9, exclude_session="s-2")} == {"s-0", "s-1"}
    assert len(lyra.recall_summaries("", k=2)) == 2
    assert lyra.recall_eras("What was broken?", k=1)[0].month == "2025-02"
    assert len(lyra.recall_eras("oven")) == 2 and len(lyra.recall_eras("oven", k=9)) == 3
    scores = [each.score for each in lyra.recall_eras("oven")] + [each.score for each in lyra.recall_summaries("oven")]
    assert all(isinstance(score, float) for score in scores)
    assert [era.month for era in lyra.list_eras()] == ["2025-01", "2025-02", "2025-03"]
    assert [summary.session_id for summary in lyra.list_summaries()] == ["s-0", "s-1", "s-2"]
    lyra.store_summary("s-0", "They spoke about sailing.", lyra.history("s-0")[-1].id)
    assert [summary.session_id for summary in lyra.list_summaries()] == ["s-1", "s-2", "s-0"]


def test_a_summary_covers_its_session_up_to_the_exchange(place: str) -> None:
    ids = chat("s")
    lyra.remember("other", "user", "Something else.")
    lyra.store_summary("s", "About Ana.", ids[1])
    summary = lyra.get_summary("s")
    assert summary is not None
    assert (summary.content, summary.last_exchange_id, lyra.unsummarized_count("s")) == ("About Ana.", ids[1], 2)
    lyra.store_summary("s", "About Ana and the cello.", ids[3])
    assert lyra.unsummarized_count("s") == 0
    later = lyra.remember("s", "user", "Good night.")
    assert lyra.unsummarized_count("s") == 1
    lyra.store_summary("s", "Nothing yet.", 0)
    assert [(each.content, each.last_exchange_id) for each in lyra.list_summaries()] == [("Nothing yet.", 0)]
    lyra.store_summary("s", "Everything.", later + 1_000)
    assert [each.last_exchange_id for each in lyra.list_summaries()] == [later]
    assert lyra.backlog_stats() == {
        **{"sessions": 2, "dirty": 1, "ripe": 1, "unsummarized_total": 1},
        "max_exchange_id": later,
    }


def test_a_session_without_turns_can_have_a_summary_too(place: str) -> None:
    lyra.store_summary("s", "They met.", 7)
    lyra.store_summary("s", "They met.", 8)
    summary = lyra.get_summary("s")
    assert summary is not None and (summary.content, summary.last_exchange_id) == ("They met.", 8)
    assert lyra.recall_summaries("met", k=3)[0].session_id == "s"
    assert list(lyra.summaries_by_month().values()) == [["They met."]]
    (id, *_) = chat("s")
    lyra.store_summary("s", "They met and spoke.", id)
    assert [(each.content, each.last_exchange_id) for each in lyra.list_summaries()] == [("They met and spoke.", id)]
    assert list(lyra.summaries_by_month().values()) == [["They met and spoke."]]


def test_many_exchanges_are_added_with_their_times_all_or_none(place: str) -> None:
    given: list[Bulk] = [
        ("user", "In May we sailed.", None, "2025-05-01T10:00:00+00:00"),
        ("assistant", "To Naxos?", b"\x00\x00\x80?" * 4, "2025-05-01 10:00:05"),
        ("narrator", "They laughed.", [0.5, 0.5], datetime(2025, 5, 1, 10, 1, tzinfo=UTC)),
        ("user", "Yes.", None, None),
    ]
    assert lyra.add_exchanges_bulk("s", given) == 4
    turns = lyra.history("s")
    local = datetime(2025, 5, 1, 10, 0, 5).astimezone(UTC)
    assert [turn.created_at for turn in turns[:3]] == [
        *("2025-05-01T10:00:00+00:00", local.isoformat(), "2025-05-01T10:01:00+00:00")
    ]
    assert [turn.role for turn in turns] == ["user", "assistant", "narrator", "user"]
    lyra.ensure_session("new")
    assert [session["id"] for session in lyra.list_sessions()] == ["new", "s"]
    for bad in (("user", "no\x00", None, None), ("user", "x", None, "yesterday"), ("user", 5, None, None)):
        with pytest.raises(InvalidInput):
            lyra.add_exchanges_bulk("s", [("user", "lost", None, None), bad])  # type: ignore[list-item]
    assert lyra.history("s") == turns
    assert lyra.add_exchanges_bulk("s", []) == 0
    lyra.store_summary("s", "They sailed in May.", turns[-1].id)
    assert lyra.summaries_by_month() == {"2025-05": ["They sailed in May."]}


def test_embeddings_are_used_only_if_their_model_is_named_and_is_that_of_the_store(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = load("static")
    assert embedder is not None
    (vector,) = embedder.embed(["A lesson on the violoncello."])
    blob, short = array("f", vector.tolist()).tobytes(), b"\x00\x00\x80?"
    for model in (None, "minilm"):
        if model:
            monkeypatch.setenv("LYRA_EMBEDDING_MODEL", model)
        assert lyra.add_exchanges_bulk("s", [("user", "Nothing.", short, None)]) == 1
    monkeypatch.setenv("LYRA_EMBEDDING_MODEL", "static")
    for wrong in (short, b"123"):
        with pytest.raises(InvalidInput):
            lyra.add_exchanges_bulk("s", [("user", "Nothing.", wrong, None)])
    lyra.add_exchanges_bulk("s", [("user", "First.", blob, None), ("user", "Second.", vector.tolist(), None)])
    assert {turn.content for turn in lyra.recall("violoncello lesson", k=2)} == {"First.", "Second."}
    assert len(lyra.history("s")) == 4


def test_a_deleted_session_is_forgotten_with_its_summary_and_its_era(place: str) -> None:
    id = lyra.remember("s", "user", "The zeppelin is green.")
    lyra.store_summary("s", "About a zeppelin.", id)
    (month,) = lyra.summaries_by_month()
    lyra.store_era(month, "A month with a zeppelin.", 1)
    lyra.remember("t", "user", "The oven is broken.")
    lyra.delete_session("s")
    lyra.delete_session("s")
    assert (lyra.history("s"), lyra.get_summary("s"), lyra.list_eras()) == ([], None, [])
    assert [session["id"] for session in lyra.list_sessions()] == ["t"]
    lyra.close()
    assert holds(place, "zeppelin") == {}


def test_profiles_narratives_and_states_with_other_ids_are_apart(place: str) -> None:
    lyra.set_profile("mine", 3)
    lyra.set_profile("Ana's", 5, profile_id="ana")
    lyra.set_narrative("now")
    lyra.set_narrative("then", narrative_id="draft")
    lyra.set_self_state({"mood": "calm"})
    lyra.set_self_state({}, state_id="other")
    assert (lyra.get_profile(), lyra.get_profile("ana")) == ("mine", "Ana's")
    assert (lyra.profile_sessions_covered(), lyra.profile_sessions_covered("ana")) == (3, 5)
    assert (lyra.get_narrative(), lyra.get_narrative("draft")) == ("now", "then")
    assert (lyra.get_self_state(), lyra.get_self_state("other"), lyra.get_self_state("no")) == (
        {"mood": "calm"},
        {},
        None,
    )
    with lyra_store.opened() as eng:
        assert {"profile", "narrative", "self"} <= {block.name for block in eng.blocks.list()}
    with pytest.raises(InvalidInput, match="must be a dict"):
        lyra.set_self_state([1])  # type: ignore[arg-type]


def test_the_same_state_again_makes_no_new_version(place: str) -> None:
    for mood in ("calm", "calm", "glad"):
        lyra.set_self_state({"mood": mood})
        lyra.set_profile("mine", 1)
    with lyra_store.opened() as eng:
        versions = {block.name: block.version for block in eng.blocks.list()}
    assert versions == {"self": 2, "profile": 1}


def test_a_pass_never_replaces_what_the_program_wrote(place: str) -> None:
    chat("s")
    lyra.remember("s", "user", "I prefer tea to coffee. Remember that I never work on Sundays.")
    lyra.set_profile("My own profile.", 1)
    lyra.set_narrative("My own narrative.")
    lyra.set_self_state({"mood": "calm", "notes": ["a", 1]})
    with lyra_store.opened() as eng:
        (report,) = eng.dream(force=True)
        assert (report.errors, report.blocks) == ([], {})
        assert eng.proposals.list()
    assert (lyra.get_profile(), lyra.get_narrative()) == ("My own profile.", "My own narrative.")
    assert lyra.get_self_state() == {"mood": "calm", "notes": ["a", 1]}


def test_what_a_pass_made_can_be_read_with_lyra_s_functions(place: str) -> None:
    ids = chat("s")
    with lyra_store.opened() as eng:
        eng.dream(force=True)
    summary = lyra.get_summary("s")
    assert summary is not None and summary.last_exchange_id == ids[-1]
    assert [era.session_count for era in lyra.list_eras()] == [1]
    assert lyra.get_narrative()
    assert (lyra.get_self_state() or {}).keys() >= {"mood", "energy"}


def test_the_variable_is_followed_when_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LYRA_DB_PATH", raising=False)
    lyra.remember("own", "user", "In the user's own store.")
    for name in ("one.db", "two.db", "one.db"):
        monkeypatch.setenv("LYRA_DB_PATH", name)
        lyra.remember(name, "user", "hello")
    assert [(session["id"], len(lyra.history("one.db"))) for session in lyra.list_sessions()] == [("one.db", 2)]
    monkeypatch.setenv("LYRA_DB_PATH", "")
    assert [session["id"] for session in lyra.list_sessions()] == ["own"]
    lyra.close()
    with Engram() as eng:
        assert [session.id for session in eng.sessions.list()] == ["own"]
    assert sorted(path.name for path in tmp_path.glob("*.db")) == ["one.db", "two.db"]


def test_a_store_is_closed_only_when_no_thread_uses_it_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LYRA_DB_PATH", str(tmp_path / "one.db"))
    inside, go_on = threading.Event(), threading.Event()

    def use_it() -> int:
        with lyra_store.opened() as eng:
            inside.set()
            assert go_on.wait(30)
            eng.sessions.ensure("slow")
            return len(eng.sessions.list())

    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(use_it)
        assert inside.wait(30)
        monkeypatch.setenv("LYRA_DB_PATH", str(tmp_path / "two.db"))
        assert lyra.list_sessions() == []
        go_on.set()
        assert slow.result(30) == 1
    assert lyra.list_sessions() == []
    lyra.close()


def test_threads_share_one_store(place: str) -> None:
    barrier = threading.Barrier(4)

    def talk(number: int) -> None:
        barrier.wait(30)
        for turn in range(3):
            lyra.remember("s", "user", f"turn {turn} of {number}")
            lyra.set_self_state({"last": number})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(talk, range(4)))
    assert len(lyra.history("s")) == 12
    assert (lyra.get_self_state() or {}).keys() == {"last"}


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_goes_on_with_the_store(place: str) -> None:
    lyra.remember("s", "user", "before the fork")
    child = os.fork()
    if child == 0:  # pragma: no cover
        try:
            lyra.remember("s", "user", "in the child")
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert len(lyra.history("s")) == 2


OLD = """
CREATE TABLE exchanges
  (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT, embedding BLOB, created_at TEXT);
CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT, created_at TEXT);
CREATE TABLE summaries
  (session_id TEXT PRIMARY KEY, content TEXT, embedding BLOB, last_exchange_id INTEGER, created_at TEXT);
CREATE TABLE profile (id TEXT PRIMARY KEY, content TEXT, sessions_covered INTEGER, updated_at TEXT);
CREATE TABLE eras (month TEXT PRIMARY KEY, content TEXT, embedding BLOB, session_count INTEGER, created_at TEXT);
CREATE TABLE narrative (id TEXT PRIMARY KEY, content TEXT, updated_at TEXT);
CREATE TABLE self_state (id TEXT PRIMARY KEY, data TEXT, updated_at TEXT);
INSERT INTO exchanges VALUES
  (7, 's-1', 'user', 'My sister Ana moved to Lisbon.', NULL, '2025-03-01T10:00:00+00:00'),
  (8, 's-1', 'assistant', 'How lovely!', NULL, '2025-03-01T10:00:05+00:00'),
  (9, 's-1', 'user', 'I am learning the cello.', NULL, '2025-03-01T10:01:00+00:00'),
  (12, 's-2', 'user', 'Good evening.', NULL, '2025-04-02T20:00:00+00:00');
INSERT INTO sessions VALUES ('s-1', 'First evening', '2025-03-01T10:00:00+00:00');
INSERT INTO summaries VALUES ('s-1', 'About Ana.', NULL, 8, '2025-03-02T00:00:00+00:00');
INSERT INTO profile VALUES ('self', 'Has a sister.', 1, '2025-03-02T00:00:00+00:00');
INSERT INTO eras VALUES ('2025-03', 'A month of music.', NULL, 1, '2025-04-01T00:00:00+00:00');
INSERT INTO narrative VALUES ('current', 'It began in March.', '2025-04-01T00:00:00+00:00');
INSERT INTO self_state VALUES ('lyra', '{"mood": "calm"}', '2025-04-01T00:00:00+00:00');
"""


def test_a_database_of_lyra_is_imported_once_and_the_program_goes_on_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    old = tmp_path / "lyra.db"
    with contextlib.closing(sqlite3.connect(old)) as file:
        file.executescript(OLD)
    before = old.read_bytes()
    monkeypatch.setenv("LYRA_DB_PATH", str(old))
    assert [session["id"] for session in lyra.list_sessions()] == ["s-2", "s-1"]
    lyra.remember("s-2", "assistant", "Good evening to you.")
    lyra.close()
    assert [turn.content for turn in lyra.history("s-2")] == ["Good evening.", "Good evening to you."]
    assert lyra.history("s-1")[0].created_at == "2025-03-01T10:00:00+00:00"
    assert lyra.list_sessions()[1] == {"id": "s-1", "name": "First evening"}
    summary = lyra.get_summary("s-1")
    assert summary is not None and summary.content == "About Ana."
    assert summary.last_exchange_id == lyra.history("s-1")[1].id
    assert (lyra.unsummarized_count("s-1"), lyra.get_profile(), lyra.profile_sessions_covered()) == (
        1,
        "Has a sister.",
        1,
    )
    assert [(era.month, era.content, era.session_count) for era in lyra.list_eras()] == [
        ("2025-03", "A month of music.", 1)
    ]
    assert (lyra.get_narrative(), lyra.get_self_state()) == ("It began in March.", {"mood": "calm"})
    assert lyra.recall("Who plays the cello?", k=1)[0].content == "I am learning the cello."
    lyra.close()
    assert (len(caplog.records), old.read_bytes()) == (1, before)


def test_a_role_or_a_text_that_cannot_be_kept_is_refused_by_name(place: str) -> None:
    for role, content, named in (
        ("r" * 300, "x", "role"),
        ("役" * 60, "x", "role"),
        ("a\ud83d", "x", "role"),
        ("user", "\ud83d", "content"),
        ("user", " \n" * 400, "content"),
        (None, "x", "role"),
    ):
        with pytest.raises(InvalidInput, match=f"^{named} "):
            lyra.remember("s", role, content)  # type: ignore[arg-type]
    assert lyra.list_sessions() == []


def test_a_bulk_that_fails_leaves_no_session(place: str) -> None:
    good = ("user", "The heron nests by the weir.", None, "2025-05-01T10:00:00Z")
    bad = ("user", "x", None, "2999-01-01T00:00:00Z")
    with pytest.raises(InvalidInput):
        lyra.add_exchanges_bulk("s", [good, bad])
    assert lyra.list_sessions() == []
    assert lyra.add_exchanges_bulk("s", [good]) == 1
    [found] = lyra.recall("Where is the bird's nest?", k=1)
    assert found.content == good[1] and found.score


def test_a_turn_is_stored_although_its_session_is_being_deleted(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure, left = Sessions.ensure, [1, 2]

    def ensured(sessions: Sessions, id: str, *arguments: Any) -> object:
        made = ensure(sessions, id, *arguments)
        if left and left.pop():
            sessions.delete(id)  # by another thread
        return made

    monkeypatch.setattr(Sessions, "ensure", ensured)
    assert lyra.remember("s", "user", "Still here.") == lyra.history("s")[0].id


def test_wrong_arguments_are_refused_by_name(place: str) -> None:
    calls: list[tuple[Callable[..., object], tuple[object, ...], str]] = [
        (lyra.recall, (None,), "query"),
        (lyra.recall, ("x", None), "k"),
        (lyra.recall_summaries, (5,), "query"),
        (lyra.recall_eras, ("x", "2"), "k"),
        (lyra.recent, ("s", None), "n"),
        (lyra.store_summary, ("s", "x", "abc"), "last_exchange_id"),
        (lyra.backlog_stats, ("x",), "ripe_threshold"),
        (lyra.set_profile, ("x", "y"), "sessions_covered"),
        (lyra.set_narrative, (None,), "content"),
        (lyra.add_exchanges_bulk, ("s", [("user", "x")]), "exchange"),
        (lyra.add_exchanges_bulk, ("s", [5]), "exchange"),
    ]
    for call, arguments, named in calls:
        with pytest.raises(InvalidInput, match=named):
            call(*arguments)
    assert lyra.list_sessions() == []
    # Ids that no session can have are unknown ones.
    lyra.delete_session(None)  # type: ignore[arg-type]
    lyra.delete_session("")
    assert lyra.history("") == lyra.recent("") == []
    assert (lyra.get_summary(""), lyra.unsummarized_count("")) == (None, 0)


def test_a_store_for_a_trial_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LYRA_DB_PATH", ":memory:")
    lyra.remember("s", "user", "Hello.")
    assert len(lyra.history("s")) == 1
    lyra.close()
    assert list(tmp_path.iterdir()) == []
