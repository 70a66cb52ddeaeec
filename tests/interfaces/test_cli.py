"""Every command, for people and for agents, on both engines."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from engram import Engram as Library
from engram._version import VERSION
from tests._repositories import make_repository

from .conftest import Engram, program


@pytest.fixture
def me(engram: Engram) -> str:
    """A session of one's own."""
    id: str = engram("session", "start", "claude-code", "Porting the router", "--json").json["id"]
    return id


@pytest.fixture
def other(engram: Engram) -> str:
    id: str = engram("session", "start", "codex", "Adding rate limits", "--json").json["id"]
    return id


@pytest.mark.requirement("CLI-1")
def test_init_makes_the_store_and_says_where_it_is(engram: Engram) -> None:
    first, again = engram("init", "--store-only"), engram("init", "--store-only", "--json")
    assert first.code == again.code == 0
    assert again.json["workspace"] == "default"
    assert again.json["store"] in first.out


@pytest.mark.requirement("CLI-1", "SITREP-7")
def test_sitrep_on_an_empty_store_tells_how_to_begin(engram: Engram) -> None:
    assert "engram session start" in engram("sitrep").out


@pytest.mark.requirement("CLI-1", "CLI-3")
def test_a_session_lives_from_start_to_done(engram: Engram) -> None:
    started = engram(
        "session", "start", "claude-code", "Porting", "--name", "Router", "--project", "shop", "--meta", "model=big"
    )
    id = started.out.strip()
    assert engram("session", "beat", "Porting, half done", session=id).code == 0
    assert engram("session", "log", "read the old router", session=id).code == 0
    assert engram("session", "log", "wrote the new one", "--session", id).code == 0

    shown = engram("session", "show", id, "--json").json
    assert (shown["summary"], shown["name"], shown["project"]) == ("Porting, half done", "Router", "shop")
    assert shown["metadata"] == {"model": "big"}
    entries = engram("session", "logs", "-n", "1", "--json", session=id).json
    assert [entry["content"] for entry in entries] == ["wrote the new one"]
    assert "read the old router" in engram("session", "logs", id).out

    assert engram("session", "done", "Ported", session=id).code == 0
    assert engram("session", "list", "--json").json == []
    assert [(each["id"], each["status"]) for each in engram("session", "list", "--all", "--json").json] == [
        (id, "completed")
    ]
    table = engram("session", "list", "--all").out
    assert "Porting, half done" in table and "Ported" in table
    shown = engram("session", "show", id).out.splitlines()
    summary = next(number for number, line in enumerate(shown) if line.startswith("summary"))
    assert shown[summary].endswith("Porting, half done")
    assert shown[summary + 1].split() == ["outcome", "Ported"]
    told = engram("session", "show", id, "--json").json
    assert (told["summary"], told["outcome"]) == ("Porting, half done", "Ported")


@pytest.mark.requirement("CLI-1", "SESSION-8")
def test_starting_a_known_external_id_resumes_the_session(engram: Engram, me: str) -> None:
    arguments = ("session", "start", "codex", "Again", "--external-id", "abc", "--parent", me)
    assert engram(*arguments).out == engram(*arguments).out


@pytest.mark.requirement("CLI-1", "CLI-2")
def test_locks_are_claimed_checked_listed_released_and_broken(engram: Engram, me: str, other: str) -> None:
    claimed = engram("lock", "claim", "src/router.py", "--note", "rewriting", session=me)
    assert claimed.code == 0
    assert "src/router.py as advisory" in claimed.out

    warned = engram("lock", "claim", "src/**", session=other)
    assert warned.code == 0
    assert me[-8:] in warned.out
    refused = engram("lock", "claim", "src/router.py", "--exclusive", "--json", session=other)
    assert refused.code == 4
    assert refused.json["error"]["code"] == "lease_held"
    assert [holder["note"] for holder in refused.json["error"]["details"]["holders"]] == ["rewriting"]

    assert {each["session_id"] for each in engram("lock", "check", "src/router.py", "--json").json} == {me, other}
    assert "rewriting" in engram("lock", "check", "src/router.py").out
    assert len(engram("lock", "list", "--json").json) == 2
    assert [each["session_id"] for each in engram("lock", "list", "--mine", "--json", session=me).json] == [me]

    assert engram("lock", "release", "src/router.py", session=me).code == 0
    assert engram("lock", "release", "src/router.py", session=me).code == 3
    broken = engram("lock", "break", "src/**", "--reason", "gone for lunch", session=me)
    assert other in broken.out
    assert "gone for lunch" in engram("session", "logs", other).out
    assert engram("lock", "check", "src/router.py").out == "No session holds it.\n"
    assert engram("lock", "release", "--all", session=me).out == "Nothing was held.\n"


@pytest.mark.requirement("CLI-1", "LEASE-6")
def test_an_exclusive_lock_takes_its_time_to_live_as_people_write_it(engram: Engram, me: str) -> None:
    lease = engram("lock", "claim", "staging", "--exclusive", "--ttl", "2h", "--wait", "1s", "--json", session=me).json
    assert (lease["ttl"], lease["resource"], lease["exclusive"]) == (7200, "staging", True)


@pytest.mark.requirement("CLI-1", "MESSAGE-1", "MESSAGE-2")
def test_messages_are_sent_peeked_at_and_delivered_once(engram: Engram, me: str, other: str) -> None:
    assert other in engram("message", "send", other, "may I?", session=me).out
    assert other in engram("message", "send", "*", "lunch", session=me).out
    assert engram("message", "send", me, "from the user").code == 0
    assert [each["text"] for each in engram("message", "inbox", "--peek", "--json", session=other).json] == [
        "may I?",
        "lunch",
    ]
    assert "may I?" in engram("message", "inbox", session=other).out
    assert engram("message", "inbox", session=other).out == "No unread messages.\n"
    assert [each["from_session"] for each in engram("message", "inbox", "--json", session=me).json] == [None]
    assert engram("message", "send", "nobody/holds/this.py", "hello?", session=me).code == 3


@pytest.mark.requirement("CLI-1", "MESSAGE-2")
def test_an_inbox_is_named_by_a_session_and_a_sender_by_its_task(engram: Engram, me: str, other: str) -> None:
    engram("message", "send", other, "may I?", session=me)
    engram("message", "send", "person", "done soon", session=me)
    session = engram("session", "show", me, "--json").json
    sender = f"{me[-8:]} ({session['type']}: {session['summary']})"
    for whose in (other, other[-8:]):
        assert engram("message", "inbox", whose, "--peek").out.startswith(f"{sender}, just now\n  may I?")
    assert sender in engram("message", "list").out and sender in engram("message", "inbox", "person").out
    assert "may I?" in engram("message", "inbox", other[-8:], session=me).out
    assert engram("message", "inbox", other).out == "No unread messages.\n"
    assert engram("message", "inbox", "nobody").code == 3


@pytest.mark.requirement("CLI-1")
def test_the_list_of_locks_shows_which_agent_has_one(engram: Engram, me: str) -> None:
    engram("lock", "claim", "staging", session=me)
    session = engram("session", "show", me, "--json").json
    assert f"  {session['type']}: {session['summary']}  " in engram("lock", "list").out


@pytest.mark.requirement("CLI-33")
def test_a_claim_of_an_ended_session_names_the_command_that_resumes_it(engram: Engram, me: str) -> None:
    engram("session", "done", session=me)
    refused = engram("lock", "claim", "staging", "--session", me)
    assert refused.code == 4
    assert f"`engram session beat --session {me} --store " in refused.err


@pytest.mark.requirement("CLI-1", "BLOCK-12")
def test_the_world_state_is_set_shown_compared_and_restored(engram: Engram, me: str) -> None:
    assert engram("world", "show").out == ""
    assert engram("world", "set", "Goal: 2.0\nRouter: old", session=me).code == 0
    assert engram("world", "set", "Goal: 2.0\nRouter: new", "--reason", "ported", "--expect", "1", session=me).code == 0
    assert engram("world", "set", "too late", "--expect", "1").code == 4

    assert engram("world", "show").out == "Goal: 2.0\nRouter: new\n"
    assert engram("world", "show", "--version", "1").out == "Goal: 2.0\nRouter: old\n"
    assert "-Router: old\n+Router: new" in engram("world", "diff", "1", "2").out
    edits = engram("world", "history", "--json").json
    assert [(edit["version"], edit["reason"], edit["actor"]) for edit in edits] == [(2, "ported", me), (1, "", me)]
    assert engram("world", "restore", "1", "--json").json["version"] == 3
    assert engram("world", "show", "--json").json["content"].endswith("Router: old")
    assert "ported" in engram("world", "history", "-n", "5").out


@pytest.mark.requirement("CLI-1", "BLOCK-5", "BLOCK-8", "BLOCK-9", "BLOCK-11")
def test_a_block_goes_through_every_verb(engram: Engram) -> None:
    assert engram("block", "create", "plan", "one", "--max-tokens", "2").code == 0
    assert engram("block", "create", "plan").code == 4
    assert engram("block", "append", "plan", "two").code == 0
    assert engram("block", "show", "plan").out == "one\ntwo\n"
    assert engram("block", "replace", "plan", "two", "three and four").code == 0
    assert engram("block", "replace", "plan", "e", "x").code == 2
    assert engram("block", "archive", "plan").out == "e and four\n"
    again = engram("block", "archive", "plan")
    assert (again.out, again.err) == ("", "The block is within its budget. Nothing was cut.\n")
    assert "4 versions" in engram("block", "verify", "plan").out
    assert engram("block", "set", "plan", "whole").code == 0
    assert engram("block", "restore", "plan", "1").code == 0
    assert engram("block", "restore", "plan", "99").code == 3
    assert "plan" in engram("block", "list").out
    assert [each["name"] for each in engram("block", "list", "--json").json] == ["plan"]
    assert engram("block", "history", "plan", "--json").json[0]["new"] == "one"
    assert "+whole" in engram("block", "diff", "plan", "1", "5").out
    assert engram("block", "delete", "plan", "--yes").code == 0
    assert engram("block", "show", "plan").code == 3


@pytest.mark.requirement("CLI-1", "BLOCK-14")
def test_a_block_and_the_world_state_are_shown_as_they_were(engram: Engram) -> None:
    engram("block", "create", "plan", "one", "--data", '{"step": 1}')
    engram("block", "set", "plan", "two")
    engram("world", "set", "As planned")
    first = engram("block", "show", "plan", "--json").json["created_at"]
    assert engram("block", "show", "plan", "--at", first).out == "one\n"
    assert engram("block", "show", "plan", "--at", first, "--json").json["version"] == 1
    assert [each["name"] for each in engram("block", "list", "--at", first, "--json").json] == ["plan"]
    assert engram("world", "show", "--at", first).out == ""
    assert engram("block", "list", "--at", "1h").out == "No blocks yet.\n"
    missing = engram("block", "show", "plan", "--at", "1h")
    assert missing.code == 3 and "There was no block 'plan'" in missing.err
    assert engram("block", "show", "plan", "--at", first, "--version", "1").code == 2


@pytest.mark.requirement("CLI-1", "SESSION-10")
def test_stats_counts_what_is_there(engram: Engram, me: str) -> None:
    assert engram("stats", "--json").json["active"] == 1
    assert "active" in engram("stats").out


@pytest.mark.requirement("CLI-1")
@pytest.mark.parametrize("place", ["before", "after"])
def test_common_options_work_before_and_after_the_command(engram: Engram, me: str, place: str) -> None:
    options = ("--workspace", "elsewhere", "--json")
    there = engram("session", "start", "codex", "Elsewhere", *options).json["id"]
    arguments = (*options, "session", "list") if place == "before" else ("session", "list", *options)
    assert [each["id"] for each in engram(*arguments).json] == [there]
    assert [each["id"] for each in engram("session", "list", "--json").json] == [me]


@pytest.mark.requirement("CLI-2")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("session", "show", "20260101-000000-00000000"), 3),
        (("session", "list", "--nonsense"), 2),
        (("session", "start", "bad\nname", "x"), 2),
        (("nonsense",), 2),
        (("sitrep", "--budget", "0"), 2),
        (("lock", "release", "--session", "x"), 3),
        (("--workspace", "Not Valid", "sitrep"), 2),
        (("lock", "claim", "x", "--ttl", "soon", "--session", "x"), 2),
        (("session", "start", "a", "b", "--meta", "nonsense"), 2),
    ],
)
def test_failures_end_with_the_promised_code_and_one_json_document(
    engram: Engram, arguments: tuple[str, ...], code: int
) -> None:
    for_people, for_agents = engram(*arguments), engram(*arguments, "--json")
    assert for_people.code == for_agents.code == code
    assert (for_people.out, for_agents.err) == ("", "")
    assert for_people.err
    error = for_agents.json["error"]
    assert set(error) == {"code", "message", "details"}
    assert "Traceback" not in for_people.err


@pytest.mark.requirement("CLI-4")
def test_text_comes_from_standard_input(engram: Engram, me: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments in (("world", "set", "-"), ("session", "log", "-"), ("message", "send", me, "-")):
        monkeypatch.setattr("sys.stdin", io.StringIO("line one\nline two\n"))
        assert engram(*arguments, session=me).code == 0
    assert engram("world", "show", "--json").json["content"] == "line one\nline two"


@pytest.mark.requirement("CLI-4")
def test_without_text_and_without_a_terminal_it_says_how_to_give_it(engram: Engram, me: str) -> None:
    outcome = engram("session", "log", session=me)
    assert outcome.code == 2
    assert "standard input" in outcome.err


@pytest.mark.requirement("SITREP-3", "SITREP-6", "CLI-1")
def test_sitrep_keeps_the_budget_it_is_given(engram: Engram, me: str) -> None:
    engram("world", "set", "\n".join(f"line {number} of a long story" for number in range(400)))
    small = engram("sitrep", "--budget", "200", "--json", session=me).json
    assert small["tokens"] <= 200
    assert "engram world show" in small["report"]
    assert "line 399" in engram("sitrep", "--full").out
    assert "(you)" in engram("sitrep", session=me).out


@pytest.mark.requirement("CLI-9")
def test_the_demo_shows_the_report_change(engram: Engram) -> None:
    steps = engram("demo", "--json").json
    reports = [step["report"] for step in steps]
    assert len(set(reports)) == len(reports)
    assert "**Active sessions (3):**" in json.dumps(reports)
    assert "Recently completed" in reports[-1]
    assert "Active sessions" not in reports[-1]
    assert engram("session", "list", "--all", "--json").json == []


@pytest.mark.requirement("CLI-8")
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(engram: Engram, shell: str) -> None:
    assert "_ENGRAM_COMPLETE" in engram("completion", shell).out


@pytest.mark.requirement("CLI-1")
def test_the_version_is_printed_by_a_command_as_by_the_option(engram: Engram) -> None:
    assert engram("version").out == engram("--version").out == f"engram, version {VERSION}\n"
    assert engram("version", "--json").json == {"version": VERSION}


@pytest.mark.requirement("STORE-16", "CLI-2")
def test_a_person_in_another_workspace_sees_nothing_of_this_one(
    engram: Engram, open_store: Callable[..., Library], me: str
) -> None:
    assert engram("session", "show", me, "--workspace", "other").code == 3
    assert open_store().sessions.get(me).summary == "Porting the router"


@pytest.mark.requirement("CLI-1", "MEMORY-7", "MEMORY-8")
def test_a_memory_that_replaces_another_keeps_its_tags_and_pin_and_says_its_project(
    engram: Engram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(make_repository(tmp_path / "clone"))
    first = engram("remember", "The editor is vim", "--key", "editor", "--tag", "tools", "--pin", "--json").json
    assert (first["tags"], first["pinned"], first["project"]) == (["tools"], True, "acme/engram")
    kept = engram("remember", "The editor is emacs", "--key", "editor", "--json").json
    assert (kept["tags"], kept["pinned"]) == (["tools"], True)
    plain = engram("remember", "The editor is nano", "--key", "editor", "--no-tags", "--no-pin", "--json").json
    assert (plain["tags"], plain["pinned"]) == ([], False)
    refused = engram("remember", "The editor is ed", "--key", "editor", "--tag", "a", "--no-tags")
    assert (refused.code, "--no-tags, not both" in refused.err) == (2, True)


@pytest.mark.requirement("CLI-1", "MEMORY-2", "RECALL-1")
def test_what_is_remembered_is_recalled_edited_linked_pinned_and_archived(engram: Engram) -> None:
    first = engram(
        "remember", "Deploys never happen on Fridays", "--kind", "preference", "--tag", "deploy", "--json"
    ).json
    assert (first["kind"], first["tags"], first["trust"]) == ("preference", ["deploy"], "user")
    assert (
        "has been stored 2 times" in engram("remember", "deploys never happen on fridays", "--kind", "preference").out
    )
    other = engram("remember", "Releases are cut on Mondays", "--json").json

    hits = engram("recall", "when do we deploy?", "--json").json
    assert hits[0]["memory_id"] == first["id"]
    assert "deploy" in hits[0]["why"]["matched"]
    assert "words" in engram("recall", "deploy", "--explain").out
    assert engram("recall", "deploy", "--kind", "note", "--mode", "words", "--json").json == []

    assert engram("memory", "edit", str(first["id"]), "No deploys on Fridays", "--reason", "shorter").code == 0
    assert engram("memory", "link", str(first["id"]), str(other["id"])).code == 0
    assert engram("memory", "pin", str(first["id"]), "--json").json["pinned"]
    shown = engram("memory", "show", str(first["id"]), "--json").json
    assert [edit["reason"] for edit in shown["history"]] == ["shorter", ""]
    assert shown["links"] == [[first["id"], other["id"], "related"]]
    assert "Mondays" in engram("memory", "list").out
    assert engram("memory", "archive", str(first["id"]), "--json").json["status"] == "archived"
    assert "No deploys" not in engram("recall", "deploy", "--mode", "words").out
    assert "No deploys" in engram("recall", "deploy", "--archived", "--mode", "words").out
    assert engram("memory", "archive", str(first["id"]), "--undo", "--json").json["status"] == "active"
    assert engram("memory", "show", "999").code == 3


@pytest.mark.requirement("CLI-1")
def test_a_memory_is_shown_in_words_without_what_says_nothing(engram: Engram, store_url: str) -> None:
    with Library(store_url) as eng:
        said = eng.remember("Ann is a nurse.", trust="user", data={"said": "2026-11-12", "by": "user"}, embed=False)
        foreign = eng.remember("The lift is broken.", trust="tool", data={"at": [1, 2], "seen": True}, embed=False)
    shown = " ".join(engram("memory", "show", str(said.id)).out.split())
    assert " data said 2026-11-12, by user " in shown and "approved" not in shown
    shown = " ".join(engram("memory", "show", str(foreign.id)).out.split())
    assert ' data {"at": [1, 2], "seen": true} ' in shown and " approved no " in shown


@pytest.mark.requirement("CLI-1")
def test_a_secret_that_is_not_stored_is_named(engram: Engram) -> None:
    secret = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    stored = engram("remember", f"The token is {secret}").out
    assert stored == "Stored as memory 1 (note). A secret was left out: [redacted: …] stands in its place.\n"
    assert "secret" not in engram("memory", "edit", "1", "The token is [redacted: token]").out
    assert "A secret was left out" in engram("memory", "edit", "1", f"The token is {secret}").out


@pytest.mark.requirement("CONTEXT-3")
def test_context_names_roles_and_unusual_trust(engram: Engram, store_url: str) -> None:
    with Library(store_url) as eng:
        sid = eng.sessions.register("codex", "Deploying")
        eng.exchanges.add(sid, "user", "Never deploy the router on Fridays.")
        eng.exchanges.add(sid, "user", "Router deploys are fine on Fridays, says the handbook.", trust="import")
        eng.remember("The router is deployed by hand.", trust="user")
    shown = engram("context", "when do we deploy the router").out
    assert "Never deploy the router on Fridays. (exchange 1, role user, " in shown
    assert "(exchange 2, role user, trust import, " in shown
    assert "The router is deployed by hand. (memory 1, note, " in shown and ", user, " not in shown


@pytest.mark.requirement("CLI-1", "EXCHANGE-1", "BACKLOG-1")
def test_what_is_said_is_in_the_history_and_the_timeline_and_found(engram: Engram, me: str) -> None:
    assert engram("say", me, "user", "The router lives in src/router.py", "--no-embed").code == 0
    assert engram("say", me, "assistant", "Noted.", "--at", "2001-11-01T10:00Z").code == 0
    engram("session", "log", "moved the router", session=me)
    assert [turn["role"] for turn in engram("history", me, "--json").json] == ["user", "assistant"]
    assert "src/router.py" in engram("history", session=me).out
    for since in ("2001-11-02", "1h", "90d"):
        assert [turn["role"] for turn in engram("timeline", "--since", since, "--json").json] == ["user"]
    assert engram("recall", "router", "--until", "1h", "--json").json == []
    assert engram("timeline", "--since", "last.d").code == 2
    assert engram("recall", "src/router.py", "--mode", "words", "--json").json[0]["label"] == "user"
    assert engram("recall", "moved", "--role", "log", "--json").json == []
    assert engram("embed", "--json").json == {"done": 2, "left": 0}
    assert engram("embed").err == ""
    assert engram("recall", "moved", "--role", "log", "--json").json[0]["label"] == "log"


@pytest.mark.requirement("CLI-10", "MESSAGE-6")
@pytest.mark.parametrize("closed", ["a pipe that nobody reads", "no standard output"])
@pytest.mark.parametrize("arguments", [[], ["--json"]], ids=["text", "json"])
def test_messages_that_could_not_be_printed_stay_unread(closed: str, arguments: list[str], sqlite_url: str) -> None:
    with Library(sqlite_url) as eng:
        session = eng.sessions.register("codex", "Porting")
        eng.messages.send(None, session, "hello")
        command = [program(), "--store", sqlite_url, "message", "inbox", "--session", session, *arguments]
        if closed == "no standard output":
            close = "import os, sys; os.close(1); os.execv(sys.argv[1], sys.argv[1:])"
            subprocess.run([sys.executable, "-c", close, *command], check=False, stderr=subprocess.DEVNULL)
        else:
            reading, writing = os.pipe()
            os.close(reading)
            subprocess.run(command, stdout=writing, check=False, stderr=subprocess.DEVNULL)
            os.close(writing)
        assert [each.text for each in eng.messages.inbox(session, peek=True)] == ["hello"]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert "hello" in shown
        assert eng.messages.inbox(session, peek=True) == []
