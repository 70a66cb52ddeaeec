"""PostgreSQL behind a real PgBouncer, in session and in transaction mode."""

from __future__ import annotations

import os
import random
import shutil
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from engram import Engram, InvalidURL, StoreBusy, StoreUnavailable
from engram.config import load
from engram.memory import embedding_models
from engram.storage import migrate, postgres
from engram.storage.postgres import PostgresEngine
from engram.store_url import split_schema
from tests._pooler import HOW_TO_INSTALL, Pooler, program
from tests.stress._processes import Crew, Parent

WORDS = [
    *("apple", "bridge", "castle", "desert", "engine", "forest", "garden"),
    *("harbour", "island", "jungle", "kitchen", "ladder", "mountain", "notebook"),
]


def open_store(url: str, **settings: Any) -> Engram:
    return Engram(settings=load(url=url, **{"embedder": "none", **settings}))


def engine(eng: Engram) -> PostgresEngine:
    found = eng._view.engine
    assert isinstance(found, PostgresEngine)
    return found


def rows(server: str, statement: str) -> list[tuple[Any, ...]]:
    """What a statement finds on the server itself."""
    with psycopg.connect(server, autocommit=True) as connection:
        return connection.execute(statement.encode()).fetchall()


def schema_of(url: str) -> str:
    return split_schema(url)[1]


def end_connections(server: str, name: str) -> int:
    """End the pooler's connections that last served clients of this name; how many there were."""
    ended = rows(
        server, f"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = '{name}'"
    )
    return len(ended)


@contextmanager
def all_taken(pooler: Pooler) -> Iterator[None]:
    """Every connection of a pool of two is another client's, in the middle of a transaction."""
    with ExitStack() as clients:
        for _ in range(2):
            client = clients.enter_context(psycopg.connect(pooler.url))
            client.execute("SELECT 1")
        yield


@pytest.mark.requirement("POOLER-1")
def test_two_stores_in_one_database_never_get_each_other_s_writes(
    pooler: Pooler, direct_server: str, schemas: Callable[[], str]
) -> None:
    names = [schemas(), schemas()]
    together = threading.Barrier(16, timeout=60)

    def work(eng: Engram, sid: str, schema: str, worker: int) -> list[str]:
        said = []
        together.wait()
        for number in range(12):
            text = f"{schema} {worker} {number}"
            eng.sessions.log(sid, text)
            eng.remember(f"memory {text}")
            assert [entry.content for entry in eng.sessions.logs(sid, limit=1)] == [text]
            said.append(text)
        return said

    with ExitStack() as stores, ThreadPoolExecutor(16) as pool:
        jobs: list[tuple[str, Future[list[str]]]] = []
        for schema in names:
            # Two processes' worth of connections for each store.
            for _ in range(2):
                eng = stores.enter_context(open_store(f"{pooler.url}&schema={schema}"))
                for _ in range(4):
                    sid = eng.sessions.register("codex", f"In {schema}")
                    jobs.append((schema, pool.submit(work, eng, sid, schema, len(jobs))))
        acknowledged = {
            schema: [text for owner, job in jobs if owner == schema for text in job.result()] for schema in names
        }
    for schema in names:
        logs = rows(direct_server, f"SELECT content FROM {schema}.exchanges")
        assert sorted(content for (content,) in logs) == sorted(acknowledged[schema])
        memories = rows(direct_server, f"SELECT content FROM {schema}.memories")
        assert sorted(content for (content,) in memories) == sorted(f"memory {text}" for text in acknowledged[schema])
        assert len(acknowledged[schema]) == 96


@pytest.mark.requirement("POOLER-2")
def test_a_transaction_brings_its_settings_along_and_leaves_none_behind(url: str, pooler: Pooler) -> None:
    names = ("search_path", "lock_timeout", "idle_in_transaction_session_timeout", "transaction_isolation")
    asked = ", ".join(f"current_setting('{name}')" for name in names)
    with psycopg.connect(pooler.url, autocommit=True) as client:
        usual = client.execute(f"SELECT {asked}".encode()).fetchall()
    with open_store(url, busy_timeout=7.0) as eng:
        path = f'"{schema_of(url)}", "public", pg_temp'
        for _ in range(3):
            with engine(eng).write() as tx:
                assert tx.one(f"SELECT {asked}") == (path, "7s", "1min", "read committed")
            with engine(eng).write(patient=False) as tx:
                assert tx.one(f"SELECT {asked}") == (path, "10ms", "1min", "read committed")
            with engine(eng).read() as tx:
                assert tx.one(f"SELECT {asked}") == (path, "7s", "1min", "repeatable read")
        engine(eng).index_vectors("default", ["no-such-model"])
    for _ in range(3):
        with psycopg.connect(pooler.url, autocommit=True) as client:
            assert client.execute(f"SELECT {asked}".encode()).fetchall() == usual


@pytest.mark.requirement("POOLER-2")
def test_what_other_programs_left_on_a_connection_changes_nothing(url: str, pooler: Pooler, direct_server: str) -> None:
    with open_store(url) as eng:
        sid = eng.sessions.register("codex", "Working")
    try:
        with ExitStack() as clients:
            for _ in range(2):
                client = clients.enter_context(psycopg.connect(pooler.url))
                client.execute("CREATE TEMP TABLE exchanges (id INT, content TEXT)")
                client.execute("CREATE TEMP TABLE sessions (id INT)")
                client.execute("SET default_transaction_isolation = 'serializable'")
                client.execute("SET search_path TO nowhere")
                client.execute("SET lock_timeout = 1")
        with open_store(url) as eng:
            eng.sessions.log(sid, "here")
            assert [entry.content for entry in eng.sessions.logs(sid)] == ["here"]
        assert rows(direct_server, f"SELECT content FROM {schema_of(url)}.exchanges") == [("here",)]
    finally:
        pooler.restart()


@pytest.mark.requirement("POOLER-3")
def test_statements_are_prepared_on_direct_connections_only(url: str, direct_server: str) -> None:
    def prepared(eng: Engram) -> int:
        sid = eng.sessions.register("codex", "Working")
        for number in range(20):
            eng.sessions.log(sid, str(number))
            eng.sessions.logs(sid)
        with engine(eng).read() as tx:
            row = tx.one("SELECT COUNT(*) FROM pg_prepared_statements WHERE name LIKE 'engram\\_%'")
        assert row is not None
        count: int = row[0]
        return count

    with open_store(url) as pooled:
        assert prepared(pooled) == 0
    direct = f"{direct_server}{'&' if '?' in direct_server else '?'}schema={schema_of(url)}"
    with open_store(direct) as eng:
        assert prepared(eng) > 0


@pytest.mark.requirement("POOLER-4")
def test_a_store_is_made_through_a_pooler_in_its_own_schema_alone(url: str, direct_server: str) -> None:
    with open_store(url):
        pass
    numbers = [migration.number for migration in migrate.shipped("postgres")]
    schema = schema_of(url)
    assert rows(direct_server, f"SELECT number FROM {schema}.migrations ORDER BY number") == [(n,) for n in numbers]
    elsewhere = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    assert rows(direct_server, elsewhere) == []


@pytest.mark.requirement("POOLER-4", "MIGRATE-3")
def test_a_store_with_data_is_migrated_through_a_pooler(url: str, direct_server: str, tmp_path: Path) -> None:
    with open_store(url) as eng:
        eng.blocks.create("plan", "one")
    folder = tmp_path / "sql"
    shutil.copytree(migrate._FOLDER, folder)
    newest = migrate.shipped("postgres")[-1].number
    (folder / "postgres" / f"{newest + 1:04d}_more.sql").write_text(
        "ALTER TABLE blocks ADD COLUMN colour TEXT;\nUPDATE blocks SET colour = 'grey';\n"
    )
    ours = migrate.postgres.__defaults__
    migrate.postgres.__defaults__ = migrate.without_change.__defaults__ = (str(folder),)
    try:
        with open_store(url) as eng:
            assert [block.content for block in eng.blocks.list()] == ["one"]
    finally:
        migrate.postgres.__defaults__ = migrate.without_change.__defaults__ = ours
    schema = schema_of(url)
    assert rows(direct_server, f"SELECT content, colour FROM {schema}.blocks") == [("one", "grey")]
    (backup,) = rows(direct_server, f"SELECT nspname FROM pg_namespace WHERE nspname LIKE '{schema}\\_before%'")
    assert rows(direct_server, f"SELECT content FROM {backup[0]}.blocks") == [("one",)]
    with psycopg.connect(direct_server, autocommit=True) as connection:
        connection.execute(SQL("DROP SCHEMA {} CASCADE").format(Identifier(backup[0])))


def open_and_register(parent: Parent, url: str) -> str:
    parent.tell("ready")
    parent.wait()
    with Engram(settings=load(url=url, embedder="none")) as eng:
        return eng.sessions.register("codex", "Working")


@pytest.mark.requirement("POOLER-4", "MIGRATE-1")
def test_processes_that_open_one_new_store_together_make_it_once(url: str, direct_server: str) -> None:
    crew = Crew()
    try:
        workers = [crew.start(open_and_register, url) for _ in range(3)]
        for worker in workers:
            worker.hear()
        for worker in workers:
            worker.call()
        sessions = [worker.result() for worker in workers]
    finally:
        crew.end()
    found = rows(direct_server, f"SELECT id FROM {schema_of(url)}.sessions")
    assert sorted(sid for (sid,) in found) == sorted(sessions)


@pytest.mark.requirement("POOLER-4", "VECTORS-2")
def test_recall_by_meaning_and_its_index_work_through_a_pooler(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(url, embedder="static") as eng, open_store(url, embedder="static") as other:
        if engine(eng)._vectors is None:
            pytest.skip("this server has no pgvector of 0.8 or later")
        engine(other)._vectors = None
        chance = random.Random(1)
        sid = eng.sessions.register("codex", "Working")
        eng.exchanges.add_many(
            {"session_id": sid, "role": "user", "content": " ".join(chance.choices(WORDS, k=5))} for _ in range(600)
        )
        exact = eng.recall("a boat in the port", 10, mode="vectors")
        assert [hit.exchange_id for hit in exact] == [
            hit.exchange_id for hit in other.recall("a boat in the port", 10, mode="vectors")
        ]
        monkeypatch.setattr(embedding_models, "EXACT_BELOW", 100)
        monkeypatch.setattr("engram.memory.vectors.EXACT_BELOW", 100)
        together = threading.Barrier(2, timeout=60)

        def build(store: Engram) -> None:
            together.wait()
            embedding_models.keep_indexed(store._view.engine, "default")

        with open_store(url, embedder="static") as third, ThreadPoolExecutor(2) as pool:
            list(pool.map(build, [eng, third]))
        embedding_models.keep_indexed(eng._view.engine, "default")
        with engine(eng).read() as tx:
            valid = tx.all(
                "SELECT i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
                " JOIN pg_am a ON a.oid = c.relam WHERE a.amname = 'hnsw' AND i.indrelid = 'closeness'::regclass"
            )
        assert valid == [(True,)]
        near = eng.recall("a boat in the port", 10, mode="vectors")
        assert len({hit.exchange_id for hit in near} & {hit.exchange_id for hit in exact}) >= 8
        advisory = "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND pid IN (SELECT pg_backend_pid())"
        with engine(eng).read() as tx:
            assert tx.one(advisory) == (0,)


@pytest.mark.requirement("POOLER-4", "VECTORS-2")
def test_an_index_that_another_process_builds_is_left_to_it(url: str, direct_server: str) -> None:
    with open_store(url, embedder="static") as eng:
        if engine(eng)._vectors is None:
            pytest.skip("this server has no pgvector of 0.8 or later")
        eng.remember("Deploys never happen on Fridays")
        with engine(eng).read() as tx:
            ((model,),) = tx.all("SELECT model FROM models")
        indexes = f"SELECT indexname FROM pg_indexes WHERE schemaname = '{schema_of(url)}' AND indexdef ~ 'hnsw'"
        with psycopg.connect(direct_server) as builder:
            builder.execute(f"LOCK TABLE {schema_of(url)}.closeness IN SHARE UPDATE EXCLUSIVE MODE".encode())
            engine(eng).index_vectors("default", [model])
            assert rows(direct_server, indexes) == []
        engine(eng).index_vectors("default", [model])
        assert len(rows(direct_server, indexes)) == 1


@pytest.mark.requirement("POOLER-5")
def test_a_store_goes_on_after_the_pooler_s_connections_were_killed(url: str, direct_server: str) -> None:
    name = schema_of(url)
    with open_store(f"{url}&application_name={name}") as eng:
        sid = eng.sessions.register("codex", "Working")
        for number in range(3):
            assert end_connections(direct_server, name) > 0
            eng.sessions.log(sid, str(number))
        assert [entry.content for entry in eng.sessions.logs(sid)] == ["2", "1", "0"]


@pytest.mark.requirement("POOLER-5")
def test_a_store_goes_on_after_the_pooler_was_restarted(url: str, pooler: Pooler) -> None:
    with open_store(url) as eng:
        sid = eng.sessions.register("codex", "Working")
        pooler.restart()
        eng.sessions.log(sid, "after")
        assert [entry.content for entry in eng.sessions.logs(sid)] == ["after"]


@pytest.mark.requirement("POOLER-5")
def test_a_connection_killed_inside_a_transaction_is_an_error_and_nothing_is_written(
    url: str, direct_server: str
) -> None:
    with open_store(url) as eng:
        sid = eng.sessions.register("codex", "Working")
        with pytest.raises(StoreUnavailable), eng.write():
            eng.sessions.log(sid, "lost")
            with engine(eng).write() as tx:
                ((pid,),) = tx.all("SELECT pg_backend_pid()")
            rows(direct_server, f"SELECT pg_terminate_backend({pid}, 10000)")
            eng.sessions.log(sid, "lost too")
        eng.sessions.log(sid, "kept")
        assert [entry.content for entry in eng.sessions.logs(sid)] == ["kept"]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.requirement("POOLER-5", "STORE-11")
def test_parent_and_child_go_on_writing_through_a_pooler_after_a_fork(url: str) -> None:
    with open_store(url) as eng:
        sid = eng.sessions.register("codex", "Working")
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                for number in range(20):
                    eng.sessions.log(sid, f"child {number}")
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        for number in range(20):
            eng.sessions.log(sid, f"parent {number}")
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert len(eng.sessions.logs(sid, limit=0)) == 40


@pytest.mark.requirement("POOLER-6")
def test_a_writer_behind_a_pooler_waits_for_others_no_longer_than_it_was_told(url: str, direct_server: str) -> None:
    with open_store(url, busy_timeout=0.2) as eng:
        sid = eng.sessions.register("codex", "Working")
        with psycopg.connect(direct_server) as other:
            other.execute(f"SELECT * FROM {schema_of(url)}.sessions FOR UPDATE".encode())
            with pytest.raises(StoreBusy):
                eng.sessions.log(sid, "too early")
        eng.sessions.log(sid, "in time")
        assert [entry.content for entry in eng.sessions.logs(sid)] == ["in time"]


@pytest.mark.requirement("POOLER-6")
def test_waiting_for_a_pooler_whose_connections_are_all_taken_ends(
    url: str, pooler: Pooler, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mode == "session":
        return  # Its pool is large, because each client keeps a connection.
    with open_store(url, busy_timeout=0.1) as eng:
        sid = eng.sessions.register("codex", "Working")
        with all_taken(pooler):
            monkeypatch.setattr(postgres, "_CONNECT_TIMEOUT", 0.2)
            with pytest.raises(StoreUnavailable, match="in time"):
                eng.sessions.log(sid, "too early")
        monkeypatch.undo()
        eng.sessions.log(sid, "in time")
        assert [entry.content for entry in eng.sessions.logs(sid)] == ["in time"]


@pytest.mark.requirement("POOLER-6", "STORE-2")
def test_a_parameter_that_the_pooler_refuses_is_named(url: str) -> None:
    with pytest.raises(InvalidURL, match=r"refuses a parameter .*options.*ALTER ROLE"):
        open_store(f"{url}&options=-c%20work_mem%3D8MB")


@pytest.mark.requirement("POOLER-6")
def test_a_pooler_without_transactions_is_refused_and_the_error_says_what_to_set(
    direct_server: str, schemas: Callable[[], str]
) -> None:
    if program() is None:
        pytest.skip(HOW_TO_INSTALL)
    pooler = Pooler(direct_server, "statement", 2)
    try:
        with pytest.raises(StoreUnavailable, match="pool_mode"):
            open_store(f"{pooler.url}&schema={schemas()}")
    finally:
        pooler.end()
