"""The digest of a pass: what was learnt and changed, in words, for whoever reads memories and not reports.

It is a memory of kind `digest`, which has a shelf of its own: no digest is ever compared with anything, so none is
merged. It names as its sources what it quotes, and forgetting any of that blanks it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ..errors import MemoryNotFound
from ..text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..records import Memory
    from .night import Night
    from .plans import Done, Plan

KIND = "digest"
TAGS = ("dream-digest", "distillate")
IMPORTANCE = 0.8
#: So many lines of each kind are told; the rest is counted.
_TOLD = 20
_LINE = 200


def write(night: Night) -> None:
    """Only when something was learnt or changed."""
    learnt = list(_there(night))
    if not learnt and not night.changes:
        return
    told, rest = learnt[:_TOLD], len(learnt) - _TOLD
    changes = list(night.changes.values())
    with night.engine.read() as tx:
        day = tx.now()[:10]
    lines = [f"Dreamt on {day} (pass {night.dream})."]
    lines += [f"Learnt, {_kind(memory)}: {one_line(memory.content, _LINE)}" for memory in told]
    lines += [f"And {rest} more things were learnt."] if rest > 0 else []
    lines += list(_changed(night, changes[:_TOLD]))
    lines += [f"And {len(changes) - _TOLD} more changes were made."] if len(changes) > _TOLD else []
    lines += [f"{night.proposed} proposals wait for a decision."] if night.proposed else []
    sources = {("memory", memory.id): None for memory in told}
    sources.update({thing: None for _, done in changes[:_TOLD] for thing in done.touched})
    text = "\n".join(lines)
    prepared = night.memories.prepare(text)
    with night.write():
        night.memories.remember(
            text, kind=KIND, tags=TAGS, importance=IMPORTANCE, sources=list(sources), prepared=prepared
        )


def _there(night: Night) -> Iterator[Memory]:
    """What was learnt and is still known: a change may have been taken back, or somebody forgot it."""
    for id in night.learnt:
        with suppress(MemoryNotFound):
            yield night.memories.get(id)


def _kind(memory: Memory) -> str:
    day = memory.data.get("said") if isinstance(memory.data, dict) else None
    return f"a {memory.kind} of {day}" if day else f"a {memory.kind}"


def _changed(night: Night, changes: list[tuple[Plan, Done]]) -> Iterator[str]:
    for plan, done in changes:
        content = night.memories.get(done.result).content if done.result else plan.content
        text = one_line(content, _LINE)
        ids = ", ".join(str(id) for _, id, _ in plan.targets)
        match plan.what:
            case "merge":
                yield f"Memories {ids} became one, {done.result}: {text}"
            case "supersede":
                yield f"Memory {done.result} took the place of what it contradicts: {text}"
            case "archive":
                yield f"Put away, for nobody used it: {text}"
            case "overflow":
                yield f"Block {plan.data['block']} was too long; its end is memory {done.result}: {text}"
            case _:
                yield f"Agreed to: {text}"
