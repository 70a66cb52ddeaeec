"""`engram remember`, `recall`, `say`, `history`, `timeline`, `embed`, `memory …`: keep things, and find them again."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from .common import (
    SESSION,
    Group,
    command,
    complete_session,
    edited,
    moment_type,
    open_store,
    result,
    session_option,
    text_from,
    utc_option,
)
from .screen import day, fields, hanging, highlighted, one_line, style, table, when, with_times

if TYPE_CHECKING:
    from ...records import Exchange, Hit, Memory

_ID = click.argument("id", type=click.IntRange(min=1))
_SINCE = click.option(
    "--since", metavar="TIME", callback=moment_type, help="Not older: 2026-11-01, 2026-11-01T18:00, or 7d."
)
_UNTIL = click.option("--until", metavar="TIME", callback=moment_type, help="Not newer.")


@command()
@click.argument("text", required=False)
@click.option("--kind", default="note", show_default=True, help="fact, preference, decision, lesson, note, todo, …")
@click.option("--tag", "tags", multiple=True, help="May be repeated.")
@click.option("--importance", type=click.FloatRange(0, 1), default=0.5, show_default=True)
@click.option("--key", help="What it is about; a new memory of the same kind and key takes the old one's place.")
@click.option("--pin", "pinned", is_flag=True, help="Always worth knowing.")
@click.option("--project", help="What it belongs to.  [default: the session's]")
@click.option("--no-embed", is_flag=True, help="Leave its meaning to `engram embed`; words find it at once.")
@session_option(required=False)
@click.pass_context
def remember(ctx: click.Context, /, text: str | None, no_embed: bool, session_id: str | None, **options: Any) -> None:
    """Keep something worth knowing. What is known already is reinforced."""
    memory = open_store(ctx).remember(
        text_from(text),
        session_id=session_id,
        trust="agent" if session_id else "user",
        embed=not no_embed,
        **options,
    )
    again = f", said {memory.reinforced + 1} times now" if memory.reinforced else ""
    result(ctx, memory, f"Memory {memory.id} ({memory.kind}){again}.")


@command()
@click.argument("query")
@click.option("-k", type=click.IntRange(1, 1000), default=5, show_default=True, help="At most so many.")
@click.option(
    "--session", "session_id", type=SESSION, metavar="ID", shell_complete=complete_session, help="Only of this session."
)
@click.option("--kind", "kinds", multiple=True, help="Only memories of this kind; may be repeated.")
@click.option("--role", "roles", multiple=True, help="Only turns of this role; log for log entries.")
@click.option("--tag", "tags", multiple=True, help="Only memories with this tag.")
@click.option("--project", help="Only of this project.")
@_SINCE
@_UNTIL
@click.option("--archived", "include_archived", is_flag=True, help="Also what was archived or superseded.")
@click.option("--mode", type=click.Choice(["hybrid", "words", "vectors"]), default="hybrid", show_default=True)
@click.option(
    "--rerank",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Compare the best once more, token by token; auto where the model makes that pay.",
)
@click.option("--budget", type=click.IntRange(min=1), help="At most so many tokens together.")
@click.option("--explain", is_flag=True, help="Show why.")
@utc_option
@click.pass_context
def recall(ctx: click.Context, /, query: str, k: int, explain: bool, **options: Any) -> None:
    """Find what was said, done or learnt, by words and by meaning."""
    kinds, roles, tags = (list(options.pop(name)) for name in ("kinds", "roles", "tags"))
    what = ["memories"] if kinds and not roles else ["exchanges"] if roles and not kinds else ["exchanges", "memories"]
    hits = open_store(ctx).recall(
        query, k, what=what, kinds=kinds or None, roles=roles or None, tags=tags or None, **options
    )
    result(ctx, hits, lambda: "\n".join(_hit(hit, explain) for hit in hits) or "Nothing found.")


@command()
@click.argument("session_id", type=SESSION, metavar="SESSION", shell_complete=complete_session)
@click.argument("role", type=click.Choice(["user", "assistant", "system", "tool", "log"]))
@click.argument("text", required=False)
@click.option("--at", "created_at", metavar="TIME", callback=moment_type, help="When it was said.  [default: now]")
@click.option("--no-embed", is_flag=True, help="Leave its meaning to `engram embed`; words find it at once.")
@click.pass_context
def say(
    ctx: click.Context, session_id: str, role: str, text: str | None, created_at: str | None, no_embed: bool
) -> None:
    """Add what was said or done to a session."""
    eng = open_store(ctx)
    id = eng.exchanges.add(session_id, role, text_from(text), created_at=created_at, embed=not no_embed)
    result(ctx, {"id": id}, f"Exchange {id}.")


@command()
@click.argument(
    "session_id", type=SESSION, metavar="[SESSION]", envvar="ENGRAM_SESSION", shell_complete=complete_session
)
@utc_option
@click.pass_context
def history(ctx: click.Context, session_id: str) -> None:
    """Everything said in a session, oldest first."""
    turns = open_store(ctx).exchanges.history(session_id)
    result(ctx, turns, lambda: "\n".join(map(_turn, turns)) or "Nothing was said yet.")


@command()
@click.option(
    "--since",
    metavar="TIME",
    callback=moment_type,
    help="Begin here, or so long ago: 2h.  [default: 7d]",
)
@click.option("-n", "--limit", type=click.IntRange(min=1), default=50, show_default=True)
@utc_option
@click.pass_context
def timeline(ctx: click.Context, since: str | None, limit: int) -> None:
    """What was said and learnt lately, newest first."""
    found = open_store(ctx).exchanges.timeline(since, limit)
    result(ctx, found, lambda: "\n".join(map(_turn, found)) or "Nothing was said in that time.")


@command()
@click.option("-n", "--limit", type=click.IntRange(min=1), help="At most so many.  [default: all that wait]")
@click.pass_context
def embed(ctx: click.Context, limit: int | None) -> None:
    """Work off the backlog: index what others left, and find out what it means."""
    backlog = open_store(ctx).backlog
    waiting = backlog.size()
    length = min(waiting, limit or waiting)
    with click.progressbar(length=length, label="Embedding", file=sys.stderr) as bar:
        done = backlog.work(limit, progress=lambda count: bar.update(count - bar.pos))
    result(ctx, {"done": done, "left": backlog.size()}, f"{done} done.")


@click.group(cls=Group)
def memory() -> None:
    """What is worth knowing."""


@memory.command("list")
@click.option("--kind")
@click.option("--tag")
@click.option("--status", type=click.Choice(["active", "superseded", "archived"]), default="active", show_default=True)
@click.option("--project")
@_SINCE
@_UNTIL
@click.option("--pinned", is_flag=True, help="Only pinned ones.")
@click.option("-n", "--limit", type=click.IntRange(min=0), default=50, show_default=True, help="0: all.")
@utc_option
@click.pass_context
def list_memories(ctx: click.Context, /, **filters: Any) -> None:
    """Memories, newest first."""
    found = open_store(ctx).memories.list(**filters)
    rows = [(str(each.id), each.kind, ",".join(each.tags), day(each.created_at), each.content) for each in found]
    result(ctx, found, lambda: table(("id", "kind", "tags", "date", "content"), rows) if rows else "No memories.")


@memory.command()
@_ID
@utc_option
@click.pass_context
def show(ctx: click.Context, id: int) -> None:
    """Everything about one memory."""
    memories = open_store(ctx).memories
    found = memories.get(id)
    versions = memories.history(id)
    more = {"sources": memories.sources(id), "links": memories.links(id), "history": versions}
    result(ctx, {**found._asdict(), **more}, lambda: _whole(found, len(versions)))


@memory.command()
@_ID
@click.argument("text", required=False)
@click.option("--reason", default="", help="Why; kept in the history.")
@click.option("--tag", "tags", multiple=True, help="Replace the tags; may be repeated.")
@click.option("--importance", type=click.FloatRange(0, 1))
@session_option(required=False)
@click.pass_context
def edit(
    ctx: click.Context,
    id: int,
    text: str | None,
    reason: str,
    tags: tuple[str, ...],
    importance: float | None,
    session_id: str | None,
) -> None:
    """Change a memory; without TEXT or options, in $EDITOR."""
    memories = open_store(ctx).memories
    if text is None and not tags and importance is None:
        content: str | None = edited(memories.get(id).content)
    else:
        content = None if text is None else text_from(text)
    changed = memories.update(id, content, reason=reason, actor=session_id, tags=tags or None, importance=importance)
    result(ctx, changed, f"Memory {id} is at version {changed.version}.")


@memory.command()
@_ID
@click.argument("other", type=click.IntRange(min=1))
@click.option("--relation", default="related", show_default=True)
@click.pass_context
def link(ctx: click.Context, id: int, other: int, relation: str) -> None:
    """Say that two memories belong together."""
    open_store(ctx).memories.link(id, other, relation)
    result(ctx, {"from": id, "to": other, "relation": relation}, f"{id} → {other} ({relation}).")


@memory.command()
@_ID
@click.option("--undo", is_flag=True, help="Bring it back.")
@click.pass_context
def archive(ctx: click.Context, id: int, undo: bool) -> None:
    """Put a memory away; it stays readable, and `recall --archived` finds it."""
    memories = open_store(ctx).memories
    moved = memories.unarchive(id) if undo else memories.archive(id)
    result(ctx, moved, f"Memory {id} is {moved.status}.")


@memory.command()
@_ID
@click.option("--undo", is_flag=True, help="Unpin it.")
@click.pass_context
def pin(ctx: click.Context, id: int, undo: bool) -> None:
    """Mark a memory as always worth knowing."""
    changed = open_store(ctx).memories.update(id, pinned=not undo)
    result(ctx, changed, f"Memory {id} is {'pinned' if changed.pinned else 'not pinned'}.")


def _hit(hit: Hit, explain: bool) -> str:
    where = f"memory {hit.memory_id}" if hit.memory_id else f"exchange {hit.exchange_id}"
    head = f"{hit.score:.2f}  {where}, {hit.label}, {day(hit.created_at)}"
    head += f", {hit.session_id}" if hit.session_id else ""
    matched = hit.why["matched"]
    assert isinstance(matched, list)
    lines = [style(one_line(head, 500), dim=True), _highlighted(hanging(hit.text), matched)]
    if explain:
        lines.append(style(f"      {', '.join(f'{name} {value}' for name, value in hit.why.items())}", dim=True))
    return "\n".join(lines)


def _highlighted(text: str, matched: list[str]) -> str:
    """The text with the words that matched in bold; what matched are stems."""
    stems = tuple(matched)
    return highlighted(text, lambda word: word.lower().startswith(stems)) if stems else text


def _turn(turn: Exchange) -> str:
    return f"{style(when(turn.created_at), dim=True)}  {style(turn.role, bold=True)}: {hanging(turn.content)}"


def _whole(memory: Memory, versions: int) -> str:
    values: dict[str, object] = {
        **with_times(memory._asdict()),
        "tags": ", ".join(memory.tags) or None,
        "versions": versions,
    }
    return fields(values)
