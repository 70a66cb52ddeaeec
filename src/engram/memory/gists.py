"""Gists: what a session was about, up to a known turn. One current gist a session, a memory of kind `gist`.

A session's row says how far it is summarised, so what is still to do is found without looking at what is done. A new
gist is a new version of the session's memory, and waits to be folded into the month's era and into the portrait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .. import checks
from ..errors import InvalidInput, SessionNotFound
from ..records import Exchange, Gist

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..records import Memory
    from ..storage.engine import Transaction
    from ..store_view import StoreView, Watch
    from .memories import Memories, Prepared

KIND = "gist"
#: What each new gist waits for.
TARGETS = ("era", "profile", "narrative", "extract")

_SESSION = """
SELECT gist_seq, gist_turns, last_seq, turns FROM sessions WHERE workspace = :workspace AND id = :session
"""
_LOCK_SESSION = "UPDATE sessions SET gist_seq = gist_seq WHERE workspace = :workspace AND id = :session"
_CURRENT = """
SELECT id FROM memories WHERE workspace = :workspace AND kind = 'gist' AND key = :session AND status = 'active'
"""
_UNSUMMARISED = """
SELECT id, session_id, seq, role, content, trust, created_at FROM exchanges
WHERE workspace = :workspace AND session_id = :session AND role <> 'log' AND seq > :after ORDER BY seq LIMIT :limit
"""
# An expression, because SQLite would look for the least of a plain column along the index of times, through everything
# that was ever said before this session.
_FIRST_TIME = """
SELECT MIN(created_at || '') FROM exchanges WHERE workspace = :workspace AND session_id = :session AND role <> 'log'
"""
_TURN_AT = """
SELECT MAX(turn) FROM exchanges
WHERE workspace = :workspace AND session_id = :session AND role <> 'log' AND seq <= :seq
"""
_COVER = """
UPDATE sessions SET gist_seq = :seq, gist_turns = :turns WHERE workspace = :workspace AND id = :session
"""
_NOTE_GIST = """
INSERT INTO gists (memory_id, workspace, session_id, at, month) VALUES (:memory, :workspace, :session, :at, :month)
ON CONFLICT (workspace, session_id) DO UPDATE SET memory_id = :memory, at = :at, month = :month
"""
_FOLD = """
INSERT INTO folds (workspace, target, gist, after) VALUES (:workspace, :target, :gist, :after)
ON CONFLICT (workspace, target, gist) DO NOTHING
"""
_SESSION_OF = "SELECT session_id FROM gists WHERE workspace = :workspace AND memory_id = :gist"
_FOLDED = "DELETE FROM folds WHERE workspace = :workspace AND target = :target AND gist = :gist"
_UNFOLD = "DELETE FROM folds WHERE workspace = :workspace AND gist = :gist"
_DELETE_GIST = "DELETE FROM gists WHERE workspace = :workspace AND memory_id = :gist"
_UNCOVER = """
UPDATE sessions SET gist_seq = 0, gist_turns = 0
WHERE workspace = :workspace AND id = (SELECT session_id FROM gists WHERE memory_id = :gist)
"""
_OF_MONTH = """
SELECT g.session_id, g.memory_id, g.at, m.content, m.trust FROM gists g JOIN memories m ON m.id = g.memory_id
WHERE g.workspace = :workspace AND g.month = :month AND m.status = 'active' AND m.content <> ''
ORDER BY g.at, g.memory_id
"""
_MONTHS = "SELECT DISTINCT month FROM gists WHERE workspace = :workspace ORDER BY month"


class Covered(NamedTuple):
    """How far a session is summarised, and how far it goes."""

    seq: int
    turns: int
    last_seq: int
    all_turns: int


class Gists:
    def __init__(self, view: StoreView, memories: Memories, watch: Watch | None = None) -> None:
        self._engine = view.engine
        self._workspace = view.workspace
        self._memories = memories
        self._watch = watch

    def current(self, session_id: str) -> Memory | None:
        """The session's gist, if it has one."""
        with self._engine.read() as tx:
            self.covered(tx, session_id)
            row = tx.one(_CURRENT, workspace=self._workspace, session=session_id)
            return self._memories.get(row[0]) if row else None

    def unsummarised(self, session_id: str, *, after: int | None = None, limit: int = 0) -> list[Exchange]:
        """The turns that the gist does not cover, oldest first; from `after` (a seq) on, when it is given."""
        checks.whole(limit, "limit", least=0)
        with self._engine.read() as tx:
            start = self.covered(tx, session_id).seq if after is None else checks.whole(after, "after", least=0)
            of_it = {"workspace": self._workspace, "session": session_id, "after": start}
            return [Exchange(*row) for row in tx.all(_UNSUMMARISED, limit=limit or checks.MAX_WHOLE, **of_it)]

    def store(
        self, session_id: str, text: str, seq: int, *, sources: Sequence[int] = (), prepared: Prepared | None = None
    ) -> Memory:
        """Keep a new gist that covers the session up to `seq`; `sources` are the exchanges that are new in it."""
        checks.whole(seq, "seq", least=0)
        if prepared is None:
            prepared = self._memories.prepare(text)
        with self._engine.write() as tx:
            # First the session's row, then the memories: everybody takes them in this order.
            tx.run(_LOCK_SESSION, workspace=self._workspace, session=session_id)
            self._memories.lock(tx)
            covered = self.covered(tx, session_id)
            self._changing(tx, session_id)
            if seq > covered.last_seq:
                raise InvalidInput(f"Session {session_id!r} ends at seq {covered.last_seq}; no gist covers {seq}.")
            (first,) = tx.all(_FIRST_TIME, workspace=self._workspace, session=session_id)[0]
            if first is None:
                raise InvalidInput(f"Session {session_id!r} has no turns to make a gist of.")
            memory = self._write(tx, session_id, text, prepared, sources)
            (turns,) = tx.all(_TURN_AT, workspace=self._workspace, session=session_id, seq=seq)[0]
            tx.run(_COVER, workspace=self._workspace, session=session_id, seq=seq, turns=turns or 0)
            noted = {"workspace": self._workspace, "memory": memory.id, "session": session_id}
            tx.run(_NOTE_GIST, at=first, month=first[:7], **noted)
            for target in TARGETS:
                tx.run(_FOLD, workspace=self._workspace, target=target, gist=memory.id, after=covered.seq)
            self._memories.rebuilt(tx, memory.id)
            return memory

    def folded(self, tx: Transaction, target: str, gist: int) -> None:
        """What is new in the gist has gone into the era, the profile or the narrative."""
        for (session,) in tx.all(_SESSION_OF, workspace=self._workspace, gist=gist):
            self._changing(tx, session)
            tx.run(_FOLDED, workspace=self._workspace, target=target, gist=gist)

    def unfolded(self, tx: Transaction, target: str, gist: int) -> None:
        """The gist is still to go into the era or the narrative, which is being made anew from all of them."""
        for (session,) in tx.all(_SESSION_OF, workspace=self._workspace, gist=gist):
            self._changing(tx, session)
            tx.run(_FOLD, workspace=self._workspace, target=target, gist=gist, after=0)

    def by_month(self, month: str | None = None) -> dict[str, list[Gist]]:
        """Current gists by the month of their session's earliest turn, UTC; of one month when it is given."""
        with self._engine.read() as tx:
            months = [month] if month else [row[0] for row in tx.all(_MONTHS, workspace=self._workspace)]
            return {
                each: [Gist(*row) for row in tx.all(_OF_MONTH, workspace=self._workspace, month=each)]
                for each in months
            }

    def _changing(self, tx: Transaction, session_id: str) -> None:
        """Called before every change of how far a session is summarised and folded in."""
        if self._watch:
            self._watch(tx, "session", session_id)

    def covered(self, tx: Transaction, session_id: str) -> Covered:
        row = tx.one(_SESSION, workspace=self._workspace, session=checks.name(session_id, "session id"))
        if row is None:
            raise SessionNotFound(f"There is no session {session_id!r} in workspace {self._workspace!r}.")
        return Covered(*row)

    def _write(
        self,
        tx: Transaction,
        session_id: str,
        text: str,
        prepared: Prepared,
        sources: Sequence[int],
    ) -> Memory:
        """A new version of the session's gist, or its first."""
        row = tx.one(_CURRENT, workspace=self._workspace, session=session_id)
        named = [("exchange", source) for source in sources]
        if row is not None:
            return self._memories.update(row[0], text, reason="more was said", sources=named, prepared=prepared)
        return self._memories.remember(
            text, kind=KIND, key=session_id, session_id=session_id, sources=named, prepared=prepared
        )


def erase(tx: Transaction, workspace: str, memory_ids: Sequence[int]) -> None:
    """What is known about gists that go."""
    for id in memory_ids:
        tx.run(_UNFOLD, workspace=workspace, gist=id)
        tx.run(_DELETE_GIST, workspace=workspace, gist=id)


def uncover(tx: Transaction, workspace: str, memory_id: int) -> None:
    """Its text was lost: the session counts as never summarised, and is summarised anew from what is left."""
    tx.run(_UNCOVER, workspace=workspace, gist=memory_id)
