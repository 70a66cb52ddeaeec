"""Copies of a whole store. This module makes those before a migration or a restore; `backup_files` makes the user's.

On SQLite a copy is a file beside the store. It is written under a draft name (`….partial`) and renamed when it is
complete, so a file with the final name is always complete. A killed process leaves its draft; the next copy removes it.
The newest few copies of each kind are kept.

On PostgreSQL a copy is a schema beside the store's schema. A dump would need the server's tools in the right version on
this machine. A copy inside the database needs no tools and is part of the migration's transaction. An administrator can
drop it with one statement.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from ..errors import StoreFull
from ..private_files import make_file, sync
from .helper_names import OF_SQLITE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import apsw
    import psycopg

    from ..clock import Clock

    #: Called with the number of copied pages and the total.
    Progress = Callable[[int, int], None]

#: How the name of a store ends that a copy of another store is still being written to.
COPYING = ".copying"
#: Number of copies kept from before migrations, and from before restores.
KEPT = 3
PARTIAL = ".partial"
#: A time in the name of a file or schema: see `compact`.
STAMP = r"\d{8}t\d{12}"

#: Pages copied between two reports of progress.
_PORTION = 4_096
#: Bytes that a copy leaves free on the disk.
_MARGIN = 16 * 1024 * 1024
#: PostgreSQL cuts names after 63 characters. The end of a copy's name (`_before_0002_20261115t183608123456`) makes it
#: unique, so Engram shortens the beginning, the store's schema, instead.
_LONGEST_PREFIX = 63 - 34


def sqlite(
    path: str, label: str, clock: Clock, progress: Progress | None = None, *, key: bytes | None = None
) -> str | None:
    """Copy the store's last committed state into a file beside it. Returns its path, or None if the store has no data.

    The caller holds the write lock, so no other copy is running and every draft is abandoned. The copy uses a separate
    connection, which sees the state before the caller's transaction. The copy of an encrypted store has its `key`.
    """
    from . import database

    remove_drafts(path)
    source = database.connect(path, key)
    try:
        ((has_data,),) = source.execute("SELECT EXISTS (SELECT 1 FROM changes)").fetchall()
        if not has_data:
            return None
        return keep(source, path, label, clock, progress, key=key)
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
    key: bytes | None = None,
) -> str:
    """Copy what a connection sees into `path.label-time`. Removes older copies of that kind, except `spared`."""
    copy = f"{path}.{label}-{compact(clock.now())}"
    require_space(path, size(path) + size(f"{path}-wal"), f"A copy of {path}")
    draft = f"{copy}{PARTIAL}"
    try:
        write(source, draft, progress, key=key)
        os.rename(draft, copy)
    except BaseException:
        remove(draft)
        raise
    sync(os.path.dirname(path))
    _prune(path, label, copy, spared)
    return copy


def write(source: apsw.Connection, file: str, progress: Progress | None = None, *, key: bytes | None = None) -> None:
    """Copy a whole database into one new file, and wait until it is on the disk. Both have the same `key`, or none.

    The copy is of one state, also in several steps: between two steps of its own, SQLite would notice the commits of
    other processes and begin again, which might never end.
    """
    from . import database

    if not source.in_transaction:
        source.execute("BEGIN")
        try:
            source.execute("SELECT 1 FROM sqlite_schema").fetchall()
            write(source, file, progress, key=key)
        finally:
            # SQLite may have ended the transaction itself, for example on a disk error.
            if source.in_transaction:
                source.execute("ROLLBACK")
        return

    # No connection has this file open yet, so creating it here, for its mode, drops no lock.
    make_file(file)
    target = database.connect(file, key)
    try:
        # Otherwise SQLite takes it from the first page of the source, which an encrypted file cannot do.
        target.execute(f"PRAGMA page_size={int(source.pragma('page_size'))}")
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


def require_space(path: str, needed: int, what: str) -> None:
    """Raise StoreFull before anything is written, so that a copy never fills the disk of `path`."""
    folder = os.path.dirname(path)
    disk = os.statvfs(folder)
    free = disk.f_bavail * disk.f_frsize
    if free < needed + _MARGIN:
        raise StoreFull(
            f"{what} needs {_megabytes(needed + _MARGIN)} MB, of which {_megabytes(_MARGIN)} MB stay free. The disk of "
            f"{folder} has {_megabytes(free, down=True)} MB free; nothing was changed. Free some space and try again."
        )


def size(path: str) -> int:
    """The size of a file in bytes; 0 if it does not exist."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def is_alive(process: str) -> bool:
    """Whether a process of this id runs."""
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except (OSError, ValueError):
        pass  # The process belongs to another user, or this is no id, so nothing is known.
    return True


def remove_drafts(path: str) -> None:
    """Remove the incomplete copies that killed processes left beside the store."""
    for file in drafts(path):
        remove(file)


def drafts(path: str) -> list[str]:
    """The incomplete copies beside a store. Another process may be writing one.

    An earlier release wrote drafts under the final name. Such a draft has a journal.
    """
    incomplete = rf"(before-\w+-{STAMP}(?:{re.escape(PARTIAL)}(?:-journal)?|-journal))"
    found = [file.removesuffix("-journal") for file, _ in _beside(path, incomplete)]
    return list(dict.fromkeys(found))


def abandoned(path: str) -> list[str]:
    """Drafts of restores and of new stores that killed processes left beside a store."""
    return [file for file, is_used in _of_processes(path) if not is_used]


def in_use(path: str) -> list[str]:
    """Drafts beside a store that restores and makers of new stores are writing now."""
    return [file for file, is_used in _of_processes(path) if is_used]


def _of_processes(path: str) -> list[tuple[str, bool]]:
    """The drafts beside a store that have the id of a process in their names, and whether it runs."""
    made = rf"(?:new-(\d+)-\d+|incoming-(\d+)-{STAMP}0?(?:{re.escape(PARTIAL)})?)(?:-journal|-wal|-shm)?"
    return [(file, any(is_alive(id) for id in ids if id)) for file, ids in _beside(path, made)]


def _beside(path: str, end: str) -> list[tuple[str, tuple[str | None, ...]]]:
    """The files whose name is the store's, a dot, and an end that fits a pattern; each with the pattern's groups.

    The whole name must fit: the user may have files with similar names there.
    """
    folder, name = os.path.split(path)
    pattern = re.compile(rf"{re.escape(name)}\.{end}", re.ASCII)
    fits = [(file, pattern.fullmatch(file)) for file in sorted(os.listdir(folder))]
    return [(os.path.join(folder, file), found.groups()) for file, found in fits if found]


def remove(file: str) -> None:
    """Remove an unused database with its log, index and journal."""
    with suppress(FileNotFoundError):
        os.unlink(file)
    remove_helpers(file)


def remove_helpers(file: str) -> None:
    """Remove the log, index and journal beside a database, but not the database."""
    for end in OF_SQLITE:
        with suppress(FileNotFoundError):
            os.unlink(f"{file}{end}")


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


def surplus(oldest_first: Sequence[str], keep: int, made: str) -> list[str]:
    """All but the newest `keep`. The one that was just made counts as the newest: if the clock was ahead when earlier
    ones were made, it has the oldest time in its name."""
    others = [each for each in oldest_first if each != made]
    return others[: max(0, len(others) - keep + 1)]


def postgres(connection: psycopg.Connection, schema: str, label: str, clock: Clock) -> str | None:
    """Copy every table into a new schema. Returns its name, or None if the store has no data."""
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
        for name in _surplus([name for (name,) in found.fetchall() if re.search(r"_before_\d{4}_", name)], copy):
            connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))
    return copy


def prefix(schema: str) -> str:
    """The beginning of the names of a PostgreSQL store's copies."""
    return f"{schema[:_LONGEST_PREFIX]}_before_"


def _is_copy(file: str, store: str) -> bool:
    label = file.removesuffix(PARTIAL)[len(store) + 1 :]
    return file.startswith(f"{store}.") and bool(re.fullmatch(rf"(before-\w+|incoming-\d+)-{STAMP}", label))


def _prune(path: str, label: str, made: str, spared: str | None) -> None:
    """Keep only the newest copies of a kind, with the one just made. The copies from before any migration are one
    kind."""
    folder, name = os.path.split(path)
    kind = r"\d{4}" if label[-4:].isdigit() else re.escape(label.removeprefix("before-"))
    pattern = re.compile(re.escape(f"{name}.before-") + kind + f"-{STAMP}")
    found = [file for file in os.listdir(folder) if pattern.fullmatch(file)]
    for file in _surplus(found, os.path.basename(made)):
        if os.path.join(folder, file) != spared:
            remove(os.path.join(folder, file))


def _surplus(names: list[str], made: str) -> list[str]:
    return surplus(sorted(names, key=_stamp), KEPT, made)


def _stamp(name: str) -> str:
    return name.removesuffix(PARTIAL)[-len("20261115t183608123456") :]


def _megabytes(size: int, *, down: bool = False) -> str:
    """What is needed is rounded up, and what is free down, so that the two never look equal."""
    tenths = size // 100_000 if down else -(-size // 100_000)
    return f"{tenths / 10:,.1f}"
