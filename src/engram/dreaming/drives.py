"""What there is to do, and how much it presses: the backlog and the four drives.

Continuity wants sessions summarised, coherence wants gists folded into eras and the portrait, curiosity wants to
reflect, stability says how caught-up everything is. A drive acts once it is high enough; the numbers are kept, so that
curiosity can grow from pass to pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..records import DreamBacklog, Drives

if TYPE_CHECKING:
    from ..storage.engine import Transaction

#: A drive acts from here on.
ACTS = 0.6
#: So many new turns make a session worth another look.
RIPE = 20
_FULL_CONTINUITY = 4
_FULL_COHERENCE = 10
_CURIOUS, _MORE_CURIOUS, _SATISFIED = 0.15, 0.30, 0.10

_SESSIONS = "SELECT COUNT(*) FROM sessions WHERE workspace = :workspace AND turns > turns_gone"
_UNSUMMARISED = """
SELECT COUNT(*), COALESCE(SUM(CASE WHEN gist_turns = 0 OR turns - gist_turns >= :ripe THEN 1 ELSE 0 END), 0),
       COALESCE(SUM(turns - gist_turns), 0)
FROM sessions WHERE workspace = :workspace AND turns > gist_turns
"""
_RIPE = """
SELECT id FROM sessions
WHERE workspace = :workspace AND turns > gist_turns AND (gist_turns = 0 OR turns - gist_turns >= :ripe OR :all = 1)
ORDER BY id
"""
_UNFOLDED = """
SELECT COUNT(*) FROM (SELECT DISTINCT gist FROM folds WHERE workspace = :workspace AND target <> 'extract') AS waiting
"""
# On either engine the index of times answers this from its end.
_MARK = """
SELECT id FROM exchanges WHERE workspace = :workspace AND role <> 'log' ORDER BY created_at DESC, id DESC LIMIT 1
"""
_GET = """
SELECT continuity, coherence, curiosity, stability, mark, updated_at FROM drives WHERE workspace = :workspace
"""
_PUT = """
INSERT INTO drives (workspace, continuity, coherence, curiosity, stability, mark, updated_at)
VALUES (:workspace, :continuity, :coherence, :curiosity, :stability, :mark, :now)
ON CONFLICT (workspace) DO UPDATE SET continuity = :continuity, coherence = :coherence, curiosity = :curiosity,
  stability = :stability, mark = :mark, updated_at = :now
"""


def backlog(tx: Transaction, workspace: str, ripe: int = RIPE) -> DreamBacklog:
    """What waits to be summarised and folded in."""
    (sessions,) = tx.all(_SESSIONS, workspace=workspace)[0]
    dirty, ready, turns = tx.all(_UNSUMMARISED, workspace=workspace, ripe=ripe)[0]
    (unfolded,) = tx.all(_UNFOLDED, workspace=workspace)[0]
    mark = tx.one(_MARK, workspace=workspace)
    return DreamBacklog(sessions, dirty, int(ready), int(turns), unfolded, mark[0] if mark else 0)


def ripe(tx: Transaction, workspace: str, least: int = RIPE, *, everything: bool = False) -> list[str]:
    """The sessions to summarise now: never summarised, or with that many new turns; all with any, if wanted."""
    return [row[0] for row in tx.all(_RIPE, workspace=workspace, ripe=least, all=int(everything))]


def known(tx: Transaction, workspace: str) -> Drives | None:
    """The drives as they were last sensed."""
    row = tx.one(_GET, workspace=workspace)
    return Drives(row[0], row[1], row[2], row[3], row[5]) if row else None


def sense(tx: Transaction, workspace: str, waiting: DreamBacklog) -> Drives:
    """The drives as they are now: what presses follows from the backlog, curiosity grows with every look."""
    row = tx.one(_GET, workspace=workspace)
    before, mark = (row[2], row[4]) if row else (0.0, 0)
    rise = _MORE_CURIOUS if waiting.mark != mark else _CURIOUS
    return _drives(waiting, min(1.0, before + rise), tx.now())


def settled(before: Drives, waiting: DreamBacklog, *, reflected: bool, now: str) -> Drives:
    """The drives after a pass."""
    return _drives(waiting, _SATISFIED if reflected else before.curiosity, now)


def keep(tx: Transaction, workspace: str, drives: Drives, mark: int) -> None:
    tx.run(
        _PUT,
        workspace=workspace,
        continuity=drives.continuity,
        coherence=drives.coherence,
        curiosity=drives.curiosity,
        stability=drives.stability,
        mark=mark,
        now=drives.updated_at,
    )


def _drives(waiting: DreamBacklog, curiosity: float, now: str) -> Drives:
    continuity = min(1.0, waiting.ripe / _FULL_CONTINUITY)
    coherence = min(1.0, waiting.unfolded / _FULL_COHERENCE)
    return Drives(
        continuity=continuity,
        coherence=coherence,
        curiosity=round(curiosity, 6),
        stability=round(1.0 - (continuity + coherence) / 2, 6),
        updated_at=now,
    )
