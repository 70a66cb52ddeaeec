"""What was said and done, searched, read, drawn and dreamt, in a browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import Route, expect

from engram import Engram

from .conftest import Visit, Visitor


def say(eng: Engram, summary: str, *turns: tuple[str, str], outcome: str = "") -> str:
    session = eng.sessions.register("claude-code", summary, project="acme/shop")
    for role, text in turns:
        eng.exchanges.add(session, role, text)
    if outcome:
        eng.sessions.complete(session, outcome)
    return session


@pytest.mark.requirement("WEB-12")
def test_results_appear_as_one_types_and_lead_to_the_turn(person: Visitor) -> None:
    eng = person.server.eng
    session = say(
        eng,
        "The nightly build",
        ("user", "Why does the nightly build fail?"),
        ("assistant", "Its token expired on Monday. I made a **new one** that is valid for a year."),
    )
    eng.sessions.log(session, "Bash: renewed the token")
    page = person.visit("search")
    page.get_by_role("searchbox").press_sequentially("nightly build", delay=20)
    results = page.locator("#results")
    expect(results).to_contain_text("Why does the nightly build fail?")
    expect(results).to_contain_text("Its token expired on Monday.")
    assert "q=nightly" in page.url
    results.get_by_role("link", name="Open").first.click()
    page.wait_for_url(f"**/sessions/{session}**")
    expect(page.locator("main strong", has_text="new one")).to_be_visible()
    step = page.locator("main details ol", has_text="Bash: renewed the token")
    expect(step).to_be_hidden()
    page.locator("main details summary", has_text="step").first.click()
    expect(step).to_be_visible()


@pytest.mark.requirement("WEB-12")
@pytest.mark.parametrize("fail", ["lost", "mistake", "refused"])
def test_a_search_that_fails_while_one_types_says_so_and_shows_no_earlier_results(person: Visitor, fail: str) -> None:
    eng = person.server.eng
    eng.remember("The staging port is 6543")
    eng.remember("The nightly build has a new token")
    page = person.visit("search?q=staging+port")
    results = page.locator("#results")
    expect(results).to_contain_text("6543")
    before = page.url

    def answer(route: Route) -> None:
        if fail == "lost":
            route.abort()
        elif fail == "mistake":
            route.fulfill(status=500, body="<p>Something is wrong.</p>", content_type="text/html")
        else:
            problem = '<section id="problem" data-status="400"><p>k must be smaller.</p></section>'
            route.fulfill(status=400, body=problem, content_type="text/html")

    page.route("**/search?q=nightly*", answer)
    page.get_by_role("searchbox").fill("nightly build")
    message = "k must be smaller." if fail == "refused" else "The search did not work. Try again."
    expect(results.get_by_role("alert")).to_have_text(message)
    expect(results).not_to_contain_text("6543")
    assert page.url == before
    page.unroute("**/search?q=nightly*")
    page.get_by_role("searchbox").press("Enter")
    expect(results).to_contain_text("new token")
    expect(results.get_by_role("alert")).to_have_count(0)
    assert "q=nightly" in page.url


@pytest.mark.requirement("WEB-12")
def test_a_turn_is_forgotten_from_its_session(person: Visitor) -> None:
    eng = person.server.eng
    session = say(eng, "The build", ("user", "The pager code is green"), ("assistant", "I noted that."))
    page = person.visit(f"sessions/{session}")
    turn = page.locator("[id^=turn-]", has_text="pager code")
    turn.hover()
    turn.get_by_role("button", name="Forget").click()
    page.get_by_role("dialog").get_by_role("button", name="Forget").click()
    expect(page.locator("main")).not_to_contain_text("pager code")
    assert [each.content for each in eng.exchanges.history(session)] == ["I noted that."]


@pytest.mark.requirement("WEB-13")
def test_a_proposal_is_decided_by_keyboard_and_the_next_one_follows(person: Visitor) -> None:
    eng = person.server.eng
    for text in ("Invoices go out with the first train", "Staging listens on port 5432"):
        eng.remember(text, kind="fact")
        eng.remember(f"{text}.", kind="note")
    eng.with_settings(dream_min_age=0).dream(force=True, stages=["consolidate"])
    waiting = eng.proposals.list()
    assert len(waiting) == 2
    page = person.visit("dreams")
    page.keyboard.press("j")
    page.keyboard.press("r")
    expect(page.locator("[data-item]", has=page.locator("[data-key=a]"))).to_have_count(1)
    page.keyboard.press("a")
    expect(page.locator("[data-item] [data-key=a]")).to_have_count(0)
    assert eng.proposals.list() == []
    assert sorted(eng.proposals.show(each.id).state for each in waiting) == ["applied", "rejected"]


@pytest.mark.requirement("WEB-13")
def test_a_key_that_is_held_down_decides_one_proposal(person: Visitor) -> None:
    eng = person.server.eng
    for text in ("Invoices go out with the first train", "Staging listens on port 5432"):
        eng.remember(text, kind="fact")
        eng.remember(f"{text}.", kind="note")
    eng.with_settings(dream_min_age=0).dream(force=True, stages=["consolidate"])
    page = person.visit("dreams")
    page.keyboard.press("j")
    page.keyboard.down("a")
    expect(page.locator("[data-item]", has=page.locator("[data-key=a]"))).to_have_count(1)
    for _ in range(5):
        # Again without a release in between: the browser says that the key repeats.
        page.keyboard.down("a")
        page.wait_for_timeout(50)
    page.keyboard.up("a")
    assert len(eng.proposals.list()) == 1


@pytest.mark.requirement("WEB-13")
def test_a_pass_is_run_and_undone(person: Visitor) -> None:
    eng = person.server.eng
    session = say(
        eng,
        "The nightly build",
        ("user", "Why does the nightly build fail?"),
        ("assistant", "Its token expired on Monday. I made a new one that is valid for a year."),
        outcome="The nightly build works again",
    )
    page = person.visit("dreams?view=due")
    page.get_by_role("button", name="Run").first.click()
    expect(page.get_by_role("status")).to_contain_text("over")
    assert eng.gists.current(session) is not None
    person.visit("dreams?view=passes")
    page.get_by_role("button", name="Undo").first.click()
    page.get_by_role("dialog").get_by_role("button", name="Undo").click()
    expect(page.locator("main")).to_contain_text("undone")
    assert eng.gists.current(session) is None


@pytest.mark.requirement("WEB-18")
def test_what_came_while_a_person_reads_the_preview_is_shown_before_it_is_forgotten(person: Visitor) -> None:
    eng = person.server.eng
    session = say(eng, "The staging port", ("user", "Staging uses port 6543 now"))
    page = person.visit(f"sessions/{session}")
    page.get_by_role("button", name="Forget the session").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("1 turn")
    eng.exchanges.add(session, "assistant", "I keep that in mind")
    dialog.get_by_role("button", name="Forget").click()
    expect(dialog).to_contain_text("This has changed since you looked")
    expect(dialog).to_contain_text("I keep that in mind")
    assert eng.exchanges.history(session)
    dialog.get_by_role("button", name="Forget").click()
    expect(page.locator("#notices, #problem").first).to_contain_text("orgotten")
    assert eng.sessions.list() == []


@pytest.mark.requirement("WEB-14")
def test_the_graph_is_walked_from_a_session_to_what_came_of_it(person: Visitor) -> None:
    eng = person.server.eng
    session = say(eng, "The staging port", ("user", "Staging uses port 6543 now"))
    memory = eng.remember("Staging uses port 6543", kind="fact", session_id=session)
    page = person.visit(f"graph?kind=session&id={session}")
    page.locator("svg.graph a.memory").click()
    page.wait_for_url(f"**/graph?kind=memory&id={memory.id}")
    expect(page.locator("svg.graph a.first")).to_contain_text("Staging uses port 6543")
    expect(page.locator("svg.graph a.session")).to_have_count(1)


@pytest.mark.requirement("WEB-14")
def test_a_day_of_the_chart_leads_to_its_sessions(person: Visitor) -> None:
    eng = person.server.eng
    say(eng, "The nightly build", ("user", "Why does it fail?"), outcome="It works again")
    page = person.visit("time")
    page.get_by_text("As a table").click()
    page.get_by_role("link", name=eng.now()[:10]).click()
    expect(page.locator(".timeline")).to_contain_text("The nightly build")
    expect(page.locator(".timeline")).to_contain_text("It works again")


@pytest.mark.requirement("WEB-15")
def test_a_token_is_made_shown_once_and_revoked(person: Visitor) -> None:
    access = person.server.eng.access
    page = person.visit("system")
    page.get_by_text("New token").click()
    page.get_by_label("Name").fill("laptop")
    page.get_by_role("button", name="Make a token").click()
    dialog = page.get_by_role("dialog", name="Token created")
    # The token is there already, so nothing can be cancelled.
    expect(dialog.get_by_role("button")).to_have_text(["Copy", "I have copied it"])
    secret = dialog.get_by_role("textbox").input_value()
    assert access.tokens.verify(secret).name == "laptop"
    dialog.get_by_role("button", name="I have copied it").click()
    row = page.locator("#tokens tr", has_text="laptop")
    expect(row).to_be_visible()
    assert secret not in page.content()
    row.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(row).to_have_count(0)
    assert "laptop" not in [each.name for each in access.tokens.list()]


@pytest.mark.requirement("WEB-13")
def test_an_edit_of_an_outdated_proposal_shows_what_is_true_now_and_keeps_the_text(person: Visitor) -> None:
    eng = person.server.eng
    memory = eng.remember("Invoices go out with the first train", kind="fact")
    eng.remember("Invoices go out with the first train.", kind="note")
    eng.with_settings(dream_min_age=0).dream(force=True, stages=["consolidate"])
    page = person.visit("dreams")
    page.get_by_role("button", name="Edit", exact=True).click()
    page.get_by_label("The text to store").fill("Invoices go out at noon")
    eng.memories.update(memory.id, "Invoices go out by mail")
    page.get_by_role("button", name="Store and apply").click()
    expect(page.get_by_role("button", name="Store and apply")).to_have_count(0)
    expect(page.get_by_role("button", name="Accept")).to_have_count(0)
    expect(page.locator("#notices")).to_contain_text("Memory 1 has changed since this was planned")
    expect(page.locator("#notices")).to_contain_text(
        "The field that you were writing in is gone from this page. This was not sent:"
    )
    expect(page.get_by_label("What you wrote")).to_have_value("Invoices go out at noon")


@pytest.mark.requirement("WEB-14")
def test_a_day_says_that_it_is_utc_and_a_time_tells_the_local_one(log_in: Visit) -> None:
    person = log_in(timezone_id="Pacific/Auckland")
    say(person.server.eng, "The nightly build", ("user", "Why does it fail?"))
    page = person.visit("time")
    expect(page.locator("main")).to_contain_text("Days and times are UTC.")
    clock = page.locator("#timeline time").first
    local = clock.evaluate("each => new Date(each.dateTime).toLocaleString()")
    expect(clock).to_have_attribute("title", local)
    expect(person.visit("memory").locator("main")).to_contain_text("Days are UTC.")


@pytest.mark.requirement("WEB-12")
@pytest.mark.parametrize("turns", [7, 14])
def test_the_preview_of_forgetting_a_session_counts_turns_and_log_entries_apart(person: Visitor, turns: int) -> None:
    eng = person.server.eng
    session = say(eng, "The build")
    for number in range(25):
        eng.sessions.log(session, f"Bash: step {number}")
    for number in range(turns):
        eng.exchanges.add(session, "user", f"Question {number}")
    page = person.visit(f"sessions/{session}")
    page.get_by_role("button", name="Forget the session").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"{turns} turns and 25 log entries")
    # The turns are what a person knows the session by.
    expect(dialog).to_contain_text("Question 0")
    expect(dialog).to_contain_text(f"and {turns + 25 - 10} more")


@pytest.mark.requirement("WEB-12")
def test_the_preview_of_forgetting_one_turn_counts_it_as_a_turn(person: Visitor) -> None:
    session = say(person.server.eng, "The build", ("user", "The pager code is green"))
    page = person.visit(f"sessions/{session}")
    turn = page.locator("[id^=turn-]", has_text="pager code")
    turn.hover()
    turn.get_by_role("button", name="Forget").click()
    expect(page.get_by_role("dialog").locator("dt").first).to_have_text("1 turn")
