"""Deletes log entries that are older than the setting `retention_logs` allows. Turns stay.

It goes through forgetting, so the index, the embedding queue and the counts stay right, and receipts say what went. An
entry that something else rests on stays: one that is a source of a memory or block, and one that is the summary or the
outcome of its session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..clock import later
from ..errors import ExchangeNotFound
from .forget import LOGS, Forgetting, Request

if TYPE_CHECKING:
    from ..store_view import StoreView

#: Entries deleted in one transaction.
_AT_ONCE = 2_000

_EXPIRED = """
SELECT e.id FROM exchanges e JOIN sessions s ON s.workspace = e.workspace AND s.id = e.session_id
WHERE e.workspace = :workspace AND e.role = 'log' AND e.created_at < :before
  AND s.summary <> e.content AND s.outcome <> e.content
  AND COALESCE(s.summary_from, 0) <> e.id AND COALESCE(s.outcome_from, 0) <> e.id
  AND NOT EXISTS (
    SELECT 1 FROM sources o WHERE o.workspace = e.workspace AND o.source_kind = 'exchange' AND o.source_id = e.id
  )
ORDER BY e.id LIMIT :limit
"""


def expire_logs(view: StoreView) -> int:
    """Delete the entries of this workspace that are too old; how many. Does nothing inside a caller's transaction."""
    age = view.config.retention_logs
    if not age or view.engine.joined:
        return 0
    forgetting, done = Forgetting(view), 0
    try:
        while True:
            with view.engine.read() as tx:
                before = later(tx.now(), -age)
                ids = tx.column(_EXPIRED, workspace=view.workspace, before=before, limit=_AT_ONCE)
            if not ids:
                return done
            try:
                receipt = forgetting.forget(Request(LOGS, tuple(ids)), scrub=False)
            except ExchangeNotFound:
                continue  # Another process has deleted some of them meanwhile.
            done += receipt.counts["exchanges"]
    finally:
        # Once, also after an error: in an encrypted store it rewrites the whole file.
        if done:
            view.engine.scrub()
