"""The database of Symbiont: sessions with their own ids, logs, locks, and the world state."""

from __future__ import annotations

from pathlib import Path

import pytest

from engram import NotOfFormat, StoreBusy
from engram.importers import foreign
from engram.importers.formats import get
from engram.importers.items import (
    BlockItem,
    BlockVersion,
    EndItem,
    LockItem,
    Options,
    SessionItem,
    Turn,
)
from engram.importers.recognise import format_of

from ._databases import Rows, Text, database, other_program, read, skipped

SCHEMA = """
CREATE TABLE world_state (id INTEGER PRIMARY KEY CHECK (id = 1), updated_at TEXT, updated_by TEXT, content TEXT);
CREATE TABLE sessions (id TEXT PRIMARY KEY, session_type TEXT, summary TEXT, status TEXT DEFAULT 'active',
    started_at TEXT, last_heartbeat TEXT, completed_at TEXT, completion_summary TEXT, metadata TEXT);
CREATE TABLE session_logs (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT, timestamp TEXT, entry TEXT);
CREATE TABLE resource_locks (resource TEXT, session_id TEXT, locked_at TEXT, note TEXT,
    PRIMARY KEY (resource, session_id));
"""
FORMAT = get("symbiont")
PYTHON, ELIXIR = "20260301-093000-0a1b2c3d", "20260302083000-deadbeef"
BERLIN = Options(timezone="Europe/Berlin")


def made(folder: Path, rows: Rows, schema: str = SCHEMA) -> Path:
    return database(folder / "symbiont.db", schema, rows)


def test_sessions_of_both_versions_come_with_their_ids_times_logs_and_locks(tmp_path: Path) -> None:
    path = made(
        tmp_path,
        {
            "sessions": [
                {
                    **{"id": PYTHON, "session_type": "cowork", "summary": "Port the router", "status": "completed"},
                    **{"started_at": "2026-03-01T09:30:00.500000", "last_heartbeat": "2026-03-01T10:00:00"},
                    **{"completed_at": "2026-03-01T10:05:00", "completion_summary": "Ported; tests pass"},
                    "metadata": '{"branch": "router"}',
                },
                {
                    **{"id": ELIXIR, "session_type": "code", "summary": "Write the docs", "status": "active"},
                    **{"started_at": "2026-03-02T08:30:00Z", "last_heartbeat": "2026-03-02T08:45:00Z"},
                    "metadata": "free text",
                },
            ],
            "session_logs": [
                {"session_id": PYTHON, "timestamp": "2026-03-01T09:40:00", "entry": "began"},
                {"session_id": ELIXIR, "timestamp": "2026-03-02T08:31:00.123Z", "entry": "reading"},
                {"session_id": PYTHON, "timestamp": "2026-03-01T08:50:00Z", "entry": "router done"},
            ],
            "resource_locks": [
                {"resource": "docs/a.md", "session_id": ELIXIR, "locked_at": "2026-03-02T08:32:00Z", "note": "mine"},
                {"resource": "docs/b.md", "session_id": ELIXIR, "locked_at": "2026-03-02T08:30:30Z", "note": None},
            ],
            "world_state": [
                {"id": 1, "updated_at": "2026-03-02T10:00:00", "updated_by": PYTHON, "content": "All is well."}
            ],
        },
    )
    assert read(FORMAT, path, BERLIN._replace(project="acme/router")) == [
        SessionItem(
            PYTHON,
            "cowork",
            started_at="2026-03-01T08:30:00.500000+00:00",
            last_at="2026-03-01T09:05:00+00:00",
            project="acme/router",
            metadata={"branch": "router"},
            summary="Port the router",
            outcome="Ported; tests pass",
            heartbeat_at="2026-03-01T09:00:00+00:00",
            keep_id=True,
        ),
        Turn(PYTHON, "log", "began", "2026-03-01T08:40:00+00:00", "1"),
        Turn(PYTHON, "log", "router done", "2026-03-01T08:50:00+00:00", "3"),
        EndItem(PYTHON),
        SessionItem(
            ELIXIR,
            "code",
            started_at="2026-03-02T08:30:00+00:00",
            last_at="2026-03-02T08:45:00+00:00",
            project="acme/router",
            metadata={"metadata": "free text"},
            summary="Write the docs",
            status="active",
            heartbeat_at="2026-03-02T08:45:00+00:00",
            keep_id=True,
        ),
        LockItem(ELIXIR, "docs/b.md", None, "2026-03-02T08:30:30+00:00"),
        Turn(ELIXIR, "log", "reading", "2026-03-02T08:31:00.123000+00:00", "2"),
        LockItem(ELIXIR, "docs/a.md", "mine", "2026-03-02T08:32:00+00:00"),
        EndItem(ELIXIR),
        BlockItem("world", (BlockVersion("All is well.", "2026-03-02T09:00:00+00:00", actor=PYTHON),)),
    ]


def test_logs_and_locks_without_a_session_are_kept_under_one_made_for_them(tmp_path: Path) -> None:
    path = made(
        tmp_path,
        {
            "session_logs": [
                {"session_id": "gone", "timestamp": "2026-03-01T09:00:00Z", "entry": "first"},
                {"session_id": "gone", "timestamp": "2026-03-01T09:10:00Z", "entry": "second"},
            ],
            "resource_locks": [
                {"resource": "db", "session_id": "lost", "locked_at": "2026-03-03T09:00:00Z", "note": None}
            ],
        },
    )
    assert read(FORMAT, path) == [
        SessionItem(
            "gone",
            "symbiont",
            started_at="2026-03-01T09:00:00+00:00",
            last_at="2026-03-01T09:10:00+00:00",
            name="Logs without a session",
            keep_id=True,
        ),
        Turn("gone", "log", "first", "2026-03-01T09:00:00+00:00", "1"),
        Turn("gone", "log", "second", "2026-03-01T09:10:00+00:00", "2"),
        EndItem("gone"),
        SessionItem(
            "lost",
            "symbiont",
            started_at="2026-03-03T09:00:00+00:00",
            last_at="2026-03-03T09:00:00+00:00",
            name="Locks without a session",
            status="active",
            heartbeat_at="2026-03-03T09:00:00+00:00",
            keep_id=True,
        ),
        LockItem("lost", "db", None, "2026-03-03T09:00:00+00:00"),
        EndItem("lost"),
    ]


@pytest.mark.parametrize(
    ("status", "completed", "expected"),
    [
        ("active", None, "active"),
        (None, None, "active"),
        (None, "2026-03-01T10:00:00Z", "completed"),
        ("Completed", None, "completed"),
        ("abandoned", None, "abandoned"),
        ("stale", None, "abandoned"),
        ("done", "2026-03-01T10:00:00Z", "completed"),
    ],
)
def test_a_status_is_one_that_engram_knows(
    tmp_path: Path, status: str | None, completed: str | None, expected: str
) -> None:
    path = made(tmp_path, {"sessions": [{"id": "a", "status": status, "completed_at": completed}]})
    session = read(FORMAT, path)[0]
    assert isinstance(session, SessionItem) and session.status == expected
    assert session.type == "symbiont"


def test_an_older_file_lacks_tables_and_columns(tmp_path: Path) -> None:
    schema = """
        CREATE TABLE sessions (id TEXT PRIMARY KEY, session_type TEXT, summary TEXT, started_at TEXT);
        CREATE TABLE session_logs (session_id TEXT, timestamp TEXT, entry TEXT);
    """
    rows: Rows = {
        "sessions": [{"id": "a", "session_type": "code", "summary": "Work", "started_at": None}],
        "session_logs": [{"session_id": "a", "timestamp": None, "entry": "did it"}],
    }
    assert read(FORMAT, made(tmp_path, rows, schema)) == [
        SessionItem("a", "code", summary="Work", status="active", keep_id=True),
        Turn("a", "log", "did it", None, None),
        EndItem("a"),
    ]


def test_bad_rows_are_named_and_the_others_read(tmp_path: Path) -> None:
    schema = SCHEMA.replace("id TEXT PRIMARY KEY", "id TEXT").replace("CHECK (id = 1)", "")
    path = made(
        tmp_path,
        {
            "sessions": [
                {"id": "a", "summary": Text(b"\xff"), "started_at": "yesterday", "metadata": b"\x00"},
                {"id": "a", "summary": "again"},
                {"id": None, "summary": "nobody"},
                {"id": b"blob", "summary": "nobody"},
            ],
            "session_logs": [
                {"session_id": "a", "timestamp": "2026-02-30T00:00:00", "entry": "impossible"},
                {"session_id": "a", "timestamp": None, "entry": None},
                {"session_id": "a", "timestamp": None, "entry": Text(b"\xff\xfe")},
                {"session_id": "a", "timestamp": None, "entry": b"\x01"},
                {"session_id": None, "timestamp": None, "entry": "nobody's"},
                {"session_id": "a", "timestamp": "2026-03-01T09:00:00Z", "entry": "good"},
            ],
            "resource_locks": [{"resource": " ", "session_id": "a", "locked_at": None, "note": None}],
            "world_state": [
                {"id": 1, "updated_at": None, "updated_by": b"x", "content": "fine"},
                {"id": 2, "updated_at": None, "updated_by": None, "content": "odd"},
                {"id": 3, "updated_at": None, "updated_by": None, "content": ""},
            ],
        },
        schema,
    )
    found = read(FORMAT, path)
    assert skipped(found) == [
        ("sessions row 3", "no id"),
        ("sessions row 4", "no id"),
        ("session_logs row 5", "no session_id"),
        ("resource_locks row 1", "no resource"),
        ("session_logs row 1", "impossible date"),
        ("session_logs row 2", "no entry"),
        ("session_logs row 3", "entry is not valid Unicode"),
        ("session_logs row 4", "entry is not text"),
        ("sessions row 2", "another row of the same session"),
        ("world_state row 2", "not the world state"),
        ("world_state row 3", "not the world state"),
    ]
    assert SessionItem("a", "symbiont", last_at="2026-03-01T09:00:00+00:00", status="active", keep_id=True) in found
    assert Turn("a", "log", "good", "2026-03-01T09:00:00+00:00", "6") in found
    assert BlockItem("world", (BlockVersion("fine"),)) in found


def test_a_file_of_another_system_is_refused_with_the_command_to_type(tmp_path: Path) -> None:
    lyra = database(tmp_path / "my lyra.db", "CREATE TABLE exchanges (id, session_id, role, content)")
    with pytest.raises(NotOfFormat, match=r"is a database of Lyra, not of Symbiont\. .*engram import lyra '.*my lyra"):
        FORMAT.find(lyra)
    other = database(tmp_path / "other.db", "CREATE TABLE something (id)")
    with pytest.raises(NotOfFormat, match=r"none of the tables of Symbiont"):
        FORMAT.find(other)


def test_in_a_folder_the_files_of_other_systems_are_passed_over(tmp_path: Path) -> None:
    own = made(tmp_path, {})
    database(tmp_path / "other.db", "CREATE TABLE something (id)")
    (tmp_path / "broken.db").write_bytes(b"nothing")
    assert [source.path for source in FORMAT.find(tmp_path)] == [own]


def test_hostile_names_and_texts_are_data(tmp_path: Path) -> None:
    evil = "'; DROP TABLE sessions; --\" \n\x1b[31m"
    rows: Rows = {
        "sessions": [{"id": evil, "session_type": evil, "summary": evil, "metadata": "[" * 100_000}],
        "session_logs": [{"session_id": evil, "timestamp": None, "entry": evil}],
    }
    session, log, end = read(FORMAT, made(tmp_path, rows))
    assert isinstance(session, SessionItem) and session.id == session.type == session.summary == evil
    assert session.metadata == {"metadata": "[" * 100_000}
    assert log == Turn(evil, "log", evil, None, "1") and end == EndItem(evil)


def test_a_file_in_a_folder_that_is_locked_is_not_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "_PATIENCE", 10)
    path = made(tmp_path, {})
    with other_program(path, "BEGIN EXCLUSIVE"), pytest.raises(StoreBusy):
        FORMAT.find(tmp_path)


def test_a_file_tells_which_format_reads_it(tmp_path: Path) -> None:
    other = database(tmp_path / "other.db", "CREATE TABLE something (id)")
    qdrant = database(tmp_path / "storage.sqlite", "CREATE TABLE points (id, point)")
    (tmp_path / "text").write_text("hello")
    found = [format_of(path) for path in (made(tmp_path, {}), other, qdrant, tmp_path / "text", tmp_path / "nowhere")]
    assert found == ["symbiont", None, None, None, None]
