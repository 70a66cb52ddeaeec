"""all-MiniLM-L6-v2 in plain numpy and full precision, written from the paper: the reference for the quantised graph."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file
from tokenizers import Tokenizer

Array = npt.NDArray[Any]

_erf = np.vectorize(math.erf, otypes=[np.float64])


class Reference:
    def __init__(self, folder: Path) -> None:
        self._weights = load_file(folder / "model.safetensors")
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(256)

    def embed(self, text: str) -> Array:
        mean: Array = self.hidden(text).mean(axis=0)
        mean /= np.linalg.norm(mean)
        return mean

    def hidden(self, text: str) -> Array:
        ids = self._tokenizer.encode(text).ids
        weights = self._weights
        words = weights["embeddings.word_embeddings.weight"][ids].astype(np.float64)
        places = weights["embeddings.position_embeddings.weight"][: len(ids)]
        state = self._normal(
            words + places + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm"
        )
        for layer in range(6):
            name = f"encoder.layer.{layer}"
            attended = self._dense(self._attend(state, f"{name}.attention.self"), f"{name}.attention.output.dense")
            state = self._normal(state + attended, f"{name}.attention.output.LayerNorm")
            wide = self._dense(state, f"{name}.intermediate.dense")
            active = wide * (1 + _erf(wide / math.sqrt(2))) / 2
            state = self._normal(state + self._dense(active, f"{name}.output.dense"), f"{name}.output.LayerNorm")
        return state

    def _attend(self, state: Array, name: str) -> Array:
        query, key, value = (
            self._dense(state, f"{name}.{part}").reshape(len(state), 12, 32).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        scores = np.exp(query @ key.transpose(0, 2, 1) / math.sqrt(32))
        shares: Array = scores / scores.sum(axis=-1, keepdims=True)
        together: Array = (shares @ value).transpose(1, 0, 2).reshape(len(state), 384)
        return together

    def _dense(self, state: Array, name: str) -> Array:
        product: Array = state @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        return product

    def _normal(self, state: Array, name: str) -> Array:
        centred: Array = state - state.mean(axis=-1, keepdims=True)
        spread: Array = np.sqrt(centred.var(axis=-1, keepdims=True) + 1e-12)
        result: Array = centred / spread * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return result
