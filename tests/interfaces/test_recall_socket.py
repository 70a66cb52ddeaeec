"""The recall socket: who serves it, who may ask, what comes back, and what happens when nothing does."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from engram import Engram as Store
from engram.access_records import Grant
from engram.config import load
from engram.interfaces import background
from engram.interfaces.hooks import respond
from engram.interfaces.mcp.host import Host
from engram.interfaces.recall_socket import client, peer, place, protocol
from engram.interfaces.recall_socket import server as serving
from engram.interfaces.recall_socket.answering import Answering
from engram.interfaces.recall_socket.server import RecallServer
from engram.lock_file import Lock
from engram.records import Hit, plain

from .conftest import Engram, program

#: Long enough for a busy machine. No test waits so long unless it fails.
PATIENT = 30.0
#: Another user, if the tests may change to one.
OTHER_USER = 65_534


@pytest.fixture
def served(eng: Store) -> Iterator[RecallServer]:
    """A process that serves the socket of the test's store."""
    with serve(eng) as server:
        yield server


@contextmanager
def serve(eng: Store) -> Iterator[RecallServer]:
    server = RecallServer(eng)
    try:
        assert server.take()
        yield server
    finally:
        server.close()


def ask(eng: Store, query: str = "when can we deploy?", within: float = PATIENT, **options: Any) -> list[Hit] | None:
    return client.ask(eng.settings, eng.workspace_name, query, 5, within, **options)


def texts(hits: list[Hit] | None) -> list[str]:
    assert hits is not None, "no server answered"
    return [hit.text for hit in hits]


def path_of(eng: Store) -> str:
    path = place.make(eng.settings)
    assert path is not None
    return path


def prompt(text: str) -> str:
    """What a prompt hook injects."""
    payload = {"session_id": "s1", "cwd": os.getcwd(), "hook_event_name": "UserPromptSubmit", "prompt": text}
    answer = respond("claude-code", json.dumps(payload).encode())
    return str(json.loads(answer)["hookSpecificOutput"]["additionalContext"]) if answer else ""


class Impostor:
    """A server that does with each connection what a test wants. It keeps what it received."""

    def __init__(self, path: str, behave: Callable[[socket.socket], None]) -> None:
        self.received: list[bytes] = []
        self._behave = behave
        self._listener = serving._listener(path)
        self._listener.setblocking(True)
        self._path = path
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            with connection:
                request = connection.recv(1 << 16)
                self.received.append(request)
                if request == b"stop":
                    return
                with suppress(OSError):
                    self._behave(connection)

    def close(self) -> None:
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(self._path)
            last.sendall(b"stop")
        self._thread.join(PATIENT)
        self._listener.close()
        os.unlink(self._path)


@pytest.fixture
def impostor(eng: Store) -> Iterator[Callable[[Callable[[socket.socket], None]], Impostor]]:
    begun: list[Impostor] = []

    def begin(behave: Callable[[socket.socket], None]) -> Impostor:
        begun.append(Impostor(path_of(eng), behave))
        return begun[-1]

    yield begin
    for each in begun:
        each.close()


def answering(message: object) -> Callable[[socket.socket], None]:
    return lambda connection: connection.sendall(protocol.framed(json.dumps(message).encode()))


def silent(connection: socket.socket) -> None:
    """Says nothing until the client gives up."""
    connection.recv(1)


def stopping(connection: socket.socket) -> None:
    connection.sendall(b"\x01\x00")
    silent(connection)


def canned(eng: Store, text: str) -> dict[str, object]:
    """A hit of the store's one memory, with another text, as only a server could send it."""
    (hit,) = eng.recall("Fridays", note=False)
    why = {**hit.why, "share": 1.0, "telling": 3.0, "matched": ["deploys", "fridays"]}
    sent = plain(hit._replace(text=text, whole=text, score=0.99, why=why))
    assert isinstance(sent, dict)
    return sent


@pytest.mark.requirement("SOCKET-1")
def test_the_server_finds_exactly_what_the_process_itself_would_find(eng: Store, served: RecallServer) -> None:
    me, other = eng.sessions.register("codex", "Planning"), eng.sessions.register("codex", "Shipping")
    eng.exchanges.add(me, "user", "When do we deploy the shop?")
    eng.exchanges.add(me, "assistant", "The shop is deployed on Mondays.")
    eng.exchanges.add(other, "user", "Deploy the shop now")
    eng.remember("Deploys of the shop never happen on Fridays", kind="preference", tags=["deploy"])
    eng.remember("The cat is called Ada")
    for options in (
        {},
        {"rerank": "never", "exclude_session": other, "prefer_project": "shop"},
        {"rerank": "always", "neighbours": 1},
        {"mode": "vectors", "kinds": ["preference"], "what": ["memories"], "tags": ["deploy"]},
        {"session_id": me, "roles": ["user"], "budget": 50, "min_score": 0.01, "since": "2020-01-01"},
    ):
        by_server = client.recall(eng, "when is the shop deployed?", 5, within=PATIENT, note=False, **options)
        own = eng.recall("when is the shop deployed?", 5, note=False, **options)
        assert own and by_server is not None
        assert [hit._replace(age=0) for hit in by_server] == [hit._replace(age=0) for hit in own]
    assert any(hit.answer for hit in eng.recall("when is the shop deployed?"))


@pytest.mark.requirement("SOCKET-1")
def test_a_memory_counts_as_recalled_once_and_only_by_the_client(eng: Store, served: RecallServer) -> None:
    memory = eng.remember("Deploys never happen on Fridays")
    assert ask(eng, note=True)
    assert eng.memories.get(memory.id).recalled == 0
    assert client.recall(eng, "when can we deploy?", within=PATIENT)
    assert eng.memories.get(memory.id).recalled == 1


@pytest.mark.requirement("SOCKET-1")
def test_every_workspace_of_the_store_is_answered_and_none_sees_another(eng: Store, served: RecallServer) -> None:
    eng.remember("Deploys never happen on Fridays")
    other = eng.workspace("other")
    other.remember("Deploys happen every day")
    # Its vectors are not in the server's memory yet, so the first answer is a refusal.
    assert ask(other) is None
    assert texts(wait_for_answer(other)) == ["Deploys happen every day"]
    assert texts(ask(eng)) == ["Deploys never happen on Fridays"]


@pytest.mark.requirement("SOCKET-8", "ACCESS-7")
def test_a_request_is_answered_only_within_the_grant(eng: Store) -> None:
    def asked(answering: Answering, workspace: str) -> object:
        request = {"workspace": workspace, "embedder": eng.settings.embedder, "query": "deploys", "k": 1, "options": {}}
        return protocol.decoded(answering.answer(protocol.encoded(request)).body).get("refused")

    eng.remember("Deploys never happen on Fridays")
    owner = Answering(eng)
    owner.prepare()
    team = Answering(eng, Grant("laptop", "read", "team", "0123456789ab", None))
    team.prepare()
    assert asked(owner, "default") is None
    assert asked(team, "default") == protocol.FORBIDDEN
    assert asked(team, "team") != protocol.FORBIDDEN
    assert asked(Answering(eng, Grant("laptop", "", None, "0123456789ab", None)), "default") == protocol.FORBIDDEN


@pytest.mark.requirement("SOCKET-1", "HOOK-2")
def test_a_prompt_hook_shows_what_the_server_found(
    eng: Store, impostor: Callable[..., Impostor], store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGRAM_URL", store_url)
    eng.remember("Deploys never happen on Fridays")
    asked = impostor(answering({"hits": [canned(eng, "Deploys on Fridays, says the server")]}))
    assert "Deploys on Fridays, says the server" in prompt("Do deploys happen on Fridays?")
    (request,) = asked.received
    message = json.loads(request[protocol.HEADER :])
    session = eng.sessions.find("s1", "claude-code")
    assert session is not None
    assert (request[0], message["query"]) == (protocol.VERSION, "Do deploys happen on Fridays?")
    assert (message["options"]["rerank"], message["options"]["exclude_session"]) == ("never", session.id)


@pytest.mark.requirement("SOCKET-1", "CLI-1")
def test_recall_on_the_command_line_asks_the_server_unless_words_are_enough(
    engram: Engram, eng: Store, impostor: Callable[..., Impostor]
) -> None:
    memory = eng.remember("Deploys never happen on Fridays")
    asked = impostor(answering({"hits": [canned(eng, "Deploys on Fridays, says the server")]}))
    (hit,) = engram("recall", "Fridays", "--rerank", "always", "--kind", "note", "--json").json
    assert hit["text"] == "Deploys on Fridays, says the server"
    options = json.loads(asked.received[0][protocol.HEADER :])["options"]
    assert (options["rerank"], options["kinds"], options["what"]) == ("always", ["note"], ["memories"])
    assert eng.memories.get(memory.id).recalled == 1
    (hit,) = engram("recall", "Fridays", "--mode", "words", "--json").json
    assert (hit["text"], len(asked.received)) == ("Deploys never happen on Fridays", 1)


@pytest.mark.requirement("SOCKET-1")
@pytest.mark.parametrize("arguments", [["--session", "nobody"], ["--since", "someday"], ["--role", "nobody"]])
def test_a_wrong_option_is_the_same_error_with_a_server(
    engram: Engram, served: RecallServer, arguments: list[str]
) -> None:
    with_server = engram("recall", "Fridays", *arguments)
    served.close()
    assert engram("recall", "Fridays", *arguments) == with_server
    assert with_server.code in (2, 3)


GARBAGE: dict[str, Callable[[socket.socket], None]] = {
    "closes at once": lambda connection: None,
    "says nothing": silent,
    "sends garbage": lambda connection: connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n"),
    "has another version": lambda connection: connection.sendall(bytes([protocol.VERSION + 1, 0, 0, 0, 0])),
    "sends half a header": lambda connection: connection.sendall(b"\x01\x00"),
    "sends half an answer": lambda connection: connection.sendall(protocol.framed(b'{"hits": []}')[:-3]),
    "stops in the middle": stopping,
    "announces too much": lambda connection: connection.sendall(b"\x01\xff\xff\xff\xff"),
    "sends no text": lambda connection: connection.sendall(protocol.framed(b"\xff\xfe")),
    "sends a deep answer": lambda connection: connection.sendall(protocol.framed(b"[" * 100_000)),
    "sends no object": answering([]),
    "sends no hits": answering({}),
    "sends other hits": answering({"hits": [{"text": "x"}]}),
    "sends wrong types": answering({"hits": [dict.fromkeys(Hit._fields, 1)]}),
    "refuses": answering({"refused": protocol.BUSY}),
    "says too little": answering({"hits": {}}),
}


@pytest.mark.requirement("SOCKET-2", "HOOK-2")
@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("behave", GARBAGE.values(), ids=GARBAGE.keys())
def test_a_hook_goes_by_words_if_the_server_does_not_answer_well(
    behave: Callable[[socket.socket], None],
    eng: Store,
    impostor: Callable[..., Impostor],
    store_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ENGRAM_URL", store_url)
    eng.remember("Deploys never happen on Fridays")
    asked = impostor(behave)
    assert "Deploys never happen on Fridays" in prompt("Do deploys happen on Fridays?")
    assert len(asked.received) == 1


@pytest.mark.requirement("SOCKET-2", "HOOK-2")
@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("state", ["stale", "no socket", "full", "stopped"])
def test_a_hook_goes_by_words_if_nobody_takes_its_call(
    state: str, eng: Store, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGRAM_URL", store_url)
    eng.remember("Deploys never happen on Fridays")
    path = path_of(eng)
    waiting: list[socket.socket] = []
    if state == "no socket":
        Path(path).write_text("something else")
    else:
        # A listener that never accepts. Its queue is full, or has room for the hook.
        waiting.append(serving._listener(path))
        waiting[0].listen(0)
        for _ in range(50 if state == "full" else 0):
            waiting.append(socket.socket(socket.AF_UNIX))
            waiting[-1].setblocking(False)
            try:
                waiting[-1].connect(path)
            except BlockingIOError:
                break
        else:
            assert state != "full"
        if state == "stale":
            waiting[0].close()
    assert "Deploys never happen on Fridays" in prompt("Do deploys happen on Fridays?")
    for each in waiting:
        each.close()


@pytest.mark.requirement("SOCKET-5")
def test_a_model_that_is_being_loaded_is_a_refusal_at_once(eng: Store, served: RecallServer) -> None:
    eng.remember("Deploys never happen on Fridays")
    eng.embedding_queue.warm_later()
    assert raw(eng, request(eng)) == {"refused": protocol.LOADING}
    eng.embedding_queue.warm()
    assert texts(ask(eng)) == ["Deploys never happen on Fridays"]


def request(eng: Store, **changed: object) -> bytes:
    asked = {"workspace": eng.workspace_name, "embedder": "static", "query": "deploys", "k": 5, "options": {}}
    return protocol.framed(json.dumps({**asked, **changed}).encode())


def raw(eng: Store, data: bytes) -> Any:
    """What a server answers to these bytes; None if it closes without a word."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENT)
        connection.connect(path_of(eng))
        with suppress(BrokenPipeError):
            connection.sendall(data)
        received = b""
        with suppress(ConnectionResetError):
            while piece := connection.recv(1 << 16):
                received += piece
    if not received:
        return None
    assert received[0] == protocol.VERSION
    assert len(received) == protocol.HEADER + int.from_bytes(received[1:5], "big")
    return json.loads(received[5:]) if received[5:] else {}


@pytest.mark.requirement("SOCKET-5")
def test_the_server_refuses_what_is_no_request_and_stays(eng: Store, served: RecallServer) -> None:
    eng.remember("Deploys never happen on Fridays")
    for data, answer in {
        b"GET / HTTP/1.1\r\n\r\n": {},  # another version: the server says its own
        bytes([protocol.VERSION + 1, 0, 0, 0, 2]) + b"{}": {},
        bytes([protocol.VERSION]) + (protocol.MAX_REQUEST + 1).to_bytes(4, "big"): {"refused": protocol.TOO_LARGE},
        bytes([protocol.VERSION]) + b"\xff" * 200_000: {"refused": protocol.TOO_LARGE},
        protocol.framed(b"nonsense"): {"refused": protocol.MALFORMED},
        protocol.framed(b"[" * 100_000): {"refused": protocol.MALFORMED},
        protocol.framed(b'{"forget": 1}'): {"refused": protocol.MALFORMED},
        request(eng, workspace="../etc"): {"refused": protocol.MALFORMED},
        request(eng, workspace=7): {"refused": protocol.MALFORMED},
        request(eng, options=[]): {"refused": protocol.MALFORMED},
        request(eng, options={"weights": {}}): {"refused": protocol.MALFORMED},
        request(eng, embedder="minilm"): {"refused": protocol.OTHER_EMBEDDER},
        request(eng, k=0): {"refused": protocol.FAILED},
        request(eng, k="many"): {"refused": protocol.FAILED},
        request(eng, query=["deploys"]): {"refused": protocol.FAILED},
        request(eng, options={"what": 5}): {"refused": protocol.FAILED},
        request(eng, options={"query": "x"}): {"refused": protocol.FAILED},
        request(eng, options={"forget": True}): {"refused": protocol.FAILED},
    }.items():
        assert raw(eng, data) == answer, data[:60]
    assert texts(ask(eng)) == ["Deploys never happen on Fridays"]


@contextmanager
def half_requests(eng: Store, count: int) -> Iterator[None]:
    """Connections that have sent a part of a request, and send no more."""
    with ExitStack() as connections:
        for _ in range(count):
            half = connections.enter_context(socket.socket(socket.AF_UNIX))
            half.settimeout(PATIENT)
            half.connect(path_of(eng))
            half.sendall(b"\x01\x00")
        yield


@pytest.mark.requirement("SOCKET-5")
def test_half_a_request_keeps_nobody_waiting(eng: Store, served: RecallServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "REQUEST_WITHIN", PATIENT)
    eng.remember("Deploys never happen on Fridays")
    with half_requests(eng, serving.MOST_CONNECTIONS - 1):
        assert texts(ask(eng)) == ["Deploys never happen on Fridays"]


@pytest.mark.requirement("SOCKET-5")
def test_one_connection_too_many_is_refused_until_another_ends(
    eng: Store, served: RecallServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine must not close the first connections before the last one is made.
    monkeypatch.setattr(serving, "REQUEST_WITHIN", PATIENT)
    eng.remember("Deploys never happen on Fridays")
    with half_requests(eng, serving.MOST_CONNECTIONS):
        # The kernel keeps the order of connections, so this one is the first that is too many.
        assert raw(eng, b"") == {"refused": protocol.BUSY}
    assert texts(ask(eng)) == ["Deploys never happen on Fridays"]


@pytest.mark.requirement("SOCKET-5")
@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_request_that_stays_incomplete_is_closed(
    eng: Store, served: RecallServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "REQUEST_WITHIN", 0.02)
    with socket.socket(socket.AF_UNIX) as half:
        half.settimeout(PATIENT)
        half.connect(path_of(eng))
        half.sendall(b"\x01\x00")
        with suppress(ConnectionResetError):
            assert half.recv(1) == b""
    assert ask(eng) is not None


@pytest.mark.requirement("SOCKET-5")
def test_an_answer_that_is_too_long_is_refused_and_the_client_recalls_by_itself(
    engram: Engram, eng: Store, served: RecallServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    eng.remember("Deploys never happen on Fridays")
    monkeypatch.setattr(protocol, "MAX_ANSWER", 100)
    assert raw(eng, request(eng)) == {"refused": protocol.TOO_LARGE}
    assert [hit["text"] for hit in engram("recall", "Fridays", "--json").json] == ["Deploys never happen on Fridays"]
    assert ask(eng, "x" * protocol.MAX_REQUEST) is None


AS_OTHER_USER = """
import os, socket, sys
os.chdir(sys.argv[1])
connection = socket.socket(socket.AF_UNIX)
if sys.argv[3] == "serves":
    connection.bind(sys.argv[2])
os.setuid(int(sys.argv[4]))
if sys.argv[3] == "serves":
    connection.listen()
    print("ready", flush=True)
    connection, _ = connection.accept()
else:
    connection.connect(sys.argv[2])
try:
    if sys.argv[3] == "asks":
        connection.sendall(bytes.fromhex(sys.argv[5]))
    received = connection.recv(1000)
except (BrokenPipeError, ConnectionResetError):
    received = b""
print("received", len(received), flush=True)
"""


def other_user(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", AS_OTHER_USER, *arguments], stdout=subprocess.PIPE, text=True)


@contextmanager
def counts_as_other_user(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The id of another user. If the tests may not change to one, the kernel's word is replaced."""
    if os.geteuid() == 0:
        yield str(OTHER_USER)
    else:
        with monkeypatch.context() as patch:
            patch.setattr(peer, "_uid", lambda connection: OTHER_USER)
            yield str(os.geteuid())


@pytest.mark.requirement("SOCKET-3")
@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_server_of_another_user_receives_no_byte(eng: Store, store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGRAM_URL", store_url)
    eng.remember("Deploys never happen on Fridays")
    folder, name = os.path.split(path_of(eng))
    with counts_as_other_user(monkeypatch) as uid, other_user(folder, name, "serves", uid) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert "Deploys never happen on Fridays" in prompt("Do deploys happen on Fridays?")
        assert process.stdout.readline() == "received 0\n"


@pytest.mark.requirement("SOCKET-3")
@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_client_of_another_user_receives_no_byte(
    eng: Store, served: RecallServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, name = os.path.split(path_of(eng))
    sent = request(eng)
    # Normally such a process does not even get here.
    os.chmod(folder, 0o711)
    os.chmod(os.path.join(folder, name), 0o666)
    with counts_as_other_user(monkeypatch) as uid, other_user(folder, name, "asks", uid, sent.hex()) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "received 0\n"


@pytest.mark.requirement("SOCKET-3")
def test_the_socket_is_private_in_a_private_folder(eng: Store, served: RecallServer) -> None:
    path = Path(path_of(eng))
    modes = [each.stat().st_mode & 0o777 for each in (path.parent, path, Path(f"{path}.lock"))]
    assert modes == [0o700, 0o600, 0o600]


@pytest.mark.requirement("SOCKET-3")
@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("flaw", ["readable by others", "a link", "a file", "another user's"])
def test_a_folder_that_is_not_the_user_s_alone_is_not_used(flaw: str, eng: Store, tmp_path: Path) -> None:
    path = Path(path_of(eng))
    folder = path.parent
    if flaw == "readable by others":
        folder.chmod(0o750)
    elif flaw == "another user's" and os.geteuid() == 0:
        os.chown(folder, OTHER_USER, -1)
    else:
        folder.rmdir()
        if flaw == "a file":
            folder.write_text("")
        else:
            # Without the right to give a folder away, a link to somebody else's stands for it.
            target = tmp_path / "elsewhere"
            target.mkdir(0o700)
            folder.symlink_to(target if flaw == "a link" else "/")
    server = RecallServer(eng)
    assert not server.take()
    server.close()
    assert (place.find(eng.settings), place.make(eng.settings), path.exists()) == (None, None, False)
    assert ask(eng) is None


@pytest.mark.requirement("SOCKET-3")
@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_the_user_s_runtime_folder_is_used_if_it_is_private(eng: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(prefix="engram-") as runtime:
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        assert os.path.dirname(path_of(eng)) == f"{runtime}/engram"
        with serve(eng):
            assert ask(eng) is not None
        os.chmod(runtime, 0o755)
        assert os.path.dirname(path_of(eng)) == os.path.join(eng.settings.data_dir, "sockets")


SERVER = """
import sys
from engram import Engram
from engram.interfaces.recall_socket.server import RecallServer
with Engram() as eng:
    print(RecallServer(eng).take(), flush=True)
    sys.stdin.read()
"""


@pytest.mark.requirement("SOCKET-4", "SOCKET-2")
def test_another_process_takes_over_when_the_server_is_killed(
    eng: Store, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGRAM_URL", store_url)
    eng.remember("Deploys never happen on Fridays")
    command = [sys.executable, "-c", SERVER]
    server = RecallServer(eng)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"True\n"
        assert not server.take()
        assert texts(ask(eng)) == ["Deploys never happen on Fridays"]
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENT)
        # Its files are still there.
        assert os.path.exists(path_of(eng))
        assert ask(eng) is None
        assert "Deploys never happen on Fridays" in prompt("Do deploys happen on Fridays?")
    assert server.take()
    assert "Deploys never happen on Fridays" in texts(ask(eng))
    server.close()
    assert os.listdir(os.path.dirname(path_of(eng))) == []
    assert not server.take()


@pytest.mark.requirement("SOCKET-4")
@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_server_begins_anew_when_its_files_or_its_store_were_replaced(eng: Store, served: RecallServer) -> None:
    path = path_of(eng)
    for gone in ([path], [f"{path}.lock"], [path, f"{path}.lock"]):
        for each in gone:
            os.unlink(each)
        assert served.take()
        assert ask(eng) is not None
    # The other server found the lock file gone, and serves now. The first one leaves its files alone.
    os.unlink(f"{path}.lock")
    with serve(eng):
        assert not served.take()
        assert ask(eng) is not None
        served.close()
        assert ask(eng) is not None
    copy = f"{eng.settings.url}.copy"
    Path(copy).write_bytes(b"")
    os.replace(copy, eng.settings.url)
    assert place.find(eng.settings) != path


@pytest.mark.requirement("SOCKET-4")
def test_a_lock_file_that_its_holder_has_just_deleted_is_not_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "lock")
    holders = [Lock.take(path)]
    flock = fcntl.flock

    def end_before(descriptor: int, operation: int) -> None:
        if holders:
            holder = holders.pop()
            assert holder is not None
            holder.release()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", end_before)
    lock = Lock.take(path)
    assert lock is not None
    assert lock.is_in_place()
    assert Lock.take(path) is None
    lock.release()
    assert os.listdir(tmp_path) == []


@pytest.mark.requirement("SOCKET-4")
@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_serving_again_and_again_leaks_no_descriptor_and_no_thread(eng: Store) -> None:
    def cycle() -> tuple[list[str], int]:
        with serve(eng):
            assert ask(eng) is not None
        return sorted(os.listdir("/proc/self/fd")), threading.active_count()

    before = cycle()
    assert [cycle() for _ in range(20)][-1] == before


@pytest.mark.requirement("SOCKET-4")
@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_forked_child_keeps_neither_the_lock_nor_the_socket(eng: Store) -> None:
    code = (
        "import os, signal, sys\nfrom engram import Engram\n"
        "from engram.interfaces.recall_socket.server import RecallServer\n"
        "eng = Engram(sys.argv[1])\nassert RecallServer(eng).take()\n"
        "reading, writing = os.pipe()\n"
        "if os.fork() == 0:\n    os.write(writing, b'.')\n    sys.stdin.read()\n    os._exit(0)\n"
        # The child has let go of what it inherited before its `fork` returns.
        "os.read(reading, 1)\n"
        "print('forked', flush=True)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", code, eng.settings.url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"forked\n"
        process.wait(PATIENT)
        # The child is still there.
        with serve(eng):
            assert ask(eng) is not None


@pytest.mark.requirement("SOCKET-6")
@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_two_stores_have_two_sockets(eng: Store, tmp_path: Path) -> None:
    eng.remember("Deploys never happen on Fridays")
    with Store(str(tmp_path / "other.db")) as other:
        other.remember("Deploys happen every day")
        with serve(eng):
            assert ask(other) is None
            with serve(other):
                assert texts(ask(other)) == ["Deploys happen every day"]
                assert texts(ask(eng)) == ["Deploys never happen on Fridays"]


@pytest.mark.requirement("SOCKET-6")
def test_a_postgres_store_is_named_by_its_place_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "postgresql://ada:{}@db.example.org:5432/memory?schema=team&sslmode=require"
    name = place.identity(url.format("one"))
    assert name == place.identity(url.format("two"))
    assert name == place.identity(url.format("one").replace("&sslmode=require", ""))
    for part, other in {"db.": "db2.", "5432": "5433", "memory": "notes", "team": "crew", "ada": "eve"}.items():
        assert name != place.identity(url.format("one").replace(part, other))
    # libpq takes what the URL does not say from the environment.
    name = place.identity("postgresql:///memory")
    monkeypatch.setenv("PGHOST", "elsewhere")
    assert name != place.identity("postgresql:///memory")
    assert name is not None
    assert len(name) == 24


@pytest.mark.requirement("SOCKET-6")
def test_long_paths_and_links_lead_to_the_same_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    (tmp_path / "link").symlink_to(deep)
    monkeypatch.setenv("ENGRAM_DATA_DIR", str(deep))
    with tempfile.TemporaryDirectory(prefix="engram-") as temporary:
        monkeypatch.setenv("TMPDIR", temporary)
        with Store() as eng, serve(eng):
            eng.remember("Deploys never happen on Fridays")
            assert os.path.dirname(path_of(eng)) == f"{temporary}/engram-{os.geteuid()}"
            monkeypatch.setenv("ENGRAM_URL", str(tmp_path / "link" / "engram.db"))
            assert texts(client.ask(load(), "default", "deploys", 5, PATIENT)) == ["Deploys never happen on Fridays"]
        # Not even the temporary folder is short enough.
        monkeypatch.setenv("TMPDIR", str(deep))
        assert place.make(load()) is None


@pytest.mark.requirement("SOCKET-7")
@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_the_socket_can_be_turned_off_on_either_side(
    open_store: Callable[..., Store], served: RecallServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for settings in ({"recall_socket": "off"}, {"embedder": "none"}):
        eng = open_store(**settings)
        assert ask(open_store()) is not None
        assert ask(eng) is None
        server = RecallServer(eng)
        assert not server.take()
        server.close()
    # A stranger's repository cannot turn it on or off.
    (tmp_path / ".engram.toml").write_text('recall_socket = "off"\n')
    monkeypatch.chdir(tmp_path)
    assert (load().recall_socket, len(load().notices)) == ("on", 1)


@pytest.mark.requirement("SOCKET-4")
def test_the_background_of_an_mcp_server_takes_over_when_another_one_ends(
    open_store: Callable[..., Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "BACKLOG_SOON", 0.01)
    monkeypatch.setattr(background, "BACKLOG_EVERY", 0.01)
    eng = open_store()
    first, second = Host(open_store), Host(open_store)
    first.work_in_background()
    wait_for_answer(eng)
    second.work_in_background()
    first.close()
    wait_for_answer(eng)
    second.close()
    assert ask(eng) is None


def wait_for_answer(eng: Store) -> list[Hit]:
    for _ in range(1_000):
        if (found := ask(eng)) is not None:
            return found
        sleep(0.02)
    raise AssertionError("no server answered")


@pytest.mark.requirement("SOCKET-1", "SOCKET-4")
@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_running_mcp_server_answers_and_leaves_no_file_behind(eng: Store) -> None:
    eng.remember("Deploys never happen on Fridays")
    command = [program(), "mcp", "--store", eng.settings.url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert texts(wait_for_answer(eng)) == ["Deploys never happen on Fridays"]
        process.terminate()
        assert process.wait(PATIENT) == 0
    assert os.listdir(os.path.dirname(path_of(eng))) == []
