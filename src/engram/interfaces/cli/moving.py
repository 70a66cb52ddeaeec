"""`engram export`, `engram import jsonl` and `engram copy`: move a whole store, or read it as pages."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...errors import InvalidInput, NotFound
from ...setup_records import EXPORT_FORMATS
from .common import as_json, command, found_something, load_settings, open_store, progress, result, typed
from .counting import counted
from .reading import open_to_read
from .screen import META, byte_size, one_line, say, style

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...client import Engram
    from ...setup_records import Copied, Exported, Loaded

#: The format of `engram import` that reads an export.
JSONL = "jsonl"
_STANDARD_OUTPUT = "-"
#: Longer than a path that the system accepts.
_PATH_LENGTH = 5_000


@command()
@click.argument("place", type=click.Path(), metavar="FILE")
@click.option(
    "--format",
    type=click.Choice(EXPORT_FORMATS),
    default="jsonl",
    show_default=True,
    help="A file that can be imported again, or a folder of pages for people.",
)
@click.option(
    "--vectors", is_flag=True, help="Also write the embeddings. Without them, the import computes them again."
)
@click.option("--force", is_flag=True, help="Replace FILE if it is an earlier export.")
@click.pass_context
def export(ctx: click.Context, place: str, format: str, vectors: bool, force: bool) -> None:
    """Write everything into a file, to keep it or to move to another store.

    Without --workspace, it is the whole store. FILE is only readable by you, and appears when it is complete; - is
    standard output. The export shows the store as it was at one moment, also while others write. Access tokens are left
    out, because they are secrets. `engram import jsonl FILE` reads it back. FILE is plain text, also if the store is
    encrypted.

    With --format markdown, FILE is a folder: an index, a page for each session and month, memories by kind, blocks with
    their history.
    """
    # It reads the store and writes a file, so it does not make a store either.
    eng = open_to_read(ctx, load_settings(ctx))
    ctx.call_on_close(eng.close)
    chosen = ctx.meta.get(f"{META}.workspace") is not None
    if chosen:
        eng.require_workspace()
    if place == _STANDARD_OUTPUT and as_json(ctx):
        raise click.UsageError("The export itself goes to standard output, so there is no room for --json.")
    with progress("Exporting") as show:
        done = eng.export(place, format=format, all_workspaces=not chosen, vectors=vectors, force=force, progress=show)
    if place == _STANDARD_OUTPUT:
        say(_exported(eng, done), err=True)
    else:
        result(ctx, done, lambda: _exported(eng, done))


@command()
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.pass_context
def copy(ctx: click.Context, source: str, target: str) -> None:
    """Copy a whole store into a new one, between SQLite and PostgreSQL as you like.

    FROM and TO are paths or postgresql://… URLs. TO must not exist, or must be empty. Everything is copied, access
    tokens too, as it was at one moment; others may write to FROM meanwhile. At the end, all rows of both stores are
    compared. If the command is stopped, run it again: it resumes, and a complete copy is compared. FROM stays as it is.
    The new file of an encrypted store is encrypted.
    """
    from ...config import load
    from ...maintenance import copy as copy_store

    before, after = load(url=source), load(url=target)
    with progress("Copying") as show:
        done = copy_store(before, after, progress=show)
    result(ctx, done, lambda: _copied(done))


def load_export(
    ctx: click.Context,
    paths: Sequence[Path],
    options: Sequence[str],
    no_embed: bool,
    embed: Callable[[click.Context, Engram], int],
) -> None:
    """`engram import jsonl FILE`. `options` are those that were given and are for other formats."""
    if options:
        raise click.UsageError(f"{options[0]} is not for jsonl: an export is imported as it is.")
    if len(paths) != 1:
        raise click.UsageError("Give one FILE, which `engram export` wrote.")
    if not paths[0].exists():
        # Before there is a store: opening one makes it.
        raise NotFound(f"There is no file {paths[0]}.")
    if not paths[0].is_file():
        raise InvalidInput(f"{paths[0]} is no regular file; give the file that `engram export` wrote.")
    eng = open_store(ctx)
    into = ctx.meta.get(f"{META}.workspace")
    with progress("Importing") as show:
        done = eng.load_export(paths[0], into=into, progress=show)
    if done.workspaces:
        found_something(ctx)
    if not as_json(ctx):
        say(_loaded(eng, done))
    stores = [eng.workspace(name) for name in done.workspaces]
    embedded = 0 if no_embed else sum(embed(ctx, each) for each in stores)
    left = sum(each.embedding_queue.size() for each in stores)
    value = {**done._asdict(), "embedded": embedded, "to_embed": left}
    result(ctx, value, f"No embedding yet: {counted(left, 'item')}. `{typed('embed')}` computes them." if left else "")


def _exported(eng: Engram, done: Exported) -> str:
    what = counted(len(done.workspaces), "workspace")
    where = "standard output" if done.place == _STANDARD_OUTPUT else one_line(done.place, _PATH_LENGTH)
    lines = [style(f"Exported {what} to {where} ({byte_size(done.bytes)}).", bold=True)]
    if done.of_encrypted:
        lines.append("It is plain text, although the store is encrypted. Keep it as safe as the store.")
    if done.format == "markdown":
        lines.append(f"{counted(done.counts['page'], 'page')}. Begin with index.md.")
        return "\n".join(lines)
    lines.append(f"{_summary(eng, done)}.")
    lines.append("Not exported: access tokens, logins, and what an import rebuilds (word index, embedding queue).")
    if "vectors" in done.left_out:
        lines.append("Embeddings are not exported either; the import computes them again. --vectors writes them.")
    if done.place != _STANDARD_OUTPUT:
        # Not with the options of this call: the store that was exported refuses its own content.
        again = shlex.join(["engram", "--store", "NEW.db", "import", "jsonl", done.place])
        lines.append(f"Import it into a new store with: {one_line(again, _PATH_LENGTH)}")
    return "\n".join(lines)


def _loaded(eng: Engram, done: Loaded) -> str:
    names = ", ".join(one_line(name, 100) for name in done.workspaces[:10])
    more = ", …" if len(done.workspaces) > 10 else ""
    lines = [style(f"Imported {counted(len(done.workspaces), 'workspace')}: {names}{more}.", bold=True)]
    lines.append(f"{_summary(eng, done)}.")
    if done.renumbered:
        lines.append("The store was not empty, so things got new numbers.")
    return "\n".join([*lines, *done.notes])


def _copied(done: Copied) -> str:
    rows = sum(done.tables.values())
    source, target = one_line(done.source, _PATH_LENGTH), one_line(done.target, _PATH_LENGTH)
    if rows and done.resumed == rows:
        made = f"{target} is already a complete copy of {source}; nothing was copied."
    else:
        resumed = f" An earlier copy had written {done.resumed:,} of them." if done.resumed else ""
        what = f"{counted(rows, 'row')} in {counted(len(done.tables), 'table')}"
        made = f"Copied {what} from {source} to {target}.{resumed}"
    plain = ""
    if done.is_plain:
        plain = "\nThe copy is not encrypted, although its source is."
        if not done.target.startswith("postgresql:"):
            plain += f" `engram --store {target} encrypt` encrypts it."
    return f"{made}\nNumber and hash of the rows are the same in every table.{plain}"


def _summary(eng: Engram, done: Exported | Loaded) -> str:
    """What was moved, counted as `engram stats` does, and what that does not count."""
    found = [eng.workspace(name).sessions.stats() for name in done.workspaces]
    memories, gists = sum(sum(each.memories.values()) for each in found), sum(each.gists for each in found)
    moved = (
        (sum(each.sessions for each in found), "session", None),
        (sum(each.turns for each in found), "turn", None),
        (sum(each.logs for each in found), "log entry", None),
        (memories, "memory", None),
        (gists, "gist", None),
        (done.counts["memory"] - memories - gists, "archived or replaced memory", None),
        (done.counts["block"], "block", None),
        (done.counts["message"], "message", None),
        (done.counts["dream"], "pass of dreaming", "passes of dreaming"),
    )
    return ", ".join(counted(number, one, more) for number, one, more in moved if number > 0) or "Nothing"
