"""What a session set out to do and what came of it, its metadata, and what is logged about it; on both engines."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from engram import Engram, InvalidInput, SessionNotFound
from engram.checks import MAX_TEXT
from tests.conftest import ShiftedClock


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


LOG = "2026-01-13 11:28:41 INFO Parsing session file=/tmp/a.jsonl\n" * 30


@pytest.mark.requirement("CAPTURE-4")
@pytest.mark.parametrize(
    ("prompts", "summary"),
    [
        (["/clear", "/model opus", "! git status", "Port the router"], "Port the router"),
        (["/pr-review 151", "Address 3 and 8"], "/pr-review 151"),
        (
            [f"{LOG}\nWhy does this parse twice? It should parse once."],
            "Why does this parse twice? It should parse once.",
        ),
        (["Implement the following plan:\n\n# Plan: Port the router\n"], "# Plan: Port the router"),
        (["/clear"], ""),
    ],
)
def test_the_summary_is_what_was_first_asked(eng: Engram, prompts: list[str], summary: str) -> None:
    sid = eng.sessions.register("codex", None)
    for prompt in prompts:
        eng.exchanges.add(sid, "user", prompt)
    assert eng.sessions.quote(sid, "user") == bool(summary)
    assert eng.sessions.get(sid).summary == summary


@pytest.mark.requirement("CAPTURE-4")
def test_a_long_ask_is_cut_at_a_word(eng: Engram) -> None:
    sid = eng.sessions.register("codex", None)
    eng.exchanges.add(sid, "user", "port the router to the new library " * 20)
    eng.sessions.quote(sid, "user")
    summary = eng.sessions.get(sid).summary
    assert 100 < len(summary) <= 200
    assert summary.removesuffix("…").rsplit(None, 1)[-1] in ["port", "the", "router", "to", "the", "new", "library"]


@pytest.mark.requirement("CAPTURE-4")
@pytest.mark.parametrize(
    ("messages", "outcome"),
    [
        (["The router is ported to the new library.", "Perfect! Now I have all the information."], 0),
        (["The router is ported to the new library.", "Shall I also do the tests?"], 0),
        (["Found the cause: the port is read twice.", "Let me fix that.", "Fixed. The port is read once now."], 2),
        (["Let me look.", "Now I'll run the tests:"], None),
        (["Done"], 0),
        (["Ported order.mjml. invoice.mjml is still missing.", "OK, invoice.mjml is left for tomorrow."], 0),
        (["The router is ported to the new library.", "Understood: no deploys on Fridays."], 0),
        (["The router is ported to the new library.", "OK, I removed the old adapter as well."], 1),
        (["Which library is it?", "OK, invoice.mjml is left for tomorrow."], 1),
    ],
)
def test_the_outcome_is_the_message_that_says_what_came_of_it(
    eng: Engram, messages: list[str], outcome: int | None
) -> None:
    sid = eng.sessions.register("codex", "Port the router")
    for message in messages:
        eng.exchanges.add(sid, "assistant", message)
    assert eng.sessions.quote(sid, "assistant") == (outcome is not None)
    assert eng.sessions.get(sid).outcome == ("" if outcome is None else messages[outcome])


@pytest.mark.requirement("CAPTURE-4")
def test_an_outcome_quotes_a_sentence_with_a_quotation_in_it_as_it_was_said(eng: Engram) -> None:
    sid = eng.sessions.register("codex", "Repeat the greeting")
    said = 'I made the function run three times, printing "Hello, Alice!" three times.'
    eng.exchanges.add(sid, "assistant", f"{said} {'It is a long story. ' * 20}\n\nWant me to commit it?")
    eng.sessions.quote(sid, "assistant")
    assert eng.sessions.get(sid).outcome.startswith(said)


@pytest.mark.requirement("CAPTURE-4")
def test_a_long_closing_message_is_shortened_to_the_sentences_that_say_something(eng: Engram) -> None:
    sid = eng.sessions.register("codex", "Port the router")
    said = (
        "All tests pass. Here's a summary of the changes:\n\n## Summary\n\n**Changes made:**\n\n"
        "1. **Ported** `router.py` to the new library\n2. Removed the old adapter\n\n```python\nx = 1\n```\n\n"
        "| file | lines |\n|---|---|\n| a | 1 |\n\n" + "It is a long story. " * 30 + "\n\nWant me to commit it?"
    )
    eng.exchanges.add(sid, "assistant", said)
    eng.sessions.quote(sid, "assistant")
    outcome = eng.sessions.get(sid).outcome
    assert outcome.startswith("Ported `router.py` to the new library; Removed the old adapter; It is a long story.")
    assert len(outcome) <= 300


@pytest.mark.requirement("CAPTURE-4", "FORGET-22")
def test_the_files_of_an_outcome_go_with_the_leases_and_its_text_with_the_turn(
    eng: Engram, clock: ShiftedClock
) -> None:
    sid = eng.sessions.register("codex", "Port the router", project="shop")
    for number in range(6):
        eng.leases.claim(sid, f"shop:src/file{number}.py", ttl=60)
    eng.leases.claim(sid, "staging", ttl=60)
    turn = eng.exchanges.add(sid, "assistant", "The router is ported.")
    eng.sessions.complete(sid)
    eng.sessions.quote(sid, "assistant")
    files = "src/file0.py, src/file1.py, src/file2.py, src/file3.py and 2 more"
    assert eng.sessions.get(sid).outcome == f"The router is ported. Files: {files}"
    eng.forget(exchange=turn)
    assert eng.sessions.get(sid).outcome == ""
    clock.advance(60)
    before = eng.sessions.heartbeat(sid).heartbeat_at
    clock.advance(1)
    eng.exchanges.add(sid, "assistant", "The tests are ported, too.")
    eng.sessions.quote(sid, "assistant")
    assert "Files: src/file0.py" in eng.sessions.get(sid).outcome
    eng.forget(before=before)
    assert eng.sessions.get(sid).outcome == "The tests are ported, too."
