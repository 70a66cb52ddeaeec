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
from . import catalogue
from .catalogue import AUTO
from .protocol import Embedder, Part, QueryEmbedder, TokenEmbedder, TokenVectors, WeightedEmbedder, WeightedText

__all__ = [
    "AUTO",
    "Embedder",
    "Part",
    "QueryEmbedder",
    "TokenEmbedder",
    "TokenVectors",
    "WeightedEmbedder",
    "WeightedText",
    "concrete",
    "load",
]

DEFAULT = AUTO
_OFFERED = "auto, static, minilm, openai, openai:MODEL, onnx:FOLDER or none"
DEFAULT_OPENAI_MODEL = "text-embedding-3-small"
OPENAI_MODEL_VARIABLE = "ENGRAM_OPENAI_EMBEDDING_MODEL"


def load(choice: str = DEFAULT) -> Embedder | None:
    """The embedder of that name, one object per process; None for "none", which means words only.

    "auto" is the best that is installed. `catalogue.resolve` finds the one that fits a workspace.
    """
    if choice == "none":
        return None
    choice = concrete(choice)
    provider, _, rest = choice.partition(":")
    if provider == "openai":
        return _once(choice, lambda: _openai(rest))
    if provider == "onnx":
        return _once(choice, lambda: _onnx(rest))
    return _once(choice, _static if choice == "static" else _minilm)


def concrete(choice: str, offered: str = _OFFERED) -> str:
    """A choice in full: with the model of `openai`, the absolute folder of `onnx:`, and the best one for `auto`.

    InvalidInput for another name says what is offered.
    """
    provider, colon, rest = choice.partition(":")
    if choice == AUTO:
        return catalogue.best()
    if choice in ("static", "minilm", "none"):
        return choice
    if provider == "openai":
        return f"openai:{checks.name(rest if colon else _openai_model(), 'the model of the openai embedder')}"
    if provider == "onnx" and rest.strip():
        if not rest.isprintable():
            raise InvalidInput("The folder of the onnx embedder has a control character in its name.")
        return f"onnx:{os.path.abspath(os.path.expanduser(rest))}"
    raise InvalidInput(f"There is no embedder {choice!r}. Choose {offered}.")


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


def _onnx(folder: str) -> Embedder:
    from .onnx_folder import OnnxEmbedder

    return OnnxEmbedder(folder)
