"""Meaning: the workspace's vectors, resident in a long-lived process and kept up with the store by the change feed.

Vectors are eight bits a dimension and compared by cosine, block by block in floating point, which needs no more memory
than one block. The first recall of a process loads them all; later ones ask the feed what has changed since, and fetch
only that, so that what another process forgot is gone here too.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from .places import CHUNK, padded

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..storage.engine import Transaction

#: Rows multiplied at once.
_BLOCK = 16_384
#: With more changes than this, loading everything anew is faster.
_TOO_MANY = 20_000

_LAST_CHANGE = "SELECT COALESCE(MAX(number), 0) FROM changes WHERE workspace = :workspace"
_CHANGED = """
SELECT number, what, id FROM changes
WHERE workspace = :workspace AND number > :after AND what IN ('exchange', 'memory') ORDER BY number LIMIT :limit
"""
_ALL = """
SELECT i.id, i.kind, i.ref, i.shelf, v.vector FROM items i JOIN vectors v ON v.item = i.id AND v.model = :model
WHERE i.workspace = :workspace ORDER BY i.id
"""
_SOME = (
    """
SELECT i.id, i.kind, i.ref, i.shelf, v.vector FROM items i JOIN vectors v ON v.item = i.id AND v.model = :model
WHERE i.workspace = :workspace AND i.kind = :kind AND i.ref IN ("""
    + CHUNK
    + ") ORDER BY i.id"
)


class Resident:
    """The vectors of one workspace and model."""

    def __init__(self, model: str, dims: int) -> None:
        self.model = model
        self.last = 0
        self._count = 0
        self._items = np.zeros(1024, np.int64)
        self._shelves: npt.NDArray[np.str_] = np.zeros(1024, "U8")
        self._rows = np.zeros((1024, dims), np.int8)
        self._norms = np.zeros(1024, np.float32)
        self._places: dict[tuple[str, int], list[int]] = {}
        #: Threads of a server share it.
        self.lock = threading.Lock()

    def scores(self, query: npt.NDArray[np.float32], shelves: list[str]) -> tuple[Any, Any]:
        """Item numbers and cosines of everything on those shelves."""
        with self.lock:
            return self._scores(query, shelves)

    def _scores(self, query: npt.NDArray[np.float32], shelves: list[str]) -> tuple[Any, Any]:
        count = self._count
        wanted = np.isin(self._shelves[:count], shelves) & (self._norms[:count] > 0)
        cosines = np.zeros(count, np.float32)
        for start in range(0, count, _BLOCK):
            end = min(start + _BLOCK, count)
            cosines[start:end] = self._rows[start:end].astype(np.float32) @ query
        chosen = np.flatnonzero(wanted)
        return self._items[chosen], cosines[chosen] / self._norms[chosen]

    def put(self, rows: list[tuple[int, str, int, str, bytes]]) -> None:
        for item, kind, ref, shelf, vector in rows:
            place = self._count
            if place == len(self._items):
                self._grow()
            row = np.frombuffer(bytes(vector), np.int8)
            self._items[place] = item
            self._shelves[place] = shelf
            self._rows[place] = row
            self._norms[place] = np.linalg.norm(row.astype(np.float32))
            self._places.setdefault((kind, ref), []).append(place)
            self._count += 1

    def drop(self, kind: str, ref: int) -> None:
        """What is gone, or about to be put anew, keeps its place but can no longer be found."""
        for place in self._places.pop((kind, ref), ()):
            self._norms[place] = 0
            self._rows[place] = 0

    def _grow(self) -> None:
        size = len(self._items) * 2
        self._items = np.resize(self._items, size)
        self._shelves = np.resize(self._shelves, size)
        self._norms = np.resize(self._norms, size)
        rows = np.zeros((size, self._rows.shape[1]), np.int8)
        rows[: self._count] = self._rows[: self._count]
        self._rows = rows


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
    made.put([tuple(row) for row in tx.all(_ALL, workspace=workspace, model=model)])
    return made


def _catch_up(tx: Transaction, workspace: str, vectors: Resident) -> bool:
    """Follow the feed; False when there is too much of it."""
    changes = tx.all(_CHANGED, workspace=workspace, after=vectors.last, limit=_TOO_MANY + 1)
    if len(changes) > _TOO_MANY:
        return False
    for kind in ("exchange", "memory"):
        refs = sorted({int(id) for _, what, id in changes if what == kind})
        for ref in refs:
            vectors.drop(kind, ref)
        for some in padded(refs):
            rows = tx.all(_SOME, workspace=workspace, model=vectors.model, kind=kind, **some)
            vectors.put([tuple(row) for row in rows])
    if changes:
        vectors.last = changes[-1][0]
    return True
