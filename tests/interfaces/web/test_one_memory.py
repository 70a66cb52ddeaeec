"""The page of one memory."""

from __future__ import annotations

import re

import pytest

from engram.interfaces.web.diffs import Budget
from engram.interfaces.web.marks import difference
from tests.conftest import ShiftedClock
from tests.interfaces._server import Server

from ._person import Person, person


@pytest.mark.requirement("DASHBOARD-22")
def test_a_memory_shows_what_is_known_about_it(server: Server, me: Person) -> None:
    eng = server.eng
    session = eng.sessions.register("codex", "Choosing a port")
    turn = eng.exchanges.add(session, "user", "Use 6543 for staging")
    id = (
        eng.as_author("ann")
        .remember(
            "Staging uses **6543**",
            kind="fact",
            key="staging-port",
            tags=["net"],
            importance=0.8,
            project="acme/shop",
            session_id=session,
            sources=[("exchange", turn)],
        )
        .id
    )
    page = me.see(f"memories/{id}")
    assert page.status == 200
    assert "<strong>6543</strong>" in page.response.text
    for shown in ("fact", "staging-port", "net", "0.80", "acme/shop", "ann", "Use 6543 for staging"):
        assert shown in page.text
    wanted = {
        f"/w/default/sessions/{session}",
        f"/w/default/sessions/{session}?around={turn}#turn-{turn}",
        f"/w/default/graph?kind=memory&id={id}",
    }
    assert wanted <= set(page.links)


@pytest.mark.requirement("DASHBOARD-22")
def test_the_history_tells_what_happened_in_order(server: Server, me: Person, clock: ShiftedClock) -> None:
    eng = server.eng
    id = eng.remember("The port is 5432", kind="fact", key="port").id
    clock.advance(60)
    eng.memories.update(id, "The port is 6543", reason="moved to the pooler", by_person=True)
    clock.advance(60)
    eng.memories.update(id, pinned=True, by_person=True)
    clock.advance(60)
    other = eng.remember("The port is 7000", kind="fact", key="port", by_person=True).id
    page = me.see(f"memories/{id}")
    strip = page.text[page.text.index("History") :]
    told = ["made", "edited, version 2", "pinned", f"replaced by memory {other}"]
    places = [strip.index(each) for each in told]
    assert places == sorted(places)
    assert "moved to the pooler" in strip
    assert "<del>5432</del><ins>6543</ins>" in page.response.text
    assert f"/w/default/memories/{other}" in page.links
    # And the other way round.
    later = me.see(f"memories/{other}")
    assert "Replaces" in later.text
    assert f"/w/default/memories/{id}" in later.links


@pytest.mark.requirement("DASHBOARD-22")
def test_linked_and_derived_memories_are_shown(server: Server, me: Person) -> None:
    eng = server.eng
    id = eng.remember("The fence is green").id
    linked = eng.remember("The gate is green").id
    derived = eng.remember("All of the garden is green", sources=[("memory", id)]).id
    eng.memories.link(id, linked, "same colour as")
    page = me.see(f"memories/{id}")
    assert "same colour as" in page.text
    assert {f"/w/default/memories/{linked}", f"/w/default/memories/{derived}"} <= set(page.links)
    assert "The fence is green" in me.see(f"memories/{derived}").text


@pytest.mark.requirement("DASHBOARD-22")
def test_the_forgotten_text_of_a_version_is_not_compared(server: Server, me: Person) -> None:
    eng = server.eng
    session = eng.sessions.register("codex", "Working")
    turn = eng.exchanges.add(session, "user", "My number is 4711")
    first = eng.remember("The number is 4711", sources=[("exchange", turn)]).id
    eng.memories.update(first, "The number is kept elsewhere")
    eng.forget(exchange=turn)
    page = me.see(f"memories/{first}")
    assert "4711" not in page.text


@pytest.mark.requirement("DASHBOARD-23")
def test_each_scope_is_offered_what_it_may_do(server: Server) -> None:
    id = server.eng.remember("The fence is green").id
    with person(server, "admin") as admin, person(server, "write") as writer, person(server, "read") as reader:
        full = admin.see(f"memories/{id}").response.text
        for call in ("library:memories.update", "library:memories.approve", "memory.archive", "forget"):
            assert f'data-call="{call}"' in full
        some = writer.see(f"memories/{id}").response.text
        assert 'data-call="memory.update"' in some
        assert 'data-call="memory.archive"' in some
        assert "approve" not in some
        assert "forget" not in some
        assert "data-call" not in reader.see(f"memories/{id}").response.text
        server.eng.memories.archive(id)
        server.eng.memories.approve(id)
        assert "library:memories.withdraw" in admin.see(f"memories/{id}").response.text
        assert 'data-call="memory.unarchive"' in writer.see(f"memories/{id}").response.text


@pytest.mark.requirement("DASHBOARD-23")
def test_an_unknown_or_forgotten_memory_is_told_inside_the_frame(server: Server, me: Person) -> None:
    gone = server.eng.remember("The fence is green").id
    server.eng.forget(memory=gone)
    for id in (gone, 999_999):
        page = me.see(f"memories/{id}")
        assert page.status == 404
        assert "This is not here" in page.text
        assert "nav" in page.elements
    assert me.see("memories/twelve").status == 400


@pytest.mark.requirement("DASHBOARD-23")
def test_hostile_text_in_a_memory_is_text(server: Server, me: Person) -> None:
    evil = '<img src=x onerror=alert(1)>"><script>alert(2)</script>'
    id = server.eng.remember(evil, kind="<i>", tags=["<u>"], data={"note": evil}).id
    server.eng.memories.update(id, f"{evil} again", reason=evil)
    page = me.see(f"memories/{id}")
    assert page.status == 200
    assert page.elements.count("script") == 2
    assert not {"img", "i", "u"} & set(page.elements)
    assert "onerror" not in page.attributes


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ("a b", "a c", "a <del>b</del><ins>c</ins>"),
        ("a", "a", "a"),
        ("", "<b>", "<ins>&lt;b&gt;</ins>"),
        ("one two three", "one three", "one <del>two </del>three"),
    ],
)
def test_a_difference_shows_what_went_and_what_came(old: str, new: str, shown: str) -> None:
    assert difference(old, new) == f'<div class="difference">{shown}</div>'


def test_versions_of_any_length_are_compared_in_short_time_or_not_at_all() -> None:
    words = " ".join(f"w{number}" for number in range(40_000))
    assert "<ins>" in difference(words, f"{words}!")
    lines = "\n".join(map(str, range(4_000)))
    assert difference(lines, f"{lines}\n1").endswith("3999<ins>\n1</ins></div>")
    assert "too long" in difference("a " * 500_000, "b " * 500_000)


def test_texts_that_have_only_white_space_in_common_are_one_change() -> None:
    old, new = (" ".join(f"{letter}{number}" for number in range(745)) for letter in "ab")
    assert difference(old, new) == f'<div class="difference"><del>{old}</del><ins>{new}</ins></div>'
    assert difference("a\nb c", "a b  c") == (
        '<div class="difference">a<del>\n</del><ins> </ins>b<del> </del><ins>  </ins>c</div>'
    )


def test_all_versions_of_a_page_share_one_budget() -> None:
    budget = Budget()
    old, new = "a " * 990, "a b " * 495
    shown = [difference(old, new, budget) for _ in range(30)]
    assert budget.pairs >= 0
    # The first are compared word by word; for the last, nothing is left.
    assert shown[0].count("<ins>") > 100
    assert shown[-1].count("<ins>") == 1
    long = ["x" * 90_000 for _ in range(12)]
    assert sum(len(difference(each, f"{each}y", budget)) for each in long) < 1_000_000


@pytest.mark.requirement("DASHBOARD-23")
def test_a_memory_whose_text_was_forgotten_says_so_everywhere_and_offers_only_what_makes_sense(
    server: Server, me: Person
) -> None:
    eng = server.eng
    session = eng.sessions.register("codex", "Choosing a port")
    turn = eng.exchanges.add(session, "user", "Use port 4711 for staging")
    eng.exchanges.add(session, "user", "Thank you")
    eng.sessions.complete(session, "done")
    eng.with_settings(dream_min_age=0).dream(force=True, stages=["sessions"])
    gist = eng.memories.gist(session)
    assert gist is not None
    gone = gist.id
    made = eng.remember("Staging is described elsewhere", sources=[("memory", gone)]).id
    kept = eng.remember("The fence is green").id
    receipt = eng.forget(exchange=turn).id
    assert eng.memories.get(gone).content == ""
    page = me.see(f"memories/{gone}")
    assert f"The text was forgotten ( receipt {receipt} )." in page.text
    assert "/w/default/system#receipts" in page.links
    assert f"made, the text forgotten since (receipt {receipt})" in page.text
    offered = set(re.findall(r'data-call="([^"]+)"', page.response.text))
    assert offered == {"memory.archive", "forget"}
    assert "Edit" not in page.text
    full = set(re.findall(r'data-call="([^"]+)"', me.see(f"memories/{kept}").response.text))
    assert {"library:memories.update", "library:memories.approve"} <= full
    for path, query in (("memory", {"view": "all", "kind": "gist"}), ("search", {"kind": "gist"})):
        assert "(the text was forgotten)" in me.see(path, **query).text, path
    assert ("memory", gone) in eng.memories.sources(made)
    assert "(the text was forgotten)" in me.see(f"memories/{made}").text.partition("Made from")[2]
    about = me.see(f"sessions/{session}")
    assert f"Its gist is memory {gone} . The text was forgotten ( receipt {receipt} )." in about.text
    assert "engram dream" not in about.text


@pytest.mark.requirement("DASHBOARD-22")
def test_a_month_is_a_list_and_what_is_open_another_one(server: Server, me: Person) -> None:
    text = "2026-02: 2 sessions.\n2026-02-07, shop: a\nStill open:\n- 2026-02-07, shop: b"
    era = server.eng.eras.store("2026-02", text, 2)
    page = me.see(f"memories/{era.id}").response.text
    assert page.count("<li>2026-02-07, shop:") == 2
    assert "<p>Still open:</p>" in page
    assert "<h1>February 2026</h1>" in page


@pytest.mark.requirement("DASHBOARD-22")
def test_a_memory_is_headed_by_its_first_words(server: Server, me: Person) -> None:
    memory = server.eng.remember(f"**Deploys** never happen on Fridays{', nor on Sundays' * 20}")
    page = me.see(f"memories/{memory.id}").response.text
    assert "<h1>Deploys never happen on Fridays, nor on Sundays, nor on" in page
    assert f">Memory {memory.id}<" in page
