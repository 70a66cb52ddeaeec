"""What the library returns: plain, immutable records.

They are named tuples because hooks start on every tool call: `dataclasses` alone would cost them more time than
everything Engram does there. Build them by keyword; read them by name.
"""

from __future__ import annotations

from typing import NamedTuple


class Session(NamedTuple):
    """One agent at work."""

    #: `YYYYMMDD-HHMMSS-xxxxxxxx` when Engram made it; whatever the caller chose with `ensure`.
    id: str
    #: What kind of agent: `claude-code`, `codex`, a name of one's own.
    type: str
    #: A name for people, if it was given one.
    name: str | None
    #: What it is doing, or, once completed, what it did.
    summary: str
    #: `active`, `idle`, `completed` or `abandoned`.
    status: str
    #: Active, but silent for longer than the setting `stale_after`; derived at the time of reading.
    stale: bool
    #: The repository or folder it works in.
    project: str | None
    #: The harness's own id for it.
    external_id: str | None
    #: The session that started it, for subagents.
    parent_id: str | None
    #: Whatever the agent wants to keep about itself; JSON.
    metadata: dict[str, object]
    created_at: str
    heartbeat_at: str
    #: When it was completed or abandoned.
    ended_at: str | None


class LogEntry(NamedTuple):
    """One line of a session's log: an exchange of role `log`."""

    id: int
    session_id: str
    #: The place among all exchanges of the session, in commit order.
    seq: int
    content: str
    created_at: str


class Stats(NamedTuple):
    """How much is in a workspace."""

    sessions: int
    active: int
    #: Of the active ones, those silent for too long.
    stale: int
    completed: int
    abandoned: int
    logs: int
    #: Live leases.
    leases: int
    blocks: int


class Holder(NamedTuple):
    """A live claim as another session sees it: who has it, and whether they are still around."""

    session_id: str
    session_type: str
    summary: str
    stale: bool
    resource: str
    exclusive: bool
    note: str | None
    claimed_at: str
    #: When it ends by itself, if it does.
    expires_at: str | None
    #: Seconds since it was claimed.
    age: float


class Lease(NamedTuple):
    """A session's claim on a resource."""

    #: The fencing token; rises with every new claim in a workspace.
    token: int
    session_id: str
    #: As stored: `<project>:<path>`, an absolute path, or a plain name.
    resource: str
    note: str | None
    exclusive: bool
    #: Seconds it lives without being renewed; None: until released.
    ttl: float | None
    claimed_at: str
    expires_at: str | None
    #: Other sessions' live overlapping claims at the time of claiming, oldest first.
    conflicts: tuple[Holder, ...] = ()


class Message(NamedTuple):
    """A message from one session to others."""

    id: int
    #: None when a person sent it.
    from_session: str | None
    #: As addressed: a session, a resource, or `*`.
    to: str
    text: str
    created_at: str
    #: The sessions it goes to; filled by `send`.
    recipients: tuple[str, ...] = ()


class Block(NamedTuple):
    """A named, versioned text slot."""

    name: str
    content: str
    version: int
    #: What it should fit into; more is kept until it is archived.
    max_tokens: int
    updated_by: str | None
    created_at: str
    updated_at: str


class BlockEdit(NamedTuple):
    """One entry of a block's log: the step to `version`."""

    version: int
    old: str
    new: str
    reason: str
    actor: str | None
    created_at: str


class Change(NamedTuple):
    """One entry of the change feed."""

    #: Rises in commit order across the store.
    number: int
    #: `session`, `exchange`, `lease`, `message` or `block`.
    what: str
    id: str
