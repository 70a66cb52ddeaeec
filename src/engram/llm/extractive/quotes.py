"""How a gist quotes people and agents: the words before a quotation, and the marks around it."""

from __future__ import annotations

import re
from typing import Final

from ... import wording

USER, AGENT = "The user", "The agent"
ASKED: Final = f"{AGENT} asked: "
UNANSWERED: Final = "Not answered: "
UNFINISHED: Final = "Not finished: "
#: The last line of a gist of an earlier release begins so. It names topics.
OLD_TOPICS: Final = "Also: "
#: Characters of a title that reads as a heading.
_HEADING: Final = 90
#: A sentence with fewer plain words names little.
_HEADING_WORDS: Final = 5
PLAIN_WORD: Final = re.compile(r"(?<![\w/.…@-])[^\W\d_]{2,}+(?![\w/]|\.\w)")
_ENDS: Final = (".", "!", "?", "…", "。", "！", "？")


def quoted(lead: str, text: str) -> str:
    """A quotation that ends like a sentence. A command stays as it was typed."""
    text = text.strip().rstrip(",;:").replace("“", "‘").replace("”", "’")
    mark = "" if text.startswith("/") or text.endswith(_ENDS) else "."
    return f"{lead}“{text}{mark}”"


def heading(text: str) -> str:
    """The first sentence of a text, as a heading. One that names little takes the next with it."""
    first, *rest = list(wording.sentences(text)) or [""]
    if rest and len(PLAIN_WORD.findall(first)) < _HEADING_WORDS:
        first = f"{first} {rest[0]}"
    head = wording.shorten(first, _HEADING).rstrip(".:;, ")
    word = head.partition(" ")[0]
    return head[:1].upper() + head[1:] if word.isalpha() and word.islower() else head


def ended(text: str) -> str:
    """A text with a mark at its end."""
    return text if text.endswith(_ENDS) else f"{text}."
