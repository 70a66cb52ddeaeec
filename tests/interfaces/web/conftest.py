"""A server of the pages, and a person who looks at them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engram import Engram
from tests.conftest import ShiftedClock
from tests.interfaces._server import Server, serving

from ._person import Person, person


@pytest.fixture
def server(sqlite_url: str, clock: ShiftedClock) -> Iterator[Server]:
    """On one engine: the store's own tests run on both."""
    with Engram(sqlite_url, clock=clock) as eng, serving(eng) as server:
        yield server


@pytest.fixture
def me(server: Server) -> Iterator[Person]:
    with person(server) as someone:
        yield someone
