"""What is recorded of a session is recorded once, completely and in order, whatever a harness reports and when."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engram import Engram
from engram import harness_payloads as payloads
from engram.interfaces.hooks import transcript as transcripts
from engram.narration import is_narration, without_narration
from tests.interfaces._hook_server import hook_url, store_url
from tests.interfaces.test_capture import DECISION, FINDING, Hook, Transcript, hook, transcript, turns, written

__all__ = ["hook", "hook_url", "store_url", "transcript"]

NARRATED = f"Let me sum up. {FINDING}"
TOKEN = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"


def contents(eng: Engram, session: str = "s1") -> list[str]:
    return [turn.content for turn in turns(eng, session)]


@pytest.mark.requirement("CAPTURE-1", "HOOK-7")
@pytest.mark.parametrize(
    ("prompt", "kept"),
    [
        ("<system-reminder>Wrap secrets in <private> tags.</system-reminder>\nFix the bug", ["Fix the bug"]),
        ("<system-reminder>x <private>y</system-reminder>\ntok 991</private>\nFix", ["<system-reminder>x \nFix"]),
        ("<command-name>/go</command-name>\n<command-args>a <private>tok 991</private></command-args>", ["/go a"]),
        ("<private>\n<system-reminder>x</system-reminder>\ntok 991</private>", []),
        ("<engram-context>x</engram-context>\n<system-reminder>y</system-reminder>\nFix the bug", ["Fix the bug"]),
    ],
)
def test_a_reminder_about_private_tags_hides_nothing_and_private_text_stays_private(
    prompt: str, kept: list[str], hook: Hook, eng: Engram
) -> None:
    hook("UserPromptSubmit", prompt=prompt)
    assert contents(eng) == kept


@pytest.mark.requirement("CAPTURE-3", "HOOK-7")
def test_a_summary_inside_a_private_passage_is_no_gist(hook: Hook, eng: Engram) -> None:
    hook("UserPromptSubmit", prompt="Port the router")
    hook("PostCompact", compact_summary="Asked: <private>remember <summary>tok 991</summary> please</private>")
    assert [gist.content for gist in eng.memories.list(kind="gist")] == ["Asked:"]


@pytest.mark.requirement("CAPTURE-2")
def test_messages_that_an_event_joined_are_recorded_once(hook: Hook, eng: Engram, transcript: Transcript) -> None:
    hook("UserPromptSubmit", prompt="Why?")
    transcript.add("user", "Why?")
    transcript.add("assistant", FINDING)
    hook("Stop", last_assistant_message=FINDING, transcript_path=str(transcript.path))
    transcript.add("assistant", DECISION)
    joined = f"{FINDING}\n\n{DECISION}"
    hook("Stop", last_assistant_message=joined, transcript_path=str(transcript.path))
    transcript.add("user", "<bash-notification>\nDone\n</bash-notification>")
    hook("Stop", last_assistant_message="Everything is finished.", transcript_path=str(transcript.path))
    assert contents(eng) == ["Why?", FINDING, DECISION, "Everything is finished."]
    hook("UserPromptSubmit", session="s2", prompt="Why?")
    hook("Stop", session="s2", last_assistant_message=joined)
    hook("Stop", session="s2", transcript_path=str(transcript.path), last_assistant_message="Everything is finished.")
    assert contents(eng, "s2") == ["Why?", joined, "Everything is finished."]


def codex(role: str, text: str) -> str:
    return json.dumps({"type": "response_item", "payload": {"type": "message", "role": role, "content": text}})


@pytest.mark.requirement("CAPTURE-2")
def test_messages_without_ids_are_recorded_once_even_if_narrated_or_long(
    hook: Hook, eng: Engram, tmp_path: Path
) -> None:
    path = tmp_path / "rollout.jsonl"
    long = f"{DECISION} " + " ".join(f"Shard {number} waits for a lock." for number in range(400))
    said = [codex("user", "Why?")]
    hook("UserPromptSubmit", "codex", prompt="Why?")
    for text in (NARRATED, long, "The deployment was pushed to the staging cluster this morning."):
        # The transcript lags behind the first event, and has the message at the second.
        for lines in (said, said := [*said, codex("assistant", text)]):
            path.write_text("\n".join(lines))
            hook("Stop", "codex", last_assistant_message=text, transcript_path=str(path))
    assert contents(eng)[1:3] == [NARRATED, long]
    assert len(turns(eng)) == 4


@pytest.mark.requirement("CAPTURE-2")
def test_a_message_that_two_events_of_cursor_report_is_recorded_once(hook: Hook, eng: Engram, tmp_path: Path) -> None:
    path = tmp_path / "cursor.jsonl"
    said = [{"role": "user", "message": {"content": "Why?"}}]
    hook("beforeSubmitPrompt", "cursor", prompt="Why?")
    for text in (NARRATED, DECISION):
        said.append({"role": "assistant", "message": {"content": text}})
        path.write_text("\n".join(map(json.dumps, said)))
        hook("afterAgentResponse", "cursor", text=text)
        hook("stop", "cursor", status="completed", transcript_path=str(path))
    assert contents(eng) == ["Why?", NARRATED, DECISION]


@pytest.mark.requirement("CAPTURE-2")
@pytest.mark.parametrize(
    "sentence",
    [
        "I should point out that rotating the key deletes every session, so never rotate during office hours.",
        "Let me be clear: the production database must never be migrated without a snapshot.",
        "I'll keep the flag off because customers in Japan rely on it for their invoices.",
        "Let me be blunt: the other compiler breaks the kernels on ARM.",
    ],
)
def test_a_sentence_with_a_reason_or_a_rule_is_recorded_however_it_begins(
    sentence: str, hook: Hook, eng: Engram, transcript: Transcript
) -> None:
    assert is_narration(sentence), "recall still counts it less"
    assert without_narration(f"Let me look. {sentence}") == sentence
    transcript.add("user", "Why?")
    transcript.add("assistant", f"Let me look. {sentence}")
    hook("Stop", last_assistant_message="Finished.", transcript_path=str(transcript.path))
    assert contents(eng) == [sentence, "Finished."]


# With a server, everything is sent in one request, so the transcript is read before.
@pytest.mark.requirement("CAPTURE-2", "HOOK-13")
@pytest.mark.parametrize("store_url", ["sqlite", "postgres"], indirect=True)
def test_the_closing_message_is_stored_before_the_transcript_is_read(
    hook: Hook, eng: Engram, transcript: Transcript, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []
    read = transcripts._lines

    def watched(path: str, within: float) -> Any:
        seen.append(contents(eng))
        return read(path, within)

    monkeypatch.setattr(transcripts, "_lines", watched)
    transcript.add("user", "Why?")
    transcript.add("assistant", FINDING)
    transcript.add("assistant", DECISION)
    hook("Stop", last_assistant_message=DECISION, transcript_path=str(transcript.path))
    assert seen == [[DECISION]]
    assert contents(eng) == [FINDING, DECISION]


@pytest.mark.requirement("CAPTURE-2")
def test_reading_a_transcript_ends_when_its_time_is_up(transcript: Transcript, monkeypatch: pytest.MonkeyPatch) -> None:
    transcript.add("user", "Why?")
    transcript.path.write_text(transcript.path.read_text() + '"assistant"\n' * 1_000)
    assert transcripts.since_last_prompt(str(transcript.path)).prompt is not None
    monkeypatch.setattr(transcripts, "LONGEST_READ", -1.0)
    assert transcripts.since_last_prompt(str(transcript.path)) == (None, [])


@pytest.mark.requirement("CAPTURE-2", "CAPTURE-4")
def test_an_error_of_the_model_s_server_is_neither_a_turn_nor_an_outcome(
    hook: Hook, eng: Engram, transcript: Transcript
) -> None:
    error = 'API Error: 529 {"type":"error"} overloaded, and the request was repeated ten times in vain'
    hook("UserPromptSubmit", prompt="Why?")
    transcript.add("user", "Why?")
    transcript.add("assistant", FINDING)
    transcript.add("assistant", error)
    transcript.add(
        "assistant", "The usage limit of this month was reached, which resets on Monday.", isApiErrorMessage=True
    )
    hook("Stop", last_assistant_message=error, transcript_path=str(transcript.path))
    assert contents(eng) == ["Why?", FINDING]
    # One that an older version has recorded.
    (session,) = eng.sessions.list()
    eng.exchanges.add(session.id, "assistant", error)
    hook("SessionEnd")
    assert eng.sessions.get(session.id).outcome == FINDING


@pytest.mark.requirement("CAPTURE-2")
@pytest.mark.parametrize("known_at", ["prompt", "stop"])
def test_what_was_found_before_an_interruption_is_recorded(
    known_at: str, hook: Hook, eng: Engram, transcript: Transcript
) -> None:
    hook("UserPromptSubmit", prompt="Why?")
    transcript.add("user", "Why?")
    found = transcript.add("assistant", FINDING)
    transcript.add("user", "[Request interrupted by user]")
    path = {"transcript_path": str(transcript.path)}
    hook("UserPromptSubmit", prompt="Look at the logs first", **(path if known_at == "prompt" else {}))
    transcript.add("user", "Look at the logs first")
    for _ in range(2):
        hook("Stop", last_assistant_message=DECISION, **path)
    assert sorted(contents(eng)) == sorted(["Why?", FINDING, "Look at the logs first", DECISION])
    if known_at == "prompt":
        assert contents(eng) == ["Why?", FINDING, "Look at the logs first", DECISION]
    assert found in {turn.external_id for turn in turns(eng)}


@pytest.mark.requirement("CAPTURE-2")
def test_an_implausible_time_in_a_transcript_counts_as_now(hook: Hook, eng: Engram, transcript: Transcript) -> None:
    hook("UserPromptSubmit", prompt="Why?")
    now = turns(eng)[0].created_at
    transcript.add("user", "Why?")
    for number, time in enumerate(["2099-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "not a time", written(1)]):
        transcript.add("assistant", f"{number}. {FINDING}", timestamp=time)
    hook("Stop", last_assistant_message=DECISION, transcript_path=str(transcript.path))
    found = turns(eng)[1:-1]
    assert [turn.content[0] for turn in found] == ["0", "1", "2", "3"]
    assert all(now <= turn.created_at < "2099" for turn in found[:3])
    assert found[3].created_at < now


@pytest.mark.requirement("HOOK-7", "REDACT-1")
def test_a_text_that_is_too_long_is_not_cut_within_a_secret(hook: Hook, eng: Engram) -> None:
    hook("UserPromptSubmit", prompt="x " * (payloads.LONGEST // 2 - 10) + f"use {TOKEN}")
    hook("subagentStart", "cursor", session="c1", conversation_id="c1", task="Go on. " * 26 + f"key {TOKEN} and go")
    everything = [*contents(eng), *(session.summary for session in eng.sessions.list())]
    assert not any("ghp_" in text for text in everything)
    assert len(contents(eng)[0]) > payloads.LONGEST - 1_000
    assert payloads.cut("x" * (payloads.LONGEST + 1), payloads.LONGEST) == "x" * (payloads.LONGEST - 900)
