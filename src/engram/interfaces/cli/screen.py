"""The way out to a person: the only module of the command line that prints.

Stored text may hold anything, and control characters in it would drive the terminal. So everything that is printed is
made visible here, whatever it was made of. Colours are marked with `style` and become escape sequences only afterwards.
The marks have a key that is new for each process, so that stored text cannot forge them.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence

import click

from ...safe_text import lines, visible
from ...safe_text import one_line as _cut

_KEY = os.urandom(8).hex()
# Characters that Unicode reserves for a program's own use, and no text has a reason to contain.
_BEGIN, _END = f"\ufdd0{_KEY}:", f"\ufdd1{_KEY}:"
_MARK = re.compile(f"{_BEGIN}([0-9;]*)m|{_END}")
#: Longer than any cell that is worth reading.
_CELL = 1_000


def say(text: str, *, err: bool = False) -> None:
    """Print; colours only where they can be seen, and never where they are not wanted."""
    click.echo(_MARK.sub(_sequence, lines(text)), err=err, color=False if os.environ.get("NO_COLOR") else None)


def print_json(value: object) -> None:
    import json

    from ...records import plain

    text = json.dumps(plain(value), ensure_ascii=False, indent=2 if sys.stdout.isatty() else None)
    click.echo(_escaped(text))


def print_stored(text: str) -> None:
    """Print stored text by itself: harmless on a terminal; a pipe gets it exactly, but for a line break at the end."""
    if text:
        shown = lines(text) if sys.stdout.isatty() else text
        click.echo(shown, nl=not text.endswith("\n"), color=True)


def style(text: str, *, fg: str | None = None, bold: bool = False, dim: bool = False) -> str:
    """Text to be shown in a colour or weight."""
    codes = [code for code, wanted in (("1", bold), ("2", dim), (_COLOURS.get(fg or "", ""), fg)) if wanted]
    return f"{_BEGIN}{';'.join(codes)}m{text}{_END}" if codes else text


def one_line(text: str | None, longest: int = 60) -> str:
    """Stored text as a cell of a table."""
    return _cut(text or "", longest)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns under a bold head."""
    cells = [list(head), *([one_line(cell, _CELL) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    shown = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    return "\n".join([style(shown[0], bold=True), *shown[1:]])


def fields(values: Mapping[str, object]) -> str:
    """One thing in full, a line for each of its parts."""
    width = max(len(name) for name in values)
    return "\n".join(
        f"{style(name.ljust(width), bold=True)}  {hanging(str(value), width + 2)}"
        for name, value in values.items()
        if value is not None
    )


def hanging(text: str, by: int = 2) -> str:
    """Stored text behind something of ours: its further lines are indented, so that they cannot pass for ours."""
    return f"\n{' ' * by}".join(lines(text).split("\n"))


def coloured_diff(diff: str) -> str:
    colours = {"+": "green", "-": "red", "@": "cyan"}
    shown = (style(line, fg=colours.get(line[:1]), bold=line.startswith(("+++", "---"))) for line in diff.split("\n"))
    return "\n".join(shown)


def highlighted(text: str, is_wanted: Callable[[str], bool]) -> str:
    """The text with some of its words in bold."""
    return re.sub(r"\w+", lambda word: style(word[0], bold=True) if is_wanted(word[0]) else word[0], lines(text))


_COLOURS = {"red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def _sequence(mark: re.Match[str]) -> str:
    return "\x1b[0m" if mark[1] is None else f"\x1b[{mark[1]}m"


def _escaped(json: str) -> str:
    """JSON escapes what ASCII has of control characters; here the others are, too."""
    if json.isprintable():
        return json
    return "".join(
        char if char in "\n\t" or char.isprintable() or visible(char) == char else _as_escape(char) for char in json
    )


def _as_escape(char: str) -> str:
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[position]:02x}{units[position + 1]:02x}" for position in range(0, len(units), 2))
