"""How many proposals wait: counted without reading them, and as many as are listed."""

from __future__ import annotations

import pytest

from engram import Engram
from engram.dreaming import plans


@pytest.mark.requirement("PROPOSAL-1")
def test_the_state_of_dreaming_counts_the_proposals_that_are_listed(eng: Engram) -> None:
    (report,) = eng.dream(force=True, stages=["consolidate"])
    memories = [eng.remember(f"Statement {number} about the first train", kind="note") for number in range(6)]
    found = [plans.archive(each, 90) for each in memories]
    block = eng.blocks.create("plan", "Go by train.")
    with eng._view.engine.read() as tx:
        (id,) = tx.column("SELECT id FROM blocks WHERE name = 'plan'")
    found.append(plans.Plan("rewrite", "it is old", 0.5, "Go by ship.", (("block", id, block.version),), (), {}))
    assert report.id is not None
    with eng._view.engine.write() as tx:
        for plan in found:
            assert eng.proposals.add(tx, plan, report.id)
    assert eng.dreams.status().proposals == len(eng.proposals.list()) == 7
    eng.memories.update(memories[0].id, "Another statement")
    eng.memories.archive(memories[1].id)
    eng.proposals.reject(eng.proposals.list()[0].id)
    assert eng.dreams.status().proposals == len(eng.proposals.list()) == 4
    eng.blocks.update("plan", "Go on foot.")
    assert eng.dreams.status().proposals == len(eng.proposals.list()) == 3
    assert len(eng.proposals.list(stale=True)) == 6
