"""Reads the change feed, which caches, live views and other processes follow.

On both engines the numbers increase in commit order. A reader that remembers the last number it saw misses nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import checks
from ..records import Change

if TYPE_CHECKING:
    from ..store_view import StoreView
    from .engine import Engine

_SINCE = """
SELECT number, what, id FROM changes WHERE workspace = :workspace AND number > :after ORDER BY number LIMIT :limit
"""
# The only query across workspaces. Each execution is one index lookup.
_NEXT_WORKSPACE = "SELECT MIN(workspace) FROM changes WHERE workspace > :workspace"


def workspaces(engine: Engine) -> list[str]:
    """Every workspace that was ever written to, sorted by name."""
    found: list[str] = []
    with engine.read() as tx:
        while (name := tx.value(_NEXT_WORKSPACE, workspace=found[-1] if found else "")) is not None:
            found.append(name)
    return found


def since(view: StoreView, after: int, limit: int) -> list[Change]:
    """Changes after a number, oldest first."""
    checks.whole(after, "after", least=0)
    checks.whole(limit, "limit", least=1)
    with view.engine.read() as tx:
        return [Change(*row) for row in tx.all(_SINCE, workspace=view.workspace, after=after, limit=limit)]
