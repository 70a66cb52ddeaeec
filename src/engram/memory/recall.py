"""Recall: finds what was said, done or learnt, by words and by meaning.

**Words.** BM25 over the postings gives the best fifty, and the turns around them join. Each query word counts for a
turn where it occurs best: in the turn itself or, for less, in an adjacent one. The words of a question are rarely all
in the sentence that answers it, but mostly around it. The engines add floating-point numbers in different orders, so
what SQL selected is scored again here, from the same postings, and both engines give the same order.

**Meaning.** Cosines against the workspace's vectors, in standard deviations above the mean, so that a model that finds
everything similar does not outweigh the words. The query's words are weighted by rarity, and what all turns have in
common is subtracted. Both parts are squared before they are added. So a good match by either beats a mediocre one by
both, and a paraphrase without a common word is still found.

**Tokens.** For models where it pays, the best are compared again, token by token (`rerank`).

**Preferences.** A time that the question names, recency, importance and the project decide between hits that match
about equally well.

No transaction is open while a model works. Recall first reads how rare the query's words are, then embeds the query,
then ranks everything in one snapshot, from which all hits come. Reranking needs the candidates' texts. So it ranks,
closes the snapshot, embeds the texts, and ranks again in a new snapshot, using the tokens of texts that still exist.

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
    from collections.abc import Sequence

    from ..embedding import Embedder, WeightedText
    from ..embedding.protocol import Vectors
    from ..storage.engine import Row, Transaction
    from ..store_view import StoreView
    from .memories import Memories
    from .provenance import Thing
    from .recall_request import Filters
    from .rerank import Tokens

#: How many of the best by words, and of the best by meaning, are scored in full.
CANDIDATES = 50
#: Weight of importance; small, like the weights in `scoring.Preferences`.
_IMPORTANCE = 0.1
#: The importance that changes nothing, which exchanges have.
_NEUTRAL = 0.5
#: How often reranking starts again when the candidates' texts change meanwhile. After that, tokens do not count.
_ATTEMPTS = 3

_SESSION = "SELECT 1 FROM sessions WHERE workspace = :workspace AND id = :id"
_LAST_CHANGE = "SELECT COALESCE(MAX(number), 0) FROM changes WHERE workspace = :workspace"
# The casts keep SQLite from reading the whole workspace through an index.
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
    """The checked arguments of one recall."""

    query: str
    k: int
    filters: Filters
    mode: str
    rerank: bool
    neighbours: int
    weights: Weights
    preferences: Preferences


class _Candidates(NamedTuple):
    """The items that are scored in full."""

    items: dict[int, Item]
    matches: dict[int, dict[str, float]]
    meaning: dict[int, float]


class _Question(NamedTuple):
    """A query as its terms and its vector, and the change of the store that these are based on."""

    asked: Query
    change: int
    #: None when words alone answer.
    model: Embedder | None
    meant: WeightedText | None


class Recall:
    def __init__(self, view: StoreView, memories: Memories) -> None:
        self._engine = view.engine
        self._workspace = view.workspace
        self._embedding_queue = EmbeddingQueue(view)
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
        """The best matches for a question. `weights` is for measurements.

        Memories that are returned count as recalled, unless `note` is False.
        """
        checks.text(query, "query")
        checks.whole(k, "k", least=1, most=1_000)
        checks.whole(neighbours, "neighbours", least=0, most=100)
        recall_request.expect(mode, recall_request.MODES, "mode")
        recall_request.expect(rerank, recall_request.RERANK, "rerank")
        filters = recall_request.filters(
            what, session_id, exclude_session, kinds, roles, tags, project, since, until, include_archived
        )
        budget = None if budget is None else checks.whole(budget, "budget", least=1)
        embedder = None if mode == "words" else self._embedder()
        weights = weights or weights_of(None if embedder is None else embedder.name)
        question, now = self._question(query, filters, weights, embedder)
        request = _Request(
            query,
            k,
            filters,
            mode,
            rerank == "always" or (rerank == "auto" and weights.reranks),
            neighbours,
            weights,
            Preferences(now, prefer_project, query_dates.spans(query, now)),
        )
        hits = self._answer(request, question)
        if budget is not None:
            hits = _within_budget(hits, budget)
        if note:
            self._memories.used([hit.memory_id for hit in hits if hit.memory_id is not None])
        return hits

    def _embedder(self) -> Embedder | None:
        """The model, if it can be loaded. Otherwise recall goes by words alone, and the log says so."""
        try:
            return self._embedding_queue.embedder()
        except (EmbedderFailed, MissingExtra) as error:
            _warn("%s; recall goes by words alone", error)
            return None

    def _question(
        self, query: str, filters: Filters, weights: Weights, embedder: Embedder | None
    ) -> tuple[_Question, str]:
        """The query with its vector, and the store's current time."""
        with self._engine.read() as tx:
            now = tx.now()
            if filters.session_id is not None:
                self._require(tx, filters.session_id)
            question = self._read_query(tx, query, filters, embedder)
            background = query_vector.background(tx, self._workspace, question.model, weights)
        if question.model is None:
            return question, now
        try:
            meant = query_vector.understand(question.model, question.asked, query, weights, background)
        except EmbedderFailed as error:
            _warn("%s; recall goes by words alone", error)
            return question._replace(model=None), now
        return question._replace(meant=meant), now

    def _read_query(self, tx: Transaction, query: str, filters: Filters, embedder: Embedder | None) -> _Question:
        """The query's terms, and whether the workspace has vectors of this model."""
        change: int = tx.value(_LAST_CHANGE, workspace=self._workspace)
        usable = embedder is not None and _is_active_model(tx, self._workspace, embedder.name)
        asked = bm25.weigh(tx, self._workspace, filters.shelves, _distinct_terms(query))
        return _Question(asked, change, embedder if usable else None, None)

    def _answer(self, request: _Request, question: _Question) -> list[Hit]:
        """The hits, all from one snapshot. Texts whose tokens are needed are embedded between two snapshots."""
        tokens = _tokens(self._workspace, question.model) if request.rerank else None
        attempts = _ATTEMPTS
        while True:
            with self._engine.read() as tx:
                now = self._current_question(tx, request, question)
                candidates = self._candidates(tx, request, now)
                ranked = _ranked(request, now, candidates, {})
                texts = self._texts(tx, now.asked, ranked) if tokens and attempts and now.model else {}
                unknown = tokens.missing(tx, texts) if tokens else []
                if tokens is None or not unknown:
                    if tokens and texts and now.meant:
                        items = [scored.item for scored in ranked if scored.item.id in texts]
                        ranked = _ranked(request, now, candidates, tokens.closeness(tx, now.meant, items, texts))
                    return self._hits(tx, now.asked, ranked, request)
            attempts -= 1
            try:
                tokens.compute(unknown)
            except EmbedderFailed as error:
                _warn("%s; recall goes without comparing tokens", error)
                attempts = 0

    def _current_question(self, tx: Transaction, request: _Request, question: _Question) -> _Question:
        """The question for this snapshot: unchanged, unless the store has changed since."""
        if tx.value(_LAST_CHANGE, workspace=self._workspace) == question.change:
            return question
        fresh = self._read_query(tx, request.query, request.filters, question.model)
        return fresh._replace(meant=question.meant if fresh.model is not None else None)

    def _candidates(self, tx: Transaction, request: _Request, question: _Question) -> _Candidates:
        """The items that are scored in full, with their matching words and their meaning."""
        asked, filters, k = question.asked, request.filters, request.k
        known: dict[int, Item] = {}
        skipped = request.mode == "vectors" and question.model
        by_words = [] if skipped else self._best_by_words(tx, asked, filters, k, known)
        meaning: dict[int, float] = {}
        if question.model is not None and question.meant is not None:
            meaning = _closest_in_meaning(tx, self._workspace, asked, filters, question.model, question.meant.vector)
        best = self._closest(tx, meaning, filters, k, known)
        chosen = bm25.fetch(tx, self._workspace, [*by_words, *best], known)
        items = bm25.with_neighbours(tx, self._workspace, chosen, set(by_words))
        occurrences = bm25.occurrences(tx, asked, items) if by_words else {}
        return _Candidates(items, matches(items, occurrences), meaning)

    def _texts(self, tx: Transaction, asked: Query, ranked: list[Scored]) -> dict[int, str]:
        """The texts of the best items that are compared token by token."""
        from .rerank import MOST, choose

        items = [scored.item for scored in ranked[:MOST]]
        rows = self._rows(tx, ranked[:MOST])
        contents = ((item, *rows.get((item.kind, item.ref), ("",))) for item in items)
        return choose(asked, ((item, _piece(content, item.piece)) for item, content, *_ in contents))

    def _rows(self, tx: Transaction, ranked: Sequence[Scored]) -> dict[Thing, Row]:
        """Content, trust, source, importance and expiry of the things that these items belong to."""
        exchanges = [item.ref for item, *_ in ranked if item.kind == "exchange"]
        memories = [item.ref for item, *_ in ranked if item.kind == "memory"]
        rows: dict[Thing, Row] = {}
        if exchanges:
            found = tx.all(_EXCHANGES, workspace=self._workspace, ids=tx.array(exchanges))
            rows |= {("exchange", id): (*values, _NEUTRAL, None) for id, *values in found}
        if memories:
            found = tx.all(_MEMORIES, workspace=self._workspace, ids=tx.array(memories))
            rows |= {("memory", id): tuple(values) for id, *values in found}
        return rows

    def _best_by_words(
        self, tx: Transaction, asked: Query, filters: Filters, k: int, known: dict[int, Item]
    ) -> list[int]:
        """The best by words. Fetches more of them while filters and long texts leave fewer than requested."""
        limit = max(CANDIDATES, k)
        while True:
            best = bm25.best_by_words(tx, asked, filters, limit)
            if len(best) < limit or len(self._returnable(tx, best, filters, known)) >= k:
                return best
            limit *= 4

    def _closest(
        self, tx: Transaction, meaning: dict[int, float], filters: Filters, k: int, known: dict[int, Item]
    ) -> list[int]:
        """The closest in meaning. Takes more of them while filters leave fewer than requested."""
        ordered = sorted(meaning, key=lambda item: (-meaning[item], item))
        taken, enough = max(CANDIDATES, k), k
        while taken < len(ordered) and len(self._returnable(tx, ordered[:taken], filters, known)) < enough:
            taken *= 4
        return ordered[:taken]

    def _returnable(self, tx: Transaction, ids: list[int], filters: Filters, known: dict[int, Item]) -> set[Thing]:
        """The things that may be returned, each once however many of its pieces were found."""
        items = bm25.fetch(tx, self._workspace, ids, known)
        fitting = {(item.kind, item.ref) for item in items if filters.fits(item)}
        memories = [ref for kind, ref in fitting if kind == "memory"]
        current: set[int] = set()
        if memories:
            current = set(tx.column(_CURRENT, workspace=self._workspace, now=tx.now(), ids=tx.array(memories)))
        return {
            (kind, ref)
            for kind, ref in fitting
            if (not filters.tags if kind == "exchange" else ref in current and self._tagged(tx, ref, filters.tags))
        }

    def _hits(self, tx: Transaction, asked: Query, ranked: list[Scored], request: _Request) -> list[Hit]:
        now = tx.now()
        hits: list[Hit] = []
        best: dict[Thing, Scored] = {}
        for scored in ranked:
            best.setdefault((scored.item.kind, scored.item.ref), scored)
        turns = {ref for kind, ref in best if kind == "exchange"}
        things = list(best.values())
        # Somewhat more than requested, because importance may still change the order of similar scores.
        enough = request.k + 10
        while things and len(hits) < enough:
            some, things = things[:enough], things[enough:]
            rows = self._rows(tx, some)
            for scored in some:
                row = rows.get((scored.item.kind, scored.item.ref))
                hit = None if row is None else self._make_hit(tx, asked, scored, row, turns, request, now)
                hits += [hit] if hit is not None else []
        hits.sort(key=lambda hit: -hit.score)
        return hits[: request.k]

    def _repeats(self, tx: Transaction, item: Item, text: str, turns: set[int]) -> bool:
        """Whether a memory only repeats a turn that it was made of and that is a candidate itself."""
        if item.kind != "memory" or not turns:
            return False
        said = tx.all(_TURNS_OF, workspace=self._workspace, id=item.ref)
        return any(id in turns and text in content for id, content in said)

    def _make_hit(
        self, tx: Transaction, asked: Query, scored: Scored, row: Row, turns: set[int], request: _Request, now: str
    ) -> Hit | None:
        """A hit; None when the thing has expired, lacks a tag, or is a memory that repeats one of the `turns`."""
        item, tags = scored.item, request.filters.tags
        content, trust, source, importance, expires_at = row
        if item.kind == "exchange" and tags:
            return None
        if item.kind == "memory" and (
            (expires_at is not None and expires_at <= now)
            or not self._tagged(tx, item.ref, tags)
            or self._repeats(tx, item, content, turns)
        ):
            return None
        preference = 1.0 + _IMPORTANCE * (importance - _NEUTRAL)
        score = scored.score * preference
        share, telling = asked.met(scored.found)
        return Hit(
            text=_piece(content, item.piece),
            score=round(score / (1 + score), 6),
            why={
                "words": round(scored.words, 4),
                "share": round(share, 4),
                "telling": round(telling, 4),
                "meaning": round(scored.meaning, 4),
                "tokens": round(scored.tokens, 4),
                "preference": round(scored.preference * preference, 4),
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
            trust=trust,
            source=source,
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
        turns = (Exchange(*row) for row in rows)
        return tuple(turn for turn in turns if turn.id != item.ref)


def _distinct_terms(query: str) -> list[str]:
    return list(dict.fromkeys(analyser.terms(query)))


def _ranked(request: _Request, question: _Question, candidates: _Candidates, closer: dict[int, float]) -> list[Scored]:
    return combine(
        question.asked,
        request.filters,
        candidates.items,
        candidates.matches,
        candidates.meaning,
        request.preferences,
        request.weights,
        closer,
        hybrid=question.meant is not None,
    )


def _tokens(workspace: str, model: Embedder | None) -> Tokens | None:
    """What compares texts token by token, if the model can."""
    from ..embedding import TokenEmbedder

    if model is None or not isinstance(model, TokenEmbedder):
        return None
    from .rerank import Tokens

    return Tokens(workspace, model.name, model)


def _closest_in_meaning(
    tx: Transaction, workspace: str, asked: Query, filters: Filters, embedder: Embedder, vector: Vectors
) -> dict[int, float]:
    """The items closest in meaning, in standard deviations above the mean."""
    from .vectors import closest

    # With filters the closest items may all be excluded, so more of them are compared.
    narrowed = filters.filtered or filters.exclude_session or filters.kinds or filters.roles or filters.tags
    most = CANDIDATES * (20 if narrowed else 4)
    return closest(tx, workspace, embedder.name, vector, filters.shelves, asked.items, most)


def _is_active_model(tx: Transaction, workspace: str, model: str) -> bool:
    """Whether the workspace's vectors are of this model. If not, recall goes by words alone, and the log says so."""
    used = model_of(tx, workspace)
    if used is not None and used != model:
        _warn("%s was embedded with %s, not %s; recall goes by words alone", workspace, used, model)
        # The vectors that this process keeps in memory are of no use any more.
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


def _within_budget(hits: list[Hit], budget: int) -> list[Hit]:
    """The best hits whose texts fit the budget together."""
    kept, left = [], budget
    for hit in hits:
        cost = estimate(hit.text)
        if cost > left:
            break
        kept.append(hit)
        left -= cost
    return kept
