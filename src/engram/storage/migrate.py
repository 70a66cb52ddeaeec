"""Migrates a store to the schema of this version.

Migrations are numbered SQL files, in one folder per engine, with the same numbers and names. Each is applied together
with its record in one transaction, under a lock, so two processes that start at once apply it only once. The record
keeps the file's hash. If a file was edited after it was applied, the next process that may migrate raises an error. A
store with data is copied before a migration changes it.

The line `-- works with: 3` at the beginning of a migration means that code which knows migrations up to 3 works on the
result. Such a release can still open the store; without the line it refuses. The same rule (`pending`) applies to a
process that has the store open while another process migrates it.

Hooks do not migrate, because copying a large store takes longer than a hook may run. The line
`-- hooks work without it` means that hooks need nothing from the migration and can use the earlier schema. Without it a
hook raises `UpgradeNeeded`. The first process that needs a new store creates it, even if it is a hook.
"""

from __future__ import annotations

import functools
import os
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from .._version import UPGRADE
from ..errors import MigrationChanged, SchemaTooNew, StoreError, StoreNotFound, UpgradeNeeded
from . import backup

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

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
    #: Code that knows migrations up to this number can use the store after this migration.
    works_with: int
    #: Whether hooks work without this migration.
    hooks_without: bool

    @property
    def hash(self) -> str:
        return _hash(self.sql)


@functools.cache
def _hash(sql: str) -> str:
    digest: str = _sha256()(sql.encode()).hexdigest()
    return digest


@functools.cache
def _sha256() -> Callable[[bytes], Any]:
    """The constructor, without `hashlib`: that loads OpenSSL, which takes milliseconds in every hook.

    Looking for a module that is not there takes as long as hashing all migrations, so it is done once.
    """
    from importlib import import_module

    for module in ("_sha2", "_sha256", "hashlib"):  # of Python 3.12, of 3.11, and of any
        try:
            found: Callable[[bytes], Any] = import_module(module).sha256
            return found
        except (ImportError, AttributeError):
            continue
    raise AssertionError("hashlib has sha256")


class Outcome(NamedTuple):
    """What opening a store did to its schema."""

    applied: tuple[Migration, ...] = ()
    #: The copy of the store from before; None if there was no data to copy.
    backup: str | None = None
    #: The store's newest migration.
    newest: int = 0
    #: SQLite's `schema_version` of the schema that was checked. Every later change of the schema changes it.
    schema: int = 0
    #: The newest migration that this version knows.
    known: int = 0
    #: Whether the store is new, and there are copies of an earlier one that was at its place.
    in_place_of_lost: bool = False


class Applied(NamedTuple):
    number: int
    hash: str
    works_with: int


@functools.cache
def shipped(engine: str, folder: str = _FOLDER) -> tuple[Migration, ...]:
    """The migrations of this version, in order."""
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
    """The migrations that are not applied yet. Raises an error if this version cannot use the store.

    A process that does not migrate need not `compare` the hashes of the files, because hashing slows down a hook.
    """
    by_number = {migration.number: migration for migration in known}
    newest = known[-1].number
    for record in applied:
        ours = by_number.get(record.number)
        if ours is None:
            if record.works_with > newest:
                raise SchemaTooNew(
                    f"{store} has schema {applied[-1].number}, but this Engram knows only schemas up to {newest}. "
                    f"Upgrade it ({UPGRADE}) and restart the programs that use it; nothing was changed."
                )
        elif compare and ours.hash != record.hash:
            raise MigrationChanged(
                f"Migration {ours.number:04d}_{ours.name} of this version differs from the one applied to {store}. "
                "Reinstall the version of Engram that made the store, or restore its migration file."
            )
    done = {record.number for record in applied}
    return [migration for migration in known if migration.number not in done]


def not_found(store: str, more: str = "") -> StoreNotFound:
    return StoreNotFound(
        f"There is no store at {store}. `engram init` creates one, with --store or ENGRAM_URL if you have named it so."
        f"{more}"
    )


def works_without(applied: Sequence[Applied], todo: Sequence[Migration], store: str) -> bool:
    """Whether a process that does not migrate can work without the pending migrations.

    False for a store that does not exist yet. Raises UpgradeNeeded if the process cannot work without them.
    """
    if not applied:
        return False
    if not all(migration.hooks_without for migration in todo):
        raise UpgradeNeeded(
            f"{store} has schema {applied[-1].number}, but this Engram needs schema {todo[-1].number}. Run "
            "`engram upgrade`. Every other engram command and the MCP server also upgrade the store when they open it."
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
    key: bytes | None = None,
) -> Outcome:
    """Apply the pending migrations, after copying the store if `save` is on. Returns what was done.

    With `upgrade` off, a new store is created, but an existing one is not changed: see `works_without`. `key` is the
    store's, for the copy.
    """
    known = shipped("sqlite", folder)
    applied, schema = _read_applied(connection)
    todo = pending(applied, known, path, compare=upgrade)
    if not todo or (not upgrade and works_without(applied, todo, path)):
        return Outcome((), None, applied[-1].number, schema)
    copy = None
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Checked again under the lock, because another process may have applied them meanwhile.
        applied = sqlite_applied(connection)
        todo = pending(applied, known, path)
        if applied and todo and save:
            copy = backup.sqlite(path, f"before-{todo[0].number:04d}", clock, progress, key=key)
        # All of them in one transaction: a process that comes in between would copy the store again.
        for migration in todo:
            connection.execute(migration.sql)
            connection.execute(
                "INSERT INTO migrations (number, name, hash, works_with, applied_at) VALUES (?, ?, ?, ?, ?)",
                (migration.number, migration.name, migration.hash, migration.works_with, clock.now()),
            )
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if copy is not None:
            # The store is as it was. Every further attempt would leave one more copy.
            with suppress(OSError):
                os.unlink(copy)
        raise
    applied, schema = _read_applied(connection)
    return Outcome(tuple(todo), copy, applied[-1].number, schema)


def _read_applied(connection: apsw.Connection) -> tuple[list[Applied], int]:
    """The applied migrations and SQLite's `schema_version`, both from the same state of the store."""
    connection.execute("BEGIN")
    try:
        return sqlite_applied(connection), connection.execute("PRAGMA schema_version").get
    finally:
        # SQLite may have ended the transaction itself, for example on a full disk.
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def sqlite_applied(connection: apsw.Connection) -> list[Applied]:
    there = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'migrations'").fetchall()
    return [Applied(*row) for row in connection.execute(_APPLIED)] if there else []


def without_change(applied: Sequence[Applied], store: str, folder: str = _FOLDER, *, upgrade: bool) -> Outcome | None:
    """What opening a PostgreSQL store with these migrations comes to if it needs no change; None if it does.

    Raises an error if this version cannot use the store.
    """
    known = shipped("postgres", folder)
    todo = pending(applied, known, store, compare=upgrade)
    if not applied or (todo and (upgrade or not works_without(applied, todo, store))):
        return None
    return Outcome(newest=applied[-1].number, known=known[-1].number)


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
    """Apply the pending migrations, after copying the store. `upgrade` is as for SQLite.

    With `create` off, raises StoreNotFound if there is no store. The connection is in autocommit mode or in a
    transaction. Its search path begins with the schema.
    """
    known = shipped("postgres", folder)
    newest = known[-1].number
    # The rollback releases the table. Otherwise two processes that migrate at once would block each other.
    with connection.transaction(force_rollback=True):
        applied = postgres_applied(connection, schema)
    if not applied and not create:
        raise not_found(store)
    if not applied:
        _require_unicode(connection, store)
    todo = pending(applied, known, store, compare=upgrade)
    if not todo or (not upgrade and works_without(applied, todo, store)):
        return Outcome(newest=applied[-1].number, known=newest)
    from psycopg import sql

    copy = None
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"engram-migrate/{schema}",))
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
        applied = postgres_applied(connection, schema)
        todo = pending(applied, known, store)
        if applied and todo:
            if not upgrade and works_without(applied, todo, store):
                return Outcome(newest=applied[-1].number, known=newest)
            # Waits for running transactions. Later transactions wait for this one and then see the new record.
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


def _require_unicode(connection: psycopg.Connection, store: str) -> None:
    """Refuse to make a store in a database that cannot hold every text. A pooler may not tell the encoding."""
    encoding = connection.info.parameter_status("server_encoding")
    if encoding not in (None, "UTF8"):
        raise StoreError(
            f"The database of {store} has the encoding {encoding}, but Engram needs UTF8; nothing was created. Make "
            "another database: createdb -E UTF8 -T template0 NAME"
        )


def postgres_applied(connection: psycopg.Connection, schema: str) -> list[Applied]:
    there = connection.execute(
        "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = 'migrations'",
        (schema,),
    ).fetchone()
    return [Applied(*row) for row in connection.execute(_APPLIED)] if there else []
