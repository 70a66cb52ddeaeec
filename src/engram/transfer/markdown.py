"""Writes a workspace or a store as a folder of Markdown pages that people can read.

For each workspace: an index, a page for each session with all that was said, one for each month, memories by kind,
blocks with their history, the portrait, messages. Everything is read in one transaction. The folder appears under its
name when it is complete.

`page_folder` writes the files and keeps a list of them, so that a later export removes nothing else.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from heapq import merge
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InvalidInput
from ..records import PERSON
from ..setup_records import Exported
from ..storage import rows
from .markdown_text import fenced, file_name, inline, link, stamp
from .naming import workspaces
from .page_folder import Folder, new_folder
from .places import STANDARD_OUTPUT
from .tables import BY_NAME

if TYPE_CHECKING:
    from ..storage.engine import Row, Transaction
    from ..store_view import StoreView

    Progress = Callable[[int, int], None]

_PAGE = 200
#: Endings of files. A folder with one of them would surprise its user.
_FILE_ENDINGS = (".md", ".markdown", ".html", ".htm", ".txt", ".json", ".jsonl")
#: The type of the sessions of passes. They have no turns, and the digests of the passes say what they did.
_PASS = "dream"
_GIST_KIND = "gist"
#: What a memory that a pass learnt has beside its text.
_SAID = {"said", "by"}
_EVERYBODY = "*"
_PORTRAIT = ("profile", "narrative", "self")
_SESSIONS, _MEMORIES = BY_NAME["sessions"].table, BY_NAME["memories"].table
_BLOCKS, _MESSAGES = BY_NAME["blocks"].table, BY_NAME["messages"].table

_TURNS = """
SELECT seq, role, created_at, id, trust, author, content FROM exchanges
WHERE workspace = :workspace AND session_id = :session AND role <> 'log' AND seq > :after ORDER BY seq LIMIT :size
"""
_LOGS = """
SELECT seq, role, created_at, id, trust, author, content FROM exchanges
WHERE workspace = :workspace AND session_id = :session AND role = 'log' AND seq > :after ORDER BY seq LIMIT :size
"""
_GIST = """
SELECT m.content FROM gists g JOIN memories m ON m.id = g.memory_id
WHERE g.workspace = :workspace AND g.session_id = :session
"""
_ERA = """
SELECT content FROM memories WHERE workspace = :workspace AND kind = 'era' AND key = :month AND status = 'active'
"""
_TAGS = """
SELECT memory_id, tag FROM memory_tags
WHERE workspace = :workspace AND memory_id IN (SELECT value FROM json_each(:ids)) ORDER BY memory_id, tag
"""
_SOURCES = """
SELECT derived_id, source_kind, source_id FROM sources
WHERE workspace = :workspace AND derived_kind = 'memory' AND derived_id IN (SELECT value FROM json_each(:ids))
ORDER BY derived_id, source_kind, source_id
"""
_VERSIONS = """
SELECT memory_id, version, created_at, reason, content FROM memory_versions
WHERE memory_id IN (SELECT value FROM json_each(:ids)) ORDER BY memory_id, version
"""
_BLOCK_VERSIONS = """
SELECT version, created_at, actor, reason, content, data FROM block_versions
WHERE block_id = :id AND version > :after ORDER BY version LIMIT :size
"""


class _Session(NamedTuple):
    """What other pages say about a session."""

    created_at: str
    title: str
    page: str
    status: str


def export(view: StoreView, place: str, *, everything: bool, force: bool, progress: Progress | None = None) -> Exported:
    """Write the pages into a new folder."""
    if place == STANDARD_OUTPUT:
        raise InvalidInput("Pages go into a folder; give its name instead of -.")
    if place.lower().endswith(_FILE_ENDINGS) and not os.path.isdir(place):
        raise InvalidInput(
            f"The format markdown writes a folder of pages, but {os.path.basename(place)!r} is the name of a file.",
            typed="Name a folder: `engram export pages --format markdown`.",
        )
    shown = os.path.abspath(place)
    with new_folder(shown, force) as folder, view.engine.read() as tx:
        names = workspaces(tx) if everything else [view.workspace]
        total = sum(rows.count(tx, table, None if everything else view.workspace) for table in (_SESSIONS, _MEMORIES))
        steps = _Steps(progress, total)
        for name in names:
            _Workspace(tx, folder, name, steps).write()
        folder.write("index.md", _front(names, tx.now()))
    return Exported(shown, "markdown", tuple(names), {"page": folder.pages}, folder.bytes, {}, view.engine.is_encrypted)


class _Steps:
    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress = progress
        self._total = total
        self._done = 0

    def add(self, count: int) -> None:
        self._done += count
        if self._progress:
            self._progress(self._done, self._total)


class _Workspace:
    """The pages of one workspace."""

    def __init__(self, tx: Transaction, folder: Folder, name: str, steps: _Steps) -> None:
        self._tx = tx
        self._folder = folder
        self._name = name
        self._steps = steps
        self._sessions: dict[str, _Session] = {}

    def write(self) -> None:
        self._read_sessions()
        months = self._write_months()
        kinds = self._write_memories()
        blocks = self._write_blocks()
        messages = self._write_messages()
        for page in rows.pages(self._tx, _SESSIONS, self._name):
            for found in (rows.as_values(_SESSIONS, row) for row in page):
                if not _is_pass(found):
                    self._write_session(found)
            self._steps.add(len(page))
        self._put("index.md", self._index(months, kinds, blocks, messages))

    def _put(self, page: str, parts: Iterator[str] | list[str]) -> None:
        self._folder.write(f"{self._name}/{page}", parts)

    def _read_sessions(self) -> None:
        for page in rows.pages(self._tx, _SESSIONS, self._name):
            for found in (rows.as_values(_SESSIONS, row) for row in page):
                if _is_pass(found):
                    continue
                title = found["name"] or found["summary"] or found["outcome"] or found["id"]
                day = found["created_at"][:10]
                file = f"sessions/{file_name(day, found['id'])}.md"
                self._sessions[found["id"]] = _Session(found["created_at"], title[:300], file, found["status"])

    def _write_months(self) -> dict[str, int]:
        """A page for each month, with its sessions. Returns how many each has."""
        months: dict[str, list[_Session]] = {}
        tx = self._tx
        for session in sorted(self._sessions.values()):
            months.setdefault(session.created_at[:7], []).append(session)
        for month, found in sorted(months.items()):
            era = tx.value(_ERA, workspace=self._name, month=month)
            parts = [f"# {inline(month)}", link("Index", "../index.md")]
            parts += ["## What this month was about", fenced(era)] if era else []
            parts.append("## Sessions")
            parts.append(_list(found, "../"))
            self._put(f"months/{file_name(month)}.md", parts)
        return {month: len(found) for month, found in months.items()}

    def _write_session(self, found: dict[str, Any]) -> None:
        known, tx = self._sessions[found["id"]], self._tx
        facts = {
            "Id": found["id"],
            "Agent": found["type"],
            "Status": found["status"],
            "Project": found["project"],
            "Began": found["created_at"],
            "Last heard of": found["heartbeat_at"] if found["heartbeat_at"] != found["ended_at"] else None,
            "Ended": found["ended_at"],
            "Author": found["author"],
        }
        parts = [f"# {inline(known.title)}", link("Index", "../index.md"), _facts(facts)]
        parent = self._sessions.get(found["parent_id"] or "")
        if parent:
            parts.append(f"Part of {link(parent.title, '../' + parent.page)}")
        for heading, text in (("What it set out to do", found["summary"]), ("What came of it", found["outcome"])):
            parts += [f"## {heading}", fenced(text)] if text else []
        gist = tx.value(_GIST, workspace=self._name, session=found["id"])
        parts += ["## Gist", fenced(gist)] if gist else []
        self._put(known.page, [*parts, "## What was said and done"])
        self._put(known.page, self._talk(found["id"]))

    def _talk(self, session: str) -> Iterator[str]:
        both = merge(self._exchanges(session, logs=False), self._exchanges(session, logs=True), key=lambda row: row[0])
        for _, role, at, id, trust, author, content in both:
            by = f", {inline(author)}" if author else ""
            yield f"### {inline(role)}, {stamp(at)}\n\nExchange {id}, trust {inline(trust)}{by}"
            yield fenced(content)

    def _exchanges(self, session: str, *, logs: bool) -> Iterator[Row]:
        about: dict[str, Any] = {"workspace": self._name, "session": session, "size": _PAGE}
        after = -1
        tx = self._tx
        while found := tx.all(_LOGS, after=after, **about) if logs else tx.all(_TURNS, after=after, **about):
            yield from found
            after = found[-1][0]

    def _write_memories(self) -> dict[str, int]:
        """A page for each kind of memory. Returns how many each has."""
        kinds: dict[str, int] = {}
        for page in rows.pages(self._tx, _MEMORIES, self._name, size=_PAGE):
            values = [rows.as_values(_MEMORIES, row) for row in page]
            details = self._details([each["id"] for each in values])
            for kind in sorted({each["kind"] for each in values}):
                if kind not in kinds:
                    self._put(_kind_page(kind), [f"# Memories: {inline(kind)}", link("Index", "../index.md")])
                own = [each for each in values if each["kind"] == kind]
                kinds[kind] = kinds.get(kind, 0) + len(own)
                self._put(_kind_page(kind), [part for each in own for part in self._memory(each, details[each["id"]])])
            self._steps.add(len(page))
        return kinds

    def _details(self, ids: list[int]) -> dict[int, dict[str, list[Any]]]:
        """Tags, sources and versions of some memories."""
        tx = self._tx
        found: dict[int, dict[str, list[Any]]] = {id: {"tags": [], "sources": [], "versions": []} for id in ids}
        for id, tag in tx.all(_TAGS, workspace=self._name, ids=tx.array(ids)):
            found[id]["tags"].append(tag)
        for id, kind, source in tx.all(_SOURCES, workspace=self._name, ids=tx.array(ids)):
            found[id]["sources"].append(f"{kind} {source}")
        for id, *version in tx.all(_VERSIONS, ids=tx.array(ids)):
            found[id]["versions"].append(version)
        return found

    def _memory(self, found: dict[str, Any], details: dict[str, list[Any]]) -> Iterator[str]:
        yield f"## Memory {found['id']}"
        replaced = found["superseded_by"]
        said, data = _data(found)
        facts = {
            # That of a gist is the id of its session, which has a link.
            "Key": found["key"] if found["kind"] != _GIST_KIND else None,
            "Status": found["status"] + (f", replaced by memory {replaced}" if replaced else ""),
            "Tags": ", ".join(details["tags"]),
            "Project": found["project"],
            "Importance": f"{found['importance']:g}",
            "Pinned": "yes" if found["pinned"] else None,
            "Trust": found["trust"],
            "Author": found["author"],
            "Said": said,
            "Stored": found["created_at"],
            "Changed": found["updated_at"] if found["updated_at"] != found["created_at"] else None,
            "Expires": found["expires_at"],
            "Made of": ", ".join(details["sources"][:50]),
        }
        yield _facts(facts)
        session = self._sessions.get(found["session_id"] or "")
        if session:
            yield f"From the session {link(session.title, '../' + session.page)}"
        yield fenced(found["content"])
        if data is not None:
            yield f"Data:\n\n{fenced(data)}"
        for version, at, reason, content in details["versions"][:-1]:
            why = f", {inline(reason)}" if reason else ""
            yield f"Version {version}, {stamp(at)}{why}:\n\n{fenced(content)}"

    def _write_blocks(self) -> dict[str, str]:
        """A page for each block with its history. Returns the pages by name."""
        pages: dict[str, str] = {}
        portrait: dict[str, str] = {}
        for page in rows.pages(self._tx, _BLOCKS, self._name):
            for row in page:
                found = rows.as_values(_BLOCKS, row)
                pages[found["name"]] = f"blocks/{file_name(found['name'])}.md"
                self._write_block(found, pages[found["name"]])
                if found["name"] in _PORTRAIT:
                    portrait[found["name"]] = found["content"]
        if portrait:
            parts = ["# Portrait", link("Index", "index.md")]
            for name in _PORTRAIT:
                if name in portrait:
                    parts += [f"## {name.capitalize()}", link("With its history", pages[name]), fenced(portrait[name])]
            self._put("portrait.md", parts)
        return dict(sorted(pages.items()))

    def _write_block(self, found: dict[str, Any], page: str) -> None:
        facts = {
            "Version": str(found["version"]),
            "Budget": f"{found['max_tokens']:,} tokens",
            "Written by": found["updated_by"],
            "Changed": found["updated_at"],
        }
        parts = [f"# Block {inline(found['name'])}", link("Index", "../index.md"), _facts(facts)]
        parts.append(fenced(found["content"]))
        parts += [f"Data:\n\n{fenced(found['data'])}"] if found["data"] is not None else []
        self._put(page, [*parts, "## History"])
        self._put(page, self._history(found["id"]))

    def _history(self, id: int) -> Iterator[str]:
        after, tx = 0, self._tx
        while found := tx.all(_BLOCK_VERSIONS, id=id, after=after, size=_PAGE):
            for version, at, actor, reason, content, data in found:
                by = f", {inline(actor)}" if actor else ""
                yield f"### Version {version}, {stamp(at)}{by}\n\n{inline(reason)}"
                yield fenced(content)
                if data is not None:
                    yield f"Data:\n\n{fenced(data)}"
            after = found[-1][0]

    def _write_messages(self) -> int:
        count = 0
        for page in rows.pages(self._tx, _MESSAGES, self._name):
            if not count:
                self._put("messages.md", ["# Messages", link("Index", "index.md")])
            count += len(page)
            parts = []
            for row in page:
                found = rows.as_values(_MESSAGES, row)
                sender, to = self._session(found["from_session"], "a person"), self._receiver(found["target"])
                parts.append(f"## Message {found['id']}, {stamp(found['created_at'])}")
                parts.append(f"From {sender} to {to}\n\n{fenced(found['content'])}")
            self._put("messages.md", parts)
        return count

    def _session(self, id: str | None, otherwise: str) -> str:
        """A link to a session, from the folder of its workspace."""
        if not id:
            return otherwise
        found = self._sessions.get(id)
        return link(found.title, found.page) if found else inline(id)

    def _receiver(self, target: str) -> str:
        if target == PERSON:
            return "the person"
        return "every session at work" if target == _EVERYBODY else self._session(target, "")

    def _index(self, months: dict[str, int], kinds: dict[str, int], blocks: dict[str, str], messages: int) -> list[str]:
        parts = [f"# Workspace {inline(self._name)}"]
        if set(_PORTRAIT) & blocks.keys():
            parts.append(link("Portrait", "portrait.md"))
        parts += [f"{link('Messages', 'messages.md')}: {messages}"] if messages else []
        for heading, lines in (
            (
                "Months",
                [
                    f"- {link(month, f'months/{file_name(month)}.md')}: {n:,} {'session' if n == 1 else 'sessions'}"
                    for month, n in months.items()
                ],
            ),
            ("Memories", [f"- {link(kind, _kind_page(kind))}: {count}" for kind, count in sorted(kinds.items())]),
            ("Blocks", [f"- {link(name, page)}" for name, page in blocks.items()]),
        ):
            parts += [f"## {heading}", "\n".join(lines)] if lines else []
        newest = sorted(self._sessions.values(), reverse=True)
        if newest:
            parts += ["## Sessions, newest first", _list(newest)]
        return parts


def _is_pass(session: dict[str, Any]) -> bool:
    return bool(session["type"] == _PASS and not session["turns"])


def _data(memory: dict[str, Any]) -> tuple[str | None, str | None]:
    """Who said a memory that a pass learnt, and what else it has beside its text.

    The words of a gist are left out: they are only for the index.
    """
    try:
        found = json.loads(memory["data"] or "null")
    except (ValueError, RecursionError):
        return None, str(memory["data"])
    if not isinstance(found, dict):
        return None, memory["data"]
    if memory["kind"] == _GIST_KIND:
        found.pop("words", None)
    said = None
    if found.keys() == _SAID and all(isinstance(value, str) for value in found.values()):
        said, found = f"{found['said']}, by {found['by']}", {}
    return said, json.dumps(found, ensure_ascii=False) if found else None


def _kind_page(kind: str) -> str:
    return f"memories/{file_name(kind)}.md"


def _list(sessions: list[_Session], up: str = "") -> str:
    return "\n".join(f"- {inline(each.created_at[:10])} {link(each.title, up + each.page)}" for each in sessions)


def _facts(facts: dict[str, str | None]) -> str:
    return "\n".join(f"- {name}: {stamp(value)}" for name, value in facts.items() if value)


def _front(names: list[str], now: str) -> list[str]:
    lines = [f"- {link(name, f'{name}/index.md')}" for name in names]
    return ["# Engram", f"As it was at {stamp(now)}.", "## Workspaces", "\n".join(lines)]
