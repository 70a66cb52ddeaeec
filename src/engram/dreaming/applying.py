"""Carrying out plans within a pass, and the policy that says which ones need no person's decision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import Miscounted, NotFound, PersonNeeded, ProposalStale
from ..memory.exchanges import TRUSTS
from . import plans
from .grounds import Outdated

if TYPE_CHECKING:
    from ..config import Config
    from ..records import Exchange, Memory
    from ..storage.engine import Transaction
    from .pass_context import PassContext
    from .plans import Plan

#: What became of a plan: it was carried out, it was not possible, or it went wrong and was rolled back.
DONE, SKIPPED, ROLLED_BACK = "done", "skipped", "rolled back"
_TODO = "todo"


def carry_out(context: PassContext, plan: Plan, agreed: int | None = None) -> str:
    """Carry out a plan as one action; `agreed` is the number of its proposal, if a person has agreed to one."""
    assert plan.grounds or agreed, "a plan that a pass makes has grounds"
    try:
        context.probe.ask_about((kind, id) for kind, id, _ in plan.targets)
        prepared = plans.prepare(context.proposals.tiers, plan)
        with context.write() as tx:
            known = _find_proposal(context, tx, plan, agreed)
            done = plans.carry_out(tx, context.proposals.tiers, plan, prepared)
            if known:
                context.proposals.mark_applied(tx, known, done.result, context.dream)
    except (Outdated, ProposalStale, NotFound, PersonNeeded):
        return SKIPPED
    except Miscounted as wrong:
        context.alarms.append(str(wrong))
        return ROLLED_BACK
    context.touch(done.touched)
    context.changes[context.number] = (plan, done)
    return DONE


def may_replace(config: Config, older: Memory, newer: Memory) -> bool:
    """Whether the newer of two memories may win without a person: if the user wants it and it is no less trusted.

    A pinned memory, or one that a person has approved, is replaced only if a person decides so.
    """
    return (
        config.dream_resolve_conflicts == "on"
        and TRUSTS.index(newer.trust) <= TRUSTS.index(older.trust)
        and not older.pinned
        and not older.approved
    )


def may_close(memory: Memory, shown_by: Exchange) -> bool:
    """Whether a turn may close a memory without a person.

    An agent may say that a task is done. Anything else ends only by the word of somebody who is no less trusted.
    """
    trusted = memory.kind == _TODO or TRUSTS.index(shown_by.trust) <= TRUSTS.index(memory.trust)
    return trusted and not memory.pinned and not memory.approved


def _find_proposal(context: PassContext, tx: Transaction, plan: Plan, agreed: int | None) -> int | None:
    """The number of the plan's proposal, if there is one. ProposalStale when it must not be carried out now."""
    proposals = context.proposals
    if agreed is not None:
        # Under this lock nothing can be forgotten that the proposal's text may quote.
        context.memories.lock(tx)
        if not proposals.is_agreed(tx, agreed, plan):
            raise ProposalStale(f"The decision on proposal {agreed} has just changed.")
        return agreed
    id, state = proposals.find(tx, plan) or (None, "")
    if state == "rejected":
        raise ProposalStale(f"Proposal {id} was rejected.")
    return id
