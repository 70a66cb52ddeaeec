"""The frame around text that Engram injects into a conversation, and its removal from what is recorded.

Injected text stands between Engram's own tags. The tags mark it as data: anyone may have written it, and the model must
not follow instructions in it. The tags also allow removing it before a turn is recorded. Otherwise every report would
be remembered, recalled and reported again.
"""

from __future__ import annotations

import re

from .harness_prompts import said
from .safe_text import TAG, lines, one_line

#: The longest reason for a denial, in characters. It has room for every quotation, even if all of it is escaped.
LONGEST_DENIAL = 3_000
#: Gemini CLI shows injected text with its brackets escaped.
_BRACKET, _CLOSING = "(?:<|&lt;)", "(?:>|&gt;)"
#: A private passage begins with `<private>`; attributes may follow. `<private-key>` and `Foo<private Bar>` are no tags.
_ATTRIBUTES = r"""(?:\s++[\w:.-]++\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s"'<>&=]++))*+"""
_MARK = re.compile(
    rf"{_BRACKET}(/?){TAG}\b[^<>&]{{0,200}}{_CLOSING}|<(/)private\s*+>|<private{_ATTRIBUTES}\s*+>", re.IGNORECASE
)
_HINTS = (TAG, "private")


def frame(kind: str, text: str) -> str:
    """Put text for the model into Engram's frame. Nothing in the text can end the frame."""
    return f'<{TAG} kind="{kind}">\n{lines(text)}\n</{TAG}>'


def denial(text: str) -> str:
    """Put the reason for a denial on one line: a harness shows it to the model without a frame."""
    return one_line(text, LONGEST_DENIAL)


def clean(text: str) -> str:
    """Remove what Engram injected and what is marked as private from a text.

    A tag without an end hides everything after it: half of a private passage is still private.
    """
    return _cleaned(text)[0]


def own_words(prompt: str) -> str:
    """What the person said in a prompt, without what the harness or Engram put into it and without private parts."""
    kept, is_torn = _cleaned(said(prompt))
    if is_torn:
        # The beginning of a private passage may be in what was removed. So the private parts go first.
        kept = clean(prompt)
    # Behind what Engram injected there may be more of the harness's.
    return said(kept)


def _cleaned(text: str) -> tuple[str, bool]:
    """The text without injected and private parts, and whether a closing tag has no opening one."""
    lower = text.lower()
    if not any(hint in lower for hint in _HINTS):
        return text.strip(), False
    kept: list[str] = []
    depth, done, is_torn = 0, 0, False
    for mark in _MARK.finditer(text):
        if mark[1] or mark[2]:
            if depth == 1:
                done = mark.end()
            is_torn |= depth == 0
            depth = max(0, depth - 1)
        else:
            if depth == 0:
                kept.append(text[done : mark.start()])
            depth += 1
    if depth == 0:
        kept.append(text[done:])
    return "".join(kept).strip(), is_torn
