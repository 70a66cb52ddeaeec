"""What the library returns: plain, immutable records.

They are named tuples because hooks start on every tool call: `dataclasses` alone would cost them more time than
everything Engram does there. Build them by keyword; read them by name. For the same reason annotations are not
postponed here: `typing` would compile each of them from its text.
"""

from typing import NamedTuple

#: The name of the block that is the shared world state.
WORLD = "world"


def plain(value: object) -> object:
    """Records as dictionaries, all the way down: what every interface can send."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: plain(item) for name, item in value._asdict().items()}
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


class Session(NamedTuple):
    """One agent at work."""

    #: `YYYYMMDD-HHMMSS-xxxxxxxx` when Engram made it; whatever the caller chose with `ensure`.
    id: str
    #: What kind of agent: `claude-code`, `codex`, a name of one's own.
    type: str
    #: A name for people, if it was given one.
    name: str | None
    #: What it set out to do.
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
    #: How many turns it has.
    turns: int = 0
    #: What came of it, as its last completion says; empty until then.
    outcome: str = ""


class LogEntry(NamedTuple):
    """One line of a session's log: an exchange of role `log`."""

    id: int
    session_id: str
    #: The place among all exchanges of the session, in commit order.
    seq: int
    content: str
    created_at: str


class Exchange(NamedTuple):
    """One thing said or done in a session."""

    id: int
    session_id: str
    #: The place among all exchanges of the session, in commit order.
    seq: int
    #: `user`, `assistant`, `system`, `tool` or `log`.
    role: str
    content: str
    #: Whose word it is: `user`, `agent`, `tool` or `import`.
    trust: str
    created_at: str


class Memory(NamedTuple):
    """One thing worth knowing."""

    id: int
    #: `fact`, `preference`, `decision`, `lesson`, `note`, `todo`, `gist`, `era`, `digest`, or the user's own.
    kind: str
    #: What it is about, when only one of its kind may be current.
    key: str | None
    content: str
    #: Rises with every edit.
    version: int
    tags: tuple[str, ...]
    importance: float
    pinned: bool
    trust: str
    #: `active`, `superseded` or `archived`.
    status: str
    #: The memory that took its place.
    superseded_by: int | None
    session_id: str | None
    project: str | None
    data: object
    #: How often the same thing was said again.
    reinforced: int
    #: How often recall has returned it.
    recalled: int
    recalled_at: str | None
    expires_at: str | None
    created_at: str
    updated_at: str


class Gist(NamedTuple):
    """What a session was about."""

    session_id: str
    memory_id: int
    #: When the session's earliest turn was said.
    at: str
    text: str
    trust: str


class MemoryEdit(NamedTuple):
    """One state a memory had."""

    version: int
    content: str
    reason: str
    actor: str | None
    created_at: str
    #: The receipt of what was forgotten, if this state lost text that way.
    receipt: int | None = None


class Receipt(NamedTuple):
    """What was forgotten: ids and counts, not a word of it; of a dry run, also the first words of what would go."""

    #: None for a dry run.
    id: int | None
    #: `memory 12`, `before 2026-01-01T00:00:00.000000Z`, …
    asked: str
    #: How many of each kind went; those "to rebuild" stay, without what came from what went.
    counts: dict[str, int]
    ids: dict[str, list[int | str]]
    #: Copies of the store made before that still have it; only their owner can say whether they may go.
    backups: tuple[str, ...]
    created_at: str
    #: Only of a dry run, and never stored: a line for each of the first things of every kind, with its first words.
    preview: dict[str, list[str]] | None = None


class Hit(NamedTuple):
    """Something recalled."""

    #: The passage that fits: the whole text, or the best piece of a long one.
    text: str
    #: From 0 to 1, comparable within one answer.
    score: float
    #: The parts of the score, and the words that matched.
    why: dict[str, object]
    exchange_id: int | None
    memory_id: int | None
    #: The exchange's role or the memory's kind.
    label: str
    session_id: str | None
    project: str | None
    created_at: str
    #: Seconds since then.
    age: float
    trust: str
    #: The type of the session it is from: `claude-code`, `import`, …; None for a memory made outside of one.
    source: str | None = None
    #: The turns around it, when they were asked for.
    neighbours: tuple[Exchange, ...] = ()


class DreamBacklog(NamedTuple):
    """What waits to be distilled."""

    #: Sessions that have turns.
    sessions: int
    #: Those with turns that no gist covers.
    dirty: int
    #: Of these, those never summarised or with many new turns.
    ripe: int
    #: Turns that no gist covers.
    turns: int
    #: Gists that are new to an era or to the portrait.
    unfolded: int
    #: The latest turn's id.
    mark: int


class Drives(NamedTuple):
    """How much there is to do presses, each from 0 to 1."""

    #: Sessions want to be summarised.
    continuity: float
    #: Gists want to be folded in.
    coherence: float
    #: It wants to reflect.
    curiosity: float
    #: How caught-up everything is.
    stability: float
    updated_at: str


class Spent(NamedTuple):
    """What models were paid for on a day, by a stage."""

    day: str
    stage: str
    calls: int
    input_tokens: int
    output_tokens: int


class WorkItem(NamedTuple):
    """A piece of thinking that an agent has taken."""

    id: int
    stage: str
    #: What it is about: a session, a month, a block.
    subject: str
    prompt: str
    #: JSON Schema of the answer; None: plain text.
    form: dict[str, object] | None
    #: After this it goes to the next taker.
    deadline: str


class DreamReport(NamedTuple):
    """One pass over one workspace."""

    #: None for a dry run, and for a pass that could not begin.
    id: int | None
    workspace: str
    #: The session the pass ran as.
    session_id: str | None
    dry_run: bool
    started_at: str
    ended_at: str | None
    #: Who thought.
    provider: str
    before: DreamBacklog
    after: DreamBacklog
    #: As sensed at the beginning, and as they ended.
    drives_before: Drives
    drives: Drives
    #: Sessions with a new gist, months with a new era.
    gists: list[str]
    eras: list[str]
    #: Blocks that were written, with their new versions: `profile`, `narrative`, `self`.
    blocks: dict[str, int]
    calls: int
    input_tokens: int
    output_tokens: int
    #: Pieces of thinking left to agents.
    waiting: int
    #: Seconds by stage.
    seconds: dict[str, float]
    #: What went wrong or was left undone, in words.
    errors: list[str]
    #: What recall found before the pass and not after it, and what was done about it. Nothing is well while this is not
    #: empty.
    alarms: list[str]
    #: Statements that became memories or were said again, and proposals that were made.
    extracted: int | None = None
    proposals: int | None = None
    #: Groups of duplicates that were found; memories that became part of another one; memories put away.
    groups: int | None = None
    merged: int | None = None
    archived: int | None = None
    #: Of the memories that consolidation touched: what they cost before and after.
    tokens_before: int | None = None
    tokens_after: int | None = None
    tokens_saved: int | None = None
    #: Groups made one, contradictions decided, blocks whose overflow was stored, and what was found and left alone.
    #: None, as the figures above: the stage was off or failed.
    duplicates_merged: int | None = None
    conflicts_resolved: int | None = None
    summarized: int | None = None
    skipped: int | None = None
    #: The run that undid this one.
    undone_by: int | None = None
    #: Set for a run that is no pass: the proposal that somebody applied by hand; 0 once it is undone.
    proposal: int | None = None


class WorkCounts(NamedTuple):
    """Pieces of thinking that wait for an agent, and answers that wait for the next pass."""

    waiting: int
    answered: int


class DreamStatus(NamedTuple):
    """What waits, how much it presses, and how the last pass went."""

    backlog: DreamBacklog
    #: None before the first pass.
    drives: Drives | None
    last: DreamReport | None
    work: WorkCounts
    #: How many proposals wait for a decision.
    proposals: int


class UndoReport(NamedTuple):
    """A run that undid another one."""

    id: int
    workspace: str
    #: The session it ran as.
    session_id: str
    #: The run that was undone: a pass, or an undo.
    run: int
    started_at: str
    ended_at: str | None
    #: What was brought back to what it was, by kind: `memory 12`, `block profile`, `session ab12cd34`.
    restored: list[str]
    #: What the run had made, and is gone again.
    removed: list[str]
    #: What was left as it is, because something of it was forgotten since.
    left: list[str]
    #: The run that undid this one.
    undone_by: int | None = None


class Obstacle(NamedTuple):
    """Something that stands in the way of an undo."""

    #: `memory`, `block` or `session`.
    kind: str
    ref: str
    why: str


class Proposal(NamedTuple):
    """A change that dreaming would make and somebody else is to decide."""

    id: int
    #: `pending`, `accepted`, `edited`, `rejected` or `applied`.
    state: str
    #: `remember`, `merge`, `supersede`, `archive` or `overflow`.
    what: str
    #: In words.
    why: str
    confidence: float
    #: The text there would be; empty where nothing new is written.
    content: str
    #: What it would change: ("memory", 7) or ("block", 3).
    targets: tuple[tuple[str, int], ...]
    #: What it rests on.
    sources: tuple[tuple[str, int], ...]
    #: From what there is to what there would be.
    diff: str
    #: Whether a target has changed since, so that it cannot be applied.
    stale: bool
    #: The pass that made it.
    dream: int
    #: The memory that came of it, once it is applied.
    result: int | None
    created_at: str
    decided_at: str | None
    #: The number that `dream undo` takes to undo it, once it is applied.
    applied_as: int | None = None


class WorkspaceInfo(NamedTuple):
    """One workspace of a store, and how much is in it."""

    name: str
    #: Sessions of any status, without passes of dreaming.
    sessions: int
    turns: int
    #: Active memories, without gists.
    memories: int
    #: When something last happened in it; None when nothing of it is left.
    active_at: str | None


class Stats(NamedTuple):
    """How much is in a workspace. Sessions are counted without passes of dreaming, unless those were asked for."""

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
    #: Sessions that were made by `ensure` and have said nothing yet.
    idle: int = 0
    turns: int = 0
    #: Active memories by kind, without gists.
    memories: dict[str, int] = {}  # noqa: RUF012
    gists: int = 0
    #: How many things wait in the embedding queue.
    embedding_queue: int = 0
    #: The configured embedder, and the model that made the workspace's vectors; None before the first vector.
    embedder: str = ""
    model: str | None = None
    #: What the whole store takes on the disk.
    store_bytes: int = 0


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
    #: Whether it was shown before, to a reader that did not confirm it.
    again: bool = False


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
    #: The receipt of what was forgotten, if this state lost text that way.
    receipt: int | None = None


class Change(NamedTuple):
    """One entry of the change feed."""

    #: Rises in commit order across the store.
    number: int
    #: `session`, `exchange`, `lease`, `message`, `block`, `memory`, `proposal`, `dream` or `receipt`.
    what: str
    id: str


class Restored(NamedTuple):
    """A store that a backup was put in the place of."""

    store: str
    file: str
    #: The copy of the store as it was before; None when there was none.
    kept: str | None
    #: The number of the newest migration it has now.
    schema: int


class Upgraded(NamedTuple):
    """What was done to bring a store to this version's schema."""

    store: str
    #: The migrations that were applied, by number and name: `0008_name`.
    applied: tuple[str, ...]
    #: The copy that was made before; None when there was nothing to copy.
    backup: str | None
    #: The number of the newest migration it has now.
    schema: int
