"""Reranking: compares the best candidates again, token by token.

For each token of the question, the closest token of a candidate counts, weighted by the rarity of the question's word.
One vector for a whole text would blur these differences. A token in an adjacent turn counts too, for less, as it does
for words. Token vectors take a hundred times the space of the texts, so they are computed at query time and not stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..embedding import WeightedText
    from ..embedding.protocol import Vectors
    from .scoring import Item

#: The most candidates, and the most characters of them, that are compared. The time grows with both.
MOST = 50
MOST_CHARACTERS = 20_000
#: The weight of a token in an adjacent turn, by distance in turns.
_NEAR = {1: 0.7, 2: 0.6, 3: 0.5}


def closeness(question: WeightedText, items: Sequence[Item], tokens: Mapping[int, Vectors]) -> dict[int, float]:
    """The mean cosine of the question's tokens to each item's closest ones. `tokens` are by the item's number."""
    whole = float(question.weights.sum())
    if whole <= 0:
        return {}
    similar = [_similar(question, tokens[item.id]) for item in items]
    places = {(item.session_id, item.turn): position for position, item in enumerate(items) if item.turn is not None}
    values = {}
    for item, own in zip(items, similar, strict=True):
        best = own
        for distance, share in _NEAR.items() if item.turn is not None else ():
            for turn in (item.turn - distance, item.turn + distance):  # type: ignore[operator]
                beside = places.get((item.session_id, turn))
                if beside is not None:
                    best = np.maximum(best, share * similar[beside])
        values[item.id] = float(best @ question.weights) / whole
    return values


def _similar(question: WeightedText, tokens: Vectors) -> Vectors:
    """For each token of the question, its best cosine to any token of the text, or 0."""
    if len(tokens) == 0:
        return np.zeros(len(question.tokens), np.float32)
    best: Vectors = (question.tokens @ tokens.T).max(axis=1)
    return np.maximum(best, 0)
