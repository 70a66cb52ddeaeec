"""Operations on sessions, claims and messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput
from .inputs import (
    BUDGET,
    CURSOR,
    LIMIT,
    ME,
    ME_IF_KNOWN,
    PROJECT,
    REASON,
    SESSION_ID,
    Input,
    Operation,
    Pages,
    duration,
    flag,
    text,
    whole,
)

if TYPE_CHECKING:
    from ..client import Engram
    from ..dream_records import Brief

_RESOURCE = text("resource", "path, glob or any name", required=True)
_SUMMARY = text("summary", "what you are working on")
_BRIEF = (
    ME_IF_KNOWN,
    BUDGET,
    PROJECT._replace(rare=True),
    text("at", "how things stood at that time; ISO 8601", rare=True),
)
_OUTCOME = text("outcome", "result of your work", formerly="summary")


def _show_session(eng: Engram, id: str, limit: int = 20) -> object:
    session = eng.sessions.get(id)
    return {**session._asdict(), "leases": eng.leases.list(id), "logs": eng.sessions.logs(id, limit)}


def _list_sessions(
    eng: Engram,
    all: bool = False,
    limit: int = 50,
    subagents: bool = False,
    start: tuple[str, str] | tuple[()] | None = None,
    project: str | None = None,
    type: str | None = None,
    **when: Any,
) -> object:
    # Imported here: an MCP server lists the operations before it does anything else.
    from .. import checks

    # Sessions of some time or status may have ended.
    all = all or bool(when)
    if all:
        chosen = {"project": project, "type": type, **when}
        found = eng.sessions.list(limit, subagents=subagents, before=start or None, **chosen)
    else:
        found = eng.sessions.active(subagents=subagents)
        found = [each for each in found if project in (None, each.project) and type in (None, each.type)]
        most = checks.whole(limit, "limit", least=0) or None
        if start or (start is not None and most is not None and len(found) >= most):
            # They do not fit on one page. Heartbeats change their order, so pages go by when they began.
            found.sort(key=lambda each: (each.created_at, each.id), reverse=True)
            found = [each for each in found if not start or (each.created_at, each.id) < start]
        found = found[:most]
    counts = eng.sessions.subagents(active=not all)
    return [{**session._asdict(), "subagents": counts.get(session.id, 0)} for session in found]


def _brief(
    eng: Engram,
    session: str | None = None,
    budget: int | None = None,
    project: str | None = None,
    at: str | None = None,
) -> Brief:
    return eng.briefing(session, project, eng.settings.brief_budget if budget is None else budget, at=at)


def _claim(
    eng: Engram, session: str, resource: str, exclusive: bool = False, wait: float = 0, **options: Any
) -> object:
    if wait and not exclusive:
        raise InvalidInput("wait needs exclusive: an advisory claim is granted at once.")
    return eng.leases.claim(session, resource, exclusive=exclusive, wait=wait, **options)


def _break(eng: Engram, session: str, resource: str, reason: str, token: int | None = None) -> object:
    # Left out when it is not given: a server of an earlier release does not know it.
    options = {} if token is None else {"token": token}
    return eng.leases.break_lease(resource, session, reason, **options)


def _release(eng: Engram, session: str, resource: str | None = None) -> object:
    if resource is None:
        return eng.leases.release_all(session)
    return [eng.leases.release(session, resource)]


OPERATIONS = (
    Operation(
        "sitrep",
        "read",
        "The situation report: messages, world state, who is at work, what is locked.",
        lambda eng, session=None, budget=1_000, project=None: eng.sitrep(budget, session, project),
        (ME_IF_KNOWN, BUDGET, PROJECT._replace(rare=True)),
    ),
    Operation(
        "brief",
        "read",
        "What you should know before you begin: messages, who is at work, what is known, where we left off.",
        lambda eng, **options: _brief(eng, **options).text,
        _BRIEF,
    ),
    Operation(
        "brief.lines",
        "read",
        "The lines of the brief, each with what it shows: a memory, session, message or block.",
        lambda eng, **options: _brief(eng, **options).lines,
        _BRIEF,
    ),
    Operation("stats", "read", "Counts of what is in the workspace.", lambda eng: eng.sessions.stats()),
    Operation(
        "doctor",
        "admin",
        "What is wrong with the store and this workspace, and what to do. Needs a token for all workspaces.",
        lambda eng, full=False: eng.doctor(full=full),
        (flag("full", "read everything"),),
        store_wide=True,
    ),
    Operation(
        "changes",
        "read",
        "Changes after a change number.",
        lambda eng, after=0, limit=1_000, start=None: eng.changes(start[0] if start else after, limit),
        (whole("after", "change number"), whole("limit"), CURSOR),
        Pages(("number",), (int,), 1_000),
    ),
    Operation(
        "session.register",
        "write",
        "Start a session; its id.",
        lambda eng, type, summary, parent=None, **options: {
            "id": eng.sessions.register(type, summary, parent_id=parent, **options)
        },
        (
            text("type", "kind of agent", required=True),
            text("summary", "what you are doing", required=True),
            text("name", "name for people"),
            PROJECT,
            text("external_id", "id that the harness gave it; an existing session is resumed"),
            text("parent", "session that started it"),
            Input("metadata", "object", "metadata to keep"),
        ),
    ),
    Operation(
        "session.heartbeat",
        "write",
        "Report what you are working on.",
        lambda eng, session, summary=None: eng.sessions.heartbeat(session, summary),
        (ME, _SUMMARY),
    ),
    Operation(
        "session.log",
        "write",
        "Log a step.",
        lambda eng, session, text: eng.sessions.log(session, text),
        (ME, text("text", required=True)),
    ),
    Operation(
        "session.complete",
        "write",
        "End your session with its outcome; releases your leases.",
        lambda eng, session, outcome=None: eng.sessions.complete(session, outcome),
        (ME, _OUTCOME),
    ),
    Operation(
        "session.list",
        "read",
        "Sessions at work.",
        _list_sessions,
        (
            flag("all", "include ended"),
            LIMIT,
            flag("subagents", "list them too, not only their number")._replace(rare=True),
            text("since", "begun then or later; ISO 8601", rare=True),
            text("until", "begun before; ISO 8601", rare=True),
            PROJECT._replace(rare=True),
            text("type", "kind of agent", rare=True),
            text("status", choices=("active", "idle", "completed", "abandoned"), rare=True),
            CURSOR,
        ),
        Pages(("created_at", "id"), (str, str), 50),
    ),
    Operation(
        "session.show",
        "read",
        "One session with its locks and latest log.",
        _show_session,
        (SESSION_ID, LIMIT),
    ),
    Operation(
        "message.send",
        "write",
        "Send to a session, the holders of a resource, * (all) or person (the user).",
        # A message without a session would be from a person, and a person does not call operations.
        lambda eng, session, to, text: eng.messages.send(session, to, text),
        (ME, text("to", "session id, resource, * or person", required=True), text("text", required=True)),
    ),
    Operation(
        "message.inbox",
        "write",
        "Unread messages; reading marks them as read.",
        lambda eng, session, peek=False: eng.messages.inbox(session, peek=peek),
        (ME, flag("peek", "leave them unread")),
    ),
    Operation(
        "message.list",
        "read",
        "All messages, newest first; marks nothing as read.",
        lambda eng, limit=50, of_session=None, start=None: eng.messages.list(
            limit, before=start[0] if start else None, session_id=of_session
        ),
        (LIMIT, text("of_session", "only what this session sent or was sent", rare=True), CURSOR),
        Pages(("id",), (int,), 50),
    ),
    Operation(
        "lock.claim",
        "write",
        "Claim it before you change it; shows other claims.",
        _claim,
        (
            ME,
            _RESOURCE,
            text("note", "purpose"),
            flag("exclusive", "fail if others hold it"),
            duration("ttl", "until it expires, like 10m"),
            duration("wait", "up to 5m", bounds=(0, 300)),
        ),
    ),
    Operation(
        "lock.release",
        "write",
        "Release it; without resource, all.",
        _release,
        (ME, _RESOURCE._replace(required=False)),
    ),
    Operation(
        "lock.check", "read", "Claims that overlap it.", lambda eng, resource: eng.leases.check(resource), (_RESOURCE,)
    ),
    Operation(
        "lock.list",
        "read",
        "All claims.",
        lambda eng, of=None: eng.leases.list(of),
        (text("of", "only this session's", rare=True),),
    ),
    Operation(
        "lock.overlaps",
        "read",
        "Pairs of claims of different sessions that overlap now.",
        lambda eng, limit=100: eng.leases.overlaps(limit),
        (LIMIT,),
    ),
    Operation(
        "lock.break",
        "admin",
        "Take a resource from the sessions that hold it.",
        _break,
        (
            ME,
            _RESOURCE,
            REASON._replace(required=True),
            whole("token", "only the claim with this fencing token", rare=True),
        ),
    ),
)
