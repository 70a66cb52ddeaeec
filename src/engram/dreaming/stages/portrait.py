"""What the blocks of the portrait have in common: `profile`, `narrative` and `self`.

A pass writes these blocks, but a person or a companion may write them too. What they wrote is theirs. A pass then
proposes its text instead of replacing theirs, and accepting the proposal hands the block back to the passes. An
imported text counts as derived. Nothing here ever cuts these blocks: a reader shows as much as fits.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from ...errors import InvalidInput
from ...llm import check
from ...memory import citations
from ...redact import clean
from .. import drives, grounds, plans, prompts
from ..thinking import AGENT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...memory.provenance import Thing
    from ...records import Block, Gist
    from ...storage.engine import Row, Transaction
    from ..grounds import Ground
    from ..pass_context import PassContext

PROFILE, NARRATIVE, SELF = "profile", "narrative", "self"
#: Budget of these blocks.
TOKENS = plans.PORTRAIT_TOKENS
#: The stages that read sessions, also those of an earlier release.
_READING = ("sessions", "gists", "extract")

UNFOLDED_GISTS = """
SELECT f.gist, f.after, g.session_id, s.gist_seq FROM folds f
  JOIN gists g ON g.memory_id = f.gist JOIN sessions s ON s.workspace = g.workspace AND s.id = g.session_id
WHERE f.workspace = :workspace AND f.target = :target ORDER BY f.gist
"""
_MARKED_FOR_REBUILD = """
SELECT 1 FROM rebuilds r JOIN blocks b ON b.id = r.ref
WHERE r.workspace = :workspace AND r.kind = 'block' AND b.name = :name
"""
_WAITING_WORK = "SELECT COUNT(*) FROM work WHERE workspace = :workspace AND stage IN ('sessions', 'gists', 'extract')"


def is_writers(block: Block | None) -> bool:
    """Whether the latest text is that of a person or a companion."""
    return block is not None and block.updated_by not in plans.DERIVED


def lost_text(tx: Transaction, workspace: str, name: str) -> bool:
    """Whether forgetting took text from the block since a pass last wrote it."""
    return tx.one(_MARKED_FOR_REBUILD, workspace=workspace, name=name) is not None


def sessions_wait(context: PassContext, stage: str) -> bool:
    """Whether a piece of a session still waits to be read; then the report says so.

    What is told about sessions is asked for when all of them are read, so that it is asked for once. Without a model
    nothing ever waits. A session that cannot be read holds nothing up.
    """
    if context.thinker.extractive or any(error.startswith(_READING) for error in context.errors):
        return False
    with context.engine.read() as tx:
        # Work that was left to agents waits only as long as agents think.
        pieces = tx.value(_WAITING_WORK, workspace=context.workspace) if context.thinker.name == AGENT else 0
        sessions = len(drives.sessions_to_summarise(tx, context.workspace))
    count = max(int(pieces), sessions)
    if count:
        waiting = "1 piece of a session waits" if count == 1 else f"{count} pieces of sessions wait"
        context.notes.append(f"{stage}: put off, because {waiting} to be read first")
    return count > 0


def write(
    context: PassContext,
    tx: Transaction,
    name: str,
    text: str,
    reason: str,
    sources: Iterable[Thing],
    rests_on: Iterable[Ground],
    *,
    theirs: bool = False,
) -> bool:
    """Write the text, or propose it if the block is a person's or a companion's; whether anything came of it."""
    block = context.blocks.get(name)
    if block is not None and (theirs or is_writers(block)):
        known = (grounds.of_block(block), *rests_on)
        return context.propose_rewrite(tx, plans.rewrite(tx, context.workspace, block, text, sources, known))
    context.new_blocks[name] = context.blocks.derive(name, text, reason, plans.DREAM, TOKENS, set(sources)).version
    return True


def load_self(content: str) -> dict[str, Any] | None:
    """What a reflection wrote into the `self` block; None when it is empty or contains anything else."""
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) and not check(data, prompts.SELF_FORM) else None


def dump_self(data: dict[str, Any]) -> str:
    """The text of a reflection. InvalidInput when a value is missing or wrong."""
    problems = check(data, prompts.SELF_FORM)
    if problems:
        raise InvalidInput(f"The self block does not match its schema: {'; '.join(problems)}.")
    return json.dumps(clean(data), ensure_ascii=False, indent=1)


def gist_records(rows: list[Row]) -> list[Gist]:
    from ...records import Gist

    return [Gist(*row[:6]) for row in rows]


def cited_memories(text: str) -> set[int]:
    """The memories that the lines of a text name as their sources."""
    return {id_of_handle(each) for line in text.split("\n") for each in citations.handles(line) if each[0] == "m"}


def id_of_handle(handle: str) -> int:
    """The id in the handle of an exchange or a memory; 0 for any other handle."""
    return int(handle[1:]) if re.fullmatch(r"[a-z]\d{1,18}", handle) else 0
