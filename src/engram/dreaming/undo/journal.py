"""What a run changes, noted while it changes it.

The tiers call `touch` themselves before they change a thing, so no stage can forget to. A thing's image is kept once
for each action of the run, in the same transaction as the change; how the change left it is added right before the
commit. So a run that died half-way can be undone like any other, and what is noted follows what is changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from . import snapshots
from .snapshots import Image, JournalKey

if TYPE_CHECKING:
    from ...storage.engine import Transaction
    from ...store_view import StoreView

#: Of so many runs that changed something the images are kept. Proposals that were applied by hand do not count: a long
#: review would push out the passes before it.
KEPT = 20

_SEEN = """
SELECT after FROM journal
WHERE workspace = :workspace AND dream = :dream AND kind = :kind AND ref = :ref AND action = :action
"""
_BEFORE = """
SELECT action, before FROM journal
WHERE workspace = :workspace AND dream = :dream AND kind = :kind AND ref = :ref AND before IS NOT NULL
"""
_SET_BEFORE = """
UPDATE journal SET before = :before
WHERE workspace = :workspace AND dream = :dream AND kind = :kind AND ref = :ref AND action = :action
"""
_ADD = """
INSERT INTO journal (workspace, dream, kind, ref, action, before)
VALUES (:workspace, :dream, :kind, :ref, :action, :before)
"""
_SET_AFTER = """
UPDATE journal SET after = :after
WHERE workspace = :workspace AND dream = :dream AND kind = :kind AND ref = :ref AND action = :action
"""
_OLDEST_KEPT = """
SELECT DISTINCT j.dream FROM journal j JOIN dreams d ON d.id = j.dream
WHERE j.workspace = :workspace AND d.session_id <> '' ORDER BY j.dream DESC LIMIT 1 OFFSET :kept
"""
_DROP_OLD = "DELETE FROM journal WHERE workspace = :workspace AND dream <= :dream"
_OF_RUN = """
SELECT kind, ref, action, before, after FROM journal
WHERE workspace = :workspace AND dream = :dream ORDER BY action, kind, ref
"""


class Entry(NamedTuple):
    """How one action found a thing and how it left it."""

    thing: JournalKey
    action: int
    #: None: the action made it.
    before: Image | None
    #: None: the action removed it.
    after: Image | None
    #: Something of it was forgotten since, and its image with it.
    forgotten: bool


class Journal:
    """Notes what one run changes."""

    def __init__(self, view: StoreView, dream: int) -> None:
        self._workspace = view.workspace
        self.dream = dream
        #: The number of the action under way.
        self.action = 0

    def touch(self, tx: Transaction, kind: str, ref: str | int, since: int | None = None) -> None:
        """A thing is about to be changed, or its row was just made; with `since`, its versions after that will go."""
        row = self._row((kind, str(ref)))
        if since is not None:
            self._deepen(tx, row, since)
        seen = tx.one(_SEEN, **row)
        if seen is not None and seen[0] is None:
            return
        if seen is None:
            before = snapshots.read(tx, self._workspace, (kind, str(ref)), since)
            tx.run(_ADD, before=snapshots.dump(before), **row)
        else:  # another transaction of the same action had it
            tx.run(_SET_AFTER, after=None, **row)
        tx.checks.append(lambda: self._leave(tx, row))

    def close(self, tx: Transaction) -> None:
        """The run is over: drop the images of runs too long ago."""
        oldest = tx.one(_OLDEST_KEPT, workspace=self._workspace, kept=KEPT)
        if oldest is not None:
            tx.run(_DROP_OLD, workspace=self._workspace, dream=oldest[0])

    def _deepen(self, tx: Transaction, row: dict[str, object], since: int) -> None:
        """Earlier images of the run relied on versions that are about to go."""
        thing = {name: value for name, value in row.items() if name != "action"}
        whole = snapshots.read(tx, self._workspace, (str(row["kind"]), str(row["ref"])), since)
        for action, before in tx.all(_BEFORE, **thing):
            image = snapshots.load(before)
            if whole and isinstance(image, dict) and image.get("since", 0) > since:
                deep = snapshots.dump(snapshots.deepened(image, whole))
                tx.run(_SET_BEFORE, before=deep, action=action, **thing)

    def _leave(self, tx: Transaction, row: dict[str, object]) -> None:
        kind, ref = str(row["kind"]), str(row["ref"])
        left = snapshots.state(kind, snapshots.read(tx, self._workspace, (kind, ref)))
        tx.run(_SET_AFTER, after=snapshots.dump(left), **row)

    def _row(self, thing: JournalKey) -> dict[str, object]:
        kind, ref = thing
        return {
            "workspace": self._workspace,
            "dream": self.dream,
            "kind": kind,
            "ref": ref,
            "action": self.action,
        }


def entries(tx: Transaction, workspace: str, dream: int) -> list[Entry]:
    """All that a run noted, in the order of its actions."""
    found = []
    for kind, ref, action, before, after in tx.all(_OF_RUN, workspace=workspace, dream=dream):
        kept = (
            [snapshots.DAMAGED, snapshots.DAMAGED]
            if before is None
            else [snapshots.load(before), snapshots.load(after)]
        )
        # An image that cannot be read is as good as forgotten: the thing is left as it is.
        forgotten = snapshots.DAMAGED in kept
        image, left = (None, None) if forgotten else kept
        found.append(Entry((kind, ref), action, image, left, forgotten=forgotten))
    return found
