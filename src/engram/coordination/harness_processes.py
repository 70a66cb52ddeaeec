"""Which process of a harness runs which session, so that its hooks and its MCP server are one session.

A hook notes the process of its harness when a session starts. The MCP server, a child of the same process, finds the
session there. Several sessions may belong to one process, one after the other or at once; the caller decides. One
session may belong to several processes, if it was resumed elsewhere.

An MCP server notes its own process, and that of its harness, with the session that it registers. So the hooks of the
same harness find that session. A session whose processes are all gone has ended, even if no event said so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .. import checks, mutexes, processes
from . import sessions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..storage.engine import Transaction
    from ..store_view import StoreView

#: Noted where the process cannot be determined. It says only that hooks report the session.
UNKNOWN = "unknown"

# Only a start changes the time: a late event of an earlier session must not make that one the newest.
_NOTE = """
INSERT INTO harness_processes (workspace, process, session_id, harness, alone, at)
VALUES (:workspace, :process, :session, :harness, :alone, :now)
ON CONFLICT (workspace, process, session_id)
DO UPDATE SET at = CASE WHEN :starts = 1 THEN excluded.at ELSE harness_processes.at END,
              alone = CASE WHEN :alone = 1 THEN 1 ELSE harness_processes.alone END
"""
_LEAVE = "DELETE FROM harness_processes WHERE workspace = :workspace AND process = :process AND session_id = :session"
_STARTED = """
SELECT s.id, s.status, s.project, p.at, p.alone
FROM harness_processes p JOIN sessions s ON s.workspace = p.workspace AND s.id = p.session_id
WHERE p.workspace = :workspace AND p.process = :process
ORDER BY p.at DESC, s.id DESC
"""
_OF_SESSION = """
SELECT process, harness FROM harness_processes WHERE workspace = :workspace AND session_id = :session ORDER BY process
"""
# A subagent runs in the processes of its parent.
_OF_FAMILY = """
SELECT p.process, COALESCE(s.parent_id, s.id)
FROM sessions s JOIN harness_processes p
  ON p.workspace = s.workspace AND (p.session_id = s.id OR p.session_id = s.parent_id)
WHERE s.workspace = :workspace AND s.id = :session
"""
_REGISTERED = """
SELECT DISTINCT s.id
FROM harness_processes p JOIN sessions s ON s.workspace = p.workspace AND s.id = p.session_id
WHERE p.workspace = :workspace AND p.harness = :process AND s.status = 'active' AND s.id <> :session
  AND NOT EXISTS (SELECT 1 FROM harness_processes o
                  WHERE o.workspace = :workspace AND o.session_id = s.id AND o.harness IS NULL)
"""
# A lease that the other session holds on the same resource stays with that session, and this one ends.
_MOVE_LEASES = """
UPDATE leases SET session_id = :to
WHERE workspace = :workspace AND session_id = :session AND resource >= '' AND ended_at IS NULL
  AND (expires_at IS NULL OR expires_at > :now)
  AND NOT EXISTS (SELECT 1 FROM leases o WHERE o.workspace = :workspace AND o.session_id = :to
                  AND o.resource = leases.resource AND o.ended_at IS NULL)
RETURNING token
"""
_MOVE_MESSAGES = """
UPDATE deliveries SET session_id = :to
WHERE workspace = :workspace AND session_id = :session AND read_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM deliveries o WHERE o.message_id = deliveries.message_id AND o.session_id = :to)
RETURNING message_id
"""


class Started(NamedTuple):
    """A session that a process started."""

    id: str
    status: str
    project: str | None
    at: str
    #: Whether its start shows that the process has left its earlier sessions.
    alone: bool


class HarnessProcesses:
    def __init__(self, view: StoreView) -> None:
        self._view = view
        self._engine = view.engine
        self._workspace = view.workspace

    def note(self, session_id: str, process: str | None, *, starts: bool = False, alone: bool = False) -> None:
        """Note that the harness's process runs the session.

        With `starts` it has started or resumed the session just now, with `alone` it has left its earlier sessions.
        """
        checks.name(session_id, "session id")
        checks.optional_name(process, "process")
        values = {"process": process or UNKNOWN, "harness": None, "starts": int(starts), "alone": int(alone)}
        with self._engine.write() as tx:
            sessions.require(tx, self._workspace, session_id)
            tx.run(_NOTE, workspace=self._workspace, session=session_id, now=tx.now(), **values)

    def note_server(self, session_id: str, server: str, harness: str | None) -> None:
        """Note the process of an MCP server that registered the session, and the harness that started the server."""
        checks.name(session_id, "session id")
        values = {"process": checks.name(server, "process"), "harness": harness or UNKNOWN, "starts": 1, "alone": 0}
        with self._engine.write() as tx:
            sessions.require(tx, self._workspace, session_id)
            tx.run(_NOTE, workspace=self._workspace, session=session_id, now=tx.now(), **values)

    def confirm(self, session_id: str, process: str | None) -> None:
        """Note where a session that hooks report is at work now, if none of its noted processes is that one.

        If all of them are gone, the process that hooks find is not the harness. Then it says nothing about the end
        of the session, so the process counts as unknown.
        """
        noted = self.of(session_id)
        if noted and process not in noted and UNKNOWN not in noted:
            self.note(session_id, process if any(map(processes.runs, noted)) else None)

    def leave(self, session_id: str, process: str | None) -> None:
        """Note that the process no longer runs the session."""
        with self._engine.write() as tx:
            tx.run(_LEAVE, workspace=self._workspace, process=process or UNKNOWN, session=session_id)

    def started(self, process: str) -> list[Started]:
        """The sessions that the process started, the newest start first."""
        with self._engine.read() as tx:
            rows = tx.all(_STARTED, workspace=self._workspace, process=process)
        return [Started(id, status, project, at, bool(alone)) for id, status, project, at, alone in rows]

    @staticmethod
    def current(started: Sequence[Started]) -> Started | None:
        """The session of a process that is at work, if it is certain which one that is."""
        live = [each for each in started if each.status == "active"]
        return live[0] if len(live) == 1 or (live and live[0].alone) else None

    def of(self, session_id: str) -> list[str]:
        """The harnesses' processes that run or ran the session; empty if no hook reports it."""
        return [process for process, harness in self.noted(session_id) if harness is None]

    def runs_elsewhere(self, session_id: str, process: str | None) -> bool:
        """Whether the session is also at work in another process of this machine: not this one, nor its servers."""
        noted = self.noted(session_id)
        others = [each for each, harness in noted if each != process and (harness is None or harness != process)]
        return any(map(processes.runs, others))

    def free_gone(self, session_ids: Iterable[str]) -> bool:
        """Abandon those of the sessions whose processes are all gone, and free their leases; whether there were any.

        A session is kept if no process was noted for it, or if one of them cannot be seen from here: it is on another
        machine, in another container, or was noted before the machine was started. Does nothing inside a transaction
        of the caller, which must not wait for a look at processes.
        """
        if self._engine.joined:
            return False
        return any([self._free_if_gone(each) for each in dict.fromkeys(session_ids)])

    def take_over(self, session_id: str, process: str | None) -> None:
        """Hand over to the session what MCP servers of the process registered, if they act as this session now.

        Does nothing inside a transaction of the caller, which may have locked sessions before leases. Then the next
        call of the server hands over.
        """
        now = self.current(self.started(process)) if process and not self._engine.joined else None
        if now is None or now.id != session_id:
            return
        with self._engine.read() as tx:
            own = tx.column(_REGISTERED, workspace=self._workspace, process=process, session=session_id)
        for each in own:
            self.hand_over(each, session_id)

    def hand_over(self, session_id: str, to: str) -> None:
        """Move a session's leases and unread messages to another session of the same client, and complete it.

        The leases keep their tokens. A lease on what the other session holds too ends.
        """
        with self._engine.write() as tx:
            tx.lock(mutexes.leases(self._workspace))
            sessions.require(tx, self._workspace, to)
            values = {"workspace": self._workspace, "session": session_id, "to": to}
            for token in tx.column(_MOVE_LEASES, now=tx.now(), **values):
                tx.note(self._workspace, "lease", token)
            for message in tx.column(_MOVE_MESSAGES, **values):
                tx.note(self._workspace, "message", message)
            sessions.Sessions(self._view).complete(session_id)

    def noted(self, session_id: str) -> list[tuple[str, str | None]]:
        """The processes that were noted with a session, and for that of an MCP server the harness that started it."""
        with self._engine.read() as tx:
            rows = tx.all(_OF_SESSION, workspace=self._workspace, session=session_id)
        return [(process, harness) for process, harness in rows]

    def _family(self, tx: Transaction, session_id: str) -> tuple[set[str], str]:
        """The processes of a session and its parent, and the id of the parent or of the session itself."""
        rows = tx.all(_OF_FAMILY, workspace=self._workspace, session=session_id)
        return {process for process, _ in rows}, next((head for _, head in rows), session_id)

    def _free_if_gone(self, session_id: str) -> bool:
        with self._engine.read() as tx:
            noted, head = self._family(tx, session_id)
        if not noted or any(processes.runs(each) is not False for each in noted):
            return False
        with self._engine.write() as tx:
            tx.lock(mutexes.leases(self._workspace))
            # Another process may have resumed the session since.
            if self._family(tx, session_id)[0] != noted:
                return False
            return bool(sessions.abandon(tx, self._workspace, head, tx.now()))
