"""`engram forget`, `engram receipts`: make something gone everywhere, and see what was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .common import (
    SESSION,
    as_json,
    command,
    complete_block,
    complete_session,
    moment_type,
    open_store,
    result,
    utc_option,
)
from .screen import say, table, when

if TYPE_CHECKING:
    from ...records import Receipt


@command()
@click.option("--exchange", type=click.IntRange(min=1), metavar="ID", help="One thing said or done.")
@click.option("--memory", type=click.IntRange(min=1), metavar="ID", help="One memory, with its history.")
@click.option(
    "--session", type=SESSION, metavar="ID", shell_complete=complete_session, help="A session with all that is in it."
)
@click.option("--block", metavar="NAME", shell_complete=complete_block, help="A block, with its history.")
@click.option(
    "--before", metavar="TIME", callback=moment_type, help="Everything older: 2026-11-01, 2026-11-01T18:00, or 90d."
)
@click.option("--source", metavar="TYPE", help="Every session of this type: claude-code, import, …")
@click.option("--dry-run", is_flag=True, help="Only show what would go.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def forget(ctx: click.Context, /, dry_run: bool, yes: bool, **chosen: Any) -> None:
    """Make something gone everywhere, with what was derived from it alone. This cannot be undone.

    Give exactly one of the options that say what. To put a memory away and keep it, use `engram memory archive`.
    """
    eng = open_store(ctx)
    if not dry_run and not yes:
        if as_json(ctx):
            raise click.UsageError("With --json, say --yes or --dry-run: nobody can be asked.")
        say(_shown(eng.forget(**chosen, dry_run=True)), err=True)
        click.confirm("Forget this? It cannot be undone.", abort=True, err=True)
    receipt = eng.forget(**chosen, dry_run=dry_run)
    result(ctx, receipt, lambda: _shown(receipt))


@command()
@click.option("-n", "--limit", type=click.IntRange(min=0), default=20, show_default=True, help="0: all.")
@utc_option
@click.pass_context
def receipts(ctx: click.Context, limit: int) -> None:
    """What was forgotten, the latest first: counts and ids, not a word of it."""
    found = open_store(ctx).receipts(limit)
    rows = [(str(each.id), when(each.created_at), each.asked, _counts(each)) for each in found]
    result(ctx, found, lambda: table(("id", "when", "asked", "went"), rows) if rows else "Nothing was forgotten.")


def _shown(receipt: Receipt) -> str:
    lines = [f"Receipt {receipt.id}: {_counts(receipt)}." if receipt.id else f"Would go: {_counts(receipt)}."]
    for name, ids in receipt.ids.items():
        some = ", ".join(map(str, ids[:20]))
        lines.append(f"  {name}: {some}{f' and {len(ids) - 20} more' if len(ids) > 20 else ''}")
    if receipt.backups:
        lines.append("Backups made earlier still have it; delete them if you must:")
        lines += [f"  {name}" for name in receipt.backups]
    return "\n".join(lines)


def _counts(receipt: Receipt) -> str:
    return ", ".join(f"{count} {name}" for name, count in receipt.counts.items()) or "nothing"
