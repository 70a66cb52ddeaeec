"""Checks of memories and blocks: their versions, tags, links and sources."""

from __future__ import annotations

import shlex
from functools import partial
from typing import TYPE_CHECKING

from .. import mutexes
from ..health_records import NOTE, WRONG, Check, Finding, counted, fine, mendable
from ..safe_text import one_line

if TYPE_CHECKING:
    from ..storage.engine import Row
    from ..store_view import StoreView

_TAGS = """
SELECT COUNT(*) FROM memory_tags t
WHERE t.workspace = :workspace AND NOT EXISTS (SELECT 1 FROM memories m WHERE m.id = t.memory_id)
"""
_DELETE_TAGS = """
DELETE FROM memory_tags
WHERE CAST(workspace AS TEXT) = :workspace
  AND NOT EXISTS (SELECT 1 FROM memories m WHERE m.id = memory_tags.memory_id)
"""
_TAGS_ELSEWHERE = """
SELECT COUNT(*) FROM memory_tags t JOIN memories m ON m.id = t.memory_id
WHERE m.workspace = :workspace AND t.workspace <> :workspace
"""
_MOVE_TAGS = """
UPDATE memory_tags SET workspace = :workspace
WHERE workspace <> :workspace AND memory_id IN (SELECT id FROM memories WHERE workspace = :workspace)
"""
_LINKS = """
SELECT COUNT(*) FROM memory_links l
WHERE l.workspace = :workspace AND (
  NOT EXISTS (SELECT 1 FROM memories m WHERE m.id = l.from_id)
  OR NOT EXISTS (SELECT 1 FROM memories m WHERE m.id = l.to_id))
"""
_DELETE_LINKS = """
DELETE FROM memory_links
WHERE workspace = :workspace AND (
  NOT EXISTS (SELECT 1 FROM memories m WHERE m.id = memory_links.from_id)
  OR NOT EXISTS (SELECT 1 FROM memories m WHERE m.id = memory_links.to_id))
"""
_WRONG_MEMORIES = """
SELECT m.id FROM memories m
WHERE m.workspace = :workspace AND NOT EXISTS (
  SELECT 1 FROM memory_versions v WHERE v.memory_id = m.id AND v.version = m.version AND v.content = m.content)
ORDER BY m.id
"""
# A memory that supersedes itself is found, too.
_CIRCLES = """
SELECT m.id, n.id FROM memories m JOIN memories n ON n.id = m.superseded_by
WHERE m.workspace = :workspace AND n.superseded_by = m.id AND m.id <= n.id ORDER BY m.id
"""
# Every time has this form, so that times can be compared as texts.
_WRONG_TIMES = """
SELECT id, created_at FROM memories
WHERE workspace = :workspace AND (
  LENGTH(created_at) <> 27 OR SUBSTR(created_at, 11, 1) <> 'T' OR SUBSTR(created_at, 27, 1) <> 'Z')
ORDER BY id
"""
_WRONG_BLOCKS = """
SELECT b.name FROM blocks b
WHERE b.workspace = :workspace AND NOT EXISTS (
  SELECT 1 FROM block_versions v WHERE v.block_id = b.id AND v.version = b.version AND v.content = b.content)
ORDER BY b.name
"""
# Versions are numbered from 1 on, and none is ever deleted.
_BLOCKS_WITH_GAPS = """
SELECT b.name FROM blocks b
WHERE b.workspace = :workspace AND (
  b.version <> (SELECT COUNT(*) FROM block_versions v WHERE v.block_id = b.id)
  OR b.version <> (SELECT COUNT(*) FROM block_versions v
                   WHERE v.block_id = b.id AND v.version >= 1 AND v.version <= b.version))
ORDER BY b.name
"""
_SOURCES = """
SELECT COUNT(*) FROM sources s
WHERE s.workspace = :workspace AND (
  (s.derived_kind = 'memory' AND NOT EXISTS (SELECT 1 FROM memories m WHERE m.id = s.derived_id))
  OR (s.source_kind = 'memory' AND NOT EXISTS (SELECT 1 FROM memories m WHERE m.id = s.source_id))
  OR (s.source_kind = 'exchange' AND NOT EXISTS (SELECT 1 FROM exchanges e WHERE e.id = s.source_id)))
"""


_LEFT = "The memory is gone. What is left of it does no harm, but nothing else removes it."


def checks(view: StoreView) -> list[Check]:
    return [
        Check("memories.tags", partial(_tags, view), partial(_mend_tags, view)),
        Check("memories.links", partial(_links, view), partial(_delete_links, view)),
        Check("memories.versions", partial(_versions, view)),
        Check("memories.superseded", partial(_superseded, view)),
        Check("memories.times", partial(_times, view)),
        Check("memories.sources", partial(_sources, view)),
        Check("blocks.versions", partial(_blocks, view)),
    ]


def _tags(view: StoreView) -> Finding:
    with view.engine.read() as tx:
        lost = tx.value(_TAGS, workspace=view.workspace)
        elsewhere = tx.value(_TAGS_ELSEWHERE, workspace=view.workspace)
    if not lost and not elsewhere:
        return fine("memories.tags", "Every tag belongs to a memory.", view.workspace)
    found = [f"{counted(lost, 'tag belongs', 'tags belong')} to no memory."] if lost else []
    means = _LEFT
    if elsewhere:
        found.append(f"{counted(elsewhere, 'tag names', 'tags name')} another workspace than its memory.")
        means = "A search for the tag misses the memory."
    return mendable("memories.tags", " ".join(found), means, lost + elsewhere, view.workspace)


def _mend_tags(view: StoreView) -> int:
    with view.engine.write() as tx:
        tx.lock(mutexes.memories(view.workspace))
        return tx.run(_DELETE_TAGS, workspace=view.workspace) + tx.run(_MOVE_TAGS, workspace=view.workspace)


def _links(view: StoreView) -> Finding:
    with view.engine.read() as tx:
        number = tx.value(_LINKS, workspace=view.workspace)
    if not number:
        return fine("memories.links", "Every link leads from a memory to a memory.", view.workspace)
    return mendable(
        "memories.links", f"{counted(number, 'link leads', 'links lead')} nowhere.", _LEFT, number, view.workspace
    )


def _delete_links(view: StoreView) -> int:
    with view.engine.write() as tx:
        tx.lock(mutexes.memories(view.workspace))
        return tx.run(_DELETE_LINKS, workspace=view.workspace)


def _versions(view: StoreView) -> Finding:
    with view.engine.read() as tx:
        ids = tx.column(_WRONG_MEMORIES, workspace=view.workspace)
    if not ids:
        return fine("memories.versions", "Every memory is what its current version says.", view.workspace)
    return Finding(
        "memories.versions",
        WRONG,
        f"{counted(len(ids), 'memory is', 'memories are')} not what the current version says, such as {ids[0]}.",
        "Another program changed the text or the versions, so it is not certain what was remembered.",
        f"engram memory history {ids[0]} shows the versions; engram memory edit {ids[0]} stores a new one",
        number=len(ids),
        workspace=view.workspace,
    )


def _superseded(view: StoreView) -> Finding:
    with view.engine.read() as tx:
        rows = tx.all(_CIRCLES, workspace=view.workspace)
    if not rows:
        return fine("memories.superseded", "No two memories supersede each other.", view.workspace)
    first, second = rows[0]
    pair = "supersede each other" if first != second else "supersedes itself"
    which = f"{first} and {second}" if first != second else f"{first}"
    return Finding(
        "memories.superseded",
        WRONG,
        f"{'Memories' if first != second else 'Memory'} {which} {pair}{_and_more(rows)}.",
        "Another program changed them. Both count as replaced, so recall shows neither.",
        f"engram memory show {first}; engram remember stores what is true, engram restore FILE a backup",
        number=len(rows),
        workspace=view.workspace,
    )


def _times(view: StoreView) -> Finding:
    with view.engine.read() as tx:
        rows = tx.all(_WRONG_TIMES, workspace=view.workspace)
    if not rows:
        return fine("memories.times", "Every memory has a time.", view.workspace)
    id, at = rows[0]
    return Finding(
        "memories.times",
        WRONG,
        f"The time of memory {id} is {one_line(at, 40)!r}, which is no time{_and_more(rows)}.",
        "Another program changed it. Commands that show or sort the memory fail, or show it in a wrong place.",
        f"engram remember stores its text again, then engram forget --memory {id}; or engram restore FILE",
        number=len(rows),
        workspace=view.workspace,
    )


def _and_more(rows: list[Row]) -> str:
    return f", and {len(rows) - 1:,} more" if len(rows) > 1 else ""


def _blocks(view: StoreView) -> Finding:
    with view.engine.read() as tx:
        names = tx.column(_WRONG_BLOCKS, workspace=view.workspace)
        gaps = tx.column(_BLOCKS_WITH_GAPS, workspace=view.workspace)
    if not names and not gaps:
        return fine("blocks.versions", "Every block has all versions, and is what the newest says.", view.workspace)
    if not names:
        name = shlex.quote(gaps[0])
        return Finding(
            "blocks.versions",
            WRONG,
            f"{counted(len(gaps), 'block lacks', 'blocks lack')} earlier versions, such as {gaps[0]}.",
            "Another program deleted it, so what the block said then is lost. Its current text is right.",
            f"engram block history {name} shows what is left; engram restore FILE brings a backup back",
            number=len(gaps),
            workspace=view.workspace,
        )
    return Finding(
        "blocks.versions",
        WRONG,
        f"{counted(len(names), 'block differs from its', 'blocks differ from their')} newest version, such as "
        f"{names[0]}.",
        "The log of the block is broken, so its earlier states are not certain.",
        f"engram block verify {names[0]}; engram block set {names[0]} stores a new version",
        number=len(names),
        workspace=view.workspace,
    )


def _sources(view: StoreView) -> Finding:
    with view.engine.read() as tx:
        number = tx.value(_SOURCES, workspace=view.workspace)
    if not number:
        return fine("memories.sources", "Every source exists.", view.workspace)
    return Finding(
        "memories.sources",
        NOTE,
        f"{counted(number, 'entry names', 'entries name')} a source or a result that is gone.",
        "Forgetting looks at fewer things than it should.",
        "Nothing needs to be done unless another program changed the store.",
        number=number,
        workspace=view.workspace,
    )
