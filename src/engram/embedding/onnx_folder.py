"""Any sentence-embedding model on disk: a folder with an ONNX graph and the files that sentence-transformers writes.

`model_files.py` reads how the model wants its texts: pooling, prefixes, length. A question and a stored text may have
different prefixes, so this embedder has `embed_query`.

The model's name has the hash of the graph, and a shorter hash of everything else that changes the vectors. The same
folder on another machine therefore has the same name, and a folder whose files were replaced has another one.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import EmbedderFailed
from . import folders
from .catalogue import command
from .lazy import Lazy
from .minilm import session
from .model_files import SENTENCE, ModelFiles, read
from .packages import loading, need
from .rows import checked, unit

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

    from .protocol import Vectors

#: Characters read per token that the model uses: far more than a token has.
_LONGEST_TOKEN = 64
_PACKAGES = ("onnxruntime", "tokenizers")
_UNKNOWN = ("[UNK]", "<unk>", "<UNK>", "[unk]")
_MASKS = ("attention_mask", "token_type_ids", "position_ids")
_INPUTS = {"input_ids", *_MASKS}
#: The outputs of a graph that have one vector for each token, the preferred ones first.
_TOKEN_OUTPUTS = ("last_hidden_state", "token_embeddings", "hidden", "hidden_states")
_WORKERS = min(2, os.cpu_count() or 1)
_WORTH_A_THREAD = 4
_INTEGERS: dict[str, type[np.signedinteger[Any]]] = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}


class _Model(NamedTuple):
    tokenizer: Tokenizer
    #: An onnxruntime.InferenceSession.
    session: Any
    #: The graph's inputs with their number type, and the output that is used.
    inputs: dict[str, type[np.signedinteger[Any]]]
    output: str
    #: The token for what the tokenizer does not know; None if it has none.
    unknown: int | None

    def run(self, encoding: Encoding) -> Vectors:
        values = {
            "input_ids": encoding.ids,
            "attention_mask": encoding.attention_mask,
            "token_type_ids": encoding.type_ids,
            "position_ids": range(len(encoding.ids)),
        }
        given = {name: np.array([list(values[name])], dtype) for name, dtype in self.inputs.items()}
        (found,) = self.session.run([self.output], given)
        result: Vectors = np.asarray(found[0], np.float32)
        return result

    def knows(self, encoding: Encoding) -> bool:
        return any(
            not special and id != self.unknown
            for id, special in zip(encoding.ids, encoding.special_tokens_mask, strict=True)
        )


class OnnxEmbedder:
    def __init__(self, folder: str) -> None:
        self._command = command(f"onnx:{folder}")
        need("onnx", _PACKAGES, self._command)
        self._files = read(folder)
        self.name = _name(self._files)
        self._model = Lazy(self._loaded)
        self._dims = 0

    @property
    def dims(self) -> int:
        if not self._dims:
            # Unknown words have a vector, too.
            self._dims = len(self._pooled(self._model(), "dimensions", ""))
        return self._dims

    def embed(self, texts: Sequence[str]) -> Vectors:
        usable = checked(texts, self._files.max_tokens * _LONGEST_TOKEN)
        if len(usable) < _WORTH_A_THREAD:
            rows = [self._vector(text, self._files.document_prefix) for text in usable]
        else:
            with ThreadPoolExecutor(_WORKERS, thread_name_prefix="engram-onnx") as pool:
                rows = list(pool.map(lambda text: self._vector(text, self._files.document_prefix), usable))
        return _stacked(rows, self)

    def embed_query(self, text: str) -> Vectors:
        (usable,) = checked([text], self._files.max_tokens * _LONGEST_TOKEN)
        row = self._vector(usable, self._files.query_prefix)
        return unit(row) if row is not None else np.zeros(self.dims, np.float32)

    def _vector(self, text: str, prefix: str) -> Vectors | None:
        """The text's vector, not of unit length yet; None for a text without known tokens."""
        model = self._model()
        if self._files.lower_case:
            text = text.lower()
        # Without the prefix, which would make every text known.
        return self._pooled(model, text, prefix) if model.knows(model.tokenizer.encode(text)) else None

    def _pooled(self, model: _Model, text: str, prefix: str) -> Vectors:
        encoding = model.tokenizer.encode(prefix + text)
        states = self._run(model, encoding)
        if states.ndim == 2:
            start = 0
            if prefix and not self._files.pools_prefix:
                # As sentence-transformers counts: all tokens of the prefix but its end token.
                start = min(len(model.tokenizer.encode(prefix).ids) - 1, len(states) - 1)
            states = pooled(states, self._files.pooling, start)
        if states.ndim != 1 or not np.isfinite(states).all():
            raise EmbedderFailed(f"{self._files.graph} gave something other than a vector of finite numbers.")
        return states

    def _run(self, model: _Model, encoding: Encoding) -> Vectors:
        try:
            return model.run(encoding)
        except Exception as error:  # onnxruntime raises its own classes, which share no base
            raise EmbedderFailed(f"{self._files.graph} cannot be run: {_reason(error)}") from error

    def _loaded(self) -> _Model:
        with loading("onnx", _PACKAGES, self._command):
            return self._load()

    def _load(self) -> _Model:
        import onnxruntime  # type: ignore[import-untyped]  # noqa: F401  # a damaged one is not the graph's fault
        from tokenizers import Tokenizer

        files = self._files
        try:
            tokenizer = Tokenizer.from_file(files.tokenizer)
        except Exception as error:  # the library raises plain Exception
            raise EmbedderFailed(f"{files.tokenizer} is not a tokenizer: {_reason(error)}") from error
        tokenizer.no_padding()
        tokenizer.enable_truncation(files.max_tokens)
        try:
            # By path, because a large model keeps its weights in a file beside the graph.
            opened = session(files.graph)
        except Exception as error:  # onnxruntime raises its own classes, which share no base
            raise EmbedderFailed(f"{files.graph} is not a graph that can be run: {_reason(error)}") from error
        unknown = next((id for id in map(tokenizer.token_to_id, _UNKNOWN) if id is not None), None)
        model = _Model(tokenizer, opened, _inputs(opened, files.graph), _output(opened, files), unknown)
        folders.remember(self.name, files.folder)
        return model


def pooled(states: Vectors, modes: Sequence[str], start: int = 0) -> Vectors:
    """One vector of the vectors of a text's tokens, from the token `start` on."""
    used = states[start:]
    weights = np.arange(start + 1, len(states) + 1, dtype=np.float32)
    found = {
        "cls": lambda: used[0],
        "mean": lambda: used.mean(axis=0),
        # The same direction as the mean.
        "mean_sqrt_len_tokens": lambda: used.mean(axis=0),
        "max": lambda: used.max(axis=0),
        "lasttoken": lambda: used[-1],
        "weightedmean": lambda: weights @ used / weights.sum(),
    }
    result: Vectors = np.concatenate([found[mode]() for mode in modes]).astype(np.float32)
    return result


def _stacked(rows: Sequence[Vectors | None], embedder: OnnxEmbedder) -> Vectors:
    known = next((len(row) for row in rows if row is not None), None)
    whole = np.zeros((len(rows), embedder.dims if known is None else known), np.float32)
    for target, row in zip(whole, rows, strict=True):
        if row is not None:
            target[:] = row
    return unit(whole)


def _name(files: ModelFiles) -> str:
    """`onnx:<folder's name>@<hash of the graph>-<hash of the rest>`."""
    rest = hashlib.sha256(repr(files.settings).encode())
    try:
        graph = folders.file_hash(files.graph)
        for path in [files.tokenizer, *files.weights]:
            rest.update(folders.file_hash(path).encode())
    except OSError as error:
        raise EmbedderFailed(f"{error.filename} cannot be read: {error.strerror}.") from error
    digest = f"{graph[:12]}-{rest.hexdigest()[:6]}"
    base = re.sub(r"[^\w.-]+", "-", os.path.basename(files.folder))[:60] or "model"
    return folders.known_name(digest) or f"onnx:{base}@{digest}"


def _inputs(opened: Any, graph: str) -> dict[str, type[np.signedinteger[Any]]]:
    inputs = {each.name: each.type for each in opened.get_inputs()}
    unknown = sorted(name for name, type in inputs.items() if name not in _INPUTS or type not in _INTEGERS)
    if unknown or "input_ids" not in inputs:
        wanted = f"wants {', '.join(unknown)}" if unknown else "takes no input_ids"
        raise EmbedderFailed(
            f"{graph} is not a sentence-embedding model: it {wanted}. Engram gives input_ids, {', '.join(_MASKS)} as "
            "integers."
        )
    return {name: _INTEGERS[type] for name, type in inputs.items()}


def _output(opened: Any, files: ModelFiles) -> str:
    """The output to use: a vector for the whole text if there is one, else the vectors of its tokens."""
    outputs = {each.name: len(each.shape) for each in opened.get_outputs()}
    if outputs.get(SENTENCE) == 2:
        return SENTENCE
    if files.unsupported:
        raise EmbedderFailed(
            f"{files.folder} has a module that Engram cannot run ({', '.join(files.unsupported)}). Export the model "
            f"with the output {SENTENCE}, which contains it."
        )
    tokens = [name for name in _TOKEN_OUTPUTS if outputs.get(name) == 3]
    tokens += [name for name, rank in outputs.items() if rank == 3]
    if tokens:
        return tokens[0]
    raise EmbedderFailed(
        f"{files.graph} is not a sentence-embedding model: it has no output {SENTENCE} or {_TOKEN_OUTPUTS[0]}. "
        f"It has {', '.join(outputs)}."
    )


def _reason(error: Exception) -> str:
    from ..safe_text import one_line

    return one_line(str(error), 300)
