"""Gists: what a session was about, up to a known turn. Each session has one current gist, a memory of kind `gist`.

A session's row records how far it is summarised, so pending work is found without reading what is done. A new gist is a
new version of the session's memory. It waits to be folded into the month's era and the portrait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .. import checks
from ..errors import InvalidInput, SessionNotFound
from ..records import Exchange, Gist
from . import memory_index, word_index

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..records import Memory
    from ..storage.engine import Transaction
    from ..store_view import StoreView, Watch
    from .memories import Memories, Prepared
    from .provenance import Thing

KIND = "gist"
#: What each new gist will be folded into.
TARGETS = ("era", "narrative")
#: Not a target: the turns under a gist that no pass has read for statements yet. The summary of a compaction leaves
#: them, and so do earlier releases.
UNREAD = "extract"

_SESSION = "SELECT gist_seq, last_seq FROM sessions WHERE workspace = :workspace AND id = :session"
_LOCK_SESSION = "UPDATE sessions SET gist_seq = gist_seq WHERE workspace = :workspace AND id = :session"
_CURRENT = """
SELECT id FROM memories WHERE workspace = :workspace AND kind = 'gist' AND key = :session AND status = 'active'
"""
_UNSUMMARISED = """
SELECT id, session_id, seq, role, content, trust, created_at, external_id, author FROM exchanges
WHERE workspace = :workspace AND session_id = :session AND role <> 'log' AND seq > :after ORDER BY seq LIMIT :limit
"""
_LAST_TURN = """
SELECT id FROM exchanges
WHERE workspace = :workspace AND session_id = :session AND role <> 'log' AND seq <= :seq ORDER BY seq DESC LIMIT 1
"""
# An expression, because for a plain column SQLite would walk the index on times through everything said before.
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
_UNREAD = """
SELECT g.session_id, f.after FROM folds f JOIN gists g ON g.memory_id = f.gist
WHERE f.workspace = :workspace AND f.target = 'extract'
  AND (CAST(:session AS TEXT) IS NULL OR g.session_id = :session)
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
SELECT g.session_id, g.memory_id, g.at, m.content, m.trust, m.project FROM gists g JOIN memories m ON m.id = g.memory_id
WHERE g.workspace = :workspace AND g.month = :month AND m.status = 'active' AND m.content <> ''
ORDER BY g.at, g.memory_id
"""
_OF_SESSIONS = """
SELECT g.session_id, g.memory_id, g.at, m.content, m.trust, m.project FROM gists g JOIN memories m ON m.id = g.memory_id
WHERE g.workspace = :workspace AND g.session_id IN (SELECT value FROM json_each(:sessions)) AND m.status = 'active'
  AND m.content <> ''
"""
_MONTHS = "SELECT DISTINCT month FROM gists WHERE workspace = :workspace ORDER BY month"


class Covered(NamedTuple):
    """How far a session is summarised, and how far it goes."""

    seq: int
    last_seq: int


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
            id = tx.value(_CURRENT, workspace=self._workspace, session=session_id)
            return None if id is None else self._memories.get(id)

    def of(self, session_ids: Iterable[str]) -> dict[str, Gist]:
        """The gists of several sessions, by session. One that has none is left out."""
        with self._engine.read() as tx:
            rows = tx.all(_OF_SESSIONS, workspace=self._workspace, sessions=tx.array(session_ids))
        return {row[0]: Gist(*row) for row in rows}

    def unsummarised(self, session_id: str, *, after: int | None = None, limit: int = 0) -> list[Exchange]:
        """The turns that the gist does not cover, oldest first. With `after` (a seq), all turns after that."""
        checks.whole(limit, "limit", least=0)
        with self._engine.read() as tx:
            start = self.covered(tx, session_id).seq if after is None else checks.whole(after, "after", least=0)
            of_it = {"workspace": self._workspace, "session": session_id, "after": start}
            return [Exchange(*row) for row in tx.all(_UNSUMMARISED, limit=limit or checks.MAX_WHOLE, **of_it)]

    def last_turn(self, session_id: str) -> int | None:
        """The id of the last turn that the gist covers; None when it covers none."""
        with self._engine.read() as tx:
            seq = self.covered(tx, session_id).seq
            id: int | None = tx.value(_LAST_TURN, workspace=self._workspace, session=session_id, seq=seq)
        return id

    def store(
        self,
        session_id: str,
        text: str,
        seq: int,
        *,
        sources: Sequence[int] = (),
        memories: Sequence[int] = (),
        words: Sequence[str] | None = None,
        read: bool = False,
        prepared: Prepared | None = None,
        at: str | None = None,
    ) -> Memory:
        """Store a new gist that covers the session up to `seq`. `sources` are the exchanges that are new in it, and
        `memories` those that it repeats something of.

        `words` are index terms by which it is found besides those of its text; None keeps those of the gist before.
        `read` says that the turns it covers were also read for statements. Otherwise the next pass reads them. `at` is
        when it was written, by default now.
        """
        checks.whole(seq, "seq", least=0)
        if prepared is None:
            prepared = self._memories.prepare(text)
        with self._engine.write() as tx:
            # Every writer locks the session's row first, then the memories.
            tx.run(_LOCK_SESSION, workspace=self._workspace, session=session_id)
            self._memories.lock(tx)
            covered = self.covered(tx, session_id)
            self._changing(tx, session_id)
            if seq > covered.last_seq:
                raise InvalidInput(f"Session {session_id!r} ends at seq {covered.last_seq}; no gist covers {seq}.")
            first = tx.value(_FIRST_TIME, workspace=self._workspace, session=session_id)
            if first is None:
                raise InvalidInput(f"Session {session_id!r} has no turns to make a gist of.")
            made_of = [*(("exchange", id) for id in sources), *(("memory", id) for id in memories)]
            memory = self._write(tx, session_id, text, prepared, made_of, words, at)
            turns = tx.value(_TURN_AT, workspace=self._workspace, session=session_id, seq=seq)
            tx.run(_COVER, workspace=self._workspace, session=session_id, seq=seq, turns=turns or 0)
            noted = {"workspace": self._workspace, "memory": memory.id, "session": session_id}
            tx.run(_NOTE_GIST, at=first, month=first[:7], **noted)
            for target in TARGETS if read else (*TARGETS, UNREAD):
                tx.run(_FOLD, workspace=self._workspace, target=target, gist=memory.id, after=covered.seq)
            if read:
                tx.run(_FOLDED, workspace=self._workspace, target=UNREAD, gist=memory.id)
            self._memories.mark_rebuilt(tx, memory.id)
            return memory

    def unread(self, tx: Transaction, session_id: str | None = None) -> dict[str, int]:
        """The sessions with turns under a gist that were not read for statements, and the seq after which they begin;
        of one session if given."""
        return dict(tx.all(_UNREAD, workspace=self._workspace, session=session_id))

    def mark_folded(self, tx: Transaction, target: str, gist: int) -> None:
        """Record that the gist was folded into the target."""
        for session in tx.column(_SESSION_OF, workspace=self._workspace, gist=gist):
            self._changing(tx, session)
            tx.run(_FOLDED, workspace=self._workspace, target=target, gist=gist)

    def mark_unfolded(self, tx: Transaction, target: str, gist: int) -> None:
        """Record that the gist is not folded into the target yet, because the target is being rebuilt."""
        for session in tx.column(_SESSION_OF, workspace=self._workspace, gist=gist):
            self._changing(tx, session)
            tx.run(_FOLD, workspace=self._workspace, target=target, gist=gist, after=0)

    def by_month(self, month: str | None = None) -> dict[str, list[Gist]]:
        """Current gists by the month (UTC) of their session's earliest turn; of one month if given."""
        with self._engine.read() as tx:
            months = [month] if month else tx.column(_MONTHS, workspace=self._workspace)
            return {
                each: [Gist(*row) for row in tx.all(_OF_MONTH, workspace=self._workspace, month=each)]
                for each in months
            }

    def _changing(self, tx: Transaction, session_id: str) -> None:
        """Tell the watcher before a session's coverage or folds change."""
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
        sources: Sequence[Thing],
        words: Sequence[str] | None,
        at: str | None,
    ) -> Memory:
        """A new version of the session's gist, or its first."""
        id = tx.value(_CURRENT, workspace=self._workspace, session=session_id)
        had = [] if id is None else memory_index.words_of(self._memories.get(id).data)
        words = had if words is None else words
        # Kept with the gist, so that an undo or the archive can index it again, and forgetting removes them with it.
        data = {memory_index.WORDS: list(words)} if words or had else None
        prepared = prepared._replace(pieces=word_index.with_words(prepared.pieces, words))
        if id is not None:
            return self._memories.update(
                id, text, reason="more was said", sources=sources, data=data, prepared=prepared, at=at
            )
        return self._memories.remember(
            text, kind=KIND, key=session_id, session_id=session_id, sources=sources, data=data, prepared=prepared, at=at
        )


def erase(tx: Transaction, workspace: str, memory_ids: Sequence[int]) -> None:
    """Delete what is recorded about gists that are deleted."""
    for id in memory_ids:
        tx.run(_UNFOLD, workspace=workspace, gist=id)
        tx.run(_DELETE_GIST, workspace=workspace, gist=id)


def uncover(tx: Transaction, workspace: str, memory_id: int) -> None:
    """A gist lost its text: its session counts as not summarised, and is summarised again from what is left."""
    tx.run(_UNCOVER, workspace=workspace, gist=memory_id)
