"""Graph: how are things connected?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import EngramError, InvalidInput, NotFound
from ...gist_text import parse
from ...safe_text import one_line
from ..http.html import Html, tag, together
from .frame import Page
from .graph_drawing import draw
from .names import memory_line, plain, task, titles
from .parts import badge, card, choice, empty, field, folded, memory_link, plural, row, session_link, table, when

if TYPE_CHECKING:
    from ...overview_records import Graph, GraphNode
    from .request import PageRequest

KINDS = ("memory", "session", "file", "block")
#: What one begins with, of each kind.
_BEGINNINGS = 8


def page(request: PageRequest) -> Page:
    kind, id = request.text("kind"), request.text("id", 4_000)
    if not kind or not id:
        return Page("graph", "How are things connected?", together(_ask(request), _beginnings(request)))
    if kind not in KINDS:
        raise InvalidInput(f"kind must be one of {', '.join(KINDS)}.")
    try:
        graph = _named(request, request.eng.graph(kind, id))
    except NotFound as error:
        body = together(_ask(request, kind, id), card(tag("p", error.message)))
        return Page("graph", "How are things connected?", body, status=error.status)
    except EngramError as error:
        body = together(_ask(request, kind, id), card(tag("p", error.message, class_="problem")))
        return Page("graph", "How are things connected?", body, status=error.status)
    return Page(
        "graph",
        "How are things connected?",
        together(_shown(request, graph), _as_list(request, graph), _ask(request, kind, id)),
    )


def _named(request: PageRequest, graph: Graph) -> Graph:
    """The graph with names for people: sessions by their gists, and only those states that tell something."""
    gists = request.eng.gists.of([each.id for each in graph.nodes if each.kind == "session"])

    def shown(node: GraphNode) -> GraphNode:
        detail = node.detail.removesuffix(", active").replace(", superseded", ", replaced")
        if node.kind == "memory":
            name = task(node.label, 300) if detail.startswith("gist") else plain(node.label, 300)
            return node._replace(label=name or node.label, detail=detail)
        if node.kind != "session":
            return node
        told = parse(gists[node.id].text).title if node.id in gists else ""
        name = task(told or node.label, 300) or node.label
        return node._replace(label=name, detail=node.detail.removesuffix(", completed"))

    return graph._replace(nodes=tuple(map(shown, graph.nodes)))


def _shown(request: PageRequest, graph: Graph) -> Html:
    first = graph.nodes[0]
    about = row(
        badge(first.kind, "accent"),
        tag("strong", one_line(first.label, 160)),
        tag("span", one_line(first.detail, 80), class_="quiet"),
        tag("a", "Open", href=address(request, first)) if address(request, first) else None,
    )
    if len(graph.nodes) == 1:
        return card(
            about,
            empty("Nothing is linked to it: it was made from nothing that is stored, and nothing was made from it."),
        )
    more = (
        tag(
            "p",
            f"{plural(graph.more, 'more neighbour')} {'is' if graph.more == 1 else 'are'} not drawn.",
            class_="quiet small",
        )
        if graph.more
        else None
    )
    legend = tag("p", *(tag("span", text, class_=f"key {name}") for name, text in _LEGEND), class_="map-keys")
    drawing = draw(graph, lambda node: request.link("graph", kind=node.kind, id=node.id))
    canvas = tag(
        "div", drawing, class_="canvas", tabindex="0", role="region", aria_label="The drawing", data_middle=".first"
    )
    return card(about, canvas, legend, more, class_="drawing")


_LEGEND = (("made-from", "made from"), ("replaces", "replaces"), ("about", "is about"))


def address(request: PageRequest, node: GraphNode) -> str | None:
    """The page of a node. A file has none."""
    pages = {"memory": "memories", "session": "sessions", "block": "blocks"}
    return request.link(pages[node.kind], node.id) if node.kind in pages else None


def _as_list(request: PageRequest, graph: Graph) -> Html | None:
    """The same as text: for screen readers, and where the drawing is too wide."""
    if not graph.links:
        return None
    nodes = {(each.kind, each.id): each for each in graph.nodes}

    def named(key: tuple[str, str]) -> Html:
        node = nodes[key]
        return tag("a", one_line(node.label, 100), href=request.link("graph", kind=node.kind, id=node.id))

    rows = [
        (named(each.start), each.type if each.type != "about" else "is about", named(each.end)) for each in graph.links
    ]
    return card(
        folded(
            f"As a list: {plural(len(rows), 'link')}",
            table(("From", "Link", "To"), rows, label="All links of the drawing"),
            id="links",
        )
    )


def _ask(request: PageRequest, kind: str = "memory", id: str = "") -> Html:
    fields = tag(
        "form",
        choice("Begin with a", "kind", {name: name for name in KINDS}, kind),
        field("Its id, path or name", "id", id, required=True, placeholder="12, src/router.py, world …"),
        tag("button", "Draw", type="submit"),
        method="get",
        action=request.link("graph"),
        class_="filters",
    )
    return card(fields)


def _beginnings(request: PageRequest) -> Html:
    """Where one can begin: what is pinned and new, and the latest sessions."""
    memories = request.eng.memories.list(derived=False, limit=_BEGINNINGS)
    sessions = request.eng.sessions.list(_BEGINNINGS, subagents=False)
    if not memories and not sessions:
        return card(empty("The graph links memories, sessions, files and blocks. There is nothing to link yet."))
    begun = [
        tag(
            "li",
            tag("a", memory_line(each.kind, each.content, 110), href=request.link("graph", kind="memory", id=each.id)),
            row(badge(each.kind), when(each.created_at, request.now), memory_link(request, each.id)),
            data_item=True,
        )
        for each in memories
    ]
    names = titles(request, sessions, 110)
    worked = [
        tag(
            "li",
            tag("a", names[each.id] or "(no task)", href=request.link("graph", kind="session", id=each.id)),
            row(badge(each.type), when(each.created_at, request.now), session_link(request, each.id)),
            data_item=True,
        )
        for each in sessions
    ]
    return tag(
        "div",
        card(tag("ul", *begun, class_="entries"), title="Newest memories", class_="flush") if begun else None,
        card(tag("ul", *worked, class_="entries"), title="Latest sessions", class_="flush") if worked else None,
        class_="columns",
    )
