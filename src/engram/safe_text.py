"""Makes stored text safe to show on a screen or to a model.

Stored text is not trusted. On a screen it must not send control characters to the terminal or imitate lines of a
report. A model must not mistake it for Engram's own words: Engram puts those between tags, so stored text must not
contain the name of the tags. Every interface passes stored text through these functions; a test checks this.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from re import Match, Pattern

#: The name of the tags around what Engram says to a model.
TAG = "engram-context"
#: Replaces the name in stored text.
_BROKEN_TAG = "engram context"

#: Characters of a memory that the brief shows.
_BRIEF = 240
#: Characters that end a line, control a terminal, change the direction of text, or are visible only to a model. Other
#: invisible characters (joiners in emoji and Persian words, wide and narrow spaces) and the tab are part of the text.
HARMFUL = dict.fromkeys(
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
#: Invisible characters. Between the letters of the tag's name they hide it from a search, but not from a model.
_UNSEEN = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
#: Between the parts of an emoji.
_JOINED_EMOJI = "\ufe0f\u200d"
_HYPHENS = "-\u2010-\u2015\u2043\u2212\ufe58\ufe63\uff0d"
#: A character written as an HTML entity: by number, or by the name of a hyphen or of an invisible character.
_ENTITY = (
    "&(?:amp;)*(?:#x0*([0-9a-f]{1,6})|#0*([0-9]{1,7})"
    "|(hyphen|dash|minus|hybull|shy|zwn?j|lrm|rlm|nobreak|zerowidthspace));?"
)
#: The named entities that are hyphens. The others are invisible characters.
_NAMED_HYPHENS = ("hyphen", "dash", "minus", "hybull")
#: Number of nested encodings that are decoded. A reader is unlikely to decode more.
_DECODINGS = 4
#: A value that an error message quotes with `!r`, or a server's words in “…”.
_QUOTED = r"""(?<!\w)'(?:[^'\\]|\\.)*(?:'(?!\w)|$)|(?<!\w)"(?:[^"\\]|\\.)*(?:"|$)|“[^”]*(?:”|$)"""


def one_line(text: str, longest: int) -> str:
    """The text's first characters on a single line, so that stored text cannot imitate lines of a report."""
    line = visible(" ".join(text.split()))
    return line if len(line) <= longest else line[:longest] + "…"


def brief_text(text: str, length: int) -> tuple[str, bool]:
    """A memory's text as the brief shows it, and whether it is cut. `length` is that of the whole text.

    Nothing else is left out or changed, because a person approves exactly what agents read.
    """
    line = one_line(text, length)
    if len(line) <= _BRIEF and len(text) == length:
        return line, False
    room = line[:_BRIEF]
    space = room.rfind(" ", _BRIEF // 2)
    return f"{room[:space] if space > 0 else room}…", True


def visible(line: str) -> str:
    """The line without characters that could control a terminal, and without the name of Engram's tags."""
    # Most lines are plain. A report has a hundred of them.
    if line.isascii() and line.isprintable() and "&" not in line and ("-" not in line or TAG not in line.lower()):
        return line
    if not _is_printable(line):
        line = line.translate(HARMFUL)
    if not line.isascii():
        line = _hidden().sub(_unhidden, line)
    if not line.isascii() or TAG in line or TAG in line.lower():
        line = _tag().sub(_BROKEN_TAG, line)
    return _without_encoded_tag(line) if "&" in line else line


def quoted(text: str, longest: int) -> str:
    """Stored text as a quotation within Engram's own sentence. Nothing in the text can end the quotation.

    Only the quotation marks and the backslash are escaped, so the result is at most twice as long.
    """
    return '"' + one_line(text, longest).replace("\\", "\\\\").replace('"', '\\"') + '"'


def name(text: str, longest: int = 60) -> str:
    """A name chosen by a user or agent: unchanged if it is plain, otherwise as a quotation."""
    letters = text.replace("-", "").replace("/", "").replace(".", "").replace("_", "").replace("@", "")
    plain = len(text) <= longest and (not letters or letters.isalnum())
    return visible(text) if plain else quoted(text, longest)


def by_whom(author: str | None, actor: str | None = None) -> str:
    """`by laptop`: the author of something, and the session or user that acted, as far as they are known."""
    shown = [one_line(actor, 100)] if actor else []
    if author:
        shown.append(f"({name(author)})" if shown else name(author))
    return f"by {' '.join(shown)}" if shown else ""


def lines(text: str) -> str:
    """Several lines, each made safe by `visible`."""
    return "\n".join(map(visible, text.replace("\r\n", "\n").split("\n")))


def has_controls(text: str) -> bool:
    """Whether the text contains a control character, a line end or a tab."""
    # Most names are printable, and this check is fast.
    return not _is_printable(text) and any(ord(sign) in HARMFUL or sign == "\t" for sign in text)


def _is_printable(text: str) -> bool:
    """Whether the text has no harmful characters. `isprintable` accepts variation selectors, which can hide text."""
    return text.isprintable() and (text.isascii() or max(text) < "\U000e0000")


def _without_encoded_tag(line: str) -> str:
    """The line, decoded if it contains the tags' name as HTML entities; otherwise unchanged."""
    shown = line
    for _ in range(_DECODINGS):
        decoded = _entity().sub(_decode_entity, line)
        if decoded == line:
            break
        line = decoded
        if _tag().search(line):
            shown = line = _tag().sub(_BROKEN_TAG, line.translate(HARMFUL))
    return shown


def _decode_entity(entity: Match[str]) -> str:
    if entity[3]:
        return "-" if entity[3].lower() in _NAMED_HYPHENS else "\u200b"
    code = int(entity[1], 16) if entity[1] else int(entity[2])
    return chr(code) if code < 0xD800 or 0xE000 <= code <= 0x10FFFF else "\ufffd"


@lru_cache(maxsize=1)
def _entity() -> Pattern[str]:
    import re

    return re.compile(_ENTITY, re.IGNORECASE)


@lru_cache(maxsize=1)
def _hidden() -> Pattern[str]:
    """Matches invisible characters that could spell a text that only a model reads.

    Several in a row could, and selectors of a variant: each has a number, and one can follow every letter. An emoji may
    have one, and one before the joiner to the next.
    """
    import re

    return re.compile(f"[{_UNSEEN}]{{2,}}|[\ufe00-\ufe0d]|(?:\\A|(?<=[A-Za-z\\s]))[\ufe0e\ufe0f]")


def _unhidden(found: Match[str]) -> str:
    return found[0] if found[0] == _JOINED_EMOJI else "�"


@lru_cache(maxsize=1)
def _tag() -> Pattern[str]:
    """Matches the tags' name, also in capitals or wide letters, with invisible characters, or with another hyphen."""
    import re

    letters = [
        f"[{_HYPHENS}]"
        if each == "-"
        else f"[{each}{each.upper()}{chr(ord(each) + 0xFEE0)}{chr(ord(each.upper()) + 0xFEE0)}]"
        for each in TAG
    ]
    return re.compile(f"[{_UNSEEN}]*".join(letters), re.IGNORECASE)


def without_quotes(message: str) -> str:
    """The first line of an error message, without quoted values, for places that forgetting does not clean.

    A value may be stored text. Messages quote values with `!r`, and a server's words with “…”. A driver may add whole
    rows on further lines.
    """
    import re

    return re.sub(_QUOTED, "…", message.partition("\n")[0])
