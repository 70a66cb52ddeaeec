"""The reflection: what a companion notices about itself and its time with the user, in the block `self`.

Only a companion's workspace has it. A model is asked once and checks its own text in the same answer. The data of the
block is the companion's: no pass writes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ...llm import Passage, Prompt
from .. import grounds, prompts
from ..pass_context import gist_passage
from . import portrait
from .portrait import SELF

if TYPE_CHECKING:
    from ...records import Gist
    from ..pass_context import PassContext

STAGE = "reflect"
#: Reflections that are kept.
_KEPT = 6
#: Gists that a reflection looks at, the latest.
_LOOKED_AT = 20

_LATEST_GISTS = """
SELECT g.session_id, g.memory_id, g.at, m.content, m.trust, m.project, m.updated_at
FROM memories m JOIN gists g ON g.memory_id = m.id
WHERE m.workspace = :workspace AND m.kind = 'gist' AND m.status = 'active' AND m.content <> ''
  AND m.trust IN ('user', 'agent')
ORDER BY g.at DESC, m.id DESC LIMIT :limit
"""


def run(context: PassContext) -> None:
    """Write a reflection into `self`, in the first person."""
    if not context.view.config.is_companion(context.workspace) or portrait.sessions_wait(context, STAGE):
        return
    context.checkpoint(STAGE, 0, 1)
    with context.engine.read() as tx:
        rows = tx.all(_LATEST_GISTS, workspace=context.workspace, limit=_LOOKED_AT)
        lost = portrait.lost_text(tx, context.workspace, SELF)
    gists = portrait.gist_records(rows)[::-1]
    if not gists:
        return
    last = _last_reflected(context)
    if last and not lost and all(updated_at <= last for *_, updated_at in rows):
        context.reflected = True  # the last reflection saw the same gists
        return
    if context.attempt(STAGE, _write_reflection, gists):
        context.reflected = True
        context.checkpoint(STAGE, 1, 1)


def _last_reflected(context: PassContext) -> str:
    """When `self` was written last, or a text for it proposed; empty when it has no text and none is proposed."""
    block = context.blocks.get(SELF)
    if block is None:
        return ""
    with context.engine.read() as tx:
        proposed = context.proposals.last_rewrite(tx, SELF) if portrait.is_writers(block) else ""
    return max(proposed, block.updated_at if block.content or block.data is not None else "")


def _write_reflection(context: PassContext, gists: list[Gist]) -> None:
    looked_at = tuple(gist_passage(gist) for gist in gists)
    block = context.blocks.get(SELF)
    known: tuple[Passage, ...] = ()
    if block and block.content:
        handle, text = grounds.of_block(block)
        known = (Passage(handle, "your reflections so far", text),)
    prompt = Prompt(STAGE, prompts.REFLECT, looked_at, known)
    thought = context.thinker.think(STAGE, STAGE, lambda: (prompt, None), form=prompts.REFLECT_FORM)
    made = cast(dict[str, Any], thought.data)
    with context.engine.read() as tx:
        now = tx.now()
    old = (portrait.load_self(block.content) if block else None) or {}
    reflections = [*old.get("reflections", []), {"at": now, "text": made["reflection"]}][-_KEPT:]
    content = portrait.dump_self(
        {**{name: made[name] for name in ("mood", "energy", "narrative")}, "reflections": reflections}
    )
    sources = {("memory", gist.memory_id) for gist in gists}
    with context.write() as tx:
        portrait.write(context, tx, SELF, content, "reflected", sources, thought.grounds)
