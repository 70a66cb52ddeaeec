"""`engram dream …`, `engram context`, `engram usage`: what is distilled while nobody talks, and what it cost."""

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
from .review import review
from .screen import fields, one_line, print_json, say, table, when

if TYPE_CHECKING:
    from ...records import DreamBacklog, DreamReport, Drives, UndoReport, WorkItem

#: Somebody else is dreaming: a conflict, as a lease that is held.
_CONFLICT = 4
_FAILED = 1


class _Default(Group):
    """A group whose first command is meant when none is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in ("-h", "--help")):
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_Default)
def dream() -> None:
    """Distil sessions into gists, months into eras, all into a portrait. Without a command: run."""


@dream.command()
@click.option("--force", is_flag=True, help="Do everything there is to do, however little it presses.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--stage", "stages", multiple=True, help="Only this stage; may be repeated.")
@click.option("--all", "all_workspaces", is_flag=True, help="Every workspace of the store.")
@click.pass_context
def run(ctx: click.Context, force: bool, dry_run: bool, stages: tuple[str, ...], all_workspaces: bool) -> int:
    """One pass."""
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
@click.option("--every", callback=duration_type, default="6h", show_default=True, help="How often: 90s, 15m, 6h.")
@click.option("--now", is_flag=True, help="The first pass at once, not after one interval.")
@click.option("--all", "all_workspaces", is_flag=True, help="Every workspace of the store.")
@click.pass_context
def loop(ctx: click.Context, every: float, now: bool, all_workspaces: bool) -> None:
    """A pass every so often, until stopped."""
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
    """What waits, how much it presses, and how the last pass went."""
    found = open_store(ctx).dreams.status()
    waiting, felt, last, work, proposals = found
    shown: dict[str, object] = {
        "sessions": f"{waiting.sessions}, {waiting.dirty} with new turns, {waiting.ripe} ripe",
        "new turns": waiting.turns,
        "gists to fold in": waiting.unfolded,
        "drives": _drives(felt) if felt else "not sensed yet",
        "for agents": f"{work.waiting} pieces of thinking wait, {work.answered} are answered",
        "to decide": f"{proposals} proposals: engram dream review" if proposals else None,
        "last pass": _line(last) if last else "none yet",
        "ALARM": "\n".join(last.alarms) or None if last else None,
    }
    result(ctx, found, lambda: fields(shown))


@dream.command("list")
@click.option("-n", "--limit", type=click.IntRange(min=0), default=20, show_default=True, help="0: all.")
@utc_option
@click.pass_context
def list_dreams(ctx: click.Context, limit: int) -> None:
    """Earlier passes, the latest first."""
    found = open_store(ctx).dreams.list(limit)
    result(ctx, found, lambda: "\n".join(map(_line, found)) or "Nothing was dreamt yet.")


@dream.command()
@click.argument("id", type=click.IntRange(min=1))
@utc_option
@click.pass_context
def show(ctx: click.Context, id: int) -> None:
    """The report of one run: a pass, or an undo."""
    from ...records import UndoReport

    found = open_store(ctx).dreams.show(id)
    result(ctx, found, lambda: _undone(found) if isinstance(found, UndoReport) else _shown(found))


@dream.command()
@click.argument("run", type=click.IntRange(min=1), required=False)
@click.pass_context
def undo(ctx: click.Context, run: int | None) -> None:
    """Bring back what RUN changed; without RUN, the newest pass that was not undone.

    An undo is a run too: name it to have everything back. What was changed or forgotten since is never overwritten.
    """
    found = open_store(ctx).dreams.undo(run)
    result(ctx, found, lambda: _undone(found))


dream.add_command(review)


@dream.group(cls=Group)
def work() -> None:
    """Thinking that is left to agents (ENGRAM_LLM=agent)."""


@work.command("next")
@session_option(required=False)
@utc_option
@click.pass_context
def next_item(ctx: click.Context, session_id: str | None) -> None:
    """Take a piece: the prompt, the form of the answer, and by when."""
    item = open_store(ctx).work.next(session_id)
    result(ctx, item, lambda: _item(item) if item else "Nothing waits.")


@work.command()
@click.argument("id", type=click.IntRange(min=1))
@click.argument("answer", required=False)
@session_option(required=False)
@click.pass_context
def submit(ctx: click.Context, id: int, answer: str | None, session_id: str | None) -> None:
    """Hand the answer in; - reads it from standard input."""
    open_store(ctx).work.submit(id, text_from(answer, what="ANSWER"), session_id)
    result(ctx, {"id": id}, f"Work item {id} is answered; the next pass uses it.")


@command()
@click.argument("query", required=False)
@click.option(
    "--session", "session_id", type=SESSION, metavar="ID", shell_complete=complete_session, help="Whose latest turns."
)
@click.option("--budget", type=click.IntRange(min=1), default=2000, show_default=True, help="At most so many tokens.")
@click.pass_context
def context(ctx: click.Context, query: str | None, session_id: str | None, budget: int) -> None:
    """What an agent should read now: the portrait, what fits QUERY, the latest turns."""
    text = open_store(ctx).context(query, session_id, budget)
    result(ctx, {"context": text}, text)


@command()
@click.option("--days", type=click.IntRange(min=1), default=30, show_default=True)
@click.pass_context
def usage(ctx: click.Context, days: int) -> None:
    """What was spent on models, by day and stage."""
    found = open_store(ctx).usage(days)
    rows = [(each.day, each.stage, str(each.calls), str(each.input_tokens), str(each.output_tokens)) for each in found]
    head = ("day", "stage", "calls", "tokens in", "tokens out")
    result(ctx, found, lambda: table(head, rows) if rows else "Nothing was spent.")


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
    would = "would write " if report.dry_run else ""
    values: dict[str, object] = {
        "pass": _line(report),
        "thought by": report.provider or None,
        "waited": _waiting(report.before),
        "waits now": None if report.dry_run else _waiting(report.after),
        "gists": f"{would}{len(report.gists)}",
        "eras": f"{would}{', '.join(report.eras) or 'none'}",
        "blocks": ", ".join(f"{name} (version {version})" for name, version in report.blocks.items()) or None,
        "learnt": None if not report.extracted else f"{report.extracted} statements",
        "consolidated": _consolidated(report),
        "to decide": f"{report.proposals} new proposals: engram dream review" if report.proposals else None,
        "drives": _drives(report.drives),
        "spent": f"{report.calls} calls, {report.input_tokens} tokens in, {report.output_tokens} out",
        "for agents": f"{report.waiting} pieces of thinking wait" if report.waiting else None,
        "seconds": ", ".join(f"{stage} {value:.2f}" for stage, value in report.seconds.items()) or None,
        "errors": "\n".join(report.errors) or None,
        "ALARM": "\n".join(report.alarms) or None,
    }
    return fields(values)


def _undone(report: UndoReport) -> str:
    values: dict[str, object] = {
        "undo": f"{report.id}  {when(report.started_at)}  {report.workspace}: run {report.run} undone",
        "brought back": ", ".join(report.restored) or None,
        "gone again": ", ".join(report.removed) or None,
        "left, forgotten": ", ".join(report.left) or None,
        "undone by": report.undone_by,
    }
    return fields(values)


def _line(report: DreamReport) -> str:
    number = "dry run" if report.dry_run else f"{report.id}" if report.id else "not run"
    done = f"{len(report.gists)} gists, {len(report.eras)} eras" if report.ended_at else "did not end"
    undone = f", undone by run {report.undone_by}" if report.undone_by else ""
    problem = f"; {one_line(report.errors[0], 500)}" if report.errors else ""
    problem += f"; ALARM: {one_line(report.alarms[0], 500)}" if report.alarms else ""
    return f"{number}  {when(report.started_at)}  {report.workspace}: {done}{undone}{problem}"


def _consolidated(report: DreamReport) -> str | None:
    if report.groups is None:
        return None
    return (
        f"{report.groups} groups of duplicates; {report.merged} memories merged, {report.archived} archived, "
        f"{report.conflicts_resolved} conflicts resolved, {report.summarized} blocks shortened, {report.skipped} left "
        f"alone; {report.tokens_saved} of {report.tokens_before} tokens saved"
    )


def _waiting(backlog: DreamBacklog) -> str:
    return f"{backlog.ripe} ripe sessions, {backlog.turns} new turns, {backlog.unfolded} gists to fold in"


def _drives(felt: Drives) -> str:
    names = ("continuity", "coherence", "curiosity", "stability")
    return ", ".join(f"{name} {getattr(felt, name):.2f}" for name in names)


def _item(item: WorkItem) -> str:
    import json

    form = f"\n\nAnswer with JSON of this form:\n{json.dumps(item.form)}" if item.form else ""
    what = one_line(f"{item.stage}: {item.subject}", 200)
    head = f"Work item {item.id} ({what}), by {when(item.deadline)}"
    return f"{head}\n\n{item.prompt}{form}"
