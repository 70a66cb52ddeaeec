"""The alarm: where recall does not find any more what it found before the pass, the changes that did it are taken back,
and everybody hears of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from .night import Night
    from .plans import Thing
    from .probe import Question


def check(night: Night) -> None:
    """Ask for everything once more; undo the actions that lost something, and keep the others."""
    lost = night.probe.lost(_untouched(night))
    guilty = {number for question in lost for number in night.actions_on({question.thing})}
    if guilty:
        with night.write() as tx:
            guilty = night.take_back(guilty)
            for number in guilty & night.changes.keys():
                plan, _ = night.changes.pop(number)
                night.proposals.refuse(tx, plan, night.dream)
    for question in lost:
        night.alarms.append(_said(night, question, guilty))


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
