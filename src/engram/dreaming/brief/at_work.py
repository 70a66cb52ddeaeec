"""Who else is at work in this project, and what is claimed; and one line about other projects."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ... import wording
from ...clock import age_in_words, between, duration
from ...coordination.sections import Entry, Section
from ...safe_text import name, one_line, visible

if TYPE_CHECKING:
    from collections.abc import Mapping, Set

    from .snapshot import Session, Snapshot

_SUMMARY, _NOTE = 120, 80
#: Claims that are named beside a session, and projects that are named in the line about the others.
_CLAIMS, _PROJECTS = 6, 5

# Only claims on resources that still hold. Dreaming blocks no other session.
_CLAIMED = """
SELECT l.session_id, l.resource, l.exclusive, l.note FROM leases l
JOIN sessions s ON s.workspace = l.workspace AND s.id = l.session_id
WHERE l.workspace = :workspace AND l.ended_at IS NULL AND (l.expires_at IS NULL OR l.expires_at > :now)
  AND s.type <> 'dream'
ORDER BY l.token
"""
_CLAIMED_THEN = """
SELECT l.session_id, l.resource, l.exclusive, l.note FROM leases l
JOIN sessions s ON s.workspace = l.workspace AND s.id = l.session_id
WHERE l.workspace = :workspace AND l.claimed_at <= :now AND COALESCE(l.ended_at, '9') > :now
  AND COALESCE(l.expires_at, '9') > :now AND s.type <> 'dream'
ORDER BY l.token
"""


class Claim(NamedTuple):
    #: The resource with its note.
    text: str
    #: Whether the resource belongs to this project.
    here: bool


Claims = dict[str, list[Claim]]


def claims(snapshot: Snapshot) -> Claims:
    """The claims by session, those of a subagent under the session that started it."""
    values = {"workspace": snapshot.workspace, "now": snapshot.now}
    tx = snapshot.tx
    rows = tx.all(_CLAIMED_THEN, **values) if snapshot.past else tx.all(_CLAIMED, **values)
    owners = _owners(snapshot.at_work)
    found: Claims = {}
    for session, resource, exclusive, note in rows:
        of_project = f"{snapshot.project}:"
        shown = visible(resource.removeprefix(of_project))
        details = ", ".join(filter(None, ["exclusive" if exclusive else "", one_line(note or "", _NOTE)]))
        claim = Claim(f"{shown} ({details})" if details else shown, resource.startswith(of_project))
        found.setdefault(owners.get(session, session), []).append(claim)
    return found


def here(snapshot: Snapshot, claimed: Claims, told: Set[str]) -> Section:
    """The sessions of this project, with their claims, and those of other projects that claim something here.

    Silent sessions that are `told` about below are left out. Those without a summary and a claim are only counted.
    """
    owners = _owners(snapshot.at_work)
    entries = []
    idle = 0
    # A claim matters more than how recently a session was heard.
    for session in sorted(_others(snapshot, owners), key=lambda each: each.id not in claimed):
        held = claimed.get(session.id, [])
        if session.id not in told and (session.project == snapshot.project or any(claim.here for claim in held)):
            children = sum(owners[each.id] == session.id for each in snapshot.at_work) - 1
            if held or _about(session):
                entries.append(Entry(_line(snapshot, session, children, held), ("session", session.id)))
            else:
                idle += 1
    if idle:
        several = f"{idle} {'session' if idle == 1 else 'sessions'}"
        entries.append(Entry(f"- {'and ' if entries else ''}{several} without a task."))
    return Section("## Also at work in this project", entries, "session", "engram session list", rank=2, share=0.12)


def elsewhere(snapshot: Snapshot) -> Section | None:
    """One line about the sessions of other projects."""
    others = [each for each in _others(snapshot, _owners(snapshot.at_work)) if each.project != snapshot.project]
    if not others:
        return None
    projects = list(dict.fromkeys(name(each.project) if each.project else "no project" for each in others))
    named = ", ".join(projects[:_PROJECTS])
    more = f" and {len(projects) - _PROJECTS} more" if len(projects) > _PROJECTS else ""
    many = "1 session" if len(others) == 1 else f"{len(others)} sessions"
    return Section(
        f"Other projects: {many} at work in {named}{more}.", [], "session", "engram session list", rank=9, share=0.0
    )


def named(snapshot: Snapshot, id: str) -> str:
    """A session as the brief names it: its task if that is known, its agent and its id."""
    session = next((each for each in (*snapshot.at_work, *snapshot.over) if each.id == id), None)
    about = wording.shorten(_about(session), _NOTE) if session else ""
    return f"{about} ({visible(session.type)}, session {visible(id)})" if session and about else visible(id)


def listed(claimed: list[Claim]) -> str:
    more = f" and {len(claimed) - _CLAIMS} more (`engram lock list`)" if len(claimed) > _CLAIMS else ""
    return ", ".join(claim.text for claim in claimed[:_CLAIMS]) + more


def _others(snapshot: Snapshot, owners: Mapping[str, str]) -> list[Session]:
    """The sessions at work, without the reader and without subagents. A subagent's parent is another session to it."""
    return [each for each in snapshot.at_work if owners[each.id] == each.id != snapshot.you]


def _line(snapshot: Snapshot, session: Session, children: int, claimed: list[Claim]) -> str:
    silent = duration(between(session.heard_at, snapshot.now)) if snapshot.is_stale(session) else ""
    about = wording.shorten(_about(session), _SUMMARY)
    details = [
        visible(session.type),
        name(session.project) if session.project != snapshot.project else "",
        f"⚠ silent for {silent}" if silent else age_in_words(session.heard_at, snapshot.now),
        f"+ {children} {'subagent' if children == 1 else 'subagents'}" if children else "",
        f"session {visible(session.id)}",
    ]
    line = f"- {about or '(no summary)'} ({', '.join(filter(None, details))})"
    return f"{line}\n  has claimed: {listed(claimed)}" if claimed else line


def _about(session: Session) -> str:
    return next(wording.asks([session.summary]), "")


def _owners(at_work: list[Session]) -> Mapping[str, str]:
    """For each session at work, the session that started it, directly or through others, and is at work too."""
    parents = {each.id: each.parent_id for each in at_work}
    owners = {}
    for id in parents:
        top, seen = id, {id}
        while (above := parents[top]) is not None and above in parents and above not in seen:
            top = above
            seen.add(top)
        owners[id] = top
    return owners
