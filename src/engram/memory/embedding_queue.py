"""What is still to be indexed, and the vectors that are made at once.

A process that may load a model embeds what it writes in the same call, before its transaction begins: no transaction is
ever held open during an embedding. What was written by a process that may not (a hook), and all logs, wait in the
backlog. Any process with a model works it off in bounded steps: it takes some for a while, embeds them, and writes the
vectors and removes the entries in one transaction. A worker that dies loses what it took after a minute, and nothing is
lost or done twice, because an entry's removal and its vectors are one step.

A hook has little time, so it stores the text of a turn first, without its words. It indexes them right afterwards with
`index_words`, in short transactions; whatever it does not get to is left to the next hook or to the next worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .. import checks, mutexes
from ..clock import later
from ..errors import EmbedderFailed, MissingExtra
from . import word_index
from .embedding_models import choose, keep_indexed, model_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..embedding import Embedder
    from ..storage.engine import Transaction
    from ..store_view import StoreView

#: How many entries are taken at once: a bounded step, whatever their length.
STEP = 64
#: Seconds after which what a worker took is anybody's again.
_TAKEN_FOR = 60.0
#: How many pieces of a text get their words in one transaction: other writers wait no longer than for these.
PIECES = 16
_FREE = "0000"

_WAIT = """
INSERT INTO backlog (workspace, kind, ref, taken_until, indexed, words_due)
VALUES (:workspace, :kind, :ref, :free, :indexed, :words_due)
ON CONFLICT (kind, ref) DO NOTHING
"""
# The latest first: a hook looks after its own turn before those that others left.
_WORDS_DUE = """
SELECT kind, ref FROM backlog
WHERE workspace = :workspace AND words_due = 1 AND indexed = 0 ORDER BY id DESC LIMIT 1
"""
_WAITS = "SELECT 1 FROM backlog WHERE workspace = :workspace AND kind = :kind AND ref = :ref AND indexed = 0"
_WORDS_DONE = """
UPDATE backlog SET indexed = 1, words_due = 0 WHERE workspace = :workspace AND kind = :kind AND ref = :ref
"""
_TAKE = """
UPDATE backlog SET taken_until = :until
WHERE id IN (SELECT id FROM backlog WHERE workspace = :workspace AND taken_until <= :now ORDER BY id LIMIT :limit)
  AND taken_until <= :now
RETURNING id, kind, ref
"""
_TAKE_WITHOUT_WORDS = """
UPDATE backlog SET taken_until = :until
WHERE id IN (
    SELECT id FROM backlog
    WHERE workspace = :workspace AND indexed = 0 AND taken_until <= :now ORDER BY id LIMIT :limit
  ) AND taken_until <= :now
RETURNING id, kind, ref
"""
_DONE = "DELETE FROM backlog WHERE workspace = :workspace AND id = :id"
_RELEASE = """
UPDATE backlog SET taken_until = :free, indexed = 1, words_due = 0
WHERE workspace = :workspace AND id = :id AND taken_until = :until
"""
_FORGET = "DELETE FROM backlog WHERE workspace = :workspace AND kind = :kind AND ref = :ref"
_COUNT = "SELECT COUNT(*) FROM backlog WHERE workspace = :workspace"
_EXCHANGE = """
SELECT e.session_id, e.role, e.content, e.turn, e.created_at, s.project
FROM exchanges e JOIN sessions s ON s.workspace = e.workspace AND s.id = e.session_id
WHERE e.workspace = :workspace AND e.id = :id
"""
_MEMORY = "SELECT content FROM memories WHERE workspace = :workspace AND id = :id"
_COUNT_ITEMS = "SELECT COUNT(*) FROM items WHERE workspace = :workspace AND kind = :kind AND ref = :ref"
_ITEMS = "SELECT id FROM items WHERE workspace = :workspace AND kind = :kind AND ref = :ref ORDER BY piece"
_ADD_VECTOR = """
INSERT INTO vectors (item, model, vector) VALUES (:item, :model, :vector) ON CONFLICT (item, model) DO NOTHING
"""


class Vectors(NamedTuple):
    """The vectors of one thing's pieces, as they are stored."""

    model: str
    rows: list[bytes]


class _Taken(NamedTuple):
    id: int
    kind: str
    ref: int
    #: Its own until then; who takes it over afterwards has it until later.
    until: str
    #: None when it was forgotten in the meantime.
    entry: word_index.Entry | None


class EmbeddingQueue:
    def __init__(self, view: StoreView) -> None:
        self._view = view
        self._engine = view.engine
        self._workspace = view.workspace

    def embedder(self) -> Embedder | None:
        """The model this process uses, loaded on first use; None when there is none."""
        from ..embedding import load

        return load(self._view.config.embedder)

    def vectors(self, texts: Sequence[list[word_index.Piece]]) -> list[Vectors] | None:
        """The vectors of several things' pieces, made in one go; None when that cannot be done now.

        What is written must not be lost because a model cannot be had: it then waits in the backlog.
        """
        try:
            embedder = self.embedder()
            return None if embedder is None else embed(embedder, texts)
        except (EmbedderFailed, MissingExtra) as error:
            import logging

            logging.getLogger("engram.embedding").warning("left to the backlog: %s", error)
            return None

    def vectors_of(self, pieces: list[word_index.Piece]) -> Vectors | None:
        """The vectors of one thing's pieces; None without a model."""
        made = self.vectors([pieces])
        return made[0] if made else None

    def size(self) -> int:
        """How many things wait."""
        with self._engine.read() as tx:
            count: int = tx.all(_COUNT, workspace=self._workspace)[0][0]
        return count

    def work(self, limit: int | None = None, progress: Callable[[int], None] | None = None) -> int:
        """Work off what waits now, at most `limit` things; how many were done.

        Without a model only the words of logs can be indexed; the rest goes on waiting. What others add meanwhile is
        left to the next call, or this one might never end.
        """
        limit = self.size() if limit is None else checks.whole(limit, "limit", least=0)
        done = 0
        left: list[_Taken] = []
        # No model is loaded for nothing.
        able = limit > 0 and self._able()
        try:
            while done + len(left) < limit:
                taken = self._take(min(STEP, limit - done - len(left)), able)
                if not taken:
                    break
                self._shelve_long(taken)
                texts = [each.entry.pieces if each.entry else [] for each in taken]
                vectors = self.vectors(texts) if able else None
                # A model that fails is not asked again and again.
                able = vectors is not None
                undone = self._finish(taken, vectors)
                left += undone
                done += len(taken) - len(undone)
                if progress:
                    progress(done)
        finally:
            self._release(left)
        if done:
            keep_indexed(self._engine, self._workspace)
        return done

    def index_words(self, enough: Callable[[], bool] | None = None) -> None:
        """Index the words of turns that were stored without them, in short transactions, until `enough` says stop."""
        while not (enough and enough()):
            with self._engine.read() as tx:
                waiting = tx.one(_WORDS_DUE, workspace=self._workspace)
            if waiting is None:
                return
            self._index_next(*waiting)

    def _index_next(self, kind: str, ref: int) -> bool:
        """Put some more pieces of a text on its shelf; whether there are still others."""
        thing = {"workspace": self._workspace, "kind": kind, "ref": ref}
        with self._engine.read() as tx:
            if not tx.one(_WAITS, **thing):
                return False
            first: int = tx.all(_COUNT_ITEMS, **thing)[0][0]
            entry = self._entry(tx, kind, ref, cut=lambda text: word_index.cut_some(text, first, PIECES))
        with self._engine.write() as tx:
            tx.lock(mutexes.backlog(self._workspace))
            # Another worker may have been faster, or it was forgotten.
            if not tx.one(_WAITS, **thing) or tx.all(_COUNT_ITEMS, **thing)[0][0] != first:
                return True
            if entry is not None:
                word_index.add(tx, self._workspace, [entry._replace(first=first)])
                if len(entry.pieces) == PIECES:
                    return True
            tx.run(_WORDS_DONE, **thing)
            return False

    def _shelve_long(self, taken: list[_Taken]) -> None:
        """Index the words of long texts one after the other; together they would keep other writers waiting."""
        for each in taken:
            if each.entry is not None and each.entry.shelf and len(each.entry.pieces) > PIECES:
                while self._index_next(each.kind, each.ref):
                    pass

    def _able(self) -> bool:
        """Whether this process has the model whose vectors the workspace is searched with."""
        try:
            embedder = self.embedder()
        except (EmbedderFailed, MissingExtra):
            return False
        with self._engine.read() as tx:
            return embedder is not None and model_of(tx, self._workspace) in (None, embedder.name)

    def _take(self, limit: int, able: bool) -> list[_Taken]:
        with self._engine.write() as tx:
            tx.lock(mutexes.backlog(self._workspace))
            now = tx.now()
            until = later(now, _TAKEN_FOR)
            places = {"workspace": self._workspace, "now": now, "until": until, "limit": limit}
            rows = tx.all(_TAKE, **places) if able else tx.all(_TAKE_WITHOUT_WORDS, **places)
        with self._engine.read() as tx:
            return [_Taken(id, kind, ref, until, self._entry(tx, kind, ref)) for id, kind, ref in sorted(rows)]

    def _release(self, taken: list[_Taken]) -> None:
        """Give back what is still ours, its words being on a shelf now; another may have taken it over since."""
        if taken:
            with self._engine.write() as tx:
                tx.lock(mutexes.backlog(self._workspace))
                for each in taken:
                    tx.run(_RELEASE, workspace=self._workspace, id=each.id, until=each.until, free=_FREE)

    def _entry(
        self, tx: Transaction, kind: str, ref: int, cut: Callable[[str], list[word_index.Piece]] = word_index.cut
    ) -> word_index.Entry | None:
        """What waits, as it is now."""
        if kind == "memory":
            row = tx.one(_MEMORY, workspace=self._workspace, id=ref)
            if row is None:
                return None
            # A memory is on its shelf already; only its text matters here.
            return word_index.Entry("", kind, ref, "", None, None, None, "", cut(row[0]))
        row = tx.one(_EXCHANGE, workspace=self._workspace, id=ref)
        if row is None:
            return None
        session, role, content, turn, at, project = row
        shelf = "logs" if turn is None else "turns"
        return word_index.Entry(shelf, kind, ref, role, session, project, turn, at, cut(content))

    def _finish(self, taken: list[_Taken], vectors: list[Vectors] | None) -> list[_Taken]:
        """Write what was made of each; those that have to go on waiting."""
        waiting = []
        with self._engine.write() as tx:
            tx.lock(mutexes.backlog(self._workspace))
            for number, each in enumerate(taken):
                entry = self._entry(tx, each.kind, each.ref)
                if entry is None:
                    tx.run(_DONE, workspace=self._workspace, id=each.id)
                    continue
                items = self._items(tx, entry)
                # A text that was changed while it was being embedded waits for its turn again.
                fits = vectors is not None and entry == each.entry
                if not fits or not self._complete(tx, each, items, vectors[number]):  # type: ignore[index]
                    waiting.append(each)
        return waiting

    def _items(self, tx: Transaction, entry: word_index.Entry) -> list[int]:
        """The numbers of a thing's pieces; what was stored without its words is put on its shelf only now."""
        rows = tx.all(_ITEMS, workspace=self._workspace, kind=entry.kind, ref=entry.ref)
        items = [row[0] for row in rows]
        missing = entry.pieces[len(items) :]
        if missing and entry.shelf:
            rest = entry._replace(pieces=missing, first=len(items))
            items += [item for item, _ in word_index.add(tx, self._workspace, [rest])]
        return items

    def _complete(self, tx: Transaction, each: _Taken, items: list[int], vectors: Vectors) -> bool:
        """Keep the vectors and take the thing off the backlog; whoever removes its entry writes them."""
        if choose(tx, self._workspace, vectors.model) != vectors.model:
            return False
        if tx.run(_DONE, workspace=self._workspace, id=each.id) and len(items) == len(vectors.rows):
            keep(tx, items, vectors)
            tx.note(self._workspace, each.kind, each.ref)
        return True


def embed(embedder: Embedder, texts: Sequence[list[word_index.Piece]]) -> list[Vectors]:
    rows = iter(quantised(embedder, [piece.text for pieces in texts for piece in pieces]))
    return [Vectors(embedder.name, [next(rows) for _ in pieces]) for pieces in texts]


def quantised(embedder: Embedder, texts: Sequence[str]) -> list[bytes]:
    """Each text's vector as it is stored."""
    if not texts:
        return []
    from ..embedding.quantise import to_int8

    return [row.tobytes() for row in to_int8(embedder.embed(texts))]


def enqueue(tx: Transaction, workspace: str, kind: str, ref: int, *, indexed: bool, words_due: bool = False) -> None:
    """Leave the rest to the backlog: the vector, and the words unless they are `indexed`.

    `words_due`: `index_words` indexes the words, and so before a worker would.
    """
    tx.run(
        _WAIT,
        workspace=workspace,
        kind=kind,
        ref=ref,
        free=_FREE,
        indexed=int(indexed),
        words_due=int(words_due),
    )


def withdraw(tx: Transaction, workspace: str, kind: str, ref: int) -> None:
    tx.lock(mutexes.backlog(workspace))
    tx.run(_FORGET, workspace=workspace, kind=kind, ref=ref)


def store_vectors(
    tx: Transaction, workspace: str, entries: Sequence[word_index.Entry], vectors: Vectors | None
) -> None:
    """Put things on their shelf, with their vectors if they fit what the workspace is searched with.

    All belong on the same shelf; `vectors` are those of all their pieces, in order.
    """
    items = [item for item, _ in word_index.add(tx, workspace, entries)]
    if vectors is not None and choose(tx, workspace, vectors.model) == vectors.model:
        keep(tx, items, vectors)
    else:
        for entry in entries:
            enqueue(tx, workspace, entry.kind, entry.ref, indexed=True)


def keep(tx: Transaction, items: Sequence[int], vectors: Vectors) -> None:
    """Store the vectors of items that are there."""
    rows = zip(items, vectors.rows, strict=True)
    tx.many(_ADD_VECTOR, [{"item": item, "model": vectors.model, "vector": row} for item, row in rows])
