"""Reads ChatGPT's export: the archive, the unpacked folder, or its `conversations.json` by itself.

Newer exports are split into `conversations-000.json` and so on, name a message's parent but not always its children,
and leave out much of the metadata. So the tree is made from the parents; the children are asked only for a message
without one.

The export has no list of ChatGPT's own memories and no file with the person's instructions. Both were sent along with
conversations, so the latest that a file has is taken from there.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

from . import chats, exports
from .formats import Format
from .items import MemoryItem, SessionItem, Skipped, Turn
from .json_values import array, digest, fields, short_id, text
from .texts import short_line
from .times import moment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path, PurePosixPath

    from .files import Source
    from .items import Item, Options

_TYPE = "chatgpt"
_ROLES = ("user", "assistant", "system", "tool")
#: Content that is the model's own thinking, or that only says for how long it thought.
_THINKING = frozenset({"thoughts", "reasoning_recap"})
_FILE = re.compile(r"conversations(-\d{1,6})?\.json")
#: A reference to a source, between characters that no font shows: `cite`, then `turn0search1`.
_MARKED = re.compile("[ \t]?\ue200([^\ue200\ue201]*)\ue201")
#: What is left of references, and older forms of them: `【4:0†source】`, `:contentReference[oaicite:2]{index=2}`.
_REFERENCE = re.compile(
    "\ue202turn[0-9]{1,4}[a-z]{1,12}[0-9]{1,4}|[\ue200-\ue206]"
    "|【[^【】\n]{0,200}†[^【】\n]{0,200}】"
    r"|:contentReference\[oaicite:[0-9]{1,6}\]\{index=[0-9]{1,6}\}"
)
#: ChatGPT puts what the person wrote between such marks, after a text of its own.
_FENCE = "```"
#: One of ChatGPT's memories in its list: `3. [2024-05-01]. Lives in Lisbon.`
_LISTED = re.compile(r"\s{0,20}[0-9]{1,5}\.\s{0,20}(?:\[([^\]\n]{0,40})\]\.?\s{0,20})?(\S.*)")
#: Parts of a message that are sound or pictures, and what stands for them.
_MEDIA = (("image", "image"), ("real_time", "audio"), ("video", "video"), ("audio", "audio"))


def find(path: Path) -> list[Source]:
    return exports.find(path, _WANTED)


def read(source: Source, options: Options) -> Iterator[Item]:
    return exports.guarded(source, _read(source, options))


def _read(source: Source, options: Options) -> Iterator[Item]:
    known = _Known()
    for each in exports.records(source, "conversations"):
        if isinstance(each, Skipped):
            yield each._replace(where=each.where.replace("item", "conversation"))
            continue
        number, record = each
        where = f"conversation {number}"
        conversation = fields(record)
        if not isinstance(conversation.get("mapping"), dict):
            yield Skipped(where, "no conversation: it has no messages")
            continue
        yield from _conversation(conversation, where, known, options)
    yield from known.items(options)


class _Known:
    """What ChatGPT was told about the person, and what it noted. Conversations repeat it, so the latest counts."""

    def __init__(self) -> None:
        self.about_person: tuple[str, str] = ("", "")
        self.wishes: tuple[str, str] = ("", "")
        self.list: tuple[str, str] = ("", "")
        self._given: set[str] = set()

    def note(self, message: _Message, at: str | None) -> None:
        """Takes the instructions or the memories that a message carries, if they are newer."""
        content = message.content
        if message.type == "model_editable_context":
            if listed := text(content.get("model_set_context")).strip():
                self.list = max(self.list, (at or "", listed))
            return
        told = fields(message.metadata.get("user_context_message_data"))
        person = text(told.get("about_user_message")) or _fenced(text(content.get("user_profile")))
        wishes = text(told.get("about_model_message")) or _fenced(text(content.get("user_instructions")))
        self.about_person = max(self.about_person, (at or "", person.strip())) if person.strip() else self.about_person
        self.wishes = max(self.wishes, (at or "", wishes.strip())) if wishes.strip() else self.wishes

    def memory(self, said: str, at: str | None, options: Options, kind: str = "fact") -> Iterator[Item]:
        """A memory of ChatGPT's, once."""
        id = digest("memory", said)
        if id not in self._given:
            self._given.add(id)
            yield MemoryItem(f"memory-{id}", said, kind, at=at, project=options.project)

    def items(self, options: Options) -> Iterator[Item]:
        for kind, (at, said), words in (
            ("fact", self.about_person, "What I told ChatGPT about myself"),
            ("preference", self.wishes, "How I want ChatGPT to answer"),
        ):
            if said:
                id = f"instructions-{digest(kind, said)}"
                yield MemoryItem(id, f"{words}: {said}", kind, at=at or None, project=options.project, trust="user")
        at, listed = self.list
        for line in listed.split("\n"):
            if found := _LISTED.fullmatch(line):
                day = found[1] if found[1] and "-" in found[1] else None
                yield from self.memory(found[2].strip(), moment(day) or at or None, options)


class _Message(NamedTuple):
    id: str
    role: str
    #: The name of a tool.
    name: str
    recipient: str
    content: dict[str, object]
    metadata: dict[str, object]
    at: str | None

    @property
    def type(self) -> str:
        return text(self.content.get("content_type"))


def _conversation(record: dict[str, object], where: str, known: _Known, options: Options) -> Iterator[Item]:
    nodes = fields(record.get("mapping"))
    started, last = moment(record.get("create_time")), moment(record.get("update_time"))
    turns: dict[str, list[Turn]] = {}
    times: dict[str, str | None] = {}
    for key, node in nodes.items():
        given = fields(node).get("message")
        if isinstance(node, dict) and (given is None or (isinstance(given, dict) and not given.get("content"))):
            continue  # the beginning of the tree, or a message that was deleted
        message = _message(key, given)
        if message is None:
            yield Skipped(f"{where}, message {short_line(key, 60)}", "no message that can be read")
            continue
        times[key] = message.at
        if _is_context(message):
            if _is_genuine(message):
                known.note(message, message.at or started or last)
            else:
                yield Skipped(f"{where}, message {short_line(key, 60)}", "instructions that the person did not write")
            continue
        if message.recipient == "bio" and (said := _noted(message)):
            yield from known.memory(said, message.at or last, options)
        if turn := _turn(message):
            turns[key] = [turn]
    session = SessionItem(
        _id(record, nodes),
        _TYPE,
        started_at=started,
        last_at=last,
        project=options.project,
        name=short_line(text(record.get("title")), chats.LONGEST_NAME) or None,
        metadata=_about(record),
    )
    current = text(record.get("current_node")) or None
    yield from chats.items(chats.Chat(session, _parents(nodes), turns, times, current))


def _id(record: dict[str, object], nodes: dict[str, object]) -> str:
    """The id of the conversation. The oldest exports have none; there the first message stands for it."""
    id = text(record.get("conversation_id")).strip() or text(record.get("id")).strip()
    return short_id(id) if id else f"chatgpt-{digest(next(iter(nodes), ''), str(record.get('create_time')))}"


def _about(record: dict[str, object]) -> dict[str, object]:
    told = {"model": record.get("default_model_slug"), "gizmo": record.get("gizmo_id")}
    return {name: short_line(value, 100) for name, value in told.items() if isinstance(value, str) and value}


def _parents(nodes: dict[str, object]) -> dict[str, str | None]:
    parents: dict[str, str | None] = {}
    for key, node in nodes.items():
        parents[key] = text(fields(node).get("parent")) or None
    for key, node in nodes.items():
        for child in array(fields(node).get("children")):
            if isinstance(child, str) and child in parents and parents[child] not in nodes:
                parents[child] = key
    return parents


def _message(key: str, given: object) -> _Message | None:
    """The message of a node; None if it is none."""
    message = fields(given)
    author, content = fields(message.get("author")), fields(message.get("content"))
    role = text(author.get("role"))
    if role not in _ROLES or not content:
        return None
    return _Message(
        # A node has the id of its message, and only nodes cannot have the same one twice.
        short_id(key),
        role,
        text(author.get("name")),
        text(message.get("recipient")) or "all",
        content,
        fields(message.get("metadata")),
        moment(message.get("create_time")) or moment(message.get("update_time")),
    )


def _is_context(message: _Message) -> bool:
    """Whether it is not said in the conversation but sent along with it: instructions, ChatGPT's memories."""
    return _is_told(message) or message.type in ("user_editable_context", "model_editable_context")


def _is_told(message: _Message) -> bool:
    """Whether it says that it carries the person's instructions in its metadata."""
    return message.metadata.get("is_user_system_message") is True and "user_context_message_data" in message.metadata


def _is_genuine(message: _Message) -> bool:
    """Whether instructions are the person's, and a list of memories is ChatGPT's. A tool may claim anything."""
    if message.type == "model_editable_context":
        return message.role == "assistant"
    return message.role == "user" or (message.role == "system" and _is_told(message))


def _noted(message: _Message) -> str:
    """What ChatGPT notes as a memory with this message; nothing if it is asked to forget."""
    said = _text(message).strip()
    return "" if said.lower().startswith(("forget", "{", "[")) else said


def _turn(message: _Message) -> Turn | None:
    if message.metadata.get("is_visually_hidden_from_conversation") is True or message.type in _THINKING:
        return None
    said = _text(message)
    if not said or message.name == "bio":
        return None
    if message.role == "tool":
        line = chats.call_line(message.name, said)
    elif message.role == "assistant" and message.recipient != "all":
        line = chats.call_line(message.recipient, _arguments(said))
    else:
        return Turn("", message.role, said, message.at, message.id)
    return Turn("", "log", line, message.at, message.id)


def _arguments(said: str) -> object:
    """What a tool is given: often an object in JSON."""
    if said.startswith("{") and len(said) < 1_000_000:
        try:
            return json.loads(said)
        except (ValueError, RecursionError):
            pass
    return said


def _text(message: _Message) -> str:
    """What a message says, without marks for references and with placeholders for what is no text."""
    content = message.content
    names = _attached(message.metadata)
    if message.type == "code":
        code = text(content.get("text")) or "\n".join(map(text, array(content.get("parts"))))
        is_shown = message.role == "assistant" and message.recipient == "all" and code.strip()
        language = text(content.get("language")).replace("unknown", "")
        return f"```{short_line(language, 20)}\n{code.strip()}\n```" if is_shown else code.strip()
    parts = [said for part in array(content.get("parts")) if (said := _part(part, names))]
    if any(part == "[audio]" for part in parts) and any(not part.startswith("[") for part in parts):
        parts = [part for part in parts if part != "[audio]"]  # its words are there
    if not parts:
        titles = (text(content.get(field)) for field in ("title", "url", "name"))
        told = (text(content.get(field)) for field in ("text", "result", "summary", "content"))
        found = [next(filter(None, titles), ""), next(filter(None, told), "")]
        parts = [_clean(said) for said in found if said.strip()]
    if message.role == "user":
        parts += [f"[file: {name}]" for name in names.values()]
    return "\n".join(parts).strip()


def _attached(metadata: dict[str, object]) -> dict[str, str]:
    """The names of the files that came with a message, by their ids."""
    found = {}
    for each in map(fields, array(metadata.get("attachments"))):
        if name := short_line(text(each.get("name")), 100):
            found[text(each.get("id")) or name] = name
    return found


def _part(part: object, names: dict[str, str]) -> str:
    """One part of a message as text. The name of a file that has its place here is taken from `names`."""
    if isinstance(part, str):
        return _clean(part).strip()
    given = fields(part)
    if said := text(given.get("text")).strip():
        return _clean(said)
    type = text(given.get("content_type"))
    kind = next((word for mark, word in _MEDIA if mark in type), "")
    if not kind:
        return f"[{short_line(type, 40)}]" if type else ""
    pointer = text(given.get("asset_pointer"))
    painted = fields(fields(given.get("metadata")).get("dalle"))
    name = names.pop(pointer.rpartition("://")[2], "") or short_line(text(painted.get("prompt")), 100)
    return f"[{kind}: {name}]" if name else f"[{kind}]"


def _clean(said: str) -> str:
    """The text without marks for references."""
    if said.isascii() and ":contentReference" not in said:
        return said
    if "\ue200" in said:
        said = _MARKED.sub(_marked, said)
    return _REFERENCE.sub("", said)


def _marked(found: re.Match[str]) -> str:
    """What stands for a mark: the name of a thing, the title of a link, otherwise nothing."""
    kind, _, rest = found[1].partition("\ue202")
    said = ""
    if kind == "entity":
        try:
            said = text(array(json.loads(rest))[1])
        except (ValueError, RecursionError, IndexError):
            said = ""
    elif kind == "url":
        said = rest.partition("\ue202")[0]
    space = found[0][0] if found[0][0] in " \t" else ""
    return f"{space}{said}" if said else ""


def _fenced(said: str) -> str:
    """The words of the person in a text of ChatGPT's; all of it if they are not marked."""
    _, mark, rest = said.partition(_FENCE)
    inside, end, _ = rest.rpartition(_FENCE)
    return inside if mark and end else said


def _is_conversations(name: PurePosixPath) -> bool:
    return _FILE.fullmatch(name.name) is not None


_WANTED = exports.Wanted("ChatGPT's export", "conversations.json", _is_conversations, frozenset({"chatgpt"}))
FORMAT = Format("chatgpt", "ChatGPT's export of conversations", find, read)
