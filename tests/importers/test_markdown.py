"""Reading notes in Markdown, and instructions for agents."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engram import NothingToImport, NotOfFormat
from engram.importers import files, front_matter, markdown
from engram.importers.items import Item, MemoryItem, Options, Skipped
from engram.importers.json_values import digest
from engram.importers.markdown import FORMAT, read
from engram.importers.sections import pieces, sections
from tests.importers._exports import items, skipped, written


def note(path: Path, said: str, day: int = 1) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(said, "utf-8")
    os.utime(path, (1_700_000_000 + 86_400 * day,) * 2)
    return path


def memories(found: list[Item]) -> list[MemoryItem]:
    return [item for item in found if isinstance(item, MemoryItem)]


def texts(path: Path) -> list[str]:
    return [memory.text for memory in memories(items(FORMAT, path))]


MTIME = "2023-11-15T22:13:20+00:00"


def test_each_section_is_a_memory_that_begins_with_its_headings(tmp_path: Path) -> None:
    said = """\
Before all.

# Garden

Roses need sun.

## Tools ##

- a spade

### Empty

## Seeds
Sow in April.
"""
    found = items(FORMAT, note(tmp_path / "vault" / "home.md", said))
    data = {"path": "vault/home.md"}
    id = f"vault/home.md@{digest(str((tmp_path / 'vault').resolve()))}"
    assert found == [
        MemoryItem(f"{id}##1", "home\n\nBefore all.", at=MTIME, tags=[], data=data),
        MemoryItem(f"{id}#Garden#1", "Garden\n\nRoses need sun.", at=MTIME, tags=[], data=data),
        MemoryItem(f"{id}#Garden > Tools#1", "Garden > Tools\n\n- a spade", at=MTIME, tags=[], data=data),
        MemoryItem(f"{id}#Garden > Seeds#1", "Garden > Seeds\n\nSow in April.", at=MTIME, tags=[], data=data),
    ]


def test_code_is_not_mistaken_for_headings() -> None:
    document = "# A\n```sh\n# no heading\n~~~\n```\ntext\n````md\n```\n# none\n````\n    # code\n# B\n~~~\n# none\n"
    assert [(section.path, section.text) for section in sections(document)] == [
        (("A",), "```sh\n# no heading\n~~~\n```\ntext\n````md\n```\n# none\n````\n    # code"),
        (("B",), "~~~\n# none"),
    ]


def test_underlined_headings_and_rules_are_told_apart() -> None:
    document = "Title\n=====\nOne.\n\nPart\n---\nTwo\nthree.\n---\n\n---\n- item\n---\n#tag is no heading\n#\nBare."
    assert [(section.path, section.text) for section in sections(document)] == [
        (("Title",), "One."),
        (("Title", "Part"), "Two\nthree.\n---\n\n---\n- item\n---\n#tag is no heading"),
        ((), "Bare."),
    ]


def test_a_long_section_is_cut_at_paragraphs_and_nothing_is_lost(tmp_path: Path) -> None:
    paragraphs = [f"Paragraph {n}. " + "word " * 150 for n in range(20)]
    found = memories(items(FORMAT, note(tmp_path / "n.md", "# Long\n\n" + "\n\n".join(paragraphs))))
    assert len(found) == 4 and len({memory.id for memory in found}) == 4
    assert all(memory.text.startswith("Long\n\nParagraph") for memory in found)
    assert "\n\n".join(memory.text.removeprefix("Long\n\n") for memory in found).split() == " ".join(paragraphs).split()
    for said in ("x" * 9_000, "\n".join(["y" * 99] * 90), "z. " * 3_000):
        assert "".join("".join(pieces(said)).split()) == "".join(said.split())
        assert max(map(len, pieces(said))) <= 4_000


def test_an_edited_section_keeps_its_id_and_so_does_one_that_moved(tmp_path: Path) -> None:
    path = tmp_path / "n.md"

    def ids(said: str) -> dict[str, str]:
        return {memory.text.split()[-1]: memory.id for memory in memories(items(FORMAT, note(path, said)))}

    before = ids("---\ntitle: T\n---\n# A\none\n# B\ntwo\n# B\nthree\n")
    after = ids("---\ntitle: New\n---\n# B\ntwo\n# B\nedited\n# A\none\n")
    assert before["one"] == after["one"] and before["two"] == after["two"] and before["three"] == after["edited"]


@pytest.mark.parametrize("inside", [".git", ".obsidian", "plain"])
def test_a_note_is_known_by_its_path_however_it_was_given(
    tmp_path: Path, inside: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        note(tmp_path / name / "app" / "CLAUDE.md", f"Hello from {name}")
        (tmp_path / name / "app" / inside).mkdir()

    def ids(path: Path) -> list[str]:
        return [memory.id for memory in memories(items(FORMAT, path))]

    one, two = ids(tmp_path)
    assert one != two and one.startswith("app/CLAUDE.md@")
    assert (
        ids(tmp_path / "one" / "app" / "CLAUDE.md") == ids(tmp_path / "one") == ids(tmp_path / "one" / "app") == [one]
    )
    (tmp_path / "link").symlink_to(tmp_path / "two")
    assert ids(tmp_path / "link" / "app") == ids(tmp_path / "two" / "app" / "CLAUDE.md") == [two]
    monkeypatch.chdir(tmp_path / "two" / "app")
    note(Path("CLAUDE.md"), "Edited")
    assert ids(Path("CLAUDE.md")) == [two]
    assert memories(items(FORMAT, Path("CLAUDE.md")))[0].data["path"] == "app/CLAUDE.md"


def test_a_named_link_is_followed_to_a_regular_file_only(tmp_path: Path) -> None:
    (tmp_path / "link.md").symlink_to(note(tmp_path / "n.txt", "Hello"))
    assert texts(tmp_path / "link.md") == ["link\n\nHello"]
    (tmp_path / "device.md").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "pipe.md").symlink_to(tmp_path / "pipe")
    for name in ("device.md", "pipe.md"):
        with pytest.raises(NotOfFormat, match="not a regular file"):
            FORMAT.find(tmp_path / name)


def test_front_matter_gives_tags_kind_dates_title_and_project(tmp_path: Path) -> None:
    said = """\
---
title: "Deploys: how"   # a comment
tags: [ops, '#deploy', two words]
aliases:
  - shipping
kind: Decision
project: owner/repo
created: 2024-01-01
updated: 2024-05-01 10:30
nested:
  deep: value
---
Never on Fridays. #friday
"""
    (found,) = memories(items(FORMAT, note(tmp_path / "n.md", said), Options(timezone="Europe/Berlin")))
    assert found.text == "Deploys: how\n\nNever on Fridays. #friday"
    assert found.tags == ["ops", "deploy", "two", "words", "friday"]
    assert (found.kind, found.project, found.trust) == ("decision", "owner/repo", "import")
    assert found.at == "2024-05-01T08:30:00+00:00"


@pytest.mark.parametrize(
    ("head", "fields"),
    [
        ("tags:\n- a\n- 'b c'\n-\n", {"tags": ["a", "b c", ""]}),
        ("tags: a, b\nempty:\nnone: null\n", {"tags": "a, b", "empty": "", "none": ""}),
        ("text: |\n  one\n  # two\nlist: []\n", {"text": "one\n# two", "list": []}),
        ("# only a comment\n\n", {}),
        ("Key With Space: 'it''s'\n", {"key with space": "it"}),
    ],
)
def test_simple_yaml_is_read(head: str, fields: Mapping[str, object]) -> None:
    assert front_matter.parsed(f"---\n{head}---\nBody\n") == (fields, "Body\n")


@pytest.mark.parametrize("said", ["---\nno end: 1\n", "text\n---\na: 1\n---\n", "---\nA sentence.\n---\nMore.", "---"])
def test_what_is_no_front_matter_stays_text(said: str) -> None:
    assert front_matter.parsed(said) == ({}, said)


def test_a_type_that_is_no_kind_is_a_tag_and_kinds_of_passes_are_notes(tmp_path: Path) -> None:
    expected = {"type: lesson": ("lesson", []), "type: meeting": ("note", ["meeting"]), "kind: digest": ("note", [])}
    for head, given_and_tags in expected.items():
        (found,) = memories(items(FORMAT, note(tmp_path / "n.md", f"---\n{head}\n---\nText")))
        assert (found.kind, found.tags) == given_and_tags


def test_tags_in_a_text_are_found_but_not_in_code_and_no_numbers(tmp_path: Path) -> None:
    said = "#one and (#two/deep), see #12 and a#b, `#code`, [[Link]] ##no\n```\n#none\n```\n#three-x."
    (found,) = memories(items(FORMAT, note(tmp_path / "n.md", said)))
    assert found.tags == ["one", "two/deep", "three-x"]
    assert "[[Link]]" in found.text


@pytest.mark.parametrize(
    ("name", "head", "expected"),
    [
        ("2024-03-04 standup.md", "", "2024-03-04T00:00:00+00:00"),
        ("20240304.md", "", "2024-03-04T00:00:00+00:00"),
        ("n.md", "date: 2024/03/04", "2024-03-04T00:00:00+00:00"),
        ("n.md", "date: 2024-03-04T05:06:07+02:00", "2024-03-04T03:06:07+00:00"),
        ("n.md", "date: 2024-13-45", MTIME),
        ("n.md", "date: yesterday", MTIME),
        ("n.md", "date: 2024", MTIME),
    ],
)
def test_dates_come_from_front_matter_the_name_or_the_file(tmp_path: Path, name: str, head: str, expected: str) -> None:
    said = f"---\n{head}\n---\nText" if head else "Text"
    (found,) = memories(items(FORMAT, note(tmp_path / name, said)))
    assert found.at == expected


def test_instructions_for_agents_are_preferences(tmp_path: Path) -> None:
    for name in (
        *("CLAUDE.md", "sub/AGENTS.md", "GEMINI.md", ".cursorrules", ".github/copilot-instructions.md"),
        *(".cursor/rules/deep/test.mdc", ".claude/rules/style.md", ".github/instructions/py.instructions.md"),
    ):
        note(tmp_path / "repo" / name, f"Rule of {name}. #notag")
    found = memories(items(FORMAT, tmp_path))
    assert {memory.kind for memory in found} == {"preference"}
    assert {memory.trust for memory in found} == {"import"}
    assert all(memory.tags == [] for memory in found)
    assert "CLAUDE.md\n\nRule of CLAUDE.md. #notag" in [memory.text for memory in found]
    assert len(found) == 8


def test_folders_of_programs_and_hidden_ones_are_passed_over(tmp_path: Path) -> None:
    wanted = ["a.md", "b.markdown", ".claude/CLAUDE.md", ".claude/projects/x/memory/MEMORY.md"]
    others = [
        *("node_modules/p/readme.md", ".git/x.md", ".obsidian/x.md", ".trash/x.md", ".claude/agents/x.md", "c.txt"),
        *(".claude/projects/x/y.md", ".cursor/x.md", ".github/ISSUE_TEMPLATE.md", "venv/x.md", "image.png"),
    ]
    for name in (*wanted, *others):
        note(tmp_path / name, "Text")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "out.md").symlink_to(note(tmp_path.parent / "private.md", "Secret"))
    os.mkfifo(tmp_path / "pipe.md")
    found = [source.path.relative_to(tmp_path).as_posix() for source in FORMAT.find(tmp_path)]
    assert sorted(found) == sorted(wanted)
    inside = [source.path.relative_to(tmp_path).as_posix() for source in FORMAT.find(tmp_path / ".claude")]
    assert sorted(inside) == sorted(wanted[2:])


def test_a_file_that_is_no_text_or_too_long_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path = tmp_path / "notes"
    tmp_path.mkdir()
    (tmp_path / "binary.md").write_bytes(b"a\0b")
    (tmp_path / "latin.md").write_bytes("Gar\xe7on".encode("latin-1"))
    (tmp_path / "huge.md").write_bytes(b"x" * 2000)
    note(tmp_path / "ok.md", "\ufeffFine.\r\n\r\n# Next\r\nToo.\r\n")
    monkeypatch.setattr(markdown, "LONGEST_NOTE", 1024)
    found = items(FORMAT, tmp_path)
    assert [memory.text for memory in memories(found)] == ["ok\n\nFine.", "Next\n\nToo."]
    assert skipped(found) == [
        Skipped("notes/binary.md", "not a text"),
        Skipped("notes/huge.md", "longer than 0 MiB"),
        Skipped("notes/latin.md", "not valid UTF-8"),
    ]


def test_a_file_that_is_no_note_is_refused_and_named(tmp_path: Path) -> None:
    with pytest.raises(NotOfFormat, match="engram import chatgpt"):
        FORMAT.find(written(tmp_path / "conversations.json", [{"mapping": {}}]))
    with pytest.raises(NotOfFormat, match="engram import specstory"):
        FORMAT.find(note(tmp_path / "h.md", "<!-- Generated by SpecStory -->\n# Chat"))
    (tmp_path / "picture.md").write_bytes(b"\x89PNG\0")
    for name in ("picture.md", "program.py"):
        (tmp_path / name).touch()
        with pytest.raises(NotOfFormat, match="is not a note in Markdown"):
            FORMAT.find(tmp_path / name)
    (tmp_path / "empty").mkdir()
    with pytest.raises(NothingToImport, match="There are no notes"):
        FORMAT.find(tmp_path / "empty")
    with pytest.raises(NothingToImport, match="no file or folder"):
        FORMAT.find(tmp_path / "gone.md")


def test_a_note_that_vanishes_is_named(tmp_path: Path) -> None:
    (source,) = FORMAT.find(note(tmp_path / "notes" / "n.md", "Text"))
    source.path.unlink()
    assert list(read(source, Options())) == [Skipped("notes/n.md", "damaged, or cannot be read")]


def test_an_empty_note_gives_nothing(tmp_path: Path) -> None:
    assert texts(note(tmp_path / "n.md", "---\ntitle: x\n---\n\n# Only a heading\n\n---\n")) == []


MARKS = st.lists(
    st.sampled_from(["# A", "## B", "---", "```", "~~~", "text", "", "a: [b", "- c", "tags:", "====", "#t", "    # x"]),
    max_size=30,
)


@settings(max_examples=100)
@given(st.one_of(MARKS.map("\n".join), st.text(max_size=60)))
def test_any_text_gives_items_and_loses_no_word(tmp_path_factory: pytest.TempPathFactory, said: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.md"
    path.write_bytes(said.encode("utf-8", "surrogatepass"))
    for item in read(files.Source(path), Options()):
        assert isinstance(item, MemoryItem | Skipped)
    kept = [word for section in sections(said) for word in section.text.split() if word == "text"]
    assert len(kept) + sum(part == "text" for section in sections(said) for part in section.path) <= said.count("text")
    if "=" not in said and "---" not in said:
        assert len(kept) == said.split("\n").count("text")
