"""Reranking: compares the best candidates again, token by token.

For each token of the question, the closest token of a candidate counts, weighted by the rarity of the question's word.
One vector for a whole text would blur these differences. A token in an adjacent turn counts too, for less, as it does
for words.

**Time.** Nearly all of it goes into the token vectors of the candidates, and it grows with the length of their texts.
So the best candidates are compared until their texts are as long as `MOST_CHARACTERS`, and a long text is compared by
the passage that has most of the question's words. All this depends on the texts alone, never on a clock: every process
gives the same answer.

**Memory.** Token vectors take a hundred times the space of the texts, so the store does not have them. A process keeps
those that it computed last, up to `MOST_BYTES`, in 8 bits. Fresh ones are rounded to 8 bits too, so an answer does not
depend on what is kept. They are kept by item and follow the change feed like the vectors in `vectors`: the next recall
drops what any process changed or forgot, and until then nothing reads it. They never leave the process.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..embedding.quantise import from_int8, to_int8
from ..storage.changes import latest
from .passages import passage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt

    from ..embedding import TokenEmbedder, WeightedText
    from ..embedding.protocol import Vectors
    from ..storage.engine import Transaction
    from .scoring import Item, Query

    #: Token vectors in 8 bits, one row each.
    Levels = npt.NDArray[np.int8]

#: The most candidates that are compared, and the most characters of them. Characters stand for tokens, which take the
#: time: about 4 of them each.
MOST = 32
MOST_CHARACTERS = 1_600
#: How long the passage is by which a long text is compared.
PASSAGE = 200
#: The most that a process keeps of a store: about 1,800 texts of 190 characters.
MOST_BYTES = 32_000_000
#: With more changes than this, everything that is kept of the workspace is dropped.
_TOO_MANY = 1_000
#: The weight of a token in an adjacent turn, by distance in turns.
_NEAR = {1: 0.7, 2: 0.6, 3: 0.5}

_CHANGED = """
SELECT what, id FROM changes
WHERE workspace = :workspace AND number > :after AND what IN ('exchange', 'memory', 'model')
ORDER BY number LIMIT :limit
"""


def choose(asked: Query, best: Iterable[tuple[Item, str]]) -> dict[int, str]:
    """The texts to compare, by item, of the best candidates in order."""
    chosen: dict[int, str] = {}
    left = MOST_CHARACTERS
    for item, text in best:
        compared = passage(text, asked.weights, PASSAGE)
        left -= len(compared)
        if left < 0:
            break
        chosen[item.id] = compared
    return chosen


class Tokens:
    """The token vectors that one recall compares, by text: those that the process keeps, and new ones."""

    def __init__(self, workspace: str, model: str, embedder: TokenEmbedder) -> None:
        self._workspace = workspace
        self._model = model
        self._embedder = embedder
        self._tokens: dict[str, Levels] = {}

    def missing(self, tx: Transaction, texts: Mapping[int, str]) -> list[str]:
        """The texts, which are by item, whose token vectors have to be computed."""
        if texts:
            self._tokens |= _kept(tx).find(tx, self._workspace, self._model, texts)
        return [text for text in dict.fromkeys(texts.values()) if text not in self._tokens]

    def compute(self, texts: Sequence[str]) -> None:
        """Compute the token vectors of these texts. No transaction is open."""
        computed = self._embedder.tokens(texts)
        self._tokens.update(zip(texts, (to_int8(each.vectors) for each in computed), strict=True))

    def closeness(
        self, tx: Transaction, question: WeightedText, items: Sequence[Item], texts: Mapping[int, str]
    ) -> dict[int, float]:
        """How close each item is. No text is missing."""
        tokens = {item: self._tokens[text] for item, text in texts.items()}
        _kept(tx).keep(tx, self._workspace, self._model, items, texts, tokens)
        return closeness(question, items, tokens)


def closeness(question: WeightedText, items: Sequence[Item], tokens: Mapping[int, Levels]) -> dict[int, float]:
    """The mean cosine of the question's tokens to each item's closest ones. `tokens` are by the item's number."""
    whole = float(question.weights.sum())
    if whole <= 0:
        return {}
    similar = [_similar(question, tokens[item.id]) for item in items]
    places = {(item.session_id, item.turn): position for position, item in enumerate(items) if item.turn is not None}
    values = {}
    for item, own in zip(items, similar, strict=True):
        best = own
        for distance, share in _NEAR.items() if item.turn is not None else ():
            for turn in (item.turn - distance, item.turn + distance):  # type: ignore[operator]
                beside = places.get((item.session_id, turn))
                if beside is not None:
                    best = np.maximum(best, share * similar[beside])
        values[item.id] = float(best @ question.weights) / whole
    return values


def _similar(question: WeightedText, tokens: Levels) -> Vectors:
    """For each token of the question, its best cosine to any token of the text, or 0."""
    if len(tokens) == 0:
        return np.zeros(len(question.tokens), np.float32)
    best: Vectors = (question.tokens @ from_int8(tokens).T).max(axis=1)
    return np.maximum(best, 0)


class _Kept(NamedTuple):
    kind: str
    ref: int
    tokens: Levels


class _Key(NamedTuple):
    workspace: str
    model: str
    item: int
    #: The hash of the compared text. An item has many passages, and another thread may still see an older text of it.
    text: int


class Kept:
    """The token vectors that a process keeps of one store, the least recently used first. Threads share it."""

    def __init__(self) -> None:
        self.bytes = 0
        self._items: OrderedDict[_Key, _Kept] = OrderedDict()
        #: The change up to which the items of a workspace are known to be unchanged.
        self._last: dict[str, int] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._items)

    def find(self, tx: Transaction, workspace: str, model: str, texts: Mapping[int, str]) -> dict[str, Levels]:
        """The token vectors that are kept for these texts, which are by item."""
        with self._lock:
            self._follow(tx, workspace)
            found = {}
            for item, text in texts.items():
                key = _Key(workspace, model, item, hash(text))
                if key in self._items:
                    self._items.move_to_end(key)
                    found[text] = self._items[key].tokens
            return found

    def keep(
        self,
        tx: Transaction,
        workspace: str,
        model: str,
        items: Sequence[Item],
        texts: Mapping[int, str],
        tokens: Mapping[int, Levels],
    ) -> None:
        """Keep the token vectors of items whose texts this snapshot has."""
        with self._lock:
            # What another thread already knows to be forgotten must not come back from an older snapshot.
            if not self._follow(tx, workspace):
                return
            for item in items:
                key = _Key(workspace, model, item.id, hash(texts[item.id]))
                self._drop(key)
                self._items[key] = _Kept(item.kind, item.ref, tokens[item.id])
                self.bytes += tokens[item.id].nbytes
            while self.bytes > MOST_BYTES:
                self._drop(next(iter(self._items)))

    def _follow(self, tx: Transaction, workspace: str) -> bool:
        """Drop what has changed. Whether the snapshot is the newest one that was seen."""
        if tx.feed_end is None:
            return False
        now = latest(tx, workspace)
        last = self._last.setdefault(workspace, now)
        if now < last:
            return False
        # Also changes after `now`, which others may precede. They are read again then.
        changes = tx.all(_CHANGED, workspace=workspace, after=last, limit=_TOO_MANY + 1)
        everything = len(changes) > _TOO_MANY or any(what == "model" for what, _ in changes)
        changed = {(what, int(id)) for what, id in changes if what != "model"}
        for key, kept in list(self._items.items()) if changes else ():
            if key.workspace == workspace and (everything or (kept.kind, kept.ref) in changed):
                self._drop(key)
        self._last[workspace] = now
        return True

    def _drop(self, key: _Key) -> None:
        dropped = self._items.pop(key, None)
        if dropped is not None:
            self.bytes -= dropped.tokens.nbytes


def _kept(tx: Transaction) -> Kept:
    """The token vectors that this process keeps of the store. A writer's own changes may be rolled back, so it has
    none."""
    if tx.writable or tx.feed_end is None:
        return Kept()
    found: Kept = tx.memo.setdefault("tokens", Kept())
    return found
