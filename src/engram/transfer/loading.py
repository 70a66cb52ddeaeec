"""Reads an exported file back into a store.

Everything is one transaction: after an error or a kill nothing of the file is in the store. Numbers stay as they are if
the store is empty; otherwise they grow, see `renumbering`. Words are indexed here; vectors are in the file, or wait in
the embedding queue.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .. import checks, mutexes
from ..errors import InvalidInput, NotFound, StoreError, WorkspaceNotEmpty
from ..memory import embedding_models, imported_index
from ..setup_records import Loaded
from ..storage import database, rows
from . import column_values, json_values, jsonl, renumbering, vectors
from .renumbering import Renumbering
from .tables import EXPORTED, FEED, NUMBERED, OF_KIND, Moved

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..memory.word_index import Entry
    from ..storage.engine import Engine, Row, Transaction
    from ..store_view import StoreView

    #: Called with the number of bytes read and the total.
    Progress = Callable[[int, int], None]

_BUFFER = 1024 * 1024
_WORK = "work"
#: The kinds of records that recall finds.
_INDEXED = ("exchange", "memory")
#: Tables whose rows are told about in the change feed. Caches need no more, because the workspace was empty.
_NOTED = {"sessions": ("session", "id"), "blocks": ("block", "name"), "dreams": ("dream", "id")}
_EMPTIED = (
    "Prompts that waited for an agent were left out, because they quote the numbers of the other store. The next pass "
    "makes them again."
)


def load(view: StoreView, place: str, *, into: str | None = None, progress: Progress | None = None) -> Loaded:
    """Import an exported file. `into` is a new name for its workspace, if it has only one."""
    if view.engine.joined:
        raise InvalidInput("An export is imported in a transaction of its own, not inside write().")
    try:
        # To open a pipe may take for ever.
        if not stat.S_ISREG(mode := os.stat(place).st_mode) and not stat.S_ISDIR(mode):
            raise InvalidInput(f"{place} is no regular file; give the file that `engram export` wrote.")
        if database.is_of_store(place):
            raise InvalidInput(
                f"{place} is a store, or a file of one, and not an export. `engram restore` brings back a copy of a "
                "store, and `engram copy` copies one."
            )
        with open(place, "rb", buffering=_BUFFER) as file:
            return _Load(view.engine, jsonl.Reader(file, place), into, progress, os.path.getsize(place)).run()
    except FileNotFoundError as error:
        raise NotFound(f"There is no file {place}.") from error
    except IsADirectoryError as error:
        raise InvalidInput(f"{place} is a folder; give the file that `engram export` wrote.") from error
    except OSError as error:
        raise InvalidInput(f"{place} cannot be read: {error.strerror}.") from error


class _Load:
    """One import."""

    def __init__(
        self, engine: Engine, reader: jsonl.Reader, into: str | None, progress: Progress | None, size: int
    ) -> None:
        self._engine = engine
        self._reader = reader
        self._names = _names(reader.header.workspaces, into)
        self._progress = progress
        self._size = size
        self._counts: dict[str, int] = {}
        self._renumbering = Renumbering({})
        #: How long the vectors of each model are.
        self._lengths: dict[str, int] = {}
        #: The last number that the other store has given, by table.
        self._last: dict[str, int] = {}
        #: Columns that refer to rows of their own table, with the keys of the rows.
        self._own: dict[str, list[tuple[Row, object]]] = {}
        #: The project of each session, which its turns are indexed with.
        self._projects: dict[tuple[str, str], str | None] = {}
        #: The last number of an entry of each session.
        self._last_seqs: dict[tuple[str, str], int] = {}

    def run(self) -> Loaded:
        lines = iter(self._reader)
        self._last = self._last_numbers(lines)
        if self._engine.name == "postgres":
            # The server gives numbers to other writers at the same time, so the range is taken first.
            with self._engine.write() as tx:
                self._choose_numbers(tx)
        with self._engine.write() as tx:
            if self._engine.name != "postgres":
                self._choose_numbers(tx)
            for name in self._names.values():
                tx.lock(mutexes.leases(name))
                tx.lock(mutexes.memories(name))
                tx.lock(mutexes.embedding_queue(name))
                _require_empty(tx, name)
                imported_index.begin(tx, name)
            rest = self._tables(tx, lines)
            tx.analyse()
            self._vectors(tx, rest)
            for name in self._names.values():
                self._finish(tx, name)
                vectors.finish(tx, name)
                tx.note(name, "model", embedding_models.model_of(tx, name) or "")
        for name in self._names.values():
            embedding_models.keep_indexed(self._engine, name)
        notes = (_EMPTIED,) if self._renumbering and self._counts.get(_WORK) else ()
        if notes:
            self._counts[_WORK] = 0
        return Loaded(self._reader.name, tuple(self._names.values()), self._counts, bool(self._renumbering), notes)

    def _last_numbers(self, lines: Iterator[jsonl.Line]) -> dict[str, int]:
        """The last numbers of the other store, which come first in the file."""
        found = {FEED.name: self._reader.header.changes}
        for line in lines:
            if line.record == "end":
                missing = [table.name for table in NUMBERED if table.name not in found]
                if line.values.get("of") != "number" or missing:
                    raise self._reader.damaged("the last numbers of the tables are missing")
                return found
            of, last = line.values.get("of"), line.values.get("last")
            if line.record != "number" or not isinstance(of, str) or not column_values.is_number(last):
                raise self._reader.damaged("the last number of a table is expected here")
            found[of] = last
        raise self._reader.damaged("the file ends before its records")

    def _choose_numbers(self, tx: Transaction) -> None:
        """Keep the numbers if the store has nothing, or move all of them behind those that it has given.

        The numbers up to the last one are taken, so that nobody else gets them.
        """
        tables = (*NUMBERED, FEED)
        # Before the look, because on PostgreSQL others may be writing the first rows now.
        for table in tables:
            tx.lock_table(table)
        if not all(rows.is_empty(tx, moved.table) for moved in EXPORTED):
            self._renumbering = Renumbering({table.name: tx.last_number(table) for table in tables})
        for table in tables:
            new = self._renumbering.number(table.name, self._last[table.name])
            if not column_values.is_number(new):
                raise self._reader.damaged(f"the last number of {table.name!r} is too large for this store")
            tx.raise_number(table, new)

    def _tables(self, tx: Transaction, lines: Iterator[jsonl.Line]) -> Iterator[jsonl.Line]:
        """Insert the rows of all tables. Returns the lines after them."""
        for moved in EXPORTED:
            assert moved.record is not None
            self._counts[moved.record] = self._table(tx, moved, lines)
            for column in moved.own:
                self._set_own(tx, moved, column)
        return lines

    def _table(self, tx: Transaction, moved: Moved, lines: Iterator[jsonl.Line]) -> int:
        count = 0
        page: list[tuple[int, Row]] = []
        for line in lines:
            if line.record == "end":
                if line.values.get("of") != moved.record:
                    raise self._reader.damaged(f"the records of the kind {moved.record!r} are expected before this")
                self._insert(tx, moved, page)
                return count
            if line.record != moved.record:
                raise self._reader.damaged(f"a record of the kind {moved.record!r} is expected here")
            count += 1
            if self._renumbering and moved.record == _WORK:
                continue
            page.append((line.number, self._row(tx, moved, line)))
            if len(page) == rows.PAGE:
                self._insert(tx, moved, page)
                page = []
                if self._progress:
                    self._progress(self._reader.bytes, self._size)
        raise self._reader.damaged(f"the records of the kind {moved.record!r} do not end")

    def _row(self, tx: Transaction, moved: Moved, line: jsonl.Line) -> Row:
        """A record as a row of this store."""
        table = moved.table
        values = rows.as_values(table, jsonl.row_of(table, line, self._reader))
        for column in moved.json:
            if values[column] is not None and len(values[column]) > checks.MAX_TEXT * 64:
                raise self._reader.damaged(f"{column!r} is too long", line.number)
            if not json_values.is_right(table.name, column, values):
                raise self._reader.damaged(f"{column!r} is JSON of another kind than Engram writes", line.number)
        if "workspace" in values:
            name = self._names.get(values["workspace"])
            if name is None:
                raise self._reader.damaged("the header does not name this workspace", line.number)
            values["workspace"] = name
        if table.number is not None and not 0 < values[table.number] <= self._last[table.name]:
            raise self._reader.damaged(f"{table.number!r} is not among the numbers of its store", line.number)
        self._check_references(moved, values, line.number)
        if self._renumbering:
            try:
                values = self._renumbering.values(moved, values)
                if not all(
                    column_values.is_number(values[each.name] or 0) for each in table.columns if each.type is int
                ):
                    raise ValueError("a number is too large")
            except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
                raise self._reader.damaged(
                    f"the numbers in this {line.record!r} cannot be read", line.number
                ) from error
        if moved.record == "session":
            self._projects[values["workspace"], values["id"]] = values["project"]
            self._last_seqs[values["workspace"], values["id"]] = values["last_seq"]
        elif moved.record == "exchange" and values["seq"] > self._last_seqs.get(
            (values["workspace"], values["session_id"]), values["seq"]
        ):
            raise self._reader.damaged("'seq' is not among the numbers of its session", line.number)
        key = tuple(values[name] for name in table.key)
        for column in moved.own:
            if values[column] is not None:
                self._own.setdefault(f"{table.name}.{column}", []).append((key, values[column]))
                values[column] = None
        if table.name in _NOTED:
            what, column = _NOTED[table.name]
            tx.note(values["workspace"], what, values[column])
        return tuple(values[name] for name in table.names)

    def _check_references(self, moved: Moved, values: dict[str, Any], line: int) -> None:
        """Refuse a number that its table never gave, and a version before the first. The row itself may be gone."""
        of_kind = [(column, OF_KIND[values[kind]]) for column, kind in moved.by_kind if values[kind] in OF_KIND]
        for column, other in (*moved.numbers, *of_kind):
            if (values[column] or 0) > self._last[other]:
                raise self._reader.damaged(f"{column!r} is not among the numbers of the table {other!r}", line)
        # A proposal rests on sources in whatever version.
        for column in () if values.get("part") == "source" else ("version", "derived_version"):
            if values.get(column, 1) < 1:
                raise self._reader.damaged(f"{column!r} is not a number from 1 on", line)

    def _insert(self, tx: Transaction, moved: Moved, page: list[tuple[int, Row]]) -> None:
        if not page:
            return
        first, last = page[0][0], page[-1][0]
        self._stored(first, last, lambda: tx.insert_rows(moved.table, [row for _, row in page]))
        if moved.record in _INDEXED:
            self._index(tx, moved, page)

    def _set_own(self, tx: Transaction, moved: Moved, column: str) -> None:
        waiting = self._own.pop(f"{moved.table.name}.{column}", [])
        number = self._reader.number
        self._stored(number, number, lambda: rows.set_column(tx, moved.table, column, waiting))

    def _finish(self, tx: Transaction, workspace: str) -> None:
        number = self._reader.number
        self._stored(number, number, lambda: renumbering.finish(tx, workspace, self._renumbering))

    def _stored(self, first: int, last: int, write: Callable[[], None]) -> None:
        """Write rows. The store refuses what contradicts its schema."""
        try:
            # A nested transaction, so that the driver's error is one of Engram's.
            with self._engine.write() as tx:
                write()
                tx.flush()
        except StoreError as error:
            if type(error) is not StoreError:
                raise
            where = f"lines {first} to {last}" if last > first else f"line {first}"
            raise self._reader.damaged(f"the store refuses what is in {where} ({error})", first) from error

    def _index(self, tx: Transaction, moved: Moved, page: list[tuple[int, Row]]) -> None:
        """Index the words of turns and memories. Reading them again would take longer, above all on PostgreSQL."""
        entries: dict[str, list[Entry]] = {}
        for _, row in page:
            values = rows.as_values(moved.table, row)
            name = values["workspace"]
            project = self._projects.get((name, values["session_id"]))
            found = (
                imported_index.memory(values) if moved.record == "memory" else imported_index.exchange(values, project)
            )
            if found is not None:
                entries.setdefault(name, []).append(found)
        for name, group in entries.items():
            imported_index.add(tx, name, group)

    def _vectors(self, tx: Transaction, lines: Iterator[jsonl.Line]) -> None:
        """Store the vectors, if the file has some, and read up to its end."""
        page: list[vectors.Vector] = []
        for line in lines:
            if not self._reader.header.vectors:
                raise self._reader.damaged("the last line is expected here")
            if line.record == "end":
                if line.values.get("of") != vectors.RECORD:
                    raise self._reader.damaged("a vector is expected here")
                vectors.add(tx, page)
                self._counts[vectors.RECORD] = line.values["count"]
                for _ in lines:
                    raise self._reader.damaged("the last line is expected here")
                return
            if line.record != vectors.RECORD:
                raise self._reader.damaged("a vector is expected here")
            vector = self._vector(tx, line)
            if page and (page[0].workspace != vector.workspace or len(page) == rows.PAGE):
                vectors.add(tx, page)
                page = []
            page.append(vector)
        if self._reader.header.vectors:
            raise self._reader.damaged("the vectors are missing")

    def _vector(self, tx: Transaction, line: jsonl.Line) -> vectors.Vector:
        found = vectors.Vector(*jsonl.row_of(vectors.FORM, line, self._reader))
        if found.model not in self._lengths:
            self._lengths[found.model] = vectors.length(tx, found.model) or len(found.vector)
        # Recall compares them all at once, so one that differs would break it.
        if not found.vector or len(found.vector) != self._lengths[found.model]:
            raise self._reader.damaged("the vector has another length than others of its model", line.number)
        name = self._names.get(found.workspace)
        if name is None:
            raise self._reader.damaged("the header does not name this workspace", line.number)
        table = "exchanges" if found.kind == "exchange" else "memories"
        return found._replace(workspace=name, ref=self._renumbering.number(table, found.ref))


def _names(workspaces: tuple[str, ...], into: str | None) -> dict[str, str]:
    """What the workspaces of the file are called here."""
    if into is None:
        return {name: name for name in workspaces}
    if len(workspaces) != 1:
        raise InvalidInput(
            f"The file has {len(workspaces)} workspaces, which keep their names. Only a file with one can get another "
            "name; export a workspace alone for that."
        )
    return {workspaces[0]: checks.workspace(into)}


def _require_empty(tx: Transaction, workspace: str) -> None:
    for moved in EXPORTED:
        if not rows.is_empty(tx, moved.table, workspace):
            raise WorkspaceNotEmpty(
                f"Workspace {workspace!r} has content already ({moved.table.name}), and an import does not mix. "
                "Nothing was imported. A file with one workspace can be imported under another name.",
                workspace,
                typed="Use: engram import jsonl FILE --workspace OTHER",
            )
