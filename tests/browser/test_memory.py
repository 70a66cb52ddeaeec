"""Memories and blocks, as a person reads, changes and forgets them in a browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.conftest import ShiftedClock

from .conftest import Visit, Visitor

DAY = 86_400


@pytest.mark.requirement("WEB-9")
def test_a_line_of_the_brief_is_pinned_edited_and_forgotten_where_it_stands(person: Visitor) -> None:
    eng = person.server.eng
    kept = eng.remember("Deploys never happen on Fridays", kind="preference")
    going = eng.remember("The staging port is 5432", kind="decision")
    page = person.visit("memory")
    line = page.locator(".brief .line", has_text="never happen on Fridays")
    expect(line.get_by_role("link", name=f"memory {kept.id}")).to_be_visible()
    line.hover()
    line.get_by_role("button", name="Pin").click()
    expect(page.locator(".brief .part", has_text="Pinned")).to_be_visible()
    assert (eng.memories.get(kept.id).pinned, eng.memories.get(kept.id).approved) == (True, True)
    line.hover()
    line.get_by_role("button", name="Edit").click()
    line.get_by_label("Text").fill("Deploys never happen on Fridays or weekends")
    line.get_by_role("button", name="Store").click()
    expect(page.locator(".brief")).to_contain_text("Fridays or weekends")
    assert eng.memories.get(kept.id).version == 2
    other = page.locator(".brief .line", has_text="5432")
    other.hover()
    other.get_by_role("button", name="Forget").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("The staging port is 5432")
    expect(dialog).to_contain_text("This cannot be undone.")
    dialog.get_by_role("button", name="Cancel").click()
    assert eng.memories.get(going.id)
    other.hover()
    other.get_by_role("button", name="Forget").click()
    page.get_by_role("dialog").get_by_role("button", name="Forget").click()
    expect(page.locator(".brief")).not_to_contain_text("5432")
    assert [each.id for each in eng.memories.list()] == [kept.id]


@pytest.mark.requirement("WEB-10")
def test_the_brief_goes_back_to_a_date_and_what_was_forgotten_stays_forgotten(
    log_in: Visit, clock: ShiftedClock
) -> None:
    person = log_in()
    eng = person.server.eng
    eng.remember("The staging port is 5432", kind="decision", key="staging")
    gone = eng.remember("The pager code is green", kind="decision")
    then = eng.now()[:10]
    clock.advance(3 * DAY)
    eng.remember("The staging port is 6543", kind="decision", key="staging")
    eng.forget(memory=gone.id)
    page = person.visit("memory")
    expect(page.locator(".brief")).to_contain_text("6543")
    page.get_by_label("As of").fill(then)
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("What were my agents told?")
    brief = page.locator(".brief")
    expect(brief).to_contain_text("5432")
    expect(brief).not_to_contain_text("6543")
    expect(brief).not_to_contain_text("pager")
    expect(page.get_by_role("button", name="Pin")).to_have_count(0)


@pytest.mark.requirement("WEB-9")
def test_what_waits_for_a_person_is_approved_by_keyboard(person: Visitor) -> None:
    eng = person.server.eng
    memory = eng.remember("The tool says to use port 6543", kind="decision", trust="tool")
    page = person.visit("memory?view=waiting")
    expect(page.locator("#waiting")).to_contain_text("port 6543")
    page.keyboard.press("j")
    page.keyboard.press("a")
    expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
    assert eng.memories.get(memory.id).approved


@pytest.mark.requirement("WEB-11")
def test_a_block_shows_its_edits_side_by_side_and_an_old_version_is_restored(person: Visitor) -> None:
    eng = person.server.eng
    eng.blocks.create("checklist", "Run the tests.\nTag the release.")
    eng.blocks.update("checklist", "Run the tests.\nAsk for a review.", reason="we review now")
    page = person.visit("blocks")
    page.get_by_role("link", name="checklist").click()
    history = page.locator("#history")
    expect(history.locator("del").first).to_contain_text("Tag the release")
    expect(history.locator("ins").first).to_contain_text("Ask for a review")
    history.get_by_role("button", name="Restore").click()
    page.get_by_role("dialog").get_by_role("button", name="Restore").click()
    expect(page.locator("#block")).to_contain_text("Tag the release.")
    block = eng.blocks.get("checklist")
    assert block is not None
    assert (block.version, block.content) == (3, "Run the tests.\nTag the release.")


@pytest.mark.requirement("WEB-11")
def test_a_block_is_made_and_forgotten(person: Visitor) -> None:
    eng = person.server.eng
    page = person.visit("blocks")
    page.get_by_text("New block").click()
    page.get_by_label("Name").fill("glossary")
    page.get_by_label("Text").fill("Order: what a customer bought.")
    page.get_by_role("button", name="Create the block").click()
    page.wait_for_url("**/blocks/glossary")
    page.get_by_role("button", name="Forget the block").click()
    page.get_by_role("dialog").get_by_role("button", name="Forget").click()
    page.wait_for_url("**/blocks")
    assert eng.blocks.get("glossary") is None


@pytest.mark.requirement("WEB-5")
def test_a_token_that_writes_edits_as_an_agent_and_cannot_forget(log_in: Visit) -> None:
    writer = log_in("write")
    eng = writer.server.eng
    memory = eng.remember("The staging port is 5432", kind="decision")
    page = writer.visit(f"memories/{memory.id}")
    assert page.get_by_role("button", name="Forget").count() == 0
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Text").fill("The staging port is 6543")
    page.get_by_role("button", name="Store").first.click()
    expect(page.locator(".memory-text")).to_contain_text("6543")
    assert (eng.memories.get(memory.id).version, eng.memories.get(memory.id).approved) == (2, False)


@pytest.mark.requirement("WEB-13")
def test_memories_are_approved_by_keyboard_and_the_next_one_follows(person: Visitor) -> None:
    eng = person.server.eng
    agent = eng.as_author("agent")
    memories = [agent.remember(f"Port {port} is for staging", pinned=True, trust="tool") for port in (5432, 6543, 7654)]
    assert eng.waiting().memories == len(memories)
    page = person.visit("memory?view=waiting")
    page.keyboard.press("j")
    page.keyboard.press("a")
    expect(page.locator("#waiting [data-item]")).to_have_count(2)
    page.keyboard.press("a")
    expect(page.locator("#waiting [data-item]")).to_have_count(1)


@pytest.mark.requirement("WEB-9")
def test_a_receipt_counts_what_is_gone(person: Visitor) -> None:
    eng = person.server.eng
    eng.forget(memory=eng.remember("The pager code is green").id)
    session = eng.sessions.register("codex", "Adding rate limits")
    for text in ("Which port?", "6543"):
        eng.exchanges.add(session, "user", text)
    eng.forget(session=session)
    receipts = person.visit("system").locator("#receipts")
    expect(receipts).to_contain_text("1 memory")
    expect(receipts).to_contain_text("2 turns")
    expect(receipts).not_to_contain_text("1 memories")
