"""The question that an agent's message ends with: the agent waits for its answer."""

from __future__ import annotations

import re
from typing import Final

from . import wording

#: Characters of a message that are read, and of a question.
_READ: Final = 40_000
_LONGEST: Final = 260
#: A question with fewer words needs the sentence before it.
_CLEAR_QUESTION: Final = 6
_POINTS: Final = re.compile(r"\b(?:it|that|this|these|those|them|they|ones?|there|so|either|both)\b", re.IGNORECASE)
_NO_PROSE: Final = re.compile(r"\A\s*+(?:[-*+•]\s|[>|#`]|\d{1,3}[.)]\s)")
#: A line of a list, and how many lines below a question are read as its choices.
_CHOICE: Final = re.compile(r"\A\s*+(?:[-*+•]\s|\(?[\da-z]{1,2}[.)]\s)", re.IGNORECASE)
_MOST_CHOICES: Final = 24
#: Questions out of courtesy, which need no answer. "Which one is right?" needs one.
COURTESY: Final = re.compile(
    r"\b(?:anything else|what (?:would|do) you (?:like|want)|how can i help|want to dig|any (?:other )?questions"
    r"|let me know|make sense|(?:(?<=[,.] )|\A)right\?|ready\?)",
    re.IGNORECASE,
)


def closing_question(message: str) -> str:
    """The question that a message ends with, and the sentence before it if the question needs one.

    Empty without a question, and for one out of courtesy.
    """
    # A list or code before the question does not explain it.
    paragraphs = [each for each in _without_choices(message[:_READ]).split("\n\n") if each.strip()]
    asked = wording.question(paragraphs[-1], _LONGEST) if paragraphs else ""
    if not asked or (not _POINTS.search(asked) and len(asked.split()) >= _CLEAR_QUESTION):
        return _needed(asked)
    while len(paragraphs) > 1 and _NO_PROSE.match(paragraphs[-2]):
        del paragraphs[-2]
    said = list(wording.sentences(wording.plain(paragraphs[-1])))
    said = said if len(said) > 1 else list(wording.sentences(wording.plain("\n\n".join(paragraphs[-2:]))))
    before = said[-2] if len(said) > 1 else ""
    whole = f"{before} {asked}"
    return _needed(whole if before and not before.endswith(":") and len(whole) <= _LONGEST else asked)


def _without_choices(message: str) -> str:
    """A message without the list or the code below its last question: what there is to choose from."""
    lines = message.rstrip().split("\n")
    kept = len(lines)
    if lines[-1].lstrip().startswith("```"):
        kept = next((at for at in range(kept - 2, -1, -1) if lines[at].lstrip().startswith("```")), kept)
    while kept > max(0, len(lines) - _MOST_CHOICES) and (not lines[kept - 1].strip() or _CHOICE.match(lines[kept - 1])):
        kept -= 1
    above = "\n".join(lines[:kept])
    return above if wording.question(above.rpartition("\n\n")[2], _LONGEST) else message


def _needed(asked: str) -> str:
    return "" if COURTESY.search(asked) else asked
