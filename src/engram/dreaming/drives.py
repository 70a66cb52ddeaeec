"""The dream backlog and the four drives that decide which stages of a pass run.

Continuity rises with sessions that need a gist, coherence with gists that are not yet in an era or the portrait,
curiosity with every call of `current` since the last reflection. Stability says how little is pending. Each drive is
between 0 and 1. Drives also grow with time: `due` decides which stages are due, and the drive of a due stage is at
least `THRESHOLD`. The values are stored, so that curiosity can grow from pass to pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..clock import later
from ..coordination.sessions import MANY_TURNS
from ..records import DreamBacklog, Drives

if TYPE_CHECKING:
    from collections.abc import Collection

    from ..storage.engine import Transaction

#: A stage runs when its drive is at least this high.
THRESHOLD = 0.6
#: A session with this many new turns gets a new gist.
TURNS_FOR_GIST = MANY_TURNS
#: This many sessions without a gist are summarised while they are at work.
MANY_SESSIONS = 3
#: A session that is silent for this long counts as ended. The setting `stale_after` takes precedence.
_SILENT = 1_800.0
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
SELECT s.id FROM sessions s
WHERE s.workspace = :workspace AND s.turns > s.gist_turns
  AND (:all = 1 OR s.status <> 'active' OR s.heartbeat_at < :silent OR s.turns - s.gist_turns >= :ready
       OR (s.gist_turns = 0 AND (:many = 1 OR EXISTS (
             SELECT 1 FROM gists g WHERE g.workspace = s.workspace AND g.session_id = s.id))))
ORDER BY s.id
"""
_NEW_AT_WORK = """
SELECT COUNT(*) FROM sessions s
WHERE s.workspace = :workspace AND s.turns > s.gist_turns AND s.gist_turns = 0 AND s.status = 'active'
  AND s.heartbeat_at >= :silent AND s.turns < :ready
  AND NOT EXISTS (SELECT 1 FROM gists g WHERE g.workspace = s.workspace AND g.session_id = s.id)
"""
_UNFOLDED = """
SELECT COUNT(*) FROM (
  SELECT DISTINCT gist FROM folds WHERE workspace = :workspace AND target IN ('era', 'narrative')) AS backlog
"""
# Not the latest turn: an imported turn has a high id and an early time. Both engines read the end of an index.
_MARK = "SELECT id FROM exchanges WHERE workspace = :workspace AND role <> 'log' ORDER BY id DESC LIMIT 1"
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


def sessions_to_summarise(
    tx: Transaction, workspace: str, *, everything: bool = False, silent_after: float = _SILENT
) -> list[str]:
    """Sessions that need a gist now: the rule is that of `due`. With `everything`, all with at least one new turn."""
    known = {"workspace": workspace, "silent": later(tx.now(), -silent_after), "ready": TURNS_FOR_GIST}
    many = tx.value(_NEW_AT_WORK, **known) >= MANY_SESSIONS
    return tx.column(_SESSIONS_TO_SUMMARISE, all=int(everything), many=int(many), **known)


def stored(tx: Transaction, workspace: str) -> Drives | None:
    """The drives as the last pass left them; None before the first pass."""
    row = tx.one(_GET, workspace=workspace)
    if row is None:
        return None
    continuity, coherence, curiosity, stability, _, updated_at = row
    return Drives(continuity, coherence, curiosity, stability, updated_at)


def current(
    tx: Transaction, workspace: str, backlog: DreamBacklog, due: Collection[str] = (), *, curious: bool = True
) -> Drives:
    """The drives now; `due` names those that have a stage with work to do.

    Curiosity grows with every call, and faster when there are new turns; only a companion has it.
    """
    _, _, curiosity, _, mark, _ = tx.one(_GET, workspace=workspace) or (0.0, 0.0, 0.0, 0.0, 0, "")
    rise = _MORE_CURIOUS if backlog.mark != mark else _CURIOUS
    return _compute(backlog, min(1.0, curiosity + rise) if curious else 0.0, tx.now(), due)


def after_pass(
    before: Drives, backlog: DreamBacklog, *, reflected: bool, now: str, due: Collection[str] = ()
) -> Drives:
    """The drives at the end of a pass."""
    return _compute(backlog, _SATISFIED if reflected else before.curiosity, now, due)


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


def _compute(backlog: DreamBacklog, curiosity: float, now: str, due: Collection[str]) -> Drives:
    least = dict.fromkeys(due, THRESHOLD)
    continuity = max(min(1.0, backlog.ripe / _FULL_CONTINUITY), least.get("continuity", 0.0))
    coherence = max(min(1.0, backlog.unfolded / _FULL_COHERENCE), least.get("coherence", 0.0))
    return Drives(
        continuity=continuity,
        coherence=coherence,
        curiosity=round(curiosity, 6),
        stability=round(1.0 - (continuity + coherence) / 2, 6),
        updated_at=now,
    )
