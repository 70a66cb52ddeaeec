"""Now: who is doing what, and does anybody need me?"""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from ...closing_question import closing_question
from ...errors import NotFound
from ...harness_commands import CONTROLS
from ...records import PERSON, WORLD
from ...safe_text import one_line, visible
from ...wording import command
from ..http.html import Html, tag, together
from . import messages
from .frame import Page
from .icons import icon
from .markdown import markdown
from .names import named, plain, says_the_same, task, titles, titles_of
from .parts import (
    action,
    agent,
    at_work,
    badge,
    button,
    card,
    choice,
    empty,
    field,
    folded,
    form,
    live,
    opener,
    plural,
    project,
    row,
    session_link,
    short_id,
    turn_address,
    when,
)

if TYPE_CHECKING:
    from ...records import Exchange, Holder, Lease, LogEntry, Message, Session
    from .request import PageRequest

#: Sessions that are shown as cards. The others are counted, and the timeline has them.
_MOST_CARDS = 24
#: Sessions at work whose last turn is read, the latest heartbeat first: it may be a question to the person.
_MOST_ASKED = 40
#: Messages of a session among which the answer to its question is looked for.
_ANSWERS = 20
_LOGS = 3
_EARLIER = 12
#: Unread messages that are shown at once, the oldest first.
_UNREAD = 20
_FEED = 14


class _Question(NamedTuple):
    """What an agent asked at the end of its turn. It goes on when the person answers."""

    text: str
    turn: int
    asked_at: str
    #: When the person wrote to the session since; None if that has not happened.
    answered_at: str | None


class _Work(NamedTuple):
    """One session at work, with what its card shows."""

    session: Session
    #: Its claims and those of its subagents.
    leases: list[Lease]
    logs: list[LogEntry]
    #: Its subagents at work, and theirs.
    children: list[Session]
    #: Claims that overlap, each with the claim of the session or of its subagent.
    clashes: list[tuple[Holder, Holder]]
    question: _Question | None

    @property
    def waits(self) -> bool:
        """Whether it goes on only when the person answers."""
        return self.question is not None and self.question.answered_at is None


def page(request: PageRequest) -> Page:
    everyone = request.eng.sessions.active()
    leases = request.eng.leases.list()
    said = request.eng.messages.list(_EARLIER * 2)
    work = _at_work(request, everyone, leases)
    known = {each.id: each for each in everyone}
    names = titles(request, everyone)
    waiting = sum(each.waits for each in work)
    left = together(
        _messages(request, said, known, names, waiting), _sessions(request, work, len(everyone), names, waiting)
    )
    right = together(_world(request), _leases(request, leases, known, names), _feed(request))
    body = tag("div", tag("div", left, class_="stack"), tag("div", right, class_="stack"), class_="now")
    return Page("now", "Who is doing what, and does anybody need me?", body)


def _at_work(request: PageRequest, everyone: list[Session], leases: list[Lease]) -> list[_Work]:
    """The sessions that get a card: those in conflict first, then those that wait for the person, then the latest."""
    eng = request.eng
    # Work of a subagent stands on the card of the session that it works for.
    parents = {each.id: each.parent_id for each in everyone}
    held: dict[str, list[Lease]] = defaultdict(list)
    for lease in leases:
        held[_first(lease.session_id, parents)].append(lease)
    children: dict[str, list[Session]] = defaultdict(list)
    for each in everyone:
        if (first := _first(each.id, parents)) != each.id:
            children[first].append(each)
    clashes: dict[str, list[tuple[Holder, Holder]]] = defaultdict(list)
    for one, other in eng.leases.overlaps():
        mine, theirs = _first(one.session_id, parents), _first(other.session_id, parents)
        clashes[mine].append((one, other))
        if theirs != mine:
            clashes[theirs].append((other, one))
    shown = [each for each in everyone if _first(each.id, parents) == each.id]
    asked = _asked(request, shown)
    waiting = {id for id, question in asked.items() if question.answered_at is None}
    shown.sort(key=lambda each: (each.id not in clashes, each.id not in waiting, each.stale))
    return [
        _Work(
            each,
            held[each.id],
            eng.sessions.logs(each.id, _LOGS),
            children[each.id],
            clashes[each.id],
            asked.get(each.id),
        )
        for each in shown[:_MOST_CARDS]
    ]


def _asked(request: PageRequest, sessions: list[Session]) -> dict[str, _Question]:
    """The sessions whose last turn is the agent's and ends with a question, with that question."""
    found: dict[str, _Question] = {}
    for session in sorted(sessions, key=lambda each: each.heartbeat_at, reverse=True)[:_MOST_ASKED]:
        if not session.turns:
            continue
        try:
            # A step after the question means that the agent is at work again.
            last = request.eng.exchanges.recent(session.id, 1, logs=True)
            for turn in last:
                asked = closing_question(turn.content) if turn.role == "assistant" else ""
                if asked:
                    at = _answered(request, session.id, turn.created_at)
                    found[session.id] = _Question(asked, turn.id, turn.created_at, at)
        except NotFound:  # forgotten meanwhile
            continue
    return found


def _answered(request: PageRequest, session: str, asked_at: str) -> str | None:
    """When a person wrote to a session after it had asked; None if nobody has."""
    latest = request.eng.messages.list(_ANSWERS, session_id=session)
    return next((each.created_at for each in latest if each.from_session is None and each.created_at > asked_at), None)


def _first(id: str, parents: dict[str, str | None]) -> str:
    """The session at work for which a session works: its parent's parent, and so on."""
    seen: set[str] = set()
    while id not in seen and (parent := parents.get(id)) and parent in parents:
        seen.add(id)
        id = parent
    return id


def _sessions(request: PageRequest, work: list[_Work], total: int, names: dict[str, str], waiting: int) -> Html:
    cards = [_session(request, each, names) for each in work]
    shown = (
        tag("ul", *cards, class_="sessions")
        if cards
        else card(
            empty(
                "No agent is at work. A session appears here when one starts with Engram's hooks, over MCP or by hand:",
                "engram install claude-code",
                request.typed('session start my-agent "Trying Engram"'),
            )
        )
    )
    counted = sum(1 + len(each.children) for each in work)
    more = tag("p", f"{total - counted} more are at work. The page Time lists all sessions.", class_="quiet")
    head = tag(
        "h2",
        "At work",
        tag("span", str(total), class_="quiet"),
        badge(f"{waiting} {'waits' if waiting == 1 else 'wait'} for you", "accent") if waiting else None,
        class_="section-head",
    )
    return live(
        head,
        shown,
        more if total > counted else None,
        id="sessions",
        on="session lease exchange message",
        class_="stack",
    )


def _session(request: PageRequest, work: _Work, names: dict[str, str]) -> Html:
    session, now = work.session, request.now
    # A session that waits sends no heartbeats: that it is silent is no news.
    state = badge("waits for you", "accent") if work.waits else at_work(session)
    head = row(agent(session.type), state, project(request, session.project), when(session.heartbeat_at, now))
    title = tag("h3", session_link(request, session.id, names.get(session.id) or "(no task yet)"))
    conflict = [_conflict(request, session, mine, other, names) for mine, other in work.clashes[:3]]
    claims = [
        tag(
            "li",
            icon("lock" if each.exclusive else "file"),
            tag(
                "span",
                tag("code", _within(each.resource, session.project)),
                tag("span", f" {one_line(each.note, 80)}", class_="quiet") if each.note else None,
                tag("span", " by ", named(request, each.session_id, names, 70), class_="quiet")
                if each.session_id != session.id
                else None,
            ),
        )
        for each in work.leases[:6]
    ]
    if len(work.leases) > 6:
        claims.append(tag("li", f"and {len(work.leases) - 6} more", class_="quiet"))
    logs = [tag("li", tag("span", plain(each.content, 140)), when(each.created_at, now)) for each in work.logs]
    children = [
        tag(
            "li",
            agent(each.type),
            session_link(request, each.id, task(each.summary, 90) or "(no task yet)"),
            when(each.heartbeat_at, now),
        )
        for each in work.children[:5]
    ]
    if len(work.children) > 5:
        children.append(tag("li", f"and {len(work.children) - 5} more", class_="quiet"))
    return tag(
        "li",
        head,
        title,
        _question(request, session, work.question) if work.question else None,
        *conflict,
        tag("ul", *claims, class_="claims", aria_label="Claimed") if claims else None,
        tag("ul", *children, class_="children", aria_label="Subagents") if children else None,
        tag("ul", *logs, class_="logs", aria_label="Last steps") if logs else None,
        class_="card session"
        + (" conflict" if work.clashes else " waits" if work.waits else "")
        + (" stale" if session.stale and not work.waits else ""),
        data_item=True,
    )


def _question(request: PageRequest, session: Session, question: _Question) -> Html:
    """What the agent asked, with a field to answer."""
    address = turn_address(request, session.id, question.turn)
    asked = tag("p", tag("a", one_line(question.text, 400), href=address), class_="question")
    if question.answered_at:
        note = tag("span", "You wrote to it ", when(question.answered_at, request.now), class_="quiet small")
        return tag("div", asked, note, class_="asks")
    return tag("div", asked, _reply(session.id) if request.may("write") else None, class_="asks")


def _within(resource: str, project: str | None) -> str:
    """A resource as the session knows it: without the name of its own project."""
    return visible(resource.removeprefix(f"{project}:") if project else resource)


def _holder(request: PageRequest, id: str, type: str, names: dict[str, str]) -> Html:
    return session_link(request, id, task(names.get(id, ""), 70) or f"{type} {short_id(id)}")


def _conflict(request: PageRequest, session: Session, mine: Holder, other: Holder, names: dict[str, str]) -> Html:
    subagent = None
    if mine.session_id != session.id:
        subagent = together(_holder(request, mine.session_id, mine.session_type, names), " and ")
    return tag(
        "p",
        icon("warning"),
        tag(
            "span",
            "Claimed by " if subagent else "Also claimed by ",
            subagent,
            _holder(request, other.session_id, other.session_type, names),
            ": ",
            tag("code", _within(other.resource, session.project)),
        ),
        class_="clash",
    )


def _messages(
    request: PageRequest, said: list[Message], known: dict[str, Session], names: dict[str, str], waiting: int
) -> Html:
    unread = request.eng.messages.inbox(PERSON, peek=True)
    new = {each.id for each in unread}
    earlier = [each for each in said if each.id not in new][:_EARLIER]
    shown = [_message(request, each, known, names, is_unread=True) for each in unread[:_UNREAD]]
    if len(unread) > _UNREAD:
        shown.append(tag("li", f"{len(unread) - _UNREAD} more follow when you have read these.", class_="quiet"))
    old = [_message(request, each, known, names, is_unread=False) for each in earlier]
    agents = "1 agent waits" if waiting == 1 else f"{waiting} agents wait"
    needs = [
        f"{plural(len(unread), 'message')} for you" if unread else None,
        f"{agents} for your answer" if waiting else None,
    ]
    title = ", ".join(filter(None, needs)) or "Messages"
    write = _write(list(known.values()), names) if request.may("write") else None
    nothing = None if unread or waiting else tag("p", "Nobody is waiting for you.", class_="quiet")
    body = together(
        nothing,
        tag("ul", *shown, class_="messages") if shown else None,
        folded("Earlier messages", tag("ul", *old, class_="messages"), class_="earlier", open=False) if old else None,
        write,
    )
    return card(
        body,
        title=title,
        id="messages",
        data_live="message session exchange",
        class_="needs-you" if unread or waiting else None,
    )


def _message(
    request: PageRequest, message: Message, known: dict[str, Session], names: dict[str, str], *, is_unread: bool
) -> Html:
    if message.from_session is None:
        sender: Html = tag("strong", message.author or "You")
    else:
        sending = known.get(message.from_session)
        sender = row(
            agent(sending.type) if sending else None,
            named(request, message.from_session, names, 70),
        )
    to = None
    if message.to != PERSON:
        to = tag("span", "to ", messages.recipient(request, message, names), class_="quiet")
    text = tag("div", messages.text(message), class_="message-text")
    answer = None
    if is_unread and request.may("write"):
        read = action("library:messages.read_by_person", "Mark as read", {"ids": [message.id]}, picture="approve")
        answer = tag(
            "div", _reply(message.from_session, message) if message.from_session else None, read, class_="answer"
        )
    return tag(
        "li",
        row(sender, to, tag("span", class_="spacer"), when(message.created_at, request.now)),
        text,
        answer,
        data_item=True,
    )


def _reply(to: str, message: Message | None = None) -> Html:
    """A field to write to a session; a message that this answers is then read."""
    text = tag(
        "input", type="text", name="text", required=True, aria_label="Reply", placeholder="Reply…", autocomplete="off"
    )
    return form(
        "library:messages.send",
        text,
        button("Send", class_="small"),
        values={"from_session": None, "to": to},
        class_="reply",
        done="Sent.",
        also=("library:messages.read_by_person", {"ids": [message.id]}) if message else None,
    )


def _write(everyone: list[Session], names: dict[str, str]) -> Html | None:
    if not everyone:
        return None
    options = {"*": "every agent at work"}
    for each in everyone[:50]:
        options[each.id] = f"{each.type}: {task(names[each.id], 60) or short_id(each.id)}"
    fields = form(
        "library:messages.send",
        choice("To", "to", options, "*", key="message"),
        field("Message", "text", required=True, key="message", autocomplete="off"),
        row(button("Send")),
        values={"from_session": None},
        class_="stack",
        done="Sent.",
    )
    return folded("Write to your agents", fields, class_="write", id="write")


def _world(request: PageRequest) -> Html:
    block = request.eng.blocks.get(WORLD)
    content = block.content if block else ""
    version = block.version if block else 0
    by = None
    if block:
        author: Html | str = one_line(block.author or "a person", 60)
        if not block.author and block.updated_by:
            author = named(request, block.updated_by, titles_of(request, [block.updated_by]))
        by = row(
            tag("span", f"version {version} by ", author, class_="quiet small"), when(block.updated_at, request.now)
        )
    shown = (
        markdown(content)
        if content
        else empty("What every agent should know right now: the goal, what is decided, what is broken.")
    )
    edit = edit_button = None
    if request.may("write"):
        edit_button = opener("Edit", "world-edit")
        edit = form(
            "block.update",
            field("World state", "content", content, long=True, rows="10", key="world", data_keep=True),
            field("Reason", "reason", key="world", placeholder="What changed (optional)"),
            row(button("Store"), tag("button", "Cancel", type="button", class_="second", data_shows="world-edit")),
            values={"name": WORLD, "expected_version": version},
            class_="stack",
            id="world-edit",
            hidden=True,
            data_conflict=WORLD,
            done="Stored.",
        )
    history = tag("a", "History", href=request.link("blocks", WORLD)) if block else None
    beside = row(history, edit_button)
    return card(
        tag("div", shown, by, class_="stack", data_shown_without="world-edit"),
        edit,
        title="World state",
        beside=beside,
        id="world",
        data_live="block",
    )


def _leases(request: PageRequest, leases: list[Lease], known: dict[str, Session], names: dict[str, str]) -> Html:
    shown = [_lease(request, each, known.get(each.session_id), names) for each in leases[:30]]
    more = tag("p", f"and {len(leases) - 30} more", class_="quiet") if len(leases) > 30 else None
    body = (
        tag("ul", *shown, class_="leases")
        if shown
        else empty(
            "Nothing is claimed. Agents claim files before they change them:",
            request.typed("lock claim src/router.py"),
        )
    )
    return card(body, more, title="Claims", id="leases", data_live="lease session")


def _lease(request: PageRequest, lease: Lease, session: Session | None, names: dict[str, str]) -> Html:
    kind = badge("exclusive", "accent") if lease.exclusive else badge("advisory")
    who = named(request, lease.session_id, names)
    note = tag("p", one_line(lease.note, 120), class_="small") if lease.note else None
    take = reason = None
    if request.may("admin"):
        name = f"break-{lease.token}"
        take = opener("Break", name, picture=None)
        reason = form(
            "library:leases.break_lease",
            tag(
                "input",
                type="text",
                name="reason",
                required=True,
                aria_label="Reason",
                placeholder="Why? The session reads it.",
                autocomplete="off",
            ),
            button("Break the claim", class_="small danger"),
            # The token names this claim: others may overlap it, and their sessions keep theirs.
            values={"resource": lease.resource, "by": None, "token": lease.token},
            class_="reply",
            id=name,
            hidden=True,
            done="The claim is broken.",
        )
    head = row(tag("code", _within(lease.resource, session.project if session else None)), kind)
    by = row(tag("span", who, class_="small"), when(lease.claimed_at, request.now))
    return tag("li", tag("div", tag("div", head, note, by), take, class_="lease"), reason, data_item=True)


def _feed(request: PageRequest) -> Html:
    latest = request.eng.exchanges.timeline(limit=2 * _FEED)
    # What a person tells the harness, such as /exit, is not about the work.
    turns = [each for each in latest if command(each.content)[0] not in CONTROLS][:_FEED]
    names = titles_of(request, [each.session_id for each in turns])
    shown = [_talk(request, id, list(said), names) for id, said in groupby(turns, key=lambda each: each.session_id)]
    body = tag("ol", *shown, class_="feed") if shown else empty("What is said to the agents appears here at once.")
    return card(body, title="Live", id="feed", data_live="exchange session")


def _talk(request: PageRequest, session: str, turns: list[Exchange], names: dict[str, str]) -> Html:
    """What was said in one session, without another in between, the latest first."""
    said = [
        tag(
            "li",
            row(badge(turn.role, "accent" if turn.role == "user" else "plain"), when(turn.created_at, request.now)),
            _words(turn, names.get(session, "")),
        )
        for turn in turns
    ]
    return tag("li", tag("h3", named(request, session, names, 70)), tag("ol", *said))


def _words(turn: Exchange, name: str) -> Html:
    """The text of a turn. One that named its session stands above already."""
    text = task(turn.content, 180) if turn.role == "user" else plain(turn.content, 180)
    named_it = turn.role == "user" and says_the_same(text, name)
    return tag("p", "asked this", class_="quiet") if named_it else tag("p", text)
