"""Records of the reads that show a store as a whole: graph, activity, overlapping claims, sizes, harnesses.

No hook needs them, so they are not in `records`.
"""

from typing import NamedTuple

from .records import Holder


class GraphNode(NamedTuple):
    """A memory, session, file or block in a graph."""

    #: `memory`, `session`, `file` or `block`.
    kind: str
    #: The id of a memory as text, a session's id, a resource as leases store it, or a block's name.
    id: str
    #: One line that is safe to show.
    label: str
    #: `fact, active`, `codex, completed`, `version 3`; for a file its project.
    detail: str
    #: When a memory was stored, a session or a file was last seen at work, or a block was changed. None: not known.
    at: str | None
    #: Links between this node and the one that was asked for.
    steps: int
    #: Number of neighbours that the graph leaves out. None if the neighbours of this node were not read.
    more: int | None


class GraphLink(NamedTuple):
    """A link between two nodes: `start` is made from, replaces, or is about `end`."""

    #: `made from`, `replaces` or `about`.
    type: str
    #: Kind and id of a node.
    start: tuple[str, str]
    end: tuple[str, str]


class Graph(NamedTuple):
    """What is around a memory, session, file or block."""

    #: The nearest first, and the newest first among those that are equally near. The first is the one asked for.
    nodes: tuple[GraphNode, ...]
    links: tuple[GraphLink, ...]
    #: Number of direct neighbours of the first node that are left out.
    more: int


class Activity(NamedTuple):
    """What happened on one day, in one project, with one type of session."""

    #: `2026-11-15`, in UTC.
    day: str
    project: str | None
    #: None for memories that were made outside a session.
    type: str | None
    #: Sessions that began on that day, and their turns. Turns of the following days count here, too.
    sessions: int
    turns: int
    #: Memories that were stored on that day and are still active, without gists.
    memories: int


class Overlap(NamedTuple):
    """Two leases of different sessions that overlap now."""

    #: The older lease.
    first: Holder
    second: Holder


class TierSize(NamedTuple):
    """What one part of a store takes."""

    #: `coordination`, `exchanges`, `memories`, `blocks`, `word index`, `vectors`, `dreaming`, `access`, `changes` or
    #: `other`.
    tier: str
    #: Rows of all its tables, about.
    rows: int
    #: Bytes of its tables and indexes, about.
    bytes: int


class Sizes(NamedTuple):
    """What a store takes on the disk, over all workspaces."""

    #: The largest first.
    tiers: tuple[TierSize, ...]
    #: Size of the whole store on the disk.
    store_bytes: int
    #: Bytes inside the store that new rows will use. None if the engine does not tell.
    free_bytes: int | None


class HarnessEvent(NamedTuple):
    """The last thing that a harness did."""

    #: The type of its sessions: `claude-code`, `codex`, …
    harness: str
    #: None if none of the latest sessions is of this type; then the rest is empty as well.
    session_id: str | None
    project: str | None
    at: str | None
    #: `started`, `turn`, `log`, `heartbeat`, `completed` or `abandoned`.
    what: str
    #: The beginning of the turn, log entry or outcome, on one line.
    text: str


class HookFailures(NamedTuple):
    """Failures of hooks, from the log on the machine that has the store."""

    #: Number of failures within the last 24 hours.
    last_day: int
    last_at: str | None
    #: The line about the last one. None for a caller on another machine.
    last: str | None


class HarnessEvents(NamedTuple):
    """What each harness did last, and failures of its hooks."""

    #: The latest first; harnesses without an event at the end.
    harnesses: tuple[HarnessEvent, ...]
    #: None if there is no log.
    failures: HookFailures | None
