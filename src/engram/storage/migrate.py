"""Bringing a store to the schema this version knows.

Migrations are numbered SQL files, one folder per engine with the same numbers and names. Each is applied together with
its record in one transaction, under a lock, so two processes that start at once do it once. The record keeps the file's
hash: history that was edited after it was applied is an error, found at the next open by any process that may migrate.
Before a store with data in it is changed, a backup is made.

A migration that the release before it can live with says so in its first lines (`-- works with: 3`: code that knows
migrations up to 3 still works on the result); that release then keeps opening the store. Without such a line it
refuses. A process that has the store open while another one migrates it is told by the same rule (`pending`).

A hook does not migrate: the copy of a large store takes longer than a hook may. When what hooks do needs nothing of a
migration, its first lines say so (`-- hooks work without it`), and hooks go on with the schema that is there. Otherwise
a hook gets `UpgradeNeeded`. A store that does not exist yet is made by whoever comes first, a hook too.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, NamedTuple

from .._version import UPGRADE
from ..errors import MigrationChanged, SchemaTooNew, StoreNotFound, UpgradeNeeded
from . import backup

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw
    import psycopg

    from ..clock import Clock

_FOLDER = os.path.join(os.path.dirname(__file__), "sql")
_WORKS_WITH = "-- works with:"
_HOOKS_WITHOUT = "-- hooks work without it"

_APPLIED = "SELECT number, hash, works_with FROM migrations ORDER BY number"


class Migration(NamedTuple):
    number: int
    name: str
    sql: str
    #: The oldest migration whose code can use the store after this one.
    works_with: int
    #: Whether what hooks do needs nothing of this one.
    hooks_without: bool

    @property
    def hash(self) -> str:
        import hashlib

        return hashlib.sha256(self.sql.encode()).hexdigest()


class Outcome(NamedTuple):
    """What one call has done."""

    applied: tuple[Migration, ...] = ()
    #: The copy that was made before; None when there was no data to copy.
    backup: str | None = None
    #: The newest migration that the store has now.
    newest: int = 0
    #: SQLite's own number of the schema that was found to be usable; any later change of the schema changes it.
    schema: int = 0
    #: The newest migration that this version knows.
    known: int = 0


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
        works_with, hooks_without = int(number), False
        for line in sql.splitlines()[:10]:
            if line.startswith(_WORKS_WITH):
                works_with = int(line.removeprefix(_WORKS_WITH))
            hooks_without = hooks_without or line.startswith(_HOOKS_WITHOUT)
        found.append(Migration(int(number), name, sql, works_with, hooks_without))
    return tuple(found)


def pending(
    applied: Sequence[Applied], known: Sequence[Migration], store: str, *, compare: bool = True
) -> list[Migration]:
    """What is still to be applied; an error when the store's history is not ours.

    A process that does not migrate need not `compare` the files with what was applied: hashing costs a hook time.
    """
    hashes = {migration.number: migration for migration in known}
    newest = known[-1].number
    for record in applied:
        ours = hashes.get(record.number)
        if ours is None:
            if record.works_with > newest:
                raise SchemaTooNew(
                    f"{store} has schema {applied[-1].number}, and this Engram knows schemas up to {newest}. "
                    f"Upgrade it ({UPGRADE}) and restart the programs that use it; nothing was changed."
                )
        elif compare and ours.hash != record.hash:
            raise MigrationChanged(
                f"Migration {ours.number:04d}_{ours.name} was applied to {store} with other contents than this "
                "version ships. Reinstall the Engram that made the store, or restore its migration file."
            )
    done = {record.number for record in applied}
    return [migration for migration in known if migration.number not in done]


def missing(store: str) -> StoreNotFound:
    return StoreNotFound(
        f"There is no store at {store}. To make one, run `engram init` with the same --store or ENGRAM_URL."
    )


def left_out(applied: Sequence[Applied], todo: Sequence[Migration], store: str) -> bool:
    """For a process that does not migrate: whether it works without what is to be applied.

    False for a store that has to be made; an error when the process cannot go on.
    """
    if not applied:
        return False
    if not all(migration.hooks_without for migration in todo):
        raise UpgradeNeeded(
            f"{store} has schema {applied[-1].number}, and this Engram needs schema {todo[-1].number}. Run "
            "`engram upgrade`; every other engram command and the MCP server do the same when they open it."
        )
    return True


def sqlite(
    connection: apsw.Connection,
    path: str,
    clock: Clock,
    folder: str = _FOLDER,
    *,
    upgrade: bool = True,
    save: bool = True,
    progress: backup.Progress | None = None,
) -> Outcome:
    """Apply what is missing, after a copy of the store unless `save` is off; what was done.

    With `upgrade` off a store is made but never changed: see `left_out`.
    """
    known = shipped("sqlite", folder)
    done: list[Migration] = []
    copy = None
    while True:
        applied, schema = _seen(connection)
        todo = pending(applied, known, path, compare=upgrade)
        if not todo or (not upgrade and left_out(applied, todo, path)):
            return Outcome(tuple(done), copy, applied[-1].number, schema)
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Asked again under the lock: another process may just have finished the same work.
            applied = sqlite_applied(connection)
            todo = pending(applied, known, path)
            if todo:
                if applied and save and not done:
                    copy = backup.sqlite(path, f"before-{todo[0].number:04d}", clock, progress)
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
        done += todo[:1]
        # A new store is made to its end by whoever began it.
        upgrade = upgrade or not applied


def _seen(connection: apsw.Connection) -> tuple[list[Applied], int]:
    """What is applied, and SQLite's own number of the schema; both of one state of the store."""
    connection.execute("BEGIN")
    try:
        return sqlite_applied(connection), connection.execute("PRAGMA schema_version").get
    finally:
        # SQLite may have ended it by itself, for example on a full disk.
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def sqlite_applied(connection: apsw.Connection) -> list[Applied]:
    there = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'migrations'").fetchall()
    return [Applied(*row) for row in connection.execute(_APPLIED)] if there else []


def postgres(
    connection: psycopg.Connection,
    schema: str,
    store: str,
    clock: Clock,
    folder: str = _FOLDER,
    *,
    upgrade: bool = True,
    create: bool = True,
) -> Outcome:
    """Apply what is pending; `upgrade` as for SQLite. With `create` off, a schema without a store is StoreNotFound.

    Expects a connection in autocommit, or a transaction, whose search path begins with the schema.
    """
    known = shipped("postgres", folder)
    newest = known[-1].number
    # The rollback releases the table. Otherwise two processes that migrate at once would block each other.
    with connection.transaction(force_rollback=True):
        applied = postgres_applied(connection, schema)
    if not applied and not create:
        raise missing(store)
    todo = pending(applied, known, store, compare=upgrade)
    if not todo or (not upgrade and left_out(applied, todo, store)):
        return Outcome(newest=applied[-1].number, known=newest)
    from psycopg import sql

    copy = None
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"engram-migrate/{schema}",))
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
        applied = postgres_applied(connection, schema)
        todo = pending(applied, known, store)
        if applied and todo:
            if not upgrade and left_out(applied, todo, store):
                return Outcome(newest=applied[-1].number, known=newest)
            # Waits for running transactions. Later ones wait for this one and then see the new record.
            table = sql.Identifier(schema, "migrations")
            connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(table))
            copy = backup.postgres(connection, schema, f"before_{todo[0].number:04d}", clock)
        for migration in todo:
            with connection.transaction():
                connection.execute(migration.sql.encode())
                connection.execute(
                    "INSERT INTO migrations (number, name, hash, works_with, applied_at) VALUES (%s, %s, %s, %s, %s)",
                    (migration.number, migration.name, migration.hash, migration.works_with, clock.now()),
                )
    reached = max([each.number for each in applied] + [each.number for each in todo])
    return Outcome(tuple(todo), copy, reached, known=newest)


def postgres_applied(connection: psycopg.Connection, schema: str) -> list[Applied]:
    there = connection.execute(
        "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = 'migrations'",
        (schema,),
    ).fetchone()
    return [Applied(*row) for row in connection.execute(_APPLIED)] if there else []
