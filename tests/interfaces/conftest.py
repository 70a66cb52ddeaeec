"""Running the command line as a person, a script or an agent would."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx
import pytest

from engram import Engram as Store
from engram.interfaces.cli import run
from tests._running import Running, serving
from tests._schemas import url as schema_url

if TYPE_CHECKING:
    from tests.interfaces._hook_server import Listener


class Outcome(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


#: Run one command on the test's store, in this process.
Engram = Callable[..., Outcome]


@pytest.fixture
def engram(store_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Engram:
    """`engram("session", "list")`; `session=` sets ENGRAM_SESSION for that call. The store exists and is empty."""
    Store(store_url).close()

    def call(*arguments: str, session: str | None = None) -> Outcome:
        capsys.readouterr()
        with monkeypatch.context() as patch:
            if session:
                patch.setenv("ENGRAM_SESSION", session)
            code = run(["--store", store_url, *arguments])
        out, err = capsys.readouterr()
        return Outcome(code, out, err)

    return call


def program() -> str:
    """The installed command."""
    return str(Path(sys.executable).parent / "engram")


def in_terminal(*arguments: str, environment: dict[str, str] | None = None) -> tuple[int, str]:
    """Run the installed command on a terminal of its own; its exit code and everything the screen showed."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [program(), *arguments],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**os.environ, "TERM": "xterm-256color", **(environment or {})},
        close_fds=True,
    )
    os.close(slave)
    shown = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:  # Linux says so when the other side has closed
            break
        if not piece:
            break
        shown += piece
    os.close(master)
    return process.wait(timeout=30), shown.decode().replace("\r\n", "\n")


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A running HTTP server on each engine in turn. The tests of a module share it; each uses workspaces of its own."""
    if request.param == "sqlite":
        with Store(tmp_path_factory.mktemp("served") / "engram.db", embedder="static") as eng, serving(eng) as running:
            yield running
        return
    schemas = request.getfixturevalue("postgres_schemas")
    schema = schemas.take()
    url = schema_url(request.getfixturevalue("postgres_server"), schema)
    with Store(url, embedder="static") as eng, serving(eng) as running:
        yield running
    schemas.give_back(schema)


@pytest.fixture(scope="module")
def admin(server: Running) -> Iterator[httpx.Client]:
    """A client with the token of an administrator."""
    with server.client() as client:
        yield client


@pytest.fixture(scope="session")
def listener() -> Iterator[Listener]:
    """An HTTP server on loopback, without an application yet."""
    from tests.interfaces._hook_server import Listener

    listening = Listener()
    yield listening
    listening.close()
