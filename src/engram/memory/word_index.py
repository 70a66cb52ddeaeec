"""The word index: who is on which shelf, and which words they have.

A shelf is what is searched together: turns, memories, and apart from them logs, gists, eras, digests and the archive,
so that default recall never pays for what it does not look at. Statistics are per workspace and shelf.

Numbers of terms are remembered by the process, because looking fifteen of them up for every turn would cost more than
the turn. A number is remembered only once its transaction has committed, and all of a shelf's are dropped when its
generation has changed, which is what removing a term does.
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

#: Longer contents are cut into pieces of about this many characters for the indexes, overlapping a little, so that
#: a long text is found by its best part.
PIECE = 800
OVERLAP = 120
#: Kinds of memories with a shelf of their own, which recall looks at only when it is told to.
OWN_SHELVES = {"gist": "gists", "era": "eras", "digest": "digests"}
#: Every shelf there is, in the order in which they are locked.
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
INSERT INTO items (workspace, shelf, kind, ref, piece, label, session_id, project, turn, at, length, terms)
VALUES (:workspace, :shelf, :kind, :ref, :piece, :label, :session_id, :project, :turn, :at, :length, :terms)
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
    """What is to be indexed, and what recall may filter it by."""

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
    #: The number of the first of these pieces, when those before it are on the shelf already.
    first: int = 0


def shelf_of(kind: str, status: str) -> str:
    """Where a memory belongs."""
    return OWN_SHELVES.get(kind, "memories") if status == "active" else "archive"


def cut(text: str) -> list[Piece]:
    """The pieces of a text with their words; needs no store, so it is done before a transaction begins."""
    # Imported here: a situation report comes past this module without ever cutting a text.
    from . import analyser

    return [Piece(start, part, Counter(analyser.terms(part))) for start, part in parts(text)]


def cut_some(text: str, first: int, most: int) -> list[Piece]:
    """As `cut`, but only `most` pieces, beginning with the one numbered `first`."""
    from . import analyser

    some = islice(parts(text), first, first + most)
    return [Piece(start, part, Counter(analyser.terms(part))) for start, part in some]


def add(tx: Transaction, workspace: str, entries: Iterable[Entry]) -> list[tuple[int, Piece]]:
    """Put entries on their shelves; the number of each piece's item."""
    placed: list[tuple[int, Piece]] = []
    shelves: dict[str, list[Entry]] = {}
    for entry in entries:
        shelves.setdefault(entry.shelf, []).append(entry)
    # In order of name, as everybody does it: two writers must not wait for each other's shelves crosswise.
    for shelf, group in sorted(shelves.items()):
        placed += _add_to_shelf(tx, workspace, shelf, group)
    return placed


def remove(tx: Transaction, workspace: str, kind: str, refs: Sequence[int]) -> None:
    """Take things out of the index: postings, vectors, and words that nothing else has."""
    keep_items(tx, workspace)
    shelves: dict[str, list[Row]] = {}
    for row in tx.all(_ITEMS_OF, workspace=workspace, kind=kind, refs=tx.array(refs)):
        shelves.setdefault(row[1], []).append(row)
    for shelf, rows in sorted(shelves.items()):
        _remove_from_shelf(tx, workspace, shelf, rows)


def _remove_from_shelf(tx: Transaction, workspace: str, shelf: str, rows: list[Row]) -> None:
    # First the shelf's row, as whoever adds to it does: a word must not vanish while somebody is about to use it.
    lengths = sum(length for _, _, length, _ in rows)
    tx.run(_COUNT_OUT, workspace=workspace, shelf=shelf, items=len(rows), length=lengths)
    numbers: set[int] = set()
    for item, _, _, packed in rows:
        terms = unpack(packed)
        numbers.update(terms)
        tx.many(_REMOVE_POSTING, [{"term": term, "item": item} for term in terms])
        tx.run(_REMOVE_VECTORS, item=item)
        tx.run(_REMOVE_ITEM, workspace=workspace, item=item)
    if any([tx.run(_REMOVE_UNUSED_TERM, workspace=workspace, term=term) for term in sorted(numbers)]):
        tx.run(_NEW_GENERATION, workspace=workspace, shelf=shelf)


def keep_items(tx: Transaction, workspace: str) -> None:
    """Nothing but this transaction takes items away until it ends: who gives one its vector must find it there."""
    tx.lock(mutexes.items(workspace))


def hold_shelves(tx: Transaction, workspace: str) -> None:
    """Wait for everybody who is putting something on a shelf, and let nobody else do so until this transaction ends."""
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
    counted = tx.all(_COUNT_IN, workspace=workspace, shelf=shelf, items=len(pieces), length=sum(lengths))
    wanted = sorted({term for _, _, piece in pieces for term in piece.counts})
    numbers = _numbers(tx, workspace, shelf, counted[0][0], wanted)
    placed = []
    postings: list[dict[str, int]] = []
    for (entry, position, piece), length in zip(pieces, lengths, strict=True):
        made = tx.all(
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
        )
        item: int = made[0][0]
        placed.append((item, piece))
        postings += [
            {"term": numbers[term], "item": item, "tf": tf, "length": length} for term, tf in piece.counts.items()
        ]
    # In the order of the table: neighbours go to the same page of it.
    postings.sort(key=itemgetter("term", "item"))
    if postings:
        tx.many(_ADD_POSTING, postings)
    return placed


def _numbers(tx: Transaction, workspace: str, shelf: str, generation: int, wanted: list[str]) -> dict[str, int]:
    """The number of each term, made where there is none yet."""
    known = _remembered(tx, workspace, shelf, generation)
    found = {term: known[term] for term in wanted if term in known}
    missing = [term for term in wanted if term not in found]
    fresh = find(tx, workspace, shelf, missing)
    for term in missing:
        if term not in fresh:
            fresh[term] = _new_number(tx, workspace, shelf, term)
    if fresh:
        tx.afterwards.append(lambda: known.update(fresh))
    return {**found, **fresh}


def _remembered(tx: Transaction, workspace: str, shelf: str, generation: int) -> dict[str, int]:
    """The numbers this process knows of a shelf; an empty dictionary to fill when its generation has changed."""
    known: dict[tuple[str, str], tuple[int, dict[str, int]]] = tx.memo.setdefault("terms", {})
    if known.get((workspace, shelf), (None, None))[0] != generation:
        known[workspace, shelf] = (generation, {})
    return known[workspace, shelf][1]


def find(tx: Transaction, workspace: str, shelf: str, terms: list[str]) -> dict[str, int]:
    """The numbers of those terms that the shelf has."""
    return dict(tx.all(_FIND_TERMS, workspace=workspace, shelf=shelf, terms=tx.array(terms)))


def _new_number(tx: Transaction, workspace: str, shelf: str, term: str) -> int:
    made = tx.one(_ADD_TERM, workspace=workspace, shelf=shelf, term=term)
    # Another writer may have been faster; then its row is there to be found now.
    number: int = made[0] if made else find(tx, workspace, shelf, [term])[term]
    return number


def parts(text: str) -> Iterable[tuple[int, str]]:
    """A short text whole; a long one in overlapping parts that end at a space where there is one."""
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
