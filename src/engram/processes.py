"""Processes of this machine: their names, and whether they still run.

A process id is used again after its process has ended. A process is therefore named by the boot of the machine, the
namespace of process ids (a container has its own), its id and its start time. Only Linux tells all this cheaply.
Elsewhere a process has no name.
"""

from __future__ import annotations

import os
from typing import NamedTuple


class Process(NamedTuple):
    id: int
    parent: int
    started: str
    state: str

    @property
    def name(self) -> str:
        return f"{place()}/{self.id}/{self.started}"


def place() -> str:
    """The machine since its last boot, and the namespace of process ids."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot = file.read().strip()
    return f"{boot}/{os.readlink('/proc/self/ns/pid')}"


def read(id: int) -> Process:
    with open(f"/proc/{id}/stat", encoding="utf-8", errors="replace") as file:
        # The name of the program may contain spaces and parentheses.
        fields = file.read().rpartition(")")[2].split()
    return Process(id, parent=int(fields[1]), started=fields[19], state=fields[0])


def own() -> str | None:
    """The name of this process; None if it cannot be determined."""
    try:
        return read(os.getpid()).name
    except (OSError, ValueError, IndexError):
        return None


def runs(name: str) -> bool | None:
    """Whether the process of that name runs; None if it cannot be seen from here."""
    try:
        where, number, started = name.rsplit("/", 2)
        id = int(number)
        if where != place() or id <= 0:
            return None
    except (OSError, ValueError):
        return None
    try:
        process = read(id)
    except FileNotFoundError:
        return None if _is_hidden(id) else False
    except ProcessLookupError:
        return False
    except (OSError, ValueError, IndexError):
        return None
    return process.started == started and process.state not in ("Z", "X")


def _is_hidden(id: int) -> bool:
    """Whether there is a process of that id that /proc does not show, as with the mount option `hidepid`."""
    try:
        os.kill(id, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
