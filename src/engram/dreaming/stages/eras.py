"""Eras: a summary of each calendar month, rewritten only when the month has changed.

An era is made of the old era and the new gists, so it costs only what is new. An era that lost text to forgetting is
made from all gists of the month again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...llm import Passage, Prompt
from .. import grounds, prompts
from ..pass_context import gist_passage, prompt_portions

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


def outdated_months(tx: Transaction, workspace: str) -> list[str]:
    """The months whose era needs new text."""
    months = tx.column(_CHANGED, workspace=workspace) + tx.column(_LOST, workspace=workspace)
    return sorted(set(months))


def run(context: PassContext) -> None:
    """Bring the eras up to date."""
    with context.engine.read() as tx:
        months = outdated_months(tx, context.workspace)
    context.for_each(STAGE, months, _write_era)


def _write_era(context: PassContext, month: str) -> None:
    """Fold the month's new gists into its era, as many at a time as fit one prompt."""
    gists = context.gists.by_month(month)[month]
    with context.engine.read() as tx:
        id = tx.value(_CURRENT, workspace=context.workspace, month=month)
        era = None if id is None else context.memories.get(id)
        new = set(tx.column(_NEW, workspace=context.workspace, month=month))
    fresh = [gist for gist in gists if gist.memory_id in new] if era and era.content else gists
    pending = context.thinker.pending_coverage(STAGE, month)
    if isinstance(pending, list):  # a work item covers these; later gists wait until it is answered
        fresh = [gist for gist in gists if gist.memory_id in pending]
    while fresh:
        first, *_ = prompt_portions([gist_passage(gist) for gist in fresh])
        fitting = len(first)
        era = _fold_gists(context, month, len(gists), fresh[:fitting], fresh[fitting:], era)
        fresh = fresh[fitting:]
    if gists:
        context.new_eras.append(month)


def _fold_gists(
    context: PassContext, month: str, sessions: int, gists: list[Gist], later: list[Gist], era: Memory | None
) -> Memory:
    """The era with these gists folded in. The later ones stay marked as unfolded, so that no pass can lose them."""
    known: tuple[Passage, ...] = ()
    if era and era.content:
        handle, text = grounds.of_memory(era)
        known = (Passage(handle, f"the summary of {month} so far", text),)
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
            context.memories.mark_rebuilt(tx, era.id)
            era = context.memories.update(
                era.id, text, reason="the month changed", data=data, sources=sources, prepared=prepared
            )
        for gist in gists:
            if thought.was_shown(gist.memory_id, gist.text):
                context.gists.mark_folded(tx, KIND, gist.memory_id)
        for gist in later:
            context.gists.mark_unfolded(tx, KIND, gist.memory_id)
    return era
