"""Memory: what will my agents be told?"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ... import checks
from ...clock import between
from ...errors import InvalidInput
from ...safe_text import one_line, visible
from ...tokens import estimate
from ..http.html import Html, tag, together
from .frame import Page
from .markdown import markdown, source
from .memory_actions import actions, decide, pinned
from .names import memory_line, named, titles_of
from .parts import (
    badge,
    card,
    choice,
    day,
    empty,
    memory_link,
    meter,
    pager,
    plural,
    project,
    row,
    session_link,
    table,
    tabs,
    when,
)
from .portrait import addresses

if TYPE_CHECKING:
    from ...dream_records import Brief, BriefLine
    from ...records import Memory
    from .request import PageRequest

_MEMORIES = 50
#: Characters of all memories to approve that a page shows. What is longer is approved on its own page.
_WAITING, _BEGINNING = 400_000, 1_000
#: Sessions and memories whose projects can be chosen.
_LOOKED_AT = 100
#: Tags that dreaming gives to what it learns. The kind and the trust of a memory say as much.
_OWN_TAGS = ("extracted", "about-user")
_KINDS = ("fact", "preference", "decision", "lesson", "note", "todo", "gist", "era", "digest")
_STATUSES = {"active": "active", "archived": "archived", "superseded": "replaced"}
#: Days since it was last confirmed, below which a memory counts as fresh, known, or getting old.
_FRESH, _KNOWN, _OLD = 7, 30, 90
_DAY = 86_400
_NOTHING_WAITS = (
    "Nothing waits for you. What a tool or an import said, and what an agent pins, comes here before your agents "
    "read it."
)


class _Asked(NamedTuple):
    """What the page shows: a view, for a project, at a time."""

    view: str
    project: str
    #: A time in the past; None for now.
    at: str | None


def page(request: PageRequest) -> Page:
    projects = _projects(request, _moment(request))
    asked = _asked(request, projects)
    views = {"brief": _brief, "all": _memories, "waiting": _waiting}
    body = together(_controls(request, asked, projects), views[asked.view](request, asked))
    question = "What will my agents be told?" if asked.at is None else "What were my agents told?"
    return Page("memory", question, body, beside=_views(request, asked))


def _asked(request: PageRequest, projects: list[str]) -> _Asked:
    view = request.text("view")
    given = request.text("project")
    return _Asked(
        view if view in ("all", "waiting") else "brief",
        given or (projects[0] if projects and view not in ("all", "waiting") else ""),
        # What waits for a person waits now.
        None if view == "waiting" else _moment(request),
    )


def _moment(request: PageRequest) -> str | None:
    """The time that the page is about. A day means its end. A time in the future means now."""
    given = request.text("at")
    if not given:
        return None
    try:
        at = checks.moment(f"{given}T23:59:59Z" if len(given) == 10 else given, "at")
    except InvalidInput:
        raise InvalidInput(f"{given[:40]!r} is not a day. Choose one in the calendar.") from None
    return at if at < request.now else None


def _projects(request: PageRequest, at: str | None) -> list[str]:
    """The projects of the latest turns and memories at that time, the most recent first, then those of other sessions.

    A session without a turn, such as one that was started by hand, does not say what its project is about.
    """
    sessions = request.eng.sessions.list(_LOOKED_AT, subagents=False, until=at)
    memories = request.eng.memories.list(derived=False, limit=_LOOKED_AT, at=at)
    used = [(each.heartbeat_at, each.project) for each in sessions if each.turns]
    used += [(each.said_at, each.project) for each in memories]
    used.sort(key=lambda each: each[0], reverse=True)
    named = [*(project for _, project in used), *(each.project for each in sessions)]
    return list(dict.fromkeys(each for each in named if each))


def _views(request: PageRequest, asked: _Asked) -> Html:
    waiting = request.eng.waiting().memories
    entries = {
        "brief": ("The brief", request.here("memory", view=None, before=None)),
        "all": ("All memories", request.here("memory", view="all", before=None)),
        "waiting": (
            f"To approve ({waiting})" if waiting else "To approve",
            request.link("memory", view="waiting"),
        ),
    }
    return tabs(asked.view, entries, "What is shown")


def _controls(request: PageRequest, asked: _Asked, projects: list[str]) -> Html | None:
    if asked.view == "waiting":
        return None
    names = list(dict.fromkeys([*([asked.project] if asked.project else []), *projects]))
    shown = {
        "": "no project" if asked.view == "brief" else "all projects",
        **{name: one_line(name, 60) for name in names},
    }
    more = _filters(request) if asked.view == "all" else None
    back = tag("a", "Back to now", href=request.here("memory", at=None)) if asked.at else None
    date = tag(
        "p",
        tag("label", "As of", for_="f-at"),
        tag("input", type="date", id="f-at", name="at", value=asked.at[:10] if asked.at else "", max=request.now[:10]),
        class_="field",
    )
    return tag(
        "form",
        tag("input", type="hidden", name="view", value=asked.view) if asked.view != "brief" else None,
        choice("Project", "project", shown, asked.project),
        more,
        date,
        tag("button", "Show", type="submit", class_="second"),
        back,
        tag("span", "Days are UTC.", class_="quiet small"),
        method="get",
        action=request.link("memory"),
        class_="filters",
    )


def _filters(request: PageRequest) -> Html:
    return together(
        choice("Kind", "kind", {"": "all that was stored", **{name: name for name in _KINDS}}, request.text("kind")),
        choice("Status", "status", _STATUSES, request.text("status") or "active"),
        tag(
            "p",
            tag("label", "Tag", for_="f-tag"),
            tag("input", type="text", id="f-tag", name="tag", value=request.text("tag")),
            class_="field",
        ),
    )


def _brief(request: PageRequest, asked: _Asked) -> Html:
    eng = request.eng
    budget = eng.settings.brief_budget
    brief = eng.briefing(None, asked.project or None, budget, at=asked.at)
    used = estimate(brief.text)
    memories = _found(request, brief, asked)
    entries = [_entry(request, asked, list(lines), memories) for lines in _entries(brief)]
    past = None
    if asked.at is not None:
        past = tag("p", "As of the end of ", day(asked.at), ". What was forgotten since is not in it.", class_="then")
    size = f"{used:,} of {budget:,} tokens"
    shown = card(
        past,
        tag("div", *entries, class_="brief"),
        tag("div", meter(used, budget, label=size), tag("p", size, class_="quiet small"), class_="budget"),
        title=f"The brief of {one_line(asked.project, 60)}" if asked.project else "The brief without a project",
        beside=tag("span", "what the next session reads first", class_="quiet small") if asked.at is None else None,
        id="brief",
        data_live="memory session message block lease" if asked.at is None else None,
    )
    return together(shown, _profile(request, asked))


def _entries(brief: Brief) -> list[list[BriefLine]]:
    """The lines of the brief, those of one entry together."""
    found: list[list[BriefLine]] = []
    for line in brief.lines:
        is_more = (
            found and line.ref is not None and not line.text.startswith("- ") and _source(found[-1][0]) == _source(line)
        )
        if is_more:
            found[-1].append(line)
        else:
            found.append([line])
    return found


def _source(line: BriefLine) -> tuple[str | None, str | None]:
    return line.kind, line.ref


def _found(request: PageRequest, brief: Brief, asked: _Asked) -> dict[str, Memory]:
    """The memories in the brief, for their buttons. In the past there is nothing to change."""
    if asked.at is not None:
        return {}
    # What was forgotten since the brief was made is missing.
    return {str(id): memory for id, memory in request.eng.memories.some(int(id) for _, id in brief.things).items()}


def _entry(request: PageRequest, asked: _Asked, lines: list[BriefLine], memories: dict[str, Memory]) -> Html:
    first = lines[0]
    if first.kind is None:
        return _unsourced(first.text)
    text = tag("div", *(tag("p", visible(each.text)) for each in lines), class_="said")
    memory = memories.get(first.ref or "") if first.kind == "memory" else None
    buttons = actions(request, memory, f"b{first.ref}") if memory is not None else None
    origin = tag("span", _link(request, first), class_="source")
    return tag("div", text, origin, buttons, class_=f"line {first.kind}", data_item=True)


def _unsourced(text: str) -> Html:
    if text.startswith("## "):
        return tag("h3", visible(text.removeprefix("## ")), class_="part")
    if text.startswith("# "):
        return tag("p", visible(text.removeprefix("# ")), class_="head quiet")
    return tag("p", visible(text), class_="line quiet")


def _link(request: PageRequest, line: BriefLine) -> Html:
    ref = line.ref or ""
    match line.kind:
        case "memory":
            return memory_link(request, int(ref))
        case "session":
            return session_link(request, ref, f"session {ref[-8:]}")
        case "block":
            return tag("a", f"block {visible(ref)}", href=request.link("blocks", ref))
    return tag("a", f"message {visible(ref)}", href=request.link())


def _profile(request: PageRequest, asked: _Asked) -> Html | None:
    """The profile, which `engram context` gives to agents."""
    block = request.eng.blocks.get("profile", at=asked.at)
    if block is None or not block.content:
        return None
    beside = tag("a", "With sources and history", href=request.link("portrait"))
    return card(
        markdown(block.content, addresses(request, block.content)),
        title="The profile" if asked.at is None else f"The profile, version {block.version}",
        beside=beside,
        id="profile",
        data_live="block",
    )


def _memories(request: PageRequest, asked: _Asked) -> Html:
    status = request.text("status") or "active"
    kind = request.text("kind")
    before = request.whole("before", 0, most=10**12) or None
    found = request.eng.memories.list(
        kind=kind or None,
        # Dreaming writes a gist for each session. They are not statements, and there are many.
        derived=bool(kind),
        tag=request.text("tag") or None,
        status=status if status in _STATUSES else "active",
        project=asked.project or None,
        at=asked.at,
        limit=_MEMORIES + 1,
        before=before,
    )
    shown = found[:_MEMORIES]
    if not shown:
        return card(
            empty(
                "No memory fits." if request.query else "There is no memory yet.",
                request.typed('remember "Deploys never happen on Fridays" --kind preference'),
            )
        )
    older = request.here("memory", before=shown[-1].id) if len(found) > _MEMORIES else None
    newest = request.here("memory", before=None) if before else None
    # Without a server there are no authors, and the store does not keep when each recall happened.
    authors, now = any(each.author for each in shown), asked.at is None
    heads = ["Memory", "Kind", "Confirmed", "Trust", *(["Author"] if authors else []), *(["Used"] if now else [])]
    rows = [_row(request, asked, each, authors)[: len(heads)] for each in shown]
    return card(
        table(heads, rows, label="Memories, the newest first", class_="memories"),
        pager(newest, older, names=("Newest", "Older")),
        id="memories",
        data_live="memory" if asked.at is None and not before else None,
        class_="flush",
    )


def _row(request: PageRequest, asked: _Asked, memory: Memory, authors: bool) -> tuple[Html | str | None, ...]:
    marks = row(
        pinned(memory),
        project(request, memory.project) if not asked.project else None,
        badge("replaced", "warn") if memory.status == "superseded" else None,
        badge("archived") if memory.status == "archived" else None,
        *(
            tag(
                "a",
                f"#{one_line(each, 30)}",
                href=request.here("memory", view="all", tag=each, before=None),
                class_="small",
            )
            for each in [each for each in memory.tags if each not in _OWN_TAGS][:4]
        ),
    )
    text = tag(
        "div",
        memory_link(request, memory.id, memory_line(memory.kind, memory.content, 220)),
        marks,
        class_="text",
    )
    used = plural(memory.recalled, "time") if memory.recalled else "never"
    return (
        text,
        badge(memory.kind),
        freshness(memory, asked.at or request.now),
        memory.trust,
        *([one_line(memory.author or "", 40)] if authors else []),
        tag("span", used, title=f"said {memory.reinforced + 1} times"),
    )


def freshness(memory: Memory, now: str) -> Html:
    """When it was last confirmed, coloured by how long ago that is.

    A pass learns today what was said months ago. As in the brief, that is as old as what was said, unless a person
    approved it.
    """
    is_old_news = memory.said_at != memory.created_at and not memory.approved
    stamp = memory.said_at if is_old_news else memory.confirmed_at or memory.updated_at
    days = between(stamp, now) / _DAY
    name = "fresh" if days < _FRESH else "known" if days < _KNOWN else "old" if days < _OLD else "stale"
    return tag("span", tag("span", class_="dot"), when(stamp, now), class_=f"freshness {name}")


def _waiting(request: PageRequest, asked: _Asked) -> Html:
    found = request.eng.memories.list(waiting=True, limit=_MEMORIES)
    if not found:
        return card(empty(_NOTHING_WAITS))
    names = titles_of(request, [each.session_id for each in found])
    entries: list[Html] = []
    left = _WAITING
    for each in found:
        fits = len(each.content) <= left
        left -= len(each.content) if fits else _BEGINNING
        entries.append(_to_approve(request, each, names, whole=fits))
    about = tag("p", "These enter the brief only after you approve them, because every agent reads it.", class_="quiet")
    return card(
        about,
        tag("ul", *entries, class_="entries", data_queue=True),
        title=plural(len(found), "memory", "memories") + " to approve",
        id="waiting",
        data_live="memory",
    )


def _to_approve(request: PageRequest, memory: Memory, names: dict[str, str], *, whole: bool) -> Html:
    """A memory as it is stored, because that is what is approved. Nobody approves a text here that is not shown."""
    origin = named(request, memory.session_id, names) if memory.session_id else None
    text = source(memory.content if whole else f"{memory.content[:_BEGINNING]}…")
    more = f"Read all of it ({len(memory.content):,} characters) and decide"
    buttons = (
        row(decide(request, memory), actions(request, memory, f"w{memory.id}", pins=False))
        if whole
        else tag("p", memory_link(request, memory.id, more))
    )
    return tag(
        "li",
        row(
            badge(memory.kind),
            badge(memory.trust, "warn"),
            badge("pinned by an agent", "accent") if memory.pinned else None,
            origin,
            when(memory.created_at, request.now),
        ),
        text,
        buttons,
        id=f"waiting-{memory.id}",
        tabindex="-1",
        data_item=True,
    )
