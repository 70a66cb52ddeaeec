"""What a person has approved stays as it is until a person changes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engram import Engram, PersonNeeded

Open = Callable[..., Engram]


@pytest.mark.requirement("MEMORY-14")
def test_only_a_person_replaces_an_approved_memory_by_its_key(eng: Engram) -> None:
    kept = eng.remember("Deploy by hand.", kind="decision", key="deploy", by_person=True)
    with pytest.raises(PersonNeeded, match=f"Memory {kept.id} was approved by a person.*under another key"):
        eng.remember("Deploy at night.", kind="decision", key="deploy")
    assert [each.content for each in eng.memories.list()] == ["Deploy by hand."]
    assert eng.memories.get(kept.id).status == "active"
    eng.remember("Deploy at night.", kind="decision", key="deploy at night")
    new = eng.remember("Deploy at noon.", kind="decision", key="deploy", by_person=True)
    assert eng.memories.get(kept.id).superseded_by == new.id
    # Without its approval it is like any other.
    eng.memories.withdraw(new.id)
    eng.remember("Deploy twice a day.", kind="decision", key="deploy")


@pytest.mark.requirement("MEMORY-14")
@pytest.mark.parametrize("change", [{"pinned": False}, {"expires_at": "2030-01-01"}])
def test_only_a_person_unpins_or_ends_an_approved_memory(eng: Engram, change: dict[str, Any]) -> None:
    kept = eng.remember("Never push to main.", pinned=True, by_person=True)
    with pytest.raises(PersonNeeded, match="approved by a person"):
        eng.remember("Never push to main.", **change)
    with pytest.raises(PersonNeeded, match="approved by a person"):
        eng.memories.update(kept.id, **change)
    now = eng.memories.get(kept.id)
    assert (now.pinned, now.expires_at, now.reinforced) == (True, None, 0)
    eng.remember("Never push to main.")
    assert eng.memories.get(kept.id).reinforced == 1
    changed = eng.memories.update(kept.id, by_person=True, **change)
    assert (changed.pinned, changed.expires_at) != (True, None)


@pytest.mark.requirement("MEMORY-15")
def test_an_edit_by_anybody_but_a_person_has_at_most_the_trust_of_an_agent(eng: Engram) -> None:
    mine = eng.remember("Tabs, always.", trust="user", by_person=True)
    assert eng.memories.update(mine.id, importance=0.9).trust == "user"
    assert eng.memories.update(mine.id, "Tabs, except in YAML.", by_person=True).trust == "user"
    edited = eng.memories.update(mine.id, "Spaces, always.")
    assert (edited.trust, edited.approved) == ("agent", False)
    tool = eng.remember("The page says so.", trust="tool")
    assert eng.memories.update(tool.id, "The page said so.").trust == "tool"


@pytest.mark.requirement("MEMORY-14")
def test_a_pass_only_proposes_to_replace_what_a_person_has_approved(open_store: Open) -> None:
    eng = open_store(dream_min_age=0, dream_consolidate="apply", dream_resolve_conflicts="on")
    approved = {
        eng.remember("Invoices go out with the first train.", kind="note", by_person=True).id,
        eng.remember("The deploy runs on Friday.", kind="fact", by_person=True).id,
    }
    eng.remember("Invoices go out with the first train", kind="fact", importance=0.9)
    eng.remember("The deploy no longer runs on Friday.", kind="fact")
    (report,) = eng.dream(force=True, stages=["consolidate"])
    assert report.alarms == []
    assert sorted(each.what for each in eng.proposals.list()) == ["merge", "supersede"]
    assert approved <= {each.id for each in eng.memories.list()}
    assert all(eng.memories.get(id).approved for id in approved)
    # Nor does an agent that accepts the proposals.
    for proposal in eng.proposals.list():
        with pytest.raises(PersonNeeded, match="approved by a person"):
            eng.proposals.apply(proposal.id)
        eng.proposals.accept(proposal.id)
    (report,) = eng.dream(force=True, stages=["consolidate"])
    assert (report.alarms, report.skipped) == ([], 2)
    assert approved <= {each.id for each in eng.memories.list()}
    for proposal in eng.proposals.list("accepted"):
        eng.proposals.apply(proposal.id, by_person=True)
    assert not approved & {each.id for each in eng.memories.list()}


@pytest.mark.requirement("MEMORY-14")
def test_a_merge_that_leaves_an_approved_text_needs_no_decision(open_store: Open) -> None:
    eng = open_store(dream_min_age=0, dream_consolidate="apply")
    eng.remember("Invoices go out with the first train.", kind="note", by_person=True, importance=0.9)
    eng.remember("Invoices go out with the first train", kind="fact")
    eng.dream(force=True, stages=["consolidate"])
    (left,) = [each for each in eng.memories.list() if each.kind != "digest"]
    assert (left.content, left.approved) == ("Invoices go out with the first train.", True)
