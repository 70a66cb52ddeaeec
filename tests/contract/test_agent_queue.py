"""Thinking that is left to agents: taken, handed in, checked, used by the next pass."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from engram import Engram, InvalidInput, LeaseLost, WorkItem, WorkNotFound
from engram.dreaming import prompts
from tests._models import plainly, session_answer
from tests._talks import talk
from tests.conftest import ShiftedClock


@pytest.fixture
def agent(open_store: Callable[..., Engram]) -> Engram:
    return open_store(llm="agent", companion=True)


def take(eng: Engram, taker: str | None = None) -> WorkItem:
    item = eng.work.next(taker)
    assert item is not None
    return item


@pytest.mark.requirement("WORK-1")
def test_a_pass_leaves_work_and_the_next_one_uses_the_answer(agent: Engram) -> None:
    session = talk(agent)
    (report,) = agent.dream(force=True)
    assert (report.provider, report.gists, report.waiting, report.errors) == ("agent", [], 1, [])
    item = take(agent, "worker")
    assert (item.stage, item.subject, item.form) == ("sessions", session, prompts.SESSION_FORM)
    assert "We moved the router" in item.prompt
    agent.work.submit(item.id, session_answer(title="", outcome="", gist="The user moved the router."), "worker")
    assert agent.work.counts() == (0, 1)
    (report,) = agent.dream(force=True)
    assert report.gists == [session]
    gist = agent.memories.gist(session)
    assert gist is not None
    assert gist.content == "The user moved the router."


@pytest.mark.requirement("WORK-1")
def test_agents_can_do_a_whole_night_s_thinking(agent: Engram) -> None:
    talk(agent)
    done = set()
    for _ in range(12):
        (report,) = agent.dream(force=True)
        assert report.errors == []
        while item := agent.work.next():
            agent.work.submit(item.id, plainly(item.prompt))
            done.add(item.stage)
    assert done == {"sessions", "eras", "narrative", "reflect"}
    assert agent.work.counts() == (0, 0)
    block = agent.blocks.get("self")
    assert block is not None
    assert json.loads(block.content)["mood"] == "calm"
    assert [era.key for era in agent.memories.list(kind="era")] == ["2026-03"]


@pytest.mark.requirement("WORK-2")
def test_what_is_not_handed_in_by_its_deadline_goes_to_the_next_taker(agent: Engram, clock: ShiftedClock) -> None:
    talk(agent)
    agent.dream(force=True)
    first = take(agent, "slow")
    assert agent.work.next("quick") is None
    clock.advance(901)
    again = take(agent, "quick")
    assert again.id == first.id
    assert again.deadline > first.deadline
    with pytest.raises(LeaseLost, match="now assigned to quick"):
        agent.work.submit(first.id, plainly(first.prompt), "slow")
    agent.work.submit(again.id, plainly(again.prompt), "quick")
    with pytest.raises(LeaseLost, match="answered already"):
        agent.work.submit(again.id, plainly(again.prompt), "quick")


@pytest.mark.requirement("WORK-3")
def test_a_wrong_form_is_refused_with_what_is_wrong_and_the_work_still_waits(agent: Engram) -> None:
    talk(agent)
    agent.dream(force=True)
    item = take(agent)
    wrong = session_answer(statements=3)
    for answer, problem in (("no JSON", "must be JSON"), (wrong, "statements must be array"), ("{}", "'statements'")):
        with pytest.raises(InvalidInput, match=problem):
            agent.work.submit(item.id, answer)
    agent.work.submit(item.id, session_answer())


@pytest.mark.requirement("WORK-7")
def test_a_long_session_is_offered_one_piece_after_another(agent: Engram) -> None:
    session = agent.sessions.register("claude-code", "long")
    for number in range(24):
        role = ("user", "assistant")[number % 2]
        agent.exchanges.add(session, role, f"Step {number} of the move. " + "It went on and on. " * 300)
    asked: list[WorkItem] = []
    for _ in range(8):
        agent.dream(force=True, stages=["sessions"])
        while item := agent.work.next():
            assert agent.work.counts() == (1, 0)
            asked.append(item)
            agent.work.submit(item.id, session_answer(gist=f"Piece {len(asked)} is done."))
    assert len(asked) == 3
    assert ["the gist so far" in item.prompt.rpartition("=====")[0].partition("=====")[2] for item in asked] == [
        False,
        True,
        True,
    ]
    assert "part 1 of 3" in asked[0].prompt
    for number in range(24):
        assert sum(f"Step {number} of the move." in item.prompt for item in asked) == 1
    gist = agent.memories.gist(session)
    assert gist is not None
    assert "Piece 3 is done." in gist.content
    assert agent.memories.unsummarised(session) == []


@pytest.mark.requirement("WORK-7")
def test_turns_that_are_added_while_an_agent_thinks_are_read_afterwards(agent: Engram) -> None:
    session = talk(agent)
    agent.dream(force=True)
    item = take(agent)
    later = agent.exchanges.add(session, "user", "We also moved the parser.")
    agent.work.submit(item.id, session_answer(gist="The router was moved."))
    agent.dream(force=True, stages=["sessions"])
    assert [turn.id for turn in agent.memories.unsummarised(session)] == [later]
    agent.dream(force=True, stages=["sessions"])
    again = take(agent)
    assert ("We also moved the parser." in again.prompt, "We moved the router" in again.prompt) == (True, False)


@pytest.mark.requirement("WORK-7")
def test_work_items_of_stages_that_are_gone_leave_the_queue(agent: Engram) -> None:
    talk(agent)
    for stage in ("gists", "extract"):
        agent.work.leave(stage, "a subject", "1", "Write a gist.", None)
    (report,) = agent.dream(force=True, stages=["gists"])
    assert (report.errors, report.waiting) == ([], 1)
    assert agent.work.counts() == (1, 0)
    assert take(agent).stage == "sessions"


@pytest.mark.requirement("LLM-22", "WORK-3")
def test_an_answer_that_is_only_too_long_is_cut_and_taken(agent: Engram) -> None:
    lines = {"type": "array", "items": {"type": "string", "maxLength": 20}, "maxItems": 2}
    form = {"type": "object", "properties": {"lines": lines}, "required": ["lines"]}
    agent.work.leave("narrative", "all", "null", "Tell it.", form)
    answer = {"lines": ["It went well. Then it rained for a week.", "short", "one too many"]}
    agent.work.submit(take(agent).id, json.dumps(answer))
    stored = agent.work.find("narrative", "all")
    assert stored is not None
    assert stored.answer is not None
    assert json.loads(stored.answer) == {"lines": ["It went well.", "short"]}


@pytest.mark.requirement("WORK-4")
def test_asking_again_before_the_answer_is_there_leaves_nothing_twice(agent: Engram) -> None:
    talk(agent)
    for _ in range(3):
        agent.dream(force=True)
    assert agent.work.counts() == (1, 0)


@pytest.mark.requirement("WORK-5")
def test_what_was_forgotten_leaves_the_queue(agent: Engram) -> None:
    session = talk(agent)
    agent.dream(force=True)
    item = take(agent)
    agent.forget(exchange=agent.exchanges.history(session)[0].id)
    assert agent.work.counts() == (0, 0)
    with pytest.raises(WorkNotFound, match=f"no work item {item.id}"):
        agent.work.submit(item.id, "Late.")
    agent.dream(force=True)
    assert "We moved the router" not in take(agent).prompt
