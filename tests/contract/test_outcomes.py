"""What a session set out to do and what came of it, its metadata, and what is logged about it; on both engines."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from engram import Engram, InvalidInput, SessionNotFound
from engram.checks import MAX_TEXT


@pytest.mark.requirement("SESSION-17", "SESSION-14", "SESSION-16")
def test_a_session_s_own_words_can_be_its_summary_and_its_outcome(eng: Engram) -> None:
    sid = eng.sessions.register("codex", None, external_id="e1")
    assert [eng.sessions.quote(sid, role) for role in ("user", "assistant", "log")] == [False] * 3
    assert (eng.sessions.get(sid).summary, eng.sessions.get(sid).outcome) == ("", "")
    for role, said in (("user", "Port\nthe router"), ("assistant", "Where?"), ("user", "Here"), ("assistant", "Done")):
        eng.exchanges.add(sid, role, said)
    eng.sessions.log(sid, "x" * 300)
    for role, outcome in (("user", ""), ("assistant", "Done"), ("log", "x" * 200 + "…")):
        assert eng.sessions.quote(sid, role)
        assert (eng.sessions.get(sid).summary, eng.sessions.get(sid).outcome) == ("Port the router", outcome)
    assert eng.sessions.register("codex", None, external_id="e1") == sid
    assert eng.sessions.get(sid).summary == "Port the router"
    with pytest.raises(InvalidInput, match="'tool'"):
        eng.sessions.quote(sid, "tool")
    with pytest.raises(SessionNotFound):
        eng.sessions.quote("nobody", "user")


@pytest.mark.requirement("SESSION-18")
@pytest.mark.parametrize(
    "resume",
    [
        lambda eng, sid: eng.sessions.heartbeat(sid),
        lambda eng, sid: eng.sessions.register("codex", None, external_id="h-1"),
        lambda eng, sid: eng.sessions.log(sid, "one more step"),
    ],
    ids=["heartbeat", "register", "log"],
)
def test_a_resumed_session_keeps_its_summary_and_its_outcome(
    eng: Engram, resume: Callable[[Engram, str], object]
) -> None:
    sid = eng.sessions.register("codex", "Porting", external_id="h-1")
    assert eng.sessions.get(sid).outcome == ""
    eng.sessions.complete(sid, "Half of it is ported")
    resume(eng, sid)
    assert (eng.sessions.get(sid).summary, eng.sessions.get(sid).outcome) == ("Porting", "Half of it is ported")
    again = eng.sessions.complete(sid)
    assert (again.summary, again.outcome) == ("Porting", "Half of it is ported")
    assert eng.sessions.complete(sid, "All of it is ported").outcome == "All of it is ported"
    assert eng.sessions.find("h-1") == eng.sessions.get(sid)
    assert [each.outcome for each in eng.sessions.recent()] == ["All of it is ported"]


@pytest.mark.requirement("SESSION-3", "SESSION-16")
def test_the_outcome_is_also_understood_under_its_earlier_name(eng: Engram) -> None:
    sid = eng.sessions.register("codex", "Porting")
    assert eng.sessions.complete(sid, summary="Ported").outcome == "Ported"
    with pytest.raises(InvalidInput, match="earlier name"):
        eng.sessions.complete(sid, "Ported", summary="Ported")
    assert eng.sessions.complete(sid, outcome="Merged").outcome == "Merged"


@pytest.mark.requirement("SESSION-19")
def test_registering_a_known_external_id_merges_the_metadata(eng: Engram) -> None:
    first = {"model": "large", "pid": 1, "nested": {"a": 1, "b": 2}, "grüße": "你好"}
    sid = eng.sessions.register("codex", "Porting", first, external_id="h-1")
    nothing: list[dict[str, object] | None] = [None, {}]
    for given in nothing:
        eng.sessions.register("codex", "Porting", given, external_id="h-1")
        assert eng.sessions.get(sid).metadata == first
    eng.sessions.register("codex", None, {"pid": 2, "nested": {"c": 3}, "new": [True]}, external_id="h-1")
    assert eng.sessions.get(sid).metadata == {
        "model": "large",
        "pid": 2,
        "nested": {"c": 3},
        "grüße": "你好",
        "new": [True],
    }
    eng.sessions.register("codex", None, {"model": None}, external_id="h-1")
    assert eng.sessions.get(sid).metadata["model"] is None


@pytest.mark.requirement("SESSION-19", "SESSION-16")
def test_metadata_that_no_longer_fits_when_merged_changes_nothing(eng: Engram) -> None:
    half = "x" * (MAX_TEXT // 2)
    sid = eng.sessions.register("codex", "Porting", {"a": half}, external_id="h-1")
    before = eng.sessions.get(sid)
    with pytest.raises(InvalidInput, match="metadata"):
        eng.sessions.register("codex", "Again", {"b": half}, external_id="h-1")
    assert eng.sessions.get(sid) == before


@pytest.mark.requirement("SESSION-20")
def test_a_registration_and_a_completion_log_one_line_each_once_they_are_committed(
    eng: Engram, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "engram"):
        sid = eng.sessions.register("codex", "a secret plan", {"a": "b"}, project="acme/shop", external_id="h-1")
        eng.sessions.complete(sid, "a secret end")
        eng.sessions.register("codex", None, project="acme/shop", external_id="h-1")
        with pytest.raises(ZeroDivisionError), eng.write():
            eng.sessions.complete(sid)
            raise ZeroDivisionError
        with pytest.raises(SessionNotFound):
            eng.sessions.complete("nobody")
    assert [(each.name, each.levelname, each.getMessage()) for each in caplog.records] == [
        ("engram.sessions", "INFO", f"session {sid} {event} (codex, acme/shop)")
        for event in ("registered", "completed", "resumed")
    ]
