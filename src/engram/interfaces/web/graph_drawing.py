"""Draws a graph in columns: where a thing comes from is on its left, what came of it on its right.

Columns keep a drawing of sixty nodes readable, and the same graph always looks the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...safe_text import one_line
from ..http.html import Html, tag

if TYPE_CHECKING:
    from ...overview_records import Graph, GraphLink, GraphNode

    Key = tuple[str, str]

#: In units of the drawing. Four columns fit beside the navigation on a small desktop.
_WIDTH, _HEIGHT = 200, 46
_BESIDE, _BELOW = 56, 16
_MARGIN = 12
#: Characters that fit into a node. Of the label they are counted by their width: narrow, usual, wide.
_DETAIL = 32
_ROOM, _NARROW, _USUAL, _WIDE = _WIDTH - 24, 4.2, 7.0, 9.5
#: Rounds in which columns are put in the order of their neighbours.
_ROUNDS = 4


def draw(graph: Graph, address: Callable[[GraphNode], str]) -> Html:
    """An SVG picture. Each node is a link, so that one can walk on from it."""
    places, width, height = _layout(graph)
    lines = [_line(each, places) for each in graph.links if each.start in places and each.end in places]
    boxes = [
        _box(each, places[each.kind, each.id], address(each), number == 0) for number, each in enumerate(graph.nodes)
    ]
    return tag(
        "svg",
        tag("title", f"{len(graph.nodes)} things and the links between them"),
        *lines,
        *boxes,
        class_="graph",
        viewBox=f"0 0 {width} {height}",
        width=str(width),
        height=str(height),
        role="group",
    )


def _layout(graph: Graph) -> tuple[dict[Key, tuple[int, int]], int, int]:
    columns: dict[int, list[Key]] = defaultdict(list)
    ranks = _ranks(graph)
    for node in graph.nodes:
        columns[ranks[node.kind, node.id]].append((node.kind, node.id))
    _order(columns, graph.links)
    tallest = max(map(len, columns.values()))
    height = tallest * (_HEIGHT + _BELOW) - _BELOW + 2 * _MARGIN
    places: dict[Key, tuple[int, int]] = {}
    for position, rank in enumerate(sorted(columns)):
        column = columns[rank]
        top = (height - len(column) * (_HEIGHT + _BELOW) + _BELOW) // 2
        for number, key in enumerate(column):
            places[key] = (_MARGIN + position * (_WIDTH + _BESIDE), top + number * (_HEIGHT + _BELOW))
    width = len(columns) * (_WIDTH + _BESIDE) - _BESIDE + 2 * _MARGIN
    return places, width, height


def _ranks(graph: Graph) -> dict[Key, int]:
    """The column of each node, from the first one outwards: `start` of a link is to the right of its `end`."""
    neighbours: dict[Key, list[tuple[Key, int]]] = defaultdict(list)
    for link in graph.links:
        neighbours[link.start].append((link.end, -1))
        neighbours[link.end].append((link.start, 1))
    ranks: dict[Key, int] = {}
    for node in graph.nodes:
        key = (node.kind, node.id)
        if key in ranks:
            continue
        # Every node is reached from the first one; others begin a column of their own, should that ever not be so.
        ranks[key] = 0
        waiting = [key]
        for current in waiting:
            for other, step in neighbours[current]:
                if other not in ranks:
                    ranks[other] = ranks[current] + step
                    waiting.append(other)
    return ranks


def _order(columns: dict[int, list[Key]], links: tuple[GraphLink, ...]) -> None:
    """Put nodes beside those that they are linked to, so that few lines cross."""
    beside: dict[Key, list[Key]] = defaultdict(list)
    for link in links:
        beside[link.start].append(link.end)
        beside[link.end].append(link.start)
    for _ in range(_ROUNDS):
        places = {key: number / len(column) for column in columns.values() for number, key in enumerate(column)}
        for column in columns.values():
            column.sort(key=lambda key: _mean([places[other] for other in beside[key] if other in places]))


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.5


def _line(link: GraphLink, places: dict[Key, tuple[int, int]]) -> Html:
    (x1, y1), (x2, y2) = places[link.end], places[link.start]
    y1, y2 = y1 + _HEIGHT // 2, y2 + _HEIGHT // 2
    if x1 == x2:
        # In one column: around the right side.
        x1 = x2 = x1 + _WIDTH
        curve = f"M{x1} {y1} C{x1 + 44} {y1} {x2 + 44} {y2} {x2} {y2}"
    else:
        if x1 > x2:
            x1, y1, x2, y2 = x2, y2, x1, y1
        x1 += _WIDTH
        half = (x2 - x1) // 2
        curve = f"M{x1} {y1} C{x1 + half} {y1} {x2 - half} {y2} {x2} {y2}"
    return tag("path", d=curve, class_=f"link {link.type.replace(' ', '-')}")


def _fitting(label: str) -> str:
    """As much of a label as fits into its node."""
    room = float(_ROOM)
    for place, each in enumerate(label):
        room -= _NARROW if each in "iljtfr.,:;'|!/() " else _WIDE if each in "mwMW@%…" or ord(each) > 0x2E7F else _USUAL
        if each.isupper() or each.isdigit():
            room -= 1
        if room < 0:
            return f"{label[: max(place - 1, 1)].rstrip()}…"
    return label


def _box(node: GraphNode, place: tuple[int, int], address: str, is_first: bool) -> Html:
    x, y = place
    more = f" (+{node.more})" if node.more else ""
    label = _fitting(one_line(node.label, 60))
    return tag(
        "a",
        tag("title", f"{node.kind}: {one_line(node.label, 300)}"),
        tag("rect", x=str(x), y=str(y), width=str(_WIDTH), height=str(_HEIGHT), rx="9"),
        tag("rect", x=str(x), y=str(y + 10), width="4", height=str(_HEIGHT - 20), rx="2", class_="stripe"),
        tag("text", label, x=str(x + 14), y=str(y + 20), class_="label"),
        tag(
            "text",
            one_line(f"{node.kind} · {node.detail}" if node.detail else node.kind, _DETAIL) + more,
            x=str(x + 14),
            y=str(y + 36),
            class_="detail",
        ),
        href=address,
        class_=f"node {node.kind}{' first' if is_first else ''}",
        aria_label=f"{node.kind}: {one_line(node.label, 100)}",
    )
