"""Finds the vectors closest to a query's.

If the engine can compare vectors, it does. Otherwise (SQLite, PostgreSQL without pgvector) a long-lived process keeps
the workspace's vectors in memory and updates them from the change feed.

An import cannot know how long a model's vectors are. One of another length than the query's counts as missing.

Vectors have eight bits per dimension and are compared by cosine, block by block in floating point, which needs memory
for one block only. The first recall of a process loads all of them. Later ones ask the feed for changes and fetch only
those, so what another process forgot disappears here too.
"""

from __future__ import annotations

import threading
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from ..embedding.quantise import from_int8
from ..storage.changes import latest
from ..storage.engine import Closest
from .embedding_models import EXACT_BELOW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from ..storage.engine import Row, Transaction

#: Rows multiplied at once; as floating point they fit into a processor's cache.
_BLOCK = 512
#: Rows fetched at once.
_PORTION = 16_384
#: With more changes than this, loading everything again is faster.
_TOO_MANY = 20_000
#: Cosines this many standard deviations above the mean are searched for the best ones first.
_FAR = 2.0
#: How many items the model's own mean and deviation count for.
_PRIOR = 64
#: The number of items for which meaning is given. Unrelated items of one person are less unlike each other than random
#: ones, so less than the whole difference counts.
_REFERENCE, _SHIFT = 1_000, 0.7

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
_OF_ITEMS = "SELECT item, vector FROM vectors WHERE item IN (SELECT value FROM json_each(:items)) AND model = :model"


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
        #: The largest ref of each kind; newer things are not loaded yet.
        self._newest: dict[str, int] = {}
        self._floats = np.empty((_BLOCK, dims), np.float32)
        #: Threads of a server share this object.
        self.lock = threading.Lock()

    def closest(self, query: npt.NDArray[np.float32], shelves: Sequence[str], most: int) -> Closest:
        """The most similar items on those shelves, with mean and spread of all of them."""
        items, cosines = self._cosines(query, shelves)
        if len(items) == 0:
            return Closest([], 0.0, 0.0)
        mean, spread = float(cosines.mean()), float(cosines.std())
        if len(items) > most:
            # The best are usually far above the mean, where there are few to choose from.
            far = cosines[cosines > mean + _FAR * spread]
            least = np.partition(far if len(far) >= most else cosines, -most)[-most]
            best = np.flatnonzero(cosines >= least)
        else:
            best = np.arange(len(items))
        found = list(zip(items[best].tolist(), cosines[best].tolist(), strict=True))
        return Closest(found, mean, spread)

    def _cosines(self, query: npt.NDArray[np.float32], shelves: Sequence[str]) -> tuple[Any, Any]:
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
        """Add rows of item, kind, ref, shelf and vector."""
        rows = _of_length(rows, self._rows.shape[1])
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
        """Hide items that were deleted or are about to be added again. Their rows stay."""
        known = [ref for ref in refs if ref <= self._newest.get(kind, 0)]
        if known:
            count = self._count
            gone = (self._kinds[:count] == self._code(kind)) & np.isin(self._refs[:count], known)
            self._norms[:count][gone] = 0
            self._rows[:count][gone] = 0

    def _blocks(self, start: int, end: int) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
        """The rows from start to end in floating point, block by block."""
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
        self._items = _resized(self._items, size)
        self._refs = _resized(self._refs, size)
        self._kinds = _resized(self._kinds, size)
        self._shelves = _resized(self._shelves, size)
        self._rows = _resized(self._rows, size)
        self._norms = _resized(self._norms, size)


def _resized(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    made = np.zeros((size, *array.shape[1:]), array.dtype)
    made[: len(array)] = array
    return made


def ask_closest(
    tx: Transaction,
    workspace: str,
    model: str,
    query: npt.NDArray[np.float32],
    usual: tuple[float, float],
    shelves: Sequence[str],
    size: int,
    most: int,
    among: Sequence[int] | None = None,
) -> Callable[[], dict[int, float]]:
    """Ask for the `most` items closest in meaning, in standard deviations above the mean of those shelves.

    Calling the result reads the answer. With `among`, all of these items instead, however far away they are.

    The shelves have `size` items. A few items say little about mean and deviation, so the model's own (`usual`) count
    too, as if they had been seen in `_PRIOR` items. The more items there are, the closer is the closest unrelated one,
    so meaning is given as it would be among `_REFERENCE` items. The engine compares if it can. Otherwise this process
    does, with the vectors it keeps.
    """
    most = most if among is None else 1
    asked = tx.closest(workspace, model, query.tolist(), shelves, most, size if size >= EXACT_BELOW else None)

    def answer() -> dict[int, float]:
        found = asked() if asked else resident(tx, workspace, model, len(query)).closest(query, shelves, most)
        if among is not None:
            found = found._replace(items=_cosines_of(tx, model, query, among))
        usual_mean, usual_spread = usual
        share = size / (size + _PRIOR)
        mean = share * found.mean + (1 - share) * usual_mean
        spread = share * found.spread + (1 - share) * usual_spread
        shift = _SHIFT * (_highest(_REFERENCE) - _highest(size))
        return {item: (cosine - mean) / spread + shift for item, cosine in found.items}

    return answer


def _cosines_of(
    tx: Transaction, model: str, query: npt.NDArray[np.float32], items: Sequence[int]
) -> list[tuple[int, float]]:
    """Some items with their cosines. Those without a vector are left out."""
    rows = _of_length(tx.all(_OF_ITEMS, items=tx.array(items), model=model), len(query))
    if not rows:
        return []
    vectors = np.frombuffer(b"".join(bytes(vector) for _, vector in rows), np.int8).reshape(len(rows), -1)
    cosines = (from_int8(vectors) @ query).tolist()
    # A vector of zeros has no direction: the model knew none of the words.
    return [(item, cosine) for (item, vector), cosine in zip(rows, cosines, strict=True) if any(bytes(vector))]


def _of_length(rows: Sequence[Row], dims: int) -> Sequence[Row]:
    """The rows whose last value is a vector of this length."""
    return rows if all(len(row[-1]) == dims for row in rows) else [row for row in rows if len(row[-1]) == dims]


def _highest(size: int) -> float:
    """About the highest of this many values of a normal distribution, in standard deviations (Blom's formula)."""
    return NormalDist().inv_cdf((size - 0.375) / (size + 0.25)) if size else 0.0


def resident(tx: Transaction, workspace: str, model: str, dims: int) -> Resident:
    """The workspace's vectors as this transaction sees them."""
    # The changes of a writer may be rolled back, so they must not be kept.
    if tx.writable or tx.feed_end is None:
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
    if not tx.writable and tx.feed_end is not None:
        made.last = latest(tx, workspace)
    after = 0
    while rows := tx.all(_NEXT, workspace=workspace, model=model, after=after, limit=_PORTION):
        made.put(rows)
        after, *_ = rows[-1]
    return made


def _catch_up(tx: Transaction, workspace: str, vectors: Resident) -> bool:
    """Apply the changes of the feed. False when there are too many, or the workspace has another model."""
    changes = tx.all(_CHANGED, workspace=workspace, after=vectors.last, limit=_TOO_MANY + 1)
    if len(changes) > _TOO_MANY or any(what == "model" for _, what, _ in changes):
        return False
    for kind in ("exchange", "memory"):
        refs = sorted({int(id) for _, what, id in changes if what == kind})
        vectors.drop(kind, refs)
        if refs:
            vectors.put(tx.all(_SOME, workspace=workspace, model=vectors.model, kind=kind, ids=tx.array(refs)))
    # A change that is not decided yet may come between those that are here. They are applied again then.
    end = tx.feed_end or 0
    vectors.last = max([number for number, _, _ in changes if number <= end], default=vectors.last)
    return True
