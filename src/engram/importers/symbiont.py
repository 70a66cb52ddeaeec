"""Reads the database of Symbiont: a registry of sessions with their logs and locks, and one world state.

Its Python version writes times without a zone, in local time; its Elixir version writes UTC with `Z`. Both may have
written to one file. Sessions keep their ids, because people and programs know them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from . import times
from .foreign import opened
from .formats import Format
from .items import BlockItem, BlockVersion, EndItem, LockItem, SessionItem, Skipped, Turn
from .recognise import databases
from .values import Unusable, identifier, items, json_value, moment, naive_zone, text, words

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo
    from pathlib import Path

    from .files import Source
    from .foreign import ForeignDatabase, Grouping, Record
    from .items import Item, Options

NAME = "symbiont"
WORLD = "world"
_SESSION = (
    *("session_type", "summary", "status", "started_at", "last_heartbeat"),
    *("completed_at", "completion_summary", "metadata"),
)
_STATUSES = ("active", "completed", "abandoned")


def find(path: Path) -> list[Source]:
    return databases(path, NAME)


def read(source: Source, options: Options) -> Iterator[Item]:
    with opened(source.path, source) as db:
        yield from _Reader(db, options).read()


class _Reader:
    def __init__(self, db: ForeignDatabase, options: Options) -> None:
        self._db = db
        self._project = options.project
        self._zone: tzinfo | None = naive_zone(options, None)
        self._logs = db.grouped("session_logs", "session_id")
        self._locks = db.grouped("resource_locks", "session_id")
        self._known = db.grouped("sessions", "id")

    def read(self) -> Iterator[Item]:
        self._db.expect("sessions", "session_logs", "resource_locks")
        for grouping in (self._known, self._logs, self._locks):
            yield from grouping.build()
        for id in self._known:
            yield from self._session(id)
        for id in self._logs:
            if id not in self._known:
                yield from self._orphan(id)
        for id in self._locks:
            if id not in self._known and id not in self._logs:
                yield from self._orphan(id)
        yield from items(self._db.records("world_state", "id", "content", "updated_at", "updated_by"), self._world)

    def _session(self, id: str) -> Iterator[Item]:
        """A session that has a row, and what belongs to it."""
        is_first = True
        for record in self._known.of(id, *_SESSION):
            if not is_first:
                yield Skipped(record.where, "another row of the same session")
            elif isinstance(record, Skipped):
                yield record
                yield from self._orphan(id)
            else:
                yield self._described(id, record.values)
                yield from self._belongings(id)
            is_first = False

    def _described(self, id: str, row: dict[str, object]) -> SessionItem:
        started, heard, completed = (
            times.moment(row[name], self._zone) for name in ("started_at", "last_heartbeat", "completed_at")
        )
        status = (words(row["status"]) or "").lower()
        if status not in _STATUSES:
            status = "completed" if completed else "abandoned" if status else "active"
        return SessionItem(
            id,
            words(row["session_type"]) or NAME,
            started_at=started,
            last_at=self._last(id, started, heard, completed),
            project=self._project,
            metadata=_metadata(row["metadata"]),
            summary=words(row["summary"]),
            outcome=words(row["completion_summary"]),
            status=status,
            heartbeat_at=heard,
            keep_id=True,
        )

    def _orphan(self, id: str) -> Iterator[Item]:
        """What belongs to a session without a row, under a session that is made for it."""
        first = [self._time(grouping, id, first=True) for grouping in (self._logs, self._locks)]
        has_locks = id in self._locks
        yield SessionItem(
            id,
            NAME,
            started_at=min(filter(None, first), default=None),
            last_at=self._last(id),
            project=self._project,
            name=_orphan_name(id in self._logs, has_locks),
            # A lock of a session that has ended would not be a lock.
            status="active" if has_locks else "completed",
            heartbeat_at=self._last(id) if has_locks else None,
            keep_id=True,
        )
        yield from self._belongings(id)

    def _belongings(self, id: str) -> Iterator[Item]:
        """Logs and locks in order of time: locks are few, and each comes before the first log after it."""
        locks: list[LockItem] = []
        for item in items(self._locks.of(id, "resource", "locked_at", "note"), partial(self._lock, id)):
            if isinstance(item, LockItem):
                locks.append(item)
            else:
                yield item
        locks.sort(key=lambda lock: lock.at or "")
        for item in items(self._logs.of(id, "id", "timestamp", "entry"), partial(self._log, id)):
            while isinstance(item, Turn) and locks and item.at is not None and (locks[0].at or "") < item.at:
                yield locks.pop(0)
            yield item
        yield from locks
        yield EndItem(id)

    def _log(self, session: str, record: Record) -> Turn:
        row = record.values
        entry = text(row["entry"], "entry")
        number = None if row["id"] is None else identifier(row["id"], "id")
        return Turn(session, "log", entry, moment(row["timestamp"], self._zone), number)

    def _lock(self, session: str, record: Record) -> LockItem:
        row = record.values
        resource = text(row["resource"], "resource")
        return LockItem(session, resource, words(row["note"]), moment(row["locked_at"], self._zone))

    def _world(self, record: Record) -> BlockItem | None:
        row = record.values
        if row["id"] not in (1, None):
            raise Unusable("not the world state")
        if row["content"] is None or row["content"] == "":
            return None
        content = text(row["content"], "content")
        at = moment(row["updated_at"], self._zone)
        return BlockItem(WORLD, (BlockVersion(content, at, actor=words(row["updated_by"])),))

    def _last(self, id: str, *others: str | None) -> str | None:
        """The latest time of a session."""
        own = (self._time(grouping, id) for grouping in (self._logs, self._locks))
        return max(filter(None, (*others, *own)), default=None)

    def _time(self, grouping: Grouping, id: str, *, first: bool = False) -> str | None:
        """The time of the first or the last row of a session."""
        column = "timestamp" if grouping is self._logs else "locked_at"
        record = grouping.first(id, column) if first else grouping.last(id, column)
        return None if record is None else times.moment(record.values[column], self._zone)


def _metadata(value: object) -> dict[str, object]:
    """The metadata, which is a text of any kind: what is not a JSON object is kept as it is."""
    found = json_value(value)
    if isinstance(found, dict):
        return found
    return {} if words(value) is None else {"metadata": value}


def _orphan_name(has_logs: bool, has_locks: bool) -> str:
    what = " and ".join(name for name, there in (("logs", has_logs), ("locks", has_locks)) if there)
    return f"{what.capitalize()} without a session"


FORMAT = Format(NAME, "the database of Symbiont", find, read)
