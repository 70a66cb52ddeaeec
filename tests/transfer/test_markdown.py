"""The pages of an export: complete, linked, and stored text stays in its place."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest

from engram import Engram, FileExists, InvalidInput
from engram.transfer.markdown_text import fenced, file_name, inline, link, stamp
from tests.security import _hostile
from tests.security.test_ways_out import controls
from tests.transfer._comparing import opened

_LINK = re.compile(r"(?<!\\)\]\(([^)]*)\)")
NASTY = (
    "---\ntitle: forged\n---\n# Forged heading\n```\nout of the fence\n```\n````text\n[click](javascript:alert(1))\n"
    "<script>alert(1)</script>\n~~~\n![x](javascript:alert(2))\n[ref]: javascript:alert(3)\n    indented\n| a | b |\n"
    "Setext\n======\n<javascript:alert(4)> **bold** `code` \\[x\\](y)\n"
)


def pages(folder: Path) -> dict[str, str]:
    return {str(file.relative_to(folder)): file.read_text(encoding="utf-8") for file in folder.rglob("*.md")}


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


def require_sound(folder: Path) -> None:
    """Every page has only Engram's own structure outside of fences, and every link leads to a page of the folder."""
    for name, page in pages(folder).items():
        assert page.startswith("# "), name
        assert controls(page) <= {"\t"}, name
        for line in outside_fences(page):
            assert not re.match(r" {0,3}(---|===|~~~|\||<|    )", line), (name, line)
            plain = re.sub(r"\\.", "", line)
            assert "<" not in plain and "`" not in plain and "![" not in plain, (name, line)
            for target in _LINK.findall(line):
                assert re.fullmatch(r"[a-z0-9./_-]+\.md", target), (name, target)
                assert (folder / name).parent.joinpath(target).resolve().is_relative_to(folder.resolve())
                assert (folder / name).parent.joinpath(target).is_file(), (name, target)
            # A bracket that is not escaped belongs to a link of Engram's own.
            assert plain.count("[") == len(_LINK.findall(plain)) or "\\[" in line, (name, line)


@pytest.mark.requirement("MOVE-12")
def test_everything_is_on_a_page_and_reachable_from_the_index(rich: Engram, tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    done = rich.export(folder, format="markdown", all_workspaces=True)
    found = pages(folder)
    assert done.counts == {"page": len(found)} and done.workspaces == ("default", "team")
    require_sound(folder)
    text = "\n".join(found.values())
    for memory in rich.memories.list(limit=0):
        assert memory.content in text
    for session in rich.sessions.list(0):
        for turn in rich.exchanges.history(session.id, limit=1_000):
            assert turn.content in text
    for version in (1, 2):
        assert rich.blocks.version("notes", version) in text
    assert "read the router" in text and "May I have the router?" in text and "Another workspace." in text
    reached, waiting = set(), ["index.md"]
    while waiting:
        page = waiting.pop()
        if page not in reached:
            reached.add(page)
            targets = _LINK.findall("\n".join(outside_fences(found[page])))
            waiting += [os.path.normpath(os.path.join(os.path.dirname(page), target)) for target in targets]
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
    assert sum(NASTY.strip() in page for page in everything.values()) >= 4
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
    (gists,) = [page for name, page in found.items() if "/memories/gist" in name]
    assert "zeppelin router" in gists and "Data:" not in gists and '"words"' not in gists
    # What a user has stored beside a memory stays.
    assert memory.data == {"words": ["kept"]} and '{"words": ["kept"]}' in "\n".join(found.values())


@pytest.mark.requirement("MOVE-12")
def test_names_of_files_are_safe_and_different() -> None:
    names = ["", ".", "..", "a/b", "A/B", "a b", "con", "x" * 500, "../../etc/passwd", "ä", "ö", "-", "a\0b", "\udc80"]
    made = [file_name(name) for name in names]
    assert len({name.casefold() for name in made}) == len(names)
    assert all(re.fullmatch(r"[a-z0-9-]{10,60}", name) and not name.startswith("-") for name in made)
    assert file_name("2026-03-02", "a") != file_name("2026-03-02", "b")


@pytest.mark.requirement("MOVE-12")
def test_texts_on_a_line_and_in_a_fence() -> None:
    assert inline("a *b* [c](d) <e> & #f\n# g") == r"a \*b\* \[c\]\(d\) &lt;e&gt; &amp; \#f \# g"
    assert fenced("a\n```\nb") == "````text\na\n```\nb\n````"
    assert inline("Evening talk: at 10:30") == "Evening talk: at 10:30"
    assert inline(": a") == r"\: a" and inline("http://x :b: c:d") == r"http\://x \:b: c\:d"
    assert stamp("2026-03-02T10:00:00") == stamp("2026-03-02T10:00:00.123456Z") == "2026-03-02 10:00 UTC"
    assert stamp("2026-03-02](x)") == r"2026-03-02\]\(x\)"
    assert link("", "a.md") == "[a.md](a.md)"


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
