"""Symbiont's session registry on an Engram store.

    from engram.compat.symbiont import Engram, sitrep      # was: from symbiont.engram import Engram, sitrep

Sessions, logs, locks and the world state are those of the workspace, so a program sees the agents that use Engram
itself, and they see it. What differs from Engram is kept as Symbiont had it:

- Results are dictionaries. Times are local, without a zone, so that callers can subtract them from `datetime.now()`.
- Unknown ids are ignored, and so is an empty log entry.
- A lock is advisory, on an exact string. Several sessions can hold the same one.
- A silent session stays active. Only another program on the same store abandons it.
- Passes of dreaming do not appear, and none is started.
"""

from __future__ import annotations

import json
import weakref
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import checks, config
from ..errors import InvalidInput, LeaseNotFound, SessionEnded, SessionNotFound
from ..records import WORLD
from ..safe_text import lines, visible
from . import symbiont_resources as resources
from .old_databases import open_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..records import Holder, Session

    #: The store that `Engram()` opens: the user's own one, unless a program sets another path here.
    DB_PATH: Path | str

__all__ = ["DB_PATH", "Engram", "SessionRegistry", "sitrep", "update_world_state"]

#: As in Symbiont, where callers know what a column holds.
Row = dict[str, Any]

#: Where a session's metadata keeps the text that a program gave, and one that was imported.
_METADATA, _IMPORTED_METADATA = "symbiont metadata", "metadata"
#: The type of the sessions of dreaming. A program's own type of that name is stored with a space behind it.
_DREAM = "dream"
#: How often a lock is tried again when the session is completed at the same time.
_TRIES = 5
_TEN_YEARS = 315_360_000.0
_SETTINGS = {"stale_after": 1_800.0, "abandon_after": _TEN_YEARS}
_NO_WORLD_STATE = "There is no world state yet. Write it with set_world_state(content)."


class Engram:
    """The registry in one store: a path, the URL of a PostgreSQL store, or the path of one of Symbiont's databases."""

    def __init__(self, db_path: Path | str | None = None) -> None:
        store = open_store(globals().get("DB_PATH") if db_path is None else db_path, "symbiont", **_SETTINGS)
        self._store = store
        #: The store in use.
        self.db_path = _place(store.settings.url)
        # Programs of Symbiont close nothing.
        self._close = weakref.finalize(self, store.close)

    def close(self) -> None:
        """Close the store. Without this call it is closed when the object is no longer used."""
        self._close()

    def __enter__(self) -> Engram:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get_world_state(self) -> str:
        """The world state; a hint before it is set for the first time."""
        block = self._store.blocks.get(WORLD)
        return _NO_WORLD_STATE if block is None else block.content

    def set_world_state(self, content: str, updated_by: str | None = None) -> None:
        self._store.world.set(content, updated_by=updated_by or None)

    def register(self, session_type: str, summary: str, metadata: str | None = None) -> str:
        """Begin a session; its id."""
        kept = None if metadata is None else {_METADATA: checks.text(metadata, "metadata", empty=True)}
        return self._store.sessions.register(_stored_type(session_type), summary, kept)

    def heartbeat(self, session_id: str, summary: str | None = None) -> None:
        """Record that the session is at work. An empty summary keeps the old one."""
        if self._find(session_id):
            with suppress(SessionNotFound):
                self._store.sessions.heartbeat(session_id, summary or None)

    def complete(self, session_id: str, completion_summary: str) -> None:
        """End the session and release its locks."""
        if self._find(session_id):
            with suppress(SessionNotFound):
                self._store.sessions.complete(session_id, completion_summary)

    def log(self, session_id: str, entry: str) -> None:
        if checks.text(entry, "entry", empty=True).strip() and self._find(session_id):
            with suppress(SessionNotFound):
                self._store.sessions.log(session_id, entry)

    def get_session(self, session_id: str) -> Row | None:
        session = self._find(session_id)
        return _session(session) if session else None

    def get_active_sessions(self) -> list[Row]:
        """Sessions at work, the latest heartbeat first."""
        return [_session(session) for session in self._store.sessions.active()]

    def get_recent_sessions(self, hours: float = 24) -> list[Row]:
        """Sessions that were completed within the last hours, the latest first."""
        if isinstance(hours, bool) or not isinstance(hours, int | float):
            raise InvalidInput(f"hours is {hours!r}; it must be a number.")
        within = min(max(hours, 0.0), _TEN_YEARS / 3_600)
        return [_session(session) for session in self._store.sessions.recent(within)]

    def get_session_logs(self, session_id: str, limit: int = 20) -> list[Row]:
        """What the session logged, the latest first. A negative limit means all, as it does in SQLite."""
        checks.whole(limit, "limit", least=-checks.MAX_WHOLE)
        if limit == 0 or not self._find(session_id):
            return []
        try:
            entries = self._store.sessions.logs(session_id, max(limit, 0))
        except SessionNotFound:
            return []
        return [
            {
                "id": entry.id,
                "session_id": entry.session_id,
                "timestamp": _local(entry.created_at),
                "entry": entry.content,
            }
            for entry in entries
        ]

    def lock_resource(self, session_id: str, resource: str, note: str | None = None) -> None:
        """Lock a resource. A session that locks it again replaces its note and its time."""
        exact = resources.stored(resource)
        if not self._find(session_id):
            return
        for _ in range(_TRIES):
            try:
                return self._claim(session_id, exact, note)
            except SessionNotFound:
                return
            except SessionEnded:
                # A session that locks something is at work again. It may be completed once more meanwhile.
                with suppress(SessionNotFound):
                    self._store.sessions.heartbeat(session_id)

    def release_resource(self, session_id: str, resource: str) -> None:
        exact = resources.stored(resource)
        if self._find(session_id):
            with suppress(LeaseNotFound, SessionNotFound):
                self._store.leases.release(session_id, exact)

    def check_locks(self, resource: str) -> list[Row]:
        """The locks on exactly this resource, the oldest first, and the leases of Engram's own agents that cover it."""
        holders = self._store.leases.check(resources.stored(resource))
        with suppress(InvalidInput):  # not every string can be a path
            covering = self._store.leases.check(resource)
            holders += [holder for holder in covering if not resources.is_exact(holder.resource)]
        holders.sort(key=lambda holder: holder.claimed_at)
        return [_lock(holder) for holder in holders if holder.session_type != _DREAM]

    def get_situation_report(self) -> str:
        """The world state, the sessions at work and the locks, whole."""
        parts = [lines(self.get_world_state())]
        active = self._store.sessions.active()
        if active:
            parts += ["", f"**Active sessions ({len(active)}):**"]
            parts += [
                f"- {'⚠ stale' if session.stale else '●'} `{visible(session.id)}` "
                f"({visible(_given_type(session.type))}): {visible(' '.join(session.summary[:100].splitlines()))}"
                for session in active
            ]
        locks = self._locks()
        if locks:
            parts += ["", "**Locked resources:**"]
            parts += [f"- `{visible(resource)}` by `{visible(session_id)}`" for resource, session_id in locks]
        return "\n".join(parts)

    def stats(self) -> dict[str, int]:
        counts = self._store.sessions.stats()
        return {
            "total_sessions": counts.sessions,
            "active_sessions": counts.active,
            "completed_sessions": counts.completed,
            "total_logs": counts.logs,
            "active_locks": len(self._locks()),
        }

    def _find(self, session_id: str) -> Session | None:
        """The session; None if there is none with that id, or if it is a pass of dreaming."""
        try:
            session = self._store.sessions.get(session_id)
        except (SessionNotFound, InvalidInput):
            return None
        return None if session.type == _DREAM else session

    def _claim(self, session_id: str, exact: str, note: str | None) -> None:
        with self._store.write():
            # Claiming again would keep the time, and without a note also the note.
            with suppress(LeaseNotFound):
                self._store.leases.release(session_id, exact)
            self._store.leases.claim(session_id, exact, note)

    def _locks(self) -> list[tuple[str, str]]:
        """The resource and the session of each lock, the oldest first."""
        dreams = {session.id for session in self._store.sessions.active(dreams=True) if session.type == _DREAM}
        return [
            (resources.given(lease.resource), lease.session_id)
            for lease in self._store.leases.list()
            if lease.session_id not in dreams
        ]


#: Symbiont's earlier name of the class.
SessionRegistry = Engram


def sitrep() -> str:
    """The situation report of the default store."""
    with Engram() as eng:
        return eng.get_situation_report()


def update_world_state(content: str, session_id: str | None = None) -> None:
    """Set the world state of the default store."""
    with Engram() as eng:
        eng.set_world_state(content, session_id)


if not TYPE_CHECKING:  # type checkers know the one name

    def __getattr__(name: str) -> Path | str:
        # Looked up when it is used: importing this module must not read the user's settings.
        if name == "DB_PATH":
            return _place(config.load().url)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _place(url: str) -> Path | str:
    return url if url.startswith("postgresql://") else Path(url)


def _session(session: Session) -> Row:
    completed = session.status == "completed"
    return {
        "id": session.id,
        "session_type": _given_type(session.type),
        "summary": session.summary,
        "status": session.status,
        "started_at": _local(session.created_at),
        "last_heartbeat": _local(session.heartbeat_at),
        "completed_at": _local(session.ended_at) if completed and session.ended_at else None,
        "completion_summary": session.outcome if completed else session.outcome or None,
        "metadata": _given_metadata(session.metadata),
    }


def _stored_type(given: str) -> str:
    return f"{given} " if str(given).rstrip(" ") == _DREAM else given


def _given_type(stored: str) -> str:
    return stored[:-1] if stored != _DREAM and stored.rstrip(" ") == _DREAM else stored


def _given_metadata(metadata: Mapping[str, object]) -> str | None:
    """The text that a program gave, or what Engram's own agents stored, as JSON."""
    if len(metadata) == 1:
        text = metadata.get(_METADATA, metadata.get(_IMPORTED_METADATA))
        if isinstance(text, str):
            return text
    return json.dumps(metadata, ensure_ascii=False) if metadata else None


def _lock(holder: Holder) -> Row:
    return {
        "resource": resources.given(holder.resource),
        "session_id": holder.session_id,
        "locked_at": _local(holder.claimed_at),
        "note": holder.note,
        "summary": holder.summary,
        "session_type": _given_type(holder.session_type),
    }


def _local(stamp: str) -> str:
    """A stored time as local time without a zone."""
    return datetime.fromisoformat(stamp[:-1]).replace(tzinfo=UTC).astimezone().replace(tzinfo=None).isoformat()
