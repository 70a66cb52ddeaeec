"""An outage of the primary PostgreSQL server, as the library and the interfaces see it.

`tests/stress/test_failover.py` does the same under load.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from engram import Engram, StoreReadOnly, StoreUnavailable
from engram.config import load
from engram.storage import postgres
from engram.storage.postgres import PostgresEngine
from engram.storage.postgres_transaction import PostgresTransaction
from engram.store_url import masked
from tests._certificates import certified
from tests._pooler import HOW_TO_INSTALL, Pooler, program
from tests._replication import Pair, Server, wait_for
from tests._running import serving

#: Seconds that a call waits in an outage, if the test wants it to fail.
SHORT = 0.3


def open_store(url: str, **settings: Any) -> Engram:
    return Engram(settings=load(url=url, **{"embedder": "none", **settings}))


def contents(eng: Engram, session: str) -> list[str]:
    return [entry.content for entry in reversed(eng.sessions.logs(session, limit=0))]


def alone(server: Server, schema: str) -> str:
    return f"{server.url}?schema={schema}"


@pytest.mark.requirement("FAILOVER-4")
def test_a_url_with_several_hosts_leads_to_the_primary_among_them(pair: Pair, schema: str) -> None:
    ports = [pair.primary.port, pair.standby.port]
    forms = [
        f"postgresql://postgres:secret@{','.join(f'127.0.0.1:{port}' for port in order)}/postgres?{options}"
        for order in (ports, ports[::-1])
        for options in ("", "target_session_attrs=read-write&", "target_session_attrs=primary&")
    ]
    forms.append(f"postgresql:///postgres?user=postgres&host=127.0.0.1,127.0.0.1&port={ports[1]},{ports[0]}&")
    for number, form in enumerate(forms):
        url = f"{form}schema={schema}"
        with open_store(url) as eng:
            eng.world.set(f"world {number}")
            assert eng.world.get() == f"world {number}"
        assert "secret" not in masked(url) and str(ports[0]) in masked(url) and str(ports[1]) in masked(url)


@pytest.mark.requirement("FAILOVER-4", "FAILOVER-2")
def test_a_host_that_does_not_answer_is_left_for_the_next_one_after_the_connect_timeout(
    pair: Pair, schema: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hosts = f"127.0.0.1:{silent.getsockname()[1]},127.0.0.1:{pair.primary.port}"
        begun = time.monotonic()
        # The driver's minimum is 2 seconds. Without the parameter it would be 10.
        with open_store(f"postgresql://postgres@{hosts}/postgres?schema={schema}&connect_timeout=2") as eng:
            assert time.monotonic() - begun < 8
            eng.world.set("found")


@pytest.mark.requirement("FAILOVER-2")
def test_a_machine_that_falls_silent_is_noticed(pair: Pair, url: str) -> None:
    def silence(url: str) -> list[int]:
        with open_store(url) as eng:
            engine = eng._view.engine
            assert isinstance(engine, PostgresEngine)
            with engine.read() as tx:
                assert isinstance(tx, PostgresTransaction)
                with socket.socket(fileno=os.dup(tx.connection.fileno())) as used:
                    options = (socket.TCP_USER_TIMEOUT, socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
                    return [used.getsockopt(socket.IPPROTO_TCP, option) for option in options]

    assert silence(url) == [15_000, 5, 5, 2]
    assert silence(f"{url}&tcp_user_timeout=7000&keepalives_idle=60") == [7_000, 60, 5, 2]


@pytest.mark.requirement("FAILOVER-1", "FAILOVER-2")
def test_calls_wait_until_another_server_has_taken_over(pair: Pair, url: str) -> None:
    with open_store(url) as eng, ThreadPoolExecutor(3) as pool:
        sid = eng.sessions.register("codex", "Working")
        eng.sessions.log(sid, "before")
        pair.kill_primary()
        reading = pool.submit(contents, eng, sid)
        writing = pool.submit(eng.sessions.log, sid, "during")
        opening = pool.submit(open_store, url)
        # All of them find no server at first.
        assert not any(each.done() for each in (reading, writing, opening))
        pair.promote()
        pair.rebuild()
        writing.result(60)
        assert "before" in reading.result(60)
        with opening.result(60) as other:
            assert contents(other, sid) == ["before", "during"]


@pytest.mark.requirement("FAILOVER-2")
def test_a_call_waits_while_its_only_server_starts_again(pair: Pair, schema: str) -> None:
    with open_store(alone(pair.primary, schema)) as eng, ThreadPoolExecutor(1) as pool:
        sid = eng.sessions.register("codex", "Working")
        pair.kill_primary()
        writing = pool.submit(eng.sessions.log, sid, "during")
        pair.primary.start()
        writing.result(60)
        assert contents(eng, sid) == ["during"]


@pytest.mark.requirement("FAILOVER-2", "FAILOVER-3")
def test_a_call_that_finds_no_server_in_time_says_so_of_every_host(pair: Pair, url: str) -> None:
    with open_store(url, busy_timeout=SHORT) as eng:
        sid = eng.sessions.register("codex", "Working")
        pair.kill_primary()
        begun = time.monotonic()
        with pytest.raises(StoreUnavailable) as raised:
            eng.sessions.log(sid, "never")
        assert time.monotonic() - begun < SHORT + 10
        message = str(raised.value)
        assert f"127.0.0.1:{pair.primary.port}: Connection refused" in message
        assert f"127.0.0.1:{pair.standby.port}: server is in hot standby mode" in message
        assert not raised.value.may_be_written and "\n" not in message
        pair.promote()
        pair.rebuild()
        eng.sessions.log(sid, "afterwards")
        assert contents(eng, sid) == ["afterwards"]


@pytest.mark.requirement("FAILOVER-3")
def test_a_server_that_dies_inside_a_transaction_has_written_nothing(pair: Pair, url: str) -> None:
    with open_store(url) as eng:
        sid = eng.sessions.register("codex", "Working")
        with (
            pytest.raises(StoreUnavailable, match=r"was lost .*; nothing was written\. Try again") as raised,
            eng.write(),
        ):
            eng.sessions.log(sid, "never")
            pair.fail_over()
            eng.sessions.log(sid, "never either")
        assert not raised.value.may_be_written
        pair.rebuild()
        eng.sessions.log(sid, "afterwards")
        assert contents(eng, sid) == ["afterwards"]


@pytest.fixture
def short_commits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(postgres, "_CONNECT_TIMEOUT", SHORT)
    yield
    monkeypatch.undo()


@pytest.mark.requirement("FAILOVER-3")
@pytest.mark.usefixtures("short_commits")
def test_a_commit_that_no_standby_confirms_is_reported_as_possibly_written(pair: Pair, url: str) -> None:
    with open_store(url, busy_timeout=SHORT) as eng:
        sid = eng.sessions.register("codex", "Working")
        pair.kill_standby()
        with pytest.raises(StoreUnavailable, match="It may have been written, or not") as raised:
            eng.sessions.log(sid, "unconfirmed")
        assert raised.value.may_be_written and raised.value.details() == {"may_be_written": True}
        pair.rebuild()
        # The server had only waited for a standby.
        wait_for(lambda: contents(eng, sid) == ["unconfirmed"], lambda: str(contents(eng, sid)))


@pytest.mark.requirement("FAILOVER-3", "FAILOVER-7")
@pytest.mark.usefixtures("short_commits")
def test_a_request_with_an_idempotency_key_can_be_sent_again_after_an_unconfirmed_commit(pair: Pair, url: str) -> None:
    with open_store(url, busy_timeout=SHORT) as eng, serving(eng) as running, running.client() as client:
        sid = eng.sessions.register("codex", "Working")
        key = {"Idempotency-Key": "one write"}
        body = {"session": sid, "text": "once"}
        assert client.get("/ready").status_code == 200
        pair.kill_standby()
        answer = client.post("/api/v1/session/log", json=body, headers=key)
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "store_unavailable"
        assert answer.json()["error"]["details"] == {"may_be_written": True}
        pair.kill_primary()
        assert client.get("/ready").status_code == 503
        assert client.get("/api/v1/sitrep").status_code == 503
        pair.primary.start()
        pair.rebuild()
        again = client.post("/api/v1/session/log", json=body, headers=key)
        assert again.status_code == 200, again.text
        assert client.get("/ready").status_code == 200
        assert contents(eng, sid) == ["once"]


@pytest.mark.requirement("FAILOVER-5")
def test_a_store_on_a_standby_is_read_there_and_written_once_it_is_promoted(pair: Pair, schema: str) -> None:
    with open_store(alone(pair.primary, schema)) as eng:
        sid = eng.sessions.register("codex", "Working")
        eng.sessions.log(sid, "before")
    standby = pair.standby
    with pytest.raises(StoreUnavailable, match="session is read-only"):
        open_store(f"{alone(standby, schema)}&target_session_attrs=read-write", busy_timeout=SHORT)
    standby.wait_until(f"SELECT count(*)::int FROM {schema}.exchanges", 1)
    with open_store(alone(standby, schema)) as eng:
        assert contents(eng, sid) == ["before"]
        assert sid in eng.sitrep()
        begun = time.monotonic()
        with pytest.raises(StoreReadOnly, match="standby"):
            eng.sessions.log(sid, "never")
        assert time.monotonic() - begun < 15
        pair.fail_over()
        pair.rebuild()
        eng.sessions.log(sid, "after")
        assert contents(eng, sid) == ["before", "after"]


@pytest.mark.requirement("FAILOVER-2")
def test_a_process_forgets_what_it_knew_about_rows_that_the_new_primary_never_got(pair: Pair, url: str) -> None:
    """Without synchronous replication the last writes may be lost. The process must not build on them."""
    with open_store(f"{url}&options=-csynchronous_commit%3Dlocal") as eng:
        eng.remember("The harbour has a lantern")
        pair.standby.wait_until(_REPLAYED, True)
        _stop_following(pair.standby)
        # Gives numbers to words, which this process remembers. The standby never gets them.
        eng.remember("The compass points to zanzibar")
        pair.fail_over()
        kept = eng.remember("The ferry to zanzibar has a compass")
        pair.rebuild()
        assert [hit.memory_id for hit in eng.recall("zanzibar compass", mode="words")] == [kept.id]


_REPLAYED = "SELECT pg_last_wal_replay_lsn() = pg_last_wal_receive_lsn()"


def _stop_following(standby: Server) -> None:
    with psycopg.connect(standby.url, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET primary_conninfo = ''")
        connection.execute("SELECT pg_reload_conf()")
    standby.wait_until("SELECT count(*)::int FROM pg_stat_wal_receiver", 0)


@pytest.mark.requirement("FAILOVER-7")
def test_in_an_outage_the_command_fails_with_a_sentence_and_a_hook_is_silent(
    pair: Pair, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(url) as eng:
        sid = eng.sessions.register("codex", "Working")
    monkeypatch.setenv("ENGRAM_URL", url)
    monkeypatch.setenv("ENGRAM_BUSY_TIMEOUT", f"{SHORT}s")
    event = {"session_id": "s1", "hook_event_name": "UserPromptSubmit", "prompt": "Port the router"}

    def command() -> subprocess.CompletedProcess[str]:
        return _run("engram", "session", "log", "--session", sid, "from the command line")

    def hook() -> subprocess.CompletedProcess[str]:
        return _run("engram-hook", "claude-code", given=json.dumps(event))

    pair.kill_primary()
    done = command()
    assert (done.returncode, done.stdout) == (1, "")
    assert "cannot be reached" in done.stderr and len(done.stderr.splitlines()) == 1
    silent = hook()
    assert (silent.returncode, silent.stdout, silent.stderr) == (0, "", "")
    pair.promote()
    pair.rebuild()
    done = command()
    assert done.returncode == 0, done.stderr
    with open_store(url) as eng:
        assert contents(eng, sid) == ["from the command line"]

        def recorded() -> bool:
            assert hook().returncode == 0
            return "Port the router" in [turn.content for turn in eng.exchanges.timeline(limit=10)]

        # A hook gives up after a second and a half, which a busy machine may need for its start.
        wait_for(recorded, lambda: "no hook recorded anything")


def _run(name: str, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    installed = os.path.join(os.path.dirname(sys.executable), name)
    return subprocess.run([installed, *arguments], input=given, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.requirement("FAILOVER-6", "FAILOVER-4")
def test_behind_a_pooler_with_tls_a_store_goes_on_once_the_pooler_leads_to_the_new_primary(
    pair: Pair, schema: str, tmp_path: Path
) -> None:
    if program() is None:
        pytest.skip(HOW_TO_INSTALL)
    pooler = Pooler(pair.primary.url, "transaction", 4, tls=True)
    try:
        url = f"{pooler.url}&schema={schema}"
        with open_store(url) as eng, ThreadPoolExecutor(1) as pool:
            with eng._view.engine.read() as tx:
                assert isinstance(tx, PostgresTransaction)
                assert tx.connection.pgconn.ssl_in_use
            sid = eng.sessions.register("codex", "Working")
            pair.fail_over()
            # The pooler still leads to the dead server, which comes back as a standby.
            writing = pool.submit(eng.sessions.log, sid, "during")
            pair.rebuild()
            assert not writing.done()
            pooler.lead_to(pair.primary.url)
            writing.result(60)
            assert contents(eng, sid) == ["during"]
        with pytest.raises(StoreUnavailable, match="certificate"):
            open_store(re.sub("sslrootcert=[^&]*", f"sslrootcert={certified(tmp_path)[0]}", url))
    finally:
        pooler.end()
