"""Changes that wait for a decision: a plan, why it was made, and what became of it.

The same change is proposed only once. Its hash covers what it would do and the versions it is made for, so a rejected
proposal does not come back until its sources have changed.

A decision says whether a person made it (`by_person`): then the memory that the proposal leaves is approved. Accepting
over MCP is not a person's decision. A decision can also say which version of the proposal it is about (`expected`), so
that nobody approves a text that another session wrote meanwhile.

A proposal that is applied by hand has a number and a journal of its own, so that it can be undone like a pass. It
belongs to no session; that is how it differs from a pass.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import checks, json_columns
from ..errors import Conflict, InvalidInput, ProposalNotFound
from ..memory.blocks import Blocks
from ..memory.fingerprints import fingerprint
from ..memory.memories import Memories
from ..records import Proposal
from . import grounds, plans
from .plans import Plan, Tiers
from .undo.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set

    from ..memory.memories import Prepared
    from ..memory.provenance import Thing
    from ..records import Block
    from ..storage.engine import Transaction
    from ..store_view import StoreView

STATES = ("pending", "accepted", "edited", "rejected", "applied")
#: Decided, but not carried out yet.
AGREED = ("accepted", "edited")
#: Digits of a proposal's version. An agent reads it with every proposal, so it is no longer than it must be.
_VERSION_DIGITS = 32
#: The key in a proposal's data that says that a person has agreed to it.
_BY_PERSON = "by_person"

_COLUMNS = "id, state, what, why, confidence, content, data, dream, result, created_at, decided_at, applied_in"
_GET = "SELECT " + _COLUMNS + " FROM proposals WHERE workspace = :workspace AND id = :id"
_LIST = (
    "SELECT "
    + _COLUMNS
    + """ FROM proposals
WHERE workspace = :workspace AND (CAST(:state AS TEXT) IS NULL OR state = :state)
  AND (CAST(:what AS TEXT) IS NULL OR what = :what) AND id > :after ORDER BY id LIMIT :limit"""
)
_LIST_LATEST = (
    "SELECT "
    + _COLUMNS
    + """ FROM proposals
WHERE workspace = :workspace AND (CAST(:state AS TEXT) IS NULL OR state = :state)
  AND (CAST(:what AS TEXT) IS NULL OR what = :what) AND id < :after ORDER BY id DESC LIMIT :limit"""
)
# Without those that are stale: a target has changed, is no longer active, or is gone.
_COUNT_PENDING = """
SELECT COUNT(*) FROM proposals p
WHERE p.workspace = :workspace AND p.state = 'pending' AND NOT EXISTS (
  SELECT 1 FROM proposal_parts t WHERE t.workspace = p.workspace AND t.proposal = p.id AND t.part = 'target'
    AND NOT EXISTS (SELECT 1 FROM memories m WHERE t.kind = 'memory' AND m.workspace = t.workspace AND m.id = t.ref
      AND m.version = t.version AND m.status = 'active')
    AND NOT EXISTS (SELECT 1 FROM blocks b WHERE t.kind <> 'memory' AND b.workspace = t.workspace AND b.id = t.ref
      AND b.version = t.version))
"""
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
SELECT proposal, part, kind, ref, version FROM proposal_parts
WHERE CAST(workspace AS TEXT) = :workspace AND proposal IN (SELECT value FROM json_each(:ids))
ORDER BY part, kind, ref
"""
_DECIDE = """
UPDATE proposals SET state = :state, content = :content, data = :data, result = :result, applied_in = :dream,
  decided_at = :now
WHERE workspace = :workspace AND id = :id
"""
_WITHDRAW_PARTS = """
DELETE FROM proposal_parts WHERE workspace = :workspace
  AND proposal IN (SELECT id FROM proposals WHERE workspace = :workspace AND dream = :dream
                     AND (state = 'pending' OR applied_in = :dream))
"""
_WITHDRAW = """
DELETE FROM proposals WHERE workspace = :workspace AND dream = :dream AND (state = 'pending' OR applied_in = :dream)
"""
_UNAPPLY = """
UPDATE proposals SET state = CASE WHEN EXISTS (SELECT 1 FROM dreams d WHERE d.id = :dream AND d.session_id = '')
  THEN 'pending' ELSE 'accepted' END, result = NULL, applied_in = NULL
WHERE workspace = :workspace AND applied_in = :dream
"""
_BEGIN = """
INSERT INTO dreams (workspace, session_id, started_at, ended_at, report) VALUES (:workspace, '', :now, :now, '{}')
RETURNING id
"""
_MEMORIES = """
SELECT 'memory', id, version, status, content FROM memories
WHERE CAST(workspace AS TEXT) = :workspace AND id IN (SELECT value FROM json_each(:ids))
"""
_BLOCKS = """
SELECT 'block', id, version, 'active', content FROM blocks
WHERE CAST(workspace AS TEXT) = :workspace AND id IN (SELECT value FROM json_each(:ids))
"""


_REWRITES = """
SELECT p.id, p.state, p.content, t.version, p.created_at
FROM proposal_parts t JOIN proposals p ON p.workspace = t.workspace AND p.id = t.proposal
WHERE t.workspace = :workspace AND t.part = 'target' AND t.kind = 'block' AND t.ref = :block AND p.what = 'rewrite'
ORDER BY p.id
"""
_BLOCK_ID = "SELECT id FROM blocks WHERE workspace = :workspace AND name = :name"
_DROP_PARTS = "DELETE FROM proposal_parts WHERE workspace = :workspace AND proposal = :id"
_DROP = "DELETE FROM proposals WHERE workspace = :workspace AND id = :id"


class _RewriteRow(NamedTuple):
    """A text that was proposed for a block."""

    id: int
    state: str
    content: str
    #: The block's version for which it was proposed.
    version: int
    created_at: str

    def answers(self, text: str, version: int) -> bool:
        """Whether this text was rejected, or is proposed already for this version of the block."""
        return self.content == text and (self.state == "rejected" or self.version == version)


class _ProposalRow(NamedTuple):
    """A row of `proposals`, in the order of `_COLUMNS`."""

    id: int
    state: str
    what: str
    why: str
    confidence: float
    content: str
    data: str
    dream: int
    result: int | None
    created_at: str
    decided_at: str | None
    applied_in: int | None


class _Part(NamedTuple):
    """A row of `proposal_parts`: a source, or a target with the version that the proposal was made for."""

    part: str
    kind: str
    ref: int
    version: int


class _State(NamedTuple):
    """A memory or a block as it is now."""

    version: int
    status: str
    content: str


_GONE = _State(0, "gone", "")


class Proposals:
    def __init__(self, view: StoreView, memories: Memories | None = None, blocks: Blocks | None = None) -> None:
        self._view = view
        self._engine = view.engine
        self._workspace = view.workspace
        self.tiers = Tiers(view.workspace, memories or Memories(view), blocks or Blocks(view))

    def show(self, id: int) -> Proposal:
        """One proposal; ProposalNotFound if there is none."""
        with self._engine.read() as tx:
            return self._record(tx, self._row(tx, id))

    def accept(self, id: int, *, by_person: bool = False, expected: str | None = None) -> Proposal:
        """Agree to it. `apply` or the next pass carries it out.

        Conflict when `expected` is given and is not the proposal's `version`.
        """
        return self._decide(id, "accepted", by_person=by_person, expected=expected)

    def edit(self, id: int, content: str, *, by_person: bool = False, expected: str | None = None) -> Proposal:
        """Agree to it with another text.

        Conflict when `expected` is given and is not the proposal's `version`.
        """
        text = checks.content(content, "content")
        with self._engine.read() as tx:
            _check_editable(self._row(tx, id))
        return self._decide(id, "edited", text, by_person=by_person, expected=expected)

    def reject(self, id: int, *, expected: str | None = None) -> Proposal:
        """Reject it. It is not proposed again from the same sources.

        Conflict when `expected` is given and is not the proposal's `version`.
        """
        return self._decide(id, "rejected", expected=expected)

    def apply(
        self, id: int, *, content: str | None = None, by_person: bool = False, expected: str | None = None
    ) -> Proposal:
        """Carry it out, which also accepts it; `dreams.undo` can undo it. One that was applied before is only shown.

        `content`: carry it out with this text instead, in one step. ProposalStale when a target has changed since, and
        Conflict when `expected` is given and is not the proposal's `version`; then nothing is done.
        """
        checks.flag(by_person, "by_person")
        text = None if content is None else checks.content(content, "content")
        with self._engine.read() as tx:
            row = self._row(tx, id)
            plan = self.plan(tx, id)
            _check_expected(id, plan, expected)
            if text is not None:
                _check_editable(row)
            if row.state == "applied":
                return self._shown_again(tx, row, text)
        changed = plan if text is None else plan._replace(content=text)
        prepared = plans.prepare(self.tiers, changed)
        with self._engine.write() as tx:
            self.tiers.memories.lock(tx)
            row = self._row(tx, id)
            if row.state == "rejected":
                raise Conflict(f"Proposal {id} was rejected; accept it first.")
            now = self.plan(tx, id)
            if row.state == "applied":
                _check_expected(id, now, expected)
                return self._shown_again(tx, row, text)
            if now._replace(by_person=plan.by_person) != plan:
                raise _edited(id)
            if text is not None:
                self._set_state(tx, row, "edited", text)
            self._carry_out(tx, id, changed._replace(by_person=now.by_person or by_person), prepared)
            return self._record(tx, self._row(tx, id))

    def _shown_again(self, tx: Transaction, row: _ProposalRow, text: str | None) -> Proposal:
        """A proposal that was applied before. Conflict when it was applied with another text than the given one."""
        if text not in (None, row.content):
            raise _already_applied(row.id, row.applied_in)
        return self._record(tx, row)

    def _carry_out(self, tx: Transaction, id: int, plan: Plan, prepared: Prepared | None) -> None:
        dream: int = tx.value(_BEGIN, workspace=self._workspace, now=tx.now())
        journal = Journal(self._view, dream)
        noted = Tiers(self._workspace, Memories(self._view, journal.record), Blocks(self._view, journal.record))
        self.mark_applied(tx, id, plans.carry_out(tx, noted, plan, prepared).result, dream)
        tx.note(self._workspace, "dream", dream)

    def add(self, tx: Transaction, plan: Plan, dream: int) -> bool:
        """Propose a plan; whether it is new. Outdated when a text that it was made from was forgotten or changed."""
        grounds.require_unchanged(tx, self._workspace, plan.grounds)
        if self.find(tx, plan):
            return False
        made: int = tx.value(
            _INSERT,
            workspace=self._workspace,
            dream=dream,
            what=plan.what,
            why=plan.why,
            confidence=plan.confidence,
            content=plan.content,
            data=_dump(plan.data, by_person=False),
            hash=hash_of(plan),
            now=tx.now(),
        )
        parts = [("source", kind, ref, 0) for kind, ref in plan.sources]
        parts += [("target", kind, ref, version) for kind, ref, version in plan.targets]
        for part, kind, ref, version in parts:
            tx.run(_ADD_PART, workspace=self._workspace, proposal=made, part=part, kind=kind, ref=ref, version=version)
        tx.note(self._workspace, "proposal", made)
        return True

    def add_rewrite(self, tx: Transaction, plan: Plan, dream: int) -> bool:
        """Propose a text for a block; whether it is new.

        It takes the place of an earlier text for the block that is not decided yet. A text that was rejected is not
        proposed again, whatever version the block has.
        """
        ((_, block, version),) = plan.targets
        rows = _rewrites(tx, self._workspace, block)
        if any(row.answers(plan.content, version) for row in rows):
            return False
        for row in rows:
            if row.state == "pending":
                tx.run(_DROP_PARTS, workspace=self._workspace, id=row.id)
                tx.run(_DROP, workspace=self._workspace, id=row.id)
                tx.note(self._workspace, "proposal", row.id)
        return self.add(tx, plan, dream)

    def last_rewrite(self, tx: Transaction, name: str) -> str:
        """When a text for a block was last proposed; empty when it never was."""
        block = tx.value(_BLOCK_ID, workspace=self._workspace, name=name)
        return max((row.created_at for row in _rewrites(tx, self._workspace, block)), default="")

    def find(self, tx: Transaction, plan: Plan) -> tuple[int, str] | None:
        """The number and the state of this plan's proposal, if it was ever proposed."""
        row = tx.one(_KNOWN, workspace=self._workspace, hash=hash_of(plan))
        if row is None:
            return None
        id, state = row
        return id, state

    def mark_applied(self, tx: Transaction, id: int, result: int | None, dream: int | None = None) -> None:
        """Record that it was carried out, in the same transaction, and by which pass."""
        self._set_state(tx, self._row(tx, id), "applied", result=result, dream=dream)

    def reject_plan(self, tx: Transaction, plan: Plan, dream: int) -> None:
        """Record that a plan was carried out, lost something and was undone. It is not tried again."""
        if plan.grounds:
            self.add(tx, plan, dream)
        found = self.find(tx, plan)
        if found is not None:
            id, _ = found
            self._set_state(tx, self._row(tx, id), "rejected")

    def is_agreed(self, tx: Transaction, id: int, plan: Plan) -> bool:
        """Whether this plan is still the one that was agreed to. ProposalNotFound when it was forgotten."""
        return self._row(tx, id).state in AGREED and self.plan(tx, id) == plan

    def plan(self, tx: Transaction, id: int) -> Plan:
        row = self._row(tx, id)
        return _plan(row, self._parts(tx, [id])[id])

    def _parts(self, tx: Transaction, ids: Sequence[int]) -> dict[int, list[_Part]]:
        """What each of these proposals is about."""
        found: dict[int, list[_Part]] = {id: [] for id in ids}
        for id, *part in tx.all(_PARTS, workspace=self._workspace, ids=tx.array(ids)):
            found[id].append(_Part(*part))
        return found

    def _decide(
        self,
        id: int,
        state: str,
        content: str | None = None,
        *,
        by_person: bool = False,
        expected: str | None = None,
    ) -> Proposal:
        checks.flag(by_person, "by_person")
        with self._engine.write() as tx:
            # The same lock as in `apply`: no decision may change while it is carried out.
            self.tiers.memories.lock(tx)
            row = self._row(tx, id)
            if row.state == "applied":
                raise _already_applied(id, row.applied_in)
            _check_expected(id, self.plan(tx, id), expected)
            data = _dump(json_columns.load_object(row.data, "proposals.data"), by_person=by_person)
            self._set_state(tx, row._replace(data=data), state, content)
            return self._record(tx, self._row(tx, id))

    def _set_state(
        self,
        tx: Transaction,
        row: _ProposalRow,
        state: str,
        content: str | None = None,
        result: int | None = None,
        dream: int | None = None,
    ) -> None:
        tx.run(
            _DECIDE,
            workspace=self._workspace,
            id=row.id,
            state=state,
            content=row.content if content is None else content,
            data=row.data,
            result=result,
            dream=dream,
            now=tx.now(),
        )
        tx.note(self._workspace, "proposal", row.id)

    def _row(self, tx: Transaction, id: int) -> _ProposalRow:
        row = tx.one(_GET, workspace=self._workspace, id=checks.whole(id, "proposal id", least=1))
        if row is None:
            raise ProposalNotFound(f"There is no proposal {id} in workspace {self._workspace!r}.")
        return _ProposalRow(*row)

    def _record(self, tx: Transaction, row: _ProposalRow) -> Proposal:
        (made,) = self._records(tx, [row])
        return made

    def _records(self, tx: Transaction, rows: Sequence[_ProposalRow]) -> Sequence[Proposal]:
        """With what they are about, which is read at once for all of them."""
        parts = self._parts(tx, [row.id for row in rows])
        made = [_plan(row, parts[row.id]) for row in rows]
        now = self._current_states(tx, {(kind, ref) for plan in made for kind, ref, _ in plan.targets})
        return [_proposal(row, plan, now) for row, plan in zip(rows, made, strict=True)]

    def _current_states(self, tx: Transaction, targets: Set[Thing]) -> dict[Thing, _State]:
        """The states of those targets that there are."""
        memories = tx.array([ref for kind, ref in targets if kind == "memory"])
        blocks = tx.array([ref for kind, ref in targets if kind != "memory"])
        rows = tx.all(_MEMORIES, workspace=self._workspace, ids=memories)
        rows += tx.all(_BLOCKS, workspace=self._workspace, ids=blocks)
        return {(kind, ref): _State(*state) for kind, ref, *state in rows}

    # Defined last, because the name `list` hides the type in annotations after it.
    def list(
        self,
        state: str | None = "pending",
        limit: int = 0,
        *,
        what: str | None = None,
        stale: bool = False,
        latest: bool = False,
        after: int | None = None,
    ) -> list[Proposal]:
        """Proposals in a state, oldest first. State None means any, limit 0 means all. Stale ones are listed as pending
        only with `stale`.

        `what`: only proposals to do this. `latest`: the newest first. `after`, the last id of a page, gives the next
        page.
        """
        if state is not None and state not in STATES:
            raise InvalidInput(f"state is {state!r}; it must be one of {', '.join(STATES)}.")
        most = checks.whole(limit, "limit", least=0) or checks.MAX_WHOLE
        checks.flag(stale, "stale")
        checks.flag(latest, "latest")
        last = checks.whole(after, "after", least=0) if after is not None else checks.MAX_WHOLE if latest else 0
        chosen = {"workspace": self._workspace, "state": state, "what": checks.optional_name(what, "what")}
        found: list[Proposal] = []
        with self._engine.read() as tx:
            # A page of rows may have stale proposals, which are left out. Then the next rows follow.
            while len(found) < most:
                page = {"after": last, "limit": most, **chosen}
                listed = tx.all(_LIST_LATEST, **page) if latest else tx.all(_LIST, **page)
                rows = [_ProposalRow(*row) for row in listed]
                found += [each for each in self._records(tx, rows) if stale or state != "pending" or not each.stale]
                if len(rows) < most:
                    break
                last = rows[-1].id
        return found[:most]


def count_pending(tx: Transaction, workspace: str) -> int:
    """How many proposals wait for a decision, without stale ones: as many as `list` returns."""
    count: int = tx.value(_COUNT_PENDING, workspace=workspace)
    return count


def is_rewrite_known(tx: Transaction, workspace: str, block: Block, text: str) -> bool:
    """Whether a text for a block was rejected, or is proposed already for its latest version."""
    id = tx.value(_BLOCK_ID, workspace=workspace, name=block.name)
    return any(row.answers(text, block.version) for row in _rewrites(tx, workspace, id))


def _rewrites(tx: Transaction, workspace: str, block: int) -> list[_RewriteRow]:
    return [_RewriteRow(*row) for row in tx.all(_REWRITES, workspace=workspace, block=block)]


def withdraw(tx: Transaction, workspace: str, dream: int) -> None:
    """Undo the proposals of a pass, or of a proposal that was applied by hand: delete those that are undecided, and
    those that the same pass made and applied.

    Any other proposal that a pass applied was accepted before and stays so. One that was applied by hand is pending
    again.
    """
    tx.run(_WITHDRAW_PARTS, workspace=workspace, dream=dream)
    tx.run(_WITHDRAW, workspace=workspace, dream=dream)
    tx.run(_UNAPPLY, workspace=workspace, dream=dream)


def _plan(row: _ProposalRow, parts: Sequence[_Part]) -> Plan:
    data = json_columns.load_object(row.data, "proposals.data")
    # A decision that was undone does not count any more.
    by_person = data.pop(_BY_PERSON, False) is True and row.state in AGREED
    return Plan(
        row.what,
        row.why,
        row.confidence,
        row.content,
        tuple((each.kind, each.ref, each.version) for each in parts if each.part == "target"),
        tuple((each.kind, each.ref) for each in parts if each.part == "source"),
        data,
        by_person=by_person,
    )


def _proposal(row: _ProposalRow, plan: Plan, states: Mapping[Thing, _State]) -> Proposal:
    now = {(kind, ref): states.get((kind, ref), _GONE) for kind, ref, _ in plan.targets}
    stale = row.state != "applied" and any(
        now[kind, ref][:2] != (version, "active") for kind, ref, version in plan.targets
    )
    return Proposal(
        id=row.id,
        state=row.state,
        what=row.what,
        why=row.why,
        confidence=row.confidence,
        content=row.content,
        targets=tuple(now),
        sources=plan.sources,
        diff=_diff(plan, {thing: state.content for thing, state in now.items()}),
        stale=stale,
        dream=row.dream,
        result=row.result,
        created_at=row.created_at,
        decided_at=row.decided_at,
        applied_as=row.applied_in,
        keeps=plan.data.get("winner"),
        block=plan.data.get("block"),
        version=_version(plan),
    )


def _version(plan: Plan) -> str:
    """Hash of what a plan would do, with its text."""
    parts = [hash_of(plan), plan.content, plan.data]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:_VERSION_DIGITS]


def _check_expected(id: int, plan: Plan, expected: str | None) -> None:
    if expected is not None and expected != _version(plan):
        raise _edited(id)


def _edited(id: int) -> Conflict:
    return Conflict(f"Proposal {id} was edited meanwhile; look at it again.")


def _check_editable(row: _ProposalRow) -> None:
    if row.what == "rewrite":
        raise InvalidInput(f"Accept or reject proposal {row.id}; to write another text, edit the block itself.")
    if row.what not in ("remember", "merge"):
        raise InvalidInput(f"A proposal to {row.what} has no text to edit; accept or reject proposal {row.id}.")


def _dump(data: dict[str, Any], *, by_person: bool) -> str:
    """What a proposal's data says, and whether a person has agreed to it."""
    rest = {name: value for name, value in data.items() if name != _BY_PERSON}
    return json_columns.dump({**rest, **({_BY_PERSON: True} if by_person else {})}, "data")


def _already_applied(id: int, dream: int | None) -> Conflict:
    if dream is None:  # an earlier release kept no journal of it
        return Conflict(
            f"Proposal {id} is already applied. It cannot be undone: it was applied by an earlier version of Engram."
        )
    return Conflict(
        f"Proposal {id} is already applied, by pass {dream}.", typed=f"`engram dream undo {dream}` undoes that."
    )


def hash_of(plan: Plan) -> str:
    """Hash of what a plan does to which things. It covers the text only where nothing else distinguishes two plans."""
    text = [fingerprint(plan.content)] if plan.what in ("remember", "rewrite") else []
    parts = [plan.what, sorted(plan.targets), sorted(plan.sources), text]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _diff(plan: Plan, texts: dict[Thing, str]) -> str:
    """What would be removed and added, line by line."""
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
    if plan.what == "rewrite":
        names = [f"block {plan.data.get('block')}, as it is"]
    ends = {"remember": "a new memory", "archive": "the archive", "supersede": f"memory {plan.data.get('winner')}"}
    ends["rewrite"] = f"block {plan.data.get('block')}, as a pass would write it"
    end = ends.get(plan.what, "one text")
    return "\n".join(unified(before.splitlines(), after.splitlines(), ", ".join(names), end, around=1))
