from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from tests._pooler import HOW_TO_INSTALL, Pooler, program

_SCHEMAS = itertools.count(1)


@pytest.fixture(scope="module", params=["session", "transaction"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def pooler(direct_server: str, mode: str) -> Iterator[Pooler]:
    """PgBouncer in each of the two modes. In transaction mode it has far fewer connections than clients."""
    if program() is None:
        pytest.skip(HOW_TO_INSTALL)
    made = Pooler(direct_server, mode, 2 if mode == "transaction" else 60)
    yield made
    made.end()


@pytest.fixture
def schemas(direct_server: str) -> Iterator[Callable[[], str]]:
    """Names for new stores, which are gone after the test."""
    made: list[str] = []

    def name() -> str:
        made.append(f"pooled_{os.getpid()}_{next(_SCHEMAS)}")
        return made[-1]

    yield name
    with psycopg.connect(direct_server, autocommit=True) as connection:
        for schema in made:
            connection.execute(SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(Identifier(schema)))


@pytest.fixture
def url(pooler: Pooler, schemas: Callable[[], str]) -> str:
    """A new, empty store behind the pooler."""
    return f"{pooler.url}&schema={schemas()}"
