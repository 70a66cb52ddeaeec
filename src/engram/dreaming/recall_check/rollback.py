"""The alarm: where recall does not find any more what it found before the pass, the changes that did it are taken back,
and everybody hears of it. What a pass that died could not prove, the next one does."""

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

_UNPROVED = """
SELECT id FROM dreams
WHERE workspace = :workspace AND id < :dream AND ended_at IS NULL AND undoes IS NULL AND undone_by IS NULL ORDER BY id
"""
_SET_ENDED = "UPDATE dreams SET ended_at = :now WHERE workspace = :workspace AND id = :dream"


def check(context: PassContext) -> None:
    """Ask for everything once more; undo the actions that lost something, and keep the others."""
    lost = context.probe.lost(_untouched(context))
    guilty = {number for question in lost for number in context.actions_on({question.thing})}
    if guilty:
        with context.write() as tx:
            guilty = context.take_back(guilty)
            for number in guilty & context.changes.keys():
                plan, _ = context.changes.pop(number)
                with suppress(Outdated):
                    context.proposals.refuse(tx, plan, context.dream)
    for question in lost:
        context.alarms.append(_said(context, question, guilty))


def settle(context: PassContext) -> None:
    """Look at what passes that died have changed, before anything is built on it."""
    with context.engine.read() as tx:
        died = [row[0] for row in tx.all(_UNPROVED, workspace=context.workspace, dream=context.dream)]
    for dream in died:
        with context.engine.read() as tx:
            noted = entries(tx, context.workspace, dream)
        lost = _lost_by(context, noted)
        if lost:
            try:
                with context.write():
                    undo_actions(context.view, dream, {number for numbers in lost.values() for number in numbers})
            except UndoBlocked:  # somebody has changed the same since; then what it says is theirs
                lost = {}
        for (kind, id), numbers in lost.items():
            context.alarms.append(
                f"{kind} {id} was not found by its own words after run {dream}, which did not end; "
                f"{_numbered(sorted(numbers))} taken back"
            )
        with context.write() as tx:
            tx.run(_SET_ENDED, workspace=context.workspace, dream=dream, now=tx.now())


def _lost_by(context: PassContext, noted: list[Entry]) -> dict[Thing, set[int]]:
    """What a run changed and is not found any more, with the actions that changed it."""
    first: dict[Thing, Entry] = {}
    actions: dict[Thing, set[int]] = {}
    for entry in noted:
        if entry.thing[0] == "memory":
            thing = ("memory", int(entry.thing[1]))
            first.setdefault(thing, entry)
            actions.setdefault(thing, set()).add(entry.action)
    return {
        thing: actions[thing]
        for thing, entry in first.items()
        if entry.before is not None
        and _was_to_be_found(entry.before["row"])
        and context.probe.lacks(thing, entry.before["row"]["content"], entry.before["row"]["version"])
    }


def _was_to_be_found(row: dict[str, object]) -> bool:
    return row["status"] == "active" and row["expires_at"] is None and row["kind"] not in OWN_SHELVES


def _untouched(context: PassContext) -> Callable[[Thing], bool]:
    return lambda thing: not context.actions_on({thing})


def _said(context: PassContext, question: Question, guilty: set[int]) -> str:
    """Without a word of what was lost: reports are kept when it is forgotten."""
    kind, id = question.thing
    actions = sorted(context.actions_on({question.thing}) & guilty)
    what = f"{kind} {id} was found by its own words before this pass and not after it"
    if not actions:
        return f"{what}; no change of this pass touched it, so none was taken back"
    again = "it is found again" if context.probe.kept(question, _untouched(context)) else "it is still not found"
    return f"{what}; {_numbered(actions)} taken back, and {again}"


def _numbered(actions: list[int]) -> str:
    if len(actions) == 1:
        return f"action {actions[0]} was"
    return f"actions {', '.join(map(str, actions))} were"
