"""Reranking: the best candidates once more, token by token.

For each token of the question the closest token of a candidate counts, by how rare the question's word is; one vector
for a whole text blurs what this keeps apart. A turn close by may hold that token too, for less, as with words. Texts
are read at query time, since token vectors would take a hundred times the room of the texts; nothing of them is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..embedding import WeightedText
    from ..embedding.protocol import Vectors
    from .scoring import Item

#: At most so many candidates, and so many characters of them, are compared: the time it takes grows with both.
MOST = 50
MOST_CHARACTERS = 20_000
#: What a token in a turn close by is worth, by how many turns it is away.
_NEAR = {1: 0.7, 2: 0.6, 3: 0.5}


def closeness(question: WeightedText, items: Sequence[Item], tokens: Mapping[int, Vectors]) -> dict[int, float]:
    """How close each item is, from 0 for the least of them to 1 for the best; `tokens` by the item's number."""
    if len(question.tokens) == 0 or len(items) < 2:
        return {}
    similar = [_similar(question, tokens[item.id]) for item in items]
    places = {(item.session_id, item.turn): position for position, item in enumerate(items) if item.turn is not None}
    values = []
    for item, own in zip(items, similar, strict=True):
        best = own
        for distance, share in _NEAR.items() if item.turn is not None else ():
            for turn in (item.turn - distance, item.turn + distance):  # type: ignore[operator]
                beside = places.get((item.session_id, turn))
                if beside is not None:
                    best = np.maximum(best, share * similar[beside])
        values.append(float(best @ question.weights))
    least, most = min(values), max(values)
    return {
        item.id: (value - least) / (most - least) for item, value in zip(items, values, strict=True) if most > least
    }


def _similar(question: WeightedText, tokens: Vectors) -> Vectors:
    """For each token of the question, its best cosine to any of the text's, or 0."""
    if len(tokens) == 0:
        return np.zeros(len(question.tokens), np.float32)
    best: Vectors = (question.tokens @ tokens.T).max(axis=1)
    return np.maximum(best, 0)
