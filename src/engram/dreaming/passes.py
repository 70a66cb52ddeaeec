"""One pass of dreaming: measure the backlog, run the stages that are due, report what they did.

A pass holds the exclusive lease `dream`, so only one runs in a workspace at a time, on any machine. Every write checks
the lease. A stage that fails is reported and does not stop the other stages, unless a cap on model calls is reached.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import checks, json_columns
from ..coordination.leases import Leases
from ..coordination.sessions import Sessions
from ..errors import CapReached, EngramError, InvalidInput, LeaseHeld, LeaseLost
from ..memory.embedding_queue import EmbeddingQueue
from ..records import DreamBacklog, DreamReport, DreamStatus, Drives, UndoReport
from ..safe_text import without_quotes
from . import drives
from .agent_queue import Work
from .pass_context import PassContext, Progress, Stopped
from .proposals import Proposals
from .recall_check import rollback
from .stages import consolidate, digest, eras, extract, gists, portrait
from .thinking import Thinker
from .undo import reversal
from .undo.journal import Journal

if TYPE_CHECKING:
    from ..records import Lease
    from ..storage.engine import Row, Transaction
    from ..store_view import StoreView

SESSION_TYPE = "dream"
RESOURCE = "dream"
#: How long the lease lives without being renewed.
TTL = 300.0

# Only gists, eras and the narrative are rebuilt after forgetting. Other things stay shorter.
_REBUILDS = """
SELECT 1 FROM rebuilds r LEFT JOIN memories m ON r.kind = 'memory' AND m.id = r.ref
  LEFT JOIN blocks b ON r.kind = 'block' AND b.id = r.ref
WHERE r.workspace = :workspace AND (m.kind IN ('gist', 'era') OR b.name = 'narrative') LIMIT 1
"""
_BEGIN = """
INSERT INTO dreams (workspace, session_id, started_at, undoes, report)
VALUES (:workspace, :session, :now, :undoes, '{}') RETURNING id
"""
_END = """
UPDATE dreams SET ended_at = :now, report = :report, alarms = :alarms WHERE workspace = :workspace AND id = :id
"""
_GET = """
SELECT id, session_id, started_at, ended_at, report, undone_by, undoes FROM dreams
WHERE workspace = :workspace AND id = :id
"""
_LIST = """
SELECT id, session_id, started_at, ended_at, report, undone_by FROM dreams
WHERE workspace = :workspace AND undoes IS NULL AND session_id <> '' ORDER BY id DESC LIMIT :limit
"""
_PROPOSAL = "SELECT id FROM proposals WHERE workspace = :workspace AND applied_in = :id"


class Stage(NamedTuple):
    name: str
    #: The stage runs when this drive is high enough.
    drive: str
    act: Callable[[PassContext], None]


STAGES = (
    Stage("gists", "continuity", gists.run),
    Stage("extract", "continuity", extract.run),
    Stage("consolidate", "coherence", consolidate.run),
    Stage("eras", "coherence", eras.run),
    Stage("profile", "coherence", portrait.profile),
    Stage("narrative", "coherence", portrait.narrative),
    Stage("reflect", "curiosity", portrait.reflect),
)


class Dreams:
    """Passes over one workspace."""

    def __init__(self, view: StoreView) -> None:
        self._view = view
        self._engine = view.engine
        self._workspace = view.workspace
        self._leases = Leases(view)
        self._sessions = Sessions(view)

    def dream(
        self,
        *,
        force: bool = False,
        dry_run: bool = False,
        stages: Sequence[str] | None = None,
        stop: threading.Event | None = None,
        progress: Progress | None = None,
    ) -> DreamReport:
        """Run one pass. Setting `stop` ends it after the current step. `progress` is called with a stage, how much of
        it is done, and how much there is."""
        chosen = _select_stages(stages)
        if dry_run:
            return self._preview(chosen, force)
        session = self._sessions.register(SESSION_TYPE, "dreaming")
        report: DreamReport | None = None
        try:
            with self._leases.hold(session, RESOURCE, "a pass of dreaming", ttl=TTL) as lease:
                report = self._dream_under_lease(session, lease, chosen, force, stop or threading.Event(), progress)
        except LeaseHeld as held:
            return self._report_lease_held(session, held)
        except LeaseLost as lost:
            # Another pass may have begun. This one writes nothing more, not even its report.
            return report if report and report.errors else self.report_not_started(str(lost), session)
        finally:
            self._sessions.complete(session, "dreamt")
        return report

    def backlog(self, ripe: int = drives.TURNS_FOR_GIST) -> DreamBacklog:
        """What is waiting to be distilled. A session with `ripe` new turns counts as ready for a new gist."""
        checks.whole(ripe, "ripe", least=1)
        with self._engine.read() as tx:
            return drives.backlog(tx, self._workspace, ripe)

    def drives(self) -> Drives | None:
        """The drives as the last pass left them; None before the first pass."""
        with self._engine.read() as tx:
            return drives.stored(tx, self._workspace)

    def status(self) -> DreamStatus:
        """The dream backlog, the drives, the last pass, and what waits for agents or for a decision."""
        last = self.list(1)
        proposals = len(Proposals(self._view).list())
        counts = Work(self._view).counts()
        return DreamStatus(self.backlog(), self.drives(), last[0] if last else None, counts, proposals)

    def undo(self, run: int | None = None) -> UndoReport:
        """Undo everything that a pass changed. Without `run`, that is the newest pass that is not undone yet.

        UndoBlocked when something was changed since, LeaseHeld while a pass is running; then nothing is undone. Text
        that was forgotten since stays forgotten. An undo has a number like a pass, and can itself be undone by that
        number.
        """
        if run is not None:
            checks.whole(run, "run", least=1)
        with self._engine.read() as tx:
            # Before a session is registered, which would create the workspace.
            if run is None:
                reversal.newest_pass(tx, self._workspace)
            elif tx.one(_GET, workspace=self._workspace, id=run) is None:
                raise reversal.unknown(run, self._workspace)
        session = self._sessions.register(SESSION_TYPE, "undoing a pass")
        try:
            with self._leases.hold(session, RESOURCE, "undoing a pass", ttl=TTL) as lease:
                return self._undo(session, lease, run)
        finally:
            self._sessions.complete(session, "undone")

    def show(self, id: int) -> DreamReport | UndoReport:
        """What one pass, one undo or one proposal that was applied by hand did."""
        checks.whole(id, "dream", least=1)
        with self._engine.read() as tx:
            row = tx.one(_GET, workspace=self._workspace, id=id)
            proposal = tx.value(_PROPOSAL, workspace=self._workspace, id=id)
        if row is None:
            raise reversal.unknown(id, self._workspace)
        *shared, undoes = row
        _, session, *_ = shared
        if not session and undoes is None:
            return self._applied(tuple(shared), proposal or 0)
        return self._dream_report(tuple(shared)) if undoes is None else self._undo_report(tuple(shared), undoes)

    def _preview(self, chosen: Sequence[Stage], force: bool) -> DreamReport:
        """What a pass would do, without doing it."""
        with self._engine.read() as tx:
            backlog = drives.backlog(tx, self._workspace)
            levels = drives.current(tx, self._workspace, backlog)
            acting = {stage.name for stage in chosen if force or getattr(levels, stage.drive) >= drives.THRESHOLD}
            sessions = drives.sessions_to_summarise(tx, self._workspace, everything=force) if "gists" in acting else []
            months = eras.outdated_months(tx, self._workspace) if "eras" in acting else []
            now = tx.now()
        report = _empty_report(self._workspace, None, now, self._view.thinker, backlog, levels, dry_run=True)
        return report._replace(gists=sessions, eras=months, ended_at=now)

    def _report_lease_held(self, session: str, held: LeaseHeld) -> DreamReport:
        if held.holders:
            holder = held.holders[0]
            problem = f"Another pass is running: session {holder.session_id}, since {holder.claimed_at}."
        else:
            problem = f"Another session is waiting for the lease {RESOURCE!r}."
        return self.report_not_started(problem, session)

    def report_not_started(self, problem: str, session: str | None = None) -> DreamReport:
        """The report of a pass that could not begin. It is not stored."""
        with self._engine.read() as tx:
            now = tx.now()
            backlog = drives.backlog(tx, self._workspace)
            levels = drives.stored(tx, self._workspace) or drives.current(tx, self._workspace, backlog)
        report = _empty_report(self._workspace, session, now, self._view.thinker, backlog, levels)
        return report._replace(ended_at=now, errors=[problem])

    def _dream_under_lease(
        self,
        session: str,
        lease: Lease,
        chosen: Sequence[Stage],
        force: bool,
        stop: threading.Event,
        progress: Progress | None,
    ) -> DreamReport:
        """Run the stages, check recall, and store the report."""
        thinker = Thinker(self._view)
        with self._engine.write() as tx:
            self._leases.fence(tx, lease.token)
            backlog = drives.backlog(tx, self._workspace)
            levels = drives.current(tx, self._workspace, backlog)
            id, now = self._insert_dream(tx, session)
        journal = Journal(self._view, id)
        context = PassContext(
            self._view, self._leases, thinker, lease.token, journal, force=force, stop=stop, progress=progress
        )
        report = _empty_report(self._workspace, session, now, thinker.name, backlog, levels)._replace(id=id)
        try:
            self._check_unfinished_passes(context)
            seconds = self._run_stages(context, chosen, levels, force)
            self._check_recall(context, seconds)
            return self._finish(context, report, seconds)
        except LeaseLost as lost:
            return report._replace(errors=[*context.errors, str(lost)])

    def _insert_dream(self, tx: Transaction, session: str, undoes: int | None = None) -> tuple[int, str]:
        """The number of a new pass or undo, and when it began."""
        now = tx.now()
        return tx.value(_BEGIN, workspace=self._workspace, session=session, now=now, undoes=undoes), now

    def _undo(self, session: str, lease: Lease, run: int | None) -> UndoReport:
        with self._engine.write() as tx:
            self._leases.fence(tx, lease.token)
            undone = reversal.newest_pass(tx, self._workspace) if run is None else run
            found = reversal.prepare(tx, self._workspace, undone)
            names = {thing: found.display_name(tx, thing) for thing in (*found.targets, *found.left)}
            id, started = self._insert_dream(tx, session, undone)
            reversal.carry_out(tx, self._view, found, undone, id)
            report = UndoReport(
                id=id,
                workspace=self._workspace,
                session_id=session,
                run=undone,
                started_at=started,
                ended_at=tx.now(),
                restored=[names[thing] for thing in sorted(found.targets) if found.targets[thing] is not None],
                removed=[names[thing] for thing in sorted(found.targets) if found.targets[thing] is None],
                left=[names[thing] for thing in sorted(found.left)],
            )
            self._store_report(tx, report)
        return report

    def _run_stages(
        self, context: PassContext, chosen: Sequence[Stage], levels: Drives, force: bool
    ) -> dict[str, float]:
        seconds: dict[str, float] = {}
        self._index_pending(context, seconds)
        for stage in chosen:
            if not (force or getattr(levels, stage.drive) >= drives.THRESHOLD or self._has_work(stage)):
                continue
            started = time.perf_counter()
            try:
                stage.act(context)
            except Stopped:
                context.errors.append(f"{stage.name}: stopped early on request")
                break
            except LeaseLost:
                raise
            except CapReached as reached:
                context.errors.append(f"{stage.name}: {reached}")
                break
            except Exception as error:
                context.errors.append(f"{stage.name}: {_describe(error)}")
            finally:
                seconds[stage.name] = round(time.perf_counter() - started, 6)
        return seconds

    def _check_unfinished_passes(self, context: PassContext) -> None:
        """Check recall for passes whose process died, before this pass changes anything."""
        try:
            rollback.check_unfinished_passes(context)
        except LeaseLost:
            raise
        except EngramError as error:
            context.errors.append(f"probe: {error}")

    def _check_recall(self, context: PassContext, seconds: dict[str, float]) -> None:
        """Check that recall still finds everything, undo what it lost, then write the digest."""
        started = time.perf_counter()
        try:
            rollback.check_recall(context)
            digest.write(context)
        except LeaseLost:
            raise
        except EngramError as error:
            context.errors.append(f"probe: {error}")
        seconds["probe"] = round(time.perf_counter() - started, 6)

    def _has_work(self, stage: Stage) -> bool:
        """Whether an earlier stage, an earlier pass or forgetting has left work for this stage."""
        if stage.drive == "curiosity":
            return False
        with self._engine.read() as tx:
            if stage.name == extract.STAGE:
                return extract.has_work(tx, self._workspace)
            if tx.one(_REBUILDS, workspace=self._workspace):
                return True
            levels = drives.current(tx, self._workspace, drives.backlog(tx, self._workspace))
        return stage.drive == "coherence" and levels.coherence >= drives.THRESHOLD

    def _index_pending(self, context: PassContext, seconds: dict[str, float]) -> None:
        """Work through the embedding queue first, because later stages search what hooks have stored."""
        started = time.perf_counter()
        try:
            EmbeddingQueue(self._view).work()
            context.journal.action += 1
            context.memories.sweep()
        except EngramError as error:
            context.errors.append(f"index: {error}")
        seconds["index"] = round(time.perf_counter() - started, 6)

    def _finish(self, context: PassContext, report: DreamReport, seconds: dict[str, float]) -> DreamReport:
        with context.write() as tx:
            now = tx.now()
            after = drives.backlog(tx, self._workspace)
            ended = drives.after_pass(report.drives_before, after, reflected=context.reflected, now=now)
            # The mark is that of the beginning: turns added during the pass are new to the next one.
            drives.store(tx, self._workspace, ended, report.before.mark)
            meter = context.thinker.meter
            report = report._replace(
                ended_at=now,
                after=after,
                drives=ended,
                gists=context.new_gists,
                eras=context.new_eras,
                blocks=context.new_blocks,
                calls=meter.calls,
                input_tokens=meter.input_tokens,
                output_tokens=meter.output_tokens,
                waiting=context.thinker.pending_answers,
                seconds=seconds,
                errors=context.errors,
                alarms=context.alarms,
                extracted=context.extracted,
                proposals=context.proposed if context.consolidation or context.extracted is not None else None,
            )
            if context.consolidation:
                report = DreamReport(
                    **{**report._asdict(), **context.consolidation.report_fields(context.changes.values())}
                )
            context.journal.drop_old(tx)
            self._store_report(tx, report)
        return report

    def _store_report(self, tx: Transaction, report: DreamReport | UndoReport) -> None:
        values = report._asdict()
        for name in ("id", "workspace", "session_id", "started_at", "ended_at", "undone_by", "proposal"):
            values.pop(name, None)
        alarms = 0
        if isinstance(report, UndoReport):
            values["kind"] = "undo"
        else:
            alarms = len(report.alarms)
            # The caller sees the whole message. The stored one quotes nothing, because the text may be forgotten later.
            values["errors"] = [without_quotes(error) for error in report.errors]
            for name in ("before", "after", "drives_before", "drives"):
                values[name] = values[name]._asdict()
        tx.run(
            _END,
            workspace=self._workspace,
            id=report.id,
            now=report.ended_at,
            report=json_columns.dump(values, "report"),
            alarms=alarms,
        )
        tx.note(self._workspace, "dream", report.id)

    def _dream_report(self, row: Row) -> DreamReport:
        id, session, started, ended, kept, undone_by = row
        values: dict[str, Any] = {**json_columns.load_object(kept, "dreams.report"), "undone_by": undone_by}
        if len(values) == 1:  # the process died, the pass is still running, or the report cannot be read
            unfinished = self._unfinished(session, started)
            return unfinished._replace(id=id, errors=["This pass did not end."], undone_by=undone_by)
        for name, record in (("before", DreamBacklog), ("after", DreamBacklog)):
            values[name] = record(**values[name])
        for name in ("drives_before", "drives"):
            values[name] = Drives(**values[name])
        return DreamReport(
            id=id, workspace=self._workspace, session_id=session, started_at=started, ended_at=ended, **values
        )

    def _applied(self, row: Row, proposal: int) -> DreamReport:
        id, session, started, ended, _, undone_by = row
        unfinished = self._unfinished(session, started)
        return unfinished._replace(id=id, ended_at=ended, undone_by=undone_by, proposal=proposal)

    def _unfinished(self, session: str, started: str) -> DreamReport:
        nothing = DreamBacklog(0, 0, 0, 0, 0, 0)
        return _empty_report(self._workspace, session, started, "", nothing, Drives(0.0, 0.0, 0.0, 0.0, started))

    def _undo_report(self, row: Row, run: int) -> UndoReport:
        id, session, started, ended, kept, undone_by = row
        nothing: dict[str, Any] = {"run": run, "restored": [], "removed": [], "left": []}
        values = nothing | json_columns.load_object(kept, "dreams.report")
        values.pop("kind", None)
        dated = {"started_at": started, "ended_at": ended}
        return UndoReport(id, self._workspace, session, **dated, **values, undone_by=undone_by)

    # Defined last, because the name `list` hides the type in annotations after it.
    def list(self, limit: int = 20) -> list[DreamReport]:
        """Reports of earlier passes, newest first. Limit 0 means all."""
        checks.whole(limit, "limit", least=0)
        with self._engine.read() as tx:
            rows = tx.all(_LIST, workspace=self._workspace, limit=limit or checks.MAX_WHOLE)
        return [self._dream_report(row) for row in rows]


def _describe(error: Exception) -> str:
    """The error message. For an unexpected error only its type; the traceback goes to the log."""
    if isinstance(error, EngramError):
        return str(error)
    import logging

    logging.getLogger("engram.dreaming").error("a stage failed", exc_info=error)
    return type(error).__name__


def _select_stages(stages: Sequence[str] | None) -> list[Stage]:
    if stages is None:
        return list(STAGES)
    known = [stage.name for stage in STAGES]
    unknown = [name for name in stages if name not in known]
    if unknown or isinstance(stages, str):
        raise InvalidInput(f"There is no stage {', '.join(unknown) or stages}; there are {', '.join(known)}.")
    return [stage for stage in STAGES if stage.name in stages]


def _empty_report(
    workspace: str,
    session: str | None,
    now: str,
    provider: str,
    backlog: DreamBacklog,
    levels: Drives,
    *,
    dry_run: bool = False,
) -> DreamReport:
    """A report of a pass that has done nothing yet."""
    return DreamReport(
        id=None,
        workspace=workspace,
        session_id=session,
        dry_run=dry_run,
        started_at=now,
        ended_at=None,
        provider=provider,
        before=backlog,
        after=backlog,
        drives_before=levels,
        drives=levels,
        gists=[],
        eras=[],
        blocks={},
        calls=0,
        input_tokens=0,
        output_tokens=0,
        waiting=0,
        seconds={},
        errors=[],
        alarms=[],
    )
