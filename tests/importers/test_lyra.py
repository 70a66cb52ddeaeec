"""The database of Lyra: exchanges, summaries, months, and the texts about the user and herself."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest

from engram import NotOfFormat
from engram.importers.formats import get
from engram.importers.items import (
    BlockItem,
    BlockVersion,
    EndItem,
    GistItem,
    MemoryItem,
    Options,
    SessionItem,
    Turn,
)

from ._databases import Rows, Text, database, read, skipped

SCHEMA = """
CREATE TABLE exchanges (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT, role TEXT, content TEXT,
    embedding BLOB, created_at TEXT);
CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT, created_at TEXT);
CREATE TABLE summaries (session_id TEXT PRIMARY KEY, content TEXT, embedding BLOB, last_exchange_id INTEGER,
    created_at TEXT);
CREATE TABLE profile (id TEXT PRIMARY KEY, content TEXT, sessions_covered INTEGER, updated_at TEXT);
CREATE TABLE eras (month TEXT PRIMARY KEY, content TEXT, embedding BLOB, session_count INTEGER, created_at TEXT);
CREATE TABLE narrative (id TEXT PRIMARY KEY, content TEXT, updated_at TEXT);
CREATE TABLE self_state (id TEXT PRIMARY KEY, data TEXT, updated_at TEXT);
"""
FORMAT = get("lyra")
UTC = Options(timezone="UTC")
DAY = "2026-05-0{}T12:00:00+00:00"


def made(folder: Path, rows: Rows, schema: str = SCHEMA) -> Path:
    return database(folder / "lyra.db", schema, rows)


def said(session: str, content: str, day: int, role: str = "user") -> dict[str, object]:
    return {"session_id": session, "role": role, "content": content, "created_at": f"2026-05-0{day}T12:00:00"}


def test_a_talk_comes_session_by_session_with_the_summary_after_the_turn_it_covers(tmp_path: Path) -> None:
    vector = array("f", [0.5, -1.0, 0.25])
    path = made(
        tmp_path,
        {
            "exchanges": [
                {**said("tea", "I like tea", 1), "embedding": vector.tobytes()},
                {**said("late", "Hello", 2), "created_at": "2026-05-02T14:00:00+02:00"},
                said("tea", "Noted", 1, "assistant"),
                said("tea", "And coffee", 3),
            ],
            "sessions": [{"id": "tea", "name": "Tea", "created_at": "2026-05-01T11:00:00"}],
            "summaries": [
                {
                    **{"session_id": "tea", "content": "They like tea.", "embedding": vector.tobytes()},
                    **{"last_exchange_id": 3, "created_at": "2026-05-01T13:00:00"},
                }
            ],
        },
    )
    assert read(FORMAT, path, UTC) == [
        SessionItem(
            "tea", "lyra", started_at="2026-05-01T11:00:00+00:00", last_at=DAY.format(3), name="Tea", keep_id=True
        ),
        Turn("tea", "user", "I like tea", DAY.format(1), "1", vector=vector),
        Turn("tea", "assistant", "Noted", DAY.format(1), "3"),
        GistItem("tea", "They like tea.", "2026-05-01T13:00:00+00:00", is_final=True),
        Turn("tea", "user", "And coffee", DAY.format(3), "4"),
        EndItem("tea"),
        SessionItem("late", "lyra", started_at=DAY.format(2), last_at=DAY.format(2), keep_id=True),
        Turn("late", "user", "Hello", DAY.format(2), "2"),
        EndItem("late"),
    ]


@pytest.mark.parametrize(
    ("covered", "expected"),
    [
        (1, ["one", "GIST", "two", "three"]),
        (3, ["one", "two", "three", "GIST"]),
        (99, ["one", "two", "three", "GIST"]),
        (None, ["one", "two", "GIST", "three"]),
        ("three", ["one", "two", "GIST", "three"]),
    ],
)
def test_a_summary_covers_what_was_said_up_to_its_exchange_or_its_time(
    tmp_path: Path, covered: object, expected: list[str]
) -> None:
    rows: Rows = {
        "exchanges": [said("a", "one", 1), said("a", "two", 2), said("a", "three", 4)],
        "summaries": [
            {"session_id": "a", "content": "GIST", "last_exchange_id": covered, "created_at": "2026-05-03T00:00:00"}
        ],
    }
    found = read(FORMAT, made(tmp_path, rows), UTC)
    assert [item.text for item in found if isinstance(item, Turn | GistItem)] == expected


def test_a_summary_without_the_turns_that_it_covers_is_a_note(tmp_path: Path) -> None:
    rows: Rows = {
        "exchanges": [{"id": 50, **said("kept", "left over", 1)}],
        "summaries": [
            {"session_id": "kept", "content": "Before that", "last_exchange_id": 20, "created_at": None},
            {"session_id": "gone", "content": "All gone", "last_exchange_id": 30, "created_at": None},
        ],
    }
    assert read(FORMAT, made(tmp_path, rows), UTC) == [
        SessionItem("kept", "lyra", started_at=DAY.format(1), last_at=DAY.format(1), keep_id=True),
        MemoryItem("summary-kept", "Before that", data={"session": "kept"}),
        Turn("kept", "user", "left over", DAY.format(1), "50"),
        EndItem("kept"),
        SessionItem("gone", "lyra", keep_id=True),
        MemoryItem("summary-gone", "All gone", data={"session": "gone"}),
        EndItem("gone"),
    ]


def test_a_role_is_one_that_engram_knows(tmp_path: Path) -> None:
    roles = {
        **{
            "user": ("user", None),
            "Human": ("user", None),
            "assistant": ("assistant", None),
            "lyra": ("assistant", None),
        },
        **{"tool": ("tool", None), "system": ("system", None), "inner voice": ("system", "import")},
    }
    path = made(tmp_path, {"exchanges": [said("a", role, 1, role) for role in roles]})
    turns = [item for item in read(FORMAT, path, UTC) if isinstance(item, Turn)]
    assert {turn.text: (turn.role, turn.trust) for turn in turns} == roles


def test_months_and_blocks_come_with_their_data(tmp_path: Path) -> None:
    vector = array("f", [1.0])
    path = made(
        tmp_path,
        {
            "eras": [
                {
                    **{"month": "2026-05", "content": "A month of tea", "embedding": vector.tobytes()},
                    **{"session_count": 7, "created_at": "2026-06-01T00:00:00Z"},
                }
            ],
            "profile": [
                {"id": "self", "content": "Likes tea", "sessions_covered": 7, "updated_at": "2026-06-01T00:00:00Z"},
                {"id": "other", "content": "Likes milk", "sessions_covered": None, "updated_at": None},
            ],
            "narrative": [{"id": "current", "content": "It began.", "updated_at": None}],
            "self_state": [
                {"id": "lyra", "data": '{"mood": "calm", "energy": 0.5, "notes": ["ü"]}', "updated_at": None},
                {"id": "draft", "data": "no JSON", "updated_at": None},
                {"id": "empty", "data": "{}", "updated_at": None},
            ],
        },
    )
    at = "2026-06-01T00:00:00+00:00"
    assert read(FORMAT, path) == [
        MemoryItem("era-2026-05", "A month of tea", "era", at=at, key="2026-05", data={"sessions": 7}, vector=vector),
        BlockItem("profile", (BlockVersion("Likes tea", at, actor="lyra"),), data={"sessions_covered": 7}),
        BlockItem("profile-other", (BlockVersion("Likes milk", actor="lyra"),)),
        BlockItem("narrative", (BlockVersion("It began.", actor="lyra"),)),
        BlockItem(
            "self",
            (BlockVersion('mood: calm\nenergy: 0.5\nnotes: ["ü"]', actor="lyra"),),
            data={"mood": "calm", "energy": 0.5, "notes": ["ü"]},
        ),
        BlockItem("self-draft", (BlockVersion("no JSON", actor="lyra"),)),
        BlockItem("self-empty", (BlockVersion("{}", actor="lyra"),), data={}),
    ]


def test_an_older_file_has_only_exchanges(tmp_path: Path) -> None:
    schema = "CREATE TABLE exchanges (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT)"
    path = made(tmp_path, {"exchanges": [{"session_id": "a", "role": "user", "content": "Hello"}]}, schema)
    assert read(FORMAT, path) == [
        SessionItem("a", "lyra", keep_id=True),
        Turn("a", "user", "Hello", None, "1"),
        EndItem("a"),
    ]


def test_bad_rows_are_named_and_the_others_read(tmp_path: Path) -> None:
    schema = SCHEMA.replace("session_id TEXT PRIMARY KEY", "session_id TEXT").replace("id TEXT PRIMARY KEY", "id TEXT")
    deep = "[" * 200 + "]" * 200
    path = made(
        tmp_path,
        {
            "exchanges": [
                {**said("a", "x", 1), "content": None},
                {**said("a", "x", 1), "content": Text(b"\xc3")},
                {**said("a", "x", 1), "content": b"\x00"},
                {**said("a", "x", 1), "role": None},
                {**said("a", "x", 1), "created_at": "2026-13-01"},
                {**said("a", "x", 1), "session_id": None},
                {**said("a", "good", 2), "embedding": b"\x00\x00\xc0\x7f", "created_at": 1777723200},
                {**said("a", "odd", 2), "embedding": b"abc"},
            ],
            "summaries": [
                {"session_id": "a", "content": " ", "last_exchange_id": 1},
                {"session_id": "a", "content": "fine", "last_exchange_id": 7},
                {"session_id": None, "content": "nobody's", "last_exchange_id": 7},
            ],
            "eras": [{"month": "2026-13", "content": "no month"}, {"month": "May", "content": "no month"}],
            "profile": [{"id": "self", "content": b"\x01"}],
            "self_state": [{"id": "lyra", "data": None}, {"id": "deep", "data": deep}, {"id": "nan", "data": "[NaN]"}],
        },
        schema,
    )
    found = read(FORMAT, path, UTC)
    assert skipped(found) == [
        ("exchanges row 6", "no session_id"),
        ("summaries row 3", "no session_id"),
        ("summaries row 1", "no content"),
        ("exchanges row 1", "no content"),
        ("exchanges row 2", "content is not valid Unicode"),
        ("exchanges row 3", "content is not text"),
        ("exchanges row 4", "no role"),
        ("exchanges row 5", "impossible date"),
        ("eras row 1", "impossible date"),
        ("eras row 2", "impossible date"),
        ("profile row 1", "content is not text"),
        ("self_state row 1", "no data"),
    ]
    assert [item for item in found if isinstance(item, Turn | GistItem)] == [
        Turn("a", "user", "good", DAY.format(2), "7"),
        GistItem("a", "fine", is_final=True),
        Turn("a", "user", "odd", DAY.format(2), "8"),
    ]
    # What cannot be stored as JSON is kept as the text it is.
    blocks = {item.name: (item.versions[0].content, item.data) for item in found if isinstance(item, BlockItem)}
    assert blocks == {"self-deep": (deep, None), "self-nan": ("[NaN]", None)}


def test_a_damaged_file_gives_what_can_be_read(tmp_path: Path) -> None:
    path = made(tmp_path, {"exchanges": [said("a", f"{number} " + "x" * 500, 1) for number in range(400)]})
    data = bytearray(path.read_bytes())
    middle = len(data) // 2 // 4096 * 4096
    data[middle : middle + 4096] = b"\xa5" * 4096
    path.write_bytes(data)
    found = read(FORMAT, path, UTC)
    assert [why for _, why in skipped(found)] == ["the file is damaged there"]
    assert 350 < sum(isinstance(item, Turn) for item in found) < 400
    assert found[-1] == EndItem("a")


def test_a_file_of_another_system_is_refused(tmp_path: Path) -> None:
    other = database(tmp_path / "other.db", "CREATE TABLE sessions (id, session_type); CREATE TABLE session_logs (id)")
    with pytest.raises(NotOfFormat, match=r"is a database of Symbiont, not of Lyra\. .*engram import symbiont "):
        FORMAT.find(other)
