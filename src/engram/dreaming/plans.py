"""One change to what is known: how it is planned, and the one place where it is carried out.

A plan says what it would change and at which version, so that it can wait, be shown and be decided by somebody else.
Carrying it out is one transaction: the targets are looked at once more, the change is made, and the rows are counted.
Memories are never deleted, and no more of them may leave the active ones than the plan says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .. import sentences
from ..errors import Miscounted, ProposalStale
from ..memory.exchanges import TRUSTS
from ..memory.memories import MERGED
from ..records import WORLD
from ..tokens import CHARACTERS_PER_TOKEN, estimate
from . import grounds
from .duplicates import similar
from .grounds import Shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..memory.blocks import Blocks
    from ..memory.memories import Memories, Prepared
    from ..memory.provenance import Thing
    from ..records import Memory
    from ..storage.engine import Transaction

#: Blocks that are written as a whole by whoever owns them; nothing is ever cut off these.
WHOLE = frozenset({WORLD, "profile", "narrative", "self"})

_COUNT = """
SELECT COUNT(*), COALESCE(SUM(CASE WHEN status = 'active' THEN 1 ELSE 0 END), 0), COALESCE(MAX(id), 0)
FROM memories WHERE workspace = :workspace
"""
_BLOCK = "SELECT name, content, version, max_tokens FROM blocks WHERE workspace = :workspace AND id = :id"
_BLOCK_ID = "SELECT id FROM blocks WHERE workspace = :workspace AND name = :name"


class Plan(NamedTuple):
    #: `remember`, `merge`, `supersede`, `archive` or `overflow`.
    what: str
    why: str
    confidence: float
    #: The text there will be; empty where nothing new is written.
    content: str
    #: What is changed, and the version of it that was looked at.
    targets: tuple[tuple[str, int, int], ...]
    sources: tuple[Thing, ...]
    #: What else carrying it out needs; values that JSON knows.
    data: dict[str, Any]
    #: The texts it was made from. A plan that was read from the store has none: forgetting deletes it there.
    grounds: tuple[Shown, ...] = ()

    @property
    def writes(self) -> bool:
        """Whether its text is what will be stored, so that it can be edited."""
        return self.what in ("remember", "merge")


class Done(NamedTuple):
    #: The memory that was made, or that stands for the others now; None where there is none.
    result: int | None
    touched: tuple[Thing, ...]
    #: What the touched memories cost, as long as they are active.
    tokens_before: int
    tokens_after: int


class Tiers(NamedTuple):
    """What plans are carried out with."""

    workspace: str
    memories: Memories
    blocks: Blocks


def merge(memories: Sequence[Memory], least: float, confidence: float) -> Plan:
    """Make one of several that say the same."""
    ids = ", ".join(str(memory.id) for memory in memories)
    return Plan(
        "merge",
        f"memories {ids} say the same",
        round(confidence, 4),
        merged_text([memory.content for memory in by_worth(memories)], least),
        tuple(sorted(("memory", memory.id, memory.version) for memory in memories)),
        tuple(sorted(("memory", memory.id) for memory in memories)),
        {},
        tuple(map(grounds.memory, memories)),
    )


def supersede(loser: Memory, winner: Memory, confidence: float) -> Plan:
    targets = tuple(sorted(("memory", memory.id, memory.version) for memory in (loser, winner)))
    return Plan(
        "supersede",
        f"memory {winner.id} ({said(winner)}) contradicts memory {loser.id} ({said(loser)})",
        round(confidence, 4),
        "",
        targets,
        tuple(sorted((("memory", loser.id), ("memory", winner.id)))),
        {"winner": winner.id},
        (grounds.memory(loser), grounds.memory(winner)),
    )


def archive(memory: Memory, idle_days: int) -> Plan:
    why = f"memory {memory.id} was not used for {idle_days} days, and its importance is {memory.importance:g}"
    target, source = ("memory", memory.id, memory.version), ("memory", memory.id)
    return Plan("archive", why, 0.5, "", (target,), (source,), {}, (grounds.memory(memory),))


def overflow(tx: Transaction, workspace: str, name: str) -> Plan | None:
    """What is past a block's budget into a memory; None when it fits."""
    (id,) = tx.all(_BLOCK_ID, workspace=workspace, name=name)[0]
    _, content, version, max_tokens = tx.all(_BLOCK, workspace=workspace, id=id)[0]
    rest = content[max_tokens * CHARACTERS_PER_TOKEN :]
    if not rest.strip():
        return None
    why = f"block {name} is past its {max_tokens} tokens"
    grounds = (Shown(f"b:{name}", content),)
    return Plan("overflow", why, 1.0, rest, (("block", id, version),), (("block", id),), {"block": name}, grounds)


def said(memory: Memory) -> str:
    """The day it was said, as far as that is known; else when it was stored."""
    day = memory.data.get("said") if isinstance(memory.data, dict) else None
    return day if isinstance(day, str) else memory.created_at[:10]


def older_first(first: Memory, second: Memory) -> tuple[Memory, Memory]:
    """By the day they were said, then by when they were stored."""
    one, other = sorted((first, second), key=lambda each: (said(each), each.created_at, each.id))
    return one, other


def surest(against: Iterable[tuple[float, Memory, Memory]]) -> list[tuple[float, Memory, Memory]]:
    """Contradictions in the order in which they are decided."""
    return sorted(against, key=lambda each: (-each[0], each[1].id, each[2].id))


def by_worth(memories: Iterable[Memory]) -> list[Memory]:
    """The one that stands for the others first: it has a key, is pinned, is important, was there first."""
    return sorted(memories, key=lambda each: (each.key is None, not each.pinned, -each.importance, each.id))


def merged_text(texts: Sequence[str], least: float) -> str:
    """The first text, and every statement of the others that it does not have."""
    parts = [texts[0]]
    kept = sentences.parts(texts[0])
    for text in texts[1:]:
        new = [sentence for sentence in sentences.parts(text) if not states(kept, sentence, least)]
        if new:
            parts.append("\n".join(new))
            kept += new
    return "\n".join(parts)


def states(kept: Iterable[str], sentence: str, least: float) -> bool:
    """Whether one of the kept sentences says this, in the same words or nearly."""
    return any(
        " ".join(each.split()) == " ".join(sentence.split())
        # Only their words are compared: that the texts mean the same was found out before.
        or (similar.differ(each, sentence) is None and similar.alike(each, sentence, 1.0) >= least)
        for each in kept
    )


def prepare(tiers: Tiers, plan: Plan) -> Prepared | None:
    """What needs a model, made before the transaction begins."""
    return tiers.memories.prepare(plan.content) if plan.content else None


def carry_out(tx: Transaction, tiers: Tiers, plan: Plan, prepared: Prepared | None) -> Done:
    """Do it, all or nothing.

    ProposalStale when a target has changed, Outdated when what the plan was made from has, Miscounted when the rows do
    not add up.
    """
    grounds.hold(tx, tiers.workspace, plan.grounds)
    tiers.memories.lock(tx)
    targets = _targets(tx, tiers, plan)
    total, active, last = tx.all(_COUNT, workspace=tiers.workspace)[0]
    done, left = _CARRIED_OUT[plan.what](tiers, plan, targets, prepared)
    total_after, active_after, last_after = tx.all(_COUNT, workspace=tiers.workspace)[0]
    made = int(last_after > last)
    if total_after != total + made or active_after != active - left + made:
        raise Miscounted(
            f"To {plan.what} should have made {made} memories and put {left} away; there were {active} of {total} "
            f"active, and then {active_after} of {total_after}. It was taken back."
        )
    return done


def _targets(tx: Transaction, tiers: Tiers, plan: Plan) -> list[Memory]:
    """The memories it is about, as they are now; all that it names must be as they were."""
    found = []
    for kind, id, version in plan.targets:
        if kind == "block":
            row = tx.one(_BLOCK, workspace=tiers.workspace, id=id)
            if row is None or row[2] != version:
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


def _remember(tiers: Tiers, plan: Plan, targets: list[Memory], prepared: Prepared | None) -> tuple[Done, int]:
    data = plan.data
    memory = tiers.memories.remember(
        plan.content,
        kind=data["kind"],
        tags=data.get("tags", ()),
        importance=data["importance"],
        session_id=data.get("session"),
        sources=plan.sources,
        data={name: data[name] for name in ("said", "by") if name in data},
        prepared=prepared,
    )
    return Done(memory.id, (("memory", memory.id),), 0, 0), 0


def _merge(tiers: Tiers, plan: Plan, targets: list[Memory], prepared: Prepared | None) -> tuple[Done, int]:
    """A new one takes the place of all: with sources of its own, so that forgetting one of them takes only its part."""
    head = by_worth(targets)[0]
    sources = _all_sources(tiers, targets)
    # Out of the way first, or the new one would only be one of them said again.
    for memory in targets:
        tiers.memories.archive(memory.id)
    sessions = {memory.session_id for memory in targets}
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
        data=_all_data(targets),
        expires_at=_latest_end(targets),
        # As trusted as the least trusted of them.
        trust=max((memory.trust for memory in targets), key=TRUSTS.index),
        prepared=prepared,
    )
    for memory in targets:
        tiers.memories.supersede(memory.id, one.id, MERGED)
    touched = tuple(("memory", memory.id) for memory in (*targets, one))
    return Done(one.id, touched, _tokens(targets), estimate(one.content)), len(targets)


def _supersede(tiers: Tiers, plan: Plan, targets: list[Memory], prepared: Prepared | None) -> tuple[Done, int]:
    winner = plan.data["winner"]
    (loser,) = (memory for memory in targets if memory.id != winner)
    tiers.memories.supersede(loser.id, winner)
    return Done(winner, (("memory", loser.id), ("memory", winner)), estimate(loser.content), 0), 1


def _archive(tiers: Tiers, plan: Plan, targets: list[Memory], prepared: Prepared | None) -> tuple[Done, int]:
    (memory,) = targets
    if memory.pinned:
        raise ProposalStale(f"Memory {memory.id} was pinned since this was planned.")
    tiers.memories.archive(memory.id)
    return Done(memory.id, (("memory", memory.id),), estimate(memory.content), 0), 1


def _overflow(tiers: Tiers, plan: Plan, targets: list[Memory], prepared: Prepared | None) -> tuple[Done, int]:
    ((_, block, version),) = plan.targets
    name = plan.data["block"]
    tiers.blocks.archive_overflow(name, actor="dream")
    memory = tiers.memories.remember(
        plan.content,
        tags=("overflow",),
        sources=[("block", block)],
        data={"block": name, "version": version},
        prepared=prepared,
    )
    return Done(memory.id, (("block", block), ("memory", memory.id)), 0, 0), 0


_CARRIED_OUT = {
    "remember": _remember,
    "merge": _merge,
    "supersede": _supersede,
    "archive": _archive,
    "overflow": _overflow,
}


def _all_sources(tiers: Tiers, memories: Iterable[Memory]) -> list[Thing]:
    """What they were made of, and they themselves."""
    found: dict[Thing, None] = {}
    for memory in memories:
        found.update(dict.fromkeys(tiers.memories.sources(memory.id)))
        found["memory", memory.id] = None
    return list(found)


def _all_data(memories: Iterable[Memory]) -> object:
    """The data of each that has any, by its id; the one there is, when all others have none."""
    given = {str(memory.id): memory.data for memory in memories if memory.data is not None}
    if len(given) < 2:
        return next(iter(given.values()), None)
    days = sorted(data["said"] for data in given.values() if isinstance(data, dict) and "said" in data)
    return {"merged": given, **({"said": days[-1]} if days else {})}


def _latest_end(memories: Iterable[Memory]) -> str | None:
    """None where one of them has no end."""
    ends = [memory.expires_at for memory in memories]
    return None if None in ends else max(end for end in ends if end is not None)


def _tokens(memories: Iterable[Memory]) -> int:
    return sum(estimate(memory.content) for memory in memories)
