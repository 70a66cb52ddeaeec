"""Output for people. No other module of the command line prints.

Stored text may hold anything, and control characters in it would drive the terminal. So everything that is printed is
made visible here, whatever it was made of. Colours are marked with `style` and become escape sequences only afterwards.
The marks have a key that is new for each process, so that stored text cannot forge them.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from ...safe_text import by_whom as by_whom
from ...safe_text import lines, visible
from ...safe_text import one_line as _cut
from .counting import counted

if TYPE_CHECKING:
    from ...records import Session

_KEY = os.urandom(8).hex()
# Characters that Unicode reserves for a program's own use, and no text has a reason to contain.
_BEGIN, _END = f"\ufdd0{_KEY}:", f"\ufdd1{_KEY}:"
_MARK = re.compile(f"{_BEGIN}([0-9;]*)m|{_END}")
#: Longer than any cell that is worth reading.
_CELL = 1_000
#: For `one_line`: longer than a path that the system accepts.
PATH_LENGTH = 5_000
#: A column of a table is not made narrower than the first of these, or, if the table still does not fit, the next. So
#: long texts give way to names and numbers.
_NARROW = (20, 8, 4)
#: Text is not broken into rows that are shorter than this.
_LEAST_ROOM = 20
#: Begins the keys under which a command's context keeps the common options.
META = "engram"


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


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    whole: Collection[str] = (),
    spare: Sequence[str] = (),
) -> str:
    """Columns under a bold head, without the columns that are empty in every row.

    On a terminal the lines fit its width: the widest columns are shortened, but neither the first one, which names the
    row, nor those named in `whole`. A narrow one lacks the columns named in `spare`, the first ones first, until the
    others are wide enough to read. Elsewhere nothing is cut, so that a pipe gets everything.
    """
    cells = [[one_line(cell, _CELL) for cell in row] for row in rows]
    used = [column for column in range(len(head)) if any(row[column] for row in cells)] or list(range(len(head)))
    natural = {column: max(_width(row[column]) for row in (list(head), *cells)) for column in used}
    for name in spare:
        if not sys.stdout.isatty() or _least(natural.values()) <= _terminal_columns():
            break
        natural.pop(list(head).index(name), None)
    lines = [[row[column] for column in natural] for row in (list(head), *cells)]
    places = [place for place, name in enumerate(lines[0]) if place and name not in whole]
    widths = _fitted(list(natural.values()), places)
    shown = ["  ".join(map(_padded, line, widths)).rstrip() for line in lines]
    return "\n".join([style(shown[0], bold=True), *shown[1:]])


def fields(values: Mapping[str, object]) -> str:
    """A record, with a line for each field that is not None."""
    shown = {name: _yes_or_no(value) for name, value in values.items() if value is not None}
    width = max(map(len, shown))
    return "\n".join(
        f"{style(name.ljust(width), bold=True)}  {hanging(value, width + 2)}" for name, value in shown.items()
    )


def _yes_or_no(value: object) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def hanging(text: str, by: int = 2) -> str:
    """Stored text after a label. Its further lines are indented, so that they cannot pass for Engram's own output."""
    return f"\n{' ' * by}".join(lines(text).split("\n"))


def wrapped(text: str, by: int) -> str:
    """Like `hanging`. On a terminal, long lines are broken between words, so that every row is indented."""
    if not sys.stdout.isatty():
        return hanging(text, by)
    room = max(_terminal_columns() - by, _LEAST_ROOM)
    return hanging("\n".join(row for line in lines(text).split("\n") for row in _rows(line, room)), by)


def coloured_diff(diff: str) -> str:
    colours = {"+": "green", "-": "red", "@": "cyan"}
    shown = (style(line, fg=colours.get(line[:1]), bold=line.startswith(("+++", "---"))) for line in diff.split("\n"))
    return "\n".join(shown)


def highlighted(text: str, is_wanted: Callable[[str], bool]) -> str:
    """The text with some of its words in bold."""
    return re.sub(r"\w+", lambda word: style(word[0], bold=True) if is_wanted(word[0]) else word[0], lines(text))


def when(stamp: str | None) -> str:
    """A time of the store as a person reads it: in the local time zone, or, with --utc, in UTC."""
    if not stamp:
        return ""
    return f"{stamp[:19].replace('T', ' ')} UTC" if utc_wanted() else _local(stamp)


def day(stamp: str) -> str:
    """The day of a time, in the same time zone as `when`."""
    return stamp[:10] if utc_wanted() else _local(stamp)[:10]


def ago(stamp: str | None, *, short: bool = False) -> str:
    """How long ago: `5 minutes ago`, in a table `5m ago`; a date after a week. With --utc: the time."""
    if not stamp or utc_wanted():
        return when(stamp)
    try:
        seconds = -_seconds_until(stamp)
    except ValueError:  # another program may have written it
        return "at an unknown time"
    if seconds >= _LONG_AGO:
        return day(stamp)
    # A server's clock may be a little ahead of this one.
    return f"{_length(seconds, short)} ago" if seconds >= 60 else "just now"


def until(stamp: str | None, *, short: bool = False) -> str:
    """In how long: `in 2 hours`, in a table `in 2h`. With --utc: the time."""
    if not stamp or utc_wanted():
        return when(stamp)
    # Rounded to the nearest minute, so that a new claim of 15 minutes shows 15 minutes.
    seconds = _seconds_until(stamp) + 30
    return f"in {_length(seconds, short)}" if seconds >= 60 else "now" if seconds < 30 else "in less than a minute"


def with_times(values: Mapping[str, object]) -> dict[str, object]:
    """A record for `fields`, with names and times as a person reads them."""
    return {
        name.replace("_", " "): when(value) if name.endswith("_at") and isinstance(value, str) else value
        for name, value in values.items()
    }


def byte_size(number: int) -> str:
    """`512 bytes`, `3.2 MB`."""
    if number < 1_000:
        return counted(number, "byte")
    size, unit = next((each for each in _SIZES if number >= each[0]), _SIZES[-1])
    return f"{number / size:.1f} {unit}"


def session_task(session: Session) -> str:
    """Which agent a session is, and what it works on: `codex: Porting the router`."""
    return ": ".join(filter(None, (session.type, session.summary or session.name)))


def short_ids(ids: Iterable[str]) -> Callable[[str], str]:
    """A short form for the ids of a listing: the last part of an id that Engram made, if no other id has it."""
    known = set(ids)
    ends = Counter(id[-_PART:] for id in known)
    starts = {id[:_PART] for id in known}

    def short(id: str) -> str:
        part = id[-_PART:]
        return part if _MADE.fullmatch(id) and ends[part] == 1 and part not in starts else id

    return short


_COLOURS = {"red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"))
#: Seconds after which a date says more than a number of days.
_LONG_AGO = 7 * 86_400
_SIZES = ((10**9, "GB"), (10**6, "MB"), (10**3, "KB"))
#: An id that Engram made, and the length of its random part.
_MADE = re.compile(r"\d{8}-\d{6}-[0-9a-f]{8}")
_PART = 8


def utc_wanted() -> bool:
    """Whether --utc was given."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(f"{META}.utc"))


def _seconds_until(stamp: str) -> float:
    from ...clock import Clock, between

    return between(Clock().now(), stamp)


def _length(seconds: float, short: bool) -> str:
    size, unit = next(each for each in _UNITS if seconds >= each[0])
    number = int(seconds // size)
    return f"{number}{unit[0]}" if short else counted(number, unit)


def _local(stamp: str) -> str:
    from ...clock import local_time

    return local_time(stamp) or f"{stamp[:19].replace('T', ' ')} UTC"


def _least(widths: Collection[int]) -> int:
    """The width of a table of which every column is wide enough to read."""
    return sum(min(width, _NARROW[0]) for width in widths) + 2 * (len(widths) - 1)


def _fitted(widths: list[int], may_shrink: Sequence[int]) -> list[int]:
    """The widths of a table's columns, so that its lines fit the terminal, if there is one."""
    if not sys.stdout.isatty() or not may_shrink:
        return widths
    room = _terminal_columns() - 2 * (len(widths) - 1)
    fitted = list(widths)
    for narrow in _NARROW:
        while sum(fitted) > room:
            widest = max(may_shrink, key=lambda column: fitted[column])
            if fitted[widest] <= narrow:
                break
            fitted[widest] -= 1
    return fitted


def _terminal_columns() -> int:
    from shutil import get_terminal_size

    return get_terminal_size().columns


def _rows(line: str, room: int) -> Iterator[str]:
    """A line broken between words. A word that is longer than a row is left whole."""
    row = ""
    for part in re.findall(r"\s+|\S+", line):
        if row.strip() and not part.isspace() and _width(row) + _width(part) > room:
            yield row.rstrip()
            row = ""
        row += part
    yield row


def _width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(char: str) -> int:
    """Two for the wide characters of East Asia, none for what is drawn onto the character before it."""
    if char.isascii():
        return 1
    from unicodedata import category, east_asian_width

    if category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if east_asian_width(char) in ("W", "F") else 1


def _padded(text: str, width: int) -> str:
    """A cell in exactly that width; what does not fit is cut, and an ellipsis says so."""
    if _width(text) <= width:
        return text + " " * (width - _width(text))
    kept, taken = 0, 1
    while taken + _columns(text[kept]) <= width:
        taken += _columns(text[kept])
        kept += 1
    return f"{text[:kept]}…{' ' * (width - taken)}"


def _sequence(mark: re.Match[str]) -> str:
    return "\x1b[0m" if mark[1] is None else f"\x1b[{mark[1]}m"


def _escaped(json: str) -> str:
    """JSON escapes only the control characters of ASCII. This escapes the others."""
    if json.isprintable():
        return json
    return "".join(
        char if char in "\n\t" or char.isprintable() or visible(char) == char else _as_escape(char) for char in json
    )


def _as_escape(char: str) -> str:
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[position]:02x}{units[position + 1]:02x}" for position in range(0, len(units), 2))
