"""The page Now."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest

from engram.closing_question import closing_question
from tests.conftest import ShiftedClock
from tests.interfaces._server import Server

from ._person import person


def cards(server: Server) -> list[str]:
    """The text of each card with a session."""
    with person(server) as someone:
        page = someone.see("").response.text
    found = re.findall(r'<li class="card session.*?(?=<li class="card session|id="world")', page, re.DOTALL)
    return [" ".join(re.sub(r"<[^>]*>", "", each).split()) for each in found]


@pytest.mark.requirement("WEB-21")
def test_a_conflict_of_subagents_stands_on_the_cards_of_their_sessions(server: Server) -> None:
    eng = server.eng
    first = eng.sessions.register("claude-code", "Porting the router")
    second = eng.sessions.register("codex", "Adding limits")
    child = eng.sessions.register("claude-code", "Porting the table", parent_id=first)
    deeper = eng.sessions.register("claude-code", "Porting one row", parent_id=child)
    other = eng.sessions.register("codex", "Adding one limit", parent_id=second)
    eng.leases.claim(deeper, "src/a.py")
    eng.leases.claim(other, "src/a.py")
    shown = cards(server)
    assert len(shown) == 2
    tasks = ("Porting one row", "Adding one limit")
    for mine, theirs, card in zip(tasks, reversed(tasks), sorted(shown), strict=True):
        assert f"Claimed by {mine} and {theirs}:" in card
        assert f"src/a.py by {mine}" in card
    (card,) = [each for each in shown if "Porting the router" in each]
    assert "Porting the table" in card.partition("Porting the router")[2]


@pytest.mark.requirement("WEB-21")
def test_a_conflict_of_two_subagents_of_one_session_is_shown(server: Server) -> None:
    eng = server.eng
    parent = eng.sessions.register("claude-code", "Porting the router")
    for name in ("Porting the table", "Porting the map"):
        eng.leases.claim(eng.sessions.register("claude-code", name, parent_id=parent), "src/a.py")
    (card,) = cards(server)
    assert "Claimed by Porting the table and Porting the map:" in card


@pytest.mark.requirement("WEB-4")
def test_the_button_of_a_claim_names_that_claim(server: Server) -> None:
    eng = server.eng
    one, other = (eng.sessions.register("codex", f"Task {number}") for number in range(2))
    leases = [eng.leases.claim(one, "acme/shop:src/router.py"), eng.leases.claim(other, "acme/shop:src/**")]
    with person(server) as someone:
        page = someone.see("").response.text
    for lease in leases:
        (form,) = re.findall(rf'<form[^>]*id="break-{lease.token}".*?</form>', page, re.DOTALL)
        (values,) = re.findall(r'data-values="([^"]*)"', form)
        assert json.loads(unescape(values)) == {"resource": lease.resource, "by": None, "token": lease.token}


@pytest.mark.requirement("WEB-3")
def test_the_card_of_messages_follows_sessions_for_its_recipients(server: Server) -> None:
    with person(server) as someone:
        page = someone.see("").response.text
    (card,) = re.findall(r'<[^>]*id="messages"[^>]*>', page)
    assert set(re.findall(r'data-live="([^"]*)"', card)[0].split()) == {"message", "session", "exchange"}


@pytest.mark.requirement("WEB-21")
def test_every_subagent_at_work_is_counted_once(server: Server) -> None:
    eng = server.eng
    session = eng.sessions.register("claude-code", "Level 0")
    for level in range(1, 4):
        session = eng.sessions.register("claude-code", f"Level {level}", parent_id=session)
    (card,) = cards(server)
    assert all(f"Level {level}" in card for level in range(4))
    assert "more are at work" not in card


@pytest.mark.requirement("WEB-3")
def test_an_agent_that_ends_with_a_question_waits_for_the_person(server: Server, clock: ShiftedClock) -> None:
    eng = server.eng
    waiting = eng.sessions.register("claude-code", "Porting the router")
    eng.exchanges.add(waiting, "user", "Port the router")
    asked = eng.exchanges.add(waiting, "assistant", "Two tables of routes are there. Which one is right?")
    polite = eng.sessions.register("codex", "Adding limits")
    eng.exchanges.add(polite, "assistant", "All limits are in. Is there anything else that you need?")
    busy = eng.sessions.register("codex", "Counting")
    eng.exchanges.add(busy, "assistant", "Shall I count the rows of all tables again?")
    eng.sessions.log(busy, "Read tables.py")
    clock.advance(3600)
    for each in (polite, busy):
        eng.sessions.heartbeat(each)
    first, *others = cards(server)
    assert "waits for you" in first
    assert "stale" not in first
    assert "Two tables of routes are there. Which one is right?" in first
    assert not [each for each in others if "waits for you" in each]
    with person(server, "write") as someone, person(server, "read") as reader:
        page = someone.see("")
        assert "1 agent waits for your answer" in page.text
        assert f"/w/default/sessions/{waiting}?around={asked}#turn-{asked}" in page.links
        assert 'aria-label="Reply"' in page.response.text
        assert 'aria-label="Reply"' not in reader.see("").response.text
        clock.advance(60)
        eng.messages.send(None, waiting, "Yes, all of it")
        answered = someone.see("").text
        assert "Nobody is waiting for you." in answered
        assert "You wrote to it" in answered
        # However many messages others exchange later.
        for number in range(60):
            eng.messages.send(polite, busy, f"Message {number}")
        assert "Nobody is waiting for you." in someone.see("").text


@pytest.mark.requirement("WEB-3")
@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("Which one do you want?\n\n1. Keep it\n2. Drop it", "Which one do you want?"),
        ("Should the old flag stay for one release?\n- yes\n- no", "Should the old flag stay for one release?"),
        ("Which of these two files should I change?\n```\na.py\n```", "Which of these two files should I change?"),
        ("Shall I start the whole migration now? \U0001f680", "Shall I start the whole migration now?"),
        ("\u0647\u0644 \u0623\u0633\u062a\u0645\u0631\u061f", "\u0647\u0644 \u0623\u0633\u062a\u0645\u0631\u061f"),
        ("The answer is at https://x.example/?", ""),
        ("All of it is done:\n- one\n- two", ""),
    ],
)
def test_a_message_ends_with_a_question_whatever_stands_below_it(said: str, asked: str) -> None:
    assert closing_question(said) == asked
