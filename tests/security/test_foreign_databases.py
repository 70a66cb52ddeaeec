"""A database of another system is refused with the command that imports it, and stays exactly as it is."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import apsw
import pytest

from engram import Engram, NotAStore
from engram.config import load
from engram.maintenance import restore

SYSTEMS = {
    "symbiont": (
        "CREATE TABLE world_state (id INTEGER PRIMARY KEY, updated_at, updated_by, content)",
        "CREATE TABLE sessions (id TEXT PRIMARY KEY, session_type, summary, status, started_at, metadata)",
        "CREATE TABLE session_logs (id INTEGER PRIMARY KEY, session_id, timestamp, entry)",
        "CREATE TABLE resource_locks (resource TEXT PRIMARY KEY, session_id, locked_at, note)",
    ),
    "lyra": (
        "CREATE TABLE exchanges (id INTEGER PRIMARY KEY, session_id, role, content, embedding BLOB, created_at)",
        "CREATE TABLE sessions (id TEXT PRIMARY KEY, name, created_at)",
    ),
    "engram-core": (
        "CREATE TABLE memories (id INTEGER PRIMARY KEY, content, memory_type, importance, workspace)",
        "CREATE TABLE tags (id INTEGER PRIMARY KEY, name)",
    ),
    "mem0": ("CREATE TABLE history (id TEXT PRIMARY KEY, memory_id, old_memory, new_memory, event, created_at)",),
    "claude-mem": (
        "CREATE TABLE sdk_sessions (id INTEGER PRIMARY KEY, project)",
        "CREATE TABLE observations (id INTEGER PRIMARY KEY, text)",
    ),
    "mcp-memory-service": ("CREATE TABLE memories (id INTEGER PRIMARY KEY, content_hash, content, tags, memory_type)",),
}


def snapshot(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    return {each.name: (each.read_bytes(), each.stat().st_mtime_ns, each.stat().st_mode) for each in folder.iterdir()}


def made(path: Path, statements: tuple[str, ...], journal: str = "delete") -> None:
    connection = apsw.Connection(str(path))
    for statement in (f"PRAGMA journal_mode={journal}", *statements):
        connection.execute(statement)
    connection.close()


@pytest.mark.requirement("STORE-5")
@pytest.mark.parametrize("journal", ["delete", "wal"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_the_refusal_names_the_command_that_imports_it(tmp_path: Path, system: str, journal: str) -> None:
    path = tmp_path / "my old # 50% data?.db"
    made(path, SYSTEMS[system], journal)
    before = snapshot(tmp_path)
    with pytest.raises(NotAStore, match="was not changed") as refused:
        Engram(path)
    assert str(refused.value).endswith(f"engram import {system} {shlex.quote(str(path))}")
    assert snapshot(tmp_path) == before


@pytest.mark.requirement("STORE-5")
def test_what_is_no_known_system_is_refused_without_a_command(tmp_path: Path) -> None:
    path = tmp_path / "data.db"
    # The names are those of known systems, but not the columns.
    made(path, ("CREATE TABLE memories (id, text)", "CREATE TABLE history (url)", "CREATE TABLE sessions (id)"))
    with pytest.raises(NotAStore, match="not an Engram store") as refused:
        Engram(path)
    assert "engram import" not in str(refused.value)


@pytest.mark.requirement("STORE-5")
@pytest.mark.parametrize("checkpointed", [True, False])
def test_a_log_that_another_program_left_is_not_written_into_its_file(tmp_path: Path, checkpointed: bool) -> None:
    """The program died: its last writes are only in the log, or all of them."""
    path, kept = tmp_path / "live" / "lyra.db", tmp_path / "left"
    path.parent.mkdir()
    kept.mkdir()
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA wal_autocheckpoint=0")
    for statement in SYSTEMS["lyra"]:
        connection.execute(statement)
    if checkpointed:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.execute("INSERT INTO exchanges (content) VALUES ('only in the log')")
    for name in ("lyra.db", "lyra.db-wal"):
        shutil.copy2(path.parent / name, kept / name)
    connection.close()
    before = snapshot(kept)
    with pytest.raises(NotAStore, match="engram import lyra"):
        Engram(kept / "lyra.db")
    after = snapshot(kept)
    assert {name: after[name] for name in before} == before
    # To read a log, SQLite needs an index of it. It is made only if the file itself does not say whose it is.
    assert set(after) - set(before) <= (set() if checkpointed else {"lyra.db-shm"})


@pytest.mark.requirement("STORE-5")
def test_a_backup_is_not_restored_over_another_systems_database(tmp_path: Path) -> None:
    with Engram(tmp_path / "backup.db") as eng:
        eng.world.set("ours")
    folder = tmp_path / "theirs"
    folder.mkdir()
    made(folder / "data.db", SYSTEMS["symbiont"], "wal")
    before = snapshot(folder)
    with pytest.raises(NotAStore, match="engram import symbiont"):
        restore(load(url=str(folder / "data.db")), str(tmp_path / "backup.db"))
    assert snapshot(folder) == before
