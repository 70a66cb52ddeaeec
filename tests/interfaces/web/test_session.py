"""The page of a session."""

from __future__ import annotations

import re

import pytest

from engram.gist_text import GistText, compose
from tests.conftest import ShiftedClock
from tests.interfaces._browser import Page
from tests.interfaces._server import Server

from ._person import Person, person


def entries(page: Page) -> list[int]:
    """The ids of the turns and steps, in their order."""
    return [int(each) for each in re.findall(r'id="turn-(\d+)"', page.response.text)]


@pytest.mark.requirement("DASHBOARD-21")
def test_what_came_of_a_session_comes_before_what_was_said(server: Server, me: Person) -> None:
    eng = server.eng
    parent = eng.sessions.register("claude-code", "Planning the move")
    session = eng.sessions.register("codex", "Move the store", project="acme/shop", parent_id=parent)
    child = eng.sessions.register("codex", "Find the callers", parent_id=session)
    asked = eng.exchanges.add(session, "user", "Please move the store")
    eng.sessions.log(session, "Edit store.py")
    eng.sessions.log(session, "Run the tests")
    eng.exchanges.add(session, "assistant", "Done: **all tests** pass")
    memory = eng.remember("The store lives in core now", session_id=session, kind="decision").id
    derived = eng.remember("The user wants the store moved", sources=[("exchange", asked)]).id
    text = compose(
        GistText("Moving the store", "It is moved", ("The docs still name the old place",), "First it failed.")
    )
    turns = [each.id for each in eng.exchanges.history(session)]
    eng.gists.store(session, text, turns[-1])
    eng.sessions.complete(session, "Store moved, tests pass")
    page = me.see(f"sessions/{session}")
    assert page.status == 200
    words = page.text
    for shown in ("Moving the store", "Store moved, tests pass", "The docs still name the old place", "acme/shop"):
        assert shown in words
    assert words.index("Store moved, tests pass") < words.index("Please move the store")
    assert "2 steps" in words
    assert "<strong>all tests</strong>" in page.response.text
    ids = {parent, child}
    assert {f"/w/default/sessions/{each}" for each in ids} <= set(page.links)
    assert {f"/w/default/memories/{each}" for each in (memory, derived)} <= set(page.links)
    gist = eng.memories.gist(session)
    assert gist is not None
    assert f"/w/default/sessions/{session}" in me.see(f"memories/{gist.id}").links
    assert 'data-live="exchange session lease"' not in page.response.text


@pytest.mark.requirement("DASHBOARD-21")
def test_a_long_session_is_read_page_by_page_without_a_gap(server: Server, me: Person) -> None:
    session = server.eng.sessions.register("codex", "Counting")
    every = [
        server.eng.exchanges.add(session, "log" if number % 3 == 2 else "user", f"number {number}", embed=False)
        for number in range(150)
    ]
    server.eng.sessions.complete(session)

    def walk(address: str, name: str) -> list[list[int]]:
        pages = []
        while address:
            page = me.see(address.removeprefix("/w/default/"))
            pages.append(entries(page))
            found = [each for each in page.links if f"?{name}=" in each]
            address = found[0] if found else ""
        return pages

    forth = walk(f"sessions/{session}", "after")
    assert [len(each) for each in forth] == [80, 70]
    assert [id for each in forth for id in each] == every
    back = walk(f"sessions/{session}?end=1", "before")
    assert [id for each in reversed(back) for id in each] == every


@pytest.mark.requirement("DASHBOARD-21")
def test_a_link_to_a_turn_opens_the_page_that_has_it(server: Server, me: Person) -> None:
    session = server.eng.sessions.register("codex", "Working")
    every = [server.eng.exchanges.add(session, "user", f"number {number}", embed=False) for number in range(200)]
    for wanted in (every[0], every[100], every[-1]):
        page = me.see(f"sessions/{session}", around=wanted)
        assert wanted in entries(page)
        assert page.response.text.count(" wanted") == 1
    other = server.eng.sessions.register("codex", "Working")
    assert me.see(f"sessions/{other}", around=every[0]).status == 404
    assert me.see(f"sessions/{session}", around=10**9).status == 404
    assert me.see(f"sessions/{session}", around="x").status == 400


@pytest.mark.requirement("DASHBOARD-21")
def test_an_active_session_shows_its_end_and_takes_a_message(server: Server, me: Person) -> None:
    session = server.eng.sessions.register("codex", "Working")
    for number in range(100):
        server.eng.exchanges.add(session, "user", f"number {number}", embed=False)
    server.eng.leases.claim(session, "src/router.py", note="rewriting")
    page = me.see(f"sessions/{session}")
    assert "number 99" in page.text
    assert "number 3 " not in page.text
    assert "number 3 " in me.see(f"sessions/{session}", begin=1).text
    assert "src/router.py" in page.text
    assert 'data-call="library:messages.send"' in page.response.text
    assert 'data-live="exchange session lease"' in page.response.text
    server.eng.sessions.complete(session)
    assert "messages.send" not in me.see(f"sessions/{session}").response.text


@pytest.mark.requirement("DASHBOARD-21")
def test_long_turns_are_folded_and_pasted_output_keeps_its_form(server: Server, me: Person) -> None:
    session = server.eng.sessions.register("codex", "Working")
    log = "\n".join(f"2026-11-15 10:00:{number:02} ERROR   worker   {number}" for number in range(50))
    pasted = server.eng.exchanges.add(session, "user", log)
    short = server.eng.exchanges.add(session, "assistant", "I see.")
    page = me.see(f"sessions/{session}").response.text
    assert f'id="all-{pasted}"' in page
    assert "Show all (50 lines)" in page
    assert "ERROR   worker   7" in page
    assert '<pre class="verbatim">2026' in page
    assert f'id="all-{short}"' not in page


@pytest.mark.requirement("DASHBOARD-21")
def test_a_table_in_an_answer_is_a_table_and_raw_output_in_one_keeps_its_form(server: Server, me: Person) -> None:
    session = server.eng.sessions.register("codex", "Comparing")
    rows = "\n".join(f"| case {number} | {number} ms |" for number in range(8))
    server.eng.exchanges.add(session, "assistant", f"Measured:\n\n| case | time |\n|---|---:|\n{rows}")
    page = me.see(f"sessions/{session}").response.text
    assert "<th>case</th>" in page
    assert "verbatim" not in page
    other = server.eng.sessions.register("codex", "Running")
    server.eng.exchanges.add(other, "assistant", "\n".join(f"INFO   worker   {number}" for number in range(8)))
    assert '<pre class="verbatim">INFO   worker   0' in me.see(f"sessions/{other}").response.text


@pytest.mark.requirement("DASHBOARD-21")
def test_a_conversation_has_a_heading_for_each_day_and_its_turns_have_the_time(server: Server, me: Person) -> None:
    eng = server.eng
    session = eng.sessions.register("codex", "Counting")
    for at in ("2025-02-07T10:05:00Z", "2025-02-07T11:15:00Z", "2025-02-08T00:01:00Z"):
        eng.exchanges.add(session, "user", f"It is {at}", created_at=at)
    page = me.see(f"sessions/{session}").text
    assert page.count("Friday, 7 February 2025") == 1
    assert page.index("11:15") < page.index("Saturday, 8 February 2025") < page.index("00:01")
    assert " ago" not in page


@pytest.mark.requirement("DASHBOARD-21")
def test_a_session_says_from_when_to_when_it_was(server: Server, me: Person, clock: ShiftedClock) -> None:
    eng = server.eng
    session = eng.sessions.register("codex", "Counting")
    began = eng.now()
    assert f"since {began[:10]} {began[11:16]}" in me.see(f"sessions/{session}").text
    clock.advance(2 * 86_400)
    eng.sessions.complete(session)
    ended = eng.now()
    page = me.see(f"sessions/{session}").text
    assert f"{began[:10]} {began[11:16]} – {ended[:10]} {ended[11:16]} (2 days)" in page


@pytest.mark.requirement("DASHBOARD-21")
def test_a_session_shows_what_it_sent_and_was_sent(server: Server, me: Person) -> None:
    eng = server.eng
    one, other, third = (eng.sessions.register("codex", f"Task {name}") for name in ("one", "two", "three"))
    eng.messages.send(one, other, "Are you **done**?")
    eng.messages.send(other, "person", "Which price is right?")
    eng.messages.send(None, other, "The second one")
    eng.messages.send(one, "*", "The tests fail")
    eng.messages.send(third, one, "A secret of others")
    (card,) = re.findall(r'id="messages".*?</section>', me.see(f"sessions/{other}").response.text, re.DOTALL)
    for shown in ("<strong>done</strong>", "Which price is right?", "The second one", "The tests fail", "Task one"):
        assert shown in card
    assert "A secret of others" not in card
    (card,) = re.findall(r'id="messages".*?</section>', me.see(f"sessions/{one}").response.text, re.DOTALL)
    assert "every agent" in card


@pytest.mark.requirement("DASHBOARD-21")
def test_a_subagent_that_is_at_work_is_called_so_as_on_every_page(server: Server, me: Person) -> None:
    session = server.eng.sessions.register("codex", "Porting the router")
    server.eng.sessions.register("codex", "Porting the table", parent_id=session)
    (card,) = re.findall(r'id="children".*?</section>', me.see(f"sessions/{session}").response.text, re.DOTALL)
    assert "at work" in card
    assert "active" not in card


@pytest.mark.requirement("DASHBOARD-21")
def test_a_session_without_turns_says_how_they_come(server: Server, me: Person) -> None:
    page = me.see(f"sessions/{server.eng.sessions.register('codex', 'Working')}")
    assert "Nothing was said here yet" in page.text
    assert "engram session log" in page.text


@pytest.mark.requirement("DASHBOARD-23")
def test_a_session_is_found_by_any_id_and_an_unknown_one_is_told(server: Server, me: Person) -> None:
    odd = server.eng.sessions.ensure("team/a b?#1").id
    assert me.see("sessions/team%2Fa%20b%3F%231").status == 200
    assert odd in me.see("sessions/team/a%20b%3F%231").text
    page = me.see("sessions/nobody")
    assert page.status == 404
    assert "This is not here" in page.text
    assert "nav" in page.elements


@pytest.mark.requirement("DASHBOARD-23")
def test_only_an_admin_may_forget_a_session_or_its_turns(server: Server) -> None:
    evil = "<script>alert(1)</script>"
    session = server.eng.sessions.register("codex", evil, project=evil)
    server.eng.exchanges.add(session, "user", f"{evil} [x](javascript:alert(1))")
    server.eng.sessions.log(session, evil)
    with person(server, "admin") as admin, person(server, "write") as writer, person(server, "read") as reader:
        page = admin.see(f"sessions/{session}")
        assert page.response.text.count('data-call="forget"') == 3
        assert page.elements.count("script") == 2
        assert not [each for each in page.links if each.startswith("javascript")]
        written = writer.see(f"sessions/{session}").response.text
        assert "messages.send" in written
        assert "forget" not in written
        assert "data-call" not in reader.see(f"sessions/{session}").response.text
