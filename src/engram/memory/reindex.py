"""Reindexing: gives everything in a workspace vectors of another model, while the old ones stay in use.

The store records the progress: `models.next` names the model, and an item with a vector of that model is done. So a
reindex that was killed continues where it was, and two processes share the work. Others keep writing with vectors of
the current model. The switch to the new model is one transaction that locks the shelves, so nothing can be added in
between. Things that still lack a new vector then join the embedding queue, which is worked through at once. Waiting
until nothing is missing might never end while others keep writing. The old vectors are deleted afterwards, in bounded
steps.
"""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from .. import mutexes
from ..checks import MAX_WHOLE
from ..errors import Conflict, InvalidInput, StoreBusy
from . import word_index
from .embedding_models import choose, keep_indexed, model_of
from .embedding_queue import STEP, EmbeddingQueue, Vectors, enqueue, insert_vectors, quantised

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..embedding import Embedder
    from ..storage.engine import Transaction
    from ..store_view import StoreView
    from .provenance import Thing

T = TypeVar("T")

#: Old vectors deleted in one transaction.
_DELETED_AT_ONCE = 1_000
#: How often a step gives way to other writers before it waits like any writer, and the pause in seconds.
_ATTEMPTS, _PAUSE = 100, 0.02

_STATE = "SELECT model, next FROM models WHERE workspace = :workspace"
_BEGIN = "UPDATE models SET next = :model WHERE workspace = :workspace"
_CHANGE_OVER = "UPDATE models SET model = :model, next = NULL WHERE workspace = :workspace"
_COUNTS = """
SELECT COUNT(*), COUNT(v.item) FROM items i LEFT JOIN vectors v ON v.item = i.id AND v.model = :model
WHERE i.workspace = :workspace
"""
_HIGHEST = "SELECT COALESCE(MAX(id), 0) FROM items WHERE workspace = :workspace"
_LACKING = """
SELECT i.id, i.kind, i.ref, i.piece FROM items i
WHERE i.workspace = :workspace AND i.id > :after AND i.id <= :last
  AND NOT EXISTS (SELECT 1 FROM vectors v WHERE v.item = i.id AND v.model = :model)
ORDER BY i.id LIMIT :limit
"""
_STILL_LACKING = """
SELECT i.id FROM items i
WHERE i.workspace = :workspace AND i.id IN (SELECT value FROM json_each(:ids))
  AND NOT EXISTS (SELECT 1 FROM vectors v WHERE v.item = i.id AND v.model = :model)
ORDER BY i.id
"""
_EXCHANGE = "SELECT content FROM exchanges WHERE workspace = :workspace AND id = :id"
_MEMORY = "SELECT content FROM memories WHERE workspace = :workspace AND id = :id"
_OLD = """
SELECT v.item, v.model FROM items i JOIN vectors v ON v.item = i.id
WHERE i.workspace = :workspace AND i.id > :after AND v.model <> :model AND v.model <> :next
ORDER BY v.item LIMIT :limit
"""
_DELETE = "DELETE FROM vectors WHERE item = :item AND model = :model"


def reindex(view: StoreView, model: str | None = None, progress: Callable[[int, int], None] | None = None) -> int:
    """Give everything vectors of a model, by default that of the setting; how many vectors this call made.

    With the setting `auto` that is the workspace's model.

    The count leaves out things that were written at the last moment. `progress` is called with how many items are done
    and how many there are. Conflict when another process begins to reindex with another model: the last one to begin
    wins.
    """
    if view.engine.joined:
        raise InvalidInput("reindex works in transactions of its own; call it outside of write().")
    if model is not None:
        # A model that is named goes before the setting, and before an object that was given.
        view = view._replace(config=view.config._replace(embedder=model), embedder=None)
    queue = EmbeddingQueue(view)
    embedder = queue.embedder()
    if embedder is None:
        raise InvalidInput(
            "The embedder is none, which makes no vectors; name one: static, minilm, openai:MODEL or onnx:FOLDER."
        )
    return _Reindex(view, embedder, queue, progress or (lambda done, total: None)).complete()


class _Reindex:
    """One reindexing of one workspace."""

    def __init__(
        self, view: StoreView, embedder: Embedder, queue: EmbeddingQueue, progress: Callable[[int, int], None]
    ) -> None:
        self._engine = view.engine
        self._embedding_queue = queue
        self._workspace = view.workspace
        self._embedder = embedder
        self._model = embedder.name
        self._progress = progress
        self._done = 0
        self._total = 0

    def complete(self) -> int:
        # A model that cannot be used fails here, before anything is recorded.
        self._embedder.embed(["ready"])
        self._begin()
        made, most = 0, STEP
        while True:
            made += self._embed_lacking()
            keep_indexed(self._engine, self._workspace, self._model)
            if self._giving_way(partial(self._change_over, most=most)):
                break
            # So it ends however much others write meanwhile.
            most *= 2
        self._progress(self._total, self._total)
        self._embedding_queue.work()
        self._delete_old_vectors()
        keep_indexed(self._engine, self._workspace)
        return made

    def _begin(self) -> None:
        with self._engine.write() as tx:
            choose(tx, self._workspace, self._model)
            tx.run(_BEGIN, workspace=self._workspace, model=self._model)
            ((self._total, self._done),) = tx.all(_COUNTS, workspace=self._workspace, model=self._model)
        self._progress(self._done, self._total)

    def _embed_lacking(self) -> int:
        """Embed the items that have no new vector yet; how many were embedded here.

        It starts at a random item, and continues at another one when some other process was faster. So processes that
        share the work rarely embed the same items.
        """
        with self._engine.read() as tx:
            last: int = tx.value(_HIGHEST, workspace=self._workspace)
        made, after = 0, random.randint(0, last)
        while True:
            lacking, texts = self._next_lacking(after, last)
            if not lacking and after == 0:
                return made
            if not lacking:
                after = 0
                continue
            rows = dict(zip(lacking, quantised(self._embedder, texts), strict=True))
            kept = self._giving_way(partial(self._store_vectors, made=rows))
            if kept is None:
                return made
            made += kept
            after = lacking[-1] if kept == len(lacking) else random.randint(0, last)
            self._done += kept
            self._progress(min(self._done, self._total), self._total)

    def _next_lacking(self, after: int, last: int) -> tuple[list[int], list[str]]:
        """The next items without a new vector, and their texts."""
        with self._engine.read() as tx:
            lacking = tx.all(_LACKING, workspace=self._workspace, model=self._model, after=after, last=last, limit=STEP)
            contents: dict[Thing, list[str]] = {}
            for _, kind, ref, _ in lacking:
                if (kind, ref) not in contents:
                    contents[kind, ref] = [part for _, part in word_index.parts(self._content(tx, kind, ref))]
        texts = [contents[kind, ref][piece] for _, kind, ref, piece in lacking]
        return [item for item, _, _, _ in lacking], texts

    def _content(self, tx: Transaction, kind: str, ref: int) -> str:
        ((content,),) = (
            tx.all(_MEMORY, workspace=self._workspace, id=ref)
            if kind == "memory"
            else tx.all(_EXCHANGE, workspace=self._workspace, id=ref)
        )
        return str(content)

    def _store_vectors(self, tx: Transaction, made: dict[int, bytes]) -> int | None:
        """Store vectors of items that still exist and still lack one; how many. None when the reindexing is finished.

        An item's text never changes: an edited text gets new items.
        """
        if self._is_finished(tx):
            return None
        word_index.lock_items(tx, self._workspace)
        left = tx.column(_STILL_LACKING, workspace=self._workspace, model=self._model, ids=tx.array(made))
        if left:
            insert_vectors(tx, left, Vectors(self._model, [made[item] for item in left]))
        return len(left)

    def _change_over(self, tx: Transaction, most: int) -> bool:
        """Switch to the new vectors. False while more than `most` items lack one."""
        tx.lock(mutexes.embedding_queue(self._workspace))
        word_index.lock_shelves(tx, self._workspace)
        if self._is_finished(tx):
            return True
        lacking = tx.all(
            _LACKING, workspace=self._workspace, model=self._model, after=0, last=MAX_WHOLE, limit=most + 1
        )
        if len(lacking) > most:
            return False
        for _, kind, ref, _ in lacking:
            enqueue(tx, self._workspace, kind, ref, indexed=True)
        tx.run(_CHANGE_OVER, workspace=self._workspace, model=self._model)
        tx.note(self._workspace, "model", self._model)
        return True

    def _giving_way(self, step: Callable[[Transaction], T]) -> T:
        """Do a step in its own transaction that gives way to every other writer.

        It needs locks that other writers take one by one, in any order. Waiting for them could become a deadlock.
        """
        for _ in range(_ATTEMPTS):
            try:
                with self._engine.write(patient=False) as tx:
                    return step(tx)
            except StoreBusy:
                self._engine.clock.sleep(_PAUSE)
        with self._engine.write() as tx:
            return step(tx)

    def _is_finished(self, tx: Transaction) -> bool:
        """Whether another process that shares the work has already finished it."""
        ((model, next),) = tx.all(_STATE, workspace=self._workspace)
        if next == self._model:
            return False
        if next is None and model == self._model:
            return True
        raise Conflict(
            f"Another process has begun to reindex {self._workspace!r} with {next or model}, so this one, with "
            f"{self._model}, stopped. Nothing is lost: its vectors are used if you start it again soon."
        )

    def _delete_old_vectors(self) -> None:
        """Delete the vectors of all other models, also those that a killed process left."""
        after = 0
        while True:
            with self._engine.write() as tx:
                if model_of(tx, self._workspace) != self._model:
                    return
                ((_, next),) = tx.all(_STATE, workspace=self._workspace)
                old = tx.all(
                    _OLD,
                    workspace=self._workspace,
                    model=self._model,
                    next=next or self._model,
                    after=after,
                    limit=_DELETED_AT_ONCE,
                )
                if not old:
                    return
                tx.many(_DELETE, [{"item": item, "model": model} for item, model in old])
                # An item may have several old vectors, so the last one is looked at again.
                last, _ = old[-1]
                after = last - 1
