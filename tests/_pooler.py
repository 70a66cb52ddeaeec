"""A real PgBouncer in front of the tests' PostgreSQL server."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

HOW_TO_INSTALL = "PgBouncer is not installed; on Debian: apt-get install pgbouncer"

_PATIENCE = 30.0
#: Part of the socket's name; there is no TCP port.
_PORT = 6432

_CONFIGURATION = """
[databases]
* = {server}

[pgbouncer]
listen_addr =
listen_port = {port}
unix_socket_dir = {folder}
auth_type = any
admin_users = {user}
pool_mode = {mode}
default_pool_size = {size}
max_client_conn = 500
logfile = {folder}/log
pidfile = {folder}/pid
"""


def program() -> str | None:
    """The path of PgBouncer. Debian installs it in /usr/sbin, which is not in an ordinary user's PATH."""
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")


class Pooler:
    """PgBouncer with default settings, except its mode and pool size."""

    def __init__(self, server: str, mode: str, size: int) -> None:
        found = program()
        if found is None:
            raise FileNotFoundError(HOW_TO_INSTALL)
        parts = conninfo_to_dict(server)
        user, database = str(parts["user"]), str(parts["dbname"])
        # Directly in the temporary folder, because the path of a Unix socket must be short.
        self._folder = Path(tempfile.mkdtemp(prefix="engram-pooler-"))
        target = {key: parts[key] for key in ("host", "port", "user", "password") if parts.get(key)}
        (self._folder / "pgbouncer.ini").write_text(
            _CONFIGURATION.format(
                server=" ".join(f"{key}={value}" for key, value in target.items()),
                port=_PORT,
                folder=self._folder,
                user=user,
                mode=mode,
                size=size,
            )
        )
        account = _unprivileged(self._folder, str(target.get("host", "")))
        self._command = [*account, found, "--quiet", str(self._folder / "pgbouncer.ini")]
        self.url = f"postgresql://{user}@/{database}?host={self._folder}&port={_PORT}"
        self._start()

    def restart(self) -> None:
        """Restart PgBouncer. This closes every connection to it and from it to the server."""
        self._stop()
        self._start()

    def end(self) -> None:
        self._stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self) -> None:
        self._process = subprocess.Popen(self._command, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    log = self._folder / "log"
                    said = log.read_text() if log.exists() else "it wrote no log"
                    self.end()
                    raise RuntimeError(f"PgBouncer did not start: {said}") from None
                time.sleep(0.02)

    def _stop(self) -> None:
        self._process.kill()
        self._process.wait(_PATIENCE)


def _unprivileged(folder: Path, host: str) -> list[str]:
    """The command prefix that changes the user. PgBouncer refuses to run as root, so it runs as the server's user."""
    if os.geteuid() != 0:
        return []
    owner = os.stat(host).st_uid if host.startswith("/") else 0
    user = pwd.getpwuid(owner) if owner else pwd.getpwnam("nobody")
    os.chown(folder, user.pw_uid, user.pw_gid)
    folder.chmod(0o755)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
