"""What a pass did, in words: for the list of passes, its report, and the question before it is undone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...clock import between
from ...safe_text import one_line
from ..http.html import Html, tag
from .icons import icon
from .parts import button, form, plural, row

if TYPE_CHECKING:
    from ...records import DreamBacklog, DreamReport, UndoReport
    from .request import PageRequest

#: What each stage does, for people who do not know its name.
STAGES = {
    "sessions": "Summarises sessions and learns from them",
    "consolidate": "Merges and archives memories",
    "eras": "Writes a summary of each month",
    "profile": "Writes what is known about you",
    "narrative": "Writes the narrative",
    "reflect": "Reflects, as a companion",
}
DRIVES = {
    "continuity": "sessions to summarise",
    "coherence": "gists to add to the months and the portrait",
    "curiosity": "the need for a reflection",
    "stability": "how little is pending",
}


def is_running(report: DreamReport) -> bool:
    """Whether the pass is under way. One that died has a message about it."""
    return bool(report.id and not report.ended_at and not report.errors)


def took(report: DreamReport) -> str | None:
    if not report.ended_at:
        return None
    seconds = between(report.started_at, report.ended_at)
    if seconds >= 120:
        return f"{seconds / 60:.0f} min"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"


def written(report: DreamReport) -> list[str]:
    """What the pass wrote: `6 gists`, `2 eras`, `profile v3`, `3 statements learnt`, …"""
    counts = (
        (len(report.gists), "gist", None),
        (len(report.eras), "era", None),
        (report.extracted or 0, "statement learnt", "statements learnt"),
        (report.merged or 0, "memory merged", "memories merged"),
        (report.conflicts_resolved or 0, "contradiction resolved", "contradictions resolved"),
        (report.archived or 0, "memory archived", "memories archived"),
        (report.summarized or 0, "block shortened", "blocks shortened"),
        (report.proposals or 0, "new proposal", None),
    )
    blocks = [f"{one_line(name, 40)} v{version}" for name, version in report.blocks.items()]
    told = [plural(number, one, many) for number, one, many in counts if number]
    return [*told[:2], *blocks, *told[2:]] if report.gists or report.eras else [*blocks, *told]


#: Blocks that a sentence calls by their name alone. Another one is called a block.
_PORTRAIT = ("profile", "narrative")


def _told(report: DreamReport) -> str:
    """What the pass did, as the rest of a sentence: `wrote 6 gists and the profile, and learnt 3 statements`."""
    wrote = [plural(number, one) for number, one in ((len(report.gists), "gist"), (len(report.eras), "era")) if number]
    wrote += [f"the {each}" if each in _PORTRAIT else f"the block {one_line(each, 40)}" for each in report.blocks]
    counts = (
        ("learnt", report.extracted, "statement", None),
        ("merged", report.merged, "memory", "memories"),
        ("resolved", report.conflicts_resolved, "contradiction", None),
        ("archived", report.archived, "memory", "memories"),
        ("shortened", report.summarized, "block", None),
        ("made", report.proposals, "new proposal", None),
    )
    done = [f"wrote {in_words(wrote)}"] if wrote else []
    done += [f"{verb} {plural(number, one, many)}" for verb, number, one, many in counts if number]
    # With a comma, because each part may be a list itself.
    return ", and ".join(filter(None, (", ".join(done[:-1]), done[-1] if done else "")))


def sentence(report: DreamReport) -> str:
    """The pass in a sentence."""
    if report.proposal is not None:
        return f"Proposal {report.proposal} was applied." if report.proposal else "A proposal was applied, and undone."
    if is_running(report):
        return "The pass is running."
    if not report.ended_at:
        return "The pass did not end. The next one continues its work."
    done = _told(report)
    return f"It {done}." if done else "There was nothing to write."


def in_words(things: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, (", ".join(things[:-1]), things[-1] if things else "")))


def cost(report: DreamReport) -> str:
    """What the pass took: `12 calls, 40,000 tokens in, 2,000 out`."""
    if not report.calls:
        return "no model calls"
    return f"{plural(report.calls, 'call')}, {report.input_tokens:,} tokens in, {report.output_tokens:,} out"


def saved(report: DreamReport) -> str | None:
    if not report.tokens_saved:
        return None
    return f"{report.tokens_saved:,} of {plural(report.tokens_before or 0, 'token')} saved"


def pending(backlog: DreamBacklog) -> str:
    counts = (
        (backlog.ripe, "session to summarise", "sessions to summarise"),
        (backlog.turns, "new turn", None),
        (backlog.unfolded, "gist to add to a month or the portrait", "gists to add to a month or the portrait"),
    )
    return in_words([plural(number, one, many) for number, one, many in counts if number]) or "nothing"


def problems(kind: str, lines: list[str], title: str) -> Html | None:
    """A list of messages under a heading with a mark; `kind` is bad or warn."""
    if not lines:
        return None
    told = tag("ul", *(tag("li", one_line(each, 600)) for each in lines[:20]))
    more = tag("p", f"and {len(lines) - 20} more") if len(lines) > 20 else None
    return tag("div", tag("p", icon("warning"), tag("strong", title)), told, more, class_=f"alarm {kind}")


def undo(request: PageRequest, number: int, question: str, text: str = "Undo") -> Html | None:
    """The button that undoes a pass, an applied proposal or an undo, after a question that says what goes back."""
    if not request.may("admin"):
        return None
    return form(
        "dream.undo",
        row(button(text, picture="undo", class_="small", data_key="u")),
        values={"run": number},
        confirm=question,
        done="Undone.",
        class_="undo",
    )


def undo_question(request: PageRequest, report: DreamReport) -> str:
    """What an undo of the pass takes back, and what it does not."""
    done = _told(report)
    what = f" It {done}. What it made goes, and what it changed is again what it was." if done else ""
    return f"Undo pass {report.id}?{what} {_limits(request, report.started_at)}"


def again_question(request: PageRequest, report: DreamReport | UndoReport, comes_back: str) -> str:
    """What the undo of an undo brings back. The report is that of the undo, or of what it has undone."""
    return f"Undo the undo? {comes_back} {_limits(request, report.started_at)}"


def _limits(request: PageRequest, since: str) -> str:
    """What an undo leaves alone, and what stops it."""
    latest = request.eng.receipts(1) if request.may("admin") else []
    if not latest or latest[0].created_at < since:
        return "If something of that was changed since, nothing is undone."
    return (
        "Some text was forgotten since. What lost text to that, and what it was made from, stays as it is: often this "
        "is the larger part. If something else was changed since, nothing is undone."
    )
