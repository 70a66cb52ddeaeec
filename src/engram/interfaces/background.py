"""What a server does beside its calls, in one thread: `engram mcp` for its client, `engram serve` for everybody.

First the model is loaded. Then, now and then, the embedding queue is worked through, the recall socket is offered, and
a pass of dreaming is started if one is due. No failure ends the thread: the store may be back at the next turn.
"""

from __future__ import annotations

import threading
from itertools import chain, repeat
from typing import TYPE_CHECKING

from ..errors import EngramError
from ..safe_text import without_quotes

if TYPE_CHECKING:
    from collections.abc import Callable
    from logging import Logger

    from ..client import Engram
    from .recall_socket.server import RecallServer

#: Seconds between two checks of the embedding queue.
BACKLOG_EVERY = 20.0
#: The most items embedded per check.
BACKLOG_STEP = 256
#: Seconds until the second check. A write that began while the model was being loaded may have ended after the first.
BACKLOG_SOON = 1.0


def run(
    load_model: Callable[[], object],
    tidy: Callable[[], object],
    then: Callable[[], object],
    stop: threading.Event,
    log: Logger,
) -> None:
    """Load the model, then tidy again and again; after each step comes `then`. Ends when `stop` is set."""
    failing = False
    steps = chain((load_model,), repeat(tidy))
    pauses = chain((0.0, BACKLOG_SOON), repeat(BACKLOG_EVERY))
    for step in steps:
        try:
            step()
            then()
            failing = False
        except (EngramError, OSError) as error:
            # Logged once. Every call reports the same error to its caller.
            if not failing:
                log.warning("background work is paused: %s", without_quotes(str(error)))
            failing = True
        if stop.wait(next(pauses)):
            return


def tidy(eng: Engram) -> int:
    """Check the embedding queue of a workspace once; the number of items embedded."""
    queue = eng.embedding_queue
    # Checking the size is a read. Taking items is a write that blocks all other writers.
    return queue.work(BACKLOG_STEP) if queue.size() else 0


class Offer:
    """The recall socket: processes without a model ask this one. It serves unless another process of the store does."""

    def __init__(self) -> None:
        self._server: RecallServer | None = None
        self._lock = threading.Lock()
        self._closed = False

    def take(self, eng: Engram) -> bool:
        """Serve, unless another process does; whether this one serves now. Each call looks again."""
        from .recall_socket.server import RecallServer

        with self._lock:
            if self._server is None and not self._closed:
                self._server = RecallServer(eng)
            server = self._server
        return server is not None and server.take()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            server = self._server
        if server is not None:
            server.close()
