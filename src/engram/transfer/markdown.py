"""Writes a workspace or a store as a folder of Markdown pages that people can read.

For each workspace: an index, a page for each session with all that was said, one for each month, memories by kind,
blocks with their history, the portrait, messages. Everything is read in one transaction. The folder appears under its
name when it is complete.

A memory's heading is the anchor that links to it lead to. A turn has no heading, because a conversation should read
like one, so its line ends with an anchor. That anchor is the only HTML of the pages.

`page_folder` writes the files and keeps a list of them, so that a later export removes nothing else.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InvalidInput
from ..records import PERSON
from ..safe_text import one_line
from ..setup_records import Exported
from ..storage import rows
from .markdown_text import Pages, cited, clock, fenced, file_name, inline, link, passage, stamp
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
#: What Engram's own kinds of memories are. They stand after those that people and agents stored.
_DERIVED = {
    _GIST_KIND: "What each session was about. Engram wrote these.",
    "era": "What each month was about. Engram wrote these.",
    "digest": "What Engram learnt and changed each time it went through what was said.",
}
_FORGOTTEN = "(emptied by forgetting)"
#: The trust that turns of a role usually have. Any other is shown.
_USUAL_TRUST = {"user": "user", "assistant": "agent", "log": "agent"}
#: Lines of the log in one fence, and sources of a memory that are shown.
_LOG_LINES, _MOST_SOURCES = 200, 50
#: What an agent thought about itself, in the portrait.
_REFLECTIONS = 5
#: Characters of a session's title.
_TITLE = 100
#: Sessions on the index.
_LATEST = 10
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
SELECT version, created_at, actor, reason, content, data, receipt FROM block_versions
WHERE block_id = :id AND version > :after ORDER BY version LIMIT :size
"""
_KINDS = """
SELECT id, kind FROM memories WHERE workspace = :workspace AND id IN (SELECT value FROM json_each(:ids))
"""
_PLACES = """
SELECT id, session_id, role FROM exchanges WHERE workspace = :workspace AND id IN (SELECT value FROM json_each(:ids))
"""


class _Session(NamedTuple):
    """What other pages say about a session."""

    created_at: str
    title: str
    page: str
    agent: str


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
                title = one_line(found["name"] or found["summary"] or found["outcome"] or found["id"], _TITLE)
                # The title is in the name, so that a list of the files can be read.
                name = f"{found['created_at'][:10]} {title}"
                file = f"sessions/{file_name(name, found['id'])}.md"
                self._sessions[found["id"]] = _Session(found["created_at"], title, file, found["type"])

    def _write_months(self) -> dict[str, int]:
        """A page for each month, with its sessions. Returns how many each has."""
        months: dict[str, list[_Session]] = {}
        tx = self._tx
        for session in sorted(self._sessions.values()):
            months.setdefault(session.created_at[:7], []).append(session)
        for month, found in sorted(months.items()):
            era = tx.value(_ERA, workspace=self._name, month=month)
            parts = [f"# {inline(month)}", link("Index", "../index.md")]
            parts += ["## What this month was about", self._passage(era)] if era else []
            parts += ["## Sessions", _list(found, "../")]
            self._put(f"months/{file_name(month)}.md", parts)
        return {month: len(found) for month, found in months.items()}

    def _write_session(self, found: dict[str, Any]) -> None:
        known, tx = self._sessions[found["id"]], self._tx
        facts = {
            "Agent": found["type"],
            "Project": found["project"],
            "Author": found["author"],
            "Began": found["created_at"],
            "Ended": found["ended_at"],
            "Last heard of": found["heartbeat_at"] if not found["ended_at"] else None,
            "Status": found["status"],
            "Id": found["id"],
        }
        parts = [f"# {inline(known.title)}", link("Index", "../index.md"), "\n".join(_facts(facts))]
        parent = self._sessions.get(found["parent_id"] or "")
        if parent:
            parts.append(f"Part of {link(parent.title, '../' + parent.page)}")
        aim = found["summary"] if found["summary"] != known.title else None
        for heading, text in (("What it set out to do", aim), ("What came of it", found["outcome"])):
            parts += [f"## {heading}", passage(text)] if text else []
        gist = tx.value(_GIST, workspace=self._name, session=found["id"])
        parts += ["## Gist", self._passage(gist)] if gist else []
        self._put(known.page, [*parts, "## What was said and done"])
        self._put(known.page, self._talk(found))

    def _talk(self, session: dict[str, Any]) -> Iterator[str]:
        id = session["id"]
        both = merge(self._exchanges(id, logs=False), self._exchanges(id, logs=True), key=lambda row: row[0])
        # Lines of the log that follow each other, and are by the same author, are one list.
        for (role, _, trust, author), run in groupby(
            both, key=lambda row: (row[1], row[1] == "log" or row[0], *row[4:6])
        ):
            unusual = f", trust {inline(trust)}" if trust != _USUAL_TRUST.get(role) else ""
            # The page names the author of the session.
            unusual += f", by {inline(author)}" if author and author != session["author"] else ""
            if role == "log":
                while some := list(islice(run, _LOG_LINES)):
                    yield f"Log, {stamp(some[0][2])}{unusual}"
                    yield _log(some)
                continue
            name = {"user": "You", "assistant": session["type"] or role}.get(role, role)
            for _, _, at, exchange, _, _, content in run:
                yield f'**{inline(name)}**, {stamp(at)}{unusual} <a id="exchange-{exchange}"></a>'
                yield passage(content) or "(no text)"

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
            pages = self._pages_about(values, details)
            for kind in sorted({each["kind"] for each in values}):
                if kind not in kinds:
                    about = [_DERIVED[kind]] if kind in _DERIVED else []
                    head = [f"# Memories: {inline(kind)}", link("Index", "../index.md"), *about]
                    self._put(_kind_page(kind), head)
                own = [each for each in values if each["kind"] == kind]
                kinds[kind] = kinds.get(kind, 0) + len(own)
                self._put(
                    _kind_page(kind), [part for each in own for part in self._memory(each, details[each["id"]], pages)]
                )
            self._steps.add(len(page))
        return kinds

    def _details(self, ids: list[int]) -> dict[int, dict[str, list[Any]]]:
        """Tags, sources and versions of some memories."""
        tx = self._tx
        found: dict[int, dict[str, list[Any]]] = {id: {"tags": [], "sources": [], "versions": []} for id in ids}
        for id, tag in tx.all(_TAGS, workspace=self._name, ids=tx.array(ids)):
            found[id]["tags"].append(tag)
        for id, kind, source in tx.all(_SOURCES, workspace=self._name, ids=tx.array(ids)):
            # Each version names its sources.
            if (kind, source) not in found[id]["sources"][-1:]:
                found[id]["sources"].append((kind, source))
        for id, *version in tx.all(_VERSIONS, ids=tx.array(ids)):
            found[id]["versions"].append(version)
        return found

    def _pages_about(self, values: list[dict[str, Any]], details: dict[int, dict[str, list[Any]]]) -> _Pages:
        """The pages of everything that some memories name."""
        sources = {source for each in details.values() for source in each["sources"]}
        texts = [version[-1] for each in details.values() for version in each["versions"]]
        memories = cited([*texts, *(each["content"] for each in values)])
        memories |= {id for kind, id in sources if kind == "memory"}
        memories |= {each["superseded_by"] for each in values if each["superseded_by"]}
        turns: dict[int, str] = {}
        tx = self._tx
        ids = tx.array(sorted(id for kind, id in sources if kind == "exchange"))
        for id, session, role in tx.all(_PLACES, workspace=self._name, ids=ids):
            if session in self._sessions:
                anchor = f"#exchange-{id}" if role != "log" else ""
                turns[id] = f"../{self._sessions[session].page}{anchor}"
        return _Pages(self._memory_pages(memories), turns)

    def _memory_pages(self, ids: Iterable[int], up: str = "../") -> dict[int, str]:
        """The pages of those of the memories that the export has."""
        tx = self._tx
        found = tx.all(_KINDS, workspace=self._name, ids=tx.array(sorted(ids))) if ids else []
        return {id: f"{up}{_kind_page(kind)}#memory-{id}" for id, kind in found}

    def _passage(self, text: str, up: str = "../") -> str:
        """A text of Engram's own, in which the memories that it cites are links."""
        return passage(text, self._memory_pages(cited([text]), up))

    def _memory(self, found: dict[str, Any], details: dict[str, list[Any]], pages: _Pages) -> Iterator[str]:
        yield f"## Memory {found['id']}"
        yield passage(found["content"], pages.memories) or _FORGOTTEN
        said, data = _data(found)
        facts = {
            # That of a gist is the id of its session, which has a link.
            "Key": found["key"] if found["kind"] != _GIST_KIND else None,
            "Status": found["status"] if found["status"] != "active" else None,
            "Tags": ", ".join(details["tags"]),
            "Project": found["project"],
            # Engram gives its own texts the same importance each.
            "Importance": f"{found['importance']:g}" if found["kind"] not in _DERIVED else None,
            "Pinned": "yes" if found["pinned"] else None,
            "Trust": found["trust"],
            "Author": found["author"],
            "Said": said,
            "Stored": found["created_at"],
            "Changed": found["updated_at"] if found["updated_at"] != found["created_at"] else None,
            "Expires": found["expires_at"],
        }
        shown = _facts(facts)
        session = self._sessions.get(found["session_id"] or "")
        shown += [f"- Session: {link(session.title, '../' + session.page)}"] if session else []
        if found["superseded_by"]:
            shown.append(f"- Replaced by: {_thing('memory', found['superseded_by'], pages)}")
        if details["sources"]:
            shown.append(f"- Made of: {_made_of(details['sources'], pages)}")
        yield "\n".join(shown)
        if data is not None:
            yield f"Data:\n\n{fenced(data)}"
        for version, at, reason, content in details["versions"][:-1]:
            why = f", {inline(reason)}" if reason else ""
            yield f"Version {version}, {stamp(at)}{why}:\n\n{passage(content, pages.memories) or _FORGOTTEN}"

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
                    text = self._passage(_own_words(name, portrait[name]), "") or "(empty)"
                    parts += [f"## {name.capitalize()}", text, link("Its history", pages[name])]
            self._put("portrait.md", parts)
        return dict(sorted(pages.items()))

    def _write_block(self, found: dict[str, Any], page: str) -> None:
        facts = _facts(
            {
                "Version": str(found["version"]),
                "Changed": found["updated_at"],
                "Budget": f"{found['max_tokens']:,} tokens",
            }
        )
        facts += [f"- Written by: {self._session(found['updated_by'], '', '../')}"] if found["updated_by"] else []
        parts = [f"# Block {inline(found['name'])}", link("Index", "../index.md")]
        parts += [self._passage(found["content"]) or "(empty)", "\n".join(facts)]
        parts += [f"Data:\n\n{fenced(found['data'])}"] if found["data"] is not None else []
        self._put(page, [*parts, "## History"])
        self._put(page, self._history(found))

    def _history(self, block: dict[str, Any]) -> Iterator[str]:
        after, tx = 0, self._tx
        while found := tx.all(_BLOCK_VERSIONS, id=block["id"], after=after, size=_PAGE):
            for version, at, actor, reason, content, data, receipt in found:
                yield f"### Version {version}, {stamp(at)}"
                by = f"By {self._session(actor, '', '../')}" if actor else ""
                why = f"Reason: {inline(reason)}" if reason else ""
                if by or why:
                    yield "  \n".join(filter(None, [by, why]))
                if version == block["version"] and content == block["content"] and data == block["data"]:
                    yield "The text above."
                    continue
                yield self._passage(content) or ("(empty)" if receipt is None else _FORGOTTEN)
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
                parts.append(f"From {sender} to {to}\n\n{passage(found['content'])}")
            self._put("messages.md", parts)
        return count

    def _session(self, id: str | None, otherwise: str, up: str = "") -> str:
        """A link to a session, from the folder of its workspace or from one below it; its name if it has no page."""
        if not id:
            return otherwise
        found = self._sessions.get(id)
        return link(found.title, up + found.page) if found else inline(id)

    def _receiver(self, target: str) -> str:
        if target == PERSON:
            return "the person"
        return "every session at work" if target == _EVERYBODY else self._session(target, "")

    def _index(self, months: dict[str, int], kinds: dict[str, int], blocks: dict[str, str], messages: int) -> list[str]:
        parts = [f"# Workspace {inline(self._name)}"]
        portrait = [link(name.capitalize(), f"portrait.md#{name}") for name in _PORTRAIT if name in blocks]
        parts += [f"{link('Portrait', 'portrait.md')}: {', '.join(portrait)}"] if portrait else []
        latest = sorted(self._sessions.values(), reverse=True)[:_LATEST]
        own = sorted(kinds, key=lambda kind: (kind in _DERIVED, kind))
        lists = (
            ("Latest sessions" if len(self._sessions) > _LATEST else "Sessions", [_list(latest)] if latest else []),
            (
                "Months, with all their sessions",
                [
                    f"- {link(month, f'months/{file_name(month)}.md')}: {n:,} {'session' if n == 1 else 'sessions'}"
                    for month, n in sorted(months.items(), reverse=True)
                ],
            ),
            ("Memories", [f"- {link(kind, _kind_page(kind))}: {kinds[kind]:,}" for kind in own]),
            ("Blocks", [f"- {link(name, page)}" for name, page in blocks.items()]),
            ("Messages", [f"- {link('Messages', 'messages.md')}: {messages:,}"] if messages else []),
        )
        for heading, lines in lists:
            parts += [f"## {heading}", "\n".join(lines)] if lines else []
        return parts


class _Pages(NamedTuple):
    """Pages of what some memories name, by its number."""

    memories: Pages
    turns: Pages


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


def _own_words(name: str, content: str) -> str:
    """What a block of the portrait says. The agent's own is JSON; its sentences are for people, latest first.

    The page of the block has all of it.
    """
    if name != "self":
        return content
    try:
        found = json.loads(content)
        reflections = [f"{each['at'][:10]}: {each['text']}" for each in reversed(found["reflections"])]
        return "\n\n".join([f"Mood: {found['mood']}", found["narrative"], "\n".join(reflections[:_REFLECTIONS])])
    except (ValueError, RecursionError, KeyError, TypeError):
        return content


def _kind_page(kind: str) -> str:
    return f"memories/{file_name(kind)}.md"


def _list(sessions: list[_Session], up: str = "") -> str:
    return "\n".join(
        f"- {stamp(each.created_at)}, {inline(each.agent)}: {link(each.title, up + each.page)}" for each in sessions
    )


def _facts(facts: dict[str, str | None]) -> list[str]:
    return [f"- {name}: {stamp(value)}" for name, value in facts.items() if value]


def _log(rows: list[Row]) -> str:
    """Lines of the log, each with its time. Further lines of a text stand under its first one."""
    shown = []
    day = clock(rows[0][2])[0]
    for row in rows:
        today, time = clock(row[2])
        # The heading has the first day.
        begin = f"{time} " if today == day else f"{today} {time} "
        day = today
        shown.append(begin + row[6].replace("\r\n", "\n").replace("\n", "\n" + " " * len(begin)))
    return fenced("\n".join(shown))


def _made_of(sources: list[tuple[str, int]], pages: _Pages) -> str:
    shown = ", ".join(_thing(kind, id, pages) for kind, id in sources[:_MOST_SOURCES])
    more = len(sources) - _MOST_SOURCES
    return f"{shown}, and {more:,} more" if more > 0 else shown


def _thing(kind: str, id: int, pages: _Pages) -> str:
    """A link to a memory or a turn, or its name if it has no page."""
    page = {"memory": pages.memories, "exchange": pages.turns}.get(kind, {}).get(id)
    return link(f"{kind} {id}", page) if page else inline(f"{kind} {id}")


def _front(names: list[str], now: str) -> list[str]:
    lines = [f"- {link(name, f'{name}/index.md')}" for name in names]
    return ["# Engram", f"As it was at {stamp(now)}.", "## Workspaces", "\n".join(lines)]
