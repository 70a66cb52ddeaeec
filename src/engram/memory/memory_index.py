"""Puts a memory on the shelf where recall looks for it, and takes it off again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import embedding_queue, word_index

if TYPE_CHECKING:
    from ..records import Memory
    from ..storage.engine import Transaction

#: The key in a gist's data for words that only the index contains.
WORDS = "words"


def add(
    tx: Transaction,
    workspace: str,
    memory: Memory,
    pieces: list[word_index.Piece],
    vectors: embedding_queue.Vectors | None,
) -> None:
    """Index a memory on the shelf for its status. Without vectors, the embedding queue computes them."""
    shelf = word_index.shelf_of(memory.kind, memory.status)
    place = (memory.kind, memory.session_id, memory.project, None, memory.created_at, pieces)
    entry = word_index.Entry(shelf, "memory", memory.id, *place, author=memory.author)
    embedding_queue.store_vectors(tx, workspace, [entry], [vectors])


def pieces(kind: str, content: str, data: object) -> list[word_index.Piece]:
    """The pieces of a memory's text. A gist is also found by the words in its data."""
    made = word_index.cut(content)
    return word_index.with_words(made, words_of(data)) if kind == "gist" else made


def words_of(data: object) -> list[str]:
    """The words by which a memory is found besides those of its text. Only a gist has some."""
    words = data.get(WORDS) if isinstance(data, dict) else None
    return [word for word in words if isinstance(word, str)] if isinstance(words, list) else []


def remove(tx: Transaction, workspace: str, id: int) -> None:
    # The queue entry first, so that a process that is embedding the old text does not find it again.
    embedding_queue.withdraw(tx, workspace, "memory", id)
    word_index.remove(tx, workspace, "memory", [id])
