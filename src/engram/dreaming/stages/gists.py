"""Gists: a summary of every session.

A gist is made of the session's new turns and its old gist. Many new turns are cut into portions; each portion gets a
gist, and those are merged. If a session has turns of the user or of agents, only these are used. So output of tools and
imported text cannot reach the portrait through a gist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ...llm import Passage, Prompt
from ...safe_text import one_line
from .. import grounds, prompts
from ..drives import sessions_to_summarise
from ..pass_context import TRUSTED, prompt_portions, turn_passage
from ..thinking import Thought, think_about_all

if TYPE_CHECKING:
    from ...records import Exchange
    from ..pass_context import PassContext

STAGE = "gists"
_TOKENS = 600


def run(context: PassContext) -> None:
    """Write gists for the sessions that need one; with `force`, for every session with a new turn."""
    with context.engine.read() as tx:
        sessions = sessions_to_summarise(
            tx, context.workspace, everything=context.force, silent_after=context.view.config.stale_after
        )
    context.for_each(STAGE, sessions, _summarise)


def _summarise(context: PassContext, session: str) -> None:
    """Write one session's gist."""
    turns = _new_turns(context, session)
    if not turns:
        return
    usable = [turn for turn in turns if turn.trust in TRUSTED] or turns
    upto = turns[-1].seq
    known = _gist_so_far(context, session)
    portions = prompt_portions([turn_passage(turn) for turn in usable])
    if len(portions) == 1:
        thought = _think(context, session, Prompt("gist", prompts.GIST, tuple(portions[0]), known), upto)
    else:
        parts = _think_in_parts(context, session, portions, upto)
        made = tuple(Passage(f"p{number}", f"part {number}", part.text) for number, part in enumerate(parts, 1))
        thought = _think(context, session, Prompt("merge", prompts.MERGE, made, known), upto)
    # A session of greetings has no sentence worth choosing. Then its longest turn is the gist.
    text = thought.text.strip() or one_line(max((turn.content for turn in usable), key=len), 200)
    prepared = context.memories.prepare(text)
    with context.write():
        context.gists.store(session, text, upto, sources=[turn.id for turn in usable], prepared=prepared)
    context.new_gists.append(session)


def _new_turns(context: PassContext, session: str) -> list[Exchange]:
    """The turns to summarise now: those that a pending work item covers, or else all new ones."""
    turns = context.gists.unsummarised(session)
    pending = context.thinker.pending_coverage(STAGE, session) or context.thinker.pending_coverage(
        STAGE, _part_subject(session, 1)
    )
    return turns if pending is None else [turn for turn in turns if turn.seq <= cast(int, pending)]


def _gist_so_far(context: PassContext, session: str) -> tuple[Passage, ...]:
    """The session's gist, as a passage."""
    gist = context.gists.current(session)
    if not gist or not gist.content:
        return ()
    handle, text = grounds.of_memory(gist)
    return (Passage(handle, "the gist so far", text),)


def _think_in_parts(context: PassContext, session: str, portions: list[list[Passage]], upto: int) -> list[Thought]:
    """A gist of each portion."""
    return think_about_all(
        portions,
        lambda number, portion: _think(
            context, _part_subject(session, number), Prompt("gist", prompts.GIST, tuple(portion)), upto
        ),
    )


def _think(context: PassContext, subject: str, prompt: Prompt, upto: int) -> Thought:
    return context.thinker.think(STAGE, subject, lambda: (prompt, upto), max_tokens=_TOKENS)


def _part_subject(session: str, number: int) -> str:
    return f"{session} part {number}"
