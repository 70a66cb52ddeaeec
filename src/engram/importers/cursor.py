"""Cursor's conversations: transcripts of its agent, exported chats, and the editor's database (`cursor_database.py`).

`agent-transcripts` has a file of JSON lines for each conversation; before the spring of 2026 it was a text. Neither has
times, except that newer versions tell the model when the person asked. An exported chat has only the time of its
export. A transcript does not name its folder: its project's folder in `~/.cursor/projects` is called like the path,
with a hyphen for everything that is no letter or digit.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import NotOfFormat
from ..harness_messages import message_of, prompt_of, texts_of
from ..harness_payloads import log_line, name
from ..harness_prompts import asked
from ..interfaces.external_ids import of_session
from ..interfaces.hooks.cursor import WRITING_TOOLS
from . import cursor_database, kinds
from .conversations import UNFINISHED, Conversation, careful, may_grow, modified, project_of, target, text_lines
from .files import Source, below, json_lines
from .formats import Format
from .items import SessionItem, Skipped
from .times import zone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .items import Item, Options

_TITLE = "Cursor"
_FOLDER, _AGENTS = "agent-transcripts", "subagents"
#: Characters of one message that are held. A longer one is cut anyway.
_LONGEST = 400_000
_ASKED_AT = re.compile(
    r"<timestamp>[A-Za-z]{3,9}, ([A-Za-z]{3} \d{1,2}, \d{4}, \d{1,2}:\d\d [AP]M) "
    r"\(UTC(?:([+-])(\d{1,2})(?::?(\d\d))?)?\)</timestamp>"
)
_EXPORTED = re.compile(
    r"\A_Exported on (\d{1,2})/(\d{1,2})/(\d{4}) at (\d{1,2}):(\d\d):(\d\d) ?([AP]M)? ?([A-Z]{2,5})?([+-]\d{1,2})? "
)
#: Hours of the zones in exported times. With one of America's the month stands first.
_AMERICAN = {"EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7}
_ZONES = {**_AMERICAN, "UTC": 0, "GMT": 0, "BST": 1, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3, "JST": 9}
_SPEAKERS = {"**User**": "user", "**Cursor**": "assistant"}
_RULE = "---"
#: Directories that are listed to find the folder of a project.
_MOST_LISTED = 3_000


def _find(path: Path) -> list[Source]:
    if not path.is_dir():
        found = Source(path)
        kind = kinds.kind_of(found)
        if kind == kinds.DATABASE:
            if not cursor_database.is_editors(path):
                raise NotOfFormat(f"{path} is an SQLite database, but not one of Cursor's with conversations.")
        else:
            kinds.require(path, kind, kinds.CURSOR, _TITLE)
        return [found]
    sources = []
    for file in below(path, ".jsonl", ".txt", ".md", ".vscdb"):
        source = Source(file)
        is_editors = file.suffix == ".vscdb" and cursor_database.is_editors(file)
        if is_editors or (file.suffix != ".vscdb" and kinds.is_kind(source, kinds.CURSOR)):
            sources.append(source)
    return sources


@careful
def _read(source: Source, options: Options) -> Iterator[Item]:
    kind = kinds.kind_of(source)
    if kind == kinds.DATABASE:
        yield from cursor_database.read(source)
    elif source.head(4_096).lstrip().startswith((b"{", b"[")):
        yield from _transcript(source)
    elif source.head(4_096).lstrip().startswith(b"user:"):
        yield from _text(source)
    else:
        yield from _export(source, options)


def _session(source: Source, task: str = "") -> Conversation:
    """The conversation of a transcript. A subagent's file is in its parent's folder."""
    file, at = source.path, modified(source)
    above = file.parent.parent.name if file.parent.name == _AGENTS else None
    item = SessionItem(file.stem, "cursor", at, at, _project(file), parent=above)
    if above is not None:
        # The hooks' id of it: the event of its end has only the task.
        digest = blake2b((name({"task": task}, "task") or "").encode(), digest_size=8).hexdigest()
        item = item._replace(id=of_session(above, f"task-{digest}"))
    return Conversation(item, of_agent=above is not None)


def _transcript(source: Source) -> Iterator[Item]:
    talk: Conversation | None = None
    for found in json_lines(source):
        if isinstance(found, Skipped):
            yield found
            continue
        number, entry = found
        role, message = entry.get("role"), entry.get("message")
        if role not in ("user", "assistant") or not isinstance(message, dict):
            if entry.get("type") == "turn_ended" and talk is not None:
                yield from talk.stop()
            elif "type" not in entry:
                yield Skipped(f"line {number}", "not an entry of a transcript")
            continue
        talk = talk or _session(source, "\n".join(texts_of(entry)))
        if role == "user":
            yield from _asked(talk, message.get("content"), texts_of(entry))
        else:
            yield from _answered(talk, entry, message.get("content"))
    if talk is not None:
        yield from talk.end(is_whole=not may_grow(source))


def _asked(talk: Conversation, content: object, texts: list[str]) -> Iterator[Item]:
    raw = "\n".join(texts_of({"type": "user", "content": content}))
    if prompt := prompt_of(texts):
        yield from talk.prompt(prompt, _asked_at(raw), None)


def _answered(talk: Conversation, entry: dict[str, object], content: object) -> Iterator[Item]:
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    calls = [part for part in parts if part.get("type") == "tool_use"]
    found = message_of(entry)
    is_last = bool(calls) and parts[-1] is not calls[-1]
    if found is not None and not is_last:
        yield from talk.say(found[1].text, None, found[1].id)
    for call in calls:
        talk.call()
        tool = name(call, "name") or ""
        # What came of it is not in the transcript.
        line = log_line(tool, target(tool, call.get("input"), WRITING_TOOLS), failed=False)
        yield from talk.log(line, None)
    if found is not None and is_last:
        yield from talk.say(found[1].text, None, found[1].id)


def _text(source: Source) -> Iterator[Item]:
    """The older form of a transcript: a text with a line before each part.

    The output of a tool may have such lines, too. So nothing behind the first call is surely the person's.
    """
    talk: Conversation | None = None
    role, held, size = "", list[str](), 0
    tool, given = "", dict[str, object]()

    def complete() -> Iterator[Item]:
        nonlocal talk, role, held, size, tool, given
        said = "\n".join(held).strip()
        talk = talk or _session(source, asked(said))
        if role == "user":
            yield from _asked(talk, said, [asked(said)])
        elif role == "assistant" and said:
            yield from talk.say(said, None, None)
        elif role == "call":
            talk.call()
            yield from talk.log(log_line(tool, target(tool, given, WRITING_TOOLS), failed=False), None)
        role, held, size, tool, given = "", [], 0, "", {}

    def doubt() -> None:
        if talk is not None:
            talk.is_doubtful = True

    for found in text_lines(source):
        if isinstance(found, Skipped):
            yield found
            continue
        line = found[1]
        if line in ("user:", "assistant:", "A:"):
            yield from complete()
            role = "user" if line == "user:" else "assistant"
        elif line.startswith("[Tool call] "):
            yield from complete()
            doubt()
            role, tool = "call", line.removeprefix("[Tool call] ").strip()
        elif line.startswith(("[Tool result]", "[Thinking]")):
            yield from complete()
            role = "thought" if line.startswith("[Thinking]") else "result"
            if role == "result":
                doubt()
        elif role == "call" and line.startswith("  "):
            field, sign, value = line.strip().partition(":" if ":" in line else "=")
            if sign:
                given.setdefault(field.strip(), value.strip())
        else:
            if role in ("call", "thought") and line.strip() and not line.startswith((" ", "\t")):
                yield from complete()
                role = "assistant"
            if role in ("user", "assistant") and size < _LONGEST:
                held.append(line)
                size += len(line) + 1
    if not may_grow(source):
        yield from complete()
    elif (talk is not None and talk.drop()) or role:  # also a prompt may be written only in part
        yield Skipped(f"session {source.path.stem}", UNFINISHED)
    if talk is not None:
        yield from talk.end()


def _export(source: Source, options: Options) -> Iterator[Item]:
    """A chat that the person exported. It does not name its conversation."""
    title, at = "", None
    talk: Conversation | None = None
    role, held, size, before = "", list[str](), 0, _RULE

    def complete() -> Iterator[Item]:
        nonlocal talk, held, size
        while held and held[-1].strip() in ("", _RULE):
            held.pop()
        said = "\n".join(held).strip()
        held, size = [], 0
        if not said or not role:
            return
        if talk is None:
            digest = blake2b(f"{title}\n{said}".encode(), digest_size=12).hexdigest()
            talk = Conversation(SessionItem(f"export-{digest}", "cursor", at, at, name=title or None))
        yield from talk.prompt(prompt_of([said]), None, None) if role == "user" else talk.say(said, None, None)

    for found in text_lines(source):
        if isinstance(found, Skipped):
            yield found
            continue
        line = found[1]
        if not role and line.startswith("# ") and not title:
            title = line[2:].strip()[:1_000]
        elif not role and (exported := _EXPORTED.match(line)):
            at = _exported_at(exported, options) or modified(source)
        elif line.strip() in _SPEAKERS and (before == _RULE or not role):
            yield from complete()
            role = _SPEAKERS[line.strip()]
        elif role and size < _LONGEST:
            held.append(line)
            size += len(line) + 1
        before = line.strip() or before
    yield from complete()
    if talk is not None:
        yield from talk.end()


def _asked_at(text: str) -> str | None:
    """When the person asked, as newer versions tell the model."""
    head = text.partition("<user_query>")[0]
    found = _ASKED_AT.search(head)
    if found is None:
        return None
    day, sign, hours, minutes = found.groups()
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    try:
        local = datetime.strptime(day, "%b %d, %Y, %I:%M %p")
        return local.replace(tzinfo=timezone(-offset if sign == "-" else offset)).astimezone(UTC).isoformat()
    except (ValueError, OverflowError):
        return None


def _exported_at(found: re.Match[str], options: Options) -> str | None:
    """The time of an export. It is written as the person's country does, so it may be ambiguous: then it is None."""
    first, second, year, hour, minute, second_of = (int(each) for each in found.groups()[:6])
    half, region, offset = found.groups()[6:]
    if region in _AMERICAN or second > 12:
        month, day = first, second
    elif first > 12 or first == second:
        month, day = second, first
    else:
        return None
    hour = hour % 12 + (12 if half == "PM" else 0) if half else hour
    known = _ZONES.get(region or "")
    where = timezone(timedelta(hours=known + int(offset or 0))) if known is not None else zone(options.timezone)
    try:
        return datetime(year, month, day, hour, minute, second_of, tzinfo=where).astimezone(UTC).isoformat()
    except (ValueError, OverflowError):
        return None


def _project(file: Path) -> str | None:
    """The project of a transcript, from the name of its folder in `~/.cursor/projects`."""
    folders = [folder for folder in file.parents if folder.name == _FOLDER]
    return project_of(_folder_called(folders[0].parent.name)) if folders else None


@lru_cache(maxsize=256)
def _folder_called(slug: str) -> str | None:
    """The folder whose path is written like this; None if there is none any more."""
    left = _MOST_LISTED

    def below_it(folder: str, rest: str) -> str | None:
        nonlocal left
        left -= 1
        try:
            names = os.listdir(folder) if left > 0 else []
        except OSError:
            return None
        for each in sorted(names, key=len, reverse=True):
            written, path = _written(each), os.path.join(folder, each)
            if written and (rest == written or rest.startswith(f"{written}-")) and os.path.isdir(path):
                found = path if rest == written else below_it(path, rest[len(written) + 1 :])
                if found is not None:
                    return found
        return None

    return below_it(os.path.abspath(os.sep), _written(slug)) if slug else None


def _written(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")


FORMAT = Format("cursor", "Cursor's conversations", _find, _read, ("~/.cursor/projects",))
