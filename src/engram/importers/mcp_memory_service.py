"""Reads the memories of mcp-memory-service: its SQLite file, its older Chroma folder, or its JSON export.

Each memory has the hash of its text as its id, in all three. The vectors in the SQLite file are in tables of an
extension, and those of Chroma in files of its own; both are left out.
"""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

from . import chroma, times
from .files import json_items
from .foreign import Record, is_database, opened
from .formats import Format
from .items import MemoryItem, Skipped
from .json_values import Ids
from .recognise import DUMPS, ENDINGS, require, require_dump, sources
from .values import (
    Unusable,
    identifier,
    items,
    json_object,
    kind,
    known,
    moment,
    naive_zone,
    tags,
    text,
    texts,
    vector,
    words,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import tzinfo
    from pathlib import Path

    from .files import Source
    from .foreign import ForeignDatabase, Grouping
    from .items import Item, Options

NAME = "mcp-memory-service"
_KINDS = {
    **dict.fromkeys(("observation", "standard", "general", "memory"), "note"),
    **dict.fromkeys(("architecture", "tool_choice", "approach", "configuration"), "decision"),
    **dict.fromkeys(("learning", "insight", "best_practice", "anti_pattern", "gotcha"), "lesson"),
    **dict.fromkeys(("reference", "knowledge"), "fact"),
    "task": "todo",
}
_COLUMNS = (
    *("content_hash", "content", "tags", "memory_type", "metadata", "created_at", "created_at_iso"),
    *("updated_at", "updated_at_iso", "deleted_at", "superseded_by", "store"),
)
#: The names of times, best first. The oldest versions had only the last ones.
_CREATED = ("created_at", "created_at_iso", "timestamp_float", "timestamp", "timestamp_str")
_UPDATED = ("updated_at", "updated_at_iso")
#: What else the metadata of a document holds that is not the user's.
_OWN = frozenset((*_CREATED, *_UPDATED, "content_hash", "tags", "tags_str", "type", "memory_type", "content"))
#: Links of this type were found by similarity. Engram finds similar memories by itself.
_FOUND = "related"


def find(path: Path) -> list[Source]:
    return sources(path, (*ENDINGS, ".json"), _check)


def _check(source: Source) -> None:
    if is_database(source.path):
        require(source.path, NAME)
    else:
        require_dump(source, NAME)


def read(source: Source, options: Options) -> Iterator[Item]:
    reader = _Reader(options)
    if not is_database(source.path):
        yield from reader.dump(source)
        return
    with opened(source.path, source) as db:
        yield from reader.database(db)


class _Reader:
    def __init__(self, options: Options) -> None:
        self._project = options.project
        self._zone: tzinfo | None = naive_zone(options, UTC)

    def dump(self, source: Source) -> Iterator[Item]:
        ids = Ids()
        for item in json_items(source, DUMPS[NAME].key):
            if isinstance(item, Skipped):
                yield item
                continue
            number, value = item
            try:
                if not isinstance(value, dict):
                    raise Unusable("not a JSON object")
                found = self._memory(value, value.get("content"), json_object(value.get("metadata")))
                yield found._replace(id=ids.own(found.id, found.text), vector=vector(value.get("embedding")))
            except Unusable as error:
                yield Skipped(f"item {number}", str(error))

    def database(self, db: ForeignDatabase) -> Iterator[Item]:
        if db.has("memories", "content_hash", "content"):
            db.expect("memories")
            links = db.grouped("memory_graph", "source_hash")
            yield from links.build()
            for item in items(db.records("memories", *_COLUMNS), self._row):
                yield item._replace(links=tuple(_links(links, item.id))) if isinstance(item, MemoryItem) else item
        elif db.has("embedding_metadata"):
            yield from self._documents(db)

    def _row(self, record: Record) -> MemoryItem:
        row = record.values
        is_archived = row["deleted_at"] is not None or words(row["superseded_by"]) is not None
        return self._memory(row, row["content"], json_object(row["metadata"]), is_archived=is_archived)

    def _documents(self, db: ForeignDatabase) -> Iterator[Item]:
        for document in chroma.documents(db):
            if isinstance(document, Skipped):
                yield document
                continue
            fields = document.metadata
            metadata = json_object({name: value for name, value in fields.items() if name not in _OWN})
            try:
                yield self._memory({"content_hash": document.id, **fields}, document.text, metadata)
            except Unusable as error:
                yield Skipped(document.where, str(error))

    def _memory(
        self,
        fields: Mapping[str, object],
        content: object,
        metadata: dict[str, object],
        *,
        is_archived: bool = False,
    ) -> MemoryItem:
        created, updated = _first(fields, _CREATED), _first(fields, _UPDATED)
        at = moment(created, self._zone)
        changed = times.moment(updated, self._zone)
        labels = fields.get("tags") or fields.get("tags_str")
        store = words(fields.get("store"))
        return MemoryItem(
            identifier(fields.get("content_hash"), "content hash"),
            text(content, "content"),
            kind(fields.get("memory_type") or fields.get("type"), _KINDS),
            tags(texts(labels), [] if store in (None, "default") else [f"store:{store}"]),
            at=at,
            is_archived=is_archived,
            project=self._project,
            data=known(metadata=metadata, updated_at=changed if changed != at else None),
        )


def _first(fields: Mapping[str, object], names: tuple[str, ...]) -> object:
    return next((value for name in names if (value := fields.get(name)) not in (None, "")), None)


def _links(links: Grouping, hash: str) -> Iterator[tuple[str, str]]:
    """The memories that a memory is linked to, except those that are only similar."""
    for record in links.of(hash, "target_hash", "relationship_type"):
        if isinstance(record, Record):
            target, relation = (words(record.values[column]) for column in ("target_hash", "relationship_type"))
            if target is not None and relation is not None and relation != _FOUND:
                yield target, relation


#: The folder of backups beside it is left out: it may hold what was deleted since.
_PLACES = tuple(
    f"{folder}/mcp-memory/{name}"
    for folder in ("~/.local/share", "~/Library/Application Support")
    for name in ("sqlite_vec.db", "chroma_db")
)
FORMAT = Format(NAME, "the memories of mcp-memory-service", find, read, _PLACES)
