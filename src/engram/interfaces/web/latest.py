"""What the page Search shows without a question: what one could ask, and what came last, as far as the filters fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...errors import EngramError
from ...safe_text import one_line, visible
from ..http.html import Html, tag, together
from .names import PASTED, memory_line, titles
from .parts import agent, badge, card, empty, memory_link, project, row, session_link, typed_list, when

if TYPE_CHECKING:
    from ...records import Memory, Session
    from .request import PageRequest

_SHOWN = 8
#: Memories that are read to find some that are no gists, and sessions that are read to find the latest at work.
_READ = 100
#: Examples of what to ask: names of earlier sessions, which have an answer here. In words.
_EXAMPLES, _FEWEST_WORDS, _MOST_WORDS = 4, 3, 9
#: Sessions whose names may be examples.
_NAMED = 24


def latest(request: PageRequest, chosen: Mapping[str, str]) -> Html:
    try:
        memories = _memories(request, chosen)
        sessions = _sessions(request, chosen)
    except EngramError as error:
        return tag("p", visible(error.message), class_="problem", role="alert")
    examples = [
        tag("li", tag("a", text, href=request.link("search", q=text, **chosen), class_="example"))
        for text in _examples(request, sessions or [])
    ]
    invite = tag(
        "div",
        tag("p", "Ask in your own words. Engram searches what was said, done and learnt, by words and by meaning."),
        tag("ul", *examples, class_="examples", aria_label="Examples") if examples else None,
        class_="invite",
    )
    where = f" in {one_line(chosen['project'], 60)}" if "project" in chosen else ""
    parts = []
    if memories is not None:
        parts.append(_shown_memories(request, memories, where))
    if sessions is not None:
        parts.append(_shown_sessions(request, sessions[:_SHOWN], where))
    return together(invite, tag("div", *parts, class_="columns"))


def _examples(request: PageRequest, sessions: list[Session]) -> list[str]:
    """Names of sessions that read like a question. Those of the sessions that the page shows anyway come last."""
    spoken = [each for each in (*sessions[_SHOWN:], *sessions[:_SHOWN]) if each.turns and each.summary][:_NAMED]
    names = dict.fromkeys(titles(request, spoken, 60).values())
    # A command, pasted output and a name that is cut are no questions.
    plain = [each for each in names if each[:1].isalnum() and not each.startswith(PASTED) and "…" not in each]
    return [each for each in plain if _FEWEST_WORDS <= len(each.split()) <= _MOST_WORDS][:_EXAMPLES]


def end_of_day(given: str | None) -> str | None:
    """The end of a day that a person names. A time stays as it is."""
    return f"{given}T23:59:59.999999Z" if given and len(given) == len("2026-11-15") else given


def _memories(request: PageRequest, chosen: Mapping[str, str]) -> list[Memory] | None:
    """The latest memories, or None if the filters are about turns."""
    if chosen.get("what") == "turns" or {"role", "session"} & chosen.keys():
        return None
    first_tag = next(iter(typed_list(chosen.get("tags", ""))), None)
    names: dict[str, Any] = {name: chosen.get(name) for name in ("kind", "project", "author", "since")}
    found = request.eng.memories.list(tag=first_tag, until=end_of_day(chosen.get("until")), limit=_READ, **names)
    # A gist stands beside its session already, unless it is asked for.
    shown = [each for each in found if names["kind"] or each.kind not in ("gist", "era", "digest")]
    # A pass may have learnt today what was said months ago.
    return sorted(shown, key=lambda each: each.said_at, reverse=True)[:_SHOWN]


def _sessions(request: PageRequest, chosen: Mapping[str, str]) -> list[Session] | None:
    """The latest sessions, more than are shown, or None if the filters are about memories."""
    if chosen.get("what") == "memories" or {"kind", "tags"} & chosen.keys():
        return None
    if "session" in chosen:
        return [request.eng.sessions.get(request.eng.sessions.resolve(chosen["session"]))]
    dates: dict[str, Any] = {"since": chosen.get("since"), "until": end_of_day(chosen.get("until"))}
    found = request.eng.sessions.list(_READ, subagents=False, project=chosen.get("project"), **dates)
    shown = [each for each in found if chosen.get("author") in (None, each.author)]
    return sorted(shown, key=lambda each: each.heartbeat_at, reverse=True)


def _shown_memories(request: PageRequest, memories: list[Memory], where: str) -> Html:
    shown = [
        tag(
            "li",
            memory_link(request, each.id, memory_line(each.kind, each.content, 180)),
            row(badge(each.kind, "accent"), project(request, each.project), when(each.said_at, request.now)),
            data_item=True,
        )
        for each in memories
    ]
    body = (
        tag("ul", *shown, class_="entries")
        if shown
        else tag(
            "div",
            empty(
                "No memory yet. Agents remember what is worth knowing, dreaming finds more, and you can add one:",
                request.typed('remember "Deploys never happen on Fridays" --kind preference'),
            ),
            class_="inset",
        )
    )
    return card(body, title=f"Latest memories{where}", class_="flush", id="latest-memories", data_live="memory")


def _shown_sessions(request: PageRequest, sessions: list[Session], where: str) -> Html:
    names = titles(request, sessions)
    shown = [
        tag(
            "li",
            session_link(request, each.id, names[each.id] or "(no task yet)"),
            row(agent(each.type), project(request, each.project), when(each.heartbeat_at, request.now)),
            data_item=True,
        )
        for each in sessions
    ]
    body = (
        tag("ul", *shown, class_="entries")
        if shown
        else tag(
            "div",
            empty("No session yet. Install the hooks of your agent:", "engram install claude-code"),
            class_="inset",
        )
    )
    return card(body, title=f"Latest sessions{where}", class_="flush", id="latest-sessions", data_live="session")
