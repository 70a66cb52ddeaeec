"""The files of a store: their owner, their permissions, and which other files are left alone."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import pytest

from engram import Engram, InvalidInput, NotAStore, StoreBusy, StoreFull, StoreReadOnly, StoreUnavailable
from engram.config import load
from engram.embedding import cache
from engram.interfaces import detached
from engram.interfaces.hooks import respond
from engram.interfaces.install import files
from engram.maintenance import backup as make_backup
from engram.maintenance import copy, encrypt, restore, vacuum
from engram.storage import backup, database
from engram.storage.file_systems import NETWORK_FILE_SYSTEMS, network_file_system
from tests.conftest import ShiftedClock


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def snapshot(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def foreign(path: Path, *statements: str) -> None:
    connection = apsw.Connection(str(path))
    for statement in statements:
        connection.execute(statement)
    connection.close()


STRANGERS: dict[str, Callable[[Path], object]] = {
    "noise": lambda path: path.write_bytes(bytes(range(256)) * 64),
    "a few letters": lambda path: path.write_text("hello"),
    "a text": lambda path: path.write_text("# Notes\n" * 2_000),
    "half a header": lambda path: path.write_bytes(b"SQLite format 3\x00"),
    "another program's database": lambda path: foreign(
        path, "CREATE TABLE notes (id INTEGER PRIMARY KEY)", "INSERT INTO notes VALUES (1)"
    ),
    "another program's database in WAL mode": lambda path: foreign(
        path, "PRAGMA journal_mode=WAL", "CREATE TABLE sessions (id INTEGER PRIMARY KEY)"
    ),
    "another program's empty database": lambda path: foreign(
        path, "PRAGMA application_id=1234", "CREATE TABLE notes (id)", "DROP TABLE notes"
    ),
    "a database with our table names": lambda path: foreign(
        path, "CREATE TABLE migrations (number, name)", "CREATE TABLE changes (number)"
    ),
}


@pytest.mark.requirement("STORE-5")
@pytest.mark.parametrize("stranger", STRANGERS)
def test_a_file_of_another_program_is_refused_and_unchanged(tmp_path: Path, stranger: str) -> None:
    path = tmp_path / "data.db"
    STRANGERS[stranger](path)
    before = snapshot(tmp_path)
    for _ in range(2):
        with pytest.raises(NotAStore, match="was not changed") as refused:
            Engram(str(path))
        assert str(path) in str(refused.value)
    assert snapshot(tmp_path) == before


@pytest.mark.requirement("STORE-5")
def test_a_refused_database_keeps_the_log_that_its_program_left(tmp_path: Path) -> None:
    path, copy = tmp_path / "program" / "data.db", tmp_path / "data.db"
    path.parent.mkdir()
    program = apsw.Connection(str(path))
    program.execute("PRAGMA journal_mode=WAL")
    program.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY)")
    # As the program leaves them when it is killed.
    for end in ("", "-wal"):
        shutil.copyfile(f"{path}{end}", f"{copy}{end}")
    program.close()
    before = snapshot(tmp_path)
    with pytest.raises(NotAStore, match="was not changed"):
        Engram(str(copy))
    after = snapshot(tmp_path)
    # The index of the log holds nothing that the log does not hold.
    after.pop("data.db-shm", None)
    assert after == before


@pytest.mark.requirement("STORE-5")
def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "data.db"
    path.touch()
    with Engram(str(path)) as eng:
        eng.world.set("ours")
    with Engram(str(path)) as eng:
        assert eng.world.get() == "ours"


@pytest.mark.requirement("STORE-5")
def test_a_folder_is_not_a_store(tmp_path: Path) -> None:
    (tmp_path / "data.db").mkdir()
    with pytest.raises(StoreUnavailable):
        Engram(str(tmp_path / "data.db"))
    assert list((tmp_path / "data.db").iterdir()) == []


@pytest.mark.requirement("STORE-5", "MIGRATE-1")
def test_a_process_that_loses_the_race_to_create_a_store_opens_the_existing_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, count, overtaken = 0, 0, 0

    def trace(_: apsw.Cursor, __: str, ___: object) -> bool:
        # Before the statement whose turn it is, another process makes the whole store, if it can get at the file.
        nonlocal count, overtaken
        count += 1
        if count == place:
            with suppress(StoreBusy), Engram(settings=load(url=path, busy_timeout=0.02)) as faster:
                faster.world.set("made by the faster one")
                overtaken += 1
        return True

    def watch(connection: apsw.Connection) -> None:
        connection.exec_trace = trace

    monkeypatch.setattr(apsw, "connection_hooks", [*apsw.connection_hooks, watch])
    while count >= place:
        # Who makes the file is decided by the first statements; of the many migrations after them, some are enough.
        place, count = place + (1 if place < 40 else 12), 0
        path = str(tmp_path / f"{place}.db")
        with Engram(path) as slower:
            slower.blocks.list()
    assert overtaken >= 3


# A folder's mode does not restrict root. Without these two capabilities it does.
ORDINARY = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
USE = """
import json, sys
from engram import Engram, EngramError
def attempt(call):
    try:
        return call() and "fine"
    except EngramError as error:
        return error.code
try:
    eng = Engram(sys.argv[1])
except EngramError as error:
    print(json.dumps({"open": error.code, "message": str(error)}))
else:
    with eng:
        answer = {"open": "fine", "sitrep": attempt(eng.sitrep), "write": attempt(lambda: eng.world.set("no"))}
        print(json.dumps(answer))
"""


def used(path: Path) -> dict[str, str]:
    """The results of opening, reading and writing a store as a user whom permissions restrict."""
    run = subprocess.run([*ORDINARY, sys.executable, "-c", USE, str(path)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    answer: dict[str, str] = json.loads(run.stdout)
    return answer


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Path]:
    """A store with content in a folder of its own, which becomes writable again at the end."""
    path = tmp_path / "store" / "e.db"
    with Engram(str(path)) as eng:
        eng.world.set("all is well")
    yield path
    path.parent.chmod(0o700)


@pytest.mark.requirement("STORE-7")
def test_a_new_store_in_a_read_only_folder_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        answer = used(tmp_path / "e.db")
        assert answer["open"] == "store_read_only"
        assert "Choose a folder you may write to" in answer["message"]
        assert used(tmp_path / "sub" / "e.db")["open"] == "store_read_only"
        assert list(tmp_path.iterdir()) == []
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.requirement("STORE-7")
@pytest.mark.parametrize("file_mode", [0o400, 0o600])
def test_a_store_in_a_read_only_folder_is_refused_and_not_changed(store: Path, file_mode: int) -> None:
    before = snapshot(store.parent)
    store.chmod(file_mode)
    store.parent.chmod(0o500)
    answer = used(store)
    assert answer["open"] == "store_read_only"
    assert "write permission on the file and its folder" in answer["message"]
    assert snapshot(store.parent) == before


@pytest.mark.requirement("STORE-7")
def test_a_read_only_file_can_be_read_but_not_written(store: Path) -> None:
    before = store.read_bytes()
    store.chmod(0o400)
    assert used(store) == {"open": "fine", "sitrep": "fine", "write": "store_read_only"}
    assert store.read_bytes() == before
    store.chmod(0o600)
    assert used(store) == {"open": "fine", "sitrep": "fine", "write": "fine"}


@pytest.mark.requirement("STORE-7")
def test_a_user_without_write_permission_can_read_a_store_that_others_write(store: Path) -> None:
    with Engram(str(store)) as writer:
        writer.world.set("being written")
        store.chmod(0o400)
        store.parent.chmod(0o500)
        assert used(store) == {"open": "fine", "sitrep": "fine", "write": "store_read_only"}
        writer.world.set("still being written")
        assert writer.world.get() == "still being written"


@pytest.mark.requirement("STORE-7", "SESSION-13")
@pytest.mark.parametrize("how", ["default_transaction_read_only%3Don", "role%3D{role}"])
def test_a_read_only_postgresql_can_be_read_but_not_written(postgres_url: str, clock: ShiftedClock, how: str) -> None:
    with Engram(postgres_url, clock=clock) as eng:
        sid = eng.sessions.register("codex", "Working")
        schema = postgres_url.rpartition("=")[2]
        role = f"{schema}_reader"
        with eng._view.engine.write() as tx:
            tx.run(f"CREATE ROLE {role}")
            tx.run(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
            tx.run(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}")
        clock.advance(2 * 86_400)
        before = (eng.sessions.list(), eng.changes())
        options = f"&options=-c{how.format(role=role)}"
        try:
            with Engram(postgres_url + options, clock=clock) as reader:
                assert sid in reader.sitrep()
                for attempt in (lambda: reader.world.set("no"), lambda: reader.sessions.log(sid, "no")):
                    with pytest.raises(StoreReadOnly, match="Connect to the primary server"):
                        attempt()
            assert (eng.sessions.list(), eng.changes()) == before
            with pytest.raises(StoreReadOnly):
                Engram(postgres_url + "_new" + options)
        finally:
            with eng._view.engine.write() as tx:
                tx.run(f"DROP OWNED BY {role}")
                tx.run(f"DROP ROLE {role}")


@pytest.mark.requirement("STORE-9")
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_only_the_owner_can_read_a_stores_files_with_any_umask(tmp_path: Path, umask: int) -> None:
    path = tmp_path / "new" / "store" / "e.db"
    previous = os.umask(umask)
    try:
        with Engram(str(path)) as eng:
            eng.world.set("private")
            modes = {file.name: mode(file) for file in path.parent.iterdir()}
    finally:
        os.umask(previous)
    assert modes == {"e.db": 0o600, "e.db-wal": 0o600, "e.db-shm": 0o600}
    assert mode(path.parent) == 0o700
    assert [file.name for file in path.parent.iterdir()] == ["e.db"]


@pytest.mark.requirement("STORE-9")
@pytest.mark.parametrize("umask", [0o000, 0o777])
def test_only_the_owner_can_read_anything_engram_creates_with_any_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask: int
) -> None:
    """The data folder and those above it, the log, locks and copies; the settings of a harness and their backup."""
    home, data = tmp_path / "home", tmp_path / "a" / "b" / "data"
    monkeypatch.setenv("ENGRAM_DATA_DIR", str(data))
    monkeypatch.setenv("ENGRAM_CACHE_DIR", str(tmp_path / "c" / "cache"))
    monkeypatch.setenv("HOME", str(home))
    home.mkdir()
    settings = home / ".claude" / "settings.json"
    previous = os.umask(umask)
    try:
        respond("claude-code", b"no event")
        with Engram() as eng:
            eng.world.set("private")
            _make_copies(eng, tmp_path)
        cache.write("thing", b"content", cache.folder())
        assert detached._lock(str(data / "some.lock"), 0) is not None
        for after in ("{}", '{"a": 1}'):
            before = files.read(settings)
            files.apply(files.Change(settings, before, after))
    finally:
        os.umask(previous)
    made = [file for top in ("a", "c", "home/.claude") for file in [tmp_path / top, *(tmp_path / top).rglob("*")]]
    assert {"hook.log", "engram.db", "some.lock", "settings.json"} <= {file.name for file in made}
    assert any("before-restore" in file.name for file in made)
    assert any(file.name.endswith(".engram-backup") for file in made)
    wrong = {str(file): oct(mode(file)) for file in made if mode(file) != (0o700 if file.is_dir() else 0o600)}
    assert wrong == {}


def _make_copies(eng: Engram, tmp_path: Path) -> None:
    url = eng.settings.url
    source = apsw.Connection(url)
    try:
        backup.keep(source, url, "before-0002", eng._view.engine.clock)
        backup.write(source, str(tmp_path / "backup.db"))
    finally:
        source.close()
    restore(eng.settings, str(tmp_path / "backup.db"))


@pytest.mark.requirement("STORE-9")
def test_an_existing_folder_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    Engram(str(tmp_path / "e.db")).close()
    assert (mode(tmp_path), mode(tmp_path / "e.db")) == (0o755, 0o600)


@pytest.mark.requirement("STORE-9", "STORE-18")
def test_deleted_text_is_no_longer_in_the_file(tmp_path: Path) -> None:
    path, secret = tmp_path / "e.db", "the passphrase is xyzzy " * 50
    with Engram(str(path)) as eng:
        eng.blocks.create("secret", secret)
        eng.blocks.update("secret", secret + "still")
    assert b"xyzzy" in path.read_bytes()
    with Engram(str(path)) as eng:
        eng.blocks.delete("secret")
    assert b"xyzzy" not in path.read_bytes()


@pytest.fixture
def without_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system that has no disk of its own, as network file systems have none."""
    if os.major(tmp_path.stat().st_dev) == 0:
        yield tmp_path
        return
    import tempfile

    shared = Path("/dev/shm")
    if not shared.is_dir() or os.major(shared.stat().st_dev) != 0:
        pytest.skip("every folder here is on a disk")
    with tempfile.TemporaryDirectory(dir=shared) as folder:
        yield Path(folder)


def mounts(file: Path, folder: Path, kind: str) -> str:
    """A mount table in which the folder is on a file system of that kind."""
    minor = os.minor(folder.stat().st_dev)
    file.write_text(
        "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n"
        f"98 22 0:{minor + 1000} / /other rw - nfs4 server:/other rw\n"
        f"99 22 0:{minor} / /mnt rw,relatime shared:7 master:2 - {kind} server:/export rw,vers=4.2\n"
    )
    return str(file)


@pytest.mark.requirement("STORE-10")
@pytest.mark.parametrize("kind", sorted(NETWORK_FILE_SYSTEMS))
def test_a_network_file_system_is_recognised(tmp_path: Path, kind: str) -> None:
    proc = Path("/proc")  # has a device number without a disk, on every Linux
    assert network_file_system(str(proc), mounts(tmp_path / "mounts", proc, kind)) == kind


@pytest.mark.requirement("STORE-10")
@pytest.mark.parametrize("kind", ["tmpfs", "overlay", "btrfs", "zfs", "fuse.encfs", "nfsd"])
def test_a_local_file_system_is_not_mistaken_for_a_network_one(tmp_path: Path, kind: str) -> None:
    proc = Path("/proc")
    assert network_file_system(str(proc), mounts(tmp_path / "mounts", proc, kind)) is None


@pytest.mark.requirement("STORE-10")
@pytest.mark.parametrize("table", ["", "nonsense\n\n - \n", None])
def test_an_unknown_file_system_counts_as_local(tmp_path: Path, table: str | None) -> None:
    file = tmp_path / "mounts"
    if table is not None:
        file.write_text(table)
    assert network_file_system("/proc", str(file)) is None
    assert network_file_system(str(tmp_path / "missing"), str(file)) is None


@pytest.mark.requirement("STORE-10")
def test_a_store_on_a_network_file_system_is_refused_before_it_is_created(
    without_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = without_disk / "store"
    folder.mkdir()
    table = mounts(tmp_path / "mounts", folder, "nfs4")
    monkeypatch.setattr(network_file_system, "__defaults__", (table,))
    with pytest.raises(StoreUnavailable, match=r"network file system \(nfs4\).*PostgreSQL"):
        Engram(str(folder / "e.db"))
    assert list(folder.iterdir()) == []


@pytest.mark.requirement("STORE-5")
@pytest.mark.parametrize("kind", ["a pipe", "a device"])
def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    strange, path = tmp_path / "strange", tmp_path / "engram.db"
    os.mkfifo(strange) if kind == "a pipe" else strange.symlink_to("/dev/null")
    with Engram(path) as eng:
        eng.world.set("here")
        with pytest.raises(InvalidInput, match="no regular file"):
            eng.load_export(strange)
    settings, ours = load(url=str(strange)), load(url=str(path))
    before = sorted(os.listdir(tmp_path))
    for refused in (
        lambda: Engram(strange),
        lambda: Engram(strange, create=False),
        lambda: vacuum(settings),
        lambda: copy(settings, load(url=str(tmp_path / "new.db"))),
        lambda: copy(ours, settings),
        lambda: restore(settings, str(path)),
    ):
        with pytest.raises(NotAStore, match="no regular file"):
            refused()
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.requirement("STORE-5")
def test_a_link_to_itself_is_a_typed_error(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for command in (encrypt, make_backup):
        with pytest.raises(StoreUnavailable, match="a symbolic link that leads to itself"):
            command(load(url=str(loop)))


@pytest.mark.requirement("STORE-8")
def test_a_new_store_that_does_not_fit_on_the_disk_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = database.connect

    def cramped(*arguments: Any, **options: Any) -> apsw.Connection:
        connection = connect(*arguments, **options)
        connection.execute("PRAGMA max_page_count = 10")
        return connection

    Engram(tmp_path / "there.db").close()
    monkeypatch.setattr(database, "connect", cramped)
    with pytest.raises(StoreFull):
        Engram(tmp_path / "new.db")
    assert os.listdir(tmp_path) == ["there.db"]
