"""Undoes a pass: everything it changed goes back to what it was before, or nothing does.

An undo is blocked by anything that was changed again since. It is also blocked by things that were derived
since from something that would lose its sources, because forgetting could not find them any more. A thing that lost
text to forgetting since is left as it is. An undo has a number and a journal like a pass, so it can be undone too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import mutexes
from ...errors import DreamNotFound, UndoBlocked
from ...records import Obstacle
from .. import proposals
from . import snapshots
from .journal import Entry, Journal, entries
from .restore import restore

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...storage.engine import Transaction
    from ...store_view import StoreView
    from .snapshots import JournalKey, Snapshot

_DREAM = "SELECT started_at, undoes, undone_by FROM dreams WHERE workspace = :workspace AND id = :dream"
_NEWEST_PASS = """
SELECT MAX(d.id) FROM dreams d
WHERE d.workspace = :workspace AND d.undoes IS NULL AND d.undone_by IS NULL AND d.session_id <> ''
  AND EXISTS (SELECT 1 FROM journal j WHERE j.workspace = :workspace AND j.dream = d.id)
"""
_LATER_PASS = """
SELECT MAX(j.dream) FROM journal j JOIN dreams d ON d.id = j.dream
WHERE j.workspace = :workspace AND j.kind = :kind AND j.ref = :ref AND j.dream > :dream
  AND d.undoes IS NULL AND d.undone_by IS NULL
"""
_SET_UNDONE = "UPDATE dreams SET undone_by = :by WHERE workspace = :workspace AND id = :dream"
_DROP_ACTION = "DELETE FROM journal WHERE workspace = :workspace AND dream = :dream AND action = :action"
_LOCK_SESSION = "UPDATE sessions SET gist_seq = gist_seq WHERE workspace = :workspace AND id = :session"
_BLOCK_NAME = "SELECT name FROM blocks WHERE workspace = :workspace AND id = :id"
_NAMESAKE = "SELECT id FROM blocks WHERE workspace = :workspace AND name = :name"
_MEMORY = "SELECT 1 FROM memories WHERE workspace = :workspace AND id = :id"
_SAME_KEY = """
SELECT id FROM memories WHERE workspace = :workspace AND kind = :kind AND key = :key AND status = 'active'
"""
_SAME_CONTENT = """
SELECT id FROM memories
WHERE workspace = :workspace AND kind = :kind AND hash = :hash AND key IS NULL AND status = 'active'
"""
_MEMORIES_MADE = """
SELECT DISTINCT m.id FROM sources s JOIN memories m ON m.id = s.derived_id
WHERE s.workspace = :workspace AND s.source_kind = :kind AND s.source_id = :id AND s.derived_kind = 'memory'
  AND m.updated_at >= :since
ORDER BY m.id
"""
_BLOCKS_MADE = """
SELECT DISTINCT v.block_id FROM sources s
  JOIN block_versions v ON v.block_id = s.derived_id AND v.version = s.derived_version
WHERE s.workspace = :workspace AND s.source_kind = :kind AND s.source_id = :id AND s.derived_kind = 'block'
  AND v.created_at >= :since
ORDER BY v.block_id
"""

#: How messages describe a change of each part of a state.
_CHANGES = {
    "text": "its text was edited",
    "status": "its status was changed",
    "superseded_by": "something else superseded it",
    "weight": "its importance, its pin or its end was changed",
    "data": "its data was changed",
    "reinforced": "it was stored again",
    "tags": "its tags were changed",
    "approved": "a person approved it, or took the approval away",
    "links": "it was linked or a link of it was removed",
    "sources": "it got or lost a source",
    "rebuild": "it was rebuilt, or lost text to forgetting",
    "budget": "its budget was changed",
    "covered": "it was summarised further",
    "gist": "it has another gist",
    "folds": "its gist was folded in, or is waiting for it",
}


class Undo:
    """What goes back to which snapshot, and what blocks that."""

    def __init__(
        self, tx: Transaction, workspace: str, dream: int, name: str, since: str, noted: Iterable[Entry]
    ) -> None:
        self._workspace = workspace
        self._dream = dream
        #: How messages name the pass or undo.
        self._name = name
        self._since = since
        self.targets: dict[JournalKey, Snapshot | None] = {}
        self._after: dict[JournalKey, Snapshot | None] = {}
        #: Things that are left as they are, because some of their text was forgotten.
        self.left: set[JournalKey] = set()
        for entry in noted:
            self.targets.setdefault(entry.thing, entry.before)
            self._after[entry.thing] = entry.after
            if entry.forgotten:
                self.left.add(entry.thing)
        self._leave_sources_of_left(tx)
        self.obstacles = [obstacle for thing in sorted(self.targets) for obstacle in self._obstacles(tx, thing)]

    def check(self, tx: Transaction) -> None:
        """UndoBlocked when there is any obstacle."""
        if not self.obstacles:
            return
        found = [each._replace(name=self.display_name(tx, (each.kind, each.ref))) for each in self.obstacles]
        named = "; ".join(f"{each.name}: {each.why}" for each in found)
        raise UndoBlocked(
            f"{self._name} cannot be undone, because of later changes: {named}. Nothing was undone.", self._dream, found
        )

    def restore(self, tx: Transaction) -> None:
        restore(tx, self._workspace, self.targets)

    def display_name(self, tx: Transaction, thing: JournalKey) -> str:
        """How messages name it: a block by its name, everything else by its id."""
        kind, ref = thing
        name = _block_name(tx, self._workspace, ref, self.targets.get(thing)) if kind == "block" else None
        return f"{kind} {name or ref}"

    def _leave_sources_of_left(self, tx: Transaction) -> None:
        """Also leave the sources of things that are left, because they say where those things' text comes from."""
        while True:
            for thing in self.left & self.targets.keys():
                del self.targets[thing]
            more = {thing for thing in self.targets if self.left & self.derived_since(tx, thing)}
            # A gist and the turns it covers belong together.
            gists = {ref for kind, ref in self.left | more if kind == "memory"}
            sessions = {(kind, ref) for kind, ref in self.targets if kind == "session"}
            more |= {session for session in sessions if self._gist_id(tx, session) in gists}
            if not more:
                return
            self.left |= more

    def _gist_id(self, tx: Transaction, session: JournalKey) -> str | None:
        now = snapshots.read(tx, self._workspace, session)
        if not now or not now["gist"]:
            return None
        memory_id, *_ = now["gist"]
        return str(memory_id)

    def derived_since(self, tx: Transaction, thing: JournalKey) -> set[JournalKey]:
        """What was derived from the thing since the pass began, if going back removes sources from the thing."""
        kind, ref = thing
        if kind == "session" or thing not in self.targets:
            return set()
        before = self.targets[thing]
        now = snapshots.read(tx, self._workspace, thing, before["since"] if before else 0)
        if before is not None and snapshots.sources(now) <= snapshots.sources(before):
            return set()
        of_it = {"workspace": self._workspace, "kind": kind, "id": int(ref), "since": self._since}
        made = {("memory", str(id)) for id in tx.column(_MEMORIES_MADE, **of_it)}
        return made | {("block", str(id)) for id in tx.column(_BLOCKS_MADE, **of_it)}

    def _obstacles(self, tx: Transaction, thing: JournalKey) -> list[Obstacle]:
        """Everything that blocks the undo of one thing."""
        why = self._later_changes(tx, thing) + self._name_conflicts(tx, thing)
        for kind, ref in sorted(self.derived_since(tx, thing) - self.targets.keys()):
            why.append(f"{self.display_name(tx, (kind, ref))} was made from it")
        return [Obstacle(*thing, each) for each in why]

    def _later_changes(self, tx: Transaction, thing: JournalKey) -> list[str]:
        """How the thing differs from what the pass left."""
        kind, ref = thing
        after = self._without_deleted_memories(tx, self._after[thing])
        since, _ = after["text"] if after and "text" in after else (None, "")
        now = snapshots.state(kind, snapshots.read(tx, self._workspace, thing, since))
        if now == after:
            return []
        if now is None or after is None:
            return ["it was deleted"] if now is None else ["it exists again"]
        changes = [_CHANGES[part] for part in {**now, **after} if now.get(part) != after.get(part)]
        later = tx.value(_LATER_PASS, workspace=self._workspace, kind=kind, ref=ref, dream=self._dream)
        by = f" (pass {later} changed it too: undo that first)" if later else ""
        return [f"{change}{by}" for change in changes]

    def _without_deleted_memories(self, tx: Transaction, after: Snapshot | None) -> Snapshot | None:
        """The state without references to deleted memories, because their deletion is no change of this thing."""
        if after is None or "links" not in after:
            return after
        links = [link for link in after["links"] if all(self._exists(tx, id) for id in link[:2])]
        by = after["superseded_by"]
        return {**after, "links": links, "superseded_by": by if by is not None and self._exists(tx, by) else None}

    def _exists(self, tx: Transaction, id: int) -> bool:
        return tx.one(_MEMORY, workspace=self._workspace, id=id) is not None

    def _name_conflicts(self, tx: Transaction, thing: JournalKey) -> list[str]:
        """Other things that now have the name, the key or the text that this one would get back."""
        kind, ref = thing
        snapshot = self.targets[thing]
        if snapshot is None or kind == "session":
            return []
        row = snapshot["row"]
        if kind == "block":
            others = tx.column(_NAMESAKE, workspace=self._workspace, name=row["name"])
            return [f"another block has its name, {row['name']!r}" for id in others if str(id) != ref]
        if row["status"] != "active":
            return []
        if row["key"] is None:
            ids = tx.column(_SAME_CONTENT, workspace=self._workspace, kind=row["kind"], hash=row["hash"])
        else:
            ids = tx.column(_SAME_KEY, workspace=self._workspace, kind=row["kind"], key=row["key"])
        others = [id for id in ids if str(id) != ref and ("memory", str(id)) not in self.targets]
        return [f"memory {id} says the same, or has its key" for id in others]


def newest_pass(tx: Transaction, workspace: str) -> int:
    """The newest pass that changed something and is not undone."""
    dream: int | None = tx.value(_NEWEST_PASS, workspace=workspace)
    if dream is None:
        raise DreamNotFound(f"There is no pass to undo in workspace {workspace!r}.")
    return dream


def unknown(dream: int, workspace: str) -> DreamNotFound:
    return DreamNotFound(f"There is no pass, undo or applied proposal {dream} in workspace {workspace!r}.")


def prepare(tx: Transaction, workspace: str, dream: int) -> Undo:
    """What undoing a pass or an undo takes. UndoBlocked when it is not possible."""
    row = tx.one(_DREAM, workspace=workspace, dream=dream)
    if row is None:
        raise unknown(dream, workspace)
    started, undoes, undone_by = row
    name = f"Pass {dream}" if undoes is None else f"Undo {dream}"
    if undone_by is not None:
        raise UndoBlocked(f"{name} was already undone by undo {undone_by}; to get it back, undo {undone_by}.", dream)
    noted = _lock_and_read(tx, workspace, dream)
    if not noted:
        raise UndoBlocked(f"{name} changed nothing, or is too long ago: its snapshots are deleted.", dream)
    undo = Undo(tx, workspace, dream, name, started, noted)
    undo.check(tx)
    return undo


def carry_out(tx: Transaction, view: StoreView, undo: Undo, dream: int, by: int) -> None:
    """Undo it as number `by`, which can be undone in turn."""
    journal = Journal(view, by)
    for (kind, ref), snapshot in undo.targets.items():
        journal.record(tx, kind, ref, snapshot.get("since") if snapshot else 0)
    undo.restore(tx)
    proposals.withdraw(tx, view.workspace, dream)
    journal.drop_old(tx)
    _mark_undone(tx, view.workspace, dream, by)


def undo_actions(view: StoreView, dream: int, actions: set[int]) -> set[int]:
    """Undo some actions of a pass and the later ones that depend on them; which were undone.

    Joins the current transaction. UndoBlocked, with nothing changed, when another writer changed the same things
    meanwhile.
    """
    with view.engine.write() as tx:
        noted = _lock_and_read(tx, view.workspace, dream)
        ((since, _, _),) = tx.all(_DREAM, workspace=view.workspace, dream=dream)
        chosen = set(actions)
        while True:
            undo = Undo(
                tx, view.workspace, dream, f"Pass {dream}", since, [entry for entry in noted if entry.action in chosen]
            )
            more = _dependent_actions(tx, noted, chosen, undo) - chosen
            if not more:
                break
            chosen |= more
        undo.check(tx)
        undo.restore(tx)
        for action in sorted(chosen):
            tx.run(_DROP_ACTION, workspace=view.workspace, dream=dream, action=action)
        return chosen & {entry.action for entry in noted}


def _lock_and_read(tx: Transaction, workspace: str, dream: int) -> list[Entry]:
    """Everything that was recorded, read under locks that keep others from changing or forgetting any of it."""
    # Every writer takes these locks in this order: sessions, memories, the embedding queue, blocks.
    things = {entry.thing: entry.before for entry in entries(tx, workspace, dream)}
    for kind, ref in sorted(things):
        if kind == "session":
            tx.run(_LOCK_SESSION, workspace=workspace, session=ref)
    tx.lock(mutexes.memories(workspace))
    tx.lock(mutexes.embedding_queue(workspace))
    names = {_block_name(tx, workspace, ref, snapshot) for (kind, ref), snapshot in things.items() if kind == "block"}
    for name in sorted(filter(None, names)):
        tx.lock(mutexes.block(workspace, name))
    return entries(tx, workspace, dream)


def _block_name(tx: Transaction, workspace: str, ref: str, snapshot: Snapshot | None) -> str | None:
    """A block's name, also of a deleted one."""
    name: str | None = tx.value(_BLOCK_NAME, workspace=workspace, id=int(ref))
    return snapshot["row"]["name"] if name is None and snapshot else name


def _dependent_actions(tx: Transaction, noted: list[Entry], chosen: set[int], undo: Undo) -> set[int]:
    """Later actions that changed the same things as the chosen ones, or derived something from them."""
    first: dict[JournalKey, int] = {}
    for entry in noted:
        if entry.action in chosen:
            first.setdefault(entry.thing, entry.action)
    for thing, action in list(first.items()):
        for made in undo.derived_since(tx, thing):
            first.setdefault(made, action)
    return {entry.action for entry in noted if entry.action > first.get(entry.thing, entry.action)}


def _mark_undone(tx: Transaction, workspace: str, dream: int, by: int) -> None:
    """Mark it as undone. If it was an undo itself, what it had undone counts again, and so on."""
    undoer: int | None = by
    while dream is not None:
        tx.run(_SET_UNDONE, workspace=workspace, dream=dream, by=undoer)
        ((_, undone, _),) = tx.all(_DREAM, workspace=workspace, dream=dream)
        undoer = dream if undoer is None else None
        dream = undone
