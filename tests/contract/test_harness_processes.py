"""Which process of a harness runs which session, and what sessions were told about each other's leases."""

from __future__ import annotations

import subprocess

import pytest

from engram import Engram, LeaseHeld, LeaseLost, processes
from engram.coordination.harness_processes import UNKNOWN
from tests.conftest import ShiftedClock


def started(eng: Engram, process: str = "boot/ns/7/100") -> list[str]:
    return [each.id for each in eng.harness_processes.started(process)]


@pytest.mark.requirement("IDENTITY-1")
def test_the_newest_start_comes_first_and_other_events_do_not_count_as_one(eng: Engram, clock: ShiftedClock) -> None:
    first, second = (eng.sessions.register("claude-code", "") for _ in range(2))
    processes = eng.harness_processes
    for session in (first, second):
        clock.shift += 1
        processes.note(session, "boot/ns/7/100", starts=True)
    assert started(eng) == [second, first]
    clock.shift += 1
    processes.note(first, "boot/ns/7/100")
    assert started(eng) == [second, first]
    processes.note(first, "boot/ns/7/100", starts=True)
    assert started(eng) == [first, second]
    assert started(eng, "boot/ns/8/100") == []
    assert eng.workspace("other").harness_processes.started("boot/ns/7/100") == []


@pytest.mark.requirement("IDENTITY-1")
def test_a_session_reported_from_an_unknown_process_is_known_to_have_hooks(eng: Engram) -> None:
    session = eng.sessions.register("claude-code", "")
    assert eng.harness_processes.of(session) == []
    eng.harness_processes.note(session, None, starts=True)
    assert eng.harness_processes.of(session) == [UNKNOWN]


@pytest.mark.requirement("IDENTITY-1")
def test_forgetting_a_session_forgets_its_process_and_what_it_was_told(eng: Engram) -> None:
    holder, editor = (eng.sessions.register("claude-code", "") for _ in range(2))
    eng.harness_processes.note(holder, "boot/ns/7/100", starts=True)
    eng.leases.claim(holder, "router")
    (held,) = eng.leases.check("router")
    assert eng.lease_notices.tell(held, editor)
    eng.forget(session=holder)
    assert started(eng) == []


@pytest.mark.requirement("IDENTITY-4")
def test_a_session_hands_over_its_leases_and_unread_messages_and_ends(eng: Engram) -> None:
    own, shared, other = (eng.sessions.register("codex", "") for _ in range(3))
    kept = eng.leases.claim(own, "router", exclusive=True)
    eng.leases.claim(own, "docs")
    mine = eng.leases.claim(shared, "docs")
    eng.messages.send(other, own, "Are you done?")
    eng.messages.send(other, "*", "All of you: hello")
    eng.harness_processes.hand_over(own, shared)
    assert eng.sessions.get(own).status == "completed"
    assert [(lease.token, lease.resource) for lease in eng.leases.list(shared)] == sorted(
        [(kept.token, kept.resource), (mine.token, mine.resource)]
    )
    assert eng.leases.verify(kept.token).session_id == shared
    assert [message.text for message in eng.messages.inbox(shared)] == ["Are you done?", "All of you: hello"]


@pytest.mark.requirement("LOCKS-3")
def test_a_holder_is_told_of_a_session_s_edit_once_for_each_lease(eng: Engram) -> None:
    holder, editor, another = (eng.sessions.register("codex", "") for _ in range(3))
    eng.leases.claim(holder, "router")
    (held,) = eng.leases.check("router")
    assert [eng.lease_notices.tell(held, session) for session in (editor, editor, another)] == [True, False, True]
    eng.leases.release(holder, "router")
    assert not eng.lease_notices.tell(held, editor), "nobody holds it now"
    eng.leases.claim(holder, "router")
    assert eng.lease_notices.tell(held, editor), "a new lease"


@pytest.mark.requirement("LOCKS-4")
def test_a_second_attempt_counts_as_insisting_from_five_seconds_to_ten_minutes_after_the_refusal(
    eng: Engram, clock: ShiftedClock
) -> None:
    holder, editor = (eng.sessions.register("codex", "") for _ in range(2))
    eng.leases.claim(holder, "router", exclusive=True, ttl=7_200)
    (held,) = eng.leases.check("router")

    def insist(later: float = 0) -> bool:
        clock.shift += later
        return eng.lease_notices.insist(held, editor, after=5, within=600)

    assert [insist(), insist(), insist(3), insist(1)] == [False] * 4, "in parallel, or too soon"
    assert [insist(2), insist(), insist(1)] == [True] * 3, "the early attempts did not count as refusals"
    assert insist(590)
    assert [insist(601), insist(), insist(6)] == [False, False, True]


def gone_process() -> str:
    """The name of a process of this machine that has ended."""
    process = subprocess.Popen(["true"], stdin=subprocess.DEVNULL)
    process.wait()
    return f"{processes.place()}/{process.pid}/1"


@pytest.fixture
def here() -> str:
    """The name of a process that runs."""
    name = processes.own()
    assert name is not None
    return name


@pytest.mark.requirement("LOCKS-5")
def test_a_holder_whose_processes_are_all_gone_does_not_bar_an_exclusive_claim(eng: Engram) -> None:
    holder, other = (eng.sessions.register("codex", "") for _ in range(2))
    child = eng.sessions.register("codex", "", parent_id=holder)
    eng.harness_processes.note(holder, gone_process(), starts=True)
    token = eng.leases.claim(holder, "router", exclusive=True).token
    eng.leases.claim(child, "docs")
    assert eng.leases.claim(other, "docs", exclusive=True).conflicts == ()
    assert [eng.sessions.get(id).status for id in (holder, child)] == ["abandoned"] * 2
    with pytest.raises(LeaseLost) as lost:
        eng.leases.verify(token)
    assert lost.value.reason == "abandoned"


@pytest.mark.requirement("LOCKS-5")
def test_a_holder_is_kept_if_a_process_of_it_runs_or_cannot_be_seen_or_was_never_noted(eng: Engram, here: str) -> None:
    other = eng.sessions.register("codex", "")
    for noted in ([], [here], [None], ["boot/ns/7/100"]):
        holder = eng.sessions.register("codex", "")
        for process in noted:
            eng.harness_processes.note(holder, gone_process(), starts=True)
            eng.harness_processes.note(holder, process, starts=True)
        eng.leases.claim(holder, "router", exclusive=True)
        with pytest.raises(LeaseHeld):
            eng.leases.claim(other, "router", exclusive=True)
        eng.sessions.complete(holder)


@pytest.mark.requirement("LOCKS-5")
def test_no_process_is_looked_at_inside_a_transaction(eng: Engram) -> None:
    holder, other = (eng.sessions.register("codex", "") for _ in range(2))
    eng.harness_processes.note_server(holder, gone_process(), None)
    eng.leases.claim(holder, "router", exclusive=True)
    with pytest.raises(LeaseHeld), eng.write():
        eng.leases.claim(other, "router", exclusive=True)
    assert eng.leases.claim(other, "router", exclusive=True, wait=1).session_id == other


@pytest.mark.requirement("LOCKS-5")
def test_a_noted_process_that_ended_under_a_session_at_work_says_nothing_about_it(eng: Engram) -> None:
    holder = eng.sessions.register("codex", "")
    eng.harness_processes.note(holder, gone_process(), starts=True)
    eng.harness_processes.confirm(holder, gone_process())
    assert UNKNOWN in eng.harness_processes.of(holder)
    assert not eng.harness_processes.free_gone([holder])


@pytest.mark.requirement("IDENTITY-4")
def test_a_session_takes_over_what_servers_of_its_process_registered_if_it_is_the_only_one(eng: Engram) -> None:
    own, first, second, third = (eng.sessions.register("codex", "") for _ in range(4))
    processes = eng.harness_processes
    processes.note_server(own, "boot/ns/8/100", "boot/ns/7/100")
    eng.leases.claim(own, "router", exclusive=True)
    for each in (first, second):
        processes.note(each, "boot/ns/7/100", starts=True)
    processes.take_over(second, "boot/ns/7/100")
    assert [lease.session_id for lease in eng.leases.list()] == [own], "two are at work"
    processes.note(third, "boot/ns/7/100", starts=True, alone=True)
    processes.take_over(third, "boot/ns/7/100")
    assert [lease.session_id for lease in eng.leases.list()] == [third]
    assert eng.sessions.get(own).status == "completed"
