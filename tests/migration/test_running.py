"""A process that runs while a newer Engram migrates its store, on PostgreSQL."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from engram import Clock, Engram, SchemaTooNew, StoreBusy
from engram.config import load
from engram.storage import migrate
from engram.store_url import split_schema

NEWEST = migrate.shipped("postgres")[-1].number
RECORD = "INSERT INTO {} (number, name, hash, works_with, applied_at) VALUES (%s, 'more', '', %s, '')"
WAITING = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = %s::regclass"


class Later:
    """A later Engram that migrates the store, up to its commit."""

    def __init__(self, connection: psycopg.Connection, schema: str) -> None:
        self._connection = connection
        self._name = f"{schema}.migrations"
        self._table = Identifier(schema, "migrations")

    def lock(self) -> None:
        self._connection.execute(SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(self._table))

    def record(self, number: int, works_with: int) -> None:
        self._connection.execute(SQL(RECORD).format(self._table), (number, works_with))

    def wait_for_somebody_who_waits(self) -> None:
        deadline = time.monotonic() + 60
        while self._connection.execute(WAITING, (self._name,)).fetchone() is None:
            assert time.monotonic() < deadline, "nobody waits for the migration"
            time.sleep(0.01)


@contextmanager
def migrating(direct_server: str, url: str) -> Iterator[Later]:
    with psycopg.connect(direct_server) as connection:
        yield Later(connection, split_schema(url)[1])


@pytest.mark.requirement("MIGRATE-8")
def test_every_call_is_refused_once_a_newer_engram_has_changed_the_schema_beyond_this_one(
    postgres_url: str, direct_server: str
) -> None:
    with Engram(postgres_url) as eng:
        sid = eng.sessions.register("codex", "Working")
        with migrating(direct_server, postgres_url) as later:
            later.record(NEWEST + 1, NEWEST + 1)
            later.record(NEWEST + 2, NEWEST)
        for _ in range(2):
            for attempt in (eng.sitrep, lambda: eng.sessions.log(sid, "late"), lambda: eng.recall("anything")):
                with pytest.raises(SchemaTooNew) as refused:
                    attempt()
        message = str(refused.value)
        assert f"schema {NEWEST + 1} " in message and f"up to {NEWEST}" in message
        assert "restart" in message and "\n" not in message


@pytest.mark.requirement("MIGRATE-8")
def test_a_process_goes_on_after_a_migration_that_it_can_live_with(postgres_url: str, direct_server: str) -> None:
    with Engram(postgres_url) as eng:
        sid = eng.sessions.register("codex", "Working")
        with migrating(direct_server, postgres_url) as later:
            later.record(NEWEST + 1, NEWEST)
        eng.sessions.log(sid, "still here")
        assert [entry.content for entry in eng.sessions.logs(sid)] == ["still here"]


@pytest.mark.requirement("MIGRATE-8")
@pytest.mark.parametrize("what", ["read", "write"])
def test_a_transaction_that_begins_during_a_migration_waits_and_is_then_refused(
    postgres_url: str, direct_server: str, what: str
) -> None:
    with Engram(postgres_url) as eng, ThreadPoolExecutor(1) as pool:
        sid = eng.sessions.register("codex", "Working")
        calls = {"read": lambda: eng.sessions.logs(sid), "write": lambda: eng.sessions.log(sid, "late")}
        with migrating(direct_server, postgres_url) as later:
            later.lock()
            waiting = pool.submit(calls[what])
            later.wait_for_somebody_who_waits()
            later.record(NEWEST + 1, NEWEST + 1)
        with pytest.raises(SchemaTooNew):
            waiting.result(60)


@pytest.mark.requirement("MIGRATE-8")
@pytest.mark.parametrize("what", ["read", "write"])
def test_a_migration_waits_for_the_transactions_that_are_under_way(
    postgres_url: str, direct_server: str, tmp_path: Path, what: str
) -> None:
    schema = split_schema(postgres_url)[1]
    folder = tmp_path / "sql"
    shutil.copytree(migrate._FOLDER, folder)
    # It touches no table that a transaction could have locked.
    (folder / "postgres" / f"{NEWEST + 1:04d}_more.sql").write_text("CREATE TABLE more (id BIGINT);\n")

    def migrate_it() -> None:
        with psycopg.connect(direct_server, autocommit=True) as connection:
            connection.execute(SQL("SET search_path TO {}").format(Identifier(schema)))
            migrate.postgres(connection, schema, postgres_url, Clock(), str(folder))

    with Engram(postgres_url) as eng, ThreadPoolExecutor(1) as pool:
        engine = eng._view.engine
        with engine.read() if what == "read" else engine.write() as tx:
            tx.now()
            migration = pool.submit(migrate_it)
            with migrating(direct_server, postgres_url) as other:
                other.wait_for_somebody_who_waits()
            assert not migration.done()
        migration.result(60)
        with pytest.raises(SchemaTooNew):
            eng.sitrep()


@pytest.mark.requirement("MIGRATE-8", "STORE-11")
def test_a_process_waits_for_a_migration_no_longer_than_for_other_writers(
    postgres_url: str, direct_server: str
) -> None:
    with Engram(settings=load(url=postgres_url, busy_timeout=0.1)) as eng:
        eng.world.set("before")
        with migrating(direct_server, postgres_url) as later:
            later.lock()
            with pytest.raises(StoreBusy):
                eng.world.get()
        assert eng.world.get() == "before"
