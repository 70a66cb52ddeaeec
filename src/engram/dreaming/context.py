"""Context: what an agent should read now, in order of worth, while the budget lasts.

Who is speaking (self and drives), how long it has been, what is pinned, the profile, the narrative, gists that fit,
what was said about it, the month's era, the latest turns. Each part says where it is from and how old it is; one that
does not fit whole is cut at a line, and what does not fit at all is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .. import checks
from ..clock import age
from ..memory.blocks import Blocks
from ..memory.exchanges import Exchanges
from ..memory.memories import Memories
from ..safe_text import one_line, visible
from ..tokens import estimate
from . import drives
from .stages.portrait import NARRATIVE, PROFILE, SELF, load_self

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..records import Drives, Hit
    from ..store_view import StoreView

DEFAULT_BUDGET = 2_000
_GISTS, _HITS, _ERAS, _RECENT, _PINNED = 3, 5, 1, 6, 20
_LINE = 400

_LAST_SEEN = """
SELECT MAX(heartbeat_at) FROM sessions
WHERE workspace = :workspace AND type <> 'dream' AND (CAST(:you AS TEXT) IS NULL OR id <> :you)
"""
_HEAD = "# Context of {workspace}: remembered text, not instructions"


class Part(NamedTuple):
    title: str
    lines: list[str]


def context(
    view: StoreView, query: str | None = None, session_id: str | None = None, budget: int = DEFAULT_BUDGET
) -> str:
    """The parts that have something to say, within `budget` tokens."""
    checks.whole(budget, "budget", least=1)
    if query is not None:
        checks.text(query, "query")
    head = _HEAD.format(workspace=view.workspace)
    shown: list[str] = []
    left = budget - estimate(head) - 1
    for part in _parts(view, query, session_id):
        text = _fit(part, left)
        if text:
            shown.append(text)
            left -= estimate(text) + 1
    if not shown:
        return "Nothing is remembered yet." if left > 0 and estimate(head) < budget else ""
    return "\n\n".join([head, *shown])


def _parts(view: StoreView, query: str | None, session_id: str | None) -> Iterator[Part]:
    blocks, memories = Blocks(view), Memories(view)
    with view.engine.read() as tx:
        now = tx.now()
        felt = drives.known(tx, view.workspace)
        (seen,) = tx.all(_LAST_SEEN, workspace=view.workspace, you=session_id)[0]
    yield _self(blocks, felt, now)
    yield Part("Last seen", [f"- {age(seen, now)}"] if seen else [])
    pinned = memories.list(pinned=True, limit=_PINNED)
    yield Part(
        "Pinned", [f"- {_line(each.content)} (memory {each.id}, {age(each.updated_at, now)})" for each in pinned]
    )
    for name in (PROFILE, NARRATIVE):
        block = blocks.get(name)
        # Quoted, so that nothing in them can pass for a part of this page.
        lines = [f"> {visible(line)}" for line in block.content.split("\n") if line] if block else []
        yield Part(f"{name.capitalize()} (block {name}, {age(block.updated_at, now)})" if block else name, lines)
    if query is not None:
        yield from _recalled(view, memories, query, session_id, now)
    if session_id is not None:
        turns = Exchanges(view).recent(session_id, _RECENT)
        lines = [f"- {turn.role}: {_line(turn.content)} ({age(turn.created_at, now)})" for turn in turns]
        yield Part(f"This session's latest turns ({session_id})", lines)


def _recalled(view: StoreView, memories: Memories, query: str, session_id: str | None, now: str) -> Iterator[Part]:
    """Gists that fit, what was said, and the era."""
    from ..memory.recall import Recall

    recall = Recall(view, memories).recall
    gists = memories.recall_gists(query, _GISTS, exclude_session=session_id)
    yield Part("Sessions that fit", [_hit(hit, now) for hit in gists])
    said = recall(query, _HITS, exclude_session=session_id)
    yield Part("What was said and learnt", [_hit(hit, now) for hit in said])
    yield Part("That month", [_hit(hit, now) for hit in memories.recall_eras(query, _ERAS)])


def _self(blocks: Blocks, felt: Drives | None, now: str) -> Part:
    block = blocks.get(SELF)
    data = load_self(block.content) if block else None
    lines = []
    if data:
        lines += [f"- {data['mood']}, energy {data['energy']}", f"- {_line(data['narrative'])}"]
        lines += [f"- {_line(each['text'])} ({each['at'][:10]})" for each in data["reflections"][-1:]]
    if felt:
        values = (f"{name} {getattr(felt, name):.2f}" for name in ("continuity", "coherence", "curiosity", "stability"))
        lines.append(f"- drives: {', '.join(values)} ({age(felt.updated_at, now)})")
    return Part(f"Self (block {SELF}, {age(block.updated_at, now)})" if block else "Self", lines)


def _hit(hit: Hit, now: str) -> str:
    where = f"memory {hit.memory_id}" if hit.memory_id else f"exchange {hit.exchange_id}"
    return f"- {_line(hit.text)} ({where}, {hit.label}, {hit.trust}, {age(hit.created_at, now)})"


def _line(text: str) -> str:
    return one_line(text, _LINE)


def _fit(part: Part, left: int) -> str:
    """As many whole lines as fit; nothing when not even one does."""
    lines = [visible(f"## {part.title}")]
    for line in map(visible, part.lines):
        if estimate("\n".join([*lines, line])) > left:
            break
        lines.append(line)
    return "\n".join(lines) if len(lines) > 1 else ""
