"""One memory: its text, how it came about and changed, and what a person can do with it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import date
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, NamedTuple

from ... import gist_text
from ...safe_text import one_line, visible
from ..http.html import Html, tag, together
from . import memory_actions
from .diffs import Budget
from .frame import Page
from .icons import icon
from .markdown import markdown, source
from .marks import difference
from .names import dated_list, forgotten, memory_line, named, plain, task, titles_of
from .parts import (
    badge,
    button,
    card,
    day,
    definition,
    field,
    folded,
    forget,
    form,
    memory_link,
    opener,
    plural,
    project,
    row,
    session_link,
    short_id,
    shown_list,
    turn_address,
    when,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...overview_records import Graph, GraphNode
    from ...records import Exchange, Memory, MemoryEdit, MemoryState
    from .request import PageRequest

#: The events of the strip, the versions that are compared, the sources and the neighbours that are shown.
_EVENTS, _VERSIONS, _SOURCES, _NEIGHBOURS = 40, 12, 15, 40
_DATA = 4_000
#: Characters of the text that head the page.
_HEADING = 80
_EDIT = "memory-edit"
#: The key of an era.
_MONTH = re.compile(r"(?!0000)\d{4}-(?:0[1-9]|1[0-2])", re.ASCII)


class _Event(NamedTuple):
    """Something that happened to the memory."""

    at: str
    text: str
    #: Who did it, and why.
    by: str = ""
    tone: str = "plain"
    link: Html | None = None


def page(request: PageRequest) -> Page:
    memory = request.eng.memories.get(request.id())
    versions = request.eng.memories.history(memory.id)
    states = request.eng.memories.states(memory.id)
    around = request.eng.graph("memory", memory.id, limit=_NEIGHBOURS)
    main = together(
        _text(request, memory),
        _history(request, memory, versions, states),
        _versions(request, versions),
    )
    side = together(_about(request, memory), _sources(request, memory), _linked(request, memory, around))
    body = tag(
        "div",
        tag("div", main, class_="stack"),
        tag("div", side, class_="stack"),
        class_="aside one-memory",
        id="one-memory",
        data_live="memory",
    )
    number = f"Memory {memory.id}"
    heading = _heading(memory) or number
    beside = row(tag("span", number, class_="quiet") if heading != number else None, _actions(request, memory))
    return Page("memory", heading, body, title=number, beside=beside, live="memory")


def _heading(memory: Memory) -> str:
    """What it is about, in a few words; empty if its text was forgotten."""
    if memory.kind == "era" and memory.content and memory.key and _MONTH.fullmatch(memory.key):
        return date.fromisoformat(f"{memory.key}-01").strftime("%B %Y")
    title = gist_text.parse(memory.content).title if memory.kind == "gist" else ""
    return task(title, 120) or plain(memory.content, _HEADING)


def _actions(request: PageRequest, memory: Memory) -> Html:
    graph = tag(
        "a",
        icon("graph"),
        "Graph",
        href=request.link("graph", kind="memory", id=memory.id),
        class_="button second small",
    )
    shown = memory_actions.changes(request, memory)
    return row(*shown, graph, forget(request, {"memory": memory.id}, then=request.link("memory")))


def _text(request: PageRequest, memory: Memory) -> Html:
    state = row(
        badge(memory.kind, "accent"),
        memory_actions.pinned(memory),
        badge("✓ approved", "good", title="A person has approved this text") if memory.approved else None,
        badge(memory.status, "warn") if memory.status != "active" else None,
        tag("span", "replaced by ", memory_link(request, memory.superseded_by), class_="small")
        if memory.superseded_by
        else None,
        badge("expired", "warn") if memory.expires_at and memory.expires_at <= request.now else None,
    )
    if not memory.content:
        return card(state, tag("p", forgotten(request, memory.id), class_="quiet"), class_="memory-text")
    if not request.may("write"):
        return card(state, _shown(memory), class_="memory-text")
    edit = memory_actions.editing(request, memory, _EDIT, "memory")
    shown = tag("div", _shown(memory), data_shown_without=_EDIT)
    head = row(state, opener("Edit", _EDIT, data_key="e"), class_="apart")
    return card(head, shown, edit, class_="memory-text", data_item="")


def _shown(memory: Memory) -> Html:
    """The text. While it waits for an approval it is shown as it is stored, because that is what is approved."""
    if memory_actions.is_waiting(memory):
        return source(memory.content)
    return markdown(dated_list(memory.content) if memory.kind == "era" else memory.content)


def _about(request: PageRequest, memory: Memory) -> Html:
    now = request.now
    tags = [
        tag("a", one_line(each, 40), href=request.link("search", tags=shown_list([each])), class_="project")
        for each in memory.tags
    ]
    used = plural(memory.recalled, "time") if memory.recalled else "not yet"
    last = together(f"{used}, last ", when(memory.recalled_at, now)) if memory.recalled_at else used
    # The key of a gist is the session that it is about. A pass wrote it, in a session of its own.
    about = memory.key if memory.kind == "gist" else memory.session_id
    pairs = [
        ("Key", tag("code", visible(memory.key)) if memory.key and memory.kind != "gist" else None),
        ("Tags", row(*tags) if tags else None),
        ("Project", project(request, memory.project)),
        ("Importance", f"{memory.importance:.2f}"),
        ("Trust", visible(memory.trust)),
        ("Author", visible(memory.author) if memory.author else None),
        ("Session", named(request, about, titles_of(request, [about]), 80) if about else None),
        ("Said", day(memory.said_at) if memory.said_at != memory.created_at else None),
        ("Stored", when(memory.created_at, now)),
        ("Changed", when(memory.updated_at, now) if memory.updated_at != memory.created_at else None),
        ("Expires", day(memory.expires_at) if memory.expires_at else None),
        ("Recalled", last),
        ("Stored again", plural(memory.reinforced, "time") if memory.reinforced else None),
        ("Version", str(memory.version)),
    ]
    data = None
    if memory.data:
        data = folded("Data", source(json.dumps(memory.data, indent=2, ensure_ascii=False)[:_DATA]))
    return card(definition(pairs), _details(request, memory), data, title="About it")


def _details(request: PageRequest, memory: Memory) -> Html | None:
    """The form that changes tags and importance."""
    if not request.may("write") or not memory.content:
        return None
    tags = shown_list(memory.tags)
    fields = form(
        "memory.update",
        field("Tags", "tags", tags, key="about", data_type="texts", data_keep=True, autocomplete="off"),
        field(
            "Importance",
            "importance",
            f"{memory.importance:g}",
            key="about",
            type="number",
            min="0",
            max="1",
            step="0.05",
            data_type="number",
        ),
        row(button("Store", class_="small")),
        # Without a version: an edit of the text by somebody else does not matter here.
        values={"id": memory.id},
        class_="stack",
        data_conflict=str(memory.id),
        done="Stored.",
    )
    return folded("Change tags and importance", fields, class_="details")


def _history(
    request: PageRequest, memory: Memory, versions: Sequence[MemoryEdit], states: Sequence[MemoryState]
) -> Html:
    events = _events(request, memory, versions, states)
    shown = [
        tag(
            "li",
            tag("span", class_=f"knot {each.tone}", aria_hidden="true"),
            when(each.at, request.now),
            tag("strong", each.text),
            each.link,
            tag("span", each.by, class_="quiet small") if each.by else None,
        )
        for each in events[-_EVENTS:]
    ]
    left_out = len(events) - len(shown)
    note = tag("p", f"{plural(left_out, 'earlier event')} not shown.", class_="quiet small") if left_out > 0 else None
    return card(note, tag("ol", *shown, class_="strip"), title="History")


def _events(
    request: PageRequest, memory: Memory, versions: Sequence[MemoryEdit], states: Sequence[MemoryState]
) -> list[_Event]:
    """What happened, the oldest first."""
    found: list[_Event] = []
    names = titles_of(
        request, [*(each.actor for each in versions[:_EVENTS]), *(each.actor for each in states[-_EVENTS:])]
    )
    for edit in versions:
        what = "made" if edit.version == 1 else f"edited, version {edit.version}"
        if edit.receipt:
            what += f", {'part of the' if edit.content else 'the'} text forgotten since (receipt {edit.receipt})"
        by = _by(edit.author, edit.actor, names)
        why = one_line(edit.reason, 120)
        found.append(_Event(edit.created_at, what, " · ".join(filter(None, (by, why))), "accent"))
    for state in states:
        # The text has its own events.
        said = [each for each in state.changes if each != "stored" and not each.startswith("version ")]
        link = None
        if state.superseded_by and f"replaced by memory {state.superseded_by}" in said:
            # The link says which.
            said = [each for each in said if not each.startswith("replaced by")] + ["replaced by"]
            link = memory_link(request, state.superseded_by)
        if said:
            by = _by(state.author, state.actor, names)
            found.append(_Event(state.at, one_line(", ".join(said), 160), by, _tone(said), link))
    if memory.reinforced:
        found.append(
            _Event(memory.updated_at, f"confirmed {plural(memory.reinforced, 'time')}", "stored again", "good")
        )
    if memory.recalled_at:
        found.append(_Event(memory.recalled_at, f"recalled {plural(memory.recalled, 'time')}", "the last time"))
    return [_together(list(some)) for _, some in groupby(sorted(found, key=_order), _order)]


def _order(event: _Event) -> str:
    return event.at


def _together(events: Sequence[_Event]) -> _Event:
    """What happened at the same moment, as one event."""
    first = events[0]
    texts = ", ".join(each.text for each in events)
    by = next((each.by for each in events if each.by), "")
    link = next((each.link for each in events if each.link), None)
    return first._replace(text=texts, by=by, link=link)


def _tone(said: Sequence[str]) -> str:
    text = " ".join(said)
    if "approved" in text or "pinned" in text:
        return "good"
    return "warn" if "archived" in text or "replaced" in text else "plain"


def _by(author: str | None, actor: str | None, names: dict[str, str]) -> str:
    if author:
        return f"by {one_line(author, 60)}"
    name = task(names.get(actor or "", ""), 48)
    return f"in “{name}”" if name else f"by {short_id(actor)}" if actor else ""


def _versions(request: PageRequest, versions: Sequence[MemoryEdit]) -> Html | None:
    """What each version changed, the newest first."""
    if len(versions) < 2:
        return None
    shown = []
    budget = Budget()
    for number, (new, old) in enumerate(pairwise(versions[: _VERSIONS + 1])):
        summary = together(
            tag("span", f"Version {old.version} → {new.version}"),
            tag("span", one_line(new.reason, 80), class_="quiet") if new.reason else None,
            when(new.created_at, request.now),
        )
        # Forgetting may have removed the text of a version.
        gone = tag("p", "The text of one of these versions was forgotten.", class_="quiet")
        change = difference(old.content, new.content, budget) if old.content and new.content else gone
        shown.append(tag("details", tag("summary", summary), change, id=f"version-{new.version}", open=number == 0))
    more = len(versions) - 1 - len(shown)
    note = tag(
        "p", f"{plural(more, 'earlier change')} not shown: engram memory history has them.", class_="quiet small"
    )
    return card(*shown, note if more > 0 else None, title="What changed", class_="changes")


def _sources(request: PageRequest, memory: Memory) -> Html:
    found = request.eng.memories.sources(memory.id)
    turns = request.eng.exchanges.some(id for kind, id in found[:_SOURCES] if kind == "exchange")
    memories = request.eng.memories.some(id for kind, id in found[:_SOURCES] if kind == "memory")
    shown = [_source(request, kind, id, turns, memories) for kind, id in found[:_SOURCES]]
    if len(found) > _SOURCES:
        shown.append(tag("li", f"and {len(found) - _SOURCES:,} more", class_="quiet"))
    if not shown:
        where = "It was stored as it is" + (", in its session." if memory.session_id else ", outside a session.")
        return card(tag("p", where, class_="quiet"), title="Made from")
    return card(tag("ul", *shown, class_="side-list"), title="Made from")


def _source(
    request: PageRequest, kind: str, id: int, turns: Mapping[int, Exchange], memories: Mapping[int, Memory]
) -> Html:
    if kind == "exchange" and id in turns:
        turn = turns[id]
        link = tag("a", plain(turn.content, 140), href=turn_address(request, turn.session_id, id))
        return tag("li", link, row(badge(turn.role), when(turn.created_at, request.now)))
    if kind == "memory" and id in memories:
        other = memories[id]
        link = memory_link(request, id, memory_line(other.kind, other.content, 140))
        return tag("li", link, row(badge(other.kind, "accent")))
    return tag("li", tag("span", f"{kind} {id}", class_="quiet"))


def _linked(request: PageRequest, memory: Memory, graph: Graph) -> Html | None:
    """What it replaced, what was made from it, and what it is linked with."""
    nodes = {(each.kind, each.id): each for each in graph.nodes}
    root = ("memory", str(memory.id))
    relations = {frozenset((start, end)): relation for start, end, relation in request.eng.memories.links(memory.id)}
    groups: dict[str, list[Html]] = {"Replaces": [], "Made into": [], "Linked": [], "Files": []}
    for link in graph.links:
        if root not in (link.start, link.end):
            continue
        other = nodes[link.end if link.start == root else link.start]
        if link.type == "replaces" and link.start == root:
            groups["Replaces"].append(_node(request, other))
        elif link.type == "made from" and link.end == root:
            groups["Made into"].append(_node(request, other))
        elif link.type == "about" and other.kind == "memory":
            relation = relations.get(frozenset((memory.id, int(other.id))), "related")
            groups["Linked"].append(_node(request, other, relation))
        elif link.type == "about" and other.kind == "file":
            groups["Files"].append(_node(request, other))
    shown = [
        together(tag("h3", name), tag("ul", *entries[:_SOURCES], class_="side-list"))
        for name, entries in groups.items()
        if entries
    ]
    return card(*shown, title="Around it") if shown else None


def _node(request: PageRequest, node: GraphNode, relation: str | None = None) -> Html:
    if node.kind == "memory":
        link = memory_link(request, int(node.id), memory_line(node.kind, node.label, 140))
    elif node.kind == "block":
        link = tag("a", f"Block {node.label}", href=request.link("blocks", node.id))
    elif node.kind == "session":
        link = session_link(request, node.id, task(node.label, 140))
    else:
        link = tag("a", tag("code", node.label), href=request.link("graph", kind="file", id=node.id))
    detail = one_line(relation, 60) if relation else node.detail
    return tag("li", link, tag("span", detail, class_="quiet small") if detail else None)
