"""Reading the file of MCP's reference memory server."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings

from engram import NothingToImport, NotOfFormat
from engram.importers import files
from engram.importers.items import MemoryItem, Options, Skipped
from engram.importers.server_memory import FORMAT, read
from tests.importers._exports import JSON, items, skipped, written

LINES: list[dict[str, object]] = [
    {"type": "entity", "name": "Ada", "entityType": "person", "observations": ["Likes tea", "Likes tea", "Has a cat"]},
    {"type": "entity", "name": "Bakery", "entityType": "", "observations": []},
    {"type": "relation", "from": "Ada", "to": "Bakery", "relationType": "works_at"},
]


def file(folder: Path, *lines: object) -> Path:
    path = folder / "memory.jsonl"
    path.write_text("\n".join(each if isinstance(each, str) else json.dumps(each) for each in lines) + "\n")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    return path


def test_each_observation_and_relation_is_a_fact_that_stands_alone(tmp_path: Path) -> None:
    found = items(FORMAT, file(tmp_path, *LINES), Options(project="p"))
    assert all(isinstance(item, MemoryItem) for item in found)
    memories = [item for item in found if isinstance(item, MemoryItem)]
    ada, tea, cat, bakery, relation = memories
    assert [(m.text, tuple(m.tags)) for m in memories] == [
        ("Ada: person", ("person",)),
        ("Ada: Likes tea", ("person",)),
        ("Ada: Has a cat", ("person",)),
        ("Bakery", ()),
        ("Ada works at Bakery", ()),
    ]
    assert {(m.kind, m.trust, m.project, m.at) for m in memories} == {
        ("fact", "import", "p", "2023-11-14T22:13:20+00:00")
    }
    assert tea.links == cat.links == [(ada.id, "about")]
    assert relation.links == [(ada.id, "from"), (bakery.id, "to")]


def test_the_same_statement_has_the_same_id_wherever_it_stands(tmp_path: Path) -> None:
    before = items(FORMAT, file(tmp_path, *LINES))
    entity = {**LINES[0], "observations": ["Has a cat", "Sings", "Likes tea"]}
    after = items(FORMAT, file(tmp_path, *LINES[1:], entity))
    ids = {item.id for item in before if isinstance(item, MemoryItem)}
    new = [item.text for item in after if isinstance(item, MemoryItem) and item.id not in ids]
    assert new == ["Ada: Sings"]


def test_two_entities_of_one_name_are_two_memories_and_the_same_entity_twice_is_one(tmp_path: Path) -> None:
    entity = {"type": "entity", "name": "Mercury", "observations": []}
    types = ["planet", "metal", "planet", "metal"]
    path = file(tmp_path, *({**entity, "entityType": type} for type in types))
    found = [item for item in items(FORMAT, path) if isinstance(item, MemoryItem)]
    assert [item.text for item in found] == [f"Mercury: {type}" for type in types]
    one, two, *again = [item.id for item in found]
    assert one != two and again == [one, two]


def test_bad_lines_are_named_and_the_others_are_read(tmp_path: Path) -> None:
    found = items(
        FORMAT,
        file(
            tmp_path,
            LINES[1],
            '{"type": "entity", "na',
            {"type": "entity", "name": " ", "observations": ["x"]},
            {"type": "entity", "name": "Bo", "observations": [7, "", "Runs"]},
            {"type": "relation", "from": "Ada", "to": 3, "relationType": "knows"},
            {"type": "other"},
            "[1]",
            "[" * 50_000,
        ),
    )
    assert [item.text for item in found if isinstance(item, MemoryItem)] == ["Bakery", "Bo", "Bo: Runs"]
    assert skipped(found) == [
        Skipped("line 2", "not valid JSON"),
        Skipped("line 3", "an entity without a name"),
        Skipped("line 4, observation 1", "no text"),
        Skipped("line 4, observation 2", "no text"),
        Skipped("line 5", "a relation that lacks a name"),
        Skipped("line 6", "neither an entity nor a relation"),
        Skipped("line 7", "not a JSON object"),
        Skipped("line 8", "nested too deeply"),
    ]


def test_a_file_of_another_format_is_refused_and_named(tmp_path: Path) -> None:
    for match, value in {
        "engram import chatgpt": [{"mapping": {}}],
        "engram import claude`": [{"chat_messages": []}],
        "has no entities or relations": [{"a": 1}],
    }.items():
        with pytest.raises(NotOfFormat, match=match):
            FORMAT.find(written(tmp_path / "x.json", value))
    (tmp_path / "notes.md").write_text("# Notes")
    with pytest.raises(NotOfFormat, match="has no entities or relations"):
        FORMAT.find(tmp_path / "notes.md")
    with pytest.raises(NothingToImport, match=r"usually called memory\.jsonl"):
        FORMAT.find(tmp_path)


def test_files_in_a_folder_are_found_by_what_they_hold(tmp_path: Path) -> None:
    file(tmp_path, *LINES)
    (tmp_path / "transcript.jsonl").write_text('{"type": "user"}\n')
    (tmp_path / "old").mkdir()
    file(tmp_path / "old", LINES[0]).rename(tmp_path / "old" / "memory.json")
    found = [source.path.relative_to(tmp_path).as_posix() for source in FORMAT.find(tmp_path)]
    assert found == ["memory.jsonl", "old/memory.json"]


def test_an_empty_file_gives_nothing_and_a_very_long_line_is_found(tmp_path: Path) -> None:
    assert items(FORMAT, file(tmp_path)) == []
    entity = {"type": "entity", "name": "Ada", "entityType": "person", "observations": ["x" * 500_000]}
    assert len(items(FORMAT, file(tmp_path, entity))) == 2


@settings(max_examples=60)
@given(JSON)
def test_any_json_gives_items_and_no_exception(tmp_path_factory: pytest.TempPathFactory, value: object) -> None:
    folder = tmp_path_factory.getbasetemp()
    entity = {"type": "entity", "name": "A", "entityType": value, "observations": value}
    relation = {"type": "relation", "from": "A", "to": value, "relationType": value}
    for item in read(files.Source(file(folder, value, entity, relation)), Options()):
        assert isinstance(item, MemoryItem | Skipped)
