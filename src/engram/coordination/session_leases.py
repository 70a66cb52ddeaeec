"""What a session's heartbeat and end do to its leases, in the transaction that writes the session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import mutexes
from ..clock import later

if TYPE_CHECKING:
    from ..storage.engine import Answer, Transaction

# Every resource is >= ''. This makes SQLite use the index of live leases, not that of all leases of a session.
_EXCLUSIVE_HELD = """
SELECT token, ttl, expires_at FROM leases
WHERE workspace = :workspace AND session_id = :id AND resource >= '' AND ended_at IS NULL AND exclusive = 1
ORDER BY token
"""
_RENEW = """
UPDATE leases SET expires_at = :expires
WHERE workspace = :workspace AND token = :token AND ended_at IS NULL AND expires_at > :now
"""
# Locks the rows without changing them. Which leases may be renewed is decided after waiting for the locks.
_TAKE = """
UPDATE leases SET exclusive = 1
WHERE workspace = :workspace AND session_id = :id AND resource >= '' AND ended_at IS NULL AND exclusive = 1
"""
_END_LEASES = """
UPDATE leases SET ended_at = :now, ended_because = :because
WHERE workspace = :workspace AND session_id = :id AND resource >= '' AND ended_at IS NULL
  AND (expires_at IS NULL OR expires_at > :now)
RETURNING token
"""


def ask_held(tx: Transaction, workspace: str, id: str) -> Answer:
    """Ask for the session's exclusive leases, for `renew`."""
    return tx.ask(_EXCLUSIVE_HELD, workspace=workspace, id=id)


def renew(tx: Transaction, workspace: str, id: str, now: str, asked: Answer | None = None) -> None:
    """Renew the session's exclusive leases, as every heartbeat does. An expired lease stays expired.

    Whoever has to ask for the time can ask for the leases before, with `ask_held`.
    """
    asked = asked or ask_held(tx, workspace, id)
    held = [(token, ttl) for token, ttl, expires in asked.all() if expires > now]
    if held:
        tx.lock(mutexes.leases(workspace))
        tx.run(_TAKE, workspace=workspace, id=id)
        now = tx.now()
    for token, ttl in held:
        if tx.run(_RENEW, workspace=workspace, token=token, now=now, expires=later(now, ttl)):
            tx.note(workspace, "lease", token)


def end(tx: Transaction, workspace: str, id: str, now: str, because: str) -> list[int]:
    """End all live leases of a session; their tokens."""
    ended = tx.column(_END_LEASES, workspace=workspace, id=id, now=now, because=because)
    for token in ended:
        tx.note(workspace, "lease", token)
    return ended
