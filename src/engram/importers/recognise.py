"""Tells by its tables which system an SQLite file belongs to, so that a wrong format is refused with the right one."""

from __future__ import annotations

import shlex
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ..errors import NothingToImport, NotOfFormat
from ..other_systems import SYSTEMS, System, recognised
from .files import Source, below, json_items
from .foreign import opened
from .items import Skipped

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .foreign import ForeignDatabase

#: How the names of database files end.
ENDINGS = (".db", ".sqlite", ".sqlite3")
#: How many items of a dump are looked at until one can be read.
_LOOK = 20


_CHROMA = System(None, "Chroma", ())
#: Chroma's tables are the same for everybody; what is noted about each text tells whose it is.
_IN_CHROMA = (("mem0", ("data", "hash")), ("mcp-memory-service", ("content_hash", "chroma:document")))


def _is_chroma(db: ForeignDatabase) -> bool:
    return db.has("embeddings", "id", "embedding_id") and db.has("embedding_metadata", "id", "key", "string_value")


def _in_chroma(db: ForeignDatabase) -> System:
    """The system whose texts are in Chroma's tables."""
    for format, keys in _IN_CHROMA:
        if all(any(db.select("SELECT 1 FROM embedding_metadata WHERE key = ? LIMIT 1", key)) for key in keys):
            return next(system for system in SYSTEMS if system.format == format)
    return _CHROMA


class Dump(NamedTuple):
    """A JSON file that a system writes: an array of objects, or an object that has one under a key."""

    key: str
    #: What each object has, always as text.
    fields: frozenset[str]


DUMPS = {
    "mem0": Dump("results", frozenset(("memory",))),
    "mcp-memory-service": Dump("memories", frozenset(("content", "content_hash"))),
}


def system_of(db: ForeignDatabase) -> System | None:
    """The system that an open file belongs to; None if it is not known."""
    return recognised(db.tables) or (_in_chroma(db) if _is_chroma(db) else None)


def format_of(path: Path) -> str | None:
    """The format that reads an SQLite file; None if none does."""
    try:
        with opened(path, to_look=True) as db:
            found = system_of(db)
    except (NotOfFormat, NothingToImport):
        return None
    return None if found is None else found.format


def databases(path: Path, format: str) -> list[Source]:
    """The files of a format at a path that is a database, or a folder with some."""
    return sources(path, ENDINGS, lambda source: require(source.path, format))


def sources(path: Path, endings: tuple[str, ...], check: Callable[[Source], None]) -> list[Source]:
    """The file at a path, or those in a folder, that `check` accepts. In a folder, others are passed over."""
    if not path.is_dir():
        source = Source(path)
        check(source)
        return [source]
    found = []
    for file in below(path, *endings):
        with suppress(NotOfFormat, NothingToImport):
            source = Source(file)
            check(source)
            found.append(source)
    return found


def require(path: Path, format: str) -> None:
    """NotOfFormat if a file is not a database of a format. It names the right one, if that is clear."""
    title = next(system.title for system in SYSTEMS if system.format == format)
    with opened(path, to_look=True) as db:
        found = system_of(db)
    if found is None:
        raise NotOfFormat(f"{path} is an SQLite database, but has none of the tables of {title}.")
    if found.format is None:
        raise NotOfFormat(f"{path} is a database of {found.title}, not of {title}.")
    if found.format != format:
        raise NotOfFormat(
            f"{path} is a database of {found.title}, not of {title}.",
            typed=f"Import it with: engram import {found.format} {shlex.quote(str(path))}",
        )


def require_dump(source: Source, format: str) -> None:
    """NotOfFormat if a file is not a JSON dump of a format. It names the right one, if that is clear."""
    if _has_dump(source, format):
        return
    path, dump = source.path, DUMPS[format]
    for other in DUMPS:
        if other != format and _has_dump(source, other):
            raise NotOfFormat(
                f"{path} is a dump of {other}, not of {format}.",
                typed=f"Import it with: engram import {other} {shlex.quote(str(path))}",
            )
    names = " and ".join(repr(name) for name in sorted(dump.fields))
    raise NotOfFormat(
        f"{path} is neither a database nor a dump of {format}. A dump is JSON: an array, or an object with an array "
        f"{dump.key!r}, of objects with {names}."
    )


def _has_dump(source: Source, format: str) -> bool:
    """Whether one of a file's first objects is of a format."""
    key, fields = DUMPS[format]
    for item in islice(json_items(source, key), _LOOK):
        if not isinstance(item, Skipped):
            value = item[1]
            return isinstance(value, dict) and all(isinstance(value.get(name), str) for name in fields)
    return False
