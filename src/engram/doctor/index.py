"""Checks of the word index and the vectors against the things they belong to, each way.

Reading every posting takes seconds in a large store. So by default the postings are counted, and some items are
compared with their texts. `full` compares all of them. Mending always reads all.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from .. import json_columns, mutexes
from ..errors import StoreDamaged
from ..health_records import Check, Finding, counted, fine, mendable
from ..memory import embedding_queue, memory_index, word_index
from ..memory.embedding_queue import EmbeddingQueue
from ..memory.memories import Memories
from ..storage.health import is_about_a_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..memory.provenance import Thing
    from ..storage.engine import Row, Transaction
    from ..store_view import StoreView

#: Things mended in one transaction.
_STEP = 200
#: Items that are compared with their texts by default.
_SAMPLE = 200
#: Things whose texts are in memory together. A text may have a million characters.
_PAGE = 50

_TURNS_OUT = """
SELECT COUNT(*) FROM exchanges e
WHERE e.workspace = :workspace
  AND NOT EXISTS (SELECT 1 FROM items i WHERE i.kind = 'exchange' AND i.ref = e.id)
  AND NOT EXISTS (SELECT 1 FROM backlog b WHERE b.kind = 'exchange' AND b.ref = e.id)
"""
_SOME_TURNS_OUT = """
SELECT e.id FROM exchanges e
WHERE e.workspace = :workspace
  AND NOT EXISTS (SELECT 1 FROM items i WHERE i.kind = 'exchange' AND i.ref = e.id)
  AND NOT EXISTS (SELECT 1 FROM backlog b WHERE b.kind = 'exchange' AND b.ref = e.id)
ORDER BY e.id LIMIT :limit
"""
# A memory whose text was forgotten is on no shelf.
_MEMORIES_OUT = """
SELECT COUNT(*) FROM memories m
WHERE m.workspace = :workspace AND m.content <> ''
  AND NOT EXISTS (SELECT 1 FROM items i WHERE i.kind = 'memory' AND i.ref = m.id)
"""
_SOME_MEMORIES_OUT = """
SELECT m.id FROM memories m
WHERE m.workspace = :workspace AND m.content <> ''
  AND NOT EXISTS (SELECT 1 FROM items i WHERE i.kind = 'memory' AND i.ref = m.id)
ORDER BY m.id LIMIT :limit
"""
_ORPHANS = """
SELECT COUNT(*) FROM items i
WHERE i.workspace = :workspace AND (
  (i.kind = 'exchange' AND NOT EXISTS (SELECT 1 FROM exchanges e WHERE e.id = i.ref))
  OR (i.kind = 'memory' AND NOT EXISTS (SELECT 1 FROM memories m WHERE m.id = i.ref)))
"""
_SOME_ORPHANS = """
SELECT DISTINCT i.kind, i.ref FROM items i
WHERE i.workspace = :workspace AND (
  (i.kind = 'exchange' AND NOT EXISTS (SELECT 1 FROM exchanges e WHERE e.id = i.ref))
  OR (i.kind = 'memory' AND NOT EXISTS (SELECT 1 FROM memories m WHERE m.id = i.ref)))
ORDER BY i.kind, i.ref LIMIT :limit
"""
_COUNTED = """
SELECT RTRIM(shelf, '/0123456789'), CAST(SUM(items) AS BIGINT), CAST(SUM(length) AS BIGINT) FROM shelves
WHERE workspace = :workspace GROUP BY 1
"""
_ON_SHELVES = """
SELECT shelf, COUNT(*), CAST(COALESCE(SUM(length), 0) AS BIGINT) FROM items WHERE workspace = :workspace GROUP BY shelf
"""
_CORRECT = """
INSERT INTO shelves (workspace, shelf, items, length, generation) VALUES (:workspace, :shelf, :items, :length, 0)
ON CONFLICT (workspace, shelf) DO UPDATE SET items = shelves.items + :items, length = shelves.length + :length
"""
_POSTINGS = (
    "SELECT (SELECT COUNT(*) FROM postings), (SELECT CAST(COALESCE(SUM(LENGTH(terms)), 0) AS BIGINT) FROM items)"
)
_SAMPLED = """
SELECT id, kind, ref, piece, shelf, length, terms FROM items
WHERE workspace = :workspace AND id % :every = 0 ORDER BY id DESC LIMIT :limit
"""
_ITEMS = "SELECT COUNT(*) FROM items WHERE workspace = :workspace"
_REFS = """
SELECT DISTINCT ref FROM items WHERE workspace = :workspace AND kind = :kind AND ref > :after ORDER BY ref LIMIT :limit
"""
_ITEMS_OF = """
SELECT id, kind, ref, piece, shelf, length, terms FROM items
WHERE workspace = :workspace AND kind = :kind AND ref IN (SELECT value FROM json_each(:refs)) ORDER BY ref, piece
"""
_WORDS_OF = """
SELECT t.term, p.tf FROM postings p JOIN terms t ON t.id = p.term
WHERE p.item = :item AND p.term IN (SELECT value FROM json_each(:terms))
  AND t.workspace = :workspace AND t.shelf = :shelf AND p.length = :length
"""
_TEXTS_OF_TURNS = """
SELECT id, content FROM exchanges
WHERE workspace = :workspace AND id IN (SELECT value FROM json_each(:refs))
"""
_TEXTS_OF_MEMORIES = """
SELECT id, kind, content, data FROM memories
WHERE workspace = :workspace AND id IN (SELECT value FROM json_each(:refs))
"""
_WAITING = """
SELECT ref FROM backlog
WHERE workspace = :workspace AND kind = :kind AND indexed = 0 AND ref IN (SELECT value FROM json_each(:refs))
"""
_MISCOUNTED = """
SELECT DISTINCT i.kind, i.ref FROM items i
LEFT JOIN (SELECT item, COUNT(*) AS found FROM postings GROUP BY item) p ON p.item = i.id
WHERE i.workspace = :workspace AND COALESCE(p.found, 0) <> LENGTH(i.terms) / 8
ORDER BY i.kind, i.ref
"""
_LOST_POSTINGS = "SELECT COUNT(*) FROM postings p WHERE NOT EXISTS (SELECT 1 FROM items i WHERE i.id = p.item)"
_DELETE_LOST_POSTINGS = "DELETE FROM postings WHERE NOT EXISTS (SELECT 1 FROM items i WHERE i.id = postings.item)"
_UNUSED_TERMS = """
DELETE FROM terms
WHERE workspace = :workspace AND NOT EXISTS (SELECT 1 FROM postings WHERE postings.term = terms.id)
"""
# By the thing, not by the item: the workspace that an item names may not exist.
_ELSEWHERE = """
SELECT i.kind, i.ref FROM exchanges e JOIN items i ON i.kind = 'exchange' AND i.ref = e.id
WHERE e.workspace = :workspace AND i.workspace <> :workspace
UNION SELECT i.kind, i.ref FROM memories m JOIN items i ON i.kind = 'memory' AND i.ref = m.id
WHERE m.workspace = :workspace AND i.workspace <> :workspace
ORDER BY 1, 2
"""
# The project of a turn is not compared: it is the one that its session had then, and the session may have another now.
# A thing whose own time is no time keeps its place: indexing it anew would bring that time into the index.
_MISPLACED = """
SELECT i.kind, i.ref FROM items i JOIN exchanges e ON e.id = i.ref
WHERE i.workspace = :workspace AND i.kind = 'exchange' AND e.workspace = :workspace
  AND LENGTH(e.created_at) = 27 AND SUBSTR(e.created_at, 11, 1) = 'T' AND SUBSTR(e.created_at, 27, 1) = 'Z'
  AND (i.at <> e.created_at OR i.label <> e.role OR i.session_id IS DISTINCT FROM e.session_id
       OR i.turn IS DISTINCT FROM e.turn OR i.author IS DISTINCT FROM e.author)
UNION SELECT i.kind, i.ref FROM items i JOIN memories m ON m.id = i.ref
WHERE i.workspace = :workspace AND i.kind = 'memory' AND m.workspace = :workspace
  AND LENGTH(m.created_at) = 27 AND SUBSTR(m.created_at, 11, 1) = 'T' AND SUBSTR(m.created_at, 27, 1) = 'Z'
  AND (i.at <> m.created_at OR i.label <> m.kind OR i.session_id IS DISTINCT FROM m.session_id
       OR i.turn IS NOT NULL OR i.author IS DISTINCT FROM m.author OR i.project IS DISTINCT FROM m.project)
ORDER BY 1, 2
"""
_WRONG_TIMES = """
SELECT COUNT(*) FROM items
WHERE workspace = :workspace AND (
  LENGTH(at) <> 27 OR SUBSTR(at, 11, 1) <> 'T' OR SUBSTR(at, 27, 1) <> 'Z')
"""
_MOVE = "UPDATE items SET workspace = :workspace WHERE workspace <> :workspace AND kind = :kind AND ref = :ref"
_NEW_GENERATION = "UPDATE shelves SET generation = generation + 1 WHERE workspace = :workspace"


def early_checks(view: StoreView) -> list[Check]:
    """Checks to make in every workspace before the others: what they mend changes the counts of two workspaces."""
    return [Check("index.workspaces", partial(_workspaces, view), partial(_move, view))]


def checks(view: StoreView, *, full: bool) -> list[Check]:
    return [
        Check("index.items", partial(_items, view), partial(_remove_orphans, view)),
        Check("index.places", partial(_places, view, full), partial(_place_again, view)),
        Check("index.words", partial(_words, view, full), partial(_index_again, view)),
        Check("index.turns", partial(_turns, view), partial(_index_turns, view)),
        Check("index.memories", partial(_memories, view), partial(_index_memories, view)),
        # After the others: they count what they add and remove.
        Check("index.counts", partial(_counts, view), partial(_correct_counts, view)),
    ]


def _workspaces(view: StoreView) -> Finding:
    with view.engine.read() as tx:
        number = len(tx.all(_ELSEWHERE, workspace=view.workspace))
    if not number:
        return fine("index.workspaces", "Every text is in the word index of its own workspace.", view.workspace)
    found = f"{counted(number, 'text is', 'texts are')} in the word index of another workspace."
    means = "Recall misses it here, and may show it in the other workspace."
    return mendable("index.workspaces", found, means, number, view.workspace)


def _move(view: StoreView) -> int:
    """Give items the workspace of their texts, and index those texts anew: their words may be of the other one."""
    with view.engine.write() as tx:
        word_index.lock_items(tx, view.workspace)
        things: list[Thing] = [(kind, ref) for kind, ref in tx.all(_ELSEWHERE, workspace=view.workspace)]
        for kind, ref in things:
            tx.run(_MOVE, workspace=view.workspace, kind=kind, ref=ref)
    with view.engine.read() as tx:
        readable = _texts(tx, view.workspace, things)
    _index_again_in_steps(view, sorted(each for each in things if each in readable))
    return len(things)


def _turns(view: StoreView) -> Finding:
    with view.engine.read() as tx:
        number = tx.value(_TURNS_OUT, workspace=view.workspace)
    if not number:
        return fine("index.turns", "Every turn and log entry is in the word index or waits for it.", view.workspace)
    found = f"{counted(number, 'turn is', 'turns are')} not in the word index."
    return mendable("index.turns", found, "Recall misses what is not in it.", number, view.workspace)


def _index_turns(view: StoreView) -> int:
    done = 0
    while True:
        with view.engine.write() as tx:
            tx.lock(mutexes.embedding_queue(view.workspace))
            ids = tx.column(_SOME_TURNS_OUT, workspace=view.workspace, limit=_STEP)
            for id in ids:
                embedding_queue.enqueue(tx, view.workspace, "exchange", id, indexed=False, words_due=True)
        if not ids:
            return done
        done += len(ids)
        EmbeddingQueue(view).index_words()


def _memories(view: StoreView) -> Finding:
    with view.engine.read() as tx:
        number = tx.value(_MEMORIES_OUT, workspace=view.workspace)
    if not number:
        return fine("index.memories", "Every memory is in the word index.", view.workspace)
    found = f"{counted(number, 'memory is', 'memories are')} not in the word index."
    return mendable("index.memories", found, "Recall misses what is not in it.", number, view.workspace)


def _index_memories(view: StoreView) -> int:
    memories, done = Memories(view), 0
    while True:
        with view.engine.write() as tx:
            tx.lock(mutexes.memories(view.workspace))
            ids = tx.column(_SOME_MEMORIES_OUT, workspace=view.workspace, limit=_STEP)
            for id in ids:
                memories.reshelve(tx, id)
        if not ids:
            return done
        done += len(ids)


def _items(view: StoreView) -> Finding:
    with view.engine.read() as tx:
        number = tx.value(_ORPHANS, workspace=view.workspace)
    if not number:
        return fine("index.items", "Everything in the word index exists.", view.workspace)
    found = f"{counted(number, 'entry of the word index belongs', 'entries of the word index belong')} to nothing."
    return mendable(
        "index.items", found, "Recall spends time on it, and scores are a little off.", number, view.workspace
    )


def _remove_orphans(view: StoreView) -> int:
    done = 0
    while True:
        with view.engine.write() as tx:
            rows = tx.all(_SOME_ORPHANS, workspace=view.workspace, limit=_STEP)
            for kind in ("exchange", "memory"):
                word_index.remove(tx, view.workspace, kind, [ref for what, ref in rows if what == kind])
        if not rows:
            return done
        done += len(rows)


def _places(view: StoreView, full: bool) -> Finding:
    """Whether items have the time, the session and the author of what they belong to. Recall filters and sorts by
    them."""
    name = "index.places"
    with view.engine.read() as tx:
        number = tx.value(_WRONG_TIMES, workspace=view.workspace)
        if full:
            number = max(number, len(tx.all(_MISPLACED, workspace=view.workspace)))
    if not number:
        how = "times, sessions and authors" if full else "times; --full compares sessions and authors, too"
        return fine(name, f"The word index has the right {how}.", view.workspace)
    means = "Recall fails, or leaves texts out or shows them as of another time, session or author."
    found = f"The word index has a wrong time, session, label or author of {counted(number, 'text', 'texts')}."
    return mendable(name, found, means, number, view.workspace)


def _place_again(view: StoreView) -> int:
    with view.engine.read() as tx:
        things: list[Thing] = [(kind, ref) for kind, ref in tx.all(_MISPLACED, workspace=view.workspace)]
        readable = _texts(tx, view.workspace, things)
    _index_again_in_steps(view, [each for each in things if each in readable])
    return len(things)


def _words(view: StoreView, full: bool) -> Finding:
    with view.engine.read() as tx:
        ((postings, packed),) = tx.all(_POSTINGS)
        lost = tx.value(_LOST_POSTINGS) if full else abs(postings - packed // 8)
        wrong = set() if full else _sampled(tx, view.workspace)
    if full:
        wrong = _wrong(view)
    if not lost and not wrong:
        how = "all of them" if full else f"their number, and {_SAMPLE} items; --full compares all"
        return fine("index.words", f"The words of every item are in the word index ({how}).", view.workspace)
    found = f"The word index has {counted(postings, 'posting', 'postings')}, and its items have {packed // 8:,}."
    if postings == packed // 8:
        number = counted(max(lost, len(wrong)), "text", "texts")
        found = f"The word index does not have the right words of {number}."
    means = "Recall by words misses something, or finds what is gone."
    return mendable("index.words", found, means, lost + len(wrong), view.workspace)


def _sampled(tx: Transaction, workspace: str) -> set[Thing]:
    """The things of some items whose words are not right."""
    every = max(1, tx.value(_ITEMS, workspace=workspace) // _SAMPLE)
    items = tx.all(_SAMPLED, workspace=workspace, every=every, limit=_SAMPLE)
    wrong: set[Thing] = set()
    for start in range(0, len(items), _PAGE):
        page = items[start : start + _PAGE]
        wrong |= _differing(tx, workspace, page, _texts(tx, workspace, _things(page)))
    return wrong


def _wrong(view: StoreView) -> set[Thing]:
    """All things whose words are not right. What has no text is left out: others find what is gone or unreadable."""
    with view.engine.read() as tx:
        wrong: set[Thing] = {(kind, ref) for kind, ref in tx.all(_MISCOUNTED, workspace=view.workspace)}
    for kind in ("exchange", "memory"):
        last, refs = 0, [0]
        while refs:
            page = {"workspace": view.workspace, "kind": kind}
            with view.engine.read() as tx:
                refs = tx.column(_REFS, after=last, limit=_PAGE, **page)
                items = tx.all(_ITEMS_OF, refs=tx.array(refs), **page)
                texts = _texts(tx, view.workspace, _things(items))
                wrong -= {(kind, ref) for ref in refs} - texts.keys()
                wrong |= _differing(tx, view.workspace, items, texts)
                waiting = tx.column(_WAITING, refs=tx.array(refs), **page)
            pieces = Counter(ref for _, _, ref, *_ in items)
            wrong |= {
                thing
                for thing, text in texts.items()
                if thing[1] not in waiting and pieces[thing[1]] != sum(1 for _ in word_index.parts(text.content))
            }
            last = max(refs, default=last)
    return wrong


class _Text(NamedTuple):
    """What the words of a thing are made of."""

    content: str
    #: Words by which it is found besides those of its text.
    words: list[str]

    def counts(self, piece: int) -> Counter[str]:
        """How often each word occurs in a piece."""
        made = word_index.cut_some(self.content, piece, 1)
        made = made if piece else word_index.with_words(made, self.words)
        return made[0].counts if made else Counter()


def _things(items: list[Row]) -> list[Thing]:
    return [(kind, ref) for _, kind, ref, *_ in items]


def _texts(tx: Transaction, workspace: str, things: list[Thing]) -> dict[Thing, _Text]:
    """The texts of things. What is gone has none: `index.items` finds that. Nor has what cannot be read."""
    turns, memories = (sorted({ref for kind, ref in things if kind == each}) for each in ("exchange", "memory"))

    def of_turns(refs: list[int]) -> list[Row]:
        return tx.all(_TEXTS_OF_TURNS, workspace=workspace, refs=tx.array(refs))

    def of_memories(refs: list[int]) -> list[Row]:
        return tx.all(_TEXTS_OF_MEMORIES, workspace=workspace, refs=tx.array(refs))

    found: dict[Thing, _Text] = {("exchange", id): _Text(content, []) for id, content in _readable(of_turns, turns)}
    for id, kind, content, data in _readable(of_memories, memories):
        words = memory_index.words_of(json_columns.load(data, "memories.data")) if kind == "gist" else []
        found["memory", id] = _Text(content, words)
    return found


def _readable(read: Callable[[list[int]], list[Row]], refs: list[int]) -> list[Row]:
    """The rows of some things, without those that SQLite cannot give: `store.texts` finds texts that are not UTF-8."""
    try:
        return read(refs)
    except StoreDamaged as error:
        if not is_about_a_text(error):
            raise
    if len(refs) == 1:
        return []
    return [row for ref in refs for row in _readable(read, [ref])]


def _differing(tx: Transaction, workspace: str, items: list[Row], texts: dict[Thing, _Text]) -> set[Thing]:
    """The things of those items whose words are not those of their texts."""
    asked, found = [], set()
    for item, kind, ref, piece, shelf, length, packed in items:
        terms = word_index.unpack(packed)
        if terms is None:
            found |= {(kind, ref)} & texts.keys()
            continue
        place = {"workspace": workspace, "shelf": shelf, "item": item, "length": length}
        asked.append(((kind, ref), piece, length, len(terms), tx.ask(_WORDS_OF, terms=tx.array(terms), **place)))
    for thing, piece, length, number, words in asked:
        counts = texts[thing].counts(piece) if thing in texts else None
        if counts is not None and (dict(words.all()), number, length) != (counts, len(counts), counts.total()):
            found.add(thing)
    return found


def _index_again(view: StoreView) -> int:
    """Take things with wrong words off their shelves and index them anew; remove postings of nothing."""
    rows = sorted(_wrong(view))
    _index_again_in_steps(view, rows)
    with view.engine.write() as tx:
        word_index.lock_items(tx, view.workspace)
        word_index.lock_shelves(tx, view.workspace)
        lost = tx.run(_DELETE_LOST_POSTINGS)
        if tx.run(_UNUSED_TERMS, workspace=view.workspace):
            tx.run(_NEW_GENERATION, workspace=view.workspace)
    return len(rows) + lost


def _index_again_in_steps(view: StoreView, rows: list[Thing]) -> None:
    for start in range(0, len(rows), _STEP):
        _index_some_again(view, rows[start : start + _STEP])


def _index_some_again(view: StoreView, rows: list[Thing]) -> None:
    memories = Memories(view)
    with view.engine.write() as tx:
        tx.lock(mutexes.memories(view.workspace))
        tx.lock(mutexes.embedding_queue(view.workspace))
        for kind, ref in rows:
            if kind == "memory":
                memories.reshelve(tx, ref)
                continue
            embedding_queue.withdraw(tx, view.workspace, kind, ref)
            word_index.remove(tx, view.workspace, kind, [ref])
            embedding_queue.enqueue(tx, view.workspace, kind, ref, indexed=False, words_due=True)
    EmbeddingQueue(view).index_words()


def _differences(tx: Transaction, workspace: str) -> dict[str, tuple[int, int]]:
    """By shelf, how much the counters lack."""
    counted = {shelf: (items, length) for shelf, items, length in tx.all(_COUNTED, workspace=workspace)}
    there = {shelf: (items, length) for shelf, items, length in tx.all(_ON_SHELVES, workspace=workspace)}
    found = {}
    for shelf in sorted(counted.keys() | there.keys()):
        (has, length), (says, total) = there.get(shelf, (0, 0)), counted.get(shelf, (0, 0))
        if (has, length) != (says, total):
            found[shelf] = (has - says, length - total)
    return found


def _counts(view: StoreView) -> Finding:
    with view.engine.read() as tx:
        found = _differences(tx, view.workspace)
    if not found:
        return fine("index.counts", "The word index counts its entries right.", view.workspace)
    wrong = f"The word index counts its entries wrong: {', '.join(found)}."
    return mendable("index.counts", wrong, "Scores of recall are a little off.", len(found), view.workspace)


def _correct_counts(view: StoreView) -> int:
    with view.engine.write() as tx:
        word_index.lock_items(tx, view.workspace)
        word_index.lock_shelves(tx, view.workspace)
        found = _differences(tx, view.workspace)
        for shelf, (items, length) in found.items():
            tx.run(_CORRECT, workspace=view.workspace, shelf=shelf, items=items, length=length)
    return len(found)
