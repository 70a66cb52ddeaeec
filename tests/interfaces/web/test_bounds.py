"""Addresses and amounts at the edge of what there is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engram import Engram
from engram.interfaces.hooks import failures
from tests.conftest import ShiftedClock
from tests.interfaces._browser import Browser
from tests.interfaces._server import Server, serving

from ._person import Person, person

DAY = 86_400


@pytest.fixture(params=["sqlite_url", "postgres_url"], ids=["sqlite", "postgres"])
def server(request: pytest.FixtureRequest, clock: ShiftedClock) -> Iterator[Server]:
    with Engram(request.getfixturevalue(request.param), clock=clock) as eng, serving(eng) as server:
        yield server


@pytest.mark.requirement("WEB-19")
def test_days_versions_and_numbers_beyond_all_that_exists_are_no_mistake(server: Server) -> None:
    server.eng.world.set("Goal: ship on Friday.")
    addresses = (
        *("time?day=9999-12-31", "time?day=1971-01-01", "time?week=9999-12-31", "time?days=7&before=x_y"),
        *("time?before=%00_a", "time?before=2026-01-01_%00", "time?before=9999-12-31T23:59:59Z_x"),
        *("blocks/world?before=1", "blocks/world?before=999999999", "memory?view=all&before=1"),
        *("memory?at=9999-12-31", "memory?at=1971-01-01", "dreams?view=passes&before=1"),
    )
    with person(server) as someone:
        for address in addresses:
            assert someone.see(address).status == 200, address
        for address in ("memory?at=yesterday", "time?day=yesterday", "time?week=2026-02-30", "blocks/world?before=-1"):
            assert someone.see(address).status == 400, address


@pytest.mark.requirement("WEB-19")
def test_a_query_may_have_any_names(server: Server) -> None:
    memory = server.eng.remember("Deploys never happen on Fridays")
    names = "&".join(f"{name}=x" for name in ("self", "workspace", "path", "query", "changed", "request", "place"))
    pages = ("", "search?q=deploys", "memory?view=all", f"memories/{memory.id}", "blocks", "time", "graph", "system")
    with person(server) as someone:
        for page in (*pages, "dreams", "portrait", f"graph?kind=memory&id={memory.id}"):
            address = f"{page}{'&' if '?' in page else '?'}{names}"
            assert someone.see(address).status == 200, address


@pytest.mark.requirement("WEB-10")
def test_an_earlier_day_shows_nothing_from_later(server: Server, clock: ShiftedClock) -> None:
    eng = server.eng
    eng.sessions.register("codex", "Porting the router", project="acme/early")
    eng.remember("The staging port is 5432", kind="decision", project="acme/early")
    then = eng.now()[:10]
    clock.advance(3 * DAY)
    eng.sessions.register("codex", "Adding limits", project="acme/late")
    eng.remember("The tool says so", trust="tool", project="acme/late")
    eng.recall("staging port")
    with person(server) as someone:
        assert "acme/late" in someone.see("memory").text
        earlier = someone.see(f"memory?at={then}")
        assert "acme/early" in earlier.text and "acme/late" not in earlier.text
        listed = someone.see(f"memory?view=all&at={then}")
        assert "5432" in listed.text and "The tool says so" not in listed.text
        assert "Used" not in listed.text and "Used" in someone.see("memory?view=all").text
        # What waits for a person waits now, whatever day is asked for.
        assert "What will my agents be told?" in someone.see(f"memory?view=waiting&at={then}").text


@pytest.mark.requirement("WEB-3")
def test_of_many_unread_messages_the_oldest_are_shown_and_all_are_counted(server: Server) -> None:
    eng = server.eng
    agent = eng.sessions.register("codex", "Asking much")
    for number in range(30):
        eng.messages.send(agent, "person", f"Question number {number:02}?")
    assert eng.waiting().messages == 30
    with person(server) as someone:
        page = someone.see("")
        assert "Question number 00?" in page.text and "Question number 29?" not in page.text
        assert "30 messages for you" in page.text and "10 more follow" in page.text


@pytest.mark.requirement("WEB-20")
def test_the_doctor_tells_an_admin_what_is_wrong(server: Server) -> None:
    eng = server.eng
    eng.remember("Deploys never happen on Fridays")
    with person(server) as someone:
        system = someone.see("system")
        assert "Check the store" in system.text
        health = someone.see("system/health")
        assert health.status == 200
        assert "passed." in health.text
    with person(server, "write") as writer:
        assert "Check the store" not in writer.see("system").text
        assert writer.see("system/health").status == 403
    with server.http(server.token("ours", "admin", "default")) as http:
        options = {"options": {"fix": True, "full": True}}
        assert http.post("/api/v1/library/doctor", json=options).status_code == 403
        assert http.post("/api/v1/doctor", json={"full": True}).status_code == 403


@pytest.mark.requirement("OVERVIEW-4")
def test_failures_of_hooks_are_counted_for_a_token_for_all_workspaces(server: Server) -> None:
    folder = server.eng.settings.data_dir
    failures.note(folder, "codex prompt: the store is busy")
    server.eng.sessions.register("codex", "Porting the router")
    with person(server) as someone:
        page = someone.see("system").text
        assert "Hooks failed 1 time within a day. " in page and "engram doctor" in page
        assert "the store is busy" not in page
    with Browser(server.url) as browser:
        browser.submit(browser.visit("/login"), token=server.token("ours", "admin", "default"))
        page = Person(browser).see("system").text
        assert "codex" in page and "Hooks failed" not in page


@pytest.mark.requirement("WEB-19")
def test_an_address_that_leads_nowhere_is_a_page_with_the_way_back(server: Server) -> None:
    with person(server) as someone:
        for address in ("nope", "search/", "memories/", "memories/1/2"):
            page = someone.see(address)
            assert (page.status, "There is nothing here" in page.text, "/" in page.links) == (404, True, True), address
        short = someone.see("../default")
        assert short.url.endswith("/w/default/") and short.status == 200
