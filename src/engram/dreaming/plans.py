"""A planned change to memories, and the one place where plans are carried out.

A plan says what it would change and at which version. So it can wait, be shown, and be decided by a person. Carrying it
out is one transaction: it checks the targets again, makes the change, and counts the rows. Memories are never deleted,
and no more of them may stop being active than the plan says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .. import sentences
from ..errors import Miscounted, ProposalStale
from ..memory import approvals
from ..memory.blocks import kept_length
from ..memory.exchanges import TRUSTS
from ..memory.fingerprints import fingerprint
from ..memory.memories import MERGED
from ..records import WORLD
from ..tokens import estimate
from . import grounds
from .duplicates import similar
from .grounds import Ground

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..memory.blocks import Blocks
    from ..memory.memories import Memories, Prepared
    from ..memory.provenance import Thing
    from ..records import Block, Exchange, Memory
    from ..storage.engine import Transaction

#: A contradiction at least this sure is proposed for a decision.
CONTRADICTS = 0.75
#: The writer of what a pass writes, and the writers of derived texts. Everybody else's texts are their own.
DREAM = "dream"
DERIVED = (DREAM, "import")
#: Budget of the blocks of the portrait.
PORTRAIT_TOKENS = 32_768
#: Blocks that their owner writes as a whole. Nothing is ever cut off from these.
NEVER_CUT = frozenset({WORLD, "profile", "narrative", "self"})

#: The key in the data of a plan that archives a memory because it is done; its value is the day.
CLOSED = "closed"

_COUNT = """
SELECT COUNT(*), COALESCE(SUM(CASE WHEN status = 'active' THEN 1 ELSE 0 END), 0), COALESCE(MAX(id), 0)
FROM memories WHERE workspace = :workspace
"""
_BLOCK_VERSION = "SELECT version FROM blocks WHERE workspace = :workspace AND id = :id"
_BLOCK_BY_NAME = "SELECT id, content, version, max_tokens FROM blocks WHERE workspace = :workspace AND name = :name"


class Plan(NamedTuple):
    #: `remember`, `merge`, `supersede`, `archive`, `overflow` or `rewrite`.
    what: str
    why: str
    confidence: float
    #: The new text; empty when the plan writes none.
    content: str
    #: What is changed: kind, id, and the version that the plan was made for.
    targets: tuple[tuple[str, int, int], ...]
    sources: tuple[Thing, ...]
    #: Other values that carrying it out needs; JSON values.
    data: dict[str, Any]
    #: The texts it was made from. A plan that was read from the store has none, because forgetting deletes such plans.
    grounds: tuple[Ground, ...] = ()
    #: A person has agreed to it, and thereby approves the memory that it leaves.
    by_person: bool = False


class PlanResult(NamedTuple):
    """What carrying out a plan changed."""

    #: The memory that was made or that replaces the others.
    result: int | None
    touched: tuple[Thing, ...]
    #: Tokens of the touched memories that are active, before and after.
    tokens_before: int
    tokens_after: int


class Tiers(NamedTuple):
    """What plans are carried out with."""

    workspace: str
    memories: Memories
    blocks: Blocks


def merge(memories: Sequence[Memory], least: float, confidence: float) -> Plan:
    """Merge memories that say the same into one."""
    ids = ", ".join(str(memory.id) for memory in memories)
    return Plan(
        "merge",
        f"memories {ids} say the same",
        round(confidence, 4),
        merged_text([memory.content for memory in by_worth(memories)], least),
        tuple(sorted(("memory", memory.id, memory.version) for memory in memories)),
        tuple(sorted(("memory", memory.id) for memory in memories)),
        {},
        tuple(map(grounds.of_memory, memories)),
    )


def supersede(loser: Memory, winner: Memory, confidence: float, relation: str = "contradicts") -> Plan:
    """Replace a memory by a newer one that contradicts it."""
    targets = tuple(sorted(("memory", memory.id, memory.version) for memory in (loser, winner)))
    return Plan(
        "supersede",
        f"memory {winner.id} ({day_said(winner)}) {relation} memory {loser.id} ({day_said(loser)})",
        round(confidence, 4),
        "",
        targets,
        tuple(sorted((("memory", loser.id), ("memory", winner.id)))),
        {"winner": winner.id},
        (grounds.of_memory(loser), grounds.of_memory(winner)),
    )


def archive(memory: Memory, idle_days: int, paused: bool = False) -> Plan:
    """Archive a memory that was not used for a long time. `paused`: pauses of its project are not in these days."""
    without = " (longer pauses of its project not counted)" if paused else ""
    why = f"memory {memory.id} was not used for {idle_days} days{without}, and its importance is {memory.importance:g}"
    target, source = ("memory", memory.id, memory.version), ("memory", memory.id)
    return Plan("archive", why, 0.5, "", (target,), (source,), {}, (grounds.of_memory(memory),))


def close(memory: Memory, turn: Exchange, confidence: float) -> Plan:
    """Archive a memory that a turn shows to be done or no longer true."""
    said = f"exchange {turn.id} ({turn.role}, {turn.trust}, {turn.created_at[:10]})"
    state = "done" if memory.kind == "todo" else "done or no longer true"
    return Plan(
        "archive",
        f"{said} shows that memory {memory.id} is {state}",
        round(confidence, 4),
        "",
        (("memory", memory.id, memory.version),),
        (("exchange", turn.id), ("memory", memory.id)),
        {CLOSED: turn.created_at[:10]},
        (grounds.of_memory(memory), grounds.of_turn(turn)),
    )


def overflow(tx: Transaction, workspace: str, name: str) -> Plan | None:
    """Move what exceeds a block's budget into a memory. None when the block fits."""
    ((id, content, version, max_tokens),) = tx.all(_BLOCK_BY_NAME, workspace=workspace, name=name)
    rest = content[kept_length(content, max_tokens) :]
    if not rest.strip():
        return None
    why = f"block {name} is past its {max_tokens} tokens"
    grounds = (Ground(f"b:{name}", content),)
    return Plan("overflow", why, 1.0, rest, (("block", id, version),), (("block", id),), {"block": name}, grounds)


def rewrite(
    tx: Transaction, workspace: str, block: Block, text: str, sources: Iterable[Thing], rests_on: Iterable[Ground]
) -> Plan:
    """Replace the text of a block that a person or a companion wrote, which hands the block back to the passes."""
    ((id, *_),) = tx.all(_BLOCK_BY_NAME, workspace=workspace, name=block.name)
    why = (
        f"{block.updated_by or 'a person'} wrote the text of block {block.name}, so a pass does not replace it; "
        "accept this text to let the passes write the block again"
    )
    return Plan(
        "rewrite",
        why,
        1.0,
        text,
        (("block", id, block.version),),
        tuple(sorted(set(sources))),
        {"block": block.name},
        tuple(rests_on),
    )


def day_said(memory: Memory) -> str:
    """The day it was said, if known; otherwise the day it was stored."""
    return memory.said_at[:10]


def older_first(first: Memory, second: Memory) -> tuple[Memory, Memory]:
    """Two memories, ordered by the day they were said, then by when they were stored."""
    one, other = sorted((first, second), key=lambda each: (day_said(each), each.created_at, each.id))
    return one, other


def by_certainty(against: Iterable[tuple[float, Memory, Memory]]) -> list[tuple[float, Memory, Memory]]:
    """Contradictions in the order in which they are decided: the surest first."""

    def order(contradiction: tuple[float, Memory, Memory]) -> tuple[float, int, int]:
        confidence, older, newer = contradiction
        return -confidence, older.id, newer.id

    return sorted(against, key=order)


def by_worth(memories: Iterable[Memory]) -> list[Memory]:
    """Memories ordered by how well they can replace the others: with a key, pinned, important, oldest."""
    return sorted(memories, key=lambda each: (each.key is None, not each.pinned, -each.importance, each.id))


def merged_text(texts: Sequence[str], least: float) -> str:
    """The first text, and every statement of the others that it does not contain."""
    first, *others = texts
    parts = [first]
    kept = sentences.parts(first)
    for text in others:
        new = [sentence for sentence in sentences.parts(text) if not contains_statement(kept, sentence, least)]
        if new:
            parts.append("\n".join(new))
            kept += new
    return "\n".join(parts)


def keeps_approval(text: str, memories: Iterable[Memory]) -> bool:
    """Whether no approval is lost when the text replaces these memories: none is approved, or this text is."""
    approved = {fingerprint(memory.content) for memory in memories if memory.approved}
    return not approved or fingerprint(text) in approved


def contains_statement(kept: Iterable[str], sentence: str, least: float) -> bool:
    """Whether one of the kept sentences says this in the same words, or nearly."""
    return any(
        " ".join(each.split()) == " ".join(sentence.split())
        # Compares only the words. The texts are already known to mean the same.
        or (similar.differ(each, sentence) is None and similar.repeats(each, sentence) >= least)
        for each in kept
    )


def prepare(tiers: Tiers, plan: Plan) -> Prepared | None:
    """Do what needs a model before the transaction begins."""
    return tiers.memories.prepare(plan.content) if plan.content and plan.what != "rewrite" else None


def carry_out(tx: Transaction, tiers: Tiers, plan: Plan, prepared: Prepared | None) -> PlanResult:
    """Carry out a plan, all of it or nothing.

    PersonNeeded when it would replace what a person has approved, and no person has agreed. ProposalStale when a target
    has changed, Outdated when a text that the plan was made from has, Miscounted when the number of changed rows is not
    the expected one.
    """
    grounds.require_unchanged(tx, tiers.workspace, plan.grounds)
    tiers.memories.lock(tx)
    targets = _targets(tx, tiers, plan)
    ((total, active, last),) = tx.all(_COUNT, workspace=tiers.workspace)
    done, left = _HANDLERS[plan.what](tiers, plan, targets, prepared)
    ((total_after, active_after, last_after),) = tx.all(_COUNT, workspace=tiers.workspace)
    made = int(last_after > last)
    if total_after != total + made or active_after != active - left + made:
        raise Miscounted(
            f"A {plan.what} affected an unexpected number of memories and was rolled back: it should have added {made} "
            f"and retired {left}; {active} of {total} were active before it, {active_after} of {total_after} after it."
        )
    return done


def _targets(tx: Transaction, tiers: Tiers, plan: Plan) -> list[Memory]:
    """The memories that the plan changes, as they are now. Every target must still be at the planned version."""
    found = []
    for kind, id, version in plan.targets:
        if kind == "block":
            if tx.value(_BLOCK_VERSION, workspace=tiers.workspace, id=id) != version:
                raise ProposalStale(f"Block {plan.data['block']!r} has changed since this was planned.")
            continue
        memory = tiers.memories.get(id)
        if memory.status != "active" or memory.version != version:
            raise ProposalStale(
                f"Memory {id} has changed since this was planned: it was active at version {version}, "
                f"and is {memory.status} at version {memory.version}."
            )
        found.append(memory)
    return found


def _remember(tiers: Tiers, plan: Plan, targets: list[Memory], prepared: Prepared | None) -> tuple[PlanResult, int]:
    data = plan.data
    memory = tiers.memories.remember(
        plan.content,
        kind=data["kind"],
        tags=data.get("tags", ()),
        importance=data["importance"],
        session_id=data.get("session"),
        sources=plan.sources,
        data={name: data[name] for name in ("said", "by") if name in data},
        trust=data.get("trust"),
        by_person=plan.by_person,
        prepared=prepared,
    )
    return PlanResult(memory.id, (("memory", memory.id),), 0, 0), 0


def _merge(tiers: Tiers, plan: Plan, targets: list[Memory], prepared: Prepared | None) -> tuple[PlanResult, int]:
    """A new memory replaces all of them. It has their sources, so that forgetting one source removes only its part."""
    if not keeps_approval(plan.content, targets):
        for memory in targets:
            approvals.check_replaced(memory, plan.by_person)
    head, *_ = by_worth(targets)
    sources = _merged_sources(tiers, targets)
    # Archived first. Otherwise the new text could count as a repetition of one of them.
    for memory in targets:
        tiers.memories.archive(memory.id)
    sessions = {memory.session_id for memory in targets}
    approves = any(memory.approved for memory in targets) and keeps_approval(plan.content, targets)
    one = tiers.memories.remember(
        plan.content,
        kind=head.kind,
        key=head.key,
        tags=sorted({tag for memory in targets for tag in memory.tags}),
        importance=max(memory.importance for memory in targets),
        pinned=any(memory.pinned for memory in targets),
        session_id=head.session_id if len(sessions) == 1 else None,
        project=head.project,
        sources=sources,
        data=_merged_data(targets),
        expires_at=_latest_expiry(targets),
        # The trust of the least trusted one.
        trust=max((memory.trust for memory in targets), key=TRUSTS.index),
        # A text that a person has approved stays approved. A text that is put together from several is new.
        by_person=plan.by_person or approves,
        prepared=prepared,
    )
    for memory in targets:
        tiers.memories.supersede(memory.id, one.id, MERGED)
    touched = tuple(("memory", memory.id) for memory in (*targets, one))
    return PlanResult(one.id, touched, _tokens(targets), estimate(one.content)), len(targets)


def _supersede(tiers: Tiers, plan: Plan, targets: list[Memory], prepared: Prepared | None) -> tuple[PlanResult, int]:
    winner = plan.data["winner"]
    (loser,) = (memory for memory in targets if memory.id != winner)
    approvals.check_replaced(loser, plan.by_person)
    tiers.memories.supersede(loser.id, winner)
    if plan.by_person:
        tiers.memories.approve(winner)
    return PlanResult(winner, (("memory", loser.id), ("memory", winner)), estimate(loser.content), 0), 1


def _archive(tiers: Tiers, plan: Plan, targets: list[Memory], prepared: Prepared | None) -> tuple[PlanResult, int]:
    (memory,) = targets
    if memory.pinned:
        raise ProposalStale(f"Memory {memory.id} was pinned since this was planned.")
    tiers.memories.archive(memory.id)
    return PlanResult(memory.id, (("memory", memory.id),), estimate(memory.content), 0), 1


def _overflow(tiers: Tiers, plan: Plan, targets: list[Memory], prepared: Prepared | None) -> tuple[PlanResult, int]:
    ((_, block, version),) = plan.targets
    name = plan.data["block"]
    tiers.blocks.archive_overflow(name, actor=DREAM)
    memory = tiers.memories.remember(
        plan.content,
        tags=("overflow",),
        sources=[("block", block)],
        data={"block": name, "version": version},
        by_person=plan.by_person,
        prepared=prepared,
    )
    return PlanResult(memory.id, (("block", block), ("memory", memory.id)), 0, 0), 0


def _rewrite(tiers: Tiers, plan: Plan, targets: list[Memory], prepared: Prepared | None) -> tuple[PlanResult, int]:
    ((_, block, _),) = plan.targets
    name = plan.data["block"]
    tiers.blocks.derive(name, plan.content, "a proposal was accepted", DREAM, PORTRAIT_TOKENS, plan.sources)
    return PlanResult(None, (("block", block),), 0, 0), 0


_HANDLERS = {
    "remember": _remember,
    "merge": _merge,
    "supersede": _supersede,
    "archive": _archive,
    "overflow": _overflow,
    "rewrite": _rewrite,
}


def _merged_sources(tiers: Tiers, memories: Iterable[Memory]) -> list[Thing]:
    """The sources of these memories, and the memories themselves."""
    found: dict[Thing, None] = {}
    for memory in memories:
        found.update(dict.fromkeys(tiers.memories.sources(memory.id)))
        found["memory", memory.id] = None
    return list(found)


def _merged_data(memories: Iterable[Memory]) -> object:
    """The data of every memory that has any, by id. When only one has data, that one's data."""
    given = {str(memory.id): memory.data for memory in memories if memory.data is not None}
    if len(given) < 2:
        return next(iter(given.values()), None)
    days = sorted(data["said"] for data in given.values() if isinstance(data, dict) and "said" in data)
    return {"merged": given, **({"said": days[-1]} if days else {})}


def _latest_expiry(memories: Iterable[Memory]) -> str | None:
    """The latest expiry; None when one of them does not expire."""
    ends = [memory.expires_at for memory in memories]
    return None if None in ends else max(end for end in ends if end is not None)


def _tokens(memories: Iterable[Memory]) -> int:
    return sum(estimate(memory.content) for memory in memories)
