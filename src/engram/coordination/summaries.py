"""Summaries and outcomes that repeat an exchange of their session.

Every such copy is made here, together with the id of the exchange it repeats (`summary_from`, `outcome_from`).
Forgetting that exchange finds the copy by this id (`forgetting/summaries.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..safe_text import one_line, visible

if TYPE_CHECKING:
    from ..storage.engine import Transaction

#: The roles that a session can quote: the user's first ask is its summary, the assistant's last result or the last log
#: entry its outcome.
ROLES = ("user", "assistant", "log")
#: How much of a log entry a copy repeats. `session_texts` has the lengths of the others.
LENGTH = 200
#: Stands before the files in an outcome. Forgetting finds them by it.
FILES = "Files: "
_ENDS = (".", "!", "?", "…", "。", ":")
#: The most files that an outcome names.
_MOST_FILES = 4

_TAKE = "UPDATE sessions SET last_seq = last_seq WHERE workspace = :workspace AND id = :id"
_SET_SUMMARY = """
UPDATE sessions SET summary = :text, summary_from = :source WHERE workspace = :workspace AND id = :id
"""
_SET_OUTCOME = """
UPDATE sessions SET outcome = :text, outcome_from = :source WHERE workspace = :workspace AND id = :id
"""
_FIRST_OF_USER = """
SELECT id, content FROM exchanges
WHERE workspace = :workspace AND session_id = :id AND role <> 'log' AND role = 'user' ORDER BY seq LIMIT 20
"""
_LAST_OF_ASSISTANT = """
SELECT id, content FROM exchanges
WHERE workspace = :workspace AND session_id = :id AND role <> 'log' AND role = 'assistant' ORDER BY seq DESC LIMIT 40
"""
# Files that were edited are claimed as advisory, without a note.
_EDITED = """
SELECT resource, MIN(token) FROM leases
WHERE workspace = :workspace AND session_id = :id AND exclusive = 0 AND note IS NULL
GROUP BY resource ORDER BY MIN(token)
"""
_PROJECT = "SELECT project FROM sessions WHERE workspace = :workspace AND id = :id"
_LAST_LOG = """
SELECT id, content FROM exchanges
WHERE workspace = :workspace AND session_id = :id AND role = 'log' ORDER BY seq DESC LIMIT 1
"""


def lock_row(tx: Transaction, workspace: str, id: str) -> bool:
    """Lock the session's row; whether it exists."""
    return bool(tx.run(_TAKE, workspace=workspace, id=id))


def quote(tx: Transaction, workspace: str, id: str, role: str) -> bool:
    """Copy an exchange of that role; whether there is one. The caller holds the session's row."""
    if role == "log":
        found = tx.one(_LAST_LOG, workspace=workspace, id=id)
        if found is not None:
            _set_outcome(tx, workspace, id, one_line(found[1], LENGTH), found[0])
        return found is not None
    # Imported here: most hooks quote nothing.
    from ..outcomes import last_result
    from .session_texts import first_ask

    if role == "user":
        ask = first_ask(tx.all(_FIRST_OF_USER, workspace=workspace, id=id))
        if ask is not None:
            _set_summary(tx, workspace, id, visible(ask[1]), ask[0])
        return ask is not None
    result = last_result(tx.all(_LAST_OF_ASSISTANT, workspace=workspace, id=id))
    if result is not None:
        text, files = visible(result[1]), _files(tx, workspace, id)
        if files:
            text += f"{'' if text.endswith(_ENDS) else '.'} {files}"
        _set_outcome(tx, workspace, id, text, result[0])
    return result is not None


def quote_first(tx: Transaction, workspace: str, id: str) -> None:
    """Copy the first prompt into the summary, whatever it says. For a session that is over: no better one will come."""
    from .session_texts import shortened_ask

    prompts = tx.all(_FIRST_OF_USER, workspace=workspace, id=id)
    if prompts:
        source, prompt = prompts[0]
        _set_summary(tx, workspace, id, visible(shortened_ask(prompt)), source)


def _files(tx: Transaction, workspace: str, id: str) -> str:
    """`Files: a.py, b.py and 3 more`: those that the session edited; empty if there are none."""
    project = tx.value(_PROJECT, workspace=workspace, id=id)
    edited = [resource.removeprefix(f"{project}:") for resource, _ in tx.all(_EDITED, workspace=workspace, id=id)]
    # The rest are names such as `staging`, and patterns.
    files = [visible(each) for each in edited if ("." in each or "/" in each) and "*" not in each]
    if not files:
        return ""
    more = f" and {len(files) - _MOST_FILES} more" if len(files) > _MOST_FILES else ""
    return one_line(f"{FILES}{', '.join(files[:_MOST_FILES])}{more}", LENGTH)


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
