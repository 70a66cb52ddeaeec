"""Restores things from their snapshots, all together: rows, versions, links, provenance, search index.

The things refer to each other, so all of them are first removed and then inserted again. The caller holds the locks.
"""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING

from ... import json_columns
from ...memory import embedding_queue, memory_index, memory_states, word_index

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...storage.engine import Transaction
    from .snapshots import JournalKey, Snapshot

_MEMORY_EXISTS = "SELECT 1 FROM memories WHERE workspace = :workspace AND id = :id"
# Frees its key for the memory that gets it back. The snapshot then sets the final status.
_SET_ASIDE = """
UPDATE memories SET status = 'archived', superseded_by = NULL WHERE workspace = :workspace AND id = :id
"""
_NOT_SUPERSEDED = "UPDATE memories SET superseded_by = NULL WHERE workspace = :workspace AND superseded_by = :id"
_DELETE_VERSIONS = "DELETE FROM memory_versions WHERE memory_id = :id AND version > :since"
_DELETE_TAGS = "DELETE FROM memory_tags WHERE memory_id = :id AND CAST(workspace AS TEXT) = :workspace"
_DELETE_LINKS = "DELETE FROM memory_links WHERE workspace = :workspace AND (from_id = :id OR to_id = :id)"
_DELETE_SOURCES = """
DELETE FROM sources
WHERE workspace = :workspace AND derived_kind = :kind AND derived_id = :id AND derived_version >= :since
"""
_DELETE_REBUILD = "DELETE FROM rebuilds WHERE workspace = :workspace AND kind = :kind AND ref = :id"
_DELETE_MEMORY = "DELETE FROM memories WHERE workspace = :workspace AND id = :id"
_INSERT_MEMORY = """
INSERT INTO memories (id, workspace, kind, key, content, hash, version, importance, pinned, trust, status,
                      superseded_by, session_id, project, data, reinforced, recalled, recalled_at, expires_at,
                      created_at, updated_at)
VALUES (:id, :workspace, :kind, :key, :content, :hash, :version, :importance, :pinned, :trust, :status,
        NULL, :session_id, :project, :data, :reinforced, :recalled, :recalled_at, :expires_at, :created_at, :updated_at)
ON CONFLICT (id) DO UPDATE SET key = :key, content = :content, hash = :hash, version = :version,
  importance = :importance, pinned = :pinned, trust = :trust, status = :status, session_id = :session_id,
  project = :project, data = :data, reinforced = :reinforced, expires_at = :expires_at, updated_at = :updated_at
"""
_APPROVED = "UPDATE memories SET approved = :approved WHERE workspace = :workspace AND id = :id"
# A snapshot of an earlier release has no author. The row, if it is still there, keeps the one that it has.
_AUTHOR_OF = "SELECT author FROM memories WHERE workspace = :workspace AND id = :id"
_AUTHOR = "UPDATE memories SET author = :author WHERE workspace = :workspace AND id = :id"
_VERSION_AUTHOR = "UPDATE memory_versions SET author = :author WHERE memory_id = :id AND version = :version"
_SUPERSEDED = "UPDATE memories SET superseded_by = :by WHERE workspace = :workspace AND id = :id"
_ADD_VERSION = """
INSERT INTO memory_versions (memory_id, version, content, reason, actor, created_at, receipt)
VALUES (:id, :version, :content, :reason, :actor, :created_at, :receipt)
"""
_ADD_TAG = "INSERT INTO memory_tags (workspace, tag, memory_id) VALUES (:workspace, :tag, :id)"
_ADD_LINK = """
INSERT INTO memory_links (workspace, from_id, to_id, relation, created_at)
VALUES (:workspace, :from_id, :to_id, :relation, :created_at) ON CONFLICT (from_id, to_id, relation) DO NOTHING
"""
_ADD_SOURCE = """
INSERT INTO sources (workspace, derived_kind, derived_id, derived_version, source_kind, source_id)
VALUES (:workspace, :derived, :id, :version, :kind, :source)
"""
_ADD_REBUILD = "INSERT INTO rebuilds (workspace, kind, ref, receipt) VALUES (:workspace, :kind, :id, :receipt)"
_SESSION_EXISTS = "SELECT 1 FROM sessions WHERE workspace = :workspace AND id = :id"
_MODELS = "SELECT model, next FROM models WHERE workspace = :workspace"
_DELETE_BLOCK = "DELETE FROM blocks WHERE workspace = :workspace AND id = :id"
_DELETE_BLOCK_VERSIONS = "DELETE FROM block_versions WHERE block_id = :id AND version > :since"
_BLOCK_NAME = "SELECT name FROM blocks WHERE workspace = :workspace AND id = :id"
_INSERT_BLOCK = """
INSERT INTO blocks (id, workspace, name, content, version, max_tokens, updated_by, created_at, updated_at)
VALUES (:id, :workspace, :name, :content, :version, :max_tokens, :updated_by, :created_at, :updated_at)
ON CONFLICT (id) DO UPDATE SET name = :name, content = :content, version = :version, max_tokens = :max_tokens,
  updated_by = :updated_by, updated_at = :updated_at
"""
_ADD_BLOCK_VERSION = """
INSERT INTO block_versions (block_id, version, content, reason, actor, created_at, receipt)
VALUES (:id, :version, :content, :reason, :actor, :created_at, :receipt)
"""
_BLOCK_DATA = "UPDATE blocks SET data = :data WHERE workspace = :workspace AND id = :id"
_VERSION_DATA = "UPDATE block_versions SET data = :data WHERE block_id = :id AND version = :version"
_BLOCK_AUTHOR = "UPDATE blocks SET author = :author WHERE workspace = :workspace AND id = :id"
_BLOCK_VERSION_AUTHOR = "UPDATE block_versions SET author = :author WHERE block_id = :id AND version = :version"
_UNFOLD = """
DELETE FROM folds WHERE workspace = :workspace
  AND gist IN (SELECT memory_id FROM gists WHERE workspace = :workspace AND session_id = :session)
"""
_DELETE_GIST = "DELETE FROM gists WHERE workspace = :workspace AND session_id = :session"
_COVER = """
UPDATE sessions SET gist_seq = :seq, gist_turns = :turns WHERE workspace = :workspace AND id = :session
"""
_ADD_GIST = """
INSERT INTO gists (memory_id, workspace, session_id, at, month) VALUES (:gist, :workspace, :session, :at, :month)
"""
_ADD_FOLD = "INSERT INTO folds (workspace, target, gist, after) VALUES (:workspace, :target, :gist, :after)"


def restore(tx: Transaction, workspace: str, targets: Mapping[JournalKey, Snapshot | None]) -> None:
    """Make each thing what its snapshot says; None means that it should not exist."""
    sessions = {ref: snapshot for (kind, ref), snapshot in sorted(targets.items()) if kind == "session"}
    memories = {int(ref): snapshot for (kind, ref), snapshot in sorted(targets.items()) if kind == "memory"}
    blocks = {int(ref): snapshot for (kind, ref), snapshot in sorted(targets.items()) if kind == "block"}
    for session in sessions:
        tx.run(_UNFOLD, workspace=workspace, session=session)
        tx.run(_DELETE_GIST, workspace=workspace, session=session)
    _restore_memories(tx, workspace, memories)
    for id, snapshot in blocks.items():
        _restore_block(tx, workspace, id, snapshot)
    for session, snapshot in sessions.items():
        _restore_session(tx, workspace, session, snapshot)


def _restore_memories(tx: Transaction, workspace: str, memories: dict[int, Snapshot | None]) -> None:
    now, before = tx.now(), {id: memory_states.read(tx, workspace, id) for id in memories}
    for id, snapshot in memories.items():
        _remove_parts(tx, workspace, id, snapshot)
    for id, snapshot in memories.items():
        if snapshot is None:
            tx.run(_NOT_SUPERSEDED, workspace=workspace, id=id)
            tx.run(_DELETE_MEMORY, workspace=workspace, id=id)
        tx.note(workspace, "memory", id)
    for id, snapshot in memories.items():
        if snapshot is not None:
            _insert_memory(tx, workspace, id, snapshot)
    # Only now do all memories exist that others may refer to.
    for id, snapshot in memories.items():
        if snapshot is not None:
            _restore_references(tx, workspace, id, snapshot)
    # The past is not rewritten: the undo is one more change. All references are restored by now.
    for id, found in before.items():
        memory_states.record(tx, workspace, id, found, now)


def _remove_parts(tx: Transaction, workspace: str, id: int, snapshot: Snapshot | None) -> None:
    # The embedding queue first: a process that is computing the text's vectors must not find its entry again.
    embedding_queue.withdraw(tx, workspace, "memory", id)
    word_index.remove(tx, workspace, "memory", [id])
    _delete_provenance(tx, workspace, "memory", id, snapshot)
    tx.run(_DELETE_LINKS, workspace=workspace, id=id)
    tx.run(_DELETE_TAGS, workspace=workspace, id=id)
    tx.run(_DELETE_VERSIONS, id=id, since=snapshot["since"] if snapshot else 0)
    tx.run(_SET_ASIDE, workspace=workspace, id=id)


def _insert_memory(tx: Transaction, workspace: str, id: int, snapshot: Snapshot) -> None:
    row = dict(snapshot["row"])
    if row["session_id"] is not None and not tx.one(_SESSION_EXISTS, workspace=workspace, id=row["session_id"]):
        row["session_id"] = None
    del row["superseded_by"]
    tx.run(_INSERT_MEMORY, workspace=workspace, id=id, **row)
    tx.run(_APPROVED, workspace=workspace, id=id, approved=snapshot.get("approved"))
    for version, content, reason, actor, created_at, receipt in snapshot["versions"]:
        written = {"content": content, "reason": reason, "actor": actor, "created_at": created_at}
        tx.run(_ADD_VERSION, id=id, version=version, receipt=receipt, **written)
    if "author" in snapshot:
        tx.run(_AUTHOR, workspace=workspace, id=id, author=snapshot["author"])
    for version, author in snapshot.get("version_authors", ()):
        tx.run(_VERSION_AUTHOR, id=id, version=version, author=author)
    for tag in snapshot["tags"]:
        tx.run(_ADD_TAG, workspace=workspace, tag=tag, id=id)
    _restore_provenance(tx, workspace, "memory", id, snapshot)
    if row["content"]:
        _restore_index(tx, workspace, id, row, snapshot["vectors"])


def _restore_references(tx: Transaction, workspace: str, id: int, snapshot: Snapshot) -> None:
    by = snapshot["row"]["superseded_by"]
    if by is not None and tx.one(_MEMORY_EXISTS, workspace=workspace, id=by):
        tx.run(_SUPERSEDED, workspace=workspace, id=id, by=by)
    for from_id, to_id, relation, created_at in snapshot["links"]:
        if tx.one(_MEMORY_EXISTS, workspace=workspace, id=to_id if from_id == id else from_id):
            ends = {"from_id": from_id, "to_id": to_id}
            tx.run(_ADD_LINK, workspace=workspace, relation=relation, created_at=created_at, **ends)


def _restore_index(tx: Transaction, workspace: str, id: int, row: Snapshot, vectors: dict[str, list[str]]) -> None:
    """Index the words. Restore the vectors, unless the workspace uses another model by now."""
    shelf = word_index.shelf_of(row["kind"], row["status"])
    pieces = memory_index.pieces(row["kind"], row["content"], json_columns.load(row["data"], "memories.data"))
    place = (row["kind"], row["session_id"], row["project"], None, row["created_at"], pieces)
    entry = word_index.Entry(shelf, "memory", id, *place, author=tx.value(_AUTHOR_OF, workspace=workspace, id=id))
    items = [item for item, _ in word_index.add(tx, workspace, [entry])]
    serving, coming = tx.one(_MODELS, workspace=workspace) or (None, None)
    for model in {serving, coming} & vectors.keys():
        kept = [b64decode(vector) for vector in vectors[model]]
        if len(kept) == len(items):
            embedding_queue.insert_vectors(tx, items, embedding_queue.Vectors(model, kept))
    if serving not in vectors or len(vectors[serving]) != len(items):
        embedding_queue.enqueue(tx, workspace, "memory", id, indexed=True)


def _restore_block(tx: Transaction, workspace: str, id: int, snapshot: Snapshot | None) -> None:
    for name in tx.column(_BLOCK_NAME, workspace=workspace, id=id):
        tx.note(workspace, "block", name)
    _delete_provenance(tx, workspace, "block", id, snapshot)
    tx.run(_DELETE_BLOCK_VERSIONS, id=id, since=snapshot["since"] if snapshot else 0)
    if snapshot is None:
        tx.run(_DELETE_BLOCK, workspace=workspace, id=id)
        return
    tx.run(_INSERT_BLOCK, workspace=workspace, id=id, **snapshot["row"])
    for version, content, reason, actor, created_at, receipt in snapshot["versions"]:
        written = {"content": content, "reason": reason, "actor": actor, "created_at": created_at}
        tx.run(_ADD_BLOCK_VERSION, id=id, version=version, receipt=receipt, **written)
    tx.run(_BLOCK_DATA, workspace=workspace, id=id, data=snapshot.get("data"))
    for version, data in snapshot.get("version_data", ()):
        tx.run(_VERSION_DATA, id=id, version=version, data=data)
    if "author" in snapshot:
        tx.run(_BLOCK_AUTHOR, workspace=workspace, id=id, author=snapshot["author"])
    for version, author in snapshot.get("version_authors", ()):
        tx.run(_BLOCK_VERSION_AUTHOR, id=id, version=version, author=author)
    _restore_provenance(tx, workspace, "block", id, snapshot)
    tx.note(workspace, "block", snapshot["row"]["name"])


def _restore_session(tx: Transaction, workspace: str, session: str, snapshot: Snapshot | None) -> None:
    if snapshot is None:
        return
    seq, turns = snapshot["covered"]
    tx.run(_COVER, workspace=workspace, session=session, seq=seq, turns=turns)
    if snapshot["gist"] is None:
        return
    gist, at, month = snapshot["gist"]
    tx.run(_ADD_GIST, workspace=workspace, session=session, gist=gist, at=at, month=month)
    for target, after in snapshot["folds"]:
        tx.run(_ADD_FOLD, workspace=workspace, target=target, gist=gist, after=after)


def _delete_provenance(tx: Transaction, workspace: str, kind: str, id: int, snapshot: Snapshot | None) -> None:
    tx.run(_DELETE_SOURCES, workspace=workspace, kind=kind, id=id, since=snapshot["since"] if snapshot else 0)
    tx.run(_DELETE_REBUILD, workspace=workspace, kind=kind, id=id)


def _restore_provenance(tx: Transaction, workspace: str, derived: str, id: int, snapshot: Snapshot) -> None:
    for version, kind, source in snapshot["sources"]:
        tx.run(_ADD_SOURCE, workspace=workspace, derived=derived, id=id, version=version, kind=kind, source=source)
    if snapshot["rebuild"] is not None:
        tx.run(_ADD_REBUILD, workspace=workspace, kind=derived, id=id, receipt=snapshot["rebuild"])
