"""Engram in the real clients: installed, started, asked once, ended; then the store is looked at."""

from __future__ import annotations

import re

import pytest

from engram import Engram, Lease
from tests.e2e.clients import CLIENTS
from tests.e2e.conftest import Sit
from tests.e2e.model import Model, Request, Script

PROMPT = "Please write hello into notes.txt"


@pytest.mark.requirement("CLIENT-1")
@pytest.mark.parametrize("name", CLIENTS)
def test_a_session_is_seen_and_remembered_from_its_start_to_its_end(name: str, sit: Sit, model: Model) -> None:
    desk = sit(name)
    leases: dict[int, list[Lease]] = {}
    with Engram(desk.store) as eng:
        eng.world.set("The schema is at 42.")
        model.watch = lambda request, results: leases.update({results: eng.leases.list()})
        desk.prompt(PROMPT)

        (session,) = eng.sessions.list()
        assert (session.type, session.status) == (name, "completed")
        turns = [(turn.role, turn.content) for turn in eng.exchanges.history(session.id) if turn.role != "tool"]
        assert turns == [("user", PROMPT), ("assistant", model.script.closing)]
        assert "The schema is at 42." in model.requests[0].text
        assert leases[0] == []
        (lease,) = leases[1]
        assert lease.session_id == session.id
        assert lease.resource.endswith("notes.txt")
        assert eng.leases.list() == []
    assert (desk.project / "notes.txt").read_text() == "hello\n"


@pytest.mark.requirement("CLIENT-2")
@pytest.mark.parametrize("name", CLIENTS)
def test_a_second_client_is_denied_the_file_that_the_first_holds_exclusively(name: str, sit: Sit, model: Model) -> None:
    first, second = sit("claude-code"), sit(name)
    told: list[str] = []

    def meanwhile(request: Request, results: int) -> None:
        """The first client has begun and waits for the model; it holds the file, and the second one tries."""
        with Engram(first.store) as eng:
            (holder,) = eng.sessions.active()
            eng.leases.claim(holder.id, model.script.path, "rewriting it", exclusive=True)
        script = model.script
        model.script = Script(script.path, "mine now\n", "Somebody else holds it.")
        model.watch = lambda request, results: told.append(request.text)
        second.prompt("Please write mine now into notes.txt")
        assert not (second.project / "notes.txt").exists()
        model.script, model.watch = script, lambda request, results: None

    model.watch = meanwhile
    first.prompt(PROMPT)

    asked, denied = told
    # The report already told it who holds what; the refusal tells it once more.
    assert denied.count("rewriting it") > asked.count("rewriting it")
    assert (first.project / "notes.txt").read_text() == "hello\n"
    with Engram(first.store) as eng:
        assert [session.status for session in eng.sessions.list()] == ["completed", "completed"]
        assert eng.leases.list() == []


@pytest.mark.requirement("CLIENT-3")
@pytest.mark.parametrize("name", CLIENTS)
def test_after_uninstalling_a_client_works_without_engram(name: str, sit: Sit, model: Model) -> None:
    desk = sit(name)
    desk.engram("uninstall", name)
    desk.prompt(PROMPT)
    with Engram(desk.store) as eng:
        assert eng.sessions.list() == []
    assert (desk.project / "notes.txt").read_text() == "hello\n"


@pytest.mark.requirement("CLIENT-4")
@pytest.mark.parametrize(
    ("name", "sign"), [("claude-code", "mcp__engram__recall"), ("codex", "- engram: "), ("gemini", "mcp_engram_recall")]
)
def test_the_model_is_offered_the_server_s_tools(name: str, sign: str, sit: Sit, model: Model) -> None:
    sit(name).prompt(PROMPT)
    # Codex lists a server by its name and instructions and leaves it to the model to look for its tools.
    assert sign in model.requests[0].text


@pytest.mark.requirement("CLIENT-6")
@pytest.mark.parametrize("failure", ["exit 1", "kill -9 $$", "kill -ALRM $$"])
@pytest.mark.parametrize("name", CLIENTS)
def test_a_hook_that_fails_or_is_killed_does_not_stop_the_client(
    name: str, failure: str, sit: Sit, model: Model
) -> None:
    desk = sit(name)
    ran = desk.home / "ran"
    hook = desk.home / "failing-hook"
    hook.write_text(f"#!/bin/sh\ncat > /dev/null\necho ran >> {ran}\necho 'Timeout (0:00:02)!' >&2\n{failure}\n")
    hook.chmod(0o755)
    replaced = 0
    for settings in [*desk.home.rglob("*.json"), *desk.home.rglob("*.toml")]:
        text = settings.read_text()
        replaced += len(re.findall(r"[^\s\"']*engram-hook", text))
        settings.write_text(re.sub(r"[^\s\"']*engram-hook", str(hook), text))
    assert replaced
    desk.prompt(PROMPT)
    assert len(ran.read_text().splitlines()) > 2, "at the prompt and around the tool"
    assert (desk.project / "notes.txt").read_text() == "hello\n"
    assert "Timeout" not in "".join(request.text for request in model.requests), "the model is told nothing"


@pytest.mark.requirement("CLIENT-7", "LOCKS-1")
@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_may_edit_what_it_claims_over_mcp_and_another_may_once_it_has_gone(
    name: str, sit: Sit, model: Model
) -> None:
    first, second = sit(name), sit("claude-code")
    script = model.script._replace(claims=True)
    theirs = Script(script.path, "mine now\n", "Somebody else holds it.")
    model.script = script
    told: list[str] = []

    def meanwhile(request: Request, results: int) -> None:
        """The first client has claimed the file, and has not written it yet."""
        if results != 1:
            return
        with Engram(first.store) as eng:
            (session,) = eng.sessions.list()
            (lease,) = eng.leases.list()
            assert (session.type, lease.session_id, lease.exclusive, lease.ttl) == (name, session.id, True, 600.0)
        model.script, model.watch = theirs, lambda request, results: told.append(request.text)
        second.prompt("Please write mine now into notes.txt")
        assert not (second.project / "notes.txt").exists()
        model.script, model.watch = script, lambda request, results: None

    model.watch = meanwhile
    first.prompt(PROMPT)
    assert "is held exclusively by session" in told[-1]
    assert (first.project / "notes.txt").read_text() == "hello\n"
    with Engram(first.store) as eng:
        assert eng.leases.list() == [], "free at once"
        assert [session.status for session in eng.sessions.list()] == ["completed", "completed"]

    (first.project / "notes.txt").unlink()
    model.script = theirs
    second.prompt("Please write mine now into notes.txt")
    assert (second.project / "notes.txt").read_text() == "mine now\n"


@pytest.mark.requirement("CLIENT-8", "LOCKS-4")
def test_a_client_that_should_ask_a_person_does_not_edit_without_one(sit: Sit, model: Model) -> None:
    desk = sit("claude-code")
    settings = desk.home / ".config" / "engram" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('lock_policy = "ask"\n')
    with Engram(desk.store) as eng:
        holder = eng.sessions.register("test", "Rewriting the notes")
        eng.leases.claim(holder, model.script.path, exclusive=True)
        desk.prompt(PROMPT)
        assert not (desk.project / "notes.txt").exists()
        assert eng.messages.inbox(holder) == []
