"""Stored text in Markdown pages, so that it stays in its place and means nothing but itself.

Prose stands in a block quote: each of its lines begins with `>`, so it cannot leave the quote, and every character
that would mean something in Markdown is escaped. Everything else, such as code and logs, stands in a fence that is
longer than any row of backticks in it, so it cannot end the fence. The only links in stored text are citations of
memories, `[m12]`, and they lead to a page of the same export.

A character stays as it is only where CommonMark certainly gives it no meaning, so that the pages can also be read raw.

Names of files have only lower-case letters, digits and hyphens. A name that is not plain gets a part of a hash, so that
two different names never meet, also on a disk that takes upper and lower case for the same.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from ..safe_text import lines, one_line, visible

#: Every character that means something within a line. A colon, an @ and `www.` make addresses to links; a colon that
#: ends a word, or stands between digits as in a time, is part of none. An underscore between letters, an exclamation
#: mark that no bracket follows, and an ampersand that begins no entity mean nothing. `>` ends a tag, but an arrow none.
_MEANT = re.compile(
    r"[\\`*{}\[\]<|~@]|_(?![^\W_])|(?<![^\W_])_|!(?=\[)|&(?=[#\w]|\Z)|\$(?=[$`])|(?<![-=\s])>|(?<=www)\."
    r"|:(?!(?<=\S:)(?=\s|\Z)|(?<=[0-9]:)[0-9])",
    re.IGNORECASE,
)
#: What begins a heading, a list, or the line below a heading. The number of a list is not escaped itself.
_START = re.compile(r"(?=[#+=-])|[0-9]{1,9}(?=[.)](?:\s|\Z))")
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d):\d\d(?:\.\d+)?Z?", re.ASCII)
_TICKS = re.compile("`+")
#: What a line cites at its end or elsewhere: `[m12, e7]`. See `memory.citations`.
_CITED = re.compile(r"\[([a-z][0-9]{1,15}+(?:, ?[a-z][0-9]{1,15}+)*+)\]")
_HEADING = re.compile(r"#{1,6}[ \t]+(?=\S)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
#: How a line begins whose spaces matter, or that looks like a table, code, a log or a difference of files.
_NOT_PROSE = re.compile(
    r"\s|```|~~~|[|<{}\]]|\$ |>>>|@@|diff --git |\+\+\+ |--- [ab]/|#!|#include"
    r"|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\[?\d\d:\d\d:\d\d|\[?(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL)\b"
    r"|(?:def|class|func|fn) \w+ ?[(:{]|from \S+ import |import \w+\Z|(?:const|let|var) \w+ ?="
)
#: How a line of code ends.
_CODE_ENDS = ("{", *(f"{closing};" for closing in ")]}\"'`"))
_LONG_WORD = re.compile(r"[!-~]{200}")
_UNSAFE = re.compile(r"[^a-z0-9]+")
_PLAIN = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
#: How a name with a part of a hash ends, after its last hyphen. No plain name may look like one.
_HASHED = re.compile(r"[0-9a-f]{10}")
#: Names that Windows keeps for devices, with any ending.
_DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))}
#: Characters of a title, and of a name that become part of a file's name.
LONGEST = 200
_SLUG = 48

#: Pages of memories by their number, as seen from the page that links to them.
Pages = Mapping[int, str]


def inline(text: str, longest: int = LONGEST) -> str:
    """A text on one line, as plain words."""
    line = one_line(text, longest)
    # At the end of a heading, these would be part of its mark.
    body = line.rstrip("#")
    return _begun(_escaped(body) + r"\#" * (len(line) - len(body)))


def _escaped(text: str) -> str:
    return _MEANT.sub(lambda found: _HTML.get(found[0], f"\\{found[0]}"), text)


def _begun(line: str) -> str:
    """An escaped text as the beginning of a line."""
    found = _START.match(line)
    return f"{found[0]}\\{line[found.end() :]}" if found else line


def stamp(text: str) -> str:
    """A time of the store as a person reads it: `2026-11-16 09:00 UTC`; anything else as plain words."""
    found = _STAMP.fullmatch(text)
    return f"{found[1]} {found[2]} UTC" if found else inline(text)


def clock(text: str) -> tuple[str, str]:
    """The day and the time of day of a time of the store, without escapes, for a fence."""
    found = _STAMP.fullmatch(text)
    return (found[1], found[2]) if found else ("", one_line(text, LONGEST))


def fenced(text: str) -> str:
    """A text of any number of lines, exactly as it is, apart from characters that control a terminal."""
    shown = lines(text)
    longest = max((len(run) for run in _TICKS.findall(shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{shown}\n{fence}"


def passage(text: str, pages: Pages | None = None) -> str:
    """A text of any number of lines: its prose as block quotes, the rest in fences.

    Citations in prose become links if their memory has a page.
    """
    parts = groupby(_paragraphs(text.replace("\r\n", "\n")), key=lambda paragraph: paragraph[0])
    shown = []
    for prose, group in parts:
        # A paragraph has the blank lines that follow it.
        part = "\n".join(paragraph for _, paragraph in group).rstrip("\n")
        shown.append(_quoted(part, pages or {}) if prose else fenced(part))
    return "\n\n".join(shown)


def _paragraphs(text: str) -> Iterator[tuple[bool, str]]:
    """Paragraphs, and whether each is prose. Code that the text itself has fenced is one paragraph."""
    found: list[str] = []
    fence, ended = "", False
    for line in text.split("\n"):
        blank, opening = not line.strip(" \t"), _FENCE.match(line)
        if found and not fence and (opening or (ended and not blank)):
            yield _paragraph(found)
            found = []
        if found or not blank:
            found.append(line if fence or not blank else "")
        if fence:
            closing = line.strip()
            ended = closing.startswith(fence) and not closing.strip(fence[0])
            fence = "" if ended else fence
        else:
            fence = opening[1] if opening else ""
            ended = blank or (ended and not found)
    if found:
        yield _paragraph(found)


def _paragraph(found: list[str]) -> tuple[bool, str]:
    return all(map(_is_prose, found)), "\n".join(found)


def _is_prose(line: str) -> bool:
    words = line.strip()
    return not (
        _NOT_PROSE.match(line)
        or words.endswith(_CODE_ENDS)
        # Columns.
        or "   " in words
        or "\t" in words
        or _LONG_WORD.search(line)
    )


def _quoted(text: str, pages: Pages) -> str:
    shown = [_quoted_line(visible(line), pages) for line in text.split("\n")]
    # Two spaces keep the end of a line where it is.
    return "\n".join(
        f"> {line}  " if line and below else f"> {line}" if line else ">"
        for line, below in zip(shown, [*shown[1:], ""], strict=True)
    )


def _quoted_line(line: str, pages: Pages) -> str:
    line = line.strip()
    heading = _HEADING.match(line)
    if heading:
        return f"**{_with_links(line[heading.end() :], pages)}**"
    return _begun(_with_links(line, pages))


def _with_links(line: str, pages: Pages) -> str:
    """A line as plain words, with a link for each memory that it cites and that has a page."""
    if not pages:
        return _escaped(line)
    shown, after = [], 0
    for found in _CITED.finditer(line):
        names = found[1].split(",")
        known = [pages.get(int(name.strip()[1:])) if name.strip()[0] == "m" else None for name in names]
        if any(known):
            linked = (
                f"[{name.strip()}]({page})" if page else name.strip() for name, page in zip(names, known, strict=True)
            )
            shown += [_escaped(line[after : found.start()]), rf"\[{', '.join(linked)}\]"]
            after = found.end()
    return "".join([*shown, _escaped(line[after:])])


def cited(texts: Iterable[str]) -> set[int]:
    """The numbers of the memories that the texts cite."""
    return {
        int(name.strip()[1:])
        for text in texts
        for found in _CITED.finditer(text)
        for name in found[1].split(",")
        if name.strip()[0] == "m"
    }


def file_name(name: str, *about: str) -> str:
    """A name for a page, without an ending: the name itself if it is plain, otherwise one with a part of a hash.

    `about` tells things of the same name apart.
    """
    is_plain = (
        _PLAIN.fullmatch(name)
        and not _HASHED.fullmatch(name.rpartition("-")[2])
        and name not in _DEVICES
        and len(name) <= _SLUG
    )
    if is_plain and not about:
        return name
    digest = hashlib.sha256("\0".join((name, *about)).encode("utf-8", "surrogatepass")).hexdigest()[:10]
    slug = _UNSAFE.sub("-", name.casefold())[:_SLUG].strip("-")
    return f"{slug}-{digest}" if slug else digest


def link(text: str, page: str) -> str:
    """A link to another page of the export. The page is a name that `file_name` made."""
    return f"[{inline(text) or page}]({page})"
