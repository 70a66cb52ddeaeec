"""Vectors that a caller brings, from another system that used the workspace's model.

They are accepted only if the caller names that model and their length is right: vectors from different models are not
comparable, and a wrong one would be noticed late or never. They are stored like our own, in eight bits. A text that is
cut into pieces needs a vector for each, so the one vector of such a text is not used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import checks
from ..errors import EmbedderFailed, InvalidInput, MissingExtra
from ..safe_text import one_line
from .embedding_models import model_of
from .embedding_queue import EmbeddingQueue, Vectors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..embedding import Embedder
    from ..store_view import StoreView
    from .word_index import Piece

_STORED = """
SELECT v.vector FROM items i JOIN vectors v ON v.item = i.id AND v.model = :model
WHERE i.workspace = :workspace LIMIT 1
"""


class GivenVectors:
    """Checks vectors of a model that the caller names. Asks for the workspace's model when the first one comes."""

    def __init__(self, view: StoreView, model: str | None) -> None:
        self._view = view
        self._named = checks.optional_name(model, "model")
        #: The name of the workspace's model, and how many numbers its vectors have.
        self._used: tuple[str, int] | None = None

    def check(self) -> None:
        """InvalidInput unless the model is the workspace's."""
        self._used = self._workspace_model()

    def row(self, vector: Sequence[float], pieces: Sequence[Piece] | None) -> Vectors | None:
        """The vector as it is stored. None if the text has not exactly one piece, and for a log."""
        if self._used is None:
            self._used = self._workspace_model()
        model, length = self._used
        made = _quantised(vector, length, model)
        return Vectors(model, [made]) if pieces is not None and len(pieces) == 1 else None

    def _workspace_model(self) -> tuple[str, int]:
        if self._named is None:
            raise InvalidInput("A vector is given without its model. Name the embedding model it comes from (model=…).")
        workspace = self._view.workspace
        with self._view.engine.read() as tx:
            model = model_of(tx, workspace)
            stored = None if model is None else tx.value(_STORED, workspace=workspace, model=model)
        embedder = None if stored is not None else self._embedder()
        model = model or (embedder.name if embedder else None)
        if model is None:
            raise InvalidInput(
                f"Workspace {workspace!r} has no embedding model, so vectors of {one_line(self._named, 100)} cannot be "
                "used. Leave the vectors out."
            )
        if not _is_model(self._named, model):
            raise InvalidInput(
                f"The vectors are of {one_line(self._named, 100)}, and workspace {workspace!r} uses "
                f"{one_line(model, 100)}. Leave the vectors out: the embedding queue computes them."
            )
        if stored is not None:
            return model, len(stored)
        if embedder is None or embedder.name != model:
            raise InvalidInput(f"{one_line(model, 100)} cannot be used here, so its vectors cannot be checked.")
        return model, embedder.dims

    def _embedder(self) -> Embedder | None:
        try:
            return EmbeddingQueue(self._view).embedder()
        except (EmbedderFailed, MissingExtra):
            return None


def _is_model(named: str, model: str) -> bool:
    """Whether a caller means this model: by its name, or by that of its embedder, such as `minilm`."""
    from ..embedding import catalogue

    return named in (model, catalogue.choice_of(model))


def _quantised(vector: Sequence[float], length: int, model: str) -> bytes:
    import numpy as np

    from ..embedding.quantise import to_int8
    from ..embedding.rows import unit

    try:
        with np.errstate(over="ignore"):
            row = np.asarray(vector, np.float32)
    except (TypeError, ValueError):
        raise InvalidInput("vector must be a sequence of numbers.") from None
    if row.shape != (length,):
        shape = " x ".join(map(str, row.shape)) or "one number"
        raise InvalidInput(f"vector has the shape {shape}; those of {one_line(model, 100)} have {length} numbers.")
    if np.count_nonzero(np.isfinite(row)) < length:
        raise InvalidInput("vector has a number that is not finite.")
    made: bytes = to_int8(unit(row)).tobytes()
    return made
