"""`engram forget` and `engram receipts`: delete something permanently, and list what was deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ...errors import NotFound
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
    typed,
    utc_option,
)
from .counting import counted
from .screen import say, table, when

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...client import Engram
    from ...records import Receipt

#: The most sources of a memory that are searched for its text.
_SOURCES = 20
#: What stays without a part, by its name in receipts, and what one of it is.
_REBUILT = {"memories to rebuild": "memory", "blocks to rebuild": "block"}
_SHORTENED = "log entries shortened"
_STAYING = (*_REBUILT, _SHORTENED)
#: The singular of the names in receipts.
_ONE = {
    "exchanges": "exchange",
    "memories": "memory",
    "blocks": "block",
    "sessions": "session",
    "messages": "message",
    "memories to rebuild": "memory that lost a part",
    "blocks to rebuild": "block that lost a part",
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
    same = [] if as_json(ctx) else _same_words(eng, chosen["memory"])
    if not dry_run and not yes:
        if as_json(ctx):
            raise click.UsageError("With --json there is no prompt: add --yes or --dry-run.")
        say(_shown(eng.forget(**chosen, dry_run=True), same), err=True)
        click.confirm("Forget this? It cannot be undone.", abort=True, err=True)
    receipt = eng.forget(**chosen, dry_run=dry_run)
    result(ctx, receipt, lambda: _shown(receipt, same))


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


def _same_words(eng: Engram, memory: int | None) -> list[int]:
    """The exchanges that stay and contain the whole text of a memory, read before it is gone."""
    if memory is None:
        return []
    try:
        found = eng.memories.get(memory)
        named = [id for kind, id in eng.memories.sources(memory) if kind == "exchange"]
        turns = [eng.exchanges.get(id) for id in named[:_SOURCES]]
        turns += eng.exchanges.history(found.session_id, 0, logs=True) if found.session_id else []
    except NotFound:
        return []  # forgetting says what is missing
    text = _words(found.content)
    return sorted({turn.id for turn in turns if text and text in _words(turn.content)})


def _words(text: str) -> str:
    return " ".join(text.split()).casefold()


def _shown(receipt: Receipt, same: list[int]) -> str:
    is_done = receipt.id is not None
    lines = [" ".join(_sentences(receipt))]
    lines += _ids(receipt) if is_done else _previewed(receipt)
    if same:
        where = f"exchange{'s' if len(same) > 1 else ''} {', '.join(map(str, same))}"
        lines.append(f"The same words are in {where}: `{typed('forget', '--exchange', str(same[0]))}`.")
    if receipt.backups:
        lines.append("These older backups may still contain it. Delete them to remove it there too:")
        lines += [f"  {name}" for name in receipt.backups]
    return "\n".join(lines)


def _sentences(receipt: Receipt) -> Iterator[str]:
    """What goes, and what happens to the things that stay."""
    is_done = receipt.id is not None
    gone = [counted(count, _ONE[name], name) for name, count in receipt.counts.items() if name not in _STAYING]
    yield f"{f'Receipt {receipt.id}: forgot' if is_done else 'Would forget'} {', '.join(gone) or 'nothing'}."
    rebuilt = [counted(receipt.counts[name], one) for name, one in _REBUILT.items() if receipt.counts.get(name)]
    if rebuilt:
        one = sum(receipt.counts.get(name, 0) for name in _REBUILT) == 1
        lost = "lost" if is_done else "would lose"
        yield f"{' and '.join(rebuilt)} {'was' if one else 'were'} partly made from it, and {lost} that part."
        yield "Passes write gists, eras and the portrait again."
    if shortened := receipt.counts.get(_SHORTENED):
        verb = "would be" if not is_done else "was" if shortened == 1 else "were"
        yield f"{counted(shortened, 'log entry')} {verb} shortened."


def _is_without_text(line: str) -> bool:
    """Whether a line of a preview ends after the id and what it is: `12  gist:`."""
    what, colon, text = line.partition(":")
    return "  " in what and bool(colon) and not text


def _previewed(receipt: Receipt) -> list[str]:
    lines = []
    for name, shown in (receipt.preview or {}).items():
        lines.append(f"  {_headed(name, 'would lose a part')}")
        if name == "blocks to rebuild":
            # Their first words are not what goes.
            shown = [line.partition(": ")[0] for line in shown]
        # A memory or an exchange always has a text, unless an earlier forgetting has taken it.
        empty = "emptied by forgetting" if name.startswith(("memories", "exchanges")) else "empty"
        lines += [f"    {line} ({empty})" if _is_without_text(line) else f"    {line}" for line in shown]
        more = receipt.counts[name] - len(shown)
        lines += [f"    … and {more} more"] if more > 0 else []
    return lines


def _headed(name: str, what: str) -> str:
    """`blocks that lost a part` in place of `blocks to rebuild`."""
    return f"{name.partition(' ')[0]} that {what}" if name in _REBUILT else name


def _ids(receipt: Receipt) -> list[str]:
    lines = []
    for name, ids in receipt.ids.items():
        some = ", ".join(map(str, ids[:20]))
        lines.append(
            f"  {_headed(name, 'lost a part')}: {some}{f', … and {len(ids) - 20} more' if len(ids) > 20 else ''}"
        )
    return lines


def _counts(receipt: Receipt) -> str:
    counts = (counted(count, _ONE[name], _headed(name, "lost a part")) for name, count in receipt.counts.items())
    return ", ".join(counts) or "nothing"
