"""Sessions: which agents are at work, since when, on what, and with which outcome.

A session's `summary` says what it set out to do, its `outcome` what came of it. Completing a session sets only the
outcome. Both stay when the session is resumed; the outcome is replaced by that of the next completion.

`stale` is never stored: it is derived from the last heartbeat when a session is read. A session that has been silent
for a day is abandoned by a sweep. The sweep costs one indexed look when there is nothing to do, and gives way to other
writers. A session's end frees its leases in the same transaction.

An import writes sessions of the past: it says when something happened. A past time is no heartbeat of now. It moves no
heartbeat back, does not resume a session that ended later, and renews no lease.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from .. import checks, json_columns, mutexes
from ..clock import later
from ..errors import InvalidInput, SessionNotFound, StoreBusy, StoreReadOnly
from ..memory import exchanges
from ..records import PERSON, LogEntry, Session, Stats
from ..safe_text import name as shown_name
from . import session_leases, summaries
from .projects import default_project

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ..records import Receipt
    from ..storage.engine import Transaction
    from ..store_view import StoreView

#: The type of a session that was made by `ensure` and never said what it is.
UNNAMED_TYPE = "chat"
#: A session at work with this many new turns is summarised.
MANY_TURNS = 20

_COLUMNS = (
    "id, type, name, summary, status, project, external_id, parent_id, metadata, created_at, heartbeat_at, ended_at, "
    "turns - turns_gone, outcome, author"
)
_INSERT_IF_MISSING = """
INSERT INTO sessions (workspace, id, type, name, summary, status, project, external_id, parent_id, metadata,
                      last_seq, created_at, heartbeat_at, author)
VALUES (:workspace, :id, :type, :name, :summary, :status, :project, :external_id, :parent_id, :metadata, 0, :now, :now,
        :author)
ON CONFLICT (workspace, id) DO NOTHING
"""
_GET = "SELECT " + _COLUMNS + " FROM sessions WHERE workspace = :workspace AND id = :id"
_SOME = (
    "SELECT " + _COLUMNS + " FROM sessions WHERE workspace = :workspace AND id IN (SELECT value FROM json_each(:ids))"
)
_FIND = (
    "SELECT "
    + _COLUMNS
    + """ FROM sessions
WHERE workspace = :workspace AND external_id = :external_id
  AND (CAST(:type AS TEXT) IS NULL OR type = :type)
ORDER BY heartbeat_at DESC, id DESC LIMIT 1
"""
)
# A session that ended after a past time stays as it is.
_HEARD = """
    status = CASE WHEN :past = 1 AND ended_at > :now THEN status ELSE 'active' END,
    ended_at = CASE WHEN :past = 1 AND ended_at > :now THEN ended_at ELSE NULL END,
    heartbeat_at = CASE WHEN :past = 1 AND heartbeat_at > :now THEN heartbeat_at ELSE :now END"""
_RESUME = (
    """
UPDATE sessions
SET """
    + _HEARD
    + """, summary = COALESCE(:summary, summary),
    summary_from = CASE WHEN CAST(:summary AS TEXT) IS NULL THEN summary_from ELSE NULL END,
    name = COALESCE(:name, name), project = :project, parent_id = COALESCE(:parent_id, parent_id), metadata = :metadata
WHERE workspace = :workspace AND id = :id
"""
)
_BEAT = (
    """
UPDATE sessions
SET """
    + _HEARD
    + """, summary = COALESCE(:summary, summary),
    summary_from = CASE WHEN CAST(:summary AS TEXT) IS NULL THEN summary_from ELSE NULL END
WHERE workspace = :workspace AND id = :id
RETURNING """
    + _COLUMNS
)
_COMPLETE = (
    """
UPDATE sessions
SET status = 'completed', outcome = COALESCE(:outcome, outcome),
    heartbeat_at = CASE WHEN created_at > :now THEN created_at ELSE :now END,
    ended_at = CASE WHEN created_at > :now THEN created_at ELSE :now END,
    outcome_from = CASE WHEN CAST(:outcome AS TEXT) IS NULL THEN outcome_from ELSE NULL END
WHERE workspace = :workspace AND id = :id
RETURNING """
    + _COLUMNS
)
_NAME = "UPDATE sessions SET name = :name WHERE workspace = :workspace AND id = :id"
_ACTIVE = (
    "SELECT "
    + _COLUMNS
    + """ FROM sessions WHERE workspace = :workspace AND status = 'active' AND (:dreams = 1 OR type <> 'dream')
  AND (:subagents = 1 OR NOT EXISTS (
    SELECT 1 FROM sessions p
    WHERE p.workspace = sessions.workspace AND p.id = sessions.parent_id AND p.status = 'active'))
ORDER BY heartbeat_at DESC, id DESC"""
)
_COMPLETED = (
    "SELECT "
    + _COLUMNS
    + """ FROM sessions
WHERE workspace = :workspace AND status = 'completed' AND heartbeat_at >= :since AND (:dreams = 1 OR type <> 'dream')
ORDER BY heartbeat_at DESC, id DESC LIMIT :limit"""
)
_NEWEST = (
    "SELECT "
    + _COLUMNS
    + """ FROM sessions WHERE workspace = :workspace AND created_at >= :since AND created_at < :until
  AND created_at <= :at AND (created_at < :at OR id < :id)
  AND (:dreams = 1 OR type <> 'dream') AND (:subagents = 1 OR parent_id IS NULL)
  AND (CAST(:project AS TEXT) IS NULL OR project = :project) AND (CAST(:type AS TEXT) IS NULL OR type = :type)
  AND (CAST(:status AS TEXT) IS NULL OR status = :status)
ORDER BY created_at DESC, id DESC LIMIT :limit"""
)
#: After every time, so that the first page begins with the newest.
_LAST = ("~", "")
STATUSES = ("active", "idle", "completed", "abandoned")
_CHILDREN = (
    "SELECT "
    + _COLUMNS
    + """ FROM sessions WHERE workspace = :workspace AND parent_id = :id
ORDER BY created_at DESC, id DESC LIMIT :limit"""
)
_SUBAGENTS = """
SELECT parent_id, COUNT(*) FROM sessions
WHERE workspace = :workspace AND parent_id IS NOT NULL AND (:active = 0 OR status = 'active') GROUP BY parent_id
"""
LAST_AUTOMATIC = """
SELECT started_at FROM dreams WHERE workspace = :workspace AND reason <> 'by hand' ORDER BY id DESC LIMIT 1
"""
# The same rule as in `dreaming.due`, for the sessions alone. It is here because every hook has this module loaded.
_DUE = """
SELECT COUNT(*) FROM sessions s
WHERE s.workspace = :workspace AND s.turns > s.gist_turns AND s.turns > s.turns_gone
  AND (s.status <> 'active' OR s.heartbeat_at < :silent OR s.turns - s.gist_turns >= :many)
  AND (:agents = 0 OR NOT EXISTS (
    SELECT 1 FROM work w WHERE w.workspace = s.workspace AND w.stage = 'sessions' AND w.subject = s.id
      AND w.answer IS NULL))
"""
_LEFT_OVER = """
SELECT COALESCE(MAX(left_over), 0) FROM dream_retries
WHERE workspace = :workspace AND stage = 'sessions' AND retry_at > :now
"""
_LOGS = """
SELECT id, session_id, seq, content, created_at, author FROM exchanges
WHERE workspace = :workspace AND session_id = :id AND role = 'log'
ORDER BY seq DESC LIMIT :limit
"""
_SILENT = """
SELECT 1 FROM sessions WHERE workspace = :workspace AND status = 'active' AND heartbeat_at < :since LIMIT 1
"""
_ABANDON = """
UPDATE sessions SET status = 'abandoned', ended_at = :now
WHERE workspace = :workspace AND status = 'active' AND heartbeat_at < :since
RETURNING id
"""
_ABANDON_FAMILY = """
UPDATE sessions SET status = 'abandoned', ended_at = :now
WHERE workspace = :workspace AND status = 'active' AND (id = :id OR parent_id = :id)
RETURNING id
"""


class SessionRow(NamedTuple):
    """A row of `_COLUMNS`."""

    id: str
    type: str
    name: str | None
    summary: str
    status: str
    project: str | None
    external_id: str | None
    parent_id: str | None
    metadata: str
    created_at: str
    heartbeat_at: str
    ended_at: str | None
    turns: int
    outcome: str
    author: str | None


class Sessions:
    def __init__(self, view: StoreView, forget: Callable[[str], Receipt] | None = None) -> None:
        #: Forgets a session. It is given from above, because forgetting builds on this tier.
        self._forget = forget
        self._view = view
        self._engine = view.engine
        self._workspace = view.workspace
        self._config = view.config

    def register(
        self,
        session_type: str,
        summary: str | None,
        metadata: Mapping[str, object] | str | None = None,
        *,
        name: str | None = None,
        project: str | None = None,
        external_id: str | None = None,
        parent_id: str | None = None,
        id: str | None = None,
        at: str | None = None,
    ) -> str:
        """Begin a session, with a summary of what it sets out to do; its id.

        The project defaults to the configured one, else to that of the current folder. If the type and external id are
        known already, that session is resumed instead of a second one being made. It keeps its outcome, and without a
        summary (None) also its summary. Metadata is merged into what it has: a given key replaces, the others stay. A
        text as metadata is a JSON object, or is kept as `{"text": …}`.

        `id` chooses the id of a new session, or names the one to resume. InvalidInput if that one has another external
        id. `at` is when the session began or was resumed, by default now. A session that ended later than that stays
        ended.
        """
        values = {
            "type": checks.new_name(session_type, "session type"),
            "summary": checks.optional_content(summary, "summary"),
            "name": checks.optional_new_name(name, "session name"),
            "project": checks.new_name(project, "project") if project is not None else default_project(self._view),
            "external_id": checks.optional_new_name(external_id, "external id"),
            "parent_id": checks.optional_name(parent_id, "parent id"),
        }
        checks.optional_new_name(id, "session id")
        at = checks.optional_moment(at, "at")
        given = json_columns.dump_object(metadata, "metadata")
        with self._engine.write() as tx:
            if parent_id is not None:
                # The parent may not be forgotten in between.
                tx.lock(mutexes.leases(self._workspace))
                require(tx, self._workspace, parent_id)
            known = self._known(tx, values["type"], values["external_id"], id)
            now = tx.now()
            when = checks.past(at, now)
            if known is None:
                id = id or new_id(when)
                new = {**values, "summary": values["summary"] or "", "metadata": given, "author": self._view.author}
                if not tx.run(
                    _INSERT_IF_MISSING, workspace=self._workspace, id=id, status="active", now=when, **new
                ):  # another process chose the same id meanwhile
                    known = self._known(tx, values["type"], values["external_id"], id)
            if known is not None:
                id = known.id
                merged = json_columns.merge(known.metadata, given, "sessions.metadata")
                del values["type"], values["external_id"]
                past = int(at is not None)
                tx.run(_RESUME, workspace=self._workspace, id=id, now=when, past=past, metadata=merged, **values)
            assert id is not None
            tx.note(self._workspace, "session", id)
            _log_later(tx, "resumed" if known else "registered", id, session_type, values["project"])
            # An import adds to a session of the past before it completes it.
            silent = at is None and self._silent(tx, now)
        if silent:
            self.sweep()
        return id

    def ensure(self, id: str, name: str | None = None, *, at: str | None = None) -> Session:
        """The session with that id, created if it does not exist. A new one is idle: the situation report omits it.

        `at` is when a new one began, by default now.
        """
        checks.new_name(id, "session id")
        checks.optional_new_name(name, "session name")
        at = checks.optional_moment(at, "at")
        with self._engine.write() as tx:
            now = tx.now()
            if tx.one(_GET, workspace=self._workspace, id=id) is None:
                _require_own_name(id)
            made = tx.run(
                _INSERT_IF_MISSING,
                workspace=self._workspace,
                id=id,
                type=UNNAMED_TYPE,
                name=name,
                summary="",
                status="idle",
                project=None,
                external_id=None,
                parent_id=None,
                metadata="{}",
                author=self._view.author,
                now=checks.past(at, now),
            )
            if not made and name is not None:
                tx.run(_NAME, workspace=self._workspace, id=id, name=name)
            if made or name is not None:
                tx.note(self._workspace, "session", id)
            return self._record(require(tx, self._workspace, id), now)

    def heartbeat(self, id: str, summary: str | None = None, *, at: str | None = None) -> Session:
        """Record that the session is at work, with a new summary if given. Resumes a completed or abandoned session.

        `at` is when it was at work, by default now. A session that ended later than that stays ended.
        """
        checks.name(id, "session id")
        summary = checks.optional_content(summary, "summary")
        at = checks.optional_moment(at, "at")
        with self._engine.write() as tx:
            now = tx.now()
            when = checks.past(at, now)
            if at is None:
                session_leases.renew(tx, self._workspace, id, now)
            past = int(at is not None)
            row = tx.one(_BEAT, workspace=self._workspace, id=id, now=when, past=past, summary=summary)
            if row is None:
                raise unknown(self._workspace, id)
            tx.note(self._workspace, "session", id)
        return self._record(SessionRow(*row), now)

    def log(self, id: str, entry: str, *, at: str | None = None) -> LogEntry:
        """Note something done. Keeps an active session alive; does not resume one that has ended.

        `at` is when it was done, by default now.
        """
        checks.name(id, "session id")
        entry = checks.content(entry, "log entry")
        at = checks.optional_moment(at, "at")
        with self._engine.write() as tx:
            held = session_leases.ask_held(tx, self._workspace, id)
            now = tx.now()
            when = checks.past(at, now)
            if at is None:
                session_leases.renew(tx, self._workspace, id, now, held)
            given = when if at is not None else None
            by = self._view.author
            number, seq = exchanges.append(tx, self._workspace, id, "log", entry, now, at=given, author=by)
        return LogEntry(id=number, session_id=id, seq=seq, content=entry, created_at=when, author=by)

    def complete(
        self, id: str, outcome: str | None = None, *, summary: str | None = None, at: str | None = None
    ) -> Session:
        """End a session with what came of it, and release its leases in the same transaction.

        The summary stays. Without an outcome (None), that of an earlier completion stays as well. `summary` is the
        earlier name of `outcome`. `at` is when the session ended, by default now; never before it began. Its leases
        end now in any case.
        """
        checks.name(id, "session id")
        if outcome is not None and summary is not None:
            raise InvalidInput("outcome and summary are both given; summary is the earlier name of outcome.")
        outcome = checks.optional_content(summary if outcome is None else outcome, "outcome")
        at = checks.optional_moment(at, "at")
        with self._engine.write() as tx:
            tx.lock(mutexes.leases(self._workspace))
            now = tx.now()
            session_leases.end(tx, self._workspace, id, now, "completed")
            ended = checks.past(at, now)
            found = tx.one(_COMPLETE, workspace=self._workspace, id=id, now=ended, outcome=outcome)
            if found is None:
                raise unknown(self._workspace, id)
            row = SessionRow(*found)
            tx.note(self._workspace, "session", id)
            _log_later(tx, "completed", id, row.type, row.project)
        return record(row, stale_before=now)  # just heard of, so not stale

    def finish(self, id: str) -> Session:
        """Complete a session. If it has no outcome, that is what the assistant said last, else its last log entry."""
        with self._engine.write():
            done = self.complete(id)
            if done.outcome or not (self.quote(id, "assistant") or self.quote(id, "log")):
                return done
            return self.get(id)

    def quote(self, id: str, role: str) -> bool:
        """Copy an exchange of the session, shortened, into its summary or outcome; whether there is such an exchange.

        The first turn of the `user` becomes the summary. The last turn of the `assistant`, or the last `log` entry,
        becomes the outcome. The session names the exchange, so that forgetting the exchange also takes the copy.
        """
        checks.name(id, "session id")
        if role not in summaries.ROLES:
            raise InvalidInput(f"role is {role!r}; a session can quote one of {', '.join(summaries.ROLES)}.")
        with self._engine.write() as tx:
            # The row first: an exchange must not be forgotten between being read and being copied.
            if not summaries.lock_row(tx, self._workspace, id):
                raise unknown(self._workspace, id)
            return summaries.quote(tx, self._workspace, id, role)

    def delete(self, id: str) -> Receipt:
        """Forget a session with everything said, noted and learnt in it; see `Engram.forget`."""
        assert self._forget is not None, "only the facade's sessions can be deleted"
        return self._forget(id)

    def get(self, id: str) -> Session:
        """One session; SessionNotFound if there is none."""
        with self._engine.read() as tx:
            return self._record(require(tx, self._workspace, id), tx.now())

    def some(self, ids: Iterable[str]) -> dict[str, Session]:
        """Several sessions, by id, in one read. One that is not there is left out."""
        wanted = [checks.name(id, "session id") for id in ids]
        with self._engine.read() as tx:
            now = tx.now()
            rows = [SessionRow(*row) for row in tx.all(_SOME, workspace=self._workspace, ids=tx.array(wanted))]
            return {row.id: self._record(row, now) for row in rows}

    def find(self, external_id: str, session_type: str | None = None) -> Session | None:
        """The session with that id of its harness. If several types share the id, the one with the latest heartbeat."""
        checks.name(external_id, "external id")
        checks.optional_name(session_type, "session type")
        with self._engine.read() as tx:
            row = tx.one(_FIND, workspace=self._workspace, external_id=external_id, type=session_type)
            return self._record(SessionRow(*row), tx.now()) if row else None

    def resolve(self, text: str) -> str:
        """The id of the session that the text names: an id, the beginning or end of one, or a session's name.

        An exact id always wins. A text that fits several sessions is SessionAmbiguous.
        """
        # Imported here: a hook knows whole ids.
        from .session_lookup import resolve

        with self._engine.read() as tx:
            id = resolve(tx, self._workspace, text)
        if id is None:
            raise unknown(self._workspace, text)
        return id

    def active(self, *, dreams: bool = False, subagents: bool = True) -> list[Session]:
        """Sessions at work, the latest heartbeat first; stale ones too, and with `dreams` a pass that is running.

        `subagents=False` leaves out those whose parent is at work; `subagents` counts them.
        """
        shown = {"dreams": int(checks.flag(dreams, "dreams")), "subagents": int(checks.flag(subagents, "subagents"))}
        with self._engine.read() as tx:
            now = tx.now()
            rows = tx.all(_ACTIVE, workspace=self._workspace, **shown)
            return [self._record(SessionRow(*row), now) for row in rows]

    def recent(self, hours: float = 24, *, dreams: bool = False) -> list[Session]:
        """Sessions completed within the last hours, the latest first; with `dreams` passes of dreaming, too."""
        window = checks.seconds(hours, "hours") * 3_600
        shown = int(checks.flag(dreams, "dreams"))
        with self._engine.read() as tx:
            now = tx.now()
            since = later(now, -window)
            rows = tx.all(_COMPLETED, workspace=self._workspace, since=since, limit=checks.MAX_WHOLE, dreams=shown)
            return [self._record(SessionRow(*row), now) for row in rows]

    def subagents(self, *, active: bool = False) -> dict[str, int]:
        """How many subagents each session has, by its id; with `active` only those at work."""
        with self._engine.read() as tx:
            at_work = int(checks.flag(active, "active"))
            return dict(tx.all(_SUBAGENTS, workspace=self._workspace, active=at_work))

    def children(self, id: str, limit: int = 50) -> list[Session]:
        """The subagents that a session has started, the newest first; limit 0: all."""
        checks.whole(limit, "limit", least=0)
        with self._engine.read() as tx:
            require(tx, self._workspace, id)
            now = tx.now()
            rows = tx.all(_CHILDREN, workspace=self._workspace, id=id, limit=limit or checks.MAX_WHOLE)
            return [self._record(SessionRow(*row), now) for row in rows]

    def logs(self, id: str, limit: int = 20) -> list[LogEntry]:
        """What the session noted, the latest first; limit 0: all."""
        checks.whole(limit, "limit", least=0)
        with self._engine.read() as tx:
            require(tx, self._workspace, id)
            rows = tx.all(_LOGS, workspace=self._workspace, id=id, limit=limit or checks.MAX_WHOLE)
        return [LogEntry(*row) for row in rows]

    def need_pass(self) -> bool:
        """Whether an automatic pass is due for sessions that have ended. One read, for hooks.

        The pass decides again. `dreaming.due` says what else makes a pass due.
        """
        config = self._view.config
        with self._engine.read() as tx:
            now = tx.now()
            last = tx.value(LAST_AUTOMATIC, workspace=self._workspace)
            # A time in the future means that the clock was set back: ignore it.
            if last is not None and last <= now < later(last, config.auto_dream_every):
                return False
            waiting = tx.value(
                _DUE,
                workspace=self._workspace,
                silent=later(now, -config.stale_after),
                many=MANY_TURNS,
                agents=int(config.llm == "agent"),
            )
            return bool(waiting > tx.value(_LEFT_OVER, workspace=self._workspace, now=now))

    def stats(self, *, dreams: bool = False) -> Stats:
        """How much is in the workspace; passes of dreaming count as sessions only with `dreams`."""
        # Imported here: a hook counts nothing.
        from .counts import stats

        return stats(self._view, dreams=checks.flag(dreams, "dreams"))

    def sweep(self) -> int:
        """Abandon sessions that have been silent for too long and free their leases; how many there were.

        This is housekeeping, so it never waits: it does nothing on a busy or read-only store. It also does nothing
        inside a transaction of the caller, which it must not make longer.
        """
        if self._engine.joined:
            return 0
        try:
            with self._engine.read() as tx:
                if not self._silent(tx, tx.now()):
                    return 0
            with self._engine.write(patient=False) as tx:
                tx.lock(mutexes.leases(self._workspace))
                now = tx.now()
                since = later(now, -self._config.abandon_after)
                ids = tx.column(_ABANDON, workspace=self._workspace, since=since, now=now)
                _note_abandoned(tx, self._workspace, ids, now)
                return len(ids)
        except (StoreBusy, StoreReadOnly):
            return 0

    def _silent(self, tx: Transaction, now: str) -> bool:
        since = later(now, -self._config.abandon_after)
        return tx.one(_SILENT, workspace=self._workspace, since=since) is not None

    def _known(self, tx: Transaction, type: str | None, external_id: str | None, id: str | None) -> SessionRow | None:
        """The session to resume: the one with the harness's id, or the one that has the chosen id."""
        found = None
        if external_id is not None:
            tx.lock(f"external id/{self._workspace}/{external_id}")
            row = tx.one(_FIND, workspace=self._workspace, external_id=external_id, type=type)
            found = SessionRow(*row) if row else None
        if id is None or (found is not None and found.id == id):
            return found
        if found is not None:
            raise InvalidInput(
                f"External id {external_id!r} belongs to session {found.id!r}, so {id!r} cannot have it."
            )
        row = tx.one(_GET, workspace=self._workspace, id=id)
        if row is None:
            _require_own_name(id)
            return None
        named = SessionRow(*row)
        if external_id not in (None, named.external_id):
            has = "no external id" if named.external_id is None else f"the external id {named.external_id!r}"
            raise InvalidInput(f"Session {id!r} exists already and has {has}, not {external_id!r}. Choose another id.")
        return named

    def _record(self, row: SessionRow, now: str) -> Session:
        return record(row, stale_before=later(now, -self._config.stale_after))

    # Last, because its name hides the type from annotations that follow it.
    def list(
        self,
        limit: int = 0,
        *,
        dreams: bool = False,
        subagents: bool = True,
        before: tuple[str, str] | None = None,
        since: str | None = None,
        until: str | None = None,
        project: str | None = None,
        type: str | None = None,
        status: str | None = None,
    ) -> list[Session]:
        """Sessions of any status, the newest first; limit 0: all. With `dreams` passes of dreaming, too.

        `subagents=False` leaves out sessions with a parent; `subagents` counts them. `before`, the time and id of the
        last session of a page, gives the next page.

        Only those that began at `since` or later and before `until`, of that project, type and status (`active`,
        `idle`, `completed` or `abandoned`).
        """
        checks.whole(limit, "limit", least=0)
        at, id = _LAST if before is None else _place(before)
        shown = {"dreams": int(checks.flag(dreams, "dreams")), "subagents": int(checks.flag(subagents, "subagents"))}
        if status is not None and status not in STATUSES:
            raise InvalidInput(f"status is {status!r}; it must be one of {', '.join(STATUSES)}.")
        chosen = {
            "since": checks.optional_moment(since, "since") or "",
            "until": checks.optional_moment(until, "until") or _LAST[0],
            "project": checks.optional_name(project, "project"),
            "type": checks.optional_name(type, "type"),
            "status": status,
        }
        with self._engine.read() as tx:
            now = tx.now()
            page = {"at": at, "id": id, "limit": limit or checks.MAX_WHOLE}
            rows = tx.all(_NEWEST, workspace=self._workspace, **page, **shown, **chosen)
            return [self._record(SessionRow(*row), now) for row in rows]


def record(row: SessionRow, stale_before: str) -> Session:
    return Session(
        id=row.id,
        type=row.type,
        name=row.name,
        summary=row.summary,
        status=row.status,
        stale=row.status == "active" and row.heartbeat_at < stale_before,
        project=row.project,
        external_id=row.external_id,
        parent_id=row.parent_id,
        metadata=json_columns.load_object(row.metadata, "sessions.metadata"),
        created_at=row.created_at,
        heartbeat_at=row.heartbeat_at,
        ended_at=row.ended_at,
        turns=row.turns,
        outcome=row.outcome,
        author=row.author,
    )


def _place(before: tuple[str, str]) -> tuple[str, str]:
    at, id = before
    return checks.moment(at, "before"), checks.name(id, "session id")


def _require_own_name(id: str) -> None:
    """Refuse a name that messages use for the person. An earlier release may have made such a session."""
    if id == PERSON:
        raise InvalidInput(f"session id is {id!r}; messages to that name go to the person. Choose another id.")


def new_id(now: str) -> str:
    """`YYYYMMDD-HHMMSS-xxxxxxxx`: sorts by time, readable, and random enough for a workspace."""
    digits = now.replace("-", "").replace(":", "")
    return f"{digits[:8]}-{digits[9:15]}-{os.urandom(4).hex()}"


def require(tx: Transaction, workspace: str, id: str) -> SessionRow:
    """The session's row; an error when there is none."""
    checks.name(id, "session id")
    row = tx.one(_GET, workspace=workspace, id=id)
    if row is None:
        raise unknown(workspace, id)
    return SessionRow(*row)


def unknown(workspace: str, id: str) -> SessionNotFound:
    return SessionNotFound(
        f"There is no session {id!r} in workspace {workspace!r}.",
        typed="`engram session list --all` shows those there are.",
    )


def abandon(tx: Transaction, workspace: str, id: str, now: str) -> list[str]:
    """Abandon a session and its subagents and free their leases; the ids of those that were at work."""
    ids = tx.column(_ABANDON_FAMILY, workspace=workspace, id=id, now=now)
    _note_abandoned(tx, workspace, ids, now)
    return ids


def _note_abandoned(tx: Transaction, workspace: str, ids: Sequence[str], now: str) -> None:
    for id in ids:
        tx.note(workspace, "session", id)
        session_leases.end(tx, workspace, id, now, "abandoned")


def _log_later(tx: Transaction, event: str, id: str, type: str, project: str | None) -> None:
    """Log one line after the commit: names only, no stored text.

    Does nothing if `logging` was not imported. Hooks do not import it, because that takes time.
    """
    logging = sys.modules.get("logging")
    if logging is not None:
        line = f"session {shown_name(id, 200)} {event} ({shown_name(type)}, {shown_name(project or 'no project')})"
        tx.afterwards.append(lambda: logging.getLogger("engram.sessions").info("%s", line))
