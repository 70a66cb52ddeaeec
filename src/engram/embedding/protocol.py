"""What an embedder is, whatever provides it."""

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
    """A stretch of a text, and how much what is said there counts."""

    start: int
    end: int
    weight: float


class WeightedText(NamedTuple):
    """A text whose words count for more or less."""

    #: Its vector, of unit length; zeros for a text that says nothing.
    vector: Vectors
    #: Its tokens' vectors, one row each, of unit length, and what each counts.
    tokens: Vectors
    weights: Vectors


class Embedder(Protocol):
    @property
    def name(self) -> str:
        """What is stored with each vector: provider and model."""

    @property
    def dims(self) -> int:
        """The length of a vector; an embedder that learns it from a server asks there once."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """A row of unit length for each text; of zeros for a text that says nothing to the model. Never NaN."""


@runtime_checkable
class TokenEmbedder(Protocol):
    """What an embedder also is if it can compare texts token by token: `isinstance(embedder, TokenEmbedder)`."""

    def tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Each text's tokens, without those the model adds itself; none for a text that says nothing to it."""


@runtime_checkable
class WeightedEmbedder(Protocol):
    """What an embedder also is if the words of a text can count for more or less."""

    def weighted(self, text: str, parts: Sequence[Part]) -> WeightedText:
        """The text read as a whole, its tokens counting as the part they are in does; outside of all parts nothing.

        Parts are in order and do not overlap. If nothing would count, everything does.
        """
