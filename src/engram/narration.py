"""Narration: what an agent says while it works, and nobody looks for later.

Three of four messages of a coding agent announce the next step ("Now let me run the linter.") or remark that a step
went well ("All tests pass."). Recall counts them less, and hooks do not record them.

Only the form is read, so an unknown form counts as a statement.
"""

from __future__ import annotations

import re
from typing import Final

from .sentences import parts

_ANNOUNCES: Final = re.compile(
    r"\A(?:(?:good|great|perfect|excellent|ok(?:ay)?|right|clean|first|next|then|also|and|so|finally|sure|alright"
    r"|all (?:done|green)|you're (?:absolutely )?right|i see|got it|good (?:question|point|catch))\b[\s,.!:;—–-]*+)*+"
    r"(?:let me|let's|let us|i'll|i will|i'm going to|i am going to|i need to|i should|i have to|i'd like to"
    r"|now (?:let|i|the same|add|update|run|fix|remove|check|replace|verify|build|rename|look|read|write|create|move"
    r"|test|for|on to|skip))\b",
    re.IGNORECASE,
)
#: Said after a step that went well; nobody looks for it.
_PASSES: Final = re.compile(
    r"\A(?:all |the |both |every )?+(?:\d{1,9} |unit |new )*+"
    r"(?:tests?|builds?|lint(?:er|ing)?|checks?|edits?|compilation|suite)\b"
    r"[\w\s]{0,24}\b(?:pass(?:es|ed)?|succeed(?:s|ed)?|successful(?:ly)?|clean|green|applied|done|compiles?)[.!]?\Z"
    r"|\A(?:good|great|perfect|excellent|done|clean|ok(?:ay)?|yes|no|right|thanks?(?: you)?|sure)\b"
    r"[\w\s,]{0,16}[.!]?\Z",
    re.IGNORECASE,
)

#: A reason or a rule. A sentence with one is a finding, however it begins. So is one that goes on behind a colon.
_STATES: Final = re.compile(
    r"\b(?:because|so that|since|due to|never|must|always|cannot|can't|the (?:root )?cause)\b|:\s+(?:\S+\s+){3}\S",
    re.IGNORECASE,
)
#: A longer sentence says more than the next step.
_MOST_WORDS: Final = 18

_FENCE: Final = ("```", "~~~")
_WORD: Final = re.compile(r"[^\W\d_]{2,}")
#: A message with fewer words besides its narration says nothing of substance.
_LEAST_WORDS: Final = 8
#: Characters that are read to tell whether a message has substance.
_READ: Final = 4_000


def announces(sentence: str) -> bool:
    """Whether a sentence announces the next step."""
    return _ANNOUNCES.match(sentence) is not None


def is_narration(sentence: str) -> bool:
    """Whether a sentence announces the next step, or only remarks that one went well."""
    return announces(sentence) or _PASSES.match(sentence) is not None


def is_only_narration(sentence: str) -> bool:
    """Whether a sentence is narration and has neither a reason nor a rule. What is recorded loses only these.

    Recall asks `is_narration` instead: there, such a sentence counts less, but is not lost.
    """
    if not is_narration(sentence):
        return False
    return _STATES.search(sentence) is None and len(sentence.split()) <= _MOST_WORDS


def without_narration(text: str) -> str:
    """The text without sentences that are only narration. Code stays as it is."""
    kept: list[str] = []
    in_code = False
    for line in text.split("\n"):
        if line.lstrip().startswith(_FENCE):
            in_code = not in_code
            kept.append(line)
            continue
        said = [] if in_code else parts(line)
        stated = [sentence for sentence in said if not is_only_narration(sentence)]
        if len(stated) == len(said):
            kept.append(line)
        elif stated:
            kept.append(" ".join(stated))
    return "\n".join(kept).strip()


def is_substantial(text: str) -> bool:
    """Whether a text states something besides narration, questions and code."""
    words, in_code = 0, False
    for line in text[:_READ].split("\n"):
        if line.lstrip().startswith(_FENCE):
            in_code = not in_code
        elif not in_code:
            words += sum(_words(sentence) for sentence in parts(line) if not is_only_narration(sentence))
        if words >= _LEAST_WORDS:
            return True
    return False


def _words(sentence: str) -> int:
    return 0 if sentence.endswith("?") else len(_WORD.findall(sentence))
