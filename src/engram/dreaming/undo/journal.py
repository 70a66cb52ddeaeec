"""The journal: what a pass or an undo changes, recorded while it changes it.

The tiers call `record` themselves before they change a thing, so no stage can forget it. The journal keeps one snapshot
of a thing for each action, in the same transaction as the change. The thing's new state is added right before the
commit. So a pass that died half-way can be undone like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from . import snapshots
from .snapshots import JournalKey, Snapshot

if TYPE_CHECKING:
    from ...storage.engine import Transaction
    from ...store_view import StoreView

#: Snapshots are kept for this many passes and undos. Proposals that were applied by hand do not count: a long review
#: would push out the passes before it.
KEPT_DREAMS = 20

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
_LAST_TO_DROP = """
SELECT DISTINCT j.dream FROM journal j JOIN dreams d ON d.id = j.dream
WHERE j.workspace = :workspace AND d.session_id <> '' ORDER BY j.dream DESC LIMIT 1 OFFSET :kept
"""
_DROP_OLD = "DELETE FROM journal WHERE workspace = :workspace AND dream <= :dream"
_OF_DREAM = """
SELECT kind, ref, action, before, after FROM journal
WHERE workspace = :workspace AND dream = :dream ORDER BY action, kind, ref
"""


class Entry(NamedTuple):
    """How one action found a thing and how it left it."""

    thing: JournalKey
    action: int
    #: None: the action created it.
    before: Snapshot | None
    #: None: the action removed it.
    after: Snapshot | None
    #: Some of its text was forgotten since, and the snapshot with it.
    forgotten: bool


class Journal:
    """Records what one pass or undo changes."""

    def __init__(self, view: StoreView, dream: int) -> None:
        self._workspace = view.workspace
        self.dream = dream
        #: Number of the current action.
        self.action = 0

    def record(self, tx: Transaction, kind: str, ref: str | int, since: int | None = None) -> None:
        """Record a thing before it is changed, or right after its row was inserted. Its versions after `since` will be
        deleted."""
        key = self._key((kind, str(ref)))
        if since is not None:
            self._extend_snapshots(tx, key, since)
        known = tx.column(_SEEN, **key)
        if known == [None]:  # this transaction has recorded it already
            return
        if not known:
            before = snapshots.read(tx, self._workspace, (kind, str(ref)), since)
            tx.run(_ADD, before=snapshots.dump(before), **key)
        else:  # another transaction of the same action has recorded it
            tx.run(_SET_AFTER, after=None, **key)
        tx.checks.append(lambda: self._record_after(tx, key))

    def drop_old(self, tx: Transaction) -> None:
        """Delete the snapshots of passes and undos that are too long ago."""
        last = tx.value(_LAST_TO_DROP, workspace=self._workspace, kept=KEPT_DREAMS)
        if last is not None:
            tx.run(_DROP_OLD, workspace=self._workspace, dream=last)

    def _extend_snapshots(self, tx: Transaction, key: dict[str, object], since: int) -> None:
        """Add versions that are about to be deleted to earlier snapshots that rely on them."""
        thing = {name: value for name, value in key.items() if name != "action"}
        whole = snapshots.read(tx, self._workspace, (str(key["kind"]), str(key["ref"])), since)
        for action, before in tx.all(_BEFORE, **thing):
            snapshot = snapshots.load(before, (str(key["kind"]), str(key["ref"])))
            if whole and isinstance(snapshot, dict) and snapshot.get("since", 0) > since:
                extended = snapshots.dump(snapshots.with_earlier_versions(snapshot, whole))
                tx.run(_SET_BEFORE, before=extended, action=action, **thing)

    def _record_after(self, tx: Transaction, key: dict[str, object]) -> None:
        kind, ref = str(key["kind"]), str(key["ref"])
        state = snapshots.state(kind, snapshots.read(tx, self._workspace, (kind, ref)))
        tx.run(_SET_AFTER, after=snapshots.dump(state), **key)

    def _key(self, thing: JournalKey) -> dict[str, object]:
        kind, ref = thing
        return {
            "workspace": self._workspace,
            "dream": self.dream,
            "kind": kind,
            "ref": ref,
            "action": self.action,
        }


def entries(tx: Transaction, workspace: str, dream: int) -> list[Entry]:
    """Everything that a pass or an undo recorded, in the order of its actions."""
    found = []
    for kind, ref, action, before, after in tx.all(_OF_DREAM, workspace=workspace, dream=dream):
        kept = (
            [snapshots.DAMAGED, snapshots.DAMAGED]
            if before is None
            else [snapshots.load(before, (kind, ref)), snapshots.load_state(after, (kind, ref))]
        )
        # A snapshot that cannot be read counts as forgotten, so the thing is left as it is.
        forgotten = snapshots.DAMAGED in kept
        snapshot, state = (None, None) if forgotten else kept
        found.append(Entry((kind, ref), action, snapshot, state, forgotten=forgotten))
    return found
