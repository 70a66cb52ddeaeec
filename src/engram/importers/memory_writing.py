"""Writes memories and blocks.

A memory is known by its id in the system it comes from. If its text there has changed, it gets a new version, unless it
was changed here as well. One that was forgotten here stays forgotten. All memories of a format belong to one session,
so `engram forget --source FORMAT` takes them away again.

A block with a name that is taken here gets another name: nothing is overwritten.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from .. import checks
from ..errors import EngramError, InvalidInput, MemoryNotFound
from ..import_records import BLOCK, MEMORY, SESSION, PastSession, Seen
from ..redact import redact
from . import texts
from .session_writing import TOO_OLD, WAS_FORGOTTEN

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..client import Engram
    from ..records import Block, Memory
    from .asked import Asked
    from .items import BlockItem, BlockVersion, MemoryItem
    from .tally import Tally

#: Who wrote what an import writes. Dreaming may replace a block of this author.
ACTOR = "import"
CHANGED_HERE = "changed here since its import"
ELSEWHERE = "can only be imported where the store is: run this on the server's machine"
#: Memories that are written in one transaction.
BATCH = 50
_MOST_TAGS = 40
#: Kinds that dreaming makes of other things; one of another system is only a note.
_DERIVED = ("gist", "digest")
_DEFAULT_IMPORTANCE = 0.5
#: The external id of the session that the memories of a format belong to.
_HOME = "engram:import:{}"
ERA = "era"
_MONTH = re.compile(r"\d{4}-(?:0[1-9]|1[0-2])")


class _Ready(NamedTuple):
    """A memory that can be written."""

    item: MemoryItem
    text: str
    at: str | None


class MemoryWriter:
    def __init__(self, eng: Engram, asked: Asked, tally: Tally) -> None:
        self._eng = eng
        self._asked = asked
        self._source = asked.source
        self._tally = tally
        self._times = texts.Times()
        self._home: str | None = None
        self._waiting: list[_Ready] = []
        self._ids: set[int] = set()
        #: Eras of months. They are written at the end, when the gists that they tell are there.
        self._eras: list[_Ready] = []
        #: Links between memories, by their ids in the other system. They are made at the end, when both are there.
        self._links: list[tuple[str, str, str]] = []

    def add(self, item: MemoryItem) -> None:
        if self._is_remote(f"memory {item.id}"):
            return
        text, at = texts.storable(item.text), self._times.known(item.at)
        self._links += [(item.id, other, relation) for other, relation in item.links]
        if not text:
            self._tally.leave_out("no text", f"memory {item.id}")
        elif self._asked.since is not None and at is not None and at < self._asked.since:
            self._tally.leave_out(TOO_OLD, f"memory {item.id}")
        elif not self._is_first(item):
            self._tally.leave_out("the same id twice", f"memory {item.id}")
        elif not self._is_known(item, text, at):
            if item.kind == ERA and item.key is not None and _MONTH.fullmatch(item.key):
                self._eras.append(_Ready(item, text, at))
                return
            self._waiting.append(_Ready(item, text, at))
            if len(self._waiting) >= BATCH:
                self.flush()

    def _is_remote(self, where: str) -> bool:
        """Whether the store is a server's, where neither can be written in one transaction with its record."""
        if self._eng.settings.is_remote:
            self._tally.leave_out(ELSEWHERE, where)
        return self._eng.settings.is_remote

    def _is_first(self, item: MemoryItem) -> bool:
        """Whether no memory of this source had the same id. A source can be long, so only hashes are kept."""
        id = hash(item.id)
        if id in self._ids:
            return False
        self._ids.add(id)
        return True

    def flush(self) -> None:
        """Write the memories that wait: together, or one by one if one of them cannot be written."""
        batch, self._waiting = self._waiting, []
        if not batch:
            return
        if self._asked.dry_run:
            new = sum(self._same(each) is None for each in batch)
            self._tally.add("memories", new)
            self._tally.add("known_memories", len(batch) - new)
            return
        try:
            self._write(batch)
        except EngramError:
            for each in batch:
                self._try(f"memory {each.item.id}", lambda each=each: self._write([each]))  # type: ignore[misc]

    def finish(self) -> None:
        """Write what waits, the eras, and the links."""
        self.flush()
        self._ids.clear()
        eras, self._eras = self._eras, []
        for era in eras:
            self._try(f"memory {era.item.id}", lambda era=era: self._era(era))  # type: ignore[misc]
        links, self._links = self._links, []
        for begin, end, relation in links:
            ids = [self._eng.imports.seen(self._source, MEMORY, ref) for ref in (begin, end)]
            if None in ids or self._asked.dry_run:
                continue
            with suppress(EngramError):
                first, second = (int(each.id) for each in ids if each is not None)
                made = (first, second, texts.name(relation) or "related")
                if made not in self._eng.memories.links(first):
                    self._eng.memories.link(*made)

    def add_block(self, item: BlockItem) -> None:
        if self._is_remote(f"block {item.name}"):
            return
        self._try(f"block {item.name}", lambda: self._block(item))

    def _try(self, where: str, write: Callable[[], None]) -> None:
        """Write something; if that is refused, it is left out."""
        try:
            write()
        except EngramError as error:
            self._tally.leave_out(f"refused: {error.message}", where)

    def _write(self, batch: list[_Ready]) -> None:
        """Write memories, all or none. Their texts are searched for secrets before the transaction begins."""
        home = self._session()
        batch = [each for each in batch if not self._is_here(each)]
        prepared = [self._eng.memories.prepare(each.text, embed=False) for each in batch]
        with self._eng.write():
            for (item, _, at), ready in zip(batch, prepared, strict=True):
                memory = self._eng.memories.remember(
                    ready.content,
                    kind=_kind(item),
                    key=texts.name(item.key),
                    tags=_tags(item),
                    importance=_DEFAULT_IMPORTANCE if item.importance is None else min(1.0, max(0.0, item.importance)),
                    session_id=home,
                    project=texts.name(item.project or self._asked.project),
                    data=dict(item.data) or None,
                    trust=item.trust,
                    prepared=ready,
                    at=at,
                )
                if item.is_archived and memory.status == "active" and memory.session_id == home:
                    self._eng.memories.archive(memory.id, actor=ACTOR)
                made = int(memory.session_id == home)
                self._eng.imports.note(self._source, MEMORY, item.id, Seen(str(memory.id), made, at, made=made))
        self._tally.add("memories", len(batch))
        for each in batch:
            if each.at is not None:
                self._tally.imported_at(each.at)

    def _is_here(self, ready: _Ready) -> bool:
        """Whether somebody has stored the same before. It stays theirs: a later change in the other system makes a
        memory of its own."""
        same = self._same(ready)
        if same is None:
            return False
        self._eng.imports.note(self._source, MEMORY, ready.item.id, Seen(str(same.id), 0, ready.at, made=0))
        self._tally.add("known_memories")
        return True

    def _same(self, ready: _Ready) -> Memory | None:
        return self._eng.memories.same(ready.text, _kind(ready.item), texts.name(ready.item.key))

    def _era(self, ready: _Ready) -> None:
        item, text, at = ready
        self._tally.add("memories")
        if self._asked.dry_run or item.key is None:
            return
        sessions = item.data.get("sessions")
        number = max(0, sessions) if isinstance(sessions, int) else 0
        with self._eng.write():
            era = self._eng.eras.store(item.key, text, number, at=at, embed=False)
            self._eng.imports.note(self._source, MEMORY, item.id, Seen(str(era.id), era.version, at))

    def _is_known(self, item: MemoryItem, text: str, at: str | None) -> bool:
        """Whether the memory was imported before. If its text has changed since, it gets a new version."""
        seen = self._eng.imports.seen(self._source, MEMORY, item.id)
        if seen is None:
            return False
        try:
            memory = self._eng.memories.get(int(seen.id))
        except MemoryNotFound:
            if self._asked.again:
                return False
            self._tally.leave_out(WAS_FORGOTTEN, f"memory {item.id}")
            return True
        told = redact(text)
        if not seen.made:  # somebody else's, which said the same
            if memory.content != told:
                return False
            self._tally.add("known_memories")
            return True
        is_ours = memory.version == seen.records and memory.status == "active"
        if item.is_archived and is_ours:
            self._tally.add("updated")
            if not self._asked.dry_run:
                self._eng.memories.archive(memory.id, actor=ACTOR)
        elif memory.content == told or (
            not is_ours and any(version.content == told for version in self._eng.memories.history(memory.id))
        ):
            self._tally.add("known_memories")
        elif not is_ours:
            self._tally.leave_out(CHANGED_HERE, f"memory {item.id}")
        else:
            self._tally.add("updated")
            if not self._asked.dry_run:
                self._try(f"memory {item.id}", lambda: self._update(item, memory.id, text, at))
        return True

    def _update(self, item: MemoryItem, id: int, text: str, at: str | None) -> None:
        prepared = self._eng.memories.prepare(text, embed=False)
        with self._eng.write():
            memory = self._eng.memories.update(
                id, prepared.content, reason="it was imported again", actor=ACTOR, tags=_tags(item), prepared=prepared
            )
            self._eng.imports.note(self._source, MEMORY, item.id, Seen(str(id), memory.version, at))

    def _session(self) -> str:
        """The session that all memories of this format belong to."""
        if self._home is None:
            now = self._times.now
            ref = f"{self._source}/memories"
            session = PastSession(
                source=self._source,
                ref=ref,
                type=self._source,
                started_at=now,
                heartbeat_at=now,
                external_id=_HOME.format(self._source),
                name=f"Import from {self._source}",
                summary=f"Import memories from {self._source}",
                outcome="Imported; they wait for approval",
                before=self._eng.imports.seen(self._source, SESSION, ref),
            )
            # Forgetting the session took its memories. New ones need it again.
            if session.before is not None and self._eng.sessions.find(_HOME.format(self._source), self._source) is None:
                self._eng.imports.release(self._source, SESSION, ref)
                session = session._replace(before=None)
            (seen,) = self._eng.imports.write([session])
            self._home = seen.id
        return self._home

    def _block(self, item: BlockItem) -> None:
        versions = [version for version in item.versions if len(version.content) <= checks.MAX_TEXT]
        if len(versions) < len(item.versions):
            self._tally.leave_out("longer than a text may be", f"a version of block {item.name}")
        seen = self._eng.imports.seen(self._source, BLOCK, item.name)
        block = None if seen is None else self._eng.blocks.get(seen.id)
        if seen is not None and block is None and not self._asked.again:
            self._tally.leave_out(WAS_FORGOTTEN, f"block {item.name}")
        elif seen is not None and block is not None:
            self._extend(item, versions, seen, block)
        elif versions:
            self._create(item, versions)

    def _create(self, item: BlockItem, versions: list[BlockVersion]) -> None:
        wanted = texts.name(item.name, "block name")
        if wanted is None:
            raise InvalidInput("The block has no name that can be used.")
        name = wanted if self._eng.blocks.get(wanted) is None else f"{wanted}-{self._source}"
        if name != wanted:
            self._tally.note(f"There is a block {wanted!r} here already. The imported one is the block {name!r}.")
        self._tally.add("blocks")
        if self._asked.dry_run:
            return
        first, *others = versions
        with self._eng.write():
            options = {} if item.max_tokens is None else {"max_tokens": min(max(1, item.max_tokens), 10_000_000)}
            self._eng.blocks.create(
                name,
                texts.storable(first.content),
                actor=_actor(first),
                at=self._times.known(first.at),
                data=None if others else item.data,
                **options,
            )
            self._edit(name, others, item.data)
            made = self._eng.blocks.get(name)
            self._note_block(item, name, len(versions), 0 if made is None else made.version)

    def _extend(self, item: BlockItem, versions: list[BlockVersion], seen: Seen, block: Block) -> None:
        """Add the versions that are new in the other system, unless the block was edited here since its import."""
        content, version = block.content, block.version
        if not versions:
            return
        new = versions[seen.records :]
        if not new and redact(texts.storable(versions[-1].content)) != content:
            new = versions[-1:]  # a system that keeps no versions has another text now
        if not new:
            return
        if version != seen.seq:
            self._tally.leave_out(CHANGED_HERE, f"block {item.name}")
            return
        self._tally.add("blocks")
        if self._asked.dry_run:
            return
        with self._eng.write():
            self._edit(seen.id, new, item.data)
            made = self._eng.blocks.get(seen.id)
            self._note_block(item, seen.id, len(versions), 0 if made is None else made.version)

    def _edit(self, name: str, versions: list[BlockVersion], data: object) -> None:
        """Write versions one after the other, the last one with the data.

        A time before that of the last edit is not possible here.
        """
        latest = ""
        for number, version in enumerate(versions, 1):
            latest = max(latest, self._times.known(version.at) or "")
            before = self._eng.blocks.get(name)
            if before is not None and latest:
                latest = max(latest, before.updated_at)
            self._eng.blocks.update(
                name,
                texts.storable(version.content),
                texts.cut(texts.storable(version.reason), 500),
                actor=_actor(version),
                at=latest or None,
                data=data if number == len(versions) else None,
            )

    def _note_block(self, item: BlockItem, name: str, records: int, version: int) -> None:
        self._eng.imports.note(self._source, BLOCK, item.name, Seen(name, records, None, version))


def _kind(item: MemoryItem) -> str:
    kind = texts.name(item.kind) or "note"
    return "note" if kind in _DERIVED else kind


def _actor(version: BlockVersion) -> str:
    return texts.name(version.actor) or ACTOR


def _tags(item: MemoryItem) -> list[str]:
    return sorted({tag for each in item.tags if (tag := texts.name(each)) is not None})[:_MOST_TAGS]
