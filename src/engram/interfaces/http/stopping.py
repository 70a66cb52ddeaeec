"""Ends event streams when a signal arrives. uvicorn waits for open connections, and a stream never ends by itself.

uvicorn tells its application only after that wait. So the application listens for the signals, too, and passes each on
to uvicorn.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def on_signal(act: Callable[[], object]) -> None:
    """Call a function in the running event loop when the process is asked to stop. Only in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        signal.signal(number, _both(loop, act, signal.getsignal(number)))


def _both(loop: asyncio.AbstractEventLoop, act: Callable[[], object], then: Any) -> Callable[[int, Any], None]:
    def handle(number: int, frame: Any) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(act)
        if callable(then):
            then(number, frame)

    return handle
