"""Copies of a whole store, made before the schema changes or a restore replaces what people rely on.

On SQLite a copy is a file beside the store. It is written under a draft's name (`….partial`) and renamed when it is
complete, so a copy under its final name is always whole. A process that was killed leaves its draft behind; the next
copy removes it. The newest few copies of each kind are kept.

On PostgreSQL a copy is a schema beside the store's. A dump would need the server's own tools at the right version on
this machine. A copy inside the database needs nothing and is part of the migration's transaction, and an administrator
drops it with one statement.
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

    #: Called with how many pages are copied, and how many there are.
    Progress = Callable[[int, int], None]

#: How many copies of a kind are kept: before migrations, before restores.
KEPT = 3
PARTIAL = ".partial"

#: Pages copied between two reports of progress.
_PORTION = 4_096
#: Free space that a copy leaves on the disk.
_MARGIN = 16 * 1024 * 1024
#: What the end of a copy's name takes: `_before_0002_20261115t183608123456`. PostgreSQL cuts longer names off at their
#: end, which is what tells two copies apart, so the schema's own name is cut instead.
_LONGEST_PREFIX = 63 - 34


def sqlite(path: str, label: str, clock: Clock, progress: Progress | None = None) -> str | None:
    """Copy the store's last committed state into a file beside it; its path, or None when there is no data yet.

    The caller holds the write lock, so there is one copy at a time, and every draft that is found is nobody's any
    more. Opens a connection of its own, which sees the state before the caller's transaction.
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
    """Copy what a connection sees into `path.label-time`, and remove older copies of that kind, but not `spared`."""
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
    """Copy a whole database into a new file that is complete by itself and on the disk."""
    import apsw

    # Nobody has this file open yet, so making it by hand (for its mode) drops no lock.
    make_file(file)
    target = apsw.Connection(file, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        # Half a copy is worth nothing, so nothing has to be safe before the end.
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
    """Refuse before anything is written, rather than fill the disk that every other program needs as well."""
    disk = os.statvfs(os.path.dirname(path))
    free = disk.f_bavail * disk.f_frsize
    if free < needed + _MARGIN:
        raise StoreFull(
            f"A copy of {path} needs {_megabytes(needed)} MB, and its disk has {_megabytes(free)} MB free; nothing was "
            "changed. Free some space and try again."
        )


def size(path: str) -> int:
    """The size of a file; 0 when there is none."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def remove_drafts(path: str) -> None:
    """Remove the incomplete copies that killed processes left beside the store."""
    folder, name = os.path.split(path)
    for file in os.listdir(folder):
        # A copy with a journal is a draft of a version that wrote under the final name.
        if file.startswith(f"{name}.before-") and file.endswith((PARTIAL, "-journal")):
            remove(os.path.join(folder, file.removesuffix("-journal")))


def remove(file: str) -> None:
    """Remove a database that nobody uses, with its helpers."""
    for each in (file, f"{file}-journal", f"{file}-wal", f"{file}-shm"):
        with suppress(FileNotFoundError):
            os.unlink(each)


def names(path: str) -> list[str]:
    """The copies beside a store, complete or not: all of them hold what the store held."""
    folder, name = os.path.split(path)
    return [file for file in os.listdir(folder) if _is_copy(file, name)]


def older(names: Iterable[str], before: str) -> tuple[str, ...]:
    """Those of the copies that were made before a time, oldest first; each name ends in its own."""
    limit = compact(before)
    return tuple(sorted(name for name in names if _stamp(name) < limit))


def compact(stamp: str) -> str:
    """A time that fits into a file's and a schema's name: 20261115t183608123456."""
    return stamp.replace("-", "").replace(":", "").replace(".", "").replace("T", "t").removesuffix("Z")


def postgres(connection: psycopg.Connection, schema: str, label: str, clock: Clock) -> str | None:
    """Copy every table of the schema into a schema beside it; its name, or None when there is no data yet."""
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
    # A name that was cut off may belong to another store, so the copies of that one are left alone.
    if len(schema) <= _LONGEST_PREFIX:
        found = connection.execute("SELECT nspname FROM pg_namespace WHERE starts_with(nspname, %s)", (prefix(schema),))
        for name in _surplus(name for (name,) in found.fetchall() if re.search(r"_before_\d{4}_", name)):
            connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))
    return copy


def prefix(schema: str) -> str:
    """How the names of a PostgreSQL store's copies begin."""
    return f"{schema[:_LONGEST_PREFIX]}_before_"


def _is_copy(file: str, store: str) -> bool:
    import re

    label = file.removesuffix(PARTIAL)[len(store) + 1 :]
    return file.startswith(f"{store}.") and bool(re.fullmatch(r"(before-\w+|incoming-\d+)-\d{8}t\d{12}", label))


def _prune(path: str, label: str, spared: str | None) -> None:
    """Keep the newest copies of a kind: all of those made before migrations are one."""
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
