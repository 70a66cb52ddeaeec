"""Describes what a dry run would forget, for the person who decides. The text is never stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..safe_text import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..storage.engine import Row, Transaction

#: The most lines of each kind, and the most characters of each line.
MOST, LONGEST = 10, 80
#: The exchanges among which those are chosen.
_LOOKED_AT = 10_000

# The casts keep SQLite from reading the whole workspace through an index.
# The turns first: a person knows a conversation by them, and not by the steps between them.
_EXCHANGES = """
SELECT id, role, content FROM exchanges
WHERE workspace = :workspace AND id IN (SELECT value FROM json_each(:ids))
ORDER BY CASE WHEN role = 'log' THEN 1 ELSE 0 END, id LIMIT :most
"""
_MEMORIES = """
SELECT id, kind, content FROM memories
WHERE id IN (SELECT value FROM json_each(:ids)) AND CAST(workspace AS TEXT) = :workspace
"""
_BLOCKS = """
SELECT id, name, content FROM blocks
WHERE id IN (SELECT value FROM json_each(:ids)) AND CAST(workspace AS TEXT) = :workspace
"""
_SESSIONS = """
SELECT id, type, COALESCE(summary, '') FROM sessions
WHERE workspace = :workspace AND id IN (SELECT value FROM json_each(:ids))
"""
_OUTCOMES = """
SELECT id, type, outcome FROM sessions
WHERE workspace = :workspace AND id IN (SELECT value FROM json_each(:ids))
"""
_MESSAGES = """
SELECT id, 'to ' || target, content FROM messages
WHERE id IN (SELECT value FROM json_each(:ids)) AND CAST(workspace AS TEXT) = :workspace
"""


def lines(tx: Transaction, workspace: str, ids: dict[str, list[int | str]]) -> dict[str, list[str]]:
    """A line for each of the first things of every kind: its id, what it is, and its first words."""
    return {
        name: [
            f"{id}  {one_line(f'{what}: {text}', LONGEST)}"
            for id, what, text in sorted(_rows(tx, workspace, name, found))
        ]
        for name, found in ids.items()
    }


def _rows(tx: Transaction, workspace: str, name: str, found: Sequence[int | str]) -> list[Row]:
    """Id, kind and text of the first things under one of the names that receipts use."""
    if name in ("sessions", "summaries"):
        return tx.all(_SESSIONS, workspace=workspace, ids=tx.array(list(map(str, found[:MOST]))))
    if name == "outcomes":
        return tx.all(_OUTCOMES, workspace=workspace, ids=tx.array(list(map(str, found[:MOST]))))
    if name in ("exchanges", "log entries shortened"):
        some = tx.array(list(map(int, found[:_LOOKED_AT])))
        return tx.all(_EXCHANGES, workspace=workspace, ids=some, most=MOST)
    ids = tx.array(list(map(int, found[:MOST])))
    if name in ("memories", "memories to rebuild"):
        return tx.all(_MEMORIES, workspace=workspace, ids=ids)
    if name in ("blocks", "blocks to rebuild"):
        return tx.all(_BLOCKS, workspace=workspace, ids=ids)
    assert name == "messages", f"receipts have no {name}"
    return tx.all(_MESSAGES, workspace=workspace, ids=ids)
