"""The pages of an export: complete, linked, readable, and stored text stays in its place."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from engram import Engram, FileExists, InvalidInput
from engram.safe_text import lines
from engram.transfer.markdown_text import fenced, file_name, inline, link, passage, stamp
from tests.security import _hostile
from tests.security.test_ways_out import controls
from tests.transfer._comparing import opened

_LINK = re.compile(r"(?<!\\)\]\(([^)]*)\)")
#: The only HTML of the pages.
_ANCHOR = re.compile(r' <a id="(exchange-\d+)"></a>\Z')
_PAGE = re.compile(r"[a-z0-9./_-]+\.md(?:#((?:memory|exchange)-\d+|profile|narrative|self))?")
#: What stored text may become, by the rules of CommonMark with GitHub's tables and struck words.
_OF_TEXT = {
    *("blockquote_open", "blockquote_close", "paragraph_open", "paragraph_close", "inline", "text", "hardbreak"),
    *("fence", "strong_open", "strong_close", "link_open", "link_close"),
}
_OF_A_PAGE = {
    *(*_OF_TEXT, "heading_open", "heading_close", "softbreak", "html_inline"),
    *("bullet_list_open", "bullet_list_close", "list_item_open", "list_item_close"),
}
NASTY = (
    "---\ntitle: forged\n---\n# Forged heading\n```\nout of the fence\n```\n````text\n[click](javascript:alert(1))\n"
    "<script>alert(1)</script>\n~~~\n![x](javascript:alert(2))\n[ref]: javascript:alert(3)\n    indented\n| a | b |\n"
    "Setext\n======\n<javascript:alert(4)> **bold** `code` \\[x\\](y)\n"
)


def pages(folder: Path) -> dict[str, str]:
    return {str(file.relative_to(folder)): file.read_text(encoding="utf-8") for file in folder.rglob("*.md")}


def rendered(page: str) -> list[Token]:
    """The parts of a page, also those within others, as a viewer reads it."""

    def flat(tokens: Sequence[Token]) -> Iterator[Token]:
        for token in tokens:
            yield token
            yield from flat(token.children or [])

    return list(flat(MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(page)))


def words(text: str) -> str:
    """A text without spaces, and without the marks of headings, which a page shows in bold."""
    return re.sub(r"[\s#�]+", "", lines(text))


def shown(page: str) -> str:
    """The words of a page that a viewer shows."""
    return words("\n".join(each.content for each in rendered(page) if each.type in ("text", "fence")))


def outside_fences(page: str) -> list[str]:
    """The lines of a page that are not in a fence, by the rules of CommonMark for fences at the left margin."""
    lines, fence = [], ""
    for line in page.split("\n"):
        if fence:
            if line.startswith(fence) and not line.strip("` \t"):
                fence = ""
            continue
        begin = re.match(r"(`{3,})[^`]*$", line)
        if begin:
            fence = begin[1]
        else:
            lines.append(line)
    assert not fence, "a fence does not end"
    return lines


def anchors(page: str) -> set[str]:
    """What a link may lead to: the anchors of the turns and the headings, as GitHub names them."""
    headings = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    return {*re.findall(r'<a id="([^"]+)">', page), *(heading.lower().replace(" ", "-") for heading in headings)}


def require_sound(folder: Path) -> None:
    """Every page has only Engram's own structure outside of quotes and fences, and every link leads into the folder."""
    found = pages(folder)
    for name, page in found.items():
        assert page.startswith("# "), name
        assert controls(page) <= {"\t"}, name
        for line in outside_fences(page):
            assert not re.match(r" {0,3}(---|===|~~~|\||<|    )", line), (name, line)
            # A turn's anchor stands at the end of Engram's own line.
            own = _ANCHOR.sub("", line) if line.startswith("**") else line
            plain = re.sub(r"\\.", "", own)
            assert "<" not in plain and "`" not in plain and "![" not in plain, (name, line)
            # A bracket that is not escaped belongs to a link of Engram's own.
            assert plain.count("[") == len(_LINK.findall(plain)), (name, line)
            for target in _LINK.findall(line):
                match = _PAGE.fullmatch(target)
                assert match, (name, target)
                leads = os.path.normpath(os.path.join(os.path.dirname(name), target.partition("#")[0]))
                assert leads in found, (name, target)
                assert match[1] is None or match[1] in anchors(found[leads]), (name, target)
        depth = 0
        for part in rendered(page):
            assert part.type in _OF_A_PAGE, (name, part)
            assert part.type != "html_inline" or re.fullmatch(r'<a id="exchange-\d+">|</a>', part.content), (name, part)
            assert part.type != "link_open" or _PAGE.fullmatch(str(part.attrGet("href"))), (name, part)
            depth += part.nesting if part.type.startswith("blockquote") else 0
            assert not depth or part.type in _OF_TEXT, (name, part)


@pytest.mark.requirement("MOVE-12")
def test_everything_is_on_a_page_and_reachable_from_the_index(rich: Engram, tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    done = rich.export(folder, format="markdown", all_workspaces=True)
    found = pages(folder)
    assert done.counts == {"page": len(found)} and done.workspaces == ("default", "team")
    require_sound(folder)
    text = "\n".join(found.values())
    read = "".join(map(shown, found.values()))
    for memory in rich.memories.list(limit=0):
        assert words(memory.content) in read
    for session in rich.sessions.list(0):
        for turn in rich.exchanges.history(session.id, limit=1_000):
            assert words(turn.content) in read
    for version in (1, 2):
        assert rich.blocks.version("notes", version) in text
    assert "read the router" in text and "May I have the router?" in text and "Another workspace." in text
    reached, waiting = set(), ["index.md"]
    while waiting:
        page = waiting.pop()
        if page not in reached:
            reached.add(page)
            targets = _LINK.findall("\n".join(outside_fences(found[page])))
            waiting += [
                os.path.normpath(os.path.join(os.path.dirname(page), target.partition("#")[0])) for target in targets
            ]
    assert reached == found.keys()


@pytest.mark.requirement("MOVE-12")
def test_one_workspace_alone_has_no_page_of_another(rich: Engram, tmp_path: Path) -> None:
    rich.workspace("team").export(tmp_path / "pages", format="markdown")
    assert {name.partition("/")[0] for name in pages(tmp_path / "pages")} == {"index.md", "team"}


@pytest.mark.requirement("MOVE-12", "MOVE-7")
def test_stored_text_stays_in_its_place(tmp_path: Path) -> None:
    store = _hostile.fill(str(tmp_path / "store" / "engram.db"), "shop")
    with opened(store.url, embedder="none") as eng:
        session = eng.sessions.register("codex", NASTY)
        eng.exchanges.add(session, "user", NASTY, embed=False)
        eng.remember(NASTY, data={"x": NASTY}, embed=False)
        eng.remember(NASTY + "`" * 50, embed=False)
        eng.blocks.create("nasty", NASTY)
        eng.messages.send(None, session, NASTY)
        eng.export(tmp_path / "pages", format="markdown", all_workspaces=True)
    require_sound(tmp_path / "pages")
    everything = pages(tmp_path / "pages")
    assert sum(words(NASTY) in shown(page) for page in everything.values()) >= 4
    assert all(re.fullmatch(r"[a-z0-9_-]+(/[a-z0-9-]+)*\.md", name) for name in everything)


@pytest.mark.requirement("MOVE-12")
def test_the_pages_are_for_people(eng: Engram, tmp_path: Path) -> None:
    sid = eng.sessions.register("codex", "Porting the router: step 1")
    eng.exchanges.add(sid, "user", "Please port the zeppelin router to port 8080.", embed=False)
    eng.exchanges.add(sid, "assistant", "I ported router.py; its tests pass.", embed=False)
    eng.messages.send(sid, "person", "The zeppelin is ported.")
    eng.sessions.complete(sid, "Ported.")
    eng.dream(force=True)
    memory = eng.remember("Deploys on Mondays.", data={"words": ["kept"]}, embed=False)
    eng.export(tmp_path / "pages", format="markdown")
    found = pages(tmp_path / "pages")
    text = "\n".join("\n".join(outside_fences(page)) for page in found.values())
    assert re.search(r"^- Began: \d{4}-\d\d-\d\d \d\d:\d\d UTC$", text, re.MULTILINE)
    assert not re.search(r"\.\d{6}Z", text) and "\\:" not in text
    assert ": 1 session\n" in text and "1 sessions" not in text
    assert "[Porting the router: step 1]" in text and "[dreaming]" not in text
    assert sum(name.startswith(f"{eng.workspace_name}/sessions/") for name in found) == 1
    assert "to the person" in text
    gists = found[f"{eng.workspace_name}/memories/gist.md"]
    assert "zeppelin router" in gists and "Data:" not in gists and '"words"' not in gists
    # What a user has stored beside a memory stays.
    assert memory.data == {"words": ["kept"]} and '{"words": ["kept"]}' in "\n".join(found.values())


@pytest.mark.requirement("MOVE-12")
def test_names_of_files_are_safe_and_different() -> None:
    names = ["", ".", "..", "a/b", "A/B", "a b", "a-b", "con", "x" * 500, "../../etc/passwd", "ä", "ö", "-", "a\0b"]
    names += ["\udc80", "Fact", "fact", "FACT", "fact ", "fact.md", *map(file_name, ("Fact", "", "con", "ä"))]
    made = [file_name(name) for name in names]
    assert len({name.casefold() for name in made}) == len(names)
    assert all(re.fullmatch(r"[a-z0-9-]{1,60}", name) and not name.startswith("-") for name in made)
    assert file_name("2026-03-02", "a") != file_name("2026-03-02", "b")


@pytest.mark.requirement("MOVE-12")
def test_a_plain_name_is_the_name_of_its_file() -> None:
    for name in ("digest", "fact", "profile", "2026-11", "release-checklist"):
        assert file_name(name) == name
    for device in ("con", "nul", "com1", "lpt9"):
        assert re.fullmatch(rf"{device}-[0-9a-f]{{10}}", file_name(device))


@pytest.mark.requirement("MOVE-12")
def test_texts_on_a_line_and_in_a_fence() -> None:
    assert inline("a *b* [c](d) <e> & #f\n# g &lt;") == r"a \*b\* \[c\](d) &lt;e&gt; & #f # g &amp;lt;"
    assert fenced("a\n```\nb") == "````text\na\n```\nb\n````"
    assert inline("Evening talk: at 10:30") == "Evening talk: at 10:30"
    assert inline(": a") == r"\: a" and inline("http://x :b: c:d") == r"http\://x \:b: c\:d"
    assert stamp("2026-03-02T10:00:00") == stamp("2026-03-02T10:00:00.123456Z") == "2026-03-02 10:00 UTC"
    assert stamp("2026-03-02](x)") == r"2026-03-02\](x)"
    assert link("", "a.md") == "[a.md](a.md)"


@pytest.mark.requirement("MOVE-12")
def test_a_character_is_escaped_only_where_it_could_mean_something() -> None:
    plain = "It's done (1,904 of 2,000); see router_test.py - a -> b, R & D + x = y. C# at 10:30!"
    assert inline(plain) == plain and passage(plain) == f"> {plain}"
    begins = {"# a": r"\# a", "- a": r"\- a", "+ a": r"\+ a", "1. a": r"1\. a", "12) a": r"12\) a", "> a": "&gt; a"}
    begins |= {"===": r"\===", "---": r"\---", "1.5 s": "1.5 s", "__a__": r"\_\_a\_\_", "a #": r"a \#"}
    begins |= {
        "www.a.b": r"www\.a.b",
        "![a](b)": r"\!\[a\](b)",
        "a|b": r"a\|b",
        "~a~": r"\~a\~",
        "a@b": r"a\@b",
        "<b>": "&lt;b&gt;",
    }
    assert {text: inline(text) for text in begins} == begins


_PIECES = [
    *("a", "b1", " ", "  ", "\n", "\n\n", "```", "~~~", "`", "~~", "#", "## ", "-", "- ", "+ ", "* ", "**", "_", "__"),
    *("1. ", "2)", "===", "---", "> ", ">", "<", "<b>", "</a>", "<!--", "-->", "&", "&lt;", "&#60;", "!", "![", "["),
    *("]", "(", ")", "](x)", "[m1]", "[m2, m3]", "[m1](x)", "]: x", "|", "| a |", "--|--", "\t", "    ", "\\", "{"),
    *("http://x.y", "www.a.b", "a@b.c", ":", "$$", "ß", "«", "\u00a0", "\u2028", "\r\n", "é_é", "[!NOTE]", "[^1]"),
]


@pytest.mark.requirement("MOVE-12")
@given(st.lists(st.sampled_from(_PIECES), max_size=25).map("".join))
def test_any_text_is_shown_as_it_is_and_becomes_nothing_else(text: str) -> None:
    known = {1: "fact.md#memory-1", 3: "fact.md#memory-3"}
    own = passage(text, known)
    for part in rendered(own):
        assert part.type in _OF_TEXT, part
        assert part.type != "link_open" or part.attrGet("href") in known.values()
    assert shown(own) == words(text)
    # In a heading, in a list, and as the words of a link. What follows stays in its place, too.
    page = f"x\n\n{own}\n\n- Key: {inline(text)}\n\n## {inline(text)}\n\n- {link(text, 'a.md')}\n\nEnd\n"
    kinds = [part.type for part in rendered(page)]
    assert kinds.count("heading_open") == 1 and kinds.count("list_item_open") == 2
    assert set(kinds) <= _OF_A_PAGE - {"html_inline"} and rendered(page)[-2].content == "End"


@pytest.mark.requirement("MOVE-12")
def test_prose_is_quoted_and_everything_else_is_in_a_fence() -> None:
    assert passage("One line.\nAnother.\n\nA paragraph.") == "> One line.  \n> Another.\n>\n> A paragraph."
    assert passage("## Plan\n- first") == "> **Plan**  \n> \\- first"
    mixed = "The totals:\n\n| a | b |\n| - | - |\n\nAnd:\n```py\nx = 1\n\ny = 2\n```\nDone."
    assert passage(mixed).split("\n\n", 2)[:2] == ["> The totals:", "```text\n| a | b |\n| - | - |\n```"]
    assert "\n\n````text\n```py\nx = 1\n\ny = 2\n```\n````\n\n> Done." in passage(mixed)
    for code in ("  indented", "$ make test", "2026-11-16 09:00:01 INFO started", '{"a": 1}', "def go(x):", "a   b"):
        assert passage(code) == fenced(code)


@pytest.mark.requirement("MOVE-12")
def test_a_conversation_reads_like_one(eng: Engram, tmp_path: Path) -> None:
    sid = eng.sessions.register("codex", "Porting")
    at = "2026-03-02T10:0{}:00Z"
    asked = eng.exchanges.add(sid, "user", "Please port it.", created_at=at.format(0), embed=False)
    for number, text in enumerate(("Read a.py", "Bash: make\n10:09 forged"), 1):
        eng.exchanges.add(sid, "log", text, created_at=at.format(number), embed=False)
    said = eng.exchanges.add(sid, "assistant", "It is ported.", created_at=at.format(3), embed=False)
    odd = eng.as_author("laptop").exchanges.add(
        sid, "user", "From a page.", created_at=at.format(4), trust="tool", embed=False
    )
    eng.export(tmp_path / "pages", format="markdown")
    require_sound(tmp_path / "pages")
    (page,) = [page for name, page in pages(tmp_path / "pages").items() if "/sessions/" in name]
    talk = page.partition("## What was said and done\n\n")[2]
    assert talk == (
        f'**You**, 2026-03-02 10:00 UTC <a id="exchange-{asked}"></a>\n\n> Please port it.\n\n'
        "Log, 2026-03-02 10:01 UTC\n\n```text\n10:01 Read a.py\n10:02 Bash: make\n      10:09 forged\n```\n\n"
        f'**codex**, 2026-03-02 10:03 UTC <a id="exchange-{said}"></a>\n\n> It is ported.\n\n'
        f'**You**, 2026-03-02 10:04 UTC, trust tool, by laptop <a id="exchange-{odd}"></a>\n\n> From a page.\n'
    )


@pytest.mark.requirement("MOVE-12")
def test_what_a_memory_is_made_of_is_a_link_to_it(eng: Engram, tmp_path: Path) -> None:
    sid = eng.sessions.register("codex", "Porting")
    turn = eng.exchanges.add(sid, "user", "The lift is broken.", embed=False)
    one = eng.remember("The lift is broken.", kind="fact", embed=False, sources=[("exchange", turn)])
    two = eng.remember("So use the stairs.", kind="rule", embed=False, sources=[("memory", one.id), ("exchange", turn)])
    eng.memories.supersede(one.id, two.id)
    eng.export(tmp_path / "pages", format="markdown")
    require_sound(tmp_path / "pages")
    found = pages(tmp_path / "pages")
    rules, facts = (found[f"{eng.workspace_name}/memories/{kind}.md"] for kind in ("rule", "fact"))
    assert f"[memory {one.id}](../memories/fact.md#memory-{one.id})" in rules
    assert re.search(rf"\[exchange {turn}\]\(\.\./sessions/[a-z0-9-]+\.md#exchange-{turn}\)", rules)
    assert f"Replaced by: [memory {two.id}](../memories/rule.md#memory-{two.id})" in facts


@pytest.mark.requirement("MOVE-12")
def test_a_citation_links_to_a_memory_of_the_export_and_to_nothing_else(eng: Engram, tmp_path: Path) -> None:
    id = eng.remember("Always use UTC.", kind="preference", embed=False).id
    other = eng.workspace("other").remember("Elsewhere.", kind="note", embed=False).id
    cites = f"- UTC. [m{id}]\n- Both. [m{id}, m{other}] [m{id}](javascript:alert)\n- [m99999] [e1]"
    eng.blocks.create("profile", cites)
    eng.export(tmp_path / "pages", format="markdown", all_workspaces=True)
    require_sound(tmp_path / "pages")
    portrait = pages(tmp_path / "pages")[f"{eng.workspace_name}/portrait.md"]
    linked = f"[m{id}](memories/preference.md#memory-{id})"
    assert (
        f"> \\- UTC. \\[{linked}\\]  \n> \\- Both. \\[{linked}, m{other}\\] \\[{linked}\\](javascript\\:alert)  \n"
        "> \\- \\[m99999\\] \\[e1\\]\n" in portrait
    )


@pytest.mark.requirement("MOVE-12")
def test_a_memory_that_forgetting_has_emptied_says_so(eng: Engram, tmp_path: Path) -> None:
    sid = eng.sessions.register("codex", "Porting")
    turn = eng.exchanges.add(sid, "user", "I prefer the zeppelin.", embed=False)
    other = eng.exchanges.add(sid, "user", "Deploys are on Monday.", embed=False)
    kept = eng.remember(
        "The zeppelin is preferred.", kind="era", embed=False, sources=[("exchange", turn), ("exchange", other)]
    )
    eng.forget(exchange=turn)
    assert eng.memories.get(kept.id).content == ""
    eng.export(tmp_path / "pages", format="markdown")
    page = pages(tmp_path / "pages")[f"{eng.workspace_name}/memories/era.md"]
    assert f"## Memory {kept.id}\n\n(emptied by forgetting)\n" in page
    assert "What each month was about." in page and "Importance" not in page


@pytest.mark.requirement("MOVE-12")
def test_the_history_of_a_block_names_its_authors_and_reasons(eng: Engram, tmp_path: Path) -> None:
    sid = eng.sessions.register("codex", "Porting")
    eng.blocks.create("notes", "first", actor=sid)
    eng.blocks.update("notes", "second", "better", actor="anna")
    eng.export(tmp_path / "pages", format="markdown")
    page = pages(tmp_path / "pages")[f"{eng.workspace_name}/blocks/notes.md"]
    history = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "TIME", page.partition("## History\n\n")[2])
    author = re.search(r"By (\[Porting\]\(\.\./sessions/[a-z0-9-]+\.md\))\n", history)
    assert author and history == (
        f"### Version 1, TIME\n\nBy {author[1]}\n\n> first\n\n"
        "### Version 2, TIME\n\nBy anna  \nReason: better\n\nThe text above.\n"
    )
    assert "- Written by: anna\n" in page


@pytest.mark.requirement("MOVE-12")
def test_the_portrait_has_the_sentences_of_an_agents_own_block(eng: Engram, tmp_path: Path) -> None:
    own = {"mood": "# calm", "narrative": "I looked.", "reflections": [{"at": "2026-03-02T10:00", "text": "Good."}]}
    eng.blocks.create("self", json.dumps(own))
    eng.export(tmp_path / "pages", format="markdown")
    require_sound(tmp_path / "pages")
    found = pages(tmp_path / "pages")
    assert "> Mood: # calm\n>\n> I looked.\n>\n> 2026-03-02: Good.\n" in found[f"{eng.workspace_name}/portrait.md"]
    assert words(json.dumps(own)) in shown(found[f"{eng.workspace_name}/blocks/self.md"])
    for odd in ("[]", "{", '{"mood": 1, "narrative": [], "reflections": [3]}', '"text"'):
        eng.blocks.update("self", odd)
        eng.export(tmp_path / "pages", format="markdown", force=True)
        assert words(odd) in shown(pages(tmp_path / "pages")[f"{eng.workspace_name}/portrait.md"])


@pytest.mark.requirement("MOVE-12")
def test_the_index_begins_with_what_a_person_wants(eng: Engram, tmp_path: Path) -> None:
    for number in range(12):
        sid = eng.sessions.register("codex", f"Step {number}")
    eng.messages.send(sid, "person", "Done.")
    eng.blocks.create("profile", "Likes tabs.")
    eng.remember("A fact.", kind="fact", embed=False)
    eng.remember("A digest.", kind="digest", embed=False)
    eng.export(tmp_path / "pages", format="markdown")
    require_sound(tmp_path / "pages")
    index = pages(tmp_path / "pages")[f"{eng.workspace_name}/index.md"]
    assert "\n\n[Portrait](portrait.md): [Profile](portrait.md#profile)\n\n## Latest sessions\n\n" in index
    headings = ["Latest sessions", "Months, with all their sessions", "Memories", "Blocks", "Messages"]
    assert re.findall(r"^## (.+)$", index, re.MULTILINE) == headings
    latest = re.findall(r"^- \d{4}-\d\d-\d\d \d\d:\d\d UTC, codex: \[(.+)\]", index, re.MULTILINE)
    assert latest == [f"Step {number}" for number in range(11, 1, -1)]
    assert "- [fact](memories/fact.md): 1\n- [digest](memories/digest.md): 1\n" in index


@pytest.mark.requirement("MOVE-8", "MOVE-12")
def test_the_folder_is_private_and_replaces_only_an_earlier_export(eng: Engram, tmp_path: Path) -> None:
    eng.remember("A plan.")
    folder, own = tmp_path / "pages", tmp_path / "own"
    eng.export(folder, format="markdown")
    for path in (folder, *folder.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    with pytest.raises(FileExists):
        eng.export(folder, format="markdown")
    eng.remember("Another plan.")
    eng.export(folder, format="markdown", force=True)
    assert any("Another plan." in page for page in pages(folder).values())
    own.mkdir()
    (own / "precious.txt").write_text("mine")
    with pytest.raises(FileExists, match="not a folder of an earlier export"):
        eng.export(own, format="markdown", force=True)
    assert (own / "precious.txt").read_text() == "mine"
    assert not [name for name in os.listdir(tmp_path) if "partial" in name or "replaced" in name]
    with pytest.raises(InvalidInput):
        eng.export("-", format="markdown")
    with pytest.raises(InvalidInput):
        eng.export(tmp_path / "v", format="markdown", vectors=True)
    with pytest.raises(InvalidInput, match="no format"):
        eng.export(tmp_path / "v", format="html")
