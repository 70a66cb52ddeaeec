"""Codex's sessions: a `rollout-….jsonl` for each, also for each subagent.

Versions differ. Since September 2025 a line has a type and a payload; before, it was the payload itself, and the first
versions wrote one JSON document. What the person typed is in an event (`user_message`, later `item_completed`); the
messages of the user that the model got contain instructions and context, too. They are read only where no event is.

A fork, or a subagent that knows the conversation of its parent, begins with a copy of it behind a second
`session_meta`. The copy ends with the first turn that is younger than the thread; their ids hold their times. Versions
without ids of turns write the copy at once, so there it ends a few seconds after the beginning.
"""

from __future__ import annotations

import re
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import lru_cache
from importlib import import_module
from typing import IO, TYPE_CHECKING, Any

from ..errors import NothingToImport, NotOfFormat
from ..harness_messages import message_of, prompt_of, texts_of
from ..harness_payloads import LONGEST, cut, inner, text
from ..interfaces.external_ids import of_session
from ..interfaces.hooks.codex import PATCH, WRITING_TOOLS
from . import kinds
from .conversations import (
    Calls,
    Conversation,
    careful,
    is_own,
    is_there,
    latest,
    modified,
    own,
    project_of,
    tail,
    text_fields,
)
from .files import Source, below, json_items, json_lines
from .formats import Format
from .items import SessionItem, Skipped
from .times import moment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from .items import Item, Options

_TITLE = "Codex"
_ENDINGS = (".jsonl", ".json", ".jsonl.zst")
_COMPRESSED = b"\x28\xb5\x2f\xfd"
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
#: Sessions that Codex runs for itself.
_INTERNAL = frozenset({"compact", "memory_consolidation", "guardian"})
#: Every shell tool is reported to hooks under one name.
_SHELL = "Bash"
_SHELLS = frozenset({"shell", "shell_command", "exec_command", "container.exec", "local_shell", "unified_exec"})
#: Time in which Codex has surely written a copy.
_COPYING = timedelta(seconds=5)
#: Polls a command that runs.
_POLL = "write_stdin"
_CALLS = frozenset({"function_call", "custom_tool_call", "local_shell_call"})
_RESULTS = frozenset({"function_call_output", "custom_tool_call_output"})
#: Names of sessions that are held.
_MOST_NAMES = 50_000
#: The folder that an old session ran in is in the context that the model got.
_FOLDER = re.compile(r"<cwd>([^<\n]{1,4096})</cwd>")
#: Text of the harness that no release's list of elements has yet.
_ELEMENT = re.compile(r"\A<[a-z_]{2,40}[ >]")


class Compressed(Source):
    """A session that Codex has compressed, which it does with old ones."""

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        self.position = 0
        with self.path.open("rb") as file, _unpacked(file, self.path) as unpacked:
            yield unpacked

    @property
    def can_be_read(self) -> bool:
        return _zstandard() is not None


@contextmanager
def _unpacked(file: IO[bytes], path: Path) -> Iterator[IO[bytes]]:
    library = _zstandard()
    if library is None:
        raise NotOfFormat(
            f"{path} is compressed, and this Python cannot read that. Unpack it with `zstd -d`, or install zstandard."
        )
    try:
        with library.ZstdDecompressor().stream_reader(file, read_across_frames=True) as reader:
            yield reader
    except library.ZstdError as error:
        raise NotOfFormat(f"{path} is damaged: {error}.") from error


@lru_cache(maxsize=1)
def _zstandard() -> Any:
    try:
        return import_module("zstandard")
    except ImportError:
        return None


def _find(path: Path) -> list[Source]:
    if not path.is_dir():
        found = _source(path)
        kinds.require(path, kinds.kind_of(found), kinds.CODEX, _TITLE)
        return [found]
    sources = [_source(file) for file in below(path, *_ENDINGS) if file.name.startswith("rollout-")]
    # While a file is being unpacked, both are there.
    plain = {source.path for source in sources}
    return [
        source
        for source in sources
        if source.path.with_suffix("") not in plain
        and (isinstance(source, Compressed) or kinds.is_kind(source, kinds.CODEX))
    ]


def _source(path: Path) -> Source:
    found = Source(path)
    return Compressed(path) if found.head(4) == _COMPRESSED else found


@careful
def _read(source: Source, options: Options) -> Iterator[Item]:
    if isinstance(source, Compressed) and not source.can_be_read:
        yield Skipped(source.name, "compressed, and zstandard is not installed")
        return
    reader = _Reader(source)
    # The first line may be very long: it has the instructions of the model.
    if not b"".join(source.head(4_096).split()).startswith(b'{"session":{'):
        for found in json_lines(source):
            if isinstance(found, Skipped):
                yield found
            else:
                yield from reader.take(*found)
    else:
        yield from _document(source, reader)
    yield from reader.end()


def _document(source: Source, reader: _Reader) -> Iterator[Item]:
    """The form of the first versions: one document with a `session` and its `items`."""
    known = text_fields(source.head(64 * 1024).partition(b'"items"')[0].decode(errors="replace"))
    yield from reader.take(0, {"id": known.get("id"), "timestamp": known.get("timestamp"), "instructions": None})
    for found in json_items(source, "items"):
        if isinstance(found, Skipped):
            yield found
        elif isinstance(found[1], dict):
            yield from reader.take(found[0], found[1])


class _Reader:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._calls = Calls(WRITING_TOOLS)
        self._talk: Conversation | None = None
        self._id = ""
        #: Why the session is left out, and whether that was said.
        self._left_out: Skipped | None = None
        #: Whether what is read now is a copy of another session, and where that surely ends: a number, a time.
        self._is_copy = False
        self._copy_ends: tuple[object, str] = (None, "")
        self._has_events = False
        #: What the model got as the user's messages since the last event, with ids.
        self._asked: list[tuple[list[str], str | None, str | None]] = []

    def take(self, number: int, entry: dict[str, object]) -> Iterator[Item]:
        type, payload = entry.get("type"), entry.get("payload")
        if type == "session_meta" and isinstance(payload, dict):
            yield from self._meta(payload, entry.get("timestamp"))
        elif "instructions" in entry and "type" not in entry:
            yield from self._meta(entry, entry.get("timestamp"))
        elif not isinstance(type, str):
            if "record_type" not in entry:
                yield Skipped(f"line {number}", "not an entry of a session")
        elif self._left_out is None and not self._copied(entry):
            talk = self._conversation()
            at = moment(entry.get("timestamp"))
            if type == "event_msg" and isinstance(payload, dict):
                yield from self._event(talk, payload, at)
            elif type == "compacted":
                found = message_of(entry)
                if found is not None:
                    yield from talk.gist(found[1].text, at, None)
            elif type == "response_item" and isinstance(payload, dict):
                yield from self._item(talk, entry, payload, at)
            elif payload is None:
                yield from self._item(talk, entry, entry, at)

    def end(self) -> Iterator[Item]:
        if self._talk is not None and self._left_out is None:
            yield from self._unannounced(self._talk)
            yield from self._talk.end()

    def _meta(self, meta: Mapping[str, object], at: object) -> Iterator[Item]:
        """The first says what the session is. Another one begins a copy."""
        id = text(meta, "id", "session_id", longest=200) or self._name_id()
        if self._talk is not None or self._left_out is not None:
            self._is_copy = self._is_copy or id != self._id
            return
        self._id = id
        self._copy_ends = (meta.get("subagent_history_start_ordinal"), _shortly_after(at))
        kind, parent = _subagent(meta)
        if is_own(meta.get("cwd")):
            self._left_out = own(id)
        elif kind in _INTERNAL or "internal" in inner(meta, "source"):
            self._left_out = Skipped(f"session {id}", "an internal session of Codex")
        if self._left_out is not None:
            yield self._left_out
            return
        entries = tail(self._source) if not isinstance(self._source, Compressed) else []
        root = text(meta, "session_id", longest=200)
        parent = root if parent and root and root != id else parent
        self._talk = Conversation(
            SessionItem(
                id=of_session(parent, id) if parent else id,
                type="codex",
                started_at=moment(meta.get("timestamp")) or moment(at),
                last_at=latest(entry.get("timestamp") for entry in entries) or modified(self._source),
                project=project_of(text(meta, "cwd", longest=4_096) or None),
                name=(text(meta, "agent_role", "agent_nickname") if kind else self._title(entries, id)) or None,
                parent=parent or None,
            ),
            of_agent=bool(kind),
        )

    def _conversation(self) -> Conversation:
        if self._talk is None:  # the beginning of the file is missing
            self._id = self._name_id()
            self._talk = Conversation(SessionItem(self._id, "codex"))
        return self._talk

    def _name_id(self) -> str:
        found = _ID.findall(self._source.path.name)
        return str(found[0]) if found else self._source.path.name.partition(".")[0]

    def _title(self, entries: list[dict[str, object]], id: str) -> str:
        renamed = [text(inner(entry, "payload"), "thread_name", longest=1_000) for entry in entries]
        found = next(filter(None, reversed(renamed)), "")
        for folder in [] if found else list(self._source.path.parents)[:5]:
            found = found or _names(folder / "session_index.jsonl").get(id, "")
        return found

    def _copied(self, entry: Mapping[str, object]) -> bool:
        if self._is_copy:
            first, until = self._copy_ends
            number, at = entry.get("ordinal"), moment(entry.get("timestamp"))
            if isinstance(first, int) and isinstance(number, int):
                self._is_copy = number < first
            elif _is_after(text(inner(entry, "payload"), "turn_id", longest=200), self._id):
                self._is_copy = False
            else:
                self._is_copy = at is None or at < until
        return self._is_copy

    def _event(self, talk: Conversation, event: Mapping[str, object], at: str | None) -> Iterator[Item]:
        type, completed = event.get("type"), inner(event, "item")
        if type == "user_message":
            yield from self._prompt(talk, [text(event, "message")], at)
        elif type == "item_completed" and completed.get("type") == "UserMessage":
            yield from self._prompt(talk, texts_of({"type": "user", "content": completed.get("content")}), at)
        elif type in ("task_complete", "turn_complete"):
            yield from talk.stop()
        elif type == "turn_aborted":
            yield from talk.stop(closes=False)

    def _prompt(self, talk: Conversation, texts: list[str], at: str | None) -> Iterator[Item]:
        """What the person typed. The message that the model got has its id."""
        self._has_events = True
        said = " ".join(texts).strip()
        ids = [id for given, id, _ in self._asked if said in " ".join(given)]
        self._asked = []
        yield from talk.prompt(prompt_of(texts), at, next(reversed(ids), None))

    def _unannounced(self, talk: Conversation) -> Iterator[Item]:
        """Messages of the user without an event. If there are events, these are not the person's."""
        asked, self._asked = self._asked, []
        for texts, id, at in asked:
            said = "" if self._has_events else prompt_of(texts)
            if said and not _ELEMENT.match(said):
                yield from talk.prompt(said, at, id)

    def _item(
        self, talk: Conversation, entry: dict[str, object], item: Mapping[str, object], at: str | None
    ) -> Iterator[Item]:
        type, role = text(item, "type", longest=100), item.get("role")
        if type == "message" and role == "user":
            texts = texts_of(entry)
            if talk.session.project is None:
                folder = next(filter(None, map(_FOLDER.search, texts)), None)
                talk.session = talk.session._replace(project=project_of(folder[1] if folder else None))
            self._asked.append((_short(texts), text(item, "id", longest=200) or None, at))
            del self._asked[:-20]
        elif type == "message" and role == "assistant":
            yield from self._unannounced(talk)
            found = message_of(entry)
            if found is not None:
                yield from talk.say(found[1].text, at, found[1].id)
        elif type in _CALLS:
            yield from self._unannounced(talk)
            talk.call()
            self._called(item)
        elif type in _RESULTS:
            output = item.get("output")
            failed = isinstance(output, dict) and output.get("success") is False
            line = self._calls.line(item.get("call_id"), failed=failed)
            if line is not None:
                yield from talk.log(line, at)

    def _called(self, item: Mapping[str, object]) -> None:
        name, given = text(item, "name", longest=200), inner(item, "arguments")
        if item.get("type") == "local_shell_call":
            name, given = _SHELL, {"command": _command(inner(item, "action").get("command"))}
        elif item.get("type") == "custom_tool_call":
            given = {"command" if name == PATCH else "input": item.get("input")}
        elif name in _SHELLS:
            name, given = _SHELL, {"command": _command(given.get("cmd") or given.get("command"))}
        elif (space := text(item, "namespace", longest=200)).startswith("mcp__"):
            name = f"{space.rstrip('_')}__{name}"
        if name != _POLL:
            self._calls.add(item.get("call_id"), name, given)


def _subagent(meta: Mapping[str, object]) -> tuple[str, str]:
    """The kind of subagent that a session is, and the id of its parent; empty for others."""
    source = inner(meta, "source")
    about = source.get("subagent", source.get("sub_agent"))
    parent = text(meta, "parent_thread_id", longest=200)
    if isinstance(about, str):
        return about, parent
    if not isinstance(about, dict):
        return ("agent" if parent and meta.get("thread_source") == "subagent" else ""), parent
    kind = str(about["other"]) if isinstance(about.get("other"), str) else str(next(iter(about), "agent"))
    return kind, parent or text(inner(about, "thread_spawn"), "parent_thread_id", longest=200)


def _is_after(turn: str, thread: str) -> bool:
    """Whether a turn began after its thread. Both ids begin with their time, in version 7 of UUIDs."""
    both = (turn.lower(), thread.lower())
    return (
        all(_ID.fullmatch(id) is not None and id[14] == "7" for id in both) and turn.lower()[:13] >= thread.lower()[:13]
    )


def _shortly_after(at: object) -> str:
    begun = moment(at)
    try:
        return (datetime.fromisoformat(begun) + _COPYING).isoformat() if begun is not None else ""
    except OverflowError:
        return ""


def _short(texts: list[str]) -> list[str]:
    """The texts of a message as far as they are kept. Several messages are held at a time."""
    kept, size = list[str](), 0
    for each in texts:
        if size < LONGEST:
            kept.append(cut(each, LONGEST))
            size += len(kept[-1]) + 1
    return kept


def _command(given: object) -> str:
    """A command as one text. Most are a script for a shell."""
    if not isinstance(given, list):
        return given if isinstance(given, str) else ""
    words = [word for word in given if isinstance(word, str)]
    if len(words) == 3 and words[1] in ("-lc", "-c", "-Command", "/c"):
        return words[2]
    import shlex

    return shlex.join(words)


@lru_cache(maxsize=16)
def _names(index: Path) -> dict[str, str]:
    """The names that the person gave to sessions."""
    names: dict[str, str] = {}
    if not is_there(index):
        return names
    with suppress(NothingToImport, NotOfFormat):
        for found in json_lines(Source(index)):
            if not isinstance(found, Skipped) and len(names) < _MOST_NAMES:
                names[text(found[1], "id", longest=200)] = text(found[1], "thread_name", longest=1_000)
    return names


FORMAT = Format("codex", "Codex's sessions", _find, _read, ("~/.codex/sessions", "~/.codex/archived_sessions"))
