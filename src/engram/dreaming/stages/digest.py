"""The digest of a pass: what was learnt and changed, in words.

It is a memory of kind `digest`. Digests have a shelf of their own and are never compared, so they are never merged. A
digest names what it quotes as its sources, so forgetting any of those blanks it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ...errors import MemoryNotFound
from ...safe_text import one_line
from ..pass_context import TRUSTED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...memory.provenance import Thing
    from ...records import Memory
    from ..pass_context import PassContext
    from ..plans import Plan, PlanResult

KIND = "digest"
TAGS = ("dream-digest", "distillate")
IMPORTANCE = 0.8
#: At most this many lines of each kind; the rest is only counted.
_MOST_LINES = 20
_LINE = 200

_BLOCK = "SELECT 1 FROM blocks WHERE workspace = :workspace AND id = :id"


def write(context: PassContext) -> None:
    """Store a digest if the pass learnt or changed anything."""
    text, _ = _compose(context)
    if not text:
        return
    prepared = context.memories.prepare(text)
    with context.write() as tx:
        # Under this lock nothing can be forgotten. The text is composed again, without what was forgotten meanwhile.
        context.memories.lock(tx)
        now, sources = _compose(context)
        if now:
            if now != text:
                prepared = context.memories.prepare(now, embed=False)
            context.memories.remember(
                now, kind=KIND, tags=TAGS, importance=IMPORTANCE, sources=sources, prepared=prepared
            )


def _compose(context: PassContext) -> tuple[str, list[Thing]]:
    """The text, empty when there is nothing to report, and what it quotes."""
    learnt = list(_learnt_memories(context))
    changes = list(_standing_changes(context))
    if not learnt and not changes:
        return "", []
    listed, rest = learnt[:_MOST_LINES], len(learnt) - _MOST_LINES
    with context.engine.read() as tx:
        day = tx.now()[:10]
    lines = [f"Dreamt on {day} (pass {context.dream})."]
    lines += [f"Learnt, {_dated_kind(memory)}: {one_line(memory.content, _LINE)}" for memory in listed]
    lines += [f"And {rest} more things were learnt."] if rest > 0 else []
    lines += [_describe_change(plan, memory) for plan, _, memory in changes[:_MOST_LINES]]
    lines += [f"And {len(changes) - _MOST_LINES} more changes were made."] if len(changes) > _MOST_LINES else []
    lines += [f"{context.proposed} proposals wait for a decision."] if context.proposed else []
    sources: dict[Thing, None] = {("memory", memory.id): None for memory in listed}
    sources.update(
        {thing: None for _, done, _ in changes[:_MOST_LINES] for thing in done.touched if _exists(context, thing)}
    )
    return "\n".join(lines), list(sources)


def _learnt_memories(context: PassContext) -> Iterator[Memory]:
    """Memories that this pass learnt and that still exist."""
    for id in context.learnt:
        with suppress(MemoryNotFound):
            yield context.memories.get(id)


def _dated_kind(memory: Memory) -> str:
    day = memory.data.get("said") if isinstance(memory.data, dict) else None
    return f"a {memory.kind} of {day}" if day else f"a {memory.kind}"


def _standing_changes(context: PassContext) -> Iterator[tuple[Plan, PlanResult, Memory]]:
    """The changes that were not undone, each with the memory that came of it.

    Every agent may read a digest, so it does not quote what a tool or a document says.
    """
    for plan, done in context.changes.values():
        if done.result is not None:
            with suppress(MemoryNotFound):
                memory = context.memories.get(done.result)
                if memory.trust in TRUSTED or memory.approved:
                    yield plan, done, memory


def _exists(context: PassContext, thing: Thing) -> bool:
    kind, id = thing
    if kind == "memory":
        with suppress(MemoryNotFound):
            return context.memories.get(id) is not None
        return False
    with context.engine.read() as tx:
        return tx.one(_BLOCK, workspace=context.workspace, id=id) is not None


def _describe_change(plan: Plan, memory: Memory) -> str:
    text = one_line(memory.content, _LINE)
    match plan.what:
        case "merge":
            return f"Memories {', '.join(str(id) for _, id, _ in plan.targets)} became one, {memory.id}: {text}"
        case "supersede":
            return f"Memory {memory.id} replaced a memory that it contradicts: {text}"
        case "archive":
            day = plan.data.get("closed")
            return f"Closed on {day}: {text}" if day else f"Archived, because it was not used: {text}"
        case "overflow":
            return f"Block {plan.data['block']} was too long; its end is now memory {memory.id}: {text}"
        case _:
            return f"Agreed to: {text}"
