"""The embedding queue: things that are not indexed or embedded yet. Also computes vectors directly.

A process that may load a model embeds what it writes in the same call, before its transaction begins. No transaction is
ever open during an embedding. Text written by a process without a model (a hook) or by a server that is still loading
its model waits in the queue, and so do all logs. Any process with a model works through it in bounded steps: it takes
some entries for a limited time, embeds them, then writes the vectors and removes the entries in one transaction. If
that process dies, its entries are free again after a minute. Nothing is lost or done twice, because removing an entry
and writing its vectors is one step.

A hook has little time, so it first stores a turn's text without indexing its words. Right afterwards it indexes them
with `index_words`, in short transactions. What it does not finish is left to the next hook or the next process.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from .. import checks, mutexes
from ..clock import later
from ..errors import EmbedderFailed, MissingExtra
from . import warming, word_index
from .embedding_models import AUTO, MODEL, choose, collected_reasons, follow, keep_indexed, model_of, warn_once

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from ..embedding import Embedder
    from ..storage.engine import Transaction
    from ..store_view import StoreView

#: Entries taken in one step.
STEP = 64
#: Seconds after which taken entries are free again.
_TAKEN_FOR = 60.0
#: Pieces of a text indexed in one transaction. This bounds how long other writers wait.
PIECES = 16
_FREE = "0000"

_WAIT = """
INSERT INTO backlog (workspace, kind, ref, taken_until, indexed, words_due)
VALUES (:workspace, :kind, :ref, :free, :indexed, :words_due)
ON CONFLICT (kind, ref) DO NOTHING
"""
# The newest first: a hook indexes its own turn before those that others left.
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
SELECT e.session_id, e.role, e.content, e.turn, e.created_at, s.project, e.author
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


class _TakenEntry(NamedTuple):
    id: int
    kind: str
    ref: int
    #: When it becomes free again. A process that takes it over sets a later time.
    until: str
    #: None when it was forgotten meanwhile.
    entry: word_index.Entry | None


class EmbeddingQueue:
    def __init__(self, view: StoreView) -> None:
        self._view = view
        self._engine = view.engine
        self._workspace = view.workspace

    def embedder(self) -> Embedder | None:
        """This process's model, loaded on first use; None when there is none."""
        if self._view.embedder is not None:
            return self._view.embedder
        from ..embedding import load

        choice = self._view.config.embedder
        return follow(self._engine, self._workspace) if choice == AUTO else load(choice)

    def warm_later(self) -> None:
        """Say that another thread is going to call `warm`. Until it has, writers leave their vectors to the queue."""
        choice = self._view.config.embedder
        # A model on a server need not be loaded, and each request to it costs money.
        if self._view.embedder is None and choice != "none" and not choice.startswith("openai"):
            warming.begin(choice)

    def warm(self) -> None:
        """Load the model, so that no later call waits for it. Only after `warm_later`.

        A model that cannot be used is no error here: recall says why when it is asked.
        """
        choice = self._view.config.embedder
        try:
            embedder = None if warming.is_over(choice) else self.embedder()
            # With `auto` a workspace may have a model on a server.
            if embedder is not None and self._view.embedder is None and not embedder.name.startswith("openai:"):
                embedder.embed(["ready"])
        except (EmbedderFailed, MissingExtra):
            pass
        finally:
            warming.end(choice)

    def is_warm(self, within: float = 0.0) -> bool:
        """Whether no other thread is loading the model. Waits so many seconds at most until that is true."""
        return self._view.embedder is not None or warming.is_over(self._view.config.embedder, within)

    def reasons(self) -> AbstractContextManager[list[str]]:
        """Collect why the model could not be used within a block."""
        return collected_reasons()

    def vectors(self, texts: Sequence[list[word_index.Piece]]) -> list[Vectors] | None:
        """The vectors of several things' pieces, computed together; None when that is not possible now.

        A failing model must not lose what is written, so the text then waits in the queue. A model that another thread
        is loading must not delay a writer.
        """
        return self._vectors(texts) if self.is_warm() else None

    def _vectors(self, texts: Sequence[list[word_index.Piece]]) -> list[Vectors] | None:
        try:
            embedder = self.embedder()
            return None if embedder is None else embed(embedder, texts)
        except (EmbedderFailed, MissingExtra) as error:
            warn_once(str(error), "What is written waits in the embedding queue, and recall goes by words alone.")
            return None

    def vectors_of(self, pieces: list[word_index.Piece]) -> Vectors | None:
        """The vectors of one thing's pieces; None without a model."""
        made = self.vectors([pieces])
        if made is None:
            return None
        (vectors,) = made
        return vectors

    def size(self) -> int:
        """How many entries are waiting."""
        with self._engine.read() as tx:
            count: int = tx.value(_COUNT, workspace=self._workspace)
        return count

    def work(self, limit: int | None = None, progress: Callable[[int], None] | None = None) -> int:
        """Work through the entries that are waiting now, at most `limit`; how many were finished.

        Without a model only words can be indexed; the entries then stay for their vectors. Entries that others add
        meanwhile are left to the next call, because this one might otherwise never end.
        """
        limit = self.size() if limit is None else checks.whole(limit, "limit", least=0)
        done = 0
        left: list[_TakenEntry] = []
        # Do not load a model when nothing is waiting.
        can_embed = limit > 0 and self._can_embed()
        try:
            while done + len(left) < limit:
                taken = self._take(min(STEP, limit - done - len(left)), can_embed)
                if not taken:
                    break
                self._index_long_texts(taken)
                texts = [each.entry.pieces if each.entry else [] for each in taken]
                vectors = self._vectors(texts) if can_embed else None
                # A model that failed is not tried again in this call.
                can_embed = vectors is not None
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
        """Index the words of turns that were stored without them, in short transactions, until `enough` is true."""
        while not (enough and enough()):
            with self._engine.read() as tx:
                waiting = tx.one(_WORDS_DUE, workspace=self._workspace)
            if waiting is None:
                return
            self._index_next_pieces(*waiting)

    def _index_next_pieces(self, kind: str, ref: int) -> bool:
        """Index some more pieces of a text; whether pieces are left."""
        thing = {"workspace": self._workspace, "kind": kind, "ref": ref}
        with self._engine.read() as tx:
            if not tx.one(_WAITS, **thing):
                return False
            first: int = tx.value(_COUNT_ITEMS, **thing)
            entry = self._entry(tx, kind, ref, cut=lambda text: word_index.cut_some(text, first, PIECES))
        with self._engine.write() as tx:
            tx.lock(mutexes.embedding_queue(self._workspace))
            # Another process may have been faster, or the text was forgotten.
            if not tx.one(_WAITS, **thing) or tx.value(_COUNT_ITEMS, **thing) != first:
                return True
            if entry is not None:
                word_index.add(tx, self._workspace, [entry._replace(first=first)])
                if len(entry.pieces) == PIECES:
                    return True
            tx.run(_WORDS_DONE, **thing)
            return False

    def _index_long_texts(self, taken: list[_TakenEntry]) -> None:
        """Index the words of long texts one by one. Together they would block other writers for too long."""
        for each in taken:
            if each.entry is not None and each.entry.shelf and len(each.entry.pieces) > PIECES:
                while self._index_next_pieces(each.kind, each.ref):
                    pass

    def _can_embed(self) -> bool:
        """Whether this process has the model whose vectors the workspace uses."""
        try:
            embedder = self.embedder()
        except (EmbedderFailed, MissingExtra) as error:
            warn_once(str(error), "The embedding queue waits, and recall goes by words alone.")
            return False
        with self._engine.read() as tx:
            return embedder is not None and model_of(tx, self._workspace) in (None, embedder.name)

    def _take(self, limit: int, can_embed: bool) -> list[_TakenEntry]:
        """Take entries that are free. Without a model, only those whose words are not indexed."""
        with self._engine.write() as tx:
            tx.lock(mutexes.embedding_queue(self._workspace))
            now = tx.now()
            until = later(now, _TAKEN_FOR)
            places = {"workspace": self._workspace, "now": now, "until": until, "limit": limit}
            rows = tx.all(_TAKE, **places) if can_embed else tx.all(_TAKE_WITHOUT_WORDS, **places)
        with self._engine.read() as tx:
            return [_TakenEntry(id, kind, ref, until, self._entry(tx, kind, ref)) for id, kind, ref in sorted(rows)]

    def _release(self, taken: list[_TakenEntry]) -> None:
        """Release entries that this process still has. Their words are indexed now."""
        if taken:
            with self._engine.write() as tx:
                tx.lock(mutexes.embedding_queue(self._workspace))
                for each in taken:
                    tx.run(_RELEASE, workspace=self._workspace, id=each.id, until=each.until, free=_FREE)

    def _entry(
        self, tx: Transaction, kind: str, ref: int, cut: Callable[[str], list[word_index.Piece]] = word_index.cut
    ) -> word_index.Entry | None:
        """The text of a queued thing as it is now."""
        if kind == "memory":
            content = tx.value(_MEMORY, workspace=self._workspace, id=ref)
            if content is None:
                return None
            # A memory is on its shelf already; only its text matters here.
            return word_index.Entry("", kind, ref, "", None, None, None, "", cut(content))
        row = tx.one(_EXCHANGE, workspace=self._workspace, id=ref)
        if row is None:
            return None
        session, role, content, turn, at, project, author = row
        shelf = "logs" if turn is None else "turns"
        return word_index.Entry(shelf, kind, ref, role, session, project, turn, at, cut(content), author=author)

    def _finish(self, taken: list[_TakenEntry], vectors: list[Vectors] | None) -> list[_TakenEntry]:
        """Write the words and vectors of the taken entries; returns those that have to stay in the queue."""
        waiting = []
        with self._engine.write() as tx:
            tx.lock(mutexes.embedding_queue(self._workspace))
            word_index.lock_words(tx, self._workspace, "logs", "turns")
            for number, each in enumerate(taken):
                entry = self._entry(tx, each.kind, each.ref)
                if entry is None:
                    tx.run(_DONE, workspace=self._workspace, id=each.id)
                    continue
                items = self._items(tx, entry)
                # A text that was changed while it was being embedded stays in the queue.
                fits = vectors is not None and entry == each.entry
                if not fits or not self._complete(tx, each, items, vectors[number]):  # type: ignore[index]
                    waiting.append(each)
        return waiting

    def _items(self, tx: Transaction, entry: word_index.Entry) -> list[int]:
        """The items of a thing's pieces. Pieces that were stored without their words are indexed now."""
        items = tx.column(_ITEMS, workspace=self._workspace, kind=entry.kind, ref=entry.ref)
        missing = entry.pieces[len(items) :]
        if missing and entry.shelf:
            rest = entry._replace(pieces=missing, first=len(items))
            items += [item for item, _ in word_index.add(tx, self._workspace, [rest])]
        return items

    def _complete(self, tx: Transaction, each: _TakenEntry, items: list[int], vectors: Vectors) -> bool:
        """Write the vectors and remove the entry. False when the workspace uses another model."""
        if choose(tx, self._workspace, vectors.model) != vectors.model:
            return False
        if tx.run(_DONE, workspace=self._workspace, id=each.id) and len(items) == len(vectors.rows):
            insert_vectors(tx, items, vectors)
            tx.note(self._workspace, each.kind, each.ref)
        return True


def embed(embedder: Embedder, texts: Sequence[list[word_index.Piece]]) -> list[Vectors]:
    """The vectors of several things' pieces, computed together."""
    rows = iter(quantised(embedder, [piece.text for pieces in texts for piece in pieces]))
    return [Vectors(embedder.name, [next(rows) for _ in pieces]) for pieces in texts]


def quantised(embedder: Embedder, texts: Sequence[str]) -> list[bytes]:
    """Each text's vector as it is stored."""
    if not texts:
        return []
    from ..embedding.quantise import to_int8

    return [row.tobytes() for row in to_int8(embedder.embed(texts))]


def enqueue(tx: Transaction, workspace: str, kind: str, ref: int, *, indexed: bool, words_due: bool = False) -> None:
    """Add a thing to the queue for its vector, and for its words unless they are `indexed`.

    With `words_due`, `index_words` indexes the words before `work` does.
    """
    tx.later(
        _WAIT,
        workspace=workspace,
        kind=kind,
        ref=ref,
        free=_FREE,
        indexed=int(indexed),
        words_due=int(words_due),
    )


def withdraw(tx: Transaction, workspace: str, kind: str, ref: int) -> None:
    """Remove a thing from the queue."""
    tx.lock(mutexes.embedding_queue(workspace))
    tx.later(_FORGET, workspace=workspace, kind=kind, ref=ref)


def store_vectors(
    tx: Transaction, workspace: str, entries: Sequence[word_index.Entry], vectors: Sequence[Vectors | None]
) -> None:
    """Index things, each with the vectors of its pieces if they are of the model that the workspace uses. Otherwise
    queue it. All belong on the same shelf.
    """
    used = {each.model for each in vectors if each is not None}
    asked = tx.ask(MODEL, workspace=workspace) if used else None
    items = iter([item for item, _ in word_index.add(tx, workspace, entries)])
    chosen = None if asked is None else asked.value()
    fitting = {model for model in used if (chosen or choose(tx, workspace, model)) == model}
    placed: list[int] = []
    rows: list[bytes] = []
    for entry, made in zip(entries, vectors, strict=True):
        own = list(islice(items, len(entry.pieces)))
        if made is not None and made.model in fitting:
            placed += own
            rows += made.rows
        else:
            enqueue(tx, workspace, entry.kind, entry.ref, indexed=True)
    for model in fitting:
        insert_vectors(tx, placed, Vectors(model, rows))


def insert_vectors(tx: Transaction, items: Sequence[int], vectors: Vectors) -> None:
    """Insert the vectors of existing items."""
    rows = zip(items, vectors.rows, strict=True)
    tx.many(_ADD_VECTOR, [{"item": item, "model": vectors.model, "vector": row} for item, row in rows])
