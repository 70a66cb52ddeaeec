"""SQLite files of other systems: they stay as they are, whatever is in them and whoever uses them."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO

import pytest

from engram import NothingToImport, NotOfFormat, StoreBusy
from engram.importers import foreign
from engram.importers.files import Source
from engram.importers.foreign import DAMAGED, GARBLED, TOO_LONG, Record, opened
from engram.importers.items import Skipped

from ._databases import Text, database, other_program

NOTES = "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)"


def values(path: Path, *columns: str, table: str = "notes") -> list[object]:
    """The first column of each row, or all of them."""
    with opened(path) as db:
        found = [each.values for each in db.records(table, *columns) if isinstance(each, Record)]
    return [row[columns[0]] if len(columns) == 1 else tuple(row.values()) for row in found]


def folder_state(folder: Path) -> dict[str, bytes]:
    """Everything in a folder, except the memory that programs share: the log's index is no data."""
    return {file.name: file.read_bytes() for file in folder.iterdir() if not file.name.endswith("-shm")}


def ask(program: tuple[IO[str], IO[str]], statement: str) -> str:
    program[0].write(f"{statement}\n")
    program[0].flush()
    return program[1].readline().strip()


def left_by_a_crash(folder: Path, *statements: str) -> Path:
    """A file as a program leaves it that is killed after these statements."""
    folder.mkdir()
    with closing(sqlite3.connect(folder.parent / "live.db", isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)
        for file in folder.parent.glob("live.db*"):
            if not file.name.endswith("-shm"):
                shutil.copy(file, folder)
    return folder / "live.db"


def test_a_file_is_read_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = database(tmp_path / "plain.db", NOTES, {"notes": [{"text": "one"}, {"text": "two"}]})
    before = folder_state(tmp_path)
    assert values(path, "id", "text") == [(1, "one"), (2, "two")]
    assert folder_state(tmp_path) == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["plain.db"]


def test_a_file_with_a_write_ahead_log_leaves_nothing_beside_it_either(tmp_path: Path) -> None:
    path = database(tmp_path / "log.db", f"PRAGMA journal_mode = WAL; {NOTES}", {"notes": [{"text": "one"}]})
    before = folder_state(tmp_path)
    assert values(path, "text") == ["one"]
    assert folder_state(tmp_path) == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["log.db"]


def test_a_look_at_the_tables_copies_a_file_only_if_it_needs_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = database(tmp_path / "log.db", f"PRAGMA journal_mode = WAL; {NOTES}")
    late = left_by_a_crash(tmp_path / "killed", "PRAGMA journal_mode = WAL", NOTES)
    before = sorted(file.name for file in tmp_path.iterdir())
    copied: list[str] = []
    copy = foreign._copied

    def noted(path: Path, folder: Path) -> Path:
        copied.append(path.name)
        return copy(path, folder)

    monkeypatch.setattr(foreign, "_copied", noted)
    for path in (plain, late):
        with opened(path, to_look=True) as db:
            assert db.has("notes", "text")
    assert copied == ["live.db"] and sorted(file.name for file in tmp_path.iterdir()) == before


def test_what_is_only_in_the_log_of_a_killed_program_is_read(tmp_path: Path) -> None:
    path = left_by_a_crash(
        tmp_path / "killed",
        "PRAGMA journal_mode = WAL",
        NOTES,
        "PRAGMA wal_checkpoint(TRUNCATE)",
        "INSERT INTO notes (text) VALUES ('only in the log')",
    )
    before = folder_state(path.parent)
    assert set(before) == {"live.db", "live.db-wal"}
    assert values(path, "text") == ["only in the log"]
    assert folder_state(path.parent) == before
    assert len(list(path.parent.iterdir())) == 2


def test_a_transaction_that_was_cut_off_is_not_seen_and_not_rolled_back_in_the_file(tmp_path: Path) -> None:
    path = left_by_a_crash(
        tmp_path / "killed",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA cache_size = 1",
        NOTES,
        "INSERT INTO notes (text) VALUES ('kept')",
        "BEGIN",
        *(f"INSERT INTO notes (text) VALUES ('{letter * 3000}')" for letter in "abcdefghij"),
        "UPDATE notes SET text = 'half done' WHERE id = 1",
        "INSERT INTO notes (text) SELECT text FROM notes",
    )
    before = folder_state(path.parent)
    assert set(before) == {"live.db", "live.db-journal"} and b"aaa" in before["live.db"]
    assert values(path, "text") == ["kept"]
    assert folder_state(path.parent) == before


def test_a_program_that_is_at_work_is_read_up_to_its_last_commit(tmp_path: Path) -> None:
    path = tmp_path / "live.db"
    insert = "INSERT INTO notes (text) VALUES ('{}')"
    with other_program(
        path, "PRAGMA journal_mode = WAL", NOTES, insert.format("said"), "BEGIN", insert.format("not yet")
    ):
        before = folder_state(tmp_path)
        assert values(path, "text") == ["said"]
        assert folder_state(tmp_path) == before


@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
def test_other_programs_can_write_while_a_file_is_being_read(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign, "_ROWS", 2)
    path = tmp_path / "live.db"
    rows = ", ".join(f"('{number}', 'text {number}')" for number in range(5))
    schema = "CREATE TABLE notes (session TEXT, text TEXT)"
    with other_program(path, f"PRAGMA journal_mode = {mode}", schema, f"INSERT INTO notes VALUES {rows}") as program:
        with opened(path) as db:
            reading = db.records("notes", "text")
            next(reading)
            assert ask(program, "INSERT INTO notes VALUES ('0', 'added')") == "done"
            assert len(list(reading)) == 5
            grouping = db.grouped("notes", "session")
            assert list(grouping.build()) == []
            for number, key in enumerate(grouping):
                found = grouping.of(key, "text")
                next(found)
                assert ask(program, f"INSERT INTO notes VALUES ('new', '{number}')") == "done"
        assert ask(program, "SELECT 1") == "done"


def test_a_file_that_another_program_has_locked_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "_PATIENCE", 10)
    path = database(tmp_path / "locked.db", NOTES)
    with other_program(path, "BEGIN EXCLUSIVE"), pytest.raises(StoreBusy, match=r"locked .*locked\.db"), opened(path):
        pass


def test_a_file_that_keeps_changing_while_it_is_copied_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = database(tmp_path / "log.db", f"PRAGMA journal_mode = WAL; {NOTES}")
    copy = shutil.copyfile

    def copied(source: str, target: Path) -> None:
        copy(source, target)
        os.utime(source, ns=(1, os.stat(source).st_mtime_ns + 1))

    monkeypatch.setattr(shutil, "copyfile", copied)
    with pytest.raises(StoreBusy, match="keeps writing"), opened(path):
        pass


def test_looking_at_a_store_that_this_process_uses_does_not_drop_its_locks(tmp_path: Path) -> None:
    import apsw

    path = database(tmp_path / "own.db", NOTES)
    with closing(apsw.Connection(str(path))) as own, other_program(path, "SELECT 1") as program:
        own.execute("BEGIN EXCLUSIVE")
        assert foreign.is_database(path)
        assert "locked" in ask(program, "INSERT INTO notes (text) VALUES ('lost')")


@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
def test_a_file_in_a_folder_that_cannot_be_written_is_read_with_its_log(mode: str) -> None:
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders can be entered only by their owner
        outer = Path(name)
        outer.chmod(0o755)
        path = left_by_a_crash(
            outer / "old", f"PRAGMA journal_mode = {mode}", NOTES, "INSERT INTO notes (text) VALUES ('kept')"
        )
        for file in path.parent.iterdir():
            file.chmod(0o444)
        path.parent.chmod(0o555)
        before = folder_state(path.parent)
        with without_rights():
            assert values(path, "text") == ["kept"]
        assert folder_state(path.parent) == before
        path.parent.chmod(0o755)


@contextmanager
def without_rights() -> Iterator[None]:
    """As somebody who may not write everywhere."""
    own = os.geteuid()
    if own == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(own)


def test_a_text_that_is_not_valid_is_marked_and_other_types_stay(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"text": Text(b"\xff\xfe")},
        {"text": b"\x00\x01"},
        {"text": "ü"},
        {"text": None},
        {"text": 1.5},
    ]
    path = database(tmp_path / "types.db", "CREATE TABLE notes (id INTEGER PRIMARY KEY, text)", {"notes": rows})
    assert values(path, "text") == [GARBLED, b"\x00\x01", "ü", None, 1.5]


@pytest.mark.parametrize("encoding", ["UTF-16le", "UTF-16be"])
def test_a_file_in_another_encoding_is_read(tmp_path: Path, encoding: str) -> None:
    path = database(tmp_path / "wide.db", f"PRAGMA encoding = '{encoding}'; {NOTES}", {"notes": [{"text": "schön 🎉"}]})
    assert values(path, "text") == ["schön 🎉"]


def test_missing_tables_and_columns_count_as_empty(tmp_path: Path) -> None:
    path = database(
        tmp_path / "old.db", "CREATE TABLE Notes (ID INTEGER PRIMARY KEY, Text TEXT)", {"notes": [{"text": "a"}]}
    )
    assert values(path, "text", "later") == [("a", None)]
    assert values(path, "text", table="elsewhere") == []
    with opened(path) as db:
        assert db.has("notes", "id", "text") and not db.has("notes", "later") and not db.has("elsewhere")
        assert db.count("elsewhere") == 0 and db.count("notes") == 1
        assert list(db.rows("notes", "text")) == [{"text": "a"}]


def test_nothing_that_a_schema_says_is_run(tmp_path: Path) -> None:
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS id, 'x' AS text FROM n"
    schema = f"""
        CREATE TABLE real (id INTEGER PRIMARY KEY, "select" TEXT, "a""b; DROP TABLE real; --" TEXT,
            made TEXT AS ('made') VIRTUAL);
        CREATE VIEW notes AS {endless};
        CREATE TRIGGER t AFTER INSERT ON real BEGIN SELECT RAISE(ABORT, 'run'); END;
        CREATE TABLE "x""; DROP TABLE real; --" (id);
        PRAGMA writable_schema = ON;
        INSERT INTO sqlite_master VALUES ('table', 'gone', 'gone', 0, 'CREATE VIRTUAL TABLE gone USING missing(x)');
        PRAGMA writable_schema = OFF;
    """
    path = database(tmp_path / "hostile.db", schema)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TRIGGER t")
        connection.execute('INSERT INTO real ("select") VALUES (?)', ("; DROP TABLE real",))
        connection.commit()
    before = path.read_bytes()
    assert values(path, "id", "select", "made", table="real") == [(1, "; DROP TABLE real", None)]
    assert values(path, "text", table="notes") == [] and values(path, "x", table="gone") == []
    assert path.read_bytes() == before


def test_rows_have_numbers_whatever_their_columns_are_called(tmp_path: Path) -> None:
    schema = """
        CREATE TABLE taken (rowid TEXT, _rowid_ TEXT, text TEXT);
        CREATE TABLE full (rowid TEXT, _rowid_ TEXT, oid TEXT, text TEXT);
        CREATE TABLE none (key TEXT PRIMARY KEY, text TEXT) WITHOUT ROWID;
        CREATE TABLE below (id INTEGER PRIMARY KEY, text TEXT);
    """
    one: dict[str, object] = {"text": "a"}
    rows: dict[str, list[dict[str, object]]] = {
        "taken": [one],
        "full": [one],
        "none": [{"key": "x", **one}, {"key": "y", "text": "b"}],
        "below": [{"id": -7, **one}],
    }
    with opened(database(tmp_path / "odd.db", schema, rows)) as db:
        assert list(db.records("taken", "text")) == [Record("taken row 1", 1, {"text": "a"})]
        assert list(db.records("full", "text")) == [Record("full row 1", 1, {"text": "a"})]
        assert list(db.records("below", "text")) == [Record("below row -7", -7, {"text": "a"})]
        assert [each.where for each in db.records("none", "text")] == ["none row 1", "none row 2"]
        grouping = db.grouped("none", "key")
        assert list(grouping.build()) == []
        assert list(grouping.of("y", "text")) == [Record("none row 2", 2, {"text": "b"})]


def test_a_row_that_is_too_long_is_named_and_the_next_one_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "LONGEST", 1_000_000)
    rows = [{"text": "a"}, {"text": "x" * 1_000_001}, {"text": "b"}]
    with opened(database(tmp_path / "long.db", NOTES, {"notes": rows})) as db:
        assert list(db.records("notes", "text")) == [
            Record("notes row 1", 1, {"text": "a"}),
            Skipped("notes row 2", TOO_LONG),
            Record("notes row 3", 3, {"text": "b"}),
        ]
        assert db.record("notes", 2, "text") == Skipped("notes row 2", TOO_LONG)
        assert db.record("notes", 9, "text") is None


def test_what_can_be_read_of_a_damaged_file_is_read(tmp_path: Path) -> None:
    rows = [{"text": f"{number} " + "x" * 200} for number in range(1000)]
    path = database(tmp_path / "damaged.db", NOTES, {"notes": rows})
    data = bytearray(path.read_bytes())
    middle = len(data) // 2 // 4096 * 4096
    data[middle : middle + 4096] = b"\xa5" * 4096
    path.write_bytes(data)
    with opened(path) as db:
        found = list(db.records("notes", "text"))
    read = [each.number for each in found if isinstance(each, Record)]
    (bad,) = [each for each in found if isinstance(each, Skipped)]
    assert bad.why == DAMAGED and bad.where.startswith("notes after row ")
    assert read[0] == 1 and read[-1] == 1000 and 900 < len(read) < 1000 and read == sorted(set(read))


def test_what_is_left_of_a_file_that_was_cut_off_is_read(tmp_path: Path) -> None:
    rows = [{"text": f"{number} " + "x" * 200} for number in range(1000)]
    path = database(tmp_path / "cut.db", NOTES, {"notes": rows})
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with opened(path) as db:
        found = list(db.records("notes", "text"))
    assert 300 < sum(isinstance(each, Record) for each in found) < 700
    assert {each.why for each in found if isinstance(each, Skipped)} == {DAMAGED}


def test_a_table_whose_description_is_damaged_is_named(tmp_path: Path) -> None:
    path = database(tmp_path / "damaged.db", f"{NOTES}; CREATE TABLE others (id)", {"notes": [{"text": "kept"}]})
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE others (id)", b"CREATE TABLE others (\xff,)"))
    with opened(path) as db:
        assert list(db.records("others", "id")) == [Skipped("table others", DAMAGED)]
        assert list(db.rows("notes", "text")) == [{"text": "kept"}]


def test_pages_that_refer_to_each_other_in_a_circle_end(tmp_path: Path) -> None:
    path = database(tmp_path / "circle.db", NOTES, {"notes": [{"text": "x" * 900} for _ in range(40)]})
    data = bytearray(path.read_bytes())
    root = bytes(data[4096:8192])
    leaves = [
        int.from_bytes(root[place : place + 4]) for place in range(len(root) - 4) if root[place : place + 3] == bytes(3)
    ]
    pages = [page for page in leaves if 2 < page <= len(data) // 4096]
    for page in pages[1:4]:  # every one of them becomes a copy of the first
        data[(page - 1) * 4096 : page * 4096] = data[(pages[0] - 1) * 4096 : pages[0] * 4096]
    path.write_bytes(data)
    with opened(path) as db:
        found = list(db.records("notes", "text"))
    numbers = [each.number for each in found if isinstance(each, Record)]
    assert numbers == sorted(set(numbers)) and DAMAGED in [each.why for each in found if isinstance(each, Skipped)]


def test_a_file_whose_schema_is_damaged_is_refused(tmp_path: Path) -> None:
    path = database(tmp_path / "damaged.db", NOTES)
    path.write_bytes(path.read_bytes()[:100] + b"\xff" * 4000)
    with pytest.raises(NotOfFormat, match=r"damaged\.db cannot be read as an SQLite database"), opened(path):
        pass


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    for name, content in (("empty", b""), ("short", b"SQLite"), ("text", b"hello " * 1000)):
        (tmp_path / name).write_bytes(content)
        assert not foreign.is_database(tmp_path / name)
        with pytest.raises(NotOfFormat, match="is not an SQLite database"), opened(tmp_path / name):
            pass
    with pytest.raises(NothingToImport, match="There is no file"), opened(tmp_path / "nowhere"):
        pass
    with pytest.raises(NotOfFormat, match="not a regular file"), opened(tmp_path):
        pass
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NotOfFormat, match="not a regular file"), opened(tmp_path / "pipe"):
        pass


def test_a_store_of_engram_is_refused(tmp_path: Path) -> None:
    from engram import Engram

    with Engram(str(tmp_path / "own.db")) as eng:
        eng.remember("something")
        with pytest.raises(NotOfFormat, match=r"own\.db is an Engram store already"), opened(tmp_path / "own.db"):
            pass
        assert eng.memories.list()


def test_a_path_with_odd_letters_is_opened(tmp_path: Path) -> None:
    path = database(tmp_path / "a b?c#d%41ü'.db", NOTES, {"notes": [{"text": "one"}]})
    assert values(path, "text") == ["one"]


def test_few_rows_are_held_at_once_and_the_source_shows_the_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign, "_BYTES", 10_000)
    rows = [{"text": "x" * 4_000} for _ in range(10)]
    source = Source(database(tmp_path / "large.db", NOTES, {"notes": rows}))
    seen: list[int] = []
    with opened(source.path, source) as db:
        db.expect("notes")
        held = db._batch("notes", ["text"], f"SELECT id, {db._chosen('notes', ['text'])} FROM notes WHERE id > ?", 0)
        assert len(held[0]) == 3
        seen += [source.position for _ in db.records("notes", "text")]
    assert seen == sorted(seen) and seen[0] == source.size // 10 and seen[-1] == source.size


def test_rows_are_grouped_by_the_text_in_a_column(tmp_path: Path) -> None:
    schema = "CREATE TABLE logs (session, text TEXT)"
    keys: list[object] = ["b", "a", "b", 7, None, "", b"a", Text(b"\xff"), "c'; --"]
    rows = [{"session": key, "text": str(number)} for number, key in enumerate(keys)]
    with opened(database(tmp_path / "groups.db", schema, {"logs": rows})) as db:
        grouping = db.grouped("logs", "session")
        assert [skipped.where for skipped in grouping.build()] == [f"logs row {number}" for number in (5, 6, 7, 8)]
        assert list(grouping) == ["b", "a", "7", "c'; --"]
        assert "a" in grouping and "z" not in grouping
        found = [each.values["text"] for each in grouping.of("b", "text") if isinstance(each, Record)]
        assert found == ["0", "2"]
        first, last = grouping.first("b", "text"), grouping.last("b", "text")
        assert first is not None and last is not None and (first.values["text"], last.values["text"]) == ("0", "2")
        assert grouping.first("z", "text") is None
        again = db.grouped("nowhere", "session")
        assert list(again.build()) == [] and list(again) == []
