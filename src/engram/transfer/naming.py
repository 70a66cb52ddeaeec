"""The names of the workspaces that an export has.

The change feed is not enough: some rows are written without a change, such as the record of what was imported from
elsewhere. So every exported table is asked. A test compares the statement with the list of tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..storage.engine import Transaction

_NEXT = """
SELECT MIN(workspace) FROM (
  SELECT MIN(workspace) AS workspace FROM changes WHERE workspace > :workspace
  UNION ALL SELECT MIN(workspace) FROM sessions WHERE workspace > :workspace
  UNION ALL SELECT MIN(workspace) FROM exchanges WHERE workspace > :workspace
  UNION ALL SELECT MIN(workspace) FROM leases WHERE workspace > :workspace
  UNION ALL SELECT MIN(workspace) FROM messages WHERE workspace > :workspace
  UNION ALL SELECT MIN(workspace) FROM deliveries WHERE workspace > :workspace
  UNION ALL SELECT MIN(workspace) FROM receipts WHERE workspace > :workspace
  UNION ALL SELECT MIN(workspace) FROM blocks WHERE workspace > :workspace
  UNION ALL SELECT MIN(workspace) FROM memories WHERE workspace > :workspace
  UNION ALL SELECT MIN(workspace) FROM memory_tags WHERE workspace > :workspace
  UNION ALL SELECT MIN(workspace) FROM memory_links WHERE workspace > :workspace
  UNION ALL SELECT MIN(workspace) FROM sources WHERE workspace > :workspace
  UNION ALL SELECT MIN(workspace) FROM rebuilds WHERE workspace > :workspace
  UNION ALL SELECT MIN(workspace) FROM gists WHERE workspace > :workspace
  UNION ALL SELECT MIN(workspace) FROM folds WHERE workspace > :workspace
  UNION ALL SELECT MIN(workspace) FROM dreams WHERE workspace > :workspace
  UNION ALL SELECT MIN(workspace) FROM journal WHERE workspace > :workspace
  UNION ALL SELECT MIN(workspace) FROM proposals WHERE workspace > :workspace
  UNION ALL SELECT MIN(workspace) FROM proposal_parts WHERE workspace > :workspace
  UNION ALL SELECT MIN(workspace) FROM work WHERE workspace > :workspace
  UNION ALL SELECT MIN(workspace) FROM drives WHERE workspace > :workspace
  UNION ALL SELECT MIN(workspace) FROM usage WHERE workspace > :workspace
  UNION ALL SELECT MIN(workspace) FROM dream_retries WHERE workspace > :workspace
  UNION ALL SELECT MIN(workspace) FROM injections WHERE workspace > :workspace
  UNION ALL SELECT MIN(workspace) FROM imports WHERE workspace > :workspace
) AS found
"""


def workspaces(tx: Transaction) -> list[str]:
    """Every workspace of the store that was ever written to or has a row, sorted by name."""
    found: list[str] = []
    while (name := tx.value(_NEXT, workspace=found[-1] if found else "")) is not None:
        found.append(name)
    return found
