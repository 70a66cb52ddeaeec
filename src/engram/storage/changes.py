"""Reading the change feed: what caches, live views and other processes follow.

Numbers rise in the order of commits on both engines, so a reader that remembers the last number it saw misses nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import checks
from ..records import Change

if TYPE_CHECKING:
    from ..scope import Scope

_SINCE = """
SELECT number, what, id FROM changes WHERE workspace = :workspace AND number > :after ORDER BY number LIMIT :limit
"""


def since(scope: Scope, after: int, limit: int) -> list[Change]:
    checks.whole(after, "after", least=0)
    checks.whole(limit, "limit", least=1)
    with scope.engine.read() as tx:
        return [Change(*row) for row in tx.all(_SINCE, workspace=scope.workspace, after=after, limit=limit)]
