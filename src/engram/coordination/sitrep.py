"""The situation report: what an agent should know before it begins, within a budget of tokens.

Everything is read in one snapshot with a fixed number of queries. Then `sections` fits it into the budget.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from .. import checks
from ..clock import age, later
from ..records import WORLD
from ..safe_text import by_whom, name, one_line, visible
from . import leases, messages, sessions
from .projects import default_project
from .sections import Entry, Section, fit, fit_plain, joined, world_state

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
SELECT id, type, SUBSTR(summary, 1, 400), '', heartbeat_at, project, parent_id, author FROM sessions
WHERE workspace = :workspace AND status = 'active' AND type <> 'dream'
ORDER BY heartbeat_at DESC, id DESC
"""
_COMPLETED = """
SELECT id, type, SUBSTR(summary, 1, 400), SUBSTR(outcome, 1, 400), heartbeat_at, project, parent_id, author
FROM sessions
WHERE workspace = :workspace AND status = 'completed' AND heartbeat_at >= :since AND type <> 'dream'
ORDER BY heartbeat_at DESC, id DESC
"""
_WORLD = """
SELECT content, version, updated_by, updated_at, author FROM blocks WHERE workspace = :workspace AND name = :name
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
    parent_id: str | None
    author: str | None
    #: How many of its subagents are in the same list; they have no line of their own.
    subagents: int = 0


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
        sections = _sections(tx, view, session_id, project or default_project(view) or "", now)
    head = f"# Situation in {view.workspace}, {now[:10]} {now[11:16]} UTC"
    if not sections:
        return fit_plain(f"{head}\n{_EMPTY.format(workspace=view.workspace)}", budget)
    return joined(fit(head, sections, budget, f"engram sitrep --budget {DEFAULT_BUDGET}"))


def _sections(tx: Transaction, view: StoreView, you: str | None, project: str, now: str) -> list[Section]:
    """The sections that have lines, in the order in which they are shown."""
    workspace = view.workspace
    stale_before = later(now, -view.config.stale_after)
    since = later(now, -RECENT_HOURS * 3_600)
    due = messages.due_before(now)
    unread = tx.all(messages.UNREAD, workspace=workspace, session=you, before=due) if you else []
    world = tx.one(_WORLD, workspace=workspace, name=WORLD)
    active = _fold([_Session(*row) for row in tx.all(_ACTIVE, workspace=workspace)], you)
    held = [leases.holder(row, stale_before, now) for row in tx.all(leases.LIVE, workspace=workspace, now=now)]
    at_work = {session.id for session in active}
    done = [_Session(*row) for row in tx.all(_COMPLETED, workspace=workspace, since=since)]
    done = _fold([session for session in done if session.parent_id not in at_work], you)
    # Sorting is stable: within "this project" and "the others", the latest heartbeat stays first.
    active.sort(key=lambda session: session.project != project)
    latest_pass, alarms = tx.one(_ALARMS, workspace=workspace) or (0, 0)
    sections = [
        Section(
            "**Dreaming raised an alarm:**",
            [Entry(_alarm(latest_pass, alarms))] if alarms else [],
            "alarm",
            "engram dream status",
            rank=0,
            share=0.1,
        ),
        Section(
            f"**Unread messages ({len(unread)}):**",
            [Entry(_message(row, now)) for row in unread],
            "message",
            "engram message inbox",
            rank=3,
            share=0.25,
        ),
        _world(world, now),
        Section(
            f"**Active sessions ({len(active)}):**",
            [Entry(_session(session, stale_before, now, you)) for session in active],
            "session",
            "engram session list",
            rank=1,
            share=0.35,
        ),
        Section(
            "**Locked resources:**",
            # Dreaming blocks no other session, so its leases are not listed.
            [Entry(_lease(holder)) for holder in held if holder.session_type != "dream"],
            "lock",
            "engram lock list",
            rank=2,
            share=0.25,
        ),
        Section(
            "**Recently completed:**",
            [Entry(f"✓ {_what(session)} ({_where(session, now)})") for session in done],
            "completed session",
            "engram session list --all",
            rank=5,
            share=0.0,
            optional=True,
        ),
    ]
    return [section for section in sections if section.entries]


def _world(row: Row | None, now: str) -> Section:
    content, version, actor, at, author = row or ("", 0, None, now, None)
    head = (
        f"**World state** ({' '.join(filter(None, (f'version {version}, {age(at, now)}', by_whom(author, actor))))}):"
    )
    return world_state(head, content, rank=4, share=0.15)


def _session(session: _Session, stale_before: str, now: str, you: str | None) -> str:
    mark = "⚠ stale" if session.heartbeat_at < stale_before else "●"
    return f"{mark} {_what(session)} ({_where(session, now)}){' (you)' if session.id == you else ''}"


def _fold(sessions: list[_Session], you: str | None) -> list[_Session]:
    """The sessions without the subagents of those in the list, which are counted."""
    ids = {session.id for session in sessions}
    children = [session for session in sessions if session.parent_id in ids and session.id != you]
    if not children:
        return sessions
    counts = Counter(child.parent_id for child in children)
    folded = {child.id for child in children}
    return [session._replace(subagents=counts[session.id]) for session in sessions if session.id not in folded]


def _what(session: _Session) -> str:
    """The session, with what it set out to do and what came of it."""
    summary = one_line(session.summary, SUMMARY_LENGTH)
    outcome = one_line(session.outcome, SUMMARY_LENGTH) if session.outcome else ""
    if outcome and summary and outcome != summary:
        summary = f"{one_line(session.summary, ASK_LENGTH)} → {outcome}"
    who = " ".join(filter(None, (visible(session.id), visible(session.type), by_whom(session.author))))
    return f"{who}: {summary or outcome or '(no summary)'}"


def _where(session: _Session, now: str) -> str:
    heard = age(session.heartbeat_at, now)
    where = f"{heard}, {name(session.project)}" if session.project else heard
    if not session.subagents:
        return where
    return f"{where}, + {session.subagents} {'subagent' if session.subagents == 1 else 'subagents'}"


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
    _, sender, _, text, at, author, _ = row
    return f"- from {messages.sent_by(sender, author)}, {age(at, now)}: {one_line(text, MESSAGE_LENGTH)}"
