"""Makes hits of what was ranked: reads the texts, weighs their form, arranges what belongs together, cuts passages."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from .. import json_columns
from ..clock import between, said_at
from ..records import Exchange, Hit
from . import matters, replies, text_forms
from .passages import of_piece
from .scoring import chance, form_factor
from .word_index import parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..storage.engine import Answer, Row, Transaction
    from .provenance import Thing
    from .query_dates import Span
    from .recall_request import Filters
    from .scoring import Item, Query, Scored, Weights

#: Weight of importance; small, like the weights in `scoring.Preferences`.
_IMPORTANCE: Final = 0.1
#: The importance that changes nothing, which exchanges have.
_NEUTRAL: Final = 0.5
#: How much more than a turn a memory counts: it was written to be found, and says one thing in few words. A weak match
#: gains less, because nothing speaks for it.
_MEMORY, _STRONG = 0.5, 2.0
#: What a memory of the highest importance multiplies the strength by; nothing multiplies it by more.
_BEST: Final = (1 + _IMPORTANCE / 2) * (1 + _MEMORY)
#: How much more of the question's words than the strongest piece of a text another piece must have to be shown.
_TELLING_PIECE: Final = 0.1
#: How many things are read beyond those that are asked for, because form and importance change their order.
_MORE: Final = 40
#: How many of the best hits are compared with each other.
ARRANGED: Final = 30
#: Decimal places of a score.
_DIGITS: Final = 4

# The casts keep SQLite from reading the whole workspace through an index.
_EXCHANGES = """
SELECT e.id, e.content, e.trust, s.type, e.author FROM exchanges e
  LEFT JOIN sessions s ON s.workspace = e.workspace AND s.id = e.session_id
WHERE e.id IN (SELECT value FROM json_each(:ids)) AND CAST(e.workspace AS TEXT) = :workspace
"""
_MEMORIES = """
SELECT m.id, m.content, m.trust, s.type, m.author, m.importance, m.data, m.expires_at, m.superseded_by FROM memories m
  LEFT JOIN sessions s ON s.workspace = m.workspace AND s.id = m.session_id
WHERE m.id IN (SELECT value FROM json_each(:ids)) AND CAST(m.workspace AS TEXT) = :workspace
"""
_TURNS_OF = """
SELECT derived_id, source_id FROM sources
WHERE workspace = :workspace AND derived_kind = 'memory' AND CAST(source_kind AS TEXT) = 'exchange'
  AND derived_id IN (SELECT value FROM json_each(:ids))
"""
_NEIGHBOURS = """
SELECT id, session_id, seq, role, content, trust, created_at, external_id, author FROM exchanges
WHERE workspace = :workspace AND session_id = :session AND role <> 'log' AND turn BETWEEN :first AND :last ORDER BY seq
"""


class Wanted(NamedTuple):
    """Which hits are made."""

    k: int
    filters: Filters
    #: Hits with less chance to be about the question are left out.
    min_score: float
    neighbours: int
    spans: tuple[Span, ...]


class _Read(NamedTuple):
    """A ranked item with its text."""

    scored: Scored
    whole: str
    #: The piece that was found, and where it begins.
    start: int
    text: str
    trust: str
    source: str | None
    author: str | None
    form: text_forms.Form
    #: What its form and length multiply the strength by.
    factor: float
    strength: float
    preference: float
    replaced_by: Thing | None
    #: When it was said.
    at: str


def make(
    tx: Transaction, workspace: str, asked: Query, ranked: Sequence[Scored], weights: Weights, wanted: Wanted
) -> list[Hit]:
    """The hits, best first. A thing is returned once, with its best piece."""
    now: str | None = None
    turns: dict[Thing, frozenset[int]] = {}
    best: dict[Thing, Scored] = {}
    pieces: dict[Thing, Item] = {}
    for scored in ranked:
        thing = (scored.item.kind, scored.item.ref)
        strongest = best.setdefault(thing, scored)
        # The piece with the rare word is shown, even if another one is closer in meaning.
        if scored.share > strongest.share + _TELLING_PIECE:
            pieces.setdefault(thing, scored.item)
    things = [scored._replace(item=pieces.get(thing, scored.item)) for thing, scored in best.items()]
    read: list[_Read] = []
    arranged: list[tuple[_Read, matters.Found]] = []
    # Arranging leaves out turns, for which others are read. Form may lower all that was read below what was not. And
    # a question that was asked often must not fill the places of what is compared with it.
    while things and (
        len(arranged) < wanted.k
        or things[0].strength * _BEST > read[wanted.k - 1].strength
        or len(_compared(read)) < ARRANGED
    ):
        some, things = things[: wanted.k + _MORE], things[wanted.k + _MORE :]
        asked_turns = ask_turns(tx, workspace, [scored.item.ref for scored in some if scored.item.kind == "memory"])
        asked_texts = ask_texts(tx, workspace, some)
        now = now or tx.now()
        rows = texts_of(asked_texts)
        turns |= turns_in(asked_turns)
        for scored in some:
            row = rows.get((scored.item.kind, scored.item.ref))
            if row is not None and not _has_expired(row, now):
                read.append(_read(scored, row))
        if len(read) >= wanted.k or not things:
            read.sort(key=lambda each: (-round(each.strength, 9), -round(each.scored.meaning, 6), each.scored.item.id))
            arranged = _arranged(read, turns, weights, wanted, asked)
    rarity = {term: asked.rarity(term) for term in asked.weights}
    hits = [
        _hit(tx, workspace, each, relation, rarity, wanted, now or tx.now())
        for each, relation in arranged[: wanted.k]
        if round(relation.chance, _DIGITS) >= wanted.min_score
    ]
    return sorted(hits, key=lambda hit: -hit.score)


def texts(tx: Transaction, workspace: str, ranked: Sequence[Scored]) -> dict[Thing, Row]:
    """Content, trust, source, author, importance, data, expiry and replacement of the things of these items."""
    return texts_of(ask_texts(tx, workspace, ranked))


def ask_texts(tx: Transaction, workspace: str, ranked: Sequence[Scored]) -> dict[str, Answer]:
    """Ask for what `texts` returns."""
    refs: dict[str, list[int]] = {}
    for scored in ranked:
        refs.setdefault(scored.item.kind, []).append(scored.item.ref)
    asked: dict[str, Answer] = {}
    if "exchange" in refs:
        asked["exchange"] = tx.ask(_EXCHANGES, workspace=workspace, ids=tx.array(refs["exchange"]))
    if "memory" in refs:
        asked["memory"] = tx.ask(_MEMORIES, workspace=workspace, ids=tx.array(refs["memory"]))
    return asked


def texts_of(asked: dict[str, Answer]) -> dict[Thing, Row]:
    """What `texts` returns, of the answers to `ask_texts`."""
    rows: dict[Thing, Row] = {}
    if "exchange" in asked:
        found = asked["exchange"].all()
        rows |= {("exchange", id): (*values, _NEUTRAL, None, None, None) for id, *values in found}
    if "memory" in asked:
        rows |= {("memory", id): tuple(values) for id, *values in asked["memory"].all()}
    return rows


def piece(content: str, number: int) -> tuple[int, str]:
    """The piece of a text that has this number, with its position in the text."""
    return next(islice(parts(content), number, None), (0, content))


def _has_expired(row: Row, now: str) -> bool:
    *_, expires_at, _ = row
    return expires_at is not None and expires_at <= now


def _read(scored: Scored, row: Row) -> _Read:
    content, trust, source, author, importance, data, _, superseded_by = row
    start, text = piece(content, scored.item.piece)
    form = text_forms.form(text, scored.item.label)
    preference = 1.0 + _IMPORTANCE * (importance - _NEUTRAL)
    if scored.item.kind == "memory":
        preference *= 1 + _MEMORY * min(scored.strength / _STRONG, 1.0)
    factor = form_factor(form, len(content))
    strength = scored.strength * preference * factor
    replaced_by = None if superseded_by is None else ("memory", superseded_by)
    at = said_at(json_columns.load(data, "memories.data"), scored.item.at) if data else scored.item.at
    weighed = (form, factor, strength, preference)
    return _Read(scored, content, start, text, trust, source, author, *weighed, replaced_by, at)


def _arranged(
    read: Sequence[_Read], turns: dict[Thing, frozenset[int]], weights: Weights, wanted: Wanted, asked: Query
) -> list[tuple[_Read, matters.Found]]:
    """The hits in the order in which they are shown."""
    by_thing = {(each.scored.item.kind, each.scored.item.ref): each for each in read}
    compared = _compared(read)
    found = [
        matters.found(
            thing,
            each.text,
            len(each.whole),
            each.at,
            each.trust,
            each.form,
            chance(each.strength, weights),
            turns.get(thing, frozenset()),
            each.replaced_by,
        )
        for thing, each in by_thing.items()
    ]
    best = [each for each in found if each.thing in compared]
    best = matters.arrange(best, latest_first=not wanted.spans, asked=asked.weights)
    others = [each for each in found if each.thing not in compared]
    ordered = matters.repeats_last(sorted([*best, *others], key=lambda each: -each.chance))
    return [(by_thing[each.thing], each) for each in ordered]


def _compared(read: Sequence[_Read]) -> set[Thing]:
    """The best things, which are compared with each other; of a question that was asked often, only the best."""
    chosen: set[Thing] = set()
    asked: set[str] = set()
    for each in read:
        if len(chosen) == ARRANGED:
            break
        if each.text not in asked:
            chosen.add((each.scored.item.kind, each.scored.item.ref))
        if each.form.asked >= matters.QUESTION:
            asked.add(each.text)
    return chosen


def turns_of(tx: Transaction, workspace: str, memories: list[int]) -> dict[Thing, frozenset[int]]:
    """The turns that each memory was made from."""
    return turns_in(ask_turns(tx, workspace, memories))


def ask_turns(tx: Transaction, workspace: str, memories: list[int]) -> Answer | None:
    """Ask for what `turns_of` returns."""
    return tx.ask(_TURNS_OF, workspace=workspace, ids=tx.array(memories)) if memories else None


def turns_in(asked: Answer | None) -> dict[Thing, frozenset[int]]:
    """What `turns_of` returns, of the answer to `ask_turns`."""
    made: dict[Thing, frozenset[int]] = {}
    for memory, turn in asked.all() if asked else ():
        made["memory", memory] = made.get(("memory", memory), frozenset()) | {turn}
    return made


def _hit(
    tx: Transaction,
    workspace: str,
    each: _Read,
    relation: matters.Found,
    rarity: dict[str, float],
    wanted: Wanted,
    now: str,
) -> Hit:
    scored, item = each.scored, each.scored.item
    return Hit(
        text=of_piece(each.whole, each.start, each.text, rarity),
        score=round(relation.chance, _DIGITS),
        why={
            "strength": round(each.strength, 4),
            "share": round(scored.share, 4),
            "telling": round(scored.telling, 4),
            "meaning": round(scored.meaning, 4),
            "tokens": round(scored.tokens, 4),
            "preference": round(scored.preference * each.preference, 4),
            "form": round(each.factor, 4),
            "matched": sorted(scored.found),
            "dates": [span.phrase for span in wanted.spans],
        },
        exchange_id=item.ref if item.kind == "exchange" else None,
        memory_id=item.ref if item.kind == "memory" else None,
        label=item.label,
        session_id=item.session_id,
        project=item.project,
        created_at=each.at,
        age=between(each.at, now),
        trust=each.trust,
        source=each.source,
        neighbours=_neighbours(tx, workspace, item, wanted.neighbours),
        whole=each.whole,
        answer=replies.answer(tx, workspace, item, each.text, rarity),
        replaced_by=relation.replaced_by,
        author=each.author,
    )


def _neighbours(tx: Transaction, workspace: str, item: Item, n: int) -> tuple[Exchange, ...]:
    if not n or item.turn is None:
        return ()
    rows = tx.all(_NEIGHBOURS, workspace=workspace, session=item.session_id, first=item.turn - n, last=item.turn + n)
    turns = (Exchange(*row) for row in rows)
    return tuple(turn for turn in turns if turn.id != item.ref)
