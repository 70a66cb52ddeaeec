"""The word index: which items are on which shelf, and which words they contain.

A shelf holds what is searched together: turns, memories, and separately logs, gists, eras, digests and the archive. So
default recall never pays for what it does not search. Statistics are per workspace and shelf.

The process remembers the numbers of terms, because looking up fifteen for every turn would cost more than the turn
itself. A number is remembered only after its transaction has committed. All numbers of a shelf are dropped when its
generation changes, which happens when a term is removed.

How many items a shelf has, and how long they are together, is the sum of several rows of `shelves`, one for each slot
(`turns`, `turns/1`, `turns/2`…). Writers with different slots do not wait for each other. The first row also has the
shelf's generation.
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

    from ..storage.engine import Answer, Row, Transaction

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
"""
_GENERATION = "SELECT generation FROM shelves WHERE workspace = :workspace AND shelf = :shelf"
# In the order of characters, 0 comes after the slash.
_SIZE = """
SELECT CAST(SUM(items) AS BIGINT), CAST(SUM(length) AS BIGINT) FROM shelves
WHERE workspace = :workspace AND shelf >= :shelf AND shelf < :after
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
# Reads every posting: only for an item whose own list of terms is damaged.
_TERMS_OF = "SELECT term FROM postings WHERE item = :item"
_REMOVE_ITEM = "DELETE FROM items WHERE workspace = :workspace AND id = :item"
_REMOVE_VECTORS = "DELETE FROM vectors WHERE item = :item"
_REMOVE_UNUSED_TERM = """
DELETE FROM terms
WHERE workspace = :workspace AND id = :term AND NOT EXISTS (SELECT 1 FROM postings WHERE postings.term = terms.id)
RETURNING id
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
    tx.lock(mutexes.terms(workspace, shelf))
    numbers: set[int] = set()
    for item, _, packed in rows:
        terms = unpack(packed)
        if terms is None:
            terms = tx.column(_TERMS_OF, item=item)
        numbers.update(terms)
        tx.many(_REMOVE_POSTING, [{"term": term, "item": item} for term in terms])
        tx.later(_REMOVE_VECTORS, item=item)
        tx.later(_REMOVE_ITEM, workspace=workspace, item=item)
    removed = [tx.ask(_REMOVE_UNUSED_TERM, workspace=workspace, term=term) for term in sorted(numbers)]
    # The first row, which exists after this. Nobody else is counting, because the words are locked.
    lengths = sum(length for _, length, _ in rows)
    tx.later(_COUNT_IN, workspace=workspace, shelf=shelf, items=-len(rows), length=-lengths)
    if any([answer.all() for answer in removed]):
        tx.later(_NEW_GENERATION, workspace=workspace, shelf=shelf)


def lock_items(tx: Transaction, workspace: str) -> None:
    """Keep others from deleting items until this transaction ends, so that a vector's item still exists."""
    tx.lock(mutexes.items(workspace))


def lock_shelves(tx: Transaction, workspace: str) -> None:
    """Wait for all writers that add to a shelf, and keep others from adding until this transaction ends."""
    lock_words(tx, workspace, *SHELVES)


def lock_words(tx: Transaction, workspace: str, *shelves: str) -> None:
    """Have the words of some shelves alone. For a transaction that adds to them several times."""
    for shelf in sorted(shelves):
        tx.lock(mutexes.terms(workspace, shelf))


def ask_size(tx: Transaction, workspace: str, shelf: str) -> Answer:
    """Ask how many items a shelf has, and how long they are together. The one row has NULLs before the first item."""
    return tx.ask(_SIZE, workspace=workspace, shelf=shelf, after=f"{shelf}0")


def pack(numbers: Iterable[int]) -> bytes:
    return array("q", numbers).tobytes()


def unpack(packed: bytes) -> list[int] | None:
    """The numbers; None if another program has damaged them, so that they are not whole numbers."""
    numbers = array("q")
    if len(packed) % numbers.itemsize:
        return None
    numbers.frombytes(bytes(packed))
    return numbers.tolist()


def _add_to_shelf(tx: Transaction, workspace: str, shelf: str, entries: list[Entry]) -> list[tuple[int, Piece]]:
    pieces = [(entry, number, piece) for entry in entries for number, piece in enumerate(entry.pieces, entry.first)]
    lengths = [piece.counts.total() for _, _, piece in pieces]
    # A call inside a transaction of its caller may not be the last one that adds.
    tx.lock(mutexes.terms(workspace, shelf), shared=not tx.is_nested)
    wanted = sorted({term for _, _, piece in pieces for term in piece.counts})
    numbers = _term_numbers(tx, workspace, shelf, wanted)
    tx.number_items()
    asked = [
        tx.ask(
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
        for (entry, position, piece), length in zip(pieces, lengths, strict=True)
    ]
    placed: list[tuple[int, Piece]] = [
        (answer.value(), piece) for answer, (_, _, piece) in zip(asked, pieces, strict=True)
    ]
    postings = [
        {"term": numbers[term], "item": item, "tf": tf, "length": length}
        for (item, piece), length in zip(placed, lengths, strict=True)
        for term, tf in piece.counts.items()
    ]
    # In the order of the table, so that neighbouring rows go to the same page.
    postings.sort(key=itemgetter("term", "item"))
    if postings:
        tx.many(_ADD_POSTING, postings)
    # Last, so that a writer with the same slot waits only for the commit.
    slot = f"{shelf}/{tx.slot}" if tx.slot else shelf
    tx.later(_COUNT_IN, workspace=workspace, shelf=slot, items=len(pieces), length=sum(lengths))
    return placed


def _term_numbers(tx: Transaction, workspace: str, shelf: str, wanted: list[str]) -> dict[str, int]:
    """The number of each term. New terms get one. Needs the lock of the shelf's words."""
    remembered: dict[tuple[str, str], tuple[int, dict[str, int]]] = tx.memo.setdefault("terms", {})
    generation, known = remembered.get((workspace, shelf), (-1, {}))
    missing = [term for term in wanted if term not in known]
    now, asked = tx.ask(_GENERATION, workspace=workspace, shelf=shelf), ask_terms(tx, workspace, shelf, missing)
    # A shelf without a first row has lost no term.
    if (now.value() or 0) != generation:
        known = {}
        remembered[workspace, shelf] = (now.value() or 0, known)
        if len(missing) < len(wanted):
            missing = wanted
            asked = ask_terms(tx, workspace, shelf, missing)
    fresh: dict[str, int] = dict(asked.all())
    new = [term for term in missing if term not in fresh]
    added = [tx.ask(_ADD_TERM, workspace=workspace, shelf=shelf, term=term) for term in new]
    fresh |= {term: answer.value() for term, answer in zip(new, added, strict=True)}
    # If another writer was faster, its row can be found now.
    if late := [term for term in new if fresh[term] is None]:
        fresh |= find(tx, workspace, shelf, late)
    numbers = {term: fresh[term] if term in fresh else known[term] for term in wanted}
    if fresh:
        tx.afterwards.append(lambda: known.update(fresh))
    return numbers


def find(tx: Transaction, workspace: str, shelf: str, terms: list[str]) -> dict[str, int]:
    """The numbers of those terms that the shelf contains."""
    return dict(ask_terms(tx, workspace, shelf, terms).all())


def ask_terms(tx: Transaction, workspace: str, shelf: str, terms: list[str]) -> Answer:
    """Ask for the terms that the shelf contains, with their numbers."""
    return tx.ask(_FIND_TERMS, workspace=workspace, shelf=shelf, terms=tx.array(terms))


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
