"""Search: what do we know about …?

Everything is in the address: the question and the filters. While the person types, the same page is loaded again, and
its results take the place of those that are shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import EmbedderFailed, EngramError, MissingExtra
from ...records import UNLIKELY
from ...safe_text import one_line, visible
from ..http.html import Html, tag, together
from .explained import by_words, found_by, parts_of
from .frame import Page
from .icons import icon
from .latest import end_of_day, latest
from .marks import marked
from .names import lines, task, titles
from .parts import (
    agent,
    badge,
    choice,
    field,
    folded,
    forget,
    memory_link,
    plural,
    project,
    row,
    session_link,
    turn_address,
    typed_list,
    when,
)

if TYPE_CHECKING:
    from ...records import Exchange, Hit, Session
    from .request import PageRequest

#: Results at first, and at most.
_FIRST, _MOST = 20, 100
_LONGEST = 10_000
#: Other places where the same was said.
_OTHERS = 3
#: Sessions whose projects and authors can be chosen.
_KNOWN = 200
_KINDS = ("fact", "preference", "decision", "lesson", "note", "todo", "gist", "era", "digest")
_ROLES = ("user", "assistant", "system", "tool", "log")
_WHAT = {"": "Memories and turns", "memories": "Memories", "turns": "Turns"}
#: The filters, with the words that show them.
_NAMES = {
    "what": "only",
    "kind": "kind",
    "role": "role",
    "project": "project",
    "session": "session",
    "author": "author",
    "tags": "tags",
    "since": "since",
    "until": "until",
    "archived": "with archived ones",
}


class _Found(NamedTuple):
    hits: list[Hit]
    #: Why the results match by words only; None if they do not.
    limited: str | None = None
    problem: EngramError | None = None


def page(request: PageRequest) -> Page:
    query = request.text("q", _LONGEST)
    # Only names of the filters: an address may have anything.
    chosen = {name: given for name in _NAMES if (given := request.text(name))}
    status = 200
    if query and (why := _contradiction(chosen)):
        results = tag("p", icon("warning"), tag("span", why), class_="limited")
    elif query:
        found = _find(request, query, chosen)
        status = found.problem.status if found.problem else 200
        results = _results(request, query, found)
    else:
        results = latest(request, chosen)
    # Results do not move while the person reads them, but what was forgotten goes.
    shown = tag("div", results, id="results", class_="stack", data_live="receipt" if query else None)
    body = together(_form(request, query, chosen), shown)
    return Page("search", "What do we know about …?", body, title=one_line(query, 60), status=status)


def _contradiction(chosen: Mapping[str, str]) -> str | None:
    """What is wrong with filters that no result can meet; None if nothing is."""
    of_memories = [name for name in ("kind", "tags") if name in chosen]
    if of_memories and ("role" in chosen or chosen.get("what") == "turns"):
        return f"Only memories have {' and '.join(of_memories)}, so no turn is found. Remove a filter."
    if "role" in chosen and chosen.get("what") == "memories":
        return "Only turns have a role, so no memory is found. Remove a filter."
    since, until = chosen.get("since"), chosen.get("until")
    if since and until and since > until:
        return "The time since which to search is after the time until which. Change one of them."
    return None


def _form(request: PageRequest, query: str, chosen: Mapping[str, str]) -> Html:
    box = tag(
        "div",
        icon("search"),
        tag(
            "input",
            type="search",
            name="q",
            value=query,
            id="query",
            aria_label="Question",
            placeholder="A question or a few words, such as: why did we leave Redis?",
            autocomplete="off",
            spellcheck="false",
            autofocus=not query,
            maxlength=str(_LONGEST),
        ),
        tag("button", "Search", type="submit"),
        class_="search-box",
    )
    filters = tag(
        "details",
        tag("summary", tag("span", "Filters")),
        _fields(request, chosen),
        id="filters",
        class_="filters",
    )
    return tag(
        "form",
        box,
        filters,
        # Not in the summary: a link in a button cannot be reached by everybody.
        _active(request, chosen),
        action=request.link("search"),
        method="get",
        role="search",
        class_="search",
        data_search="results active-filters",
    )


def _active(request: PageRequest, chosen: Mapping[str, str]) -> Html:
    shown = [
        badge(_NAMES[name] if name == "archived" else f"{_NAMES[name]} {one_line(value, 50)}", "accent")
        for name, value in chosen.items()
    ]
    clear = tag("a", "Clear", href=request.link("search", q=request.text("q", _LONGEST))) if shown else None
    return tag("span", *shown, clear, id="active-filters", class_="row")


def _fields(request: PageRequest, chosen: Mapping[str, str]) -> Html:
    known = request.eng.sessions.list(_KNOWN)
    projects = sorted({each.project for each in known if each.project} | ({chosen.get("project", "")} - {""}))
    authors = sorted({each.author for each in known if each.author} | ({chosen.get("author", "")} - {""}))
    kinds = [*_KINDS, *({chosen.get("kind", "")} - {"", *_KINDS})]
    options: dict[str, tuple[str, dict[str, str]]] = {
        "what": ("Search in", _WHAT),
        "kind": ("Kind of memory", {"": "Any kind", **{each: each for each in kinds}}),
        "role": ("Role of turn", {"": "Any role", **{each: each for each in _ROLES}}),
        "project": ("Project", {"": "Any project", **{each: one_line(each, 60) for each in projects}}),
    }
    if authors:
        options["author"] = ("Author", {"": "Anybody", **{each: one_line(each, 60) for each in authors}})
    lists = [choice(label, name, values, chosen.get(name, "")) for name, (label, values) in options.items()]
    archived = tag(
        "p",
        tag("input", type="checkbox", name="archived", value="1", id="archived", checked=request.flag("archived")),
        tag("label", "Also archived and replaced memories", for_="archived"),
        class_="check",
    )
    return tag(
        "div",
        *lists,
        field("Tags", "tags", chosen.get("tags", ""), placeholder="deploy, staging", autocomplete="off"),
        field("Session", "session", chosen.get("session", ""), placeholder="Its id, or the end of it"),
        field("Since", "since", chosen.get("since", ""), type="date"),
        field("Until", "until", chosen.get("until", ""), type="date"),
        archived,
        class_="filter-fields",
    )


def _find(request: PageRequest, query: str, chosen: Mapping[str, str]) -> _Found:
    k = request.whole("k", _FIRST, least=1, most=_MOST)
    eng = request.eng
    try:
        options = _options(request, chosen)
        try:
            hits = eng.recall(query, k, **options)
        except (EmbedderFailed, MissingExtra) as error:
            return _Found(eng.recall(query, k, mode="words", **options), error.message)
    except EngramError as error:
        return _Found([], problem=error)
    # A model that fails is no error of recall: words still find most things.
    limited = eng.embedders.problem()
    if limited is None and hits and by_words(hits) and eng.embedders.model is not None:
        limited = "The model that compares meanings gave no answer."
    return _Found(hits, limited)


def _options(request: PageRequest, chosen: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of recall. A person who looks around does not count as an agent who recalls."""
    kind, role, session = chosen.get("kind"), chosen.get("role"), chosen.get("session")
    tags = typed_list(chosen.get("tags", ""))
    what = chosen.get("what")
    # Memories have kinds and tags, and turns have roles: who filters by one of them wants only those.
    about = [name for name, wanted in (("memories", kind or tags), ("exchanges", role)) if wanted]
    if what in ("memories", "turns"):
        about = ["exchanges" if what == "turns" else "memories"]
    return {
        "what": about or ["exchanges", "memories"],
        "kinds": [kind] if kind else None,
        "roles": [role] if role else None,
        "tags": tags or None,
        "project": chosen.get("project"),
        "author": chosen.get("author"),
        "session_id": request.eng.sessions.resolve(session) if session else None,
        "since": chosen.get("since"),
        "until": end_of_day(chosen.get("until")),
        "include_archived": request.flag("archived"),
        "note": False,
    }


def _results(request: PageRequest, query: str, found: _Found) -> Html:
    if found.problem is not None:
        return tag("p", visible(found.problem.message), class_="problem", role="alert")
    # Recall puts a text that stands there already behind all others.
    every = _once(found.hits)
    once = [each for each in every if each[0].score >= UNLIKELY]
    rarely = every[len(once) :]
    context = _context(request, found.hits)
    note = None
    if found.limited is not None:
        note = tag("p", icon("warning"), tag("span", "Found by words only. ", visible(found.limited)), class_="limited")
    count = tag("p", plural(len(once), "result") if once else "", class_="quiet small", role="status")
    shown = (
        tag("ol", *(_hit(request, query, each, context) for each in once), class_="hits") if once else _nothing(query)
    )
    more = None
    number = len(found.hits)
    if not rarely and request.whole("k", _FIRST, most=_MOST) <= number < _MOST:
        further = min(number + _FIRST, _MOST)
        more = tag("p", tag("a", "More results", href=request.here("search", k=further), class_="button second"))
    rest = None
    if rarely:
        rest = folded(
            plural(len(rarely), "unlikely result"),
            tag("ol", *(_hit(request, query, each, context) for each in rarely), class_="hits"),
            class_="unlikely",
        )
    return together(note, count, shown, more, rest)


def _once(hits: list[Hit]) -> list[list[Hit]]:
    """The hits in their order, turns that say the same together."""
    found: dict[object, list[Hit]] = {}
    for hit in hits:
        text = " ".join((hit.whole or hit.text).casefold().split())
        found.setdefault(text if hit.memory_id is None else hit.memory_id, []).append(hit)
    return list(found.values())


def _nothing(query: str) -> Html:
    return tag(
        "div",
        tag("p", tag("strong", "No likely result.")),
        tag(
            "p",
            "Try other words or fewer filters. Log entries are found only with the role log, archived memories only on "
            "request.",
        ),
        class_="empty card",
    )


def _sessions(request: PageRequest, hits: list[Hit]) -> dict[str, Session]:
    """The sessions of the hits. One that was forgotten meanwhile is missing."""
    return request.eng.sessions.some(dict.fromkeys(hit.session_id for hit in hits if hit.session_id))


class _Context(NamedTuple):
    """What the hits refer to, read at once for all of them. What was forgotten meanwhile is missing."""

    #: The names of the sessions.
    names: Mapping[str, str]
    #: The turns that replace hits.
    turns: Mapping[int, Exchange]


def _context(request: PageRequest, hits: list[Hit]) -> _Context:
    replacing = [hit.replaced_by[1] for hit in hits if hit.replaced_by and hit.replaced_by[0] != "memory"]
    turns = request.eng.exchanges.some(replacing) if replacing else {}
    return _Context(titles(request, _sessions(request, hits).values()), turns)


def _hit(request: PageRequest, query: str, hits: list[Hit], context: _Context) -> Html:
    """A hit, and where else the same was said."""
    hit, *others = hits
    address = _address(request, hit)
    is_memory = hit.memory_id is not None
    label = f"{hit.label} memory" if is_memory and hit.label not in ("gist", "era", "digest") else hit.label
    kind = badge(label, "accent" if is_memory else "plain")
    text = _passage(hit, hit.text)
    title = task(context.names.get(hit.session_id or "", ""), 140) or None
    source = row(
        kind,
        agent(hit.source) if hit.source else None,
        tag("span", "in", session_link(request, hit.session_id, title), class_="of") if hit.session_id else None,
        project(request, hit.project),
        tag("span", f"by {one_line(hit.author, 60)}", class_="quiet small") if hit.author else None,
        when(hit.created_at, request.now),
        _also(request, others) if others else None,
        class_="source",
    )
    gone = {"memory": hit.memory_id} if is_memory else {"exchange": hit.exchange_id}
    actions = row(
        tag("a", "Open", href=address, class_="button second small"),
        forget(request, gone),
        class_="actions",
    )
    why = tag("details", tag("summary", found_by(hit, query)), parts_of(hit, query), class_="why")
    return tag(
        "li",
        tag("div", _score(hit.score), class_="score"),
        tag(
            "div",
            tag("a", tag("p", text, class_="passage"), href=address, class_="open"),
            _replaced(request, hit, context.turns),
            _answer(request, hit),
            source,
            row(why, tag("span", class_="spacer"), actions),
            class_="found",
        ),
        class_="card hit" + (" replaced" if hit.replaced_by else ""),
        data_item=True,
    )


def _also(request: PageRequest, others: list[Hit]) -> Html:
    links = [
        together(", " if number else "", tag("a", hit.created_at[:10], href=_address(request, hit)))
        for number, hit in enumerate(others[:_OTHERS])
    ]
    more = f" and {len(others) - _OTHERS} more" if len(others) > _OTHERS else None
    return tag("span", f"said {len(others) + 1} times, also on ", *links, more, class_="quiet small")


def _passage(hit: Hit, text: str) -> Html:
    """A passage without empty lines and Markdown's marks, its found words marked."""
    stems = hit.why["matched"]
    # A sentence before what is left out has its own end.
    shown = f"{text[:-1]} …" if text.endswith((".…", "!…", "?…")) else text
    return marked(lines(shown), stems if isinstance(stems, list) else ())


def _address(request: PageRequest, hit: Hit) -> str:
    if hit.memory_id is not None:
        return request.link("memories", hit.memory_id)
    return turn_address(request, str(hit.session_id), int(hit.exchange_id or 0))


def _score(score: float) -> Html:
    """A chance as a number and a bar."""
    percent = f"{score * 100:.0f}%"
    bar = tag(
        "svg",
        tag("rect", class_="back", width="48", height="4", rx="2"),
        tag("rect", class_="fill good", width=f"{score * 48:.1f}", height="4", rx="2"),
        viewBox="0 0 48 4",
        aria_hidden="true",
    )
    return tag("span", tag("strong", percent), bar, title=f"The chance that this is about your question: {score:.2f}")


def _replaced(request: PageRequest, hit: Hit, turns: Mapping[int, Exchange]) -> Html | None:
    if hit.replaced_by is None:
        return None
    kind, id = hit.replaced_by
    link: Html | None = None
    if kind == "memory":
        link = memory_link(request, id)
    elif id in turns:
        link = tag("a", "a later turn", href=turn_address(request, turns[id].session_id, id))
    else:
        return None
    return tag("p", icon("right"), tag("span", "No longer holds: replaced by ", link), class_="replaced-by")


def _answer(request: PageRequest, hit: Hit) -> Html | None:
    if hit.answer is None or hit.session_id is None:
        return None
    text = tag("p", _passage(hit, hit.answer.text), class_="passage")
    turns = hit.answer.exchange_ids
    address = turn_address(request, hit.session_id, turns[0]) if turns else None
    head = tag("a", "Answer", href=address) if address else tag("span", "Answer")
    return tag("div", tag("p", head, class_="answer-head"), text, class_="hit-answer")
