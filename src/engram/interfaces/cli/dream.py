"""`engram dream …`, `engram context`, `engram usage`: dreaming, what agents read of it, and what models cost."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from .common import (
    SESSION,
    Group,
    as_json,
    command,
    complete_session,
    duration_type,
    limit_option,
    load_settings,
    open_store,
    result,
    session_option,
    text_from,
    typed,
    utc_option,
)
from .counting import counted
from .review import review
from .screen import fields, one_line, table, when
from .thinker import thinker

if TYPE_CHECKING:
    from ...client import Engram
    from ...dream_records import DreamTotals, Due, NotDue, StuckStage
    from ...records import DreamBacklog, DreamReport, DreamStatus, Drives, UndoReport, WorkItem

#: Exit code if another pass is running.
_CONFLICT = 4
_FAILED = 1
#: A shorter interval would keep the store busy for nothing.
_LEAST_INTERVAL = 60.0
#: The reason of a pass that a person or a program asked for.
_BY_HAND = "by hand"
#: The steps of a pass that are no stages, as docs/dreaming.md calls them.
_STEPS = {"index": "indexing", "probe": "recall check"}
#: From this urgency on, a stage is due.
_DUE = 0.6
#: What starts a pass only if it is due: a person or a timer, the end of a session, an idle server.
_STARTED_BY = ("if due", "session end", "idle server")


def _interval(ctx: click.Context, parameter: click.Parameter, value: str) -> float:
    seconds = duration_type(ctx, parameter, value) or 0.0
    if seconds < _LEAST_INTERVAL:
        raise click.BadParameter(f"{value!r} is less than 1 minute.", ctx, parameter)
    return seconds


class _Default(Group):
    """A group that runs `run` if no command is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in ("-h", "--help")):
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_Default)
def dream() -> None:
    """Summarise sessions (gists), months (eras) and everything (profile, narrative, self).

    `engram dream` without a command is `engram dream run`, and takes its options: `engram dream --force`,
    `engram dream --dry-run`. `engram dream run --help` explains them all.
    """


@dream.command()
@click.option("--force", is_flag=True, help="Run every stage, even if little is pending.")
@click.option("--dry-run", is_flag=True, help="Show what each stage would do and why, and change nothing.")
@click.option("--if-due", is_flag=True, help="Run a pass only if one is due, as Engram does by itself.")
@click.option("--reason", type=click.Choice(_STARTED_BY), default=_STARTED_BY[0], hidden=True)
@click.option("--stage", "stages", multiple=True, help="Only this stage; may be repeated.")
@click.option("--all", "all_workspaces", is_flag=True, help="Include every workspace of the store, with totals.")
@click.pass_context
def run(
    ctx: click.Context,
    force: bool,
    dry_run: bool,
    if_due: bool,
    reason: str,
    stages: tuple[str, ...],
    all_workspaces: bool,
) -> int:
    """Run one pass.

    Exit code 4 if another pass is running. With --if-due, no pass runs if none is due, if another one is running, or
    if the last automatic pass began less than an hour ago (auto_dream_every); the exit code is then 0.
    """
    if if_due and (force or dry_run or stages):
        raise click.UsageError("--if-due cannot be combined with --force, --dry-run or --stage.", ctx)
    eng = open_store(ctx)
    with _until_stopped() as stop, _Bars(hidden=as_json(ctx)) as bars:
        if if_due:
            found = eng.dream_if_due(reason, all_workspaces=all_workspaces, stop=stop, progress=bars.show)
            return _show_if_due(ctx, found, eng.settings.data_dir)
        reports = eng.dream(
            force=force,
            dry_run=dry_run,
            stages=list(stages) or None,
            all_workspaces=all_workspaces,
            stop=stop,
            progress=bars.show,
        )
    if all_workspaces:
        from ...dream_records import DreamTotals

        totals = DreamTotals.of(reports)
        shown = {"reports": reports, "totals": totals}
        result(ctx, shown, lambda: "\n\n".join([*map(_shown, reports), fields({"totals": _totals(totals)})]))
    else:
        from ...dream_records import cost

        takes = eng.dreams.estimate() if dry_run else None
        costs = [cost(takes)] if takes and takes.sessions else []
        result(ctx, reports, lambda: "\n\n".join([*map(_shown, reports), *costs]))
    return max(map(_code, reports), default=0)


def _show_if_due(ctx: click.Context, found: Sequence[DreamReport | NotDue], folder: str) -> int:
    """Show what ran, or in a sentence why nothing did. Each pass is also one line in the log."""
    from ...records import DreamReport

    def sentence(each: DreamReport | NotDue) -> str:
        if isinstance(each, DreamReport):
            return _shown(each)
        following = f" The next pass can begin at {when(each.next_at)}." if each.next_at else ""
        return f"No pass was started in workspace {each.workspace}. {each.why}{following}"

    reports = [each for each in found if isinstance(each, DreamReport)]
    _log_passes(folder, reports)
    result(ctx, found, lambda: "\n\n".join(map(sentence, found)) or "The store is empty.")
    # Another pass is no failure: it does the work.
    return max((_FAILED for each in reports if _code(each) == _FAILED), default=0)


def _log_passes(folder: str, reports: Sequence[DreamReport]) -> None:
    from ...dream_records import summary
    from ..hooks.failures import DREAM_LOG, note

    for report in reports:
        note(folder, summary(report), DREAM_LOG)


@dream.command()
@click.option(
    "--every",
    metavar="TIME",
    callback=_interval,
    default="6h",
    show_default=True,
    help="Time from one pass to the next: 15m, 6h, 1d; at least 1m.",
)
@click.option("--now", is_flag=True, help="Start the first pass at once, not after one interval.")
@click.option(
    "--all/--one",
    "all_workspaces",
    default=True,
    show_default=True,
    help="Every workspace of the store, or only the chosen one.",
)
@click.pass_context
def loop(ctx: click.Context, every: float, now: bool, all_workspaces: bool) -> None:
    """Run the passes that are due at regular intervals, until stopped.

    Each pass is one line of output, and one in dream.log in the data folder. A failure does not end the loop.
    """
    folder = load_settings(ctx).data_dir

    def report(reports: list[DreamReport]) -> None:
        _log_passes(folder, reports)
        result(ctx, reports, lambda: "\n".join(f"{each.workspace}: {_line(each)}" for each in reports))
        sys.stdout.flush()

    ends: list[Callable[[], None]] = []

    def end() -> None:
        for each in ends:
            each()

    with _until_stopped(end) as stop:
        # The store may not be there yet when the system starts.
        while (eng := _try_to_open(ctx, folder)) is None:
            if stop.wait(every):
                return
            now = True
        failed = partial(_tell_failure, folder)
        scheduler = eng.scheduler(every, all_workspaces=all_workspaces, now=now, told=report, failed=failed)
        ends.append(partial(scheduler.stop, wait=False))
        if not stop.is_set():
            scheduler.run()


def _try_to_open(ctx: click.Context, folder: str) -> Engram | None:
    """The store; None, with a line about it, if it cannot be opened now. A wrong setting ends the command."""
    from ...errors import EngramError, InvalidInput

    try:
        return open_store(ctx, warn=False)
    except InvalidInput:
        raise
    except EngramError as error:
        _tell_failure(folder, error)
        return None


def _tell_failure(folder: str, error: Exception) -> None:
    """One line on standard error and in the log. The store's own errors say what is wrong; others only name their
    type."""
    from ...errors import EngramError
    from ..hooks.failures import DREAM_LOG, note

    why = one_line(str(error), 500) if isinstance(error, EngramError) and str(error) else type(error).__name__
    line = f"A round of passes failed: {why}"
    note(folder, line, DREAM_LOG)
    click.echo(line, err=True)


@dream.command()
@utc_option
@click.pass_context
def status(ctx: click.Context) -> None:
    """Show what is pending, what is due and why, how the last pass went, and when the next one starts by itself."""
    found = open_store(ctx).dreams.status()
    work, last = found.work, found.last
    shown: dict[str, object] = {
        "pending": _pending(found.backlog),
        "urgency": _urgency(found.drives) if found.drives else "not measured yet",
        "due": "\n".join(_due(each) for each in found.due if each.due) or "nothing",
        "not due": "\n".join(_due(each) for each in found.due if not each.due and each.waiting) or None,
        "for agents": f"{counted(work.waiting, 'work item')} waiting, {work.answered} answered" if any(work) else None,
        "to decide": f"{counted(found.proposals, 'proposal')}: {typed('dream', 'review')}" if found.proposals else None,
        "last pass": _line(last).removeprefix("pass ") if last else "none yet",
        "automatic": _automatic(found),
        "STUCK": "\n".join(map(_stuck, found.stuck)) or None,
        "ALARM": "\n".join(last.alarms) or None if last else None,
    }
    result(ctx, found, lambda: fields(shown))


@dream.command("list")
@limit_option("passes", 20)
@utc_option
@click.pass_context
def list_dreams(ctx: click.Context, limit: int) -> None:
    """List earlier passes, newest first."""
    found = open_store(ctx).dreams.list(limit)
    result(ctx, found, lambda: "\n".join(map(_line, found)) or "There has been no pass yet.")


@dream.command()
@click.argument("number", type=click.IntRange(min=1), required=False)
@utc_option
@click.pass_context
def show(ctx: click.Context, number: int | None) -> None:
    """Show the report of a pass, of an undo, or of a proposal that was applied by hand.

    These share one numbering. Without NUMBER, show the newest pass.
    """
    from ...records import UndoReport

    eng = open_store(ctx)
    found = eng.dreams.show(number or _newest(eng))
    result(ctx, found, lambda: _undone(eng, found) if isinstance(found, UndoReport) else _shown(found))


def _newest(eng: Engram) -> int:
    """The number of the newest pass."""
    from ...errors import DreamNotFound

    before: int | None = None
    while page := eng.dreams.list(before=before):
        for each in page:
            if each.id and each.proposal is None:
                return each.id
        before = page[-1].id
    raise DreamNotFound(f"There has been no pass in workspace {eng.workspace_name!r} yet.")


@dream.command()
@click.argument("number", type=click.IntRange(min=1), required=False)
@click.pass_context
def undo(ctx: click.Context, number: int | None) -> None:
    """Undo everything that one pass changed. Without NUMBER, undo the latest pass that changed something.

    A pass that was undone already is passed over.

    NUMBER is the number of a pass, of an applied proposal, or of an earlier undo. If something was changed again since,
    nothing is undone. What was forgotten since stays forgotten. `engram dream show` lists everything that an undo
    changed.
    """
    eng = open_store(ctx)
    newest = eng.dreams.list() if number is None else []
    found = eng.dreams.undo(number)
    # One that was undone before did change something.
    empty = [f"{each.id}" for each in newest if each.id and each.id > found.run and not each.undone_by]
    lines = []
    if empty:
        passes = f"Pass {empty[0]}" if len(empty) == 1 else f"Passes {', '.join(empty[:-1])} and {empty[-1]}"
        lines.append(f"{passes} changed nothing, so {_named(eng, found.run)} was undone.")
    result(ctx, found, lambda: "\n".join([*lines, _undone(eng, found, briefly=True)]))


dream.add_command(review)
dream.add_command(thinker)


@dream.group(cls=Group)
def work() -> None:
    """Work that dreaming leaves to agents (ENGRAM_LLM=agent)."""


@work.command("next")
@session_option(required=False)
@utc_option
@click.pass_context
def next_item(ctx: click.Context, session_id: str | None) -> None:
    """Take the next work item: its prompt, the schema of the answer, and its deadline."""
    item = open_store(ctx).work.next(session_id)
    result(ctx, item, lambda: _item(item) if item else "No work item is waiting.")


@work.command()
@click.argument("id", type=click.IntRange(min=1))
@click.argument("answer", required=False)
@session_option(required=False)
@click.pass_context
def submit(ctx: click.Context, id: int, answer: str | None, session_id: str | None) -> None:
    """Submit the ANSWER to a work item; - reads it from standard input."""
    open_store(ctx).work.submit(id, text_from(answer, what="ANSWER"), session_id)
    result(ctx, {"id": id}, f"Work item {id} is answered; the next pass uses it.")


@command()
@click.argument("query", required=False)
@click.option(
    "--session",
    "session_id",
    type=SESSION,
    metavar="ID",
    shell_complete=complete_session,
    help="Session whose latest turns are included.",
)
@click.option("--budget", type=click.IntRange(min=1), default=2000, show_default=True, help="Maximum number of tokens.")
@click.pass_context
def context(ctx: click.Context, query: str | None, session_id: str | None, budget: int) -> None:
    """Print what an agent should read now: profile, narrative, self, what fits QUERY, the latest turns."""
    text = open_store(ctx).context(query, session_id, budget)
    result(ctx, {"context": text}, text)


@command()
@click.option("--days", type=click.IntRange(min=1), default=30, show_default=True, help="Number of days to include.")
@click.pass_context
def usage(ctx: click.Context, days: int) -> None:
    """Show the calls and tokens spent on models, by day and stage."""
    found = open_store(ctx).usage(days)
    rows = [(each.day, each.stage, str(each.calls), str(each.input_tokens), str(each.output_tokens)) for each in found]
    head = ("day", "stage", "calls", "tokens in", "tokens out")
    result(ctx, found, lambda: table(head, rows) if rows else "No model has been called in that time.")


@contextmanager
def _until_stopped(tell: Any = None) -> Iterator[threading.Event]:
    """Ctrl-C and SIGTERM stop the work after its current step; a second signal stops it at once."""
    stop = threading.Event()

    def stop_work(number: int, frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        if tell:
            tell()

    before = {number: signal.signal(number, stop_work) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Bars:
    """A progress bar for each stage, on a terminal."""

    def __init__(self, *, hidden: bool) -> None:
        self._hidden = hidden or not sys.stderr.isatty()
        self._stage = ""
        self._bar: Any = None

    def __enter__(self) -> _Bars:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def show(self, stage: str, done: int, total: int) -> None:
        if self._hidden or not total:
            return
        if stage != self._stage:
            self._close()
            self._stage = stage
            self._bar = click.progressbar(length=total, label=f"{stage:10}", file=sys.stderr)
            self._bar.__enter__()
        self._bar.update(done - self._bar.pos)

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.__exit__(None, None, None)
            self._bar = None


def _code(report: DreamReport) -> int:
    """0 for a pass that ran; one that had a session but no number found another pass under way."""
    if report.id or report.dry_run:
        return 0
    return _CONFLICT if report.session_id else _FAILED


def _shown(report: DreamReport) -> str:
    """A pass in full. A pass that did not start has only errors, and an applied proposal only its line."""
    if report.proposal is not None or not (report.id or report.dry_run):
        return _line(report)
    seconds = (f"{_STEPS.get(stage, stage)} {value:.2f} s" for stage, value in report.seconds.items() if value >= 0.005)
    tokens = f"{report.input_tokens:,} tokens in, {report.output_tokens:,} out"
    values: dict[str, object] = {
        "pass": _head(report),
        "workspace": report.workspace,
        "why": None if report.dry_run or report.reason == _BY_HAND else _why(report),
        "stages": "\n".join(map(_due, report.due)) or None if report.dry_run else None,
        "model": report.provider or None,
        "result": _outcome(report),
        "consolidated": _consolidated(report),
        "to decide": f"{counted(report.proposals, 'new proposal')}: {typed('dream', 'review')}"
        if report.proposals
        else None,
        "for agents": f"{counted(report.waiting, 'work item')} waiting" if report.waiting else None,
        "pending before": _pending(report.before),
        "pending now": None if report.dry_run else _pending(report.after),
        "urgency": _urgency(report.drives),
        "spent": f"{counted(report.calls, 'model call')}, {tokens}" if report.calls else None,
        "time": ", ".join(seconds) or None,
        "left out": _left_out(report),
        "errors": "\n".join(map(_error, report.errors)) or None if report.ended_at or report.dry_run else None,
        "put off": "\n".join(report.notes or ()) or None,
        "ALARM": "\n".join(report.alarms) or None,
    }
    return fields(values)


def _left_out(report: DreamReport) -> str | None:
    """`7 items of the stage sessions`; None if every item could be used."""
    counts = (f"{counted(number, 'item')} of the stage {stage}" for stage, number in (report.left_out or {}).items())
    return ", ".join(counts) or None


def _why(report: DreamReport) -> str:
    """What was due when the pass began: `gists: 2 sessions with new turns: 2 ended.`"""
    return "\n".join(one_line(f"{each.stage}: {each.reason}", 300) for each in report.due if each.due)


def _due(each: Due) -> str:
    """`gists: would summarise 2 sessions. 2 sessions with new turns: 2 ended.`"""
    at = f" By itself at {when(each.at)}." if each.at else ""
    return f"{each.stage}: would {each.would}. {each.reason}" if each.due else f"{each.stage}: {each.reason}{at}"


def _automatic(found: DreamStatus) -> str:
    """Whether passes start by themselves, when the last one did, and when the next one does."""
    if not found.automatic:
        return "off (auto_dream)"
    last = f"last {when(found.last_automatic)}" if found.last_automatic else "no automatic pass yet"
    if found.starts_now:
        following = "next at the end of a session or when the MCP server is idle"
    else:
        following = f"next not before {when(found.next_at)}" if found.next_at else "next when something is due"
    model = "without a model" if found.thinker == "extractive" else "with a model"
    return f"on, {model} ({found.thinker}); {last}; {following}"


def _stuck(each: StuckStage) -> str:
    attempts = f"{counted(each.attempts, 'pass', 'passes')} without progress"
    what = f"{one_line(each.stage, 40)}: left {each.left} undone, {attempts}"
    why = f": {one_line(each.problem, 300)}" if each.problem else ""
    return f"{what}{why}; next attempt {when(each.retry_at)}"


def _totals(totals: DreamTotals) -> str:
    """`2 passes in 3 workspaces: 4 gists, 1 era, 12 model calls`."""
    counts = (
        counted(totals.gists, "gist"),
        counted(totals.eras, "era"),
        counted(totals.blocks, "block"),
        counted(totals.extracted, "statement"),
        counted(totals.proposals, "new proposal"),
        f"{counted(totals.merged, 'memory')} merged",
        f"{totals.archived} archived",
        f"{totals.left_out} left out",
        counted(totals.calls, "model call"),
        f"{totals.input_tokens:,} tokens in",
        f"{totals.output_tokens:,} tokens out",
        f"{counted(totals.waiting, 'work item')} waiting",
        counted(totals.errors, "error"),
        counted(totals.alarms, "alarm"),
    )
    done = ", ".join(each for each in counts if not each.startswith("0 ")) or "nothing to write"
    passes = f"{counted(totals.passes, 'pass', 'passes')} in {counted(totals.workspaces, 'workspace')}"
    return f"{passes}, {totals.seconds:.1f} s: {done}"


def _named(eng: Engram, number: int) -> str:
    """What a number is that passes, undos and applied proposals share: `pass 3`."""
    from ...errors import DreamNotFound
    from ...records import UndoReport

    try:
        found = eng.dreams.show(number)
    except DreamNotFound:  # of a report that came from another store
        return f"number {number}"
    if isinstance(found, UndoReport):
        return f"undo {number}"
    return f"pass {number}" if found.proposal is None else f"the applied proposal with number {number}"


def _undone(eng: Engram, report: UndoReport, *, briefly: bool = False) -> str:
    told = _counted if briefly else _things
    values: dict[str, object] = {
        "undo": f"{report.id}, {when(report.started_at)}: {_named(eng, report.run)} was undone",
        "workspace": report.workspace,
        "restored": told(report.restored),
        "removed": told(report.removed),
        "not restored": f"{told(report.left)} (partly forgotten since)" if report.left else None,
        "undone by": f"undo {report.undone_by}" if report.undone_by else None,
        "take it back": None if report.undone_by else typed("dream", "undo", str(report.id)),
    }
    return fields(values)


def _counted(names: list[str]) -> str | None:
    """`block profile, 22 memories, 1 session`: blocks have names, the others only numbers."""
    kinds = [name.partition(" ")[0] for name in names]
    blocks = _things([name for name in names if name.startswith("block ")])
    others = [counted(kinds.count(kind), kind) for kind in sorted({*kinds} - {"block"})]
    return ", ".join(filter(None, [blocks, *others])) or None


def _things(names: list[str]) -> str | None:
    """`block profile, memory 5, memory 10`, by kind and in the order of the ids."""
    return ", ".join(sorted(names, key=lambda name: (name.partition(" ")[0], len(name), name))) or None


def _line(report: DreamReport) -> str:
    """`pass 3, 2026-11-16 16:20:05, 12 s, by hand: 2 gists, 1 era, profile v2; learnt 3 statements`."""
    if report.proposal is not None:
        which = f"proposal {report.proposal}" if report.proposal else "a proposal"
        line = f"number {report.id}, {when(report.started_at)}: {which} was applied"
    elif report.id or report.dry_run:
        line = f"{'' if report.dry_run else 'pass '}{_head(report)}: {_outcome(report)}"
    else:
        line = "No pass was started"
    undone = f"; undone by undo {report.undone_by}" if report.undone_by else ""
    # The outcome of a pass without an end says so already.
    problem = f"; {_problem(_error(report.errors[0]))}" if report.errors and (report.ended_at or report.dry_run) else ""
    problem += f"; ALARM: {one_line(report.alarms[0], 500)}" if report.alarms else ""
    return f"{line}{undone}{problem}"


def _error(text: str) -> str:
    """A message with the name of its step as a person reads it."""
    step, colon, rest = text.partition(": ")
    return f"{_STEPS.get(step, step)}{colon}{rest}"


def _problem(text: str) -> str:
    """A message within a line: it goes on in lower case, and its times are local like the others."""
    import re

    told = re.sub(r"\b\d{4}-\d\d-\d\dT[\d:.]+Z", lambda found: when(found[0]), one_line(text, 500))
    return f"another{told.removeprefix('Another')}" if told.startswith("Another ") else told


def _head(report: DreamReport) -> str:
    """`3, 2026-11-16 16:20:05, 12 s, by hand`."""
    from ...clock import between

    seconds = between(report.started_at, report.ended_at) if report.id and report.ended_at else None
    took = None if seconds is None else f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    reason = None if report.dry_run else one_line(report.reason, 40)
    # The outcome of a running pass has its time.
    at = None if _is_running(report) else when(report.started_at)
    return ", ".join(filter(None, (str(report.id or "dry run"), at, took, reason)))


def _is_running(report: DreamReport) -> bool:
    """Whether the pass is under way. One that died has a message about it."""
    return bool(report.id and not report.ended_at and not report.errors)


def _outcome(report: DreamReport) -> str:
    if not (report.ended_at or report.dry_run):
        return f"running since {when(report.started_at)}" if _is_running(report) else "did not end"
    eras = f" ({', '.join(report.eras)})" if report.eras else ""
    written = [
        *([counted(len(report.gists), "gist")] if report.gists else []),
        *([counted(len(report.eras), "era") + eras] if report.eras else []),
        *(f"{name} v{version}" for name, version in report.blocks.items()),
    ]
    learnt = f"learnt {counted(report.extracted, 'statement')}" if report.extracted else ""
    text = "; ".join(filter(None, (", ".join(written), learnt)))
    return f"would write {text or 'nothing'}" if report.dry_run else text or "nothing to write"


def _consolidated(report: DreamReport) -> str | None:
    """What consolidation did; None if it did nothing."""
    counts = (
        counted(report.groups or 0, "group of duplicates", "groups of duplicates"),
        f"{counted(report.merged or 0, 'memory')} merged",
        f"{report.archived or 0} archived",
        f"{counted(report.conflicts_resolved or 0, 'conflict')} resolved",
        f"{counted(report.summarized or 0, 'block')} shortened",
        f"{report.skipped or 0} skipped",
    )
    done = [each for each in counts if not each.startswith("0 ")]
    if report.tokens_saved:
        done.append(f"{report.tokens_saved:,} of {counted(report.tokens_before or 0, 'token')} saved")
    return ", ".join(done) or None


def _pending(backlog: DreamBacklog) -> str:
    """`2 sessions to summarise, 5 new turns`."""
    counts = (
        f"{counted(backlog.ripe, 'session')} to summarise",
        counted(backlog.turns, "new turn"),
        f"{counted(backlog.unfolded, 'gist')} to add to an era or the profile",
    )
    return ", ".join(each for each in counts if not each.startswith("0 ")) or "nothing"


def _urgency(drives: Drives) -> str:
    """`to summarise sessions: urgent (75%); to update eras and the portrait: not urgent`."""
    kinds = [("summarise sessions", drives.continuity), ("update eras and the portrait", drives.coherence)]
    # Only a companion is curious.
    kinds += [("reflect", drives.curiosity)] if drives.curiosity else []
    return "; ".join(f"to {what}: {_pressing(drive)}" for what, drive in kinds)


def _pressing(drive: float) -> str:
    """A drive in words. The number follows where it says more."""
    if drive < 0.005:
        return "not urgent"
    return f"{'urgent' if drive >= _DUE else 'not urgent yet'} ({drive:.0%})"


def _item(item: WorkItem) -> str:
    import json

    form = f"\n\nAnswer with JSON that matches this schema:\n{json.dumps(item.form)}" if item.form else ""
    what = one_line(f"{item.stage}: {item.subject}", 200)
    head = f"Work item {item.id} ({what}), by {when(item.deadline)}"
    return f"{head}\n\n{item.prompt}{form}"
