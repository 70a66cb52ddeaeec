"""Activity: how much happened on each day, by project and type of session.

A session counts on the day on which it began, with all its turns. Counting the turns themselves by day would read each
of them: 100 ms for 100,000 turns, instead of one. Memories count on the day on which they were stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from .. import checks
from ..clock import later
from ..overview_records import Activity

if TYPE_CHECKING:
    from ..store_view import StoreView

MOST_DAYS = 366
_DAY = 86_400

_SESSIONS = """
SELECT SUBSTR(created_at, 1, 10) AS day, project, type, COUNT(*), SUM(turns - turns_gone) FROM sessions
WHERE workspace = :workspace AND created_at >= :since AND created_at < :until AND type <> 'dream'
GROUP BY SUBSTR(created_at, 1, 10), project, type
"""
_MEMORIES = """
SELECT SUBSTR(m.created_at, 1, 10) AS day, m.project, s.type, COUNT(*) FROM memories m
LEFT JOIN sessions s ON s.workspace = m.workspace AND s.id = m.session_id AND s.type <> 'dream'
WHERE m.workspace = :workspace AND m.status = 'active' AND m.created_at >= :since AND m.created_at < :until
  AND m.kind <> 'gist'
GROUP BY SUBSTR(m.created_at, 1, 10), m.project, s.type
"""

_Place: TypeAlias = "tuple[str, str | None, str | None]"


def activity(view: StoreView, days: int, until: str | None) -> list[Activity]:
    """The counts of some days, of which `until` is in the last one; the latest day first."""
    checks.whole(days, "days", least=1, most=MOST_DAYS)
    end = checks.optional_moment(until, "until")
    with view.engine.read() as tx:
        last = f"{(end or tx.now())[:10]}T00:00:00.000000Z"
        between = {"since": later(last, -(days - 1) * _DAY), "until": later(last, _DAY)}
        sessions = tx.ask(_SESSIONS, workspace=view.workspace, **between)
        memories = tx.ask(_MEMORIES, workspace=view.workspace, **between)
        counts: dict[_Place, tuple[int, int, int]] = {
            (day, project, type): (begun, int(turns), 0) for day, project, type, begun, turns in sessions.all()
        }
        for day, project, type, stored in memories.all():
            begun, turns, _ = counts.get((day, project, type), (0, 0, 0))
            counts[day, project, type] = (begun, turns, stored)
    rows = [Activity(*place, *found) for place, found in counts.items()]
    rows.sort(key=lambda each: (each.project or "", each.type or ""))
    rows.sort(key=lambda each: each.day, reverse=True)
    return rows
