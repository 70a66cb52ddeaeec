"""The page Portrait."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from engram import Engram, config
from engram.interfaces.web import portrait as portrait_page
from engram.interfaces.web.markdown import markdown
from tests._passes import talk
from tests.conftest import ShiftedClock
from tests.interfaces._server import Server, serving

from ._person import Person, person

pytestmark = pytest.mark.requirement("PAGE-64")


@pytest.fixture
def server(sqlite_url: str, clock: ShiftedClock) -> Iterator[Server]:
    settings = config.load(url=sqlite_url, dream_min_age=0)
    with Engram(sqlite_url, clock=clock, settings=settings) as eng, serving(eng) as server:
        yield server


@pytest.fixture
def eng(server: Server) -> Engram:
    return server.eng


@pytest.fixture
def admin(server: Server) -> Iterator[Person]:
    with person(server) as someone:
        yield someone


def test_each_line_links_its_sources_and_the_pass_that_wrote_it_is_named(eng: Engram, admin: Person) -> None:
    memory = eng.remember("The user prefers tea.", kind="preference")
    session = talk(eng)
    eng.sessions.complete(session, "done")
    (report,) = eng.dream(force=True)
    gist = eng.memories.gist(session)
    assert gist is not None
    page = admin.see("portrait")
    assert "The user prefers tea." in page.text
    assert f"[m{memory.id}]" not in page.text
    assert f"/w/default/memories/{memory.id}" in page.links
    assert f"/w/default/memories/{gist.id}" in page.links
    assert f"Written by pass {report.id}" in page.text
    assert f"/w/default/dreams/{report.id}" in page.links
    assert "/w/default/blocks/profile" in page.links
    (month,) = report.eras
    assert month in page.text


def test_a_text_of_a_person_is_theirs_and_what_a_pass_would_write_waits_there(eng: Engram, admin: Person) -> None:
    eng.remember("The user prefers tea.", kind="preference")
    eng.dream(force=True)
    eng.blocks.update("profile", "I like coffee.", reason="mine")
    eng.remember("The user prefers green tea in the morning.", kind="preference")
    eng.dream(force=True)
    (proposal,) = eng.proposals.list(what="rewrite")
    page = admin.see("portrait")
    assert "I like coffee." in page.text
    assert "Passes do not replace this text." in page.text
    assert f'id="proposal-{proposal.id}"' in page.response.text
    assert "<del>I like coffee.</del>" in page.response.text


def test_a_turn_that_a_line_names_leads_to_its_session(eng: Engram, admin: Person) -> None:
    session = talk(eng, "I live in Bern.")
    (turn,) = eng.exchanges.history(session)
    eng.blocks.create("profile", f"- The user lives in Bern. [e{turn.id}]\n- Somebody said this. [e999]")
    page = admin.see("portrait")
    assert any(each.startswith(f"/w/default/sessions/{session}?around={turn.id}") for each in page.links)
    assert "[e999]" in page.text


def test_a_reflection_is_shown_as_mood_energy_and_text(eng: Engram, admin: Person) -> None:
    kept = {
        "mood": "curious",
        "energy": 0.7,
        "narrative": "I am learning.",
        "reflections": [{"at": "2026-01-02", "text": "A day."}],
    }
    eng.blocks.create("self", json.dumps(kept))
    text = admin.see("portrait").text
    for each in ("How the companion sees itself", "curious", "Energy 70%", "I am learning.", "A day."):
        assert each in text
    eng.blocks.update("self", "Just words, {not JSON}.")
    assert "Just words, {not JSON}." in admin.see("portrait").text


def test_months_are_shown_newest_first_and_in_pages(
    eng: Engram, admin: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portrait_page, "_ERAS", 2)
    for month in ("2026-01", "2026-02", "2026-03"):
        eng.eras.store(month, f"The month {month} was long.", 3)
    page = admin.see("portrait")
    assert page.text.index("The month 2026-03") < page.text.index("The month 2026-02")
    assert "The month 2026-01" not in page.text
    assert "The month 2026-01" in admin.see("portrait", before="2026-02").text


def test_an_empty_portrait_says_what_would_fill_it(admin: Person) -> None:
    page = admin.see("portrait")
    assert page.status == 200
    assert "Nothing is known about you yet." in page.text
    assert "companion" not in page.text


def test_sources_in_markdown_become_links_only_where_they_have_an_address() -> None:
    def address(handle: str) -> str | None:
        return f"/m/{handle}" if handle.startswith("m") else None

    shown = markdown("- Tea [m1, m22]\n- `[m3]` code, [m4](https://x.example) and [e5]", address)
    assert [f'href="/m/m{number}"' in shown for number in (1, 22, 3, 4)] == [True, True, False, False]
    assert "[e5]" in shown
    assert 'href="https://x.example"' in shown
    assert markdown("Tea [m1]") == '<div class="prose"><p>Tea [m1]</p>\n</div>'
