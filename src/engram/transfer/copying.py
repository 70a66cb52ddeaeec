"""Copies a whole store into an empty one, row by row, so source and target may be on different engines.

The source is read in one transaction. The target gets the rows table by table, in the order of their keys, in short
transactions. At the end both have the same number of rows and the same hash in every table, or the copy fails.

**Resuming.** What an interrupted copy left is compared with the source before anything else: a table that is equal is
kept, the one that was being written goes on after its last row, and from the first table that differs on everything is
copied again. So a copy is right even if the source has changed since.

**Where an unfinished copy is.** On SQLite it is a file beside the target's path, `….copying`, which gets the target's
name at the end. On PostgreSQL it is in the target's schema, and a comment on the table of migrations says so.

**Two copies into one target.** On SQLite a lock file refuses the second. On PostgreSQL a lock would need a connection
of its own for hours. There the comment names the running copy: the second takes over what is there, and the first
notices it with its next write and stops.

**Encryption.** A new file is encrypted if the source is. If the target exists, it stays as it is, encrypted or not, and
an unfinished copy is encrypted if either of the two is.

Columns that refer to rows of their own table are set after all rows are there, and are left out of the comparison until
then.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from ..errors import InvalidInput, StoreBusy, StoreDamaged, StoreFull, StoreNotEmpty
from ..lock_file import Lock
from ..memory import embedding_models
from ..private_files import make_folder, sync
from ..setup_records import Copied
from ..storage import backup, helper_names, rows
from ..storage.changes import workspaces
from ..store_url import masked
from .tables import TABLES, Moved

if TYPE_CHECKING:
    from ..clock import Clock
    from ..storage.engine import Engine, Row, Transaction
    from ..storage.keys import Keys
    from ..storage.rows import Table

    #: Called with the number of rows copied and the total.
    Progress = Callable[[int, int], None]
    #: Opens the store at a URL, and makes it if there is none, encrypted or as the settings say.
    Open = Callable[[str, bool], Engine]

#: How the remark of an unfinished copy begins, and what is before the name of the copy that writes it.
_REMARK, _RUN = "engram copy: ", ", by "
_LOCK = "copy"
#: Rows written in one transaction.
_PORTION = 2_000
#: Seconds after which the source is asked for something, so that its server does not end the transaction.
_IDLE = 10.0


def copy_store(
    source: Engine,
    source_url: str,
    target_url: str,
    open_target: Open,
    keys: Keys,
    progress: Progress | None = None,
) -> Copied:
    """Copy every table. `keys` are those of the target."""
    shown = masked(source_url)
    if source_url == target_url:
        raise InvalidInput(f"{shown} cannot be copied to itself.")
    with _alone(target_url) as name:
        finished = _finished(source, shown, target_url, open_target)
        if finished is not None:
            return finished
        encrypted = source.is_encrypted
        _require_space(source, source_url, target_url)
        with _unfinished(target_url, shown, name, open_target, keys, encrypted=encrypted) as target:
            with source.read() as tx:
                copy = _Copy(tx, target, progress)
                copy.run()
                copied = workspaces(source)
            for workspace in copied:
                embedding_models.keep_indexed(target.engine, workspace)
    return Copied(shown, masked(target_url), copy.counts, copy.resumed, encrypted and target.is_plain)


def _require_space(source: Engine, source_url: str, target_url: str) -> None:
    """Raise StoreFull before anything is written. What a server's store takes tells nothing about a file."""
    if not any(url.startswith("postgresql://") for url in (source_url, target_url)):
        # An empty store that is there already is restored from the copy, through a draft.
        times = 3 if os.path.exists(target_url) else 1
        needed = times * source.size() - backup.size(f"{target_url}{backup.COPYING}")
        backup.require_space(target_url, max(0, needed), f"A copy of {source_url}")


class _Target(NamedTuple):
    """A store that is being written."""

    engine: Engine
    #: Whether it is not encrypted in the end.
    is_plain: bool
    #: What its remark says while this copy runs.
    remark: str | None = None

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """A transaction. Raises StoreBusy if another copy has taken over."""
        with self.engine.write() as tx:
            if self.remark is not None:
                tx.lock(_LOCK)
                if self.engine.remark() != self.remark:
                    raise StoreBusy("Another copy into the same store has begun and goes on; this one has stopped.")
            yield tx


class _Copy:
    """One copy, from a transaction of the source into the target."""

    def __init__(self, source: Transaction, target: _Target, progress: Progress | None) -> None:
        self._source = source
        self._target = target
        self._progress = progress
        self._asked = time.monotonic()
        self._total = 0
        self.counts: dict[str, int] = {}
        #: How many rows were there already.
        self.resumed = 0

    def run(self) -> None:
        totals = {moved.table.name: rows.count(self._source, moved.table) for moved in TABLES}
        self._total = sum(totals.values())
        kept = self._keep_equal(totals)
        for moved in TABLES[kept:]:
            self._copy(moved)
        self._link()
        self._verify()

    def _keep_equal(self, totals: dict[str, int]) -> int:
        """Compare what is there. Deletes everything from the first table on that cannot stay; how many are complete."""
        for place, moved in enumerate(TABLES):
            with self._target.engine.read() as tx:
                there = rows.count(tx, moved.table)
                same = there <= totals[moved.table.name] and self._is_beginning(tx, _compared(moved))
            complete = same and there == totals[moved.table.name]
            if complete:
                self.resumed += there
                self.counts[moved.table.name] = there
                continue
            self._clear(TABLES[place + 1 :] if same else TABLES[place:])
            return place
        return len(TABLES)

    def _is_beginning(self, target: Transaction, table: Table) -> bool:
        """Whether the rows in the target are the first ones of the source."""
        ours, theirs = self._pages(self._source, table), rows.pages(target, table)
        # Pages have the same size on both sides; only the last one of the target may be shorter.
        return all(page == next(ours, [])[: len(page)] for page in theirs)

    def _clear(self, tables: tuple[Moved, ...]) -> None:
        """Empty tables, those first that refer to others."""
        for moved in reversed(tables):
            with self._target.write() as tx:
                if not rows.is_empty(tx, moved.table):
                    rows.clear(tx, moved.table)

    def _copy(self, moved: Moved) -> None:
        """Write the rows that a table does not have yet."""
        table = moved.table
        with self._target.engine.read() as tx:
            there = rows.count(tx, table)
        self.resumed += there
        done = 0
        waiting: list[Row] = []
        own = [table.names.index(column) for column in moved.own]
        for page in self._pages(self._source, table):
            new = page[max(0, there - done) :]
            done += len(page)
            waiting += [_without(row, own) for row in new]
            if len(waiting) >= _PORTION:
                self._write(table, waiting)
                waiting = []
                if self._progress:
                    self._progress(sum(self.counts.values()) + done, self._total)
        self._write(table, waiting)
        self.counts[table.name] = done

    def _write(self, table: Table, waiting: list[Row]) -> None:
        if waiting:
            with self._target.write() as tx:
                tx.insert_rows(table, waiting)

    def _link(self) -> None:
        """Set the columns that refer to rows of their own table, and the last numbers."""
        for moved in TABLES:
            for column in moved.own:
                place = moved.table.names.index(column)
                keys = [moved.table.names.index(name) for name in moved.table.key]
                with self._target.write() as tx:
                    rows.blank_column(tx, moved.table, column)
                    for page in self._pages(self._source, moved.table):
                        found = [
                            (tuple(row[key] for key in keys), row[place]) for row in page if row[place] is not None
                        ]
                        rows.set_column(tx, moved.table, column, found)
        with self._target.write() as tx:
            for moved in TABLES:
                if moved.table.number:
                    tx.raise_number(moved.table, self._source.last_number(moved.table))
            tx.analyse()

    def is_complete(self) -> bool:
        """Whether both stores have the same rows already."""
        with self._target.engine.read() as tx:
            for moved in TABLES:
                if rows.count(self._source, moved.table) != rows.count(tx, moved.table):
                    return False
            for moved in TABLES:
                here, there = self._digests(tx, moved.table)
                if here != there:
                    return False
                self.counts[moved.table.name] = here[0]
        return True

    def _verify(self) -> None:
        """Raise StoreDamaged unless every table has the same rows in both stores."""
        with self._target.engine.read() as tx:
            for moved in TABLES:
                here, there = self._digests(tx, moved.table)
                if here != there:
                    raise StoreDamaged(
                        f"The copy of {moved.table.name} differs from its source ({there[0]} rows, expected "
                        f"{here[0]}). Another process may have written to the target. Run the copy again; it resumes."
                    )

    def _digests(self, target: Transaction, table: Table) -> tuple[tuple[int, str], tuple[int, str]]:
        """The number and the hash of a table's rows in the source and in the target."""
        here, there = rows.Digest(), rows.Digest()
        for page in self._pages(self._source, table):
            here.add(page)
        for page in self._pages(target, table):
            there.add(page)
        return here.value(), there.value()

    def _pages(self, tx: Transaction, table: Table) -> Iterator[list[Row]]:
        for page in rows.pages(tx, table):
            yield page
            if time.monotonic() - self._asked > _IDLE:
                self._source.now()
                self._asked = time.monotonic()


def _compared(moved: Moved) -> Table:
    """The table without the columns that are set at the end."""
    columns = tuple(column for column in moved.table.columns if column.name not in moved.own)
    return moved.table._replace(columns=columns)


def _without(row: Row, places: list[int]) -> Row:
    return tuple(None if place in places else value for place, value in enumerate(row)) if places else row


@contextmanager
def _opened(url: str, open_target: Open, encrypted: bool = False) -> Iterator[Engine]:
    engine = open_target(url, encrypted)
    try:
        yield engine
    finally:
        engine.close()


def _is_empty(engine: Engine) -> bool:
    with engine.read() as tx:
        return all(rows.is_empty(tx, moved.table) for moved in TABLES)


@contextmanager
def _alone(url: str) -> Iterator[str]:
    """A name for this copy. On SQLite it is the only one into its target, and the target's path can be used."""
    name = secrets.token_hex(8)
    if url.startswith("postgresql://"):
        yield name
        return
    from ..storage.sqlite_errors import translate_os

    helper_names.refuse(url)
    draft = f"{url}{backup.COPYING}"
    for path in (url, draft):
        if os.path.islink(path) and (path == draft or not os.path.exists(path)):
            raise InvalidInput(f"{path} is a symbolic link; nothing was copied. Remove it, or name another target.")
    try:
        make_folder(os.path.dirname(url))
        lock = Lock.take(f"{draft}-lock")
    except OSError as error:
        raise translate_os(error, url) from error
    if lock is None:
        raise StoreBusy(f"Another copy into {url} is running; nothing was copied. Wait for it, or end it.")
    try:
        yield name
    finally:
        lock.release()


def _finished(source: Engine, shown: str, url: str, open_target: Open) -> Copied | None:
    """What to say if an earlier copy was finished, so that the target has the same rows. None if it is empty.

    A copy that is killed at its end cannot tell this, and is run again.
    """
    is_file = not url.startswith("postgresql://")
    if is_file and not os.path.exists(url):
        return None
    with _opened(url, open_target) as engine:
        if engine.remark() is not None or _is_empty(engine):
            return None
        target = _Target(engine, not engine.is_encrypted)
        with source.read() as tx:
            copy = _Copy(tx, target, None)
            if not copy.is_complete():
                raise _not_empty(url)
        if is_file:
            # Its second name, which it had until its end.
            backup.remove(f"{url}{backup.COPYING}")
        is_plain = source.is_encrypted and target.is_plain
        return Copied(shown, masked(url), copy.counts, sum(copy.counts.values()), is_plain)


@contextmanager
def _unfinished(
    url: str, source: str, name: str, open_target: Open, keys: Keys, *, encrypted: bool
) -> Iterator[_Target]:
    """The target while it is being written. When the block ends without an error, it is the store at the URL.

    `encrypted` says whether the source is.
    """
    if url.startswith("postgresql://"):
        with _opened(url, open_target) as engine:
            target = _Target(engine, True, _mark(engine, url, source, name))
            yield target
            with target.write():
                engine.set_remark(None)
        return
    is_there, is_plain = os.path.exists(url), False
    if is_there:
        with _opened(url, open_target) as engine:
            if not _is_empty(engine):
                raise _not_empty(url)
            is_plain = not engine.is_encrypted
            encrypted = encrypted or engine.is_encrypted
    draft = f"{url}{backup.COPYING}"
    if encrypted:
        _remove_plain(draft, open_target)
    try:
        with _opened(draft, open_target, encrypted) as engine:
            yield _Target(engine, is_plain if is_there else not engine.is_encrypted)
        _rename(draft, url, engine.clock, keys)
    except StoreFull as error:
        if not os.path.exists(draft):
            raise
        full = f"The disk that holds {draft} is full." if draft in str(error) else str(error)
        raise StoreFull(
            f"{full} What was copied is kept: free some space and run the command again, and it goes on; or "
            f"delete {draft}, {draft}-wal and {draft}-shm."
        ) from error


def _remove_plain(draft: str, open_target: Open) -> None:
    """Remove an unfinished copy that an earlier call began when neither store was encrypted."""
    if not os.path.exists(draft):
        return
    with _opened(draft, open_target) as engine:
        is_plain = not engine.is_encrypted
    if is_plain:
        backup.remove(draft)


def _mark(engine: Engine, url: str, source: str, name: str) -> str:
    """Say in the target that it is an unfinished copy, and which one writes it. Returns what was said."""
    unfinished = f"{_REMARK}an unfinished copy of {source}"
    with engine.write() as tx:
        tx.lock(_LOCK)
        found = engine.remark()
        if found is not None and found.startswith(_REMARK):
            of = found.rpartition(_RUN)[0] or found
            if of != unfinished:
                raise StoreNotEmpty(
                    f"{masked(url)} has {of.removeprefix(_REMARK)}. Finish that copy, or drop the schema."
                )
        elif not _is_empty(engine):
            raise _not_empty(url)
        engine.set_remark(f"{unfinished}{_RUN}{name}")
    return f"{unfinished}{_RUN}{name}"


def _rename(draft: str, path: str, clock: Clock, keys: Keys) -> None:
    """Give the finished copy its name. An empty store that is there already is replaced."""
    from ..storage import swap

    # Closing the last connection has put everything into the one file, if the disk had room for it.
    if os.path.exists(f"{draft}-wal") and not swap.empty_log(draft, keys):
        raise StoreBusy(f"Another process has {draft} open. End it, and run the copy again.")
    if os.path.exists(path):
        from ..storage import restore

        # Processes that use the empty store go on with the copy. What one of them writes now is in a backup.
        restore.sqlite(path, draft, clock, keys=keys, force=True)
    else:
        try:
            os.link(draft, path)
        except FileExistsError as error:
            raise _not_empty(path) from error
    os.unlink(draft)
    sync(os.path.dirname(path))


def _not_empty(url: str) -> StoreNotEmpty:
    return StoreNotEmpty(
        f"{masked(url)} is a store with content; nothing was copied. Name a store that does not exist yet, or an empty "
        "one."
    )
