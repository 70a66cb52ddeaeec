"""Replaces summaries that repeat a forgotten exchange.

A summary names the exchange it repeats. A summary that an older release wrote names none, so it is also recognised by
its words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..coordination import summaries
from ..safe_text import one_line

if TYPE_CHECKING:
    from ..storage.engine import Transaction

#: So many characters in common tell a shortened copy of a turn from a text that only begins alike.
_ALIKE = 20
#: The head of a turn that a summary is compared with; a summary repeats far less.
_HEAD = 4_000
#: How a hook sums up a session without words: by the files it touched.
_TOUCHED = "Touched "

_SUMMARY = "SELECT summary, summary_from FROM sessions WHERE workspace = :workspace AND id = :session"
_ROLE = "SELECT role FROM exchanges WHERE workspace = :workspace AND id = :id"
# COALESCE keeps SQLite from reading the whole session by an index; the ids are enough.
_HEADS = """
SELECT role, SUBSTR(content, 1, :length) FROM exchanges
WHERE workspace = :workspace AND COALESCE(session_id, '') = :session AND COALESCE(role, '') <> 'log'
  AND id IN (SELECT value FROM json_each(:ids)) ORDER BY seq
"""
_SESSIONS_OF = """
SELECT DISTINCT session_id FROM exchanges
WHERE workspace = :workspace AND id IN (SELECT value FROM json_each(:ids))
"""
_SUMMED_UP_BY_LEASES = """
SELECT DISTINCT s.id FROM leases l JOIN sessions s ON s.workspace = l.workspace AND s.id = l.session_id
WHERE l.workspace = :workspace AND l.ended_at < :before AND SUBSTR(s.summary, 1, :length) = :beginning
"""


def repeating(tx: Transaction, workspace: str, ids: list[int], ending: set[str], before: str | None) -> dict[str, str]:
    """Sessions whose summary repeats one of the exchanges that go, and the role of that one; not those that end.

    With `before`, also those summed up by leases that end with it. To be called while the exchanges are still there.
    """
    found: dict[str, str] = {}
    losing = {row[0] for row in tx.all(_SESSIONS_OF, workspace=workspace, ids=tx.array(ids))}
    for session in sorted(losing - ending):
        role = _repeated(tx, workspace, session, set(ids))
        if role is not None:
            found[session] = role
    if before is not None:
        beginning = {"beginning": _TOUCHED, "length": len(_TOUCHED)}
        rows = tx.all(_SUMMED_UP_BY_LEASES, workspace=workspace, before=before, **beginning)
        for session in {row[0] for row in rows} - ending:
            found.setdefault(session, "log")
    return found


def requote(tx: Transaction, workspace: str, repeating: dict[str, str]) -> list[str]:
    """Let what is left of each session stand for it: the assistant's last turn, the user's first, or nothing.

    The caller holds the sessions' rows, and what they repeated is gone.
    """
    for session, role in sorted(repeating.items()):
        others = ("user",) if role == "user" else ("assistant", "user")
        if not any(summaries.quote(tx, workspace, session, other) for other in others):
            summaries.clear(tx, workspace, session)
    return sorted(repeating)


def repeats(summary: str, text: str) -> bool:
    """Whether a summary is the text on one line, perhaps shortened.

    Secrets were taken out of the two separately, so that they may differ from there on.
    """
    plain = one_line(text, len(text))
    if summary == plain:
        return True
    cut = summary.endswith("…") or "[redacted" in summary
    return cut and summary[:_ALIKE] == plain[:_ALIKE]


def _repeated(tx: Transaction, workspace: str, session: str, gone: set[int]) -> str | None:
    """The role of the exchange among those that go which the session's summary repeats."""
    row = tx.one(_SUMMARY, workspace=workspace, session=session)
    if row is None or not row[0]:
        return None
    summary, source = row
    if source in gone:
        return str(tx.all(_ROLE, workspace=workspace, id=source)[0][0])
    heads = tx.all(_HEADS, workspace=workspace, session=session, length=_HEAD, ids=tx.array(sorted(gone)))
    return next((str(role) for role, head in heads if repeats(summary, head)), None)
