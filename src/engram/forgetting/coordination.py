"""Erases sessions, messages and leases. `forget` decides which."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..storage.engine import Transaction

#: Every text column of this tier's tables, and what erases its content. A test compares this with the schema.
TEXTS = {
    "sessions": {
        "summary": "session, quoted",
        "outcome": "session, quoted",
        "name": "session",
        "metadata": "session",
        "external_id": "session",
    },
    "leases": {"note": "session", "resource": "session"},
    "lease_waiters": {"resource": "session"},
    "messages": {"content": "session", "target": "session"},
}
#: The same columns: whether Engram copies other texts into them, and how the copy of an original is found.
COPIES = {
    "sessions": {"summary": "quoted", "outcome": "quoted", "name": "none", "metadata": "none", "external_id": "none"},
    "leases": {"note": "none", "resource": "none"},
    "lease_waiters": {"resource": "none"},
    "messages": {"content": "none", "target": "none"},
}

_SENT = "SELECT id FROM messages WHERE workspace = :workspace AND from_session = :session ORDER BY id"
_SENT_BEFORE = "SELECT id FROM messages WHERE workspace = :workspace AND created_at < :before ORDER BY id"
# Messages that only this session could read.
_ONLY_FOR = """
SELECT d.message_id FROM deliveries d
WHERE d.workspace = :workspace AND d.session_id = :session
  AND NOT EXISTS (SELECT 1 FROM deliveries o WHERE o.message_id = d.message_id AND o.session_id <> d.session_id)
ORDER BY d.message_id
"""
_DELETE_DELIVERIES = "DELETE FROM deliveries WHERE workspace = :workspace AND message_id = :message"
_DELETE_MAILBOX = "DELETE FROM deliveries WHERE workspace = :workspace AND session_id = :session"
_DELETE_MESSAGE = "DELETE FROM messages WHERE workspace = :workspace AND id = :message"
_DELETE_WAITERS = "DELETE FROM lease_waiters WHERE workspace = :workspace AND session_id = :session"
_DELETE_LEASES = "DELETE FROM leases WHERE workspace = :workspace AND session_id = :session"
_DELETE_ENDED_LEASES = "DELETE FROM leases WHERE workspace = :workspace AND ended_at < :before"
_ORPHAN = "UPDATE sessions SET parent_id = NULL WHERE workspace = :workspace AND parent_id = :session"
_DELETE_SESSION = "DELETE FROM sessions WHERE workspace = :workspace AND id = :session"


def delete_sessions(tx: Transaction, workspace: str, ids: Iterable[str]) -> list[int]:
    """Delete sessions whose exchanges are already deleted; returns the messages that were deleted with them."""
    gone: list[int] = []
    for session in sorted(ids):
        of_it = {"workspace": workspace, "session": session}
        gone += delete_messages(tx, workspace, tx.column(_SENT, **of_it) + tx.column(_ONLY_FOR, **of_it))
        tx.run(_DELETE_MAILBOX, **of_it)
        tx.run(_DELETE_WAITERS, **of_it)
        tx.run(_DELETE_LEASES, **of_it)
        tx.run(_ORPHAN, **of_it)
        tx.run(_DELETE_SESSION, **of_it)
        tx.note(workspace, "session", session)
    return gone


def delete_before(tx: Transaction, workspace: str, time: str) -> list[int]:
    """Delete messages sent and leases ended before a time; returns the messages."""
    tx.run(_DELETE_ENDED_LEASES, workspace=workspace, before=time)
    return delete_messages(tx, workspace, tx.column(_SENT_BEFORE, workspace=workspace, before=time))


def delete_messages(tx: Transaction, workspace: str, ids: Iterable[int]) -> list[int]:
    """Delete messages and their places in mailboxes; returns them."""
    gone = sorted(set(ids))
    for message in gone:
        tx.run(_DELETE_DELIVERIES, workspace=workspace, message=message)
        tx.run(_DELETE_MESSAGE, workspace=workspace, message=message)
        tx.note(workspace, "message", message)
    return gone
