"""Checks and calculations that all embedders share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .. import checks
from ..errors import InvalidInput

if TYPE_CHECKING:
    from .protocol import Part, Vectors


def checked(texts: Sequence[str], longest: int) -> list[str]:
    """The texts, checked and cut to the length that the model uses."""
    if isinstance(texts, str):
        raise InvalidInput("embed takes a list of texts, not one text. Write embed([text]).")
    return [checks.text(text, "a text to embed", empty=True)[:longest] for text in texts]


def unit(rows: Vectors) -> Vectors:
    """The rows at unit length. A row of zeros stays as it is."""
    lengths: Vectors = np.linalg.norm(rows, axis=-1, keepdims=True)
    lengths[lengths == 0] = 1
    return np.divide(rows, lengths, dtype=np.float32)


def counting(places: Sequence[tuple[int, int]], parts: Sequence[Part]) -> Vectors:
    """The weight of each token: that of the part with its last character. Some tokens begin with a space."""
    weights = np.zeros(len(places), np.float32)
    if places and parts:
        starts, ends, given = (np.array(column) for column in zip(*parts, strict=True))
        first, last = np.array(places).T[0], np.array(places).T[1] - 1
        part = np.searchsorted(starts, last, "right") - 1
        inside = (part >= 0) & (last >= first) & (last < ends[part])
        weights[inside] = given[part[inside]]
    return weights
