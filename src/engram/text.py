"""Stored text on its way to a screen: on one line if need be, and without what drives a terminal."""

from __future__ import annotations

#: What ends a line, drives a terminal or turns the direction of what follows. Other signs without a shape of their own
#: (joiners in emoji and Persian words, wide and narrow blanks) belong to the text.
_HARMFUL = dict.fromkeys(
    [*range(0x09), *range(0x0A, 0x20), *range(0x7F, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A)], "�"
)


def one_line(text: str, longest: int) -> str:
    """The text's first characters on a single line; stored text must not be able to fake lines of a report."""
    line = visible(" ".join(text.split()))
    return line if len(line) <= longest else line[:longest] + "…"


def visible(line: str) -> str:
    """Without the characters that could drive a terminal."""
    return line if line.isprintable() else line.translate(_HARMFUL)


def without_quotes(message: str) -> str:
    """An error message for a place that outlives forgetting: its first line, without the values it quotes.

    A value may be what somebody said. Messages quote values with `!r`, and a server's words with “…”. What a driver
    adds on further lines may be whole rows.
    """
    import re

    quoted = r"""(?<!\w)'(?:[^'\\]|\\.)*(?:'(?!\w)|$)|(?<!\w)"(?:[^"\\]|\\.)*(?:"|$)|“[^”]*(?:”|$)"""
    return re.sub(quoted, "…", message.partition("\n")[0])
