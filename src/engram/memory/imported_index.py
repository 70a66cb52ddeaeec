"""Indexes turns and memories that were inserted as rows, without their words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import json_columns
from . import embedding_queue, memory_index, word_index

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..storage.engine import Transaction


def begin(tx: Transaction, workspace: str) -> None:
    """Have the words alone, because this transaction adds several times."""
    word_index.lock_shelves(tx, workspace)


def add(tx: Transaction, workspace: str, entries: Iterable[word_index.Entry]) -> None:
    """Put things on their shelves and queue them for their vectors."""
    shelves: dict[str, list[word_index.Entry]] = {}
    for entry in entries:
        shelves.setdefault(entry.shelf, []).append(entry)
    for _, group in sorted(shelves.items()):
        embedding_queue.store_vectors(tx, workspace, group, [None] * len(group))


def exchange(values: Mapping[str, Any], project: str | None) -> word_index.Entry:
    """The entry of a row of `exchanges`. The project is that of its session."""
    shelf = "logs" if values["turn"] is None else "turns"
    place = (values["role"], values["session_id"], project, values["turn"], values["created_at"])
    pieces = word_index.cut(values["content"])
    return word_index.Entry(shelf, "exchange", values["id"], *place, pieces, author=values["author"])


def memory(values: Mapping[str, Any]) -> word_index.Entry | None:
    """The entry of a row of `memories`; None if it has lost its text to forgetting, because then it is on no shelf."""
    if not values["content"]:
        return None
    kind = values["kind"]
    shelf = word_index.shelf_of(kind, values["status"])
    pieces = memory_index.pieces(kind, values["content"], json_columns.load(values["data"], "memories.data"))
    place = (kind, values["session_id"], values["project"], None, values["created_at"])
    return word_index.Entry(shelf, "memory", values["id"], *place, pieces, author=values["author"])
