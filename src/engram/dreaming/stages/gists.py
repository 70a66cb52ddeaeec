"""Continuity: every session has a gist that covers it.

A gist is made of what is new and the old gist. A long stretch is cut into pieces, each has a gist of its own, and those
are merged. Where a session has words of the user and of agents, only these go into it, so that what a tool printed or
an import brought cannot pass through a gist into the portrait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ...llm import Passage, Prompt
from ...safe_text import one_line
from .. import grounds, prompts
from ..drives import RIPE, ripe
from ..pass_context import TRUSTED, pieces, turn_passage
from ..thinking import Thought, all_thoughts

if TYPE_CHECKING:
    from ...records import Exchange
    from ..pass_context import PassContext

STAGE = "gists"
_TOKENS = 600


def run(context: PassContext) -> None:
    """Summarise every session that is ripe; with force, every one that has anything new."""
    with context.engine.read() as tx:
        sessions = ripe(tx, context.workspace, RIPE, everything=context.force)
    context.each(STAGE, sessions, _summarise)


def _summarise(context: PassContext, session: str) -> None:
    turns = _new_turns(context, session)
    if not turns:
        return
    usable = [turn for turn in turns if turn.trust in TRUSTED] or turns
    upto = turns[-1].seq
    known = _known(context, session)
    portions = pieces([turn_passage(turn) for turn in usable])
    if len(portions) == 1:
        thought = _think(context, session, Prompt("gist", prompts.GIST, tuple(portions[0]), known), upto)
    else:
        parts = _parts(context, session, portions, upto)
        made = tuple(Passage(f"p{number}", f"part {number}", part.text) for number, part in enumerate(parts, 1))
        thought = _think(context, session, Prompt("merge", prompts.MERGE, made, known), upto)
    # A session of greetings alone has no sentence worth choosing; then the longest one stands for it.
    text = thought.text.strip() or one_line(max((turn.content for turn in usable), key=len), 200)
    prepared = context.memories.prepare(text)
    with context.write():
        context.gists.store(session, text, upto, sources=[turn.id for turn in usable], prepared=prepared)
    context.new_gists.append(session)


def _new_turns(context: PassContext, session: str) -> list[Exchange]:
    """What is to be summarised now: up to where agents were asked to, if they were, else to the end."""
    turns = context.gists.unsummarised(session)
    pending = context.thinker.pending(STAGE, session) or context.thinker.pending(STAGE, _part(session, 1))
    return turns if pending is None else [turn for turn in turns if turn.seq <= cast(int, pending)]


def _known(context: PassContext, session: str) -> tuple[Passage, ...]:
    gist = context.gists.current(session)
    if not gist or not gist.content:
        return ()
    handle, text = grounds.memory(gist)
    return (Passage(handle, "the gist so far", text),)


def _parts(context: PassContext, session: str, portions: list[list[Passage]], upto: int) -> list[Thought]:
    """A gist of each piece."""
    return all_thoughts(
        portions,
        lambda number, portion: _think(
            context, _part(session, number), Prompt("gist", prompts.GIST, tuple(portion)), upto
        ),
    )


def _think(context: PassContext, subject: str, prompt: Prompt, upto: int) -> Thought:
    return context.thinker.think(STAGE, subject, lambda: (prompt, upto), max_tokens=_TOKENS)


def _part(session: str, number: int) -> str:
    return f"{session} part {number}"
