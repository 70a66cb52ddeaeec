"""What dreaming holds of what was said, and how it is erased. `forget` decides what goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..dreaming.undo import snapshots
from ..memory import provenance

if TYPE_CHECKING:
    from collections.abc import Iterable, Set

    from ..dreaming.undo.snapshots import Image, JournalKey
    from ..memory.provenance import Thing
    from ..storage.engine import Row, Transaction

#: Every text column of this tier's tables that can hold what somebody said, and what erases it.
TEXTS = {
    "work": {"prompt": "anything", "answer": "anything"},
    "journal": {"before": "things"},
    "proposals": {
        "why": "proposals",
        "content": "proposals",
        "data": "proposals",
        "hash": "proposals",
    },
}
#: Everything here is made of other texts; what erases it is also what leads there.
COPIES = TEXTS

_PROPOSALS = """
SELECT DISTINCT proposal FROM proposal_parts
WHERE workspace = :workspace AND kind = :kind AND ref IN (SELECT value FROM json_each(:ids)) ORDER BY proposal
"""
_DROP_PARTS = "DELETE FROM proposal_parts WHERE workspace = :workspace AND proposal = :id"
_DROP_PROPOSAL = "DELETE FROM proposals WHERE workspace = :workspace AND id = :id"
_CLEAR_WORK = "DELETE FROM work WHERE workspace = :workspace"
_IMAGES = """
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
    """Whatever goes may be quoted in a piece of thinking; the next pass leaves those it still needs anew."""
    tx.run(_CLEAR_WORK, workspace=workspace)


def erase_snapshots(
    tx: Transaction,
    workspace: str,
    gone: Iterable[Thing],
    touched: Iterable[Thing],
    sessions: Iterable[str],
    before: str | None = None,
) -> None:
    """Erase every image of what goes or loses text, before it does, and of what was made of it.

    An undo deletes what its run had made, and keeps an image of it: then only the image knows what it was made of. With
    `before`, memories older than that go too, and so do the images of older blocks that were deleted.
    """
    removed = {(kind, str(id)) for kind, id in gone} | {("session", id) for id in sessions}
    lost = removed | {(kind, str(id)) for kind, id in touched}
    for kind, ref in list(lost):
        if kind == "memory":
            lost |= {("session", row[0]) for row in tx.all(_SESSION_OF, workspace=workspace, gist=int(ref))}
    rows: list[tuple[Row, Any]] = [(row[:4], snapshots.load(row[4])) for row in tx.all(_IMAGES, workspace=workspace)]
    # Nobody can tell what an image holds that cannot be read, and nobody can use it.
    for (_, kind, ref, _), image in rows:
        if image is snapshots.DAMAGED:
            tx.run(_ERASE, workspace=workspace, kind=kind, ref=ref)
    rows = [row for row in rows if row[1] is not snapshots.DAMAGED]
    noted = [((key[1], key[2]), image) for key, image in rows if image is not None]
    if before is not None:
        there = {("block", str(row[0])) for row in tx.all(_BLOCKS, workspace=workspace)}
        deleted = [(thing, image) for thing, image in noted if thing[0] == "block" and thing not in there]
        lost |= {thing for thing, image in deleted if image["row"]["created_at"] < before}
    # Images of a thing that is there go back only some versions; a deleted block's sources are still there, too.
    older = {thing: _sources(tx, workspace, thing) for thing in {thing for thing, _ in noted}}
    while more := {found for thing, image in noted for found in _lost(thing, image, older[thing], lost, before)} - lost:
        lost |= more
    for kind, ref in sorted(lost):
        tx.run(_ERASE, workspace=workspace, kind=kind, ref=ref)
    for (dream, kind, ref, action), image in rows:
        if (kind, ref) not in lost and _cut(image, removed):
            row = {"dream": dream, "kind": kind, "ref": ref, "action": action}
            tx.run(_REWRITE, workspace=workspace, before=snapshots.dump(image), **row)


def _sources(tx: Transaction, workspace: str, thing: JournalKey) -> set[JournalKey]:
    kind, ref = thing
    if kind == "session":
        return set()
    return {(what, str(id)) for what, id in provenance.of(tx, workspace, kind, int(ref))}


def _lost(
    thing: JournalKey, image: Image, older: Set[JournalKey], lost: Set[JournalKey], before: str | None
) -> set[JournalKey]:
    """The image's thing, when it holds something that is lost, and the session whose gist it is."""
    if thing[0] == "session":
        return {thing} if image["gist"] and ("memory", str(image["gist"][0])) in lost else set()
    row, sources = image["row"], snapshots.sources(image) | older
    homeless = thing[0] == "memory" and ("session", row["session_id"]) in lost and not sources
    old = thing[0] == "memory" and before is not None and row["created_at"] < before
    if not (thing in lost or sources & lost or homeless or old):
        return set()
    return {thing, ("session", row["key"])} if row.get("kind") == "gist" else {thing}


def _cut(image: Any, removed: Set[JournalKey]) -> bool:
    """Take out of an image what it says of memories and sessions that go; whether there was any."""
    if image is None or "links" not in image:
        return False
    row, links = image["row"], image["links"]
    image["links"] = [link for link in links if not {("memory", str(id)) for id in link[:2]} & removed]
    changed = len(image["links"]) < len(links)
    for column, kind in (("superseded_by", "memory"), ("session_id", "session")):
        if (kind, str(row[column])) in removed:
            row[column], changed = None, True
    return changed


def delete_proposals(tx: Transaction, workspace: str, things: Iterable[Thing]) -> None:
    """Whatever was proposed about what goes or loses text, in any state: it may quote it."""
    kinds: dict[str, list[int]] = {}
    for kind, id in sorted(things):
        kinds.setdefault(kind, []).append(id)
    for kind, ids in kinds.items():
        for (id,) in tx.all(_PROPOSALS, workspace=workspace, kind=kind, ids=tx.array(ids)):
            tx.run(_DROP_PARTS, workspace=workspace, id=id)
            tx.run(_DROP_PROPOSAL, workspace=workspace, id=id)
            tx.note(workspace, "proposal", id)
