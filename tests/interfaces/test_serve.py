"""`engram serve` as a process: its start, its workers, its end, and what must not leak from it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import ssl
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from engram import Conflict
from engram import Engram as Store
from engram.interfaces.http.serving import listen
from engram.interfaces.recall_socket import client as recall_client
from tests._alive import is_running
from tests._certificates import certified
from tests._waiting import until

from .conftest import Engram, program

PATIENCE = 60.0


class Served(NamedTuple):
    """A process that serves a store."""

    process: subprocess.Popen[str]
    url: str
    token: str
    #: What it printed at the start.
    started: dict[str, Any]
    errors: Path

    def client(self, **options: Any) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.token}"}
        # Reading the certificates of the system takes 17 ms, and only the test of TLS needs any.
        options = {"verify": False, **options}
        return httpx.Client(base_url=self.url, headers=headers, timeout=PATIENCE, trust_env=False, **options)

    def log(self) -> str:
        return self.errors.read_text()


@contextmanager
def serve(store: str, folder: Path, *arguments: str, **environment: str) -> Iterator[Served]:
    """`engram serve` on a free port. It is ended at the end of the block, if it still runs."""
    errors = folder / "log"
    variables = {**os.environ, "ENGRAM_URL": store, "ENGRAM_DATA_DIR": str(folder / "data"), **environment}
    with errors.open("w") as log:
        process = subprocess.Popen(
            [program(), "serve", "--json", "--port", "0", *arguments],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=variables,
            cwd=folder,
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, errors.read_text()
        started = json.loads(line)
        path = next((folder / "data").glob("admin*.token"))
        served = Served(process, started["url"], path.read_text().strip(), started, errors)
        until(lambda: answers(served))
        yield served
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)
        process.stdout.close()


def answers(served: Served) -> bool:
    assert served.process.poll() is None, served.log()
    try:
        with httpx.Client(verify=False, trust_env=False) as client:
            return client.get(f"{served.url}/health").status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.requirement("SERVER-21")
def test_the_first_start_makes_one_token_in_a_private_file_and_a_link(new_sqlite_url: str, tmp_path: Path) -> None:
    with serve(new_sqlite_url, tmp_path) as served:
        path = Path(served.started["admin_token_file"])
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert served.token.startswith("engram_")
        assert served.token not in json.dumps(served.started)
        assert re.fullmatch(rf"{re.escape(served.url)}/login\?code=engraml_\w+[\w-]+", served.started["login"])
        with served.client() as client:
            assert client.get("/api/v1/sitrep").status_code == 200
    with serve(new_sqlite_url, tmp_path) as again:
        assert "login" not in again.started
        assert again.token == served.token
    with Store(new_sqlite_url) as eng:
        assert [(token.name, token.scope) for token in eng.access.tokens.list()] == [("admin", "admin")]


@pytest.mark.requirement("SERVER-20")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--host", "0.0.0.0"], "can be reached by other machines, and nothing would be encrypted"),
        (["--host", "192.0.2.1"], "can be reached by other machines"),
        (["--host", "::"], "can be reached by other machines"),
        (["--host", "0.0.0.0", "--behind-proxy"], "Say with --public-url which one clients use"),
        (["--tls-cert", "{file}"], "--tls-cert and --tls-key belong together"),
        (["--public-url", "ftp://host"], "The public URL is"),
        (["--public-url", "https://host/path"], "The public URL is"),
        (["--public-url", "https://user@host"], "The public URL is"),
        (["--public-url", "https://host:port"], "The public URL is"),
    ],
)
def test_a_start_that_would_show_tokens_to_others_is_refused(
    engram: Engram, tmp_path: Path, arguments: list[str], said: str
) -> None:
    file = tmp_path / "file"
    file.touch()
    refused = engram("serve", "--port", "0", *(each.format(file=file) for each in arguments))
    assert refused.code == 2
    assert said in " ".join(refused.err.split())


@pytest.mark.requirement("SERVER-20")
def test_a_port_is_taken_as_soon_as_the_server_has_it() -> None:
    # Between this and the first request it opens the store, which takes seconds on a busy machine.
    first = listen("127.0.0.1", 0)
    with first.socket, pytest.raises(Conflict, match="Another server may be running there"):
        listen("127.0.0.1", first.port)


@pytest.mark.requirement("SERVER-20")
def test_a_port_that_is_taken_is_named(engram: Engram) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = engram("serve", "--port", str(port))
    assert refused.code == 4
    assert f"127.0.0.1:{port} cannot be used" in refused.err
    assert "--port" in refused.err


@pytest.mark.requirement("SERVER-20")
def test_a_blank_token_setting_stops_the_start(engram: Engram, monkeypatch: pytest.MonkeyPatch) -> None:
    for blank in ("", "   "):
        monkeypatch.setenv("ENGRAM_TOKEN", blank)
        refused = engram("serve", "--port", "0")
        assert refused.code == 2
        assert "ENGRAM_TOKEN is blank" in refused.err


@pytest.mark.requirement("SERVER-20")
def test_another_server_is_no_store(engram: Engram, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = engram("serve", "--port", "0", "--store", "http://127.0.0.1:1")
    assert refused.code == 2
    assert "another server" in refused.err


@pytest.mark.requirement("SERVER-22")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order_and_no_acknowledged_write_is_lost(
    sqlite_url: str, tmp_path: Path, number: signal.Signals
) -> None:
    with serve(sqlite_url, tmp_path) as served:
        with served.client() as client:
            session = client.post("/api/v1/session/register", json={"type": "codex", "summary": "x"}).json()
            id = session["result"]["id"]
        told: list[str] = []
        refused: list[Exception] = []
        begun = threading.Barrier(10)

        def write(writer: int) -> None:
            with served.client() as client:
                for each in range(10_000):
                    text = f"{writer}/{each}"
                    try:
                        answer = client.post("/api/v1/session/log", json={"session": id, "text": text})
                    except httpx.TransportError as error:
                        refused.append(error)
                        return
                    assert answer.status_code == 200, answer.text
                    told.append(text)
                    if each == 3:
                        begun.wait(PATIENCE)

        def follow() -> bool:
            with served.client() as client, client.stream("GET", "/api/v1/events") as stream:
                begun.wait(PATIENCE)
                # Ends without an error if the stream is ended, and not cut off.
                return len(list(stream.iter_lines())) > 1

        with ThreadPoolExecutor(9) as pool:
            writers = [pool.submit(write, writer) for writer in range(8)]
            listener = pool.submit(follow)
            begun.wait(PATIENCE)
            at = time.monotonic()
            served.process.send_signal(number)
            assert served.process.wait(PATIENCE) == 0, served.log()
            assert time.monotonic() - at < 15
            for writer in writers:
                writer.result()
            # The stream was ended, not cut off.
            assert listener.result()
    assert len(refused) == 8
    with Store(sqlite_url) as eng:
        logged = {entry.content for entry in eng.sessions.logs(id, 0)}
    assert set(told) <= logged
    assert len(logged) - len(told) <= 8


@pytest.mark.requirement("SERVER-23")
def test_several_workers_serve_one_store(store_url: str, tmp_path: Path) -> None:
    with serve(store_url, tmp_path, "--workers", "2") as served:
        with served.client() as client:
            session = client.post("/api/v1/session/register", json={"type": "codex", "summary": "x"}).json()
            id = session["result"]["id"]
        answering: set[str] = set()

        def both_answer() -> bool:
            with served.client() as client:
                answering.add(client.get("/health").headers["x-request-id"].partition("-")[0])
            return len(answering) == 2

        until(both_answer)

        def write(writer: int) -> set[str]:
            workers = set()
            for each in range(10):
                # A new connection each time may reach another worker.
                with served.client() as client:
                    body = {"session": id, "text": f"{writer}/{each}"}
                    key = {"Idempotency-Key": f"{writer}/{each}"}
                    first = client.post("/api/v1/session/log", json=body, headers=key)
                with served.client() as client:
                    second = client.post("/api/v1/session/log", json=body, headers=key)
                assert (first.status_code, first.text) == (200, second.text), second.text
                workers |= {answer.headers["x-request-id"].partition("-")[0] for answer in (first, second)}
            return workers

        with ThreadPoolExecutor(6) as pool:
            workers = set().union(*pool.map(write, range(6)))
        assert len(workers) == 2
        with served.client() as client:
            line = 'engram_requests_total{method="POST",route="/api/v1/session/log",status="200"} 120.0'
            assert line in client.get("/metrics").text
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(PATIENCE) == 0, served.log()
    with Store(store_url) as eng:
        assert len(eng.sessions.logs(id, 0)) == 60


@pytest.mark.requirement("SERVER-23")
def test_a_worker_that_dies_is_replaced(sqlite_url: str, tmp_path: Path) -> None:
    with serve(sqlite_url, tmp_path, "--workers", "2") as served:
        first = children(served.process.pid)
        assert len(first) == 2
        os.kill(first[0], signal.SIGKILL)
        until(lambda: len(set(children(served.process.pid)) - {first[0]}) == 2)
        with served.client() as client:
            assert client.get("/api/v1/stats").status_code == 200


@pytest.mark.requirement("SERVER-23")
def test_workers_end_with_their_parent(sqlite_url: str, tmp_path: Path) -> None:
    with serve(sqlite_url, tmp_path, "--workers", "2") as served:
        workers = children(served.process.pid)
        served.process.kill()
        until(lambda: not any(map(is_running, workers)))


def children(parent: int) -> list[int]:
    """The workers of a process."""
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                status = (each / "stat").read_text()
                command = (each / "cmdline").read_bytes()
            except OSError:
                continue
            if status.rpartition(")")[2].split()[1] == str(parent) and b"spawn_main" in command:
                found.append(int(each.name))
    return sorted(found)


@pytest.mark.requirement("SERVER-23")
def test_workers_that_cannot_start_end_the_command(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    program_text = """
import sys
from engram.config import load
from engram.interfaces.http.options import Options
from engram.interfaces.http.serving import listen, serve
settings = load(url=sys.argv[1])
try:
    serve(settings, Options(), listen("127.0.0.1", 0), workers=2)
except Exception as error:
    print(type(error).__name__)
"""
    done = subprocess.run(
        [sys.executable, "-c", program_text, str(file / "engram.db")],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    assert done.stdout.strip() == "EngramError", done.stderr


@pytest.mark.requirement("SERVER-31")
def test_it_serves_over_tls(sqlite_url: str, tmp_path: Path) -> None:
    certificate, key = certified(tmp_path)
    with serve(sqlite_url, tmp_path, "--tls-cert", str(certificate), "--tls-key", str(key)) as served:
        assert served.url.startswith("https://127.0.0.1:")
        context = ssl.create_default_context(cafile=str(certificate))
        with served.client(verify=context) as client:
            assert client.get("/api/v1/sitrep").status_code == 200


@pytest.mark.requirement("SERVER-19")
def test_a_token_and_the_store_s_password_appear_nowhere(store_url: str, tmp_path: Path) -> None:
    # PostgreSQL on a Unix socket trusts its user, whatever the password.
    url = re.sub(r"//postgres(:[^@]*)?@", "//postgres:canary-password@", store_url)
    with serve(url, tmp_path, "--workers", "2") as served:
        shown: list[object] = [served.started]
        with served.client() as client:
            for path in ("/health", "/ready", "/metrics", "/api/v1/stats", "/api/v1/openapi.json", "/no/such/path"):
                answer = client.get(path)
                shown += [answer.text, str(answer.headers)]
            wrong = client.get("/api/v1/session/show", params={"id": served.token})
            shown.append(str(wrong.headers))
            client.post("/api/v1/remember", content=served.token.encode())
        for process in (served.process.pid, *children(served.process.pid)):
            shown.append(Path(f"/proc/{process}/cmdline").read_text())
    shown.append(served.log())
    assert served.token not in repr(shown)
    assert "canary-password" not in repr(shown)


@pytest.mark.requirement("SERVER-19")
def test_what_holds_a_secret_does_not_show_it() -> None:
    from engram.config import load
    from engram.interfaces.http.guard import Caller
    from engram.interfaces.http.options import Options
    from engram.interfaces.http.serving import Worker

    secret = f"engram_0123456789ab_{'x' * 43}"
    settings = load(url="postgresql://me:canary-password@127.0.0.1/db", token=secret)
    caller = Caller(None, secret, {b"authorization": f"Bearer {secret}".encode()})  # type: ignore[arg-type]
    for thing in (Worker(settings, Options()), caller, settings, Options()):
        assert "canary-password" not in repr(thing)
        assert secret not in repr(thing)


@pytest.mark.requirement("SERVER-24")
def test_it_embeds_what_others_left_in_every_workspace_and_offers_its_model(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(sqlite_url, embedder="static") as eng:
        for name in ("one", "two"):
            view = eng.workspace(name)
            session = view.sessions.register("codex", "x")
            view.exchanges.add(session, "user", "I never deploy on Fridays", embed=False)
            assert view.embedding_queue.size() == 1
        monkeypatch.setenv("ENGRAM_DATA_DIR", str(tmp_path / "data"))
        with serve(sqlite_url, tmp_path, ENGRAM_EMBEDDER="static"):
            until(lambda: all(eng.workspace(name).embedding_queue.size() == 0 for name in ("one", "two")))
            with Store(sqlite_url, embedder="static", workspace="one") as asking:
                until(lambda: recall_client.recall(asking, "deploy", within=5.0) is not None)


@pytest.mark.requirement("SERVER-21")
def test_each_start_says_how_a_browser_is_logged_in(new_sqlite_url: str, tmp_path: Path) -> None:
    variables = {**os.environ, "ENGRAM_URL": new_sqlite_url, "ENGRAM_DATA_DIR": str(tmp_path / "data")}
    for told in ("/login?code=", "To log a browser in, type in another terminal: engram open\n"):
        with subprocess.Popen(
            [program(), "serve", "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=variables,
        ) as process:
            assert process.stdout is not None
            shown = "".join(iter(process.stdout.readline, "Ctrl-C ends it.\n"))
            process.kill()
            process.wait(PATIENCE)
        assert told in shown
