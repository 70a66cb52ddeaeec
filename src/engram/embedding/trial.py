"""Tries an embedder before a workspace is changed to it."""

from __future__ import annotations

import numpy as np

from ..errors import EmbedderFailed
from . import load
from .protocol import Embedder

#: The first two mean the same in different words. The third one is about something else.
_SENTENCES = (
    "The cat sleeps on the sofa.",
    "A kitten is napping on the couch.",
    "The invoice is due at the end of March.",
)


def tried(choice: str) -> Embedder:
    """The embedder, after it has put two sentences of one meaning closer together than two of different meanings."""
    embedder = load(choice)
    assert embedder is not None
    vectors = embedder.embed(_SENTENCES)
    cosines = vectors @ vectors.T
    if not np.isfinite(cosines).all() or np.abs(cosines.diagonal() - 1).max() > 0.01:
        raise EmbedderFailed(f"{choice} gives vectors that are not of unit length. Nothing was changed.")
    if cosines[0, 1] <= cosines[0, 2]:
        same, other = _SENTENCES[1:]
        raise EmbedderFailed(
            f"{choice} finds “{_SENTENCES[0]}” closer to “{other}” than to “{same}”. So it is not a model for the "
            "meaning of sentences, or its files do not say how to use it. Nothing was changed."
        )
    return embedder
