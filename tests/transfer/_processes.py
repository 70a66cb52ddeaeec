"""Numbers of processes."""

from __future__ import annotations

import subprocess
import sys


def dead() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid
