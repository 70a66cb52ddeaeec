"""Any endpoint with OpenAI's protocol, through OpenAI's SDK: OpenAI itself, a company's gateway, a local server.

The key and the address come from the SDK's own variables (OPENAI_API_KEY, OPENAI_BASE_URL). The model comes from the
setting. The SDK retries; its final failure becomes `EmbedderFailed`. Servers differ, and a wrong vector in the store
would go unnoticed, so every answer is checked: one row per text, in order, finite, all of the same length.

The key never appears in a message. An endpoint that refuses a key may quote it, so its errors are not passed on as they
are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import numpy as np

from ..errors import EmbedderFailed
from .lazy import Lazy
from .packages import loading, need
from .rows import checked, unit

if TYPE_CHECKING:
    from openai import OpenAI

    from .protocol import Vectors

_KEY_VARIABLE = "OPENAI_API_KEY"
#: OpenAI accepts 8,191 tokens per text and 300,000 per request. A token has at least one byte, so these always fit.
_MAX_BYTES = 8_000
_MAX_BATCH_BYTES = 290_000
_MAX_BATCH = 128
_RETRIES = 3
_TIMEOUT = 30.0
_CONNECT_TIMEOUT = 5.0
#: Characters of a server's own message that are shown.
_MAX_REASON = 300


class OpenAIEmbedder:
    def __init__(self, model: str, *, timeout: float = _TIMEOUT, retries: int = _RETRIES) -> None:
        need("openai", ("openai",), "engram embedder use openai")
        self.name = f"openai:{model}"
        self._model = model
        self._timeout = timeout
        self._retries = retries
        self._client = Lazy(self._connect)
        #: Known from the first answer on; 0 before.
        self._dims = 0

    @property
    def dims(self) -> int:
        if not self._dims:
            self.embed(["dimensions"])
        return self._dims

    def embed(self, texts: Sequence[str]) -> Vectors:
        usable = [_cut(text) for text in checked(texts, _MAX_BYTES)]
        # The protocol has no vector for an empty text.
        said = [position for position, text in enumerate(usable) if text.strip()]
        answers = [self._ask(batch) for batch in _batches([usable[position] for position in said])]
        rows = np.zeros((len(usable), self.dims), np.float32)
        if said:
            rows[said] = np.concatenate(answers)
        return unit(rows)

    def _connect(self) -> OpenAI:
        with loading("openai", ("openai",), "engram embedder use openai"):
            import openai

        if not os.environ.get(_KEY_VARIABLE):
            raise EmbedderFailed(
                f"The openai embedder needs a key: set {_KEY_VARIABLE}. A local server accepts any value. For a server "
                "other than OpenAI's, set OPENAI_BASE_URL too."
            )
        return openai.OpenAI(max_retries=self._retries, timeout=openai.Timeout(self._timeout, connect=_CONNECT_TIMEOUT))

    def _ask(self, batch: list[str]) -> Vectors:
        client = self._client()
        import openai

        try:
            # The SDK asks for base64 by default, which some servers do not support.
            answer: object = client.embeddings.create(input=batch, model=self._model, encoding_format="float")
        except openai.OpenAIError as error:
            raise EmbedderFailed(f"{self._endpoint()} {_reason(error, client.api_key)}") from None
        except ValueError:
            raise self._wrong("text that is not JSON") from None
        return self._rows(answer, len(batch))

    def _rows(self, answer: object, expected: int) -> Vectors:
        """The answer's vectors, in the order of the texts, after checking them."""
        try:
            data = sorted(answer.data, key=lambda item: item.index)  # type: ignore[attr-defined]
            order = [item.index for item in data]
            with np.errstate(over="ignore"):
                rows = np.array([item.embedding for item in data], np.float32)
        except (AttributeError, TypeError, ValueError):
            raise self._wrong("something other than a list of vectors of one length") from None
        if order != list(range(expected)):
            raise self._wrong(f"{len(order)} vectors for {expected} texts, numbered {order[:8]}")
        if rows.ndim != 2 or not rows.size:
            raise self._wrong("vectors without numbers")
        if not np.isfinite(rows).all():
            raise self._wrong("numbers that are not finite")
        if self._dims and rows.shape[1] != self._dims:
            raise self._wrong(f"vectors of {rows.shape[1]} numbers, after {self._dims} before")
        self._dims = rows.shape[1]
        return rows

    def _wrong(self, what: str) -> EmbedderFailed:
        return EmbedderFailed(f"{self._endpoint()} answered with {what}. The answer was not used.")

    def _endpoint(self) -> str:
        # An address may also hold a name and password, or a key in the query. They are left out.
        address = urlsplit(str(self._client().base_url))
        return f"The embedding model {self._model!r} at {address.scheme}://{address.netloc.rpartition('@')[2]}"


def _cut(text: str) -> str:
    encoded = text.encode()
    return text if len(encoded) <= _MAX_BYTES else encoded[:_MAX_BYTES].decode(errors="ignore")


def _batches(texts: list[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for text in texts:
        length = len(text.encode())
        if batch and (len(batch) == _MAX_BATCH or size + length > _MAX_BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += length
    if batch:
        yield batch


def _reason(error: Exception, key: str) -> str:
    import openai

    if isinstance(error, openai.APITimeoutError):
        return "did not answer in time."
    if isinstance(error, openai.APIConnectionError):
        return "cannot be reached."
    if isinstance(error, openai.AuthenticationError | openai.PermissionDeniedError):
        return f"refused the key (status {error.status_code}); see {_KEY_VARIABLE}."
    # In quotes, because a server may repeat the text that it was sent. Stored messages leave quoted words out.
    said = str(error).replace(key, "…").replace("”", '"')[:_MAX_REASON]
    return f"failed: “{said}”"
