"""`engram doctor`: faults of files, settings, hooks and harnesses, and stores that cannot be opened."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest

from engram import Engram as Store
from engram.config import load
from engram.interfaces.cli import run
from engram.interfaces.hooks import failures
from engram.interfaces.recall_socket import place
from engram.maintenance import backup
from engram.storage import migrate
from engram.storage.sqlite_left_files import plain
from tests._files import connect
from tests.migration.test_backup_files import garbage_page, wrong_id
from tests.migration.test_restore import cut_off, empty, garble_header, garble_rest, garble_schema

from .conftest import Outcome


class Machine(NamedTuple):
    """A home folder, a project to stand in, and a store."""

    home: Path
    store: Path
    data: Path
    engram: Callable[..., Outcome]

    def finding(self, name: str, *options: str) -> dict[str, Any]:
        outcome = self.engram("doctor", "--json", *options)
        found = [each for each in outcome.json if each["name"] == name]
        assert len(found) == 1, f"{name}: {outcome.out}"
        assert outcome.code == int(any(each["state"] == "wrong" for each in outcome.json))
        return dict(found[0])


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Machine:
    home, project, data = tmp_path / "home", tmp_path / "project", tmp_path / "d"
    for folder in (home, project, data):
        folder.mkdir(mode=0o700)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", str(tmp_path / "programs"))
    monkeypatch.setenv("ENGRAM_DATA_DIR", str(data))
    monkeypatch.setenv("ENGRAM_CONFIG_DIR", str(home / "config"))
    for variable in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(project)
    store = data / "engram.db"
    with Store(store) as eng:
        eng.world.set("here")
        for number in range(20):
            eng.blocks.create(f"block-{number}", "x" * 3_000)
    backup(load(url=str(store)))

    def call(*arguments: str) -> Outcome:
        capsys.readouterr()
        code = run(["--store", str(store), *arguments])
        return Outcome(code, *capsys.readouterr())

    return Machine(home, store, data, call)


def open_store_file(machine: Machine) -> None:
    machine.store.chmod(0o644)


def open_folder(machine: Machine) -> None:
    machine.data.chmod(0o777)


def open_backup(machine: Machine) -> None:
    next((machine.data / "backups").iterdir()).chmod(0o640)


def open_token(machine: Machine) -> None:
    (machine.data / "admin.token").write_text("secret")
    (machine.data / "admin.token").chmod(0o644)


def open_settings(machine: Machine) -> None:
    (machine.home / "config").mkdir()
    (machine.home / "config" / "config.toml").write_text('token = "engram_abc"\n')
    (machine.home / "config" / "config.toml").chmod(0o644)


def open_settings_folder(machine: Machine) -> None:
    (machine.home / "config").mkdir()
    (machine.home / "config").chmod(0o775)


def settings_in_a_folder(machine: Machine) -> None:
    (machine.home / "config" / "config.toml").mkdir(parents=True)


def settings_in_a_pipe(machine: Machine) -> None:
    (machine.home / "config").mkdir()
    os.mkfifo(machine.home / "config" / "config.toml")


def settings_that_lead_nowhere(machine: Machine) -> None:
    (machine.home / "config").mkdir()
    (machine.home / "config" / "config.toml").symlink_to(machine.home / "nothing.toml")


def left_drafts(machine: Machine) -> None:
    old = machine.data / "engram.db.before-0017-20260101t000000000000.partial"
    old.write_text("draft")
    os.utime(old, (1_000_000_000, 1_000_000_000))
    (machine.data / "engram.db.incoming-99999999-20260101t000000000000.partial").write_text("draft")
    (machine.data / "engram.db.new-99999999-1").write_text("draft")
    made = next((machine.data / "backups").iterdir())
    Path(f"{made}.99999999.partial").write_text("draft")


def left_next(machine: Machine) -> None:
    shutil.copy(next((machine.data / "backups").iterdir()), f"{machine.store}.next")


def log_in_a_folder(machine: Machine) -> None:
    (machine.data / "hook.log").mkdir()
    (machine.data / "hook.log").chmod(0o755)


def log_in_a_pipe(machine: Machine) -> None:
    os.mkfifo(machine.data / "hook.log")
    (machine.data / "hook.log").chmod(0o644)


def log_without_end(machine: Machine) -> None:
    (machine.data / "hook.log").symlink_to("/dev/zero")


def stale_socket(machine: Machine) -> None:
    path = place.make(load(url=str(machine.store)))
    assert path is not None
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.close()
    os.chmod(path, 0o600)


def open_socket_folder(machine: Machine) -> None:
    path = place.make(load(url=str(machine.store)))
    assert path is not None
    os.chmod(os.path.dirname(path), 0o755)


def lost_backups(machine: Machine) -> None:
    shutil.rmtree(machine.data / "backups")


def broken_backup(machine: Machine) -> None:
    garble_header(next((machine.data / "backups").iterdir()))


def failing_hooks(machine: Machine) -> None:
    for _ in range(3):
        failures.count_failure(str(machine.data), new_session=False, permanent=False, can_tell=False)


def logged_failure(machine: Machine) -> None:
    failures.note(str(machine.data), "codex Stop: the store is busy")


def damaged_log(machine: Machine) -> None:
    lines = ("zzzz not a time", "x" * 30, "9999-01-01T00:00:00Z far ahead", "")
    (machine.data / "hook.log").write_text("\n".join(lines))
    (machine.data / "hook.log").chmod(0o600)


def ignored_setting(machine: Machine) -> None:
    Path(".engram.toml").write_text('url = "postgresql://elsewhere/x"\n')


def absent_harness(machine: Machine) -> None:
    (machine.home / ".codex").mkdir()


def outdated_harness(machine: Machine) -> None:
    (machine.home / ".cursor").mkdir()
    assert machine.engram("install", "cursor").code == 0
    hooks = machine.home / ".cursor" / "hooks.json"
    hooks.write_text(hooks.read_text().replace(str(Path(sys.executable).parent), "/an/earlier/place"))


def unusable_harness(machine: Machine) -> None:
    (machine.home / ".gemini").mkdir()
    (machine.home / ".gemini" / "settings.json").write_text("{ not JSON")


def unknown_setting(machine: Machine) -> None:
    (machine.home / "config").mkdir()
    (machine.home / "config" / "config.toml").write_text("colour = 1\n")


def pending_migration(machine: Machine) -> None:
    last = migrate.shipped("sqlite")[-1]
    change(machine, f"DELETE FROM migrations WHERE number = {last.number}")
    for index in re.findall(r"CREATE INDEX (\w+)", last.sql):
        change(machine, f"DROP INDEX {index}")


def newer_schema(machine: Machine) -> None:
    change(machine, "INSERT INTO migrations VALUES (99, 'later', 'x', 99, '2026-01-01T00:00:00.000000Z')")


def lost_reference(machine: Machine) -> None:
    change(machine, "INSERT INTO memory_versions VALUES (77, 1, 'x', '', NULL, '2026-01-01', NULL, NULL)")


def change(machine: Machine, statement: str) -> None:
    from tests._tables import run as run_sql

    run_sql(str(machine.store), statement)


Plant = Callable[[Machine], None]
#: What is planted, the finding, its state, and whether --fix mends it.
FAULTS: dict[Plant, tuple[str, str, bool]] = {
    open_store_file: ("store.permissions", "wrong", True),
    open_backup: ("store.permissions", "wrong", True),
    open_folder: ("settings.folder", "wrong", True),
    open_token: ("settings.permissions", "wrong", True),
    open_settings: ("settings.permissions", "wrong", True),
    open_settings_folder: ("settings.folder", "wrong", True),
    settings_in_a_folder: ("settings.file", "wrong", False),
    settings_in_a_pipe: ("settings.file", "wrong", False),
    settings_that_lead_nowhere: ("settings.file", "wrong", False),
    left_drafts: ("store.leftovers", "note", True),
    left_next: ("store.leftovers", "note", True),
    log_in_a_folder: ("hook.log", "note", False),
    log_in_a_pipe: ("hook.log", "note", False),
    log_without_end: ("hook.log", "note", False),
    stale_socket: ("socket.stale", "note", True),
    open_socket_folder: ("socket.permissions", "wrong", True),
    lost_backups: ("store.backups", "note", False),
    broken_backup: ("store.backups", "wrong", False),
    failing_hooks: ("hook.failing", "wrong", False),
    logged_failure: ("hook.log", "note", False),
    damaged_log: ("hook.log", "note", False),
    ignored_setting: ("settings.project", "note", False),
    absent_harness: ("harness.codex", "note", False),
    outdated_harness: ("harness.cursor", "wrong", False),
    unusable_harness: ("harness.gemini", "wrong", False),
    unknown_setting: ("settings.user", "wrong", False),
    pending_migration: ("store.schema", "note", False),
    newer_schema: ("store.opens", "wrong", False),
    lost_reference: ("store.references", "wrong", False),
}
DAMAGES: dict[Callable[[Path], None], str] = {
    garble_header: "store.file",
    garble_schema: "store.file",
    garble_rest: "store.file",
    garbage_page: "store.integrity",
    cut_off: "store.file",
    empty: "store.file",
    wrong_id: "store.file",
}


def contents(machine: Machine) -> dict[str, bytes]:
    """Every file below the test's folders, except what SQLite makes and removes by itself."""
    root = machine.home.parent
    files = [file for file in root.rglob("*") if file.is_file() and not file.is_symlink()]
    return {str(file): file.read_bytes() for file in files if not file.name.endswith(("-wal", "-shm"))}


@pytest.mark.requirement("DOCTOR-3")
def test_a_sound_machine_has_nothing_wrong(machine: Machine) -> None:
    before = contents(machine)
    outcome = machine.engram("doctor")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.endswith(" checks passed, 0 notes, nothing wrong.\n")
    assert "hook.program" in machine.engram("doctor", "--all", "--full", "--fix").out
    assert contents(machine) == before


@pytest.mark.requirement("DOCTOR-1", "DOCTOR-2")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_each_planted_fault_of_a_machine_is_found_and_mended_as_promised(machine: Machine, fault: Plant) -> None:
    name, state, mended = FAULTS[fault]
    fault(machine)
    before = contents(machine)
    finding = machine.finding(name)
    assert (finding["state"], finding["mends"]) == (state, mended), finding
    assert finding["means"] and finding["fix"] and finding["number"]
    assert contents(machine) == before, "looking changed something"
    fixed = machine.finding(name, "--fix")
    if mended:
        assert fixed["state"] == "ok" and fixed["mended"], fixed
        assert contents(machine).items() <= before.items(), "only drafts are removed"
    else:
        assert fixed["state"] == state
        assert contents(machine) == before
    shown = machine.engram("doctor").out
    assert (name in shown) is not mended


@pytest.mark.requirement("DOCTOR-1")
@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_a_key_file_that_is_no_file_is_found(
    machine: Machine, make: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = str(machine.home / "store.key")
    make(file)
    monkeypatch.setenv("ENGRAM_KEY_FILE", file)
    finding = machine.finding("store.key")
    assert finding["state"] == "wrong" and f"{file} is no file" in finding["found"]


@pytest.mark.requirement("DOCTOR-1")
@pytest.mark.parametrize("plant", [log_in_a_folder, log_in_a_pipe, log_without_end], ids=lambda each: each.__name__)
def test_a_log_that_is_no_file_is_told_as_that_and_not_as_readable_for_others(machine: Machine, plant: Plant) -> None:
    plant(machine)
    assert machine.finding("hook.log")["found"] == f"{machine.data}/hook.log is no file."
    assert machine.finding("settings.permissions")["state"] == "ok"


@pytest.mark.requirement("DOCTOR-2")
def test_the_copy_of_a_change_of_the_key_that_runs_is_not_a_leftover(machine: Machine) -> None:
    left_next(machine)
    running = connect(str(machine.store), apsw.SQLITE_OPEN_READWRITE)
    running.execute("BEGIN IMMEDIATE")
    assert machine.finding("store.leftovers", "--fix")["state"] == "ok"
    assert Path(f"{machine.store}.next").exists()
    running.close()
    assert machine.finding("store.leftovers")["state"] == "note"


@pytest.mark.requirement("DOCTOR-1", "DOCTOR-2")
@pytest.mark.parametrize("end", ["next", "incoming-99999999-20251231t000000000000.partial"])
def test_a_leftover_that_cannot_be_deleted_does_not_keep_the_others(machine: Machine, end: str) -> None:
    left_drafts(machine)
    stuck = Path(f"{machine.store}.{end}")
    stuck.mkdir()
    fixed = machine.finding("store.leftovers", "--fix")
    assert (fixed["state"], fixed["mended"], fixed["number"], fixed["mends"]) == ("note", 4, 1, False), fixed
    assert fixed["found"] == f"{stuck} cannot be deleted: it is a folder."
    assert fixed["fix"] == f"Move {stuck} away."
    assert not list(machine.data.rglob("*99999999-20260101*"))


@pytest.mark.requirement("DOCTOR-1")
def test_folders_and_strange_names_beside_an_encrypted_store_are_no_plain_copies(machine: Machine) -> None:
    assert machine.engram("encrypt").code == 0
    strange = os.fsencode(machine.data) + b"/caf\xe9.txt"
    Path(os.fsdecode(strange)).write_text("mine")
    Path(f"{machine.store}.next").mkdir()
    finding = machine.finding("store.plain")
    assert finding["state"] == "ok" and "could not be checked" not in finding["found"]
    Path(f"{machine.store}.replaced").mkdir()
    assert plain(str(machine.store)).state == "ok"


@pytest.mark.requirement("DOCTOR-1")
@pytest.mark.parametrize(
    ("flag", "free", "said", "todo"),
    [
        (os.ST_RDONLY, 1_000_000, "mounted read-only", "Mount the file system for writing."),
        (0, 0, "disk is full", "Free some space."),
    ],
)
def test_a_store_whose_disk_cannot_be_written_needs_no_restore(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, flag: int, free: int, said: str, todo: str
) -> None:
    # SQLite cannot open its log, as on such a disk. Mounting one needs rights that tests do not have.
    Path(f"{machine.store}-wal").mkdir()
    real = os.statvfs(machine.data)
    assert "restore" in machine.finding("store.file")["fix"]
    disk = os.statvfs_result((*real[:4], free, *real[5:8], flag, real[9]))
    monkeypatch.setattr(os, "statvfs", lambda path: disk)
    finding = machine.finding("store.file")
    assert finding["state"] == "wrong" and said in finding["found"] and finding["fix"] == todo, finding
    # Some systems can read a store there.
    Path(f"{machine.store}-wal").rmdir()
    finding = machine.finding("store.space")
    assert finding["state"] == "wrong" and finding["fix"] == todo, finding


@pytest.mark.requirement("DOCTOR-1")
def test_the_record_of_a_migration_that_is_missing_is_told_and_not_as_an_upgrade(machine: Machine) -> None:
    change(machine, "DELETE FROM migrations WHERE number = 7")
    (wrong,) = [each for each in machine.engram("doctor", "--json").json if each["state"] == "wrong"]
    assert "the record of migration 7 is missing" in wrong["found"], wrong
    saved = next((machine.data / "backups").iterdir())
    assert wrong["fix"] == f"engram --store {machine.store} restore {saved} --force"
    assert machine.engram(*wrong["fix"].split()[3:], "--yes").code == 0
    assert machine.engram("doctor").code == 0


@pytest.mark.requirement("DOCTOR-1")
def test_a_pipe_in_place_of_the_store_does_not_hold_the_doctor_up(machine: Machine) -> None:
    """Opening it would wait for a writer."""
    for end in ("", "-wal", "-shm"):
        Path(f"{machine.store}{end}").unlink(missing_ok=True)
    os.mkfifo(machine.store, 0o600)
    found = machine.finding("store.file", "--full", "--fix")
    assert found["state"] == "wrong" and "is no regular file" in found["found"], found
    assert found["fix"].startswith("Move it away")
    assert stat.S_ISFIFO(machine.store.stat().st_mode)


@pytest.mark.requirement("DOCTOR-1")
def test_a_pipe_in_place_of_a_log_does_not_hold_the_doctor_up(machine: Machine) -> None:
    for name in (failures.LOG, failures.COUNT):
        os.mkfifo(machine.data / name, 0o600)
    assert machine.engram("doctor").code == 0


@pytest.mark.requirement("DOCTOR-2")
def test_with_fix_the_exit_code_is_0_if_everything_is_mended(machine: Machine) -> None:
    open_settings_folder(machine)
    change(machine, "INSERT INTO memory_tags (workspace, tag, memory_id) VALUES ('default', 'lost', 999999)")
    assert machine.engram("doctor").code == 1
    mended = machine.engram("doctor", "--fix")
    assert mended.code == 0, mended.out


@pytest.mark.requirement("DOCTOR-2")
def test_the_users_own_files_stay_as_they_are(machine: Machine) -> None:
    mine = [machine.data / f"engram.db.{end}" for end in ("new-laptop-2026", "incoming-mail-1", "before-party.partial")]
    # The user has put another file in the place of a backup.
    mine.append(machine.home / "page.html")
    backup(load(url=str(machine.store)), str(mine[-1]))
    for file in mine:
        file.write_text("mine")
        file.chmod(0o644)
        os.utime(file, (1_000_000_000, 1_000_000_000))
    machine.engram("doctor", "--fix")
    assert [(file.read_text(), stat.S_IMODE(file.stat().st_mode)) for file in mine] == [("mine", 0o644)] * len(mine)
    assert machine.finding("store.permissions")["state"] == "ok"
    assert machine.finding("store.leftovers")["state"] == "ok"


@pytest.mark.requirement("DOCTOR-1")
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_store_is_found_left_alone_and_can_be_restored(
    machine: Machine, damage: Callable[[Path], None]
) -> None:
    damage(machine.store)
    before = machine.store.read_bytes()
    outcome = machine.engram("doctor", "--json", "--fix")
    states = {each["name"]: each["state"] for each in outcome.json}
    assert states[DAMAGES[damage]] == "wrong", states
    # One finding says it, names the newest backup, and quotes nothing about pages.
    (told,) = [each for each in outcome.json if each["state"] == "wrong"]
    saved = next((machine.data / "backups").iterdir())
    assert f"restore {saved}" in told["fix"] and "error code" not in told["found"], told
    assert machine.store.read_bytes() == before
    if damage is not wrong_id:
        assert machine.engram("restore", str(machine.data / "backups"), "--yes", "--force").code == 0
        assert machine.engram("doctor").code == 0


@pytest.mark.requirement("DOCTOR-1")
def test_lines_of_the_hooks_log_that_are_no_entries_are_no_failures(machine: Machine) -> None:
    damaged_log(machine)
    assert machine.finding("hook.log")["found"] == "The log has 3 lines that are no entry of Engram."
    failures.note(str(machine.data), "codex Stop: the store is busy")
    told = machine.finding("hook.log")
    assert told["number"] == 1 and "the store is busy" in told["found"] and "no entry" in told["found"]


@pytest.mark.requirement("DOCTOR-3")
def test_the_default_store_that_is_not_there_yet_is_only_a_note(
    machine: Machine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGRAM_DATA_DIR", str(machine.home / "new"))
    capsys.readouterr()
    assert run(["doctor", "--json"]) == 0
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    assert found["store.opens"]["state"] == "note"
    assert "`engram init` creates one" in found["store.opens"]["found"]
    assert run(["vacuum"]) == 3
    assert "`engram init` creates one" in capsys.readouterr().err


@pytest.mark.requirement("DOCTOR-1")
def test_the_last_line_of_the_doctor_counts_what_is_wrong(machine: Machine) -> None:
    open_store_file(machine)
    absent_harness(machine)
    assert re.search(r"\n\d+ checks passed, 1 note, 1 thing is wrong\.\n$", machine.engram("doctor").out)
    open_token(machine)
    assert machine.engram("doctor").out.endswith(", 1 note, 2 things are wrong.\n")


@pytest.mark.requirement("DOCTOR-1")
def test_a_destroyed_store_is_one_finding_with_its_backups_and_the_command(machine: Machine) -> None:
    machine.store.write_bytes(os.urandom(machine.store.stat().st_size))
    saved = next((machine.data / "backups").iterdir())
    said = [each for each in machine.engram("doctor", "--json").json if "not a database" in json.dumps(each)]
    assert [each["name"] for each in said] == ["store.file"]
    assert said[0]["fix"] == f"engram --store {machine.store} restore {saved}"
    assert str(saved) in said[0]["found"]
    unchecked = [each for each in machine.engram("doctor", "--json").json if "not be checked" in each["found"]]
    assert unchecked == []
    assert "engram restore --list" in machine.engram("recall", "here").err
    assert machine.engram("restore", str(saved), "--yes").code == 0
    assert machine.engram("doctor").code == 0


@pytest.mark.requirement("DOCTOR-1")
def test_commands_name_the_backups_of_a_store_that_is_gone(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.store.unlink()
    capsys.readouterr()
    # The default store, whose place a command takes that only reads.
    assert run(["recall", "here"]) == 0
    shown = capsys.readouterr()
    assert "engram restore --list" in shown.err and "is empty. " not in shown.err
    named = machine.engram("recall", "here")
    assert named.code == 3 and "engram restore --list" in named.err
    shutil.rmtree(machine.data / "backups")
    assert "engram restore --list" not in machine.engram("recall", "here").err


@pytest.mark.requirement("DOCTOR-1")
def test_a_hook_that_does_not_run_is_found(machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "installed"
    folder.mkdir()
    for name in ("engram", "engram-hook", "python"):
        (folder / name).write_text("#!/nowhere/python\n")
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    assert "cannot be run" in machine.finding("hook.program")["found"]
    (folder / "engram-hook").chmod(0o755)
    assert "does not run" in machine.finding("hook.program")["found"]


@pytest.mark.requirement("DOCTOR-3")
def test_without_a_store_the_doctor_makes_none(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    code = run(["--store", str(machine.home / "none.db"), "doctor", "--json", "--fix"])
    states = {each["name"]: each["state"] for each in json.loads(capsys.readouterr().out)}
    # It was named, so it may be mistyped.
    assert (code, states["store.opens"]) == (1, "wrong")
    assert not (machine.home / "none.db").exists()
    assert stat.S_IMODE(machine.home.stat().st_mode) == 0o700
