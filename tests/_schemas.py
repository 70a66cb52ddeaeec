"""PostgreSQL schemas that tests use one after another.

Migrating an empty store takes longer than most tests. So a test gets a schema that is already migrated, and its rows
are deleted afterwards. A schema whose tables, indexes or migrations a test has changed is dropped.
"""

from __future__ import annotations

import itertools
import os

import psycopg

from engram import Engram

_NAMES = itertools.count(1)
#: A schema is dropped after this many tests, because without autovacuum deleted rows stay in its files.
_USES = 50
_SHAPE = """
SELECT md5(string_agg(line, ',' ORDER BY line)) FROM (
  SELECT concat_ws(' ', c.relkind, c.relname, a.attname, a.atttypid) AS line
  FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  WHERE c.relnamespace = to_regnamespace(%(schema)s)
  UNION ALL SELECT concat_ws(' ', 'function', proname, md5(prosrc)) FROM pg_proc
  WHERE pronamespace = to_regnamespace(%(schema)s)
  UNION ALL SELECT concat_ws(' ', 'trigger', t.tgname, t.tgenabled) FROM pg_trigger t
  JOIN pg_class c ON c.oid = t.tgrelid
  WHERE c.relnamespace = to_regnamespace(%(schema)s) AND NOT t.tgisinternal
) AS lines
"""
_CLEAN = """
DO $$
DECLARE name text; filled boolean;
BEGIN
  FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = '{schema}' AND tablename <> 'migrations' LOOP
    EXECUTE format('SELECT EXISTS (SELECT 1 FROM {schema}.%I)', name) INTO filled;
    IF filled THEN EXECUTE format('DELETE FROM {schema}.%I', name); END IF;
  END LOOP;
  PERFORM setval(format('{schema}.%I', sequencename), 1, false)
  FROM pg_sequences WHERE schemaname = '{schema}' AND last_value IS NOT NULL;
END $$
"""


class Schemas:
    """The reusable schemas of one server, for one test process."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._connection: psycopg.Connection | None = None
        self._free: list[str] = []
        self._uses: dict[str, int] = {}
        self._shape: tuple[object, ...] | None = None

    def take(self) -> str:
        """The name of a schema with an empty store."""
        if not self._free:
            schema = new_name()
            Engram(url(self._server, schema)).close()
            self._shape = self._shape or _shape(self._connected(), schema)
            self._free.append(schema)
        return self._free.pop()

    def give_back(self, schema: str) -> None:
        """Empty the store for another test, or drop it."""
        self._uses[schema] = self._uses.get(schema, 0) + 1
        connection = self._connected()
        if self._uses[schema] >= _USES or _shape(connection, schema) != self._shape:
            drop(connection, schema)
            return
        connection.execute(_CLEAN.format(schema=schema).encode())
        self._free.append(schema)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _connected(self) -> psycopg.Connection:
        """One connection for all tests: a new one reads the catalogue again, which takes longer than the work."""
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(self._server, autocommit=True)
            # Turns off foreign key checks, so that tables can be emptied in any order.
            self._connection.execute("SET session_replication_role = replica")
        return self._connection


def new_name() -> str:
    return f"test_{os.getpid()}_{next(_NAMES)}"


def url(server: str, schema: str) -> str:
    return f"{server}{'&' if '?' in server else '?'}schema={schema}"


def drop(connection: psycopg.Connection, schema: str) -> None:
    connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


def _shape(connection: psycopg.Connection, schema: str) -> tuple[object, ...]:
    """A fingerprint of the schema: tables, columns, indexes, functions, triggers and applied migrations."""
    made = connection.execute(_SHAPE, {"schema": schema}).fetchone()
    migrations = connection.execute(f"SELECT number, name, hash FROM {schema}.migrations ORDER BY number".encode())
    return made, tuple(migrations.fetchall())
