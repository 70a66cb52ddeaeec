"""`engram graph`, `engram activity` and `engram harnesses`: what belongs together, how much happened, who was here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .common import command, moment_type, open_store, result, utc_option
from .counting import counted
from .screen import ago, hanging, one_line, short_ids, style, table

if TYPE_CHECKING:
    from ...overview_records import Activity, Graph, GraphNode, HarnessEvents

#: Each type of link as seen from its other end.
_REVERSED = {"made from": "source of", "replaces": "replaced by", "about": "about"}
_BAR = 20


@command()
@click.argument("kind", type=click.Choice(["memory", "session", "file", "block"]))
@click.argument("id")
@click.option(
    "-n", "--limit", type=click.IntRange(1, 60), default=60, show_default=True, help="Maximum number of nodes."
)
@click.pass_context
def graph(ctx: click.Context, kind: str, id: str, limit: int) -> None:
    """Show what is around a memory, session, file or block.

    ID is the id of a memory or session, the path of a file, or the name of a block. The tree shows what things are made
    from, what they replace and what they are about, up to two links away. --json has all links between them.
    """
    eng = open_store(ctx)
    found = eng.graph(kind, eng.sessions.resolve(id) if kind == "session" else id, limit=limit)
    result(ctx, found, lambda: _tree(found))


@command()
@click.option("--days", type=click.IntRange(1, 366), default=30, show_default=True, help="Number of days to include.")
@click.option("--until", metavar="TIME", callback=moment_type, help="A time in the last of these days.  [default: now]")
@utc_option
@click.pass_context
def activity(ctx: click.Context, days: int, until: str | None) -> None:
    """Show sessions, turns and memories by day, project and type of session.

    Days are in UTC. A session counts on the day on which it began, with all its turns. Gists are not counted as
    memories.
    """
    found = open_store(ctx).activity(days, until)
    result(ctx, found, lambda: _activity(found) if found else "Nothing happened in that time.")


@command()
@utc_option
@click.pass_context
def harnesses(ctx: click.Context) -> None:
    """Show what each harness did last, and failures of its hooks."""
    found = open_store(ctx).harness_events()
    result(ctx, found, lambda: _harnesses(found))


def _tree(graph: Graph) -> str:
    nodes = {(node.kind, node.id): node for node in graph.nodes}
    short = short_ids(node.id for node in graph.nodes if node.kind == "session")
    root = graph.nodes[0].kind, graph.nodes[0].id
    lines: list[str] = []
    shown = {root}

    def show(key: tuple[str, str], how: str) -> None:
        node = nodes[key]
        lines.append(f"{'  ' * node.steps}{style(how, dim=True)}{_node(node, short(node.id))}")
        for link in graph.links:
            for here, other, how in ((link.start, link.end, link.type), (link.end, link.start, _REVERSED[link.type])):
                if here == key and other not in shown and nodes[other].steps == node.steps + 1:
                    shown.add(other)
                    show(other, f"{how} ")
        if node.more:
            lines.append(style(f"{'  ' * (node.steps + 1)}… and {node.more:,} more", dim=True))

    show(root, "")
    return "\n".join(lines)


def _node(node: GraphNode, id: str) -> str:
    named = style(f"{node.kind} {one_line(id, 200)}", bold=True)
    # A memory always has a text, unless a forgetting has taken it.
    label = "" if node.kind in ("file", "block") else f" {one_line(node.label, 100) or '(emptied by forgetting)'}"
    detail = "" if node.kind == "file" else style(f" ({one_line(node.detail, 100)})", dim=True)
    return f"{named}{label}{detail}"


def _activity(rows: list[Activity]) -> str:
    most = max(each.turns for each in rows) or 1
    return table(
        ("day", "project", "type", "sessions", "turns", "memories", ""),
        [
            (
                each.day,
                each.project or "",
                each.type or "",
                f"{each.sessions:,}",
                f"{each.turns:,}",
                f"{each.memories:,}",
                "█" * -(-each.turns * _BAR // most),
            )
            for each in rows
        ],
    )


def _harnesses(found: HarnessEvents) -> str:
    short = short_ids(each.session_id for each in found.harnesses if each.session_id)
    rows = [
        (
            each.harness,
            ago(each.at, short=True) if each.at else "not seen lately",
            each.what,
            short(each.session_id) if each.session_id else "",
            each.project or "",
            each.text,
        )
        for each in found.harnesses
    ]
    shown = table(("harness", "last", "what", "session", "project", "text"), rows)
    failures = found.failures
    if failures is None or failures.last_at is None:
        return shown
    count = counted(failures.last_day, "failure")
    said = f": {hanging(failures.last)}" if failures.last else ""
    return f"{shown}\nHooks: {count} in the last day. The last one was {ago(failures.last_at)}{said}"
