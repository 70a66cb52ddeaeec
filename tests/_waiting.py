"""Waits for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(condition: Callable[[], object], within: float = 60.0) -> None:
    """Wait until a condition holds, for as long as a busy machine may take."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.005)
