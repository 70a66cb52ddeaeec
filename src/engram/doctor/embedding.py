"""Checks of the vectors, the embedding queue and the model."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from .. import mutexes
from ..clock import later
from ..errors import EngramError
from ..health_records import NOTE, WRONG, Check, Finding, counted, fine, mendable
from ..memory import embedding_queue, word_index
from ..memory.embedders import Embedders
from ..memory.embedding_queue import EmbeddingQueue

if TYPE_CHECKING:
    from ..storage.engine import Transaction
    from ..store_view import StoreView

_STEP = 500
#: A queue with more entries, or with one older than so many seconds, is worth a note.
LONG_QUEUE, OLD_ENTRY = 5_000, 86_400.0
#: Seconds for which an entry is taken at most; more means that a clock was wrong.
_TAKEN_TOO_LONG = 600.0
_FREE = "0000"

_MODEL = "SELECT model, next FROM models WHERE workspace = :workspace"
_LOST = "SELECT COUNT(*) FROM vectors v WHERE NOT EXISTS (SELECT 1 FROM items i WHERE i.id = v.item)"
_DELETE_LOST = "DELETE FROM vectors WHERE NOT EXISTS (SELECT 1 FROM items i WHERE i.id = vectors.item)"
_LENGTHS = """
SELECT v.model, LENGTH(v.vector), COUNT(*) FROM items i JOIN vectors v ON v.item = i.id
WHERE i.workspace = :workspace GROUP BY v.model, LENGTH(v.vector) ORDER BY v.model, 3 DESC, 2 DESC
"""
_DELETE_OF_LENGTH = """
DELETE FROM vectors WHERE model = :model AND LENGTH(vector) = :length
  AND item IN (SELECT id FROM items WHERE workspace = :workspace)
"""
_OTHER = """
SELECT v.model, COUNT(*) FROM items i JOIN vectors v ON v.item = i.id
WHERE i.workspace = :workspace AND v.model <> :model AND v.model <> :next GROUP BY v.model ORDER BY v.model
"""
_LACKING = """
SELECT COUNT(*) FROM items i
WHERE i.workspace = :workspace AND NOT EXISTS (SELECT 1 FROM vectors v WHERE v.item = i.id AND v.model = :model)
  AND NOT EXISTS (SELECT 1 FROM backlog b WHERE b.kind = i.kind AND b.ref = i.ref)
"""
_SOME_LACKING = """
SELECT DISTINCT i.kind, i.ref FROM items i
WHERE i.workspace = :workspace AND NOT EXISTS (SELECT 1 FROM vectors v WHERE v.item = i.id AND v.model = :model)
  AND NOT EXISTS (SELECT 1 FROM backlog b WHERE b.kind = i.kind AND b.ref = i.ref)
ORDER BY i.kind, i.ref LIMIT :limit
"""
_WAITING = "SELECT COUNT(*) FROM backlog WHERE workspace = :workspace"
_OLDEST = """
SELECT COALESCE(e.created_at, m.updated_at) FROM backlog b
LEFT JOIN exchanges e ON b.kind = 'exchange' AND e.id = b.ref
LEFT JOIN memories m ON b.kind = 'memory' AND m.id = b.ref
WHERE b.workspace = :workspace ORDER BY b.id LIMIT 1
"""
_GONE = """
SELECT COUNT(*) FROM backlog b
WHERE b.workspace = :workspace AND (
  (b.kind = 'exchange' AND NOT EXISTS (SELECT 1 FROM exchanges e WHERE e.id = b.ref))
  OR (b.kind = 'memory' AND NOT EXISTS (SELECT 1 FROM memories m WHERE m.id = b.ref)))
"""
_DELETE_GONE = """
DELETE FROM backlog
WHERE workspace = :workspace AND (
  (kind = 'exchange' AND NOT EXISTS (SELECT 1 FROM exchanges e WHERE e.id = backlog.ref))
  OR (kind = 'memory' AND NOT EXISTS (SELECT 1 FROM memories m WHERE m.id = backlog.ref)))
"""
_TAKEN = "SELECT COUNT(*) FROM backlog WHERE workspace = :workspace AND taken_until > :limit"
_RELEASE = "UPDATE backlog SET taken_until = :free WHERE workspace = :workspace AND taken_until > :limit"


def checks(view: StoreView, *, full: bool) -> list[Check]:
    return [
        Check("vectors.items", partial(_lost, view), partial(_delete_lost, view)),
        Check("vectors.missing", partial(_lacking, view), partial(_queue_lacking, view)),
        Check("vectors.model", partial(_other, view)),
        Check("queue.taken", partial(_taken, view), partial(_release, view)),
        Check("queue.things", partial(_gone, view), partial(_delete_gone, view)),
        Check("queue.waiting", partial(_waiting, view)),
        Check("model.usable", partial(_usable, view, full)),
    ]


def _models(view: StoreView) -> tuple[str | None, str | None]:
    with view.engine.read() as tx:
        return tx.one(_MODEL, workspace=view.workspace) or (None, None)


def _lost(view: StoreView) -> Finding:
    with view.engine.read() as tx:
        lost = tx.value(_LOST)
        odd = sum(number for _, _, number in _of_odd_length(tx, view.workspace))
    if not lost and not odd:
        return fine("vectors.items", "Every vector belongs to an item and has the length of its model.", view.workspace)
    found = [f"{counted(lost, 'vector belongs', 'vectors belong')} to nothing."] if lost else []
    means = "Recall by meaning may find what is gone."
    if odd:
        found.append(f"{counted(odd, 'vector has', 'vectors have')} another length than others of the same model.")
        means = "Recall by meaning misses these texts, or fails. Removed vectors are computed again."
    return mendable("vectors.items", " ".join(found), means, lost + odd, view.workspace)


def _of_odd_length(tx: Transaction, workspace: str) -> list[tuple[str, int, int]]:
    """Models, lengths and numbers of vectors that are not as long as most of their model."""
    seen: set[str] = set()
    found: list[tuple[str, int, int]] = []
    for model, length, number in tx.all(_LENGTHS, workspace=workspace):
        if model in seen:
            found.append((model, length, number))
        seen.add(model)
    return found


def _delete_lost(view: StoreView) -> int:
    with view.engine.write() as tx:
        word_index.lock_items(tx, view.workspace)
        number = tx.run(_DELETE_LOST)
        for model, length, _ in _of_odd_length(tx, view.workspace):
            number += tx.run(_DELETE_OF_LENGTH, workspace=view.workspace, model=model, length=length)
        return number


def _lacking(view: StoreView) -> Finding:
    model, _ = _models(view)
    with view.engine.read() as tx:
        number = 0 if model is None else tx.value(_LACKING, workspace=view.workspace, model=model)
    if not number:
        return fine("vectors.missing", "Every item has a vector or is queued for embedding.", view.workspace)
    found = f"{counted(number, 'item has no vector and is', 'items have no vector and are')} not queued for embedding."
    return mendable("vectors.missing", found, "Recall by meaning misses what has no vector.", number, view.workspace)


def _queue_lacking(view: StoreView) -> int:
    model, _ = _models(view)
    done = 0
    while True:
        with view.engine.write() as tx:
            tx.lock(mutexes.embedding_queue(view.workspace))
            rows = tx.all(_SOME_LACKING, workspace=view.workspace, model=model, limit=_STEP)
            for kind, ref in rows:
                embedding_queue.enqueue(tx, view.workspace, kind, ref, indexed=True)
        if not rows:
            return done
        done += len(rows)


def _other(view: StoreView) -> Finding:
    model, coming = _models(view)
    with view.engine.read() as tx:
        rows = [] if model is None else tx.all(_OTHER, workspace=view.workspace, model=model, next=coming or model)
    if not rows:
        return fine("vectors.model", f"Every vector is of {model}." if model else "No vectors yet.", view.workspace)
    total = sum(number for _, number in rows)
    return Finding(
        "vectors.model",
        NOTE,
        f"{counted(total, 'vector is', 'vectors are')} of another model than {model}: {rows[0][0]}.",
        "Vectors of another model take space and are not used. A reindexing was interrupted.",
        f"engram reindex --workspace {view.workspace}",
        number=total,
        workspace=view.workspace,
    )


def _taken(view: StoreView) -> Finding:
    with view.engine.read() as tx:
        number = tx.value(_TAKEN, workspace=view.workspace, limit=later(tx.now(), _TAKEN_TOO_LONG))
    if not number:
        return fine("queue.taken", "No entry of the embedding queue is taken for too long.", view.workspace)
    found = f"In the embedding queue, {counted(number, 'entry is', 'entries are')} taken until a time far ahead."
    return mendable("queue.taken", found, "No process embeds what is taken. A clock was wrong.", number, view.workspace)


def _release(view: StoreView) -> int:
    with view.engine.write() as tx:
        tx.lock(mutexes.embedding_queue(view.workspace))
        return tx.run(_RELEASE, workspace=view.workspace, limit=later(tx.now(), _TAKEN_TOO_LONG), free=_FREE)


def _gone(view: StoreView) -> Finding:
    with view.engine.read() as tx:
        number = tx.value(_GONE, workspace=view.workspace)
    if not number:
        return fine("queue.things", "Everything in the embedding queue exists.", view.workspace)
    found = f"In the embedding queue, {counted(number, 'entry belongs', 'entries belong')} to nothing."
    means = "It does no harm, but the queue never gets empty without a model."
    return mendable("queue.things", found, means, number, view.workspace)._replace(state=NOTE)


def _delete_gone(view: StoreView) -> int:
    with view.engine.write() as tx:
        tx.lock(mutexes.embedding_queue(view.workspace))
        return tx.run(_DELETE_GONE, workspace=view.workspace)


def _waiting(view: StoreView) -> Finding:
    with view.engine.read() as tx:
        number = tx.value(_WAITING, workspace=view.workspace)
        oldest = tx.value(_OLDEST, workspace=view.workspace)
        is_old = oldest is not None and oldest < later(tx.now(), -OLD_ENTRY)
    found = f"Texts that wait to be embedded: {number:,}." if number else "The embedding queue is empty."
    # With the embedder `none` the queue waits for a change of mind.
    if view.config.embedder == "none" or not (number > LONG_QUEUE or is_old):
        return fine("queue.waiting", found, view.workspace)
    return Finding(
        "queue.waiting",
        NOTE,
        f"{found} The first of them is of {oldest}.",
        "Recall finds what waits by words only. A process with the model works through the queue.",
        f"engram embed --workspace {view.workspace}",
        number=number,
        workspace=view.workspace,
    )


def _usable(view: StoreView, full: bool) -> Finding:
    problem = Embedders(view).problem()
    try:
        embedder = EmbeddingQueue(view).embedder() if full and not problem else None
        # Each request to a server costs money.
        if embedder is not None and not embedder.name.startswith("openai:"):
            embedder.embed(["ready"])
    except EngramError as error:
        problem = str(error)
    if not problem:
        model = _models(view)[0]
        return fine("model.usable", f"The model is {model}." if model else "No model was used yet.", view.workspace)
    return Finding(
        "model.usable",
        WRONG,
        problem,
        "Recall goes by words alone.",
        "engram embedder list",
        number=1,
        workspace=view.workspace,
    )
