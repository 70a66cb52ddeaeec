"""The vector of a query, with its words weighted by how rare they are in the workspace."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from . import analyser

if TYPE_CHECKING:
    from ..embedding import Embedder, WeightedText
    from ..embedding.protocol import Vectors
    from ..storage.engine import Answer, Transaction
    from .scoring import Query, Weights

#: Weight of a stop word in a query's vector, in a store of many items. With so many items it is half-way between this
#: and the weight of other words: a small store does not tell which words matter.
_PLAIN, _PLAIN_ITEMS = 0.1, 16
#: Words of a query that are used; enough for a pasted text.
_MOST_TOKENS = 500
#: With this many turns, half of what they have in common counts as background.
_FEW = 32

#: The latest turns, which the next question is most likely confused with.
_LATELY = """
SELECT v.vector
FROM (SELECT id FROM exchanges WHERE workspace = :workspace AND role <> 'log'
      ORDER BY created_at DESC, id DESC LIMIT 256) e
JOIN items i ON i.kind = 'exchange' AND i.ref = e.id AND i.piece = 0
JOIN vectors v ON v.item = i.id AND v.model = :model
"""


def ask_background(tx: Transaction, workspace: str, embedder: Embedder | None, weights: Weights) -> Answer | None:
    """Ask for the vectors of the latest turns, for `background`."""
    if embedder is None or not weights.background:
        return None
    return tx.ask(_LATELY, workspace=workspace, model=embedder.name)


def background(asked: Answer | None, weights: Weights) -> Vectors | None:
    """What the latest turns have in common, scaled to what is subtracted from a query's vector."""
    latest = asked.column() if asked else []
    if not latest:
        return None
    import numpy as np

    from ..embedding.quantise import from_int8

    # An import may have brought vectors of a wrong length. `understand` does without if all have it.
    lengths = [len(vector) for vector in latest]
    usual = max(set(lengths), key=lengths.count)
    latest = [vector for vector in latest if len(vector) == usual]
    stored = np.frombuffer(b"".join(map(bytes, latest)), np.int8).reshape(len(latest), -1)
    # A few turns say little about what is common.
    share = weights.background * len(latest) / (len(latest) + _FEW)
    common: Vectors = from_int8(stored).mean(axis=0) * share
    return common


def understand(embedder: Embedder, asked: Query, query: str, weights: Weights, common: Vectors | None) -> WeightedText:
    """The query's vector. Its words are weighted by rarity, because a name that is everywhere says little."""
    from ..embedding import Part, QueryEmbedder, WeightedEmbedder, WeightedText

    if isinstance(embedder, WeightedEmbedder):
        places = list(islice(analyser.places(query), _MOST_TOKENS))
        parts = [Part(start, end, _rarity(asked, query[start:end], weights)) for start, end in places]
        used = query
        if len(places) == _MOST_TOKENS:
            _, end = places[-1]
            used = query[:end]
        meant = embedder.weighted(used, parts)
    else:
        if isinstance(embedder, QueryEmbedder):
            vector = embedder.embed_query(query)
        else:
            (vector,) = embedder.embed([query])
        meant = WeightedText(vector, vector[None, :0], vector[:0])
    if common is None or common.shape != meant.vector.shape:
        return meant
    from ..embedding.rows import unit

    # Of unit length again, because cosines are compared with the model's own.
    return meant._replace(vector=unit((meant.vector - common)[None, :])[0])


def _rarity(asked: Query, word: str, weights: Weights) -> float:
    """The weight of a word, by the rarest of its terms."""
    counts = [asked.found.get(term, 0) for term in analyser.terms(word)]
    if not counts:
        return _PLAIN + (1 - _PLAIN) * _PLAIN_ITEMS / (asked.items + _PLAIN_ITEMS)
    return weights.common / (weights.common + min(counts) / max(asked.items, 1))
