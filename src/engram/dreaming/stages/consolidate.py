"""Consolidation: merges duplicates, decides contradictions, archives unused memories, moves a block's overflow.

By default only memories with identical text are merged without asking; every other change is proposed. A memory must
have reached a minimum age. Each pass compares the memories that reached it since the last completed comparison, and
older ones that have changed since. Items of stores (kind `store-item`) are left alone.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ...clock import later
from ...errors import NotFound
from ...memory.embedding_models import model_of
from ...memory.fingerprints import fingerprint
from ...storage import changes
from ...tokens import CHARACTERS_PER_TOKEN
from .. import applying, plans
from ..duplicates import similar
from ..grounds import Outdated
from ..pass_context import TRUSTED, ConsolidationCounts
from ..proposals import AGREED
from ..unused import unused

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ...records import Memory
    from ...storage.engine import Transaction
    from ..pass_context import PassContext
    from ..plans import Plan

STAGE = "consolidate"
#: Merged memories are compared again, at most this many times.
_ROUNDS = 10
#: When a change is made without a person's decision.
_ALWAYS, _BY_POLICY, _NEVER = "always", "by policy", "never"

_COMPARED = """
SELECT compared, COALESCE(matured, '') FROM dreams
WHERE workspace = :workspace AND compared IS NOT NULL ORDER BY id DESC LIMIT 1
"""
_SET_COMPARED = """
UPDATE dreams SET compared = :upto, matured = :matured WHERE workspace = :workspace AND id = :dream
"""
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


class Likeness(NamedTuple):
    """Two memories that say the same."""

    score: float
    first: Memory
    second: Memory
    same: bool
    #: The words are nearly the same. A rewording with other words is only ever proposed.
    literal: bool


class Pairs(NamedTuple):
    """What the comparison found."""

    alike: list[Likeness]
    #: Contradictions, the older one first.
    against: list[tuple[float, Memory, Memory]]


class _LimitReached(Exception):
    """The pass has made as many changes as it may."""


def run(context: PassContext) -> None:
    """Consolidate, as far as the settings allow it."""
    if context.view.config.dream_consolidate == "off":
        return
    context.probe.ask_sample()
    counts = ConsolidationCounts()
    worker = _Consolidation(context, counts)
    try:
        if not context.propose_only:
            worker.apply_agreed()
        worker.compare_fresh()
        worker.archive_idle()
        worker.store_overflows()
    except _LimitReached:
        done = f"{counts.actions} changes" + (f" and {counts.proposed} proposals" if counts.proposed else "")
        context.errors.append(f"{STAGE}: stopped at {done}, the limit of one pass (dream_max_actions)")
    context.consolidation = counts


class _Consolidation:
    """One consolidation: what to change, whether to apply or only propose it, and the counts for the report."""

    def __init__(self, context: PassContext, counts: ConsolidationCounts) -> None:
        self._context = context
        self._counts = counts
        self._config = context.view.config
        self._apply = self._config.dream_consolidate == "apply" and not context.propose_only

    def apply_agreed(self) -> None:
        """Carry out the proposals that a person has agreed to since the last pass."""
        context = self._context
        plans_of: dict[int, Plan] = {}
        for state in AGREED:
            for proposal in context.proposals.list(state):
                with suppress(NotFound), context.engine.read() as tx:
                    plan = context.proposals.plan(tx, proposal.id)
                    plans_of[proposal.id] = plan
        for id, plan in plans_of.items():
            self._carry_out(plan, id)

    def compare_fresh(self) -> None:
        """Compare the memories that are due with those close to them. Merge duplicates and decide contradictions."""
        context, workspace = self._context, self._context.workspace
        for number in range(_ROUNDS):
            context.checkpoint(STAGE, number, _ROUNDS)
            with context.engine.read(feed=True) as tx:
                upto = changes.latest(tx, workspace)
                matured = later(tx.now(), -self._config.dream_min_age)
                fresh = self._memories_to_compare(tx, matured)
            before = self._counts.actions
            found = self._find_pairs(fresh, matured)
            self._merge_groups(found.alike)
            decided: set[int] = set()
            for sure, older, newer in plans.by_certainty(found.against):
                both = {older.id, newer.id}
                # One decision per memory at a time, because it may settle the others.
                if not both & decided:
                    policy = _BY_POLICY if applying.may_replace(self._config, older, newer) else _NEVER
                    new = self._apply_or_propose(plans.supersede(older, newer, sure), policy)
                    decided |= both if new else set()
            if context.propose_only:
                break  # a pass that may change memories looks at these again
            with context.write() as tx:
                tx.run(_SET_COMPARED, workspace=workspace, dream=context.dream, upto=upto, matured=matured)
            if self._counts.actions == before:
                break
        context.checkpoint(STAGE, _ROUNDS, _ROUNDS)

    def _memories_to_compare(self, tx: Transaction, matured: str) -> set[int]:
        """Memories that reached the minimum age since the last comparison, and older ones that changed since."""
        workspace = self._context.workspace
        since, before = tx.one(_COMPARED, workspace=workspace) or (0, "")
        changed = tx.array(int(id) for id in tx.column(_CHANGED, workspace=workspace, since=since))
        fresh = tx.column(_OF_AGE, workspace=workspace, ids=changed, matured=matured)
        fresh += tx.column(_CAME_OF_AGE, workspace=workspace, before=before, matured=matured)
        return set(fresh)

    def _find_pairs(self, fresh: set[int], matured: str) -> Pairs:
        """Pairs that say the same or contradict each other. A pair with a younger memory comes up once that one is old
        enough."""
        from ..duplicates import candidates  # it needs numpy

        found = Pairs([], [])
        with self._context.engine.read() as tx:
            model = model_of(tx, self._context.workspace) or ""
        for first, second, cosine in candidates.candidates(self._context.view, fresh):
            try:
                one, other = self._context.memories.get(first), self._context.memories.get(second)
            except NotFound:
                continue
            if max(one.created_at, other.created_at) > matured:
                continue
            likeness = self._likeness(one, other, cosine, model)
            if likeness is not None:
                found.alike.append(likeness)
                continue
            against = similar.contradicts(one.content, other.content, cosine, model)
            if against >= plans.CONTRADICTS:
                found.against.append((against, *plans.older_first(one, other)))
        return found

    def _likeness(self, one: Memory, other: Memory, cosine: float | None, model: str) -> Likeness | None:
        same = fingerprint(one.content) == fingerprint(other.content)
        score = 1.0 if same else similar.alike(one.content, other.content, cosine, model)
        if not same and (score < self._config.dream_similarity or similar.differ(one.content, other.content)):
            return None
        if not _may_merge(one, other):
            self._counts.skipped += 1
            return None
        literal = same or similar.same_words(one.content, other.content, cosine) >= self._config.dream_similarity
        return Likeness(score, one, other, same, literal)

    def _merge_groups(self, found: list[Likeness]) -> None:
        """Merge or propose groups of memories that say the same.

        When other merges need a decision, memories with identical text are merged first and by themselves. What is left
        is compared again.
        """
        taken: set[int] = set()
        for same in (False,) if self._apply or self._context.propose_only else (True, False):
            left = [each for each in found if each.same >= same and not {each.first.id, each.second.id} & taken]
            for score, group in _groups(left):
                self._counts.groups += 1
                taken.update(memory.id for memory in group)
                plan = plans.merge(group, self._config.dream_similarity, score)
                ids = {memory.id for memory in group}
                reworded = any(not each.literal for each in left if {each.first.id, each.second.id} <= ids)
                policy = _ALWAYS if same else _NEVER if reworded else _BY_POLICY
                self._apply_or_propose(plan, policy if plans.keeps_approval(plan.content, group) else _NEVER)

    def archive_idle(self) -> None:
        """Archive memories that are unimportant and were not used for a long time (`unused`)."""
        for idle in unused(self._context.view, propose=not self._apply):
            try:
                memory = self._context.memories.get(idle.id)
            except NotFound:
                continue
            self._apply_or_propose(plans.archive(memory, idle.days, idle.paused), _BY_POLICY)

    def store_overflows(self) -> None:
        """Move what exceeds a block's budget into a memory."""
        context = self._context
        for block in context.blocks.list():
            if block.name in plans.NEVER_CUT or len(block.content) <= block.max_tokens * CHARACTERS_PER_TOKEN:
                continue
            with context.engine.read() as tx:
                plan = plans.overflow(tx, context.workspace, block.name)
            if plan is not None:
                self._apply_or_propose(plan, _BY_POLICY)

    def _apply_or_propose(self, plan: Plan, by_itself: str) -> bool:
        """Carry out a plan or propose it; whether either is new."""
        if by_itself == _ALWAYS or (by_itself == _BY_POLICY and self._apply):
            return self._carry_out(plan)
        self._require_room()
        new = False
        with suppress(Outdated), self._context.write() as tx:
            new = self._context.propose(tx, plan)
        self._counts.proposed += new
        self._counts.skipped += not new
        return new

    def _require_room(self) -> None:
        if self._counts.actions + self._counts.proposed >= self._config.dream_max_actions:
            raise _LimitReached

    def _carry_out(self, plan: Plan, agreed: int | None = None) -> bool:
        """Carry out a plan; `agreed` is the number of its proposal, if a person has agreed to one."""
        self._require_room()
        outcome = applying.carry_out(self._context, plan, agreed)
        self._counts.actions += outcome == applying.DONE
        self._counts.skipped += outcome == applying.SKIPPED
        return outcome == applying.DONE


def _may_merge(one: Memory, other: Memory) -> bool:
    """Whether two memories may become one, so that a search by key, project, expiry or trust still finds it."""
    keys = {each.key for each in (one, other)} - {None}

    return (
        len(keys) < 2
        and one.project == other.project
        and (one.expires_at is None) == (other.expires_at is None)
        and (one.trust in TRUSTED) == (other.trust in TRUSTED)
    )


def _groups(found: Iterable[Likeness]) -> Iterator[tuple[float, list[Memory]]]:
    """The largest groups of memories that say the same, each with the score of its least similar pair.

    The most similar pairs come first. A memory joins a group when it may be merged with every member.
    """
    groups: list[dict[int, Memory]] = []
    least: dict[int, float] = {}
    for score, first, second, *_ in sorted(found, key=lambda each: (-each.score, each.first.id, each.second.id)):
        mine, theirs = (
            next((group for group in groups if each.id in group), {each.id: each}) for each in (first, second)
        )
        if mine is theirs or not all(_may_share_group(a, b) for a in mine.values() for b in theirs.values()):
            continue
        groups = [group for group in groups if group is not mine and group is not theirs]
        groups.append({**mine, **theirs})
        least.update(dict.fromkeys(groups[-1], score))
    for group in groups:
        members = [group[id] for id in sorted(group)]
        yield least[members[0].id], members


def _may_share_group(one: Memory, other: Memory) -> bool:
    return _may_merge(one, other) and similar.differ(one.content, other.content) is None
