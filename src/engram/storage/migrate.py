"""Bringing a store to the schema this version knows.

Migrations are numbered SQL files, one folder per engine with the same numbers and names. Each is applied together with
its record in one transaction, under a lock, so two processes that start at once do it once. The record keeps the file's
hash: history that was edited after it was applied is an error, found at the next open. Before a store with data in it
is changed, a backup is made.

A migration that the release before it can live with says so in its first lines (`-- works with: 3`: code that knows
migrations up to 3 still works on the result); that release then keeps opening the store. Without such a line it
refuses.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, NamedTuple

from ..errors import MigrationChanged, SchemaTooNew
from . import backup

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw
    import psycopg

    from ..clock import Clock

_FOLDER = os.path.join(os.path.dirname(__file__), "sql")
_WORKS_WITH = "-- works with:"

_APPLIED = "SELECT number, hash, works_with FROM migrations ORDER BY number"


class Migration(NamedTuple):
    number: int
    name: str
    sql: str
    hash: str
    #: The oldest migration whose code can use the store after this one.
    works_with: int


class Applied(NamedTuple):
    number: int
    hash: str
    works_with: int


@functools.cache
def shipped(engine: str, folder: str = _FOLDER) -> tuple[Migration, ...]:
    """The migrations that come with this version, in order."""
    found = []
    directory = os.path.join(folder, engine)
    for file in sorted(os.listdir(directory)):
        number, _, name = file.removesuffix(".sql").partition("_")
        with open(os.path.join(directory, file), encoding="utf-8") as text:
            sql = text.read()
        works_with = int(number)
        for line in sql.splitlines()[:10]:
            if line.startswith(_WORKS_WITH):
                works_with = int(line.removeprefix(_WORKS_WITH))
        found.append(Migration(int(number), name, sql, _hash(sql), works_with))
    return tuple(found)


def _hash(text: str) -> str:
    # From the module behind hashlib, where Python has it: hashlib loads OpenSSL, and every hook would wait for that.
    try:
        from _sha256 import sha256  # type: ignore[import-not-found]
    except ImportError:
        from hashlib import sha256
    return str(sha256(text.encode()).hexdigest())


def pending(applied: Sequence[Applied], known: Sequence[Migration], store: str) -> list[Migration]:
    """What is still to be applied; an error when the store's history is not ours."""
    hashes = {migration.number: migration for migration in known}
    newest = known[-1].number
    for record in applied:
        ours = hashes.get(record.number)
        if ours is None:
            if record.works_with > newest:
                raise SchemaTooNew(
                    f"{store} has schema {applied[-1].number}, and this Engram knows schemas up to {newest}. "
                    "Upgrade it (pip install --upgrade engram); nothing was changed."
                )
        elif ours.hash != record.hash:
            raise MigrationChanged(
                f"Migration {ours.number:04d}_{ours.name} was applied to {store} with other contents than this "
                "version ships. Reinstall the Engram that made the store, or restore its migration file."
            )
    done = {record.number for record in applied}
    return [migration for migration in known if migration.number not in done]


def sqlite(connection: apsw.Connection, path: str, clock: Clock, folder: str = _FOLDER) -> None:
    known = shipped("sqlite", folder)
    saved = False
    while pending(_sqlite_applied(connection), known, path):
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Asked again under the lock: another process may just have finished the same work.
            applied = _sqlite_applied(connection)
            todo = pending(applied, known, path)
            if todo:
                if applied and not saved:
                    backup.sqlite(path, f"before-{todo[0].number:04d}", clock)
                    saved = True
                connection.execute(todo[0].sql)
                connection.execute(
                    "INSERT INTO migrations (number, name, hash, works_with, applied_at) VALUES (?, ?, ?, ?, ?)",
                    (todo[0].number, todo[0].name, todo[0].hash, todo[0].works_with, clock.now()),
                )
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _sqlite_applied(connection: apsw.Connection) -> list[Applied]:
    there = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'migrations'").fetchall()
    return [Applied(*row) for row in connection.execute(_APPLIED)] if there else []


def postgres(connection: psycopg.Connection, schema: str, store: str, clock: Clock, folder: str = _FOLDER) -> int:
    """Apply what is pending; the newest migration that this version knows.

    Expects a connection in autocommit, or a transaction, whose search path begins with the schema.
    """
    known = shipped("postgres", folder)
    newest = known[-1].number
    # The rollback releases the table. Otherwise two processes that migrate at once would block each other.
    with connection.transaction(force_rollback=True):
        if not pending(_postgres_applied(connection, schema), known, store):
            return newest
    from psycopg import sql

    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"engram-migrate/{schema}",))
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
        applied = _postgres_applied(connection, schema)
        todo = pending(applied, known, store)
        if applied and todo:
            # Waits for running transactions. Later ones wait for this one and then see the new record.
            table = sql.Identifier(schema, "migrations")
            connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(table))
            backup.postgres(connection, schema, f"before_{todo[0].number:04d}", clock)
        for migration in todo:
            with connection.transaction():
                connection.execute(migration.sql.encode())
                connection.execute(
                    "INSERT INTO migrations (number, name, hash, works_with, applied_at) VALUES (%s, %s, %s, %s, %s)",
                    (migration.number, migration.name, migration.hash, migration.works_with, clock.now()),
                )
    return newest


def _postgres_applied(connection: psycopg.Connection, schema: str) -> list[Applied]:
    there = connection.execute(
        "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = 'migrations'",
        (schema,),
    ).fetchone()
    return [Applied(*row) for row in connection.execute(_APPLIED)] if there else []
