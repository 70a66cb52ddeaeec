"""How SQLite goes about the tiers' statements: what is named is found by its name, not by going through everything."""

from __future__ import annotations

import re
from collections.abc import Iterator

import apsw
import pytest

from engram import Engram
from engram.config import load
from tests.test_driver_sql import tier_sql

STATEMENTS = sorted(name for name, sql in tier_sql().items() if "json_each(:" in sql)


#: Here the list repeats a join, for PostgreSQL's planner: the rows are found by the join, and the list sifts those.
REPEATED = {"memory.pruning._SUMS", "memory.pruning._SUMS_FILTERED"}
#: Whose tags, sources, versions, links: a memory's own are few, the workspace's are many.
OF_ONE = sorted(
    name
    for name, sql in tier_sql().items()
    if re.search(r"FROM (memory_tags|sources|memory_versions|block_versions|vectors)\b(?! t\b)", sql)
    and re.search(r"\b(memory_id|derived_id|block_id|item) = :", sql)
)
LIVE = sorted(
    name for name, sql in tier_sql().items() if re.search(r"\b(FROM|UPDATE) leases\b.*\bended_at IS NULL", sql, re.S)
)


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[apsw.Connection]:
    path = str(tmp_path_factory.mktemp("plans") / "engram.db")
    Engram(settings=load(url=path)).close()
    connection = apsw.Connection(path)
    yield connection
    connection.close()


def plan(connection: apsw.Connection, name: str) -> list[str]:
    sql = tier_sql()[name]
    values = dict.fromkeys(re.findall(r":(\w+)", sql), "[1]")
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", values)]


@pytest.mark.requirement("STORE-19")
@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_with_a_list_reads_only_what_the_list_names(name: str, connection: apsw.Connection) -> None:
    steps = plan(connection, name)
    if name in REPEATED:
        assert "SEARCH p USING PRIMARY KEY (term=?)" in steps and not [step for step in steps if "SCAN p" in step]
        return
    given = ("json_each", "SCAN q", "CONSTANT ROWS")
    assert not [step for step in steps if step.startswith("SCAN") and not any(name in step for name in given)]
    # A Bloom filter is for sifting all rows by the list.
    assert not [step for step in steps if "BLOOM" in step]


@pytest.mark.requirement("STORE-20")
@pytest.mark.parametrize("name", OF_ONE)
def test_what_belongs_to_one_thing_is_found_without_going_through_the_workspace(
    name: str, connection: apsw.Connection
) -> None:
    whole = re.compile(r"^SCAN|\(workspace=\?\)$")
    assert not [step for step in plan(connection, name) if whole.search(step)]


@pytest.mark.requirement("STORE-20")
@pytest.mark.parametrize("name", LIVE)
def test_live_leases_are_found_without_those_that_have_ended(name: str, connection: apsw.Connection) -> None:
    steps = [step for step in plan(connection, name) if re.search(r" (leases|l) ", step)]
    assert steps and not [step for step in steps if "leases_live" not in step and "rowid=?" not in step]


#: What every hook, server or pass asks often, and the index that answers it.
OFTEN = {
    "dreaming.drives._MARK": "exchanges_turns_by_id",
    "coordination.sessions.LAST_AUTOMATIC": "dreams_automatic",
    "coordination.sessions._DUE": "sessions_unsummarised",
    "dreaming.due._WAITING_SESSIONS": "sessions_unsummarised",
    "dreaming.due._OF_AGE": "memories_by_age",
    "dreaming.due._NEXT_OF_AGE": "memories_by_age",
}


@pytest.mark.requirement("STORE-20")
@pytest.mark.parametrize(("name", "index"), OFTEN.items())
def test_what_is_due_is_found_without_going_through_the_workspace(
    name: str, index: str, connection: apsw.Connection
) -> None:
    steps = plan(connection, name)
    assert [step for step in steps if index in step]
    assert not [step for step in steps if re.match(r"SCAN (s|exchanges|dreams|memories)\b", step)]


@pytest.mark.requirement("STORE-20")
@pytest.mark.parametrize(("name", "index"), OFTEN.items())
def test_postgresql_has_an_index_for_what_is_due_too(name: str, index: str, postgres_url: str) -> None:
    import psycopg

    server, _, schema = postgres_url.partition("schema=")
    sql = re.sub(r":(workspace|before|matured|silent)\b", "'x'", tier_sql()[name])
    sql = re.sub(r":(long|many|agents)\b", "1", sql)
    with psycopg.connect(server.rstrip("?&")) as connection:
        connection.execute(f"SET search_path = {schema}".encode())
        # The tables are empty, so that it would read them as a whole, or take any index that begins with the workspace.
        for setting in ("enable_seqscan", "enable_bitmapscan"):
            connection.execute(f"SET {setting} = off".encode())
        connection.execute(b"DROP INDEX IF EXISTS memories_by_hash, memories_by_status")
        steps = [row[0] for row in connection.execute(f"EXPLAIN {sql}".encode())]
        connection.rollback()
    assert [step for step in steps if index in step], steps
