"""Scheduled dreaming: what is due in every workspace, at an interval, until it is stopped.

Several schedulers share the work without coordination. One that finds a workspace's lease taken goes on to the next
workspace, and each starts at a different place in the list. No failure ends the schedule: it is logged, and the next
workspace or the next interval follows.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from .. import checks
from ..dream_records import summary
from ..errors import InvalidInput
from ..records import DreamReport
from ..safe_text import without_quotes
from ..storage.changes import workspaces
from . import due
from .pass_context import describe
from .passes import Dreams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from logging import Logger

    from ..dream_records import NotDue
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
    propose_only: bool = False,
    stop: threading.Event | None = None,
    progress: Progress | None = None,
) -> list[DreamReport]:
    """One pass over each workspace of the store. A workspace that fails does not stop the others."""
    reports: list[DreamReport] = []
    for dreams in _each_workspace(view, stop):
        chosen = stages
        if stages is not None and not view.config.is_companion(dreams.workspace):
            # One workspace is a companion's, another one is not. That is no mistake of the caller.
            chosen = [stage for stage in stages if stage != REFLECT]
            if stages and not chosen:
                continue
        try:
            options = {"force": force, "dry_run": dry_run, "propose_only": propose_only}
            report = dreams.dream(**options, stages=chosen, stop=stop, progress=progress)
        except InvalidInput:  # the caller's mistake, the same everywhere
            raise
        except Exception as error:
            reports += _not_started(dreams, error, due.BY_HAND)
        else:
            reports.append(report)
    return reports


def dream_all_if_due(
    view: StoreView,
    reason: str = due.IF_DUE,
    *,
    every: float | None = None,
    propose_only: bool = False,
    stop: threading.Event | None = None,
    progress: Progress | None = None,
) -> list[DreamReport | NotDue]:
    """An automatic pass over each workspace in which one is due. A workspace that fails does not stop the others."""
    found: list[DreamReport | NotDue] = []
    for dreams in _each_workspace(view, stop):
        try:
            options: dict[str, Any] = {"every": every, "propose_only": propose_only, "stop": stop}
            found.append(dreams.dream_if_due(reason, **options, progress=progress))
        except InvalidInput:
            raise
        except Exception as error:
            found += _not_started(dreams, error, reason)
    return found


def _not_started(dreams: Dreams, error: Exception, reason: str) -> list[DreamReport]:
    """The report of a workspace that failed; none if the store cannot even be read."""
    problem = describe(error)
    try:
        return [dreams.report_not_started(problem)._replace(reason=reason)]
    except Exception as second:
        _log().error("a pass failed: %s", without_quotes(problem))
        _log().debug("the store could not be read", exc_info=second)
        return []


def _each_workspace(view: StoreView, stop: threading.Event | None) -> Iterator[Dreams]:
    """Every workspace of the store. Processes start at different places, so that they share the work."""
    names = workspaces(view.engine)
    start = os.getpid() % max(len(names), 1)
    for name in names[start:] + names[:start]:
        if stop is not None and stop.is_set():
            return
        yield Dreams(view._replace(workspace=name))


class Scheduler:
    """Runs passes at an interval, in a thread of its own or in the caller's, over every workspace or only over one.

    At each interval, a pass runs where something is due. `told` is called with the reports of the passes that ran, and
    `failed` with the error of a round that failed. `before` is called at the beginning of each round. With
    `propose_only`, consolidation changes nothing by itself.
    """

    def __init__(
        self,
        view: StoreView,
        every: float = DEFAULT_EVERY,
        *,
        all_workspaces: bool = True,
        propose_only: bool = False,
        now: bool = False,
        told: Callable[[list[DreamReport]], None] | None = None,
        failed: Callable[[Exception], None] | None = None,
        before: Callable[[], None] | None = None,
    ) -> None:
        self._view = view
        self._before = before
        self._every = checks.seconds(every, "every")
        self._all = all_workspaces
        self._propose_only = propose_only
        self._now = now
        self._told = told
        self._failed = failed
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
            self._round()
            if clock.wait(self._stop, self._every):
                return

    def _round(self) -> None:
        """Run the passes that are due. No failure ends the schedule: the store may be back at the next interval."""
        try:
            if self._before is not None:
                self._before()
            options: dict[str, Any] = {"every": 0.0, "propose_only": self._propose_only, "stop": self._stop}
            if self._all:
                found = dream_all_if_due(self._view, due.LOOP, **options)
            else:
                found = [Dreams(self._view).dream_if_due(due.LOOP, **options)]
            reports = [each for each in found if isinstance(each, DreamReport)]
            for report in reports:
                _log().info("%s", summary(report))
            if self._told and reports:
                self._told(reports)
        except Exception as error:
            # One line for people. The traceback is for those who ask for it.
            _log().debug("a round of passes failed", exc_info=error)
            if self._failed is not None:
                self._failed(error)
            else:
                _log().error("a round of passes failed: %s", type(error).__name__)


def _log() -> Logger:
    import logging

    return logging.getLogger("engram.dreaming")
