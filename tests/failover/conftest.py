from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests._replication import Pair

_STORES = itertools.count(1)


@pytest.fixture(scope="module")
def pairs() -> Iterator[list[Pair]]:
    """The pair that the tests share, once one has needed it."""
    made: list[Pair] = []
    yield made
    for each in made:
        each.end()


@pytest.fixture
def pair(pairs: list[Pair]) -> Pair:
    """A primary and a standby, in whichever order. If the test before left one dead, they are new ones."""
    if pairs and not pairs[-1].is_whole:
        pairs.pop().end()
    if not pairs:
        pairs.append(Pair())
    return pairs[-1]


@pytest.fixture
def schema() -> str:
    """The name of a store that does not exist yet."""
    return f"store_{next(_STORES)}"


@pytest.fixture
def url(pair: Pair, schema: str) -> str:
    """A new store on both servers."""
    return f"{pair.url}?schema={schema}"
