"""Dreams: what did dreaming do, and what do you have to decide? What is proposed and due, what passes did and cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...dream_records import cost as cost_of
from ...errors import Forbidden, InvalidInput
from ...safe_text import one_line
from ..http.html import Html, tag, together
from . import dream_numbers, proposals
from .diffs import Budget
from .dream_words import (
    DRIVES,
    STAGES,
    again_question,
    cost,
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
from .icons import icon
from .names import memory_line, named, titles_of
from .parts import (
    action,
    badge,
    card,
    definition,
    empty,
    folded,
    live,
    memory_link,
    meter,
    pager,
    plural,
    row,
    tabs,
    when,
)

if TYPE_CHECKING:
    from ...dream_records import Due, StuckStage
    from ...records import DreamReport, DreamStatus
    from .request import PageRequest

#: Proposals and passes on one page.
_PROPOSALS, _PASSES = 10, 15
#: What a preview names, and what a running pass shows of its work.
_MOST_NAMED, _LATEST = 12, 5
#: Summarised sessions that are named for each pass, and passes from which on what they have in common is said once.
_MOST_TITLES, _FEWEST_ALIKE = 3, 3
#: The states of proposals that can be chosen.
_STATES = {
    "pending": "To decide",
    "accepted": "Accepted",
    "edited": "Edited",
    "applied": "Applied",
    "rejected": "Rejected",
}
_LONGEST_ID = 10**15
_PREVIEW = "What a pass with every stage would do"
#: The thinker without a model.
_FREE = "extractive"


def page(request: PageRequest) -> Page:
    views = {
        "proposals": _proposals,
        "due": _due,
        "passes": _passes,
        "numbers": dream_numbers.view,
        # The view Due loads it afterwards.
        "preview": _preview,
    }
    chosen = request.text("view") or "proposals"
    if chosen not in views:
        raise InvalidInput(f"The page Dreams has no view {one_line(chosen, 40)!r}, only {', '.join(views)}.")
    waiting = request.eng.waiting().proposals
    entries = {
        "proposals": (f"To decide · {waiting}" if waiting else "To decide", request.link("dreams")),
        "due": ("Due", request.link("dreams", view="due")),
        "passes": ("Passes", request.link("dreams", view="passes")),
        "numbers": ("Cost and yield", request.link("dreams", view="numbers")),
    }
    choice = live(tabs(chosen, entries, "Views of the dreams"), id="dream-tabs", on="proposal")
    portrait = tag("a", icon("memory"), "Portrait", href=request.link("portrait"), class_="button second")
    body = together(choice, views[chosen](request))
    return Page("dreams", "What did dreaming do, and what do you have to decide?", body, beside=portrait)


def _proposals(request: PageRequest) -> Html:
    state = request.text("state") or "pending"
    if state not in _STATES:
        raise InvalidInput(f"There is no state {one_line(state, 40)!r} of proposals.")
    after = request.whole("after", 0, most=_LONGEST_ID)
    if one := request.whole("proposal", 0, most=_LONGEST_ID):
        return _one(request, one)
    # What waits longest is decided first; of what is decided, the latest is wanted.
    latest = state != "pending"
    found = request.eng.proposals.list(state, _PROPOSALS + 1, stale=True, latest=latest, after=after or None)
    budget = Budget()
    shown = [proposals.entry(request, each, budget) for each in found[:_PROPOSALS]]
    links = [
        tag("a", text, href=request.link("dreams", state=name), aria_current="true" if name == state else None)
        for name, text in _STATES.items()
    ]
    following = request.link("dreams", state=state, after=found[_PROPOSALS - 1].id) if len(found) > _PROPOSALS else None
    first = request.link("dreams", state=state) if after else None
    keys = tag(
        "p",
        *(together(tag("kbd", key), f" {what}  ") for key, what in _KEYS.items()),
        class_="quiet small keys-hint",
    )
    return live(
        tag("h2", "Proposals", class_="unseen"),
        row(
            tag("nav", *links, class_="states", aria_label="State of the proposals"), tag("span", class_="spacer"), keys
        )
        if shown and state == "pending" and request.may("write")
        else tag("nav", *links, class_="states", aria_label="State of the proposals"),
        tag("ol", *shown, class_="stack", data_queue=True) if shown else card(_nothing(request, state)),
        pager(first, following, names=("First", "Next")),
        id="proposals",
        on="proposal memory block",
        class_="stack",
    )


_KEYS = {"j": "next", "k": "previous", "a": "accept", "e": "edit", "r": "reject"}


def _one(request: PageRequest, id: int) -> Html:
    """One proposal, whose texts may be too long to be shown beside others."""
    entry = proposals.entry(request, request.eng.proposals.show(id), proposals.alone())
    return live(
        tag("h2", f"Proposal {id}", class_="unseen"),
        tag("p", tag("a", "All proposals", href=request.link("dreams"))),
        tag("ol", entry, class_="stack"),
        id="proposals",
        on="proposal memory block",
        class_="stack",
    )


def _nothing(request: PageRequest, state: str) -> Html:
    if state != "pending":
        return empty(f"No proposal is {state}.")
    return empty(
        "Nothing waits for a decision. A pass makes a proposal when memories say the same or contradict each other, "
        "when something is done, or when a tool says something worth keeping. To run a pass:",
        request.typed("dream"),
    )


def _due(request: PageRequest) -> Html:
    status = request.eng.dreams.status()
    running = status.last if status.last and is_running(status.last) else None
    left = together(
        _running(request, running) if running else None,
        problems("bad", status.last.alarms if status.last else [], "The last pass found that recall lost something"),
        *(_stuck(request, each) for each in status.stuck),
        _stages(request, status),
    )
    right = together(_automatic(request, status, running is not None), _urgency(status))
    shown = live(
        tag("div", tag("div", left, class_="stack"), tag("div", right, class_="stack"), class_="aside"),
        id="due",
        on="dream session memory block",
    )
    return together(shown, _preview_later(request) if request.flag("preview") and request.may("admin") else None)


def _running(request: PageRequest, report: DreamReport) -> Html:
    """The pass that is under way, and what it has made so far."""
    eng = request.eng
    made = [
        each
        for each in eng.memories.list(kind="gist", latest=True, limit=_LATEST)
        if each.updated_at >= report.started_at
    ]
    latest = [tag("li", memory_link(request, each.id, memory_line("gist", each.content, 90))) for each in made]
    backlog = eng.dreams.backlog()
    head = row(
        badge("● running", "good"),
        tag("strong", f"Pass {report.id}"),
        tag("span", "began", class_="quiet small"),
        when(report.started_at, request.now),
        tag("span", one_line(report.reason, 40), class_="quiet small"),
    )
    done, total = backlog.sessions - backlog.dirty, backlog.sessions
    label = f"{done:,} of {plural(total, 'session')} are summarised"
    return card(
        head,
        tag("p", f"{label}."),
        meter(done, total, label=label, marked=False) if backlog.dirty else None,
        tag("ul", *latest, class_="lines") if latest else None,
        class_="needs-you",
        aria_live="polite",
    )


def _stuck(request: PageRequest, stage: StuckStage) -> Html:
    told = f"{plural(stage.attempts, 'pass', 'passes')} without progress, {stage.left:,} left undone"
    return tag(
        "div",
        tag("p", icon("warning"), tag("strong", f"The stage {one_line(stage.stage, 40)} is stuck"), ": ", told, "."),
        tag("p", one_line(stage.problem, 400)) if stage.problem else None,
        tag("p", "The next attempt is not before ", _clock_time(stage.retry_at), ". New work continues."),
        class_="alarm bad",
    )


def _stages(request: PageRequest, status: DreamStatus) -> Html:
    due = [each for each in status.due if each.due]
    title = f"{plural(len(due), 'stage')} of a pass {'is' if len(due) == 1 else 'are'} due" if due else "Nothing is due"
    is_automatic = _off(request, status) is None
    entries = [_stage(each, is_automatic=is_automatic) for each in sorted(status.due, key=lambda each: not each.due)]
    return card(tag("ul", *entries, class_="entries"), title=title, class_="flush")


def _stage(each: Due, *, is_automatic: bool) -> Html:
    state = badge("due", "accent") if each.due else badge("waits", "warn") if each.waiting else badge("nothing to do")
    would = tag("p", f"Would {one_line(each.would, 300)}.") if each.due and each.would else None
    at = None
    if each.at and not each.due and is_automatic:
        at = tag("span", " Automatically ", _clock_time(each.at), ".")
    head = row(tag("strong", each.stage), state, tag("span", STAGES.get(each.stage, ""), class_="quiet small"))
    return tag("li", head, would, tag("p", one_line(each.reason, 400), at, class_="quiet small"), data_item=True)


def _clock_time(stamp: str) -> Html:
    """A time to come. Ages are for the past."""
    return tag("time", f"{stamp[:10]} {stamp[11:16]} UTC", datetime=stamp, class_="date")


def _off(request: PageRequest, status: DreamStatus) -> str | None:
    """Why no pass starts by itself; None if passes do."""
    if request.dreams is False:
        # The server passes it on as the setting. What the setting itself says counts for hooks.
        return "off here, because the server was started with --no-dream"
    return None if status.automatic else "off, by the setting auto_dream"


def _automatic(request: PageRequest, status: DreamStatus, running: bool) -> Html:
    work = status.work
    off = _off(request, status)
    if off:
        following: Html | None = None
    elif status.starts_now:
        following = tag("span", "at the end of a session, or when a server is idle")
    elif status.next_at:
        following = tag("span", "not before ", _clock_time(status.next_at))
    else:
        following = tag("span", "when something is due")
    last = status.last
    by_hand = one_line(request.eng.settings.llm, 60)
    facts = definition(
        (
            ("Automatic passes", off or "on"),
            ("Next", following),
            ("Thinker", status.thinker if status.thinker == by_hand else f"{status.thinker}; {by_hand} by hand"),
            (
                "Last pass",
                together(
                    tag("a", f"pass {last.id}", href=request.link("dreams", last.id)),
                    " ",
                    when(last.started_at, request.now),
                )
                if last and last.id
                else "none yet",
            ),
            (
                "For agents",
                f"{plural(work.waiting, 'work item')} waiting, {work.answered} answered" if any(work) else None,
            ),
        )
    )
    return card(facts, _run(request, by_hand, running, is_due=any(each.due for each in status.due)), title="Passes")


def _run(request: PageRequest, thinker: str, running: bool, *, is_due: bool) -> Html | None:
    """The buttons that run a pass, and the way to a preview."""
    if not request.may("admin"):
        return None
    if running:
        return tag("p", "A pass is running. This page follows it.", class_="quiet small")
    # Without a model a pass costs nothing, and the estimate reads the sizes of all that waits.
    takes = cost_of(request.eng.dreams.estimate()) if thinker != _FREE else ""
    now = action(
        "dream.run",
        "Run what is due",
        {},
        picture="dreams",
        kind="" if is_due else "second",
        done="The pass is over. Its report is under Passes.",
    )
    everything = action(
        "dream.run",
        "Run every stage",
        {"force": True},
        kind="second",
        confirm=f"Run every stage, however little is pending? {takes}".strip(),
        done="The pass is over. Its report is under Passes.",
    )
    preview = tag("a", "Preview", href=request.link("dreams", view="due", preview=1), class_="button second")
    note = takes or "The preview says what a pass would do and take."
    return together(row(now, everything, preview), tag("p", note, class_="quiet small"))


def _urgency(status: DreamStatus) -> Html:
    waits = tag("p", f"Pending now: {pending(status.backlog)}.")
    if status.drives is None:
        return card(
            waits, tag("p", "The first pass measures how urgent each kind of work is.", class_="quiet"), title="Urgency"
        )
    shown = []
    for name, what in DRIVES.items():
        value: float = getattr(status.drives, name)
        # Only a companion is curious.
        if name == "curiosity" and not value:
            continue
        label = f"{name}: {value:.2f}"
        shown.append(
            tag(
                "li",
                row(
                    tag("strong", name),
                    tag("span", what, class_="quiet small"),
                    tag("span", class_="spacer"),
                    f"{value:.2f}",
                ),
                meter(value, 1, label=label, marked=False),
            )
        )
    then = "The urgency of each kind of work when the last pass ended, 0 to 1:"
    drives = tag("ul", *shown, class_="drives")
    told = together(tag("p", then, class_="quiet small"), drives)
    if not any(each.due for each in status.due):
        told = folded("When the last pass ended", told, id="drives")
    return card(waits, told, title="Urgency")


def _preview_later(request: PageRequest) -> Html:
    """It stands beside the live part: a pass over everything is not planned again for each change."""
    address = request.link("dreams", view="preview")
    planned = tag("p", tag("a", "Show what a pass would do", href=address), class_="quiet")
    return card(planned, title=_PREVIEW, id="preview", data_load=address)


def _preview(request: PageRequest) -> Html:
    """What a pass over everything would do. Nothing is written."""
    if not request.may("admin"):
        raise Forbidden("A pass is previewed with an admin token.")
    (report,) = request.eng.dream(dry_run=True, force=True)
    lines = [
        tag(
            "li",
            tag("strong", each.stage),
            ": ",
            _would(each),
            tag("p", one_line(each.reason.removeprefix("Forced. "), 300), class_="quiet small"),
        )
        for each in report.due
    ]
    names = titles_of(request, report.gists[:_MOST_NAMED], 120)
    sessions = [tag("li", named(request, each, names, 120)) for each in report.gists[:_MOST_NAMED]]
    more = tag("li", f"and {len(report.gists) - _MOST_NAMED} more") if len(report.gists) > _MOST_NAMED else None
    listed = tag("ul", *sessions, more, class_="lines") if sessions else None
    months = tag("p", f"Months to summarise: {', '.join(report.eras)}.") if report.eras else None
    takes = tag("p", cost_of(request.eng.dreams.estimate()), class_="quiet")
    return card(
        tag("p", "Nothing is written by this preview.", class_="quiet"),
        tag("ul", *lines, class_="lines"),
        tag("p", "Sessions to summarise:") if sessions else None,
        listed,
        months,
        takes,
        title=_PREVIEW,
        id="preview",
    )


def _would(each: Due) -> str:
    """What a stage would do. One that has nothing to do is run nevertheless, and then only looks."""
    return "run, but probably change nothing" if each.would == "run" else one_line(each.would or "nothing", 300)


def _passes(request: PageRequest) -> Html:
    before = request.whole("before", 0, most=_LONGEST_ID)
    found = request.eng.dreams.list(_PASSES + 1, before=before or None)
    reports = found[:_PASSES]
    names = titles_of(request, [id for each in reports for id in each.gists[:_MOST_TITLES]], 120)
    # What all of them have in common is said once.
    alike = _alike(reports)
    shown = [_pass(request, each, names, alike) for each in reports]
    older = request.link("dreams", view="passes", before=found[_PASSES - 1].id) if len(found) > _PASSES else None
    newest = request.link("dreams", view="passes") if before else None
    is_on = request.dreams is not False and request.eng.settings.auto_dream == "on"
    how = "One starts by itself when a session ends or a server is idle, or by hand" if is_on else "To run one"
    nothing = card(
        empty(
            f"There has been no pass yet. {how}:",
            request.typed("dream"),
            request.typed("dream --dry-run"),
        )
    )
    return live(
        tag("h2", "Passes", class_="unseen"),
        tag("p", f"Each of these passes: {', '.join(alike)}.", class_="quiet small") if alike else None,
        tag("ol", *shown, class_="card flush entries") if shown else nothing,
        pager(newest, older, names=("Newest", "Older")),
        id="passes",
        on="dream session",
        class_="stack",
    )


def _alike(reports: list[DreamReport]) -> list[str]:
    """What is the same in every pass: who thought, and what it cost."""
    ended = [each for each in reports if each.ended_at]
    if len(ended) < _FEWEST_ALIKE:
        return []
    facts = [{each.provider or "", cost(each)} - {""} for each in ended]
    return [each for each in (ended[0].provider or "", cost(ended[0])) if each and all(each in some for some in facts)]


def _pass(request: PageRequest, report: DreamReport, names: dict[str, str], alike: list[str]) -> Html:
    number = report.id or 0
    state = (
        badge("● running", "good")
        if is_running(report)
        else badge("did not end", "bad")
        if not report.ended_at
        else None
    )
    undone = None
    if report.undone_by:
        undone = tag("a", badge(f"undone by {report.undone_by}"), href=request.link("dreams", report.undone_by))
    head = row(
        tag("h3", tag("a", f"Pass {number}", href=request.link("dreams", number))),
        state,
        undone,
        tag("span", one_line(report.reason, 40), class_="quiet small"),
        tag("span", class_="spacer"),
        when(report.started_at, request.now),
    )
    all_facts = (took(report), report.provider, cost(report), saved(report))
    facts = [each for each in all_facts if each and each not in alike]
    titles = [tag("li", named(request, each, names, 120)) for each in report.gists[:_MOST_TITLES] if each in names]
    if titles and len(report.gists) > len(titles):
        titles.append(tag("li", f"and {len(report.gists) - len(titles)} more", class_="quiet"))
    made = [badge(each, "accent" if "proposal" in each else "plain") for each in written(report)]
    told = row(*made) if made and report.ended_at else tag("p", sentence(report))
    return tag(
        "li",
        head,
        problems("bad", report.alarms, "Recall lost something"),
        told,
        tag("ul", *titles, class_="lines", aria_label="Summarised sessions") if titles else None,
        problems("warn", report.errors if report.ended_at else [], "What failed"),
        row(
            tag("span", " · ".join(facts) if report.ended_at else "", class_="quiet small"),
            tag("span", class_="spacer"),
            _take_back(request, report),
        ),
        class_="pass" + (" undone" if report.undone_by else ""),
        id=f"pass-{number}",
        tabindex="-1",
        data_item=True,
    )


def _take_back(request: PageRequest, report: DreamReport) -> Html | None:
    if report.id is None or is_running(report):
        return None
    if report.undone_by:
        question = again_question(request, report, f"What pass {report.id} made and changed comes back.")
        return undo(request, report.undone_by, question, "Undo the undo")
    return undo(request, report.id, undo_question(request, report)) if written(report) or not report.ended_at else None
