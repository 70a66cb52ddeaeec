"""Reads the database of Lyra, a companion: what was said, summaries of sessions, months, and what she knows of herself.

A summary covers its session up to an exchange; it comes directly after that one. Embeddings come along, and are used
only if the user says which model they are from.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from . import times
from .foreign import opened
from .formats import Format
from .items import BlockItem, BlockVersion, EndItem, GistItem, MemoryItem, SessionItem, Skipped, Turn
from .recognise import databases
from .values import (
    Unusable,
    identifier,
    items,
    json_value,
    known,
    moment,
    naive_zone,
    text,
    vector,
    whole,
    words,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo
    from pathlib import Path

    from .files import Source
    from .foreign import ForeignDatabase, Record
    from .items import Item, Options

NAME = "lyra"
_ROLES = {
    **dict.fromkeys(("user", "human", "person"), "user"),
    **dict.fromkeys(("assistant", "lyra", "ai", "bot", "model", "companion", "agent"), "assistant"),
    **dict.fromkeys(("tool", "function", "tool_call", "tool_result"), "tool"),
    "log": "log",
}
#: Roles with another name say something about the talk.
_OTHER_ROLE = "system"
#: The block of each table, and the id of the row that it holds. A row with another id has a block of its own.
_BLOCKS = {"profile": ("profile", "self"), "narrative": ("narrative", "current"), "self_state": ("self", "lyra")}


class _Summary(NamedTuple):
    """A summary, and how far it goes: up to an exchange, or if that is not known, up to its time."""

    text: str
    at: str | None
    until: int | None

    def ends_before(self, number: int, at: str | None) -> bool:
        if self.until is not None:
            return number > self.until
        return self.at is not None and at is not None and at > self.at


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
        self._exchanges = db.grouped("exchanges", "session_id")
        self._summaries = db.grouped("summaries", "session_id")
        self._sessions = db.grouped("sessions", "id")

    def read(self) -> Iterator[Item]:
        self._db.expect("exchanges", "summaries", "eras")
        for grouping in (self._sessions, self._exchanges, self._summaries):
            yield from grouping.build()
        for id in self._exchanges:
            yield from self._session(id)
        for id in self._sessions:
            if id not in self._exchanges:
                yield from self._session(id)
        for id in self._summaries:
            if id not in self._exchanges and id not in self._sessions:
                yield from self._session(id)
        yield from items(
            self._db.records("eras", "month", "content", "embedding", "session_count", "created_at"), self._era
        )
        for table in _BLOCKS:
            columns = ("id", "content", "data", "sessions_covered", "updated_at")
            yield from items(self._db.records(table, *columns), partial(self._block, table))

    def _session(self, id: str) -> Iterator[Item]:
        row = self._sessions.first(id, "name", "created_at")
        first, last = self._exchanges.first(id, "created_at"), self._exchanges.last(id, "created_at")
        created = None if row is None else times.moment(row.values["created_at"], self._zone)
        yield SessionItem(
            id,
            NAME,
            started_at=created or self._time(first),
            last_at=self._time(last) or created,
            project=self._project,
            name=None if row is None else words(row.values["name"]),
        )
        yield from self._said(id)
        yield EndItem(id)

    def _said(self, id: str) -> Iterator[Item]:
        """The turns of a session, each summary directly after the last turn that it covers."""
        summaries: list[_Summary] = []
        for record in self._summaries.of(id, "content", "last_exchange_id", "created_at"):
            try:
                summaries.append(self._summary(record))
            except Unusable as error:
                yield Skipped(record.where, str(error))
        summaries.sort(key=lambda summary: (summary.until is None, summary.until or 0))
        is_begun = False
        columns = ("id", "role", "content", "embedding", "created_at")
        for record in self._exchanges.of(id, *columns):
            if isinstance(record, Skipped):
                yield record
                continue
            number = whole(record.values["id"])
            number = record.number if number is None else number
            while summaries and summaries[0].ends_before(number, self._time(record)):
                yield _told(id, summaries.pop(0), is_begun)
            for turn in items([record], partial(self._turn, id)):
                is_begun = is_begun or isinstance(turn, Turn)
                yield turn
        for summary in summaries:
            yield _told(id, summary, is_begun)

    def _summary(self, record: Record | Skipped) -> _Summary:
        if isinstance(record, Skipped):
            raise Unusable(record.why)
        row = record.values
        content = text(row["content"], "content")
        return _Summary(content, moment(row["created_at"], self._zone), whole(row["last_exchange_id"]))

    def _turn(self, session: str, record: Record) -> Turn:
        row = record.values
        name = text(row["role"], "role").strip().lower()
        role = _ROLES.get(name, _OTHER_ROLE)
        return Turn(
            session,
            role,
            text(row["content"], "content"),
            moment(row["created_at"], self._zone),
            identifier(record.number if row["id"] is None else row["id"], "id"),
            trust=None if role != _OTHER_ROLE or name == _OTHER_ROLE else "import",
            vector=vector(row["embedding"]),
        )

    def _era(self, record: Record) -> MemoryItem:
        row = record.values
        month = text(row["month"], "month").strip()
        if not _is_month(month):
            raise Unusable("impossible date")
        return MemoryItem(
            f"era-{month}",
            text(row["content"], "content"),
            "era",
            at=moment(row["created_at"], self._zone),
            key=month,
            data=known(sessions=whole(row["session_count"])),
            vector=vector(row["embedding"]),
        )

    def _block(self, table: str, record: Record) -> BlockItem | None:
        row = record.values
        block, own = _BLOCKS[table]
        id = own if row["id"] is None else identifier(row["id"], "id")
        name = block if id == own else f"{block}-{id}"
        at = moment(row["updated_at"], self._zone)
        if table == "self_state":
            written = text(row["data"], "data")
            state = json_value(written)
            content = written if state is None else _rendered(state)
            return BlockItem(name, (BlockVersion(content, at, actor=NAME),), data=state)
        if row["content"] is None or row["content"] == "":
            return None
        content = text(row["content"], "content")
        data = known(sessions_covered=whole(row["sessions_covered"]))
        return BlockItem(name, (BlockVersion(content, at, actor=NAME),), data=data or None)

    def _time(self, record: Record | None) -> str | None:
        return None if record is None else times.moment(record.values["created_at"], self._zone)


def _told(session: str, summary: _Summary, is_begun: bool) -> GistItem | MemoryItem:
    """A summary as the gist of the turns before it. One whose turns are not there any more is a note."""
    if is_begun:
        return GistItem(session, summary.text, summary.at)
    return MemoryItem(f"summary-{session}", summary.text, at=summary.at, data={"session": session})


def _is_month(value: str) -> bool:
    year, _, month = value.partition("-")
    return (
        len(year) == 4 and len(month) == 2 and value.isascii() and (year + month).isdecimal() and 1 <= int(month) <= 12
    )


def _rendered(state: object) -> str:
    """A state in words: a line for each of its values."""
    if not isinstance(state, dict) or not state:
        return json.dumps(state, ensure_ascii=False)
    return "\n".join(
        f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in state.items()
    )


FORMAT = Format(NAME, "the database of Lyra", find, read)
