"""One pass of dreaming: measure the backlog, run the stages that are due, report what they did.

A pass holds the exclusive lease `dream`, so only one runs in a workspace at a time, on any machine. Every write checks
the lease. A stage that fails is reported and does not stop the other stages, unless a cap on model calls is reached.
`due` decides which stages are due, and whether a pass that starts by itself may begin.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence, Set
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import checks, json_columns
from ..coordination.leases import Leases
from ..coordination.sessions import Sessions
from ..dream_records import Due, NotDue
from ..errors import CapReached, EngramError, InvalidInput, LeaseHeld, LeaseLost
from ..memory.embedding_queue import EmbeddingQueue
from ..records import DreamBacklog, DreamReport, DreamStatus, Drives, UndoReport
from ..safe_text import without_quotes
from . import drives, due, proposals
from .agent_queue import Work
from .pass_context import PassContext, Progress, Stopped, describe
from .recall_check import rollback
from .reports import empty_report, read_pass, read_undo
from .stages import consolidate, digest, eras, narrative, profile, reflect
from .stages import sessions as sessions_stage
from .thinking import Thinker
from .undo import reversal
from .undo.journal import Journal

if TYPE_CHECKING:
    from ..dream_records import DreamEstimate
    from ..records import Lease
    from ..storage.engine import Row, Transaction
    from ..store_view import StoreView

SESSION_TYPE = "dream"
RESOURCE = "dream"
#: How long the lease lives without being renewed.
TTL = 300.0

_BEGIN = """
INSERT INTO dreams (workspace, session_id, started_at, undoes, reason, report)
VALUES (:workspace, :session, :now, :undoes, :reason, '{}') RETURNING id
"""
_END = """
UPDATE dreams SET ended_at = :now, report = :report, alarms = :alarms WHERE workspace = :workspace AND id = :id
"""
_GET = """
SELECT id, session_id, started_at, ended_at, report, undone_by, COALESCE(reason, 'by hand'), undoes FROM dreams
WHERE workspace = :workspace AND id = :id
"""
_LIST = """
SELECT id, session_id, started_at, ended_at, report, undone_by, COALESCE(reason, 'by hand') FROM dreams
WHERE workspace = :workspace AND undoes IS NULL AND session_id <> '' AND id < :before ORDER BY id DESC LIMIT :limit
"""
# The session of the pass that is running.
_RUNNING = """
SELECT session_id FROM leases
WHERE workspace = :workspace AND resource = :resource AND ended_at IS NULL AND expires_at > :now
"""
_PROPOSAL = "SELECT id FROM proposals WHERE workspace = :workspace AND applied_in = :id"


class Stage(NamedTuple):
    name: str
    #: The stage runs when this drive is high enough.
    drive: str
    act: Callable[[PassContext], None]


STAGES = (
    Stage(sessions_stage.STAGE, "continuity", sessions_stage.run),
    Stage("consolidate", "coherence", consolidate.run),
    Stage("eras", "coherence", eras.run),
    Stage("profile", "coherence", profile.run),
    Stage("narrative", "coherence", narrative.run),
    Stage("reflect", "curiosity", reflect.run),
)


#: Fields of a report that are columns of their own.
_COLUMNS = ("id", "workspace", "session_id", "started_at", "ended_at", "undone_by", "proposal", "reason")


class _Asked(NamedTuple):
    """What was asked of a pass."""

    reason: str
    stages: Sequence[Stage]
    force: bool
    stop: threading.Event
    progress: Progress | None
    #: Whether consolidation only proposes.
    propose_only: bool = False
    #: For an automatic pass: the least number of seconds since the last one.
    every: float | None = None


class Dreams:
    """Passes over one workspace."""

    def __init__(self, view: StoreView) -> None:
        # What a pass writes is nobody's in particular, also when a request with a token has started it.
        self._view = view = view._replace(author=None)
        self._engine = view.engine
        self.workspace = self._workspace = view.workspace
        self._leases = Leases(view)
        self._sessions = Sessions(view)
        self._companion = view.config.is_companion(view.workspace)

    def dream(
        self,
        *,
        force: bool = False,
        dry_run: bool = False,
        stages: Sequence[str] | None = None,
        propose_only: bool = False,
        stop: threading.Event | None = None,
        progress: Progress | None = None,
    ) -> DreamReport:
        """Run one pass. Setting `stop` ends it after the current step. `progress` is called with a stage, how much of
        it is done, and how much there is. With `propose_only`, consolidation changes nothing by itself."""
        chosen = self._select_stages(stages)
        if dry_run:
            return self._preview(chosen, force)
        asked = _Asked(due.BY_HAND, chosen, force, stop or threading.Event(), progress, propose_only)
        report = self._run(self._view, asked)
        assert isinstance(report, DreamReport), "only an automatic pass can be found not to be due"
        return report

    def dream_if_due(
        self,
        reason: str = due.IF_DUE,
        *,
        every: float | None = None,
        propose_only: bool = False,
        stop: threading.Event | None = None,
        progress: Progress | None = None,
    ) -> DreamReport | NotDue:
        """Run an automatic pass if something is due, and if the last automatic pass began at least `every` seconds ago.

        `every` is the setting `auto_dream_every` by default. A loop, which has an interval of its own, gives 0 and uses
        the thinker in `llm`. Every other automatic pass costs nothing unless the setting `auto_dream_llm` allows it.
        """
        if reason not in due.REASONS[1:]:
            raise InvalidInput(f"The reason is {reason!r}; it must be one of {', '.join(due.REASONS[1:])}.")
        config = self._view.config
        every = config.auto_dream_every if every is None else checks.seconds(every, "every")
        decision = self.decide(every)
        if not decision.run:
            return NotDue(self._workspace, decision.why, decision.next_at)
        view = self._view
        if reason != due.LOOP:
            chosen = due.thinker(config)
            # An object that was given as thinker may cost money, too.
            given = view.llm if config.auto_dream_llm == "same" else None
            view = view._replace(config=config._replace(llm=chosen), llm=given)
        asked = _Asked(reason, list(STAGES), False, stop or threading.Event(), progress, propose_only, every)
        return self._run(view, asked)

    def decide(self, every: float | None = None) -> due.Decision:
        """Whether an automatic pass would begin now, and why. One read."""
        every = self._view.config.auto_dream_every if every is None else every
        with self._engine.read() as tx:
            return due.decide(self._look(tx), every=every)

    def _run(self, view: StoreView, asked: _Asked) -> DreamReport | NotDue:
        session = self._sessions.register(SESSION_TYPE, "dreaming")
        report: DreamReport | NotDue | None = None
        try:
            with self._leases.hold(session, RESOURCE, "a pass of dreaming", ttl=TTL) as lease:
                report = self._dream_under_lease(view, session, lease, asked)
        except LeaseHeld as held:
            return self._report_lease_held(session, held)._replace(reason=asked.reason)
        except LeaseLost as lost:
            # Another pass may have begun. This one writes nothing more, not even its report.
            kept = isinstance(report, NotDue) or (report is not None and report.errors)
            return report if report is not None and kept else self.report_not_started(str(lost), session)
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
        config = self._view.config
        with self._engine.read() as tx:
            look = self._look(tx)
            found = due.assess(look, [stage.name for stage in self._select_stages(None)])
            decision = due.decide(look, every=config.auto_dream_every, assessed=found)
            last_automatic = due.last_automatic(tx, self._workspace)
            stuck = due.stuck(tx, self._workspace)
            pending = proposals.count_pending(tx, self._workspace)
        return DreamStatus(
            backlog=self.backlog(),
            drives=self.drives(),
            last=last[0] if last else None,
            work=Work(self._view).counts(),
            proposals=pending,
            due=tuple(found.values()),
            automatic=config.auto_dream == "on",
            thinker=due.thinker(config),
            last_automatic=last_automatic,
            next_at=decision.next_at,
            starts_now=decision.run,
            stuck=tuple(stuck),
        )

    def estimate(self) -> DreamEstimate:
        """What dreaming about everything that waits would take with a model: sessions, tokens, passes, days.

        One read, which loads no text.
        """
        from .estimates import estimate

        return estimate(self._view)

    def undo(self, run: int | None = None) -> UndoReport:
        """Undo everything that a pass changed. Without `run`, that is the newest pass that changed something.

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
            running = self._running(tx)
        if row is None:
            raise reversal.unknown(id, self._workspace)
        *shared, undoes = row
        _, session, *_ = shared
        if not session and undoes is None:
            return self._applied(tuple(shared), proposal or 0)
        return (
            self._dream_report(tuple(shared), running) if undoes is None else self._undo_report(tuple(shared), undoes)
        )

    def _select_stages(self, stages: Sequence[str] | None) -> list[Stage]:
        """The stages to run. Only a companion reflects; asking for it elsewhere is InvalidInput."""
        chosen = _select_stages(stages)
        if self._companion:
            return chosen
        if stages is not None and reflect.STAGE in stages:
            raise InvalidInput(
                f"Workspace {self._workspace!r} is not a companion's, so there is no reflection. If it is one, write "
                f"[workspaces.{self._workspace}] and companion = true into config.toml."
            )
        return [stage for stage in chosen if stage.name != reflect.STAGE]

    def _preview(self, chosen: Sequence[Stage], force: bool) -> DreamReport:
        """What a pass would do, without doing it."""
        names = [stage.name for stage in chosen]
        with self._engine.read() as tx:
            backlog = drives.backlog(tx, self._workspace)
            found = self._foresee(tx, names, force)
            pressing = due.assess(self._look(tx)).values()
            levels = drives.current(tx, self._workspace, backlog, _pressing(pressing), curious=self._companion)
            acting = {each.stage for each in found if each.due}
            sessions = self._sessions_to_summarise(tx, force) if sessions_stage.STAGE in acting else []
            months = eras.outdated_months(tx, self._workspace) if "eras" in acting else []
            now = tx.now()
        report = empty_report(self._workspace, None, now, self._view.thinker, backlog, levels, dry_run=True)
        return report._replace(gists=sessions, eras=months, ended_at=now, due=tuple(found))

    def _foresee(self, tx: Transaction, names: Sequence[str], force: bool) -> list[Due]:
        """What each stage would do, also with what an earlier stage of the same pass would make."""
        found: list[Due] = []
        look = self._look(tx)
        for name in names:
            each = due.of_stage(look, name)
            if force and not each.due:
                each = each._replace(due=True, would=each.would or "run", reason=f"Forced. {each.reason}", at=None)
            found.append(each)
            if name == sessions_stage.STAGE and each.due:
                look = look._replace(coming=len(self._sessions_to_summarise(tx, force)))
        return found

    def _sessions_to_summarise(self, tx: Transaction, force: bool) -> list[str]:
        silent = self._view.config.stale_after
        return drives.sessions_to_summarise(tx, self._workspace, everything=force, silent_after=silent)

    def _look(self, tx: Transaction, levels: Drives | None = None) -> due.Look:
        return due.Look(tx, self._view, tx.now(), levels=levels)

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
            levels = drives.stored(tx, self._workspace) or drives.current(
                tx, self._workspace, backlog, curious=self._companion
            )
        report = empty_report(self._workspace, session, now, self._view.thinker, backlog, levels)
        return report._replace(ended_at=now, errors=[problem])

    def _dream_under_lease(self, view: StoreView, session: str, lease: Lease, asked: _Asked) -> DreamReport | NotDue:
        """Run the stages, check recall, and store the report. An automatic pass decides again whether it is due."""
        thinker = Thinker(view)
        with self._engine.write() as tx:
            self._leases.fence(tx, lease.token)
            if asked.every is not None:
                # Two processes may have found the same work at once. The lease decided which one does it.
                decision = due.decide(self._look(tx), every=asked.every)
                if not decision.run:
                    return NotDue(self._workspace, decision.why, decision.next_at)
            backlog = drives.backlog(tx, self._workspace)
            found = due.assess(self._look(tx), [stage.name for stage in asked.stages])
            levels = drives.current(tx, self._workspace, backlog, _pressing(found.values()), curious=self._companion)
            id, now = self._insert_dream(tx, session, reason=asked.reason)
        thinker.meter.automatic = asked.reason not in (due.BY_HAND, due.LOOP)
        journal = Journal(view, id)
        context = PassContext(
            view,
            self._leases,
            thinker,
            lease.token,
            journal,
            force=asked.force,
            stop=asked.stop,
            progress=asked.progress,
            propose_only=asked.propose_only,
        )
        report = empty_report(self._workspace, session, now, thinker.name, backlog, levels)
        report = report._replace(id=id, reason=asked.reason, due=tuple(each for each in found.values() if each.due))
        try:
            self._check_unfinished_passes(context)
            seconds, ran = self._run_stages(context, asked, levels)
            self._check_recall(context, seconds)
            return self._finish(context, report, seconds, ran)
        except LeaseLost as lost:
            return report._replace(errors=[*context.errors, str(lost)])

    def _insert_dream(
        self, tx: Transaction, session: str, undoes: int | None = None, reason: str = due.BY_HAND
    ) -> tuple[int, str]:
        """The number of a new pass or undo, and when it began."""
        now = tx.now()
        about = {"workspace": self._workspace, "session": session, "undoes": undoes, "reason": reason}
        return tx.value(_BEGIN, now=now, **about), now

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
        self, context: PassContext, asked: _Asked, levels: Drives
    ) -> tuple[dict[str, float], dict[str, Due]]:
        """Run the stages that are due; the seconds that they took, and what was due for each."""
        seconds: dict[str, float] = {}
        ran: dict[str, Due] = {}
        self._index_pending(context, seconds)
        for stage in asked.stages:
            # An earlier stage of this pass may have left work for this one.
            with self._engine.read() as tx:
                found = due.of_stage(self._look(tx, levels), stage.name)
            if not (asked.force or found.due):
                continue
            ran[stage.name] = found
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
                context.problems[stage.name] = str(reached)
                break
            except Exception as error:
                problem = describe(error)
                context.errors.append(f"{stage.name}: {problem}")
                context.problems[stage.name] = problem
            finally:
                seconds[stage.name] = round(time.perf_counter() - started, 6)
        return seconds, ran

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

    def _finish(
        self, context: PassContext, report: DreamReport, seconds: dict[str, float], ran: dict[str, Due]
    ) -> DreamReport:
        with context.write() as tx:
            now = tx.now()
            after = drives.backlog(tx, self._workspace)
            look = self._look(tx, report.drives_before)
            left = _pressing(due.assess(look).values())
            ended = drives.after_pass(report.drives_before, after, reflected=context.reflected, now=now, due=left)
            done = context.consolidation
            progressed = {consolidate.STAGE} if done and done.actions + done.proposed else set()
            due.note_leftovers(look, ran, context.problems, progressed)
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
                notes=context.notes or None,
                extracted=context.extracted,
                proposals=context.proposed
                if context.consolidation or context.extracted is not None or context.proposed
                else None,
                left_out=dict(context.left_out) or None,
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
        for name in _COLUMNS:
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
            values["due"] = [each._asdict() for each in report.due]
        tx.run(
            _END,
            workspace=self._workspace,
            id=report.id,
            now=report.ended_at,
            report=json_columns.dump(values, "report"),
            alarms=alarms,
        )
        tx.note(self._workspace, "dream", report.id)

    def _running(self, tx: Transaction) -> set[str]:
        return set(tx.column(_RUNNING, workspace=self._workspace, resource=RESOURCE, now=tx.now()))

    def _dream_report(self, row: Row, running: Set[str]) -> DreamReport:
        id, session, started, ended, kept, undone_by, reason = row
        values = read_pass(kept)
        if not values:  # the process died, the pass is still running, or the report cannot be read
            unfinished = self._unfinished(session, started)
            errors = [] if ended is None and session in running else ["This pass did not end."]
            return unfinished._replace(id=id, errors=errors, undone_by=undone_by, reason=reason)
        values |= {"undone_by": undone_by, "reason": reason}
        return DreamReport(
            id=id, workspace=self._workspace, session_id=session, started_at=started, ended_at=ended, **values
        )

    def _applied(self, row: Row, proposal: int) -> DreamReport:
        id, session, started, ended, _, undone_by, _ = row
        unfinished = self._unfinished(session, started)
        return unfinished._replace(id=id, ended_at=ended, undone_by=undone_by, proposal=proposal)

    def _unfinished(self, session: str, started: str) -> DreamReport:
        nothing = DreamBacklog(0, 0, 0, 0, 0, 0)
        return empty_report(self._workspace, session, started, "", nothing, Drives(0.0, 0.0, 0.0, 0.0, started))

    def _undo_report(self, row: Row, run: int) -> UndoReport:
        id, session, started, ended, kept, undone_by, _ = row
        nothing: dict[str, Any] = {"run": run, "restored": [], "removed": [], "left": []}
        values = nothing | read_undo(kept)
        dated = {"started_at": started, "ended_at": ended}
        return UndoReport(id, self._workspace, session, **dated, **values, undone_by=undone_by)

    # Defined last, because the name `list` hides the type in annotations after it.
    def list(self, limit: int = 20, *, before: int | None = None) -> list[DreamReport]:
        """Reports of earlier passes, newest first; limit 0: all. `before`, the last id of a page, gives the next."""
        most = checks.whole(limit, "limit", least=0) or checks.MAX_WHOLE
        last = checks.MAX_WHOLE if before is None else checks.whole(before, "before", least=0)
        with self._engine.read() as tx:
            rows = tx.all(_LIST, workspace=self._workspace, limit=most, before=last)
            running = self._running(tx)
        return [self._dream_report(row, running) for row in rows]


def _pressing(found: Iterable[Due]) -> set[str]:
    """The drives of the stages that are due."""
    acting = {each.stage for each in found if each.due}
    return {stage.drive for stage in STAGES if stage.name in acting}


def _select_stages(stages: Sequence[str] | None) -> list[Stage]:
    if stages is None:
        return list(STAGES)
    known = [stage.name for stage in STAGES]
    # Two stages of earlier releases are one now.
    chosen = [sessions_stage.STAGE if name in sessions_stage.EARLIER_NAMES else name for name in stages]
    unknown = [name for name in chosen if name not in known]
    if unknown or isinstance(stages, str):
        raise InvalidInput(f"There is no stage {', '.join(unknown) or stages}; there are {', '.join(known)}.")
    return [stage for stage in STAGES if stage.name in chosen]
