"""Lyra's memory, over Engram: `from engram.compat import lyra` in place of Lyra's own module.

The functions, their arguments and what they return are those of Lyra. Turns are exchanges, summaries are gists, eras
are eras; profile, narrative and self-state are blocks. What a program writes into these blocks is a companion's: a pass
of dreaming proposes a text and never replaces theirs, and it never touches the data of a self-state.

The store is the one that `LYRA_DB_PATH` names, a path or a URL, else the user's own. The variable is read at every
call. A database of Lyra is imported once into a store beside it.

Differences: secrets are not stored, returned times are UTC, and what is deleted is forgotten everywhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..errors import BlockExists, BlockNotFound, ExchangeNotFound, InvalidInput, SessionNotFound
from ..importers import times
from . import lyra_turns
from .lyra_store import close, opened

if TYPE_CHECKING:
    from .. import records
    from ..client import Engram
    from ..records import Hit, Memory

__all__ = [
    "Era",
    "Exchange",
    "Summary",
    "add_exchanges_bulk",
    "backlog_stats",
    "close",
    "delete_session",
    "ensure_session",
    "get_narrative",
    "get_profile",
    "get_self_state",
    "get_summary",
    "history",
    "list_eras",
    "list_sessions",
    "list_summaries",
    "profile_sessions_covered",
    "recall",
    "recall_eras",
    "recall_summaries",
    "recent",
    "remember",
    "set_narrative",
    "set_profile",
    "set_self_state",
    "store_era",
    "store_summary",
    "summaries_by_month",
    "unsummarized_count",
]

#: The author of what a program writes into blocks. Passes write as `dream` and imports as `import`.
_AUTHOR = "lyra"
#: More than any text needs, so that no pass moves a part of a block elsewhere.
_TOKENS = 1_000_000
#: The most results that Engram ranks. Further ones follow by time.
_MOST_RANKED = 1_000
#: Before everything that was ever said.
_EVER = "1000-01-01"
#: Names the model of the embeddings that a program gives.
_MODEL = "LYRA_EMBEDDING_MODEL"
#: The session that imported eras belong to. It is none of Lyra's.
_IMPORTED = "engram:import:lyra"
#: Where the data of a summary of a session without turns keeps its last exchange.
_LAST = "last_exchange_id"


@dataclass
class Exchange:
    """One turn of a session."""

    id: int
    session_id: str
    role: str
    content: str
    created_at: str
    #: How well it fits a query, from 0 to 1; None unless it was recalled.
    score: float | None = None


@dataclass
class Summary:
    """What a session was about, up to an exchange."""

    session_id: str
    content: str
    last_exchange_id: int
    created_at: str
    score: float | None = None


@dataclass
class Era:
    """What a month was about."""

    month: str
    content: str
    session_count: int
    created_at: str
    score: float | None = None


def remember(session_id: str, role: str, content: str) -> int:
    """Store a turn; returns its id. Creates the session if it does not exist."""
    turn = lyra_turns.stored(role, content)
    with opened() as eng:
        try:
            return eng.exchanges.add(session_id, **turn)
        except SessionNotFound:
            eng.sessions.ensure(session_id)
            return eng.exchanges.add(session_id, **turn)


def add_exchanges_bulk(
    session_id: str, exchanges: Iterable[tuple[str, str, bytes | Sequence[float] | None, str | float | datetime | None]]
) -> int:
    """Store many turns, each `(role, content, embedding, created_at)`, all or none; returns how many.

    An embedding is a list of numbers, or their bytes as float32. It is used only if `LYRA_EMBEDDING_MODEL` says which
    model it is from, and that is the model of the store. Otherwise Engram computes its own.
    """
    with opened() as eng:
        model = _given_model(eng)
        turns: list[dict[str, Any]] = []
        for role, content, embedding, created_at in exchanges:
            turn: dict[str, Any] = {"session_id": session_id, **lyra_turns.stored(role, content)}
            if created_at is not None:
                turn["created_at"] = _moment(created_at)
            if model is not None and embedding is not None:
                turn["vector"] = lyra_turns.numbers(embedding)
            turns.append(turn)
        said = [turn["created_at"] for turn in turns if "created_at" in turn]
        eng.sessions.ensure(session_id, at=min(said, default=None))
        return eng.exchanges.add_many(turns, atomic=True, model=model)


def recent(session_id: str, n: int = 10) -> list[Exchange]:
    """The last turns of a session, oldest first."""
    if n < 1:
        return []
    with opened() as eng:
        try:
            return [_exchange(turn) for turn in eng.exchanges.recent(session_id, n)]
        except SessionNotFound:
            return []


def history(session_id: str) -> list[Exchange]:
    """All turns of a session, oldest first."""
    with opened() as eng:
        try:
            return [_exchange(turn) for turn in eng.exchanges.history(session_id)]
        except SessionNotFound:
            return []


def ensure_session(id: str, name: str | None = None) -> None:
    """Create the session if it does not exist. A name that is given becomes its name."""
    with opened() as eng:
        eng.sessions.ensure(id, name)


def list_sessions() -> list[dict[str, str | None]]:
    """Id and name of every session, newest first."""
    with opened() as eng:
        sessions = [session for session in eng.sessions.list() if session.external_id != _IMPORTED]
    return [{"id": session.id, "name": session.name} for session in sessions]


def delete_session(session_id: str) -> None:
    """Forget a session with everything that was made of it alone. Does nothing if there is no such session."""
    with opened() as eng:
        try:
            eng.sessions.delete(session_id)
        except SessionNotFound:
            return


def recall(query: str, k: int = 5, session_id: str | None = None) -> list[Exchange]:
    """The `k` turns that fit the query best, of one session if given; all, if there are fewer."""
    with opened() as eng:
        try:
            found = {} if _unasked(query, k) else _turns(eng, query, min(k, _MOST_RANKED), session_id)
            if len(found) < k:
                # Too few were found by words and meaning, so the latest ones follow.
                for turn in _latest(eng, k, session_id):
                    found.setdefault(turn.id, _exchange(turn, 0.0))
        except SessionNotFound:
            return []
    return list(found.values())[: max(k, 0)]


def recall_summaries(query: str, k: int = 3, exclude_session: str | None = None) -> list[Summary]:
    """The `k` summaries that fit the query best; all, if there are fewer."""
    with opened() as eng:
        kept = [gist for gist in _gists(eng) if gist.key != exclude_session]
        hits = [] if _unasked(query, k) else eng.memories.recall_gists(query, min(k, _MOST_RANKED), exclude_session)
        return [_summary(eng, gist, score) for gist, score in _ranked(kept[::-1], hits, k)]


def recall_eras(query: str, k: int = 2) -> list[Era]:
    """The `k` eras that fit the query best; all, if there are fewer."""
    with opened() as eng:
        hits = [] if _unasked(query, k) else eng.memories.recall_eras(query, min(k, _MOST_RANKED))
        return [_era(era, score) for era, score in _ranked(eng.eras.list()[::-1], hits, k)]


def store_summary(session_id: str, content: str, last_exchange_id: int) -> None:
    """Store what a session was about, up to that exchange. It replaces the session's summary."""
    with opened() as eng:
        eng.sessions.ensure(session_id)
        new = [turn for turn in eng.memories.unsummarised(session_id) if turn.id <= last_exchange_id]
        if new:
            eng.memories.store_gist(session_id, content, new[-1].seq, sources=[turn.id for turn in new])
            return
        turns = eng.exchanges.history(session_id)
        if turns:
            seq = max((turn.seq for turn in turns if turn.id <= last_exchange_id), default=0)
            eng.memories.store_gist(session_id, content, seq)
            return
        data = {_LAST: last_exchange_id}
        gist = eng.remember(content, kind="gist", key=session_id, session_id=session_id, data=data)
        if gist.data != data:  # the same text was stored before
            eng.memories.update(gist.id, data=data)


def get_summary(session_id: str) -> Summary | None:
    with opened() as eng:
        try:
            gist = eng.memories.gist(session_id)
        except SessionNotFound:
            return None
        return _summary(eng, gist) if gist is not None and gist.content else None


def unsummarized_count(session_id: str) -> int:
    """How many turns of the session its summary does not cover."""
    with opened() as eng:
        try:
            return len(eng.memories.unsummarised(session_id))
        except SessionNotFound:
            return 0


def list_summaries() -> list[Summary]:
    """All summaries, oldest first."""
    with opened() as eng:
        return [_summary(eng, gist) for gist in _gists(eng)]


def summaries_by_month() -> dict[str, list[str]]:
    """The texts of all summaries by the month (`2026-03`) in which their session began."""
    with opened() as eng:
        found = eng.memories.gists_by_month()
        known = {gist.memory_id for gists in found.values() for gist in gists}
        # A session without turns began when its summary was stored.
        others = [gist for gist in _gists(eng) if gist.id not in known]
    by_month = {month: [gist.text for gist in gists] for month, gists in found.items() if gists}
    for other in others:
        by_month.setdefault(other.created_at[:7], []).append(other.content)
    return dict(sorted(by_month.items()))


def backlog_stats(ripe_threshold: int = 20) -> dict[str, int]:
    """What waits to be summarised. A session is ripe that has no summary yet, or that many turns since."""
    with opened() as eng:
        backlog = eng.dreams.backlog(max(ripe_threshold, 1))
    return {
        "sessions": backlog.sessions,
        "dirty": backlog.dirty,
        "ripe": backlog.ripe,
        "unsummarized_total": backlog.turns,
        "max_exchange_id": backlog.mark,
    }


def store_era(month: str, content: str, session_count: int) -> None:
    """Store what a month (`2026-03`) was about. It replaces the month's era."""
    with opened() as eng:
        eng.eras.store(month, content, session_count)


def list_eras() -> list[Era]:
    """All eras, by month."""
    with opened() as eng:
        return [_era(era) for era in eng.eras.list()]


def set_profile(content: str, sessions_covered: int, profile_id: str = "self") -> None:
    with opened() as eng:
        _write(eng, _name("profile", profile_id, "self"), content, {"sessions_covered": sessions_covered})


def get_profile(profile_id: str = "self") -> str | None:
    return _text(_name("profile", profile_id, "self"))


def profile_sessions_covered(profile_id: str = "self") -> int:
    """How many sessions the profile covers; 0 if there is none."""
    with opened() as eng:
        block = eng.blocks.get(_name("profile", profile_id, "self"))
    covered = block.data.get("sessions_covered") if block and isinstance(block.data, dict) else None
    return covered if isinstance(covered, int) else 0


def set_narrative(content: str, narrative_id: str = "current") -> None:
    with opened() as eng:
        _write(eng, _name("narrative", narrative_id, "current"), content)


def get_narrative(narrative_id: str = "current") -> str | None:
    return _text(_name("narrative", narrative_id, "current"))


def get_self_state(state_id: str = "lyra") -> dict[str, Any] | None:
    """The state that was set; else what a pass of dreaming reflected; else None."""
    with opened() as eng:
        block = eng.blocks.get(_name("self", state_id, "lyra"))
    if block is None:
        return None
    if isinstance(block.data, dict):
        return block.data
    import json

    try:
        reflected = json.loads(block.content)
    except ValueError:
        return None
    return reflected if isinstance(reflected, dict) else None


def set_self_state(state: Mapping[str, Any], state_id: str = "lyra") -> None:
    """Store any state that JSON can express."""
    if not isinstance(state, Mapping):
        raise InvalidInput(f"state is a {type(state).__name__}; it must be a dict.")
    with opened() as eng:
        _write(eng, _name("self", state_id, "lyra"), None, dict(state))


def _exchange(turn: records.Exchange, score: float | None = None) -> Exchange:
    role, content = lyra_turns.given(turn)
    return Exchange(turn.id, turn.session_id, role, content, _time(turn.created_at), score)


def _summary(eng: Engram, gist: Memory, score: float | None = None) -> Summary:
    session = gist.key or ""
    noted = gist.data.get(_LAST) if isinstance(gist.data, dict) else None
    last = eng.gists.last_turn(session) or (noted if isinstance(noted, int) else 0)
    return Summary(session, gist.content, last, _time(gist.updated_at), score)


def _era(era: Memory, score: float | None = None) -> Era:
    count = era.data.get("sessions") if isinstance(era.data, dict) else None
    sessions = count if isinstance(count, int) else 0
    return Era(era.key or "", era.content, sessions, _time(era.updated_at), score)


def _gists(eng: Engram) -> list[Memory]:
    """The current summaries, oldest first."""
    found = [gist for gist in eng.memories.list(kind="gist") if gist.key is not None and gist.content]
    return sorted(found, key=lambda gist: (gist.updated_at, gist.id))


def _turns(eng: Engram, query: str, k: int, session_id: str | None) -> dict[int, Exchange]:
    """The best turns, by id."""
    found: dict[int, Exchange] = {}
    for hit in eng.recall(query, k, what=("exchanges",), session_id=session_id):
        assert hit.exchange_id is not None
        try:
            found[hit.exchange_id] = _exchange(eng.exchanges.get(hit.exchange_id), hit.score)
        except ExchangeNotFound:  # forgotten meanwhile
            continue
    return found


def _given_model(eng: Engram) -> str | None:
    """The model that given embeddings are from, if it is known and the store has the same."""
    named = os.environ.get(_MODEL)
    return named if named and named in (eng.embedders.model, eng.embedders.next_choice()) else None


def _latest(eng: Engram, k: int, session_id: str | None) -> list[records.Exchange]:
    """The latest turns, newest first."""
    return eng.exchanges.timeline(_EVER, k) if session_id is None else eng.exchanges.recent(session_id, k)[::-1]


def _ranked(memories: Sequence[Memory], hits: Sequence[Hit], k: int) -> list[tuple[Memory, float]]:
    """The first `k` memories with their scores: those that were found, then the others in their order."""
    left = {memory.id: memory for memory in memories}
    found = [(left.pop(hit.memory_id), hit.score) for hit in hits if hit.memory_id in left]
    return [*found, *((memory, 0.0) for memory in left.values())][: max(k, 0)]


def _unasked(query: str, k: int) -> bool:
    """Whether there is nothing to rank by, or nothing to be ranked."""
    return k < 1 or not query.strip()


def _name(block: str, id: str, default: str) -> str:
    """The name of a block. Those with Lyra's own ids are the blocks of the portrait."""
    return block if id == default else f"{block}-{id}"


def _text(block: str) -> str | None:
    with opened() as eng:
        found = eng.blocks.get(block)
    return found.content if found else None


def _write(eng: Engram, name: str, content: str | None, data: dict[str, Any] | None = None) -> None:
    """Write a block, or create it. What is None stays. The same again makes no new version."""
    while True:
        block = eng.blocks.get(name)
        try:
            if block is None:
                eng.blocks.create(name, content or "", _TOKENS, actor=_AUTHOR, data=data)
            elif block.updated_by != _AUTHOR or not _says(block, content, data):
                eng.blocks.update(name, content, actor=_AUTHOR, data=data)
            return
        except (BlockExists, BlockNotFound):  # another thread was faster
            continue


def _says(block: records.Block, content: str | None, data: dict[str, Any] | None) -> bool:
    return content in (None, block.content) and data in (None, block.data)


def _moment(value: str | float | datetime) -> str:
    """A time with its zone. A time without one is this machine's, as in an import."""
    found = times.moment(value.isoformat() if isinstance(value, datetime) else value, None)
    if found is None:
        raise InvalidInput(f"created_at is {value!r}; write a time such as 2026-11-15T18:36:08+00:00.")
    return found


def _time(stamp: str) -> str:
    """A stored time as Python writes it: `2026-11-15T18:36:08.123456+00:00`."""
    return datetime.fromisoformat(stamp).isoformat()
