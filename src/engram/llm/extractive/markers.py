"""The phrases that show what a sentence is: a decision, a preference, something to do, and so on.

English only. A sentence is compared with the kinds in order, and the first that matches is its kind; a sentence that
matches none is not a statement.
"""

from __future__ import annotations

import re
from typing import Final


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


#: The beginning of a sentence, after the speaker's name or a word that only joins it to the last one.
_START = r"^(?:[\w ]{1,30}: )?(?:(?:and|so|but|also|please|yes|okay|ok)[, ]+)*"
#: Words that may come between "I" and its verb.
_HOW = r"(?:(?:so|just|really|very|too|not|still|also|now|always|usually|actually|currently|definitely) )*"
_MY = (
    r"\bmy (?:\w+ )?(?:name|wife|husband|partner|girlfriend|boyfriend|fianc[eé]e?|sons?|daughters?|kids?|children"
    r"|mother|father|mom|mum|dad|parents|sisters?|brothers?|family|dogs?|cats?|pets?|job|boss|team|company|manager"
    r"|birthday|address|phone|e-?mail|home|house|car|hobby|hobbies|degree|diet|time ?zone|laptop|editor|stack)"
)
#: The kind of a sentence, and the phrases that show it.
MARKERS: Final = (
    ("todo", _any(rf"{_START}(?:todo|fixme|to do|remind me)\b", r"\btodo:")),
    ("fact", _any(rf"{_START}(?:remember|note|keep in mind)(?: that\b|:)")),
    (
        "decision",
        _any(
            r"\b(?:we|i|they|team)(?:'ve| have| had|'d)? (?:\w+ )?(?:decided|agreed|chosen|chose|settled on)\b",
            r"\b(?:we|i)(?:'re| are|'m| am|'ll| will) (?:going|go) with\b",
            rf"{_START}(?:decision|decided)\b",
            r"\bfrom now on\b",
        ),
    ),
    (
        "lesson",
        _any(
            r"\b(?:i|we)(?:'ve| have)? (?:\w+ )?(?:learned|learnt|realised|realized|found out)\b",
            rf"{_START}(?:it )?turns out\b",
            r"\bthe (?:lesson|root cause|trick)\b",
            rf"{_START}lesson\b",
            r"\bnote to self\b",
        ),
    ),
    (
        "preference",
        _any(
            rf"\bi(?:'d| would| do)? {_HOW}(?:prefer|hate|dislike|can't stand|cannot stand|would rather|rather)\b",
            r"\bi (?:always|never|usually)\b",
            r"\bmy favou?rite\b",
            r"\bplease (?:always|never|don't|do not|use)\b",
            rf"\bi(?: do)? {_HOW}(?:like|love|enjoy|adore)\b(?! to (?:see|hear|know)| that\b| it\b| how\b)",
            rf"\bi(?:'m| am) {_HOW}(?:into|a fan of|fond of|allergic to)\b",
            rf"{_START}(?:always|never)\b",
            r"\b(?:must|should) (?:always|never)\b",
        ),
    ),
    (
        "fact",
        _any(
            rf"{_MY}(?:'s name)? (?:is|are|was|has|have|lives?|works?)\b",
            rf"{_MY}'s (?:called|named)\b",
            r"\bcall me\b",
            r"\bi (?:live|lived|work|worked|grew up|was born|study|studied|speak|own|teach|volunteer) \w",
            rf"\bi(?:'m| am) {_HOW}an? (?!bit|little|lot)\w",
            rf"\bi(?:'m| am) {_HOW}(?:from|based|married|engaged|single|divorced|vegan|vegetarian|retired|\d+ years)\b",
            r"\bi(?:'ve got| have|'ve) (?:an? (?!lot|feeling|question|plan)|two |three |four |five |no |my own )\w",
            r"\bi(?:'ve| have) been \w+ing\b.*\b(?:for|since)\b",
        ),
    ),
    (
        "todo",
        _any(
            rf"{_START}(?:i|we) (?:need to|have to|must)\b",
            r"\b(?:i|we) still (?:need|have) to\b",
            r"\bnext steps?\b",
            r"\bstill open\b",
        ),
    ),
)
#: A sentence that only supposes, wishes or asks states nothing.
_SUPPOSED: Final = _any(
    r"""[?？]['"”)\]]*$""", r"^(?:if|imagine|suppose|maybe|perhaps)\b", r"\b(?:if i|as if|would have)\b"
)
_DONE: Final = _any(r"\b(?:done|fixed|finished|resolved|shipped|closed|merged|solved|completed|sorted out)\b")
_TROUBLE: Final = _any(
    r"\b(?:errors?|fail(?:s|ed|ing|ure)?|broken?|bugs?|stuck|crash(?:ed|es)?|problems?|wrong|worried|sad|upset|tired)\b",
    r"\b(?:stress(?:ed|ful)?|difficult|lost|sorry|unfortunately)\b",
)
_WELL: Final = _any(
    r"\b(?:done|fixed|finished|works|passe[sd]|shipped|solved|merged|great|thanks?|happy|glad|excited|love|proud)\b",
    r"\b(?:awesome|wonderful|won|success(?:ful)?)\b",
)


def kind(sentence: str) -> str:
    """What the sentence is; empty if it is not a statement."""
    sentence = sentence.replace("’", "'")
    if _SUPPOSED.search(sentence):
        return ""
    return next((kind for kind, pattern in MARKERS if pattern.search(sentence)), "")


def is_open(sentence: str) -> bool:
    """Whether it asks for an answer or for something to be done."""
    return sentence.rstrip("'\"”)] ").endswith(("?", "？")) or kind(sentence) == "todo"


def is_done(sentence: str) -> bool:
    return _DONE.search(sentence) is not None


def tone(sentences: list[str]) -> tuple[int, int]:
    """How many sentences sound positive, and how many are about problems."""
    return sum(bool(_WELL.search(each)) for each in sentences), sum(bool(_TROUBLE.search(each)) for each in sentences)
