"""Whether a process still runs."""

from __future__ import annotations

from engram import processes


def is_running(id: int) -> bool:
    """False for a process that has ended, also if nobody has asked for its exit code. In a container nobody may."""
    try:
        return processes.read(id).state not in ("Z", "X")
    except OSError:
        return False
