"""Scheduled dreaming: a pass over every workspace at an interval, until it is stopped.

Several schedulers share the work without coordination. One that finds a workspace's lease taken goes on to the next
workspace, and each starts at a different place in the list.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from .. import checks
from ..errors import EngramError, InvalidInput
from ..storage.changes import workspaces
from .passes import Dreams

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..records import DreamReport
    from ..store_view import StoreView
    from .pass_context import Progress

REFLECT = "reflect"
DEFAULT_EVERY = 6 * 3_600.0


def dream_all(
    view: StoreView,
    *,
    force: bool = False,
    dry_run: bool = False,
    stages: Sequence[str] | None = None,
    stop: threading.Event | None = None,
    progress: Progress | None = None,
) -> list[DreamReport]:
    """One pass over each workspace of the store. A workspace that fails does not stop the others."""
    names = workspaces(view.engine)
    start = os.getpid() % max(len(names), 1)
    reports = []
    for name in names[start:] + names[:start]:
        if stop is not None and stop.is_set():
            break
        dreams = Dreams(view._replace(workspace=name))
        chosen = stages
        if stages is not None and not view.config.is_companion(name):
            # One workspace is a companion's, another one is not. That is no mistake of the caller.
            chosen = [stage for stage in stages if stage != REFLECT]
            if stages and not chosen:
                continue
        try:
            report = dreams.dream(force=force, dry_run=dry_run, stages=chosen, stop=stop, progress=progress)
        except InvalidInput:  # the caller's mistake, the same everywhere
            raise
        except EngramError as error:
            report = dreams.report_not_started(str(error))
        reports.append(report)
    return reports


class Scheduler:
    """Runs passes at an interval, in a thread of its own or in the caller's. `told` is called with their reports."""

    def __init__(
        self,
        view: StoreView,
        every: float = DEFAULT_EVERY,
        *,
        all_workspaces: bool = False,
        now: bool = False,
        told: Callable[[list[DreamReport]], None] | None = None,
    ) -> None:
        self._view = view
        self._every = checks.seconds(every, "every")
        self._all = all_workspaces
        self._now = now
        self._told = told
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start in a background thread."""
        self._thread = threading.Thread(target=self.run, name="engram-dreams", daemon=True)
        self._thread.start()

    def stop(self, wait: bool = True) -> None:
        """Stop after the current step. What is done so far stays."""
        self._stop.set()
        if wait and self._thread is not None:
            self._thread.join()

    def run(self) -> None:
        """Run passes until stopped. The first begins after one interval, or at once with `now`."""
        clock = self._view.engine.clock
        if not self._now and clock.wait(self._stop, self._every):
            return
        while not self._stop.is_set():
            self._pass()
            if clock.wait(self._stop, self._every):
                return

    def _pass(self) -> None:
        try:
            if self._all:
                reports = dream_all(self._view, stop=self._stop)
            else:
                reports = [Dreams(self._view).dream(stop=self._stop)]
        except EngramError as error:
            # A store that is unavailable for a while must not end the schedule.
            import logging

            logging.getLogger("engram.dreaming").warning("%s", error)
            return
        if self._told:
            self._told(reports)
