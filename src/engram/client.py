"""The facade: opens a store and gives access to the tiers. The interfaces use nothing below it."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from . import checks, config
from .clock import Clock
from .coordination import sitrep as report
from .coordination.leases import Leases
from .coordination.messages import Messages
from .coordination.projects import default_project
from .coordination.sessions import Sessions
from .errors import InvalidInput, NotRemote, WorkspaceNotFound
from .memory.blocks import Blocks, World
from .memory.embedding_queue import EmbeddingQueue
from .memory.exchanges import Exchanges
from .memory.injections import Injections
from .memory.memories import Memories
from .setup_records import Upgraded
from .storage.changes import Changes
from .storage.changes import workspaces as workspace_names
from .store_view import Elsewhere, StoreView

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Sequence

    from .access.access import Access
    from .config import Config
    from .coordination.harness_processes import HarnessProcesses
    from .coordination.imports import Imports
    from .coordination.lease_notices import LeaseNotices
    from .dream_records import Brief, NotDue
    from .dreaming.agent_queue import Work
    from .dreaming.brief.compose import Waiting
    from .dreaming.passes import Dreams
    from .dreaming.proposals import Proposals
    from .dreaming.scheduler import Scheduler
    from .dreaming.thinkers import Thinkers
    from .embedding import Embedder
    from .health_records import Finding
    from .llm import Provider
    from .memory.embedders import Embedders
    from .memory.eras import Eras
    from .memory.gists import Gists
    from .memory.transcripts import Transcripts
    from .overview_records import Activity, Graph, HarnessEvents, Sizes
    from .records import DreamReport, Hit, Receipt, Spent, WorkspaceInfo
    from .setup_records import Exported, Loaded
    from .storage.engine import Engine
    from .storage.keys import Keys


class Engram:
    """One workspace of a store.

    `Engram()` opens the user's default store; `Engram("path.db")`, a `pathlib.Path` or `Engram("postgresql://…")` opens
    another one. `Engram("https://host:port", token="…")` uses the store of a server: each call is one request.
    `Engram(":memory:")` opens a trial store: a temporary file that is removed by `close`, or at exit. Thread-safe,
    usable after a fork, and a context manager that closes its connections. `workspace(name)` returns another workspace
    on the same connections.

    Opening a store of an earlier version copies and then migrates it. With `migrate=False` the store stays unchanged,
    and opening it raises UpgradeNeeded unless hooks can work with its schema.

    Opening a store that does not exist creates it. With `create=False` it raises StoreNotFound and creates nothing.

    `llm` and `embedder` take the place of the settings: a name, or a Python object that follows `engram.llm.Provider`
    or `engram.embedding.Embedder`. `workspace(name)` uses them too. `companion` says whether the opened workspace is a
    companion's; `workspace(name)` does not use it.
    """

    def __init__(
        self,
        url: str | os.PathLike[str] | None = None,
        *,
        workspace: str | None = None,
        settings: Config | None = None,
        clock: Clock | None = None,
        migrate: bool = True,
        create: bool = True,
        llm: str | Provider | None = None,
        embedder: str | Embedder | None = None,
        companion: bool | None = None,
        token: str | None = None,
    ) -> None:
        # Before the store is opened, so that a wrong object leaves nothing behind.
        thinks, embeds = _given_llm(llm), _given_embedder(embedder)
        place = address(url)
        trial = _trial_store() if place == ":memory:" and settings is None else None
        settings = settings or config.load(url=trial or place, workspace=workspace, token=token)
        named: dict[str, Any] = {
            name: given for name, given in (("llm", llm), ("embedder", embedder)) if isinstance(given, str)
        }
        if companion is not None:
            named["companion"] = checks.flag(companion, "companion")
        settings = settings._replace(**named, origins={**settings.origins, **dict.fromkeys(named, "argument")})
        if settings.is_remote:
            self._open_remote(settings, clock or Clock(), thinks, embeds)
            return
        engine = open_engine(settings, clock or Clock(), migrate, create=create)
        self._compose(StoreView(engine, settings.workspace, settings, thinks, embeds), trial)

    def _open_remote(self, settings: Config, clock: Clock, llm: Provider | None, embedder: Embedder | None) -> None:
        if llm is not None or embedder is not None:
            raise InvalidInput(
                "A server thinks and embeds with its own models; llm and embedder are for a local store."
            )
        # Imported here: it needs an HTTP client, and most stores are local.
        from .remote.client import RemoteStore, facade

        # The settings decide which store this is, and they may come from the environment or a file.
        self.__class__ = facade(Engram)
        # Without a name, the token's workspace counts, else the server's.
        named = "" if settings.origins["workspace"] == "default" else settings.workspace
        self._compose(StoreView(RemoteStore(settings, clock), named, settings), None)  # type: ignore[arg-type]

    def _compose(self, view: StoreView, trial: str | None) -> None:
        self._view = view
        #: The path of a store that `close` removes.
        self._trial = trial
        self.sessions = Sessions(view, lambda id: _forget(view, session=id))
        self.leases = Leases(view)
        self.messages = Messages(view)
        self.blocks = Blocks(view)
        self.world = World(self.blocks)
        self.exchanges = Exchanges(view)
        #: What each session was given; for hooks.
        self.injections = Injections(view)
        self.embedding_queue = EmbeddingQueue(view)
        #: The earlier name of `embedding_queue`.
        self.backlog = self.embedding_queue
        self.memories = Memories(view, default_project=lambda: default_project(view))
        self.remember = self.memories.remember

    def workspace(self, name: str) -> Engram:
        """Another workspace of the same store."""
        other = object.__new__(type(self))
        other._compose(self._view._replace(workspace=checks.workspace(name)), self._trial)
        return other

    def from_elsewhere(self, project: str | None = None) -> Engram:
        """The same workspace for a caller that is not this process, such as the client of a server.

        The caller's project is `project`. A path that it names is not looked up here: see `resources.elsewhere`.
        """
        other = object.__new__(type(self))
        known = checks.optional_new_name(project, "project")
        other._compose(self._view._replace(elsewhere=Elsewhere(known)), self._trial)
        return other

    def as_author(self, name: str | None) -> Engram:
        """The same workspace on the same connections; what is written through it has this author.

        A server gives the name of the token that a request came with. None: no author, as in local use. `workspace` and
        `with_settings` keep the author. What a pass of dreaming writes has none.
        """
        other = object.__new__(type(self))
        other._compose(self._view._replace(author=checks.optional_author(name)), self._trial)
        return other

    @staticmethod
    def project_of(folder: str) -> str | None:
        """The project that a session gets which starts in this folder. No store is needed."""
        from .coordination.projects import project_of

        return project_of(folder)

    def with_settings(self, **settings: Any) -> Engram:
        """The same workspace on the same connections, with other settings. The store itself stays as it was opened."""
        fixed = settings.keys() & {"url", "workspace"}
        if fixed:
            raise InvalidInput(f"{fixed.pop()} is chosen when a store is opened. Open it again with another one.")
        checked = config.load(url=self.settings.url, workspace=self.workspace_name, **settings)
        changed: dict[str, Any] = {name: getattr(checked, name) for name in settings}
        origins = {**self.settings.origins, **dict.fromkeys(changed, "argument")}
        other = object.__new__(type(self))
        other._compose(self._view._replace(config=self.settings._replace(**changed, origins=origins)), self._trial)
        return other

    def workspaces(self) -> list[WorkspaceInfo]:
        """Every workspace that was ever written to, sorted by name."""
        from .coordination.counts import workspaces

        return workspaces(self._view)

    def workspace_names(self) -> list[str]:
        """The names of the workspaces that were ever written to, sorted. Cheaper than `workspaces`."""
        return workspace_names(self._view.engine)

    def require_workspace(self) -> None:
        """Raises WorkspaceNotFound if this workspace was never written to. The default workspace always exists."""
        if self.workspace_name == config.DEFAULT_WORKSPACE:
            return
        names = self.workspace_names()
        if self.workspace_name not in names:
            known = f"Existing workspaces: {', '.join(names)}." if names else "The store is empty."
            raise WorkspaceNotFound(
                f"There is no workspace {self.workspace_name!r}. {known} The first write to a workspace makes it.",
                self.workspace_name,
                names,
            )

    @property
    def workspace_name(self) -> str:
        """The name of the workspace."""
        return self._view.workspace

    @property
    def author(self) -> str | None:
        """The author of what is written through this facade; see `as_author`."""
        return self._view.author

    @property
    def settings(self) -> Config:
        """The settings that this workspace was opened with."""
        return self._view.config

    def now(self) -> str:
        """The store's present time. It decides what has expired; the clocks of machines may differ."""
        with self._view.engine.read() as tx:
            return tx.now()

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

    def brief(
        self,
        session_id: str | None = None,
        project: str | None = None,
        budget: int | None = config.BRIEF_BUDGET,
        *,
        resumed: bool = False,
        at: str | None = None,
        local: bool = False,
    ) -> str:
        """What a session should know before it begins, within `budget` tokens (None: uncut), in order of worth.

        Messages, who else is at work, pins, what is known to hold, where we left off, the world state. With `resumed`
        also what this session did so far. With `at`, a time, how things stood then, without what was forgotten since.
        Its time is UTC, or with `local` a local time.
        """
        return self.briefing(session_id, project, budget, resumed=resumed, at=at, local=local).text

    def briefing(
        self,
        session_id: str | None = None,
        project: str | None = None,
        budget: int | None = config.BRIEF_BUDGET,
        *,
        resumed: bool = False,
        at: str | None = None,
        local: bool = False,
    ) -> Brief:
        """The brief, with the memories in it: a hook records what it has given to its session."""
        from .dreaming.brief.compose import compose

        made = compose(self._view, session_id, project, budget, resumed=resumed, at=at, local=local)
        self.sessions.sweep()
        return made

    def waiting(self) -> Waiting:
        """How much waits for a person: memories to approve, proposals of dreaming, unread messages."""
        from .dreaming.brief.compose import waiting

        return waiting(self._view)

    def recall(self, query: str, k: int = 5, **options: Any) -> list[Hit]:
        """Texts that match a query by words and meaning. `engram.memory.recall.Recall.recall` documents the options."""
        # Imported here, because a situation report does not need the analyser.
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
        exchanges: Sequence[int] | None = None,
        dry_run: bool = False,
    ) -> Receipt:
        """Delete something permanently, including everything derived only from it. The receipt lists what was deleted.

        Give exactly one: the id or name of an exchange, memory, session or block; `before`, to delete everything before
        a time; `source`, to delete everything from one type of session (`claude-code`, `import`, …); or `exchanges`,
        the ids of several exchanges.

        With `dry_run` nothing is deleted, and the receipt has a `preview`: the first words of what would be deleted.
        """
        named = {"exchange": exchange, "memory": memory, "session": session, "block": block}
        several = {"before": before, "source": source, "exchanges": exchanges}
        return _forget(self._view, **named, **several, dry_run=checks.flag(dry_run, "dry_run"))

    def receipts(self, limit: int = 20, *, before: int | None = None) -> list[Receipt]:
        """The receipts of forgetting, newest first. Limit 0 returns all. `before`, the last id of a page, continues."""
        from .forgetting.forget import Forgetting

        return Forgetting(self._view).receipts(limit, before=before)

    def doctor(self, *, full: bool = False, fix: bool = False, all_workspaces: bool = False) -> list[Finding]:
        """What `engram doctor` says about the store and this workspace, or all workspaces.

        With `full` everything is read, which may take long. With `fix` what can safely be mended is mended: rights of
        files, drafts of killed processes, the write-ahead log, the word index and its counters, missing vectors (they
        are queued), leases of ended sessions, and tags, links and vectors that belong to nothing.
        """
        from .doctor.run import doctor

        flags = {"full": full, "fix": fix, "all_workspaces": all_workspaces}
        return doctor(self._view, **{name: checks.flag(value, name) for name, value in flags.items()})

    def reindex(self, model: str | None = None, *, progress: Callable[[int, int], None] | None = None) -> int:
        """Compute all embeddings again with a model, by default the workspace's. Returns how many this call made.

        Recall uses the old vectors until all new ones exist. After an interruption, the next call continues.
        `progress` is called with the number done and the total.
        """
        from .memory.reindex import reindex

        return reindex(self._view, model, progress)

    def graph(self, kind: str, id: int | str, *, limit: int = 60) -> Graph:
        """What is around a memory, session, file or block: nodes and typed links, at most `limit` nodes (60).

        `kind` is `memory`, `session`, `file` or `block`; `id` a memory's id, a session's id, a path or other resource,
        or a block's name. The nearest come first, then the newest.
        """
        from .coordination.graph import around

        return around(self._view, kind, id, limit)

    def activity(self, days: int = 30, until: str | None = None) -> list[Activity]:
        """Sessions begun, their turns, and memories stored, by day (UTC), project and type of session.

        The latest day comes first. At most 366 days; `until` is a time in the last of them, by default now.
        """
        from .coordination.activity import activity

        return activity(self._view, days, until)

    def harness_events(self) -> HarnessEvents:
        """What each harness did last, and failures of hooks on this machine."""
        from .coordination.harness_events import harness_events

        return harness_events(self._view)

    def sizes(self) -> Sizes:
        """About what each part of the store takes on the disk, over all workspaces.

        On SQLite this reads the whole store, so a result is kept for at least a minute.
        """
        from .coordination.sizes import sizes

        return sizes(self._view)

    def export(
        self,
        place: str | os.PathLike[str],
        *,
        format: str = "jsonl",
        all_workspaces: bool = False,
        vectors: bool = False,
        force: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> Exported:
        """Write this workspace, or with `all_workspaces` the store, as it is at one moment.

        `jsonl` is a file that `load_export` reads back; `-` is standard output. `markdown` is a folder of pages for
        people. With `force` an earlier export is replaced. `progress` is called with the number done and the total.
        """
        from .transfer import formats

        return formats.export(
            self._view,
            os.fspath(place),
            format,
            everything=checks.flag(all_workspaces, "all_workspaces"),
            with_vectors=checks.flag(vectors, "vectors"),
            force=checks.flag(force, "force"),
            progress=progress,
        )

    def load_export(
        self,
        place: str | os.PathLike[str],
        *,
        into: str | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Loaded:
        """Import a file that `export` wrote, with everything in it. An error leaves the store as it was.

        The workspaces in the file must have no content here. `into` gives another name to the workspace of a file that
        has only one. Numbers stay if the store is empty; otherwise things get new ones.
        """
        from .transfer.loading import load

        return load(self._view, os.fspath(place), into=into, progress=progress)

    @property
    def changes(self) -> Changes:
        """The change feed: `changes(after)` returns the changes after a number, `changes.wait` waits for some."""
        return Changes(self._view)

    @property
    def harness_processes(self) -> HarnessProcesses:
        """Which process of a harness runs which session."""
        from .coordination.harness_processes import HarnessProcesses

        return HarnessProcesses(self._view)

    @property
    def lease_notices(self) -> LeaseNotices:
        """What sessions were told about each other's leases."""
        from .coordination.lease_notices import LeaseNotices

        return LeaseNotices(self._view)

    @property
    def access(self) -> Access:
        """Who may use this store over a server: tokens, logins, limits. About the store, not one workspace."""
        from .access.access import Access

        return Access(self._view)

    @property
    def transcripts(self) -> Transcripts:
        """The messages of a conversation exactly as a framework gave them; for adapters."""
        from .memory.transcripts import Transcripts

        return Transcripts(self._view)

    @property
    def embedders(self) -> Embedders:
        """The embedders that there are, and changing the one of this workspace."""
        from .memory.embedders import Embedders

        return Embedders(self._view)

    @property
    def gists(self) -> Gists:
        """What each session was about, up to a known turn."""
        from .memory.gists import Gists

        return Gists(self._view, self.memories)

    @property
    def eras(self) -> Eras:
        """What each month was about."""
        from .memory.eras import Eras

        return Eras(self._view, self.memories)

    @property
    def imports(self) -> Imports:
        """Sessions of the past, and what was imported; for importers."""
        from .coordination.imports import Imports

        return Imports(self._view)

    @property
    def thinkers(self) -> Thinkers:
        """What can think during passes, and choosing it."""
        from .dreaming.thinkers import Thinkers

        return Thinkers(self._view)

    @property
    def dreams(self) -> Dreams:
        """Passes of dreaming: the backlog, the reports, and undo."""
        from .dreaming.passes import Dreams

        return Dreams(self._view)

    @property
    def proposals(self) -> Proposals:
        """Changes that dreaming suggests and that a person or agent decides on."""
        from .dreaming.proposals import Proposals

        return Proposals(self._view)

    @property
    def work(self) -> Work:
        """Prompts of dreaming for agents: take one, then hand in the answer."""
        from .dreaming.agent_queue import Work

        return Work(self._view)

    def dream(
        self,
        *,
        force: bool = False,
        dry_run: bool = False,
        stages: Sequence[str] | None = None,
        all_workspaces: bool = False,
        propose_only: bool = False,
        stop: threading.Event | None = None,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> list[DreamReport]:
        """Run one pass: make gists of sessions, eras of months, and the portrait. Returns a report for each workspace.

        A stage runs when it is due; with `force` every stage runs. `dry_run` only reports what a pass would do and why.
        With `propose_only`, consolidation proposes every change, also that of memories with the same text.
        `stop` ends the pass after its current step. `progress` is called with the stage, the number done and the total.
        """
        options: dict[str, Any] = {
            "force": force,
            "dry_run": dry_run,
            "stages": stages,
            "propose_only": checks.flag(propose_only, "propose_only"),
            "stop": stop,
            "progress": progress,
        }
        if not dry_run:
            self._expire_logs(all_workspaces)
        if all_workspaces:
            from .dreaming.scheduler import dream_all

            return dream_all(self._view, **options)
        return [self.dreams.dream(**options)]

    def dream_if_due(
        self,
        reason: str = "if due",
        *,
        every: float | None = None,
        all_workspaces: bool = False,
        stop: threading.Event | None = None,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> list[DreamReport | NotDue]:
        """Run a pass as Engram does by itself: if something is due and the last such pass began long enough ago.

        Returns a report for each workspace, or why no pass ran there. `engram.dreaming.passes.Dreams.dream_if_due`
        documents the options.
        """
        options: dict[str, Any] = {"every": every, "stop": stop, "progress": progress}
        self._expire_logs(all_workspaces)
        if all_workspaces:
            from .dreaming.scheduler import dream_all_if_due

            return dream_all_if_due(self._view, reason, **options)
        return [self.dreams.dream_if_due(reason, **options)]

    def is_dream_due(self) -> bool:
        """Whether a pass would start by itself now. One read."""
        from .dreaming.due import is_due

        return is_due(self._view)

    def scheduler(self, every: float = 21_600.0, **options: Any) -> Scheduler:
        """Dreams at an interval in seconds. `engram.dreaming.scheduler.Scheduler` documents the options."""
        from .dreaming.scheduler import Scheduler

        everywhere = bool(options.get("all_workspaces", True))
        return Scheduler(self._view, every, **options, before=lambda: self._expire_logs(everywhere))

    def _expire_logs(self, all_workspaces: bool) -> None:
        """Delete log entries that are older than the setting `retention_logs`."""
        if self.settings.retention_logs:
            from .forgetting.retention import expire_logs

            names = workspace_names(self._view.engine) if all_workspaces else [self.workspace_name]
            for name in names:
                expire_logs(self._view._replace(workspace=name))

    def context(self, query: str | None = None, session_id: str | None = None, budget: int = 2_000) -> str:
        """What an agent should read now, within `budget` tokens: first what fits the query, then pins and portrait.

        A small budget gets the beginning of the best match. One below about 15 tokens gets an empty text.
        """
        from .dreaming.context import context

        return context(self._view, query, session_id, budget)

    def usage(self, days: int = 30) -> list[Spent]:
        """Model calls and tokens by day and stage, newest first."""
        from .dreaming.usage import spent

        return spent(self._view, days)

    @contextmanager
    def write(self, *, fence: int | None = None) -> Iterator[Engram]:
        """One transaction for any number of calls on this thread. It commits all of them or none.

        With `fence`, the token of a lease, the lease must be valid at the beginning and at the commit. Otherwise the
        block raises LeaseLost, and nothing is written.
        """
        with self._view.engine.write() as tx:
            if fence is not None:
                self.leases.fence(tx, fence)
            yield self

    def close(self) -> None:
        """Close the store's connections, which other workspaces of this store share."""
        self._view.engine.close()
        if self._trial is not None:
            from .storage import trial

            trial.remove(self._trial)

    def __enter__(self) -> Engram:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def first_bytes(path: str, number: int) -> bytes:
    """The beginning of a file that may be a store in use; nothing if there is none."""
    from .storage import database

    return database.first_bytes(path, number)


def is_of_store(path: str) -> bool:
    """Whether a file is a store of Engram, or a file that SQLite has beside one. Only SQLite may open such a file."""
    from .storage import database

    return database.is_of_store(path)


def address(store: object) -> str | None:
    """The path or URL of a store as text; None stays None. InvalidInput for what is neither text nor a `Path`."""
    place = os.fspath(store) if isinstance(store, str | os.PathLike) else store
    if place is None or isinstance(place, str):
        return place
    raise InvalidInput(f"The store is given as {type(place).__name__}; give a path, as text or as a Path, or a URL.")


def _trial_store() -> str:
    from .storage import trial

    return trial.make()


def _given_llm(given: object) -> Provider | None:
    if given is None or isinstance(given, str):
        return None
    from .llm.given import require_provider

    return require_provider(given)


def _given_embedder(given: object) -> Embedder | None:
    if given is None or isinstance(given, str):
        return None
    from .embedding.given import require_embedder

    return require_embedder(given)


def _forget(view: StoreView, *, dry_run: bool = False, **named: Any) -> Receipt:
    # Imported here, because a hook never forgets anything.
    from .forgetting.forget import Forgetting, forget_request

    return Forgetting(view).forget(forget_request(**named), dry_run=dry_run)


#: Seconds that an upgrade waits for another upgrade, which may be copying a large store.
_UPGRADE_PATIENCE = 3_600.0


def upgrade(settings: Config, *, progress: Callable[[int, int], None] | None = None) -> Upgraded:
    """Copy a store, then migrate it to this version's schema. Returns what was done.

    `progress` is called with the number of copied pages and the total. If several processes upgrade at once, one does
    the work and the others wait.
    """
    from .store_url import masked

    patient = settings._replace(busy_timeout=max(settings.busy_timeout, _UPGRADE_PATIENCE))
    engine = open_engine(patient, Clock(), True, create=False, progress=progress)
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


def open_engine(
    settings: Config,
    clock: Clock,
    migrate: bool,
    *,
    create: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Engine:
    if settings.is_remote:
        raise NotRemote()
    # Imported here, so that each engine loads only its own driver.
    if settings.url.startswith("postgresql://"):
        from .storage.postgres import PostgresEngine

        return PostgresEngine(
            settings.url,
            clock,
            busy_timeout=settings.busy_timeout,
            upgrade=migrate,
            create=create,
            data_dir=settings.data_dir,
        )
    from .storage.sqlite import SqliteEngine

    return SqliteEngine(
        settings.url,
        clock,
        busy_timeout=settings.busy_timeout,
        synchronous=settings.synchronous,
        upgrade=migrate,
        create=create,
        progress=progress,
        keys=keys_of(settings),
    )


def lost_store(eng: Engram) -> str:
    """What to tell the person if a store was missing, so that this one was made; empty if none was."""
    if eng.settings.is_remote or not eng._view.engine.outcome.in_place_of_lost:
        return ""
    return (
        f"The store {eng.settings.url} was missing, and a new one was begun. There are backups of the earlier one: "
        "`engram restore --list` shows them, and `engram restore FILE --force` brings one back."
    )


def keys_of(settings: Config) -> Keys:
    """Where the keys of encrypted stores are."""
    from .storage.keys import Keys

    return Keys(settings.key_file, settings.key_ring == "on", settings.encrypt_new == "on")
