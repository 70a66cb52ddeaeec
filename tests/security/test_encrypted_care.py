"""Care for encrypted stores: backups, restoring, the doctor, vacuum, copies and exports."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import apsw
import pytest

from engram import Clock, Engram, Finding, InvalidInput, StoreBusy, StoreEncrypted
from engram.config import load
from engram.maintenance import backup, backups, copy, decrypt, doctor, encrypt, newest_backup, rekey, restore, vacuum
from engram.setup_records import BackupMade
from engram.storage import backup as copies
from engram.storage import backup_files, database, keys, scrub, sqlite_health, swap
from tests._files import connect
from tests._tables import dump
from tests.conftest import KEY_FILE, ShiftedClock
from tests.interfaces.conftest import Engram as Command
from tests.interfaces.conftest import engram
from tests.security.test_encryption import SECRET, change, key_file, path, raw, texts
from tests.transfer.conftest import empty_store

__all__ = ["empty_store", "engram", "path"]  # fixtures

pytestmark = pytest.mark.skipif(bool(KEY_FILE), reason="here the tests choose which store is encrypted")


@pytest.fixture
def store_url(path: Path) -> str:
    """The commands here are about files."""
    return str(path)


@pytest.fixture
def locked(path: Path) -> Path:
    """An encrypted store."""
    change(encrypt, path)
    return path


def save(path: Path, target: Path | None = None, clock: ShiftedClock | None = None, keep: int = 7) -> BackupMade:
    return backup(load(url=str(path)), None if target is None else str(target), clock=clock, keep=keep)


def found(path: Path, name: str, *, fix: bool = False) -> Finding:
    (finding,) = [each for each in doctor(load(url=str(path)), fix=fix) if each.name == name]
    return finding


def lose_key() -> Path:
    return Path(shutil.move(key_file(), f"{key_file()}.away"))


def is_open_to(file: str | Path, key: Path) -> bool:
    """Whether a key file has the key of a store."""
    from engram.storage.keys import Keys

    try:
        return database.key_of(str(file), Keys(str(key))) is not None
    except StoreEncrypted:
        return False


@pytest.mark.requirement("ENCRYPT-9")
def test_a_backup_of_an_encrypted_store_has_its_key_and_everything_in_it(locked: Path, tmp_path: Path) -> None:
    with Engram(locked) as eng:
        eng.remember(f"In the log, about {SECRET}")
        in_folder, as_file = save(locked), save(locked, tmp_path / "own.db")
    for made in (in_folder, as_file):
        assert is_open_to(made.file, key_file())
        assert dump(made.file) == dump(str(locked))
    assert SECRET.encode() not in raw(locked.parent, tmp_path)


@pytest.mark.requirement("ENCRYPT-9")
def test_rotation_counts_plain_and_encrypted_backups_alike_and_leaves_other_files(
    path: Path, clock: ShiftedClock
) -> None:
    plain = save(path, clock=clock).file
    # The user keeps a plain one elsewhere, and brings it back after the store was encrypted.
    shutil.copy(plain, path.parent / "aside")
    change(encrypt, path)
    shutil.copy(path.parent / "aside", plain)
    other = Path(plain).with_name("other.db")
    shutil.copy(path, other)
    made = []
    for _ in range(3):
        clock.advance(60)
        made.append(save(path, clock=clock, keep=2))
    assert [each.removed for each in made] == [(), (plain,), (made[0].file,)]
    assert sorted(os.listdir(other.parent)) == sorted(
        [other.name, os.path.basename(made[1].file), os.path.basename(made[2].file)]
    )


@pytest.mark.requirement("ENCRYPT-9")
def test_encrypted_backups_are_listed_and_restored_from_a_file_and_a_folder(
    locked: Path, clock: ShiftedClock, engram: Command
) -> None:
    first = save(locked, clock=clock)
    clock.advance(60)
    second = save(locked, clock=clock)
    listed = backups(load(url=str(locked)))
    assert [(each.file, each.problem, each.change) for each in listed] == [
        (second.file, "", second.change),
        (first.file, "", first.change),
    ]
    before = dump(str(locked))
    with Engram(locked) as eng:
        eng.remember("Written later")
    refused = engram("restore", str(Path(first.file).parent), "--yes")
    assert refused.code == 4
    assert "is newer than" in refused.err
    assert newest_backup(load(url=str(locked)), str(Path(first.file).parent)).file == second.file
    done = engram("restore", str(Path(first.file).parent), "--yes", "--force", "--json")
    assert done.json["file"] == second.file
    assert database.is_encrypted(str(locked))
    assert database.is_encrypted(done.json["kept"])
    assert {name: rows for name, rows in dump(str(locked)).items() if name != "sqlite_sequence"} == {
        name: rows for name, rows in before.items() if name != "sqlite_sequence"
    }


@pytest.mark.requirement("ENCRYPT-9")
def test_without_the_key_no_backup_is_made_or_restored_and_the_reason_is_told(
    path: Path, tmp_path: Path, clock: ShiftedClock, engram: Command
) -> None:
    plain = shutil.copy(path, tmp_path / "plain.db")
    change(encrypt, path)
    made = save(path, clock=clock)
    folder = Path(made.file).parent
    # An older, plain backup lies beside it. The newest one must not be passed over silently.
    older = folder / os.path.basename(made.file).replace("-20", "-19")
    shutil.copy(plain, older)
    lose_key()
    before = path.read_bytes()
    for attempt in (
        lambda: save(path),
        lambda: restore(load(url=str(path)), made.file),
        lambda: restore(load(url=str(path)), str(folder)),
        lambda: restore(load(url=str(tmp_path / "new" / "engram.db")), made.file),
    ):
        with pytest.raises(StoreEncrypted, match="there is no key at"):
            attempt()
    assert path.read_bytes() == before
    assert not (tmp_path / "new" / "engram.db").exists()
    listed = {each.file: each.problem for each in backups(load(url=str(path)), str(folder))}
    assert listed == {made.file: f"encrypted, and {key_file()} has no key that opens it", str(older): ""}
    assert "cannot be read: encrypted, and " in engram("restore", "--list", str(folder)).out


@pytest.mark.requirement("ENCRYPT-9")
def test_a_damaged_encrypted_backup_is_passed_over_for_an_older_one_with_the_newest_key(
    locked: Path, clock: ShiftedClock
) -> None:
    first = save(locked, clock=clock)
    clock.advance(60)
    second = save(locked, clock=clock)
    settings, folder = load(url=str(locked)), str(Path(first.file).parent)
    for place in (3_000, 5_000):
        content = bytearray(Path(second.file).read_bytes())
        content[place : place + 20] = b"\xff" * 20
        Path(second.file).write_bytes(content)
        assert newest_backup(settings, folder).file == first.file
    lose_key()
    with pytest.raises(StoreEncrypted):
        newest_backup(settings, folder)


@pytest.mark.requirement("ENCRYPT-9")
def test_a_receipt_of_forgetting_names_encrypted_backups(locked: Path, tmp_path: Path) -> None:
    made = [save(locked).file, save(locked, tmp_path / "own.db").file]
    with Engram(locked) as eng:
        receipt = eng.forget(memory=eng.memories.list()[0].id)
    assert set(made) <= set(receipt.backups)


@pytest.mark.requirement("ENCRYPT-9", "ENCRYPT-10")
def test_a_backup_that_is_made_while_the_store_is_encrypted_does_not_stay_plain(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = backup_files._put

    def encrypt_first(draft: str, file: str) -> None:
        done = threading.Thread(target=lambda: change(encrypt, path))
        done.start()
        done.join()
        put(draft, file)

    monkeypatch.setattr(backup_files, "_put", encrypt_first)
    with pytest.raises(StoreBusy):
        save(path)
    assert list(path.parent.glob("backups/*")) == []
    assert SECRET.encode() not in raw(path.parent)


@pytest.mark.requirement("ENCRYPT-10")
def test_backups_in_every_folder_change_with_the_store_and_are_named(
    path: Path, tmp_path: Path, clock: ShiftedClock, engram: Command
) -> None:
    made = [save(path, clock=clock).file, save(path, tmp_path / "own.db", clock).file]
    clock.advance(60)
    (tmp_path / "usb").mkdir()
    made.append(save(path, tmp_path / "usb", clock).file)
    draft = Path(f"{made[2]}.999999999{copies.PARTIAL}")
    own_draft = Path(f"{made[1]}.999999999{copies.PARTIAL}")
    for file in (draft, own_draft):
        shutil.copy(path, file)
    times = {file: os.stat(file).st_mtime_ns for file in made}
    before = dump(str(path))
    done = change(encrypt, path)
    assert set(done.copies) == set(made)
    assert set(done.removed) == {str(draft), str(own_draft)}
    assert SECRET.encode() not in raw(path.parent, tmp_path / "usb") + Path(made[1]).read_bytes()
    assert all(dump(file) == before for file in made)
    assert {file: os.stat(file).st_mtime_ns for file in made} == times

    old_key = shutil.copy(key_file(), tmp_path / "old.key")
    shown = engram("rekey")
    assert all(f"Encrypted too: {file}" in shown.out for file in made)
    assert not any(is_open_to(file, Path(old_key)) for file in made)
    assert all(is_open_to(file, key_file()) for file in made)

    done = change(decrypt, path)
    assert set(done.copies) == set(made)
    assert all(backup_files.is_plain_store(file) for file in made)


@pytest.mark.requirement("ENCRYPT-10")
def test_a_backup_that_cannot_be_changed_is_named_and_stops_nothing_else(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engram: Command
) -> None:
    first, second = save(path, tmp_path / "first.db").file, save(path, tmp_path / "second.db").file
    beside = restore(load(url=str(path)), first).kept
    unreadable, foreign = tmp_path / "third.db", tmp_path / "fourth.db"
    for file in (unreadable, foreign):
        save(path, file)
    content = bytearray(unreadable.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    unreadable.write_bytes(content)
    # The user has put another program's database at the place of a backup.
    foreign.unlink()
    with closing(apsw.Connection(str(foreign))) as connection:
        connection.execute("CREATE TABLE notes (text)")
    theirs = foreign.read_bytes()
    require_space = copies.require_space

    def no_space_for_two(file: str, needed: int, what: str) -> None:
        if file in (first, beside):
            raise OSError(30, "Read-only file system", file)
        require_space(file, needed, what)

    monkeypatch.setattr(copies, "require_space", no_space_for_two)
    shown = engram("encrypt")
    assert shown.code == 0
    for left in (first, beside):
        assert f"Not changed, because it is in use, or cannot be read or written: {left}" in shown.out
    assert f"Encrypted too: {second}" in shown.out
    assert f"Damaged, so it stays, and its text can be read: {unreadable}" in shown.out
    assert f"Deleted, because it is incomplete or damaged: {unreadable}" in engram("encrypt", "--delete-damaged").out
    assert foreign.read_bytes() == theirs
    assert str(foreign) not in shown.out
    plain = found(path, "store.plain")
    assert (plain.state, str(beside) in plain.found, "engram encrypt" in plain.fix) == ("wrong", True, True)
    assert plain.number == 2


@pytest.mark.requirement("ENCRYPT-4")
def test_pipes_and_folders_in_the_places_of_helper_files_stop_nothing_for_ever(
    locked: Path, tmp_path: Path, engram: Command
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for place in (f"{locked}.backups", f"{key_file()}.partial"):
        Path(place).unlink(missing_ok=True)
        os.mkfifo(place)
        assert engram("rekey").code == 0, place
        Path(place).unlink(missing_ok=True)
    refused = engram("restore", str(pipe), "--yes")
    assert (refused.code, "no regular file" in refused.err) == (2, True)
    for strange in (Path.mkdir, lambda lock: lock.symlink_to(pipe)):
        lock = Path(f"{locked}.changing-lock")
        strange(lock)
        refused = engram("rekey")
        assert (refused.code, f"{lock} is no file, so it cannot be a lock. Remove it" in refused.err) == (1, True)
        lock.unlink() if lock.is_symlink() else lock.rmdir()
    kept = lose_key()
    key_file().symlink_to(tmp_path / "not mounted")
    assert "which is not there; it was not changed. Mount the disk" in engram("stats").err
    key_file().unlink()
    kept.rename(key_file())
    assert len(texts(locked)) == 1


@pytest.mark.requirement("ENCRYPT-10")
def test_an_encrypted_store_with_another_size_of_pages_can_be_saved_and_restored(path: Path, tmp_path: Path) -> None:
    other = Path(save(path, tmp_path / "small.db").file)
    with closing(apsw.Connection(str(path))) as connection:
        for statement in ("PRAGMA journal_mode=DELETE", "PRAGMA page_size=8192", "VACUUM"):
            connection.execute(statement).fetchall()
    change(encrypt, path)
    made = save(path, tmp_path / "large.db").file
    assert restore(load(url=str(path)), made).file == made
    with pytest.raises(InvalidInput, match=r"store pages of 8,192 bytes.*engram decrypt"):
        restore(load(url=str(path)), str(other), force=True)
    assert len(texts(path)) == 1


@pytest.mark.requirement("ENCRYPT-10")
def test_another_store_at_the_place_of_a_backup_stays_as_it_is(locked: Path, tmp_path: Path) -> None:
    place = Path(save(locked, tmp_path / "work.db").file)
    place.unlink()
    with Engram(place) as eng:
        eng.remember("Of another store")
    change(encrypt, place)
    before = place.read_bytes()
    done = change(decrypt, locked)
    assert str(place) not in (*done.copies, *done.removed, *done.left)
    assert place.read_bytes() == before


@pytest.mark.requirement("ENCRYPT-4", "ENCRYPT-10")
def test_a_backup_that_a_process_uses_as_its_store_loses_no_write(
    locked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Path(save(locked, tmp_path / "used.db").file)
    inner, written = swap.write_copy, []

    def late(path: str, *arguments: Any) -> None:
        inner(path, *arguments)
        if path == str(made):
            # The copy is complete, and has not taken the place of the backup yet.
            with pytest.raises(StoreBusy), Engram(settings=load(url=str(made), busy_timeout=0.1)) as eng:
                eng.remember("Refused, and not lost")
            written.append(path)

    monkeypatch.setattr(swap, "write_copy", late)
    with Engram(made) as user:
        user.remember("Before it")
        done = change(rekey, locked)
        assert (done.copies, written) == ((str(made),), [str(made)])
        user.remember("After it")
        assert [memory.content for memory in user.memories.list()][:2] == ["After it", "Before it"]
    # A process that is writing keeps it as it is.
    with Engram(made) as user, user.write():
        user.remember("In a transaction")
        assert change(rekey, locked).left == (str(made),)
    assert len(Engram(made).memories.list()) == 4


@pytest.mark.requirement("ENCRYPT-10", "ENCRYPT-11")
def test_an_unfinished_plain_copy_beside_an_encrypted_store_is_found_and_deleted(path: Path, engram: Command) -> None:
    plain = path.read_bytes()
    change(encrypt, path)
    left = Path(f"{path}.copying")
    left.write_bytes(plain)
    finding = found(path, "store.plain")
    assert (finding.state, str(left) in finding.found, "engram encrypt" in finding.fix) == ("wrong", True, True)
    assert f"Deleted, because it is incomplete or damaged: {left}" in engram("encrypt").out
    assert not left.exists()
    assert found(path, "store.plain").state == "ok"


@pytest.mark.requirement("ENCRYPT-10")
def test_a_backup_that_cannot_be_replaced_leaves_no_draft(locked: Path, tmp_path: Path, engram: Command) -> None:
    made = Path(save(locked, tmp_path / "usb.db").file)
    # It cannot be unlinked before the new file takes the place.
    Path(f"{made}-shm").mkdir()
    shown = engram("decrypt", "--yes")
    assert f"Not changed, because it is in use, or cannot be read or written: {made}" in shown.out
    assert not list(tmp_path.glob("usb.db*.partial"))
    assert database.is_encrypted(str(made))


@pytest.mark.requirement("ENCRYPT-3", "ENCRYPT-11")
def test_a_key_file_that_is_no_file_is_refused_at_once(locked: Path, tmp_path: Path, engram: Command) -> None:
    lose_key()
    os.mkfifo(key_file(), 0o600)
    assert "is no file" in engram("recall", "here").err
    key_file().unlink()
    key_file().mkdir(0o755)
    assert "is no file" in engram("recall", "here").err
    finding = found(locked, "store.key")
    assert (finding.state, "is no file" in finding.found, "chmod" in finding.fix) == ("wrong", True, False)


@pytest.mark.requirement("ENCRYPT-4", "DOCTOR-3")
def test_the_doctor_reads_a_store_that_is_decrypted_between_its_key_and_its_first_page(
    locked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = sqlite_health.checks(str(locked), Clock(), keys.Keys(str(key_file())))
    (backups,) = [each for each in checks if each.name == "store.backups"]
    key_of = database.key_of

    def then_it_is_decrypted(path: str, known: keys.Keys) -> bytes | None:
        key = key_of(path, known)
        monkeypatch.setattr(database, "key_of", key_of)
        change(decrypt, locked)
        return key

    monkeypatch.setattr(database, "key_of", then_it_is_decrypted)
    assert backups.look().state != "wrong"


@pytest.mark.requirement("ENCRYPT-4", "DOCTOR-2")
def test_the_doctor_never_empties_the_log_of_a_store_that_took_the_place_of_the_one_it_opened(
    locked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = sqlite_health._Files.connect
    eng = Engram(locked)

    def then_it_is_replaced(files: sqlite_health._Files) -> apsw.Connection:
        connection = connect(files)
        change(decrypt, locked)
        change(encrypt, locked)
        eng.remember("Only in the log of the new file")
        return connection

    checks = sqlite_health.checks(str(locked), Clock(), keys.Keys(str(key_file())))
    (mend,) = [each.mend for each in checks if each.name == "store.log"]
    assert mend is not None
    with eng:
        with monkeypatch.context() as patch, suppress(StoreBusy):
            patch.setattr(sqlite_health._Files, "connect", then_it_is_replaced)
            mend()
        assert "Only in the log of the new file" in texts(locked)


@pytest.mark.requirement("ENCRYPT-11")
def test_the_doctor_checks_all_of_an_encrypted_store(locked: Path) -> None:
    save(locked)
    findings = doctor(load(url=str(locked)), full=True)
    assert [each for each in findings if each.state == "wrong"] == []
    named = {each.name: each.found for each in findings}
    assert {"store.integrity", "store.references", "store.backups", "index.words"} <= set(named)
    assert named["store.key"] == f"The store is encrypted, and its key is in {key_file()}."
    assert "encrypted Engram store" in named["store.file"]


@pytest.mark.requirement("ENCRYPT-11")
def test_the_doctor_says_that_the_key_is_missing_and_takes_the_store_for_no_damaged_one(locked: Path) -> None:
    lose_key()
    before = locked.read_bytes()
    findings = {each.name: each for each in doctor(load(url=str(locked)), fix=True)}
    assert {name for name, each in findings.items() if each.state == "wrong"} == {"store.opens", "store.key"}
    assert "there is no key at" in findings["store.key"].found
    assert "key_file" in findings["store.key"].fix
    assert "store.integrity" not in findings
    assert locked.read_bytes() == before


@pytest.mark.requirement("ENCRYPT-11")
def test_the_doctor_finds_a_key_file_that_others_can_read_and_leaves_its_mode(locked: Path) -> None:
    key_file().chmod(0o644)
    finding = found(locked, "store.key", fix=True)
    assert (finding.state, finding.mended) == ("wrong", None)
    assert f"chmod 600 {key_file()}" in finding.fix
    assert "engram rekey" in finding.fix
    assert key_file().stat().st_mode & 0o777 == 0o644
    key_file().chmod(0o600)
    assert found(locked, "store.key").state == "ok"


@pytest.mark.requirement("ENCRYPT-11")
def test_the_doctor_finds_a_draft_of_the_key_file_and_leaves_it(locked: Path) -> None:
    draft = Path(keys.draft(str(key_file())))
    shutil.copy(key_file(), draft)
    assert found(locked, "store.key").state == "ok", "another process may be writing it"
    os.utime(draft, (1_000_000_000, 1_000_000_000))
    finding = found(locked, "store.key", fix=True)
    assert (finding.state, str(draft) in finding.fix, draft.exists()) == ("note", True, True)
    # It may have the only copy of the keys.
    lose_key()
    assert found(locked, "store.key").state == "wrong"


@pytest.mark.requirement("ENCRYPT-11")
def test_the_doctor_finds_plain_copies_of_an_encrypted_store_and_its_advice_helps(path: Path, tmp_path: Path) -> None:
    assert found(path, "store.plain").state == "ok"
    plain = tmp_path / "plain.db"
    shutil.copy(path, plain)
    made = save(path, tmp_path / "elsewhere.db").file
    beside = f"{path}.before-0001-20260101t000000000000"
    change(encrypt, path)
    assert found(path, "store.plain").state == "ok"
    for known in (made, beside):
        shutil.copy(plain, known)
        finding = found(path, "store.plain")
        assert (finding.state, known in finding.found, finding.number) == ("wrong", True, 1)
        change(encrypt, path)
        assert found(path, "store.plain").state == "ok"
    # A copy that the user made may be another store. It is a note.
    shutil.copy(plain, path.parent / "by-hand.db")
    finding = found(path, "store.plain")
    assert (finding.state, "by-hand.db" in finding.fix) == ("note", True)
    change(encrypt, path.parent / "by-hand.db")
    assert found(path, "store.plain").state == "ok"


@pytest.mark.requirement("ENCRYPT-12")
@pytest.mark.parametrize("kind", ["plain", "encrypted"])
def test_vacuum_works_on_an_encrypted_store_and_its_temporary_file_is_not_plain(path: Path, kind: str) -> None:
    with closing(connect(str(path))) as connection:
        connection.execute("CREATE TABLE kept (text); CREATE TABLE filler (text)")
        numbers = "WITH n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
        for table in ("kept", "filler"):
            connection.execute(f"{numbers} INSERT INTO {table} SELECT '{SECRET} ' || hex(randomblob(300)) FROM n")
        connection.execute("DROP TABLE filler")
    if kind == "encrypted":
        change(encrypt, path)
        with closing(connect(str(path))) as connection:
            connection.execute("CREATE TABLE filler AS SELECT * FROM kept; DROP TABLE filler")
    expected = dump(str(path))
    seen: set[bool] = set()
    ended = threading.Event()

    def watch() -> None:
        """SQLite removes the name of its temporary file at once, so it is read by its descriptor."""
        while not ended.is_set():
            for descriptor in os.listdir("/proc/self/fd"):
                with suppress(OSError):
                    if os.readlink(f"/proc/self/fd/{descriptor}").endswith(" (deleted)"):
                        content = Path(f"/proc/self/fd/{descriptor}").read_bytes()
                        if len(content) > 100_000:
                            seen.add(SECRET.encode() in content)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        done = vacuum(load(url=str(path)))
    finally:
        ended.set()
        watcher.join()
    # Of a plain file, what is written first may have none of the rows.
    assert seen and (True in seen) == (kind == "plain")
    assert done.after < done.before
    assert dump(str(path)) == expected
    if kind == "encrypted":
        assert SECRET.encode() not in raw(path.parent)


@pytest.mark.requirement("ENCRYPT-12")
@pytest.mark.parametrize("source", ["plain", "encrypted"])
@pytest.mark.parametrize("target", ["new", "plain", "encrypted"])
def test_a_copy_is_encrypted_if_its_source_or_its_target_is(
    path: Path, tmp_path: Path, source: str, target: str, engram: Command
) -> None:
    other = tmp_path / "other" / "engram.db"
    if target != "new":
        Engram(other).close()
    if target == "encrypted":
        change(encrypt, other)
    if source == "encrypted":
        change(encrypt, path)
    seen: list[bytes] = []

    def look(done: int, total: int) -> None:
        seen.append(raw(other.parent))

    done = copy(load(url=str(path)), load(url=str(other)), progress=look)
    is_encrypted = target == "encrypted" or (source, target) == ("encrypted", "new")
    assert database.is_encrypted(str(other)) is is_encrypted
    assert done.is_plain is ((source, target) == ("encrypted", "plain"))
    assert sorted(texts(other)) == sorted(texts(path))
    assert os.listdir(other.parent).count("engram.db.copying") == 0
    if is_encrypted:
        assert SECRET.encode() not in b"".join([*seen, raw(other.parent)])


@pytest.mark.requirement("ENCRYPT-12")
def test_an_unfinished_plain_copy_is_not_continued_once_the_source_is_encrypted(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "engram.db"
    other.parent.mkdir()
    with closing(connect(str(path))) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(path, f"{other}.copying")
    change(encrypt, path)
    done = copy(load(url=str(path)), load(url=str(other)))
    assert done.resumed == 0
    assert SECRET.encode() not in raw(other.parent)
    assert texts(other) == texts(path)


@pytest.mark.requirement("ENCRYPT-12")
def test_an_encrypted_store_goes_to_postgresql_and_back(
    locked: Path, tmp_path: Path, empty_store: Callable[[str], str], engram: Command
) -> None:
    server, back = empty_store("postgres"), tmp_path / "back" / "engram.db"
    shown = engram("copy", str(locked), server)
    assert shown.code == 0
    assert "The copy is not encrypted, although its source is." in shown.out
    assert not copy(load(url=server), load(url=str(back), environ={**os.environ, "ENGRAM_ENCRYPT_NEW": "on"})).is_plain
    assert database.is_encrypted(str(back))
    assert texts(back) == texts(locked)


@pytest.mark.requirement("ENCRYPT-12")
def test_copying_without_the_key_changes_nothing(locked: Path, tmp_path: Path) -> None:
    lose_key()
    with pytest.raises(StoreEncrypted, match="there is no key at"):
        copy(load(url=str(locked)), load(url=str(tmp_path / "other.db")))
    assert not list(tmp_path.glob("other.db*"))


@pytest.mark.requirement("ENCRYPT-12")
def test_an_export_says_that_it_is_plain_text_and_comes_back_into_an_encrypted_store(
    locked: Path, tmp_path: Path, engram: Command
) -> None:
    file, back = tmp_path / "all.jsonl", tmp_path / "back" / "engram.db"
    shown = engram("export", str(file))
    assert "It is plain text, although the store is encrypted." in shown.out
    assert SECRET in file.read_text()
    Engram(back).close()
    change(encrypt, back)
    with Engram(back) as eng:
        eng.load_export(file)
    assert SECRET.encode() not in raw(back.parent)
    assert texts(back) == texts(locked)


@pytest.mark.requirement("ENCRYPT-9")
def test_backups_with_an_earlier_key_can_still_be_listed_and_restored(locked: Path, tmp_path: Path) -> None:
    made = save(locked, tmp_path / "own.db").file
    away = shutil.move(made, tmp_path / "away.db")
    assert change(rekey, locked).left == ()
    assert [each.problem for each in backups(load(url=str(locked)), str(tmp_path)) if each.file == str(away)] == [""]
    restore(load(url=str(locked)), str(away), force=True)
    assert database.is_encrypted(str(locked))
    assert texts(locked)


@pytest.mark.requirement("ENCRYPT-6")
@pytest.mark.parametrize("call", [encrypt, rekey, decrypt])
def test_a_change_of_the_key_waits_for_a_process_that_closes_the_store(path: Path, call: Callable[..., Any]) -> None:
    """The last process that closes a store locks it for a moment, also against reading."""
    if call is not encrypt:
        change(encrypt, path)
    closing_one = connect(str(path))
    closing_one.execute("PRAGMA locking_mode=EXCLUSIVE")
    closing_one.execute("SELECT * FROM migrations").fetchall()
    closing_one.execute("BEGIN IMMEDIATE")
    later = threading.Timer(0.5, closing_one.close)
    later.start()
    try:
        assert change(call, path).changed
    finally:
        later.join()


@pytest.mark.requirement("FORGET-7", "STORE-8")
def test_forgetting_on_a_full_disk_names_the_cause_and_what_to_do(
    locked: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: Any, **__: Any) -> bool:
        raise apsw.FullError("database or disk is full")

    with Engram(locked) as eng:
        id = eng.remember("Gone soon").id
        with monkeypatch.context() as patch:
            patch.setattr(scrub, "scrub", full)
            eng.forget(memory=id)
    (said,) = [each.getMessage() for each in caplog.records if each.name == "engram.storage"]
    assert said == (
        f"{locked} may still contain bytes of forgotten text, because a disk is full; free some space, and run "
        "`engram vacuum`, which removes them"
    )
