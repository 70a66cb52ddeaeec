"""What a person has typed is not lost, and overwrites nothing that the person has not seen."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Dialog, Route, expect

from engram import Engram

from .conftest import Visit, Visitor, follow


@pytest.mark.requirement("WEB-18")
def test_another_action_keeps_what_is_typed_elsewhere_on_the_page(person: Visitor) -> None:
    eng = person.server.eng
    agent = eng.sessions.register("claude-code", "Porting the router")
    other = eng.sessions.register("codex", "Adding rate limits")
    eng.world.set("Goal: ship on Friday.")
    eng.messages.send(agent, "person", "Which port should staging use?")
    eng.messages.send(other, "person", "May I deploy?")
    page = person.visit()
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("World state").fill("Half a sent")
    page.get_by_text("Write to your agents").click()
    page.get_by_label("To", exact=True).select_option(other)
    first = page.locator(".messages li", has_text="Which port")
    first.get_by_label("Reply").fill("Perhaps 65")
    second = page.locator(".messages li", has_text="May I deploy?")
    second.get_by_role("button", name="Mark as read").click()
    expect(page.get_by_role("heading", name="1 message for you")).to_be_visible()
    expect(page.get_by_label("World state")).to_have_value("Half a sent")
    expect(page.get_by_label("World state")).to_be_visible()
    expect(first.get_by_label("Reply")).to_have_value("Perhaps 65")
    expect(page.get_by_label("To", exact=True)).to_be_visible()
    expect(page.get_by_label("To", exact=True)).to_have_value(other)
    first.get_by_label("Reply").press("Enter")
    expect(page.get_by_text("Nobody is waiting for you.")).to_be_visible()
    assert [each.text for each in eng.messages.inbox(agent)] == ["Perhaps 65"]
    expect(page.get_by_label("World state")).to_have_value("Half a sent")


@pytest.mark.requirement("WEB-18")
def test_a_form_that_waits_unsent_keeps_its_place_while_the_rest_is_loaded_again(person: Visitor) -> None:
    eng = person.server.eng
    eng.world.set("Goal: ship on Friday.")
    eng.sessions.register("codex", "Adding rate limits")
    page = follow(person)
    page.get_by_text("Write to your agents").click()
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("World state").fill("Half a sent")
    page.get_by_label("World state").blur()
    eng.world.set("Goal: ship on Monday.")
    expect(page.locator("#world")).to_contain_text("version 2")
    expect(page.get_by_label("World state")).to_have_value("Half a sent")
    eng.messages.send(None, "person", "Lunch is ready.")
    expect(page.get_by_text("Lunch is ready.")).to_be_visible()
    expect(page.get_by_label("Message", exact=True)).to_be_visible()
    page.get_by_role("button", name="Store", exact=True).click()
    expect(page.get_by_role("dialog").get_by_role("textbox").nth(0)).to_have_value("Goal: ship on Monday.")


@pytest.mark.requirement("WEB-18")
def test_a_login_that_ends_during_an_edit_keeps_the_text(person: Visitor) -> None:
    eng = person.server.eng
    eng.blocks.create("checklist", "Run the tests.")
    page = person.visit("blocks/checklist")
    page.get_by_role("button", name="Edit").click()
    page.get_by_role("textbox", name="Text").fill("Run the tests.\nTag the release.")
    cookies = page.context.cookies()
    page.context.clear_cookies()
    page.get_by_role("button", name="Store").click()
    problem = page.locator("form .problem")
    expect(problem).to_contain_text("You are logged out. Log in in another tab, then try again.")
    expect(problem.get_by_role("link", name="Log in")).to_have_attribute("target", "_blank")
    expect(page.get_by_role("textbox", name="Text")).to_have_value("Run the tests.\nTag the release.")
    page.context.add_cookies(cookies)  # type: ignore[arg-type]
    page.get_by_role("button", name="Store").click()
    expect(page.get_by_role("heading", name="Version 2", exact=True)).to_be_visible()
    block = eng.blocks.get("checklist")
    assert block is not None
    assert block.content == "Run the tests.\nTag the release."


@pytest.mark.requirement("WEB-18")
def test_nothing_can_be_typed_that_a_running_save_would_lose(person: Visitor) -> None:
    eng = person.server.eng
    eng.blocks.create("checklist", "Run the tests.")
    page = person.visit("blocks/checklist")
    held: list[Route] = []
    page.route("**/api/v1/block/update", lambda route: held.append(route))
    page.get_by_role("button", name="Edit").click()
    text = page.get_by_role("textbox", name="Text")
    text.fill("Tag the release.")
    with page.expect_request("**/api/v1/block/update"):
        text.press("Control+Enter")
    page.keyboard.type(" And more.")
    expect(text).to_have_value("Tag the release.")
    expect(text).not_to_be_editable()
    held[0].continue_()
    expect(page.get_by_role("heading", name="Version 2", exact=True)).to_be_visible()


@pytest.mark.requirement("WEB-18")
@pytest.mark.parametrize("scope", ["write", "admin"])
def test_two_edits_of_a_memory_at_once_show_both_sides(log_in: Visit, scope: str) -> None:
    person = log_in(scope)
    eng = person.server.eng
    memory = eng.remember("The staging port is 5432")
    page = person.visit(f"memories/{memory.id}")
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Text").fill("The staging port is 6543")
    eng.memories.update(memory.id, "The staging port is 5432, the host is db1")
    page.get_by_role("button", name="Store").first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("textbox").nth(0)).to_have_value("The staging port is 5432, the host is db1")
    mine = dialog.get_by_role("textbox").nth(1)
    expect(mine).to_have_value("The staging port is 6543")
    assert eng.memories.get(memory.id).content == "The staging port is 5432, the host is db1"
    mine.fill("The staging port is 6543, the host is db1")
    dialog.get_by_role("button", name="Store my text").click()
    expect(page.locator(".memory-text")).to_contain_text("6543, the host is db1")
    stored = eng.memories.get(memory.id)
    assert (stored.content, stored.version) == ("The staging port is 6543, the host is db1", 3)
    assert stored.approved is (scope == "admin")


@pytest.mark.requirement("WEB-18")
def test_a_change_of_the_importance_keeps_the_tags_of_others(person: Visitor) -> None:
    eng = person.server.eng
    memory = eng.remember("The staging port is 5432", tags=["staging"], importance=0.5)
    page = person.visit(f"memories/{memory.id}")
    page.get_by_text("Change tags and importance").click()
    page.get_by_label("Importance").fill("0.8")
    eng.memories.update(memory.id, tags=["staging", "database"])
    page.get_by_role("button", name="Store").last.click()
    expect(page.get_by_text("Stored.", exact=True)).to_be_visible()
    stored = eng.memories.get(memory.id)
    assert (stored.importance, sorted(stored.tags)) == (0.8, ["database", "staging"])


@pytest.mark.requirement("WEB-18")
def test_storing_a_block_without_a_change_changes_nothing(person: Visitor) -> None:
    eng = person.server.eng
    eng.blocks.create("checklist", "\nRun the tests.\r\nTag the release.")
    page = person.visit("blocks/checklist")
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Reason").fill("just looking")
    page.get_by_role("button", name="Store").click()
    expect(page.get_by_text("Nothing has changed.")).to_be_visible()
    block = eng.blocks.get("checklist")
    assert block is not None
    assert (block.version, block.content) == (1, "\nRun the tests.\r\nTag the release.")


@pytest.mark.requirement("WEB-13")
def test_an_obstacle_of_an_unknown_kind_is_named(person: Visitor) -> None:
    eng = person.server.eng
    eng.blocks.create("checklist", "Run the tests.")
    page = person.visit("blocks/checklist")
    obstacles = [{"kind": "planet", "ref": "7", "name": "planet 7", "why": "it was moved"}]
    error = {"code": "undo_blocked", "message": "Not undone.", "details": {"obstacles": obstacles}}
    page.route("**/api/v1/block/update", lambda route: route.fulfill(status=409, json={"error": error}))
    page.get_by_role("button", name="Edit").click()
    page.get_by_role("textbox", name="Text").fill("Tag the release.")
    page.get_by_role("button", name="Store").click()
    expect(page.locator("form .problem")).to_contain_text("planet 7: it was moved")


def _ask(eng: Engram, task: str, text: str) -> str:
    session = eng.sessions.register("codex", task)
    eng.messages.send(session, "person", text)
    return session


@pytest.mark.requirement("WEB-32")
@pytest.mark.parametrize("typed", ["", "Half a sent"])
def test_messages_come_and_go_around_the_one_that_a_person_answers(person: Visitor, typed: str) -> None:
    eng = person.server.eng
    gone = _ask(eng, "Adding rate limits", "The pager code is green")
    _ask(eng, "Porting the router", "Which port?")
    page = follow(person)
    reply = page.locator(".messages li", has_text="Which port?").get_by_label("Reply")
    reply.press_sequentially(typed)
    reply.focus()
    reply.evaluate(_WATCH)
    eng.forget(session=gone)
    expect(page.locator("#content")).not_to_contain_text("pager code")
    _ask(eng, "Writing the notes", "May I deploy?")
    expect(page.locator("#messages")).to_contain_text("May I deploy?")
    expect(reply).to_be_focused()
    page.keyboard.type("ence")
    expect(reply).to_have_value(f"{typed}ence")
    assert not page.evaluate("window.moved"), "a word that is being composed would end"


#: Notes whether a field was taken out of the page.
_WATCH = """
(field) => {
  window.moved = false;
  const watch = (changes) => {
    const removed = changes.flatMap((each) => [...each.removedNodes]);
    window.moved ||= removed.some((each) => each.contains(field));
  };
  new MutationObserver(watch).observe(document, { childList: true, subtree: true });
}
"""


@pytest.mark.requirement("WEB-32")
def test_an_answer_to_what_is_forgotten_meanwhile_is_kept_apart(person: Visitor) -> None:
    eng = person.server.eng
    gone = _ask(eng, "Adding rate limits", "The pager code is green")
    page = follow(person)
    page.get_by_label("Reply").fill("It is blue")
    eng.forget(session=gone)
    expect(page.locator("#content")).not_to_contain_text("pager code")
    notice = page.locator("#notices")
    expect(notice).to_contain_text("The field that you were writing in is gone from this page. This was not sent:")
    expect(notice.get_by_label("What you wrote")).to_have_value("It is blue")
    notice.get_by_role("button", name="Dismiss").click()
    expect(notice.get_by_label("What you wrote")).to_have_count(0)


@pytest.mark.requirement("WEB-32")
def test_an_edit_of_the_brief_holds_back_nothing_that_is_forgotten(person: Visitor) -> None:
    eng = person.server.eng
    going = [
        eng.remember(text, kind="decision")
        for text in ("Deploys never happen on Fridays", "Invoices go out with the first train")
    ]
    memory = eng.remember("The pager code is green", kind="decision")
    page = follow(person, "memory")
    line = page.locator(".brief .line", has_text="pager code")
    line.hover()
    line.get_by_role("button", name="Edit").click()
    text = line.get_by_label("Text")
    text.press("End")
    page.keyboard.type(" and blue")
    for each in going:
        eng.forget(memory=each.id)
    content = page.locator("#content")
    expect(content).not_to_contain_text("Deploys never")
    expect(content).not_to_contain_text("Invoices")
    expect(text).to_have_value("The pager code is green and blue")
    expect(text).to_be_focused()
    eng.forget(memory=memory.id)
    # The edit would show the text again.
    expect(page.locator("#notices")).to_have_text("What you were editing is gone.Dismiss")
    expect(page.locator("body")).not_to_contain_text("pager code")
    assert page.locator("textarea").evaluate_all("all => all.filter((each) => each.value.includes('pager'))") == []


@pytest.mark.requirement("WEB-32")
def test_an_edit_of_what_only_leaves_the_page_is_kept_apart(person: Visitor) -> None:
    eng = person.server.eng
    memory = eng.remember("The staging port is 5432", kind="decision")
    page = follow(person, "memory")
    line = page.locator(".brief .line", has_text="5432")
    line.hover()
    line.get_by_role("button", name="Edit").click()
    line.get_by_label("Text").fill("The staging port is 6543")
    eng.memories.archive(memory.id)
    expect(page.locator("#content")).not_to_contain_text("5432")
    expect(page.get_by_label("What you wrote")).to_have_value("The staging port is 6543")


@pytest.mark.requirement("WEB-18")
def test_a_page_with_a_text_that_is_not_stored_is_not_left_without_a_question(person: Visitor) -> None:
    asked: list[str] = []
    page = person.visit()

    def stay(dialog: Dialog) -> None:
        asked.append(dialog.type)
        dialog.dismiss()

    page.on("dialog", stay)
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("World state").fill("Half a sent")
    page.get_by_role("link", name="Blocks").click()
    page.wait_for_timeout(200)
    assert asked == ["beforeunload"]
    expect(page.get_by_label("World state")).to_have_value("Half a sent")
    page.get_by_role("button", name="Store", exact=True).click()
    expect(page.get_by_text("Stored.", exact=True)).to_be_visible()
    page.get_by_role("link", name="Blocks").click()
    expect(page.get_by_role("heading", name="Which texts do the agents share?")).to_be_visible()
    assert asked == ["beforeunload"]


@pytest.mark.requirement("WEB-18")
def test_going_back_puts_nothing_that_was_typed_into_the_form_of_a_later_version(person: Visitor) -> None:
    eng = person.server.eng
    eng.world.set("Goal: ship on Friday.")
    page = person.visit()
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("World state").fill("Goal: ship on Tuesday.")
    page.get_by_role("link", name="Blocks").click()
    expect(page.get_by_role("heading", name="Which texts do the agents share?")).to_be_visible()
    eng.world.set("Goal: ship on Monday.")
    page.go_back()
    expect(page.get_by_text("Goal: ship on Monday.").first).to_be_visible()
    expect(page.get_by_label("World state")).to_have_value("Goal: ship on Monday.")


@pytest.mark.requirement("WEB-18")
def test_importance_and_tags_are_stored_also_if_the_text_was_edited_meanwhile(person: Visitor) -> None:
    eng = person.server.eng
    memory = eng.remember("The staging port is 5432")
    page = person.visit(f"memories/{memory.id}")
    page.get_by_text("Change tags and importance").click()
    page.get_by_label("Tags").fill("staging")
    eng.memories.update(memory.id, "The staging port is 6543")
    page.get_by_role("button", name="Store").last.click()
    expect(page.get_by_text("Stored.", exact=True)).to_be_visible()
    stored = eng.memories.get(memory.id)
    assert (stored.content, list(stored.tags)) == ("The staging port is 6543", ["staging"])


@pytest.mark.requirement("WEB-32")
def test_a_dialog_with_a_text_that_is_forgotten_is_closed(person: Visitor) -> None:
    eng = person.server.eng
    memory = eng.remember("The pager code is green")
    page = follow(person, f"memories/{memory.id}")
    page.get_by_role("button", name="Forget").click()
    expect(page.get_by_role("dialog")).to_contain_text("pager code")
    eng.forget(memory=memory.id)
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator("body")).not_to_contain_text("pager code")


@pytest.mark.requirement("WEB-32")
def test_a_conflict_over_a_text_that_is_forgotten_is_closed(person: Visitor) -> None:
    eng = person.server.eng
    memory = eng.remember("The pager code is green")
    page = follow(person, f"memories/{memory.id}")
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Text").fill("The pager code is blue")
    eng.memories.update(memory.id, "The pager code is red")
    page.get_by_role("button", name="Store").first.click()
    expect(page.get_by_role("dialog").get_by_role("textbox").first).to_have_value("The pager code is red")
    eng.forget(memory=memory.id)
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator("#notices")).to_contain_text("What you were editing is gone.")
    assert page.locator("textarea").evaluate_all("all => all.filter((each) => each.value.includes('pager'))") == []


@pytest.mark.requirement("WEB-32")
def test_what_was_kept_apart_goes_when_its_subject_is_forgotten_later(person: Visitor) -> None:
    eng = person.server.eng
    memory = eng.remember("The pager code is green", kind="decision")
    page = follow(person, "memory")
    line = page.locator(".brief .line", has_text="pager code")
    line.hover()
    line.get_by_role("button", name="Edit").click()
    line.get_by_label("Text").fill("The pager code is blue")
    eng.memories.archive(memory.id)
    expect(page.get_by_label("What you wrote")).to_have_value("The pager code is blue")
    eng.forget(memory=memory.id)
    expect(page.get_by_label("What you wrote")).to_have_count(0)
    expect(page.locator("#notices")).to_contain_text("What you were editing is gone.")


@pytest.mark.requirement("WEB-18")
def test_a_conflict_names_the_writer_as_a_person_knows_them(log_in: Visit) -> None:
    person = log_in(name="ann")
    eng = person.server.eng
    agent = eng.sessions.register("codex", "Porting the router")
    eng.world.set("Goal: ship on Friday.")
    memory = eng.remember("The staging port is 5432")
    dialog = person.page.get_by_role("dialog")

    def collide(path: str, label: str, meanwhile: Callable[[], object]) -> None:
        page = person.visit(path)
        page.get_by_role("button", name="Edit").first.click()
        page.get_by_label(label).fill("Something else")
        meanwhile()
        page.get_by_role("button", name="Store", exact=True).first.click()

    collide("", "World state", lambda: eng.world.set("Goal: ship on Monday.", agent))
    expect(dialog).to_contain_text("Now stored: version 2, by the session “Porting the router”")
    mine, hers = eng.as_author("ann"), eng.as_author("bea")
    collide(f"memories/{memory.id}", "Text", lambda: mine.memories.update(memory.id, "The staging port is 6543"))
    expect(dialog).to_contain_text("Now stored: version 2, by you, in another window")
    collide(f"memories/{memory.id}", "Text", lambda: hers.memories.update(memory.id, "The staging port is 7654"))
    expect(dialog).to_contain_text("Now stored: version 3, by bea")


@pytest.mark.requirement("WEB-18")
def test_a_tag_with_a_comma_survives_a_change_of_the_others(person: Visitor) -> None:
    memory = person.server.eng.remember("Deploys never happen on Fridays", tags=["a,b", "c"])
    page = person.visit(f"memories/{memory.id}")
    tags = page.get_by_label("Tags")
    page.locator("details", has=tags).locator("summary").first.click()
    assert tags.input_value() == '"a,b", c'
    tags.fill('"a,b", c, new')
    tags.press("Enter")
    expect(page.locator("#notices")).not_to_be_empty()
    assert set(person.server.eng.memories.get(memory.id).tags) == {"a,b", "c", "new"}


@pytest.mark.requirement("WEB-6")
def test_with_the_keyboard_a_person_goes_through_the_workspaces_before_one_is_opened(person: Visitor) -> None:
    for name in ("alpha", "beta"):
        person.server.eng.workspace(name).remember("Something")
    page = person.visit()
    chooser = page.get_by_label("Workspace")
    chooser.focus()
    chooser.evaluate("each => each.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowDown', bubbles: true }))")
    chooser.select_option(label="beta")
    expect(chooser).to_be_focused()
    assert page.url.endswith("/w/default/")
    chooser.press("Enter")
    page.wait_for_url("**/w/beta/")
