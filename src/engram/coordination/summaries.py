"""Summaries and outcomes that repeat an exchange of their session.

Every such copy is made here, together with the id of the exchange it repeats (`summary_from`, `outcome_from`).
Forgetting that exchange finds the copy by this id (`forgetting/summaries.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..safe_text import one_line

if TYPE_CHECKING:
    from ..storage.engine import Transaction

#: The roles that a session can quote: the user's first turn is its summary, the assistant's last turn or the last log
#: entry its outcome.
ROLES = ("user", "assistant", "log")
#: How much of an exchange a copy repeats.
LENGTH = 200

_TAKE = "UPDATE sessions SET last_seq = last_seq WHERE workspace = :workspace AND id = :id"
_SET_SUMMARY = """
UPDATE sessions SET summary = :text, summary_from = :source WHERE workspace = :workspace AND id = :id
"""
_SET_OUTCOME = """
UPDATE sessions SET outcome = :text, outcome_from = :source WHERE workspace = :workspace AND id = :id
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


def lock_row(tx: Transaction, workspace: str, id: str) -> bool:
    """Lock the session's row; whether it exists."""
    return bool(tx.run(_TAKE, workspace=workspace, id=id))


def quote(tx: Transaction, workspace: str, id: str, role: str) -> bool:
    """Copy an exchange of that role; whether there is one. The caller holds the session's row."""
    if role == "user":
        found = tx.one(_FIRST_OF_USER, workspace=workspace, id=id)
    elif role == "assistant":
        found = tx.one(_LAST_OF_ASSISTANT, workspace=workspace, id=id)
    else:
        found = tx.one(_LAST_LOG, workspace=workspace, id=id)
    if found is None:
        return False
    source, content = found
    if role == "user":
        _set_summary(tx, workspace, id, one_line(content, LENGTH), source)
    else:
        _set_outcome(tx, workspace, id, one_line(content, LENGTH), source)
    return True


def clear_summary(tx: Transaction, workspace: str, id: str) -> None:
    """Empty the session's summary. The caller holds the session's row."""
    _set_summary(tx, workspace, id, "", None)


def clear_outcome(tx: Transaction, workspace: str, id: str) -> None:
    """Empty the session's outcome. The caller holds the session's row."""
    _set_outcome(tx, workspace, id, "", None)


def _set_summary(tx: Transaction, workspace: str, id: str, text: str, source: int | None) -> None:
    tx.run(_SET_SUMMARY, workspace=workspace, id=id, text=text, source=source)
    tx.note(workspace, "session", id)


def _set_outcome(tx: Transaction, workspace: str, id: str, text: str, source: int | None) -> None:
    tx.run(_SET_OUTCOME, workspace=workspace, id=id, text=text, source=source)
    tx.note(workspace, "session", id)
