"""Starts an engram command that outlives its starter, such as a hook.

The command runs in an operating-system session of its own, so it survives the end of the harness. Its standard input
and output are `/dev/null`, and it inherits no other descriptor, because a harness waits until a hook's output is
closed. It gets only the environment variables it needs, because a hook inherits its harness's keys and tokens. The
store's URL is passed in the environment, where other users of the machine cannot read its password.

In one data folder, at most one command of each name runs at a time. The command holds a lock file for its whole life;
the operating system frees the lock even after a crash. The same command is not started again before a pause, so a
failing command is not retried on every event.

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

#: Seconds between two starts of the same command.
PAUSE = 60.0
#: The `nice` value of the command, which gives other processes priority.
NICENESS = 10

#: The environment variables that a command gets. It gets libpq's variables only for a store on PostgreSQL.
_NAMES = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR")
_PREFIXES = ("ENGRAM_", "XDG_", "LC_")
_LIBPQ = "PG"
#: The command does not act for the session that started it.
_NEVER = ("ENGRAM_SESSION",)

#: Children of this process that have not been reaped.
_children: list[int] = []


def start(
    name: str, arguments: Sequence[str], settings: Config, *, pause: float = PAUSE, also: Sequence[str] = ()
) -> bool:
    """Start `engram ARGUMENTS` on the settings' store and workspace; False if it runs, or was started within the pause.

    `also` names further environment variables that the command needs.
    """
    from ..private_files import make_folder

    _reap()
    make_folder(settings.data_dir)
    lock = _lock(os.path.join(settings.data_dir, f"{name}.lock"), pause)
    if lock is None:
        return False
    try:
        variables = environment(os.environ, settings, also)
        _spawn([sys.executable, "-P", "-m", __name__, str(lock), *arguments], variables)
    finally:
        os.close(lock)
    return True


def is_running(name: str, settings: Config) -> bool:
    """Whether a command of this name is running on the data folder."""
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


def environment(given: Mapping[str, str], settings: Config, also: Sequence[str] = ()) -> dict[str, str]:
    """The environment of the command: those of the given variables that it needs, and the store to use."""
    prefixes = (*_PREFIXES, _LIBPQ) if settings.url.startswith("postgresql://") else _PREFIXES
    names = (*_NAMES, *also)
    kept = {name: value for name, value in given.items() if name in names or name.startswith(prefixes)}
    for name in _NEVER:
        kept.pop(name, None)
    chosen = {"ENGRAM_URL": settings.url, "ENGRAM_WORKSPACE": settings.workspace, "ENGRAM_DATA_DIR": settings.data_dir}
    return kept | chosen


def _lock(path: str, pause: float) -> int | None:
    """Lock the lock file and return its descriptor; None if it is locked, or was within the pause."""
    import fcntl

    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The file holds the time of the last start. A time in the future means that the clock was set back: ignore it.
        last = os.pread(descriptor, 40, 0)
        now = time.time()
        if last and 0 <= now - float(last) < pause:
            raise BlockingIOError
        os.fchmod(descriptor, 0o600)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%.3f" % now, 0)
    except (BlockingIOError, ValueError) as error:
        if isinstance(error, ValueError):
            os.ftruncate(descriptor, 0)  # not a time: empty the file, so that the next attempt works
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    # The child inherits the open file description, and with it the lock.
    os.set_inheritable(descriptor, True)
    return descriptor


def _spawn(command: list[str], variables: dict[str, str]) -> None:
    # Not a fork, because a hook has more than one thread.
    to_null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    try:
        child = os.posix_spawn(command[0], command, variables, file_actions=to_null, setsid=True)
    except NotImplementedError:
        # The platform cannot do `setsid` here; `main` calls it.
        child = os.posix_spawn(command[0], command, variables, file_actions=to_null)
    _children.append(child)


def _reap() -> None:
    """Reap children that have ended, so that a long-lived parent collects no zombies."""
    for child in _children[:]:
        with suppress(ChildProcessError):
            if os.waitpid(child, os.WNOHANG) == (0, 0):
                continue
        _children.remove(child)


def main(arguments: Sequence[str]) -> int:
    """Run an engram command. The arguments are the descriptor of the lock, then those of the command.

    The command's output is discarded, so a failure is written to the hooks' log.
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

    with redirect_stderr(StringIO()) as errors:
        code = run(list(arguments[1:]))
    if code:
        note(folder, f"engram {' '.join(arguments[1:])} ended with {code}: {errors.getvalue()}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
