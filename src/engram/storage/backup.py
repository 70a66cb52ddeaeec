"""A copy of everything, made before the schema changes under data that people rely on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    import psycopg

    from ..clock import Clock


def sqlite(path: str, label: str, clock: Clock) -> str | None:
    """Copy the store's last committed state into a file beside it; its path, or None when there is no data yet.

    Opens a connection of its own, so it also works while the caller holds the write lock.
    """
    import apsw

    source = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        if not source.execute("SELECT EXISTS (SELECT 1 FROM changes)").fetchall()[0][0]:
            return None
        copy = f"{path}.{label}-{_compact(clock.now())}"
        # Nobody has this file open yet, so making it by hand (for its mode) drops no lock.
        os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        target = apsw.Connection(copy, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            with target.backup("main", source, "main") as running:
                running.step(-1)
            target.execute("PRAGMA journal_mode=DELETE")
        finally:
            target.close()
    finally:
        source.close()
    return copy


def postgres(connection: psycopg.Connection, schema: str, label: str, clock: Clock) -> str | None:
    """Copy every table of the schema into a schema beside it; its name, or None when there is no data yet.

    A dump would need the server's own tools at the right version on this machine; a copy inside the database needs
    nothing, is part of the migration's transaction, and an administrator drops it with one statement.
    """
    from psycopg import sql

    exists = connection.execute(sql.SQL("SELECT EXISTS (SELECT 1 FROM {})").format(sql.Identifier(schema, "changes")))
    row = exists.fetchone()
    if not (row and row[0]):
        return None
    # PostgreSQL cuts longer names off at their end, which is what tells two backups apart.
    end = f"_{label}_{_compact(clock.now())}"
    copy = schema[: 63 - len(end)] + end
    connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(copy)))
    tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (schema,)).fetchall()
    for (table,) in tables:
        connection.execute(
            sql.SQL("CREATE TABLE {} AS TABLE {}").format(sql.Identifier(copy, table), sql.Identifier(schema, table))
        )
    return copy


def older(names: Iterable[str], before: str) -> tuple[str, ...]:
    """Those of the backups that were made before a time, oldest first; each name ends in its own."""
    limit = _compact(before)
    return tuple(sorted(name for name in names if name[-len(limit) :] < limit))


def _compact(stamp: str) -> str:
    """A time that fits into a file's and a schema's name: 20261115t183608123456."""
    return stamp.replace("-", "").replace(":", "").replace(".", "").replace("T", "t").removesuffix("Z")
