"""Engram: opens a store and composes the tiers; the only door for everything above it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from . import checks, config
from .clock import Clock
from .coordination import sitrep as report
from .coordination.leases import Leases
from .coordination.messages import Messages
from .coordination.projects import default_project
from .coordination.sessions import Sessions
from .errors import InvalidInput, WorkspaceNotFound
from .memory.blocks import Blocks, World
from .memory.embedding_queue import EmbeddingQueue
from .memory.exchanges import Exchanges
from .memory.memories import Memories
from .records import Upgraded
from .storage import changes
from .store_view import StoreView

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Sequence

    from .config import Config
    from .dreaming.agent_queue import Work
    from .dreaming.passes import Dreams
    from .dreaming.proposals import Proposals
    from .dreaming.scheduler import Scheduler
    from .records import Change, DreamReport, Hit, Receipt, Restored, Spent, WorkspaceInfo
    from .storage.engine import Engine


class Engram:
    """One workspace of a store.

    `Engram()` opens the user's own store; `Engram("path.db")` or `Engram("postgresql://…")` another one. Thread-safe,
    usable after a fork, and a context manager that closes its connections. `workspace(name)` gives another workspace
    on the same connections.

    A store that an earlier version wrote is migrated, after a copy of it was made. With `migrate=False` it is left as
    it is, and is UpgradeNeeded unless its schema is enough for hooks.

    A store that does not exist yet is made. With `create=False` that is StoreNotFound, and no file, folder or schema is
    made.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        workspace: str | None = None,
        settings: Config | None = None,
        clock: Clock | None = None,
        migrate: bool = True,
        create: bool = True,
    ) -> None:
        settings = settings or config.load(url=url, workspace=workspace)
        engine = _open(settings, clock or Clock(), migrate, create=create)
        self._compose(StoreView(engine, settings.workspace, settings))

    def _compose(self, view: StoreView) -> None:
        self._view = view
        self.sessions = Sessions(view, lambda id: _forget(view, session=id))
        self.leases = Leases(view)
        self.messages = Messages(view)
        self.blocks = Blocks(view)
        self.world = World(self.blocks)
        self.exchanges = Exchanges(view)
        self.embedding_queue = EmbeddingQueue(view)
        #: The earlier name of `embedding_queue`.
        self.backlog = self.embedding_queue
        self.memories = Memories(view, default_project=lambda: default_project(view.config))
        self.remember = self.memories.remember

    def workspace(self, name: str) -> Engram:
        """The same store, another workspace."""
        other = object.__new__(Engram)
        other._compose(self._view._replace(workspace=checks.workspace(name)))
        return other

    def workspaces(self) -> list[WorkspaceInfo]:
        """Every workspace of the store in which something was ever written, by name."""
        from .coordination.counts import workspaces

        return workspaces(self._view)

    def require_workspace(self) -> None:
        """WorkspaceNotFound when nothing was ever written to this workspace. The default one always exists."""
        if self.workspace_name == config.DEFAULT_WORKSPACE:
            return
        names = changes.workspaces(self._view.engine)
        if self.workspace_name not in names:
            known = f"There are: {', '.join(names)}." if names else "The store is empty."
            raise WorkspaceNotFound(
                f"There is no workspace {self.workspace_name!r}. {known} The first write to a workspace makes it.",
                self.workspace_name,
                names,
            )

    @property
    def workspace_name(self) -> str:
        return self._view.workspace

    @property
    def settings(self) -> Config:
        return self._view.config

    def sitrep(
        self,
        budget: int | None = report.DEFAULT_BUDGET,
        session_id: str | None = None,
        project: str | None = None,
    ) -> str:
        """The situation report: messages, world state, sessions, locks, completions, within `budget` tokens."""
        text = report.sitrep(self._view, budget, session_id, project)
        self.sessions.sweep()
        return text

    def recall(self, query: str, k: int = 5, **options: Any) -> list[Hit]:
        """What fits a question, by words and by meaning; see `engram.memory.recall.Recall.recall` for the options."""
        # Imported here: the analyser is nothing a situation report needs.
        from .memory.recall import Recall

        return Recall(self._view, self.memories).recall(query, k, **options)

    def forget(
        self,
        *,
        exchange: int | None = None,
        memory: int | None = None,
        session: str | None = None,
        block: str | None = None,
        before: str | None = None,
        source: str | None = None,
        dry_run: bool = False,
    ) -> Receipt:
        """Delete something permanently, including everything derived only from it; a receipt says what was deleted.

        Exactly one is given: an exchange, memory, session or block by its id or name; everything `before` a time; or
        everything from a `source`, which is a type of session (`claude-code`, `import`, …).

        With `dry_run` nothing is changed, and the receipt has a `preview`: the first words of what would go.
        """
        named = {"exchange": exchange, "memory": memory, "session": session, "block": block}
        return _forget(self._view, **named, before=before, source=source, dry_run=checks.flag(dry_run, "dry_run"))

    def receipts(self, limit: int = 20) -> list[Receipt]:
        """What was forgotten, the latest first; limit 0: all."""
        from .forgetting.forget import Forgetting

        return Forgetting(self._view).receipts(limit)

    def reindex(self, model: str | None = None, *, progress: Callable[[int, int], None] | None = None) -> int:
        """Embed everything anew with a model, the configured one unless told otherwise; how many this call made.

        Until all is done the old vectors serve. A run that was killed goes on where it was when it is started again.
        `progress` is called with how many are done and how many there are.
        """
        from .memory.reindex import reindex

        return reindex(self._view, model, progress)

    @property
    def dreams(self) -> Dreams:
        """Passes of dreaming: what waits, what was done."""
        from .dreaming.passes import Dreams

        return Dreams(self._view)

    @property
    def proposals(self) -> Proposals:
        """Changes that dreaming would make and somebody else is to decide."""
        from .dreaming.proposals import Proposals

        return Proposals(self._view)

    @property
    def work(self) -> Work:
        """Thinking that is left to agents: take a piece, hand it in."""
        from .dreaming.agent_queue import Work

        return Work(self._view)

    def dream(
        self,
        *,
        force: bool = False,
        dry_run: bool = False,
        stages: Sequence[str] | None = None,
        all_workspaces: bool = False,
        stop: threading.Event | None = None,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> list[DreamReport]:
        """One pass: sessions into gists, months into eras, all into a portrait. A report for each workspace.

        A drive acts when it presses enough, with `force` always; `dry_run` only says what would be done. `stop` ends
        the pass after its current step; `progress` is called with a stage, what is done of it, and how much there is.
        """
        options: dict[str, Any] = {
            "force": force,
            "dry_run": dry_run,
            "stages": stages,
            "stop": stop,
            "progress": progress,
        }
        if all_workspaces:
            from .dreaming.scheduler import dream_all

            return dream_all(self._view, **options)
        return [self.dreams.dream(**options)]

    def scheduler(self, every: float = 21_600.0, **options: Any) -> Scheduler:
        """Dreaming by itself, every so many seconds; see `engram.dreaming.scheduler.Scheduler`."""
        from .dreaming.scheduler import Scheduler

        return Scheduler(self._view, every, **options)

    def context(self, query: str | None = None, session_id: str | None = None, budget: int = 2_000) -> str:
        """What an agent should read now, within `budget` tokens: self, profile, narrative, what fits the query."""
        from .dreaming.context import context

        return context(self._view, query, session_id, budget)

    def usage(self, days: int = 30) -> list[Spent]:
        """What was spent on models, by day and stage, the latest first."""
        from .dreaming.usage import spent

        return spent(self._view, days)

    @contextmanager
    def write(self, *, fence: int | None = None) -> Iterator[Engram]:
        """One transaction around any number of calls on this thread: all of them happen, or none.

        With `fence`, a lease's token, it begins only if the token is good and commits only if it still is;
        otherwise LeaseLost, and nothing was written.
        """
        with self._view.engine.write() as tx:
            if fence is not None:
                self.leases.fence(tx, fence)
            yield self

    def changes(self, after: int = 0, limit: int = 1_000) -> list[Change]:
        """What has changed in this workspace since change number `after`, in the order of commits."""
        return changes.since(self._view, after, limit)

    def close(self) -> None:
        """Close the store's connections, also for the other workspaces' views."""
        self._view.engine.close()

    def __enter__(self) -> Engram:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _forget(view: StoreView, *, dry_run: bool = False, **named: Any) -> Receipt:
    # Imported here: a hook never forgets anything.
    from .forgetting.forget import Forgetting, forget_request

    return Forgetting(view).forget(forget_request(**named), dry_run=dry_run)


#: How long an upgrade waits for another one, which may be copying a large store.
_UPGRADE_PATIENCE = 3_600.0


def upgrade(settings: Config, *, progress: Callable[[int, int], None] | None = None) -> Upgraded:
    """Bring a store to this version's schema, after a copy of it was made; what was done.

    `progress` is called with how much is copied, and how much there is to copy. Of several at once one does the work,
    and the others wait for it.
    """
    from .store_url import masked

    patient = settings._replace(busy_timeout=max(settings.busy_timeout, _UPGRADE_PATIENCE))
    engine = _open(patient, Clock(), True, progress=progress)
    try:
        done = engine.outcome
        return Upgraded(
            masked(settings.url),
            tuple(f"{each.number:04d}_{each.name}" for each in done.applied),
            done.backup,
            done.newest,
        )
    finally:
        engine.close()


def restore(settings: Config, file: str, *, progress: Callable[[int, int], None] | None = None) -> Restored:
    """Put a copy of a backup in the place of the store, also while other processes use it."""
    if settings.url.startswith("postgresql://"):
        raise InvalidInput(
            "engram restore works on SQLite stores. Restore a PostgreSQL store with PostgreSQL's own tools, such as "
            "pg_restore; docs/storage.md says how to go back to a copy that a migration made."
        )
    from .storage import restore as restoring

    return restoring.sqlite(settings.url, file, Clock(), busy_timeout=settings.busy_timeout, progress=progress)


def _open(
    settings: Config,
    clock: Clock,
    migrate: bool,
    *,
    create: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Engine:
    # Imported here, so that a SQLite user never pays for the PostgreSQL driver, nor the other way round.
    if settings.url.startswith("postgresql://"):
        from .storage.postgres import PostgresEngine

        return PostgresEngine(settings.url, clock, busy_timeout=settings.busy_timeout, upgrade=migrate, create=create)
    from .storage.sqlite import SqliteEngine

    return SqliteEngine(
        settings.url,
        clock,
        busy_timeout=settings.busy_timeout,
        synchronous=settings.synchronous,
        upgrade=migrate,
        create=create,
        progress=progress,
    )
