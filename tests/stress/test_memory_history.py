"""Two processes change the same memory at once; its history has every change, in order."""

from __future__ import annotations

import pytest

from engram import Engram
from engram.config import load
from tests.stress._processes import Crew, Parent, scaled

CHANGES = scaled(12, 100)


def change(parent: Parent, url: str, id: int, name: str) -> None:
    """Set and take back what only this process changes."""
    with Engram(settings=load(url=url, embedder="none")) as eng:
        parent.tell("ready")
        parent.wait()
        for number in range(CHANGES):
            if name == "weigher":
                eng.memories.update(id, importance=(number + 1) / (CHANGES + 1), actor=name)
            elif number % 2:
                eng.memories.withdraw(id, actor=name)
            else:
                eng.memories.approve(id, actor=name)


@pytest.mark.requirement("MEMORY-10")
def test_two_processes_that_change_one_memory_leave_an_unbroken_history(store_url: str, crew: Crew) -> None:
    with Engram(settings=load(url=store_url, embedder="none")) as eng:
        made = eng.remember("We ship on Fridays", importance=0.0)
    workers = [crew.start(change, store_url, made.id, name) for name in ("weigher", "approver")]
    for worker in workers:
        worker.hear()
    for worker in workers:
        worker.call()
    for worker in workers:
        worker.result()
    with Engram(settings=load(url=store_url, embedder="none")) as eng:
        states = eng.memories.states(made.id)[::-1]
        assert [each.actor for each in states].count("weigher") == CHANGES
        assert [each.actor for each in states].count("approver") == CHANGES
        # Each state changes one thing: no process has overwritten what the other one wrote.
        assert {len(each.changes) for each in states} == {1}
        assert [each.at for each in states] == sorted(each.at for each in states)
        now = eng.memories.get(made.id)
        assert (states[-1].importance, states[-1].approved) == (now.importance, now.approved)
        for state in states:
            then = eng.memories.get(made.id, at=state.at)
            last = [each for each in states if each.at <= state.at][-1]
            assert (then.importance, then.approved) == (last.importance, last.approved)
