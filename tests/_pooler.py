"""A real PgBouncer in front of the tests' PostgreSQL server."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tests._certificates import certified
from tests._replication import free_port

HOW_TO_INSTALL = "PgBouncer is not installed; on Debian: apt-get install pgbouncer"

_PATIENCE = 30.0
#: Part of the socket's name; there is no TCP port.
_PORT = 6432

_CONFIGURATION = """
[databases]
* = {server}

[pgbouncer]
listen_addr = {address}
listen_port = {port}
unix_socket_dir = {folder}
auth_type = any
admin_users = {user}
pool_mode = {mode}
default_pool_size = {size}
max_client_conn = 500
logfile = {folder}/log
pidfile = {folder}/pid
{more}
"""
_TLS = """
server_login_retry = 1
client_tls_sslmode = require
client_tls_cert_file = {certificate}
client_tls_key_file = {key}
"""


def program() -> str | None:
    """The path of PgBouncer. Debian installs it in /usr/sbin, which is not in an ordinary user's PATH."""
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")


class Pooler:
    """PgBouncer with default settings, except its mode and pool size."""

    def __init__(self, server: str, mode: str, size: int, *, tls: bool = False) -> None:
        """With `tls` it listens on 127.0.0.1, takes only encrypted connections, and asks a dead server every second."""
        found = program()
        if found is None:
            raise FileNotFoundError(HOW_TO_INSTALL)
        parts = conninfo_to_dict(server)
        user, database = str(parts["user"]), str(parts["dbname"])
        # Directly in the temporary folder, because the path of a Unix socket must be short.
        self._folder = Path(tempfile.mkdtemp(prefix="engram-pooler-"))
        account = _unprivileged(self._folder, str(parts.get("host", "")))
        self._settings = {"mode": mode, "size": size, "user": user, "address": "", "port": _PORT, "more": ""}
        self.url = f"postgresql://{user}@/{database}?host={self._folder}&port={_PORT}"
        if tls:
            port = free_port()
            certificate, key = certified(self._folder)
            shutil.chown(key, os.stat(self._folder).st_uid)
            self._settings |= {"address": "127.0.0.1", "port": port}
            self._settings["more"] = _TLS.format(certificate=certificate, key=key)
            self.url = f"postgresql://{user}@127.0.0.1:{port}/{database}?sslmode=verify-full&sslrootcert={certificate}"
        self._command = [*account, found, "--quiet", str(self._folder / "pgbouncer.ini")]
        self._configure(server)
        self._start()

    def lead_to(self, server: str) -> None:
        """Use another server from now on, without a restart."""
        self._configure(server)
        self._process.send_signal(signal.SIGHUP)

    def _configure(self, server: str) -> None:
        parts = conninfo_to_dict(server)
        target = {key: parts[key] for key in ("host", "port", "user", "password") if parts.get(key)}
        (self._folder / "pgbouncer.ini").write_text(
            _CONFIGURATION.format(
                server=" ".join(f"{key}={value}" for key, value in target.items()),
                folder=self._folder,
                **self._settings,
            )
        )

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
