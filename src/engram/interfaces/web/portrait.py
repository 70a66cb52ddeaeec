"""The portrait: what is known about the person, how it went, a companion's own view, and the months."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ...errors import EngramError
from ...safe_text import one_line
from ..http.html import Html, tag, together
from . import proposals
from .diffs import Budget
from .frame import Page
from .markdown import markdown, named_sources
from .names import dated_list
from .parts import badge, card, empty, folded, live, memory_link, meter, pager, plural, row, turn_address, when

if TYPE_CHECKING:
    from ...records import Block, DreamReport, Memory, Proposal
    from .markdown import Address
    from .request import PageRequest

_TITLES = {"profile": "What is known about you", "narrative": "How it went", "self": "How the companion sees itself"}
#: Months on one page.
_ERAS = 6
#: Passes that are looked through for the one that wrote a block.
_PASSES = 40
#: Turns that a text names: each is looked up, to find its session.
_TURNS = 60
#: Texts of a pass for a block that is a person's.
_PROPOSALS = 6
#: The actors that write as dreaming does.
_BY_DREAMING = {"dream": "a pass", "import": "an import"}


def page(request: PageRequest) -> Page:
    eng = request.eng
    blocks = {name: eng.blocks.get(name) for name in _TITLES}
    waiting = eng.proposals.list(limit=_PROPOSALS, what="rewrite")
    passes = eng.dreams.list(_PASSES)
    shown = [
        _block(request, name, block, passes, [each for each in waiting if each.block == name])
        for name, block in blocks.items()
        if (block and (block.content or block.data is not None)) or name != "self"
    ]
    portrait = live(*shown, id="portrait", on="block proposal", class_="stack")
    back = tag("a", "Passes and proposals", href=request.link("dreams"), class_="button second")
    body = tag("div", portrait, _eras(request), class_="portrait")
    return Page("dreams", "What is known about you, and what happened?", body, "Portrait", back)


def _block(
    request: PageRequest, name: str, block: Block | None, passes: list[DreamReport], waiting: list[Proposal]
) -> Html:
    if block is None or not (block.content or block.data is not None):
        return card(
            empty(f"{_NOTHING[name]} Run one now:", request.typed("dream")), title=_TITLES[name], id=f"portrait-{name}"
        )
    text = _self(block) if name == "self" else None
    return card(
        text or markdown(_without_title(block.content, _TITLES[name]), addresses(request, block.content)),
        _written(request, block, passes),
        _proposed(request, waiting) if waiting else None,
        title=_TITLES[name],
        beside=tag("a", f"Version {block.version}, history", href=request.link("blocks", name), class_="small"),
        id=f"portrait-{name}",
    )


_NOTHING = {
    "profile": "Nothing is known about you yet. A pass writes what you said about yourself, and your preferences.",
    "narrative": "Nothing is told yet. A pass tells how the work went once sessions have ended.",
}


def _without_title(text: str, title: str) -> str:
    """The text without a first heading that is the title of its card."""
    first, _, rest = text.partition("\n")
    return rest.lstrip() if first.lstrip("# ").strip() == title else text


def _written(request: PageRequest, block: Block, passes: list[DreamReport]) -> Html:
    """Who wrote the text last, and when."""
    made = next((each for each in passes if each.blocks.get(block.name) == block.version and not each.undone_by), None)
    by: Html | str
    if made is not None and made.id is not None:
        by = tag("a", f"pass {made.id}", href=request.link("dreams", made.id))
    elif block.updated_by in _BY_DREAMING:
        by = _BY_DREAMING[block.updated_by]
    else:
        by = one_line(block.author or block.updated_by or "a person", 60)
    theirs = block.updated_by not in _BY_DREAMING
    note = tag("span", "Passes do not replace this text. They propose another one.", class_="quiet small")
    return row(
        tag("span", "Written by ", by, class_="small"),
        when(block.updated_at, request.now),
        badge("by hand", "accent") if theirs else None,
        note if theirs else None,
        class_="written",
    )


def _proposed(request: PageRequest, waiting: list[Proposal]) -> Html:
    budget = Budget()
    shown = [proposals.entry(request, each, budget) for each in waiting]
    head = tag("h3", "A pass would write another text")
    return tag("div", head, tag("ol", *shown, class_="stack", data_queue=True), class_="stack proposed")


def addresses(request: PageRequest, text: str) -> Address:
    """Where the sources are that a text names: memories have pages, turns are on the pages of their sessions."""
    named = named_sources(text)
    turns: dict[str, str] = {}
    for handle in sorted(each for each in named if each.startswith("e"))[:_TURNS]:
        try:
            id = int(handle[1:])
            turns[handle] = turn_address(request, request.eng.exchanges.get(id).session_id, id)
        except EngramError:
            continue

    def address(handle: str) -> str | None:
        return request.link("memories", handle[1:]) if handle.startswith("m") else turns.get(handle)

    return address


def _self(block: Block) -> Html | None:
    """A reflection, which is JSON: a mood, an energy, a text and the latest reflections. None for any other text."""
    try:
        found = json.loads(block.content)
    except ValueError:
        return None
    if not isinstance(found, dict) or not isinstance(found.get("narrative"), str):
        return None
    mood, energy = found.get("mood"), found.get("energy")
    levels = [badge(one_line(mood, 60), "accent")] if isinstance(mood, str) and mood else []
    bar = None
    if isinstance(energy, int | float) and not isinstance(energy, bool):
        share = float(energy) if energy <= 1 else float(energy) / 100
        bar = tag(
            "div",
            tag("span", f"Energy {share:.0%}", class_="quiet small"),
            meter(share, 1, label=f"Energy {share:.0%}", marked=False),
        )
    kept = found.get("reflections")
    earlier = [
        tag(
            "li", tag("p", one_line(str(each["text"]), 1_200)), tag("time", str(each.get("at", ""))[:10], class_="date")
        )
        for each in reversed(kept if isinstance(kept, list) else [])
        if isinstance(each, dict) and "text" in each
    ][:6]
    return together(
        row(*levels) if levels else None,
        bar,
        markdown(found["narrative"]),
        tag("ul", *earlier, class_="reflections") if earlier else None,
    )


def _eras(request: PageRequest) -> Html:
    before = request.text("before", 20)
    eras = [each for each in reversed(request.eng.eras.list()) if not before or (each.key or "") < before]
    shown = [_era(request, each, open=not number) for number, each in enumerate(eras[:_ERAS])]
    older = request.link("portrait", before=eras[_ERAS - 1].key) if len(eras) > _ERAS else None
    newest = request.link("portrait") if before else None
    nothing = empty("A month appears after its sessions are summarised.")
    return live(
        tag("h2", "Months", class_="section-head"),
        together(*shown) if shown else card(nothing),
        pager(newest, older, names=("Newest", "Older")),
        id="eras",
        on="memory",
        class_="stack",
    )


def _era(request: PageRequest, era: Memory, *, open: bool) -> Html:
    data = era.data if isinstance(era.data, dict) else {}
    count = data.get("sessions")
    beside = row(
        tag("span", plural(count, "session"), class_="quiet small") if isinstance(count, int) else None,
        memory_link(request, era.id, "Source"),
    )
    address = addresses(request, era.content)
    return card(
        folded("Read it", markdown(dated_list(era.content), address), open=open, id=f"era-text-{era.id}"),
        title=one_line(era.key or "", 20),
        beside=beside,
        id=f"era-{era.id}",
        class_="era",
    )
