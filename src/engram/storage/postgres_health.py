"""Checks of a PostgreSQL store's server and schema. `engram doctor` runs them."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from ..clock import between
from ..health_records import NOTE, WRONG, Check, Finding, counted, fine
from . import migrate
from .health import NUMBERS_END, backup_finding, clock_finding, far_numbers_finding, schema_finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .postgres import PostgresEngine

OLDEST_SERVER = 14
#: Seconds by which the clocks of the server and of this machine may differ.
APART = 5.0
#: Rows that were deleted or changed and wait for a vacuum, from which on they are worth a note.
DEAD_ROWS = 100_000
_APPLIED = "SELECT number, hash, works_with FROM migrations ORDER BY number"
_OBJECTS = """
SELECT CASE WHEN relkind IN ('i', 'I') THEN 'index' ELSE 'table' END, relname FROM pg_class
WHERE relnamespace = to_regnamespace(quote_ident(:schema)) AND relkind IN ('r', 'p', 'i', 'I')
UNION ALL SELECT 'function', proname FROM pg_proc WHERE pronamespace = to_regnamespace(quote_ident(:schema))
UNION ALL SELECT 'trigger', t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE c.relnamespace = to_regnamespace(quote_ident(:schema)) AND NOT t.tgisinternal AND t.tgenabled <> 'D'
"""
#: What a migration makes or removes. A table is followed by its constraints.
_STATEMENT = re.compile(
    r"^(CREATE|DROP) (?:UNIQUE )?(TABLE|INDEX|TRIGGER|FUNCTION) (\w+)|^  UNIQUE \(([\w, ]+)\)", re.MULTILINE
)
_RESTORE = "engram restore FILE prints the commands with which an administrator restores a dump"
_VERSION = "SELECT CAST(current_setting('server_version_num') AS INTEGER), current_setting('server_version')"
_STANDBY = "SELECT pg_is_in_recovery()"
_NEWEST = """
SELECT MAX(at) FROM (
  SELECT MAX(heartbeat_at) AS at FROM sessions
  UNION ALL SELECT created_at FROM exchanges WHERE id = (SELECT MAX(id) FROM exchanges)
  UNION ALL SELECT updated_at FROM memories WHERE id = (SELECT MAX(id) FROM memories)
  UNION ALL SELECT MAX(updated_at) FROM blocks
) AS newest
"""
_INVALID = """
SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = :schema AND NOT i.indisvalid ORDER BY c.relname
"""
_FAILURES = """
SELECT CAST(COALESCE(checksum_failures, 0) AS BIGINT) FROM pg_stat_database WHERE datname = current_database()
"""
_DEAD = """
SELECT CAST(COALESCE(SUM(n_dead_tup), 0) AS BIGINT), CAST(COALESCE(SUM(n_live_tup), 0) AS BIGINT)
FROM pg_stat_user_tables WHERE schemaname = :schema
"""
# A role that may write a table may not be allowed to read its sequence. Then the server gives NULL.
_FAR = """
SELECT sequencename FROM pg_sequences WHERE schemaname = :schema AND last_value >= :limit
UNION SELECT 'changes' WHERE EXISTS (SELECT 1 FROM changes WHERE number >= :limit) ORDER BY 1
"""
_HAS_DATA = "SELECT EXISTS (SELECT 1 FROM changes)"


def checks(engine: PostgresEngine, known_backups: list[tuple[str, str]]) -> list[Check]:
    """The checks of the server and the schema. `known_backups` are when and where this machine made dumps."""
    return [
        Check("store.server", partial(_server, engine)),
        Check("store.schema", partial(_schema, engine)),
        Check("store.integrity", partial(_integrity, engine)),
        Check("store.numbers", partial(_numbers, engine)),
        Check("store.clock", partial(_clock, engine)),
        Check("store.server_clock", partial(_server_clock, engine)),
        Check("store.unused", partial(_unused, engine)),
        Check("store.vectors", partial(_vectors, engine)),
        Check("store.backups", partial(_backups, engine, known_backups)),
    ]


def _server(engine: PostgresEngine) -> Finding:
    with engine.read() as transaction:
        ((number, version),) = transaction.all(_VERSION)
        is_standby = transaction.value(_STANDBY)
    if number // 10_000 < OLDEST_SERVER:
        means = "Engram is not tested with it."
        return Finding("store.server", WRONG, f"PostgreSQL {version}.", means, "Upgrade the server.", number=1)
    if is_standby:
        means = "The store can be read, but not written."
        return Finding("store.server", NOTE, f"PostgreSQL {version}, a standby.", means, "Name the primary.", number=1)
    return fine("store.server", f"PostgreSQL {version}.")


def _schema(engine: PostgresEngine) -> Finding:
    with engine.read() as transaction:
        applied = [migrate.Applied(*row) for row in transaction.all(_APPLIED)]
        there = {(kind, name) for kind, name in transaction.all(_OBJECTS, schema=engine.schema)}
    return schema_finding(applied, "postgres", f"The schema {engine.schema}", there, _made_by, _RESTORE)


def _made_by(migrations: Sequence[migrate.Migration]) -> set[tuple[str, str]]:
    return made_by(each.sql for each in migrations)


def made_by(migrations: Iterable[str]) -> set[tuple[str, str]]:
    """The kinds and names of what migrations make. Read from their text: making an empty store to compare with would
    need rights, and write to the server's catalogue each time."""
    made: set[tuple[str, str]] = set()
    for sql in migrations:
        table = ""
        for verb, what, name, unique in _STATEMENT.findall(sql):
            if unique:
                made.add(("index", "_".join([table, *unique.split(", "), "key"])))
                continue
            named = {(what.lower(), name)}
            if what == "TABLE":
                table = name
                named.add(("index", f"{table}_pkey"))
            made = made | named if verb == "CREATE" else made - named
    return made


def _integrity(engine: PostgresEngine) -> Finding:
    with engine.read() as transaction:
        invalid = transaction.column(_INVALID, schema=engine.schema)
        failures = transaction.value(_FAILURES) or 0
    if failures:
        found = f"The server found {counted(failures, 'damaged page', 'damaged pages')} in this database."
        return Finding(
            "store.integrity", WRONG, found, "The disk may be failing.", "Restore a backup.", number=failures
        )
    if invalid:
        return Finding(
            "store.integrity",
            WRONG,
            f"The index {invalid[0]} is not valid.",
            "Building it was interrupted. It costs time and is not used.",
            f'DROP INDEX "{engine.schema}"."{invalid[0]}", then `engram embed` builds it again',
            number=len(invalid),
        )
    return fine("store.integrity", "The server reports no damaged page, and every index is valid.")


def _numbers(engine: PostgresEngine) -> Finding:
    with engine.read() as transaction:
        found = transaction.column(_FAR, schema=engine.schema, limit=NUMBERS_END)
    if found:
        return far_numbers_finding(found)._replace(fix=_RESTORE)
    return fine("store.numbers", "There are numbers left for everything.")


def _clock(engine: PostgresEngine) -> Finding:
    with engine.read() as transaction:
        return clock_finding(transaction.value(_NEWEST), transaction.now())


def _server_clock(engine: PostgresEngine) -> Finding:
    with engine.read() as transaction:
        apart = abs(between(engine.clock.now(), transaction.now()))
    if apart <= APART:
        return fine("store.server_clock", "The server's clock agrees with that of this machine.")
    return Finding(
        "store.server_clock",
        NOTE,
        f"The server's clock differs from that of this machine by {apart:,.0f} seconds.",
        "The server's clock decides about leases. Times that are shown as `ago` are wrong here.",
        "Set the clocks of both machines by a time server.",
        number=1,
    )


def _unused(engine: PostgresEngine) -> Finding:
    with engine.read() as transaction:
        ((dead, live),) = transaction.all(_DEAD, schema=engine.schema)
    found = f"{counted(dead, 'row waits', 'rows wait')} for a vacuum."
    if dead < DEAD_ROWS or dead < live:
        return fine("store.unused", found)
    means = "Reads get slower. The server's autovacuum may be off or too slow."
    return Finding("store.unused", NOTE, found, means, "engram vacuum", number=int(dead))


def _vectors(engine: PostgresEngine) -> Finding:
    if engine.compares:
        return fine("store.vectors", "The server compares vectors itself.")
    return Finding(
        "store.vectors",
        NOTE,
        "The server has no pgvector 0.8 or newer.",
        "Only speed is lost: each process keeps the vectors in memory.",
        "An administrator installs pgvector and runs deployment/roles.sql again; then restart the programs that use "
        "the store.",
        number=1,
    )


def _backups(engine: PostgresEngine, known: list[tuple[str, str]]) -> Finding:
    with engine.read() as transaction:
        is_empty = not transaction.value(_HAS_DATA)
        now = transaction.now()
    return backup_finding(known[-1][0] if known else None, now, is_empty=is_empty)
