"""Gemini CLI's sessions: `chats/session-….jsonl`, in older versions one `.json` document; and saved checkpoints.

A session's file is a log of operations. A message that changes, because its tools have ended, is written again with the
same id, directly behind the first time. `$rewindTo` takes messages back, but they were said, and hooks have recorded
them, so they are kept. `$set` changes the session's data. After a compression it gives all messages anew, and among
them the summary.

A checkpoint (`/chat save`) is a copy of the conversation without times. It is read if it is named, or if its project
has no sessions: versions before the autumn of 2025 kept nothing else.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote

from ..harness_messages import prompt_of, texts_of
from ..harness_payloads import inner, log_line, text
from ..interfaces.external_ids import of_session
from ..interfaces.hooks.gemini import WRITING_TOOLS
from . import kinds
from .conversations import (
    Conversation,
    careful,
    is_own,
    is_there,
    latest,
    modified,
    own,
    project_of,
    small_file,
    tail,
    target,
    text_fields,
)
from .files import Source, below, json_items, json_lines, parsed
from .formats import Format
from .items import SessionItem, Skipped
from .times import moment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .items import Item, Options

_TITLE = "Gemini CLI"
_CHATS, _SESSION, _CHECKPOINT = "chats", "session-", "checkpoint-"
#: What the program tells the model first; newer versions put it into an element.
_SETTING_UP = "This is the Gemini CLI. We are setting up the context for our chat."
_UNDERSTOOD = "Got it. Thanks for the context!"
_FOLDERS = re.compile(r"(?:Workspace Directories:\*{0,2}|working in the directory:)\s{1,9}(?:- )?([^\n]{1,1000})")
#: What the person ran with `!`, and a conversation in short after a compression.
_RAN = re.compile(r"\AI ran the following shell command:\n```sh\n([^\n]{1,1000})")
_SNAPSHOT = "<state_snapshot>"
#: The text of files that a prompt mentions follows it.
_FILES = "--- Content from referenced files ---"
_CANCELLED = "cancelled"
#: Bytes of the list of projects.
_LONGEST_LIST = 16 * 1024 * 1024


def _find(path: Path) -> list[Source]:
    if not path.is_dir():
        found = Source(path)
        kinds.require(path, kinds.kind_of(found), kinds.GEMINI, _TITLE)
        return [found]
    sources = []
    for file in below(path, ".json", ".jsonl"):
        folder = file.parent
        is_session = folder.name == _CHATS and file.name.startswith(_SESSION)
        is_agent = folder.parent.name == _CHATS and file.suffix == ".jsonl"
        is_checkpoint = file.name.startswith(_CHECKPOINT) and not (folder / _CHATS).is_dir()
        # A session that was resumed with a newer version has both forms.
        if file.suffix == ".json" and is_there(file.with_suffix(".jsonl")):
            continue
        if is_session or is_agent or is_checkpoint:
            source = Source(file)
            if kinds.is_kind(source, kinds.GEMINI):
                sources.append(source)
    return sources


@careful
def _read(source: Source, options: Options) -> Iterator[Item]:
    head = source.head(64 * 1024)
    entries = kinds.objects(head)
    is_log = any(kinds.kind_of_entry(entry) == kinds.GEMINI and "messages" not in entry for entry in entries)
    if is_log or source.path.suffix == ".jsonl":
        yield from _session(source)
    elif b'"projectHash"' in head or b'"sessionId"' in head:
        yield from _document(source, head)
    else:
        yield from _checkpoint(source)


def _session(source: Source) -> Iterator[Item]:
    reader = _Reader(source)
    for found in json_lines(source):
        if isinstance(found, Skipped):
            yield found
        else:
            yield from reader.take(*found)
    yield from reader.end()


def _document(source: Source, head: bytes) -> Iterator[Item]:
    """The older form: one document with the session's data and `messages`."""
    reader = _Reader(source)
    known = text_fields(head.partition(b'"messages"')[0].decode(errors="replace"))
    _, is_whole, end = _end_of(source).rpartition("]")
    title = text_fields(end).get("summary") if is_whole else None
    fields = ("sessionId", "projectHash", "startTime", "lastUpdated", "kind")
    yield from reader.take(0, {"summary": title, **{name: known.get(name) for name in fields}})
    for found in json_items(source, "messages"):
        if isinstance(found, Skipped):
            yield found
        elif isinstance(found[1], dict):
            yield from reader.take(found[0], found[1])
    yield from reader.end()


class _Reader:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._data: dict[str, object] = {}
        self._talk: Conversation | None = None
        self._is_own = False
        #: The last message of the model, which may be written again.
        self._message: dict[str, object] | None = None

    def take(self, number: int, record: dict[str, object]) -> Iterator[Item]:
        given = record.get("$set")
        if isinstance(given, dict):
            messages = given.get("messages")
            if isinstance(messages, list):
                yield from self._compressed([each for each in messages if isinstance(each, dict)])
        elif "sessionId" in record and "type" not in record:
            self._data = record if not self._data else self._data
        elif isinstance(record.get("id"), str) and isinstance(record.get("type"), str):
            yield from self._record(record)
        elif "$rewindTo" not in record:
            yield Skipped(f"line {number}" if number else "the document", "not a record of a session")

    def end(self) -> Iterator[Item]:
        if self._talk is not None and not self._is_own:
            yield from self._flush(self._talk)
            yield from self._talk.end()

    def _record(self, record: dict[str, object]) -> Iterator[Item]:
        if self._talk is None:
            self._talk = self._begun()
            if self._is_own:
                yield own(self._talk.session.id)
        if self._is_own:
            return
        if self._message is None or self._message.get("id") != record["id"]:
            yield from self._flush(self._talk)
        if record["type"] == "gemini":
            self._message = record
        elif record["type"] == "user":
            yield from self._prompt(self._talk, record)

    def _prompt(self, talk: Conversation, record: dict[str, object]) -> Iterator[Item]:
        shown = texts_of({"type": "user", "content": record.get("displayContent")})
        texts = shown or texts_of(record)
        at, id = moment(record.get("timestamp")), str(record["id"])
        whole = "\n".join(texts).strip()
        if not whole:
            return  # results of tools
        if talk.session.project is None and (folder := _FOLDERS.search(whole)):
            talk.session = talk.session._replace(project=project_of(folder[1].strip()))
        if _SNAPSHOT in whole:
            yield from talk.gist(whole, at, id)
        elif ran := _RAN.match(whole):
            yield from talk.prompt(f"! {ran[1]}", at, id)
        elif not whole.startswith(_SETTING_UP):
            kept = texts[: next((place for place, each in enumerate(texts) if _FILES in each), len(texts))]
            yield from talk.prompt(prompt_of(kept), at, id)

    def _flush(self, talk: Conversation) -> Iterator[Item]:
        """Give the last message of the model: nothing more of it comes."""
        record, self._message = self._message, None
        if record is None:
            return
        at = moment(record.get("timestamp"))
        said = "\n".join(texts_of(record))
        if said != _UNDERSTOOD:
            yield from talk.say(said, at, str(record["id"]))
        calls = record.get("toolCalls")
        for call in calls if isinstance(calls, list) else ():
            talk.call()
            if isinstance(call, dict) and call.get("status") != _CANCELLED:
                line = _line(call, failed=call.get("status") == "error")
                yield from talk.log(line, moment(call.get("timestamp")) or at)

    def _compressed(self, messages: list[dict[str, object]]) -> Iterator[Item]:
        """The messages after a compression. All but the summary were read before."""
        for message in messages:
            said = "\n".join(texts_of({"type": "user", "content": message.get("content")}))
            if self._talk is not None and not self._is_own and message.get("type") == "user" and _SNAPSHOT in said:
                yield from self._flush(self._talk)
                yield from self._talk.gist(said, moment(message.get("timestamp")), text(message, "id") or None)
                return

    def _begun(self) -> Conversation:
        data, file = self._data, self._source.path
        id = text(data, "sessionId", longest=200) or file.stem
        above = file.parent.name if file.parent.parent.name == _CHATS else None
        folder = _folder_of(_project_folder(file)) or _first(data.get("directories"))
        self._is_own = is_own(folder)
        is_log = file.suffix == ".jsonl"
        entries = tail(self._source) if is_log else []
        summaries = [text(inner(entry, "$set"), "summary", longest=1_000) for entry in entries]
        ends = latest(entry.get("timestamp") for entry in entries)
        # A log begins with the session's data; its `lastUpdated` is from then.
        ends = ends or (latest([data.get("lastUpdated")]) if not is_log else None) or modified(self._source)
        return Conversation(
            SessionItem(
                id=of_session(above, id) if above else id,
                type="gemini",
                started_at=moment(data.get("startTime")),
                last_at=ends,
                project=project_of(folder),
                name=(next(filter(None, reversed(summaries)), "") or text(data, "summary", longest=1_000)) or None,
                parent=above,
            ),
            of_agent=above is not None,
        )


def _checkpoint(source: Source) -> Iterator[Item]:
    """A conversation that the person saved: what the model got and gave, without ids and times."""
    file = source.path
    folder = _folder_of(file.parent)
    tag = unquote(file.stem.removeprefix(_CHECKPOINT))
    id, at = f"{file.parent.name}/{file.stem}"[:180], modified(source)
    talk = Conversation(SessionItem(id, "gemini", at, at, project_of(folder), name=tag or None))
    for found in json_items(source, "history"):
        if isinstance(found, Skipped):
            yield found
            continue
        content = found[1]
        if not isinstance(content, dict):
            yield Skipped(f"item {found[0]}", "no message")
            continue
        parts = content.get("parts")
        shown = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
        texts = [str(part["text"]) for part in shown if isinstance(part.get("text"), str) and not part.get("thought")]
        said = "\n".join(texts).strip()
        if content.get("role") == "user" and said and not said.startswith(_SETTING_UP):
            yield from talk.prompt(prompt_of(texts), None, None)
        elif content.get("role") == "model" and said != _UNDERSTOOD:
            yield from talk.say(said, None, None)
            for part in shown:
                if isinstance(call := part.get("functionCall"), dict):
                    talk.call()
                    yield from talk.log(_line(call, failed=False), None)
    yield from talk.end()


def _project_folder(file: Path) -> Path:
    """The folder of a session's project in `~/.gemini/tmp`."""
    folder = file.parent if file.parent.name == _CHATS else file.parent.parent
    return folder.parent if folder.name == _CHATS else file.parent


@lru_cache(maxsize=256)
def _folder_of(project: Path) -> str | None:
    """The folder that a project's sessions ran in. It is written beside them, or in the list of projects."""
    for home in (project, project.parent.parent / "history" / project.name):
        root = small_file(home / ".project_root", 64 * 1024)
        if root is not None:
            return root.decode(errors="replace")[:4_096].strip() or None
    listed = parsed(small_file(project.parent.parent / "projects.json", _LONGEST_LIST) or b"", "")
    known = listed.get("projects") if isinstance(listed, dict) else None
    folders = known.items() if isinstance(known, dict) else ()
    return next((folder for folder, key in folders if key == project.name), None)


def _line(call: dict[str, object], *, failed: bool) -> str:
    name = text(call, "name", longest=200)
    return log_line(name, target(name, call.get("args"), WRITING_TOOLS), failed=failed)


def _first(folders: object) -> str | None:
    return folders[0] if isinstance(folders, list) and folders and isinstance(folders[0], str) else None


def _end_of(source: Source) -> str:
    with source.open() as file:
        file.seek(max(0, source.size - 8_192))
        return file.read(8_192).decode(errors="replace")


FORMAT = Format("gemini", "Gemini CLI's sessions", _find, _read, ("~/.gemini/tmp",))
