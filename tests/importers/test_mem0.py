"""What mem0 keeps: its history, vector stores in SQLite, and dumps of its API."""

from __future__ import annotations

import json
import pickle
from array import array
from pathlib import Path

import pytest

from engram import NotOfFormat
from engram.importers.formats import get
from engram.importers.items import MemoryItem

from ._databases import Rows, Text, database, read, skipped

HISTORY = """
CREATE TABLE history (id TEXT PRIMARY KEY, memory_id TEXT, old_memory TEXT, new_memory TEXT, event TEXT,
    created_at DATETIME, updated_at DATETIME, is_deleted INTEGER, actor_id TEXT, role TEXT);
CREATE TABLE messages (id TEXT PRIMARY KEY, session_scope TEXT, role TEXT, content TEXT);
"""
TYPESCRIPT = """
CREATE TABLE memory_history (id INTEGER PRIMARY KEY AUTOINCREMENT, memory_id TEXT, previous_value TEXT,
    new_value TEXT, action TEXT, created_at TEXT, updated_at TEXT, is_deleted INTEGER DEFAULT 0);
"""
VECTORS = "CREATE TABLE vectors (id TEXT PRIMARY KEY, vector BLOB NOT NULL, payload TEXT NOT NULL)"
CHROMA = """
CREATE TABLE collections (id TEXT PRIMARY KEY, name TEXT);
CREATE TABLE embeddings (id INTEGER PRIMARY KEY, segment_id TEXT, embedding_id TEXT, seq_id BLOB, created_at TIMESTAMP);
CREATE TABLE embedding_metadata (id INTEGER, key TEXT, string_value TEXT, int_value INTEGER, float_value REAL,
    bool_value INTEGER, PRIMARY KEY (id, key));
"""
OPENMEMORY = """
CREATE TABLE users (id CHAR(32), user_id VARCHAR);
CREATE TABLE apps (id CHAR(32), name VARCHAR);
CREATE TABLE categories (id CHAR(32), name VARCHAR);
CREATE TABLE memory_categories (memory_id CHAR(32), category_id CHAR(32));
CREATE TABLE memories (id CHAR(32), user_id CHAR(32), app_id CHAR(32), content VARCHAR, vector VARCHAR, metadata JSON,
    state VARCHAR(8), created_at DATETIME, updated_at DATETIME, archived_at DATETIME, deleted_at DATETIME);
"""
FORMAT = get("mem0")
ONE, TWO = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
AT = "2026-01-0{}T10:00:00+00:00"


def event(memory: str, name: str, old: object, new: object, day: int, changed: int | None = None) -> dict[str, object]:
    return {
        **{"id": f"{memory}/{name}/{day}/{changed}", "memory_id": memory, "event": name},
        **{"old_memory": old, "new_memory": new, "created_at": f"2026-01-0{day}T02:00:00-08:00"},
        **{"updated_at": None if changed is None else AT.format(changed), "is_deleted": int(name == "DELETE")},
    }


def test_the_history_gives_the_current_text_of_each_memory(tmp_path: Path) -> None:
    path = database(
        tmp_path / "history.db",
        HISTORY,
        {
            "history": [
                {**event(ONE, "ADD", None, "Likes tea", 1), "actor_id": "sam", "role": "user"},
                event(TWO, "ADD", None, "Lives in Rome", 2),
                event(ONE, "UPDATE", "Likes tea", "Likes green tea", 1, 3),
                event(TWO, "DELETE", "Lives in Rome", None, 2, 4),
            ],
            "messages": [{"id": "m", "role": "user", "content": "not imported"}],
        },
    )
    assert read(FORMAT, path) == [
        MemoryItem(
            ONE,
            "Likes green tea",
            "fact",
            at=AT.format(1),
            data={"metadata": {"actor_id": "sam", "role": "user"}, "updated_at": AT.format(3)},
        ),
        MemoryItem(TWO, "Lives in Rome", "fact", at=AT.format(2), is_archived=True, data={"updated_at": AT.format(4)}),
    ]


def test_the_history_of_the_typescript_version_is_read_too(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {
            "memory_id": ONE,
            "previous_value": None,
            "new_value": "Likes tea",
            "action": "ADD",
            "created_at": AT.format(1),
        },
        {"memory_id": ONE, "previous_value": "Likes tea", "new_value": "Likes mate", "action": "UPDATE"},
    ]
    path = database(tmp_path / "memory.db", TYPESCRIPT, {"memory_history": rows})
    assert read(FORMAT, path) == [MemoryItem(ONE, "Likes mate", "fact", at=AT.format(1))]


def test_a_vector_store_in_sqlite_gives_texts_owners_and_vectors(tmp_path: Path) -> None:
    vector = array("f", [0.5, 0.25])
    payload = {
        **{"data": "Likes tea", "hash": "x", "userId": "sam", "createdAt": AT.format(1), "updatedAt": AT.format(2)},
        **{"textLemmatized": "like tea", "mood": "good"},
    }
    rows: Rows = {
        "vectors": [
            {"id": ONE, "vector": vector.tobytes(), "payload": json.dumps(payload)},
            {"id": TWO, "vector": vector.tobytes(), "payload": "{broken"},
        ]
    }
    found = read(FORMAT, database(tmp_path / "vector_store.db", VECTORS, rows))
    assert found[0] == MemoryItem(
        ONE,
        "Likes tea",
        "fact",
        ("user:sam",),
        at=AT.format(1),
        data={"user_id": "sam", "metadata": {"mood": "good"}, "updated_at": AT.format(2)},
        vector=vector,
    )
    assert skipped(found) == [("vectors row 2", "payload is not a JSON object")]


def test_memories_in_chroma_are_read(tmp_path: Path) -> None:
    pairs: list[dict[str, object]] = [
        {"id": 1, "key": "data", "string_value": "Likes tea"},
        {"id": 1, "key": "hash", "string_value": "x"},
        {"id": 1, "key": "created_at", "string_value": AT.format(1)},
        {"id": 1, "key": "agent_id", "string_value": "helper"},
        {"id": 1, "key": "rating", "float_value": 0.5},
        {"id": 1, "key": "sure", "bool_value": 1},
    ]
    rows: Rows = {"embeddings": [{"embedding_id": ONE}, {"embedding_id": TWO}], "embedding_metadata": pairs}
    found = read(FORMAT, database(tmp_path / "chroma.sqlite3", CHROMA, rows))
    data = {"agent_id": "helper", "metadata": {"rating": 0.5, "sure": True}}
    assert found[0] == MemoryItem(ONE, "Likes tea", "fact", at=AT.format(1), data=data)
    assert skipped(found) == [("embeddings row 2", "no text")]


def test_the_database_of_openmemory_is_read(tmp_path: Path) -> None:
    plain = ONE.replace("-", "")
    row = {"user_id": "u", "app_id": "a", "created_at": "2026-01-01 10:00:00.000000", "updated_at": None}
    rows: Rows = {
        "users": [{"id": "u", "user_id": "sam"}],
        "apps": [{"id": "a", "name": "cursor"}],
        "categories": [{"id": "c", "name": "food"}],
        "memory_categories": [{"memory_id": plain, "category_id": "c"}],
        "memories": [
            {"id": plain, "content": "Likes tea", "metadata": '{"x": 1}', "state": "active", **row},
            {"id": "odd", "content": "Hated tea", "metadata": None, "state": "deleted", **row},
        ],
    }
    first, second = read(FORMAT, database(tmp_path / "openmemory.db", OPENMEMORY, rows))
    data = {"user_id": "sam", "metadata": {"x": 1, "app": "cursor"}}
    assert first == MemoryItem(ONE, "Likes tea", "fact", ("food", "user:sam"), at=AT.format(1), data=data)
    assert isinstance(second, MemoryItem) and second.id == "odd" and second.is_archived


MEMORY = {
    **{"id": ONE, "memory": "Likes tea", "user_id": "sam", "agent_id": None, "hash": "x", "score": 0.3},
    **{"metadata": {"source": "chat"}, "categories": ["food", "drinks"]},
    **{"created_at": "2026-01-01T02:00:00-08:00", "updated_at": AT.format(2)},
}
EXPECTED = MemoryItem(
    ONE,
    "Likes tea",
    "fact",
    ("food", "drinks", "user:sam"),
    at=AT.format(1),
    data={"user_id": "sam", "metadata": {"source": "chat"}, "updated_at": AT.format(2)},
)


@pytest.mark.parametrize(
    "dump", [[MEMORY], {"results": [MEMORY], "relations": []}, {"count": 1, "next": None, "results": [MEMORY]}]
)
def test_a_dump_of_the_api_is_read_in_each_of_its_forms(tmp_path: Path, dump: object) -> None:
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(dump))
    assert read(FORMAT, path) == [EXPECTED]


def test_two_memories_of_a_dump_with_one_id_are_both_kept(tmp_path: Path) -> None:
    said = ["Has a cat.", "Has a dog.", "Has a cat."]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"results": [{"id": ONE, "memory": text} for text in said]}))
    found = [item for item in read(FORMAT, path) if isinstance(item, MemoryItem)]
    assert [item.text for item in found] == said
    assert found[0].id == found[2].id == ONE and found[1].id.startswith(f"{ONE}~")


def test_bad_records_are_named_and_the_others_read(tmp_path: Path) -> None:
    path = tmp_path / "dump.json"
    path.write_text(
        json.dumps(
            [
                MEMORY,
                {"id": TWO, "memory": None},
                {"memory": "no id"},
                {"id": TWO, "memory": "x", "created_at": "never"},
                "text",
                {"id": 3, "memory": "fine", "metadata": float("nan"), "categories": "a, b"},
            ]
        )
    )
    found = read(FORMAT, path)
    assert skipped(found) == [
        ("item 2", "no text"),
        ("item 3", "no id"),
        ("item 4", "impossible date"),
        ("item 5", "not a JSON object"),
    ]
    assert found[-1] == MemoryItem("3", "fine", "fact", ("a", "b"))
    history = database(
        tmp_path / "history.db",
        HISTORY,
        {
            "history": [
                event("a", "ADD", None, Text(b"\xff"), 1),
                event("b", "ADD", None, b"\x00", 1),
                event("b", "UPDATE", "old", "good", 1),
                {**event("c", "ADD", None, "x", 1), "created_at": "2026-02-31"},
                {**event("d", "ADD", None, "x", 1), "memory_id": None},
            ]
        },
    )
    found = read(FORMAT, history)
    assert skipped(found) == [
        ("history row 5", "no memory_id"),
        ("history row 1", "text is not valid Unicode"),
        ("history row 2", "text is not text"),
        ("history of memory c", "impossible date"),
    ]
    assert MemoryItem("b", "good", "fact", at=AT.format(1)) in found


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (Path.touch, (Path("exploded"),))  # type: ignore[return-value]


def test_what_is_pickled_is_refused_and_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    point = pickle.dumps(Bomb())
    schema = "CREATE TABLE points (id TEXT PRIMARY KEY, point BLOB)"
    qdrant = database(tmp_path / "storage.sqlite", schema, {"points": [{"id": "a", "point": point}]})
    (tmp_path / "faiss.pkl").write_bytes(point)
    for path in (qdrant, tmp_path / "faiss.pkl"):
        with pytest.raises(NotOfFormat, match=r"holds pickled Python objects.*history\.db.*get_all"):
            FORMAT.find(path)
    assert list(FORMAT.find(tmp_path)) == []
    assert not (tmp_path / "exploded").exists()


def test_a_folder_gives_all_that_can_be_read_and_the_history_last(tmp_path: Path) -> None:
    database(tmp_path / "history.db", HISTORY)
    database(tmp_path / "vector_store.db", VECTORS)
    database(tmp_path / "other.db", "CREATE TABLE something (id)")
    (tmp_path / "config.json").write_text('{"user_id": "x"}')
    (tmp_path / "memories.json").write_text(json.dumps({"results": [MEMORY]}))
    assert [source.name for source in FORMAT.find(tmp_path)] == ["memories.json", "vector_store.db", "history.db"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            '{"memories": [{"content": "a", "content_hash": "b"}]}',
            "is a dump of mcp-memory-service, not of mem0.*import mcp",
        ),
        ('[{"mapping": {}}]', "neither a database nor a dump of mem0"),
        ("hello", "neither a database nor a dump of mem0"),
        ("", "neither a database nor a dump of mem0"),
    ],
)
def test_a_file_of_another_format_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(content)
    with pytest.raises(NotOfFormat, match=message):
        FORMAT.find(path)
