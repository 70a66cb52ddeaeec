"""What the answer about a session states becomes memories, each with its source and its day.

A statement that is already known strengthens its memory. One that replaces a known memory is stored, and the
replacement becomes a proposal or is carried out, by the policy of the settings; so does the closing of a memory that is
done. What the answer names must have been shown in its prompt. A statement that contains a secret, or the mark of a
removed one, is left out, and so is one without a usable source or kind.

A pass may read an older session after a newer one. Then a known memory may be newer than a statement that claims to
replace it: it is the statement that is replaced, and what was said later is not closed.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import MemoryNotFound, NotFound
from ...memory.embedding_models import model_of
from ...memory.fingerprints import fingerprint
from ...memory.memory_tags import ABOUT_USER, EXTRACTED
from ...memory.recall import Recall
from ...redact import redact
from .. import applying, grounds, plans, prompts
from ..duplicates import similar
from ..grounds import Outdated
from ..pass_context import TRUSTED
from ..plans import Plan
from . import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...memory.memories import Prepared
    from ...records import Exchange, Memory
    from ...storage.engine import Transaction
    from ..pass_context import PassContext

STAGE = "sessions"
#: A statement with less confidence than this is ignored.
LEAST_CONFIDENCE = 0.5
#: The longest statement, in characters. More is cut off at a word.
LONGEST = 400
#: Importance is confidence times this, so it stays below that of what a person asked to remember.
_IMPORTANCE = 0.6
#: How sure the answer is that a memory is replaced or closed.
_REPLACED, _CLOSED = 0.9, 0.9
#: How many matching memories are compared with a new statement.
_LOOKED_AT = 5
#: The search ends after this many times more contradictions than may be proposed; the surest are chosen.
_ENOUGH = 10
_HANDLE = re.compile(r"[em](\d{1,18})")

_SAME_TEXT = """
SELECT id FROM memories
WHERE workspace = :workspace AND hash = :hash AND status = 'active' AND kind NOT IN ('gist', 'era', 'digest')
ORDER BY id LIMIT 1
"""
_LAST_SAID = """
SELECT MAX(e.created_at) FROM sources s JOIN exchanges e ON e.id = s.source_id
WHERE s.workspace = :workspace AND s.derived_kind = 'memory' AND s.derived_id = :id AND s.source_kind = 'exchange'
"""
_LAST_HEARD = "SELECT heartbeat_at FROM sessions WHERE workspace = :workspace AND id = :session"


class Statement(NamedTuple):
    """A statement as a plan to remember it, and the turn it comes from."""

    turn: Exchange
    plan: Plan
    #: The known memories that it repeats and that it replaces, by their ids.
    same_as: int | None
    replaces: int | None


class Closing(NamedTuple):
    """A known memory that a turn shows to be done or no longer true."""

    memory: int
    turn: Exchange


class Ready(NamedTuple):
    """A statement, the memory that already says it, and its text prepared for the index."""

    statement: Statement
    known: Memory | None
    prepared: Prepared


class Change(NamedTuple):
    """A replacement or a closing, and whether it needs no person's decision."""

    plan: Plan
    by_policy: bool


def read(
    context: PassContext, answer: Mapping[str, Any], session: str, turns: Iterable[Exchange], shown: Mapping[int, str]
) -> list[Statement]:
    """The statements that can be used, each text and source once. The others are counted. `shown` are the memories that
    the prompt quoted."""
    by_id = {turn.id: turn for turn in turns}
    found: dict[str, Statement] = {}
    for given in _objects(answer.get("statements")):
        turn = by_id.get(_id(given.get("source"), "e"))
        text, confidence = _clipped(given.get("text")), _share(given.get("confidence"))
        if turn is None or given.get("kind") not in prompts.KINDS or not text or holds_secret(text):
            context.left_out[STAGE] += 1
        elif confidence >= LEAST_CONFIDENCE:
            named = [_id(given.get(name), "m") for name in ("same_as", "replaces")]
            same, old = (id if id in shown else None for id in named)
            copied = nearest.borrowed(context, text, list(by_id.values()), shown.items())
            plan = _plan(given, text, confidence, session, turn, copied)
            found.setdefault(f"{fingerprint(text)} {turn.id}", Statement(turn, plan, same, old))
    return list(found.values())


def read_closed(
    context: PassContext, answer: Mapping[str, Any], turns: Iterable[Exchange], shown: Mapping[int, str]
) -> list[Closing]:
    """The known memories that the answer closes, each once. Those that were not shown are counted and ignored."""
    by_id = {turn.id: turn for turn in turns}
    found: dict[int, Closing] = {}
    for given in _objects(answer.get("closed")):
        memory, turn = _id(given.get("known"), "m"), by_id.get(_id(given.get("source"), "e"))
        if turn is None or memory not in shown:
            context.left_out[STAGE] += 1
        else:
            found.setdefault(memory, Closing(memory, turn))
    return list(found.values())


def prepare(context: PassContext, statements: Iterable[Statement]) -> list[Ready]:
    """Find what is already known, and prepare the texts before a transaction begins."""
    ready = []
    for each in statements:
        known = _find_known(context, each)
        text = known.content if known else each.plan.content
        ready.append(Ready(each, known, context.memories.prepare(text, embed=known is None)))
    return ready


def store(context: PassContext, tx: Transaction, ready: Iterable[Ready], closed: Iterable[Closing]) -> list[Change]:
    """Remember the statements, and propose what they replace and close; which changes that are.

    All of it is proposed in the transaction that marks the turns as read, so that none is lost.
    """
    changes = []
    for statement, known, prepared in ready:
        kept = _store_statement(context, tx, statement, known, prepared)
        old = _active(context, statement.replaces)
        if kept is not None and old is not None and old.id != kept.id:
            loser, winner = old, kept
            if _is_later(tx, context.workspace, old, statement.turn):
                if known is not None:  # both were known, and this turn is not what tells them apart
                    continue
                loser, winner = kept, old
            plan = plans.supersede(loser, winner, _REPLACED, "replaces")
            changes.append(Change(plan, applying.may_replace(context.view.config, loser, winner)))
    replaced = {id for change in changes for _, id, _ in change.plan.targets}
    for memory_id, turn in closed:
        memory = _active(context, memory_id)
        if memory is None or memory_id in replaced or _is_later(tx, context.workspace, memory, turn):
            continue
        changes.append(Change(plans.close(memory, turn, _CLOSED), applying.may_close(memory, turn)))
    return [change for change in changes if context.propose(tx, change.plan)]


def carry_out(context: PassContext, changes: Iterable[Change]) -> None:
    """Carry out the changes that the settings allow without a person's decision. The others stay proposed."""
    if context.view.config.dream_consolidate == "apply":
        for plan, by_policy in changes:
            if by_policy and applying.carry_out(context, plan) == applying.DONE:
                context.proposed -= 1


def holds_secret(text: str) -> bool:
    """Whether the text contains something that looks like a secret, or the mark of a removed one."""
    return "[redacted:" in text or redact(text) != text


def propose_contradictions(context: PassContext) -> None:
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
        if sure >= plans.CONTRADICTS:
            found.append((sure, *plans.older_first(first, second)))
        if len(found) >= _ENOUGH * most:
            break
    decided: set[int] = set()
    for sure, older, newer in plans.by_certainty(found):
        if len(decided) < 2 * most and not decided & {older.id, newer.id}:
            with suppress(Outdated), context.write() as tx:
                if context.propose(tx, plans.supersede(older, newer, sure)):
                    decided |= {older.id, newer.id}


def _plan(
    given: Mapping[str, Any], text: str, confidence: float, session: str, turn: Exchange, copied: list[int]
) -> Plan:
    day = turn.created_at[:10]
    return Plan(
        "remember",
        f"exchange {turn.id} ({turn.role}, {turn.trust}, {day}) says so",
        confidence,
        text,
        (),
        (("exchange", turn.id), *(("memory", id) for id in copied)),
        {
            "kind": given["kind"],
            "tags": [EXTRACTED, *([ABOUT_USER] if given.get("about_user") is True else [])],
            "importance": round(_IMPORTANCE * confidence, 2),
            "session": session,
            "said": day,
            "by": turn.role,
            # It is the word of its speaker, whatever else it repeats.
            **({"trust": turn.trust} if copied else {}),
        },
        (grounds.of_turn(turn),),
    )


def _find_known(context: PassContext, statement: Statement) -> Memory | None:
    """The memory that already says this: in the same words, or as the model says. Without a model, in nearly the same
    words."""
    text = statement.plan.content
    with context.engine.read() as tx:
        id = tx.value(_SAME_TEXT, workspace=context.workspace, hash=fingerprint(text))
    if id is not None:
        return context.memories.get(id)
    if (named := _active(context, statement.same_as)) is not None:
        return named
    if not context.thinker.extractive:
        return None
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
    context: PassContext, tx: Transaction, found: Statement, known: Memory | None, prepared: Prepared
) -> Memory | None:
    """Remember a statement, or strengthen the memory that already says it; that memory, if it is still there."""
    tiers, plan = context.proposals.tiers, found.plan
    if known is None:
        done = plans.carry_out(tx, tiers, plan, prepared)
        assert done.result is not None
        if done.result not in context.learnt:
            context.learnt.append(done.result)
        context.extracted = (context.extracted or 0) + 1
        return tiers.memories.get(done.result)
    try:
        now, sources = tiers.memories.get(known.id), tiers.memories.sources(known.id)
    except MemoryNotFound:  # it was forgotten just now
        return None
    source = ("exchange", found.turn.id)
    if now != known or source in sources:  # another session changed it, or this turn was read before
        return now if now.status == "active" else None
    if known.trust == "user" and found.turn.trust != "user":  # an agent repeats what the user wants
        return now
    extracted = EXTRACTED in known.tags
    kept = tiers.memories.remember(
        known.content,
        kind=known.kind,
        key=known.key,
        tags=[ABOUT_USER] if extracted and ABOUT_USER in plan.data["tags"] else None,
        importance=known.importance,
        expires_at=known.expires_at,
        # A memory that a person stored has no sources. It must not go when this turn is forgotten.
        sources=[source] if sources else (),
        prepared=prepared,
    )
    context.touch([("memory", known.id)])
    context.extracted = (context.extracted or 0) + 1
    return kept


def _is_later(tx: Transaction, workspace: str, memory: Memory, turn: Exchange) -> bool:
    """Whether a memory was said after a turn. One that was made of no turn counts as later if the session of the turn
    had ended before it was stored."""
    said: str | None = tx.value(_LAST_SAID, workspace=workspace, id=memory.id)
    if said is not None:
        return said > turn.created_at
    heard: str | None = tx.value(_LAST_HEARD, workspace=workspace, session=turn.session_id)
    return heard is not None and max(heard, turn.created_at) < memory.said_at


def _active(context: PassContext, id: int | None) -> Memory | None:
    """The memory, if it is still active and may be changed by an answer."""
    if id is None:
        return None
    with suppress(MemoryNotFound):
        memory = context.memories.get(id)
        if memory.status == "active" and memory.trust in TRUSTED:
            return memory
    return None


def _objects(given: object) -> list[dict[str, Any]]:
    return [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []


def _clipped(text: object) -> str:
    """A text on one line. A long one ends at a word."""
    line = " ".join(text.split()) if isinstance(text, str) else ""
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1].rpartition(' ')[0] or line[: LONGEST - 1]}…"


def _share(value: object) -> float:
    number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
    return min(1.0, max(0.0, number))


def _id(handle: object, kind: str) -> int:
    """The id in the handle of an exchange (`e`) or a memory (`m`); 0 for anything else."""
    found = _HANDLE.fullmatch(handle.strip()) if isinstance(handle, str) else None
    return int(found[1]) if found and found[0][0] == kind else 0
