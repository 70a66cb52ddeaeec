"""Sizes: what each part of a store takes on the disk, over all workspaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..overview_records import Sizes, TierSize

if TYPE_CHECKING:
    from ..store_view import StoreView

OTHER: Final = "other"
#: The tables of each part. A test fails for a table that no part has. Only PostgreSQL with pgvector has `closeness`.
TABLES: Final = {
    "coordination": (
        *("sessions", "leases", "lease_waiters", "lease_notices", "messages", "deliveries"),
        *("harness_processes", "injections", "imports"),
    ),
    "exchanges": ("exchanges",),
    "memories": ("memories", "memory_versions", "memory_states", "memory_tags", "memory_links", "sources", "gists"),
    "blocks": ("blocks", "block_versions"),
    "word index": ("items", "terms", "postings", "shelves", "backlog"),
    "vectors": ("vectors", "models", "closeness"),
    "dreaming": (
        *("folds", "drives", "dreams", "dream_retries", "usage", "work", "journal", "proposals", "proposal_parts"),
        "rebuilds",
    ),
    "access": (
        *("access_tokens", "access_links", "access_logins", "access_attempts", "access_answers", "access_clients"),
        *("access_requests", "access_consents", "access_codes"),
    ),
    "changes": ("changes",),
    OTHER: ("migrations", "receipts"),
}
_TIER_OF = {table: tier for tier, tables in TABLES.items() for table in tables}


def sizes(view: StoreView) -> Sizes:
    """The sizes of the whole store, the largest part first."""
    measured = view.engine.table_sizes()
    totals = dict.fromkeys(TABLES, (0, 0))
    for table in measured.tables:
        tier = _TIER_OF.get(table.name, OTHER)
        rows, bytes = totals[tier]
        totals[tier] = rows + table.rows, bytes + table.bytes
    tiers = sorted((TierSize(tier, *found) for tier, found in totals.items()), key=lambda each: -each.bytes)
    return Sizes(tuple(tiers), view.engine.size(), measured.free)
