"""Forgetting: deletes what is named and everything derived only from it. A receipt records which ids went.

Provenance decides what else goes. A thing whose sources all go, goes too. A thing with other sources loses the sources
that go, is marked for rebuilding, and loses any text that may have come from them. A gist, an era or a digest is
blanked, because dreaming writes it again. Other memories and blocks lose only the sentences and lines that can be
traced to what goes. A version inherits the sources of the versions before it, so all versions from the first one with a
forgotten source on are treated the same; a version that loses text names the receipt. Copies that Engram itself makes
go too: a session's summary or outcome that quotes a turn, a log entry that quotes another session's.

All of it is one transaction. A dry run is the same transaction, rolled back. Afterwards the engine removes what its
files still contain of deleted rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .. import checks, json_columns, mutexes
from ..coordination import imports
from ..errors import BlockNotFound, ExchangeNotFound, InvalidInput, MemoryNotFound, SessionNotFound
from ..json_shapes import either, list_of, object_of, record, text, whole
from ..memory import embedding_queue, gists, memory_states, provenance, word_index
from ..memory.memories import Memories
from ..records import Receipt
from ..redact import redact
from . import answers, break_log, coordination, dreaming, preview, summaries
from .cleaning import REWRITE_BLOCK_VERSION, Cleaning

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..memory.provenance import Thing
    from ..storage.engine import Row, Transaction
    from ..store_view import StoreView

#: Every column that can contain a user's text, and which kind of forgetting erases it. A test compares this with the
#: schema of both engines, so that a new column cannot be overlooked.
TEXTS = {
    **answers.TEXTS,
    **coordination.TEXTS,
    **dreaming.TEXTS,
    "exchanges": {"content": "exchange"},
    "memories": {"content": "memory", "key": "memory", "data": "memory", "hash": "memory"},
    "memory_versions": {"content": "memory", "reason": "memory"},
    "memory_tags": {"tag": "memory"},
    "memory_states": {"tags": "memory"},
    "memory_links": {"relation": "memory"},
    "terms": {"term": "exchange, memory"},
    "blocks": {"content": "block", "data": "block"},
    "block_versions": {"content": "block", "reason": "block", "data": "block"},
}
#: The same columns: whether Engram copies other texts into them, and how forgetting an original finds its copy.
#: `none`: only the writer's own text. `itself`: a copy of the row it belongs to. `sources`: through that table.
#: `merged`: by comparing the labels of a merged memory with those of its sources. `quoted`: through the session's row.
COPIES = {
    **answers.COPIES,
    **coordination.COPIES,
    **dreaming.COPIES,
    "exchanges": {"content": "sources"},
    "memories": {"content": "sources", "key": "merged", "data": "merged", "hash": "itself"},
    "memory_versions": {"content": "sources", "reason": "none"},
    "memory_tags": {"tag": "merged"},
    "memory_states": {"tags": "merged"},
    "memory_links": {"relation": "none"},
    "terms": {"term": "itself"},
    "blocks": {"content": "sources", "data": "none"},
    "block_versions": {"content": "sources", "reason": "none", "data": "none"},
}

_LOCK_SESSION = "UPDATE sessions SET last_seq = last_seq WHERE workspace = :workspace AND id = :session"
_EXCHANGE = "SELECT session_id FROM exchanges WHERE workspace = :workspace AND id = :id"
_EXCHANGES = """
SELECT id, session_id FROM exchanges WHERE workspace = :workspace AND id IN (SELECT value FROM json_each(:ids))
"""
_MEMORY = "SELECT 1 FROM memories WHERE workspace = :workspace AND id = :id"
_BLOCK = "SELECT id FROM blocks WHERE workspace = :workspace AND name = :name"
_BLOCK_BY_ID = "SELECT name FROM blocks WHERE workspace = :workspace AND id = :id"
_SESSION = "SELECT id FROM sessions WHERE workspace = :workspace AND id = :id"
_SESSIONS_OF_TYPE = "SELECT id FROM sessions WHERE workspace = :workspace AND type = :type ORDER BY id"
# Turns and logs have separate indexes, so there is one SELECT for each.
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
  AND (v.content <> '' OR v.reason <> '' OR v.data IS NOT NULL)
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
INSERT INTO receipts (workspace, asked, went, created_at, author) VALUES (:workspace, :asked, '{}', :now, :author)
RETURNING id
"""
#: What a receipt keeps: by kind the ids of what went.
IS_WENT = record({}, {"ids": object_of(list_of(either(whole, text))), "versions": whole})
_FILL_RECEIPT = "UPDATE receipts SET went = :went, created_at = :now WHERE workspace = :workspace AND id = :id"
_RECEIPTS = """
SELECT id, asked, went, created_at, author FROM receipts
WHERE workspace = :workspace AND id < :before ORDER BY id DESC LIMIT :limit
"""


#: Names several log entries that are too old; see `retention`.
LOGS = "logs"


class _DryRun(Exception):
    """Rolls the transaction back once the receipt is known."""


class Request(NamedTuple):
    """What to forget: how it is named, and the value."""

    by: str
    value: str | int | tuple[int, ...]

    def __str__(self) -> str:
        if isinstance(self.value, tuple):
            # The receipt lists them anyway.
            if self.by == LOGS:
                return f"{len(self.value)} old log {'entry' if len(self.value) == 1 else 'entries'}"
            return f"{len(self.value)} exchanges"
        # An earlier release allowed secrets in names. They must not stay in the receipt.
        return redact(f"{self.by} {self.value}")


class _Removal:
    """What goes and what loses text, as it is found out."""

    def __init__(self) -> None:
        self.things: set[Thing] = set()
        self.sessions: list[str] = []
        self.messages: list[int] = []
        #: Things that stay and lose the text that came from what goes.
        self.touched: list[Thing] = []
        #: Sessions whose summary or outcome quotes something that goes.
        self.copies = summaries.Copies([], [])
        #: Log entries that stay and lose what they said about a session that goes.
        self.entries: list[int] = []
        #: How many block versions were blanked because of their age.
        self.versions = 0

    def of(self, kind: str) -> list[int]:
        return sorted(id for what, id in self.things if what == kind)


class Forgetting:
    def __init__(self, view: StoreView) -> None:
        self._engine = view.engine
        self._workspace = view.workspace
        self._author = view.author
        self._memories = Memories(view)

    def forget(self, request: Request, *, dry_run: bool = False, scrub: bool = True) -> Receipt:
        """Forget it, or with `dry_run` only find out what would go. Without `scrub`, the caller scrubs the store."""
        try:
            with self._engine.write() as tx:
                receipt = self._forget(tx, request)
                if dry_run:
                    raise _DryRun
                if scrub:
                    tx.afterwards.append(self._engine.scrub)
        except _DryRun:
            with self._engine.read() as tx:
                shown = preview.lines(tx, self._workspace, receipt.ids)
            return receipt._replace(id=None, preview=shown)
        return receipt

    def receipts(self, limit: int = 20, *, before: int | None = None) -> list[Receipt]:
        """Receipts, the latest first. Limit 0 means all. `before`, the last id of a page, gives the next page."""
        most = checks.whole(limit, "limit", least=0) or checks.MAX_WHOLE
        last = checks.MAX_WHOLE if before is None else checks.whole(before, "before", least=0)
        with self._engine.read() as tx:
            rows = tx.all(_RECEIPTS, workspace=self._workspace, limit=most, before=last)
        return [self._receipt(*row) for row in rows]

    def _forget(self, tx: Transaction, request: Request) -> Receipt:
        # Every writer takes these locks in this order: leases, sessions, memories, the embedding queue, blocks.
        tx.lock(mutexes.leases(self._workspace))
        locked = self._lock_sessions(tx, request)
        tx.lock(mutexes.memories(self._workspace))
        tx.lock(mutexes.embedding_queue(self._workspace))
        gone = self._find_requested(tx, request, locked)
        breaks = break_log.ForgottenBreaks(tx, self._workspace, gone.of("exchange"))
        gone.things.update(("exchange", id) for id in breaks.find_copies())
        cleaning = self._trace_derived(tx, gone)
        now = tx.now()
        by_whom = {"author": self._author}
        receipt: int = tx.value(_ADD_RECEIPT, workspace=self._workspace, asked=str(request), now=now, **by_whom)
        cleaning.write(self._memories, receipt, now)
        gone.touched = cleaning.touched
        for kind, ref in gone.touched:
            tx.run(_REBUILD, workspace=self._workspace, kind=kind, ref=ref, receipt=receipt)
        older = str(request.value) if request.by == "before" else None
        gone.copies = summaries.find_copies(tx, self._workspace, gone.of("exchange"), set(gone.sessions), older)
        entries = set(gone.of("exchange"))
        gone.entries = breaks.rewrite(entries)
        gone.messages = coordination.delete_messages(tx, self._workspace, breaks.find_messages(entries))
        aged: list[Thing] = []
        if older is not None:
            gone.messages += coordination.delete_before(tx, self._workspace, older)
            aged = self._blank_old_versions(tx, older, receipt)
            gone.versions = len(aged)
        dreaming.erase_snapshots(tx, self._workspace, gone.things, [*gone.touched, *aged], gone.sessions, older)
        self._erase(tx, gone)
        summaries.replace_copies(tx, self._workspace, gone.copies)
        # No prompt quotes log entries.
        if request.by != LOGS:
            dreaming.delete_agent_work(tx, self._workspace)
        dreaming.delete_proposals(tx, self._workspace, {*gone.things, *gone.touched, *aged})
        went = _dump_ids(gone)
        answers.blank_answers(tx, self._workspace)
        # The time of its end: a backup that was made while this took long still has the text, and the receipt names it.
        now = tx.now()
        tx.run(_FILL_RECEIPT, workspace=self._workspace, id=receipt, went=went, now=now)
        tx.note(self._workspace, "receipt", receipt)
        return self._receipt(receipt, str(request), went, now, self._author)

    def _lock_sessions(self, tx: Transaction, request: Request) -> set[str]:
        """Lock and return the sessions that lose something. A writer that adds to one waits, then sees what is left of
        it."""
        ending = self._whole_sessions(tx, request)
        locked = set(ending)
        for session in ending:
            locked.update(tx.column(_CHILDREN, workspace=self._workspace, session=session))
        if request.by == "exchange":
            locked.update(tx.column(_EXCHANGE, workspace=self._workspace, id=request.value))
        elif isinstance(request.value, tuple):
            rows = tx.all(_EXCHANGES, workspace=self._workspace, ids=tx.array(request.value))
            locked.update(session for _, session in rows)
        elif request.by == "before":
            locked.update(tx.column(_SESSIONS_BEFORE, workspace=self._workspace, before=request.value))
        # In order of id, like every writer.
        for session in sorted(locked):
            tx.run(_LOCK_SESSION, workspace=self._workspace, session=session)
        return locked

    def _whole_sessions(self, tx: Transaction, request: Request) -> list[str]:
        """The sessions that go as a whole."""
        if request.by == "session":
            return tx.column(_SESSION, workspace=self._workspace, id=request.value)
        if request.by == "source":
            source = str(request.value)
            of_type = tx.column(_SESSIONS_OF_TYPE, workspace=self._workspace, type=source)
            return sorted({*of_type, *imports.imported_sessions(tx, self._workspace, source)})
        if request.by == "before":
            return tx.column(_OVER_BEFORE, workspace=self._workspace, before=request.value)
        return []

    def _find_requested(self, tx: Transaction, request: Request, locked: set[str]) -> _Removal:
        """What the request names. Read under locks, so that no writer can add to it."""
        gone = _Removal()
        by, value = request
        if isinstance(value, tuple):
            found = {id for id, _ in tx.all(_EXCHANGES, workspace=self._workspace, ids=tx.array(value))}
            for id in value:
                self._require((id,) if id in found else None, Request("exchange", id), ExchangeNotFound)
            gone.things.update(("exchange", id) for id in value)
        elif by == "exchange":
            self._require(tx.one(_EXCHANGE, workspace=self._workspace, id=value), request, ExchangeNotFound)
            gone.things.add((by, int(value)))
        elif by == "memory":
            self._require(tx.one(_MEMORY, workspace=self._workspace, id=value), request, MemoryNotFound)
            gone.things.add((by, int(value)))
        elif by == "block":
            tx.lock(mutexes.block(self._workspace, str(value)))
            (id,) = self._require(tx.one(_BLOCK, workspace=self._workspace, name=value), request, BlockNotFound)
            gone.things.add((by, id))
        else:
            # A session that appeared meanwhile is not locked.
            gone.sessions = [session for session in self._whole_sessions(tx, request) if session in locked]
            if by == "before":
                self._add_older(tx, gone, str(value), locked)
            else:
                if by == "source":
                    self._add_imported(tx, gone, str(value))
                self._require((gone.sessions,) if gone.sessions or gone.things else None, request, SessionNotFound)
                self._add_session_contents(tx, gone)
        return gone

    def _add_session_contents(self, tx: Transaction, gone: _Removal) -> None:
        """Add the exchanges of the sessions, and the memories stored there that have no other source."""
        for session in gone.sessions:
            of_it = {"workspace": self._workspace, "session": session}
            gone.things.update(("exchange", id) for id in tx.column(_EXCHANGES_OF, **of_it))
        for session in gone.sessions:
            for id in tx.column(_MEMORIES_OF, workspace=self._workspace, session=session):
                if provenance.of(tx, self._workspace, "memory", id) <= gone.things:
                    gone.things.add(("memory", id))

    def _add_imported(self, tx: Transaction, gone: _Removal, source: str) -> None:
        """Add the eras and blocks that an import of this format made."""
        for kind, id, name in imports.imported_things(tx, self._workspace, source):
            if kind == "block":
                tx.lock(mutexes.block(self._workspace, name))
            gone.things.add((kind, id))

    def _add_older(self, tx: Transaction, gone: _Removal, time: str, locked: set[str]) -> None:
        """Add the exchanges and memories from before a time."""
        exchanges = tx.all(_EXCHANGES_BEFORE, workspace=self._workspace, before=time)
        gone.things.update(("exchange", id) for id, session in exchanges if session in locked)
        memories = tx.column(_MEMORIES_BEFORE, workspace=self._workspace, before=time)
        gone.things.update(("memory", id) for id in memories)

    def _trace_derived(self, tx: Transaction, gone: _Removal) -> Cleaning:
        """Find what else goes, and clean what stays but was derived from it. Nothing is written yet."""
        while True:
            touched = self._derived_from(tx, gone.things)
            alone = self._without_other_sources(tx, touched, gone.things)
            gone.things |= alone
            staying = {thing: first for thing, first in touched.items() if thing not in alone}
            cleaning = Cleaning(tx, self._workspace, gone.things, staying)
            # A memory without text goes too, and so does what was derived only from it.
            if not cleaning.emptied:
                return cleaning
            gone.things |= cleaning.emptied

    def _derived_from(self, tx: Transaction, gone: set[Thing]) -> dict[Thing, int]:
        """Everything derived from what goes, at any distance, with the first version that may contain some of it."""
        touched: dict[Thing, int] = {}
        new = self._direct_derivatives(tx, gone)
        while new:
            lower = {
                thing: first
                for thing, first in new.items()
                if thing not in gone and touched.get(thing, first + 1) > first
            }
            touched |= lower
            new = self._direct_derivatives(tx, lower)
        return touched

    def _without_other_sources(self, tx: Transaction, touched: Iterable[Thing], gone: set[Thing]) -> set[Thing]:
        """Memories whose sources all go; two may be each other's source. Also log entries that copy one that goes."""
        copies = {(kind, id) for kind, id in touched if kind == "exchange"}
        # A block stays when its last source goes. Others know its name, so it is only emptied.
        memories = {(kind, id) for kind, id in touched if kind == "memory"}
        sources = {(kind, id): provenance.of(tx, self._workspace, kind, id) for kind, id in memories}
        alone = set(memories)
        while others := {memory for memory in alone if not sources[memory] <= gone | alone | copies}:
            alone -= others
        return alone | copies

    def _direct_derivatives(self, tx: Transaction, things: Iterable[Thing]) -> dict[Thing, int]:
        """What names one of these things as a source, with its first version that does."""
        made: dict[Thing, int] = {}
        for kind, ids in _group_by_kind(things).items():
            for what, id, version in sorted(tx.all(_DERIVED, workspace=self._workspace, kind=kind, ids=tx.array(ids))):
                made[what, id] = min(version, made.get((what, id), version))
        return made

    def _blank_old_versions(self, tx: Transaction, time: str, receipt: int) -> list[Thing]:
        """Blank block versions older than the time; the block of each."""
        rows = tx.all(_OLD_VERSIONS, workspace=self._workspace, before=time)
        for id, version in rows:
            tx.run(REWRITE_BLOCK_VERSION, id=id, version=version, content="", reason="", data=None, receipt=receipt)
        return [("block", id) for id, _ in rows]

    def _erase(self, tx: Transaction, gone: _Removal) -> None:
        imports.note_forgotten(tx, self._workspace, gone.sessions, gone.of("exchange"))
        self._erase_exchanges(tx, gone.of("exchange"), set(gone.sessions))
        gists.erase(tx, self._workspace, gone.of("memory"))
        memory_states.remove_references(tx, gone.of("memory"))
        for id in gone.of("memory"):
            self._erase_memory(tx, id)
        for id in gone.of("block"):
            tx.note(self._workspace, "block", tx.value(_BLOCK_BY_ID, workspace=self._workspace, id=id))
            tx.run(_NO_REBUILD, workspace=self._workspace, kind="block", ref=id)
            tx.run(_DELETE_BLOCK, workspace=self._workspace, id=id)
        for kind, ids in _group_by_kind(gone.things).items():
            all_of_them = {"workspace": self._workspace, "kind": kind, "ids": tx.array(ids)}
            tx.run(_DROP_SOURCES, **all_of_them)
            tx.run(_DROP_DERIVED, **all_of_them)
        for session in gone.sessions:
            tx.run(_DETACH, workspace=self._workspace, session=session)
            tx.run(_DETACH_ITEMS, workspace=self._workspace, session=session)
        gone.messages += coordination.delete_sessions(tx, self._workspace, gone.sessions)

    def _erase_exchanges(self, tx: Transaction, ids: list[int], ending: set[str]) -> None:
        word_index.remove(tx, self._workspace, "exchange", ids)
        shortened = set(tx.column(_TURNS_OF, workspace=self._workspace, ids=tx.array(ids)))
        tx.run(_DELETE_EXCHANGES, workspace=self._workspace, ids=tx.array(ids))
        for id in ids:
            embedding_queue.withdraw(tx, self._workspace, "exchange", id)
            tx.note(self._workspace, "exchange", id)
        for session in sorted(shortened - ending):
            left = tx.value(_COUNT_TURNS, workspace=self._workspace, session=session)
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

    def _receipt(self, id: int, asked: str, went: str, created_at: str, author: str | None) -> Receipt:
        loaded: dict[str, Any] = json_columns.load_object(went, "receipts.went", IS_WENT)
        ids, versions = loaded.get("ids", {}), loaded.get("versions", 0)
        counts = {name: len(found) for name, found in ids.items()}
        if versions:
            counts["block versions"] = versions
        backups = self._engine.backups(before=created_at)
        return Receipt(
            id=id, asked=asked, counts=counts, ids=ids, backups=backups, created_at=created_at, author=author
        )

    def _require(self, row: Row | None, request: Request, missing: type[Exception]) -> Row:
        if row is None:
            what = f"{request.by} {request.value!r}"
            if request.by == "source":
                what = f"session of type {request.value!r} and nothing imported from it"
            raise missing(f"There is no {what} in workspace {self._workspace!r}; nothing was forgotten.")
        return row


def forget_request(
    *,
    exchange: int | None = None,
    memory: int | None = None,
    session: str | None = None,
    block: str | None = None,
    before: str | None = None,
    source: str | None = None,
    exchanges: Sequence[int] | None = None,
) -> Request:
    """A checked request. Exactly one of the arguments must be given."""
    given = {
        "exchange": None if exchange is None else checks.whole(exchange, "exchange id", least=1),
        "memory": None if memory is None else checks.whole(memory, "memory id", least=1),
        "session": checks.optional_name(session, "session id"),
        "block": checks.optional_name(block, "block name"),
        "before": None if before is None else checks.moment(before, "before"),
        "source": checks.optional_name(source, "source"),
        "exchanges": None if exchanges is None else _exchange_ids(exchanges),
    }
    chosen = [Request(by, value) for by, value in given.items() if value is not None]
    if len(chosen) != 1:
        raise InvalidInput(f"Name exactly one thing to forget: {', '.join(given)}; {len(chosen)} were given.")
    (request,) = chosen
    return request


def _exchange_ids(given: Sequence[int]) -> tuple[int, ...]:
    ids = tuple(sorted({checks.whole(id, "exchange id", least=1) for id in given}))
    if not ids:
        raise InvalidInput("exchanges is empty; give the ids of the exchanges to forget.")
    return ids


def _group_by_kind(things: Iterable[Thing]) -> dict[str, list[int]]:
    kinds: dict[str, list[int]] = {}
    for kind, id in sorted(things):
        kinds.setdefault(kind, []).append(id)
    return kinds


def _dump_ids(gone: _Removal) -> str:
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
