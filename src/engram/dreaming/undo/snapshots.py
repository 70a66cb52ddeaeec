"""Whole things as JSON: a memory, a block, or how far a session is summarised, with all rows that belong to it.

An image is what undoing brings back, to the last number and time. Versions are only ever added, and sources only to
the latest one, so an image leaves out those that will still be there: it has the versions after `since` and the sources
from `since` on, and stays small however long a history is. How often a memory was recalled is in it only for one that
is gone by then: recalling is nobody's change. A state is the part of an image by which a later change shows, with
digests for texts, so that it holds none.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from typing import TYPE_CHECKING, Any

from ... import json_columns

if TYPE_CHECKING:
    from ...storage.engine import Row, Transaction

Image = dict[str, Any]
#: Stands for an image that is no image any more.
DAMAGED: Any = object()
#: A kind (`memory`, `block`, `session`) and an id, as text.
JournalKey = tuple[str, str]

MEMORY_COLUMNS = (
    "kind, key, content, hash, version, importance, pinned, trust, status, superseded_by, session_id, project, data, "
    "reinforced, recalled, recalled_at, expires_at, created_at, updated_at"
)
_MEMORY = "SELECT " + MEMORY_COLUMNS + " FROM memories WHERE workspace = :workspace AND id = :id"
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
_BLOCK_MADE = "SELECT 1 FROM block_versions WHERE block_id = :id AND version = :version"
_SESSION = "SELECT gist_seq, gist_turns FROM sessions WHERE workspace = :workspace AND id = :id"
_GIST = "SELECT memory_id, at, month FROM gists WHERE workspace = :workspace AND session_id = :id"
_FOLDS = "SELECT target, after FROM folds WHERE workspace = :workspace AND gist = :gist ORDER BY target"


def load(text: str) -> Any:
    """An image as `dump` wrote it; DAMAGED when it cannot be read."""
    image = json_columns.load(text, "journal", DAMAGED)
    return image if image is None or isinstance(image, dict) else DAMAGED


def read(tx: Transaction, workspace: str, thing: JournalKey, since: int | None = None) -> Image | None:
    """The thing as it is; None when there is none, and while it is being made: a row without its first version.

    `since` is a version: those before it will still be there. Without it that is the latest one.
    """
    kind, ref = thing
    if kind == "memory":
        return _memory(tx, workspace, int(ref), since)
    if kind == "block":
        return _block(tx, workspace, int(ref), since)
    return _session(tx, workspace, ref)


def deepened(image: Image, whole: Image) -> Image:
    """The image with its history taken from a later one that has it; the sources of its own version are its own."""
    version, since = image["row"]["version"], image["since"]
    older = [source for source in whole["sources"] if source[0] < since]
    return {
        **image,
        "versions": [each for each in whole["versions"] if each[0] <= version],
        "sources": [*older, *image["sources"]],
        "since": whole["since"],
    }


def dump(image: Image | None) -> str:
    return json.dumps(image, ensure_ascii=False, separators=(",", ":"))


def state(kind: str, image: Image | None) -> Image | None:
    """What of it must be as a run left it for the run to be undone."""
    if image is None or kind == "session":
        return image
    row = image["row"]
    shared = {"sources": _digest(image["sources"]), "rebuild": image["rebuild"]}
    if kind == "block":
        return {"text": [row["version"], _digest(row["content"])], "budget": row["max_tokens"], **shared}
    return {
        "text": [row["version"], _digest(row["content"])],
        "status": row["status"],
        "superseded_by": row["superseded_by"],
        "weight": [row["importance"], row["pinned"], row["expires_at"]],
        "data": _digest([row["data"], row["trust"]]),
        "reinforced": row["reinforced"],
        "tags": _digest(image["tags"]),
        "links": [[from_id, to_id, _digest(relation)] for from_id, to_id, relation, _ in image["links"]],
        **shared,
    }


def sources(image: Image | None) -> set[JournalKey]:
    """What it was made of, as far as the image goes back."""
    return {(kind, str(id)) for _, kind, id in (image or {}).get("sources", ())}


def _memory(tx: Transaction, workspace: str, id: int, since: int | None) -> Image | None:
    found = tx.one(_MEMORY, workspace=workspace, id=id)
    row = _named(MEMORY_COLUMNS, found) if found else {}
    if not found or not tx.one(_MEMORY_MADE, id=id, version=row["version"]):
        return None
    since = row["version"] if since is None else since
    vectors: dict[str, list[str]] = {}
    for model, vector in tx.all(_VECTORS, workspace=workspace, id=id):
        vectors.setdefault(model, []).append(b64encode(bytes(vector)).decode())
    return {
        "row": row,
        "versions": tx.all(_MEMORY_VERSIONS, id=id, since=since),
        "tags": [tag for (tag,) in tx.all(_TAGS, workspace=workspace, id=id)],
        "links": tx.all(_LINKS, workspace=workspace, id=id),
        **_derived(tx, workspace, "memory", id, since),
        "vectors": vectors,
    }


def _block(tx: Transaction, workspace: str, id: int, since: int | None) -> Image | None:
    found = tx.one(_BLOCK, workspace=workspace, id=id)
    row = _named(BLOCK_COLUMNS, found) if found else {}
    if not found or not tx.one(_BLOCK_MADE, id=id, version=row["version"]):
        return None
    since = row["version"] if since is None else since
    versions = tx.all(_BLOCK_VERSIONS, id=id, since=since)
    return {"row": row, "versions": versions, **_derived(tx, workspace, "block", id, since)}


def _derived(tx: Transaction, workspace: str, kind: str, id: int, since: int) -> Image:
    rebuild = tx.one(_REBUILD, workspace=workspace, kind=kind, id=id)
    return {
        "since": since,
        "sources": tx.all(_SOURCES, workspace=workspace, kind=kind, id=id, since=since),
        "rebuild": rebuild[0] if rebuild else None,
    }


def _session(tx: Transaction, workspace: str, id: str) -> Image | None:
    row = tx.one(_SESSION, workspace=workspace, id=id)
    if row is None:
        return None
    gist = tx.one(_GIST, workspace=workspace, id=id)
    folds = tx.all(_FOLDS, workspace=workspace, gist=gist[0]) if gist else []
    # Lists, as they are once they have been JSON.
    return {"covered": list(row), "gist": list(gist) if gist else None, "folds": [list(fold) for fold in folds]}


def _named(columns: str, row: Row) -> Image:
    return dict(zip(columns.split(", "), row, strict=True))


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:32]
