"""Sessions of the past, and what was imported from which system.

Importers write here in batches: sessions that are over, their turns, and a record of how much of each was read, all in
one transaction. So an import can be killed at any moment and begun again. The record outlives what was imported: what a
person has forgotten does not come back with the next import of the same file.

A record has no text: the id of a thing in its system is stored as a digest.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import checks, json_columns, mutexes
from ..errors import ImportOverlap, InvalidInput, SessionNotFound
from ..import_records import FORGOTTEN, SESSION, TURN, Known, Seen
from ..memory.exchanges import Exchanges, append_many
from ..memory.gists import Gists
from ..memory.given_vectors import GivenVectors
from ..memory.memories import Memories
from . import session_leases, sessions, summaries

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..import_records import PastSession, PastTurn
    from ..memory.exchanges import CheckedExchange
    from ..memory.memories import Prepared
    from ..storage.engine import Transaction
    from ..store_view import StoreView

#: What a session's log says where the summary of a compaction became its gist. Hooks say the same.
COMPACTED = "The context was compacted; its summary is the gist so far"
IMPORTED = "The gist so far was imported"
_PAGE = 500

_SEEN = """
SELECT id, seen, seen_at, seen_seq, made FROM imports
WHERE workspace = :workspace AND source = :source AND what = :what AND ref = :ref
"""
_NOTE = """
INSERT INTO imports (workspace, source, ref, what, id, seen, seen_at, seen_seq, made)
VALUES (:workspace, :source, :ref, :what, :id, :seen, :seen_at, :seen_seq, :made)
ON CONFLICT (workspace, source, what, ref)
DO UPDATE SET id = :id, seen = :seen, seen_at = :seen_at, seen_seq = :seen_seq, made = :made
"""
_WHOSE = "SELECT type, COALESCE(external_id, id) FROM sessions WHERE workspace = :workspace AND id = :id"
_LOST = """
SELECT s.id, s.type, COALESCE(s.external_id, s.id), MAX(e.created_at)
FROM exchanges e JOIN sessions s ON s.workspace = e.workspace AND s.id = e.session_id
WHERE e.workspace = :workspace AND e.role <> 'log' AND e.id IN (SELECT value FROM json_each(:ids))
GROUP BY s.id, s.type, s.external_id
"""
_MADE_SESSIONS = """
SELECT s.id FROM imports i JOIN sessions s ON s.workspace = i.workspace AND s.id = i.id
WHERE i.workspace = :workspace AND i.source = :source AND i.what = 'session' AND i.made = 1 ORDER BY s.id
"""
_MADE_ERAS = """
SELECT m.id FROM imports i JOIN memories m ON m.workspace = i.workspace AND CAST(m.id AS TEXT) = i.id
WHERE i.workspace = :workspace AND i.source = :source AND i.what = 'memory' AND m.kind = 'era' AND m.session_id IS NULL
  AND m.version = i.seen
ORDER BY m.id
"""
_MADE_BLOCKS = """
SELECT b.id, b.name FROM imports i JOIN blocks b ON b.workspace = i.workspace AND b.name = i.id
WHERE i.workspace = :workspace AND i.source = :source AND i.what = 'block' AND b.version = i.seen_seq ORDER BY b.name
"""
_RELEASE = """
DELETE FROM imports WHERE workspace = :workspace AND source = :source AND what = :what AND ref = :ref
"""
_FIND = """
SELECT id, status, created_at, heartbeat_at FROM sessions
WHERE workspace = :workspace AND external_id = :external_id AND type = :type
ORDER BY heartbeat_at DESC, id DESC LIMIT 1
"""
_GET = "SELECT id, status, created_at, heartbeat_at FROM sessions WHERE workspace = :workspace AND id = :id"
_INSERT = """
INSERT INTO sessions (workspace, id, type, name, summary, status, project, external_id, parent_id, metadata,
                      last_seq, created_at, heartbeat_at, ended_at, outcome, author)
VALUES (:workspace, :id, :type, :name, :summary, :status, :project, :external_id, :parent_id, :metadata,
        0, :started_at, :heartbeat_at, :ended_at, :outcome, :author)
"""
_EXTEND = """
UPDATE sessions SET status = :status, heartbeat_at = :heartbeat_at, ended_at = :ended_at,
  created_at = :started_at, name = COALESCE(name, :name), project = COALESCE(project, :project),
  parent_id = COALESCE(parent_id, :parent_id)
WHERE workspace = :workspace AND id = :id
"""
_TEXTS = "SELECT summary, outcome, last_seq FROM sessions WHERE workspace = :workspace AND id = :id"
_OUTLINE = """
SELECT seq, role, content, external_id, created_at, id FROM exchanges
WHERE workspace = :workspace AND session_id = :session AND seq > :after AND role <> 'log'
UNION ALL
SELECT seq, role, content, external_id, created_at, id FROM exchanges
WHERE workspace = :workspace AND session_id = :session AND seq > :after AND role = 'log'
ORDER BY seq LIMIT :limit
"""
_UNCOVERED = """
SELECT e.id FROM exchanges e JOIN sessions s ON s.workspace = e.workspace AND s.id = e.session_id
WHERE e.workspace = :workspace AND e.session_id = :session AND e.role <> 'log' AND e.seq > COALESCE(s.gist_seq, 0)
ORDER BY e.seq
"""


class _Checked(NamedTuple):
    """A session that was checked and is ready to be written."""

    given: PastSession
    #: The values of its row.
    row: dict[str, Any]
    turns: list[CheckedExchange]
    gist: Prepared | None


class Imports:
    def __init__(self, view: StoreView) -> None:
        self._view = view
        self._engine = view.engine
        self._workspace = view.workspace
        self._exchanges = Exchanges(view)

    def check_model(self, model: str) -> None:
        """InvalidInput unless the workspace uses that embedding model."""
        GivenVectors(self._view, model).check()

    def seen(self, source: str, what: str, ref: str) -> Seen | None:
        """How much of a thing was imported before; None if nothing was."""
        with self._engine.read() as tx:
            return self._seen(tx, source, what, ref)

    def note(self, source: str, what: str, ref: str, seen: Seen) -> None:
        """Record that a memory or a block was imported. Call it in the transaction that writes the thing."""
        with self._engine.write() as tx:
            self._note(tx, source, what, ref, seen)

    def release(self, source: str, what: str, ref: str) -> None:
        """Drop the record of an import, so that a thing that was forgotten can be imported again."""
        with self._engine.write() as tx:
            tx.run(_RELEASE, workspace=self._workspace, source=source, what=what, ref=_digest(ref))

    def outline(self, session_id: str, after: int = 0) -> Iterator[Known]:
        """The exchanges of a session after a number, logs too, in order. They are read in pages."""
        while True:
            with self._engine.read() as tx:
                rows = tx.all(_OUTLINE, workspace=self._workspace, session=session_id, after=after, limit=_PAGE)
            yield from (Known(*row) for row in rows)
            if len(rows) < _PAGE:
                return
            after = rows[-1][0]

    def write(self, batch: Sequence[PastSession], *, model: str | None = None) -> list[Seen]:
        """Write sessions with their turns, all or nothing; what is recorded about each.

        `model` is the embedding model that the vectors of the turns are from; without it they are not used.
        ImportOverlap when another import has written one of them meanwhile.
        """
        vectors = None if model is None else GivenVectors(self._view, model)
        checked = [self._checked(session, vectors) for session in batch]
        with self._engine.write() as tx:
            # First, in the order of all writers: sessions are ended, and they may have parents.
            tx.lock(mutexes.leases(self._workspace))
            made: set[str] = set()
            ids = [self._session(tx, each, made) for each in checked]
            together = list(zip(checked, ids, strict=True))
            turns = [turn._replace(session_id=id) for each, id in together for turn in each.turns]
            if turns:
                append_many(tx, self._workspace, turns, tx.now())
            for each, id in together:
                self._quote(tx, each.given, id)
            for each, id in together:
                if each.gist is not None:
                    self._gist(tx, each, id)
            return [self._noted(tx, each.given, id, id in made) for each, id in together]

    def _checked(self, session: PastSession, vectors: GivenVectors | None) -> _Checked:
        if session.status not in ("completed", "abandoned", "active"):
            raise InvalidInput(f"status is {session.status!r}; it must be completed, abandoned or active.")
        started = checks.moment(session.started_at, "start of the session")
        heard = checks.moment(session.heartbeat_at, "end of the session")
        row = {
            "type": checks.new_name(session.type, "session type"),
            "name": checks.optional_new_name(session.name, "session name"),
            "project": checks.optional_new_name(session.project, "project"),
            "external_id": checks.optional_new_name(session.external_id, "external id"),
            "summary": checks.optional_content(session.summary, "summary") or "",
            "outcome": checks.optional_content(session.outcome, "outcome") or "",
            "metadata": json_columns.dump_object(session.metadata, "metadata"),
            "started_at": min(started, heard),
            "heartbeat_at": heard,
            "id": checks.optional_new_name(session.id, "session id"),
        }
        turns = [self._prepared(turn, vectors) for turn in session.turns]
        gist = None if session.gist is None else Memories(self._view).prepare(session.gist, embed=False)
        return _Checked(session, row, turns, gist)

    def _prepared(self, turn: PastTurn, vectors: GivenVectors | None) -> CheckedExchange:
        given = {"session_id": "-", **turn._asdict()}
        try:
            return self._exchanges.prepare(given, vectors)
        except InvalidInput:
            if turn.vector is None:
                raise
            # Another length, or no numbers: the embedding queue makes a vector.
            return self._exchanges.prepare({**given, "vector": None})

    def _session(self, tx: Transaction, checked: _Checked, made: set[str]) -> str:
        """Make the session, or extend it; its id. `made` takes the ids of new ones.

        Raises ImportOverlap if it is not as the importer knows it.
        """
        session, values, *_ = checked
        noted = self._seen(tx, session.source, SESSION, session.ref)
        if noted != session.before:
            raise ImportOverlap("Another import wrote this session meanwhile.")
        known = None
        if values["id"] is not None:
            known = tx.one(_GET, workspace=self._workspace, id=values["id"])
        if known is None and values["external_id"] is not None:
            of_it = {"external_id": values["external_id"], "type": values["type"]}
            known = tx.one(_FIND, workspace=self._workspace, **of_it)
        if known is None and noted is not None:
            raise SessionNotFound("The session was forgotten while it was imported.")
        if session.parent_id is not None:
            sessions.require(tx, self._workspace, session.parent_id)
        if known is None:
            new = self._insert(tx, session, values)
            made.add(new)
            return new
        id, status, created, heard = known
        latest = max(values["heartbeat_at"], heard)
        is_over = session.status != "active"
        if is_over and status == "active":
            session_leases.end(tx, self._workspace, id, tx.now(), session.status)
        tx.run(
            _EXTEND,
            workspace=self._workspace,
            id=id,
            status=session.status if status == "active" else status,
            heartbeat_at=latest,
            ended_at=latest if is_over or status != "active" else None,
            started_at=min(values["started_at"], created),
            name=values["name"],
            project=values["project"],
            parent_id=session.parent_id,
        )
        tx.note(self._workspace, "session", id)
        return str(id)

    def _insert(self, tx: Transaction, session: PastSession, values: dict[str, Any]) -> str:
        id: str = values["id"] or sessions.new_id(values["started_at"])
        tx.run(
            _INSERT,
            workspace=self._workspace,
            status=session.status,
            ended_at=None if session.status == "active" else values["heartbeat_at"],
            parent_id=session.parent_id,
            author=self._view.author,
            **{**values, "id": id},
        )
        tx.note(self._workspace, "session", id)
        return id

    def _quote(self, tx: Transaction, session: PastSession, id: str) -> None:
        """Say what the session set out to do and what came of it in the words of its turns, if nobody says it."""
        roles = {turn.role for turn in session.turns}
        summary, outcome, _ = tx.all(_TEXTS, workspace=self._workspace, id=id)[0]
        if "user" in roles and not summary and not summaries.quote(tx, self._workspace, id, "user"):
            summaries.quote_first(tx, self._workspace, id)
        # A later part has a later result.
        if "assistant" in roles and not session.outcome and (not outcome or session.before is not None):
            summaries.quote(tx, self._workspace, id, "assistant")

    def _gist(self, tx: Transaction, checked: _Checked, id: str) -> None:
        """Make the text the session's gist up to here. It is the words of an agent, whatever the turns are."""
        turns = tx.column(_UNCOVERED, workspace=self._workspace, session=id)
        gist, is_final = checked.gist, checked.given.is_final_gist
        if not turns or gist is None:
            return
        # This text has no secret to search for.
        text = IMPORTED if is_final else COMPACTED
        log = self._exchanges.prepare({"session_id": id, "role": "log", "content": text})
        (noted,) = append_many(tx, self._workspace, [log], tx.now())
        gists = Gists(self._view, Memories(self._view))
        known, at = gists.current(id), checks.optional_moment(checked.given.gist_at, "time of the gist")
        if known is not None and at is not None and known.updated_at > at:
            at = None  # a change cannot be before the last one
        made_of = [*turns, noted.id]
        gists.store(id, gist.content, noted.seq, sources=made_of, prepared=gist, read=is_final, at=at)

    def _last_seq(self, tx: Transaction, id: str) -> int:
        _, _, last = tx.all(_TEXTS, workspace=self._workspace, id=id)[0]
        return int(last)

    def _noted(self, tx: Transaction, session: PastSession, id: str, is_new: bool) -> Seen:
        made = session.before.made if session.before is not None else int(is_new)
        seen = Seen(id, session.records, session.seen_at, self._last_seq(tx, id), made)
        self._note(tx, session.source, SESSION, session.ref, seen)
        return seen

    def _seen(self, tx: Transaction, source: str, what: str, ref: str) -> Seen | None:
        row = tx.one(_SEEN, workspace=self._workspace, source=source, what=what, ref=_digest(ref))
        return Seen(*row) if row else None

    def _note(self, tx: Transaction, source: str, what: str, ref: str, seen: Seen) -> None:
        _write_note(tx, self._workspace, checks.new_name(source, "source"), what, ref, seen)


def note_forgotten(tx: Transaction, workspace: str, sessions: Sequence[str], exchanges: Sequence[int]) -> None:
    """Record that these sessions and exchanges are forgotten, before they are deleted, so that no import of any format
    brings them back. Of exchanges only the time of the latest is kept."""
    for id in sessions:
        for type, own in tx.all(_WHOSE, workspace=workspace, id=id):
            _write_note(tx, workspace, FORGOTTEN, SESSION, f"{type}/{own}", Seen(id))
    whole = set(sessions)
    for id, type, own, latest in tx.all(_LOST, workspace=workspace, ids=tx.array(exchanges)):
        if id not in whole:
            _write_note(tx, workspace, FORGOTTEN, TURN, f"{type}/{own}", Seen(id, at=latest))


def imported_sessions(tx: Transaction, workspace: str, source: str) -> list[str]:
    """The sessions that an import of this format made."""
    return tx.column(_MADE_SESSIONS, workspace=workspace, source=source)


def imported_things(tx: Transaction, workspace: str, source: str) -> list[tuple[str, int, str]]:
    """Eras and blocks that an import of this format made and that nobody has edited since: kind, id and name."""
    return [
        *(("memory", id, "") for id in tx.column(_MADE_ERAS, workspace=workspace, source=source)),
        *(("block", id, name) for id, name in tx.all(_MADE_BLOCKS, workspace=workspace, source=source)),
    ]


def _write_note(tx: Transaction, workspace: str, source: str, what: str, ref: str, seen: Seen) -> None:
    tx.run(
        _NOTE,
        workspace=workspace,
        source=source,
        what=what,
        ref=_digest(ref),
        id=seen.id,
        seen=seen.records,
        seen_at=seen.at,
        seen_seq=seen.seq,
        made=seen.made,
    )


def _digest(ref: str) -> str:
    return blake2b(ref.encode("utf-8", "replace"), digest_size=16).hexdigest()
