"""Reindexing: everything in a workspace gets vectors of another model, while the old ones go on serving.

The store knows how far it is: `models.next` names the model, and what has a vector of it is done. So a run that was
killed goes on where it was, and two at once share the work. Others write meanwhile as ever, with vectors of the model
that serves; the workspace changes over in one transaction, with the shelves held, so that nobody can put something
there in between. What was written in the last moment and lacks a new vector joins the backlog then, which is worked off
at once: who waited for the moment when nothing lacks would wait for ever beside somebody who writes without a pause.
The old vectors are deleted afterwards, in bounded steps.
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
from .embedding_queue import STEP, EmbeddingQueue, Vectors, enqueue, keep, quantised

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..embedding import Embedder
    from ..storage.engine import Row, Transaction
    from ..store_view import StoreView
    from .provenance import Thing

T = TypeVar("T")

#: Old vectors deleted in one transaction.
_DELETED_AT_ONCE = 1_000
#: How often a step gives way to other writers before it waits for its turn, and for how many seconds.
_POLITE, _PAUSE = 100, 0.02

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
    """Give everything vectors of a model, the configured one unless told otherwise; how many this call made, apart
    from those of what was written in the last moment.

    `progress` is called with how many are done and how many there are. Conflict when another process begins to
    reindex with yet another model: the last one to begin wins.
    """
    if view.engine.joined:
        raise InvalidInput("reindex works in transactions of its own; call it outside of write().")
    choice = view.config.embedder if model is None else model
    backlog = EmbeddingQueue(view._replace(config=view.config._replace(embedder=choice)))
    embedder = backlog.embedder()
    if embedder is None:
        raise InvalidInput("The embedder is none, which makes no vectors; name one: static, minilm or openai:<model>.")
    return _Reindex(view, embedder, backlog, progress or (lambda done, total: None)).complete()


class _Reindex:
    def __init__(
        self, view: StoreView, embedder: Embedder, backlog: EmbeddingQueue, progress: Callable[[int, int], None]
    ) -> None:
        self._engine = view.engine
        self._backlog = backlog
        self._workspace = view.workspace
        self._embedder = embedder
        self._model = embedder.name
        self._progress = progress
        self._done = 0
        self._total = 0

    def complete(self) -> int:
        # A model that cannot be had fails here, before anything is announced.
        self._embedder.embed(["ready"])
        self._begin()
        made, most = 0, STEP
        while True:
            made += self._fill()
            keep_indexed(self._engine, self._workspace, self._model)
            if self._politely(partial(self._change_over, most=most)):
                break
            # However much is written meanwhile, it comes to an end.
            most *= 2
        self._progress(self._total, self._total)
        self._backlog.work()
        self._clean()
        keep_indexed(self._engine, self._workspace)
        return made

    def _begin(self) -> None:
        with self._engine.write() as tx:
            choose(tx, self._workspace, self._model)
            tx.run(_BEGIN, workspace=self._workspace, model=self._model)
            self._total, self._done = tx.all(_COUNTS, workspace=self._workspace, model=self._model)[0]
        self._progress(self._done, self._total)

    def _fill(self) -> int:
        """Make what is lacking of what there is now; how many were made here.

        Begins anywhere, and goes on elsewhere when somebody else was faster: so those who share the work meet seldom.
        """
        with self._engine.read() as tx:
            last: int = tx.all(_HIGHEST, workspace=self._workspace)[0][0]
        made, after = 0, random.randint(0, last)
        while True:
            lacking, texts = self._some(after, last)
            if not lacking and after == 0:
                return made
            if not lacking:
                after = 0
                continue
            rows = dict(zip([row[0] for row in lacking], quantised(self._embedder, texts), strict=True))
            kept = self._politely(partial(self._keep, made=rows))
            if kept is None:
                return made
            made += kept
            after = lacking[-1][0] if kept == len(lacking) else random.randint(0, last)
            self._done += kept
            self._progress(min(self._done, self._total), self._total)

    def _some(self, after: int, last: int) -> tuple[list[Row], list[str]]:
        """The next items without a new vector, and their texts."""
        with self._engine.read() as tx:
            lacking = tx.all(_LACKING, workspace=self._workspace, model=self._model, after=after, last=last, limit=STEP)
            contents: dict[Thing, list[str]] = {}
            for _, kind, ref, _ in lacking:
                if (kind, ref) not in contents:
                    contents[kind, ref] = [part for _, part in word_index.parts(self._content(tx, kind, ref))]
        return lacking, [contents[kind, ref][piece] for _, kind, ref, piece in lacking]

    def _content(self, tx: Transaction, kind: str, ref: int) -> str:
        ((content,),) = (
            tx.all(_MEMORY, workspace=self._workspace, id=ref)
            if kind == "memory"
            else tx.all(_EXCHANGE, workspace=self._workspace, id=ref)
        )
        return str(content)

    def _keep(self, tx: Transaction, made: dict[int, bytes]) -> int | None:
        """Store what was made, for those that are still there and still without; how many those were, None if all is
        over. An item's text never changes: whatever is edited gets new items.
        """
        if self._is_over(tx):
            return None
        word_index.keep_items(tx, self._workspace)
        found = tx.all(_STILL_LACKING, workspace=self._workspace, model=self._model, ids=tx.array(made))
        left: list[int] = [row[0] for row in found]
        if left:
            keep(tx, left, Vectors(self._model, [made[item] for item in left]))
        return len(left)

    def _change_over(self, tx: Transaction, most: int) -> bool:
        """Search with the new vectors from now on; False while more than so many things lack their own."""
        tx.lock(mutexes.backlog(self._workspace))
        word_index.hold_shelves(tx, self._workspace)
        if self._is_over(tx):
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

    def _politely(self, step: Callable[[Transaction], T]) -> T:
        """Do a step in a transaction of its own that gives way to every other writer.

        It needs what others lock one after the other, in whatever order; who waits for them may be waited for.
        """
        for _ in range(_POLITE):
            try:
                with self._engine.write(patient=False) as tx:
                    return step(tx)
            except StoreBusy:
                self._engine.clock.sleep(_PAUSE)
        with self._engine.write() as tx:
            return step(tx)

    def _is_over(self, tx: Transaction) -> bool:
        """Whether somebody who shares the work has already brought it to its end."""
        model, next = tx.all(_STATE, workspace=self._workspace)[0]
        if next == self._model:
            return False
        if next is None and model == self._model:
            return True
        raise Conflict(
            f"Another process has begun to reindex {self._workspace!r} with {next or model}; this run, with "
            f"{self._model}, stopped. Nothing is lost: what it made is used if it is started again in time."
        )

    def _clean(self) -> None:
        """Delete the vectors of all other models; what a run that died here left is found by the next."""
        after = 0
        while True:
            with self._engine.write() as tx:
                if model_of(tx, self._workspace) != self._model:
                    return
                next = tx.all(_STATE, workspace=self._workspace)[0][1] or self._model
                old = tx.all(
                    _OLD,
                    workspace=self._workspace,
                    model=self._model,
                    next=next,
                    after=after,
                    limit=_DELETED_AT_ONCE,
                )
                if not old:
                    return
                tx.many(_DELETE, [{"item": item, "model": model} for item, model in old])
                # An item may have several, so its number is looked at again.
                after = old[-1][0] - 1
