"""Recall: finds what was said, done or learnt, by words and by meaning.

**Words.** BM25 over the postings gives the best fifty, and the turns around them join. Each query word counts for a
turn where it occurs best: in the turn itself or, for less, in an adjacent one. The words of a question are rarely all
in the sentence that answers it, but mostly around it. The engines add floating-point numbers in different orders, so
what SQL selected is scored again here, from the same postings, and both engines give the same order. Words that were
read as a date do not count. Neighbours lift a turn only as far as its own match carries: what stands beside the answer
is mostly not the answer.

**Meaning.** Cosines against the workspace's vectors, in standard deviations above the mean. In a small store mean and
deviation are the model's own. So a single memory is found by meaning as well as one of a million, and a model that
finds everything similar does not outweigh the words. The query's words are weighted by rarity, and what all turns have
in common is subtracted. Both parts are squared before they are added. So a good match by either beats a mediocre one by
both, and a paraphrase without a common word is still found.

**Tokens.** For models where it pays, the best are compared again, token by token (`rerank`).

**Preferences.** A time that the question names, recency, importance and the project decide between hits that match
about equally well.

**Form.** Questions, announcements and pasted output count less than statements (`text_forms`), and what belongs to one
matter is arranged (`matters`).

No transaction is open while a model works. Recall first reads how rare the query's words are, then embeds the query,
then ranks everything in one snapshot, from which all hits come. Reranking needs the candidates' texts. So it ranks,
closes the snapshot, embeds the texts, and ranks again in a new snapshot, using the tokens of texts that still exist.

The constants are in `scoring.Weights`; `bench/recall_quality.py` and `bench/calibration.py` choose and measure them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .. import checks
from ..errors import EmbedderFailed, MissingExtra, SessionNotFound
from ..tokens import estimate
from . import analyser, bm25, hits, memory_tags, query_dates, query_vector, recall_request, text_forms
from .embedding_models import AUTO, MODEL, other_given, other_model, warn_once
from .embedding_queue import EmbeddingQueue
from .pruning import Search
from .scoring import Item, Preferences, Query, Scored, Weights, combine, matches, weights_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..embedding import Embedder, WeightedText
    from ..records import Hit
    from ..storage.engine import Answer, Transaction
    from ..store_view import StoreView
    from .memories import Memories
    from .query_dates import Span
    from .recall_request import Filters
    from .rerank import Tokens

#: How many of the best by words, and of the best by meaning, are scored in full.
CANDIDATES = 50
#: The same when all hits are questions: the same question, asked again and again, may have kept out its answer.
_BEHIND_QUESTIONS = 400
#: How many of the closest in meaning are compared; more with filters, which may exclude all of the closest.
_COMPARED, _COMPARED_FILTERED = 200, 1_000
#: If no more memories than this have the wanted tag, all of them are scored, and nothing else is compared.
_FEW_TAGGED = 500
#: How often reranking starts again when the candidates' texts change meanwhile. After that, tokens do not count.
_ATTEMPTS = 3
_BY_WORDS = "Recall goes by words alone."

_SESSION = "SELECT 1 FROM sessions WHERE workspace = :workspace AND id = :id"
_NEWEST_CHANGE = "SELECT COALESCE(MAX(number), 0) FROM changes WHERE workspace = :workspace"
_CURRENT = """
SELECT id FROM memories
WHERE id IN (SELECT value FROM json_each(:ids)) AND CAST(workspace AS TEXT) = :workspace
  AND (expires_at IS NULL OR expires_at > :now)
"""


class _Request(NamedTuple):
    """The checked arguments of one recall."""

    query: str
    k: int
    candidates: int
    filters: Filters
    mode: str
    rerank: bool
    neighbours: int
    min_score: float
    weights: Weights
    preferences: Preferences


class _Candidates(NamedTuple):
    """The items that are scored in full."""

    items: dict[int, Item]
    #: The weight of each query word in the item itself, and with those of adjacent turns.
    own: dict[int, dict[str, float]]
    matches: dict[int, dict[str, float]]
    meaning: dict[int, float]


class _Question(NamedTuple):
    """A query as its terms and its vector, and the change of the store that these are based on."""

    asked: Query
    #: None if a change before the newest one may still appear.
    change: int | None
    #: None when words alone answer.
    model: Embedder | None
    meant: WeightedText | None
    #: Mean and deviation of the model's cosines for unrelated texts.
    usual: tuple[float, float] = (0.0, 1.0)


class _AskedQuery(NamedTuple):
    """What is asked about a query in one round trip."""

    newest: Answer
    model: Answer
    weighing: bm25.Weighing


class Recall:
    def __init__(self, view: StoreView, memories: Memories) -> None:
        self._view = view
        self._engine = view.engine
        self._workspace = view.workspace
        self._embedding_queue = EmbeddingQueue(view)
        self._memories = memories

    @property
    def workspace(self) -> str:
        return self._workspace

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
        turns_project: str | None = None,
        since: str | None = None,
        until: str | None = None,
        author: str | None = None,
        budget: int | None = None,
        include_archived: bool = False,
        mode: str = "hybrid",
        rerank: str = "auto",
        neighbours: int = 0,
        prefer_project: str | None = None,
        min_score: float = 0.0,
        weights: Weights | None = None,
        note: bool = True,
    ) -> list[Hit]:
        """The best matches for a question, at most `k`.

        By meaning there are always `k`, if the filters leave as many; `min_score` leaves out those that are probably
        not about the question. `turns_project` leaves out turns of other projects, but not their memories. With
        `author`, only what this author wrote first. Memories that are returned count as recalled, unless `note` is
        False. `weights` is for measurements.
        """
        checks.text(query, "query")
        checks.whole(k, "k", least=1, most=1_000)
        checks.whole(neighbours, "neighbours", least=0, most=100)
        recall_request.expect(mode, recall_request.MODES, "mode")
        recall_request.expect(rerank, recall_request.RERANK, "rerank")
        filters = recall_request.filters(
            what,
            session_id,
            exclude_session,
            kinds,
            roles,
            tags,
            project,
            turns_project,
            since,
            until,
            include_archived,
            author,
        )
        budget = None if budget is None else checks.whole(budget, "budget", least=1)
        min_score = checks.share(min_score, "min_score")
        embedder = None if mode == "words" else self._embedder()
        chosen, weights = weights, weights or weights_of(None if embedder is None else embedder.name)
        question, spans, now = self._question(query, filters, weights, embedder)
        if question.model is None:
            weights = chosen or weights_of(None)
        request = _Request(
            query_dates.without(query, spans),
            k,
            max(CANDIDATES, k),
            filters,
            mode,
            rerank == "always" or (rerank == "auto" and weights.reranks),
            neighbours,
            min_score,
            weights,
            Preferences(now, prefer_project, spans),
        )
        found = self._answer(request, question)
        only_questions = all(text_forms.is_question(hit.text) for hit in found)
        if found and only_questions and question.asked.items > request.candidates:
            found = self._answer(request._replace(candidates=max(_BEHIND_QUESTIONS, k)), question)
        if budget is not None:
            found = _within_budget(found, budget)
        if note:
            self._memories.used([hit.memory_id for hit in found if hit.memory_id is not None], now)
        return found

    def _embedder(self) -> Embedder | None:
        """The model, if it can be loaded. Otherwise recall goes by words alone, and the log says so once."""
        try:
            return self._embedding_queue.embedder()
        except (EmbedderFailed, MissingExtra) as error:
            warn_once(str(error), _BY_WORDS)
            return None

    def _question(
        self, query: str, filters: Filters, weights: Weights, embedder: Embedder | None
    ) -> tuple[_Question, tuple[Span, ...], str]:
        """The query with its vector, the times that it names, and the store's current time."""
        with self._engine.read(feed=True) as tx:
            if filters.session_id is not None:
                self._require(tx, filters.session_id)
            # Asked before the dates in the query are known, which need the time. They rarely have any.
            asked = self._ask_query(tx, query, filters)
            lately = query_vector.ask_background(tx, self._workspace, embedder, weights)
            now = tx.now()
            spans = query_dates.spans(query, now)
            searched = query_dates.without(query, spans)
            question = self._read_query(tx, searched, filters, embedder, asked, is_last=True)
        if question.model is None:
            return question, spans, now
        background = query_vector.background(lately, weights)
        from . import backdrop

        try:
            meant = query_vector.understand(question.model, question.asked, searched, weights, background)
            if not meant.vector.any():  # the model knows none of its tokens
                return question._replace(model=None), spans, now
            usual = backdrop.usual(question.model, meant.vector)
        except (EmbedderFailed, MissingExtra) as error:
            warn_once(str(error), _BY_WORDS)
            return question._replace(model=None), spans, now
        return question._replace(meant=meant, usual=usual), spans, now

    def _ask_query(self, tx: Transaction, query: str, filters: Filters) -> _AskedQuery:
        """Ask for what `_read_query` needs."""
        return _AskedQuery(
            tx.ask(_NEWEST_CHANGE, workspace=self._workspace),
            tx.ask(MODEL, workspace=self._workspace),
            bm25.Weighing(tx, self._workspace, filters.shelves, _distinct_terms(query)),
        )

    def _read_query(
        self,
        tx: Transaction,
        query: str,
        filters: Filters,
        embedder: Embedder | None,
        asked: _AskedQuery,
        *,
        is_last: bool = False,
    ) -> _Question:
        """The query's terms, and whether the workspace has vectors of this model."""
        newest: int = asked.newest.value()
        end = tx.feed_end
        change = newest if end is not None and newest <= end else None
        usable = embedder is not None and _is_active_model(tx, self._view, embedder.name, asked.model.value())
        weighed = bm25.weigh(
            tx, self._workspace, filters.shelves, _distinct_terms(query), asked.weighing, is_last=is_last
        )
        return _Question(weighed, change, embedder if usable else None, None)

    def _answer(self, request: _Request, question: _Question) -> list[Hit]:
        """The hits, all from one snapshot. Texts whose tokens are needed are embedded between two snapshots."""
        tokens = _tokens(self._workspace, question.model) if request.rerank else None
        attempts = _ATTEMPTS
        while True:
            with self._engine.read(feed=True) as tx:
                now = question
                newest = tx.ask(_NEWEST_CHANGE, workspace=self._workspace)
                # Asked together with the search. If the store has changed, the search starts again.
                search = _Search(self, tx, request, now)
                changed = self._current_question(tx, request, question, newest)
                if changed is not None:
                    now = changed
                    search = _Search(self, tx, request, now)
                candidates = self._candidates(tx, request, now, search)
                ranked = _ranked(request, now, candidates, {})
                texts = self._texts(tx, now.asked, ranked) if tokens and attempts and now.model else {}
                unknown = tokens.missing(tx, texts) if tokens else []
                if tokens is None or not unknown:
                    if tokens and texts and now.meant:
                        items = [scored.item for scored in ranked if scored.item.id in texts]
                        ranked = _ranked(request, now, candidates, tokens.closeness(tx, now.meant, items, texts))
                    wanted = hits.Wanted(
                        request.k, request.filters, request.min_score, request.neighbours, request.preferences.spans
                    )
                    return hits.make(tx, self._workspace, now.asked, ranked, request.weights, wanted)
            attempts -= 1
            try:
                tokens.compute(unknown)
            except (EmbedderFailed, MissingExtra) as error:
                _warn("%s; recall goes without comparing tokens", error)
                attempts = 0

    def _current_question(
        self, tx: Transaction, request: _Request, question: _Question, newest: Answer
    ) -> _Question | None:
        """The question for this snapshot; None if the store has not changed since."""
        if newest.value() == question.change:
            return None
        asked = self._ask_query(tx, request.query, request.filters)
        fresh = self._read_query(tx, request.query, request.filters, question.model, asked)
        return fresh._replace(meant=question.meant if fresh.model is not None else None, usual=question.usual)

    def _candidates(self, tx: Transaction, request: _Request, question: _Question, search: _Search) -> _Candidates:
        """The items that are scored in full, with their matching words and their meaning."""
        asked = question.asked
        known: dict[int, Item] = {}
        skipped = request.mode == "vectors" and question.model
        few = memory_tags.few(tx, self._workspace, request.filters.tags, _FEW_TAGGED)
        if few is not None:
            best = bm25.of_memories(tx, self._workspace, few)
            by_words = [] if skipped else best
            meaning = self._compare(tx, question, request.filters, len(best), best)
        else:
            search.ask_more(known)
            by_words = [] if skipped else self._best_by_words(tx, request, asked, known, search)
            meaning, best = self._closest(tx, request, question, known, search)
        chosen = bm25.fetch(tx, self._workspace, [*by_words, *best], known)
        if request.filters.tags:
            refs = [item.ref for item in chosen if item.kind == "memory"]
            tagged = memory_tags.having_all(tx, self._workspace, refs, request.filters.tags)
            chosen = [item for item in chosen if item.kind == "memory" and item.ref in tagged]
        items, occurrences = bm25.with_neighbours(tx, self._workspace, asked, chosen, set(by_words))
        return _Candidates(items, occurrences, matches(items, occurrences), meaning)

    def _texts(self, tx: Transaction, asked: Query, ranked: list[Scored]) -> dict[int, str]:
        """The texts of the best items that are compared token by token."""
        from .rerank import MOST, choose

        items = [scored.item for scored in ranked[:MOST]]
        rows = hits.texts(tx, self._workspace, ranked[:MOST])
        contents = ((item, *rows.get((item.kind, item.ref), ("",))) for item in items)
        return choose(asked, ((item, hits.piece(content, item.piece)[1]) for item, content, *_ in contents))

    def _best_by_words(
        self, tx: Transaction, request: _Request, asked: Query, known: dict[int, Item], search: _Search
    ) -> list[int]:
        """The best by words. Fetches more of them while filters and long texts leave fewer than requested."""
        filters, k, limit = request.filters, request.k, request.candidates
        best = search.by_words()
        while True:
            if len(best) < limit or self._returnable(tx, best, filters, k, known) >= k:
                return best
            limit *= 4
            best = bm25.best_by_words(tx, asked, filters, limit)

    def _closest(
        self, tx: Transaction, request: _Request, question: _Question, known: dict[int, Item], search: _Search
    ) -> tuple[dict[int, float], list[int]]:
        """The meaning of the closest items, and the closest ones that are scored in full.

        Compares more of them while filters leave fewer than requested.
        """
        filters, k, taken = request.filters, request.k, request.candidates
        most, meaning = search.most, search.meaning()
        while True:
            ordered = sorted(meaning, key=lambda item: (-meaning[item], item))
            while taken < len(ordered) and self._returnable(tx, ordered[:taken], filters, k, known) < k:
                taken *= 4
            if len(ordered) < most or self._returnable(tx, ordered[:taken], filters, k, known) >= k:
                return meaning, ordered[:taken]
            most *= 8
            meaning = self._compare(tx, question, filters, most)

    def _compare(
        self, tx: Transaction, question: _Question, filters: Filters, most: int, among: list[int] | None = None
    ) -> dict[int, float]:
        """The meaning of the closest items, or of those `among` which to choose. Empty without a model."""
        return self.ask_meaning(tx, question, filters, most, among)()

    def ask_meaning(
        self, tx: Transaction, question: _Question, filters: Filters, most: int, among: list[int] | None = None
    ) -> Callable[[], dict[int, float]]:
        """Ask for the meaning of the closest items. Calling the result reads the answer."""
        if question.model is None or question.meant is None:
            return dict
        from .vectors import ask_closest

        return ask_closest(
            tx,
            self._workspace,
            question.model.name,
            question.meant.vector,
            question.usual,
            filters.shelves,
            question.asked.items,
            most,
            among,
        )

    def _returnable(self, tx: Transaction, ids: list[int], filters: Filters, k: int, known: dict[int, Item]) -> int:
        """How many things may be returned, each once however many of its pieces were found."""
        items = bm25.fetch(tx, self._workspace, ids, known)
        fitting = {(item.kind, item.ref) for item in items if filters.fits(item)}
        memories = [ref for kind, ref in fitting if kind == "memory"]
        current: set[int] = set()
        if memories:
            current = set(tx.column(_CURRENT, workspace=self._workspace, now=tx.now(), ids=tx.array(memories)))
            current = memory_tags.having_all(tx, self._workspace, current, filters.tags)
        found = {(kind, ref) for kind, ref in fitting if (not filters.tags if kind == "exchange" else ref in current)}
        if len(found) >= k + hits.ARRANGED:
            return len(found)
        # A turn may be left out because a memory says all of it.
        made = hits.turns_of(tx, self._workspace, [ref for kind, ref in found if kind == "memory"])
        said = {("exchange", turn) for turns in made.values() for turn in turns}
        return len(found - said)

    def _require(self, tx: Transaction, session_id: str) -> None:
        if not tx.one(_SESSION, workspace=self._workspace, id=session_id):
            raise SessionNotFound(f"There is no session {session_id!r} in workspace {self._workspace!r}.")


class _Search:
    """The search by words and by meaning. Making it asks for the first results of both, in one round trip."""

    def __init__(self, recall: Recall, tx: Transaction, request: _Request, question: _Question) -> None:
        self._tx = tx
        self._workspace = recall.workspace
        filters = request.filters
        narrowed = filters.filtered or filters.exclude_session or filters.kinds or filters.roles or filters.tags
        #: How many of the closest in meaning are compared.
        self.most = max(_COMPARED_FILTERED if narrowed else _COMPARED, 2 * request.k, request.candidates)
        self._taken = request.candidates
        self._words = Search(tx, question.asked, filters, request.candidates)
        self._ask_meaning = recall.ask_meaning(tx, question, filters, self.most)
        self._meaning: dict[int, float] | None = None

    def ask_more(self, known: dict[int, Item]) -> None:
        """Ask for what is needed of the first results, and read the items into `known`."""
        found = self._words.ask_more()
        meaning = self.meaning()
        nearest = sorted(meaning, key=lambda item: (-meaning[item], item))[: self._taken]
        items = bm25.ask_items(self._tx, self._workspace, {*found, *nearest})
        bm25.keep_items(items, known)

    def by_words(self) -> list[int]:
        """The best by words."""
        return self._words.items()

    def meaning(self) -> dict[int, float]:
        """The meaning of the closest items."""
        if self._meaning is None:
            self._meaning = self._ask_meaning()
        return self._meaning


def _distinct_terms(query: str) -> list[str]:
    return list(dict.fromkeys(analyser.terms(query)))


def _ranked(request: _Request, question: _Question, candidates: _Candidates, closer: dict[int, float]) -> list[Scored]:
    return combine(
        question.asked,
        request.filters,
        candidates.items,
        candidates.own,
        candidates.matches,
        candidates.meaning,
        request.preferences,
        request.weights,
        closer,
        by_meaning=question.meant is not None,
    )


def _tokens(workspace: str, model: Embedder | None) -> Tokens | None:
    """What compares texts token by token, if the model can."""
    from ..embedding import TokenEmbedder

    if model is None or not isinstance(model, TokenEmbedder):
        return None
    from .rerank import Tokens

    return Tokens(workspace, model.name, model)


def _is_active_model(tx: Transaction, view: StoreView, model: str, used: str | None) -> bool:
    """Whether the model that the workspace uses is this one. If not, recall goes by words alone, and the log says so
    once.

    With `auto` another process has just changed the model, and the next recall follows.
    """
    if used is not None and used != model:
        if view.embedder is not None or view.config.embedder != AUTO:
            why = other_model if view.embedder is None else other_given
            warn_once(why(view.workspace, used, model), _BY_WORDS)
        # The vectors that this process keeps in memory are of no use any more.
        tx.memo.get("vectors", {}).pop(view.workspace, None)
    return used == model


def _warn(message: str, *values: object) -> None:
    import logging

    logging.getLogger("engram.recall").warning(message, *values)


def _within_budget(found: list[Hit], budget: int) -> list[Hit]:
    """The best hits whose texts fit the budget together."""
    kept, left = [], budget
    for hit in found:
        cost = estimate(hit.text)
        if cost > left:
            break
        kept.append(hit)
        left -= cost
    return kept
