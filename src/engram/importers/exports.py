"""Finds the files of an export: in an archive, in a folder with its archives, or a file by itself.

Several systems name their files alike, so a file is known by what it holds. What a file is taken for when it is
refused is named, with the command that imports it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from ..errors import EngramError, NothingToImport, NotOfFormat
from . import files
from .files import Source
from .items import Skipped
from .json_values import array, fields

if TYPE_CHECKING:
    from pathlib import Path

    from .items import Item

#: Records that are looked at to see what a file holds. A damaged one may come first.
_LOOKED_AT = 5
#: A name in JSON: not one within a text, where its quotation mark would be escaped.
_NAME = re.compile(r'(?<!\\)"(\w{1,40})"\s{0,20}:')
#: Names that tell what a file holds if no record of it can be read, such as one that is cut off.
_TELLING = {
    "mapping": "chatgpt",
    "current_node": "chatgpt",
    "chat_messages": "claude",
    "conversations_memory": "claude memories",
    "project_memories": "claude memories",
    "prompt_template": "claude projects",
    "is_starter_project": "claude projects",
    "entityType": "server-memory",
    "relationType": "server-memory",
    "parentUuid": "claude-code",
    "isSidechain": "claude-code",
}
#: What a file of another kind is, and what to do with it.
_HINTS = {
    "chatgpt": "is an export of ChatGPT; import it with `engram import chatgpt`",
    "claude": "is an export of claude.ai; import it with `engram import claude`",
    "claude memories": "is part of an export of claude.ai; import it with `engram import claude`",
    "claude projects": "is part of an export of claude.ai; import it with `engram import claude`",
    "claude manifest": "only lists the archives of a claude.ai export; download those and import them",
    "claude users": "is the account in an export of claude.ai, which is not imported",
    "server-memory": "is a file of MCP's memory server; import it with `engram import server-memory`",
    "claude-code": "is a transcript of Claude Code; import it with `engram import claude-code`",
    "sqlite": "is an SQLite database",
    "specstory": "is a history of SpecStory; import it with `engram import specstory`",
}


class Wanted(NamedTuple):
    """The files that a format takes from an export."""

    #: What the export is called: `ChatGPT's export`.
    title: str
    #: The file that every export has, as people know it.
    main: str
    #: Whether a file with this path within the export may be one of them.
    named: Callable[[PurePosixPath], bool]
    #: What they hold, as `kind_of` says.
    kinds: frozenset[str]


def find(path: Path, wanted: Wanted) -> list[Source]:
    """The files of an export at a path. NotOfFormat names another format, NothingToImport an empty folder."""
    found = [(source, kind_of(source)) for source in _candidates(path, wanted)]
    if any(kind in wanted.kinds for _, kind in found):
        return [source for source, kind in found if kind in wanted.kinds or (not kind and _is_damaged(source))]
    if found and all(kind == "empty" for _, kind in found):
        return [source for source, _ in found]
    for source, kind in found:
        if kind in _HINTS:
            raise NotOfFormat(f"{source.name} {_HINTS[kind]}.")
    for source, _ in found:
        if source.member is not None:
            source.head()  # says if it is damaged, or compressed in an unusual way
    if path.is_dir():
        raise NothingToImport(f"There is no {wanted.main} in {path}, so it does not hold {wanted.title}.")
    if not found:
        inside = "only archives; unpack it and import the folder" if _has_archives(path) else f"no {wanted.main}"
        raise NotOfFormat(f"{path} is not {wanted.title}: it holds {inside}.")
    raise NotOfFormat(f"{path} is not {wanted.title}.")


def _candidates(path: Path, wanted: Wanted) -> Iterator[Source]:
    if not path.is_dir():
        yield from _named(files.members(path), wanted) if _is_archive(path) else [Source(path)]
        return
    for file in files.below(path, ".json", ".zip"):
        if file.suffix == ".zip":
            try:
                yield from _named(files.members(file), wanted)
            except NotOfFormat:
                continue
        elif wanted.named(PurePosixPath(file.relative_to(path).as_posix())):
            yield Source(file)


def _named(sources: Iterable[Source], wanted: Wanted) -> list[Source]:
    """Members with one of the names. A Mac adds members of its own to archives."""
    named = []
    for source in sources:
        name = PurePosixPath(source.member or "")
        if "__MACOSX" not in name.parts and not name.name.startswith("._") and wanted.named(name):
            named.append(source)
    return sorted(named, key=lambda source: source.member or "")


def _is_damaged(source: Source) -> bool:
    """Whether a file that cannot be recognised belongs to the export by its name. Its reader says what it lacks."""
    return PurePosixPath(source.member or source.path.name).name.startswith("conversations")


def _is_archive(path: Path) -> bool:
    return Source(path).head(4) in (b"PK\x03\x04", b"PK\x05\x06")


def _has_archives(path: Path) -> bool:
    return any((source.member or "").endswith(".zip") for source in files.members(path))


def kind_of(source: Source) -> str:
    """What a JSON file holds: a key of `_HINTS`, `empty`, or nothing if it cannot be told."""
    try:
        head = source.head()
    except EngramError:
        return ""
    if head.startswith(b"SQLite format 3\0"):
        return "sqlite"
    beginning = head.decode("utf-8", "replace").removeprefix("\ufeff").lstrip()
    if beginning[:1] not in ("[", "{"):
        return ""
    if beginning.replace(" ", "").replace("\n", "") == "[]":
        return "empty"
    seen = 0
    try:
        for each in records(source, "conversations"):
            if isinstance(each, Skipped):
                break
            if kind := _record_kind(each[1]):
                return kind
            seen += 1
            if seen == _LOOKED_AT:
                return ""
    except EngramError:
        return ""
    return "" if seen else _kind_by_names(beginning)


def _record_kind(record: object) -> str:
    names = fields(record)
    if isinstance(names.get("mapping"), dict):
        return "chatgpt"
    if isinstance(names.get("chat_messages"), list):
        return "claude"
    if names.keys() & {"conversations_memory", "project_memories", "memory_files"}:
        return "claude memories"
    if "uuid" in names and names.keys() & {"prompt_template", "docs", "is_starter_project"}:
        return "claude projects"
    if "uuid" in names and isinstance(names.get("messages"), list):
        return "claude designs"
    if any("export_url" in fields(each) for each in array(names.get("data_files"))):
        return "claude manifest"
    if {"uuid", "email_address"} <= names.keys():
        return "claude users"
    return "server-memory" if names.get("type") in ("entity", "relation") else ""


def _kind_by_names(beginning: str) -> str:
    return next((_TELLING[found[1]] for found in _NAME.finditer(beginning) if found[1] in _TELLING), "")


def hint(source: Source) -> str | None:
    """What a file of another format is, as the rest of a sentence; None if it is not known."""
    try:
        if b"Generated by SpecStory" in source.head(4096):
            return _HINTS["specstory"]
    except EngramError:
        return None
    return _HINTS.get(kind_of(source))


def records(source: Source, key: str) -> Iterator[tuple[int, object] | Skipped]:
    """The records of a JSON file: the items of its array, of its array with this name, or the document itself."""
    if source.head(4096).decode("utf-8", "replace").removeprefix("\ufeff").lstrip()[:1] == "[":
        yield from files.json_items(source)
        return
    is_list = False
    for each in files.json_items(source, key):
        is_list = True
        yield each
    if is_list:
        return
    data = files.whole(source)
    if data is None:
        yield Skipped("item 1", f"longer than {files.LONGEST // 1024 // 1024} MiB")
        return
    found = files.parsed(data.removeprefix(b"\xef\xbb\xbf"), "item 1")
    if isinstance(found, Skipped):
        yield found
    elif not (isinstance(found, dict) and isinstance(found.get(key), list)):
        yield 1, found


def guarded(source: Source, items: Iterator[Item]) -> Iterator[Item]:
    """What a reader gives. A source that turns out to be damaged or gone ends it, and is named."""
    for _ in range(source.replaced):
        yield Skipped(source.name, "a later member of the archive has the same name")
    try:
        yield from items
    except (NothingToImport, NotOfFormat):
        yield Skipped(source.name, "damaged, or cannot be read")
