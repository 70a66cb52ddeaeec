"""The page Now, as a person uses it."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress

import pytest
from playwright.sync_api import Page, Route, expect

from tests.interfaces.conftest import program

from .conftest import Visit, Visitor, follow


@pytest.mark.requirement("WEB-1")
def test_a_session_that_a_command_registers_appears_within_two_seconds(person: Visitor, sqlite_url: str) -> None:
    # The stream is open: what follows is about how fast a change arrives.
    page = follow(person)
    expect(page.get_by_text("No agent is at work.")).to_be_visible()
    # A busy machine may hold up one of them, but not all.
    for task in ("Adding rate limits", "Porting the router", "Writing the notes"):
        command = [program(), "--store", sqlite_url, "session", "start", "codex", task]
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, "ENGRAM_WORKSPACE": "default"})
        with suppress(AssertionError):
            expect(page.get_by_role("link", name=task)).to_be_visible(timeout=2_000)
            return
    raise AssertionError("no session appeared within two seconds")


@pytest.mark.requirement("WEB-2")
def test_two_edits_of_the_world_state_at_once_show_both_sides(person: Visitor) -> None:
    eng = person.server.eng
    eng.world.set("Goal: ship on Friday.")
    page = person.visit()
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("World state").fill("Goal: ship on Monday.")
    eng.world.set("Goal: ship on Friday.\nStaging is down.")
    page.get_by_role("button", name="Store", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("textbox").nth(0)).to_have_value("Goal: ship on Friday.\nStaging is down.")
    mine = dialog.get_by_role("textbox").nth(1)
    expect(mine).to_have_value("Goal: ship on Monday.")
    assert eng.world.get() == "Goal: ship on Friday.\nStaging is down."
    mine.fill("Goal: ship on Monday.\nStaging is down.")
    dialog.get_by_role("button", name="Store my text").click()
    expect(page.locator("#world")).to_contain_text("ship on Monday")
    assert eng.world.get() == "Goal: ship on Monday.\nStaging is down."


@pytest.mark.requirement("WEB-2")
def test_what_a_person_is_typing_survives_changes_of_others(person: Visitor) -> None:
    eng = person.server.eng
    eng.world.set("Goal: ship on Friday.")
    page = person.visit()
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("World state").fill("Half a sent")
    eng.world.set("Goal: ship on Monday.")
    eng.sessions.register("codex", "Adding rate limits")
    expect(page.get_by_role("link", name="Adding rate limits")).to_be_visible()
    expect(page.get_by_label("World state")).to_have_value("Half a sent")


@pytest.mark.requirement("WEB-3")
def test_a_person_answers_an_agent(person: Visitor) -> None:
    eng = person.server.eng
    agent = eng.sessions.register("claude-code", "Porting the router")
    eng.messages.send(agent, "person", "Which port should staging use?")
    page = person.visit()
    expect(page.get_by_role("heading", name="1 message for you")).to_be_visible()
    expect(page.locator("nav .count").first).to_have_text("1")
    page.get_by_label("Reply").fill("6543")
    page.get_by_label("Reply").press("Enter")
    expect(page.get_by_text("Nobody is waiting for you.")).to_be_visible()
    (answer,) = eng.messages.inbox(agent)
    assert (answer.text, answer.from_session, answer.author) == ("6543", None, "person")
    assert eng.messages.inbox("person", peek=True) == []


@pytest.mark.requirement("WEB-3")
def test_a_reply_that_is_sent_again_because_a_later_step_failed_arrives_once(person: Visitor) -> None:
    eng = person.server.eng
    agent = eng.sessions.register("claude-code", "Porting the router")
    eng.messages.send(agent, "person", "Which port should staging use?")
    page = person.visit()
    page.route("**/messages.read_by_person", lambda route: route.abort())
    page.get_by_label("Reply").fill("6543")
    page.get_by_label("Reply").press("Enter")
    expect(page.locator("form .problem")).to_contain_text("The server does not answer.")
    page.unroute("**/messages.read_by_person")
    page.get_by_label("Reply").press("Enter")
    expect(page.get_by_text("Nobody is waiting for you.")).to_be_visible()
    assert [each.text for each in eng.messages.inbox(agent, peek=True)] == ["6543"]
    # The same words are sent once more if the person means it.
    eng.messages.send(agent, "person", "And in production?")
    page.get_by_label("Reply").fill("6543")
    page.get_by_label("Reply").press("Enter")
    expect(page.get_by_text("Nobody is waiting for you.")).to_be_visible()
    assert [each.text for each in eng.messages.inbox(agent)] == ["6543", "6543"]


@pytest.mark.requirement("WEB-18")
def test_an_edit_whose_answer_was_lost_is_stored_once_and_meets_no_conflict(person: Visitor) -> None:
    eng = person.server.eng
    eng.world.set("Goal: ship on Friday.")
    page = person.visit()

    def lose_the_answer(route: Route) -> None:
        route.fetch()
        route.abort()

    page.route("**/api/v1/block/update", lose_the_answer)
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("World state").fill("Goal: ship on Monday.")
    page.get_by_role("button", name="Store", exact=True).click()
    expect(page.locator("form .problem")).to_contain_text("The server does not answer.")
    page.unroute("**/api/v1/block/update")
    page.get_by_role("button", name="Store", exact=True).click()
    expect(page.get_by_text("Stored.", exact=True)).to_be_visible()
    expect(page.locator("#world")).to_contain_text("version 2")


@pytest.mark.requirement("WEB-3")
def test_a_person_writes_to_all_agents(person: Visitor) -> None:
    eng = person.server.eng
    agents = [eng.sessions.register("codex", f"Task {number}") for number in range(2)]
    page = person.visit()
    page.get_by_text("Write to your agents").click()
    page.get_by_label("Message", exact=True).fill("Staging is down until noon.")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_text("Sent.")).to_be_visible()
    assert [[each.text for each in eng.messages.inbox(agent)] for agent in agents] == [
        ["Staging is down until noon."]
    ] * 2


@pytest.mark.requirement("WEB-4")
def test_breaking_a_claim_asks_for_a_reason_that_its_session_reads(person: Visitor) -> None:
    eng = person.server.eng
    agent = eng.sessions.register("codex", "Adding rate limits")
    eng.leases.claim(agent, "acme/shop:src/router.py", "rewriting", exclusive=True, ttl=600)
    page = person.visit()
    page.get_by_role("button", name="Break", exact=True).click()
    page.get_by_role("button", name="Break the claim").click()
    assert len(eng.leases.list()) == 1, "a reason is required"
    page.get_by_label("Reason").last.fill("it has not answered since noon")
    page.get_by_role("button", name="Break the claim").click()
    expect(page.get_by_text("Nothing is claimed.")).to_be_visible()
    assert eng.leases.list() == []
    (lost,) = eng.sessions.logs(agent)
    assert (
        lost.content == "Lost the claim on acme/shop:src/router.py: broken by a person: it has not answered since noon"
    )


def break_claim(page: Page, resource: str) -> None:
    claim = page.locator("#leases li", has=page.get_by_text(resource, exact=True)).first
    claim.get_by_role("button", name="Break", exact=True).click()
    claim.get_by_label("Reason").fill("it is silent")
    claim.get_by_role("button", name="Break the claim").click()


@pytest.mark.requirement("WEB-4")
def test_breaking_a_claim_leaves_overlapping_claims_of_others(person: Visitor) -> None:
    eng = person.server.eng
    one, other = (eng.sessions.register("codex", f"Task {number}") for number in range(2))
    eng.leases.claim(one, "acme/shop:src/router.py")
    kept = eng.leases.claim(other, "acme/shop:src/**")
    page = person.visit()
    break_claim(page, "acme/shop:src/router.py")
    expect(page.get_by_text("The claim is broken.")).to_be_visible()
    assert [each.token for each in eng.leases.list()] == [kept.token]
    assert eng.sessions.logs(other) == []


@pytest.mark.requirement("WEB-4")
def test_a_claim_that_has_ended_meanwhile_is_not_broken_and_the_page_says_so(person: Visitor) -> None:
    eng = person.server.eng
    one, other = (eng.sessions.register("codex", f"Task {number}") for number in range(2))
    eng.leases.claim(one, "acme/shop:src/router.py")
    page = person.visit()
    # As if the changes came late: the page still shows the claim that has ended.
    page.route("**/w/default/", lambda route: route.abort())
    eng.leases.release(one, "acme/shop:src/router.py")
    kept = eng.leases.claim(other, "acme/shop:src/router.py")
    break_claim(page, "acme/shop:src/router.py")
    expect(page.locator("#leases .problem")).to_contain_text("is gone: it was released")
    expect(page.locator("#leases .problem")).to_contain_text(f"is now claimed by {other}")
    assert [each.token for each in eng.leases.list()] == [kept.token]


@pytest.mark.requirement("WEB-3")
def test_a_person_can_write_to_the_first_session_as_soon_as_it_is_there(person: Visitor) -> None:
    eng = person.server.eng
    page = follow(person)
    expect(page.get_by_text("Write to your agents")).to_have_count(0)
    first = eng.sessions.register("codex", "Adding rate limits")
    page.get_by_text("Write to your agents").click()
    to, text = page.get_by_label("To", exact=True), page.get_by_label("Message", exact=True)
    # The list of recipients follows the sessions.
    second = eng.sessions.register("codex", "Porting the router")
    expect(to.locator(f"option[value='{second}']")).to_have_count(1)
    eng.sessions.complete(second, "Ported")
    expect(to.locator(f"option[value='{second}']")).to_have_count(0)
    # What the person has typed and chosen stays.
    to.select_option(first)
    text.fill("Half a sent")
    eng.sessions.register("codex", "Writing the notes")
    expect(page.get_by_role("link", name="Writing the notes")).to_be_visible()
    expect(text).to_have_value("Half a sent")
    expect(to).to_have_value(first)
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_text("Sent.")).to_be_visible()
    assert [each.text for each in eng.messages.inbox(first)] == ["Half a sent"]
    expect(to.get_by_text("Writing the notes")).to_have_count(1)


@pytest.mark.requirement("WEB-5")
def test_a_token_that_only_reads_sees_everything_and_can_change_nothing(log_in: Visit) -> None:
    reader = log_in("read")
    eng = reader.server.eng
    agent = eng.sessions.register("codex", "Adding rate limits")
    eng.leases.claim(agent, "acme/shop:src/router.py")
    eng.messages.send(agent, "person", "Which port?")
    eng.world.set("Goal: ship on Friday.")
    page = reader.visit()
    expect(page.get_by_text("Which port?")).to_be_visible()
    expect(page.get_by_text("Goal: ship on Friday.")).to_be_visible()
    assert page.locator("main form, main button").count() == 0


@pytest.mark.requirement("WEB-6")
def test_the_keyboard_goes_to_pages_and_explains_itself(person: Visitor) -> None:
    page = person.visit()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Keyboard shortcuts")
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("b")
    page.wait_for_url("**/blocks")


@pytest.mark.requirement("WEB-6")
def test_the_theme_is_kept(person: Visitor) -> None:
    page = person.visit()
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Light or dark").click()
    after = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert before != after
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == after
