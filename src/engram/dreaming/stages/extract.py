"""Extraction: what was said becomes memories, each with its source and its day.

Facts, preferences, decisions, lessons and things to do are taken from the turns that a gist newly covers. A statement
that is already known reinforces its memory. One that contradicts a memory is stored too, and a decision is proposed.
Output of tools and imported text is read separately and only ever becomes proposals, so that it cannot pass for a
person's words. A statement that contains a secret, or the mark of a removed one, is left out.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ...errors import MemoryNotFound, NotFound
from ...llm import Prompt
from ...memory.embedding_models import model_of
from ...memory.fingerprints import fingerprint
from ...memory.recall import Recall
from ...redact import redact
from .. import grounds, plans, prompts
from ..duplicates import similar
from ..grounds import Outdated
from ..pass_context import TRUSTED, prompt_portions, turn_passage
from ..plans import Plan
from ..thinking import Thought, think_about_all
from . import portrait

if TYPE_CHECKING:
    from ...memory.memories import Prepared
    from ...records import Exchange, Memory
    from ...storage.engine import Row, Transaction
    from ..pass_context import PassContext

#: The search ends after this many times more contradictions than may be proposed; the surest are chosen.
_ENOUGH = 10
STAGE = "extract"
TAG = "extracted"
#: A contradiction at least this sure is proposed for a decision.
CONTRADICTS = 0.75
#: How many matching memories are compared with a new statement.
_LOOKED_AT = 5
#: Importance is confidence times this, so it stays below that of what a person asked to remember.
_IMPORTANCE = 0.6

_WAITS = "SELECT 1 FROM folds WHERE workspace = :workspace AND target = 'extract' LIMIT 1"
_SAME_TEXT = """
SELECT id FROM memories
WHERE workspace = :workspace AND hash = :hash AND status = 'active' AND kind NOT IN ('gist', 'era', 'digest')
ORDER BY id LIMIT 1
"""


class Statement(NamedTuple):
    """An extracted statement as a plan, and the turn it comes from."""

    turn: Exchange
    plan: Plan


def has_work(tx: Transaction, workspace: str) -> bool:
    """Whether a gist covers turns that were not read yet."""
    return tx.one(_WAITS, workspace=workspace) is not None


def run(context: PassContext) -> None:
    """Read the turns that are new, and remember what they state."""
    with context.engine.read() as tx:
        waiting = tx.all(portrait.UNFOLDED_GISTS, workspace=context.workspace, target=STAGE)
    if waiting:
        context.probe.ask_sample()
    context.extracted = context.extracted or 0
    context.for_each(STAGE, waiting, _read_session)
    if context.learnt:
        _propose_contradictions(context)


def _read_session(context: PassContext, row: Row) -> None:
    """Extract from the turns of one session that its gist newly covers."""
    gist, after, session, upto = row
    turns = [turn for turn in context.gists.unsummarised(session, after=after) if turn.seq <= upto]
    said = [turn for turn in turns if turn.trust in TRUSTED and turn.role in ("user", "assistant")]
    brought = [turn for turn in turns if turn.trust not in TRUSTED]
    thoughts = _think_in_portions(context, f"{session} {after}-{upto}", said)
    quoted = _think_in_portions(context, f"{session} {after}-{upto} quoted", brought)
    statements = _statements(thoughts, session, said)
    proposed = _statements(quoted, session, brought)
    known = [_find_known(context, found.plan.content) for found in statements]
    prepared = [
        context.memories.prepare(old.content if old else found.plan.content, embed=old is None)
        for found, old in zip(statements, known, strict=True)
    ]
    with context.write() as tx:
        context.memories.lock(tx)
        for found, old, ready in zip(statements, known, prepared, strict=True):
            _store_statement(context, tx, found, old, ready)
        for found in proposed:
            context.propose(tx, found.plan)
        context.gists.mark_folded(tx, STAGE, gist)


def _think_in_portions(context: PassContext, subject: str, turns: list[Exchange]) -> list[Thought]:
    """The thoughts about each portion of the turns."""
    return think_about_all(
        prompt_portions([turn_passage(turn) for turn in turns]),
        lambda number, portion: _ask(
            context, f"{subject} part {number}", Prompt(STAGE, prompts.EXTRACT, tuple(portion))
        ),
    )


def _ask(context: PassContext, subject: str, prompt: Prompt) -> Thought:
    return context.thinker.think(STAGE, subject, lambda: (prompt, None), form=prompts.PROFILE_FORM, max_tokens=2_000)


def _statements(thoughts: list[Thought], session: str, turns: list[Exchange]) -> list[Statement]:
    """Statements that are sure enough, name one of these turns as source and contain no secret; each text once."""
    by_id = {turn.id: turn for turn in turns}
    found: dict[str, Statement] = {}
    for thought in thoughts:
        for fact in cast(dict[str, Any], thought.data)["facts"]:
            turn = by_id.get(portrait.id_of_handle(fact["source"]))
            text = " ".join(fact["text"].split())
            if turn is None or fact["confidence"] < portrait.LEAST_CONFIDENCE or not text or holds_secret(text):
                continue
            found.setdefault(f"{fingerprint(text)} {turn.id}", Statement(turn, _plan(fact, text, session, turn)))
    return list(found.values())


def holds_secret(text: str) -> bool:
    """Whether the text contains something that looks like a secret, or the mark of a removed one."""
    return "[redacted:" in text or redact(text) != text


def _plan(fact: dict[str, Any], text: str, session: str, turn: Exchange) -> Plan:
    day = turn.created_at[:10]
    return Plan(
        "remember",
        f"exchange {turn.id} ({turn.role}, {turn.trust}, {day}) says so",
        fact["confidence"],
        text,
        (),
        (("exchange", turn.id),),
        {
            "kind": fact["kind"],
            "tags": [TAG],
            "importance": round(_IMPORTANCE * fact["confidence"], 2),
            "session": session,
            "said": day,
            "by": turn.role,
        },
        (grounds.of_turn(turn),),
    )


def _find_known(context: PassContext, text: str) -> Memory | None:
    """The memory that already says this, in the same words or nearly."""
    with context.engine.read() as tx:
        id = tx.value(_SAME_TEXT, workspace=context.workspace, hash=fingerprint(text))
    if id is not None:
        return context.memories.get(id)
    recall = Recall(context.view, context.memories).recall
    for hit in recall(text, _LOOKED_AT, what=("memories",), mode="words", note=False):
        if hit.memory_id is not None:
            memory = context.memories.get(hit.memory_id)
            if similar.differ(text, memory.content) is None and (
                similar.alike(text, memory.content, None) >= context.view.config.dream_similarity
            ):
                return memory
    return None


def _store_statement(
    context: PassContext, tx: Transaction, found: Statement, known: Memory | None, prepared: Prepared | None
) -> None:
    """Remember a statement, or reinforce the memory that already says it."""
    tiers, plan = context.proposals.tiers, found.plan
    if known is None:
        done = plans.carry_out(tx, tiers, plan, prepared)
        if done.result is not None and done.result not in context.learnt:
            context.learnt.append(done.result)
    else:
        try:
            now, sources = tiers.memories.get(known.id), tiers.memories.sources(known.id)
        except MemoryNotFound:  # it was forgotten just now
            return
        (source,) = plan.sources
        if now != known or source in sources:  # another session changed it, or this turn was read before
            return
        tiers.memories.remember(
            known.content,
            kind=known.kind,
            key=known.key,
            importance=known.importance,
            expires_at=known.expires_at,
            # A memory that a person stored has no sources. It must not go when this turn is forgotten.
            sources=plan.sources if sources else (),
            prepared=prepared,
        )
        context.touch([("memory", known.id)])
    context.extracted = (context.extracted or 0) + 1


def _propose_contradictions(context: PassContext) -> None:
    """Propose decisions where a new memory contradicts an older one: the surest ones, up to the limit of a pass.

    The others come up again in consolidation.
    """
    from ..duplicates import candidates  # it needs numpy

    most = context.view.config.dream_max_actions
    found: list[tuple[float, Memory, Memory]] = []
    with context.engine.read() as tx:
        model = model_of(tx, context.workspace) or ""
    for pair in candidates.candidates(context.view, context.learnt):
        try:
            first, second = context.memories.get(pair.first), context.memories.get(pair.second)
        except NotFound:
            continue
        sure = similar.contradicts(first.content, second.content, pair.cosine, model)
        if sure >= CONTRADICTS:
            found.append((sure, *plans.older_first(first, second)))
        if len(found) >= _ENOUGH * most:
            break
    decided: set[int] = set()
    for sure, older, newer in plans.by_certainty(found):
        if len(decided) < 2 * most and not decided & {older.id, newer.id}:
            with suppress(Outdated), context.write() as tx:
                if context.propose(tx, plans.supersede(older, newer, sure)):
                    decided |= {older.id, newer.id}
