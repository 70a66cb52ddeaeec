"""Time: what happened?"""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import date, timedelta
from typing import TYPE_CHECKING, NamedTuple

from ... import checks, gist_text
from ...errors import InvalidInput
from ...safe_text import one_line
from ..http.html import Html, tag, together
from .charts import LONG_SPAN, bars
from .frame import Page
from .markdown import markdown
from .names import dated_list, plain, says_the_same, title
from .parts import (
    agent,
    badge,
    card,
    choice,
    empty,
    folded,
    hue,
    memory_link,
    pager,
    plural,
    project,
    row,
    session_link,
    tabs,
)

if TYPE_CHECKING:
    from ...overview_records import Activity
    from ...records import Gist, Memory, Session
    from .request import PageRequest

#: Days of the chart.
_SPANS = {"30": "30 days", "90": "3 months", "365": "1 year"}
_WEEK = 7
#: Sessions on one page of the timeline.
_SESSIONS = 40
#: Colours of the chart. What is left is one series.
_SERIES = 6
#: The key of that series. No project and no agent has this name.
_OTHERS = "\n"
#: Turns of a session without a task, at most, to be counted and not listed.
_FEW_TURNS = 2
#: Lines of an era that are shown at once.
_ERA_LINES = 5
_NO_SESSION = "There is no session yet. They appear when agents work with Engram, or when you import their transcripts:"


class _Filter(NamedTuple):
    """Which sessions the page is about."""

    project: str
    type: str
    #: A day, `2026-11-15`; empty for all.
    day: str
    #: The first day of a week; empty for all. A day counts for more.
    week: str

    @property
    def days(self) -> tuple[str, str] | None:
        """The first day, and the first day after it; None for all."""
        first = self.day or self.week
        return (first, _later(first, 1 if self.day else _WEEK)) if first else None

    @property
    def is_set(self) -> bool:
        return any(self)


def page(request: PageRequest) -> Page:
    chosen = _Filter(request.text("project"), request.text("type"), _day(request, "day"), _day(request, "week"))
    span = _span(request, chosen)
    body = together(_chart(request, span, chosen), _filters(request, span.active, chosen), _timeline(request, chosen))
    return Page("time", "What happened?", body)


class _Span(NamedTuple):
    """The days of the chart, and what happened in them."""

    days: int
    #: The last of them.
    last: str
    active: list[Activity]


def _span(request: PageRequest, chosen: _Filter) -> _Span:
    """Unless the person chose a span, the first one with anything in it.

    A chosen day is always in it. One that is longer ago than the span stands in its middle.
    """
    given = request.text("days")
    today = request.now[:10]
    first = min(chosen.days[0], today) if chosen.days else today
    spans = [int(given)] if given in _SPANS else [int(each) for each in _SPANS]
    # Without a span of one's own, the shortest that reaches from the day to today.
    spans = [each for each in spans if _later(today, 1 - each) <= first] or spans[-1:]
    found = [_active(request, days, first) for days in spans[:1]]
    while not any(each.turns for each in found[-1].active) and len(found) < len(spans):
        found.append(_active(request, spans[len(found)], first))
    return found[-1] if any(each.turns for each in found[-1].active) else found[0]


def _active(request: PageRequest, days: int, first: str) -> _Span:
    """A span that ends today, or one with the day in its middle if it would not reach that far back."""
    today = request.now[:10]
    last = today if _later(today, 1 - days) <= first else min(_later(first, days // 2), today)
    return _Span(days, last, request.eng.activity(days, None if last == today else f"{last}T23:59:59Z"))


def _day(request: PageRequest, name: str) -> str:
    """A day of the address; empty if there is none."""
    given = request.text(name)
    if not given:
        return ""
    try:
        return date.fromisoformat(given).isoformat()
    except ValueError:
        raise InvalidInput(f"{given[:40]!r} is not a day. Choose one in the calendar.") from None


def _later(day: str, days: int) -> str:
    """A day after or before another one, within the days that there are."""
    first = date.fromisoformat(day).toordinal()
    return date.fromordinal(min(max(first + days, 1), date.max.toordinal())).isoformat()


def _week_of(day: str) -> str:
    """The Monday before the day, or the day itself."""
    return _later(day, -date.fromisoformat(day).weekday())


def _chart(request: PageRequest, span: _Span, chosen: _Filter) -> Html:
    days, active = span.days, span.active
    by = "type" if request.text("by") == "type" else "project"
    last = date.fromisoformat(span.last)
    all_days = [(last - timedelta(days=number)).isoformat() for number in reversed(range(days))]
    turns: dict[str, Counter[str]] = defaultdict(Counter)
    active = [each for each in active if each.project == (chosen.project or each.project)]
    active = [each for each in active if each.type == (chosen.type or each.type)]
    for each in active:
        turns[(each.type if by == "type" else each.project) or ""][each.day] += each.turns
    weekly = days > LONG_SPAN
    if weekly:
        by_week: dict[str, Counter[str]] = defaultdict(Counter)
        for name, counts in turns.items():
            for day, count in counts.items():
                by_week[name][_week_of(day)] += count
        turns, all_days = by_week, list(dict.fromkeys(map(_week_of, all_days)))
    largest = sorted(turns, key=lambda name: -turns[name].total())
    rest = largest[_SERIES:]
    # Long names may begin alike, so only what is shown is shortened.
    series = {name: [turns[name][day] for day in all_days] for name in largest[:_SERIES]}
    names = {name: one_line(name, 40) or "(none)" for name in series}
    if rest:
        names[_OTHERS] = f"{len(rest)} others"
        series[_OTHERS] = [sum(turns[name][day] for name in rest) for day in all_days]
    hues = {name: hue(name) for name in series if name != _OTHERS} if by == "type" else {}
    # What has no name is grey.
    hues[""] = 0
    total = sum(counts.total() for counts in turns.values())
    sessions = sum(each.sessions for each in active)
    memories = sum(each.memories for each in active)
    views = row(
        tabs(
            by,
            {
                "project": ("By project", request.here("time", by=None)),
                "type": ("By agent", request.here("time", by="type")),
            },
            "What the colours mean",
        ),
        tabs(
            str(days), {name: (text, request.here("time", days=name)) for name, text in _SPANS.items()}, "How far back"
        ),
    )
    drawn = (
        bars(
            all_days,
            series,
            "Turns of each week" if weekly else "Turns of each day",
            unit="turns",
            hues=hues,
            names=names,
            place="Week of" if weekly else "Day",
            months=weekly,
            links=[_address(request, day, weekly=weekly) for day in all_days],
        )
        if total
        else empty("Nothing was said in this time. What is said to agents with Engram's hooks is counted here.")
    )
    said = f"{plural(sessions, 'session')} began, {plural(memories, 'active memory', 'active memories')} stored"
    content = tag("p", said, class_="quiet"), drawn
    return card(*content, title="Activity", beside=views, id="activity", data_live="session exchange memory")


def _address(request: PageRequest, day: str, *, weekly: bool) -> str:
    """Where the bar of a day or a week leads."""
    return request.here("time", day=None if weekly else day, week=day if weekly else None, before=None)


def _filters(request: PageRequest, active: list[Activity], chosen: _Filter) -> Html:
    projects = sorted(
        {each.project for each in active if each.project} | ({chosen.project} if chosen.project else set())
    )
    types = sorted({each.type for each in active if each.type} | ({chosen.type} if chosen.type else set()))
    fields = tag(
        "form",
        choice("Project", "project", {"": "all", **{name: one_line(name, 60) for name in projects}}, chosen.project),
        choice("Agent", "type", {"": "all", **{name: one_line(name, 40) for name in types}}, chosen.type),
        tag(
            "p",
            tag("label", "Day", for_="f-day"),
            tag("input", type="date", id="f-day", name="day", value=chosen.day),
            class_="field",
        ),
        tag("button", "Show", type="submit", class_="second"),
        badge(f"the week of {chosen.week}", "accent") if chosen.week and not chosen.day else None,
        tag("a", "Show all", href=request.link("time")) if chosen.is_set else None,
        tag("span", "Days and times are UTC.", class_="quiet small"),
        method="get",
        action=request.link("time"),
        class_="filters",
    )
    return fields


def _timeline(request: PageRequest, chosen: _Filter) -> Html:
    sessions, newer, older = _sessions(request, chosen)
    if not sessions:
        return card(
            empty("No session fits.") if chosen.is_set else empty(_NO_SESSION, request.typed("import claude-code"))
        )
    eras = {each.key: each for each in request.eng.eras.list() if each.key}
    months: dict[str, dict[str, list[Session]]] = defaultdict(lambda: defaultdict(list))
    for each in sessions:
        months[each.created_at[:7]][each.created_at[:10]].append(each)
    gists = request.eng.gists.of([each.id for each in sessions])
    shown = [_month(request, month, days, eras.get(month), gists) for month, days in months.items()]
    return tag("div", *shown, pager(newer, older), id="timeline", class_="timeline", data_live="session memory")


def _sessions(request: PageRequest, chosen: _Filter) -> tuple[list[Session], str | None, str | None]:
    """A page of sessions, the newest first, and the addresses of the pages beside it."""
    before = _before(request.text("before"))
    since, until = (f"{day}T00:00:00Z" for day in chosen.days) if chosen.days else (None, None)
    found = request.eng.sessions.list(
        _SESSIONS + 1,
        subagents=False,
        before=before,
        since=since,
        until=until,
        project=chosen.project or None,
        type=chosen.type or None,
    )
    shown = found[:_SESSIONS]
    last = f"{shown[-1].created_at}_{shown[-1].id}" if len(found) > _SESSIONS else None
    older = request.here("time", before=last) if last else None
    return shown, request.here("time", before=None) if before else None, older


def _before(given: str) -> tuple[str, str] | None:
    """The time and id of a session in an address; None, which is the first page, if it cannot be read."""
    at, _, id = given.partition("_")
    try:
        return checks.moment(at, "before"), checks.name(id, "before")
    except InvalidInput:
        return None


def _month(
    request: PageRequest, month: str, days: dict[str, list[Session]], era: Memory | None, gists: dict[str, Gist]
) -> Html:
    name = date.fromisoformat(f"{month}-01").strftime("%B %Y")
    told = None
    if era is not None:
        told = _era(request, era)
    listed = [_one_day(request, day, sessions, gists) for day, sessions in days.items()]
    return tag("section", tag("h2", name), told, *listed, class_="month")


def _era(request: PageRequest, era: Memory) -> Html:
    lines = dated_list(era.content).split("\n")
    shown = min(_ERA_LINES, len(lines))
    # A heading stays with what stands below it.
    while 1 < shown < len(lines) and (not lines[shown - 1] or lines[shown - 1].endswith(":")):
        shown -= 1
    first, rest = lines[:shown], lines[shown:]
    more = folded("Show all of it", markdown("\n".join(rest)), id=f"era-{era.id}") if rest else None
    source = tag("p", "Summary of the month, written by dreaming: ", memory_link(request, era.id), class_="quiet small")
    return tag("div", markdown("\n".join(first)), more, source, class_="era")


def _one_day(request: PageRequest, day: str, sessions: list[Session], gists: dict[str, Gist]) -> Html:
    name = date.fromisoformat(day).strftime("%A %d").replace(" 0", " ")
    idle = [each for each in sessions if _says_nothing(each, gists.get(each.id))]
    entries = [_entry(request, each, gists.get(each.id)) for each in sessions if each not in idle]
    heading = tag("h3", tag("a", name, href=_address(request, day, weekly=False)))
    counted = None
    if idle:
        listed = tag("ol", *(_entry(request, each, gists.get(each.id)) for each in idle))
        counted = folded(f"{plural(len(idle), 'session')} without a task", listed, id=f"idle-{day}")
    return tag("div", heading, tag("ol", *entries) if entries else None, counted, class_="day")


def _says_nothing(session: Session, gist: Gist | None) -> bool:
    """Whether nothing was asked in a session that is over, such as one with only `/exit`."""
    is_over = session.status in ("completed", "abandoned")
    return is_over and session.turns <= _FEW_TURNS and not session.outcome and not title(session, gist)


def _entry(request: PageRequest, session: Session, gist: Gist | None) -> Html:
    parts = gist_text.parse(gist.text) if gist else gist_text.GistText()
    name = title(session, gist) or "(no task)"
    asked = (name, parts.title, session.summary)
    outcome = plain(parts.outcome or session.outcome or (parts.story if gist else ""), 320)
    # A session that has only begun has nothing to tell but what it was asked.
    points = [tag("li", plain(each, 200)) for each in parts.open[:3] if not _repeats(each, asked)]
    state = {"active": badge("at work", "good"), "abandoned": badge("abandoned", "warn"), "idle": badge("idle")}
    return tag(
        "li",
        row(
            tag("time", session.created_at[11:16], datetime=session.created_at, class_="date clock"),
            agent(session.type),
            project(request, session.project),
            state.get(session.status),
            tag("span", plural(session.turns, "turn"), class_="quiet small"),
        ),
        tag("p", session_link(request, session.id, name), class_="title"),
        tag("p", outcome, class_="outcome") if outcome and not _repeats(outcome, asked) else None,
        tag("ul", *points, class_="open", aria_label="Open") if points else None,
        data_item=True,
    )


def _repeats(text: str, asked: tuple[str, ...]) -> bool:
    """Whether a text only says again what was asked: `The user asked: “Fix the router.”`"""
    before, _, quoted = text.partition("“")
    said = quoted if quoted and not before.rstrip(": ").count(":") else text
    return any(each and says_the_same(said, each) for each in asked)
