"""What an export of claude.ai holds besides conversations: projects with their documents, and Claude's memories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..redact import redact
from .chats import LONGEST_NAME
from .items import MemoryItem
from .json_values import array, digest, fields, short_id, text
from .sections import pieces, sections
from .texts import short_line
from .times import moment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .items import Item, Options


def project(record: dict[str, object], options: Options) -> Iterator[Item]:
    """The description, the instructions and the documents of a project. The one that everybody gets is left out."""
    if record.get("is_starter_project") is True:
        return
    name = short_line(text(record.get("name")), LONGEST_NAME) or "a project of claude.ai"
    id = short_id(text(record.get("uuid")).strip() or digest(name), 80)
    at = moment(record.get("updated_at")) or moment(record.get("created_at"))
    belongs = short_line(text(record.get("name")), LONGEST_NAME) or options.project
    if said := text(record.get("description")).strip():
        yield MemoryItem(f"{id}#description", f"{name}: {said}", at=at, project=belongs)
    if said := text(record.get("prompt_template")).strip():
        words = f"Instructions to Claude for {name}:\n\n{said}"
        # Somebody else may have written those of a shared project.
        trust = "import" if record.get("is_private") is False else "user"
        yield MemoryItem(f"{id}#instructions", words, "preference", at=at, project=belongs, trust=trust)
    for place, document in enumerate(map(fields, array(record.get("docs"))), 1):
        file = short_line(text(document.get("filename")), 100) or f"document {place}"
        uuid = short_id(text(document.get("uuid")).strip() or f"{id}#{file}")
        written = moment(document.get("created_at")) or at
        for number, part in enumerate(pieces(redact(text(document.get("content")).strip())), 1):
            yield MemoryItem(f"{uuid}#{number}", f"{name}, {file}:\n\n{part}", at=written, project=belongs)


def memories(record: dict[str, object], options: Options) -> Iterator[Item]:
    """What Claude noted about the person, about each project, and in its files."""
    account = short_id(text(record.get("account_uuid")) or "account", 60)
    at = moment(record.get("updated_at"))
    yield from _noted(f"{account}#memory", text(record.get("conversations_memory")), at, {}, options)
    for uuid, said in fields(record.get("project_memories")).items():
        yield from _noted(
            f"{short_id(uuid, 60)}#memory", text(said), at, {"claude_project": short_line(uuid, 100)}, options
        )
    for file in map(fields, array(record.get("memory_files"))):
        path = short_line(text(file.get("path")), 100) or "memory"
        when = moment(file.get("updated_at")) or at
        yield from _noted(f"{account}#{path}", text(file.get("content")), when, {"path": path}, options)


def _noted(id: str, document: str, at: str | None, data: dict[str, object], options: Options) -> Iterator[Item]:
    """The sections of a text of Claude's, each under its heading."""
    counts: dict[str, int] = {}
    for section in sections(_headed(redact(document))):
        heading = " > ".join(section.path)
        for part in pieces(section.text.strip()):
            counts[heading] = counts.get(heading, 0) + 1
            said = f"{heading}\n\n{part}" if heading else part
            key = short_id(f"{id}#{heading}#{counts[heading]}")
            yield MemoryItem(key, said, "fact", at=at, project=options.project, data=data)


def _headed(document: str) -> str:
    """The text with its bold lines as headings: Claude writes them so."""
    lines = document.split("\n")
    for place, line in enumerate(lines):
        bare = line.strip()
        if bare.startswith("**") and bare.endswith("**") and 4 < len(bare) < 120 and "**" not in bare[2:-2]:
            lines[place] = f"## {bare[2:-2].rstrip(':')}"
    return "\n".join(lines)
