"""Continuity, second half: what was said becomes memories, each with its source and its day.

Facts, preferences, decisions, lessons and things to do are taken from the turns that a gist newly covers. What is known
already is reinforced; what contradicts it is stored beside it, and a proposal says so. What tools print and imports
bring is read by itself, so that nothing in it can pass for a person's words, and only ever becomes proposals. Whatever
holds a secret, or the place where one was, is left out.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ...errors import MemoryNotFound, NotFound
from ...llm import Prompt
from ...memory.memories import fingerprint
from ...memory.recall import Recall
from ...redact import redact
from .. import grounds, plans, prompts
from ..duplicates import similar
from ..grounds import Outdated
from ..pass_context import TRUSTED, pieces, turn_passage
from ..plans import Plan
from ..thinking import Thought, all_thoughts
from . import portrait

if TYPE_CHECKING:
    from ...memory.memories import Prepared
    from ...records import Exchange, Memory
    from ...storage.engine import Row, Transaction
    from ..pass_context import PassContext

#: Of so many times more contradictions than are proposed, the surest are chosen.
_ENOUGH = 10
STAGE = "extract"
TAG = "extracted"
#: Two that contradict each other this surely are worth somebody's look.
CONTRADICTS = 0.75
#: How many memories that fit are compared with a new statement.
_LOOKED_AT = 5
#: A statement is as important as it is sure, and never as important as what somebody asked to be kept.
_IMPORTANCE = 0.6

_WAITS = "SELECT 1 FROM folds WHERE workspace = :workspace AND target = 'extract' LIMIT 1"
_SAME_TEXT = """
SELECT id FROM memories
WHERE workspace = :workspace AND hash = :hash AND status = 'active' AND kind NOT IN ('gist', 'era', 'digest')
ORDER BY id LIMIT 1
"""


class Found(NamedTuple):
    """A statement, as a plan, and the turn it is from."""

    turn: Exchange
    plan: Plan


def waits(tx: Transaction, workspace: str) -> bool:
    """Whether there is anything to read."""
    return tx.one(_WAITS, workspace=workspace) is not None


def run(context: PassContext) -> None:
    """Read what was said since, and keep what stands."""
    with context.engine.read() as tx:
        waiting = tx.all(portrait.WAITING, workspace=context.workspace, target=STAGE)
    if waiting:
        context.probe.sample()
    context.extracted = context.extracted or 0
    context.each(STAGE, waiting, _read_session)
    if context.learnt:
        _compare(context)


def _read_session(context: PassContext, row: Row) -> None:
    gist, after, session, upto = row
    turns = [turn for turn in context.gists.unsummarised(session, after=after) if turn.seq <= upto]
    said = [turn for turn in turns if turn.trust in TRUSTED and turn.role in ("user", "assistant")]
    brought = [turn for turn in turns if turn.trust not in TRUSTED]
    thoughts = _think(context, f"{session} {after}-{upto}", said)
    quoted = _think(context, f"{session} {after}-{upto} quoted", brought)
    statements = _statements(thoughts, session, said)
    proposed = _statements(quoted, session, brought)
    known = [_known(context, found.plan.content) for found in statements]
    prepared = [
        context.memories.prepare(old.content if old else found.plan.content, embed=old is None)
        for found, old in zip(statements, known, strict=True)
    ]
    with context.action() as tx:
        context.memories.lock(tx)
        for found, old, ready in zip(statements, known, prepared, strict=True):
            _keep(context, tx, found, old, ready)
        for found in proposed:
            context.propose(tx, found.plan)
        context.gists.folded(tx, STAGE, gist)


def _think(context: PassContext, subject: str, turns: list[Exchange]) -> list[Thought]:
    """What is found in each portion."""
    return all_thoughts(
        pieces([turn_passage(turn) for turn in turns]),
        lambda number, portion: _ask(
            context, f"{subject} part {number}", Prompt(STAGE, prompts.EXTRACT, tuple(portion))
        ),
    )


def _ask(context: PassContext, subject: str, prompt: Prompt) -> Thought:
    return context.thinker.think(STAGE, subject, lambda: (prompt, None), form=prompts.PROFILE_FORM, max_tokens=2_000)


def _statements(thoughts: list[Thought], session: str, turns: list[Exchange]) -> list[Found]:
    """What is sure enough, has one of these turns as its source, and holds no secret; each text once."""
    by_id = {turn.id: turn for turn in turns}
    found: dict[str, Found] = {}
    for thought in thoughts:
        for fact in cast(dict[str, Any], thought.data)["facts"]:
            turn = by_id.get(portrait.number(fact["source"]))
            text = " ".join(fact["text"].split())
            if turn is None or fact["confidence"] < portrait.SURE or not text or secret(text):
                continue
            found.setdefault(f"{fingerprint(text)} {turn.id}", Found(turn, _plan(fact, text, session, turn)))
    return list(found.values())


def secret(text: str) -> bool:
    """Whether it holds something that looks like a secret, or says that one was taken out."""
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
        (grounds.turn(turn),),
    )


def _known(context: PassContext, text: str) -> Memory | None:
    """The memory that says this already, in the same words or nearly."""
    with context.engine.read() as tx:
        row = tx.one(_SAME_TEXT, workspace=context.workspace, hash=fingerprint(text))
    if row:
        return context.memories.get(row[0])
    recall = Recall(context.view, context.memories).recall
    for hit in recall(text, _LOOKED_AT, what=("memories",), mode="words", note=False):
        if hit.memory_id is not None:
            memory = context.memories.get(hit.memory_id)
            if similar.differ(text, memory.content) is None and (
                similar.alike(text, memory.content, None) >= context.view.config.dream_similarity
            ):
                return memory
    return None


def _keep(context: PassContext, tx: Transaction, found: Found, known: Memory | None, prepared: Prepared | None) -> None:
    """Remember it, or note that it was said again."""
    tiers, plan = context.proposals.tiers, found.plan
    if known is None:
        done = plans.carry_out(tx, tiers, plan, prepared)
        if done.result is not None and done.result not in context.learnt:
            context.learnt.append(done.result)
    else:
        try:
            now, sources = tiers.memories.get(known.id), tiers.memories.sources(known.id)
        except MemoryNotFound:  # forgotten just now, and with it what was to be said again
            return
        if now != known or plan.sources[0] in sources:  # somebody else was faster, or this very turn was read before
            return
        tiers.memories.remember(
            known.content,
            kind=known.kind,
            key=known.key,
            importance=known.importance,
            expires_at=known.expires_at,
            # What somebody stored by themselves rests on nothing, and must not go when this turn is forgotten.
            sources=plan.sources if sources else (),
            prepared=prepared,
        )
        context.touch([("memory", known.id)])
    context.extracted = (context.extracted or 0) + 1


def _compare(context: PassContext) -> None:
    """Propose a decision where something new contradicts what was known: the surest, and no more than somebody will
    look at. The others come up again in consolidation."""
    from ..duplicates import candidates  # it needs numpy

    most = context.view.config.dream_max_actions
    found: list[tuple[float, Memory, Memory]] = []
    for pair in candidates.candidates(context.view, context.learnt):
        try:
            first, second = context.memories.get(pair.first), context.memories.get(pair.second)
        except NotFound:
            continue
        sure = similar.contradicts(first.content, second.content, pair.cosine)
        if sure >= CONTRADICTS:
            found.append((sure, *plans.older_first(first, second)))
        if len(found) >= _ENOUGH * most:
            break
    decided: set[int] = set()
    for sure, older, newer in plans.surest(found):
        if len(decided) < 2 * most and not decided & {older.id, newer.id}:
            with suppress(Outdated), context.write() as tx:
                if context.propose(tx, plans.supersede(older, newer, sure)):
                    decided |= {older.id, newer.id}
