"""How long memories were not used.

A memory is used when it is recalled or changed, when a session is given it, and while a brief shows it: agents read a
brief without any recall. Time in which nobody works on a memory's project says nothing about the memory, so of a longer
pause between two sessions of the project only a week counts. A general memory, and one of a project without any
session, have no such pauses.
"""

from __future__ import annotations

from bisect import bisect_right
from datetime import date
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

from ..clock import later
from .brief.compose import compose

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence, Set

    from ..store_view import StoreView

#: Days of a pause that count.
_PAUSE = 7
_DAY = 86_400
#: Candidates that are read at once.
_PAGE = 500
#: Projects whose briefs are made to see whether they show a general memory, the latest first.
_MOST_BRIEFS = 20

_CANDIDATES = """
SELECT m.id, m.project, CASE WHEN m.recalled_at > m.updated_at THEN m.recalled_at ELSE m.updated_at END FROM memories m
WHERE m.workspace = :workspace AND m.status = 'active' AND m.kind NOT IN ('gist', 'era', 'digest', 'store-item')
  AND m.pinned = 0 AND m.importance < :importance AND m.recalled <= :recalls
  AND m.updated_at < :before AND (m.recalled_at IS NULL OR m.recalled_at < :before)
  AND (m.expires_at IS NULL OR m.expires_at > :now) AND m.id > :after
  AND NOT EXISTS (SELECT 1 FROM proposal_parts p JOIN proposals q ON q.id = p.proposal
                  WHERE p.workspace = :workspace AND p.part = 'target' AND p.kind = 'memory' AND p.ref = m.id
                    AND p.version = m.version AND q.what = 'archive' AND (q.state = 'rejected' OR :propose = 1))
ORDER BY m.id LIMIT :limit
"""
# Read once for all candidates, because there is no index by memory.
_GIVEN = """
SELECT ref, MAX(at) FROM injections WHERE workspace = :workspace AND kind = 'memory' GROUP BY ref
"""
_DAYS = """
SELECT DISTINCT project, SUBSTR(created_at, 1, 10), SUBSTR(heartbeat_at, 1, 10) FROM sessions
WHERE workspace = :workspace AND project IS NOT NULL AND type <> 'dream'
"""


class Unused(NamedTuple):
    """A memory that was not used for a long time."""

    id: int
    #: The days that count, and whether pauses of its project do not.
    days: int
    paused: bool


class _Work:
    """The days on which a project had a session."""

    def __init__(self, days: Sequence[int]) -> None:
        self.last = days[-1]
        self._days = days
        gaps = (min(_PAUSE, following - day) for day, following in pairwise(days))
        #: For each day, the days that count since the first one.
        self._counted = list(accumulate(gaps, initial=0))

    def counted(self, since: int, now: int) -> int:
        """The days since that day that count."""
        place = bisect_right(self._days, since)
        if place == len(self._days):
            return min(_PAUSE, now - since)
        between = self._counted[-1] - self._counted[place]
        return min(_PAUSE, self._days[place] - since) + between + min(_PAUSE, max(0, now - self.last))


class _Briefs:
    """What the briefs show now. Each is made once, and only if a candidate may be in it."""

    def __init__(self, view: StoreView, latest: Sequence[str]) -> None:
        self._view = view
        self._latest = latest
        self._shown: dict[str | None, Set[int]] = {}

    def show(self, id: int, project: str | None) -> bool:
        """Whether the brief of its project shows the memory; for a general one, the brief of any project in use."""
        projects = [project] if project is not None else [None, *self._latest]
        return any(id in self._of(each) for each in projects)

    def _of(self, project: str | None) -> Set[int]:
        if project not in self._shown:
            brief = compose(self._view, project=project, budget=self._view.config.brief_budget)
            self._shown[project] = {int(line.ref) for line in brief.lines if line.kind == "memory" and line.ref}
        return self._shown[project]


def unused(view: StoreView, *, propose: bool) -> Iterator[Unused]:
    """Unimportant memories that were not used for a long time. `propose` leaves out those with such a proposal."""
    config = view.config
    least = max(config.dream_archive_after, config.dream_min_age)
    with view.engine.read() as tx:
        now = tx.now()
        days: dict[str, set[int]] = {}
        for project, *worked in tx.all(_DAYS, workspace=view.workspace):
            days.setdefault(project, set()).update(map(_day, worked))
        given: dict[int, str] = dict(tx.all(_GIVEN, workspace=view.workspace))
    before, today = later(now, -least), _day(now)
    work = {project: _Work(sorted(of_project)) for project, of_project in days.items()}
    in_use = (project for project in work if work[project].last >= _day(before))
    briefs = _Briefs(view, sorted(in_use, key=lambda project: (-work[project].last, project))[:_MOST_BRIEFS])
    after = 0
    while True:
        with view.engine.read() as tx:
            page = tx.all(
                _CANDIDATES,
                workspace=view.workspace,
                importance=config.dream_archive_importance,
                recalls=config.dream_archive_recalls,
                before=before,
                now=now,
                after=after,
                propose=int(propose),
                limit=_PAGE,
            )
        found = []
        for id, project, used in page:
            last = _day(max(used, given.get(id, "")))
            counted = today - last
            if project in work:
                counted = min(counted, work[project].counted(last, today))
            if counted >= least // _DAY:
                found.append((Unused(id, counted, counted < today - last), project))
        yield from (each for each, project in found if not briefs.show(each.id, project))
        if len(page) < _PAGE:
            return
        after = page[-1][0]


def _day(stamp: str) -> int:
    return date.fromisoformat(stamp[:10]).toordinal()
