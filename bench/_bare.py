"""The calls of `postgres.py` without Engram: the statements that write the same rows, and nothing else.

This is what a good engineer writes first: psycopg 3, one connection per process, one transaction per call, one
statement after the other. psycopg prepares them on the server by itself, and sends the rows of `executemany` together.
There are no checks, and no locks except those of the rows. The words of a text are cut beforehand.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from engram.memory.fingerprints import fingerprint
from engram.memory.word_index import Piece, pack

if TYPE_CHECKING:
    import psycopg

KIND, TAG, PROJECT = "decision", "router", "acme/router"

_LOGGED = """
UPDATE sessions SET last_seq = last_seq + 1, heartbeat_at = %s WHERE workspace = %s AND id = %s RETURNING last_seq
"""
_SPOKEN = """
UPDATE sessions SET last_seq = last_seq + 1, turns = turns + 1, heartbeat_at = %s
WHERE workspace = %s AND id = %s RETURNING last_seq, turns
"""
_EXCHANGE = """
INSERT INTO exchanges (workspace, session_id, seq, turn, role, content, trust, created_at)
VALUES (%s, %s, %s, %s, %s, %s, 'agent', %s) RETURNING id
"""
_BACKLOG = """
INSERT INTO backlog (workspace, kind, ref, taken_until, indexed, words_due) VALUES (%s, %s, %s, %s, %s, 0)
"""
_CHANGE = "INSERT INTO changes (workspace, what, id) VALUES (%s, %s, %s)"
_MEMORY = """
INSERT INTO memories (workspace, kind, content, hash, version, importance, pinned, trust, status, project, reinforced,
                      recalled, created_at, updated_at)
VALUES (%s, %s, %s, %s, 1, 0.5, 0, 'agent', 'active', %s, 0, 0, %s, %s) RETURNING id
"""
_VERSION = "INSERT INTO memory_versions (memory_id, version, content, reason, created_at) VALUES (%s, 1, %s, '', %s)"
_TAG = "INSERT INTO memory_tags (workspace, tag, memory_id) VALUES (%s, %s, %s)"
#: The columns of the key are those of the store's schema: later ones divide a shelf into several rows.
_SHELF = """
INSERT INTO shelves (workspace, shelf, items, length, generation{more}) VALUES (%s, %s, %s, %s, 0{values})
ON CONFLICT ({key}) DO UPDATE SET items = shelves.items + excluded.items, length = shelves.length + excluded.length
"""
_KEY = """
SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)
WHERE i.indrelid = 'shelves'::regclass AND i.indisprimary
"""
_TERMS = "SELECT term, id FROM terms WHERE workspace = %s AND shelf = %s AND term = ANY(%s)"
_NEW_TERMS = """
INSERT INTO terms (workspace, shelf, term) SELECT %s, %s, unnest(%s::text[]) ON CONFLICT DO NOTHING RETURNING term, id
"""
_ITEM = """
INSERT INTO items (workspace, shelf, kind, ref, piece, label, session_id, project, turn, at, length, terms)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) RETURNING id
"""
_POSTING = "INSERT INTO postings (term, item, tf, length) VALUES (%s, %s, %s, %s)"

#: As Engram writes them: an entry of the queue that nobody has taken, and the trust of the text's role.
FREE = "0000"


class Text(NamedTuple):
    content: str
    pieces: list[Piece]


class Bare:
    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]], number: int) -> None:
        self._connection = connection
        more = [name for (name,) in connection.execute(_KEY) if name not in ("workspace", "shelf")]
        self._shelf = _SHELF.format(
            more="".join(f", {name}" for name in more),
            values=f", {number % 16}" * len(more),
            key=", ".join(["workspace", "shelf", *more]),
        ).encode()

    def log(self, workspace: str, session: str, text: Text) -> None:
        now = _now()
        with self._connection.transaction():
            ((seq,),) = self._rows(_LOGGED, now, workspace, session)
            ((id,),) = self._rows(_EXCHANGE, workspace, session, seq, None, "log", text.content, now)
            self._run(_BACKLOG, workspace, "exchange", id, FREE, 0)
            self._run(_CHANGE, workspace, "exchange", str(id))

    def add(self, workspace: str, session: str, text: Text) -> None:
        now = _now()
        with self._connection.transaction():
            ((seq, turn),) = self._rows(_SPOKEN, now, workspace, session)
            ((id,),) = self._rows(_EXCHANGE, workspace, session, seq, turn, "assistant", text.content, now)
            self._index(workspace, "turns", "exchange", id, "assistant", session, turn, now, text.pieces)
            self._run(_CHANGE, workspace, "exchange", str(id))

    def remember(self, workspace: str, session: str, text: Text) -> None:
        now = _now()
        hash = fingerprint(text.content)
        with self._connection.transaction():
            ((id,),) = self._rows(_MEMORY, workspace, KIND, text.content, hash, PROJECT, now, now)
            self._run(_VERSION, id, text.content, now)
            self._run(_TAG, workspace, TAG, id)
            self._index(workspace, "memories", "memory", id, KIND, None, None, now, text.pieces)
            self._run(_CHANGE, workspace, "memory", str(id))

    def close(self) -> None:
        self._connection.close()

    def _index(
        self,
        workspace: str,
        shelf: str,
        kind: str,
        ref: int,
        label: str,
        session: str | None,
        turn: int | None,
        now: str,
        pieces: list[Piece],
    ) -> None:
        """Write the words of a text, and its entry in the embedding queue."""
        lengths = [piece.counts.total() for piece in pieces]
        self._connection.execute(self._shelf, (workspace, shelf, len(pieces), sum(lengths)))
        wanted = sorted({term for piece in pieces for term in piece.counts})
        numbers = dict(self._rows(_TERMS, workspace, shelf, wanted))
        if missing := [term for term in wanted if term not in numbers]:
            numbers |= dict(self._rows(_NEW_TERMS, workspace, shelf, missing))
        if missing := [term for term in wanted if term not in numbers]:
            # Another process was faster.
            numbers |= dict(self._rows(_TERMS, workspace, shelf, missing))
        postings = []
        for place, (piece, length) in enumerate(zip(pieces, lengths, strict=True)):
            terms = pack(numbers[term] for term in piece.counts)
            of_text = (workspace, shelf, kind, ref, place, label, session, PROJECT, turn, now)
            ((item,),) = self._rows(_ITEM, *of_text, length, terms)
            postings += [(numbers[term], item, tf, length) for term, tf in piece.counts.items()]
        with self._connection.cursor() as cursor:
            cursor.executemany(_POSTING.encode(), sorted(postings))
        self._run(_BACKLOG, workspace, kind, ref, FREE, 1)

    def _rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql.encode(), values).fetchall()

    def _run(self, sql: str, *values: object) -> None:
        self._connection.execute(sql.encode(), values)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")[:-6] + "Z"
