"""Summaries that repeat an exchange of their session.

Every such copy is made here, together with `summary_from`, the id of the exchange it repeats. Forgetting that exchange
finds the copy by this id (`forgetting/summaries.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..safe_text import one_line

if TYPE_CHECKING:
    from ..storage.engine import Transaction

#: Whose words can stand for a session: the user's first turn, the assistant's last one, the last log entry.
ROLES = ("user", "assistant", "log")
#: How much of an exchange a summary repeats.
LENGTH = 200

_TAKE = "UPDATE sessions SET last_seq = last_seq WHERE workspace = :workspace AND id = :id"
_QUOTE = """
UPDATE sessions SET summary = :summary, summary_from = :source WHERE workspace = :workspace AND id = :id
"""
_FIRST_OF_USER = """
SELECT id, content FROM exchanges
WHERE workspace = :workspace AND session_id = :id AND role <> 'log' AND role = 'user' ORDER BY seq LIMIT 1
"""
_LAST_OF_ASSISTANT = """
SELECT id, content FROM exchanges
WHERE workspace = :workspace AND session_id = :id AND role <> 'log' AND role = 'assistant' ORDER BY seq DESC LIMIT 1
"""
_LAST_LOG = """
SELECT id, content FROM exchanges
WHERE workspace = :workspace AND session_id = :id AND role = 'log' ORDER BY seq DESC LIMIT 1
"""


def take(tx: Transaction, workspace: str, id: str) -> bool:
    """Hold the session's row; whether there is one."""
    return bool(tx.run(_TAKE, workspace=workspace, id=id))


def quote(tx: Transaction, workspace: str, id: str, role: str) -> bool:
    """Let an exchange of that role be the summary; whether there is one. The caller holds the session's row."""
    if role == "user":
        found = tx.one(_FIRST_OF_USER, workspace=workspace, id=id)
    elif role == "assistant":
        found = tx.one(_LAST_OF_ASSISTANT, workspace=workspace, id=id)
    else:
        found = tx.one(_LAST_LOG, workspace=workspace, id=id)
    if found is None:
        return False
    source, content = found
    tx.run(_QUOTE, workspace=workspace, id=id, summary=one_line(content, LENGTH), source=source)
    tx.note(workspace, "session", id)
    return True


def clear(tx: Transaction, workspace: str, id: str) -> None:
    """Leave the session without a summary. The caller holds the session's row."""
    tx.run(_QUOTE, workspace=workspace, id=id, summary="", source=None)
    tx.note(workspace, "session", id)
