"""Migrations: each once, whole or not at all, and never on a store that a later Engram has changed."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import LiteralString

import apsw
import psycopg
import pytest

from engram import Clock, Engram, MigrationChanged, SchemaTooNew
from engram.storage import migrate
from engram.storage.engine import Row

SHIPPED = Path(migrate._FOLDER)
NUMBERS = [one.number for one in migrate.shipped("sqlite")]
NEWEST = NUMBERS[-1]

ADD_COLOUR = "ALTER TABLE blocks ADD COLUMN colour TEXT;\nUPDATE blocks SET colour = 'grey';\n"
ADD_SHAPE = "ALTER TABLE blocks ADD COLUMN shape TEXT;\nUPDATE blocks SET shape = colour;\n"
FAILING = "CREATE TABLE half (id BIGINT);\nINSERT INTO half VALUES (1);\nINSERT INTO nowhere VALUES (1);\n"

Extended = Callable[..., Path]


@pytest.fixture
def extended(tmp_path: Path) -> Extended:
    """A copy of the shipped migrations with more after them, as a later Engram would ship."""
    made = 0

    def extend(*more: str) -> Path:
        nonlocal made
        made += 1
        folder = tmp_path / f"sql-{made}"
        shutil.copytree(SHIPPED, folder)
        for engine in ("sqlite", "postgres"):
            for number, sql in enumerate(more, NEWEST + 1):
                (folder / engine / f"{number:04d}_more.sql").write_text(sql)
        return folder

    return extend


class Store:
    """A store with a connection behind the library's back."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.is_postgres = url.startswith("postgresql://")
        # The tests' URLs end in their schema, which the driver does not know.
        address, _, self.schema = url.rpartition("schema=")
        self.address = address.rstrip("?&")

    def migrate(self, folder: Path) -> None:
        """Bring the store to the schema in the folder, as the Engram that ships it would on opening."""
        if self.is_postgres:
            with psycopg.connect(self.address, autocommit=True) as connection:
                connection.execute(f"SET search_path TO {self.schema}".encode())
                migrate.postgres(connection, self.schema, self.url, Clock(), str(folder))
            return
        file = apsw.Connection(self.url)
        try:
            migrate.sqlite(file, self.url, Clock(), str(folder))
        finally:
            file.close()

    def all(self, sql: LiteralString) -> list[Row]:
        if self.is_postgres:
            with psycopg.connect(self.address, autocommit=True) as connection:
                connection.execute(f"SET search_path TO {self.schema}".encode())
                cursor = connection.execute(sql)
                return cursor.fetchall() if cursor.description else []
        file = apsw.Connection(self.url)
        try:
            return file.execute(sql).fetchall()
        finally:
            file.close()

    def applied(self) -> list[int]:
        return [number for (number,) in self.all("SELECT number FROM migrations ORDER BY number")]

    def backups(self) -> list[str]:
        """The copies beside the store, by name: schemas, or files."""
        if self.is_postgres:
            names = [name for (name,) in self.all("SELECT nspname FROM pg_namespace ORDER BY nspname")]
            return [name for name in names if name.startswith(f"{self.schema}_before")]
        path = Path(self.url)
        return sorted(file.name for file in path.parent.iterdir() if file.name.startswith(f"{path.name}.before"))

    def columns(self) -> dict[str, list[tuple[str, str, bool]]]:
        """Each table's columns in order: name, type, and whether they must have a value."""
        tables: dict[str, list[tuple[str, str, bool]]] = {}
        if self.is_postgres:
            rows = self.all(
                "SELECT table_name, column_name, data_type, is_nullable = 'NO' FROM information_schema.columns"
                " WHERE table_schema = current_schema ORDER BY table_name, ordinal_position"
            )
        else:
            rows = self.all(
                'SELECT t.name, c.name, c.type, c."notnull" OR c.pk FROM sqlite_schema t, pragma_table_info(t.name) c'
                " WHERE t.type = 'table' AND t.name <> 'sqlite_sequence' ORDER BY t.name, c.cid"
            )
        for table, name, kind, required in rows:
            tables.setdefault(table, []).append((name, kind.upper(), bool(required)))
        return tables


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """A store of this version with something in it; the backups its migrations make go with it."""
    with Engram(store_url) as eng:
        eng.blocks.create("plan", "one")
    store = Store(store_url)
    yield store
    if store.is_postgres:
        for name in store.backups():
            store.all(f"DROP SCHEMA {name} CASCADE")


@pytest.mark.requirement("MIGRATE-1")
def test_every_migration_of_a_new_store_is_recorded_with_its_hash(store: Store) -> None:
    shipped = migrate.shipped("postgres" if store.is_postgres else "sqlite")
    records = store.all("SELECT number, name, hash, works_with FROM migrations ORDER BY number")
    assert records == [(one.number, one.name, one.hash, one.works_with) for one in shipped]
    for one in shipped:
        file = SHIPPED / ("postgres" if store.is_postgres else "sqlite") / f"{one.number:04d}_{one.name}.sql"
        assert one.hash == hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.mark.requirement("MIGRATE-1")
def test_opening_again_applies_nothing_again(store: Store) -> None:
    before = store.all("SELECT * FROM migrations")
    with Engram(store.url) as eng:
        assert eng.blocks.list()[0].content == "one"
    assert store.all("SELECT * FROM migrations") == before


@pytest.mark.requirement("MIGRATE-1")
def test_new_migrations_are_applied_in_order_over_the_data_that_is_there(store: Store, extended: Extended) -> None:
    folder = extended(ADD_COLOUR, ADD_SHAPE)
    for _ in range(2):
        store.migrate(folder)
        assert store.applied() == [*NUMBERS, NEWEST + 1, NEWEST + 2]
        assert store.all("SELECT name, content, colour, shape FROM blocks") == [("plan", "one", "grey", "grey")]


#: What each of several processes does with each store whose address it is told, when all are ready: open and use it,
#: as the Engram that ships the migrations in the folder given.
OPEN = """
import sys
from engram import Engram
from engram.storage import migrate, postgres, sqlite
migrate.sqlite.__defaults__ = migrate.postgres.__defaults__ = migrate.without_change.__defaults__ = (sys.argv[1],)
print("ready", flush=True)
for line in sys.stdin:
    with Engram(line.strip()) as eng:
        eng.sessions.register("codex", "Working")
    print("done", flush=True)
"""


class Crowd:
    """Processes that do the same thing at the same moment."""

    def __init__(self, folder: Path, size: int = 6) -> None:
        self.processes = [
            subprocess.Popen(
                [sys.executable, "-c", OPEN, str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(size)
        ]
        self._all_say("ready")

    def meet(self, url: str) -> None:
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.write(f"{url}\n")
            process.stdin.flush()
        self._all_say("done")

    def _all_say(self, word: str) -> None:
        said = [process.stdout.readline().strip() for process in self.processes if process.stdout]
        assert said == [word] * len(self.processes)

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.communicate()


@pytest.mark.requirement("MIGRATE-1")
def test_six_processes_that_open_one_new_store_together_make_it_once(store_url: str) -> None:
    rounds = 5
    urls = [f"{store_url}_{number}" for number in range(rounds)]
    try:
        with Crowd(SHIPPED) as crowd:
            for url in urls:
                crowd.meet(url)
        for url in urls:
            assert Store(url).applied() == NUMBERS
            with Engram(url) as eng:
                assert len(eng.sessions.list()) == 6
    finally:
        for url in urls:
            if Store(url).is_postgres:
                Store(url).all(f"DROP SCHEMA IF EXISTS {Store(url).schema} CASCADE")


@pytest.mark.requirement("MIGRATE-1", "MIGRATE-3")
def test_six_processes_that_upgrade_one_store_together_do_it_once_with_one_backup(
    store: Store, extended: Extended
) -> None:
    folder = extended(ADD_COLOUR, ADD_SHAPE)
    with Crowd(folder) as crowd:
        crowd.meet(store.url)
    assert store.applied() == [*NUMBERS, NEWEST + 1, NEWEST + 2]
    assert store.all("SELECT name, content, colour, shape FROM blocks") == [("plan", "one", "grey", "grey")]
    assert len(store.backups()) == 1
    assert store.all("SELECT COUNT(*) FROM sessions") == [(6,)]


@pytest.mark.requirement("MIGRATE-2")
def test_a_store_whose_applied_migration_was_edited_is_refused(store: Store, extended: Extended) -> None:
    folder = extended()
    for file in folder.glob("*/0001_*.sql"):
        file.write_text(file.read_text() + "\n-- edited\n")
    columns = store.columns()
    with pytest.raises(MigrationChanged, match=r"0001_foundation of this version differs"):
        store.migrate(folder)
    assert (store.columns(), store.applied()) == (columns, NUMBERS)


@pytest.mark.requirement("MIGRATE-2")
def test_opening_a_store_that_another_migration_made_is_refused(store: Store) -> None:
    store.all("UPDATE migrations SET hash = 'another'")
    with pytest.raises(MigrationChanged):
        Engram(store.url)
    assert store.all("SELECT content FROM blocks") == [("one",)]


@pytest.mark.requirement("MIGRATE-2", "MIGRATE-4")
def test_an_edited_migration_is_found_before_new_ones_are_applied(store: Store, extended: Extended) -> None:
    folder = extended(ADD_COLOUR)
    store.all("UPDATE migrations SET hash = 'another'")
    columns = store.columns()
    with pytest.raises(MigrationChanged):
        store.migrate(folder)
    assert (store.columns(), store.applied()) == (columns, NUMBERS)


@pytest.mark.requirement("MIGRATE-4")
@pytest.mark.parametrize("before", [(), (ADD_COLOUR,)])
def test_a_migration_that_fails_leaves_nothing_and_the_store_goes_on(
    store: Store, extended: Extended, before: tuple[str, ...]
) -> None:
    with pytest.raises((apsw.Error, psycopg.Error)):
        store.migrate(extended(*before, FAILING))
    assert "half" not in store.columns()
    assert store.applied() in (NUMBERS, [*NUMBERS, *range(NEWEST + 1, NEWEST + 1 + len(before))])
    assert store.all("SELECT name, content FROM blocks") == [("plan", "one")]
    store.migrate(extended(*before, ADD_SHAPE.replace("= colour", "= 'round'")))
    assert store.all("SELECT name, shape FROM blocks") == [("plan", "round")]


@pytest.mark.requirement("MIGRATE-4")
def test_a_new_store_whose_first_migration_fails_is_none_and_can_still_become_one(
    store_url: str, extended: Extended
) -> None:
    folder = extended()
    for engine in ("sqlite", "postgres"):
        with (folder / engine / "0001_foundation.sql").open("a") as file:
            file.write(FAILING)
    if not Store(store_url).is_postgres:
        Path(store_url).parent.mkdir()
    with pytest.raises((apsw.Error, psycopg.Error)):
        Store(store_url).migrate(folder)
    assert Store(store_url).columns() == {}
    with Engram(store_url) as eng:
        eng.world.set("well")
        assert eng.world.get() == "well"


@pytest.mark.requirement("STORE-6")
def test_a_store_that_a_later_engram_has_changed_is_refused_and_left_alone(store: Store, extended: Extended) -> None:
    store.migrate(extended(ADD_COLOUR))
    columns = store.columns()
    with pytest.raises(SchemaTooNew, match=f"schema {NEWEST + 1}, .* up to {NEWEST}. Upgrade"):
        Engram(store.url)
    assert store.columns() == columns
    assert store.all("SELECT name, content FROM blocks") == [("plan", "one")]


@pytest.mark.requirement("STORE-6")
def test_a_change_this_release_can_live_with_keeps_the_store_open_to_it(store: Store, extended: Extended) -> None:
    store.migrate(extended(f"-- Only adds a column.\n-- works with: {NEWEST}\n{ADD_COLOUR}"))
    with Engram(store.url) as eng:
        eng.blocks.update("plan", "two")
        eng.blocks.create("other")
        assert [block.content for block in eng.blocks.list()] == ["", "two"]
    assert store.applied() == [*NUMBERS, NEWEST + 1]


@pytest.mark.requirement("STORE-6")
@pytest.mark.parametrize("position", ["first", "last"])
def test_one_change_too_new_among_others_is_enough_to_refuse(store: Store, extended: Extended, position: str) -> None:
    harmless, strict = f"-- works with: {NEWEST}\n{ADD_COLOUR}", "ALTER TABLE blocks ADD COLUMN shape TEXT;\n"
    store.migrate(extended(*((strict, harmless) if position == "first" else (harmless, strict))))
    with pytest.raises(SchemaTooNew, match=f"schema {NEWEST + 2},"):
        Engram(store.url)


@pytest.mark.requirement("MIGRATE-5")
def test_both_engines_ship_migrations_of_the_same_names() -> None:
    names = {engine: sorted(file.name for file in (SHIPPED / engine).iterdir()) for engine in ("sqlite", "postgres")}
    assert names["sqlite"] == names["postgres"]
    numbers = [int(name[:4]) for name in names["sqlite"]]
    assert numbers == sorted(set(numbers))
    for ours, theirs in zip(migrate.shipped("sqlite"), migrate.shipped("postgres"), strict=True):
        # It changes only how PostgreSQL numbers the feed, which an earlier release does not know.
        assert ours.works_with == theirs.works_with or ours.name == "numbers"


@pytest.mark.requirement("MIGRATE-5")
def test_both_engines_have_the_same_tables_columns_and_indexes(sqlite_url: str, postgres_url: str) -> None:
    for url in (sqlite_url, postgres_url):
        Engram(url).close()
    lite, post = Store(sqlite_url), Store(postgres_url)
    kinds = {"BIGINT": "INTEGER", "DOUBLE PRECISION": "REAL", "TEXT": "TEXT", "BYTEA": "BLOB"}
    assert lite.columns() == {
        table: [(name, kinds[kind], required) for name, kind, required in columns]
        for table, columns in post.columns().items()
        if table != "closeness"  # pgvector's own copy of the vectors
    }
    indexes = lite.all("SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL ORDER BY name")
    assert indexes == post.all(
        "SELECT c.relname FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid"
        " LEFT JOIN pg_constraint k ON k.conindid = c.oid AND k.contype IN ('p', 'u')"
        " WHERE c.relnamespace = current_schema::regnamespace AND k.oid IS NULL AND c.relname <> 'closeness_of_shelf'"
        ' ORDER BY c.relname COLLATE "C"'
    )


@pytest.mark.requirement("MIGRATE-5")
def test_every_text_column_is_compared_by_code_point_on_postgresql_too(postgres_url: str) -> None:
    Engram(postgres_url).close()
    texts = Store(postgres_url).all(
        "SELECT table_name, column_name, collation_name FROM information_schema.columns"
        " WHERE table_schema = current_schema AND data_type = 'text'"
    )
    assert len(texts) > 40
    assert [row for row in texts if row[2] != "C"] == []
