"""A store's file that is deleted, moved or replaced while processes have it open."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from engram import Engram, LeaseHeld, NotAStore, SchemaTooNew, StoreDamaged, StoreUnavailable
from engram.storage import backup, migrate
from tests.migration.test_migrate import ADD_COLOUR, NEWEST, Extended, Store, extended

__all__ = ["extended"]  # fixture


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store" / "engram.db"


@pytest.fixture
def eng(path: Path) -> Iterator[Engram]:
    with Engram(str(path)) as eng:
        eng.world.set("the first store")
        yield eng


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Another store, closed, in one file."""
    file = tmp_path / "other.db"
    with Engram(str(file)) as eng:
        eng.world.set("the second store")
    return file


def descriptors(path: Path) -> list[str]:
    """The files below the store's folder that this process has open, deleted ones too."""
    found = []
    for entry in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{entry}")
        except FileNotFoundError:
            continue  # the one that lists the folder
        if target.startswith(f"{path.parent}/"):
            found.append(target)
    return found


def delete(path: Path) -> None:
    path.unlink()


def delete_all(path: Path) -> None:
    for file in path.parent.iterdir():
        file.unlink()


def move(path: Path) -> None:
    path.rename(path.with_name("moved.db"))


def delete_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


def move_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("moved"))


LOSSES = [delete, delete_all, move, delete_folder, move_folder]


@pytest.mark.requirement("STORE-21")
@pytest.mark.parametrize("lose", LOSSES)
def test_a_deleted_store_is_an_error_and_no_new_one_is_created(
    lose: Callable[[Path], None], eng: Engram, path: Path
) -> None:
    lose(path)
    for _ in range(2):
        for call in (lambda: eng.world.set("nowhere"), eng.world.get, eng.sitrep):
            with pytest.raises(StoreUnavailable, match=r"does not exist any more.*engram restore"):
                call()
    assert not path.exists()
    assert descriptors(path) == []


@pytest.mark.requirement("STORE-21")
def test_a_store_that_comes_back_is_used_again(eng: Engram, path: Path) -> None:
    move(path)
    with pytest.raises(StoreUnavailable):
        eng.world.get()
    path.with_name("moved.db").rename(path)
    assert eng.world.get() == "the first store"
    eng.world.set("again")
    with Engram(str(path)) as another:
        assert another.world.get() == "again"


@pytest.mark.requirement("STORE-21", "STORE-12")
def test_a_process_continues_with_the_file_that_replaced_its_store(eng: Engram, path: Path, other: Path) -> None:
    session = eng.sessions.register("codex", "Working")
    for helper in ("-wal", "-shm"):
        path.with_name(path.name + helper).unlink()
    os.replace(other, path)
    assert eng.world.get() == "the second store"
    assert session not in [each.id for each in eng.sessions.list()]
    eng.world.set("written by the first process")
    with Engram(str(path)) as another:
        assert another.world.get() == "written by the first process"
    assert [target for target in descriptors(path) if "deleted" in target] == []


@pytest.mark.requirement("STORE-21")
def test_two_processes_never_hold_the_same_exclusive_lease_after_the_store_was_replaced(
    eng: Engram, path: Path
) -> None:
    mine = eng.sessions.register("codex", "Working")
    delete_all(path)
    with Engram(str(path)) as another:
        theirs = another.sessions.register("claude-code", "Working")
        another.leases.claim(theirs, "port:8080", exclusive=True)
        again = eng.sessions.register("codex", "Working")
        assert again != mine
        with pytest.raises(LeaseHeld):
            eng.leases.claim(again, "port:8080", exclusive=True)


@pytest.mark.requirement("STORE-21")
@pytest.mark.parametrize("lose", LOSSES)
def test_a_write_fails_if_the_store_is_deleted_during_it(lose: Callable[[Path], None], eng: Engram, path: Path) -> None:
    with (
        pytest.raises(StoreUnavailable, match=r"deleted or replaced during this write; nothing was written"),
        eng.write(),
    ):
        eng.world.set("nowhere")
        lose(path)


@pytest.mark.requirement("STORE-21")
def test_a_store_behind_links_is_the_file_that_they_point_to(tmp_path: Path, other: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    (real / "link.db").symlink_to(real / "engram.db")
    with Engram(str(link / "engram.db")) as by_folder, Engram(str(link / "link.db")) as by_link:
        by_folder.world.set("one")
        assert by_link.world.get() == "one"
        # The links lead elsewhere now; the file that was opened is untouched.
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        shutil.copy(other, elsewhere / "engram.db")
        (elsewhere / "link.db").symlink_to(elsewhere / "engram.db")
        link.unlink()
        link.symlink_to(elsewhere)
        assert by_folder.world.get() == "the second store"
        by_link.world.set("two")
        assert by_folder.world.get() == "two"
    with Engram(str(real / "engram.db")) as first:
        assert first.world.get() == "one"


@pytest.mark.requirement("STORE-21", "STORE-5")
def test_an_empty_or_foreign_replacement_file_is_refused_and_left_alone(eng: Engram, path: Path) -> None:
    delete_all(path)
    path.touch()
    with pytest.raises(StoreUnavailable, match="replaced by an empty file"):
        eng.world.get()
    assert path.stat().st_size == 0
    delete_all(path)
    foreign = apsw.Connection(str(path))
    foreign.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY)")
    foreign.close()
    with pytest.raises(NotAStore):
        eng.world.set("nowhere")
    delete_all(path)
    with Engram(str(path)) as new:
        new.world.set("a new store, made by somebody who opened it")
    assert eng.world.get() == "a new store, made by somebody who opened it"


@pytest.mark.requirement("STORE-21")
def test_the_caches_of_a_process_are_dropped_with_a_replaced_store(eng: Engram, path: Path, tmp_path: Path) -> None:
    eng.remember("The router is in src/router.py")
    copy = tmp_path / "copy.db"
    source = apsw.Connection(str(path))
    backup.write(source, str(copy))
    source.close()
    eng.remember("Deploys never happen on Fridays", embed=True)
    assert eng.recall("deploys on Fridays")
    delete_all(path)
    copy.rename(path)
    assert [hit.text for hit in eng.recall("where is the router?")] == ["The router is in src/router.py"]
    # Its words get numbers which in the old store were those of other words.
    eng.remember("Zeppelins are kept in the hangar")
    assert eng.recall("zeppelins hangar")[0].text == "Zeppelins are kept in the hangar"
    with Engram(str(path)) as another:
        assert another.recall("zeppelins hangar")[0].text == "Zeppelins are kept in the hangar"
        assert all("Fridays" not in hit.text for hit in another.recall("deploys on Fridays"))


@pytest.mark.requirement("STORE-21", "STORE-11")
def test_many_threads_switch_to_the_new_store_together(eng: Engram, path: Path, other: Path) -> None:
    threads, rounds = 4, 30
    ready, replaced = threading.Barrier(threads + 1), threading.Event()
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for count in range(rounds):
                if count == 5:
                    ready.wait()
                    replaced.wait()
                eng.blocks.create(f"block-{number}-{count}")
                eng.world.get()
        except BaseException as error:
            failures.append(error)
            ready.abort()

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    ready.wait()
    delete_all(path)
    other.rename(path)
    replaced.set()
    for worker in workers:
        worker.join()
    assert failures == []
    with Engram(str(path)) as another:
        names = {block.name for block in another.blocks.list()} - {"world"}
    assert names == {f"block-{number}-{count}" for number in range(threads) for count in range(5, rounds)}
    assert [target for target in descriptors(path) if "deleted" in target] == []


@pytest.mark.requirement("STORE-21", "STORE-11")
def test_closing_a_replaced_store_keeps_the_wal_of_the_new_one(eng: Engram, path: Path, other: Path) -> None:
    delete_all(path)
    other.rename(path)
    writer = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, os\nfrom engram import Engram\neng = Engram(sys.argv[1])\neng.world.set('in the log')\n"
            "print('written', flush=True)\nsys.stdin.read()\nos._exit(0)",
            str(path),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == "written\n"
    eng.close()
    writer.communicate("")
    with Engram(str(path)) as another:
        assert another.world.get() == "in the log"


@pytest.mark.requirement("STORE-22", "STORE-6")
def test_a_process_gets_an_error_at_its_next_call_after_an_incompatible_migration(
    sqlite_url: str, extended: Extended
) -> None:
    with Engram(sqlite_url) as eng:
        eng.world.set("before")
        Store(sqlite_url).migrate(extended(ADD_COLOUR))
        for call in (lambda: eng.world.set("after"), eng.world.get):
            with pytest.raises(SchemaTooNew, match=f"schema {NEWEST + 1}, .*restart the programs"):
                call()
    assert Store(sqlite_url).all("SELECT content FROM blocks") == [("before",)]


@pytest.mark.requirement("STORE-22", "STORE-6")
def test_a_process_continues_after_a_compatible_migration(sqlite_url: str, extended: Extended) -> None:
    with Engram(sqlite_url) as eng:
        eng.world.set("before")
        eng.remember("The router is in src/router.py")
        assert eng.recall("router")
        Store(sqlite_url).migrate(extended(f"-- works with: {NEWEST}\n{ADD_COLOUR}"))
        eng.world.set("after")
        assert eng.recall("router")
        assert eng.world.get() == "after"


@pytest.mark.requirement("STORE-22")
def test_a_migration_between_two_calls_of_one_transaction_is_impossible(sqlite_url: str, extended: Extended) -> None:
    with Engram(sqlite_url) as eng:
        eng.world.set("before")
        folder = extended(ADD_COLOUR)
        with eng.write():
            eng.world.set("after")
            file = apsw.Connection(sqlite_url)
            try:
                with pytest.raises(apsw.BusyError):
                    migrate.sqlite(file, sqlite_url, eng._view.engine.clock, str(folder))
            finally:
                file.close()
        assert eng.world.get() == "after"


@pytest.mark.requirement("STORE-23")
def test_a_damaged_text_is_an_error_and_the_other_rows_stay_readable(sqlite_url: str) -> None:
    with Engram(sqlite_url) as eng:
        session = eng.sessions.register("codex", "Working")
        eng.blocks.create("good", "fine")
        eng.blocks.create("bad", "damaged")
        Store(sqlite_url).all("UPDATE blocks SET content = CAST(X'ff6e6f' AS TEXT) WHERE name = 'bad'")
        for _ in range(2):
            with pytest.raises(StoreDamaged, match=r"is damaged \(.*UTF-8.*engram restore FILE"):
                eng.blocks.get("bad")
            good = eng.blocks.get("good")
            assert good is not None
            assert good.content == "fine"
            eng.sessions.log(session, "the store goes on")
        with pytest.raises(StoreDamaged), eng.write():
            eng.sessions.log(session, "never")
            eng.blocks.append("bad", "more")
        assert len(eng.sessions.logs(session, limit=0)) == 2


@pytest.mark.requirement("STORE-23")
def test_a_damaged_file_is_an_error_that_names_the_remedy(path: Path) -> None:
    with Engram(str(path)) as eng:
        for number in range(50):
            eng.blocks.create(f"block-{number}", "x" * 2_000)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4_096)
        file.write(b"\xff" * (size - 4_096))
    with pytest.raises(StoreDamaged, match="engram restore FILE"), Engram(str(path)) as eng:
        eng.blocks.list()
