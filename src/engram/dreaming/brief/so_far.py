"""This session so far: what it was asked, what it decided and which files it touched.

A model that lost its context in a compaction, or that continues an earlier session, reads it to go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import wording
from ...coordination.sections import Entry, Section
from ...safe_text import name, one_line, visible
from .left_off import turns

if TYPE_CHECKING:
    from .snapshot import Snapshot

_ASK, _DECISION = 220, 200
#: Latest asks, decisions and files that are shown.
_ASKS, _DECISIONS, _FILES = 5, 6, 20
_LOGS = 300
#: Tools of the harnesses that write files. A log line begins with the tool's name.
_WRITING = frozenset(
    ("Write", "Edit", "MultiEdit", "NotebookEdit", "apply_patch", "write_file", "replace", "edit_file", "create_file")
)

_CLAIMED = """
SELECT resource FROM leases WHERE workspace = :workspace AND session_id = :session AND claimed_at <= :now ORDER BY token
"""
_LOGGED = """
SELECT content FROM exchanges
WHERE workspace = :workspace AND session_id = :session AND role = 'log' AND created_at <= :now
  AND trust IN ('user', 'agent')
ORDER BY seq DESC LIMIT :limit
"""
_DECIDED = """
SELECT id, kind, SUBSTR(content, 1, 1000) FROM memories
WHERE workspace = :workspace AND session_id = :session AND status = 'active' AND content <> ''
  AND kind NOT IN ('gist', 'era', 'digest') AND (trust IN ('user', 'agent') OR approved = version)
  AND created_at <= :now
ORDER BY id DESC LIMIT :limit
"""


def section(snapshot: Snapshot, session_id: str) -> Section:
    values = {"workspace": snapshot.workspace, "session": session_id, "now": snapshot.now}
    asked = list(wording.asks(turn.head for turn in turns(snapshot, session_id) if turn.role == "user"))
    tx = snapshot.tx
    decided = tx.all(_DECIDED, limit=_DECISIONS, **values)
    files = _files(snapshot, tx.column(_CLAIMED, **values), tx.column(_LOGGED, limit=_LOGS, **values))
    lines = [f"- Asked first: {wording.shorten(asked[0], _ASK)}"] if asked else []
    # The latest first, because a section is cut at its end.
    latest = [ask for ask in asked[1:] if wording.is_substantial(ask)][-_ASKS:]
    lines += [
        f"- Asked {'last' if place == 0 else 'before that'}: {wording.shorten(ask, _ASK)}"
        for place, ask in enumerate(reversed(latest))
    ]
    if files:
        more = f" and {len(files) - _FILES} more" if len(files) > _FILES else ""
        lines.append(f"- Touched: {', '.join(files[:_FILES])}{more}")
    remembered = [
        Entry(f"- Remembered: {one_line(text, _DECISION)} ({name(kind)}, memory {id})", ("memory", id))
        for id, kind, text in decided
    ]
    return Section(
        "## This session so far",
        [*(Entry(line, ("session", session_id)) for line in lines), *remembered],
        "line of this session",
        f"engram history {visible(session_id)}",
        rank=1,
        share=0.25,
    )


def _files(snapshot: Snapshot, claimed: list[str], logged: list[str]) -> list[str]:
    """The files that the session claimed or wrote, the latest first."""
    found = [resource.removeprefix(f"{snapshot.project}:") for resource in reversed(claimed)]
    for line in logged:
        tool, _, rest = line.partition(" ")
        path, _, outcome = rest.rpartition(": ")
        if tool in _WRITING and outcome == "done" and path:
            found.append(path)
    # A claim names a file from the project's root, a log entry by its whole path.
    shown: list[str] = []
    for path in dict.fromkeys(map(visible, found)):
        if not any(path.endswith(f"/{known}") for known in shown):
            shown.append(path)
    return shown
