"""Backups: a whole copy of every store with data, made before its schema changes."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import psycopg
import pytest

from engram import Clock, Engram
from engram.storage import backup
from tests.conftest import ShiftedClock
from tests.migration.test_migrate import ADD_COLOUR, ADD_SHAPE, FAILING, NEWEST, Extended, Store, extended, store

__all__ = ["extended", "store"]  # fixtures

TABLES = (
    "blocks",
    "block_versions",
    "changes",
    "exchanges",
    "leases",
    "messages",
    "deliveries",
    "migrations",
    "sessions",
)


def saved(store: Store, name: str) -> Store:
    """The backup of that name, to look into."""
    if not store.is_postgres:
        return Store(str(Path(store.url).with_name(name)))
    copy = Store(store.url)
    copy.schema = name
    return copy


def rows(store: Store) -> dict[str, list[tuple[object, ...]]]:
    return {table: sorted(store.all(f"SELECT * FROM {table}"), key=repr) for table in TABLES}


def use(url: str) -> None:
    """Something in every table that can have something."""
    with Engram(url) as eng:
        sid = eng.sessions.register("codex", "Working", {"key": "value"}, external_id="x")
        eng.sessions.log(sid, "ein Eintrag: \U0001f600")
        eng.leases.claim(sid, "port:8080", exclusive=True)
        eng.messages.send(None, sid, "hello")
        eng.workspace("other").world.set("elsewhere")
        eng.blocks.append("plan", " two")


@pytest.mark.requirement("MIGRATE-3")
def test_before_a_store_with_data_changes_the_whole_of_it_is_copied(store: Store, extended: Extended) -> None:
    use(store.url)
    before = rows(store)
    assert all(before.values())
    store.migrate(extended(ADD_COLOUR, ADD_SHAPE))
    (name,) = store.backups()
    assert f"before{'_' if store.is_postgres else '-'}{NEWEST + 1:04d}" in name
    assert rows(saved(store, name)) == before
    assert "colour" not in {column for column, _, _ in saved(store, name).columns()["blocks"]}
    assert store.all("SELECT colour FROM blocks") == [("grey",), ("grey",)]


@pytest.mark.requirement("MIGRATE-3")
def test_a_store_without_data_needs_no_backup(store_url: str, extended: Extended) -> None:
    Engram(store_url).close()
    store = Store(store_url)
    store.migrate(extended(ADD_COLOUR))
    assert store.applied()[-1] == NEWEST + 1
    assert store.backups() == []


@pytest.mark.requirement("MIGRATE-3")
def test_opening_a_store_that_is_up_to_date_makes_no_backup(store: Store) -> None:
    use(store.url)
    assert store.backups() == []


@pytest.mark.requirement("MIGRATE-3")
def test_each_upgrade_has_a_backup_of_its_own(store: Store, extended: Extended) -> None:
    store.migrate(extended(ADD_COLOUR))
    store.migrate(extended(ADD_COLOUR, ADD_SHAPE))
    first, second = store.backups()
    tables = [{column for column, _, _ in saved(store, name).columns()["blocks"]} for name in (first, second)]
    assert ["colour" in tables[0], "colour" in tables[1], "shape" in tables[1]] == [False, True, False]


@pytest.mark.requirement("MIGRATE-3", "MIGRATE-4")
def test_after_a_migration_that_failed_the_store_is_as_its_backup_says(store: Store, extended: Extended) -> None:
    use(store.url)
    before = rows(store)
    with pytest.raises((apsw.Error, psycopg.Error)):
        store.migrate(extended(FAILING))
    assert rows(store) == before
    assert all(rows(saved(store, name)) == before for name in store.backups())


@pytest.mark.requirement("MIGRATE-3")
def test_a_backup_file_is_for_its_owner_alone_and_whole_by_itself(sqlite_url: str, extended: Extended) -> None:
    with Engram(sqlite_url) as eng:
        eng.world.set("only in the write-ahead log so far")
        Store(sqlite_url).migrate(extended(f"-- works with: {NEWEST}\n{ADD_COLOUR}"))
        eng.world.set("later")
    (name,) = Store(sqlite_url).backups()
    file = Path(sqlite_url).with_name(name)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [other.name for other in file.parent.iterdir() if other.name.startswith(name)] == [name]
    moved = file.rename(file.with_name("restored.db"))
    with Engram(str(moved)) as restored:
        assert restored.world.get() == "only in the write-ahead log so far"
        restored.world.set("going on from the backup")
        assert restored.blocks.verify("world") == 2


@pytest.mark.requirement("MIGRATE-6")
def test_the_copy_just_made_stays_also_if_the_clock_was_ahead_when_others_were_made(
    store: Store, clock: ShiftedClock
) -> None:
    def copied() -> str:
        if not store.is_postgres:
            return os.path.basename(backup.sqlite(store.url, "before-0002", clock) or "")
        with psycopg.connect(store.address, autocommit=True) as connection:
            return backup.postgres(connection, store.schema, "before_0002", clock) or ""

    use(store.url)
    decade = 10 * 365 * 86_400.0
    clock.advance(decade)
    ahead = []
    for _ in range(backup.KEPT):
        clock.advance(60)
        ahead.append(copied())
    clock.advance(-decade)
    last = copied()
    assert sorted(store.backups()) == sorted([*ahead[1:], last])


@pytest.fixture
def long_schema(postgres_server: str) -> Iterator[Callable[[int], str]]:
    """URLs of stores whose schema has a name of that length."""
    made: list[str] = []

    def url(length: int) -> str:
        made.append("s" * length)
        return f"{postgres_server}{'&' if '?' in postgres_server else '?'}schema={made[-1]}"

    yield url
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        for (name,) in connection.execute("SELECT nspname FROM pg_namespace").fetchall():
            if name.startswith("ss"):
                connection.execute(f"DROP SCHEMA {name} CASCADE".encode())


@pytest.mark.requirement("MIGRATE-3")
@pytest.mark.parametrize("length", [30, 40])
def test_the_longest_schema_name_still_has_room_for_its_backups(long_schema: Callable[[int], str], length: int) -> None:
    url = long_schema(length)
    with Engram(url) as eng:
        eng.world.set("here")
    store = Store(url)
    with psycopg.connect(store.address, autocommit=True) as connection:
        names = [backup.postgres(connection, store.schema, "before_0002", Clock()) for _ in range(2)]
        found = [name for (name,) in connection.execute("SELECT nspname FROM pg_namespace").fetchall()]
    assert set(names) <= set(found)
    assert len(set(names)) == 2
