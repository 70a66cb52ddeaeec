"""Databases of the old systems, given to an adapter: imported once into a store beside them, and left alone."""

from __future__ import annotations

import logging
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from engram import Engram as Store
from engram import InvalidInput, NotAStore, StoreDamaged, importers
from engram.compat import engram_core, symbiont
from engram.compat.old_databases import open_store, store_beside
from engram.importers import importing

pytestmark = pytest.mark.requirement("COMPAT-4")

NOW = datetime.now().replace(microsecond=0)
AT_WORK, DONE = "20260320-140000-0a1b2c3d", "20260319101500-4e5f6a7b"

SYMBIONT = """
CREATE TABLE world_state (id INTEGER PRIMARY KEY CHECK (id = 1), updated_at TEXT, updated_by TEXT, content TEXT);
CREATE TABLE sessions (
  id TEXT PRIMARY KEY, session_type TEXT, summary TEXT, status TEXT, started_at TEXT, last_heartbeat TEXT,
  completed_at TEXT, completion_summary TEXT, metadata TEXT
);
CREATE TABLE session_logs (id INTEGER PRIMARY KEY, session_id TEXT, timestamp TEXT, entry TEXT);
CREATE TABLE resource_locks (
  resource TEXT, session_id TEXT, locked_at TEXT, note TEXT, PRIMARY KEY (resource, session_id)
);
"""
ENGRAM_CORE = """
CREATE TABLE memory_blocks (
  name TEXT PRIMARY KEY, content TEXT, version INTEGER, max_tokens INTEGER, created_at TEXT, updated_at TEXT
);
CREATE TABLE block_edit_log (
  id INTEGER PRIMARY KEY, block_name TEXT, old_content TEXT, new_content TEXT, edit_reason TEXT, timestamp TEXT
);
CREATE TABLE memories (
  id INTEGER PRIMARY KEY, content TEXT, memory_type TEXT, importance REAL, workspace TEXT, created_at TEXT,
  updated_at TEXT, valid_to TEXT, metadata TEXT
);
INSERT INTO memory_blocks VALUES
  ('persona', 'I am terse.', 2, 512, '2026-03-01T09:00:00.000Z', '2026-03-02T09:00:00.000Z');
INSERT INTO block_edit_log VALUES
  (7, 'persona', 'I am helpful.', 'I am terse.', 'short answers', '2026-03-02T09:00:00.000Z');
INSERT INTO memories VALUES
  (1, 'Deploys never happen on Fridays', 'preference', 0.9, 'default', '2026-03-01T09:00:00.000Z',
   '2026-03-01T09:00:00.000Z', NULL, '{}');
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A database as Symbiont leaves it, with a session that is at work."""
    path = tmp_path / "symbiont" / "engram.db"
    path.parent.mkdir()
    heard, begun = (NOW - timedelta(minutes=minutes) for minutes in (45, 90))
    with closing(sqlite3.connect(path)) as db:
        db.executescript(SYMBIONT)
        db.execute("INSERT INTO world_state VALUES (1, ?, ?, '# World')", (begun.isoformat(), AT_WORK))
        sessions = [
            (AT_WORK, "cowork", "Porting", "active", begun.isoformat(), heard.isoformat(), None, None, '{"a": 1}'),
            (DONE, "codex", "Reviewing", "completed", *["2026-03-19T10:15:00Z"] * 3, "Reviewed", "any text"),
        ]
        db.executemany("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", sessions)
        logs = [(AT_WORK, begun.isoformat(), "begun"), (AT_WORK, heard.isoformat(), "half done")]
        db.executemany("INSERT INTO session_logs (session_id, timestamp, entry) VALUES (?, ?, ?)", logs)
        locks = [("src/router.py", AT_WORK, heard.isoformat(), "rewriting"), ("./x", AT_WORK, heard.isoformat(), None)]
        db.executemany("INSERT INTO resource_locks VALUES (?, ?, ?, ?)", locks)
        db.commit()
    return path


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_program_of_symbiont_goes_on_where_it_was(old: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = files(old.parent)
    with symbiont.Engram(old) as eng:
        assert eng.db_path == old.parent / "engram.db.engram.db"
        [at_work] = eng.get_active_sessions()
        assert (at_work["id"], at_work["session_type"], at_work["summary"]) == (AT_WORK, "cowork", "Porting")
        assert datetime.fromisoformat(at_work["started_at"]) == NOW - timedelta(minutes=90)
        assert datetime.fromisoformat(at_work["last_heartbeat"]) == NOW - timedelta(minutes=45)
        assert at_work["metadata"] == '{"a": 1}'
        done = eng.get_session(DONE)
        assert done is not None
        assert (done["status"], done["completion_summary"]) == ("completed", "Reviewed")
        assert done["metadata"] == "any text"
        assert [each["entry"] for each in eng.get_session_logs(AT_WORK)] == ["half done", "begun"]
        [lock] = eng.check_locks("src/router.py")
        assert (lock["resource"], lock["session_id"], lock["note"]) == ("src/router.py", AT_WORK, "rewriting")
        assert eng.get_situation_report() == (
            "# World\n\n**Active sessions (1):**\n"
            f"- ⚠ stale `{AT_WORK}` (cowork): Porting\n\n**Locked resources:**\n"
            f"- `src/router.py` by `{AT_WORK}`\n- `./x` by `{AT_WORK}`"
        )
        eng.complete(AT_WORK, "Ported")
        eng.set_world_state("# New world")
    # The next time it is the same store, and nothing comes back.
    with symbiont.Engram(str(old)) as again:
        assert again.get_active_sessions() == []
        assert again.get_world_state() == "# New world"
        assert again.stats()["active_locks"] == 0
    after = files(old.parent)
    assert {name: after[name] for name in before} == before
    assert after.keys() - before.keys() == {"engram.db.engram.db"}
    [line] = [each for each in caplog.records if each.name == "engram.compat"]
    assert line.levelno == logging.WARNING
    assert str(old) in line.getMessage() and store_beside(old) in line.getMessage()


def test_a_program_of_engram_core_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(ENGRAM_CORE)
    before = path.read_bytes()
    with engram_core.Storage.open(path) as storage:
        block = engram_core.get_block(storage, "persona")
        assert block is not None
        assert (block.content, block.version, block.max_tokens) == ("I am terse.", 2, 512)
        assert block.updated_at == "2026-03-02T09:00:00.000000Z"
        [edit] = engram_core.get_block_history(storage, "persona")
        assert (edit.old_content, edit.edit_reason) == ("I am helpful.", "short answers")
        [hit] = storage.store.recall("when can we deploy?", k=1)
        assert hit.whole == "Deploys never happen on Fridays"
    assert path.read_bytes() == before


def test_processes_that_start_at_once_share_one_store(old: Path) -> None:
    start = Barrier(4)

    def run(number: int) -> str:
        start.wait()
        with symbiont.Engram(old) as eng:
            eng.log(AT_WORK, f"seen by {number}")
            return str(eng.db_path)

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(run, range(4))) == {store_beside(old)}
    with symbiont.Engram(old) as eng:
        assert eng.stats()["total_sessions"] == 2
        seen = [each["entry"] for each in eng.get_session_logs(AT_WORK) if each["entry"].startswith("seen")]
        assert sorted(seen) == [f"seen by {number}" for number in range(4)]
    assert sorted(files(old.parent)) == ["engram.db", "engram.db.engram.db"]


def test_an_import_that_was_interrupted_begins_again(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = files(old.parent)

    def interrupted(*arguments: object) -> None:
        importing.run("symbiont", [old], arguments[2])  # type: ignore[arg-type]
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(importers, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            symbiont.Engram(old)
    assert files(old.parent) == before
    # What an import leaves that is killed: the draft of a process that has ended.
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        draft = Path(f"{store_beside(old)}.importing-{ended.pid}-1")
    draft.touch()
    with symbiont.Engram(old) as eng:
        assert eng.stats()["total_sessions"] == 2
    assert not draft.exists()


@pytest.mark.parametrize("open_it", [symbiont.Engram, engram_core.Storage.open], ids=["symbiont", "engram-core"])
def test_a_file_of_another_system_is_refused(tmp_path: Path, open_it: Callable[[Path], object]) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT); INSERT INTO notes VALUES (1, 'x')")
    before = files(tmp_path)
    with pytest.raises(NotAStore):
        open_it(path)
    (tmp_path / "text.db").write_text("no database")
    with pytest.raises(NotAStore):
        open_it(tmp_path / "text.db")
    assert files(tmp_path) == {**before, "text.db": b"no database"}


def test_a_database_of_one_system_is_not_given_to_the_adapter_of_another(old: Path) -> None:
    with pytest.raises(NotAStore):
        engram_core.Storage.open(old)
    assert sorted(files(old.parent)) == ["engram.db"]


def test_the_database_in_the_settings_is_imported_too(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGRAM_URL", str(old))
    assert symbiont.sitrep().startswith("# World\n")
    assert symbiont.sitrep().startswith("# World\n")


def test_a_store_for_a_trial_is_gone_when_it_is_closed() -> None:
    with symbiont.Engram(":memory:") as eng:
        path = eng.db_path
        assert eng.get_active_sessions() == []
        assert Path(path).exists()
    assert not Path(path).exists()
    with engram_core.Storage.open_in_memory() as storage:
        engram_core.create_block(storage, "persona", "I am terse.")
        assert engram_core.run_once_all(storage).errors == []


def test_settings_of_an_adapter_take_the_place_of_the_users(store_url: str) -> None:
    with open_store(store_url, "symbiont", stale_after=60.0) as eng, Store(store_url) as plain:
        assert (eng.settings.stale_after, plain.settings.stale_after) == (60.0, 1_800.0)


def test_the_store_is_used_after_the_old_database_was_deleted(old: Path) -> None:
    with symbiont.Engram(old) as eng:
        eng.set_world_state("# New world")
    old.write_bytes(b"")
    with symbiont.Engram(old) as emptied:
        assert emptied.get_world_state() == "# New world"
    old.unlink()
    with symbiont.Engram(old) as eng:
        assert (eng.get_world_state(), str(eng.db_path)) == ("# New world", store_beside(old))
    assert not old.exists()


def test_the_store_is_not_used_for_what_is_no_database_of_the_system(old: Path) -> None:
    with symbiont.Engram(old):
        pass
    with pytest.raises(NotAStore):
        engram_core.Storage.open(old)
    old.write_text("only some text")
    with pytest.raises(NotAStore):
        symbiont.Engram(old)


def test_a_store_that_is_empty_gets_the_import(old: Path) -> None:
    Path(store_beside(old)).touch()
    with symbiont.Engram(old) as eng:
        assert eng.stats()["total_sessions"] == 2
    Path(store_beside(old)).unlink()
    with Store(store_beside(old)):
        pass
    with symbiont.Engram(old) as eng:
        assert eng.stats()["total_sessions"] == 2
        eng.set_world_state("# New world")
    with symbiont.Engram(old) as eng:
        assert eng.get_world_state() == "# New world"


def test_the_store_has_the_import_also_if_the_workspace_changes(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with symbiont.Engram(old):
        pass
    monkeypatch.setenv("ENGRAM_WORKSPACE", "other")
    with symbiont.Engram(old) as eng:
        assert eng.stats()["total_sessions"] == 0


def test_a_database_has_one_store_whichever_link_names_it(old: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(old)
    with symbiont.Engram(link) as eng:
        assert str(eng.db_path) == store_beside(old)
        eng.set_world_state("# New world")
    with symbiont.Engram(old) as eng:
        assert eng.get_world_state() == "# New world"
    assert sorted(files(old.parent)) == ["engram.db", "engram.db.engram.db"]


def test_the_error_about_a_damaged_old_database_does_not_speak_of_backups_of_a_store(old: Path) -> None:
    whole = old.read_bytes()
    damaged = whole[:100] + b"\xff" * (len(whole) - 100)
    old.write_bytes(damaged)
    with pytest.raises(StoreDamaged) as raised:
        symbiont.Engram(old)
    assert "engram restore" not in str(raised.value)
    assert files(old.parent) == {"engram.db": damaged}


@pytest.mark.parametrize("path", [b"x.db", 5])
def test_a_path_that_is_neither_text_nor_a_path_is_refused(path: Any) -> None:
    for open_it in (symbiont.Engram, engram_core.Storage, Store):
        with pytest.raises(InvalidInput, match="store"):
            open_it(path)
