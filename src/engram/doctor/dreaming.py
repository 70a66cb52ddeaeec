"""Checks of dreaming: the thinker, the passes, and their journal."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ..clock import age, later
from ..dreaming.due import is_due, stuck
from ..dreaming.thinkers import Thinkers
from ..health_records import NOTE, WRONG, Check, Finding, counted, fine
from ..safe_text import without_quotes

if TYPE_CHECKING:
    from ..store_view import StoreView

#: Seconds after which a pass that did not end was killed.
LONGEST_PASS = 6 * 3_600.0
#: Seconds without a pass, although one is due, that are worth a note.
TOO_LONG = 2 * 86_400.0
#: Attempts without progress after which a stage counts as stuck.
ATTEMPTS = 3

_UNFINISHED = """
SELECT id, started_at FROM dreams WHERE workspace = :workspace AND ended_at IS NULL AND started_at < :limit ORDER BY id
"""
_LAST = "SELECT MAX(started_at) FROM dreams WHERE workspace = :workspace"
_UNDONE = """
SELECT COUNT(*) FROM dreams d
WHERE d.workspace = :workspace AND d.undone_by IS NOT NULL AND NOT EXISTS (
  SELECT 1 FROM dreams u WHERE u.id = d.undone_by AND u.workspace = d.workspace AND u.undoes = d.id)
"""
_LOST_ENTRIES = """
SELECT COUNT(*) FROM journal j
WHERE j.workspace = :workspace AND NOT EXISTS (SELECT 1 FROM dreams d WHERE d.id = j.dream)
"""


def checks(view: StoreView) -> list[Check]:
    return [
        Check("dreams.thinker", partial(_thinker, view)),
        Check("dreams.stuck", partial(_stuck, view)),
        Check("dreams.unfinished", partial(_unfinished, view)),
        Check("dreams.last", partial(_last, view)),
        Check("dreams.journal", partial(_journal, view)),
    ]


def _thinker(view: StoreView) -> Finding:
    used = next((each for each in Thinkers(view).list() if each.used), None) if view.llm is None else None
    if used is None or not used.problem:
        return fine("dreams.thinker", f"{view.thinker} thinks during passes.", view.workspace)
    return Finding(
        "dreams.thinker",
        WRONG,
        f"The thinker {used.name} cannot be used: {used.problem}",
        "Passes fail, or do what needs no model.",
        "engram dream thinker",
        number=1,
        workspace=view.workspace,
    )


def _stuck(view: StoreView) -> Finding:
    with view.engine.read() as tx:
        found = [each for each in stuck(tx, view.workspace) if each.attempts >= ATTEMPTS]
    if not found:
        return fine("dreams.stuck", "Every stage makes progress.", view.workspace)
    first = found[0]
    return Finding(
        "dreams.stuck",
        WRONG,
        f"The stage {first.stage} made no progress in {first.attempts} passes: {without_quotes(first.problem)}",
        "What it should derive is missing from briefs.",
        "engram dream status",
        number=len(found),
        workspace=view.workspace,
    )


def _unfinished(view: StoreView) -> Finding:
    with view.engine.read() as tx:
        rows = tx.all(_UNFINISHED, workspace=view.workspace, limit=later(tx.now(), -LONGEST_PASS))
    if not rows:
        return fine("dreams.unfinished", "Every pass came to its end.", view.workspace)
    return Finding(
        "dreams.unfinished",
        NOTE,
        f"{counted(len(rows), 'pass', 'passes')} did not end; the last is pass {rows[-1][0]} of {rows[-1][1]}.",
        "A pass that does not end was killed. The next pass does what it left.",
        f"engram dream show {rows[-1][0]}; engram dream undo {rows[-1][0]} takes it back",
        number=len(rows),
        workspace=view.workspace,
    )


def _last(view: StoreView) -> Finding:
    with view.engine.read() as tx:
        now = tx.now()
        last = tx.value(_LAST, workspace=view.workspace)
    shown = f"The last pass began {age(last, now)}." if last else "There was no pass yet."
    is_late = last is None or last < later(now, -TOO_LONG)
    if view.config.auto_dream == "off" or last is None or not is_late or not is_due(view):
        return fine("dreams.last", shown, view.workspace)
    return Finding(
        "dreams.last",
        NOTE,
        f"{shown} One has been due since.",
        "Passes do not start by themselves. dream.log and hook.log in the data folder may say why.",
        f"engram dream run --if-due --workspace {view.workspace}",
        number=1,
        workspace=view.workspace,
    )


def _journal(view: StoreView) -> Finding:
    with view.engine.read() as tx:
        number = tx.value(_UNDONE, workspace=view.workspace) + tx.value(_LOST_ENTRIES, workspace=view.workspace)
    if not number:
        return fine("dreams.journal", "The journal of passes and undos is consistent.", view.workspace)
    return Finding(
        "dreams.journal",
        WRONG,
        f"The journal of undone passes contradicts itself in {counted(number, 'entry', 'entries')}.",
        "An undo may be refused, or repeat what was undone.",
        "engram restore FILE, if a pass has to be undone",
        number=number,
        workspace=view.workspace,
    )
