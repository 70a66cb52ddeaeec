"""The report of one pass, one undo, or one proposal that was applied by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import EngramError
from ...gist_text import parse
from ...records import UndoReport
from ...safe_text import one_line
from ..http.html import Html, tag, together
from . import proposals
from .diffs import Budget, side_by_side
from .dream_words import (
    DRIVES,
    STAGES,
    again_question,
    cost,
    in_words,
    is_running,
    pending,
    problems,
    saved,
    sentence,
    took,
    undo,
    undo_question,
    written,
)
from .frame import Page
from .markdown import markdown
from .names import FORGOTTEN, named, task, titles_of
from .parts import (
    agent,
    badge,
    card,
    definition,
    folded,
    live,
    memory_link,
    meter,
    plural,
    row,
    session_link,
    table,
    when,
)

if TYPE_CHECKING:
    from ...records import DreamReport, Session
    from .request import PageRequest

#: Gists whose texts are shown; the other sessions are named.
_GISTS, _NAMED = 12, 100
_ERAS, _LEARNT = 6, 30
#: The tag of the statements that passes store.
_EXTRACTED = "extracted"
#: Things that an undo names.
_THINGS = 300


def page(request: PageRequest) -> Page:
    number = request.id()
    report = request.eng.dreams.show(number)
    back = tag("a", "All passes", href=request.link("dreams", view="passes"), class_="button second")
    if isinstance(report, UndoReport):
        return Page("dreams", f"What did undo {number} take back?", _undo(request, report), f"Undo {number}", back)
    if report.proposal is not None:
        question = f"What did number {number} change?"
        return Page("dreams", question, _applied(request, report), f"Number {number}", back)
    return Page("dreams", f"What did pass {number} do?", _pass(request, report), f"Pass {number}", back)


def _pass(request: PageRequest, report: DreamReport) -> Html:
    top = together(
        problems("bad", report.alarms, "Recall lost something"),
        problems("warn", report.errors, "What failed"),
        _undone(request, report.undone_by),
    )
    left = together(
        top,
        _summary(request, report),
        _gists(request, report),
        _learnt(request, report),
        _eras(request, report),
        _blocks(request, report),
        problems("plain", report.notes or [], "Postponed"),
    )
    right = together(_facts(request, report), _consolidated(report), _why(report), _times(report), _drives(report))
    columns = tag("div", tag("div", left, class_="stack"), tag("div", right, class_="stack"), class_="aside")
    # A pass that runs changes its report when it ends.
    return live(columns, id="report", on="dream" if report.ended_at else "dream memory session")


def _undone(request: PageRequest, by: int | None) -> Html | None:
    if by is None:
        return None
    link = tag("a", f"undo {by}", href=request.link("dreams", by))
    undo_report = request.eng.dreams.show(by)
    left = undo_report.left if isinstance(undo_report, UndoReport) else []
    if left:
        # Text that was forgotten does not come back, so forgetting can keep most of a pass from being undone.
        there = f", but not all of it: {plural(len(left), 'thing')} stayed, because text was forgotten meanwhile."
    else:
        there = ". What is shown here is not in the store any more."
    return tag("p", "This was undone by ", link, there, class_="notice-line")


def _summary(request: PageRequest, report: DreamReport) -> Html:
    number = report.id or 0
    proposed = None
    if report.proposals:
        link = tag("a", "To the proposals", href=request.link("dreams"))
        proposed = tag("p", "Its proposals wait for a decision. ", link)
    waiting = f"{plural(report.waiting, 'work item')} waited for agents." if report.waiting else None
    back: Html | None = None
    if report.undone_by:
        question = again_question(request, report, f"What pass {number} made and changed comes back.")
        back = undo(request, report.undone_by, question, "Undo the undo")
    elif not is_running(report) and (written(report) or not report.ended_at):
        back = undo(request, number, undo_question(request, report))
    return card(
        tag("p", sentence(report), class_="lead"),
        proposed,
        tag("p", waiting) if waiting else None,
        tag("p", f"It left out {in_words(_left_out(report))}.") if report.left_out else None,
        back,
    )


def _left_out(report: DreamReport) -> list[str]:
    return [f"{plural(number, 'item')} of the stage {stage}" for stage, number in (report.left_out or {}).items()]


def _facts(request: PageRequest, report: DreamReport) -> Html:
    session = session_link(request, report.session_id) if report.session_id else None
    return card(
        definition(
            (
                ("Began", when(report.started_at, request.now)),
                ("Took", took(report)),
                ("Why", one_line(report.reason, 40)),
                ("Thinker", one_line(report.provider, 80) or None),
                ("Cost", cost(report)),
                ("Session", session),
                ("Before", pending(report.before) if report.ended_at else None),
                ("After", pending(report.after) if report.ended_at else None),
            )
        ),
        title="The pass",
    )


def _consolidated(report: DreamReport) -> Html | None:
    """What consolidation found and did; nothing if there was nothing to change."""
    if report.groups is None and report.merged is None:
        return None
    counts = (
        ("Duplicates", report.groups, f"{plural(report.groups or 0, 'group')}, {report.duplicates_merged or 0} merged"),
        ("Merged", report.merged, plural(report.merged or 0, "memory", "memories")),
        ("Archived", report.archived, plural(report.archived or 0, "memory", "memories")),
        ("Contradictions", report.conflicts_resolved, f"{report.conflicts_resolved} resolved"),
        ("Blocks", report.summarized, f"{report.summarized} shortened"),
        ("Left alone", report.skipped, plural(report.skipped or 0, "finding")),
        ("Tokens", report.tokens_saved, saved(report) or ""),
    )
    if not any(number for _, number, _ in counts):
        return None
    return card(definition((name, told) for name, number, told in counts if number), title="Consolidation")


def _why(report: DreamReport) -> Html | None:
    due = [each for each in report.due if each.due]
    if not due:
        return None
    lines = [
        tag("li", tag("strong", each.stage), tag("p", one_line(each.reason, 300), class_="quiet small")) for each in due
    ]
    return card(tag("ul", *lines, class_="lines"), title="What was due")


def _times(report: DreamReport) -> Html | None:
    if not report.seconds:
        return None
    rows = [
        (tag("span", name, title=STAGES.get(name)), tag("span", f"{seconds:.2f} s", class_="number"))
        for name, seconds in sorted(report.seconds.items(), key=lambda each: -each[1])
        if seconds >= 0.005
    ]
    return card(table(("Stage", "Time"), rows, label="Time by stage"), title="Time by stage") if rows else None


def _drives(report: DreamReport) -> Html | None:
    if not report.ended_at:
        return None
    shown = []
    for name in DRIVES:
        before: float = getattr(report.drives_before, name)
        after: float = getattr(report.drives, name)
        if name == "curiosity" and not before and not after:
            continue
        told = f"{before:.2f} → {after:.2f}"
        head = row(tag("strong", name), tag("span", class_="spacer"), tag("span", told, class_="quiet small"))
        shown.append(tag("li", head, meter(after, 1, label=f"{name}: {told}", marked=False)))
    return card(tag("ul", *shown, class_="drives"), title="Urgency before and after")


def _gists(request: PageRequest, report: DreamReport) -> Html | None:
    if not report.gists:
        return None
    shown = [_gist(request, each) for each in report.gists[:_GISTS]]
    names = titles_of(request, report.gists[_GISTS:_NAMED], 120)
    others = [tag("li", named(request, each, names, 120)) for each in report.gists[_GISTS:_NAMED]]
    more = len(report.gists) - _GISTS
    return card(
        tag("ul", *shown, class_="entries"),
        folded(f"{more} more sessions", tag("ul", *others, class_="lines"), class_="inset") if others else None,
        title=f"{plural(len(report.gists), 'session')} summarised",
        class_="flush",
    )


def _gist(request: PageRequest, id: str) -> Html:
    """A session with the gist that it has now. A later pass may have written it again."""
    session: Session | None = None
    text = ""
    memory = None
    try:
        session = request.eng.sessions.get(id)
        memory = request.eng.memories.gist(id)
        text = memory.content if memory else ""
    except EngramError:
        pass
    told = parse(text)
    title = task(told.title or (session.summary if session else "")) or "A deleted session"
    head = row(
        agent(session.type) if session else None,
        tag("strong", session_link(request, id, title) if session else title),
    )
    source = tag("p", memory_link(request, memory.id), class_="small") if memory else None
    story = folded("The whole gist", markdown(told.story), source) if told.story else None
    if memory is not None and not text:
        story = row(tag("span", FORGOTTEN, class_="quiet small"), memory_link(request, memory.id))
    return tag(
        "li",
        head,
        tag("p", tag("strong", "Outcome: "), one_line(told.outcome, 500)) if told.outcome else None,
        *(tag("p", badge("open", "warn"), " ", one_line(each, 300)) for each in told.open[:5]),
        story,
        data_item=True,
    )


def _learnt(request: PageRequest, report: DreamReport) -> Html | None:
    """The digest and the statements that the pass stored. Other sessions may have stored memories while it ran."""
    if not report.ended_at:
        return None
    memories = request.eng.memories
    digests = memories.list(kind="digest", since=report.started_at, until=report.ended_at)
    learnt = memories.list(tag=_EXTRACTED, since=report.started_at, until=report.ended_at, limit=_LEARNT + 1)
    stored = [*digests, *learnt[:_LEARNT]]
    if not stored:
        return None
    lines = [
        tag(
            "li",
            row(badge(each.kind), memory_link(request, each.id)),
            markdown(each.content) if each.kind == "digest" else tag("p", one_line(each.content, 400) or FORGOTTEN),
            data_item=True,
        )
        for each in stored
    ]
    more = None
    if len(learnt) > _LEARNT:
        everything = tag("a", "all statements", href=request.link("memory", view="all", tag=_EXTRACTED))
        more = tag("p", "There are more: see ", everything, ".", class_="quiet inset")
    return card(tag("ul", *lines, class_="entries"), more, title="Memories stored by the pass", class_="flush")


def _eras(request: PageRequest, report: DreamReport) -> Html | None:
    if not report.eras:
        return None
    shown = []
    for month in report.eras[:_ERAS]:
        era = request.eng.memories.by_key("era", month)
        link = memory_link(request, era.id, month) if era else month
        shown.append(
            tag(
                "li",
                tag("strong", link),
                folded("The month now", markdown(era.content) if era.content else tag("p", FORGOTTEN)) if era else None,
                data_item=True,
            )
        )
    more = len(report.eras) - _ERAS
    return card(
        tag("ul", *shown, class_="entries"),
        tag("p", f"and {more} more", class_="quiet inset") if more > 0 else None,
        title=f"{plural(len(report.eras), 'month')} summarised",
        class_="flush",
    )


def _blocks(request: PageRequest, report: DreamReport) -> Html | None:
    """The blocks that the pass wrote, each with what it changed."""
    shown = []
    budget = Budget()
    for name, version in list(report.blocks.items())[:6]:
        link = tag("a", name, href=request.link("blocks", name))
        shown.append(
            tag(
                "li",
                row(tag("strong", link), badge(f"version {version}")),
                folded("What changed", _version(request, name, version, budget)),
                data_item=True,
            )
        )
    return card(tag("ul", *shown, class_="entries"), title="Blocks written", class_="flush") if shown else None


def _version(request: PageRequest, name: str, version: int, budget: Budget) -> Html:
    try:
        new = request.eng.blocks.version(name, version)
        old = request.eng.blocks.version(name, version - 1) if version > 1 else ""
    except EngramError as error:
        return tag("p", error.message, class_="quiet")
    names = (f"Version {version - 1}" if version > 1 else "Nothing", f"Version {version}")
    return side_by_side(old, new, names, f"What version {version} of {name} changes", budget)


def _applied(request: PageRequest, report: DreamReport) -> Html:
    """A proposal that was applied by hand."""
    number = report.id or 0
    shown: Html | None = None
    if report.proposal:
        waiting = request.eng.proposals.show(report.proposal)
        shown = tag("ol", proposals.entry(request, waiting, proposals.alone()), class_="stack")
    again = None
    if report.undone_by:
        question = again_question(request, report, "The proposal is applied again.")
        again = undo(request, report.undone_by, question, "Undo the undo")
    return together(
        _undone(request, report.undone_by),
        card(
            tag("p", sentence(report), class_="lead"),
            definition((("When", when(report.started_at, request.now)), ("Number", str(number)))),
            again,
        ),
        shown,
    )


def _undo(request: PageRequest, report: UndoReport) -> Html:
    number = report.run
    what = tag("a", f"number {number}", href=request.link("dreams", number))
    is_back = report.undone_by is not None
    again = undone = None
    if report.undone_by is None:
        question = again_question(request, report, f"What number {number} made and changed comes back.")
        again = undo(request, report.id, question, "Undo this undo")
    else:
        by = tag("a", f"number {report.undone_by}", href=request.link("dreams", report.undone_by))
        undone = tag("p", "This was undone by ", by, ", so what it took back is there again.", class_="notice-line")
    names = titles_of(request, _sessions_of(report), 60)
    return together(
        undone,
        card(
            tag("p", *_taken_back(report, what), class_="lead"),
            definition(
                (("When", when(report.started_at, request.now)), ("Session", session_link(request, report.session_id)))
            ),
            again,
        ),
        _things(request, report.left, names, "What stayed as it was", "", about=_LEFT) if report.left else None,
        tag(
            "div",
            _things(request, report.restored, names, "Back to what it was", "Nothing was changed back."),
            _things(request, report.removed, names, "Removed", "Nothing was removed.", is_there=is_back),
            class_="columns",
        ),
    )


_LEFT = (
    "Parts of the text of these things were forgotten after the pass, or something was made from them whose text was. "
    "What is forgotten does not come back, and what is left of it keeps its sources."
)


def _sessions_of(report: UndoReport) -> list[str]:
    things = [each for shown in (report.restored, report.removed, report.left) for each in shown[:_THINGS]]
    return [ref for kind, _, ref in (each.partition(" ") for each in things) if kind == "session"]


def _taken_back(report: UndoReport, what: Html) -> tuple[Html | str, ...]:
    """How much of a pass the undo took back."""
    done, left = len(report.restored) + len(report.removed), len(report.left)
    if not left:
        return ("This took back everything that ", what, " changed.")
    if not done:
        return ("This took nothing back: everything that ", what, " changed stayed as it was.")
    return (
        f"This took back {plural(done, 'thing')} of {done + left:,} that ",
        what,
        " changed. One stayed as it was." if left == 1 else f" changed. The other {left:,} stayed as they were.",
    )


def _things(
    request: PageRequest,
    things: list[str],
    names: dict[str, str],
    title: str,
    nothing: str,
    *,
    is_there: bool = True,
    about: str | None = None,
) -> Html:
    """Things by kind and number. Those that are not there any more have no link."""
    ordered = sorted(things, key=_order)
    shown = [tag("li", _thing(request, each, names, is_there=is_there)) for each in ordered[:_THINGS]]
    more = tag("li", f"and {len(things) - _THINGS:,} more", class_="quiet") if len(things) > _THINGS else None
    body = tag("ul", *shown, more, class_="row ids") if shown else tag("p", nothing, class_="quiet")
    explained = tag("p", about, class_="quiet") if about else None
    return card(explained, body, title=f"{title} · {len(things):,}" if things else title)


def _order(thing: str) -> tuple[str, int, str]:
    """Memories by their number: 2 stands before 10."""
    kind, _, ref = thing.partition(" ")
    return kind, int(ref) if ref.isascii() and ref.isdigit() else 0, ref


def _thing(request: PageRequest, thing: str, names: dict[str, str], *, is_there: bool) -> Html:
    """`memory 12`, `block profile`, a session by its title, as a link."""
    kind, _, ref = thing.partition(" ")
    places = {"memory": "memories", "block": "blocks", "session": "sessions"}
    text = f"session “{names[ref]}”" if kind == "session" and ref in names else one_line(thing, 80)
    if not is_there or kind not in places or not ref:
        return tag("span", text)
    return tag("a", text, href=request.link(places[kind], ref))
