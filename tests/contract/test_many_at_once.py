"""Many exchanges in one transaction, and vectors that come with them or with a memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from engram import Engram, EngramError, InvalidInput, SessionNotFound
from engram.config import load
from engram.memory import exchanges
from engram.memory.exchanges import Added
from tests._tables import dump
from tests.conftest import ShiftedClock

Open = Callable[[], Engram]
DIMS = 26


class Letters:
    """An embedder that counts letters, and remembers what it was asked for."""

    name = "letters:v1"
    dims = DIMS

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str]) -> Any:
        self.texts += texts
        return list(map(letters, texts))


def letters(text: str) -> list[float]:
    return [float(text.lower().count(chr(97 + number))) for number in range(DIMS)]


@pytest.fixture
def embedder() -> Letters:
    return Letters()


@pytest.fixture
def eng(store_url: str, clock: ShiftedClock, embedder: Letters) -> Iterator[Engram]:
    with Engram(settings=load(url=store_url), clock=clock, embedder=embedder) as eng:
        yield eng


def turns(sid: str, count: int) -> list[dict[str, Any]]:
    return [{"session_id": sid, "role": "user", "content": f"turn number{n}"} for n in range(count)]


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"session_id": "nobody", "role": "user", "content": "hello"}, SessionNotFound),
        ({"session_id": "s", "role": "user", "content": ""}, InvalidInput),
        ({"session_id": "s", "role": "user", "content": "hello", "created_at": "2999-01-01"}, InvalidInput),
    ],
)
def test_an_atomic_call_writes_all_or_nothing(
    eng: Engram, wrong: dict[str, Any], error: type[EngramError], monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = 3
    monkeypatch.setattr(exchanges, "BATCH", batch)
    eng.sessions.ensure("s")
    added: list[Added] = []
    seen: list[int] = []
    with pytest.raises(error):
        eng.exchanges.add_many([*turns("s", batch + 1), wrong], atomic=True, added=added, progress=seen.append)
    assert (eng.exchanges.history("s"), added, seen) == ([], [], [])
    assert eng.recall("number1", mode="words") == []
    given = iter(turns("s", batch + 2))
    assert eng.exchanges.add_many(given, atomic=True, added=added, progress=seen.append) == batch + 2
    history = eng.exchanges.history("s")
    assert [(turn.id, turn.seq) for turn in history] == added
    assert [turn.content for turn in history] == [each["content"] for each in turns("s", batch + 2)]
    assert seen == [batch + 2]
    assert [hit.text for hit in eng.recall(f"number{batch + 1}", 1, mode="words")] == [f"turn number{batch + 1}"]


def test_no_transaction_is_open_while_an_atomic_call_embeds(store_url: str, clock: ShiftedClock) -> None:
    class Watching(Letters):
        def embed(self, texts: Sequence[str]) -> Any:
            assert not eng._view.engine.joined
            other.world.set(f"{len(texts)} texts")
            return super().embed(texts)

    settings = load(url=store_url, busy_timeout=1.0)
    with Engram(settings=settings, clock=clock, embedder=Watching()) as eng, Engram(settings=settings) as other:
        eng.sessions.ensure("s")
        assert eng.exchanges.add_many(turns("s", 3), atomic=True) == 3
        assert (other.world.get(), eng.embedding_queue.size()) == ("3 texts", 0)


def test_many_exchanges_join_an_open_transaction(eng: Engram, embedder: Letters, store_url: str) -> None:
    eng.sessions.ensure("s")
    before = dump(store_url)
    for atomic in (False, True):
        with pytest.raises(RuntimeError), eng.write():
            eng.exchanges.add_many(turns("s", 2), embed=False, atomic=atomic)
            raise RuntimeError
    assert dump(store_url) == before
    with eng.write():
        for atomic in (False, True):
            with pytest.raises(SessionNotFound):
                eng.exchanges.add_many([*turns("s", 1), *turns("nobody", 1)], embed=False, atomic=atomic)
            eng.exchanges.add_many(turns("s", 2), embed=False, atomic=atomic)
    assert len(eng.exchanges.history("s")) == 4
    assert (eng.embedding_queue.size(), embedder.texts) == (4, [])


def test_the_numbers_of_what_was_added_are_in_order(eng: Engram) -> None:
    for sid in ("s", "t"):
        eng.sessions.ensure(sid)
    eng.exchanges.add("t", "user", "first")
    added: list[Added] = []
    log = {"session_id": "s", "role": "log", "content": "noted"}
    given = [*turns("s", 1), *turns("t", 1), log, *turns("s", 1)]
    eng.exchanges.add_many(given, added=added, embed=False)
    assert [each.seq for each in added] == [1, 2, 2, 3]
    assert [eng.exchanges.get(each.id).content for each in added] == [each["content"] for each in given]


def test_given_vectors_are_stored_like_our_own(eng: Engram, embedder: Letters, store_url: str) -> None:
    for sid in ("own", "given"):
        eng.sessions.ensure(sid)
    texts = ["the big zebra", "an apple a day", "seven quick foxes"]
    for text in texts:
        eng.exchanges.add("own", "user", text)
    embedder.texts.clear()
    # The length of a vector does not matter, only its direction.
    eng.exchanges.add_many(
        (
            {"session_id": "given", "role": "user", "content": text, "vector": [7 * each for each in letters(text)]}
            for text in texts
        ),
        model="letters:v1",
    )
    assert (embedder.texts, eng.embedding_queue.size()) == ([], 0)
    rows = [(bytes(vector), model) for _, model, vector in sorted(dump(store_url)["vectors"])]
    assert rows[:3] == rows[3:]
    found = eng.recall("zebra big the", mode="vectors", session_id="given")
    assert found[0].text == "the big zebra"


def test_what_has_no_vector_is_embedded_or_waits(eng: Engram, embedder: Letters) -> None:
    eng.sessions.ensure("s")
    long = "A sentence about zebras and their stripes. " * 60
    given: list[dict[str, Any]] = [
        {"session_id": "s", "role": "user", "content": "with a vector", "vector": letters("with a vector")},
        {"session_id": "s", "role": "user", "content": "without one"},
        {"session_id": "s", "role": "user", "content": long, "vector": letters(long)},
        {"session_id": "s", "role": "log", "content": "noted", "vector": letters("noted")},
    ]
    eng.exchanges.add_many(given, model="letters:v1", embed=False)
    assert (eng.embedding_queue.size(), embedder.texts) == (3, [])
    eng.exchanges.add_many(given, model="letters:v1")
    assert "without one" in embedder.texts and "with a vector" not in embedder.texts
    assert eng.embedding_queue.size() == 4  # logs always wait
    assert eng.embedding_queue.work() == 4


@pytest.mark.parametrize(
    ("vector", "model", "told"),
    [
        (letters("hello"), None, "without its model"),
        (letters("hello"), "minilm", "uses letters:v1"),
        (letters("hello")[1:], "letters:v1", "have 26 numbers"),
        ([letters("hello")], "letters:v1", "1 x 26"),
        ([math.nan] * DIMS, "letters:v1", "not finite"),
        ([1e300] * DIMS, "letters:v1", "not finite"),
        ("hello", "letters:v1", "sequence of numbers"),
        (3.0, "letters:v1", "have 26 numbers"),
        ([None] * DIMS, "letters:v1", "not finite|sequence of numbers"),
    ],
)
def test_a_vector_that_does_not_fit_is_refused(eng: Engram, vector: Any, model: str | None, told: str) -> None:
    eng.sessions.ensure("s")
    mine = {"session_id": "s", "role": "user", "content": "hello"}
    for stored in (False, True):  # before and after the workspace has vectors
        if stored:
            eng.remember("Something else")
        with pytest.raises(InvalidInput, match=told):
            eng.exchanges.add_many([mine, {**mine, "vector": vector}], model=model)
        with pytest.raises(InvalidInput, match=told):
            eng.remember("hello", vector=vector, model=model)
    assert eng.exchanges.history("s") == [] and len(eng.memories.list()) == 1


def test_a_workspace_without_a_model_takes_no_vectors(open_store: Callable[..., Engram]) -> None:
    eng = open_store(embedder="none")
    with pytest.raises(InvalidInput, match="no embedding model"):
        eng.remember("hello", vector=[1.0], model="letters:v1")


def test_the_name_of_an_embedder_names_its_model(open_store: Callable[..., Engram]) -> None:
    eng = open_store(embedder="static")
    embedder = eng.embedding_queue.embedder()
    assert embedder is not None
    made = eng.remember("The big zebra", vector=embedder.embed(["The big zebra"])[0], model="static")
    assert eng.embedding_queue.size() == 0
    (found,) = eng.recall("a large zebra", mode="vectors")
    assert found.memory_id == made.id
    # Now the length is known from the store, also without the model.
    other = open_store(embedder="none")
    vector = [0.5] * embedder.dims
    other.remember("An apple", vector=vector, model=embedder.name, embed=False)
    assert other.embedding_queue.size() == 0


def test_a_memory_and_a_gist_take_a_vector(eng: Engram, embedder: Letters) -> None:
    eng.sessions.ensure("s")
    eng.exchanges.add("s", "user", "hello", embed=False)
    eng.remember("The big zebra", vector=letters("The big zebra"), model="letters:v1")
    eng.memories.store_gist("s", "A greeting.", 1, vector=letters("A greeting."), model="letters:v1")
    assert embedder.texts == [] and eng.embedding_queue.size() == 1
    assert [hit.text for hit in eng.memories.recall_gists("A greeting.")] == ["A greeting."]
