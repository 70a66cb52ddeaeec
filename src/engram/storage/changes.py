"""Reads the change feed, which caches, live views and other processes follow.

On SQLite the numbers increase in commit order. On PostgreSQL a transaction may commit after others that have larger
numbers. A reader therefore gets changes only up to the number below which nothing can appear any more. So on both
engines a reader that remembers the last number it saw misses nothing.

Waiting for a change asks again and again, at growing intervals. One look in an index costs less than a connection that
the server would have to notify, and works the same on both engines, across processes and behind a pooler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import checks
from ..errors import InvalidInput
from ..records import Change
from ..setup_records import StoreChange

if TYPE_CHECKING:
    from ..store_view import StoreView
    from .engine import Engine, Transaction

_SINCE = """
SELECT number, what, id FROM changes
WHERE workspace = :workspace AND number > :after AND number <= :end ORDER BY number LIMIT :limit
"""
_LATEST = "SELECT COALESCE(MAX(number), 0) FROM changes WHERE workspace = :workspace AND number <= :end"
# Across workspaces, for a server that tells each client about its own. Both read the end of the primary key.
_SINCE_EVERYWHERE = """
SELECT number, what, id, workspace FROM changes
WHERE number > :after AND number <= :end ORDER BY number LIMIT :limit
"""
_LATEST_EVERYWHERE = "SELECT COALESCE(MAX(number), 0) FROM changes WHERE number <= :end"
# Across workspaces, too. Each execution is one index lookup.
_NEXT_WORKSPACE = "SELECT MIN(workspace) FROM changes WHERE workspace > :workspace"


def workspaces(engine: Engine) -> list[str]:
    """Every workspace that was ever written to, sorted by name."""
    found: list[str] = []
    with engine.read() as tx:
        while (name := tx.value(_NEXT_WORKSPACE, workspace=found[-1] if found else "")) is not None:
            found.append(name)
    return found


def latest(tx: Transaction, workspace: str) -> int:
    """The number of the newest change of a workspace such that no earlier one can appear after it; 0 before the first.

    The transaction must know the end of the feed.
    """
    number: int = tx.value(_LATEST, workspace=workspace, end=_end(tx))
    return number


def _end(tx: Transaction) -> int:
    end = tx.feed_end
    if end is None:
        raise RuntimeError("this transaction does not know the end of the feed; this is a mistake in Engram")
    return end


#: Seconds between two looks at the feed while nothing changes: the first pause, and the longest one.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.25


class Changes:
    """The change feed of a workspace. Calling it returns the changes after a number."""

    def __init__(self, view: StoreView) -> None:
        self._engine = view.engine
        self._workspace = view.workspace

    def __call__(self, after: int = 0, limit: int = 1_000) -> list[Change]:
        """Changes of this workspace after the change number `after`, in commit order."""
        checks.whole(after, "after", least=0)
        checks.whole(limit, "limit", least=1)
        with self._engine.read(feed=True) as tx:
            page = {"after": after, "limit": limit, "end": _end(tx)}
            return [Change(*row) for row in tx.all(_SINCE, workspace=self._workspace, **page)]

    @property
    def latest(self) -> int:
        """The number of the newest change; 0 before the first one."""
        with self._engine.read(feed=True) as tx:
            return latest(tx, self._workspace)

    def everywhere(self, after: int, limit: int = 1_000) -> list[StoreChange]:
        """Changes of all workspaces of the store after a change number, in commit order."""
        checks.whole(after, "after", least=0)
        checks.whole(limit, "limit", least=1)
        with self._engine.read(feed=True) as tx:
            return [StoreChange(*row) for row in tx.all(_SINCE_EVERYWHERE, after=after, limit=limit, end=_end(tx))]

    @property
    def latest_everywhere(self) -> int:
        """The number of the newest change of the store; 0 before the first one."""
        with self._engine.read(feed=True) as tx:
            number: int = tx.value(_LATEST_EVERYWHERE, end=_end(tx))
        return number

    def wait(self, after: int, timeout: float, limit: int = 1_000) -> list[Change]:
        """Wait until something has changed after the number `after`, by any process, for `timeout` seconds at most.

        Returns the changes; an empty list when the time is over.
        """
        patience = checks.seconds(timeout, "timeout")
        if self._engine.joined:
            raise InvalidInput("A transaction does not see what others write; wait for changes outside of write().")
        clock = self._engine.clock
        deadline = clock.monotonic() + patience
        pause = _FIRST_PAUSE
        while not (found := self(after, limit)):
            left = deadline - clock.monotonic()
            if left <= 0:
                break
            clock.sleep(min(pause, left))
            pause = min(pause * 1.5, _LONGEST_PAUSE)
        return found
