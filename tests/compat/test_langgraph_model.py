"""Any order of calls on the store gives what LangGraph's own InMemoryStore gives.

Its store and Engram's differ in three ways, on purpose. InMemoryStore lists a namespace whose items are gone, or that
was only read. It lists items in the order in which they came, as nothing in the interface promises. And a filter that
compares what has no order raises an error there, and fits nothing here.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from engram import Engram
from engram.compat.langgraph import EngramStore

Open = Callable[..., Engram]

LABELS = st.sampled_from(["foo", "foobar", "fo", "ü", "*", "a b"])
NAMESPACES = st.lists(LABELS, min_size=1, max_size=3).map(tuple)
PREFIXES = st.lists(LABELS, max_size=2).map(tuple)
KEYS = st.sampled_from(["k", "K", "", "k" * 300, "ключ"])
FIELDS = st.sampled_from(["n", "text", "who", "ü"])
PLAIN = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-3, 3) | st.text(max_size=5) | st.just(10**30)
JSON = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(FIELDS, inner, max_size=2))
VALUES = st.dictionaries(FIELDS, JSON, max_size=3)
SIGNS = st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"])
WANTED = JSON | st.dictionaries(SIGNS, st.integers(-3, 3) | st.sampled_from(["2", "text"]), min_size=1, max_size=2)
FILTERS = st.none() | st.dictionaries(FIELDS, WANTED, max_size=2)
MATCHES = st.sampled_from(["prefix", "suffix"])
CONDITIONS = st.builds(MatchCondition, MATCHES, NAMESPACES)

PUTS = st.builds(PutOp, NAMESPACES, KEYS, VALUES, st.sampled_from([None, False, ["text"], []]), ttl=st.none())
DELETES = st.builds(PutOp, NAMESPACES, KEYS, st.none(), st.none(), st.none())
GETS = st.builds(GetOp, NAMESPACES, KEYS)
SEARCHES = st.builds(SearchOp, PREFIXES, FILTERS, st.integers(0, 4) | st.just(50), st.integers(0, 3), st.none())
LISTS = st.builds(
    ListNamespacesOp,
    st.lists(CONDITIONS, max_size=2).map(tuple),
    st.none() | st.integers(0, 3),
    st.integers(0, 4) | st.just(100),
    st.integers(0, 2),
)
BATCHES = st.lists(PUTS | PUTS | PUTS | DELETES | GETS | SEARCHES | LISTS, min_size=2, max_size=8)

numbers = itertools.count()


def fingerprint(item: Item) -> tuple[tuple[str, ...], str, str]:
    """An item without its times. JSON keeps 1, 1.0 and True apart."""
    return item.namespace, item.key, json.dumps(item.value, sort_keys=True)


def counted(items: Iterable[Any]) -> Counter[Any]:
    return Counter(map(fingerprint, items))


def fitting(store: InMemoryStore, op: SearchOp) -> Counter[Any] | None:
    """All items that fit a search; None when the filter compares what has no order."""
    try:
        (found,) = store.batch([op._replace(limit=1_000, offset=0)])
    except (TypeError, ValueError, OverflowError):
        return None
    assert isinstance(found, list)
    return counted(found)


def without_empty_namespaces(store: InMemoryStore) -> InMemoryStore:
    for namespace in [namespace for namespace, items in store._data.items() if not items]:
        del store._data[namespace]
    return store


def same(ours: BaseStore, theirs: InMemoryStore, ops: list[Op]) -> None:
    """A batch gives the same results in both stores, and leaves the same behind."""
    expected: list[Any] = []
    for op in ops:
        if isinstance(op, PutOp):
            expected.append(None)
        elif isinstance(op, SearchOp):
            expected.append(fitting(theirs, op))
        else:
            expected += without_empty_namespaces(theirs).batch([op])
    for op, result, wanted in zip(ops, ours.batch(ops), expected, strict=True):
        if isinstance(op, GetOp):
            assert (result is None) == (wanted is None)
            assert wanted is None or (isinstance(result, Item) and fingerprint(result) == fingerprint(wanted))
        elif isinstance(op, SearchOp):
            assert isinstance(result, list)
            if wanted is not None:
                found = counted(result)
                assert found <= wanted
                assert found.total() == len(result) == max(0, min(op.limit, wanted.total() - op.offset))
        else:
            assert result == wanted
    theirs.batch([op for op in ops if isinstance(op, PutOp)])
    everything = ours.search((), limit=1_000)
    assert counted(everything) == counted(theirs.search((), limit=1_000))
    pages = [ours.search((), limit=3, offset=offset) for offset in range(0, len(everything) + 1, 3)]
    assert [item for page in pages for item in page] == everything


def test_any_order_of_calls_gives_the_same_answers(open_store: Open, store_url: str) -> None:
    eng = open_store(embedder="none")

    @settings(max_examples=10 if store_url.startswith("postgresql") else 50)
    @given(st.lists(BATCHES, min_size=1, max_size=5))
    def run(batches: list[list[Op]]) -> None:
        ours, theirs = EngramStore(eng, workspace=f"example{next(numbers)}"), InMemoryStore()
        for ops in batches:
            same(ours, theirs, ops)

    run()
