"""`engram sitrep` and `engram stats`."""

from __future__ import annotations

import click

from .common import as_json, command, open_store, result, session_option
from .screen import fields, print_json, say


@command()
@click.option("--budget", type=click.IntRange(min=1), default=1000, show_default=True, help="At most so many tokens.")
@click.option("--full", is_flag=True, help="Cut nothing.")
@click.option("--project", metavar="NAME", help="List this project first.  [default: the session's or folder's]")
@session_option(required=False)
@click.pass_context
def sitrep(ctx: click.Context, budget: int, full: bool, project: str | None, session_id: str | None) -> None:
    """Who is working on what, and what everybody should know."""
    report = open_store(ctx).sitrep(None if full else budget, session_id, project)
    if as_json(ctx):
        from ...tokens import estimate

        print_json({"report": report, "tokens": estimate(report)})
    else:
        say(report)


@command()
@click.pass_context
def stats(ctx: click.Context) -> None:
    """How much is in the workspace."""
    counts = open_store(ctx).sessions.stats()
    result(ctx, counts, lambda: fields(counts._asdict()))
