"""The digest of a pass: what was learnt and changed, in words, for whoever reads memories and not reports.

It is a memory of kind `digest`, which has a shelf of its own: no digest is ever compared with anything, so none is
merged. It names as its sources what it quotes, and forgetting any of that blanks it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ...errors import MemoryNotFound
from ...safe_text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...memory.provenance import Thing
    from ...records import Memory
    from ..pass_context import PassContext
    from ..plans import Done, Plan

KIND = "digest"
TAGS = ("dream-digest", "distillate")
IMPORTANCE = 0.8
#: So many lines of each kind are told; the rest is counted.
_TOLD = 20
_LINE = 200

_BLOCK = "SELECT 1 FROM blocks WHERE workspace = :workspace AND id = :id"


def write(context: PassContext) -> None:
    """Only when something was learnt or changed."""
    text, _ = _compose(context)
    if not text:
        return
    prepared = context.memories.prepare(text)
    with context.write() as tx:
        # Nobody forgets anything from here on; what was forgotten since the text was made is not in it any more.
        context.memories.lock(tx)
        now, sources = _compose(context)
        if now:
            if now != text:
                prepared = context.memories.prepare(now, embed=False)
            context.memories.remember(
                now, kind=KIND, tags=TAGS, importance=IMPORTANCE, sources=sources, prepared=prepared
            )


def _compose(context: PassContext) -> tuple[str, list[Thing]]:
    """The text, empty when there is nothing to tell, and what it quotes."""
    learnt = list(_there(context))
    changes = list(_still(context))
    if not learnt and not changes:
        return "", []
    told, rest = learnt[:_TOLD], len(learnt) - _TOLD
    with context.engine.read() as tx:
        day = tx.now()[:10]
    lines = [f"Dreamt on {day} (pass {context.dream})."]
    lines += [f"Learnt, {_kind(memory)}: {one_line(memory.content, _LINE)}" for memory in told]
    lines += [f"And {rest} more things were learnt."] if rest > 0 else []
    lines += [_change(plan, memory) for plan, _, memory in changes[:_TOLD]]
    lines += [f"And {len(changes) - _TOLD} more changes were made."] if len(changes) > _TOLD else []
    lines += [f"{context.proposed} proposals wait for a decision."] if context.proposed else []
    sources: dict[Thing, None] = {("memory", memory.id): None for memory in told}
    sources.update(
        {thing: None for _, done, _ in changes[:_TOLD] for thing in done.touched if _is_there(context, thing)}
    )
    return "\n".join(lines), list(sources)


def _there(context: PassContext) -> Iterator[Memory]:
    """What was learnt and is still known: a change may have been taken back, or somebody forgot it."""
    for id in context.learnt:
        with suppress(MemoryNotFound):
            yield context.memories.get(id)


def _kind(memory: Memory) -> str:
    day = memory.data.get("said") if isinstance(memory.data, dict) else None
    return f"a {memory.kind} of {day}" if day else f"a {memory.kind}"


def _still(context: PassContext) -> Iterator[tuple[Plan, Done, Memory]]:
    """The changes that were made, each with the memory that came of it, while it is there."""
    for plan, done in context.changes.values():
        if done.result is not None:
            with suppress(MemoryNotFound):
                yield plan, done, context.memories.get(done.result)


def _is_there(context: PassContext, thing: Thing) -> bool:
    kind, id = thing
    if kind == "memory":
        with suppress(MemoryNotFound):
            return context.memories.get(id) is not None
        return False
    with context.engine.read() as tx:
        return tx.one(_BLOCK, workspace=context.workspace, id=id) is not None


def _change(plan: Plan, memory: Memory) -> str:
    text = one_line(memory.content, _LINE)
    match plan.what:
        case "merge":
            return f"Memories {', '.join(str(id) for _, id, _ in plan.targets)} became one, {memory.id}: {text}"
        case "supersede":
            return f"Memory {memory.id} took the place of what it contradicts: {text}"
        case "archive":
            return f"Put away, for nobody used it: {text}"
        case "overflow":
            return f"Block {plan.data['block']} was too long; its end is memory {memory.id}: {text}"
        case _:
            return f"Agreed to: {text}"
