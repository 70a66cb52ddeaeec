"""What a dry run would forget, in words: for the person who decides. It is read and returned, and never stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..safe_text import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..storage.engine import Transaction

#: At most so many of each kind, and so much of each text.
MOST, LONGEST = 10, 80

_EXCHANGES = """
SELECT id, role, content FROM exchanges
WHERE workspace = :workspace AND id IN (SELECT value FROM json_each(:ids)) ORDER BY id
"""
_MEMORIES = """
SELECT id, kind, content FROM memories
WHERE workspace = :workspace AND id IN (SELECT value FROM json_each(:ids)) ORDER BY id
"""
_BLOCKS = """
SELECT id, name, content FROM blocks
WHERE workspace = :workspace AND id IN (SELECT value FROM json_each(:ids)) ORDER BY name
"""
_SESSIONS = """
SELECT id, type, COALESCE(summary, '') FROM sessions
WHERE workspace = :workspace AND id IN (SELECT value FROM json_each(:ids)) ORDER BY id
"""
_MESSAGES = """
SELECT id, 'to ' || target, content FROM messages
WHERE workspace = :workspace AND id IN (SELECT value FROM json_each(:ids)) ORDER BY id
"""
#: By the names that receipts use.
_SQL = {
    "exchanges": _EXCHANGES,
    "memories": _MEMORIES,
    "blocks": _BLOCKS,
    "sessions": _SESSIONS,
    "messages": _MESSAGES,
    "memories to rebuild": _MEMORIES,
    "blocks to rebuild": _BLOCKS,
    "summaries": _SESSIONS,
    "log entries shortened": _EXCHANGES,
}


def lines(tx: Transaction, workspace: str, ids: dict[str, list[int | str]]) -> dict[str, list[str]]:
    """A line for each of the first things of every kind: its id, what it is, and its first words."""
    return {name: _lines(tx, workspace, name, found[:MOST]) for name, found in ids.items()}


def _lines(tx: Transaction, workspace: str, name: str, ids: Sequence[int | str]) -> list[str]:
    chosen = tx.array([int(id) for id in ids]) if isinstance(ids[0], int) else tx.array(list(map(str, ids)))
    rows = tx.all(_SQL[name], workspace=workspace, ids=chosen)
    return [f"{id}  {one_line(f'{what}: {text}', LONGEST)}" for id, what, text in rows]
