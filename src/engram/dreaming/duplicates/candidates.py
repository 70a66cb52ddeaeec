"""Finds the pairs of memories that are worth comparing: those close to a new memory, by vectors or by words.

Only memories that are new to a pass are compared with the others. All vectors and the numbers of all words are read
once. A query per memory would read everything each time, and this way both engines give the same pairs in the same
order. A few new memories are compared with all others. When nearly all memories are new, as in the first pass, that
time would grow with the square of their number, so several trees are built instead. Each tree splits the memories in
half again and again, between two of them that a fixed seed chooses, until the groups are small enough to compare all
pairs. Duplicates are rarely separated in every tree. By words, candidates share rare words, and memories with exactly
the same words are always paired. Pairs of long texts with few words in common are left out at the end, because among
many vectors some are close by chance.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...embedding.quantise import from_int8, to_int8
from ...memory.embedding_models import model_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    import numpy.typing as npt

    from ...storage.engine import Transaction
    from ...store_view import StoreView

    Floats = npt.NDArray[np.float32]
    Numbers = npt.NDArray[np.int64]

#: Memory ids covered by one query; rows that are compared with others at once.
_PORTION, _BLOCK = 16_384, 1_024
#: The number of trees, and the most memories in a leaf. With fewer new memories than the product of both, comparing
#: them with all others is faster.
_TREES, _LEAF = 8, 256
_SEED = 5
#: How many of a memory's rarest words find candidates. A word that more memories than this contain is not used.
_LEADS, _COMMON = 8, 64
#: Texts with more words than this must share at least this part of their words.
_SHORT, _HARDLY = 8, 1 / 3
#: Memories are close by words if they share at least this part of the weight of their rare words.
_SHARED = 0.5

_LAST = "SELECT COALESCE(MAX(id), 0) FROM memories WHERE workspace = :workspace"
_SOME = """
SELECT m.id, i.terms, v.vector
FROM memories m
JOIN items i ON i.kind = 'memory' AND i.ref = m.id AND i.shelf = 'memories'
LEFT JOIN vectors v ON v.item = i.id AND v.model = :model
WHERE m.workspace = :workspace AND m.id > :after AND m.id <= :until AND m.status = 'active'
  AND m.kind <> 'store-item' AND (m.expires_at IS NULL OR m.expires_at > :now)
ORDER BY m.id, i.piece
"""


class Pair(NamedTuple):
    """Two memories that may say the same or contradict each other."""

    #: The lower id of the two.
    first: int
    second: int
    #: None while one of them has no vector.
    cosine: float | None


def candidates(view: StoreView, fresh: Collection[int], *, least: float = 0.4, most: int = 10) -> Iterator[Pair]:
    """Pairs of a `fresh` memory and one of its closest others: at most `most` by vectors, and as many by words.

    Only active memories count, without gists, eras and digests, and without items of stores, which other programs look
    up by their keys. Vectors are close if their cosine is at least `least`. Pairs come in the order of their ids, each
    once. No transaction is open meanwhile.
    """
    if not fresh:
        return iter(())
    with view.engine.read() as tx:
        shelf = _load(tx, view.workspace)
    new = np.isin(shelf.ids, list(fresh))
    found = np.concatenate(
        [_by_vectors(shelf, new, least, most), _by_words(shelf, new, most), _same_words(shelf, new, most)]
    )
    return _pairs(shelf, np.unique(np.sort(found, axis=1), axis=0))


class _Shelf(NamedTuple):
    """The vectors and words of all memories. A place is a position in these arrays."""

    ids: Numbers
    #: Eight bits per dimension; zeros for a memory without a vector.
    rows: npt.NDArray[np.int8]
    #: The numbers of all words, memory by memory, and the place of each word's memory.
    terms: Numbers
    owners: Numbers

    def units(self, places: Numbers) -> Floats:
        """Unit vectors, so that a product is a cosine."""
        return from_int8(self.rows[places])

    def words(self, places: Numbers) -> tuple[Numbers, Numbers]:
        """The number of words of the memories at these places, and each word combined with its place in one number."""
        starts = np.searchsorted(self.owners, places)
        counts = np.searchsorted(self.owners, places, "right") - starts
        whose = np.repeat(np.arange(len(places)), counts)
        terms = self.terms[np.repeat(starts, counts) + _rank(whose)]
        return counts, whose * (self.terms.max(initial=0) + 1) + terms


def _load(tx: Transaction, workspace: str) -> _Shelf:
    model, now = model_of(tx, workspace), tx.now()
    ids: list[int] = []
    terms: list[Numbers] = [np.zeros(0, np.int64)]
    vectors: list[bytes] = []
    last: int = tx.value(_LAST, workspace=workspace)
    for after in range(0, last, _PORTION):
        rows = tx.all(_SOME, workspace=workspace, model=model, now=now, after=after, until=after + _PORTION)
        for id, pieces in groupby(rows, itemgetter(0)):
            _, packed, rest = zip(*pieces, strict=True)
            ids.append(id)
            terms.append(np.unique(np.frombuffer(b"".join(map(bytes, packed)), np.int64)))
            vectors.append(_mean([bytes(vector) for vector in rest if vector is not None]))
    # An import may have brought vectors of another length; they count as missing.
    lengths = [len(vector) for vector in vectors if vector]
    dims = max(set(lengths), key=lengths.count, default=0)
    filled = b"".join(vector if len(vector) == dims else bytes(dims) for vector in vectors)
    matrix = np.frombuffer(filled, np.int8).reshape(len(ids), dims)
    owners = np.repeat(np.arange(len(ids)), [len(each) for each in terms[1:]])
    return _Shelf(np.array(ids, np.int64), matrix, np.concatenate(terms), owners)


def _mean(vectors: Sequence[bytes]) -> bytes:
    """The mean vector of a memory's pieces."""
    if len(vectors) < 2:
        return vectors[0] if vectors else b""
    rows = np.frombuffer(b"".join(vectors), np.int8).reshape(len(vectors), -1)
    return to_int8(from_int8(rows).mean(axis=0)).tobytes()


def _by_vectors(shelf: _Shelf, new: npt.NDArray[np.bool_], least: float, most: int) -> Numbers:
    """Pairs of a new place and one of its closest, by vectors."""
    known = np.flatnonzero(shelf.rows.any(axis=1))
    fresh = known[new[known]]
    best = _Best(len(shelf.ids), most)
    if len(fresh) <= _TREES * _LEAF:
        for start in range(0, len(fresh), _BLOCK):
            for other in range(0, len(known), _BLOCK):
                best.add(*_close(shelf, fresh[start : start + _BLOCK], known[other : other + _BLOCK], least, most))
            best.settle()
    else:
        chance = np.random.default_rng(_SEED)
        for _ in range(_TREES):
            for leaf in _leaves(shelf, known, chance):
                best.add(*_close(shelf, leaf[new[leaf]], leaf, least, most))
            best.settle()
    return best.pairs


class _Best:
    """Collects the closest others of each place. A pair of places is one number, which sorts fast."""

    def __init__(self, size: int, most: int) -> None:
        self._size = size
        self._most = most
        self._waiting: list[tuple[Numbers, Floats]] = []
        self._keys: Numbers = np.zeros(0, np.int64)
        self._scores: Floats = np.zeros(0, np.float32)

    def add(self, here: Numbers, there: Numbers, scores: Floats) -> None:
        self._waiting.append((here * self._size + there, scores))

    def settle(self) -> None:
        """Keep the best of each place, ties by number. The same pair may have been found more than once."""
        keys, first = np.unique(np.concatenate([self._keys, *(each for each, _ in self._waiting)]), return_index=True)
        scores = np.concatenate([self._scores, *(each for _, each in self._waiting)])[first]
        self._waiting.clear()
        order = np.lexsort((keys, -scores, keys // self._size))
        kept = order[_rank(keys[order] // self._size) < self._most]
        self._keys, self._scores = keys[kept], scores[kept]

    @property
    def pairs(self) -> Numbers:
        return np.stack(np.divmod(self._keys, self._size), axis=1)


def _rank(groups: Numbers) -> Numbers:
    """The position of each item within its group. The items of a group are adjacent."""
    starts = np.flatnonzero(np.r_[True, groups[1:] != groups[:-1]]) if len(groups) else np.zeros(0, np.int64)
    sizes = np.diff(np.r_[starts, len(groups)])
    ranks: Numbers = np.arange(len(groups)) - np.repeat(starts, sizes)
    return ranks


def _close(shelf: _Shelf, here: Numbers, there: Numbers, least: float, most: int) -> tuple[Numbers, Numbers, Floats]:
    """For each place in `here`, the closest places in `there`, with their cosines."""
    cosines = shelf.units(here) @ shelf.units(there).T
    cosines[here[:, None] == there[None, :]] = -1
    if len(there) > most:
        edge = np.partition(cosines, len(there) - most, axis=1)[:, len(there) - most, None]
        rows, columns = np.nonzero((cosines >= edge) & (cosines >= least))
    else:
        rows, columns = np.nonzero(cosines >= least)
    # Rounded, because the last bits depend on the shape of the product, and equal values must stay equal.
    return here[rows], there[columns], np.round(cosines[rows, columns], 5)


def _leaves(shelf: _Shelf, places: Numbers, chance: np.random.Generator) -> Iterator[Numbers]:
    """The leaves of one tree: groups of memories that are close to each other."""
    waiting = [places]
    while waiting:
        some = waiting.pop()
        if len(some) <= _LEAF:
            yield some
            continue
        one, other = shelf.units(chance.choice(some, 2, replace=False))
        along = np.concatenate(
            [shelf.units(some[start : start + _BLOCK]) @ (one - other) for start in range(0, len(some), _BLOCK)]
        )
        order = np.argsort(np.round(along, 5), kind="stable")
        waiting += [np.sort(some[order[: len(some) // 2]]), np.sort(some[order[len(some) // 2 :]])]


def _by_words(shelf: _Shelf, new: npt.NDArray[np.bool_], most: int) -> Numbers:
    """Pairs of a new place and one that shares most of its rare words."""
    terms, owners, weights = _leads(shelf)
    totals = np.bincount(owners, weights, len(shelf.ids))
    order = np.argsort(terms, kind="stable")
    terms, posted, weights = terms[order], owners[order], weights[order]
    starts, ends = np.searchsorted(terms, terms, "left"), np.searchsorted(terms, terms, "right")
    asking = np.argsort(posted, kind="stable")
    best = _Best(len(shelf.ids), most)
    asking = asking[new[posted[asking]]]
    askers = posted[asking]
    for start in range(0, len(shelf.ids), _BLOCK):
        some = asking[slice(*np.searchsorted(askers, (start, start + _BLOCK)))]
        sizes = ends[some] - starts[some]
        others = posted[np.repeat(starts[some], sizes) + _rank(np.repeat(np.arange(len(some)), sizes))]
        keys, where = np.unique(np.repeat(posted[some], sizes) * len(shelf.ids) + others, return_inverse=True)
        shared = np.bincount(where, np.repeat(weights[some], sizes), len(keys))
        here, there = np.divmod(keys, len(shelf.ids))
        share = np.round(shared / np.maximum(totals[here], totals[there]), 5).astype(np.float32)
        close = (share >= _SHARED) & (here != there)
        best.add(here[close], there[close], share[close])
    best.settle()
    return best.pairs


def _leads(shelf: _Shelf) -> tuple[Numbers, Numbers, Floats]:
    """The rarest words of each memory, if they are rare enough: their numbers, owners and weights."""
    _, terms, counts = np.unique(shelf.terms, return_inverse=True, return_counts=True)
    often = counts[terms]
    order = np.lexsort((terms, often, shelf.owners))
    rare = (_rank(shelf.owners[order]) < _LEADS) & (often[order] <= _COMMON)
    chosen = order[rare]
    weights: Floats = np.log(1 + len(shelf.ids) / often[chosen])
    return terms[chosen], shelf.owners[chosen], weights


def _same_words(shelf: _Shelf, new: npt.NDArray[np.bool_], most: int) -> Numbers:
    """Pairs of places with exactly the same words, however common, in any order."""
    number, where = np.unique(shelf.terms, return_inverse=True)
    marks = np.random.default_rng(_SEED).integers(0, 2**62, len(number), np.uint64)
    sums = np.zeros(len(shelf.ids), np.uint64)
    np.add.at(sums, shelf.owners, marks[where])
    order = np.argsort(sums, kind="stable")
    sums = sums[order]
    found = [np.zeros((0, 2), np.int64)]
    for step in range(1, most + 1):
        here, there = order[:-step], order[step:]
        same = (sums[:-step] == sums[step:]) & (sums[step:] > 0) & (new[here] | new[there])
        found.append(np.stack([here[same], there[same]], axis=1))
    return np.concatenate(found)


def _with_common_words(shelf: _Shelf, found: Numbers) -> Numbers:
    """The pairs of short texts, and those of long ones that share enough words."""
    (one, left), (other, right) = (shelf.words(places) for places in found.T)
    longer = np.maximum(one, other)
    whose = np.repeat(np.arange(len(found)), one)
    shared = np.bincount(whose[np.isin(left, right, assume_unique=True)], minlength=len(found))
    return found[(longer <= _SHORT) | (shared >= _HARDLY * longer)]


def _pairs(shelf: _Shelf, found: Numbers) -> Iterator[Pair]:
    for start in range(0, len(found), _BLOCK):
        first, second = _with_common_words(shelf, found[start : start + _BLOCK]).T
        one, other = shelf.units(first), shelf.units(second)
        cosines = np.einsum("ij,ij->i", one, other).tolist()
        known = np.logical_and(one.any(axis=1), other.any(axis=1)).tolist()
        numbers = zip(shelf.ids[first].tolist(), shelf.ids[second].tolist(), cosines, known, strict=True)
        for a, b, cosine, both in numbers:
            yield Pair(a, b, cosine if both else None)
