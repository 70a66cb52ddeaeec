"""The page Time."""

from __future__ import annotations

import pytest

from tests.conftest import ShiftedClock
from tests.interfaces._server import Server

from ._person import person


@pytest.mark.requirement("WEB-14")
def test_the_line_above_the_chart_counts_what_the_chart_shows(server: Server) -> None:
    eng = server.eng
    router = eng.sessions.register("codex", "Porting the router", project="acme/router")
    eng.exchanges.add(router, "user", "Port the router")
    eng.remember("The router speaks HTTP/2", session_id=router, project="acme/router")
    for number in range(3):
        notes = eng.sessions.register("claude-code", f"Writing notes {number}", project="acme/notes")
        eng.exchanges.add(notes, "user", f"Write note {number}")
        eng.remember(f"Note {number} is written", session_id=notes, project="acme/notes")
    with person(server) as someone:
        assert "4 sessions began, 4 active memories stored" in someone.see("time").text
        for query in ({"project": "acme/router"}, {"type": "codex"}):
            assert "1 session began, 1 active memory stored" in someone.see("time", **query).text, query


@pytest.mark.requirement("WEB-14")
def test_the_chart_follows_what_happens(server: Server) -> None:
    with person(server) as someone:
        page = someone.see("time").response.text
    head = page[page.index('id="activity"') :]
    assert {"session", "exchange", "memory"} <= set(head.partition('data-live="')[2].partition('"')[0].split())


@pytest.mark.requirement("WEB-14")
@pytest.mark.parametrize("days, span", [(0, "30 days"), (40, "3 months"), (100, "1 year"), (400, "30 days")])
def test_without_a_choice_the_chart_goes_back_as_far_as_something_happened(
    server: Server, clock: ShiftedClock, days: int, span: str
) -> None:
    session = server.eng.sessions.register("codex", "Porting the router")
    server.eng.exchanges.add(session, "user", "Port the router")
    clock.advance(days * 86_400)
    with person(server) as someone:
        page = someone.see("time").response.text
        chosen = someone.see("time", days="30").response.text
    assert f'aria-current="true">{span}</a>' in page
    assert ("Nothing was said in this time" in page) == (days == 400)
    assert 'aria-current="true">30 days</a>' in chosen


@pytest.mark.requirement("WEB-14")
def test_a_year_is_drawn_by_week_and_a_week_leads_to_its_sessions(server: Server, clock: ShiftedClock) -> None:
    eng = server.eng
    for summary in ("Porting the router", "Adding limits"):
        eng.exchanges.add(eng.sessions.register("codex", summary), "user", "Go on")
        clock.advance(30 * 86_400)
    with person(server) as someone:
        page = someone.see("time", days="365")
        assert "Turns of each week" in page.text
        assert "2 turns in all" in page.text
        weeks = [each for each in page.links if "week=" in each]
        assert len(set(weeks)) == 2
        shown = [someone.see(f"time?{each.partition('?')[2]}").text.partition("the week of")[2] for each in weeks[:2]]
        assert sorted("Porting the router" in each for each in shown) == [False, True]
        assert "Turns of each day" in someone.see("time", days="90").text


@pytest.mark.requirement("WEB-14")
@pytest.mark.parametrize("day", ["x", "2026-02-30", "0000-01-01"])
def test_a_day_that_is_none_is_an_error_as_on_the_page_memory(server: Server, day: str) -> None:
    with person(server) as someone:
        pages = [someone.see("time", day=day), someone.see("memory", at=day)]
    assert [each.status for each in pages] == [400, 400]
    assert all("is not a day. Choose one in the calendar." in each.text for each in pages)


@pytest.mark.requirement("WEB-14")
def test_the_chart_contains_a_chosen_day(server: Server, clock: ShiftedClock) -> None:
    eng = server.eng
    eng.exchanges.add(eng.sessions.register("codex", "Porting the router"), "user", "Go on")
    first = eng.now()[:10]
    clock.advance(60 * 86_400)
    eng.exchanges.add(eng.sessions.register("codex", "Adding limits"), "user", "Go on")
    with person(server) as someone:
        by_itself = someone.see("time", day=first)
        assert "2 turns in all" in by_itself.text
        assert 'aria-current="true">3 months</a>' in by_itself.response.text
        around = someone.see("time", day=first, days=30).response.text
        assert f">{first}<" in around.partition('id="activity"')[2].partition("</section>")[0]
    clock.advance(800 * 86_400)
    with person(server, "read") as someone:
        assert "2 turns in all" in someone.see("time", day=first).text


@pytest.mark.requirement("WEB-14")
def test_sessions_with_nothing_but_a_command_to_the_harness_are_counted(server: Server) -> None:
    eng = server.eng
    for summary, said in (("Porting the router", "Port the router"), ("", "/exit"), ("", "/copy")):
        session = eng.sessions.register("claude-code", summary)
        eng.exchanges.add(session, "user", said)
        eng.sessions.complete(session)
    with person(server) as someone:
        page = someone.see("time").response.text
    listed, _, folded = page[page.index('id="timeline"') :].partition("<details")
    assert "Porting the router" in listed
    assert "(no task)" not in listed
    assert "<summary>2 sessions without a task</summary>" in folded
