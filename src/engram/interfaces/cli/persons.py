"""Whether a person runs a command.

The command line acts for a person: what it writes is approved. But agents run it too, from the shells that their
harness gives them. A harness marks those shells with a variable, and a command with a session acts for that session.
Then the command approves nothing.

This guards against accidents and against text that tells an agent to approve it. It is no sandbox: an agent with a
shell of the same user can unset a variable, or write to the store itself.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

from ...errors import Forbidden, InvalidInput, PersonNeeded
from .screen import say

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...client import Engram

Stored = TypeVar("Stored")

#: Variables that show an agent's shell, and what sets them. They are set only for the commands that an agent runs,
#: except CURSOR_TRACE_ID: Cursor sets it in every terminal inside the editor, and its agent uses those.
AGENT_VARIABLES = {
    "ENGRAM_SESSION": "a session acts",
    "AI_AGENT": "any agent that names itself",
    "CLAUDECODE": "Claude Code",
    "CLAUDE_CODE_SESSION_ID": "Claude Code",
    "CODEX_SANDBOX": "Codex",
    "CODEX_SANDBOX_NETWORK_DISABLED": "Codex",
    "CODEX_THREAD_ID": "Codex",
    "CODEX_CI": "Codex",
    "GEMINI_CLI": "Gemini CLI",
    "CURSOR_AGENT": "Cursor",
    "CURSOR_TRACE_ID": "Cursor",
}


def agent_variable() -> str | None:
    """The variable that shows that an agent runs this command, if there is one."""
    return next((name for name in AGENT_VARIABLES if os.environ.get(name)), None)


def is_person(session_id: str | None = None) -> bool:
    """Whether a person runs this command, and for no session."""
    return session_id is None and agent_variable() is None


def as_person(eng: Engram, session_id: str | None, call: Callable[[bool], Stored]) -> Stored:
    """What a call stored: as a person's, if a person runs this command and may say so.

    Over the network only an admin token speaks for a person. With another one it is stored as an agent's.
    """
    if not is_person(session_id):
        return call(False)
    try:
        return call(True)
    except Forbidden:
        if not eng.settings.is_remote:
            raise
    stored = call(False)
    say("Stored as an agent's, because only a token with scope admin speaks for a person.", err=True)
    return stored


def sender(eng: Engram, session_id: str | None) -> str | None:
    """The session that a message is from; None for a person.

    An agent that names no session sends as its own. InvalidInput if that is not certain: an agent's message must not
    pass for a person's.
    """
    variable = agent_variable()
    if session_id is not None or variable is None:
        return session_id
    own = _own_session(eng)
    if own is None:
        raise InvalidInput(
            f"This shell belongs to an agent: {variable} is set. So the message is not from a person, and the agent's "
            "session is not known.",
            typed="Give --session ID: `engram session list` shows the sessions, `engram session start` makes one.",
        )
    return own


def _own_session(eng: Engram) -> str | None:
    """The session of the agent whose shell this is, if it is certain."""
    from .. import harness_process

    external_id = os.environ.get("CLAUDE_CODE_SESSION_ID")
    named = eng.sessions.find(external_id, "claude-code") if external_id else None
    process = harness_process.find()
    started = eng.harness_processes.started(process) if process else []
    live = [each.id for each in started if each.status == "active"]
    # A harness that was started from Claude Code inherits its variable, but runs a session of its own.
    if named is not None and (not live or named.id in live):
        return named.id
    return live[0] if len(live) == 1 else None


def require_person(what: str, command: str) -> None:
    """PersonNeeded when an agent runs this command."""
    variable = agent_variable()
    if variable is not None:
        raise PersonNeeded(
            f"Only a person can {what}. This shell belongs to an agent: {variable} is set. "
            f"Ask the user to run it in their own terminal: {command}"
        )
