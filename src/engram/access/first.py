"""The first admin token of a store, which a server needs before anybody can log in. Its secret goes into a file."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from .. import private_files
from ..access_records import NewToken
from ..errors import InvalidInput
from . import tokens
from .secret_texts import TOKEN, contains_secret, make

if TYPE_CHECKING:
    from ..storage.engine import Engine

NAME = "admin"
#: Longer than a secret with a line break, so that another file is recognised.
_LONGEST = 100

_ADMIN = """
SELECT 1 FROM access_tokens
WHERE scope = 'admin' AND workspace IS NULL AND client_id IS NULL AND revoked_at IS NULL
  AND (expires_at IS NULL OR expires_at > :now)
LIMIT 1
"""


def ensure_admin(engine: Engine, path: str) -> NewToken | None:
    """Make a token with scope admin if the store has none, and write its secret to a file that only its owner can read.

    Returns None if there is such a token: nothing is written then. Of several servers that start at once, one makes it.
    The file is written before the commit, so that no token exists whose secret nobody knows.
    """
    with engine.write() as tx:
        tokens.lock(tx)
        now = tx.now()
        if tx.one(_ADMIN, now=now) is not None:
            return None
        secret = make(TOKEN)
        name = NAME if tokens.is_free(tx, NAME, now) else f"{NAME} {secret.id}"
        made = tokens.add(tx, secret, name, "admin", None, now, None)
        try:
            _write(path, f"{secret.text}\n")
        except OSError as error:
            raise InvalidInput(
                f"The first admin token cannot be written to {path}: {error.strerror}. No token was made."
            ) from None
    return made


def _write(path: str, text: str) -> None:
    """Write the file in one step. A link is replaced, not followed."""
    private_files.make_folder(os.path.dirname(os.path.abspath(path)))
    _require_ours(path)
    # Its name is known to this process only, and the folder is locked against a second one.
    temporary = f"{path}.{os.getpid()}.new"
    with suppress(FileNotFoundError):
        os.unlink(temporary)
    private_files.make_file(temporary)
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, path)
        private_files.sync(os.path.dirname(os.path.abspath(path)))
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _require_ours(path: str) -> None:
    """InvalidInput if there is a file that holds anything but a secret of an earlier start."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    with open(descriptor, "rb") as file:
        found = file.read(_LONGEST + 1)
    if len(found) > _LONGEST or not contains_secret(found.decode("ascii", "replace")):
        raise InvalidInput(f"{path} exists and holds something else than an Engram token. Move it away first.")
