"""Proposals: what waits for somebody's decision, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engram import Conflict, DreamNotFound, DreamReport, Engram, InvalidInput, Proposal, ProposalNotFound, ProposalStale

from .._logical import logical
from .._tables import holds

Open = Callable[..., Engram]
WORDINGS = ("Invoices go out with the first train.", "Invoices go out with the first train")


@pytest.fixture
def eng(open_store: Open) -> Engram:
    return open_store(dream_min_age=0)


def dream(eng: Engram) -> Any:
    (report,) = eng.dream(force=True, stages=["consolidate"])
    return report


def proposed(eng: Engram) -> Proposal:
    """Two memories that say the same, and the proposal to make them one."""
    for text, kind in zip(WORDINGS, ("note", "fact"), strict=True):
        eng.remember(text, kind=kind)
    dream(eng)
    (proposal,) = eng.proposals.list()
    return proposal


@pytest.mark.requirement("PROPOSAL-1")
def test_a_proposal_says_what_why_how_surely_from_where_and_shows_a_diff(eng: Engram) -> None:
    proposal = proposed(eng)
    assert (proposal.state, proposal.what, proposal.content) == ("pending", "merge", WORDINGS[0])
    assert proposal.why == "memories 1, 2 say the same"
    assert 0.9 < proposal.confidence <= 1
    assert proposal.sources == proposal.targets == (("memory", 1), ("memory", 2))
    assert proposal.diff.split("\n") == [
        *("--- memory 1, memory 2", "+++ one text", "@@ -1,2 +1 @@"),
        *(f" {WORDINGS[0]}", f"-{WORDINGS[1]}"),
    ]
    assert eng.proposals.show(proposal.id) == proposal
    assert [change.what for change in eng.changes()].count("proposal") == 1


@pytest.mark.requirement("PROPOSAL-2")
def test_applying_does_it_once_however_often_it_is_called(eng: Engram) -> None:
    proposal = proposed(eng)
    applied = eng.proposals.apply(proposal.id)
    assert applied.state == "applied"
    assert applied.result is not None
    assert eng.memories.get(applied.result).content == WORDINGS[0]
    assert eng.proposals.apply(proposal.id) == applied
    assert [memory.id for memory in eng.memories.list()] == [applied.result]
    assert eng.proposals.list() == []
    assert eng.proposals.list("applied") == eng.proposals.list(None) == [applied]


@pytest.mark.requirement("PROPOSAL-2")
def test_an_edited_proposal_is_applied_with_the_new_text(eng: Engram) -> None:
    proposal = proposed(eng)
    edited = eng.proposals.edit(proposal.id, "Invoices go out with the first train of the day.")
    assert (edited.state, edited.decided_at is not None) == ("edited", True)
    applied = eng.proposals.apply(proposal.id)
    assert applied.result is not None
    assert eng.memories.get(applied.result).content == "Invoices go out with the first train of the day."


@pytest.mark.requirement("PROPOSAL-2")
def test_decisions_can_be_changed_until_it_is_applied(eng: Engram) -> None:
    proposal = proposed(eng)
    assert eng.proposals.reject(proposal.id).state == "rejected"
    with pytest.raises(Conflict, match="rejected"):
        eng.proposals.apply(proposal.id)
    assert eng.proposals.accept(proposal.id).state == "accepted"
    eng.proposals.apply(proposal.id)
    for decide in (eng.proposals.accept, eng.proposals.reject):
        with pytest.raises(Conflict, match="is already applied"):
            decide(proposal.id)


@pytest.mark.requirement("PROPOSAL-10")
def test_a_decision_on_a_text_that_was_edited_meanwhile_is_refused(eng: Engram) -> None:
    read = proposed(eng)
    edited = eng.proposals.edit(read.id, "Invoices go out at any time.", expected=read.version)
    assert edited.version != read.version
    decisions: tuple[Callable[[], Proposal], ...] = (
        lambda: eng.proposals.accept(read.id, by_person=True, expected=read.version),
        lambda: eng.proposals.apply(read.id, by_person=True, expected=read.version),
        lambda: eng.proposals.apply(read.id, content="Mine", by_person=True, expected=read.version),
        lambda: eng.proposals.edit(read.id, "Mine", by_person=True, expected=read.version),
        lambda: eng.proposals.reject(read.id, expected=read.version),
    )
    for decide in decisions:
        with pytest.raises(Conflict, match="edited meanwhile"):
            decide()
    assert eng.proposals.show(read.id) == edited
    applied = eng.proposals.apply(read.id, expected=edited.version)
    assert eng.proposals.apply(read.id, expected=edited.version) == applied
    with pytest.raises(Conflict, match="edited meanwhile"):
        eng.proposals.apply(read.id, expected=read.version)


@pytest.mark.requirement("PROPOSAL-10")
def test_a_decision_of_another_session_on_the_same_text_changes_no_version(eng: Engram) -> None:
    read = proposed(eng)
    assert eng.proposals.reject(read.id).version == read.version
    assert eng.proposals.accept(read.id, by_person=True, expected=read.version).version == read.version
    number = eng.proposals.apply(read.id, expected=read.version).applied_as
    eng.dreams.undo(number)
    assert eng.proposals.show(read.id) == read._replace(decided_at=eng.proposals.show(read.id).decided_at)


@pytest.mark.requirement("PROPOSAL-2")
def test_a_text_is_edited_and_applied_in_one_step(eng: Engram) -> None:
    proposal = proposed(eng)
    text = "Invoices go out with the first train of the day."
    applied = eng.proposals.apply(proposal.id, content=text, by_person=True, expected=proposal.version)
    assert applied.result is not None
    memory = eng.memories.get(applied.result)
    assert (memory.content, memory.approved, applied.content) == (text, True, text)
    assert eng.proposals.apply(proposal.id, content=text) == applied
    with pytest.raises(Conflict, match="already applied"):
        eng.proposals.apply(proposal.id, content="Another text")


@pytest.mark.requirement("PROPOSAL-2")
def test_what_is_not_there_or_cannot_be_is_said(eng: Engram) -> None:
    eng.blocks.create("notes", "The long corridor. " * 9, max_tokens=19)
    dream(eng)
    (proposal,) = eng.proposals.list()
    with pytest.raises(InvalidInput, match="no text"):
        eng.proposals.edit(proposal.id, "another")
    with pytest.raises(InvalidInput, match="no text"):
        eng.proposals.apply(proposal.id, content="another")
    with pytest.raises(ProposalNotFound, match="99"):
        eng.proposals.show(99)
    with pytest.raises(InvalidInput, match="pending"):
        eng.proposals.list("sleeping")


@pytest.mark.requirement("PROPOSAL-3")
@pytest.mark.parametrize("change", ["edited", "archived"])
def test_applying_refuses_when_a_target_has_changed_since(eng: Engram, change: str) -> None:
    proposal = proposed(eng)
    if change == "edited":
        eng.memories.update(1, "Invoices go out at noon.")
    else:
        eng.memories.archive(1)
    with pytest.raises(ProposalStale, match="Memory 1 has changed"):
        eng.proposals.apply(proposal.id)
    assert {memory.id: memory.status for memory in (eng.memories.get(1), eng.memories.get(2))}[2] == "active"
    assert eng.proposals.show(proposal.id).stale
    assert eng.proposals.list() == []


@pytest.mark.requirement("PROPOSAL-3")
def test_a_block_that_was_written_since_is_not_cut(eng: Engram) -> None:
    eng.blocks.create("notes", "The long corridor. " * 9, max_tokens=19)
    dream(eng)
    (proposal,) = eng.proposals.list()
    eng.blocks.append("notes", "And a door.")
    with pytest.raises(ProposalStale, match="notes"):
        eng.proposals.apply(proposal.id)
    assert eng.memories.list() == []


@pytest.mark.requirement("PROPOSAL-4")
@pytest.mark.parametrize("policy", ["propose", "apply"])
def test_a_rejected_proposal_is_neither_made_nor_done_again(eng: Engram, open_store: Open, policy: str) -> None:
    proposal = proposed(eng)
    eng.proposals.reject(proposal.id)
    eng.memories.update(1, tags=["new"])  # it is compared again
    report = dream(open_store(dream_min_age=0, dream_consolidate=policy))
    assert (report.groups, report.proposals, report.merged, report.skipped) == (1, 0, 0, 1)
    assert len(eng.memories.list()) == 2
    eng.memories.update(1, WORDINGS[0].replace("first", "very first"))
    eng.memories.update(2, WORDINGS[1].replace("first", "very first"))
    assert dream(eng).proposals == 1


@pytest.mark.requirement("PROPOSAL-5")
@pytest.mark.parametrize("state", ["pending", "edited", "rejected", "applied"])
def test_forgetting_erases_what_was_proposed_about_it(eng: Engram, store_url: str, state: str) -> None:
    session = eng.sessions.register("import", "talk")
    turn = eng.exchanges.add(session, "user", "We decided to call it Zanzibar.", trust="import")
    other = eng.exchanges.add(session, "user", "We decided to paint the house.", trust="import")
    eng.dream(force=True)
    (proposal, _) = eng.proposals.list()
    if state == "edited":
        eng.proposals.edit(proposal.id, "The name is Zanzibar.")
    elif state != "pending":
        (eng.proposals.reject if state == "rejected" else eng.proposals.apply)(proposal.id)
    eng.forget(exchange=turn)
    assert holds(store_url, "Zanzibar") == {}
    assert [each.sources for each in eng.proposals.list()] == [(("exchange", other),)]


@pytest.mark.requirement("PROPOSAL-5")
def test_forgetting_part_of_a_memory_erases_the_proposal_that_quotes_it(eng: Engram, store_url: str) -> None:
    proposed(eng)
    eng.forget(memory=2)
    assert eng.proposals.list(None) == []
    assert eng.memories.get(1).status == "active"


@pytest.mark.requirement("PROPOSAL-6")
def test_what_was_agreed_to_is_done_by_the_next_pass(eng: Engram) -> None:
    proposal = proposed(eng)
    eng.proposals.accept(proposal.id)
    report = dream(eng)
    assert (report.merged, report.alarms) == (2, [])
    assert eng.proposals.show(proposal.id).state == "applied"
    assert len([memory for memory in eng.memories.list() if memory.kind != "digest"]) == 1


@pytest.mark.requirement("PROPOSAL-8")
def test_what_was_applied_by_hand_is_undone_by_its_run_and_must_be_decided_again(eng: Engram) -> None:
    proposal = proposed(eng)
    before, passes = logical(eng), eng.dreams.list()
    applied = eng.proposals.apply(proposal.id)
    assert applied.applied_as is not None and logical(eng) != before
    report = eng.dreams.show(applied.applied_as)
    assert isinstance(report, DreamReport) and (report.proposal, report.errors) == (proposal.id, [])
    # It is no pass: neither the list of passes nor an undo without a number takes it for one.
    assert eng.dreams.list() == passes
    with pytest.raises(DreamNotFound):
        eng.dreams.undo()
    undone = eng.dreams.undo(applied.applied_as)
    assert logical(eng) == before
    assert (eng.proposals.show(proposal.id).state, eng.proposals.show(proposal.id).applied_as) == ("pending", None)
    # The next pass does not do it by itself, and undoing the undo does it again.
    dream(eng)
    assert [memory.id for memory in eng.memories.list()] == [2, 1]
    eng.dreams.undo(undone.id)
    assert [memory.id for memory in eng.memories.list()] == [applied.result]


@pytest.mark.requirement("PROPOSAL-8")
def test_an_applied_proposal_is_not_decided_again_and_the_error_names_the_run_to_undo(eng: Engram) -> None:
    applied = eng.proposals.apply(proposed(eng).id)
    with pytest.raises(Conflict, match=rf"`engram dream undo {applied.applied_as}`"):
        eng.proposals.reject(applied.id)


@pytest.mark.requirement("PROPOSAL-8")
def test_applying_by_hand_pushes_no_pass_out_of_the_journal(eng: Engram, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engram.dreaming.undo.journal.KEPT_DREAMS", 1)
    session = eng.sessions.register("codex", "talk")
    eng.exchanges.add(session, "user", "The invoices are late again.")
    (first,) = eng.dream(force=True)
    eng.proposals.apply(proposed(eng).id)
    assert first.id is not None
    assert eng.dreams.undo(first.id).run == first.id


@pytest.mark.requirement("PROPOSAL-9")
def test_proposals_are_listed_in_pages_and_stale_ones_on_request(eng: Engram) -> None:
    texts = (
        "Invoices go out with the first train",
        "The nightly backup is stored in Zurich",
        "Anna reviews every migration",
        "The cache forgets sessions at midnight",
        "Green tea belongs to the kitchen",
    )
    ends = ((".", "note"), ("", "fact"))
    pairs = [[eng.remember(f"{text}{end}", kind=kind) for end, kind in ends] for text in texts]
    dream(eng)
    stale = next(each.id for each in eng.proposals.list() if ("memory", pairs[1][0].id) in each.targets)
    eng.memories.update(pairs[1][0].id, content="The nightly backup is gone.")
    every = [each.id for each in eng.proposals.list(None)]
    rest = [each for each in every if each != stale]
    assert len(rest) == 4

    def listed(**options: Any) -> list[int]:
        return [each.id for each in eng.proposals.list(**options)]

    assert listed() == rest
    assert listed(stale=True) == every
    # A page is full although a stale proposal is among its rows.
    assert listed(limit=2) == rest[:2]
    assert listed(limit=3) == rest[:3]
    assert listed(limit=2, after=rest[1]) == rest[2:]
    assert listed(limit=2, after=every[-1]) == []
    assert listed(limit=2, latest=True, stale=True) == every[::-1][:2]
    assert listed(limit=3, latest=True, after=rest[-1]) == rest[-2::-1]
    assert listed(what="archive") == []
    assert listed(what="merge", limit=1) == rest[:1]
    with pytest.raises(InvalidInput, match="after"):
        listed(after=-1)


@pytest.mark.requirement("PROPOSAL-9")
def test_a_proposal_names_the_memory_that_stays_and_the_block_that_it_writes(eng: Engram) -> None:
    eng.remember("The staging database listens on port 5432.", kind="fact")
    new = eng.remember("The staging database listens on port 6543.", kind="fact")
    eng.blocks.create("plan", "word " * 400, max_tokens=100)
    dream(eng)
    found = {each.what: each for each in eng.proposals.list()}
    assert (found["supersede"].keeps, found["supersede"].block) == (new.id, None)
    assert (found["overflow"].keeps, found["overflow"].block) == (None, "plan")
