"""Many open tabs in one browser, and tabs that nobody looks at."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, Route, expect

from .conftest import Visitor, follow

SECRET = "The pager code is green"
#: A browser opens six connections to one server.
_TABS = 8


@pytest.mark.requirement("WEB-31")
def test_eight_open_tabs_load_follow_and_forget(person: Visitor) -> None:
    eng = person.server.eng
    memory = eng.remember(SECRET)
    tabs = [person.page, *(person.page.context.new_page() for _ in range(_TABS - 1))]
    for tab in tabs:
        tab.goto(f"{person.server.url}/w/default/memory?view=all")
        expect(tab.locator("#content")).to_contain_text(SECRET)
    eng.remember("Staging listens on port 5432")
    for tab in tabs:
        expect(tab.locator("#content")).to_contain_text("port 5432")
    eng.forget(memory=memory.id)
    for tab in tabs:
        expect(tab.locator("#content")).not_to_contain_text(SECRET)


@pytest.mark.requirement("WEB-31")
def test_what_is_forgotten_leaves_a_hidden_tab(person: Visitor) -> None:
    eng = person.server.eng
    memory = eng.remember(SECRET)
    page = follow(person, "memory?view=all")
    _set_hidden(page, True)
    eng.forget(memory=memory.id)
    expect(page.locator("#content")).not_to_contain_text(SECRET)
    expect(page.locator("body")).not_to_have_attribute("data-veiled", re.compile(""))


@pytest.mark.requirement("WEB-31")
def test_hidden_tabs_without_a_shared_worker_leave_room_for_others_and_show_nothing_forgotten(person: Visitor) -> None:
    eng = person.server.eng
    memory = eng.remember(SECRET)
    first = person.page
    first.context.add_init_script("delete window.SharedWorker")
    tabs = [first, *(first.context.new_page() for _ in range(_TABS - 1))]
    for tab in tabs:
        tab.goto(f"{person.server.url}/w/default/memory?view=all")
        expect(tab.locator("#content")).to_contain_text(SECRET)
        _set_hidden(tab, True)
    eng.forget(memory=memory.id)
    held: list[Route] = []
    first.route("**/memory?view=all", lambda route: held.append(route))
    with first.expect_request("**/memory?view=all"):
        _set_hidden(first, False)
    expect(first.locator("#content")).to_have_css("opacity", "0")
    held[0].continue_()
    expect(first.locator("#content")).to_have_css("opacity", "1")
    expect(first.locator("#content")).not_to_contain_text(SECRET)
    # It follows what happens again.
    first.unroute_all()
    eng.remember("Staging listens on port 5432")
    expect(first.locator("#content")).to_contain_text("port 5432")


@pytest.mark.requirement("WEB-31")
def test_a_page_that_the_browser_has_kept_shows_nothing_forgotten(person: Visitor) -> None:
    eng = person.server.eng
    memory = eng.remember(SECRET)
    page = follow(person, "memory?view=all")
    page.evaluate("dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }))")
    eng.forget(memory=memory.id)
    expect(page.locator("#content")).to_have_css("opacity", "0")
    page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")
    expect(page.locator("#content")).to_have_css("opacity", "1")
    expect(page.locator("#content")).not_to_contain_text(SECRET)


def _set_hidden(page: Page, hidden: bool) -> None:
    """Playwright shows all its pages."""
    page.evaluate(
        """(hidden) => {
          Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
          document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )
