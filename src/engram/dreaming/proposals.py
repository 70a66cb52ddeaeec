"""Changes that wait for somebody to decide: a plan, why it was made, and what became of it.

The same change is proposed once, whatever becomes of it: its hash is of what it would do and of the versions it rests
on. So a rejected one does not come back, until what it rests on has changed.

A proposal that is applied by hand is a run of its own, with a journal, so that it can be undone like a pass. Such a run
belongs to no session: that is how it is told from a pass.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from .. import checks, json_columns
from ..errors import Conflict, InvalidInput, ProposalNotFound
from ..memory.blocks import Blocks
from ..memory.memories import Memories, fingerprint
from ..records import Proposal
from . import grounds, plans
from .plans import Plan, Tiers
from .undo.journal import Journal

if TYPE_CHECKING:
    from ..memory.memories import Prepared
    from ..memory.provenance import Thing
    from ..storage.engine import Row, Transaction
    from ..store_view import StoreView

STATES = ("pending", "accepted", "edited", "rejected", "applied")
#: Decided, and still to be done.
AGREED = ("accepted", "edited")

_COLUMNS = "id, state, what, why, confidence, content, data, dream, result, created_at, decided_at, applied_in"
_GET = "SELECT " + _COLUMNS + " FROM proposals WHERE workspace = :workspace AND id = :id"
_LIST = (
    "SELECT "
    + _COLUMNS
    + """ FROM proposals
WHERE workspace = :workspace AND (CAST(:state AS TEXT) IS NULL OR state = :state) ORDER BY id LIMIT :limit"""
)
_KNOWN = "SELECT id, state FROM proposals WHERE workspace = :workspace AND hash = :hash"
_INSERT = """
INSERT INTO proposals (workspace, dream, state, what, why, confidence, content, data, hash, created_at)
VALUES (:workspace, :dream, 'pending', :what, :why, :confidence, :content, :data, :hash, :now) RETURNING id
"""
_ADD_PART = """
INSERT INTO proposal_parts (workspace, proposal, part, kind, ref, version)
VALUES (:workspace, :proposal, :part, :kind, :ref, :version)
"""
_PARTS = """
SELECT part, kind, ref, version FROM proposal_parts
WHERE workspace = :workspace AND proposal = :proposal ORDER BY part, kind, ref
"""
_DECIDE = """
UPDATE proposals SET state = :state, content = :content, result = :result, applied_in = :dream, decided_at = :now
WHERE workspace = :workspace AND id = :id
"""
_WITHDRAW_PARTS = """
DELETE FROM proposal_parts WHERE workspace = :workspace
  AND proposal IN (SELECT id FROM proposals WHERE workspace = :workspace AND dream = :dream AND state = 'pending')
"""
_WITHDRAW = "DELETE FROM proposals WHERE workspace = :workspace AND dream = :dream AND state = 'pending'"
_UNAPPLY = """
UPDATE proposals SET state = CASE WHEN EXISTS (SELECT 1 FROM dreams d WHERE d.id = :dream AND d.session_id = '')
  THEN 'pending' ELSE 'accepted' END, result = NULL, applied_in = NULL
WHERE workspace = :workspace AND applied_in = :dream
"""
_BEGIN_RUN = """
INSERT INTO dreams (workspace, session_id, started_at, ended_at, report) VALUES (:workspace, '', :now, :now, '{}')
RETURNING id
"""
_MEMORY = "SELECT version, status, content FROM memories WHERE workspace = :workspace AND id = :id"
_BLOCK = "SELECT version, 'active', content FROM blocks WHERE workspace = :workspace AND id = :id"


class Proposals:
    def __init__(self, view: StoreView, memories: Memories | None = None, blocks: Blocks | None = None) -> None:
        self._view = view
        self._engine = view.engine
        self._workspace = view.workspace
        self.tiers = Tiers(view.workspace, memories or Memories(view), blocks or Blocks(view))

    def show(self, id: int) -> Proposal:
        with self._engine.read() as tx:
            return self._record(tx, self._row(tx, id))

    def accept(self, id: int) -> Proposal:
        """Agree to it; `apply`, or the next pass, does it."""
        return self._decide(id, "accepted")

    def edit(self, id: int, content: str) -> Proposal:
        """Agree to it with another text."""
        with self._engine.read() as tx:
            what = self._row(tx, id)[2]
        if what not in ("remember", "merge"):
            raise InvalidInput(f"To {what} writes no text that could be edited; accept or reject proposal {id}.")
        return self._decide(id, "edited", checks.content(content, "content"))

    def reject(self, id: int) -> Proposal:
        """Refuse it; it is not made again from the same sources."""
        return self._decide(id, "rejected")

    def apply(self, id: int) -> Proposal:
        """Do it now, as a run of its own that `dreams.undo` can undo. One that is applied already is only returned.

        ProposalStale, and nothing is done, when what it would change has changed since.
        """
        with self._engine.read() as tx:
            state = self._row(tx, id)[1]
            plan = self.plan(tx, id)
        if state == "applied":
            return self.show(id)
        prepared = plans.prepare(self.tiers, plan)
        with self._engine.write() as tx:
            self.tiers.memories.lock(tx)
            state = self._row(tx, id)[1]
            if state == "rejected":
                raise Conflict(f"Proposal {id} was rejected; accept it first.")
            if state != "applied" and self.plan(tx, id) != plan:
                raise Conflict(f"Proposal {id} was edited just now; look at it again.")
            if state != "applied":
                self._carry_out(tx, id, plan, prepared)
            return self._record(tx, self._row(tx, id))

    def _carry_out(self, tx: Transaction, id: int, plan: Plan, prepared: Prepared | None) -> None:
        run: int = tx.all(_BEGIN_RUN, workspace=self._workspace, now=tx.now())[0][0]
        journal = Journal(self._view, run)
        noted = Tiers(self._workspace, Memories(self._view, journal.touch), Blocks(self._view, journal.touch))
        self.settle(tx, id, plans.carry_out(tx, noted, plan, prepared).result, run)
        tx.note(self._workspace, "dream", run)

    def make(self, tx: Transaction, plan: Plan, dream: int) -> bool:
        """Propose a plan; whether that is new. Outdated when what it was made from was forgotten or changed since."""
        grounds.hold(tx, self._workspace, plan.grounds)
        if self.known(tx, plan):
            return False
        made: int = tx.all(
            _INSERT,
            workspace=self._workspace,
            dream=dream,
            what=plan.what,
            why=plan.why,
            confidence=plan.confidence,
            content=plan.content,
            data=json_columns.dump(plan.data, "data"),
            hash=_hash(plan),
            now=tx.now(),
        )[0][0]
        parts = [("source", kind, ref, 0) for kind, ref in plan.sources]
        parts += [("target", kind, ref, version) for kind, ref, version in plan.targets]
        for part, kind, ref, version in parts:
            tx.run(_ADD_PART, workspace=self._workspace, proposal=made, part=part, kind=kind, ref=ref, version=version)
        tx.note(self._workspace, "proposal", made)
        return True

    def known(self, tx: Transaction, plan: Plan) -> tuple[int, str] | None:
        """The number and the state of the proposal of this plan, if it was ever made."""
        row = tx.one(_KNOWN, workspace=self._workspace, hash=_hash(plan))
        return (row[0], row[1]) if row else None

    def settle(self, tx: Transaction, id: int, result: int | None, dream: int | None = None) -> None:
        """Note that it is done, in the transaction that did it, and by which run."""
        self._write(tx, self._row(tx, id), "applied", result=result, dream=dream)

    def refuse(self, tx: Transaction, plan: Plan, dream: int) -> None:
        """It was done, lost something and was taken back: it is not to be tried again."""
        if plan.grounds:
            self.make(tx, plan, dream)
        known = self.known(tx, plan)
        if known is not None:
            self._write(tx, self._row(tx, known[0]), "rejected")

    def agreed(self, tx: Transaction, id: int, plan: Plan) -> bool:
        """Whether a plan that was read before is still what was agreed to; ProposalNotFound when it was forgotten."""
        return self._row(tx, id)[1] in AGREED and self.plan(tx, id) == plan

    def plan(self, tx: Transaction, id: int) -> Plan:
        _, _, what, why, confidence, content, data, *_ = self._row(tx, id)
        parts = tx.all(_PARTS, workspace=self._workspace, proposal=id)
        return Plan(
            what,
            why,
            confidence,
            content,
            tuple((kind, ref, version) for part, kind, ref, version in parts if part == "target"),
            tuple((kind, ref) for part, kind, ref, _ in parts if part == "source"),
            json_columns.load_object(data, "proposals.data"),
        )

    def _decide(self, id: int, state: str, content: str | None = None) -> Proposal:
        with self._engine.write() as tx:
            # The lock of `apply`: nobody decides what is being done.
            self.tiers.memories.lock(tx)
            row = self._row(tx, id)
            if row[1] == "applied":
                raise Conflict(f"Proposal {id} is applied. {_way_back(row[-1])}")
            self._write(tx, row, state, content)
            return self._record(tx, self._row(tx, id))

    def _write(
        self,
        tx: Transaction,
        row: Row,
        state: str,
        content: str | None = None,
        result: int | None = None,
        dream: int | None = None,
    ) -> None:
        tx.run(
            _DECIDE,
            workspace=self._workspace,
            id=row[0],
            state=state,
            content=row[5] if content is None else content,
            result=result,
            dream=dream,
            now=tx.now(),
        )
        tx.note(self._workspace, "proposal", row[0])

    def _row(self, tx: Transaction, id: int) -> Row:
        row = tx.one(_GET, workspace=self._workspace, id=checks.whole(id, "proposal id", least=1))
        if row is None:
            raise ProposalNotFound(f"There is no proposal {id} in workspace {self._workspace!r}.")
        return row

    def _record(self, tx: Transaction, row: Row) -> Proposal:
        id, state, what, why, confidence, content, _, dream, result, created_at, decided_at, run = row
        plan = self.plan(tx, id)
        now = {(kind, ref): self._now(tx, kind, ref) for kind, ref, _ in plan.targets}
        stale = state != "applied" and any(
            now[kind, ref][:2] != (version, "active") for kind, ref, version in plan.targets
        )
        return Proposal(
            id=id,
            state=state,
            what=what,
            why=why,
            confidence=confidence,
            content=content,
            targets=tuple(now),
            sources=plan.sources,
            diff=_diff(plan, {thing: text for thing, (_, _, text) in now.items()}),
            stale=stale,
            dream=dream,
            result=result,
            created_at=created_at,
            decided_at=decided_at,
            run=run,
        )

    def _now(self, tx: Transaction, kind: str, ref: int) -> tuple[int, str, str]:
        """Version, status and text of a target."""
        if kind == "memory":
            row = tx.one(_MEMORY, workspace=self._workspace, id=ref)
        else:
            row = tx.one(_BLOCK, workspace=self._workspace, id=ref)
        return (row[0], row[1], row[2]) if row else (0, "gone", "")

    # Last, because its name hides the type from annotations that follow it.
    def list(self, state: str | None = "pending", limit: int = 0) -> list[Proposal]:
        """Proposals in a state, oldest first; None: in any; limit 0: all. What could not be applied any more is left
        out of the pending ones."""
        if state is not None and state not in STATES:
            raise InvalidInput(f"state is {state!r}; it must be one of {', '.join(STATES)}.")
        checks.whole(limit, "limit", least=0)
        with self._engine.read() as tx:
            rows = tx.all(_LIST, workspace=self._workspace, state=state, limit=checks.MAX_WHOLE)
            found = [self._record(tx, row) for row in rows]
        found = [each for each in found if not (state == "pending" and each.stale)]
        return found[:limit] if limit else found


def withdraw(tx: Transaction, workspace: str, dream: int) -> None:
    """A run is undone: its undecided proposals are deleted, and those it applied are open again.

    What a pass had applied was agreed to before and stays so. What somebody applied by hand has to be decided again.
    """
    tx.run(_WITHDRAW_PARTS, workspace=workspace, dream=dream)
    tx.run(_WITHDRAW, workspace=workspace, dream=dream)
    tx.run(_UNAPPLY, workspace=workspace, dream=dream)


def _way_back(run: int | None) -> str:
    if run is None:  # by a release that kept no journal of it
        return "It cannot be undone: it was applied by an earlier version of Engram."
    return f"`engram dream undo {run}` undoes that."


def _hash(plan: Plan) -> str:
    """Of what it does to what; of the text only where nothing else tells two plans from the same source apart."""
    text = [fingerprint(plan.content)] if plan.what == "remember" else []
    parts = [plan.what, sorted(plan.targets), sorted(plan.sources), text]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _diff(plan: Plan, texts: dict[Thing, str]) -> str:
    """What would go and what would come, line by line."""
    from ..diffs import unified

    if plan.what == "overflow":
        before = next(iter(texts.values()), "")
        after = before.removesuffix(plan.content)
    elif plan.what == "supersede":
        winner = plan.data.get("winner")
        before = "\n".join(text for thing, text in texts.items() if thing != ("memory", winner))
        after = texts.get(("memory", winner or 0), "")
    else:
        before = "\n".join(texts.values())
        after = plan.content
    names = [f"{kind} {ref}" for kind, ref in texts] or ["nothing"]
    ends = {"remember": "a new memory", "archive": "the archive", "supersede": f"memory {plan.data.get('winner')}"}
    end = ends.get(plan.what, "one text")
    return "\n".join(unified(before.splitlines(), after.splitlines(), ", ".join(names), end, around=1))
