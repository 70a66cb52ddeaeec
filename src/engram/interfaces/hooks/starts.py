"""What events say about the process of a harness: which session it runs, and which ones it has left.

Claude Code, Codex and Gemini CLI run one session at a time in a process. Their start event shows that the process has
left its earlier session, even if the end event of that one is late or lost. Cursor, and a harness that serves an
editor, run several at once, so there a start says nothing about the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import events

if TYPE_CHECKING:
    from ...client import Engram
    from ...records import Session
    from .events import Told
    from .place import Place

#: Reasons for a start after which the process is no longer in its earlier session.
_REPLACES = frozenset({"startup", "new", "clear", "resume", "fork"})
#: The same, where the person has left the earlier session: it is completed.
_LEAVES = frozenset({"clear", "resume"})


def note(eng: Engram, told: Told, place: Place, session_id: str) -> None:
    """Note the process of the session's harness. What the harness's MCP server did before moves to the session."""
    process = place.process
    starts = told.kind == events.START
    alone = starts and told.reason in _REPLACES and place.runs_one
    eng.harness_processes.note(session_id, process, starts=starts, alone=alone)
    eng.harness_processes.take_over(session_id, process)


def left(eng: Engram, told: Told, place: Place, session_id: str) -> list[Session]:
    """The sessions that the process has left with this start, and that no other process runs."""
    process = place.process
    if process is None or told.reason not in _LEAVES or not place.runs_one:
        return []
    earlier = [each.id for each in eng.harness_processes.started(process) if each.status == "active"]
    return [eng.sessions.get(id) for id in earlier if id != session_id and not leave(eng, place, id)]


def leave(eng: Engram, place: Place, session_id: str) -> bool:
    """Whether another process runs the session, too. Then this one has only left it."""
    if not eng.harness_processes.runs_elsewhere(session_id, place.process):
        return False
    eng.harness_processes.leave(session_id, place.process)
    return True
