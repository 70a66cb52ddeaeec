"""Empty stores beside the test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engram import Engram
from tests._rich import add_work, fill
from tests._schemas import Schemas, url


@pytest.fixture
def rich(eng: Engram, store_url: str) -> Engram:
    """The test's store, with rows in every table."""
    fill(eng, store_url)
    add_work(store_url)
    return eng


@pytest.fixture
def empty_store(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[str], str]]:
    """Makes the address of one more empty store on an engine."""
    taken: list[str] = []

    def make(engine: str) -> str:
        if engine == "sqlite":
            taken.append("")
            return str(tmp_path / f"other-{len(taken)}" / "engram.db")
        schemas: Schemas = request.getfixturevalue("postgres_schemas")
        taken.append(schemas.take())
        return url(request.getfixturevalue("postgres_server"), taken[-1])

    yield make
    for name in filter(None, taken):
        request.getfixturevalue("postgres_schemas").give_back(name)


@pytest.fixture
def empty(store_url: str, empty_store: Callable[[str], str]) -> str:
    """Another empty store on the engine of the test's own."""
    return empty_store("postgres" if store_url.startswith("postgresql:") else "sqlite")
