"""Blocks: which texts do the agents share, and who changed them?"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ...records import WORLD
from ...safe_text import one_line
from ...tokens import estimate
from ..http.html import Html, tag, together
from .diffs import Budget, side_by_side
from .frame import Page
from .markdown import markdown, source, without_sources
from .names import DREAMING, named, plain, titles_of
from .parts import (
    action,
    badge,
    button,
    card,
    empty,
    field,
    folded,
    forget,
    form,
    meter,
    opener,
    pager,
    plural,
    row,
    tabs,
    when,
)
from .portrait import addresses

if TYPE_CHECKING:
    from ...records import Block, BlockEdit
    from .request import PageRequest

#: Versions on one page of a history.
_VERSIONS = 10
#: Blocks that Engram knows, and what they are for.
_KNOWN = {
    WORLD: "What every agent should know right now. The brief and the situation report show it.",
    "profile": "Who the person is and how they like to work, written by dreaming.",
    "narrative": "What happened, as a story, written by dreaming.",
    "self": "What a companion thinks about itself.",
}


def page(request: PageRequest) -> Page:
    """All blocks."""
    blocks = request.eng.blocks.list()
    cards = [_summary(request, each) for each in blocks]
    nothing = card(
        empty(
            "There is no block yet. A block is a named text with versions that agents and people edit together. "
            "The first one is usually the world state:",
            request.typed('world set "Goal: ship 2.0 on Friday."'),
        )
    )
    listed = tag("div", *cards, class_="blocks", id="blocks", data_live="block") if cards else nothing
    create = _create(request) if request.may("write") else None
    return Page("blocks", "Which texts do the agents share?", together(listed, create))


def _summary(request: PageRequest, block: Block) -> Html:
    about = _KNOWN.get(block.name)
    title = tag("h2", tag("a", one_line(block.name, 80), href=request.link("blocks", block.name)))
    return tag(
        "article",
        tag("header", title, badge(f"version {block.version}"), class_="card-head"),
        tag("p", about, class_="quiet small") if about else None,
        tag("p", _beginning(block.content), class_="beginning"),
        _budget(block),
        _changed(request, block),
        class_="card",
        data_item=True,
    )


def _beginning(content: str) -> str:
    return plain(without_sources(_prose(content)), 240) or "(empty)"


def _prose(content: str) -> str:
    """The texts in a block that holds a JSON object, as `self` does; any other content as it is."""
    if not content.startswith("{"):
        return content
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return content
    return " · ".join(value for value in found.values() if isinstance(value, str)) or content


def _budget(block: Block) -> Html:
    used = estimate(block.content)
    text = f"{used:,} of {block.max_tokens:,} tokens"
    over = tag("strong", " – over its budget", class_="bad") if used > block.max_tokens else None
    return tag(
        "div", meter(used, block.max_tokens, label=text), tag("p", text, over, class_="quiet small"), class_="budget"
    )


def _changed(request: PageRequest, block: Block) -> Html:
    return row(
        tag("span", "changed ", when(block.updated_at, request.now), class_="small quiet"),
        _by(request, block.updated_by, block.author, titles_of(request, [block.updated_by])),
    )


def _by(request: PageRequest, actor: str | None, author: str | None, names: dict[str, str]) -> Html:
    """Who wrote a version: a session, the holder of a token, or a person at this machine."""
    token = tag("span", one_line(author, 60)) if author else None
    if actor == DREAMING:
        return tag("span", "by dreaming", class_="small quiet")
    if actor is None:
        return tag("span", "by ", token or "a person", class_="small quiet")
    return tag("span", "by ", named(request, actor, names, 48), " for " if token else None, token, class_="small quiet")


def _create(request: PageRequest) -> Html:
    fields = form(
        "block.create",
        field(
            "Name",
            "name",
            required=True,
            key="new",
            hint="Agents edit it by this name. Short ones without spaces are easiest to type.",
        ),
        field("Text", "content", long=True, key="new"),
        field(
            "Budget in tokens", "max_tokens", type="number", min="1", key="new", data_type="whole", placeholder="2000"
        ),
        row(button("Create the block")),
        then=request.link("blocks", "{name}").replace("%7Bname%7D", "{name}"),
        class_="stack narrow",
    )
    return card(folded("New block", fields))


def block_page(request: PageRequest) -> Page:
    """One block: its text, and how it came about."""
    name = request.path["name"]
    block = request.eng.blocks.get(name)
    if block is None:
        raise request.eng.blocks.missing(name)
    body = together(_text(request, block), _history(request, block))
    remove = forget(request, {"block": name}, then=request.link("blocks"), text="Forget the block")
    return Page("blocks", one_line(name, 100), body, title=one_line(name, 60), beside=remove)


def _text(request: PageRequest, block: Block) -> Html:
    raw = request.flag("raw")
    views = tabs(
        "raw" if raw else "text",
        {
            "text": ("Text", request.here("blocks", block.name, raw=None)),
            "raw": ("Source", request.here("blocks", block.name, raw=1)),
        },
        "How the text is shown",
    )
    shown = (
        source(block.content or "(empty)")
        if raw or block.content.startswith("{")
        else markdown(block.content, addresses(request, block.content))
        if block.content
        else empty("It is empty.")
    )
    edit = edit_button = None
    if request.may("write"):
        edit_button = opener("Edit", "block-edit")
        edit = form(
            "block.update",
            field("Text", "content", block.content, long=True, rows="14", key="block", data_keep=True),
            field("Reason", "reason", key="block", placeholder="What changed (optional)"),
            row(button("Store"), tag("button", "Cancel", type="button", class_="second", data_shows="block-edit")),
            values={"name": block.name, "expected_version": block.version},
            class_="stack",
            id="block-edit",
            hidden=True,
            data_conflict=block.name,
            done="Stored.",
        )
    data = folded("Data", source(_json(block.data))) if block.data is not None else None
    about = _KNOWN.get(block.name)
    return card(
        tag("p", about, class_="quiet") if about else None,
        tag("div", shown, data_shown_without="block-edit"),
        edit,
        data,
        _budget(block),
        _changed(request, block),
        title=f"Version {block.version}",
        beside=row(views, edit_button),
        id="block",
        data_live="block",
    )


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _history(request: PageRequest, block: Block) -> Html:
    before = request.whole("before", 0, most=10**9) or None
    versions = request.eng.blocks.versions(block.name, _VERSIONS + 1, before=before)
    shown, more = versions[:_VERSIONS], len(versions) > _VERSIONS
    names = titles_of(request, [each.actor for each in shown])
    budget = Budget()
    entries = [
        _version(request, block, each, names, budget, open=number == 0 and before is None)
        for number, each in enumerate(shown)
    ]
    older = request.here("blocks", block.name, before=shown[-1].version) if more else None
    newer = request.here("blocks", block.name, before=None) if before else None
    return card(
        tag("ol", *entries, class_="entries"),
        pager(newer, older, names=("Newest", "Older")),
        title=f"{plural(block.version, 'version')}",
        id="history",
        data_live="block",
        class_="flush versions",
    )


def _version(
    request: PageRequest, block: Block, edit: BlockEdit, names: dict[str, str], budget: Budget, *, open: bool
) -> Html:
    current = edit.version == block.version
    restore = None
    if not current and edit.receipt is None and request.may("write"):
        restore = action(
            "block.restore",
            "Restore",
            {"name": block.name, "version": edit.version, "expected_version": block.version},
            picture="undo",
            confirm=f"Write version {edit.version} again? The present text stays in the history.",
            done=f"Version {edit.version} is restored.",
        )
    forgotten = badge(f"forgotten, receipt {edit.receipt}", "warn") if edit.receipt is not None else None
    head = row(
        tag("strong", f"Version {edit.version}"),
        badge("current", "good") if current else None,
        forgotten,
        tag("span", one_line(edit.reason, 200)) if edit.reason else None,
        tag("span", class_="spacer"),
        _by(request, edit.actor, edit.author, names),
        when(edit.created_at, request.now),
        restore,
    )
    versions = (f"Version {edit.version - 1}" if edit.version > 1 else "Before", f"Version {edit.version}")
    changes = None
    if edit.receipt is None:
        compared = side_by_side(edit.old, edit.new, versions, f"What version {edit.version} changes", budget)
        changes = folded("Changes", compared, open=open, id=f"changes-{edit.version}")
    return tag("li", head, changes, data_item=True)
