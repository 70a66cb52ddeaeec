"""What a reader of a format gives, piece by piece, to the one writer of all imports.

A reader knows a format and no store; the writer (`writing.py`) knows the store and no format. A reader is a generator,
so a file of any size is read in bounded memory. It gives a session before its turns, turns in their order, and may mix
the items of several sessions.

All ids here are those of the system that is imported. All times are texts in ISO 8601, with their zone; `times.py`
makes them. A time that is not known is None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

_NOTHING: Mapping[str, object] = MappingProxyType({})


class SessionItem(NamedTuple):
    """A session begins, or goes on."""

    #: The id that the session has in its system. A hook stores the same one as the external id.
    id: str
    #: The type of the session: the name of the agent (`claude-code`, `codex`, `chatgpt`, …).
    type: str
    started_at: str | None = None
    #: The time of its last turn, if the reader knows it before it reads the turns. `--since` goes by it.
    last_at: str | None = None
    project: str | None = None
    #: A title.
    name: str | None = None
    #: The id of the session that started this one.
    parent: str | None = None
    metadata: Mapping[str, object] = _NOTHING
    #: What it set out to do and what came of it, if the system says so. Otherwise the writer quotes the turns.
    summary: str | None = None
    outcome: str | None = None
    #: `completed`, `abandoned`, or `active`: at work when the data was written.
    status: str = "completed"
    #: When the system last heard of it, for an active session.
    heartbeat_at: str | None = None
    #: Whether Engram uses the same id for the session. Programs that were written for the system may know it.
    keep_id: bool = False


class Turn(NamedTuple):
    """One thing said or done in a session. The role `log` is for what was done, one line each."""

    session: str
    #: `user`, `assistant`, `system`, `tool` or `log`.
    role: str
    text: str
    at: str | None = None
    #: The system's own id of the message.
    id: str | None = None
    #: Whose words they are: `user`, `agent`, `tool` or `import`. By default the role decides.
    trust: str | None = None
    #: Its embedding. It is used only if the user names its model (`--vectors-of`) and that is the workspace's.
    vector: Sequence[float] | None = None


class GistItem(NamedTuple):
    """What the turns of the session so far come to, such as the summary of a compaction."""

    session: str
    text: str
    at: str | None = None
    #: The system's own id of the message.
    id: str | None = None
    #: Whether it was made to be kept. Then no pass of dreaming reads the same turns again.
    is_final: bool = False


class EndItem(NamedTuple):
    """Nothing more of this session comes. The writer can complete it and drop what it knows about it."""

    session: str


class LockItem(NamedTuple):
    """A session holds a resource."""

    session: str
    resource: str
    note: str | None = None
    at: str | None = None


class MemoryItem(NamedTuple):
    """One thing worth knowing."""

    #: The id that it has in its system, or the hash of what identifies it there.
    id: str
    text: str
    kind: str = "note"
    tags: Sequence[str] = ()
    #: From 0 to 1.
    importance: float | None = None
    at: str | None = None
    #: Whether it no longer holds in its system.
    is_archived: bool = False
    project: str | None = None
    #: At most one active memory has a given kind and key.
    key: str | None = None
    data: Mapping[str, object] = _NOTHING
    #: Whose words they are.
    trust: str = "import"
    #: Ids of memories that it is linked to, with the relation.
    links: Sequence[tuple[str, str]] = ()
    vector: Sequence[float] | None = None


class BlockVersion(NamedTuple):
    """The content of a block after one edit."""

    content: str
    at: str | None = None
    reason: str = ""
    #: Who wrote it; by default the import.
    actor: str | None = None


class BlockItem(NamedTuple):
    """A named text with its versions, oldest first; at least one."""

    name: str
    versions: Sequence[BlockVersion]
    max_tokens: int | None = None
    data: object = None


class Skipped(NamedTuple):
    """A record that cannot be read: what it is, and why."""

    #: Where it is: `line 12`, `conversation 3`, the name of a file.
    where: str
    #: A few words that are the same for all records with this problem: `no valid JSON`, `longer than 64 MiB`.
    why: str


Item = SessionItem | Turn | GistItem | EndItem | LockItem | MemoryItem | BlockItem | Skipped


class Options(NamedTuple):
    """What a reader may need to know."""

    #: The project of everything that names none.
    project: str | None = None
    #: The zone of times that have none: a name such as `Europe/Berlin`, or None for this machine's.
    timezone: str | None = None
