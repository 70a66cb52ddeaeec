"""Erases what dreaming has stored of forgotten text: work items, snapshots, proposals. `forget` decides what goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..dreaming.undo import snapshots
from ..memory import provenance

if TYPE_CHECKING:
    from collections.abc import Iterable, Set

    from ..dreaming.undo.snapshots import JournalKey, Snapshot
    from ..memory.provenance import Thing
    from ..storage.engine import Transaction

#: Every column of this tier's tables that can contain a user's text, and what erases it.
TEXTS = {
    "work": {"prompt": "delete_agent_work", "answer": "delete_agent_work"},
    "journal": {"before": "erase_snapshots"},
    "proposals": {
        "why": "delete_proposals",
        "content": "delete_proposals",
        "data": "delete_proposals",
        "hash": "delete_proposals",
    },
}
#: Everything here is derived from other texts. The same function finds and erases it.
COPIES = TEXTS

_PROPOSALS = """
SELECT DISTINCT proposal FROM proposal_parts
WHERE workspace = :workspace AND kind = :kind AND ref IN (SELECT value FROM json_each(:ids)) ORDER BY proposal
"""
_DROP_PARTS = "DELETE FROM proposal_parts WHERE workspace = :workspace AND proposal = :id"
_DROP_PROPOSAL = "DELETE FROM proposals WHERE workspace = :workspace AND id = :id"
_CLEAR_WORK = "DELETE FROM work WHERE workspace = :workspace"
_SNAPSHOTS = """
SELECT dream, kind, ref, action, before FROM journal
WHERE workspace = :workspace AND before IS NOT NULL ORDER BY dream, action, kind, ref
"""
_ERASE = "UPDATE journal SET before = NULL, after = NULL WHERE workspace = :workspace AND kind = :kind AND ref = :ref"
_REWRITE = """
UPDATE journal SET before = :before
WHERE workspace = :workspace AND dream = :dream AND kind = :kind AND ref = :ref AND action = :action
"""
_BLOCKS = "SELECT id FROM blocks WHERE workspace = :workspace"
_SESSION_OF = "SELECT session_id FROM gists WHERE workspace = :workspace AND memory_id = :gist"


def delete_agent_work(tx: Transaction, workspace: str) -> None:
    """Delete all work items, because their prompts may quote what goes. The next pass leaves those it still needs."""
    tx.run(_CLEAR_WORK, workspace=workspace)


def erase_snapshots(
    tx: Transaction,
    workspace: str,
    gone: Iterable[Thing],
    touched: Iterable[Thing],
    sessions: Iterable[str],
    before: str | None = None,
) -> None:
    """Erase the snapshots of things that go or lose text, and of things derived from them. Call it before they change.

    An undo deletes things that its pass had made and keeps snapshots of them. Then only the snapshot knows the sources.
    With `before`, snapshots of memories and of deleted blocks that are older than that go too.
    """
    removed = {(kind, str(id)) for kind, id in gone} | {("session", id) for id in sessions}
    lost = removed | {(kind, str(id)) for kind, id in touched}
    for kind, ref in list(lost):
        if kind == "memory":
            lost |= {("session", session) for session in tx.column(_SESSION_OF, workspace=workspace, gist=int(ref))}
    rows = _read_snapshots(tx, workspace)
    noted = [((row.kind, row.ref), row.snapshot) for row in rows if row.snapshot is not None]
    if before is not None:
        blocks = {str(id) for id in tx.column(_BLOCKS, workspace=workspace)}
        lost |= {
            (kind, ref)
            for (kind, ref), snapshot in noted
            if kind == "block" and ref not in blocks and snapshot["row"]["created_at"] < before
        }
    # A snapshot lists only recent sources, so those in the store count too. A deleted block's sources are still there.
    older = {thing: _sources(tx, workspace, thing) for thing in {thing for thing, _ in noted}}
    while (
        more := {
            found for thing, snapshot in noted for found in _affected_by(thing, snapshot, older[thing], lost, before)
        }
        - lost
    ):
        lost |= more
    for kind, ref in sorted(lost):
        tx.run(_ERASE, workspace=workspace, kind=kind, ref=ref)
    for dream, kind, ref, action, snapshot in rows:
        if (kind, ref) not in lost and _remove_references(snapshot, removed):
            key = {"dream": dream, "kind": kind, "ref": ref, "action": action}
            tx.run(_REWRITE, workspace=workspace, before=snapshots.dump(snapshot), **key)


class _SnapshotRow(NamedTuple):
    dream: int
    kind: str
    ref: str
    action: int
    #: None: the thing did not exist.
    snapshot: Any


def _read_snapshots(tx: Transaction, workspace: str) -> list[_SnapshotRow]:
    """All snapshots of a workspace. Damaged ones are erased, because their content is unknown and they cannot be
    used."""
    rows = [
        _SnapshotRow(dream, kind, ref, action, snapshots.load(before, (kind, ref)))
        for dream, kind, ref, action, before in tx.all(_SNAPSHOTS, workspace=workspace)
    ]
    for row in rows:
        if row.snapshot is snapshots.DAMAGED:
            tx.run(_ERASE, workspace=workspace, kind=row.kind, ref=row.ref)
    return [row for row in rows if row.snapshot is not snapshots.DAMAGED]


def _sources(tx: Transaction, workspace: str, thing: JournalKey) -> set[JournalKey]:
    kind, ref = thing
    if kind == "session":
        return set()
    return {(what, str(id)) for what, id in provenance.of(tx, workspace, kind, int(ref))}


def _affected_by(
    thing: JournalKey, snapshot: Snapshot, older: Set[JournalKey], lost: Set[JournalKey], before: str | None
) -> set[JournalKey]:
    """The snapshot's thing, when the snapshot contains something lost, and the session whose gist it is."""
    kind, _ = thing
    if kind == "session":
        memory_id, *_ = snapshot["gist"] or (None,)
        return {thing} if ("memory", str(memory_id)) in lost else set()
    row, sources = snapshot["row"], snapshots.sources(snapshot) | older
    homeless = kind == "memory" and ("session", row["session_id"]) in lost and not sources
    old = kind == "memory" and before is not None and row["created_at"] < before
    if not (thing in lost or sources & lost or homeless or old):
        return set()
    return {thing, ("session", row["key"])} if row.get("kind") == "gist" else {thing}


def _remove_references(snapshot: Any, removed: Set[JournalKey]) -> bool:
    """Remove references to memories and sessions that go from a snapshot; whether there were any."""
    if snapshot is None or "links" not in snapshot:
        return False
    row, links = snapshot["row"], snapshot["links"]
    snapshot["links"] = [
        (from_id, to_id, *link)
        for from_id, to_id, *link in links
        if not {("memory", str(from_id)), ("memory", str(to_id))} & removed
    ]
    changed = len(snapshot["links"]) < len(links)
    for column, kind in (("superseded_by", "memory"), ("session_id", "session")):
        if (kind, str(row[column])) in removed:
            row[column], changed = None, True
    return changed


def delete_proposals(tx: Transaction, workspace: str, things: Iterable[Thing]) -> None:
    """Delete all proposals about things that go or lose text, in any state, because they may quote them."""
    kinds: dict[str, list[int]] = {}
    for kind, id in sorted(things):
        kinds.setdefault(kind, []).append(id)
    for kind, ids in kinds.items():
        for id in tx.column(_PROPOSALS, workspace=workspace, kind=kind, ids=tx.array(ids)):
            tx.run(_DROP_PARTS, workspace=workspace, id=id)
            tx.run(_DROP_PROPOSAL, workspace=workspace, id=id)
            tx.note(workspace, "proposal", id)
