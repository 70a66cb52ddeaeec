"""Messages of a framework come back as they were given, and what they say is a turn."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

from engram import Engram, InvalidInput, SessionNotFound
from tests._tables import holds

CALL = {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": '{"city": "Oslo"}'}
SAID = {"role": "user", "content": "The heron nests by the weir."}


#: Adds ten batches of three messages to one session.
WRITER = """
import sys
from engram import Engram
with Engram(sys.argv[1]) as eng:
    for batch in range(10):
        said = [f"{sys.argv[2]} {batch} {place}" for place in range(3)]
        eng.transcripts.add("talk", [(text, "user", text) for text in said])
"""


def values(eng: Engram, n: int | None = None) -> list[object]:
    return [each.value for each in eng.transcripts.latest("talk", n)]


def test_messages_come_back_in_order_and_their_texts_are_turns(eng: Engram) -> None:
    eng.sessions.ensure("talk")
    eng.transcripts.add("talk", [(SAID, "user", SAID["content"]), (CALL, None, ""), ([1, None, "x"], None, "")])
    eng.transcripts.add("talk", [("Noted.", "assistant", "Noted.")])
    assert values(eng) == [SAID, CALL, [1, None, "x"], "Noted."]
    assert values(eng, 2) == [[1, None, "x"], "Noted."]
    assert values(eng, 0) == []
    turns = eng.exchanges.history("talk")
    assert [(turn.role, turn.content, turn.trust) for turn in turns] == [
        ("user", SAID["content"], "user"),
        ("assistant", "Noted.", "agent"),
    ]
    assert [each.turn for each in eng.transcripts.latest("talk")] == [turns[0].id, None, None, turns[1].id]
    assert eng.sessions.get("talk").turns == 2
    assert [hit.text for hit in eng.recall("where does the heron nest?", k=1)] == [SAID["content"]]


def test_the_log_entry_of_a_message_is_trusted_like_its_words(eng: Engram) -> None:
    eng.sessions.ensure("talk")
    eng.transcripts.add("talk", [(SAID, "user", "Said."), (CALL, None, "")])
    assert [eng.exchanges.get(each.id).trust for each in eng.transcripts.latest("talk")] == ["user", "tool"]


def test_other_log_entries_are_no_messages_and_a_damaged_one_is_left_out(
    eng: Engram, store_url: str, open_store: Callable[..., Engram]
) -> None:
    eng.sessions.ensure("talk")
    eng.sessions.log("talk", "built the router")
    eng.transcripts.add("talk", [(SAID, None, "")])
    eng.sessions.log("talk", 'Message as JSON: {"half": ')
    assert values(eng) == [SAID]
    assert values(open_store()) == [SAID]


def test_forgetting_the_turn_takes_the_message_too(eng: Engram, store_url: str) -> None:
    eng.sessions.ensure("talk")
    eng.transcripts.add("talk", [(SAID, "user", SAID["content"]), (CALL, None, "")])
    turn, _ = (each.turn for each in eng.transcripts.latest("talk"))
    eng.forget(exchange=turn)
    assert values(eng) == [CALL]
    assert holds(store_url, "heron") == {}


def test_secrets_are_removed_from_the_message_and_from_the_turn(eng: Engram, store_url: str) -> None:
    token = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
    eng.sessions.ensure("talk")
    call = {**CALL, "arguments": json.dumps({"password": "hunter2-and-more"})}
    eng.transcripts.add("talk", [({"content": f"use {token} now"}, "user", f"use {token} now"), (call, None, "")])
    assert holds(store_url, token) == holds(store_url, "hunter2-and-more") == {}
    said, called = values(eng)
    assert said == {"content": "use [redacted: github token] now"}
    assert isinstance(called, dict) and json.loads(called["arguments"]) == {"password": "[redacted: password]"}


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (({"a": float("nan")}, None, ""), "cannot be stored as JSON"),
        (({"a": object()}, None, ""), "cannot be stored as JSON"),
        (({"a": "x" * 1_000_000}, None, ""), "at most 1,000,000 fit"),
        (({}, "log", "A log."), "role is 'log'"),
        (({}, "user", "a\x00b"), "NUL"),
    ],
)
def test_all_messages_of_a_call_are_stored_or_none(
    eng: Engram, wrong: tuple[object, str | None, str], why: str
) -> None:
    eng.sessions.ensure("talk")
    with pytest.raises(InvalidInput, match=why):
        eng.transcripts.add("talk", [(SAID, "user", "Said."), wrong])
    assert values(eng) == []
    assert eng.exchanges.history("talk") == []


def test_a_session_that_does_not_exist_has_no_messages_and_takes_none(eng: Engram) -> None:
    assert values(eng) == []
    eng.transcripts.add("talk", [])
    with pytest.raises(SessionNotFound):
        eng.transcripts.add("talk", [(SAID, "user", "Said.")])


def test_the_texts_are_found_by_meaning_at_once(eng: Engram) -> None:
    eng.sessions.ensure("talk")
    texts = ["The ferry to the island leaves at noon.", "Bread is baked before dawn."]
    eng.transcripts.add("talk", [(CALL, None, ""), *[(text, "user", text) for text in texts]])
    # Only the log entries wait.
    assert eng.embedding_queue.size() == 3
    hits = eng.recall("boat departure", k=1)
    assert [hit.text for hit in hits] == [texts[0]]


def test_workspaces_do_not_see_each_others_messages(eng: Engram) -> None:
    eng.sessions.ensure("talk")
    eng.transcripts.add("talk", [(SAID, "user", "Said.")])
    assert values(eng.workspace("other")) == []


def test_two_processes_add_to_one_session_without_mixing_or_losing_messages(eng: Engram, store_url: str) -> None:
    eng.sessions.ensure("talk")
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, store_url, name]) for name in ("one", "two")]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    found = [str(value).split() for value in values(eng)]
    batches = [found[start : start + 3] for start in range(0, len(found), 3)]
    assert all(batch == [[*batch[0][:2], place] for place in "012"] for batch in batches)
    for name in ("one", "two"):
        assert [int(first[1]) for first, *_ in batches if first[0] == name] == list(range(10))
    assert [turn.content.split() for turn in eng.exchanges.history("talk")] == found
