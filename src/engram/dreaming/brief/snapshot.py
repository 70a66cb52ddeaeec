"""The sessions as the brief needs them: now, or at an earlier time.

An earlier state is derived from what the store still has. A session was at work from its start to its end, and was last
heard when it last said or did something. What was forgotten since is not there. A session that was resumed later counts
as not ended before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...clock import later

if TYPE_CHECKING:
    from ...storage.engine import Transaction
    from ...store_view import StoreView

#: Candidates for "where we left off" with each status. Some of them asked nothing.
_CANDIDATES = 8
#: Sessions that are read for an earlier time, the newest first.
_EARLIER = 500

# A summary or an outcome that repeats the words of a tool or an import is not told.
_COLUMNS = """s.id, s.type,
  CASE WHEN s.summary_from IS NULL OR (SELECT e.trust FROM exchanges e
    WHERE e.workspace = s.workspace AND e.id = s.summary_from) IN ('user', 'agent')
    THEN SUBSTR(s.summary, 1, 600) ELSE '' END,
  CASE WHEN s.outcome_from IS NULL OR (SELECT e.trust FROM exchanges e
    WHERE e.workspace = s.workspace AND e.id = s.outcome_from) IN ('user', 'agent')
    THEN SUBSTR(s.outcome, 1, 1000) ELSE '' END,
  COALESCE(s.project, ''), s.parent_id, s.status, s.summary_from, s.outcome_from"""
# People leave a session open for days and then close it. The agent's last turn tells when it was at work.
_WORKED = """COALESCE(
  (SELECT e.created_at FROM exchanges e
   WHERE e.workspace = s.workspace AND e.session_id = s.id AND e.role <> 'log' AND e.role = 'assistant'
   ORDER BY e.seq DESC LIMIT 1), s.heartbeat_at)"""
_AT_WORK = (
    "SELECT "
    + _COLUMNS
    + """, s.heartbeat_at, """
    + _WORKED
    + """ FROM sessions s
WHERE s.workspace = :workspace AND s.status = 'active' AND s.type <> 'dream'
ORDER BY s.heartbeat_at DESC, s.id DESC"""
)
_OVER = (
    "SELECT "
    + _COLUMNS
    + """, s.heartbeat_at, """
    + _WORKED
    + """ FROM sessions s
WHERE s.workspace = :workspace AND s.status = :status AND s.type <> 'dream' AND s.parent_id IS NULL
  AND COALESCE(s.project, '') = :project AND (s.turns > s.turns_gone OR s.outcome <> '')
  AND (CAST(:you AS TEXT) IS NULL OR s.id <> :you)
ORDER BY s.heartbeat_at DESC, s.id DESC LIMIT :limit"""
)
_THEN = (
    "SELECT "
    + _COLUMNS
    + """, s.created_at, s.ended_at
FROM sessions s
WHERE s.workspace = :workspace AND s.created_at <= :now AND s.type <> 'dream'
ORDER BY s.created_at DESC, s.id DESC LIMIT :limit"""
)
# Turns and logs have an index each. The appended text keeps SQLite from the index by time, with which it would read all
# turns of the workspace instead of those of these sessions.
_TURNS_THEN = """
SELECT e.session_id, MAX(e.created_at), MAX(CASE WHEN e.role = 'assistant' THEN e.created_at END) FROM exchanges e
WHERE e.workspace = :workspace AND e.session_id IN (SELECT value FROM json_each(:sessions)) AND e.role <> 'log'
  AND e.created_at || '' <= :now
GROUP BY e.session_id
"""
_LOGS_THEN = """
SELECT e.session_id, MAX(e.created_at) FROM exchanges e
WHERE e.workspace = :workspace AND e.session_id IN (SELECT value FROM json_each(:sessions)) AND e.role = 'log'
  AND e.created_at || '' <= :now
GROUP BY e.session_id
"""


class Session(NamedTuple):
    id: str
    type: str
    summary: str
    outcome: str
    project: str
    parent_id: str | None
    status: str
    #: The exchanges that the summary and the outcome repeat; None if an agent gave them.
    summary_from: int | None
    outcome_from: int | None
    #: When it was last heard.
    heard_at: str
    #: When its agent last said something; otherwise when it was last heard.
    worked_at: str


class Snapshot(NamedTuple):
    """What every part of the brief is made from."""

    tx: Transaction
    view: StoreView
    #: The time that the brief is about.
    now: str
    #: Whether that time is in the past.
    past: bool
    project: str
    #: The session that reads the brief.
    you: str | None
    #: Sessions at work in the whole workspace, the latest first.
    at_work: list[Session]
    #: Sessions of this project that ended, were abandoned or fell silent, the latest first.
    over: list[Session]

    @property
    def workspace(self) -> str:
        return self.view.workspace

    def is_stale(self, session: Session) -> bool:
        return session.heard_at < later(self.now, -self.view.config.stale_after)


def take(tx: Transaction, view: StoreView, now: str, past: bool, project: str, you: str | None) -> Snapshot:
    """Read the sessions."""
    if past:
        at_work, over = _earlier(tx, view, now, project, you)
    else:
        at_work = [Session(*row) for row in tx.all(_AT_WORK, workspace=view.workspace)]
        over = [
            Session(*row)
            for status in ("completed", "abandoned", "idle")
            for row in tx.all(
                _OVER, workspace=view.workspace, status=status, project=project, you=you, limit=_CANDIDATES
            )
        ]
    silent = later(now, -view.config.stale_after)
    over += [
        each
        for each in at_work
        if each.heard_at < silent and each.project == project and each.parent_id is None and each.id != you
    ]
    over.sort(key=lambda each: each.worked_at, reverse=True)
    return Snapshot(tx, view, now, past, project, you, at_work, over[: 2 * _CANDIDATES])


def _earlier(
    tx: Transaction, view: StoreView, now: str, project: str, you: str | None
) -> tuple[list[Session], list[Session]]:
    at_work: list[Session] = []
    over: list[Session] = []
    gone = later(now, -view.config.abandon_after)
    found = []
    for *columns, created_at, ended_at in tx.all(_THEN, workspace=view.workspace, now=now, limit=_EARLIER):
        session = Session(*[*columns, created_at, created_at])
        ended = ended_at if ended_at is not None and ended_at <= now else None
        mine = session.project == project and session.parent_id is None and session.id != you
        # Of those that were over, only the project's own are told.
        if ended is None or mine:
            found.append((session, ended, mine))
    ids = tx.array([session.id for session, _, _ in found])
    turns = {id: times for id, *times in tx.all(_TURNS_THEN, workspace=view.workspace, sessions=ids, now=now)}
    logs: dict[str, str] = dict(tx.all(_LOGS_THEN, workspace=view.workspace, sessions=ids, now=now))
    for begun, ended, mine in found:
        last_turn, worked = turns.get(begun.id, (None, None))
        heard = max(filter(None, [begun.heard_at, last_turn, logs.get(begun.id), ended]))
        session = begun._replace(heard_at=heard, worked_at=worked or heard)
        if ended is not None:
            over.append(session)
        elif heard >= gone:
            # What came of it was not known yet.
            at_work.append(session._replace(status="active", outcome="", outcome_from=None))
        elif mine:
            over.append(session._replace(status="abandoned", outcome="", outcome_from=None))
    at_work.sort(key=lambda each: each.heard_at, reverse=True)
    return at_work, over
