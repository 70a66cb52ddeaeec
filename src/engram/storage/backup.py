"""Copies of a whole store, made before a migration or a restore.

On SQLite a copy is a file beside the store. It is written under a draft name (`….partial`) and renamed when it is
complete, so a file with the final name is always complete. A killed process leaves its draft; the next copy removes it.
The newest few copies of each kind are kept.

On PostgreSQL a copy is a schema beside the store's schema. A dump would need the server's tools in the right version on
this machine. A copy inside the database needs no tools and is part of the migration's transaction. An administrator can
drop it with one statement.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from ..errors import StoreFull
from ..private_files import make_file, sync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import apsw
    import psycopg

    from ..clock import Clock

    #: Called with the number of copied pages and the total.
    Progress = Callable[[int, int], None]

#: Number of copies kept from before migrations, and from before restores.
KEPT = 3
PARTIAL = ".partial"

#: Pages copied between two reports of progress.
_PORTION = 4_096
#: Bytes that a copy leaves free on the disk.
_MARGIN = 16 * 1024 * 1024
#: PostgreSQL cuts names after 63 characters. The end of a copy's name (`_before_0002_20261115t183608123456`) makes it
#: unique, so Engram shortens the beginning, the store's schema, instead.
_LONGEST_PREFIX = 63 - 34


def sqlite(path: str, label: str, clock: Clock, progress: Progress | None = None) -> str | None:
    """Copy the store's last committed state into a file beside it. Returns its path, or None if the store has no data.

    The caller holds the write lock, so no other copy is running and every draft is abandoned. The copy uses a separate
    connection, which sees the state before the caller's transaction.
    """
    import apsw

    remove_drafts(path)
    source = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        ((has_data,),) = source.execute("SELECT EXISTS (SELECT 1 FROM changes)").fetchall()
        if not has_data:
            return None
        return keep(source, path, label, clock, progress)
    finally:
        source.close()


def keep(
    source: apsw.Connection,
    path: str,
    label: str,
    clock: Clock,
    progress: Progress | None = None,
    *,
    spared: str | None = None,
) -> str:
    """Copy what a connection sees into `path.label-time`. Removes older copies of that kind, except `spared`."""
    copy = f"{path}.{label}-{compact(clock.now())}"
    require_space(path, size(path) + size(f"{path}-wal"))
    draft = f"{copy}{PARTIAL}"
    try:
        write(source, draft, progress)
        os.rename(draft, copy)
    except BaseException:
        remove(draft)
        raise
    sync(os.path.dirname(path))
    _prune(path, label, spared)
    return copy


def write(source: apsw.Connection, file: str, progress: Progress | None = None) -> None:
    """Copy a whole database into one new file, and wait until it is on the disk."""
    import apsw

    # No connection has this file open yet, so creating it here, for its mode, drops no lock.
    make_file(file)
    target = apsw.Connection(file, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        # An incomplete copy is useless, so the data need not be safe before the end.
        target.execute("PRAGMA synchronous=OFF")
        with target.backup("main", source, "main") as running:
            while not running.done:
                running.step(_PORTION if progress else -1)
                if progress:
                    progress(running.page_count - running.remaining, running.page_count)
        target.execute("PRAGMA journal_mode=DELETE")
    finally:
        target.close()
    sync(file)


def require_space(path: str, needed: int) -> None:
    """Raise StoreFull before anything is written, so that a copy never fills the disk."""
    disk = os.statvfs(os.path.dirname(path))
    free = disk.f_bavail * disk.f_frsize
    if free < needed + _MARGIN:
        raise StoreFull(
            f"A copy of {path} needs {_megabytes(needed)} MB, but its disk has {_megabytes(free)} MB free; nothing was "
            "changed. Free some space and try again."
        )


def size(path: str) -> int:
    """The size of a file in bytes; 0 if it does not exist."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def remove_drafts(path: str) -> None:
    """Remove the incomplete copies that killed processes left beside the store."""
    folder, name = os.path.split(path)
    for file in os.listdir(folder):
        # An earlier release wrote drafts under the final name. Such a draft has a journal.
        if file.startswith(f"{name}.before-") and file.endswith((PARTIAL, "-journal")):
            remove(os.path.join(folder, file.removesuffix("-journal")))


def remove(file: str) -> None:
    """Remove an unused database with its journal, log and index files."""
    for each in (file, f"{file}-journal", f"{file}-wal", f"{file}-shm"):
        with suppress(FileNotFoundError):
            os.unlink(each)


def names(path: str) -> list[str]:
    """The names of the copies beside a store, including incomplete ones, which also contain data."""
    folder, name = os.path.split(path)
    return [file for file in os.listdir(folder) if _is_copy(file, name)]


def older(names: Iterable[str], before: str) -> tuple[str, ...]:
    """The copies that were made before a time, oldest first. A copy's name ends with its time."""
    limit = compact(before)
    return tuple(sorted(name for name in names if _stamp(name) < limit))


def compact(stamp: str) -> str:
    """A time in a form for names of files and schemas: 20261115t183608123456."""
    return stamp.replace("-", "").replace(":", "").replace(".", "").replace("T", "t").removesuffix("Z")


def postgres(connection: psycopg.Connection, schema: str, label: str, clock: Clock) -> str | None:
    """Copy every table into a new schema. Returns its name, or None if the store has no data."""
    import re

    from psycopg import sql

    exists = connection.execute(sql.SQL("SELECT EXISTS (SELECT 1 FROM {})").format(sql.Identifier(schema, "changes")))
    ((has_data,),) = exists.fetchall()
    if not has_data:
        return None
    copy = f"{schema[:_LONGEST_PREFIX]}_{label}_{compact(clock.now())}"
    connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(copy)))
    tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (schema,)).fetchall()
    for (table,) in tables:
        connection.execute(
            sql.SQL("CREATE TABLE {} AS TABLE {}").format(sql.Identifier(copy, table), sql.Identifier(schema, table))
        )
    # Two stores may share a shortened name, so with one no older copies are removed.
    if len(schema) <= _LONGEST_PREFIX:
        found = connection.execute("SELECT nspname FROM pg_namespace WHERE starts_with(nspname, %s)", (prefix(schema),))
        for name in _surplus(name for (name,) in found.fetchall() if re.search(r"_before_\d{4}_", name)):
            connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))
    return copy


def prefix(schema: str) -> str:
    """The beginning of the names of a PostgreSQL store's copies."""
    return f"{schema[:_LONGEST_PREFIX]}_before_"


def _is_copy(file: str, store: str) -> bool:
    import re

    label = file.removesuffix(PARTIAL)[len(store) + 1 :]
    return file.startswith(f"{store}.") and bool(re.fullmatch(r"(before-\w+|incoming-\d+)-\d{8}t\d{12}", label))


def _prune(path: str, label: str, spared: str | None) -> None:
    """Keep only the newest copies of a kind. The copies from before any migration are one kind."""
    import re

    folder, name = os.path.split(path)
    kind = r"\d{4}" if label[-4:].isdigit() else re.escape(label.removeprefix("before-"))
    pattern = re.compile(re.escape(f"{name}.before-") + kind + r"-\d{8}t\d{12}")
    for file in _surplus(file for file in os.listdir(folder) if pattern.fullmatch(file)):
        if os.path.join(folder, file) != spared:
            remove(os.path.join(folder, file))


def _surplus(names: Iterable[str]) -> list[str]:
    return sorted(names, key=_stamp)[:-KEPT]


def _stamp(name: str) -> str:
    return name.removesuffix(PARTIAL)[-len("20261115t183608123456") :]


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:,.0f}"
