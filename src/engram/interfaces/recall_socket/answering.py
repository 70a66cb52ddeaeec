"""Answers the requests of the recall socket with the model of this process.

It only reads, and it answers at once: a workspace whose model or vectors are not in memory yet is refused, and prepared
after the refusal was sent. The next request for it is answered. A model on a server is never used: it is slow, and each
request costs money.

Every request is checked like those of the server's other interfaces. The socket serves one user only, who may do all.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from ...access.permission import require
from ...access_records import OWNER, Grant
from ...errors import EngramError, Forbidden
from ...records import plain
from . import protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...client import Engram
    from ...records import Hit

#: The most workspaces that are remembered as prepared.
_MOST_READY = 1_000


class Reply(NamedTuple):
    body: bytes
    #: What to do after it was sent.
    then: Callable[[], object] | None = None


class Answering:
    def __init__(self, eng: Engram, grant: Grant = OWNER) -> None:
        self._eng = eng
        self._grant = grant
        #: Workspaces and models that a recall has used.
        self._ready: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Load what a recall in the store's own workspace needs."""
        self._prepare_any(self._eng)

    def answer(self, body: bytes) -> Reply:
        """The answer to a request."""
        try:
            request = protocol.decoded(body)
            workspace, embedder, query, k, options = (
                request[name] for name in ("workspace", "embedder", "query", "k", "options")
            )
            if not isinstance(workspace, str) or not isinstance(options, dict) or "weights" in options:
                raise ValueError("a field has a wrong value")
            eng = self._eng.workspace(workspace)
            require(self._grant, "read", workspace)
        except Forbidden:
            return refusal(protocol.FORBIDDEN)
        except (KeyError, ValueError, EngramError):
            return refusal(protocol.MALFORMED)
        if embedder != eng.settings.embedder:
            return refusal(protocol.OTHER_EMBEDDER)
        return self._recalled(eng, query, k, {**options, "note": False})

    def recall(
        self, eng: Engram, query: str, k: int, options: dict[str, Any]
    ) -> tuple[list[Hit] | None, Callable[[], object] | None]:
        """The hits, and what to do later so that the next call for this workspace has some. Never waits for a model.

        For a server that has the model itself. The hits are None if the model or the vectors are not in memory, or if
        there is no local model.
        """
        if not eng.embedding_queue.is_warm():
            return None, None
        # Asking for the model would load it.
        if not any(eng.workspace_name == workspace for workspace, _ in self._ready):
            return None, lambda: self._prepare_any(eng)
        model = self._model(eng)
        if model is None or (eng.workspace_name, model) not in self._ready:
            return None, lambda: self._prepare_any(eng)
        return eng.recall(query, k, **options), None

    def _prepare_any(self, eng: Engram) -> None:
        model = self._model(eng)
        if model is not None and (eng.workspace_name, model) not in self._ready:
            self._prepare(eng, model)

    def _recalled(self, eng: Engram, query: str, k: int, options: dict[str, object]) -> Reply:
        try:
            if not eng.embedding_queue.is_warm():
                return refusal(protocol.LOADING)
            model = self._model(eng)
            if model is None:
                return refusal(protocol.NO_MODEL)
            if (eng.workspace_name, model) not in self._ready:
                return refusal(protocol.LOADING)._replace(then=lambda: self._prepare(eng, model))
            hits = eng.recall(query, k, **options)
        except (EngramError, TypeError, ValueError, AttributeError):
            # A wrong option, or a store that cannot be used now. The client's own recall says what is wrong.
            return refusal(protocol.FAILED)
        body = protocol.encoded({"hits": plain(hits)})
        return Reply(body) if len(body) <= protocol.MAX_ANSWER else refusal(protocol.TOO_LARGE)

    def _model(self, eng: Engram) -> str | None:
        """The workspace's model, if it runs in this process."""
        try:
            embedder = eng.embedding_queue.embedder()
        except EngramError:
            return None
        return None if embedder is None or embedder.name.startswith("openai:") else embedder.name

    def _prepare(self, eng: Engram, model: str) -> None:
        eng.recall("ready", 1, rerank="never", note=False)
        with self._lock:
            if len(self._ready) >= _MOST_READY:
                self._ready.clear()
            self._ready.add((eng.workspace_name, model))


def refusal(reason: str) -> Reply:
    return Reply(protocol.encoded({"refused": reason}))
