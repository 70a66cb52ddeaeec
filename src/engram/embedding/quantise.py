"""Vectors in 8 bits, as the store keeps them: a quarter of the space.

Each vector is scaled to the full range. The scale is not stored, because a cosine depends only on directions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .rows import unit

if TYPE_CHECKING:
    import numpy.typing as npt

    from .protocol import Vectors

_LARGEST = 127


def to_int8(vectors: Vectors) -> npt.NDArray[np.int8]:
    """Quantise one vector, or rows of vectors. Zeros stay zeros."""
    largest: Vectors = np.abs(vectors).max(axis=-1, keepdims=True, initial=0)
    largest[largest == 0] = 1
    levels: Vectors = np.rint(vectors / largest * _LARGEST)
    return levels.astype(np.int8)


def from_int8(vectors: npt.NDArray[np.int8]) -> Vectors:
    """Unit vectors, so that a dot product is a cosine."""
    return unit(vectors.astype(np.float32))
