"""The alarm: where recall does not find any more what it found before the pass, the changes that did it are taken back,
and everybody hears of it. What a pass that died could not prove, the next one does."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ..errors import UndoBlocked
from ..memory.index import OWN_SHELVES
from .journal import entries
from .shown import Outdated
from .undo import undo_actions

if TYPE_CHECKING:
    from collections.abc import Callable

    from .journal import Entry
    from .night import Night
    from .plans import Thing
    from .probe import Question

_UNPROVED = """
SELECT id FROM dreams
WHERE workspace = :workspace AND id < :dream AND ended_at IS NULL AND undoes IS NULL AND undone_by IS NULL ORDER BY id
"""
_SET_ENDED = "UPDATE dreams SET ended_at = :now WHERE workspace = :workspace AND id = :dream"


def check(night: Night) -> None:
    """Ask for everything once more; undo the actions that lost something, and keep the others."""
    lost = night.probe.lost(_untouched(night))
    guilty = {number for question in lost for number in night.actions_on({question.thing})}
    if guilty:
        with night.write() as tx:
            guilty = night.take_back(guilty)
            for number in guilty & night.changes.keys():
                plan, _ = night.changes.pop(number)
                with suppress(Outdated):
                    night.proposals.refuse(tx, plan, night.dream)
    for question in lost:
        night.alarms.append(_said(night, question, guilty))


def settle(night: Night) -> None:
    """Look at what passes that died have changed, before anything is built on it."""
    with night.engine.read() as tx:
        died = [row[0] for row in tx.all(_UNPROVED, workspace=night.workspace, dream=night.dream)]
    for dream in died:
        with night.engine.read() as tx:
            noted = entries(tx, night.workspace, dream)
        lost = _lost_by(night, noted)
        if lost:
            try:
                with night.write():
                    undo_actions(night.scope, dream, {number for numbers in lost.values() for number in numbers})
            except UndoBlocked:  # somebody has changed the same since; then what it says is theirs
                lost = {}
        for (kind, id), numbers in lost.items():
            night.alarms.append(
                f"{kind} {id} was not found by its own words after run {dream}, which did not end; "
                f"{_numbered(sorted(numbers))} taken back"
            )
        with night.write() as tx:
            tx.run(_SET_ENDED, workspace=night.workspace, dream=dream, now=tx.now())


def _lost_by(night: Night, noted: list[Entry]) -> dict[Thing, set[int]]:
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
        and night.probe.lacks(thing, entry.before["row"]["content"], entry.before["row"]["version"])
    }


def _was_to_be_found(row: dict[str, object]) -> bool:
    return row["status"] == "active" and row["expires_at"] is None and row["kind"] not in OWN_SHELVES


def _untouched(night: Night) -> Callable[[Thing], bool]:
    return lambda thing: not night.actions_on({thing})


def _said(night: Night, question: Question, guilty: set[int]) -> str:
    """Without a word of what was lost: reports are kept when it is forgotten."""
    kind, id = question.thing
    actions = sorted(night.actions_on({question.thing}) & guilty)
    what = f"{kind} {id} was found by its own words before this pass and not after it"
    if not actions:
        return f"{what}; no change of this pass touched it, so none was taken back"
    again = "it is found again" if night.probe.kept(question, _untouched(night)) else "it is still not found"
    return f"{what}; {_numbered(actions)} taken back, and {again}"


def _numbered(actions: list[int]) -> str:
    if len(actions) == 1:
        return f"action {actions[0]} was"
    return f"actions {', '.join(map(str, actions))} were"
