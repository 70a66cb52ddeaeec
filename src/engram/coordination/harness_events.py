"""What each harness did last, from its sessions, and failures of its hooks.

Sessions have no index by type. So the sessions of each status with the latest heartbeats are read, through the index on
both. A harness that is in none of them has not been seen lately.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .. import hook_log
from ..clock import later
from ..overview_records import HarnessEvent, HarnessEvents, HookFailures
from ..safe_text import one_line

if TYPE_CHECKING:
    from ..storage.engine import Transaction
    from ..store_view import StoreView

#: The harnesses that Engram has hooks for, and the type of a client that is known only over MCP.
HARNESSES: Final = ("claude-code", "codex", "gemini", "cursor", "mcp")
_STATUSES: Final = ("active", "idle", "completed", "abandoned")
_MOST = 500
_DAY = 86_400
_TEXT = 200

_LATEST = """
SELECT type, id, project, status, created_at, heartbeat_at, ended_at, SUBSTR(outcome, 1, 400) FROM sessions
WHERE workspace = :workspace AND status = :status ORDER BY heartbeat_at DESC LIMIT :most
"""
_LAST_TURN = """
SELECT created_at, SUBSTR(content, 1, 400) FROM exchanges
WHERE workspace = :workspace AND session_id = :id AND role <> 'log' ORDER BY seq DESC LIMIT 1
"""
_LAST_LOG = """
SELECT created_at, SUBSTR(content, 1, 400) FROM exchanges
WHERE workspace = :workspace AND session_id = :id AND role = 'log' ORDER BY seq DESC LIMIT 1
"""


def harness_events(view: StoreView) -> HarnessEvents:
    """The last event of each harness, and of every other type of session among the latest ones."""
    with view.engine.read() as tx:
        now = tx.now()
        asked = [tx.ask(_LATEST, workspace=view.workspace, status=status, most=_MOST) for status in _STATUSES]
        latest: dict[str, Any] = {}
        for row in [row for answer in asked for row in answer.all() if row[0] != "dream"]:
            if row[0] not in latest or _moved_at(row) > _moved_at(latest[row[0]]):
                latest[row[0]] = row
        found = [_event(tx, view.workspace, row) for row in latest.values()]
    found.sort(key=lambda each: each.at or "", reverse=True)
    missing = [HarnessEvent(name, None, None, None, "", "") for name in HARNESSES if name not in latest]
    return HarnessEvents((*found, *missing), _failures(view, now))


def _moved_at(row: Any) -> str:
    """The time of a session's last event."""
    *_, heartbeat, ended, _outcome = row
    return max(str(heartbeat), str(ended or ""))


def _event(tx: Transaction, workspace: str, row: Any) -> HarnessEvent:
    harness, id, project, status, created, heartbeat, ended, outcome = row
    if ended is not None and ended >= heartbeat:
        return HarnessEvent(harness, id, project, ended, status, one_line(outcome, _TEXT))
    turn, log = tx.ask(_LAST_TURN, workspace=workspace, id=id), tx.ask(_LAST_LOG, workspace=workspace, id=id)
    said = [(*each, what) for what, answer in (("turn", turn), ("log", log)) if (each := answer.one())]
    at, text, what = max(said, default=(created, "", "started"))
    if heartbeat > at:
        what, text = "heartbeat", ""
    return HarnessEvent(harness, id, project, heartbeat, what, one_line(text, _TEXT))


def _failures(view: StoreView, now: str) -> HookFailures | None:
    found = hook_log.failures(view.config.data_dir, later(now, -_DAY))
    if found is None:
        return None
    count, at, last = found
    # The log is about all workspaces and stores of this machine, which a caller elsewhere need not know of.
    return HookFailures(count, at, None if last is None or view.elsewhere is not None else one_line(last, _TEXT))
