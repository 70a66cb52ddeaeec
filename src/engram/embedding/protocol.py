"""The interface of an embedder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Vectors = npt.NDArray[np.float32]


class TokenVectors(NamedTuple):
    """A text, token by token."""

    #: Which tokens: the same number is the same token in every text of this embedder.
    ids: npt.NDArray[np.int32]
    #: Their vectors, one row each, of unit length.
    vectors: Vectors


class Part(NamedTuple):
    """A part of a text, and the weight of its tokens."""

    start: int
    end: int
    weight: float


class WeightedText(NamedTuple):
    """A text whose words have weights."""

    #: Its vector, of unit length; zeros for a text without known tokens.
    vector: Vectors
    #: Its tokens' vectors, one row each, of unit length, and the weight of each.
    tokens: Vectors
    weights: Vectors


class Embedder(Protocol):
    @property
    def name(self) -> str:
        """The provider and the model; stored with each vector."""

    @property
    def dims(self) -> int:
        """The length of a vector. An embedder that runs on a server asks the server once."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """A row of unit length for each text; a row of zeros for a text without known tokens. Never NaN."""


@runtime_checkable
class QueryEmbedder(Protocol):
    """An embedder that treats a question differently from the texts that may answer it."""

    def embed_query(self, text: str) -> Vectors:
        """The question's vector, of unit length; zeros for a text without known tokens."""


@runtime_checkable
class TokenEmbedder(Protocol):
    """An embedder that also compares texts token by token; test with `isinstance(embedder, TokenEmbedder)`."""

    def tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Each text's tokens, without those that the model adds; empty for a text without known tokens."""


@runtime_checkable
class WeightedEmbedder(Protocol):
    """An embedder that also gives the words of a text different weights."""

    def weighted(self, text: str, parts: Sequence[Part]) -> WeightedText:
        """Embed the text as a whole. A token has the weight of the part that it is in, and none outside of all parts.

        Parts are in order and do not overlap. If no token has a weight, all have the same.
        """
