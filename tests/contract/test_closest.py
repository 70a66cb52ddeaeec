"""Which vectors are closest: on a PostgreSQL with pgvector the server says, elsewhere each process by itself."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any, LiteralString
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from engram import Engram, Hit
from engram.config import load
from engram.memory import embedding_models
from engram.storage import pgvector
from engram.storage.engine import Row, Transaction
from engram.storage.postgres import PostgresEngine
from engram.storage.postgres_transaction import PostgresTransaction
from tests.conftest import ShiftedClock

WORDS = [
    *("apple", "bridge", "castle", "desert", "engine", "forest", "garden", "harbour", "island", "jungle"),
    *("kitchen", "ladder", "mountain", "notebook", "ocean", "painter", "quarry", "river", "school", "temple"),
    *("umbrella", "village", "window", "yacht", "zebra", "doctor", "farmer", "lawyer", "teacher", "pilot"),
    *("invoice", "salary", "budget", "compiler", "database", "network", "server", "keyboard", "puppy", "kitten"),
    *("horse", "rabbit", "winter", "summer", "thunder", "coffee", "bread", "cheese", "violin"),
]


#: A database and a role of this process's own; others may be at work on the same server.
OWN = f"engram_closest_{os.getpid()}"


@pytest.fixture
def url(postgres_url: str) -> str:
    """A store on a server that can compare vectors."""
    with open_store(postgres_url) as eng:
        if engine(eng)._vectors is None:
            pytest.skip("this server has no pgvector of 0.8 or later")
    return postgres_url


@pytest.fixture
def database(postgres_server: str) -> Iterator[str]:
    """The URL of an empty store in a database of its own."""
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(SQL("CREATE DATABASE {}").format(Identifier(OWN)))
    yield urlunsplit(urlsplit(postgres_server)._replace(path=f"/{OWN}"))
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(OWN)))


def open_store(url: str, **settings: Any) -> Engram:
    return Engram(settings=load(url=url, **{"embedder": "static", **settings}), clock=ShiftedClock())


def engine(eng: Engram) -> PostgresEngine:
    found = eng._view.engine
    assert isinstance(found, PostgresEngine)
    return found


def by_itself(url: str) -> Engram:
    """A process that compares by itself, as on a server without pgvector."""
    eng = open_store(url)
    engine(eng)._vectors = None
    return eng


def fill(eng: Engram, count: int, session: str = "s", seed: int = 1) -> None:
    chance = random.Random(seed)
    eng.sessions.ensure(session)
    eng.exchanges.add_many(
        {"session_id": session, "role": "user", "content": " ".join(chance.choices(WORDS, k=6))} for _ in range(count)
    )


def found(hits: list[Hit]) -> list[tuple[int | None, int | None]]:
    return [(hit.exchange_id, hit.memory_id) for hit in hits]


def rows(eng: Engram, statement: str) -> list[tuple[Any, ...]]:
    with eng._view.engine.read() as tx:
        return tx.all(statement)


def indexes(eng: Engram) -> list[str]:
    return [name for (name,) in rows(eng, "SELECT indexname FROM pg_indexes WHERE indexdef ~ 'hnsw' ORDER BY 1")]


def nearest(tx: Transaction, model: str, shelves: list[str], most: int, verb: LiteralString = "") -> list[Row]:
    """What the index itself finds, or how."""
    assert isinstance(tx, PostgresTransaction)
    tx.connection.execute(pgvector._SEARCH_SETTINGS, {"scanned": "100000", "at_once": "400"})
    statement = SQL(verb) + pgvector._fill_in(pgvector._NEAREST, "default", model, 256)
    values = {"query": str([1.0] * 256), "shelves": shelves, "most": most}
    return tx.connection.execute(statement, values).fetchall()


def lost(eng: Engram) -> int:
    """Vectors that the server does not compare, or compares though they are gone."""
    statement = """
    SELECT COUNT(*) FROM vectors v FULL JOIN closeness c ON c.item = v.item AND c.model = v.model
    LEFT JOIN items i ON i.id = v.item
    WHERE v.item IS NULL OR c.item IS NULL OR i.shelf <> c.shelf OR i.workspace <> c.workspace
    """
    count: int = rows(eng, statement)[0][0]
    return count


@pytest.mark.requirement("VECTORS-1")
@pytest.mark.parametrize("mode", ["vectors", "hybrid"])
def test_the_server_finds_what_a_process_finds_by_itself(url: str, mode: str) -> None:
    with open_store(url) as eng, by_itself(url) as other:
        fill(eng, 500)
        fill(eng.workspace("another"), 50)
        for seed in range(10):
            query = " ".join(random.Random(seed).choices(WORDS, k=4))
            ours, theirs = eng.recall(query, 10, mode=mode), other.recall(query, 10, mode=mode)
            assert found(ours) == found(theirs)
            assert [hit.score for hit in ours] == pytest.approx([hit.score for hit in theirs], abs=1e-4)


@pytest.mark.requirement("VECTORS-1")
def test_what_the_server_compares_follows_every_write(url: str) -> None:
    with open_store(url) as eng:
        fill(eng, 20)
        edited, archived = eng.remember("Old news"), eng.remember("Cats chase mice")
        eng.memories.update(edited.id, "Taxes rise again")
        eng.memories.archive(archived.id)
        eng.backlog.work()
        assert (lost(eng), len(rows(eng, "SELECT item FROM closeness"))) == (0, 22)
        with pytest.raises(ZeroDivisionError), eng.write():
            eng.remember("Never said")
            assert found(eng.recall("nothing was uttered", 1, kinds=["note"], mode="vectors")) != []
            raise ZeroDivisionError
        assert (lost(eng), len(rows(eng, "SELECT item FROM closeness"))) == (0, 22)


@pytest.mark.requirement("VECTORS-1")
def test_a_piece_without_meaning_is_close_to_nothing(url: str) -> None:
    with open_store(url) as eng, by_itself(url) as other:
        fill(eng, 5)
        eng.exchanges.add("s", "user", "kitten" + " " * 3_000 + "river")
        assert lost(eng) > 0
        ours, theirs = (store.recall("puppy", 10, mode="vectors") for store in (eng, other))
        assert found(ours) == found(theirs) != []
        assert [hit.score for hit in ours] == pytest.approx([hit.score for hit in theirs], abs=1e-4)


@pytest.mark.requirement("VECTORS-2")
def test_a_large_workspace_gets_an_index_which_finds_almost_all_of_the_closest(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(url) as eng, by_itself(url) as other:
        fill(eng, 3_000)
        fill(eng.workspace("another"), 500, "elsewhere", seed=2)
        for number in range(5):
            eng.remember(f"The puppy sleeps for {number} hours")
        assert indexes(eng) == []
        monkeypatch.setattr(embedding_models, "EXACT_BELOW", 1_000)
        monkeypatch.setattr("engram.memory.vectors.EXACT_BELOW", 1_000)
        embedding_models.keep_indexed(eng._view.engine, "default")
        embedding_models.keep_indexed(eng._view.engine, "another")
        assert len(indexes(eng)) == 1
        hits = 0
        for seed in range(20):
            query = " ".join(random.Random(seed).choices(WORDS, k=4))
            ours, theirs = (store.recall(query, 10, mode="vectors") for store in (eng, other))
            hits += len(set(found(ours)) & set(found(theirs)))
            assert [hit.score for hit in ours] == pytest.approx([hit.score for hit in theirs], abs=0.1)
        assert hits >= 190
        # Few of so many lie on the shelf of memories; the index goes on until it has them.
        ((model,),) = rows(eng, "SELECT DISTINCT model FROM models")
        with engine(eng).read() as tx:
            asked = tx.closest("default", model, [1.0] * 256, ["memories"], 5, 3_000)
            assert asked is not None
            few = asked()
            rare = nearest(tx, model, ["memories"], 5)
        assert sorted(item for item, _ in few.items) == sorted(item for item, *_ in rare)
        assert len(rare) == 5


@pytest.mark.requirement("VECTORS-2")
def test_the_index_is_what_answers(url: str) -> None:
    with open_store(url) as eng:
        fill(eng, 3_000)
        ((model,),) = rows(eng, "SELECT model FROM models")
        engine(eng).index_vectors("default", [model])
        with engine(eng).read() as tx:
            plan = "\n".join(line for (line,) in nearest(tx, model, ["turns"], 200, "EXPLAIN "))
        assert indexes(eng)[0] in plan


@pytest.mark.requirement("VECTORS-2")
def test_the_backlog_s_worker_builds_the_index(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding_models, "EXACT_BELOW", 30)
    with open_store(url) as eng, open_store(url, embedder="none") as plain:
        fill(plain, 20)
        eng.backlog.work()
        assert indexes(eng) == []
        fill(plain, 20)
        eng.backlog.work()
        assert len(indexes(eng)) == 1


@pytest.mark.requirement("VECTORS-2", "REINDEX-1")
def test_reindexing_leaves_an_index_of_the_new_model_alone(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding_models, "EXACT_BELOW", 30)
    with open_store(url) as eng:
        fill(eng, 40)
        eng.reindex()
        before = indexes(eng)
        eng.reindex("minilm")
        assert (len(before), len(indexes(eng))) == (1, 1)
        assert before != indexes(eng)
        assert lost(eng) == 0


@pytest.mark.requirement("VECTORS-2")
def test_an_index_whose_builder_died_is_built_anew(url: str) -> None:
    with open_store(url) as eng:
        fill(eng, 40)
        ((model,),) = rows(eng, "SELECT model FROM models")
        engine(eng).index_vectors("default", [model])
        (name,) = indexes(eng)
        with engine(eng).write() as tx:
            tx.run("UPDATE pg_index SET indisvalid = false WHERE indexrelid = to_regclass(:name)", name=name)
        query = [1.0] * 256
        with engine(eng).read() as tx:
            whole = tx.closest("default", model, query, ["turns"], 5, None)
            indexed = tx.closest("default", model, query, ["turns"], 5, 40)
            assert whole is not None and indexed is not None
            assert indexed() == whole()
        engine(eng).index_vectors("default", [model])
        assert rows(eng, "SELECT COUNT(*) FROM pg_index WHERE NOT indisvalid") == [(0,)]
        assert indexes(eng) == [name]


@pytest.mark.requirement("VECTORS-3")
def test_a_store_on_a_server_without_pgvector_works_and_is_caught_up_when_it_gets_it(
    database: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patch, caplog.at_level("INFO", "engram"):
        patch.setattr(pgvector, "_OLDEST", (99, 0))
        early = open_store(database)
    assert "this process compares vectors" in caplog.text
    with early:
        fill(early, 20)
        assert len(early.recall("puppy", 5, mode="vectors")) == 5
        assert rows(early, "SELECT COUNT(*) FROM pg_extension WHERE extname = 'vector'") == [(0,)]
        with open_store(database) as late:
            if engine(late)._vectors is None:
                pytest.skip("this server has no pgvector of 0.8 or later")
            # Also what a process writes that opened the store before.
            fill(early, 20, seed=3)
            assert (lost(late), len(rows(late, "SELECT item FROM closeness"))) == (0, 40)
            assert found(late.recall("puppy", 5, mode="vectors")) == found(early.recall("puppy", 5, mode="vectors"))


@pytest.mark.requirement("VECTORS-3")
@pytest.mark.parametrize("oldest", [(0, 8), (99, 0)], ids=["it comes back", "it stays away"])
def test_a_store_whose_server_lost_pgvector_goes_on(
    database: str, monkeypatch: pytest.MonkeyPatch, oldest: tuple[int, int]
) -> None:
    with open_store(database) as eng:
        if engine(eng)._vectors is None:
            pytest.skip("this server has no pgvector of 0.8 or later")
        fill(eng, 20)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("DROP EXTENSION vector CASCADE")
    with monkeypatch.context() as patch:
        patch.setattr(pgvector, "_OLDEST", oldest)
        eng = open_store(database)
    with eng:
        fill(eng, 20)
        assert len(eng.recall("puppy", 5, mode="vectors")) == 5
    with open_store(database) as eng:
        assert lost(eng) == 0


@pytest.fixture
def guest(database: str, direct_server: str) -> Iterator[str]:
    """The store of `database` as a role sees it that may create nothing but schemas."""
    # Not through a pooler, which refuses to pass on the role.
    direct = urlunsplit(urlsplit(direct_server)._replace(path=f"/{OWN}"))
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(SQL("CREATE ROLE {}").format(Identifier(OWN)))
        connection.execute(SQL("GRANT CREATE ON DATABASE {} TO {}").format(Identifier(OWN), Identifier(OWN)))
        connection.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    yield f"{direct}{'&' if '?' in direct else '?'}options=-crole%3D{OWN}"
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(SQL("DROP OWNED BY {} CASCADE").format(Identifier(OWN)))
        connection.execute(SQL("DROP ROLE {}").format(Identifier(OWN)))


@pytest.mark.requirement("VECTORS-3")
def test_a_role_that_may_not_create_the_extension_can_use_a_store(guest: str) -> None:
    with open_store(guest) as eng:
        assert engine(eng)._vectors is None
        fill(eng, 20)
        assert len(eng.recall("puppy", 5, mode="vectors")) == 5


@pytest.mark.requirement("VECTORS-3")
def test_a_role_without_rights_on_the_extra_table_writes_into_it_all_the_same(
    database: str, guest: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with open_store(database) as owner:
        if engine(owner)._vectors is None:
            pytest.skip("this server has no pgvector of 0.8 or later")
        with psycopg.connect(database, autocommit=True) as connection:
            for statement in (
                SQL("GRANT USAGE ON SCHEMA engram TO {}"),
                SQL("GRANT ALL ON ALL TABLES IN SCHEMA engram TO {}"),
                SQL("REVOKE ALL ON engram.closeness FROM {}"),
            ):
                connection.execute(statement.format(Identifier(OWN)))
        with open_store(guest) as eng:
            fill(eng, 20)
            assert len(eng.recall("puppy", 5, mode="vectors")) == 5
        assert (lost(owner), len(rows(owner, "SELECT item FROM closeness"))) == (0, 20)
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(SQL("GRANT SELECT ON engram.closeness TO {}").format(Identifier(OWN)))
        monkeypatch.setattr(embedding_models, "EXACT_BELOW", 10)
        with open_store(guest) as eng:
            assert engine(eng)._vectors is not None
            eng.reindex()
            assert len(eng.recall("puppy", 5, mode="vectors")) == 5
        assert "must be owner" in caplog.text
