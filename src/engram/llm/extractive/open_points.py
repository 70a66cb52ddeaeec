"""What a session leaves open: a question of the agent, an ask without an answer, what the agent says is left to do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from ... import wording
from ...closing_question import COURTESY, closing_question
from . import markers, talk
from .quotes import AGENT, ASKED, UNANSWERED, UNFINISHED, quoted
from .talk import Turn
from .terms import Analyser

LONGEST: Final = 300
MOST: Final = 8
#: Of a list of what is left, this many.
_MOST_LEFT: Final = 3
#: Characters that the words before a quotation may need.
_LEAD: Final = 40
_FEWEST_WORDS: Final = 4
#: The heading of what is left to do, and sentences that say so.
_LEFT_HEADING: Final = re.compile(
    r"^\W{0,6}(?:next steps?|remaining(?: work| tasks| items)?|left to do|still (?:to do|open)"
    r"|open (?:points|questions|items)|to ?do|follow-?ups?|not (?:yet )?done)\W{0,6}$",
    re.IGNORECASE,
)
_LEFT: Final = re.compile(
    r"\b(?:still (?:needs?|has|have) to\b|(?:remains?|left) to be (?:done|fixed|written|tested)\b"
    r"|not yet (?:implemented|done|tested|fixed|written|wired|supported)\b|left to do\b|needs? a follow-?up\b)",
    re.IGNORECASE,
)
_ITEM: Final = re.compile(r"\A\s*+(?:[-*+•]|\d{1,2}[.)])\s+(?:\[ \]\s+)?(\S[^\n]{3,400})\Z")
_UNTICKED: Final = re.compile(r"\A\s*+[-*+]\s+\[ \]\s+(\S[^\n]{3,400})\Z")


def of_work(turns: Sequence[Turn], unfinished: str) -> list[str]:
    """What a session of work leaves open. `unfinished` is the last ask, if the work on it broke off."""
    spoken = next(
        (turn for turn in reversed(turns) if turn.role == "assistant" or (turn.ask and not turn.foreign)), None
    )
    found: list[str] = []
    if spoken and spoken.role == "assistant":
        asked = closing_question(spoken.text)
        if asked:
            found.append(quoted(ASKED, asked))
    elif spoken and wording.is_substantial(spoken.ask):
        found.append(quoted(UNANSWERED, wording.shorten(talk.bare(spoken.ask), LONGEST - _LEAD)))
    if unfinished and not found:
        found.append(quoted(UNFINISHED, wording.shorten(unfinished, LONGEST - _LEAD)))
    closing = next((turn for turn in reversed(turns) if turn.role == "assistant"), None)
    return [*found, *(_left_to_do(closing.text) if closing else [])][:MOST]


def of_conversation(turns: Sequence[Turn]) -> list[str]:
    """The question that a conversation ends with."""
    asked = wording.question(turns[-1].text, LONGEST - _LEAD) if turns else ""
    if not asked or COURTESY.search(asked) or len(asked.split()) < _FEWEST_WORDS:
        return []
    speaker = turns[-1].speaker or ("The user" if turns[-1].role == "user" else AGENT)
    return [quoted(f"{speaker} asked: ", asked)]


def kept(before: Sequence[str], turns: Sequence[Turn]) -> Iterator[str]:
    """What was open before and still is. A question or an ask has its answer when the session went on."""
    analyser = Analyser()
    waiting = [point for point in before if not (turns and point.startswith((ASKED, UNANSWERED, UNFINISHED)))]
    done = [
        analyser.terms(sentence)
        for turn in (turns if waiting else [])
        if not turn.foreign
        for sentence in wording.sentences(wording.plain(turn.text[: talk.READ]))
        if markers.is_done(sentence)
    ]
    for point in waiting:
        terms = analyser.terms(point)
        if not any(2 * len(terms & each) >= len(terms) for each in done if terms):
            yield point


def _left_to_do(message: str) -> list[str]:
    """What a closing message says is left."""
    found: list[str] = []
    below = False
    for line in message[: talk.READ].splitlines():
        if _LEFT_HEADING.match(line):
            below = True
            continue
        item = (_ITEM if below else _UNTICKED).match(line)
        if item:
            found.append(item[1])
        elif line.strip():
            below = False
            found += [each for each in wording.sentences(wording.plain(line)) if _LEFT.search(each)]
    plain = [wording.shorten(wording.plain(each), LONGEST) for each in found]
    return [each for each in dict.fromkeys(plain) if each and not markers.is_done(each)][:_MOST_LEFT]
