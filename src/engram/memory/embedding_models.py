"""Which model a workspace uses. Vectors from different models are not comparable.

The first process that writes a vector chooses the model, and reindexing changes it. Every transaction reads it again,
because another process may have reindexed. With the setting `auto` a process follows the workspace: each call asks
which model the workspace has now.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from ..errors import EmbedderFailed, StoreBusy, StoreError
from ..safe_text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..embedding import Embedder
    from ..storage.engine import Engine, Transaction

#: The setting that follows the workspace. The same as `embedding.AUTO`, which a hook need not import.
AUTO = "auto"
#: With fewer items than this, all vectors are compared, even if the engine has an index.
EXACT_BELOW = 50_000

MODEL = "SELECT model FROM models WHERE workspace = :workspace"
_CHOOSE = "INSERT INTO models (workspace, model) VALUES (:workspace, :model) ON CONFLICT (workspace) DO NOTHING"
_SIZE = "SELECT CAST(COALESCE(SUM(items), 0) AS BIGINT) FROM shelves WHERE workspace = :workspace"


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


def follow(engine: Engine, workspace: str) -> Embedder | None:
    """The embedder for the workspace's model; for a workspace without vectors the best one that is installed.

    EmbedderFailed or MissingExtra when this process cannot use the workspace's model.
    """
    from ..embedding import catalogue, load

    with engine.read() as tx:
        model = model_of(tx, workspace)
    choice = catalogue.resolve(model)
    embedder = load(choice)
    if embedder is not None and model not in (None, embedder.name):
        raise EmbedderFailed(changed_model(str(model), choice, embedder.name))
    return embedder


def changed_model(model: str, choice: str, now: str) -> str:
    """Why the vectors of a workspace do not fit its model on disk any more, and what to do."""
    from ..embedding import catalogue

    return (
        f"The workspace's vectors are of {one_line(model, 100)}, and {choice.partition(':')[2]} now has {now}. "
        f"To use the new one, type: {catalogue.command(choice)}"
    )


def other_given(workspace: str, used: str, model: str) -> str:
    """Why a process whose embedder is an object of the user cannot use the vectors of a workspace, and what to do."""
    return (
        f"The vectors of workspace {workspace} are of {one_line(used, 100)}, and the embedder given to Engram is "
        f"{one_line(model, 100)}. To give the workspace vectors of that embedder, call eng.reindex()."
    )


def other_model(workspace: str, used: str, model: str) -> str:
    """Why a process with a configured model cannot use the vectors of a workspace, and what to do."""
    choice = model if model.startswith("openai:") else model.partition(":")[0]
    choice = "onnx:FOLDER" if choice == "onnx" else choice
    return (
        f"The vectors of workspace {workspace} are of {one_line(used, 100)}, and the setting embedder chooses {model}. "
        f"To use the workspace's model, set ENGRAM_EMBEDDER=auto. To give the workspace the other model, type: engram "
        f"embedder use {choice}"
    )


_said: set[str] = set()
_reasons: ContextVar[list[str] | None] = ContextVar("reasons", default=None)


@contextmanager
def collected_reasons() -> Iterator[list[str]]:
    """Why the model could not be used within this block; empty if it could, or was not needed."""
    reasons: list[str] = []
    token = _reasons.set(reasons)
    try:
        yield reasons
    finally:
        _reasons.reset(token)


def warn_once(reason: str, consequence: str) -> None:
    """Log why a model cannot be used, once per process."""
    reasons = _reasons.get()
    if reasons is not None:
        reasons.append(reason)
    if reason in _said:
        return
    _said.add(reason)
    import logging

    logging.getLogger("engram.embedding").warning("%s %s", consequence, reason)


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
