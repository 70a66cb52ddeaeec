"""Replaces summaries and outcomes that repeat a forgotten exchange.

A copy names the exchange it repeats. A copy that an older release wrote names none, so it is also recognised by its
words.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ..coordination import summaries
from ..safe_text import one_line

if TYPE_CHECKING:
    from ..storage.engine import Transaction

#: A shortened copy has at least this many characters of its turn.
_ALIKE = 20
#: A copy is compared with at least this many characters of a turn.
_HEAD = 4_000
#: Stands for a secret; its end may be cut off.
_REDACTED = re.compile(r"\[redacted(?:: [^\]]{0,60}\]?)?")
#: How a hook describes a session without words: by the files it touched.
_TOUCHED = "Touched "

_COPIES = """
SELECT summary, summary_from, outcome, outcome_from FROM sessions WHERE workspace = :workspace AND id = :session
"""
# COALESCE keeps SQLite from reading the whole session through an index. The ids are selective enough.
_HEADS = """
SELECT SUBSTR(content, 1, :length) FROM exchanges
WHERE workspace = :workspace AND COALESCE(session_id, '') = :session AND COALESCE(role, '') <> 'log'
  AND id IN (SELECT value FROM json_each(:ids)) ORDER BY seq
"""
_SESSIONS_OF = """
SELECT DISTINCT session_id FROM exchanges
WHERE workspace = :workspace AND id IN (SELECT value FROM json_each(:ids))
"""
_LOSING_LEASES = """
SELECT DISTINCT s.id, s.summary, s.outcome, s.outcome_from
FROM leases l JOIN sessions s ON s.workspace = l.workspace AND s.id = l.session_id
WHERE l.workspace = :workspace AND l.ended_at < :before
"""


class Copies(NamedTuple):
    """The sessions that lose a copy of what is forgotten."""

    summaries: list[str]
    outcomes: list[str]


def find_copies(tx: Transaction, workspace: str, ids: list[int], ending: set[str], before: str | None) -> Copies:
    """Sessions whose summary or outcome repeats one of the exchanges that go; not the sessions that go themselves.

    With `before`, also those whose copy names the leases that go with it. Call it while the exchanges still exist.
    """
    repeating_summaries: set[str] = set()
    repeating_outcomes: set[str] = set()
    gone = set(ids)
    losing = set(tx.column(_SESSIONS_OF, workspace=workspace, ids=tx.array(ids)))
    for session in losing - ending:
        row = tx.one(_COPIES, workspace=workspace, session=session)
        summary, summary_from, outcome, outcome_from = row or ("", None, "", None)
        if summary and (summary_from in gone or _repeats_one(tx, workspace, session, summary, ids)):
            repeating_summaries.add(session)
        if outcome and (outcome_from in gone or _repeats_one(tx, workspace, session, outcome, ids)):
            repeating_outcomes.add(session)
    if before is not None:
        for session, summary, outcome, source in tx.all(_LOSING_LEASES, workspace=workspace, before=before):
            if session not in ending and summary.startswith(_TOUCHED):
                repeating_summaries.add(session)
            names_files = source is not None and summaries.FILES in outcome
            if session not in ending and (outcome.startswith(_TOUCHED) or names_files):
                repeating_outcomes.add(session)
    return Copies(sorted(repeating_summaries), sorted(repeating_outcomes))


def replace_copies(tx: Transaction, workspace: str, copies: Copies) -> None:
    """Quote what is left of each session: the user's first turn as its summary, the assistant's last as its outcome.

    Without such a turn the text is emptied. The caller has locked the sessions' rows and deleted the exchanges.
    """
    for session in copies.summaries:
        if not summaries.quote(tx, workspace, session, "user"):
            summaries.clear_summary(tx, workspace, session)
    for session in copies.outcomes:
        if not summaries.quote(tx, workspace, session, "assistant"):
            summaries.clear_outcome(tx, workspace, session)


def repeats(copy: str, text: str) -> bool:
    """Whether a copy is the text on one line, perhaps shortened.

    Secrets were removed from the two separately, so they may differ after a secret.
    """
    copy, plain = one_line(copy, len(copy)), one_line(text, len(text))
    if copy == plain:
        return True
    cut = copy.endswith("…")
    first, *others = _REDACTED.split(copy.removesuffix("…"))
    before, *marked = _REDACTED.split(plain)
    if marked:
        shorter = min(len(first), len(before))
        return shorter >= _ALIKE and first[:shorter] == before[:shorter]
    # The parts around removed secrets, in order. The first begins the turn; the last ends it, unless the copy is cut.
    if len(first) + sum(map(len, others)) < _ALIKE or not plain.startswith(first):
        return False
    position = len(first)
    for part in others:
        position = plain.find(part, position)
        if position < 0:
            return False
        position += len(part)
    return cut or plain.endswith(others[-1] if others else first)


def _repeats_one(tx: Transaction, workspace: str, session: str, copy: str, ids: list[int]) -> bool:
    """Whether a copy that names no exchange repeats one of these exchanges of its session."""
    # A secret or a run of blanks makes the turn longer than its copy.
    heads = tx.all(_HEADS, workspace=workspace, session=session, length=2 * len(copy) + _HEAD, ids=tx.array(ids))
    return any(repeats(copy, head) for (head,) in heads)
