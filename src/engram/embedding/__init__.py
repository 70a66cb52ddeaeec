"""Texts to vectors: one protocol, one module per provider.

`load` returns the embedder that the user chose. The embedder loads its model when it first embeds a text. Importing
this package does not import numpy, so hooks and the MCP handshake may import it.

A vector is stored with its embedder's name. Vectors from different models are not comparable, so any change to the
vectors of a provider must change its name.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from .. import checks
from ..errors import InvalidInput
from .protocol import Embedder, Part, TokenEmbedder, TokenVectors, WeightedEmbedder, WeightedText

__all__ = ["Embedder", "Part", "TokenEmbedder", "TokenVectors", "WeightedEmbedder", "WeightedText", "load"]

DEFAULT = "static"
DEFAULT_OPENAI_MODEL = "text-embedding-3-small"
OPENAI_MODEL_VARIABLE = "ENGRAM_OPENAI_EMBEDDING_MODEL"


def load(choice: str = DEFAULT) -> Embedder | None:
    """The embedder of that name, one object per process; None for "none", which means words only."""
    provider, _, model = choice.partition(":")
    if choice == "none":
        return None
    if provider == "openai":
        model = checks.name(model if ":" in choice else _openai_model(), "the model of the openai embedder")
        return _once(f"openai:{model}", lambda: _openai(model))
    if choice == "static":
        return _once(choice, _static)
    if choice == "minilm":
        return _once(choice, _minilm)
    raise InvalidInput(f"There is no embedder {choice!r}. Choose static, minilm, openai, openai:MODEL or none.")


_loaded: dict[str, Embedder] = {}


def _once(key: str, make: Callable[[], Embedder]) -> Embedder:
    # Two threads may each make one. That costs nothing before a model is loaded, and setdefault keeps the first.
    return _loaded.get(key) or _loaded.setdefault(key, make())


def _openai_model() -> str:
    return os.environ.get(OPENAI_MODEL_VARIABLE) or DEFAULT_OPENAI_MODEL


def _static() -> Embedder:
    from .static import StaticEmbedder

    return StaticEmbedder()


def _minilm() -> Embedder:
    from .minilm import MiniLMEmbedder

    return MiniLMEmbedder()


def _openai(model: str) -> Embedder:
    from .openai import OpenAIEmbedder

    return OpenAIEmbedder(model)
