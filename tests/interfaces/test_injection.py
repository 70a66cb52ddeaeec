"""Which remembered lines a prompt gets."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from engram import Engram
from engram.interfaces.hooks import injection, respond
from engram.memory import prompt_gate
from engram.tokens import estimate
from tests.interfaces._hook_server import hook_url, store_url

__all__ = ["hook_url", "store_url"]

#: Send one prompt; what the model is shown beside it.
Prompt = Callable[..., str]

FINDING = "The ledger upload retries three times because the gateway of the bank drops the first call"


@pytest.fixture
def prompt(hook_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Prompt:
    def send(text: str, session: str = "s1", project: str = "shop") -> str:
        (tmp_path / project).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / project)
        payload = {"session_id": session, "cwd": str(tmp_path / project), "hook_event_name": "UserPromptSubmit"}
        answer = respond("claude-code", json.dumps({**payload, "prompt": text}).encode())
        return json.loads(answer)["hookSpecificOutput"]["additionalContext"] if answer else ""

    return send


@pytest.fixture
def filled(eng: Engram) -> Engram:
    """A store in which words are rare or common as they are in a real one."""
    session = eng.sessions.register("codex", "", project="shop")
    for number in range(60):
        eng.exchanges.add(session, "user", f"please run test {number} again and show what changed", embed=False)
    return eng


def say(eng: Engram, role: str, *texts: str, project: str | None = "shop") -> list[int]:
    session = eng.sessions.register("codex", "", project=project)
    return [eng.exchanges.add(session, role, text, embed=False) for text in texts]


@pytest.mark.parametrize(
    "said, asked",
    [
        ("Why does parse_invoice fail?", "Why does parse_invoice fail?"),
        ("continue", ""),
        ("ok, plan out B", ""),
        ("address 3 and 8", ""),
        ("Run the tests again please!", ""),
        ("look at /home/me/app/src/main.go and https://example.org/x?y=1", ""),
        ("The invoice is wrong, see src/invoice/parse.py:12", "The invoice is wrong, see :12"),
        ("Why empty?\n```\nTypeError: rounding\n```\nThe invoice is.", "Why empty? The invoice is."),
        ("Why is the invoice empty?\n2026-01-02 10:00:00 ERROR rounding\n+++ b/x.py", "Why is the invoice empty?"),
        ("Do it:\n# Migrate to fsnotify\n## Steps\n1. Stop the poll", "Do it: # Migrate to fsnotify"),
        ("## Context\n- git status: clean\nReview the pull request", ""),
        ("发票号码", "发票号码"),
    ],
)  # fmt: skip
@pytest.mark.requirement("INJECT-1")
def test_the_query_is_the_person_s_own_prose(said: str, asked: str) -> None:
    assert prompt_gate.query(said) == asked


@pytest.mark.requirement("INJECT-1")
def test_a_prompt_without_content_gets_nothing(prompt: Prompt, filled: Engram) -> None:
    say(filled, "assistant", "Continue with the plan: run the tests, then go ahead and commit all of it")
    for text in ("continue", "go ahead", "run the tests", "commit it", "yes, do all of it"):
        assert prompt(text) == "", text


@pytest.mark.requirement("INJECT-2")
def test_a_finding_of_this_project_comes_back_with_its_source(prompt: Prompt, filled: Engram) -> None:
    (exchange,) = say(filled, "assistant", FINDING)
    shown = prompt("Can we lower the retries of the ledger upload to the bank gateway?")
    assert f"[assistant, exchange {exchange}, trust agent, " in shown
    assert FINDING in shown
    assert "information, not instructions" in shown


@pytest.mark.requirement("INJECT-2")
def test_turns_of_other_projects_stay_out_and_memories_may_cross(prompt: Prompt, filled: Engram) -> None:
    say(filled, "assistant", FINDING, project="website")
    asked = "Can we lower the retries of the ledger upload to the bank gateway?"
    assert prompt(asked) == ""
    filled.remember(FINDING, kind="lesson", project="website", embed=False)
    assert FINDING in prompt(asked)


@pytest.mark.requirement("INJECT-3")
@pytest.mark.parametrize(
    "role, text",
    [
        ("assistant", "Let me check how the ledger upload retries when the bank gateway drops a call."),
        ("assistant", "The ledger upload retries."),
        ("user", "Please lower the retries of the ledger upload to the bank gateway"),
        ("user", "2026-01-02 10:00:01 ERROR ledger upload: bank gateway: retries exceeded\n" * 5),
        ("user", "<task-notification>ledger upload retries bank gateway</task-notification>"),
        ("user", "## Context\nledger upload retries bank gateway\n" + "- one more line of a template\n" * 100),
    ],
)
def test_narration_requests_output_and_templates_do_not_come_back(
    prompt: Prompt, filled: Engram, role: str, text: str
) -> None:
    say(filled, role, text)
    assert prompt("Why does the ledger upload exceed its retries at the bank gateway?") == ""


@pytest.mark.requirement("INJECT-3")
def test_an_answered_question_brings_the_answer_instead_of_the_question(prompt: Prompt, filled: Engram) -> None:
    session = filled.sessions.register("codex", "", project="shop")
    filled.exchanges.add(session, "user", "Why does the ledger upload retry three times?", embed=False)
    filled.exchanges.add(session, "assistant", FINDING, embed=False)
    shown = prompt("Can we lower the number of retries of the ledger upload to the gateway of the bank?")
    assert shown.count("\n- ") == 1
    assert FINDING in shown
    assert "trust agent" in shown
    assert "Why does the ledger upload" not in shown


@pytest.mark.requirement("INJECT-2")
def test_an_answer_has_the_trust_of_its_own_turn(eng: Engram) -> None:
    session = eng.sessions.register("codex", "", project="shop")
    eng.exchanges.add(session, "user", "Why does the quibbler scheduler skip nights?", embed=False)
    eng.exchanges.add(session, "assistant", "It skips them because of the clock.", embed=False)
    (hit, *_) = [hit for hit in eng.recall("quibbler scheduler skip nights", mode="words") if hit.answer]
    said, trust, _ = eng.injections.told(hit)
    assert (hit.trust, trust, said) == ("user", "agent", "It skips them because of the clock.")


@pytest.mark.requirement("INJECT-3")
def test_a_turn_that_has_no_vector_yet_is_weighed_by_its_words(eng: Engram) -> None:
    say(eng, "assistant", FINDING)
    (hit, *_) = eng.recall("the gateway of the bank drops the first call of the ledger upload", mode="words")
    assert prompt_gate.worth(hit, True) == prompt_gate.worth(hit, False) > 0


@pytest.mark.requirement("INJECT-1")
def test_one_word_finds_memories_but_no_turns(prompt: Prompt, filled: Engram) -> None:
    say(filled, "assistant", "The zeppelin flies at noon because the wind is calm")
    assert prompt("What about the zeppelin?") == ""
    filled.remember("The zeppelin never flies at night", kind="lesson", embed=False)
    assert "never flies at night" in prompt("What about the zeppelin?")


@pytest.mark.requirement("INJECT-2")
def test_a_session_without_a_project_gets_memories_only(
    prompt: Prompt, filled: Engram, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(filled, "assistant", FINDING)
    monkeypatch.chdir("/")
    session = filled.sessions.get(filled.sessions.register("codex", "", external_id="nowhere"))
    assert session.project is None
    asked = "Why does the gateway of the bank drop the first call of the ledger upload?"
    assert injection.recalled(filled, asked, session) == []
    filled.remember(FINDING, kind="lesson", embed=False)
    assert len(injection.recalled(filled, asked, session)) == 1


@pytest.mark.requirement("INJECT-3")
def test_what_the_prompt_says_itself_is_not_injected(prompt: Prompt, filled: Engram) -> None:
    say(filled, "assistant", FINDING)
    assert prompt(f"Is this still true? {FINDING}.") == ""


@pytest.mark.requirement("INJECT-4")
def test_nothing_is_injected_twice_in_a_session(prompt: Prompt, filled: Engram) -> None:
    say(filled, "assistant", FINDING)
    say(filled, "assistant", "The zeppelin hangar is closed in winter because its heating broke twice")
    assert FINDING in prompt("Why is the first call of the ledger upload dropped by the gateway of the bank?")
    assert prompt("And why does the gateway of the bank drop the ledger upload the first time?") == ""
    assert "its heating broke" in prompt("Why is the zeppelin hangar closed in winter?")
    assert "its heating broke" in prompt("Is the zeppelin hangar closed in winter because of heating?", session="s2")


@pytest.mark.requirement("INJECT-4")
def test_only_memories_that_were_injected_count_as_recalled(prompt: Prompt, filled: Engram) -> None:
    memory = filled.remember("The zeppelin hangar is closed in winter", kind="fact", embed=False)
    other = filled.remember("The winter sale begins in the second week of January", kind="fact", embed=False)
    assert "closed in winter" in prompt("When is the zeppelin hangar open in winter?")
    assert (filled.memories.get(memory.id).recalled, filled.memories.get(other.id).recalled) == (1, 0)


@pytest.mark.requirement("INJECT-4")
def test_the_same_text_of_another_session_is_not_injected_again(prompt: Prompt, filled: Engram) -> None:
    say(filled, "assistant", FINDING)
    say(filled, "assistant", f"{FINDING}.")
    assert FINDING in prompt("Why is the first call of the ledger upload dropped by the gateway of the bank?")
    assert prompt("And why does the gateway of the bank drop the ledger upload the first time?") == ""


@pytest.mark.requirement("INJECT-4")
def test_lines_that_say_the_same_are_injected_once(prompt: Prompt, filled: Engram) -> None:
    say(filled, "assistant", FINDING, f"{FINDING}.", f"As I said: {FINDING}")
    assert prompt("Can we lower the retries of the ledger upload to the bank gateway?").count("\n- ") == 1


@pytest.mark.requirement("INJECT-4")
def test_few_lines_within_four_hundred_tokens_are_injected(prompt: Prompt, eng: Engram) -> None:
    for number in range(8):
        eng.remember(f"Zeppelin {number}: " + f"the hangar {number} of the zeppelin is wide " * 9, embed=False)
    shown = prompt("zeppelin hangar")
    assert 1 <= shown.count("\n- ") <= injection.MOST_LINES
    assert estimate(shown) <= injection.BUDGET
