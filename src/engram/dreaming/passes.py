"""One pass: sense what there is to do, do what presses, and say what was done.

Only one pass runs in a workspace at a time, anywhere: it holds the exclusive lease `dream`, and every write is checked
against it. A stage that fails is reported and does not stop the others, except where nothing more may be spent.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import checks, json_columns
from ..coordination.leases import Leases
from ..coordination.sessions import Sessions
from ..errors import CapReached, DreamNotFound, EngramError, InvalidInput, LeaseHeld, LeaseLost
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

# What a stage makes anew; the lines that others lost are simply gone.
_LOST = """
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
    #: The drive that makes it act.
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
        """One pass. `stop` ends it after the current step; `progress` is called with a stage, what is done of it,
        and how much there is."""
        chosen = _chosen(stages)
        if dry_run:
            return self._look(chosen, force)
        session = self._sessions.register(SESSION_TYPE, "dreaming")
        report: DreamReport | None = None
        try:
            with self._leases.hold(session, RESOURCE, "a pass of dreaming", ttl=TTL) as lease:
                report = self._pass(session, lease, chosen, force, stop or threading.Event(), progress)
        except LeaseHeld as held:
            return self._refused(session, held)
        except LeaseLost as lost:
            # Somebody else may be dreaming already: nothing more is written, not even the report.
            return report if report and report.errors else self.report_not_started(str(lost), session)
        finally:
            self._sessions.complete(session, "dreamt")
        return report

    def backlog(self, ripe: int = drives.RIPE) -> DreamBacklog:
        """What waits to be distilled; `ripe` is how many new turns make a session worth another look."""
        checks.whole(ripe, "ripe", least=1)
        with self._engine.read() as tx:
            return drives.backlog(tx, self._workspace, ripe)

    def drives(self) -> Drives | None:
        """How much pressed when it was last sensed; None before the first pass."""
        with self._engine.read() as tx:
            return drives.known(tx, self._workspace)

    def status(self) -> DreamStatus:
        """What waits, how much it presses, and how the last pass went."""
        last = self.list(1)
        proposals = len(Proposals(self._view).list())
        counts = Work(self._view).counts()
        return DreamStatus(self.backlog(), self.drives(), last[0] if last else None, counts, proposals)

    def undo(self, run: int | None = None) -> UndoReport:
        """Bring back everything that a run changed: the newest pass that was not undone, or the run that is named.

        UndoBlocked when something was changed since, LeaseHeld while somebody dreams; then nothing is undone. What was
        forgotten since stays so. An undo is a run too, and is undone by naming it.
        """
        if run is not None:
            checks.whole(run, "run", least=1)
        session = self._sessions.register(SESSION_TYPE, "undoing a pass")
        try:
            with self._leases.hold(session, RESOURCE, "undoing a pass", ttl=TTL) as lease:
                return self._undo(session, lease, run)
        finally:
            self._sessions.complete(session, "undone")

    def show(self, id: int) -> DreamReport | UndoReport:
        """What one run did: a pass, an undo, or a proposal that was applied by hand."""
        checks.whole(id, "dream", least=1)
        with self._engine.read() as tx:
            row = tx.one(_GET, workspace=self._workspace, id=id)
            proposal = tx.one(_PROPOSAL, workspace=self._workspace, id=id)
        if row is None:
            raise DreamNotFound(f"There is no dream {id} in workspace {self._workspace!r}.")
        *shared, undoes = row
        if not row[1] and undoes is None:
            return self._applied(tuple(shared), proposal[0] if proposal else 0)
        return self._record(tuple(shared)) if undoes is None else self._undo_record(tuple(shared), undoes)

    def _look(self, chosen: Sequence[Stage], force: bool) -> DreamReport:
        """What a pass would do, without doing any of it."""
        with self._engine.read() as tx:
            waiting = drives.backlog(tx, self._workspace)
            felt = drives.sense(tx, self._workspace, waiting)
            acting = {stage.name for stage in chosen if force or getattr(felt, stage.drive) >= drives.ACTS}
            sessions = drives.ripe(tx, self._workspace, everything=force) if "gists" in acting else []
            months = eras.changed(tx, self._workspace) if "eras" in acting else []
            now = tx.now()
        report = _report(self._workspace, None, now, self._view.config.llm, waiting, felt, dry_run=True)
        return report._replace(gists=sessions, eras=months, ended_at=now)

    def _refused(self, session: str, held: LeaseHeld) -> DreamReport:
        holder = held.holders[0] if held.holders else None
        who = f"{holder.session_id} since {holder.claimed_at}" if holder else "somebody who waits for it"
        return self.report_not_started(f"Another pass is under way: {who}.", session)

    def report_not_started(self, problem: str, session: str | None = None) -> DreamReport:
        """The report of a pass that could not begin; it is not kept."""
        with self._engine.read() as tx:
            now = tx.now()
            waiting = drives.backlog(tx, self._workspace)
            felt = drives.known(tx, self._workspace) or drives.sense(tx, self._workspace, waiting)
        report = _report(self._workspace, session, now, self._view.config.llm, waiting, felt)
        return report._replace(ended_at=now, errors=[problem])

    def _pass(
        self,
        session: str,
        lease: Lease,
        chosen: Sequence[Stage],
        force: bool,
        stop: threading.Event,
        progress: Progress | None,
    ) -> DreamReport:
        thinker = Thinker(self._view)
        with self._engine.write() as tx:
            self._leases.fence(tx, lease.token)
            waiting = drives.backlog(tx, self._workspace)
            felt = drives.sense(tx, self._workspace, waiting)
            id, now = self._begin(tx, session)
        journal = Journal(self._view, id)
        context = PassContext(
            self._view, self._leases, thinker, lease.token, journal, force=force, stop=stop, progress=progress
        )
        report = _report(self._workspace, session, now, thinker.name, waiting, felt)._replace(id=id)
        try:
            self._settle(context)
            seconds = self._stages(context, chosen, felt, force)
            self._prove(context, seconds)
            return self._finish(context, report, seconds)
        except LeaseLost as lost:
            return report._replace(errors=[*context.errors, str(lost)])

    def _begin(self, tx: Transaction, session: str, undoes: int | None = None) -> tuple[int, str]:
        """The number of a new run, and when it began."""
        now = tx.now()
        made = tx.all(_BEGIN, workspace=self._workspace, session=session, now=now, undoes=undoes)
        return made[0][0], now

    def _undo(self, session: str, lease: Lease, run: int | None) -> UndoReport:
        with self._engine.write() as tx:
            self._leases.fence(tx, lease.token)
            undone = reversal.newest(tx, self._workspace) if run is None else run
            found = reversal.prepare(tx, self._workspace, undone)
            names = {thing: found.called(tx, thing) for thing in (*found.targets, *found.left)}
            id, started = self._begin(tx, session, undone)
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
            self._keep(tx, report)
        return report

    def _stages(self, context: PassContext, chosen: Sequence[Stage], felt: Drives, force: bool) -> dict[str, float]:
        seconds: dict[str, float] = {}
        self._index(context, seconds)
        for stage in chosen:
            if not (force or getattr(felt, stage.drive) >= drives.ACTS or self._presses(stage)):
                continue
            started = time.perf_counter()
            try:
                stage.act(context)
            except Stopped:
                context.errors.append(f"{stage.name}: stopped before its end, as was asked")
                break
            except LeaseLost:
                raise
            except CapReached as reached:
                context.errors.append(f"{stage.name}: {reached}")
                break
            except Exception as error:
                context.errors.append(f"{stage.name}: {_told(error)}")
            finally:
                seconds[stage.name] = round(time.perf_counter() - started, 6)
        return seconds

    def _settle(self, context: PassContext) -> None:
        """First what a pass that died has left unproved."""
        try:
            rollback.settle(context)
        except LeaseLost:
            raise
        except EngramError as error:
            context.errors.append(f"probe: {error}")

    def _prove(self, context: PassContext, seconds: dict[str, float]) -> None:
        """That nothing was lost; what lost something is taken back. Then say what was learnt and changed."""
        started = time.perf_counter()
        try:
            rollback.check(context)
            digest.write(context)
        except LeaseLost:
            raise
        except EngramError as error:
            context.errors.append(f"probe: {error}")
        seconds["probe"] = round(time.perf_counter() - started, 6)

    def _presses(self, stage: Stage) -> bool:
        """Whether an earlier stage, an earlier pass that could not, or forgetting has left work for this one."""
        if stage.drive == "curiosity":
            return False
        with self._engine.read() as tx:
            if stage.name == extract.STAGE:
                return extract.waits(tx, self._workspace)
            if tx.one(_LOST, workspace=self._workspace):
                return True
            felt = drives.sense(tx, self._workspace, drives.backlog(tx, self._workspace))
        return stage.drive == "coherence" and felt.coherence >= drives.ACTS

    def _index(self, context: PassContext, seconds: dict[str, float]) -> None:
        """First what hooks left behind: what is not indexed is not found."""
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
            ended = drives.settled(report.drives_before, after, reflected=context.reflected, now=now)
            # As it was at the beginning: what was said during the pass is new to the next one.
            drives.keep(tx, self._workspace, ended, report.before.mark)
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
                waiting=context.thinker.waiting,
                seconds=seconds,
                errors=context.errors,
                alarms=context.alarms,
                extracted=context.extracted,
                proposals=context.proposed if context.tally or context.extracted is not None else None,
            )
            if context.tally:
                report = DreamReport(**{**report._asdict(), **context.tally.figures(context.changes.values())})
            context.journal.close(tx)
            self._keep(tx, report)
        return report

    def _keep(self, tx: Transaction, report: DreamReport | UndoReport) -> None:
        values = report._asdict()
        for name in ("id", "workspace", "session_id", "started_at", "ended_at", "undone_by", "proposal"):
            values.pop(name, None)
        alarms = 0
        if isinstance(report, UndoReport):
            values["kind"] = "undo"
        else:
            alarms = len(report.alarms)
            # The caller sees the whole message; what is kept must not repeat what may be forgotten later.
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

    def _record(self, row: Row) -> DreamReport:
        id, session, started, ended, kept, undone_by = row
        values: dict[str, Any] = {**json_columns.load_object(kept, "dreams.report"), "undone_by": undone_by}
        if len(values) == 1:  # it died, is under way, or its report cannot be read
            unfinished = self._blank(session, started)
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
        blank = self._blank(session, started)
        return blank._replace(id=id, ended_at=ended, undone_by=undone_by, proposal=proposal)

    def _blank(self, session: str, started: str) -> DreamReport:
        nothing = DreamBacklog(0, 0, 0, 0, 0, 0)
        return _report(self._workspace, session, started, "", nothing, Drives(0.0, 0.0, 0.0, 0.0, started))

    def _undo_record(self, row: Row, run: int) -> UndoReport:
        id, session, started, ended, kept, undone_by = row
        nothing: dict[str, Any] = {"run": run, "restored": [], "removed": [], "left": []}
        values = nothing | json_columns.load_object(kept, "dreams.report")
        values.pop("kind", None)
        dated = {"started_at": started, "ended_at": ended}
        return UndoReport(id, self._workspace, session, **dated, **values, undone_by=undone_by)

    # Last, because its name hides the type from annotations that follow it.
    def list(self, limit: int = 20) -> list[DreamReport]:
        """Reports of earlier passes, the latest first; limit 0: all."""
        checks.whole(limit, "limit", least=0)
        with self._engine.read() as tx:
            rows = tx.all(_LIST, workspace=self._workspace, limit=limit or checks.MAX_WHOLE)
        return [self._record(row) for row in rows]


def _told(error: Exception) -> str:
    """What went wrong; what nobody foresaw is named, and its traceback is in the log."""
    if isinstance(error, EngramError):
        return str(error)
    import logging

    logging.getLogger("engram.dreaming").error("a stage failed", exc_info=error)
    return type(error).__name__


def _chosen(stages: Sequence[str] | None) -> list[Stage]:
    if stages is None:
        return list(STAGES)
    known = [stage.name for stage in STAGES]
    unknown = [name for name in stages if name not in known]
    if unknown or isinstance(stages, str):
        raise InvalidInput(f"There is no stage {', '.join(unknown) or stages}; there are {', '.join(known)}.")
    return [stage for stage in STAGES if stage.name in stages]


def _report(
    workspace: str,
    session: str | None,
    now: str,
    provider: str,
    waiting: DreamBacklog,
    felt: Drives,
    *,
    dry_run: bool = False,
) -> DreamReport:
    """A report with nothing done yet."""
    return DreamReport(
        id=None,
        workspace=workspace,
        session_id=session,
        dry_run=dry_run,
        started_at=now,
        ended_at=None,
        provider=provider,
        before=waiting,
        after=waiting,
        drives_before=felt,
        drives=felt,
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
