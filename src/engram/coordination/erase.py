"""What coordination holds of sessions and messages, and how it is erased. `memory.forget` decides what goes.

Two texts here repeat others. A session's summary may repeat one of its exchanges, which `summary_from` names; and what
a session logs about a broken lease is repeated in the logs of both sides, with a row in `sources`. Both are recognised
by their words as well: rows from before these notes have none, and an older Engram on the same store writes none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..memory import backlog, index
from ..text import one_line
from .leases import BROKE, LOST, broken_by, taken_from
from .sessions import QUOTED, quote, unquote

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..storage.engine import Row, Transaction

#: Every text column of this tier's tables, and what erases what is in it. A test compares this with the schema.
TEXTS = {
    "sessions": {"summary": "session, quoted", "name": "session", "metadata": "session", "external_id": "session"},
    "leases": {"note": "session", "resource": "session"},
    "lease_waiters": {"resource": "session"},
    "messages": {"content": "session", "target": "session"},
}
#: The same columns: whether Engram copies other texts into them, and then what leads from the original to the copy.
COPIES = {
    "sessions": {"summary": "quoted", "name": "none", "metadata": "none", "external_id": "none"},
    "leases": {"note": "none", "resource": "none"},
    "lease_waiters": {"resource": "none"},
    "messages": {"content": "none", "target": "none"},
}

#: So many characters in common tell a shortened copy of a turn from a text that only begins alike.
_ALIKE = 20
#: The head of a turn that a summary is compared with; a summary repeats far less.
_HEAD = 4_000
#: How a session without words was summed up, by a hook.
_TOUCHED = "Touched "

_SUMMARY = "SELECT summary, summary_from FROM sessions WHERE workspace = :workspace AND id = :session"
_ROLE = "SELECT role FROM exchanges WHERE workspace = :workspace AND id = :id"
_HEADS = """
SELECT role, SUBSTR(content, 1, :length) FROM exchanges
WHERE workspace = :workspace AND session_id = :session AND role <> 'log'
  AND id IN (SELECT value FROM json_each(:ids)) ORDER BY seq
"""
_SESSIONS_OF = """
SELECT DISTINCT session_id FROM exchanges
WHERE workspace = :workspace AND id IN (SELECT value FROM json_each(:ids))
"""
_SUMMED_UP_BY_LEASES = """
SELECT DISTINCT s.id FROM leases l JOIN sessions s ON s.workspace = l.workspace AND s.id = l.session_id
WHERE l.workspace = :workspace AND l.ended_at < :before AND SUBSTR(s.summary, 1, :length) = :beginning
"""
_BROKEN = """
SELECT id, session_id, content, created_at FROM exchanges
WHERE workspace = :workspace AND role = 'log' AND SUBSTR(content, 1, :length) = :beginning
  AND id IN (SELECT value FROM json_each(:ids))
"""
_AT_THE_SAME_TIME = """
SELECT id, session_id, content, created_at FROM exchanges
WHERE workspace = :workspace AND role = 'log' AND SUBSTR(content, 1, :length) = :beginning
  AND created_at IN (SELECT value FROM json_each(:times))
"""
_REWRITE = "UPDATE exchanges SET content = :content WHERE workspace = :workspace AND id = :id"
_SENT = "SELECT id FROM messages WHERE workspace = :workspace AND from_session = :session ORDER BY id"
_SENT_BEFORE = "SELECT id FROM messages WHERE workspace = :workspace AND created_at < :before ORDER BY id"
# Nobody could read it any more.
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


def sessions(tx: Transaction, workspace: str, ids: Iterable[str]) -> list[int]:
    """Erase sessions whose exchanges are gone already; the messages that went with them."""
    gone: list[int] = []
    for session in sorted(ids):
        of_it = {"workspace": workspace, "session": session}
        gone += _messages(tx, workspace, [row[0] for row in tx.all(_SENT, **of_it) + tx.all(_ONLY_FOR, **of_it)])
        tx.run(_DELETE_MAILBOX, **of_it)
        tx.run(_DELETE_WAITERS, **of_it)
        tx.run(_DELETE_LEASES, **of_it)
        tx.run(_ORPHAN, **of_it)
        tx.run(_DELETE_SESSION, **of_it)
        tx.note(workspace, "session", session)
    return gone


def repeating(tx: Transaction, workspace: str, ids: list[int], ending: set[str], before: str | None) -> dict[str, str]:
    """Sessions whose summary repeats one of the exchanges that go, and the role of that one; not those that end.

    With `before`, also those summed up by leases that end with it. To be called while the exchanges are still there.
    """
    found: dict[str, str] = {}
    losing = {row[0] for row in tx.all(_SESSIONS_OF, workspace=workspace, ids=tx.array(ids))}
    for session in sorted(losing - ending):
        role = _repeated(tx, workspace, session, set(ids))
        if role is not None:
            found[session] = role
    if before is not None:
        rows = tx.all(_SUMMED_UP_BY_LEASES, workspace=workspace, before=before, **_beginning(_TOUCHED))
        for session in {row[0] for row in rows} - ending:
            found.setdefault(session, "log")
    return found


def _repeated(tx: Transaction, workspace: str, session: str, gone: set[int]) -> str | None:
    """The role of the exchange among those that go which the session's summary repeats."""
    row = tx.one(_SUMMARY, workspace=workspace, session=session)
    if row is None or not row[0]:
        return None
    summary, source = row
    if source in gone:
        return str(tx.all(_ROLE, workspace=workspace, id=source)[0][0])
    heads = tx.all(_HEADS, workspace=workspace, session=session, length=_HEAD, ids=tx.array(sorted(gone)))
    return next((str(role) for role, head in heads if repeats(summary, head)), None)


def repeats(summary: str, text: str) -> bool:
    """Whether a summary is the text on one line, perhaps shortened.

    Secrets were taken out of the two separately, so that they may differ from there on.
    """
    plain = one_line(text, len(text))
    if summary == plain:
        return True
    cut = summary.endswith("…") or "[redacted" in summary
    return cut and summary[:_ALIKE] == plain[:_ALIKE]


def requote(tx: Transaction, workspace: str, repeating: dict[str, str]) -> list[str]:
    """Let what is left of each session stand for it: the assistant's last turn, the user's first, or nothing.

    The caller holds the sessions' rows, and what they repeated is gone.
    """
    for session, role in sorted(repeating.items()):
        others = ("assistant", "user") if role != "user" else ("user",)
        if not any(quote(tx, workspace, session, QUOTED[other]) for other in others):
            unquote(tx, workspace, session)
    return sorted(repeating)


class _Entry(NamedTuple):
    """A log entry about a broken lease."""

    id: int
    session: str
    content: str
    at: str


class Broken:
    """Log entries about broken leases that go, and what both sides' logs hold of each other."""

    def __init__(self, tx: Transaction, workspace: str, ids: Iterable[int]) -> None:
        self._tx = tx
        self._workspace = workspace
        some = tx.array(sorted(ids))
        self._lost = self._entries(tx.all(_BROKEN, workspace=workspace, ids=some, **_beginning(LOST)))
        self._broke = self._entries(tx.all(_BROKEN, workspace=workspace, ids=some, **_beginning(BROKE)))

    def retold(self) -> set[int]:
        """What others logged with the reason that goes."""
        others = self._beside(self._broke, LOST)
        return {
            other.id
            for entry in self._broke
            for other in others
            if other.at == entry.at and broken_by(entry.session) in other.content
        }

    def rewrite(self, gone: set[int]) -> list[int]:
        """Take what a session lost out of the entry of the session that took it; the entries that were changed."""
        changed = set()
        for other in self._beside(self._lost, BROKE):
            content = other.content
            for entry in self._lost:
                resources, found, _ = entry.content.removeprefix(LOST).partition(broken_by(other.session))
                if found and entry.at == other.at:
                    named = taken_from(entry.session)
                    content = content.replace(f"{resources}{named}", f"[forgotten]{named}", 1)
            if content != other.content and other.id not in gone:
                self._replace(other.id, content)
                changed.add(other.id)
        return sorted(changed)

    def _beside(self, entries: list[_Entry], beginning: str) -> list[_Entry]:
        """What begins so and was logged in the same moments as the entries."""
        if not entries:
            return []
        times = self._tx.array(sorted({entry.at for entry in entries}))
        return self._entries(
            self._tx.all(_AT_THE_SAME_TIME, workspace=self._workspace, times=times, **_beginning(beginning))
        )

    def _replace(self, id: int, content: str) -> None:
        tx, workspace = self._tx, self._workspace
        tx.run(_REWRITE, workspace=workspace, id=id, content=content)
        index.remove(tx, workspace, "exchange", [id])
        backlog.withdraw(tx, workspace, "exchange", id)
        backlog.wait(tx, workspace, "exchange", id, indexed=False)
        tx.note(workspace, "exchange", id)

    def _entries(self, rows: list[Row]) -> list[_Entry]:
        return [_Entry(*row) for row in rows]


def _beginning(text: str) -> dict[str, object]:
    return {"length": len(text), "beginning": text}


def before(tx: Transaction, workspace: str, time: str) -> list[int]:
    """Erase messages sent and leases ended before a time; the messages."""
    tx.run(_DELETE_ENDED_LEASES, workspace=workspace, before=time)
    return _messages(tx, workspace, [row[0] for row in tx.all(_SENT_BEFORE, workspace=workspace, before=time)])


def _messages(tx: Transaction, workspace: str, ids: Iterable[int]) -> list[int]:
    gone = sorted(set(ids))
    for message in gone:
        tx.run(_DELETE_DELIVERIES, workspace=workspace, message=message)
        tx.run(_DELETE_MESSAGE, workspace=workspace, message=message)
        tx.note(workspace, "message", message)
    return gone
