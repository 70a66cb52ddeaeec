"""Counts: how much one workspace contains, and each workspace of a store.

Turns come from the sessions' own counters, memories are counted through an index. No statement here reads
the rows of exchanges, memories or vectors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..clock import later
from ..memory.embedding_models import model_of
from ..records import Stats, WorkspaceInfo
from ..storage import changes

if TYPE_CHECKING:
    from ..storage.engine import Transaction
    from ..store_view import StoreView

_SESSIONS = """
SELECT status, COUNT(*), SUM(CASE WHEN status = 'active' AND heartbeat_at < :since THEN 1 ELSE 0 END),
  SUM(turns - turns_gone)
FROM sessions WHERE workspace = :workspace AND (:dreams = 1 OR type <> 'dream') GROUP BY status
"""
_MEMORIES = """
SELECT kind, COUNT(*) FROM memories WHERE workspace = :workspace AND status = 'active' GROUP BY kind ORDER BY kind
"""
_REST = """
SELECT
  (SELECT COUNT(*) FROM exchanges WHERE workspace = :workspace AND role = 'log'),
  (SELECT COUNT(*) FROM leases
   WHERE workspace = :workspace AND ended_at IS NULL AND (expires_at IS NULL OR expires_at > :now)),
  (SELECT COUNT(*) FROM blocks WHERE workspace = :workspace),
  (SELECT COUNT(*) FROM backlog WHERE workspace = :workspace)
"""
_WORKSPACE = """
SELECT COUNT(*), COALESCE(SUM(turns - turns_gone), 0), MAX(heartbeat_at)
FROM sessions WHERE workspace = :workspace AND type <> 'dream'
"""
_COUNT_MEMORIES = """
SELECT COUNT(*) FROM memories WHERE workspace = :workspace AND status = 'active' AND kind <> 'gist'
"""
# The latest changes outside of sessions. Memories take one index lookup; blocks are few.
_LATEST = """
SELECT
  (SELECT MAX(created_at) FROM memories WHERE workspace = :workspace AND status = 'active'),
  (SELECT MAX(updated_at) FROM blocks WHERE workspace = :workspace)
"""
#: Gists are counted separately, because dreaming writes them and not a person or an agent.
_GIST = "gist"


def stats(view: StoreView, *, dreams: bool) -> Stats:
    """The counts of the workspace; see `Stats`."""
    workspace = view.workspace
    with view.engine.read() as tx:
        now = tx.now()
        since = later(now, -view.config.stale_after)
        rows = tx.all(_SESSIONS, workspace=workspace, since=since, dreams=int(dreams))
        memories = {kind: count for kind, count in tx.all(_MEMORIES, workspace=workspace)}
        ((logs, leases, blocks, waiting),) = tx.all(_REST, workspace=workspace, now=now)
        model = model_of(tx, workspace)
    by_status = {status: count for status, count, _, _ in rows}
    return Stats(
        sessions=sum(by_status.values()),
        active=by_status.get("active", 0),
        stale=sum(int(stale) for _, _, stale, _ in rows),
        completed=by_status.get("completed", 0),
        abandoned=by_status.get("abandoned", 0),
        logs=logs,
        leases=leases,
        blocks=blocks,
        idle=by_status.get("idle", 0),
        turns=sum(int(turns) for _, _, _, turns in rows),
        gists=memories.pop(_GIST, 0),
        memories=memories,
        embedding_queue=waiting,
        embedder=view.config.embedder if view.embedder is None else view.embedder.name,
        model=model,
        store_bytes=view.engine.size(),
    )


def workspaces(view: StoreView) -> list[WorkspaceInfo]:
    """Every workspace that was ever written to, by name."""
    names = changes.workspaces(view.engine)
    with view.engine.read() as tx:
        return [_workspace(tx, name) for name in names]


def _workspace(tx: Transaction, name: str) -> WorkspaceInfo:
    ((sessions, turns, heartbeat),) = tx.all(_WORKSPACE, workspace=name)
    memories = tx.value(_COUNT_MEMORIES, workspace=name)
    ((remembered, edited),) = tx.all(_LATEST, workspace=name)
    times = [time for time in (heartbeat, remembered, edited) if time]
    return WorkspaceInfo(
        name=name, sessions=sessions, turns=int(turns), memories=memories, active_at=max(times, default=None)
    )
