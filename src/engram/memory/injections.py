"""The things that a session was given: by its brief, or with a prompt. They are not given again.

A compaction removes them from the model's context, so the session's record is cleared then. The rows hold only ids.
They are deleted with their session. The gate is imported where it is needed: only a prompt needs the analyser.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import SessionNotFound
from . import provenance

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..records import Hit
    from ..storage.engine import Transaction
    from ..store_view import StoreView
    from .provenance import Thing

_RECORD = """
INSERT INTO injections (workspace, session_id, kind, ref, at) VALUES (:workspace, :session, :kind, :ref, :now)
ON CONFLICT (workspace, session_id, kind, ref) DO NOTHING
"""
_ALREADY = "SELECT kind, ref FROM injections WHERE workspace = :workspace AND session_id = :session"
_CLEAR = "DELETE FROM injections WHERE workspace = :workspace AND session_id = :session"
# The same text may have been said in two sessions.
_GIVEN_TEXTS = """
SELECT SUBSTR(COALESCE(e.content, m.content), 1, 4000) FROM injections i
LEFT JOIN exchanges e ON i.kind = 'exchange' AND e.id = i.ref AND e.workspace = i.workspace
LEFT JOIN memories m ON i.kind = 'memory' AND m.id = i.ref AND m.workspace = i.workspace
WHERE i.workspace = :workspace AND i.session_id = :session AND (e.id IS NOT NULL OR m.id IS NOT NULL)
ORDER BY i.at DESC, i.kind, i.ref LIMIT 40
"""
# The session must not be forgotten while its rows are written.
_LOCK_SESSION = "UPDATE sessions SET last_seq = last_seq WHERE workspace = :workspace AND id = :session"


def record(tx: Transaction, workspace: str, session_id: str, things: Iterable[Thing]) -> None:
    """Record that the session was given these exchanges and memories."""
    things = sorted(set(things))
    if not things:
        return
    if not tx.run(_LOCK_SESSION, workspace=workspace, session=session_id):
        raise SessionNotFound(f"There is no session {session_id!r} in workspace {workspace!r}.")
    now = tx.now()
    for kind, ref in things:
        tx.run(_RECORD, workspace=workspace, session=session_id, kind=kind, ref=ref, now=now)


def already(tx: Transaction, workspace: str, session_id: str) -> set[Thing]:
    """The exchanges and memories that the session was given since its last compaction."""
    return {(kind, ref) for kind, ref in tx.all(_ALREADY, workspace=workspace, session=session_id)}


def clear(tx: Transaction, workspace: str, session_id: str) -> None:
    """Forget what the session was given: its model no longer has it."""
    tx.run(_CLEAR, workspace=workspace, session=session_id)


class Injections:
    """What a session was given, and what is worth giving to it with a prompt."""

    def __init__(self, view: StoreView) -> None:
        self._engine = view.engine
        self._workspace = view.workspace

    def record(self, session_id: str, things: Iterable[Thing]) -> None:
        """Record that the session was given these exchanges and memories."""
        things = list(things)
        if things:
            with self._engine.write() as tx:
                record(tx, self._workspace, session_id, things)

    def already(self, session_id: str) -> set[Thing]:
        """The exchanges and memories that the session was given since its last compaction."""
        with self._engine.read() as tx:
            return already(tx, self._workspace, session_id)

    def clear(self, session_id: str) -> None:
        """Forget what the session was given: its model no longer has it."""
        with self._engine.write() as tx:
            clear(tx, self._workspace, session_id)

    def query(self, said: str) -> str:
        """What to look for beside a prompt; empty if it names nothing."""
        from . import prompt_gate

        return prompt_gate.query(said)

    def worthy(self, session_id: str, hits: Sequence[Hit], said: str, by_meaning: bool) -> Iterator[Hit]:
        """The hits that help with a prompt and that the session was not given yet, the best first."""
        from . import prompt_gate

        if not hits:
            return iter(())
        with self._engine.read() as tx:
            given = already(tx, self._workspace, session_id)
            before = tx.column(_GIVEN_TEXTS, workspace=self._workspace, session=session_id)
        return prompt_gate.worthy(hits, said, by_meaning, given, before)

    def told(self, hit: Hit) -> tuple[str, str, tuple[Thing, ...]]:
        """What a line about the hit says, its trust, and the turns or memories that it shows."""
        from . import prompt_gate

        trust = hit.trust
        if hit.answer is not None:
            with self._engine.read() as tx:
                answers = [("exchange", id) for id in hit.answer.exchange_ids]
                trust = provenance.trust(tx, self._workspace, answers)
        return prompt_gate.content(hit), trust, tuple(sorted(prompt_gate.things(hit)))
