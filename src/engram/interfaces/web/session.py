"""One session, which reads like a conversation: what came of it on top, then what was said and done."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ... import gist_text
from ...clock import between, duration
from ...errors import NotFound
from ...safe_text import one_line, visible
from ..http.html import Html, tag, together
from . import messages
from .conversation import conversation
from .frame import Page
from .icons import icon
from .markdown import markdown
from .names import forgotten, memory_line, named, plain, says_the_same, task, title, titles_of
from .parts import (
    agent,
    at_work,
    badge,
    button,
    card,
    clock,
    day_and_clock,
    definition,
    empty,
    field,
    folded,
    forget,
    form,
    memory_link,
    pager,
    plural,
    project,
    row,
    session_link,
    when,
)

if TYPE_CHECKING:
    from ...records import Exchange, Memory, Message, Session
    from .request import PageRequest

#: Turns and log entries on one page, and those that stand before the turn that was asked for.
_PAGE, _BEFORE = 80, 15
_MEMORIES, _CHILDREN, _LEASES, _MESSAGES = 20, 20, 20, 12
_HIGHEST_SEQ = 10**12
#: Share of common words from which on two texts say the same.
_SAME = 0.7
_STATES = {"idle": "not begun", "completed": "completed", "abandoned": "abandoned"}


class _Part(NamedTuple):
    """The part of a session that a page shows."""

    entries: list[Exchange]
    has_earlier: bool
    has_later: bool
    #: The turn that was asked for.
    wanted: int | None = None


def page(request: PageRequest) -> Page:
    eng = request.eng
    session = eng.sessions.get(eng.sessions.resolve(request.path["id"]))
    part = _part(request, session)
    gist = eng.memories.gist(session.id)
    told = gist_text.parse(gist.content) if gist else gist_text.GistText()
    heading = title(session, gist.content if gist else None) or "A session without a task"
    # What is said reaches an open page at once. A session that has ended may lose turns.
    live = "exchange session lease" if session.status in ("active", "idle") else "exchange session"
    side = together(
        _about(request, session),
        _memories(request, session),
        _children(request, session),
        _leases(request, session),
        _messages(request, session),
        _message(request, session),
    )
    body = tag(
        "div",
        _summary(request, session, told, gist),
        tag("div", side, class_="stack side"),
        tag("section", _talk(request, session, part), id="talk", data_live=live, class_="talk"),
        class_="session-page",
    )
    beside = row(
        tag("a", "Search in it", href=request.link("search", session=session.id), class_="button second small"),
        tag("a", "Graph", href=request.link("graph", kind="session", id=session.id), class_="button second small"),
        forget(
            request,
            {"of_session": session.id},
            then=request.link("search"),
            text="Forget the session",
            turns=session.turns,
        ),
    )
    return Page("search", heading, body, title=one_line(heading, 60), beside=beside, live="memory session")


def _part(request: PageRequest, session: Session) -> _Part:
    """Turns and log entries: around one of them, after or before one, from the beginning, or at the end."""
    read, id = request.eng.exchanges.history, session.id
    around = request.whole("around", 0, most=_HIGHEST_SEQ)
    after = request.whole("after", 0, most=_HIGHEST_SEQ)
    before = request.whole("before", 0, most=_HIGHEST_SEQ)
    if around:
        turn = request.eng.exchanges.get(around)
        if turn.session_id != id:
            raise NotFound(f"Exchange {around} is in another session: {turn.session_id}.")
        first = read(id, _BEFORE + 1, before=turn.seq, logs=True) if turn.seq > 1 else []
        rest = read(id, _PAGE - _BEFORE + 1, after=turn.seq - 1, logs=True)
        return _Part(
            [*first[-_BEFORE:], *rest[: _PAGE - _BEFORE]],
            len(first) > _BEFORE,
            len(rest) > _PAGE - _BEFORE,
            around,
        )
    is_end = request.flag("end") or (session.status == "active" and not request.flag("begin"))
    if before or (is_end and not after):
        found = read(id, _PAGE + 1, before=before or _HIGHEST_SEQ, logs=True)
        return _Part(found[-_PAGE:], len(found) > _PAGE, bool(before))
    found = read(id, _PAGE + 1, after=after, logs=True)
    return _Part(found[:_PAGE], bool(after), len(found) > _PAGE)


def _talk(request: PageRequest, session: Session, part: _Part) -> Html:
    if not part.entries:
        more = empty(
            "Nothing was said here yet. The hooks record what is said to the agent, and what it does; by hand:",
            request.typed(f'session log {visible(session.id)} "router done"'),
        )
        return card(more, title="Conversation")
    first, last = part.entries[0].seq, part.entries[-1].seq
    # The part of the page that changes, not what came of the session.
    earlier = f"{request.link('sessions', session.id, before=first)}#talk" if part.has_earlier else None
    later = f"{request.link('sessions', session.id, after=last)}#talk" if part.has_later else None
    head = tag("h2", "Conversation", tag("span", plural(session.turns, "turn"), class_="quiet"), class_="section-head")
    ends = row(
        tag("a", "To the beginning", href=request.link("sessions", session.id, begin=1)) if part.has_earlier else None,
        tag("a", "To the end", href=request.link("sessions", session.id, end=1)) if part.has_later else None,
        class_="small",
    )
    names = ("Earlier", "Later")
    return together(
        tag("header", head, ends, class_="row apart"),
        pager(earlier, None, names=names),
        conversation(request, part.entries, part.wanted),
        pager(None, later, names=names),
    )


def _summary(request: PageRequest, session: Session, told: gist_text.GistText, gist: Memory | None) -> Html | None:
    # The gist knows the whole session. What the session says itself may be only its last words.
    outcome = told.outcome or session.outcome
    more = session.outcome if told.outcome and not _repeats(session.outcome, outcome) else ""
    open_points = [tag("li", one_line(each, 400)) for each in told.open[:12]]
    parts = [
        tag("div", tag("h3", "Outcome"), markdown(outcome), class_="part good-part") if outcome else None,
        tag("div", tag("h3", "At its end"), markdown(more), class_="part") if more else None,
        tag("div", tag("h3", "Open"), tag("ul", *open_points), class_="part open-part") if open_points else None,
        tag("div", tag("h3", "Asked"), tag("p", task(session.summary, 600)), class_="part")
        if session.summary and told.title and not _repeats(session.summary, told.title)
        else None,
    ]
    story = folded("The story", markdown(told.story), class_="story") if told.story.strip() else None
    if not any(parts) and story is None:
        if session.status == "active":
            return None
        if gist and not gist.content:
            nothing = tag("p", _gone(request, gist), class_="quiet")
            return card(nothing, class_="gist", id="gist", data_live="memory session")
        nothing = empty("Nothing is known about what came of it. Dreaming writes a gist:", request.typed("dream"))
        return card(nothing, id="gist", data_live="memory session")
    link = None
    if gist:
        origin = together("From the gist, ", memory_link(request, gist.id)) if gist.content else _gone(request, gist)
        link = row(tag("span", origin, class_="quiet small"))
    return card(*parts, story, link, class_="gist", id="gist", data_live="memory session")


def _gone(request: PageRequest, gist: Memory) -> Html:
    return together("Its gist is ", memory_link(request, gist.id), ". ", forgotten(request, gist.id))


def _span(session: Session) -> Html:
    """From when to when, and how long."""
    began, ended = session.created_at, session.ended_at
    if ended is None:
        since = "since " if session.status == "active" else None
        return tag("span", since, day_and_clock(began), class_="quiet small")
    last = clock(ended) if ended[:10] == began[:10] else day_and_clock(ended)
    length = f"({duration(between(began, ended))})"
    return tag("span", day_and_clock(began), " – ", last, f" {length}", class_="quiet small")


def _state(session: Session) -> Html:
    if session.status == "active":
        return at_work(session)
    return badge(_STATES.get(session.status, session.status), "bad" if session.status == "abandoned" else "plain")


def _about(request: PageRequest, session: Session) -> Html:
    parent = (
        named(request, session.parent_id, titles_of(request, [session.parent_id]), 80) if session.parent_id else None
    )
    pairs = [
        ("Agent", agent(session.type)),
        ("Status", _state(session)),
        ("Project", project(request, session.project)),
        ("Name", visible(session.name) if session.name else None),
        ("When (UTC)", _span(session)),
        ("Last seen", when(session.heartbeat_at, request.now) if session.status == "active" else None),
        ("Author", visible(session.author) if session.author else None),
        ("Started by", parent),
        ("Id", tag("code", visible(session.id))),
    ]
    return card(definition(pairs), title="Session", id="about", data_live="session")


def _memories(request: PageRequest, session: Session) -> Html | None:
    found = request.eng.memories.of_session(session.id, _MEMORIES + 1)
    if not found:
        return None
    shown = [
        tag(
            "li",
            memory_link(request, each.id, memory_line(each.kind, each.content, 140)),
            row(badge(each.kind, "accent"), None if each.status == "active" else badge(each.status)),
        )
        for each in found[:_MEMORIES]
    ]
    if len(found) > _MEMORIES:
        graph = request.link("graph", kind="session", id=session.id)
        shown.append(tag("li", tag("a", "More of them are in the graph", href=graph)))
    return card(tag("ul", *shown, class_="side-list"), title="Memories from it", id="memories", data_live="memory")


def _children(request: PageRequest, session: Session) -> Html | None:
    found = request.eng.sessions.children(session.id, _CHILDREN + 1)
    if not found:
        return None
    shown = [
        tag(
            "li",
            session_link(request, each.id, task(each.summary, 120) or "(no task yet)"),
            row(agent(each.type), _state(each), when(each.created_at, request.now)),
        )
        for each in found[:_CHILDREN]
    ]
    if len(found) > _CHILDREN:
        shown.append(tag("li", f"and more; these are the latest {_CHILDREN}", class_="quiet"))
    return card(tag("ul", *shown, class_="side-list"), title="Subagents", id="children", data_live="session")


def _leases(request: PageRequest, session: Session) -> Html | None:
    if session.status != "active":
        return None
    held = request.eng.leases.list(session.id)
    if not held:
        return None
    shown = [
        tag(
            "li",
            row(
                icon("lock" if each.exclusive else "file"),
                tag("code", visible(each.resource.removeprefix(f"{session.project}:"))),
            ),
            tag("span", one_line(each.note, 100), class_="quiet small") if each.note else None,
        )
        for each in held[:_LEASES]
    ]
    if len(held) > _LEASES:
        shown.append(tag("li", f"and {len(held) - _LEASES} more", class_="quiet"))
    return card(tag("ul", *shown, class_="side-list"), title="Claims", id="claims", data_live="lease")


def _messages(request: PageRequest, session: Session) -> Html | None:
    """What it sent and was sent, the newest first."""
    found = request.eng.messages.list(_MESSAGES + 1, session_id=session.id)
    if not found:
        return None
    names = titles_of(request, [id for each in found for id in (each.from_session, each.to)])
    shown = [
        tag(
            "li",
            tag("div", *_way(request, session, each, names), class_="quiet small"),
            tag("div", messages.text(each), class_="message-text"),
        )
        for each in found[:_MESSAGES]
    ]
    if len(found) > _MESSAGES:
        shown.append(tag("li", f"and earlier ones; these are the latest {_MESSAGES}", class_="quiet"))
    return card(tag("ul", *shown, class_="side-list"), title="Messages", id="messages", data_live="message")


def _way(request: PageRequest, session: Session, message: Message, names: dict[str, str]) -> tuple[Html | str, ...]:
    """From whom to whom, seen from this session."""
    at = when(message.created_at, request.now)
    if message.from_session == session.id:
        return "to ", messages.recipient(request, message, names), ", ", at
    if message.from_session is None:
        return f"from {one_line(message.author or 'you', 60)}, ", at
    return "from ", named(request, message.from_session, names), ", ", at


def _message(request: PageRequest, session: Session) -> Html | None:
    if session.status != "active" or not request.may("write"):
        return None
    return card(
        form(
            "library:messages.send",
            field("Message", "text", long=True, required=True, rows="3", key="session"),
            row(button("Send", picture="message")),
            values={"from_session": None, "to": session.id},
            class_="stack",
            done="Sent.",
        ),
        title="Write to this agent",
    )


def _repeats(text: str, other: str) -> bool:
    """Whether the text says what the other one says: the same, or mostly in the same words."""
    if not text.strip() or says_the_same(text, other) or text.split()[:4] == other.split()[:4]:
        return True
    words, others = set(plain(text, 2_000).split()), set(plain(other, 2_000).split())
    return len(words & others) > _SAME * min(len(words), len(others))
