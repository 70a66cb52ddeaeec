"""Records about what dreaming has to do, and the brief. They are not in `records.py`: every hook imports that."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .safe_text import without_quotes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .records import DreamReport


class BriefLine(NamedTuple):
    """A line of the brief, and what it shows."""

    text: str
    #: `memory`, `session`, `message` or `block`. None for a heading, and for a line that only counts.
    kind: str | None = None
    #: Its id; of a block its name.
    ref: str | None = None


class Brief(NamedTuple):
    text: str
    #: The memories in it.
    things: tuple[tuple[str, int], ...]
    #: The lines of the text, in order. All lines of one entry have the same source.
    lines: tuple[BriefLine, ...] = ()


class Due(NamedTuple):
    """What one stage of a pass would do now, and why."""

    stage: str
    #: Whether a pass that begins now runs the stage.
    due: bool
    #: How much work waits for the stage, whether it is due or not: sessions, gists or memories.
    waiting: int
    #: What the stage would do: `summarise 2 sessions`. Empty if it would do nothing.
    would: str
    #: Why the stage is due, or what it waits for.
    reason: str
    #: When the waiting work becomes due by itself; None if it is due, or if that depends on other things.
    at: str | None = None


class StuckStage(NamedTuple):
    """A stage that left work undone in the last pass."""

    stage: str
    #: How much work it left, and in how many passes in a row it made no progress.
    left: int
    attempts: int
    #: What went wrong, without any quotation.
    problem: str
    #: Until then, no automatic pass begins for the same work.
    retry_at: str


class NotDue(NamedTuple):
    """Why no pass was run when one was asked for only if it is due."""

    workspace: str
    why: str
    #: When the next automatic pass can begin; None if nothing waits.
    next_at: str | None = None


class DreamEstimate(NamedTuple):
    """What dreaming about everything that waits would take, if a model thinks."""

    #: Sessions with something new, and their new turns.
    sessions: int
    turns: int
    calls: int
    #: Tokens that the model would read and write.
    input_tokens: int
    output_tokens: int
    #: How many passes, and how many days, the caps on calls and tokens make of it. None if a cap allows nothing.
    passes: int | None
    days: int | None
    #: What thinks now. `extractive` costs nothing and has no caps.
    thinker: str


def cost(estimate: DreamEstimate) -> str:
    """What dreaming about what waits would take, in a sentence or two."""
    sessions = f"{estimate.sessions:,} {'session' if estimate.sessions == 1 else 'sessions'}"
    if not estimate.sessions:
        return "No session waits to be read."
    read, written = (_rounded(tokens) for tokens in (estimate.input_tokens, estimate.output_tokens))
    if estimate.thinker == "extractive":
        return (
            f"Dreaming about {sessions} costs nothing without a model. A model would read about {read} tokens and "
            f"write about {written}."
        )
    told = f"Dreaming about {sessions} takes about {read} tokens to read and {written} to write"
    if estimate.thinker == "agent":
        return f"{told}, by the agents that answer."
    if estimate.passes is None:
        return f"{told}. The caps on calls and tokens allow none."
    passes = f"{estimate.passes:,} {'pass' if estimate.passes == 1 else 'passes'}"
    days = f" on {estimate.days:,} days" if estimate.days is not None and estimate.days > 1 else ""
    return f"{told}. Within the caps that is {passes}{days}, the newest sessions first."


def _rounded(tokens: int) -> str:
    """Two digits say enough: `1,300,000`, `43,000`."""
    unit = 10 ** max(0, len(str(tokens)) - 2)
    return f"{round(tokens / unit) * unit:,}"


class DreamTotals(NamedTuple):
    """The sums over the reports of several workspaces."""

    workspaces: int
    #: Number of workspaces in which a pass ran, or would run in a dry run.
    passes: int
    gists: int
    eras: int
    #: Number of blocks written.
    blocks: int
    extracted: int
    proposals: int
    merged: int
    archived: int
    left_out: int
    calls: int
    input_tokens: int
    output_tokens: int
    #: Number of prompts that wait for an agent.
    waiting: int
    errors: int
    alarms: int
    seconds: float

    @classmethod
    def of(cls, reports: Sequence[DreamReport]) -> DreamTotals:
        def total(name: str) -> int:
            return sum(getattr(report, name) or 0 for report in reports)

        def number(name: str) -> int:
            return sum(len(getattr(report, name)) for report in reports)

        return cls(
            workspaces=len(reports),
            passes=sum(1 for report in reports if report.id or (report.dry_run and any(due.due for due in report.due))),
            gists=number("gists"),
            eras=number("eras"),
            blocks=number("blocks"),
            extracted=total("extracted"),
            proposals=total("proposals"),
            merged=total("merged"),
            archived=total("archived"),
            left_out=sum(sum((report.left_out or {}).values()) for report in reports),
            calls=total("calls"),
            input_tokens=total("input_tokens"),
            output_tokens=total("output_tokens"),
            waiting=total("waiting"),
            errors=number("errors"),
            alarms=number("alarms"),
            seconds=round(sum(sum(report.seconds.values()) for report in reports), 6),
        )


def summary(report: DreamReport) -> str:
    """A pass in one line, with numbers only: a log is not cleaned when something is forgotten."""
    if report.id is None:
        problem = without_quotes(report.errors[0]) if report.errors else ""
        return f"workspace {report.workspace}: no pass was started ({report.reason}): {problem}"
    counts = (
        (len(report.gists), "gists"),
        (len(report.eras), "eras"),
        (len(report.blocks), "blocks"),
        (report.extracted or 0, "statements"),
        (report.proposals or 0, "proposals"),
        (report.merged or 0, "merged"),
        (sum((report.left_out or {}).values()), "left out"),
        (report.calls, "model calls"),
    )
    done = ", ".join(f"{what}: {number}" for number, what in counts if number) or "nothing to write"
    problems = "".join(f"; {without_quotes(each)}" for each in [*report.errors[:3], *report.alarms[:1]])
    seconds = sum(report.seconds.values())
    return f"workspace {report.workspace}: pass {report.id} ({report.reason}), {seconds:.1f} s: {done}{problems}"
