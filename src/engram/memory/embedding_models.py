"""Which model a workspace is searched with; vectors of two models have nothing to say to each other.

The first process that writes a vector chooses it, and reindexing changes it. It is read anew in every transaction: what
a process remembered would be wrong as soon as another one has reindexed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import StoreBusy, StoreError

if TYPE_CHECKING:
    from ..storage.engine import Engine, Transaction

#: Shelves with fewer items are compared whole, also where the engine has an index for more.
EXACT_BELOW = 50_000

MODEL = "SELECT model FROM models WHERE workspace = :workspace"
_CHOOSE = "INSERT INTO models (workspace, model) VALUES (:workspace, :model) ON CONFLICT (workspace) DO NOTHING"
_SIZE = "SELECT COALESCE(SUM(items), 0) FROM shelves WHERE workspace = :workspace"


def model_of(tx: Transaction, workspace: str) -> str | None:
    """The model a workspace is searched with; None before the first vector."""
    row = tx.one(MODEL, workspace=workspace)
    return row[0] if row else None


def choose(tx: Transaction, workspace: str, wanted: str) -> str:
    """The model a workspace is searched with, which is the one wanted if there is none yet."""
    model = model_of(tx, workspace)
    if model is None:
        tx.run(_CHOOSE, workspace=workspace, model=wanted)
        # Another writer may have been faster.
        model = model_of(tx, workspace)
        assert model is not None
    return model


def keep_indexed(engine: Engine, workspace: str, *more: str) -> None:
    """Have the engine index the vectors of a large workspace, those of its model and of those named beside it.

    Takes long once in a while, so it belongs where much is written, never into a transaction.
    """
    if engine.joined:
        return
    with engine.read() as tx:
        model = model_of(tx, workspace)
        size = tx.all(_SIZE, workspace=workspace)[0][0]
    if model is None or size < EXACT_BELOW:
        return
    try:
        engine.index_vectors(workspace, list(dict.fromkeys([model, *more])))
    except (StoreBusy, StoreError) as error:
        import logging

        logging.getLogger("engram.storage").warning("no index of %s's vectors, all are compared: %s", workspace, error)
