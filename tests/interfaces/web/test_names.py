"""How pages name sessions, and how they show texts in one line."""

from __future__ import annotations

import pytest

from engram.gist_text import GistText, compose
from engram.interfaces.web.names import dated_list, lines, memory_line, plain, says_the_same, task
from tests.interfaces._browser import Browser
from tests.interfaces._server import Server

from ._person import Person, person

LOG = "✖  pkg/shop (13.238s)\n\n=== Skipped\n=== SKIP: pkg/cart TestCart (0.00s)\n    cart_test.go:23: no store\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "**Tests** run with `make test`, see [the docs](https://example.com/a)",
            "Tests run with make test, see the docs",
        ),
        ("## Decided\n- one\n- two", "Decided: one · two"),
        ("Asked:\n\n> why?", "Asked: why?"),
        ("It writes\n```json\n{}\n```", "It writes {}"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "a · b 1 · 2"),
        ("it's __init__ and src/**/*.py, 2**3", "it's __init__ and src/**/*.py, 2**3"),
        ("…## Summary\nfine", "Summary: fine"),
        ("a word " * 40, "a word a word a word a word…"),
    ],
)
def test_a_text_in_one_line_has_no_marks_of_markdown(text: str, shown: str) -> None:
    assert plain(text, 60 if len(text) < 120 else 30) == shown


@pytest.mark.parametrize(
    ("asked", "title"),
    [
        (LOG, "Pasted output: ✖ pkg/shop (13.238s)"),
        ('{"type": "user", "n": [1]}\nwhy does this line break the parser?', "why does this line break the parser?"),
        (
            '{"type": "user", "content": "cut off in the mid',
            'Pasted output: {"type": "user", "content": "cut off in the mid',
        ),
        ("/home/me/source/shop/.history/2026-01-31_14-47-58Z-look.md", "…/2026-01-31_14-47-58Z-look.md"),
        ("Fix src/a.py, then **push**", "Fix src/a.py, then push"),
        ("[urgent] the shop is down and customers complain", "[urgent] the shop is down and customers complain"),
        ("/review 12", "/review 12"),
        # Stores of earlier releases hold summaries with it.
        ("Implement the following plan: Plan: Move the cache", "Plan: Move the cache"),
        ("%", "%"),
        ("", ""),
    ],
)
def test_a_task_is_a_title_that_a_person_can_read(asked: str, title: str) -> None:
    assert task(asked) == title


def test_a_long_pattern_of_marks_takes_no_time() -> None:
    for each in ("[" * 5_000, "`" * 5_000, "**" * 2_500, "| " * 2_500, "# " * 2_500, "{" * 5_000):
        assert len(plain(each, 100)) <= 100
        assert len(task(each)) <= 200


def test_lines_stay_lines_without_marks() -> None:
    assert lines("## Changes\n\n- **one**\n\n| a | b |") == "Changes\n• one\na · b"


def test_a_gist_is_shown_by_its_title() -> None:
    assert memory_line("gist", compose(GistText("Moving the store", "Done")), 80) == "Moving the store"
    assert memory_line("note", "# no title", 80) == "no title"


def test_texts_that_only_repeat_each_other_are_recognised() -> None:
    assert says_the_same("Fix the **router**", "“fix the router.”")
    assert not says_the_same("", "anything")
    assert not says_the_same("Fix the router", "Fix the cart")


def test_the_days_of_a_month_become_a_list() -> None:
    assert (
        dated_list("2026-02: 2 sessions.\n2026-02-07, shop: a\nmore")
        == "2026-02: 2 sessions.\n- 2026-02-07, shop: a\nmore"
    )
    assert dated_list("2026-02-07, shop: a\nStill open:\n- b") == "- 2026-02-07, shop: a\n\nStill open:\n- b"


@pytest.mark.requirement("DASHBOARD-24")
def test_pages_name_a_session_by_its_gist(server: Server, me: Person) -> None:
    eng = server.eng
    session = eng.sessions.register("claude-code", "/review 12", project="acme/shop")
    eng.exchanges.add(session, "user", "Review the rate limits of the shop")
    turn = eng.exchanges.add(session, "assistant", "**Rate limits** are `100` a minute")
    eng.gists.store(session, compose(GistText("/review 12: Rate limits", "Reviewed")), turn)
    eng.remember("Rate limits are 100 a minute", session_id=session, trust="tool")
    eng.sessions.complete(session, "Reviewed")
    name = "/review 12: Rate limits"
    for path in ("search", "time", "graph", f"graph?kind=session&id={session}", "memory?view=waiting", ""):
        assert name in me.see(path).text, path
    found = me.see("search", q="rate limits of the shop")
    assert name in found.text
    assert "**" not in found.text


@pytest.mark.requirement("DASHBOARD-24")
def test_a_session_that_began_with_a_pasted_log_has_a_short_name(server: Server, me: Person) -> None:
    eng = server.eng
    session = eng.sessions.register("claude-code", " ".join(LOG.split()), project="acme/shop")
    eng.exchanges.add(session, "user", LOG)
    eng.exchanges.add(session, "user", "/exit")
    other = eng.sessions.register("codex", "**Review** the `cart`")
    eng.messages.send(session, "person", f"```\n{LOG * 10}\n```\n\n- **one**")
    eng.messages.send(other, "person", "Is it **done**?")
    now = me.see("")
    assert "Pasted output: ✖ pkg/shop (13.238s)" in now.text
    assert "=== SKIP" not in me.see("search").text
    assert "Review the cart" in now.text
    assert "<strong>done</strong>" in now.response.text
    # A command to the harness is no news.
    assert "/exit" not in now.text
    assert "Pasted output: ✖ pkg/shop (13.238s)" in me.see(f"sessions/{session}").text


@pytest.mark.requirement("DASHBOARD-24")
def test_what_only_repeats_the_task_is_left_out(server: Server, me: Person) -> None:
    eng = server.eng
    session = eng.sessions.register("codex", "Fix the router")
    turn = eng.exchanges.add(session, "user", "Fix the router")
    story = "The user asked: “Fix the router.”"
    eng.gists.store(session, compose(GistText("Fix the router", "", ("Not answered: “Fix the router.”",), story)), turn)
    eng.sessions.complete(session)
    assert me.see("time").text.count("Fix the router") == 1


def test_pasted_json_keeps_its_lines(server: Server, me: Person) -> None:
    eng = server.eng
    session = eng.sessions.register("codex", "Look at it")
    eng.exchanges.add(session, "user", 'Here it is:\n{\n  "a": {\n    "b": 1\n  }\n}\n- what is wrong?')
    page = me.see(f"sessions/{session}").response.text
    assert "<pre><code>{\n  &quot;a&quot;: {\n    &quot;b&quot;: 1\n  }\n}\n</code></pre>" in page
    assert "<li>what is wrong?</li>" in page


def test_the_profile_and_blocks_link_their_sources(server: Server, me: Person) -> None:
    eng = server.eng
    memory = eng.remember("Prefers tabs").id
    eng.blocks.create("profile", f"## Preferences\n- Prefers tabs [m{memory}]")
    for path in ("memory", "blocks/profile"):
        assert f"/w/default/memories/{memory}" in me.see(path).links, path
    assert f"[m{memory}]" not in me.see("blocks").text


@pytest.mark.requirement("WEB-18")
def test_the_writer_of_another_edit_is_named_as_a_person_knows_them(server: Server) -> None:
    eng = server.eng
    session = eng.sessions.register("codex", "Porting the router")
    nameless = eng.sessions.register("codex", "")
    with person(server) as someone:
        name = "a admin token"
        for author, actor, told in (
            (name, None, "you, in another window"),
            ("ann", None, "ann"),
            (None, None, "a person at this machine"),
            (name, session, "the session “Porting the router”"),
            (None, session, "the session “Porting the router”"),
            (None, nameless, "a session without a task"),
            (None, "dream", "dreaming"),
            (None, "<b>x</b>", "<b>x</b>"),
        ):
            given = {key: value for key, value in (("author", author), ("actor", actor)) if value}
            page = someone.see("writer", **given)
            assert page.text.partition("· Engram ")[2] == told
            assert "b" not in page.elements


@pytest.mark.requirement("DASHBOARD-60")
def test_the_last_event_of_an_agent_names_its_session(server: Server, me: Person) -> None:
    session = server.eng.sessions.register("codex", "Porting the router")
    server.eng.exchanges.add(session, "user", "Port the router")
    agents = me.see("system").response.text.partition('id="harnesses"')[2].partition("</section>")[0]
    assert "Porting the router" in agents
    assert f">{session[-8:]}<" not in agents


def test_a_token_for_another_workspace_is_told_where_its_pages_are(server: Server) -> None:
    server.eng.workspace("other").remember("The fence is green")
    with Browser(server.url) as browser:
        browser.submit(browser.visit("/login"), token=server.token("one", "admin", workspace="other"))
        page = browser.visit("/w/default/", site="same-origin")
    assert page.status == 403
    assert "Your token is for the workspace other only. Its pages are at /w/other/." in page.text
