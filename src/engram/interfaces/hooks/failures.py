"""What goes wrong in a hook: one line in `hook.log`, and after a while one line to the model.

A hook must never stand in an agent's way, so nothing here raises, and nothing is shown that need not be. But a memory
that silently stopped working is worse than none: a small file counts failures in a row, and once they are no accident
any more, the next answer the model can see says so, once, and every new session is told again.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

#: Both in the data folder.
LOG = "hook.log"
COUNT = "hook.failures"
#: The log is begun anew at this size; one older part is kept.
MAX_LOG = 256 * 1024
LONGEST_LINE = 400
#: So many in a row are no accident.
REPEATED = 3

_TOLD = b" told"


def note(folder: str, line: str) -> None:
    """Write one line to the log, which only its owner can read."""
    from ...private_files import make_folder
    from ...redact import redact
    from ...safe_text import one_line

    path = os.path.join(folder, LOG)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    entry = f"{stamp} {one_line(redact(line), LONGEST_LINE)}\n".encode("utf-8", "replace")
    with suppress(OSError):
        make_folder(folder)
        if os.path.exists(path) and os.path.getsize(path) > MAX_LOG:
            os.replace(path, f"{path}.old")
        _write(path, os.O_APPEND, entry)


def count(folder: str, *, new_session: bool, hopeless: bool, can_tell: bool) -> bool:
    """Count one more failure; whether the model should be told now.

    `hopeless` is a failure that cannot pass by itself, so that the first one is worth a word already.
    """
    path = os.path.join(folder, COUNT)
    failures, told = _counted(path)
    tell = can_tell and (hopeless or failures + 1 >= REPEATED) and (new_session or not told)
    try:
        _write(path, os.O_TRUNC, b"%d" % (failures + 1) + (_TOLD if told or tell else b""))
    except OSError:
        # Where nothing can be written, nothing can be counted; that is worth saying, but not with every event.
        return can_tell and new_session
    return tell


def forget(folder: str) -> None:
    """All is well again."""
    path = os.path.join(folder, COUNT)
    if os.access(path, os.F_OK):
        with suppress(OSError):
            os.unlink(path)


def _counted(path: str) -> tuple[int, bool]:
    try:
        with open(path, "rb") as file:
            number, told, _ = file.read(30).partition(_TOLD)
        return int(number), bool(told)
    except (OSError, ValueError):
        return 0, False


def _write(path: str, mode: int, data: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | mode, 0o600)
    try:
        with suppress(PermissionError):  # somebody else's, which may be written all the same
            os.fchmod(file, 0o600)
        os.write(file, data)
    finally:
        os.close(file)
