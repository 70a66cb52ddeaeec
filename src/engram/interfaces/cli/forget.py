"""`engram forget` and `engram receipts`: delete something permanently, and list what was deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .common import (
    SESSION,
    as_json,
    command,
    complete_block,
    complete_session,
    limit_option,
    moment_type,
    open_store,
    result,
    utc_option,
)
from .counting import counted
from .screen import say, table, when

if TYPE_CHECKING:
    from ...records import Receipt

#: The singular of the names in receipts.
_ONE = {
    "exchanges": "exchange",
    "memories": "memory",
    "blocks": "block",
    "sessions": "session",
    "messages": "message",
    "memories to rebuild": "memory to rebuild",
    "blocks to rebuild": "block to rebuild",
    "summaries": "summary",
    "outcomes": "outcome",
    "log entries shortened": "log entry shortened",
    "block versions": "block version",
}


@command()
@click.option(
    "--exchange", type=click.IntRange(min=1), metavar="ID", help="One exchange; `engram history` shows the ids."
)
@click.option("--memory", type=click.IntRange(min=1), metavar="ID", help="One memory with its history.")
@click.option(
    "--session", type=SESSION, metavar="ID", shell_complete=complete_session, help="One session with everything in it."
)
@click.option("--block", metavar="NAME", shell_complete=complete_block, help="One block with its history.")
@click.option(
    "--before",
    metavar="TIME",
    callback=moment_type,
    help="Everything older than this: 2026-11-01, 2026-11-01T18:00, or 90d.",
)
@click.option("--source", metavar="TYPE", help="All sessions of this type: claude-code, import, …")
@click.option("--dry-run", is_flag=True, help="Show what would be forgotten, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.pass_context
def forget(ctx: click.Context, /, dry_run: bool, yes: bool, **chosen: Any) -> None:
    """Delete something permanently, including everything derived only from it. This cannot be undone.

    Give exactly one of --exchange, --memory, --session, --block, --before and --source. To keep a memory but hide it,
    use `engram memory archive`.
    """
    if sum(value is not None for value in chosen.values()) != 1:
        raise click.UsageError(f"Give exactly one of {', '.join(f'--{name}' for name in chosen)}.")
    eng = open_store(ctx)
    if not dry_run and not yes:
        if as_json(ctx):
            raise click.UsageError("With --json there is no prompt: add --yes or --dry-run.")
        say(_shown(eng.forget(**chosen, dry_run=True)), err=True)
        click.confirm("Forget this? It cannot be undone.", abort=True, err=True)
    receipt = eng.forget(**chosen, dry_run=dry_run)
    result(ctx, receipt, lambda: _shown(receipt))


@command()
@limit_option("receipts", 20)
@utc_option
@click.pass_context
def receipts(ctx: click.Context, limit: int) -> None:
    """List what was forgotten, newest first: counts and ids, without any text."""
    found = open_store(ctx).receipts(limit)
    rows = [(str(each.id), when(each.created_at), each.author or "", each.asked, _counts(each)) for each in found]
    result(
        ctx,
        found,
        lambda: (
            table(("id", "when", "author", "request", "forgotten"), rows) if rows else "Nothing has been forgotten."
        ),
    )


def _shown(receipt: Receipt) -> str:
    is_done = receipt.id is not None
    lines = [f"{f'Receipt {receipt.id}: forgot' if is_done else 'Would forget'} {_counts(receipt)}."]
    lines += _ids(receipt) if is_done else _previewed(receipt)
    if receipt.backups:
        lines.append("These older backups may still contain it. Delete them to remove it there too:")
        lines += [f"  {name}" for name in receipt.backups]
    return "\n".join(lines)


def _is_without_text(line: str) -> bool:
    """Whether a line of a preview ends after the id and what it is: `12  gist:`."""
    what, colon, text = line.partition(":")
    return "  " in what and bool(colon) and not text


def _previewed(receipt: Receipt) -> list[str]:
    lines = []
    for name, shown in (receipt.preview or {}).items():
        lines.append(f"  {name}")
        # A memory or an exchange always has a text, unless an earlier forgetting has taken it.
        empty = "emptied by forgetting" if name.startswith(("memories", "exchanges")) else "empty"
        lines += [f"    {line} ({empty})" if _is_without_text(line) else f"    {line}" for line in shown]
        more = receipt.counts[name] - len(shown)
        lines += [f"    … and {more} more"] if more > 0 else []
    return lines


def _ids(receipt: Receipt) -> list[str]:
    lines = []
    for name, ids in receipt.ids.items():
        some = ", ".join(map(str, ids[:20]))
        lines.append(f"  {name}: {some}{f', … and {len(ids) - 20} more' if len(ids) > 20 else ''}")
    return lines


def _counts(receipt: Receipt) -> str:
    return ", ".join(counted(count, _ONE[name], name) for name, count in receipt.counts.items()) or "nothing"
