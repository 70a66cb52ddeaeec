"""`engram dream …`, `engram context`, `engram usage`: dreaming, what agents read of it, and what models cost."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from .common import (
    SESSION,
    Group,
    as_json,
    command,
    complete_session,
    duration_type,
    open_store,
    result,
    session_option,
    text_from,
    utc_option,
)
from .counting import counted
from .review import review
from .screen import fields, one_line, print_json, say, table, when

if TYPE_CHECKING:
    from ...records import DreamBacklog, DreamReport, Drives, UndoReport, WorkItem

#: Somebody else is dreaming: a conflict, as a lease that is held.
_CONFLICT = 4
_FAILED = 1


#: A shorter interval would keep the store busy for nothing.
_LEAST_INTERVAL = 60.0


def _interval(ctx: click.Context, parameter: click.Parameter, value: str) -> float:
    seconds = duration_type(ctx, parameter, value) or 0.0
    if seconds < _LEAST_INTERVAL:
        raise click.BadParameter(f"{value!r} is less than 1 minute.", ctx, parameter)
    return seconds


class _Default(Group):
    """A group whose first command is meant when none is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in ("-h", "--help")):
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_Default)
def dream() -> None:
    """Summarise sessions (gists), months (eras) and everything (profile, narrative, self).

    `engram dream` alone is `engram dream run`.
    """


@dream.command()
@click.option("--force", is_flag=True, help="Run every stage, even if little is pending.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, and change nothing.")
@click.option("--stage", "stages", multiple=True, help="Only this stage; may be repeated.")
@click.option("--all", "all_workspaces", is_flag=True, help="Include every workspace of the store.")
@click.pass_context
def run(ctx: click.Context, force: bool, dry_run: bool, stages: tuple[str, ...], all_workspaces: bool) -> int:
    """Run one pass.

    Exit code 4 if another pass is running.
    """
    eng = open_store(ctx)
    with _until_told() as stop, _Bars(hidden=as_json(ctx)) as bars:
        reports = eng.dream(
            force=force,
            dry_run=dry_run,
            stages=list(stages) or None,
            all_workspaces=all_workspaces,
            stop=stop,
            progress=bars.show,
        )
    result(ctx, reports, lambda: "\n\n".join(map(_shown, reports)))
    return max(map(_code, reports), default=0)


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
@click.option("--all", "all_workspaces", is_flag=True, help="Include every workspace of the store.")
@click.pass_context
def loop(ctx: click.Context, every: float, now: bool, all_workspaces: bool) -> None:
    """Run a pass at regular intervals, until stopped."""
    eng = open_store(ctx)

    def told(reports: list[DreamReport]) -> None:
        if as_json(ctx):
            print_json(reports)
        else:
            say("\n".join(map(_line, reports)))
        sys.stdout.flush()

    scheduler = eng.scheduler(every, all_workspaces=all_workspaces, now=now, told=told)
    with _until_told(lambda: scheduler.stop(wait=False)):
        scheduler.run()


@dream.command()
@utc_option
@click.pass_context
def status(ctx: click.Context) -> None:
    """Show what is pending, how urgent it is, and how the last pass went."""
    found = open_store(ctx).dreams.status()
    waiting, felt, last, work, proposals = found
    shown: dict[str, object] = {
        "sessions": f"{waiting.sessions}, {waiting.dirty} with new turns, {waiting.ripe} ready for a gist",
        "new turns": waiting.turns,
        "gists to fold in": waiting.unfolded,
        "urgency": _drives(felt) if felt else "not measured yet",
        "for agents": f"{counted(work.waiting, 'work item')} waiting, {work.answered} answered",
        "to decide": f"{counted(proposals, 'proposal')}: engram dream review" if proposals else None,
        "last pass": _line(last) if last else "none yet",
        "ALARM": "\n".join(last.alarms) or None if last else None,
    }
    result(ctx, found, lambda: fields(shown))


@dream.command("list")
@click.option("-n", "--limit", type=click.IntRange(min=0), default=20, show_default=True, help="0: all.")
@utc_option
@click.pass_context
def list_dreams(ctx: click.Context, limit: int) -> None:
    """List earlier passes, newest first."""
    found = open_store(ctx).dreams.list(limit)
    result(ctx, found, lambda: "\n".join(map(_line, found)) or "There has been no pass yet.")


@dream.command()
@click.argument("id", type=click.IntRange(min=1))
@utc_option
@click.pass_context
def show(ctx: click.Context, id: int) -> None:
    """Show the report of one run: a pass, an undo, or a proposal that was applied by hand."""
    from ...records import UndoReport

    found = open_store(ctx).dreams.show(id)
    result(ctx, found, lambda: _undone(found) if isinstance(found, UndoReport) else _shown(found))


@dream.command()
@click.argument("run", type=click.IntRange(min=1), required=False)
@click.pass_context
def undo(ctx: click.Context, run: int | None) -> None:
    """Undo everything that RUN changed. Without RUN, undo the newest pass that is not undone yet.

    RUN is the number of a pass, of an applied proposal, or of an earlier undo. If something was changed again since,
    nothing is undone. What was forgotten since stays forgotten.
    """
    found = open_store(ctx).dreams.undo(run)
    result(ctx, found, lambda: _undone(found))


dream.add_command(review)


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
def _until_told(tell: Any = None) -> Iterator[threading.Event]:
    """Ctrl-C and SIGTERM end what runs after its current step; a second one ends it at once."""
    stop = threading.Event()

    def told(number: int, frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        if tell:
            tell()

    before = {number: signal.signal(number, told) for number in (signal.SIGINT, signal.SIGTERM)}
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
    if report.proposal is not None:
        return fields({"run": _line(report)})
    would = "would write " if report.dry_run else ""
    values: dict[str, object] = {
        "pass": _line(report),
        "model": report.provider or None,
        "pending before": _waiting(report.before),
        "pending now": None if report.dry_run else _waiting(report.after),
        "gists": f"{would}{len(report.gists)}",
        "eras": f"{would}{', '.join(report.eras) or 'none'}",
        "blocks": ", ".join(f"{name} (version {version})" for name, version in report.blocks.items()) or None,
        "learnt": counted(report.extracted, "statement") if report.extracted else None,
        "consolidated": _consolidated(report),
        "to decide": f"{counted(report.proposals, 'new proposal')}: engram dream review" if report.proposals else None,
        "urgency": _drives(report.drives),
        "spent": f"{counted(report.calls, 'call')}, {report.input_tokens} tokens in, {report.output_tokens} out",
        "for agents": f"{counted(report.waiting, 'work item')} waiting" if report.waiting else None,
        "seconds": ", ".join(f"{stage} {value:.2f}" for stage, value in report.seconds.items()) or None,
        "errors": "\n".join(report.errors) or None,
        "ALARM": "\n".join(report.alarms) or None,
    }
    return fields(values)


def _undone(report: UndoReport) -> str:
    values: dict[str, object] = {
        "undo": f"{report.id}  {when(report.started_at)}  {report.workspace}: undoes {report.run}",
        "restored": ", ".join(report.restored) or None,
        "removed": ", ".join(report.removed) or None,
        "left as it is": f"{', '.join(report.left)} (partly forgotten since)" if report.left else None,
        "undone by": report.undone_by,
    }
    return fields(values)


def _line(report: DreamReport) -> str:
    number = "dry run" if report.dry_run else f"{report.id}" if report.id else "not run"
    written = f"{counted(len(report.gists), 'gist')}, {counted(len(report.eras), 'era')}"
    done = written if report.ended_at else "did not end"
    if report.proposal is not None:
        done = f"proposal {report.proposal} was applied" if report.proposal else "a proposal was applied"
    undone = f", undone by run {report.undone_by}" if report.undone_by else ""
    problem = f"; {one_line(report.errors[0], 500)}" if report.errors else ""
    problem += f"; ALARM: {one_line(report.alarms[0], 500)}" if report.alarms else ""
    return f"{number}  {when(report.started_at)}  {report.workspace}: {done}{undone}{problem}"


def _consolidated(report: DreamReport) -> str | None:
    if report.groups is None:
        return None
    return (
        f"{counted(report.groups, 'group of duplicates', 'groups of duplicates')}; "
        f"{counted(report.merged or 0, 'memory')} merged, {report.archived} archived, "
        f"{counted(report.conflicts_resolved or 0, 'conflict')} resolved, "
        f"{counted(report.summarized or 0, 'block')} shortened, {report.skipped} skipped; "
        f"{report.tokens_saved} of {counted(report.tokens_before or 0, 'token')} saved"
    )


def _waiting(backlog: DreamBacklog) -> str:
    return (
        f"{counted(backlog.ripe, 'session')} ready for a gist, {counted(backlog.turns, 'new turn')}, "
        f"{counted(backlog.unfolded, 'gist')} to fold in"
    )


def _drives(felt: Drives) -> str:
    names = ("continuity", "coherence", "curiosity", "stability")
    return ", ".join(f"{name} {getattr(felt, name):.2f}" for name in names)


def _item(item: WorkItem) -> str:
    import json

    form = f"\n\nAnswer with JSON that matches this schema:\n{json.dumps(item.form)}" if item.form else ""
    what = one_line(f"{item.stage}: {item.subject}", 200)
    head = f"Work item {item.id} ({what}), by {when(item.deadline)}"
    return f"{head}\n\n{item.prompt}{form}"
