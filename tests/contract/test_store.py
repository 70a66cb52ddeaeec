"""The store itself: opening it, sharing it between threads, forks and workspaces, and running out of room."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from engram import (
    BlockNotFound,
    Engram,
    EngramError,
    InvalidInput,
    InvalidURL,
    LeaseNotFound,
    NoRecipient,
    NotAStore,
    SessionNotFound,
    StoreFull,
    StoreUnavailable,
)
from engram.config import load
from engram.storage.postgres import PostgresEngine
from engram.storage.postgres_transaction import PostgresTransaction
from engram.storage.sqlite import SqliteEngine
from tests.conftest import ShiftedClock, directly

OpenStore = Callable[..., Engram]

may_fork = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def everything(eng: Engram) -> tuple[object, ...]:
    """All that a failed operation must leave as it was."""
    sessions = eng.sessions.list()
    logs = [eng.sessions.logs(session.id, limit=0) for session in sessions]
    return sessions, logs, eng.leases.list(), eng.blocks.list(), eng.changes(limit=100_000)


def contents(eng: Engram, sid: str) -> list[str]:
    return [entry.content for entry in reversed(eng.sessions.logs(sid, limit=0))]


@pytest.mark.requirement("STORE-1")
@pytest.mark.parametrize("url", ["{path}", "sqlite:///{path}", "e.db", "sqlite:///e.db", "sub/folder/e.db"])
def test_a_path_opens_sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.chdir(tmp_path)
    with Engram(url.format(path=tmp_path / "e.db")) as eng:
        sid = eng.sessions.register("codex", "Working")
        assert isinstance(eng._view.engine, SqliteEngine)
    path = tmp_path / "sub" / "folder" / "e.db" if "sub" in url else tmp_path / "e.db"
    with Engram(str(path)) as eng:
        assert eng.sessions.get(sid).summary == "Working"


@pytest.mark.requirement("STORE-1")
@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_a_postgresql_url_opens_postgresql(postgres_url: str, scheme: str) -> None:
    with Engram(postgres_url.replace("postgresql", scheme, 1)) as eng:
        assert isinstance(eng._view.engine, PostgresEngine)
        sid = eng.sessions.register("codex", "Working")
    with Engram(postgres_url) as eng:
        assert eng.sessions.get(sid).summary == "Working"


@pytest.mark.requirement("STORE-1")
def test_without_a_url_it_is_the_users_own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGRAM_DATA_DIR", str(tmp_path / "data"))
    with Engram() as eng:
        eng.world.set("mine")
    with Engram(str(tmp_path / "data" / "engram.db")) as eng:
        assert eng.world.get() == "mine"


@pytest.mark.requirement("STORE-1")
def test_a_url_may_name_a_schema_and_pass_options_to_the_server(postgres_url: str) -> None:
    url = f"{directly(postgres_url)}&application_name=a%20b%2Bc&options=-c%20work_mem%3D8MB"
    with Engram(url) as eng, eng._view.engine.read() as tx:
        assert tx.one("SELECT current_setting('work_mem'), current_schema") == (
            "8MB",
            postgres_url.rpartition("=")[2],
        )
        assert tx.one("SELECT current_setting('application_name')") == ("a b+c",)


@pytest.mark.requirement("STORE-2")
@pytest.mark.parametrize(
    "url",
    [
        "",
        "mysql://host/db",
        "ftp://host/db",
        "postgresq://host/db",
        "sqlite://e.db",
        "sqlite:///",
        "file:e.db",
        "a\x00b.db",
        "a\ud800.db",
        "postgresql://[half/db",
        "postgresql://host:port/db",
        "postgresql://host/db?nonsense=1",
        "postgresql://host/db?schema=a-b",
        "postgresql://host/db?schema=",
        f"postgresql://host/db?schema={'x' * 41}",
    ],
)
def test_a_wrong_url_is_refused_with_words_about_what_a_store_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidURL) as refused:
        Engram(url)
    assert any(word in str(refused.value) for word in ("path", "sqlite:///", "postgresql://", "schema"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.requirement("STORE-1")
def test_a_store_may_be_named_by_a_path_object(tmp_path: Path) -> None:
    with Engram(tmp_path / "engram.db") as eng:
        eng.world.set("mine")
    with Engram(str(tmp_path / "engram.db")) as eng:
        assert eng.world.get() == "mine"


@pytest.mark.requirement("STORE-1")
def test_a_trial_store_goes_when_it_is_closed() -> None:
    with Engram(":memory:") as eng, Engram(":memory:") as other:
        eng.world.set("mine")
        assert (eng.workspace("side").world.get(), other.world.get()) == ("", "")
        found: list[str] = []
        thread = threading.Thread(target=lambda: found.append(eng.world.get()))
        thread.start()
        thread.join()
        assert found == ["mine"]
        folder = Path(eng.settings.url).parent
        assert (folder / "engram.db").is_file() and folder.stat().st_mode & 0o777 == 0o700
    assert not folder.exists()
    eng.workspace("side").close()
    with pytest.raises(StoreUnavailable):
        eng.world.get()


@pytest.mark.requirement("STORE-1")
def test_a_trial_store_that_is_not_closed_goes_at_exit_and_not_with_a_forked_child() -> None:
    code = """
import os, sys
from engram import Engram
eng = Engram(":memory:")
eng.world.set("mine")
child = os.fork()
if child == 0:
    eng.close()
    sys.exit(0)
os.waitpid(child, 0)
assert eng.world.get() == "mine"
print(eng.settings.url)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("engram.db") and not Path(done.stdout.strip()).parent.exists()


@pytest.mark.requirement("STORE-2")
def test_the_setting_of_the_store_is_never_a_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGRAM_URL", ":memory:")
    with pytest.raises(InvalidURL, match="path of a file"):
        Engram()


@pytest.mark.requirement("STORE-3")
@pytest.mark.parametrize("missing", ["psycopg"])
def test_without_the_extra_postgresql_names_the_install_command(missing: str) -> None:
    code = (
        f"import sys; sys.modules[{missing!r}] = None; from engram import Engram; Engram('postgresql://localhost/db')"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith("engram.errors.MissingExtra")
    assert missing in last and "pip install 'engram-agents[postgres]'" in last


@pytest.fixture
def dead_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port: int = server.getsockname()[1]
        return port


@pytest.mark.requirement("STORE-4")
@pytest.mark.parametrize(
    "address",
    [
        "postgresql://agent:hunter2@127.0.0.1:{port}/db",
        "postgresql://agent:hunter2%40%2F@127.0.0.1:{port}/db",
        "postgresql://agent:#hunter2@127.0.0.1:{port}/db",
        "postgresql://agent:hunter2@x@127.0.0.1:{port}/db",
        "postgresql://agent@127.0.0.1:{port}/db?password=hunter2",
        "postgresql://agent@127.0.0.1:{port}/db?sslpassword=hunter2&connect_timeout=1",
    ],
)
def test_an_unreachable_server_is_named_without_its_password(dead_port: int, address: str) -> None:
    with pytest.raises(StoreUnavailable, match="Check that the server runs") as refused:
        Engram(address.format(port=dead_port))
    assert "127.0.0.1" in str(refused.value) and "hunter2" not in str(refused.value)


@pytest.mark.requirement("STORE-2", "STORE-4")
@pytest.mark.parametrize("scheme", ["postgresq", "postgresql+psycopg", "mysql"])
def test_a_misspelt_scheme_does_not_give_the_password_away(scheme: str) -> None:
    with pytest.raises(InvalidURL) as refused:
        Engram(f"{scheme}://agent:hunter2@127.0.0.1/db")
    assert "hunter2" not in str(refused.value)


@pytest.mark.requirement("STORE-4")
def test_a_store_goes_on_after_the_server_has_dropped_its_connections(postgres_url: str) -> None:
    import psycopg

    with Engram(postgres_url) as eng, Engram(directly(postgres_url)) as other:
        eng.world.set("before")
        with eng._view.engine.read() as tx:
            found = tx.one("SELECT pg_backend_pid()")
        assert found is not None
        with other._view.engine.write() as tx:
            tx.one("SELECT pg_terminate_backend(:pid)", pid=found[0])
        eng.world.set("after")
        assert eng.world.get() == "after"
        with pytest.raises(StoreUnavailable), eng._view.engine.write() as tx:
            tx.run("UPDATE blocks SET content = 'never'")
            found = tx.one("SELECT pg_backend_pid()")
            assert found is not None
            with other._view.engine.write() as killer:
                killer.one("SELECT pg_terminate_backend(:pid)", pid=found[0])
            with pytest.raises(psycopg.OperationalError):
                tx.one("SELECT pg_sleep(30)")
            tx.one("SELECT 1")
        assert eng.world.get() == "after"


@contextmanager
def full_disk(eng: Engram) -> Iterator[None]:
    """No room for a large log entry on the disk of the store."""
    engine = eng._view.engine
    if isinstance(engine, SqliteEngine):
        ((connection, _),) = engine._idle
        connection.pragma("max_page_count", connection.pragma("page_count"))
        yield
        connection.pragma("max_page_count", 1 << 30)
        return
    with engine.write() as tx:
        tx.run(
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " IF length(NEW.content) > 50000 THEN RAISE EXCEPTION 'No space left' USING ERRCODE = '53100'; END IF;"
            " RETURN NEW; END $$"
        )
        tx.run("CREATE TRIGGER full_disk BEFORE INSERT ON exchanges FOR EACH ROW EXECUTE FUNCTION full_disk()")
    yield
    with engine.write() as tx:
        tx.run("DROP TRIGGER full_disk ON exchanges")


LARGE = "x" * 200_000


@pytest.mark.requirement("STORE-8")
def test_on_a_full_disk_an_operation_leaves_nothing_and_the_store_goes_on(eng: Engram, clock: ShiftedClock) -> None:
    sid = eng.sessions.register("codex", "Working")
    eng.sessions.log(sid, "before")
    with full_disk(eng):
        before = everything(eng)
        clock.advance(60)
        for _ in range(3):
            with pytest.raises(StoreFull, match="Free some space"):
                eng.sessions.log(sid, LARGE)
        assert everything(eng) == before
    eng.sessions.log(sid, LARGE)
    assert contents(eng, sid) == ["before", LARGE]


@pytest.mark.requirement("STORE-8", "STORE-13")
def test_a_full_disk_undoes_the_whole_of_a_callers_transaction(eng: Engram) -> None:
    sid = eng.sessions.register("codex", "Working")
    with full_disk(eng):
        before = everything(eng)
        with pytest.raises(StoreFull), eng.write():
            eng.sessions.log(sid, "small")
            eng.sessions.log(sid, LARGE)
        assert everything(eng) == before
    eng.sessions.log(sid, "after")
    assert contents(eng, sid) == ["after"]


@pytest.mark.requirement("STORE-8", "STORE-14")
def test_a_full_disk_inside_a_callers_transaction_is_the_same_error_and_never_half_a_transaction(eng: Engram) -> None:
    sid = eng.sessions.register("codex", "Working")
    met: Exception | None = None
    with full_disk(eng):
        try:
            with eng.write():
                eng.sessions.log(sid, "one")
                try:
                    eng.sessions.log(sid, LARGE)
                except Exception as error:
                    met = error
                eng.sessions.log(sid, "two")
            expected = ["one", "two"]
        except EngramError:
            expected = []  # SQLite may have to give up the whole transaction; then nothing of it may remain
        assert contents(eng, sid) == expected
    assert isinstance(met, StoreFull)
    eng.sessions.log(sid, "after")
    assert contents(eng, sid) == [*expected, "after"]


@pytest.mark.requirement("STORE-11", "CONFIG-1")
def test_a_store_that_waits_for_nobody_works_while_nobody_else_writes(open_store: OpenStore) -> None:
    eng = open_store(busy_timeout=0)
    eng.world.set("here")
    assert eng.world.get() == "here"


@pytest.mark.requirement("STORE-11")
def test_many_threads_share_one_store(eng: Engram) -> None:
    ids = [eng.sessions.register("codex", f"Thread {number}") for number in range(8)]
    shared = eng.sessions.register("codex", "Everybody")
    together = threading.Barrier(8)

    def work(sid: str) -> None:
        together.wait()
        for number in range(25):
            eng.sessions.log(sid, str(number))
            eng.sessions.log(shared, f"{sid} {number}")
            assert len(eng.sessions.logs(sid, limit=1)) == 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, ids))
    assert all(contents(eng, sid) == [str(number) for number in range(25)] for sid in ids)
    assert sorted(contents(eng, shared)) == sorted(f"{sid} {number}" for sid in ids for number in range(25))
    assert [entry.seq for entry in eng.sessions.logs(shared, limit=0)] == list(range(200, 0, -1))


class Child:
    """A forked process at work; what it raises is printed, and its exit code is then 1."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                work()
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)

    def ends_well(self) -> bool:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]) == 0


@may_fork
@pytest.mark.requirement("STORE-11")
def test_parent_and_child_go_on_writing_after_a_fork(eng: Engram) -> None:
    sid = eng.sessions.register("codex", "Working")

    def write(who: str) -> None:
        for number in range(40):
            eng.sessions.log(sid, f"{who} {number}")

    children = [Child(lambda who=who: write(who)) for who in ("one", "two")]  # type: ignore[misc]
    write("parent")
    assert all([child.ends_well() for child in children])
    write("later")
    written = contents(eng, sid)
    assert len(written) == 160
    for who in ("one", "two", "parent", "later"):
        assert [entry for entry in written if entry.startswith(who)] == [f"{who} {number}" for number in range(40)]


@may_fork
@pytest.mark.requirement("STORE-11")
def test_what_a_child_writes_after_its_parent_has_closed_the_store_is_kept(open_store: OpenStore) -> None:
    eng = open_store()
    sid = eng.sessions.register("codex", "Working")
    written, closed = os.pipe(), os.pipe()

    def work() -> None:
        eng.sessions.log(sid, "while the parent is there")
        os.write(written[1], b"!")
        os.read(closed[0], 1)
        eng.sessions.log(sid, "after it closed the store")

    child = Child(work)
    os.read(written[0], 1)
    eng.close()
    os.write(closed[1], b"!")
    assert child.ends_well()
    for end in (*written, *closed):
        os.close(end)
    assert contents(open_store(), sid) == ["while the parent is there", "after it closed the store"]


@may_fork
@pytest.mark.requirement("STORE-11", "STORE-13")
@pytest.mark.parametrize("ending", ["exits", "closes the store", "raises", "leaves the block"])
def test_a_fork_inside_a_transaction_leaves_the_parents_transaction_intact(eng: Engram, ending: str) -> None:
    sid = eng.sessions.register("codex", "Working")
    pid = -1
    try:
        with eng.write():
            eng.sessions.log(sid, "before the fork")
            pid = os.fork()
            if pid == 0:
                if ending == "closes the store":
                    eng.close()
                if ending == "raises":
                    raise RuntimeError
                if ending != "leaves the block":
                    os._exit(0)
            else:
                os.waitpid(pid, 0)
                eng.sessions.log(sid, "after the fork")
    finally:
        if pid == 0:
            os._exit(0)
    assert contents(eng, sid) == ["before the fork", "after the fork"]
    eng.sessions.log(sid, "later")
    assert len(contents(eng, sid)) == 3


@may_fork
@pytest.mark.requirement("STORE-11", "STORE-12")
def test_a_child_that_closes_the_store_does_not_close_the_parents(eng: Engram) -> None:
    sid = eng.sessions.register("codex", "Working")
    with eng._view.engine.read() as tx:
        pid = tx.connection.info.backend_pid if isinstance(tx, PostgresTransaction) else None
    assert Child(eng.close).ends_well()
    eng.sessions.log(sid, "still there")
    assert contents(eng, sid) == ["still there"]
    with eng._view.engine.read() as tx:
        assert not isinstance(tx, PostgresTransaction) or tx.connection.info.backend_pid == pid


@pytest.mark.requirement("STORE-5")
def test_a_file_of_one_byte_is_no_empty_store(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("v")
    with pytest.raises(NotAStore, match="is not a database"):
        Engram(str(victim))
    assert victim.read_text() == "v"


@pytest.mark.requirement("STORE-12")
def test_fifty_open_and_close_cycles_leak_neither_descriptor_nor_thread(store_url: str, tmp_path: Path) -> None:
    (tmp_path / "foreign.db").write_text("not a database, but long enough to be looked at as one" * 20)

    def cycle() -> None:
        with Engram(store_url) as eng:
            eng.world.set("here")
            eng.sitrep()
        with pytest.raises(NotAStore):
            Engram(str(tmp_path / "foreign.db"))

    cycle()
    before = (sorted(os.listdir("/proc/self/fd")), threading.active_count())
    for _ in range(50):
        cycle()
    assert (sorted(os.listdir("/proc/self/fd")), threading.active_count()) == before


@pytest.mark.requirement("STORE-1")
def test_a_store_can_be_used_with_other_settings_on_the_same_connections(eng: Engram) -> None:
    eng.world.set("here")
    other = eng.with_settings(stale_after="5m", dream_consolidate="off")
    assert (other.settings.stale_after, other.settings.dream_consolidate) == (300.0, "off")
    assert other.settings.origins["stale_after"] == "argument"
    assert other.settings._replace(stale_after=1_800.0, dream_consolidate="propose", origins={}) == (
        eng.settings._replace(origins={})
    )
    assert other.workspace_name == eng.workspace_name
    assert other.world.get() == "here"
    with eng.write():  # the same connection: a write of another one would wait for this one
        other.world.set("there")
    assert eng.world.get() == "there"
    for wrong in ({"url": "elsewhere.db"}, {"workspace": "other"}, {"stale_after": "soon"}):
        with pytest.raises(InvalidInput):
            eng.with_settings(**wrong)
    with pytest.raises(TypeError, match="nonsense"):
        eng.with_settings(nonsense=1)


@pytest.mark.requirement("STORE-12")
def test_a_closed_store_says_so_and_can_be_closed_again(eng: Engram) -> None:
    view = eng.workspace("other")
    eng.close()
    eng.close()
    for attempt in (eng.sitrep, view.world.get, lambda: eng.sessions.register("codex", "Working")):
        with pytest.raises(StoreUnavailable, match="was closed"):
            attempt()


@pytest.mark.requirement("STORE-12")
def test_closing_while_a_transaction_is_under_way_lets_it_finish(open_store: OpenStore) -> None:
    eng = open_store()
    with eng.write():
        eng.world.set("finished")
        eng.close()
    assert open_store().world.get() == "finished"


SIBLINGS = ["foo", "foobar", "foo_bar", "foo-bar", "fo", "foo_", "0"]


@pytest.mark.requirement("STORE-16")
def test_no_call_shows_what_is_in_another_workspace(eng: Engram) -> None:
    ids = {}
    for name in SIBLINGS:
        view = eng.workspace(name)
        ids[name] = sid = view.sessions.register("codex", f"In {name}", external_id="same", project="same")
        view.sessions.log(sid, f"log of {name}")
        assert view.leases.claim(sid, "port:8080", f"note of {name}", exclusive=True).conflicts == ()
        view.sessions.complete(view.sessions.register("cursor", "Working"), f"Done in {name}")
        view.messages.send(None, "*", f"message in {name}")
        view.blocks.create("plan", f"plan of {name}")
        view.world.set(f"world of {name}")
    assert len(set(ids.values())) == len(SIBLINGS)
    for name in SIBLINGS:
        view, sid = eng.workspace(name), ids[name]
        (active,), (done,), (lease,), (holder,) = (
            view.sessions.active(),
            view.sessions.recent(),
            view.leases.list(),
            view.leases.check("port:8080"),
        )
        found = view.sessions.find("same")
        assert found is not None and found.id == active.id == lease.session_id == holder.session_id == sid
        assert (done.outcome, holder.note, view.world.get()) == (
            f"Done in {name}",
            f"note of {name}",
            f"world of {name}",
        )
        assert len(view.sessions.list()) == 2
        assert [message.text for message in view.messages.inbox(sid, peek=True)] == [f"message in {name}"]
        assert [block.content for block in view.blocks.list()] == [f"plan of {name}", f"world of {name}"]
        assert (view.sessions.stats().sessions, view.sessions.stats().logs, view.sessions.stats().leases) == (2, 1, 1)
        changed = {change.id for change in view.changes() if change.what == "session"}
        assert changed == {sid, done.id}
        report = view.sitrep(budget=None, session_id=sid)
        assert all((other in report) == (other == sid) for other in ids.values())
        assert f"In {name} (" in report and report.count("message in") == report.count("world of") == 1


@pytest.mark.requirement("STORE-16")
def test_no_call_changes_what_is_in_another_workspace(eng: Engram) -> None:
    foo, foobar = eng.workspace("foo"), eng.workspace("foobar")
    sid = foo.sessions.register("codex", "Working")
    mine = foobar.sessions.register("codex", "Working")
    token = foo.leases.claim(sid, "port:8080", exclusive=True).token
    foo.blocks.create("plan", "one")
    before = (everything(foo), everything(foobar))
    attempts: list[tuple[type[EngramError], Callable[[], object]]] = [
        (SessionNotFound, lambda: foobar.sessions.get(sid)),
        (SessionNotFound, lambda: foobar.sessions.heartbeat(sid)),
        (SessionNotFound, lambda: foobar.sessions.log(sid, "entry")),
        (SessionNotFound, lambda: foobar.sessions.complete(sid)),
        (SessionNotFound, lambda: foobar.sessions.logs(sid)),
        (SessionNotFound, lambda: foobar.sessions.register("codex", "Working", parent_id=sid)),
        (SessionNotFound, lambda: foobar.sitrep(session_id=sid)),
        (SessionNotFound, lambda: foobar.leases.claim(sid, "port:1")),
        (SessionNotFound, lambda: foobar.leases.release(sid, "port:8080")),
        (SessionNotFound, lambda: foobar.leases.release_all(sid)),
        (SessionNotFound, lambda: foobar.leases.list(sid)),
        (LeaseNotFound, lambda: foobar.leases.renew(token)),
        (LeaseNotFound, lambda: foobar.leases.verify(token)),
        (LeaseNotFound, lambda: foobar.leases.break_lease("port:8080", mine, "mine")),
        (SessionNotFound, lambda: foobar.messages.inbox(sid)),
        (SessionNotFound, lambda: foobar.messages.send(sid, mine, "hello")),
        (NoRecipient, lambda: foobar.messages.send(mine, sid, "hello")),
        (NoRecipient, lambda: foobar.messages.send(mine, "port:8080", "hello")),
        (BlockNotFound, lambda: foobar.blocks.update("plan", "two")),
        (BlockNotFound, lambda: foobar.blocks.history("plan")),
        (BlockNotFound, lambda: foobar.blocks.delete("plan")),
    ]
    for error, attempt in attempts:
        with pytest.raises(error):
            attempt()
    assert (everything(foo), everything(foobar)) == before


@pytest.mark.requirement("STORE-16")
@pytest.mark.parametrize(
    "name", ["", " ", "Foo", "-foo", "_foo", "foo bar", "foo/bar", "fóo", "foo%", "x" * 65, "foo\n", None, 5]
)
def test_a_workspace_has_a_name_of_plain_letters(eng: Engram, store_url: str, name: Any) -> None:
    with pytest.raises(InvalidInput, match="workspace"):
        eng.workspace(name)
    if name is not None:
        with pytest.raises(InvalidInput, match="workspace"):
            load(url=store_url, workspace=name)


@pytest.mark.requirement("STORE-16")
@pytest.mark.parametrize("name", ["a", "0", "foo-bar_0", "x" * 64])
def test_a_workspace_may_be_named_like_this(eng: Engram, name: str) -> None:
    view = eng.workspace(name)
    view.world.set("here")
    assert (view.workspace_name, view.world.get(), eng.world.get()) == (name, "here", "")


@pytest.mark.requirement("STORE-18")
@pytest.mark.parametrize(("setting", "synchronous"), [("normal", 1), ("full", 2)])
def test_every_connection_has_the_promised_pragmas(sqlite_url: str, setting: str, synchronous: int) -> None:
    with Engram(settings=load(url=sqlite_url, synchronous=setting, busy_timeout=0.5)) as eng:
        engine = eng._view.engine
        inside, ready = threading.Barrier(4), []

        def look(_: int) -> None:
            with engine.read() as tx:
                assert isinstance(engine, SqliteEngine)
                inside.wait()
                connection = tx.connection  # type: ignore[attr-defined]
                names = ("journal_mode", "synchronous", "busy_timeout", "foreign_keys", "secure_delete")
                ready.append([connection.pragma(name) for name in names])

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(look, range(4)))
        assert ready == [["wal", synchronous, 500, 1, 1]] * 4
    with Engram(settings=load(url=sqlite_url)) as eng:
        assert isinstance(eng._view.engine, SqliteEngine)
        assert eng._view.engine._idle[0].connection.pragma("busy_timeout") == 30_000


@pytest.mark.requirement("STORE-11")
def test_a_transaction_that_could_not_begin_writes_nothing_later(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Engram(postgres_url) as eng:
        begin_with, calls = PostgresEngine.begin_with, iter([False])

        def failing_once(self: PostgresEngine, *arguments: Any) -> Any:
            if not next(calls, True):
                raise psycopg.OperationalError("the server is away")
            return begin_with(self, *arguments)

        with pytest.raises(StoreUnavailable), eng._view.engine.write():
            monkeypatch.setattr(PostgresEngine, "begin_with", failing_once)
            with pytest.raises(StoreUnavailable):
                eng.blocks.create("first")
            eng.blocks.create("second")
        assert eng.blocks.list() == []
        eng.blocks.create("third")
        assert [block.name for block in eng.blocks.list()] == ["third"]
