"""What an open page shows after others have changed or forgotten something, and after a person has logged out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from engram import Engram

from .conftest import Visitor, follow

SECRET = "The pager code is green"


def _of_session(eng: Engram, *, ended: bool) -> str:
    id = eng.sessions.register("codex", "Adding rate limits")
    eng.exchanges.add(id, "user", SECRET)
    eng.remember(SECRET, session_id=id)
    if ended:
        eng.sessions.complete(id, SECRET)
    return id


def _memory(eng: Engram) -> tuple[str, Callable[[], object]]:
    id = eng.remember(SECRET).id
    return f"memories/{id}", lambda: eng.forget(memory=id)


def _all(eng: Engram) -> tuple[str, Callable[[], object]]:
    return "memory?view=all", _memory(eng)[1]


def _waiting(eng: Engram) -> tuple[str, Callable[[], object]]:
    id = eng.remember(SECRET, trust="tool").id
    return "memory?view=waiting", lambda: eng.forget(memory=id)


def _block(eng: Engram) -> tuple[str, Callable[[], object]]:
    eng.blocks.create("codes", SECRET)
    return "blocks/codes", lambda: eng.forget(block="codes")


def _blocks(eng: Engram) -> tuple[str, Callable[[], object]]:
    return "blocks", _block(eng)[1]


def _session(eng: Engram) -> tuple[str, Callable[[], object]]:
    id = _of_session(eng, ended=False)
    return f"sessions/{id}", lambda: eng.forget(session=id)


def _memory_of_a_session(eng: Engram) -> tuple[str, Callable[[], object]]:
    session = eng.sessions.register("codex", "Adding rate limits")
    id = eng.remember(SECRET, session_id=session).id
    return f"sessions/{session}", lambda: eng.forget(memory=id)


def _ended_session(eng: Engram) -> tuple[str, Callable[[], object]]:
    id = _of_session(eng, ended=True)
    return f"sessions/{id}", lambda: eng.forget(session=id)


def _turn_of_an_ended_session(eng: Engram) -> tuple[str, Callable[[], object]]:
    session = eng.sessions.register("codex", "Adding rate limits")
    id = eng.exchanges.add(session, "user", SECRET)
    eng.exchanges.add(session, "assistant", "I shall remember it.")
    eng.sessions.complete(session, "Limits work")
    return f"sessions/{session}", lambda: eng.forget(exchange=id)


def _results(eng: Engram) -> tuple[str, Callable[[], object]]:
    return "search?q=pager+code", _memory(eng)[1]


def _timeline(eng: Engram) -> tuple[str, Callable[[], object]]:
    id = _of_session(eng, ended=True)
    return "time", lambda: eng.forget(session=id)


@pytest.mark.requirement("WEB-16")
@pytest.mark.parametrize(
    "prepare",
    [
        *(_memory, _all, _waiting, _block, _blocks, _session, _memory_of_a_session, _ended_session),
        *(_turn_of_an_ended_session, _results, _timeline),
    ],
)
def test_what_is_forgotten_leaves_every_open_page(
    person: Visitor, prepare: Callable[[Engram], tuple[str, Callable[[], object]]]
) -> None:
    path, forget = prepare(person.server.eng)
    page = follow(person, path)
    content = page.locator("#content")
    shown = "Adding rate limits" if path == "time" else "pager code"
    expect(content).to_contain_text(shown)
    forget()
    expect(content).not_to_contain_text(shown)


@pytest.mark.requirement("WEB-16")
def test_a_change_before_the_stream_is_open_is_shown(person: Visitor) -> None:
    page = person.page
    eng = person.server.eng

    def first_a_change(route: Route) -> None:
        if not eng.sessions.active():
            eng.sessions.register("codex", "Adding rate limits")
        route.continue_()

    page.route("**/static/app.js", first_a_change)
    person.visit()
    expect(page.get_by_role("link", name="Adding rate limits")).to_be_visible()


@pytest.mark.requirement("WEB-16")
def test_a_page_that_could_not_be_loaded_again_is_loaded_later(person: Visitor) -> None:
    page = follow(person, "")
    failed: list[str] = []

    def fail_once(route: Route) -> None:
        if failed:
            route.continue_()
        else:
            failed.append(route.request.url)
            route.fulfill(status=503, body="The server starts.")

    page.route("**/w/default/", fail_once)
    person.server.eng.blocks.create("world", "Goal: ship on Friday.")
    try:
        expect(page.locator("#world")).to_contain_text("ship on Friday")
    finally:
        page.unroute_all()
    assert failed


@pytest.mark.requirement("WEB-16")
@pytest.mark.parametrize("path", ["search?q=pager", "system/health", "dreams?view=numbers"])
def test_a_count_in_the_navigation_changes_without_loading_the_page_again(person: Visitor, path: str) -> None:
    page = follow(person, path)
    loaded = _loads(page)
    person.server.eng.remember(SECRET, trust="tool")
    expect(page.locator("#navigation [aria-current]")).to_have_count(1)
    expect(page.locator("#navigation .count")).to_have_text("1")
    assert all("/navigation?" in each for each in loaded), loaded


@pytest.mark.requirement("WEB-16")
def test_a_page_follows_what_it_shows_only_since_a_question_was_cleared(person: Visitor) -> None:
    eng = person.server.eng
    eng.sessions.register("codex", "Adding rate limits")
    page = follow(person, "search?q=pager")
    page.get_by_role("searchbox").fill("")
    expect(page.locator("#latest-sessions")).to_contain_text("Adding rate limits")
    eng.sessions.register("codex", "Porting the router")
    expect(page.locator("#latest-sessions")).to_contain_text("Porting the router")


@pytest.mark.requirement("WEB-16")
def test_a_page_that_the_browser_shows_again_has_one_stream(person: Visitor) -> None:
    page = person.page
    # So that its stream is its own, and the test can look at it.
    page.add_init_script("delete window.SharedWorker")
    page.add_init_script(_STREAMS)
    page.clock.install()
    page.route("**/api/v1/events*", lambda route: route.fulfill(status=503, body="The server starts."))
    person.visit()
    expect(page.locator("body")).to_have_attribute("data-streams", "closed")
    page.unroute("**/api/v1/events*")
    page.evaluate("dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }))")
    page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")
    expect(page.locator("body")).to_have_attribute("data-streams", "closed open")
    # The page had planned to try again by itself.
    page.clock.fast_forward(60_000)
    assert page.evaluate("streams.filter((each) => each.readyState !== EventSource.CLOSED).length") == 1


#: Keeps the streams of a page, and says on its body how they are.
_STREAMS = """
window.streams = [];
const told = () => {
  document.body.dataset.streams = streams.map((each) => ["connecting", "open", "closed"][each.readyState]).join(" ");
};
window.EventSource = class extends EventSource {
  constructor(address) {
    super(address);
    streams.push(this);
    this.addEventListener("open", told);
    this.addEventListener("error", told);
  }
};
"""


@pytest.mark.requirement("WEB-16")
def test_text_that_a_person_has_selected_stays_selected_while_something_else_changes(person: Visitor) -> None:
    eng = person.server.eng
    eng.world.set("Goal: ship on Friday.")
    page = follow(person, "")
    expect(page.locator("#world time")).to_have_text("just now")
    page.locator("#world p").first.evaluate("each => getSelection().selectAllChildren(each)")
    eng.blocks.create("checklist", "Run the tests.")
    eng.messages.send(eng.sessions.register("codex", "Adding rate limits"), "person", "May I deploy?")
    expect(page.locator("#messages")).to_contain_text("May I deploy?")
    assert page.evaluate("getSelection().toString()") == "Goal: ship on Friday."


@pytest.mark.requirement("WEB-13")
def test_the_preview_of_a_pass_is_made_once_while_memories_come_in(person: Visitor) -> None:
    page = person.page
    loaded = _loads(page)
    follow(person, "dreams?view=due&preview=1")
    expect(page.locator("#preview")).to_contain_text("Nothing is written by this preview.")
    with page.expect_response("**/dreams?view=due&preview=1"):
        person.server.eng.remember(SECRET, trust="tool")
    expect(page.locator("#navigation .count")).to_have_text("1")
    expect(page.locator("#preview")).to_contain_text("Nothing is written by this preview.")
    assert len([each for each in loaded if each.endswith("view=preview")]) == 1


def _loads(page: Page) -> list[str]:
    """What the page loads from now on."""
    loaded: list[str] = []
    page.on("request", lambda request: loaded.append(request.url) if "/w/default/" in request.url else None)
    return loaded


@pytest.mark.requirement("WEB-17")
def test_after_a_log_out_in_one_tab_the_others_go_to_the_login(person: Visitor) -> None:
    first = follow(person, "")
    second = first.context.new_page()
    second.goto(first.url)
    expect(second.locator("body")).to_have_attribute("data-stream", "open")
    second.get_by_role("button", name="Log out").click()
    second.wait_for_url("**/login")
    first.wait_for_url("**/login?next=*")


@pytest.mark.requirement("WEB-11")
@pytest.mark.parametrize("name", [".", "..", "~.", "~~..", "...", "~"])
def test_a_block_with_an_odd_name_is_made_and_opened(person: Visitor, name: str) -> None:
    page = person.visit("blocks")
    page.get_by_text("New block").click()
    page.get_by_label("Name").fill(name)
    page.get_by_label("Text").fill("Order: what a customer bought.")
    page.get_by_role("button", name="Create the block").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    expect(page.locator("#block")).to_contain_text("what a customer bought")
    person.visit("blocks")
    page.get_by_role("link", name=name, exact=True).click()
    expect(page.locator("#block")).to_contain_text("what a customer bought")
