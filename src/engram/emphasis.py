"""Removes the marks of Markdown's emphasis from a text, and leaves patterns such as `**/*.py` alone."""

from __future__ import annotations

_MARK = "**"


def without_emphasis(text: str) -> str:
    """The text without pairs of `**` around words."""
    shown, *parts = text.split(_MARK)
    place = 0
    while place < len(parts):
        inner = parts[place]
        if place + 1 < len(parts) and _begins(shown, inner) and _is_word_end(inner[-1:]):
            shown += inner + parts[place + 1]
            place += 2
        else:
            shown += _MARK + inner
            place += 1
    return shown


def _begins(before: str, inner: str) -> bool:
    """Whether a mark between the two begins an emphasis. In `2**3` it does not."""
    joined = before[-1:].isascii() and before[-1:].isalnum()
    return not joined and _is_word_end(inner[:1])


def _is_word_end(sign: str) -> bool:
    return bool(sign.strip()) and sign not in "/*"
