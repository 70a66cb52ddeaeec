"""What is recorded of a session: what the person said, what the agent found, what a compaction summed up."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from engram import Engram, Exchange
from engram.harness_prompts import compaction_summary, said
from engram.interfaces.hooks import respond
from engram.interfaces.hooks.spoken import MOST
from engram.interfaces.hooks.transcript import MOST_BYTES, since_last_prompt
from tests.conftest import ShiftedClock
from tests.interfaces._hook_server import hook_url, store_url

__all__ = ["hook_url", "store_url"]

Hook = Callable[..., str]

FINDING = "The port is read twice: once in config.py and once more in the router, which wins."
DECISION = "The router now takes the port from the settings, so both places agree."
#: When the transcripts begin: shortly before the session, which a test starts.
BEGAN = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)


def written(seconds: int = 0) -> str:
    """A time in a transcript."""
    return (BEGAN + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


@pytest.fixture
def hook(hook_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hook:
    def report(event: str, harness: str = "claude-code", session: str = "s1", **fields: Any) -> str:
        payload = {"session_id": session, "cwd": str(tmp_path), "hook_event_name": event, **fields}
        return respond(harness, json.dumps(payload).encode())

    return report


def turns(eng: Engram, session: str = "s1") -> list[Exchange]:
    found = eng.sessions.find(session)
    return eng.exchanges.history(found.id) if found else []


class Transcript:
    """A transcript in Claude Code's format."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._count = 0

    def add(self, role: str, text: str, **fields: Any) -> str:
        self._count += 1
        id = f"{role}-{self._count}"
        entry = {
            "type": role,
            "uuid": id,
            "timestamp": written(self._count),
            "isSidechain": False,
            "message": {"role": role, "content": [{"type": "text", "text": text}]},
            **fields,
        }
        with self.path.open("a") as file:
            file.write(json.dumps(entry) + "\n")
        return id


@pytest.fixture
def transcript(tmp_path: Path) -> Transcript:
    return Transcript(tmp_path / "transcript.jsonl")


COMMAND = """<command-name>/review</command-name>
            <command-message>review</command-message>
            <command-args>src</command-args>"""
NOTIFICATION = """<task-notification>
<task-id>a1</task-id>
<result>Perfect! Now I have all of it.</result>
</task-notification>
Full transcript available at: /tmp/a1.output"""
CONTINUED = "This session is being continued from a previous conversation that ran out of context."
FENCE = "Why is this in my prompt?\n```\n<system-reminder>\nBe nice.\n</system-reminder>\n```"


@pytest.mark.requirement("CAPTURE-1")
@pytest.mark.parametrize(
    ("prompt", "kept"),
    [
        ("Port the router", "Port the router"),
        ("/review src", "/review src"),
        (COMMAND, "/review src"),
        ("<command-message>review</command-message>\n<command-name>/review</command-name>", "/review"),
        ("<bash-input>git status</bash-input>", "! git status"),
        ("<bash-stdout>clean</bash-stdout><bash-stderr></bash-stderr>", ""),
        (NOTIFICATION, ""),
        (f"{NOTIFICATION}\n\nNow go on", "Now go on"),
        ("<local-command-caveat>Caveat: The messages below …</local-command-caveat>", ""),
        ("<local-command-stdout>Bye!</local-command-stdout>", ""),
        ("[Request interrupted by user for tool use]", ""),
        ("[Request interrupted by user]\nUse the other file", "Use the other file"),
        ("[Image #1]\nWhy is this red?", "Why is this red?"),
        ("Why is this red?\n[Image #1] [Image #2]", "Why is this red?"),
        ("[Image #1] Why is this red?", "[Image #1] Why is this red?"),
        ("Compare them.\n[Image #2] is the one we chose.", "Compare them.\n[Image #2] is the one we chose."),
        ("[Request interrupted by user for tool use]use tabs", "use tabs"),
        ("[Request interrupted by user] is in my log", "[Request interrupted by user] is in my log"),
        ("[Image: source: /tmp/a.png]", ""),
        ("Why?\n<system-reminder>\nA list.\n</system-reminder>", "Why?"),
        ('<system-reminder id="1">x</system-reminder>\nWhy?\n<system-reminder>y</system-reminder>', "Why?"),
        ("<ide_selection>line 3</ide_selection>\nWhat does this do?", "What does this do?"),
        (f"{CONTINUED}\nSummary:\n1. x\n2. y", ""),
        (f"{CONTINUED}\nWhy is that in my log?", f"{CONTINUED}\nWhy is that in my log?"),
        (f"{CONTINUED[:64]}: why?", f"{CONTINUED[:64]}: why?"),
        ("The user just ran /insights to generate a report.\n\nHere is the full insights data:\n{}", ""),
        ("The user just ran /insights to generate x. Why?", "The user just ran /insights to generate x. Why?"),
        ("# AGENTS.md instructions for /x\n\n<INSTRUCTIONS>\nBe nice.\n</INSTRUCTIONS>\nGo", "Go"),
        ("# Context from my IDE setup:\n\n## Active file: a.py\n\n## My request for Codex:\nGo on", "Go on"),
        ("# Context from my IDE setup: none", "# Context from my IDE setup: none"),
        ("<session_context>\nToday is Monday.\n</session_context>", ""),
        ("# AGENTS.md instructions for new people\nWrite it", "# AGENTS.md instructions for new people\nWrite it"),
        ("<INSTRUCTIONS>\nMy own\n</INSTRUCTIONS>", "<INSTRUCTIONS>\nMy own\n</INSTRUCTIONS>"),
        ("<bash-notification>\n<status>done</status>\n</bash-notification>", ""),
        ("<agent-notification>\nx\n</agent-notification>", ""),
        (
            "<task-notification>\n<r>It ends with </task-notification> here\n</task-notification>\n</r>\n"
            "</task-notification>\nGo",
            "Go",
        ),
        ("<task-notification>a</task-notification>\nGo\n<task-notification>b</task-notification>", "Go"),
        ("<user-memory-input>use tabs</user-memory-input>", "# use tabs"),
        ("<hook_context>Lint rules</hook_context>\n\nFix it", "Fix it"),
        ("fix it\n\nFull transcript available at: /tmp/x.jsonl", "fix it"),
        ("Fix it <system-reminder>x</system-reminder>", "Fix it"),
        ("Cut <system-reminder> to </system-reminder>", "Cut <system-reminder> to </system-reminder>"),
        (
            "<system-reminder> leaks up to </system-reminder> in x.py",
            "<system-reminder> leaks up to </system-reminder> in x.py",
        ),
        (
            "<command-name> is not read, </command-name> is; why?",
            "<command-name> is not read, </command-name> is; why?",
        ),
        ("<environment_context>\n<cwd>/x</cwd>\n</environment_context>", ""),
        ("What is <command-name>x</command-name> for?", "What is <command-name>x</command-name> for?"),
        ("<system-reminder> is never closed here", "<system-reminder> is never closed here"),
        (FENCE, FENCE),
        ("<div>my own markup</div>", "<div>my own markup</div>"),
        ("[x] a checkbox", "[x] a checkbox"),
        ("", ""),
    ],
)
def test_what_the_harness_put_into_a_prompt_is_not_what_the_person_said(prompt: str, kept: str) -> None:
    assert said(prompt) == kept


@pytest.mark.requirement("CAPTURE-1")
def test_a_prompt_of_the_harness_alone_is_no_turn_and_no_summary(hook: Hook, eng: Engram) -> None:
    assert hook("UserPromptSubmit", prompt=NOTIFICATION) == ""
    assert eng.sessions.list() == []
    hook("UserPromptSubmit", prompt=f"{COMMAND}")
    hook("UserPromptSubmit", prompt="[Request interrupted by user]")
    assert [turn.content for turn in turns(eng)] == ["/review src"]


@pytest.mark.requirement("CAPTURE-2")
def test_a_stop_records_what_was_found_since_the_prompt_with_its_id_and_time(
    hook: Hook, eng: Engram, transcript: Transcript
) -> None:
    hook("UserPromptSubmit", prompt="Why is the port wrong?")
    transcript.add("user", "An earlier question about something else entirely")
    transcript.add("assistant", "An earlier answer that was recorded long ago, in another stop.")
    asked = transcript.add("user", "Why is the port wrong?")
    transcript.add("assistant", "Let me look at the router first.")
    found = transcript.add("assistant", f"{FINDING} Let me fix that now.")
    transcript.add("user", "", toolUseResult={"ok": True})
    transcript.add("user", NOTIFICATION)
    transcript.add("user", "Text of a command for the model", isMeta=True)
    transcript.add("assistant", "A subagent says something that belongs to its own session.", isSidechain=True)
    transcript.add("assistant", "All tests pass.")
    closing = transcript.add("assistant", DECISION)
    for _ in range(2):
        hook("Stop", transcript_path=str(transcript.path), last_assistant_message=DECISION)
    assert [(turn.role, turn.content, turn.external_id) for turn in turns(eng)] == [
        ("user", "Why is the port wrong?", asked),
        ("assistant", FINDING, found),
        ("assistant", DECISION, closing),
    ]
    assert turns(eng)[1].created_at == written(5).replace("Z", ".000000Z")


@pytest.mark.requirement("CAPTURE-2")
def test_a_second_stop_adds_only_what_is_new(hook: Hook, eng: Engram, transcript: Transcript) -> None:
    transcript.add("user", "Why is the port wrong?")
    transcript.add("assistant", FINDING)
    # The harness reports the closing message before its transcript has it.
    hook("Stop", transcript_path=str(transcript.path), last_assistant_message=DECISION)
    late = transcript.add("assistant", DECISION)
    last = transcript.add("assistant", "The documentation names the setting now, in the page about ports.")
    hook("Stop", transcript_path=str(transcript.path))
    assert [turn.content for turn in turns(eng)] == [
        FINDING,
        DECISION,
        "The documentation names the setting now, in the page about ports.",
    ]
    assert [turn.external_id for turn in turns(eng)][1:] == [late, last]


@pytest.mark.requirement("CAPTURE-2")
def test_the_same_words_after_another_prompt_are_another_turn(hook: Hook, eng: Engram) -> None:
    for prompt in ("Try it", "Try it again"):
        hook("UserPromptSubmit", prompt=prompt)
        hook("Stop", last_assistant_message="It fails.")
    assert [turn.content for turn in turns(eng)] == ["Try it", "It fails.", "Try it again", "It fails."]


@pytest.mark.requirement("CAPTURE-2")
def test_of_many_messages_the_latest_are_recorded_and_long_ones_are_cut(
    hook: Hook, eng: Engram, transcript: Transcript
) -> None:
    transcript.add("user", "Read everything")
    for number in range(30):
        transcript.add(
            "assistant", f"File number {number} says that the port is taken from the settings. " + "x " * 9_000
        )
    hook("Stop", transcript_path=str(transcript.path), last_assistant_message=DECISION)
    recorded = turns(eng)
    assert len(recorded) == MOST
    assert recorded[-2].content.startswith("File number 29 ")
    assert all(len(turn.content) <= 8_002 for turn in recorded)


@pytest.mark.requirement("CAPTURE-2")
def test_a_transcript_is_read_back_to_its_bound_and_no_further(transcript: Transcript) -> None:
    transcript.add("user", "Too far back")
    transcript.add("assistant", "x" * MOST_BYTES)
    transcript.add("assistant", FINDING)
    prompt, messages = since_last_prompt(str(transcript.path))
    assert prompt is None
    assert [message.text for message in messages] == [FINDING]


@pytest.mark.requirement("CAPTURE-2")
def test_a_subagent_s_messages_go_to_its_own_session(hook: Hook, eng: Engram, transcript: Transcript) -> None:
    child = {"agent_id": "a1", "agent_type": "Explore"}
    hook("SubagentStart", **child)
    transcript.add("user", "Find the port", isSidechain=True)
    transcript.add("assistant", FINDING, isSidechain=True)
    transcript.add("assistant", DECISION, isSidechain=True)
    hook("SubagentStop", **child, agent_transcript_path=str(transcript.path), last_assistant_message=DECISION)
    assert [turn.content for turn in turns(eng, "s1/a1")] == [FINDING, DECISION]
    assert turns(eng) == []


CODEX = [
    {"type": "response_item", "payload": {"type": "message", "role": "user", "content": "Why?"}},
    {"type": "event_msg", "payload": {"type": "user_message", "message": "Why?"}},
    {
        "type": "response_item",
        "timestamp": written(),
        "payload": {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": FINDING}]},
    },
    {"type": "response_item", "payload": {"type": "function_call_output", "output": "assistant"}},
    {"type": "response_item", "payload": {"type": "message", "role": "assistant", "content": DECISION}},
]
GEMINI = [
    {"id": "g1", "type": "user", "content": [{"text": "Why?"}]},
    {"id": "g2", "type": "gemini", "content": FINDING, "timestamp": written()},
    {"id": "g3", "type": "gemini", "content": DECISION},
]


@pytest.mark.requirement("CAPTURE-2")
@pytest.mark.parametrize(
    ("harness", "event", "field", "name", "text"),
    [
        ("codex", "Stop", "last_assistant_message", "rollout.jsonl", "\n".join(map(json.dumps, CODEX))),
        ("gemini", "AfterAgent", "prompt_response", "session.jsonl", "\n".join(map(json.dumps, GEMINI))),
        ("gemini", "AfterAgent", "prompt_response", "session.json", json.dumps({"messages": GEMINI}, indent=2)),
    ],
    ids=["codex", "gemini", "gemini, one document"],
)
def test_the_transcripts_of_other_harnesses_are_read_too(
    harness: str, event: str, field: str, name: str, text: str, hook: Hook, eng: Engram, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    hook(event, harness, transcript_path=str(tmp_path / name), **{field: DECISION})
    assert [turn.content for turn in turns(eng)] == [FINDING, DECISION]
    assert turns(eng)[0].created_at == written().replace("Z", ".000000Z")


@pytest.mark.requirement("CAPTURE-2")
def test_secrets_and_private_parts_of_earlier_messages_are_not_stored(
    hook: Hook, eng: Engram, transcript: Transcript
) -> None:
    transcript.add("user", "Why?")
    transcript.add("assistant", f"{FINDING}\npassword = 'hunter2-qXz91-long'\n<private>the secret plan</private>")
    hook("Stop", transcript_path=str(transcript.path), last_assistant_message=DECISION)
    stored = "\n".join(turn.content for turn in turns(eng))
    assert FINDING in stored
    assert "hunter2" not in stored
    assert "secret plan" not in stored


CLEANED = "1. Intent: port the router.\n2. State: half done."
SUMMARY = f"<analysis>\nLet me think.\n</analysis>\n<summary>\n{CLEANED}\n</summary>"
SHOWN = """This session is being continued from a previous conversation that ran out of context. It follows.

Analysis:
Let me think.

Summary:
1. Intent: port the router.
2. State: half done.

Continue the conversation from where it left off without asking the user any further questions."""


@pytest.mark.requirement("CAPTURE-3")
@pytest.mark.parametrize("text", [SUMMARY, SHOWN, CLEANED], ids=["elements", "headings", "plain"])
def test_the_analysis_and_the_words_around_a_summary_are_left_out(text: str) -> None:
    assert compaction_summary(text) == CLEANED


@pytest.mark.requirement("CAPTURE-3")
def test_a_compaction_s_summary_is_the_gist_so_far_by_an_agent_from_the_turns(hook: Hook, eng: Engram) -> None:
    hook("UserPromptSubmit", prompt="Port the router")
    hook("PreCompact", trigger="auto")
    hook("PostCompact", trigger="auto", compact_summary=SUMMARY)
    (session,) = eng.sessions.list()
    (gist,) = eng.memories.list(kind="gist")
    assert (gist.content, gist.trust, gist.session_id) == (CLEANED, "agent", session.id)
    assert ("exchange", turns(eng)[0].id) in eng.memories.sources(gist.id)
    assert eng.memories.unsummarised(session.id) == []
    # A pass has nothing to add, and keeps it. What is said later is summed up as usual.
    eng.dream(force=True)
    assert eng.memories.get(gist.id).content == CLEANED
    hook("UserPromptSubmit", prompt="Now the tests")
    assert [turn.content for turn in eng.memories.unsummarised(session.id)] == ["Now the tests"]
    # Forgetting a turn that it covers takes the gist along.
    eng.forget(exchange=turns(eng)[0].id)
    assert CLEANED not in {each.content for each in eng.memories.list(kind="gist")}


@pytest.mark.requirement("CAPTURE-3")
@pytest.mark.parametrize("harness", ["claude-code", "codex"])
def test_a_summary_that_no_event_brings_is_read_from_the_transcript(
    harness: str, hook: Hook, eng: Engram, transcript: Transcript
) -> None:
    hook("UserPromptSubmit", harness, prompt="Port the router")
    hook("PreCompact", harness, trigger="auto")
    if harness == "codex":
        transcript.path.write_text(json.dumps({"type": "compacted", "payload": {"message": SHOWN}}))
        hook("PostCompact", harness, trigger="auto", transcript_path=str(transcript.path))
    else:
        transcript.add("user", SHOWN, isCompactSummary=True)
    for _ in range(2):
        hook("SessionStart", harness, source="compact", transcript_path=str(transcript.path))
    (gist,) = eng.memories.list(kind="gist")
    assert (gist.content, gist.version) == (CLEANED, 1)


@pytest.mark.requirement("CAPTURE-4")
def test_a_session_that_begins_with_a_command_to_the_harness_has_the_next_ask_as_summary(
    hook: Hook, eng: Engram
) -> None:
    for prompt in ("<command-name>/model</command-name>", "! git status", "Port the router", "And the tests"):
        hook("UserPromptSubmit", prompt=prompt)
    (session,) = eng.sessions.list()
    assert session.summary == "Port the router"


@pytest.mark.requirement("CAPTURE-6")
def test_a_message_shown_in_the_background_is_read_only_when_the_session_went_on(
    hook: Hook, eng: Engram, clock: ShiftedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engram.coordination import messages

    hook("SessionStart")
    (session,) = eng.sessions.list()
    eng.messages.send(None, session.id, "Staging is mine until noon")
    assert "Staging is mine" in hook("PostToolUse", tool_name="Bash")
    clock.advance(messages.PATIENCE + 1)
    assert [each.text for each in eng.messages.inbox(session.id, peek=True)] == ["Staging is mine until noon"]
    # The hook's own clock: the message is due again, and a later event proves that the model was asked since.
    monkeypatch.setattr(messages, "PATIENCE", 0.0)
    assert hook("PostToolUse", tool_name="Bash") == ""
    clock.advance(60)
    assert eng.messages.inbox(session.id, peek=True) == []
