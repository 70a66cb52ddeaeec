from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests._replication import Pair

_STORES = itertools.count(1)


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """A primary and a standby. A test leaves both running, in whichever roles."""
    made = Pair()
    yield made
    made.end()


@pytest.fixture
def schema() -> str:
    """The name of a store that does not exist yet."""
    return f"store_{next(_STORES)}"


@pytest.fixture
def url(pair: Pair, schema: str) -> str:
    """A new store on both servers."""
    return f"{pair.url}?schema={schema}"
