"""Reads the file of MCP's reference memory server: entities with observations, and relations between them.

The file has one JSON object on each line. Each entity becomes one memory that says what it is, each observation and
each relation another; relations are linked to what they relate. The file has no ids, so what is said identifies a
memory. It has no times either: what it says held when it was last written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import EngramError, NothingToImport, NotOfFormat
from ..redact import redact
from . import exports, files
from .files import Source
from .formats import Format
from .items import MemoryItem, Skipped
from .json_values import Ids, array, digest, text
from .texts import short_line
from .times import moment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .items import Item, Options

#: Lines that are looked at to see whether a file has the format.
_LOOKED_AT = 20
#: Characters of a name that begins a memory.
_LONGEST_NAME = 200


def find(path: Path) -> list[Source]:
    if path.is_dir():
        found = [Source(file) for file in files.below(path, ".jsonl", "memory.json")]
        if fitting := [source for source in found if _fits(source)]:
            return fitting
        raise NothingToImport(f"There is no file of MCP's memory server in {path}; it is usually called memory.jsonl.")
    source = Source(path)
    if _fits(source) or not source.head().strip():
        return [source]
    what = exports.hint(source)
    raise NotOfFormat(f"{path} {what}." if what else f"{path} has no entities or relations of MCP's memory server.")


def _fits(source: Source) -> bool:
    # The head is enough, and a line that is cut off by its end is not counted.
    try:
        looked_at = source.head().split(b"\n")[:_LOOKED_AT]
    except EngramError:
        return False
    for line in looked_at:
        record = files.parsed(line, "")
        if isinstance(record, dict) and record.get("type") in ("entity", "relation"):
            return True
    return exports.kind_of(source) == "server-memory"


def read(source: Source, options: Options) -> Iterator[Item]:
    return exports.guarded(source, _read(source, options))


def _read(source: Source, options: Options) -> Iterator[Item]:
    at = _written(source)
    ids = Ids()
    for each in files.json_lines(source):
        if isinstance(each, Skipped):
            yield each
            continue
        number, record = each
        where = f"line {number}"
        if record.get("type") == "entity":
            yield from _entity(record, where, at, ids, options)
        elif record.get("type") == "relation":
            yield from _relation(record, where, at, options)
        else:
            yield Skipped(where, "neither an entity nor a relation")


def _written(source: Source) -> str | None:
    try:
        return moment(source.path.stat().st_mtime)
    except OSError:
        return None


def _entity(record: dict[str, object], where: str, at: str | None, ids: Ids, options: Options) -> Iterator[Item]:
    name = text(record.get("name")).strip()
    if not name:
        yield Skipped(where, "an entity without a name")
        return
    kind = short_line(text(record.get("entityType")), 100)
    tags = [kind] if kind else []
    shown = short_line(name, _LONGEST_NAME)
    said = f"{shown}: {kind}" if kind else shown
    # Two entities may have one name. Relations name no type, so they belong to the first.
    yield MemoryItem(ids.own(_id(name), said), said, "fact", tags, at=at, project=options.project)
    seen = set()
    for place, given in enumerate(array(record.get("observations")), 1):
        observation = text(given).strip()
        if not observation:
            yield Skipped(f"{where}, observation {place}", "no text")
            continue
        id = f"observation-{digest(name, observation)}"
        if id in seen:
            continue
        seen.add(id)
        links = [(_id(name), "about")]
        yield MemoryItem(id, f"{shown}: {observation}", "fact", tags, at=at, project=options.project, links=links)


def _relation(record: dict[str, object], where: str, at: str | None, options: Options) -> Iterator[Item]:
    one, other = text(record.get("from")).strip(), text(record.get("to")).strip()
    relation = short_line(redact(text(record.get("relationType"))).replace("_", " "), 100)
    if not (one and other and relation):
        yield Skipped(where, "a relation that lacks a name")
        return
    said = f"{short_line(one, _LONGEST_NAME)} {relation} {short_line(other, _LONGEST_NAME)}"
    id = f"relation-{digest(one, relation, other)}"
    links = [(_id(one), "from"), (_id(other), "to")]
    yield MemoryItem(id, said, "fact", at=at, project=options.project, links=links)


def _id(entity: str) -> str:
    return f"entity-{digest(entity)}"


FORMAT = Format("server-memory", "the file of MCP's memory server", find, read)
