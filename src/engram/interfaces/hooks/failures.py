"""Failures of a hook: each is one line in `hook.log`, and repeated failures are reported to the model.

A hook must not disturb the agent, so nothing here raises, and a single failure is not shown. But a memory that stops
working silently is worse than none. So a small file counts consecutive failures. From the third on, the next answer
that the model can see reports them once, and each new session is told again.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

from ...hook_log import LOG as LOG

#: These files are in the data folder, as LOG is. The last has one line for each pass that started by itself.
COUNT = "hook.failures"
DREAM_LOG = "dream.log"
#: A log is rotated at this size; one older file is kept.
MAX_LOG = 256 * 1024
LONGEST_LINE = 400
#: This many failures in a row are reported to the model.
REPEATED = 3

_TOLD = b" told"


def note(folder: str, line: str, log: str = LOG) -> None:
    """Write one line to a log. Only its owner can read the file."""
    from ...private_files import make_folder
    from ...redact import redact
    from ...safe_text import one_line

    path = os.path.join(folder, log)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    entry = f"{stamp} {one_line(redact(line), LONGEST_LINE)}\n".encode("utf-8", "replace")
    with suppress(OSError):
        make_folder(folder)
        if os.path.exists(path) and os.path.getsize(path) > MAX_LOG:
            os.replace(path, f"{path}.old")
        _write(path, os.O_APPEND, entry)


def count_failure(folder: str, *, new_session: bool, permanent: bool, can_tell: bool) -> bool:
    """Count one failure; return whether to tell the model now.

    A `permanent` failure does not go away by itself, so the model is told about the first one.
    """
    path = os.path.join(folder, COUNT)
    failures, told = _read_count(path)
    tell = can_tell and (permanent or failures + 1 >= REPEATED) and (new_session or not told)
    try:
        _write(path, os.O_TRUNC, b"%d" % (failures + 1) + (_TOLD if told or tell else b""))
    except OSError:
        # The count cannot be written. Tell each new session, but not every event.
        return can_tell and new_session
    return tell


def failures_in_a_row(folder: str) -> int:
    """How many hooks have failed since the last one that worked."""
    return _read_count(os.path.join(folder, COUNT))[0]


def clear_count(folder: str) -> None:
    """Reset the count after a success."""
    path = os.path.join(folder, COUNT)
    if os.access(path, os.F_OK):
        with suppress(OSError):
            os.unlink(path)


def _read_count(path: str) -> tuple[int, bool]:
    try:
        with open(path, "rb") as file:
            number, told, _ = file.read(30).partition(_TOLD)
        return int(number), bool(told)
    except (OSError, ValueError):
        return 0, False


def _write(path: str, mode: int, data: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | mode, 0o600)
    try:
        with suppress(PermissionError):  # another user owns the file, but it may still be writable
            os.fchmod(file, 0o600)
        os.write(file, data)
    finally:
        os.close(file)
