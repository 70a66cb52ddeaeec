"""Undoing a run: everything it changed goes back to what it was before, or nothing does.

What was changed again since stands in the way, by whomever, and so does what was made since of something that would
lose its sources: forgetting could not find it any more. What forgetting took out of something since stays out: such a
thing is left as it is. An undo is a run itself, with a journal of its own, so it can be undone like any other.
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
    from .snapshots import Image, JournalKey

_RUN = "SELECT started_at, undoes, undone_by FROM dreams WHERE workspace = :workspace AND id = :run"
_NEWEST = """
SELECT MAX(d.id) FROM dreams d
WHERE d.workspace = :workspace AND d.undoes IS NULL AND d.undone_by IS NULL AND d.session_id <> ''
  AND EXISTS (SELECT 1 FROM journal j WHERE j.workspace = :workspace AND j.dream = d.id)
"""
_LATER_RUN = """
SELECT MAX(j.dream) FROM journal j JOIN dreams d ON d.id = j.dream
WHERE j.workspace = :workspace AND j.kind = :kind AND j.ref = :ref AND j.dream > :run
  AND d.undoes IS NULL AND d.undone_by IS NULL
"""
_SET_UNDONE = "UPDATE dreams SET undone_by = :by WHERE workspace = :workspace AND id = :run"
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

#: What a later change of each part of a state is called.
_CHANGES = {
    "text": "its text was edited",
    "status": "its status was changed",
    "superseded_by": "something else superseded it",
    "weight": "its importance, its pin or its end was changed",
    "data": "its data were changed",
    "reinforced": "it was said again",
    "tags": "its tags were changed",
    "links": "it was linked or a link of it was removed",
    "sources": "it got or lost a source",
    "rebuild": "it was rebuilt, or lost text to forgetting",
    "budget": "its budget was changed",
    "covered": "it was summarised further",
    "gist": "it has another gist",
    "folds": "its gist was folded in, or waits to be",
}


class Undo:
    """What is to go back, and whether it may."""

    def __init__(self, tx: Transaction, workspace: str, run: int, since: str, noted: Iterable[Entry]) -> None:
        self._workspace = workspace
        self._run = run
        self._since = since
        self.targets: dict[JournalKey, Image | None] = {}
        self._after: dict[JournalKey, Image | None] = {}
        #: Left as it is, because something of it was forgotten.
        self.left: set[JournalKey] = set()
        for entry in noted:
            self.targets.setdefault(entry.thing, entry.before)
            self._after[entry.thing] = entry.after
            if entry.forgotten:
                self.left.add(entry.thing)
        self._leave_what_others_need(tx)
        self.obstacles = [obstacle for thing in sorted(self.targets) for obstacle in self._obstacles(tx, thing)]

    def check(self, tx: Transaction) -> None:
        """UndoBlocked when anything stands in the way."""
        if not self.obstacles:
            return
        named = [f"{self.called(tx, (each.kind, each.ref))}: {each.why}" for each in self.obstacles]
        raise UndoBlocked(
            f"Run {self._run} cannot be undone, because of what was changed since: {'; '.join(named)}. Nothing was "
            "undone.",
            self._run,
            self.obstacles,
        )

    def restore(self, tx: Transaction) -> None:
        restore(tx, self._workspace, self.targets)

    def called(self, tx: Transaction, thing: JournalKey) -> str:
        """What people call it: a block by its name."""
        kind, ref = thing
        name = _block_name(tx, self._workspace, ref, self.targets.get(thing)) if kind == "block" else None
        return f"{kind} {name or ref}"

    def _leave_what_others_need(self, tx: Transaction) -> None:
        """What something that is left was made of is left as well: it says where that one's text is from."""
        while True:
            for thing in self.left & self.targets.keys():
                del self.targets[thing]
            more = {thing for thing in self.targets if self.left & self.made_since(tx, thing)}
            # A gist and how far it covers its session belong together.
            gists = {ref for kind, ref in self.left | more if kind == "memory"}
            more |= {thing for thing in self.targets if thing[0] == "session" and self._gist(tx, thing) in gists}
            if not more:
                return
            self.left |= more

    def _gist(self, tx: Transaction, session: JournalKey) -> str | None:
        now = snapshots.read(tx, self._workspace, session)
        return str(now["gist"][0]) if now and now["gist"] else None

    def made_since(self, tx: Transaction, thing: JournalKey) -> set[JournalKey]:
        """What was made of the thing since the run began, if going back takes sources from it."""
        kind, ref = thing
        if kind == "session" or thing not in self.targets:
            return set()
        before = self.targets[thing]
        now = snapshots.read(tx, self._workspace, thing, before["since"] if before else 0)
        if before is not None and snapshots.sources(now) <= snapshots.sources(before):
            return set()
        of_it = {"workspace": self._workspace, "kind": kind, "id": int(ref), "since": self._since}
        made = {("memory", str(id)) for (id,) in tx.all(_MEMORIES_MADE, **of_it)}
        return made | {("block", str(id)) for (id,) in tx.all(_BLOCKS_MADE, **of_it)}

    def _obstacles(self, tx: Transaction, thing: JournalKey) -> list[Obstacle]:
        """Everything that stands in the way of one thing."""
        why = self._changed(tx, thing) + self._in_its_place(tx, thing)
        for kind, ref in sorted(self.made_since(tx, thing) - self.targets.keys()):
            why.append(f"{self.called(tx, (kind, ref))} was made of it")
        return [Obstacle(thing[0], thing[1], each) for each in why]

    def _changed(self, tx: Transaction, thing: JournalKey) -> list[str]:
        kind, ref = thing
        after = self._still(tx, self._after[thing])
        since = after["text"][0] if after and "text" in after else None
        now = snapshots.state(kind, snapshots.read(tx, self._workspace, thing, since))
        if now == after:
            return []
        if now is None or after is None:
            return ["it is gone"] if now is None else ["it is there again"]
        changes = [_CHANGES[part] for part in now if now[part] != after[part]]
        later = tx.one(_LATER_RUN, workspace=self._workspace, kind=kind, ref=ref, run=self._run)
        by = f" (run {later[0]} changed it too: undo that first)" if later and later[0] else ""
        return [f"{change}{by}" for change in changes]

    def _still(self, tx: Transaction, after: Image | None) -> Image | None:
        """The state without what it said of memories that are gone: that they went is no change of this one."""
        if after is None or "links" not in after:
            return after
        links = [link for link in after["links"] if all(self._exists(tx, id) for id in link[:2])]
        by = after["superseded_by"]
        return {**after, "links": links, "superseded_by": by if by is not None and self._exists(tx, by) else None}

    def _exists(self, tx: Transaction, id: int) -> bool:
        return tx.one(_MEMORY, workspace=self._workspace, id=id) is not None

    def _in_its_place(self, tx: Transaction, thing: JournalKey) -> list[str]:
        """Who has taken the place that the thing would come back to."""
        kind, ref = thing
        image = self.targets[thing]
        if image is None or kind == "session":
            return []
        row = image["row"]
        if kind == "block":
            others = tx.all(_NAMESAKE, workspace=self._workspace, name=row["name"])
            return [f"another block has its name, {row['name']!r}" for (id,) in others if str(id) != ref]
        if row["status"] != "active":
            return []
        if row["key"] is None:
            rows = tx.all(_SAME_CONTENT, workspace=self._workspace, kind=row["kind"], hash=row["hash"])
        else:
            rows = tx.all(_SAME_KEY, workspace=self._workspace, kind=row["kind"], key=row["key"])
        others = [row for row in rows if str(row[0]) != ref and ("memory", str(row[0])) not in self.targets]
        return [f"memory {id} says the same, or has its key" for (id,) in others]


def newest(tx: Transaction, workspace: str) -> int:
    """The latest pass that changed something and was not undone."""
    row = tx.one(_NEWEST, workspace=workspace)
    if row is None or row[0] is None:
        raise DreamNotFound(f"There is no pass to undo in workspace {workspace!r}.")
    run: int = row[0]
    return run


def prepare(tx: Transaction, workspace: str, run: int) -> Undo:
    """What undoing the run takes; UndoBlocked when it cannot be done."""
    row = tx.one(_RUN, workspace=workspace, run=run)
    if row is None:
        raise DreamNotFound(f"There is no dream {run} in workspace {workspace!r}.")
    started, _, undone_by = row
    if undone_by is not None:
        raise UndoBlocked(f"Run {run} was undone already, by run {undone_by}; to have it back, undo {undone_by}.", run)
    noted = _held(tx, workspace, run)
    if not noted:
        raise UndoBlocked(f"Run {run} changed nothing, or is too long ago: its images are not kept any more.", run)
    undo = Undo(tx, workspace, run, started, noted)
    undo.check(tx)
    return undo


def carry_out(tx: Transaction, view: StoreView, undo: Undo, run: int, by: int) -> None:
    """Undo it as run `by`, which can be undone in turn."""
    journal = Journal(view, by)
    for (kind, ref), image in undo.targets.items():
        journal.touch(tx, kind, ref, image.get("since") if image else 0)
    undo.restore(tx)
    proposals.withdraw(tx, view.workspace, run)
    journal.close(tx)
    _mark(tx, view.workspace, run, by)


def undo_actions(view: StoreView, dream: int, actions: set[int]) -> set[int]:
    """Undo some actions of a run, with those of its later ones that built on them; which were undone.

    Joins the transaction under way. UndoBlocked, with nothing changed, when somebody else changed the same meanwhile.
    """
    with view.engine.write() as tx:
        noted = _held(tx, view.workspace, dream)
        (since, *_) = tx.all(_RUN, workspace=view.workspace, run=dream)[0]
        chosen = set(actions)
        while True:
            undo = Undo(tx, view.workspace, dream, since, [entry for entry in noted if entry.action in chosen])
            more = _built_on(tx, noted, chosen, undo) - chosen
            if not more:
                break
            chosen |= more
        undo.check(tx)
        undo.restore(tx)
        for action in sorted(chosen):
            tx.run(_DROP_ACTION, workspace=view.workspace, dream=dream, action=action)
        return chosen & {entry.action for entry in noted}


def _held(tx: Transaction, workspace: str, run: int) -> list[Entry]:
    """All that a run noted, read when nobody can change or forget any of it any more."""
    # Everybody takes these in this order: sessions, memories, the backlog, blocks.
    things = {entry.thing: entry.before for entry in entries(tx, workspace, run)}
    for kind, ref in sorted(things):
        if kind == "session":
            tx.run(_LOCK_SESSION, workspace=workspace, session=ref)
    tx.lock(mutexes.memories(workspace))
    tx.lock(mutexes.backlog(workspace))
    names = {_block_name(tx, workspace, ref, image) for (kind, ref), image in things.items() if kind == "block"}
    for name in sorted(filter(None, names)):
        tx.lock(mutexes.block(workspace, name))
    return entries(tx, workspace, run)


def _block_name(tx: Transaction, workspace: str, ref: str, image: Image | None) -> str | None:
    """A block's name, also of one that is not there now."""
    row = tx.one(_BLOCK_NAME, workspace=workspace, id=int(ref))
    return row[0] if row else image["row"]["name"] if image else None


def _built_on(tx: Transaction, noted: list[Entry], chosen: set[int], undo: Undo) -> set[int]:
    """Actions after the chosen ones that changed the same things, or made something of them."""
    first: dict[JournalKey, int] = {}
    for entry in noted:
        if entry.action in chosen:
            first.setdefault(entry.thing, entry.action)
    for thing, action in list(first.items()):
        for made in undo.made_since(tx, thing):
            first.setdefault(made, action)
    return {entry.action for entry in noted if entry.action > first.get(entry.thing, entry.action)}


def _mark(tx: Transaction, workspace: str, run: int, by: int) -> None:
    """`run` is undone. If it was an undo itself, what it had undone stands again, and so on."""
    undoer: int | None = by
    while run is not None:
        tx.run(_SET_UNDONE, workspace=workspace, run=run, by=undoer)
        _, undone, _ = tx.all(_RUN, workspace=workspace, run=run)[0]
        undoer = run if undoer is None else None
        run = undone
