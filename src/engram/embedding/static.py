"""WordLlama's table of word vectors: no network, no transformer, a few hundredths of a millisecond per text.

The vector of a text is the mean of its tokens' vectors. It ignores order and context, but is cheap enough to compute
for every turn that is written. The table comes in the package `wordllama`. The package's own loader (0.4.0) looks for
the tokenizer in a folder that the package does not have, and then on the network, so it is not used.

The table is mapped from its file, which has 16 bits per number. Converting all of it to 32 bits takes a tenth of a
second and 32 MB, and most processes embed one query. A row is therefore converted when it is first used.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..errors import EmbedderFailed
from .catalogue import STATIC_MODEL
from .lazy import Lazy
from .packages import folder, loading, need, tensors
from .protocol import TokenVectors, WeightedText
from .rows import checked, counting, unit

if TYPE_CHECKING:
    import numpy.typing as npt
    from tokenizers import Tokenizer

    from .protocol import Part, Vectors

    Ids = npt.NDArray[np.int32]

_MODEL = STATIC_MODEL.removeprefix("static:")
_WORDS = 32_000
_DIMS = 256
_INSTALL = "pip install 'wordllama>=0.4,<0.5'"
_TENSOR = "embedding.weight"
#: The tokenizer's folder in the releases of the package.
_TOKENIZERS = ("tokenizers", "tokenizer")
#: `<unk>`, `<s>` and `</s>` come first. A text has them only if it spells them out.
_SPECIAL = 3
#: Characters read per text. More would hardly change the mean.
_LONGEST = 100_000
#: Texts tokenized at once; more would only take memory.
_BATCH = 256


class _Table:
    """The vectors by token, converted to 32 bits on first use."""

    def __init__(self, mapped: npt.NDArray[np.float16]) -> None:
        self._mapped = mapped
        # The operating system provides memory only for rows that are written.
        self._wide = np.empty(mapped.shape, np.float32)
        self._widened = np.zeros(len(mapped), np.bool_)

    def rows(self, ids: Ids) -> Vectors:
        new = ids[~self._widened[ids]]
        if new.size:
            # Two threads may both convert a row, with the same result. The mark is set last.
            self._wide[new] = self._mapped[new]
            self._widened[new] = True
        return self._wide[ids]


class _Model(NamedTuple):
    tokenizer: Tokenizer
    table: _Table


class StaticEmbedder:
    name = STATIC_MODEL
    dims = _DIMS

    def __init__(self) -> None:
        need("static", ("wordllama", "tokenizers"), _INSTALL)
        self._model = Lazy(_loaded)

    def embed(self, texts: Sequence[str]) -> Vectors:
        table = self._model().table
        rows = np.zeros((len(texts), _DIMS), np.float32)
        for row, ids in zip(rows, self._ids(texts), strict=True):
            table.rows(ids).sum(axis=0, out=row)
        return unit(rows)

    def tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        table = self._model().table
        return [TokenVectors(ids, unit(table.rows(ids))) for ids in self._ids(texts)]

    def weighted(self, text: str, parts: Sequence[Part]) -> WeightedText:
        model = self._model()
        (usable,) = checked([text], _LONGEST)
        encoding = model.tokenizer.encode(usable, add_special_tokens=False)
        ids = np.array(encoding.ids, np.int32)
        known = ids >= _SPECIAL
        rows = model.table.rows(ids[known])
        weights = counting(encoding.offsets, parts)[known]
        if not weights.any():
            weights[:] = 1
        # The lengths of the table's vectors matter, as in `embed`: a token that means more has a longer one.
        return WeightedText(unit(weights @ rows), unit(rows), weights)

    def _ids(self, texts: Sequence[str]) -> Iterator[Ids]:
        tokenizer = self._model().tokenizer
        # A text of spaces has a token for them, but no meaning.
        usable = [text if text.strip() else "" for text in checked(texts, _LONGEST)]
        for start in range(0, len(usable), _BATCH):
            batch = usable[start : start + _BATCH]
            for encoding in tokenizer.encode_batch_fast(batch, add_special_tokens=False):
                ids = np.array(encoding.ids, np.int32)
                yield ids[ids >= _SPECIAL]


def _loaded() -> _Model:
    with loading("static", ("tokenizers",), _INSTALL):
        return _load()


def _load() -> _Model:
    from tokenizers import Tokenizer

    package = folder("wordllama")
    candidates = [os.path.join(package, name, "l2_supercat_tokenizer_config.json") for name in _TOKENIZERS]
    tokenizer = next(filter(os.path.isfile, candidates), None)
    if tokenizer is None:
        raise EmbedderFailed(
            f"wordllama has no tokenizer at {candidates[0]}. Install the release that has it: {_INSTALL}"
        )
    path = os.path.join(package, "weights", f"{_MODEL}.safetensors")
    table = tensors(path).get(_TENSOR)
    if table is None or table.dtype != np.float16 or table.shape != (_WORDS, _DIMS):
        raise EmbedderFailed(f"{path} does not hold the expected table. Install the release that has it: {_INSTALL}")
    return _Model(Tokenizer.from_file(tokenizer), _Table(table))
