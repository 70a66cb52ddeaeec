"""Forgetting: what is named goes, with everything that was made of it alone, and only a receipt says that it was there.

Provenance decides what else goes. A thing all of whose sources go, goes too. A thing that has other sources loses those
that went, is marked for rebuilding, and loses at once whatever of its text may have come from them: a gist, an era or a
digest is blanked, because dreaming makes it anew; of another memory and of a block only the sentences and lines that
can be traced to what went. Versions of a thing inherit the sources of the versions before them, so all since the first
one with a forgotten source are treated alike; a version that lost text names the receipt. What Engram itself repeats
elsewhere goes as well: a session's summary or outcome that quotes a turn, a log entry that quotes another session's.

All of it is one transaction; a dry run is the same one, rolled back. Afterwards the engine scrubs what its files still
hold of deleted rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .. import checks, json_columns, mutexes
from ..errors import BlockNotFound, ExchangeNotFound, InvalidInput, MemoryNotFound, SessionNotFound
from ..memory import embedding_queue, gists, provenance, word_index
from ..memory.memories import Memories
from ..records import Receipt
from ..redact import redact
from . import break_log, coordination, dreaming, preview, summaries
from .cleaning import REWRITE_BLOCK_VERSION, Cleaning

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..memory.provenance import Thing
    from ..storage.engine import Row, Transaction
    from ..store_view import StoreView

#: Every text column that can hold what somebody said, and which way of forgetting takes it. A test compares this with
#: the schema of both engines, so that a new column cannot be overlooked.
TEXTS = {
    **coordination.TEXTS,
    **dreaming.TEXTS,
    "exchanges": {"content": "exchange"},
    "memories": {"content": "memory", "key": "memory", "data": "memory", "hash": "memory"},
    "memory_versions": {"content": "memory", "reason": "memory"},
    "memory_tags": {"tag": "memory"},
    "memory_links": {"relation": "memory"},
    "terms": {"term": "exchange, memory"},
    "blocks": {"content": "block"},
    "block_versions": {"content": "block", "reason": "block"},
}
#: The same columns: whether Engram itself copies other texts into them, and how forgetting an original finds its copy.
#: `none`: they hold only what their writer said. `itself`: they repeat the row they belong to. `sources`: rows in that
#: table. `merged`: by comparing the labels of a merged memory with those of its sources. `quoted`: the session's row.
COPIES = {
    **coordination.COPIES,
    **dreaming.COPIES,
    "exchanges": {"content": "sources"},
    "memories": {"content": "sources", "key": "merged", "data": "merged", "hash": "itself"},
    "memory_versions": {"content": "sources", "reason": "none"},
    "memory_tags": {"tag": "merged"},
    "memory_links": {"relation": "none"},
    "terms": {"term": "itself"},
    "blocks": {"content": "sources"},
    "block_versions": {"content": "sources", "reason": "none"},
}

_LOCK_SESSION = "UPDATE sessions SET last_seq = last_seq WHERE workspace = :workspace AND id = :session"
_EXCHANGE = "SELECT session_id FROM exchanges WHERE workspace = :workspace AND id = :id"
_MEMORY = "SELECT 1 FROM memories WHERE workspace = :workspace AND id = :id"
_BLOCK = "SELECT id FROM blocks WHERE workspace = :workspace AND name = :name"
_BLOCK_BY_ID = "SELECT name FROM blocks WHERE workspace = :workspace AND id = :id"
_SESSION = "SELECT id FROM sessions WHERE workspace = :workspace AND id = :id"
_SESSIONS_OF_TYPE = "SELECT id FROM sessions WHERE workspace = :workspace AND type = :type ORDER BY id"
# Turns and logs have an index each, so they are asked for one by one.
_EXCHANGES_OF = """
SELECT id FROM exchanges WHERE workspace = :workspace AND session_id = :session AND role <> 'log'
UNION ALL SELECT id FROM exchanges WHERE workspace = :workspace AND session_id = :session AND role = 'log'
"""
_MEMORIES_OF = "SELECT id FROM memories WHERE workspace = :workspace AND session_id = :session ORDER BY id"
_CHILDREN = "SELECT id FROM sessions WHERE workspace = :workspace AND parent_id = :session"
_SESSIONS_BEFORE = """
SELECT session_id FROM exchanges WHERE workspace = :workspace AND created_at < :before
UNION SELECT session_id FROM leases WHERE workspace = :workspace AND ended_at < :before
"""
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
WHERE b.workspace = :workspace AND v.created_at < :before AND v.version < b.version
  AND (v.content <> '' OR v.reason <> '')
ORDER BY v.block_id, v.version
"""

_DERIVED = """
SELECT derived_kind, derived_id, derived_version FROM sources
WHERE workspace = :workspace AND source_kind = :kind AND source_id IN (SELECT value FROM json_each(:ids))
"""
_DROP_SOURCES = """
DELETE FROM sources
WHERE workspace = :workspace AND source_kind = :kind AND source_id IN (SELECT value FROM json_each(:ids))
"""
_DROP_DERIVED = """
DELETE FROM sources
WHERE workspace = :workspace AND derived_kind = :kind AND derived_id IN (SELECT value FROM json_each(:ids))
"""
_DELETE_EXCHANGES = """
DELETE FROM exchanges WHERE workspace = :workspace AND id IN (SELECT value FROM json_each(:ids))
"""
_TURNS_OF = """
SELECT DISTINCT session_id FROM exchanges
WHERE workspace = :workspace AND turn IS NOT NULL AND id IN (SELECT value FROM json_each(:ids))
"""
_COUNT_TURNS = "SELECT COUNT(*) FROM exchanges WHERE workspace = :workspace AND session_id = :session AND role <> 'log'"
_TURNS_GONE = "UPDATE sessions SET turns_gone = turns - :left WHERE workspace = :workspace AND id = :session"
_DELETE_VERSIONS = "DELETE FROM memory_versions WHERE memory_id = :id"
_DELETE_TAGS = "DELETE FROM memory_tags WHERE memory_id = :id AND CAST(workspace AS TEXT) = :workspace"
_DELETE_LINKS = "DELETE FROM memory_links WHERE workspace = :workspace AND (from_id = :id OR to_id = :id)"
_NOT_SUPERSEDED = "UPDATE memories SET superseded_by = NULL WHERE workspace = :workspace AND superseded_by = :id"
_DELETE_MEMORY = "DELETE FROM memories WHERE workspace = :workspace AND id = :id"
_DETACH = "UPDATE memories SET session_id = NULL WHERE workspace = :workspace AND session_id = :session"
_DETACH_ITEMS = """
UPDATE items SET session_id = NULL WHERE workspace = :workspace AND kind = 'memory' AND session_id = :session
"""
_DELETE_BLOCK = "DELETE FROM blocks WHERE workspace = :workspace AND id = :id"

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


class _DryRun(Exception):
    """Undoes everything; the receipt is known by then."""


class Asked(NamedTuple):
    """What is to be forgotten: one way of naming it, and its value."""

    by: str
    value: str | int

    def __str__(self) -> str:
        # What an earlier release stored under a name with a secret must not live on in the receipt.
        return redact(f"{self.by} {self.value}")


class _Gone:
    """What goes, and what loses a source, as it is found out."""

    def __init__(self) -> None:
        self.things: set[Thing] = set()
        self.sessions: list[str] = []
        self.messages: list[int] = []
        #: What stays, without what came from what goes.
        self.touched: list[Thing] = []
        #: Sessions whose summary or outcome repeats something that goes.
        self.copies = summaries.Copies([], [])
        #: Log entries that stay, without what they said of a session that goes.
        self.entries: list[int] = []
        #: Block versions blanked for their age.
        self.versions = 0

    def of(self, kind: str) -> list[int]:
        return sorted(id for what, id in self.things if what == kind)


class Forget:
    def __init__(self, view: StoreView) -> None:
        self._engine = view.engine
        self._workspace = view.workspace
        self._memories = Memories(view)

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
            with self._engine.read() as tx:
                shown = preview.lines(tx, self._workspace, made[0].ids)
            return made[0]._replace(id=None, preview=shown)
        return made[0]

    def receipts(self, limit: int = 20) -> list[Receipt]:
        """What was forgotten, the latest first; limit 0: all."""
        checks.whole(limit, "limit", least=0)
        with self._engine.read() as tx:
            rows = tx.all(_RECEIPTS, workspace=self._workspace, limit=limit or checks.MAX_WHOLE)
        return [_receipt(row, self._engine.backups(before=row[3])) for row in rows]

    def _forget(self, tx: Transaction, asked: Asked) -> Receipt:
        # Everybody takes these in this order: leases, sessions, memories, the backlog, blocks.
        tx.lock(mutexes.leases(self._workspace))
        held = self._hold_sessions(tx, asked)
        tx.lock(mutexes.memories(self._workspace))
        tx.lock(mutexes.backlog(self._workspace))
        gone = self._named(tx, asked, held)
        breaks = break_log.Forgotten(tx, self._workspace, gone.of("exchange"))
        gone.things.update(("exchange", id) for id in breaks.retold())
        cleaning = self._follow(tx, gone)
        now = tx.now()
        receipt: int = tx.all(_ADD_RECEIPT, workspace=self._workspace, asked=str(asked), now=now)[0][0]
        cleaning.write(self._memories, receipt, now)
        gone.touched = cleaning.touched
        for kind, ref in gone.touched:
            tx.run(_REBUILD, workspace=self._workspace, kind=kind, ref=ref, receipt=receipt)
        older = str(asked.value) if asked.by == "before" else None
        gone.copies = summaries.find_copies(tx, self._workspace, gone.of("exchange"), set(gone.sessions), older)
        gone.entries = breaks.rewrite(set(gone.of("exchange")))
        aged: list[Thing] = []
        if older is not None:
            gone.messages = coordination.delete_before(tx, self._workspace, older)
            aged = self._blank_old_versions(tx, older, receipt)
            gone.versions = len(aged)
        dreaming.erase_snapshots(tx, self._workspace, gone.things, [*gone.touched, *aged], gone.sessions, older)
        self._erase(tx, gone)
        summaries.replace_copies(tx, self._workspace, gone.copies)
        dreaming.delete_agent_work(tx, self._workspace)
        dreaming.delete_proposals(tx, self._workspace, {*gone.things, *gone.touched, *aged})
        went = _went(gone)
        tx.run(_FILL_RECEIPT, workspace=self._workspace, id=receipt, went=went)
        tx.note(self._workspace, "receipt", receipt)
        return _receipt((receipt, str(asked), went, now), self._engine.backups(before=now))

    def _hold_sessions(self, tx: Transaction, asked: Asked) -> set[str]:
        """The sessions that lose something. Whoever adds to one waits, and afterwards finds what is left of it."""
        ending = [row[0] for row in self._sessions(tx, asked)]
        held = set(ending)
        for session in ending:
            held.update(row[0] for row in tx.all(_CHILDREN, workspace=self._workspace, session=session))
        if asked.by == "exchange":
            held.update(row[0] for row in tx.all(_EXCHANGE, workspace=self._workspace, id=asked.value))
        elif asked.by == "before":
            held.update(row[0] for row in tx.all(_SESSIONS_BEFORE, workspace=self._workspace, before=asked.value))
        # In order of name, as everybody does it.
        for session in sorted(held):
            tx.run(_LOCK_SESSION, workspace=self._workspace, session=session)
        return held

    def _sessions(self, tx: Transaction, asked: Asked) -> list[Row]:
        """The sessions that go as a whole."""
        if asked.by == "session":
            return tx.all(_SESSION, workspace=self._workspace, id=asked.value)
        if asked.by == "source":
            return tx.all(_SESSIONS_OF_TYPE, workspace=self._workspace, type=asked.value)
        if asked.by == "before":
            return tx.all(_OVER_BEFORE, workspace=self._workspace, before=asked.value)
        return []

    def _named(self, tx: Transaction, asked: Asked, held: set[str]) -> _Gone:
        """What was asked for itself, read only now that nobody can add to it."""
        gone = _Gone()
        by, value = asked
        if by == "exchange":
            self._require(tx.one(_EXCHANGE, workspace=self._workspace, id=value), asked, ExchangeNotFound)
            gone.things.add((by, int(value)))
        elif by == "memory":
            self._require(tx.one(_MEMORY, workspace=self._workspace, id=value), asked, MemoryNotFound)
            gone.things.add((by, int(value)))
        elif by == "block":
            tx.lock(mutexes.block(self._workspace, str(value)))
            row = self._require(tx.one(_BLOCK, workspace=self._workspace, name=value), asked, BlockNotFound)
            gone.things.add((by, row[0]))
        else:
            # One that appeared meanwhile is not held.
            gone.sessions = [id for (id,) in self._sessions(tx, asked) if id in held]
            if by == "before":
                self._add_older(tx, gone, str(value), held)
            else:
                self._require((gone.sessions,) if gone.sessions else None, asked, SessionNotFound)
                self._add_said(tx, gone)
        return gone

    def _add_said(self, tx: Transaction, gone: _Gone) -> None:
        """What was said in the sessions; and what was remembered there, which has its session as a source."""
        for session in gone.sessions:
            of_it = {"workspace": self._workspace, "session": session}
            gone.things.update(("exchange", row[0]) for row in tx.all(_EXCHANGES_OF, **of_it))
        for session in gone.sessions:
            for (id,) in tx.all(_MEMORIES_OF, workspace=self._workspace, session=session):
                if provenance.of(tx, self._workspace, "memory", id) <= gone.things:
                    gone.things.add(("memory", id))

    def _add_older(self, tx: Transaction, gone: _Gone, time: str, held: set[str]) -> None:
        exchanges = tx.all(_EXCHANGES_BEFORE, workspace=self._workspace, before=time)
        gone.things.update(("exchange", id) for id, session in exchanges if session in held)
        memories = tx.all(_MEMORIES_BEFORE, workspace=self._workspace, before=time)
        gone.things.update(("memory", row[0]) for row in memories)

    def _follow(self, tx: Transaction, gone: _Gone) -> Cleaning:
        """Find out what else goes, and clean what is made of it and stays; nothing is written yet."""
        while True:
            touched = self._touched(tx, gone.things)
            alone = self._alone(tx, touched, gone.things)
            gone.things |= alone
            rest = {thing: first for thing, first in touched.items() if thing not in alone}
            cleaning = Cleaning(tx, self._workspace, gone.things, rest)
            # Of what lost all its text nothing is left to be kept; then what was made of that alone goes as well.
            if not cleaning.emptied:
                return cleaning
            gone.things |= cleaning.emptied

    def _touched(self, tx: Transaction, gone: set[Thing]) -> dict[Thing, int]:
        """All that was made of what goes, however far down, with the first version that may hold some of it."""
        touched: dict[Thing, int] = {}
        new = self._made_of(tx, gone)
        while new:
            lower = {
                thing: first
                for thing, first in new.items()
                if thing not in gone and touched.get(thing, first + 1) > first
            }
            touched |= lower
            new = self._made_of(tx, lower)
        return touched

    def _alone(self, tx: Transaction, touched: Iterable[Thing], gone: set[Thing]) -> set[Thing]:
        """Memories that have no source outside of what goes; two may have each other. And what repeats a log entry."""
        retold = {thing for thing in touched if thing[0] == "exchange"}
        # A block stays when its last source goes: it has a name that others know, and is only emptied.
        made_of = {thing: provenance.of(tx, self._workspace, *thing) for thing in touched if thing[0] == "memory"}
        alone = set(made_of)
        while others := {thing for thing in alone if not made_of[thing] <= gone | alone | retold}:
            alone -= others
        return alone | retold

    def _made_of(self, tx: Transaction, things: Iterable[Thing]) -> dict[Thing, int]:
        """What has one of these as a source, with its first version that has."""
        made: dict[Thing, int] = {}
        for kind, ids in _by_kind(things).items():
            for what, id, version in sorted(tx.all(_DERIVED, workspace=self._workspace, kind=kind, ids=tx.array(ids))):
                made[what, id] = min(version, made.get((what, id), version))
        return made

    def _blank_old_versions(self, tx: Transaction, time: str, receipt: int) -> list[Thing]:
        """The block of each version that was blanked."""
        rows = tx.all(_OLD_VERSIONS, workspace=self._workspace, before=time)
        for id, version in rows:
            tx.run(REWRITE_BLOCK_VERSION, id=id, version=version, content="", reason="", receipt=receipt)
        return [("block", id) for id, _ in rows]

    def _erase(self, tx: Transaction, gone: _Gone) -> None:
        self._erase_exchanges(tx, gone.of("exchange"), set(gone.sessions))
        gists.erase(tx, self._workspace, gone.of("memory"))
        for id in gone.of("memory"):
            self._erase_memory(tx, id)
        for id in gone.of("block"):
            tx.note(self._workspace, "block", tx.all(_BLOCK_BY_ID, workspace=self._workspace, id=id)[0][0])
            tx.run(_NO_REBUILD, workspace=self._workspace, kind="block", ref=id)
            tx.run(_DELETE_BLOCK, workspace=self._workspace, id=id)
        for kind, ids in _by_kind(gone.things).items():
            all_of_them = {"workspace": self._workspace, "kind": kind, "ids": tx.array(ids)}
            tx.run(_DROP_SOURCES, **all_of_them)
            tx.run(_DROP_DERIVED, **all_of_them)
        for session in gone.sessions:
            tx.run(_DETACH, workspace=self._workspace, session=session)
            tx.run(_DETACH_ITEMS, workspace=self._workspace, session=session)
        gone.messages += coordination.delete_sessions(tx, self._workspace, gone.sessions)

    def _erase_exchanges(self, tx: Transaction, ids: list[int], ending: set[str]) -> None:
        word_index.remove(tx, self._workspace, "exchange", ids)
        shortened = {row[0] for row in tx.all(_TURNS_OF, workspace=self._workspace, ids=tx.array(ids))}
        tx.run(_DELETE_EXCHANGES, workspace=self._workspace, ids=tx.array(ids))
        for id in ids:
            embedding_queue.withdraw(tx, self._workspace, "exchange", id)
            tx.note(self._workspace, "exchange", id)
        for session in sorted(shortened - ending):
            left = tx.all(_COUNT_TURNS, workspace=self._workspace, session=session)[0][0]
            tx.run(_TURNS_GONE, workspace=self._workspace, session=session, left=left)

    def _erase_memory(self, tx: Transaction, id: int) -> None:
        embedding_queue.withdraw(tx, self._workspace, "memory", id)
        word_index.remove(tx, self._workspace, "memory", [id])
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
    ids: dict[str, object] = {
        "exchanges": gone.of("exchange"),
        "memories": gone.of("memory"),
        "blocks": gone.of("block"),
        "sessions": gone.sessions,
        "messages": gone.messages,
        "memories to rebuild": sorted(id for kind, id in gone.touched if kind == "memory"),
        "blocks to rebuild": sorted(id for kind, id in gone.touched if kind == "block"),
        "summaries": gone.copies.summaries,
        "outcomes": gone.copies.outcomes,
        "log entries shortened": gone.entries,
    }
    return json_columns.dump(
        {"ids": {name: found for name, found in ids.items() if found}, "versions": gone.versions}, "receipt"
    )


def _receipt(row: Row, backups: tuple[str, ...]) -> Receipt:
    id, what, went, created_at = row
    loaded: dict[str, Any] = json_columns.load_object(went, "receipts.went")
    ids, versions = loaded.get("ids", {}), loaded.get("versions", 0)
    counts = {name: len(found) for name, found in ids.items()}
    if versions:
        counts["block versions"] = versions
    return Receipt(id=id, asked=what, counts=counts, ids=ids, backups=backups, created_at=created_at)
