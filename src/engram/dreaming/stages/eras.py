"""Eras: a summary of each calendar month, rewritten only when the month has changed.

With a model, an era is made of the old era and the new gists, so it costs only what is new. It is made from all gists
of the month again when it lost text to forgetting, when it is gone, or when a session has left the month. Without a
model it is always made from all of them, in order of time. The era's data says which gists it tells, so a month that
needs a new era is found whatever an undo or a forgetting did in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ... import json_columns
from ...llm import Passage, Prompt
from .. import grounds, prompts
from ..pass_context import GIST_CHARACTERS, gist_passage, prompt_portions
from . import portrait

if TYPE_CHECKING:
    from ...memory.memories import Prepared
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
_WAITING = "SELECT gist FROM folds WHERE workspace = :workspace AND target = 'era'"
_CURRENT = """
SELECT id FROM memories WHERE workspace = :workspace AND kind = 'era' AND key = :month AND status = 'active'
"""
_GISTS = """
SELECT g.month, g.memory_id, CASE WHEN m.content <> '' THEN 1 ELSE 0 END
FROM gists g JOIN memories m ON m.id = g.memory_id WHERE g.workspace = :workspace AND m.status = 'active'
"""
_OF_MONTH = "SELECT 1 FROM gists WHERE workspace = :workspace AND month = :month LIMIT 1"
_ERAS = """
SELECT key, status, CASE WHEN content <> '' THEN 1 ELSE 0 END, data FROM memories
WHERE workspace = :workspace AND kind = 'era' AND key IS NOT NULL ORDER BY id
"""


def outdated_months(tx: Transaction, workspace: str) -> list[str]:
    """The months whose era needs new text."""
    months = tx.column(_CHANGED, workspace=workspace) + tx.column(_LOST, workspace=workspace)
    return sorted({*months, *wrong_months(tx, workspace)})


def wrong_months(tx: Transaction, workspace: str) -> list[str]:
    """The months whose era does not tell the gists of the month, apart from those that wait to be folded in: it is
    gone, or a session has come or left. An era that a user archived stays archived until the month has news. An era
    that tells no gist was written by a companion or imported, and a month without gists takes nothing from it."""
    waiting = set(tx.column(_WAITING, workspace=workspace))
    gists: dict[str, set[int]] = {}
    for month, gist, has_text in tx.all(_GISTS, workspace=workspace):
        gists.setdefault(month, set()).update([gist] if has_text else [])
    wrong = {month for month, ids in gists.items() if ids - waiting}
    for month, status, has_text, data in tx.all(_ERAS, workspace=workspace):
        ids = gists.get(month)
        known = json_columns.load(data, "memories.data")
        if status != "active":
            wrong.discard(month)
        elif ids is None:
            if _told(known) != set():
                wrong.add(month)
        elif not has_text or _is_right(known, ids, waiting):
            wrong.discard(month)
        else:
            wrong.add(month)
    return sorted(wrong)


def _is_right(data: object, gists: set[int], waiting: set[int]) -> bool:
    """Whether an era with these data tells the gists, as far as none of them waits."""
    told = _told(data)
    if told is None:
        count = data.get("sessions") if isinstance(data, dict) else None
        return bool(gists & waiting) or count == len(gists)
    return told <= gists and gists - waiting <= told


def _told(data: object) -> set[int] | None:
    """The gists that an era tells; None for an era of an earlier release."""
    told = data.get("gists") if isinstance(data, dict) else None
    return set(told) if isinstance(told, list) else None


def run(context: PassContext) -> None:
    """Bring the eras up to date."""
    if portrait.sessions_wait(context, STAGE):
        return
    with context.engine.read() as tx:
        months = outdated_months(tx, context.workspace)
    context.for_each(STAGE, months, _write_era, len(months))


class _Month(NamedTuple):
    """A month, and what its era is made of."""

    name: str
    gists: list[Gist]
    #: The gists that the era does not tell yet.
    fresh: list[Gist]
    #: The gists that it tells.
    told: set[int]
    #: Nothing of the text so far is used.
    anew: bool


def _write_era(context: PassContext, name: str) -> None:
    """Fold the month's new gists into its era, as many at a time as fit one prompt."""
    gists = context.gists.by_month(name)[name]
    with context.engine.read() as tx:
        id = tx.value(_CURRENT, workspace=context.workspace, month=name)
        era = None if id is None else context.memories.get(id)
        new = set(tx.column(_NEW, workspace=context.workspace, month=name))
        # A gist that lost its text to forgetting is written again.
        waits = tx.one(_OF_MONTH, workspace=context.workspace, month=name) is not None
    if not gists:
        if era and not waits:
            with context.write() as tx:
                context.memories.mark_rebuilt(tx, era.id)
                context.memories.archive(era.id)
        return
    ids = {gist.memory_id for gist in gists}
    told = _told(era.data) if era and era.content else set()
    told = ids - new if told is None else told
    anew = not (era and era.content) or context.thinker.extractive or not told <= ids
    fresh = gists if anew else [gist for gist in gists if gist.memory_id in new or gist.memory_id not in told]
    month = _Month(name, gists, fresh, set() if anew else told, anew)
    pending = context.thinker.pending_coverage(STAGE, name)
    if isinstance(pending, list):  # a work item covers these; later gists wait until it is answered
        month = month._replace(fresh=[gist for gist in gists if gist.memory_id in pending])
    if not month.fresh and era:
        _count_again(context, month, era)
    while month.fresh:
        passages = [gist_passage(gist) for gist in month.fresh]
        fitting = len(passages if context.thinker.extractive else prompt_portions(passages, GIST_CHARACTERS)[0])
        era = _fold_gists(context, month, fitting, era)
        told = month.told | {gist.memory_id for gist in month.fresh[:fitting]}
        month = month._replace(fresh=month.fresh[fitting:], told=told, anew=False)
    context.new_eras.append(name)


def _fold_gists(context: PassContext, month: _Month, fitting: int, era: Memory | None) -> Memory:
    """The era with the first fresh gists folded in. The others stay marked as unfolded, so that no pass can lose
    them."""
    gists, later = month.fresh[:fitting], month.fresh[fitting:]
    known: tuple[Passage, ...] = ()
    if era and era.content and not month.anew:
        handle, text = grounds.of_memory(era)
        known = (Passage(handle, f"the summary of {month.name} so far", text),)
    prompt = Prompt(KIND, prompts.ERA, tuple(map(gist_passage, gists)), known)
    covers = [gist.memory_id for gist in gists]
    thought = context.thinker.think(STAGE, month.name, lambda: (prompt, covers), max_tokens=_TOKENS)
    text = f"{_head(month)}\n{thought.text.strip()}"
    prepared = context.memories.prepare(text)
    with context.write() as tx:
        era = _store(context, tx, month, era, prepared, covers)
        for gist in gists:
            if thought.was_shown(gist.memory_id, gist.text):
                context.gists.mark_folded(tx, KIND, gist.memory_id)
        for gist in later:
            context.gists.mark_unfolded(tx, KIND, gist.memory_id)
    return era


def _store(
    context: PassContext,
    tx: Transaction,
    month: _Month,
    era: Memory | None,
    prepared: Prepared,
    covers: list[int],
) -> Memory:
    """Write the era, unless it is already what it should be. `covers` are the gists that are new in it."""
    text = prepared.content
    told = (month.told | set(covers)) & {gist.memory_id for gist in month.gists}
    data = {"sessions": len(month.gists), "gists": sorted(told)}
    sources = [("memory", id) for id in covers]
    if era is None:
        return context.memories.remember(text, kind=KIND, key=month.name, data=data, sources=sources, prepared=prepared)
    context.memories.mark_rebuilt(tx, era.id)
    if (era.content, era.data) == (text, data):
        return era
    content, ready = (None, None) if era.content == text else (text, prepared)
    return context.memories.update(
        era.id, content, reason="the month changed", data=data, sources=sources, prepared=ready
    )


def _count_again(context: PassContext, month: _Month, era: Memory) -> None:
    """The story is the same, but not the number of sessions, or it is that of an earlier release."""
    _, _, story = era.content.partition("\n")
    prepared = context.memories.prepare(f"{_head(month)}\n{story}")
    with context.write() as tx:
        _store(context, tx, month, era, prepared, [])


def _head(month: _Month) -> str:
    count = len(month.gists)
    return f"{month.name}: {count} {'session' if count == 1 else 'sessions'}."
