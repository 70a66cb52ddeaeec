"""Puts a message into the mailboxes of its recipients. `messages` chooses them, and reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..storage.engine import Transaction

_INSERT = """
INSERT INTO messages (workspace, from_session, target, content, created_at, to_person, author)
VALUES (:workspace, :from_session, :target, :content, :now, :to_person, :author)
RETURNING id
"""
_DELIVER = "INSERT INTO deliveries (message_id, workspace, session_id) VALUES (:message, :workspace, :session)"


def write(
    tx: Transaction,
    workspace: str,
    from_session: str | None,
    to: str,
    recipients: Iterable[str],
    text: str,
    now: str,
    author: str | None,
    *,
    to_person: bool = False,
) -> int:
    """Store a message and put it into the mailboxes of its recipients; its id. The caller holds the lock of leases."""
    id: int = tx.value(
        _INSERT,
        workspace=workspace,
        from_session=from_session,
        target=to,
        content=text,
        now=now,
        to_person=int(to_person),
        author=author,
    )
    for session in recipients:
        tx.run(_DELIVER, workspace=workspace, message=id, session=session)
    tx.note(workspace, "message", id)
    return id
