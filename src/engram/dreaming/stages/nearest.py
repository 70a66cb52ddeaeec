"""The known memories that a prompt about a session shows: the nearest ones, and the open todos of the project.

An answer may repeat something of a memory that it was shown. Then the memory is a source of what is written, so that
forgetting it, or what it was made from, finds the copy.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ...errors import NotFound
from ...llm import Passage
from ...memory import term_counts, word_index
from ...memory.recall import Recall
from ...memory.telling_words import telling_words
from ...records import UNLIKELY
from ...safe_text import one_line
from .. import grounds, plans, prompts
from ..pass_context import TRUSTED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...records import Exchange, Memory
    from ..pass_context import PassContext

#: Memories that are shown besides the todos.
_MOST = 16
#: Todos that are shown, the latest first.
_TODOS = 60
#: Questions that are asked about one piece, and the characters and words of one.
_QUESTIONS, _QUESTION, _WORDS = 8, 300, 12
#: A longer memory is a document, not a statement.
_LONGEST = 1_000

#: Preferences that are shown whatever the session is about, the latest first.
_RULES = 8

_PREFERENCES = """
SELECT id FROM memories
WHERE workspace = :workspace AND kind = 'preference' AND status = 'active' AND COALESCE(project, '') IN ('', :project)
  AND content <> '' AND trust IN ('user', 'agent') AND (expires_at IS NULL OR expires_at > :now)
ORDER BY id DESC LIMIT :limit
"""
_OPEN_TODOS = """
SELECT id FROM memories
WHERE workspace = :workspace AND kind = 'todo' AND status = 'active' AND COALESCE(project, '') = :project
  AND content <> '' AND trust IN ('user', 'agent') AND (expires_at IS NULL OR expires_at > :now)
ORDER BY id DESC LIMIT :limit
"""
#: A word of a memory that at most this many memories contain shows that an answer has it from there; of other words it
#: takes several.
_RARE, _SEVERAL = 5, 3
_MEMORIES, _TURNS = "memories", "turns"


def known(context: PassContext, project: str, turns: Sequence[Exchange]) -> tuple[Passage, ...]:
    """The memories as passages, in the order in which they were said.

    Only what may be believed is shown: the answer about a session must not repeat what a tool or a document said.
    """
    with context.engine.read(feed=True) as tx:
        of_project = {"workspace": context.workspace, "project": project, "now": tx.now()}
        always = tx.column(_OPEN_TODOS, limit=_TODOS, **of_project) + tx.column(
            _PREFERENCES, limit=_RULES, **of_project
        )
        rare = telling_words(tx, context.workspace, (turn.content for turn in turns))[:_WORDS]
    best: dict[int, float] = {}
    recall = Recall(context.view, context.memories).recall
    for question in [*([" ".join(rare)] if rare else []), *_questions(turns)]:
        options: dict[str, Any] = {"prefer_project": project or None, "rerank": "never", "note": False}
        for hit in recall(question, _MOST, what=("memories",), min_score=UNLIKELY, **options):
            if hit.memory_id is not None:
                best[hit.memory_id] = max(hit.score, best.get(hit.memory_id, 0.0))
    chosen: dict[int, Memory] = {}
    for id in [*always, *sorted(best, key=lambda id: (-best[id], id))]:
        if len(chosen) >= len(always) + _MOST:
            break
        try:
            memory = context.memories.get(id)
        except NotFound:
            continue
        if len(memory.content) <= _LONGEST and memory.trust in TRUSTED:
            chosen.setdefault(id, memory)
    in_order = sorted(chosen.values(), key=lambda each: (plans.day_said(each), each.id))
    return tuple(map(_passage, in_order))


def borrowed(
    context: PassContext,
    text: str,
    turns: Sequence[Exchange],
    shown: Iterable[tuple[int, str]],
    besides: Iterable[str] = (),
) -> list[int]:
    """The shown memories (id and text) from which a text has words that the turns and the texts `besides` do not have.

    The words and dates of the prompt itself prove nothing: every answer has them.
    """
    from ...memory import analyser

    dates = {each for turn in turns for part in turn.created_at[:10].split("-") for each in (part, part.lstrip("0"))}
    own = (analyser.terms(each) for each in (*(turn.content for turn in turns), *besides))
    new = set(analyser.terms(text)).difference(dates, _prompt_terms(), *own)
    shared = {id: new & set(analyser.terms(words)) for id, words in shown} if new else {}
    wanted = sorted(set().union(*shared.values()))
    if not wanted:
        return []
    rare = {term for term in wanted if any(map(str.isdigit, term))} | _rare(context, wanted)
    return sorted(id for id, terms in shared.items() if terms & rare or len(terms) >= _SEVERAL)


def _rare(context: PassContext, wanted: list[str]) -> set[str]:
    """The terms that few memories and turns contain. In a young store every word of a memory is rare among memories."""
    found: Counter[str] = Counter()
    with context.engine.read(feed=True) as tx:
        for shelf in (_MEMORIES, _TURNS):
            numbers = word_index.find(tx, context.workspace, shelf, wanted)
            counts = term_counts.count(tx, context.workspace, {shelf: numbers.values()})
            found.update({term: counts.get(number, 0) for term, number in numbers.items()})
    return {term for term in wanted if found[term] <= _RARE}


@lru_cache(1)
def _prompt_terms() -> frozenset[str]:
    from ...memory import analyser

    return frozenset(analyser.terms(prompts.SESSION.partition(prompts.EXAMPLE)[0]))


def _questions(turns: Sequence[Exchange]) -> list[str]:
    """What to look for: the longest turns of the user, and the last one of the agent."""
    asked = sorted((turn for turn in turns if turn.role == "user"), key=lambda turn: -min(len(turn.content), _QUESTION))
    answered = [turn for turn in turns if turn.role == "assistant"][-1:]
    found = (one_line(turn.content, _QUESTION) for turn in [*asked[: _QUESTIONS - len(answered)], *answered])
    return [question for question in found if question.strip()]


def _passage(memory: Memory) -> Passage:
    handle, text = grounds.of_memory(memory)
    return Passage(handle, f"{memory.kind}, {plans.day_said(memory)}", text, "", memory.created_at)
