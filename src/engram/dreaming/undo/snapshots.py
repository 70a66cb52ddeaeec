"""Snapshots: a memory, a block, or how far a session is summarised, as JSON with all rows that belong to it.

An undo restores a snapshot exactly, with numbers and times. Versions are only ever added, and sources only to the
latest one. A snapshot therefore leaves out what will still exist: it has the versions after `since` and the sources
from `since` on, and stays small however long a history is. The number of recalls is restored only for a memory that was
deleted, because a recall is no change. A state is the part of a snapshot that shows later changes. It has hashes in
place of texts, so it contains none.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from functools import partial
from typing import TYPE_CHECKING, Any

from ... import json_columns
from . import shapes

if TYPE_CHECKING:
    from ...storage.engine import Row, Transaction

Snapshot = dict[str, Any]
#: Returned for a snapshot that cannot be read.
DAMAGED: Any = object()
#: A kind (`memory`, `block`, `session`) and an id, as text.
JournalKey = tuple[str, str]

MEMORY_COLUMNS = (
    "kind, key, content, hash, version, importance, pinned, trust, status, superseded_by, session_id, project, data, "
    "reinforced, recalled, recalled_at, expires_at, created_at, updated_at"
)
_MEMORY = "SELECT " + MEMORY_COLUMNS + " FROM memories WHERE workspace = :workspace AND id = :id"
# Not among the columns and the versions: a program of an earlier release restores those, and does not know these.
_LATER_COLUMNS = "SELECT approved, author FROM memories WHERE workspace = :workspace AND id = :id"
_MEMORY_AUTHORS = """
SELECT version, author FROM memory_versions
WHERE memory_id = :id AND version > :since AND author IS NOT NULL ORDER BY version
"""
_MEMORY_VERSIONS = """
SELECT version, content, reason, actor, created_at, receipt FROM memory_versions
WHERE memory_id = :id AND version > :since ORDER BY version
"""
_MEMORY_MADE = "SELECT 1 FROM memory_versions WHERE memory_id = :id AND version = :version"
_TAGS = "SELECT tag FROM memory_tags WHERE memory_id = :id AND CAST(workspace AS TEXT) = :workspace ORDER BY tag"
_LINKS = """
SELECT from_id, to_id, relation, created_at FROM memory_links
WHERE workspace = :workspace AND (from_id = :id OR to_id = :id) ORDER BY from_id, to_id, relation
"""
_SOURCES = """
SELECT derived_version, source_kind, source_id FROM sources
WHERE workspace = :workspace AND derived_kind = :kind AND derived_id = :id AND derived_version >= :since
ORDER BY derived_version, source_kind, source_id
"""
_REBUILD = "SELECT receipt FROM rebuilds WHERE workspace = :workspace AND kind = :kind AND ref = :id"
_VECTORS = """
SELECT v.model, v.vector FROM items i JOIN vectors v ON v.item = i.id
WHERE i.workspace = :workspace AND i.kind = 'memory' AND i.ref = :id ORDER BY v.model, i.piece
"""
BLOCK_COLUMNS = "name, content, version, max_tokens, updated_by, created_at, updated_at"
_BLOCK = "SELECT " + BLOCK_COLUMNS + " FROM blocks WHERE workspace = :workspace AND id = :id"
_BLOCK_VERSIONS = """
SELECT version, content, reason, actor, created_at, receipt FROM block_versions
WHERE block_id = :id AND version > :since ORDER BY version
"""
# As for a memory.
_LATER_BLOCK_COLUMNS = "SELECT data, author FROM blocks WHERE workspace = :workspace AND id = :id"
_VERSION_DATA = """
SELECT version, data FROM block_versions
WHERE block_id = :id AND version > :since AND data IS NOT NULL ORDER BY version
"""
_BLOCK_AUTHORS = """
SELECT version, author FROM block_versions
WHERE block_id = :id AND version > :since AND author IS NOT NULL ORDER BY version
"""
_BLOCK_MADE = "SELECT 1 FROM block_versions WHERE block_id = :id AND version = :version"
_SESSION = "SELECT gist_seq, gist_turns FROM sessions WHERE workspace = :workspace AND id = :id"
_GIST = "SELECT memory_id, at, month FROM gists WHERE workspace = :workspace AND session_id = :id"
_FOLDS = "SELECT target, after FROM folds WHERE workspace = :workspace AND gist = :gist ORDER BY target"


def load(text: str, thing: JournalKey) -> Any:
    """A snapshot of the thing as `dump` wrote it; DAMAGED when it cannot be read."""
    return json_columns.load(text, "journal", DAMAGED, partial(shapes.is_snapshot, thing))


def load_state(text: str, thing: JournalKey) -> Any:
    """A state of the thing as `dump` wrote it; DAMAGED when it cannot be read."""
    return json_columns.load(text, "journal", DAMAGED, partial(shapes.is_state, thing))


def read(tx: Transaction, workspace: str, thing: JournalKey, since: int | None = None) -> Snapshot | None:
    """The thing as it is now. None when it does not exist, or is just being created: a row without its first version.

    Versions up to `since` will still exist and are left out. By default that is the latest version.
    """
    kind, ref = thing
    if kind == "memory":
        return _memory(tx, workspace, int(ref), since)
    if kind == "block":
        return _block(tx, workspace, int(ref), since)
    return _session(tx, workspace, ref)


def with_earlier_versions(snapshot: Snapshot, whole: Snapshot) -> Snapshot:
    """The snapshot with the history that a later, longer one has. The sources of its own version stay its own."""
    version, since = snapshot["row"]["version"], snapshot["since"]
    older = [(number, *source) for number, *source in whole["sources"] if number < since]
    later: Snapshot = {
        name: [(number, value) for number, value in whole[name] if number <= version]
        for name in ("version_data", "version_authors")
        if name in whole
    }
    return {
        **snapshot,
        **later,
        "versions": [(number, *values) for number, *values in whole["versions"] if number <= version],
        "sources": [*older, *snapshot["sources"]],
        "since": whole["since"],
    }


def dump(snapshot: Snapshot | None) -> str:
    return json.dumps(snapshot, ensure_ascii=False, separators=(",", ":"))


def state(kind: str, snapshot: Snapshot | None) -> Snapshot | None:
    """The part that must be unchanged since a pass for the pass to be undone."""
    if snapshot is None or kind == "session":
        return snapshot
    row = snapshot["row"]
    shared = {"sources": _hash(snapshot["sources"]), "rebuild": snapshot["rebuild"]}
    if kind == "block":
        # Left out when there are none, like an approval below.
        data = {} if snapshot.get("data") is None else {"data": _hash(snapshot["data"])}
        return {"text": [row["version"], _hash(row["content"])], "budget": row["max_tokens"], **data, **shared}
    # Left out when there is none: the states that an earlier release has recorded have no approval either.
    approval = {} if snapshot.get("approved") is None else {"approved": snapshot["approved"]}
    return {
        "text": [row["version"], _hash(row["content"])],
        "status": row["status"],
        "superseded_by": row["superseded_by"],
        "weight": [row["importance"], row["pinned"], row["expires_at"]],
        "data": _hash([row["data"], row["trust"]]),
        "reinforced": row["reinforced"],
        "tags": _hash(snapshot["tags"]),
        **approval,
        "links": [[from_id, to_id, _hash(relation)] for from_id, to_id, relation, _ in snapshot["links"]],
        **shared,
    }


def sources(snapshot: Snapshot | None) -> set[JournalKey]:
    """What the thing was made of, as far back as the snapshot goes."""
    return {(kind, str(id)) for _, kind, id in (snapshot or {}).get("sources", ())}


def _memory(tx: Transaction, workspace: str, id: int, since: int | None) -> Snapshot | None:
    found = tx.one(_MEMORY, workspace=workspace, id=id)
    row = _named(MEMORY_COLUMNS, found) if found else {}
    if not found or not tx.one(_MEMORY_MADE, id=id, version=row["version"]):
        return None
    since = row["version"] if since is None else since
    vectors: dict[str, list[str]] = {}
    for model, vector in tx.all(_VECTORS, workspace=workspace, id=id):
        vectors.setdefault(model, []).append(b64encode(bytes(vector)).decode())
    ((approved, author),) = tx.all(_LATER_COLUMNS, workspace=workspace, id=id)
    return {
        "row": row,
        "approved": approved,
        "author": author,
        "versions": tx.all(_MEMORY_VERSIONS, id=id, since=since),
        "version_authors": tx.all(_MEMORY_AUTHORS, id=id, since=since),
        "tags": tx.column(_TAGS, workspace=workspace, id=id),
        "links": tx.all(_LINKS, workspace=workspace, id=id),
        **_derived(tx, workspace, "memory", id, since),
        "vectors": vectors,
    }


def _block(tx: Transaction, workspace: str, id: int, since: int | None) -> Snapshot | None:
    found = tx.one(_BLOCK, workspace=workspace, id=id)
    row = _named(BLOCK_COLUMNS, found) if found else {}
    if not found or not tx.one(_BLOCK_MADE, id=id, version=row["version"]):
        return None
    since = row["version"] if since is None else since
    ((data, author),) = tx.all(_LATER_BLOCK_COLUMNS, workspace=workspace, id=id)
    return {
        "row": row,
        "data": data,
        "author": author,
        "versions": tx.all(_BLOCK_VERSIONS, id=id, since=since),
        "version_data": tx.all(_VERSION_DATA, id=id, since=since),
        "version_authors": tx.all(_BLOCK_AUTHORS, id=id, since=since),
        **_derived(tx, workspace, "block", id, since),
    }


def _derived(tx: Transaction, workspace: str, kind: str, id: int, since: int) -> Snapshot:
    return {
        "since": since,
        "sources": tx.all(_SOURCES, workspace=workspace, kind=kind, id=id, since=since),
        "rebuild": tx.value(_REBUILD, workspace=workspace, kind=kind, id=id),
    }


def _session(tx: Transaction, workspace: str, id: str) -> Snapshot | None:
    row = tx.one(_SESSION, workspace=workspace, id=id)
    if row is None:
        return None
    # Lists, because JSON has no tuples and snapshots are compared.
    covered = list(row)
    gist = tx.one(_GIST, workspace=workspace, id=id)
    if gist is None:
        return {"covered": covered, "gist": None, "folds": []}
    memory_id, at, month = gist
    folds = [list(fold) for fold in tx.all(_FOLDS, workspace=workspace, gist=memory_id)]
    return {"covered": covered, "gist": [memory_id, at, month], "folds": folds}


def _named(columns: str, row: Row) -> Snapshot:
    return dict(zip(columns.split(", "), row, strict=True))


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:32]
