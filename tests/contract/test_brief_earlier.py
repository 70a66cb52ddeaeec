"""The brief of an earlier time: it reads little, and misses nothing that was there then."""

from __future__ import annotations

from itertools import product

import pytest

from engram import Engram
from engram.dreaming.brief import known
from engram.records import Memory
from tests.conftest import ShiftedClock

HERE, ELSEWHERE = "acme/shop", "acme/router"
KINDS = ("fact", "preference", "note", "todo", "gist", "recipe")


def would_show(memory: Memory) -> bool:
    """Whether a memory as it stood at a time belongs into the brief of that time."""
    if memory.pinned:
        return memory.approved
    holds = memory.kind in (*known.HOLDS, known.TODO) or (
        memory.kind == "fact" and memory.importance >= known.IMPORTANT_FACT
    )
    approved = memory.approved and memory.kind not in known.DERIVED
    return (holds or approved) and (memory.trust in known.TRUSTED or memory.approved) and memory.project in (HERE, None)


@pytest.mark.requirement("BRIEF-8")
def test_an_earlier_brief_has_every_memory_that_it_had_then(eng: Engram, clock: ShiftedClock) -> None:
    made = []
    with eng.write():
        for kind, project, by_person, trust in product(
            KINDS, (HERE, ELSEWHERE, None), (True, False), ("agent", "tool")
        ):
            text = f"{kind} of {project} by {'a person' if by_person else 'an agent'} from {trust}"
            importance = 0.9 if project != HERE or by_person else 0.2
            memory = eng.remember(
                text, kind=kind, project=project, importance=importance, trust=trust, by_person=by_person
            )
            made.append(memory.id)
        made_pinned = made[::5]
        for id in made_pinned:
            eng.memories.update(id, pinned=True, by_person=id % 2 == 0)
    clock.advance(60)
    then = eng.now()
    clock.advance(60)
    with eng.write():
        for number, id in enumerate(made):
            match number % 6:
                case 0:
                    eng.memories.update(id, pinned=False, by_person=True)
                case 1:
                    eng.memories.withdraw(id)
                case 2:
                    eng.memories.archive(id)
                case 3:
                    eng.memories.update(id, f"another text {number}", by_person=True, pinned=True)
                case 4:
                    eng.memories.update(id, importance=0.95 if number % 4 else 0.1)
    stood = eng.memories.list(at=then)
    assert len(stood) == len(made)
    expected = {memory.id for memory in stood if would_show(memory)}
    brief = eng.briefing(project=HERE, budget=None, at=then)
    assert {id for _, id in brief.things} == expected
    assert expected & set(made_pinned) and expected - set(made_pinned)
    assert "another text" not in brief.text


@pytest.mark.requirement("BRIEF-8")
def test_an_earlier_brief_knows_who_was_at_work_then(eng: Engram, clock: ShiftedClock) -> None:
    def begun(summary: str, project: str) -> str:
        id = eng.sessions.register("codex", summary, project=project)
        eng.exchanges.add(id, "user", f"Please do this: {summary}", embed=False)
        eng.exchanges.add(id, "assistant", f"I did this: {summary}", embed=False)
        return id

    abandoned = begun("Porting the parser", HERE)
    silent_but_logging = begun("Porting the printer", HERE)
    ended = begun("Porting the invoices", HERE)
    ended_elsewhere = begun("Porting the harbour", ELSEWHERE)
    for id in (ended, ended_elsewhere):
        eng.sessions.complete(id, "Done with it")
    clock.advance(eng.settings.abandon_after + 3_600)
    at_work_elsewhere = begun("Porting the queue", ELSEWHERE)
    eng.sessions.log(silent_but_logging, "a step")
    clock.advance(60)
    then = eng.now()
    clock.advance(3_600)
    for id in (silent_but_logging, at_work_elsewhere):
        eng.exchanges.add(id, "user", "Something that was said later", embed=False)
        eng.sessions.complete(id, "Done later")
    lines = eng.briefing(project=HERE, budget=None, at=then).lines
    sessions = [line.ref for line in lines if line.kind == "session" and line.text.startswith("- ")]
    assert sessions == [silent_but_logging, ended, abandoned] or sessions == [silent_but_logging, abandoned, ended]
    assert "Other projects: 1 session at work in acme/router." in [line.text for line in lines]
    assert "later" not in "".join(line.text for line in lines)
