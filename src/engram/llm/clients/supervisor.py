"""Runs one client, and ends it with everything it started. A program of its own, which imports nothing of Engram.

The client may start processes, and Engram may be killed at any moment. So a process stands between the two: it sees
the end of Engram on a pipe (`life`) and as a change of its parent, and then ends the client. It does so too at the
time limit and on SIGTERM. First the client's process group gets SIGTERM, then SIGKILL. On Linux, processes that have
left the group become children of this one and are killed, and the client is killed if this process is.

At the end it removes the folder of the run, where clients keep what they were asked. Then it reports how the client
ended on another pipe (`status`), after a line with the client's process number: `exit 1`, `signal 9`, `timeout`,
`stopped`, or `failed` with the reason.

    python -I -S supervisor.py LIFE STATUS LOCK SECONDS FOLDER WORKING_FOLDER COMMAND …
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress

#: Seconds between SIGTERM and SIGKILL.
GRACE = 2.0
#: The longest time between two looks at the parent.
_LOOK = 1.0
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def main(arguments: list[str]) -> int:
    # The lock on the folder is held by being open.
    life, status, _lock = map(int, arguments[:3])
    limit, folder, where, command = float(arguments[3]), arguments[4], arguments[5], arguments[6:]
    watch = _Watch(life, limit)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        # Its input and output are ours: bytes go directly between Engram and the client.
        client = subprocess.Popen(command, cwd=where, start_new_session=True, preexec_fn=_die_with_parent)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        ended = f"failed {error}"
    else:
        for number in range(3):
            os.close(number)
        _report(status, f"{client.pid}\n")
        reason = watch.wait(client)
        code = _end(client)
        ended = reason or (f"exit {code}" if code >= 0 else f"signal {-code}")
    shutil.rmtree(folder, ignore_errors=True)
    _report(status, ended)
    return 0


def _report(status: int, line: str) -> None:
    with suppress(OSError):  # Engram may be gone
        os.write(status, line.encode(errors="replace")[:1_000])


class _Watch:
    """Waits for the end of the client, or for a reason to end it."""

    def __init__(self, life: int, limit: float) -> None:
        self._life = life
        self._parent = os.getppid()
        self._until = time.monotonic() + limit
        self._stopped = False
        # The end of the client is a signal, which wakes the wait through this pipe.
        self._woken, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._stop)

    def _stop(self, number: int, frame: object) -> None:
        self._stopped = True

    def wait(self, client: subprocess.Popen[bytes]) -> str:
        """Why the client must end; empty when it has ended by itself."""
        while not _has_ended(client):
            left = self._until - time.monotonic()
            if left <= 0:
                return "timeout"
            if self._stopped or os.getppid() != self._parent:
                return "stopped"
            ready, _, _ = select.select([self._life, self._woken], [], [], min(left, _LOOK))
            if self._life in ready:
                return "stopped"  # nothing is ever written to this pipe, so this is its end
            if self._woken in ready:
                os.read(self._woken, 4_096)
        return ""


def _end(client: subprocess.Popen[bytes]) -> int:
    """End the client and all its processes; its exit code."""
    if not _has_ended(client):
        _signal_group(client, signal.SIGTERM)
        until = time.monotonic() + GRACE
        while not _has_ended(client) and time.monotonic() < until:
            time.sleep(0.02)
    # Always, because a client that has ended may have left processes behind. It is not reaped before, so the number of
    # its group cannot belong to others.
    _signal_group(client, signal.SIGKILL)
    code = client.wait()
    _end_orphans()
    return code


def _has_ended(client: subprocess.Popen[bytes]) -> bool:
    if not hasattr(os, "waitid"):
        return client.poll() is not None
    return os.waitid(os.P_PID, client.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _signal_group(client: subprocess.Popen[bytes], number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(client.pid, number)


def _end_orphans() -> None:
    """Kill what has left the group. Each orphan becomes a child of this process when its own parent has ended."""
    for _ in range(1_000):
        try:
            with open(f"/proc/self/task/{os.getpid()}/children") as file:
                children = [int(child) for child in file.read().split()]
        except (OSError, ValueError):
            return  # not Linux
        if not children:
            return
        for child in children:
            with suppress(ProcessLookupError, ChildProcessError, PermissionError):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)


def _die_with_parent() -> None:
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    """Linux's prctl; elsewhere nothing."""
    if sys.platform != "linux":
        return
    with suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(option, int(value), 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
