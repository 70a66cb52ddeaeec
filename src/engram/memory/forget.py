"""Forgetting: what is named goes, with everything that was made of it alone, and only a receipt says that it was there.

Provenance decides what else goes. A thing all of whose sources go, goes too. A thing that has other sources loses those
that went, is marked for rebuilding, and loses at once whatever of its text may have come from them: a gist, an era or a
digest is blanked, because dreaming makes it anew; of another memory and of a block only the sentences and lines that
can be traced to what went. Versions of a thing inherit the sources of the versions before them, so all since the first
one with a forgotten source are treated alike; a version that lost text names the receipt.

All of it is one transaction; a dry run is the same one, rolled back. Afterwards the engine scrubs what its files still
hold of deleted rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .. import checks
from ..coordination import erase as coordination
from ..errors import BlockNotFound, ExchangeNotFound, InvalidInput, MemoryNotFound, SessionNotFound
from ..records import Receipt
from . import backlog, index, passages
from .memories import SHELVES, Memories, fingerprint
from .places import CHUNK, padded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..scope import Scope
    from ..storage.engine import Row, Transaction

#: Every text column that can hold what somebody said, and which way of forgetting takes it. A test compares this with
#: the schema of both engines, so that a new column cannot be overlooked.
TEXTS = {
    **coordination.TEXTS,
    "exchanges": {"content": "exchange"},
    "memories": {"content": "memory", "key": "memory", "data": "memory", "hash": "memory"},
    "memory_versions": {"content": "memory", "reason": "memory"},
    "memory_tags": {"tag": "memory"},
    "memory_links": {"relation": "memory"},
    "terms": {"term": "exchange, memory"},
    "blocks": {"content": "block", "name": "block"},
    "block_versions": {"content": "block", "reason": "block"},
}

_LOCK_SESSION = "UPDATE sessions SET last_seq = last_seq WHERE workspace = :workspace AND id = :session"
_EXCHANGE = "SELECT session_id FROM exchanges WHERE workspace = :workspace AND id = :id"
_MEMORY = "SELECT kind, content, version FROM memories WHERE workspace = :workspace AND id = :id"
_BLOCK = "SELECT id FROM blocks WHERE workspace = :workspace AND name = :name"
_BLOCK_BY_ID = "SELECT name, version FROM blocks WHERE workspace = :workspace AND id = :id"
_SESSION = "SELECT id FROM sessions WHERE workspace = :workspace AND id = :id"
_SESSIONS_OF_TYPE = "SELECT id FROM sessions WHERE workspace = :workspace AND type = :type ORDER BY id"
# Turns and logs have an index each, so they are asked for one by one.
_EXCHANGES_OF = """
SELECT id FROM exchanges WHERE workspace = :workspace AND session_id = :session AND role <> 'log'
UNION ALL SELECT id FROM exchanges WHERE workspace = :workspace AND session_id = :session AND role = 'log'
"""
_MEMORIES_OF = "SELECT id FROM memories WHERE workspace = :workspace AND session_id = :session ORDER BY id"
_EXCHANGES_BEFORE = """
SELECT id, session_id FROM exchanges WHERE workspace = :workspace AND created_at < :before ORDER BY id
"""
_MEMORIES_BEFORE = "SELECT id FROM memories WHERE workspace = :workspace AND created_at < :before ORDER BY id"
_OVER_BEFORE = """
SELECT id FROM sessions s
WHERE workspace = :workspace AND status <> 'active' AND heartbeat_at < :before
  AND NOT EXISTS (SELECT 1 FROM exchanges e WHERE e.workspace = :workspace AND e.session_id = s.id
                  AND e.role <> 'log' AND e.created_at >= :before)
  AND NOT EXISTS (SELECT 1 FROM exchanges e WHERE e.workspace = :workspace AND e.session_id = s.id
                  AND e.role = 'log' AND e.created_at >= :before)
ORDER BY id
"""
_OLD_VERSIONS = """
SELECT v.block_id, v.version FROM block_versions v JOIN blocks b ON b.id = v.block_id
WHERE b.workspace = :workspace AND v.created_at < :before AND v.version < b.version AND v.content <> ''
ORDER BY v.block_id, v.version
"""

_DERIVED = (
    """
SELECT derived_kind, derived_id, MIN(derived_version) FROM sources
WHERE workspace = :workspace AND source_kind = :kind AND source_id IN ("""
    + CHUNK
    + ") GROUP BY derived_kind, derived_id ORDER BY derived_kind, derived_id"
)
_SOURCES = """
SELECT DISTINCT source_kind, source_id FROM sources
WHERE workspace = :workspace AND derived_kind = :kind AND derived_id = :id ORDER BY source_kind, source_id
"""
_DROP_SOURCES = (
    "DELETE FROM sources WHERE workspace = :workspace AND source_kind = :kind AND source_id IN (" + CHUNK + ")"
)
_DROP_DERIVED = (
    "DELETE FROM sources WHERE workspace = :workspace AND derived_kind = :kind AND derived_id IN (" + CHUNK + ")"
)
_EXCHANGE_TEXT = "SELECT content FROM exchanges WHERE workspace = :workspace AND id = :id"
_MEMORY_TEXTS = """
SELECT v.content FROM memory_versions v JOIN memories m ON m.id = v.memory_id
WHERE m.workspace = :workspace AND m.id = :id
"""
_BLOCK_TEXTS = """
SELECT v.content FROM block_versions v JOIN blocks b ON b.id = v.block_id
WHERE b.workspace = :workspace AND b.id = :id
"""

_DELETE_EXCHANGES = "DELETE FROM exchanges WHERE workspace = :workspace AND id IN (" + CHUNK + ")"
_TURNS_OF = (
    "SELECT session_id, COUNT(*) FROM exchanges WHERE workspace = :workspace AND turn IS NOT NULL AND id IN ("
    + CHUNK
    + ") GROUP BY session_id ORDER BY session_id"
)
_COUNT_TURNS = "SELECT COUNT(*) FROM exchanges WHERE workspace = :workspace AND session_id = :session AND role <> 'log'"
_TURNS_GONE = "UPDATE sessions SET turns_gone = turns - :left WHERE workspace = :workspace AND id = :session"
_DELETE_VERSIONS = "DELETE FROM memory_versions WHERE memory_id = :id"
_DELETE_TAGS = "DELETE FROM memory_tags WHERE workspace = :workspace AND memory_id = :id"
_DELETE_LINKS = "DELETE FROM memory_links WHERE workspace = :workspace AND (from_id = :id OR to_id = :id)"
_NOT_SUPERSEDED = "UPDATE memories SET superseded_by = NULL WHERE workspace = :workspace AND superseded_by = :id"
_DELETE_MEMORY = "DELETE FROM memories WHERE workspace = :workspace AND id = :id"
_DETACH = "UPDATE memories SET session_id = NULL WHERE workspace = :workspace AND session_id = :session"
_DETACH_ITEMS = """
UPDATE items SET session_id = NULL WHERE workspace = :workspace AND kind = 'memory' AND session_id = :session
"""
_DELETE_BLOCK = "DELETE FROM blocks WHERE workspace = :workspace AND id = :id"

_MEMORY_VERSIONS = """
SELECT version, content FROM memory_versions WHERE memory_id = :id AND version >= :first ORDER BY version
"""
_BLOCK_VERSIONS = """
SELECT version, content FROM block_versions WHERE block_id = :id AND version >= :first ORDER BY version
"""
_REWRITE_MEMORY_VERSION = """
UPDATE memory_versions SET content = :content, reason = '', receipt = :receipt
WHERE memory_id = :id AND version = :version
"""
_REWRITE_BLOCK_VERSION = """
UPDATE block_versions SET content = :content, reason = '', receipt = :receipt
WHERE block_id = :id AND version = :version
"""
_REWRITE_MEMORY = """
UPDATE memories SET content = :content, hash = :hash, data = NULL, updated_at = :now
WHERE workspace = :workspace AND id = :id
"""
_REWRITE_BLOCK = """
UPDATE blocks SET content = :content, updated_at = :now WHERE workspace = :workspace AND id = :id
"""
_REBUILD = """
INSERT INTO rebuilds (workspace, kind, ref, receipt) VALUES (:workspace, :kind, :ref, :receipt)
ON CONFLICT (workspace, kind, ref) DO UPDATE SET receipt = :receipt
"""
_NO_REBUILD = "DELETE FROM rebuilds WHERE workspace = :workspace AND kind = :kind AND ref = :ref"

_ADD_RECEIPT = """
INSERT INTO receipts (workspace, asked, went, created_at) VALUES (:workspace, :asked, '{}', :now) RETURNING id
"""
_FILL_RECEIPT = "UPDATE receipts SET went = :went WHERE workspace = :workspace AND id = :id"
_RECEIPTS = """
SELECT id, asked, went, created_at FROM receipts WHERE workspace = :workspace ORDER BY id DESC LIMIT :limit
"""

#: A kind and a number: `("exchange", 12)`, `("memory", 7)`, `("block", 3)`.
Thing = tuple[str, int]


class _DryRun(Exception):
    """Undoes everything; the receipt is known by then."""


class Asked(NamedTuple):
    """What is to be forgotten: one way of naming it, and its value."""

    by: str
    value: str | int

    def __str__(self) -> str:
        return f"{self.by} {self.value}"


class _Gone:
    """What goes, and what loses a source, as it is found out."""

    def __init__(self) -> None:
        self.things: set[Thing] = set()
        self.sessions: list[str] = []
        self.messages: list[int] = []
        #: Where text was lost though the thing stays, with the first version that may hold some of it.
        self.touched: dict[Thing, int] = {}
        #: Block versions blanked for their age.
        self.versions = 0

    def of(self, kind: str) -> list[int]:
        return sorted(id for what, id in self.things if what == kind)


class Forget:
    def __init__(self, scope: Scope) -> None:
        self._engine = scope.engine
        self._workspace = scope.workspace
        self._memories = Memories(scope)

    def forget(self, asked: Asked, *, dry_run: bool = False) -> Receipt:
        """Forget it, or with `dry_run` only find out what would go."""
        made: list[Receipt] = []
        try:
            with self._engine.write() as tx:
                made.append(self._forget(tx, asked))
                if dry_run:
                    raise _DryRun
                tx.afterwards.append(self._engine.scrub)
        except _DryRun:
            return made[0]._replace(id=None)
        return made[0]

    def receipts(self, limit: int = 20) -> list[Receipt]:
        """What was forgotten, the latest first; limit 0: all."""
        checks.whole(limit, "limit", least=0)
        with self._engine.read() as tx:
            rows = tx.all(_RECEIPTS, workspace=self._workspace, limit=limit or checks.MAX_WHOLE)
        return [_receipt(row, self._engine.backups(before=row[3])) for row in rows]

    def _forget(self, tx: Transaction, asked: Asked) -> Receipt:
        # Everybody takes these in this order: leases, sessions, memories, the backlog.
        tx.lock(f"leases/{self._workspace}")
        gone = self._named(tx, asked)
        tx.lock(f"memories/{self._workspace}")
        tx.lock(backlog.lock_name(self._workspace))
        self._follow(tx, gone)
        now = tx.now()
        receipt: int = tx.all(_ADD_RECEIPT, workspace=self._workspace, asked=str(asked), now=now)[0][0]
        self._clean(tx, gone, receipt, now)
        if asked.by == "before":
            gone.messages = coordination.before(tx, self._workspace, str(asked.value))
            gone.versions = self._blank_old_versions(tx, str(asked.value), receipt)
        self._erase(tx, gone)
        went = _went(gone)
        tx.run(_FILL_RECEIPT, workspace=self._workspace, id=receipt, went=went)
        tx.note(self._workspace, "receipt", receipt)
        return _receipt((receipt, str(asked), went, now), self._engine.backups(before=now))

    def _named(self, tx: Transaction, asked: Asked) -> _Gone:
        """What was asked for itself."""
        gone = _Gone()
        by, value = asked
        if by == "exchange":
            (session,) = self._require(tx.one(_EXCHANGE, workspace=self._workspace, id=value), asked, ExchangeNotFound)
            self._lock_sessions(tx, [session])
            gone.things.add((by, int(value)))
        elif by == "memory":
            self._require(tx.one(_MEMORY, workspace=self._workspace, id=value), asked, MemoryNotFound)
            gone.things.add((by, int(value)))
        elif by == "block":
            row = self._require(tx.one(_BLOCK, workspace=self._workspace, name=value), asked, BlockNotFound)
            tx.lock(f"block/{self._workspace}/{value}")
            gone.things.add((by, row[0]))
        elif by == "before":
            self._before(tx, gone, str(value))
        else:
            self._sessions(tx, gone, asked)
        return gone

    def _sessions(self, tx: Transaction, gone: _Gone, asked: Asked) -> None:
        """One session, or all of a type; what was remembered there has it as its source."""
        if asked.by == "session":
            rows = tx.all(_SESSION, workspace=self._workspace, id=asked.value)
        else:
            rows = tx.all(_SESSIONS_OF_TYPE, workspace=self._workspace, type=asked.value)
        self._require(rows[0] if rows else None, asked, SessionNotFound)
        gone.sessions = [row[0] for row in rows]
        self._lock_sessions(tx, gone.sessions)
        for session in gone.sessions:
            of_it = {"workspace": self._workspace, "session": session}
            gone.things.update(("exchange", row[0]) for row in tx.all(_EXCHANGES_OF, **of_it))
        for session in gone.sessions:
            for (id,) in tx.all(_MEMORIES_OF, workspace=self._workspace, session=session):
                if self._sources(tx, ("memory", id)) <= gone.things:
                    gone.things.add(("memory", id))

    def _before(self, tx: Transaction, gone: _Gone, time: str) -> None:
        rows = tx.all(_EXCHANGES_BEFORE, workspace=self._workspace, before=time)
        gone.sessions = [row[0] for row in tx.all(_OVER_BEFORE, workspace=self._workspace, before=time)]
        self._lock_sessions(tx, sorted({*gone.sessions, *(row[1] for row in rows)}))
        gone.things.update(("exchange", row[0]) for row in rows)
        memories = tx.all(_MEMORIES_BEFORE, workspace=self._workspace, before=time)
        gone.things.update(("memory", row[0]) for row in memories)

    def _lock_sessions(self, tx: Transaction, ids: Iterable[str]) -> None:
        # Whoever adds to a session waits here, and afterwards finds what is left of it.
        for session in ids:
            tx.run(_LOCK_SESSION, workspace=self._workspace, session=session)

    def _follow(self, tx: Transaction, gone: _Gone) -> None:
        """What was made of what goes: alone, it goes too; with others, it is touched, and so is what was made of it."""
        new = set(gone.things)
        while new:
            made = self._made_of(tx, new)
            new = {thing for thing in made if self._goes(tx, thing, gone)} - gone.things
            gone.things |= new
        touched = self._made_of(tx, gone.things)
        while touched:
            new_ones = {}
            for thing, first in touched.items():
                if thing not in gone.things and gone.touched.get(thing, first + 1) > first:
                    gone.touched[thing] = new_ones[thing] = first
            touched = self._made_of(tx, new_ones)

    def _goes(self, tx: Transaction, thing: Thing, gone: _Gone) -> bool:
        # A block stays when its last source goes: it has a name that others know, and is only emptied.
        return thing[0] == "memory" and self._sources(tx, thing) <= gone.things

    def _made_of(self, tx: Transaction, things: Iterable[Thing]) -> dict[Thing, int]:
        """What has one of these as a source, with its first version that has."""
        made: dict[Thing, int] = {}
        for kind, ids in _by_kind(things).items():
            for some in padded(ids):
                for what, id, first in tx.all(_DERIVED, workspace=self._workspace, kind=kind, **some):
                    made[what, id] = min(first, made.get((what, id), first))
        return made

    def _sources(self, tx: Transaction, thing: Thing) -> set[Thing]:
        rows = tx.all(_SOURCES, workspace=self._workspace, kind=thing[0], id=thing[1])
        return {(kind, id) for kind, id in rows}

    def _clean(self, tx: Transaction, gone: _Gone, receipt: int, now: str) -> None:
        """Take out of what stays whatever may have come from what goes."""
        for thing, first in sorted(gone.touched.items()):
            sources = self._sources(tx, thing)
            lost = sources & (gone.things | gone.touched.keys())
            if thing[0] == "block":
                self._clean_block(tx, thing[1], first, lost, receipt, now)
            elif not self._clean_memory(tx, thing[1], first, lost, sources - lost, receipt, now):
                gone.things.add(thing)
        for thing in gone.touched.keys() & gone.things:
            del gone.touched[thing]
        for kind, ref in sorted(gone.touched):
            tx.run(_REBUILD, workspace=self._workspace, kind=kind, ref=ref, receipt=receipt)

    def _clean_memory(
        self,
        tx: Transaction,
        id: int,
        first: int,
        lost: set[Thing],
        kept: set[Thing],
        receipt: int,
        now: str,
    ) -> bool:
        """Whether anything is left of it."""
        kind, content, version = tx.all(_MEMORY, workspace=self._workspace, id=id)[0]
        if kind in SHELVES:
            texts = {number: "" for number, _ in tx.all(_MEMORY_VERSIONS, id=id, first=first)}
        else:
            sieve = passages.Sieve(self._texts(tx, lost), self._texts(tx, kept))
            texts = {number: sieve.rest(text) for number, text in tx.all(_MEMORY_VERSIONS, id=id, first=first)}
            if not texts.get(version, content):
                return False
        for number, text in texts.items():
            tx.run(_REWRITE_MEMORY_VERSION, id=id, version=number, content=text, receipt=receipt)
        if version in texts and texts[version] != content:
            rest = texts[version]
            rewritten = {"workspace": self._workspace, "id": id, "content": rest, "now": now}
            tx.run(_REWRITE_MEMORY, hash=fingerprint(rest), **rewritten)
            self._memories.reshelve(tx, id)
            tx.note(self._workspace, "memory", id)
        return True

    def _clean_block(self, tx: Transaction, id: int, first: int, lost: set[Thing], receipt: int, now: str) -> None:
        name, version = tx.all(_BLOCK_BY_ID, workspace=self._workspace, id=id)[0]
        sieve = passages.Sieve(self._texts(tx, lost), [])
        for number, text in tx.all(_BLOCK_VERSIONS, id=id, first=first):
            rest = passages.without(text, {passages.handle(thing) for thing in lost}, sieve)
            if rest == text:
                continue
            tx.run(_REWRITE_BLOCK_VERSION, id=id, version=number, content=rest, receipt=receipt)
            if number == version:
                tx.run(_REWRITE_BLOCK, workspace=self._workspace, id=id, content=rest, now=now)
                tx.note(self._workspace, "block", name)

    def _texts(self, tx: Transaction, things: Iterable[Thing]) -> list[str]:
        texts: list[Row] = []
        for kind, id in sorted(things):
            if kind == "exchange":
                texts += tx.all(_EXCHANGE_TEXT, workspace=self._workspace, id=id)
            elif kind == "memory":
                texts += tx.all(_MEMORY_TEXTS, workspace=self._workspace, id=id)
            else:
                texts += tx.all(_BLOCK_TEXTS, workspace=self._workspace, id=id)
        return [row[0] for row in texts]

    def _blank_old_versions(self, tx: Transaction, time: str, receipt: int) -> int:
        rows = tx.all(_OLD_VERSIONS, workspace=self._workspace, before=time)
        for id, version in rows:
            tx.run(_REWRITE_BLOCK_VERSION, id=id, version=version, content="", receipt=receipt)
        return len(rows)

    def _erase(self, tx: Transaction, gone: _Gone) -> None:
        self._erase_exchanges(tx, gone.of("exchange"), set(gone.sessions))
        for id in gone.of("memory"):
            self._erase_memory(tx, id)
        for id in gone.of("block"):
            tx.note(self._workspace, "block", tx.all(_BLOCK_BY_ID, workspace=self._workspace, id=id)[0][0])
            tx.run(_NO_REBUILD, workspace=self._workspace, kind="block", ref=id)
            tx.run(_DELETE_BLOCK, workspace=self._workspace, id=id)
        for kind, ids in _by_kind(gone.things).items():
            for some in padded(ids):
                tx.run(_DROP_SOURCES, workspace=self._workspace, kind=kind, **some)
                tx.run(_DROP_DERIVED, workspace=self._workspace, kind=kind, **some)
        for session in gone.sessions:
            tx.run(_DETACH, workspace=self._workspace, session=session)
            tx.run(_DETACH_ITEMS, workspace=self._workspace, session=session)
        gone.messages += coordination.sessions(tx, self._workspace, gone.sessions)

    def _erase_exchanges(self, tx: Transaction, ids: list[int], ending: set[str]) -> None:
        shortened: set[str] = set()
        index.remove(tx, self._workspace, "exchange", ids)
        for some in padded(ids):
            shortened.update(row[0] for row in tx.all(_TURNS_OF, workspace=self._workspace, **some))
            tx.run(_DELETE_EXCHANGES, workspace=self._workspace, **some)
        for id in ids:
            backlog.withdraw(tx, self._workspace, "exchange", id)
            tx.note(self._workspace, "exchange", id)
        for session in sorted(shortened - ending):
            left = tx.all(_COUNT_TURNS, workspace=self._workspace, session=session)[0][0]
            tx.run(_TURNS_GONE, workspace=self._workspace, session=session, left=left)

    def _erase_memory(self, tx: Transaction, id: int) -> None:
        backlog.withdraw(tx, self._workspace, "memory", id)
        index.remove(tx, self._workspace, "memory", [id])
        tx.run(_NO_REBUILD, workspace=self._workspace, kind="memory", ref=id)
        tx.run(_DELETE_VERSIONS, id=id)
        tx.run(_DELETE_TAGS, workspace=self._workspace, id=id)
        tx.run(_DELETE_LINKS, workspace=self._workspace, id=id)
        tx.run(_NOT_SUPERSEDED, workspace=self._workspace, id=id)
        tx.run(_DELETE_MEMORY, workspace=self._workspace, id=id)
        tx.note(self._workspace, "memory", id)

    def _require(self, row: Row | None, asked: Asked, missing: type[Exception]) -> Row:
        if row is None:
            what = f"session of type {asked.value!r}" if asked.by == "source" else f"{asked.by} {asked.value!r}"
            raise missing(f"There is no {what} in workspace {self._workspace!r}; nothing was forgotten.")
        return row


def asked(
    *,
    exchange: int | None = None,
    memory: int | None = None,
    session: str | None = None,
    block: str | None = None,
    before: str | None = None,
    source: str | None = None,
) -> Asked:
    """Exactly one of them, checked."""
    given = {
        "exchange": None if exchange is None else checks.whole(exchange, "exchange id", least=1),
        "memory": None if memory is None else checks.whole(memory, "memory id", least=1),
        "session": checks.optional_name(session, "session id"),
        "block": checks.optional_name(block, "block name"),
        "before": None if before is None else checks.moment(before, "before"),
        "source": checks.optional_name(source, "source"),
    }
    chosen = [Asked(by, value) for by, value in given.items() if value is not None]
    if len(chosen) != 1:
        raise InvalidInput(f"Say what to forget: exactly one of {', '.join(given)}; {len(chosen)} were given.")
    return chosen[0]


def _by_kind(things: Iterable[Thing]) -> dict[str, list[int]]:
    kinds: dict[str, list[int]] = {}
    for kind, id in sorted(things):
        kinds.setdefault(kind, []).append(id)
    return kinds


def _went(gone: _Gone) -> str:
    import json

    ids = {
        "exchanges": gone.of("exchange"),
        "memories": gone.of("memory"),
        "blocks": gone.of("block"),
        "sessions": gone.sessions,
        "messages": gone.messages,
        "memories to rebuild": sorted(id for kind, id in gone.touched if kind == "memory"),
        "blocks to rebuild": sorted(id for kind, id in gone.touched if kind == "block"),
    }
    return json.dumps({"ids": {name: found for name, found in ids.items() if found}, "versions": gone.versions})


def _receipt(row: Row, backups: tuple[str, ...]) -> Receipt:
    import json

    id, what, went, created_at = row
    loaded = json.loads(went)
    counts = {name: len(found) for name, found in loaded["ids"].items()}
    if loaded["versions"]:
        counts["block versions"] = loaded["versions"]
    return Receipt(id=id, asked=what, counts=counts, ids=loaded["ids"], backups=backups, created_at=created_at)
