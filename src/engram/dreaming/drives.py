"""The dream backlog and the four drives that decide which stages of a pass run.

Continuity rises with sessions that need a gist, coherence with gists that are not yet in an era or the portrait,
curiosity with every call of `current` since the last reflection. Stability says how little is pending. Each drive is
between 0 and 1. A stage runs once its drive reaches `THRESHOLD`. The values are stored, so that curiosity can grow from
pass to pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..records import DreamBacklog, Drives

if TYPE_CHECKING:
    from ..storage.engine import Transaction

#: A stage runs when its drive is at least this high.
THRESHOLD = 0.6
#: A session with this many new turns gets a new gist.
TURNS_FOR_GIST = 20
_FULL_CONTINUITY = 4
_FULL_COHERENCE = 10
_CURIOUS, _MORE_CURIOUS, _SATISFIED = 0.15, 0.30, 0.10

_SESSIONS = "SELECT COUNT(*) FROM sessions WHERE workspace = :workspace AND turns > turns_gone"
_UNSUMMARISED = """
SELECT COUNT(*), COALESCE(SUM(CASE WHEN gist_turns = 0 OR turns - gist_turns >= :ready THEN 1 ELSE 0 END), 0),
       COALESCE(SUM(turns - gist_turns), 0)
FROM sessions WHERE workspace = :workspace AND turns > gist_turns
"""
_SESSIONS_TO_SUMMARISE = """
SELECT id FROM sessions
WHERE workspace = :workspace AND turns > gist_turns AND (gist_turns = 0 OR turns - gist_turns >= :ready OR :all = 1)
ORDER BY id
"""
_UNFOLDED = """
SELECT COUNT(*) FROM (SELECT DISTINCT gist FROM folds WHERE workspace = :workspace AND target <> 'extract') AS backlog
"""
# Both engines answer this from the end of the index on times.
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


def backlog(tx: Transaction, workspace: str, ripe: int = TURNS_FOR_GIST) -> DreamBacklog:
    """What is waiting to be summarised or folded in."""
    sessions = tx.value(_SESSIONS, workspace=workspace)
    ((dirty, ready, turns),) = tx.all(_UNSUMMARISED, workspace=workspace, ready=ripe)
    unfolded = tx.value(_UNFOLDED, workspace=workspace)
    mark = tx.value(_MARK, workspace=workspace)
    return DreamBacklog(sessions, dirty, int(ready), int(turns), unfolded, mark or 0)


def sessions_to_summarise(tx: Transaction, workspace: str, *, everything: bool = False) -> list[str]:
    """Sessions that need a gist now. With `everything`, all sessions with at least one new turn."""
    return tx.column(_SESSIONS_TO_SUMMARISE, workspace=workspace, ready=TURNS_FOR_GIST, all=int(everything))


def stored(tx: Transaction, workspace: str) -> Drives | None:
    """The drives as the last pass left them; None before the first pass."""
    row = tx.one(_GET, workspace=workspace)
    if row is None:
        return None
    continuity, coherence, curiosity, stability, _, updated_at = row
    return Drives(continuity, coherence, curiosity, stability, updated_at)


def current(tx: Transaction, workspace: str, backlog: DreamBacklog, *, curious: bool = True) -> Drives:
    """The drives now. Curiosity grows with every call, and faster when there are new turns; only a companion has it."""
    _, _, curiosity, _, mark, _ = tx.one(_GET, workspace=workspace) or (0.0, 0.0, 0.0, 0.0, 0, "")
    rise = _MORE_CURIOUS if backlog.mark != mark else _CURIOUS
    return _compute(backlog, min(1.0, curiosity + rise) if curious else 0.0, tx.now())


def after_pass(before: Drives, backlog: DreamBacklog, *, reflected: bool, now: str) -> Drives:
    """The drives at the end of a pass."""
    return _compute(backlog, _SATISFIED if reflected else before.curiosity, now)


def store(tx: Transaction, workspace: str, drives: Drives, mark: int) -> None:
    """Store the drives and the newest turn that they take into account."""
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


def _compute(backlog: DreamBacklog, curiosity: float, now: str) -> Drives:
    continuity = min(1.0, backlog.ripe / _FULL_CONTINUITY)
    coherence = min(1.0, backlog.unfolded / _FULL_COHERENCE)
    return Drives(
        continuity=continuity,
        coherence=coherence,
        curiosity=round(curiosity, 6),
        stability=round(1.0 - (continuity + coherence) / 2, 6),
        updated_at=now,
    )
