"""Messages between sessions, each delivered once.

Whom a message reaches is settled when it is sent: the session named, the holders of the resource named, or everybody
active at that moment. A mailbox row per recipient then makes "delivered once" a single statement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import checks, locks
from ..errors import NoRecipient
from ..records import Message
from . import resources, sessions
from .leases import LIVE

if TYPE_CHECKING:
    from ..scope import Scope
    from ..storage.engine import Transaction

#: Long enough for a question and its context; more belongs into a block.
MAX_MESSAGE = 20_000
EVERYBODY = "*"

_INSERT = """
INSERT INTO messages (workspace, from_session, target, content, created_at)
VALUES (:workspace, :from_session, :target, :content, :now)
RETURNING id
"""
_DELIVER = "INSERT INTO deliveries (message_id, workspace, session_id) VALUES (:message, :workspace, :session)"
_EXISTS = "SELECT 1 FROM sessions WHERE workspace = :workspace AND id = :id"
_ACTIVE = "SELECT id FROM sessions WHERE workspace = :workspace AND status = 'active'"
UNREAD = """
SELECT m.id, m.from_session, m.target, m.content, m.created_at
FROM deliveries d JOIN messages m ON m.id = d.message_id
WHERE d.workspace = :workspace AND d.session_id = :session AND d.read_at IS NULL
ORDER BY d.message_id
"""
_MARK_READ = """
UPDATE deliveries SET read_at = :now
WHERE workspace = :workspace AND session_id = :session AND message_id = :message AND read_at IS NULL
"""


class Messages:
    def __init__(self, scope: Scope) -> None:
        self._engine = scope.engine
        self._workspace = scope.workspace

    def send(self, from_session: str | None, to: str, text: str) -> Message:
        """Send to a session, to the holders of a resource, or to every other active session (`*`).

        `from_session` None means a person. NoRecipient when nobody would get it.
        """
        checks.without_secrets(checks.text(to, "recipient", longest=4_096), "recipient")
        text = checks.content(text, "message", longest=MAX_MESSAGE)
        with self._engine.write() as tx:
            # Neither the sender nor whom it reaches may be forgotten in between.
            tx.lock(locks.leases(self._workspace))
            if from_session is not None:
                sessions.require(tx, self._workspace, from_session)
            now = tx.now()
            recipients = self._recipients(tx, from_session, to, now)
            made = tx.all(
                _INSERT,
                workspace=self._workspace,
                from_session=from_session,
                target=to,
                content=text,
                now=now,
            )
            id: int = made[0][0]
            for session in recipients:
                tx.run(_DELIVER, workspace=self._workspace, message=id, session=session)
            tx.note(self._workspace, "message", id)
        return Message(id=id, from_session=from_session, to=to, text=text, created_at=now, recipients=tuple(recipients))

    def inbox(self, session_id: str, *, peek: bool = False) -> list[Message]:
        """What the session has not read yet, oldest first. Each message comes once, unless only peeked at."""
        checks.flag(peek, "peek")
        if peek:
            with self._engine.read() as tx:
                sessions.require(tx, self._workspace, session_id)
                return self._unread(tx, session_id)
        with self._engine.write() as tx:
            sessions.require(tx, self._workspace, session_id)
            if not self._unread(tx, session_id):
                return []
            # Who forgets a session takes messages and mailboxes away in an order of its own.
            tx.lock(locks.leases(self._workspace))
            unread = self._unread(tx, session_id)
            now = tx.now()
            # Two readers at once may both have seen a message; the one whose update marks it gets it. One by one,
            # because ids do not follow commits: an earlier one may come in after we looked, and is not ours to mark.
            mine = [
                message
                for message in unread
                if tx.run(_MARK_READ, workspace=self._workspace, session=session_id, message=message.id, now=now)
            ]
            for message in mine:
                tx.note(self._workspace, "message", message.id)
            return mine

    def _unread(self, tx: Transaction, session_id: str) -> list[Message]:
        return [Message(*row) for row in tx.all(UNREAD, workspace=self._workspace, session=session_id)]

    def _recipients(self, tx: Transaction, sender: str | None, to: str, now: str) -> list[str]:
        if to == EVERYBODY:
            everybody = sorted(id for (id,) in tx.all(_ACTIVE, workspace=self._workspace) if id != sender)
            if not everybody:
                raise NoRecipient(f"Nobody else is at work in workspace {self._workspace!r}.")
            return everybody
        if tx.one(_EXISTS, workspace=self._workspace, id=to):
            return [to]
        resource = resources.normalise(to)
        holders = {
            row[0]
            for row in tx.all(LIVE, workspace=self._workspace, now=now)
            if row[0] != sender and resources.overlap(row[5], resource)
        }
        if not holders:
            raise NoRecipient(
                f"{to!r} is neither a session of workspace {self._workspace!r} nor a resource that another session "
                "holds; `engram session list` and `engram lock list` show both."
            )
        return sorted(holders)
