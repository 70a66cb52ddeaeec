"""What Engram says to a model, and what it takes from a conversation.

Everything injected stands between Engram's own tags. They mark stored text as data, which may have been written by
anybody and must not be obeyed, and they let it be taken out again before anything is recorded: otherwise every report
would be remembered, recalled and reported once more.
"""

from __future__ import annotations

import re

from ...safe_text import TAG, lines, one_line

#: The longest reason for a denial, in characters: room for every quotation in it, however much of it is escaped.
LONGEST_DENIAL = 3_000
#: Gemini CLI shows injected text with its brackets escaped.
_BRACKET, _CLOSING = "(?:<|&lt;)", "(?:>|&gt;)"
_MARK = re.compile(rf"{_BRACKET}(/?)(?:{TAG}|private)\b[^<>&]{{0,200}}{_CLOSING}", re.IGNORECASE)
_HINTS = (TAG, "private")


def frame(kind: str, text: str) -> str:
    """Text for the model, marked as what it is; nothing in it can end the frame."""
    return f'<{TAG} kind="{kind}">\n{lines(text)}\n</{TAG}>'


def denial(text: str) -> str:
    """Why a tool may not run, on one line: a harness shows it to the model without a frame."""
    return one_line(text, LONGEST_DENIAL)


def clean(text: str) -> str:
    """What was said, without what Engram injected and without what is marked as private.

    A mark that is never closed hides everything after it: half of a private passage is still private.
    """
    lower = text.lower()
    if not any(hint in lower for hint in _HINTS):
        return text.strip()
    kept: list[str] = []
    depth, done = 0, 0
    for mark in _MARK.finditer(text):
        if mark[1]:
            if depth == 1:
                done = mark.end()
            depth = max(0, depth - 1)
        else:
            if depth == 0:
                kept.append(text[done : mark.start()])
            depth += 1
    if depth == 0:
        kept.append(text[done:])
    return "".join(kept).strip()
