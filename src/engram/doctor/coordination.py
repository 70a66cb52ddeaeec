"""Checks of leases and sessions."""

from __future__ import annotations

import shlex
from functools import partial
from typing import TYPE_CHECKING

from .. import mutexes
from ..clock import age, later
from ..health_records import NOTE, WRONG, Check, Finding, counted, fine, mendable
from ..safe_text import one_line
from ..storage.health import RESTORE

if TYPE_CHECKING:
    from ..store_view import StoreView

#: Seconds since its end after which an expired lease should have been removed.
EXPIRED_FOR = 3_600.0
#: Sessions of these types come from hooks.
_HARNESSES = ("claude-code", "codex", "cursor", "gemini")

_OF_ENDED = """
SELECT l.token, l.resource, s.status FROM leases l JOIN sessions s ON s.workspace = l.workspace AND s.id = l.session_id
WHERE l.workspace = :workspace AND l.ended_at IS NULL AND s.status IN ('completed', 'abandoned') ORDER BY l.token
"""
_END = """
UPDATE leases SET ended_at = :now, ended_because = :because
WHERE workspace = :workspace AND token = :token AND ended_at IS NULL
"""
_EXPIRED = """
SELECT token, resource FROM leases
WHERE workspace = :workspace AND ended_at IS NULL AND expires_at <= :limit ORDER BY token
"""
_END_EXPIRED = """
UPDATE leases SET ended_at = expires_at, ended_because = 'expired'
WHERE workspace = :workspace AND ended_at IS NULL AND expires_at <= :limit
"""
_SILENT = """
SELECT COUNT(*) FROM sessions WHERE workspace = :workspace AND status = 'active' AND heartbeat_at < :since
"""
_LATEST = """
SELECT type, MAX(heartbeat_at) FROM sessions
WHERE workspace = :workspace AND type IN (SELECT value FROM json_each(:types)) GROUP BY type ORDER BY type
"""
_MISCOUNTED = """
SELECT COUNT(*) FROM sessions s
WHERE s.workspace = :workspace AND s.turns - s.turns_gone <> (
  SELECT COUNT(*) FROM exchanges e
  WHERE e.workspace = s.workspace AND e.session_id = s.id AND e.role <> 'log')
"""
# Two look-ups in an index for each session.
_OVERTAKEN = """
SELECT s.id FROM sessions s
WHERE s.workspace = :workspace AND (
  EXISTS (SELECT 1 FROM exchanges e WHERE e.workspace = s.workspace AND e.session_id = s.id AND e.role <> 'log'
          AND e.seq > s.last_seq)
  OR EXISTS (SELECT 1 FROM exchanges e WHERE e.workspace = s.workspace AND e.session_id = s.id AND e.role = 'log'
             AND e.seq > s.last_seq))
ORDER BY s.id
"""
_RAISE = """
UPDATE sessions SET last_seq = (
  SELECT MAX(e.seq) FROM exchanges e WHERE e.workspace = sessions.workspace AND e.session_id = sessions.id)
WHERE workspace = :workspace AND id = :id AND last_seq < (
  SELECT MAX(e.seq) FROM exchanges e WHERE e.workspace = sessions.workspace AND e.session_id = sessions.id)
"""
# Every time has this form, so that times can be compared as texts.
_WRONG_TIMES = """
SELECT token, resource, expires_at FROM leases
WHERE workspace = :workspace AND ended_at IS NULL AND (
  LENGTH(expires_at) <> 27 OR SUBSTR(expires_at, 11, 1) <> 'T' OR SUBSTR(expires_at, 27, 1) <> 'Z')
ORDER BY token
"""
_WRONG_HEARTBEATS = """
SELECT id, heartbeat_at FROM sessions
WHERE workspace = :workspace AND (
  LENGTH(heartbeat_at) <> 27 OR SUBSTR(heartbeat_at, 11, 1) <> 'T' OR SUBSTR(heartbeat_at, 27, 1) <> 'Z')
ORDER BY id
"""
# A session was heard when its last entry was written, or when it began.
_SET_HEARTBEAT = """
UPDATE sessions SET heartbeat_at = COALESCE((
  SELECT MAX(e.created_at) FROM exchanges e WHERE e.workspace = sessions.workspace AND e.session_id = sessions.id
    AND LENGTH(e.created_at) = 27 AND SUBSTR(e.created_at, 11, 1) = 'T'), created_at)
WHERE workspace = :workspace AND id = :id
"""
_WRONG_SESSIONS = """
SELECT id, CASE
  WHEN LENGTH(created_at) <> 27 OR SUBSTR(created_at, 11, 1) <> 'T' OR SUBSTR(created_at, 27, 1) <> 'Z' THEN created_at
  ELSE ended_at END
FROM sessions
WHERE workspace = :workspace AND (
  LENGTH(created_at) <> 27 OR SUBSTR(created_at, 11, 1) <> 'T' OR SUBSTR(created_at, 27, 1) <> 'Z'
  OR LENGTH(ended_at) <> 27 OR SUBSTR(ended_at, 11, 1) <> 'T' OR SUBSTR(ended_at, 27, 1) <> 'Z')
ORDER BY id
"""


def checks(view: StoreView, *, full: bool) -> list[Check]:
    found = [
        Check("leases.ended", partial(_of_ended, view), partial(_end_of_ended, view)),
        Check("leases.expired", partial(_expired, view), partial(_end_expired, view)),
        Check("leases.times", partial(_times, view)),
        Check("sessions.times", partial(_session_times, view), partial(_set_heartbeats, view)),
        Check("sessions.numbers", partial(_overtaken, view), partial(_raise_numbers, view)),
        Check("sessions.silent", partial(_silent, view)),
        Check("sessions.harnesses", partial(_harnesses, view)),
    ]
    return [*found, Check("sessions.turns", partial(_turns, view))] if full else found


def _of_ended(view: StoreView) -> Finding:
    with view.engine.read() as tx:
        rows = tx.all(_OF_ENDED, workspace=view.workspace)
    if not rows:
        return fine("leases.ended", "No session that ended holds a lease.", view.workspace)
    found = f"Sessions that ended hold {counted(len(rows), 'lease', 'leases')}, such as {one_line(rows[0][1], 80)!r}."
    means = "Other sessions cannot claim a resource that nobody uses."
    return mendable("leases.ended", found, means, len(rows), view.workspace)


def _end_of_ended(view: StoreView) -> int:
    with view.engine.write() as tx:
        tx.lock(mutexes.leases(view.workspace))
        now = tx.now()
        rows = tx.all(_OF_ENDED, workspace=view.workspace)
        for token, _, status in rows:
            tx.run(_END, workspace=view.workspace, token=token, now=now, because=status)
            tx.note(view.workspace, "lease", token)
    return len(rows)


def _expired(view: StoreView) -> Finding:
    with view.engine.read() as tx:
        rows = tx.all(_EXPIRED, workspace=view.workspace, limit=later(tx.now(), -EXPIRED_FOR))
    if not rows:
        return fine("leases.expired", "No lease is kept long after its end.", view.workspace)
    found = (
        f"{counted(len(rows), 'lease has expired and is', 'leases have expired and are')} still listed, such as "
        f"{one_line(rows[0][1], 80)!r}."
    )
    means = "An expired lease keeps nobody away. The next claim removes it."
    return mendable("leases.expired", found, means, len(rows), view.workspace)._replace(state=NOTE)


def _end_expired(view: StoreView) -> int:
    with view.engine.write() as tx:
        tx.lock(mutexes.leases(view.workspace))
        limit = later(tx.now(), -EXPIRED_FOR)
        rows = tx.all(_EXPIRED, workspace=view.workspace, limit=limit)
        tx.run(_END_EXPIRED, workspace=view.workspace, limit=limit)
        for token, _ in rows:
            tx.note(view.workspace, "lease", token)
    return len(rows)


def _times(view: StoreView) -> Finding:
    with view.engine.read() as tx:
        rows = tx.all(_WRONG_TIMES, workspace=view.workspace)
    if not rows:
        return fine("leases.times", "The end of every lease is a time.", view.workspace)
    _, resource, at = rows[0]
    more = f", and {len(rows) - 1:,} more" if len(rows) > 1 else ""
    return Finding(
        "leases.times",
        WRONG,
        f"The lease of {one_line(resource, 80)!r} ends at {one_line(at, 40)!r}, which is no time{more}.",
        "Another program changed it. The lease may never end, and commands that show it may fail.",
        f"engram lock break {shlex.quote(one_line(resource, 200))} --reason 'its end is no time' "
        f"--workspace {view.workspace}",
        number=len(rows),
        workspace=view.workspace,
    )


def _session_times(view: StoreView) -> Finding:
    name = "sessions.times"
    with view.engine.read() as tx:
        silent = tx.all(_WRONG_HEARTBEATS, workspace=view.workspace)
        rows = tx.all(_WRONG_SESSIONS, workspace=view.workspace)
    if not silent and not rows:
        return fine(name, "Every session has times.", view.workspace)
    (id, at), what = (silent[0], "last heard from") if silent else (rows[0], "begun or ended")
    number = len(silent) + len(rows)
    more = f", and {number - 1:,} more" if number > 1 else ""
    found = f"Session {one_line(id, 80)} was {what} at {one_line(at, 40)!r}, which is no time{more}."
    means = "Another program changed it. Commands that show the session fail, and it never becomes stale."
    if silent:
        return mendable(name, found, means, number, view.workspace)
    return Finding(name, WRONG, found, means, RESTORE, number=number, workspace=view.workspace)


def _set_heartbeats(view: StoreView) -> int:
    with view.engine.write() as tx:
        ids = [id for id, _ in tx.all(_WRONG_HEARTBEATS, workspace=view.workspace)]
        return sum(tx.run(_SET_HEARTBEAT, workspace=view.workspace, id=id) for id in ids)


def _overtaken(view: StoreView) -> Finding:
    with view.engine.read() as tx:
        ids = tx.column(_OVERTAKEN, workspace=view.workspace)
    if not ids:
        return fine("sessions.numbers", "Every session knows the last number of its entries.", view.workspace)
    found = f"{counted(len(ids), 'session has an entry', 'sessions have entries')} with a number that is not given yet."
    means = "Nothing more can be recorded in such a session, because its next number is taken."
    return mendable("sessions.numbers", found, means, len(ids), view.workspace)


def _raise_numbers(view: StoreView) -> int:
    with view.engine.write() as tx:
        ids = tx.column(_OVERTAKEN, workspace=view.workspace)
        return sum(tx.run(_RAISE, workspace=view.workspace, id=id) for id in ids)


def _silent(view: StoreView) -> Finding:
    with view.engine.read() as tx:
        number = tx.value(_SILENT, workspace=view.workspace, since=later(tx.now(), -view.config.abandon_after))
    if not number:
        return fine("sessions.silent", "No open session has been silent for too long.", view.workspace)
    return Finding(
        "sessions.silent",
        NOTE,
        f"Open sessions that have been silent for longer than abandon_after: {number:,}.",
        "Their agents ended without saying so. Their leases are still held.",
        f"engram sitrep --workspace {view.workspace} marks them as abandoned",
        number=number,
        workspace=view.workspace,
    )


def _harnesses(view: StoreView) -> Finding:
    """For information: when each harness was heard last."""
    with view.engine.read() as tx:
        now = tx.now()
        rows = tx.all(_LATEST, workspace=view.workspace, types=tx.array(_HARNESSES))
    said = ", ".join(f"{kind} {age(at, now)}" for kind, at in rows)
    return fine("sessions.harnesses", f"Last heard: {said}." if said else "No harness was heard yet.", view.workspace)


def _turns(view: StoreView) -> Finding:
    with view.engine.read() as tx:
        number = tx.value(_MISCOUNTED, workspace=view.workspace)
    if not number:
        return fine("sessions.turns", "Every session counts its turns right.", view.workspace)
    return Finding(
        "sessions.turns",
        NOTE,
        f"{counted(number, 'session counts its', 'sessions count their')} turns wrong.",
        "Dreaming may read a session too early or too late.",
        "Engram cannot repair this count. Nothing is lost.",
        number=number,
        workspace=view.workspace,
    )
