"""The database of engram-core: blocks with all their versions, and memories with tags and links."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest

from engram import NotOfFormat
from engram.importers.formats import get
from engram.importers.items import BlockItem, BlockVersion, MemoryItem, Options

from ._databases import Rows, Text, database, read, skipped

BLOCKS = """
CREATE TABLE memory_blocks (name TEXT PRIMARY KEY, content TEXT NOT NULL DEFAULT '', version INTEGER DEFAULT 1,
    max_tokens INTEGER DEFAULT 4096, created_at TEXT, updated_at TEXT);
CREATE TABLE block_edit_log (id INTEGER PRIMARY KEY AUTOINCREMENT, block_name TEXT, old_content TEXT,
    new_content TEXT, edit_reason TEXT DEFAULT '', timestamp TEXT);
"""
MEMORIES = """
CREATE TABLE memories (id INTEGER PRIMARY KEY AUTOINCREMENT, content TEXT, memory_type TEXT DEFAULT 'note',
    importance REAL DEFAULT 0.5, created_at TEXT, updated_at TEXT, valid_to TEXT, metadata TEXT DEFAULT '{}',
    scope_type TEXT DEFAULT 'global', scope_id TEXT, workspace TEXT DEFAULT 'default', lifecycle_state TEXT);
CREATE TABLE tags (id INTEGER PRIMARY KEY, name TEXT UNIQUE COLLATE NOCASE);
CREATE TABLE memory_tags (memory_id INTEGER, tag_id INTEGER, PRIMARY KEY (memory_id, tag_id));
CREATE TABLE crossrefs (from_id INTEGER, to_id INTEGER, edge_type TEXT, source TEXT DEFAULT 'auto', valid_to TEXT);
CREATE TABLE embeddings (memory_id INTEGER PRIMARY KEY, embedding BLOB, model TEXT);
"""
FORMAT = get("engram-core")
AT = "2026-01-0{}T10:00:00+00:00"


def made(folder: Path, rows: Rows, schema: str = BLOCKS + MEMORIES) -> Path:
    return database(folder / "core.db", schema, rows)


def edit(old: str, new: str, day: int, reason: str = "", block: str = "notes") -> dict[str, object]:
    return {
        **{"block_name": block, "old_content": old, "new_content": new, "edit_reason": reason},
        "timestamp": f"2026-01-0{day}T10:00:00.000Z",
    }


def block(content: str, version: int, **more: object) -> dict[str, object]:
    days = {"created_at": "2026-01-01T10:00:00.000Z", "updated_at": "2026-01-09T10:00:00.000Z"}
    return {"name": "notes", "content": content, "version": version, "max_tokens": 512, **days, **more}


def test_a_block_comes_with_every_version(tmp_path: Path) -> None:
    edits = [edit("one", "two", 2, "better"), edit("x", "y", 2, block="other"), edit("two", "three", 3)]
    other = block("y", 2, name="other", max_tokens=0)
    path = made(tmp_path, {"memory_blocks": [block("three", 3), other], "block_edit_log": edits})
    assert read(FORMAT, path) == [
        BlockItem(
            "notes",
            [
                BlockVersion("one", AT.format(1)),
                BlockVersion("two", AT.format(2), "better"),
                BlockVersion("three", AT.format(3)),
            ],
            512,
        ),
        BlockItem("other", [BlockVersion("x", AT.format(1)), BlockVersion("y", AT.format(2))]),
    ]


@pytest.mark.parametrize(
    ("stored", "edits", "expected"),
    [
        # Never edited.
        (block("one", 1), [], [("one", 9)]),
        # The log was cut: it begins where it begins.
        (block("four", 4), [edit("three", "four", 4)], [("three", None), ("four", 4)]),
        # An edit is missing within the log, and one after it.
        (
            block("five", 5),
            [edit("one", "two", 2), edit("three", "four", 4)],
            [("one", None), ("two", 2), ("three", 2), ("four", 4), ("five", 9)],
        ),
        # An empty block.
        (block("", 2), [edit("one", "", 2)], [("one", 1), ("", 2)]),
    ],
)
def test_versions_that_the_log_lacks_are_filled_in_from_what_is_known(
    tmp_path: Path,
    stored: dict[str, object],
    edits: list[dict[str, object]],
    expected: list[tuple[str, int | None]],
) -> None:
    (found,) = read(FORMAT, made(tmp_path, {"memory_blocks": [stored], "block_edit_log": edits}))
    assert isinstance(found, BlockItem)
    times = {AT.format(day): day for day in range(1, 10)}
    assert [(each.content, times.get(each.at or "")) for each in found.versions] == expected


def test_memories_come_with_kinds_tags_links_dates_and_their_workspace(tmp_path: Path) -> None:
    vector = array("f", [0.5, 0.25])
    day = {"created_at": "2026-01-01 10:00:00", "updated_at": "2026-01-01 10:00:00"}
    path = made(
        tmp_path,
        {
            "memories": [
                {"content": "Use tabs", "memory_type": "preference", "importance": 0.9, **day},
                {
                    **{"content": "Retry twice", "memory_type": "learning", "workspace": "shop", "importance": 7},
                    **{"created_at": "2026-01-02T10:00:00Z", "updated_at": "2026-01-03T10:00:00Z"},
                    **{"metadata": '{"file": "a.py"}', "scope_type": "agent", "scope_id": "coder"},
                },
                {
                    "content": "Old",
                    "memory_type": "Issue",
                    "valid_to": "2026-01-05T00:00:00Z",
                    "metadata": "free",
                    **day,
                },
                {"content": "Older", "memory_type": "era", "lifecycle_state": "archived", **day},
            ],
            "tags": [{"id": 1, "name": "style"}, {"id": 2, "name": "net"}],
            "memory_tags": [
                {"memory_id": 2, "tag_id": 2},
                {"memory_id": 1, "tag_id": 1},
                {"memory_id": 2, "tag_id": 1},
                {"memory_id": 2, "tag_id": 9},
            ],
            "crossrefs": [
                {"from_id": 2, "to_id": 1, "edge_type": "depends_on", "source": "manual"},
                {"from_id": 2, "to_id": 3, "edge_type": "related_to"},
                {"from_id": 2, "to_id": 99, "edge_type": "related_to", "source": "manual"},
                {"from_id": 2, "to_id": 3, "edge_type": "extends", "source": "llm", "valid_to": "2026-01-05"},
            ],
            "embeddings": [{"memory_id": 1, "embedding": vector.tobytes(), "model": "tfidf"}],
        },
    )
    first = "1@2026-01-01 10:00:00"
    assert read(FORMAT, path, Options(project="acme")) == [
        MemoryItem(first, "Use tabs", "preference", ("style",), 0.9, AT.format(1), project="acme", vector=vector),
        MemoryItem(
            "2@2026-01-02T10:00:00Z",
            "Retry twice",
            "lesson",
            ("net", "style", "workspace:shop"),
            None,
            AT.format(2),
            project="acme",
            data={
                "metadata": {"file": "a.py"},
                "workspace": "shop",
                "scope": "agent:coder",
                "updated_at": AT.format(3),
            },
            links=((first, "depends_on"),),
        ),
        MemoryItem(
            "3@2026-01-01 10:00:00",
            "Old",
            "issue",
            (),
            0.5,
            AT.format(1),
            is_archived=True,
            project="acme",
            data={"metadata": "free"},
        ),
        # A kind that Engram's own passes make is not taken from a name.
        MemoryItem("4@2026-01-01 10:00:00", "Older", "note", (), 0.5, AT.format(1), is_archived=True, project="acme"),
    ]


def test_times_without_a_zone_are_utc_unless_the_user_says_otherwise(tmp_path: Path) -> None:
    path = made(tmp_path, {"memories": [{"content": "a", "created_at": "2026-01-01 10:00:00"}]})
    (found,) = read(FORMAT, path, Options(timezone="America/New_York"))
    assert isinstance(found, MemoryItem) and found.at == "2026-01-01T15:00:00+00:00"


def test_an_older_file_lacks_columns_and_keeps_tags_elsewhere(tmp_path: Path) -> None:
    schema = """
        CREATE TABLE memories (id INTEGER PRIMARY KEY, content TEXT, memory_type TEXT, importance REAL, tags TEXT);
        CREATE TABLE memory_tags (memory_id INTEGER, tag TEXT);
    """
    rows: Rows = {
        "memories": [{"content": "a", "memory_type": None, "importance": None, "tags": '["x", "y"]'}],
        "memory_tags": [{"memory_id": 1, "tag": "y"}, {"memory_id": 1, "tag": "z"}],
    }
    assert read(FORMAT, made(tmp_path, rows, schema)) == [MemoryItem("1", "a", "note", ("y", "z", "x"))]
    only_blocks = database(tmp_path / "blocks.db", BLOCKS, {"memory_blocks": [block("one", 1)]})
    assert read(FORMAT, only_blocks) == [BlockItem("notes", [BlockVersion("one", AT.format(9))], 512)]


def test_bad_rows_are_named_and_the_others_read(tmp_path: Path) -> None:
    schema = BLOCKS.replace("content TEXT NOT NULL", "content TEXT") + MEMORIES
    path = made(
        tmp_path,
        {
            "memory_blocks": [block("two", 3), {"name": "empty", "content": None}, {"name": None, "content": "x"}],
            "block_edit_log": [
                {**edit("", "", 2), "new_content": b"\x00"},
                {**edit("one", "two", 2), "timestamp": "never"},
                edit("one", "two", 3),
                edit("a", "b", 3, block="deleted"),
            ],
            "memories": [
                {"content": None},
                {"content": Text(b"\xff")},
                {"content": "a", "created_at": "2026-02-31"},
                {"content": "good", "importance": "high", "metadata": b"\x01", "workspace": 5},
            ],
            "memory_tags": [{"memory_id": None, "tag_id": 1}],
        },
        schema,
    )
    found = read(FORMAT, path)
    assert skipped(found) == [
        ("memory_blocks row 3", "no name"),
        ("memory_tags row 1", "no memory_id"),
        ("block_edit_log row 1", "content is not text"),
        ("block_edit_log row 2", "impossible date"),
        ("memory_blocks 'empty'", "content is not text"),
        ("block_edit_log of 'deleted'", "its block is not there"),
        ("memories row 1", "no content"),
        ("memories row 2", "content is not valid Unicode"),
        ("memories row 3", "impossible date"),
    ]
    assert BlockItem("notes", [BlockVersion("one"), BlockVersion("two", AT.format(3))], 512) in found
    assert found[-1] == MemoryItem("4", "good", tags=("workspace:5",), data={"workspace": "5"})


def test_a_file_of_another_system_is_refused(tmp_path: Path) -> None:
    other = database(tmp_path / "other.db", "CREATE TABLE memories (content_hash, content, tags, memory_type)")
    with pytest.raises(
        NotOfFormat, match=r"of mcp-memory-service, not of engram-core.*engram import mcp-memory-service"
    ):
        FORMAT.find(other)
