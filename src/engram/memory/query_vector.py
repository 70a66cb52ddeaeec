"""What a query means to a model: its vector, with its words weighted by how rare they are in this workspace."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from . import analyser

if TYPE_CHECKING:
    from ..embedding import Embedder, WeightedText
    from ..embedding.protocol import Vectors
    from ..storage.engine import Transaction
    from .scoring import Query, Weights

#: What a stop word counts when a query's meaning is made of its words.
_PLAIN = 0.1
#: Of a pasted text the first words say enough.
_MOST_TOKENS = 500
#: With so many turns, half of what they have in common is taken for what is common.
_FEW = 32

#: What was said last, which is what the next question is most likely mixed up with.
_LATELY = """
SELECT v.vector
FROM (SELECT id FROM exchanges WHERE workspace = :workspace AND role <> 'log'
      ORDER BY created_at DESC, id DESC LIMIT 256) e
JOIN items i ON i.kind = 'exchange' AND i.ref = e.id AND i.piece = 0
JOIN vectors v ON v.item = i.id AND v.model = :model
"""


def background(tx: Transaction, workspace: str, embedder: Embedder | None, weights: Weights) -> Vectors | None:
    """What the turns said lately have in common, as much of it as is to be taken off a query's meaning."""
    if embedder is None or not weights.background:
        return None
    rows = tx.all(_LATELY, workspace=workspace, model=embedder.name)
    if not rows:
        return None
    import numpy as np

    from ..embedding.quantise import from_int8

    stored = np.frombuffer(b"".join(bytes(row[0]) for row in rows), np.int8).reshape(len(rows), -1)
    # A few turns say little about what is common.
    share = weights.background * len(rows) / (len(rows) + _FEW)
    common: Vectors = from_int8(stored).mean(axis=0) * share
    return common


def understand(embedder: Embedder, asked: Query, query: str, weights: Weights, common: Vectors | None) -> WeightedText:
    """The query's meaning, its words weighted by how rare they are: a name that is everywhere says little."""
    from ..embedding import Part, WeightedEmbedder, WeightedText

    if isinstance(embedder, WeightedEmbedder):
        places = list(islice(analyser.places(query), _MOST_TOKENS))
        parts = [Part(start, end, _rarity(asked, query[start:end], weights)) for start, end in places]
        meant = embedder.weighted(query[: places[-1][1]] if len(places) == _MOST_TOKENS else query, parts)
    else:
        vector = embedder.embed([query])[0]
        meant = WeightedText(vector, vector[None, :0], vector[:0])
    # Its length does not matter: what is compared is how far each item is from the mean of them all.
    return meant if common is None else meant._replace(vector=meant.vector - common)


def _rarity(asked: Query, word: str, weights: Weights) -> float:
    """What a word counts, by the rarest of its terms."""
    counts = [asked.found.get(term, 0) for term in analyser.terms(word)]
    if not counts:
        return _PLAIN
    return weights.common / (weights.common + min(counts) / max(asked.items, 1))
