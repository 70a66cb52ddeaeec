"""What was said and done in a session, in order.

A session's row is updated before its exchange is inserted: that takes the row's lock, so `seq` numbers the exchanges of
one session in the order of their commits, also on PostgreSQL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import SessionNotFound

if TYPE_CHECKING:
    from ..storage.engine import Transaction

# What a session says or does is a sign of life, but only of one that is alive: a late hook must not revive it.
_NEXT_SEQ = """
UPDATE sessions
SET last_seq = last_seq + 1,
    heartbeat_at = CASE WHEN status = 'active' AND :alive = 1 THEN :now ELSE heartbeat_at END
WHERE workspace = :workspace AND id = :session
"""
_INSERT = """
INSERT INTO exchanges (workspace, session_id, seq, role, content, created_at)
SELECT workspace, id, last_seq, :role, :content, :now FROM sessions WHERE workspace = :workspace AND id = :session
RETURNING id, seq
"""


def append(
    tx: Transaction, workspace: str, session: str, role: str, content: str, now: str, *, alive: bool = True
) -> tuple[int, int]:
    """Add one exchange; its id and its `seq`. `alive=False` when somebody else wrote it about the session."""
    if not tx.run(_NEXT_SEQ, workspace=workspace, session=session, now=now, alive=int(alive)):
        raise SessionNotFound(f"There is no session {session!r} in workspace {workspace!r}.")
    id: int
    seq: int
    ((id, seq),) = tx.all(_INSERT, workspace=workspace, session=session, role=role, content=content, now=now)
    tx.note(workspace, "exchange", id)
    return id, seq
