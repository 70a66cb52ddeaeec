"""Stored text on its way out: to a screen, or to a model.

Anybody may have written it. On a screen it must not drive the terminal or fake lines of a report. To a model it must
not pass for Engram's own words: these stand in a frame of Engram's tags, so stored text may not contain the tags' name.
Every interface takes stored text through the functions here, and a test looks for other ways out.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from re import Pattern

#: The name of the tags that frame what Engram says to a model.
TAG = "engram-context"
#: What stands for the name in stored text.
_BROKEN_TAG = "engram context"

#: What ends a line, drives a terminal, turns the direction of what follows, or is text in letters that only a model
#: sees. Other signs without a shape of their own (joiners in emoji and Persian words, wide and narrow blanks) belong to
#: the text, and so does a tab.
_HARMFUL = dict.fromkeys(
    [
        *range(0x09),
        *range(0x0A, 0x20),
        *range(0x7F, 0xA0),
        *range(0x2028, 0x202F),
        *range(0x2066, 0x206A),
        *range(0xE0000, 0xE0080),
    ],
    "�",
)
#: Signs that nobody sees: between the letters of the tag's name they would hide it from a search, not from a model.
_UNSEEN = "\u00ad\u034f\u061c\u180e\u200b-\u200f\u2060-\u2065\ufe00-\ufe0f\ufeff"
_HYPHENS = "-\u2010-\u2015\u2212\ufe58\ufe63\uff0d"
#: A value that an error message quotes with `!r`, or a server's words in “…”.
_QUOTED = r"""(?<!\w)'(?:[^'\\]|\\.)*(?:'(?!\w)|$)|(?<!\w)"(?:[^"\\]|\\.)*(?:"|$)|“[^”]*(?:”|$)"""


def one_line(text: str, longest: int) -> str:
    """The text's first characters on a single line; stored text must not be able to fake lines of a report."""
    line = visible(" ".join(text.split()))
    return line if len(line) <= longest else line[:longest] + "…"


def visible(line: str) -> str:
    """A line without the characters that could drive a terminal, and without the name of Engram's tags."""
    if not line.isprintable():
        line = line.translate(_HARMFUL)
    if line.isascii() and TAG not in line and TAG not in line.lower():
        # An encoded hyphen is the only other way to write the name in ASCII.
        return _tag().sub(_BROKEN_TAG, line) if "&" in line else line
    return _tag().sub(_BROKEN_TAG, line)


def lines(text: str) -> str:
    """Several lines, each of them visible."""
    return "\n".join(map(visible, text.replace("\r\n", "\n").split("\n")))


def has_controls(text: str) -> bool:
    """Whether a text that has to be one plain line is none."""
    # Most names are printable, and asking that is fast.
    return not text.isprintable() and any(ord(sign) in _HARMFUL or sign == "\t" for sign in text)


@lru_cache(maxsize=1)
def _tag() -> Pattern[str]:
    """The tags' name, however it is written: in capitals or wide letters, with unseen signs, with an encoded hyphen."""
    import re

    letters = [
        f"(?:[{_HYPHENS}]|&#0*45;|&#x0*2d;|&hyphen;|&dash;)"
        if each == "-"
        else f"[{each}{each.upper()}{chr(ord(each) + 0xFEE0)}{chr(ord(each.upper()) + 0xFEE0)}]"
        for each in TAG
    ]
    return re.compile(f"[{_UNSEEN}]*".join(letters), re.IGNORECASE)


def without_quotes(message: str) -> str:
    """An error message for a place that outlives forgetting: its first line, without the values it quotes.

    A value may be what somebody said. Messages quote values with `!r`, and a server's words with “…”. What a driver
    adds on further lines may be whole rows.
    """
    import re

    return re.sub(_QUOTED, "…", message.partition("\n")[0])
