"""What sessions were told about each other's leases: each thing is said once.

A lease is named by its holder and its resource: of those there is one live lease.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..clock import later

if TYPE_CHECKING:
    from ..records import Holder
    from ..store_view import StoreView

_TELL = """
INSERT INTO lease_notices (token, session_id, what, at)
SELECT token, :session, 'told', :now FROM leases
WHERE workspace = :workspace AND session_id = :holder AND resource = :resource AND ended_at IS NULL
ON CONFLICT (token, session_id, what) DO NOTHING
"""
_REFUSE = """
INSERT INTO lease_notices (token, session_id, what, at)
SELECT token, :session, 'refused', :now FROM leases
WHERE workspace = :workspace AND session_id = :holder AND resource = :resource AND ended_at IS NULL
ON CONFLICT (token, session_id, what) DO UPDATE SET at = :now
"""
_REFUSED = """
SELECT n.at FROM lease_notices n JOIN leases l ON l.token = n.token
WHERE l.workspace = :workspace AND l.session_id = :holder AND l.resource = :resource AND l.ended_at IS NULL
  AND n.session_id = :session AND n.what = 'refused'
"""


class LeaseNotices:
    def __init__(self, view: StoreView) -> None:
        self._engine = view.engine
        self._workspace = view.workspace

    def tell(self, holder: Holder, session_id: str) -> bool:
        """Note that the holder is told of the session's edit; False if it was told before."""
        with self._engine.write() as tx:
            return bool(tx.run(_TELL, now=tx.now(), **self._named(holder, session_id)))

    def insist(self, holder: Holder, session_id: str, *, after: float, within: float) -> bool:
        """Whether the session was refused the lease at least `after` and at most `within` seconds ago.

        An attempt that comes sooner was made before the refusal could be read, so it changes nothing. A later one is
        noted as the new refusal.
        """
        named = self._named(holder, session_id)
        with self._engine.write() as tx:
            now = tx.now()
            before = tx.value(_REFUSED, **named)
            if before is not None and before > later(now, -after):
                return False
            insists = before is not None and before >= later(now, -within)
            # After a success the next attempts succeed at once, as if they had waited.
            tx.run(_REFUSE, now=later(now, -after) if insists else now, **named)
            return insists

    def _named(self, holder: Holder, session_id: str) -> dict[str, object]:
        return {
            "workspace": self._workspace,
            "session": session_id,
            "holder": holder.session_id,
            "resource": holder.resource,
        }
