"""The word index: which items are on which shelf, and which words they contain.

A shelf holds what is searched together: turns, memories, and separately logs, gists, eras, digests and the archive. So
default recall never pays for what it does not search. Statistics are per workspace and shelf.

The process remembers the numbers of terms, because looking up fifteen for every turn would cost more than the turn
itself. A number is remembered only after its transaction has committed. All numbers of a shelf are dropped when its
generation changes, which happens when a term is removed.
"""

from __future__ import annotations

from array import array
from collections import Counter
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from .. import mutexes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..storage.engine import Row, Transaction

#: Longer texts are cut into overlapping pieces of about this many characters, so that a long text is found by its
#: best part.
PIECE = 800
OVERLAP = 120
#: Kinds of memories with a shelf of their own. Recall searches those only on request.
OWN_SHELVES = {"gist": "gists", "era": "eras", "digest": "digests"}
#: All shelves, in the order in which they are locked.
SHELVES = ("archive", "digests", "eras", "gists", "logs", "memories", "turns")

_COUNT_IN = """
INSERT INTO shelves (workspace, shelf, items, length, generation) VALUES (:workspace, :shelf, :items, :length, 0)
ON CONFLICT (workspace, shelf) DO UPDATE SET items = shelves.items + :items, length = shelves.length + :length
RETURNING generation
"""
_COUNT_OUT = """
UPDATE shelves SET items = items - :items, length = length - :length WHERE workspace = :workspace AND shelf = :shelf
"""
_NEW_GENERATION = "UPDATE shelves SET generation = generation + 1 WHERE workspace = :workspace AND shelf = :shelf"
_FIND_TERMS = """
SELECT term, id FROM terms
WHERE workspace = :workspace AND shelf = :shelf AND term IN (SELECT value FROM json_each(:terms))
"""
_ADD_TERM = """
INSERT INTO terms (workspace, shelf, term) VALUES (:workspace, :shelf, :term)
ON CONFLICT (workspace, shelf, term) DO NOTHING
RETURNING id
"""
_ADD_ITEM = """
INSERT INTO items (workspace, shelf, kind, ref, piece, label, session_id, project, turn, at, length, terms,
                   author)
VALUES (:workspace, :shelf, :kind, :ref, :piece, :label, :session_id, :project, :turn, :at, :length, :terms,
        :author)
RETURNING id
"""
_ADD_POSTING = "INSERT INTO postings (term, item, tf, length) VALUES (:term, :item, :tf, :length)"
_ITEMS_OF = """
SELECT id, shelf, length, terms FROM items
WHERE workspace = :workspace AND kind = :kind AND ref IN (SELECT value FROM json_each(:refs)) ORDER BY id
"""
_REMOVE_POSTING = "DELETE FROM postings WHERE term = :term AND item = :item"
_REMOVE_ITEM = "DELETE FROM items WHERE workspace = :workspace AND id = :item"
_REMOVE_VECTORS = "DELETE FROM vectors WHERE item = :item"
_REMOVE_UNUSED_TERM = """
DELETE FROM terms
WHERE workspace = :workspace AND id = :term AND NOT EXISTS (SELECT 1 FROM postings WHERE postings.term = terms.id)
"""


class Piece(NamedTuple):
    """A part of a text as the index sees it."""

    start: int
    text: str
    #: How often each word occurs.
    counts: Counter[str]


class Entry(NamedTuple):
    """A thing to be indexed, and what recall may filter it by."""

    shelf: str
    #: `exchange` or `memory`.
    kind: str
    ref: int
    label: str
    session_id: str | None
    project: str | None
    turn: int | None
    at: str
    pieces: list[Piece]
    #: The number of the first of these pieces; those before it are already on the shelf.
    first: int = 0
    author: str | None = None


def shelf_of(kind: str, status: str) -> str:
    """The shelf of a memory."""
    return OWN_SHELVES.get(kind, "memories") if status == "active" else "archive"


def cut(text: str) -> list[Piece]:
    """The pieces of a text with their words. Needs no store, so call it before a transaction begins."""
    # Imported here, because a situation report imports this module and never cuts a text.
    from . import analyser

    return [Piece(start, part, Counter(analyser.terms(part))) for start, part in parts(text)]


def with_words(pieces: list[Piece], words: Iterable[str]) -> list[Piece]:
    """The pieces, the first of which is also found by these terms. A term that it contains already is not counted
    twice."""
    if not pieces:
        return pieces
    first, *rest = pieces
    return [first._replace(counts=first.counts | Counter(set(words))), *rest]


def cut_some(text: str, first: int, most: int) -> list[Piece]:
    """Like `cut`, but only `most` pieces, beginning with number `first`."""
    from . import analyser

    some = islice(parts(text), first, first + most)
    return [Piece(start, part, Counter(analyser.terms(part))) for start, part in some]


def add(tx: Transaction, workspace: str, entries: Iterable[Entry]) -> list[tuple[int, Piece]]:
    """Put entries on their shelves; returns each piece with the number of its item."""
    placed: list[tuple[int, Piece]] = []
    shelves: dict[str, list[Entry]] = {}
    for entry in entries:
        shelves.setdefault(entry.shelf, []).append(entry)
    # In order of name, so that two writers cannot wait for each other's shelves.
    for shelf, group in sorted(shelves.items()):
        placed += _add_to_shelf(tx, workspace, shelf, group)
    return placed


def remove(tx: Transaction, workspace: str, kind: str, refs: Sequence[int]) -> None:
    """Remove things from the index: postings, vectors, and terms that nothing else contains."""
    lock_items(tx, workspace)
    shelves: dict[str, list[Row]] = {}
    for item, shelf, length, packed in tx.all(_ITEMS_OF, workspace=workspace, kind=kind, refs=tx.array(refs)):
        shelves.setdefault(shelf, []).append((item, length, packed))
    for shelf, rows in sorted(shelves.items()):
        _remove_from_shelf(tx, workspace, shelf, rows)


def _remove_from_shelf(tx: Transaction, workspace: str, shelf: str, rows: list[Row]) -> None:
    # Lock the shelf's row first, like writers that add: a term must not vanish while another writer is using it.
    lengths = sum(length for _, length, _ in rows)
    tx.run(_COUNT_OUT, workspace=workspace, shelf=shelf, items=len(rows), length=lengths)
    numbers: set[int] = set()
    for item, _, packed in rows:
        terms = unpack(packed)
        numbers.update(terms)
        tx.many(_REMOVE_POSTING, [{"term": term, "item": item} for term in terms])
        tx.run(_REMOVE_VECTORS, item=item)
        tx.run(_REMOVE_ITEM, workspace=workspace, item=item)
    if any([tx.run(_REMOVE_UNUSED_TERM, workspace=workspace, term=term) for term in sorted(numbers)]):
        tx.run(_NEW_GENERATION, workspace=workspace, shelf=shelf)


def lock_items(tx: Transaction, workspace: str) -> None:
    """Keep others from deleting items until this transaction ends, so that a vector's item still exists."""
    tx.lock(mutexes.items(workspace))


def lock_shelves(tx: Transaction, workspace: str) -> None:
    """Wait for all writers that add to a shelf, and keep others from adding until this transaction ends."""
    for shelf in SHELVES:
        tx.all(_COUNT_IN, workspace=workspace, shelf=shelf, items=0, length=0)


def pack(numbers: Iterable[int]) -> bytes:
    return array("q", numbers).tobytes()


def unpack(packed: bytes) -> list[int]:
    numbers = array("q")
    numbers.frombytes(bytes(packed))
    return numbers.tolist()


def _add_to_shelf(tx: Transaction, workspace: str, shelf: str, entries: list[Entry]) -> list[tuple[int, Piece]]:
    pieces = [(entry, number, piece) for entry in entries for number, piece in enumerate(entry.pieces, entry.first)]
    lengths = [piece.counts.total() for _, _, piece in pieces]
    generation = tx.value(_COUNT_IN, workspace=workspace, shelf=shelf, items=len(pieces), length=sum(lengths))
    wanted = sorted({term for _, _, piece in pieces for term in piece.counts})
    numbers = _term_numbers(tx, workspace, shelf, generation, wanted)
    placed = []
    postings: list[dict[str, int]] = []
    for (entry, position, piece), length in zip(pieces, lengths, strict=True):
        item: int = tx.value(
            _ADD_ITEM,
            workspace=workspace,
            shelf=shelf,
            kind=entry.kind,
            ref=entry.ref,
            piece=position,
            label=entry.label,
            session_id=entry.session_id,
            project=entry.project,
            turn=entry.turn,
            at=entry.at,
            length=length,
            terms=pack(numbers[term] for term in piece.counts),
            author=entry.author,
        )
        placed.append((item, piece))
        postings += [
            {"term": numbers[term], "item": item, "tf": tf, "length": length} for term, tf in piece.counts.items()
        ]
    # In the order of the table, so that neighbouring rows go to the same page.
    postings.sort(key=itemgetter("term", "item"))
    if postings:
        tx.many(_ADD_POSTING, postings)
    return placed


def _term_numbers(tx: Transaction, workspace: str, shelf: str, generation: int, wanted: list[str]) -> dict[str, int]:
    """The number of each term. New terms get one."""
    known = _known_numbers(tx, workspace, shelf, generation)
    found = {term: known[term] for term in wanted if term in known}
    missing = [term for term in wanted if term not in found]
    fresh = find(tx, workspace, shelf, missing)
    for term in missing:
        if term not in fresh:
            fresh[term] = _insert_term(tx, workspace, shelf, term)
    if fresh:
        tx.afterwards.append(lambda: known.update(fresh))
    return {**found, **fresh}


def _known_numbers(tx: Transaction, workspace: str, shelf: str, generation: int) -> dict[str, int]:
    """The numbers that this process remembers for a shelf; empty when the shelf's generation has changed."""
    known: dict[tuple[str, str], tuple[int, dict[str, int]]] = tx.memo.setdefault("terms", {})
    known_generation, numbers = known.get((workspace, shelf), (None, {}))
    if known_generation != generation:
        numbers = {}
        known[workspace, shelf] = (generation, numbers)
    return numbers


def find(tx: Transaction, workspace: str, shelf: str, terms: list[str]) -> dict[str, int]:
    """The numbers of those terms that the shelf contains."""
    return dict(tx.all(_FIND_TERMS, workspace=workspace, shelf=shelf, terms=tx.array(terms)))


def _insert_term(tx: Transaction, workspace: str, shelf: str, term: str) -> int:
    number: int | None = tx.value(_ADD_TERM, workspace=workspace, shelf=shelf, term=term)
    # If another writer was faster, its row can be found now.
    return find(tx, workspace, shelf, [term])[term] if number is None else number


def parts(text: str) -> Iterable[tuple[int, str]]:
    """A short text whole; a long one in overlapping parts that end at a space if possible."""
    if len(text) <= PIECE * 5 // 4:
        yield 0, text
        return
    start = 0
    while True:
        end = start + PIECE
        if end >= len(text):
            yield start, text[start:]
            return
        space = text.rfind(" ", start + PIECE // 2, end)
        end = space if space > 0 else end
        yield start, text[start:end]
        start = end - OVERLAP
