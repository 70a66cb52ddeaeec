"""The page Search."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import unescape
from typing import TYPE_CHECKING

import numpy as np
import pytest

from engram import Engram
from engram.interfaces.web.marks import marked, spelled
from tests.conftest import ShiftedClock
from tests.interfaces._browser import Page
from tests.interfaces._server import Server, serving

from ._person import Person, person

if TYPE_CHECKING:
    from engram.embedding.protocol import Vectors


def passages(page: Page) -> list[str]:
    """The texts of the hits, in their order, without the marks."""
    found = page.response.text.split('<p class="passage">')[1:]
    texts = [each.partition("</p>")[0].replace("<mark>", "").replace("</mark>", "") for each in found]
    return [unescape(each) for each in texts]


@pytest.mark.requirement("DASHBOARD-20")
def test_a_question_finds_memories_and_turns_with_the_words_marked(server: Server, me: Person) -> None:
    session = server.eng.sessions.register("codex", "Preparing the release", project="acme/shop")
    server.eng.exchanges.add(session, "user", "We deployed the shop on Monday")
    memory = server.eng.remember("Deployments never happen on Fridays", kind="preference").id
    page = me.see("search", q="when do we deploy?")
    assert page.status == 200
    assert set(passages(page)[:2]) == {"We deployed the shop on Monday", "Deployments never happen on Fridays"}
    assert "<mark>deployed</mark>" in page.response.text
    assert "<mark>Deployments</mark>" in page.response.text
    assert "by the word deploy" in page.text
    assert f"/w/default/memories/{memory}" in page.links
    turn = server.eng.exchanges.history(session)[0].id
    assert f"/w/default/sessions/{session}?around={turn}#turn-{turn}" in page.links
    assert "Preparing the release" in page.text
    assert "acme/shop" in page.text
    # Looking around is not recalling.
    assert server.eng.memories.get(memory).recalled == 0


@pytest.mark.requirement("DASHBOARD-20")
def test_a_result_says_whether_its_words_are_its_own_or_those_of_its_neighbours(server: Server, me: Person) -> None:
    session = server.eng.sessions.register("codex", "Working")
    for text in ("The startup is slow.", "The cloud blocks it.", "ok, fix it"):
        server.eng.exchanges.add(session, "user", text)
    page = me.see("search", q="slow cloud startup", k="10")
    reasons = re.findall(r"<summary>Found ([^<]+)</summary>", page.response.text)
    assert dict(zip(passages(page), reasons, strict=True)) == {
        "The startup is slow.": "by the words slow, startup; by cloud in neighbouring turns; by meaning, very close",
        "The cloud blocks it.": "by the word cloud; by slow, startup in neighbouring turns; by meaning, very close",
        "ok, fix it": "by cloud, slow, startup in neighbouring turns and by meaning",
    }


@pytest.mark.requirement("DASHBOARD-20")
def test_each_filter_leaves_out_what_does_not_fit_and_is_shown(server: Server, me: Person, clock: ShiftedClock) -> None:
    eng = server.eng
    shop = eng.sessions.register("codex", "Working", project="shop")
    blog = eng.sessions.register("codex", "Working", project="blog")
    eng.exchanges.add(shop, "user", "the port of staging, asked in the shop")
    eng.exchanges.add(blog, "assistant", "the port of staging, told in the blog")
    eng.as_author("ann").remember("the port of staging, a fact by ann", kind="fact", tags=["net"])
    eng.remember("the port of staging, a note", kind="note")
    clock.advance(3 * 86_400)
    eng.remember("the port of staging, a later note", kind="note")
    today = eng.now()[:10]

    def found(**filters: str) -> set[str]:
        page = me.see("search", q="port of staging", **filters)
        return {each.partition(", ")[2] for each in passages(page)}

    everything = {"asked in the shop", "told in the blog", "a fact by ann", "a note", "a later note"}
    assert found() == everything
    assert found(what="memories") == {"a fact by ann", "a note", "a later note"}
    assert found(what="turns") == {"asked in the shop", "told in the blog"}
    assert found(kind="fact") == {"a fact by ann"}
    assert found(role="user") == {"asked in the shop"}
    assert found(project="blog") == {"told in the blog"}
    assert found(session=shop[-8:]) == {"asked in the shop"}
    assert found(author="ann") == {"a fact by ann"}
    assert found(tags="net") == {"a fact by ann"}
    assert found(since=today) == {"a later note"}
    # The last day belongs to it.
    assert found(until=today) == everything
    page = me.see("search", q="port", kind="fact", project="shop")
    assert "kind fact" in page.text
    assert "project shop" in page.text
    assert "/w/default/search?q=port" in page.links


@pytest.mark.requirement("DASHBOARD-20")
def test_a_question_brings_its_answer_and_a_replaced_statement_what_replaced_it(server: Server, me: Person) -> None:
    eng = server.eng
    session = eng.sessions.register("codex", "Working")
    eng.exchanges.add(session, "user", "Which database does the billing service use?")
    answer = eng.exchanges.add(session, "assistant", "The billing service uses PostgreSQL 16 behind a pooler.")
    page = me.see("search", q="which database does the billing service use", role="user")
    assert "Answer" in page.text
    assert "PostgreSQL 16 behind a pooler" in page.text
    assert f"/w/default/sessions/{session}?around={answer}#turn-{answer}" in page.links
    old = eng.remember("The staging port is 5432", kind="fact", key="port").id
    new = eng.remember("The staging port is 6543", kind="fact", key="port").id
    page = me.see("search", q="staging port", archived="1")
    assert "No longer holds: replaced by" in page.text
    assert {f"/w/default/memories/{old}", f"/w/default/memories/{new}"} <= set(page.links)


@pytest.mark.requirement("DASHBOARD-20")
def test_unlikely_results_are_folded_and_more_can_be_asked_for(server: Server, me: Person) -> None:
    for number in range(45):
        server.eng.remember(f"Parcel {number} went to the warehouse")
    first = me.see("search", q="parcel warehouse")
    assert "20 results" in first.text
    more = next(each for each in first.links if "k=40" in each)
    assert more.startswith("/w/default/search?q=parcel+warehouse")
    assert "40 results" in me.see("search", q="parcel warehouse", k="40").text
    assert me.see("search", q="parcel", k="1000").status == 400
    nothing = me.see("search", q="zebra crossing elephants")
    assert "No likely result." in nothing.text


@pytest.mark.requirement("DASHBOARD-20")
@pytest.mark.parametrize(
    "query", ["the of and", "🦊🚀", "?!", "x" * 10_000, "word " * 2_000, "' OR 1=1 --", "\x00", "漢字"]
)
def test_any_text_can_be_asked(server: Server, me: Person, query: str) -> None:
    server.eng.remember("The fox jumps over the fence 🦊 in 漢字")
    page = me.see("search", q=query)
    assert page.status in (200, 400)
    assert page.elements.count("main") == 1
    assert "results" in page.response.text


@pytest.mark.requirement("DASHBOARD-20")
def test_a_wrong_filter_is_explained_beside_the_question(server: Server, me: Person) -> None:
    for wrong, told in (
        ({"since": "yesterday-ish"}, "since"),
        ({"session": "nobody"}, "nobody"),
        ({"role": "king"}, "king"),
    ):
        page = me.see("search", q="anything", **wrong)
        assert page.status in (400, 404)
        assert told in page.text
        assert 'value="anything"' in page.response.text


@pytest.mark.requirement("DASHBOARD-20")
def test_without_a_question_the_page_shows_what_came_last_within_the_filters(server: Server, me: Person) -> None:
    empty = me.see("search")
    assert "engram remember" in empty.text
    assert "engram install" in empty.text
    server.eng.sessions.register("codex", "Painting the fence", project="house")
    server.eng.sessions.register("codex", "Writing the book", project="desk")
    server.eng.remember("The fence is green", project="house")
    page = me.see("search")
    assert "Painting the fence" in page.text
    assert "Writing the book" in page.text
    assert "The fence is green" in page.text
    narrow = me.see("search", project="desk")
    assert "Writing the book" in narrow.text
    assert "Painting the fence" not in narrow.text
    assert "The fence is green" not in narrow.text


@pytest.mark.requirement("DASHBOARD-23")
def test_only_an_admin_is_offered_to_forget(server: Server) -> None:
    server.eng.remember("The cellar has a leak")
    with person(server, "admin") as admin, person(server, "read") as reader:
        assert 'data-call="forget"' in admin.see("search", q="cellar leak").response.text
        page = reader.see("search", q="cellar leak")
        assert passages(page) == ["The cellar has a leak"]
        assert "data-call" not in page.response.text


@pytest.mark.requirement("DASHBOARD-23")
def test_hostile_text_is_text(server: Server, me: Person) -> None:
    evil = '<img src=x onerror=alert(1)> "><script>alert(2)</script> leak'
    session = server.eng.sessions.register("codex", evil, project='<b>"p"')
    server.eng.exchanges.add(session, "user", evil)
    server.eng.remember(evil, kind="<i>", tags=["<u>"])
    page = me.see("search", q=f"leak {evil}", project='<b>"p"')
    assert page.status == 200
    assert passages(page) == [evil]
    assert not {"img", "b", "i", "u"} & set(page.elements)
    assert "onerror" not in page.attributes
    assert "onerror" not in me.see("search").attributes


class _Model:
    """A model that knows a single direction, until it fails."""

    name = "tests:model"
    dims = 3
    fails = False

    def embed(self, texts: Sequence[str]) -> Vectors:
        if self.fails:
            raise RuntimeError("The model is not reachable.")
        return np.array([[1.0, len(text) % 7, len(text) % 3] for text in texts], np.float32)


@pytest.mark.requirement("DASHBOARD-20")
def test_words_still_find_things_when_the_model_fails(sqlite_url: str) -> None:
    model = _Model()
    with Engram(sqlite_url, embedder=model) as eng, serving(eng) as server, person(server) as someone:
        eng.remember("The cellar has a leak")
        assert "Found by words only" not in someone.see("search", q="cellar").text
        model.fails = True
        page = someone.see("search", q="cellar")
        assert page.status == 200
        assert passages(page) == ["The cellar has a leak"]
        assert "Found by words only" in page.text


@pytest.mark.parametrize(
    ("text", "stems", "shown"),
    [
        ("Deployed happily", ["deploy", "happili"], "<mark>Deployed</mark> <mark>happily</mark>"),
        ("a happy city", ["happi", "citi"], "a <mark>happy</mark> <mark>city</mark>"),
        ("going to google", ["go"], "<mark>going</mark> to google"),
        ("src/userStore.py", ["store"], "src/user<mark>Store</mark>.py"),
        ("今日は雨", ["日は"], "<mark>今日は雨</mark>"),
        ("<b>bold</b>", ["bold"], "&lt;b&gt;<mark>bold</mark>&lt;/b&gt;"),
        ("nothing", [], "nothing"),
    ],
)
def test_words_are_marked_by_their_stems(text: str, stems: list[str], shown: str) -> None:
    assert marked(text, stems) == shown


def test_stems_are_shown_as_the_person_wrote_the_words() -> None:
    assert spelled(["databas", "deploy", "go"], "Which databases were deployed?") == ["databases", "deployed", "go"]


@pytest.mark.requirement("DASHBOARD-25")
def test_more_entries_do_not_take_more_reads(server: Server, me: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = type(server.eng._view.engine)
    read, counted = engine.read, []

    def counting(self: object, *given: object, **options: object) -> object:
        counted.append(self)
        return read(self, *given, **options)  # type: ignore[arg-type]

    def reads(path: str, **query: object) -> int:
        counted.clear()
        assert me.see(path, **query).status == 200
        return len(counted)

    def add(first: int, last: int) -> None:
        for number in range(first, last):
            session = server.eng.sessions.register("codex", f"Task {number}")
            server.eng.exchanges.add(session, "user", f"The port of service {number} is {number + 5000}")
            server.eng.remember(f"Service {number} was moved", session_id=session, trust="tool")

    monkeypatch.setattr(engine, "read", counting)
    pages = (("search", {"q": "port of service"}), ("memory", {"view": "waiting"}), ("memory", {"view": "all"}))
    add(0, 3)
    few = [reads(path, **query) for path, query in pages]
    add(3, 12)
    assert [reads(path, **query) for path, query in pages] == few


@pytest.mark.requirement("DASHBOARD-20")
def test_what_was_said_long_ago_is_not_the_latest_even_if_it_was_learnt_today(
    server: Server, me: Person, clock: ShiftedClock
) -> None:
    eng = server.eng
    new = eng.remember("The fence is green").id
    clock.advance(60)
    old = eng.remember("The gate is red", data={"said": "2020-03-02"}).id
    for path, query in (("search", {}), ("memory", {"view": "all"})):
        page = me.see(path, **query).response.text
        entry = page[page.index(f'/memories/{old}"') :].partition("</time>")[0]
        assert 'datetime="2020-03-02T12:00:00' in entry, path
        assert 'class="freshness fresh"' not in entry, path
    latest = me.see("search").response.text
    assert latest.index(f'/memories/{new}"') < latest.index(f'/memories/{old}"')
    # A person who approves it confirms it.
    eng.memories.approve(old)
    page = me.see("memory", view="all").response.text
    assert 'class="freshness fresh"' in page[page.index(f'/memories/{old}"') :].partition("</time>")[0]


@pytest.mark.requirement("DASHBOARD-20")
def test_the_latest_sessions_are_those_that_were_last_at_work(server: Server, me: Person, clock: ShiftedClock) -> None:
    eng = server.eng
    first = eng.sessions.register("codex", "Porting the router")
    clock.advance(60)
    second = eng.sessions.register("codex", "Adding limits")
    clock.advance(60)
    eng.exchanges.add(first, "user", "Go on")
    eng.sessions.heartbeat(first)
    page = me.see("search").response.text
    assert page.index(f'/sessions/{first}"') < page.index(f'/sessions/{second}"')


@pytest.mark.requirement("DASHBOARD-20")
def test_the_same_text_is_one_result_that_says_how_often_it_was_said(server: Server, me: Person) -> None:
    eng = server.eng
    session, other = (eng.sessions.register("codex", f"Task {number}") for number in range(2))
    turns = [eng.exchanges.add(each, "user", "Do not touch the migrations") for each in (session, other)]
    eng.exchanges.add(session, "user", "Do not touch the migrations of the shop")
    page = me.see("search", q="touch the migrations")
    assert sorted(passages(page)) == ["Do not touch the migrations", "Do not touch the migrations of the shop"]
    assert "said 2 times, also on" in page.text
    # Recall puts repeats last, behind what is not likely.
    eng.exchanges.add(other, "assistant", "Tea is better than coffee")
    eng.exchanges.add(eng.sessions.register("codex", "Task 3"), "user", "do not touch the migrations")
    page = me.see("search", q="touch the migrations")
    assert [each.casefold() for each in passages(page)].count("do not touch the migrations") == 1
    assert "said 3 times, also on" in page.text
    for place, turn in zip((session, other), turns, strict=True):
        assert f"/w/default/sessions/{place}?around={turn}#turn-{turn}" in page.links


@pytest.mark.requirement("DASHBOARD-20")
def test_examples_of_questions_are_names_of_sessions(server: Server, me: Person) -> None:
    assert 'class="example"' not in me.see("search").response.text
    for name in ("Fix the slow startup", "/review 12", "ok", "By hand, without a turn"):
        session = server.eng.sessions.register("codex", name)
        if "hand" not in name:
            server.eng.exchanges.add(session, "user", name)
    page = me.see("search").response.text
    assert re.findall(r'class="example"[^>]*>([^<]*)', page) == ["Fix the slow startup"]


@pytest.mark.requirement("DASHBOARD-20")
def test_a_word_with_a_capital_in_it_is_shown_as_it_was_typed() -> None:
    assert spelled(["specstori"], "When did SpecStory begin?") == ["SpecStory"]


@pytest.mark.requirement("DASHBOARD-20")
@pytest.mark.parametrize(
    ("filters", "why"),
    [
        ({"kind": "fact", "role": "user"}, "Only memories have kind"),
        ({"kind": "fact", "tags": "a", "what": "turns"}, "Only memories have kind and tags"),
        ({"role": "user", "what": "memories"}, "Only turns have a role"),
        ({"since": "2026-11-20", "until": "2026-11-01"}, "is after the time until which"),
    ],
)
def test_filters_that_no_result_can_meet_find_nothing_and_say_why(
    server: Server, me: Person, filters: dict[str, str], why: str
) -> None:
    session = server.eng.sessions.register("codex", "Preparing the release")
    server.eng.exchanges.add(session, "user", "We deployed the shop on Monday")
    server.eng.remember("Deployments never happen on Fridays", kind="fact", tags=["a"])
    page = me.see("search", q="when do we deploy?", **filters)
    assert passages(page) == []
    assert why in page.text


@pytest.mark.requirement("DASHBOARD-20")
def test_a_command_in_an_empty_workspace_is_about_that_workspace(server: Server, me: Person) -> None:
    server.eng.workspace("lab").world.set("Something")
    assert 'engram remember "Deploys never' in me.see("memory", view="all").text
    page = me.browser.visit("/w/lab/memory?view=all")
    assert 'engram --workspace lab remember "Deploys never' in page.text


@pytest.mark.requirement("DASHBOARD-20")
def test_a_tag_with_a_comma_is_a_filter_in_quotation_marks(server: Server, me: Person) -> None:
    memory = server.eng.remember("Alpha is ready", tags=["a,b"])
    server.eng.remember("Beta is ready", tags=["a", "b"])
    (link,) = [each for each in me.see(f"memories/{memory.id}").links if "tags=" in each]
    shown = me.browser.visit(f"{link}&q=ready")
    assert passages(shown) == ["Alpha is ready"]
    assert passages(me.see("search", q="ready", tags="a, b")) == ["Beta is ready"]
