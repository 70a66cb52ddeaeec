"""Coherence, first half: one digest for each calendar month, made anew only when the month has changed.

A month's digest is made of the old one and of the gists that are new, so it costs what is new. A digest that lost text
to forgetting is made of all the month's gists again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...llm import Passage, Prompt
from .. import grounds, prompts
from ..pass_context import gist_passage, pieces

if TYPE_CHECKING:
    from ...records import Gist, Memory
    from ...storage.engine import Transaction
    from ..pass_context import PassContext

STAGE = "eras"
KIND = "era"
_TOKENS = 800

_CHANGED = """
SELECT DISTINCT g.month FROM folds f JOIN gists g ON g.memory_id = f.gist
WHERE f.workspace = :workspace AND f.target = 'era' ORDER BY g.month
"""
_LOST = """
SELECT m.key FROM rebuilds r JOIN memories m ON m.id = r.ref
WHERE r.workspace = :workspace AND r.kind = 'memory' AND m.kind = 'era' AND m.status = 'active' ORDER BY m.key
"""
_NEW = """
SELECT f.gist FROM folds f JOIN gists g ON g.memory_id = f.gist
WHERE f.workspace = :workspace AND f.target = 'era' AND g.month = :month
"""
_CURRENT = """
SELECT id FROM memories WHERE workspace = :workspace AND kind = 'era' AND key = :month AND status = 'active'
"""


def changed(tx: Transaction, workspace: str) -> list[str]:
    """The months whose digests are out of date."""
    rows = tx.all(_CHANGED, workspace=workspace) + tx.all(_LOST, workspace=workspace)
    return sorted({row[0] for row in rows})


def run(context: PassContext) -> None:
    with context.engine.read() as tx:
        months = changed(tx, context.workspace)
    context.each(STAGE, months, _digest)


def _digest(context: PassContext, month: str) -> None:
    """Fold the month's new gists into its digest, as many at a time as a prompt takes."""
    gists = context.gists.by_month(month)[month]
    with context.engine.read() as tx:
        row = tx.one(_CURRENT, workspace=context.workspace, month=month)
        era = context.memories.get(row[0]) if row else None
        new = {gist for (gist,) in tx.all(_NEW, workspace=context.workspace, month=month)}
    fresh = [gist for gist in gists if gist.memory_id in new] if era and era.content else gists
    pending = context.thinker.pending(STAGE, month)
    if isinstance(pending, list):  # agents were asked about these; what came since waits for the next time
        fresh = [gist for gist in gists if gist.memory_id in pending]
    while fresh:
        fitting = len(pieces([gist_passage(gist) for gist in fresh])[0])
        era = _fold(context, month, len(gists), fresh[:fitting], fresh[fitting:], era)
        fresh = fresh[fitting:]
    if gists:
        context.new_eras.append(month)


def _fold(
    context: PassContext, month: str, sessions: int, gists: list[Gist], later: list[Gist], era: Memory | None
) -> Memory:
    """The month's digest with these gists; the later ones are still to be folded in, whatever becomes of this pass."""
    known: tuple[Passage, ...] = ()
    if era and era.content:
        handle, text = grounds.memory(era)
        known = (Passage(handle, f"the digest of {month} so far", text),)
    prompt = Prompt("era", prompts.ERA, tuple(map(gist_passage, gists)), known)
    covers = [gist.memory_id for gist in gists]
    thought = context.thinker.think(STAGE, month, lambda: (prompt, covers), max_tokens=_TOKENS)
    text = f"{month}: {sessions} {'session' if sessions == 1 else 'sessions'}.\n{thought.text.strip()}"
    prepared = context.memories.prepare(text)
    sources = [("memory", gist.memory_id) for gist in gists]
    data = {"sessions": sessions}
    with context.write() as tx:
        if era is None:
            era = context.memories.remember(text, kind=KIND, key=month, data=data, sources=sources, prepared=prepared)
        else:
            context.memories.rebuilt(tx, era.id)
            era = context.memories.update(
                era.id, text, reason="the month changed", data=data, sources=sources, prepared=prepared
            )
        for gist in gists:
            if thought.saw(gist.memory_id, gist.text):
                context.gists.folded(tx, KIND, gist.memory_id)
        for gist in later:
            context.gists.unfolded(tx, KIND, gist.memory_id)
    return era
