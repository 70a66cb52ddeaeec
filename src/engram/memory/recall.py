"""Recall: what was said, done or learnt, found again by words and by meaning.

**Words.** BM25 over the postings gives the best fifty; the turns around them join, and each query word counts for a
turn where it occurs best: in the turn itself, or, for less, in a turn close by. A question's words are seldom all in
the one sentence that answers it, but mostly around it. The engines add floating-point numbers in different orders, so
what SQL chose is scored again here, from the same postings, and both engines give the same order.

**Meaning.** Cosines against the workspace's vectors, counted in standard deviations above the mean, so that a model
that finds everything alike does not drown the words. The query's words weigh by how rare they are, and what all turns
have in common is taken off. Both parts are squared before they are added: a good match by either beats a middling one
by both, and a paraphrase without a common word is still found.

**Tokens.** Where the model is one for which it pays, the best fifty are compared once more, token by token (`rerank`).

**Preferences.** A time that the question names, recency, importance and the project tip the balance between what fits
about equally well.

No transaction is open while a model works. How rare the query's words are is read first; then the query is embedded;
then everything is ranked in one snapshot, from which all hits come. Reranking needs the candidates' texts, so it ranks,
leaves, embeds the texts, and ranks again: in the new snapshot, with what was learnt about texts that are still there.

The constants are in `scoring.Weights`; `bench/recall_quality.py` chooses and measures them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .. import checks
from ..clock import between
from ..errors import EmbedderFailed, MissingExtra, SessionNotFound
from ..records import Exchange, Hit
from ..tokens import estimate
from . import analyser, bm25, query_dates, query_vector, recall_request
from .embedding_models import model_of
from .embedding_queue import EmbeddingQueue
from .scoring import Item, Preferences, Query, Scored, Weights, combine, matches, weights_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..embedding import Embedder, TokenVectors, WeightedText
    from ..embedding.protocol import Vectors
    from ..storage.engine import Row, Transaction
    from ..store_view import StoreView
    from .memories import Memories
    from .provenance import Thing
    from .recall_request import Wanted

#: How many of the best by words, and by meaning, are looked at more closely.
CANDIDATES = 50
#: Gentle, like `scoring.Preferences`.
_IMPORTANCE = 0.1
#: So often the candidates' texts may have changed while they were being compared; then their tokens do not count.
_ATTEMPTS = 3

_SESSION = "SELECT 1 FROM sessions WHERE workspace = :workspace AND id = :id"
_LAST_CHANGE = "SELECT COALESCE(MAX(number), 0) FROM changes WHERE workspace = :workspace"
# The casts keep SQLite from reading the whole workspace by its index.
_EXCHANGES = """
SELECT e.id, e.content, e.trust, s.type FROM exchanges e
  LEFT JOIN sessions s ON s.workspace = e.workspace AND s.id = e.session_id
WHERE e.id IN (SELECT value FROM json_each(:ids)) AND CAST(e.workspace AS TEXT) = :workspace
"""
_MEMORIES = """
SELECT m.id, m.content, m.trust, s.type, m.importance, m.expires_at FROM memories m
  LEFT JOIN sessions s ON s.workspace = m.workspace AND s.id = m.session_id
WHERE m.id IN (SELECT value FROM json_each(:ids)) AND CAST(m.workspace AS TEXT) = :workspace
"""
_CURRENT = """
SELECT id FROM memories
WHERE id IN (SELECT value FROM json_each(:ids)) AND CAST(workspace AS TEXT) = :workspace
  AND (expires_at IS NULL OR expires_at > :now)
"""
_TURNS_OF = """
SELECT e.id, e.content FROM sources s JOIN exchanges e ON e.workspace = s.workspace AND e.id = s.source_id
WHERE s.workspace = :workspace AND s.derived_kind = 'memory' AND s.derived_id = :id AND s.source_kind = 'exchange'
"""
_TAGGED = "SELECT 1 FROM memory_tags WHERE workspace = :workspace AND tag = :tag AND memory_id = :id"
_NEIGHBOURS = """
SELECT id, session_id, seq, role, content, trust, created_at FROM exchanges
WHERE workspace = :workspace AND session_id = :session AND role <> 'log' AND turn BETWEEN :first AND :last ORDER BY seq
"""


class _Request(NamedTuple):
    """One call of recall, checked."""

    query: str
    k: int
    wanted: Wanted
    mode: str
    rerank: bool
    neighbours: int
    weights: Weights
    preferences: Preferences


class _Candidates(NamedTuple):
    """What is looked at closely, and how it fits."""

    items: dict[int, Item]
    matches: dict[int, dict[str, float]]
    meaning: dict[int, float]


class _Question(NamedTuple):
    """A query as its words and the model understand it, and the change of the store that this goes by."""

    asked: Query
    change: int
    #: None when words alone answer.
    model: Embedder | None
    meant: WeightedText | None


class Recall:
    def __init__(self, view: StoreView, memories: Memories) -> None:
        self._engine = view.engine
        self._workspace = view.workspace
        self._backlog = EmbeddingQueue(view)
        self._memories = memories

    def recall(
        self,
        query: str,
        k: int = 5,
        *,
        what: Sequence[str] = ("exchanges", "memories"),
        session_id: str | None = None,
        exclude_session: str | None = None,
        kinds: Sequence[str] | None = None,
        roles: Sequence[str] | None = None,
        tags: Sequence[str] | None = None,
        project: str | None = None,
        since: str | None = None,
        until: str | None = None,
        budget: int | None = None,
        include_archived: bool = False,
        mode: str = "hybrid",
        rerank: str = "auto",
        neighbours: int = 0,
        prefer_project: str | None = None,
        weights: Weights | None = None,
        note: bool = True,
    ) -> list[Hit]:
        """What fits a question best; `weights` is for measuring, everything else is for use.

        That memories were recalled is noted, unless `note` is False.
        """
        checks.text(query, "query")
        checks.whole(k, "k", least=1, most=1_000)
        checks.whole(neighbours, "neighbours", least=0, most=100)
        recall_request.expect(mode, recall_request.MODES, "mode")
        recall_request.expect(rerank, recall_request.RERANK, "rerank")
        wanted = recall_request.wanted(
            what, session_id, exclude_session, kinds, roles, tags, project, since, until, include_archived
        )
        budget = None if budget is None else checks.whole(budget, "budget", least=1)
        embedder = None if mode == "words" else self._embedder()
        weights = weights or weights_of(None if embedder is None else embedder.name)
        question, now = self._question(query, wanted, weights, embedder)
        request = _Request(
            query,
            k,
            wanted,
            mode,
            rerank == "always" or (rerank == "auto" and weights.reranks),
            neighbours,
            weights,
            Preferences(now, prefer_project, query_dates.spans(query, now)),
        )
        hits = self._answer(request, question)
        if budget is not None:
            hits = _within(hits, budget)
        if note:
            self._memories.used([hit.memory_id for hit in hits if hit.memory_id is not None])
        return hits

    def _embedder(self) -> Embedder | None:
        """The model, if it can be had; otherwise words alone answer, and the log says so."""
        try:
            return self._backlog.embedder()
        except (EmbedderFailed, MissingExtra) as error:
            _warn("%s; recall goes by words alone", error)
            return None

    def _question(
        self, query: str, wanted: Wanted, weights: Weights, embedder: Embedder | None
    ) -> tuple[_Question, str]:
        """The query understood, and what time it is in the store."""
        with self._engine.read() as tx:
            now = tx.now()
            if wanted.session_id is not None:
                self._require(tx, wanted.session_id)
            question = self._read(tx, query, wanted, embedder)
            background = query_vector.background(tx, self._workspace, question.model, weights)
        if question.model is None:
            return question, now
        try:
            meant = query_vector.understand(question.model, question.asked, query, weights, background)
        except EmbedderFailed as error:
            _warn("%s; recall goes by words alone", error)
            return question._replace(model=None), now
        return question._replace(meant=meant), now

    def _read(self, tx: Transaction, query: str, wanted: Wanted, embedder: Embedder | None) -> _Question:
        """The query's words, and whether the model is the one whose vectors are there."""
        change: int = tx.all(_LAST_CHANGE, workspace=self._workspace)[0][0]
        usable = embedder is not None and _is_active_model(tx, self._workspace, embedder.name)
        asked = bm25.weigh(tx, self._workspace, wanted.shelves, _distinct(query))
        return _Question(asked, change, embedder if usable else None, None)

    def _answer(self, request: _Request, question: _Question) -> list[Hit]:
        """The hits, all from one snapshot; texts whose tokens are wanted are embedded between two of them."""
        tokens: dict[str, Vectors] = {}
        attempts = _ATTEMPTS if request.rerank else 0
        while True:
            with self._engine.read() as tx:
                now = self._current_question(tx, request, question)
                candidates = self._candidates(tx, request, now)
                ranked = _ranked(request, now, candidates, {})
                texts = self._texts(tx, ranked) if attempts and _tokens_of(now.model) else {}
                unknown = [text for text in dict.fromkeys(texts.values()) if text not in tokens]
                if not unknown:
                    if texts:
                        ranked = _ranked(request, now, candidates, _closer(now, ranked, texts, tokens))
                    return self._hits(tx, now.asked, ranked, request)
            attempts -= 1
            compare = _tokens_of(question.model)
            try:
                tokens.update(zip(unknown, (each.vectors for each in compare(unknown)), strict=True) if compare else ())
            except EmbedderFailed as error:
                _warn("%s; recall goes without comparing tokens", error)
                attempts = 0

    def _current_question(self, tx: Transaction, request: _Request, question: _Question) -> _Question:
        """The question as this snapshot has it: as it was, unless something has changed since."""
        if tx.all(_LAST_CHANGE, workspace=self._workspace)[0][0] == question.change:
            return question
        fresh = self._read(tx, request.query, request.wanted, question.model)
        return fresh._replace(meant=question.meant if fresh.model is not None else None)

    def _candidates(self, tx: Transaction, request: _Request, question: _Question) -> _Candidates:
        asked, wanted, k = question.asked, request.wanted, request.k
        known: dict[int, Item] = {}
        skipped = request.mode == "vectors" and question.model
        by_words = [] if skipped else self._best_by_words(tx, asked, wanted, k, known)
        meaning: dict[int, float] = {}
        if question.model is not None and question.meant is not None:
            meaning = _meaning(tx, self._workspace, asked, wanted, question.model, question.meant.vector)
        best = self._closest(tx, meaning, wanted, k, known)
        chosen = bm25.fetch(tx, self._workspace, [*by_words, *best], known)
        items = bm25.with_neighbours(tx, self._workspace, chosen, set(by_words))
        occurrences = bm25.occurrences(tx, asked, items) if by_words else {}
        return _Candidates(items, matches(items, occurrences), meaning)

    def _texts(self, tx: Transaction, ranked: list[Scored]) -> dict[int, str]:
        """The texts of the best, by item; as many as may be compared."""
        from .rerank import MOST, MOST_CHARACTERS

        texts: dict[int, str] = {}
        left = MOST_CHARACTERS
        rows = self._rows(tx, ranked[:MOST])
        for item, *_ in ranked[:MOST]:
            row = rows.get((item.kind, item.ref))
            text = _piece(row[0], item.piece) if row else ""
            left -= len(text)
            if left < 0:
                break
            texts[item.id] = text
        return texts

    def _rows(self, tx: Transaction, ranked: Sequence[Scored]) -> dict[Thing, Row]:
        """By kind and number, content, trust and source of what they are pieces of; importance and end of memories."""
        exchanges = [item.ref for item, *_ in ranked if item.kind == "exchange"]
        memories = [item.ref for item, *_ in ranked if item.kind == "memory"]
        rows: dict[Thing, Row] = {}
        if exchanges:
            found = tx.all(_EXCHANGES, workspace=self._workspace, ids=tx.array(exchanges))
            rows |= {("exchange", id): tuple(rest) for id, *rest in found}
        if memories:
            found = tx.all(_MEMORIES, workspace=self._workspace, ids=tx.array(memories))
            rows |= {("memory", id): tuple(rest) for id, *rest in found}
        return rows

    def _best_by_words(
        self, tx: Transaction, asked: Query, wanted: Wanted, k: int, known: dict[int, Item]
    ) -> list[int]:
        """The best by words; more of them while filters and long texts leave fewer than were asked for."""
        limit = max(CANDIDATES, k)
        while True:
            best = bm25.best_by_words(tx, asked, wanted, limit)
            if len(best) < limit or len(self._returnable(tx, best, wanted, known)) >= k:
                return best
            limit *= 4

    def _closest(
        self, tx: Transaction, meaning: dict[int, float], wanted: Wanted, k: int, known: dict[int, Item]
    ) -> list[int]:
        """The closest in meaning, passed through the filters portion by portion until there are enough."""
        ordered = sorted(meaning, key=lambda item: (-meaning[item], item))
        taken, enough = max(CANDIDATES, k), k
        while taken < len(ordered) and len(self._returnable(tx, ordered[:taken], wanted, known)) < enough:
            taken *= 4
        return ordered[:taken]

    def _returnable(self, tx: Transaction, ids: list[int], wanted: Wanted, known: dict[int, Item]) -> set[Thing]:
        """What of it may be returned, each thing once however many pieces it has."""
        items = bm25.fetch(tx, self._workspace, ids, known)
        fitting = {(item.kind, item.ref) for item in items if wanted.fits(item)}
        memories = [ref for kind, ref in fitting if kind == "memory"]
        current: set[int] = set()
        if memories:
            rows = tx.all(_CURRENT, workspace=self._workspace, now=tx.now(), ids=tx.array(memories))
            current = {row[0] for row in rows}
        return {
            (kind, ref)
            for kind, ref in fitting
            if (not wanted.tags if kind == "exchange" else ref in current and self._tagged(tx, ref, wanted.tags))
        }

    def _hits(self, tx: Transaction, asked: Query, ranked: list[Scored], request: _Request) -> list[Hit]:
        now = tx.now()
        hits: list[Hit] = []
        best: dict[Thing, Scored] = {}
        for scored in ranked:
            best.setdefault((scored.item.kind, scored.item.ref), scored)
        turns = {ref for kind, ref in best if kind == "exchange"}
        things = list(best.values())
        # Somewhat more than asked for, because importance may still exchange neighbours in the order.
        enough = request.k + 10
        while things and len(hits) < enough:
            some, things = things[:enough], things[enough:]
            rows = self._rows(tx, some)
            for scored in some:
                row = rows.get((scored.item.kind, scored.item.ref))
                if row is not None and not self._repeats(tx, scored.item, row[0], turns):
                    hit = self._hit(tx, asked, scored, row, request, now)
                    hits += [hit] if hit is not None else []
        hits.sort(key=lambda hit: -hit.score)
        return hits[: request.k]

    def _repeats(self, tx: Transaction, item: Item, text: str, turns: set[int]) -> bool:
        """Whether a memory only repeats a turn it was made of, while that turn is a candidate itself."""
        if item.kind != "memory" or not turns:
            return False
        said = tx.all(_TURNS_OF, workspace=self._workspace, id=item.ref)
        return any(id in turns and text in content for id, content in said)

    def _hit(self, tx: Transaction, asked: Query, scored: Scored, row: Row, request: _Request, now: str) -> Hit | None:
        item, tags = scored.item, request.wanted.tags
        importance = 1.0
        if item.kind == "memory":
            expires_at = row[4]
            if (expires_at is not None and expires_at <= now) or not self._tagged(tx, item.ref, tags):
                return None
            importance += _IMPORTANCE * (row[3] - 0.5)
        elif tags:
            return None
        score = scored.score * importance
        share, telling = asked.met(scored.found)
        return Hit(
            text=_piece(row[0], item.piece),
            score=round(score / (1 + score), 6),
            why={
                "words": round(scored.words, 4),
                "share": round(share, 4),
                "telling": round(telling, 4),
                "meaning": round(scored.meaning, 4),
                "tokens": round(scored.tokens, 4),
                "preference": round(scored.preference * importance, 4),
                "matched": sorted(scored.found),
                "dates": [span.phrase for span in request.preferences.spans],
            },
            exchange_id=item.ref if item.kind == "exchange" else None,
            memory_id=item.ref if item.kind == "memory" else None,
            label=item.label,
            session_id=item.session_id,
            project=item.project,
            created_at=item.at,
            age=between(item.at, now),
            trust=row[1],
            source=row[2],
            neighbours=self._neighbours(tx, item, request.neighbours),
        )

    def _require(self, tx: Transaction, session_id: str) -> None:
        if not tx.one(_SESSION, workspace=self._workspace, id=session_id):
            raise SessionNotFound(f"There is no session {session_id!r} in workspace {self._workspace!r}.")

    def _tagged(self, tx: Transaction, id: int, tags: tuple[str, ...]) -> bool:
        return all(tx.one(_TAGGED, workspace=self._workspace, tag=tag, id=id) for tag in tags)

    def _neighbours(self, tx: Transaction, item: Item, n: int) -> tuple[Exchange, ...]:
        if not n or item.turn is None:
            return ()
        rows = tx.all(
            _NEIGHBOURS,
            workspace=self._workspace,
            session=item.session_id,
            first=item.turn - n,
            last=item.turn + n,
        )
        return tuple(Exchange(*row) for row in rows if row[0] != item.ref)


def _distinct(query: str) -> list[str]:
    return list(dict.fromkeys(analyser.terms(query)))


def _ranked(request: _Request, question: _Question, candidates: _Candidates, closer: dict[int, float]) -> list[Scored]:
    return combine(
        question.asked,
        request.wanted,
        candidates.items,
        candidates.matches,
        candidates.meaning,
        request.preferences,
        request.weights,
        closer,
        hybrid=question.meant is not None,
    )


def _tokens_of(model: Embedder | None) -> Callable[[Sequence[str]], list[TokenVectors]] | None:
    """How to ask a model for the tokens of texts, if it has them."""
    from ..embedding import TokenEmbedder

    if isinstance(model, TokenEmbedder):
        return model.tokens
    return None


def _closer(
    question: _Question, ranked: list[Scored], texts: dict[int, str], tokens: dict[str, Vectors]
) -> dict[int, float]:
    """How close the best are token by token."""
    from .rerank import closeness

    assert question.meant is not None
    items = [scored.item for scored in ranked if scored.item.id in texts]
    return closeness(question.meant, items, {id: tokens[text] for id, text in texts.items()})


def _meaning(
    tx: Transaction, workspace: str, asked: Query, wanted: Wanted, embedder: Embedder, vector: Vectors
) -> dict[int, float]:
    """Standard deviations above the mean, for what is closest in meaning."""
    from .vectors import closest

    # With filters the closest may all be of the wrong kind, so more of them are looked at.
    narrowed = wanted.filtered or wanted.exclude_session or wanted.kinds or wanted.roles or wanted.tags
    most = CANDIDATES * (20 if narrowed else 4)
    return closest(tx, workspace, embedder.name, vector, wanted.shelves, asked.items, most)


def _is_active_model(tx: Transaction, workspace: str, model: str) -> bool:
    """Whether the workspace's vectors are this model's; if they are another's, words alone answer, and say so."""
    used = model_of(tx, workspace)
    if used is not None and used != model:
        _warn("%s was embedded with %s, not %s; recall goes by words alone", workspace, used, model)
        # What this process had in memory is of no more use.
        tx.memo.get("vectors", {}).pop(workspace, None)
    return used == model


def _warn(message: str, *values: object) -> None:
    import logging

    logging.getLogger("engram.recall").warning(message, *values)


def _piece(content: str, number: int) -> str:
    from .word_index import parts

    for position, (_, part) in enumerate(parts(content)):
        if position == number:
            return part
    return content


def _within(hits: list[Hit], budget: int) -> list[Hit]:
    """The best hits whose texts fit together."""
    kept, left = [], budget
    for hit in hits:
        cost = estimate(hit.text)
        if cost > left:
            break
        kept.append(hit)
        left -= cost
    return kept
