"""Messages between sessions, each read once.

The recipients of a message are chosen when it is sent: the person, the session named, the holders of the resource
named, or every session active at that moment. There is a mailbox row per session, so that one update decides which
reader gets it. The person has one mailbox per workspace; a message to the person is marked in its own row.

A reader can die between reading a message and showing it. So there are two ways to read:

- `inbox` marks what it returns as read. It is for callers that hold the messages once the call has returned.
- `show` only marks it as shown. The reader passes it on, for example to a pipe, and then calls `acknowledge`, or
  `give_back` when that failed. A message that is neither acknowledged nor given back, because the reader was killed,
  is due again after `PATIENCE`. The second such showing counts as read, so killed readers show a message at most
  twice. A showing that was given back does not count.

Within `PATIENCE` no other reader gets the message: readers that run at the same time do not show it twice.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from itertools import accumulate
from typing import TYPE_CHECKING

from .. import checks, mutexes
from ..clock import later
from ..errors import EngramError, NoRecipient
from ..records import PERSON, Message
from ..safe_text import by_whom, visible
from . import mailboxes, resources, sessions
from .leases import LIVE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..storage.engine import Transaction
    from ..store_view import StoreView

#: Long enough for a question and its context. Longer text belongs in a block.
MAX_MESSAGE = 20_000
EVERYBODY = "*"
#: Seconds that a reader has to show its messages: longer than a hook may run.
PATIENCE = 5.0
#: These replace the time of a showing when a message was given back and is due at once. With the first, no showing
#: counts yet. With the second, one counts, because its reader was killed.
_FREE, _FREE_ONCE = "0000", "0001"

_EXISTS = "SELECT 1 FROM sessions WHERE workspace = :workspace AND id = :id"
_ACTIVE = "SELECT id FROM sessions WHERE workspace = :workspace AND status = 'active'"
UNREAD = """
SELECT m.id, m.from_session, m.target, m.content, m.created_at, m.author, d.shown_at
FROM deliveries d JOIN messages m ON m.id = d.message_id
WHERE d.workspace = :workspace AND d.session_id = :session AND d.read_at IS NULL
  AND (d.shown_at IS NULL OR d.shown_at <= :before)
ORDER BY d.message_id
"""
UNREAD_THEN = """
SELECT m.id, m.from_session, m.target, m.content, m.created_at, m.author
FROM deliveries d JOIN messages m ON m.id = d.message_id
WHERE d.workspace = :workspace AND d.session_id = :session AND m.created_at <= :now
  AND (d.read_at IS NULL OR d.read_at > :now)
ORDER BY d.message_id
"""
UNREAD_BY_PERSON = """
SELECT id, from_session, target, content, created_at, author FROM messages
WHERE workspace = :workspace AND to_person = 1 AND person_read_at IS NULL ORDER BY id
"""
UNREAD_BY_PERSON_THEN = """
SELECT id, from_session, target, content, created_at, author FROM messages
WHERE workspace = :workspace AND to_person = 1 AND created_at <= :now
  AND (person_read_at IS NULL OR person_read_at > :now)
ORDER BY id
"""
_LATEST = """
SELECT id, from_session, target, content, created_at, author FROM messages
WHERE workspace = :workspace AND id < :before ORDER BY id DESC LIMIT :limit
"""
_LATEST_OF = """
SELECT id, from_session, target, content, created_at, author FROM messages
WHERE workspace = :workspace AND id < :before AND id IN (
  SELECT id FROM messages WHERE workspace = :workspace AND from_session = :session
  UNION SELECT message_id FROM deliveries WHERE workspace = :workspace AND session_id = :session
)
ORDER BY id DESC LIMIT :limit
"""
_READ_BY_PERSON = """
UPDATE messages SET person_read_at = :now
WHERE workspace = :workspace AND id = :message AND to_person = 1 AND person_read_at IS NULL
"""
# The first showing leaves the message unread. The second one, `inbox` and `acknowledge` mark it as read. Only the
# second showing sets both times to the same value, and then the message can still be given back.
_TAKE = """
UPDATE deliveries
SET read_at = CASE WHEN :show = 1 AND (shown_at IS NULL OR shown_at = :free) THEN read_at ELSE :now END,
  shown_at = CASE WHEN :show = 1 THEN :now ELSE :free END
WHERE workspace = :workspace AND session_id = :session AND message_id = :message AND read_at IS NULL
  AND (shown_at IS NULL OR shown_at <= :before)
"""
_ACKNOWLEDGE = """
UPDATE deliveries SET read_at = :now, shown_at = :free
WHERE workspace = :workspace AND session_id = :session AND message_id = :message
  AND (read_at IS NULL OR read_at = shown_at)
"""
_GIVE_BACK = """
UPDATE deliveries SET read_at = NULL, shown_at = CASE WHEN read_at IS NULL THEN :free ELSE :once END
WHERE workspace = :workspace AND session_id = :session AND message_id = :message AND shown_at IS NOT NULL
  AND (read_at IS NULL OR (:again = 1 AND read_at = shown_at))
"""


def sent_by(from_session: str | None, author: str | None) -> str:
    """Who sent a message, for a report: `a person by laptop`."""
    return " ".join(filter(None, (visible(from_session or "a person"), by_whom(author))))


class Messages:
    def __init__(self, view: StoreView) -> None:
        self._view = view
        self._engine = view.engine
        self._workspace = view.workspace
        self._author = view.author

    def send(self, from_session: str | None, to: str, text: str, *, resource: str | None = None) -> Message:
        """Send to a session, to the holders of a resource, to every other active session (`*`), or to the `person`.

        `from_session` None means a person. NoRecipient when no session would get it. `*` does not reach the person.
        `resource` is the stored form of `to`, if the caller has worked it out: see `leases.normalise`.
        """
        checks.without_secrets(checks.text(to, "recipient", longest=4_096), "recipient")
        text = checks.content(text, "message", longest=MAX_MESSAGE)
        with self._engine.write() as tx:
            # Under this lock neither the sender nor a recipient can be forgotten.
            tx.lock(mutexes.leases(self._workspace))
            if from_session is not None:
                sessions.require(tx, self._workspace, from_session)
            now = tx.now()
            # Also if an earlier release made a session of that name.
            to_person = to == PERSON
            recipients = [] if to_person else self._recipients(tx, from_session, to, resource, now)
            id = mailboxes.write(
                tx, self._workspace, from_session, to, recipients, text, now, self._author, to_person=to_person
            )
        got = (PERSON,) if to_person else tuple(recipients)
        return Message(
            id=id,
            from_session=from_session,
            to=to,
            text=text,
            created_at=now,
            recipients=got,
            author=self._author,
        )

    def inbox(self, session_id: str, *, peek: bool = False) -> list[Message]:
        """Unread messages of the session or of the `person`, oldest first. Marks them as read, unless `peek` is set.

        The person's mailbox is read on behalf of the person. A brief shows it and leaves it unread.
        """
        checks.flag(peek, "peek")
        if session_id == PERSON:
            return self._of_person(take=not peek)
        if not peek:
            return self._take(session_id, show=False)
        with self._engine.read() as tx:
            sessions.require(tx, self._workspace, session_id)
            return self._unread(tx, session_id, tx.now())

    def show(self, session_id: str, *, longest: int | None = None) -> list[Message]:
        """Unread messages that the reader will show; see the module's docstring.

        Call `acknowledge` after showing them, or `give_back` if that failed. `longest` limits their total length in
        characters: the oldest that fit are returned, but at least one. The others stay unread.
        """
        return self._take(session_id, show=True, longest=longest)

    @contextmanager
    def showing(self, session_id: str) -> Iterator[list[Message]]:
        """`show` around a block: acknowledged at its end, given back when it raises."""
        shown = self.show(session_id)
        try:
            yield shown
        except BaseException:
            # If this fails too, they are due again after `PATIENCE`.
            with suppress(EngramError):
                self.give_back(session_id, shown)
            raise
        self.acknowledge(session_id, shown)

    @contextmanager
    def showing_person(self) -> Iterator[list[Message]]:
        """The person's unread messages around a block, which count as read at its end."""
        shown = self.inbox(PERSON, peek=True)
        yield shown
        if shown:
            self.read_by_person([message.id for message in shown])

    def acknowledge(self, session_id: str, shown: Iterable[Message]) -> None:
        """Mark what `show` returned as read."""
        ids = sorted(message.id for message in shown)
        if ids:
            with self._engine.write() as tx:
                self._lock(tx, session_id)
                now = tx.now()
                for id in ids:
                    if tx.run(
                        _ACKNOWLEDGE, workspace=self._workspace, session=session_id, message=id, now=now, free=_FREE
                    ):
                        tx.note(self._workspace, "message", id)

    def give_back(self, session_id: str, shown: Iterable[Message]) -> None:
        """Return messages to the mailbox. The showing does not count."""
        messages = sorted(shown, key=lambda message: message.id)
        if messages:
            with self._engine.write() as tx:
                self._lock(tx, session_id)
                for message in messages:
                    if tx.run(
                        _GIVE_BACK,
                        workspace=self._workspace,
                        session=session_id,
                        message=message.id,
                        # If the message has been shown again since, a late first reader does not affect that showing.
                        again=int(message.again),
                        free=_FREE,
                        once=_FREE_ONCE,
                    ):
                        tx.note(self._workspace, "message", message.id)

    def _of_person(self, *, take: bool) -> list[Message]:
        with self._engine.read() as tx:
            rows = tx.all(UNREAD_BY_PERSON, workspace=self._workspace)
        unread = [Message(*values)._replace(author=author) for *values, author in rows]
        if not take or not unread:
            return unread
        # Two readers may see a message at the same time; the one that marks it gets it.
        marked = self.read_by_person([message.id for message in unread])
        return [message for message in unread if message.id in marked]

    def read_by_person(self, ids: Iterable[int]) -> set[int]:
        """Mark messages to the person as read; the ids of those that were unread."""
        with self._engine.write() as tx:
            # Prevents deadlocks with forgetting, as for sessions.
            tx.lock(mutexes.leases(self._workspace))
            now = tx.now()
            marked = {id for id in ids if tx.run(_READ_BY_PERSON, workspace=self._workspace, message=id, now=now)}
            for id in sorted(marked):
                tx.note(self._workspace, "message", id)
        return marked

    def _take(self, session_id: str, *, show: bool, longest: int | None = None) -> list[Message]:
        with self._engine.write() as tx:
            sessions.require(tx, self._workspace, session_id)
            if not self._unread(tx, session_id, tx.now()):
                return []
            self._lock(tx, session_id)
            now = tx.now()
            # Two concurrent readers may both see a message; the one whose update marks it gets it. Each message is
            # marked by its id, because ids do not follow the order of commits: one with a lower id may arrive after
            # this read.
            mine = [
                message
                for message in _fitting(self._unread(tx, session_id, now), longest)
                if tx.run(
                    _TAKE,
                    workspace=self._workspace,
                    session=session_id,
                    message=message.id,
                    now=now,
                    before=due_before(now),
                    show=int(show),
                    free=_FREE,
                )
            ]
            for message in mine:
                tx.note(self._workspace, "message", message.id)
            return mine

    def _lock(self, tx: Transaction, session_id: str) -> None:
        # Prevents deadlocks: forgetting a session deletes messages and mailboxes in a different order.
        tx.lock(mutexes.leases(self._workspace))
        sessions.require(tx, self._workspace, session_id)

    def _unread(self, tx: Transaction, session_id: str, now: str) -> list[Message]:
        rows = tx.all(UNREAD, workspace=self._workspace, session=session_id, before=due_before(now))
        return [
            Message(*values)._replace(author=author, again=shown_at is not None) for *values, author, shown_at in rows
        ]

    def _recipients(self, tx: Transaction, sender: str | None, to: str, resource: str | None, now: str) -> list[str]:
        if to == EVERYBODY:
            everybody = sorted(id for id in tx.column(_ACTIVE, workspace=self._workspace) if id != sender)
            if not everybody:
                raise NoRecipient(f"No other session is active in workspace {self._workspace!r}.")
            return everybody
        if tx.one(_EXISTS, workspace=self._workspace, id=to):
            return [to]
        resource = self._stored(tx, sender, resource or to)
        holders = {
            session
            for session, _, _, _, _, held, *_ in tx.all(LIVE, workspace=self._workspace, now=now)
            if session != sender and resources.overlap(held, resource)
        }
        if not holders:
            raise NoRecipient(
                f"{to!r} is neither a session of workspace {self._workspace!r} nor a resource that another session "
                "holds.",
                typed="`engram session list` and `engram lock list` show both.",
            )
        return sorted(holders)

    def _stored(self, tx: Transaction, sender: str | None, resource: str) -> str:
        if self._view.elsewhere is None:
            return resources.normalise(resource)
        project = self._view.elsewhere.project
        if sender is not None:
            project = sessions.require(tx, self._workspace, sender).project or project
        return resources.elsewhere(resource, project)

    # Last in the class: below it, `list` in an annotation would mean this method.
    def list(self, limit: int = 50, *, before: int | None = None, session_id: str | None = None) -> list[Message]:
        """All messages of the workspace, the newest first, read or not; limit 0: all. Nothing is marked as read.

        `before`, the last id of a page, gives the next page. `session_id`: only messages that this session sent or
        was sent.
        """
        most = checks.whole(limit, "limit", least=0) or checks.MAX_WHOLE
        start = checks.MAX_WHOLE if before is None else checks.whole(before, "before", least=0)
        page = {"before": start, "limit": most}
        with self._engine.read() as tx:
            if session_id is None:
                rows = tx.all(_LATEST, workspace=self._workspace, **page)
            else:
                session = checks.name(session_id, "session id")
                sessions.require(tx, self._workspace, session)
                rows = tx.all(_LATEST_OF, workspace=self._workspace, session=session, **page)
        return [Message(*values)._replace(author=author) for *values, author in rows]


def _fitting(messages: list[Message], longest: int | None) -> list[Message]:
    """The first messages whose total length is at most `longest`, but at least one."""
    if longest is None:
        return messages
    ends = accumulate(len(message.text) for message in messages)
    return [
        message
        for position, (message, end) in enumerate(zip(messages, ends, strict=True))
        if position == 0 or end <= longest
    ]


def due_before(now: str) -> str:
    """A message that was shown before this time and not acknowledged is shown again."""
    return later(now, -PATIENCE)
