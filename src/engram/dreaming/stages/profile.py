"""The profile: what is known about the user, as lines of the block `profile`.

It is rendered from memories: the statements about the user, and the preferences. So it costs no call, and it is always
what the memories say: a memory that is replaced, archived or forgotten takes its line with it. Each line has the day on
which it was said, how often it was said, and the memory that it comes from. What tools or documents of others say
enters only when a person has approved it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ... import json_columns
from ...llm import headings
from ...memory import citations
from ...safe_text import one_line
from .. import grounds, proposals
from . import portrait
from .portrait import PROFILE

if TYPE_CHECKING:
    from ...records import Block
    from ...storage.engine import Transaction
    from ..pass_context import PassContext

#: The tag of a memory that is about the user.
ABOUT_USER = "about-user"
#: Characters of a statement that a line shows.
_LINE = 400
#: A line names at most this many memories.
_NAMED = 5

_STATEMENTS = """
SELECT m.id, m.kind, m.content, m.data, m.pinned, m.reinforced, m.created_at FROM memories m
WHERE m.workspace = :workspace AND m.status = 'active' AND m.content <> ''
  AND m.kind NOT IN ('gist', 'era', 'digest')
  AND (m.kind = 'preference' OR EXISTS (
    SELECT 1 FROM memory_tags t WHERE t.memory_id = m.id AND CAST(t.workspace AS TEXT) = :workspace AND t.tag = :tag))
  AND (m.trust IN ('user', 'agent') OR m.approved = m.version)
  AND (m.expires_at IS NULL OR m.expires_at > :now)
ORDER BY m.id
"""


class Statement(NamedTuple):
    """A memory about the user, as the profile shows it."""

    id: int
    kind: str
    text: str
    day: str
    times: int
    pinned: bool


def run(context: PassContext) -> None:
    """Bring the profile up to date."""
    context.checkpoint(PROFILE, 0, 1)
    with context.engine.read() as tx:
        changed = is_outdated(tx, context.workspace, context.blocks.get(PROFILE))
    if changed:
        with context.write() as tx:
            # Under this lock no memory changes between reading it and writing its line.
            context.memories.lock(tx)
            _render_again(context, tx)
    context.checkpoint(PROFILE, 1, 1)


def is_outdated(tx: Transaction, workspace: str, block: Block | None) -> bool:
    """Whether the profile is not what the memories say. For that of a person or a companion: whether there is a text to
    propose."""
    text = render(statements(tx, workspace))
    if block is not None and _is_theirs(block):
        return text not in ("", block.content) and not proposals.is_rewrite_known(tx, workspace, block, text)
    lost = block is not None and portrait.lost_text(tx, workspace, PROFILE)
    return lost or text != (block.content if block else "")


def statements(tx: Transaction, workspace: str) -> list[Statement]:
    """What is known about the user."""
    rows = tx.all(_STATEMENTS, workspace=workspace, tag=ABOUT_USER, now=tx.now())
    found = []
    for id, kind, content, data, pinned, reinforced, created_at in rows:
        known = json_columns.load(data, "memories.data")
        said = known.get("said") if isinstance(known, dict) else None
        day = said if isinstance(said, str) else created_at[:10]
        found.append(Statement(id, kind, one_line(content, _LINE), day, 1 + reinforced, bool(pinned)))
    return found


def render(known: list[Statement]) -> str:
    """The text of the profile: a heading for each kind, and under it first what was said most often and last."""
    kinds = list(headings.PROFILE)
    kinds += sorted({each.kind for each in known} - set(kinds))
    parts = []
    for kind in kinds:
        lines = _lines([each for each in known if each.kind == kind])
        if lines:
            parts.append("\n".join([f"## {headings.PROFILE.get(kind, kind.capitalize())}", *lines]))
    return "\n\n".join(parts)


def _lines(known: list[Statement]) -> list[str]:
    same: dict[str, list[Statement]] = {}
    for each in known:
        same.setdefault(citations.plain(each.text), []).append(each)

    def worth(group: list[Statement]) -> tuple[bool, int, str, int]:
        return any(each.pinned for each in group), _times(group), max(each.day for each in group), group[-1].id

    return [_line(group) for group in sorted(same.values(), key=worth, reverse=True)]


def _line(group: list[Statement]) -> str:
    """One statement, with all memories that make it."""
    times = _times(group)
    said = f", said {times} times" if times > 1 else ""
    latest = max(group, key=lambda each: (each.day, each.id))
    return citations.cited(f"- {latest.text} ({latest.day}{said})", [f"m{each.id}" for each in group[-_NAMED:]])


def _times(group: list[Statement]) -> int:
    return sum(each.times for each in group)


def _render_again(context: PassContext, tx: Transaction) -> None:
    block = context.blocks.get(PROFILE)
    known = statements(tx, context.workspace)
    text = render(known)
    theirs = block is not None and _is_theirs(block)
    lost = block is not None and not theirs and portrait.lost_text(tx, context.workspace, PROFILE)
    if (text == (block.content if block else "") and not lost) or (theirs and not text):
        return
    rests_on = [grounds.of_memory(context.memories.get(each.id)) for each in known] if theirs else []
    sources = {("memory", each.id) for each in known}
    portrait.write(context, tx, PROFILE, text, "the memories changed", sources, rests_on, theirs=theirs)


def _is_theirs(block: Block) -> bool:
    """Whether a person or a companion wrote the profile, or a line of it. A pass of an earlier release kept such lines
    and added others to them; the lines of a pass name their sources."""
    own = (line for line in block.content.split("\n") if line.strip() and not line.startswith("## "))
    return portrait.is_writers(block) or any(not citations.handles(line) for line in own)
