"""Provenance: what a thing was made of. Trust is derived from it, and forgetting finds derived things through it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import checks
from ..errors import BlockNotFound, ExchangeNotFound, InvalidInput, MemoryNotFound
from .exchanges import TRUSTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..storage.engine import Transaction

#: An exchange, a memory or a block, named by its kind and id: `("memory", 7)`.
Thing = tuple[str, int]

_ADD = """
INSERT INTO sources (workspace, derived_kind, derived_id, derived_version, source_kind, source_id)
VALUES (:workspace, :derived, :id, :version, :kind, :source) ON CONFLICT DO NOTHING
"""
# Without ORDER BY: with one, SQLite walks through all sources in that order.
_OF = """
SELECT source_kind, source_id FROM sources
WHERE workspace = :workspace AND derived_kind = :derived AND derived_id = :id AND derived_version <= :version
"""
_NO_REBUILD = "DELETE FROM rebuilds WHERE workspace = :workspace AND kind = :kind AND ref = :id"
_EXCHANGE = "SELECT trust FROM exchanges WHERE workspace = :workspace AND id = :id"
_MEMORY = "SELECT trust FROM memories WHERE workspace = :workspace AND id = :id"
_BLOCK = "SELECT 'agent' FROM blocks WHERE workspace = :workspace AND id = :id"


def add(tx: Transaction, workspace: str, derived: str, id: int, version: int, sources: Iterable[Thing]) -> None:
    """Record what a version of a memory or a block was made of."""
    for kind, source in sources:
        tx.later(_ADD, workspace=workspace, derived=derived, id=id, version=version, kind=kind, source=source)


def of(tx: Transaction, workspace: str, derived: str, id: int, version: int = checks.MAX_WHOLE) -> set[Thing]:
    """What a memory or a block was made of, over all its versions up to this one."""
    rows = tx.all(_OF, workspace=workspace, derived=derived, id=id, version=version)
    return {(kind, source) for kind, source in rows}


def mark_rebuilt(tx: Transaction, workspace: str, derived: str, id: int) -> None:
    """Clear the mark that forgetting had set: the thing was rebuilt from its sources."""
    tx.run(_NO_REBUILD, workspace=workspace, kind=derived, id=id)


def trust(tx: Transaction, workspace: str, sources: Sequence[Thing]) -> str:
    """The lowest trust among the sources. Without sources, and for a block, it is that of an agent."""
    found = [_trust_of(tx, workspace, kind, id) for kind, id in sources]
    return max(found, key=TRUSTS.index) if found else "agent"


def _trust_of(tx: Transaction, workspace: str, kind: str, id: int) -> str:
    unknown = {"exchange": ExchangeNotFound, "memory": MemoryNotFound, "block": BlockNotFound}
    if kind not in unknown:
        raise InvalidInput(f"A source is ('exchange', id), ('memory', id) or ('block', id), not {kind!r}.")
    checks.whole(id, "source id", least=1)
    if kind == "exchange":
        found = tx.value(_EXCHANGE, workspace=workspace, id=id)
    elif kind == "memory":
        found = tx.value(_MEMORY, workspace=workspace, id=id)
    else:
        found = tx.value(_BLOCK, workspace=workspace, id=id)
    if found is None:
        raise unknown[kind](f"There is no {kind} {id} in workspace {workspace!r} to be a source.")
    return str(found)
