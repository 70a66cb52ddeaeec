"""Finding a session by what a person types, on both engines."""

from __future__ import annotations

import pytest

from engram import Engram, InvalidInput, SessionAmbiguous, SessionNotFound
from engram.coordination.session_lookup import SHOWN
from tests.conftest import ShiftedClock


@pytest.mark.requirement("LOOKUP-1")
def test_a_session_is_found_by_its_id_a_part_of_it_or_its_name(eng: Engram) -> None:
    sid = eng.sessions.register("codex", "Porting", name="Router")
    for id in ("chat-1", "other-2"):
        eng.sessions.ensure(id)
    for text in (sid, sid[:15], sid[:4], sid[-8:], sid[-2:], "Router"):
        assert eng.sessions.resolve(text) == sid
    assert eng.sessions.resolve("chat") == "chat-1"
    assert eng.sessions.resolve("-2") == "other-2"


@pytest.mark.requirement("LOOKUP-1")
def test_the_exact_id_wins_over_longer_ids_and_over_names(eng: Engram) -> None:
    for id, name in (("chat", None), ("chat-1", None), ("my-chat", None), ("x", "chat")):
        eng.sessions.ensure(id, name)
    assert eng.sessions.resolve("chat") == "chat"


@pytest.mark.requirement("LOOKUP-2")
def test_a_text_that_fits_several_sessions_is_an_error_that_lists_them(eng: Engram) -> None:
    for id, name in (("chat-1", None), ("my-chat", None), ("x", "chat"), ("unlike", None)):
        eng.sessions.ensure(id, name)
    with pytest.raises(SessionAmbiguous) as caught:
        eng.sessions.resolve("chat")
    assert caught.value.candidates == ("chat-1", "my-chat", "x")
    assert all(id in str(caught.value) for id in caught.value.candidates)
    assert caught.value.details() == {"text": "chat", "candidates": ["chat-1", "my-chat", "x"]}


@pytest.mark.requirement("LOOKUP-2")
def test_an_error_lists_at_most_ten_sessions(eng: Engram) -> None:
    for number in range(12):
        eng.sessions.ensure(f"chat-{number:02}")
    with pytest.raises(SessionAmbiguous) as caught:
        eng.sessions.resolve("chat")
    assert len(caught.value.candidates) == 10
    assert str(caught.value).endswith("\n…")


@pytest.mark.requirement("LOOKUP-1", "SESSION-14")
@pytest.mark.parametrize("text", ["nobody", "%", "_", "c%1", "CHAT-1", "chat-1x", "é"])
def test_what_fits_no_session_is_not_found(eng: Engram, text: str) -> None:
    eng.sessions.ensure("chat-1")
    eng.workspace("other").sessions.ensure("nobody")
    with pytest.raises(SessionNotFound):
        eng.sessions.resolve(text)


@pytest.mark.requirement("LOOKUP-1")
@pytest.mark.parametrize("text", ["", "  ", "a\nb", "x" * 201])
def test_what_can_be_no_id_is_refused(eng: Engram, text: str) -> None:
    eng.sessions.ensure("chat-1")
    with pytest.raises(InvalidInput):
        eng.sessions.resolve(text)


@pytest.mark.requirement("LOOKUP-1")
def test_ids_beyond_ascii_are_found_by_their_parts(eng: Engram) -> None:
    eng.sessions.ensure("löschen-日本")
    for text in ("lö", "日本", "本", "löschen-日"):
        assert eng.sessions.resolve(text) == "löschen-日本"


@pytest.mark.requirement("LOOKUP-1")
def test_the_beginning_of_an_id_is_looked_up_in_an_index_and_no_lookup_by_id_reads_a_row(sqlite_url: str) -> None:
    from engram.coordination import session_lookup

    with Engram(sqlite_url) as eng, eng._view.engine.read() as tx:
        given = {"workspace": "default", "text": "a", "limit": 1}
        plans = (
            tx.all("EXPLAIN QUERY PLAN " + session_lookup._BEGINS, end="b", **given),
            tx.all("EXPLAIN QUERY PLAN " + session_lookup._ENDS, length=1, **given),
        )
    begins, ends = (" ".join(str(row[-1]) for row in plan) for plan in plans)
    assert "COVERING INDEX" in begins and "id>?" in begins and "id<?" in begins
    assert "COVERING INDEX" in ends


@pytest.mark.requirement("LOOKUP-1")
def test_however_many_passes_there_are_a_short_form_means_the_session(eng: Engram, clock: ShiftedClock) -> None:
    for _ in range(SHOWN + 3):
        eng.sessions.register("dream", "dreaming")
        clock.advance(1)
    # The last in the order of ids.
    mine = eng.sessions.register("codex", "Working")
    assert eng.sessions.resolve(mine[:4]) == mine
