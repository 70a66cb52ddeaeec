"""Exchanges: what was said and done, kept in order and whole, on both engines."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from engram import Engram, EngramError, InvalidInput, SessionNotFound
from engram.errors import ExchangeNotFound
from engram.memory import exchanges
from engram.memory.word_index import PIECE
from engram.records import Exchange
from tests.conftest import ShiftedClock

OpenStore = Callable[..., Engram]

ROLES = {"user": "user", "assistant": "agent", "system": "agent", "tool": "tool", "log": "agent"}
#: Names that a careless comparison would take for one another.
SIBLINGS = ["foo", "foobar", "fo", "foo_", "foo%", "f%", "f__", "Foo", "FOO", "fóo", "fo\u0301o", "foo bar", "foo'"]
#: Small, so that a few turns are several batches.
BATCH = 20


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanges, "BATCH", BATCH)


@pytest.fixture
def eng(open_store: OpenStore) -> Engram:
    return open_store(embedder="none")


def session(eng: Engram) -> str:
    return eng.sessions.register("codex", "Working")


def contents(found: list[Exchange]) -> list[str]:
    return [exchange.content for exchange in found]


def say(eng: Engram, sid: str, *texts: str) -> list[int]:
    return [eng.exchanges.add(sid, "user", text) for text in texts]


@pytest.mark.requirement("EXCHANGE-1")
def test_turns_are_numbered_in_order_and_keep_everything(eng: Engram, open_store: OpenStore) -> None:
    sid = session(eng)
    before = eng.sessions.get(sid).created_at
    ids = [eng.exchanges.add(sid, role, f"said by {role}") for role in ROLES]
    for seq, (id, role) in enumerate(zip(ids, ROLES, strict=True), 1):
        found = open_store().exchanges.get(id)
        assert found[:6] == (id, sid, seq, role, f"said by {role}", ROLES[role])
        assert before <= found.created_at
    assert ids == sorted(ids)


@pytest.mark.requirement("EXCHANGE-1")
@pytest.mark.parametrize("trust", ["user", "agent", "tool", "import"])
def test_trust_can_be_said_and_is_kept(eng: Engram, trust: str) -> None:
    assert eng.exchanges.get(eng.exchanges.add(session(eng), "user", "hello", trust=trust)).trust == trust


@pytest.mark.requirement("EXCHANGE-1")
@pytest.mark.parametrize(
    "given, kept",
    [
        ("2023-05-07", "2023-05-07T00:00:00.000000Z"),
        ("2023-05-07T13:56:00", "2023-05-07T13:56:00.000000Z"),
        ("2023-05-07T13:56:00.25Z", "2023-05-07T13:56:00.250000Z"),
        ("2023-05-07T13:56:00+02:00", "2023-05-07T11:56:00.000000Z"),
    ],
)
def test_the_time_of_an_older_turn_is_kept_as_utc(eng: Engram, given: str, kept: str) -> None:
    assert eng.exchanges.get(eng.exchanges.add(session(eng), "user", "hello", created_at=given)).created_at == kept


@pytest.mark.requirement("EXCHANGE-1")
def test_an_imported_turn_does_not_come_before_what_was_said_earlier(eng: Engram) -> None:
    sid = session(eng)
    say(eng, sid, "first")
    eng.exchanges.add(sid, "user", "second", created_at="2001-01-01")
    assert contents(eng.exchanges.history(sid)) == ["first", "second"]


@pytest.mark.requirement("EXCHANGE-1")
@pytest.mark.parametrize(
    "content", ["  kept as it is \n\n", "emoji 👩‍👩‍👧 and 数据", "\u200e\ufeff marks", "a\r\nb\tc", "'; --"]
)
def test_contents_are_kept_to_the_letter(eng: Engram, content: str) -> None:
    assert eng.exchanges.get(say(eng, session(eng), content)[0]).content == content


@pytest.mark.requirement("EXCHANGE-1")
def test_recent_gives_the_last_turns_oldest_first_and_history_all_of_them(eng: Engram) -> None:
    sid, other = session(eng), session(eng)
    assert eng.exchanges.recent(sid) == eng.exchanges.history(sid) == []
    for number in range(12):
        say(eng, sid, f"turn {number}")
        eng.sessions.log(sid, f"log {number}")
        say(eng, other, "elsewhere")
    turns = [f"turn {number}" for number in range(12)]
    assert contents(eng.exchanges.history(sid)) == turns
    assert contents(eng.exchanges.recent(sid)) == turns[-10:]
    assert contents(eng.exchanges.recent(sid, 3)) == turns[-3:]
    assert contents(eng.exchanges.recent(sid, 100)) == turns


@pytest.mark.requirement("EXCHANGE-1")
@pytest.mark.parametrize(
    "place, n, expected",
    [(2, 1, [1, 2, 3]), (0, 2, [0, 1, 2]), (5, 2, [3, 4, 5]), (3, 0, [3]), (3, 50, [0, 1, 2, 3, 4, 5])],
)
def test_around_gives_the_turns_beside_one_however_many_logs_lie_between(
    eng: Engram, place: int, n: int, expected: list[int]
) -> None:
    sid, other = session(eng), session(eng)
    ids = []
    for number in range(6):
        ids += say(eng, sid, f"turn {number}")
        eng.sessions.log(sid, "noise")
        eng.sessions.log(sid, "more noise")
        say(eng, other, "elsewhere")
    assert contents(eng.exchanges.around(ids[place], n)) == [f"turn {number}" for number in expected]


@pytest.mark.requirement("EXCHANGE-1")
def test_around_a_log_entry_is_refused(eng: Engram) -> None:
    with pytest.raises(InvalidInput, match="log"):
        eng.exchanges.around(eng.sessions.log(session(eng), "noise").id)


@pytest.mark.requirement("EXCHANGE-1", "SESSION-11")
def test_speaking_is_a_sign_of_life_but_revives_nobody(eng: Engram, clock: ShiftedClock) -> None:
    alive, ended = session(eng), session(eng)
    eng.sessions.complete(ended)
    clock.advance(7_200)
    assert eng.sessions.get(alive).stale
    for sid in (alive, ended):
        say(eng, sid, "still here")
    assert not eng.sessions.get(alive).stale
    assert eng.sessions.get(ended).status == "completed"


@pytest.mark.requirement("EXCHANGE-1")
def test_speakers_at_once_in_one_session_get_numbers_without_gap_or_double(open_store: OpenStore) -> None:
    stores = [open_store(embedder="none") for _ in range(4)]
    sid, barrier = session(stores[0]), threading.Barrier(4)

    def speak(store: Engram) -> list[int]:
        barrier.wait(10)
        return say(store, sid, *(f"the same words, mostly {number}" for number in range(10)))

    with ThreadPoolExecutor(4) as pool:
        ids = [id for made in pool.map(speak, stores) for id in made]
    history = stores[0].exchanges.history(sid)
    assert [exchange.seq for exchange in history] == list(range(1, 41))
    assert sorted(exchange.id for exchange in history) == sorted(ids)


@pytest.mark.requirement("EXCHANGE-1", "STORE-13")
def test_a_turn_in_a_transaction_that_fails_was_never_said(eng: Engram) -> None:
    sid = session(eng)
    with pytest.raises(ZeroDivisionError), eng.write():
        say(eng, sid, "the zebra is out")
        raise ZeroDivisionError
    assert (eng.exchanges.history(sid), eng.recall("zebra")) == ([], [])
    say(eng, sid, "the zebra is back")
    assert contents(eng.exchanges.history(sid)) == ["the zebra is back"]
    assert [hit.text for hit in eng.recall("zebra")] == ["the zebra is back"]


def turns(sid: str, count: int) -> Iterator[dict[str, str]]:
    """A generator that can be read only once."""
    return ({"session_id": sid, "role": "user", "content": f"turn number{n}"} for n in range(count))


@pytest.mark.requirement("EXCHANGE-2")
@pytest.mark.parametrize("count, steps", [(0, []), (3, [3]), (BATCH, [BATCH]), (BATCH + 1, [BATCH, BATCH + 1])])
def test_many_turns_come_from_a_generator_with_progress_after_each_batch(
    eng: Engram, count: int, steps: list[int]
) -> None:
    sid, seen = session(eng), list[int]()
    assert eng.exchanges.add_many(turns(sid, count), progress=seen.append) == count
    assert seen == steps
    assert contents(eng.exchanges.history(sid)) == [f"turn number{n}" for n in range(count)]
    if count:
        assert [hit.text for hit in eng.recall(f"number{count - 1}", 1)] == [f"turn number{count - 1}"]


@pytest.mark.requirement("EXCHANGE-2")
def test_many_turns_are_kept_as_one_by_one(open_store: OpenStore) -> None:
    eng = open_store()
    one, many = session(eng), session(eng)
    given: list[dict[str, str]] = [
        {"role": "user", "content": "When does the train leave?", "created_at": "2023-05-07"},
        {"role": "assistant", "content": "At noon. " * 200},
        {"role": "tool", "content": "12:00", "trust": "import"},
        {"role": "log", "content": "asked the timetable"},
    ]
    for each in given:
        eng.exchanges.add(one, **each)  # type: ignore[arg-type]  # mypy takes the mapping for embed as well
    eng.exchanges.add_many({"session_id": many, **each} for each in given)

    def kept(sid: str) -> list[tuple[object, ...]]:
        return [
            (turn.seq, turn.role, turn.content, turn.trust, turn.created_at[:10]) for turn in eng.exchanges.history(sid)
        ]

    assert kept(one) == kept(many)
    assert len(eng.sessions.logs(many)) == 1
    found = [eng.recall("when is the departure of the train", session_id=sid) for sid in (one, many)]
    assert [hit.text for hit in found[0]] == [hit.text for hit in found[1]] != []


@pytest.mark.requirement("EXCHANGE-2")
@pytest.mark.parametrize(
    "wrong, error",
    [
        ({"session_id": "nobody", "role": "user", "content": "hello"}, SessionNotFound),
        ({"session_id": "nobody", "role": "user", "content": "hello", "mood": "fine"}, InvalidInput),
    ],
)
def test_a_batch_with_a_mistake_is_not_written_and_those_before_it_stay(
    eng: Engram, wrong: dict[str, str], error: type[EngramError]
) -> None:
    sid, seen = session(eng), list[int]()

    def some() -> Iterator[dict[str, str]]:
        yield from turns(sid, BATCH + 2)
        yield wrong
        yield from turns(sid, 1)

    with pytest.raises(error):
        eng.exchanges.add_many(some(), progress=seen.append)
    assert seen == [BATCH] == [len(eng.exchanges.history(sid))]
    assert eng.recall(f"number{BATCH + 1}", mode="words") == []


@pytest.mark.requirement("EXCHANGE-2")
@pytest.mark.parametrize(
    "wrong",
    [
        {"role": "user", "content": "hello"},
        {"session_id": "s", "role": "user"},
        {"session_id": "s", "role": "user", "content": ""},
        {"session_id": "s", "role": "user", "content": "hello", "embed": "no"},
    ],
)
def test_many_are_refused_for_what_one_is_refused_for(eng: Engram, wrong: dict[str, str]) -> None:
    eng.sessions.ensure("s")
    with pytest.raises(InvalidInput):
        eng.exchanges.add_many([{"session_id": "s", "role": "user", "content": "fine"}, wrong])
    assert eng.exchanges.history("s") == []


@pytest.mark.requirement("EXCHANGE-2")
def test_other_writers_get_in_between_batches(open_store: OpenStore) -> None:
    eng, other = open_store(embedder="none"), open_store(embedder="none", busy_timeout=5)
    sid = session(eng)

    def report(done: int) -> None:
        other.world.set(f"{done} are in")

    eng.exchanges.add_many(turns(sid, BATCH + 1), progress=report)
    assert eng.world.get() == f"{BATCH + 1} are in"


LONG = "\n".join(f"Paragraph {n}: the committee discussed item {n} at length and moved on." for n in range(400))
NEEDLE = "The vault opens with seventeen turns to the left."


@pytest.mark.requirement("EXCHANGE-3")
@pytest.mark.parametrize("embedder", ["none", "static"])
@pytest.mark.parametrize("place", [0, len(LONG) // 2, len(LONG)])
def test_a_long_text_is_kept_whole_and_found_by_its_best_piece(
    open_store: OpenStore, embedder: str, place: int
) -> None:
    eng = open_store(embedder=embedder)
    sid = session(eng)
    content = f"{LONG[:place]} {NEEDLE} {LONG[place:]}"
    (id,) = say(eng, sid, content)
    hits = eng.recall("how many turns open the vault?")
    assert [hit.exchange_id for hit in hits] == [id]
    assert NEEDLE in hits[0].text
    assert hits[0].text.strip("…") in content
    assert hits[0].whole == content
    assert len(hits[0].text) <= PIECE * 5 // 4
    assert eng.exchanges.get(id).content == content


@pytest.mark.requirement("EXCHANGE-3")
@pytest.mark.parametrize("glue", [" ", ""])
def test_no_word_is_lost_where_a_long_text_is_cut(eng: Engram, glue: str) -> None:
    texts = [f"<word{number}>" for number in range(1_000)]
    (id,) = say(eng, session(eng), glue.join(texts))
    lost = [number for number in range(0, 1_000, 17) if not eng.recall(f"word{number}", 1, mode="words")]
    assert lost == []
    assert {hit.exchange_id for hit in eng.recall("word500", mode="words")} == {id}


@pytest.mark.requirement("EXCHANGE-3")
def test_the_pieces_of_one_long_text_do_not_crowd_out_everything_else(eng: Engram) -> None:
    sid = session(eng)
    short = eng.remember("Somebody once saw a zebra near the old mill, or so the story in the village goes.")
    (id,) = say(eng, sid, "zebra " * 10_000)
    assert {(hit.exchange_id, hit.memory_id) for hit in eng.recall("zebra")} == {(id, None), (None, short.id)}


@pytest.mark.requirement("EXCHANGE-3")
def test_the_longest_text_is_taken(eng: Engram) -> None:
    sid = session(eng)
    content = ("x" * 799 + " ") * 1_250
    assert len(content) == 1_000_000
    (id,) = say(eng, sid, content)
    assert eng.exchanges.get(id).content == content


NOBODY = "20200101-000000-00000000"
BAD_NAMES = ["", " ", "a\x00b", "a\ud800b", "a\nb", 7, None]
BAD_TEXTS = [*BAD_NAMES[:4], "x" * 1_000_001, b"bytes", None]


def refuses(eng: Engram, attempt: Callable[[], object], error: type[EngramError] = InvalidInput) -> None:
    """The error is a typed one, and no row and no number was used up."""
    before = eng.changes(), eng.sessions.stats()
    with pytest.raises(EngramError) as caught:
        attempt()
    assert type(caught.value) is error
    assert (eng.changes(), eng.sessions.stats()) == before


@pytest.mark.requirement("MEMORY-6")
def test_bad_exchanges_are_refused_before_anything_is_written(eng: Engram) -> None:
    sid = session(eng)
    good: dict[str, Any] = {"session_id": sid, "role": "user", "content": "hello"}
    for wrong in [
        *({"content": content} for content in BAD_TEXTS),
        *({"session_id": name} for name in BAD_NAMES),
        *({"role": role} for role in ["", "User", "bot", None, 3]),
        *({"trust": trust} for trust in ["", "User", "nobody", 3]),
        *({"created_at": at} for at in ["", "yesterday", "2023-13-01", "0023-05-07", math.nan, 5]),
    ]:
        refuses(eng, lambda wrong=wrong: eng.exchanges.add(**{**good, **wrong}))  # type: ignore[misc]
    refuses(eng, lambda: eng.exchanges.add(NOBODY, "user", "hello"), SessionNotFound)
    assert eng.exchanges.history(sid) == []
    eng.exchanges.add(**good)
    assert [turn.seq for turn in eng.exchanges.history(sid)] == [1]


@pytest.mark.requirement("MEMORY-6", "SESSION-14")
@pytest.mark.parametrize("read", ["recent", "history"])
def test_reading_with_a_bad_session_id_is_a_typed_error(eng: Engram, read: str) -> None:
    for name in BAD_NAMES:
        refuses(eng, lambda name=name: getattr(eng.exchanges, read)(name))  # type: ignore[misc]
    refuses(eng, lambda: getattr(eng.exchanges, read)(NOBODY), SessionNotFound)


@pytest.mark.requirement("MEMORY-6")
def test_bad_numbers_are_typed_errors(eng: Engram) -> None:
    sid = session(eng)
    (id,) = say(eng, sid, "hello")
    for bad in (0, -1, 1.5, "1", None, True, 2**63):
        refuses(eng, lambda bad=bad: eng.exchanges.get(bad))  # type: ignore[misc]
        refuses(eng, lambda bad=bad: eng.exchanges.around(bad))  # type: ignore[misc]
        refuses(eng, lambda bad=bad: eng.exchanges.recent(sid, bad))  # type: ignore[misc]
    for bad in (-1, 1.5, "1", None):
        refuses(eng, lambda bad=bad: eng.exchanges.around(id, bad))  # type: ignore[misc]
    for read in (eng.exchanges.get, eng.exchanges.around):
        refuses(eng, lambda read=read: read(id + 1), ExchangeNotFound)  # type: ignore[misc]
    assert len(eng.exchanges.around(id, 2**62)) == 1


@pytest.mark.requirement("STORE-16")
def test_sessions_with_similar_names_keep_their_turns_apart(eng: Engram) -> None:
    for name in SIBLINGS:
        eng.sessions.ensure(name)
        say(eng, name, f"the zebra of {name!r}", "and more")
    for name in SIBLINGS:
        mine = [f"the zebra of {name!r}", "and more"]
        assert contents(eng.exchanges.history(name)) == contents(eng.exchanges.recent(name)) == mine
        first, second = eng.exchanges.history(name)
        assert contents(eng.exchanges.around(first.id, 10)) == mine
        assert (first.seq, second.seq) == (1, 2)
        assert {hit.session_id for hit in eng.recall("zebra", 50, session_id=name)} == {name}
        others = {hit.session_id for hit in eng.recall("zebra", 50, exclude_session=name)}
        assert others == set(SIBLINGS) - {name}


@pytest.mark.requirement("STORE-16")
def test_workspaces_keep_their_turns_apart(eng: Engram) -> None:
    views = {name: eng.workspace(name) for name in ("foo", "foobar", "fo", "foo_", "foo-")}
    ids = {}
    for name, view in views.items():
        view.sessions.ensure("same")
        (ids[name],) = say(view, "same", f"the zebra of {name}")
    for name, view in views.items():
        assert contents(view.exchanges.history("same")) == [f"the zebra of {name}"]
        assert [hit.text for hit in view.recall("zebra")] == [f"the zebra of {name}"]
        for other in set(ids.values()) - {ids[name]}:
            for read in (view.exchanges.get, view.exchanges.around):
                with pytest.raises(ExchangeNotFound):
                    read(other)


@pytest.mark.requirement("CAPTURE-2")
def test_a_turn_keeps_the_harness_s_id_of_its_message(eng: Engram) -> None:
    sid, other = session(eng), session(eng)
    known = eng.exchanges.add(sid, "user", "Port the router", external_id="m-1")
    eng.exchanges.add(other, "user", "Port the router", external_id="m-1")
    eng.exchanges.add_many([{"session_id": sid, "role": "assistant", "content": "Done", "external_id": "m-2"}])
    bare = eng.exchanges.add(sid, "user", "Thanks")
    assert [turn.external_id for turn in eng.exchanges.history(sid)] == ["m-1", "m-2", None]
    found = eng.exchanges.find(sid, "m-1")
    assert found is not None
    assert found.id == known
    assert eng.exchanges.find(sid, "m-3") is None
    assert eng.exchanges.set_external_id(bare, "m-3")
    assert not eng.exchanges.set_external_id(bare, "m-4"), "an id is not replaced"
    assert eng.exchanges.get(bare).external_id == "m-3"


@pytest.mark.requirement("CAPTURE-2")
@pytest.mark.parametrize("indexed", [False, True])
def test_what_is_learned_later_goes_before_the_last_turn_unless_that_is_indexed(eng: Engram, indexed: bool) -> None:
    sid = session(eng)
    eng.exchanges.add(sid, "user", "first")
    last = eng.exchanges.add(sid, "assistant", "last", embed=False, words=indexed)
    eng.sessions.log(sid, "a log entry behind it")
    between = [{"session_id": sid, "role": "assistant", "content": text} for text in ("second", "third")]
    eng.exchanges.insert_before(last, between)
    eng.exchanges.insert_before(last, [])
    after = eng.exchanges.add(sid, "user", "after")
    said = ["first", "last", "second", "third"] if indexed else ["first", "second", "third", "last"]
    assert [turn.content for turn in eng.exchanges.history(sid)] == [*said, "after"]
    assert [turn.content for turn in eng.exchanges.around(after, 1)] == [said[-1], "after"]
    assert eng.sessions.get(sid).turns == 5
    eng.backlog.index_words()
    (hit,) = eng.recall("third", 1, mode="words")
    assert hit.text == "third"
    with pytest.raises(SessionNotFound):
        eng.exchanges.insert_before(last, [{"session_id": "none", "role": "user", "content": "x"}])
