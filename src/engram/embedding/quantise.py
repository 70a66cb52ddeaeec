"""Vectors in 8 bits, as the store keeps them: a quarter of the space, and the direction is all that counts.

Each vector is stretched to the full range by itself. By how much is not kept, because the cosine does not change when
a vector is made longer or shorter.
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
    """One vector or rows of them; zeros stay zeros."""
    largest: Vectors = np.abs(vectors).max(axis=-1, keepdims=True, initial=0)
    largest[largest == 0] = 1
    levels: Vectors = np.rint(vectors / largest * _LARGEST)
    return levels.astype(np.int8)


def from_int8(vectors: npt.NDArray[np.int8]) -> Vectors:
    """The unit vectors again, so that a dot product is a cosine."""
    return unit(vectors.astype(np.float32))
