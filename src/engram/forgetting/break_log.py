"""Finds log entries and messages about broken leases that repeat what is forgotten.

Entries name their source. Entries of an older release do not. Those are found by their time, which is the same in both
entries, and by their words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..coordination.break_log import BROKE, LOST, broken_by, taken_from
from ..memory import embedding_queue, word_index

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..storage.engine import Row, Transaction

# COALESCE keeps SQLite from reading every log through an index. The ids are selective enough.
_GOING = """
SELECT id, session_id, content, created_at FROM exchanges
WHERE workspace = :workspace AND COALESCE(role, '') = 'log' AND SUBSTR(content, 1, :length) = :beginning
  AND id IN (SELECT value FROM json_each(:ids))
"""
_LOGGED_BY = """
SELECT id, session_id, content, created_at FROM exchanges
WHERE workspace = :workspace AND role = 'log' AND SUBSTR(content, 1, :length) = :beginning
  AND session_id IN (SELECT value FROM json_each(:sessions))
"""
#: Each entry of a session that lost a lease was sent to it as well.
_SENT = """
SELECT m.id FROM exchanges e
JOIN deliveries d ON d.workspace = e.workspace AND d.session_id = e.session_id
JOIN messages m ON m.id = d.message_id AND m.content = e.content AND m.created_at = e.created_at
WHERE e.workspace = :workspace AND COALESCE(e.role, '') = 'log' AND SUBSTR(e.content, 1, :length) = :beginning
  AND e.id IN (SELECT value FROM json_each(:ids))
"""
_REWRITE = "UPDATE exchanges SET content = :content WHERE workspace = :workspace AND id = :id"


def _named_sessions(content: str) -> set[str]:
    """The sessions that an entry may name, as `broken_by` and `taken_from` write them."""
    after = [part for mark in (broken_by("").removesuffix(": "), taken_from("")) for part in content.split(mark)[1:]]
    return {part.partition(": ")[0].partition("; ")[0] for part in after}


class _Entry(NamedTuple):
    id: int
    session: str
    content: str
    at: str


class ForgottenBreaks:
    """Entries about broken leases that go, and the entries of other sessions that repeat them."""

    def __init__(self, tx: Transaction, workspace: str, ids: Iterable[int]) -> None:
        self._tx = tx
        self._workspace = workspace
        some = tx.array(sorted(ids))
        self._lost = _entries(tx.all(_GOING, workspace=workspace, ids=some, **_beginning(LOST)))
        self._broke = _entries(tx.all(_GOING, workspace=workspace, ids=some, **_beginning(BROKE)))

    def find_copies(self) -> set[int]:
        """Entries of other sessions that repeat a reason that goes."""
        others = self._entries_logged_with(self._broke, LOST)
        return {
            other.id
            for entry in self._broke
            for other in others
            if other.at == entry.at and broken_by(entry.session) in other.content
        }

    def find_messages(self, gone: set[int]) -> list[int]:
        """Messages that say what entries say that go. `gone` includes the copies."""
        tx, workspace = self._tx, self._workspace
        return sorted(tx.column(_SENT, workspace=workspace, ids=tx.array(sorted(gone)), **_beginning(LOST)))

    def rewrite(self, gone: set[int]) -> list[int]:
        """Remove what a session lost from the entry of the session that took it; returns the changed entries."""
        changed = []
        for other in self._entries_logged_with(self._lost, BROKE):
            content = other.content
            for entry in self._lost:
                resources, found, _ = entry.content.removeprefix(LOST).partition(broken_by(other.session))
                if found and entry.at == other.at:
                    named = taken_from(entry.session)
                    content = content.replace(f"{resources}{named}", f"[forgotten]{named}", 1)
            if content != other.content and other.id not in gone:
                self._replace(other.id, content)
                changed.append(other.id)
        return sorted(changed)

    def _entries_logged_with(self, entries: list[_Entry], beginning: str) -> list[_Entry]:
        """Entries with this beginning, logged at the same time as the given ones by the sessions that those name."""
        if not entries:
            return []
        tx = self._tx
        sessions = tx.array(sorted({named for entry in entries for named in _named_sessions(entry.content)}))
        found = _entries(tx.all(_LOGGED_BY, workspace=self._workspace, sessions=sessions, **_beginning(beginning)))
        times = {entry.at for entry in entries}
        return [entry for entry in found if entry.at in times]

    def _replace(self, id: int, content: str) -> None:
        tx, workspace = self._tx, self._workspace
        tx.run(_REWRITE, workspace=workspace, id=id, content=content)
        word_index.remove(tx, workspace, "exchange", [id])
        embedding_queue.withdraw(tx, workspace, "exchange", id)
        embedding_queue.enqueue(tx, workspace, "exchange", id, indexed=False)
        tx.note(workspace, "exchange", id)


def _entries(rows: list[Row]) -> list[_Entry]:
    return [_Entry(*row) for row in rows]


def _beginning(text: str) -> dict[str, object]:
    return {"length": len(text), "beginning": text}
