"""What a command says about an empty workspace: what would fill it.

This is one table, so that a new command needs one row. `common.Command` shows the line after the command's own output,
on standard error, and never with --json.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...client import Engram
    from ...config import Config

_SESSIONS = "The sessions of your agents fill it."
_START = "Start with `engram init`, or watch `engram demo`."

#: For each command, what fills the part that it shows.
FILLED_BY = {
    **dict.fromkeys(("sitrep", "brief", "recall", "timeline", "history", "context", "stats", "activity"), _SESSIONS),
    **dict.fromkeys(("session list", "session show", "session logs", "harnesses", "graph"), _SESSIONS),
    "workspace list": _SESSIONS,
    **dict.fromkeys(
        ("memory list", "memory show", "memory history"),
        "`engram remember TEXT` stores a memory, and dreaming learns others from sessions.",
    ),
    **dict.fromkeys(
        ("block list", "block show", "world show", "world history"),
        "`engram world set TEXT` tells all agents how things stand.",
    ),
    **dict.fromkeys(
        ("dream status", "dream list", "dream review", "dream show", "dream undo", "usage"),
        "Dreaming begins by itself after the first sessions.",
    ),
    "receipts": "`engram forget` leaves receipts of what it deleted.",
    **dict.fromkeys(("message inbox", "message list"), "`engram message send person TEXT` leaves a message."),
    **dict.fromkeys(
        ("lock list", "lock check"), "Agents claim the files that they edit; so does `engram lock claim PATH`."
    ),
    "import": "`engram import --help` lists the formats.",
}


def _has_content(eng: Engram) -> bool:
    """Whether something is in the workspace. A pass of dreaming that found nothing is nothing."""
    if eng.workspace_name not in eng.workspace_names():
        return False
    looks = (eng.sessions.list, eng.receipts, eng.messages.list)
    return bool(eng.memories.list(limit=1) or eng.blocks.list() or any(look(1) for look in looks))


def hint(name: str, eng: Engram, settings: Config) -> str:
    """The line for a command; empty if the workspace is not, or if nothing is to be said."""
    filled_by = FILLED_BY.get(name)
    if filled_by is None or eng.settings.is_remote or _has_content(eng):
        return ""
    from ...maintenance import has_backups

    if not eng.workspace_names() and has_backups(settings):
        return f"{settings.url} is missing or empty, but it has backups: `engram restore --list` shows them."
    return f"Workspace {eng.workspace_name} is empty. {filled_by} {_START}"
