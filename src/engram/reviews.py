"""What a review of changes found, read from its form.

A review goes through the changes line by line and marks what is good (✅) and what is not (⚠️, ❌). What came of it is
not its first line but its verdict, its list of improvements, or what it marks as wrong, in this order.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from .emphasis import without_emphasis

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Characters of a review that are read, and of its beginning.
_READ: Final = 40_000
_BEGINNING: Final = 400
_TITLE: Final = re.compile(r"^#{1,4} [^\n]{0,80}\breview\b", re.IGNORECASE | re.MULTILINE)
_CALLED: Final = re.compile(r"\breview\b", re.IGNORECASE)
#: A line with a judgement.
_JUDGED: Final = re.compile(r"^[ \t]{0,8}(?:[-*+•] ?|\d{1,3}[.)] ?|\(\d{1,3}\) ?){0,2}[✅⚠❌🔴🟡🟢🐛🚨]", re.MULTILINE)
_FEWEST_JUDGED: Final = 3
#: Words of a line that is about something wrong. The sign of such a line is at its beginning.
_WRONG: Final = re.compile(r"\*\*(?i:critical|bug|blocker)\b|\b(?:CRITICAL|BUG)\b")
_WRONG_SIGNS: Final = "❌🔴🐛🚨"
_DOUBTFUL_SIGNS: Final = "⚠🟡"
_GOOD_SIGNS: Final = "✅🟢"
#: The heading of the most important findings. What tests are recommended is another matter.
_FINDINGS: Final = re.compile(
    r"^#{1,4} (?![^\n]{0,80}\btests?\b)[^\n]{0,60}"
    r"\b(?:improvements?|issues|findings|concerns|problems|recommendations|must fix)\b[^\n]{0,40}$",
    re.IGNORECASE | re.MULTILINE,
)
_TESTS: Final = re.compile(r"\btests?\b", re.IGNORECASE)
_HEADING: Final = re.compile(r"^(#{1,6}) ", re.MULTILINE)
_NUMBERED: Final = re.compile(r"^(?:#{2,6} )?(?:\*\*)?\d{1,2}[.)] (\S[^\n]{3,300})$", re.MULTILINE)
#: Before what a finding says: its number, its sign.
_BEFORE: Final = re.compile(r"\A(?:[-*+•]\s+|\(?\d{1,3}[.)]\)?\s+|[✅⚠❌🔴🟡🟢🐛🚨\ufe0f]++\s*+)++")
#: Such a finding is clear only below the code that it is about.
_POINTS: Final = re.compile(r"\A(?:this|these|that|those|it|they|same)\b", re.IGNORECASE)
_MOST: Final = 6


def is_review(message: str) -> bool:
    """Whether a message goes through changes and judges them."""
    message = message[:_READ]
    if _TITLE.search(message):
        return True
    return bool(_CALLED.search(message[:_BEGINNING])) and len(_JUDGED.findall(message)) >= _FEWEST_JUDGED


def verdict(message: str, headings: Sequence[re.Match[str]]) -> re.Match[str] | None:
    """The last of these headings that is above a verdict, such as `Summary`; None if a list of improvements follows it.

    Above the first judgement a summary only tells what was changed.
    """
    judged = _JUDGED.search(message)
    found = [each for each in headings if not _TESTS.search(each[0])]
    found = [each for each in found if not judged or each.start() > judged.start()]
    listed = _improvements(message)
    return found[-1] if found and (listed is None or listed.start() < found[-1].start()) else None


def concludes(message: str, headings: Sequence[re.Match[str]]) -> bool:
    """Whether a review has a verdict, a list of improvements, or something that is wrong."""
    message = message[:_READ]
    if verdict(message, headings):
        return True
    listed = _improvements(message)
    return bool((listed and _numbered(message, listed)) or _marked(message)[0])


def findings(message: str) -> list[str]:
    """What a review lists as its improvements; otherwise what it marks as wrong, and then as doubtful."""
    message = message[:_READ]
    listed = _improvements(message)
    found = _numbered(message, listed) if listed else []
    if not found:
        wrong, doubtful = _marked(message)
        found = [*wrong, *doubtful]
    said = [text for text in map(_plain, found) if text]
    return ([text for text in said if not _POINTS.match(text)] or said)[:_MOST]


def _improvements(message: str) -> re.Match[str] | None:
    """The last heading of a list of improvements."""
    return next(iter(list(_FINDINGS.finditer(message))[::-1]), None)


def _marked(message: str) -> tuple[list[str], list[str]]:
    """The lines that are marked as wrong, and those that are marked as doubtful."""
    wrong: list[str] = []
    doubtful: list[str] = []
    for line in message.split("\n"):
        judged = _JUDGED.match(line)
        sign = judged[0][-1] if judged else ""
        if not sign or sign in _GOOD_SIGNS:
            continue
        if sign in _WRONG_SIGNS or _WRONG.search(line):
            wrong.append(line)
        elif sign in _DOUBTFUL_SIGNS:
            doubtful.append(line)
    return wrong, doubtful


def _numbered(message: str, heading: re.Match[str]) -> Sequence[str]:
    """The numbered points below a heading, up to the next one of its level."""
    level = len(heading[0]) - len(heading[0].lstrip("#"))
    ends = [each.start() for each in _HEADING.finditer(message, heading.end()) if len(each[1]) <= level]
    return [each[1] for each in _NUMBERED.finditer(message, heading.end(), min(ends, default=len(message)))]


def _plain(line: str) -> str:
    line = _BEFORE.sub("", line.strip())
    said = without_emphasis(line).replace("**", "").replace("\ufe0f", "")
    return said.rstrip().removesuffix("…").strip(" :;")
