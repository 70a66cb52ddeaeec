"""Upgrading: who does it, who does not, and what is left beside the store."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from engram import Engram, StoreFull, UpgradeNeeded
from engram.config import load
from engram.interfaces import detached, hooks
from engram.interfaces.hooks import respond
from engram.interfaces.mcp.connections import Connection
from engram.interfaces.mcp.host import Host
from engram.storage import backup, migrate
from tests.interfaces.conftest import Engram as Command
from tests.interfaces.conftest import engram, program
from tests.migration import old_stores
from tests.migration.test_migrate import ADD_COLOUR, ADD_SHAPE, NEWEST, Extended, Store, extended, store

__all__ = ["engram", "extended", "store"]  # fixtures

#: What hooks do needs nothing of it.
HARMLESS = f"-- works with: {NEWEST}\n-- hooks work without it\n{ADD_COLOUR}"

#: Run a module as a later Engram would, which ships the migrations in the folder given first.
LATER = """
import runpy, sys
from engram.storage import migrate
migrate.sqlite.__defaults__ = migrate.postgres.__defaults__ = migrate.without_change.__defaults__ = (sys.argv.pop(1),)
"""
UPGRADE = f"{LATER}\nfrom engram.interfaces.cli import run\nsys.exit(run(sys.argv[1:]))"


@pytest.fixture
def ships(extended: Extended, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Make this process one of a later Engram, which ships more migrations."""

    def ship(*more: str) -> Path:
        folder = extended(*more)
        for function in (migrate.sqlite, migrate.postgres, migrate.without_change):
            monkeypatch.setattr(function, "__defaults__", (str(folder),))
        return folder

    return ship


@pytest.mark.requirement("UPGRADE-1")
def test_without_migrating_a_store_that_needs_more_is_refused_and_left_as_it_is(
    store: Store, ships: Callable[..., Path]
) -> None:
    ships(HARMLESS, ADD_SHAPE)
    columns = store.columns()
    with pytest.raises(UpgradeNeeded, match=rf"schema {NEWEST}, .* needs schema {NEWEST + 2}. Run `engram upgrade`"):
        Engram(settings=load(url=store.url), migrate=False)
    assert (store.columns(), store.applied()[-1], store.backups()) == (columns, NEWEST, [])


@pytest.mark.requirement("UPGRADE-1")
def test_without_migrating_a_store_that_has_enough_is_used_as_it_is(store: Store, ships: Callable[..., Path]) -> None:
    ships(HARMLESS)
    with Engram(settings=load(url=store.url), migrate=False) as eng:
        eng.blocks.update("plan", "two")
        assert [block.content for block in eng.blocks.list()] == ["two"]
    assert (store.applied()[-1], store.backups()) == (NEWEST, [])
    with Engram(store.url) as eng:
        assert [block.content for block in eng.blocks.list()] == ["two"]
    assert (store.applied()[-1], len(store.backups())) == (NEWEST + 1, 1)


@pytest.mark.requirement("UPGRADE-1")
def test_a_new_store_is_made_by_whoever_comes_first(store_url: str, ships: Callable[..., Path]) -> None:
    ships(ADD_COLOUR)
    with Engram(settings=load(url=store_url), migrate=False) as eng:
        eng.blocks.create("plan", "one")
    assert Store(store_url).applied()[-1] == NEWEST + 1


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own data folder, with a store in it."""
    folder = tmp_path / "data"
    monkeypatch.setenv("ENGRAM_DATA_DIR", str(folder))
    monkeypatch.chdir(tmp_path)
    with Engram() as eng:
        eng.blocks.create("plan", "one")
    return folder


def prompt(text: str) -> str:
    event = {"session_id": "s1", "hook_event_name": "UserPromptSubmit", "prompt": text}
    answer = respond("claude-code", json.dumps(event).encode())
    return str(json.loads(answer)["hookSpecificOutput"]["additionalContext"]) if answer else ""


@pytest.mark.requirement("UPGRADE-1", "HOOK-8")
def test_a_hook_that_needs_an_upgrade_says_so_once_has_it_done_and_goes_on(
    data: Path, ships: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ships(ADD_COLOUR)
    started: list[tuple[str, tuple[str, ...], str]] = []

    def start(name: str, arguments: list[str], settings: Any) -> bool:
        # The program that is installed ships no such migration; this one stands in for that of the later Engram.
        started.append((name, tuple(arguments), settings.url))
        return True

    monkeypatch.setattr(detached, "start", start)
    monkeypatch.setattr(hooks, "SOFT_LIMIT", 0.0)
    told = [prompt(f"number {number}") for number in range(3)]
    assert "being upgraded" in told[0]
    assert told[1:] == ["", ""]
    assert set(started) == {("upgrade", ("upgrade",), str(data / "engram.db"))}
    store = Store(str(data / "engram.db"))
    assert (store.applied()[-1], store.backups()) == (NEWEST, [])
    assert "UpgradeNeeded" in (data / "hook.log").read_text()
    subprocess.run([sys.executable, "-c", UPGRADE, str(folder), "upgrade"], check=True, capture_output=True)
    assert (store.applied()[-1], len(store.backups())) == (NEWEST + 1, 1)
    assert prompt("number 4") == ""
    assert not (data / "hook.failures").exists()
    with Engram() as eng:
        assert [turn.content for turn in eng.exchanges.history(eng.sessions.list()[0].id)] == ["number 4"]


@pytest.mark.requirement("UPGRADE-1")
def test_a_hook_records_on_the_old_schema_where_that_is_enough(data: Path, ships: Callable[..., Path]) -> None:
    ships(HARMLESS)
    assert prompt("hello") == ""
    store = Store(str(data / "engram.db"))
    assert (store.applied()[-1], store.backups()) == (NEWEST, [])
    assert store.all("SELECT content FROM exchanges") == [("hello",)]
    assert not (data / "upgrade.lock").exists()


def older(data: Path) -> Store:
    """Take the store back to the schema before this version's, as an earlier release left it."""
    store = Store(str(data / "engram.db"))
    store.all("DELETE FROM migrations WHERE number > 1")
    return store


def wait_for(condition: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.requirement("UPGRADE-1", "UPGRADE-3")
def test_the_event_that_has_a_small_store_upgraded_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("ENGRAM_DATA_DIR", str(folder))
    monkeypatch.chdir(tmp_path)
    # A busy machine may take longer than a hook waits.
    monkeypatch.setattr(hooks, "SOFT_LIMIT", 60.0)
    url = str(folder / "engram.db")
    old_stores.load(url, 7)
    assert prompt("Why does the zeppelin leak?") == ""
    store = Store(url)
    assert (store.applied()[-1], len(store.backups())) == (NEWEST, 1)
    assert store.all("SELECT role FROM exchanges WHERE content = 'Why does the zeppelin leak?'") == [("user",)]
    assert not (folder / "hook.log").exists()
    wait_for(lambda: not detached.is_running("upgrade", load()))


@pytest.mark.requirement("UPGRADE-1", "UPGRADE-3")
def test_fifty_hook_events_start_one_real_process(data: Path) -> None:
    # Migrations that are recorded as not applied, but were, cannot be applied: the command fails and says so.
    older(data)
    hook = os.path.join(os.path.dirname(program()), "engram-hook")
    event = json.dumps({"session_id": "s1", "hook_event_name": "UserPromptSubmit", "prompt": "x"}).encode()
    run = subprocess.run([hook, "claude-code"], input=event, capture_output=True, check=True)
    assert b"being upgraded" in run.stdout
    for _ in range(49):
        prompt("x")
    wait_for(lambda: "engram upgrade ended with" in (data / "hook.log").read_text())
    assert (data / "hook.log").read_text().count("engram upgrade ended with") == 1
    assert stat.S_IMODE((data / "upgrade.lock").stat().st_mode) == 0o600


@pytest.fixture
def probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A program in Python's place, which writes down how it was started and waits to be told to end."""
    report = tmp_path / "report.json"
    script = tmp_path / "probe"
    script.write_text(
        f"#!{sys.executable}\n"
        "import json, os, sys, time\n"
        "from engram.interfaces import detached\n"
        "import engram.interfaces.cli as cli\n"
        "def run(arguments):\n"
        "    fds = {fd: os.readlink(f'/proc/self/fd/{fd}') for fd in os.listdir('/proc/self/fd')\n"
        "           if os.path.exists(f'/proc/self/fd/{fd}')}\n"
        "    known = dict(arguments=arguments, environ=dict(os.environ), cwd=os.getcwd(), nice=os.nice(0),\n"
        "                 sid=os.getsid(0), pid=os.getpid(), fds=fds)\n"
        f"    open({str(report)!r} + '.draft', 'w').write(json.dumps(known))\n"
        f"    os.rename({str(report)!r} + '.draft', {str(report)!r})\n"
        "    deadline = time.monotonic() + 60\n"
        f"    while not os.path.exists({str(report)!r} + '.end') and time.monotonic() < deadline: time.sleep(0.02)\n"
        "    return 0\n"
        "cli.run = run\n"
        "sys.exit(detached.main(sys.argv[4:]))\n"
    )
    script.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(script))
    yield report
    Path(f"{report}.end").touch()


@pytest.mark.requirement("UPGRADE-3")
def test_a_detached_command_has_what_it_needs_and_nothing_else(
    data: Path, probe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a client's own")
    monkeypatch.setenv("GITHUB_TOKEN", "a client's own")
    monkeypatch.setenv("PGPASSWORD", "another program's")
    monkeypatch.setenv("ENGRAM_SESSION", "the client's own")
    monkeypatch.setenv("ENGRAM_LLM", "extractive")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    settings = load(workspace="mine")
    try:
        assert detached.start("probe", ["upgrade", "--json"], settings)
        assert not detached.start("probe", ["upgrade"], settings, pause=0), "one at a time"
        wait_for(probe.exists)
        os.close(writer)
        assert os.read(reader, 1) == b"", "nobody else holds the other end"
    finally:
        os.close(reader)
    known = json.loads(probe.read_text())
    assert known["arguments"] == ["upgrade", "--json"]
    assert known["cwd"] == str(data)
    assert (known["sid"], known["nice"]) == (known["pid"], detached.NICENESS + os.nice(0))
    assert {
        fd: target for fd, target in known["fds"].items() if target not in ("/dev/null", str(data / "probe.lock"))
    } == {}
    assert {"0", "1", "2"} <= known["fds"].keys()
    expected = {"ENGRAM_URL": str(data / "engram.db"), "ENGRAM_WORKSPACE": "mine", "ENGRAM_DATA_DIR": str(data)}
    assert expected.items() <= known["environ"].items()
    assert {"PATH", "LC_ALL", "ENGRAM_LLM"} <= known["environ"].keys()
    assert {"ANTHROPIC_API_KEY", "GITHUB_TOKEN", "PGPASSWORD", "ENGRAM_SESSION"} & known["environ"].keys() == set()
    Path(f"{probe}.end").touch()
    wait_for(lambda: _free(data / "probe.lock"))
    assert not detached.start("probe", ["upgrade"], settings), "not before the pause"
    assert detached.start("probe", ["upgrade"], settings, pause=0)


def _free(lock: Path) -> bool:
    import fcntl

    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@pytest.mark.requirement("UPGRADE-3")
def test_a_command_on_postgresql_gets_what_the_driver_reads() -> None:
    given = {"PGPASSWORD": "x", "PATH": "/bin", "SECRET": "y"}
    kept = detached.environment(given, load(url="postgresql://host/db"))
    assert (kept["PGPASSWORD"], kept["ENGRAM_URL"]) == ("x", "postgresql://host/db")
    assert "SECRET" not in kept


@pytest.mark.requirement("UPGRADE-2")
def test_the_command_upgrades_says_what_it_did_and_then_has_nothing_to_do(
    store: Store, engram: Command, ships: Callable[..., Path]
) -> None:
    ships(ADD_COLOUR, ADD_SHAPE)
    outcome = engram("upgrade")
    assert (outcome.code, outcome.err) == (0, "")
    assert f"to schema {NEWEST + 2}: {NEWEST + 1:04d}_more, {NEWEST + 2:04d}_more." in outcome.out
    (copy,) = store.backups()
    assert copy in outcome.out
    again = engram("upgrade")
    assert (again.code, again.err) == (0, "")
    assert "is up to date" in again.out
    assert engram("upgrade", "--json").json["applied"] == []
    assert len(store.backups()) == 1


@pytest.mark.requirement("UPGRADE-2")
def test_of_several_at_once_one_upgrades_and_the_others_find_it_done(store: Store, extended: Extended) -> None:
    command = [sys.executable, "-c", UPGRADE, str(extended(ADD_COLOUR)), "--store", store.url, "upgrade", "--json"]
    crowd = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    said = [json.loads(process.communicate()[0]) for process in crowd]
    assert [process.returncode for process in crowd] == [0] * 4
    assert sorted(len(each["applied"]) for each in said) == [0, 0, 0, 1]
    assert {each["schema"] for each in said} == {NEWEST + 1}
    assert len(store.backups()) == 1


@pytest.mark.requirement("STORE-22", "MCP-7")
def test_an_mcp_server_that_is_overtaken_tells_its_client_in_one_line(sqlite_url: str, extended: Extended) -> None:
    host = Host(lambda: Engram(sqlite_url))
    try:
        connection = Connection()
        first = host.call(connection, "sitrep", {"summary": "Working"})
        assert first is not None
        assert not first.failed
        Store(sqlite_url).migrate(extended(ADD_COLOUR))
        answer = host.call(connection, "sitrep", {})
        assert answer is not None
        assert answer.failed
        assert f"has schema {NEWEST + 1}, but this Engram knows only schemas up to {NEWEST}" in answer.text
        assert "\n" not in answer.text.strip()
        assert "Traceback" not in answer.text
    finally:
        host.close()


@pytest.mark.requirement("STORE-21", "MCP-7")
def test_an_mcp_server_goes_on_with_a_store_that_was_replaced(sqlite_url: str, tmp_path: Path) -> None:
    with Engram(str(tmp_path / "other.db")) as other:
        other.world.set("the second store")
    host = Host(lambda: Engram(sqlite_url))
    try:
        connection = Connection()
        host.call(connection, "sitrep", {"summary": "Working"})
        for helper in ("", "-wal", "-shm"):
            os.unlink(f"{sqlite_url}{helper}")
        lost = host.call(connection, "sitrep", {})
        assert lost is not None
        assert lost.failed
        assert "does not exist any more" in lost.text
        os.rename(tmp_path / "other.db", sqlite_url)
        found = host.call(connection, "sitrep", {"summary": "Working on"})
        assert found is not None
        assert not found.failed
        assert "the second store" in found.text
    finally:
        host.close()


#: Copies the store before a migration, and is killed in the middle of it.
KILLED = f"""{LATER}
import os
from engram import Engram
from engram.storage import backup
def die(done, total):
    os.kill(os.getpid(), 9)
backup._PORTION = 1
from engram.client import upgrade
from engram.config import load
upgrade(load(url=sys.argv[1]), progress=die)
"""


@pytest.mark.requirement("MIGRATE-6")
def test_a_copy_that_was_killed_half_way_goes_with_the_next_one(sqlite_url: str, extended: Extended) -> None:
    with Engram(sqlite_url) as eng:
        eng.world.set("x" * 50_000)
    folder = extended(ADD_COLOUR)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(folder), sqlite_url], check=False)
    assert killed.returncode == -signal.SIGKILL
    path = Path(sqlite_url)
    (partial,) = path.parent.glob("engram.db.before-*.partial")
    # What a version before this one left: under the final name, but with its journal.
    early = path.with_name("engram.db.before-0002-20260101t000000000000")
    early.touch()
    early.with_name(f"{early.name}-journal").touch()
    with Engram(sqlite_url) as eng:
        assert partial.name in eng._view.engine.backups("2999-01-01T00:00:00.000000Z")
    Store(sqlite_url).migrate(folder)
    (copy,) = [name for name in os.listdir(path.parent) if "before" in name]
    assert not copy.endswith((".partial", "-journal"))
    assert copy != early.name


@pytest.mark.requirement("MIGRATE-6")
def test_a_copy_that_fails_leaves_nothing(sqlite_url: str, extended: Extended, monkeypatch: pytest.MonkeyPatch) -> None:
    with Engram(sqlite_url) as eng:
        eng.world.set("here")

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(backup, "sync", fail)
    with pytest.raises(KeyboardInterrupt):
        Store(sqlite_url).migrate(extended(ADD_COLOUR))
    assert os.listdir(os.path.dirname(sqlite_url)) == ["engram.db"]


@pytest.mark.requirement("MIGRATE-6")
def test_a_store_that_does_not_fit_twice_on_its_disk_is_not_migrated(
    sqlite_url: str, extended: Extended, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Engram(sqlite_url) as eng:
        eng.world.set("here")
    monkeypatch.setattr(backup, "_MARGIN", 1 << 60)
    with pytest.raises(StoreFull, match="MB free; nothing was changed"):
        Store(sqlite_url).migrate(extended(ADD_COLOUR))
    assert os.listdir(os.path.dirname(sqlite_url)) == ["engram.db"]
    assert Store(sqlite_url).applied()[-1] == NEWEST


@pytest.mark.requirement("MIGRATE-6")
def test_the_newest_three_copies_stay(store: Store, extended: Extended) -> None:
    columns = [f"ALTER TABLE blocks ADD COLUMN extra{number} TEXT;\n" for number in range(5)]
    for count in range(1, 6):
        store.migrate(extended(*columns[:count]))
    numbers = [name.replace("-", "_").split("before_")[1][:4] for name in store.backups()]
    assert numbers == [f"{NEWEST + number:04d}" for number in (3, 4, 5)]


@pytest.mark.requirement("MIGRATE-6", "MIGRATE-3")
def test_a_copy_is_whole_and_in_one_file(sqlite_url: str, extended: Extended) -> None:
    with Engram(sqlite_url) as eng:
        eng.world.set("x" * 50_000)
    Store(sqlite_url).migrate(extended(ADD_COLOUR))
    (name,) = Store(sqlite_url).backups()
    copy = Path(sqlite_url).with_name(name)
    assert copy.read_bytes()[18:20] == b"\x01\x01", "no log beside it"
    connection = apsw.Connection(str(copy), flags=apsw.SQLITE_OPEN_READONLY)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
