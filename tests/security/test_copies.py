"""After its source is forgotten, a word is in no row and in no file.

Engram copies texts: a prompt becomes the session's summary, the last answer its outcome, a reason goes into another
session's log, a pass makes gists, memories and blocks. The tests store the word in every possible way; each way names
what to forget. A text that a person enters a second time is a source of its own and is not covered here.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engram import Engram
from engram.config import load
from engram.forgetting.summaries import repeats
from engram.interfaces.hooks import respond
from engram.safe_text import one_line
from tests._models import session_answer
from tests._tables import holds, run
from tests.llm._server import Response, Server

#: A word that occurs nowhere else. The stemmer does not change it.
WORD = "quixadrol"
#: Such a statement becomes a gist, a memory and a line of the profile.
SAID = f"I never deploy on {WORD} evenings, because the night shift is alone."
#: Longer than a summary.
LONG = f"{SAID}\n" + "And there is a lot more to say about how we deploy. " * 8
OTHER = "We decided to keep the billing service on PostgreSQL."

#: What to forget.
Chosen = list[dict[str, Any]]

#: The events of each harness that report a prompt or an answer.
EVENTS = {
    "claude-code": ("UserPromptSubmit", "prompt", "Stop", "last_assistant_message", "SessionEnd"),
    "codex": ("UserPromptSubmit", "prompt", "Stop", "last_assistant_message", "SessionEnd"),
    "gemini": ("BeforeAgent", "prompt", "AfterAgent", "prompt_response", "SessionEnd"),
    "cursor": ("beforeSubmitPrompt", "prompt", "afterAgentResponse", "text", "sessionEnd"),
}


class Location:
    """A store in a data folder, and hooks that report to it."""

    def __init__(self, eng: Engram, url: str, data: Path, project: Path) -> None:
        self.eng = eng
        self.url = url
        self.data = data
        self.project = project

    def hook(self, harness: str, event: str, **fields: Any) -> None:
        payload = {"session_id": "h1", "conversation_id": "h1", "cwd": str(self.project), **fields}
        respond(harness, json.dumps({**payload, "hook_event_name": event}).encode())

    def session(self, external_id: str = "h1") -> str:
        found = self.eng.sessions.find(external_id)
        assert found is not None
        return found.id

    def turns(self, role: str) -> Chosen:
        """Every turn of the harness's session with the word, to be forgotten."""
        return [
            {"exchange": turn.id}
            for turn in self.eng.exchanges.history(self.session())
            if turn.role == role and WORD in turn.content
        ]

    def logs(self, session: str) -> Chosen:
        return [{"exchange": entry.id} for entry in self.eng.sessions.logs(session, 0) if WORD in entry.content]

    def has_word(self) -> bool:
        return bool(holds(self.url, WORD)) or self.files_with_word() != []

    def files_with_word(self) -> list[str]:
        """Read the files in another process: closing a file here would drop this process's locks on it."""
        found = subprocess.run(["grep", "-rlaF", WORD, str(self.data)], stdout=subprocess.PIPE, text=True, check=False)
        return found.stdout.split()


@pytest.fixture
def place(
    request: pytest.FixtureRequest,
    store_url: str,
    open_store: Callable[..., Engram],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Location:
    data = Path(store_url).parent if not store_url.startswith("postgresql:") else tmp_path / "data"
    project = tmp_path / "shop"
    (project / ".git").mkdir(parents=True)
    monkeypatch.setenv("ENGRAM_URL", store_url)
    monkeypatch.setenv("ENGRAM_DATA_DIR", str(data))
    monkeypatch.chdir(project)
    eng = open_store(embedder="none")
    data.mkdir(exist_ok=True)
    return Location(eng, store_url, data, project)


def say_prompt(place: Location, harness: str, said: str = SAID) -> Chosen:
    prompt, field, *_ = EVENTS[harness]
    place.hook(harness, prompt, **{field: said})
    return place.turns("user")


def say_last(place: Location, harness: str) -> Chosen:
    _, _, stop, field, end = EVENTS[harness]
    say_other(place, harness)
    place.hook(harness, stop, **{field: SAID})
    place.hook(harness, end, reason="other")
    return place.turns("assistant")


def say_other(place: Location, harness: str = "claude-code") -> None:
    prompt, field, *_ = EVENTS[harness]
    place.hook(harness, prompt, **{field: OTHER})


def say_long(place: Location) -> Chosen:
    return say_prompt(place, "claude-code", LONG)


def ask_subagent(place: Location) -> Chosen:
    """The task is nowhere else in the store: it goes with the subagent's session."""
    place.hook("cursor", "subagentStart", subagent_type="explore", task=SAID, parent_conversation_id="h1")
    return [{"session": each.id} for each in place.eng.sessions.list() if each.parent_id]


def say_as_subagent(place: Location) -> Chosen:
    place.hook("claude-code", "SubagentStart", agent_id="a1", agent_type="Explore")
    place.hook("claude-code", "SubagentStop", agent_id="a1", agent_type="Explore", last_assistant_message=SAID)
    child = place.session("h1/a1")
    return [{"exchange": turn.id} for turn in place.eng.exchanges.history(child)]


def touch_file(place: Location) -> Chosen:
    """A path is in leases, in the log, and in the outcome of a session that said nothing."""
    tool = {"tool_name": "Edit", "tool_input": {"file_path": str(place.project / f"{WORD}.py")}}
    place.hook("claude-code", "PreToolUse", **tool)
    place.hook("claude-code", "PostToolUse", **tool)
    place.hook("claude-code", "SessionEnd", reason="other")
    return [{"session": place.session()}]


def run_command(place: Location) -> Chosen:
    place.hook("claude-code", "PostToolUse", tool_name="Bash", tool_input={"command": f"grep {WORD} notes"})
    return place.logs(place.session())


def fail_hook(place: Location) -> Chosen:
    """What cannot be stored is not in the log of failures either."""
    say_prompt(place, "claude-code")
    with pytest.MonkeyPatch.context() as broken:
        broken.setenv("ENGRAM_BRIEF_BUDGET", WORD)
        place.hook("claude-code", "Stop")
    assert "InvalidInput" in (place.data / "hook.log").read_text()
    return place.turns("user")


def log(place: Location) -> Chosen:
    sid = place.eng.sessions.register("codex", "work")
    place.eng.sessions.log(sid, SAID)
    return place.logs(sid)


def send_message(place: Location) -> Chosen:
    sender, reader = place.eng.sessions.register("codex", "work"), place.eng.sessions.register("codex", "other work")
    place.eng.messages.send(sender, reader, SAID)
    place.eng.messages.inbox(reader)
    return [{"session": sender}]


def note_lease(place: Location) -> Chosen:
    sid = place.eng.sessions.register("codex", "work")
    place.eng.leases.claim(sid, "router", SAID, exclusive=True)
    return [{"session": sid}]


def break_lease(place: Location, resource: str = "router", reason: str = SAID) -> tuple[str, str, str]:
    """The session that breaks it, one that loses it, and another one."""
    sid, first, second = (place.eng.sessions.register("codex", "work") for _ in range(3))
    place.eng.leases.claim(first, f"src/{resource}.py")
    place.eng.leases.claim(second, "src/app.py")
    place.eng.leases.break_lease("src/**", sid, reason)
    return sid, first, second


def give_reason(place: Location) -> Chosen:
    breaker, *_ = break_lease(place)
    return place.logs(breaker)


def give_reason_in_a_session(place: Location) -> Chosen:
    breaker, *_ = break_lease(place)
    return [{"session": breaker}]


def lose_lease(place: Location) -> Chosen:
    """The resource is in the log of the session that took it as well."""
    _, loser, _ = break_lease(place, WORD, "urgent")
    return [{"session": loser}]


def write_block(place: Location) -> Chosen:
    place.eng.blocks.create("plan", SAID)
    place.eng.blocks.update("plan", OTHER, reason=f"because of {WORD}")
    return [{"block": "plan"}]


def remember(place: Location) -> Chosen:
    made = place.eng.remember(SAID, key=WORD, tags=[WORD], data={"a": WORD})
    place.eng.remember(SAID)
    place.eng.remember(OTHER, tags=["billing"])
    return [{"memory": each.id} for each in place.eng.memories.list() if each.content == made.content]


def register(place: Location) -> Chosen:
    sid = place.eng.sessions.register("codex", SAID, {"task": WORD}, name=WORD, external_id=WORD)
    place.eng.sessions.complete(sid, SAID)
    return [{"session": sid}]


def leave_work(place: Location) -> Chosen:
    chosen = say_prompt(place, "claude-code")
    with Engram(settings=load(url=place.url, embedder="none", llm="agent")) as eng:
        eng.dream(force=True)
        item = eng.work.next()
        assert item is not None and WORD in item.prompt
        eng.work.submit(item.id, session_answer(gist=SAID))
    return chosen


WAYS: dict[str, Callable[[Location], Chosen]] = {
    **{f"prompt, {name}": lambda place, name=name: say_prompt(place, name) for name in EVENTS},  # type: ignore[misc]
    **{f"last message, {name}": lambda place, name=name: say_last(place, name) for name in EVENTS},  # type: ignore[misc]
    "long prompt": say_long,
    "task of a subagent": ask_subagent,
    "last message of a subagent": say_as_subagent,
    "path of a file": touch_file,
    "command": run_command,
    "failing hook": fail_hook,
    "log": log,
    "message": send_message,
    "note of a lease": note_lease,
    "reason of a break": give_reason,
    "session that gave a reason": give_reason_in_a_session,
    "broken lease": lose_lease,
    "block": write_block,
    "memory": remember,
    "session": register,
    "work for agents": leave_work,
}
#: The copies that hooks and broken leases of an older release left, without their sources.
OLD = [name for name in WAYS if "prompt" in name or "message" in name or "break" in name or "lease" in name]


def forget(place: Location, chosen: Chosen) -> None:
    assert chosen
    for each in chosen:
        place.eng.forget(**each)


@pytest.mark.requirement("FORGET-20")
@pytest.mark.parametrize("way", WAYS)
def test_a_word_is_nowhere_after_its_source_is_forgotten(place: Location, way: str) -> None:
    chosen = WAYS[way](place)
    assert place.has_word()
    forget(place, chosen)
    assert holds(place.url, WORD) == {}
    assert place.files_with_word() == []


@pytest.mark.requirement("FORGET-20")
@pytest.mark.parametrize("way", WAYS)
def test_neither_a_pass_nor_its_undo_keeps_or_restores_a_forgotten_word(place: Location, way: str) -> None:
    eng = place.eng
    chosen = WAYS[way](place)
    eng.exchanges.add(eng.sessions.register("codex", "billing"), "user", OTHER)
    (report,) = eng.dream(force=True)
    assert report.errors == []
    eng.exchanges.add(eng.sessions.register("codex", "billing"), "user", "I prefer tea over coffee in the morning.")
    eng.dream(force=True)
    if way == "memory":  # the pass has made one of the two that say the same
        chosen += [{"memory": each.id} for each in eng.memories.list(kind="note") if each.content == SAID]
        chosen = [each for each in chosen if each["memory"] in {memory.id for memory in all_memories(eng)}]
        chosen = list({each["memory"]: each for each in chosen}.values())
    forget_what_is_left(place, chosen)
    assert holds(place.url, WORD) == {}
    eng.dreams.undo()
    assert holds(place.url, WORD) == {}
    eng.dreams.undo()
    eng.dream(force=True)
    assert holds(place.url, WORD) == {}
    # If another process has the store open during the cleaning, the next forgetting cleans the files.
    eng.sessions.ensure("last")
    eng.forget(session="last")
    assert place.files_with_word() == []


def all_memories(eng: Engram) -> list[Any]:
    return [each for status in ("active", "superseded", "archived") for each in eng.memories.list(status=status)]


def forget_what_is_left(place: Location, chosen: Chosen) -> None:
    """A merged memory goes with the last of those it was made of."""
    for each in chosen:
        if "memory" not in each or each["memory"] in {memory.id for memory in all_memories(place.eng)}:
            place.eng.forget(**each)


@pytest.mark.requirement("FORGET-22")
@pytest.mark.parametrize("way", OLD)
def test_copies_made_by_an_older_release_are_found_by_their_words(place: Location, way: str) -> None:
    chosen = WAYS[way](place)
    run(place.url, "UPDATE sessions SET summary_from = NULL, outcome_from = NULL")
    if way == "long prompt":
        # The older release copied the beginning.
        run(place.url, f"UPDATE sessions SET summary = '{one_line(LONG, 200)}'")
    run(place.url, "DELETE FROM sources WHERE derived_kind = 'exchange'")
    forget(place, chosen)
    assert holds(place.url, WORD) == {}
    assert place.files_with_word() == []


@pytest.mark.requirement("FORGET-22")
@pytest.mark.parametrize("column", ["summary", "outcome"])
def test_forgetting_by_age_removes_files_from_a_text_of_an_older_release(place: Location, column: str) -> None:
    eng = place.eng
    touch_file(place)
    run(place.url, f"UPDATE sessions SET {column} = outcome, outcome_from = NULL")
    with eng._view.engine.read() as tx:
        now = tx.now()
    say_other(place)
    session = eng.sessions.get(place.session())
    assert session.outcome == f"Touched shop:{WORD}.py"
    assert session.summary == (OTHER if column == "outcome" else session.outcome)
    eng.forget(before=now)
    assert holds(place.url, WORD) == {}
    assert (eng.sessions.get(place.session()).summary, eng.sessions.get(place.session()).outcome) == (OTHER, "")


@pytest.mark.requirement("FORGET-20")
def test_what_a_program_of_an_earlier_release_deletes_takes_its_copies_along(place: Location) -> None:
    """Such a program may still be running. It knows no outcome."""
    (said,) = say_prompt(place, "claude-code")
    place.hook("claude-code", "Stop", last_assistant_message=f"No {WORD} evenings.")
    place.hook("claude-code", "SessionEnd", reason="other")
    sid = place.session()
    run(place.url, f"DELETE FROM exchanges WHERE id = {said['exchange']}")
    assert (place.eng.sessions.get(sid).summary, place.eng.sessions.get(sid).outcome) == ("", f"No {WORD} evenings.")
    run(place.url, "DELETE FROM exchanges")
    assert place.eng.sessions.get(sid).outcome == ""
    assert "sessions" not in holds(place.url, WORD)


@pytest.mark.requirement("FORGET-22")
def test_a_summary_that_equals_the_beginning_of_a_turn_is_a_copy_of_it() -> None:
    assert repeats("Port the router", "Port\n  the router")
    assert repeats(
        "Port the router to the new library, and…", "Port the router to the new library, and then the tests."
    )
    assert repeats("The key of the server is [redacted: github token] and", "The key of the server is [redacted: a")
    assert repeats("The key is [redacted: github token], keep it", "The key is ghp_0123456789, keep it")
    assert repeats(" Port the\n router\tnow\u00a0", "Port the router now")
    assert not repeats("Port the router", "Port the router to the new library")
    assert not repeats("Continue the release work with everybody…", "Continue the release of the hounds")
    assert not repeats("Deployed the new build [redacted: password] to staging", "Deployed the new build yesterday?")
    assert not repeats("Port it…", "Port the router")
    assert not repeats("Port the tests to the new library, and…", "Port the router to the new library, and the tests")


@pytest.mark.requirement("FORGET-22")
@pytest.mark.parametrize("shape", ["{}\nand more", "  {}  ", "{}\tand\u00a0more", "{} " + "and more " * 600])
def test_a_text_that_an_agent_gives_and_that_reads_like_a_turn_goes_with_it(place: Location, shape: str) -> None:
    eng, text = place.eng, shape.format(SAID)
    sid = eng.sessions.register("codex", "Working")
    said = eng.exchanges.add(sid, "assistant", text, embed=False)
    eng.sessions.heartbeat(sid, text)
    eng.sessions.complete(sid, text)
    eng.forget(exchange=said)
    assert holds(place.url, WORD) == {}


@pytest.mark.requirement("FORGET-21")
def test_a_summary_quotes_a_remaining_turn_after_forgetting(place: Location) -> None:
    eng = place.eng
    (first,) = say_prompt(place, "claude-code")
    say_other(place)
    sid = place.session()
    receipt = eng.forget(**first)
    assert eng.sessions.get(sid).summary == OTHER
    assert (receipt.counts, receipt.ids["summaries"]) == ({"exchanges": 1, "summaries": 1}, [sid])
    (second,) = eng.exchanges.history(sid)
    assert eng.forget(exchange=second.id).counts == {"exchanges": 1, "summaries": 1}
    assert eng.sessions.get(sid).summary == ""
    assert "(no summary)" in eng.sitrep()
    place.hook("claude-code", "UserPromptSubmit", prompt="Port the router")
    assert eng.sessions.get(sid).summary == "Port the router"


@pytest.mark.requirement("FORGET-21")
def test_an_outcome_falls_back_to_the_message_before_the_forgotten_one(place: Location) -> None:
    eng = place.eng
    say_other(place)
    place.hook("claude-code", "Stop", last_assistant_message="The router is ported.")
    place.hook("claude-code", "Stop", last_assistant_message=SAID)
    place.hook("claude-code", "SessionEnd", reason="other")
    sid = place.session()
    for turn, left in zip(eng.exchanges.history(sid)[:0:-1], ("The router is ported.", ""), strict=True):
        receipt = eng.forget(exchange=turn.id)
        assert (eng.sessions.get(sid).summary, eng.sessions.get(sid).outcome) == (OTHER, left)
        assert (receipt.counts, receipt.ids["outcomes"]) == ({"exchanges": 1, "outcomes": 1}, [sid])


@pytest.mark.requirement("FORGET-21", "FORGET-22")
@pytest.mark.parametrize("known", [True, False], ids=["named", "by its words"])
def test_one_turn_that_is_both_summary_and_outcome_goes_from_both(place: Location, known: bool) -> None:
    (said,) = say_prompt(place, "claude-code")
    sid = place.session()
    run(place.url, f"UPDATE sessions SET outcome = summary, outcome_from = {'summary_from' if known else 'NULL'}")
    assert place.eng.forget(**said).counts == {"exchanges": 1, "summaries": 1, "outcomes": 1}
    assert (place.eng.sessions.get(sid).summary, place.eng.sessions.get(sid).outcome) == ("", "")


@pytest.mark.requirement("FORGET-21")
def test_a_summary_that_was_given_stays_when_turns_are_forgotten(place: Location) -> None:
    eng = place.eng
    (said,) = say_prompt(place, "claude-code")
    sid = place.session()
    eng.sessions.heartbeat(sid, "Porting the router")
    place.hook("claude-code", "Stop", last_assistant_message=SAID)
    place.hook("claude-code", "SessionEnd", reason="other")
    eng.sessions.complete(sid, "The router is ported")
    forget(place, [said, *place.turns("assistant")])
    assert eng.receipts(1)[0].counts == {"exchanges": 1}
    session = eng.sessions.get(sid)
    assert (session.summary, session.outcome) == ("Porting the router", "The router is ported")


@pytest.mark.requirement("FORGET-21")
def test_a_dry_run_counts_the_summary_and_keeps_it(place: Location) -> None:
    (said,) = say_prompt(place, "claude-code")
    assert place.eng.forget(**said, dry_run=True).counts == {"exchanges": 1, "summaries": 1}
    assert place.eng.sessions.get(place.session()).summary == SAID


@pytest.mark.requirement("FORGET-21", "FORGET-23")
def test_a_dry_run_shows_the_outcome_that_would_go(place: Location) -> None:
    (said,) = say_last(place, "claude-code")
    shown = place.eng.forget(**said, dry_run=True)
    assert shown.counts == {"exchanges": 1, "outcomes": 1}
    assert shown.preview and SAID[:40] in shown.preview["outcomes"][0]
    assert place.eng.sessions.get(place.session()).outcome == SAID


@pytest.mark.requirement("FORGET-20")
def test_a_hook_that_resumes_a_session_does_not_write_an_older_summary_back(place: Location) -> None:
    """A hook reads the session first and resumes it later; forgetting may happen in between."""
    eng = place.eng
    (said,) = say_prompt(place, "claude-code")
    known = eng.sessions.get(place.session())
    eng.forget(**said)
    assert eng.sessions.register("claude-code", None, external_id="h1") == known.id
    assert eng.sessions.get(known.id).summary == ""


@pytest.mark.requirement("FORGET-20")
def test_the_log_of_a_broken_lease_stays_in_sessions_that_were_not_forgotten(place: Location) -> None:
    breaker, loser, other = break_lease(place, WORD, "urgent")
    receipt = place.eng.forget(session=loser)
    (deed,) = place.eng.sessions.logs(breaker)
    assert deed.content == f"Broke the claim on [forgotten] from {loser}; shop:src/app.py from {other}: urgent"
    assert receipt.ids["log entries shortened"] == [deed.id]
    (loss,) = place.eng.sessions.logs(other)
    assert loss.content == f"Lost the claim on shop:src/app.py: broken by {breaker}: urgent"
    place.eng.backlog.work()
    assert place.eng.recall("forgotten", 1, roles=["log"], mode="words")[0].text == deed.content


@pytest.mark.requirement("FORGET-20")
def test_a_server_that_repeats_what_it_was_sent_is_not_quoted_in_a_stored_report(
    place: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789")
    refusing = Server(lambda request: Response(json.dumps({"error": {"message": f"no: {SAID}"}}), status=400))
    try:
        chosen = say_prompt(place, "claude-code")
        settings = load(url=place.url, embedder="none", llm="openai:some-model", llm_base_url=refusing.url)
        with Engram(settings=settings) as eng:
            (report,) = eng.dream(force=True)
            assert WORD in "".join(report.errors)
            (kept,) = eng.dreams.list()
        assert len(kept.errors) == len(report.errors) and "failed: …" in kept.errors[0]
        forget(place, chosen)
        assert holds(place.url, WORD) == {}
    finally:
        refusing.close()


@pytest.mark.requirement("FORGET-20")
def test_forgetting_by_age_deletes_a_proposal_that_contains_an_old_version_of_a_block(place: Location) -> None:
    from engram.dreaming import plans

    eng = place.eng
    eng.blocks.create("notes", "x" * 40 + SAID, max_tokens=10)
    with eng._view.engine.write() as tx:
        plan = plans.overflow(tx, "default", "notes")
        assert plan is not None
        eng.proposals.add(tx, plan, 1)
    eng._view.engine.clock.shift += 3_600
    eng.blocks.update("notes", OTHER)
    assert holds(place.url, WORD).keys() == {"block_versions", "proposals"}
    with eng._view.engine.read() as tx:
        now = tx.now()
    eng.forget(before=now)
    assert holds(place.url, WORD) == {}
