"""The situation report: what an agent should know before it begins, within a budget of tokens.

Everything is read in one snapshot with a fixed number of queries. Then it is fitted into the budget. Each section first
gets a share, so that a long world state cannot hide the sessions, nor many sessions the world state. What is left goes
to the sections in order of importance. A section is cut only between lines, and then says how much is missing and which
command shows it. Costs are counted in quarters of a token, which add up exactly, so the budget is always kept.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from .. import checks
from ..clock import age, later
from ..records import WORLD
from ..safe_text import name, one_line, visible
from ..tokens import estimate, weight
from . import leases, messages, sessions
from .projects import default_project

if TYPE_CHECKING:
    from ..records import Holder
    from ..storage.engine import Row, Transaction
    from ..store_view import StoreView

DEFAULT_BUDGET = 1_000
#: How far back completed sessions are listed.
RECENT_HOURS = 24
SUMMARY_LENGTH = 100
#: Of a summary beside an outcome.
ASK_LENGTH = 50
MESSAGE_LENGTH = 500

# Only the head of a text is shown, so only that is read: a summary may be long.
_ACTIVE = """
SELECT id, type, SUBSTR(summary, 1, 400), '', heartbeat_at, project FROM sessions
WHERE workspace = :workspace AND status = 'active' AND type <> 'dream'
ORDER BY heartbeat_at DESC, id DESC
"""
_COMPLETED = """
SELECT id, type, SUBSTR(summary, 1, 400), SUBSTR(outcome, 1, 400), heartbeat_at, project FROM sessions
WHERE workspace = :workspace AND status = 'completed' AND heartbeat_at >= :since AND type <> 'dream'
ORDER BY heartbeat_at DESC, id DESC
"""
_WORLD = """
SELECT content, version, updated_by, updated_at FROM blocks WHERE workspace = :workspace AND name = :name
"""
_ALARMS = """
SELECT id, alarms FROM dreams WHERE workspace = :workspace AND session_id <> '' ORDER BY id DESC LIMIT 1
"""

_EMPTY = """\
No session is active in workspace {workspace!r} yet.
Begin: `engram session start TYPE "what you are doing"`, then `engram lock claim PATH` before you edit,
`engram message send` to reach other sessions, `engram world set` for what all agents should know."""


class _Session(NamedTuple):
    """A row of `_ACTIVE` or `_COMPLETED`."""

    id: str
    type: str
    summary: str
    #: Empty for a session at work: what came of an earlier completion is not what it is doing.
    outcome: str
    heartbeat_at: str
    project: str | None


class Section:
    """A heading, its lines, and what to say when not all of them fit."""

    def __init__(
        self, head: str, lines: list[str], unit: str, command: str, *, rank: int, share: float, optional: bool = False
    ) -> None:
        self.head = head
        self.lines = lines
        #: What one line is about; the plural adds an s to its first word: "line of the world state".
        self.unit = unit
        #: The command that shows all of them.
        self.command = command
        #: Sections with a low rank get room first.
        self.rank = rank
        #: The share of the budget that it may take before the other sections have had theirs.
        self.share = share
        #: Left out without a note when there is no room.
        self.optional = optional
        self.shown = 0
        self._costs = list(accumulate((_cost(line) for line in lines), initial=0))

    def text(self) -> list[str]:
        if self.optional and not self.shown:
            return []
        note = [self._note(self.shown)] if self.shown < len(self.lines) else []
        return [self.head, *self.lines[: self.shown], *note]

    def cost(self, shown: int) -> int:
        """The cost of the section with that many lines, in quarters of a token."""
        if self.optional and not shown:
            return 0
        note = _cost(self._note(shown)) if shown < len(self.lines) else 0
        return _cost(self.head) + self._costs[shown] + note

    def grow(self, left: int, most: int) -> int:
        """Show more lines while there is room; the room left after that."""
        before = self.cost(self.shown)
        while self.shown < len(self.lines):
            cost = self.cost(self.shown + 1)
            if cost > most or cost - before > left:
                break
            self.shown += 1
        return left - (self.cost(self.shown) - before)

    def counted(self, count: int, more: str = "") -> str:
        """`1 session`, `2 sessions`, `3 more lines of the world state`."""
        first, of, rest = self.unit.partition(" of ")
        return f"{count} {more}{first if count == 1 else first + 's'}{of}{rest}"

    def _note(self, shown: int) -> str:
        return f"… {self.counted(len(self.lines) - shown, 'more ' if shown else '')}: `{self.command}`"


def sitrep(
    view: StoreView,
    budget: int | None = DEFAULT_BUDGET,
    session_id: str | None = None,
    project: str | None = None,
) -> str:
    """The report as markdown, within `budget` tokens (None: uncut); with a session, its messages and project first."""
    if budget is not None:
        checks.whole(budget, "budget", least=1)
    with view.engine.read() as tx:
        now = tx.now()
        if session_id is not None:
            you = sessions.require(tx, view.workspace, session_id)
            project = project or you.project
        sections = _sections(tx, view, session_id, project or default_project(view.config) or "", now)
    head = f"# Situation in {view.workspace}, {now[:10]} {now[11:16]} UTC"
    if not sections:
        return _fit_plain(f"{head}\n{_EMPTY.format(workspace=view.workspace)}", budget)
    return _fit(head, sections, budget)


def _sections(tx: Transaction, view: StoreView, you: str | None, project: str, now: str) -> list[Section]:
    """The sections that have lines, in the order in which they are shown."""
    workspace = view.workspace
    stale_before = later(now, -view.config.stale_after)
    since = later(now, -RECENT_HOURS * 3_600)
    due = messages.due_before(now)
    unread = tx.all(messages.UNREAD, workspace=workspace, session=you, before=due) if you else []
    world = tx.one(_WORLD, workspace=workspace, name=WORLD)
    active = [_Session(*row) for row in tx.all(_ACTIVE, workspace=workspace)]
    held = [leases.holder(row, stale_before, now) for row in tx.all(leases.LIVE, workspace=workspace, now=now)]
    done = [_Session(*row) for row in tx.all(_COMPLETED, workspace=workspace, since=since)]
    # Sorting is stable: within "this project" and "the others", the latest heartbeat stays first.
    active.sort(key=lambda session: session.project != project)
    latest_pass, alarms = tx.one(_ALARMS, workspace=workspace) or (0, 0)
    sections = [
        Section(
            "**Dreaming raised an alarm:**",
            [_alarm(latest_pass, alarms)] if alarms else [],
            "alarm",
            "engram dream status",
            rank=0,
            share=0.1,
        ),
        Section(
            f"**Unread messages ({len(unread)}):**",
            [_message(row, now) for row in unread],
            "message",
            "engram message inbox",
            rank=3,
            share=0.25,
        ),
        _world(world, now),
        Section(
            f"**Active sessions ({len(active)}):**",
            [_session(session, stale_before, now, you) for session in active],
            "session",
            "engram session list",
            rank=1,
            share=0.35,
        ),
        Section(
            "**Locked resources:**",
            # Dreaming blocks no other session, so its leases are not listed.
            [_lease(holder) for holder in held if holder.session_type != "dream"],
            "lock",
            "engram lock list",
            rank=2,
            share=0.25,
        ),
        Section(
            "**Recently completed:**",
            [f"✓ {_what(session)} ({_where(session, now)})" for session in done],
            "completed session",
            "engram session list --all",
            rank=5,
            share=0.0,
            optional=True,
        ),
    ]
    return [section for section in sections if section.lines]


def _fit(head: str, sections: list[Section], budget: int | None) -> str:
    if budget is None:
        for section in sections:
            section.shown = len(section.lines)
        return _joined(head, sections)
    left = budget * 4 - _cost(head) - sum(section.cost(0) for section in sections)
    if left < 0:
        counts = ", ".join(section.counted(len(section.lines)) for section in sections)
        return _fit_plain(f"{counts}: `engram sitrep --budget {DEFAULT_BUDGET}`", budget)
    # First each section's share, then the rest: sessions and leases come before the tail of the world state.
    ranked = sorted(sections, key=lambda section: section.rank)
    for section in ranked:
        left = section.grow(left, int(budget * 4 * section.share))
    for section in ranked:
        left = section.grow(left, budget * 4)
    return _joined(head, sections)


def _joined(head: str, sections: list[Section]) -> str:
    return "\n".join([head, *(line for section in sections for line in section.text())])


def _fit_plain(text: str, budget: int | None) -> str:
    """A report without sections, cut at a character when it is too long."""
    if budget is None or estimate(text) <= budget:
        return text
    room = budget * 4 - weight("…")
    while weight(text) > room:
        text = text[: len(text) - max(1, (weight(text) - room) // 8)]
    return text + "…"


def _world(row: Row | None, now: str) -> Section:
    content, version, by, at = row or ("", 0, None, now)
    by_whom = f" by {one_line(by, SUMMARY_LENGTH)}" if by else ""
    # Quoted, so that nothing in it can pass for a line of the report itself.
    lines = [f"> {visible(line)}" for line in content.splitlines()] if content.strip() else []
    return Section(
        f"**World state** (version {version}, {age(at, now)}{by_whom}):",
        lines,
        "line of the world state",
        "engram world show",
        rank=4,
        share=0.15,
    )


def _session(session: _Session, stale_before: str, now: str, you: str | None) -> str:
    mark = "⚠ stale" if session.heartbeat_at < stale_before else "●"
    return f"{mark} {_what(session)} ({_where(session, now)}){' (you)' if session.id == you else ''}"


def _what(session: _Session) -> str:
    """The session, with what it set out to do and what came of it."""
    summary, outcome = one_line(session.summary, SUMMARY_LENGTH), one_line(session.outcome, SUMMARY_LENGTH)
    if outcome and summary and outcome != summary:
        summary = f"{one_line(session.summary, ASK_LENGTH)} → {outcome}"
    return f"{visible(session.id)} {visible(session.type)}: {summary or outcome or '(no summary)'}"


def _where(session: _Session, now: str) -> str:
    heard = age(session.heartbeat_at, now)
    return f"{heard}, {name(session.project)}" if session.project else heard


def _lease(holder: Holder) -> str:
    kind = "exclusive" if holder.exclusive else "advisory"
    held_by = f"{visible(holder.session_id)} ({visible(holder.session_type)})"
    return f"- {visible(holder.resource)} by {held_by}, {kind}" + (
        f": {one_line(holder.note, SUMMARY_LENGTH)}" if holder.note else ""
    )


def _alarm(latest_pass: int, alarms: int) -> str:
    raised = f"{alarms} {'alarm' if alarms == 1 else 'alarms'}"
    return f"⚠ pass {latest_pass}: {raised}; see `engram dream show {latest_pass}`"


def _message(row: Row, now: str) -> str:
    _, sender, _, text, at, _ = row
    return f"- from {visible(sender or 'a person')}, {age(at, now)}: {one_line(text, MESSAGE_LENGTH)}"


def _cost(line: str) -> int:
    """A line with its line break."""
    return weight(line) + 1
