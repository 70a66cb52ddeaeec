"""The memories of mcp-memory-service: its SQLite file, its Chroma folder, and its JSON export."""

from __future__ import annotations

import json
from array import array
from pathlib import Path

import pytest

from engram import NotOfFormat
from engram.importers.formats import get
from engram.importers.items import MemoryItem, Options

from ._databases import Rows, Text, database, read, skipped
from .test_mem0 import CHROMA

SCHEMA = """
CREATE TABLE memories (id INTEGER PRIMARY KEY AUTOINCREMENT, content_hash TEXT, content TEXT, tags TEXT,
    memory_type TEXT, metadata TEXT, created_at REAL, updated_at REAL, created_at_iso TEXT, updated_at_iso TEXT,
    deleted_at REAL DEFAULT NULL, store TEXT DEFAULT 'default', superseded_by TEXT);
CREATE TABLE memory_graph (source_hash TEXT, target_hash TEXT, relationship_type TEXT DEFAULT 'related',
    PRIMARY KEY (source_hash, target_hash));
"""
FORMAT = get("mcp-memory-service")
AT, LATER = "2026-01-01T10:00:00+00:00", "2026-01-02T10:00:00+00:00"
SECONDS = 1767261600.0


def test_memories_come_with_kinds_tags_links_and_dates(tmp_path: Path) -> None:
    day = {"created_at": SECONDS, "updated_at": SECONDS, "created_at_iso": "2026-01-01T10:00:00Z"}
    path = database(
        tmp_path / "sqlite_vec.db",
        SCHEMA,
        {
            "memories": [
                {
                    **{
                        "content_hash": "h1",
                        "content": "Retry twice",
                        "tags": "net, style,,net",
                        "memory_type": "learning",
                    },
                    **{"metadata": '{"project": "shop"}', **day, "updated_at": SECONDS + 86400, "store": "work"},
                },
                {
                    "content_hash": "h2",
                    "content": "Use tabs",
                    "tags": None,
                    "memory_type": None,
                    "metadata": None,
                    **day,
                },
                {"content_hash": "h3", "content": "Gone", "memory_type": "Decision", "deleted_at": SECONDS, **day},
                {"content_hash": "h4", "content": "Replaced", "memory_type": "task", "superseded_by": "h2", **day},
            ],
            "memory_graph": [
                {"source_hash": "h1", "target_hash": "h2", "relationship_type": "causes"},
                {"source_hash": "h1", "target_hash": "h3"},
            ],
        },
    )
    assert read(FORMAT, path, Options(project="acme")) == [
        MemoryItem(
            "h1",
            "Retry twice",
            "lesson",
            ("net", "style", "store:work"),
            at=AT,
            project="acme",
            data={"metadata": {"project": "shop"}, "updated_at": LATER},
            links=(("h2", "causes"),),
        ),
        MemoryItem("h2", "Use tabs", at=AT, project="acme"),
        MemoryItem("h3", "Gone", "decision", at=AT, is_archived=True, project="acme"),
        MemoryItem("h4", "Replaced", "todo", at=AT, is_archived=True, project="acme"),
    ]


def test_an_older_file_lacks_columns_and_has_times_as_text_only(tmp_path: Path) -> None:
    schema = "CREATE TABLE memories (content_hash TEXT, content TEXT, tags TEXT, created_at_iso TEXT)"
    rows: Rows = {
        "memories": [{"content_hash": "h", "content": "a", "tags": "x", "created_at_iso": "2026-01-01T10:00:00"}]
    }
    assert read(FORMAT, database(tmp_path / "old.db", schema, rows)) == [MemoryItem("h", "a", tags=("x",), at=AT)]


def test_memories_in_chroma_are_read_with_both_forms_of_tags(tmp_path: Path) -> None:
    pairs: list[dict[str, object]] = [
        {"id": 1, "key": "chroma:document", "string_value": "Retry twice"},
        {"id": 1, "key": "content_hash", "string_value": "h1"},
        {"id": 1, "key": "tags", "string_value": '["net", "style"]'},
        {"id": 1, "key": "type", "string_value": "insight"},
        {"id": 1, "key": "timestamp_float", "float_value": SECONDS},
        {"id": 1, "key": "author", "string_value": "sam"},
        {"id": 2, "key": "chroma:document", "string_value": "Use tabs"},
        {"id": 2, "key": "content_hash", "string_value": "h2"},
        {"id": 2, "key": "tags_str", "string_value": "a,b"},
        {"id": 2, "key": "created_at", "float_value": SECONDS},
    ]
    rows: Rows = {
        "embeddings": [{"embedding_id": "h1"}, {"embedding_id": "h2"}, {"embedding_id": "h3"}],
        "embedding_metadata": pairs,
    }
    folder = tmp_path / "chroma_db"
    folder.mkdir()
    database(folder / "chroma.sqlite3", CHROMA, rows)
    found = read(FORMAT, folder)
    assert found[:2] == [
        MemoryItem("h1", "Retry twice", "lesson", ("net", "style"), at=AT, data={"metadata": {"author": "sam"}}),
        MemoryItem("h2", "Use tabs", tags=("a", "b"), at=AT),
    ]
    assert skipped(found) == [("embeddings row 3", "no content")]


def test_an_export_is_read_with_its_embeddings(tmp_path: Path) -> None:
    memory = {
        **{"content": "Retry twice", "content_hash": "h1", "tags": ["net"], "created_at": SECONDS, "updated_at": None},
        **{"memory_type": "note", "metadata": {"a": 1}, "export_source": "desk", "embedding": [0.5, 0.25]},
    }
    bad = [{"content": "x"}, {"content": None, "content_hash": "h"}, {**memory, "created_at": "never"}, 7]
    path = tmp_path / "export.json"
    path.write_text(json.dumps({"export_metadata": {"filter_tags": ["net"]}, "memories": [memory, *bad]}, indent=2))
    found = read(FORMAT, path)
    vector = array("f", [0.5, 0.25])
    assert found[0] == MemoryItem("h1", "Retry twice", tags=("net",), at=AT, data={"metadata": {"a": 1}}, vector=vector)
    assert skipped(found) == [
        ("item 2", "no content hash"),
        ("item 3", "no content"),
        ("item 4", "impossible date"),
        ("item 5", "not a JSON object"),
    ]


def test_bad_rows_are_named_and_the_others_read(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"content_hash": "a", "content": Text(b"\xff")},
        {"content_hash": "b", "content": b"\x00"},
        {"content_hash": "c", "content": "  "},
        {"content_hash": None, "content": "x"},
        {"content_hash": "d", "content": "x", "created_at": "Monday"},
        {"content_hash": "e", "content": "good", "tags": b"\x00", "metadata": "[1]", "memory_type": 5},
    ]
    found = read(FORMAT, database(tmp_path / "bad.db", SCHEMA, {"memories": rows}))
    assert skipped(found) == [
        ("memories row 1", "content is not valid Unicode"),
        ("memories row 2", "content is not text"),
        ("memories row 3", "no content"),
        ("memories row 4", "no content hash"),
        ("memories row 5", "impossible date"),
    ]
    assert found[-1] == MemoryItem("e", "good", kind="5")


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    core = database(tmp_path / "core.db", "CREATE TABLE memories (content, memory_type, importance, workspace)")
    with pytest.raises(NotOfFormat, match=r"of engram-core, not of mcp-memory-service\. .*engram import engram-core"):
        FORMAT.find(core)
    chroma = database(tmp_path / "chroma.sqlite3", CHROMA)
    with pytest.raises(NotOfFormat, match="is a database of Chroma, not of mcp-memory-service"):
        FORMAT.find(chroma)
    dump = tmp_path / "dump.json"
    dump.write_text('[{"id": "a", "memory": "x"}]')
    with pytest.raises(NotOfFormat, match="is a dump of mem0, not of mcp-memory-service"):
        FORMAT.find(dump)
    assert list(FORMAT.find(tmp_path)) == []
