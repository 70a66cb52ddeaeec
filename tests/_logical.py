"""Dumps a workspace without the store's own numbers of items and terms, to compare states before and after an undo.

The dump leaves out what an undo does not restore: reports, drives, usage, leases, receipts and recall counts.
"""

from __future__ import annotations

from typing import Any, LiteralString

from engram import Engram

Dump = dict[str, list[tuple[Any, ...]]]

_QUERIES: dict[str, LiteralString] = {
    "exchanges": "SELECT * FROM exchanges WHERE workspace = :workspace",
    "sessions": """
        SELECT id, type, gist_seq, gist_turns, turns FROM sessions WHERE workspace = :workspace AND type <> 'dream'""",
    "memories": """
        SELECT id, kind, key, content, hash, version, importance, pinned, trust, status, superseded_by, session_id,
               project, data, reinforced, expires_at, created_at, updated_at, approved, author
        FROM memories WHERE workspace = :workspace""",
    "memory_versions": """
        SELECT v.* FROM memory_versions v JOIN memories m ON m.id = v.memory_id WHERE m.workspace = :workspace""",
    "memory_tags": "SELECT memory_id, tag FROM memory_tags WHERE workspace = :workspace",
    "memory_links": "SELECT * FROM memory_links WHERE workspace = :workspace",
    "sources": "SELECT * FROM sources WHERE workspace = :workspace",
    "rebuilds": "SELECT * FROM rebuilds WHERE workspace = :workspace",
    "blocks": "SELECT * FROM blocks WHERE workspace = :workspace",
    "block_versions": """
        SELECT v.* FROM block_versions v JOIN blocks b ON b.id = v.block_id WHERE b.workspace = :workspace""",
    "gists": "SELECT * FROM gists WHERE workspace = :workspace",
    "folds": "SELECT * FROM folds WHERE workspace = :workspace",
    # On PostgreSQL the counts of a shelf are spread over several rows.
    "shelves": """
        SELECT RTRIM(shelf, '/0123456789'), CAST(SUM(items) AS BIGINT), CAST(SUM(length) AS BIGINT) FROM shelves
        WHERE workspace = :workspace GROUP BY 1 HAVING SUM(items) > 0""",
    "terms": "SELECT shelf, term FROM terms WHERE workspace = :workspace",
    "items": """
        SELECT kind, ref, piece, shelf, label, session_id, project, turn, at, length, author FROM items
        WHERE workspace = :workspace""",
    "postings": """
        SELECT i.kind, i.ref, i.piece, t.shelf, t.term, p.tf, p.length
        FROM items i JOIN postings p ON p.item = i.id JOIN terms t ON t.id = p.term WHERE i.workspace = :workspace""",
    "vectors": """
        SELECT i.kind, i.ref, i.piece, v.model, v.vector FROM items i JOIN vectors v ON v.item = i.id
        WHERE i.workspace = :workspace""",
    "backlog": "SELECT kind, ref FROM backlog WHERE workspace = :workspace",
}


def logical(eng: Engram) -> Dump:
    """The rows of eng's workspace by table, sorted."""
    scope = eng._view
    found: Dump = {}
    with scope.engine.read() as tx:
        for table, sql in _QUERIES.items():
            rows = tx.all(sql, workspace=scope.workspace)
            found[table] = sorted((tuple(map(_plain, row)) for row in rows), key=repr)
    return found


def _plain(value: object) -> object:
    return bytes(value) if isinstance(value, memoryview) else value
