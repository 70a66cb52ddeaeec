"""Where the server of a store runs, so that `engram open` finds it.

`engram serve` keeps a private file in the data folder while it runs: its address and its process. A process that was
killed leaves its file behind. So a file counts only while its process runs and the server answers.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from .. import private_files, processes

if TYPE_CHECKING:
    from ..config import Config

#: Seconds that a server has to say that it lives.
ANSWERS_WITHIN = 3.0

_END = ".json"


class Running(NamedTuple):
    #: The address that clients use.
    url: str
    #: Where the server listens on this machine. It differs behind a proxy.
    local: str
    #: The name of its process; None where processes have no names.
    process: str | None


@contextmanager
def announced(settings: Config, url: str, host: str, port: int, *, tls: bool) -> Iterator[Running]:
    """Keep the file of a server within the block. A folder that cannot be written to does not stop the server."""
    running = Running(url, f"{'https' if tls else 'http'}://{_reachable(host)}:{port}", processes.own())
    path = os.path.join(_folder(settings), f"{_store(settings.url)}-{port}{_END}")
    with suppress(OSError):
        _write(path, json.dumps(running._asdict()))
    try:
        yield running
    finally:
        with suppress(OSError):
            os.unlink(path)


def find(settings: Config) -> Running | None:
    """The server of this store on this machine, the one that was started last; None if none answers."""
    folder, beginning = _folder(settings), f"{_store(settings.url)}-"
    try:
        # Another name is that of a draft, which a server is writing now.
        names = [name for name in os.listdir(folder) if name.startswith(beginning) and name.endswith(_END)]
    except OSError:
        return None
    for path in sorted((os.path.join(folder, name) for name in names), key=_written, reverse=True):
        running = _read(path)
        if running is None or (running.process and processes.runs(running.process) is False):
            with suppress(OSError):
                os.unlink(path)
        elif answers(running):
            return running
    return None


def answers(running: Running) -> bool:
    """Whether the server says that it lives. Nothing secret is sent, so its certificate is not checked."""
    from http.client import HTTPConnection, HTTPException, HTTPSConnection
    from urllib.parse import urlsplit

    at = urlsplit(running.local)
    # A server that listens for other machines answers only to the address that clients use.
    host = {"Host": urlsplit(running.url).netloc}
    connection: HTTPConnection
    if at.scheme == "https":
        import ssl

        unchecked = ssl.create_default_context()
        unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
        connection = HTTPSConnection(at.hostname or "", at.port, timeout=ANSWERS_WITHIN, context=unchecked)
    else:
        connection = HTTPConnection(at.hostname or "", at.port, timeout=ANSWERS_WITHIN)
    try:
        connection.request("GET", "/health", headers=host)
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def data_folder(settings: Config, name: str) -> str:
    """A folder of this name in the data folder."""
    return os.path.join(os.path.abspath(os.path.expanduser(settings.data_dir)), name)


def _folder(settings: Config) -> str:
    return data_folder(settings, "servers")


def _store(url: str) -> str:
    """A short name for a store, the same in every process of this user."""
    if url.startswith("postgresql://"):
        from .recall_socket.place import identity

        return identity(url) or ""
    from hashlib import blake2b

    # Not with the number of the file: after a restore the same server serves the new one.
    return blake2b(os.fsencode(os.path.realpath(url)), digest_size=12).hexdigest()


def _reachable(host: str) -> str:
    """An address at which this machine reaches a server that listens there."""
    address = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"[{address}]" if ":" in address else address


def _write(path: str, text: str) -> None:
    private_files.make_folder(os.path.dirname(path))
    new = f"{path}.{os.getpid()}.new"
    with suppress(FileNotFoundError):
        os.unlink(new)
    private_files.make_file(new)
    with open(new, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(new, path)


def _read(path: str) -> Running | None:
    """What a file says; None if it is no file of a server."""
    try:
        with open(path, encoding="utf-8") as file:
            told = json.load(file)
        running = Running(told["url"], told["local"], told["process"] or None)
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return running if all(isinstance(each, str) for each in running if each is not None) else None


def _written(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
