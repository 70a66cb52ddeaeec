"""Which model a workspace uses. Vectors from different models are not comparable.

The first process that writes a vector chooses the model, and reindexing changes it. Every transaction reads it again,
because another process may have reindexed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import StoreBusy, StoreError

if TYPE_CHECKING:
    from ..storage.engine import Engine, Transaction

#: With fewer items than this, all vectors are compared, even if the engine has an index.
EXACT_BELOW = 50_000

MODEL = "SELECT model FROM models WHERE workspace = :workspace"
_CHOOSE = "INSERT INTO models (workspace, model) VALUES (:workspace, :model) ON CONFLICT (workspace) DO NOTHING"
_SIZE = "SELECT COALESCE(SUM(items), 0) FROM shelves WHERE workspace = :workspace"


def model_of(tx: Transaction, workspace: str) -> str | None:
    """The model that a workspace uses; None before the first vector."""
    model: str | None = tx.value(MODEL, workspace=workspace)
    return model


def choose(tx: Transaction, workspace: str, wanted: str) -> str:
    """The model that a workspace uses. If it has none yet, the wanted one becomes it."""
    model = model_of(tx, workspace)
    if model is None:
        tx.run(_CHOOSE, workspace=workspace, model=wanted)
        # Another writer may have been faster.
        model = model_of(tx, workspace)
        assert model is not None
    return model


def keep_indexed(engine: Engine, workspace: str, *more: str) -> None:
    """Have the engine index the vectors of a large workspace, for its model and the models named in `more`.

    This may take long. Call it where much is written, never inside a transaction.
    """
    if engine.joined:
        return
    with engine.read() as tx:
        model = model_of(tx, workspace)
        size = tx.value(_SIZE, workspace=workspace)
    if model is None or size < EXACT_BELOW:
        return
    try:
        engine.index_vectors(workspace, list(dict.fromkeys([model, *more])))
    except (StoreBusy, StoreError) as error:
        import logging

        logging.getLogger("engram.storage").warning("no index of %s's vectors, all are compared: %s", workspace, error)
