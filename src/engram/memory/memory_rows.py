"""Reads memories: one by its id, the present ones by a filter, and how they stood at a time.

How things stood at a time comes from three tables. `memory_states` has the state that applied then, and
`memory_versions` the text. The row of the memory has the present state, which applies from the latest change on. A
memory without states has not changed since it was stored, or only a program of an earlier release has changed it: then
its row says when (`updated_at`), and it was active before.

When a memory was last confirmed is in no column. Storing a text, storing it again and editing it set `updated_at`. So
does archiving, but then the latest version tells when its text was last written. An approval leaves a state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .. import checks, json_columns
from ..errors import MemoryNotFound, SessionNotFound
from ..records import Memory
from . import memory_tags

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..storage.engine import Row, Transaction

_COLUMNS = (
    "id, kind, key, content, version, importance, pinned, trust, status, superseded_by, session_id, project, data, "
    "reinforced, recalled, recalled_at, expires_at, created_at, updated_at, approved, author"
)
# When a person approved this version: the state before it had no approval, or that of another version.
_APPROVAL = """(SELECT MAX(x.at) FROM memory_states x WHERE x.memory_id = id AND x.approved = x.version
    AND NOT EXISTS (SELECT 1 FROM memory_states y WHERE y.memory_id = x.memory_id AND y.number = x.number - 1
      AND y.approved = y.version AND y.version = x.version)"""
_CONFIRMED = (
    """,
  CASE WHEN approved = version THEN """
    + _APPROVAL
    + """) END AS approved_at,
  CASE WHEN status <> 'active' THEN (SELECT MAX(v.created_at) FROM memory_versions v WHERE v.memory_id = id)
    END AS written_at
"""
)
_CONFIRMED_THEN = (
    """,
  CASE WHEN approved = version THEN """
    + _APPROVAL
    + """ AND x.at <= :at) END AS approved_at, CASE WHEN status <> 'active' THEN written_at END AS written_at, tags
"""
)
_GET = "SELECT " + _COLUMNS + _CONFIRMED + "FROM memories WHERE workspace = :workspace AND id = :id"
# The cast keeps SQLite from reading the whole workspace through an index.
_SOME = (
    "SELECT "
    + _COLUMNS
    + _CONFIRMED
    + "FROM memories WHERE CAST(workspace AS TEXT) = :workspace AND id IN (SELECT value FROM json_each(:ids))"
)
_BY_KEY = (
    "SELECT "
    + _COLUMNS
    + _CONFIRMED
    + "FROM memories WHERE workspace = :workspace AND kind = :kind AND key = :key AND status = 'active'"
)
# Dreaming writes gists, eras and digests again and again. Nobody is asked about those, unless they are pinned.
_FILTERS = """
WHERE workspace = :workspace AND status = :status
  AND (CAST(:kind AS TEXT) IS NULL OR kind = :kind)
  AND (:derived = 1 OR kind NOT IN ('gist', 'era', 'digest'))
  AND (CAST(:project AS TEXT) IS NULL OR project = :project)
  AND (CAST(:author AS TEXT) IS NULL OR author = :author)
  AND (CAST(:since AS TEXT) IS NULL OR created_at >= :since)
  AND (CAST(:until AS TEXT) IS NULL OR created_at < :until)
  AND importance >= :importance AND (:pinned = 0 OR pinned = 1)
  AND (:waiting = 0 OR ((approved IS NULL OR approved <> version)
       AND (pinned = 1 OR (trust IN ('tool', 'import') AND kind NOT IN ('gist', 'era', 'digest')))))
  AND CASE WHEN expires_at <= :at THEN 1 ELSE 0 END = :expired AND id < :before
"""
# First the page is cut. When they were confirmed is looked up only for those that are on it.
_OF_PAGE = _COLUMNS + _CONFIRMED + "FROM (SELECT " + _COLUMNS + " FROM "
_NOW = (
    "SELECT "
    + _OF_PAGE
    + "memories"
    + _FILTERS
    + """ORDER BY id DESC LIMIT :limit) AS page
ORDER BY id DESC"""
)
_LATEST = (
    "SELECT "
    + _OF_PAGE
    + "memories"
    + _FILTERS
    + """ORDER BY updated_at DESC, id DESC LIMIT :limit) AS page
ORDER BY updated_at DESC, id DESC"""
)
# The order of the join keeps SQLite from reading the whole workspace to find the few that have the tag.
_TAGGED = (
    "SELECT "
    + _OF_PAGE
    + "(SELECT memory_id FROM memory_tags WHERE workspace = :workspace AND tag = :tag) AS t"
    + " CROSS JOIN memories m"
    + _FILTERS
    + """  AND m.id = t.memory_id
ORDER BY CASE WHEN :latest = 1 THEN updated_at ELSE '' END DESC, id DESC LIMIT :limit) AS page
ORDER BY CASE WHEN :latest = 1 THEN updated_at ELSE '' END DESC, id DESC"""
)
# What was remembered in a session, and what was made from its turns. The cast keeps SQLite from reading the whole
# workspace through an index.
_OF_SESSION = (
    "SELECT "
    + _COLUMNS
    + _CONFIRMED
    + """FROM memories WHERE id IN (
  SELECT id FROM memories WHERE workspace = :workspace AND session_id = :session
  UNION SELECT s.derived_id FROM exchanges e
    JOIN sources s ON s.workspace = e.workspace AND s.source_kind = 'exchange' AND s.source_id = e.id
      AND s.derived_kind = 'memory'
    WHERE e.workspace = :workspace AND e.session_id = :session AND e.role <> 'log')
  AND CAST(workspace AS TEXT) = :workspace AND kind <> 'gist' ORDER BY id DESC LIMIT :limit"""
)
# The state `s` is the latest one up to the time. There is none where the memory's row applies: after the last change.
# The cast keeps SQLite from reading the whole workspace: the memories are named by their ids.
_STOOD = """
  SELECT CAST(m.workspace AS TEXT) AS workspace, m.id, m.kind, m.key, v.content, v.version, m.trust, m.session_id,
    m.project, m.data, m.reinforced, m.recalled, m.recalled_at, m.expires_at, m.created_at, m.author, s.tags AS tags,
    v.created_at AS written_at,
    CASE WHEN s.number IS NULL THEN m.importance ELSE s.importance END AS importance,
    CASE WHEN s.number IS NULL THEN m.pinned ELSE s.pinned END AS pinned,
    CASE WHEN s.number IS NULL THEN m.approved ELSE s.approved END AS approved,
    CASE WHEN s.number IS NOT NULL THEN s.status WHEN m.updated_at > :at THEN 'active' ELSE m.status END AS status,
    CASE WHEN s.number IS NOT NULL THEN s.superseded_by WHEN m.updated_at > :at THEN NULL ELSE m.superseded_by
      END AS superseded_by,
    CASE WHEN s.number IS NULL AND m.updated_at <= :at THEN m.updated_at
      WHEN s.at > v.created_at THEN s.at ELSE v.created_at END AS updated_at
  FROM memories m
  LEFT JOIN memory_states s ON s.memory_id = m.id
    AND s.number = (SELECT MAX(x.number) FROM memory_states x WHERE x.memory_id = m.id AND x.at <= :at)
    AND (m.updated_at > :at
         OR EXISTS (SELECT 1 FROM memory_states x WHERE x.memory_id = m.id AND x.number > s.number))
  JOIN memory_versions v ON v.memory_id = m.id AND v.content <> '' AND v.version = (
    SELECT MAX(x.version) FROM memory_versions x WHERE x.memory_id = m.id AND x.created_at <= :at
      AND x.version <= CASE WHEN s.number IS NULL THEN m.version ELSE s.version END)
  WHERE CAST(m.workspace AS TEXT) = :workspace AND m.created_at <= :at
"""
_THEN = (
    "SELECT "
    + _COLUMNS
    + _CONFIRMED_THEN
    + "FROM ("
    + _STOOD
    + "  AND m.id IN (SELECT value FROM json_each(:ids))) AS stood"
    + _FILTERS
    + "ORDER BY id DESC"
)
# Their kind never changes. The rest depends on the time.
_CANDIDATES = """
SELECT id FROM memories
WHERE workspace = :workspace AND (CAST(:kind AS TEXT) IS NULL OR kind = :kind) AND id < :before
ORDER BY id DESC LIMIT :limit
"""
#: Memories whose earlier state is read at once, if only some are wanted.
_FEW = 100
_SESSION_PROJECT = "SELECT project FROM sessions WHERE workspace = :workspace AND id = :id"
_GET_THEN = "SELECT " + _COLUMNS + _CONFIRMED_THEN + "FROM (" + _STOOD + "  AND m.id = :id) AS stood"


class Filters(NamedTuple):
    """Which memories to list. The values are checked."""

    status: str
    kind: str | None
    tag: str | None
    project: str | None
    since: str | None
    until: str | None
    importance: float
    pinned: int
    waiting: int
    #: Only those that have expired, which are left out otherwise.
    expired: int = 0
    #: Only those with a smaller id: the next page.
    before: int = checks.MAX_WHOLE
    author: str | None = None
    #: Also gists, eras and digests.
    derived: int = 1


def read(tx: Transaction, workspace: str, id: int) -> Memory:
    """One memory as it is now."""
    asked, tags = tx.ask(_GET, workspace=workspace, id=id), memory_tags.ask_of(tx, workspace, id)
    row = asked.one()
    if row is None:
        raise MemoryNotFound(f"There is no memory {id} in workspace {workspace!r}.")
    return _record(row, tuple(tags.column()))


def some(tx: Transaction, workspace: str, ids: Sequence[int]) -> list[Memory]:
    """The memories with these ids that there are."""
    rows = tx.all(_SOME, workspace=workspace, ids=tx.array(ids))
    tags = memory_tags.of_each(tx, workspace, [id for id, *_ in rows])
    return [_record(row, tags.get(row[0], ())) for row in rows]


def read_at(tx: Transaction, workspace: str, id: int, at: str) -> Memory:
    """One memory as it stood at a time."""
    read(tx, workspace, id)
    row = tx.one(_GET_THEN, workspace=workspace, id=id, at=_not_after_now(tx, at))
    if row is None:
        raise MemoryNotFound(f"Memory {id} did not exist at {at}, or its text of that time was forgotten.")
    (memory,) = _records_then(tx, workspace, [row])
    return memory


def by_key(tx: Transaction, workspace: str, kind: str, key: str) -> Memory | None:
    """The active memory of a kind under a key, also if it has expired."""
    row = tx.one(_BY_KEY, workspace=workspace, kind=kind, key=key)
    return None if row is None else _record(row, memory_tags.of(tx, workspace, row[0]))


def of_session(tx: Transaction, workspace: str, session_id: str, limit: int) -> list[Memory]:
    """The memories that were made in a session or from its turns, without gists, newest first."""
    rows = tx.all(_OF_SESSION, workspace=workspace, session=session_id, limit=limit)
    tags = memory_tags.of_each(tx, workspace, [id for id, *_ in rows])
    return [_record(row, tags.get(row[0], ())) for row in rows]


def find(tx: Transaction, workspace: str, filters: Filters, limit: int, *, latest: bool = False) -> list[Memory]:
    """The memories that match now, newest first, or with `latest` the most recently changed first."""
    values = filters._asdict()
    tag = values.pop("tag")
    values.update(workspace=workspace, at=tx.now(), limit=limit)
    if tag is not None:
        rows = tx.all(_TAGGED, tag=tag, latest=int(latest), **values)
    elif latest:
        rows = tx.all(_LATEST, **values)
    else:
        rows = tx.all(_NOW, **values)
    tags = memory_tags.of_each(tx, workspace, [id for id, *_ in rows])
    return [_record(row, tags.get(row[0], ())) for row in rows]


def find_at(tx: Transaction, workspace: str, filters: Filters, limit: int, at: str) -> list[Memory]:
    """The memories that matched at a time, newest first. A time in the future counts as the present.

    What they were like then is worked out for a page of memories at a time, until enough of them match. Each page is
    larger than the one before, so that few pages are needed if few memories match.
    """
    then = _not_after_now(tx, at)
    found: list[Memory] = []
    before, many, full = filters.before, max(limit, _FEW), True
    while full and len(found) < limit:
        ids = tx.column(_CANDIDATES, workspace=workspace, kind=filters.kind, before=before, limit=many)
        if ids:
            found += of_ids_at(tx, workspace, ids, filters, then)
            before = ids[-1]
        full, many = len(ids) == many, min(2 * many, checks.MAX_WHOLE)
    return found[:limit]


def of_ids_at(tx: Transaction, workspace: str, ids: Sequence[int], filters: Filters, at: str) -> list[Memory]:
    """Those of some memories that matched at a time, newest first."""
    chosen = filters._asdict()
    tag = chosen.pop("tag")
    rows = tx.all(_THEN, ids=tx.array(ids), workspace=workspace, at=at, **chosen)
    return [memory for memory in _records_then(tx, workspace, rows) if tag is None or tag in memory.tags]


def session_project(tx: Transaction, workspace: str, session_id: str | None) -> str | None:
    """The project of the session that a memory comes from."""
    if session_id is None:
        return None
    row = tx.one(_SESSION_PROJECT, workspace=workspace, id=checks.name(session_id, "session id"))
    if row is None:
        raise SessionNotFound(f"There is no session {session_id!r} in workspace {workspace!r}.")
    project: str | None
    (project,) = row
    return project


def _not_after_now(tx: Transaction, at: str) -> str:
    return min(at, tx.now())


def _records_then(tx: Transaction, workspace: str, rows: Sequence[Row]) -> list[Memory]:
    """The memories of rows that have the tags of a time. Where those are missing, the present ones apply."""
    present = memory_tags.of_each(tx, workspace, [id for id, *_, tags in rows if tags is None])
    return [_record(row, present.get(row[0], ()) if tags is None else load_tags(tags)) for *row, tags in rows]


def load_tags(stored: str) -> tuple[str, ...]:
    tags = json_columns.load(stored, "memory_states.tags", [])
    return tuple(map(str, tags)) if isinstance(tags, list) else ()


def _record(row: Sequence[Any], tags: tuple[str, ...]) -> Memory:
    id, kind, key, content, version, importance, pinned, trust, status, by, session, project, data, *rest = row
    reinforced, recalled, recalled_at, expires_at, created_at, updated_at, approved, author, approved_at, written = rest
    return Memory(
        id, kind, key, content, version, tags, importance, bool(pinned), trust, status, by, session, project,
        json_columns.load(data, "memories.data"), reinforced, recalled, recalled_at, expires_at, created_at, updated_at,
        approved == version, author, max(written or updated_at, approved_at or ""),
    )  # fmt: skip
