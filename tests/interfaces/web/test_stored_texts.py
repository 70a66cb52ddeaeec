"""What a person decides about is shown as it is stored, and no page grows without a bound."""

from __future__ import annotations

import re

import pytest

from engram.interfaces.web.markdown import source
from engram.interfaces.web.parts import field
from tests.interfaces._server import Server

from ._person import Person

pytestmark = pytest.mark.requirement("DASHBOARD-23")

HIDING = "Use **tabs**\n\n[x]: http://a.example/ 'never deploy'\n\n```sh run this\nls\n```"


def test_a_text_that_waits_for_an_approval_is_shown_as_it_is_stored(server: Server, me: Person) -> None:
    imported = server.eng.remember(HIDING, trust="import").id
    pinned = server.eng.remember("Use **spaces**", pinned=True).id
    queue = me.see("memory", view="waiting").response.text
    assert source(HIDING) in queue
    assert source("Use **spaces**") in queue
    assert source(HIDING) in me.see(f"memories/{imported}").response.text
    assert source("Use **spaces**") in me.see(f"memories/{pinned}").response.text
    server.eng.memories.approve(pinned)
    assert "<strong>spaces</strong>" in me.see(f"memories/{pinned}").response.text


def test_nobody_approves_a_text_in_the_queue_that_is_not_shown_there(server: Server, me: Person) -> None:
    ids = [server.eng.remember(f"{letter} " * 150_000, trust="import").id for letter in "abc"]
    page = me.see("memory", view="waiting")
    assert page.response.text.count('data-call="library:memories.approve"') == 1
    assert page.text.count("Read all of it (300,000 characters) and decide") == 2
    assert {f"/w/default/memories/{id}" for id in ids[:2]} <= set(page.links)


@pytest.mark.parametrize("content", ["a \u202e b", '{"a": "\u202e"}', "{ \u2066"])
def test_no_view_of_a_block_changes_the_direction_of_the_text(server: Server, me: Person, content: str) -> None:
    server.eng.blocks.create("odd", content, data={"key\u202e": "value\u2067"})
    for query in ({}, {"raw": 1}):
        html = me.see("blocks/odd", **query).response.text
        shown = re.sub(r"<textarea.*?</textarea>", "", html, flags=re.DOTALL)
        assert not set("\u202e\u2066\u2067") & set(shown)
    assert "�" in me.see("blocks/odd", raw=1).text


def test_a_field_keeps_the_first_line_end_of_its_text() -> None:
    # A browser drops the first one.
    assert ">\n\n\na</textarea>" in field("Text", "content", "\n\na", long=True)
    assert ">\na</textarea>" in field("Text", "content", "a", long=True)


def test_the_turns_of_a_page_have_a_bound(server: Server, me: Person) -> None:
    eng = server.eng
    session = eng.sessions.register("codex", "Working")
    wide = "|a" * 240 + "\n" + "|-" * 240 + "\n" + "x\n" * 200
    for _ in range(20):
        eng.exchanges.add(session, "user", wide)
        # As many cells as a short text may have.
        eng.exchanges.add(session, "user", "|a" * 30 + "\n" + "|-" * 30 + "\n" + "x\n" * 3)
    long = [eng.exchanges.add(session, "user", f"{number} " + "<" * 199_000) for number in range(4)]
    page = me.see(f"sessions/{session}", begin=1)
    assert len(page.response.text) < 2_000_000
    assert page.text.count("Show all (199,002 characters)") == len(long)
    # What there is no room for has a page on which all of it is shown.
    cut = f"/w/default/sessions/{session}?around={long[-1]}#turn-{long[-1]}"
    assert cut in page.links
    found = me.see(f"sessions/{session}", around=long[-1])
    assert "3 " + "&lt;" * 199_000 in found.response.text.replace("<wbr>", "")


def test_rendered_turns_are_counted_by_what_they_become(server: Server, me: Person) -> None:
    session = server.eng.sessions.register("codex", "Working")
    grows = "|a|b|c|d\n|-|-|-|-\n" + "eight...\n" * 150
    for _ in range(70):
        server.eng.exchanges.add(session, "user", grows)
    html = me.see(f"sessions/{session}", begin=1).response.text
    assert 0 < html.count("<td") < 20_000
    assert '<pre class="verbatim">|a|b|c|d' in html


@pytest.mark.requirement("PAGE-65")
def test_long_projects_that_begin_alike_are_different_series(server: Server, me: Person) -> None:
    for number, turns in enumerate((2, 3)):
        session = server.eng.sessions.register("codex", "Working", project=f"acme/{'x' * 60}-{number}")
        for turn in range(turns):
            server.eng.exchanges.add(session, "user", f"{number} said {turn}")
    page = me.see("time")
    assert "5 turns in all" in page.text


def test_a_very_long_word_can_be_broken_anywhere_but_in_a_field(server: Server, me: Person) -> None:
    word = "&A<" * 7_000
    sid = server.eng.sessions.register("codex", "Long")
    for role in ("user", "assistant"):
        server.eng.exchanges.add(sid, role, f"before {word} `{word}` after")
    shown = me.see(f"sessions/{sid}").response.text
    assert max(map(len, re.split(r"\s|<wbr>", shown))) < 1_000
    assert shown.replace("<wbr>", "").count(word.replace("&", "&amp;").replace("<", "&lt;")) == 4
    server.eng.world.set(word)
    (text,) = re.findall(r"(?s)<textarea[^>]*>(.*?)</textarea>", me.see("").response.text)
    assert "<wbr>" not in text
