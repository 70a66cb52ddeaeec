"""Coherence, first of all: what is known stays small. Duplicates become one, contradictions are decided, dead wood is
put away, and what a block has no room for becomes a memory.

By default only what has the same text is merged by itself; everything else is proposed. A memory has to be a day old
first. Compared are, once, those that have come of age since the last pass that got to its end, and those of age that
have changed since.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ...clock import between, later
from ...errors import Miscounted, NotFound, ProposalStale
from ...memory.exchanges import TRUSTS
from ...memory.memories import fingerprint
from ...tokens import CHARACTERS_PER_TOKEN
from .. import plans
from ..duplicates import similar
from ..grounds import Outdated
from ..pass_context import TRUSTED, Tally
from ..proposals import AGREED
from .extract import CONTRADICTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ...records import Memory
    from ...storage.engine import Transaction
    from ..pass_context import PassContext
    from ..plans import Plan

STAGE = "consolidate"
#: What was merged is compared again, so often at most.
_ROUNDS = 10
_DAY = 86_400
#: When a change is made without asking anybody.
_ALWAYS, _BY_POLICY, _NEVER = "always", "by policy", "never"

_COMPARED = """
SELECT compared, COALESCE(matured, '') FROM dreams
WHERE workspace = :workspace AND compared IS NOT NULL ORDER BY id DESC LIMIT 1
"""
_SET_COMPARED = """
UPDATE dreams SET compared = :upto, matured = :matured WHERE workspace = :workspace AND id = :dream
"""
_LAST_CHANGE = "SELECT COALESCE(MAX(number), 0) FROM changes WHERE workspace = :workspace"
_CHANGED = """
SELECT DISTINCT id FROM changes WHERE workspace = :workspace AND number > :since AND what = 'memory'
"""
_OF_AGE = """
SELECT id FROM memories
WHERE id IN (SELECT value FROM json_each(:ids)) AND CAST(workspace AS TEXT) = :workspace AND created_at <= :matured
"""
_CAME_OF_AGE = """
SELECT id FROM memories
WHERE workspace = :workspace AND status = 'active' AND created_at > :before AND created_at <= :matured
"""
_IDLE = """
SELECT m.id FROM memories m
WHERE m.workspace = :workspace AND m.status = 'active' AND m.kind NOT IN ('gist', 'era', 'digest')
  AND m.pinned = 0 AND m.importance < :importance AND m.recalled <= :recalls
  AND m.updated_at < :before AND (m.recalled_at IS NULL OR m.recalled_at < :before)
  AND (m.expires_at IS NULL OR m.expires_at > :now)
  AND NOT EXISTS (SELECT 1 FROM proposal_parts p JOIN proposals q ON q.id = p.proposal
                  WHERE p.workspace = :workspace AND p.part = 'target' AND p.kind = 'memory' AND p.ref = m.id
                    AND p.version = m.version AND q.what = 'archive' AND (q.state = 'rejected' OR :propose = 1))
ORDER BY m.id LIMIT :limit
"""


class Likeness(NamedTuple):
    score: float
    first: Memory
    second: Memory
    same: bool


class Compared(NamedTuple):
    """What comparing found."""

    alike: list[Likeness]
    #: Contradictions, the older one first.
    against: list[tuple[float, Memory, Memory]]


class _Full(Exception):
    """As many changes were made as one pass may make."""


def run(context: PassContext) -> None:
    if context.view.config.dream_consolidate == "off":
        return
    context.probe.sample()
    tally = Tally()
    worker = _Worker(context, tally)
    try:
        worker.agreed()
        worker.compare()
        worker.put_away()
        worker.store_overflows()
    except _Full:
        done = f"{tally.actions} changes" + (f" and {tally.proposed} proposals" if tally.proposed else "")
        context.errors.append(f"{STAGE}: stopped at {done}, as many as one pass may make")
    context.tally = tally


class _Worker:
    def __init__(self, context: PassContext, tally: Tally) -> None:
        self._context = context
        self._tally = tally
        self._config = context.view.config
        self._apply = self._config.dream_consolidate == "apply"

    def agreed(self) -> None:
        """What somebody has agreed to since."""
        context = self._context
        plans_of: dict[int, Plan] = {}
        for state in AGREED:
            for proposal in context.proposals.list(state):
                with suppress(NotFound), context.engine.read() as tx:
                    plan = context.proposals.plan(tx, proposal.id)
                    plans_of[proposal.id] = plan
        for id, plan in plans_of.items():
            self._do(plan, id)

    def compare(self) -> None:
        """Everything that is new since the last time, with what is close to it."""
        context, workspace = self._context, self._context.workspace
        for number in range(_ROUNDS):
            context.step(STAGE, number, _ROUNDS)
            with context.engine.read() as tx:
                (upto,) = tx.all(_LAST_CHANGE, workspace=workspace)[0]
                matured = later(tx.now(), -self._config.dream_min_age)
                fresh = self._fresh(tx, matured)
            before = self._tally.actions
            found = self._compared(fresh, matured)
            self._merge(found.alike)
            decided: set[int] = set()
            for sure, older, newer in plans.surest(found.against):
                both = {older.id, newer.id}
                # One decision about a memory at a time: it may settle the others.
                if not both & decided:
                    new = self._decide(plans.supersede(older, newer, sure), self._resolves(older, newer))
                    decided |= both if new else set()
            with context.write() as tx:
                tx.run(_SET_COMPARED, workspace=workspace, dream=context.dream, upto=upto, matured=matured)
            if self._tally.actions == before:
                break
        context.step(STAGE, _ROUNDS, _ROUNDS)

    def _fresh(self, tx: Transaction, matured: str) -> set[int]:
        """What has come of age since it was last compared, and what of age has changed since."""
        workspace = self._context.workspace
        since, before = tx.one(_COMPARED, workspace=workspace) or (0, "")
        changed = tx.array(int(id) for (id,) in tx.all(_CHANGED, workspace=workspace, since=since))
        rows = tx.all(_OF_AGE, workspace=workspace, ids=changed, matured=matured)
        rows += tx.all(_CAME_OF_AGE, workspace=workspace, before=before, matured=matured)
        return {id for (id,) in rows}

    def _compared(self, fresh: set[int], matured: str) -> Compared:
        """The pairs that say the same or cannot both be true. One that is too young comes up when it is of age."""
        from ..duplicates import candidates  # it needs numpy

        found = Compared([], [])
        for first, second, cosine in candidates.candidates(self._context.view, fresh):
            try:
                one, other = self._context.memories.get(first), self._context.memories.get(second)
            except NotFound:
                continue
            if max(one.created_at, other.created_at) > matured:
                continue
            likeness = self._likeness(one, other, cosine)
            if likeness is not None:
                found.alike.append(likeness)
                continue
            against = similar.contradicts(one.content, other.content, cosine)
            if against >= CONTRADICTS:
                found.against.append((against, *plans.older_first(one, other)))
        return found

    def _likeness(self, one: Memory, other: Memory, cosine: float | None) -> Likeness | None:
        same = fingerprint(one.content) == fingerprint(other.content)
        score = 1.0 if same else similar.alike(one.content, other.content, cosine)
        if not same and (score < self._config.dream_similarity or similar.differ(one.content, other.content)):
            return None
        if not _belong(one, other):
            self._tally.skipped += 1
            return None
        return Likeness(score, one, other, same)

    def _merge(self, found: list[Likeness]) -> None:
        """Those of the same text by themselves, where the others need somebody's consent: what is left of them is
        compared again."""
        taken: set[int] = set()
        for same in (False,) if self._apply else (True, False):
            left = [each for each in found if each.same >= same and not {each.first.id, each.second.id} & taken]
            for score, group in _groups(left):
                self._tally.groups += 1
                taken.update(memory.id for memory in group)
                self._decide(plans.merge(group, self._config.dream_similarity, score), _ALWAYS if same else _BY_POLICY)

    def _resolves(self, older: Memory, newer: Memory) -> str:
        """When a contradiction is decided here: the newer one wins, if it is no less trusted."""
        trusted = TRUSTS.index(newer.trust) <= TRUSTS.index(older.trust)
        resolves = self._config.dream_resolve_conflicts == "on" and trusted and not older.pinned
        return _BY_POLICY if resolves else _NEVER

    def put_away(self) -> None:
        """Archive what nobody has used for long and nobody called important."""
        context, config = self._context, self._config
        with context.engine.read() as tx:
            now = tx.now()
            rows = tx.all(
                _IDLE,
                workspace=context.workspace,
                importance=config.dream_archive_importance,
                recalls=config.dream_archive_recalls,
                before=later(now, -max(config.dream_archive_after, config.dream_min_age)),
                now=now,
                propose=int(not self._apply),
                limit=config.dream_max_actions,
            )
        for (id,) in rows:
            try:
                memory = context.memories.get(id)
            except NotFound:
                continue
            used = max(memory.updated_at, memory.recalled_at or "")
            self._decide(plans.archive(memory, int(between(used, now) // _DAY)), _BY_POLICY)

    def store_overflows(self) -> None:
        context = self._context
        for block in context.blocks.list():
            if block.name in plans.WHOLE or len(block.content) <= block.max_tokens * CHARACTERS_PER_TOKEN:
                continue
            with context.engine.read() as tx:
                plan = plans.overflow(tx, context.workspace, block.name)
            if plan is not None:
                self._decide(plan, _BY_POLICY)

    def _decide(self, plan: Plan, by_itself: str) -> bool:
        """Do it or propose it; whether either is new."""
        if by_itself == _ALWAYS or (by_itself == _BY_POLICY and self._apply):
            return self._do(plan)
        self._make_sure_of_room()
        new = False
        with suppress(Outdated), self._context.write() as tx:
            new = self._context.propose(tx, plan)
        self._tally.proposed += new
        self._tally.skipped += not new
        return new

    def _make_sure_of_room(self) -> None:
        if self._tally.actions + self._tally.proposed >= self._config.dream_max_actions:
            raise _Full

    def _do(self, plan: Plan, agreed: int | None = None) -> bool:
        """Carry a plan out, or the proposal of that number."""
        context = self._context
        assert plan.grounds or agreed, "a plan of a pass says what it rests on"
        self._make_sure_of_room()
        try:
            context.probe.about((kind, id) for kind, id, _ in plan.targets)
            prepared = plans.prepare(context.proposals.tiers, plan)
            with context.action() as tx:
                known = self._wanted(tx, plan, agreed)
                done = plans.carry_out(tx, context.proposals.tiers, plan, prepared)
                if known:
                    context.proposals.settle(tx, known, done.result, context.dream)
        except (Outdated, ProposalStale, NotFound):
            self._tally.skipped += 1
            return False
        except Miscounted as wrong:
            context.alarms.append(str(wrong))
            return False
        context.touch(done.touched)
        context.changes[context.number] = (plan, done)
        self._tally.actions += 1
        return True

    def _wanted(self, tx: Transaction, plan: Plan, agreed: int | None) -> int | None:
        """The number of the plan's proposal, if it has one; ProposalStale when it is not to be done any more."""
        proposals = self._context.proposals
        if agreed is not None:
            # Nobody may forget what it is about from here on: its text may be theirs.
            self._context.memories.lock(tx)
            if not proposals.agreed(tx, agreed, plan):
                raise ProposalStale(f"Proposal {agreed} was decided anew just now.")
            return agreed
        known = proposals.known(tx, plan)
        if known and known[1] == "rejected":
            raise ProposalStale(f"Proposal {known[0]} was rejected.")
        return known[0] if known else None


def _belong(one: Memory, other: Memory) -> bool:
    """Whether two texts that say the same may become one memory: nobody who looks for either may miss it."""
    keys = {each.key for each in (one, other)} - {None}
    trusted = [each.trust in TRUSTED for each in (one, other)]
    return (
        len(keys) < 2
        and one.project == other.project
        and (one.expires_at is None) == (other.expires_at is None)
        and (trusted[0] == trusted[1])
    )


def _groups(found: Iterable[Likeness]) -> Iterator[tuple[float, list[Memory]]]:
    """Memories that belong together, as large groups as there are, with how alike the least alike of them are.

    The closest come first; a memory joins a group when nothing tells it from any of its members.
    """
    groups: list[dict[int, Memory]] = []
    least: dict[int, float] = {}
    for score, first, second, _ in sorted(found, key=lambda each: (-each.score, each.first.id, each.second.id)):
        mine, theirs = (
            next((group for group in groups if each.id in group), {each.id: each}) for each in (first, second)
        )
        if mine is theirs or not all(_one(a, b) for a in mine.values() for b in theirs.values()):
            continue
        groups = [group for group in groups if group is not mine and group is not theirs]
        groups.append({**mine, **theirs})
        least.update(dict.fromkeys(groups[-1], score))
    for group in groups:
        members = [group[id] for id in sorted(group)]
        yield least[members[0].id], members


def _one(one: Memory, other: Memory) -> bool:
    return _belong(one, other) and similar.differ(one.content, other.content) is None
