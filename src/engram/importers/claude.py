"""Reads the export of claude.ai: an archive, several of them, the unpacked folder, or one of its files.

Older exports are one archive. Newer ones are several, `conversations-000.zip`, `projects-000.zip`, `memories-000.zip`
and others, which the person downloads into a folder. Each file is read by itself, so the memories of a project know
only its id.

A message has its text twice: as `text`, where Claude's thinking and notices about tools are mixed in, and as blocks.
The blocks are read where they are.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from . import chats, exports
from .claude_knowledge import memories, project
from .formats import Format
from .items import SessionItem, Skipped, Turn
from .json_values import array, digest, fields, short_id, text
from .texts import cut, short_line
from .times import moment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path, PurePosixPath

    from .files import Source
    from .items import Item, Options

_TYPE = "claude"
_SENDERS = {"human": "user", "user": "user", "assistant": "assistant"}
#: Characters of an attached text that become part of a turn. A longer one is a whole document.
LONGEST_ATTACHMENT = 8_000
_FILE = re.compile(r"(conversations|projects|memories)(-\d{1,6})?\.json")
_FOLDERS = frozenset({"projects", "memories", "design_chats"})
_PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".heic", ".svg")
#: Stands in `text` for every block that is no text.
_UNSUPPORTED = re.compile(r"```\n?This block is not supported on your current device yet\.\n?```\n?")
#: Blocks that are not part of what was said: Claude's thinking, results of tools, bookkeeping.
_SILENT = frozenset({"thinking", "redacted_thinking", "tool_result", "token_budget", "flag", "knowledge"})


def find(path: Path) -> list[Source]:
    return exports.find(path, _WANTED)


def read(source: Source, options: Options) -> Iterator[Item]:
    return exports.guarded(source, _read(source, options))


def _read(source: Source, options: Options) -> Iterator[Item]:
    for each in exports.records(source, "conversations"):
        if isinstance(each, Skipped):
            yield each
            continue
        number, record = each
        found = fields(record)
        if isinstance(found.get("chat_messages"), list):
            yield from _conversation(found, f"conversation {number}", options)
        elif isinstance(found.get("messages"), list):
            yield from _conversation(_design(found), f"conversation {number}", options)
        elif found.keys() & {"conversations_memory", "project_memories", "memory_files"}:
            yield from memories(found, options)
        elif found.keys() & {"prompt_template", "docs", "description"}:
            yield from project(found, options)
        else:
            yield Skipped(f"item {number}", "neither a conversation nor a project nor memories")


def _conversation(record: dict[str, object], where: str, options: Options) -> Iterator[Item]:
    parents: dict[str, str | None] = {}
    turns: dict[str, list[Turn]] = {}
    times: dict[str, str | None] = {}
    last: str | None = None
    for number, given in enumerate(array(record.get("chat_messages")), 1):
        message = fields(given)
        id = text(message.get("uuid")).strip() or f"message-{number}"
        if id in parents:
            yield Skipped(f"{where}, message {number}", "its id occurred before")
            continue
        # Older exports name no parents: each message follows the one before it.
        parents[id] = text(message.get("parent_message_uuid")) or last
        last = id
        role = _SENDERS.get(text(message.get("sender")))
        if role is None:  # the messages after it still have their place
            yield Skipped(f"{where}, message {number}", "no message that can be read")
            continue
        times[id] = moment(message.get("created_at")) or moment(message.get("updated_at"))
        turns[id] = _turns(message, role, short_id(id), times[id])
    started, ended = moment(record.get("created_at")), moment(record.get("updated_at"))
    name = short_line(text(fields(record.get("project")).get("name")), chats.LONGEST_NAME)
    id = text(record.get("uuid")).strip()
    session = SessionItem(
        short_id(id) if id else f"claude-{digest(*list(parents)[:1], text(record.get('created_at')))}",
        _TYPE,
        started_at=started,
        last_at=ended,
        project=name or options.project,
        name=short_line(text(record.get("name")), chats.LONGEST_NAME) or None,
    )
    current = text(record.get("current_leaf_message_uuid")) or None
    gist = text(record.get("summary")).strip() or None
    yield from chats.items(chats.Chat(session, parents, turns, times, current, gist))


def _turns(message: dict[str, object], role: str, id: str, at: str | None) -> list[Turn]:
    """What was done for a message, one line each, then what it says, then the texts that came with it."""
    blocks = [fields(block) for block in array(message.get("content"))]
    done = [
        Turn("", "log", chats.call_line(text(block.get("name")), block.get("input")), at, f"{id}#{number}")
        for number, block in enumerate(blocks, 1)
        if block.get("type") in ("tool_use", "server_tool_use")
    ]
    parts = [said for block in blocks if (said := _block(block))]
    if not parts and all(text(block.get("type")) in ("", "text") for block in blocks):
        parts = [said] if (said := _UNSUPPORTED.sub("", text(message.get("text"))).strip()) else []
    attached = _attached(message)
    # What is pasted becomes an attachment without a name. It is part of the prompt, as it is anywhere else.
    parts += [f"[pasted text]\n{said}" for name, said in attached if not name]
    parts += [f"[{_kind(name)}: {name}]" for name, said in attached if name and not said]
    if not parts:
        parts = [f"[{_kind(name)}: {name}]" for name, said in attached if name and said]
    # The words in a file are not the person's. They come after the prompt: what was asked begins a session.
    texts = [
        Turn("", role, f"[attachment: {name}]\n{said}", at, f"{id}#attachment-{number}", "import")
        for number, (name, said) in enumerate(attached, 1)
        if name and said
    ]
    return [*done, *([Turn("", role, "\n\n".join(parts), at, id)] if parts else []), *texts]


def _block(block: dict[str, object]) -> str:
    type = text(block.get("type"))
    if type in _SILENT or type.endswith(("tool_use", "tool_result")):
        return ""
    if said := text(block.get("text")).strip():
        return said
    if type in ("", "text"):
        return ""
    name = short_line(text(block.get("title")) or text(block.get("file_name")), 100)
    return f"[{short_line(type, 40)}: {name}]" if name else f"[{short_line(type, 40)}]"


def _attached(message: dict[str, object]) -> list[tuple[str, str]]:
    """The names and the texts of what came with a message. Either may be empty."""
    found: list[tuple[str, str]] = []
    names = {""}
    for attachment in map(fields, array(message.get("attachments"))):
        said = cut(text(attachment.get("extracted_content")).strip(), LONGEST_ATTACHMENT)
        name = short_line(text(attachment.get("file_name")), 100)
        names.add(name)
        if name or said:
            found.append((name, said))
    for file in map(fields, [*array(message.get("files")), *array(message.get("files_v2"))]):
        name = short_line(text(file.get("file_name")), 100)
        if name not in names:
            names.add(name)
            found.append((name, ""))
    return found


def _kind(name: str) -> str:
    return "image" if name.lower().endswith(_PICTURES) else "file"


def _design(record: dict[str, object]) -> dict[str, object]:
    """A chat of Claude's design tool in the form of the others."""
    messages = []
    for number, message in enumerate(map(fields, array(record.get("messages"))), 1):
        content = fields(message.get("content"))
        blocks: list[object] = [_design_block(fields(block)) for block in array(content.get("contentBlocks"))]
        attachments: list[object] = [
            {"file_name": each.get("name"), "extracted_content": each.get("content")}
            for each in map(fields, array(content.get("attachments")))
        ]
        messages.append(
            {
                "uuid": message.get("uuid") or f"{text(record.get('uuid'))}-{number}",
                "sender": message.get("role"),
                "text": content.get("content"),
                "content": blocks,
                "attachments": attachments,
                "created_at": message.get("created_at") or content.get("timestamp"),
            }
        )
    return {**record, "name": record.get("title"), "chat_messages": messages}


def _design_block(block: dict[str, object]) -> dict[str, object]:
    if block.get("type") == "tool_call":
        call = fields(block.get("toolCall"))
        return {"type": "tool_use", "name": call.get("name"), "input": call.get("input")}
    if block.get("type") == "user_interjection":
        said = block.get("message")
        return {"type": "text", "text": said if isinstance(said, str) else fields(said).get("content")}
    return block


def _is_named(name: PurePosixPath) -> bool:
    return _FILE.fullmatch(name.name) is not None or (name.suffix == ".json" and name.parent.name in _FOLDERS)


_WANTED = exports.Wanted(
    "claude.ai's export",
    "conversations.json",
    _is_named,
    frozenset({"claude", "claude memories", "claude projects", "claude designs"}),
)
FORMAT = Format("claude", "the export of claude.ai", find, read)
