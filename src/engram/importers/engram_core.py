"""Reads the database of engram-core: memories with tags and links, and blocks with the log of their edits.

Its versions differ, so every column but the text is read only if it is there. Times without a zone are UTC: SQLite
wrote them. One file may hold several workspaces. All are read; a memory of another workspace than `default` gets the
tag `workspace:<name>`.
"""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

from . import times
from .foreign import Record, opened
from .formats import Format
from .items import BlockItem, BlockVersion, MemoryItem, Skipped
from .recognise import databases
from .texts import cut
from .values import (
    Unusable,
    identifier,
    items,
    json_value,
    kind,
    known,
    moment,
    naive_zone,
    share,
    tags,
    text,
    texts,
    vector,
    whole,
    words,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import tzinfo
    from pathlib import Path

    from .files import Source
    from .foreign import ForeignDatabase
    from .items import Item, Options

NAME = "engram-core"
#: Characters of the reason of an edit. With the mark of a cut, it is as long as a reason may be.
_LONGEST_REASON = 490
_KINDS = {"learning": "lesson", "custom": "note"}
_MEMORY = (
    *("id", "content", "memory_type", "importance", "workspace", "created_at", "updated_at", "valid_to", "metadata"),
    *("tags", "lifecycle_state", "expires_at", "event_time", "scope_type", "scope_id"),
)
#: What a file says about a memory that has no scope and no workspace of its own.
_DEFAULTS = ("default", "global")
#: Links of this source were found by similarity. Engram finds similar memories by itself.
_FOUND = "auto"


def find(path: Path) -> list[Source]:
    return databases(path, NAME)


def read(source: Source, options: Options) -> Iterator[Item]:
    with opened(source.path, source) as db:
        yield from _Reader(db, options).read()


class _Reader:
    def __init__(self, db: ForeignDatabase, options: Options) -> None:
        self._db = db
        self._project = options.project
        self._zone: tzinfo | None = naive_zone(options, UTC)
        self._edits = db.grouped("block_edit_log", "block_name")
        self._blocks = db.grouped("memory_blocks", "name")
        self._labels = db.grouped("memory_tags", "memory_id")
        self._names = db.grouped("tags", "id")
        self._links = db.grouped("crossrefs", "from_id")
        self._vectors = db.grouped("embeddings", "memory_id")

    def read(self) -> Iterator[Item]:
        self._db.expect("block_edit_log", "memories")
        for grouping in (self._blocks, self._edits, self._labels, self._names, self._links, self._vectors):
            yield from grouping.build()
        for name in self._blocks:
            yield from self._block(name)
        for name in self._edits:
            if name not in self._blocks:
                yield Skipped(f"block_edit_log of {name!r}", "its block is not there")
        yield from items(self._db.records("memories", *_MEMORY), self._memory)

    def _block(self, name: str) -> Iterator[Item]:
        row = self._blocks.first(name, "content", "version", "max_tokens", "created_at", "updated_at")
        if row is None or not isinstance(row.values["content"], str):
            yield Skipped(f"memory_blocks {name!r}", "content is not text")
            return
        versions: list[BlockVersion] = []
        number = 0
        for record in self._edits.of(name, "old_content", "new_content", "edit_reason", "timestamp"):
            number += 1
            try:
                self._edit(versions, record)
            except Unusable as error:
                yield Skipped(record.where, str(error))
        created, updated = (times.moment(row.values[column], self._zone) for column in ("created_at", "updated_at"))
        is_whole = whole(row.values["version"]) in (None, number + 1)
        if versions and is_whole:
            versions[0] = versions[0]._replace(at=created)
        if not versions or versions[-1].content != row.values["content"]:
            versions.append(BlockVersion(row.values["content"], updated or created))
        yield BlockItem(name, versions, whole(row.values["max_tokens"], least=1))

    def _edit(self, versions: list[BlockVersion], record: Record | Skipped) -> None:
        """Add what an edit made, and before it the content that it found, if no edit before made that."""
        if isinstance(record, Skipped):
            raise Unusable(record.why)
        old, new, reason = (record.values[column] for column in ("old_content", "new_content", "edit_reason"))
        if not isinstance(old, str) or not isinstance(new, str):
            raise Unusable("content is not text")
        at = moment(record.values["timestamp"], self._zone)
        if not versions or versions[-1].content != old:
            # The log begins here, or lacks an edit. When this content was written is not known.
            versions.append(BlockVersion(old, versions[-1].at if versions else None))
        versions.append(BlockVersion(new, at, cut(words(reason) or "", _LONGEST_REASON)))

    def _memory(self, record: Record) -> MemoryItem:
        row = record.values
        content = text(row["content"], "content")
        at = moment(row["created_at"], self._zone)
        id = identifier(record.number if row["id"] is None else row["id"], "id")
        workspace = words(row["workspace"])
        is_elsewhere = workspace is not None and workspace not in _DEFAULTS
        own = [f"workspace:{workspace}"] if is_elsewhere else []
        return MemoryItem(
            _name(id, row["created_at"]),
            content,
            kind(row["memory_type"], _KINDS),
            tags(self._tags(id), texts(row["tags"]), own),
            share(row["importance"]),
            at,
            is_archived=row["valid_to"] not in (None, "") or row["lifecycle_state"] == "archived",
            project=self._project,
            data=self._data(row, workspace if is_elsewhere else None),
            links=tuple(self._related(id)),
            vector=self._vector(id),
        )

    def _data(self, row: dict[str, object], workspace: str | None) -> dict[str, object]:
        metadata = json_value(row["metadata"])
        scope = words(row["scope_type"])
        return known(
            metadata=words(row["metadata"]) if metadata is None else metadata,
            workspace=workspace,
            scope=None if scope in (None, *_DEFAULTS) else f"{scope}:{words(row['scope_id']) or ''}",
            updated_at=_later(times.moment(row["updated_at"], self._zone), times.moment(row["created_at"], self._zone)),
            expires_at=times.moment(row["expires_at"], self._zone),
            event_time=times.moment(row["event_time"], self._zone),
        )

    def _tags(self, id: str) -> Iterator[str]:
        """The tags of a memory: names in the rows themselves, or in a table of their own."""
        for record in self._labels.of(id, "tag_id", "tag"):
            if isinstance(record, Record):
                name = words(record.values["tag"])
                number = record.values["tag_id"]
                if name is None and number is not None:
                    named = self._names.first(str(number), "name")
                    name = None if named is None else words(named.values["name"])
                if name is not None:
                    yield name

    def _related(self, id: str) -> Iterator[tuple[str, str]]:
        """The memories that a memory is linked to, by a person or a model."""
        for record in self._links.of(id, "to_id", "edge_type", "source", "valid_to"):
            if isinstance(record, Skipped) or record.values["valid_to"] is not None:
                continue
            to, relation = record.values["to_id"], words(record.values["edge_type"])
            if isinstance(to, int) and record.values["source"] != _FOUND:
                target = self._db.record("memories", to, "created_at")
                if isinstance(target, Record):
                    yield _name(str(to), target.values["created_at"]), relation or "related_to"

    def _vector(self, id: str) -> Sequence[float] | None:
        found = self._vectors.first(id, "embedding")
        return None if found is None else vector(found.values["embedding"])


def _name(id: str, created: object) -> str:
    """The id of a memory. Two files count from 1, so the time belongs to it."""
    return f"{id}@{created}" if isinstance(created, str) else id


def _later(at: str | None, than: str | None) -> str | None:
    return at if at != than else None


FORMAT = Format(NAME, "the database of engram-core", find, read, ("~/.local/share/engram/memories.db",))
