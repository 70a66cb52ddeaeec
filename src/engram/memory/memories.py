"""Memories: things worth knowing, each stored once.

Storing the same content again, within a workspace, kind and key, reinforces the memory instead of adding another.
Different content under the same kind and key supersedes the old memory. The new one gets its pin and tags, unless
others are given. The old one stays readable, and searchable in the archive. Every edit keeps the previous version.

A person can approve a version. What a person writes or pins is approved; a new text by anybody else is not.

An import says when something happened (`at`). Changes of one memory are written in the order of their times.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from .. import checks, json_columns, mutexes
from ..errors import InvalidInput, StoreBusy, StoreError, VersionConflict
from ..records import MemoryEdit
from . import (
    approvals,
    embedding_queue,
    memory_index,
    memory_links,
    memory_rows,
    memory_states,
    memory_tags,
    memory_writes,
    provenance,
    word_index,
)
from .exchanges import TRUSTS
from .fingerprints import fingerprint
from .given_vectors import GivenVectors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ..records import Exchange, Gist, Hit, Memory, MemoryState
    from ..storage.engine import Transaction
    from ..store_view import StoreView, Watch
    from .gists import Gists
    from .provenance import Thing
    from .recall import Recall

#: The relation of a memory to the one that it was merged into.
MERGED = "merged into"

_SAME = """
SELECT id FROM memories
WHERE workspace = :workspace AND kind = :kind AND hash = :hash AND status = 'active'
  AND COALESCE(key, '') = COALESCE(CAST(:key AS TEXT), '')
"""
_SAME_AS = """
SELECT o.id FROM memories m JOIN memories o
  ON o.workspace = m.workspace AND o.kind = m.kind AND o.hash = m.hash AND o.status = 'active' AND o.id <> m.id
WHERE m.workspace = :workspace AND m.id = :id AND m.key IS NULL AND o.key IS NULL
"""
_VERSIONS = """
SELECT version, content, reason, actor, created_at, receipt, author FROM memory_versions
WHERE memory_id = :id AND version <= :last ORDER BY version DESC
"""
_EXPIRED = """
SELECT id FROM memories
WHERE workspace = :workspace AND status = 'active' AND expires_at IS NOT NULL AND expires_at <= :now
ORDER BY expires_at LIMIT :limit
"""
_USED = """
UPDATE memories SET recalled = recalled + 1, recalled_at = :now WHERE workspace = :workspace AND id = :id
"""


class Prepared(NamedTuple):
    """A content as it is stored, without secrets, and ready to be indexed."""

    content: str
    pieces: list[word_index.Piece]
    #: None: left to the embedding queue.
    vectors: embedding_queue.Vectors | None


class Memories:
    """The memories of a workspace.

    `default_project` returns the project of a memory that is stored without a project and without a session. Dreaming
    and forgetting pass none: a derived memory belongs to the project of its sources.
    """

    def __init__(
        self,
        view: StoreView,
        watch: Watch | None = None,
        *,
        default_project: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._view = view
        self._engine = view.engine
        self._workspace = view.workspace
        self._author = view.author
        self._backlog = embedding_queue.EmbeddingQueue(view)
        self._watch = watch
        self._default_project = default_project

    def remember(
        self,
        content: str,
        *,
        kind: str = "note",
        tags: Iterable[str] | None = None,
        importance: float = 0.5,
        pinned: bool | None = None,
        key: str | None = None,
        session_id: str | None = None,
        project: str | None = None,
        sources: Sequence[Thing] = (),
        data: object = None,
        expires_at: str | None = None,
        trust: str | None = None,
        by_person: bool = False,
        embed: bool = True,
        prepared: Prepared | None = None,
        at: str | None = None,
        vector: Sequence[float] | None = None,
        model: str | None = None,
    ) -> Memory:
        """Store something worth knowing.

        Storing the same content again reinforces the memory. Different content under the same kind and key supersedes
        it and takes over its tags and its pin. In both cases an empty list of `tags` and False for `pinned` clear them.

        The project defaults to that of the session. Without a session it is the configured one, else that of the
        current folder. `sources` are pairs such as `("exchange", 12)`; without `trust` the memory has the lowest trust
        of its sources. `by_person` says that a person wrote this, who thereby approves it. Without it, PersonNeeded
        when this would replace, unpin or expire a memory that a person has approved.

        `at` is when it was stored, by default now. InvalidInput when it would supersede what was changed later.
        `vector` is the text's vector, from the embedding model that `model` names. InvalidInput unless that is the
        workspace's model. It is used if the text is not cut into pieces.
        """
        if trust is not None and trust not in TRUSTS:
            raise InvalidInput(f"trust is {trust!r}; it must be one of {', '.join(TRUSTS)}.")
        values: dict[str, object] = {
            "kind": checks.new_name(kind, "kind"),
            "key": checks.optional_new_name(key, "key"),
            "importance": checks.share(importance, "importance"),
            "expires_at": None if expires_at is None else checks.moment(expires_at, "expiry time"),
        }
        content = prepared.content if prepared else checks.content(content, "content")
        labels = None if tags is None else memory_tags.checked(tags)
        pin = None if pinned is None else checks.flag(pinned, "pinned")
        stored = None if data is None else json_columns.dump(data, "data")
        checks.flag(by_person, "by_person")
        at = checks.optional_moment(at, "at")
        belongs_to = checks.optional_new_name(project, "project")
        if belongs_to is None and session_id is None:
            belongs_to = self._default_project()
        _, pieces, vectors = prepared or self._prepared(content, embed, vector, model)
        with self._engine.write() as tx:
            self.lock(tx)
            hash = fingerprint(content)
            same = tx.ask(_SAME, workspace=self._workspace, kind=kind, key=key, hash=hash)
            now = checks.past(at, tx.now())
            home = memory_rows.session_project(tx, self._workspace, session_id)
            lowest = provenance.trust(tx, self._workspace, sources)
            known = same.one()
            if known:
                (id,) = known
                approvals.check_weaker(self._read(tx, id), by_person, pin, values["expires_at"])
                again = {name: values[name] for name in ("importance", "expires_at")}
                with self._change(tx, id, now, session_id):
                    again |= {"pinned": None if pin is None else int(pin), "by_person": int(by_person)}
                    # What a person says is theirs, whoever has said it before.
                    again["session"] = session_id
                    memory_writes.reinforce(tx, self._workspace, id, now, **again)
                    if labels == []:
                        memory_tags.drop(tx, self._workspace, id)
                    memory_tags.add(tx, self._workspace, id, labels or ())
            else:
                old = self._with_key(tx, kind, key)
                replaced = None if old is None else memory_states.read(tx, self._workspace, old.id)
                if old is not None:
                    approvals.check_replaced(old, by_person)
                    memory_states.require_order(tx, old.id, at)
                    self._retire(tx, old.id, now, by=None)
                    labels = list(old.tags) if labels is None else labels
                    pin = old.pinned if pin is None else pin
                id = memory_writes.insert(
                    tx,
                    self._workspace,
                    now,
                    content=content,
                    hash=hash,
                    pinned=int(bool(pin)),
                    trust=trust or lowest,
                    session_id=session_id,
                    project=belongs_to or home,
                    data=stored,
                    approved=1 if by_person else None,
                    author=self._author,
                    **values,
                )
                self._changing(tx, id)
                if old is not None:
                    memory_writes.retire(tx, self._workspace, old.id, now, "superseded", by=id)
                    memory_states.record(tx, self._workspace, old.id, replaced, now, session_id, self._author)
                memory_writes.add_version(tx, id, 1, content, now, actor=session_id, author=self._author)
                memory_tags.add(tx, self._workspace, id, labels or ())
            self._add_sources(tx, id, sources)
            if not known:
                memory_index.add(tx, self._workspace, self._read(tx, id), pieces, vectors)
            tx.note(self._workspace, "memory", id)
            return self._read(tx, id)

    def prepare(
        self, content: str, *, embed: bool = True, vector: Sequence[float] | None = None, model: str | None = None
    ) -> Prepared:
        """Prepare a content for indexing before a transaction begins, for `remember` and `update`."""
        return self._prepared(checks.content(content, "content"), embed, vector, model)

    def _prepared(
        self, content: str, embed: bool, vector: Sequence[float] | None = None, model: str | None = None
    ) -> Prepared:
        """Like `prepare`, for a content that is already checked."""
        pieces = word_index.cut(content)
        vectors = None if vector is None else GivenVectors(self._view, model).row(vector, pieces)
        if vectors is None and embed:
            vectors = self._backlog.vectors_of(pieces)
        return Prepared(content, pieces, vectors)

    def lock(self, tx: Transaction) -> None:
        """Serialise writers, so that concurrent duplicates cannot both insert."""
        tx.lock(mutexes.memories(self._workspace))

    def get(self, id: int, *, at: str | None = None) -> Memory:
        """One memory; with `at` as it stood at that time. MemoryNotFound when it did not exist then."""
        then = checks.optional_moment(at, "at")
        with self._engine.read() as tx:
            return self._read_at(tx, id, then)

    def some(self, ids: Iterable[int]) -> dict[int, Memory]:
        """Several memories, by id, in one read. One that is not there is left out."""
        wanted = [checks.whole(id, "memory id", least=1) for id in ids]
        with self._engine.read() as tx:
            return {each.id: each for each in memory_rows.some(tx, self._workspace, wanted)}

    def same(self, content: str, kind: str = "note", key: str | None = None) -> Memory | None:
        """The active memory that storing this content would reinforce."""
        hash = fingerprint(checks.content(content, "content"))
        with self._engine.read() as tx:
            id = tx.value(_SAME, workspace=self._workspace, kind=kind, key=key, hash=hash)
            return None if id is None else self._read(tx, id)

    def by_key(self, kind: str, key: str, *, lock: bool = False) -> Memory | None:
        """The active memory of a kind under a key, also if it has expired.

        With `lock`, inside `eng.write()`, no other process writes memories until the transaction ends.
        """
        checks.name(kind, "kind")
        checks.name(key, "key")
        with self._engine.write() if lock else self._engine.read() as tx:
            if lock:
                self.lock(tx)
            return self._with_key(tx, kind, key)

    def update(
        self,
        id: int,
        content: str | None = None,
        *,
        reason: str = "",
        actor: str | None = None,
        tags: Iterable[str] | None = None,
        importance: float | None = None,
        pinned: bool | None = None,
        expires_at: str | None = None,
        data: object = None,
        sources: Sequence[Thing] = (),
        by_person: bool = False,
        prepared: Prepared | None = None,
        at: str | None = None,
        expected_version: int | None = None,
    ) -> Memory:
        """Change the given fields. A new content makes a new version.

        `sources` are added to the existing ones; less trusted sources lower the trust. `by_person` says that a person
        does this. A text or a pin from a person counts as approved. Any other new text is not approved, and has at
        most the trust of an agent. PersonNeeded when anybody else unpins or expires what a person has approved.

        `at` is when it was changed, by default now. InvalidInput when that is before its last change. VersionConflict
        when the memory is no longer at `expected_version`.
        """
        checks.whole(id, "memory id", least=1)
        reason = checks.content(reason, "reason", longest=2_000, empty=True)
        checks.optional_new_name(actor, "actor")
        pin = None if pinned is None else checks.flag(pinned, "pinned")
        approves = checks.flag(by_person, "by_person") and (content is not None or bool(pin))
        labels = None if tags is None else memory_tags.checked(tags)
        stored = None if data is None else json_columns.dump(data, "data")
        at = checks.optional_moment(at, "at")
        if content is not None:
            prepared = prepared or self.prepare(content)
            content = prepared.content
        with self._engine.write() as tx:
            self.lock(tx)
            now = checks.past(at, tx.now())
            before = self._read(tx, id)
            _expect(before, expected_version)
            memory_states.require_order(tx, id, at)
            ends = None if expires_at is None else checks.moment(expires_at, "expiry time")
            approvals.check_weaker(before, by_person, pin, ends)
            made_of = provenance.trust(tx, self._workspace, sources) if sources else before.trust
            by = "agent" if content is not None and not by_person else before.trust
            trust = max(before.trust, made_of, by, key=TRUSTS.index)
            text = before.content if content is None else content
            version = before.version + (content is not None)
            with self._change(tx, id, now, actor):
                memory_writes.edit(
                    tx,
                    self._workspace,
                    id,
                    now,
                    content=text,
                    hash=fingerprint(text),
                    version=version,
                    trust=trust,
                    data=stored,
                    importance=before.importance if importance is None else checks.share(importance, "importance"),
                    pinned=int(before.pinned if pin is None else pin),
                    expires_at=ends or before.expires_at,
                    decided=int(approves or content is not None),
                    approved=version if approves else None,
                )
                if labels is not None:
                    memory_tags.drop(tx, self._workspace, id)
                    memory_tags.add(tx, self._workspace, id, labels)
            if content is not None and prepared is not None:
                by_whom = {"actor": actor, "author": self._author}
                memory_writes.add_version(tx, id, version, text, now, reason=reason, **by_whom)
                memory_index.remove(tx, self._workspace, id)
                memory_index.add(tx, self._workspace, self._read(tx, id), prepared.pieces, prepared.vectors)
            self._add_sources(tx, id, sources)
            tx.note(self._workspace, "memory", id)
            return self._read(tx, id)

    def approve(self, id: int, *, version: int | None = None, actor: str | None = None) -> Memory:
        """Record that a person approves the memory's text. Agents and MCP must not call this.

        VersionConflict when `version` is given and is not the current one.
        """
        return self._decide(id, True, version, actor)

    def approve_all(self, versions: Mapping[int, int], *, actor: str | None = None) -> list[Memory]:
        """Approve several memories, each at the version that the person has read: all of them, or none."""
        with self._engine.write():
            return [self.approve(id, version=version, actor=actor) for id, version in versions.items()]

    def withdraw_all(self, ids: Sequence[int], *, actor: str | None = None) -> list[Memory]:
        """Withdraw the approval of several memories: of all of them, or of none."""
        with self._engine.write():
            return [self.withdraw(id, actor=actor) for id in ids]

    def withdraw(self, id: int, *, actor: str | None = None) -> Memory:
        """Take a person's approval away."""
        return self._decide(id, False, None, actor)

    def _decide(self, id: int, approve: bool, expected: int | None, actor: str | None) -> Memory:
        checks.whole(id, "memory id", least=1)
        checks.optional_new_name(actor, "actor")
        with self._engine.write() as tx:
            self.lock(tx)
            before = self._read(tx, id)
            _expect(before, expected)
            if before.approved != approve:
                with self._change(tx, id, tx.now(), actor):
                    memory_writes.approve(tx, self._workspace, id, before.version if approve else None)
                tx.note(self._workspace, "memory", id)
            return self._read(tx, id)

    def expire(self, id: int, at: str | None, *, by_person: bool = False) -> None:
        """Change when a memory expires; None means never. This is not an edit: `updated_at` stays.

        PersonNeeded when anybody but a person lets a memory expire earlier that a person has approved.
        """
        checks.whole(id, "memory id", least=1)
        checks.flag(by_person, "by_person")
        ends = checks.optional_moment(at, "expiry time")
        with self._engine.write() as tx:
            self.lock(tx)
            before = self._read(tx, id)
            approvals.check_weaker(before, by_person, None, ends)
            if before.expires_at != ends:
                self._changing(tx, id)
                memory_writes.expire(tx, self._workspace, id, ends)
                tx.note(self._workspace, "memory", id)

    def archive(self, id: int, *, actor: str | None = None, at: str | None = None) -> Memory:
        """Archive a memory. It stays readable, and recall finds it with `include_archived`. `at`: as for `update`."""
        return self._move(id, "archived", actor, at)

    def unarchive(self, id: int, *, actor: str | None = None, at: str | None = None) -> Memory:
        """Make an archived memory active again. `at`: as for `update`."""
        return self._move(id, "active", actor, at)

    def supersede(
        self, id: int, by: int, relation: str = "superseded by", *, actor: str | None = None, at: str | None = None
    ) -> Memory:
        """Replace a memory by another one. It stays readable and linked; recall finds it with `include_archived`.

        `at`: as for `update`; not before the other one was stored.
        """
        checks.new_name(relation, "relation")
        at = checks.optional_moment(at, "at")
        if id == by:
            raise InvalidInput(f"Memory {id} cannot supersede itself.")
        with self._engine.write() as tx:
            self.lock(tx)
            self._read(tx, checks.whole(id, "memory id", least=1))
            other = self._read(tx, checks.whole(by, "memory id", least=1))
            now = checks.past(at, tx.now())
            memory_states.require_order(tx, id, at)
            if at is not None and now < other.created_at:
                raise InvalidInput(f"Memory {by} was stored at {other.created_at}; it cannot replace one at {at}.")
            # A link belongs to both of its ends, so both change.
            self._changing(tx, by)
            with self._change(tx, id, now, actor):
                self._retire(tx, id, now, by)
            memory_links.add(tx, self._workspace, id, by, relation, now)
            return self._read(tx, id)

    def history(self, id: int, *, at: str | None = None) -> list[MemoryEdit]:
        """Every version of the memory, newest first; with `at` those that it had at that time."""
        then = checks.optional_moment(at, "at")
        with self._engine.read() as tx:
            last = self._last_version(tx, id, then)
            return [MemoryEdit(*row) for row in tx.all(_VERSIONS, id=id, last=last)]

    def states(self, id: int) -> list[MemoryState]:
        """How importance, pin, approval, tags and status changed since the memory was stored, newest first."""
        with self._engine.read() as tx:
            self._read(tx, checks.whole(id, "memory id", least=1))
            return memory_states.states(tx, self._workspace, id)

    def link(self, from_id: int, to_id: int, relation: str = "related") -> None:
        """Link two memories, with a relation."""
        checks.new_name(relation, "relation")
        if from_id == to_id:
            raise InvalidInput(f"Memory {from_id} cannot be linked to itself; name two different memories.")
        with self._engine.write() as tx:
            # The lock keeps both from being forgotten in between.
            self.lock(tx)
            for id in (from_id, to_id):
                self._read(tx, checks.whole(id, "memory id", least=1))
            for id in (from_id, to_id):
                self._changing(tx, id)
            memory_links.add(tx, self._workspace, from_id, to_id, relation, tx.now())
            tx.note(self._workspace, "memory", from_id)

    def links(self, id: int, *, at: str | None = None) -> list[tuple[int, int, str]]:
        """From, to and relation of every link of the memory; with `at` of those that it had at that time."""
        then = checks.optional_moment(at, "at")
        with self._engine.read() as tx:
            self._read_at(tx, id, then)
            return memory_links.of(tx, self._workspace, id, then)

    def sources(self, id: int, *, at: str | None = None) -> list[Thing]:
        """What the memory was made from; with `at` what its versions up to that time were made from."""
        then = checks.optional_moment(at, "at")
        with self._engine.read() as tx:
            last = self._last_version(tx, id, then)
            return sorted(provenance.of(tx, self._workspace, "memory", id, last))

    def of_session(self, session_id: str, limit: int = 50) -> list[Memory]:
        """What was remembered in a session or made from its turns, of any status, newest first; limit 0: all.

        Gists are left out: `gist` returns the session's own.
        """
        checks.name(session_id, "session id")
        most = checks.whole(limit, "limit", least=0) or checks.MAX_WHOLE
        with self._engine.read() as tx:
            return memory_rows.of_session(tx, self._workspace, session_id, most)

    def used(self, ids: Sequence[int], at: str | None = None) -> None:
        """Record that recall returned these memories. Never waits and never fails: recall already has its answer.

        `at` is when, by default now.
        """
        if not ids or self._engine.joined:
            return
        with suppress(StoreBusy, StoreError), self._engine.write(patient=False) as tx:
            now = tx.now() if at is None else at
            for id in sorted(ids):
                tx.later(_USED, workspace=self._workspace, id=id, now=now)
            tx.close_after()

    def sweep(self, limit: int = 1_000) -> int:
        """Archive expired memories, at most `limit`; how many. Recall already leaves them out."""
        checks.whole(limit, "limit", least=0)
        with self._engine.read() as tx:
            expired = tx.column(_EXPIRED, workspace=self._workspace, now=tx.now(), limit=limit)
        for id in expired:
            self._move(id, "archived")
        return len(expired)

    def recall_gists(
        self, query: str, k: int = 3, exclude_session: str | None = None, *, min_score: float = 0.0
    ) -> list[Hit]:
        """Sessions whose gist matches a question, without `exclude_session`."""
        return self._recall().recall(
            query, k, what=("memories",), kinds=["gist"], exclude_session=exclude_session, min_score=min_score
        )

    def recall_eras(self, query: str, k: int = 2, *, min_score: float = 0.0) -> list[Hit]:
        """Months whose era matches a question."""
        return self._recall().recall(query, k, what=("memories",), kinds=["era"], min_score=min_score)

    def _recall(self) -> Recall:
        from .recall import Recall

        return Recall(self._view, self)

    def gist(self, session_id: str) -> Memory | None:
        """The gist of a session, if it has one."""
        return self._gists().current(session_id)

    def store_gist(
        self,
        session_id: str,
        text: str,
        seq: int,
        *,
        sources: Sequence[int] = (),
        embed: bool = True,
        at: str | None = None,
        vector: Sequence[float] | None = None,
        model: str | None = None,
    ) -> Memory:
        """Store a gist that covers a session up to `seq`, made of these exchanges.

        `embed=False` leaves its vector to the embedding queue. `at` is when it was written, by default now. `vector`
        and `model` are as for `remember`.
        """
        prepared = self.prepare(text, embed=embed, vector=vector, model=model)
        return self._gists().store(session_id, text, seq, sources=sources, prepared=prepared, at=at)

    def unsummarised(self, session_id: str) -> list[Exchange]:
        """The turns of a session that its gist does not cover, oldest first."""
        return self._gists().unsummarised(session_id)

    def gists_by_month(self) -> dict[str, list[Gist]]:
        """Current gists by the month of their session's earliest turn, UTC."""
        return self._gists().by_month()

    def _gists(self) -> Gists:
        from .gists import Gists

        return Gists(self._view, self)

    def mark_rebuilt(self, tx: Transaction, id: int) -> None:
        """Record that the memory was rebuilt from its remaining sources."""
        # Lock first: forgetting marks memories under this lock, and the opposite order could deadlock.
        self.lock(tx)
        self._changing(tx, id)
        provenance.mark_rebuilt(tx, self._workspace, "memory", id)

    def _changing(self, tx: Transaction, id: int) -> None:
        """Tell the watcher before a memory changes, and after the first of the two rows that create one."""
        if self._watch:
            self._watch(tx, "memory", id)

    @contextmanager
    def _change(self, tx: Transaction, id: int, now: str, actor: str | None) -> Iterator[None]:
        """Tell the watcher before a memory changes, and record its new state afterwards."""
        self._changing(tx, id)
        before = memory_states.read(tx, self._workspace, id)
        yield
        memory_states.record(tx, self._workspace, id, before, now, actor, self._author)

    def _move(self, id: int, status: str, actor: str | None = None, at: str | None = None) -> Memory:
        checks.whole(id, "memory id", least=1)
        checks.optional_new_name(actor, "actor")
        at = checks.optional_moment(at, "at")
        with self._engine.write() as tx:
            self.lock(tx)
            before = self._read(tx, id)
            now = checks.past(at, tx.now())
            if before.status != status:
                memory_states.require_order(tx, id, at)
                if status == "active":
                    holder = self._with_key(tx, before.kind, before.key)
                    same = tx.column(_SAME_AS, workspace=self._workspace, id=id)
                    for other in [*([] if holder is None else [holder.id]), *same]:
                        memory_states.require_order(tx, other, at)
                        with self._change(tx, other, now, actor):
                            self._retire(tx, other, now, by=id)
                with self._change(tx, id, now, actor):
                    if status == "active":
                        memory_writes.revive(tx, self._workspace, id, now)
                    else:
                        memory_writes.retire(tx, self._workspace, id, now, status)
                self.reshelve(tx, id)
                tx.note(self._workspace, "memory", id)
            return self._read(tx, id)

    def _with_key(self, tx: Transaction, kind: str, key: str | None) -> Memory | None:
        """The active memory of that kind and key."""
        return None if key is None else memory_rows.by_key(tx, self._workspace, kind, key)

    def _retire(self, tx: Transaction, id: int, now: str, by: int | None) -> None:
        self._changing(tx, id)
        memory_writes.retire(tx, self._workspace, id, now, "superseded", by)
        self.reshelve(tx, id)
        tx.note(self._workspace, "memory", id)

    def reshelve(self, tx: Transaction, id: int) -> None:
        """Move a memory to the shelf for its status. The embedding queue computes its vectors again."""
        memory = self._read(tx, id)
        memory_index.remove(tx, self._workspace, id)
        if memory.content:  # empty if its text was forgotten
            pieces = memory_index.pieces(memory.kind, memory.content, memory.data)
            memory_index.add(tx, self._workspace, memory, pieces, None)

    def _add_sources(self, tx: Transaction, id: int, sources: Sequence[Thing]) -> None:
        if sources:
            provenance.add(tx, self._workspace, "memory", id, self._read(tx, id).version, sources)

    def _read(self, tx: Transaction, id: int) -> Memory:
        return memory_rows.read(tx, self._workspace, id)

    def _read_at(self, tx: Transaction, id: int, at: str | None) -> Memory:
        """A memory as it is, or as it stood at a time."""
        checks.whole(id, "memory id", least=1)
        return self._read(tx, id) if at is None else memory_rows.read_at(tx, self._workspace, id, at)

    def _last_version(self, tx: Transaction, id: int, at: str | None) -> int:
        """The last version of a memory at a time, of all versions if none is given. MemoryNotFound without a memory."""
        found = self._read_at(tx, id, at)
        return checks.MAX_WHOLE if at is None else found.version

    # Last, because its name hides the type from annotations that follow it.
    def list(
        self,
        *,
        kind: str | None = None,
        tag: str | None = None,
        status: str = "active",
        project: str | None = None,
        since: str | None = None,
        until: str | None = None,
        author: str | None = None,
        importance: float = 0.0,
        pinned: bool = False,
        waiting: bool = False,
        derived: bool = True,
        expired: bool = False,
        at: str | None = None,
        latest: bool = False,
        limit: int = 0,
        before: int | None = None,
    ) -> list[Memory]:
        """Memories that match all given filters, newest first. Limit 0 means all.

        `author`: only those whose first version has this author.
        `waiting`: only those that need a person's approval before they enter the brief: pinned without approval, or
        made of what a tool or an import said. `derived=False` leaves out what dreaming writes of sessions: gists, eras
        and digests. `expired`: only those that have expired, which are left out otherwise.
        `at`: as they stood at that time, and filtered by that; a time in the future counts as the present. `latest`:
        the most recently changed first; not together with `at`. `before`, the id of the last memory of a page, gives
        the next page; not together with `latest`.
        """
        if status not in ("active", "superseded", "archived"):
            raise InvalidInput(f"status is {status!r}; it must be active, superseded or archived.")
        checks.whole(limit, "limit", least=0)
        filters = memory_rows.Filters(
            status=status,
            kind=checks.optional_name(kind, "kind"),
            tag=checks.optional_name(tag, "tag"),
            project=checks.optional_name(project, "project"),
            since=None if since is None else checks.moment(since, "since"),
            until=None if until is None else checks.moment(until, "until"),
            importance=checks.share(importance, "importance"),
            pinned=int(checks.flag(pinned, "pinned")),
            waiting=int(checks.flag(waiting, "waiting")),
            derived=int(checks.flag(derived, "derived")),
            expired=int(checks.flag(expired, "expired")),
            before=checks.MAX_WHOLE if before is None else checks.whole(before, "before", least=0),
            author=checks.optional_name(author, "author"),
        )
        most = limit or checks.MAX_WHOLE
        then = None if at is None else checks.moment(at, "at")
        if checks.flag(latest, "latest") and then is not None:
            raise InvalidInput("latest and at cannot be combined; leave one of them out.")
        if latest and before is not None:
            raise InvalidInput("latest and before cannot be combined; leave one of them out.")
        with self._engine.read() as tx:
            if then is None:
                return memory_rows.find(tx, self._workspace, filters, most, latest=latest)
            return memory_rows.find_at(tx, self._workspace, filters, most, then)


def _expect(memory: Memory, version: int | None) -> None:
    if version is not None and version != memory.version:
        message = f"Memory {memory.id} is at version {memory.version}, not {version}; look at it again."
        raise VersionConflict(message, f"memory {memory.id}", version, memory.version)
