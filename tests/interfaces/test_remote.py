"""`Engram("https://…")`: the facade over HTTP, against a real server on loopback."""

from __future__ import annotations

import inspect
import json
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from engram import (
    Engram,
    EngramError,
    Finding,
    Forbidden,
    InvalidInput,
    LeaseHeld,
    NotFound,
    NotRemote,
    SessionNotFound,
    StoreUnavailable,
    Unauthorized,
    VersionConflict,
)
from engram.config import load
from engram.interfaces.cli import cli
from engram.interfaces.mcp.connections import Connection
from engram.interfaces.mcp.host import Host
from engram.remote import wire
from engram.remote.calls import CALLS, SPECIAL
from tests._served import Served
from tests.conftest import ShiftedClock
from tests.interfaces._raw_server import raw_server
from tests.interfaces.test_one_request import certificate

GITHUB = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    first = Engram(str(tmp_path_factory.mktemp("first") / "engram.db"))
    served = Served(first)
    yield served
    served.close()
    first.close()


@pytest.fixture
def local(server: Served, tmp_path: Path) -> Iterator[Engram]:
    """The store, in the process that serves it."""
    with Engram(str(tmp_path / "store" / "engram.db")) as eng:
        server.use(eng)
        yield eng


Connect = Callable[..., Engram]


@pytest.fixture
def connect(server: Served, local: Engram) -> Iterator[Connect]:
    opened: list[Engram] = []

    def connect_with(scope: str = "admin", workspace: str | None = None, *, use: str | None = None) -> Engram:
        name = f"laptop {len(opened)}"
        secret = local.access.tokens.create(name, scope, workspace=workspace).secret
        opened.append(Engram(server.url, token=secret, workspace=use or workspace))
        return opened[-1]

    yield connect_with
    for eng in opened:
        eng.close()


@pytest.fixture
def eng(connect: Connect) -> Engram:
    return connect()


@pytest.mark.requirement("REMOTE-3")
def test_a_remote_facade_is_an_engram_and_returns_what_a_local_one_returns(eng: Engram, local: Engram) -> None:
    assert isinstance(eng, Engram)
    sid = eng.sessions.register("codex", "Porting the router", {"a": [1, None]}, project="shop")
    assert eng.sessions.get(sid) == local.sessions.get(sid)
    memory = eng.remember("Deploys never happen on Fridays", kind="preference", tags=["deploy"], session_id=sid)
    assert memory == local.memories.get(memory.id)
    assert memory.author == "laptop 0"
    assert eng.exchanges.get(eng.exchanges.add(sid, "user", "hello")) == local.exchanges.history(sid)[0]
    assert eng.changes(0) == local.changes(0)
    assert eng.changes.latest == local.changes.latest
    assert eng.sessions.stats() == local.sessions.stats()
    assert eng.world.set("As planned").version == 1
    assert eng.world.get() == "As planned"
    assert [hit.text for hit in eng.recall("when do we deploy?", 1)] == [memory.content]
    assert eng.brief(sid) == local.brief(sid)
    assert eng.briefing(sid) == local.briefing(sid) and eng.briefing(sid).lines
    (report,) = eng.dream(dry_run=True)
    assert report.dry_run
    assert eng.workspace("other").sessions.list() == []


@pytest.mark.requirement("REMOTE-3")
def test_errors_are_raised_as_the_classes_that_a_local_call_raises(eng: Engram) -> None:
    with pytest.raises(SessionNotFound, match="nobody"):
        eng.sessions.get("nobody")
    eng.world.set("one")
    with pytest.raises(VersionConflict) as conflict:
        eng.world.set("two", expected_version=7)
    assert (conflict.value.expected, conflict.value.current) == (7, 1)
    first, second = (eng.sessions.register("codex", "x") for _ in range(2))
    eng.leases.claim(first, "deploy", exclusive=True)
    with pytest.raises(LeaseHeld) as held:
        eng.leases.claim(second, "deploy", exclusive=True)
    assert [holder.session_id for holder in held.value.holders] == [first]
    with pytest.raises(TypeError):
        eng.sessions.log()  # type: ignore[call-arg]


@pytest.mark.requirement("REMOTE-4")
@pytest.mark.parametrize(
    "call",
    [
        lambda eng: eng.write().__enter__(),
        lambda eng: eng.scheduler(),
        lambda eng: eng.as_author("somebody"),
        lambda eng: eng.thinkers.list(),
        lambda eng: eng.thinkers.use("openai"),
        lambda eng: eng.embedders.use("openai"),
        lambda eng: eng.memories.prepare("x"),
        lambda eng: eng.access.answers.once("a", "b", "c", None, str),
        lambda eng: eng.access.logins.start(None),
        lambda eng: eng.lease_notices.tell(None, "x"),
        lambda eng: eng.injections.record("x", []),
    ],
)
def test_what_belongs_to_one_process_is_a_typed_error(eng: Engram, call: Callable[[Engram], object]) -> None:
    with pytest.raises(NotRemote):
        call(eng)


@pytest.mark.requirement("REMOTE-3", "DOCTOR-3")
def test_the_doctor_looks_at_the_servers_store(eng: Engram) -> None:
    findings = eng.doctor(all_workspaces=True, full=True)
    assert {type(each) for each in findings} == {Finding}
    assert {each.name for each in findings if each.state != "ok"} <= {"store.backups"}


@pytest.mark.requirement("REMOTE-4")
def test_no_client_chooses_a_model_for_the_server(eng: Engram) -> None:
    with pytest.raises(InvalidInput, match="the server's settings decide"):
        eng.reindex("openai:evil")
    assert eng.reindex() == 0


#: Public methods that a client has without a row: made of others, or about this process. All others need a row.
WITHOUT_ROW = {
    "sessions": set(),
    "leases": {"escape", "normalise", "hold", "line_up", "fence"},
    "messages": {"showing", "showing_person"},
    "blocks": {"missing", "derive"},
    "exchanges": {"prepare"},
    "memories": {"prepare", "lock", "mark_rebuilt", "reshelve"},
    "embedding_queue": {"embedder", "warm_later", "warm", "is_warm", "reasons", "vectors", "vectors_of", "index_words"},
    "harness_processes": {"confirm", "current", "of", "runs_elsewhere", "free_gone"},
    "transcripts": set(),
    "embedders": {"list", "better", "next_choice", "plan", "use"},
    "gists": {"unread", "mark_folded", "mark_unfolded", "covered"},
    "eras": set(),
    "imports": set(),
    "dreams": {"decide", "report_not_started"},
    "proposals": {"add", "add_rewrite", "last_rewrite", "find", "mark_applied", "reject_plan", "is_agreed", "plan"},
    "work": {"find", "leave", "drop", "require_answer", "finish"},
    "changes": {"wait", "everywhere"},
    "access.tokens": {"verify", "bearer"},
    "access.clients": {"register", "get", "has_secret"},
    "": {
        *("workspace", "from_elsewhere", "as_author", "project_of", "with_settings", "scheduler", "write", "close"),
        *("remember", "export", "load_export"),
    },
}


@pytest.mark.requirement("REMOTE-3")
@pytest.mark.parametrize("group", sorted(CALLS))
def test_every_method_of_the_library_has_a_row_or_a_reason(group: str, local: Engram) -> None:
    owner: Any = local
    for part in filter(None, group.split(".")):
        owner = getattr(owner, part)
    methods = {
        name
        for name, value in vars(type(owner)).items()
        if not name.startswith("_") and (callable(value) or isinstance(value, staticmethod))
    }
    names = {SPECIAL.get((group, method), method) for method in CALLS[group]}
    values = {name for name, value in vars(type(owner)).items() if isinstance(value, property)}
    assert methods - names == WITHOUT_ROW[group] - {"remember"}
    assert names - methods - values - {"__call__"} == set()


def passing_on(url: str, *, lose: int = 0) -> Callable[[socket.socket, bytes], None]:
    """Pass each request on to a server. The first `lose` answers do not reach the client."""
    port = int(url.rpartition(":")[2])
    lost = [0]

    def behave(connection: socket.socket, request: bytes) -> None:
        head, _, body = request.partition(b"\r\n\r\n")
        lines = [line for line in head.split(b"\r\n") if not line.lower().startswith((b"host:", b"connection:"))]
        sent = b"\r\n".join([*lines, b"Host: 127.0.0.1:%d" % port, b"Connection: close"]) + b"\r\n\r\n" + body
        with socket.create_connection(("127.0.0.1", port)) as through:
            through.sendall(sent)
            answer = b""
            while piece := through.recv(1 << 16):
                answer += piece
        if lost[0] < lose:
            lost[0] += 1
        else:
            connection.sendall(answer)

    return behave


@pytest.fixture
def secret(local: Engram) -> str:
    return local.access.tokens.create("watched", "admin").secret


@pytest.mark.requirement("REMOTE-5")
def test_one_call_is_one_request(server: Served, secret: str) -> None:
    with raw_server(passing_on(server.url)) as raw, Engram(raw.url, token=secret) as eng:
        sid = eng.sessions.register("codex", "x")
        eng.sessions.log(sid, "one")
        eng.recall("one", 1)
        eng.sitrep()
        eng.remember("two")
        eng.world.set("three")
        assert len(raw.received) == 6


@pytest.mark.requirement("REMOTE-6")
@pytest.mark.parametrize("lost", [1, 3])
def test_a_call_whose_answer_is_lost_is_repeated_and_done_once(server: Served, secret: str, lost: int) -> None:
    with raw_server(passing_on(server.url, lose=lost)) as raw, Engram(raw.url, token=secret, workspace="w") as eng:
        sid = eng.sessions.register("codex", "Only once")
        assert len(raw.received) == lost + 1
        assert [each.id for each in eng.sessions.list()] == [sid]


@pytest.mark.requirement("REMOTE-6")
def test_every_call_that_writes_carries_a_key_of_its_own(server: Served, secret: str) -> None:
    with raw_server(passing_on(server.url)) as raw, Engram(raw.url, token=secret) as eng:
        sid = eng.sessions.register("codex", "x")
        eng.sessions.log(sid, "same")
        eng.sessions.log(sid, "same")
        keys = {
            line for request in raw.received for line in request.split(b"\r\n") if line.startswith(b"Idempotency-Key")
        }
        assert len(keys) == 3
        assert len(eng.sessions.logs(sid)) == 2


@pytest.mark.requirement("REMOTE-7")
def test_the_next_server_answers_when_one_is_away(server: Served, secret: str, unused: int) -> None:
    port = server.url.rpartition(":")[2]
    with Engram(f"http://127.0.0.1:{unused},127.0.0.1:{port}", token=secret) as eng:
        assert eng.sessions.list() == []
        eng.sessions.register("codex", "x")


@pytest.fixture
def unused() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


@pytest.mark.requirement("REMOTE-7")
def test_a_server_that_is_away_is_a_clear_error_without_the_token(unused: int, clock: ShiftedClock) -> None:
    settings = load(url=f"http://127.0.0.1:{unused}", token="engram_canary")
    with (
        Engram(settings=settings, clock=clock) as eng,
        pytest.raises(StoreUnavailable, match=f"{unused} cannot be reached: connection refused") as away,
    ):
        eng.sitrep()
    assert "canary" not in f"{away.value!r} {eng!r} {eng._view!r} {eng._view.engine!r} {settings!r}"


@pytest.mark.requirement("REMOTE-7")
def test_a_certificate_that_nobody_known_signed_is_a_clear_error_with_what_helps(
    tmp_path: Path, clock: ShiftedClock
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate(tmp_path, "127.0.0.1"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def serve() -> None:
            with suppress(OSError):
                while True:
                    plain, _ = listener.accept()
                    with plain, suppress(OSError):
                        context.wrap_socket(plain, server_side=True).close()

        thread = threading.Thread(target=serve)
        thread.start()
        with (
            Engram(settings=load(url=f"https://127.0.0.1:{port}", token="engram_canary"), clock=clock) as eng,
            pytest.raises(StoreUnavailable, match=r"not valid: self.signed .* set SSL_CERT_FILE to the file"),
        ):
            eng.sitrep()
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def _answer(body: bytes, status: str = "200 OK", *headers: str) -> Callable[[socket.socket, bytes], None]:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return lambda connection, request: connection.sendall("\r\n".join(lines).encode() + body)


@pytest.mark.requirement("REMOTE-7")
@pytest.mark.parametrize(
    ("behave", "message"),
    [
        (_answer(b"<html>"), "cannot be read"),
        (_answer(b'{"result": {"$": "Evil", "fields": {}}}'), "cannot be read"),
        (_answer(b'{"result": {"$": "Session", "fields": {}}}'), "cannot be read"),
        (_answer(b"[" * 100_000), "cannot be read"),
        (_answer(b"", "302 Found", "Location: http://127.0.0.1:1/"), "cannot be read"),
        (_answer(b'{"error": 5}', "400 Bad Request"), "cannot be read"),
        (_answer(b"bad gateway", "502 Bad Gateway"), "status 502"),
        (lambda connection, request: connection.sendall(b"SSH-2.0-OpenSSH\r\n"), "not answer as a server"),
        (lambda connection, request: None, "closed the connection without an answer"),
    ],
)
def test_what_is_no_engram_is_a_clear_error(
    behave: Callable[[socket.socket, bytes], None], message: str, clock: ShiftedClock
) -> None:
    with (
        raw_server(behave) as raw,
        Engram(settings=load(url=raw.url, token="engram_canary"), clock=clock) as eng,
        pytest.raises(StoreUnavailable, match=message),
    ):
        eng.sessions.list()


@pytest.mark.requirement("REMOTE-2")
def test_without_a_token_nothing_is_sent(server: Served) -> None:
    with pytest.raises(Unauthorized, match="ENGRAM_TOKEN"):
        Engram(server.url)


@pytest.mark.requirement("REMOTE-2")
def test_a_revoked_token_opens_nothing(server: Served, local: Engram, eng: Engram) -> None:
    eng.sitrep()
    local.access.tokens.revoke("laptop 0")
    with pytest.raises(Unauthorized):
        eng.sitrep()


@pytest.mark.requirement("REMOTE-8")
def test_projects_and_resources_are_those_of_the_callers_machine(
    eng: Engram, local: Engram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "clone"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "config").write_text('[remote "origin"]\n\turl = https://example.org/acme/shop.git\n')
    (folder / "src").mkdir()
    monkeypatch.chdir(folder / "src")
    sid = eng.sessions.register("codex", "x")
    assert local.sessions.get(sid).project == "acme/shop"
    assert eng.remember("A fact without a session").project == "acme/shop"
    assert eng.leases.claim(sid, "router.py").resource == "acme/shop:src/router.py"
    assert [holder.session_id for holder in eng.leases.check("../src/router.py")] == [sid]
    other = eng.sessions.register("codex", "y")
    assert eng.messages.send(other, "router.py", "May I?").recipients == (sid,)
    assert eng.leases.release(sid, "./router.py").token == 1


@pytest.mark.requirement("REMOTE-8")
def test_a_path_that_another_machine_names_is_never_looked_up_on_the_server(
    server: Served, local: Engram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even if it exists here: the server's own folder says nothing about the caller's."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deploy").mkdir()
    elsewhere = local.from_elsewhere("acme/shop")
    sid = elsewhere.sessions.register("codex", "x")
    assert elsewhere.sessions.get(sid).project == "acme/shop"
    claims = {
        "deploy": "deploy",
        "src/a.py": "acme/shop:src/a.py",
        "*.md": "acme/shop:**/*.md",
        "./x/../y.py": "acme/shop:y.py",
        "/etc//hosts": "/etc/hosts",
        "/a/../b": "/b",
        "other:src/b.py": "other:src/b.py",
        "~/x": "~/x",
    }
    assert {given: elsewhere.leases.claim(sid, given).resource for given in claims} == claims
    nowhere = local.from_elsewhere()
    assert nowhere.sessions.get(nowhere.sessions.register("codex", "y")).project is None


@pytest.mark.requirement("REMOTE-8")
def test_secrets_are_taken_out_before_anything_is_sent(server: Served, secret: str) -> None:
    with raw_server(passing_on(server.url)) as raw, Engram(raw.url, token=secret) as eng:
        sid = eng.sessions.register("codex", f"Use {GITHUB}", {"env": [GITHUB]})
        eng.sessions.log(sid, f"export TOKEN={GITHUB}")
        eng.exchanges.add_many([{"session_id": sid, "role": "user", "content": f"It is {GITHUB}"}])
        eng.remember(f"The key is {GITHUB}", data={"password": "tr0ub4dor&3"})
        eng.recall(f"what is {GITHUB}?")
        sent = b"".join(raw.received)
        assert len(raw.received) == 5
    assert GITHUB.encode() not in sent
    assert b"tr0ub4dor" not in sent


@pytest.mark.requirement("REMOTE-8")
def test_a_name_with_a_secret_is_refused_as_it_is_locally(server: Served, secret: str) -> None:
    with raw_server(passing_on(server.url)) as raw, Engram(raw.url, token=secret) as eng:
        for wrong in (
            lambda: eng.blocks.create(GITHUB),
            lambda: eng.remember("x", kind=GITHUB),
            lambda: eng.remember("x", tags=["ok", GITHUB]),
            lambda: eng.blocks.rename({"a": GITHUB}),
        ):
            with pytest.raises(InvalidInput):
                wrong()
        assert raw.received == []


WRITES = [f"{group}.{name}".lstrip(".") for group in CALLS for name, scope in CALLS[group].items() if scope != "read"]
ALL = [f"{group}.{name}".lstrip(".") for group in CALLS for name in CALLS[group]]


@pytest.mark.requirement("REMOTE-9")
def test_a_read_token_writes_nothing_over_the_library(connect: Connect, local: Engram) -> None:
    reader = connect("read")
    before = local.changes.latest
    for name in WRITES:
        with pytest.raises(Forbidden):
            reader._view.engine.call("default", name, {})  # type: ignore[attr-defined]
    assert local.changes.latest == before
    assert reader.sessions.list() == []


@pytest.mark.requirement("REMOTE-9")
def test_a_write_token_neither_administers_nor_speaks_for_a_person(connect: Connect) -> None:
    writer = connect("write")
    memory = writer.remember("A fact")
    for refused in (
        lambda: writer.forget(memory=memory.id),
        lambda: writer.memories.approve(memory.id),
        lambda: writer.remember("Said by a person", by_person=True),
        lambda: writer.dream(),
        lambda: writer.access.tokens.list(),
        lambda: writer.access.tokens.create("more", "admin"),
    ):
        with pytest.raises(Forbidden):
            refused()
    assert [each.content for each in writer.memories.list()] == ["A fact"]


@pytest.mark.requirement("REMOTE-9")
def test_a_token_of_one_workspace_reaches_no_other(connect: Connect, local: Engram) -> None:
    local.workspace("theirs").remember("A secret of theirs")
    own = connect("admin", "ours")
    own.remember("Ours")
    theirs = own.workspace("theirs")
    for name in ALL:
        with pytest.raises(Forbidden):
            theirs._view.engine.call("theirs", name, {})  # type: ignore[attr-defined]
    assert [each.name for each in own.workspaces()] == ["ours"]
    own.require_workspace()
    for store_wide in (
        lambda: own.dream(all_workspaces=True),
        lambda: own.dream_if_due(all_workspaces=True),
        lambda: own.access.tokens.list(),
        lambda: own.access.tokens.create("everything", "admin"),
        lambda: own.access.clients.list(),
        lambda: own.sizes(),
        lambda: own.doctor(),
        lambda: own.doctor(fix=True),
    ):
        with pytest.raises(Forbidden):
            store_wide()


@pytest.mark.requirement("REMOTE-9")
def test_without_a_name_the_workspace_is_the_tokens_else_the_servers(server: Served, local: Engram) -> None:
    def connected(name: str, workspace: str | None) -> Engram:
        return Engram(server.url, token=local.access.tokens.create(name, "write", workspace=workspace).secret)

    with connected("alice", "alpha") as alice:
        memory = alice.remember("Deploys never happen on Fridays")
        assert alice.workspace_name == "alpha"
        assert local.workspace("alpha").memories.get(memory.id).content == memory.content
        # A name that is given is never replaced, not even the usual one.
        with pytest.raises(Forbidden, match="Name that one, or none"):
            alice.workspace("default").memories.list()
    with connected("bob", None) as bob:
        assert bob.workspace_name == local.workspace_name == bob.with_settings(embedder="none").workspace_name


@pytest.mark.requirement("REMOTE-9")
def test_an_admin_makes_and_revokes_tokens_over_the_network(eng: Engram, server: Served) -> None:
    made = eng.access.tokens.create("phone", "read")
    with Engram(server.url, token=made.secret) as phone:
        assert phone.sessions.list() == []
        eng.access.tokens.revoke("phone")
        with pytest.raises(Unauthorized):
            phone.sessions.list()


@pytest.mark.requirement("REMOTE-9")
@pytest.mark.parametrize("name", [".workspaces", ".now", "..now", "sessions..get", "sessions.__class__", "_view"])
def test_a_call_has_one_name(connect: Connect, name: str) -> None:
    """Another spelling must not pass the checks that go by name."""
    with pytest.raises(EngramError) as refused:
        connect()._view.engine.call("default", name, {})  # type: ignore[attr-defined]
    assert refused.value.code in ("not_found", "no_such_path")


@pytest.mark.requirement("REMOTE-9")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("recall", {"query": "x", "foo": 1}),
        ("recall", {"query": "x", "what": None}),
        ("sessions.list", {"before": 1}),
        ("exchanges.timeline", {"before": 1}),
        ("messages.acknowledge", {"session_id": "x", "shown": [1]}),
        ("blocks.rename", {"names": [1]}),
        ("memories.remember", {"content": "x", "tags": 5}),
        ("memories.remember", {"content": "x", "sources": [5]}),
        ("memories.sweep", {"limit": None}),
        ("harness_processes.note", {"session_id": "nosuch", "process": "p"}),
        ("exchanges.add_many", {"exchanges": [5]}),
        ("imports.write", {"batch": ["x"]}),
        ("blocks.append", {"name": "world", "content": "x", "expected_version": {1}}),
        ("context", {"session_id": "\ud800"}),
    ],
)
def test_a_value_of_a_wrong_type_is_a_typed_error_and_changes_nothing(
    eng: Engram, local: Engram, name: str, options: dict[str, object]
) -> None:
    local.world.set("x")
    before = local.changes.latest
    with pytest.raises((InvalidInput, NotFound)):
        eng._view.engine.call("default", name, options)  # type: ignore[attr-defined]
    assert local.changes.latest == before


@pytest.mark.requirement("REMOTE-9")
def test_names_of_records_that_are_sent_take_no_memory() -> None:
    assert wire.record_type("x" * 100_000) is None
    assert wire.record_type("Session") is not None


@pytest.mark.requirement("REMOTE-9")
def test_a_claim_of_a_revoked_token_is_not_granted_when_its_turn_comes(connect: Connect, local: Engram) -> None:
    holder, waiting = connect(), connect("write")
    first, second = (holder.sessions.register("codex", "x") for _ in range(2))
    holder.leases.claim(first, "deploy", exclusive=True)
    refused: list[EngramError] = []

    def wait_for() -> None:
        try:
            waiting.leases.claim(second, "deploy", exclusive=True, wait=60)
        except EngramError as error:
            refused.append(error)

    thread = threading.Thread(target=wait_for)
    thread.start()
    local.access.tokens.revoke("laptop 1")
    thread.join(60)
    holder.leases.release(first, "deploy")
    assert [error.code for error in refused] == ["unauthorized"]
    assert local.leases.list() == []


@pytest.mark.requirement("REMOTE-10")
def test_waiting_claims_keep_no_other_call_waiting(connect: Connect) -> None:
    """More claims wait than the server has threads."""
    eng = connect()
    holder = eng.sessions.register("codex", "Holds it")
    eng.leases.claim(holder, "deploy", exclusive=True)
    granted: list[str] = []
    sessions = [eng.sessions.register("codex", f"Waits {n}") for n in range(12)]

    def wait_for(sid: str) -> None:
        with eng.leases.hold(sid, "deploy", ttl=60, wait=60):
            granted.append(sid)

    threads = [threading.Thread(target=wait_for, args=(sid,)) for sid in sessions]
    for thread in threads:
        thread.start()
    for n in range(20):
        eng.sessions.log(holder, f"step {n}")
    assert granted == []
    eng.leases.release(holder, "deploy")
    for thread in threads:
        thread.join(60)
    assert sorted(granted) == sorted(sessions)


@pytest.mark.requirement("REMOTE-10")
def test_a_claim_whose_time_is_over_says_who_holds_it(eng: Engram) -> None:
    first, second = (eng.sessions.register("codex", "x") for _ in range(2))
    eng.leases.claim(first, "deploy", exclusive=True)
    with pytest.raises(LeaseHeld) as held:
        eng.leases.claim(second, "deploy", exclusive=True, wait=0.2)
    assert [holder.session_id for holder in held.value.holders] == [first]


@pytest.mark.requirement("REMOTE-3")
def test_threads_and_forked_children_share_nothing_they_should_not(eng: Engram) -> None:
    sid = eng.sessions.register("codex", "x")
    threads = [threading.Thread(target=lambda n=n: eng.sessions.log(sid, f"thread {n}")) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    child = os.fork()
    if not child:
        try:
            eng.sessions.log(sid, "child")
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    eng.sessions.log(sid, "parent")
    assert len(eng.sessions.logs(sid)) == 10


@pytest.mark.requirement("REMOTE-11")
def test_the_command_line_works_with_a_server(
    server: Served, eng: Engram, local: Engram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGRAM_URL", server.url)
    monkeypatch.setenv("ENGRAM_TOKEN", eng.settings.token)
    local.access.tokens.create("unrelated", "read")

    def run(*words: str) -> str:
        done = CliRunner().invoke(cli, [*words], catch_exceptions=False)
        assert done.exit_code == 0, (words, done.output)
        return done.output.strip()

    sid = run("session", "start", "codex", "Porting the router")
    monkeypatch.setenv("ENGRAM_SESSION", sid)
    assert run("remember", "Deploys never happen on Fridays") == "Stored as memory 1 (note)."
    assert "Deploys never happen on Fridays" in run("recall", "when do we deploy?")
    run("lock", "claim", "src/router.py", "--note", "rewriting")
    assert "src/router.py" in run("lock", "list")
    assert "about file" in run("graph", "session", sid)
    # The path is that of this machine, as it is for a claim.
    assert f"about session {sid[-8:]}" in run("graph", "file", "src/router.py")
    assert "codex" in run("activity")
    assert "part " in run("stats", "--sizes")
    run("session", "log", "halfway there")
    run("world", "set", "Goal: ship on Monday")
    assert "Goal: ship on Monday" in run("sitrep")
    assert "Goal: ship on Monday" in run("brief")
    run("message", "send", "person", "Done soon")
    assert "Done soon" in run("message", "inbox", "person")
    run("memory", "edit", "1", "Deploys never happen on Sundays")
    assert "laptop 0" in run("memory", "history", "1")
    run("dream", "--force")
    run("dream", "status")
    assert "unrelated" in run("token", "list")
    assert "1 memory" in run("forget", "--memory", "1", "--dry-run")
    run("session", "done", "Ported")
    assert eng.settings.token not in run("config", "show")
    assert json.loads(run("session", "list", "--all", "--json"))[0]["outcome"] == "Ported"


@pytest.mark.requirement("REMOTE-11")
def test_a_token_of_one_workspace_that_writes_is_enough_for_the_command_line(
    server: Served, local: Engram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGRAM_URL", server.url)
    monkeypatch.setenv("ENGRAM_TOKEN", local.access.tokens.create("laptop", "write", workspace="alpha").secret)
    done = CliRunner().invoke(cli, ["remember", "Deploys never happen on Fridays"])
    assert done.exit_code == 0, done.output
    assert "Stored as an agent's, because only a token with scope admin speaks for a person." in done.stderr
    (memory,) = local.workspace("alpha").memories.list()
    assert (memory.trust, memory.author, memory.approved) == ("agent", "laptop", False)
    assert CliRunner().invoke(cli, ["memory", "edit", str(memory.id), "Deploys never happen on Sundays"]).exit_code == 0
    assert "Sundays" in CliRunner().invoke(cli, ["recall", "when do deploys happen?"]).stdout
    monkeypatch.setenv("ENGRAM_TOKEN", local.access.tokens.create("reader", "read").secret)
    refused = CliRunner().invoke(cli, ["remember", "Not stored"])
    assert "`engram token create NAME --scope write` makes one" in str(refused.exception)


@pytest.mark.requirement("REMOTE-11")
def test_transcripts_are_imported_with_a_token_that_writes_and_memories_only_where_the_store_is(
    server: Served, local: Engram, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ENGRAM_URL", server.url)
    monkeypatch.setenv("ENGRAM_TOKEN", local.access.tokens.create("laptop", "write").secret)
    said = {"type": "user", "uuid": "a", "sessionId": "s", "timestamp": "2026-03-04T10:00:00Z", "isSidechain": False}
    said["message"] = {"role": "user", "content": "Why is the staging port wrong?"}
    transcript = tmp_path / "s.jsonl"
    transcript.write_text(json.dumps(said) + "\n")
    done = CliRunner().invoke(cli, ["import", "claude-code", str(transcript)])
    assert done.exit_code == 0, done.output
    # The server has the model, and a token that writes may not start long work there.
    assert "The server computes 1 embedding." in done.stdout
    notes = tmp_path / "notes.md"
    notes.write_text("- Deploys never happen on Fridays\n")
    before = local.changes.latest
    for options in ([], ["--dry-run"]):
        refused = CliRunner().invoke(cli, ["import", "markdown", str(notes), *options])
        assert refused.exit_code != 0
        assert "can only be imported where the store is" in str(refused.exception)
    assert local.changes.latest == before


@pytest.mark.requirement("REMOTE-11", "REMOTE-2")
def test_the_command_line_says_where_a_refused_token_is_from(
    server: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ENGRAM_URL", server.url)
    monkeypatch.setenv("ENGRAM_TOKEN", "engram_canary")
    refused = str(CliRunner().invoke(cli, ["stats"]).exception)
    made = "Make one with `engram token create NAME` where the store is; put it into"
    assert refused.endswith(f" The token is from ENGRAM_TOKEN. {made} ENGRAM_TOKEN.") and "canary" not in refused
    monkeypatch.delenv("ENGRAM_TOKEN")
    monkeypatch.setenv("ENGRAM_CONFIG_DIR", str(tmp_path))
    file = tmp_path / "config.toml"
    file.write_text('token = "engram_canary"\n')
    file.chmod(0o600)
    refused = str(CliRunner().invoke(cli, ["stats"]).exception)
    assert refused.endswith(f" The token is from `token` in {file}. {made} `token` in {file}.")


@pytest.mark.requirement("REMOTE-11")
def test_the_mcp_server_works_with_a_server(eng: Engram) -> None:
    host = Host(lambda: eng.workspace("mcp"))
    connection = Connection("codex")

    def call(tool: str, **arguments: Any) -> str:
        answer = host.call(connection, tool, arguments)
        assert answer is not None and not answer.failed, answer
        return answer.text

    assert "Brief" in call("sitrep", summary="Porting the router")
    call("remember", text="Deploys never happen on Fridays")
    assert "Fridays" in call("recall", query="when do we deploy?")
    call("lock", action="claim", resource="deploy", exclusive=True, wait="1s")
    call("session", action="log", text="halfway")
    host.leave(connection)


_plain_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text() | st.just("$"), inner, max_size=4)
        | st.dictionaries(st.integers(), inner, max_size=4)
        | st.frozensets(st.integers() | st.text(), max_size=4).map(set)
    ),
    max_leaves=20,
)


@pytest.mark.requirement("REMOTE-3")
@given(_plain_values)
def test_whatever_is_sent_arrives_as_it_was(value: object) -> None:
    assert wire.unpack(json.loads(wire.to_json(wire.pack(value)))) == value


@pytest.mark.requirement("REMOTE-3")
def test_no_two_records_have_one_name_on_the_wire() -> None:
    seen: dict[str, Any] = {}
    for module in wire.RECORD_MODULES:
        for name, kind in vars(import_module(f"engram.{module}")).items():
            if inspect.isclass(kind) and issubclass(kind, tuple) and hasattr(kind, "_fields"):
                assert seen.setdefault(name, kind) is kind, name
