"""The statements that write the rows of memories and their versions.

They run under the lock of the writers of memories. `updated_at` never goes back: what happened in the past, or by a
clock that was set back, is no later change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..storage.engine import Transaction

_INSERT = """
INSERT INTO memories (workspace, kind, key, content, hash, version, importance, pinned, trust, status, session_id,
                      project, data, reinforced, recalled, expires_at, created_at, updated_at, approved, author)
VALUES (:workspace, :kind, :key, :content, :hash, 1, :importance, :pinned, :trust, 'active', :session_id,
        :project, :data, 0, 0, :expires_at, :now, :now, :approved, :author)
RETURNING id
"""
_UPDATED = """ updated_at = CASE WHEN updated_at > :now THEN updated_at ELSE :now END """
_REINFORCE = (
    """
UPDATE memories
SET reinforced = reinforced + 1, expires_at = :expires_at,
    importance = CASE WHEN importance < :importance THEN :importance ELSE importance END,
    pinned = COALESCE(CAST(:pinned AS INTEGER), pinned),
    approved = CASE WHEN :by_person = 1 THEN version ELSE approved END,
    trust = CASE WHEN :by_person = 1 THEN 'user' ELSE trust END,
    session_id = CASE WHEN :by_person = 1 THEN CAST(:session AS TEXT) ELSE session_id END,"""
    + _UPDATED
    + "WHERE workspace = :workspace AND id = :id"
)
_RETIRE = (
    "UPDATE memories SET status = :status, superseded_by = :by,"
    + _UPDATED
    + "WHERE workspace = :workspace AND id = :id"
)
_REVIVE = (
    "UPDATE memories SET status = 'active', superseded_by = NULL,"
    + _UPDATED
    + "WHERE workspace = :workspace AND id = :id"
)
_EDIT = (
    """
UPDATE memories
SET content = :content, hash = :hash, version = :version, trust = :trust,
    data = COALESCE(CAST(:data AS TEXT), data), importance = :importance,
    pinned = :pinned, expires_at = :expires_at,
    approved = CASE WHEN :decided = 1 THEN CAST(:approved AS INTEGER) ELSE approved END,"""
    + _UPDATED
    + "WHERE workspace = :workspace AND id = :id"
)
# Not `updated_at`: an approval changes nothing that was derived from the memory.
_APPROVE = "UPDATE memories SET approved = :approved WHERE workspace = :workspace AND id = :id"
# Nor here: when a memory ends is no part of what it says.
_EXPIRE = "UPDATE memories SET expires_at = :expires_at WHERE workspace = :workspace AND id = :id"
_ADD_VERSION = """
INSERT INTO memory_versions (memory_id, version, content, reason, actor, created_at, author)
VALUES (:id, :version, :content, :reason, :actor, :now, :author)
"""


def insert(tx: Transaction, workspace: str, now: str, **values: object) -> int:
    """A new memory; its id. `add_version` adds its first version."""
    id: int = tx.value(_INSERT, workspace=workspace, now=now, **values)
    return id


def reinforce(tx: Transaction, workspace: str, id: int, now: str, **values: object) -> None:
    """The same text was stored again."""
    tx.run(_REINFORCE, workspace=workspace, id=id, now=now, **values)


def retire(tx: Transaction, workspace: str, id: int, now: str, status: str, by: int | None = None) -> None:
    """Set a status other than active, and the memory that takes its place."""
    tx.run(_RETIRE, workspace=workspace, id=id, now=now, status=status, by=by)


def revive(tx: Transaction, workspace: str, id: int, now: str) -> None:
    """Make a memory active again."""
    tx.run(_REVIVE, workspace=workspace, id=id, now=now)


def edit(tx: Transaction, workspace: str, id: int, now: str, **values: object) -> None:
    """Write all fields that an edit may change."""
    tx.run(_EDIT, workspace=workspace, id=id, now=now, **values)


def approve(tx: Transaction, workspace: str, id: int, version: int | None) -> None:
    """Set the version that a person has approved."""
    tx.run(_APPROVE, workspace=workspace, id=id, approved=version)


def expire(tx: Transaction, workspace: str, id: int, at: str | None) -> None:
    """Set when a memory expires; None for never."""
    tx.run(_EXPIRE, workspace=workspace, id=id, expires_at=at)


def add_version(
    tx: Transaction,
    id: int,
    version: int,
    content: str,
    now: str,
    *,
    reason: str = "",
    actor: str | None = None,
    author: str | None = None,
) -> None:
    written = {"content": content, "reason": reason, "actor": actor, "author": author}
    tx.later(_ADD_VERSION, id=id, version=version, now=now, **written)
