"""Which session a server's client is: the one that the hooks of the same client report, if that is certain.

A hook notes the process of its harness when a session starts, and the server is a child of the same process. The
newest start event of the process decides, because `/clear` and `/resume` change the session under a running server. So
the session is looked up at each call, which is one indexed read.

Claude Code also puts the id of its session into the server's environment. That id stays what it was when the server
started. So it decides as long as its session is the newest of the process, or the process is unknown. It is not used if
the hooks of that session ran in another process: then another harness inherited it from Claude Code.

If several sessions of one process are at work at the same time (an editor, an app server), nothing tells which of them
made a call, unless the newest start shows that the process has left the others. Then the server does not guess: the
client gets a session of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ... import processes
from .. import external_ids, harness_process

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...client import Engram

#: The variable with Claude Code's session id, and the name that Claude Code gives itself as an MCP client. It is also
#: the type of the sessions that its hooks report.
VARIABLE, CLAUDE_CODE = "CLAUDE_CODE_SESSION_ID", "claude-code"


class Origin(NamedTuple):
    """What a server knows about the program that started it."""

    #: The harness's process; None if unknown.
    process: str | None = None
    #: Claude Code's session id when the server started.
    external_id: str | None = None
    #: The server's own process; None if unknown.
    server: str | None = None


class Known(NamedTuple):
    """A session that the hooks of a client report, or that another server of the same client registered."""

    id: str
    status: str
    project: str | None


def origin(environ: Mapping[str, str]) -> Origin:
    id = environ.get(VARIABLE)
    return Origin(harness_process.find(), external_ids.storable(id) if id else None, processes.own())


def find(eng: Engram, origin: Origin, client: str) -> Known | None:
    """The client's session, also if it has ended; None if there is none or if it is not certain."""
    started = eng.harness_processes.started(origin.process) if origin.process else []
    live = [each for each in started if each.status == "active"]
    named = _named(eng, origin, client)
    if named is not None and not live and named.id not in [each.id for each in started]:
        return named
    if live and eng.harness_processes.current(started) is None and (named is None or named.id != live[0].id):
        return None
    return next((Known(each.id, each.status, each.project) for each in live or started), None)


def is_ambiguous(eng: Engram, origin: Origin) -> bool:
    """Whether several sessions of the client's process are at work, and nothing tells which one makes a call."""
    started = eng.harness_processes.started(origin.process) if origin.process else []
    return any(each.status == "active" for each in started) and eng.harness_processes.current(started) is None


def note(eng: Engram, origin: Origin | None, session_id: str) -> None:
    """Note the server's process with a session that no hook reports, so that others see when both are gone."""
    if origin is not None and origin.server is not None and not eng.harness_processes.of(session_id):
        eng.harness_processes.note_server(session_id, origin.server, origin.process)


def new_external_id(eng: Engram, origin: Origin, client: str) -> str | None:
    """The id for a session that the client registers: that of its hooks, which may be installed later.

    None if it is unknown, or if there is a session with that id: `find` decides about that one.
    """
    id = origin.external_id if client == CLAUDE_CODE else None
    return id if id and eng.sessions.find(id, CLAUDE_CODE) is None else None


def _named(eng: Engram, origin: Origin, client: str) -> Known | None:
    """The session of the id in the environment, unless hooks reported it from another process."""
    if client != CLAUDE_CODE or not origin.external_id:
        return None
    session = eng.sessions.find(origin.external_id, CLAUDE_CODE)
    if session is None:
        return None
    processes = eng.harness_processes.of(session.id)
    elsewhere = origin.process is not None and processes and origin.process not in processes
    return None if elsewhere else Known(session.id, session.status, session.project)
