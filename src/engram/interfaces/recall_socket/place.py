"""Where the recall socket of a store is.

Both sides work the place out by themselves and must come to the same result, although a harness gives its MCP server
fewer environment variables than its hooks. So the user's runtime folder is found without `XDG_RUNTIME_DIR`, too.

The path of a Unix socket is limited to about a hundred bytes, so the file's name is a hash of the store, and a folder
that is too long is replaced by one in the temporary folder. A folder counts only if it belongs to this user, nobody
else can enter it, and it is not a link.
"""

from __future__ import annotations

import os
from stat import S_IMODE, S_ISDIR
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...config import Config

#: The longest path in bytes: the limit of macOS, which is lower than that of Linux.
LONGEST = 103
#: What says in a PostgreSQL URL, or in libpq's environment, which store it is. A password is not among it.
_OPTIONS = ("dbname", "host", "hostaddr", "port", "schema", "service", "user")
_VARIABLES = ("PGDATABASE", "PGHOST", "PGHOSTADDR", "PGPORT", "PGSERVICE", "PGSERVICEFILE", "PGUSER")


def find(settings: Config) -> str | None:
    """The path of the store's socket; None if the store or the folder does not exist, or the folder is not safe."""
    found = path(settings)
    return found if found is not None and is_private(os.path.dirname(found)) else None


def make(settings: Config) -> str | None:
    """The same, with the folder made if it is missing."""
    from ...private_files import make_folder

    wanted = path(settings)
    if wanted is None:
        return None
    make_folder(os.path.dirname(wanted))
    return find(settings)


def is_private(folder: str) -> bool:
    """Whether this is a folder of this user that nobody else can enter. A link is not."""
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    return S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and S_IMODE(found.st_mode) & 0o077 == 0


def path(settings: Config) -> str | None:
    """Where the store's socket belongs, whether or not anything is there; None if there is no such place."""
    store = identity(settings.url)
    if store is None:
        return None
    for folder in (_folder(settings), os.path.join(os.environ.get("TMPDIR") or "/tmp", f"engram-{os.geteuid()}")):
        wanted = os.path.join(folder, f"{store}.sock")
        if len(os.fsencode(wanted)) <= LONGEST:
            return wanted
    return None


def _folder(settings: Config) -> str:
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"
    if os.path.isabs(runtime) and is_private(runtime):
        return os.path.join(runtime, "engram")
    return os.path.join(os.path.abspath(os.path.expanduser(settings.data_dir)), "sockets")


def identity(url: str) -> str | None:
    """A short name for a store, the same in every process that uses it; None if its file does not exist."""
    # Not from `hashlib`, which loads OpenSSL: that takes milliseconds in every hook.
    from _blake2 import blake2b

    parts = _postgres(url) if url.startswith("postgresql://") else _file(url)
    if parts is None:
        return None
    name: str = blake2b("\0".join(parts).encode("utf-8", "surrogateescape"), digest_size=12).hexdigest()
    return name


def _file(path: str) -> list[str] | None:
    # The file's number, too: after a restore it is another store, and its server has to notice that first.
    try:
        found = os.stat(path)
    except OSError:
        return None
    return [os.path.realpath(path), str(found.st_dev), str(found.st_ino)]


def _postgres(url: str) -> list[str]:
    from ...store_url import split

    address = split(url)
    user = address.user.removesuffix("@").partition(":")[0]
    options = sorted(option for option in address.options if option.partition("=")[0] in _OPTIONS)
    return [address.target, user, *options, *(f"{name}={os.environ.get(name, '')}" for name in _VARIABLES)]
