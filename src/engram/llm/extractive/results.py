"""What came of an ask, in the words of the agent's messages.

The closing message before the next ask is usually the report. Remarks on how it goes ("All tests pass.", "I have
everything I need."), titles and signs before list items are left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ... import outcomes, wording
from ...emphasis import without_emphasis
from ...sentences import parts
from .quotes import ended
from .talk import Turn

#: Messages among which one that reports a result is preferred to a later one, and the least length of such a result.
NEAR_THE_END: Final = 4
_SHORT: Final = 40
#: A closing message of this length is taken as it is.
_CLOSING: Final = 80
#: A piece of a list with fewer words, at the end, is a heading of something that is left out.
_LOOSE_END: Final = 4
#: Sentences that say only how it goes, or that somebody knows enough now.
_EMPTY: Final = re.compile(
    r"\A(?:(?:good|great|excellent|perfect|ok(?:ay)?|right|i see|got it|understood|interesting)\b[^.:;!`]{0,60}[.!]?\Z"
    r"|(?:clean|done|fixed|found it|updated|all (?:done|set|green))[.!]?\Z"
    r"|(?:now )?(?:running|checking|verifying|looking|reading|updating|fixing|building)\b[^.:;!]{0,80}[.!]?\Z"
    r"|[^.:;!]{0,200}[—–,-] let me\b"
    r"|(?:good|great|excellent|perfect|sorry|you(?:'re| raise)|that makes)\b[^.:;!]{0,80}[.!]\Z"
    r"|[^.:;!]{0,40}\bi(?: now)? have (?:all|everything|enough|a (?:clear|good|full|complete)|the (?:full|whole))\b"
    r"[^.:;!]{0,80}[.!]?\Z"
    r"|(?:all |the |both |and |existing |unit |new |\d{1,6} |go |full )*+"
    r"(?:tests?|test suite|lint(?:er|ing)?|builds?|everything)\b[^.:;]{0,30}"
    r"\b(?:pass(?:es|ed|ing)?|clean|green|succeed(?:s|ed)?|compiles?)\b[^.:;]{0,90}[.!]?\Z"
    r"|[^.:;!]{0,120}\b(?:like|as follows|like this)[.:]?\Z"
    r"|all (?:clean|changes are (?:clean|complete))\b[^.:;]{0,80}[.!]?\Z"
    r"|[^.:;]{0,60}\b(?:diagnostics?|warnings?|lint\w{0,6}|errors?|issues?|failures?)\b[^.:;]{0,60}"
    r"\b(?:pre-existing|unrelated)\b[^.:;]{0,80}[.!]?\Z)",
    re.IGNORECASE,
)
_CHANGED: Final = re.compile(r"\b(?:is|are) now\b|\A\w+ed\b|; \w+ed\b", re.IGNORECASE)
#: What is to be done, or is not, is not done.
_TO_DO: Final = re.compile(
    r"\b(?:needs?|has|have|should|must|could|can|will|would) (?:to )?be \w+"
    r"|(?:n't|\bnot|\bnever) (?:yet |been |be )?\w+",
    re.IGNORECASE,
)
#: Words of somebody who has changed something, and has not only found it out.
_DID: Final = re.compile(
    r"\b(?:done|fixed|completed?|implemented|added|updated|renamed|removed|deleted|created|moved|migrated|refactored"
    r"|changed|replaced|reverted|merged|extracted|consolidated|simplified|rewrote|wrote|written|built|now)\b",
    re.IGNORECASE,
)
#: What is left of Markdown's emphasis around code.
_LOOSE_BOLD: Final = re.compile(r"(?<=[\w)])\*\*(?=[\s:;,.]|\Z)")
_SIGNS: Final = re.compile(r"[✅✔✓☑⚠❌✖☐🔴🟡🟢\ufe0f]+\s*")


def of(messages: Sequence[Turn]) -> str:
    """What the messages say came of it; empty if they only announce the next step or ask.

    A message with words of somebody who reports a result is preferred to a later one without.
    """
    found: list[str] = []
    for turn in reversed(messages):
        text = _stated(turn.text)
        # The closing message is the report, unless it is short. So is one with a title or a summary.
        closes = turn is messages[-1] and len(text) >= _CLOSING
        if text and (closes or outcomes.is_report(turn.text)):
            return text
        if text and outcomes.says_result(text) and (not found or len(text) >= _SHORT):
            return text
        found += [text] if text else []
        if len(found) == NEAR_THE_END:
            break
    return found[0] if found else ""


def reports_change(result: str) -> bool:
    """Whether a result says that something is different now."""
    done = _TO_DO.sub("", result)
    return len(result) >= _SHORT and (outcomes.says_result(done) or _CHANGED.search(done) is not None)


def did_something(result: str) -> bool:
    """Whether a result says that the agent changed something."""
    return reports_change(result) and _DID.search(_TO_DO.sub("", result)) is not None


def _stated(message: str) -> str:
    """What a message states, without its title, remarks on how well it goes, and signs before list items."""
    if message.startswith(outcomes.FAILURE):
        return ""
    text = outcomes.shortened_outcome(message)
    title = outcomes.TITLE.search(message[: outcomes.READ])
    if title and text.startswith(title[1]) and len(text) > len(title[1]) + _SHORT:
        text = text.removeprefix(title[1]).lstrip(" ;:.")
    text = _SIGNS.sub("", text).replace("\\`", "").replace("`", "")
    text = _LOOSE_BOLD.sub("", without_emphasis(text))
    said = [each for each in wording.sentences(text) if not _EMPTY.match(each)]
    # An identifier in lower case may begin the next sentence.
    first, *rest = parts(said[0]) if said else [""]
    said[:1] = rest if rest and _EMPTY.match(first) else said[:1]
    stated = " ".join(said).rstrip(" :;,")
    before, semicolon, end = stated.rpartition("; ")
    if semicolon and len(end.split()) < _LOOSE_END and not end.endswith("."):
        stated = before
    return ended(stated) if wording.says_something(stated) else ""
