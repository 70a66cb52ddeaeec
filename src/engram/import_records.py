"""Records of importing: sessions of the past, and how much of a thing was imported before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

#: What can be imported.
SESSION, MEMORY, BLOCK = "session", "memory", "block"
#: A session that lost turns to forgetting.
TURN = "turn"
#: A file that was read completely.
FILE = "file"
#: Stands for a format where something was forgotten, whoever had recorded it.
FORGOTTEN = "forgotten"


class Seen(NamedTuple):
    """How much of a thing was imported."""

    #: The id or name of the thing in this store. It may have been forgotten since.
    id: str
    #: How many of its records were read.
    records: int = 0
    #: The latest time of a record.
    at: str | None = None
    #: The session's last number after the import, or the block's version.
    seq: int = 0
    #: 1 if the import made the thing, 0 if it was here before.
    made: int = 1


class Known(NamedTuple):
    """An exchange that a session has."""

    seq: int
    role: str
    content: str
    external_id: str | None
    created_at: str
    id: int


class PastTurn(NamedTuple):
    """A turn or a log entry of a past session."""

    role: str
    content: str
    created_at: str
    external_id: str | None = None
    #: By default the role decides.
    trust: str | None = None
    vector: Sequence[float] | None = None


class PastSession(NamedTuple):
    """A session of another system, or its next part."""

    #: The format that it comes from, and its id there.
    source: str
    ref: str
    type: str
    started_at: str
    #: The time of its last turn so far, or when it was last heard of.
    heartbeat_at: str
    external_id: str | None = None
    #: The id that it gets here; by default a new one.
    id: str | None = None
    #: `completed`, `abandoned` or `active`.
    status: str = "completed"
    project: str | None = None
    name: str | None = None
    #: The id of its parent here.
    parent_id: str | None = None
    metadata: Mapping[str, object] | None = None
    summary: str | None = None
    outcome: str | None = None
    turns: Sequence[PastTurn] = ()
    #: What its turns so far come to. It becomes the session's gist.
    gist: str | None = None
    #: When the gist was written.
    gist_at: str | None = None
    #: Whether the gist was made to be kept. Then no pass reads the same turns again.
    is_final_gist: bool = False
    #: What the importer knows to be imported before, and what it has read with this part.
    before: Seen | None = None
    records: int = 0
    seen_at: str | None = None


class TranscriptFiles(NamedTuple):
    """The files of a format that could be imported."""

    files: int = 0
    #: How many of them were not read before as they are now, and their size.
    new: int = 0
    new_bytes: int = 0
    #: When the latest of all was changed.
    latest_at: str | None = None


class LeftOut(NamedTuple):
    """Records that were not imported, for one reason."""

    why: str
    number: int
    #: Where the first of them are.
    examples: tuple[str, ...]


class ImportReport(NamedTuple):
    """What an import did, or would do."""

    source: str
    #: How many files or databases were read.
    files: int = 0
    #: Files that were passed over because they have not changed since, and files that were not reached.
    files_known: int = 0
    files_left: int = 0
    #: Sessions that were made, sessions that got further turns, and sessions that have nothing new.
    sessions: int = 0
    continued: int = 0
    unchanged: int = 0
    turns: int = 0
    logs: int = 0
    gists: int = 0
    #: Memories that were made, got a new version, or have nothing new.
    memories: int = 0
    updated: int = 0
    known_memories: int = 0
    blocks: int = 0
    left_out: tuple[LeftOut, ...] = ()
    #: What the person should know: a block that got another name, a text that was cut.
    notes: tuple[str, ...] = ()
    #: The times of the first and the last turn that were imported.
    first_at: str | None = None
    last_at: str | None = None
