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


#: What was at a time, of memories and blocks that are named.
EARLIER = ("memory.memory_rows._THEN", "memory.memory_rows._GET_THEN", "memory.blocks._GET_THEN")


@pytest.mark.requirement("STORE-20")
@pytest.mark.parametrize("name", EARLIER)
def test_what_was_at_a_time_is_found_without_the_history_of_anything_else(
    name: str, connection: apsw.Connection
) -> None:
    steps = plan(connection, name)
    assert not [step for step in steps if step.startswith("SCAN") and "json_each" not in step]
    own = re.compile(r"(rowid=\?|memory_id=\?.*|block_id=\?.*|workspace=\? AND name=\?)\)")
    assert not [step for step in steps if step.startswith("SEARCH") and not own.search(step)], steps


#: What every hook, server or pass asks often, and the index that answers it.
OFTEN = {
    "dreaming.drives._MARK": "exchanges_turns_by_id",
    "coordination.sessions.LAST_AUTOMATIC": "dreams_automatic",
    "coordination.sessions._DUE": "sessions_unsummarised",
    "dreaming.due._WAITING_SESSIONS": "sessions_unsummarised",
    "dreaming.due._OF_AGE": "memories_by_age",
    "dreaming.due._NEXT_OF_AGE": "memories_by_age",
}


#: What a page about a workspace reads, and the index that bounds it.
OVERVIEW = {
    "coordination.activity._MEMORIES": "memories_by_age (workspace=? AND created_at>? AND created_at<?)",
    "coordination.activity._SESSIONS": "sessions_by_time (workspace=? AND created_at>? AND created_at<?)",
    "coordination.harness_events._LAST_LOG": "exchanges_logs (workspace=? AND session_id=?)",
    "coordination.harness_events._LAST_TURN": "exchanges_turns (workspace=? AND session_id=?)",
    "coordination.harness_events._LATEST": "sessions_by_status (workspace=? AND status=?)",
    "coordination.neighbours._CLAIMED": "leases_by_session (session_id=? AND workspace=?)",
    "coordination.neighbours._DERIVED": "sources_back (workspace=? AND source_kind=? AND source_id=?)",
    "coordination.neighbours._LINKED_FROM": "PRIMARY KEY (from_id=?)",
    "coordination.neighbours._LINKED_TO": "memory_links_back (to_id=?)",
    "coordination.neighbours._LOG_LINES": "exchanges_logs (workspace=? AND session_id=?)",
    "coordination.neighbours._MADE_IN": "memories_by_session (workspace=? AND session_id=?)",
    "coordination.neighbours._OF_TURNS": "exchanges_turns (workspace=? AND session_id=? AND seq>?)",
    "coordination.neighbours._REPLACED": "memories_superseded (superseded_by=?)",
    "coordination.neighbours._SOURCES": "PRIMARY KEY (workspace=? AND derived_kind=? AND derived_id=?)",
    "coordination.sessions._NEWEST": "sessions_by_time (workspace=? AND created_at>? AND created_at<?)",
    "dreaming.brief.known._WAITING": "memories_waiting (workspace=? AND status=?)",
    "dreaming.brief.snapshot._LOGS_THEN": "exchanges_logs (workspace=? AND session_id=?)",
    "dreaming.brief.snapshot._TURNS_THEN": "exchanges_turns (workspace=? AND session_id=?)",
    "memory.exchanges._EARLIER": "exchanges_turns (workspace=? AND session_id=? AND seq>? AND seq<?)",
    "memory.exchanges._EARLIER_WITH_LOGS": "exchanges_logs (workspace=? AND session_id=? AND seq>? AND seq<?)",
    "memory.exchanges._HISTORY_WITH_LOGS": "exchanges_logs (workspace=? AND session_id=? AND seq>?)",
    "memory.memory_rows._NOW": "memories_by_number (workspace=? AND status=? AND id<?)",
}


@pytest.mark.requirement("STORE-20")
@pytest.mark.parametrize(("name", "index"), OVERVIEW.items())
def test_what_a_page_shows_is_read_through_an_index(name: str, index: str, connection: apsw.Connection) -> None:
    steps = plan(connection, name)
    assert [step for step in steps if index in step], steps
    # Sorting would need all rows. What is grouped, or two short lists, is sorted at the end.
    parts = ("SCAN turns", "SCAN logs", "SCAN page", "SCAN json_each")
    assert not [step for step in steps if step.startswith("SCAN") and not step.startswith(parts)]
    assert name.endswith("_WITH_LOGS") or "USE TEMP B-TREE FOR ORDER BY" not in steps


@pytest.mark.requirement("STORE-20")
def test_the_brief_reads_the_turns_of_a_session_without_those_of_others(connection: apsw.Connection) -> None:
    steps = plan(connection, "dreaming.brief.left_off.TURNS")
    searches = [step for step in steps if step.startswith("SEARCH exchanges ")]
    assert len(searches) == 4 and not [
        step for step in searches if "exchanges_turns (workspace=? AND session_id=?" not in step
    ]


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
