"""Extraction: what was said becomes memories with their sources, or proposals where it must not be believed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engram import Engram, Memory

from .._models import session_answer
from ..conftest import ShiftedClock


def say(
    eng: Engram, *texts: str, role: str = "user", trust: str | None = None, at: str = "2023-05-07T10:00:00Z"
) -> str:
    """A session in which all this is said."""
    session = eng.sessions.register("claude-code", "talk")
    for text in texts:
        eng.exchanges.add(session, role, text, created_at=at, trust=trust)
    return session


def extracted(eng: Engram) -> list[Memory]:
    return eng.memories.list(tag="extracted")[::-1]


@pytest.mark.requirement("EXTRACT-1")
def test_what_stands_becomes_memories_with_their_kind_source_day_and_trust(eng: Engram) -> None:
    session = say(
        eng,
        "I prefer tea over coffee in the morning.",
        "We decided to move billing to PostgreSQL 18.",
        "TODO: order the second replica.",
        "Lesson: the export holds its lock for 40 minutes.",
        "The weather is rather grey, isn't it?",
    )
    turns = eng.exchanges.history(session)
    (report,) = eng.dream(force=True)
    found = extracted(eng)
    assert [(memory.kind, memory.content) for memory in found] == [
        ("preference", "I prefer tea over coffee in the morning."),
        ("decision", "We decided to move billing to PostgreSQL 18."),
        ("todo", "Order the second replica."),
        ("lesson", "The export holds its lock for 40 minutes."),
    ]
    assert [eng.memories.sources(memory.id) for memory in found] == [[("exchange", turn.id)] for turn in turns[:4]]
    assert all(memory.data == {"said": "2023-05-07", "by": "user"} for memory in found)
    assert {memory.trust for memory in found} == {"user"}
    assert {memory.session_id for memory in found} == {session}
    assert report.extracted == 4


@pytest.mark.requirement("EXTRACT-1")
def test_an_agent_s_word_has_an_agent_s_trust(eng: Engram) -> None:
    say(eng, "Decision: the old parser stays until March.", role="assistant")
    eng.dream(force=True)
    assert [memory.trust for memory in extracted(eng)] == ["agent"]


@pytest.mark.requirement("EXTRACT-2")
def test_the_same_thing_said_again_reinforces(eng: Engram) -> None:
    first = say(eng, "I prefer tea over coffee in the morning.")
    eng.dream(force=True)
    second = say(eng, "I prefer tea over coffee in the morning!", at="2023-06-01T10:00:00Z")
    (report,) = eng.dream(force=True)
    (memory,) = extracted(eng)
    assert memory.reinforced == 1
    turns = eng.exchanges.history(first) + eng.exchanges.history(second)
    assert eng.memories.sources(memory.id) == [("exchange", turn.id) for turn in turns]
    assert report.extracted == 1


@pytest.mark.requirement("EXTRACT-2")
def test_saying_again_what_somebody_stored_does_not_tie_it_to_the_turn(eng: Engram) -> None:
    known = eng.remember("I prefer tea over coffee in the morning.", kind="note", expires_at="2099-01-01T00:00:00Z")
    session = say(eng, "I prefer tea over coffee in the morning.")
    eng.dream(force=True)
    after = eng.memories.get(known.id)
    assert (after.reinforced, after.expires_at, after.importance) == (1, known.expires_at, known.importance)
    assert extracted(eng) == []
    eng.forget(session=session)
    assert eng.memories.get(known.id).content == known.content


@pytest.mark.requirement("EXTRACT-2")
def test_a_turn_that_is_read_again_reinforces_nothing(eng: Engram) -> None:
    session = say(eng, "I prefer tea over coffee in the morning.", "Let us look at the router.")
    eng.dream(force=True)
    # Forgetting the other turn blanks the gist, so the session is read anew from its beginning.
    eng.forget(exchange=eng.exchanges.history(session)[1].id)
    (report,) = eng.dream(force=True)
    assert report.gists == [session]
    assert [memory.reinforced for memory in extracted(eng)] == [0]
    assert report.extracted == 0


@pytest.mark.requirement("EXTRACT-3")
def test_a_newer_contradiction_is_stored_and_proposed_to_supersede(eng: Engram) -> None:
    say(eng, "Remember that the staging database listens on port 5432.")
    eng.dream(force=True)
    say(eng, "Remember that the staging database listens on port 5433.", at="2023-08-01T10:00:00Z")
    (report,) = eng.dream(force=True)
    old, new = extracted(eng)
    assert (old.status, new.status) == ("active", "active")
    assert [memory.data["said"] for memory in (old, new) if isinstance(memory.data, dict)] == [
        "2023-05-07",
        "2023-08-01",
    ]
    (proposal,) = eng.proposals.list()
    assert proposal.what == "supersede"
    assert proposal.targets == (("memory", old.id), ("memory", new.id))
    assert report.proposals == 1
    eng.proposals.apply(proposal.id)
    assert eng.memories.get(old.id).superseded_by == new.id


@pytest.mark.requirement("EXTRACT-4")
@pytest.mark.parametrize("trust", ["tool", "import"])
def test_what_was_brought_in_is_only_proposed(eng: Engram, trust: str) -> None:
    session = say(eng, "We decided to move billing to PostgreSQL 18.", trust=trust)
    (report,) = eng.dream(force=True)
    assert extracted(eng) == []
    assert report.extracted == 0
    (proposal,) = eng.proposals.list()
    assert (proposal.what, proposal.content) == ("remember", "We decided to move billing to PostgreSQL 18.")
    assert proposal.sources == (("exchange", eng.exchanges.history(session)[0].id),)
    applied = eng.proposals.apply(proposal.id)
    assert applied.result is not None
    assert eng.memories.get(applied.result).trust == trust


@pytest.mark.requirement("EXTRACT-5")
def test_a_secret_is_never_extracted(eng: Engram, store_url: str) -> None:
    say(
        eng, "Remember that the deploy key is AKIAIOSFODNN7EXAMPL2 for the bucket.", "I prefer tea over coffee at work."
    )
    eng.dream(force=True)
    assert [memory.content for memory in extracted(eng)] == ["I prefer tea over coffee at work."]
    assert eng.proposals.list() == []


@pytest.mark.requirement("EXTRACT-6")
def test_a_second_pass_reads_nothing_and_new_turns_are_read_alone(eng: Engram) -> None:
    session = say(eng, "I prefer tea over coffee in the morning.")
    eng.dream(force=True)
    (again,) = eng.dream(force=True)
    assert again.extracted == 0
    eng.exchanges.add(session, "user", "We decided to move billing to PostgreSQL 18.")
    (more,) = eng.dream(force=True)
    assert more.extracted == 1
    assert [memory.reinforced for memory in extracted(eng)] == [0, 0]


@pytest.mark.requirement("EXTRACT-6")
def test_what_agents_have_not_answered_yet_is_read_once_they_have(open_store: Callable[..., Engram]) -> None:
    eng = open_store(llm="agent")
    session = say(eng, "I prefer tea over coffee in the morning.")
    turn = eng.exchanges.history(session)[0].id
    eng.dream(force=True)
    item = eng.work.next()
    assert item is not None
    assert item.stage == "sessions"
    said = {"text": "The user prefers tea.", "kind": "preference", "source": f"e{turn}", "about_user": True}
    eng.work.submit(item.id, session_answer(said))
    (report,) = eng.dream(force=True)
    assert report.extracted == 1
    (memory,) = extracted(eng)
    assert (memory.content, memory.trust) == ("The user prefers tea.", "user")
    assert memory.tags == ("about-user", "extracted")


@pytest.mark.requirement("EXTRACT-1")
def test_forgetting_the_turn_takes_what_was_extracted_from_it(eng: Engram, clock: ShiftedClock) -> None:
    session = say(eng, "I prefer tea over coffee in the morning.")
    eng.dream(force=True)
    eng.forget(exchange=eng.exchanges.history(session)[0].id)
    assert extracted(eng) == []


@pytest.mark.requirement("EXTRACT-7")
def test_recall_shows_the_day_on_which_it_was_said(eng: Engram) -> None:
    say(eng, "I prefer tea over coffee in the morning.")
    eng.dream(force=True)
    (memory,) = extracted(eng)
    assert memory.said_at == "2023-05-07T12:00:00.000000Z"
    (hit,) = eng.recall("tea or coffee", what=("memories",))
    assert (hit.memory_id, hit.created_at) == (memory.id, memory.said_at)
    assert hit.age > 86_400
    odd = eng.remember("The vault opens at nine.", data={"said": "2023-13-77"})
    assert odd.said_at == odd.created_at
