"""Meaning: which vectors are closest to a query's.

Where the engine can compare vectors, it is asked. Elsewhere (SQLite, a PostgreSQL without pgvector) the workspace's
vectors are resident in a long-lived process and kept up with the store by the change feed.

Vectors are eight bits a dimension and compared by cosine, block by block in floating point, which needs no more memory
than one block. The first recall of a process loads them all; later ones ask the feed what has changed since, and fetch
only that, so that what another process forgot is gone here too.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from ..storage.engine import Closest
from .embedding_models import EXACT_BELOW

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from ..storage.engine import Row, Transaction

#: Rows multiplied at once: as floating point they fit into a processor's cache.
_BLOCK = 512
#: Rows fetched at once.
_PORTION = 16_384
#: With more changes than this, loading everything anew is faster.
_TOO_MANY = 20_000
#: So many standard deviations above the mean is far out.
_FAR = 2.0
#: All are equally far from the query, but for rounding; then nothing is close.
_NO_SPREAD = 1e-6

_LAST_CHANGE = "SELECT COALESCE(MAX(number), 0) FROM changes WHERE workspace = :workspace"
_CHANGED = """
SELECT number, what, id FROM changes
WHERE workspace = :workspace AND number > :after AND what IN ('exchange', 'memory', 'model')
ORDER BY number LIMIT :limit
"""
_NEXT = """
SELECT i.id, i.kind, i.ref, i.shelf, v.vector FROM items i JOIN vectors v ON v.item = i.id AND v.model = :model
WHERE i.workspace = :workspace AND i.id > :after ORDER BY i.id LIMIT :limit
"""
_SOME = """
SELECT i.id, i.kind, i.ref, i.shelf, v.vector FROM items i JOIN vectors v ON v.item = i.id AND v.model = :model
WHERE i.workspace = :workspace AND i.kind = :kind AND i.ref IN (SELECT value FROM json_each(:ids)) ORDER BY i.id
"""


class Resident:
    """The vectors of one workspace and model."""

    def __init__(self, model: str, dims: int) -> None:
        self.model = model
        self.last = 0
        self._count = 0
        self._items = np.zeros(0, np.int64)
        self._refs = np.zeros(0, np.int64)
        # Kinds and shelves by their number in `_codes`.
        self._kinds = np.zeros(0, np.int8)
        self._shelves = np.zeros(0, np.int8)
        self._rows = np.zeros((0, dims), np.int8)
        self._norms = np.zeros(0, np.float32)
        self._codes: dict[str, int] = {}
        #: The largest ref of each kind: what is newer is not here yet.
        self._newest: dict[str, int] = {}
        self._floats = np.empty((_BLOCK, dims), np.float32)
        #: Threads of a server share it.
        self.lock = threading.Lock()

    def closest(self, query: npt.NDArray[np.float32], shelves: Sequence[str], most: int) -> Closest:
        """The most similar of what is on those shelves, with mean and spread of it all."""
        items, cosines = self._compared(query, shelves)
        if len(items) == 0:
            return Closest([], 0.0, 0.0)
        mean, spread = float(cosines.mean()), float(cosines.std())
        if len(items) > most:
            # Mostly the best are far out, and there are few to choose from.
            far = cosines[cosines > mean + _FAR * spread]
            least = np.partition(far if len(far) >= most else cosines, -most)[-most]
            best = np.flatnonzero(cosines >= least)
        else:
            best = np.arange(len(items))
        found = list(zip(items[best].tolist(), cosines[best].tolist(), strict=True))
        return Closest(found, mean, spread)

    def _compared(self, query: npt.NDArray[np.float32], shelves: Sequence[str]) -> tuple[Any, Any]:
        """Item numbers and cosines of everything on those shelves."""
        with self.lock:
            count = self._count
            cosines = np.empty(count, np.float32)
            for start, floats in self._blocks(0, count):
                np.dot(floats, query, out=cosines[start : start + len(floats)])
            norms, items = self._norms[:count], self._items[:count]
            wanted = norms > 0
            others = [code for shelf, code in self._codes.items() if shelf not in shelves]
            for code in others:
                wanted &= self._shelves[:count] != code
            if np.count_nonzero(wanted) == count:
                return items, cosines / norms
            return items[wanted], cosines[wanted] / norms[wanted]

    def put(self, rows: Sequence[Row]) -> None:
        """Take rows of item, kind, ref, shelf and vector."""
        if not rows:
            return
        start, end = self._count, self._count + len(rows)
        self._make_room(end)
        items, kinds, refs, shelves, vectors = zip(*rows, strict=True)
        self._items[start:end] = items
        self._refs[start:end] = refs
        self._kinds[start:end] = [self._code(kind) for kind in kinds]
        self._shelves[start:end] = [self._code(shelf) for shelf in shelves]
        self._rows[start:end] = np.frombuffer(b"".join(map(bytes, vectors)), np.int8).reshape(len(rows), -1)
        for kind, ref in zip(kinds, refs, strict=True):
            if ref > self._newest.get(kind, 0):
                self._newest[kind] = ref
        for position, floats in self._blocks(start, end):
            self._norms[position : position + len(floats)] = np.sqrt(np.einsum("ij,ij->i", floats, floats))
        self._count = end

    def drop(self, kind: str, refs: Sequence[int]) -> None:
        """What is gone, or about to be put anew, keeps its place but can no longer be found."""
        known = [ref for ref in refs if ref <= self._newest.get(kind, 0)]
        if known:
            count = self._count
            gone = (self._kinds[:count] == self._code(kind)) & np.isin(self._refs[:count], known)
            self._norms[:count][gone] = 0
            self._rows[:count][gone] = 0

    def _blocks(self, start: int, end: int) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
        """The rows from start to end in floating point, some at a time."""
        for position in range(start, end, _BLOCK):
            rows = self._rows[position : min(position + _BLOCK, end)]
            floats = self._floats[: len(rows)]
            np.copyto(floats, rows)
            yield position, floats

    def _code(self, name: str) -> int:
        return self._codes.setdefault(name, len(self._codes))

    def _make_room(self, count: int) -> None:
        if count <= len(self._items):
            return
        size = max(count, len(self._items) * 3 // 2)
        self._items = _longer(self._items, size)
        self._refs = _longer(self._refs, size)
        self._kinds = _longer(self._kinds, size)
        self._shelves = _longer(self._shelves, size)
        self._rows = _longer(self._rows, size)
        self._norms = _longer(self._norms, size)


def _longer(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    made = np.zeros((size, *array.shape[1:]), array.dtype)
    made[: len(array)] = array
    return made


def closest(
    tx: Transaction,
    workspace: str,
    model: str,
    query: npt.NDArray[np.float32],
    shelves: Sequence[str],
    size: int,
    most: int,
) -> dict[int, float]:
    """The items closest in meaning, in standard deviations above the mean of those shelves, which have `size` items.

    The engine compares if it can; otherwise this process does, with the vectors it keeps.
    """
    found = tx.closest(workspace, model, query.tolist(), shelves, most, size if size >= EXACT_BELOW else None)
    if found is None:
        found = resident(tx, workspace, model, len(query)).closest(query, shelves, most)
    if found.spread < _NO_SPREAD:
        return {}
    return {item: (cosine - found.mean) / found.spread for item, cosine in found.items if cosine > found.mean}


def resident(tx: Transaction, workspace: str, model: str, dims: int) -> Resident:
    """The workspace's vectors as of this transaction."""
    if tx.writable:  # what it has written may yet be undone, and must not be remembered
        return _load(tx, workspace, model, dims)
    kept: dict[str, Resident] = tx.memo.setdefault("vectors", {})
    found = kept.get(workspace)
    if found is not None and found.model == model:
        with found.lock:
            if _catch_up(tx, workspace, found):
                return found
    found = kept[workspace] = _load(tx, workspace, model, dims)
    return found


def _load(tx: Transaction, workspace: str, model: str, dims: int) -> Resident:
    made = Resident(model, dims)
    made.last = tx.all(_LAST_CHANGE, workspace=workspace)[0][0]
    after = 0
    while rows := tx.all(_NEXT, workspace=workspace, model=model, after=after, limit=_PORTION):
        made.put(rows)
        after = rows[-1][0]
    return made


def _catch_up(tx: Transaction, workspace: str, vectors: Resident) -> bool:
    """Follow the feed; False when there is too much of it, or all vectors were made anew."""
    changes = tx.all(_CHANGED, workspace=workspace, after=vectors.last, limit=_TOO_MANY + 1)
    if len(changes) > _TOO_MANY or any(what == "model" for _, what, _ in changes):
        return False
    for kind in ("exchange", "memory"):
        refs = sorted({int(id) for _, what, id in changes if what == kind})
        vectors.drop(kind, refs)
        if refs:
            vectors.put(tx.all(_SOME, workspace=workspace, model=vectors.model, kind=kind, ids=tx.array(refs)))
    if changes:
        vectors.last = changes[-1][0]
    return True
