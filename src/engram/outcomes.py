"""What an agent's messages say came of a session, as a short text.

The outcome is the latest message that says what came of it: not narration ("Perfect! Now I have all the information"),
not a question, not a look back. It is shortened to whole sentences. Of a review it is what the review found.

Only the form of a text is read, so an unknown form counts as a statement.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from . import reviews
from .emphasis import without_emphasis
from .narration import announces, is_narration
from .sentences import CLOSING_QUOTES, parts, split

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Characters of an outcome.
OUTCOME_LENGTH: Final = 300
#: Messages with content among which one that states results is preferred to a later one.
_NEAR_THE_END: Final = 4
#: A shorter result is not preferred to a later message.
_SHORT: Final = 60
#: Characters of a turn that are read.
READ: Final = 40_000

#: The heading of the part that says what came of it.
_CLOSING_HEADING: Final = re.compile(
    r"^#{1,6} [^\n]{0,60}?\b(?:summary|conclusion|overall|verdict|assessment|results?|recommendation|outcome)\b"
    r"|^\*\*[^*\n]{0,60}\b(?:summary|conclusion|verdict|outcome)\b[^*\n]{0,60}\*\*:?\s*$",
    re.IGNORECASE | re.MULTILINE,
)
#: Answers a question beside the matter, up to the next heading.
_ASIDE: Final = re.compile(
    r"(?:to answer|as (?:for|to)|regarding|about) your (?:\w+ )?questions?\b"
    r"|you(?: also)? asked (?:about|how|why|whether)\b",
    re.IGNORECASE,
)
#: Introduces a list of how things were.
_WERE: Final = re.compile(
    r"(?:\A|(?<=[.!?] ))[^.!?\n]{0,120}\b(?:were|was|used to(?: be)?)\W{0,3}:\W{0,3}\Z", re.IGNORECASE
)
_ITEM: Final = re.compile(r"\A\s*+(?:[-*+•]|\d{1,3}[.)])\s")
#: The harness's own words in place of a message of the model.
FAILURE: Final = "API Error: "
TITLE: Final = re.compile(r"^# (\S[^\n]{0,150})$", re.MULTILINE)
#: Lines that only introduce what follows, and lines that are no sentences: headings, rows of tables, rules.
_NO_SENTENCE: Final = re.compile(r"\A\s*+(?:#{1,6} |\||[-=*_]{3,}\s*\Z|\*\*[^*\n]{1,120}:?\*\*:?\s*\Z)")
_INTRODUCES: Final = re.compile(
    r"\A(?:done|fixed|perfect|great|good|ok(?:ay)?|yes|yep|right)?[.,!:—– -]{0,4}"
    r"(?:here(?:'s| is| are)|(?:a )?(?:quick )?summary\b|(?:key )?changes?(?: made| in| to)?\b"
    r"|what (?:changed|was done)\b|the changes?\b|looking at\b)[^\n]{0,120}:\Z",
    re.IGNORECASE,
)
#: Sentences for the person who reads the message, not about what was done.
_OFFERS: Final = re.compile(
    r"\A(?:you can|you could|you may|want me|would you|if you|feel free|ready (?:to|for)|please|shall i|should i"
    r"|you're (?:absolutely )?right|good (?:question|point|catch)|i apologi[sz]e|sorry|got it|understood)\b",
    re.IGNORECASE,
)
#: Words of somebody who says what came of it.
_RESULT: Final = re.compile(
    r"\b(?:done|fixed|complete[ds]?|implemented|added|updated|renamed|removed|deleted|created|moved|migrated|refactored"
    r"|changed|replaced|reverted|merged|pushed|committed|released|deployed|resolved|consolidated|extracted|wrote|built"
    r"|found|cause|because|passes|passing|works|working|now (?:correctly|shows?|uses?|has|renders?|both)"
    r"|no (?:longer|issues)|decided|agreed|review(?:ed)?)\b",
    re.IGNORECASE,
)

#: Agrees to what the user said. A longer text says more than that.
_ACKNOWLEDGES: Final = re.compile(
    r"\A(?:ok(?:ay)?|sure|understood|al ?right|all right|noted|agreed|of course|certainly|absolutely|will do|got it"
    r"|no problem|sounds good|you're welcome|glad)\b[\s,.!:;—–-]",
    re.IGNORECASE,
)
_LONGEST_ACKNOWLEDGEMENT: Final = 160
_PAST: Final = re.compile(
    r"\A(?:(?:i|we)(?:'ve| have)? )?\w{2,20}ed\b|[^.!?\n]{0,80}\b(?:is|are|was|were|been) \w{2,20}ed\b", re.IGNORECASE
)


def last_result(messages: Sequence[tuple[int, str]]) -> tuple[int, str] | None:
    """The message that says what came of it: its id, and what it says. The messages are newest first.

    One that only acknowledges what the user said last stands back behind an earlier one that says what was done.
    """
    found: list[tuple[int, str]] = []
    remark: tuple[int, str] | None = None
    for id, message in messages:
        if message.startswith(FAILURE):
            continue
        text = shortened_outcome(message)
        if text and _RESULT.search(text) and (not found or len(text) >= _SHORT):
            return id, text
        if text:
            found.append((id, text))
        elif remark is None and not found:
            remark = _remark(id, message)
        if len(found) == _NEAR_THE_END:
            break
    if found and acknowledges(found[0][1]):
        return next((each for each in found if says_done(each[1])), found[0])
    return found[0] if found else remark


def is_report(message: str) -> bool:
    """Whether a message has a title or a summary."""
    message = message[:READ]
    return TITLE.search(message) is not None or _CLOSING_HEADING.search(message) is not None


def concludes(message: str) -> bool:
    """Whether a message is a review that says what it comes to."""
    message = message[:READ]
    return reviews.is_review(message) and reviews.concludes(message, list(_CLOSING_HEADING.finditer(message)))


def acknowledges(text: str) -> bool:
    """Whether a text only agrees to what the user said: `OK, the rest is left for tomorrow.`"""
    return len(text) <= _LONGEST_ACKNOWLEDGEMENT and _ACKNOWLEDGES.match(text) is not None and not says_result(text)


def says_done(text: str) -> bool:
    """Whether a text says what was done, in words of a result or with a verb of the past at its beginning."""
    return not acknowledges(text) and (says_result(text) or _PAST.match(text) is not None)


def says_result(text: str) -> bool:
    """Whether a text has words of somebody who says what came of it."""
    return _RESULT.search(text) is not None


def shortened_outcome(message: str) -> str:
    """The sentences of a message that say something, in at most `OUTCOME_LENGTH` characters; empty without any."""
    message = message[:READ]
    line = " ".join(message.split())
    if len(line) <= OUTCOME_LENGTH and "```" not in line and "|" not in line and "#" not in line[:1]:
        # A short message is kept as it is, unless it asks or announces something.
        said = parts(message)
        if any(map(states, said)) and not any(announces(part) or part.endswith(("?", ":")) for part in said):
            return line
    headings = list(_CLOSING_HEADING.finditer(message))
    found: list[str] = []
    if reviews.is_review(message):
        verdict = reviews.verdict(message, headings)
        headings = [verdict] if verdict else []
        found = [] if verdict else reviews.findings(message)
    said = found or (_statements(message[headings[-1].start() :]) if headings else []) or _done(message)
    title = TITLE.search(message)
    if title and said:
        said.insert(0, without_emphasis(title[1]))
    return fit(said, OUTCOME_LENGTH)


def _done(text: str) -> list[str]:
    """The statements of a text, without side answers and without how things were, if the others say what was done."""
    lines = text.split("\n")
    kept: list[str] = []
    aside = were = False
    for line in lines:
        aside = (aside and not _NO_SENTENCE.match(line)) or _ASIDE.search(line[:200]) is not None
        if were and (_ITEM.match(line) or not line.strip()):
            continue
        looks_back = _WERE.search(line.rstrip()) if line.rstrip(" *").endswith(":") else None
        were = looks_back is not None
        if not aside:
            kept.append(line[: looks_back.start()] if looks_back else line)
    said = _statements("\n".join(kept)) if kept != lines else []
    return said if any(map(says_done, said)) else _statements(text)


def _statements(text: str) -> list[str]:
    lines = [line for line in text.split("\n") if not _NO_SENTENCE.match(line)]
    # `split` does not cut behind a code span: "… in `run`. Let me look."
    said = [part for sentence in split("\n".join(lines)) for part in parts(sentence)]
    return _without_loose_colons([without_emphasis(sentence) for sentence in said if states(sentence)])


def _without_loose_colons(said: list[str]) -> list[str]:
    """A sentence that ends with a colon introduces code or a table, which is left out, unless a sentence follows."""
    kept: list[str] = []
    for sentence, following in pairwise([*said, ""]):
        if following:
            # An item of a list, such as "Added cache.go (new):", does not introduce the next one.
            loose = following.endswith(":") or sentence.endswith("):")
            kept.append(sentence.removesuffix(":") if loose else sentence)
        elif not sentence.endswith(":"):
            kept.append(sentence)
    return kept


def states(sentence: str) -> bool:
    if sentence.endswith("?") or not any(letter.isalpha() for letter in sentence):
        return False
    return not (is_narration(sentence) or _INTRODUCES.match(sentence) or _OFFERS.match(sentence))


def _remark(id: int, message: str) -> tuple[int, str] | None:
    """A message without a statement, such as `Done`, unless it announces something or asks."""
    line = " ".join(message.split())
    ends = split(message[:READ])[-1:]
    if not line or not ends or ends[0].endswith(("?", ":")) or any(map(announces, parts(message[:READ]))):
        return None
    return id, cut(line, OUTCOME_LENGTH)


def fit(said: Sequence[str], longest: int) -> str:
    """As many whole sentences as fit; a first one that is too long is cut."""
    text = ""
    for sentence in said:
        joint = (
            ""
            if not text
            else " "
            if text.rstrip(CLOSING_QUOTES).endswith((".", "!", "?", ":", ";", "…", "。"))
            else "; "
        )
        if len(text) + len(joint) + len(sentence) > longest:
            # Little room is better left free than filled with half a sentence.
            return text if len(text) > longest // 2 else cut(f"{text}{joint}{sentence}", longest)
        text += joint + sentence
    return text


def cut(line: str, longest: int) -> str:
    """The line, cut at a word if it is too long."""
    if len(line) <= longest:
        return line
    head = line[: longest - 1]
    space = head.rfind(" ", longest // 2)
    return (head[:space] if space > 0 else head).rstrip(" ,;:") + "…"
