"""Removes from things that stay the text that may have come from forgotten things.

A thing may be derived from another one that is also only cleaned, and two memories may be each other's source.
Therefore everything is cleaned together, in memory, until nothing more is lost. Text that one thing loses counts as
lost for things derived from it, and its remaining text counts as kept. Only then is anything written.

A statement that a pass extracted is one sentence. If it repeats a memory that goes, it goes too.

A block that a pass derives may also be written by a person or an agent. The text of such a version is their own. It
loses only lines that contain forgotten text, and lines that repeat what a derived version before it loses.

A merged memory also has the tags, data and key of the memories it was merged from. What it has only from memories that
go is removed too. The tags that go are also removed from the memory's earlier states.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .. import json_columns, mutexes, sentences
from ..memory import citations, gists, memory_states, memory_tags, provenance
from ..memory.fingerprints import fingerprint
from ..memory.memories import MERGED, Memories
from ..memory.word_index import OWN_SHELVES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Set

    from ..memory.provenance import Thing
    from ..storage.engine import Row, Transaction

_MEMORY = "SELECT kind, version FROM memories WHERE workspace = :workspace AND id = :id"
_BLOCK = "SELECT name, version FROM blocks WHERE workspace = :workspace AND id = :id"
_EXCHANGE_TEXT = "SELECT content FROM exchanges WHERE workspace = :workspace AND id = :id"
_MEMORY_TEXTS = """
SELECT content, version, reason, NULL, NULL FROM memory_versions WHERE memory_id = :id ORDER BY version
"""
# The data of a version that a program of an earlier release wrote are only in the block's own row.
_BLOCK_TEXTS = """
SELECT v.content, v.version, v.reason, CASE WHEN v.version = b.version THEN COALESCE(v.data, b.data) ELSE v.data END,
  v.actor
FROM block_versions v JOIN blocks b ON b.id = v.block_id WHERE v.block_id = :id ORDER BY v.version
"""
_DERIVED_VERSIONS = """
SELECT DISTINCT derived_version FROM sources WHERE workspace = :workspace AND derived_kind = :kind AND derived_id = :id
"""
_REWRITE_MEMORY_VERSION = """
UPDATE memory_versions SET content = :content, reason = :reason, receipt = :receipt
WHERE memory_id = :id AND version = :version
"""
REWRITE_BLOCK_VERSION = """
UPDATE block_versions SET content = :content, reason = :reason, data = :data, receipt = :receipt
WHERE block_id = :id AND version = :version
"""
_REWRITE_MEMORY = """
UPDATE memories SET content = :content, hash = :hash, data = NULL, updated_at = :now
WHERE workspace = :workspace AND id = :id
"""
_IS_MERGED = """
SELECT 1 FROM memory_links WHERE workspace = :workspace AND to_id = :id AND relation = :relation LIMIT 1
"""
_LABELS = "SELECT key, data FROM memories WHERE workspace = :workspace AND id = :id"
_DROP_TAG = "DELETE FROM memory_tags WHERE memory_id = :id AND CAST(workspace AS TEXT) = :workspace AND tag = :tag"
_SET_LABELS = "UPDATE memories SET key = :key, data = :data WHERE workspace = :workspace AND id = :id"
_REWRITE_BLOCK = """
UPDATE blocks SET content = :content, data = :data, updated_at = :now WHERE workspace = :workspace AND id = :id
"""

#: Actors whose texts are derived from other things.
_DERIVING = ("dream", "import")


class Version(NamedTuple):
    number: int
    content: str
    reason: str
    #: JSON; None for a memory.
    data: str | None = None
    #: Whether a person or an agent wrote the text of this block.
    own: bool = False


class _Labels(NamedTuple):
    """What memories have besides their text."""

    ids: set[str]
    tags: set[str]
    keys: set[str]
    #: JSON texts.
    data: set[str]


class _History:
    """A thing's versions while it is cleaned."""

    def __init__(self, label: str, current: int, first: int, was: list[Version], sources: set[Thing]) -> None:
        #: A memory's kind or a block's name.
        self.label = label
        self.current = current
        #: The first version with a forgotten source.
        self.first = first
        self.was = was
        self.now = list(was)
        self.sources = sources
        self.lost: list[str] = []

    @property
    def content(self) -> str:
        return self.latest.content

    @property
    def latest(self) -> Version:
        return next(version for version in self.now if version.number == self.current)

    def replace(self, position: int, content: str, reason: str, data: str | None = None) -> bool:
        """Replace one version's text, reason and data; whether that changed anything."""
        old = self.now[position]
        self.now[position] = Version(old.number, content, reason, data, old.own)
        if content != old.content:
            left = set(sentences.parts(content))
            self.lost += [sentence for sentence in sentences.parts(old.content) if sentence not in left]
        return self.now[position] != old


class Cleaning:
    """What is left of things that lose a source."""

    def __init__(self, tx: Transaction, workspace: str, gone: Set[Thing], touched: Mapping[Thing, int]) -> None:
        self._tx = tx
        self._workspace = workspace
        self._gone = gone
        self._texts: dict[Thing, _History] = {}
        for thing, first in sorted(touched.items()):
            text = self._load(thing, first)
            if text is not None:
                self._texts[thing] = text
        # Every round only removes text, so this ends.
        while any([self._clean_once(thing, text) for thing, text in self._texts.items()]):
            pass

    @property
    def touched(self) -> list[Thing]:
        """The things that are cleaned and exist."""
        return list(self._texts)

    @property
    def emptied(self) -> set[Thing]:
        """Memories without any text left. Not blocks, because others know their names, and not gists, which are written
        again."""
        return {
            thing
            for thing, text in self._texts.items()
            if _is_memory(thing) and text.label not in OWN_SHELVES and not text.content
        }

    def write(self, memories: Memories, receipt: int, now: str) -> None:
        """Write the cleaned versions, and the labels of merged memories."""
        tx = self._tx
        for (kind, id), text in self._texts.items():
            changed = [new for old, new in zip(text.was, text.now, strict=True) if old != new]
            for version, content, reason, data, _ in changed:
                values = {"id": id, "version": version, "content": content, "reason": reason, "receipt": receipt}
                if kind == "block":
                    tx.run(REWRITE_BLOCK_VERSION, data=data, **values)
                else:
                    tx.run(_REWRITE_MEMORY_VERSION, **values)
            if any(version.number == text.current for version in changed):
                self._write_current((kind, id), text, memories, now)
            if kind == "memory":
                self._remove_labels(id, text.sources)

    def _write_current(self, thing: Thing, text: _History, memories: Memories, now: str) -> None:
        tx, (kind, id) = self._tx, thing
        current = {"workspace": self._workspace, "id": id, "content": text.content, "now": now}
        if kind == "block":
            tx.run(_REWRITE_BLOCK, data=text.latest.data, **current)
            tx.note(self._workspace, kind, text.label)
            return
        tx.run(_REWRITE_MEMORY, hash=fingerprint(text.content), **current)
        if text.label in OWN_SHELVES:
            memory_tags.drop(tx, self._workspace, id)
            memory_states.remove_tags(tx, id, None)
        if text.label == gists.KIND:
            gists.uncover(tx, self._workspace, id)
        memories.reshelve(tx, id)
        tx.note(self._workspace, kind, id)

    def _remove_labels(self, id: int, sources: set[Thing]) -> None:
        """Remove the tags, key and data that a merged memory has only from memories that go.

        Other memories have these from their writer, and keep them.
        """
        tx, workspace = self._tx, self._workspace
        if not tx.one(_IS_MERGED, workspace=workspace, id=id, relation=MERGED):
            return
        went = self._labels((source for source in sources if source in self._gone), earlier=True)
        if not went.ids:
            return
        left = self._labels(source for source in sources if source not in self._gone)
        own = self._labels([("memory", id)])
        for tag in sorted(own.tags & went.tags - left.tags):
            tx.run(_DROP_TAG, workspace=workspace, id=id, tag=tag)
        memory_states.remove_tags(tx, id, went.tags - left.tags)
        ((key, data),) = tx.all(_LABELS, workspace=workspace, id=id)
        kept_key = None if key in went.keys - left.keys else key
        kept_data = None if data is None else _without_lost_data(data, went, left)
        if (kept_key, kept_data) != (key, data):
            tx.run(_SET_LABELS, workspace=workspace, id=id, key=kept_key, data=kept_data)
        if own.tags & went.tags - left.tags or (kept_key, kept_data) != (key, data):
            tx.note(workspace, "memory", id)

    def _labels(self, things: Iterable[Thing], *, earlier: bool = False) -> _Labels:
        """The labels of memories; with `earlier`, also the tags that they had before."""
        tx, workspace = self._tx, self._workspace
        labels = _Labels(set(), set(), set(), set())
        for id in sorted(id for kind, id in things if kind == "memory"):
            for key, data in tx.all(_LABELS, workspace=workspace, id=id):
                labels.ids.add(str(id))
                labels.tags.update(memory_tags.of(tx, workspace, id))
                if earlier:
                    labels.tags.update(memory_states.tags_ever(tx, id))
                labels.keys.update([] if key is None else [key])
                labels.data.update([] if data is None else [data])
        return labels

    def _load(self, thing: Thing, first: int) -> _History | None:
        row = self._label_and_version(thing)
        if row is not None and not _is_memory(thing):
            name, _ = row
            # Another writer must not write back the text that it has read.
            self._tx.lock(mutexes.block(self._workspace, name))
            row = self._label_and_version(thing)
        if row is None:  # a block that was deleted since
            return None
        label, current = row
        sources = provenance.of(self._tx, self._workspace, *thing)
        derived = self._derived_versions(thing)
        was = [
            Version(
                number,
                content,
                reason,
                data,
                not _is_memory(thing) and number not in derived and actor not in _DERIVING,
            )
            for content, number, reason, data, actor in self._versions(thing)
        ]
        return _History(label, current, first, was, sources)

    def _derived_versions(self, thing: Thing) -> set[int]:
        tx, (kind, id) = self._tx, thing
        return set(tx.column(_DERIVED_VERSIONS, workspace=self._workspace, kind=kind, id=id))

    def _label_and_version(self, thing: Thing) -> Row | None:
        """A memory's kind or a block's name, and the current version."""
        tx, (kind, id) = self._tx, thing
        if kind == "block":
            return tx.one(_BLOCK, workspace=self._workspace, id=id)
        return tx.one(_MEMORY, workspace=self._workspace, id=id)

    def _versions(self, thing: Thing) -> list[Row]:
        tx, (kind, id) = self._tx, thing
        return tx.all(_BLOCK_TEXTS, id=id) if kind == "block" else tx.all(_MEMORY_TEXTS, id=id)

    def _clean_once(self, thing: Thing, text: _History) -> bool:
        """Clean a thing's versions; whether anything changed."""
        cleaned: list[tuple[str, str, str | None]]
        if _is_memory(thing) and (text.label in OWN_SHELVES or self._repeats_lost(thing, text)):
            cleaned = [("", "", None) for _ in text.now]
        else:
            matcher = citations.SourceMatcher(self._lost_texts(text.sources), self._kept_texts(text.sources))
            inherited = Inherited()
            cleaned = []
            for was, version in zip(text.was, text.now, strict=True):
                cleaned.append(self._cleaned_version(thing, text, version, matcher, inherited))
                if not _is_memory(thing) and was.number >= text.first:
                    inherited.note(was, cleaned[-1][0])
                elif not _is_memory(thing):
                    inherited.note(was, was.content)
        changed = False
        for position, version in enumerate(text.now):
            if version.number >= text.first:
                changed |= text.replace(position, *cleaned[position])
        return changed

    def _repeats_lost(self, thing: Thing, text: _History) -> bool:
        """Whether this is an extracted statement that repeats a memory that goes. Its sentence cannot be parted."""
        _, id = thing
        lost = any(
            kind == "memory"
            and ((kind, ref) in self._gone or ((kind, ref) in self._texts and self._texts[kind, ref].lost))
            for kind, ref in text.sources
        )
        tx = self._tx
        return (
            lost
            and memory_tags.EXTRACTED in memory_tags.of(tx, self._workspace, id)
            and not tx.one(_IS_MERGED, workspace=self._workspace, id=id, relation=MERGED)
        )

    def _cleaned_version(
        self,
        thing: Thing,
        text: _History,
        version: Version,
        matcher: citations.SourceMatcher,
        inherited: Inherited,
    ) -> tuple[str, str, str | None]:
        if not _is_memory(thing):
            named = {citations.handle(source) for source in text.sources if self._is_lost(source)}
            content = without_lost_lines(version.content, named, matcher, inherited if version.own else None)
        else:
            content = matcher.remove_lost(version.content)
        reason = matcher.remove_lost(version.reason) if content == version.content else ""
        return content, reason, _without_lost_values(version.data, matcher)

    def _is_lost(self, source: Thing) -> bool:
        """Whether a line that names this source is lost. A source that is cleaned itself may have lost that part."""
        return source in self._gone or source in self._texts

    def _lost_texts(self, sources: Iterable[Thing]) -> list[str]:
        lost: list[str] = []
        for source in sorted(sources):
            if source in self._gone:
                lost += self._contents(source)
            elif source in self._texts:
                lost += self._texts[source].lost
        return lost

    def _kept_texts(self, sources: Iterable[Thing]) -> list[str]:
        kept: list[str] = []
        for source in sorted(sources):
            if source in self._texts:
                kept += [version.content for version in self._texts[source].now]
            elif source not in self._gone:
                kept += self._contents(source)
        return kept

    def _contents(self, thing: Thing) -> list[str]:
        tx, (kind, id) = self._tx, thing
        if kind == "exchange":
            return tx.column(_EXCHANGE_TEXT, workspace=self._workspace, id=id)
        return [content for content, *_ in self._versions(thing)]


def _is_memory(thing: Thing) -> bool:
    kind, _ = thing
    return kind == "memory"


def _without_lost_data(data: str, went: _Labels, left: _Labels) -> str | None:
    """A merged memory's data without that of memories that go; None when nothing is left."""
    lost = [json_columns.load(each, "memories.data") for each in went.data - left.data]

    def rest(value: object) -> object:
        if value in lost:
            return None
        if isinstance(value, dict) and isinstance(value.get("merged"), dict):
            parts = {id: rest(part) for id, part in value["merged"].items() if id not in went.ids}
            parts = {id: part for id, part in parts.items() if part is not None}
            if parts != value["merged"]:
                days = sorted(part["said"] for part in parts.values() if isinstance(part, dict) and "said" in part)
                return {"merged": parts, **({"said": days[-1]} if days else {})} if parts else None
        return value

    known = json_columns.load(data, "memories.data")
    found = rest(known)
    return data if found == known else None if found is None else json_columns.dump(found, "data")


def _without_lost_values(data: str | None, matcher: citations.SourceMatcher) -> str | None:
    """A block's data without the sentences that came from a lost text. No pass writes data: they are a writer's own
    words, which may quote what was said."""
    if data is None:
        return None

    def rest(value: object) -> object:
        if isinstance(value, str):
            # A short value, such as a mood, is in many texts.
            return matcher.remove_lost(value) if len(value) >= citations.TELLING else value
        if isinstance(value, list):
            return [rest(each) for each in value]
        if isinstance(value, dict):
            return {rest(name): rest(each) for name, each in value.items()}
        return value

    known = json_columns.load(data, "blocks.data")
    found = rest(known)
    return data if found == known else json_columns.dump(found, "data")


#: A line of a person that has so many words in a row from a lost line is that line, edited.
_RUN = 4


class Inherited:
    """What derived versions of a block have lost, so that a person's later version does not keep it."""

    def __init__(self) -> None:
        #: Lines that a person or an agent wrote first, and lines that a derived version still has.
        self._kept: set[str] = set()
        self._lost: set[str] = set()
        self._runs: set[tuple[str, ...]] = set()

    def note(self, was: Version, left: str) -> None:
        """A version as it was, and what is left of its text."""
        stays = set(map(_words, left.split("\n")))
        if was.own:
            self._kept |= stays - self._lost
            return
        self._kept |= stays
        for line in set(map(_words, was.content.split("\n"))) - self._kept:
            self._lost.add(line)
            if len(line) >= citations.TELLING:
                self._runs.update(_runs(line))

    def has(self, line: str) -> bool:
        """Whether the line repeats a lost one, perhaps edited."""
        words = _words(line)
        if not words or words in self._kept:
            return False
        parts = words.split(" ")
        return words in self._lost or any(
            tuple(parts[start : start + length]) in self._runs
            for length in range(1, _RUN + 1)
            for start in range(len(parts) - length + 1)
        )


def _words(line: str) -> str:
    """The words of a line without its sources. Numbers are left out, because many lines begin with the same day."""
    return " ".join(word for word in citations.plain(citations.bare(line)).split(" ") if not word.isdigit())


def _runs(line: str) -> set[tuple[str, ...]]:
    words = line.split(" ")
    length = min(_RUN, len(words))
    return {tuple(words[start : start + length]) for start in range(len(words) - length + 1)}


def without_lost_lines(
    text: str, lost: Set[str], matcher: citations.SourceMatcher, inherited: Inherited | None = None
) -> str:
    """A block's text without the lines of lost sources.

    Empty when no line of a derived text names a source. With `inherited`, the text is a person's or an agent's own.
    """
    lines = text.split("\n")
    if inherited is None and not any(map(citations.handles, lines)):
        return ""
    kept = []
    for line in lines:
        named = citations.handles(line)
        left = [each for each in named if each not in lost]
        if len(left) == len(named):
            # A heading has no source. A whole sentence without a source may still be a lost one.
            copied = len(line) >= citations.TELLING and matcher.came_from_lost(line)
            if named or not (copied or (inherited and inherited.has(line))):
                kept.append(line)
        elif left and not matcher.came_from_lost(citations.bare(line)):
            kept.append(citations.cited(citations.bare(line), left))
    return "\n".join(kept)
