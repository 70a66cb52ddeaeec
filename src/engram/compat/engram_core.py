"""engram-core's memory blocks and dreams on an Engram store.

    from engram.compat.engram_core import Storage, create_block, run_once_all

    storage = Storage.open("memory.db")
    create_block(storage, "persona", "I am a helpful assistant.", 512)
    report = run_once_all(storage, DreamConfig())

The functions are those of engram-core, with the storage as their first argument; an `engram.Engram` will do, too. The
blocks are those of the storage's workspace. A pass consolidates memories, as in that system: it calls no model and
writes no gists. Engram makes each change undoable, and asks before it makes one unless the policy says otherwise.
"""

from __future__ import annotations

import dataclasses
import uuid
import weakref
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ..client import Engram
from ..clock import Clock
from ..errors import BlockNotFound, Conflict
from .old_databases import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from .. import records

#: The stage of a pass that does what a pass of engram-core does.
_STAGES = ("consolidate",)
#: The resource that a running pass holds.
_DREAM = "dream"


@dataclass
class MemoryBlock:
    """A named, versioned text."""

    name: str
    content: str
    version: int
    max_tokens: int
    created_at: str
    updated_at: str


@dataclass
class BlockEditLog:
    """One edit of a block."""

    #: Numbers the edits of the block from 1.
    id: int
    block_name: str
    old_content: str
    new_content: str
    edit_reason: str
    timestamp: str


@dataclass
class ConsolidationConfig:
    """What the comparison of memories looks at. Engram finds related memories by itself, so it uses the age only."""

    batch_size: int = 100
    #: A younger memory is left alone.
    min_age_hours: float = 24.0
    similarity_threshold: float = 0.3
    max_group_size: int = 10


@dataclass
class ConsolidationPolicy:
    """What a pass may change by itself."""

    #: How similar two memories must be to count as one.
    duplicate_threshold: float = 0.92
    #: Whether the newer one of two memories that contradict each other wins.
    conflict_auto_resolve: bool = False
    #: A memory that was not used for so many days may be archived.
    summarize_age_days: int = 90
    max_actions_per_run: int = 50
    #: Whether changes are only proposed. `engram dream review` shows them.
    dry_run: bool = True
    #: A memory that was recalled more often is not archived.
    max_access_count_for_archival: int = 10
    #: A memory that is more important is not archived.
    max_importance_for_archival: float = 0.5


@dataclass
class ConsolidationCounts:
    """What consolidation changed, and how many findings it left as they are."""

    duplicates_merged: int = 0
    conflicts_resolved: int = 0
    summarized: int = 0
    skipped: int = 0


@dataclass
class DreamConfig:
    #: The time between two scheduled passes.
    interval: timedelta | float = timedelta(hours=6)
    consolidation: ConsolidationConfig = field(default_factory=ConsolidationConfig)
    #: Names the runner. Engram tells runners apart by their sessions, so this is only kept.
    owner_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    #: How long the lock of a runner that died lives. Engram's always lives that long.
    lock_ttl_seconds: int = 300
    #: None changes nothing, like a dry run, and its report has no counts.
    auto_consolidate: ConsolidationPolicy | None = field(default_factory=ConsolidationPolicy)


@dataclass
class DreamWorkspaceReport:
    """What a pass did in one workspace."""

    workspace: str
    groups_found: int = 0
    memories_merged: int = 0
    memories_archived: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    tokens_saved: int = 0
    #: None if consolidation did not run.
    auto_consolidate: ConsolidationCounts | None = None


@dataclass
class DreamReport:
    """What one pass over the workspaces did."""

    started_at: str
    finished_at: str
    workspaces: list[DreamWorkspaceReport] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """For `json.dumps`. As in engram-core, a workspace without consolidation has no `auto_consolidate`."""
        values = dataclasses.asdict(self)
        for workspace in values["workspaces"]:
            if workspace["auto_consolidate"] is None:
                del workspace["auto_consolidate"]
        return values


class Storage:
    """A store: a path, the URL of a PostgreSQL store, or the path of one of engram-core's databases.

    By default it is the user's own store.
    """

    def __init__(self, path: Path | str | None = None) -> None:
        store = open_store(path, "engram-core")
        self.store = store
        # Programs of engram-core close nothing.
        self._close = weakref.finalize(self, store.close)

    @classmethod
    def open(cls, path: Path | str | None = None) -> Storage:
        return cls(path)

    @classmethod
    def open_in_memory(cls) -> Storage:
        """A store for trials, which is gone when it is closed."""
        return cls(":memory:")

    def close(self) -> None:
        """Close the store. Without this call it is closed when the object is no longer used."""
        self._close()

    def __enter__(self) -> Storage:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SchedulerHandle:
    """A scheduler that runs until it is stopped or the program ends."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop

    def stop(self) -> None:
        """End the scheduler. A pass that is running ends after its current step."""
        self._stop()

    #: The name in engram-core.
    abort = stop

    def __enter__(self) -> SchedulerHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def create_block(storage: Storage | Engram, name: str, content: str = "", max_tokens: int = 4_096) -> MemoryBlock:
    """Create a block. BlockExists if the name is taken."""
    return _block(_store(storage).blocks.create(name, content, max_tokens))


def get_block(storage: Storage | Engram, name: str) -> MemoryBlock | None:
    block = _store(storage).blocks.get(name)
    return _block(block) if block else None


def update_block(storage: Storage | Engram, name: str, new_content: str, reason: str = "") -> MemoryBlock:
    """Replace the content of a block. BlockNotFound if there is none of that name."""
    return _block(_store(storage).blocks.update(name, new_content, reason))


def list_blocks(storage: Storage | Engram) -> list[MemoryBlock]:
    """All blocks, by name."""
    return [_block(block) for block in _store(storage).blocks.list()]


def delete_block(storage: Storage | Engram, name: str) -> None:
    """Delete a block with its history. BlockNotFound if there is none of that name."""
    _store(storage).blocks.delete(name)


def get_block_history(storage: Storage | Engram, name: str, limit: int = 0) -> list[BlockEditLog]:
    """The edits of a block, newest first. Limit 0 means all. A block that does not exist has none."""
    try:
        edits = _store(storage).blocks.history(name, limit)
    except BlockNotFound:
        return []
    return [
        BlockEditLog(
            id=edit.version - 1,
            block_name=name,
            old_content=edit.old,
            new_content=edit.new,
            edit_reason=edit.reason,
            timestamp=edit.created_at,
        )
        for edit in edits
    ]


def archive_overflow(storage: Storage | Engram, name: str) -> str | None:
    """Cut off what exceeds the block's budget and return it; None, and no write, if everything fits."""
    return _store(storage).blocks.archive_overflow(name)


def run_once_workspace(
    storage: Storage | Engram, workspace: str, config: DreamConfig | None = None
) -> DreamWorkspaceReport:
    """One pass over one workspace. Conflict if another pass is running there."""
    config = config or DreamConfig()
    report = _dream(_configured(_store(storage), config).workspace(workspace), config)
    if report.id is None:
        raise Conflict("; ".join(report.errors))
    return _workspace(report, config)


def run_once_all(storage: Storage | Engram, config: DreamConfig | None = None) -> DreamReport:
    """One pass over every workspace of the store.

    If another pass is running, the report has an error entry and no workspaces. A workspace that fails is an error
    entry, and the others follow.
    """
    store = _store(storage)
    return _run(store, [each.name for each in store.workspaces()], config or DreamConfig())


def dream_run_now(
    storage: Storage | Engram | None = None,
    *,
    workspaces: Sequence[str] | str | None = None,
    dry_run: bool | None = None,
    config: DreamConfig | None = None,
) -> DreamReport:
    """One pass over the named workspaces, by default over all, in a storage, by default in the user's own store.

    `dry_run` takes the place of the policy's.
    """
    if storage is None:
        with Storage.open() as opened:
            return dream_run_now(opened, workspaces=workspaces, dry_run=dry_run, config=config)
    config = config or DreamConfig()
    if dry_run is not None and config.auto_consolidate is not None:
        policy = dataclasses.replace(config.auto_consolidate, dry_run=dry_run)
        config = dataclasses.replace(config, auto_consolidate=policy)
    store = _store(storage)
    named = [workspaces] if isinstance(workspaces, str) else workspaces
    return _run(store, [each.name for each in store.workspaces()] if named is None else named, config)


def spawn_scheduler(storage: Storage | Engram, config: DreamConfig | None = None) -> SchedulerHandle:
    """Run passes in the background, the first one after one interval. The handle stops it.

    These are Engram's own passes over every workspace: each stage runs when it is due.
    """
    config = config or DreamConfig()
    every = config.interval.total_seconds() if isinstance(config.interval, timedelta) else config.interval

    def told(_: object) -> None:
        """Holds the storage, which would be closed if nothing used it any more."""
        _store(storage)

    propose_only = _policy(config).dry_run
    scheduler = _configured(_store(storage), config).scheduler(every, propose_only=propose_only, told=told)
    scheduler.start()
    return SchedulerHandle(scheduler.stop)


def _run(store: Engram, names: Iterable[str], config: DreamConfig) -> DreamReport:
    clock = Clock()
    report = DreamReport(clock.now(), "")
    configured = _configured(store, config)
    views = [configured.workspace(name) for name in names]
    running = [view.workspace_name for view in views if _is_running(view)]
    if running:
        report.errors.append(f"Another pass is running in workspace {running[0]}, so its lock could not be taken.")
    else:
        for view in views:
            _run_one(view, config, report)
    report.finished_at = clock.now()
    return report


def _run_one(view: Engram, config: DreamConfig, report: DreamReport) -> None:
    """One pass over a workspace. A failure is an error entry, because the others must follow."""
    try:
        done = _dream(view, config)
    except Exception as error:
        report.errors.append(f"{view.workspace_name}: {error}")
        return
    if done.id is not None:
        report.workspaces.append(_workspace(done, config))
    report.errors += [f"{view.workspace_name}: {problem}" for problem in (*done.errors, *done.alarms)]


def _dream(view: Engram, config: DreamConfig) -> records.DreamReport:
    view.require_workspace()
    [report] = view.dream(stages=_STAGES, force=True, propose_only=_policy(config).dry_run)
    return report


def _is_running(view: Engram) -> bool:
    return any(holder.exclusive and holder.resource == _DREAM for holder in view.leases.check(_DREAM))


def _store(storage: Storage | Engram) -> Engram:
    return storage.store if isinstance(storage, Storage) else storage


def _policy(config: DreamConfig) -> ConsolidationPolicy:
    return ConsolidationPolicy() if config.auto_consolidate is None else config.auto_consolidate


def _configured(store: Engram, config: DreamConfig) -> Engram:
    """The store with the settings that the configuration means."""
    policy = _policy(config)
    return store.with_settings(
        dream_consolidate="propose" if policy.dry_run else "apply",
        dream_max_actions=policy.max_actions_per_run,
        dream_similarity=policy.duplicate_threshold,
        dream_resolve_conflicts="on" if policy.conflict_auto_resolve else "off",
        dream_min_age=config.consolidation.min_age_hours * 3_600.0,
        dream_archive_after=policy.summarize_age_days * 86_400.0,
        dream_archive_importance=policy.max_importance_for_archival,
        dream_archive_recalls=policy.max_access_count_for_archival,
    )


def _block(block: records.Block) -> MemoryBlock:
    return MemoryBlock(block.name, block.content, block.version, block.max_tokens, block.created_at, block.updated_at)


def _workspace(report: records.DreamReport, config: DreamConfig) -> DreamWorkspaceReport:
    counts = None
    if report.groups is not None and config.auto_consolidate is not None:
        counts = ConsolidationCounts(
            duplicates_merged=report.duplicates_merged or 0,
            conflicts_resolved=report.conflicts_resolved or 0,
            summarized=report.summarized or 0,
            skipped=report.skipped or 0,
        )
    return DreamWorkspaceReport(
        workspace=report.workspace,
        groups_found=report.groups or 0,
        memories_merged=report.merged or 0,
        memories_archived=report.archived or 0,
        tokens_before=report.tokens_before or 0,
        tokens_after=report.tokens_after or 0,
        tokens_saved=report.tokens_saved or 0,
        auto_consolidate=counts,
    )
