"""Starting an engram command that outlives whoever starts it, such as a hook.

The command runs in a session of its own, so that the end of the client does not end it. Its input and output lead
nowhere, and it inherits no other descriptor: a client waits for the end of a hook's output. It gets the variables it
needs and no others, because a hook inherits its client's keys and tokens. The store's address goes through the
environment, where other users of the machine cannot read its password.

There is at most one at a time of each name in a data folder: a lock file that the command holds for as long as it
lives, however it ends. One that ended is not started again before a pause, so that a command that fails is not tried
with every event.

This module is also the program that is started (`python -m engram.interfaces.detached`).
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..config import Config

#: Seconds from one start to the next.
PAUSE = 60.0
#: How far it stands back for others.
NICENESS = 10

#: What a command needs of the environment; of libpq's variables only with a store on PostgreSQL.
_NAMES = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR")
_PREFIXES = ("ENGRAM_", "XDG_", "LC_")
_LIBPQ = "PG"
#: Whose session started it is no matter of the command's.
_NEVER = ("ENGRAM_SESSION",)

#: Started by this process and not yet known to have ended.
_children: list[int] = []


def start(name: str, arguments: Sequence[str], settings: Config, *, pause: float = PAUSE) -> bool:
    """Start `engram ARGUMENTS` on the store and workspace of the settings; False when it runs or ran just now."""
    from ..private_files import make_folder

    _reap()
    make_folder(settings.data_dir)
    lock = _lock(os.path.join(settings.data_dir, f"{name}.lock"), pause)
    if lock is None:
        return False
    try:
        _spawn([sys.executable, "-P", "-m", __name__, str(lock), *arguments], environment(os.environ, settings))
    finally:
        os.close(lock)
    return True


def is_running(name: str, settings: Config) -> bool:
    """Whether a command of this name is at work in the data folder."""
    import fcntl

    try:
        descriptor = os.open(os.path.join(settings.data_dir, f"{name}.lock"), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def environment(given: Mapping[str, str], settings: Config) -> dict[str, str]:
    """Of the given variables those that the command needs, and the store it is to use."""
    prefixes = (*_PREFIXES, _LIBPQ) if settings.url.startswith("postgresql://") else _PREFIXES
    kept = {name: value for name, value in given.items() if name in _NAMES or name.startswith(prefixes)}
    for name in _NEVER:
        kept.pop(name, None)
    chosen = {"ENGRAM_URL": settings.url, "ENGRAM_WORKSPACE": settings.workspace, "ENGRAM_DATA_DIR": settings.data_dir}
    return kept | chosen


def _lock(path: str, pause: float) -> int | None:
    """Take the lock file; None when another process has it, or had it less than a pause ago."""
    import fcntl

    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Its content is the time of the last start; a clock that was set back counts as a pause.
        last = os.pread(descriptor, 40, 0)
        now = time.time()
        if last and 0 <= now - float(last) < pause:
            raise BlockingIOError
        os.fchmod(descriptor, 0o600)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%.3f" % now, 0)
    except (BlockingIOError, ValueError) as error:
        if isinstance(error, ValueError):
            os.ftruncate(descriptor, 0)  # nothing of ours; the next one starts
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    # The child shares this description of the open file, and with it the lock.
    os.set_inheritable(descriptor, True)
    return descriptor


def _spawn(command: list[str], variables: dict[str, str]) -> None:
    # Not a fork: a hook has more than one thread.
    nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    try:
        child = os.posix_spawn(command[0], command, variables, file_actions=nowhere, setsid=True)
    except NotImplementedError:
        # Where this cannot be asked for, the program does it itself.
        child = os.posix_spawn(command[0], command, variables, file_actions=nowhere)
    _children.append(child)


def _reap() -> None:
    """Let the system forget those that ended; only a parent that lives on comes here twice."""
    for child in _children[:]:
        with suppress(ChildProcessError):
            if os.waitpid(child, os.WNOHANG) == (0, 0):
                continue
        _children.remove(child)


def main(arguments: Sequence[str]) -> int:
    """Run an engram command: the number of the lock's descriptor, then the command's arguments.

    Nobody sees what it prints, so a failure goes to the hooks' log.
    """
    lock = int(arguments[0])
    with suppress(PermissionError):
        os.setsid()
    os.closerange(3, lock)
    os.closerange(lock + 1, os.sysconf("SC_OPEN_MAX"))
    os.set_inheritable(lock, False)
    os.nice(NICENESS)
    folder = os.environ["ENGRAM_DATA_DIR"]
    os.chdir(folder)
    from contextlib import redirect_stderr
    from io import StringIO

    from .cli import run
    from .hooks.failures import note

    with redirect_stderr(StringIO()) as said:
        code = run(list(arguments[1:]))
    if code:
        note(folder, f"engram {' '.join(arguments[1:])} ended with {code}: {said.getvalue()}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
