"""`engram brief`, `engram sitrep` and `engram stats`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .common import as_json, command, load_settings, moment_type, open_store, result, session_option, typed, utc_option
from .screen import byte_size, fields, print_json, say, short_ids, style, table, utc_wanted, wrapped
from .setup import shown_url

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...overview_records import Sizes
    from ...records import Stats


@command()
@click.option("--budget", type=click.IntRange(min=1), help="Maximum number of tokens.  [default: brief_budget, 1500]")
@click.option("--full", is_flag=True, help="Show everything, without a limit.")
@click.option("--project", metavar="NAME", help="Brief about this project.  [default: the session's or folder's]")
@click.option(
    "--at",
    metavar="TIME",
    callback=moment_type,
    help="How things stood at a time: 2026-11-15, 2026-11-15T18:36, or 2h or 7d ago.",
)
@utc_option
@click.option("--sources", is_flag=True, help="Show beside each line what it comes from: a memory, session or message.")
@click.option("--resumed", is_flag=True, help="Include what the session did so far, as after a compaction.")
@session_option(required=False)
@click.pass_context
def brief(
    ctx: click.Context,
    budget: int | None,
    full: bool,
    project: str | None,
    at: str | None,
    sources: bool,
    resumed: bool,
    session_id: str | None,
) -> None:
    """Print what a session should know before it begins.

    Messages, who else is at work, pinned memories, what is known to hold, where we left off, the world state. The start
    hooks give the same text to every session.
    """
    if full and budget is not None:
        raise click.UsageError("Give --budget or --full, not both.")
    eng = open_store(ctx)
    most = None if full else budget or eng.settings.brief_budget
    local = not as_json(ctx) and not utc_wanted()
    made = eng.briefing(session_id, project, most, resumed=resumed, at=at, local=local)
    waiting = eng.waiting()
    if as_json(ctx):
        from ...tokens import estimate

        lines = {"lines": made.lines} if sources else {}
        print_json({"brief": made.text, "tokens": estimate(made.text), "waiting": waiting, **lines})
        return
    say("\n".join(_with_sources(made.lines)) if sources else made.text)
    if at is not None:
        return
    for count, one, more, shows in (
        (waiting.memories, "memory waits", "memories wait", typed("memory", "list", "--waiting")),
        (waiting.proposals, "proposal of dreaming waits", "proposals of dreaming wait", typed("dream", "review")),
    ):
        if count:
            say(f"{count} {one if count == 1 else more} for your decision: `{shows}`")


@command()
@click.option("--budget", type=click.IntRange(min=1), default=1000, show_default=True, help="Maximum number of tokens.")
@click.option("--full", is_flag=True, help="Show everything, without a limit.")
@click.option("--project", metavar="NAME", help="List this project first.  [default: the session's or folder's]")
@session_option(required=False)
@click.pass_context
def sitrep(ctx: click.Context, budget: int, full: bool, project: str | None, session_id: str | None) -> None:
    """Print the situation report: who is at work on what, and what every agent should know."""
    report = open_store(ctx).sitrep(None if full else budget, session_id, project)
    if as_json(ctx):
        from ...tokens import estimate

        print_json({"report": report, "tokens": estimate(report)})
    else:
        say(report)


@command()
@click.option("--dreams", is_flag=True, help="Include passes of dreaming in the sessions.")
@click.option(
    "--sizes", "with_sizes", is_flag=True, help="Show what each part of the store takes, over all workspaces."
)
@click.pass_context
def stats(ctx: click.Context, dreams: bool, with_sizes: bool) -> None:
    """Count what is in the workspace."""
    eng = open_store(ctx)
    counts = eng.sessions.stats(dreams=dreams)
    sizes = eng.sizes() if with_sizes else None
    settings = load_settings(ctx, warn=False)
    # A command that only reads has opened an empty store elsewhere if there is none yet.
    size = byte_size(counts.store_bytes) if settings.url == eng.settings.url else "not created yet"
    shown = _shown(counts, eng.workspace_name, f"{shown_url(settings)}, {size}")
    if sizes is None:
        result(ctx, counts, shown)
    else:
        result(ctx, {**counts._asdict(), "sizes": sizes}, f"{shown}\n\n{_sizes(sizes)}")


def _sizes(sizes: Sizes) -> str:
    rows = [(each.tier, f"{each.rows:,}", byte_size(each.bytes)) for each in sizes.tiers]
    free = "" if sizes.free_bytes is None else f"\nFree within the store: {byte_size(sizes.free_bytes)}."
    return f"{table(('part', 'about rows', 'about size'), rows)}{free}"


def _with_sources(lines: Sequence[tuple[str, str | None, str | None]]) -> Iterator[str]:
    """Each line after what it comes from. A line is its text, and the kind and id of its source."""
    short = short_ids(ref for _, kind, ref in lines if kind == "session" and ref)
    sources = [f"{kind} {short(ref)}" if ref else "" for _, kind, ref in lines]
    width = max(map(len, sources))
    for (text, _, _), source in zip(lines, sources, strict=True):
        yield f"{style(source.ljust(width), dim=True)}  {wrapped(text, width + 2)}"


def _shown(counts: Stats, workspace: str, store: str) -> str:
    stale = f" ({counts.stale:,} stale)" if counts.stale else ""
    by_status = {
        f"active{stale}": counts.active,
        "idle": counts.idle,
        "completed": counts.completed,
        "abandoned": counts.abandoned,
    }
    made_by = f", vectors made by {counts.model}" if counts.model else ", no vectors yet"
    return fields(
        {
            "workspace": workspace,
            "sessions": _parts(counts.sessions, by_status),
            "turns": f"{counts.turns:,}",
            "log entries": f"{counts.logs:,}",
            "memories": _parts(sum(counts.memories.values()), counts.memories),
            "gists": f"{counts.gists:,}",
            "blocks": f"{counts.blocks:,}",
            "leases": f"{counts.leases:,}",
            "embedder": f"{counts.embedder}{made_by}",
            "embedding queue": f"{counts.embedding_queue:,}",
            "store": store,
        }
    )


def _parts(total: int, counts: dict[str, int]) -> str:
    """`12: 2 active, 10 completed`; parts that are zero are left out."""
    parts = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    return f"{total:,}: {parts}" if parts else f"{total:,}"
