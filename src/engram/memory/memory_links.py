"""Links between two memories, each with a relation."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..storage.engine import Transaction

_LINK = """
INSERT INTO memory_links (workspace, from_id, to_id, relation, created_at)
VALUES (:workspace, :from_id, :to_id, :relation, :now) ON CONFLICT (from_id, to_id, relation) DO NOTHING
"""
_LINKS = """
SELECT from_id, to_id, relation FROM memory_links
WHERE workspace = :workspace AND (from_id = :id OR to_id = :id) AND created_at <= :at ORDER BY from_id, to_id, relation
"""

#: Later than any time.
_EVER = "9"


def add(tx: Transaction, workspace: str, from_id: int, to_id: int, relation: str, now: str) -> None:
    tx.run(_LINK, workspace=workspace, from_id=from_id, to_id=to_id, relation=relation, now=now)


def of(tx: Transaction, workspace: str, id: int, at: str | None = None) -> list[tuple[int, int, str]]:
    """From, to and relation of every link of a memory, or of those that it had at a time."""
    links = tx.all(_LINKS, workspace=workspace, id=id, at=_EVER if at is None else at)
    return [(from_id, to_id, relation) for from_id, to_id, relation in links]
