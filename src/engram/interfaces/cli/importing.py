"""`engram import`: move in with what other systems kept."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...dream_records import cost
from ...importers.formats import MODULES
from .common import as_json, command, found_something, moment_type, open_store, progress, result, typed, utc_option
from .counting import counted
from .moving import JSONL, load_export
from .screen import day, one_line, say, style

if TYPE_CHECKING:
    from ...client import Engram
    from ...import_records import ImportReport
    from ...records import Session

#: From this many new turns on, the summary says what dreaming about them takes.
_LARGE = 200
#: Sessions among which the one is that the summary suggests to ask about.
_LATEST = 20


@command("import")
@click.argument("format", type=click.Choice(sorted([*MODULES, JSONL])), metavar="FORMAT")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[PATH]...")
@click.option("--project", metavar="NAME", help="Project of everything that names none.")
@click.option(
    "--since",
    callback=moment_type,
    metavar="TIME",
    help="Only sessions with turns since then: a time, a date, or how long ago, such as 90d.",
)
@click.option("--timezone", metavar="ZONE", help="Zone of times without one, such as Europe/Berlin.  [default: local]")
@click.option("--dry-run", is_flag=True, help="Only show what would be imported.")
@click.option("--again", is_flag=True, help="Also import sessions, memories and blocks that were forgotten here.")
@click.option("--vectors-of", metavar="MODEL", help="Use the vectors in the file: they are from this embedder.")
@click.option("--no-embed", is_flag=True, help="Do not compute embeddings now; `engram embed` does it later.")
@utc_option
@click.pass_context
def import_(
    ctx: click.Context,
    format: str,
    paths: tuple[Path, ...],
    project: str | None,
    since: str | None,
    timezone: str | None,
    dry_run: bool,
    again: bool,
    vectors_of: str | None,
    no_embed: bool,
) -> None:
    """Import what another system kept: files of a format, or folders of them.

    \b
    FORMAT is one of
      claude-code codex gemini cursor specstory    transcripts of agents
      chatgpt claude                               exports of chats
      markdown                                     notes, instructions for agents
      mem0 claude-mem mcp-memory-service           what other memories hold
      server-memory symbiont lyra engram-core
      jsonl                                        a file of `engram export`

    Without PATH, it looks where the system keeps its files. What is there already is not added again: the same file
    adds nothing, a longer one adds what is new. If the command is stopped, run it again. Nothing is changed in what is
    imported.

    `jsonl` brings back everything that an export holds, into workspaces that have no content yet. --workspace gives
    another name to the workspace of a file that has only one. It takes no other option than --no-embed; if it is
    stopped, nothing is imported.
    """
    if format == JSONL:
        given = {"--project": project, "--since": since, "--timezone": timezone, "--vectors-of": vectors_of}
        flags = {"--dry-run": dry_run, "--again": again}
        load_export(ctx, paths, [name for name, value in {**given, **flags}.items() if value], no_embed, _embed)
        return
    from ...importers import run

    eng = open_store(ctx)
    with progress("Importing") as show:
        report = run(
            format,
            paths,
            eng,
            project=project,
            since=since,
            timezone=timezone,
            dry_run=dry_run,
            again=again,
            vectors_of=vectors_of,
            progress=show,
        )
    if report.sessions or report.memories or report.blocks:
        found_something(ctx)
    if not as_json(ctx):
        say(_summary(report, dry_run))
    embedded = 0 if dry_run or no_embed else _embed(ctx, eng)
    left = 0 if dry_run else eng.embedding_queue.size()
    value = {**report._asdict(), "dry_run": dry_run, "embedded": embedded, "to_embed": left}
    result(ctx, value, lambda: "" if dry_run else _next(eng, report, left))


def _summary(report: ImportReport, dry_run: bool) -> str:
    """What was imported and what was left out, in words."""
    made = ", ".join(
        counted(number, one)
        for number, one in (
            (report.sessions, "session"),
            (report.turns, "turn"),
            (report.logs, "log entry"),
            (report.gists, "gist"),
            (report.memories, "memory"),
            (report.blocks, "block"),
        )
        if number
    )
    verb = "Would import" if dry_run else "Imported"
    dates = f", {period(report)}" if report.first_at and report.last_at else ""
    files = counted(report.files, "file")
    first = f"{verb} {made} from {files}{dates}." if made else f"Nothing new in {files}."
    lines = [style(first, bold=True)]
    if report.continued:
        lines.append(f"{counted(report.continued, 'session')} here already got the further turns.")
    if report.updated:
        lines.append(f"{counted(report.updated, 'memory')} got a new version.")
    known = [
        counted(number, one)
        for number, one in ((report.unchanged, "session"), (report.known_memories, "memory"))
        if number
    ]
    if known:
        lines.append(f"Already here: {' and '.join(known)}.")
    lines += [one_line(note, 1_000) for note in report.notes]
    if report.left_out:
        from ...importers.session_writing import WAS_FORGOTTEN

        lines.append("Left out:")
        for each in report.left_out:
            more = ", …" if each.number > len(each.examples) else ""
            where = one_line("; ".join(each.examples), 300)
            lines.append(f"  {each.number:,} {one_line(each.why, 300)} ({where}{more})")
        if any(each.why == WAS_FORGOTTEN for each in report.left_out):
            lines.append(f"--again also imports what was {WAS_FORGOTTEN}.")
    return "\n".join(lines)


def period(report: ImportReport) -> str:
    """`2026-01-12 to 2026-02-16`, or a single day."""
    first, last = day(report.first_at or ""), day(report.last_at or "")
    return first if first == last else f"{first} to {last}"


def _embed(ctx: click.Context, eng: Engram) -> int:
    """Compute the embeddings of what was imported; how many. A server computes them by itself."""
    if eng.settings.is_remote:
        return 0
    queue = eng.embedding_queue
    waiting = queue.size()
    if not waiting:
        return 0
    if waiting >= _LARGE and not as_json(ctx):
        say("Recall finds all of it by words now. Computing embeddings, for recall by meaning …")
    with progress("Embedding") as show:
        return queue.work(progress=lambda count: show(count, waiting))


def _next(eng: Engram, report: ImportReport, left: int) -> str:
    """What there is to do now."""
    lines = []
    if left and eng.settings.is_remote:
        lines.append(f"The server computes {counted(left, 'embedding')}. Recall finds all of it by words now.")
    elif left:
        lines.append(f"No embedding yet: {counted(left, 'item')}. `{typed('embed')}` computes them.")
    if report.turns >= _LARGE:
        lines.append(cost(eng.dreams.estimate()))
    waiting = eng.waiting().memories if report.memories or report.updated else 0
    if waiting:
        told = counted(waiting, "memory waits", "memories wait")
        lines.append(f"{told} for your approval before the brief shows them: {typed('memory', 'list', '--waiting')}")
    if report.turns or report.memories:
        lines.append(f"Try it: {typed('recall', _question(eng, report))}")
    return "\n".join(lines)


def _question(eng: Engram, report: ImportReport) -> str:
    """A question that the import can answer: what its latest session or memory is about."""
    if report.turns:
        # A title may have no word of the turns. What was asked is found.
        found = [each.summary or each.name for each in _imported(eng, report) if each.turns]
    else:
        found = [each.content.partition("\n")[0] for each in eng.memories.list(limit=1)]
    asked = one_line(next(filter(None, found), ""), 60).rstrip("…").lstrip("- ").strip()
    return asked or "what did we decide?"


def _imported(eng: Engram, report: ImportReport) -> list[Session]:
    """The sessions of the time of the imported turns, those of the imported system first, the newest of them first."""
    from ...clock import later

    until = later(report.last_at, 1) if report.last_at else None
    found = eng.sessions.list(_LATEST, subagents=False, since=report.first_at, until=until)
    # The import may have continued a session that began earlier.
    found += eng.sessions.list(_LATEST, subagents=False, type=report.source) + eng.sessions.list(_LATEST)
    return sorted(found, key=lambda each: each.type != report.source)
