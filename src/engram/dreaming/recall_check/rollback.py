"""Undoes changes of a pass that made recall lose something, and raises an alarm.

If a pass died before its own check, the next pass checks what it changed.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ...errors import UndoBlocked
from ...memory.word_index import OWN_SHELVES
from ..grounds import Outdated
from ..undo.journal import entries
from ..undo.reversal import undo_actions

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...memory.provenance import Thing
    from ..pass_context import PassContext
    from ..undo.journal import Entry
    from .probe import Question

_UNFINISHED = """
SELECT id FROM dreams
WHERE workspace = :workspace AND id < :dream AND ended_at IS NULL AND undoes IS NULL AND undone_by IS NULL ORDER BY id
"""
_SET_ENDED = "UPDATE dreams SET ended_at = :now WHERE workspace = :workspace AND id = :dream"


def check_recall(context: PassContext) -> None:
    """Ask for everything again. Undo the actions that lost something and keep the others."""
    lost = context.probe.find_lost(_untouched(context))
    guilty = {number for question in lost for number in context.actions_on({question.thing})}
    if guilty:
        with context.write() as tx:
            guilty = context.undo_actions(guilty)
            for number in guilty & context.changes.keys():
                plan, _ = context.changes.pop(number)
                with suppress(Outdated):
                    context.proposals.reject_plan(tx, plan, context.dream)
    for question in lost:
        context.alarms.append(_describe_loss(context, question, guilty))


def check_unfinished_passes(context: PassContext) -> None:
    """Check what passes that died have changed, before anything builds on it."""
    with context.engine.read() as tx:
        unfinished = tx.column(_UNFINISHED, workspace=context.workspace, dream=context.dream)
    for dream in unfinished:
        with context.engine.read() as tx:
            noted = entries(tx, context.workspace, dream)
        lost = _lost_by(context, noted)
        if lost:
            try:
                with context.write():
                    undo_actions(context.view, dream, {number for numbers in lost.values() for number in numbers})
            except UndoBlocked:  # the same things were changed since, which is no loss
                lost = {}
        for (kind, id), numbers in lost.items():
            context.alarms.append(
                f"{kind} {id} was not found by its own words after pass {dream}, which did not end; "
                f"{_name_actions(sorted(numbers))} undone"
            )
        with context.write() as tx:
            tx.run(_SET_ENDED, workspace=context.workspace, dream=dream, now=tx.now())


def _lost_by(context: PassContext, noted: list[Entry]) -> dict[Thing, set[int]]:
    """Memories that a pass changed and that recall does not find now, with the actions that changed them."""
    first: dict[Thing, Entry] = {}
    actions: dict[Thing, set[int]] = {}
    for entry in noted:
        kind, ref = entry.thing
        if kind == "memory":
            thing = (kind, int(ref))
            first.setdefault(thing, entry)
            actions.setdefault(thing, set()).add(entry.action)
    return {
        thing: actions[thing]
        for thing, entry in first.items()
        if entry.before is not None
        and _should_be_found(entry.before["row"])
        and context.probe.misses(thing, entry.before["row"]["content"], entry.before["row"]["version"])
    }


def _should_be_found(row: dict[str, object]) -> bool:
    """Whether recall was expected to find this memory."""
    return row["status"] == "active" and row["expires_at"] is None and row["kind"] not in OWN_SHELVES


def _untouched(context: PassContext) -> Callable[[Thing], bool]:
    return lambda thing: not context.actions_on({thing})


def _describe_loss(context: PassContext, question: Question, guilty: set[int]) -> str:
    """The alarm. It quotes nothing, because reports stay when the text is forgotten."""
    kind, id = question.thing
    actions = sorted(context.actions_on({question.thing}) & guilty)
    what = f"{kind} {id} was found by its own words before this pass and not after it"
    if not actions:
        return f"{what}; no change of this pass touched it, so none was undone"
    again = "it is found again" if context.probe.is_kept(question, _untouched(context)) else "it is still not found"
    return f"{what}; {_name_actions(actions)} undone, and {again}"


def _name_actions(actions: list[int]) -> str:
    numbers = ", ".join(map(str, actions))
    return f"action {numbers} was" if len(actions) == 1 else f"actions {numbers} were"
