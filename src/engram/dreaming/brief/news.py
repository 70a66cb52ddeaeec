"""Since you were last here: what passes have learnt and changed since the last session of this project."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...coordination.sections import Entry, Section
from ...safe_text import one_line
from . import known

if TYPE_CHECKING:
    from ...storage.engine import Transaction
    from .snapshot import Snapshot

#: Entries of each sort that are shown.
_LEARNT, _REPLACED, _DONE = 4, 2, 3
_TEXT, _SHORT = 200, 120

# What comes from a tool or an import is not told before a person has approved it.
_REPLACEMENTS = """
SELECT SUBSTR(o.content, 1, 1000), n.id, SUBSTR(n.content, 1, 1000) FROM memories o
  JOIN memories n ON n.workspace = o.workspace AND n.id = o.superseded_by
WHERE o.workspace = :workspace AND o.status = 'superseded' AND o.updated_at > :since AND o.content <> ''
  AND o.kind NOT IN ('gist', 'era', 'digest') AND (o.project IS NULL OR o.project = :project)
  AND (o.trust IN ('user', 'agent') OR o.approved = o.version)
  AND n.status = 'active' AND (n.trust IN ('user', 'agent') OR n.approved = n.version) AND n.content <> o.content
ORDER BY o.updated_at DESC, o.id DESC LIMIT :limit
"""
_CLOSED = """
SELECT id, SUBSTR(content, 1, 1000) FROM memories
WHERE workspace = :workspace AND status = 'archived' AND kind = 'todo' AND updated_at > :since AND content <> ''
  AND (trust IN ('user', 'agent') OR approved = version) AND (project IS NULL OR project = :project)
ORDER BY updated_at DESC, id DESC LIMIT :limit
"""
# The last session that is over, and when its agent last said something.
_LAST_SESSION = """
SELECT COALESCE(
  (SELECT e.created_at FROM exchanges e
   WHERE e.workspace = s.workspace AND e.session_id = s.id AND e.role <> 'log' AND e.role = 'assistant'
   ORDER BY e.seq DESC LIMIT 1), s.heartbeat_at)
FROM sessions s
WHERE s.workspace = :workspace AND COALESCE(s.project, '') = :project AND s.type <> 'dream' AND s.status <> 'active'
  AND s.parent_id IS NULL AND (CAST(:you AS TEXT) IS NULL OR s.id <> :you)
ORDER BY s.heartbeat_at DESC LIMIT 1
"""
TITLE = "Since you were last here"


class News(NamedTuple):
    learnt: list[known.Known]
    #: How many more things were learnt.
    more: int
    #: What was replaced, and which todos were closed.
    changes: list[Entry]


def read(tx: Transaction, workspace: str, project: str, since: str, now: str) -> News:
    found = known.learnt(tx, workspace, project, since, now)
    values = {"workspace": workspace, "project": project, "since": since}
    changes = [
        Entry(f"- Replaced: “{one_line(old, _SHORT)}” Now: “{one_line(new, _TEXT)}” (memory {id})", ("memory", id))
        for old, id, new in tx.all(_REPLACEMENTS, limit=_REPLACED, **values)
    ]
    changes += [
        Entry(f"- Done: {one_line(text, _TEXT)} (todo, memory {id})", ("memory", id))
        for id, text in tx.all(_CLOSED, limit=_DONE, **values)
    ]
    return News(found[:_LEARNT], len(found[_LEARNT:]), changes)


def last_session(tx: Transaction, workspace: str, project: str, you: str | None) -> str | None:
    """When the last session of the project that is over was at work."""
    at: str | None = tx.value(_LAST_SESSION, workspace=workspace, project=project, you=you)
    return at


def section(snapshot: Snapshot) -> tuple[Section | None, list[int]]:
    """The section, and the memories of its first entries. None for an earlier time, or without an earlier session."""
    if snapshot.past or not snapshot.over:
        return None, []
    since = max(session.worked_at for session in snapshot.over)
    tx = snapshot.tx
    news = read(tx, snapshot.workspace, snapshot.project, since, snapshot.now)
    entries = [known.entry(each, snapshot) for each in news.learnt]
    if news.more:
        entries.append(Entry(f"- {news.more} more {'thing was' if news.more == 1 else 'things were'} learnt."))
    made = Section(
        f"## {TITLE}",
        [*entries, *news.changes],
        "change",
        "engram memory list --tag extracted",
        rank=6,
        share=0.08,
    )
    return made, [each.id for each in news.learnt]
