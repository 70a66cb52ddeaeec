"""Cursor's own database, `User/globalStorage/state.vscdb`: every conversation of the editor.

A conversation is a row `composerData:ID` with the order of its messages, each a row `bubbleId:ID:MESSAGE`; older ones
have their messages inside. A conversation may name its folder. Otherwise the databases of the workspaces, in
`User/workspaceStorage`, list the conversations that belong to each.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from ..errors import EngramError
from ..harness_messages import prompt_of
from ..harness_payloads import Payload, inner, log_line, storable, text, tool_target
from .conversations import Conversation, project_of, small_file
from .files import LONGEST, parsed
from .foreign import opened
from .items import SessionItem, Skipped
from .times import moment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .files import Source
    from .foreign import ForeignDatabase
    from .items import Item

_TABLE = "cursordiskkv"
#: The keys of conversations are all between these.
_FROM, _TO = "composerData:", "composerData;"
_CONVERSATIONS = "SELECT key, value, LENGTH(value) FROM cursorDiskKV WHERE key >= ? AND key < ? AND LENGTH(value) <= ?"
_TOO_LONG = "SELECT key FROM cursorDiskKV WHERE key >= ? AND key < ? AND LENGTH(value) > ?"
_NUMBER = "SELECT COUNT(*) FROM cursorDiskKV WHERE key >= ? AND key < ?"
_MESSAGE = "SELECT value FROM cursorDiskKV WHERE key = ? AND LENGTH(value) <= ?"
_ITEM = "SELECT value FROM ItemTable WHERE key = 'composer.composerData' AND LENGTH(value) <= ?"
_PERSON, _AGENT = 1, 2
#: Times before this, in milliseconds, count from the start of the program.
_RELATIVE = 946_684_800_000
#: How Cursor's tools name the file that they work on.
_FILES = ("target_file", "targetFile", "relativeWorkspacePath", "effectiveUri", "filePath", "directoryPath")
_MOST_WORKSPACES = 2_000


def is_editors(path: Path) -> bool:
    """Whether an SQLite file is Cursor's, with conversations."""
    try:
        with opened(path) as database:
            return database.has(_TABLE, "key", "value")
    except (EngramError, OSError):
        return False


def read(source: Source) -> Iterator[Item]:
    """The conversations of the database, one after the other."""
    folders = _folders(source.path)
    with opened(source.path) as database:
        for (key,) in database.select(_TOO_LONG, _FROM, _TO, LONGEST):
            yield Skipped(str(key)[:200], f"longer than {LONGEST // 1024 // 1024} MiB")
        number = next((row[0] for row in database.select(_NUMBER, _FROM, _TO)), 0)
        for place, (key, value, _) in enumerate(database.select(_CONVERSATIONS, _FROM, _TO, LONGEST), 1):
            source.position = source.size * place // max(1, number if isinstance(number, int) else 1)
            found = _value(value, str(key)[:200])
            if isinstance(found, Skipped):
                yield found
            elif isinstance(found, dict):
                yield from _conversation(database, str(key).removeprefix(_FROM), found, folders)


def _conversation(
    database: ForeignDatabase, id: str, composer: dict[str, object], folders: dict[str, str]
) -> Iterator[Item]:
    place = inner(inner(composer, "workspaceIdentifier"), "uri")
    talk = Conversation(
        SessionItem(
            id=text(composer, "composerId", longest=200) or id,
            type="cursor",
            started_at=moment(composer.get("createdAt")),
            last_at=moment(composer.get("lastUpdatedAt")) or moment(composer.get("createdAt")),
            project=project_of(text(place, "fsPath", "path", longest=4_096) or folders.get(id)),
            name=text(composer, "name", longest=1_000) or None,
        )
    )
    for where, message in _messages(database, id, composer):
        if isinstance(message, Skipped):
            yield message
        elif isinstance(message, dict):
            yield from _message(talk, message)
        elif message is not None:
            yield Skipped(where, "no message")
    yield from talk.end()


def _messages(database: ForeignDatabase, id: str, composer: dict[str, object]) -> Iterator[tuple[str, object]]:
    inside = composer.get("conversation")
    if isinstance(inside, list) and inside:
        yield from ((f"message {number} of {id}", each) for number, each in enumerate(inside, 1))
        return
    order = composer.get("fullConversationHeadersOnly")
    for header in order if isinstance(order, list) else ():
        key = storable(f"bubbleId:{id}:{text(header, 'bubbleId', longest=200) if isinstance(header, dict) else ''}")
        for (value,) in database.select(_MESSAGE, key, LONGEST):
            yield key[:200], _value(value, key[:200])


def _message(talk: Conversation, message: dict[str, object]) -> Iterator[Item]:
    said, at, id = text(message, "text"), _time(message), text(message, "bubbleId", longest=200) or None
    if message.get("type") == _PERSON:
        if said:
            yield from talk.prompt(prompt_of([said]), at, id)
    elif message.get("type") == _AGENT:
        yield from talk.say(said, at, id)
        tool = inner(message, "toolFormerData")
        if tool_name := text(tool, "name", longest=200):
            talk.call()
            if tool.get("status") != "cancelled":
                yield from talk.log(log_line(tool_name, _target(tool), failed=tool.get("status") == "error"), at)


def _target(tool: Payload) -> str:
    given = inner(tool, "rawArgs") or inner(tool, "params")
    return tool_target(given, ()) or text(given, *_FILES, longest=1_000)


def _time(message: dict[str, object]) -> str | None:
    """When a message was sent. Older ones count from the start of the program, and to a time of the clock."""
    if at := moment(message.get("createdAt")):
        return at
    timing = inner(message, "timingInfo")
    times = [timing.get(name) for name in ("clientStartTime", "clientRpcSendTime", "clientSettleTime", "clientEndTime")]
    known = [each for each in times if isinstance(each, int | float) and each >= _RELATIVE]
    return moment(known[0]) if known else None


def _value(value: object, where: str) -> object:
    if isinstance(value, str | bytes):
        return parsed(value, where)
    return None


def _folders(path: Path) -> dict[str, str]:
    """The folder of each conversation that a workspace lists."""
    found: dict[str, str] = {}
    home = path.parent.parent / "workspaceStorage"
    if path.parent.name != "globalStorage" or not home.is_dir():
        return found
    try:
        workspaces = sorted(home.iterdir())[:_MOST_WORKSPACES]
    except OSError:
        return found
    for workspace in workspaces:
        with suppress(EngramError, OSError):
            about = parsed(small_file(workspace / "workspace.json", 1024 * 1024) or b"", "")
            folder = _path(text(about, "folder", longest=4_096)) if isinstance(about, dict) else None
            if folder is None:
                continue
            with opened(workspace / path.name) as database:
                rows = database.select(_ITEM, LONGEST) if database.has("itemtable", "key", "value") else ()
                for (value,) in rows:
                    found.update(dict.fromkeys(_ids(_value(value, "")), folder))
    return found


def _ids(listed: object) -> Iterator[str]:
    for name in ("allComposers", "selectedComposerIds"):
        listing = listed.get(name) if isinstance(listed, dict) else None
        for each in listing if isinstance(listing, list) else ():
            id = each.get("composerId") if isinstance(each, dict) else each
            if isinstance(id, str):
                yield id


def _path(uri: str) -> str | None:
    """The path of a folder that the editor names by its address."""
    parts = urlsplit(uri)
    return unquote(parts.path) or None if parts.scheme in ("file", "vscode-remote") else None
