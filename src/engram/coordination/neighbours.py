"""The direct neighbours of memories, sessions, files and blocks, for `graph`.

Every statement finds the rows of one thing through an index and reads a limited number of them, the newest first where
an index has them in that order. All statements of a level of the graph are asked before the first answer is read, so
that they share round trips on PostgreSQL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from .. import gist_text
from ..safe_text import one_line
from . import resources, touched_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ..storage.engine import Answer, Transaction

#: Kind and id. The ids of memories and blocks are those of their rows.
Key: TypeAlias = "tuple[str, int | str]"

MADE_FROM, REPLACES, ABOUT = "made from", "replaces", "about"
#: The label of a memory without a text. A memory always has one, unless forgetting has taken it.
EMPTIED = "(emptied by forgetting)"
#: Rows that one statement reads about one thing.
_MOST = 200
#: The log lines and turns of a session that are read, from its end.
_LINES, _TURNS = 100, 200
#: Characters of a label.
_LABEL = 100

# In the order of the primary key, from its end: the sources of the latest version come first.
_SOURCES = """
SELECT source_kind, source_id FROM sources
WHERE workspace = :workspace AND derived_kind = :kind AND derived_id = :id
ORDER BY derived_version DESC, source_kind DESC, source_id DESC LIMIT :most
"""
_DERIVED = """
SELECT derived_kind, derived_id FROM sources
WHERE workspace = :workspace AND source_kind = :kind AND source_id = :id
ORDER BY derived_kind DESC, derived_id DESC LIMIT :most
"""
_OF_TURNS = """
SELECT s.derived_kind, s.derived_id FROM exchanges e
JOIN sources s ON s.workspace = e.workspace AND s.source_kind = 'exchange' AND s.source_id = e.id
WHERE e.workspace = :workspace AND e.session_id = :id AND e.role <> 'log'
  AND e.seq > (SELECT last_seq FROM sessions WHERE workspace = :workspace AND id = :id) - :turns
ORDER BY e.seq DESC LIMIT :most
"""
_MADE_IN = """
SELECT id FROM memories WHERE workspace = :workspace AND session_id = :id ORDER BY id DESC LIMIT :most
"""
_GIST = "SELECT memory_id FROM gists WHERE workspace = :workspace AND session_id = :id"
_CLAIMED = """
SELECT resource, claimed_at FROM leases
WHERE session_id = :id AND workspace = :workspace ORDER BY token DESC LIMIT :most
"""
_LOG_LINES = """
SELECT content, created_at FROM exchanges
WHERE workspace = :workspace AND session_id = :id AND role = 'log' ORDER BY seq DESC LIMIT :most
"""
_REPLACED = """
SELECT id FROM memories WHERE superseded_by = :id AND workspace = :workspace ORDER BY id DESC LIMIT :most
"""
_LINKED_TO = """
SELECT from_id FROM memory_links WHERE to_id = :id AND workspace = :workspace ORDER BY from_id DESC LIMIT :most
"""
_LINKED_FROM = """
SELECT to_id FROM memory_links WHERE from_id = :id AND workspace = :workspace ORDER BY to_id DESC LIMIT :most
"""
_CONTENT = "SELECT SUBSTR(content, 1, :most) FROM memories WHERE workspace = :workspace AND id = :id"
# Ended ones too: a session leads to all of its claims. Nobody asks often, so they have no index.
_CLAIMED_BY = """
SELECT session_id, MAX(claimed_at) FROM leases WHERE workspace = :workspace AND resource = :resource
GROUP BY session_id ORDER BY MAX(token) DESC LIMIT :most
"""
_CLAIMED_SOMEWHERE = """
SELECT resource, claimed_at FROM leases
WHERE workspace = :workspace AND SUBSTR(resource, LENGTH(resource) - LENGTH(:ending) + 1) = :ending
ORDER BY token DESC LIMIT 1
"""
_LIVE_CLAIMS = """
SELECT session_id, resource, claimed_at FROM leases
WHERE workspace = :workspace AND ended_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
"""

_SESSIONS_OF = """
SELECT id, session_id FROM exchanges
WHERE workspace = :workspace AND id IN (SELECT value FROM json_each(:ids))
"""
# The casts keep SQLite from reading the whole workspace through an index.
_MEMORIES = """
SELECT id, kind, status, SUBSTR(content, 1, 400), created_at, superseded_by, session_id, project FROM memories
WHERE id IN (SELECT value FROM json_each(:ids)) AND CAST(workspace AS TEXT) = :workspace
"""
_SESSIONS = """
SELECT id, type, status, name, SUBSTR(summary, 1, 400), SUBSTR(outcome, 1, 400), heartbeat_at, project FROM sessions
WHERE workspace = :workspace AND id IN (SELECT value FROM json_each(:ids))
"""
_BLOCKS = """
SELECT id, name, version, updated_at FROM blocks
WHERE id IN (SELECT value FROM json_each(:ids)) AND CAST(workspace AS TEXT) = :workspace
"""


class Thing(NamedTuple):
    """What a node shows, and what of its row leads to neighbours."""

    id: str
    label: str
    detail: str
    at: str | None
    project: str | None = None
    session: str | None = None
    replaced_by: int | None = None
    #: Whether it is the session of a pass. Every gist would lead to it, and so to every other gist.
    is_pass: bool = False


class Edge(NamedTuple):
    """A link that was found. `at` is the time of a file, which has no row of its own."""

    type: str
    start: Key
    end: Key
    at: str | None = None


def file_thing(resource: str, at: str | None) -> Thing:
    label = _path(resource)
    detail = resource[: -len(label)].removesuffix(":") if label else ""
    return Thing(resource, one_line(label, _LABEL), one_line(detail, _LABEL), at)


def _path(resource: str) -> str:
    """The path of a file within its project; the whole resource if it names none."""
    _, colon, path = resource.partition(":")
    return path if colon and not path.startswith("//") and not resource.startswith("/") else resource


class Neighbours:
    """Reads things and their neighbours in one transaction."""

    def __init__(self, tx: Transaction, workspace: str) -> None:
        self._tx = tx
        self._workspace = workspace
        #: Edges of a file that were found by a search.
        self._found: tuple[Edge, ...] = ()
        #: Other names of that file in the store.
        self._aliases: dict[Key, Key] = {}
        self._claims: list[tuple[str, str, str]] | None = None

    def find_file(self, names: Iterable[str]) -> bool:
        """Search for whatever leads to a file, which has one or several names. Its node gets the first one.

        False if nothing in the store is about it.
        """
        root, *others = (("file", name) for name in dict.fromkeys(names))
        self._aliases = dict.fromkeys(others, root)
        wanted = {str(root[1]), *(str(name) for _, name in others)}
        tx, found = self._tx, []
        for name in wanted:
            asked = {"workspace": self._workspace, "resource": name, "most": _MOST}
            found += [Edge(ABOUT, ("session", session), root, at) for session, at in tx.all(_CLAIMED_BY, **asked)]
        for path in {_path(name) for name in wanted}:
            named = touched_files.naming(tx, self._workspace, path)
            found += [Edge(ABOUT, (each.kind, each.id), root, each.at) for each in named if wanted & set(each.files)]
        self._found = tuple(found)
        return bool(found) or any(True for _ in self._of_file(root))

    def somewhere(self, path: str) -> str | None:
        """The file with this path from the root of its project that was named last, in whichever project."""
        tx = self._tx
        claimed = tx.all(_CLAIMED_SOMEWHERE, workspace=self._workspace, ending=f":{path}")
        files = [(at, resource) for resource, at in claimed if _path(resource) == path]
        for each in touched_files.naming(tx, self._workspace, path):
            files += [(each.at, file) for file in each.files if file != path and _path(file) == path]
        return max(files)[1] if files else None

    def things(self, keys: Iterable[Key]) -> dict[Key, Thing]:
        """What the store has of these, without files. One that is gone is left out."""
        wanted: dict[str, list[Any]] = {}
        for kind, id in dict.fromkeys(keys):
            wanted.setdefault(kind, []).append(id)
        tx, workspace = self._tx, self._workspace
        asked: list[tuple[str, Answer, Callable[..., Thing]]] = []
        if "memory" in wanted:
            ids = tx.array(wanted["memory"])
            asked.append(("memory", tx.ask(_MEMORIES, workspace=workspace, ids=ids), _memory))
        if "block" in wanted:
            ids = tx.array(wanted["block"])
            asked.append(("block", tx.ask(_BLOCKS, workspace=workspace, ids=ids), _block))
        if "session" in wanted:
            ids = tx.array(wanted["session"])
            asked.append(("session", tx.ask(_SESSIONS, workspace=workspace, ids=ids), _session))
        return {(kind, row[0]): made(*row) for kind, answer, made in asked for row in answer.all()}

    def edges(self, things: Mapping[Key, Thing]) -> dict[Key, list[Edge]]:
        """The links of each of these things to others."""
        asked = {key: self._ask(key) for key in things}
        turns = {id for each in asked.values() for id in each.turns()}
        tx = self._tx
        rows = tx.all(_SESSIONS_OF, workspace=self._workspace, ids=tx.array(turns)) if turns else []
        sessions = {id: session for id, session in rows}
        return {
            key: [edge._replace(end=self._aliases.get(edge.end, edge.end)) for edge in edges]
            for key, thing in things.items()
            for edges in [self._of(key, thing, asked[key], sessions)]
        }

    def _ask(self, key: Key) -> _Asked:
        tx, workspace, (kind, id) = self._tx, self._workspace, key
        values = {"workspace": workspace, "id": id, "most": _MOST}
        if kind == "memory":
            return _Asked(
                sources=tx.ask(_SOURCES, kind=kind, **values),
                derived=tx.ask(_DERIVED, kind=kind, **values),
                replaced=tx.ask(_REPLACED, **values),
                linked=(tx.ask(_LINKED_TO, **values), tx.ask(_LINKED_FROM, **values)),
                content=tx.ask(_CONTENT, workspace=workspace, id=id, most=touched_files.TEXT),
            )
        if kind == "block":
            return _Asked(tx.ask(_SOURCES, kind=kind, **values), tx.ask(_DERIVED, kind=kind, **values))
        if kind == "session":
            return _Asked(
                derived=tx.ask(_OF_TURNS, turns=_TURNS, **values),
                made=(tx.ask(_MADE_IN, **values), tx.ask(_GIST, workspace=workspace, id=id)),
                claimed=tx.ask(_CLAIMED, **values),
                lines=tx.ask(_LOG_LINES, workspace=workspace, id=id, most=_LINES),
            )
        return _Asked()

    def _of(self, key: Key, thing: Thing, asked: _Asked, sessions: Mapping[int, str]) -> Iterator[Edge]:
        def folded(kind: str, id: int) -> Key | None:
            """An exchange is part of its session."""
            if kind != "exchange":
                return kind, id
            return ("session", sessions[id]) if id in sessions else None

        yield from (edge for edge in self._found if key in (edge.start, edge.end))
        if key[0] == "file":
            yield from self._of_file(key)
            return
        for kind, id in asked.sources.all() if asked.sources else ():
            source = folded(kind, id)
            if source is not None:
                yield Edge(MADE_FROM, key, source)
        for kind, id in asked.derived.all() if asked.derived else ():
            derived = folded(kind, id)
            if derived is not None:
                yield Edge(MADE_FROM, derived, key)
        for made in asked.made:
            for (id,) in made.all():
                yield Edge(MADE_FROM, ("memory", id), key)
        yield from _of_memory(key, thing, asked)
        yield from _files_of_session(key, thing, asked)

    def _of_file(self, key: Key) -> Iterator[Edge]:
        if self._claims is None:
            tx = self._tx
            rows = tx.all(_LIVE_CLAIMS, workspace=self._workspace, now=tx.now())
            self._claims = [(session, resource, at) for session, resource, at in rows]
        for session, resource, at in self._claims:
            if resources.overlap(resource, str(key[1])):
                yield Edge(ABOUT, ("session", session), key, at)


class _Asked(NamedTuple):
    """The answers about one thing."""

    sources: Answer | None = None
    derived: Answer | None = None
    replaced: Answer | None = None
    linked: tuple[Answer, ...] = ()
    content: Answer | None = None
    made: tuple[Answer, ...] = ()
    claimed: Answer | None = None
    lines: Answer | None = None

    def turns(self) -> Iterator[int]:
        for answer in (self.sources, self.derived):
            yield from (id for kind, id in (answer.all() if answer else ()) if kind == "exchange")


def _of_memory(key: Key, thing: Thing, asked: _Asked) -> Iterator[Edge]:
    if thing.session is not None:
        yield Edge(MADE_FROM, key, ("session", thing.session))
    if thing.replaced_by is not None:
        yield Edge(REPLACES, ("memory", thing.replaced_by), key)
    replaced: set[int | str] = {thing.replaced_by} if thing.replaced_by is not None else set()
    for (id,) in asked.replaced.all() if asked.replaced else ():
        replaced.add(id)
        yield Edge(REPLACES, key, ("memory", id))
    for answer, is_start in zip(asked.linked, (False, True), strict=False):
        # What replaces a memory is linked to it as well.
        for id in [id for (id,) in answer.all() if id not in replaced]:
            yield Edge(ABOUT, *((key, ("memory", id)) if is_start else (("memory", id), key)))
    for (content,) in asked.content.all() if asked.content else ():
        for resource in touched_files.mentioned(content, thing.project):
            yield Edge(ABOUT, key, ("file", resource), thing.at)


def _files_of_session(key: Key, thing: Thing, asked: _Asked) -> Iterator[Edge]:
    for resource, at in asked.claimed.all() if asked.claimed else ():
        yield Edge(ABOUT, key, ("file", resource), at)
    for line, at in asked.lines.all() if asked.lines else ():
        for resource in touched_files.edited(line, thing.project):
            yield Edge(ABOUT, key, ("file", resource), at)


def _memory(
    id: int, kind: str, status: str, content: str, at: str, by: int | None, session: str | None, project: str | None
) -> Thing:
    shown = gist_text.parse(content).title if kind == "gist" else ""
    return Thing(
        str(id),
        one_line(shown or content, _LABEL) or EMPTIED,
        one_line(f"{kind}, {status}", _LABEL),
        at,
        project,
        session,
        by,
    )


def _session(
    id: str, type: str, status: str, name: str | None, summary: str, outcome: str, at: str, project: str | None
) -> Thing:
    label = one_line(name or summary or outcome or id, _LABEL)
    return Thing(id, label, one_line(f"{type}, {status}", _LABEL), at, project, is_pass=type == "dream")


def _block(id: int, name: str, version: int, at: str) -> Thing:
    return Thing(name, one_line(name, _LABEL), f"version {version}", at)
