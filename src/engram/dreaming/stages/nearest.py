"""The known memories that a prompt about a session shows: the nearest ones, and the open todos of the project.

An answer may repeat something of a memory that it was shown. Then the memory is a source of what is written, so that
forgetting it, or what it was made from, finds the copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import NotFound
from ...llm import Passage
from ...memory import term_counts, word_index
from ...memory.recall import Recall
from ...memory.telling_words import telling_words
from ...safe_text import one_line
from .. import grounds, plans
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

_OPEN_TODOS = """
SELECT id FROM memories
WHERE workspace = :workspace AND kind = 'todo' AND status = 'active' AND COALESCE(project, '') = :project
  AND content <> '' AND trust IN ('user', 'agent') AND (expires_at IS NULL OR expires_at > :now)
ORDER BY id DESC LIMIT :limit
"""
#: A word of a memory that at most this many memories contain shows that an answer has it from there; of other words it
#: takes several.
_RARE, _SEVERAL = 5, 3
_SHELF = "memories"


def known(context: PassContext, project: str, turns: Sequence[Exchange]) -> tuple[Passage, ...]:
    """The memories as passages, in the order in which they were said.

    Only what may be believed is shown: the answer about a session must not repeat what a tool or a document said.
    """
    with context.engine.read() as tx:
        todos = tx.column(_OPEN_TODOS, workspace=context.workspace, project=project, now=tx.now(), limit=_TODOS)
        rare = telling_words(tx, context.workspace, (turn.content for turn in turns))[:_WORDS]
    best: dict[int, float] = {}
    recall = Recall(context.view, context.memories).recall
    for question in [*([" ".join(rare)] if rare else []), *_questions(turns)]:
        hits = recall(question, _MOST, what=("memories",), prefer_project=project or None, rerank="never", note=False)
        for hit in hits:
            if hit.memory_id is not None:
                best[hit.memory_id] = max(hit.score, best.get(hit.memory_id, 0.0))
    chosen: dict[int, Memory] = {}
    for id in [*todos, *sorted(best, key=lambda id: (-best[id], id))]:
        if len(chosen) >= len(todos) + _MOST:
            break
        try:
            memory = context.memories.get(id)
        except NotFound:
            continue
        if len(memory.content) <= _LONGEST and memory.trust in TRUSTED:
            chosen.setdefault(id, memory)
    in_order = sorted(chosen.values(), key=lambda each: (plans.day_said(each), each.id))
    return tuple(map(_passage, in_order))


def borrowed(context: PassContext, text: str, own: Iterable[str], shown: Iterable[tuple[int, str]]) -> list[int]:
    """The shown memories (id and text) from which a text has words that its own sources do not contain."""
    from ...memory import analyser

    new = set(analyser.terms(text)).difference(*(analyser.terms(each) for each in own))
    shared = {id: new & set(analyser.terms(words)) for id, words in shown} if new else {}
    wanted = sorted(set().union(*shared.values()))
    if not wanted:
        return []
    with context.engine.read() as tx:
        numbers = word_index.find(tx, context.workspace, _SHELF, wanted)
        counts = term_counts.count(tx, context.workspace, {_SHELF: numbers.values()})
    rare = {term for term in wanted if counts.get(numbers.get(term, 0), 0) <= _RARE or any(map(str.isdigit, term))}
    return sorted(id for id, terms in shared.items() if terms & rare or len(terms) >= _SEVERAL)


def _questions(turns: Sequence[Exchange]) -> list[str]:
    """What to look for: the longest turns of the user, and the last one of the agent."""
    asked = sorted((turn for turn in turns if turn.role == "user"), key=lambda turn: -min(len(turn.content), _QUESTION))
    answered = [turn for turn in turns if turn.role == "assistant"][-1:]
    found = (one_line(turn.content, _QUESTION) for turn in [*asked[: _QUESTIONS - len(answered)], *answered])
    return [question for question in found if question.strip()]


def _passage(memory: Memory) -> Passage:
    handle, text = grounds.of_memory(memory)
    return Passage(handle, f"{memory.kind}, {plans.day_said(memory)}", text, "", memory.created_at)
