"""`engram backup`: whole copies made while others write, checked, rotated, listed, and named in receipts."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import apsw
import pytest

from engram import (
    Clock,
    Conflict,
    Engram,
    InvalidInput,
    MissingExtra,
    NotFound,
    StoreDamaged,
    StoreFull,
    StoreNotFound,
    StoreUnavailable,
)
from engram.config import load
from engram.interfaces.hooks import respond
from engram.maintenance import backup, backups, newest_backup, refuse_newer, restore
from engram.setup_records import BackupMade
from engram.storage import backup as copies
from engram.storage import backup_names, database, dumps
from engram.storage import restore as restoring
from tests._tables import dump
from tests.conftest import ShiftedClock
from tests.interfaces.conftest import Engram as Command
from tests.interfaces.conftest import engram, in_terminal
from tests.migration.test_migrate import NEWEST
from tests.migration.test_restore import cut_off, empty, garble_header, garble_rest, garble_schema, is_sound, world
from tests.team import _programs as programs

__all__ = ["engram"]  # fixture


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "store" / "engram.db"
    with Engram(file) as eng:
        eng.world.set("saved")
        eng.remember("The router is in src/router.py")
    return file


@pytest.fixture
def store_url(path: Path) -> str:
    """The commands here are about files."""
    return str(path)


def save(
    path: Path, target: Path | str | None = None, clock: Clock | None = None, keep: int | None = None
) -> BackupMade:
    return backup(load(url=str(path)), None if target is None else str(target), clock=clock, keep=keep)


#: Writes blocks until it is killed, and says the number of each one that is stored.
WRITER = """
import sys
from engram import Engram
eng = Engram(sys.argv[1])
for number in range(100_000):
    eng.blocks.create(f"{sys.argv[2]}-{number}", "x" * 2_000)
    print(number, flush=True)
"""


@pytest.mark.requirement("BACKUP-1")
def test_a_backup_under_four_writers_has_every_write_that_was_acknowledged_before_it_began(
    path: Path, tmp_path: Path
) -> None:
    arguments = [sys.executable, "-c", WRITER, str(path)]
    writers = [subprocess.Popen([*arguments, name], stdout=subprocess.PIPE, text=True) for name in "abcd"]
    try:
        for round_ in range(3):
            acknowledged = []
            for name, writer in zip("abcd", writers, strict=True):
                assert writer.stdout is not None
                # The pipe holds more lines than were read, so this is less than what is stored.
                acknowledged += [f"{name}-{writer.stdout.readline().strip()}" for _ in range(5)]
            seen: list[int] = []
            target = str(tmp_path / f"{round_}.db")
            made = backup(load(url=str(path)), target, progress=lambda done, total, seen=seen: seen.append(done))  # type: ignore[misc]
            assert is_sound(Path(made.file))
            with Engram(made.file) as copy:
                names = {block.name for block in copy.blocks.list()}
            assert set(acknowledged) <= names
            assert seen
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()


@pytest.mark.requirement("BACKUP-1")
def test_a_copy_in_many_steps_is_of_one_state_and_does_not_begin_again_when_others_write(
    path: Path, tmp_path: Path
) -> None:
    with Engram(path) as eng:
        for number in range(40):
            eng.blocks.create(f"block-{number}", "y" * 200_000)
        steps: list[int] = []

        def written_between_steps(done: int, total: int) -> None:
            steps.append(done)
            eng.blocks.create(f"late-{len(steps)}", "z" * 50_000)

        original, copies._PORTION = copies._PORTION, 64
        try:
            made = backup(load(url=str(path)), str(tmp_path / "copy.db"), progress=written_between_steps)
        finally:
            copies._PORTION = original
    assert len(steps) > 5
    assert steps == sorted(steps), "SQLite began again"
    with Engram(made.file) as copy:
        assert not [block for block in copy.blocks.list() if block.name.startswith("late")]


@pytest.mark.requirement("BACKUP-1")
def test_a_backup_goes_into_the_folder_beside_the_store_for_its_owner_alone(path: Path) -> None:
    before = dump(str(path))
    made = save(path)
    file = Path(made.file)
    assert file.parent == path.parent / "backups"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert os.listdir(file.parent) == [file.name]
    assert (made.store, made.schema, made.size, made.removed) == (str(path), NEWEST, file.stat().st_size, ())
    assert dump(str(file)) == before
    assert dump(str(path)) == before


@pytest.mark.requirement("BACKUP-2")
def test_rotation_keeps_the_newest_of_this_store_and_touches_nothing_else(
    path: Path, tmp_path: Path, clock: ShiftedClock
) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    other = tmp_path / "other" / "engram.db"
    with Engram(other) as eng:
        eng.world.set("of another store")
    foreign = save(other, folder, clock).file
    (folder / "notes.txt").write_text("mine")
    (folder / "engram-copy.db").write_bytes(path.read_bytes())
    made = []
    for _ in range(5):
        clock.advance(60)
        made.append(save(path, folder, clock, keep=3))
    # It has the name of a backup, but is none.
    pretender = Path(made[-1].file.replace(Path(made[-1].file).name[-24:-3], "20200101t000000000000"))
    pretender.write_text("hello")
    (folder / pretender.name.replace("2020", "2019")).symlink_to(folder / "notes.txt")
    clock.advance(60)
    last = save(path, folder, clock, keep=3)
    assert [each.removed for each in made[:3]] == [(), (), ()]
    assert made[3].removed == (made[0].file,)
    kept = {Path(each.file).name for each in (*made[3:], last)}
    others = {Path(foreign).name, "notes.txt", "engram-copy.db", pretender.name, pretender.name.replace("2020", "2019")}
    assert set(os.listdir(folder)) == kept | others
    assert pretender.read_text() == "hello"


@pytest.mark.requirement("BACKUP-2")
def test_a_backup_just_made_stays_also_if_the_clock_was_ahead_when_others_were_made(
    path: Path, clock: ShiftedClock
) -> None:
    decade = 10 * 365 * 86_400.0
    clock.advance(decade)
    ahead = []
    for _ in range(2):
        clock.advance(60)
        ahead.append(save(path, clock=clock, keep=2).file)
    clock.advance(-decade)
    last = save(path, clock=clock, keep=2)
    assert last.removed == (ahead[0],)
    assert last.size == Path(last.file).stat().st_size
    only = save(path, clock=clock, keep=1)
    assert os.listdir(path.parent / "backups") == [Path(only.file).name]


@pytest.mark.requirement("BACKUP-2")
def test_a_backup_is_made_and_names_the_older_one_that_cannot_be_removed(
    path: Path, clock: ShiftedClock, engram: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    oldest = save(path, None, clock).file
    clock.advance(60)
    unlink = os.unlink

    def refuse(file: str, *given: Any, **named: Any) -> None:
        if file == oldest:
            raise PermissionError(errno.EPERM, "Operation not permitted", file)
        unlink(file, *given, **named)

    monkeypatch.setattr(os, "unlink", refuse)
    done = engram("backup", "--keep", "1")
    assert done.code == 0
    assert f"This older backup could not be removed: {oldest}" in done.out
    assert len(backup_names.known(str(path))) == 2


@pytest.mark.requirement("BACKUP-2")
def test_a_backup_that_fails_leaves_the_older_ones_and_no_draft(
    path: Path, clock: ShiftedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = save(path, clock=clock, keep=1)
    clock.advance(60)
    with monkeypatch.context() as patch, pytest.raises(StoreFull, match="nothing was changed"):
        patch.setattr(copies, "_MARGIN", 1 << 60)
        save(path, clock=clock, keep=1)
    with path.open("r+b") as file:
        file.seek(5 * 4_096)
        file.write(b"\xff" * 20_000)
    with pytest.raises(StoreDamaged):
        save(path, clock=clock, keep=1)
    assert os.listdir(path.parent / "backups") == [Path(first.file).name]


@pytest.mark.requirement("BACKUP-2", "STORE-8")
def test_a_full_disk_is_named_by_the_backup_that_does_not_fit_on_it(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = database.connect

    def cramped(file: str, *arguments: Any, **options: Any) -> apsw.Connection:
        connection = connect(file, *arguments, **options)
        if file.endswith(".partial"):
            connection.execute("PRAGMA max_page_count = 10")
        return connection

    monkeypatch.setattr(database, "connect", cramped)
    with pytest.raises(StoreFull, match=f"The disk that holds {tmp_path}/usb.db"):
        save(path, tmp_path / "usb.db")
    assert not list(tmp_path.glob("usb.db*"))


@pytest.mark.requirement("BACKUP-3")
def test_a_backup_is_made_and_says_so_if_the_list_of_places_cannot_be_written(
    path: Path, tmp_path: Path, engram: Command
) -> None:
    Path(f"{path}.backups").mkdir()
    made = engram("backup", str(tmp_path / "usb.db"))
    assert (made.code, is_sound(tmp_path / "usb.db")) == (0, True)
    assert "receipts of forgetting do not name this backup" in made.out
    # The folder beside the store is always known.
    assert "receipts" not in engram("backup").out


@pytest.mark.requirement("BACKUP-6")
def test_a_secret_that_pg_dump_takes_only_as_an_argument_is_refused(tmp_path: Path) -> None:
    settings = load(url="postgresql://me@localhost/x?sslpassword=hunter22", data_dir=str(tmp_path))
    with pytest.raises(InvalidInput, match="sslpassword") as refused:
        backup(settings)
    assert "service=" in str(refused.value)
    assert "hunter22" not in str(refused.value)


@pytest.mark.requirement("BACKUP-1")
def test_a_backup_replaces_no_file_and_needs_a_store(path: Path, tmp_path: Path) -> None:
    (tmp_path / "there.db").write_text("mine")
    with pytest.raises(Conflict, match="exists"):
        save(path, tmp_path / "there.db")
    assert (tmp_path / "there.db").read_text() == "mine"
    with pytest.raises(StoreNotFound):
        save(tmp_path / "missing.db")
    assert not (tmp_path / "missing.db").exists()
    assert save(path, f"{tmp_path}/new folder/").file.startswith(str(tmp_path / "new folder" / "engram-"))


@pytest.mark.requirement("BACKUP-1")
def test_a_new_name_without_an_ending_is_a_folder(path: Path, tmp_path: Path, clock: ShiftedClock) -> None:
    made = []
    for _ in range(2):
        clock.advance(60)
        made.append(save(path, tmp_path / "usb" / "nightly", clock).file)
    assert sorted(os.listdir(tmp_path / "usb" / "nightly")) == [Path(each).name for each in made]
    assert save(path, tmp_path / "usb" / "one.db").file == str(tmp_path / "usb" / "one.db")


@pytest.mark.requirement("BACKUP-1")
def test_a_backup_takes_no_name_of_a_stores_own_files(path: Path, tmp_path: Path) -> None:
    before = sorted(os.listdir(tmp_path))
    for end in ("-wal", "-shm", "-journal", ".backups", ".copying", ".next", ".replaced"):
        for store in (path, tmp_path / "not-there.db"):
            with pytest.raises(InvalidInput, match="Choose another name"):
                save(path, f"{store}{end}")
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.requirement("BACKUP-2", "BACKUP-3")
def test_a_backup_that_cannot_be_written_leaves_no_place_and_no_folder(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StoreUnavailable):
        save(path, tmp_path / f"{'x' * 250}.db")
    with monkeypatch.context() as patch, pytest.raises(StoreFull):
        patch.setattr(copies, "_MARGIN", 1 << 60)
        save(path, f"{tmp_path}/new/")
    assert not (tmp_path / "new").exists()
    assert not Path(f"{path}.backups").exists()


@pytest.mark.requirement("BACKUP-3")
def test_a_restore_notes_the_folder_of_its_backup_if_the_list_was_lost(path: Path, tmp_path: Path) -> None:
    made = save(path, tmp_path / "nas").file
    (tmp_path / "mine.db").write_bytes(Path(made).read_bytes())
    Path(f"{path}.backups").unlink()
    path.unlink()
    restore(load(url=str(path)), str(tmp_path / "mine.db"))
    assert made not in [each.file for each in backups(load(url=str(path)))]
    restore(load(url=str(path)), made)
    assert made in [each.file for each in backups(load(url=str(path)))]


@pytest.mark.requirement("FORGET-13")
def test_forgetting_deletes_what_killed_processes_left(path: Path, tmp_path: Path) -> None:
    places = [save(path).file, save(path, tmp_path / "usb.db").file, save(path, tmp_path / "nas").file]
    stamp = "20260101t000000000000"
    ends = (f".before-0017-{stamp}.partial", f".incoming-99999999-{stamp}.partial", ".new-99999999-1")
    left = [*(f"{file}.99999999.partial" for file in places), *(f"{path}{end}" for end in (*ends, ".next", ".copying"))]
    alive = f"{places[0]}.{os.getpid()}.partial"
    for file in (*left, alive):
        Path(file).write_bytes(Path(places[0]).read_bytes())
    with Engram(path) as eng:
        eng.forget(memory=eng.memories.list()[0].id)
    assert [file for file in left if os.path.exists(file)] == []
    assert all(os.path.exists(file) for file in (*places, alive))


@pytest.mark.requirement("FORGET-13")
def test_forgetting_deletes_the_draft_of_a_killed_dump(postgres_url: str, tmp_path: Path) -> None:
    from engram.store_url import split_schema

    folder = tmp_path / "data" / "backups"
    folder.mkdir(parents=True)
    name = f"{dumps._prefix(*split_schema(postgres_url))}20260101t000000000000.dump"
    for each in (name, f"{name}.99999999.partial", f"{name}.{os.getpid()}.partial", "mine.99999999.partial"):
        (folder / each).write_bytes(b"PGDMP")
    with Engram(settings=load(url=postgres_url, data_dir=str(tmp_path / "data"))) as eng:
        eng.forget(memory=eng.remember("The router is in src/router.py").id)
    assert sorted(os.listdir(folder)) == sorted([name, f"{name}.{os.getpid()}.partial", "mine.99999999.partial"])


@pytest.mark.requirement("BACKUP-3", "FORGET-7")
def test_a_receipt_names_every_older_backup_wherever_it_is(path: Path, tmp_path: Path, clock: ShiftedClock) -> None:
    beside = save(path, clock=clock).file
    elsewhere = save(path, tmp_path / "usb.db", clock).file
    (tmp_path / "nas").mkdir()
    third = save(path, tmp_path / "nas", clock).file
    clock.advance(60)
    with Engram(settings=load(url=str(path)), clock=clock) as eng:
        receipt = eng.forget(memory=eng.memories.list()[0].id)
    assert set(receipt.backups) == {beside, elsewhere, third}
    clock.advance(60)
    save(path, clock=clock)
    Path(elsewhere).unlink()
    with Engram(settings=load(url=str(path)), clock=clock) as eng:
        assert set(eng.receipts()[0].backups) == {beside, third}
        restore(load(url=str(path)), beside, force=True)
        again = eng.forget(memory=eng.memories.list()[0].id)
    assert {beside, third} < set(again.backups), "a restore does not forget where backups are"


DAMAGES = {each.__name__: each for each in (garble_header, garble_schema, garble_rest, cut_off, empty)}


def missing(path: Path) -> None:
    path.unlink()


def lost_log(path: Path) -> None:
    for end in ("-wal", "-shm"):
        path.with_name(f"{path.name}{end}").unlink(missing_ok=True)


def wrong_id(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(68)
        file.write(b"\0\0\0\0")


def garbage_page(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(3 * 4_096)
        file.write(os.urandom(4_096))


def unreadable(path: Path) -> None:
    path.chmod(0)


@pytest.mark.requirement("BACKUP-4", "RESTORE-1")
def test_the_newest_valid_backup_of_a_folder_comes_back_after_every_kind_of_damage(
    path: Path, clock: ShiftedClock
) -> None:
    older = save(path, clock=clock).file
    clock.advance(60)
    newer = Path(save(path, clock=clock).file)
    garble_rest(newer)
    every = {**DAMAGES, **{each.__name__: each for each in (missing, lost_log, garbage_page, unreadable)}}
    for name, damage in every.items():
        damage(path)
        done = restore(load(url=str(path)), str(newer.parent))
        assert done.file == older, name
        assert (world(path), is_sound(path)) == ("saved", True), name
    with pytest.raises(NotFound, match="no backup that can be restored"):
        newest_backup(load(url=str(path)), str(path.parent.parent))


@pytest.fixture
def shared(tmp_path: Path, clock: ShiftedClock) -> tuple[Path, Path, Path]:
    """Two stores, A and B, that back up into one folder, B last."""
    folder, stores = tmp_path / "shared", [tmp_path / "A.db", tmp_path / "B.db"]
    for store in stores:
        with Engram(store) as eng:
            eng.world.set(f"of {store.stem}")
        save(store, folder, clock)
        clock.advance(60)
    return stores[0], stores[1], folder


@pytest.mark.requirement("BACKUP-4")
def test_a_store_that_was_moved_gets_its_own_backup_from_a_shared_folder(shared: tuple[Path, Path, Path]) -> None:
    a, b, folder = shared
    (a.parent / "new").mkdir()
    moved = a.rename(a.parent / "new" / "A.db")
    assert Path(newest_backup(load(url=str(moved)), str(folder)).file).name.startswith("A-")
    b.rename(a)
    # The name is that of A, the content that of B.
    assert Path(newest_backup(load(url=str(a)), str(folder)).file).name.startswith("B-")


@pytest.mark.requirement("BACKUP-4")
def test_a_store_gets_its_own_backup_from_a_folder_that_it_shares_with_its_copy(
    path: Path, tmp_path: Path, clock: ShiftedClock
) -> None:
    other, folder = tmp_path / "other.db", tmp_path / "shared"
    shutil.copy(path, other)
    own = save(path, folder, clock).file
    clock.advance(60)
    later = save(other, folder, clock).file
    assert newest_backup(load(url=str(path)), str(folder)).file == own
    assert newest_backup(load(url=str(other)), str(folder)).file == later
    # A name that the user chose says nothing about the store.
    clock.advance(60)
    mine = save(path, folder / "20990101.db", clock).file
    assert newest_backup(load(url=str(path)), str(folder)).file == mine


@pytest.mark.requirement("BACKUP-4")
def test_a_folder_without_a_backup_of_the_store_is_refused(shared: tuple[Path, Path, Path], engram: Command) -> None:
    a, _, folder = shared
    for file in folder.glob("A-*"):
        file.unlink()
    for options in ((), ("--force",)):
        refused = engram("--store", str(a), "restore", str(folder), "--yes", *options)
        assert refused.code == 4
        assert f"No backup in {folder} is of the store {a}" in refused.err
        assert "engram restore FILE --force" in refused.err
    assert world(a) == "of A"


@pytest.mark.requirement("BACKUP-4")
def test_a_missing_or_empty_store_takes_a_backup_by_its_name_or_of_the_only_store(
    shared: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    a, _, folder = shared
    for _ in range(2):
        a.unlink()
        assert Path(newest_backup(load(url=str(a)), str(folder)).file).name.startswith("A-")
        # A hook makes a new store where there is none.
        Engram(a).close()
    elsewhere = load(url=str(tmp_path / "elsewhere.db"))
    with pytest.raises(Conflict, match=r"backups of several stores.*name the file"):
        restore(elsewhere, str(folder))
    for file in folder.glob("A-*"):
        file.unlink()
    restore(elsewhere, str(folder))
    assert world(elsewhere.url) == "of B"


@pytest.mark.requirement("BACKUP-4")
def test_the_backups_of_a_store_that_was_lost_are_kept_and_everybody_says_so(
    path: Path, engram: Command, clock: ShiftedClock
) -> None:
    made = [save(path, None, clock).file]
    clock.advance(60)
    made.append(save(path, None, clock).file)
    path.unlink()
    found = {each["name"]: each for each in engram("doctor", "--json").json}
    assert found["store.opens"]["fix"].startswith(f"engram restore {made[1]}; ")
    stored = engram("remember", "After the loss")
    assert stored.code == 0
    assert f"The store {path} was missing, and a new one was begun." in stored.err
    assert "engram restore --list" in stored.err
    assert "was missing" not in engram("remember", "Later").err
    # A file of the same name is no backup of the new store.
    refused = engram("restore", str(Path(made[0]).parent), "--yes", "--force")
    assert (refused.code, f"`engram restore {made[1]} --force`" in refused.err) == (4, True)
    found = {each["name"]: each for each in engram("doctor", "--json").json}
    assert (found["store.backups"]["state"], made[1] in found["store.backups"]["fix"]) == ("wrong", True)
    clock.advance(60)
    for _ in range(2):
        clock.advance(60)
        kept = save(path, None, clock, keep=1)
    assert len(kept.removed) == 1
    assert all(Path(file).exists() for file in made)
    assert restore(load(url=str(path)), made[1], force=True).file == made[1]
    assert world(path) == "saved"


@pytest.mark.requirement("BACKUP-4")
def test_a_hook_that_begins_a_new_store_in_place_of_a_lost_one_tells_it(path: Path) -> None:
    save(path)
    path.unlink()
    payload = json.dumps({"hook_event_name": "SessionStart", "session_id": "s", "source": "startup", "cwd": "/tmp"})
    told = respond("claude-code", payload.encode(), options={"url": str(path)})
    assert "was missing, and a new one was begun" in told and "Tell the person." in told
    assert "was missing" not in respond("claude-code", payload.encode(), options={"url": str(path)})


@pytest.mark.requirement("BACKUP-4")
def test_names_that_are_not_utf_8_harm_nothing(path: Path, tmp_path: Path, engram: Command) -> None:
    made = save(path, tmp_path / "disk")
    folder = os.fsencode(Path(made.file).parent)
    for name in (b"caf\xe9.txt", b"caf\xe9.db"):
        Path(os.fsdecode(folder + b"/" + name)).write_bytes(path.read_bytes())
    assert [each.file for each in backups(load(url=str(path)), str(tmp_path / "disk"))] == [made.file]
    assert restore(load(url=str(path)), str(tmp_path / "disk")).file == made.file
    strange = os.fsdecode(folder + b"/caf\xe9.db")
    for command in (("restore", strange, "--yes"), ("backup", os.fsdecode(folder + b"/new\xe9"))):
        refused = engram(*command)
        assert (refused.code, "is not UTF-8" in refused.err) == (2, True)
    assert len(Path(f"{path}.backups").read_text().split()) == 2


@pytest.mark.requirement("BACKUP-5")
def test_a_restore_says_which_newer_backups_it_passes_over_and_that_forgotten_texts_are_back(
    path: Path, engram: Command, clock: ShiftedClock
) -> None:
    older = save(path, None, clock).file
    clock.advance(60)
    newer = Path(save(path, None, clock).file)
    garbage_page(newer)
    with Engram(path) as eng:
        eng.forget(memory=eng.memories.list()[0].id)
    done = engram("restore", str(newer.parent), "--yes", "--force")
    assert f"A newer backup cannot be used: {newer.name}: " in done.err
    assert f"from {older}" in done.out
    assert "The backup is from before 1 forgetting, so what was deleted is back." in done.out
    kept = done.out.partition("The store as it was before: ")[2].splitlines()[0]
    assert f"`engram --store {kept} receipts`" in done.out
    assert "1 memory" in engram("--store", kept, "receipts").out


@pytest.mark.requirement("BACKUP-5")
def test_a_named_backup_of_another_store_replaces_a_store_with_content_only_with_force(
    shared: tuple[Path, Path, Path],
) -> None:
    a, b, folder = shared
    (file,) = folder.glob("B-*")
    for call in (restore, refuse_newer):
        with pytest.raises(Conflict, match=r"is a backup of another store than .*A\.db.*--force"):
            call(load(url=str(a)), str(file))
    assert world(a) == "of A"
    done = restore(load(url=str(a)), str(file), force=True)
    assert (world(a), world(str(done.kept))) == ("of B", "of A")
    assert restore(load(url=str(b)), str(folder)).file == str(file)


@pytest.mark.requirement("BACKUP-4")
def test_a_store_with_another_programs_mark_is_not_replaced(path: Path) -> None:
    made = save(path)
    wrong_id(path)
    before = path.read_bytes()
    from engram import NotAStore

    with pytest.raises(NotAStore):
        restore(load(url=str(path)), made.file)
    assert path.read_bytes() == before


@pytest.mark.requirement("BACKUP-5")
def test_a_newer_store_is_replaced_only_with_force_and_both_times_are_told(path: Path, engram: Command) -> None:
    made = save(path)
    assert engram("restore", made.file, "--yes").code == 0, "the same state is not newer"
    with Engram(path) as eng:
        eng.world.set("later")
        (block,) = eng.blocks.list()
        changed = block.updated_at
    refused = engram("restore", made.file, "--yes")
    assert refused.code == 4
    assert f"written last at {changed[:10]} {changed[11:19]} UTC" in refused.err
    assert "newest change is" in refused.err
    # Nobody is asked about a restore that would be refused.
    unasked = engram("restore", made.file)
    assert (unasked.code, "is newer than" in unasked.err, "Replace everything" in unasked.err) == (4, True, False)
    missing = engram("restore", f"{made.file}.missing")
    assert (missing.code, "Replace everything" in missing.err) == (3, False)
    assert world(path) == "later"
    done = engram("restore", str(Path(made.file).parent), "--yes", "--force", "--json").json
    assert (done["file"], world(path), world(done["kept"])) == (made.file, "saved", "later")


@pytest.mark.requirement("BACKUP-5")
def test_a_write_that_ends_while_a_restore_waits_for_it_is_not_replaced(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = save(path)
    refuse_newer, writes, checked = restoring._refuse_newer, threading.Event(), threading.Event()

    def then_the_writer_ends(*arguments: Any) -> None:
        refuse_newer(*arguments)
        checked.set()

    def write() -> None:
        with Engram(path) as eng, eng.write():
            eng.world.set("acknowledged")
            writes.set()
            assert checked.wait(30)

    monkeypatch.setattr(restoring, "_refuse_newer", then_the_writer_ends)
    writer = threading.Thread(target=write)
    writer.start()
    assert writes.wait(30)
    with pytest.raises(Conflict, match="is newer than"):
        restore(load(url=str(path)), made.file)
    writer.join()
    assert (world(path), is_sound(path)) == ("acknowledged", True)
    assert not [name for name in os.listdir(path.parent) if "before-restore" in name]


@pytest.mark.requirement("BACKUP-5")
def test_a_store_whose_tokens_changed_is_newer(path: Path, engram: Command) -> None:
    with Engram(path) as eng:
        eng.access.tokens.create("laptop", "write")
    made = save(path)
    with Engram(path) as eng:
        eng.access.tokens.revoke("laptop")
    assert engram("restore", made.file, "--yes").code == 4
    with Engram(path) as eng:
        assert eng.access.tokens.list() == []


@pytest.mark.requirement("BACKUP-3")
def test_half_a_line_in_the_list_of_places_hides_no_backup(path: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    save(path, first)
    with open(f"{path}.backups", "a") as places:
        places.write('2026-11-18T10:00:00.000000Z "/half/a')
    made = save(path, second)
    assert made.file in [each.file for each in backups(load(url=str(path)))]


@pytest.mark.requirement("BACKUP-4")
def test_backups_from_elsewhere_are_listed_and_restored(path: Path, tmp_path: Path, engram: Command) -> None:
    assert engram("restore", "--list").out == "There are no backups. `engram backup` makes one.\n"
    made = Path(engram("backup", "--json").json["file"])
    folder = tmp_path / "copied"
    folder.mkdir()
    moved = made.rename(folder / "renamed.db")
    (folder / "readme.txt").write_text("hello")
    assert backups(load(url=str(path))) == []
    (found,) = engram("restore", "--list", str(folder), "--json").json
    assert (found["file"], found["schema"], found["problem"]) == (str(moved), NEWEST, "")
    assert "renamed.db" in engram("restore", "--list", str(folder)).out
    with Engram(path) as eng:
        eng.world.set("later")
    assert engram("restore", str(folder), "--yes", "--force").code == 0
    assert world(path) == "saved"
    kept = [each.file for each in backups(load(url=str(path)))]
    assert [Path(each).name.partition("-restore-")[0] for each in kept] == ["engram.db.before"]
    assert engram("restore").code == 3


@pytest.mark.requirement("BACKUP-4")
def test_without_a_name_the_newest_good_backup_of_all_folders_is_restored(
    path: Path, tmp_path: Path, engram: Command
) -> None:
    save(path)
    with Engram(path) as eng:
        eng.world.set("second")
    elsewhere = save(path, tmp_path / "elsewhere")
    with Engram(path) as eng:
        eng.world.set("third")
    damaged = Path(save(path).file)
    damaged.write_bytes(damaged.read_bytes()[:5000])
    path.unlink()
    done = engram("restore", "--yes", "--json")
    assert done.json["file"] == elsewhere.file, done.err
    assert damaged.name in done.err
    assert world(path) == "second"


@pytest.mark.requirement("BACKUP-1")
def test_the_command_says_what_it_did_and_on_a_terminal_how_far_it_is(path: Path, engram: Command) -> None:
    for _ in range(2):
        outcome = engram("backup", "--keep", "1")
        assert (outcome.code, outcome.err) == (0, "")
        assert "The copy was checked." in outcome.out
    assert "Removed 1 older backup." in outcome.out
    code, shown = in_terminal("--store", str(path), "backup")
    assert code == 0
    assert "Copying" in shown


@pytest.mark.requirement("BACKUP-1")
def test_two_backups_at_once_do_not_disturb_each_other(path: Path, tmp_path: Path) -> None:
    barrier, done = threading.Barrier(4), []

    def run() -> None:
        barrier.wait()
        done.append(save(path, f"{tmp_path}/all/").file)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(done)) == 4
    assert all(is_sound(Path(file)) for file in done)


@pytest.mark.requirement("BACKUP-6")
def test_on_postgresql_pg_dump_makes_the_backup_or_the_command_says_what_to_run(
    postgres_url: str, direct_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: ShiftedClock
) -> None:
    import psycopg

    from engram.store_url import split_schema

    _, schema = split_schema(postgres_url)
    with Engram(postgres_url) as eng:
        eng.remember("The router is in src/router.py")
    settings = load(url=postgres_url, data_dir=str(tmp_path / "data"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingExtra, match=f"pg_dump --format=custom '--schema=\"{schema}\"'"):
        backup(settings)
    with psycopg.connect(direct_server) as connection:
        folder = connection.execute("SELECT setting FROM pg_config WHERE name = 'BINDIR'").fetchall()[0][0]
    old = tmp_path / "pg_dump"
    old.write_text('#!/bin/sh\necho "pg_dump (PostgreSQL) 9.6"\n')
    old.chmod(0o700)
    (tmp_path / "pg_restore").symlink_to(old)
    with pytest.raises(MissingExtra, match="version 9"):
        backup(settings)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    made = []
    for _ in range(3):
        clock.advance(60)
        made.append(backup(settings, keep=2, clock=clock))
    file = Path(made[-1].file)
    assert made[-1].removed == (made[0].file,)
    assert file.parent == tmp_path / "data" / "backups"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert sorted(os.listdir(file.parent)) == [Path(each.file).name for each in made[1:]]
    assert f"TABLE DATA {schema} memories" in programs.run(direct_server, "pg_restore", "--list", str(file))
    clock.advance(60)
    with Engram(settings=settings, clock=clock) as eng:
        receipt = eng.forget(memory=eng.memories.list()[0].id)
    assert receipt.backups == (made[1].file, made[2].file)
    # The clock was ahead when those were made.
    clock.advance(-86_400)
    last = backup(settings, keep=2, clock=clock)
    assert (last.removed, Path(last.file).exists()) == ((made[1].file,), True)
