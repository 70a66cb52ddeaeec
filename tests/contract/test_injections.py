"""What a session was given is recorded once, and until its next compaction."""

from __future__ import annotations

import pytest

from engram import Engram, SessionNotFound


@pytest.mark.requirement("BRIEF-11")
def test_what_a_session_was_given_is_known_until_it_is_cleared(eng: Engram) -> None:
    sid, other = eng.sessions.register("codex", "Working"), eng.sessions.register("codex", "Working")
    eng.injections.record(sid, [("memory", 3), ("exchange", 3)])
    eng.injections.record(sid, [("memory", 3), ("memory", 4)])
    assert eng.injections.already(sid) == {("memory", 3), ("exchange", 3), ("memory", 4)}
    assert eng.injections.already(other) == set()
    assert eng.workspace("other").injections.already(sid) == set()
    eng.injections.record(other, [("memory", 3)])
    eng.injections.clear(sid)
    assert eng.injections.already(sid) == set()
    assert eng.injections.already(other) == {("memory", 3)}


@pytest.mark.requirement("BRIEF-11")
def test_what_a_session_was_given_goes_with_the_session(eng: Engram) -> None:
    sid = eng.sessions.register("codex", "Working")
    eng.injections.record(sid, [("memory", 3)])
    eng.forget(session=sid)
    assert eng.injections.already(sid) == set()
    with pytest.raises(SessionNotFound):
        eng.injections.record(sid, [("memory", 3)])
