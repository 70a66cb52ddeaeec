"""Bringing back a backup: the store is the old one or the new one, whole, whoever uses it and whatever was there."""

from __future__ import annotations

import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from engram import (
    Engram,
    InvalidInput,
    LeaseNotFound,
    NotAStore,
    NotFound,
    SchemaTooNew,
    StoreDamaged,
    StoreError,
    StoreFull,
)
from engram.config import load
from engram.maintenance import restore
from engram.setup_records import Restored
from engram.storage import backup, migrate
from tests.interfaces.conftest import Engram as Command
from tests.interfaces.conftest import engram, in_terminal
from tests.migration.test_migrate import ADD_COLOUR, NEWEST, Extended, Store, extended

__all__ = ["engram", "extended"]  # fixtures


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store" / "engram.db"


@pytest.fixture
def saved(path: Path, tmp_path: Path) -> Path:
    """A backup of the store, which has gone on since."""
    file = tmp_path / "elsewhere" / "backup.db"
    file.parent.mkdir()
    with Engram(str(path)) as eng:
        eng.world.set("saved")
        eng.remember("The router is in src/router.py")
        copy(path, file)
        eng.world.set("later")
    return file


def copy(path: Path, file: Path) -> None:
    source = apsw.Connection(str(path))
    try:
        backup.write(source, str(file))
    finally:
        source.close()


def run(path: Path, file: Path) -> Restored:
    return restore(load(url=str(path)), str(file), force=True)


def world(path: Path | str) -> str:
    with Engram(str(path)) as eng:
        return eng.world.get()


def is_sound(path: Path) -> bool:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        connection.close()


def files(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.iterdir())


@pytest.mark.requirement("RESTORE-1")
def test_a_backup_takes_the_stores_place_and_what_was_there_is_kept(path: Path, saved: Path) -> None:
    before = saved.read_bytes()
    done = run(path, saved)
    assert (done.store, done.file, done.schema) == (str(path), str(saved), NEWEST)
    assert done.kept is not None
    assert files(path) == ["engram.db", Path(done.kept).name]
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}
    assert world(path) == "saved"
    assert world(done.kept) == "later"
    assert saved.read_bytes() == before
    assert files(saved) == ["backup.db"]
    assert is_sound(path)


@pytest.mark.requirement("RESTORE-1")
def test_what_is_only_in_the_log_so_far_is_kept_too_and_the_log_never_meets_the_backup(path: Path, saved: Path) -> None:
    child = subprocess.run(
        [
            sys.executable,
            "-c",
            "import os, sys\nfrom engram import Engram\neng = Engram(sys.argv[1])\n"
            "for number in range(200): eng.blocks.create(f'block-{number}', 'x' * 500)\n"
            "eng.world.set('in the log')\nos._exit(0)",
            str(path),
        ],
        check=True,
    )
    assert child.returncode == 0
    assert path.with_name("engram.db-wal").stat().st_size > 100_000
    done = run(path, saved)
    assert (world(path), is_sound(path)) == ("saved", True)
    assert done.kept is not None
    with Engram(done.kept) as eng:
        assert (eng.world.get(), len(eng.blocks.list())) == ("in the log", 201)


def garble_header(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"not a database any more" * 10)


def garble_schema(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 3_996)


def garble_rest(path: Path) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4_096)
        file.write(b"\xff" * (size - 4_096))


def cut_off(path: Path) -> None:
    os.truncate(path, 6_000)


def empty(path: Path) -> None:
    os.truncate(path, 0)


@pytest.mark.requirement("RESTORE-1")
@pytest.mark.parametrize("damage", [garble_header, garble_schema, garble_rest, cut_off, empty])
def test_a_damaged_store_is_replaced_and_kept(damage: Callable[[Path], None], path: Path, saved: Path) -> None:
    damage(path)
    broken = path.read_bytes()
    done = run(path, saved)
    assert (world(path), is_sound(path)) == ("saved", True)
    assert not any(name.endswith(("-wal", "-shm", ".partial")) for name in files(path))
    if broken:
        assert done.kept is not None
        assert stat.S_IMODE(os.stat(done.kept).st_mode) == 0o600
        if damage is garble_header:
            assert Path(done.kept).read_bytes() == broken


@pytest.mark.requirement("RESTORE-1")
@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_store_without_a_log_is_replaced_and_kept(seed: int, path: Path, saved: Path) -> None:
    """A copy of a backup has no write-ahead log, and a damaged one cannot be given one."""
    content = bytearray(saved.read_bytes())
    chance = random.Random(seed)
    for _ in range(60):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)
    done = run(path, saved)
    assert (world(path), is_sound(path)) == ("saved", True)
    assert done.kept is not None
    assert Path(done.kept).read_bytes() == bytes(content)


@pytest.mark.requirement("RESTORE-1")
def test_a_restore_removes_no_file_that_only_looks_like_a_draft(path: Path, saved: Path) -> None:
    mine = ["incoming-mail", "incoming-2026-photos", "before-party.partial", "before-party-journal"]
    for end in mine:
        path.with_name(f"{path.name}.{end}").write_text("mine")
    run(path, saved)
    assert [path.with_name(f"{path.name}.{end}").exists() for end in mine] == [True] * len(mine)


@pytest.mark.requirement("RESTORE-4")
def test_the_draft_of_a_killed_restore_goes_with_the_next_one_also_if_the_store_is_unreadable(
    path: Path, saved: Path
) -> None:
    draft = path.with_name(f"{path.name}.before-restore-20260101t000000000000.partial")
    shutil.copy(path, draft)
    garble_header(path)
    run(path, saved)
    assert not draft.exists()


@pytest.mark.requirement("RESTORE-1")
def test_a_missing_store_is_made_and_an_orphaned_log_is_put_aside(path: Path, saved: Path, tmp_path: Path) -> None:
    path.unlink()
    path.with_name("engram.db-wal").write_bytes(b"an old log " * 1_000)
    assert run(path, saved).kept is None
    (log,) = path.parent.glob("*.before-restore-*-wal")
    assert log.read_bytes().startswith(b"an old log")
    assert world(path) == "saved"
    done = run(tmp_path / "new" / "folder" / "engram.db", saved)
    assert (done.kept, world(done.store)) == (None, "saved")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


@pytest.mark.requirement("RESTORE-1")
def test_a_store_behind_a_link_stays_behind_it(path: Path, saved: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(path)
    for damaged in (False, True):
        if damaged:
            garble_header(path)
        run(link, saved)
        assert link.is_symlink()
        assert world(path) == "saved"


@pytest.mark.requirement("RESTORE-1")
@pytest.mark.parametrize("mode", ["a live store's file", "a file in a folder that is read-only", "other pages"])
def test_any_copy_of_a_store_can_be_restored(mode: str, path: Path, saved: Path) -> None:
    connection = apsw.Connection(str(saved))
    if mode == "other pages":
        connection.execute("PRAGMA page_size=8192")
        connection.execute("VACUUM")
    else:
        connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    if mode == "a live store's file":
        other = Engram(str(saved))
        other.world.set("saved")
        run(path, saved)
        other.close()
    elif mode == "a file in a folder that is read-only":
        saved.parent.chmod(0o500)
        run(path, saved)
        saved.parent.chmod(0o700)
    else:
        run(path, saved)
    assert (world(path), is_sound(path)) == ("saved", True)


@pytest.mark.requirement("RESTORE-1", "MIGRATE-1")
def test_a_backup_of_an_older_schema_is_migrated_on_the_way(
    path: Path, saved: Path, extended: Extended, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(extended(ADD_COLOUR))
    Store(str(path)).migrate(Path(folder))
    monkeypatch.setattr(migrate.sqlite, "__defaults__", (folder,))
    assert run(path, saved).schema == NEWEST + 1
    assert Store(str(path)).all("SELECT DISTINCT colour FROM blocks") == [("grey",)]
    assert Store(str(saved)).applied()[-1] == NEWEST


@pytest.mark.requirement("RESTORE-2")
def test_what_is_no_whole_store_of_ours_is_refused_and_nothing_changes(
    path: Path, saved: Path, tmp_path: Path, extended: Extended
) -> None:
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "text").write_text("hello " * 1_000)
    (bad / "empty").touch()
    shutil.copy(saved, bad / "damaged")
    garble_rest(bad / "damaged")
    shutil.copy(saved, bad / "newer")
    Store(str(bad / "newer")).migrate(extended(ADD_COLOUR))
    for file in bad.glob("newer.*"):
        file.unlink()
    foreign = apsw.Connection(str(bad / "foreign"))
    foreign.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY)")
    foreign.close()
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    expected: dict[str, type[StoreError]] = {
        "text": NotAStore,
        "empty": NotAStore,
        "foreign": NotAStore,
        "damaged": StoreDamaged,
        "newer": SchemaTooNew,
    }
    for name, error in expected.items():
        with pytest.raises(error, match=str(bad / name)):
            run(path, bad / name)
    with pytest.raises(NotFound, match="no file"):
        run(path, bad / "missing")
    with pytest.raises(NotFound, match="no backup that can be restored"):
        run(path, bad)
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == before


@pytest.mark.requirement("RESTORE-2")
def test_the_store_itself_is_refused_by_any_name(path: Path, saved: Path, tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(path)
    os.link(path, tmp_path / "hard.db")
    for name in (path, tmp_path / "link.db", tmp_path / "hard.db"):
        with pytest.raises(InvalidInput, match="the store itself"):
            run(path, name)
    assert world(path) == "later"


@pytest.mark.requirement("RESTORE-2")
def test_another_programs_database_is_not_replaced(tmp_path: Path, saved: Path) -> None:
    foreign = tmp_path / "foreign.db"
    connection = apsw.Connection(str(foreign))
    connection.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY)")
    connection.close()
    before = foreign.read_bytes()
    with pytest.raises(NotAStore, match="was not changed"):
        run(foreign, saved)
    assert foreign.read_bytes() == before
    assert not list(tmp_path.glob("foreign.db.*"))


@pytest.mark.requirement("RESTORE-2", "MIGRATE-6")
def test_without_room_for_the_copies_nothing_is_begun(path: Path, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup, "_MARGIN", 1 << 60)
    with pytest.raises(StoreFull, match="nothing was changed"):
        run(path, saved)
    assert (files(path), world(path)) == (["engram.db"], "later")


@pytest.mark.requirement("RESTORE-3", "STORE-21")
def test_a_process_that_has_the_store_open_goes_on_with_the_restored_one(path: Path, saved: Path) -> None:
    with Engram(str(path)) as eng, Engram(str(path)) as reader:
        eng.remember("Deploys never happen on Fridays")
        assert eng.recall("Fridays")
        assert reader.recall("Fridays")
        with reader._view.engine.read() as tx:
            assert tx.one("SELECT content FROM blocks WHERE name = 'world'") == ("later",)
            done = run(path, saved)
            assert tx.one("SELECT content FROM blocks WHERE name = 'world'") == ("later",), "one state, to its end"
        assert (eng.world.get(), reader.world.get()) == ("saved", "saved")
        assert eng.recall("Fridays", mode="words") == reader.recall("Fridays", mode="words") == []
        eng.remember("Zeppelins are kept in the hangar")
        assert eng.recall("zeppelins")[0].text == reader.recall("zeppelins")[0].text
    assert done.kept is not None
    with Engram(done.kept) as old:
        assert old.recall("Fridays")


@pytest.mark.requirement("RESTORE-3", "STORE-21")
def test_a_process_on_a_damaged_store_goes_on_with_the_restored_one(path: Path, saved: Path) -> None:
    with Engram(str(path)) as eng:
        garble_header(path)
        run(path, saved)
        assert eng.world.get() == "saved"
        eng.world.set("after")
    assert (world(path), is_sound(path)) == ("after", True)


@pytest.mark.requirement("RESTORE-3", "LEASE-8")
def test_a_token_or_number_that_was_given_out_since_the_backup_is_not_given_out_again(path: Path, saved: Path) -> None:
    with Engram(str(path)) as eng:
        first = eng.sessions.register("codex", "Working")
        lost = eng.leases.claim(first, "port:8080", exclusive=True)
        memory = eng.remember("Deploys never happen on Fridays")
        number = eng.changes()[-1].number
        run(path, saved)
        second = eng.sessions.register("claude-code", "Working")
        lease = eng.leases.claim(second, "port:8080", exclusive=True)
        assert lease.token > lost.token
        with pytest.raises(LeaseNotFound), eng.write(fence=lost.token):
            eng.world.set("never")
        assert eng.remember("Zeppelins are kept in the hangar").id > memory.id
        assert [change.what for change in eng.changes(after=number)][:1] == ["session"]


#: Restores the two backups by turns until it is killed.
RESTORING = """
import sys
from engram.maintenance import restore
from engram.config import load
print("ready", flush=True)
for _ in range(200):
    for file in sys.argv[2:]:
        restore(load(url=sys.argv[1]), file, force=True)
"""


@pytest.fixture
def two(path: Path, tmp_path: Path) -> Iterator[dict[str, Path]]:
    """Two backups that differ in every page, and a store that is one of them."""
    made = {}
    for name in ("red", "green"):
        other = tmp_path / f"{name}.db"
        with Engram(str(other)) as eng:
            eng.world.set(name)
            for number in range(100):
                eng.blocks.create(f"{name}-{number}", name * 300)
        made[name] = other
    run(path, made["red"])
    yield made


@pytest.mark.requirement("RESTORE-4")
@pytest.mark.parametrize("damaged", [False, True])
def test_wherever_a_restore_is_killed_the_store_is_the_old_or_the_new_one(
    two: dict[str, Path], path: Path, damaged: bool
) -> None:
    chance = random.Random(7)
    seen = set()
    for _ in range(12):
        if damaged:
            garble_header(path)
        process = subprocess.Popen(
            [sys.executable, "-c", RESTORING, str(path), *map(str, reversed(two.values()))],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(chance.uniform(0, 0.15))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if damaged and not path.read_bytes().startswith(b"SQLite format 3"):
            continue  # killed before anything was changed
        assert is_sound(path)
        with Engram(str(path)) as eng:
            name = eng.world.get()
            assert {block.name for block in eng.blocks.list()} == {"world"} | {f"{name}-{n}" for n in range(100)}
            assert all(block.content in (name, name * 300) for block in eng.blocks.list())
        seen.add(name)
    run(path, two["green"])
    assert world(path) == "green"
    # A damaged store is kept with its log.
    left = [name for name in files(path) if not (damaged and "before-restore" in name and name.endswith("-wal"))]
    assert not [name for name in left if name.endswith(("-wal", "-shm", ".partial", "-journal"))]
    assert sum("before-restore" in name for name in left) <= backup.KEPT + 12


@pytest.mark.requirement("RESTORE-4", "RESTORE-3")
def test_writers_and_a_restore_at_once_lose_nothing_but_what_the_backup_has_not(
    two: dict[str, Path], path: Path
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", RESTORING, str(path), str(two["green"])], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        with Engram(str(path)) as eng:
            assert process.stdout.readline() == "ready\n"
            kept = 0
            for number in range(60):
                with eng.write():
                    eng.blocks.create(f"pair-{number}-a")
                    eng.blocks.create(f"pair-{number}-b")
                names = {block.name for block in eng.blocks.list() if block.name.startswith("pair")}
                assert {name[:-1] for name in names if name.endswith("a")} == {
                    name[:-1] for name in names if name.endswith("b")
                }
                kept += f"pair-{number}-a" in names
            assert kept > 0
    finally:
        process.kill()
        process.communicate()
    assert is_sound(path)


@pytest.mark.requirement("RESTORE-5")
def test_the_command_restores_and_says_where_the_old_store_is(
    path: Path, saved: Path, sqlite_url: str, engram: Command
) -> None:
    assert str(path) == sqlite_url
    outcome = engram("restore", str(saved), "--yes", "--force")
    assert (outcome.code, outcome.err) == (0, "")
    assert f"Restored {path} from {saved}." in outcome.out
    assert "engram.db.before-restore-" in outcome.out
    assert world(path) == "saved"
    given = engram("restore", str(saved), "--yes", "--json").json
    assert given["store"] == str(path)
    assert os.path.exists(given["kept"])
    assert given["schema"] == NEWEST


@pytest.fixture
def store_url(sqlite_url: str) -> str:
    """The command's tests here are about files."""
    return sqlite_url


@pytest.mark.requirement("RESTORE-5")
def test_the_command_asks_and_no_is_an_answer(
    path: Path, saved: Path, engram: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    import io

    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    newer = engram("restore", str(saved))
    assert (newer.code, "is newer than" in newer.err, "Replace everything" in newer.err) == (4, True, False)
    outcome = engram("restore", str(saved), "--force")
    assert outcome.code == 1
    assert f"Replace everything in {path} with {saved}?" in outcome.err
    assert world(path) == "later"
    asked = engram("restore", str(saved), "--json")
    assert (asked.code, asked.json["error"]["code"]) == (2, "usage")
    assert engram("restore", str(saved.with_name("missing")), "--yes").code == 3
    assert engram("restore", str(path), "--yes").code == 2
    assert world(path) == "later"


@pytest.mark.requirement("RESTORE-5")
def test_on_a_terminal_the_command_shows_how_far_it_is(path: Path, saved: Path) -> None:
    code, shown = in_terminal("--store", str(path), "restore", str(saved), "--yes", "--force")
    assert code == 0
    assert "Copying" in shown
    assert "Restored" in shown


@pytest.mark.requirement("RESTORE-5")
def test_on_postgresql_the_command_names_its_own_tools(
    postgres_url: str, saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from engram.interfaces.cli import run as command

    assert command(["--store", postgres_url, "restore", str(saved), "--yes"]) == 2
    shown = capsys.readouterr().err
    assert "pg_restore" in shown and "as an administrator" in shown and "Replace everything" not in shown


@pytest.mark.requirement("RESTORE-1", "FORGET-13")
def test_what_was_forgotten_names_the_store_that_a_restore_kept(path: Path, saved: Path) -> None:
    done = run(path, saved)
    assert done.kept is not None
    with Engram(str(path)) as eng:
        receipt = eng.forget(memory=eng.memories.list()[0].id)
    assert receipt.backups == (Path(done.kept).name,)


#: Restores with room for hardly more than the backup, so that writing into the store fails.
CRAMPED = """
import resource, sys
from engram.maintenance import restore
from engram.config import load
from engram.errors import EngramError
most = int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
try:
    restore(load(url=sys.argv[1]), sys.argv[2])
except EngramError as error:
    print(type(error).__name__)
"""


@pytest.mark.requirement("RESTORE-1", "STORE-21")
def test_an_error_of_the_disk_leaves_a_sound_store_and_its_log_in_place(path: Path, saved: Path) -> None:
    with Engram(str(path)) as eng:
        for number in range(40):
            eng.blocks.create(f"block-{number}", "x" * 3_000)
        inode = path.stat().st_ino
        most = str(saved.stat().st_size + 8_192)
        done = subprocess.run(
            [sys.executable, "-c", CRAMPED, str(path), str(saved), most], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() != ""
        assert path.stat().st_ino == inode
        assert path.with_name("engram.db-wal").exists()
        eng.world.set("still here")
    assert (world(path), is_sound(path)) == ("still here", True)


@pytest.mark.requirement("RESTORE-2")
def test_a_write_to_the_backup_that_was_interrupted_is_taken_back_in_the_copy(path: Path, saved: Path) -> None:
    script = (
        "import apsw, os, sys\nc = apsw.Connection(sys.argv[1])\nc.execute('PRAGMA journal_mode=DELETE')\n"
        "c.execute('BEGIN IMMEDIATE')\nc.execute(\"UPDATE blocks SET content = 'never committed'\")\n"
        "c.cache_flush()\nos.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", script, str(saved)], check=False)
    journal = saved.with_name("backup.db-journal")
    before = (saved.read_bytes(), journal.read_bytes())
    run(path, saved)
    assert (world(path), is_sound(path)) == ("saved", True)
    assert (saved.read_bytes(), journal.read_bytes()) == before


@pytest.mark.requirement("RESTORE-1")
def test_the_backup_that_is_given_stays_however_many_copies_there_are(path: Path, saved: Path) -> None:
    first = run(path, saved).kept
    assert first is not None
    for _ in range(backup.KEPT - 1):
        run(path, saved)
    run(path, Path(first))
    assert Path(first).exists()
    assert world(path) == "later"


@pytest.mark.requirement("RESTORE-1")
def test_the_replaced_store_is_kept_also_if_the_clock_was_ahead_when_others_were_kept(path: Path, saved: Path) -> None:
    for number in range(backup.KEPT):
        kept = run(path, saved).kept
        assert kept is not None
        os.rename(kept, f"{path}.before-restore-2036010{number + 1}t000000000000")
    with Engram(str(path)) as eng:
        eng.world.set("written since")
    last = run(path, saved).kept
    assert last is not None
    assert world(last) == "written since"


@pytest.mark.requirement("RESTORE-2")
@pytest.mark.parametrize("damage", ["DROP TABLE memory_tags", "DELETE FROM migrations WHERE number > 7", "UTF-8"])
def test_a_backup_that_lacks_a_part_is_refused_in_one_line_that_names_it(path: Path, saved: Path, damage: str) -> None:
    connection = apsw.Connection(str(saved))
    connection.execute("UPDATE migrations SET hash = CAST(x'ff61' AS TEXT)" if damage == "UTF-8" else damage)
    connection.close()
    with pytest.raises(StoreDamaged) as refused:
        run(path, saved)
    assert str(saved) in str(refused.value)
    assert "\n" not in str(refused.value)
    assert world(path) == "later"


@pytest.mark.requirement("STORE-23")
def test_a_damaged_record_of_the_migrations_is_a_damaged_store(path: Path, saved: Path) -> None:
    assert saved.exists()  # and so does the store that it was made of
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE migrations SET hash = CAST(x'ff61' AS TEXT) WHERE number = 3")
    connection.close()
    with pytest.raises(StoreDamaged, match="engram restore"):
        Engram(str(path))
