"""What the server does beside requests: loads the model, embeds what others left, offers the model, starts passes.

All of it is shared with `engram mcp` (see `background`), but for all workspaces of the store. Every worker process has
these chores. Those that only one should do are guarded: the queue hands out each item once, the socket has a lock, and
so has the command that dreams.
"""

from __future__ import annotations

import logging
import threading
from time import monotonic
from typing import TYPE_CHECKING

from .. import background

if TYPE_CHECKING:
    from .service import Service

#: Seconds between two checks whether a pass is due.
DUE_EVERY = 60.0


class Chores:
    def __init__(self, service: Service) -> None:
        self._eng = service.eng
        wanted = service.options.dream
        self._dreams = self._eng.settings.auto_dream == "on" if wanted is None else wanted
        self._stop = threading.Event()
        self._offer = background.Offer()
        self._thread = threading.Thread(target=self._run, name="engram-chores", daemon=True)
        self._looked = monotonic()

    def start(self) -> None:
        # Before the first request, so that none waits for the model.
        self._eng.embedding_queue.warm_later()
        self._thread.start()

    def close(self, within: float) -> None:
        """Stop. What is being embedded now may be left to another process."""
        self._stop.set()
        self._offer.close()
        self._thread.join(within)

    def _run(self) -> None:
        log = logging.getLogger("engram.http")
        background.run(self._eng.embedding_queue.warm, self.tidy, self._offer_and_dream, self._stop, log)

    def tidy(self) -> int:
        """Check the embedding queue of every workspace once; the number of items embedded."""
        done = 0
        for info in self._eng.workspaces():
            if self._stop.is_set():
                break
            done += background.tidy(self._eng.workspace(info.name))
        return done

    def dream_if_due(self) -> bool:
        """Start one command that dreams in every workspace where a pass is due; whether it was started."""
        names = [info.name for info in self._eng.workspaces()]
        if not any(self._eng.workspace(name).is_dream_due() for name in names):
            return False
        from ..auto_dream import IDLE_SERVER, start

        return start(self._eng.settings, IDLE_SERVER, all_workspaces=True)

    def _offer_and_dream(self) -> None:
        self._offer.take(self._eng)
        if self._dreams and monotonic() - self._looked >= DUE_EVERY:
            self._looked = monotonic()
            self.dream_if_due()
