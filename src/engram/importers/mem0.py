"""Reads what mem0 keeps on a machine: the history of its memories, and vector stores that are plain SQLite files.

Also a dump of its API as JSON. A memory has the same id in all of them, so it does not matter if several are imported.
A local Qdrant or FAISS store holds pickled Python objects. Reading those runs code from the file, so they are refused;
the history has the same texts.
"""

from __future__ import annotations

from datetime import UTC
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from ..errors import NotOfFormat
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

NAME = "mem0"
#: The name of the array in a dump.
_RESULTS = DUMPS[NAME].key
_KIND = "fact"
_USER = ("user_id", "userId")
#: Who a memory belongs to, by the names in Python and in TypeScript.
_OWNERS = {"user_id": _USER, "agent_id": ("agent_id", "agentId"), "run_id": ("run_id", "runId")}
#: What else a payload holds that is not the user's metadata.
_OWN = frozenset(
    (
        *(name for names in _OWNERS.values() for name in names),
        *("id", "data", "memory", "hash", "created_at", "updated_at", "createdAt", "updatedAt", "text_lemmatized"),
        *("textLemmatized", "categories", "metadata", "score", "structured_attributes", "expiration_date"),
    )
)
_PICKLED = (
    "holds pickled Python objects, and reading those could run code from the file. Import mem0's history.db, or save "
    "what mem0's get_all() returns as a JSON file and import that."
)


def find(path: Path) -> list[Source]:
    # The history knows the least about a memory, so it comes last.
    return sorted(sources(path, (*ENDINGS, ".json"), _check), key=lambda source: source.name == "history.db")


def _check(source: Source) -> None:
    path = source.path
    if is_database(path):
        with opened(path, to_look=True) as db:
            if db.has("points", "id", "point"):
                raise NotOfFormat(f"{path} is a local store of Qdrant. It {_PICKLED}")
        require(path, NAME)
    elif source.head(1) == b"\x80":
        raise NotOfFormat(f"{path} {_PICKLED}")
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
        for item in json_items(source, _RESULTS):
            if isinstance(item, Skipped):
                yield item
                continue
            number, value = item
            try:
                if not isinstance(value, dict):
                    raise Unusable("not a JSON object")
                found = self._memory(value.get("id"), value.get("memory"), value)
                yield found._replace(id=ids.own(found.id, found.text))
            except Unusable as error:
                yield Skipped(f"item {number}", str(error))

    def database(self, db: ForeignDatabase) -> Iterator[Item]:
        if db.has("history", "memory_id"):
            yield from self._history(db, "history", ("old_memory", "new_memory", "event"))
        if db.has("memory_history", "memory_id"):
            yield from self._history(db, "memory_history", ("previous_value", "new_value", "action"))
        if db.has("vectors", "payload"):
            db.expect("vectors")
            yield from items(db.records("vectors", "id", "vector", "payload"), self._vector)
        if db.has("memories", "content", "state", "app_id"):
            yield from self._openmemory(db)
        if db.has("embedding_metadata"):
            for document in chroma.documents(db):
                if isinstance(document, Skipped):
                    yield document
                    continue
                try:
                    yield self._memory(document.id, document.metadata.get("data"), document.metadata)
                except Unusable as error:
                    yield Skipped(document.where, str(error))

    def _history(self, db: ForeignDatabase, table: str, columns: tuple[str, str, str]) -> Iterator[Item]:
        """What became of each memory, from its events. An event may be damaged; the others still tell."""
        db.expect(table)
        events = db.grouped(table, "memory_id")
        yield from events.build()
        for id in events:
            current: str | None = None
            is_deleted = False
            moments: dict[str, object] = {}
            fields: dict[str, object] = {}
            for record in events.of(id, *columns, "created_at", "updated_at", "is_deleted", "actor_id", "role"):
                if isinstance(record, Skipped):
                    yield record
                    continue
                row = record.values
                old, new, event = (row[column] for column in columns)
                is_deleted = event == "DELETE" or row["is_deleted"] == 1
                try:
                    current = text(old if is_deleted and new is None else new, "text")
                except Unusable as error:
                    if not is_deleted:
                        yield Skipped(record.where, str(error))
                moments["created_at"] = moments.get("created_at") or row["created_at"]
                moments["updated_at"] = row["updated_at"] or moments.get("updated_at")
                fields |= known(actor_id=words(row["actor_id"]), role=words(row["role"]))
            if current is None:
                continue
            try:
                yield self._memory(id, current, {**moments, "metadata": fields}, is_archived=is_deleted)
            except Unusable as error:
                yield Skipped(f"{table} of memory {id}", str(error))

    def _vector(self, record: Record) -> MemoryItem:
        payload = json_object(record.values["payload"])
        if not payload:
            raise Unusable("payload is not a JSON object")
        found = self._memory(record.values["id"], payload.get("data"), payload)
        return found._replace(vector=vector(record.values["vector"]))

    def _openmemory(self, db: ForeignDatabase) -> Iterator[Item]:
        """The database of OpenMemory, mem0's own server."""
        db.expect("memories")
        lookups = {
            "users": db.grouped("users", "id"),
            "apps": db.grouped("apps", "id"),
            "categories": db.grouped("categories", "id"),
            "labels": db.grouped("memory_categories", "memory_id"),
        }
        for grouping in lookups.values():
            yield from grouping.build()
        columns = ("id", "content", "user_id", "app_id", "metadata", "state", "created_at", "updated_at")
        yield from items(db.records("memories", *columns), partial(self._openmemory_row, lookups))

    def _openmemory_row(self, lookups: Mapping[str, Grouping], record: Record) -> MemoryItem:
        row = record.values
        id = identifier(row["id"], "id")
        labels = (
            label.values["category_id"]
            for label in lookups["labels"].of(id, "category_id")
            if isinstance(label, Record)
        )
        fields = {
            "user_id": _named(lookups["users"], row["user_id"], "user_id"),
            "categories": [name for label in labels if (name := _named(lookups["categories"], label, "name"))],
            "created_at": row["created_at"],
            "updated_at": row["updated_at"],
            "metadata": {**json_object(row["metadata"]), **known(app=_named(lookups["apps"], row["app_id"], "name"))},
        }
        is_archived = row["state"] not in ("active", "paused", None)
        return self._memory(_dashed(id), row["content"], fields, is_archived=is_archived)

    def _memory(
        self, id: object, content: object, fields: Mapping[str, object], *, is_archived: bool = False
    ) -> MemoryItem:
        """A memory from a payload or a dump. The user's own metadata is inside `metadata`, or beside it."""
        owners = {name: _first(fields, names) for name, names in _OWNERS.items()}
        created = moment(_first(fields, ("created_at", "createdAt")), self._zone)
        updated = times.moment(_first(fields, ("updated_at", "updatedAt")), self._zone)
        beside = {name: value for name, value in fields.items() if name not in _OWN and value is not None}
        metadata = {**json_object(fields.get("metadata")), **json_object(beside)}
        user = owners["user_id"]
        return MemoryItem(
            identifier(id, "id"),
            text(content, "text"),
            _KIND,
            tags(texts(fields.get("categories")), [] if user is None else [f"user:{user}"]),
            at=created or updated,
            is_archived=is_archived,
            project=self._project,
            data=known(**owners, metadata=metadata, updated_at=updated if updated != created else None),
        )


def _first(fields: Mapping[str, object], names: tuple[str, ...]) -> str | int | float | None:
    """The value under the first of some names that has one."""
    values = (fields.get(name) for name in names)
    return next((value for value in values if isinstance(value, str | int | float) and value != ""), None)


def _named(grouping: Grouping, id: object, column: str) -> str | None:
    """The name in the row with an id."""
    found = grouping.first(id, column) if isinstance(id, str) else None
    return None if found is None else words(found.values[column])


def _dashed(id: str) -> str:
    """An id in the form that mem0's other files have it in."""
    try:
        return str(UUID(id))
    except ValueError:
        return id


FORMAT = Format(NAME, "mem0's history, vector stores and dumps", find, read, ("~/.mem0",))
