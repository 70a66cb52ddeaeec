"""LangGraph's store on Engram: what it keeps, finds, expires and deletes, on both engines."""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypedDict, cast

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    SearchItem,
    SearchOp,
)

from engram import Engram, InvalidInput, MissingExtra
from engram.compat.langgraph import KIND, EngramStore
from tests._tables import holds
from tests.conftest import ShiftedClock

pytestmark = pytest.mark.requirement("COMPAT-6")

Open = Callable[..., Engram]

USER = ("users", "ada")
#: Made for tests; it opens nothing.
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture
def eng(open_store: Open) -> Engram:
    return open_store(embedder="none")


@pytest.fixture
def store(eng: Engram) -> EngramStore:
    return EngramStore(eng)


def keys(items: list[SearchItem]) -> list[str]:
    return [item.key for item in items]


def found(store: BaseStore, namespace: tuple[str, ...], key: str, **options: Any) -> Item:
    item = store.get(namespace, key, **options)
    assert item is not None
    return item


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"text": "Ünïcödé 數 🎈", "nested": {"list": [1, 2.5, None, True, {"": []}], "big": 10**40}},
        {"\x00": "\x00", "lone": "\ud800", "quote": "\"'\\\n\t"},
        {"namespace": ["x"], "id": "y", "value": {"ttl": 1}, "key": "k", "name": "n"},
        {"long": "many words " * 5_000},
    ],
)
def test_a_value_comes_back_exactly(open_store: Open, store: EngramStore, value: dict[str, Any]) -> None:
    store.put(USER, "it", value)
    assert found(store, USER, "it").value == value
    # Another process sees the same.
    assert found(EngramStore(open_store(embedder="none")), USER, "it").value == value
    assert [item.value for item in store.search(USER)] == [value]
    assert [item.value for item in store.search(USER, query="many words")] == [value]


@pytest.mark.parametrize("key", ["", "k" * 500, "a\x00b", "\ud800", "../x", "👩‍👩‍👧", "%_'\"", " "])
def test_keys_and_labels_may_be_any_text(store: EngramStore, key: str) -> None:
    namespace = ("x" * 300, "ü %_'\"", "\n", "*")
    store.put(namespace, key, {"is": "there"})
    store.put(namespace, key + "2", {"is": "another"})
    assert found(store, namespace, key).value == {"is": "there"}
    assert sorted(keys(store.search(namespace))) == sorted([key, key + "2"])
    assert store.list_namespaces() == [namespace]
    store.delete(namespace, key)
    assert keys(store.search(())) == [key + "2"]


def test_times_say_when_an_item_was_made_and_changed(store: EngramStore, clock: ShiftedClock) -> None:
    store.put(USER, "it", {"n": 1})
    made = found(store, USER, "it")
    assert made.created_at == made.updated_at
    assert made.created_at.utcoffset() == timedelta(0)
    clock.advance(60)
    store.put(USER, "it", {"n": 2})
    changed = found(store, USER, "it")
    assert changed.created_at == made.created_at
    assert timedelta(seconds=60) <= changed.updated_at - made.updated_at < timedelta(seconds=90)
    (searched,) = store.search(USER)
    assert (searched.created_at, searched.updated_at) == (changed.created_at, changed.updated_at)


def test_a_namespace_never_matches_one_that_only_begins_like_it(store: EngramStore) -> None:
    spaces = [("foo",), ("foobar",), ("foo", "bar"), ("foo,bar",), ("bar", "foo"), ("FOO",), ("fo_",), ("fo%",)]
    store.batch([PutOp(space, "k", {"in": list(space)}) for space in spaces])
    for space in spaces:
        assert found(store, space, "k").value == {"in": list(space)}
    assert [item.namespace for item in store.search(("foo",))] == [("foo", "bar"), ("foo",)]
    assert [item.namespace for item in store.search(("fo_",), query="foo bar")] == [("fo_",)]
    assert store.search(("fo",)) == store.search(("fo",), query="foo") == []
    assert store.list_namespaces(prefix=("foo",)) == [("foo",), ("foo", "bar")]
    store.delete(("foo",), "k")
    assert len(store.search(())) == len(spaces) - 1
    # An operation may bypass the checks of the base class.
    assert store.batch([GetOp(("foo.bar",), "k"), SearchOp(("foo.bar",))]) == [None, []]


def test_namespaces_are_checked_as_in_other_stores(store: EngramStore) -> None:
    for wrong in [(), ("a.b",), ("",), ("langgraph",)]:
        with pytest.raises(InvalidNamespaceError):
            store.put(wrong, "k", {})
    with pytest.raises(InvalidInput, match="50 labels"):
        store.put(("x",) * 50, "k", {})
    store.put(("x",) * 49, "k", {"deep": True})
    assert keys(store.search(("x",) * 48)) == ["k"]


def test_search_lists_what_changed_last_first_in_exact_pages(store: EngramStore, clock: ShiftedClock) -> None:
    for number in range(5):
        store.put(USER, str(number), {"n": number})
        clock.advance(1)
    store.put(USER, "1", {"n": 10})
    assert keys(store.search(USER)) == ["1", "4", "3", "2", "0"]
    assert keys(store.search(USER, limit=2, offset=1)) == ["4", "3"]
    assert keys(store.search(USER, limit=9, offset=4)) == ["0"]
    assert store.search(USER, limit=0) == store.search(USER, offset=5) == []
    assert keys(store.search(USER, filter={"n": {"$gte": 3}}, limit=2, offset=1)) == ["4", "3"]
    with pytest.raises(InvalidInput, match="limit is -1"):
        store.search(USER, limit=-1)
    with pytest.raises(InvalidInput, match="offset is -1"):
        store.search(USER, offset=-1)


def test_a_filter_compares_fields(store: EngramStore) -> None:
    values: dict[str, dict[str, Any]] = {
        "a": {"n": 1, "on": "2026-01-31", "who": {"name": "Ada", "age": 36}, "tags": ["x", "y"]},
        "b": {"n": 2, "on": "2026-02-01", "tags": []},
        "c": {"n": 3, "on": "2026-03-01"},
        "d": {"n": "many"},
        "e": {},
    }
    store.batch([PutOp(USER, key, value) for key, value in values.items()])
    cases: list[tuple[dict[str, Any], str]] = [
        ({"n": 2}, "b"),
        ({"n": {"$ne": 2}}, "acde"),
        ({"n": {"$gt": 1, "$lte": 3}}, "bc"),
        ({"n": {"$lt": 2}}, "a"),
        ({"n": {"$eq": None}}, "e"),
        ({"on": {"$gte": "2026-02-01"}}, "bc"),
        ({"who": {"name": "Ada"}}, "a"),
        ({"who": {"age": {"$gt": 30}}}, "a"),
        ({"tags": ["x", "y"]}, "a"),
        ({"tags": ["y", "x"]}, ""),
        ({"n": 1, "tags": []}, ""),
        ({"nothing": {"$gt": 0}}, ""),
        ({"n": {"$gt": "word"}}, ""),
        ({}, "abcde"),
    ]
    for filter, expected in cases:
        assert sorted(keys(store.search(USER, filter=filter))) == list(expected), filter
        assert sorted(keys(store.search(USER, filter=filter, query="many"))) == list(expected), filter


def test_an_unknown_operator_is_refused(store: EngramStore) -> None:
    store.put(USER, "k", {"n": 1})
    with pytest.raises(InvalidInput, match=r"'\$in' is not an operator of a filter; use \$eq, \$ne, \$gt"):
        store.search(USER, filter={"n": {"$in": [1]}})
    with pytest.raises(InvalidInput, match="str is not an operation"):
        store.batch([cast(Op, "get")])


def test_a_question_finds_items_by_meaning(open_store: Open) -> None:
    store = EngramStore(open_store())
    store.put(USER, "food", {"text": "Loves pizza and pasta", "n": 1})
    store.put(USER, "home", {"text": "Moved to a flat in Lisbon", "n": 2})
    store.put(USER, "tool", {"favourite_editor": "vim", "n": 3})
    store.put(("users", "bob"), "food", {"text": "Loves pizza and pasta", "n": 4})
    hits = store.search(USER, query="what would she like to eat for dinner?")
    assert keys(hits)[0] == "food"
    assert sorted(keys(hits)) == ["food", "home", "tool"]
    scores = [hit.score for hit in hits]
    assert all(score is not None and 0 <= score <= 1 for score in scores)
    assert scores == sorted(scores, key=lambda score: -(score or 0))
    # The name of a field says what its value means.
    assert keys(store.search(USER, query="which editor", limit=1)) == ["tool"]
    assert keys(store.search(USER, query="pizza", filter={"n": {"$gt": 1}}, limit=1)) != ["food"]
    assert keys(store.search(("users",), query="pizza", limit=2)) == ["food", "food"]
    # The last places go to what comes next.
    ranked = keys(store.search(USER, query="pizza"))
    assert [
        *keys(store.search(USER, query="pizza", limit=1)),
        *keys(store.search(USER, query="pizza", offset=1)),
    ] == ranked
    assert keys(store.search(USER, query="pizza \x00\ud800 "))[0] == "food"
    assert [hit.score for hit in store.search(USER, query="  ")] == [None] * 3


def test_a_question_reads_only_the_indexed_fields(open_store: Open) -> None:
    store = EngramStore(open_store(), index={"fields": ["text", "notes[*].body"]})
    value = {"text": "plays the violin", "hidden": "grows tomatoes", "notes": [{"body": "sails"}, {"body": "skis"}]}
    store.put(USER, "default", value)
    store.put(USER, "chosen", value, index=["hidden"])
    store.put(USER, "never", value, index=False)
    store.put(USER, "none", {"hidden": "grows tomatoes"})
    store.put(USER, "whole", value, index=["$"])

    def scored(query: str) -> set[str]:
        return {hit.key for hit in store.search(USER, query=query) if hit.score and hit.score > 0.3}

    assert scored("violin") == {"default", "whole"}
    assert scored("skis") == {"default", "whole"}
    assert scored("tomatoes") == {"chosen", "whole"}
    # What is not indexed is still listed, after all that is, and without a score.
    last = store.search(USER, query="violin")[3:]
    assert [(hit.key, hit.score) for hit in last] == [("none", None), ("never", None)]
    assert store.search(USER, query="violin", limit=2, offset=4)[0].key == "never"
    # A put decides anew what is indexed.
    store.put(USER, "never", value)
    store.put(USER, "default", value, index=False)
    assert scored("violin") == {"never", "whole"}


def test_a_search_ranks_more_than_one_page_of_recall(store: EngramStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engram.compat.langgraph._MOST_HITS", 4)
    store.batch([PutOp(USER, str(number), {"text": f"apple {number}", "odd": number % 2}) for number in range(8)])
    everything = store.search(USER, query="apple", limit=20)
    assert [hit.score is None for hit in everything] == [False] * 4 + [True] * 4
    assert len({hit.key for hit in everything}) == 8
    odd = store.search(USER, query="apple", filter={"odd": 1}, limit=20)
    assert sorted(keys(odd)) == ["1", "3", "5", "7"]


def test_namespaces_are_listed_by_beginning_end_and_depth(store: EngramStore) -> None:
    spaces = [("a", "b", "c"), ("a", "b", "d", "e"), ("a", "b", "d", "i"), ("a", "b", "f"), ("a", "c", "f"), ("b", "f")]
    store.batch([PutOp(space, "k", {"x": 1}) for space in spaces])
    assert store.list_namespaces() == spaces
    assert store.list_namespaces(prefix=("a", "b"), max_depth=3) == [("a", "b", "c"), ("a", "b", "d"), ("a", "b", "f")]
    assert store.list_namespaces(suffix=("f",)) == [("a", "b", "f"), ("a", "c", "f"), ("b", "f")]
    assert store.list_namespaces(prefix=("a", "*", "f")) == [("a", "b", "f"), ("a", "c", "f")]
    assert store.list_namespaces(prefix=("a",), suffix=("*", "e")) == [("a", "b", "d", "e")]
    assert store.list_namespaces(limit=2, offset=1) == spaces[1:3]
    store.delete(("b", "f"), "k")
    assert ("b", "f") not in store.list_namespaces()


def test_a_batch_reads_first_and_of_several_puts_the_last_counts(store: EngramStore) -> None:
    store.put(USER, "k", {"n": 1})
    results = store.batch(
        [
            PutOp(USER, "k", {"n": 2}),
            GetOp(USER, "k"),
            PutOp(USER, "new", {"n": 1}),
            PutOp(USER, "k", {"n": 3}),
            SearchOp(USER),
            ListNamespacesOp(),
            PutOp(USER, "new", None),
        ]
    )
    assert [results[0], results[2], results[3], results[6]] == [None] * 4
    assert isinstance(results[1], Item) and results[1].value == {"n": 1}
    assert isinstance(results[4], list) and len(results[4]) == 1
    assert results[5] == [USER]
    assert [item.value for item in store.search(USER)] == [{"n": 3}]


@pytest.mark.parametrize(
    ("namespace", "value", "problem"),
    [
        (USER, {"when": datetime(2026, 1, 1)}, "cannot be stored as JSON"),
        (USER, {"n": float("nan")}, "cannot be stored as JSON"),
        (USER, {"text": "x" * 1_000_001}, "at most 1,000,000 fit"),
        (("users", TOKEN), {}, "seems to contain a secret"),
    ],
)
def test_a_batch_with_a_put_that_cannot_be_stored_writes_nothing(
    store: EngramStore, namespace: tuple[str, ...], value: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InvalidInput, match=problem) as raised:
        store.batch([PutOp(USER, "fine", {"n": 1}), PutOp(namespace, "wrong", value)])
    assert TOKEN not in str(raised.value)
    assert store.search(()) == []


def test_secrets_in_a_value_are_not_stored(store: EngramStore, store_url: str) -> None:
    store.put(USER, "k", {"note": f"use {TOKEN}", "name": "DB_PASSWORD", "value": "hunter2-Xy7", "n": 1})
    value = found(store, USER, "k").value
    assert value == {
        "note": "use [redacted: github token]",
        "name": "DB_PASSWORD",
        "value": "[redacted: password]",
        "n": 1,
    }
    assert holds(store_url, TOKEN) == holds(store_url, "hunter2") == {}


def test_what_is_deleted_is_gone_with_its_earlier_values(store: EngramStore, store_url: str) -> None:
    store.put(USER, "k", {"text": "the first zebra"})
    store.put(USER, "k", {"text": "the second zebra"}, ttl=5)
    store.put(("other",), "k", {"text": "a horse"})
    assert holds(store_url, "zebra")
    store.delete(USER, "k")
    store.delete(USER, "k")
    assert store.get(USER, "k") is None
    assert store.search(USER) == store.search(USER, query="zebra") == []
    assert store.list_namespaces() == [("other",)]
    assert holds(store_url, "zebra") == holds(store_url, "ada") == {}


def test_two_processes_that_put_the_same_key_leave_one_item(open_store: Open) -> None:
    stores = [EngramStore(open_store(embedder="none")) for _ in range(3)]
    together = threading.Barrier(len(stores))

    def put(number: int) -> None:
        together.wait()
        for turn in range(4):
            stores[number].put(USER, "k", {"by": number, "turn": turn})
            if turn == 1:
                stores[number].delete(USER, "k")

    with ThreadPoolExecutor() as pool:
        list(pool.map(put, range(len(stores))))
    assert found(stores[0], USER, "k").value["turn"] == 3
    eng = stores[0]._eng
    assert [len(eng.memories.list(status=status)) for status in ("active", "superseded", "archived")] == [1, 0, 0]


def test_an_item_ends_after_its_time_to_live(store: EngramStore, clock: ShiftedClock) -> None:
    store.put(USER, "short", {"text": "a mayfly"}, ttl=1)
    store.put(("users", "bob"), "ever", {"text": "a tortoise"})
    clock.advance(59)
    assert keys(store.search(USER, refresh_ttl=False)) == ["short"]
    assert found(store, USER, "short", refresh_ttl=False).value == {"text": "a mayfly"}
    clock.advance(2)
    assert store.get(USER, "short") is None
    assert store.search(USER) == store.search(USER, query="mayfly") == []
    assert store.list_namespaces() == [("users", "bob")]
    assert keys(store.search(("users",))) == ["ever"]


def test_reading_an_item_begins_its_time_anew_and_changes_nothing_else(store: EngramStore, clock: ShiftedClock) -> None:
    store.put(USER, "got", {"n": 1}, ttl=1)
    store.put(USER, "searched", {"n": 2}, ttl=1)
    store.put(USER, "asked", {"n": 3}, ttl=1)
    before = {item.key: item for item in store.search(USER)}
    for _ in range(3):
        clock.advance(40)
        assert found(store, USER, "got").updated_at == before["got"].updated_at
        assert [item.updated_at for item in store.search(USER, filter={"n": 2})] == [before["searched"].updated_at]
        assert keys(store.search(USER, query="3", limit=1)) == ["asked"]
    clock.advance(61)
    assert store.search(USER) == []


def test_a_put_decides_anew_how_long_an_item_lives(store: EngramStore, clock: ShiftedClock) -> None:
    store.put(USER, "longer", {"n": 1}, ttl=1)
    store.put(USER, "shorter", {"n": 1})
    store.put(USER, "longer", {"n": 1})
    store.put(USER, "shorter", {"n": 1}, ttl=0.5)
    clock.advance(45)
    assert keys(store.search(USER)) == ["longer"]
    for wrong in ("1", float("inf"), float("nan")):
        with pytest.raises(InvalidInput, match=r"ttl must be a number of minutes, or None for ever; it is"):
            store.put(USER, "wrong", {}, ttl=cast(float, wrong))


def test_a_put_under_the_key_of_an_expired_item_makes_a_new_one(store: EngramStore, clock: ShiftedClock) -> None:
    store.put(USER, "k", {"n": 1}, ttl=1)
    first = found(store, USER, "k")
    clock.advance(90)
    store.put(USER, "k", {"n": 1})
    second = found(store, USER, "k")
    assert second.created_at > first.created_at
    assert len(store._eng.memories.list(kind=KIND)) == 1


def test_the_configuration_sets_the_time_and_whether_reading_renews_it(eng: Engram, clock: ShiftedClock) -> None:
    store = EngramStore(eng, ttl={"default_ttl": 1, "refresh_on_read": False})
    store.put(USER, "default", {"n": 1})
    store.put(USER, "none", {"n": 1}, ttl=None)
    clock.advance(40)
    assert store.get(USER, "default")
    clock.advance(40)
    assert keys(store.search(USER)) == ["none"]


def test_expired_items_are_deleted_on_request(store: EngramStore, clock: ShiftedClock, store_url: str) -> None:
    store.put(USER, "a", {"text": "a mayfly"}, ttl=1)
    store.put(USER, "b", {"text": "another mayfly"}, ttl=1)
    store.put(USER, "c", {"text": "a tortoise"}, ttl=60)
    assert store.sweep_ttl() == 0
    clock.advance(90)
    # A pass of dreaming archives what has expired.
    assert store._eng.memories.sweep(limit=1) == 1
    assert holds(store_url, "mayfly")
    assert store.sweep_ttl() == 2
    assert holds(store_url, "mayfly") == {}
    assert keys(store.search(USER)) == ["c"]


def test_expired_items_are_deleted_at_an_interval(eng: Engram, clock: ShiftedClock, store_url: str) -> None:
    store = EngramStore(eng, ttl={"sweep_interval_minutes": 10})
    store.put(USER, "a", {"text": "a mayfly"}, ttl=1)
    clock.advance(5 * 60)
    store.put(USER, "b", {})
    assert holds(store_url, "mayfly")
    clock.advance(5 * 60)
    store.search(USER)
    assert holds(store_url, "mayfly")
    store.put(USER, "b", {})
    assert holds(store_url, "mayfly") == {}


def test_items_are_not_in_the_memory_of_the_person(open_store: Open, clock: ShiftedClock) -> None:
    eng = open_store()
    eng.remember("The person plays the violin", kind="preference")
    store = EngramStore(eng)
    store.put(USER, "k", {"text": "The person plays the trumpet"})
    assert ["trumpet" in hit.text for hit in eng.recall("what does the person play", 9)] == [False]
    assert "trumpet" not in eng.brief() + eng.context("trumpet") + eng.sitrep()
    clock.advance(3 * 86_400)
    eng.dream(force=True, all_workspaces=True)
    assert found(store, USER, "k").value == {"text": "The person plays the trumpet"}
    assert "trumpet" not in eng.brief() + str(eng.blocks.list())
    assert {space.name for space in eng.workspaces()} == {"default", "langgraph"}
    other = EngramStore(eng, workspace="shop")
    assert other.search(()) == []


def test_a_memory_that_is_not_an_item_is_not_returned(store: EngramStore) -> None:
    store.put(USER, "k", {"n": 1})
    (item,) = store._eng.memories.list()
    store._eng.remember("n: 1", kind=KIND, tags=item.tags, data={"value": 1})
    assert keys(store.search(USER)) == keys(store.search(USER, query="n")) == ["k"]
    assert store.list_namespaces() == [USER]


def test_a_store_is_opened_by_its_path_and_closed_with_it(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "items.db"
    with EngramStore(path) as store:
        store.setup()
        store.put(USER, "k", {"n": 1})
    with EngramStore(os.fspath(path)) as store:
        assert found(store, USER, "k").value == {"n": 1}
    eng = Engram(os.fspath(path))
    with EngramStore(eng):
        pass
    assert eng.workspace("langgraph").memories.list()
    eng.close()


def test_without_an_argument_it_is_the_users_own_store() -> None:
    with EngramStore() as store:
        store.put(USER, "k", {"n": 1})
    with Engram() as eng:
        assert [memory.kind for memory in eng.workspace("langgraph").memories.list()] == [KIND]


def test_async_calls_do_the_same(open_store: Open) -> None:
    async def run() -> None:
        async with EngramStore(open_store()) as store:
            await store.aput(USER, "a", {"text": "likes tea"}, ttl=5)
            await asyncio.gather(*(store.aput(USER, str(number), {"n": number}) for number in range(4)))
            item = await store.aget(USER, "a")
            assert item is not None and item.value == {"text": "likes tea"}
            assert keys(await store.asearch(USER, query="which drink?", limit=1)) == ["a"]
            assert keys(await store.asearch(USER, filter={"n": {"$gt": 2}})) == ["3"]
            assert await store.alist_namespaces(prefix=("users",)) == [USER]
            await store.adelete(USER, "a")
            assert await store.aget(USER, "a") is None
            results = await store.abatch(iter([GetOp(USER, "1"), PutOp(USER, "1", None)]))
            assert isinstance(results[0], Item) and results[1] is None
            assert await store.aget(USER, "1") is None

    asyncio.run(run())


class State(TypedDict):
    said: str
    answer: str


class Who(TypedDict):
    user_id: str


def _remember(state: State, runtime: Runtime[Who]) -> State:
    """Keep what the user said, under the user's own namespace."""
    assert runtime.store is not None
    namespace = ("memories", runtime.context["user_id"])
    if state["said"].startswith("remember: "):
        said = state["said"].removeprefix("remember: ")
        runtime.store.put(namespace, f"memory-{len(runtime.store.search(namespace))}", {"data": said})
    return state


def _answer(state: State, runtime: Runtime[Who]) -> State:
    assert runtime.store is not None
    known = runtime.store.search(("memories", runtime.context["user_id"]), query=state["said"], limit=1)
    return {"said": state["said"], "answer": " ".join(item.value["data"] for item in known)}


async def _remember_async(state: State, runtime: Runtime[Who]) -> State:
    assert runtime.store is not None
    if state["said"].startswith("remember: "):
        said = state["said"].removeprefix("remember: ")
        await runtime.store.aput(("memories", runtime.context["user_id"]), said, {"data": said})
    return state


def test_a_graph_remembers_across_its_runs(open_store: Open) -> None:
    builder = StateGraph(State, context_schema=Who)
    builder.add_node("remember", _remember)
    builder.add_node("answer", _answer)
    builder.add_edge(START, "remember")
    builder.add_edge("remember", "answer")
    builder.add_edge("answer", END)

    # LangGraph's own example has `store = InMemoryStore()` here.
    store = EngramStore(open_store())
    graph = builder.compile(store=store)

    def say(user: str, said: str) -> str:
        return str(graph.invoke({"said": said, "answer": ""}, context={"user_id": user})["answer"])

    say("1", "remember: the name is Bob")
    say("1", "remember: the flight to Lisbon is on Tuesday")
    say("2", "remember: the name is Alice")
    assert say("1", "what is my name?") == "the name is Bob"
    assert say("2", "what is my name?") == "the name is Alice"
    # Another process, another graph, the same memory.
    graph = builder.compile(store=EngramStore(open_store()))
    assert say("1", "when do I fly?") == "the flight to Lisbon is on Tuesday"
    assert say("3", "what is my name?") == ""


def test_an_async_graph_uses_it_too(open_store: Open) -> None:
    builder = StateGraph(State, context_schema=Who)
    builder.add_node("remember", _remember_async)
    builder.add_edge(START, "remember")
    builder.add_edge("remember", END)
    store = EngramStore(open_store(embedder="none"))
    graph = builder.compile(store=store)

    async def run() -> None:
        await asyncio.gather(
            *(
                graph.ainvoke({"said": f"remember: {number}", "answer": ""}, context={"user_id": "1"})
                for number in range(3)
            )
        )

    asyncio.run(run())
    assert sorted(keys(store.search(("memories", "1")))) == ["0", "1", "2"]


def test_without_langgraph_the_import_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "engram.compat.langgraph")
    monkeypatch.setitem(sys.modules, "langgraph.store.base", None)
    with pytest.raises(MissingExtra, match=r"pip install 'engram-agents\[langgraph\]'"):
        importlib.import_module("engram.compat.langgraph")


def test_wrong_arguments_are_refused(store: EngramStore, eng: Engram) -> None:
    wrong: list[Callable[[], object]] = [
        lambda: store.put(USER, "k", {"a": "b"}, index=cast("Any", [5])),
        lambda: store.batch([PutOp(USER, cast("Any", 5), {"a": "b"})]),
        lambda: store.put(USER, "k", cast("Any", [1])),
        lambda: store.search(USER, limit=-1),
        lambda: store.list_namespaces(limit=-1),
        lambda: store.list_namespaces(offset=-1),
        lambda: EngramStore(eng, index=cast("Any", {"fields": [5]})),
        lambda: EngramStore(cast("Any", 5)),
    ]
    for call in wrong:
        with pytest.raises(InvalidInput):
            call()
    assert store.search(()) == []
