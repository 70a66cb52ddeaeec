"""The immutable records that the library returns.

They are named tuples because hooks start on every tool call: importing `dataclasses` alone takes longer than the whole
hook. Build records by keyword and read them by name. Annotations are not postponed here, for the same reason: `typing`
would have to compile each of them from text.
"""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .dream_records import Due, StuckStage

from .clock import said_at

#: The name of the block that holds the shared world state.
WORLD = "world"
#: The recipient of a message to the person whose workspace it is.
PERSON = "person"


def plain(value: object) -> object:
    """Converts records to dictionaries at every level, so that every interface can send the value."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: plain(item) for name, item in value._asdict().items()}
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


class Session(NamedTuple):
    """One agent's work, from its start to its completion."""

    #: `YYYYMMDD-HHMMSS-xxxxxxxx` if Engram made the id; any text if the caller chose it with `ensure`.
    id: str
    #: The kind of agent: `claude-code`, `codex`, or a custom name.
    type: str
    #: An optional name for people to read.
    name: str | None
    #: What the session is for.
    summary: str
    #: `active`, `idle`, `completed` or `abandoned`.
    status: str
    #: True if the session is active but sent no heartbeat for longer than `stale_after`. Computed when read.
    stale: bool
    #: The repository or folder that the session works in.
    project: str | None
    #: The harness's id of the session.
    external_id: str | None
    #: For a subagent: the session that started it.
    parent_id: str | None
    #: JSON data that the agent stores about itself.
    metadata: dict[str, object]
    created_at: str
    heartbeat_at: str
    #: When the session was completed or abandoned; None before that.
    ended_at: str | None
    #: Number of turns.
    turns: int = 0
    #: The result that the last completion reported; empty before that.
    outcome: str = ""
    #: The name of the access token that registered it first; None for local use.
    author: str | None = None


class LogEntry(NamedTuple):
    """One line of a session's log: an exchange of role `log`."""

    id: int
    session_id: str
    #: The position among all exchanges of the session, in commit order.
    seq: int
    content: str
    created_at: str
    #: The name of the access token that wrote it; None for local use.
    author: str | None = None


class Exchange(NamedTuple):
    """One message or action in a session."""

    id: int
    session_id: str
    #: The position among all exchanges of the session, in commit order.
    seq: int
    #: `user`, `assistant`, `system`, `tool` or `log`.
    role: str
    content: str
    #: Where the text comes from: `user`, `agent`, `tool` or `import`.
    trust: str
    created_at: str
    #: The harness's own id of the message that this turn records.
    external_id: str | None = None
    #: The name of the access token that wrote it; None for local use.
    author: str | None = None


class Memory(NamedTuple):
    """One statement that is kept for later sessions."""

    id: int
    #: `fact`, `preference`, `decision`, `lesson`, `note`, `todo`, `gist`, `era`, `digest`, or a custom kind.
    kind: str
    #: The subject, if only one memory of this kind and subject may be active at a time.
    key: str | None
    content: str
    #: Increases with every edit.
    version: int
    tags: tuple[str, ...]
    importance: float
    pinned: bool
    trust: str
    #: `active`, `superseded` or `archived`.
    status: str
    #: The memory that replaced this one.
    superseded_by: int | None
    session_id: str | None
    project: str | None
    data: object
    #: How often the same text was stored again.
    reinforced: int
    #: How often recall returned this memory.
    recalled: int
    recalled_at: str | None
    expires_at: str | None
    created_at: str
    updated_at: str
    #: A person has approved this version.
    approved: bool = False
    #: The author of the first version: the name of an access token. None for local use and for what dreaming wrote.
    #: `MemoryEdit` has the author of each later version.
    author: str | None = None
    #: When it was last stored, stored again, changed or approved. Archiving it is no confirmation. Empty from a server
    #: of an earlier release.
    confirmed_at: str = ""

    @property
    def said_at(self) -> str:
        """When it was said; when it was stored, if that is not known."""
        return said_at(self.data, self.created_at)


class Gist(NamedTuple):
    """The summary of one session."""

    session_id: str
    memory_id: int
    #: The time of the session's first turn.
    at: str
    #: `engram.gist_text` takes it apart.
    text: str
    trust: str
    project: str | None = None


class MemoryEdit(NamedTuple):
    """One version of a memory."""

    version: int
    content: str
    reason: str
    actor: str | None
    created_at: str
    #: The receipt, if forgetting removed text from this version.
    receipt: int | None = None
    #: The name of the access token that wrote this version; None for local use and for what dreaming wrote.
    author: str | None = None


class MemoryState(NamedTuple):
    """What a memory was like from a time on, apart from its text."""

    version: int
    importance: float
    pinned: bool
    #: A person had approved this version.
    approved: bool
    status: str
    superseded_by: int | None
    tags: tuple[str, ...]
    #: The session or user that changed it; None when that is not known.
    actor: str | None
    at: str
    #: What changed, in plain words: `pinned`, `importance 0.5 → 0.9`, …
    changes: tuple[str, ...]
    #: The name of the access token that changed it; None for local use.
    author: str | None = None


class Receipt(NamedTuple):
    """What was forgotten: ids and counts, without any of its text. A dry run adds a preview."""

    #: None for a dry run.
    id: int | None
    #: The request: `memory 12`, `before 2026-01-01T00:00:00.000000Z`, …
    asked: str
    #: Number of deleted things of each kind. Things "to rebuild" stay, without the parts derived from deleted things.
    counts: dict[str, int]
    ids: dict[str, list[int | str]]
    #: Earlier copies of the store, which still contain the deleted text. Engram does not delete them; their owner can.
    backups: tuple[str, ...]
    created_at: str
    #: Only in a dry run, and never stored: by kind, the first words of the first few things, one line each.
    preview: dict[str, list[str]] | None = None
    #: The name of the access token that asked for it; None for local use.
    author: str | None = None


#: Hits with a lower score are mostly not about the question. The interfaces leave them out by default;
#: `bench/calibration.py` shows what that hides.
UNLIKELY = 0.08


class Answer(NamedTuple):
    """What was answered to a question."""

    #: The passage that fits the question.
    text: str
    #: The turns that reply.
    exchange_ids: tuple[int, ...]


class Hit(NamedTuple):
    """One result of recall."""

    #: The passage that fits the question; `whole` is the whole text.
    text: str
    #: The chance that it is about the question, from 0 to 1; see docs/benchmarks.md.
    score: float
    #: The parts of the score and the words that matched.
    why: dict[str, object]
    exchange_id: int | None
    memory_id: int | None
    #: The exchange's role or the memory's kind.
    label: str
    session_id: str | None
    project: str | None
    #: When it was said. For a memory that a pass extracted, that is noon of the day in its data.
    created_at: str
    #: Seconds since `created_at`.
    age: float
    trust: str
    #: The type of its session: `claude-code`, `import`, …; None for a memory that was made outside a session.
    source: str | None = None
    #: The turns before and after it, if the caller asked for them.
    neighbours: tuple[Exchange, ...] = ()
    #: The whole text.
    whole: str = ""
    #: What was answered, if it is a question.
    answer: Answer | None = None
    #: `exchange` or `memory` and the id of the later statement that replaces this one.
    replaced_by: tuple[str, int] | None = None
    #: The author of the exchange, or of the memory's first version; None for local use.
    author: str | None = None


class DreamBacklog(NamedTuple):
    """What dreaming still has to process."""

    #: Number of sessions that have turns.
    sessions: int
    #: Number of sessions with turns that no gist covers.
    dirty: int
    #: Number of dirty sessions that have no gist yet or have many new turns.
    ripe: int
    #: Number of turns that no gist covers.
    turns: int
    #: Number of gists that are not yet part of their era or of the portrait.
    unfolded: int
    #: The highest id of a turn.
    mark: int


class Drives(NamedTuple):
    """Urgency of each kind of pending work, 0 to 1."""

    #: Sessions to summarise.
    continuity: float
    #: Gists to fold into eras and the portrait.
    coherence: float
    #: The need for a reflection.
    curiosity: float
    #: How little is pending; 1 means that nothing is.
    stability: float
    updated_at: str


class Spent(NamedTuple):
    """Model calls and tokens of one stage on one day."""

    day: str
    stage: str
    calls: int
    input_tokens: int
    output_tokens: int


class WorkItem(NamedTuple):
    """One prompt of dreaming that an agent has taken to answer."""

    id: int
    stage: str
    #: The session, month or block that the prompt is about.
    subject: str
    prompt: str
    #: JSON Schema of the answer; None means plain text.
    form: dict[str, object] | None
    #: After this time another agent can take the item.
    deadline: str


class DreamReport(NamedTuple):
    """The report of one pass over one workspace."""

    #: None for a dry run, and for a pass that could not begin.
    id: int | None
    workspace: str
    #: The session under which the pass ran.
    session_id: str | None
    dry_run: bool
    started_at: str
    ended_at: str | None
    #: The thinker that produced the texts.
    provider: str
    before: DreamBacklog
    after: DreamBacklog
    #: At the beginning and at the end of the pass.
    drives_before: Drives
    drives: Drives
    #: Sessions that got a new gist, and months that got a new era.
    gists: list[str]
    eras: list[str]
    #: Blocks that the pass wrote (`profile`, `narrative`, `self`), with their new versions.
    blocks: dict[str, int]
    calls: int
    input_tokens: int
    output_tokens: int
    #: Number of prompts that wait for an agent.
    waiting: int
    #: Seconds that each stage took.
    seconds: dict[str, float]
    #: Messages about what failed or was not done.
    errors: list[str]
    #: What recall found before the pass but not after it, and how the pass reacted. Anything here needs attention.
    alarms: list[str]
    #: Number of statements that became memories or strengthened one, and number of new proposals.
    extracted: int | None = None
    proposals: int | None = None
    #: Number of groups of duplicates, of memories merged into another one, and of archived memories.
    groups: int | None = None
    merged: int | None = None
    archived: int | None = None
    #: Tokens of the memories that consolidation changed.
    tokens_before: int | None = None
    tokens_after: int | None = None
    tokens_saved: int | None = None
    #: Number of groups merged, of contradictions resolved, of blocks whose overflow was stored, and of findings left as
    #: they are. In all counts from `extracted` on, None means that the stage was off or failed.
    duplicates_merged: int | None = None
    conflicts_resolved: int | None = None
    summarized: int | None = None
    skipped: int | None = None
    #: The undo that undid this pass.
    undone_by: int | None = None
    #: Set if this is not a pass but a proposal applied by hand: the proposal's id, or 0 after it is undone.
    proposal: int | None = None
    #: Stages that were put off, and why; None when none was.
    notes: list[str] | None = None
    #: Why the pass ran: `by hand`, `session end`, `idle server`, `loop` or `if due`.
    reason: str = "by hand"
    #: Number of items of each stage that could not be processed. The stage went on with its other items.
    left_out: dict[str, int] | None = None
    #: The stages that were due when the pass began. In a dry run every stage, with what it would do or wait for.
    due: "tuple[Due, ...]" = ()


class WorkCounts(NamedTuple):
    """Number of prompts that wait for an agent, and of answers that wait for the next pass."""

    waiting: int
    answered: int


class DreamStatus(NamedTuple):
    """The dream backlog, its urgency, and the report of the last pass."""

    backlog: DreamBacklog
    #: None before the first pass.
    drives: Drives | None
    last: DreamReport | None
    work: WorkCounts
    #: Number of proposals that wait for a decision.
    proposals: int
    #: What each stage would do now, and why.
    due: "tuple[Due, ...]" = ()
    #: Whether passes start by themselves, and what thinks in them.
    automatic: bool = False
    thinker: str = "extractive"
    #: When the last automatic pass began, and when the next can begin; None if there was none, or if nothing waits.
    last_automatic: str | None = None
    next_at: str | None = None
    #: Whether the next opportunity starts a pass: the end of a session, or an idle server.
    starts_now: bool = False
    #: Stages that left work undone.
    stuck: "tuple[StuckStage, ...]" = ()


class UndoReport(NamedTuple):
    """The report of an undo."""

    id: int
    workspace: str
    #: The session under which the undo ran.
    session_id: str
    #: The pass, applied proposal or undo that was undone.
    run: int
    started_at: str
    ended_at: str | None
    #: What was restored to its earlier state: `memory 12`, `block profile`, `session ab12cd34`.
    restored: list[str]
    #: What that pass had created and the undo removed.
    removed: list[str]
    #: What was not restored, because parts of it were forgotten since.
    left: list[str]
    #: The later undo that undid this one.
    undone_by: int | None = None


class Obstacle(NamedTuple):
    """One reason why an undo is not possible."""

    #: `memory`, `block` or `session`.
    kind: str
    ref: str
    why: str
    #: How people call it: `memory 12`, `block profile`.
    name: str = ""


class Proposal(NamedTuple):
    """A change that dreaming suggests and that a person or agent decides on."""

    id: int
    #: `pending`, `accepted`, `edited`, `rejected` or `applied`.
    state: str
    #: `remember`, `merge`, `supersede`, `archive`, `overflow` or `rewrite`.
    what: str
    #: The reason, in words.
    why: str
    confidence: float
    #: The new text; empty if the change writes none.
    content: str
    #: What the change applies to: ("memory", 7) or ("block", 3).
    targets: tuple[tuple[str, int], ...]
    #: The evidence for the change, in the same form.
    sources: tuple[tuple[str, int], ...]
    #: The diff from the present text to the new text.
    diff: str
    #: Whether a target has changed since. A stale proposal cannot be applied.
    stale: bool
    #: The pass that made it.
    dream: int
    #: The memory that applying the proposal made.
    result: int | None
    created_at: str
    decided_at: str | None
    #: The number that `dream undo` takes to undo it, once it is applied.
    applied_as: int | None = None
    #: The memory that stays, if the change replaces another one by it.
    keeps: int | None = None
    #: The name of the block that the change writes.
    block: str | None = None
    #: Another value whenever the change is another one, such as after an edit. A decision takes it as `expected`.
    version: str = ""


class WorkspaceInfo(NamedTuple):
    """One workspace of a store, with counts."""

    name: str
    #: Sessions of any status, except those of dreaming.
    sessions: int
    turns: int
    #: Active memories, without gists.
    memories: int
    #: The time of the latest activity; None when the workspace is empty again.
    active_at: str | None


class Stats(NamedTuple):
    """Counts of a workspace. The sessions of dreaming are counted only on request."""

    sessions: int
    active: int
    #: Active sessions without a recent heartbeat.
    stale: int
    completed: int
    abandoned: int
    logs: int
    #: Leases that are held now.
    leases: int
    blocks: int
    #: Sessions that `ensure` made and that have no activity yet.
    idle: int = 0
    turns: int = 0
    #: Active memories by kind, without gists.
    memories: dict[str, int] = {}  # noqa: RUF012
    gists: int = 0
    #: Length of the embedding queue.
    embedding_queue: int = 0
    #: The configured embedder, and the model of the workspace's vectors (None before the first vector).
    embedder: str = ""
    model: str | None = None
    #: Size of the whole store on the disk.
    store_bytes: int = 0


class Holder(NamedTuple):
    """A lease as other sessions see it, with the session that holds it."""

    session_id: str
    session_type: str
    summary: str
    stale: bool
    resource: str
    exclusive: bool
    note: str | None
    claimed_at: str
    #: When the lease expires; None if it lasts until it is released.
    expires_at: str | None
    #: Seconds since `claimed_at`.
    age: float


class Lease(NamedTuple):
    """A session's claim on a resource."""

    #: The fencing token. Every new claim in a workspace gets a higher one.
    token: int
    session_id: str
    #: The stored form: `<project>:<path>`, an absolute path, or a plain name.
    resource: str
    note: str | None
    exclusive: bool
    #: Seconds until the lease expires unless it is renewed; None if it lasts until it is released.
    ttl: float | None
    claimed_at: str
    expires_at: str | None
    #: Overlapping leases of other sessions at the time of the claim, oldest first.
    conflicts: tuple[Holder, ...] = ()


class Message(NamedTuple):
    """A message from one session to others."""

    id: int
    #: None if a person sent it.
    from_session: str | None
    #: The address: a session, a resource, or `*`.
    to: str
    text: str
    created_at: str
    #: The sessions that receive it. Only `send` fills this in.
    recipients: tuple[str, ...] = ()
    #: Whether the message was shown before and the reader did not confirm it.
    again: bool = False
    #: The name of the access token that sent it; None for local use.
    author: str | None = None


class Block(NamedTuple):
    """A named text with versions."""

    name: str
    content: str
    version: int
    #: The intended size. Text beyond it is kept until it is archived.
    max_tokens: int
    updated_by: str | None
    created_at: str
    updated_at: str
    #: Any JSON value that its writer keeps beside the text; None when there is none.
    data: object = None
    #: The name of the access token that wrote the current version; None for local use.
    author: str | None = None


class BlockEdit(NamedTuple):
    """One entry of a block's history: the edit that made `version`."""

    version: int
    old: str
    new: str
    reason: str
    actor: str | None
    created_at: str
    #: The receipt, if forgetting removed text from this version.
    receipt: int | None = None
    #: The block's data at this version.
    data: object = None
    #: The name of the access token that wrote this version; None for local use.
    author: str | None = None


class Change(NamedTuple):
    """One entry of the change feed."""

    #: Increases in commit order across the whole store.
    number: int
    #: `session`, `exchange`, `lease`, `message`, `block`, `memory`, `proposal`, `dream` or `receipt`.
    what: str
    id: str
