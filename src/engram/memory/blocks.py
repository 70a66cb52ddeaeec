"""Blocks: named, versioned texts that agents edit themselves, and the world state, which is one of them.

Every version of a block, including the first, is a row of `block_versions`; `history` shows the steps between them. An
edit holds the block's lock while it writes, and only writes if the block is still as it was read. So no version is
lost, and every edit starts from the latest version.

Beside its text a block may have data, any JSON value. An edit that gives no data keeps it. A version that a program of
an earlier release wrote has no data of its own; the block itself still has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .. import checks, json_columns, mutexes
from ..errors import BlockExists, BlockNotFound, InvalidInput, LogBroken, VersionConflict, VersionNotFound
from ..records import WORLD, Block, BlockEdit
from ..tokens import CHARACTERS_PER_TOKEN
from . import provenance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ..storage.engine import Row, Transaction
    from ..store_view import StoreView, Watch
    from .provenance import Thing

DEFAULT_TOKENS = 4_096
#: All agents share the world state, so it may be long. The situation report shows what fits.
WORLD_TOKENS = 32_768
OVERFLOW = "overflow archived"

_COLUMNS = "id, name, content, version, max_tokens, updated_by, created_at, updated_at, data, author"
_GET = "SELECT " + _COLUMNS + " FROM blocks WHERE workspace = :workspace AND name = :name"
_LIST = "SELECT " + _COLUMNS + " FROM blocks WHERE workspace = :workspace ORDER BY name"
# Its name, its budget and when it was made have no versions. The present version may have its data only in its block.
_STOOD = """
SELECT b.id, b.name, v.content, v.version, b.max_tokens, v.actor, b.created_at, v.created_at,
  CASE WHEN v.version = b.version THEN b.data ELSE v.data END, v.author
FROM blocks b JOIN block_versions v ON v.block_id = b.id
  AND v.version = (SELECT MAX(x.version) FROM block_versions x WHERE x.block_id = b.id AND x.created_at <= :at)
WHERE b.workspace = :workspace
"""
_GET_THEN = _STOOD + "  AND b.name = :name"
_LIST_THEN = _STOOD + "ORDER BY b.name"
_INSERT = """
INSERT INTO blocks (workspace, name, content, version, max_tokens, updated_by, created_at, updated_at, data,
                    author)
VALUES (:workspace, :name, :content, 1, :max_tokens, :actor, :now, :now, :data, :author)
RETURNING id
"""
_UPDATE = """
UPDATE blocks SET content = :content, version = :version, updated_by = :actor, updated_at = :now, data = :data,
  author = :author
WHERE workspace = :workspace AND id = :id
"""
_RENAME = "UPDATE blocks SET name = :name WHERE workspace = :workspace AND id = :id"
_DELETE = "DELETE FROM blocks WHERE workspace = :workspace AND id = :id"
_INSERT_VERSION = """
INSERT INTO block_versions (block_id, version, content, reason, actor, created_at, data, author)
VALUES (:id, :version, :content, :reason, :actor, :now, :data, :author)
"""
_VERSIONS = """
SELECT version, content, reason, actor, created_at, receipt, data, author FROM block_versions
WHERE block_id = :id AND version < :before ORDER BY version DESC LIMIT :limit
"""
_VERSION = "SELECT content, receipt, data FROM block_versions WHERE block_id = :id AND version = :version"

#: How often an edit is tried again when another writer was faster.
_TRIES = 5


class _Stored(NamedTuple):
    """A block, its id, and its data as it is stored."""

    id: int
    block: Block
    data: str | None


class _Version(NamedTuple):
    """A row of `block_versions`."""

    number: int
    content: str
    reason: str
    actor: str | None
    created_at: str
    #: The receipt of the forgetting that blanked it.
    receipt: int | None
    #: JSON.
    data: str | None
    author: str | None


#: Where a text may be cut, best first.
_ENDS = (("\n",), (". ", "! ", "? ", "。", "！", "？"), (" ",))


def kept_length(content: str, max_tokens: int) -> int:
    """How many characters of a block its budget keeps.

    Up to the end of a line, else of a sentence, else of a word, if that leaves at least half of what fits: half a
    sentence says something else than the whole.
    """
    fits = max_tokens * CHARACTERS_PER_TOKEN
    if len(content) <= fits:
        return len(content)
    for ends in _ENDS:
        found = max(content.rfind(end, fits // 2, fits) + len(end) for end in ends)
        if found > fits // 2:
            return found
    return fits


class Blocks:
    def __init__(self, view: StoreView, watch: Watch | None = None) -> None:
        self._engine = view.engine
        self._workspace = view.workspace
        self._author = view.author
        self._watch = watch

    def create(
        self,
        name: str,
        content: str = "",
        max_tokens: int = DEFAULT_TOKENS,
        *,
        actor: str | None = None,
        data: object = None,
        at: str | None = None,
    ) -> Block:
        """Create a block at version 1. BlockExists when the name is taken. `data` is any JSON value.

        `at` is when it was written, by default now.
        """
        content = _check_new(name, content, actor)
        stored = _dump(data)
        at = checks.optional_moment(at, "at")
        checks.whole(max_tokens, "max_tokens", least=1, most=10_000_000)
        with self._engine.write() as tx:
            self._lock(tx, name)
            if self._find(tx, name):
                raise BlockExists(f"Block {name!r} already exists; update it, or choose another name.")
            return self._insert(tx, name, content, max_tokens, "", actor, stored, at=at)

    def get(self, name: str, *, at: str | None = None) -> Block | None:
        """The block; with `at` as it was at that time: None before its first version, blank if that was forgotten.

        A block that was renamed since is found by its present name.
        """
        then = checks.optional_moment(at, "at")
        with self._engine.read() as tx:
            if then is None:
                found = self._find(tx, name)
            else:
                checks.name(name, "block name")
                row = tx.one(_GET_THEN, workspace=self._workspace, name=name, at=then)
                found = None if row is None else _stored(row)
        return found.block if found else None

    def update(
        self,
        name: str,
        content: str | None = None,
        reason: str = "",
        *,
        actor: str | None = None,
        expected_version: int | None = None,
        data: object = None,
        at: str | None = None,
    ) -> Block:
        """Replace the whole content, the data, or both; what is None stays. `data` is any JSON value.

        VersionConflict when the block is no longer at `expected_version`. `at` is when it was edited, by default now.
        InvalidInput when that is before its last edit.
        """
        if content is None and data is None:
            raise InvalidInput("Give the new content of the block, its new data, or both.")
        text = _check(name, content or "", actor)
        stored = _dump(data)
        return self._edit(
            name, lambda old: old if content is None else text, reason, actor, expected_version, data=stored, at=at
        )

    def append(
        self,
        name: str,
        text: str,
        reason: str = "",
        *,
        separator: str = "",
        actor: str | None = None,
        expected_version: int | None = None,
        at: str | None = None,
    ) -> Block:
        """Add text at the end, after `separator`, unless the content is empty or already ends with it.

        `at` is when it was edited, as for `update`.
        """
        text = _check(name, text, actor)
        checks.text(separator, "separator", empty=True)

        def added(content: str) -> str:
            between = separator if content and not content.endswith(separator) else ""
            return content + between + text

        return self._edit(name, added, reason, actor, expected_version, at=at)

    def replace(
        self,
        name: str,
        old: str,
        new: str,
        reason: str = "",
        *,
        actor: str | None = None,
        expected_version: int | None = None,
    ) -> Block:
        """Replace a passage that occurs exactly once."""
        new = _check(name, new, actor)
        # Redacted like stored text, because the stored passage contains no secret either.
        old = checks.content(old, "text to replace", empty=True)
        if not old:
            raise InvalidInput("The text to replace is empty.")

        def replaced(content: str) -> str:
            # Overlapping occurrences count too, because it is not clear which one is meant.
            first = content.find(old)
            if first < 0:
                raise InvalidInput(f"Block {name!r} does not contain {_short(old)}; nothing was replaced.")
            if content.find(old, first + 1) >= 0:
                raise InvalidInput(
                    f"Block {name!r} contains {_short(old)} more than once; give a longer passage that occurs once."
                )
            return content[:first] + new + content[first + len(old) :]

        return self._edit(name, replaced, reason, actor, expected_version)

    def rename(self, names: Mapping[str, str], *, actor: str | None = None) -> list[Block]:
        """Rename blocks, from each key to its value, all or none. BlockExists when a new name is taken.

        Each block keeps its history, and a new version of it records the rename.
        """
        for name, new in names.items():
            _check(name, "", actor)
            checks.new_name(new, "block name")
        with self._engine.write() as tx:
            # In order of name, like every writer of several blocks.
            for name in sorted({*names, *names.values()}):
                self._lock(tx, name)
            return [self._rename(tx, self._require(tx, name), new, actor) for name, new in names.items()]

    def _rename(self, tx: Transaction, stored: _Stored, name: str, actor: str | None) -> Block:
        id, block, _ = stored
        if self._find(tx, name):
            raise BlockExists(f"Block {name!r} already exists; choose another name for block {block.name!r}.")
        self._changing(tx, id)
        tx.run(_RENAME, workspace=self._workspace, id=id, name=name)
        tx.note(self._workspace, "block", block.name)
        renamed = stored._replace(block=block._replace(name=name))
        return self._write(tx, renamed, block.content, f"renamed from {block.name}", actor)

    def delete(self, name: str) -> None:
        """Delete a block with its history."""
        with self._engine.write() as tx:
            self._lock(tx, name)
            id, *_ = self._require(tx, name)
            self._changing(tx, id, since=0)
            tx.run(_DELETE, workspace=self._workspace, id=id)
            tx.note(self._workspace, "block", name)

    def history(self, name: str, limit: int = 0, *, before: int | None = None) -> list[BlockEdit]:
        """The edits, newest first. Limit 0 means all. A block that was only created has none.

        `before`, the last version of a page, gives the next page.
        """
        return [edit for edit in self.versions(name, limit, before=before) if edit.version > 1]

    def versions(self, name: str, limit: int = 0, *, before: int | None = None) -> list[BlockEdit]:
        """The versions, newest first. Limit 0 means all. The first version has an empty `old`."""
        checks.whole(limit, "limit", least=0)
        last = checks.MAX_WHOLE if before is None else checks.whole(before, "before", least=0)
        with self._engine.read() as tx:
            found = self._versions(tx, self._require(tx, name), limit + 1 if limit else checks.MAX_WHOLE, last)
        if not found:
            return []
        earlier = [each.content for each in found[1:]] + [""]
        edits = [
            BlockEdit(
                each.number,
                old,
                each.content,
                each.reason,
                each.actor,
                each.created_at,
                each.receipt,
                _load(each.data),
                each.author,
            )
            for each, old in zip(found, earlier, strict=True)
        ]
        return edits[:limit] if limit else edits

    def version(self, name: str, version: int) -> str:
        """The content as it was at a version."""
        with self._engine.read() as tx:
            content, _ = self._version(tx, self._require(tx, name), version)
            return content

    def diff(self, name: str, a: int, b: int) -> str:
        """The unified diff from version a to version b; empty when they are equal."""
        from ..diffs import unified

        with self._engine.read() as tx:
            stored = self._require(tx, name)
            (old, _), (new, _) = self._version(tx, stored, a), self._version(tx, stored, b)
        # Most texts end without a line break. The diff mentions this only where the two versions differ in it.
        if not old.endswith("\n") and not new.endswith("\n"):
            old, new = (text and f"{text}\n" for text in (old, new))
        lines = unified(_lines(old), _lines(new), f"{name} v{a}", f"{name} v{b}")
        shown = []
        for position, line in enumerate(lines):
            shown.append(line.removesuffix("\n"))
            if position > 1 and not line.startswith("@@") and not line.endswith("\n"):
                shown.append("\\ No newline at end of file")
        return "\n".join(shown)

    def restore(
        self,
        name: str,
        version: int,
        *,
        actor: str | None = None,
        expected_version: int | None = None,
    ) -> Block:
        """Write the content and the data of an earlier version as a new version."""
        _check(name, "", actor)
        with self._engine.write() as tx:
            self._lock(tx, name)
            stored = self._require(tx, name)
            content, data = self._version(tx, stored, version, whole=True)
            _expect(stored.block, expected_version)
            return self._write(tx, stored._replace(data=data), content, f"restored version {version}", actor)

    def archive_overflow(self, name: str, *, actor: str | None = None) -> str | None:
        """Cut off what exceeds the budget and return it; None, and no write, when everything fits.

        It cuts at the end of a line, else of a sentence or a word. The removed text stays in the history.
        """
        _check(name, "", actor)
        with self._engine.write() as tx:
            self._lock(tx, name)
            stored = self._require(tx, name)
            content = stored.block.content
            kept = kept_length(content, stored.block.max_tokens)
            if kept == len(content):
                return None
            self._write(tx, stored, content[:kept], OVERFLOW, actor)
            return content[kept:]

    def verify(self, name: str) -> int:
        """Check that the versions are complete and end in the current content; how many there are."""
        with self._engine.read() as tx:
            stored = self._require(tx, name)
            versions = self._versions(tx, stored, checks.MAX_WHOLE)
        block = stored.block
        numbers = [version.number for version in reversed(versions)]
        if numbers != list(range(1, block.version + 1)):
            raise LogBroken(f"The log of block {name!r} should have versions 1 to {block.version}, but has {numbers}.")
        # A program of an earlier release writes versions without data.
        if versions[0].content != block.content or versions[0].data not in (None, stored.data):
            raise LogBroken(
                f"The log of block {name!r} does not end in the content that the block has at version {block.version}."
            )
        return len(versions)

    def put(
        self,
        name: str,
        content: str,
        reason: str,
        actor: str | None,
        expected_version: int | None,
        max_tokens: int,
        *,
        at: str | None = None,
    ) -> Block:
        """Update or create the block. A block that does not exist has version 0 for `expected_version`.

        `at` is when it was written, as for `update`.
        """
        content = _check_new(name, content, actor)
        reason = _check_reason(reason)
        at = checks.optional_moment(at, "at")
        with self._engine.write() as tx:
            return self._put(tx, name, content, reason, actor, expected_version, max_tokens, at=at)

    def derive(
        self, name: str, content: str, reason: str, actor: str, max_tokens: int, sources: Iterable[Thing]
    ) -> Block:
        """Write text derived from these sources. Clears the mark of a block that had lost text to forgetting."""
        content = _check_new(name, content, actor)
        reason = _check_reason(reason)
        with self._engine.write() as tx:
            block = self._put(tx, name, content, reason, actor, None, max_tokens)
            id, *_ = self._require(tx, name)
            provenance.add(tx, self._workspace, "block", id, block.version, sorted(sources))
            provenance.mark_rebuilt(tx, self._workspace, "block", id)
            return block

    def _put(
        self,
        tx: Transaction,
        name: str,
        content: str,
        reason: str,
        actor: str | None,
        expected_version: int | None,
        max_tokens: int,
        *,
        at: str | None = None,
    ) -> Block:
        self._lock(tx, name)
        stored = self._find(tx, name)
        if stored:
            _expect(stored.block, expected_version)
            return self._write(tx, stored, content, reason, actor, at=at)
        if expected_version:
            raise _conflict(name, expected_version, 0)
        return self._insert(tx, name, content, max_tokens, reason, actor, at=at)

    def _changing(self, tx: Transaction, id: int, since: int | None = None) -> None:
        """Tell the watcher before a block changes, and after the first of the two rows that create one."""
        if self._watch:
            self._watch(tx, "block", id, since)

    def _edit(
        self,
        name: str,
        change: Callable[[str], str],
        reason: str,
        actor: str | None,
        expected_version: int | None,
        *,
        data: str | None = None,
        at: str | None = None,
    ) -> Block:
        """Write the result of `change` as the new content, and the data if it is given.

        Two edits together may form a secret, so the whole new content is searched for secrets, before the lock is
        taken. If another writer changes the block meanwhile, the edit starts again.
        """
        reason = _check_reason(reason)
        at = checks.optional_moment(at, "at")
        for _ in range(_TRIES):
            with self._engine.read() as tx:
                seen = self._require(tx, name)
            _expect(seen.block, expected_version)
            content = checks.content(change(seen.block.content), "content", empty=True)
            with self._engine.write() as tx:
                self._lock(tx, name)
                now = self._require(tx, name)
                if (now.id, now.block.version, now.block.content) == (seen.id, seen.block.version, seen.block.content):
                    return self._write(tx, _with_data(now, data), content, reason, actor, at=at)
        # Other writers keep changing the block, so now the lock is held while the content is searched.
        with self._engine.write() as tx:
            self._lock(tx, name)
            stored = self._require(tx, name)
            _expect(stored.block, expected_version)
            content = checks.content(change(stored.block.content), "content", empty=True)
            return self._write(tx, _with_data(stored, data), content, reason, actor, at=at)

    def _insert(
        self,
        tx: Transaction,
        name: str,
        content: str,
        max_tokens: int,
        reason: str,
        actor: str | None,
        data: str | None = None,
        *,
        at: str | None = None,
    ) -> Block:
        now = checks.past(at, tx.now())
        values = {"content": content, "actor": actor, "now": now, "data": data, "author": self._author}
        ((id,),) = tx.all(_INSERT, workspace=self._workspace, name=name, max_tokens=max_tokens, **values)
        self._changing(tx, id)
        tx.run(_INSERT_VERSION, id=id, version=1, reason=reason, **values)
        tx.note(self._workspace, "block", name)
        return Block(
            name=name,
            content=content,
            version=1,
            max_tokens=max_tokens,
            updated_by=actor,
            created_at=now,
            updated_at=now,
            data=_load(data),
            author=self._author,
        )

    def _write(
        self,
        tx: Transaction,
        stored: _Stored,
        content: str,
        reason: str,
        actor: str | None,
        *,
        at: str | None = None,
    ) -> Block:
        now = checks.past(at, tx.now())
        id, old, data = stored
        if at is not None and now < old.updated_at:
            raise InvalidInput(
                f"Block {old.name!r} was last edited at {old.updated_at}; an edit at {at} cannot follow that."
            )
        block = old._replace(
            content=content,
            version=old.version + 1,
            updated_by=actor,
            updated_at=now,
            data=_load(data),
            author=self._author,
        )
        self._changing(tx, id)
        values = {"id": id, "version": block.version, "content": content, "actor": actor, "now": now, "data": data}
        values["author"] = self._author
        tx.run(_UPDATE, workspace=self._workspace, **values)
        tx.run(_INSERT_VERSION, reason=reason, **values)
        tx.note(self._workspace, "block", block.name)
        return block

    def missing(self, name: str, at: str | None = None) -> BlockNotFound:
        """The error to raise when there is no such block, or was none at a time."""
        when = "" if at is None else f" at {at}"
        return BlockNotFound(
            f"There {'is' if at is None else 'was'} no block {name!r} in workspace {self._workspace!r}{when}.",
            typed="`engram block list` lists the blocks.",
        )

    def _lock(self, tx: Transaction, name: str) -> None:
        checks.name(name, "block name")
        tx.lock(mutexes.block(self._workspace, name))

    def _find(self, tx: Transaction, name: str) -> _Stored | None:
        checks.name(name, "block name")
        row = tx.one(_GET, workspace=self._workspace, name=name)
        if row is None:
            return None
        return _stored(row)

    def _require(self, tx: Transaction, name: str) -> _Stored:
        found = self._find(tx, name)
        if found is None:
            raise self.missing(name)
        return found

    def _versions(self, tx: Transaction, stored: _Stored, limit: int, before: int = checks.MAX_WHOLE) -> list[_Version]:
        """The latest versions, newest first."""
        return [_Version(*row) for row in tx.all(_VERSIONS, id=stored.id, limit=limit, before=before)]

    def _version(
        self, tx: Transaction, stored: _Stored, version: int, *, whole: bool = False
    ) -> tuple[str, str | None]:
        """The content and the data at a version; with `whole`, VersionNotFound if some of it was forgotten."""
        checks.whole(version, "version", least=1)
        name, current = stored.block.name, stored.block.version
        found = tx.one(_VERSION, id=stored.id, version=version)
        if found is None:
            raise VersionNotFound(f"Block {name!r} has no version {version}; it is at version {current}.")
        content: str
        data: str | None
        content, receipt, data = found
        if whole and receipt is not None:
            raise VersionNotFound(f"Version {version} of block {name!r} was forgotten (receipt {receipt}).")
        return content, data

    # Last, because its name hides the type from annotations that follow it.
    def list(self, *, at: str | None = None) -> list[Block]:
        """All blocks, by name; with `at` as they were at that time."""
        then = checks.optional_moment(at, "at")
        values = {"workspace": self._workspace}
        with self._engine.read() as tx:
            rows = tx.all(_LIST, **values) if then is None else tx.all(_LIST_THEN, at=then, **values)
            return [_stored(row).block for row in rows]


class World:
    """The world state: one text about the current state of the work, shared by all agents of the workspace."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks

    def get(self) -> str:
        """The text; empty before the first write."""
        block = self._blocks.get(WORLD)
        return block.content if block else ""

    def set(
        self,
        text: str,
        updated_by: str | None = None,
        expected_version: int | None = None,
        reason: str = "",
        *,
        at: str | None = None,
    ) -> Block:
        """Replace the whole text. The first call creates the block. `at` is when it was written, by default now."""
        return self._blocks.put(WORLD, text, reason, updated_by, expected_version, WORLD_TOKENS, at=at)


def _check_new(name: object, content: object, actor: object) -> str:
    """Check the arguments; the content as it is stored. For a block that may not exist yet."""
    checks.new_name(name, "block name")
    return _check(name, content, actor)


def _check(name: object, content: object, actor: object) -> str:
    """Check the arguments; the content as it is stored. For a block that exists."""
    checks.name(name, "block name")
    checks.optional_new_name(actor, "actor")
    return checks.content(content, "content", empty=True)


def _stored(row: Row) -> _Stored:
    id, *fields, data, author = row
    return _Stored(id, Block(*fields)._replace(data=_load(data), author=author), data)


def _with_data(stored: _Stored, data: str | None) -> _Stored:
    """The block with new data, if there are any."""
    return stored if data is None else stored._replace(data=data)


def _dump(data: object) -> str | None:
    return None if data is None else json_columns.dump(data, "data")


def _load(data: str | None) -> object:
    return json_columns.load(data, "blocks.data")


def _check_reason(reason: object) -> str:
    return checks.content(reason, "reason", longest=2_000, empty=True)


def _expect(block: Block, expected: int | None) -> None:
    if expected is not None and block.version != expected:
        raise _conflict(block.name, expected, block.version)


def _conflict(name: str, expected: int, current: int) -> VersionConflict:
    if current == 0:
        problem = f"Block {name!r} is unset (version 0), but version {expected} was expected."
        remedy = "To write its first version, expect version 0 or none."
    else:
        problem = f"Block {name!r} is at version {current}, but version {expected} was expected: it has changed."
        remedy = f"Read it again, merge your change into it, and expect version {current}."
    return VersionConflict(f"{problem} {remedy}", name, expected, current)


def _lines(text: str) -> list[str]:
    """The lines with their line breaks, so that a difference in these counts too. Only `\\n` ends a line."""
    *whole, last = text.split("\n")
    return [line + "\n" for line in whole] + ([last] if last else [])


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "…")
