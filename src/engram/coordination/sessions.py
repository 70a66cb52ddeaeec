"""Sessions: who is at work, since when, on what, and whether they still are.

`stale` is never stored: it follows from the last heartbeat when a session is read. Only after a day of silence is a
session's status changed, by a sweep that costs one indexed look when there is nothing to do and gives way to everybody
else's writes. A session's end frees its leases in the same transaction, so the statements for that are here.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .. import checks, json_columns, mutexes
from ..clock import later
from ..errors import InvalidInput, SessionNotFound, StoreBusy, StoreReadOnly
from ..memory import exchanges
from ..records import LogEntry, Session, Stats
from ..redact import redact
from . import summaries
from .projects import project_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..records import Receipt
    from ..storage.engine import Row, Transaction
    from ..store_view import StoreView

#: The type of a session that was made by `ensure` and never said what it is.
UNNAMED_TYPE = "chat"

_COLUMNS = (
    "id, type, name, summary, status, project, external_id, parent_id, metadata, created_at, heartbeat_at, ended_at, "
    "turns - turns_gone"
)
_INSERT = """
INSERT INTO sessions (workspace, id, type, name, summary, status, project, external_id, parent_id, metadata,
                      last_seq, created_at, heartbeat_at)
VALUES (:workspace, :id, :type, :name, :summary, :status, :project, :external_id, :parent_id, :metadata, 0, :now, :now)
"""
_INSERT_IF_MISSING = _INSERT + "ON CONFLICT (workspace, id) DO NOTHING"
_GET = "SELECT " + _COLUMNS + " FROM sessions WHERE workspace = :workspace AND id = :id"
_FIND = (
    "SELECT "
    + _COLUMNS
    + """ FROM sessions
WHERE workspace = :workspace AND external_id = :external_id
  AND (CAST(:type AS TEXT) IS NULL OR type = :type)
ORDER BY heartbeat_at DESC, id DESC LIMIT 1
"""
)
_RESUME = """
UPDATE sessions
SET status = 'active', heartbeat_at = :now, ended_at = NULL, summary = COALESCE(:summary, summary),
    summary_from = CASE WHEN CAST(:summary AS TEXT) IS NULL THEN summary_from ELSE NULL END,
    name = COALESCE(:name, name), project = :project, parent_id = COALESCE(:parent_id, parent_id), metadata = :metadata
WHERE workspace = :workspace AND id = :id
"""
_BEAT = (
    """
UPDATE sessions
SET status = 'active', heartbeat_at = :now, ended_at = NULL, summary = COALESCE(:summary, summary),
    summary_from = CASE WHEN CAST(:summary AS TEXT) IS NULL THEN summary_from ELSE NULL END
WHERE workspace = :workspace AND id = :id
RETURNING """
    + _COLUMNS
)
_COMPLETE = (
    """
UPDATE sessions
SET status = 'completed', heartbeat_at = :now, ended_at = :now, summary = COALESCE(:summary, summary),
    summary_from = CASE WHEN CAST(:summary AS TEXT) IS NULL THEN summary_from ELSE NULL END
WHERE workspace = :workspace AND id = :id
RETURNING """
    + _COLUMNS
)
_NAME = "UPDATE sessions SET name = :name WHERE workspace = :workspace AND id = :id"
ACTIVE = (
    "SELECT "
    + _COLUMNS
    + """ FROM sessions WHERE workspace = :workspace AND status = 'active' AND (:dreams = 1 OR type <> 'dream')
ORDER BY heartbeat_at DESC, id DESC"""
)
COMPLETED = (
    "SELECT "
    + _COLUMNS
    + """ FROM sessions
WHERE workspace = :workspace AND status = 'completed' AND heartbeat_at >= :since AND (:dreams = 1 OR type <> 'dream')
ORDER BY heartbeat_at DESC, id DESC LIMIT :limit"""
)
_NEWEST = (
    "SELECT "
    + _COLUMNS
    + """ FROM sessions WHERE workspace = :workspace AND (:dreams = 1 OR type <> 'dream')
ORDER BY created_at DESC, id DESC LIMIT :limit"""
)
_LOGS = """
SELECT id, session_id, seq, content, created_at FROM exchanges
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
# Every resource is >= '': that leads SQLite to the index of the live ones, away from that of all a session ever had.
_EXCLUSIVE_HELD = """
SELECT token, ttl FROM leases
WHERE workspace = :workspace AND session_id = :id AND resource >= '' AND ended_at IS NULL
  AND exclusive = 1 AND expires_at > :now
ORDER BY token
"""
_RENEW = """
UPDATE leases SET expires_at = :expires
WHERE workspace = :workspace AND token = :token AND ended_at IS NULL AND expires_at > :now
"""
# Takes the rows' locks and changes nothing: what may be renewed is decided by the time after waiting for them.
_TAKE = """
UPDATE leases SET exclusive = 1
WHERE workspace = :workspace AND session_id = :id AND resource >= '' AND ended_at IS NULL AND exclusive = 1
"""
_END_LEASES = """
UPDATE leases SET ended_at = :now, ended_because = :because
WHERE workspace = :workspace AND session_id = :id AND resource >= '' AND ended_at IS NULL
  AND (expires_at IS NULL OR expires_at > :now)
RETURNING token
"""


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
        metadata: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        project: str | None = None,
        external_id: str | None = None,
        parent_id: str | None = None,
    ) -> str:
        """Begin a session; its id.

        The project defaults to the configured one, else to that of the current folder. A type and external id that are
        known already are the same session come back: it is made active again instead of being doubled. Without a
        summary (None) it keeps the one it has.
        """
        values = {
            "type": checks.new_name(session_type, "session type"),
            "summary": checks.optional_content(summary, "summary"),
            "name": checks.optional_new_name(name, "session name"),
            "project": checks.new_name(project, "project") if project is not None else self._default_project(),
            "external_id": checks.optional_new_name(external_id, "external id"),
            "parent_id": checks.optional_name(parent_id, "parent id"),
            "metadata": json_columns.dump_object(metadata, "metadata"),
        }
        with self._engine.write() as tx:
            if parent_id is not None:
                # The parent may not be forgotten in between.
                tx.lock(mutexes.leases(self._workspace))
                require(tx, self._workspace, parent_id)
            known = self._known(tx, values["type"], values["external_id"])
            now = tx.now()
            id = known or new_id(now)
            if known:
                del values["type"], values["external_id"]
                tx.run(_RESUME, workspace=self._workspace, id=id, now=now, **values)
            else:
                values["summary"] = values["summary"] or ""
                tx.run(_INSERT, workspace=self._workspace, id=id, status="active", now=now, **values)
            tx.note(self._workspace, "session", id)
            silent = self._silent(tx, now)
        if silent:
            self.sweep()
        return id

    def ensure(self, id: str, name: str | None = None) -> Session:
        """The session of that id, made if need be: idle, so not in the situation report until it says something."""
        checks.new_name(id, "session id")
        checks.optional_new_name(name, "session name")
        with self._engine.write() as tx:
            now = tx.now()
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
                now=now,
            )
            if not made and name is not None:
                tx.run(_NAME, workspace=self._workspace, id=id, name=name)
            if made or name is not None:
                tx.note(self._workspace, "session", id)
            return self._record(require(tx, self._workspace, id), now)

    def heartbeat(self, id: str, summary: str | None = None) -> Session:
        """Say that the session is at work, and perhaps on what; brings a completed or abandoned one back."""
        checks.name(id, "session id")
        summary = checks.optional_content(summary, "summary")
        with self._engine.write() as tx:
            now = tx.now()
            renew_exclusive(tx, self._workspace, id, now)
            row = tx.one(_BEAT, workspace=self._workspace, id=id, now=now, summary=summary)
            if row is None:
                raise unknown(self._workspace, id)
            tx.note(self._workspace, "session", id)
        return record(row, stale_before=now)  # just heard of, so not stale

    def log(self, id: str, entry: str) -> LogEntry:
        """Note something done. Keeps an active session alive, and never revives one that has ended."""
        checks.name(id, "session id")
        entry = checks.content(entry, "log entry")
        with self._engine.write() as tx:
            now = tx.now()
            renew_exclusive(tx, self._workspace, id, now)
            number, seq = exchanges.append(tx, self._workspace, id, "log", entry, now)
        return LogEntry(id=number, session_id=id, seq=seq, content=entry, created_at=now)

    def complete(self, id: str, summary: str | None = None) -> Session:
        """End a session with what it achieved; its leases are free in the same moment."""
        checks.name(id, "session id")
        summary = checks.optional_content(summary, "summary")
        with self._engine.write() as tx:
            tx.lock(mutexes.leases(self._workspace))
            now = tx.now()
            end_leases(tx, self._workspace, id, now, "completed")
            row = tx.one(_COMPLETE, workspace=self._workspace, id=id, now=now, summary=summary)
            if row is None:
                raise unknown(self._workspace, id)
            tx.note(self._workspace, "session", id)
        return record(row, stale_before=now)  # just heard of, so not stale

    def quote(self, id: str, role: str) -> bool:
        """Let an exchange of the session be its summary, shortened; whether there is such an exchange.

        That is the first turn of the `user`, the last one of the `assistant`, or the last `log` entry. The session
        names the exchange, so forgetting that one also takes the summary.
        """
        checks.name(id, "session id")
        if role not in summaries.ROLES:
            raise InvalidInput(f"role is {role!r}; a summary can quote one of {', '.join(summaries.ROLES)}.")
        with self._engine.write() as tx:
            # First the row: an exchange must not be forgotten between reading and repeating it.
            if not summaries.take(tx, self._workspace, id):
                raise unknown(self._workspace, id)
            return summaries.quote(tx, self._workspace, id, role)

    def delete(self, id: str) -> Receipt:
        """Forget a session with everything said, noted and learnt in it; see `Engram.forget`."""
        assert self._forget is not None, "only the facade's sessions can be deleted"
        return self._forget(id)

    def get(self, id: str) -> Session:
        with self._engine.read() as tx:
            return self._record(require(tx, self._workspace, id), tx.now())

    def find(self, external_id: str, session_type: str | None = None) -> Session | None:
        """The session a harness knows under its own id: the one last heard of, when several types share it."""
        checks.name(external_id, "external id")
        checks.optional_name(session_type, "session type")
        with self._engine.read() as tx:
            row = tx.one(_FIND, workspace=self._workspace, external_id=external_id, type=session_type)
            return self._record(row, tx.now()) if row else None

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

    def active(self, *, dreams: bool = False) -> list[Session]:
        """Sessions at work, the latest heartbeat first; stale ones too, and with `dreams` a pass that is running."""
        shown = int(checks.flag(dreams, "dreams"))
        with self._engine.read() as tx:
            now = tx.now()
            return [self._record(row, now) for row in tx.all(ACTIVE, workspace=self._workspace, dreams=shown)]

    def recent(self, hours: float = 24, *, dreams: bool = False) -> list[Session]:
        """Sessions completed within the last hours, the latest first; with `dreams` passes of dreaming, too."""
        window = checks.seconds(hours, "hours") * 3_600
        shown = int(checks.flag(dreams, "dreams"))
        with self._engine.read() as tx:
            now = tx.now()
            since = later(now, -window)
            rows = tx.all(COMPLETED, workspace=self._workspace, since=since, limit=checks.MAX_WHOLE, dreams=shown)
            return [self._record(row, now) for row in rows]

    def logs(self, id: str, limit: int = 20) -> list[LogEntry]:
        """What the session noted, the latest first; limit 0: all."""
        checks.whole(limit, "limit", least=0)
        with self._engine.read() as tx:
            require(tx, self._workspace, id)
            rows = tx.all(_LOGS, workspace=self._workspace, id=id, limit=limit or checks.MAX_WHOLE)
        return [LogEntry(*row) for row in rows]

    def stats(self, *, dreams: bool = False) -> Stats:
        """How much is in the workspace; passes of dreaming count as sessions only with `dreams`."""
        # Imported here: a hook counts nothing.
        from .counts import stats

        return stats(self._view, dreams=checks.flag(dreams, "dreams"))

    def sweep(self) -> int:
        """Abandon what has been silent for too long and free its leases; how many sessions that was.

        Housekeeping, so it waits for nobody: on a busy or read-only store it does nothing, and neither inside a
        transaction of the caller's, which it must not make longer.
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
                ids = [row[0] for row in tx.all(_ABANDON, workspace=self._workspace, since=since, now=now)]
                for id in ids:
                    tx.note(self._workspace, "session", id)
                    end_leases(tx, self._workspace, id, now, "abandoned")
                return len(ids)
        except (StoreBusy, StoreReadOnly):
            return 0

    def _silent(self, tx: Transaction, now: str) -> bool:
        since = later(now, -self._config.abandon_after)
        return tx.one(_SILENT, workspace=self._workspace, since=since) is not None

    def _default_project(self) -> str | None:
        # Nobody chose the name of the current folder here, so a secret in it is taken out, not refused.
        return self._config.project or redact(project_name()) or None

    def _known(self, tx: Transaction, type: str | None, external_id: str | None) -> str | None:
        if external_id is None:
            return None
        tx.lock(f"external id/{self._workspace}/{external_id}")
        row = tx.one(_FIND, workspace=self._workspace, external_id=external_id, type=type)
        return row[0] if row else None

    def _record(self, row: Row, now: str) -> Session:
        return record(row, stale_before=later(now, -self._config.stale_after))

    # Last, because its name hides the type from annotations that follow it.
    def list(self, limit: int = 0, *, dreams: bool = False) -> list[Session]:
        """Sessions of any status, the newest first; limit 0: all. With `dreams` passes of dreaming, too."""
        checks.whole(limit, "limit", least=0)
        shown = int(checks.flag(dreams, "dreams"))
        with self._engine.read() as tx:
            now = tx.now()
            rows = tx.all(_NEWEST, workspace=self._workspace, limit=limit or checks.MAX_WHOLE, dreams=shown)
            return [self._record(row, now) for row in rows]


def record(row: Row, stale_before: str) -> Session:
    """A row of `_COLUMNS` as a record."""
    id, type, name, summary, status, project, external_id, parent_id, metadata, created, heartbeat, ended, turns = row
    return Session(
        id=id,
        type=type,
        name=name,
        summary=summary,
        status=status,
        stale=status == "active" and heartbeat < stale_before,
        project=project,
        external_id=external_id,
        parent_id=parent_id,
        metadata=json_columns.load_object(metadata, "sessions.metadata"),
        created_at=created,
        heartbeat_at=heartbeat,
        ended_at=ended,
        turns=turns,
    )


def new_id(now: str) -> str:
    """`YYYYMMDD-HHMMSS-xxxxxxxx`: sorts by time, readable, and random enough for a workspace."""
    digits = now.replace("-", "").replace(":", "")
    return f"{digits[:8]}-{digits[9:15]}-{os.urandom(4).hex()}"


def require(tx: Transaction, workspace: str, id: str) -> Row:
    """The session's row; an error when there is none."""
    checks.name(id, "session id")
    row = tx.one(_GET, workspace=workspace, id=id)
    if row is None:
        raise unknown(workspace, id)
    return row


def unknown(workspace: str, id: str) -> SessionNotFound:
    return SessionNotFound(
        f"There is no session {id!r} in workspace {workspace!r}; `engram session list --all` shows those there are."
    )


def renew_exclusive(tx: Transaction, workspace: str, id: str, now: str) -> None:
    """A sign of life also renews the session's exclusive leases; one that has expired stays so."""
    held = tx.all(_EXCLUSIVE_HELD, workspace=workspace, id=id, now=now)
    if held:
        tx.lock(mutexes.leases(workspace))
        tx.run(_TAKE, workspace=workspace, id=id)
        now = tx.now()
    for token, ttl in held:
        if tx.run(_RENEW, workspace=workspace, token=token, now=now, expires=later(now, ttl)):
            tx.note(workspace, "lease", token)


def end_leases(tx: Transaction, workspace: str, id: str, now: str, because: str) -> list[int]:
    """End all live leases of a session; their tokens."""
    ended = tx.all(_END_LEASES, workspace=workspace, id=id, now=now, because=because)
    for (token,) in ended:
        tx.note(workspace, "lease", token)
    return [token for (token,) in ended]
