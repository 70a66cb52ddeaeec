"""Writes sessions with their turns, in batches.

Each batch is one transaction together with the record of how far the import has read. So an import can be killed and
begun again, the same file adds nothing, and a longer one adds what is new. A session that is at work now is left alone,
and so is what a person has forgotten.

Hooks may have recorded a session before. Then only what comes after their last turn is added: a session's turns are
numbered in order, and a turn between others has no number of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..clock import later
from ..compat.symbiont_resources import stored as exact
from ..errors import EngramError, ImportOverlap, InvalidInput, SessionNotFound
from ..import_records import FORGOTTEN, MEMORY, SESSION, TURN, PastSession, PastTurn, Seen
from ..records import PERSON
from ..redact import redact
from . import texts
from .items import Turn
from .recorded import Recorded

if TYPE_CHECKING:
    from ..client import Engram
    from ..import_records import Known
    from ..records import Session
    from .asked import Asked
    from .items import GistItem, LockItem, SessionItem
    from .tally import Tally

#: Turns that are written in one transaction; few enough that other writers do not wait long.
BATCH = 250
#: How often a batch is tried again when another import writes the same sessions.
_TRIES = 5
#: Seconds by which the times of a hook and of a transcript may differ.
_AROUND = 60
_ROLES = ("user", "assistant", "system", "tool", "log")

WAS_FORGOTTEN = "forgotten here"
AT_WORK = "still at work"
PARENT_LEFT_OUT = "its parent is left out"
TOO_OLD = "before --since"
BETWEEN = "between turns that were recorded before"


class _Open:
    """A session that is being read."""

    def __init__(self, item: SessionItem, recorded: Recorded, id: str | None) -> None:
        self.item = item
        self.recorded = recorded
        #: Its id in the store, once it is there.
        self.id = id
        #: How many turns of it were read.
        self.number = 0
        #: The time of the last turn, and the latest time.
        self.at: str | None = None
        self.latest: str | None = None
        #: What is to be written next.
        self.turns: list[PastTurn] = []
        self.gist: str | None = None
        self.gist_at: str | None = None
        self.is_final_gist = False
        #: Turns without a time that may lie between turns which were recorded before.
        self.held: list[PastTurn] = []
        self.is_new = id is None
        self.is_ended = False
        #: The id of the last message that was read.
        self.last_id: str | None = None
        #: Turns up to this time are not added: later ones were forgotten here.
        self.forgotten_until: str | None = None
        #: Whether turns were added, and whether that was since its last gist.
        self.has_grown = self.has_news = False


class SessionWriter:
    def __init__(self, eng: Engram, asked: Asked, tally: Tally) -> None:
        self._eng = eng
        self._asked = asked
        self._source = asked.source
        self._tally = tally
        self._times = texts.Times()
        self._open: dict[str, _Open] = {}
        #: In a dry run: how much of a session would be imported by now.
        self._dry: dict[str, Seen] = {}
        #: Sessions that are left out, by their ids.
        self._left_out: set[str] = set()
        self._waiting = 0

    def begin(self, item: SessionItem) -> None:
        """A session begins, or goes on."""
        known = self._open.get(item.id)
        if item.id in self._left_out or (known is not None and not known.is_ended):
            return
        parent = self._open.get(item.parent or "")
        if known is not None or (parent is not None and parent.id is None):
            self.flush()
        ref = _ref(item)
        seen = self._eng.imports.seen(self._source, SESSION, ref)
        stored = self._stored(item, seen)
        if stored is None and self._asked.again:
            self._release(ref)
            seen = None
        if ref in self._dry:
            self._open[item.id] = _Open(item, Recorded(self._dry[ref]), "")
            return
        if why := self._why_not(item, seen, stored):
            self._left_out.add(item.id)
            self._tally.leave_out(why, f"session {item.id}")
            return
        after = seen.seq if seen is not None else 0
        others = self._eng.imports.outline(stored.id, after) if stored is not None else ()
        session = _Open(item, Recorded(seen, others), None if stored is None else stored.id)
        lost = None if self._asked.again else self._eng.imports.seen(FORGOTTEN, TURN, ref)
        if lost is not None and lost.at is not None:
            session.forgotten_until = later(lost.at, _AROUND)
        self._open[item.id] = session

    def _release(self, ref: str) -> None:
        """Let a session be imported that was forgotten here."""
        if not self._asked.dry_run:
            self._eng.imports.release(self._source, SESSION, ref)
            self._eng.imports.release(FORGOTTEN, SESSION, ref)

    def add(self, turn: Turn) -> None:
        """A turn of an open session."""
        session = self._open.get(turn.session)
        if session is None:
            if turn.session not in self._left_out:
                self._tally.leave_out("no session of that id", f"turn of session {turn.session}")
            return
        session.number += 1
        at = self._times.known(turn.at)
        session.at = at or session.at
        content = texts.storable(turn.text)
        session.last_id = _message_id(turn.id)
        if session.recorded.was_read(session.number, at):
            if session.number == 1 and self._is_another(session, content):
                self._drop(session, "another session with this id was imported before")
            return
        if not content or turn.role not in _ROLES:
            why = "no text" if not content else f"unknown role {turn.role!r}"
            self._tally.leave_out(why, f"turn {session.number} of session {turn.session}")
            return
        vector = turn.vector if self._asked.vectors_of is not None else None
        past = PastTurn(turn.role, content, self._moment(session), _message_id(turn.id), turn.trust, vector)
        known = session.recorded.find(past)
        if known is not None:
            self._name(known, past)
            session.held.clear()
        elif session.forgotten_until is not None and past.created_at <= session.forgotten_until:
            self._tally.leave_out(WAS_FORGOTTEN, f"a turn of session {turn.session}")
        elif session.recorded.is_behind_all(past.role, at):
            self._put(session, past)
        elif at is None:
            session.held.append(past)
        else:
            self._tally.leave_out(BETWEEN, f"session {turn.session}")

    def gist(self, item: GistItem) -> None:
        """What the turns of the session so far come to."""
        session = self._open.get(item.session)
        text = texts.storable(item.text)
        if session is None or not text:
            return
        # By its place: a gist that was forgotten does not come back, and one that comes later is not lost.
        ref = f"{_ref(session.item)}/gist/{item.id or session.number}"
        if self._eng.imports.seen(self._source, MEMORY, ref) is not None:
            return
        at = self._times.known(item.at) or session.latest
        if session.has_news:
            session.gist, session.is_final_gist, session.has_news, session.gist_at = text, item.is_final, False, at
            self._tally.add("gists")
            self.flush()
        elif session.id and not self._asked.dry_run:
            self._late_gist(session, item, text, at)
        if session.id and not self._asked.dry_run:
            self._eng.imports.note(self._source, MEMORY, ref, Seen(session.id))

    def _late_gist(self, session: _Open, item: GistItem, text: str, at: str | None) -> None:
        """A gist of turns that were imported before, unless the session has one that goes as far."""
        last = self._eng.exchanges.find(session.id or "", session.last_id) if session.last_id else None
        if last is None:
            return
        turns = [turn.id for turn in self._eng.memories.unsummarised(session.id or "") if turn.seq <= last.seq]
        if not turns:
            return
        known = self._eng.gists.current(session.id or "")
        at = None if known is not None and at is not None and known.updated_at > at else at
        prepared = self._eng.memories.prepare(text, embed=False)
        self._eng.gists.store(
            session.id or "", text, last.seq, sources=turns, prepared=prepared, read=item.is_final, at=at
        )
        session.has_grown = True
        self._tally.add("gists")

    def lock(self, item: LockItem) -> None:
        """A session holds a resource: it is claimed again if the session is at work, and noted otherwise."""
        session = self._open.get(item.session)
        if session is None:
            return
        if session.item.status != "active":
            note = f": {item.note}" if item.note else ""
            self.add(Turn(item.session, "log", f"Locked {item.resource}{note}", item.at))
            return
        session.number += 1
        if session.is_new and not self._asked.dry_run:
            self.flush()
            session.has_grown = True
            if session.id is not None:
                try:
                    self._eng.leases.claim(session.id, exact(item.resource), item.note)
                except EngramError as error:
                    self._tally.leave_out(f"refused: {error.message}", f"a lock of session {item.session}")

    def end(self, id: str) -> None:
        """Nothing more of this session comes."""
        session = self._open.get(id)
        if session is None or session.is_ended:
            return
        for past in session.held:
            self._put(session, past)
        session.held.clear()
        session.is_ended = True
        if not self._is_due(session) and not session.has_grown:
            del self._open[id]
            if not session.is_new:  # in a new one, nothing was said
                self._tally.add("unchanged")
            return
        self._tally.add("sessions" if session.is_new else "continued")
        self._waiting += 1
        self._flush_if_full()

    def end_all(self) -> None:
        """Nothing more of any session comes from this source."""
        for id in list(self._open):
            self.end(id)
        self.flush()

    def flush(self) -> None:
        """Write what waits."""
        self._waiting = 0
        for _ in range(_TRIES):
            batch = [session for session in self._open.values() if self._is_due(session)]
            try:
                self._written(batch, self._write(batch))
                break
            except (ImportOverlap, SessionNotFound):
                for session in batch:
                    self._look_again(session)
            except InvalidInput as error:
                self._write_singly(batch, error)
                break
        else:
            raise ImportOverlap
        for id in [id for id, session in self._open.items() if session.is_ended]:
            del self._open[id]

    def _write(self, batch: list[_Open]) -> list[Seen]:
        if not batch or self._asked.dry_run:
            return [Seen("", session.number, session.latest) for session in batch]
        return self._eng.imports.write(list(map(self._past, batch)), model=self._asked.vectors_of)

    def _write_singly(self, batch: list[_Open], error: InvalidInput) -> None:
        """One session of a batch cannot be written as it is. The others are written, and that one is named."""
        if len(batch) == 1:
            self._drop(batch[0], f"refused: {error.message}")
            return
        for session in batch:
            try:
                self._written([session], self._write([session]))
            except InvalidInput as refused:
                self._drop(session, f"refused: {refused.message}")

    def _drop(self, session: _Open, why: str) -> None:
        """Leave out the rest of a session."""
        self._left_out.add(session.item.id)
        self._open.pop(session.item.id, None)
        self._tally.leave_out(why, f"session {session.item.id}")

    def _flush_if_full(self) -> None:
        if self._waiting >= BATCH:
            self.flush()

    def _is_due(self, session: _Open) -> bool:
        return bool(session.turns) or session.gist is not None or (session.id is None and _stands_alone(session.item))

    def _written(self, batch: list[_Open], seen: list[Seen]) -> None:
        for session, now in zip(batch, seen, strict=True):
            logs = sum(turn.role == "log" for turn in session.turns)
            self._tally.add("logs", logs)
            self._tally.add("turns", len(session.turns) - logs)
            for turn in session.turns:
                self._tally.imported_at(turn.created_at)
            session.recorded.seen = now
            session.id = now.id
            session.turns, session.gist = [], None
            if self._asked.dry_run:
                self._dry[_ref(session.item)] = now

    def _look_again(self, session: _Open) -> None:
        """Another process has written the session, or forgotten it. Turns that it has written are left out."""
        seen = self._eng.imports.seen(self._source, SESSION, _ref(session.item))
        stored = self._stored(session.item, seen)
        if seen is not None and stored is None:
            self._drop(session, WAS_FORGOTTEN)
            return
        if seen == session.recorded.seen or stored is None:
            return
        session.is_new = False
        before = session.recorded.seen.seq if session.recorded.seen is not None else 0
        recorded = Recorded(seen, self._eng.imports.outline(stored.id, before))
        session.turns = [turn for turn in session.turns if recorded.find(turn) is None]
        session.recorded, session.id = recorded, stored.id

    def _put(self, session: _Open, past: PastTurn) -> None:
        session.turns.append(past)
        session.latest = max(session.latest or "", past.created_at)
        session.has_grown = session.has_news = True
        self._waiting += 1
        self._flush_if_full()

    def _past(self, session: _Open) -> PastSession:
        item, seen = session.item, session.recorded.seen
        times = [self._times.known(each) for each in (item.started_at, item.heartbeat_at, item.last_at)]
        known = [each for each in (*times, session.latest) if each is not None]
        started = times[0] or min((turn.created_at for turn in session.turns), default=None)
        heard = session.latest or max(known, default=None)
        if item.heartbeat_at is not None:
            heard = max(known)
        moment = self._moment(session)
        return PastSession(
            source=self._source,
            ref=_ref(item),
            type=texts.name(item.type) or self._source,
            external_id=None if item.keep_id else texts.external_id(item.id),
            id=_own_id(item),
            status=item.status,
            started_at=started or heard or moment,
            heartbeat_at=heard or started or moment,
            project=texts.name(item.project or self._asked.project),
            name=texts.name(item.name),
            parent_id=self._parent(item),
            metadata=item.metadata,
            summary=None if item.summary is None else texts.storable(item.summary),
            outcome=None if item.outcome is None else texts.storable(item.outcome),
            turns=session.turns,
            gist=session.gist,
            gist_at=session.gist_at,
            is_final_gist=session.is_final_gist,
            before=seen,
            records=max(session.number, seen.records if seen is not None else 0),
            seen_at=max(filter(None, (session.latest, seen.at if seen is not None else None)), default=None),
        )

    def _parent(self, item: SessionItem) -> str | None:
        """The id of the session's parent here; None if it is not here."""
        if item.parent is None:
            return None
        if item.parent in self._open:
            return self._open[item.parent].id
        found = self._eng.sessions.find(texts.external_id(item.parent), item.type)
        return None if found is None else found.id

    def _stored(self, item: SessionItem, seen: Seen | None) -> Session | None:
        """The session in the store, whoever wrote it."""
        own = _own_id(item)
        for id in (seen.id if seen is not None else None, own):
            if id:
                try:
                    return self._eng.sessions.get(id)
                except SessionNotFound:
                    continue
        if own is not None or seen is not None:
            return None
        return self._eng.sessions.find(texts.external_id(item.id), texts.name(item.type))

    def _why_not(self, item: SessionItem, seen: Seen | None, stored: Session | None) -> str | None:
        """Why nothing of a session is imported; None if it is."""
        if stored is None and (seen is not None or self._was_forgotten(item)):
            return WAS_FORGOTTEN
        if item.parent is not None and item.parent in self._left_out:
            return PARENT_LEFT_OUT
        if stored is not None and stored.status == "active" and not stored.stale and item.status != "active":
            return AT_WORK
        if self._asked.since is not None:
            times = [self._times.known(each) for each in (item.last_at, item.heartbeat_at, item.started_at)]
            latest = max(filter(None, times), default=None)
            if latest is not None and latest < self._asked.since:
                return TOO_OLD
        return None

    def _was_forgotten(self, item: SessionItem) -> bool:
        """Whether a session was forgotten here that hooks or another format had recorded."""
        return not self._asked.again and self._eng.imports.seen(FORGOTTEN, SESSION, _ref(item)) is not None

    def _is_another(self, session: _Open, content: str) -> bool:
        """Whether the session here begins with other words: two databases may count their sessions alike."""
        if not session.item.keep_id or not session.id or session.last_id is None:
            return False
        known = self._eng.exchanges.find(session.id, session.last_id)
        return known is not None and known.content != redact(content)

    def _name(self, known: Known, past: PastTurn) -> None:
        """Give a turn that was recorded without it the harness's id of the message."""
        if known.external_id is None and past.external_id is not None and not self._asked.dry_run:
            self._eng.exchanges.set_external_id(known.id, past.external_id)

    def _moment(self, session: _Open) -> str:
        """The time of a turn, or the closest one that is known."""
        known = session.at or self._times.known(session.item.started_at) or self._times.known(session.item.last_at)
        return known or self._times.now


def _ref(item: SessionItem) -> str:
    """What a session is known by, whichever format it comes from. Forgetting makes the same from its row."""
    return f"{texts.name(item.type) or item.type}/{_own_id(item) or texts.external_id(item.id)}"


def _own_id(item: SessionItem) -> str | None:
    """The id that the session keeps here; None if it gets a new one."""
    if not item.keep_id or item.id == PERSON:
        return None
    return texts.name(item.id) if texts.name(item.id) == item.id else None


def _stands_alone(item: SessionItem) -> bool:
    """Whether a session without turns says something."""
    return bool(item.summary or item.outcome or item.keep_id)


def _message_id(id: str | None) -> str | None:
    return texts.external_id(id) if id else None
