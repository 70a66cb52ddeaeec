"""Two servers on one store, one killed under load: its clients go on with the other, and nothing is lost or doubled."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from engram import Engram
from tests.stress._processes import PATIENCE, scaled

CLIENTS = 4
KILLS = scaled(2, 20)
ENTRIES_BETWEEN_KILLS = scaled(25, 100)

Start = Callable[[int], "subprocess.Popen[bytes]"]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


@pytest.fixture
def start(postgres_url: str) -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def start_server(port: int) -> subprocess.Popen[bytes]:
        environ = {**os.environ, "ENGRAM_URL": postgres_url, "ENGRAM_AUTO_DREAM": "off"}
        command = [sys.executable, "-m", "engram", "serve", "--port", str(port)]
        started.append(subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        return started[-1]

    yield start_server
    for server in started:
        server.kill()
        server.wait(PATIENCE)


class Writer(threading.Thread):
    """A client that logs one entry after the other. It knows which ones were acknowledged."""

    def __init__(self, url: str, token: str, number: int) -> None:
        super().__init__()
        self._eng = Engram(url, token=token)
        self.session = self._eng.sessions.register("stress", f"Writer {number}")
        self.acknowledged: list[str] = []
        self.error: Exception | None = None
        self.ended = threading.Event()

    def run(self) -> None:
        try:
            while not self.ended.is_set():
                entry = f"entry {len(self.acknowledged)}"
                self._eng.sessions.log(self.session, entry)
                self.acknowledged.append(entry)
        except Exception as error:
            self.error = error
        finally:
            self._eng.close()

    def wait_for(self, count: int) -> None:
        """Until so many entries are acknowledged."""
        while len(self.acknowledged) < count and self.is_alive():
            self.join(0.01)


@pytest.mark.requirement("REMOTE-12")
def test_a_server_that_is_killed_under_load_costs_no_write_and_doubles_none(postgres_url: str, start: Start) -> None:
    with Engram(postgres_url) as store:
        token = store.access.tokens.create("stress", "write").secret
        ports = [free_port(), free_port()]
        servers = [start(port) for port in ports]
        url = "http://" + ",".join(f"127.0.0.1:{port}" for port in ports)
        writers = [Writer(url, token, number) for number in range(CLIENTS)]
        for writer in writers:
            writer.start()
        for kill in range(KILLS):
            for writer in writers:
                writer.wait_for((kill + 1) * ENTRIES_BETWEEN_KILLS)
            at = kill % 2
            servers[at].send_signal(signal.SIGKILL)
            servers[at].wait(PATIENCE)
            servers[at] = start(ports[at])
        for writer in writers:
            writer.wait_for((KILLS + 1) * ENTRIES_BETWEEN_KILLS)
        for writer in writers:
            writer.ended.set()
        for writer in writers:
            writer.join(PATIENCE)
            assert writer.error is None
            logged = [entry.content for entry in reversed(store.sessions.logs(writer.session, 0))]
            assert logged == writer.acknowledged
            assert len(logged) >= (KILLS + 1) * ENTRIES_BETWEEN_KILLS
