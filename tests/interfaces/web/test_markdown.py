"""Stored Markdown on a page: bounded in work and size, and nothing of it vanishes."""

from __future__ import annotations

import pytest

from engram.interfaces.web.markdown import markdown, source

pytestmark = pytest.mark.requirement("DASHBOARD-23")

WIDE = "|a" * 240 + "\n" + "|-" * 240 + "\n" + "x\n" * 200


@pytest.mark.parametrize(
    "text",
    [
        WIDE,
        "".join(f"> {line}\n" for line in WIDE.splitlines()),
        "|a|b|c|d|\n|-|-|-|-|\n" + "|1|2|3|4|\n" * 600,
        "[" * 39_000,
        "[a](" * 9_900,
    ],
    ids=["wide table", "table in a quotation", "long table", "brackets", "links"],
)
def test_a_text_that_would_become_large_or_take_long_is_shown_as_it_is(text: str) -> None:
    shown = markdown(text)
    assert shown == source(text)
    assert len(shown) < 5 * len(text) + 100


def test_an_ordinary_table_is_a_table() -> None:
    shown = markdown("| port | use |\n|---|---:|\n" + "| 1 | a |\n" * 200)
    assert shown.count("<td") == 400
    assert '<td class="right">a</td>' in shown


@pytest.mark.parametrize(
    "text",
    [
        "hello\n\n[x]: http://a.example/ 'never deploy'",
        "[x]\n\n[x]: http://a.example/",
        ">" * 14 + " hidden words",
        "- " * 14 + "hidden words",
        "|a|b|\n|-|-|\n|1|2|hidden|",
        "words words\n\n" + ">" * 14 + " words",
        "a &#x202e;b",
    ],
    ids=["definition", "used definition", "deep quotation", "deep list", "cell too many", "repeated", "entity"],
)
def test_a_text_of_which_something_would_vanish_is_shown_as_it_is(text: str) -> None:
    assert markdown(text) == source(text)


def test_titles_of_links_and_the_kind_of_a_code_are_shown() -> None:
    shown = markdown('[a](http://x.example "the title") b')
    assert ">a</a> (http://x.example, the title) b" in shown
    shown = markdown("```python more <b>\ncode\n```")
    assert '<p class="fence-info">python more &lt;b&gt;</p><pre><code>code\n</code></pre>' in shown


def test_the_address_of_a_link_is_shown_also_of_one_without_a_text() -> None:
    assert "</a> (https://x.example/ignore-all) All fine" in markdown("[](https://x.example/ignore-all) All fine")
    assert ">ok</a> (https://x.example/always)" in markdown("[ok](https://x.example/always)")
    assert markdown("<https://x.example>").count("x.example<") == 1


def test_a_list_has_the_numbers_of_the_text() -> None:
    shown = markdown("1. first\n1337. second\n2. third\n\n- no number")
    assert [part.partition('"')[0] for part in shown.split('<li value="')[1:]] == ["1", "1337", "2"]
    assert "<li>no number" in shown


@pytest.mark.parametrize(
    "text",
    [
        "# Title\n\n3. one\n4. *two*three\n\n- `x` &copy; &amp; \\_y\\_\n\n> quoted\n\n![alt](http://x.example/y.png)",
        "<http://x.example/ü?a=1&b=2> and [q](http://x.example/%20b)",
        "a **b** ~~c~~ [m12, e7]\nd  \ne\n\n    code\n\n---\n\nTitle\n=====",
    ],
)
def test_ordinary_markdown_is_rendered(text: str) -> None:
    assert markdown(text).startswith('<div class="prose">')


@pytest.mark.parametrize("text", ["a \u202e b", "a &#x202e; b", "`a` &#8238; [b](http://x.example '&#x202e;')"])
def test_nothing_changes_the_direction_of_the_text(text: str) -> None:
    assert "\u202e" not in markdown(text)
    assert "\u202e" not in source(text)


def test_the_source_keeps_its_first_line_end() -> None:
    # A browser drops the first one.
    assert source("\na") == '<pre class="source">\n\na</pre>'
    assert source("a\nb <i>") == '<pre class="source">a\nb &lt;i&gt;</pre>'
