"""Stored text on its way out: to a screen, or to a model.

Anybody may have written it. On a screen it must not drive the terminal or fake lines of a report. To a model it must
not pass for Engram's own words: these stand in a frame of Engram's tags, so stored text may not contain the tags' name.
Every interface takes stored text through the functions here, and a test looks for other ways out.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from re import Match, Pattern

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
        *range(0xE0000, 0xE01F0),
    ],
    "�",
)
#: Signs that nobody sees: between the letters of the tag's name they would hide it from a search, not from a model.
_UNSEEN = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_HYPHENS = "-\u2010-\u2015\u2043\u2212\ufe58\ufe63\uff0d"
#: A sign written as an HTML entity: by its number, or by the name of a hyphen or of an unseen sign.
_ENTITY = (
    "&(?:amp;)*(?:#x0*([0-9a-f]{1,6})|#0*([0-9]{1,7})"
    "|(hyphen|dash|minus|hybull|shy|zwn?j|lrm|rlm|nobreak|zerowidthspace));?"
)
#: What the named entities stand for, as far as it matters here; the others are unseen.
_NAMED_HYPHENS = ("hyphen", "dash", "minus", "hybull")
#: How many layers of encoding are looked through; a reader who decodes more is unlikely.
_DECODINGS = 4
#: A value that an error message quotes with `!r`, or a server's words in “…”.
_QUOTED = r"""(?<!\w)'(?:[^'\\]|\\.)*(?:'(?!\w)|$)|(?<!\w)"(?:[^"\\]|\\.)*(?:"|$)|“[^”]*(?:”|$)"""


def one_line(text: str, longest: int) -> str:
    """The text's first characters on a single line; stored text must not be able to fake lines of a report."""
    line = visible(" ".join(text.split()))
    return line if len(line) <= longest else line[:longest] + "…"


def visible(line: str) -> str:
    """A line without the characters that could drive a terminal, and without the name of Engram's tags."""
    if not _is_printable(line):
        line = line.translate(_HARMFUL)
    if not line.isascii() or TAG in line or TAG in line.lower():
        line = _tag().sub(_BROKEN_TAG, line)
    return _without_encoded_tag(line) if "&" in line else line


def quoted(text: str, longest: int) -> str:
    """Stored text as a quotation in a sentence of Engram's own; nothing in it can end the quotation.

    Only the quotation marks and the backslash are escaped, so the result is at most twice as long.
    """
    return '"' + one_line(text, longest).replace("\\", "\\\\").replace('"', '\\"') + '"'


def name(text: str, longest: int = 60) -> str:
    """A name that somebody chose, in a line of Engram's own: as it is if it is plain, else as a quotation."""
    plain = len(text) <= longest and all(sign.isalnum() or sign in "._-/@" for sign in text)
    return visible(text) if plain else quoted(text, longest)


def lines(text: str) -> str:
    """Several lines, each of them visible."""
    return "\n".join(map(visible, text.replace("\r\n", "\n").split("\n")))


def has_controls(text: str) -> bool:
    """Whether a text that has to be one plain line is none."""
    # Most names are printable, and asking that is fast.
    return not _is_printable(text) and any(ord(sign) in _HARMFUL or sign == "\t" for sign in text)


def _is_printable(text: str) -> bool:
    """Whether nothing harmful can be in the text. Variation selectors pass for printable, but can spell hidden text."""
    return text.isprintable() and (text.isascii() or max(text) < "\U000e0000")


def _without_encoded_tag(line: str) -> str:
    """The line, decoded if it names the tags in HTML entities, and as it is otherwise."""
    shown = line
    for _ in range(_DECODINGS):
        decoded = _entity().sub(_sign, line)
        if decoded == line:
            break
        line = decoded
        if _tag().search(line):
            shown = line = _tag().sub(_BROKEN_TAG, line.translate(_HARMFUL))
    return shown


def _sign(entity: Match[str]) -> str:
    if entity[3]:
        return "-" if entity[3].lower() in _NAMED_HYPHENS else "\u200b"
    code = int(entity[1], 16) if entity[1] else int(entity[2])
    return chr(code) if code < 0xD800 or 0xE000 <= code <= 0x10FFFF else "\ufffd"


@lru_cache(maxsize=1)
def _entity() -> Pattern[str]:
    import re

    return re.compile(_ENTITY, re.IGNORECASE)


@lru_cache(maxsize=1)
def _tag() -> Pattern[str]:
    """The tags' name, however it is written: in capitals or wide letters, with unseen signs, with another hyphen."""
    import re

    letters = [
        f"[{_HYPHENS}]"
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
