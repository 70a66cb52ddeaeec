"""What all embedders do with their input and their output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .. import checks
from ..errors import InvalidInput

if TYPE_CHECKING:
    from .protocol import Vectors


def checked(texts: Sequence[str], longest: int) -> list[str]:
    """The texts, cut to what the model can use of them."""
    if isinstance(texts, str):
        raise InvalidInput("embed takes a list of texts, not one text.")
    return [checks.text(text, "a text to embed", empty=True)[:longest] for text in texts]


def unit(rows: Vectors) -> Vectors:
    """The rows at unit length; a row of zeros has no direction and stays."""
    lengths: Vectors = np.linalg.norm(rows, axis=-1, keepdims=True)
    lengths[lengths == 0] = 1
    return np.divide(rows, lengths, dtype=np.float32)
