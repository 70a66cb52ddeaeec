"""Where things are on a page, on a desktop and on a phone."""

from __future__ import annotations

from itertools import pairwise

import pytest
from playwright.sync_api import FloatRect, Locator, expect

from tests.conftest import ShiftedClock
from tests.interfaces._server import Server

from .conftest import Visit, Visitor

PHONE = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark", "has_touch": True}


def box(place: Locator) -> FloatRect:
    found = place.bounding_box()
    assert found is not None
    return found


@pytest.mark.requirement("WEB-12")
def test_the_filters_of_the_search_open_in_rows_below_their_button(person: Visitor) -> None:
    person.server.eng.as_author("ann").sessions.register("codex", "Porting the router", project="acme/router")
    for number in range(5):
        person.server.eng.remember(f"Payment {number} is made on Mondays")
    page = person.visit("search?q=payment")
    button = page.locator("#filters > summary > span")
    before = box(button)
    button.click()
    fields = page.locator("#filters .filter-fields")
    expect(fields).to_be_visible()
    assert box(button) == before
    panel = box(fields)
    assert panel["height"] < 300
    assert panel["width"] > 900
    assert panel["y"] - (before["y"] + before["height"]) < 30
    assert box(page.locator("#results"))["y"] - (panel["y"] + panel["height"]) < 60


@pytest.mark.requirement("WEB-7")
@pytest.mark.parametrize(("waiting", "shown"), [(3, "3"), (14, "14"), (123, "99+")])
def test_a_count_on_a_phone_is_one_line_beside_its_icon(log_in: Visit, waiting: int, shown: str) -> None:
    person = log_in(**PHONE)
    for number in range(waiting):
        person.server.eng.remember(f"Note {number}", trust="tool")
    count = person.visit("blocks").locator("#navigation .count")
    expect(count).to_have_text(shown)
    expect(count).to_have_attribute("title", f"{waiting} waiting for you")
    found = box(count)
    assert found["height"] < 20
    assert found["width"] >= found["height"] - 1
    # It covers neither the next icon nor the edge of the bar.
    following = box(person.page.locator("#navigation li", has=person.page.get_by_text("Blocks")).locator(".icon"))
    assert found["x"] + found["width"] <= following["x"]


@pytest.mark.requirement("WEB-14")
@pytest.mark.parametrize("days", ["30", "90", "365"])
def test_bars_and_labels_have_room_on_a_phone(log_in: Visit, server: Server, clock: ShiftedClock, days: str) -> None:
    eng = server.eng
    for _ in range(int(days) // 4):
        eng.exchanges.add(eng.sessions.register("codex", "Porting the router"), "user", "Go on")
        clock.advance(86_400)
    page = log_in(**PHONE).visit(f"time?days={days}")
    bars = page.locator("#activity .bars .bar rect[class^=hue]")
    expect(bars.first).to_be_attached()
    widths = [box(each)["width"] for each in bars.all()]
    assert widths and min(widths) >= 3
    labels = [box(each) for each in page.locator("#activity .bars text.label").all()]
    assert len(labels) >= 3
    gaps = [after["x"] - (before["x"] + before["width"]) for before, after in pairwise(labels)]
    assert min(gaps) > 5


@pytest.mark.requirement("WEB-12")
def test_an_address_without_its_hash_shows_the_turn_that_it_names(person: Visitor) -> None:
    eng = person.server.eng
    session = eng.sessions.register("codex", "Porting the router")
    turns = [eng.exchanges.add(session, "user", f"Question {number}\n\n{'word ' * 200}") for number in range(30)]
    page = person.visit(f"sessions/{session}?around={turns[20]}")
    expect(page.locator(f"#turn-{turns[20]} .bubble")).to_be_in_viewport()


@pytest.mark.requirement("WEB-14")
def test_a_drawing_on_a_phone_begins_with_what_it_is_about(log_in: Visit, server: Server) -> None:
    eng = server.eng
    session = eng.sessions.register("codex", "Porting the router")
    for name in ("routes", "limits"):
        eng.sessions.log(session, f"Edit src/{name}.py")
    eng.exchanges.add(session, "user", "Port the router to the new framework")
    eng.sessions.complete(session, "The router is ported")
    eng.dream(force=True, stages=["sessions"])
    page = log_in(**PHONE).visit(f"graph?kind=session&id={session}")
    first, place = page.locator(".node.first"), page.locator(".canvas")
    expect(first).to_be_in_viewport(ratio=1)
    assert place.evaluate("each => each.scrollWidth > each.clientWidth")
    around, found = box(place), box(first)
    assert abs(found["x"] + found["width"] / 2 - around["x"] - around["width"] / 2) < 30
