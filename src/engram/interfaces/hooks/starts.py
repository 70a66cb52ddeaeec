"""What events say about the process of a harness: which session it runs, and which ones it has left.

Claude Code, Codex and Gemini CLI run one session at a time in a process. Their start event shows that the process has
left its earlier session, even if the end event of that one is late or lost. Cursor, and a harness that serves an
editor, run several at once, so there a start says nothing about the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import harness_process
from . import events

if TYPE_CHECKING:
    from ...client import Engram
    from ...records import Session
    from .events import Event

_ONE_AT_A_TIME = frozenset({"claude-code", "codex", "gemini"})
#: Reasons for a start after which the process is no longer in its earlier session.
_REPLACES = frozenset({"startup", "new", "clear", "resume", "fork"})
#: The same, where the person has left the earlier session: it is completed.
_LEAVES = frozenset({"clear", "resume"})


def note(eng: Engram, event: Event, harness: str, session_id: str) -> None:
    """Note the process of the session's harness. What the harness's MCP server did before moves to the session."""
    process = harness_process.find()
    starts = event.kind == events.START
    alone = starts and event.reason in _REPLACES and _runs_one(harness, process)
    eng.harness_processes.note(session_id, process, starts=starts, alone=alone)
    eng.harness_processes.take_over(session_id, process)


def left(eng: Engram, event: Event, harness: str, session_id: str) -> list[Session]:
    """The sessions that the process has left with this start, and that no other process runs."""
    process = harness_process.find()
    if process is None or event.reason not in _LEAVES or not _runs_one(harness, process):
        return []
    earlier = [each.id for each in eng.harness_processes.started(process) if each.status == "active"]
    return [eng.sessions.get(id) for id in earlier if id != session_id and not leave(eng, id)]


def leave(eng: Engram, session_id: str) -> bool:
    """Whether another process runs the session, too. Then this one has only left it."""
    process = harness_process.find()
    if not eng.harness_processes.runs_elsewhere(session_id, process):
        return False
    eng.harness_processes.leave(session_id, process)
    return True


def _runs_one(harness: str, process: str | None) -> bool:
    return harness in _ONE_AT_A_TIME and process is not None and not harness_process.has_many_sessions(process)
