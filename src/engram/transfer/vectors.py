"""The vectors of an export, each named by its thing and the piece of the text that it is for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..memory import embedding_models
from ..memory.embedding_queue import Vectors, insert_vectors
from ..storage.rows import Table, columns

if TYPE_CHECKING:
    from ..storage.engine import Transaction

_PAGE = 500
#: The form of a record. There is no such table: an item's own number is not exported.
RECORD = "vector"
FORM = Table("vectors", columns("workspace kind ref# piece# model vector@"), ("workspace", "kind", "ref", "piece"))

_FIRST = """
SELECT i.kind, i.ref, i.piece, v.vector FROM items i CROSS JOIN vectors v
WHERE v.item = i.id AND CAST(i.workspace AS TEXT) = :workspace AND v.model = :model
ORDER BY i.kind, i.ref, i.piece LIMIT :size
"""
_NEXT = """
SELECT i.kind, i.ref, i.piece, v.vector FROM items i CROSS JOIN vectors v
WHERE v.item = i.id AND CAST(i.workspace AS TEXT) = :workspace AND v.model = :model
  AND (i.kind, i.ref, i.piece) > (:kind, :ref, :piece)
ORDER BY i.kind, i.ref, i.piece LIMIT :size
"""
_ITEMS = """
SELECT ref, piece, id FROM items
WHERE workspace = :workspace AND kind = :kind AND ref IN (SELECT value FROM json_each(:refs))
"""
_DONE = """
DELETE FROM backlog
WHERE workspace = :workspace AND NOT EXISTS (
  SELECT 1 FROM items i WHERE i.kind = backlog.kind AND i.ref = backlog.ref
    AND NOT EXISTS (SELECT 1 FROM vectors v WHERE v.item = i.id AND v.model = :model))
"""


_ANY = "SELECT vector FROM vectors WHERE model = :model LIMIT 1"


class Vector(NamedTuple):
    workspace: str
    kind: str
    ref: int
    piece: int
    model: str
    vector: bytes


def read(tx: Transaction, workspace: str) -> Iterator[Vector]:
    """The vectors of the model that a workspace uses, in order."""
    model = embedding_models.model_of(tx, workspace)
    if model is None:
        return
    about: dict[str, Any] = {"workspace": workspace, "model": model, "size": _PAGE}
    rows = tx.all(_FIRST, **about)
    while rows:
        for kind, ref, piece, vector in rows:
            yield Vector(workspace, kind, ref, piece, model, bytes(vector))
        kind, ref, piece, _ = rows[-1]
        rows = tx.all(_NEXT, kind=kind, ref=ref, piece=piece, **about)


def length(tx: Transaction, model: str) -> int | None:
    """How long the vectors of a model are, in bytes; None if the store has none."""
    found = tx.value(_ANY, model=model)
    return None if found is None else len(found)


def add(tx: Transaction, vectors: Sequence[Vector]) -> int:
    """Store vectors of one workspace whose texts are indexed. Returns how many fit a text and the workspace's model."""
    if not vectors:
        return 0
    workspace, model = vectors[0].workspace, vectors[0].model
    if embedding_models.choose(tx, workspace, model) != model:
        return 0
    items: dict[tuple[str, int, int], int] = {}
    for kind in ("exchange", "memory"):
        refs = sorted({each.ref for each in vectors if each.kind == kind})
        if refs:
            found = tx.all(_ITEMS, workspace=workspace, kind=kind, refs=tx.array(refs))
            items |= {(kind, ref, piece): item for ref, piece, item in found}
    placed = [each for each in vectors if each.model == model and (each.kind, each.ref, each.piece) in items]
    numbers = [items[each.kind, each.ref, each.piece] for each in placed]
    insert_vectors(tx, numbers, Vectors(model, [each.vector for each in placed]))
    return len(placed)


def finish(tx: Transaction, workspace: str) -> None:
    """Take from the embedding queue what has all its vectors."""
    model = embedding_models.model_of(tx, workspace)
    if model is not None:
        tx.run(_DONE, workspace=workspace, model=model)
