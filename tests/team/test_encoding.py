"""A store in a database that does not hold every text."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from engram import Engram
from engram.errors import StoreError
from engram.storage import migrate
from tests.team.conftest import OWN, Database

TEXT = "Grüße, 日本, 🦉"


@pytest.fixture
def database(direct_server: str) -> Iterator[Database]:
    options = "TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'"
    made = Database(direct_server, f"{OWN}_ascii", options)
    yield made
    made.end()


@pytest.mark.requirement("TEAM-6")
def test_no_store_is_made_where_some_texts_cannot_be_stored(database: Database) -> None:
    with pytest.raises(StoreError, match=r"SQL_ASCII.*createdb -E UTF8"):
        Engram(database.url)
    assert database.rows("SELECT 1 FROM pg_namespace WHERE nspname = 'engram'") == []


@pytest.mark.requirement("TEAM-6")
def test_a_store_that_an_earlier_release_has_made_there_works(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "_require_unicode", lambda *given: None)
    Engram(database.url).close()
    monkeypatch.undo()
    with Engram(database.url) as eng:
        eng.remember(TEXT)
        assert [hit.text for hit in eng.recall("Grüße", 1)] == [TEXT]


@pytest.mark.requirement("TEAM-6")
def test_the_encoding_of_the_environment_does_not_count(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "PGCLIENTENCODING", "LATIN1")
    with Engram(postgres_url) as eng:
        eng.remember(TEXT)
        assert [hit.text for hit in eng.recall("Grüße", 1)] == [TEXT]
