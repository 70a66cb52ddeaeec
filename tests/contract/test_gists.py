"""A session's gist: one, up to a known turn, with its sources, and without what was forgotten."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engram import Engram, InvalidInput, SessionNotFound
from tests._models import serve
from tests._tables import holds, values
from tests._talks import add, talk


@pytest.mark.requirement("GIST-1")
def test_a_gist_covers_a_session_up_to_a_turn_and_what_came_later_is_unsummarised(eng: Engram) -> None:
    session = talk(eng, turns=6)
    turns = eng.exchanges.history(session)
    assert eng.memories.gist(session) is None
    assert eng.memories.unsummarised(session) == turns
    gist = eng.memories.store_gist(session, "The first half.", turns[2].seq, sources=[turn.id for turn in turns[:3]])
    assert (gist.kind, gist.key, gist.trust) == ("gist", session, "agent")
    assert eng.memories.gist(session) == gist
    assert eng.memories.unsummarised(session) == turns[3:]


@pytest.mark.requirement("GIST-2")
def test_a_session_has_one_gist_and_a_new_one_is_its_next_version(eng: Engram) -> None:
    session = talk(eng, turns=4)
    seqs = [turn.seq for turn in eng.exchanges.history(session)]
    first = eng.memories.store_gist(session, "The first half.", seqs[1])
    second = eng.memories.store_gist(session, "All of it.", seqs[-1])
    assert (second.id, second.version, second.content) == (first.id, 2, "All of it.")
    assert [each.id for each in eng.memories.list(kind="gist")] == [first.id]


@pytest.mark.requirement("GIST-3")
def test_a_gist_beyond_the_end_of_a_session_or_of_nothing_is_refused(eng: Engram) -> None:
    session = talk(eng, turns=2)
    with pytest.raises(InvalidInput, match="ends at seq"):
        eng.memories.store_gist(session, "Too far.", 99)
    empty = eng.sessions.register("claude-code", "silent")
    with pytest.raises(InvalidInput, match="no turns"):
        eng.memories.store_gist(empty, "Nothing.", 0)
    for ask in (eng.memories.gist, eng.memories.unsummarised):
        with pytest.raises(SessionNotFound):
            ask("nobody")


@pytest.mark.requirement("GIST-4")
def test_gists_stand_under_the_month_of_their_session_s_earliest_turn(eng: Engram) -> None:
    late = talk(eng, "late", at="2026-03-31T23:59:59Z")
    add(eng, late, "the next month", at="2026-04-01T00:10:00Z")
    early = talk(eng, "early", at="2026-03-01T00:00:00Z")
    other = talk(eng, "other", at="2026-03-31T23:00:00-02:00")
    eng.dream(force=True)
    found = {month: [gist.session_id for gist in gists] for month, gists in eng.memories.gists_by_month().items()}
    assert found == {"2026-03": [early, late], "2026-04": [other]}


@pytest.mark.requirement("GIST-5")
def test_gists_are_found_by_recall_when_they_are_asked_for(eng: Engram) -> None:
    session = talk(eng, "the zeppelin")
    eng.dream(force=True)
    gist = eng.memories.gist(session)
    assert gist is not None
    found = eng.recall("zeppelin", what=("memories",), kinds=["gist"])
    assert [hit.memory_id for hit in found] == [gist.id]
    assert all(hit.memory_id != gist.id for hit in eng.recall("zeppelin"))


@pytest.mark.requirement("GIST-6")
def test_a_long_session_is_summarised_piece_by_piece(eng: Engram) -> None:
    session = eng.sessions.register("claude-code", "long")
    eng.exchanges.add_many(
        {"session_id": session, "role": "user", "content": f"We decided on number {number}. " + "Because of it. " * 60}
        for number in range(160)
    )
    (report,) = eng.dream(force=True)
    gist = eng.memories.gist(session)
    assert report.errors == []
    assert gist is not None
    assert gist.version == 3
    assert eng.memories.unsummarised(session) == []


@pytest.mark.requirement("GIST-9")
def test_a_session_is_found_by_a_telling_word_that_its_gist_does_not_say(
    open_store: Callable[..., Engram], store_url: str
) -> None:
    pytest.importorskip("openai")
    with serve() as model:
        eng = open_store(llm="openai:m", llm_base_url=model.url, embedder="none")
        session = talk(eng)
        said = eng.exchanges.add(session, "assistant", "It failed in the hummingbird adapter. We moved on.")
        eng.dream(force=True, stages=["sessions"])
        gist = eng.memories.gist(session)
        assert gist is not None
        assert "hummingbird" not in gist.content
        found = eng.memories.recall_gists("hummingbird")
        assert [hit.memory_id for hit in found] == [gist.id]
        assert "hummingbird" not in found[0].whole
        undone = eng.dreams.undo()
        assert "hummingbird" not in " ".join(values(store_url, "memories", "data"))
        assert eng.memories.recall_gists("hummingbird") == []
        eng.dreams.undo(undone.id)
        assert [hit.memory_id for hit in eng.memories.recall_gists("hummingbird")] == [gist.id]
        eng.memories.archive(gist.id)
        again = eng.memories.unarchive(gist.id)
        assert [hit.memory_id for hit in eng.memories.recall_gists("hummingbird")] == [again.id]
        eng.forget(exchange=said)
        assert holds(store_url, "hummingbird") == {}
        eng.dream(force=True, stages=["sessions"])
        assert eng.memories.recall_gists("hummingbird") == []


@pytest.mark.requirement("GIST-9")
def test_a_gist_that_grows_keeps_the_words_of_its_first_turns(open_store: Callable[..., Engram]) -> None:
    pytest.importorskip("openai")
    with serve() as model:
        eng = open_store(llm="openai:m", llm_base_url=model.url, embedder="none")
        session = talk(eng)
        eng.exchanges.add(session, "assistant", "It failed in the hummingbird adapter.")
        eng.dream(force=True, stages=["sessions"])
        eng.exchanges.add(session, "user", "Then look at the woodpecker as well.")
        eng.dream(force=True, stages=["sessions"])
        noted = eng.exchanges.add(session, "user", "Thanks, that was all.")
        turn = next(turn for turn in eng.exchanges.history(session) if turn.id == noted)
        # As a hook does after a compaction.
        eng.memories.store_gist(session, "Two adapters were looked at.", turn.seq, sources=[noted])
        for word in ("hummingbird", "woodpecker"):
            assert len(eng.memories.recall_gists(word)) == 1


@pytest.mark.requirement("GIST-7")
def test_a_forgotten_turn_leaves_the_gist_and_the_next_pass_makes_it_anew_without_it(eng: Engram) -> None:
    session = talk(eng, turns=4)
    secret = eng.exchanges.add(
        session, "user", "What does the hummingbird in the logo stand for?", created_at="2026-03-02"
    )
    eng.dream(force=True)
    before = eng.memories.gist(session)
    assert before is not None
    assert "hummingbird" in before.content
    eng.forget(exchange=secret)
    blank = eng.memories.gist(session)
    assert blank is not None
    assert "hummingbird" not in blank.content
    eng.dream()
    after = eng.memories.gist(session)
    assert after is not None
    assert after.content
    made = [each.content for kind in ("gist", "era") for each in eng.memories.list(kind=kind)]
    made += [block.content for name in ("profile", "narrative", "self") if (block := eng.blocks.get(name))]
    assert not any("hummingbird" in text for text in made)


@pytest.mark.requirement("GIST-7")
def test_a_forgotten_session_has_no_gist_and_its_month_no_trace_of_it(eng: Engram) -> None:
    session, other = talk(eng, "the zeppelin"), talk(eng, "the parser")
    eng.dream(force=True)
    eng.forget(session=session)
    (report,) = eng.dream(force=True)
    assert report.errors == []
    assert [gist.session_id for gists in eng.memories.gists_by_month().values() for gist in gists] == [other]
    (era,) = eng.memories.list(kind="era")
    assert "zeppelin" not in era.content
    assert isinstance(era.data, dict) and era.data["sessions"] == 1


@pytest.mark.requirement("GIST-8")
def test_a_session_of_greetings_has_a_gist_too(eng: Engram) -> None:
    session = eng.sessions.register("claude-code", "hello")
    eng.exchanges.add(session, "user", "Hi!")
    eng.exchanges.add(session, "assistant", "Hi.")
    (report,) = eng.dream(force=True)
    assert (report.errors, report.gists) == ([], [session])


@pytest.mark.requirement("GIST-10")
def test_a_session_with_a_title_of_its_own_has_a_gist_of_that_title(eng: Engram) -> None:
    names = {"Gift for Ada": "# Gift for Ada", "New York in May": "# New York in May"}
    for name in (*names, "New chat", "Explore", None):
        session = eng.sessions.register("chatgpt", None, name=name)
        add(eng, session, "My sister Ada plays the cello. What can I give her for her birthday?")
        eng.exchanges.add(session, "assistant", "A rosin set and a concert ticket would please her.")
        eng.sessions.complete(session)
    eng.dream(force=True)
    titles = {
        each.name: gist.content.partition("\n")[0]
        for each in eng.sessions.list()
        if (gist := eng.memories.gist(each.id))
    }
    assert {name: titles[name] for name in names} == names
    assert len({titles[name] for name in ("New chat", "Explore", None)}) == 1
    assert titles[None] not in names.values()
