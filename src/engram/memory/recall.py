"""Recall: what was said, done or learnt, found again by words and by meaning.

**Words.** BM25 over the postings gives the best fifty; the turns around them join, and each query word counts for a
turn where it occurs best: in the turn itself, or, for less, in a turn close by. A question's words are seldom all in
the one sentence that answers it, but mostly around it. The engines add floating-point numbers in different orders, so
what SQL chose is scored again here, from the same postings, and both engines give the same order.

**Meaning.** Cosines against the workspace's vectors, counted in standard deviations above the mean, so that a model
that finds everything alike does not drown the words. The query's words weigh by how rare they are. Both parts are
squared before they are added: a good match by either beats a middling one by both, and a paraphrase without a common
word is still found.

The constants were chosen by cross-validation; `bench/recall_quality.py` measures them.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

from .. import checks
from ..clock import between
from ..errors import EmbedderFailed, InvalidInput, MissingExtra
from ..records import Exchange, Hit
from ..tokens import estimate
from . import words
from .backlog import Backlog
from .exchanges import ROLES
from .index import find
from .memories import SHELVES, Memories
from .models import model_of
from .places import CHUNK, PAIRS, PAIRS_SIZE, padded, weighted
from .scoring import K1, REACH, B, Item, Query, Scored, Wanted, combine, matches

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from ..embedding import Embedder
    from ..scope import Scope
    from ..storage.engine import Row, Transaction

#: How many of the best by words, and by meaning, are looked at more closely.
CANDIDATES = 50
#: How soon a word counts as common when a query's meaning is made of its words.
_COMMON = 0.15
#: More words than this are a pasted text; its rarest ones say what it is about.
_MOST_TERMS = 24
_MOST_TOKENS = 500
#: Gentle: they settle a tie, and never bury a better match.
_SAME_PROJECT, _IMPORTANCE = 0.05, 0.1

MODES = ("hybrid", "words", "vectors")

_SHELF = "SELECT items, length FROM shelves WHERE workspace = :workspace AND shelf = :shelf"
_COUNTS = "SELECT term, COUNT(*) FROM postings WHERE term IN (" + CHUNK + ") GROUP BY term"
_BEST = (
    "WITH q (term, weight) AS (VALUES "
    + PAIRS
    + """)
SELECT p.item,
       SUM(CAST(q.weight AS DOUBLE PRECISION) * p.tf * 1.9 / (p.tf + 0.9 * (0.6 + 0.4 * p.length / :average))) AS score
FROM q JOIN postings p ON p.term = CAST(q.term AS BIGINT)
GROUP BY p.item ORDER BY score DESC, p.item LIMIT :limit"""
)
_BEST_FILTERED = (
    "WITH q (term, weight) AS (VALUES "
    + PAIRS
    + """)
SELECT p.item,
       SUM(CAST(q.weight AS DOUBLE PRECISION) * p.tf * 1.9 / (p.tf + 0.9 * (0.6 + 0.4 * p.length / :average))) AS score
FROM q JOIN postings p ON p.term = CAST(q.term AS BIGINT) JOIN items i ON i.id = p.item
WHERE (CAST(:session AS TEXT) IS NULL OR i.session_id = :session)
  AND (CAST(:exclude AS TEXT) IS NULL OR i.session_id IS NULL OR i.session_id <> :exclude)
  AND (CAST(:project AS TEXT) IS NULL OR i.project = :project)
  AND (CAST(:since AS TEXT) IS NULL OR i.at >= :since) AND (CAST(:until AS TEXT) IS NULL OR i.at < :until)
GROUP BY p.item ORDER BY score DESC, p.item LIMIT :limit"""
)
_ITEM_COLUMNS = "id, shelf, kind, ref, piece, label, session_id, project, turn, at"
_ITEMS = "SELECT " + _ITEM_COLUMNS + " FROM items WHERE workspace = :workspace AND id IN (" + CHUNK + ")"
_AROUND = (
    "SELECT "
    + _ITEM_COLUMNS
    + """ FROM items
WHERE workspace = :workspace AND session_id = :session AND turn BETWEEN :first AND :last"""
)
_POSTINGS = "SELECT item, term, tf, length FROM postings WHERE term = :term AND item IN (" + CHUNK + ")"
_EXCHANGE = "SELECT content, trust FROM exchanges WHERE workspace = :workspace AND id = :id"
_MEMORY = "SELECT content, trust, importance, expires_at FROM memories WHERE workspace = :workspace AND id = :id"
_CURRENT = (
    "SELECT id FROM memories WHERE workspace = :workspace AND (expires_at IS NULL OR expires_at > :now) AND id IN ("
    + CHUNK
    + ")"
)
_TAGGED = "SELECT 1 FROM memory_tags WHERE workspace = :workspace AND tag = :tag AND memory_id = :id"
_NEIGHBOURS = """
SELECT id, session_id, seq, role, content, trust, created_at FROM exchanges
WHERE workspace = :workspace AND session_id = :session AND role <> 'log' AND turn BETWEEN :first AND :last ORDER BY seq
"""


class Recall:
    def __init__(self, scope: Scope, memories: Memories) -> None:
        self._engine = scope.engine
        self._workspace = scope.workspace
        self._backlog = Backlog(scope)
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
        neighbours: int = 0,
        prefer_project: str | None = None,
    ) -> list[Hit]:
        checks.text(query, "query")
        checks.whole(k, "k", least=1, most=1_000)
        checks.whole(neighbours, "neighbours", least=0, most=100)
        if mode not in MODES:
            raise InvalidInput(f"mode is {mode!r}; it must be one of {', '.join(MODES)}.")
        wanted = Wanted(
            shelves=_shelves(what, kinds, roles, include_archived),
            session_id=checks.optional_name(session_id, "session id"),
            exclude_session=checks.optional_name(exclude_session, "session id"),
            kinds=None if kinds is None else frozenset(_names(kinds, "kind")),
            roles=None if roles is None else frozenset(_roles(roles)),
            tags=tuple(_names(tags or (), "tag")),
            project=checks.optional_name(project, "project"),
            since=None if since is None else checks.moment(since, "since"),
            until=None if until is None else checks.moment(until, "until"),
        )
        embedder = None if mode == "words" else self._embedder()
        with self._engine.read() as tx:
            asked = _weigh(tx, self._workspace, wanted.shelves, _distinct(query))
            if embedder is not None and not _usable(tx, self._workspace, embedder.name):
                embedder = None
            ranked = self._rank(tx, asked, wanted, query, embedder, mode if embedder else "words", k)
            hits = self._hits(tx, ranked, wanted, query, k, neighbours, prefer_project)
        if budget is not None:
            hits = _within(hits, checks.whole(budget, "budget", least=1))
        self._memories.used([hit.memory_id for hit in hits if hit.memory_id is not None])
        return hits

    def _embedder(self) -> Embedder | None:
        """The model, if it can be had; otherwise words alone answer, and the log says so."""
        try:
            return self._backlog.embedder()
        except (EmbedderFailed, MissingExtra) as error:
            _warn("%s; recall goes by words alone", error)
            return None

    def _rank(
        self,
        tx: Transaction,
        asked: Query,
        wanted: Wanted,
        query: str,
        embedder: Embedder | None,
        mode: str,
        k: int,
    ) -> list[Scored]:
        by_words = self._best_by_words(tx, asked, wanted, k) if mode != "vectors" else []
        meaning: dict[int, float] = {}
        if embedder is not None:
            try:
                meaning = _meaning(tx, self._workspace, asked, wanted, query, embedder)
            except EmbedderFailed as error:
                _warn("%s; recall goes by words alone", error)
                embedder = None
        best = self._closest(tx, meaning, wanted, k)
        items = _with_neighbours(tx, self._workspace, _fetch(tx, self._workspace, [*by_words, *best]), set(by_words))
        occurrences = _occurrences(tx, asked, list(items)) if by_words else {}
        found = matches(items, occurrences)
        return combine(asked, wanted, items, found, meaning, hybrid=embedder is not None)

    def _best_by_words(self, tx: Transaction, asked: Query, wanted: Wanted, k: int) -> list[int]:
        """The best by words; more of them while filters and long texts leave fewer than were asked for."""
        limit = max(CANDIDATES, k)
        while True:
            best = _best_by_words(tx, asked, wanted, limit)
            if len(best) < limit or len(self._usable(tx, best, wanted)) >= k:
                return best
            limit *= 4

    def _closest(self, tx: Transaction, meaning: dict[int, float], wanted: Wanted, k: int) -> list[int]:
        """The closest in meaning, passed through the filters portion by portion until there are enough."""
        ordered = sorted(meaning, key=lambda item: (-meaning[item], item))
        taken, enough = max(CANDIDATES, k), k
        while taken < len(ordered) and len(self._usable(tx, ordered[:taken], wanted)) < enough:
            taken *= 4
        return ordered[:taken]

    def _usable(self, tx: Transaction, ids: list[int], wanted: Wanted) -> set[tuple[str, int]]:
        """What of it may be returned, each thing once however many pieces it has."""
        items = _fetch(tx, self._workspace, ids).values()
        fitting = {(item.kind, item.ref) for item in items if wanted.fits(item)}
        memories = [ref for kind, ref in sorted(fitting) if kind == "memory"]
        now = tx.now() if memories else ""
        current: set[int] = set()
        for some in padded(memories):
            current.update(row[0] for row in tx.all(_CURRENT, workspace=self._workspace, now=now, **some))
        return {
            (kind, ref)
            for kind, ref in fitting
            if (not wanted.tags if kind == "exchange" else ref in current and self._tagged(tx, ref, wanted.tags))
        }

    def _hits(
        self,
        tx: Transaction,
        ranked: list[Scored],
        wanted: Wanted,
        query: str,
        k: int,
        neighbours: int,
        prefer_project: str | None,
    ) -> list[Hit]:
        now = tx.now()
        hits: list[Hit] = []
        seen: set[tuple[str, int]] = set()
        # Somewhat more than asked for, because gentle preferences may still exchange neighbours in the order.
        for scored in ranked:
            key = (scored.item.kind, scored.item.ref)
            if key in seen or len(hits) >= k + 10:
                continue
            seen.add(key)
            hit = self._hit(tx, scored, wanted, now, neighbours, prefer_project)
            if hit is not None:
                hits.append(hit)
        hits.sort(key=lambda hit: -hit.score)
        return hits[:k]

    def _hit(
        self,
        tx: Transaction,
        scored: Scored,
        wanted: Wanted,
        now: str,
        neighbours: int,
        prefer_project: str | None,
    ) -> Hit | None:
        item = scored.item
        preference = 1.0
        if item.kind == "memory":
            row = tx.one(_MEMORY, workspace=self._workspace, id=item.ref)
            if row is None or (row[3] is not None and row[3] <= now) or not self._tagged(tx, item.ref, wanted.tags):
                return None
            preference += _IMPORTANCE * (row[2] - 0.5)
        else:
            row = tx.one(_EXCHANGE, workspace=self._workspace, id=item.ref)
            if row is None or wanted.tags:
                return None
        if prefer_project is not None and item.project == prefer_project:
            preference += _SAME_PROJECT
        score = scored.score * preference
        return Hit(
            text=_piece(row[0], item.piece),
            score=round(score / (1 + score), 6),
            why={
                "words": round(scored.words, 4),
                "meaning": round(scored.meaning, 4),
                "preference": round(preference, 4),
                "matched": list(scored.matched),
            },
            exchange_id=item.ref if item.kind == "exchange" else None,
            memory_id=item.ref if item.kind == "memory" else None,
            label=item.label,
            session_id=item.session_id,
            project=item.project,
            created_at=item.at,
            age=between(item.at, now),
            trust=row[1],
            neighbours=self._neighbours(tx, item, neighbours),
        )

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


def _names(given: Sequence[str], what: str) -> list[str]:
    if isinstance(given, str):
        raise InvalidInput(f"{what}s is the text {given!r}; give a list of {what}s.")
    return [checks.name(name, what) for name in given]


def _roles(given: Sequence[str]) -> list[str]:
    unknown = set(_names(given, "role")) - set(ROLES)
    if unknown:
        raise InvalidInput(f"role is {min(unknown)!r}; it must be one of {', '.join(ROLES)}.")
    return list(given)


def _shelves(
    what: Sequence[str], kinds: Sequence[str] | None, roles: Sequence[str] | None, include_archived: bool
) -> tuple[str, ...]:
    """Where to look: turns and memories, and what is named beyond them."""
    unknown = set(what) - {"exchanges", "memories"}
    if unknown or isinstance(what, str):
        raise InvalidInput(f"what is {what!r}; it must name exchanges, memories or both.")
    shelves: list[str] = []
    if "exchanges" in what:
        shelves += ["turns"] if roles is None or set(roles) - {"log"} else []
        shelves += ["logs"] if roles is not None and "log" in roles else []
    if "memories" in what:
        shelves += ["memories"] if kinds is None or set(kinds) - SHELVES.keys() else []
        shelves += sorted(SHELVES[kind] for kind in set(kinds or ()) & SHELVES.keys())
        shelves += ["archive"] if include_archived else []
    return tuple(shelves)


def _distinct(query: str) -> list[str]:
    return list(dict.fromkeys(words.terms(query)))


def _weigh(tx: Transaction, workspace: str, shelves: Sequence[str], terms: list[str]) -> Query:
    """What each word of the query is worth, by how many items have it."""
    items, length = 0, 0
    numbers: dict[int, str] = {}
    by_shelf: list[dict[int, str]] = []
    for shelf in shelves:
        row = tx.one(_SHELF, workspace=workspace, shelf=shelf)
        items, length = (items + row[0], length + row[1]) if row else (items, length)
        by_shelf.append({number: term for term, number in find(tx, workspace, shelf, terms).items()})
        numbers.update(by_shelf[-1])
    found = dict.fromkeys(terms, 0)
    for some in padded(list(numbers)):
        for number, count in tx.all(_COUNTS, **some):
            found[numbers[number]] += count
    weights = {term: log(1 + (items - count + 0.5) / (count + 0.5)) for term, count in found.items()}
    if len(terms) > _MOST_TERMS:
        kept = set(sorted((term for term in terms if found[term]), key=lambda term: found[term])[:_MOST_TERMS])
        numbers = {number: term for number, term in numbers.items() if term in kept}
        by_shelf = [{number: term for number, term in shelf.items() if term in kept} for shelf in by_shelf]
        weights = {term: weights[term] for term in terms if term in kept}
    return Query(terms, items, length / items if items else 1.0, found, weights, numbers, by_shelf)


def _best_by_words(tx: Transaction, asked: Query, wanted: Wanted, limit: int) -> list[int]:
    """Two shelves at a time, whose words fit the statement's places; an item's words are all on its own shelf."""
    best: list[Row] = []
    for first in range(0, len(asked.shelves), 2):
        known = [word for shelf in asked.shelves[first : first + 2] for word in shelf.items()]
        if known:
            best += _best_of(tx, asked, wanted, known, limit)
    best.sort(key=lambda row: (-row[1], row[0]))
    return [row[0] for row in best[:limit]]


def _best_of(tx: Transaction, asked: Query, wanted: Wanted, known: list[tuple[int, str]], limit: int) -> list[Row]:
    places = weighted([(number, asked.weights.get(term, 0.0)) for number, term in known][:PAIRS_SIZE])
    if not wanted.filtered:
        return tx.all(_BEST, average=asked.average, limit=limit, **places)
    return tx.all(
        _BEST_FILTERED,
        average=asked.average,
        limit=limit,
        session=wanted.session_id,
        exclude=wanted.exclude_session,
        project=wanted.project,
        since=wanted.since,
        until=wanted.until,
        **places,
    )


def _fetch(tx: Transaction, workspace: str, ids: list[int]) -> dict[int, Item]:
    items: dict[int, Item] = {}
    for some in padded(list(dict.fromkeys(ids))):
        items.update({row[0]: Item(*row) for row in tx.all(_ITEMS, workspace=workspace, **some)})
    return items


def _with_neighbours(tx: Transaction, workspace: str, items: dict[int, Item], by_words: set[int]) -> dict[int, Item]:
    """The items, and the turns around those that were found by words."""
    spans: dict[str, list[tuple[int, int]]] = {}
    for item in items.values():
        if item.id in by_words and item.turn is not None and item.session_id is not None:
            spans.setdefault(item.session_id, []).append((item.turn - REACH, item.turn + REACH))
    around = dict(items)
    for session, ranges in spans.items():
        for first, last in _joined(sorted(ranges)):
            rows: list[Row] = tx.all(_AROUND, workspace=workspace, session=session, first=first, last=last)
            around.update({row[0]: Item(*row) for row in rows})
    return around


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges that touch, as one."""
    joined: list[tuple[int, int]] = []
    for first, last in ranges:
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return joined


def _occurrences(tx: Transaction, asked: Query, items: list[int]) -> dict[int, dict[str, float]]:
    """For each item, what each query word is worth in it."""
    found: dict[int, dict[str, float]] = {}
    for number, term in asked.numbers.items():
        for some in padded(items):
            for item, _, tf, length in tx.all(_POSTINGS, term=number, **some):
                norm = K1 * (1 - B + B * length / asked.average)
                found.setdefault(item, {})[term] = asked.weights[term] * tf * (K1 + 1) / (tf + norm)
    return found


def _meaning(
    tx: Transaction, workspace: str, asked: Query, wanted: Wanted, query: str, embedder: Embedder
) -> dict[int, float]:
    """Standard deviations above the mean, for what is closest in meaning."""
    from .vectors import closest

    vector = _query_vector(embedder, asked, query)
    # With filters the closest may all be of the wrong kind, so more of them are looked at.
    most = CANDIDATES * (20 if wanted.filtered or wanted.kinds or wanted.roles or wanted.tags else 4)
    return closest(tx, workspace, embedder.name, vector, wanted.shelves, asked.items, most)


def _query_vector(embedder: Embedder, asked: Query, query: str) -> npt.NDArray[np.float32]:
    """The query's meaning, its words weighted by how rare they are: a name that is everywhere says little."""
    from ..embedding import WeightedEmbedder

    if isinstance(embedder, WeightedEmbedder) and asked.items:
        # Each word once, and of a pasted text the first ones: more would not change where it points.
        texts = list(dict.fromkeys(words.tokens(query)))[:_MOST_TOKENS]
        weights = [max((_rarity(asked, term) for term in words.terms(text)), default=0.0) for text in texts]
        if any(weights):
            return embedder.weighted(texts, weights)
    plain: npt.NDArray[np.float32] = embedder.embed([query])[0]
    return plain


def _rarity(asked: Query, term: str) -> float:
    return _COMMON / (_COMMON + asked.found.get(term, 0) / max(asked.items, 1))


def _usable(tx: Transaction, workspace: str, model: str) -> bool:
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
    from .index import parts

    for place, (_, part) in enumerate(parts(content)):
        if place == number:
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
