"""Encrypted stores: nothing readable on the disk, nothing lost on the way, and no work without the key."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from engram import (
    Engram,
    NotAStore,
    StoreBusy,
    StoreDamaged,
    StoreEncrypted,
    StoreNotFound,
    errors,
    maintenance,
)
from engram.client import keys_of
from engram.config import load
from engram.lock_file import Lock
from engram.maintenance import decrypt, encrypt, rekey, restore
from engram.setup_records import Encryption
from engram.storage import backup, database, foreign, keys, scrub, swap
from engram.storage.encryption import LOCK
from engram.storage.keys import Keys
from tests._files import connect
from tests._tables import dump
from tests.conftest import KEY_FILE
from tests.migration.old_stores import load as load_old
from tests.migration.old_stores import releases

pytestmark = pytest.mark.skipif(bool(KEY_FILE), reason="here the tests choose which store is encrypted")

#: A word that is in the store and must not be in any file.
SECRET = "Zwiebelmarkt"


@pytest.fixture
def path(sqlite_url: str) -> Path:
    """A store with the word in several tables."""
    with Engram(sqlite_url) as eng:
        fill(eng)
    return Path(sqlite_url)


def fill(eng: Engram) -> None:
    session = eng.sessions.register("claude-code", f"At the {SECRET}")
    eng.exchanges.add(session, "user", f"We meet at the {SECRET} on Friday")
    eng.remember(f"The {SECRET} opens at nine", kind="fact", tags=["market"])
    eng.world.set(f"All are at the {SECRET}")


def change(call: Callable[..., Encryption], path: Path) -> Encryption:
    return call(load(url=str(path)))


def key_file() -> Path:
    return Path(load().key_file)


def raw(*folders: Path) -> bytes:
    """Everything in the files of these folders. By another process, because closing a file here drops locks."""
    files = [str(file) for folder in folders for file in folder.rglob("*") if file.is_file()]
    return subprocess.run(["cat", *files], stdout=subprocess.PIPE, check=True).stdout


def put_in_place(path: Path, *, encrypted: bool) -> None:
    """Replace the store as another process does it, without asking who else changes the key now."""
    known = keys_of(load(url=str(path)))
    wanted = known.newest() if encrypted else None
    swap.replace(str(path), database.key_of(str(path), known), wanted, 1.0)


def texts(path: Path) -> list[str]:
    with Engram(path) as eng:
        return [memory.content for memory in eng.memories.list()]


@pytest.mark.requirement("ENCRYPT-1")
def test_no_file_has_the_text_of_an_encrypted_store_not_even_its_log_and_its_backups(path: Path) -> None:
    assert SECRET.encode() in raw(path.parent)
    with Engram(path) as eng:
        done = change(encrypt, path)
        eng.remember(f"Later at the {SECRET}")
        eng.exchanges.add(eng.sessions.list()[0].id, "user", f"{SECRET} once more")
        assert os.path.getsize(f"{path}-wal") > 0
        assert SECRET.encode() not in raw(path.parent, key_file().parent)
        assert SECRET in eng.recall(SECRET)[0].text
    assert (done.encrypted, done.changed, done.keys) == (True, True, str(key_file()))
    assert path.read_bytes().startswith(database.MARK)
    assert {stat.S_IMODE(file.stat().st_mode) for file in (path, key_file())} == {0o600}
    assert len(texts(path)) == 2


@pytest.mark.requirement("ENCRYPT-1")
def test_backups_beside_the_store_are_encrypted_and_drafts_deleted_and_all_are_named(
    path: Path, tmp_path: Path
) -> None:
    shutil.copy(path, tmp_path / "own.db")
    kept = restore(load(url=str(path)), str(tmp_path / "own.db")).kept
    assert kept is not None
    draft = path.with_name(f"{path.name}.before-0002-20260101t000000000000.partial")
    broken = path.with_name(f"{path.name}.before-0003-20260101t000000000000")
    other = path.with_name("another-program.txt")
    for file in (draft, broken, other):
        file.write_text(SECRET)
    done = change(encrypt, path)
    assert (done.copies, done.removed, done.damaged) == ((kept,), (str(draft),), (str(broken),))
    # A person may want to save something from a damaged copy.
    assert broken.exists()
    done = encrypt(load(url=str(path)), delete_damaged=True)
    assert (done.copies, done.removed, done.damaged) == ((), (str(broken),), ())
    other.unlink()  # not Engram's
    assert SECRET.encode() not in raw(path.parent)
    assert len(texts(Path(kept))) == 1
    again = change(encrypt, path)
    assert (again.encrypted, again.changed, again.copies, again.removed) == (True, False, (), ())


@pytest.mark.requirement("ENCRYPT-2")
def test_everything_is_the_same_after_encrypting_changing_the_key_and_decrypting(path: Path) -> None:
    before = dump(str(path))
    for call in (encrypt, rekey, rekey, decrypt, encrypt, decrypt):
        assert change(call, path).encrypted is (call is not decrypt)
        assert dump(str(path)) == before
    assert path.read_bytes().startswith(b"SQLite format 3\0")
    assert sorted(file.name for file in path.parent.iterdir()) == [path.name]


@pytest.mark.requirement("ENCRYPT-2")
def test_a_changed_key_makes_the_old_one_useless_for_the_store_but_keeps_it_for_backups(
    path: Path, tmp_path: Path
) -> None:
    change(encrypt, path)
    old_key, own = key_file().read_text(), tmp_path / "own.db"
    shutil.copy(path, own)
    change(rekey, path)
    assert len(Keys(str(key_file())).read()) == 2
    with Engram(path) as eng:
        eng.remember("After the backup")
    restore(load(url=str(path)), str(own), force=True)
    assert len(texts(path)) == 1
    key_file().write_text(old_key)
    with pytest.raises(StoreEncrypted, match="no key in"):
        Engram(path)


@pytest.mark.requirement("ENCRYPT-3")
@pytest.mark.parametrize(
    ("problem", "said"),
    [
        ("missing", "there is no key at"),
        ("wrong", "no key in"),
        ("loose", "chmod 600"),
        ("garbled", "a line that is not a key"),
        ("empty", "there is no key at"),
    ],
)
def test_without_its_key_a_store_is_refused_in_one_sentence_and_not_changed(
    path: Path, problem: str, said: str, tmp_path: Path
) -> None:
    change(encrypt, path)
    before = path.read_bytes()
    file = key_file()
    if problem == "missing":
        file.unlink()
    elif problem == "loose":
        file.chmod(0o640)
    else:
        file.write_text({"wrong": f"{'ab' * 32}\n", "garbled": "abc\n", "empty": "# nothing\n"}[problem])
    plain = tmp_path / "plain.db"
    Engram(plain).close()
    for attempt in (
        lambda: Engram(path),
        lambda: Engram(path, create=False),
        lambda: Engram(path, migrate=False),
        lambda: change(encrypt, path),
        lambda: change(rekey, path),
        lambda: restore(load(url=str(path)), str(plain)),
        lambda: restore(load(url=str(plain)), str(path)),
    ):
        with pytest.raises(StoreEncrypted, match=said) as refused:
            attempt()
        assert (refused.value.code, refused.value.status, refused.value.exit_code) == ("store_encrypted", 503, 1)
    assert path.read_bytes() == before
    assert sorted(each.name for each in path.parent.iterdir()) == [path.name]
    assert file.exists() is (problem != "missing")


@pytest.mark.requirement("ENCRYPT-3")
def test_a_process_that_loses_the_key_while_it_runs_says_so_and_goes_on_when_it_is_back(path: Path) -> None:
    with Engram(path) as eng:
        change(encrypt, path)
        away = key_file().rename(key_file().with_name("away"))
        with pytest.raises(StoreEncrypted):
            eng.memories.list()
        away.rename(key_file())
        assert len(eng.memories.list()) == 1


@pytest.mark.requirement("ENCRYPT-3")
def test_a_file_of_another_program_is_never_taken_for_an_encrypted_store(path: Path, tmp_path: Path) -> None:
    change(encrypt, path)
    noise, database_of_others = tmp_path / "noise.db", tmp_path / "other.db"
    noise.write_bytes(os.urandom(8192))
    with closing(apsw.Connection(str(database_of_others))) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    for file in (noise, database_of_others):
        before = file.read_bytes()
        for call in (Engram, lambda place: change(encrypt, place), lambda place: change(decrypt, place)):
            with pytest.raises(NotAStore):
                call(file)
        assert file.read_bytes() == before
    with pytest.raises(StoreNotFound):
        change(encrypt, tmp_path / "none.db")
    assert not (tmp_path / "none.db").exists()


@pytest.mark.requirement("ENCRYPT-3")
def test_a_damaged_encrypted_store_is_damaged_and_can_be_restored(path: Path, tmp_path: Path) -> None:
    change(encrypt, path)
    saved = tmp_path / "saved.db"
    shutil.copy(path, saved)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)
    with pytest.raises(StoreDamaged, match="engram restore"):
        texts(path)
    kept = restore(load(url=str(path)), str(saved)).kept
    assert kept is not None and database.is_encrypted(kept)
    assert len(texts(path)) == 1


def hook(event: str, **fields: str) -> str:
    payload = {"session_id": "s1", "cwd": os.getcwd(), "hook_event_name": event, **fields}
    program = str(Path(sys.executable).parent / "engram-hook")
    done = subprocess.run(
        [program, "claude-code"], input=json.dumps(payload), capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.requirement("ENCRYPT-3")
def test_a_hook_uses_an_encrypted_store_and_tells_the_model_if_its_key_is_missing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGRAM_URL", str(path))
    change(encrypt, path)
    assert "Zwiebelmarkt" in hook("SessionStart", source="startup")
    with Engram(path) as eng:
        assert "claude-code" in {session.type for session in eng.sessions.list()}
    key_file().unlink()
    assert "its store is encrypted, and the key cannot be used" in hook("SessionStart", source="startup")
    assert not key_file().exists()
    assert path.read_bytes().startswith(database.MARK)


@pytest.mark.requirement("ENCRYPT-4")
def test_a_process_that_has_the_store_open_goes_on_without_a_restart(path: Path) -> None:
    with Engram(path) as eng, Engram(path) as other:
        count = 1
        for call in (encrypt, rekey, decrypt, encrypt):
            change(call, path)
            eng.remember(f"After {count}")
            count += 1
            assert len(other.memories.list()) == len(texts(path)) == count


WRITER = """
import sys
from engram import Engram
with Engram(sys.argv[1]) as eng:
    sid = eng.sessions.register("codex", "writing")
    print("ready", flush=True)
    for number in range(100_000):
        eng.sessions.log(sid, f"{sys.argv[2]}-{number}")
        print(f"{sys.argv[2]}-{number}", flush=True)
"""


@pytest.mark.requirement("ENCRYPT-4")
def test_writers_lose_nothing_while_the_store_is_encrypted_and_decrypted(path: Path, tmp_path: Path) -> None:
    outputs = [tmp_path / f"out-{name}" for name in "ab"]
    writers = []
    for output in outputs:
        with output.open("w") as file:
            writers.append(subprocess.Popen([sys.executable, "-c", WRITER, str(path), output.name], stdout=file))
    try:
        while not all(output.read_text().count("\n") > 5 for output in outputs):
            assert all(writer.poll() is None for writer in writers)
        for call in (encrypt, rekey, decrypt, encrypt, rekey):
            change(call, path)
            reached = [output.read_text().count("\n") for output in outputs]
            while not all(output.read_text().count("\n") > old for output, old in zip(outputs, reached, strict=True)):
                assert all(writer.poll() is None for writer in writers)
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    said = {line for output in outputs for line in output.read_text().splitlines() if line.startswith("out-")}
    with Engram(path) as eng:
        logged = [each.content for s in eng.sessions.list() for each in eng.sessions.logs(s.id, limit=0)]
    assert said <= set(logged)
    assert len(logged) == len(set(logged))


@pytest.mark.requirement("ENCRYPT-4")
def test_of_several_that_change_the_key_at_once_none_harms_the_store(path: Path) -> None:
    code = "import sys\nfrom engram import maintenance\n"
    code += "from engram.config import load\nfrom engram.errors import EngramError\n"
    code += "try: getattr(maintenance, sys.argv[1])(load(url=sys.argv[2]))\n"
    code += "except EngramError as error: print(error.code)"
    for calls in (("encrypt",) * 3, ("rekey", "rekey", "decrypt")):
        processes = [
            subprocess.Popen([sys.executable, "-c", code, call, str(path)], stdout=subprocess.PIPE, text=True)
            for call in calls
        ]
        said = {process.communicate()[0].strip() for process in processes}
        assert {process.returncode for process in processes} == {0}
        # A change that comes too late finds another key than it looked for, and may be tried again.
        assert said <= {"", "store_busy", "store_encrypted"}
        assert len(texts(path)) == 1
        with closing(connect(str(path))) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.requirement("ENCRYPT-4")
@pytest.mark.parametrize("before", [encrypt, decrypt], ids=["encrypted", "plain"])
@pytest.mark.parametrize("late", ["encrypt", "decrypt", "backup", "restore"])
def test_a_store_that_is_replaced_after_its_key_was_found_is_busy_and_not_taken_for_another_file(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: Callable[..., Encryption], late: str
) -> None:
    saved = tmp_path / "saved.db"
    shutil.copy(path, saved)
    change(before, path)
    inner = foreign.refuse

    def slow(place: str, known: Keys) -> bytes | None:
        found = inner(place, known)
        monkeypatch.setattr(foreign, "refuse", inner)
        put_in_place(path, encrypted=before is decrypt)
        return found

    with Engram(path) as eng:
        eng.remember("Written since")
    monkeypatch.setattr(foreign, "refuse", slow)
    settings = load(url=str(path))
    calls: dict[str, Callable[[], object]] = {
        "encrypt": lambda: rekey(settings) if before is encrypt else encrypt(settings),
        "decrypt": lambda: decrypt(settings),
        "backup": lambda: maintenance.backup(settings, str(tmp_path / "made.db")),
        "restore": lambda: restore(settings, str(saved)),
    }
    with pytest.raises(StoreBusy, match="Try again"):
        calls[late]()
    assert len(texts(path)) == 2
    assert database.is_encrypted(str(path)) is (before is decrypt)
    assert [file.name for file in path.parent.iterdir() if "restore" in file.name] == []
    assert not (tmp_path / "made.db").exists()


@pytest.mark.requirement("ENCRYPT-4")
@pytest.mark.parametrize("late", ["rekey", "decrypt", "backup", "restore"])
def test_a_replaced_store_is_another_file_also_where_numbers_of_files_are_used_again(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    saved = tmp_path / "saved.db"
    shutil.copy(path, saved)
    change(encrypt, path)
    inner = foreign.refuse

    def slow(place: str, known: Keys) -> bytes | None:
        found, number = inner(place, known), os.stat(path).st_ino
        monkeypatch.setattr(foreign, "refuse", inner)
        put_in_place(path, encrypted=False)
        # A second change of the key may get the number that the first one has freed.
        copies = [path.parent / f"copy-{each}" for each in range(100)]
        for copy in copies:
            shutil.copy(path, copy)
            if os.stat(copy).st_ino == number:
                os.replace(copy, path)
                break
        for copy in copies:
            copy.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(foreign, "refuse", slow)
    settings = load(url=str(path))
    calls: dict[str, Callable[[], object]] = {
        "rekey": lambda: rekey(settings),
        "decrypt": lambda: decrypt(settings),
        "backup": lambda: maintenance.backup(settings, str(tmp_path / "made.db")),
        "restore": lambda: restore(settings, str(saved)),
    }
    with pytest.raises(StoreBusy, match="Try again"):
        calls[late]()
    assert len(texts(path)) == 1
    assert not (tmp_path / "made.db").exists()


@pytest.mark.requirement("ENCRYPT-4")
def test_only_one_process_changes_the_key_and_the_draft_of_a_running_restore_stays(path: Path) -> None:
    other = Lock.take(f"{path}{LOCK}")
    assert other is not None
    with pytest.raises(StoreBusy, match="Another process changes the encryption"):
        change(encrypt, path)
    assert not database.is_encrypted(str(path))
    other.release()
    killed = subprocess.Popen([sys.executable, "-c", ""])
    killed.wait()
    drafts = {each: Path(f"{path}.incoming-{each}-20261115t183608123456.partial") for each in (os.getpid(), killed.pid)}
    for draft in drafts.values():
        shutil.copy(path, draft)
    done = change(encrypt, path)
    assert done.removed == (str(drafts[killed.pid]),)
    assert drafts[os.getpid()].exists()


@pytest.mark.requirement("ENCRYPT-6")
def test_cleaning_after_forgetting_never_touches_a_file_that_took_the_stores_place(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = scrub.scrub

    def late(*arguments: Any, **options: Any) -> bool:
        # The connection is open, and now the store is encrypted.
        change(encrypt, path)
        return inner(*arguments, **options)

    cleaned: list[str] = []
    monkeypatch.setattr(scrub, "scrub", late)
    monkeypatch.setattr(scrub, "_clean", lambda place, _: cleaned.append(place))
    with Engram(path) as eng:
        id = eng.remember("Gone soon").id
        eng.forget(memory=id)
        assert cleaned == []
        assert len(eng.memories.list()) == 1
    assert database.is_encrypted(str(path))


#: Runs a change and dies at the n-th step that touches a file of the store or the key, before the step.
DYING = """
import os, signal, sys
from engram import maintenance
from engram.client import keys_of
from engram.config import load
from engram.storage import encryption, swap, database, keys, backup, migrate
call, path, limit, *places = sys.argv[1:]
settings, left = load(url=path), int(limit)
def step(event, arguments):
    global left
    is_step = event in ("os.link", "os.remove", "os.rename", "open", "os.chmod")
    if is_step and str(arguments[0]).startswith(tuple(places)):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(step)
getattr(maintenance, call)(settings)
"""


@pytest.mark.requirement("ENCRYPT-5")
@pytest.mark.parametrize("call", [encrypt, rekey, decrypt])
def test_wherever_a_change_is_killed_the_store_works_and_the_next_attempt_does_the_rest(
    call: Callable[..., Encryption], path: Path, tmp_path: Path
) -> None:
    shutil.copy(path, tmp_path / "own.db")
    restore(load(url=str(path)), str(tmp_path / "own.db"))
    if call is not encrypt:
        change(encrypt, path)
    before = shutil.copytree(path.parent, tmp_path / "before")
    own_keys = shutil.copytree(key_file().parent, tmp_path / "keys") if call is not encrypt else None
    steps = 0
    while True:
        steps += 1
        for folder, source in ((path.parent, before), (key_file().parent, own_keys)):
            shutil.rmtree(folder, ignore_errors=True)
            if source:
                shutil.copytree(source, folder)
        # This process has the store open, as a server has.
        with Engram(path) as eng:
            eng.remember("Before it")
            places = (str(path.parent), str(key_file().parent))
            died = subprocess.run(
                [sys.executable, "-c", DYING, call.__name__, str(path), str(steps), *places], check=False
            ).returncode
            assert died in (0, -9)
            eng.remember("After it")
            # And this is a process that comes later.
            assert sorted(texts(path)) == sorted([f"The {SECRET} opens at nine", "Before it", "After it"])
            done = change(call, path) if call is not rekey else None
            eng.remember("In the end")
        with closing(connect(str(path))) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert len(texts(path)) == 4
        if done is not None:
            assert done.encrypted is (call is encrypt)
            assert (SECRET.encode() in raw(path.parent)) is (call is decrypt)
        if died == 0:
            break
    # The lock, the log, the swap, the key and the backup: fewer steps would mean that the test sees too little.
    assert steps > (10 if call is decrypt else 12)


@pytest.mark.requirement("ENCRYPT-6")
def test_what_is_forgotten_is_gone_also_for_one_who_has_the_key(path: Path) -> None:
    change(encrypt, path)
    with Engram(path) as eng, Engram(path) as other:
        ids = [eng.remember(f"{word} is a word of its own, {'padding ' * number}").id for number, word in WORDS]
        assert len(other.memories.list()) == 61
        for id in ids[::2]:
            eng.forget(memory=id)
        assert len(other.memories.list()) == 31
    with closing(connect(str(path))) as connection:
        image = connection.serialize("main")
    gone = [word for (_, word), id in zip(WORDS, ids, strict=True) if id in ids[::2] and word.encode() in image]
    assert gone == []
    assert all(word.encode() in image for _, word in WORDS[1::2])


WORDS = [(number, f"{chr(97 + number % 26) * 7}{number:02d}quokka") for number in range(60)]


@pytest.mark.requirement("ENCRYPT-7")
@pytest.mark.parametrize("store", ["plain", "encrypted", "missing"])
@pytest.mark.parametrize("copy", ["plain", "encrypted", "other key"])
def test_any_backup_can_be_restored_and_the_store_keeps_its_state(
    store: str, copy: str, path: Path, tmp_path: Path
) -> None:
    saved = tmp_path / "saved" / "copy.db"
    saved.parent.mkdir()
    shutil.copy(path, saved)
    if copy != "plain":
        change(encrypt, saved)
    if copy == "other key":
        change(encrypt, path)
        change(rekey, path)
    elif store == "encrypted":
        change(encrypt, path)
    if store == "plain":
        change(decrypt, path)
    with Engram(path) as eng:
        eng.remember("Later")
    if store == "missing":
        path.unlink()
        done = restore(load(url=str(path)), str(saved), force=True)
        assert done.kept is None
        assert database.is_encrypted(str(path)) is (copy != "plain")
    else:
        with Engram(path) as eng:
            done = restore(load(url=str(path)), str(saved), force=True)
            assert len(eng.memories.list()) == 1
        assert done.kept is not None
        assert {database.is_encrypted(str(file)) for file in (path, done.kept)} == {store == "encrypted"}
        assert len(texts(Path(done.kept))) == 2
    assert len(texts(path)) == 1
    with Engram(path) as eng:
        eng.remember("And on")
    assert not [name for name in os.listdir(path.parent) if name.endswith((".partial", ".next", ".replaced"))]


@pytest.mark.requirement("ENCRYPT-7")
def test_a_store_of_every_earlier_release_can_be_encrypted_and_is_migrated_with_an_encrypted_copy(
    tmp_path: Path,
) -> None:
    for release in releases():
        path = tmp_path / str(release) / "engram.db"
        load_old(str(path), release)
        before = dump(str(path))
        change(encrypt, path)
        assert dump(str(path)) == before
        with Engram(path) as eng:
            eng.remember(f"The {SECRET} opens at nine")
            assert SECRET in eng.recall(SECRET)[0].text
        names = backup.names(str(path))
        assert all(database.is_encrypted(str(path.with_name(name))) for name in names), release
        assert len(names) == (release != releases()[-1]) or release == releases()[-1]


@pytest.mark.requirement("ENCRYPT-8")
def test_with_encrypt_new_a_store_never_is_on_the_disk_in_plain(tmp_path: Path) -> None:
    path = tmp_path / "new" / "engram.db"
    with Engram(settings=load(url=str(path), encrypt_new="on")) as eng:
        fill(eng)
        assert SECRET.encode() not in raw(path.parent)
    assert path.read_bytes().startswith(database.MARK)
    # Another process needs no setting for it.
    assert len(texts(path)) == 1


RING = """
import json, os
from keyring.backend import KeyringBackend

class Ring(KeyringBackend):
    priority = 1
    def _all(self):
        return json.load(open(os.environ["RING"])) if os.path.exists(os.environ["RING"]) else {}
    def get_password(self, service, username):
        return self._all().get(f"{service}/{username}")
    def set_password(self, service, username, password):
        json.dump({**self._all(), f"{service}/{username}": password}, open(os.environ["RING"], "w"))
"""


@pytest.mark.requirement("ENCRYPT-8")
def test_the_key_can_be_in_the_systems_key_ring_which_is_not_asked_if_there_is_a_key_file(
    path: Path, tmp_path: Path
) -> None:
    (tmp_path / "a_ring.py").write_text(RING)
    ring = tmp_path / "ring.json"
    variables = {"PYTHONPATH": str(tmp_path), "PYTHON_KEYRING_BACKEND": "a_ring.Ring", "RING": str(ring)}
    program = "import sys\nfrom engram import Engram\nfrom engram.maintenance import encrypt, rekey\n"
    program += "from engram.config import load\ns = load(url=sys.argv[1])\n"

    def run(code: str, on: str = "on") -> str:
        environment = {**os.environ, **variables, "ENGRAM_KEY_RING": on}
        done = subprocess.run(
            [sys.executable, "-c", program + code, str(path)],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    assert run("print(encrypt(s).keys)\nrekey(s)") == "the system's key ring"
    assert not key_file().exists()
    assert run("print(len(Engram(settings=s).memories.list()), 'keyring' in sys.modules)") == "1 True"
    with pytest.raises(StoreEncrypted):
        Engram(path)
    key_file().parent.mkdir(parents=True, exist_ok=True)
    key_file().write_text(json.loads(ring.read_text())["engram/store keys"])
    key_file().chmod(0o600)
    assert run("print(len(Engram(settings=s).memories.list()), 'keyring' in sys.modules)") == "1 False"


@pytest.mark.requirement("ENCRYPT-8")
def test_a_key_ring_that_cannot_be_used_is_told_in_one_sentence(path: Path) -> None:
    code = "import sys; from engram.interfaces.cli import run; sys.exit(run(sys.argv[1:]))"
    variables = {"PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring", "ENGRAM_KEY_RING": "on"}
    before = path.read_bytes()
    change(encrypt, path)
    encrypted = path.read_bytes()
    key_file().unlink()
    for content in (before, encrypted):
        path.write_bytes(content)
        for command in ("encrypt", "rekey", "backup", "stats") if content is encrypted else ("encrypt",):
            done = subprocess.run(
                [sys.executable, "-c", code, "--store", str(path), command],
                env={**os.environ, **variables},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 1, command
            assert "The system's key ring cannot be used: No recommended backend was available." in done.stderr
            assert "setting key_file" in done.stderr
            assert "Traceback" not in done.stderr
        assert path.read_bytes() == content


@pytest.mark.requirement("ENCRYPT-8")
def test_a_key_file_behind_a_link_stays_behind_it(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "usb" / "key"
    target.parent.mkdir()
    key_file().parent.mkdir(parents=True, exist_ok=True)
    key_file().symlink_to(target)
    with pytest.raises(StoreEncrypted, match="is not there"):
        change(encrypt, path)
    target.touch(mode=0o600)
    for number, call in enumerate((encrypt, rekey), start=1):
        change(call, path)
        assert key_file().is_symlink()
        assert len(Keys(str(target)).read()) == number
    assert os.listdir(target.parent) == ["key"]
    assert len(texts(path)) == 1


@pytest.mark.requirement("ENCRYPT-8")
def test_a_draft_of_the_key_file_goes_with_the_next_key_unless_it_has_the_only_copy_of_one(path: Path) -> None:
    change(encrypt, path)
    draft = Path(keys.draft(str(key_file())))
    draft.write_text(f"{'ab' * 32}\n{key_file().read_text()}")
    change(rekey, path)
    assert not draft.exists()
    lost = key_file().rename(draft)
    draft.write_text(f"{'ab' * 32}\n{lost.read_text()}")
    plain = path.with_name("other.db")
    with Engram(plain) as eng:
        eng.world.set("plain")
    with pytest.raises(StoreEncrypted, match="Give it the name of the key file"):
        change(encrypt, plain)
    assert len(Keys(str(draft)).read()) == 3
    draft.rename(key_file())
    assert len(texts(path)) == 1


@pytest.mark.requirement("ENCRYPT-8")
def test_two_processes_that_need_the_first_key_at_once_get_the_same(tmp_path: Path) -> None:
    code = "import sys; from engram.storage.keys import Keys; print(Keys(sys.argv[1]).newest().hex())"
    file = str(tmp_path / "keys" / "store.key")
    processes = [
        subprocess.Popen([sys.executable, "-c", code, file], stdout=subprocess.PIPE, text=True) for _ in range(6)
    ]
    assert len({process.communicate()[0] for process in processes}) == 1
    assert len(Keys(file).read()) == 1


#: SQLite opens no file with a longer name, the end of its journal's name included.
LONGEST_NAME = 512


@pytest.mark.requirement("ENCRYPT-13")
@pytest.mark.parametrize("call", [encrypt, rekey, restore], ids=lambda call: call.__name__)
def test_no_error_of_a_change_or_a_restore_has_a_key(call: Callable[..., Any], path: Path, tmp_path: Path) -> None:
    added = f".incoming-{os.getpid()}-20261118t183608123456.partial" if call is restore else ".next"
    folder = tmp_path / ("x" * 150) / ("y" * 120)
    folder.mkdir(parents=True)
    # The store can be opened, and the file that the change writes cannot: its name is one character too long.
    length = LONGEST_NAME - len(f"{added}-journal") - (0 if call is restore else -1)
    store = folder / ("s" * (length - len(str(folder)) - 1))
    shutil.copy(path, store)
    if call is not encrypt:
        # With a key, while its name is short.
        short = tmp_path / "short.db"
        shutil.copy(path, short)
        change(encrypt, short)
        shutil.copy(short, store)
    arguments = (str(path),) if call is restore else ()
    with pytest.raises(errors.StoreError, match="unable to open database: file:") as refused:
        call(load(url=str(store)), *arguments)
    shown = "".join(traceback.format_exception(refused.value))
    known = Keys(str(key_file())).read()
    assert known
    assert not any(key.hex() in shown for key in known)


@pytest.mark.requirement("ENCRYPT-8")
def test_a_projects_file_cannot_choose_the_key(tmp_path: Path) -> None:
    (tmp_path / ".engram.toml").write_text('key_file = "theirs.key"\nkey_ring = "on"\nencrypt_new = "on"\n')
    settings = load(folder=str(tmp_path))
    assert (settings.key_file, settings.key_ring, settings.encrypt_new) == (str(key_file()), "off", "off")
    assert len(settings.notices) == 3


def test_an_apsw_that_cannot_encrypt_says_what_to_install(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change(encrypt, path)
    monkeypatch.delattr(apsw, "mc_version")
    with pytest.raises(errors.MissingExtra, match="apsw-sqlite3mc"):
        Engram(path)


def test_a_store_with_a_second_name_of_the_users_own_works(path: Path) -> None:
    with Engram(path) as eng:
        os.link(path, path.with_name("mine.db"))
        eng.remember("With two names")
        path.with_name("mine.db").unlink()
        assert len(eng.memories.list()) == 2
    assert not os.path.exists(f"{path}{swap.REPLACED}")


@pytest.mark.requirement("ENCRYPT-2")
def test_a_part_of_the_contract_suite_holds_on_encrypted_stores() -> None:
    """`make test-encrypted` runs all of it."""
    root = Path(__file__).parents[2]
    files = [f"tests/contract/test_{name}.py" for name in ("store", "leases", "memories", "forgetting")]
    found = [file for file in files if (root / file).exists()]
    done = subprocess.run(
        [sys.executable, "tests/with_key.py", "-q", "-x", *found, "-k", "sqlite"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
